package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/index"
)

// bigIntegers are integers that doubles cannot tell from their neighbours, in ascending
// order.
var bigIntegers = []string{
	"-9223372036854775808", "-9223372036854775807", "-9007199254740993", "-9007199254740992", "0",
	"9007199254740992", "9007199254740993", "9007199254740994", "9223372036854775806", "9223372036854775807",
}

// TestIntegersOf64Bits shows that integers of 64 bits stay exact in stored documents,
// comparisons, the index, arithmetic, ORDER BY with pages, groups and aggregates, over one
// partition and several.
func TestIntegersOf64Bits(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	var docs list
	for i, n := range bigIntegers {
		docs = append(docs, newDocument(t, ix, uint64((i*7)%len(bigIntegers)+1), fmt.Sprintf(`{"id":"%d","n":%s,"list":[%s,1]}`, i, n, n)))
	}
	slices.SortFunc(docs, func(a, b document) int { return int(a.number) - int(b.number) })
	from := func(at int) string { return strings.Join(bigIntegers[at:], " ") }
	reversed := slices.Clone(bigIntegers)
	slices.Reverse(reversed)
	for query, want := range map[string]string{
		"SELECT VALUE c.n FROM c ORDER BY c.n":                                                               from(0),
		"SELECT VALUE c.n FROM c ORDER BY c.n DESC":                                                          strings.Join(reversed, " "),
		"SELECT VALUE c.n FROM c WHERE c.n > 9007199254740992 ORDER BY c.n":                                  from(6),
		"SELECT VALUE c.n FROM c WHERE c.n >= 9007199254740993 ORDER BY c.n":                                 from(6),
		"SELECT VALUE c.n FROM c WHERE c.n > 9007199254740993.0 ORDER BY c.n":                                from(6),
		"SELECT VALUE c.n FROM c WHERE c.n = 9007199254740993":                                               bigIntegers[6],
		"SELECT VALUE c.n FROM c WHERE c.n = 9007199254740993.0":                                             bigIntegers[5],
		"SELECT VALUE c.n FROM c WHERE c.n IN (9223372036854775806, 1)":                                      bigIntegers[8],
		"SELECT VALUE c.n FROM c WHERE c.n BETWEEN 9007199254740993 AND 9007199254740993":                    bigIntegers[6],
		"SELECT VALUE c.n FROM c WHERE c.n < -9223372036854775807":                                           bigIntegers[0],
		"SELECT VALUE c.n FROM c WHERE ARRAY_CONTAINS(c.list, 9223372036854775807)":                          bigIntegers[9],
		"SELECT VALUE c.n FROM c WHERE c.n + 1 = 9007199254740994":                                           bigIntegers[6],
		"SELECT VALUE c.n FROM c WHERE c.n % 10 = 3":                                                         bigIntegers[6],
		"SELECT VALUE c.n - 1 FROM c WHERE c.n = 9223372036854775807":                                        bigIntegers[8],
		"SELECT VALUE ToString(c.n) FROM c WHERE c.n = 9223372036854775807":                                  `"9223372036854775807"`,
		"SELECT VALUE IntAdd(c.n, -1) FROM c WHERE c.n = 9007199254740994":                                   bigIntegers[6],
		"SELECT VALUE MAX(c.n) FROM c":                                                                       bigIntegers[9],
		"SELECT VALUE MIN(c.n) FROM c":                                                                       bigIntegers[0],
		"SELECT VALUE MAX(c.n) FROM c WHERE c.n < 9007199254740994":                                          bigIntegers[6],
		"SELECT VALUE SUM(c.n) FROM c WHERE c.n IN (9007199254740993, 1)":                                    bigIntegers[6],
		"SELECT VALUE SUM(c.n) FROM c WHERE c.n IN (9007199254740993, -9007199254740992)":                    "1",
		"SELECT VALUE SUM(c.n) FROM c WHERE c.n IN (9223372036854775807, 0, -9223372036854775808)":           "-1",
		"SELECT VALUE AVG(c.n) FROM c WHERE c.n IN (9007199254740993, 9007199254740993.0, 9007199254740994)": bigIntegers[7],
		"SELECT VALUE COUNT(1) FROM c WHERE c.n = 9223372036854775806":                                       "1",
		"SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n":                                                      from(0),
		"SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.n FROM c)":                                      "10",
		"SELECT VALUE c.n FROM c WHERE c.n > 9007199254740993 GROUP BY c.n":                                  bigIntegers[9] + " " + bigIntegers[8] + " " + bigIntegers[7], // as first seen (F29)
	} {
		for _, ix := range []*index.Index{nil, ix} {
			p, err := Compile(query, nil, ix, Options{})
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			for _, parts := range []int{1, 3} {
				var all []Stream
				for _, part := range docs.split(parts) {
					all = append(all, func(ctx context.Context, b Budget) (Page, error) {
						if ix == nil {
							return p.Run(ctx, part, b)
						}
						return p.Run(ctx, indexed{part}, b)
					})
				}
				var got []string
				for at, more := (Progress{}), true; more; {
					page, next, err := p.Merge(all, at).Page(t.Context(), Budget{MaxItems: 2, MaxBytes: 1 << 20})
					if err != nil {
						t.Fatalf("%s: %v", query, err)
					}
					for _, row := range page.Rows {
						got = append(got, string(row.JSON))
					}
					at, more = next, page.More
				}
				if strings.Join(got, " ") != want {
					t.Errorf("%s, %d partitions, with an index %t: %v, want %s", query, parts, ix != nil, got, want)
				}
			}
		}
	}
}
