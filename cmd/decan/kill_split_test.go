package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

const (
	// splitMax is so small that partitions are split as long as the container's 120 keys
	// are written.
	splitMax = "2KB"

	splitContainers = 5 // rounds per container
)

// torn counts the states in which the kills of a test have left the directory.
type torn struct {
	kills      int
	writes     int // attempted
	planned    int // kills that left a plan of a split
	joining    int // kills that left a plan of a merge
	leftovers  int // kills that left directories that the catalog does not name
	splits     int // that were finished
	partitions int // of the last container, at most
}

// tooFew reports whether too few splits were interrupted for a result.
func (m *torn) tooFew(rounds int) bool { return m.planned < rounds/4 || m.splits < rounds/4 }

// count adds the operations of the writers of a container that is dropped.
func (m *torn) count(writers []*writer) {
	for _, w := range writers {
		m.writes += w.writes
	}
}

// TestKillWhileSplitting kills the real binary with SIGKILL at random moments under
// concurrent load, while it splits partitions. After each kill, the next start has either
// the parent or its two children: every acknowledged write exists once, by its key and in
// a query over all partitions, the check is clean, and no directory remains.
// DECAN_CRASH_ROUNDS sets the number of rounds.
func TestKillWhileSplitting(t *testing.T) {
	t.Parallel()
	rounds := crashRounds(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d rounds", seed, rounds)
	random := rand.New(rand.NewPCG(seed, 0))
	data := t.TempDir()
	var writers []*writer
	var met torn
	life := stretched{random: random, least: 20 * time.Millisecond, most: 320 * time.Millisecond}
	// On a busy machine more rounds may be needed.
	for round := 0; round < rounds || met.tooFew(rounds) && round < 2*rounds; round++ {
		if round%splitContainers == 0 {
			met.count(writers)
			writers = splitWriters(seed, round)
		}
		p := spawn(t, "--data", data, "--physical-partition-max", splitMax)
		if round%splitContainers == 0 {
			splitContainer(t, p.address, round)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			each(writers, func(w *writer) { w.load(t, p.address) })
		}()
		life.live()
		p.kill()
		<-done
		met.kills++
		met.splits += strings.Count(p.output.String(), `"partition split"`)
		checkTorn(t, data, &met)
		settleTorn(t, data, writers, &met)
		life.judge(met.splits < (round+1)/2)
		if t.Failed() {
			t.Fatalf("round %d\n%s", round, p.output)
		}
	}
	met.count(writers)
	t.Logf("%d writes over %d kills: %d left a planned split, %d left directories; %d splits finished, %d partitions at most",
		met.writes, met.kills, met.planned, met.leftovers, met.splits, met.partitions)
	if met.tooFew(rounds) {
		t.Errorf("%d of %d kills came in the middle of a split, and %d splits were finished: too few to show anything", met.planned, met.kills, met.splits)
	}
}

// splitWriters are the writers of a container.
func splitWriters(seed uint64, round int) []*writer {
	writers := make([]*writer, 8)
	for i := range writers {
		writers[i] = &writer{
			id: i, random: rand.New(rand.NewPCG(seed, uint64(round*len(writers)+i+1))),
			container: fmt.Sprintf("c%d", round), users: 40, documents: make([]known, 40),
		}
		for d := range writers[i].documents {
			writers[i].documents[d].acknowledged = -1
		}
	}
	return writers
}

// splitContainer creates the container of a round, with one partition, and drops the
// previous one.
func splitContainer(t *testing.T, address string, round int) {
	t.Helper()
	client, err := servertest.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	requests := []servertest.Request{
		servertest.Prepare(server.WellKnownKey, "POST", "dbs", []byte(`{"id":"crash"}`)),
		servertest.Prepare(server.WellKnownKey, "POST", "dbs/crash/colls",
			fmt.Appendf(nil, `{"id":"c%d","partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2}}`, round)),
	}
	if round > 0 {
		requests[0] = servertest.Prepare(server.WellKnownKey, "DELETE", fmt.Sprintf("dbs/crash/colls/c%d", round-splitContainers), nil)
	}
	for _, request := range requests {
		response, err := client.Do(request)
		if err != nil || response.Status != 201 && response.Status != 204 {
			t.Fatalf("%v %d %s", err, response.Status, response.Body)
		}
	}
}

// checkTorn checks the data directory after a kill.
func checkTorn(t *testing.T, data string, met *torn) {
	t.Helper()
	report, err := server.Check(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range report.Problems {
		t.Error(problem)
	}
	if len(report.Leftovers) > 0 {
		met.leftovers++
	}
}

// settleTorn starts the server again, with a limit that no partition reaches, reads all
// documents and closes it. Then no split has left anything.
func settleTorn(t *testing.T, data string, writers []*writer, met *torn) {
	t.Helper()
	p := spawn(t, "--data", data)
	each(writers, func(w *writer) { w.verify(t, p.address) })
	everyOnce(t, p.address, writers)
	p.command.Process.Signal(syscall.SIGTERM)
	if err := <-p.exited; err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.output)
	}
	if strings.Contains(p.output.String(), `"interrupted split given up"`) {
		met.planned++
	}
	if strings.Contains(p.output.String(), `"interrupted merge given up"`) {
		met.joining++
	}
	report, err := server.Check(data)
	if err != nil {
		t.Fatal(err)
	}
	met.partitions = max(met.partitions, report.Partitions)
	for _, problem := range report.Problems {
		t.Errorf("after a clean close: %s", problem)
	}
	if len(report.Leftovers) > 0 {
		t.Errorf("a clean close left %q", report.Leftovers)
	}
}

