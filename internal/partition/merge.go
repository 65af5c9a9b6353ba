package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/decandb/decan/internal/partition/layout"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// Merge is the parents' side of a merge under way. Cluster drives it: BeginMerge,
// then a checkpoint of one parent's store and Adopt, [Merged.Follow] in the
// background until it has caught up, Seal, the catalog's commit, and at the end
// Done, Cancel or Suspend. docs/merge.md has the walk.
type Merge struct {
	parents [2]*handover // in the order of their ranges, one tail each
}

// merging is what becomes of a partition in a merge.
const merging = "merged"

func purging(id resource.PartitionID) error {
	return status.New(status.CodeConflict, 0, "Documents of partition %s that were deleted by their partition key are being cleared away. It can be merged afterwards.", id)
}

// BeginMerge begins to merge two neighbours: from one point in the order of each
// one's effects on they are kept for the child. What it answers with Conflict has
// changed nothing: one of them is being split or merged, its index rebuilt or its
// documents purged, from which a merge keeps apart; a purge that comes later ends
// the merge. A change of the policy that comes later waits
// for the end of the merge.
func BeginMerge(ctx context.Context, low, high *Partition) (*Merge, error) {
	m := new(Merge)
	for i, p := range []*Partition{low, high} {
		m.parents[i] = &handover{parent: p, what: merging, tails: []*tail{newTail()}}
		if err := m.parents[i].begin(ctx); err != nil {
			if i > 0 {
				m.parents[0].Cancel()
			}
			return nil, err
		}
	}
	return m, nil
}

// Seal ends the writes of both parents, as [Split.Seal] does for one. After an
// error one of them may be sealed, which Cancel takes back.
func (m *Merge) Seal(ctx context.Context) error {
	second := make(chan error, 1)
	go func() { second <- m.parents[1].Seal(ctx) }()
	err := m.parents[0].Seal(ctx)
	return errors.Join(err, <-second)
}

// Cancel undoes the merge: both parents serve on as if there had been none.
func (m *Merge) Cancel() {
	for _, h := range m.parents {
		h.Cancel()
	}
}

// Done ends both parents, whose child owns their ranges now: requests that wait,
// and all that come, get PartitionMoved. Readers under way finish.
func (m *Merge) Done() {
	for _, h := range m.parents {
		h.Done()
	}
}

// Suspend ends the writes of both parents when nobody knows whether their child
// owns their ranges: requests that wait, and all that come, get err. Reads go on.
func (m *Merge) Suspend(err *status.Error) {
	for _, h := range m.parents {
		h.Suspend(err)
	}
}

// Resume ends a Suspend whose child does not own the ranges: Cancel is next.
func (m *Merge) Resume() {
	for _, h := range m.parents {
		h.Resume()
	}
}

// Merged is the child of a merge while it is made: a checkpoint of one parent's
// store, into which the rows of the other are copied while it follows what both
// write. Nobody serves from it before the merge is done. It belongs to one
// goroutine.
type Merged struct {
	merge *Merge
	own   resource.Partition
	store *storage.Store

	base  int             // the parent whose checkpoint the store was
	lsns  [2]resource.LSN // of the last effect of each parent that is here or will be copied
	copy  copying
	batch *storage.Batch
	// unsynced is how many bytes were applied since the last sync.
	unsynced int
	busy     int64 // what the parents had served at the last look
}

// copying is how far the rows of the other parent have come over: all below low,
// in the order of keys.
type copying struct {
	low  []byte
	done bool
}

// copied are the families whose rows come over; FamilyMeta is written anew.
var copied = []storage.Family{
	storage.FamilyDocument, storage.FamilyFeed, storage.FamilyPrefix, storage.FamilyVector,
	storage.FamilyLogical, storage.FamilyRID, storage.FamilyTerm, storage.FamilyUnique, storage.FamilyComplete, storage.FamilyExpiry,
}

// Adopt makes a child of a checkpoint of one parent, the base, that was taken
// since BeginMerge. The store stays the caller's. It is not synced before
// [Merged.Follow] ends.
func (m *Merge) Adopt(store *storage.Store, own resource.Partition, base resource.PartitionID) (*Merged, error) {
	c := &Merged{merge: m, own: own, store: store}
	if m.parents[1].parent.own.ID == base {
		c.base = 1
	}
	if err := c.adopt(); err != nil {
		return nil, fmt.Errorf("adopt partition %s: %w", own.ID, err)
	}
	return c, nil
}

func (c *Merged) adopt() error {
	snapshot := c.store.Snapshot()
	_, before, _, err := layout.ReadMeta(snapshot)
	if err := errors.Join(err, snapshot.Close()); err != nil {
		return err
	}
	c.lsns[c.base] = before.LSN
	// Every step of the copy reads a state that has at least this one's effects.
	other, err := c.other().acquire()
	if err != nil {
		return err
	}
	defer c.other().release(other)
	c.lsns[1-c.base] = other.LSN
	return nil
}

