package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// Merge is the parents' side of a merge in progress. Cluster calls BeginMerge, makes a
// checkpoint of one parent's store and calls Adopt, calls [Merged.Follow] in the
// background until it has caught up, then Seal, commits to the catalog, and calls Done,
// Cancel or Suspend. docs/merge.md describes the steps.
type Merge struct {
	parents [2]*handover // in the order of their ranges, one tail each
}

// merging is what happens to a partition in a merge.
const merging = "merged"

// purging is the error of a merge while documents of a parent are purged.
func purging(id resource.PartitionID) error {
	return status.New(status.CodeConflict, 0, "Documents of partition %s that were deleted by their partition key are being cleared away. It can be merged afterwards.", id)
}

// BeginMerge begins to merge two adjacent partitions: from one point in the order of its
// effects on, each keeps them for the child. The error is Conflict, with no change,
// while one of them is split or merged, its index is rebuilt or its documents are
// purged. A later purge ends the merge. A later change of the policy waits for the end
// of the merge.
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

// Cancel undoes the merge: both parents serve as before.
func (m *Merge) Cancel() {
	for _, h := range m.parents {
		h.Cancel()
	}
}

// Done ends both parents, because their child owns their ranges now. Waiting and later
// requests get PartitionMoved. Reads in progress finish.
func (m *Merge) Done() {
	for _, h := range m.parents {
		h.Done()
	}
}

// Suspend ends the writes of both parents when it is unknown whether their child owns
// their ranges. Waiting and later writes get err. Reads continue.
func (m *Merge) Suspend(err *status.Error) {
	for _, h := range m.parents {
		h.Suspend(err)
	}
}

// Resume ends a Suspend if the child does not own the ranges. The caller calls Cancel
// next.
func (m *Merge) Resume() {
	for _, h := range m.parents {
		h.Resume()
	}
}

// Merged is the child of a merge while it is made: a checkpoint of one parent's store.
// The rows of the other parent are copied into it while it follows the effects of both.
// No request reaches it before the merge is done. It belongs to one goroutine.
type Merged struct {
	merge *Merge
	own   resource.Partition
	store *storage.Store

	base  int             // the parent whose checkpoint the store was
	lsns  [2]resource.LSN // of the last effect of each parent that the child has or will copy
	copy  copying
	batch *storage.Batch
	// unsynced is the number of bytes that were applied since the last sync.
	unsynced int
	busy     int64 // calls that the parents had served at the last look
}

// copying is the progress of the copy of the other parent's rows: all rows below low, in
// the order of copied, have been copied.
type copying struct {
	low  []byte
	done bool
}

// copied are the families that are copied, in this order. FamilyMeta is rewritten.
var copied = []storage.Family{
	storage.FamilyDocument, storage.FamilyFeed, storage.FamilyPrefix, storage.FamilyVector,
	storage.FamilyLogical, storage.FamilyRID, storage.FamilyTerm, storage.FamilyUnique, storage.FamilyComplete, storage.FamilyExpiry,
}

// Adopt makes a child from a checkpoint of one parent, the base, that was taken after
// BeginMerge. The store belongs to the caller. It is not synced before [Merged.Follow]
// ends.
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
	// Every step of the copy reads a state that has the effects of this one at least.
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

// Follow copies the rows of the other parent and follows both parents. It calls caughtUp
// once, when the copy is complete and few effects are left to follow. It returns when
// both parents are sealed and all their effects are applied and synced in the child, or
// with the first error. The end of ctx is an error.
func (c *Merged) Follow(ctx context.Context, caughtUp func()) (err error) {
	c.batch = c.store.NewBatch()
	defer func() {
		err = errors.Join(err, c.batch.Close())
		if err != nil {
			for _, h := range c.merge.parents {
				h.tails[0].abandon() // The parent must not wait for it.
			}
			err = fmt.Errorf("merge into partition %s: %w", c.own.ID, err)
		}
	}()
	if err := c.copyRows(ctx); err != nil {
		return err
	}
	more := true
	for n := 0; more && (n == 0 || n < catchUpsMax && c.lag() > sealBytes); n++ {
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

// lag returns the number of bytes that wait in the longer tail.
func (c *Merged) lag() int {
	return max(c.merge.parents[0].tails[0].size(), c.merge.parents[1].tails[0].size())
}

// wait waits until there are effects to follow.
func (c *Merged) wait(ctx context.Context) error {
	select {
	case <-c.merge.parents[0].tails[0].grown:
	case <-c.merge.parents[1].tails[0].grown:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// copyRows copies all rows of the other parent, in small steps between which the parents
// serve and are followed. Each step reads the state that is published when it begins, so
// no snapshot is held for long, and the number of effects to follow does not grow with
// the size of the copy. It waits for the compactions of the child: otherwise writers of
// the child would soon wait for them.
func (c *Merged) copyRows(ctx context.Context) error {
	for _, f := range copied {
		low, high := f.Bounds()
		c.copy.low = low
		for low != nil {
			if _, err := c.catchUp(false); err != nil {
				return err
			}
			if c.store.Backlogged() {
				if err := pacing.Sleep(ctx, crowdedPause); err != nil {
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

// step copies the next rows of a family and returns the key at which to continue, nil at
// the end.
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

// rest pauses for as long as a step took, if a parent has served requests meanwhile.
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
	return pacing.Sleep(ctx, took)
}

// crowdedPause is the time between two looks at the backlog of the child's compactions.
const crowdedPause = 20 * time.Millisecond

// catchUp applies the effects of the parents. It syncs if many bytes are not synced, or if
// sync is set. It reports whether more may come.
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

// follow adds an effect of a parent to the batch: all rows if the parent is the base, and
// otherwise those that the copy has passed. The copy reads the others later.
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
			return fmt.Errorf("it deletes a range from %x on", r.Key) // No effect does; the copy could be inside of the range.
		case r.Key[0] == byte(storage.FamilyMeta):
			return nil
		case parent != c.base && !c.copy.done && bytes.Compare(r.Key, c.copy.low) >= 0:
			return nil
		}
		return c.batch.Add(r)
	})
}

// apply commits the batch and empties it. It syncs if sync is set, or if many bytes are
// not synced.
func (c *Merged) apply(sync bool) error {
	defer c.batch.Reset()
	if c.unsynced += c.batch.Len(); !sync && c.unsynced <= followBytes {
		return c.store.ApplyNoSync(c.batch)
	}
	c.unsynced = 0
	return c.store.Apply(c.batch)
}

// finish writes the meta rows of the child and syncs it. Both parents are sealed, and the
// child has all of their effects.
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
			return purging(h.parent.own.ID) // The purge came during the merge.
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

// parting is the final state of a sealed parent, without its rows.
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
	// Its document numbers begin at zero, because they have another ordinal.
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
		c.batch.Delete(storage.MetaKey(nil, layout.MetaPurges)), // The checkpoint can have some that were removed later.
	)
	parents := c.merge.parents
	if parents[0].parent.config.Container().Retention > 0 {
		list := joined(parents[0].parent, parents[1].parent, *low, *high)
		err = errors.Join(err, c.batch.Set(storage.MetaKey(nil, layout.MetaKept), list.Append(nil)))
	} else {
		err = errors.Join(err, c.batch.Delete(storage.MetaKey(nil, layout.MetaKept)))
	}
	complete := low.paths.And(high.paths)
	switch { // A parent without documents does not count.
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
