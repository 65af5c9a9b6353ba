package query

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/pacing"
)

// Position is the end of a page in the order of rows.
type Position struct {
	Number uint64 // of the document of the last row, or of the last document read
	Key    []byte // its order key, truncated to OrderKeyMax bytes; nil if the rows have no order of their own

	// Row is the number of rows of that document before the position, because JOIN
	// makes several rows of a document. Zero means all of them.
	Row int
}

// OrderKeyMax is the length to which the order key of a [Position] is truncated, so
// that a position fits in the token of a client.
const OrderKeyMax = 128

// Budget is where a page begins and how large it may become.
type Budget struct {
	After    Position
	Started  bool      // After is set; otherwise the page is the first
	MaxItems int       // rows; zero or less for any number
	MaxBytes int       // of JSON; only a single first row may exceed it; zero or less for the default of a page
	Memory   int64     // that groups, distinct values and lists may take, in bytes; zero or less for 64 MB
	Deadline time.Time // zero for none; see [Plan.Run]

	// Late replaces Deadline if it is not nil: it reports whether the page should end
	// now. The goroutine that makes the page calls it.
	Late interface{ Late() bool }

	// From is the beginning of the rows that a client wants, for a plan with ORDER BY;
	// nil for all. A page begins there or after its position, whichever is further.
	From *Start

	// Read, if not nil, receives the number of documents while they are read.
	Read Reader

	// Grow, if not nil, is called before groups, distinct values, lists and sorted rows
	// take more than [GrowFree] bytes together. It grants at least need bytes in
	// addition to what it has granted for the page so far, or returns the error that
	// ends the page. The memory is in use until the stream of the page is asked again
	// or the caller drops the rows.
	Grow Granter

	// AfterKey is the whole order key at After if After.Key is truncated. [Merge]
	// finds it; a caller that forwards a budget must forward it too.
	AfterKey []byte
	// Probe asks only for the row at After, with its whole order key and without JSON,
	// if its document is here.
	Probe bool
}

// Row is one row of a result.
type Row struct {
	JSON     []byte // the caller may keep it; nil if Group is set
	Position Position
	Order    []byte // the whole order key; nil if the rows have no order of their own
	Group    *Group // of a plan that combines documents: this partition's part of the row
}

// Reader receives the number of documents read; see [Budget].
type Reader interface {
	// Read receives the number of documents read since the last call. The goroutine
	// that makes the page calls it occasionally, and not for the last documents.
	Read(documents int)
}

// Granter grants memory; see [Budget].
type Granter interface {
	// Grow grants at least need bytes, or returns an error. Goroutines that make pages
	// together may call it concurrently.
	Grow(need int64) (granted int64, err error)
}

// ErrAgain is the error that a caller returns through [pacing.Check] to restart a page
// from its beginning. The work so far is not charged.
var ErrAgain = errors.New("the page restarts from its beginning")

// Page is a part of a result.
type Page struct {
	Rows  []Row
	Next  Position // resume strictly after it; meaningless if nothing was read
	More  bool     // there may be rows after Next
	Stats Stats

	// Used is called by [Merge], from its own goroutine, when it takes the page into
	// the result. Nil disables the callback. A merge may ask for pages that it does
	// not use.
	Used func()
}

// Stats counts the work of a query. Each figure is a sum over the partitions, or the
// same in all of them.
type Stats struct {
	Retrieved      int64 // documents read
	RetrievedBytes int64
	Output         int64 // rows returned
	OutputBytes    int64
	IndexHits      int64         // documents read that an index found
	Matched        int64         // documents that passed the filter
	Calls          int64         // of user-defined functions
	Ways           Ways          // how rows were made, for explanations
	Compiled       time.Duration // time to compile the text, once per query
	Took           time.Duration // time to run, including all of the following

	// The parts of that time, estimated from a sample of the documents.
	Lookup   time.Duration // in the index, until the first document was found
	Load     time.Duration // reading documents
	Evaluate time.Duration // filtering, projecting, aggregating, sorting
}

// Add adds the figures of another part of the same query.
func (s *Stats) Add(o Stats) {
	s.Retrieved += o.Retrieved
	s.RetrievedBytes += o.RetrievedBytes
	s.Output += o.Output
	s.OutputBytes += o.OutputBytes
	s.IndexHits += o.IndexHits
	s.Matched += o.Matched
	s.Calls += o.Calls
	s.Ways.add(o.Ways)
	s.Compiled = max(s.Compiled, o.Compiled)
	s.Took += o.Took
	s.Lookup += o.Lookup
	s.Load += o.Load
	s.Evaluate += o.Evaluate
}

