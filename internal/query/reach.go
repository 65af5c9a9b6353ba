package query

import (
	"slices"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// reach works out what must hold for a query to have a row: which values which places
// must have. It follows expressions as the service's planner does, through inputs,
// subqueries and conditions. What it does not follow may have any value.
type reach struct {
	work       int // the remaining steps; at 0 nothing more is restricted
	names      map[*scope]string
	projecting bool // a value is examined, and not a filter
	implied    bool // what follows is that a property is in an object or an array, which is not compared with their values
	inner      bool // the query is in an expression
	loose      bool // what follows is not compared with suppositions: that a property or an input is there
}

// reachMax is the number of steps for one query, which bounds the time for long texts.
const reachMax = 200_000

// node is an expression in its scope, a row of a query, or the document.
type node struct {
	x   sql.Expr // nil for the document and for a row
	s   *scope
	row *sql.Select // the query of a row with columns, whose scope is s
}

// at returns another expression in the scope of n.
func (n node) at(x sql.Expr) node { return node{x: x, s: n.s} }

// resolve returns what n refers to: the names of inputs and of LET are replaced by
// their expressions, and members of object literals and of rows by theirs.
func (r *reach) resolve(n node) node {
	if n.s == nil {
		return n
	}
	for range resolveMax {
		r.work--
		next, ok := r.referred(n)
		if !ok {
			break
		}
		n = next
	}
	return n
}

const resolveMax = 100 // bounds chains of names

func (r *reach) referred(n node) (node, bool) {
	switch x := n.x.(type) {
	case *sql.Ident:
		a, s := n.s.lookup(x.Name)
		if s == nil {
			return n, false
		}
		if a.let {
			return node{x: a.expr, s: s.outer}, a.expr != nil && a.fixed == nil
		}
		return r.input(s, a.input)
	case *sql.Subquery:
		q := x.Query
		if x.Kind != sql.SubqueryScalar && x.Kind != sql.SubqueryFirst && x.Kind != sql.SubqueryLast || q.From != nil || q.Where != nil || len(q.GroupBy) > 0 || q.Value != nil && hasAggregate(q.Value) {
			return n, false
		}
		row := r.rowOf(n, q)
		return row, row.s != nil
	case *sql.MemberExpr:
		return r.member(r.resolve(n.at(x.X)), x.Name)
	case *sql.IndexExpr:
		v, ok := r.constant(n.at(x.Index))
		if ok && v.Kind() == value.KindString {
			return r.member(r.resolve(n.at(x.X)), v.Text())
		}
		if i, whole := v.Int64(); ok && whole && i >= 0 {
			return r.element(r.resolve(n.at(x.X)), i)
		}
	case *sql.LetExpr:
		if s := n.s.owner.lets[x]; s != nil {
			return node{x: x.In, s: s}, true
		}
	case *sql.ConditionalExpr:
		return r.chosen(n, x.Cond, x.Then, x.Else)
	case *sql.CallExpr:
		if len(x.Args) == 3 && isFunction(x, "IIF") {
			return r.chosen(n, x.Args[0], x.Args[1], x.Args[2])
		}
	case *sql.CoalesceExpr:
		switch k := r.kinds(n.at(x.X)); {
		case n.namesInput(x.X):
			return n.at(x.X), true
		case k == mayMiss:
			return n.at(x.Y), true
		case k&mayMiss == 0:
			return n.at(x.X), true
		}
	}
	return n, false
}

// namesInput reports whether x is the name of a collection in FROM, which has a value in
// every row.
func (n node) namesInput(x sql.Expr) bool {
	name, ok := x.(*sql.Ident)
	if !ok {
		return false
	}
	a, s := n.s.lookup(name.Name)
	return s != nil && !a.let && s.query != nil && s.query.From != nil && a.input < len(s.query.From.Inputs) && s.query.From.Inputs[a.input].Subquery == nil
}

// chosen returns the branch of a condition that is taken, if it is the same for every
// document.
func (r *reach) chosen(n node, cond, then, otherwise sql.Expr) (node, bool) {
	switch k := r.kinds(n.at(cond)); {
	case k == mayTrue:
		return n.at(then), true
	case k&mayTrue == 0:
		return n.at(otherwise), true
	}
	return n, false
}

// input returns what the name of an input refers to; an element of an array refers to
// itself.
func (r *reach) input(s *scope, i int) (node, bool) {
	if s.query == nil || s.query.From == nil || i >= len(s.query.From.Inputs) {
		return node{}, false
	}
	switch in := &s.query.From.Inputs[i]; {
	case in.In:
		return node{}, false
	case in.Subquery != nil:
		row := r.rowOf(node{s: s}, in.Subquery)
		return row, row.s != nil
	case i == 0 && s.root:
		return r.below(s, in.Collection), true
	default:
		return node{x: in.Collection, s: s.before(i)}, true
	}
}

// below returns the node of a collection of the container.
func (r *reach) below(s *scope, of sql.Expr) node {
	if _, ok := of.(*sql.Ident); ok {
		return node{s: s}
	}
	return node{x: of, s: s.container(rootName(of))}
}

// rowOf returns the value of a row of a subquery; its scope is nil if it is not known.
func (r *reach) rowOf(n node, q *sql.Select) node {
	s := n.s.scopeOf(q)
	switch {
	case s == nil:
		return node{}
	case q.Star && q.From == nil:
		return onlyInput(s.outer)
	case q.Star:
		return node{x: &sql.Ident{Name: q.From.Inputs[0].Name()}, s: s}
	case q.Value != nil:
		return node{x: q.Value, s: s}
	}
	return node{s: s, row: q}
}

// member returns a member of an object literal or of a row with columns.
func (r *reach) member(of node, name string) (node, bool) {
	if of.row != nil {
		for i, column := range columnNames(of.row.Items) {
			if column == name {
				return of.at(of.row.Items[i].Expr), true
			}
		}
		return of.at(undefinedLiteral), true
	}
	if v, ok := r.constant(of); ok {
		return of.at(&sql.Literal{Value: v.Get(name)}), true
	}
	if sub, ok := of.x.(*sql.Subquery); ok && r.lacks(of, sub, name) {
		return of.at(undefinedLiteral), true
	}
	x, ok := of.x.(*sql.ObjectLiteral)
	if !ok {
		return node{}, false
	}
	for i := range x.Members {
		if x.Members[i].Name == name {
			return of.at(x.Members[i].Expr), true
		}
	}
	return of.at(undefinedLiteral), true
}

// lacks reports whether the row of a subquery is an object without a member of this name.
func (r *reach) lacks(n node, x *sql.Subquery, name string) bool {
	if x.Kind != sql.SubqueryScalar && x.Kind != sql.SubqueryFirst && x.Kind != sql.SubqueryLast {
		return false
	}
	row := r.rowOf(n, x.Query)
	if row.s == nil {
		return false
	}
	if row.x != nil {
		row = r.resolve(row)
	}
	switch o := row.x.(type) {
	case nil:
		return row.row != nil && !slices.Contains(columnNames(row.row.Items), name)
	case *sql.ObjectLiteral:
		return !slices.ContainsFunc(o.Members, func(m sql.Property) bool { return m.Name == name })
	}
	return false
}

// element returns an item of an array that the query writes.
func (r *reach) element(of node, i int64) (node, bool) {
	if v, ok := r.constant(of); ok {
		if i >= int64(v.Len()) {
			return of.at(undefinedLiteral), true
		}
		return of.at(&sql.Literal{Value: v.Index(int(i))}), true
	}
	x, ok := of.x.(*sql.ArrayLiteral)
	switch {
	case !ok:
		return node{}, false
	case i < int64(len(x.Items)):
		return of.at(x.Items[i]), true
	}
	return of.at(undefinedLiteral), true
}

var undefinedLiteral = &sql.Literal{}

// constant returns the value of a constant.
func (r *reach) constant(n node) (value.Value, bool) {
	switch x := n.x.(type) {
	case nil:
		return value.Undefined(), false
	case *sql.Literal:
		return x.Value, true
	case *sql.Parameter:
		return n.s.owner.params[x.Name], true
	case *sql.Ident:
		a, s := n.s.lookup(x.Name)
		switch {
		case s == nil:
			v, ok := numberNames[x.Name]
			return v, ok
		case a.fixed != nil:
			return *a.fixed, true
		}
		return value.Undefined(), false
	case *sql.MemberExpr, *sql.IndexExpr:
		if r.based(n) {
			return value.Undefined(), false
		}
	case *sql.Subquery:
		return value.Undefined(), false
	}
	if part, ok := n.s.owner.done[n.x]; ok {
		return part.v, part.con
	}
	return inputs{params: n.s.owner.params}.constant(n.x)
}

// based reports whether a member is one of a document or of an element.
func (r *reach) based(n node) bool {
	for {
		switch x := n.x.(type) {
		case *sql.MemberExpr:
			n.x = x.X
		case *sql.IndexExpr:
			n.x = x.X
		case *sql.Ident:
			_, s := n.s.lookup(x.Name)
			return s != nil
		default:
			return false
		}
	}
}

// restrict adds that a resolved node has a value of d.
func (r *reach) restrict(n node, d domain, in []box) []box {
	place, ok := r.place(n)
	if !ok {
		return in
	}
	whole := anything
	switch n.x.(type) {
	case nil, *sql.Ident:
		whole = something
	}
	out := in[:0]
	for _, b := range in {
		r.work -= 1 + len(b)/8 + len(d.intervals)
		at := b.find(place)
		have, firm, lost := whole, anything, kinds(0)
		if at >= 0 {
			have, firm, lost = b[at].values, b[at].firm, b[at].lost
		}
		values := have.meet(d)
		if !r.loose {
			firm = firm.meet(d)
		}
		if r.implied {
			lost |= have.kinds &^ values.kinds
		} else {
			lost &= d.kinds
			values = b.insideParts(place, values)
		}
		if values.empty() || !r.loose && b.refutes(place, firm) || !b.restrictParts(place, values) {
			continue
		}
		if at >= 0 {
			b[at].values, b[at].firm, b[at].lost = values, firm, lost
		} else {
			b = append(b, cell{place, values, firm, lost})
		}
		out = append(out, b)
	}
	return out
}

// suppose adds that a property has a value of d, for a search in it: the planner does not
// compare that with conditions that the property or a part of it is there.
func (r *reach) suppose(n node, d domain, in []box) []box {
	n = r.resolve(n)
	place, ok := r.place(n)
	switch x := n.x.(type) {
	case nil, *sql.Ident:
	case *sql.MemberExpr:
		in = r.suppose(n.at(x.X), domain{kinds: mayObject}, in)
	case *sql.IndexExpr:
		in = r.suppose(n.at(x.X), domain{kinds: mayArray}, in)
	default:
		ok = false
	}
	if !ok {
		return r.want(n, d, in)
	}
	in = r.restrict(n, something, in)
	out := in[:0]
	for _, b := range in {
		r.work -= 1 + len(b)/8
		values := d
		at := b.find(supposed + place)
		if at >= 0 {
			values = d.meet(b[at].values)
		}
		if have := b.find(place); values.empty() || have >= 0 && b[have].firm.meet(values).empty() {
			continue
		}
		if at >= 0 {
			b[at].values = values
		} else {
			b = append(b, cell{supposed + place, values, anything, 0})
		}
		out = append(out, b)
	}
	return out
}

// path adds that a property has a value of d. One with a value is in an object or an
// array.
func (r *reach) path(n, of node, d domain, parent kinds, in []box) []box {
	in = r.restrict(n, d, in)
	if d.kinds&mayMiss == 0 && !r.branches(r.resolve(of)) {
		loose, implied := r.loose, r.implied
		r.loose, r.implied = loose || d.kinds|mayNull|mayBool == mayExist, true
		in = r.want(of, domain{kinds: parent}, in)
		r.loose, r.implied = loose, implied
	}
	return in
}

// want adds that n has a value of d. It may add less. It owns in, whose boxes it
// changes.
func (r *reach) want(n node, d domain, in []box) []box {
	if r.work -= 1 + len(in)/8; len(in) == 0 || r.work <= 0 || d.all() {
		return in
	}
	if d.kinds == mayArray && d.parts == nil && !r.implied && r.conditionalRow(n) {
		d = something
	}
	n = r.resolve(n)
	if n.row != nil {
		return unless(d.kinds&mayObject == 0, in)
	}
	if v, ok := r.constant(n); ok {
		return unless(!d.has(v), in)
	}
	if name, ok := root(n); ok {
		if d = r.ofElement(n, name, d); d.all() || r.untracked(n, name) {
			return in
		}
	}
	switch x := n.x.(type) {
	case nil:
		return r.restrict(n, d, in)
	case *sql.Ident:
		return r.elements(n, x, d, r.restrict(n, d, in))
	case *sql.MemberExpr:
		return r.path(n, n.at(x.X), d, mayObject, in)
	case *sql.IndexExpr:
		parent := mayArray
		if v, _ := r.constant(n.at(x.Index)); v.Kind() == value.KindString {
			parent = mayObject
		}
		return r.path(n, n.at(x.X), d, parent, in)
	case *sql.LetExpr:
		if s := n.s.owner.lets[x]; s != nil {
			return r.want(node{x: x.In, s: s}, d, in)
		}
		return in
	case *sql.CoalesceExpr:
		first := d
		first.kinds &^= mayMiss
		out := r.want(n.at(x.X), first, r.copied(in))
		return r.joined(out, r.otherwise(n.at(x.Y), d, n.at(x.X), missing, in))
	case *sql.ConditionalExpr:
		return r.conditional(n.at(x.Cond), n.at(x.Then), n.at(x.Else), d, in)
	case *sql.Subquery:
		return r.subquery(n, x, d, in)
	case *sql.CallExpr:
		return r.call(n, x, d, in)
	case *sql.ArrayLiteral:
		return unless(d.kinds&mayArray == 0, in)
	case *sql.ObjectLiteral:
		return unless(d.kinds&mayObject == 0, in)
	}
	return r.operator(n, d, in)
}

// elements adds that an input iterates over an array, if something is known about its
// element.
func (r *reach) elements(n node, x *sql.Ident, d domain, in []box) []box {
	a, s := n.s.lookup(x.Name)
	if r.loose || d.kinds&mayExist == mayExist || s == nil || s.query == nil || s.query.From == nil || a.let || a.input >= len(s.query.From.Inputs) {
		return in
	}
	input := &s.query.From.Inputs[a.input]
	if !input.In || input.Subquery != nil || a.input == 0 && s.root {
		return in
	}
	of := r.resolve(node{x: input.Collection, s: s.before(a.input)})
	return r.want(of, r.list(of), in)
}

func unless(impossible bool, in []box) []box {
	if impossible {
		return nil
	}
	return in
}

func (r *reach) conditional(cond, then, otherwise node, d domain, in []box) []box {
	out := r.want(then, d, r.want(cond, certainly, r.copied(in)))
	return r.joined(out, r.otherwise(otherwise, d, cond, domain{kinds: mayAny &^ mayTrue}, in))
}

// otherwise adds that the second branch of a condition has a value of d. As in the
// service, that the condition fails counts only if the branch is a constant.
func (r *reach) otherwise(branch node, d domain, cond node, fails domain, in []box) []box {
	if v, ok := r.constant(r.resolve(branch)); ok {
		return r.want(cond, fails, unless(!d.has(v), in))
	}
	return r.want(branch, d, in)
}

// operator is [reach.want] for operators.
func (r *reach) operator(n node, d domain, in []box) []box {
	want := d.kinds
	switch x := n.x.(type) {
	case *sql.UnaryExpr:
		if x.Op == "NOT" {
			if want&(mayBool|mayMiss) == 0 {
				return nil
			}
			operand := domain{kinds: ofNegated(want)}
			if want&mayMiss != 0 {
				operand.kinds |= mayAny &^ mayBool
			}
			return r.want(n.at(x.X), operand, in)
		}
		return r.numeric(n, d, in, x.X)
	case *sql.BinaryExpr:
		if mirrored[x.Op] != "" {
			return r.comparison(x.Op, n.at(x.X), n.at(x.Y), want, in)
		}
		if x.Op == "||" {
			return r.operands(n, d, domain{kinds: mayString}, mayString, in, x.X, x.Y)
		}
		return r.numeric(n, d, in, x.X, x.Y)
	case *sql.LogicalExpr:
		if !x.Or && want&(mayFalse|mayMiss) == 0 {
			for _, term := range x.Terms {
				in = r.want(n.at(term), domain{kinds: want & mayTrue}, in)
			}
			return in
		}
		list := x.Terms
		if x.Or {
			list = alternatives(nil, x)
		}
		terms := make([]term, len(list))
		for i, term := range list {
			terms[i] = func(want kinds, in []box) []box { return r.want(n.at(term), domain{kinds: want}, in) }
		}
		if x.Or && want&mayFalse == 0 {
			terms = r.gathered(n, list, terms)
		}
		return r.chain(terms, x.Or, want, in)
	case *sql.BetweenExpr:
		if x.Not {
			want = ofNegated(want) | want&mayMiss
		}
		return r.chain([]term{
			func(want kinds, in []box) []box { return r.comparison(">=", n.at(x.X), n.at(x.Low), want, in) },
			func(want kinds, in []box) []box { return r.comparison("<=", n.at(x.X), n.at(x.High), want, in) },
		}, false, want, in)
	case *sql.InExpr:
		if x.Not {
			want = ofNegated(want) | want&mayMiss
		}
		return r.in(n, x, want, in)
	case *sql.LikeExpr:
		if x.Not {
			want = ofNegated(want) | want&mayMiss
		}
		return r.like(n, x, want, in)
	}
	return in
}

// alternatives appends the terms of OR and of those inside it.
func alternatives(list []sql.Expr, x *sql.LogicalExpr) []sql.Expr {
	for _, term := range x.Terms {
		if inner, ok := term.(*sql.LogicalExpr); ok && inner.Or {
			list = alternatives(list, inner)
			continue
		}
		list = append(list, term)
	}
	return list
}

// term adds that a condition has a result of the given kinds.
type term func(want kinds, in []box) []box

// chain is AND and OR.
func (r *reach) chain(terms []term, or bool, want kinds, in []box) []box {
	all, any := mayTrue, mayFalse
	if or {
		all, any = mayFalse, mayTrue
	}
	switch {
	case want&mayMiss != 0:
		return in
	case want&mayBool == 0:
		return nil
	}
	var out []box
	if want&any != 0 {
		for i, term := range terms {
			mine := in
			if i < len(terms)-1 || want&all != 0 {
				if r.work <= 0 {
					return in
				}
				mine = r.copied(in)
			}
			out = r.joined(out, term(any, mine))
		}
	}
	if want&all != 0 {
		for _, term := range terms {
			in = term(all, in)
		}
		out = r.joined(out, in)
	}
	return out
}

// numeric is the result of an operator on numbers.
func (r *reach) numeric(n node, d domain, in []box, operands ...sql.Expr) []box {
	return r.operands(n, d, domain{kinds: mayNumber}, mayNumber, in, operands...)
}

// operands adds that the result of an operator, or of a function, is a value of d. The
// result is of a kind, or undefined if an operand is not of its own.
func (r *reach) operands(n node, d, each domain, result kinds, in []box, operands ...sql.Expr) []box {
	switch {
	case d.kinds&(result|mayMiss) == 0:
		return nil
	case d.kinds&mayMiss != 0:
		return in
	}
	for _, x := range operands {
		in = r.want(n.at(x), each, in)
	}
	if d.intervals != nil {
		in = r.inverse(n, d.meet(domain{kinds: result}), in)
	}
	return r.value(n, d, in)
}

// value adds that the value of an expression is in d, if that says more than its kind.
func (r *reach) value(n node, d domain, in []box) []box {
	if len(in) == 0 || d.intervals == nil && d.kinds&mayBool == mayBool {
		return in
	}
	return r.restrict(n, d, in)
}

// comparison adds that a comparison has a result of the given kinds.
func (r *reach) comparison(op string, x, y node, want kinds, in []box) []box {
	if want&(mayBool|mayMiss) == 0 {
		return nil
	}
	x, y = r.resolve(x), r.resolve(y)
	if v, ok := r.constant(y); ok {
		return r.want(x, compared(op, v, want), in)
	}
	if v, ok := r.constant(x); ok {
		return r.want(y, compared(mirrored[op], v, want), in)
	}
	if want&mayMiss != 0 {
		return in
	}
	kx, ky := r.kinds(x), r.kinds(y)
	if outcome := outcomesOf[op].hold(0); (want&mayFalse == 0 && outcome == no || want&mayTrue == 0 && outcome == yes) && r.same(x, y) {
		return nil
	}
	if operatorKinds(op, kx, ky)&want == 0 && !branched(x) && !branched(y) && (op != "=" && op != "!=" || r.followed(x, y)) {
		return nil
	}
	in = r.want(y, something, r.want(x, something, in))
	if op == "=" && want == mayTrue && written(x) != written(y) {
		in = r.holds(x, y, r.holds(y, x, in))
	}
	return in
}
