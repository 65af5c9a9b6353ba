package server

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
)

// TestMetricsAreListed compares the metrics of a server that has served requests
// with the list in docs/operating.md, in both directions.
func TestMetricsAreListed(t *testing.T) {
	t.Parallel()
	s := start(t, direct(cassandra(Config{})))
	if r := call(t, s, "POST", "dbs", `{"id":"d"}`); r.Status != 201 {
		t.Fatalf("got %d %s", r.Status, r.Body)
	}
	if r := call(t, s, "POST", "dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`); r.Status != 201 {
		t.Fatalf("got %d %s", r.Status, r.Body)
	}
	// Metrics of partitions exist once one is open.
	if r := call(t, s, "POST", "dbs/d/colls/c/docs", `{"id":"1","pk":"a"}`, "x-ms-documentdb-partitionkey", `["a"]`); r.Status != 201 {
		t.Fatalf("got %d %s", r.Status, r.Body)
	}
	// Metrics by kind exist once there was one of that kind.
	failsCQL(t, cqlClient(t, s, s.Key()), "SELECT", frame.CodeSyntax, "no viable alternative")
	if c, err := rntbdtest.Dial(s.DirectAddress(), nil); err == nil {
		c.Close()
		t.Error("a client without TLS is served")
	}
	resp, err := http.Get(s.AdminEndpoint() + "metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	served, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	names := func(pattern string, text []byte) []string {
		var found []string
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			found = append(found, string(match[1]))
		}
		slices.Sort(found)
		return found
	}
	got := names(`(?m)^# TYPE (decan_\w+) `, served)
	want := names("(?m)^\\| `(decan_\\w+)", page)
	if !slices.Equal(got, want) {
		t.Errorf("served %q, docs/operating.md lists %q", got, want)
	}
}
