package partition

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/storage"
)

// The ways from a set of documents to their bodies in the order of their
// numbers. All begin behind the number after, and stop when yield returns false.

// checkEvery is how many rows are read between two looks at the context.
const checkEvery = 64

// yielder is what receives candidates.
type yielder = func(query.Candidate, error) bool

// stopped lets others work now and then, and returns the error of work that has to end,
// the same one each time for as many rows.
func stopped(ctx context.Context, rows int) error {
	if rows%checkEvery != 0 {
		return nil
	}
	err := pacing.Check(ctx)
	if err != nil && ctx.Err() != nil {
		return ended(ctx)
	}
	return err
}

func ended(ctx context.Context) error {
	return timedOut(ctx, "The query was ended before its page was complete.")
}

// passed is a document that a scan has passed: where its row, or else its row
// key, lies in the bytes of the scan.
type passed struct {
	number     uint64
	start, end int
	keyOnly    bool
}

// scan passes all rows of the clip in key order and sorts those that count: those
// that are among numbers, nil for all, and that tell says yes of.
func (s *source) scan(ctx context.Context, numbers *storage.Numbers, after uint64, yield yielder) error {
	list, text, err := s.gather(ctx, numbers, after)
	if err != nil {
		return err
	}
	for n, at := range list {
		if err := stopped(ctx, n+1); err != nil {
			return err
		}
		row := text[at.start:at.end]
		if at.keyOnly {
			var found bool
			if s.row, found, err = s.now.snapshot.Get(s.row[:0], row); err != nil || !found {
				return s.missing(at.number, err)
			}
			row = s.row
		}
		d, err := decodeDocument(row)
		if err != nil {
			return s.damaged(err)
		}
		if !s.yield(&d, yield) {
			return nil
		}
	}
	return nil
}

// gather returns the documents of the clip that count in the order of their numbers,
// with their rows while those fit into memory, and else their row keys.
func (s *source) gather(ctx context.Context, numbers *storage.Numbers, after uint64) (list []passed, text []byte, err error) {
	text = s.text[:0]
	err = s.each(ctx, func(key, row []byte, d *document) bool {
		if !s.counts(d, numbers, after) {
			return true
		}
		at := passed{number: d.number, start: len(text), keyOnly: len(text) > s.p.strategy.scanBytes}
		if at.keyOnly {
			text = append(text, key...)
		} else {
			text = append(text, row...)
		}
		at.end = len(text)
		list = append(list, at)
		return true
	})
	s.text = text
	slices.SortFunc(list, func(a, b passed) int { return cmp.Compare(a.number, b.number) })
	return list, text, err
}

// counts reports whether a document of the clip is one to yield.
func (s *source) counts(d *document, numbers *storage.Numbers, after uint64) bool {
	return d.number > after && !s.horizon.passed(d) && (numbers == nil || numbers.Has(d.number)) && (s.tell == nil || s.tell.Tell(d.body, d.ts))
}

// each calls use with all rows of the clip in key order until it returns false, those
// of documents that are hidden as well. A pass to the end leaves the roster of the
// clip's key.
func (s *source) each(ctx context.Context, use func(key, row []byte, d *document) (more bool)) (err error) {
	rows := s.now.snapshot.Iter(s.bounds(storage.FamilyDocument))
	defer func() { err = errors.Join(err, rows.Close()) }()
	enrolls := s.only() != "" && s.p.strategy.force.rosters != passes
	var b storage.NumbersBuilder
	at, front := &s.seating, 1+s.p.epkWidth+storage.HashBytes
	at.numbers, at.ends, at.text = at.numbers[:0], at.ends[:0], at.text[:0]
	n, size := 0, 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; stopped(ctx, n) != nil {
			return stopped(ctx, n)
		}
		row := rows.Value()
		size += len(row)
		d, err := decodeDocument(row)
		if err != nil {
			return s.damaged(err)
		}
		if s.p.epkWidth == 0 && !s.holds(rows.Key()[1:], &d) {
			continue
		}
		if enrolls = enrolls && (n < checkEvery || n%checkEvery > 0 || s.p.rosters.fits(int64(n))); enrolls {
			b.Add(d.number)
			if at != nil && (n > seatsMax || len(rows.Key()) < front || n > 1 && !bytes.HasPrefix(rows.Key(), at.prefix)) {
				at = nil // There are many, or keys whose hashes meet.
			}
			if at != nil {
				at.add(d.number, rows.Key(), front)
			}
		}
		if !use(rows.Key(), row, &d) {
			return nil
		}
	}
	if err := rows.Err(); err != nil {
		return s.damaged(err)
	}
	if enrolls && n >= rosterMin {
		if at != nil {
			at = at.sorted()
		}
		s.p.rosters.keep(s.only(), s.now.lsn, b.Numbers(), at, float64(size)/float64(n))
	}
	return nil
}

