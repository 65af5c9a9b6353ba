package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// binary builds the command once per test process.
var binary = sync.OnceValues(func() (string, error) {
	built.Store(true)
	dir, err := os.MkdirTemp("", "decan-test-*")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "decan")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// TestMain lets the stories of testdata run this test binary as decan, and removes the
// real binary that other tests have built.
func TestMain(m *testing.M) {
	testscript.Main(cleaned{m}, map[string]func(){"decan": main, "decan-ahead": mainAhead})
}

// mainAhead is decan on a machine whose clock is five years ahead.
func mainAhead() {
	var commands cli
	commands.Serve.Config.Now = func() time.Time { return time.Now().Add(5 * 365 * 24 * time.Hour) }
	os.Exit(commands.run(os.Args[1:], console.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

type cleaned struct{ m *testing.M }

// Run runs the tests, and removes the result of binary.
func (c cleaned) Run() int {
	// Most tests wait for the disk or another process most of the time. A flag of the
	// command line takes precedence, because it is parsed later.
	if err := flag.Set("test.parallel", strconv.Itoa(max(testsAtOnce, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	defer func() {
		if built.Load() {
			if path, err := binary(); err == nil {
				os.RemoveAll(filepath.Dir(path))
			}
		}
	}()
	return c.m.Run()
}

// testsAtOnce is the number of parallel tests that run at the same time, at least.
const testsAtOnce = 8

var built atomic.Bool // binary was called

// process is a running decan.
type process struct {
	command *exec.Cmd
	address string
	admin   string
	cql     string
	output  *bytes.Buffer
	exited  chan error
}

// freePort returns an address that was free a moment ago. It stays free, because it is
// returned once, and below the ports that systems choose for connections.
func freePort(t testing.TB) string {
	t.Helper()
	for range portsEnd - portsBegin {
		port := portsBegin + (os.Getpid()*101+int(ports.Add(1)))%(portsEnd-portsBegin)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

const portsBegin, portsEnd = 20_000, 30_000

var ports atomic.Int32 // returned by freePort

// stretched is the lifetime of a process until it is killed: a random part of a range,
// which is longer while the machine is too busy for a result.
type stretched struct {
	random      *rand.Rand
	least, most time.Duration
	factor      int // 0 counts as 1
}

// live waits for a lifetime. The moment of death is the subject of the tests.
func (s *stretched) live() {
	length := s.least + time.Duration(s.random.Int64N(int64(s.most-s.least)))
	time.Sleep(time.Duration(max(1, s.factor)) * length)
}

// judge makes the next lifetimes longer if those so far have shown too little.
func (s *stretched) judge(tooLittle bool) {
	if tooLittle {
		s.factor = min(2*max(1, s.factor), 16)
	}
}

// checkRound checks the data that a round has left.
func checkRound(t *testing.T, round int, data string) server.Report {
	t.Helper()
	report, err := server.Check(data)
	if err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	for _, problem := range report.Problems {
		t.Errorf("round %d: %s", round, problem)
	}
	return report
}

// startTime is the maximum time until a server is ready, or a command shows the expected
// output. It only ends tests that would hang.
const startTime = 2 * time.Minute

// spawn starts decan and returns when it is ready.
func spawn(t testing.TB, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return spawnCommand(t, func(args ...string) *exec.Cmd { return exec.Command(path, args...) }, args...)
}

// spawnCommand starts decan with the result of command for its arguments, and returns when
// it is ready.
func spawnCommand(t testing.TB, command func(args ...string) *exec.Cmd, args ...string) *process {
	t.Helper()
	p := &process{address: freePort(t), admin: freePort(t), cql: freePort(t), output: &bytes.Buffer{}, exited: make(chan error, 1)}
	p.command = command(append([]string{"--listen", p.address, "--admin-listen", p.admin}, args...)...)
	p.command.Env = append(os.Environ(), "DECAN_CQL_LISTEN="+p.cql, "DECAN_DIRECT_LISTEN=127.0.0.1:0") // Earlier binaries have no such flag.
	p.command.Stdout, p.command.Stderr = p.output, p.output
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.exited <- p.command.Wait() }()
	t.Cleanup(func() { p.command.Process.Kill() })
	deadline := time.After(startTime)
	for {
		if resp, err := http.Get("http://" + p.admin + "/ready"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return p
			}
		}
		select {
		case err := <-p.exited:
			t.Fatalf("decan ended while starting: %v\n%s", err, p.output)
		case <-deadline:
			t.Fatalf("decan was not ready in %v\n%s", startTime, p.output)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (p *process) kill() {
	p.command.Process.Signal(syscall.SIGKILL)
	<-p.exited
}

// known is the state of one document, as its writer knows it.
type known struct {
	acknowledged int  // version of the last acknowledged write; -1: deleted or never written
	attempted    int  // version of a write without an answer
	pending      bool // such a write exists
}

// writer changes documents that no other client touches, so it knows their state.
type writer struct {
	id        int
	container string
	users     int // keys of each tenant
	random    *rand.Rand
	documents []known
	writes    int
}

func (w *writer) name(i int) string { return fmt.Sprintf("w%d-%d", w.id, i) }

func (w *writer) key(i int) string { return fmt.Sprintf(`["t%d","u%d"]`, w.id%3, i%w.users) }

func (w *writer) link() string { return "dbs/crash/colls/" + w.container + "/docs" }

func (w *writer) body(i, version int) []byte {
	return fmt.Appendf(nil, `{"id":%q,"tenant":"t%d","user":"u%d","version":%d,"pad":%q}`,
		w.name(i), w.id%3, i%w.users, version, bytes.Repeat([]byte{'x'}, w.random.IntN(600)))
}

// load writes until the connection breaks.
func (w *writer) load(t *testing.T, address string) {
	untilDead(t, address, w.change)
}

// untilDead repeats an operation until the connection breaks. A wrong answer fails the
// test.
func untilDead(t *testing.T, address string, operate func(*servertest.Client) error) {
	client, err := servertest.Dial(address)
	if err != nil {
		return
	}
	defer client.Close()
	for {
		if err := operate(client); err != nil {
			var wrong unexpected
			if errors.As(err, &wrong) {
				t.Error(err)
			}
			return
		}
	}
}

// change writes a document, or deletes it.
func (w *writer) change(client *servertest.Client) error {
	i := w.random.IntN(len(w.documents))
	w.writes++
	if w.documents[i].acknowledged >= 0 && w.random.IntN(5) == 0 {
		return w.write(client, -1, servertest.Prepare(server.WellKnownKey, "DELETE", w.link()+"/"+w.name(i), nil, "x-ms-documentdb-partitionkey", w.key(i)), i)
	}
	return w.write(client, w.writes, servertest.Prepare(server.WellKnownKey, "POST", w.link(), w.body(i, w.writes),
		"x-ms-documentdb-partitionkey", w.key(i), "x-ms-documentdb-is-upsert", "True"), i)
}

// write sends a request that sets all documents to a version, or none.
func (w *writer) write(client *servertest.Client, version int, request servertest.Request, documents ...int) error {
	for _, i := range documents {
		w.documents[i].attempted, w.documents[i].pending = version, true
	}
	if _, err := ask(client, request, "a write", 200, 201, 204); err != nil {
		return err
	}
	for _, i := range documents {
		w.documents[i].acknowledged, w.documents[i].pending = version, false
	}
	return nil
}

// verify reads every document, and resolves the writes without an answer.
func (w *writer) verify(t *testing.T, address string) {
	client, err := servertest.Dial(address)
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	for i := range w.documents {
		d := &w.documents[i]
		response, err := client.Do(servertest.Prepare(server.WellKnownKey, "GET", w.link()+"/"+w.name(i), nil, "x-ms-documentdb-partitionkey", w.key(i)))
		if err != nil {
			t.Error(err)
			return
		}
		found := -1
		if response.Status == 200 {
			var stored struct{ Version int }
			if err := json.Unmarshal(response.Body, &stored); err != nil {
				t.Errorf("%s is damaged: %v", w.name(i), err)
				continue
			}
			found = stored.Version
		} else if response.Status != 404 {
			t.Errorf("read of %s was answered %d: %s", w.name(i), response.Status, response.Body)
			continue
		}
		if found != d.acknowledged && (!d.pending || found != d.attempted) {
			t.Errorf("%s has version %d; acknowledged was %d, unanswered %v %d", w.name(i), found, d.acknowledged, d.pending, d.attempted)
		}
		d.acknowledged, d.pending = found, false
	}
}

// TestKill kills the real binary with SIGKILL at random moments under concurrent load: no
// acknowledged write is lost, no write is there in part, and every invariant holds.
// DECAN_CRASH_ROUNDS sets the number of rounds.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := crashRounds(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d rounds", seed, rounds)
	random := rand.New(rand.NewPCG(seed, 0))
	data := t.TempDir()
	writers := make([]*writer, 8)
	for i := range writers {
		writers[i] = &writer{id: i, random: rand.New(rand.NewPCG(seed, uint64(i+1))), container: "c", users: 5, documents: make([]known, 40)}
		for d := range writers[i].documents {
			writers[i].documents[d].acknowledged = -1
		}
	}
	total := func() (n int) {
		for _, w := range writers {
			n += w.writes
		}
		return n
	}
	life := stretched{random: random, least: 20 * time.Millisecond, most: 200 * time.Millisecond}
	for round := range rounds {
		p := spawn(t, "--data", data)
		if round == 0 {
			createCrashContainer(t, p.address)
		} else {
			each(writers, func(w *writer) { w.verify(t, p.address) })
		}
		if t.Failed() {
			p.kill()
			t.Fatalf("round %d\n%s", round, p.output)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			each(writers, func(w *writer) { w.load(t, p.address) })
		}()
		life.live()
		p.kill()
		<-done
		life.judge(total() < 20*(round+1))
		checkRound(t, round, data)
	}
	p := spawn(t, "--data", data)
	each(writers, func(w *writer) { w.verify(t, p.address) })
	p.command.Process.Signal(syscall.SIGTERM)
	if err := <-p.exited; err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.output)
	}
	t.Logf("%d writes over %d kills", total(), rounds)
	if total() < rounds*10 {
		t.Errorf("only %d writes in %d rounds: the load was too thin to show anything", total(), rounds)
	}
}

// TestSecondSignal ends a server that waits for a request that never ends.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	p := spawn(t, "--in-memory")
	conn, err := net.Dial("tcp", p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	fmt.Fprintf(conn, "POST /dbs HTTP/1.1\r\nHost: x\r\nx-ms-date: %s\r\nx-ms-version: 2020-07-15\r\nauthorization: %s\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
		date, servertest.Authorization(server.WellKnownKey, "POST", "dbs", "", date))
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("the server does not read the body: %q %v", line, err)
	}
	// A closing server refuses connections; before that the signal has not arrived.
	p.command.Process.Signal(syscall.SIGTERM)
	for {
		other, err := net.Dial("tcp", p.address)
		if err != nil {
			break
		}
		other.Close()
	}
	select {
	case <-p.exited:
		t.Fatal("the server did not wait for the request")
	default:
	}
	p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		p.kill()
		t.Errorf("the second signal did not end the process\n%s", p.output)
	}
}

// each calls do for every worker at the same time.
func each[W any](workers []W, do func(W)) {
	var wait sync.WaitGroup
	for _, w := range workers {
		wait.Go(func() { do(w) })
	}
	wait.Wait()
}

func createCrashContainer(t testing.TB, address string) {
	t.Helper()
	client, err := servertest.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, request := range []servertest.Request{
		servertest.Prepare(server.WellKnownKey, "POST", "dbs", []byte(`{"id":"crash"}`)),
		servertest.Prepare(server.WellKnownKey, "POST", "dbs/crash/colls",
			[]byte(`{"id":"c","partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2}}`), "x-ms-offer-throughput", "24000"),
	} {
		response, err := client.Do(request)
		if err != nil || response.Status != 201 {
			t.Fatalf("%v %d %s", err, response.Status, response.Body)
		}
	}
}
