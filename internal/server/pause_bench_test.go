package server

import (
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/server/servertest"
)

// BenchmarkReshape splits a partition of DECAN_RESHAPE_MB of documents (64; the
// published figures have 1,024) and merges it again, DECAN_RESHAPE_ROUNDS times
// (20), under a load equal to the partition's budget, 10,000 RU/s, from 64
// clients. It prints how long writers were stopped, the latency of requests sent
// during a split and during a merge, compared with a control without either that
// is as long as the splits, and how many requests failed.
func BenchmarkReshape(b *testing.B) {
	for b.Loop() {
		r := newReshapeBench(b)
		r.run()
	}
}

// BenchmarkSplitPause is BenchmarkReshape without merges, which take most of its time
// at 1 GB: each round splits a copy of the same data, on a server of its own that has
// served requests for some time.
func BenchmarkSplitPause(b *testing.B) {
	for b.Loop() {
		r := newReshapeBench(b)
		r.runSplits()
	}
}

// BenchmarkBusyWrites makes 64 clients create documents as fast as they can for
// 40 seconds, so that the store always flushes and compacts, and prints how many
// they created and the latency.
func BenchmarkBusyWrites(b *testing.B) {
	for b.Loop() {
		s := benchServer(b, b.TempDir(), 1)
		var all latencies
		var created atomic.Int64
		for end := time.Now().Add(busyTime); time.Now().Before(end); {
			var began [reshapeClients]time.Time
			drive(b, s.address(), reshapeClients, 201, func(client int) (servertest.Request, bool) {
				if !began[client].IsZero() {
					all.add(time.Since(began[client]))
				}
				i := int(created.Add(1))
				request := createRequest(s.Key(), fmt.Sprint("d", i), i)
				began[client] = time.Now()
				return request, true
			})
		}
		rate := float64(created.Load()) / busyTime.Seconds()
		fmt.Printf("\n%.0f creates/s of %d clients as fast as they can\n", rate, reshapeClients)
		report(nil, []during{{"creates", &all}})
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

const busyTime = 40 * time.Second

func newReshapeBench(b *testing.B) *reshapeBench {
	setting := func(name string, number int) int {
		if text := os.Getenv(name); text != "" {
			var err error
			if number, err = strconv.Atoi(text); err != nil || number <= 0 {
				b.Fatalf("%s=%s", name, text)
			}
		}
		return number
	}
	return &reshapeBench{b: b, documents: setting("DECAN_RESHAPE_MB", 64) << 10, rounds: setting("DECAN_RESHAPE_ROUNDS", 20)}
}

const (
	reshapeClients = 64
	reshapeBudget  = 10_000 // RU/s
)

type reshapeBench struct {
	b         *testing.B
	documents int // of 1 KB
	rounds    int
	server    *Server

	mu    sync.RWMutex
	phase *latencies // of the requests sent now; nil for none

	requests atomic.Int64
	failed   atomic.Int64
}

// latencies counts the latencies of requests, in buckets whose bounds differ by
// 1/20.
type latencies struct {
	sent    sync.WaitGroup // unanswered requests
	buckets [400]atomic.Int64
	slowest atomic.Int64 // ns
}

const (
	latencyFirst = 10 * time.Microsecond // the bound of the first bucket
	latencyStep  = 1.05
)

func (l *latencies) add(took time.Duration) {
	bucket := int(math.Log(float64(max(took, latencyFirst))/float64(latencyFirst)) / math.Log(latencyStep))
	l.buckets[min(bucket, len(l.buckets)-1)].Add(1)
	for before := l.slowest.Load(); int64(took) > before && !l.slowest.CompareAndSwap(before, int64(took)); before = l.slowest.Load() {
	}
}

// quantile returns the bound for the given part of the requests, and their
// number.
func (l *latencies) quantile(part float64) (bound time.Duration, n int64) {
	for i := range l.buckets {
		n += l.buckets[i].Load()
	}
	seen := int64(0)
	for i := range l.buckets {
		if seen += l.buckets[i].Load(); float64(seen) >= part*float64(n) {
			return min(time.Duration(float64(latencyFirst)*math.Pow(latencyStep, float64(i+1))), l.max()), n
		}
	}
	return l.max(), n
}

// merge adds the counts of another.
func (l *latencies) merge(other *latencies) {
	for i := range l.buckets {
		l.buckets[i].Add(other.buckets[i].Load())
	}
	l.slowest.Store(max(l.slowest.Load(), other.slowest.Load()))
}

func (l *latencies) max() time.Duration { return time.Duration(l.slowest.Load()) }

// phaseGap precedes and follows each phase: requests sent in it do not count, so
// that no request of one phase waits for another phase.
const phaseGap = 100 * time.Millisecond

// during counts the requests sent during a call, even if they are answered later, and
// returns the latency of the slowest.
func (r *reshapeBench) during(all *latencies, act func()) time.Duration {
	time.Sleep(phaseGap)
	var l latencies
	r.enter(&l)
	act()
	r.enter(nil)
	l.sent.Wait()
	time.Sleep(phaseGap)
	all.merge(&l)
	return l.max()
}

// enter makes l count the requests sent from now on.
func (r *reshapeBench) enter(l *latencies) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = l
}

// send returns the counter of the request that is sent now, nil for none.
func (r *reshapeBench) send() *latencies {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.phase != nil {
		r.phase.sent.Add(1)
	}
	return r.phase
}

// fill creates the container and its documents.
func (r *reshapeBench) fill(data string) {
	r.server = benchServer(r.b, data, 1)
	var next atomic.Int64
	for next.Load() < int64(r.documents) {
		drive(r.b, r.server.address(), reshapeClients, 201, func(int) (servertest.Request, bool) {
			i := int(next.Add(1)) - 1
			return createRequest(r.server.Key(), fmt.Sprint("d", i), i), i < r.documents
		})
	}
	time.Sleep(benchRest) // until the loaded data is flushed and compacted
}

// begin starts the clients, until end is called.
func (r *reshapeBench) begin() (end func()) {
	stop := make(chan struct{})
	var clients sync.WaitGroup
	pair := r.charge("upsert") + r.charge("read")
	for range reshapeClients {
		clients.Go(func() { r.load(time.Duration(reshapeClients*pair/reshapeBudget*float64(time.Second)), stop) })
	}
	return func() {
		close(stop)
		clients.Wait()
	}
}

// split splits the only partition, with its requests counted in all.
func (r *reshapeBench) split(all *latencies) (split cluster.SplitResult, slowest time.Duration) {
	slowest = r.during(all, func() {
		var err error
		split, err = r.server.engine.SplitPartition(r.b.Context(), auth.Owner(), engine.SplitRequest{Link: benchEngineLink, Partition: r.partitions()[0]})
		if err != nil {
			r.b.Fatal(err)
		}
	})
	return split, slowest
}

// warmUp is how long a server serves before it splits.
const warmUp = 10 * time.Second

func (r *reshapeBench) runSplits() {
	data := r.b.TempDir()
	r.fill(data)
	r.close()
	var splits []time.Duration
	var splitting, control latencies
	for round := range r.rounds {
		own := r.b.TempDir()
		copyData(r.b, own, data)
		r.server = start(r.b, Config{Data: own})
		end := r.begin()
		time.Sleep(warmUp)
		split, slowest := r.split(&splitting)
		without := r.during(&control, func() { time.Sleep(split.Took) })
		splits = append(splits, split.Pause)
		fmt.Printf("round %2d: a split took %v, stopped writers for %v, and the slowest request %v; without %v\n", round+1,
			split.Took.Round(time.Millisecond), short(split.Pause), short(slowest), short(without))
		end()
		r.close()
		if err := os.RemoveAll(own); err != nil {
			r.b.Fatal(err)
		}
	}
	report([]stops{{"writers stopped by a split", splits, "aim 50 ms, 100 ms"}}, []during{{"requests without a change", &control}, {"requests during a split", &splitting}})
	fmt.Printf("%d of %d requests failed\n", r.failed.Load(), r.requests.Load())
	fmt.Printf("the slowest is %v above the control during a split (aim 100 ms)\n", short(splitting.max()-control.max()))
}

// copyData copies a data directory that no server uses. Tables, which never
// change, are hard links.
func copyData(b *testing.B, to, from string) {
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		target := filepath.Join(to, name)
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case filepath.Ext(path) == ".sst":
			return os.Link(path, target)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o600)
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (r *reshapeBench) run() {
	r.fill(r.b.TempDir())
	end := r.begin()
	var splits, merges []time.Duration
	var splitting, merging, control latencies
	began, first := time.Now(), r.requests.Load()
	for range r.rounds {
		split, slowSplit := r.split(&splitting)
		splits = append(splits, split.Pause)
		slowest := r.during(&control, func() { time.Sleep(split.Took) })
		var took time.Duration
		both := r.partitions()
		slowMerge := r.during(&merging, func() {
			merge, err := r.server.engine.MergePartitions(r.b.Context(), auth.Owner(), engine.MergeRequest{Link: benchEngineLink, Partitions: [2]resource.PartitionID{both[0], both[1]}})
			if err != nil {
				r.b.Fatal(err)
			}
			merges, took = append(merges, merge.Pause), merge.Took
		})
		fmt.Printf("round %2d: a split took %v, stopped writers for %v, and the slowest request %v; a merge %v, %v and %v; without %v\n", len(splits),
			split.Took.Round(time.Millisecond), short(split.Pause), short(slowSplit), took.Round(time.Millisecond), short(merges[len(merges)-1]), short(slowMerge), short(slowest))
	}
	rate := float64(r.requests.Load()-first) / time.Since(began).Seconds()
	end()
	fmt.Printf("\n%d documents of 1 KB; %.0f requests/s of %d clients, %.0f RU/s asked for\n", r.documents, rate, reshapeClients, float64(reshapeBudget))
	report([]stops{{"writers stopped by a split", splits, "aim 50 ms, 100 ms"}, {"writers stopped by a merge", merges, ""}},
		[]during{{"requests without a change", &control}, {"requests during a split", &splitting}, {"requests during a merge", &merging}})
	fmt.Printf("%d of %d requests failed\n", r.failed.Load(), r.requests.Load())
	fmt.Printf("the slowest is %v above the control during a split (aim 100 ms), %v during a merge\n", short(splitting.max()-control.max()), short(merging.max()-control.max()))
	r.close()
}

func (r *reshapeBench) close() {
	if err := r.server.Close(); err != nil {
		r.b.Fatal(err)
	}
}

// stops are the times during which writers were stopped, and during the
// latencies.
type (
	stops struct {
		what  string
		times []time.Duration
		aim   string
	}
	during struct {
		what string
		of   *latencies
	}
)

// report prints them.
func report(stopped []stops, requests []during) {
	for _, line := range stopped {
		slices.Sort(line.times)
		fmt.Printf("%-32s median %-10v max %-10v %s\n", line.what, short(line.times[len(line.times)/2]), short(line.times[len(line.times)-1]), line.aim)
	}
	for _, line := range requests {
		median, n := line.of.quantile(0.5)
		most, _ := line.of.quantile(0.99)
		rare, _ := line.of.quantile(0.999)
		fmt.Printf("%-32s median %-10v p99 %-10v p99.9 %-10v max %-10v %d\n", line.what, short(median), short(most), short(rare), short(line.of.max()), n)
	}
}

// short omits irrelevant attributes.
func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

func (r *reshapeBench) partitions() (ids []resource.PartitionID) {
	stats, err := r.server.engine.PartitionStats(r.b.Context(), auth.Owner(), benchEngineLink)
	if err != nil {
		r.b.Fatal(err)
	}
	for _, s := range stats {
		ids = append(ids, s.Partition.ID)
	}
	return ids
}

// request reads or replaces a random document.
func (r *reshapeBench) request(kind string) servertest.Request {
	i := rand.IntN(r.documents)
	id := fmt.Sprint("d", i)
	if kind == "read" {
		return servertest.Prepare(r.server.Key(), "GET", benchLink+"/"+id, nil, "x-ms-documentdb-partitionkey", documentKey(i))
	}
	return servertest.Prepare(r.server.Key(), "POST", benchLink, []byte(document(id, i)), "x-ms-documentdb-partitionkey", documentKey(i), "x-ms-documentdb-is-upsert", "True")
}

// charge returns the charge of a request.
func (r *reshapeBench) charge(kind string) float64 {
	client, err := servertest.Dial(r.server.address())
	if err != nil {
		r.b.Fatal(err)
	}
	defer client.Close()
	client.KeepHeaders = true
	response, err := client.Do(r.request(kind))
	if err != nil || response.Status != 200 {
		r.b.Fatalf("%v %d %s", err, response.Status, response.Body)
	}
	charge, err := strconv.ParseFloat(response.Header.Get("x-ms-request-charge"), 64)
	if err != nil {
		r.b.Fatal(err)
	}
	return charge
}

// load is one client: it makes a write and a read in each interval, and does not
// catch up when it is late.
func (r *reshapeBench) load(interval time.Duration, stop chan struct{}) {
	client, err := servertest.Dial(r.server.address())
	if err != nil {
		r.b.Error(err)
		return
	}
	defer client.Close()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for _, kind := range []string{"upsert", "read"} {
			phase, began := r.send(), time.Now()
			response, err := client.Do(r.request(kind))
			if phase != nil {
				phase.add(time.Since(began))
				phase.sent.Done()
			}
			r.requests.Add(1)
			if err != nil || response.Status != 200 {
				r.failed.Add(1)
				r.b.Errorf("%s: %v %d %s", kind, err, response.Status, response.Body)
				if err != nil {
					return
				}
			}
		}
	}
}
