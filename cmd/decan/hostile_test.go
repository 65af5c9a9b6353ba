package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// hostile is a kind of client that misbehaves once, on a connection of its own.
type hostile struct {
	name string
	do   func(conn net.Conn, random *rand.Rand)
	few  bool // each uses a whole processor, so there are at most heavyMax of them
}

// hostiles are the kinds that speak HTTP/1.1 or nothing. Each returns at the latest when the server ends the connection.
var hostiles = []hostile{
	{"says nothing", func(conn net.Conn, _ *rand.Rand) { drain(conn) }, false},
	{"announces a body", func(conn net.Conn, _ *rand.Rand) {
		conn.Write(hostileHead(2 << 20))
		drain(conn)
	}, false},
	{"sends a body slowly", func(conn net.Conn, random *rand.Rand) {
		conn.Write(hostileHead(2 << 20))
		conn.Write(bytes.Repeat([]byte(" "), random.IntN(1<<20)))
		drain(conn)
	}, false},
	{"goes in the middle of a body", func(conn net.Conn, random *rand.Rand) {
		conn.Write(hostileHead(2 << 20))
		conn.Write(bytes.Repeat([]byte(" "), random.IntN(1<<20)))
	}, false},
	{"does not read a large answer", func(conn net.Conn, _ *rand.Rand) {
		for range 20 {
			request := servertest.Prepare(server.WellKnownKey, "GET", "dbs/crash/colls/c/docs/large", nil, "x-ms-documentdb-partitionkey", `["t","u"]`)
			if _, err := request.WriteTo(conn); err != nil {
				return
			}
		}
		time.Sleep(hostileTimeout) // The server disconnects it.
	}, false},
	{"goes in the middle of an answer", func(conn net.Conn, _ *rand.Rand) {
		request := servertest.Prepare(server.WellKnownKey, "GET", "dbs/crash/colls/c/docs/large", nil, "x-ms-documentdb-partitionkey", `["t","u"]`)
		request.WriteTo(conn)
		io.CopyN(io.Discard, conn, 100)
	}, false},
	{"sends headers without end", func(conn net.Conn, _ *rand.Rand) {
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n")
		for i := range 1000 {
			if _, err := fmt.Fprintf(conn, "x-%d: %s\r\n", i, strings.Repeat("x", 200)); err != nil {
				return
			}
		}
		drain(conn)
	}, false},
	{"stops in its headers", func(conn net.Conn, _ *rand.Rand) {
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: loc")
		drain(conn)
	}, false},
	{"stops in the handshake of TLS", func(conn net.Conn, _ *rand.Rand) {
		io.WriteString(conn, "\x16\x03\x01\x02\x00\x01\x00")
		drain(conn)
	}, false},
	{"sends noise", func(conn net.Conn, random *rand.Rand) {
		for range 100 {
			fmt.Fprintf(conn, "%c%d\r\n", rune(random.IntN(256)), random.Uint64())
		}
		drain(conn)
	}, false},
	{"asks for sums over joins", func(conn net.Conn, _ *rand.Rand) {
		request := servertest.Prepare(server.WellKnownKey, "POST", "dbs/crash/colls/c/docs",
			[]byte(`{"query":"SELECT VALUE SUM(a + b + d) FROM c JOIN a IN c.list JOIN b IN c.list JOIN d IN c.list"}`),
			"x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json",
			"x-ms-documentdb-query-enablecrosspartition", "True", "x-decan-cross-partition", "full", "Connection", "close")
		request.WriteTo(conn)
		drain(conn)
	}, true},
	{"replaces a document of 100,000 terms", func(conn net.Conn, random *rand.Rand) {
		bodies := hugeDocuments()
		request := servertest.Prepare(server.WellKnownKey, "POST", "dbs/crash/colls/c/docs", bodies[random.IntN(len(bodies))],
			"x-ms-documentdb-partitionkey", `["t","u"]`, "x-ms-documentdb-is-upsert", "True", "Connection", "close")
		request.WriteTo(conn)
		drain(conn)
	}, true},
}

// hugeDocuments returns versions of two documents of 1.8 MB with 100,000 values, each with
// its own path. All values of two versions differ.
var hugeDocuments = sync.OnceValue(func() (bodies [4][]byte) {
	for n := range bodies {
		body := fmt.Appendf(nil, `{"id":"huge%d","tenant":"t","user":"u"`, n%2)
		for i := range 100_000 {
			body = fmt.Appendf(body, `,"p%05d":%d`, i, 100_000*(n+1)+i)
		}
		bodies[n] = append(body, '}')
	}
	return bodies
})

const (
	hostileTimeout = time.Second // the timeouts of the server in these tests
	heavyMax       = 8
	hostilePause   = 100 * time.Millisecond // leaves processor time of this process to the other clients
)

