package query

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// second is another evaluator of queries. It walks the tree with whole values and
// has no slots, registers, plans or bytes. Its result must equal that of the
// compiled query.
type second struct {
	docs   []value.Value
	params map[string]value.Value // by their names without the @
}

// names maps the names in scope to their values.
type bindings struct {
	outer *bindings
	name  string
	v     value.Value
}

func (b *bindings) with(name string, v value.Value) *bindings { return &bindings{b, name, v} }

func (b *bindings) get(name string) value.Value {
	for ; b != nil; b = b.outer {
		if b.name == name {
			return b.v
		}
	}
	return value.Undefined()
}

// query returns the rows of a query; root says that it may read the container.
func (n second) query(q *sql.Select, b *bindings, root bool) []value.Value {
	frames := []*bindings{b}
	if q.From != nil {
		for i := range q.From.Inputs {
			var next []*bindings
			for _, frame := range frames {
				next = append(next, n.input(&q.From.Inputs[i], frame, root && i == 0)...)
			}
			frames = next
		}
	}
	if q.Where != nil {
		frames = slices.DeleteFunc(frames, func(f *bindings) bool { return !n.expr(q.Where, f).IsTrue() })
	}
	var rows []value.Value
	if isGrouped(q) {
		for _, group := range n.groups(q, frames) {
			rows = append(rows, n.row(q, group, b))
		}
	} else {
		for _, frame := range frames {
			rows = append(rows, n.row(q, []*bindings{frame}, b))
		}
	}
	rows = slices.DeleteFunc(rows, func(v value.Value) bool { return !v.IsDefined() })
	if q.Distinct {
		rows = n.distinct(rows)
	}
	return rows
}

func (n second) input(in *sql.Input, b *bindings, root bool) []*bindings {
	var values []value.Value
	switch {
	case in.Subquery != nil:
		values = n.query(in.Subquery, b, root)
	case root:
		for _, doc := range n.docs {
			values = append(values, n.expr(in.Collection, b.with(rootName(in.Collection), doc)))
		}
	default:
		values = append(values, n.expr(in.Collection, b))
	}
	if in.In {
		var items []value.Value
		for _, v := range values {
			items = append(items, v.Items()...)
		}
		values = items
	}
	var frames []*bindings
	for _, v := range values {
		if v.IsDefined() {
			frames = append(frames, b.with(in.Name(), v))
		}
	}
	return frames
}

// groups divides frames by the values of GROUP BY.
func (n second) groups(q *sql.Select, frames []*bindings) [][]*bindings {
	if len(q.GroupBy) == 0 {
		return [][]*bindings{frames}
	}
	var keys [][]value.Value
	var groups [][]*bindings
	for _, frame := range frames {
		key := n.list(q.GroupBy, frame)
		at := slices.IndexFunc(keys, func(k []value.Value) bool { return slices.EqualFunc(k, key, value.Equal) })
		if at < 0 {
			at = len(keys)
			keys, groups = append(keys, key), append(groups, nil)
		}
		groups[at] = append(groups[at], frame)
	}
	return groups
}

func (n second) list(list []sql.Expr, b *bindings) []value.Value {
	out := make([]value.Value, len(list))
	for i, x := range list {
		out[i] = n.expr(x, b)
	}
	return out
}

// row evaluates the select list over a group of frames: everything in it except
// aggregates is the same for all of them, so the first frame is enough.
func (n second) row(q *sql.Select, group []*bindings, b *bindings) value.Value {
	if len(group) > 0 {
		b = group[0]
	}
	b = &bindings{outer: b, name: groupName}
	g := grouped{n, group}
	switch {
	case q.Star:
		return b.get(q.From.Inputs[0].Name())
	case q.Value != nil:
		return g.expr(q.Value, b)
	}
	var members []value.Member
	for i, name := range columnNames(q.Items) {
		members = append(members, value.Member{Name: name, Value: g.expr(q.Items[i].Expr, b)})
	}
	return value.Object(members)
}

const groupName = " group"

