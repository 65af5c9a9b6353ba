package query

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/decandb/decan/internal/giveway"
	"github.com/decandb/decan/internal/index"
)

// Position is where in the order of rows a page ends.
type Position struct {
	Number uint64 // of the document of the last row, or of the last document looked at
	Key    []byte // its order key, cut at OrderKeyMax bytes; nil when rows have no order of their own

	// Row is how many rows of that document lie in front of the position, since
	// JOIN makes several of one document. Zero is all of them.
	Row int
}

// OrderKeyMax is the length at which the order key of a [Position] is cut, so
// that positions fit in the tokens that clients carry.
const OrderKeyMax = 128

// Budget says where a page begins and how large it may get.
type Budget struct {
	After    Position
	Started  bool      // After is set; otherwise the page is the first
	MaxItems int       // rows; zero or less for any number
	MaxBytes int       // of JSON, exceeded by a first row alone; zero or less for the default of a page
	Memory   int64     // that groups, distinct values and lists may take, in bytes; zero or less for 64 MB
	Deadline time.Time // zero for none; see [Plan.Run]

	// Late says instead of Deadline, when it is not nil, whether the page ends where
	// it is. The goroutine that makes the page asks it.
	Late interface{ Late() bool }

	// Grow, when it is not nil, is asked for memory before groups, distinct values,
	// lists and sorted rows take more than [GrowFree] bytes together. It grants need
	// bytes or more on top of what it has granted for the page so far, or refuses
	// with the error that ends the page. What is granted is in use until the stream
	// of the page is asked again, or the caller drops the rows.
	Grow Granter

	// AfterKey is the whole order key at After, for the case that After.Key is
	// cut. [Merge] finds it out, and whoever carries a budget passes it on.
	AfterKey []byte
	// Probe asks for one thing only: the row at After, with its whole order key
	// and without JSON, when its document is here.
	Probe bool
}

// Row is one row of a result.
type Row struct {
	JSON     []byte // the caller may keep it; nil when Group is set
	Position Position
	Order    []byte // the whole order key; nil when rows have no order of their own
	Group    *Group // of a plan that combines documents: what one partition knows of the row
}

// Granter grants memory; see [Budget].
type Granter interface {
	// Grow grants need bytes or more, or refuses. Goroutines may call it at the same time
	// when they make pages together.
	Grow(need int64) (granted int64, err error)
}

// ErrAgain is the error with which a caller ends a page by [giveway.Check] that it will ask
// for again from the beginning: nobody is charged for what was done of it.
var ErrAgain = errors.New("the page is begun again")

// Page is a part of a result.
type Page struct {
	Rows  []Row
	Next  Position // resume strictly behind it; meaningless when nothing was looked at
	More  bool     // there may be rows behind Next
	Stats Stats

	// Used is called by [Merge], from its own goroutine, when it takes the page
	// into the result; nil for nobody who wants to know. A merge may ask for
	// pages that it does not need in the end.
	Used func()
}

