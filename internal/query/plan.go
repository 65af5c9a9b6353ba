package query

import (
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Param is a parameter of a query.
type Param struct {
	Name  string // with or without the @ that clients send
	Value value.Value
}

// Options are the options of [Compile].
type Options struct {
	Limits resource.Limits // zero: the defaults
	// Computed are the computed properties of the container, the same as those of the
	// index.
	Computed []resource.ComputedProperty
	Now      time.Time // the current time for the query; zero: the time at which it runs

	// Functions finds user-defined functions by name; nil refuses all of them.
	Functions func(name string) (Function, bool)
}

// Plan is a compiled query with its parameters.
type Plan struct {
	query     *sql.Select
	where     predicate
	accessing index.Expr

	places value.Locator      // the places of documents that the query reads
	locals int                // registers; see env.locals
	loop   loop               // FROM and WHERE; see run.each
	plain  bool               // there is at most one input, and it is a place in the document: base and filter are sufficient
	exact  bool               // if the access is exact, its documents are exactly those with rows
	bare   bool               // no expression reads a system property or copies a whole document
	inner  *Plan              // the query in FROM that combines rows of several documents; its rows are the documents of this plan; nil if there is none
	base   int                // slot of the first collection; -1 without FROM
	filter func(e *env) truth // nil if every document passes
	emit   emitter            // writes a row
	copies bool               // a row is a whole document
	order  *ordering          // nil without ORDER BY
	group  *grouping          // nil if each row is made of one document
	replay bool               // the merge removes duplicates, and can do so only from the beginning
	once   bool               // DISTINCT rows that have the _rid, so that equal ones are of one document
	bound  int64              // maximum number of rows needed from a partition: OFFSET + LIMIT, and TOP; -1 for no limit
	whole  bool               // the only input is the documents themselves
	boxes  []box              // what a document that has rows fulfils one of; none if no document has
	script bool               // it calls user-defined functions, so any document may take long
	now    time.Time
	took   time.Duration // time to compile
	size   int           // in memory; see Size
	with   inputs        // the inputs of the compilation, for the queries of a hybrid search

	rooted    bool  // the first input is the container of the second; see asRewritten
	refused   error // of a query that cannot be run; see Runnable
	nearFirst bool  // ORDER BY a distance begins with the least value, not with the greatest

	spare atomic.Pointer[run] // the memory of a finished run; nil if it is in use or there was none

	top, offset, limit int64 // -1 if absent
}

// Compile parses, checks and compiles a query. A nil ix is for documents without an
// index, such as the definitions of containers; then every path can be sorted by.
//
// The error is a BadRequest in the form that clients expect, about the text, its
// parameters, or an ORDER BY that the index does not support; or Unsupported.
func Compile(text string, params []Param, ix *index.Index, opts Options) (*Plan, error) {
	p, err := Prepare(text, params, ix, opts)
	if err == nil {
		err = p.Runnable()
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Prepare is [Compile] for a plan that may be only described. The service's planner
// accepts queries that its partitions refuse, such as an ORDER BY without an index:
// [Plan.Runnable] returns those errors.
func Prepare(text string, params []Param, ix *index.Index, opts Options) (*Plan, error) {
	declared := make(map[string]value.Value, len(params))
	for _, p := range params {
		declared[strings.TrimPrefix(p.Name, "@")] = p.Value
	}
	return compile(text, inputs{declared, ix, opts})
}

// Runnable returns a BadRequest if the query can be described but not run, otherwise
// nil.
func (p *Plan) Runnable() error { return p.refused }

func compile(text string, with inputs) (*Plan, error) {
	start := time.Now()
	limits := with.opts.Limits
	if limits.QueryTextBytes == 0 {
		limits = resource.DefaultLimits()
	}
	if len(text) > limits.QueryTextBytes {
		return nil, status.BadRequest("The SQL query text exceeded the maximum limit of %d bytes.", limits.QueryTextBytes)
	}
	q, err := sql.Parse(text, with.params)
	if err != nil {
		return nil, err
	}
	p := &Plan{query: q, now: with.opts.Now, with: with}
	p.asRewritten()
	if err := p.check(text); err != nil {
		return nil, err
	}
	m := newCompilation()
	c, err := p.compile(m)
	if err != nil {
		return nil, err
	}
	p.reach(c)
	p.size = planSize + planText*len(text) + planConstant*int(m.kept) + planRegex*m.regexes.size
	p.took = time.Since(start)
	return p, nil
}

// The memory of a plan, as measured: a base, and bytes for each byte of its text and
// constants and for the size of its regular expressions.
const (
	planSize  = 4 << 10
	planText  = 60
	planRegex = 40

	planConstant = 8 // the index searches for each element of a list separately
)

// Size returns the approximate memory of the plan in bytes, without its parameters.
func (p *Plan) Size() int { return p.size }

func (p *Plan) compile(m *compilation) (*compiler, error) {
	computed, err := CompileComputed(p.with.opts.Computed)
	if err != nil {
		return nil, err
	}
	ix := p.with.ix
	c := newCompiler(p.with.params, computed, ix)
	c.functions, c.compilation = p.with.opts.Functions, m
	if combining(p.query.From) != nil {
		p.inner = &Plan{query: p.query.From.Inputs[0].Subquery, now: p.now, with: p.with}
		if c.inner, err = p.inner.compile(m); err != nil {
			return nil, err
		}
		c.computed, c.overRows, ix = nil, true, nil
	}
	p.compileRows(c, ix)
	if p.refused == nil {
		p.refused = p.compileOrder(c, ix)
	}
	if err := p.compileGroups(c, ix); err != nil {
		return nil, err
	}
	if p.group == nil {
		p.emit, p.copies = c.projection(p.query), c.copies(p.query)
	}
	p.counts(c)
	p.places, p.locals, p.bare = c.places, c.locals, !c.whole && !c.system
	p.script = c.scripted
	return c, nil
}

// compileOrder compiles ORDER BY. Properties need an index with that order; distances
// and scores are computed and sorted. Groups have an order of their own, and a hybrid
// search runs as several queries.
func (p *Plan) compileOrder(c *compiler, ix *index.Index) error {
	sorts := p.query.OrderBy
	if len(sorts) == 0 || p.query.Rank || isGrouped(p.query) {
		return nil
	}
	o := &ordering{desc: computedKey(sorts[0]).Desc}
	var paths []value.Path
	for _, sort := range sorts {
		sort = computedKey(sort)
		if path, ok := c.place(sort.Expr); ok && len(path) > 0 {
			paths = append(paths, path)
		}
		o.keys = append(o.keys, orderKey{eval: c.expr(sort.Expr).value(), invert: sort.Desc != o.desc})
	}
	p.order = o
	if o.narrow = p.accessing; ix != nil && p.accessing.Op != index.None {
		var narrow predicate
		narrow, o.narrows = p.where.narrow()
		o.narrow, _ = narrow.access(ix)
	}
	if o.desc && len(sorts) == 1 {
		o.nearest = c.nearestTo(computedKey(sorts[0]).Expr, ix)
	}
	if best, ok := c.scoring(sorts[0].Expr); ok && o.desc {
		o.best = joined(index.And, append(slices.Clone(leavesAnd(o.narrow)), best), index.All)
	}
	if isDistance(sorts[0].Expr) {
		p.nearFirst = c.nearFirst(sorts[0].Expr.(*sql.CallExpr))
	}
	if ix == nil || len(paths) < len(sorts) {
		return nil // each row's key is computed
	}
	return p.orderFrom(ix, paths)
}

// orderFrom asks the index for the order. One path must be indexed; several need a
// composite index.
func (p *Plan) orderFrom(ix *index.Index, paths []value.Path) error {
	keys := make([]index.SortKey, len(paths))
	for i, path := range paths {
		keys[i] = index.SortKey{Path: indexPath(path), Desc: p.query.OrderBy[i].Desc}
	}
	var ok bool
	p.order.index, ok = indexOrderOf(ix, keys, p.where, p.accessing)
	switch {
	case ok:
		return nil
	case len(keys) == 1:
		return planError("The index path corresponding to the specified order-by item is excluded.")
	}
	return planError("The order by query does not have a corresponding composite index that it can be served from.")
}

// counts binds TOP, OFFSET and LIMIT. The analysis has checked that they are integers.
func (p *Plan) counts(c *compiler) {
	bind := func(x sql.Expr) int64 {
		n := int64(-1)
		switch x := x.(type) {
		case *sql.Literal:
			n, _ = x.Value.Int64()
		case *sql.Parameter:
			n, _ = c.params[x.Name].Int64()
		}
		return n
	}
	p.top, p.offset, p.limit = bind(p.query.Top), bind(p.query.Offset), bind(p.query.Limit)
	if p.top >= 0 && p.limit >= 0 {
		// Both count the rows after OFFSET. Clients that merge apply them in different
		// orders, so they get one number.
		p.top, p.limit = -1, min(p.top, p.limit)
	}
	p.bound = -1
	// A partition cannot know how many groups, or how many distinct rows, are needed.
	switch n := p.take(); {
	case n == 0:
		p.bound = 0
	case n < math.MaxInt64 && p.group == nil && !p.replay:
		p.bound = p.skip() + n
	}
}

// skip returns the number of rows that OFFSET skips.
func (p *Plan) skip() int64 { return max(p.offset, 0) }

// take returns the number of rows to return after those, MaxInt64 for no limit.
func (p *Plan) take() int64 {
	n := int64(math.MaxInt64)
	if p.limit >= 0 {
		n = p.limit
	}
	if p.top >= 0 {
		n = min(n, p.top)
	}
	return n
}

// Text returns the query as the plan understands it.
func (p *Plan) Text() string { return p.query.String() }

// Unfiltered returns the query without its WHERE clause if it is [Plan.Sorted].
// Clients that merge an ordered query themselves add a condition and change it from
// page to page; this is the part that does not change.
func (p *Plan) Unfiltered() string {
	q := *p.query
	if p.Sorted() {
		q.Where = nil
	}
	return q.String()
}

// Ordered reports whether the rows have an order of their own or are made of several
// documents. Then partitions are merged row by row and not one after another, each
// page asks all of them, and a position is one in the order of all rows.
func (p *Plan) Ordered() bool { return p.order != nil || p.group != nil || p.inner != nil }

// Combines reports whether rows are made of several documents: by DISTINCT, GROUP BY or
// aggregates. Clients merge such rows of several partitions by their values.
func (p *Plan) Combines() bool { return p.group != nil || p.replay || p.inner != nil }

// Separate reports whether each row is made of one document, no document has several
// rows, and none is skipped or removed. Then the number of the last document is a
// position in the rows.
func (p *Plan) Separate() bool {
	return !p.Ordered() && p.plain && p.base >= 0 && !p.replay && !p.query.Rank && p.offset <= 0
}

// Limited reports whether TOP or LIMIT bounds the number of rows.
func (p *Plan) Limited() bool { return p.top >= 0 || p.limit >= 0 }

// Sorted reports whether the query has an ORDER BY of values, so that its text and
// parameters may change from page to page; see [Plan.Unfiltered].
func (p *Plan) Sorted() bool { return len(p.query.OrderBy) > 0 && !p.query.Rank }

// descending returns the direction of equal rows and of positions.
func (p *Plan) descending() bool {
	switch {
	case p.group != nil:
		return p.group.desc
	case p.order != nil:
		return p.order.desc
	}
	return false
}

// Access returns an index expression that finds a superset of the documents that pass
// the filter; index.All if the index does not help.
func (p *Plan) Access() index.Expr {
	if p.inner != nil {
		return p.inner.Access()
	}
	return p.accessing
}

// Ranges returns the ranges of the key space that can contain documents that pass the
// filter, sorted and disjoint. A filter without conditions on the key returns the full
// range. A filter that contradicts itself returns none: no partition has rows, and any
// one may be asked. A query without FROM has its only row at the least key, whichever
// partition has it.
func (p *Plan) Ranges(d partitionkey.Definition) []partitionkey.Range {
	list := p.keyRanges(d)
	ranges := make([]partitionkey.Range, len(list))
	for i, r := range list {
		ranges[i] = r.Range
	}
	return ranges
}

// Pinned reports whether the filter determines the whole key, so that one logical
// partition answers.
func (p *Plan) Pinned(d partitionkey.Definition) bool {
	list := p.keyRanges(d)
	return len(list) == 1 && list[0].exact
}

func (p *Plan) keyRanges(d partitionkey.Definition) []keyRange {
	if len(p.boxes) == 0 {
		return nil
	}
	if p.base < 0 || p.inner != nil && !namesContainer(p.query) {
		return []keyRange{{
			Range: partitionkey.Range{Min: partitionkey.MinEPK, Max: d.Successor(partitionkey.MinEPK)},
			point: partitionkey.MinEPK, exact: true,
		}}
	}
	return rangesOf(p.boxes, d)
}
