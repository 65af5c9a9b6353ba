package scan

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// The ways from a set of documents to their bodies in the order of their numbers.
// All of them begin after the number after, and end when yield returns false.

// checkEvery is the number of rows between two looks at the context.
const checkEvery = 64

// yielder receives candidates.
type yielder = func(query.Candidate, error) bool

// Stopped is called with the number of rows read so far. Regularly it lets others use
// the processor, and returns an error if the work has to end.
func Stopped(ctx context.Context, rows int) error {
	if rows%checkEvery != 0 {
		return nil
	}
	err := pacing.Check(ctx)
	if err != nil && ctx.Err() != nil {
		return Ended(ctx)
	}
	return err
}

// Ended is the error of a query whose context has ended.
func Ended(ctx context.Context) error {
	return ranOut(ctx, "The query was ended before its page was complete.")
}

// ranOut is a RequestTimeout with the cause of the end of a context.
func ranOut(ctx context.Context, text string) error {
	e := status.New(status.CodeRequestTimeout, 0, "%s", text)
	e.Cause = context.Cause(ctx)
	return e
}

// passed is a document that a pass has read: where its row, or only its row key, is in
// the bytes that the pass keeps.
type passed struct {
	number     uint64
	start, end int
	keyOnly    bool
}

// scan passes all rows of the clip in key order and sorts the documents that count:
// those in numbers, or all if it is nil, that the matcher does not exclude.
func (s *Source) scan(ctx context.Context, numbers *storage.Numbers, after uint64, yield yielder) error {
	list, text, err := s.gather(ctx, numbers, after)
	if err != nil {
		return err
	}
	for n, at := range list {
		if err := Stopped(ctx, n+1); err != nil {
			return err
		}
		row := text[at.start:at.end]
		if at.keyOnly {
			var found bool
			if s.row, found, err = s.now.Rows.Get(s.row[:0], row); err != nil || !found {
				return s.missing(at.number, err)
			}
			row = s.row
		}
		d, err := layout.DecodeDocument(row)
		if err != nil {
			return s.damaged(err)
		}
		if !s.yield(&d, yield) {
			return nil
		}
	}
	return nil
}

