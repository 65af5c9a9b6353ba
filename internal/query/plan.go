package query

import (
	"math"
	"strings"
	"time"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Param is a parameter of a query.
type Param struct {
	Name  string // with the @ in front, as clients send it; without it means the same
	Value value.Value
}

// Options are what compiling needs beside the query.
type Options struct {
	Limits resource.Limits // zero: the defaults
	Now    time.Time       // what the query takes for the present; zero: the time at which it runs
}

// Plan is a compiled query with its parameters.
type Plan struct {
	query     *Select
	where     predicate
	accessing index.Expr

	root   branch // the places of documents that the query reads
	slots  int
	base   int                // slot of what the source means; -1 without FROM
	filter func(e *env) truth // nil when every document passes
	emit   emitter            // writes a row
	order  *ordering          // nil without ORDER BY
	bound  int64              // rows that are needed at most: OFFSET + LIMIT, and TOP; -1 for all
	now    time.Time
	took   time.Duration // compiling

	top, offset, limit int64 // -1 when not given
}

// ordering is the ORDER BY of a plan.
type ordering struct {
	slot int
	desc bool
}

// Compile parses, checks and compiles a query. A nil ix stands for documents
// that have no index and need none, such as the definitions of containers; then
// every path can be ordered by.
//
// The error is a BadRequest in the form that clients expect: of the text or its
// parameters, of an ORDER BY that the index does not cover, or Unsupported.
func Compile(text string, params []Param, ix *index.Index, opts Options) (*Plan, error) {
	start := time.Now()
	limits := opts.Limits
	if limits.QueryTextBytes == 0 {
		limits = resource.DefaultLimits()
	}
	if len(text) > limits.QueryTextBytes {
		return nil, status.BadRequest("The SQL query text exceeded the maximum limit of %d bytes.", limits.QueryTextBytes)
	}
	declared := make(map[string]value.Value, len(params))
	for _, p := range params {
		declared[strings.TrimPrefix(p.Name, "@")] = p.Value
	}
	q, err := parse(text, declared)
	if err != nil {
		return nil, err
	}
	if err := check(text, q, declared); err != nil {
		return nil, err
	}
	p := &Plan{query: q, now: opts.Now}
	if err := p.compile(declared, ix); err != nil {
		return nil, err
	}
	p.took = time.Since(start)
	return p, nil
}

func (p *Plan) compile(params map[string]value.Value, ix *index.Index) error {
	c := &compiler{params: params, root: branch{slot: -1}, done: map[Expr]code{}}
	p.base = -1
	if p.query.From != nil {
		in := p.query.From.Inputs[0]
		c.base, _ = (&compiler{alias: rootName(in.Of), done: c.done}).path(in.Of)
		if c.alias = in.Alias; c.alias == "" {
			c.alias = sourceName(in.Of)
		}
		p.base = c.root.add(c.base, &c.slots)
	}
	if p.query.Where != nil {
		p.where = c.predicate(p.query.Where)
		if f := c.expr(p.query.Where); !f.con || truthIn(f.v) != yes {
			p.filter = f.truth()
		}
	}
	if ix != nil {
		p.accessing = p.where.access(ix)
	} else if p.where.op == nothing {
		p.accessing = index.Expr{Op: index.None}
	}
	p.emit = c.projection(p.query, p.base)
	if err := p.compileOrder(c, ix); err != nil {
		return err
	}
	p.counts(c)
	p.root, p.slots = c.root, c.slots
	return nil
}

// rootName is the name that a collection begins with.
func rootName(x Expr) string {
	for {
		switch y := x.(type) {
		case *Name:
			return y.Name
		case *Member:
			x = y.Of
		case *Index:
			x = y.Of
		default:
			return ""
		}
	}
}

func (p *Plan) compileOrder(c *compiler, ix *index.Index) error {
	if len(p.query.OrderBy) == 0 {
		return nil
	}
	sort := p.query.OrderBy[0]
	path, ok := c.path(sort.Expr)
	if !ok || len(path) == 0 {
		return numberedError(2206, "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.")
	}
	if ix != nil && !ix.Covers(indexPath(path)) {
		return planError("The index path corresponding to the specified order-by item is excluded.")
	}
	p.order = &ordering{slot: c.root.add(path, &c.slots), desc: sort.Desc}
	return nil
}

// counts binds TOP, OFFSET and LIMIT, which the analysis found to be integers.
func (p *Plan) counts(c *compiler) {
	bind := func(x Expr) int64 {
		if x == nil {
			return -1
		}
		n, _ := c.expr(x).v.Int64()
		return n
	}
	p.top, p.offset, p.limit = bind(p.query.Top), bind(p.query.Offset), bind(p.query.Limit)
	p.bound = -1
	if n := p.take(); n < math.MaxInt64 {
		p.bound = p.skip() + n
	}
}

// skip is the number of rows that OFFSET leaves out.
func (p *Plan) skip() int64 { return max(p.offset, 0) }

// take is the number of rows to return behind those, MaxInt64 for all.
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

// Unfiltered returns the query without its WHERE clause. Clients that merge an
// ordered query themselves put a condition there and change it as they go on,
// so this is what such queries have in common.
func (p *Plan) Unfiltered() string {
	q := *p.query
	q.Where = nil
	return q.String()
}

// Ordered reports whether the rows have an order of their own, so that
// partitions are merged row by row instead of one after the other.
func (p *Plan) Ordered() bool { return p.order != nil }

// Access returns a superset of the documents that pass the filter, in terms of
// the index that the plan was compiled for: index.All when that does not help.
func (p *Plan) Access() index.Expr { return p.accessing }

// Ranges returns the ranges of the key space that can hold documents that pass
// the filter, sorted and disjoint. A filter that says nothing about the key
// gives the full range, one that contradicts itself none at all: then no
// partition has rows, and any one may be asked. A query without FROM has its one
// row at the least key, in whichever partition that is.
func (p *Plan) Ranges(d partitionkey.Definition) []partitionkey.Range {
	list := p.keyRanges(d)
	ranges := make([]partitionkey.Range, len(list))
	for i, r := range list {
		ranges[i] = r.Range
	}
	return ranges
}

// Pinned reports whether the filter fixes the whole key to one value, so that
// one logical partition answers.
func (p *Plan) Pinned(d partitionkey.Definition) bool {
	list := p.keyRanges(d)
	return len(list) == 1 && list[0].exact
}

func (p *Plan) keyRanges(d partitionkey.Definition) []keyRange {
	if p.base < 0 {
		return []keyRange{{
			Range: partitionkey.Range{Min: partitionkey.MinEPK, Max: d.Successor(partitionkey.MinEPK)},
			point: partitionkey.MinEPK, exact: true,
		}}
	}
	return p.where.ranges(d)
}
