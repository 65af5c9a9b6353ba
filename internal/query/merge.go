package query

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"time"
)

// Stream is the rows of one partition, page by page: [Plan.Run] over its
// documents, perhaps on another machine. It passes the budget on as it is.
type Stream func(ctx context.Context, b Budget) (Page, error)

// Progress is how far a merged query has come: all that is needed to go on with
// it later. The zero value is the beginning.
type Progress struct {
	Position Position // behind which the next row is
	Started  bool     // Position is set
	Stream   int      // without ORDER BY: the stream that Position belongs to; those in front of it are finished
	Skip     int64    // rows left out for OFFSET so far
	Taken    int64    // rows returned so far, for TOP and LIMIT
	Done     bool     // no row is left
}

// Merge combines the rows of several partitions into the result of the query:
// without ORDER BY one after the other, with it row by row in order, ties by
// number. Then it applies OFFSET, LIMIT and TOP. It asks a stream for rows when
// they are needed and not before. One goroutine uses it.
type Merge struct {
	plan     *Plan
	streams  []*mergeStream
	progress Progress

	begun bool       // with ORDER BY: the heap is built
	heads streamHeap // with ORDER BY: streams with rows at hand, the least in front
}

// mergeStream is a stream with the rows it returned and nobody took yet.
type mergeStream struct {
	run   Stream
	order *ordering
	rows  []Row
	after Budget // where the stream goes on
	more  bool   // it may have rows beyond those at hand
}

// Merge combines streams in the order of their partitions, from the beginning
// or from where another merge of the same plan had come to. With ORDER BY the
// streams may be others than then, as long as together they hold the same
// documents; without it the stream that Position belongs to must be as it was,
// or one made with [Together] of those that took its place, and Progress.Stream
// must say which of streams it is.
func (p *Plan) Merge(streams []Stream, from Progress) *Merge {
	m := &Merge{plan: p, progress: from, streams: make([]*mergeStream, len(streams))}
	for i, run := range streams {
		m.streams[i] = &mergeStream{run: run, order: p.order, more: true}
	}
	return m
}

// Page returns the next rows and how far the query has come with them. When
// Page.More is set the page may be empty and there may be more behind it.
func (m *Merge) Page(ctx context.Context, b Budget) (Page, Progress, error) {
	if b.MaxBytes <= 0 {
		b.MaxBytes = defaultPageBytes
	}
	var page Page
	if m.progress.Taken >= m.plan.take() {
		m.progress.Done = true
	}
	var err error
	switch {
	case m.progress.Done:
	case m.plan.order != nil:
		err = m.ordered(ctx, b, &page)
	default:
		err = m.sequential(ctx, b, &page)
	}
	if err != nil {
		return Page{}, m.progress, err
	}
	page.Next, page.More = m.progress.Position, !m.progress.Done
	page.Stats.Output = int64(len(page.Rows))
	page.Stats.OutputBytes = 0
	for _, row := range page.Rows {
		page.Stats.OutputBytes += int64(len(row.JSON))
	}
	return page, m.progress, nil
}

// want is how many rows the rest of the page needs from a stream: those to skip
// and those to return. 0 is any number.
func (m *Merge) want(b Budget, page *Page) int {
	n := m.plan.take() - m.progress.Taken
	if b.MaxItems > 0 {
		n = min(n, int64(b.MaxItems-len(page.Rows)))
	}
	skip := m.plan.skip() - m.progress.Skip
	if n > math.MaxInt32-skip {
		return 0
	}
	return int(n + skip)
}

// accept takes a row into the page, or leaves it out for OFFSET. It reports
// false, and takes nothing, when the page has no room for it.
func (m *Merge) accept(row Row, b Budget, page *Page) bool {
	if m.progress.Skip < m.plan.skip() {
		m.progress.Skip++
	} else {
		size := page.Stats.OutputBytes + int64(len(row.JSON))
		if b.MaxItems > 0 && len(page.Rows) >= b.MaxItems || len(page.Rows) > 0 && size > int64(b.MaxBytes) {
			return false
		}
		page.Stats.OutputBytes = size
		page.Rows = append(page.Rows, row)
		m.progress.Taken++
	}
	m.progress.Position, m.progress.Started = row.Position, true
	return true
}

// enough reports whether the query needs no further row.
func (m *Merge) enough() bool { return m.progress.Taken >= m.plan.take() }

func late(b Budget) bool { return !b.Deadline.IsZero() && !time.Now().Before(b.Deadline) }

// sequential empties one stream after the other.
func (m *Merge) sequential(ctx context.Context, b Budget, page *Page) error {
	pr := &m.progress
	for first := true; ; first = false {
		if pr.Stream >= len(m.streams) || m.enough() {
			pr.Done = true
			return nil
		}
		if b.MaxItems > 0 && len(page.Rows) >= b.MaxItems || !first && late(b) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		before := page.Stats.OutputBytes
		part, err := m.streams[pr.Stream].run(ctx, Budget{
			After: pr.Position, Started: pr.Started, Deadline: b.Deadline,
			MaxItems: m.want(b, page), MaxBytes: max(1, b.MaxBytes-int(before)),
		})
		if err != nil {
			return err
		}
		page.Stats.Add(part.Stats)
		page.Stats.OutputBytes = before
		for _, row := range part.Rows {
			if !m.accept(row, b, page) {
				return nil
			}
		}
		if part.More {
			pr.Position, pr.Started = part.Next, true
		} else {
			pr.Position, pr.Started = Position{}, false
			pr.Stream++
		}
	}
}