// gather returns the documents of the clip that count, in the order of their numbers:
// their rows as long as those fit into memory, and then their row keys.
func (s *Source) gather(ctx context.Context, numbers *storage.Numbers, after uint64) (list []passed, text []byte, err error) {
	text = s.text[:0]
	err = s.each(ctx, func(key, row []byte, d *layout.Document) bool {
		if !s.counts(d, numbers, after) {
			return true
		}
		at := passed{number: d.Number, start: len(text), keyOnly: len(text) > s.r.Strategy.ScanBytes}
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

// counts reports whether a document of the clip counts.
func (s *Source) counts(d *layout.Document, numbers *storage.Numbers, after uint64) bool {
	return d.Number > after && !s.horizon.Hides(d) && (numbers == nil || numbers.Has(d.Number)) && (s.matcher == nil || s.matcher.Match(d.Body, d.TS))
}

// each calls use with all rows of the clip in key order until it returns false. Hidden
// documents are included. A pass to the end leaves the roster of the clip's key.
func (s *Source) each(ctx context.Context, use func(key, row []byte, d *layout.Document) (more bool)) (err error) {
	rows := s.now.Rows.Iter(s.bounds(storage.FamilyDocument))
	defer func() { err = errors.Join(err, rows.Close()) }()
	enrolls := s.only() != "" && s.r.Strategy.Force.Rosters != Passes
	var b storage.NumbersBuilder
	at, front := &s.seating, 1+s.r.own.Width+storage.HashBytes
	at.numbers, at.ends, at.text = at.numbers[:0], at.ends[:0], at.text[:0]
	n, size := 0, 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; Stopped(ctx, n) != nil {
			return Stopped(ctx, n)
		}
		row := rows.Value()
		size += len(row)
		d, err := layout.DecodeDocument(row)
		if err != nil {
			return s.damaged(err)
		}
		if s.r.own.Width == 0 && !s.holds(rows.Key()[1:], &d) {
			continue
		}
		if enrolls = enrolls && (n < checkEvery || n%checkEvery > 0 || s.r.rosters.fits(int64(n))); enrolls {
			b.Add(d.Number)
			if at != nil && (n > seatsMax || len(rows.Key()) < front || n > 1 && !bytes.HasPrefix(rows.Key(), at.prefix)) {
				at = nil // There are too many, or keys whose hashes collide.
			}
			if at != nil {
				at.add(d.Number, rows.Key(), front)
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
		s.r.rosters.keep(s.only(), s.now.LSN, b.Numbers(), at, float64(size)/float64(n))
	}
	return nil
}

// pass yields the documents that count in key order, without sorting them.
func (s *Source) pass(ctx context.Context, numbers *storage.Numbers, after uint64, yield yielder) (err error) {
	return s.each(ctx, func(_, _ []byte, d *layout.Document) bool {
		return !s.counts(d, numbers, after) || s.yield(d, yield)
	})
}

// lookUp prepares many look-ups. The caller must call the result after them.
func (s *Source) lookUp(err *error) func() {
	if s.rows != nil {
		return func() {}
	}
	s.lookups = s.now.Rows.Rows()
	s.rows, s.misses = &s.lookups, 0
	return func() {
		*err = errors.Join(*err, s.rows.Close())
		s.lookups = storage.Rows{}
		if s.rows = nil; s.misses > 0 && s.only() != "" {
			s.r.rosters.spend(s.only(), int64(float64(s.misses)*s.r.Strategy.Costs.Miss))
		}
	}
}

// view calls use with the row of a key, if it exists.
func (s *Source) view(key []byte, use func(row []byte) error) (found bool, err error) {
	if s.rows != nil {
		return s.rows.View(key, use)
	}
	return s.now.Rows.View(key, use)
}

// walkSet looks up the documents of a set, one by one.
func (s *Source) walkSet(ctx context.Context, set *storage.Postings, after uint64, yield yielder) (err error) {
	defer func() { err = errors.Join(err, set.Close()) }()
	defer s.lookUp(&err)()
	use := s.offer(yield)
	set.SeekGE(after + 1)
	n := 0
	for number, ok := set.Next(); ok; number, ok = set.Next() {
		if n++; Stopped(ctx, n) != nil {
			return Stopped(ctx, n)
		}
		if more, err := s.find(number, use); err != nil || !more {
			return err
		}
	}
	return nil
}

// walkList looks up the documents of ascending numbers, one by one.
func (s *Source) walkList(ctx context.Context, numbers []uint64, after uint64, yield yielder) (err error) {
	defer s.lookUp(&err)()
	use := s.offer(yield)
	for i, number := range numbers {
		if number <= after {
			continue
		}
		if err := Stopped(ctx, i+1); err != nil {
			return err
		}
		if more, err := s.find(number, use); err != nil || !more {
			return err
		}
	}
	return nil
}

// walkAll reads the documents of the whole partition by their numbers.
func (s *Source) walkAll(ctx context.Context, after uint64, yield yielder) error {
	_, high := storage.FamilyRID.Bounds()
	return s.walkNumbers(ctx, storage.RIDKey(nil, after+1), high, false, s.offer(yield))
}

// walkNumbers reads the documents of the whole partition whose 'r' keys are between
// low and high, in ascending or descending order of their numbers.
func (s *Source) walkNumbers(ctx context.Context, low, high []byte, down bool, use func(d *layout.Document) (more bool, err error)) (err error) {
	rows := s.now.Rows.Iter(low, high)
	defer func() { err = errors.Join(err, rows.Close()) }()
	begin, step := rows.First, rows.Next
	if down {
		begin, step = rows.Last, rows.Prev
	}
	n := 0
	for valid := begin(); valid; valid = step() {
		if n++; Stopped(ctx, n) != nil {
			return Stopped(ctx, n)
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

// walkPoint reads a large logical partition. It sorts the numbers in portions, each of
// which costs one pass over the rows.
func (s *Source) walkPoint(ctx context.Context, after uint64, yield yielder) error {
	use := s.offer(yield)
	for {
		list, err := s.smallest(ctx, after)
		if err != nil {
			return err
		}
		for n, number := range list {
			if err := Stopped(ctx, n+1); err != nil {
				return err
			}
			if more, err := s.find(number, use); err != nil || !more {
				return err
			}
		}
		if len(list) < s.r.Strategy.SortedMax {
			return nil
		}
		after = list[len(list)-1]
	}
}

// smallest returns the smallest numbers of the clip above after, sorted.
func (s *Source) smallest(ctx context.Context, after uint64) (list []uint64, err error) {
	rows := s.now.Rows.Iter(s.bounds(storage.FamilyDocument))
	defer func() { err = errors.Join(err, rows.Close()) }()
	most, last := s.r.Strategy.SortedMax, ^uint64(0)
	n := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; Stopped(ctx, n) != nil {
			return nil, Stopped(ctx, n)
		}
		d, err := layout.DecodeDocument(rows.Value())
		if err != nil {
			return nil, s.damaged(err)
		}
		if d.Number <= after || d.Number > last || !s.holds(rows.Key()[1:], &d) {
			continue
		}
		if list = append(list, d.Number); len(list) == 2*most {
			slices.Sort(list)
			list = list[:most]
			last = list[most-1]
		}
	}
	slices.Sort(list)
	return list[:min(len(list), most)], nil
}

// offer returns a function that yields documents, unless the matcher excludes them.
func (s *Source) offer(yield yielder) func(d *layout.Document) (more bool, err error) {
	return func(d *layout.Document) (bool, error) {
		return s.matcher != nil && !s.matcher.Match(d.Body, d.TS) || s.yield(d, yield), nil
	}
}

// find calls use with the document with a number, if it is in the clip and not hidden.
// more is the result of use, and true without a call.
func (s *Source) find(number uint64, use func(d *layout.Document) (more bool, err error)) (more bool, err error) {
	var known bool
	if s.rowKey, known = s.seats.appendKey(s.rowKey[:0], number); !known {
		if suffix := s.r.locations.of(number); suffix != "" {
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
	s.r.locations.keep(number, s.rowKey[1:])
	if more, found, err = s.reach(number, use); err == nil && !found {
		err = s.missing(number, nil)
	}
	return more, err
}

// document is find for a document whose row key, without the family, is suffix.
func (s *Source) document(number uint64, suffix []byte, use func(d *layout.Document) (more bool, err error)) (more bool, err error) {
	s.rowKey = storage.DocumentKeyOf(s.rowKey[:0], suffix)
	more, found, err := s.reach(number, use)
	if err == nil && !found {
		err = s.missing(number, nil)
	}
	return more, err
}

// reach is find for the document with the row key s.rowKey. found is false if there is
// none, or one with another number. A document outside of the clip may count as found
// without a look.
func (s *Source) reach(number uint64, use func(d *layout.Document) (more bool, err error)) (more, found bool, err error) {
	suffix := s.rowKey[1:]
	if s.r.own.Width > 0 && !s.holds(suffix, nil) {
		s.misses++
		return true, true, nil
	}
	more = true
	_, err = s.view(s.rowKey, func(row []byte) (err error) {
		if s.current, err = layout.DecodeDocument(row); err != nil {
			return s.damaged(err)
		}
		if found = s.current.Number == number; found && !s.horizon.Hides(&s.current) && s.holds(suffix, &s.current) {
			more, err = use(&s.current)
		}
		return err
	})
	return more, found, err
}

// missing is the error of a number of which a row is missing.
func (s *Source) missing(number uint64, err error) error {
	if err != nil {
		return err
	}
	return s.damaged(fmt.Errorf("document %d is missing: %w", number, layout.ErrDocument))
}