// everyOnce queries all documents, in pages over all partitions: each occurs once, in the
// version that its writer knows, and no other exists.
func everyOnce(t *testing.T, address string, writers []*writer) {
	t.Helper()
	want := map[string]int{}
	for _, w := range writers {
		for i, d := range w.documents {
			if d.acknowledged >= 0 {
				want[w.name(i)] = d.acknowledged
			}
		}
	}
	client, err := servertest.Dial(address)
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	client.KeepHeaders = true
	continuation := ""
	for {
		headers := []string{
			"content-type", "application/query+json", "x-ms-documentdb-isquery", "True",
			"x-ms-documentdb-query-enablecrosspartition", "True", "x-ms-max-item-count", "100",
		}
		if continuation != "" {
			headers = append(headers, "x-ms-continuation", continuation)
		}
		response, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", writers[0].link(),
			[]byte(`{"query":"SELECT c.id, c.version FROM c"}`), headers...), "a query over all partitions", 200)
		if err != nil {
			t.Error(err)
			return
		}
		var page struct {
			Documents []struct {
				ID      string
				Version int
			}
		}
		if err := json.Unmarshal(response.Body, &page); err != nil {
			t.Error(err)
			return
		}
		for _, d := range page.Documents {
			if version, found := want[d.ID]; !found || version != d.Version {
				t.Errorf("%s came in version %d; wanted once more: %v, in version %d", d.ID, d.Version, found, version)
			}
			delete(want, d.ID)
		}
		if continuation = response.Header.Get("x-ms-continuation"); continuation == "" {
			break
		}
	}
	for id, version := range want {
		t.Errorf("%s did not come, want version %d", id, version)
	}
}

// crashRounds is the number of kills of a test.
func crashRounds(t *testing.T) int {
	t.Helper()
	rounds := 14 // go test has four minutes for everything; make crash has 100
	if text := os.Getenv("DECAN_CRASH_ROUNDS"); text != "" {
		if _, err := fmt.Sscan(text, &rounds); err != nil {
			t.Fatalf("DECAN_CRASH_ROUNDS is %q: %v", text, err)
		}
	}
	if testing.Short() {
		rounds = 3
	}
	return rounds
}