// ordered takes the least row of all streams again and again.
func (m *Merge) ordered(ctx context.Context, b Budget, page *Page) error {
	if err := m.begin(ctx, b, page); err != nil {
		return err
	}
	for len(m.heads) > 0 && !m.enough() {
		s := m.heads[0]
		if len(s.rows) == 0 {
			if b.MaxItems > 0 && len(page.Rows) >= b.MaxItems || len(page.Rows) > 0 && late(b) {
				return nil
			}
			if err := m.fill(ctx, s, b, page); err != nil {
				return err
			}
			m.settle()
			continue
		}
		if !m.accept(s.rows[0], b, page) {
			return nil
		}
		if s.rows = s.rows[1:]; len(s.rows) == 0 && !s.more {
			heap.Pop(&m.heads)
			continue
		}
		heap.Fix(&m.heads, 0)
	}
	m.progress.Done = true
	return nil
}

// settle puts the stream in front, which was just filled, where it belongs.
func (m *Merge) settle() {
	if len(m.heads[0].rows) == 0 {
		heap.Pop(&m.heads)
		return
	}
	heap.Fix(&m.heads, 0)
}

// begin asks each stream for its first rows. A position whose key is cut is
// completed first, by whichever stream has its document.
func (m *Merge) begin(ctx context.Context, b Budget, page *Page) error {
	if m.begun {
		return nil
	}
	start := Budget{After: m.progress.Position, Started: m.progress.Started}
	if start.Started && isCut(start.After.Key) {
		var err error
		if start.AfterKey, err = m.wholeKey(ctx, start, page); err != nil {
			return err
		}
	}
	heads := make(streamHeap, 0, len(m.streams))
	for _, s := range m.streams {
		s.after = start
		if err := m.fill(ctx, s, b, page); err != nil {
			return err
		}
		if len(s.rows) > 0 {
			heads = append(heads, s)
		}
	}
	heap.Init(&heads)
	m.heads, m.begun = heads, true
	return nil
}

func (m *Merge) wholeKey(ctx context.Context, at Budget, page *Page) ([]byte, error) {
	at.Probe = true
	for _, s := range m.streams {
		found, err := s.run(ctx, at)
		if err != nil {
			return nil, err
		}
		page.Stats.Add(found.Stats)
		if len(found.Rows) > 0 {
			return found.Rows[0].Order, nil
		}
	}
	return nil, nil
}

// shareMin is the least that a stream is asked for at a time, in bytes: less
// would have it sort the same rows again and again.
const shareMin = 64 << 10

// fill asks a stream for its next rows. Together the rows at hand of all streams
// are not much more than a page.
func (m *Merge) fill(ctx context.Context, s *mergeStream, b Budget, page *Page) error {
	ask := s.after
	ask.MaxItems = m.want(b, page)
	ask.MaxBytes = max(b.MaxBytes/len(m.streams), shareMin)
	ask.Deadline = b.Deadline
	bytes := page.Stats.OutputBytes
	for len(s.rows) == 0 && s.more {
		if err := ctx.Err(); err != nil {
			return err
		}
		part, err := s.run(ctx, ask)
		if err != nil {
			return err
		}
		page.Stats.Add(part.Stats)
		page.Stats.OutputBytes = bytes
		s.rows, s.more = part.Rows, part.More
		if n := len(s.rows); n > 0 {
			last := s.rows[n-1]
			s.after = Budget{After: last.Position, AfterKey: last.Order, Started: true}
		}
	}
	return nil
}

// streamHeap has the stream with the least row in front. A stream whose rows
// are used up and that has more goes before all, since its next row may be the
// least.
type streamHeap []*mergeStream

func (h streamHeap) Len() int { return len(h) }

func (h streamHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if len(a.rows) == 0 || len(b.rows) == 0 {
		return len(a.rows) < len(b.rows)
	}
	x, y := a.rows[0], b.rows[0]
	return a.order.compare(x.Order, x.Position.Number, y.Order, y.Position.Number) < 0
}

func (h streamHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *streamHeap) Push(x any) { *h = append(*h, x.(*mergeStream)) }

// Pop implements heap.Interface.
func (h *streamHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	*h = (*h)[:last]
	return s
}

// Together makes one stream, without ORDER BY, of several that hold parts of
// what was one partition: rows come in the order of numbers, so that a position
// from before the split is good for all of them, and one position is enough for
// what follows.
func Together(streams ...Stream) Stream {
	if len(streams) == 1 {
		return streams[0]
	}
	return func(ctx context.Context, b Budget) (Page, error) {
		var page Page
		known := uint64(math.MaxUint64) // up to here no stream holds a row back
		for _, run := range streams {
			part, err := run(ctx, b)
			if err != nil {
				return Page{}, err
			}
			page.Stats.Add(part.Stats)
			page.Rows = append(page.Rows, part.Rows...)
			if part.More {
				page.More = true
				known = min(known, part.Next.Number)
			}
			page.Next.Number = max(page.Next.Number, part.Next.Number)
		}
		page.Next.Number = min(page.Next.Number, known)
		slices.SortFunc(page.Rows, func(x, y Row) int { return cmp.Compare(x.Position.Number, y.Position.Number) })
		page.trim(b, known)
		return page, nil
	}
}

// trim cuts the page to the rows that are known to be complete and to the
// budget.
func (p *Page) trim(b Budget, known uint64) {
	kept, bytes := 0, 0
	for _, row := range p.Rows {
		bytes += len(row.JSON)
		if row.Position.Number > known ||
			b.MaxItems > 0 && kept == b.MaxItems || kept > 0 && b.MaxBytes > 0 && bytes > b.MaxBytes {
			p.More = true
			break
		}
		kept++
	}
	if kept < len(p.Rows) && p.Rows[kept].Position.Number <= known {
		p.Next = p.Rows[kept-1].Position
	}
	clear(p.Rows[kept:])
	p.Rows = p.Rows[:kept]
}
