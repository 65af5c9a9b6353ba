package admin_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
)

// TestAdvise compares keys on a sample of a container: proposed ones, and given ones with
// the present key among them, with the limits and the indexing policy of the container.
// It needs an account key that may write, and refuses what would not be simulated.
func TestAdvise(t *testing.T) {
	t.Parallel()
	door, e := newDoor(t, nil)
	const at = "/advise?database=d&container=c"
	walk(t, door, []step{
		{"GET", "/", "", 200, []string{`"path":"POST /advise?database=D\u0026container=C"`}},
		{"POST", "/containers?database=d&partitions=4", `{"id":"c","partitionKey":{"paths":["/t"]}}`, 201, nil},
		{"POST", at, "", 400, []string{"The sample has no documents"}},
		{"POST", "/advise", "{}", 400, []string{"Give the container"}},
		{"POST", "/advise?database=d&container=none", "{}", 404, nil},
		{"GET", at, "", 405, nil},
		{"POST", at, `{"sampel":1}`, 400, []string{`unknown field \"sampel\"`}},
		{"POST", at, `{"workload":{"documents":1.5}}`, 400, []string{"The body is not valid"}},
		{"POST", at, `{} {}`, 400, []string{"more than one JSON value"}},
		{"POST", at, `{"sample":5001}`, 400, []string{"1 to 5000 documents"}},
		{"POST", at, `{"sample":-1}`, 400, []string{"1 to 5000 documents"}},
		{"POST", at, `{"candidates":[` + strings.Repeat(`["/t"],`, 40) + `["/t"]]}`, 400, []string{"41 candidates"}},
		{"POST", at, `{"workload":{"queries":[` + strings.Repeat(`{"query":"SELECT 1"},`, 100) + `{"query":"SELECT 1"}]}}`, 400, []string{"101 queries"}},
	})
	link := engine.Link{Database: "d", Container: "c"}
	for i := range 240 {
		body := parse(t, fmt.Sprintf(`{"id":"%d","t":"t%d","u":"u%d","text":"%0100d"}`, i, i%40, i%120, i))
		if _, err := e.Create(t.Context(), auth.Owner(), engine.DocumentRequest{Link: link, Document: body}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.ChangeLimits(t.Context(), auth.Owner(), link, func(own *resource.OwnLimits) error {
		own.LogicalPartitionBytes = 16384
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	ask := func(body string) string {
		t.Helper()
		answer, content := call(t, door, "POST", at, body, "x-decan-key", auth.WellKnownKey)
		if answer.StatusCode != 200 {
			t.Fatalf("%s: %d %s", body, answer.StatusCode, content)
		}
		return content
	}
	has := func(content string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(content, w) {
				t.Errorf("%s is missing in %s", w, content)
			}
		}
	}

	// Proposed keys, on all documents and on a sample.
	all := ask("")
	has(all, `"present":["/t"]`, `"documents":240`, `"sampled":240`, `"logicalBytes":16384`, `"proposal":[{`)
	if charge := parse(t, all).Get("requestCharge").Float(); charge <= 0 {
		t.Errorf("the charge of the sample is %v", charge)
	}
	few := parse(t, ask(`{"sample":60}`)).Get("advice")
	if n := few.Get("sampled").Float(); n < 60 || n > 64 || few.Get("documents").Float() != 240 {
		t.Errorf("60 documents of 240, some more since each partition rounds up: %s", few.JSON())
	}

	// Given keys: the present one is compared with them. A document has some 150 bytes, so
	// six tenths of them are more than a key of the container may have.
	given := parse(t, ask(`{"candidates":[["/t","/u"]],"workload":{"writesPerSecond":5,"largest":{"/t":0.6},"growth":[3],"queries":[{"query":"SELECT * FROM c WHERE c.u = @u","parameters":[{"name":"@u","path":"/u"}],"perSecond":1}]}}`))
	list := given.Get("advice").Get("candidates").Items()
	if len(list) != 2 || list[0].Get("paths").JSON() != `["/t","/u"]` || list[1].Get("paths").JSON() != `["/t"]` {
		t.Fatalf("two candidates, the narrower first: %s", given.JSON())
	}
	has(list[1].JSON(), "Writes to it are refused (403) from 16 KB")
	has(list[0].JSON(), `"route":"fan-out"`, `"growth":[{"factor":3,`)

	walk(t, door, []step{
		{"POST", at, `{"candidates":[["t"]]}`, 400, nil},
		{"POST", at, `{"candidates":[["/a","/b","/c","/d"]]}`, 400, []string{"A maximum of 3"}},
		{"POST", at, `{"workload":{"growth":[0.5]}}`, 400, []string{"growth"}},
		{"POST", at, `{"workload":{"queries":[{"query":"SELEC"}]}}`, 400, []string{"is not valid"}},
	})
	keys, err := e.AccountKeys(t.Context(), auth.Owner())
	if err != nil {
		t.Fatal(err)
	}
	if answer, content := call(t, door, "POST", at, "", "x-decan-key", keys.PrimaryReadonly); answer.StatusCode != 403 {
		t.Errorf("with a read-only key: %d %s", answer.StatusCode, content)
	}
}

// TestAdvised compares what the advisor predicts for the present key of a container with
// what the engine does: for every query the partitions that it asks, exactly, and its
// charge within a hundredth, whether documents are read or the index answers alone
// (S47 to S54).
func TestAdvised(t *testing.T) {
	t.Parallel()
	door, e := newDoor(t, nil)
	const documents = 1200
	walk(t, door, []step{{"POST", "/containers?database=d&partitions=4", `{"id":"c","partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2}}`, 201, nil}})
	link := engine.Link{Database: "d", Container: "c"}
	for i := range documents {
		body := parse(t, fmt.Sprintf(`{"id":"%d","tenant":"t%d","user":"u%d","kind":"%s","amount":%d,"day":%d,"text":"%0200d"}`, i, i%30, i%400, []string{"click", "view", "buy"}[i%3], i*37%1000, i%25, i))
		if _, err := e.Create(t.Context(), auth.Owner(), engine.DocumentRequest{Link: link, Document: body}); err != nil {
			t.Fatal(err)
		}
	}
	texts := []string{
		"SELECT * FROM c WHERE c.tenant = 't3' AND c.user = 'u33'",
		"SELECT * FROM c WHERE c.tenant = 't3'",
		"SELECT * FROM c WHERE c.user = 'u33'",
		"SELECT c.id FROM c WHERE c.amount > 900",
		"SELECT VALUE COUNT(1) FROM c",
		"SELECT VALUE COUNT(1) FROM c WHERE c.tenant = 't3'",
		"SELECT VALUE COUNT(1) FROM c WHERE c.kind = 'buy'",
		"SELECT VALUE COUNT(1) FROM c WHERE c.kind = 'buy' AND c.amount > 500",
		"SELECT COUNT(c.kind) AS n, MIN(c.amount) AS low, MAX(c.amount) AS high FROM c",
		"SELECT VALUE SUM(c.amount) FROM c",
		"SELECT VALUE AVG(c.day) FROM c WHERE c.amount > 400",
		"SELECT c.kind, COUNT(1) AS n FROM c GROUP BY c.kind",
		"SELECT c.day, COUNT(1) AS n FROM c WHERE c.day < 10 GROUP BY c.day",
		"SELECT DISTINCT VALUE c.day FROM c",
		"SELECT c.kind, SUM(c.amount) AS s FROM c GROUP BY c.kind", // of two places: documents are read
		"SELECT c.day, COUNT(1) AS n FROM c WHERE c.tenant = 't3' GROUP BY c.day",
	}
	var list []string
	for _, text := range texts {
		list = append(list, fmt.Sprintf(`{"query":%q,"perSecond":1}`, text))
	}
	answer, content := call(t, door, "POST", "/advise?database=d&container=c", `{"sample":5000,"candidates":[["/tenant","/user"]],"workload":{"throughput":24000,"queries":[`+strings.Join(list, ",")+`]}}`, "x-decan-key", auth.WellKnownKey)
	if answer.StatusCode != 200 {
		t.Fatal(content)
	}
	report := parse(t, content).Get("advice").Get("candidates").Items()[0]
	for i, text := range texts {
		var charge float64
		asked := map[resource.PartitionID]bool{}
		req := engine.QueryRequest{Link: link, Text: text, Cross: true, Full: true, MaxItems: 10_000}
		for {
			page, err := e.Query(t.Context(), auth.Owner(), req)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			charge += page.Charge
			for _, id := range page.Partitions {
				asked[id] = true
			}
			if req.Continuation = page.Continuation; req.Continuation == "" {
				break
			}
		}
		q := report.Get("queries").Items()[i]
		if got := q.Get("partitions").Float(); got != float64(len(asked)) {
			t.Errorf("%s: %v partitions predicted, the engine asked %d", text, got, len(asked))
		}
		if got := q.Get("charge").Float(); math.Abs(got-charge) > 0.01*charge {
			t.Errorf("%s: predicted %.3f RU, the engine charged %.3f", text, got, charge)
		}
	}
}
