package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/server/servertest"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// BenchmarkRatios compares Decan with its lower bounds, in one run, with the same
// raw client on both sides: only the ratios are meaningful, since machines differ
// and are noisy. `make bench` runs it and prints the table of docs/benchmarks.md.
func BenchmarkRatios(b *testing.B) {
	for b.Loop() {
		table := &ratios{b: b}
		table.pointReads()
		table.creates()
		table.indexedEquality()
		table.createsOverPartitions()
		table.print()
	}
}

const (
	benchRounds   = 5               // measurements of each pair, alternating
	benchDuration = 2 * time.Second // of each measurement
)

type ratios struct {
	b    *testing.B
	rows [][]string
}

func (r *ratios) add(what, decan, other, ratio, target string) {
	r.rows = append(r.rows, []string{what, decan, other, ratio, target})
}

func (r *ratios) print() {
	fmt.Fprintf(os.Stdout, "\n%s, %d processors; median of %d rounds of %s\n", runtime.Version(), runtime.GOMAXPROCS(0), benchRounds, benchDuration)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "what\tdecan\tother side\tratio\taim")
	for _, row := range r.rows {
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	out.Flush()
}

// document returns a document of 1 KB with 15 indexed paths: id, two of the key,
// _ts and eleven more.
func document(id string, i int) string {
	text := fmt.Sprintf(`{"id":%q,"tenant":"t%d","user":"u%d","kind":"order","status":"open","region":"north","count":%d,"price":%d.25,"score":%d,"city":"city-%d","unique":"value-%d","flag":true,"stage":%d,"owner":"o%d","note":"`,
		id, i%10, i%100, i%7, i%1000, i%50, i%200, i, i%5, i%300)
	return text + strings.Repeat("x", max(0, 1022-len(text))) + `"}`
}

func documentKey(i int) string { return fmt.Sprintf(`["t%d","u%d"]`, i%10, i%100) }

const benchContainer = `{"id":"c","partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2},` +
	`"indexingPolicy":{"indexingMode":"consistent","includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/note/?"},{"path":"/\"_etag\"/?"}]}}`

const benchLink = "dbs/bench/colls/c/docs"

func benchServer(tb testing.TB, data string, partitions int) *Server {
	tb.Helper()
	s := start(tb, Config{Data: data})
	if err := s.CreateContainer(context.Background(), "bench", benchContainer, partitions); err != nil {
		tb.Fatal(err)
	}
	return s
}

func createRequest(key, id string, i int) servertest.Request {
	return servertest.Prepare(key, "POST", benchLink, []byte(document(id, i)), "x-ms-documentdb-partitionkey", documentKey(i))
}

// drive sends requests over connections until the time is over or next has none left,
// and returns the answers per second. Each connection calls next with its own number.
func drive(b *testing.B, address string, connections int, want int, next func(connection int) (servertest.Request, bool)) float64 {
	b.Helper()
	var count atomic.Int64
	var stop atomic.Bool
	var wait sync.WaitGroup
	began := time.Now()
	timer := time.AfterFunc(benchDuration, func() { stop.Store(true) })
	defer timer.Stop()
	for c := range connections {
		client, err := servertest.Dial(address)
		if err != nil {
			b.Fatal(err)
		}
		wait.Go(func() {
			defer client.Close()
			for !stop.Load() {
				request, more := next(c)
				if !more {
					return
				}
				response, err := client.Do(request)
				if err != nil || response.Status != want {
					b.Errorf("%v %d %s", err, response.Status, response.Body)
					return
				}
				count.Add(1)
			}
		})
	}
	wait.Wait()
	return float64(count.Load()) / time.Since(began).Seconds()
}

// bare serves handler with net/http alone.
func bare(b *testing.B, handler http.HandlerFunc) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go server.Serve(listener)
	b.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

func median(figures []float64) float64 {
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// pointReads measures reads of 1 KB documents at 16 connections against a bare
// server that answers 1 KB.
func (r *ratios) pointReads() {
	const documents = 1000
	s := benchServer(r.b, r.b.TempDir(), 1)
	client, err := servertest.Dial(s.address())
	if err != nil {
		r.b.Fatal(err)
	}
	reads := make([]servertest.Request, documents)
	for i := range reads {
		id := fmt.Sprintf("d%d", i)
		if response, err := client.Do(createRequest(s.Key(), id, i)); err != nil || response.Status != 201 {
			r.b.Fatalf("%v %d %s", err, response.Status, response.Body)
		}
		reads[i] = servertest.Prepare(s.Key(), "GET", benchLink+"/"+id, nil, "x-ms-documentdb-partitionkey", documentKey(i))
	}
	client.Close()
	body := []byte(strings.Repeat("x", 1024))
	other := bare(r.b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1024")
		w.Write(body)
	})
	next := func(c int) (servertest.Request, bool) { return reads[rand.IntN(documents)], true }
	var ours, theirs, quotients []float64
	for range benchRounds {
		mine, its := drive(r.b, s.address(), 16, 200, next), drive(r.b, other, 16, 200, next)
		ours, theirs, quotients = append(ours, mine), append(theirs, its), append(quotients, mine/its)
	}
	r.add("point reads, 1 KB, 16 connections", fmt.Sprintf("%.0f/s", median(ours)),
		fmt.Sprintf("%.0f/s bare net/http, 1 KB", median(theirs)), fmt.Sprintf("%.2f", median(quotients)), "at least 0.5")
}

