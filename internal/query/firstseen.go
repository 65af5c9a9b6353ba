package query

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
)

// FirstSeen reports whether the rows of the plan are groups in the order in which a scan
// of the documents first meets them. Every page asks all partitions for all groups, and
// returns the next ones; [Progress] says which stream its position belongs to.
func (p *Plan) FirstSeen() bool { return p.group.firstSeen() }

// firstSeen reports whether groups have no order but that of their documents.
func (g *grouping) firstSeen() bool { return g != nil && !g.sorted && !g.lone }

// firstSight is where a scan first meets a group.
type firstSight struct {
	stream int // its place among the streams; see [Merge.orderOf]
	number uint64
	row    int // of the document; 0 if a document has one row
}

func (a firstSight) compare(b firstSight) int {
	return cmp.Or(cmp.Compare(a.stream, b.stream), cmp.Compare(a.number, b.number), cmp.Compare(a.row, b.row))
}

// before reports whether a scan of one partition meets a before b.
func (a firstSight) before(b firstSight) bool { return a.compare(b) < 0 }

// SeenMax is the maximum number of groups that [Progress] names. It is small, because
// clients hold them in their continuations.
const SeenMax = 64

// seenGroup returns the name of a group in [Progress].
func seenGroup(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:])
}

// arrivals are the groups of a merge that come next: those that a scan meets first, in
// memory bounded by bytesMax and one row.
type arrivals struct {
	rowsMax  int // 0 for no limit
	bytesMax int64

	rows    []arrival // a heap with the last one on top while they are collected; then in order
	bytes   int64
	dropped bool       // groups were removed
	ceiling firstSight // the first of the removed ones; none from it on may enter
}

// arrival is a group that is complete.
type arrival struct {
	Row
	at firstSight
}

// arrivalSize is the approximate memory of an arrival without its row.
const arrivalSize = 160

// admits reports whether a group would be kept. Other groups need no row.
func (a *arrivals) admits(at firstSight) bool {
	if a.dropped && !at.before(a.ceiling) {
		return false
	}
	if a.rowsMax > 0 && len(a.rows) >= a.rowsMax && !at.before(a.rows[0].at) {
		a.drop(at)
		return false
	}
	return true
}

// add adds a group that was admitted.
func (a *arrivals) add(r arrival) {
	heap.Push((*arrivalHeap)(&a.rows), r)
	a.bytes += int64(len(r.JSON)) + arrivalSize
	for len(a.rows) > 1 && (a.rowsMax > 0 && len(a.rows) > a.rowsMax || a.bytes > a.bytesMax) {
		last := heap.Pop((*arrivalHeap)(&a.rows)).(arrival)
		a.bytes -= int64(len(last.JSON)) + arrivalSize
		a.drop(last.at)
	}
}

// drop notes that a group was removed.
func (a *arrivals) drop(at firstSight) {
	if !a.dropped || at.before(a.ceiling) {
		a.dropped, a.ceiling = true, at
	}
}

// sort ends the collection.
func (a *arrivals) sort() {
	slices.SortFunc(a.rows, func(x, y arrival) int { return x.at.compare(y.at) })
}

// arrivalHeap has the last group on top.
type arrivalHeap []arrival

func (h arrivalHeap) Len() int           { return len(h) }
func (h arrivalHeap) Less(i, j int) bool { return h[j].at.before(h[i].at) }
func (h arrivalHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *arrivalHeap) Push(x any) { *h = append(*h, x.(arrival)) }

// Pop implements heap.Interface.
func (h *arrivalHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = arrival{}
	*h = (*h)[:last]
	return r
}

// seeing is the state of a merge of groups as first seen.
type seeing struct {
	// flat says that all streams are one place: the order is that of document numbers,
	// which no split or merge of partitions changes. So rows can be counted to resume.
	flat  bool
	from  Progress // where the merge began
	all   int      // the number of its streams; the rows of an inner plan are one stream of the merge
	last  firstSight
	next  arrivals
	asked bool // next was collected
}

// beginSeeing takes the position of a merge of so many streams.
func (m *Merge) beginSeeing(streams int) {
	s := &m.seeing
	s.from, s.all, s.flat = m.progress, streams, m.plan.replay
	if m.plan.inner != nil && s.from.Streams > 0 {
		s.from.Stream, s.from.Streams = 0, 1
	}
	switch pr := &m.progress; {
	case !pr.Started || m.plan.replay:
		s.from = Progress{}
		s.last.stream = math.MinInt
	case pr.Streams == 0:
		s.last.number = math.MaxUint64
	default:
		s.last = firstSight{number: pr.Position.Number, row: pr.Position.Row}
	}
}

