package query

import (
	"bytes"
	"container/heap"
	"context"
	"math"
	"slices"
	"time"

	"github.com/decandb/decan/internal/pacing"
)

// Stream returns the rows of one partition page by page. It calls [Plan.Run] over the
// partition's documents, perhaps on another machine, and passes the budget on
// unchanged.
type Stream func(ctx context.Context, b Budget) (Page, error)

// Progress is the position of a merged query, sufficient to continue it later. The
// zero value is the beginning.
type Progress struct {
	Position Position // the next row follows it
	Started  bool     // Position is set
	Stream   int      // the stream that Position belongs to; the streams before it are finished; not of a plan that is Ordered, unless it is FirstSeen
	Streams  int      // of a plan that is FirstSeen: the number of streams, from Stream on, that hold what was one partition; 0: Position is before Stream
	Skip     int64    // rows skipped for OFFSET so far
	Taken    int64    // rows returned so far, for TOP and LIMIT
	Done     bool     // no row is left

	// Seen names the groups that were returned or skipped so far, of a plan that is
	// FirstSeen; nil if there are more than [SeenMax]. Then the groups that a scan meets
	// up to Position count as returned.
	Seen []uint64
}

// Merge combines the rows of several partitions into the result of the query. It reads
// one partition after another, or, if the plan is [Plan.Ordered], merges the rows by
// key and then by document number. It joins and finishes groups of equal keys. Then it
// applies DISTINCT, unless groups do, and OFFSET, LIMIT and TOP. One goroutine uses
// it.
type Merge struct {
	// Parallel calls do with each number from 0 to n-1, possibly concurrently, and
	// returns after the last call. Nil calls one at a time; then no stream is asked
	// for rows that are not needed. With Parallel, streams that are read one after
	// another are read ahead: in growing waves, or all at once if the plan looks up
	// few documents.
	Parallel func(n int, do func(i int))

	// Trailing adds a continuation to a final full page; the page that follows is
	// empty. It applies to streams that are read one after another, unless TOP or
	// LIMIT ends the query.
	Trailing bool

	plan     *Plan
	streams  []*mergeStream
	progress Progress
	ctx      context.Context // of the current page
	taken    int             // rows and parts of groups of the current page; see pass

	wave int // number of streams to ask at once; of a plan that is not ordered

	begun  bool       // of an ordered plan: the heap is built
	heads  streamHeap // streams with rows in memory, the least first
	group  *Row       // the current group, of which later streams may have a part
	at     firstSight // of the current group
	seeing seeing     // of a plan whose groups come as first seen
	finish *finisher
	unique *uniqueRows // of a plan that skips rows it has returned before
}

// mergeStream is a stream with its rows that are not used yet.
type mergeStream struct {
	run   Stream
	index int // among the streams
	desc  bool
	rows  []Row
	after Budget // where the stream continues
	more  bool   // it may have rows after those in memory
	asked bool   // the rows in memory are those of page
	page  Page   // the last page, until it is used
}

// Merge combines streams in the order of their partitions, from the beginning or from
// the progress of another merge of the same plan. The streams of an Ordered plan may
// differ from those of the other merge, if together they hold the same documents; if it
// is FirstSeen, Progress.Stream and Progress.Streams must say which of them hold what
// the stream of Position held. Of other plans the stream that Position belongs to must be the same, or one that
// [Together] made of its successors, and Progress.Stream must be its index.
//
// DISTINCT in an order of its own, and DISTINCT over a GROUP BY whose keys it does not
// select, has no position: each merge begins again and skips as many rows as progress
// has counted.
func (p *Plan) Merge(streams []Stream, from Progress) *Merge {
	m := &Merge{plan: p, progress: from, wave: 1}
	if p.group.firstSeen() {
		m.beginSeeing(len(streams))
	}
	if namesTerms(p.accessing) {
		m.wave = waveMax
	}
	if p.inner != nil {
		streams = []Stream{m.outer(streams)}
	}
	m.streams = make([]*mergeStream, len(streams))
	all := make([]mergeStream, len(streams))
	for i, run := range streams {
		all[i] = mergeStream{run: run, index: i, desc: p.descending(), more: true}
		m.streams[i] = &all[i]
	}
	return m
}

