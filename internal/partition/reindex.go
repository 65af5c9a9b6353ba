package partition

import (
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// Reindex starts to change the index to the container's current policy, in the
// background between writes, and returns at once. It continues a change that was in
// progress, and does nothing if the policy is the same, unless an earlier version of this
// program left documents out of the index or made it with other tokens. Queries use the new policy when
// its index is complete; [Stats] have the progress. A step that fails is repeated after
// the next write or call.
func (p *Partition) Reindex() {
	p.intake.mu.Lock()
	defer p.intake.mu.Unlock()
	if p.intake.closed {
		return
	}
	p.intake.reindex = true
	p.intake.startLocked()
}

// sweeping reports whether the writer has to continue a change of policy.
func (p *Partition) sweeping() bool {
	p.intake.mu.Lock()
	defer p.intake.mu.Unlock()
	return p.sweepingLocked()
}

func (p *Partition) sweepingLocked() bool {
	if p.intake.closed || p.intake.handing != nil || p.health.failure.Load() != nil {
		return false // A rebuild does not run during a split or merge.
	}
	if p.intake.reindex {
		return true
	}
	now := p.states.current.Load()
	return now != nil && now.Indexing.Phase != layout.Settled && !p.writer.stalled
}

// sweep makes one step. Its effect has no LSN, so it is evaluated when there are no
// proposed effects, and nothing is evaluated until its result is known.
func (p *Partition) sweep() {
	p.intake.mu.Lock()
	p.intake.reindex = false
	p.intake.mu.Unlock()
	p.drain()
	p.writer.stalled = false
	if err := p.step(); err != nil {
		p.writer.stalled = true
		p.config.Logger.Warn("index rebuild stopped", "partition", p.own.ID, "err", err)
	}
}

// step makes one step of a change of policy, if there is one.
func (p *Partition) step() (err error) {
	defer p.contain(&err)
	now, err := p.acquire()
	if err != nil {
		return err
	}
	defer p.release(now)
	known, err := p.knownPaths(now)
	if err != nil {
		return err
	}
	b := builder{batch: p.config.Store.NewBatch(), writer: &p.writer}
	complete := known
	row, err := p.nextStep(now, &b, &complete)
	if err != nil || row == nil {
		return errors.Join(err, b.batch.Close())
	}
	if err := p.config.Store.CanGrow(); err != nil {
		return errors.Join(err, b.batch.Close())
	}
	text, err := row.Append()
	if err != nil {
		return errors.Join(err, b.batch.Close())
	}
	b.check(b.batch.Set(storage.MetaKey(nil, layout.MetaIndex), text))
	b.paths(known, complete)
	b.under(p)
	if b.err != nil {
		return errors.Join(b.err, b.batch.Close())
	}
	f := p.propose(b.batch, 0, 0, 0)
	p.writer.paths = complete
	<-f.proposal.Done()
	err = f.proposal.Err()
	p.reap()
	if row.Phase == layout.Settled && err == nil {
		// The policy may have changed again.
		p.intake.askReindex()
	}
	return err
}

// nextStep adds the changes of the next step to the batch, updates the complete paths,
// and returns the index row after the step, nil if there is no step.
func (p *Partition) nextStep(now *published, b *builder, complete *layout.Paths) (*layout.IndexRow, error) {
	row := now.Indexing.IndexRow
	if row.Phase == layout.Settled {
		want := p.config.Container().Indexing
		if row.Current(want) && !row.LeftOut(&now.State) {
			if row.Directives {
				next := layout.NewIndexRow(row.Policy)
				return &next, nil
			}
			return nil, nil
		}
		next, err := layout.Compile(want)
		if err != nil {
			return nil, err
		}
		if complete.Next, err = p.firstPaths(now, next); err != nil {
			return nil, err
		}
		p.config.Logger.Info("index rebuild started", "partition", p.own.ID, "documents", now.Items)
		row.Begin(want)
		return p.beginSweep(now, row, layout.Building)
	}
	done, err := p.sweepTerms(now, &row, b, complete)
	if err != nil || !done {
		return &row, err
	}
	if row.Phase == layout.Building {
		row.Switch()
		*complete = layout.Paths{InUse: complete.Next}
		return p.beginSweep(now, row, layout.Cleaning)
	}
	p.config.Logger.Info("index rebuild finished", "partition", p.own.ID)
	next := row.Settle()
	return &next, nil
}

// beginSweep sets a row to the beginning of a sweep over all current documents.
func (p *Partition) beginSweep(now *published, row layout.IndexRow, ph layout.Phase) (*layout.IndexRow, error) {
	row.Phase, row.Cursor, row.Passed, row.Total = ph, 0, 0, now.Items
	// A document can have the number of an ancestor of the partition, so the greatest
	// number is read from the store.
	rows := now.Rows.Iter(storage.FamilyRID.Bounds())
	row.Until = resource.NewNumber(p.own.Ordinal, now.Counter)
	if rows.Last() {
		last, err := storage.DecodeRIDKey(rows.Key())
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		row.Until = max(row.Until, last)
	}
	return &row, rows.Close()
}

// sweepTerms moves the cursor over the next documents, and changes their keys from those
// ahead of the cursor to those that it has passed.
func (p *Partition) sweepTerms(now *published, row *layout.IndexRow, b *builder, complete *layout.Paths) (done bool, err error) {
	_, high := storage.FamilyRID.Bounds()
	if row.Until < ^uint64(0) {
		high = storage.RIDKey(nil, row.Until+1)
	}
	rows := now.Rows.Iter(storage.RIDKey(nil, row.Cursor+1), high)
	// ahead has the keys of a document that the sweep has not passed, passed those of
	// one that it has.
	ahead, passed := *now.Indexing, *now.Indexing
	passed.Cursor = row.Until
	var key, text []byte
	bytes := 0
	valid := rows.First()
	for n := 0; valid && n < p.steps.sweepDocuments && bytes < p.steps.sweepBytes; n++ {
		number, err := storage.DecodeRIDKey(rows.Key())
		if err != nil {
			return false, errors.Join(err, rows.Close())
		}
		key = storage.DocumentKeyOf(key[:0], rows.Value())
		var found bool
		if text, found, err = now.Rows.Get(text[:0], key); err == nil && !found {
			err = fmt.Errorf("document %d is missing: %w", number, layout.ErrDocument)
		}
		if err == nil {
			err = b.restate(key, text, &ahead, &passed, complete)
		}
		if err != nil {
			return false, errors.Join(err, rows.Close())
		}
		row.Cursor = number
		row.Passed++
		bytes += len(text)
		valid = rows.Next()
	}
	return !valid, rows.Close()
}

// restate changes the keys of the document with a row key from those of one indexing to those of
// another, and removes the paths that it lacks from the complete ones.
func (b *builder) restate(key, text []byte, ahead, passed *layout.Indexing, complete *layout.Paths) error {
	d, err := layout.DecodeDocument(text)
	if err != nil {
		return err
	}
	k, err := ahead.KeysOfStored(&d, key)
	if err != nil {
		return err
	}
	if passed.Phase == layout.Building {
		complete.Next = complete.Next.In(k.Other.Terms)
	}
	again := layout.AllKeys{Active: k.Active.Clone(), Other: k.Other.Clone()}
	b.keys(d.Number, layout.Diff(ahead.Stored(k, d.Number, d.TS), passed.Stored(again, d.Number, d.TS)))
	return nil
}
