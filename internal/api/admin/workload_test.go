package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// TestWorkload records queries without their values, writes and reads, within its bounds,
// and only between its beginning and its end.
func TestWorkload(t *testing.T) {
	t.Parallel()
	door, e := newDoor(t, nil)
	const at = "/workload?database=d&container=c"
	walk(t, door, []step{
		{"POST", "/containers?database=d&partitions=4", `{"id":"c","partitionKey":{"paths":["/t"]}}`, 201, nil},
		{"DELETE", at, "", 404, []string{"not being recorded"}},
		{"POST", "/workload", "", 400, []string{"Give the container"}},
		{"POST", "/workload?database=d&container=none", "", 404, nil},
		{"GET", at, "", 405, nil},
	})
	link := engine.Link{Database: "d", Container: "c"}
	work := func(i int) {
		body := parse(t, fmt.Sprintf(`{"id":"%d","t":"secret%d"}`, i, i))
		if _, err := e.Create(t.Context(), auth.Owner(), engine.DocumentRequest{Link: link, Document: body}); err != nil {
			t.Fatal(err)
		}
		ask := func(text string, params ...query.Param) {
			if _, err := e.Query(t.Context(), auth.Owner(), engine.QueryRequest{Link: link, Text: text, Params: params, Cross: true, Full: true}); err != nil {
				t.Fatal(err)
			}
		}
		ask("SELECT * FROM c WHERE c.t = @t", query.Param{Name: "@t", Value: value.String(fmt.Sprint("secret", i))})
		ask(fmt.Sprintf("SELECT * FROM c WHERE c.t = 'secret%d'", i))
		// A client that merges itself asks each of the partitions: one query.
		for id := range resource.PartitionID(4) {
			if _, err := e.Query(t.Context(), auth.Owner(), engine.QueryRequest{Link: link, Text: "SELECT * FROM c ORDER BY c.x", Partition: &id}); err != nil {
				t.Fatal(err)
			}
		}
	}
	work(1)
	walk(t, door, []step{
		{"POST", at, "", 204, nil},
		{"POST", at, "", 409, []string{"end that recording first"}},
	})
	work(2)
	work(3)
	answer, content := call(t, door, "DELETE", at, "", "x-decan-key", auth.WellKnownKey)
	if answer.StatusCode != 200 || strings.Contains(content, "secret") {
		t.Errorf("%d %s", answer.StatusCode, content)
	}
	got := parse(t, content)
	seconds := got.Get("seconds").Float()
	times := func(perSecond value.Value) int { return int(perSecond.Float()*seconds + 0.5) }
	if times(got.Get("writesPerSecond")) != 2 || len(got.Get("queries").Items()) != 3 || got.Get("leftOut").Float() != 0 {
		t.Errorf("2 writes and 3 queries: %s", content)
	}
	for _, q := range got.Get("queries").Items() {
		if times(q.Get("perSecond")) != 2 {
			t.Errorf("2 executions: %s", q.JSON())
		}
		for _, p := range q.Get("parameters").Items() {
			if p.Get("path").Text() != "/t" {
				t.Errorf("the path of a parameter: %s", q.JSON())
			}
		}
	}
}