// Page returns the next rows and the progress of the query. If Page.More is set, the
// page may be empty and more rows may follow.
func (m *Merge) Page(ctx context.Context, b Budget) (Page, Progress, error) {
	if b.MaxBytes <= 0 {
		b.MaxBytes = defaultPageBytes
	}
	m.prepare(ctx, b)
	m.ctx, m.taken = ctx, 0
	var page Page
	skipped := m.progress.Skip
	if m.progress.Taken >= m.plan.take() {
		m.progress.Done = true
	}
	var err error
	switch {
	case m.progress.Done:
	case m.plan.group.firstSeen():
		err = m.firstSeen(ctx, b, &page)
	case m.plan.group != nil:
		err = m.grouped(ctx, b, &page)
	case m.plan.order != nil:
		err = m.ordered(ctx, b, &page)
	default:
		err = m.sequential(ctx, b, &page)
	}
	if err != nil {
		return Page{}, m.progress, err
	}
	if m.finish != nil {
		page.Stats.Calls += m.finish.env.calls
		m.finish.env.calls = 0
	}
	if m.plan.replay {
		m.progress = Progress{Stream: m.progress.Stream, Skip: m.progress.Skip, Taken: m.progress.Taken, Done: m.progress.Done}
	}
	page.Next, page.More = m.progress.Position, !m.progress.Done
	page.Stats.Ways.Skipped = m.progress.Skip - skipped
	page.Stats.Output = int64(len(page.Rows))
	page.Stats.OutputBytes = 0
	for _, row := range page.Rows {
		page.Stats.OutputBytes += int64(len(row.JSON))
	}
	return page, m.progress, nil
}

// prepare allocates once what groups and distinct rows need.
func (m *Merge) prepare(ctx context.Context, b Budget) {
	p := m.plan
	if p.replay && m.unique == nil {
		m.unique = &uniqueRows{seen: map[[16]byte]struct{}{}, again: m.progress.Skip + m.progress.Taken, room: b.Memory, allowance: allowanceOf(&b)}
	}
	if p.group == nil {
		return
	}
	if m.finish == nil {
		now := p.now
		if now.IsZero() {
			now = time.Now()
		}
		e := p.env(ctx, now)
		m.finish = &finisher{plan: p, env: &e}
		m.finish.env.load(emptyDocument)
	}
	m.finish.env.ctx, m.finish.env.memoryMax = ctx, b.Memory
	if m.finish.env.allowance.grow == nil {
		m.finish.env.allowance = allowanceOf(&b)
	}
}

// pass counts a row, or a part of a group, and regularly checks the context.
func (m *Merge) pass() error {
	if m.taken++; m.taken%contextEvery != 0 {
		return nil
	}
	return pacing.Check(m.ctx)
}

// want returns the number of rows to ask a stream for. 0 means no limit.
func (m *Merge) want(b Budget, page *Page) int {
	if m.plan.group.firstSeen() {
		return 0 // A stream returns groups in the order of their keys.
	}
	return m.left(b, page)
}

// left returns the number of rows that the rest of the page needs: those to skip and
// those to return. 0 means no limit.
func (m *Merge) left(b Budget, page *Page) int {
	if m.plan.replay {
		return 0
	}
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

// accept adds a row to the page, or skips it for DISTINCT or OFFSET. If the page has
// no room for it, it returns false and changes nothing.
func (m *Merge) accept(row Row, b Budget, page *Page) (bool, error) {
	if err := m.pass(); err != nil {
		return false, err
	}
	if m.unique != nil {
		if fresh, err := m.unique.fresh(row.JSON); !fresh || err != nil {
			return err == nil, err
		}
	}
	switch {
	case m.unique != nil && m.unique.again > 0:
		m.unique.again--
	case m.progress.Skip < m.plan.skip():
		m.progress.Skip++
	default:
		size := page.Stats.OutputBytes + int64(len(row.JSON))
		if b.MaxItems > 0 && len(page.Rows) >= b.MaxItems || len(page.Rows) > 0 && size > int64(b.MaxBytes) {
			return false, nil
		}
		page.Stats.OutputBytes = size
		page.Rows = append(page.Rows, row)
		m.progress.Taken++
	}
	if m.unique != nil {
		m.unique.note()
	}
	m.progress.Position, m.progress.Started = row.Position, true
	return true, nil
}

// enough reports whether the query needs no further row.
func (m *Merge) enough() bool { return m.progress.Taken >= m.plan.take() }

// full reports whether a page needs no further row.
func (m *Merge) full(b Budget, page *Page) bool {
	return b.MaxItems > 0 && len(page.Rows) >= b.MaxItems
}

func late(b Budget) bool {
	if b.Late != nil {
		return b.Late.Late()
	}
	return !b.Deadline.IsZero() && !time.Now().Before(b.Deadline)
}

// ask gets the next pages of streams, concurrently if it can. A page counts when use
// takes it.
func (m *Merge) ask(ctx context.Context, list []*mergeStream, b Budget) error {
	if err := pacing.Check(ctx); err != nil {
		return err
	}
	if len(list) == 1 || m.Parallel == nil {
		for _, s := range list {
			if err := s.ask(ctx, b); err != nil {
				return err
			}
		}
		return nil
	}
	// The first error cancels the other calls, whose errors add nothing.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.Parallel(len(list), func(i int) {
		if err := list[i].ask(ctx, b); err != nil {
			cancel(err)
		}
	})
	return context.Cause(ctx)
}

