package partition

import (
	"math/rand/v2"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/value"
)

// everything is an index of all paths, with which plans may have been compiled.
func everything() *index.Index {
	x, err := index.Compile(containerPolicy)
	if err != nil {
		panic(err)
	}
	return x
}

// drawAccess draws an expression of the kind that plans contain.
func drawAccess(x *index.Index, random *rand.Rand, depth int) index.Expr {
	switch n := random.IntN(12); {
	case n == 0:
		return index.Expr{Op: index.All}
	case n == 1 && depth < 2:
		return index.Expr{Op: index.None}
	case n <= 5 && depth > 0:
		e := index.Expr{Op: index.And}
		if random.IntN(2) == 0 {
			e.Op = index.Or
		}
		size := 2 + random.IntN(2)
		if e.Op == index.Or && random.IntN(4) == 0 {
			size = 19 // too many for an iterator each
		}
		for range size {
			arg := drawAccess(x, random, depth-1)
			// Plans omit conditions that are always true.
			if arg.Op != index.All && arg.Op != index.None {
				e.Args = append(e.Args, arg)
			}
		}
		if len(e.Args) > 1 {
			return e
		}
	case n == 7:
		// Every other term of a path, as for CONTAINS.
		if span, ok := x.Span(drawnPaths[random.IntN(len(drawnPaths))], index.Defined, value.Null()); ok {
			return index.Expr{Op: index.Filter, Span: span, Test: passesFilter}
		}
	case n == 6:
		// All levels of a key, as in a query for one logical partition.
		e := index.Expr{Op: index.And}
		doc := drawDocument(random)
		for _, name := range []string{"a", "b", "c"} {
			if span, ok := x.Span(index.Path{name}, index.Eq, doc.Get(name)); ok {
				e.Args = append(e.Args, index.Expr{Op: index.Leaf, Span: span})
			}
		}
		if len(e.Args) > 1 {
			return e
		}
	}
	return drawLeaf(x, random)
}

var drawnPaths = []index.Path{{"a"}, {"n"}, {"n"}, {"m", "x"}, {"n", index.Element}, {"id"}, {"b"}, {"_ts"}, {"double"}}

func drawLeaf(x *index.Index, random *rand.Rand) index.Expr {
	values := []value.Value{value.Int(3), value.Int(1), value.String("s"), value.String("x"), value.Null(), value.Number(2.5), value.Int(1_700_000_100), value.String("i1")}
	if random.IntN(12) == 0 {
		// The first member of a tuple: a document can have several such terms.
		if span, used := x.Tuple(index.Path{"list", index.Element}, []index.Path{{"x"}}, []value.Value{values[random.IntN(len(values))]}); len(used) > 0 {
			return index.Expr{Op: index.Leaf, Span: span}
		}
	}
	for range 20 {
		path := drawnPaths[random.IntN(len(drawnPaths))]
		op := index.Op(random.IntN(int(index.Kind) + 1))
		if span, ok := x.Span(path, op, values[random.IntN(len(values))]); ok {
			return index.Expr{Op: index.Leaf, Span: span}
		}
	}
	return index.Expr{Op: index.All}
}

// drawWalk draws a walk that starts at its beginning, at a position in it, or between
// two.
func drawWalk(x *index.Index, documents []plain, random *rand.Rand) query.Walk {
	walk := query.Walk{Desc: random.IntN(2) == 0, Missing: random.IntN(2) == 0, Bare: random.IntN(2) == 0}
	if order, ok := x.Order([]index.SortKey{{Path: index.Path{"n"}}, {Path: index.Path{"m", "x"}, Desc: true}}, nil); ok && order.Walks && random.IntN(3) == 0 {
		walk.Span = order.Span
	} else if tokens, ok := x.Tokens(index.Path{"text"}); ok && random.IntN(3) == 0 {
		walk.Span = tokens
	}
	for walk.Span.High == "" {
		e := drawLeaf(x, random)
		if e.Op != index.Leaf { // The policy has no index at all.
			e = drawLeaf(everything(), random)
		}
		if walk.Span = e.Span; random.IntN(3) > 0 {
			if whole, ok := everything().Span(e.Span.Path, index.Defined, value.Null()); ok {
				walk.Span = whole
			}
		} else if random.IntN(2) == 0 {
			walk.Place, _ = everything().Span(e.Span.Path, index.Defined, value.Null())
		}
	}
	if random.IntN(3) == 0 {
		walk.Effort = 1 + random.Int64N(4)
	}
	if len(documents) == 0 || random.IntN(3) == 0 {
		return walk
	}
	d := documents[random.IntN(len(documents))]
	switch terms := slices.DeleteFunc(slices.Clone(d.terms), func(term index.Term) bool { return term < walk.Span.Low || term >= walk.Span.High }); {
	case len(terms) == 0:
		walk.Started, walk.After = true, d.number
	case random.IntN(4) == 0:
		walk.From = terms[0][:len(terms[0])-1] // not there
	default:
		walk.From, walk.After = terms[0], d.number
	}
	if random.IntN(4) == 0 {
		walk.After = 0
	}
	return walk
}

// drawForced draws a way to read.
func drawForced(random *rand.Rand) scan.Forced {
	return scan.Forced{
		Way: scan.Way(random.IntN(3)), Rosters: scan.Way(random.IntN(3)),
		Lists: random.IntN(3) == 0, Match: random.IntN(3) == 0,
	}
}