// defaultPageBytes is the size of a page if the budget has none: the size of a
// response.
const defaultPageBytes = 4 << 20

// The number of documents between two checks of the clock, for the end of the page and
// for the division of time, and between two checks of the context, which are also made
// after a number of bytes. In the check of the context, a server lets a query yield to
// others.
const (
	clockEvery   = 16
	sampleEvery  = 128
	contextEvery = 32
	contextBytes = 128 << 10
)

// Run returns a page of the rows of one partition: the documents of src that pass the
// filter, projected, and sorted if the query has an order. It does not apply OFFSET,
// and TOP and LIMIT only end the work early, because they count over all partitions:
// [Merge] applies them.
//
// Without ORDER BY, rows come in the order of document numbers. The page ends when the
// budget is used up, but not before one document was read. It may then be empty
// although more rows follow.
//
// With ORDER BY, rows come in the order of their keys, and rows of equal keys by
// number in the same direction. Run either reads all candidates and keeps only the
// rows of the page, in memory bounded by MaxBytes, or follows an index that has the
// order. It does not stop at the deadline, because half a sort has no position. A page
// that is resumed at a truncated key without AfterKey begins with the first row whose
// key has the same truncation.
//
// A plan that combines documents returns groups, in the order of their keys. [Merge]
// joins them with those of other partitions and finishes them. Memory bounds them: the
// groups with the greatest keys that do not fit come on a later page, and a single
// group that does not fit is a BadRequest.
//
// If ctx ends, Run returns its error within 64 documents. A row that JSON cannot
// represent, or that is too large, is a BadRequest. Run of a plan that has a
// [Plan.Hybrid] is an internal error.
func (p *Plan) Run(ctx context.Context, src Source, b Budget) (Page, error) {
	switch {
	case p.query.Rank:
		return Page{}, errors.New("a query with ORDER BY RANK must be run through Plan.Hybrid")
	case p.inner != nil:
		return p.inner.Run(ctx, src, b)
	}
	return p.run(ctx, src, b)
}

func (p *Plan) run(ctx context.Context, src Source, b Budget) (Page, error) {
	begun := time.Now()
	if b.MaxBytes <= 0 {
		b.MaxBytes = defaultPageBytes
	}
	now := p.now
	if now.IsZero() {
		now = begun
	}
	r := p.begin(ctx, now, b)
	if p.base < 0 {
		src = emptySource{}
	}
	if err := r.rows(ctx, src); err != nil {
		return Page{}, err
	}
	s := &r.page.Stats
	if p.base < 0 {
		*s = Stats{OutputBytes: s.OutputBytes, Ways: s.Ways}
	}
	s.Output = int64(len(r.page.Rows))
	s.Calls = r.env.calls
	if s.Ways.Rows = s.Output; p.plain {
		s.Ways.Passed = s.Matched
	}
	s.Compiled = p.took
	s.Took = time.Since(begun)
	r.watch.divide(s)
	return r.end(), nil
}

// begin returns a run, in the memory of a previous one if there is any.
func (p *Plan) begin(ctx context.Context, now time.Time, b Budget) *run {
	r := p.spare.Swap(nil)
	if r == nil {
		r = &run{plan: p, own: p.env(ctx, now)}
		r.env = &r.own
	} else {
		r.own = p.renew(ctx, &r.own, now)
	}
	r.env.memoryMax = b.Memory
	r.env.allowance = allowanceOf(&b)
	r.budget = b
	r.beginAt(&b)
	r.page.Next = b.After
	return r
}

// spareMax is the maximum size in bytes of a buffer that a plan keeps for the next
// run.
const spareMax = 16 << 10

// end returns the page. It keeps the memory of a run of numbered for the next run: a
// lookup of few documents takes one run for each partition, and most of its memory
// belongs to the runs.
func (r *run) end() Page {
	page := r.page
	if r.inOrder.run == nil {
		return page
	}
	buf := r.buf[:0]
	if r.moving && cap(buf) <= spareMax {
		page.pack()
	} else {
		buf = nil
	}
	clear(r.own.cells)
	clear(r.own.locals)
	*r = run{
		plan: r.plan, env: r.env, own: env{cells: r.own.cells, locals: r.own.locals, layout: r.own.layout},
		inOrder: r.inOrder, reading: reading{offer: r.reading.offer}, step: r.step, buf: buf,
	}
	r.plan.spare.Store(r)
	return page
}

