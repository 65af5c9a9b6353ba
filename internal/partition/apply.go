package partition

import (
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// adoptMin is from how many bytes on an effect is not copied into a batch with others.
const adoptMin = 1 << 20

// Apply commits effects in one synced batch and publishes what they lead to: it
// is this partition's part of [replication.StateMachine]. Calls do not overlap.
//
// An effect of another generation is rejected, and so is one that does not
// follow the last LSN because an effect before it was lost: both the same on
// every replica, without a trace. Any error stops the partition: what the store
// holds then is not known until it is opened again.
func (p *Partition) Apply(effects []replication.Effect) (rejected []error, err error) {
	defer p.contain(&err)
	if err := p.err(); err != nil {
		return nil, err
	}
	now := p.current.Load()
	if now == nil {
		return nil, errClosed()
	}
	batch := p.config.Store.NewBatch()
	defer func() {
		if batch != nil {
			_ = batch.Close() // It is memory only.
		}
	}()
	next, reload := now.state, false
	for i, e := range effects {
		if refusal := p.refuse(e, next.lsn); refusal != nil {
			if rejected == nil {
				rejected = make([]error, len(effects))
			}
			rejected[i] = refusal
			continue
		}
		if e.Kind != replication.Write {
			p.shape.turn(e.Kind)
			continue
		}
		p.shape.keep(e)
		if e.LSN != 0 && e.LSN <= next.lsn {
			panic(fmt.Sprintf("effect %d comes after %d", e.LSN, next.lsn))
		}
		p.moves.reset()
		if len(effects) == 1 && len(e.Rows) >= adoptMin {
			batch, err = storage.Adopt(e.Rows, p.moves.see)
		} else {
			err = batch.AppendEach(e.Rows, p.moves.see)
		}
		if err != nil {
			p.fail(fmt.Errorf("apply effect %d: %w", e.LSN, err))
			return rejected, p.err()
		}
		if e.LSN == 0 {
			reload = true
		} else {
			next.lsn = e.LSN
		}
		p.rosters.note(next.lsn, &p.moves)
		next.items, next.bytes = next.items+e.Items, next.bytes+e.Bytes
	}
	if !batch.Empty() {
		if err := p.commit(batch, now, next, reload); err != nil {
			p.fail(fmt.Errorf("apply %d effects behind %d: %w", len(effects), now.lsn, err))
			return rejected, p.err()
		}
	}
	// Only what is durable here may reach the children.
	p.shape.pass()
	return rejected, nil
}

// refuse returns why an effect is left out, nil when it is not.
func (p *Partition) refuse(e replication.Effect, last resource.LSN) error {
	if e.Generation != p.descriptor.Generation {
		return status.PartitionMoved(status.SubRangeGone)
	}
	if p.shape.sealed && e.Kind == replication.Write {
		return status.Unavailable(nil, "The partition is being split. Try again.")
	}
	if e.LSN > last+1 {
		return status.Unavailable(fmt.Errorf("effect %d does not follow %d", e.LSN, last), "A write before this one failed. Try again.")
	}
	return nil
}

// commit writes a batch and publishes the state behind it.
func (p *Partition) commit(batch *storage.Batch, now *published, next state, reload bool) error {
	if err := p.config.Store.Apply(batch); err != nil {
		return err
	}
	snapshot := p.config.Store.Snapshot()
	after, err := p.stateIn(snapshot, now, reload)
	if err == nil && (after.lsn != next.lsn || after.items != next.items || after.bytes != next.bytes) {
		err = fmt.Errorf("the store has state %+v, its effects lead to %+v", after.state, next)
	}
	if err != nil {
		return errors.Join(err, snapshot.Close())
	}
	p.publish(after)
	p.weigh(after.bytes)
	return nil
}

// stateIn reads the state that a snapshot shows. The index row is only read
// again when an effect may have changed it, and the marks of purges when the state
// says so.
func (p *Partition) stateIn(snapshot *storage.Snapshot, before *published, reload bool) (*published, error) {
	after := &published{snapshot: snapshot, indexing: before.indexing, purges: before.purges}
	read := func(name string, use func(row []byte) error) error {
		var room [16]byte
		found, err := snapshot.View(storage.MetaKey(room[:0], name), use)
		if err == nil && !found {
			err = fmt.Errorf("row %s is missing: %w", name, errMeta)
		}
		return err
	}
	err := read(metaState, func(row []byte) (err error) {
		after.state, err = decodeState(row)
		return err
	})
	if err == nil && after.purged != before.purged {
		after.purges, err = readPurges(snapshot, after.state)
	}
	if err != nil || !reload {
		return after, err
	}
	return after, read(metaIndex, func(row []byte) error {
		x, err := decodeIndexRow(row)
		if err == nil {
			after.indexing, err = compileIndexing(x, before.indexing)
		}
		return err
	})
}
