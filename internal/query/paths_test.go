package query

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// TestCompiledPaths evaluates the expressions of the vectors, and as many random ones,
// with properties of a document in place of some operands at any depth. The value must
// be that of the constants, which TestValueVectors compares with the service. This must
// hold if an expression is folded, evaluated over the parsed document, compared with
// bytes of the stored one, answered by the index alone, or tested on the values of its
// terms.
//
// DECAN_DIFFERENTIAL is the number of random expressions, DECAN_SEED chooses them.
func TestCompiledPaths(t *testing.T) {
	t.Parallel()
	vectors := valueVectors(t)
	number, seed := len(vectors)/30, rand.Uint64()>>1
	for name, setting := range map[string]func(n uint64){
		"DECAN_DIFFERENTIAL": func(n uint64) { number = int(n) },
		"DECAN_SEED":         func(n uint64) { seed = n },
	} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 63)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			setting(n)
		}
	}
	t.Logf("DECAN_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 9))
	p := pathTest{ix: newIndex(t)}
	for _, i := range r.Perm(len(vectors))[:min(number, len(vectors))] {
		p.vector(t, r, vectors[i].expr)
	}
	w := exprWriter{r}
	for range number {
		p.vector(t, r, w.expr(1+w.IntN(3)))
	}
	t.Logf("%d expressions: %d values, %d filters, of which the index alone answers %d", number, p.values, p.filters, p.exact)
	if p.values < number || p.filters < number || p.exact < number/20 {
		t.Error("too few cases to compare")
	}
}

// pathTest counts what was compared.
type pathTest struct {
	ix                     *index.Index
	values, filters, exact int
}

// operands returns the places of the operands of an expression that may become
// properties.
func operands(x sql.Expr) (list []*sql.Expr) {
	all := func(exprs []sql.Expr) {
		for i := range exprs {
			list = append(list, &exprs[i])
		}
	}
	switch x := x.(type) {
	case *sql.CallExpr:
		args := x.Args
		if takesTimespan(functions[strings.ToUpper(x.Name)], len(args)) {
			args = args[1:] // a time span is a literal
		}
		all(args)
	case *sql.LogicalExpr:
		all(x.Terms)
	case *sql.InExpr:
		list = append(list, &x.X)
		all(x.List)
	case *sql.BetweenExpr:
		list = append(list, &x.X, &x.Low, &x.High)
	case *sql.ConditionalExpr:
		list = append(list, &x.Cond, &x.Then, &x.Else)
	case *sql.BinaryExpr:
		list = append(list, &x.X, &x.Y)
	case *sql.CoalesceExpr:
		list = append(list, &x.X, &x.Y)
	case *sql.LikeExpr:
		list = append(list, &x.X, &x.Pattern)
	case *sql.UnaryExpr:
		list = append(list, &x.X)
	case *sql.MemberExpr:
		list = append(list, &x.X)
	case *sql.IndexExpr:
		list = append(list, &x.X)
	}
	return list
}

// operandPlaces returns the places of operands at any depth, none of which contains another.
func operandPlaces(r *rand.Rand, x sql.Expr) (list []*sql.Expr) {
	for _, place := range operands(x) {
		if inner := operandPlaces(r, *place); len(inner) > 0 && r.IntN(2) == 0 {
			list = append(list, inner...)
		} else {
			list = append(list, place)
		}
	}
	return list
}

// masksMax is the number of choices of operands that are tried for an expression, and
// operandsMax the number of operands.
const (
	masksMax    = 4
	operandsMax = 12
)

// vector tries an expression with some choices of its operands as properties.
func (p *pathTest) vector(t *testing.T, r *rand.Rand, expr string) {
	t.Helper()
	want := evaluated(t, expr)
	if want.code != "" {
		return
	}
	x, ok := parameterized(r, expr)
	if !ok {
		return
	}
	if again := evaluated(t, x.text(0)); again.text != want.text {
		return // The printer writes 1.0 as 1 and -0.0 as -0, as the planner does.
	}
	masks := 1<<len(x.operands) - 1
	for n := range min(masks, masksMax) {
		mask := masks - n
		if masks > masksMax {
			mask = 1 + r.IntN(masks)
		}
		if call, ok := x.expr.(*sql.CallExpr); ok && isFunction(call, "VectorDistance") && mask>>2 != 0 {
			continue // The argument must be a literal.
		}
		p.compare(t, x.text(mask), x.doc, want.text)
	}
}

// openExpr is an expression of constants, each of which is a property of a document as
// well.
type openExpr struct {
	expr      sql.Expr
	operands  []*sql.Expr
	constants []sql.Expr
	doc       string // JSON
}

// parameterized parses an expression. It returns false if that is not possible, or if a
// document cannot have the operands.
func parameterized(r *rand.Rand, expr string) (x openExpr, ok bool) {
	q, err := sql.Parse("SELECT VALUE "+expr, nil)
	if err != nil || q.Value == nil || !utf8.ValidString(expr) {
		return x, false
	}
	x.expr = q.Value
	doc := value.Object(nil).With("id", value.String("1"))
	for _, place := range operandPlaces(r, q.Value) {
		constant := newCompiler(nil, nil, nil).expr(*place)
		if !constant.con || !constant.v.Finite() || marked(constant.v) || len(x.operands) == operandsMax {
			continue
		}
		doc = doc.With(fmt.Sprintf("p%d", len(x.operands)), constant.v)
		x.operands, x.constants = append(x.operands, place), append(x.constants, *place)
	}
	x.doc = doc.JSON()
	_, err = value.ParseString(x.doc)
	return x, err == nil && len(x.operands) > 0
}

