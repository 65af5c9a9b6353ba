package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// Child is one half of a partition while it is made: a checkpoint of the parent's store.
// It removes the rows of the other half while it follows the effects of the parent. No
// request reaches it before the split is done. It belongs to one goroutine.
type Child struct {
	split *Split
	side  side
	store *storage.Store
	state layout.State
	tail  *tail
	gone  *storage.Numbers // of the documents of the other half, once known

	// unsynced is the number of bytes that were applied since the last sync.
	unsynced int
	busy     int64 // calls that the parent had served at the last look
}

// side is the half of the range of a child.
type side int

const (
	left  side = iota // below the cut
	right             // the cut and above
)

const (
	// trimBytes is the number of bytes that one step of a trim reads or writes, which
	// takes a millisecond or two.
	trimBytes = 256 << 10
	// followBytes is the size of a batch that is applied to a child, and the greatest
	// number of bytes that wait for a sync before the parent is sealed.
	followBytes = 1 << 20
	// sealBytes is the number of bytes that a child may still have to follow when the
	// parent is sealed. catchUpsMax is the number of attempts to come that close to a
	// parent that writes as fast as the child follows.
	sealBytes   = 256 << 10
	catchUpsMax = 50
)

// LeftOut returns the bounds of the documents of the other child, for
// [storage.Store.CheckpointWithout].
func (s *Split) LeftOut(own resource.Partition) (low, high []byte) {
	return s.foreign(s.sideOf(own), storage.FamilyDocument)
}

func (s *Split) sideOf(own resource.Partition) side {
	if own.Range.Min.Compare(s.cut) < 0 {
		return left
	}
	return right
}

// foreign returns the bounds of the other side in a family that is ordered by EPK.
func (s *Split) foreign(own side, f storage.Family) (low, high []byte) {
	low, high = f.Bounds()
	cut := append([]byte{byte(f)}, s.bound...)
	if own == left {
		return cut, high
	}
	return low, cut
}

// Adopt makes a child from a checkpoint of the parent that was taken after Split. The
// store belongs to the caller. It is not synced before [Child.Follow] ends.
func (s *Split) Adopt(store *storage.Store, own resource.Partition) (*Child, error) {
	c := &Child{split: s, side: s.sideOf(own), store: store}
	c.tail = s.tails[c.side]
	if err := c.adopt(own); err != nil {
		return nil, fmt.Errorf("adopt partition %s: %w", own.ID, err)
	}
	return c, nil
}

func (c *Child) adopt(own resource.Partition) error {
	snapshot := c.store.Snapshot()
	d, before, _, err := layout.ReadMeta(snapshot)
	if err := errors.Join(err, snapshot.Close()); err != nil {
		return err
	}
	d.Partition = own
	row, err := d.Append()
	if err != nil {
		return err
	}
	// Its document numbers begin at zero, because they have another ordinal.
	c.state = layout.State{LSN: before.LSN, TS: before.TS, Purged: before.Purged, Excludes: before.Excludes}
	batch := c.store.NewBatch()
	defer batch.Close()
	err = errors.Join(
		batch.Set(storage.MetaKey(nil, layout.MetaDescriptor), row),
		batch.Set(storage.MetaKey(nil, layout.MetaState), c.state.Append(nil)),
		c.split.parent.config.putCatalog(batch),
	)
	for _, f := range keyed {
		low, high := c.split.foreign(c.side, f)
		err = errors.Join(err, batch.DeleteRange(low, high))
	}
	for level := 1; level*layout.LevelBytes < c.split.parent.own.Width; level++ {
		if low, high := c.foreignPrefixes(level); bytes.Compare(low, high) < 0 {
			err = errors.Join(err, batch.DeleteRange(low, high))
		}
	}
	if err != nil {
		return err
	}
	return c.store.ApplyNoSync(batch)
}

