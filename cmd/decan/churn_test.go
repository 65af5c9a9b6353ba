package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// churner creates, changes and drops containers and a database. No other client touches
// them, so it knows their state.
type churner struct {
	id         int
	random     *rand.Rand
	containers []churned
	done       int // acknowledged operations
}

// churned is the known state of one container.
type churned struct {
	exists    bool
	documents int // acknowledged
	policy    int // of the last acknowledged create or replace

	// the operation without an answer; "" for none
	pending   string // create, replace, delete, write or drop
	nextState int    // the policy of a pending replace
}

var policies = []string{
	`{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[]}`,
	`{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/group/?"}],"excludedPaths":[{"path":"/*"}]}`,
	`{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/group/?"}]}`,
}

func (w *churner) database(i int) string {
	if i == 0 {
		return fmt.Sprintf("own%d", w.id) // dropped as a whole
	}
	return "shared"
}

func (w *churner) link(i int) string { return fmt.Sprintf("dbs/%s/colls/%s", w.database(i), w.name(i)) }

func (w *churner) name(i int) string { return fmt.Sprintf("w%d-%d", w.id, i) }

func (w *churner) definition(i, policy int) []byte {
	return fmt.Appendf(nil, `{"id":%q,"partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"indexingPolicy":%s}`, w.name(i), policies[policy])
}

// churn works until the connection breaks.
func (w *churner) churn(t *testing.T, address string) {
	untilDead(t, address, func(client *servertest.Client) error {
		err := w.step(client)
		if err == nil {
			w.done++
		}
		return err
	})
}

// unexpected is a wrong answer.
type unexpected string

func (u unexpected) Error() string { return string(u) }

func ask(client *servertest.Client, request servertest.Request, what string, want ...int) (servertest.Response, error) {
	response, err := client.Do(request)
	if err != nil {
		return response, err
	}
	for _, status := range want {
		if response.Status == status {
			return response, nil
		}
	}
	return response, unexpected(fmt.Sprintf("%s was answered %d: %s", what, response.Status, response.Body))
}

// step performs one operation. After an error it stays pending.
func (w *churner) step(client *servertest.Client) error {
	const key = server.WellKnownKey
	i := w.random.IntN(len(w.containers))
	c := &w.containers[i]
	switch dice := w.random.IntN(10); {
	case !c.exists:
		if i == 0 {
			if _, err := ask(client, servertest.Prepare(key, "POST", "dbs", fmt.Appendf(nil, `{"id":%q}`, w.database(i))), "create database", 201, 409); err != nil {
				return err
			}
		}
		policy := w.random.IntN(len(policies))
		*c = churned{pending: "create", policy: policy}
		if _, err := ask(client, servertest.Prepare(key, "POST", "dbs/"+w.database(i)+"/colls", w.definition(i, policy), "x-ms-offer-throughput", "12000"), "create "+w.link(i), 201); err != nil {
			return err
		}
		c.exists = true
	case dice == 0 && i == 0:
		c.pending = "drop"
		if _, err := ask(client, servertest.Prepare(key, "DELETE", "dbs/"+w.database(i), nil), "drop "+w.database(i), 204); err != nil {
			return err
		}
		*c = churned{}
	case dice == 0:
		c.pending = "delete"
		if _, err := ask(client, servertest.Prepare(key, "DELETE", w.link(i), nil), "delete "+w.link(i), 204); err != nil {
			return err
		}
		*c = churned{}
	case dice < 4:
		c.pending, c.nextState = "replace", w.random.IntN(len(policies))
		if _, err := ask(client, servertest.Prepare(key, "PUT", w.link(i), w.definition(i, c.nextState)), "replace "+w.link(i), 200); err != nil {
			return err
		}
		c.policy = c.nextState
	default:
		c.pending = "write"
		body := fmt.Appendf(nil, `{"id":"%d","pk":"%d","group":%d,"other":"x%d"}`, c.documents, c.documents%7, c.documents%2, c.documents)
		if _, err := ask(client, servertest.Prepare(key, "POST", w.link(i)+"/docs", body, "x-ms-documentdb-partitionkey", fmt.Sprintf(`["%d"]`, c.documents%7)),
			"write to "+w.link(i), 201); err != nil {
			return err
		}
		c.documents++
	}
	c.pending = ""
	return nil
}