// grouped replaces aggregates by their values, and lets second evaluate the rest.
type grouped struct {
	second
	group []*bindings
}

func (g grouped) expr(x sql.Expr, b *bindings) value.Value {
	if len(slices.Collect(aggregatesIn(x))) == 0 {
		return g.second.expr(x, b)
	}
	switch x := x.(type) {
	case *sql.CallExpr:
		if _, ok := aggregateKind(x); ok {
			return g.aggregate(strings.ToUpper(x.Name), x.Args[0])
		}
	case *sql.ObjectLiteral:
		var members []value.Member
		for _, m := range x.Members {
			members = append(members, value.Member{Name: m.Name, Value: g.expr(m.Expr, b)})
		}
		return value.Object(members)
	case *sql.ArrayLiteral:
		var items []value.Value
		for _, item := range x.Items {
			if v := g.expr(item, b); v.IsDefined() {
				items = append(items, v)
			}
		}
		return value.Array(items)
	case *sql.BinaryExpr:
		return binaryOf(x.Op, g.expr(x.X, b), g.expr(x.Y, b))
	}
	panic(fmt.Sprintf("second: aggregate in %T", x))
}

func (g grouped) aggregate(name string, arg sql.Expr) value.Value {
	var list []value.Value
	for _, frame := range g.group {
		if v := g.second.expr(arg, frame); v.IsDefined() {
			list = append(list, v)
		}
	}
	kinds := func(most value.Kind) bool {
		return !slices.ContainsFunc(list, func(v value.Value) bool { return v.Kind() > most })
	}
	numeric := !slices.ContainsFunc(list, func(v value.Value) bool { return v.Kind() != value.KindNumber })
	sum := 0.0
	for _, v := range list {
		sum += v.Float()
	}
	switch {
	case name == "COUNT":
		return value.Int(int64(len(list)))
	case name == "SUM" && numeric:
		return value.Number(sum)
	case name == "AVG" && numeric && len(list) > 0:
		return value.Number(sum / float64(len(list)))
	case name == "MIN" && kinds(value.KindString) && len(list) > 0:
		return slices.MinFunc(list, value.Compare)
	case name == "MAX" && kinds(value.KindString) && len(list) > 0:
		return slices.MaxFunc(list, value.Compare)
	}
	return value.Undefined()
}

func (n second) distinct(rows []value.Value) []value.Value {
	var out []value.Value
	for _, row := range rows {
		if !slices.ContainsFunc(out, func(v value.Value) bool { return value.Equal(v, row) }) {
			out = append(out, row)
		}
	}
	return out
}

func (n second) expr(x sql.Expr, b *bindings) value.Value {
	switch x := x.(type) {
	case *sql.Literal:
		return x.Value
	case *sql.Ident:
		return b.get(x.Name)
	case *sql.MemberExpr:
		return n.expr(x.X, b).Get(x.Name)
	case *sql.IndexExpr:
		at, _ := n.expr(x.Index, b).Int64()
		return n.expr(x.X, b).Index(int(at))
	case *sql.UnaryExpr:
		return n.unary(x, b)
	case *sql.BinaryExpr:
		return binaryOf(x.Op, n.expr(x.X, b), n.expr(x.Y, b))
	case *sql.LogicalExpr:
		return n.logic(x, b)
	case *sql.CoalesceExpr:
		if v := n.expr(x.X, b); v.IsDefined() {
			return v
		}
		return n.expr(x.Y, b)
	case *sql.ConditionalExpr:
		if n.expr(x.Cond, b).IsTrue() {
			return n.expr(x.Then, b)
		}
		return n.expr(x.Else, b)
	case *sql.InExpr:
		return n.in(x, b)
	case *sql.ArrayLiteral:
		items := slices.DeleteFunc(n.list(x.Items, b), func(v value.Value) bool { return !v.IsDefined() })
		return value.Array(items)
	case *sql.ObjectLiteral:
		var members []value.Member
		for _, m := range x.Members {
			members = append(members, value.Member{Name: m.Name, Value: n.expr(m.Expr, b)})
		}
		return value.Object(members)
	case *sql.LetExpr:
		return n.expr(x.In, b.with(x.Name, n.expr(x.Value, b)))
	case *sql.CallExpr:
		return n.call(strings.ToUpper(x.Name), n.list(x.Args, b))
	case *sql.Subquery:
		return n.subquery(x, b)
	case *sql.Parameter:
		return n.params[x.Name]
	case *sql.BetweenExpr:
		return n.between(x, b)
	case *sql.LikeExpr:
		return n.like(x, b)
	}
	panic(fmt.Sprintf("second: %T", x))
}

