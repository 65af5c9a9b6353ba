package server

import (
	"fmt"
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
// published figures have 1,024) and merges it again, 20 times, under a load that
// costs what the partition's budget is, 10,000 RU/s, from 64 clients. It prints for
// how long writers were stopped, what the slowest request took, next to that of a
// control of the same length without a change, and how many requests failed.
func BenchmarkReshape(b *testing.B) {
	megabytes := 64
	if text := os.Getenv("DECAN_RESHAPE_MB"); text != "" {
		var err error
		if megabytes, err = strconv.Atoi(text); err != nil || megabytes <= 0 {
			b.Fatalf("DECAN_RESHAPE_MB=%s", text)
		}
	}
	for b.Loop() {
		r := &reshapeBench{b: b, documents: megabytes << 10}
		r.run()
	}
}

const (
	reshapeClients = 64
	reshapeRounds  = 20
	reshapeBudget  = 10_000 // RU/s
)

type reshapeBench struct {
	b         *testing.B
	documents int // of 1 KB
	server    *Server

	slowest  atomic.Int64 // ns, of a request
	requests atomic.Int64
	failed   atomic.Int64
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

	stop := make(chan struct{})
	var clients sync.WaitGroup
	pair := r.charge("upsert") + r.charge("read")
	for range reshapeClients {
		clients.Go(func() { r.load(time.Duration(reshapeClients*pair/reshapeBudget*float64(time.Second)), stop) })
	}
	var splits, merges, during, calm []time.Duration
	began, first := time.Now(), r.requests.Load()
	for range reshapeRounds {
		split, err := r.server.engine.SplitPartition(r.b.Context(), auth.Owner(), engine.SplitRequest{Link: benchEngineLink, Partition: r.partitions()[0]})
		if err != nil {
			r.b.Fatal(err)
		}
		during = append(during, r.reset())
		both := r.partitions()
		merge, err := r.server.engine.MergePartitions(r.b.Context(), auth.Owner(), engine.MergeRequest{Link: benchEngineLink, Partitions: [2]resource.PartitionID{both[0], both[1]}})
		if err != nil {
			r.b.Fatal(err)
		}
		during = append(during, r.reset())
		time.Sleep(split.Took) // as long without a change
		calm = append(calm, r.reset())
		splits, merges = append(splits, split.Pause), append(merges, merge.Pause)
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
		{"writers stopped by a split", splits, "50 ms, 100 ms"},
		{"writers stopped by a merge", merges, "published"},
		{"slowest request during a split or merge", during, "control + 100 ms"},
		{"slowest request of the control", calm, ""},
	} {
		slices.Sort(line.times)
		fmt.Printf("%-42s median %-10v max %-10v %s\n", line.what, line.times[len(line.times)/2].Round(10*time.Microsecond), line.times[len(line.times)-1].Round(10*time.Microsecond), line.aim)
	}
	fmt.Printf("%d of %d requests failed\n", r.failed.Load(), r.requests.Load())
	if err := r.server.Close(); err != nil {
		r.b.Fatal(err)
	}
}

// reset returns what the slowest request since the last call took.
func (r *reshapeBench) reset() time.Duration { return time.Duration(r.slowest.Swap(0)) }

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
			began := time.Now()
			response, err := client.Do(r.request(kind))
			took := int64(time.Since(began))
			r.requests.Add(1)
			if err != nil || response.Status != 200 {
				r.failed.Add(1)
				r.b.Errorf("%s: %v %d %s", kind, err, response.Status, response.Body)
				if err != nil {
					return
				}
			}
			for before := r.slowest.Load(); took > before && !r.slowest.CompareAndSwap(before, took); before = r.slowest.Load() {
			}
		}
	}
}