func drain(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func hostileHead(length int) []byte {
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	return fmt.Appendf(nil, "POST /dbs/crash/colls/c/docs HTTP/1.1\r\nHost: localhost\r\nx-ms-date: %s\r\nauthorization: %s\r\nx-ms-documentdb-partitionkey: [\"t\",\"u\"]\r\nContent-Length: %d\r\n\r\n",
		date, servertest.Authorization(server.WellKnownKey, "POST", "docs", "dbs/crash/colls/c", date), length)
}

// hostileMemory is the maximum memory of the server, in MB.
const hostileMemory = 512

// TestHostile runs hostile clients of all kinds and normal clients: every answer to a
// normal client is correct, and the memory of the server has a limit. DECAN_HOSTILE sets
// the duration; `make hostile` runs for three minutes with ten times as many clients, and
// requires that the median latency of normal clients is below 20 times the one without
// hostile clients, and below 20 ms.
func TestHostile(t *testing.T) {
	t.Parallel()
	length, crowd := time.Second, 4
	if text := os.Getenv("DECAN_HOSTILE"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		crowd = 40
	}
	p := spawn(t, "--data", t.TempDir(), "--memory", fmt.Sprintf("%dMB", hostileMemory), "--read-timeout", hostileTimeout.String(), "--write-timeout", hostileTimeout.String(),
		"--request-memory", "64MB", "--connections", "300")
	createCrashContainer(t, p.address)
	client, err := servertest.Dial(p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	document := func(id, text string) servertest.Request {
		return servertest.Prepare(server.WellKnownKey, "POST", "dbs/crash/colls/c/docs",
			fmt.Appendf(nil, `{"id":%q,"tenant":"t","user":"u","text":%q}`, id, text),
			"x-ms-documentdb-partitionkey", `["t","u"]`, "x-ms-documentdb-is-upsert", "True")
	}
	first := []servertest.Request{document("large", strings.Repeat("x", 1_900_000)), document("small", "x")}
	list := strings.TrimSuffix(strings.Repeat("1,", 30), ",")
	for i := range 20 {
		first = append(first, servertest.Prepare(server.WellKnownKey, "POST", "dbs/crash/colls/c/docs",
			fmt.Appendf(nil, `{"id":"joined%d","tenant":"t","user":"u","list":[%s]}`, i, list), "x-ms-documentdb-partitionkey", `["t","u"]`))
	}
	for _, r := range first {
		if response, err := client.Do(r); err != nil || response.Status != 201 {
			t.Fatalf("%v %d %s", err, response.Status, response.Body)
		}
	}
	// work reads and writes small documents for a time, and then until there are
	// leastOperations, since the machine may be busy. It returns the times. Like other
	// clients, it opens a connection again that was closed to make room; straight has
	// the times of requests without that.
	work := func(length time.Duration) (took, straight []time.Duration, reopened int) {
		var own *servertest.Client
		var err error
		defer func() {
			if own != nil {
				own.Close()
			}
		}()
		const leastOperations = 10
		start := time.Now()
		for time.Since(start) < length || len(took) < leastOperations && time.Since(start) < startTime {
			request, want := document("small", "y"), 200
			if len(took)%2 == 0 {
				request = servertest.Prepare(server.WellKnownKey, "GET", "dbs/crash/colls/c/docs/small", nil, "x-ms-documentdb-partitionkey", `["t","u"]`)
			}
			began, before := time.Now(), reopened
			for {
				if own == nil {
					if own, err = servertest.Dial(p.address); err != nil {
						if reopened++; time.Since(began) > startTime {
							t.Error(err)
							return took, straight, reopened
						}
						own = nil
						continue
					}
				}
				response, err := own.Do(request)
				if err == nil {
					if response.Status != want {
						t.Errorf("%d %.200s", response.Status, response.Body)
						return took, straight, reopened
					}
					break
				}
				own.Close()
				if own = nil; time.Since(began) > startTime {
					t.Error(err)
					return took, straight, reopened
				}
				reopened++
			}
			took = append(took, time.Since(began))
			if reopened == before {
				straight = append(straight, took[len(took)-1])
			}
		}
		return took, straight, reopened
	}
	state := p.readiness()
	alone, _, _ := work(length / 4)
	aloneWaited := p.readiness().share(state)

	var stop atomic.Bool
	var wait sync.WaitGroup
	var counts [64]atomic.Int64
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	kinds := slices.Concat(hostiles, hostileStreams)
	for i, kind := range kinds {
		members := crowd
		if kind.few {
			members = min(crowd, heavyMax)
		}
		for j := range members {
			random := rand.New(rand.NewPCG(seed, uint64(i*1000+j)))
			wait.Go(func() {
				for !stop.Load() {
					conn, err := net.Dial("tcp", p.address)
					if err != nil {
						continue // refused
					}
					conn.SetDeadline(time.Now().Add(startTime))
					kind.do(conn, random)
					conn.Close()
					counts[i].Add(1)
					time.Sleep(hostilePause)
				}
			})
		}
	}
	time.Sleep(hostilePause)
	state = p.readiness()
	among, straight, reopened := work(length)
	amongWaited := p.readiness().share(state)
	if response, err := http.Get("http://" + p.admin + "/ready"); err != nil || response.StatusCode != 200 {
		t.Errorf("the admin port: %v %v", response, err)
	} else {
		response.Body.Close()
	}
	if runtime.GOOS == "linux" {
		memory := p.resident(t)
		t.Logf("%.0f MB in memory", memory)
		if memory > hostileMemory {
			t.Errorf("the server has %.0f MB in memory, want at most %d", memory, hostileMemory)
		}
	}
	stop.Store(true)
	wait.Wait()
	for i, kind := range kinds {
		t.Logf("%-32s %d", kind.name, counts[i].Load())
	}
	if len(alone) < 10 || len(among) < 10 {
		t.Fatalf("%d operations alone and %d among hostile clients", len(alone), len(among))
	}
	// Reads and writes alternate.
	var reads, writes []time.Duration
	for i, took := range among {
		if i%2 == 0 {
			reads = append(reads, took)
		} else {
			writes = append(writes, took)
		}
	}
	for _, list := range [][]time.Duration{alone, among, straight, reads, writes} {
		slices.Sort(list)
	}
	p99 := func(list []time.Duration) time.Duration { return append(list, 0)[len(list)*99/100] }
	before, now := alone[len(alone)/2], among[len(among)/2]
	t.Logf("%d operations alone: median %v, p99 %v; threads of the server waited for a processor %.0f%% of the time", len(alone), before, p99(alone), aloneWaited)
	t.Logf("%d operations among hostile clients: median %v, p99 %v; threads waited %.0f%%", len(among), now, p99(among), amongWaited)
	t.Logf("p99 of reads %v, of writes %v", p99(reads), p99(writes))
	t.Logf("reopened %d times; p99 of the %d operations without that %v, slowest %v", reopened, len(straight), p99(straight), among[len(among)-1])
	if crowd > 4 && now > 20*before+20*time.Millisecond {
		t.Errorf("the median is %v among hostile clients and %v alone", now, before)
	}
}

// readiness is how long the threads of a process were ready to run without a processor.
type readiness struct {
	at     time.Time
	waited time.Duration
}

// readiness returns that of the present threads of the process, and nothing if the system
// does not report it.
func (p *process) readiness() readiness {
	now := readiness{at: time.Now()}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.command.Process.Pid))
	for _, name := range threads {
		var ran, waited time.Duration
		if text, err := os.ReadFile(name); err == nil {
			_, _ = fmt.Sscan(string(text), &ran, &waited)
		}
		now.waited += waited
	}
	return now
}