func (n second) subquery(x *sql.Subquery, b *bindings) value.Value {
	rows := n.query(x.Query, b, false)
	switch x.Kind {
	case sql.SubqueryExists:
		return value.Bool(len(rows) > 0)
	case sql.SubqueryArray:
		return value.Array(rows)
	case sql.SubqueryAll:
		result := value.Bool(true)
		for _, row := range rows {
			switch {
			case row.Kind() == value.KindBool && !row.IsTrue():
				return row
			case !row.IsTrue():
				result = value.Undefined()
			}
		}
		return result
	case sql.SubqueryLast:
		slices.Reverse(rows)
	}
	if len(rows) == 0 {
		return value.Undefined()
	}
	return rows[0]
}

func (n second) unary(x *sql.UnaryExpr, b *bindings) value.Value {
	v := n.expr(x.X, b)
	switch {
	case x.Op == "NOT" && v.Kind() == value.KindBool:
		return value.Bool(!v.IsTrue())
	case x.Op == "-" && v.Kind() == value.KindNumber:
		return value.Number(-v.Float())
	}
	return value.Undefined()
}

func (n second) logic(x *sql.LogicalExpr, b *bindings) value.Value {
	result := value.Bool(!x.Or)
	for _, term := range x.Terms {
		v := n.expr(term, b)
		switch {
		case v.Kind() != value.KindBool:
			result = value.Undefined()
		case v.IsTrue() == x.Or:
			return v
		}
	}
	return result
}

func (n second) in(x *sql.InExpr, b *bindings) value.Value {
	v, found := n.expr(x.X, b), false
	for _, item := range n.list(x.List, b) {
		found = found || binaryOf("=", v, item).IsTrue()
	}
	if !v.IsDefined() {
		return value.Undefined()
	}
	return value.Bool(found != x.Not)
}

func binaryOf(op string, l, r value.Value) value.Value {
	if !l.IsDefined() || !r.IsDefined() {
		return value.Undefined()
	}
	same := l.Kind() == r.Kind()
	c := value.Compare(l, r)
	switch op {
	case "=":
		return value.Bool(c == 0)
	case "!=":
		return value.Bool(c != 0)
	case "+", "*":
		if !same || l.Kind() != value.KindNumber {
			return value.Undefined()
		}
		if op == "+" {
			return value.Number(l.Float() + r.Float())
		}
		return value.Number(l.Float() * r.Float())
	case "-", "/", "%", "&", "|", "||":
		return secondOperator(op, l, r)
	}
	if !same || l.Kind() > value.KindString {
		return value.Undefined()
	}
	switch op {
	case "<":
		return value.Bool(c < 0)
	case "<=":
		return value.Bool(c <= 0)
	case ">":
		return value.Bool(c > 0)
	case ">=":
		return value.Bool(c >= 0)
	}
	panic("second: " + op)
}

