package scan

import (
	"context"
	"math"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// The ways to the documents of a query, and their costs. There are two ways. In both,
// documents can be tested for parts of the expression:
//
//   - pass the rows of the clip in key order, and test each document;
//   - look documents up by their numbers, which are in lists of the index. The list of
//     a key prefix, or a roster, limits the numbers to the clip.
//
// docs/decisions/0010-costs-of-reading.md has the reasons, and BenchmarkWays compares
// the choice with all other ways.
//
// [Strategy] has other numbers than costs. scanMax and scanBytes bound what a walk or a
// feed reads before its first row, and so its memory; within them the costs decide.
// BenchmarkScanMax measures their effect among 55,000 documents: a feed of a key of 10
// documents took 63 µs, and 4,600 with scanMax 0; the ranks of that key, counted, 350
// and 6,600; with scanMax 20,000 all of it took about as long as with 5,000. walkFactor
// compares reading a term with computing the terms of a document, which this file does
// not do.

// Costs has the processor time of the steps of reading, in nanoseconds, on the machine
// that docs/benchmarks.md describes. Only their ratios matter, which differ much less
// between machines. `make calibrate` measures each of them and prints it next to the
// constant; BenchmarkWays measures the effect of the decisions.
type Costs struct {
	Begin  float64 // the first seek of an iterator: to a row, or to the first row of a list
	Row    float64 // passing a document's row in key order, without its bytes
	Bytes  float64 // passing one byte of it
	Match  float64 // testing a document for one part of an expression
	Keep   float64 // copying a document that counts, and yielding it in order
	Find   float64 // looking a document up by its number and yielding it
	Seat   float64 // the same if a roster knows where it is
	Miss   float64 // looking a number up whose document is outside of the clip
	Chunk  float64 // reading 65,536 numbers of a list
	Entry  float64 // reading one byte of a range of short lists, as they are stored
	Tested float64 // the same if the value of each list is tested
	Weigh  float64 // asking the store for the size of a range
}

// MeasuredCosts are what `make calibrate` printed on 2026-11-23, rounded. See
// docs/benchmarks.md.
func MeasuredCosts() Costs {
	return Costs{Begin: 1000, Row: 110, Bytes: 0.05, Match: 240, Keep: 1000, Find: 1800, Seat: 850, Miss: 700, Chunk: 2600, Entry: 4, Tested: 18, Weigh: 5000}
}

// missed reports whether looking up so many documents outside of a clip has taken as
// long as passing its rows for their numbers.
func (c *Costs) missed(misses, items int64) bool {
	return float64(misses)*c.Miss >= float64(items)*c.Row
}

// picks reports whether looking up few rows takes less time than passing all.
func (c *Costs) picks(few, all int64) bool {
	return float64(few)*c.Seat < float64(all)*c.Row
}

// sorts reports whether passing and sorting documents takes no more time than passing
// so many rows of the feed.
func (c *Costs) sorts(items, ahead int64) bool {
	return float64(items)*(c.Row+c.Keep) <= float64(ahead)*c.Row
}

// Way is one of the ways to read.
type Way uint8

// The ways.
const (
	Cheapest Way = iota // by the costs
	Passes              // pass the rows of the clip
	Looks               // look numbers up
)

func (w Way) String() string { return [...]string{"cheapest", "passes", "looks"}[w] }

// Forced overrides the costs in tests. The zero value overrides nothing.
type Forced struct {
	Way     Way
	Lists   bool // read the lists of every part
	Match   bool // test documents for all parts of the expression but one, if possible
	Rosters Way  // passes: use none; looks: make one
}

// extent is the size of a clip. It is exact up to extentMax documents.
type extent struct {
	items int64
	bytes float64 // mean of a document
}

// extentMax is the greatest number of documents of a range of keys that are counted:
// passing more is more expensive than nearly everything else.
const extentMax = 1 << 17

// reading is a chosen way.
type reading struct {
	way Way
	// set has the documents that count, and possibly some outside of the clip. It is
	// nil for all of the clip.
	set *storage.Postings
	// numbers or list are set after reading it.
	numbers *storage.Numbers
	list    []uint64
	listed  bool

	// matcher tests documents for the parts of the expression that no list covers; nil
	// if lists cover all.
	matcher *query.Matcher
}

// chooser is one choice.
type chooser struct {
	s      *Source
	ctx    context.Context
	need   query.Need
	cost   *Costs
	force  Forced
	access index.Expr
	extent

	matchable bool    // documents can be tested for the whole expression
	leaves    int     // of the expression, if matchable
	pass      float64 // the cost of passing
	parts     []part  // of a conjunction, or the expression itself
	// inside says that lists can be limited to the clip, and roster returns the set that
	// does it; nil if no set is necessary.
	inside bool
	roster func() *storage.Postings
}

// part is one part of a conjunction.
type part struct {
	expr    index.Expr
	price   float64          // approximate cost of reading its lists
	numbers *storage.Numbers // in the lists, if price has read them
	left    bool             // documents are tested for it instead
}

// choose returns the cheapest way. access is All, or narrows the documents.
func (s *Source) choose(ctx context.Context, access index.Expr, need query.Need) (r reading, err error) {
	c := chooser{s: s, ctx: ctx, need: need, cost: &s.r.Strategy.Costs, force: s.r.Strategy.Force, access: access}
	if err := c.limit(); err != nil || c.items == 0 {
		return reading{way: Passes}, err
	}
	if access.Op == index.All {
		c.pass = c.passing(c.items)
		return c.everything()
	}
	c.leaves, c.matchable = s.matchable(access)
	c.pass = c.passing(c.items)
	r, err = c.narrowed()
	clear(s.parts)
	return r, err
}

// passing returns the cost of passing and testing so many rows.
func (c *chooser) passing(items int64) float64 {
	each := c.cost.Row + c.cost.Bytes*c.bytes
	if c.matchable {
		each += c.cost.Match * float64(c.leaves)
	}
	return c.cost.Begin + float64(items)*each
}

// limit finds what limits lists to the clip, and the extent of the clip.
func (c *chooser) limit() (err error) {
	s := c.s
	if c.force.Rosters != Passes && s.only() != "" {
		if e := s.r.rosters.of(s.only(), s.now.LSN); e.numbers != nil {
			c.inside, c.roster, c.extent, s.seats = true, e.postings, e.extent(), e.seats
			return nil
		}
	}
	c.inside = s.whole
	if s.prefix != nil {
		c.inside, c.roster = true, func() *storage.Postings { return s.now.Rows.Postings(s.prefix) }
	}
	c.extent, err = s.extent(c.ctx)
	return err
}

// everything chooses for a query without an expression.
func (c *chooser) everything() (reading, error) {
	if c.need.Unordered && c.force.Way != Looks {
		return reading{way: Passes}, nil
	}
	wanted := min(float64(c.items), c.wanted())
	// Documents that do not fit into memory are looked up after the pass.
	kept := min(float64(c.items), float64(c.s.r.Strategy.ScanBytes)/max(c.bytes, 1))
	pass := c.pass + kept*c.cost.Keep + (wanted-min(wanted, kept))*c.cost.Find
	look := c.cost.Begin + wanted*c.look()
	switch {
	case c.force.Way == Passes:
		return reading{way: Passes}, nil
	case c.inside && (look < pass || c.force.Way == Looks):
		return c.looking(nil), nil
	case !c.inside && (float64(c.items) > kept || c.force.Way == Looks):
		// All rows are passed for their numbers, and then the documents looked up.
		if !c.s.r.rosters.fits(c.items) || c.s.only() == "" {
			return reading{way: Looks}, nil
		}
		numbers, err := c.s.enroll(c.ctx)
		if err != nil {
			return reading{}, err
		}
		return reading{way: Looks, set: numbers.Postings()}, nil
	}
	return reading{way: Passes}, nil
}

// looking returns the reading of a set, limited to the clip. A nil set is all of it.
func (c *chooser) looking(set *storage.Postings) reading {
	if c.roster == nil {
		return reading{way: Looks, set: set}
	}
	if set == nil {
		return reading{way: Looks, set: c.roster()}
	}
	return reading{way: Looks, set: storage.Intersect(c.roster(), set)}
}

// narrowed chooses for a query with an expression.
func (c *chooser) narrowed() (reading, error) {
	if c.force.Way == Passes && c.matchable {
		return c.passMatching(), nil
	}
	rest, price := c.split()
	if c.matchable && c.force.Way == Cheapest && price+c.look() >= c.pass {
		return c.passMatching(), nil
	}
	if !c.matchable && !c.inside && price+float64(c.items)*c.cost.Miss >= c.passing(c.items) || c.force.Rosters == Looks && !c.inside {
		if err := c.enlist(); err != nil {
			return reading{}, err
		}
	}
	set, none := c.combine()
	if none || set == nil {
		return reading{way: Looks, list: nil, listed: true}, nil
	}
	r := c.looking(set)
	if rest != nil {
		r.matcher = c.s.matcherOf(*rest)
	}
	if c.lazily(r) {
		return r, nil
	}
	return c.counted(r, price)
}

// passMatching returns the reading of all documents of the clip, which are tested.
func (c *chooser) passMatching() reading {
	return reading{way: Passes, matcher: c.s.matcherOf(c.access)}
}

// look returns the cost of looking up a document of the clip.
func (c *chooser) look() float64 {
	if c.s.seats != nil {
		return c.cost.Seat
	}
	return c.cost.Find
}

// extra returns the cost of looking up a document, less the cost of keeping one in a
// pass.
func (c *chooser) extra() float64 {
	switch each := c.look(); {
	case !c.inside:
		return (c.cost.Miss + c.cost.Find) / 2
	case c.need.Unordered:
		return each
	default:
		return max(each-c.cost.Keep, each/4)
	}
}

// wanted returns the approximate number of documents that fill the page, infinity if
// that is unknown.
func (c *chooser) wanted() float64 {
	wanted := math.Inf(1)
	if c.need.Want > 0 {
		wanted = float64(c.need.Want)
	}
	if c.need.WantBytes > 0 {
		wanted = min(wanted, 1+float64(c.need.WantBytes)/max(c.bytes, 1))
	}
	return wanted
}

// lazily reports whether the page is filled before the total number of documents
// matters.
func (c *chooser) lazily(r reading) bool {
	if c.force.Way == Looks {
		return true
	}
	wanted := c.wanted()
	return c.inside && r.matcher == nil && wanted < float64(c.items) && wanted*c.extra() < c.pass
}

// counted reads the numbers of a set, and decides by their count.
func (c *chooser) counted(r reading, price float64) (reading, error) {
	s := c.s
	pass := c.pass
	each := c.extra()
	most := int64(max(1, pass/each))
	list, numbers, over, err := r.set.Gather(c.ctx, s.list[:0], gatherMax, most)
	if err != nil {
		return reading{}, s.broken(c.ctx, err)
	}
	r.set = nil
	if r.list, r.numbers = list, numbers; numbers == nil {
		s.list = list
	}
	r.listed = true
	switch {
	case !over && !c.regret():
		return r, nil
	case c.matchable:
		return c.passMatching(), nil
	case !c.inside:
		if err := c.enlist(); err != nil {
			return reading{}, err
		}
	}
	// The documents cannot be tested, so all lists are necessary.
	set, none := s.combine(c.ctx, c.access)
	if none || set == nil {
		return reading{way: Looks, listed: true}, nil
	}
	r = c.looking(set)
	if r.numbers, err = r.set.Collect(c.ctx); err != nil {
		return reading{}, s.broken(c.ctx, err)
	}
	r.set, r.listed = nil, true
	if float64(r.numbers.Len())*each > pass {
		r.way = Passes
	}
	return r, nil
}

// regret reports whether a roster of the key should be made: when it costs no more than
// the look-ups outside of the key have cost so far for lack of one.
func (c *chooser) regret() bool {
	s := c.s
	return !c.inside && s.only() != "" && c.force.Rosters != Passes && c.force.Way == Cheapest &&
		s.r.rosters.fits(c.items) && s.r.rosters.due(s.only(), int64(c.pass))
}

// enlist limits lists to the clip by its numbers. It passes all rows of the clip.
func (c *chooser) enlist() error {
	numbers, err := c.s.enroll(c.ctx)
	if err != nil {
		return err
	}
	c.inside, c.roster = true, numbers.Postings
	return nil
}

// split divides a conjunction into parts whose lists are read, and the rest, for which
// documents are tested; nil if there is none. It returns the approximate cost of the
// lists.
func (c *chooser) split() (rest *index.Expr, price float64) {
	args := []index.Expr{c.access}
	if c.access.Op == index.And {
		args = c.access.Args
	}
	c.parts = slices.Grow(c.s.parts[:0], len(args))
	c.s.parts = c.parts[:len(args)]
	single := c.matchable && len(args) > 1 && slices.ContainsFunc(args, func(e index.Expr) bool { return named(e, leavesMax) })
	first := 0
	for _, arg := range args {
		if arg.Op == index.All {
			continue
		}
		p := part{expr: arg, price: c.pass}
		// If some parts are single terms, the others are not weighed: the documents
		// of the terms are tested.
		if !single || c.force.Lists || named(arg, leavesMax) {
			p.price, p.numbers = c.price(arg)
		}
		price += p.price
		c.parts = append(c.parts, p)
		if p.price < c.parts[first].price {
			first = len(c.parts) - 1
		}
	}
	if !c.matchable || len(c.parts) == 1 || c.force.Lists {
		return nil, price
	}
	// A part that costs no more than some look-ups may save as many.
	worth := max(c.parts[first].price, fewLookups*c.cost.Find)
	price = 0
	var left []index.Expr
	for i := range c.parts {
		p := &c.parts[i]
		if p.left = i != first && (p.price > worth || c.force.Match); p.left {
			left = append(left, p.expr)
		} else {
			price += p.price
		}
	}
	if len(left) == 0 {
		return nil, price
	}
	return &index.Expr{Op: index.And, Args: left}, price
}

// combine returns the set of the parts whose lists are read, or that it is empty.
func (c *chooser) combine() (set *storage.Postings, none bool) {
	var sets []*storage.Postings
	for _, p := range c.parts {
		var set *storage.Postings
		switch {
		case p.left:
		case p.numbers != nil:
			set = p.numbers.Postings()
		default:
			if set, none = c.s.combine(c.ctx, p.expr); none {
				discard(sets)
				return nil, true
			}
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

// named reports whether an expression consists of at most most single terms.
func named(e index.Expr, most int) bool {
	switch e.Op {
	case index.Leaf:
		return e.Span.One
	case index.And, index.Or:
		for _, arg := range e.Args {
			if len(e.Args) > most || !named(arg, most/len(e.Args)) {
				return false
			}
		}
		return true
	}
	return false
}

// fewLookups is the number of look-ups that a further list is assumed to save.
const fewLookups = 8

// price returns the approximate cost of reading the lists of an expression, and their
// numbers if it has read them.
func (c *chooser) price(e index.Expr) (price float64, numbers *storage.Numbers) {
	switch e.Op {
	case index.Leaf, index.Filter:
		switch {
		case e.Span.Empty():
			return 0, nil
		case e.Span.One && e.Op == index.Leaf && c.inside:
			// Only chunks with numbers of the clip are read, and few seeks are far.
			return c.cost.Begin * (0.75 + 0.25*min(c.chunks(), float64(c.items))), nil
		case e.Span.One && e.Op == index.Leaf:
			return c.cost.Begin + c.chunks()*c.cost.Chunk, nil
		}
		return c.rangePrice(e)
	case index.And, index.Or:
		for _, arg := range e.Args {
			more, _ := c.price(arg)
			price += more
		}
	}
	return price, nil
}

const (
	// probeBytes is the greatest weight of a range that is read to find its size: the
	// store estimates in blocks, so a range of a few lists weighs as much as a block of
	// each table.
	probeBytes = 32 << 10
	// probeRows is the greatest number of rows that are read for that, and probePart
	// the part of the cost of a pass that may be spent on them if the range is not
	// weighed.
	probeRows = 64
	probePart = 0.1
	// listBytes is the approximate size of a short list.
	listBytes = 32
	// weighings is how many times as much as a weighing a pass must cost to be worth
	// one.
	weighings = 20
)

// rangePrice is price for the lists of a range of terms.
func (c *chooser) rangePrice(e index.Expr) (price float64, numbers *storage.Numbers) {
	each := c.cost.Entry
	if e.Op == index.Filter {
		each = c.cost.Tested
	}
	small := c.matchable && c.pass < weighings*c.cost.Weigh
	rows := probeRows
	if small {
		rows = min(rows, int((probePart*c.pass-c.cost.Begin)/(each*listBytes)))
	}
	r := listRange(e)
	if !small {
		stored, dense := c.s.now.Rows.EstimatePostings(r.Low, r.High)
		if dense {
			return c.cost.Begin + float64(stored)*c.cost.Chunk/chunkStored, nil
		}
		price = c.cost.Begin + float64(max(stored, probeBytes))*each
		if stored > probeBytes {
			return price, nil
		}
	}
	if rows > 0 {
		// An error is returned again when the lists are read.
		if numbers, over, err := c.s.now.Rows.GatherRange(c.ctx, r, rows); err == nil && !over {
			return 0, numbers
		}
	}
	if small {
		return c.pass, nil
	}
	return price, nil
}

// chunkStored is the approximate size of a dense chunk of a list in bytes.
const chunkStored = 8 << 10

// chunks returns the greatest possible number of chunks of a list.
func (c *chooser) chunks() float64 {
	return float64(min(c.s.now.Counter>>16+1, uint64(c.s.now.Items)))
}

// extent returns the extent of the clip.
func (s *Source) extent(ctx context.Context) (extent, error) {
	x := extent{items: s.now.Items, bytes: float64(s.now.Bytes) / float64(max(1, s.now.Items))}
	if s.whole {
		return x, nil
	}
	if s.prefix != nil {
		n, err := s.items(ctx, extentMax)
		x.items = n
		return x, err
	}
	sum, err := s.totals(ctx, extentMax, math.MaxInt64)
	return extent{items: sum.Items, bytes: float64(sum.Bytes) / float64(max(1, sum.Items))}, err
}

// only returns the EPK of a clip that contains a single one, empty if it contains
// several or EPKs have no common width.
func (s *Source) only() partitionkey.EPK {
	if s.epk == "" && !s.whole && s.r.own.Width > 0 && len(s.clip.Min) == s.r.own.Width && s.point() {
		s.epk = s.clip.Min
	}
	return s.epk
}

// matchable reports whether documents can be tested for an expression, and the number
// of its leaves.
func (s *Source) matchable(access index.Expr) (leaves int, ok bool) {
	return query.Matchable(s.now.Indexing.Active.Index, access)
}

// matcherOf returns the test of documents for an expression, or a part of one, that
// matchable accepts.
func (s *Source) matcherOf(access index.Expr) *query.Matcher {
	return query.NewMatcher(s.now.Indexing.Active.Index, access)
}

// enroll returns the numbers of the clip. It passes all rows, and so leaves a roster.
func (s *Source) enroll(ctx context.Context) (*storage.Numbers, error) {
	var b storage.NumbersBuilder
	err := s.each(ctx, func(_, _ []byte, d *layout.Document) bool {
		b.Add(d.Number)
		return true
	})
	return b.Numbers(), err
}

// note counts the spans of an expression for the charge, which does not depend on
// whether they are read. It reports whether the expression narrows the documents, and
// whether it certainly has none.
func (s *Source) note(e index.Expr) (narrows, none bool) {
	switch e.Op {
	case index.Leaf, index.Filter:
		if e.Span.Empty() {
			return true, true
		}
		s.look(e.Span)
		return true, false
	case index.And:
		for _, arg := range e.Args {
			some, none := s.note(arg)
			if none {
				return true, true
			}
			narrows = narrows || some
		}
		return narrows, false
	case index.Or:
		none = true
		for _, arg := range e.Args {
			some, empty := s.note(arg)
			if !empty && !some {
				return false, false
			}
			none = none && empty
		}
		return true, none
	case index.None:
		return true, true
	}
	return false, false
}