// pack copies the rows to memory of exactly their size.
func (p *Page) pack() {
	size := 0
	for i := range p.Rows {
		size += len(p.Rows[i].JSON)
	}
	all := make([]byte, 0, size)
	for i := range p.Rows {
		from := len(all)
		all = append(all, p.Rows[i].JSON...)
		p.Rows[i].JSON = all[from:len(all):len(all)]
	}
}

// run is one call of Run.
type run struct {
	plan   *Plan
	env    *env // own
	own    env
	budget Budget
	from   origin
	also   *Start // rows begin there too; nil if from says all
	page   Page

	reading reading
	inOrder numberedRows // used by numbered
	watch   stopwatch

	number  uint64 // of the current document
	matched bool   // the document has a row
	visit   func(row int) bool
	step    func() bool // for each; allocated once
	place   int         // of the current row among the rows of its document

	key   []byte // scratch for order keys
	buf   []byte // the rows, one after another
	start int    // start of the current row in buf
	// moving says that the rows of the page are copied at the end, so that buf can be
	// reused.
	moving bool
	row    []byte // the current row, or nil

	widest int // size of the largest row so far, in bytes
}

// rows fills the page.
func (r *run) rows(ctx context.Context, src Source) error {
	if err := pacing.Check(ctx); err != nil {
		return err
	}
	switch {
	case r.budget.Probe:
		return r.probe(ctx, src)
	case r.plan.bound == 0:
		return nil
	case r.plan.group != nil:
		return r.grouped(ctx, src)
	case r.plan.accessing.Op == index.None:
		return nil
	case r.plan.order != nil:
		return r.ordered(ctx, src)
	}
	return r.numbered(ctx, src)
}

// emptySource is the source of a query without FROM: one row that is not a document.
type emptySource struct{}

func (emptySource) Candidates(_ context.Context, need Need) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		if need.After == 0 {
			yield(Candidate{Number: 1, Body: emptyDocument}, nil)
		}
	}
}

var emptyDocument = []byte("{}")

// candidates calls look with the documents that the plan needs, until it returns false
// or evaluation fails.
func (r *run) candidates(ctx context.Context, src Source, need Need, look func(c Candidate) bool) error {
	return r.documents(ctx, src.Candidates(ctx, need), look)
}

func (r *run) documents(ctx context.Context, list iter.Seq2[Candidate, error], look func(c Candidate) bool) error {
	offer := r.reading.offer
	r.reading = reading{run: r, ctx: ctx, look: look, offer: offer}
	if offer == nil {
		r.reading.offer = r.reading.candidate
	}
	r.watch.open()
	list(r.reading.offer)
	if r.reading.err == nil {
		r.watch.stop(r.reading.n)
	}
	return r.reading.err
}

// reading is the iteration over a list of documents. It is part of the run, so that
// the loop does not allocate.
type reading struct {
	run      *run
	ctx      context.Context
	look     func(c Candidate) bool
	n        int   // documents read
	reported int   // of them, those reported to the reader of the budget
	bytes    int   // of them, since the last check of the context
	err      error // of the source, or of the evaluation

	offer func(c Candidate, err error) bool // candidate, allocated once
}

// candidate reads the next document and reports whether to continue.
func (l *reading) candidate(c Candidate, err error) bool {
	if l.bytes += len(c.Body); err == nil && (l.n%contextEvery == contextEvery-1 || l.bytes >= contextBytes) {
		l.bytes = 0
		err = pacing.Check(l.ctx)
		if reader := l.run.budget.Read; reader != nil {
			reader.Read(l.n - l.reported)
			l.reported = l.n
		}
	}
	if err != nil {
		l.err = err
		return false
	}
	watch := &l.run.watch
	if l.n == 0 {
		watch.found()
	}
	sample := l.n%sampleEvery == 1
	if sample {
		watch.begin()
	}
	more := l.look(c)
	if sample {
		watch.end()
	}
	l.n++
	l.err = l.run.env.err
	return more && l.err == nil
}