func (n second) call(name string, args []value.Value) value.Value {
	texts := !slices.ContainsFunc(args, func(v value.Value) bool { return v.Kind() != value.KindString })
	switch {
	case name == "IS_DEFINED":
		return value.Bool(args[0].IsDefined())
	case name == "IS_NULL":
		return value.Bool(args[0].Kind() == value.KindNull)
	case name == "ARRAY_LENGTH" && args[0].Kind() == value.KindArray:
		return value.Int(int64(args[0].Len()))
	case name == "CONTAINS" && texts:
		return value.Bool(strings.Contains(args[0].Text(), args[1].Text()))
	case name == "UPPER" && texts:
		return value.String(strings.ToUpper(args[0].Text()))
	case name == "ARRAY_CONTAINS" && len(args) == 2 && args[0].Kind() == value.KindArray && args[1].IsDefined():
		return value.Bool(slices.ContainsFunc(args[0].Items(), func(v value.Value) bool { return value.Equal(v, args[1]) }))
	}
	if f := secondFunctions[name]; f != nil {
		return f(args)
	}
	return value.Undefined()
}

// queryWriter writes random queries. It knows which aliases are in scope.
type queryWriter struct {
	*rand.Rand
	aliases []string
	made    int // aliases so far, so that some hide others and most do not
	loops   int // inputs with IN that may still be added
}

func (w *queryWriter) alias() string {
	w.made++
	if len(w.aliases) > 0 && w.IntN(8) == 0 {
		return fmt.Sprint(pick(w.Rand, w.aliases), "x", w.made)
	}
	return fmt.Sprint("v", w.made)
}

// loopsMax leaves one loop for the list of groups, which has one more.
const loopsMax = joinsMax - 1

// loop reports whether an input may have IN, and counts it.
func (w *queryWriter) loop() bool {
	w.loops--
	return w.loops >= 0
}

func (w *queryWriter) path() string {
	path := pick(w.Rand, w.aliases)
	for range w.IntN(3) {
		path += pick(w.Rand, []string{".a", ".b", ".t", ".k", `["a"]`, "[0]", "[1]"})
	}
	return path
}

// query writes a query. top is "" for a subquery, and otherwise the container.
func (w *queryWriter) query(depth int, top string, scalar bool) string {
	outer := len(w.aliases)
	defer func() { w.aliases = w.aliases[:outer] }()
	from, joined := w.from(depth, top, scalar), w.aliases[outer:]
	where := ""
	if w.IntN(2) == 0 && len(w.aliases) > 0 {
		where = " WHERE " + w.condition(depth)
	}
	return "SELECT " + w.selectList(depth, len(joined), scalar, from+where)
}

func (w *queryWriter) from(depth int, top string, scalar bool) string {
	if top == "" && (len(w.aliases) == 0 || w.IntN(6) == 0) {
		return ""
	}
	var inputs []string
	for i := range 1 + w.IntN(3) {
		alias, input := w.alias(), ""
		switch {
		case i == 0 && top != "" && depth > 0 && w.IntN(5) == 0:
			input = "(" + w.query(depth-1, top, false) + ") " + alias
		case i == 0 && top != "" && w.IntN(3) == 0 && w.loop():
			input = alias + " IN " + top + pick(w.Rand, []string{".t", ".k", ".b"})
		case i == 0 && top != "":
			input = top + pick(w.Rand, []string{"", "", ".a", ".k[0]"}) + " " + alias
		case depth > 0 && !scalar && w.IntN(4) == 0:
			input = "(" + w.query(depth-1, "", false) + ") " + alias
		case depth > 0 && w.IntN(6) == 0 && !scalar && w.loop():
			input = alias + " IN (" + w.query(depth-1, "", false) + ")"
		case w.IntN(3) == 0 || scalar || !w.loop():
			input = w.path() + " " + alias
		default:
			input = alias + " IN " + w.path()
		}
		w.aliases = append(w.aliases, alias)
		inputs = append(inputs, input)
	}
	return " FROM " + strings.Join(inputs, " JOIN ")
}

// inSubquery finds a first input that SELECT * cannot read.
var inSubquery = regexp.MustCompile(`^ FROM \w+ IN \(`)

