package partition

import (
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// adoptMin is the size in bytes from which an effect is not copied into a batch with
// others.
const adoptMin = 1 << 20

// Apply commits effects in one synced batch and publishes the state after them. It is
// the partition's part of [replication.StateMachine]. Calls must not overlap.
//
// It rejects an effect of another generation, and one that does not follow the last
// LSN because an earlier effect was lost. Rejections are the same on every replica
// and leave no trace. Any error stops the partition: what the store has then is
// unknown until it is opened again.
func (p *Partition) Apply(effects []replication.Effect) (rejected []error, err error) {
	defer p.contain(&err)
	if err := p.health.err(); err != nil {
		return nil, err
	}
	now := p.states.current.Load()
	if now == nil {
		return nil, errClosed()
	}
	batch := p.config.Store.NewBatch()
	defer func() {
		if batch != nil {
			_ = batch.Close() // It is memory only.
		}
	}()
	next, reload := now.State, false
	for i, e := range effects {
		if refusal := p.refuse(e, next.LSN); refusal != nil {
			if rejected == nil {
				rejected = make([]error, len(effects))
			}
			rejected[i] = refusal
			continue
		}
		if e.Kind != replication.Write {
			p.apply.shape.turn(e.Kind)
			continue
		}
		p.apply.shape.keep(e)
		if e.LSN != 0 && e.LSN <= next.LSN {
			panic(fmt.Sprintf("effect %d comes after %d", e.LSN, next.LSN))
		}
		p.apply.moves.Reset()
		if len(effects) == 1 && len(e.Rows) >= adoptMin {
			batch, err = storage.Adopt(e.Rows, p.apply.moves.See)
		} else {
			err = batch.AppendEach(e.Rows, p.apply.moves.See)
		}
		if err != nil {
			p.fail(fmt.Errorf("apply effect %d: %w", e.LSN, err))
			return rejected, p.health.err()
		}
		if e.LSN == 0 {
			reload = true
		} else {
			next.LSN = e.LSN
		}
		p.reader.Note(next.LSN, &p.apply.moves)
		next.Items, next.Bytes = next.Items+e.Items, next.Bytes+e.Bytes
	}
	if !batch.Empty() {
		if err := p.commit(batch, now, next, reload); err != nil {
			p.fail(fmt.Errorf("apply %d effects after %d: %w", len(effects), now.LSN, err))
			return rejected, p.health.err()
		}
	}
	// Only durable effects may reach the children.
	p.apply.shape.pass()
	return rejected, nil
}

// refuse returns why an effect is rejected, nil if it is not.
func (p *Partition) refuse(e replication.Effect, last resource.LSN) error {
	if e.Generation != p.own.Generation {
		return status.PartitionMoved(status.SubRangeGone)
	}
	if p.apply.shape.sealed && e.Kind == replication.Write {
		return status.Unavailable(nil, "The partition is being split. Try again.")
	}
	if e.LSN > last+1 {
		return status.Unavailable(fmt.Errorf("effect %d does not follow %d", e.LSN, last), "A write before this one failed. Try again.")
	}
	return nil
}

// commit writes a batch and publishes the state after it.
func (p *Partition) commit(batch *storage.Batch, now *published, next layout.State, reload bool) error {
	if err := p.config.Store.Apply(batch); err != nil {
		return err
	}
	snapshot := p.config.Store.Snapshot()
	after, err := p.stateIn(snapshot, now, reload)
	if err == nil && (after.LSN != next.LSN || after.Items != next.Items || after.Bytes != next.Bytes) {
		err = fmt.Errorf("the store has state %+v, its effects result in %+v", after.State, next)
	}
	if err != nil {
		return errors.Join(err, snapshot.Close())
	}
	p.states.publish(after)
	p.weigh(after.Bytes)
	return nil
}

// stateIn reads the meta rows of a snapshot. It reads the index row again only if
// reload says that an effect may have changed it, and the marks of purges only if the
// state says that they have changed.
func (p *Partition) stateIn(snapshot *storage.Snapshot, before *published, reload bool) (*published, error) {
	after := &published{Snapshot: scan.Snapshot{Rows: snapshot, Indexing: before.Indexing, Marks: before.Marks}}
	read := func(name string, use func(row []byte) error) error {
		var room [16]byte
		found, err := snapshot.View(storage.MetaKey(room[:0], name), use)
		if err == nil && !found {
			err = fmt.Errorf("row %s is missing: %w", name, layout.ErrMeta)
		}
		return err
	}
	err := read(layout.MetaState, func(row []byte) (err error) {
		after.State, err = layout.DecodeState(row)
		return err
	})
	if err == nil && after.Purged != before.Purged {
		after.Marks, err = layout.ReadMarks(snapshot, after.State)
	}
	if err != nil || !reload {
		return after, err
	}
	return after, read(layout.MetaIndex, func(row []byte) error {
		x, err := layout.DecodeIndexRow(row)
		if err == nil {
			after.Indexing, err = layout.CompileIndexing(x, before.Indexing)
		}
		return err
	})
}
