package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/engine"
)

// searchable fills a container of four partitions with indexed vectors and
// texts.
func searchable(t *testing.T, w *world, documents int) engine.Link {
	t.Helper()
	ctx := t.Context()
	if _, err := w.CreateDatabase(ctx, caller, engine.DatabaseRequest{Body: parse(t, `{"id":"d"}`)}); err != nil {
		t.Fatal(err)
	}
	body := `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
		"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"float32","dimensions":4,"distanceFunction":"euclidean"}]},
		"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/text"}]},
		"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/v/*"}],"vectorIndexes":[{"path":"/v","type":"diskANN"}],"fullTextIndexes":[{"path":"/text"}]}}`
	if _, err := w.CreateContainer(ctx, caller, engine.ContainerRequest{Link: engine.Link{Database: "d"}, Body: parse(t, body), Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	link := engine.Link{Database: "d", Container: "c"}
	random := rand.New(rand.NewPCG(2026, 1))
	for i := range documents {
		text := "a stone in the river"
		if i%100 == 0 {
			text = "a boat on the river"
		}
		w.create(t, link, fmt.Sprintf(`{"id":"%d","pk":%d,"n":%d,"text":%q,"v":[%.3f,%.3f,%.3f,%.3f]}`,
			i, i, i%10, text, random.NormFloat64(), random.NormFloat64(), random.NormFloat64(), random.NormFloat64()))
	}
	return link
}

// TestSearchesReadTheirIndexes compares searches over several partitions with
// queries that read all documents, and checks how many documents they read.
func TestSearchesReadTheirIndexes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const documents = 4800
	link := searchable(t, w, documents)
	distance := func(how string) string { return "VectorDistance(c.v, [0.5, -0.25, 1, 0]" + how + ")" }
	for _, c := range []struct {
		text, unindexed string // the same query in a form that no index supports
		most            int64  // documents read
		explained       string
	}{
		{"SELECT TOP 10 c.id, %[1]s AS d FROM c ORDER BY %[1]s", "SELECT TOP 10 c.id, %[1]s AS d FROM c ORDER BY %[2]s", 40, "or find nearest to a vector at /v by euclidean, among 50 approximate matches\n"},
		{"SELECT VALUE c.id FROM c WHERE c.n = 3 ORDER BY %[1]s OFFSET 2 LIMIT 5", "SELECT VALUE c.id FROM c WHERE c.n = 3 ORDER BY %[2]s OFFSET 2 LIMIT 5", 28, "or find nearest"},
		{"SELECT TOP 10 VALUE c.id FROM c WHERE c.n * 2 = 6 ORDER BY %[1]s", "SELECT TOP 10 VALUE c.id FROM c WHERE c.n * 2 = 6 ORDER BY %[2]s", 1000, "or find nearest"},
		{`SELECT TOP 10 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.text, "boat")`, "", 50, "or read alone documents with a word\n"},
		{`SELECT TOP 10 VALUE c.id FROM c ORDER BY RANK RRF(FullTextScore(c.text, "boat"), %[1]s)`, "", 4*2*120 + 100, "or find nearest"},
	} {
		text := c.text
		if strings.Contains(text, "%[1]s") {
			text = fmt.Sprintf(c.text, distance(""))
		}
		page, err := w.Query(t.Context(), caller, engine.QueryRequest{Link: link, Text: text, Cross: true, Full: true})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if page.Stats.Retrieved > c.most || page.Stats.IndexHits == 0 {
			t.Errorf("%s: read %d documents, of which %d by an index, want at most %d", text, page.Stats.Retrieved, page.Stats.IndexHits, c.most)
		}
		row := w.explained(t, link, text)
		if got := row.Get("text").Text(); !strings.Contains(got, c.explained) {
			t.Errorf("%s: explained as\n%s", text, got)
		}
		if n, _ := row.Get("estimatedDocuments").Int64(); n < 1 || n > c.most {
			t.Errorf("%s: estimated %d, want at most %d", text, n, c.most)
		}
		if c.unindexed == "" {
			continue
		}
		plain := c.unindexed
		if strings.Contains(plain, "%[2]s") {
			plain = strings.ReplaceAll(plain, "%[1]s", distance(""))
			plain = strings.ReplaceAll(plain, "%[2]s", `VectorDistance([0.5, -0.25, 1, 0], (SELECT VALUE c["v"]), true, {distanceFunction: "euclidean"})`)
		}
		want, err := w.Query(t.Context(), caller, engine.QueryRequest{Link: link, Text: plain, Cross: true, Full: true})
		if err != nil {
			t.Fatalf("%s: %v", plain, err)
		}
		if want.Stats.Retrieved < documents/10 {
			t.Errorf("%s read %d documents only", plain, want.Stats.Retrieved)
		}
		if !slices.EqualFunc(page.Rows, want.Rows, func(a, b []byte) bool { return string(a) == string(b) }) {
			t.Errorf("%s:\n%s, want\n%s", text, page.Rows, want.Rows)
		}
	}
}