// How foreign rows of each family are removed from a child.
var (
	// keyed begin with an EPK: one range deletion removes them.
	keyed = []storage.Family{storage.FamilyDocument, storage.FamilyLogical, storage.FamilyUnique}
	// numbered have a document number: those of foreign documents are deleted one by
	// one.
	numbered = []storage.Family{storage.FamilyFeed, storage.FamilyVector, storage.FamilyExpiry}
	// listed are posting lists, from which foreign numbers are removed. Range deletions
	// have removed most lists of prefixes, which begin with a part of an EPK.
	listed = []storage.Family{storage.FamilyPrefix, storage.FamilyTerm}
	// FamilyRID tells which numbers are foreign, and a row of FamilyComplete has its
	// key; FamilyMeta is rewritten.
)

// foreignPrefixes returns the bounds of the posting lists of prefixes of a level that
// only the other side has. They exclude a list that spans the cut.
func (c *Child) foreignPrefixes(level int) (low, high []byte) {
	cut := make([]byte, level*layout.LevelBytes)
	copy(cut, c.split.bound)
	spans := len(c.split.bound) > len(cut)
	at := storage.PrefixKey(nil, level, cut)
	if c.side == right {
		return storage.PrefixKey(nil, level, ""), at
	}
	if spans {
		at = layout.PrefixEnd(at)
	}
	return at, storage.PrefixKey(nil, level+1, "")
}

