package scan

import (
	"bytes"
	"context"
	"iter"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Charged returns the work of a page. A last candidate that only told the plan that
// there are more rows belongs to the next page, so that the pages cost together what
// one page would cost.
func (s *Source) Charged(page query.Page, resumed bool) throughput.Work {
	work := s.work
	work.Results, work.Calls, work.Resumed = int64(len(page.Rows)), page.Stats.Calls, resumed
	if page.More && work.Documents > page.Stats.Retrieved {
		work.Documents--
		work.Bytes -= int64(s.last)
		if s.led {
			work.Hits--
		}
	}
	return work
}

// Source supplies the documents of one page, as [query.Source] says, and also as
// [query.Indexed] and [query.Ranked] say. It belongs to one goroutine.
type Source struct {
	r       *Reader
	now     *Snapshot
	horizon layout.Horizon // hides documents

	clip  partitionkey.Range
	whole bool // clip is the whole partition
	// low and high bound the row keys of the clip, without the family. With keys of
	// version 1 they include a few others, which clip excludes.
	low, high []byte
	// epk is the only EPK of the clip, once only has been called; empty if there are
	// several.
	epk partitionkey.EPK
	// prefix is the key of the posting list with the documents of the clip; nil if
	// there is none.
	prefix []byte

	work   throughput.Work
	passed int64           // terms of the index that were read one by one
	last   int             // size of the last candidate
	looked [][2]index.Term // the first spans that work counts, by their ends
	// lookedMany has all of them if there are many.
	lookedMany map[[2]index.Term]bool

	bare    bool           // candidates have no system properties
	led     bool           // an index leads to the candidates
	matcher *query.Matcher // excludes some of them; nil excludes none
	term    index.Term     // of the candidates

	seats  *seats        // where documents of the clip may be; nil if unknown
	misses int64         // documents that were looked up and are outside of the clip
	rows   *storage.Rows // for many look-ups; nil otherwise

	scratch
}

// scratch is memory that one source leaves to the next.
type scratch struct {
	current     layout.Document // a document
	key, rowKey []byte          // the keys of 'r' and 'd' rows
	seek        []byte          // the key of a search
	row         []byte          // a row
	body        []byte          // the body of a candidate
	text        []byte          // the rows of a pass
	seating     seats           // of the documents of a pass
	list        []uint64        // the members of a small set
	parts       []part          // of an expression, while choose runs
	lookups     storage.Rows
}

// scratchMax is the greatest size in bytes of a buffer that is used again.
const scratchMax = 64 << 10

// scratchParts is the same for the parts of an expression.
const scratchParts = 64

// Source returns a source of the documents in clip, which is the part of the range
// asked that lies in the partition. Free it when neither it nor any candidate of it
// is in use: that lets the next source reuse its memory. now must stay open until
// then.
func (r *Reader) Source(now *Snapshot, asked, clip partitionkey.Range) *Source {
	s, ok := r.sources.Get().(*Source)
	if !ok {
		s = new(Source)
	}
	s.r, s.now, s.clip, s.whole = r, now, clip, clip.Equal(r.own.Range)
	s.horizon = r.Horizon(now)
	if s.whole {
		s.low, s.high = r.own.Low, r.own.High
		return s
	}
	s.low, s.high = layout.KeyBounds(clip, r.own.Width)
	if level := prefixLevel(asked, r.own.Width); level > 0 {
		s.prefix = storage.PrefixKey(nil, level, asked.Min)
	}
	return s
}

// Free gives the memory of the source to the next one.
func (s *Source) Free() {
	clear(s.looked)
	left := Source{looked: s.looked[:0], scratch: s.scratch}
	left.current = layout.Document{}
	if cap(left.row) > scratchMax {
		left.row = nil
	}
	if cap(left.body) > scratchMax {
		left.body = nil
	}
	if cap(left.text) > scratchMax {
		left.text = nil
	}
	if cap(left.seating.text) > scratchMax {
		left.seating = seats{}
	}
	if cap(left.parts) > scratchParts {
		left.parts = nil
	}
	r := s.r
	*s = left
	r.sources.Put(s)
}

// Face returns the source as a plan may use it: with the index, or as a bare
// [query.Source] that yields documents only. A plan gets documents only
//
//   - while the index is not the one that the container asks for, because the plan
//     may expect what is not there;
//   - while the index has documents that have expired or were purged;
//   - while the index lacks documents, because it would not count or order them.
func (s *Source) Face() query.Source {
	if !s.now.Indexing.Current(s.r.container().Indexing) || s.stale() || s.lacks() {
		return struct{ query.Source }{s}
	}
	return s
}

// prefixLevel returns the number of levels of a hierarchical key that a range fixes,
// zero if it is not the range of such a prefix.
func prefixLevel(r partitionkey.Range, width int) int {
	n := len(r.Min)
	if n == 0 || n >= width || n%layout.LevelBytes != 0 {
		return 0
	}
	if rest, ok := strings.CutPrefix(string(r.Max), string(r.Min)); !ok || rest != string(partitionkey.MaxEPK) {
		return 0
	}
	return n / layout.LevelBytes
}

var _ query.Indexed = (*Source)(nil)

// Candidates yields the documents that may satisfy the need.
func (s *Source) Candidates(ctx context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		ended := false
		once := func(c query.Candidate, err error) bool {
			ended = ended || !yield(c, err)
			return !ended
		}
		// The caller does not need an error after its last candidate.
		if err := s.candidates(ctx, need, once); err != nil && !ended {
			yield(query.Candidate{}, err)
		}
	}
}

