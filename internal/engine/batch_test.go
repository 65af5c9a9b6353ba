package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// pairs is the number of keys in TestBatchesWhileSplitting. Each has two
// documents that batches keep equal.
const pairs = 12

func pairDocument(t *testing.T, key int, id string, n int) value.Value {
	return parse(t, fmt.Sprintf(`{"id":%q,"k":"key%d","n":%d,"pad":%q}`, id, key, n, strings.Repeat("p", n%50)))
}

func pairKey(key int) *partitionkey.Key {
	k := partitionkey.NewKey(partitionkey.String(fmt.Sprint("key", key)))
	return &k
}

// splitAtRandom splits partitions of the container at random keys, up to most
// splits.
func splitAtRandom(t *testing.T, w *world, random *rand.Rand, most int) (splits int) {
	for splits < most {
		c, _ := w.catalog.View().Container("d", "c")
		at := c.PartitionKey.Hash(*pairKey(random.IntN(pairs)))
		_, err := w.node.Split(context.Background(), c.RID, c.Ranges.Locate(at).Value.ID, at)
		switch status.CodeOf(err) {
		case 0:
			splits++
		case status.CodeConflict, status.CodeGone, status.CodeNotFound, status.CodeBadRequest:
			// The partition cannot be divided there, or is being split: try
			// another one.
		default:
			t.Errorf("split at %s: %v", at, err)
			return splits
		}
	}
	return splits
}

// TestBatchesWhileSplitting writes and reads pairs of documents while their
// partitions are split, in atomic batches of one key and bulk batches of
// several: no reader sees a part of a batch, and no batch is lost or refused.
func TestBatchesWhileSplitting(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	w := newWorld(t, nil)
	link := w.container(t, 1, "/k")
	var done atomic.Bool
	var last [pairs]atomic.Int64 // acknowledged
	var group sync.WaitGroup
	for side := range 3 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(side)))
			for n := 1; !done.Load() || n < 20; n++ {
				req := engine.BatchRequest{Link: link, Atomicity: engine.Each}
				// Each kind of batch has its own keys, so that the last number of a key
				// is known.
				keys := []int{side, side + 3, side + 6, side + 9}
				if random.IntN(2) == 0 {
					keys = keys[random.IntN(len(keys)):][:1]
					req.Atomicity, req.Key = engine.Atomic, pairKey(keys[0])
				}
				for _, key := range keys {
					for _, id := range []string{"one", "two"} {
						req.Operations = append(req.Operations, engine.BatchOperation{Action: auth.Upsert, Body: pairDocument(t, key, id, n)})
					}
				}
				got, err := w.Batch(context.Background(), caller, req)
				if err != nil || got.Refused {
					t.Errorf("seed %d: batch %d of keys %v: %+v (%v)", seed, n, keys, got.Results, err)
					return
				}
				for _, key := range keys {
					last[key].Store(int64(n))
				}
			}
		})
	}
	var read atomic.Int64
	group.Go(func() {
		random := rand.New(rand.NewPCG(seed, 99))
		for !done.Load() {
			key := random.IntN(pairs)
			low := last[key].Load()
			page, err := w.Query(context.Background(), caller, engine.QueryRequest{Link: link, Key: pairKey(key), Text: "SELECT VALUE c.n FROM c"})
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
				return
			}
			n := 0
			if len(page.Rows) > 0 {
				fmt.Sscan(string(page.Rows[0]), &n)
			}
			if len(page.Rows) != 0 && (len(page.Rows) != 2 || string(page.Rows[0]) != string(page.Rows[1])) || int64(n) < low {
				t.Errorf("seed %d: key %d: %s, want two of %d or more", seed, key, page.Rows, low)
				return
			}
			read.Add(1)
		}
	})
	splits := splitAtRandom(t, w, rand.New(rand.NewPCG(seed, 100)), 5)
	done.Store(true)
	group.Wait()
	if splits < 5 || read.Load() == 0 {
		t.Errorf("seed %d: %d splits, %d reads", seed, splits, read.Load())
	}
	for key := range pairs {
		rows, _ := w.all(t, engine.QueryRequest{Link: link, Key: pairKey(key), Text: "SELECT VALUE c.n FROM c"})
		if want := fmt.Sprint(last[key].Load()); want != "0" && !slices.Equal(rows, []string{want, want}) {
			t.Errorf("seed %d: key %d: %s, want %s twice", seed, key, rows, want)
		}
	}
	w.check(t)
}

