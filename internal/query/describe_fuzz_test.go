package query

import (
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// FuzzDescribe describes every query that compiles. The text for clients must compile
// too, and must be a query that needs no further merge.
func FuzzDescribe(f *testing.F) {
	for _, text := range clientShapes {
		f.Add(text)
	}
	for _, text := range []string{
		`SELECT TOP 3 * FROM c ORDER BY RANK FullTextScore(c.t, "a", @p)`,
		`SELECT VALUE c.id FROM c WHERE c.x = -@n ORDER BY RANK RRF(FullTextScore(c.t, ["a"]), VectorDistance(c.v, [1, @n]), [1, 2]) OFFSET 1 LIMIT @n`,
		`SELECT c["a b"], c.x ?? 1, {"y": c.y} FROM root c WHERE c.x IN (1, 2) OR NOT c.y ORDER BY c["a b"]`,
		`SELECT DISTINCT TOP @n VALUE [c.x, (SELECT VALUE COUNT(1) FROM t IN c.tags)] FROM c`,
		`SELECT (SELECT VALUE 1), COUNT(1) FROM c JOIN (SELECT VALUE t FROM t IN c.tags) s GROUP BY s`,
	} {
		f.Add(text)
	}
	params := []Param{{Name: "@n", Value: value.Int(3)}, {Name: "@p", Value: value.String("p")}}
	def := partitionkey.Definition{Paths: []string{"/id"}}.Normalize()
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Compile(text, params, nil, Options{})
		if err != nil {
			return
		}
		_ = p.Explain().String()
		_ = p.Indexes().Value()
		err = p.Describable(def)
		plan := p.Describe(def)
		if err != nil {
			return
		}
		for _, rewritten := range rewrittenTexts(plan) {
			rewritten = hybridTexts.Replace(rewritten)
			again, err := Compile(rewritten, params, nil, Options{})
			if err != nil && !tooLarge(err) {
				t.Fatalf("%s\nbecomes %s\n%v", text, rewritten, err)
			}
			if err == nil && again.query.Rank {
				t.Fatalf("%s\nbecomes %s, which is a ranking", text, rewritten)
			}
		}
	})
}

// tooLarge reports whether an error names a limit that a rewritten text may reach
// when the original does not.
func tooLarge(err error) bool {
	return strings.Contains(err.Error(), "limit") || strings.Contains(err.Error(), "deep") || strings.Contains(err.Error(), "nest")
}

// hybridTexts fills the placeholders of rewritten texts.
var hybridTexts = strings.NewReplacer(
	filterPlaceholder, "true", documentsPlaceholder, "7",
	fmt.Sprintf(wordsPlaceholder, 0), "70", fmt.Sprintf(hitsPlaceholder, 0), "[1,2]",
	fmt.Sprintf(wordsPlaceholder, 1), "70", fmt.Sprintf(hitsPlaceholder, 1), "[1,2]",
)

// rewrittenTexts are all texts of a plan that clients send.
func rewrittenTexts(plan value.Value) []string {
	list := []string{plan.Get("queryInfo").Get("rewrittenQuery").Text(), plan.Get("hybridSearchQueryInfo").Get("globalStatisticsQuery").Text()}
	for _, info := range plan.Get("hybridSearchQueryInfo").Get("componentQueryInfos").Items() {
		list = append(list, info.Get("rewrittenQuery").Text())
	}
	var out []string
	for _, text := range list {
		if text != "" && !strings.Contains(hybridTexts.Replace(text), "{documentdb") {
			out = append(out, text)
		}
	}
	return out
}

// FuzzDateTimeFormat formats one time with any format.
func FuzzDateTimeFormat(f *testing.F) {
	for _, format := range []string{"yyyy-MM-ddTHH:mm:ss.fffffffK", "'a' \"b\" \\c dddd MMMM tt zzz F", "ffffffff", "\\", "'", "yyyyyyyyyyyyyyyy"} {
		f.Add(format)
	}
	f.Fuzz(func(t *testing.T, format string) {
		e := newEnv()
		v := dateTimeFormat(e, []value.Value{value.String("2024-02-29T01:02:03.4567891Z"), value.String(format)})
		if v.IsDefined() && v.Len() > 3*len(format) {
			t.Fatalf("%q of %d bytes gives %d", format, len(format), v.Len())
		}
	})
}
