package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// BenchmarkKeyQueries measures queries within one full partition key, with a server
// in a process of its own: ten rows of the 2,000 documents of a key, against point
// reads, in processor time of the server. It does so at the numbers of documents in
// DECAN_BENCH_ITEMS (10,000 and 100,000), all in one physical partition; after
// loading, and again right after 30,000 upserts of the documents of a few keys.
// `make bench` runs it and prints the table of docs/benchmarks.md. It reads /proc,
// so it needs Linux.
func BenchmarkKeyQueries(b *testing.B) {
	if runtime.GOOS != "linux" {
		b.Skip("reads /proc")
	}
	sizes := []int{10_000, 100_000}
	if text := os.Getenv("DECAN_BENCH_ITEMS"); text != "" {
		sizes = nil
		for field := range strings.SplitSeq(text, ",") {
			var n int
			if _, err := fmt.Sscan(field, &n); err != nil {
				b.Fatal(err)
			}
			sizes = append(sizes, n)
		}
	}
	for b.Loop() {
		first := map[string]float64{}
		fmt.Printf("\n%-46s %10s %12s %12s %8s %8s\n", "what", "documents", "µs", "point read", "ratio", "growth")
		for _, size := range sizes {
			for _, f := range newKeyBench(b, size).run() {
				growth := "1.00"
				if first[f.what] == 0 {
					first[f.what] = f.took
				} else {
					growth = fmt.Sprintf("%.2f", f.took/first[f.what])
				}
				fmt.Printf("%-46s %10d %12.0f %12.0f %8.2f %8s\n", f.what, size, f.took, f.read, f.took/f.read, growth)
			}
		}
	}
}

const (
	keyBenchEach    = 2000 // documents of a key
	keyBenchUpserts = 30_000
	keyBenchLink    = "dbs/bench/colls/c/docs"
	keyBenchRounds  = 5
	// keyBenchAsked is how many keys are asked, and upserted.
	keyBenchAsked = 5
)

// keyBench is a server with documents, keyBenchEach in each key.
type keyBench struct {
	b       *testing.B
	items   int
	keys    int
	process *process
	client  *servertest.Client
}

func newKeyBench(b *testing.B, items int) *keyBench {
	q := &keyBench{b: b, items: items, keys: items / keyBenchEach}
	q.process = spawn(b, "--data", filepath.Join(b.TempDir(), "data"), "--cache", "1GB", "--idle-timeout", "2h")
	var err error
	if q.client, err = servertest.Dial(q.process.address); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { q.client.Close() })
	q.do(servertest.Prepare(server.WellKnownKey, "POST", "dbs", []byte(`{"id":"bench"}`)), 201)
	q.do(servertest.Prepare(server.WellKnownKey, "POST", "dbs/bench/colls", []byte(`{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`),
		"x-ms-offer-throughput", "10000"), 201)
	q.load(items, func(i int) int { return i }, 1)
	time.Sleep(3 * time.Second) // lets the flush of fragmented lists finish, which waits for 200 ms without writes
	return q
}

// body is the i-th document in its n-th version. Ten of each key share a group,
// which all keys have, and a batch, which no other key has.
func (q *keyBench) body(i, n int) []byte {
	key, at := i%q.keys, i/q.keys
	text := fmt.Sprintf(`{"id":"d%d","pk":"k%d","group":"g%d","batch":"b%d-%d","rank":%d,"version":%d,"half":"h%d","kind":"order","status":"open","city":"city-%d","flag":true,"note":"`,
		i, key, at/10, key, at/10, at, n, (at/10+n)%2, i%200)
	return []byte(text + strings.Repeat("x", max(0, 1022-len(text))) + `"}`)
}

func (q *keyBench) key(i int) string { return fmt.Sprintf(`["k%d"]`, i%q.keys) }

// load upserts documents over many connections.
func (q *keyBench) load(n int, which func(i int) int, version int) {
	const loaders = 32
	var wait sync.WaitGroup
	for worker := range loaders {
		client, err := servertest.Dial(q.process.address)
		if err != nil {
			q.b.Fatal(err)
		}
		wait.Go(func() {
			defer client.Close()
			for i := worker; i < n; i += loaders {
				d := which(i)
				request := servertest.Prepare(server.WellKnownKey, "POST", keyBenchLink, q.body(d, version+i/q.items),
					"x-ms-documentdb-partitionkey", q.key(d), "x-ms-documentdb-is-upsert", "True")
				if response, err := client.Do(request); err != nil || response.Status != 201 && response.Status != 200 {
					q.b.Errorf("%v %d %s", err, response.Status, response.Body)
					return
				}
			}
		})
	}
	wait.Wait()
}

