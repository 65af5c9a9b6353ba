package partition

import (
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// Reindex brings the index in line with the container's current policy, in the
// background and between writes, and returns at once. It goes on with a change
// that was under way, and does nothing when there is none. Queries use the new
// policy when it is complete, [Stats] tell how far it is. A step that fails is
// tried again with the next write or call.
func (p *Partition) Reindex() {
	p.intake.mu.Lock()
	defer p.intake.mu.Unlock()
	if p.intake.closed {
		return
	}
	p.intake.reindex = true
	p.intake.startLocked()
}

// sweeping reports whether the writer has to go on with a change of policy.
func (p *Partition) sweeping() bool {
	p.intake.mu.Lock()
	defer p.intake.mu.Unlock()
	return p.sweepingLocked()
}

func (p *Partition) sweepingLocked() bool {
	if p.intake.closed || p.intake.handing != nil || p.health.failure.Load() != nil {
		return false // A split or merge and a rebuild keep apart.
	}
	if p.intake.reindex {
		return true
	}
	now := p.states.current.Load()
	return now != nil && now.indexing.Phase != settled && !p.writer.stalled
}

// sweep makes one step. Its effect has no LSN, so it is evaluated when nothing
// is on its way, and nothing is evaluated until its result is known.
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
	text, err := row.append()
	if err != nil {
		return errors.Join(err, b.batch.Close())
	}
	b.check(b.batch.Set(storage.MetaKey(nil, metaIndex), text))
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
	if row.Phase == settled && err == nil {
		// The container may have changed again meanwhile.
		p.intake.askReindex()
	}
	return err
}

// nextStep returns the index row behind the next step, puts the step's terms into
// the batch and brings the complete paths up to date; nil when there is nothing
// to do.
func (p *Partition) nextStep(now *published, b *builder, complete *paths) (*indexRow, error) {
	row := now.indexing.indexRow
	if row.Phase == settled {
		want := p.config.Container().Indexing
		if want.Equal(row.Policy) {
			return nil, nil
		}
		next, err := compile(want)
		if err != nil {
			return nil, err
		}
		if complete.next, err = p.firstPaths(now, next); err != nil {
			return nil, err
		}
		p.config.Logger.Info("index rebuild started", "partition", p.own.ID, "documents", now.items)
		row.Other = &want
		return p.beginSweep(now, row, building)
	}
	done, err := p.sweepTerms(now, &row, b, complete)
	if err != nil || !done {
		return &row, err
	}
	if row.Phase == building {
		previous := row.Policy
		row.Policy, row.Other = *row.Other, &previous
		*complete = paths{inUse: complete.next}
		return p.beginSweep(now, row, cleaning)
	}
	p.config.Logger.Info("index rebuild finished", "partition", p.own.ID)
	return &indexRow{Version: metaVersion, Policy: row.Policy}, nil
}

// beginSweep sets a row to the beginning of a sweep over all documents there are.
func (p *Partition) beginSweep(now *published, row indexRow, ph phase) (*indexRow, error) {
	row.Phase, row.Cursor, row.Passed, row.Total = ph, 0, 0, now.items
	// A document can have been numbered by another partition before this one
	// took it over, so the highest number is asked of the store.
	rows := now.rows.Iter(storage.FamilyRID.Bounds())
	row.Until = resource.NewNumber(p.own.Ordinal, now.counter)
	if rows.Last() {
		last, err := storage.DecodeRIDKey(rows.Key())
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		row.Until = max(row.Until, last)
	}
	return &row, rows.Close()
}

// sweepTerms moves the cursor over the next documents and changes their terms
// from what is stored before it to what is stored behind it.
func (p *Partition) sweepTerms(now *published, row *indexRow, b *builder, complete *paths) (done bool, err error) {
	_, high := storage.FamilyRID.Bounds()
	if row.Until < ^uint64(0) {
		high = storage.RIDKey(nil, row.Until+1)
	}
	rows := now.rows.Iter(storage.RIDKey(nil, row.Cursor+1), high)
	// One indexing says what is stored of a document that the sweep has not
	// passed, the other of one that it has.
	ahead, behind := *now.indexing, *now.indexing
	behind.Cursor = row.Until
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
		if text, found, err = now.rows.Get(text[:0], key); err == nil && !found {
			err = fmt.Errorf("document %d is missing: %w", number, errDocument)
		}
		if err == nil {
			err = b.restate(text, &ahead, &behind, complete)
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

// restate changes the keys of a document from those of one indexing to those of
// another, which says what paths it has.
func (b *builder) restate(text []byte, ahead, behind *indexing, complete *paths) error {
	d, err := decodeDocument(text)
	if err != nil {
		return err
	}
	k, err := ahead.keysOfBody(d.body, d.asked)
	if err != nil {
		return err
	}
	if behind.Phase == building {
		complete.next = complete.next.in(k.other.terms)
	}
	again := allKeys{active: k.active.clone(), other: k.other.clone()}
	b.keys(d.number, diff(ahead.stored(k, d.number, d.ts), behind.stored(again, d.number, d.ts)))
	return nil
}