// ask gets the next page of the stream.
func (s *mergeStream) ask(ctx context.Context, b Budget) error {
	b.After, b.AfterKey, b.Started = s.after.After, s.after.AfterKey, s.after.Started
	var err error
	if s.page, err = s.run(ctx, b); err != nil {
		return err
	}
	s.rows, s.more, s.asked = s.page.Rows, s.page.More, true
	return nil
}

// use takes the page that a stream returned.
func (s *mergeStream) use(page *Page) {
	if !s.asked {
		return
	}
	bytes := page.Stats.OutputBytes
	page.Stats.Add(s.page.Stats)
	page.Stats.OutputBytes = bytes
	if s.page.Used != nil {
		s.page.Used()
	}
	s.asked = false
	s.page.Rows = nil
}

// shareMin is the minimum number of bytes of rows to ask a stream for; with less it
// would sort the same rows repeatedly. shareMemory is the minimum memory that it may
// use: two rows of maximum size.
const (
	shareMin    = 64 << 10
	shareMemory = 2 * builtMax
)

// share returns what to ask each of n streams for, so that together they hold little
// more than a page.
func (m *Merge) share(n int, b Budget, page *Page) Budget {
	memory := b.Memory
	if memory <= 0 {
		memory = memoryDefault
	}
	return Budget{
		Deadline: b.Deadline,
		Late:     b.Late,
		Grow:     b.Grow,
		Read:     b.Read,
		From:     b.From,
		MaxItems: m.want(b, page),
		MaxBytes: max(b.MaxBytes/n, shareMin),
		Memory:   min(memory, max(memory/int64(n), shareMemory)),
	}
}

// waveMax is the maximum number of streams that are asked at once when they are read
// one after another.
const waveMax = 32

// sequential reads the streams one after another.
func (m *Merge) sequential(ctx context.Context, b Budget, page *Page) error {
	pr := &m.progress
	for first := true; ; first = false {
		if pr.Stream >= len(m.streams) {
			pr.Done = true
			return nil
		}
		s := m.streams[pr.Stream]
		if (len(s.rows) == 0 || s.asked) && m.full(b, page) {
			return nil
		}
		if len(s.rows) == 0 && !s.asked {
			if !first && late(b) {
				return nil
			}
			if err := m.ahead(ctx, b, page); err != nil {
				return err
			}
		}
		if s.asked && !m.fits(s, b, page) {
			if room, err := m.cut(ctx, s, b, page); !room || err != nil {
				return err
			}
		}
		s.use(page)
		for len(s.rows) > 0 && !m.enough() {
			if ok, err := m.accept(s.rows[0], b, page); !ok {
				return err
			}
			s.rows = s.rows[1:]
		}
		if m.enough() {
			pr.Done = true
			return nil
		}
		switch {
		case s.more:
			pr.Position, pr.Started = s.page.Next, true
		case m.Trailing && m.full(b, page) && pr.Stream == len(m.streams)-1:
			return nil // Position is that of the last row
		default:
			pr.Position, pr.Started = Position{}, false
			pr.Stream++
		}
	}
}

// blocked reports whether the page has no room even for the first row in memory.
func (m *Merge) blocked(s *mergeStream, b Budget, page *Page) bool {
	return m.unique == nil && len(s.rows) > 0 && len(page.Rows) > 0 && m.progress.Skip >= m.plan.skip() &&
		page.Stats.OutputBytes+int64(len(s.rows[0].JSON)) > int64(b.MaxBytes)
}

