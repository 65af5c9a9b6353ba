package query

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/decandb/decan/internal/geo"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// in adds that IN has a result of the given kinds. As in the service, NaN in the list is
// a value that may be found.
func (r *reach) in(n node, x *sql.InExpr, want kinds, in []box) []box {
	values := make([]value.Value, 0, len(x.List))
	for _, item := range x.List {
		v, ok := r.constant(n.at(item))
		if !ok {
			return r.inAny(n, x, want, in)
		}
		if v.IsDefined() {
			values = append(values, v)
		}
	}
	var d domain
	if want&mayMiss != 0 {
		d = missing
	}
	if want&mayTrue != 0 {
		d = d.join(just(values...))
	}
	if want&mayFalse != 0 {
		d = d.join(except(values...))
	}
	return r.want(n.at(x.X), d, in)
}

// inAny is [reach.in] for a list that is not constant.
func (r *reach) inAny(n node, x *sql.InExpr, want kinds, in []box) []box {
	switch {
	case want&mayMiss != 0:
		return in
	case want&mayBool == 0:
		return nil
	case want&mayFalse != 0:
		if v, ok := r.constant(r.resolve(n.at(x.X))); ok && want&mayTrue == 0 && slices.ContainsFunc(x.List, func(item sql.Expr) bool {
			w, ok := r.constant(r.resolve(n.at(item)))
			return ok && equalValues(v, w)
		}) {
			return nil
		}
		return r.want(n.at(x.X), something, in)
	}
	terms := make([]term, len(x.List))
	for i, item := range x.List {
		terms[i] = func(want kinds, in []box) []box { return r.listed(n.at(x.X), n.at(item), want, in) }
	}
	return r.chain(terms, true, mayTrue, in)
}

// listed adds that x is equal to an item of IN. The types of two expressions that are not
// properties and not constant are not compared.
func (r *reach) listed(x, item node, want kinds, in []box) []box {
	x, item = r.resolve(x), r.resolve(item)
	_, fixed := r.constant(x)
	_, also := r.constant(item)
	if place := func(n node) bool { return n.row == nil && ofElement(n.x) }; fixed || also || place(x) || place(item) {
		return r.comparison("=", x, item, want, in)
	}
	return r.want(item, something, r.want(x, something, in))
}

// like adds that LIKE has a result of the given kinds.
func (r *reach) like(n node, x *sql.LikeExpr, want kinds, in []box) []box {
	switch {
	case want&mayMiss != 0:
		return in
	case want&mayBool == 0:
		return nil
	}
	text, ok := r.constant(n.at(x.Pattern))
	if ok && text.Kind() == value.KindString && compileLike(text.Text(), x.Escape).searches() {
		return r.suppose(n.at(x.X), domain{kinds: mayString}, in)
	}
	if !ok || text.Kind() != value.KindString || want&mayBool == mayBool {
		d := domain{kinds: mayString}
		return r.want(n.at(x.X), d, r.want(n.at(x.Pattern), d, in))
	}
	p := compileLike(text.Text(), x.Escape)
	literal, whole := p.prefix()
	d := domain{kinds: mayString}
	switch {
	case whole:
		d = just(value.String(literal))
	case p.beginsWith():
		d = beginning(literal)
	}
	if want&mayFalse != 0 && d.intervals != nil {
		d = outside(d)
	}
	return r.want(n.at(x.X), d, in)
}

// inMin is the number of equalities from which the planner makes IN of them, in which NaN
// is a value like any other.
const inMin = 3

// gathered replaces the terms of OR that compare one place with constants by a single
// term.
func (r *reach) gathered(n node, list []sql.Expr, terms []term) []term {
	type set struct {
		at     []int
		of     node
		values []value.Value
		odd    bool // NaN or an infinity is among the values
	}
	sets := map[string]*set{}
	for i, x := range list {
		of, v, ok := r.equality(n, x)
		if !ok {
			continue
		}
		place, ok := r.place(of)
		if !ok {
			continue
		}
		s := sets[place]
		if s == nil {
			s = &set{of: of}
			sets[place] = s
		}
		s.at, s.values, s.odd = append(s.at, i), append(s.values, v), s.odd || !v.Finite()
	}
	for _, s := range sets {
		if len(s.values) >= inMin || len(s.values) > 1 && !s.odd {
			for _, i := range s.at[1:] {
				terms[i] = nil
			}
			terms[s.at[0]] = func(want kinds, in []box) []box {
				var d domain
				if want&mayTrue != 0 {
					d = just(s.values...)
				}
				return r.want(s.of, d, in)
			}
		}
	}
	return slices.DeleteFunc(terms, func(t term) bool { return t == nil })
}