// Strategy is what decides between the ways of reading. Tests make the numbers
// small.
type Strategy struct {
	Costs Costs
	Force Forced

	// scanMax is the greatest number of documents that a walk, or a feed, holds in
	// memory to proceed with them.
	ScanMax int64
	// scanBytes bounds the rows that a pass holds in memory while it sorts.
	ScanBytes int
	// sortedMax is the number of documents of a large logical partition that are
	// sorted at a time.
	SortedMax int
	// walkFactor is the number of terms that can be read in the time of computing the
	// terms of one document: a walk that is limited to few documents continues with
	// their terms if it takes too long. walkBytes bounds those terms in memory.
	WalkFactor int64
	WalkBytes  int
	// guessMin is the greatest number of documents for which a search compares all
	// vectors instead of their codes.
	GuessMin int64
}

// DefaultStrategy returns the strategy of a server.
func DefaultStrategy() Strategy {
	return Strategy{
		Costs: MeasuredCosts(), ScanMax: 5000, ScanBytes: 8 << 20, SortedMax: 1 << 16,
		WalkFactor: 16, WalkBytes: 8 << 20, GuessMin: 1000,
	}
}

// candidates yields the documents of a need in the cheapest way.
func (s *Source) candidates(ctx context.Context, need query.Need, yield yielder) error {
	if need.After == ^uint64(0) {
		return nil // No document has this position, which a forged token may have.
	}
	s.bare, s.led, s.term, s.matcher = need.Bare, false, "", nil
	access := index.Expr{}
	// The plan may be compiled for another version of the policy.
	if need.Access.Op != index.All && s.now.Indexing.Active.Serves(need.Access) && !s.lacks() {
		narrows, none := s.note(need.Access)
		if none {
			return nil
		}
		if s.led = narrows; narrows {
			access = need.Access
		}
	}
	r, err := s.choose(ctx, access, need)
	if err != nil {
		return err
	}
	return s.read(ctx, r, need, yield)
}

// read yields the documents in the way that was chosen.
func (s *Source) read(ctx context.Context, r reading, need query.Need, yield yielder) error {
	s.matcher = r.matcher
	switch {
	case r.way == Passes && need.Unordered:
		return s.pass(ctx, r.numbers, need.After, yield)
	case r.way == Passes:
		return s.scan(ctx, r.numbers, need.After, yield)
	case r.numbers != nil:
		return s.walkSet(ctx, r.numbers.Postings(), need.After, yield)
	case r.listed:
		return s.walkList(ctx, r.list, need.After, yield)
	case r.set != nil:
		return s.walkSet(ctx, r.set, need.After, yield)
	case s.whole:
		return s.walkAll(ctx, need.After, yield)
	}
	return s.walkPoint(ctx, need.After, yield)
}

// gatherMax is the greatest size of a set that is kept as a list of numbers, which is
// quicker to make and to read.
const gatherMax = 512

// underPrefix limits a set to the documents of the prefix of the clip, if it has one.
// A nil set is all documents.
func (s *Source) underPrefix(set *storage.Postings) *storage.Postings {
	if s.prefix == nil {
		return set
	}
	list := s.now.Rows.Postings(s.prefix)
	if set == nil {
		return list
	}
	return storage.Intersect(set, list)
}

// point reports whether the clip contains a single EPK.
func (s *Source) point() bool {
	return s.r.own.Key.Successor(s.clip.Min).Compare(s.clip.Max) >= 0
}

// bounds returns the bounds of the clip in a family whose keys begin with the
// EPK.
func (s *Source) bounds(f storage.Family) (low, high []byte) {
	return append([]byte{byte(f)}, s.low...), append([]byte{byte(f)}, s.high...)
}

// holds reports whether a document is in the clip. suffix is its row key without the
// family.
func (s *Source) holds(suffix []byte, d *layout.Document) bool {
	if s.whole {
		return true
	}
	if bytes.Compare(suffix, s.low) < 0 || bytes.Compare(suffix, s.high) >= 0 {
		return false
	}
	return s.r.own.Width > 0 || s.clip.Contains(partitionkey.EPK(suffix[:min(d.EPKSize, len(suffix))]))
}

// yield yields a document, and adds it to the work.
func (s *Source) yield(d *layout.Document, yield yielder) bool {
	s.work.Documents++
	s.last = len(d.Body)
	s.work.Bytes += int64(s.last)
	if s.led {
		s.work.Hits++
	}
	if s.bare {
		return yield(query.Candidate{Number: d.Number, Body: d.Body, Term: s.term, Led: s.led}, nil)
	}
	s.body = s.r.own.Render.Append(s.body[:0], d)
	return yield(query.Candidate{Number: d.Number, Body: s.body, Term: s.term, Led: s.led}, nil)
}
