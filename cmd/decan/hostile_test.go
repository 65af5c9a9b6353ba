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

// hostile is a kind of client that misbehaves, once, on a connection of its own.
type hostile struct {
	name string
	do   func(conn net.Conn, random *rand.Rand)
}

// hostiles are all kinds. Each returns when the server ends the connection, or earlier.
var hostiles = []hostile{
	{"says nothing", func(conn net.Conn, _ *rand.Rand) { drain(conn) }},
	{"announces a body", func(conn net.Conn, _ *rand.Rand) {
		conn.Write(hostileHead(2 << 20))
		drain(conn)
	}},
	{"sends a body slowly", func(conn net.Conn, random *rand.Rand) {
		conn.Write(hostileHead(2 << 20))
		conn.Write(bytes.Repeat([]byte(" "), random.IntN(1<<20)))
		drain(conn)
	}},
	{"goes in the middle of a body", func(conn net.Conn, random *rand.Rand) {
		conn.Write(hostileHead(2 << 20))
		conn.Write(bytes.Repeat([]byte(" "), random.IntN(1<<20)))
	}},
	{"does not read a large answer", func(conn net.Conn, _ *rand.Rand) {
		for range 20 {
			request := servertest.Prepare(server.WellKnownKey, "GET", "dbs/crash/colls/c/docs/large", nil, "x-ms-documentdb-partitionkey", `["t","u"]`)
			if _, err := request.WriteTo(conn); err != nil {
				return
			}
		}
		time.Sleep(hostileTimeout) // It is cut meanwhile.
	}},
	{"goes in the middle of an answer", func(conn net.Conn, _ *rand.Rand) {
		request := servertest.Prepare(server.WellKnownKey, "GET", "dbs/crash/colls/c/docs/large", nil, "x-ms-documentdb-partitionkey", `["t","u"]`)
		request.WriteTo(conn)
		io.CopyN(io.Discard, conn, 100)
	}},
	{"sends headers without end", func(conn net.Conn, _ *rand.Rand) {
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n")
		for i := range 1000 {
			if _, err := fmt.Fprintf(conn, "x-%d: %s\r\n", i, strings.Repeat("x", 200)); err != nil {
				return
			}
		}
		drain(conn)
	}},
	{"stops in its headers", func(conn net.Conn, _ *rand.Rand) {
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: loc")
		drain(conn)
	}},
	{"stops in the handshake of TLS", func(conn net.Conn, _ *rand.Rand) {
		io.WriteString(conn, "\x16\x03\x01\x02\x00\x01\x00")
		drain(conn)
	}},
	{"sends noise", func(conn net.Conn, random *rand.Rand) {
		for range 100 {
			fmt.Fprintf(conn, "%c%d\r\n", rune(random.IntN(256)), random.Uint64())
		}
		drain(conn)
	}},
}

const (
	hostileTimeout = time.Second            // what slow clients have in these tests
	hostilePause   = 100 * time.Millisecond // so that hostile clients leave their own processor time to others
)

func drain(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func hostileHead(length int) []byte {
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	return fmt.Appendf(nil, "POST /dbs/crash/colls/c/docs HTTP/1.1\r\nHost: localhost\r\nx-ms-date: %s\r\nauthorization: %s\r\nx-ms-documentdb-partitionkey: [\"t\",\"u\"]\r\nContent-Length: %d\r\n\r\n",
		date, servertest.Authorization(server.WellKnownKey, "POST", "docs", "dbs/crash/colls/c", date), length)
}

// hostileMemory is what the server may have in memory, in MB.
const hostileMemory = 512

// TestHostile has clients of all kinds misbehave while others work: every answer to
// those is right, and the memory of the server has a bound. DECAN_HOSTILE sets how long
// it runs; `make hostile` runs three minutes with ten times as many, and wants the median
// latency of the others within 20 times of what it is alone, and 20 ms.
func TestHostile(t *testing.T) {
	length, crowd := time.Second, 4
	if text := os.Getenv("DECAN_HOSTILE"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		crowd = 40
	}
	p := spawn(t, "--in-memory", "--read-timeout", hostileTimeout.String(), "--write-timeout", hostileTimeout.String(),
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
	for _, r := range []servertest.Request{document("large", strings.Repeat("x", 1_900_000)), document("small", "x")} {
		if response, err := client.Do(r); err != nil || response.Status != 201 {
			t.Fatalf("%v %d %s", err, response.Status, response.Body)
		}
	}
	// work reads and writes small documents, and returns how long that took each time. A
	// connection that was closed to make room is opened again, as clients do.
	work := func(length time.Duration) (took []time.Duration, reopened int) {
		var own *servertest.Client
		var err error
		defer func() {
			if own != nil {
				own.Close()
			}
		}()
		for end := time.Now().Add(length); time.Now().Before(end); {
			request, want := document("small", "y"), 200
			if len(took)%2 == 0 {
				request = servertest.Prepare(server.WellKnownKey, "GET", "dbs/crash/colls/c/docs/small", nil, "x-ms-documentdb-partitionkey", `["t","u"]`)
			}
			began := time.Now()
			for {
				if own == nil {
					if own, err = servertest.Dial(p.address); err != nil {
						if reopened++; time.Since(began) > startTime {
							t.Error(err)
							return took, reopened
						}
						own = nil
						continue
					}
				}
				response, err := own.Do(request)
				if err == nil {
					if response.Status != want {
						t.Errorf("%d %.200s", response.Status, response.Body)
						return took, reopened
					}
					break
				}
				own.Close()
				if own = nil; time.Since(began) > startTime {
					t.Error(err)
					return took, reopened
				}
				reopened++
			}
			took = append(took, time.Since(began))
		}
		return took, reopened
	}
	alone, _ := work(length / 4)

	var stop atomic.Bool
	var wait sync.WaitGroup
	var counts [64]atomic.Int64
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i, kind := range hostiles {
		for j := range crowd {
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
	among, reopened := work(length)
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
	for i, kind := range hostiles {
		t.Logf("%-32s %d", kind.name, counts[i].Load())
	}
	if len(alone) < 10 || len(among) < 10 {
		t.Fatalf("%d operations alone and %d among hostile clients", len(alone), len(among))
	}
	slices.Sort(alone)
	slices.Sort(among)
	before, now := alone[len(alone)/2], among[len(among)/2]
	t.Logf("%d operations, median %v alone, %v among hostile clients, p99 %v and %v, reopened %d times",
		len(among), before, now, alone[len(alone)*99/100], among[len(among)*99/100], reopened)
	if crowd > 4 && now > 20*before+20*time.Millisecond {
		t.Errorf("the median is %v among hostile clients and %v alone", now, before)
	}
}

// With 256 descriptors, 300 quiet connections keep neither a new client out nor the
// admin port from answering, nor stores from being made, written and opened.
func TestFewDescriptors(t *testing.T) {
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