// marked reports whether a value has a number with a mark of value.Double, which the
// number in a document does not have.
func marked(v value.Value) bool {
	switch v.Kind() {
	case value.KindNumber:
		const odd = 1<<53 + 1
		zero := value.Multiply(v, value.Int(0))
		_, whole := v.Int64()
		return whole && !value.Equal(value.Add(zero, value.Int(odd)), value.Int(odd))
	case value.KindArray:
		return slices.ContainsFunc(v.Items(), marked)
	case value.KindObject:
		return slices.ContainsFunc(v.Members(), func(m value.Member) bool { return marked(m.Value) })
	}
	return false
}

// text returns the expression with a property in place of the operands of a mask.
func (x *openExpr) text(mask int) string {
	for i, place := range x.operands {
		if *place = x.constants[i]; mask>>i&1 != 0 {
			*place = &sql.MemberExpr{X: &sql.Ident{Name: "c"}, Name: fmt.Sprintf("p%d", i)}
		}
	}
	return x.expr.String()
}

// FuzzCompiledPaths is TestCompiledPaths for any expression.
func FuzzCompiledPaths(f *testing.F) {
	for i, v := range valueVectors(f) {
		if i%100 == 0 {
			f.Add(v.expr, uint8(1))
		}
	}
	f.Add(`NOT (5 BETWEEN 9 AND "b")`, uint8(1))
	f.Add(`"a%c" LIKE "a!%_" ESCAPE "!"`, uint8(3))
	p := pathTest{ix: newIndex(f)}
	f.Fuzz(func(t *testing.T, expr string, mask uint8) {
		if strings.Contains(strings.ToUpper(expr), "RAND") {
			return
		}
		want := evaluated(t, expr)
		if want.code != "" {
			return
		}
		x, ok := parameterized(rand.New(rand.NewPCG(uint64(mask), 9)), expr)
		if !ok || evaluated(t, x.text(0)).text != want.text || int(mask)>>len(x.operands) != 0 || mask == 0 {
			return
		}
		text := x.text(int(mask))
		plan, err := Compile("SELECT VALUE "+text+" FROM c", nil, nil, Options{Now: vectorTime})
		if err != nil {
			return // Some arguments must be literals.
		}
		if _, err := plan.Run(t.Context(), list{newDocument(t, nil, 1, x.doc)}, Budget{}); err == nil {
			p.compare(t, text, x.doc, want.text)
		}
	})
}

// compare requires that an expression has a value over a document, as text in an array.
func (p *pathTest) compare(t *testing.T, expr, doc, want string) {
	t.Helper()
	docs := list{newDocument(t, p.ix, 1, doc), newDocument(t, p.ix, 2, doc)}
	text := fmt.Sprintf("ToString([%s])", expr)
	literal := value.String(want).JSON()
	p.rows(t, docs, "SELECT VALUE "+text+" FROM c", literal, literal)
	p.rows(t, docs, fmt.Sprintf("SELECT VALUE MAX(%s) FROM c", text), literal)
	p.values++
	conditions := map[string]bool{
		text + " = " + literal:        true,
		"IS_DEFINED(" + expr + ")":    want != "[]",
		expr:                          want == "[true]",
		"NOT (" + expr + ")":          want == "[false]",
		"NOT (NOT (" + expr + "))":    want == "[true]",
		"(" + expr + ") ?? true":      want == "[]" || want == "[true]",
		"NOT ((" + expr + ") = true)": want != "[]" && want != "[true]",
	}
	for condition, holds := range conditions {
		p.filter(t, docs, condition, holds)
	}
}

// filter requires that a filter admits the documents, or that it does not.
func (p *pathTest) filter(t *testing.T, docs list, condition string, holds bool) {
	t.Helper()
	var ids []string
	if holds {
		ids = []string{`"1"`, `"1"`}
	}
	query := "SELECT VALUE c.id FROM c WHERE " + condition
	plan := p.rows(t, docs, query, ids...)
	p.rows(t, docs, "SELECT VALUE COUNT(1) FROM c WHERE "+condition, strconv.Itoa(len(ids)))
	p.filters++
	access := plan.Access()
	admitted := access.Admits(docs[0].terms)
	if holds && !admitted || plan.exact && admitted != holds {
		t.Errorf("%s over %s: the index admits it: %t, want %t; access %s", query, docs[0].body, admitted, holds, access)
	}
	if plan.exact {
		p.exact++
	}
	if matcher := NewMatcher(p.ix, access); matcher != nil && matcher.Match(docs[0].bare, 0) != admitted {
		t.Errorf("%s over %s: the matcher says %t, the index %t; access %s", query, docs[0].body, !admitted, admitted, access)
	}
}

// rows requires that a query has rows, with the index and without.
func (p *pathTest) rows(t *testing.T, docs list, query string, want ...string) *Plan {
	t.Helper()
	var with *Plan
	for _, ix := range []*index.Index{nil, p.ix} {
		plan, err := Compile(query, nil, ix, Options{Now: vectorTime})
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		with = plan
		run := func(ctx context.Context, b Budget) (Page, error) { return plan.Run(ctx, docs, b) }
		if ix != nil {
			run = func(ctx context.Context, b Budget) (Page, error) { return plan.Run(ctx, indexed{docs}, b) }
		}
		page, _, err := plan.Merge([]Stream{run}, Progress{}).Page(t.Context(), Budget{MaxBytes: 1 << 20})
		var got []string
		for _, row := range page.Rows {
			got = append(got, string(row.JSON))
		}
		if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s over %s, with an index %t: %v, %v, want %v", query, docs[0].body, ix != nil, got, err, want)
		}
	}
	return with
}
