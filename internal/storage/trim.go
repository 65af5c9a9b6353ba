package storage

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Trimming removes documents from a store that has no readers yet, such as a child of a
// split. It works in steps. Each step adds rows to a batch and returns where the next
// one begins. The caller applies the batch before the next step, and may write to the
// store in between.

// Walk calls visit for the current rows with low <= key < high; visit adds its changes
// to b. Walk stops before the next row once limit bytes were read or written, and
// returns the key of that row, nil when there are no more rows. The row is valid until
// visit returns. Walk yields the processor regularly.
func (s *Store) Walk(b *Batch, low, high []byte, limit int, visit func(key, value []byte) error) (next []byte, err error) {
	rows, err := s.db.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: high})
	if err != nil {
		return nil, fmt.Errorf("walk rows: %w", explain(err))
	}
	defer func() {
		if closeErr := rows.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("walk rows: %w", explain(closeErr))
		}
	}()
	read := 0
	pace := rowPacer{pacer: pacer{clock: s.pool.options.clock}}
	for valid := rows.First(); valid; valid = rows.Next() {
		pace.row()
		if read+b.Len() >= limit && read > 0 {
			return append([]byte(nil), rows.Key()...), nil
		}
		value, err := rows.ValueAndErr()
		if err != nil {
			return nil, fmt.Errorf("walk rows: %w", explain(err))
		}
		read += len(rows.Key()) + len(value)
		if err := visit(rows.Key(), value); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// TrimPostings removes the numbers of gone from the rows of posting lists with low <=
// key < high. It stops like [Store.Walk], and next is the low of the next step.
func (s *Store) TrimPostings(b *Batch, low, high []byte, gone *Numbers, limit int) (next []byte, err error) {
	var t trimmer
	return s.Walk(b, low, high, limit, func(key, value []byte) error {
		return t.row(b, key, value, gone)
	})
}

// trimmer is the working memory of one step.
type trimmer struct {
	kept, lost           [chunkWords]uint64
	keptFew, lostFew     []uint16
	keptValue, lostValue []byte
}

// row removes numbers from one row. It writes the shorter of two forms: the numbers
// that remain, or those that are removed.
func (t *trimmer) row(b *Batch, key, value []byte, gone *Numbers) error {
	_, chunk, err := cutChunk(key)
	if err != nil {
		return err
	}
	if isEmptyPosting(value) {
		return b.Delete(key)
	}
	at := gone.find(chunk)
	if at == len(gone.chunks) || gone.chunks[at].chunk != chunk {
		return nil
	}
	e, err := decodePosting(value)
	if err != nil {
		return errors.Join(fmt.Errorf("posting row %x", key), err)
	}
	foreign := gone.chunks[at].view()
	kept, lost := t.part(&e.added, &foreign)
	switch {
	case lost.size() == 0:
		return nil
	case kept.size() == 0:
		return b.Delete(key)
	}
	t.keptValue = appendPosting(t.keptValue[:0], &kept, &view{})
	t.lostValue = appendPosting(t.lostValue[:0], &view{}, &lost)
	if len(t.keptValue) <= len(t.lostValue) {
		return b.Set(key, t.keptValue)
	}
	return b.rows.Merge(key, t.lostValue, nil)
}

// part divides a set into the numbers that are not in gone and those that are.
func (t *trimmer) part(v, gone *view) (kept, lost view) {
	if v.dense {
		t.partWords(v, gone)
		return view{dense: true, words: &t.kept}, view{dense: true, words: &t.lost}
	}
	t.keptFew, t.lostFew = t.keptFew[:0], t.lostFew[:0]
	place := 0
	for i := range v.count {
		x := v.at(i)
		out := false
		if gone.dense {
			out = gone.has(x)
		} else {
			place = gone.find(place, x)
			out = place < gone.count && gone.at(place) == x
		}
		if out {
			t.lostFew = append(t.lostFew, x)
		} else {
			t.keptFew = append(t.keptFew, x)
		}
	}
	return view{count: len(t.keptFew), array: t.keptFew}, view{count: len(t.lostFew), array: t.lostFew}
}

// partWords is part for a bitmap.
func (t *trimmer) partWords(v, gone *view) {
	if gone.dense {
		for i := range t.kept {
			w, g := v.word(i), gone.word(i)
			t.kept[i], t.lost[i] = w&^g, w&g
		}
		return
	}
	for i := range t.kept {
		t.kept[i], t.lost[i] = v.word(i), 0
	}
	for i := range gone.count {
		x := gone.at(i)
		if bit := uint64(1) << (x & 63); t.kept[x>>6]&bit != 0 {
			t.kept[x>>6] &^= bit
			t.lost[x>>6] |= bit
		}
	}
}
