package query

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/index"
)

// Position is where in the order of rows a page ends.
type Position struct {
	Number uint64 // of the document of the last row, or of the last document looked at
	Key    []byte // its order key, cut at OrderKeyMax bytes; nil without ORDER BY

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
	Deadline time.Time // zero for none; see [Plan.Run]

	// AfterKey is the whole order key at After, for the case that After.Key is
	// cut. [Merge] finds it out, and whoever carries a budget passes it on.
	AfterKey []byte
	// Probe asks for one thing only: the row at After, with its whole order key
	// and without JSON, when its document is here.
	Probe bool
}

// Row is one row of a result.
type Row struct {
	JSON     []byte // the caller may keep it
	Position Position
	Order    []byte // the whole order key; nil without ORDER BY
}

// Page is a part of a result.
type Page struct {
	Rows  []Row
	Next  Position // resume strictly behind it; meaningless when nothing was looked at
	More  bool     // there may be rows behind Next
	Stats Stats
}

// Stats counts what a query did.
type Stats struct {
	Retrieved      int64 // documents read
	RetrievedBytes int64
	Output         int64 // rows returned
	OutputBytes    int64
	IndexHits      int64         // documents read that an index led to
	Matched        int64         // documents that passed the filter
	Compiled       time.Duration // time spent on the text, once per query
	Took           time.Duration // time spent running
}

// Add adds the figures of another part of the same query.
func (s *Stats) Add(o Stats) {
	s.Retrieved += o.Retrieved
	s.RetrievedBytes += o.RetrievedBytes
	s.Output += o.Output
	s.OutputBytes += o.OutputBytes
	s.IndexHits += o.IndexHits
	s.Matched += o.Matched
	s.Compiled = max(s.Compiled, o.Compiled)
	s.Took += o.Took
}

// defaultPageBytes is the size of a page when the budget names none: the size
// of an answer.
const defaultPageBytes = 4 << 20

// clockEvery is how many documents are looked at between two looks at the clock.
const clockEvery = 16

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
// rows of the page alone, in memory bounded by MaxBytes; it does not stop at
// the deadline, because half a sort has no position. A page resumed at a cut key
// without AfterKey begins with the first row whose key is cut alike.
//
// When ctx ends Run returns its error at once. A row that JSON cannot express,
// or that is too large, is a BadRequest.
func (p *Plan) Run(ctx context.Context, src Source, b Budget) (Page, error) {
	start := time.Now()
	if b.MaxBytes <= 0 {
		b.MaxBytes = defaultPageBytes
	}
	now := p.now
	if now.IsZero() {
		now = start
	}
	r := &run{plan: p, env: newEnv(&p.root, p.slots, now), budget: b}
	var err error
	switch {
	case b.Probe:
		err = r.probe(ctx, src)
	case p.bound == 0 || p.accessing.Op == index.None:
	case p.base < 0:
		err = r.constant()
	case p.order != nil:
		err = r.ordered(ctx, src)
	default:
		err = r.numbered(ctx, src)
	}
	if err != nil {
		return Page{}, err
	}
	r.page.Stats.Output = int64(len(r.page.Rows))
	r.page.Stats.Compiled = p.took
	r.page.Stats.Took = time.Since(start)
	return r.page, nil
}

// run is one call of Run.
type run struct {
	plan   *Plan
	env    *env
	budget Budget
	page   Page
	buf    []byte // where rows are written, one behind the other
	start  int    // where the current row begins in buf
	row    []byte // the current row; nil without one
	widest int    // bytes of the largest row so far
}

// constant runs a query without FROM, which has one row or none.
func (r *run) constant() error {
	r.page.Next = Position{Number: 1}
	if r.budget.Started {
		return nil
	}
	if r.plan.filter != nil && r.plan.filter(r.env) != yes {
		return r.env.err
	}
	if r.project() {
		r.add(r.page.Next)
	}
	return r.env.err
}

// numbered runs a query without ORDER BY.
func (r *run) numbered(ctx context.Context, src Source) error {
	r.page.Next = r.budget.After
	looked := 0
	for c, err := range src.Candidates(ctx, Need{Access: r.plan.accessing, After: r.after()}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if r.full() || looked%clockEvery == 1 && r.late() {
			r.page.More = true
			break
		}
		looked++
		before := r.page.Stats
		if r.passes(c) && r.project() && !r.fits() {
			r.page.Stats = before // The next page reads it again and counts it.
			r.page.More = true
			break
		}
		if r.env.err != nil {
			return r.env.err
		}
		r.page.Next = Position{Number: c.Number}
		if r.row != nil {
			r.add(r.page.Next)
		}
		if n := r.plan.bound; n >= 0 && int64(len(r.page.Rows)) >= n {
			break
		}
	}
	return nil
}

func (r *run) after() uint64 {
	if !r.budget.Started {
		return 0
	}
	return r.budget.After.Number
}

func (r *run) full() bool {
	return r.budget.MaxItems > 0 && len(r.page.Rows) >= r.budget.MaxItems
}

// fits reports whether the row just written has room in the page. A first row
// always has.
func (r *run) fits() bool {
	return len(r.page.Rows) == 0 || r.page.Stats.OutputBytes+int64(len(r.row)) <= int64(r.budget.MaxBytes)
}

func (r *run) late() bool {
	return !r.budget.Deadline.IsZero() && !time.Now().Before(r.budget.Deadline)
}

// passes turns to a candidate and reports whether it gives a row.
func (r *run) passes(c Candidate) bool {
	r.row = nil
	s := &r.page.Stats
	s.Retrieved++
	s.RetrievedBytes += int64(len(c.Body))
	if r.plan.accessing.Op != index.All {
		s.IndexHits++
	}
	r.env.load(c.Body)
	if r.plan.filter != nil && r.plan.filter(r.env) != yes {
		return false
	}
	if r.env.raw(r.plan.base) == nil {
		return false // FROM c.a, and this document has no a.
	}
	s.Matched++
	return true
}

// project writes the row of the current document and reports whether there is
// one: an undefined row is none.
func (r *run) project() bool {
	const smallest, largest = 4 << 10, 64 << 10
	if room := max(r.widest, smallest/4); cap(r.buf)-len(r.buf) < room {
		// Rows that are written already keep the old buffer.
		r.buf = make([]byte, 0, max(room, min(max(smallest, 2*cap(r.buf)), largest)))
	}
	r.start = len(r.buf)
	var ok bool
	if r.buf, ok = r.plan.emit(r.env, r.buf); ok {
		r.row = r.buf[r.start:len(r.buf):len(r.buf)]
		r.widest = max(r.widest, len(r.row))
	}
	return ok
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
