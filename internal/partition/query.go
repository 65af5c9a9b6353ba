package partition

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Query asks for one page of the rows of a plan.
type Query struct {
	Plan       *query.Plan
	Generation resource.Generation // of the partition as the caller knows it

	// Range holds the keys whose documents count. What of it lies outside the
	// partition is another partition's.
	Range partitionkey.Range

	Budget  query.Budget
	Session resource.LSN // that the caller has seen; zero for none
	Meter   *throughput.Meter
}

// Query runs a plan over the published state, which is one for the whole page,
// and returns the LSN of that state, also with an error. The next page may see
// a later state: rows neither come twice nor are left out, because positions
// are document numbers. Errors are those of the plan, PartitionMoved,
// SessionNotAvailable, Unavailable, and RequestTimeout when ctx ends.
func (p *Partition) Query(ctx context.Context, q Query) (query.Page, resource.LSN, error) {
	now, err := p.acquire()
	if err != nil {
		return query.Page{}, 0, err
	}
	defer p.release(now)
	clip, overlaps := q.Range.Intersect(p.descriptor.Range)
	if q.Generation != p.descriptor.Generation || !overlaps {
		return query.Page{}, now.lsn, status.PartitionMoved(status.SubRangeGone)
	}
	if q.Session > now.lsn {
		return query.Page{}, now.lsn, status.SessionNotAvailable()
	}
	s := newSource(p, now, q.Range, clip)
	defer s.free()
	page, err := q.Plan.Run(ctx, s.face(), q.Budget)
	if err != nil && ctx.Err() != nil && status.From(err) == nil {
		err = ended(ctx)
	}
	if errors.Is(err, query.ErrAgain) {
		return query.Page{}, now.lsn, err
	}
	p.queries.Add(1)
	q.Meter.Add(throughput.Query(s.charged(page, q.Budget.Started)))
	return page, now.lsn, err
}

// charged returns the work of a page. The candidate that only told the plan that
// there is more belongs to the next page, so that pages cost together what one
// would have cost.
func (s *source) charged(page query.Page, resumed bool) throughput.Work {
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

// source supplies the documents of one page. It belongs to one goroutine.
type source struct {
	p       *Partition
	now     *published
	horizon horizon // documents behind it are left out

	clip  partitionkey.Range
	whole bool // clip is the whole partition
	// low and high bound the keys of the clip's rows behind the family. Under
	// version 1 they hold a few more, which clip excludes.
	low, high []byte
	// epk is the only one of the clip, once only was called; "" when there are several.
	epk partitionkey.EPK
	// prefix is the key of the posting list that holds the clip's documents;
	// nil when there is none.
	prefix []byte

	work   throughput.Work
	passed int64           // terms of the index, as far as one by one
	last   int             // the size of the candidate handed out last
	looked [][2]index.Term // the first spans that work counts, by their ends
	// lookedMany are all of them, once they are many.
	lookedMany map[[2]index.Term]bool

	bare bool          // candidates come without system properties
	led  bool          // an index leads to them
	tell *query.Teller // leaves some of them out; nil for none
	term index.Term    // under which they are found

	seats  *seats        // where documents of the clip may be; nil when that is not known
	misses int64         // documents looked up that are outside of the clip
	rows   *storage.Rows // looks documents up, while many are; nil otherwise

	scratch
}

// scratch is the memory that one source leaves to the next.
type scratch struct {
	current     document // a document
	key, rowKey []byte   // the keys of 'r' and 'd' rows
	seek        []byte   // the key of a search
	row         []byte   // a row
	body        []byte   // the body of a candidate
	text        []byte   // the rows of a scan
	seating     seats    // of a pass
	list        []uint64 // the members of a small set
	parts       []part   // of an expression, while a way of reading is chosen
	lookups     storage.Rows
}

// scratchMax is the size in bytes up to which a buffer is used again.
const scratchMax = 64 << 10

// scratchParts is the number of parts of an expression up to which their memory is.
const scratchParts = 64

// newSource returns a source for what of a clip is asked for. Free it, when
// nobody uses what it gave out any more, to have its memory used again.
func newSource(p *Partition, now *published, asked, clip partitionkey.Range) *source {
	s, ok := p.sources.Get().(*source)
	if !ok {
		s = new(source)
	}
	s.p, s.now, s.clip, s.whole = p, now, clip, clip.Equal(p.descriptor.Range)
	s.horizon = p.horizon(now)
	if s.whole {
		s.low, s.high = p.low, p.high
		return s
	}
	s.low, s.high = keyBounds(clip, p.epkWidth)
	if level := prefixLevel(asked, p.epkWidth); level > 0 {
		s.prefix = storage.PrefixKey(nil, level, asked.Min)
	}
	return s
}

func (s *source) free() {
	clear(s.looked)
	left := source{looked: s.looked[:0], scratch: s.scratch}
	left.current = document{}
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
	p := s.p
	*s = left
	p.sources.Put(s)
}

// face returns the source as the plan may use it. While the index is not the one
// that the container asks for, plans may take for granted what is not there, so
// they get documents alone; so they do while documents that have expired or
// were purged are in the index still, and while there are some in no index: those
// are left out of the answers of filters, and not put into a wrong place in others.
func (s *source) face() query.Source {
	if !s.p.config.Container().Indexing.Equal(s.now.indexing.Policy) || s.stale() || s.anyBare() {
		return struct{ query.Source }{s}
	}
	return s
}

// keyBounds returns the bounds of the row keys of a range, less the family.
//
// A key has the EPK and then other bytes, so a bound that is longer than an EPK
// cannot be compared with it as it is: cut to the width, it includes or excludes
// that one EPK as a whole.
func keyBounds(r partitionkey.Range, width int) (low, high []byte) {
	low, high = []byte(r.Min.Canonical()), []byte(r.Max.Canonical())
	if width == 0 {
		// EPKs of version 1 have no common width. The bound behind a single EPK
		// is that EPK and one byte more, so one byte less includes it.
		if len(high) > 1 {
			high = after(high[:len(high)-1])
		}
		return low, high
	}
	if len(low) > width {
		low = after(low[:width])
	}
	if len(high) > width {
		high = after(high[:width])
	}
	return low, high
}

// after returns the least bytes above all that begin with b, which holds a byte
// below FF.
func after(b []byte) []byte {
	b = bytes.Clone(b)
	for i := len(b) - 1; ; i-- {
		if b[i] < 0xFF {
			b[i]++
			return b[:i+1]
		}
	}
}

// prefixLevel returns how many levels of a hierarchical key a range fixes, zero
// when it is not the range of such a prefix.
func prefixLevel(r partitionkey.Range, width int) int {
	n := len(r.Min)
	if n == 0 || n >= width || n%hashBytes != 0 {
		return 0
	}
	if rest, ok := strings.CutPrefix(string(r.Max), string(r.Min)); !ok || rest != string(partitionkey.MaxEPK) {
		return 0
	}
	return n / hashBytes
}

var _ query.Indexed = (*source)(nil)

// Candidates yields the documents that may satisfy the need.
func (s *source) Candidates(ctx context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		ended := false
		once := func(c query.Candidate, err error) bool {
			ended = ended || !yield(c, err)
			return !ended
		}
		// An error behind the last candidate that was wanted is nobody's.
		if err := s.candidates(ctx, need, once); err != nil && !ended {
			yield(query.Candidate{}, err)
		}
	}
}

