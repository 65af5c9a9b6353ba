package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// TestIndexProgressOpens interrupts a change of the indexing policy, or stops the node
// before the change begins. Reading its progress opens the partitions, which continue the
// change; nothing else opens them.
func TestIndexProgressOpens(t *testing.T) {
	t.Parallel()
	const partitions = 5
	disk := storagetest.NewCrashable()
	w, err := open(disk, 2) // fewer than the container has
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.create("c", partitions)
	if err != nil {
		t.Fatal(err)
	}
	for id := range resource.PartitionID(partitions) {
		for i := range 3 {
			if err := w.write(c, id, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	changed := c.Container
	changed.Indexing.Excluded = []string{"/id/?", "/_etag/?"}
	if _, err := w.catalog.Commit(context.Background(), catalog.ReplaceContainer{Container: changed}); err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil { // before any partition is told about the change
		t.Fatal(err)
	}
	if w, err = open(disk, 2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	fresh, ok := w.catalog.View().ContainerByRID(c.RID)
	if !ok || w.node.Open() != 0 {
		t.Fatalf("%d partitions are open after the start", w.node.Open())
	}
	for deadline := time.Now().Add(time.Minute); w.node.IndexProgress(context.Background(), fresh) < 100; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the index is not rebuilt")
		}
	}
	if w.node.Open() == 0 {
		t.Error("no partition was opened")
	}
	for id := range resource.PartitionID(partitions) {
		replica, release, err := w.node.Replica(context.Background(), fresh, id)
		if err != nil {
			t.Fatal(err)
		}
		if got := replica.Stats().IndexProgress; got != 100 {
			t.Errorf("partition %s: progress %d", id, got)
		}
		release()
	}
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the caller has gone"))
	if got := w.node.IndexProgress(ended, fresh); got != 100 {
		t.Errorf("progress %d for a canceled call", got)
	}
}