// fits reports whether the page has room for all rows of a stream in memory.
func (m *Merge) fits(s *mergeStream, b Budget, page *Page) bool {
	if m.unique != nil {
		return true
	}
	if most := m.want(b, page); most > 0 && len(s.rows) > most {
		return false
	}
	left := m.plan.skip() - m.progress.Skip
	size := page.Stats.OutputBytes
	for i, row := range s.rows {
		if int64(i) < left {
			continue
		}
		if size += int64(len(row.JSON)); size > int64(b.MaxBytes) && len(page.Rows)+i > 0 {
			return false
		}
	}
	return true
}

// cut asks the current stream again, for the rows that still fit, so that the rows of
// the next page are not charged twice. It returns false if no row fits.
func (m *Merge) cut(ctx context.Context, s *mergeStream, b Budget, page *Page) (bool, error) {
	if m.blocked(s, b, page) {
		return false, nil
	}
	pr := &m.progress
	s.rows, s.asked = nil, false
	s.after = Budget{After: pr.Position, Started: pr.Started}
	ask := m.share(1, b, page)
	ask.MaxBytes = max(1, b.MaxBytes-int(page.Stats.OutputBytes))
	if err := m.ask(ctx, m.streams[pr.Stream:pr.Stream+1], ask); err != nil {
		return false, err
	}
	return !m.blocked(s, b, page), nil
}

// ahead asks the current stream and a growing number of the streams after it.
func (m *Merge) ahead(ctx context.Context, b Budget, page *Page) error {
	pr := &m.progress
	m.streams[pr.Stream].after = Budget{After: pr.Position, Started: pr.Started}
	list := m.streams[pr.Stream : pr.Stream+1]
	if m.Parallel != nil && !pr.Started {
		// The stream is new, and so are those after it that no wave has reached.
		n := 1
		for n < m.wave && pr.Stream+n < len(m.streams) && !m.streams[pr.Stream+n].asked {
			n++
		}
		list = m.streams[pr.Stream : pr.Stream+n]
		m.wave = min(2*m.wave, waveMax)
	}
	ask := m.share(len(list), b, page)
	ask.MaxBytes = max(1, b.MaxBytes-int(page.Stats.OutputBytes))
	if len(list) > 1 {
		ask.MaxBytes = min(ask.MaxBytes, max(b.MaxBytes/len(list), shareMin))
	}
	if err := m.ask(ctx, list, ask); err != nil {
		return err
	}
	rows := 0
	for _, s := range list {
		rows += len(s.rows)
	}
	if b.MaxItems > 0 {
		rows = min(rows, b.MaxItems-len(page.Rows))
	}
	page.Rows = slices.Grow(page.Rows, rows)
	return nil
}

// ordered repeatedly takes the least row of all streams.
func (m *Merge) ordered(ctx context.Context, b Budget, page *Page) error {
	if err := m.begin(ctx, b, page); err != nil {
		return err
	}
	for len(m.heads) > 0 && !m.enough() {
		s := m.heads[0]
		if len(s.rows) == 0 {
			if m.full(b, page) || len(page.Rows) > 0 && late(b) {
				return nil
			}
			if err := m.refill(ctx, b, page); err != nil {
				return err
			}
			continue
		}
		if ok, err := m.accept(s.rows[0], b, page); !ok {
			return err
		}
		m.advance()
	}
	m.progress.Done = true
	return nil
}

// grouped repeatedly joins the parts of the least group.
func (m *Merge) grouped(ctx context.Context, b Budget, page *Page) error {
	if err := m.begin(ctx, b, page); err != nil {
		return err
	}
	if m.plan.group.lone && len(m.heads) == 0 && m.group == nil && !m.progress.Started {
		m.group = &Row{Group: m.plan.group.empty(), Position: Position{Key: []byte{}}}
	}
	for !m.enough() && (len(m.heads) > 0 || m.group != nil) {
		if len(m.heads) > 0 && len(m.heads[0].rows) == 0 {
			// The next row of the stream may be a part of the current group.
			if m.full(b, page) {
				return nil
			}
			if err := m.refill(ctx, b, page); err != nil {
				return err
			}
			continue
		}
		if m.continues() {
			if err := m.join(); err != nil {
				return err
			}
			continue
		}
		if ok, err := m.complete(b, page); !ok {
			return err
		}
		if len(page.Rows) > 0 && len(m.heads) > 0 && late(b) {
			return nil
		}
	}
	m.progress.Done = true
	return nil
}

