package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// fuse is a context that ends at the n-th call of Err.
type fuse struct {
	context.Context
	end  context.CancelFunc
	left atomic.Int64
}

func newFuse(n int64) *fuse {
	f := new(fuse)
	f.Context, f.end = context.WithCancel(context.Background())
	f.left.Store(n)
	return f
}

// Err counts its calls.
func (f *fuse) Err() error {
	if f.left.Add(-1) == 0 {
		f.end()
	}
	return f.Context.Err()
}

// looks returns the number of calls of Err.
func (f *fuse) looks(n int64) int64 { return n - f.left.Load() }

const (
	cancelPartitions = 8
	cancelDocuments  = 4000
)

// unindexed creates a container of documents of one size. None of them passes
// the filter of the queries.
func unindexed(t *testing.T) (e *Engine, link Link, bytes int64) {
	t.Helper()
	e, _ = split(t, 1)
	ctx, caller, link := context.Background(), auth.Owner(), Link{Database: "d", Container: "plain"}
	body := parse(t, `{"id":"plain","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"includedPaths":[],"excludedPaths":[{"path":"/*"}]}}`)
	if _, err := e.CreateContainer(ctx, caller, ContainerRequest{Link: Link{Database: "d"}, Body: body, Partitions: cancelPartitions}); err != nil {
		t.Fatal(err)
	}
	parallel(8, func(g int) {
		for i := g; i < cancelDocuments; i += 8 {
			doc := parse(t, fmt.Sprintf(`{"id":"%04d","pk":"%04d","n":1}`, i, i))
			if _, err := e.Create(ctx, caller, DocumentRequest{Link: link, Document: doc}); err != nil {
				t.Error(err)
			}
		}
	})
	page, err := e.Query(ctx, caller, QueryRequest{Link: link, Text: "SELECT VALUE COUNT(1) FROM c WHERE c.n = 2", Full: true})
	if err != nil || page.Stats.Retrieved != cancelDocuments {
		t.Fatalf("%d documents read, %v", page.Stats.Retrieved, err)
	}
	return e, link, page.Stats.RetrievedBytes / page.Stats.Retrieved
}

// read returns the least number of documents of a size that a visit to one
// partition has read, from its charge.
func read(charge float64, bytes int64) int64 {
	n := int64(0)
	for throughput.Query(throughput.Work{Documents: n, Bytes: n * bytes})+0.005 < charge {
		n++
	}
	return n
}

// A cancelled query ends at its next check of the context, and there is a check
// every 64 documents.
func TestCancelledInTheMiddle(t *testing.T) {
	t.Parallel()
	e, link, bytes := unindexed(t)
	req := QueryRequest{Link: link, Text: "SELECT VALUE c.id FROM c WHERE c.n = 2", Cross: true}
	furthest := int64(0)
	for n := int64(1); ; n++ {
		ctx := newFuse(n)
		page, err := e.Query(ctx, auth.Owner(), req)
		if ctx.Context.Err() == nil || len(page.Partitions) > 1 {
			break // The first partition is done.
		}
		if status.CodeOf(err) != status.CodeRequestTimeout {
			t.Fatalf("cancelled at look %d: %v", n, err)
		}
		if looks := ctx.looks(n); looks > n+8 {
			t.Fatalf("cancelled at look %d, and looked %d times", n, looks)
		}
		if len(page.Partitions) == 0 {
			continue
		}
		got := read(page.Charge, bytes)
		if got > 64*n {
			t.Fatalf("cancelled at look %d: %d documents read", n, got)
		}
		furthest = max(furthest, got)
	}
	if furthest < 128 {
		t.Errorf("the test shows too little: cancelled after %d documents at most", furthest)
	}
}

// A query that asks all partitions in parallel, and is cancelled when it asks
// the third, reads nothing from the others.
func TestCancelledAmongPartitions(t *testing.T) {
	t.Parallel()
	e, link, bytes := unindexed(t)
	c, _ := e.catalog.View().Container(link.Database, link.Container)
	for _, text := range []string{
		"SELECT VALUE COUNT(1) FROM c WHERE c.n = 2",
		"SELECT c.n, COUNT(1) AS m FROM c WHERE c.n = 2 GROUP BY c.n",
		"SELECT DISTINCT VALUE c.n FROM c WHERE c.n = 2",
		"SELECT VALUE c.id FROM c WHERE c.n = 2 ORDER BY c.id",
	} {
		req := QueryRequest{Link: link, Text: text, Full: true}
		plan, _, err := e.planOf(c, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		q := queryPage{engine: e, req: &req, job: e.newJob()}
		q.job.workMain(context.Background())
		streams := q.each(c, plan, tasks(c, []partitionkey.Range{partitionkey.Full()}))
		third := streams[2].run
		streams[2].run = func(ctx context.Context, b query.Budget) (query.Page, error) {
			cancel()
			return third(ctx, b)
		}
		err = e.serve(ctx, &req, plan, streams, continuation{Range: partitionkey.Full()}, &q.out)
		q.job.main.finish()
		q.job.close()
		if status.CodeOf(err) != status.CodeRequestTimeout && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", text, err)
		}
		// Two partitions may be done, and a third may be at any of its documents.
		// A visit to one of the others costs as much as a visit to an empty one.
		const most = cancelDocuments * 4 / cancelPartitions
		visits := float64(cancelPartitions) * throughput.Query(throughput.Work{})
		if got := read(q.meter.Charge()-visits, bytes); got > most {
			t.Errorf("%s: %d documents read, want %d at most", text, got, most)
		}
	}
}
