package query

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// doubling builds a value with twice as many parts on each level, all shared, and
// uses it in a call of in.
func doubling(levels int, pair, in string) string {
	var b strings.Builder
	b.WriteString("(LET a0=[0,0] IN ")
	for i := range levels {
		from := fmt.Sprintf("a%d", i)
		fmt.Fprintf(&b, "(LET a%d=%s IN ", i+1, strings.ReplaceAll(pair, "#", from))
	}
	b.WriteString(strings.ReplaceAll(in, "#", fmt.Sprintf("a%d", levels)))
	return b.String() + strings.Repeat(")", levels+1)
}

const valueTooLarge = "A value computed by the query is larger than 4194304 bytes."

// A text of a few hundred bytes can build a value with very many parts, which are
// shared and so take no memory. Walking such a value would never end, even inside
// Compile, so no value may exceed the size limit.
func TestSharedParts(t *testing.T) {
	t.Parallel()
	numbers := make([]value.Value, 100_000)
	for i := range numbers {
		numbers[i] = value.Int(int64(i))
	}
	params := []Param{{Name: "@p", Value: value.Array(numbers)}}
	towers := "c x"
	for range 40 {
		towers = "(SELECT VALUE [x,x] FROM " + towers + ") x"
	}
	many := strings.Repeat("@p,", 50_000) + "@p"
	docs := list{newDocument(t, nil, 1, `{"id":"1"}`)}
	for name, text := range map[string]string{
		"result":       "SELECT VALUE " + doubling(50, "[#,#]", "#"),
		"subqueries":   "SELECT VALUE " + doubling(50, "(SELECT # AS x, # AS y)", "#"),
		"concatenated": "SELECT VALUE " + doubling(15, "ARRAY_CONCAT("+strings.Repeat("[#],", 99)+"[#])", "#"),
		"parameters":   "SELECT VALUE [" + many + "]",
		"number":       "SELECT VALUE " + doubling(36, "[#,#]", "HASH(#)"),
		"among":        "SELECT VALUE " + doubling(36, "[#,#,c.id]", "(# IN (1,2,3,4,5,6,7,8))") + " FROM c",
		"equal":        "SELECT VALUE 1 FROM c WHERE " + doubling(36, "[#,#,c.id]", "# = #"),
		"distinct":     "SELECT DISTINCT VALUE x FROM " + towers,
		"grouped":      "SELECT x, COUNT(1) FROM " + towers + " GROUP BY x",
		"set":          "SELECT VALUE MAKESET(x) FROM " + towers,
		"greatest":     "SELECT VALUE MAX(x) FROM " + towers,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Compile(text, params, nil, Options{})
			if err != nil {
				t.Fatal(err)
			}
			// Without documents the value is never computed.
			if strings.Contains(text, "FROM c") {
				if _, err := p.Run(t.Context(), list{}, Budget{}); err != nil {
					t.Errorf("without documents: %v", err)
				}
			}
			tooMuch := status.From(TooMuchMemory(memoryDefault)).Message
			looks := 0
			ctx := lookedAt{t.Context(), func() { looks++ }}
			_, err = p.Run(ctx, docs, Budget{})
			if e := status.From(err); err == nil || e.Code != status.CodeBadRequest || e.Message != valueTooLarge && e.Message != tooMuch {
				t.Errorf("got %v", err)
			}
			// The context is checked after workCheck units: a few values of the
			// greatest size use up that many.
			if most := 16 * builtMax / workCheck; looks > most {
				t.Errorf("%d looks at the context, want at most %d", looks, most)
			}
		})
	}
}

// TestSharedPartsThatFit checks that a query builds and walks a value of the size of a
// page, however it shares its parts.
func TestSharedPartsThatFit(t *testing.T) {
	t.Parallel()
	docs := list{newDocument(t, nil, 1, `{"id":"1"}`)}
	for text, want := range map[string]string{
		doubling(12, "[#,#]", "# = #") + " AND c.id = '1'":                              "true",
		doubling(12, "[#,#,c.id]", "HASH(#) = HASH(#)"):                                 "true",
		doubling(12, "[#,#,c.id]", "(# IN (1,2,3,4,5,6,7,8,[]))"):                       "false",
		doubling(12, "[#,#]", "(# IN (1,2,3,4,5,6,7,8,#))"):                             "true",
		doubling(12, "[#,#]", "ARRAY_CONTAINS([[#],#],#)"):                              "true",
		"'1' IN ('0','" + strings.Repeat("x", 5000) + "',c.id,'3','4','5','6','7','8')": "true",
	} {
		rows, _, err := all(t.Context(), mustCompile(t, "SELECT VALUE ("+text+") FROM c"), []list{docs}, Budget{})
		if err != nil || len(rows) != 1 || string(rows[0].JSON) != want {
			t.Errorf("%.80s: %v, %v, want %s", text, rows, err, want)
		}
	}
}