// recorder is a Solo that keeps the effects proposed to it.
type recorder struct {
	*replication.Solo

	mu      sync.Mutex
	effects []replication.Effect
}

// Propose keeps a copy of the effect.
func (r *recorder) Propose(ctx context.Context, ref replication.PartitionRef, effect replication.Effect) *replication.Proposal {
	kept := effect
	kept.Rows = slices.Clone(effect.Rows)
	r.mu.Lock()
	r.effects = append(r.effects, kept)
	r.mu.Unlock()
	return r.Solo.Propose(ctx, ref, effect)
}

// applier is the state machine of a partition in a group of its own.
type applier struct{ partition *partition.Partition }

// Apply hands the effects to the partition.
func (a *applier) Apply(_ replication.PartitionRef, effects []replication.Effect) ([]error, error) {
	return a.partition.Apply(effects)
}

// rowsOf returns the effects of n creates, as a partition evaluates them.
func (r *ratios) rowsOf(n int) []replication.Effect {
	body, err := value.ParseString(benchContainer)
	if err != nil {
		r.b.Fatal(err)
	}
	container, err := resource.ParseContainer(body)
	if err != nil {
		r.b.Fatal(err)
	}
	container.RID = resource.ContainerRID(resource.DatabaseRID(1), 1)
	pool, err := storage.NewPool(storage.Options{InMemory: true})
	if err != nil {
		r.b.Fatal(err)
	}
	defer pool.Close()
	store, err := pool.Create("p")
	if err != nil {
		r.b.Fatal(err)
	}
	defer store.Close()
	machine := &applier{}
	group := &recorder{Solo: replication.NewSolo(machine)}
	defer group.Close()
	config := partition.Config{Store: store, Group: group, Container: func() *resource.Container { return &container }}
	if err := partition.Initialize(config, resource.Partition{Range: partitionkey.Full(), Generation: 1}); err != nil {
		r.b.Fatal(err)
	}
	if machine.partition, err = partition.Open(config); err != nil {
		r.b.Fatal(err)
	}
	defer machine.partition.Close()
	var wait sync.WaitGroup
	for worker := range 16 {
		wait.Go(func() {
			for i := worker; i < n; i += 16 {
				id := fmt.Sprintf("e%d", i)
				doc, err := value.ParseString(document(id, i))
				if err != nil {
					r.b.Error(err)
					return
				}
				key := container.KeyOf(doc)
				_, err = machine.partition.Write(context.Background(), partition.Write{
					Op: partition.Create, Generation: 1, EPK: container.PartitionKey.Hash(key), Key: key, ID: id, Document: doc,
				})
				if err != nil {
					r.b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	return group.effects
}

// rows is a state machine that only commits rows.
type rows struct{ store *storage.Store }

// Apply commits the effects in one synced batch.
func (m rows) Apply(_ replication.PartitionRef, effects []replication.Effect) ([]error, error) {
	batch := m.store.NewBatch()
	defer batch.Close()
	for _, effect := range effects {
		if err := batch.Append(effect.Rows); err != nil {
			return nil, err
		}
	}
	return nil, m.store.Apply(batch)
}

// creates measures durable creates of 1 KB documents with 15 indexed paths on one
// partition at 64 connections, against a bare handler that commits the same rows
// through Solo.
func (r *ratios) creates() {
	effects := r.rowsOf(20_000)
	var ours, theirs, quotients []float64
	for round := range benchRounds {
		mine := r.createsOver(1, 64)
		its := r.bareCommits(filepath.Join(r.b.TempDir(), fmt.Sprint(round)), effects)
		ours, theirs, quotients = append(ours, mine), append(theirs, its), append(quotients, mine/its)
	}
	r.add("durable creates, 1 KB, 15 paths, 64 connections", fmt.Sprintf("%.0f/s", median(ours)),
		fmt.Sprintf("%.0f/s bare net/http, same rows through Solo", median(theirs)), fmt.Sprintf("%.2f", median(quotients)), "at least 0.7")
}

// createsOver measures creates in a new container.
func (r *ratios) createsOver(partitions, connections int) float64 {
	s := benchServer(r.b, r.b.TempDir(), partitions)
	defer s.Close()
	prepared := make([][]servertest.Request, connections)
	const each = 600
	for c := range prepared {
		for i := range each {
			prepared[c] = append(prepared[c], createRequest(s.Key(), fmt.Sprintf("c%d-%d", c, i), c*each+i))
		}
	}
	positions := make([]int, connections)
	return drive(r.b, s.address(), connections, 201, func(c int) (servertest.Request, bool) {
		i := positions[c]
		positions[c]++
		if i >= each {
			return servertest.Request{}, false
		}
		return prepared[c][i], true
	})
}

func (r *ratios) bareCommits(dir string, effects []replication.Effect) float64 {
	pool, err := storage.NewPool(storage.Options{})
	if err != nil {
		r.b.Fatal(err)
	}
	defer pool.Close()
	store, err := pool.Create(dir)
	if err != nil {
		r.b.Fatal(err)
	}
	defer store.Close()
	group := replication.NewSolo(rows{store})
	defer group.Close()
	var used atomic.Int64
	address := bare(r.b, func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		i := used.Add(1) - 1
		if err := group.Propose(req.Context(), replication.PartitionRef{Partition: 1}, effects[i%int64(len(effects))]).Wait(req.Context()); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusCreated)
	})
	request := createRequest(WellKnownKey, "same", 1)
	return drive(r.b, address, 64, 201, func(int) (servertest.Request, bool) { return request, used.Load() < int64(len(effects)) })
}

// indexedEquality measures a query that returns one of 100,000 documents by an
// indexed path, against a point read: one connection, p50.
func (r *ratios) indexedEquality() {
	const documents = 100_000
	s := benchServer(r.b, "", 1)
	var wait sync.WaitGroup
	for worker := range 16 {
		client, err := servertest.Dial(s.address())
		if err != nil {
			r.b.Fatal(err)
		}
		wait.Go(func() {
			defer client.Close()
			for i := worker; i < documents; i += 16 {
				if response, err := client.Do(createRequest(s.Key(), fmt.Sprintf("q%d", i), i)); err != nil || response.Status != 201 {
					r.b.Errorf("%v %d %s", err, response.Status, response.Body)
					return
				}
			}
		})
	}
	wait.Wait()
	queries := make([]servertest.Request, 500)
	reads := make([]servertest.Request, 500)
	for k := range queries {
		i := rand.IntN(documents)
		queries[k] = servertest.Prepare(s.Key(), "POST", benchLink, fmt.Appendf(nil, `{"query":"SELECT * FROM c WHERE c[\"unique\"] = @v","parameters":[{"name":"@v","value":"value-%d"}]}`, i),
			"x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json", "x-ms-documentdb-query-enablecrosspartition", "True")
		reads[k] = servertest.Prepare(s.Key(), "GET", fmt.Sprintf("%s/q%d", benchLink, i), nil, "x-ms-documentdb-partitionkey", documentKey(i))
	}
	client, err := servertest.Dial(s.address())
	if err != nil {
		r.b.Fatal(err)
	}
	defer client.Close()
	p50 := func(requests []servertest.Request) float64 {
		var took []float64
		for range 4 {
			for _, request := range requests {
				began := time.Now()
				response, err := client.Do(request)
				took = append(took, float64(time.Since(began).Microseconds()))
				if err != nil || response.Status != 200 {
					r.b.Fatalf("%v %d %s", err, response.Status, response.Body)
				}
			}
		}
		return median(took)
	}
	var ours, theirs, quotients []float64
	for range benchRounds {
		query, read := p50(queries), p50(reads)
		ours, theirs, quotients = append(ours, query), append(theirs, read), append(quotients, query/read)
	}
	r.add("equality on an indexed path, 1 of 100,000, p50", fmt.Sprintf("%.0f µs", median(ours)),
		fmt.Sprintf("%.0f µs point read", median(theirs)), fmt.Sprintf("%.2f", median(quotients)), "at most 3")
}

// createsOverPartitions measures how creates are distributed.
func (r *ratios) createsOverPartitions() {
	figures := map[int][]float64{}
	for range 3 {
		for _, partitions := range []int{1, 4, 16} {
			figures[partitions] = append(figures[partitions], r.createsOver(partitions, 64))
		}
	}
	one := median(figures[1])
	for _, partitions := range slices.SortedFunc(slices.Values([]int{1, 4, 16}), cmp.Compare) {
		figure := median(figures[partitions])
		r.add(fmt.Sprintf("durable creates over %d partitions, 64 connections", partitions), fmt.Sprintf("%.0f/s", figure),
			fmt.Sprintf("%.0f/s over one", one), fmt.Sprintf("%.2f", figure/one), "published")
	}
}
