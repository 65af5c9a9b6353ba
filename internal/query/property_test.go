package query

import (
	"reflect"
	"testing"

	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// TestParameterProperty compares queries that name a property by a parameter, as
// LangChain and LlamaIndex do, with those that write its name: the index, the routing and
// the order are the same.
func TestParameterProperty(t *testing.T) {
	t.Parallel()
	ix := containerIndex(t, `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
		"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/hidden/?"}],"fullTextIndexes":[{"path":"/text"}],"vectorIndexes":[{"path":"/e","type":"flat"}]},
		"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/text","language":"en-US"}]},
		"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/e","dataType":"float32","dimensions":2,"distanceFunction":"cosine"}]}}`)
	params := []Param{{Name: "@pk", Value: value.String("pk")}, {Name: "@n", Value: value.String("n")}, {Name: "@text", Value: value.String("text")}, {Name: "@e", Value: value.String("e")}}
	key := partitionkey.Definition{Paths: []string{"/pk"}}.Normalize()
	for _, c := range []struct{ named, written string }{
		{"SELECT * FROM c WHERE c[@n] > 1", "SELECT * FROM c WHERE c.n > 1"},
		{"SELECT * FROM c WHERE c[@pk] = 'a' AND c[@n] IN (1, 2)", "SELECT * FROM c WHERE c.pk = 'a' AND c.n IN (1, 2)"},
		{"SELECT * FROM c WHERE FullTextContains(c[@text], 'cat')", "SELECT * FROM c WHERE FullTextContains(c.text, 'cat')"},
		{"SELECT * FROM c ORDER BY c[@n]", "SELECT * FROM c ORDER BY c.n"},
		{"SELECT c[@n] AS n, COUNT(1) AS k FROM c GROUP BY c[@n]", "SELECT c.n AS n, COUNT(1) AS k FROM c GROUP BY c.n"},
		{"SELECT TOP 3 * FROM c ORDER BY VectorDistance(c[@e], [1, 0])", "SELECT TOP 3 * FROM c ORDER BY VectorDistance(c.e, [1, 0])"},
		{"SELECT TOP 3 * FROM c ORDER BY RANK RRF(FullTextScore(c[@text], 'cat'), VectorDistance(c[@e], [1, 0]))", "SELECT TOP 3 * FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'cat'), VectorDistance(c.e, [1, 0]))"},
	} {
		var plans [2]*Plan
		for i, text := range []string{c.named, c.written} {
			p, err := Compile(text, params, ix, Options{})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			plans[i] = p
		}
		named, written := plans[0], plans[1]
		if !reflect.DeepEqual(named.Access(), written.Access()) {
			t.Errorf("%s asks the index for %v, not %v", c.named, named.Access(), written.Access())
		}
		if got, want := named.Ranges(key), written.Ranges(key); !reflect.DeepEqual(got, want) {
			t.Errorf("%s visits %v, not %v", c.named, got, want)
		}
		if (named.order == nil) != (written.order == nil) || named.order != nil && !reflect.DeepEqual(named.order.index, written.order.index) {
			t.Errorf("%s has another order", c.named)
		}
	}
	if _, err := Compile("SELECT * FROM c ORDER BY c[@p]", []Param{{Name: "@p", Value: value.String("hidden")}}, ix, Options{}); err == nil {
		t.Error("an excluded path is accepted in ORDER BY")
	}
}
