package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

const (
	soakers   = 64 // 16 in a short run
	soakUsers = 10 // keys of each tenant; a key has four documents of a soaker
	soakLives = 4

	// soakMax keeps partitions so small that they are split while soakers fill the
	// container, to about one for each key, and can be merged while they empty it.
	soakMax   = "32KB"
	soakPause = 50 * time.Millisecond // between two merges

	// soakMemory is the maximum memory of the server, in MB: 30 busy partitions and 64
	// clients use less than half of it.
	soakMemory = 512
)

// tide is shared by all soakers: they either fill the container or empty it.
type tide struct {
	high  int         // the number of partitions at which it turns
	falls atomic.Bool // they empty it
}

// look turns the tide if there are many partitions, and back if there are few.
func (d *tide) look(partitions int) {
	switch {
	case partitions >= d.high:
		d.falls.Store(true)
	case partitions <= 3:
		d.falls.Store(false)
	}
}

// soaker is a writer that also performs all other operations of clients.
type soaker struct {
	*writer
	tide     *tide
	position string         // in the change feed
	done     map[string]int // number of operations by name
}

// operation is an operation of a soaker, with its frequency in percent.
type operation struct {
	name string
	part int
	do   func(*soaker, *servertest.Client) error
}

var operations = []operation{
	{"upsert or delete", 35, (*soaker).upsertOrDelete},
	{"read", 25, (*soaker).read},
	{"patch", 10, (*soaker).patch},
	{"batch", 8, (*soaker).batch},
	{"query of a key", 8, (*soaker).query},
	{"query of all", 4, (*soaker).count},
	{"change feed", 5, (*soaker).feed},
	{"stored procedure", 5, (*soaker).procedure},
}

// operate performs one random operation.
func (s *soaker) operate(client *servertest.Client) error {
	dice := s.random.IntN(100)
	for _, o := range operations {
		if dice -= o.part; dice < 0 {
			s.done[o.name]++
			return o.do(s, client)
		}
	}
	return nil
}

// versionOf returns the version in a body.
func versionOf(body []byte) (int, error) {
	var stored struct{ Version int }
	err := json.Unmarshal(body, &stored)
	return stored.Version, err
}

func (s *soaker) upsertOrDelete(client *servertest.Client) error {
	if s.tide.falls.Load() {
		return s.remove(client)
	}
	return s.change(client)
}

// remove deletes a document, or checks that it does not exist.
func (s *soaker) remove(client *servertest.Client) error {
	i := s.random.IntN(len(s.documents))
	if s.documents[i].acknowledged < 0 {
		return s.readOne(client, i)
	}
	s.writes++
	return s.write(client, -1, servertest.Prepare(server.WellKnownKey, "DELETE", s.link()+"/"+s.name(i), nil, "x-ms-documentdb-partitionkey", s.key(i)), i)
}

func (s *soaker) read(client *servertest.Client) error {
	return s.readOne(client, s.random.IntN(len(s.documents)))
}

func (s *soaker) readOne(client *servertest.Client, i int) error {
	response, err := ask(client, servertest.Prepare(server.WellKnownKey, "GET", s.link()+"/"+s.name(i), nil, "x-ms-documentdb-partitionkey", s.key(i)), "a read", 200, 404)
	if err != nil {
		return err
	}
	found := -1
	if response.Status == 200 {
		if found, err = versionOf(response.Body); err != nil {
			return err
		}
	}
	if want := s.documents[i].acknowledged; found != want {
		return unexpected(fmt.Sprintf("%s was read in version %d, want %d", s.name(i), found, want))
	}
	return nil
}

func (s *soaker) patch(client *servertest.Client) error {
	i := s.random.IntN(len(s.documents))
	s.writes++
	body := fmt.Appendf(nil, `{"operations":[{"op":"set","path":"/version","value":%d}]}`, s.writes)
	request := servertest.Prepare(server.WellKnownKey, "PATCH", s.link()+"/"+s.name(i), body, "x-ms-documentdb-partitionkey", s.key(i))
	if s.documents[i].acknowledged < 0 {
		_, err := ask(client, request, "a patch of nothing", 404)
		return err
	}
	return s.write(client, s.writes, request, i)
}

