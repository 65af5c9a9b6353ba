package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// scripted is the number of documents that one run of the stored procedure writes: more
// than one step of a deletion by key deletes.
const scripted = 130

// scripter fills a partition key of its own with a stored procedure and deletes it. No
// other client touches the key, so it knows its state.
type scripter struct {
	id           int
	random       *rand.Rand
	runs         int
	acknowledged int // number of the present run; 0 for none
	attempted    int // number of a run without an answer
	pending      bool
	deletes      int
}

func (s *scripter) key() string { return fmt.Sprintf(`["t%d","u%d"]`, s.id%3, s.id) }

const scriptContainer = "dbs/crash/colls/c"

// load runs and deletes until the connection breaks.
func (s *scripter) load(t *testing.T, address string) {
	client, err := servertest.Dial(address)
	if err != nil {
		return
	}
	defer client.Close()
	for {
		s.runs++
		s.attempted = s.runs
		request := servertest.Prepare(server.WellKnownKey, "POST", scriptContainer+"/sprocs/fill",
			fmt.Appendf(nil, `[%d,%d,"t%d","u%d"]`, s.runs, scripted, s.id%3, s.id), "x-ms-documentdb-partitionkey", s.key())
		if s.acknowledged > 0 && s.random.IntN(3) == 0 {
			s.attempted = 0
			request = servertest.Prepare(server.WellKnownKey, "POST", scriptContainer+"/operations/partitionkeydelete", nil, "x-ms-documentdb-partitionkey", s.key())
		}
		s.pending = true
		response, err := client.Do(request)
		if err != nil {
			return
		}
		switch response.Status {
		case 200:
			s.acknowledged, s.pending = s.attempted, false
			if s.attempted == 0 {
				s.deletes++
			}
		case 449: // A conflict with other writes; nothing has changed.
			s.pending = false
		default:
			t.Errorf("an operation was answered %d: %s", response.Status, response.Body)
			return
		}
	}
}

// verify reads the key, which has all documents of one run, or none.
func (s *scripter) verify(t *testing.T, address string) {
	client, err := servertest.Dial(address)
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	response, err := client.Do(servertest.Prepare(server.WellKnownKey, "POST", scriptContainer+"/docs", []byte(`{"query":"SELECT VALUE c.n FROM c"}`),
		"x-ms-documentdb-partitionkey", s.key(), "x-ms-documentdb-isquery", "True", "content-type", "application/query+json"))
	if err != nil || response.Status != 200 {
		t.Errorf("query: %v %d %s", err, response.Status, response.Body)
		return
	}
	var page struct{ Documents []int }
	if err := json.Unmarshal(response.Body, &page); err != nil {
		t.Error(err)
		return
	}
	found := 0
	for _, n := range page.Documents {
		if found = n; n != page.Documents[0] {
			t.Errorf("key %s has documents of the runs %d and %d", s.key(), n, page.Documents[0])
			return
		}
	}
	if n := len(page.Documents); n != 0 && n != scripted {
		t.Errorf("key %s has %d documents of run %d, want %d or none", s.key(), n, found, scripted)
	}
	if found != s.acknowledged && (!s.pending || found != s.attempted) {
		t.Errorf("key %s is at run %d; acknowledged was %d, unanswered %v %d", s.key(), found, s.acknowledged, s.pending, s.attempted)
	}
	s.acknowledged, s.pending = found, false
}

// TestKillWhileScripting kills the real binary with SIGKILL at random moments while stored
// procedures fill partition keys and deletions by key empty them. After each start a key
// has all documents of one run or none: those of the last acknowledged operation, or of
// one without an answer. Every invariant holds.
func TestKillWhileScripting(t *testing.T) {
	t.Parallel()
	rounds := min(crashRounds(t), 6)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d rounds", seed, rounds)
	data := t.TempDir()
	scripters := make([]*scripter, 4)
	for i := range scripters {
		scripters[i] = &scripter{id: i, random: rand.New(rand.NewPCG(seed, uint64(i+1)))}
	}
	total := func() (runs, deletes int) {
		for _, s := range scripters {
			runs, deletes = runs+s.runs, deletes+s.deletes
		}
		return runs, deletes
	}
	life := stretched{random: rand.New(rand.NewPCG(seed, 0)), least: 50 * time.Millisecond, most: 250 * time.Millisecond}
	for round := 0; ; round++ {
		p := spawn(t, "--data", data)
		if round == 0 {
			createCrashContainer(t, p.address)
			createFill(t, p.address)
		} else {
			each(scripters, func(s *scripter) { s.verify(t, p.address) })
		}
		runs, deletes := total()
		enough := round >= rounds && runs > 3*rounds && deletes > 1
		if t.Failed() || enough || round == 3*rounds {
			p.kill()
			if t.Failed() || !enough {
				t.Fatalf("seed %d, round %d: %d runs, %d deletions\n%s", seed, round, runs, deletes, p.output)
			}
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			each(scripters, func(s *scripter) { s.load(t, p.address) })
		}()
		life.live()
		p.kill()
		<-done
		after, _ := total()
		life.judge(after-runs < len(scripters))
		report, err := server.Check(data)
		if err != nil || len(report.Problems) > 0 {
			t.Fatalf("round %d: %v %v", round, err, report.Problems)
		}
	}
}

// createFill creates the stored procedure that upserts the documents of a run.
func createFill(t *testing.T, address string) {
	t.Helper()
	const body = `function (run, count, tenant, user) {
		const all = getContext().getCollection();
		for (let i = 0; i < count; i++) {
			const accepted = all.upsertDocument(all.getSelfLink(), {id: 'd' + i, tenant: tenant, user: user, n: run}, error => { if (error) throw error; });
			if (!accepted) throw new Error('not accepted');
		}
		getContext().getResponse().setBody(count);
	}`
	createProcedure(t, address, "fill", body)
}

// createProcedure creates a stored procedure in the container of the crash tests.
func createProcedure(t *testing.T, address, id, body string) {
	t.Helper()
	text, err := json.Marshal(map[string]string{"id": id, "body": body})
	if err != nil {
		t.Fatal(err)
	}
	client, err := servertest.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if response, err := client.Do(servertest.Prepare(server.WellKnownKey, "POST", scriptContainer+"/sprocs", text)); err != nil || response.Status != 201 {
		t.Fatalf("%v %d %s", err, response.Status, response.Body)
	}
}