// setCurrent makes c the current document and counts it.
func (r *run) setCurrent(c Candidate) {
	s := &r.page.Stats
	s.Retrieved++
	s.RetrievedBytes += int64(len(c.Body))
	if c.Led {
		s.IndexHits++
	}
	r.number, r.matched = c.Number, false
	r.env.load(c.Body)
}

// each calls visit for the rows of the current document: the combinations of its
// inputs that pass the filter, in the order of the inputs. It stops if visit returns
// false or evaluation fails. The argument of visit is the number of the row in the
// document, from 1; 0 if a document has only one row.
func (r *run) each(visit func(row int) bool) {
	p, e := r.plan, r.env
	if p.plain {
		if p.filter != nil && p.filter(e) != yes || !p.whole && p.base >= 0 && e.raw(p.base) == nil {
			return // FROM c.a, and this document has no a
		}
		r.page.Stats.Matched++
		visit(0)
		return
	}
	if r.step == nil {
		r.step = func() bool {
			if !r.matched {
				r.matched = true
				r.page.Stats.Matched++
			}
			r.place++
			r.page.Stats.Ways.Passed++
			return r.visit(r.place)
		}
	}
	r.visit, r.place = visit, 0
	p.loop.each(e, r.step)
}

// distinct is each without the rows that equal an earlier row of the document, if the
// query is DISTINCT and equal rows are of one document.
func (r *run) distinct(visit func(row int) bool) {
	if !r.plan.once || r.plan.plain {
		r.each(visit)
		return
	}
	unique := uniqueRows{seen: map[[16]byte]struct{}{}, room: r.env.memoryMax, allowance: r.env.allowance}
	r.each(func(row int) bool {
		if !r.project() {
			return r.env.err == nil
		}
		fresh, err := unique.fresh(r.row)
		r.drop()
		switch {
		case err != nil:
			r.env.fail(err)
			return false
		case !fresh:
			return true
		}
		unique.note()
		return visit(row)
	})
	r.env.allowance = unique.allowance
}

// numbered runs a query whose rows come in the order of documents.
func (r *run) numbered(ctx context.Context, src Source) error {
	need := Need{Access: r.plan.accessing, Bare: r.plan.bare, Want: r.wanted(), WantBytes: r.wantedBytes()}
	if at := r.budget.After; r.budget.Started {
		need.After = at.Number
		if at.Row > 0 && at.Number > 0 {
			need.After-- // the document may have rows after the position
		}
	}
	l := &r.inOrder
	if l.run == nil {
		l.run = r
		l.add, l.take = l.row, l.document
	}
	l.looked, l.rest, l.ended, r.moving = 0, false, false, true
	return r.candidates(ctx, src, need, l.take)
}

// wanted returns approximately how many documents fill the page, or zero if that is
// unknown because the filter may reject documents.
func (r *run) wanted() int {
	if !r.plan.exact {
		return 0
	}
	n := r.budget.MaxItems
	if bound := r.plan.bound; bound >= 0 && (n <= 0 || bound < int64(n)) {
		n = int(min(bound, math.MaxInt32))
	}
	return max(0, n)
}

// wantedBytes returns approximately how many bytes of documents fill the page, or zero
// if that is unknown because the filter may reject documents, or rows may be smaller.
func (r *run) wantedBytes() int {
	if !r.plan.exact || !r.plan.copies {
		return 0
	}
	return r.budget.MaxBytes
}

// numberedRows adds rows to the page in the order of documents.
type numberedRows struct {
	*run
	looked int
	rest   bool                   // the current document has rows that do not fit
	ended  bool                   // the query needs no more of its rows
	add    func(row int) bool     // row, allocated once
	take   func(c Candidate) bool // document, allocated once
}

// document adds the rows of the next document and reports whether to continue.
func (l *numberedRows) document(c Candidate) bool {
	if l.page.More = l.full() || l.clockDue() && l.late(); l.page.More {
		return false
	}
	l.looked++
	before, rows, calls := l.page.Stats, len(l.page.Rows), l.env.calls
	l.setCurrent(c)
	l.each(l.add)
	if l.rest && len(l.page.Rows) == rows {
		l.page.Stats, l.env.calls = before, calls // the next page reads it again and counts it
	} else {
		l.finish(c.Number, rows, l.rest || l.ended)
	}
	l.page.More = l.rest
	return !l.rest && !l.enough()
}

// clockDue reports whether to check the clock. It is true only after the first
// document.
func (l *numberedRows) clockDue() bool {
	return l.looked%clockEvery == 1 || l.plan.script && l.looked > 0
}