// Stats counts what a query did. Each figure is a sum over the partitions, or
// the same in all of them.
type Stats struct {
	Retrieved      int64 // documents read
	RetrievedBytes int64
	Output         int64 // rows returned
	OutputBytes    int64
	IndexHits      int64         // documents read that an index led to
	Matched        int64         // documents that passed the filter
	Calls          int64         // of user-defined functions
	Ways           Ways          // how rows were made, for explanations
	Compiled       time.Duration // time spent on the text, once per query
	Took           time.Duration // time spent running: all of the following, and what is between them

	// What the time went into, estimated from one document in very many.
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

// defaultPageBytes is the size of a page when the budget names none: the size
// of an answer.
const defaultPageBytes = 4 << 20

// How many documents are looked at between two looks at the clock, for the end
// of the page and for the division of time, and at the context, which is looked at
// after so many bytes of them as well: the context is where a server has a query
// give way to others.
const (
	clockEvery   = 16
	sampleEvery  = 128
	contextEvery = 32
	contextBytes = 128 << 10
)

// Run returns a page of the rows of one partition: the documents of src that
// pass the filter, projected, and in order when the query has one. OFFSET is
// not applied, and TOP and LIMIT only end the work early, since they count over
// all partitions: [Merge] applies them.
//
// Without ORDER BY rows come in the order of document numbers. The page ends
// when the budget is used up, at the earliest behind one document, and may then
// be empty and have more behind it.
//
// With ORDER BY the rows come in the order of their keys, those with equal keys
// by number in the same direction. Run looks at all candidates and keeps the
// rows of the page alone, in memory bounded by MaxBytes, or it follows an index
// that has the order; it does not stop at the deadline, because half a sort has
// no position. A page resumed at a cut key without AfterKey begins with the
// first row whose key is cut alike.
//
// A plan that combines documents gives rows that are groups, in the order of
// their keys, for [Merge] to put together with those of other partitions and to
// finish. Memory bounds them: the greatest that have no room come on a later
// page, and a single one that has none is a BadRequest.
//
// When ctx ends Run returns its error within 64 documents. A row that JSON
// cannot express, or that is too large, is a BadRequest. A plan that has a
// [Plan.Hybrid] is not for Run, and an error that is nobody's request.
func (p *Plan) Run(ctx context.Context, src Source, b Budget) (Page, error) {
	switch {
	case p.query.Rank:
		return Page{}, errors.New("a query with ORDER BY RANK runs as the queries of its components: see Plan.Hybrid")
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
		src = nowhere{}
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

// begin makes a run, of what another one has left if there is that.
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
	r.budget, r.from = b, originOf(&b)
	r.page.Next = b.After
	return r
}

// spareMax is the size in bytes up to which a plan keeps the buffer of a run.
const spareMax = 16 << 10

// end returns the page, and leaves the memory of a run that numbered has made to
// the next one: a look-up of few documents is a run for each partition, and most
// of what it takes would be for runs.
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

// pack copies the rows into memory of their own, as much as they take.
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
	page   Page

	reading reading
	inOrder numberedRows // of numbered
	watch   stopwatch

	number  uint64 // of the current document
	matched bool   // it has a row
	visit   func(row int) bool
	step    func() bool // of each, made once
	place   int         // of the current row among those of its document

	key   []byte // scratch for order keys
	buf   []byte // where rows are written, one behind the other
	start int    // where the current row begins in buf
	// moving says that the rows of the page are copied at the end, so that buf
	// may be used again.
	moving bool
	row    []byte // the current row; nil without one

	widest int // bytes of the largest row so far
}

// rows fills the page.
func (r *run) rows(ctx context.Context, src Source) error {
	if err := giveway.Check(ctx); err != nil {
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

// nowhere is the source of a query without FROM: one row that is no document.
type nowhere struct{}

func (nowhere) Candidates(_ context.Context, need Need) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		if need.After == 0 {
			yield(Candidate{Number: 1, Body: emptyDocument}, nil)
		}
	}
}

var emptyDocument = []byte("{}")

// candidates calls look with the documents that the plan needs, until it returns
// false or evaluation fails.
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

// reading is a list of documents under way. It is part of the run, so that the
// loop over documents takes nothing from the heap.
type reading struct {
	run   *run
	ctx   context.Context
	look  func(c Candidate) bool
	n     int   // documents looked at
	bytes int   // of them, since the last look at the context
	err   error // of the source, or of the evaluation

	offer func(c Candidate, err error) bool // candidate, made once
}

// candidate looks at the next document, and reports whether to go on.
func (l *reading) candidate(c Candidate, err error) bool {
	if l.bytes += len(c.Body); err == nil && (l.n%contextEvery == contextEvery-1 || l.bytes >= contextBytes) {
		l.bytes = 0
		err = giveway.Check(l.ctx)
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

// turn makes c the current document and counts it.
func (r *run) turn(c Candidate) {
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
// inputs that pass the filter, in the order of the inputs. It stops when visit
// returns false or evaluation fails. visit is told the place of the row among
// them: from 1 on, and 0 where a document has one row only.
func (r *run) each(visit func(row int) bool) {
	p, e := r.plan, r.env
	if p.plain {
		if p.filter != nil && p.filter(e) != yes || !p.whole && p.base >= 0 && e.raw(p.base) == nil {
			return // FROM c.a, and this document has no a.
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

// numbered runs a query whose rows come in the order of documents.
func (r *run) numbered(ctx context.Context, src Source) error {
	need := Need{Access: r.plan.accessing, Bare: r.plan.bare, Want: r.wanted()}
	if at := r.budget.After; r.budget.Started {
		need.After = at.Number
		if at.Row > 0 && at.Number > 0 {
			need.After-- // the document has rows behind the position, perhaps
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

// wanted returns about how many documents fill the page, zero when that is not known
// because the filter may leave out others.
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

// numberedRows puts rows into the page in the order of documents.
type numberedRows struct {
	*run
	looked int
	rest   bool                   // the current document has rows that have no room
	ended  bool                   // the query needs no more of its rows
	add    func(row int) bool     // row, made once
	take   func(c Candidate) bool // document, made once
}

// document takes the rows of the next document, and reports whether to go on.
func (l *numberedRows) document(c Candidate) bool {
	if l.page.More = l.full() || l.clockDue() && l.late(); l.page.More {
		return false
	}
	l.looked++
	before, rows, calls := l.page.Stats, len(l.page.Rows), l.env.calls
	l.turn(c)
	l.each(l.add)
	if l.rest && len(l.page.Rows) == rows {
		l.page.Stats, l.env.calls = before, calls // The next page reads it again and counts it.
	} else {
		l.finish(c.Number, rows, l.rest || l.ended)
	}
	l.page.More = l.rest
	return !l.rest && !l.enough()
}

// clockDue reports whether to look at the clock, behind one document at least.
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

// finish notes how far the page has come with a document whose rows begin at
// first, and that may have more of them.
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

// enough reports whether the query needs no further row at all.
func (r *run) enough() bool {
	return r.plan.bound >= 0 && int64(len(r.page.Rows)) >= r.plan.bound
}

// fits reports whether the row just written has room in the page. A first row
// always has.
func (r *run) fits() bool {
	return len(r.page.Rows) == 0 || r.page.Stats.OutputBytes+int64(len(r.row)) <= int64(r.budget.MaxBytes)
}

func (r *run) late() bool { return late(r.budget) }

// project writes the current row and reports whether there is one: an undefined
// row is none.
func (r *run) project() bool {
	const smallest, largest = 1 << 10, 64 << 10
	const growing = spareMax / 2 // it grows by half at least, and is not to outgrow spareMax
	if room := max(r.widest, smallest/4); cap(r.buf)-len(r.buf) < room && (!r.moving || cap(r.buf) > growing) {
		// Rows that are written already keep the old buffer.
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

// drop takes the current row back.
func (r *run) drop() {
	r.buf = r.buf[:r.start]
	r.row = nil
}

// add appends the current row to the page.
func (r *run) add(at Position) {
	r.page.Stats.OutputBytes += int64(len(r.row))
	r.page.Rows = append(r.page.Rows, Row{JSON: r.row, Position: at})
}

// stopwatch divides the time of a run between the index, the source and the
// plan. It looks at the clock for a few documents and takes them for all.
type stopwatch struct {
	opened, sampled time.Time
	lookup, reading time.Duration
	evaluating      time.Duration // of the samples
	samples, looked int64
}

// open starts the time of a list of documents, of which found has the first.
func (w *stopwatch) open() { w.opened = time.Now() }

func (w *stopwatch) found() {
	now := time.Now()
	w.lookup += now.Sub(w.opened)
	w.opened = now
}

// begin and end are around the evaluation of a document that is a sample.
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

// lookingUp starts a time in the index, and returns what ends it.
func (w *stopwatch) lookingUp() func() {
	begun := time.Now()
	return func() { w.lookup += time.Since(begun) }
}

// divide writes the figures. What was neither in the index nor in the source is
// evaluation.
func (w *stopwatch) divide(s *Stats) {
	s.Lookup = w.lookup
	if w.samples > 0 {
		evaluated := time.Duration(float64(w.evaluating) / float64(w.samples) * float64(w.looked))
		s.Load = max(0, w.reading-evaluated)
	}
	s.Evaluate = max(0, s.Took-s.Lookup-s.Load)
}
