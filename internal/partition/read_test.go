package partition

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// TestReadErrors fails each single disk operation in turn while a store is opened and
// read: the result is an error or the right answer, never a wrong one.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	registers := newRegisters(6)
	var want []string
	for _, r := range registers {
		if err := r.step(w); err != nil {
			t.Fatal(err)
		}
		want = append(want, `"`+r.id+`"`)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); ; n++ {
		w.disk.FailAnyAt(n)
		if err := w.open(); err == nil {
			for _, r := range registers {
				if err := r.verify(w, 1, 1); err != nil && status.From(err) != nil && status.CodeOf(err) != status.CodeUnavailable {
					t.Fatalf("operation %d: %v", n, err)
				}
			}
			rows, _, err := w.rows("SELECT VALUE c.id FROM c WHERE c.n = 1", partitionkey.Full(), 2, nil)
			if err == nil && !slices.Equal(rows, want) {
				t.Fatalf("operation %d: got %s, want %s", n, rows, want)
			}
			_ = w.close() // The injected error may occur here.
		}
		_, failed := w.disk.Operations()
		w.disk.Heal()
		if failed == 0 {
			break
		}
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// TestReadersUnderWrites runs queries, reads and statistics while documents change:
// every page shows one state, in which each document occurs once.
func TestReadersUnderWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	const documents = 20
	doc := func(i int, n int64) value.Value {
		return w.parse(fmt.Sprintf(`{"id":"%d","a":"x","b":%d,"n":%d,"even":%t}`, i, i%3, n, n%2 == 0))
	}
	for i := range documents {
		if _, err := w.write(Create, doc(i, 0), nil); err != nil {
			t.Fatal(err)
		}
	}
	var done atomic.Bool
	var group sync.WaitGroup
	for worker := range 2 {
		group.Go(func() {
			for n := range int64(100) {
				if _, err := w.write(Upsert, doc(worker+2*int(n%(documents/2)), n), nil); err != nil {
					t.Error(err)
				}
			}
			done.Store(true)
		})
	}
	for range 2 {
		group.Go(func() {
			for !done.Load() {
				rows, _, err := w.rows(`SELECT VALUE c.id FROM c WHERE c.even = true OR c.even = false`, partitionkey.Full(), 0, nil)
				if err != nil {
					t.Error(err)
					return
				}
				slices.Sort(rows)
				if len(slices.Compact(rows)) != documents {
					t.Errorf("%d documents in one state, want %d: %s", len(rows), documents, rows)
				}
				if st := w.partition.Load().Stats(); st.Documents != documents {
					t.Errorf("the statistics count %d documents, want %d", st.Documents, documents)
				}
			}
		})
	}
	group.Wait()
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// TestQueryEnds shows that a query ends with its context, and which requests it
// refuses.
func TestQueryEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	for i := range 200 {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%d","a":"x","b":1}`, i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	p := w.partition.Load()
	now, err := p.acquire()
	if err != nil {
		t.Fatal(err)
	}
	active := now.Indexing.Active
	p.release(now)
	plan, err := query.Compile("SELECT VALUE c.id FROM c ORDER BY c.b", nil, active.Index, query.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		edit func(*Query)
		want status.Code
		sub  status.Sub
	}{
		{"ended context", ctx, func(*Query) {}, status.CodeRequestTimeout, 0},
		{"other generation", t.Context(), func(q *Query) { q.Generation++ }, status.CodeGone, status.SubRangeGone},
		{"no range", t.Context(), func(q *Query) { q.Range = partitionkey.Range{} }, status.CodeGone, status.SubRangeGone},
		{"session ahead", t.Context(), func(q *Query) { q.Session = 1000 }, status.CodeNotFound, status.SubReadSessionNotAvailable},
		{"all well", t.Context(), func(q *Query) { q.Session = 200 }, 0, 0},
	} {
		q := Query{Plan: plan, Generation: w.own.Generation, Range: partitionkey.Full()}
		c.edit(&q)
		_, lsn, err := p.Query(c.ctx, q)
		if status.CodeOf(err) != c.want || status.SubOf(err) != c.sub {
			t.Errorf("%s: got %v, want %d/%d", c.name, err, c.want, c.sub)
		}
		if lsn != 200 {
			t.Errorf("%s: LSN %d, want 200", c.name, lsn)
		}
	}
}

// TestReadAllocates bounds the allocations of a point read: the body, the etag and
// those of the store.
func TestReadAllocates(t *testing.T) {
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	doc := w.parse(`{"id":"1","a":"x","b":1,"text":"some text"}`)
	if _, err := w.write(Create, doc, nil); err != nil {
		t.Fatal(err)
	}
	key := w.container.Load().KeyOf(doc)
	request := Read{Generation: w.own.Generation, Key: key, EPK: w.container.Load().PartitionKey.Hash(key), ID: "1"}
	p := w.partition.Load()
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := p.Read(context.Background(), request); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 6 {
		t.Errorf("%v allocations, want at most 6", allocs)
	}
}
