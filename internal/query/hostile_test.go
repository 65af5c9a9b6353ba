package query

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

// Texts as long as a client may send cost time in proportion to their length,
// whether they are answered or refused. The limit is far above what that takes,
// and far below what a look at all pairs would.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	d := partitionkey.Definition{Paths: []string{"/a", "/b"}, Kind: partitionkey.KindMultiHash}.Normalize()
	ix := newIndex(t)
	docs := list{newDocument(t, ix, 1, `{"_rid":"x","id":"1","a":5,"b":7,"x":[1,2,3]}`)}
	hundred := repeated(100, ",", "#")
	for name, c := range map[string]struct {
		text    string
		refused bool
	}{
		"parentheses":    {"SELECT * FROM c WHERE " + strings.Repeat("(", 10_000) + "1=1" + strings.Repeat(")", 10_000), true},
		"open":           {"SELECT * FROM c WHERE " + strings.Repeat("(", 500_000), true},
		"signs":          {"SELECT * FROM c WHERE " + strings.Repeat("- ", 200_000) + "1", true},
		"NOT":            {"SELECT * FROM c WHERE " + strings.Repeat("NOT ", 100_000) + "true", true},
		"members":        {"SELECT * FROM c WHERE c" + strings.Repeat(".a", 200_000), true},
		"calls":          {"SELECT * FROM c WHERE " + strings.Repeat("ABS(", 50_000), true},
		"subqueries":     {"SELECT * FROM c WHERE " + strings.Repeat("(SELECT VALUE ", 30_000), true},
		"FROM":           {"SELECT * FROM " + strings.Repeat("(SELECT * FROM ", 30_000), true},
		"JOIN":           {"SELECT c.id FROM c " + repeated(20_000, " ", "JOIN a# IN c.x"), true},
		"IN":             {"SELECT * FROM c WHERE c.a IN (" + repeated(60_000, ",", "#") + ")", false},
		"OR":             {"SELECT * FROM c WHERE " + repeated(30_000, " OR ", "c.a = #"), false},
		"OR of paths":    {"SELECT * FROM c WHERE " + repeated(30_000, " OR ", "c.a# = 1"), false},
		"AND of paths":   {"SELECT * FROM c WHERE " + repeated(30_000, " AND ", "c.a# = 1"), false},
		"columns":        {"SELECT " + repeated(45_000, ",", "c.a#") + " FROM c", false},
		"elements":       {"SELECT " + repeated(30_000, ",", "c.x[#]") + " FROM c", false},
		"key cases":      {"SELECT * FROM c WHERE " + repeated(600, " OR ", "(c.a IN ("+hundred+") AND c.b IN ("+hundred+"))"), false},
		"key conditions": {"SELECT * FROM c WHERE " + repeated(3_000, " AND ", "(c.a = # OR (c.a = #1 AND c.b = #))"), false},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			p, err := Compile(c.text, nil, ix, Options{})
			if err == nil {
				p.Ranges(d)
				_, err = p.Run(t.Context(), docs, Budget{})
			}
			if took := time.Since(start); took > limit {
				t.Errorf("%d bytes took %v", len(c.text), took)
			}
			if (err != nil) != c.refused {
				t.Errorf("got error %.200v", err)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// However many cases a filter has, the keys that it stands for are combined
// only as far as they stay few; behind that the first level alone counts.
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