// Values that are kept while others are computed count as memory of the query.
func TestMemoryOfWaitingValues(t *testing.T) {
	t.Parallel()
	const size, memory = 1 << 13, 64 << 13
	within := func(n int, text, innermost string) string {
		before, after, _ := strings.Cut(text, "#")
		return strings.Repeat(before, n) + innermost + strings.Repeat(after, n)
	}
	numbered := func(n int, text, innermost string) string {
		for i := range n {
			innermost = strings.ReplaceAll(strings.Replace(text, "#", innermost, 1), "@", fmt.Sprint(i))
		}
		return innermost
	}
	docs := list{newDocument(t, nil, 1, `{"id":"1","n":[0,1,2],"s":"`+strings.Repeat("a", size)+`"}`)}
	for name, c := range map[string]struct {
		text func(n int) string
		most int // the greatest n that is answered: 0 for none, and -1 for any
	}{
		"arguments": {func(n int) string { return "CONTAINS_ANY_CS('x'," + repeated(n, ",", "UPPER(c.s)") + ")" }, 64},
		"concat":    {func(n int) string { return "LENGTH(CONCAT(" + repeated(n, ",", "LEFT(UPPER(c.s),1)") + "))" }, 64},
		"slices":    {func(n int) string { return "ARRAY_LENGTH([" + repeated(n, ",", "LEFT(UPPER(c.s),1)") + "])" }, 63},
		"objects":   {func(n int) string { return "{" + repeated(n, ",", "x#:LEFT(UPPER(c.s),1)") + "}.x1" }, 64},
		"nested":    {func(n int) string { return within(n, "[LEFT(UPPER(c.s),1),#]", "1") + " = 1" }, 63},
		"operands":  {func(n int) string { return within(n, "(UPPER(c.s) = #)", "UPPER(c.s)") }, 63},
		"texts":     {func(n int) string { return within(n, "(LEFT(c.s || 'b', 1) || #)", "'x'") + " = 'a'" }, 63},
		"list":      {func(n int) string { return within(n, "(UPPER(c.s) IN (1, #))", "1") }, 64},
		"patterns":  {func(n int) string { return within(n, "(UPPER(c.s) LIKE ToString(#))", "'%x'") }, 64},
		"let":       {func(n int) string { return numbered(n, "(LET a@ = UPPER(c.s) IN #)", "a0") + " = 1" }, 64},
		"let of it": {func(n int) string { return "[" + repeated(n, ",", "(LET a# = UPPER(c.s) IN LEFT(a#, 1))") + "] = 1" }, 63},
		"first":     {func(n int) string { return "[" + repeated(n, ",", "(SELECT VALUE LEFT(UPPER(c.s), 1))") + "] = 1" }, 64},
		"inputs": {func(n int) string {
			return "EXISTS(SELECT VALUE 1 FROM " + within(n, "(SELECT VALUE UPPER(x) FROM # x)", "(SELECT VALUE c.s)") + " x)"
		}, 64},
		"rows of inputs": {func(n int) string {
			return "[" + repeated(n, ",", "LENGTH(FIRST(SELECT VALUE x FROM (SELECT VALUE UPPER(c.s)) x))") + "] = 1"
		}, -1},
		"last": {func(n int) string {
			return within(n, "(SELECT VALUE x FROM (SELECT VALUE [LEFT(UPPER(c.s),1), #]) x)", "1") + " = 1"
		}, 63},
		"one by one": {func(n int) string { return repeated(n, " OR ", "UPPER(c.s) = '#'") }, -1},
		"sums":       {func(n int) string { return repeated(n, " + ", "LENGTH(UPPER(c.s))") + " = 1" }, -1},
		"numbers":    {func(n int) string { return "[" + repeated(n, ",", "LENGTH(UPPER(c.s))") + "] = 1" }, -1},
		"lets":       {func(n int) string { return repeated(n, " OR ", "(LET a = UPPER(c.s) IN a = '#')") }, -1},
		"places":     {func(n int) string { return "CONTAINS_ANY_CS('x'," + repeated(n, ",", "c.s") + ")" }, -1},
		"parts":      {func(n int) string { return "CONTAINS_ANY_CS('x'," + repeated(n, ",", "RIGHT(c.s, 8000)") + ")" }, -1},
		"names of one": {func(n int) string {
			return "(LET a = UPPER(c.s) IN CONTAINS_ANY_CS('x'," + repeated(n, ",", "a") + "))"
		}, -1},
		"conditions": {func(n int) string {
			return "CONTAINS_ANY_CS('x'," + repeated(n, ",", "(UPPER(c.s) = '' ? 'x' : 'y')") + ")"
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			tried := []int{c.most, c.most + 1}
			if c.most < 0 {
				tried = []int{100}
			}
			for _, n := range tried {
				_, err := mustCompile(t, "SELECT VALUE c.id FROM c WHERE "+c.text(n)).Run(t.Context(), docs, Budget{Memory: memory})
				refused := c.most >= 0 && n > c.most
				if (err != nil) != refused || refused && err.Error() != TooMuchMemory(memory).Error() {
					t.Errorf("%d: got %v", n, err)
				}
			}
		})
	}
}

