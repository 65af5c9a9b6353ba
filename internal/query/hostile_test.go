package query

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// repeated joins n variants of a piece of text.
func repeated(n int, separator, format string) string {
	pieces := make([]string, n)
	for i := range pieces {
		pieces[i] = strings.ReplaceAll(format, "#", fmt.Sprint(i))
	}
	return strings.Join(pieces, separator)
}

// hostile are functions that build a text of a given size, whether it is answered
// or refused, and the size at which it is about as long as a client may send.
var hostile = map[string]struct {
	text    func(n int) string
	size    int
	refused bool
}{
	"parentheses": {func(n int) string {
		return "SELECT * FROM c WHERE " + strings.Repeat("(", n) + "1=1" + strings.Repeat(")", n)
	}, 10_000, false},
	"open":           {func(n int) string { return "SELECT * FROM c WHERE " + strings.Repeat("(", n) }, 500_000, true},
	"signs":          {func(n int) string { return "SELECT * FROM c WHERE " + strings.Repeat("- ", n) + "1" }, 200_000, true},
	"NOT":            {func(n int) string { return "SELECT * FROM c WHERE " + strings.Repeat("NOT ", n) + "true" }, 100_000, true},
	"members":        {func(n int) string { return "SELECT * FROM c WHERE c" + strings.Repeat(".a", n) }, 200_000, true},
	"calls":          {func(n int) string { return "SELECT * FROM c WHERE " + strings.Repeat("ABS(", n) }, 50_000, true},
	"subqueries":     {func(n int) string { return "SELECT * FROM c WHERE " + strings.Repeat("(SELECT VALUE ", n) }, 30_000, true},
	"FROM":           {func(n int) string { return "SELECT * FROM " + strings.Repeat("(SELECT * FROM ", n) }, 30_000, true},
	"JOIN":           {func(n int) string { return "SELECT c.id FROM c " + repeated(n, " ", "JOIN a# IN c.x") }, 20_000, true},
	"JOIN of places": {func(n int) string { return "SELECT c.id FROM c " + repeated(n, " ", "JOIN c.x a#") }, 30_000, false},
	"UDF":            {func(n int) string { return "SELECT " + repeated(n, ",", "udf.f#(1)") + " FROM c" }, 30_000, true},
	"unresolved":     {func(n int) string { return "SELECT " + repeated(n, ",", "d.a#") + " FROM c" }, 30_000, true},
	"ungrouped":      {func(n int) string { return "SELECT COUNT(1)," + repeated(n, ",", "c.a#") + " FROM c" }, 30_000, true},
	"scores":         {func(n int) string { return "SELECT " + repeated(n, ",", `RRF(1,2)`) + " FROM c" }, 30_000, true},
	"EXISTS": {func(n int) string {
		return "SELECT c.id FROM c WHERE " + repeated(n, " OR ", "EXISTS(SELECT VALUE x FROM x IN c.x WHERE x=#)")
	}, 9_000, false},
	"FROM below": {func(n int) string {
		return "SELECT VALUE 1 FROM " + strings.Repeat("(SELECT * FROM ", n) + "c" + strings.Repeat(") c", n)
	}, 460, false},
	"EXISTS below": {func(n int) string {
		return "SELECT VALUE 1 FROM c WHERE " + strings.Repeat("EXISTS(SELECT VALUE 1 WHERE c.a = 5 AND ", n) + "true" + strings.Repeat(")", n)
	}, 160, false},
	"aggregates": {func(n int) string { return "SELECT " + repeated(n, ",", "SUM(c.a#)") + " FROM c" }, 30_000, false},
	"group keys": {func(n int) string { return "SELECT COUNT(1) FROM c GROUP BY " + repeated(n, ",", "c.a#") }, 30_000, false},
	"aggregates of a filter": {func(n int) string {
		return "SELECT " + repeated(n, ",", "COUNT(c.a#)") + " FROM c WHERE " + repeated(n, " AND ", "c.b# = 1")
	}, 12_000, false},
	"IN":           {func(n int) string { return "SELECT * FROM c WHERE c.a IN (" + repeated(n, ",", "#") + ")" }, 60_000, false},
	"OR":           {func(n int) string { return "SELECT * FROM c WHERE " + repeated(n, " OR ", "c.a = #") }, 30_000, false},
	"OR of paths":  {func(n int) string { return "SELECT * FROM c WHERE " + repeated(n, " OR ", "c.a# = 1") }, 30_000, false},
	"AND of paths": {func(n int) string { return "SELECT * FROM c WHERE " + repeated(n, " AND ", "c.a# = 1") }, 30_000, false},
	"NOT of paths": {func(n int) string { return "SELECT * FROM c WHERE NOT (" + repeated(n, " AND ", "c.a# > 1") + ")" }, 30_000, false},
	"tests":        {func(n int) string { return "SELECT * FROM c WHERE " + repeated(n, " OR ", "CONTAINS(c.a#, 'x')") }, 18_000, false},
	"columns":      {func(n int) string { return "SELECT " + repeated(n, ",", "c.a#") + " FROM c" }, 45_000, false},
	"elements":     {func(n int) string { return "SELECT " + repeated(n, ",", "c.x[#]") + " FROM c" }, 30_000, false},
	"members of an element": {func(n int) string {
		return "SELECT * FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.x WHERE " + repeated(n, " AND ", "x.a#=1") + ")"
	}, 30_000, false},
	"cases of an order": {func(n int) string {
		return "SELECT * FROM c WHERE " + repeated(n, " AND ", "(c.a = # OR c.a > #)") + " ORDER BY c.a"
	}, 15_000, false},
	"values of an order": {func(n int) string {
		return "SELECT * FROM c WHERE c.a IN (" + repeated(n, ",", "#") + ") ORDER BY c.a"
	}, 60_000, false},
	"key cases": {func(n int) string {
		hundred := repeated(100, ",", "#")
		return "SELECT * FROM c WHERE " + repeated(n, " OR ", "(c.a IN ("+hundred+") AND c.b IN ("+hundred+"))")
	}, 600, false},
	"key conditions": {func(n int) string {
		return "SELECT * FROM c WHERE " + repeated(n, " AND ", "(c.a = # OR (c.a = #1 AND c.b = #))")
	}, 3_000, false},
}