// equality returns the place and the constant if x compares a place with one.
func (r *reach) equality(n node, x sql.Expr) (of node, v value.Value, ok bool) {
	b, is := x.(*sql.BinaryExpr)
	if !is || b.Op != "=" {
		return of, v, false
	}
	of = n.at(b.X)
	if v, ok = r.constant(n.at(b.Y)); !ok {
		of = n.at(b.Y)
		v, ok = r.constant(n.at(b.X))
	}
	if !ok || v.Kind() > value.KindString || !v.IsDefined() {
		return of, v, false
	}
	of = r.resolve(of)
	_, fixed := r.constant(of)
	return of, v, !fixed
}

// subquery adds that a subquery has a value of d.
func (r *reach) subquery(n node, x *sql.Subquery, d domain, in []box) []box {
	s := n.s.scopeOf(x.Query)
	switch {
	case s == nil:
		return in
	case x.Kind == sql.SubqueryArray:
		return unless(d.kinds&mayArray == 0, in)
	case x.Kind == sql.SubqueryExists || x.Kind == sql.SubqueryAll:
		if d.kinds&mayBool == 0 {
			return nil
		}
		if x.Kind == sql.SubqueryAll || d.kinds&mayBool == mayBool {
			return in
		}
		return r.exists(x.Query, s, d.kinds&mayTrue != 0, in)
	case d.kinds&mayMiss != 0, x.Kind != sql.SubqueryScalar && iterates(x.Query):
		return in
	}
	in = r.inside(x.Query, s, in)
	if row := r.rowOf(n, x.Query); row.s != nil {
		in = r.want(row, d, in)
	}
	return in
}

// iterates reports whether an input of a query iterates over an array.
func iterates(q *sql.Select) bool {
	return q.From != nil && slices.ContainsFunc(q.From.Inputs, func(in sql.Input) bool {
		return in.In || in.Subquery != nil && iterates(in.Subquery)
	})
}

// inside is rows for a query in an expression.
func (r *reach) inside(q *sql.Select, s *scope, in []box) []box {
	defer func(inner bool) { r.inner = inner }(r.inner)
	r.inner = true
	return r.rows(q, s, false, in)
}

// exists adds that a subquery has a row, or that it has none.
func (r *reach) exists(q *sql.Select, s *scope, has bool, in []box) []box {
	if has {
		return r.inside(q, s, in)
	}
	switch list, ok := r.obstacles(nil, q, s); {
	case ok && len(list) == 0:
		return nil
	case ok && len(list) == 1:
		return r.want(list[0].of, list[0].values, in)
	}
	return in
}

// obstacle is a way in which a query can have no row for a document.
type obstacle struct {
	of     node
	values domain
}

// obstacles appends the ways in which a query can have no row. It returns false if it does
// not know all of them.
func (r *reach) obstacles(list []obstacle, q *sql.Select, s *scope) ([]obstacle, bool) {
	if iterates(q) || r.work <= 0 {
		return list, false
	}
	r.work--
	if q.Value != nil && r.kinds(node{x: q.Value, s: s})&mayMiss != 0 {
		if totalled(q) {
			return list, false
		}
		list = append(list, obstacle{node{x: q.Value, s: s}, missing})
	}
	if totalled(q) {
		return list, q.Where == nil && !r.mayLack(q, s) || !onlyLists(q)
	}
	if q.Where != nil && r.kinds(node{x: q.Where, s: s}) != mayTrue {
		list = append(list, obstacle{node{x: q.Where, s: s}, domain{kinds: mayAny &^ mayTrue}})
	}
	return r.missingInputs(list, q, s)
}

// missingInputs appends the ways in which an input of a query can have no value.
func (r *reach) missingInputs(list []obstacle, q *sql.Select, s *scope) ([]obstacle, bool) {
	if q.From == nil {
		return list, true
	}
	for i := range q.From.Inputs {
		in := &q.From.Inputs[i]
		if in.Subquery != nil {
			inner, ok := s.scopeOf(in.Subquery), false
			if inner == nil {
				return list, false
			}
			if list, ok = r.obstacles(list, in.Subquery, inner); !ok {
				return list, false
			}
			continue
		}
		if i == 0 && s.root {
			return list, false
		}
		if of := (node{x: in.Collection, s: s.before(i)}); r.kinds(of)&mayMiss != 0 {
			list = append(list, obstacle{of, missing})
		}
	}
	return list, true
}

