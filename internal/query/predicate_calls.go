package query

import (
	"strings"

	"github.com/decandb/decan/internal/geo"
	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// Predicates on special indexes: the positions of stored geometries and the words of
// stored texts.

// spatialCall reduces ST_WITHIN and ST_INTERSECTS of a stored geometry and a constant
// one. If one is within the other, they share a point.
func (c *compiler) spatialCall(x *sql.CallExpr) predicate {
	path, shape, p := c.placeAndShape(x)
	if path == nil {
		return p
	}
	p = leaf(opNear, path)
	p.cells = func(g geo.Grid) []geo.Interval { return g.Query(nil, shape) }
	return approximately(p)
}

// distancePredicate reduces a comparison of ST_DISTANCE, between a stored geometry and
// a constant one, with a constant.
func (c *compiler) distancePredicate(op string, l, r sql.Expr) predicate {
	call, ok := l.(*sql.CallExpr)
	if !ok {
		if call, ok = r.(*sql.CallExpr); !ok {
			return unknownPredicate()
		}
		r, op = l, mirrored[op]
	}
	limit := c.expr(r)
	if call.UDF || !strings.EqualFold(call.Name, "ST_DISTANCE") || !limit.con || op != "<" && op != "<=" && op != "=" {
		return unknownPredicate()
	}
	path, shape, p := c.placeAndShape(call)
	if path == nil {
		return p
	}
	if limit.v.Kind() != value.KindNumber {
		return predicate{op: opFalse}
	}
	p = leaf(opNear, path)
	p.cells = func(g geo.Grid) []geo.Interval { return g.Near(nil, shape, limit.v.Float()) }
	return approximately(p)
}

// placeAndShape returns the arguments of a function of a stored geometry and a
// constant one, in either order. If it returns no path, it returns the predicate of
// the call: a call with a value that is not a geometry is never true.
func (c *compiler) placeAndShape(x *sql.CallExpr) (value.Path, geo.Shape, predicate) {
	if len(x.Args) != 2 {
		return nil, geo.Shape{}, unknownPredicate()
	}
	path, ok := c.place(x.Args[0])
	other := x.Args[1]
	if !ok {
		path, ok = c.place(x.Args[1])
		other = x.Args[0]
	}
	part := c.expr(other)
	if !ok || !part.con || len(path) == 0 {
		return nil, geo.Shape{}, unknownPredicate()
	}
	system := geo.Geography
	if c.ix != nil {
		system = c.ix.System()
	}
	shape, ok := geo.Parse(part.v, system)
	if !ok {
		return nil, geo.Shape{}, predicate{op: opFalse}
	}
	return path, shape, predicate{}
}

// textCall reduces a search for words in a stored text: for all of them or any of
// them, according to op.
func (c *compiler) textCall(op predicateOp, x *sql.CallExpr) predicate {
	path, stored := c.path(x.Args[0])
	if !stored || len(path) == 0 {
		return unknownPredicate() // other places have no language of their own
	}
	parts := make([]code, len(x.Args))
	for i, arg := range x.Args {
		parts[i] = c.expr(arg)
	}
	named := func(sql.Expr) (index.Path, bool) { return indexPath(path), true }
	terms := binding{args: x.Args, parts: parts, ix: c.ix, path: named}.phrases(1)
	switch {
	case !terms.known:
		return unknownPredicate()
	case terms.wrong:
		return predicate{op: opFalse}
	}
	args := make([]predicate, len(terms.fixed))
	for i, phrase := range terms.fixed {
		if args[i] = leaf(opWords, path); len(phrase.Tokens()) == 0 {
			args[i] = predicate{op: opFalse}
		}
		args[i].phrase = phrase
	}
	return combine(op, args)
}

// nearby returns the expression of the documents with a geometry in the cells of the
// predicate.
func (p predicate) nearby(x *index.Index, path index.Path) index.Expr {
	grid, ok := x.Grid(path)
	if !ok {
		return index.Expr{}
	}
	e, ok := x.Spatial(path, p.cells(grid))
	if !ok {
		return index.Expr{}
	}
	return joined(index.Or, e.Args, index.None)
}

// words returns the expression of the documents with the words of the phrase, or with
// similar words.
func (p predicate) words(x *index.Index, path index.Path) index.Expr {
	e, ok := x.Phrase(path, p.phrase)
	if !ok {
		return index.Expr{}
	}
	return e
}

// scoring returns the expression of the documents with a word of a _FullTextScore,
// which are the only ones with a score above zero; false if the index cannot answer.
func (c *compiler) scoring(x sql.Expr) (index.Expr, bool) {
	call, ok := x.(*sql.CallExpr)
	if !ok || c.ix == nil || !isFunction(call, "_FullTextScore") {
		return index.Expr{}, false
	}
	path, stored := c.path(call.Args[0])
	list := c.expr(call.Args[1])
	if !stored || !list.con || list.v.Kind() != value.KindArray {
		return index.Expr{}, false
	}
	at := indexPath(path)
	named := func(sql.Expr) (index.Path, bool) { return at, len(at) > 0 }
	terms := phrases{analyzer: binding{args: call.Args, ix: c.ix, path: named}.analyzer()}
	fixed, ok := terms.read(list.v.Items())
	var args []index.Expr
	for _, phrase := range fixed {
		e, indexed := c.ix.Phrase(at, phrase)
		if !indexed {
			return index.Expr{}, false
		}
		if e.Op != index.None {
			args = append(args, e)
		}
	}
	return joined(index.Or, args, index.None), ok
}