// other is the parent whose rows are copied.
func (c *Merged) other() *Partition { return c.merge.parents[1-c.base].parent }

// Follow copies the rows of the other parent and has the child catch up with both.
// It calls caughtUp once, when all is copied and little is left to follow, and
// returns when both parents are sealed and the child has and synced all of theirs,
// with the first error otherwise. The context ends it.
func (c *Merged) Follow(ctx context.Context, caughtUp func()) (err error) {
	c.batch = c.store.NewBatch()
	defer func() {
		err = errors.Join(err, c.batch.Close())
		if err != nil {
			for _, h := range c.merge.parents {
				h.tails[0].abandon() // Nobody takes from it: the parent must not wait.
			}
			err = fmt.Errorf("merge into partition %s: %w", c.own.ID, err)
		}
	}()
	if err := c.copyRows(ctx); err != nil {
		return err
	}
	more := true
	for n := 0; more && (n == 0 || n < catchUpsMax && c.behind() > sealBytes); n++ {
		if more, err = c.catchUp(true); err != nil {
			return err
		}
	}
	caughtUp()
	for more {
		if err := c.wait(ctx); err != nil {
			return err
		}
		if more, err = c.catchUp(false); err != nil {
			return err
		}
	}
	return c.finish()
}

// behind is how many bytes wait of the parent of which more do.
func (c *Merged) behind() int {
	return max(c.merge.parents[0].tails[0].size(), c.merge.parents[1].tails[0].size())
}