// selectList writes the select list, and GROUP BY after the rest of the query.
func (w *queryWriter) selectList(depth, inputs int, scalar bool, rest string) string {
	switch w.IntN(6) {
	case 0:
		return fmt.Sprintf("VALUE %s(%s)%s", pick(w.Rand, []string{"COUNT", "SUM", "AVG", "MIN", "MAX"}), w.argument(), rest)
	case 1:
		return fmt.Sprintf("COUNT(1) AS n, {s: [SUM(%s), 1]} AS o, MIN(%s) + 1%s", w.argument(), w.argument(), rest)
	case 2:
		if inputs > 0 && !scalar {
			key := w.aliases[len(w.aliases)-1] + pick(w.Rand, []string{".a", ".k.b"})
			return fmt.Sprintf("%s AS key, COUNT(1) AS n, MAX(%s) AS m, ARRAY(SELECT VALUE x FROM x IN %s) AS l%s GROUP BY %s", key, w.argument(), key, rest, key)
		}
	case 3:
		if inputs == 1 && !inSubquery.MatchString(rest) {
			return "*" + rest
		}
	case 4:
		return fmt.Sprintf("%s AS p, %s AS q%s", w.expr(depth), w.expr(depth), rest)
	}
	if w.IntN(4) == 0 {
		return "DISTINCT VALUE " + w.expr(depth) + rest
	}
	return "VALUE " + w.expr(depth) + rest
}

func (w *queryWriter) argument() string {
	if len(w.aliases) == 0 {
		return "1"
	}
	return w.path()
}

func (w *queryWriter) expr(depth int) string {
	if len(w.aliases) == 0 || w.IntN(8) == 0 {
		return pick(w.Rand, words)
	}
	if depth == 0 || w.IntN(3) == 0 {
		return w.path()
	}
	switch w.IntN(10) {
	case 9:
		return w.let(depth, w.expr)
	case 0:
		return fmt.Sprintf("{a: %s, b: %s}", w.expr(depth-1), w.expr(depth-1))
	case 1:
		return fmt.Sprintf("[%s, %s]", w.expr(depth-1), w.expr(depth-1))
	case 2:
		return fmt.Sprintf("(%s %s %s)", w.expr(depth-1), pick(w.Rand, []string{"+", "*"}), w.expr(depth-1))
	case 3:
		return fmt.Sprintf("(%s ?? %s)", w.expr(depth-1), w.expr(depth-1))
	case 4:
		return fmt.Sprintf("(%s ? %s : %s)", w.condition(depth-1), w.expr(depth-1), w.expr(depth-1))
	case 5:
		return fmt.Sprintf("%s(%s)", pick(w.Rand, []string{"UPPER", "ARRAY_LENGTH"}), w.expr(depth-1))
	case 6:
		return fmt.Sprintf("%s(%s)", pick(w.Rand, []string{"ARRAY", "FIRST", "LAST", "ALL", "EXISTS"}), w.query(depth-1, "", false))
	case 7:
		return "(" + w.query(depth-1, "", true) + ")"
	}
	return w.condition(depth - 1)
}

// let writes a LET around the output of body.
func (w *queryWriter) let(depth int, body func(depth int) string) string {
	outer, name, of := len(w.aliases), w.alias(), w.expr(depth-1)
	w.aliases = append(w.aliases, name)
	defer func() { w.aliases = w.aliases[:outer] }()
	return fmt.Sprintf("(LET %s = %s IN %s)", name, of, body(depth-1))
}

func (w *queryWriter) condition(depth int) string {
	if depth > 0 {
		switch w.IntN(8) {
		case 7:
			if len(w.aliases) > 0 {
				return w.let(depth, w.condition)
			}
		case 0:
			return fmt.Sprintf("(%s AND %s)", w.condition(depth-1), w.condition(depth-1))
		case 1:
			return fmt.Sprintf("(%s OR %s)", w.condition(depth-1), w.condition(depth-1))
		case 2:
			return fmt.Sprintf("NOT (%s)", w.condition(depth-1))
		case 3:
			return fmt.Sprintf("EXISTS(%s)", w.query(depth-1, "", false))
		case 4:
			return fmt.Sprintf("(%s IN (%s, %s))", w.expr(depth-1), w.expr(depth-1), pick(w.Rand, words))
		}
	}
	switch x := w.argument(); w.IntN(6) {
	case 0:
		return fmt.Sprintf("IS_DEFINED(%s)", x)
	case 1:
		return fmt.Sprintf("CONTAINS(%s, %s)", x, pick(w.Rand, []string{`"a"`, `""`, "1"}))
	case 2:
		return fmt.Sprintf("ARRAY_CONTAINS(%s, %s)", x, pick(w.Rand, words))
	case 3:
		return fmt.Sprintf("%s = %s", x, w.argument())
	default:
		return fmt.Sprintf("%s %s %s", x, pick(w.Rand, []string{"=", "!=", "<", "<=", ">", ">="}), pick(w.Rand, words))
	}
}