// batch upserts all documents of one key in one transaction, or deletes those that exist.
func (s *soaker) batch(client *servertest.Client) error {
	s.writes++
	version := s.writes
	if s.tide.falls.Load() {
		version = -1
	}
	var operations []string
	var documents []int
	user := s.random.IntN(s.users)
	for i := user; i < len(s.documents); i += s.users {
		switch {
		case version >= 0:
			operations = append(operations, fmt.Sprintf(`{"operationType":"Upsert","resourceBody":%s}`, s.body(i, version)))
		case s.documents[i].acknowledged >= 0:
			operations = append(operations, fmt.Sprintf(`{"operationType":"Delete","id":%q}`, s.name(i)))
		default:
			continue
		}
		documents = append(documents, i)
	}
	if len(documents) == 0 {
		return s.readOne(client, user)
	}
	return s.write(client, version, servertest.Prepare(server.WellKnownKey, "POST", s.link(), []byte("["+strings.Join(operations, ",")+"]"),
		"x-ms-documentdb-partitionkey", s.key(user), "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True"), documents...)
}

// query checks that a query returns all documents of one key.
func (s *soaker) query(client *servertest.Client) error {
	user := s.random.IntN(s.users)
	response, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", s.link(),
		fmt.Appendf(nil, `{"query":"SELECT c.id, c.version FROM c WHERE STARTSWITH(c.id, @own)","parameters":[{"name":"@own","value":"w%d-"}]}`, s.id),
		"x-ms-documentdb-partitionkey", s.key(user), "x-ms-documentdb-isquery", "True", "content-type", "application/query+json"), "a query", 200)
	if err != nil {
		return err
	}
	var page struct {
		Documents []struct {
			ID      string
			Version int
		}
	}
	if err := json.Unmarshal(response.Body, &page); err != nil {
		return err
	}
	found := map[string]int{}
	for _, d := range page.Documents {
		found[d.ID] = d.Version
	}
	if len(found) != len(page.Documents) {
		return unexpected(fmt.Sprintf("a query returned a document twice: %s", response.Body))
	}
	for i := user; i < len(s.documents); i += s.users {
		version, there := found[s.name(i)]
		if want := s.documents[i].acknowledged; there != (want >= 0) || there && version != want {
			return unexpected(fmt.Sprintf("a query found %s %v in version %d, want %d", s.name(i), there, version, want))
		}
	}
	return nil
}

func (s *soaker) count(client *servertest.Client) error {
	_, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", s.link(), []byte(`{"query":"SELECT c.tenant, COUNT(1) AS n, MAX(c.version) AS v FROM c GROUP BY c.tenant"}`),
		"x-ms-documentdb-isquery", "True", "content-type", "application/query+json", "x-ms-documentdb-query-enablecrosspartition", "True", "x-decan-cross-partition", "full"), "a query of all", 200)
	return err
}

// feed reads the next page of the change feed.
func (s *soaker) feed(client *servertest.Client) error {
	headers := []string{"A-IM", "Incremental feed", "x-ms-max-item-count", "50"}
	if s.position != "" {
		headers = append(headers, "If-None-Match", s.position)
	}
	response, err := ask(client, servertest.Prepare(server.WellKnownKey, "GET", s.link(), nil, headers...), "a page of the change feed", 200, 304)
	if err != nil {
		return err
	}
	if s.position = response.Header.Get("Etag"); s.position == "" {
		return unexpected("a page of the change feed has no position")
	}
	return nil
}

// procedure writes a document with a stored procedure.
func (s *soaker) procedure(client *servertest.Client) error {
	i := s.random.IntN(len(s.documents))
	s.writes++
	return s.write(client, s.writes, servertest.Prepare(server.WellKnownKey, "POST", strings.TrimSuffix(s.link(), "/docs")+"/sprocs/put",
		fmt.Appendf(nil, "[%s]", s.body(i, s.writes)), "x-ms-documentdb-partitionkey", s.key(i)), i)
}

// soak works until the connection breaks.
func (s *soaker) soak(t *testing.T, address string) {
	untilDead(t, address, func(client *servertest.Client) error {
		client.KeepHeaders = true // for the change feed
		return s.operate(client)
	})
}