// onlyLists reports whether the only aggregates of a query are lists and sets.
func onlyLists(q *sql.Select) bool {
	for x := range q.Columns() {
		for call := range aggregatesIn(x) {
			if kind, _ := aggregateKind(call); kind != MakeList && kind != MakeSet {
				return false
			}
		}
	}
	return true
}

// call adds that a call has a value of d.
func (r *reach) call(n node, x *sql.CallExpr, d domain, in []box) []box {
	f := functions[strings.ToUpper(x.Name)]
	if x.UDF || f == nil {
		return in
	}
	if kind, ok := aggregateKind(x); ok {
		return r.total(n, x, kind, d, in)
	}
	if test := typeTests[f.name]; test != 0 {
		return r.typeTest(n.at(x.Args[0]), f.name, test, d.kinds&mayBool, in)
	}
	switch f.name {
	case "RegexMatch":
		if found, ok := r.beginsWith(n, x); ok && d.kinds&mayMiss == 0 && d.kinds&mayBool != mayBool && d.kinds&mayBool != 0 {
			if d.kinds&mayTrue == 0 {
				found = outside(found)
			}
			return r.want(n.at(x.Args[0]), found, in)
		}
		return r.searched(n, x, d, in)
	case "CONTAINS", "ENDSWITH":
		return r.searched(n, x, d, in)
	case "ST_DISTANCE", "ST_WITHIN", "ST_INTERSECTS":
		return r.spatial(n, x, d, in)
	case "IIF":
		return r.conditional(n.at(x.Args[0]), n.at(x.Args[1]), n.at(x.Args[2]), d, in)
	case "STARTSWITH", "STRINGEQUALS":
		if of, found, exact, ok := r.search(n, x, f.name); ok && (exact || d.kinds&mayTrue != 0) && d.kinds&mayMiss == 0 && d.kinds&mayBool != mayBool && d.kinds&mayBool != 0 {
			if d.kinds&mayTrue == 0 {
				found = outside(found)
			} else if v, ok := r.constant(n.at(x.Args[1])); ok && len(x.Args) == 2 && r.neverHas(of, v.Text()) {
				return nil
			}
			return r.want(of, found, in)
		}
	case "ST_ISVALID":
		if d.kinds&(mayBool|mayMiss) == 0 {
			return nil
		}
		if d.kinds&(mayFalse|mayMiss) == 0 {
			return r.want(n.at(x.Args[0]), domain{kinds: mayObject}, in)
		}
	case "ARRAY_CONTAINS":
		return r.contains(n, x, d, in)
	case "FullTextContainsAll", "FullTextContainsAny":
		if d.kinds&mayBool == mayBool {
			return r.arguments(n, x, d, mayBool, func(int) kinds { return mayExist }, in)
		}
		return r.each(n, x, d, textKinds, in)
	case "CONTAINS_ALL_CI", "CONTAINS_ALL_CS", "CONTAINS_ANY_CI", "CONTAINS_ANY_CS":
		return r.each(n, x, d, func(int) kinds { return mayString }, in)
	case "FullTextContains":
		return r.arguments(n, x, d, mayBool, textKinds, in)
	case "VectorDistance", "_VectorScore":
		return unless(r.callKinds(n, x)&d.kinds == 0, in)
	case "NOW", "AGO", "DateTimeAdd":
		return r.arguments(n, x, d, mayString, func(i int) kinds {
			if i == 1 && len(x.Args) > 1 && (f.name != "DateTimeAdd" || len(x.Args) == 3) {
				return mayNumber
			}
			return mayString
		}, in)
	case "IS_DATETIME":
		return unless(d.kinds&mayBool == 0, in)
	}
	s, ok := signatures[f.name]
	if k := r.callKinds(n, x); !ok || k&d.kinds == 0 {
		return unless(k&d.kinds == 0, in)
	}
	if unfollowed[f.name] && d.intervals == nil && s.result&^d.kinds&^mayMiss == 0 {
		return r.arguments(n, x, d, r.callKinds(n, x), func(int) kinds { return mayExist }, in)
	}
	return r.arguments(n, x, d, s.result, func(i int) kinds {
		switch {
		case f.name == "ObjectToArray" && i == 0:
			return mayExist
		case i < len(s.args):
			return s.args[i]
		}
		if k := further[f.name]; k != 0 {
			return k
		}
		return mayAny
	}, in)
}