// TestBatchInNamedPartition sends a batch with keys of another partition, and a
// batch for a partition that does not exist any more.
func TestBatchInNamedPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 4, "/k")
	c, _ := w.catalog.View().Container("d", "c")
	at := func(c *catalog.Container, key int) resource.PartitionID {
		return c.Ranges.Locate(c.PartitionKey.Hash(*pairKey(key))).Value.ID
	}
	epks := map[resource.PartitionID][]partitionkey.EPK{}
	var own resource.PartitionID // the one with the most keys
	for key := range pairs {
		id := at(c, key)
		if epks[id] = append(epks[id], c.PartitionKey.Hash(*pairKey(key))); len(epks[id]) > len(epks[own]) {
			own = id
		}
	}
	req := engine.BatchRequest{Link: link, Atomicity: engine.Each, Partition: &own}
	for key := range pairs {
		req.Operations = append(req.Operations, engine.BatchOperation{Action: auth.Create, Key: pairKey(key), Body: pairDocument(t, key, "one", 1)})
	}
	got, err := w.Batch(context.Background(), caller, req)
	if err != nil || !got.Refused {
		t.Fatalf("got %+v (%v)", got, err)
	}
	here := 0
	for key, r := range got.Results {
		if want := at(c, key) == own; want != (r.Err == nil) || !want && (r.Err.Code != status.CodeGone || r.Err.Sub != status.SubRangeGone) {
			t.Errorf("key %d: %v", key, r.Err)
		} else if want {
			here++
		}
	}
	if here == 0 || here == pairs || !slices.Equal(got.Partitions, []resource.PartitionID{own}) {
		t.Errorf("%d keys are here, and %v were asked", here, got.Partitions)
	}
	if _, err := w.node.Split(context.Background(), c.RID, own, slices.Max(epks[own])); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Batch(context.Background(), caller, req); status.CodeOf(err) != status.CodeGone || status.SubOf(err) != status.SubRangeGone {
		t.Errorf("of a partition that was split: %v, want 410/1002", err)
	}
}

// TestBatchSize shows that the answer to a batch has the size of its partition, and that
// of a bulk request in several partitions has none (F18).
func TestBatchSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 4, "/k")
	bulk := engine.BatchRequest{Link: link, Atomicity: engine.Each}
	for key := range pairs {
		bulk.Operations = append(bulk.Operations, engine.BatchOperation{Action: auth.Create, Key: pairKey(key), Body: pairDocument(t, key, "one", 1)})
	}
	got, err := w.Batch(context.Background(), caller, bulk)
	if err != nil || got.Refused || len(got.Partitions) < 2 || got.Size.Known {
		t.Errorf("in several partitions: %v in %v (%v)", got.Size, got.Partitions, err)
	}
	one := engine.BatchRequest{Link: link, Key: pairKey(1), Operations: []engine.BatchOperation{{Action: auth.Upsert, Body: pairDocument(t, 1, "one", 2)}}}
	got, err = w.Batch(context.Background(), caller, one)
	if err != nil || !got.Size.Known || got.Size.Documents == 0 || got.Size.Documents >= pairs || got.Size.Bytes == 0 {
		t.Errorf("in one partition: %+v (%v)", got.Size, err)
	}
}

// TestBatchThrottled exhausts a budget: an atomic batch is then refused as a
// whole, and a bulk request has the error in its results.
func TestBatchThrottled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *engine.Config) {
		c.Now = func() time.Time { return time.Unix(1_700_002_800, 0) }
	})
	w.throttling = cluster.Throttling{Enforcement: cluster.EnforceOn}
	w.reopen(t)
	link := w.container(t, 1, "/k")
	op := engine.BatchOperation{Action: auth.Upsert, Body: pairDocument(t, 1, "one", 1)}
	atomic := engine.BatchRequest{Link: link, Key: pairKey(1), Operations: slices.Repeat([]engine.BatchOperation{op}, partition.BatchMax)}
	bulk := engine.BatchRequest{Link: link, Atomicity: engine.Each, Operations: []engine.BatchOperation{op}}
	if got, err := w.Batch(context.Background(), caller, atomic); err != nil || got.Charge < 500 {
		t.Fatalf("charge %v (%v)", got.Charge, err)
	}
	if _, err := w.Batch(context.Background(), caller, atomic); status.CodeOf(err) != status.CodeTooManyRequests {
		t.Errorf("an atomic batch: %v, want 429", err)
	}
	got, err := w.Batch(context.Background(), caller, bulk)
	if err != nil || !got.Refused || got.Results[0].Err.Code != status.CodeTooManyRequests || got.Results[0].Err.RetryAfter <= 0 || got.Charge != 0 {
		t.Errorf("a bulk request: %+v (%v), want 429 inside", got, err)
	}
}

// TestBatchPermissions sends operations that the caller may not do.
func TestBatchPermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 1, "/k")
	req := engine.BatchRequest{Link: link, Key: pairKey(1), Operations: []engine.BatchOperation{{Action: auth.Read, ID: "x"}}}
	if _, err := w.Batch(context.Background(), anonymous, req); status.CodeOf(err) != status.CodeUnauthorized {
		t.Errorf("got %v, want 401", err)
	}
}

// TestBatchCharge compares the charge of a batch with the sum of its
// operations.
func TestBatchCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 1, "/k")
	meter := throughput.Meter{}
	req := engine.BatchRequest{Link: link, Key: pairKey(1)}
	for n := range 5 {
		doc := pairDocument(t, 2, "one", n*7)
		single, err := w.Upsert(context.Background(), caller, engine.DocumentRequest{Link: link, Document: doc})
		if err != nil {
			t.Fatal(err)
		}
		meter.Add(single.Charge)
		req.Operations = append(req.Operations, engine.BatchOperation{Action: auth.Upsert, Body: pairDocument(t, 1, "one", n*7)})
	}
	got, err := w.Batch(context.Background(), caller, req)
	if err != nil || got.Charge != meter.Charge() {
		t.Errorf("a batch costs %v and its operations alone %v (%v)", got.Charge, meter.Charge(), err)
	}
}
