package querycmd

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestExplanationPrints prints the answer of the server about a query, with the rebuild
// of an index if there is one.
func TestExplanationPrints(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]string{
		``:                        "took         2.00 ms\n",
		`,"indexProgress":0`:      "rebuilt (0 % done)",
		`,"indexProgress":42`:     "rebuilt (42 % done)",
		`,"complete":false`:       "This is the first page",
		`,"indexHits":1`:          "read         3 documents, 1 of them found by the index\n",
		`,"estimatedDocuments":1`: "estimated    1 document\n",

		`,"indexes":{"UtilizedIndexes":{"SingleIndexes":[{"IndexSpec":"/a/?"}],"CompositeIndexes":[{"IndexSpecs":["/a ASC","/b DESC"]}]}}`: "indexes      /a/?, (/a ASC, /b DESC)\n",
		`,"indexes":{"PotentialIndexes":{"SingleIndexes":[{"IndexSpec":"/a/?","IndexImpactScore":"High"},{"IndexSpec":"/b/?"}]}}`:          "would help   /a/?, /b/?\n",
	} {
		var e explanation
		text := `{"text":"plan\n","partitions":{"total":2,"visited":[0],"ranges":["[,FF)"]},"retrievedDocuments":3,"returnedRows":1,"requestCharge":2.5,"milliseconds":2,"complete":true` + member + `}`
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := e.print(&out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s prints\n%s", member, out.String())
		}
		if rebuilt := strings.Contains(member, "Progress"); rebuilt != strings.Contains(out.String(), "rebuilt") {
			t.Errorf("%s prints\n%s", member, out.String())
		}
	}
}