// strategy is how much is done in one go, and what decides between the ways of
// reading. Tests make the numbers small.
type strategy struct {
	costs costs
	force forced

	// scanMax is the number of documents up to which a walk, and a feed, goes on with
	// those in memory.
	scanMax int64
	// scanBytes bounds the bodies that a pass keeps while it sorts.
	scanBytes int
	// sortedMax is how many numbers of a large logical partition are sorted at
	// a time.
	sortedMax int
	// walkFactor is how many terms are passed in the time in which the terms of
	// one document are computed: a walk that is limited to few documents goes on
	// with those when it takes too long. walkBytes bounds their terms.
	walkFactor int64
	walkBytes  int
	// guessMin is the number of documents up to which a search compares vectors
	// without guesses.
	guessMin int64
	// sweepDocuments and sweepBytes bound one step of an index rebuild: large
	// enough to be worth a sync, small enough that writes hardly notice.
	sweepDocuments, sweepBytes int
	// purgeMax is how many documents of a full key are purged at once.
	purgeMax int64
}

func defaultStrategy() strategy {
	return strategy{
		costs: measuredCosts(), scanMax: 5000, scanBytes: 8 << 20, sortedMax: 1 << 16,
		walkFactor: 16, walkBytes: 8 << 20, guessMin: 1000,
		sweepDocuments: 500, sweepBytes: 8 << 20, purgeMax: BatchMax,
	}
}

// candidates goes the cheapest way from what is asked to the documents.
func (s *source) candidates(ctx context.Context, need query.Need, yield yielder) error {
	if need.After == ^uint64(0) {
		return nil // a position that no document has, as a made-up token may say
	}
	s.bare, s.led, s.term, s.tell = need.Bare, false, "", nil
	access := index.Expr{}
	// The plan may know another version of the policy than this state.
	if need.Access.Op != index.All && s.now.indexing.active.Serves(need.Access) {
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

// read yields what was chosen.
func (s *source) read(ctx context.Context, r reading, need query.Need, yield yielder) error {
	s.tell = r.tell
	switch {
	case r.way == passes && need.Unordered:
		return s.pass(ctx, r.numbers, need.After, yield)
	case r.way == passes:
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

// gatherMax is the size up to which a set is a list of numbers, which is quicker
// to make and to read.
const gatherMax = 512

// underPrefix limits a set to the documents under the prefix that is asked for,
// when there is one; nil is all documents.
func (s *source) underPrefix(set *storage.Postings) *storage.Postings {
	if s.prefix == nil {
		return set
	}
	list := s.now.snapshot.Postings(s.prefix)
	if set == nil {
		return list
	}
	return storage.Intersect(set, list)
}

// point reports whether the clip holds a single EPK.
func (s *source) point() bool {
	return s.p.descriptor.Key.Successor(s.clip.Min).Compare(s.clip.Max) >= 0
}

// bounds returns the bounds of the clip in a family whose keys begin with the
// EPK.
func (s *source) bounds(f storage.Family) (low, high []byte) {
	return append([]byte{byte(f)}, s.low...), append([]byte{byte(f)}, s.high...)
}

// holds reports whether a document is in the clip. Its row key less the family
// is suffix.
func (s *source) holds(suffix []byte, d *document) bool {
	if s.whole {
		return true
	}
	if bytes.Compare(suffix, s.low) < 0 || bytes.Compare(suffix, s.high) >= 0 {
		return false
	}
	return s.p.epkWidth > 0 || s.clip.Contains(partitionkey.EPK(suffix[:min(d.epkSize, len(suffix))]))
}

// yield hands out a document.
func (s *source) yield(d *document, yield yielder) bool {
	s.work.Documents++
	s.last = len(d.body)
	s.work.Bytes += int64(s.last)
	if s.led {
		s.work.Hits++
	}
	if s.bare {
		return yield(query.Candidate{Number: d.number, Body: d.body, Term: s.term, Led: s.led}, nil)
	}
	s.body = s.p.render.append(s.body[:0], d)
	return yield(query.Candidate{Number: d.number, Body: s.body, Term: s.term, Led: s.led}, nil)
}