// TestSoak runs clients with all operations, while partitions are split and merged and
// the server is restarted, by SIGTERM and SIGKILL in turn: every answer is correct, no
// acknowledged write is lost, every check is clean, and the memory of the server has a
// limit. It logs the memory every ten seconds. DECAN_SOAK sets the duration; `make soak`
// runs for ten minutes with 64 clients.
func TestSoak(t *testing.T) {
	t.Parallel()
	length, clients := 2*time.Second, 16
	if text := os.Getenv("DECAN_SOAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		clients = soakers
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %v", seed, length)
	data := t.TempDir()
	all := make([]*soaker, clients)
	shared := &tide{high: 3 * clients / 8}
	for i := range all {
		w := &writer{id: i, random: rand.New(rand.NewPCG(seed, uint64(i+1))), container: "c", users: soakUsers, documents: make([]known, 4*soakUsers)}
		for d := range w.documents {
			w.documents[d].acknowledged = -1
		}
		all[i] = &soaker{writer: w, tide: shared, done: map[string]int{}}
	}
	splits, merges := 0, 0
	// On a busy machine more restarts may be needed.
	for life := 0; life < soakLives || splits == 0 && life < 3*soakLives; life++ {
		p := spawn(t, "--data", data, "--physical-partition-max", soakMax)
		if life == 0 {
			createCrashContainer(t, p.address)
			createPut(t, p.address)
		}
		each(all, func(s *soaker) { s.verify(t, p.address) })
		done := make(chan struct{})
		go func() {
			defer close(done)
			each(all, func(s *soaker) { s.soak(t, p.address) })
		}()
		shaper := make(chan struct{})
		go func() {
			defer close(shaper)
			mergeUntilDead(p, "c", rand.New(rand.NewPCG(seed, uint64(soakers+life))), soakPause, shared.look)
		}()
		memory := p.watch(t, length/soakLives)
		if life%2 == 0 {
			p.command.Process.Signal(syscall.SIGTERM)
			if err := <-p.exited; err != nil {
				t.Errorf("SIGTERM: %v", err)
			}
		} else {
			p.kill()
		}
		<-done
		<-shaper
		splits += strings.Count(p.output.String(), `"partition split"`)
		merges += strings.Count(p.output.String(), `"partitions merged"`)
		report, err := server.Check(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range report.Problems {
			t.Error(problem)
		}
		t.Logf("life %d: %d partitions at the end; MB in memory: %.0f", life+1, report.Partitions, memory)
		for _, m := range memory {
			if m > soakMemory {
				t.Errorf("the server had %.0f MB in memory, want at most %d", m, soakMemory)
			}
		}
		if t.Failed() {
			t.Fatalf("life %d\n%s", life+1, p.output)
		}
	}
	p := spawn(t, "--data", data)
	each(all, func(s *soaker) { s.verify(t, p.address) })
	p.kill()
	for _, o := range operations {
		n := 0
		for _, s := range all {
			n += s.done[o.name]
		}
		t.Logf("%-18s %d", o.name, n)
		if n == 0 {
			t.Errorf("no %s was done", o.name)
		}
	}
	t.Logf("%d splits, %d merges", splits, merges)
	if splits == 0 {
		t.Error("no partition was split")
	}
	if merges == 0 && clients == soakers {
		t.Error("no partitions were merged")
	}
}

// watch waits, and returns the memory of the process in MB, every ten seconds and at the
// end; nothing if the system does not report it.
func (p *process) watch(t *testing.T, length time.Duration) (memory []float64) {
	for length > 0 {
		pause := min(length, 10*time.Second)
		time.Sleep(pause)
		length -= pause
		if runtime.GOOS == "linux" {
			memory = append(memory, p.resident(t))
		}
	}
	return memory
}

// createPut creates the stored procedure that upserts a document.
func createPut(t *testing.T, address string) {
	t.Helper()
	const body = `function (document) {
		const all = getContext().getCollection();
		if (!all.upsertDocument(all.getSelfLink(), document, error => { if (error) throw error; })) throw new Error('not accepted');
	}`
	createProcedure(t, address, "put", body)
}