// continues reports whether the least part is one of the current group, or begins a
// group.
func (m *Merge) continues() bool {
	return len(m.heads) > 0 && (m.group == nil || bytes.Equal(m.heads[0].rows[0].Order, m.group.Order))
}

// join takes the least part: it adds it to the current group, or begins a group.
func (m *Merge) join() error {
	if err := m.pass(); err != nil {
		return err
	}
	row := m.heads[0].rows[0]
	at := firstSight{stream: m.orderOf(m.heads[0].index), number: row.Position.Number, row: row.Position.Row}
	if m.group == nil {
		m.finish.env.memory = m.seeing.next.bytes
		m.group, m.at = &row, at
	} else {
		m.group.Group.merge(m.finish.env, row.Group, at.before(m.at))
		if at.before(m.at) {
			m.at = at
		}
	}
	if m.finish.env.err != nil {
		return m.finish.env.err
	}
	m.advance()
	return nil
}

// complete finishes the current group. If the page has no room for its row, it returns
// false and keeps the group.
func (m *Merge) complete(b Budget, page *Page) (bool, error) {
	row := *m.group
	if row.JSON == nil {
		json, ok, err := m.finish.row(row.Group)
		if err != nil {
			return false, err
		}
		if !ok {
			m.progress.Position, m.progress.Started = row.Position, true
			m.group = nil
			return true, nil
		}
		m.group.JSON, row.JSON = json, json
	}
	row.Group = nil
	ok, err := m.accept(row, b, page)
	if ok {
		m.group = nil
	}
	return ok, err
}

// advance removes the least row.
func (m *Merge) advance() {
	s := m.heads[0]
	s.rows[0] = Row{}
	s.rows = s.rows[1:]
	m.settle(s.more)
}

// refill asks the first stream of the heap for more rows.
func (m *Merge) refill(ctx context.Context, b Budget, page *Page) error {
	if err := m.fill(ctx, m.heads[:1], b, page); err != nil {
		return err
	}
	m.settle(false)
	return nil
}

// settle moves the first stream to its place in the heap. It removes a stream without
// rows, unless the stream may have rows that it was not asked for.
func (m *Merge) settle(stay bool) {
	if len(m.heads[0].rows) == 0 && !stay {
		heap.Pop(&m.heads)
		return
	}
	heap.Fix(&m.heads, 0)
}

// begin asks each stream for its first rows. It completes a truncated key of the
// position first, from the stream that has the document.
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
	if err := m.open(ctx, start, b, page); err != nil {
		return err
	}
	m.begun = true
	return nil
}

// open asks each stream for its first rows after a position, and builds the heap.
func (m *Merge) open(ctx context.Context, start, b Budget, page *Page) error {
	for _, s := range m.streams {
		s.after = start
	}
	if err := m.fill(ctx, m.streams, b, page); err != nil {
		return err
	}
	heads := make(streamHeap, 0, len(m.streams))
	for _, s := range m.streams {
		if len(s.rows) > 0 {
			heads = append(heads, s)
		}
	}
	heap.Init(&heads)
	m.heads = heads
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
		if found.Used != nil {
			found.Used()
		}
		if len(found.Rows) > 0 {
			return found.Rows[0].Order, nil
		}
	}
	return nil, nil
}

// fill asks streams of an ordered plan for their next rows.
func (m *Merge) fill(ctx context.Context, list []*mergeStream, b Budget, page *Page) error {
	list = slices.Clone(list)
	for len(list) > 0 {
		if err := m.ask(ctx, list, m.share(len(m.streams), b, page)); err != nil {
			return err
		}
		empty := list[:0]
		for _, s := range list {
			s.use(page)
			if n := len(s.rows); n > 0 {
				last := s.rows[n-1]
				s.after = Budget{After: last.Position, AfterKey: last.Order, Started: true}
			} else if s.more {
				s.after = Budget{After: s.page.Next, Started: true}
				empty = append(empty, s)
			}
		}
		list = empty
	}
	return nil
}
