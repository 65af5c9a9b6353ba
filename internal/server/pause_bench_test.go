package server

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/server/servertest"
)

// BenchmarkReshape splits a partition of DECAN_RESHAPE_MB of documents (64; the
// published figures have 1,024) and merges it again, DECAN_RESHAPE_ROUNDS times (20),
// under a load that costs what the partition's budget is, 10,000 RU/s, from 64
// clients. It prints for how long writers were stopped, what requests took that were
// sent during a split and during a merge, next to those of a control without either
// that is as long as the splits are, and how many requests failed.
func BenchmarkReshape(b *testing.B) {
	setting := func(name string, number int) int {
		if text := os.Getenv(name); text != "" {
			var err error
			if number, err = strconv.Atoi(text); err != nil || number <= 0 {
				b.Fatalf("%s=%s", name, text)
			}
		}
		return number
	}
	for b.Loop() {
		r := &reshapeBench{b: b, documents: setting("DECAN_RESHAPE_MB", 64) << 10, rounds: setting("DECAN_RESHAPE_ROUNDS", 20)}
		r.run()
	}
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

	phase    atomic.Pointer[latencies] // of the requests that are sent now; nil for none
	requests atomic.Int64
	failed   atomic.Int64
}

// latencies counts what requests took, in buckets that are a 20th apart.
type latencies struct {
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

// quantile returns the bound that a part of the requests stayed below, and how many
// there are.
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

// merge adds what another has counted.
func (l *latencies) merge(other *latencies) {
	for i := range l.buckets {
		l.buckets[i].Add(other.buckets[i].Load())
	}
	l.slowest.Store(max(l.slowest.Load(), other.slowest.Load()))
}

func (l *latencies) max() time.Duration { return time.Duration(l.slowest.Load()) }

// phaseGap lies before and behind each phase: what is sent in it counts for none, so
// that no request of one waits for another.
const phaseGap = 100 * time.Millisecond

// during has the requests that are sent meanwhile counted, and returns what the
// slowest of them took.
func (r *reshapeBench) during(all *latencies, act func()) time.Duration {
	time.Sleep(phaseGap)
	var l latencies
	r.phase.Store(&l)
	act()
	r.phase.Store(nil)
	time.Sleep(phaseGap) // for those under way
	all.merge(&l)
	return l.max()
}

func (r *reshapeBench) run() {
	r.server = benchServer(r.b, r.b.TempDir(), 1)
	var next atomic.Int64
	for next.Load() < int64(r.documents) {
		drive(r.b, r.server.address(), reshapeClients, 201, func(int) (servertest.Request, bool) {
			i := int(next.Add(1)) - 1
			return createRequest(r.server.Key(), fmt.Sprint("d", i), i), i < r.documents
		})
	}

	time.Sleep(benchRest) // until what was loaded has found its place

	stop := make(chan struct{})
	var clients sync.WaitGroup
	pair := r.charge("upsert") + r.charge("read")
	for range reshapeClients {
		clients.Go(func() { r.load(time.Duration(reshapeClients*pair/reshapeBudget*float64(time.Second)), stop) })
	}
	var splits, merges []time.Duration
	var splitting, merging, control latencies
	began, first := time.Now(), r.requests.Load()
	for range r.rounds {
		var took time.Duration
		whole := r.partitions()[0]
		slowSplit := r.during(&splitting, func() {
			split, err := r.server.engine.SplitPartition(r.b.Context(), auth.Owner(), engine.SplitRequest{Link: benchEngineLink, Partition: whole})
			if err != nil {
				r.b.Fatal(err)
			}
			splits, took = append(splits, split.Pause), split.Took
		})
		slowest := r.during(&control, func() { time.Sleep(took) })
		splitTook := took
		both := r.partitions()
		slowMerge := r.during(&merging, func() {
			merge, err := r.server.engine.MergePartitions(r.b.Context(), auth.Owner(), engine.MergeRequest{Link: benchEngineLink, Partitions: [2]resource.PartitionID{both[0], both[1]}})
			if err != nil {
				r.b.Fatal(err)
			}
			merges, took = append(merges, merge.Pause), merge.Took
		})
		fmt.Printf("round %2d: a split took %v, stopped writers for %v, and the slowest request %v; a merge %v, %v and %v; without %v\n", len(splits),
			splitTook.Round(time.Millisecond), short(splits[len(splits)-1]), short(slowSplit), took.Round(time.Millisecond), short(merges[len(merges)-1]), short(slowMerge), short(slowest))
	}
	rate := float64(r.requests.Load()-first) / time.Since(began).Seconds()
	close(stop)
	clients.Wait()
	fmt.Printf("\n%d documents of 1 KB; %.0f requests/s of %d clients, %.0f RU/s asked for\n", r.documents, rate, reshapeClients, float64(reshapeBudget))
	for _, line := range []struct {
		what  string
		times []time.Duration
		aim   string
	}{
		{"writers stopped by a split", splits, "aim 50 ms, 100 ms"},
		{"writers stopped by a merge", merges, ""},
	} {
		slices.Sort(line.times)
		fmt.Printf("%-32s median %-10v max %-10v %s\n", line.what, short(line.times[len(line.times)/2]), short(line.times[len(line.times)-1]), line.aim)
	}
	for _, line := range []struct {
		what string
		of   *latencies
	}{{"requests without a change", &control}, {"requests during a split", &splitting}, {"requests during a merge", &merging}} {
		median, n := line.of.quantile(0.5)
		most, _ := line.of.quantile(0.99)
		fmt.Printf("%-32s median %-10v p99 %-10v max %-10v %d\n", line.what, short(median), short(most), short(line.of.max()), n)
	}
	fmt.Printf("the slowest is %v above the control during a split (aim 100 ms), %v during a merge\n", short(splitting.max()-control.max()), short(merging.max()-control.max()))
	fmt.Printf("%d of %d requests failed\n", r.failed.Load(), r.requests.Load())
	if err := r.server.Close(); err != nil {
		r.b.Fatal(err)
	}
}

// short leaves out what is not worth reading.
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

// charge returns what a request costs.
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

// load is one client: a write and a read in each interval, which it never makes
// up for when it is late.
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
			phase, began := r.phase.Load(), time.Now()
			response, err := client.Do(r.request(kind))
			if phase != nil {
				phase.add(time.Since(began))
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