// verify compares the server with the known state, and resolves pending operations.
func (w *churner) verify(t *testing.T, address string) {
	client, err := servertest.Dial(address)
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	for i := range w.containers {
		c := &w.containers[i]
		response, err := ask(client, servertest.Prepare(server.WellKnownKey, "GET", w.link(i), nil), "read "+w.link(i), 200, 404)
		if err != nil {
			t.Error(err)
			return
		}
		found := response.Status == 200
		uncertain := c.pending == "create" || c.pending == "delete" || c.pending == "drop"
		if found != c.exists && !uncertain {
			t.Errorf("%s is there: %v, want %v; unanswered: %q", w.link(i), found, c.exists, c.pending)
		}
		if !found {
			*c = churned{}
			continue
		}
		var body struct{ IndexingPolicy json.RawMessage }
		if err := json.Unmarshal(response.Body, &body); err != nil {
			t.Errorf("%s: %v", w.link(i), err)
		}
		fits := func(policy int) bool {
			excluded := strings.Contains(string(body.IndexingPolicy), `{"path":"/group/?"}`)
			narrow := !strings.Contains(string(body.IndexingPolicy), `"includedPaths":[{"path":"/*"}]`)
			return excluded == (policy != 0) && narrow == (policy == 1)
		}
		switch {
		case fits(c.policy):
		case c.pending == "replace" && fits(c.nextState):
			c.policy = c.nextState
		default:
			t.Errorf("%s has policy %s, want number %d; unanswered: %q %d", w.link(i), body.IndexingPolicy, c.policy, c.pending, c.nextState)
		}
		c.exists = true
		// Each half is counted through the index of group, or without it.
		total := 0
		for group := range 2 {
			response, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", w.link(i)+"/docs",
				fmt.Appendf(nil, `{"query":"SELECT VALUE c.id FROM c WHERE c[\"group\"] = %d"}`, group),
				"content-type", "application/query+json", "x-ms-documentdb-isquery", "True", "x-ms-documentdb-query-enablecrosspartition", "True"), "query "+w.link(i), 200)
			if err != nil {
				t.Error(err)
				return
			}
			var page struct{ Documents []string }
			if err := json.Unmarshal(response.Body, &page); err != nil {
				t.Errorf("%s: %v", w.link(i), err)
			}
			total += len(page.Documents)
		}
		if total != c.documents && (c.pending != "write" || total != c.documents+1) {
			t.Errorf("%s has %d documents, want %d; unanswered: %q", w.link(i), total, c.documents, c.pending)
		}
		c.documents, c.pending = total, ""
	}
}

// TestKillWhileContainersChange kills the real binary while containers and databases are
// created, changed and dropped: each change took effect completely or not at all, each
// acknowledged change took effect, and after the next start the catalog names every
// directory.
func TestKillWhileContainersChange(t *testing.T) {
	t.Parallel()
	rounds := 5
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	data := t.TempDir()
	churners := make([]*churner, 4)
	for i := range churners {
		churners[i] = &churner{id: i, random: rand.New(rand.NewPCG(seed, uint64(i+1))), containers: make([]churned, 3)}
	}
	total := func() (n int) {
		for _, w := range churners {
			n += w.done
		}
		return n
	}
	life := stretched{random: random, least: 200 * time.Millisecond, most: 600 * time.Millisecond}
	for round := range rounds + 1 {
		p := spawn(t, "--data", data)
		if round == 0 {
			client, err := servertest.Dial(p.address)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", "dbs", []byte(`{"id":"shared"}`)), "create database", 201); err != nil {
				t.Fatal(err)
			}
			client.Close()
		}
		each(churners, func(w *churner) { w.verify(t, p.address) })
		if round == rounds {
			p.command.Process.Signal(syscall.SIGTERM)
			if err := <-p.exited; err != nil {
				t.Errorf("SIGTERM: %v\n%s", err, p.output)
			}
		} else {
			done := make(chan struct{})
			go func() {
				defer close(done)
				each(churners, func(w *churner) { w.churn(t, p.address) })
			}()
			life.live()
			p.kill()
			<-done
			life.judge(total() < 20*(round+1))
		}
		report := checkRound(t, round, data)
		if round == rounds && len(report.Leftovers) > 0 {
			t.Errorf("a clean close left %q", report.Leftovers)
		}
		if t.Failed() {
			t.Fatalf("round %d\n%s", round, p.output)
		}
	}
	t.Logf("%d operations over %d kills", total(), rounds)
	if total() < rounds*10 {
		t.Errorf("only %d operations in %d rounds: too few to show anything", total(), rounds)
	}
}