// runOne runs a query over some documents, and returns its error.
func runOne(t *testing.T, text string, docs list) error {
	t.Helper()
	_, err := mustCompile(t, text).Run(t.Context(), docs, Budget{})
	return err
}

// Each query has a limit for regular expressions: a repetition counts as often as
// it repeats. An expression that occurs many times counts once, and one that is
// not constant has the limit for itself.
func TestRegexSize(t *testing.T) {
	t.Parallel()
	docs := list{newDocument(t, nil, 1, `{"id":"1","s":"ab","p":"`+strings.Repeat("(a{1000})", 110)+`"}`)}
	for name, c := range map[string]struct {
		text    string
		refused bool
	}{
		"one":            {"RegexMatch(c.s, '" + strings.Repeat("a{1000}", 99) + "')", false},
		"large":          {"RegexMatch(c.s, '" + strings.Repeat("a{1000}", 100) + "')", true},
		"long":           {"RegexMatch(c.s, '" + strings.Repeat("a", 49_000) + "')", false},
		"too long":       {"RegexMatch(c.s, '" + strings.Repeat("a", 51_000) + "')", true},
		"one many times": {repeated(2000, " OR ", "RegexMatch(c.s, 'a{900}b')"), false},
		"many":           {repeated(120, " OR ", "RegexMatch(c.s, 'a{900}b#')"), true},
		"some":           {repeated(90, " OR ", "RegexMatch(c.s, 'a{900}b#')"), false},
		"extracted":      {repeated(200, " OR ", "REGEXEXTRACT(c.s, 'a{900}b#') = 'a'"), true},
		"computed":       {"RegexMatch(c.s, c.p)", true},
		"extracts":       {"REGEXEXTRACTALL(c.s, c.p) = 1", true},
		"constants":      {"RegexMatch('ab', '" + strings.Repeat("a{1000}", 100) + "')", true},
	} {
		t.Run(name, func(t *testing.T) {
			text := "SELECT VALUE c.id FROM c WHERE " + c.text
			if err := runOne(t, text, nil); err != nil {
				t.Errorf("without documents: %v", err)
			}
			err := runOne(t, text, docs)
			if (err != nil) != c.refused || err != nil && err.Error() != regexTooLarge().Error() {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Nested conditions also cost work in proportion to their text.
func TestDeepChains(t *testing.T) {
	for name, of := range map[string]func(depth int) string{
		"chains": func(n int) string {
			terms := [2]string{repeated(40, " OR ", "NOT IS_STRING(c.a)"), repeated(40, " AND ", "NOT IS_STRING(c.a)")}
			text := "NOT IS_STRING(c.a)"
			for i := range n {
				text = terms[i%2] + []string{" OR (", " AND ("}[i%2] + text + ")"
			}
			return text
		},
		"negated": func(n int) string {
			return strings.Repeat(repeated(40, " OR ", "NOT IS_STRING(c.a)")+" OR NOT (", n) + "IS_STRING(c.a)" + strings.Repeat(")", n)
		},
		"signs": func(n int) string {
			return strings.Repeat("NOT ", n) + "(" + repeated(40*n, " OR ", "NOT IS_STRING(c.a)") + ")"
		},
		"names": func(n int) string {
			text := "NOT IS_STRING(c.a)"
			for i := range n {
				text = fmt.Sprintf("(LET a%d = c.a IN (%s OR %s))", i, repeated(10, " OR ", "NOT IS_STRING(a%)"), text)
				text = strings.ReplaceAll(text, "%", fmt.Sprint(i))
			}
			return text
		},
	} {
		t.Run(name, func(t *testing.T) {
			allocated := func(depth int) uint64 {
				text := "SELECT VALUE 1 FROM c WHERE " + of(depth)
				ix := newIndex(t)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := Compile(text, nil, ix, Options{})
				runtime.ReadMemStats(&after)
				if err != nil {
					t.Fatal(err)
				}
				return after.TotalAlloc - before.TotalAlloc
			}
			depth := 40
			if name == "names" {
				depth = 100 // From here on testedMax bounds them.
			}
			half, whole := allocated(depth), allocated(2*depth)
			if whole > 3*half {
				t.Errorf("%d bytes for half of the depth, %d for all", half, whole)
			}
		})
	}
}

// A text may be as long as the limit, but no longer.
func TestTextLimit(t *testing.T) {
	t.Parallel()
	const query = "SELECT VALUE 1"
	for _, most := range []int{len(query), 100, resource.DefaultLimits().QueryTextBytes} {
		limits := resource.DefaultLimits()
		limits.QueryTextBytes = most
		text := query + strings.Repeat(" ", most-len(query))
		if _, err := Compile(text, nil, nil, Options{Limits: limits}); err != nil {
			t.Errorf("%d bytes: %v", len(text), err)
		}
		_, err := Compile(text+" ", nil, nil, Options{Limits: limits})
		want := fmt.Sprintf("The SQL query text exceeded the maximum limit of %d bytes.", most)
		if e := status.From(err); err == nil || e.Code != status.CodeBadRequest || e.Message != want {
			t.Errorf("%d bytes: %v", len(text)+1, err)
		}
	}
	// Without limits the defaults apply.
	long := query + strings.Repeat(" ", resource.DefaultLimits().QueryTextBytes)
	if _, err := Compile(long, nil, nil, Options{}); err == nil {
		t.Errorf("%d bytes are answered", len(long))
	}
}

// The estimated memory of a plan is close to the memory that it takes.
func TestPlanSize(t *testing.T) {
	for name, filter := range map[string]string{
		"comparisons": repeated(1500, " OR ", "c.a# = #"),
		"calls":       repeated(600, " OR ", "CONTAINS(c.a#, 'x')"),
		"constants":   repeated(50, " OR ", "ARRAY_CONTAINS(StringSplit(REPLICATE('#,', 2000), ','), c.a)"),
		"regexes":     repeated(40, " OR ", "RegexMatch(c.s, 'a{900}b#')"),
	} {
		t.Run(name, func(t *testing.T) {
			ix, text := newIndex(t), "SELECT VALUE c.id FROM c WHERE "+filter
			var before, after runtime.MemStats
			plans := make([]*Plan, 4)
			for range 3 { // The leftovers of other tests in pools disappear gradually.
				runtime.GC()
			}
			runtime.ReadMemStats(&before)
			for i := range plans {
				p, err := Compile(text, nil, ix, Options{})
				if err != nil {
					t.Fatal(err)
				}
				plans[i] = p
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			took := (int(after.HeapAlloc) - int(before.HeapAlloc)) / len(plans)
			t.Logf("%d bytes of text, %d in memory, estimate %d", len(text), took, plans[0].Size())
			if size := plans[0].Size(); size < took/3 || size > 5*took {
				t.Errorf("takes %d bytes, estimated as %d", took, size)
			}
			runtime.KeepAlive(plans)
		})
	}
}

// Cancelling a run ends it while it builds values.
func TestEndWhileBuilding(t *testing.T) {
	t.Parallel()
	docs := list{newDocument(t, nil, 1, `{"id":"1","n":[1,2],"x":[`+repeated(20_000, ",", "#")+`]}`)}
	for _, text := range []string{
		repeated(300, " OR ", "ARRAY_LENGTH([c.x, #]) = 0"),
		repeated(300, " OR ", "{x: c.x, y: #}.y = 'a'"),
		repeated(300, " OR ", "ARRAY_LENGTH(ARRAY(SELECT VALUE c.x FROM y IN c.n)) = 0"),
		repeated(300, " OR ", "HASH(c.x) = -1"),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		looks := 0
		stopping := lookedAt{ctx, func() {
			if looks++; looks == 5 {
				cancel()
			}
		}}
		_, err := mustCompile(t, "SELECT VALUE 1 FROM c WHERE "+text).Run(stopping, docs, Budget{})
		cancel()
		if !errors.Is(err, context.Canceled) || looks > 6 {
			t.Errorf("%.60s: %v after %d looks", text, err, looks)
		}
	}
}