// Texts as long as a client may send cost work in proportion to their length,
// whether they are answered or refused: a text twice as long allocates about
// twice as much memory in total, and not four times as much.
func TestHostileTexts(t *testing.T) {
	const slack = 4 << 20 // the part that does not depend on the length
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			half, whole := hostileWork(t, c.text(c.size/2), c.refused), hostileWork(t, c.text(c.size), c.refused)
			if whole > 3*half+slack {
				t.Errorf("%d bytes for half of the text, %d for all", half, whole)
			}
		})
	}
}

// hostileWork compiles a text, routes it and runs it, and returns how many bytes
// that allocated.
func hostileWork(t *testing.T, text string, refused bool) uint64 {
	t.Helper()
	d := partitionkey.Definition{Paths: []string{"/a", "/b"}, Kind: partitionkey.KindMultiHash}.Normalize()
	ix := newIndex(t)
	docs := list{newDocument(t, ix, 1, `{"_rid":"x","id":"1","a":5,"b":7,"x":[1,2,3]}`)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := Compile(text, nil, ix, Options{})
	if err == nil {
		p.Ranges(d)
		_, err = p.Run(t.Context(), docs, Budget{})
	}
	runtime.ReadMemStats(&after)
	if (err != nil) != refused {
		t.Errorf("%d bytes: got error %.200v", len(text), err)
	}
	if err != nil && len(err.Error()) > 8000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	return after.TotalAlloc - before.TotalAlloc
}

// Ten arrays joined with each other would practically never end: the query is
// refused after a fixed number of rows of one document, and cancelling the
// context ends it earlier.
func TestEndlessJoin(t *testing.T) {
	t.Parallel()
	docs := list{newDocument(t, nil, 1, `{"id":"1","x":[`+repeated(100, ",", "#")+`]}`)}
	for i, text := range []string{
		"SELECT VALUE 1 FROM c" + repeated(10, "", " JOIN a# IN c.x") + " WHERE a9 < 0",
		"SELECT VALUE COUNT(1) FROM c" + repeated(10, "", " JOIN a# IN c.x"),
		"SELECT VALUE (SELECT VALUE COUNT(1) FROM a IN c.x" + repeated(9, "", " JOIN a# IN c.x") + ") FROM c",
		"SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE 1 FROM a IN c.x" + repeated(9, "", " JOIN a# IN c.x") + " WHERE a8 < 0)",
	} {
		p := mustCompile(t, text)
		if i == 0 {
			_, err := p.Run(t.Context(), docs, Budget{})
			if e := status.From(err); e == nil || e.Code != status.CodeBadRequest || !strings.Contains(e.Message, fmt.Sprint(stepsMax)) {
				t.Errorf("%s: %v", text, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		looks := 0
		stopping := lookedAt{ctx, func() {
			if looks++; looks == 5 {
				cancel()
			}
		}}
		if _, err := p.Run(stopping, docs, Budget{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", text, err)
		}
		if looks > 8 {
			t.Errorf("%s: continued after cancellation, for %d checks", text, looks)
		}
	}
	// The limit is for one document.
	many := list{}
	for i := range 8 {
		many = append(many, newDocument(t, nil, uint64(i+1), `{"id":"1","x":[`+repeated(90, ",", "#")+`]}`))
	}
	p := mustCompile(t, "SELECT VALUE COUNT(1) FROM c"+repeated(3, "", " JOIN a# IN c.x"))
	rows, _, err := all(t.Context(), p, []list{many}, Budget{})
	if want := fmt.Sprint(8 * 90 * 90 * 90); err != nil || len(rows) != 1 || string(rows[0].JSON) != want {
		t.Errorf("rows %v, %v, want %s", rows, err, want)
	}
}

// laborious are conditions that take long on the values of one document.
var laborious = map[string]string{
	"any":          "ARRAY_CONTAINS_ANY(c.b," + repeated(200, ",", "'a#'") + ")",
	"all":          "ARRAY_CONTAINS_ALL(c.b," + strings.Repeat("19999,", 200) + "'a')",
	"texts":        "ARRAY_CONTAINS_ANY([c.s]," + repeated(200, ",", "CONCAT(LEFT(c.s, 19000), '#')") + ")",
	"arrays":       "ARRAY_CONTAINS_ANY([c.b]," + repeated(200, ",", "[c.b, #]") + ")",
	"part":         "ARRAY_CONTAINS([c.o], c.p, true)",
	"union":        "ARRAY_LENGTH(SetUnion(c.b, c.b)) = 0",
	"intersection": "ARRAY_LENGTH(SetIntersect(c.b, c.b)) = 0",
	"difference":   "ARRAY_LENGTH(SetDifference(c.b, c.b)) = 1",
	"equal sets":   "SetEqual(c.b, ARRAY_CONCAT(c.b, [-1]))",
	"any text":     "CONTAINS_ANY_CS(c.s," + repeated(100, ",", "'x#'") + ")",
	"all texts":    "CONTAINS_ALL_CI(c.s," + strings.Repeat("'a',", 100) + "'x')",
	"likeness":     "c.s LIKE '%" + strings.Repeat("a", 1000) + "b%'",
	"sets":         "c.s LIKE '%" + strings.Repeat("[^b]", 100) + "b%'",
	"patterns":     repeated(200, " OR ", "c.s LIKE CONCAT('#', c.s)"),
	"comparisons":  repeated(200, " OR ", "c.b = c.d"),
	"inequality":   "NOT (" + repeated(200, " AND ", "c.b = c.b") + ")",
	"long texts":   repeated(200, " OR ", "c.s = CONCAT(LEFT(c.s, 19000), '#')"),
	"among":        repeated(200, " OR ", "c.b IN (c.d, #)"),
	"members":      repeated(200, " OR ", "[c.o][0].x# = 1"),
	"concatenated": repeated(200, " OR ", "(c.s || c.s) = '#'"),
	"calls":        repeated(200, " OR ", "LOWER(c.s) = '#'"),
	"places":       repeated(200, " OR ", "c.b[#] = 'x' OR ARRAY_LENGTH(c.b) = -#") + " OR c.n.n.n.n.n = 1 OR ARRAY_LENGTH(c.n) = 1",
	"words":        "FullTextContainsAny(c.words," + repeated(200, ",", "'x#'") + ")",
	"regex":        "RegexMatch(c.s, 'b(a|b|ab)*c(a|b|ab)*c(a|b|ab)*c(a|b|ab)*c')",
	"regex of it":  repeated(100, " OR ", "RegexMatch(c.s, CONCAT(LEFT(c.s, #), 'b'))"),
	"repeats":      "RegexMatch(c.s, '(a?){900}b')",
	"extract":      "REGEXEXTRACT(c.s, '[ac]*bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb') = 'x'",
	"extract all":  "ARRAY_LENGTH(REGEXEXTRACTALL(c.s, 'a*b|a')) = 0",
	"constant":     "ARRAY_CONTAINS_ANY([" + repeated(20_000, ",", "#") + "]," + repeated(200, ",", "'a#'") + ") OR c.x = 1",
}

// Cancelling the context ends a condition while it evaluates the values of one
// document: the work done afterwards is less than the work between two checks.
func TestEndlessFunctions(t *testing.T) {
	t.Parallel()
	object := func(last string) string { return "{" + repeated(3000, ",", `"n#":#`) + `,"last":` + last + "}" }
	numbers := repeated(20_000, ",", "#")
	docs := list{newDocument(t, nil, 1, `{"id":"1","b":[`+numbers+`],"d":[`+numbers[:len(numbers)-1]+`],"s":"`+strings.Repeat("a", 20_000)+
		`","words":"`+strings.Repeat("word ", 20_000)+`","o":`+object("1")+`,"p":`+object("2")+`}`)}
	for name, text := range laborious {
		t.Run(name, func(t *testing.T) {
			p := mustCompile(t, "SELECT VALUE true FROM c WHERE "+text)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			looks := 0
			stopping := lookedAt{ctx, func() {
				if looks++; looks == 5 {
					cancel()
				}
			}}
			page, err := p.Run(stopping, docs, Budget{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%d rows and %v after %d looks", len(page.Rows), err, looks)
			}
			if looks > 6 {
				t.Errorf("continued after cancellation, for %d checks", looks)
			}
		})
	}
}

// lookedAt is a context that records each check for its end.
type lookedAt struct {
	context.Context
	look func()
}

func (c lookedAt) Err() error {
	c.look()
	return c.Context.Err()
}

// TestRangesOfVeryManyKeys checks that the keys of a filter with many cases are
// combined only up to a limit. Above it only the first level is used.
func TestRangesOfVeryManyKeys(t *testing.T) {
	t.Parallel()
	d := partitionkey.Definition{Paths: []string{"/a", "/b"}, Kind: partitionkey.KindMultiHash}.Normalize()
	of := func(filter string) int {
		return len(mustCompile(t, "SELECT * FROM c WHERE "+filter).Ranges(d))
	}
	hundred := repeated(100, ",", "#")
	if got := of("c.a IN (" + hundred + ") AND c.b IN (" + hundred + ")"); got != keysMax {
		t.Errorf("10,000 keys: %d ranges, want each key", got)
	}
	many := repeated(300, " OR ", "(c.a IN ("+hundred+") AND c.b IN (#1,"+hundred+"))")
	if got := of(many); got != 100 {
		t.Errorf("3,000,000 keys: %d ranges, want those of the first level", got)
	}
	if got := of(repeated(12_000, " OR ", "(c.a = # AND c.b = #)")); got > 12_000 || got == 0 {
		t.Errorf("12,000 keys one by one: %d ranges", got)
	}
}
