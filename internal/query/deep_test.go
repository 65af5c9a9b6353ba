package query

import (
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// nested returns arrays nested to the given depth.
func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

// TestDeepRows shows that rows nested more deeply than documents are returned
// unchanged, up to the depth that can be parsed. A query with deeper rows is refused.
func TestDeepRows(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	inside := nested(value.DepthMax - 1)
	docs := list{newDocument(t, ix, 1, `{"_rid":"r1","_ts":1,"v":`+inside+`}`)}
	whole := `{"_rid":"r1","_ts":1,"v":` + inside + `}`
	literal := nested(130)
	// Each LET makes the value deeper, but adds little to the text.
	deeper := "v4"
	for i := 4; i > 0; i-- {
		deeper = fmt.Sprintf("(LET v%d = %sv%d%s IN %s)", i, strings.Repeat("[", 300), i-1, strings.Repeat("]", 300), deeper)
	}
	deeper = "(LET v0 = c.v IN " + deeper + ")"
	rank := " FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'), FullTextScore(c.u, 'a'))"
	for text, want := range map[string]string{
		"SELECT DISTINCT c FROM c ORDER BY c._ts":                     `{"c":` + whole + `}`,
		"SELECT DISTINCT VALUE " + literal + " FROM c ORDER BY c._ts": literal,
		"SELECT c" + rank:                `{"c":` + whole + `}`,
		"SELECT VALUE [c]" + rank:        `[` + whole + `]`,
		"SELECT VALUE " + literal + rank: literal,
		"SELECT VALUE x.v FROM (SELECT " + literal + " AS v, COUNT(1) AS n FROM c) x":                 literal,
		"SELECT VALUE [x] FROM (SELECT c.v, COUNT(1) AS n FROM c GROUP BY c.v) x":                     `[{"v":` + inside + `,"n":1}]`,
		"SELECT VALUE x.v[0] FROM (SELECT DISTINCT VALUE {v: [c]} FROM c) x WHERE x.v = [x.v[0]]":     whole,
		"SELECT DISTINCT VALUE " + deeper + " FROM c ORDER BY c._ts":                                  "refused",
		"SELECT VALUE " + deeper + rank:                                                               "refused",
		"SELECT VALUE x.v = 1 FROM (SELECT " + deeper + " AS v, COUNT(1) AS n FROM c GROUP BY c.v) x": "refused",
	} {
		p, err := Compile(text, nil, ix, Options{})
		if err != nil {
			t.Errorf("%.60s: %v", text, err)
			continue
		}
		rows, _, err := all(t.Context(), p, []list{docs, nil}, Budget{MaxBytes: 1 << 20})
		switch {
		case want == "refused":
			if status.CodeOf(err) != status.CodeBadRequest || !strings.Contains(err.Error(), "more than 1024 nested arrays and objects") {
				t.Errorf("%.60s: %d rows, %v", text, len(rows), err)
			}
		case err != nil || len(rows) != 1 || string(rows[0].JSON) != want:
			t.Errorf("%.60s: %d rows, %v", text, len(rows), err)
		}
	}
}

// TestLongHybrid shows that the limit of a query's length applies to the text
// that a client sends, and not to the longer queries that a fusion consists of.
func TestLongHybrid(t *testing.T) {
	t.Parallel()
	vector := "[" + strings.Repeat("0.12345678901234567,", 4095) + "1]"
	scores := make([]string, 4)
	for i := range scores {
		scores[i] = fmt.Sprintf("VectorDistance(c.v%d, %s)", i, vector)
	}
	text := "SELECT VALUE c.id FROM c ORDER BY RANK RRF(" + strings.Join(scores, ", ") + ")"
	p := mustCompile(t, text)
	docs := list{newDocument(t, nil, 1, `{"_rid":"r1","id":"one","v0":`+vector+`}`)}
	rows, _, err := all(t.Context(), p, []list{docs}, Budget{MaxBytes: 1 << 20})
	if err != nil || len(rows) != 1 || string(rows[0].JSON) != `"one"` {
		t.Errorf("%d rows of a text of %d bytes: %.200v", len(rows), len(text), err)
	}
	_, err = Compile(text+strings.Repeat(" ", 512<<10-len(text)+1), nil, nil, Options{})
	if status.CodeOf(err) != status.CodeBadRequest {
		t.Errorf("a text beyond the limit: %v", err)
	}
}