// nestedDocument returns a document with arrays of objects of arrays.
func nestedDocument(r *rand.Rand, i int) string {
	list := func(item func() string) string {
		items := make([]string, r.IntN(4))
		for i := range items {
			items[i] = item()
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	word := func() string { return randomValue(r) }
	kid := func() string {
		if r.IntN(4) == 0 {
			return word()
		}
		return fmt.Sprintf(`{"a":%s,"k":{"b":%s},"t":%s}`, word(), word(), list(word))
	}
	members := []string{fmt.Sprintf(`"id":"%d"`, i)}
	for _, m := range []string{`"a":` + word(), `"b":` + kid(), `"t":` + list(word), `"k":` + list(kid)} {
		if r.IntN(6) > 0 {
			members = append(members, m)
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// unknownRules are the codes of rules that the writer of queries does not know.
// TestPlanVectors shows that such queries are refused as the service's planner refuses
// them.
var unknownRules = regexp.MustCompile("SC(2011|2040|2042|2101|2102|2105|2110)")

// TestSecondOpinion compares the results of random queries with those of a second
// evaluator, with an index and without.
func TestSecondOpinion(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 5))
	ix := newIndex(t)
	var docs list
	n := second{}
	for i := range 20 {
		d := newDocument(t, ix, uint64(i+1), nestedDocument(r, i))
		docs, n.docs = append(docs, d), append(n.docs, d.value)
	}
	queries, found, refused := 0, 0, 0
	for queries < 2_000 {
		w := &queryWriter{Rand: r, loops: loopsMax}
		text := w.query(3, "c", false)
		q, err := sql.Parse(text, nil)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		plan, err := Compile(text, nil, ix, Options{})
		if err != nil {
			if refused++; unknownRules.MatchString(err.Error()) {
				continue
			}
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		bare, err := Compile(text, nil, nil, Options{})
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		queries++
		want := n.query(q, nil, true)
		found += min(len(want), 20)
		for _, p := range []*Plan{plan, bare} {
			got := valuesOf(t, p, docs)
			if combining(q.From) != nil || isGrouped(q) || q.Distinct {
				slices.SortFunc(got, value.Compare) // Groups come in an order of their own.
				slices.SortFunc(want, value.Compare)
			}
			if !slices.EqualFunc(got, want, value.Equal) {
				t.Fatalf("seed %d: %s\ngot  %s\nwant %s\naccess %v", seed, text, value.Array(got).JSON(), value.Array(want).JSON(), p.Access())
			}
		}
	}
	if found < 2_000 || refused > queries/30 {
		t.Fatalf("seed %d: too few cases: %d rows, %d queries are refused", seed, found, refused)
	}
	t.Logf("%d rows, %d queries are refused", found, refused)
}

func valuesOf(t *testing.T, p *Plan, docs list) []value.Value {
	t.Helper()
	rows, _, err := all(t.Context(), p, []list{docs}, Budget{})
	if err != nil {
		t.Fatalf("%s: %v", p.Text(), err)
	}
	var out []value.Value
	for _, row := range rows {
		v, err := value.Parse(row.JSON)
		if err != nil {
			t.Fatalf("%s: row %s: %v", p.Text(), row.JSON, err)
		}
		out = append(out, v)
	}
	return out
}
