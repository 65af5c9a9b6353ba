package query

import (
	"math"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// total adds that an aggregate has a value of d. As in the service, a count or a sum of no
// rows is 0, so that any other value says that there are rows.
func (r *reach) total(n node, x *sql.CallExpr, kind AggregateKind, d domain, in []box) []box {
	if d.kinds&r.callKinds(n, x) == 0 {
		return nil
	}
	q := n.s.query
	if n.s.root || q == nil || len(q.GroupBy) > 0 || d.kinds&mayMiss != 0 {
		return in
	}
	arg := n.at(x.Args[0])
	fixed, known := r.constant(r.resolve(arg))
	single := !iterates(q)
	switch kind {
	case Count, CountIf:
		counted := something
		if kind == CountIf {
			counted = certainly
		}
		switch {
		case !single:
			switch zero, more := spans(d); {
			case zero:
				return in
			case !more:
				return nil
			}
		case d.has(value.Int(0)) && d.has(value.Int(1)):
			return in
		case d.has(value.Int(0)):
			if known && counted.has(fixed) {
				return r.none(q, n.s, in)
			}
			return in
		case !d.has(value.Int(1)):
			return nil
		}
		return r.want(arg, counted, r.made(q, n.s, in))
	case Sum, Average:
		if !single || !known || fixed.Kind() != value.KindNumber {
			return in
		}
		zero := kind == Sum && d.has(value.Int(0))
		switch has := d.has(fixed); {
		case has && zero:
			return in
		case has:
			return r.made(q, n.s, in)
		}
		return unless(!zero, in)
	case Min, Max:
		switch {
		case known:
			return unless(!d.has(fixed), in)
		case r.kinds(arg)&mayCompare == 0 || !single && d.kinds&mayCompare == 0:
			return nil
		case single || d.kinds&mayCompare == mayCompare:
			return in
		}
		d = d.meet(domain{kinds: mayCompare})
		d.kinds |= mayMiss
		return r.want(arg, d, in)
	}
	return in
}

// spans reports whether the least and the greatest number of d have 0 between them, and
// whether there are greater ones. As in the service's planner, single numbers that are left out
// between them do not count.
func spans(d domain) (zero, more bool) {
	list := d.meet(domain{kinds: mayNumber}).listed()
	if len(list) == 0 {
		return false, false
	}
	whole := interval{low: list[0].low, above: list[0].above, high: list[len(list)-1].high, below: list[len(list)-1].below}
	at := value.Int(0)
	zero = len(intersected([]interval{whole}, []interval{{low: at, high: at}})) > 0
	more = len(intersected([]interval{whole}, []interval{{low: at, above: true, high: value.Number(math.Inf(1))}})) > 0
	return zero, more
}

// made adds that the inputs of a query have a row that its filter admits.
func (r *reach) made(q *sql.Select, s *scope, in []box) []box {
	defer func(projecting, inner bool) { r.projecting, r.inner = projecting, inner }(r.projecting, r.inner)
	r.projecting, r.inner = false, true
	if q.From != nil {
		for i := range q.From.Inputs {
			in = r.from(q, s, i, false, in)
		}
	}
	if q.Where != nil {
		in = r.want(node{s: s, x: q.Where}, certainly, in)
	}
	return in
}

// none adds that the inputs of a query, which have at most one row, have none.
func (r *reach) none(q *sql.Select, s *scope, in []box) []box {
	var list []obstacle
	if q.Where != nil && r.kinds(node{x: q.Where, s: s}) != mayTrue {
		list = append(list, obstacle{node{x: q.Where, s: s}, domain{kinds: mayAny &^ mayTrue}})
	}
	if list, ok := r.missingInputs(list, q, s); ok {
		switch len(list) {
		case 0:
			return nil
		case 1:
			return r.want(list[0].of, list[0].values, in)
		}
	}
	return in
}