func (l *numberedRows) row(row int) bool {
	if at := l.budget.After; row > 0 && l.number == at.Number && row <= at.Row {
		return true
	}
	if l.ended = l.enough(); l.ended {
		return false
	}
	if l.rest = row > 1 && l.full(); l.rest || !l.project() {
		return !l.rest
	}
	if l.rest = !l.fits(); l.rest {
		l.drop()
		return false
	}
	l.run.add(Position{Number: l.number, Row: row})
	return true
}

// finish records the position of the page after a document whose rows begin at first
// and which may have more rows.
func (r *run) finish(number uint64, first int, more bool) {
	r.page.Next = Position{Number: number}
	last := len(r.page.Rows) - 1
	switch {
	case last < first:
	case more:
		r.page.Next = r.page.Rows[last].Position
	default:
		r.page.Rows[last].Position = r.page.Next
	}
}

func (r *run) full() bool {
	return r.budget.MaxItems > 0 && len(r.page.Rows) >= r.budget.MaxItems
}

// enough reports whether the query needs no further row.
func (r *run) enough() bool {
	return r.plan.bound >= 0 && int64(len(r.page.Rows)) >= r.plan.bound
}

// fits reports whether the page has room for the row just written. It always has room
// for a first row.
func (r *run) fits() bool {
	return len(r.page.Rows) == 0 || r.page.Stats.OutputBytes+int64(len(r.row)) <= int64(r.budget.MaxBytes)
}

func (r *run) late() bool { return late(r.budget) }

// project writes the current row and reports whether there is one. An undefined row is
// omitted.
func (r *run) project() bool {
	const smallest, largest = 1 << 10, 64 << 10
	const growing = spareMax / 2 // it grows by half at least and must not exceed spareMax
	if room := max(r.widest, smallest/4); cap(r.buf)-len(r.buf) < room && (!r.moving || cap(r.buf) > growing) {
		// Rows that are already written keep the old buffer.
		r.buf = make([]byte, 0, max(room, min(max(smallest, 2*cap(r.buf)), largest)))
		r.moving = false
	}
	r.row = nil
	r.start = len(r.buf)
	var ok bool
	if r.buf, ok = r.plan.emit(r.env, r.buf); ok {
		r.row = r.buf[r.start:len(r.buf):len(r.buf)]
		r.widest = max(r.widest, len(r.row))
	}
	return ok && r.env.err == nil
}

// drop removes the current row.
func (r *run) drop() {
	r.buf = r.buf[:r.start]
	r.row = nil
}

// add appends the current row to the page.
func (r *run) add(at Position) {
	r.page.Stats.OutputBytes += int64(len(r.row))
	r.page.Rows = append(r.page.Rows, Row{JSON: r.row, Position: at})
}

// stopwatch divides the time of a run between the index, the source and the plan. It
// measures a few documents and extrapolates.
type stopwatch struct {
	opened, sampled time.Time
	lookup, reading time.Duration
	evaluating      time.Duration // of the samples
	samples, looked int64
}

// open starts the lookup time of a list of documents, which ends when the first is
// found.
func (w *stopwatch) open() { w.opened = time.Now() }

func (w *stopwatch) found() {
	now := time.Now()
	w.lookup += now.Sub(w.opened)
	w.opened = now
}

// begin and end enclose the evaluation of a sampled document.
func (w *stopwatch) begin() { w.sampled = time.Now() }

func (w *stopwatch) end() {
	w.evaluating += time.Since(w.sampled)
	w.samples++
}

// stop ends the time of a list of n documents.
func (w *stopwatch) stop(n int) {
	passed := time.Since(w.opened)
	if n == 0 {
		w.lookup += passed
		return
	}
	w.reading += passed
	w.looked += int64(n)
}

// lookingUp starts a time in the index and returns the function that ends it.
func (w *stopwatch) lookingUp() func() {
	begun := time.Now()
	return func() { w.lookup += time.Since(begun) }
}

// divide sets the figures. Time neither in the index nor in the source is evaluation.
func (w *stopwatch) divide(s *Stats) {
	s.Lookup = w.lookup
	if w.samples > 0 {
		evaluated := time.Duration(float64(w.evaluating) / float64(w.samples) * float64(w.looked))
		s.Load = max(0, w.reading-evaluated)
	}
	s.Evaluate = max(0, s.Took-s.Lookup-s.Load)
}
