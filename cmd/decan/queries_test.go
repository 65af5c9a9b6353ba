package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/decandb/decan/cmd/decan/internal/console"
)

// TestQueriesTable shows the table of running queries, and cancels one.
func TestQueriesTable(t *testing.T) {
	t.Parallel()
	const answer = `{"queries":[
{"id":"17","database":"shop","container":"orders","operation":"query","caller":"master","state":"running","seconds":12.34,"processorSeconds":20.06,"partitions":3,"documents":1234567,"requestCharge":4000.5},
{"id":"23","database":"","container":"","operation":"change feed page","caller":"bearer","state":"waiting","seconds":1,"processorSeconds":0,"partitions":1,"documents":0,"requestCharge":0}]}`
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked = r.Method + " " + r.URL.Path; r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	run := func(want, wantAsked string, args ...string) {
		t.Helper()
		var out, faults bytes.Buffer
		if code := run(append(append([]string{"queries"}, args...), "--admin", server.URL), console.Streams{Out: &out, Err: &faults}); code != 0 {
			t.Errorf("%v: exit code %d: %s", args, code, &faults)
		}
		if out.String() != want || asked != wantAsked {
			t.Errorf("%v: asked %q, got\n%s\nwant\n%s", args, asked, &out, want)
		}
	}
	const table = `id     operation        state    caller    seconds processor partitions    documents           RU  container
17     query            running  master       12.3      20.1          3    1,234,567        4,001  shop/orders
23     change feed page waiting  bearer        1.0       0.0          1            0            0  (deleted)
`
	run(table, "GET /queries")
	run(table, "GET /queries", "list")
	run(answer+"\n", "GET /queries", "list", "--json")
	run("Query 17 is cancelled.\n", "DELETE /queries/17", "cancel", "17")
}