// pass reads all rows of the clip in key order and hands out those that count, as
// scan does, in that order.
func (s *source) pass(ctx context.Context, numbers *storage.Numbers, after uint64, yield yielder) (err error) {
	return s.each(ctx, func(_, _ []byte, d *document) bool {
		return !s.counts(d, numbers, after) || s.yield(d, yield)
	})
}

// lookUp prepares many look-ups, and returns what ends them.
func (s *source) lookUp(err *error) func() {
	if s.rows != nil {
		return func() {}
	}
	s.lookups = s.now.snapshot.Rows()
	s.rows, s.misses = &s.lookups, 0
	return func() {
		*err = errors.Join(*err, s.rows.Close())
		s.lookups = storage.Rows{}
		if s.rows = nil; s.misses > 0 && s.only() != "" {
			s.p.rosters.spend(s.only(), int64(float64(s.misses)*s.p.strategy.costs.miss))
		}
	}
}

// view calls use with the row of a key, if there is one.
func (s *source) view(key []byte, use func(row []byte) error) (found bool, err error) {
	if s.rows != nil {
		return s.rows.View(key, use)
	}
	return s.now.snapshot.View(key, use)
}

// walkSet looks up the documents of a set one by one.
func (s *source) walkSet(ctx context.Context, set *storage.Postings, after uint64, yield yielder) (err error) {
	defer func() { err = errors.Join(err, set.Close()) }()
	defer s.lookUp(&err)()
	use := s.offer(yield)
	set.SeekGE(after + 1)
	n := 0
	for number, ok := set.Next(); ok; number, ok = set.Next() {
		if n++; stopped(ctx, n) != nil {
			return stopped(ctx, n)
		}
		if more, err := s.find(number, use); err != nil || !more {
			return err
		}
	}
	return nil
}

// walkList looks up the documents of rising numbers one by one.
func (s *source) walkList(ctx context.Context, numbers []uint64, after uint64, yield yielder) (err error) {
	defer s.lookUp(&err)()
	use := s.offer(yield)
	for i, number := range numbers {
		if number <= after {
			continue
		}
		if err := stopped(ctx, i+1); err != nil {
			return err
		}
		if more, err := s.find(number, use); err != nil || !more {
			return err
		}
	}
	return nil
}

// walkAll reads the numbers of the whole partition.
func (s *source) walkAll(ctx context.Context, after uint64, yield yielder) error {
	_, high := storage.FamilyRID.Bounds()
	return s.walkNumbers(ctx, storage.RIDKey(nil, after+1), high, false, s.offer(yield))
}

// walkNumbers reads the documents of the whole partition whose 'r' keys lie
// between low and high, from the least number up or from the greatest down.
func (s *source) walkNumbers(ctx context.Context, low, high []byte, down bool, use func(d *document) (more bool, err error)) (err error) {
	rows := s.now.snapshot.Iter(low, high)
	defer func() { err = errors.Join(err, rows.Close()) }()
	begin, step := rows.First, rows.Next
	if down {
		begin, step = rows.Last, rows.Prev
	}
	n := 0
	for valid := begin(); valid; valid = step() {
		if n++; stopped(ctx, n) != nil {
			return stopped(ctx, n)
		}
		number, err := storage.DecodeRIDKey(rows.Key())
		if err != nil {
			return s.damaged(err)
		}
		if more, err := s.document(number, rows.Value(), use); err != nil || !more {
			return err
		}
	}
	return nil
}

