package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/decandb/decan/internal/server/servertest"
)

const (
	hugeTerms = 100_000
	hugeTime  = 5 * time.Second
)

// hugeBody returns a document of about 1.8 MB with 100,000 terms that no other
// round has.
func hugeBody(client int, round uint64) []byte {
	random := rand.New(rand.NewPCG(uint64(client), round))
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":"huge","tenant":"huge","user":"h%d","list":[`, client)
	for i := range hugeTerms {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%015x"`, random.Uint64()>>4)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

// BenchmarkHugeDocuments measures upserts and point reads of small documents over HTTP
// while 1, 4 and 16 clients replace documents of 1.8 MB and 100,000 terms in the same
// partition, and on an idle server in the same run. The longest upsert should stay
// within 100 ms. `make bench` runs it.
func BenchmarkHugeDocuments(b *testing.B) {
	for b.Loop() {
		fmt.Fprintf(os.Stdout, "\nsmall documents beside clients that replace documents of 1.8 MB and %d terms in their partition, %v each\n", hugeTerms, hugeTime)
		out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "huge clients\treplaced/s\trefused\tupserts/s\tp50 ms\tp99 ms\tmax ms\treads/s\tp50 ms\tp99 ms\tmax ms\theap MB")
		for _, clients := range []int{0, 1, 4, 16} {
			h := newHugeBench(b)
			h.run(out, clients)
			h.close()
		}
		out.Flush()
	}
}

type hugeBench struct {
	b      *testing.B
	server *Server

	replaced, refused atomic.Int64
}

func newHugeBench(b *testing.B) *hugeBench {
	h := &hugeBench{b: b, server: benchServer(b, b.TempDir(), 1)}
	client := h.dial()
	defer client.Close()
	for i := range 100 {
		if response, err := client.Do(createRequest(h.server.Key(), fmt.Sprint("p", i), i)); err != nil || response.Status != 201 {
			b.Fatalf("%v %d %s", err, response.Status, response.Body)
		}
	}
	return h
}

func (h *hugeBench) close() {
	if err := h.server.Close(); err != nil {
		h.b.Fatal(err)
	}
}

func (h *hugeBench) dial() *servertest.Client {
	client, err := servertest.Dial(h.server.address())
	if err != nil {
		h.b.Fatal(err)
	}
	return client
}

// replace makes a client replace a document until the context is cancelled.
func (h *hugeBench) replace(ctx context.Context, number int) {
	client := h.dial()
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	var requests []servertest.Request
	for round := range uint64(2) {
		requests = append(requests, servertest.Prepare(h.server.Key(), "POST", benchLink, hugeBody(number, round),
			"x-ms-documentdb-partitionkey", fmt.Sprintf(`["huge","h%d"]`, number), "x-ms-documentdb-is-upsert", "true"))
	}
	for round := 0; ctx.Err() == nil; round++ {
		response, err := client.Do(requests[round%2])
		switch {
		case err != nil:
			return
		case response.Status == 429:
			h.refused.Add(1)
			time.Sleep(100 * time.Millisecond)
		case response.Status > 201:
			h.b.Errorf("%d %.300s", response.Status, response.Body)
			return
		default:
			h.replaced.Add(1)
		}
	}
}

// measure sends requests one after another and returns their times.
func (h *hugeBench) measure(pause time.Duration, want int, next func(i int) servertest.Request) (took []time.Duration) {
	client := h.dial()
	defer client.Close()
	i := 0
	for end := time.Now().Add(hugeTime); time.Now().Before(end); i++ {
		request := next(i)
		began := time.Now()
		response, err := client.Do(request)
		took = append(took, time.Since(began))
		if err != nil || response.Status != want {
			h.b.Errorf("%v %d %.300s", err, response.Status, response.Body)
			return took
		}
		time.Sleep(pause)
	}
	slices.Sort(took)
	return took
}

// heapPeak returns the maximum size of the heap until the context is cancelled.
func heapPeak(ctx context.Context) <-chan uint64 {
	peak := make(chan uint64, 1)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		most := uint64(0)
		for ctx.Err() == nil {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			time.Sleep(20 * time.Millisecond)
		}
		peak <- most
	}()
	return peak
}

func (h *hugeBench) run(out *tabwriter.Writer, clients int) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() { h.replace(ctx, i) })
	}
	for h.replaced.Load() < 2*int64(clients) { // All of them replace an existing document.
		time.Sleep(10 * time.Millisecond)
	}
	before := h.replaced.Load()
	key := h.server.Key()
	peak := heapPeak(ctx)
	var upserts, reads []time.Duration
	var measured sync.WaitGroup
	measured.Go(func() {
		upserts = h.measure(0, 200, func(i int) servertest.Request {
			return servertest.Prepare(key, "POST", benchLink, []byte(document(fmt.Sprint("p", i%100), i%100)),
				"x-ms-documentdb-partitionkey", documentKey(i%100), "x-ms-documentdb-is-upsert", "true")
		})
	})
	measured.Go(func() {
		reads = h.measure(time.Millisecond, 200, func(i int) servertest.Request {
			return servertest.Prepare(key, "GET", fmt.Sprintf("%s/p%d", benchLink, i%100), nil, "x-ms-documentdb-partitionkey", documentKey(i%100))
		})
	})
	measured.Wait()
	done := h.replaced.Load() - before
	cancel()
	group.Wait()
	heap := <-peak
	ms := func(all []time.Duration, part float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return float64(all[min(len(all)-1, int(part*float64(len(all))))].Microseconds()) / 1000
	}
	seconds := hugeTime.Seconds()
	fmt.Fprintf(out, "%d\t%.1f\t%d\t%.0f\t%.2f\t%.1f\t%.1f\t%.0f\t%.2f\t%.1f\t%.1f\t%d\n", clients, float64(done)/seconds, h.refused.Load(),
		float64(len(upserts))/seconds, ms(upserts, 0.5), ms(upserts, 0.99), ms(upserts, 1),
		float64(len(reads))/seconds, ms(reads, 0.5), ms(reads, 0.99), ms(reads, 1), heap>>20)
}