// each adds that a search for each or for any of several texts has a value of d: that is
// AND or OR of one search for each text.
func (r *reach) each(n node, x *sql.CallExpr, d domain, need func(i int) kinds, in []box) []box {
	switch {
	case d.kinds&(mayBool|mayMiss) == 0:
		return nil
	case d.kinds&mayMiss != 0:
		return in
	}
	in = r.want(n.at(x.Args[0]), domain{kinds: need(0)}, in)
	terms := make([]term, len(x.Args)-1)
	for i := range terms {
		terms[i] = func(_ kinds, in []box) []box {
			return r.want(n.at(x.Args[i+1]), domain{kinds: need(i + 1)}, in)
		}
	}
	or := strings.Contains(strings.ToUpper(x.Name), "ANY")
	return r.value(n, d, r.chain(terms, or, d.kinds&mayBool, in))
}

// plainPattern is a regular expression for texts that begin with a word.
var plainPattern = regexp.MustCompile(`^\^[A-Za-z0-9 ]+$`)

// beginsWith returns the texts that a regular expression finds, if it is a literal
// beginning.
func (r *reach) beginsWith(n node, x *sql.CallExpr) (domain, bool) {
	v, ok := r.constant(n.at(x.Args[1]))
	if !ok || len(x.Args) > 2 || v.Kind() != value.KindString || !plainPattern.MatchString(v.Text()) {
		return domain{}, false
	}
	return beginning(v.Text()[1:]), true
}

// searched adds that a search in a text has a value of d.
func (r *reach) searched(n node, x *sql.CallExpr, d domain, in []box) []box {
	if want := d.kinds & mayBool; want == mayBool || d.kinds&mayMiss != 0 || want == 0 {
		return r.arguments(n, x, d, mayBool, func(i int) kinds {
			if i < 2 {
				return mayString
			}
			return further[functions[strings.ToUpper(x.Name)].name]
		}, in)
	}
	text := domain{kinds: mayString}
	in = r.want(n.at(x.Args[1]), text, in)
	if len(x.Args) > 2 {
		in = r.want(n.at(x.Args[2]), domain{kinds: further[functions[strings.ToUpper(x.Name)].name]}, in)
	}
	switch v, ok := r.constant(n.at(x.Args[1])); {
	case ok && v.Text() == "" && d.kinds&mayTrue == 0 && !isFunction(x, "RegexMatch"):
		return nil // each string has the empty one
	case ok && d.kinds&mayTrue != 0 && r.neverHas(n.at(x.Args[0]), v.Text()) && !isFunction(x, "RegexMatch"):
		return nil
	case !ok || v.Text() == "":
		return r.want(n.at(x.Args[0]), text, in)
	}
	return r.suppose(n.at(x.Args[0]), text, in)
}

// neverHas reports whether the letters of a text are small, or capital, where those of an
// expression are not.
func (r *reach) neverHas(n node, text string) bool {
	x, ok := r.resolve(n).x.(*sql.CallExpr)
	return ok && (isFunction(x, "UPPER") && upper(text) != text || isFunction(x, "LOWER") && lower(text) != text)
}

// unfollowed are the functions whose arguments the planner restricts only where it knows
// more of the result than that it is defined.
var unfollowed = map[string]bool{
	"DEGREES": true, "TRUNC": true, "DOCUMENTID": true, "StringToNumber": true, "REPLICATE": true,
	"StringToBoolean": true, "StringToArray": true, "StringToNull": true, "LENGTH": true,
}