// walkPoint reads a large logical partition: its numbers are sorted in portions,
// each of which costs one pass over the rows.
func (s *source) walkPoint(ctx context.Context, after uint64, yield yielder) error {
	use := s.offer(yield)
	for {
		list, err := s.smallest(ctx, after)
		if err != nil {
			return err
		}
		for n, number := range list {
			if err := stopped(ctx, n+1); err != nil {
				return err
			}
			if more, err := s.find(number, use); err != nil || !more {
				return err
			}
		}
		if len(list) < s.p.strategy.sortedMax {
			return nil
		}
		after = list[len(list)-1]
	}
}

// smallest returns the smallest numbers of the clip above after.
func (s *source) smallest(ctx context.Context, after uint64) (list []uint64, err error) {
	rows := s.now.snapshot.Iter(s.bounds(storage.FamilyDocument))
	defer func() { err = errors.Join(err, rows.Close()) }()
	most, last := s.p.strategy.sortedMax, ^uint64(0)
	n := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; stopped(ctx, n) != nil {
			return nil, stopped(ctx, n)
		}
		d, err := decodeDocument(rows.Value())
		if err != nil {
			return nil, s.damaged(err)
		}
		if d.number <= after || d.number > last || !s.holds(rows.Key()[1:], &d) {
			continue
		}
		if list = append(list, d.number); len(list) == 2*most {
			slices.Sort(list)
			list = list[:most]
			last = list[most-1]
		}
	}
	slices.Sort(list)
	return list[:min(len(list), most)], nil
}

// offer returns what hands out documents.
func (s *source) offer(yield yielder) func(d *document) (more bool, err error) {
	return func(d *document) (bool, error) {
		return s.tell != nil && !s.tell.Tell(d.body, d.ts) || s.yield(d, yield), nil
	}
}

// find calls use with the document of a number, if it is in the clip, and
// returns what use does, true without a call.
func (s *source) find(number uint64, use func(d *document) (more bool, err error)) (more bool, err error) {
	var known bool
	if s.rowKey, known = s.seats.appendKey(s.rowKey[:0], number); !known {
		if suffix := s.p.places.of(number); suffix != "" {
			s.rowKey, known = append(append(s.rowKey, byte(storage.FamilyDocument)), suffix...), true
		}
	}
	if known {
		if more, found, err := s.reach(number, use); found || err != nil {
			return more, err
		}
	}
	s.key = storage.RIDKey(s.key[:0], number)
	found, err := s.view(s.key, func(suffix []byte) error {
		s.rowKey = storage.DocumentKeyOf(s.rowKey[:0], suffix)
		return nil
	})
	if err != nil || !found {
		return false, s.missing(number, err)
	}
	s.p.places.keep(number, s.rowKey[1:])
	if more, found, err = s.reach(number, use); err == nil && !found {
		err = s.missing(number, nil)
	}
	return more, err
}

// document is find for the document with the row key that ends in suffix.
func (s *source) document(number uint64, suffix []byte, use func(d *document) (more bool, err error)) (more bool, err error) {
	s.rowKey = storage.DocumentKeyOf(s.rowKey[:0], suffix)
	more, found, err := s.reach(number, use)
	if err == nil && !found {
		err = s.missing(number, nil)
	}
	return more, err
}

// reach is find for the document with the key rowKey: not found when there is
// another document or none. One outside of the clip may be found without a look.
func (s *source) reach(number uint64, use func(d *document) (more bool, err error)) (more, found bool, err error) {
	suffix := s.rowKey[1:]
	if s.p.epkWidth > 0 && !s.holds(suffix, nil) {
		s.misses++
		return true, true, nil
	}
	more = true
	_, err = s.view(s.rowKey, func(row []byte) (err error) {
		if s.current, err = decodeDocument(row); err != nil {
			return s.damaged(err)
		}
		if found = s.current.number == number; found && !s.horizon.passed(&s.current) && s.holds(suffix, &s.current) {
			more, err = use(&s.current)
		}
		return err
	})
	return more, found, err
}

// missing is the error of a number whose rows are not all there.
func (s *source) missing(number uint64, err error) error {
	if err != nil {
		return err
	}
	return s.damaged(fmt.Errorf("document %d is missing: %w", number, errDocument))
}
