package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/prometheus/client_golang/prometheus"
)

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// throttledWorld returns a world whose clock does not advance.
func throttledWorld(t *testing.T, how cluster.Throttling, log *lockedBuffer, registry *prometheus.Registry) *world {
	t.Helper()
	w, _ := start(t, 0)
	w.restart(t, func(c *cluster.Config) {
		c.Throttling = how
		c.Now = func() time.Time { return time.Unix(1_700_000_000, 0) }
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
		if registry != nil {
			c.Registerer = registry
		}
	})
	return w
}

// provisioned creates a container of n partitions with manual throughput.
func (w *world) provisioned(t *testing.T, n, manual int) *catalog.Container {
	t.Helper()
	c, err := w.prepare("c")
	if err != nil {
		t.Fatal(err)
	}
	partitions := tile(c.PartitionKey, n)
	if err := w.node.CreatePartitions(t.Context(), c, partitions); err != nil {
		t.Fatal(err)
	}
	view, err := w.catalog.Commit(t.Context(), catalog.CreateContainer{
		Container: c, Partitions: partitions, Throughput: &resource.Throughput{Manual: manual, Highest: manual},
	})
	if err != nil {
		t.Fatal(err)
	}
	created, _ := view.Container("d", "c")
	return created
}

// put writes a document and returns the count of the meter.
func (w *world) put(c *catalog.Container, p resource.PartitionID, id string) (float64, error) {
	k, epk := keyIn(c, p)
	replica, release, err := w.node.Replica(context.Background(), c, p)
	if err != nil {
		return 0, err
	}
	defer release()
	var meter throughput.Meter
	doc := value.Object([]value.Member{{Name: "id", Value: value.String(id)}, {Name: "pk", Value: value.String(k.At(0).Text())}})
	_, err = replica.Write(context.Background(), partition.Write{Op: partition.Upsert, Generation: 1, Key: k, EPK: epk, ID: id, Document: doc, Meter: &meter})
	return meter.Due(), err
}

// TestEverythingIsBilled spends from many goroutines while the throughput changes. The
// budgets count the same as the meters, and the node warns once, because the clock does
// not advance.
func TestEverythingIsBilled(t *testing.T) {
	t.Parallel()
	const partitions, writers, writes = 3, 8, 60
	var log lockedBuffer
	registry := prometheus.NewRegistry()
	w := throttledWorld(t, cluster.Throttling{Enforcement: cluster.EnforceWarn, Burst: true}, &log, registry)
	c := w.provisioned(t, partitions, 600)
	var workers sync.WaitGroup
	spent := make([]float64, writers)
	for i := range writers {
		workers.Go(func() {
			for n := range writes {
				due, err := w.put(c, resource.PartitionID(n%partitions), fmt.Sprintf("%d-%d", i, n))
				if err != nil {
					t.Errorf("write: %v", err)
					return
				}
				spent[i] += due
			}
		})
	}
	workers.Go(func() {
		for n := range 50 {
			view := w.catalog.View()
			offer, _ := view.Throughput(c.RID)
			offer.Manual = 400 + 100*(n%5)
			if _, err := w.catalog.Commit(context.Background(), catalog.PutThroughput{Throughput: offer, Expect: offer.ETag}); err != nil {
				t.Errorf("throughput: %v", err)
			}
			if _, err := registry.Gather(); err != nil {
				t.Errorf("metrics: %v", err)
			}
		}
	})
	workers.Wait()
	want, got, throttled := 0.0, 0.0, int64(0)
	for _, s := range spent {
		want += s
	}
	for id := range resource.PartitionID(partitions) {
		replica, release, err := w.node.Replica(t.Context(), c, id)
		if err != nil {
			t.Fatal(err)
		}
		load := replica.Load()
		release()
		got += load.Total
		throttled += load.Throttled
		if load.Rate != 800.0/3 || load.Normalized != 100 || len(load.Keys) != 1 || math.Abs(load.Keys[0].Units-load.Total) > 1e-6 {
			t.Errorf("partition %s: %+v", id, load)
		}
	}
	if math.Abs(got-want) > 1e-3 || throttled == 0 {
		t.Errorf("budgets have seen %v, meters %v; %d throttled", got, want, throttled)
	}
	if n := strings.Count(log.String(), "throughput exceeded"); n != 1 {
		t.Errorf("%d warnings from %d partitions in one second: %s", n, partitions, log.String())
	}
}

// TestRefusalDoesNothing shows that a request over the budget changes nothing, costs
// nothing, and returns the LSN of the partition.
func TestRefusalDoesNothing(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	w := throttledWorld(t, cluster.Throttling{Enforcement: cluster.EnforceOn}, &log, nil)
	c := w.provisioned(t, 1, 400)
	made := 0
	var refused *status.Error
	for ; ; made++ {
		due, err := w.put(c, 0, fmt.Sprint(made))
		if err == nil {
			continue
		}
		if !errors.As(err, &refused) || due != 0 {
			t.Fatalf("write %d: %v for %v RU", made, err, due)
		}
		break
	}
	if refused.Code != status.CodeTooManyRequests || refused.Sub != status.SubRequestRateTooLarge || refused.RetryAfter != time.Second {
		t.Errorf("refused with %+v", refused)
	}
	replica, release, err := w.node.Replica(t.Context(), c, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if s := replica.Stats(); s.Documents != int64(made) || int(s.LSN) != made+1 {
		t.Errorf("%d writes were made, there are %d documents at LSN %d", made, s.Documents, s.LSN)
	}
	k, epk := keyIn(c, 0)
	var meter throughput.Meter
	if found, err := replica.Read(t.Context(), partition.Read{Generation: 1, Key: k, EPK: epk, ID: "0", Meter: &meter}); status.CodeOf(err) != status.CodeTooManyRequests || int(found.LSN) != made+1 || meter.Due() != 0 {
		t.Errorf("read: %v at LSN %d for %v RU", err, found.LSN, meter.Due())
	}
	if _, lsn, err := replica.Query(t.Context(), partition.Query{Generation: 1, Meter: &meter}); status.CodeOf(err) != status.CodeTooManyRequests || int(lsn) != made+1 || meter.Due() != 0 {
		t.Errorf("query: %v at LSN %d for %v RU", err, lsn, meter.Due())
	}
	if strings.Contains(log.String(), "throughput") {
		t.Errorf("a refusal was logged: %s", log.String())
	}
}

func TestParseEnforcement(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]cluster.Enforcement{"off": cluster.EnforceOff, "Warn": cluster.EnforceWarn, "ON": cluster.EnforceOn} {
		if got, err := cluster.ParseEnforcement(text); err != nil || got != want || !strings.EqualFold(got.String(), text) {
			t.Errorf("%s: got %v %v", text, got, err)
		}
	}
	if _, err := cluster.ParseEnforcement(""); err == nil {
		t.Error("the empty text was accepted as a level")
	}
}