// spatial adds that a function of shapes has a value of d. A property in a filter must be
// an object or an array; what it is in is not restricted.
func (r *reach) spatial(n node, x *sql.CallExpr, d domain, in []box) []box {
	result := mayBool
	if len(x.Args) < 2 || isFunction(x, "ST_DISTANCE") {
		result = mayNumber
	}
	nearer := d.kinds == mayTrue || d.kinds == mayNumber && len(d.intervals) == 1 && kindsOf(d.intervals[0].low) == mayNumber && math.IsInf(d.intervals[0].low.Float(), -1)
	switch {
	case d.kinds&(result|mayMiss) == 0:
		return nil
	case d.kinds&mayMiss != 0:
		return in
	case slices.ContainsFunc(x.Args, func(arg sql.Expr) bool { return r.noShape(n.at(arg), nearer) }):
		return nil
	case !nearer && !r.projecting:
		return in
	case !nearer:
		for _, arg := range x.Args {
			in = r.want(n.at(arg), something, in)
		}
		return in
	}
	for _, arg := range x.Args[:2] {
		of := r.resolve(n.at(arg))
		switch _, fixed := r.constant(of); {
		case !fixed && isPath(of.x):
			in = r.restrict(of, domain{kinds: mayArray | mayObject}, in)
		case !fixed && of.x != nil && of.row == nil:
			in = r.want(of, something, in)
		}
	}
	return in
}

// noShape reports whether an argument is undefined or, if nearer is set, an object that is no shape.
func (r *reach) noShape(n node, nearer bool) bool {
	v, ok := r.constant(r.resolve(n))
	if !ok || v.IsDefined() && (!nearer || v.Kind() != value.KindObject) {
		return false
	}
	_, shape := geo.Parse(v, geo.Geography)
	return !shape
}

// arguments adds what a call needs to have a value of d: arguments of their kinds. The
// result has one of the given kinds.
func (r *reach) arguments(n node, x *sql.CallExpr, d domain, result kinds, each func(i int) kinds, in []box) []box {
	switch {
	case d.kinds&(result|mayMiss) == 0:
		return nil
	case d.kinds&mayMiss != 0:
		return in
	}
	for i, arg := range x.Args {
		in = r.want(n.at(arg), domain{kinds: each(i)}, in)
	}
	if isFunction(x, "LENGTH") || isFunction(x, "ARRAY_LENGTH") {
		in = unless(d.meet(notNegative).empty(), in)
	}
	return r.value(n, d, r.inverse(n, d, in))
}

// typeTest adds that a test for kinds has one of the given results.
func (r *reach) typeTest(of node, name string, test, want kinds, in []box) []box {
	switch {
	case want == 0:
		return nil
	case want == mayTrue:
		return r.want(of, domain{kinds: test}, in)
	case want == mayFalse && name != "IS_INTEGER" && name != "IS_FINITE_NUMBER":
		return r.want(of, domain{kinds: mayAny &^ test}, in)
	}
	return in
}

// search returns the strings for which a search for a constant is true, and the text
// that is searched. If exact is false, these are more.
func (r *reach) search(n node, x *sql.CallExpr, name string) (of node, found domain, exact, ok bool) {
	folds := false
	if len(x.Args) > 2 {
		ignore, ok := r.constant(n.at(x.Args[2]))
		if !ok || ignore.Kind() != value.KindBool {
			return of, found, false, false
		}
		folds = ignore.IsTrue()
	}
	of = n.at(x.Args[0])
	v, ok := r.constant(n.at(x.Args[1]))
	if !ok && name == "STRINGEQUALS" {
		of = n.at(x.Args[1])
		v, ok = r.constant(n.at(x.Args[0]))
	}
	if !ok || v.Kind() != value.KindString {
		return of, found, false, false
	}
	text := v.Text()
	if folds {
		text = lower(text)
	}
	if found = beginning(text); name == "STRINGEQUALS" {
		found = just(value.String(text))
	}
	if folds && found.intervals != nil {
		found, exact, ok = cased(found, lower, unicode.ToUpper)
		return of, found, exact, ok
	}
	return of, found, true, true
}

// contains adds that ARRAY_CONTAINS has a value of d.
func (r *reach) contains(n node, x *sql.CallExpr, d domain, in []box) []box {
	list, ok := r.constant(n.at(x.Args[0]))
	if !ok || list.Kind() != value.KindArray || d.kinds&mayMiss != 0 || len(x.Args) > 2 || d.kinds&mayBool == mayBool {
		return r.arguments(n, x, d, mayBool, func(i int) kinds { return []kinds{mayArray, mayExist, mayBool}[min(i, 2)] }, in)
	}
	var found domain
	if d.kinds&mayTrue != 0 {
		found = just(slices.DeleteFunc(slices.Clone(list.Items()), hasNaN)...)
	} else if d.kinds&mayFalse != 0 {
		found = except(list.Items()...)
	}
	return r.want(n.at(x.Args[1]), found, in)
}
