package partition

import (
	"bytes"
	"context"
	"fmt"
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
	page, err := q.Plan.Run(ctx, s, q.Budget)
	if err != nil && ctx.Err() != nil && status.From(err) == nil {
		err = ended(ctx)
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
	work.Results, work.Resumed = int64(len(page.Rows)), resumed
	if page.More && work.Documents > page.Stats.Retrieved {
		work.Documents--
		work.Bytes -= int64(s.last)
		work.Hits = max(0, work.Hits-1)
	}
	return work
}

// source supplies the documents of one page. It belongs to one goroutine.
type source struct {
	p   *Partition
	now *published

	clip  partitionkey.Range
	whole bool // clip is the whole partition
	// low and high bound the keys of the clip's rows behind the family. Under
	// version 1 they hold a few more, which clip excludes.
	low, high []byte
	// prefix is the key of the posting list that holds the clip's documents;
	// nil when there is none.
	prefix []byte

	work throughput.Work
	last int // the size of the candidate handed out last

	key, rowKey []byte // scratch for the keys of 'r' and 'd' rows
	row         []byte // scratch for a row
	body        []byte // of the current candidate
}

func newSource(p *Partition, now *published, asked, clip partitionkey.Range) *source {
	s := &source{p: p, now: now, clip: clip, whole: clip.Equal(p.descriptor.Range)}
	s.low, s.high = keyBounds(clip, p.epkWidth)
	if level := prefixLevel(asked, p.epkWidth); level > 0 && !s.whole {
		s.prefix = storage.PrefixKey(nil, level, asked.Min)
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

var _ query.Source = (*source)(nil)

// Candidates yields the documents that may satisfy the need, in the order of
// their numbers.
func (s *source) Candidates(ctx context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		if err := s.candidates(ctx, need.Access, need.After, yield); err != nil {
			yield(query.Candidate{}, err)
		}
	}
}

// strategy is when the ways of reading change, and how much is done in one go.
// Tests make the numbers small.
type strategy struct {
	// scanMax is the number of documents up to which reading all of a range in
	// key order and sorting them is cheaper than one lookup for each.
	scanMax int64
	// scanBytes bounds the bodies that such a scan keeps while it sorts.
	scanBytes int
	// sortedMax is how many numbers of a large logical partition are sorted at
	// a time.
	sortedMax int
	// sweepDocuments and sweepBytes bound one step of an index rebuild: large
	// enough to be worth a sync, small enough that writes hardly notice.
	sweepDocuments, sweepBytes int
}

func defaultStrategy() strategy {
	return strategy{scanMax: 5000, scanBytes: 8 << 20, sortedMax: 1 << 16, sweepDocuments: 500, sweepBytes: 8 << 20}
}

func (s *source) candidates(ctx context.Context, access index.Expr, after uint64, yield yielder) error {
	if after == ^uint64(0) {
		return nil // a position that no document has, as a made-up token may say
	}
	few, err := s.few(ctx)
	if err != nil {
		return err
	}
	set, none := s.postings(ctx, access) // from here on somebody closes it
	if none {
		return nil
	}
	if few {
		return s.scan(ctx, set, after, yield)
	}
	if s.prefix != nil {
		list := s.now.snapshot.Postings(s.prefix)
		if set == nil {
			set = list
		} else {
			set = storage.Intersect(set, list)
		}
	}
	if set != nil {
		return s.walkSet(ctx, set, after, yield)
	}
	if s.point() {
		return s.walkPoint(ctx, after, yield)
	}
	return s.walkAll(ctx, after, yield)
}

// point reports whether the clip holds a single EPK.
func (s *source) point() bool {
	return s.p.descriptor.Key.Successor(s.clip.Min).Compare(s.clip.Max) >= 0
}

// postings returns the documents of an expression, nil for all of them, or that
// there is none. A set that is returned has to be closed.
func (s *source) postings(ctx context.Context, e index.Expr) (set *storage.Postings, none bool) {
	if e.Op == index.All {
		return nil, false
	}
	// The plan may know another version of the policy than this state.
	if !s.now.indexing.active.Serves(e) {
		return nil, false
	}
	return s.combine(ctx, e)
}

func (s *source) combine(ctx context.Context, e index.Expr) (set *storage.Postings, none bool) {
	switch e.Op {
	case index.All:
		return nil, false
	case index.Leaf:
		return s.lookup(ctx, e.Span)
	case index.And:
		return s.conjunction(ctx, e.Args)
	case index.Or:
		return s.disjunction(ctx, e.Args)
	}
	return nil, true
}

func (s *source) lookup(ctx context.Context, span index.Span) (set *storage.Postings, none bool) {
	if span.Empty() {
		return nil, true
	}
	s.work.Lookups++
	low := storage.TermKey(nil, span.Low)
	if span.One {
		return s.now.snapshot.Postings(low), false
	}
	return s.now.snapshot.PostingsRange(ctx, low, storage.TermKey(nil, span.High)), false
}

func (s *source) conjunction(ctx context.Context, args []index.Expr) (set *storage.Postings, none bool) {
	var sets []*storage.Postings
	for _, arg := range args {
		set, none := s.combine(ctx, arg)
		if none {
			discard(sets)
			return nil, true
		}
		if set != nil {
			sets = append(sets, set)
		}
	}
	if len(sets) == 0 {
		return nil, false
	}
	return storage.Intersect(sets...), false
}

func (s *source) disjunction(ctx context.Context, args []index.Expr) (set *storage.Postings, none bool) {
	var sets []*storage.Postings
	for _, arg := range args {
		set, none := s.combine(ctx, arg)
		if none {
			continue
		}
		if set == nil {
			discard(sets)
			return nil, false
		}
		sets = append(sets, set)
	}
	if len(sets) == 0 {
		return nil, true
	}
	return storage.Union(sets...), false
}

// discard closes sets that nobody read; what that says is of no interest.
func discard(sets []*storage.Postings) {
	for _, set := range sets {
		_ = set.Close()
	}
}

// few reports whether the clip holds at most scanMax documents.
func (s *source) few(ctx context.Context) (bool, error) {
	if s.now.items <= s.p.strategy.scanMax {
		return true, nil
	}
	if s.whole {
		return false, nil
	}
	if s.prefix != nil {
		list := s.now.snapshot.Postings(s.prefix)
		n, err := list.CountTo(s.p.strategy.scanMax + 1)
		if closeErr := list.Close(); err == nil {
			err = closeErr
		}
		return n <= s.p.strategy.scanMax, err
	}
	rows := s.now.snapshot.Iter(s.bounds(storage.FamilyLogical))
	defer rows.Close()
	total := int64(0)
	for valid := rows.First(); valid && total <= s.p.strategy.scanMax; valid = rows.Next() {
		t, err := decodeTotals(rows.Value())
		if err != nil {
			return false, fmt.Errorf("partition %v: %w", s.p.config.Ref, err)
		}
		total += t.items
	}
	return total <= s.p.strategy.scanMax, rows.Err()
}

// bounds returns the bounds of the clip in a family whose keys begin with the
// EPK.
func (s *source) bounds(f storage.Family) (low, high []byte) {
	return append([]byte{byte(f)}, s.low...), append([]byte{byte(f)}, s.high...)
}

// holds reports whether a document is in the clip. Its row key less the family
// is suffix.
func (s *source) holds(suffix []byte, d *document) bool {
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
	s.body = s.p.render.append(s.body[:0], d)
	return yield(query.Candidate{Number: d.number, Body: s.body}, nil)
}