// Follow trims the child and follows the parent. It calls caughtUp once, when the trim
// is complete and few effects are left to follow. It returns when the parent is sealed
// and all its effects are applied and synced in the child, or with the first error. The
// end of ctx is an error.
func (c *Child) Follow(ctx context.Context, caughtUp func()) (err error) {
	defer func() {
		if err != nil {
			c.tail.abandon() // The parent must not wait for it.
			err = fmt.Errorf("follow partition %s: %w", c.split.parent.own.ID, err)
		}
	}()
	if err := c.trim(ctx); err != nil {
		return err
	}
	more := true
	for n := 0; more && (n == 0 || n < catchUpsMax && c.tail.size() > sealBytes); n++ {
		if more, err = c.catchUp(true); err != nil {
			return err
		}
	}
	caughtUp()
	for more {
		select {
		case <-c.tail.grown:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if more, err = c.catchUp(false); err != nil {
			return err
		}
	}
	return nil
}

// trim removes the rows of the other side from every family, in small steps between
// which the parent serves and is followed.
func (c *Child) trim(ctx context.Context) error {
	if err := c.sum(ctx); err != nil {
		return err
	}
	if err := c.numbers(ctx); err != nil {
		return err
	}
	for _, f := range numbered {
		if err := c.trimNumbered(ctx, f); err != nil {
			return err
		}
	}
	if err := c.trimComplete(ctx); err != nil {
		return err
	}
	for _, f := range listed {
		low, high := f.Bounds()
		err := c.steps(ctx, low, func(low []byte, b *storage.Batch) ([]byte, error) {
			return c.store.TrimPostings(b, low, high, c.gone, trimBytes)
		})
		if err != nil {
			return err
		}
	}
	c.gone = nil
	return nil
}

// steps calls step from low until it returns nil, and applies its batches.
func (c *Child) steps(ctx context.Context, low []byte, step func(low []byte, b *storage.Batch) (next []byte, err error)) error {
	batch := c.store.NewBatch()
	defer batch.Close()
	for low != nil {
		if _, err := c.catchUp(false); err != nil {
			return err
		}
		err := c.turn(ctx, func() (err error) {
			batch.Reset()
			if low, err = step(low, batch); err != nil {
				return err
			}
			c.unsynced += batch.Len()
			return c.store.ApplyNoSync(batch)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// turn calls step while the other child makes none. While the parent serves requests, it
// pauses afterwards for as long as the step took.
func (c *Child) turn(ctx context.Context, step func() error) error {
	select {
	case c.split.trimming <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	began := time.Now()
	err := step()
	took := time.Since(began)
	p := c.split.parent
	served := p.served.calls()
	if err == nil && served != c.busy {
		c.busy = served
		err = pacing.Sleep(ctx, took)
	}
	<-c.split.trimming
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// sum counts the documents and bytes of the child at the beginning. It reads a snapshot,
// because follow adds those of the effects.
func (c *Child) sum(ctx context.Context) error {
	snapshot := c.store.Snapshot()
	low, high := storage.FamilyLogical.Bounds()
	err := c.steps(ctx, low, func(low []byte, _ *storage.Batch) ([]byte, error) {
		rows := snapshot.Iter(low, high)
		read := 0
		for valid := rows.First(); valid; valid = rows.Next() {
			if read >= trimBytes {
				next := bytes.Clone(rows.Key())
				return next, rows.Close()
			}
			t, err := layout.DecodeTotals(rows.Value())
			if err != nil {
				return nil, errors.Join(err, rows.Close())
			}
			c.state.Items, c.state.Bytes = c.state.Items+t.Items, c.state.Bytes+t.Bytes
			read += len(rows.Key()) + len(rows.Value())
		}
		return nil, rows.Close()
	})
	return errors.Join(err, snapshot.Close())
}

// numbers finds the numbers of the documents of the other side, and deletes their
// number rows.
func (c *Child) numbers(ctx context.Context) error {
	var gone storage.NumbersBuilder
	low, high := storage.FamilyRID.Bounds()
	err := c.steps(ctx, low, func(low []byte, b *storage.Batch) ([]byte, error) {
		return c.store.Walk(b, low, high, trimBytes, func(key, suffix []byte) error {
			if c.owns(suffix) {
				return nil
			}
			number, err := storage.DecodeRIDKey(key)
			if err != nil {
				return err
			}
			gone.Add(number)
			return b.Delete(key)
		})
	})
	c.gone = gone.Numbers()
	return err
}

// owns reports whether a row belongs to the child, by its key without the family.
func (c *Child) owns(suffix []byte) bool {
	return (bytes.Compare(suffix, c.split.bound) < 0) == (c.side == left)
}

// trimNumbered removes the rows of foreign documents from a family.
func (c *Child) trimNumbered(ctx context.Context, f storage.Family) error {
	low, high := f.Bounds()
	return c.steps(ctx, low, func(low []byte, b *storage.Batch) ([]byte, error) {
		return c.store.Walk(b, low, high, trimBytes, func(key, value []byte) error {
			number, err := numberIn(f, key, value)
			if err == nil && c.gone.Has(number) {
				err = b.Delete(key)
			}
			return err
		})
	})
}

// trimComplete removes the changes of the other side from the complete feed.
func (c *Child) trimComplete(ctx context.Context) error {
	low, high := storage.FamilyComplete.Bounds()
	return c.steps(ctx, low, func(low []byte, b *storage.Batch) ([]byte, error) {
		return c.store.Walk(b, low, high, trimBytes, func(key, value []byte) error {
			e, err := layout.DecodeRevision(value)
			if err == nil && !c.owns(e.Suffix) {
				err = b.Delete(key)
			}
			return err
		})
	})
}

// numberIn returns the number of the document of a row.
func numberIn(f storage.Family, key, value []byte) (number uint64, err error) {
	switch f {
	case storage.FamilyVector:
		_, number, err = storage.DecodeVectorKey(key)
	case storage.FamilyExpiry:
		_, number, err = storage.DecodeExpiryKey(key)
	default:
		if len(value) < storage.NumberBytes {
			return 0, fmt.Errorf("feed row %x: %w", key, layout.ErrMeta)
		}
		number = binary.BigEndian.Uint64(value)
	}
	return number, err
}

// catchUp applies the effects of the parent. It syncs if there are no more, if many
// bytes are not synced, or if sync is set. It reports whether more may come.
func (c *Child) catchUp(sync bool) (more bool, err error) {
	effects, more, err := c.tail.take()
	if err != nil {
		return false, err
	}
	batch := c.store.NewBatch()
	defer batch.Close()
	for i := range effects {
		if err := c.follow(batch, &effects[i]); err != nil {
			return false, err
		}
		if batch.Len() >= followBytes {
			if err := c.apply(batch, false); err != nil {
				return false, err
			}
		}
	}
	if batch.Empty() && more && !sync {
		return more, nil
	}
	return more, c.apply(batch, sync || !more)
}

// apply commits a batch with the state after it.
func (c *Child) apply(batch *storage.Batch, sync bool) error {
	defer batch.Reset()
	if err := batch.Set(storage.MetaKey(nil, layout.MetaState), c.state.Append(nil)); err != nil {
		return err
	}
	if c.unsynced += batch.Len(); sync || c.unsynced > followBytes {
		c.unsynced = 0
		return c.store.Apply(batch)
	}
	return c.store.ApplyNoSync(batch)
}

// follow adds an effect of the parent to a batch: its rows if they are of this side, and
// its LSN always.
func (c *Child) follow(batch *storage.Batch, e *replication.Effect) error {
	if e.LSN <= c.state.LSN && e.LSN != 0 {
		return nil // The checkpoint has it.
	}
	if e.LSN != c.state.LSN+1 {
		return fmt.Errorf("effect %d follows %d", e.LSN, c.state.LSN)
	}
	own, err := c.ownsEffect(e)
	if err != nil {
		return fmt.Errorf("effect %d: %w", e.LSN, err)
	}
	err = storage.ReadRows(e.Rows, func(r storage.Row) error {
		if r.Key[0] == byte(storage.FamilyMeta) {
			return c.followMeta(batch, r)
		}
		if own {
			return batch.Add(r)
		}
		return nil
	})
	c.state.LSN = e.LSN
	if own {
		c.state.Items, c.state.Bytes = c.state.Items+e.Items, c.state.Bytes+e.Bytes
	}
	return err
}

// ownsEffect reports whether the key of an effect is on this side. An effect that changes
// only the marks of purges has no key, and no rows of either side.
func (c *Child) ownsEffect(e *replication.Effect) (own bool, err error) {
	owned, foreign, marks := 0, 0, false
	err = storage.ReadRows(e.Rows, func(r storage.Row) error {
		f, known := storage.FamilyOf(r.Key)
		if !known {
			return fmt.Errorf("row %x is of no family", r.Key)
		}
		marks = marks || f == storage.FamilyMeta && string(r.Key[1:]) == layout.MetaPurges
		if f != storage.FamilyDocument && f != storage.FamilyLogical {
			return nil
		}
		if c.owns(r.Key[1:]) {
			owned++
		} else {
			foreign++
		}
		return nil
	})
	if err == nil && (owned == 0) == (foreign == 0) && !(marks && owned == 0) {
		err = fmt.Errorf("it has %d rows of this side and %d of the other", owned, foreign)
	}
	return owned > 0, err
}

// followMeta adopts the meta rows of an effect: the time, the complete paths, which are
// complete in each half as well, the list of the complete feed, and the marks of
// purges, which may extend beyond the half.
func (c *Child) followMeta(batch *storage.Batch, r storage.Row) error {
	switch name := string(r.Key[1:]); name {
	case layout.MetaState:
		s, err := layout.DecodeState(r.Value)
		c.state.TS, c.state.Purged, c.state.Excludes = max(c.state.TS, s.TS), s.Purged, c.state.Excludes || s.Excludes
		return err
	case layout.MetaPaths, layout.MetaPathsNext, layout.MetaKept, layout.MetaPurges:
		return batch.Add(r)
	case layout.MetaCatalog:
		return nil // Adopt has written one, and the first effect of the child writes a newer one.
	default:
		return fmt.Errorf("meta row %q in an effect: %w", name, layout.ErrMeta)
	}
}