// share returns its share of the time since an earlier value, in percent of one thread.
func (r readiness) share(since readiness) float64 {
	return 100 * float64(r.waited-since.waited) / float64(r.at.Sub(since.at))
}

// TestFewDescriptors opens 300 idle connections to a server with 256 descriptors: new
// clients connect, the admin port answers, and stores are created, written and opened.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no descriptor limit")
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := spawnCommand(t, func(args ...string) *exec.Cmd {
		return exec.Command("sh", append([]string{"-c", `ulimit -n 256 && exec "$0" "$@"`, path}, args...)...)
	}, "--data", t.TempDir())
	var quiet []net.Conn
	defer func() {
		for _, conn := range quiet {
			conn.Close()
		}
	}()
	for i := range 300 {
		conn, err := net.Dial("tcp", p.address)
		if err != nil {
			t.Fatal(err)
		}
		quiet = append(quiet, conn)
		if i%3 == 0 { // has asked for something, so that it is a kept one
			request := servertest.Prepare(server.WellKnownKey, "GET", "", nil)
			if _, err := request.WriteTo(conn); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
	}
	client, err := servertest.Dial(p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ask := func(want int, request servertest.Request) {
		t.Helper()
		if response, err := client.Do(request); err != nil || response.Status != want {
			t.Fatalf("%v %d %s\n%s", err, response.Status, response.Body, p.output)
		}
	}
	ask(201, servertest.Prepare(server.WellKnownKey, "POST", "dbs", []byte(`{"id":"d"}`)))
	for i := range 20 {
		ask(201, servertest.Prepare(server.WellKnownKey, "POST", "dbs/d/colls", fmt.Appendf(nil, `{"id":"c%d","partitionKey":{"paths":["/pk"]}}`, i)))
	}
	for range 2 {
		for i := range 20 {
			ask2xx := servertest.Prepare(server.WellKnownKey, "POST", fmt.Sprintf("dbs/d/colls/c%d/docs", i), []byte(`{"id":"1","pk":"a"}`),
				"x-ms-documentdb-partitionkey", `["a"]`, "x-ms-documentdb-is-upsert", "True")
			if response, err := client.Do(ask2xx); err != nil || response.Status/100 != 2 {
				t.Fatalf("%v %d %s\n%s", err, response.Status, response.Body, p.output)
			}
		}
	}
	response, err := http.Get("http://" + p.admin + "/ready")
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("%v %v", response, err)
	}
	response.Body.Close()
	if text := p.output.String(); strings.Contains(text, "too many open files") {
		t.Errorf("the server ran out of descriptors:\n%s", text)
	}
}
