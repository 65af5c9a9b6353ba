package query

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// TestPlannerValues asks the service's planner for the values of random expressions and
// compares them with those of Decan, as text. DECAN_PLANNER is the number of expressions
// and DECAN_PLANNER_SEED where they begin; without the former the test does nothing. It
// writes the shortest examples of each kind of difference in the form of
// testdata/vectors.
func TestPlannerValues(t *testing.T) {
	total, seed := plannerJob(t)
	j := newJudge(t)
	found := map[string][]valueDifference{}
	answered, same, digits, documented, differences := 0, 0, 0, 0, 0
	for done := 0; done < total; {
		var list []string
		for range min(5000, total-done) {
			w := exprWriter{rand.New(rand.NewPCG(seed, uint64(done+len(list))))}
			list = append(list, w.expr(1+w.IntN(3)))
		}
		done += len(list)
		for _, want := range j.values(t, list) {
			answered++
			got := evaluated(t, want.expr)
			switch {
			case got == want:
				same++
			case onlyDigits(t, got, want):
				digits++
			case documentedValue(want):
				documented++
			default:
				differences++
				kind := kindOfExpression(want.expr)
				found[kind] = append(found[kind], valueDifference{got, want})
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		list := slices.SortedFunc(slices.Values(found[kind]), func(a, b valueDifference) int {
			return cmp.Compare(len(a.want.expr), len(b.want.expr))
		})
		t.Errorf("%d times: %s", len(list), kind)
		for _, d := range list[:min(3, len(list))] {
			t.Errorf("%s is %s%s, want\n%s", d.want.expr, d.got.text, d.got.code, d.want.line())
		}
	}
	t.Logf("%d expressions with seed %d: %d answered, %d the same, %d differ in the last digits, %d as documented, %d otherwise", total, seed, answered, same, digits, documented, differences)
	if answered < total*9/10 || same < answered*9/10 {
		t.Error("too few cases to compare")
	}
}

// valueDifference holds the values that Decan and the service compute for an
// expression.
type valueDifference struct{ got, want valueVector }

// line returns a vector as testdata/vectors has it.
func (v valueVector) line() string {
	members := []value.Value{value.String(v.expr), value.String(v.text)}
	if v.code != "" {
		members = []value.Value{value.String(v.expr), value.Null(), value.String(v.code)}
	}
	return value.Array(members).JSON()
}

// onlyDigits reports whether the values are numbers that differ as those of the
// exceptions do. Only functions of libraryFunctions have such values.
func onlyDigits(t *testing.T, got, want valueVector) bool {
	name, _, _ := strings.Cut(want.expr, "(")
	switch {
	case !slices.Contains(libraryFunctions, name) || got.code+want.code != "":
		return false
	case strings.HasPrefix(name, "ST_"):
		return near(t, got.text, want.text, exceptionKinds["spatial"])
	}
	return near(t, got.text, want.text, exceptionKinds["library"])
}

// documentedValue reports whether docs/compatibility.md names the difference of an
// expression: the median with NaN.
func documentedValue(want valueVector) bool {
	return strings.Contains(want.expr, "ARRAY_MEDIAN(") && strings.Contains(want.expr, "NaN")
}

// kindOfExpression returns the outermost function or operator of an expression.
func kindOfExpression(expr string) string {
	q, err := sql.Parse("SELECT VALUE "+expr, nil)
	if err != nil {
		return "syntax"
	}
	switch x := q.Value.(type) {
	case *sql.CallExpr:
		return x.Name
	case *sql.BinaryExpr:
		return x.Op
	case *sql.UnaryExpr:
		return "unary " + x.Op
	case *sql.ObjectLiteral, *sql.ArrayLiteral:
		return "literal"
	}
	return "other"
}