// orderOf returns the place of a stream in the order of streams: 0 for those that the
// position belongs to, below it for those before and above it for those after.
func (m *Merge) orderOf(stream int) int {
	from := &m.seeing.from
	switch after := stream - from.Stream; {
	case m.seeing.flat:
		return 0
	case after < 0:
		return -1
	case after < from.Streams:
		return 0
	default:
		return after - from.Streams + 1
	}
}

// firstSeen returns groups in the order in which a scan of all streams meets them. It
// reads the groups of all streams in the order of their keys, and keeps those that a
// scan meets first after the groups that were returned.
func (m *Merge) firstSeen(ctx context.Context, b Budget, page *Page) error {
	s := &m.seeing
	for {
		for len(s.next.rows) > 0 && !m.enough() {
			row := s.next.rows[0]
			if ok, err := m.accept(row.Row, b, page); !ok {
				return err
			}
			m.returned(&row)
			s.next.rows[0] = arrival{}
			s.next.rows = s.next.rows[1:]
		}
		switch {
		case m.enough() || s.asked && !s.next.dropped:
			m.progress.Done = true
			return nil
		case s.asked && (m.full(b, page) || len(page.Rows) > 0 && late(b)):
			return nil
		}
		if err := m.collect(ctx, b, page); err != nil {
			return err
		}
	}
}

// returned notes that a group was returned or skipped.
func (m *Merge) returned(row *arrival) {
	s, pr := &m.seeing, &m.progress
	if s.last.before(row.at) {
		s.last = row.at
	}
	pr.Position, pr.Started = Position{Number: s.last.number, Row: s.last.row}, true
	switch {
	case m.plan.inner != nil:
		pr.Stream, pr.Streams = 0, s.all
	case s.last.stream > 0:
		pr.Stream, pr.Streams = s.from.Stream+s.from.Streams+s.last.stream-1, 1
	case s.from.Streams == 0:
		pr.Position = Position{}
	}
	switch done := pr.Skip + pr.Taken - 1; {
	case m.plan.replay:
	case int64(len(pr.Seen)) == done && done < SeenMax:
		pr.Seen = append(slices.Clip(pr.Seen), seenGroup(row.Order))
	default:
		pr.Seen = nil
	}
}

// follows reports whether a group has not been returned. The position decides only if
// the progress does not name all groups that were.
func (m *Merge) follows(row *Row, at firstSight) bool {
	pr := &m.progress
	if done := pr.Skip + pr.Taken; !m.plan.replay && int64(len(pr.Seen)) == done {
		return done == 0 || !slices.Contains(pr.Seen, seenGroup(row.Order))
	}
	return m.seeing.last.before(at)
}

// collect reads all groups and keeps the next ones.
func (m *Merge) collect(ctx context.Context, b Budget, page *Page) error {
	s := &m.seeing
	memory := cmp.Or(max(b.Memory, 0), memoryDefault)
	s.next = arrivals{rowsMax: m.left(b, page), bytesMax: max(memory/4, GrowFree)}
	s.asked = true
	m.finish.env.memoryMax = memory + s.next.bytesMax
	if err := m.open(ctx, Budget{}, b, page); err != nil {
		return err
	}
	for len(m.heads) > 0 || m.group != nil {
		var err error
		switch {
		case len(m.heads) > 0 && len(m.heads[0].rows) == 0:
			err = m.refill(ctx, b, page)
		case m.continues():
			err = m.join()
		default:
			err = m.arrive()
		}
		if err != nil {
			return err
		}
	}
	s.next.sort()
	return nil
}

// arrive keeps the current group, which is complete, if it comes next.
func (m *Merge) arrive() error {
	row, at := *m.group, m.at
	m.group = nil
	next := &m.seeing.next
	if !m.follows(&row, at) || !next.admits(at) {
		return nil
	}
	json, ok, err := m.finish.row(row.Group)
	if !ok || err != nil {
		return err
	}
	row.JSON, row.Group = json, nil
	row.Position = Position{Number: at.number, Row: at.row}
	next.add(arrival{Row: row, at: at})
	m.finish.env.covers(next.bytes)
	return m.finish.env.err
}