// wait returns when there is something to follow.
func (c *Merged) wait(ctx context.Context) error {
	select {
	case <-c.merge.parents[0].tails[0].grown:
	case <-c.merge.parents[1].tails[0].grown:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// copyRows copies everything of the other parent, in small steps between which the
// parents are served and followed. Each step reads what is published when it
// begins: so no snapshot is held, and what has to be followed does not grow with
// the size of the copy. It leaves the compactions of the child time: a child that is
// handed over with many tables to sort would soon have its writers wait.
func (c *Merged) copyRows(ctx context.Context) error {
	for _, f := range copied {
		low, high := f.Bounds()
		c.copy.low = low
		for low != nil {
			if _, err := c.catchUp(false); err != nil {
				return err
			}
			if c.store.Backlogged() {
				if err := pause(ctx, crowdedPause); err != nil {
					return err
				}
				continue
			}
			began := time.Now()
			next, err := c.step(low, high)
			if err != nil {
				return err
			}
			if low = next; low != nil {
				c.copy.low = low
			}
			if err := c.rest(ctx, time.Since(began)); err != nil {
				return err
			}
		}
		c.copy.low = high
	}
	c.copy.done = true
	return nil
}

// step copies the next rows of a family and returns where to go on, nil at its
// end.
func (c *Merged) step(low, high []byte) (next []byte, err error) {
	p := c.other()
	now, err := p.acquire()
	if err != nil {
		return nil, err
	}
	defer p.release(now)
	c.batch.Reset()
	if next, err = now.Rows.CopyTo(c.batch, low, high, trimBytes); err != nil {
		return nil, err
	}
	return next, c.apply(false)
}

// rest leaves the processor for as long as a step took, while a parent serves.
func (c *Merged) rest(ctx context.Context, took time.Duration) error {
	served := int64(0)
	for _, h := range c.merge.parents {
		p := h.parent
		served += p.served.calls()
	}
	if served == c.busy {
		return context.Cause(ctx)
	}
	c.busy = served
	return pause(ctx, took)
}

// crowdedPause is how long a copy waits until it looks at the tables of its child again.
const crowdedPause = 20 * time.Millisecond

// pause waits. The context ends it.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// catchUp applies what the parents have written. The last of it is synced, or
// everything when sync is set. It reports whether more can come.
func (c *Merged) catchUp(sync bool) (more bool, err error) {
	c.batch.Reset()
	for i, h := range c.merge.parents {
		effects, further, err := h.tails[0].take()
		if err != nil {
			return false, err
		}
		more = more || further
		for e := range effects {
			if err := c.follow(i, &effects[e]); err != nil {
				return false, fmt.Errorf("effect %d of partition %s: %w", effects[e].LSN, h.parent.own.ID, err)
			}
			if c.batch.Len() >= followBytes {
				if err := c.apply(false); err != nil {
					return false, err
				}
			}
		}
	}
	return more, c.apply(sync)
}

// follow adds an effect of a parent to the batch: all its rows of the base, and of
// the other those that the copy has passed. The copy will find the rest.
func (c *Merged) follow(parent int, e *replication.Effect) error {
	if e.LSN <= c.lsns[parent] && e.LSN != 0 {
		return nil
	}
	if e.LSN != c.lsns[parent]+1 {
		return fmt.Errorf("it follows %d", c.lsns[parent])
	}
	c.lsns[parent] = e.LSN
	return storage.ReadRows(e.Rows, func(r storage.Row) error {
		switch {
		case r.Kind == storage.RowDeleteRange:
			return fmt.Errorf("it deletes a range from %x on", r.Key) // None does, and the copy may stand inside.
		case r.Key[0] == byte(storage.FamilyMeta):
			return nil
		case parent != c.base && !c.copy.done && bytes.Compare(r.Key, c.copy.low) >= 0:
			return nil
		}
		return c.batch.Add(r)
	})
}

// apply commits the batch and empties it. It syncs when told to, and when much
// has been applied without.
func (c *Merged) apply(sync bool) error {
	defer c.batch.Reset()
	if c.unsynced += c.batch.Len(); !sync && c.unsynced <= followBytes {
		return c.store.ApplyNoSync(c.batch)
	}
	c.unsynced = 0
	return c.store.Apply(c.batch)
}

// finish writes what the child is, now that both parents are sealed and all of
// theirs is here, and syncs it.
func (c *Merged) finish() error {
	var last [2]parting
	for i, h := range c.merge.parents {
		var err error
		if last[i], err = h.parent.part(); err != nil {
			return err
		}
		if last[i].state.LSN != c.lsns[i] {
			return fmt.Errorf("partition %s ended at %d, and was followed to %d", h.parent.own.ID, last[i].state.LSN, c.lsns[i])
		}
	}
	for i, h := range c.merge.parents {
		if last[i].state.Purged != 0 {
			return purging(h.parent.own.ID) // They have been marked meanwhile.
		}
	}
	if !last[0].policy.Equal(last[1].policy) {
		return errors.New("the parents have different indexes")
	}
	c.batch.Reset()
	if err := c.describe(last); err != nil {
		return err
	}
	return c.apply(true)
}

// parting is what a sealed parent leaves besides its rows.
type parting struct {
	state  layout.State
	paths  layout.PathSet
	kept   layout.KeptList
	policy resource.IndexingPolicy
}

func (p *Partition) part() (parting, error) {
	now, err := p.acquire()
	if err != nil {
		return parting{}, err
	}
	defer p.release(now)
	known, err := layout.ReadPaths(now.Rows)
	list, keptErr := layout.ReadKept(now.Rows)
	return parting{state: now.State, paths: known.InUse, kept: list, policy: now.Indexing.Policy}, errors.Join(err, keptErr)
}

// describe puts the meta rows of the child into the batch.
func (c *Merged) describe(last [2]parting) error {
	base := c.merge.parents[c.base].parent.own
	base.Partition = c.own
	descriptor, err := base.Append()
	if err != nil {
		return err
	}
	low, high := &last[0], &last[1]
	known := layout.MergeMark{LSN: max(low.state.LSN, high.state.LSN), TS: max(low.state.TS, high.state.TS)}
	// Its numbers begin anew, because they have an ordinal of their own.
	sum := layout.State{
		LSN:   known.LSN + 1,
		Items: low.state.Items + high.state.Items,
		Bytes: low.state.Bytes + high.state.Bytes,
		TS:    known.TS,

		Excludes: low.state.Excludes || high.state.Excludes,
	}
	err = errors.Join(
		c.batch.Set(storage.MetaKey(nil, layout.MetaDescriptor), descriptor),
		c.batch.Set(storage.MetaKey(nil, layout.MetaState), sum.Append(nil)),
		c.batch.Set(storage.MetaKey(nil, layout.MetaMerged), known.Append(nil)),
		c.other().config.putCatalog(c.batch),
		c.batch.Delete(storage.MetaKey(nil, layout.MetaPathsNext)),
		c.batch.Delete(storage.MetaKey(nil, layout.MetaPurges)), // The checkpoint may have some that are gone.
	)
	parents := c.merge.parents
	if parents[0].parent.config.Container().Retention > 0 {
		list := joined(parents[0].parent, parents[1].parent, *low, *high)
		err = errors.Join(err, c.batch.Set(storage.MetaKey(nil, layout.MetaKept), list.Append(nil)))
	} else {
		err = errors.Join(err, c.batch.Delete(storage.MetaKey(nil, layout.MetaKept)))
	}
	complete := low.paths.And(high.paths)
	switch { // What no document lacks is complete.
	case low.state.Items == 0:
		complete = high.paths
	case high.state.Items == 0:
		complete = low.paths
	}
	if len(complete) == 0 {
		return errors.Join(err, c.batch.Delete(storage.MetaKey(nil, layout.MetaPaths)))
	}
	return errors.Join(err, c.batch.Set(storage.MetaKey(nil, layout.MetaPaths), complete.Append(nil)))
}
