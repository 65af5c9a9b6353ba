package query

import (
	"fmt"
	"strings"
	"testing"
)

// TestUnusableVectorsComeLast orders by the distance to documents whose property is no
// vector of two numbers: they follow all others, for each distance function, with TOP,
// OFFSET and neither, over one partition and several.
func TestUnusableVectorsComeLast(t *testing.T) {
	t.Parallel()
	var docs list
	for i, v := range []string{`"x"`, "[1,0]", "null", "[1,0,0]", "[0,1]", "[]", `[1,"a"]`, "{}", "[1e300,0]", "[2,2]", ""} {
		body := fmt.Sprintf(`{"id":"%d"`, i)
		if v != "" {
			body += `,"v":` + v
		}
		docs = append(docs, newDocument(t, nil, uint64(i+1), body+"}"))
	}
	for distance, want := range map[string]string{"cosine": "1 9 4", "dotproduct": "9 1 4", "euclidean": "1 4 9"} {
		for _, limit := range []string{"", " OFFSET 0 LIMIT 11", " OFFSET 0 LIMIT 3"} {
			for _, parts := range []int{1, 3} {
				p := mustCompile(t, fmt.Sprintf(`SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.v, [1, 0.1], false, {distanceFunction: "%s"})%s`, distance, limit))
				rows, _, err := all(t.Context(), p, docs.split(parts), Budget{MaxItems: 4})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, row := range rows {
					got = append(got, strings.Trim(string(row.JSON), `"`))
				}
				if most := 11; limit == " OFFSET 0 LIMIT 3" {
					most = 3
					if len(got) != most {
						t.Errorf("%s%s: %v", distance, limit, got)
					}
				} else if len(got) != most {
					t.Errorf("%s%s: %d rows", distance, limit, len(got))
				}
				if first := strings.Join(got[:min(3, len(got))], " "); first != want {
					t.Errorf("%s%s over %d partitions begins with %s, want %s", distance, limit, parts, first, want)
				}
			}
		}
	}
}