func (q *keyBench) do(r servertest.Request, want int) servertest.Response {
	response, err := q.client.Do(r)
	if err != nil || response.Status != want {
		q.b.Fatalf("%v %d %s", err, response.Status, response.Body)
	}
	return response
}

func (q *keyBench) query(key int, text string, params ...any) servertest.Request {
	list := []map[string]any{}
	for i := 0; i+1 < len(params); i += 2 {
		list = append(list, map[string]any{"name": params[i], "value": params[i+1]})
	}
	body, err := json.Marshal(map[string]any{"query": text, "parameters": list})
	if err != nil {
		q.b.Fatal(err)
	}
	return servertest.Prepare(server.WellKnownKey, "POST", keyBenchLink, body, "x-ms-documentdb-partitionkey", q.key(key),
		"x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json")
}

// figure is the processor time of a kind of query, and of a point read at the same
// time, in microseconds.
type figure struct {
	what       string
	took, read float64
}

func (q *keyBench) run() []figure {
	figures := q.measure("after loading")
	asked := keyBenchAsked * keyBenchEach
	q.load(keyBenchUpserts, func(i int) int { i %= asked; return i/keyBenchAsked*q.keys + i%keyBenchAsked }, 2)
	figures = append(figures, q.measure("after upserts")...)
	q.process.kill()
	return figures
}

// measure asks each kind of query in turn with point reads.
func (q *keyBench) measure(when string) []figure {
	type kind struct {
		what     string
		requests []servertest.Request
		took     []float64
	}
	kinds := []*kind{{what: "point read"}, {what: "a group of all keys"}, {what: "a batch of the key"}, {what: "a range"}, {what: "a group and a half"}}
	const requests = 400
	for n := range requests {
		key, at := n%keyBenchAsked, rand.IntN(keyBenchEach/10)
		d := at*10*q.keys + key
		kinds[0].requests = append(kinds[0].requests, servertest.Prepare(server.WellKnownKey, "GET", fmt.Sprintf("%s/d%d", keyBenchLink, d), nil, "x-ms-documentdb-partitionkey", q.key(d)))
		kinds[1].requests = append(kinds[1].requests, q.query(key, "SELECT * FROM c WHERE c[\"group\"] = @v", "@v", fmt.Sprintf("g%d", at)))
		kinds[2].requests = append(kinds[2].requests, q.query(key, "SELECT * FROM c WHERE c.batch = @v", "@v", fmt.Sprintf("b%d-%d", key, at)))
		kinds[3].requests = append(kinds[3].requests, q.query(key, "SELECT * FROM c WHERE c.rank >= @v AND c.rank < @w", "@v", at*10, "@w", at*10+10))
		kinds[4].requests = append(kinds[4].requests, q.query(key, "SELECT * FROM c WHERE c[\"group\"] = @v AND c.half IN (\"h0\", \"h1\")", "@v", fmt.Sprintf("g%d", at)))
	}
	for range keyBenchRounds {
		for i, k := range kinds {
			began := q.process.cpu(q.b)
			for _, r := range k.requests {
				if response := q.do(r, 200); i > 0 && !strings.Contains(string(response.Body), `"_count":10`) {
					q.b.Fatalf("%s: not ten rows: %.300s", k.what, response.Body)
				}
			}
			k.took = append(k.took, (q.process.cpu(q.b)-began).Seconds()*1e6/requests)
		}
	}
	var figures []figure
	for _, k := range kinds[1:] {
		slices.Sort(k.took)
		slices.Sort(kinds[0].took)
		figures = append(figures, figure{k.what + ", " + when, k.took[keyBenchRounds/2], kinds[0].took[keyBenchRounds/2]})
	}
	return figures
}

// cpu returns the processor time of the process so far. The id of a process's
// clock is made of its own, see clock_getcpuclockid(3).
func (p *process) cpu(b *testing.B) time.Duration {
	var at unix.Timespec
	const scheduled = 2
	if err := unix.ClockGettime(int32(^p.command.Process.Pid<<3|scheduled), &at); err != nil {
		b.Fatal(err)
	}
	return time.Duration(at.Nano())
}
