package cluster_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// TestWarm opens all partitions of a container, or about as many as may be open: the
// limit may be exceeded, because partitions that are being opened are in use.
func TestWarm(t *testing.T) {
	t.Parallel()
	for _, most := range []int{0, 3} {
		w, _ := start(t, most)
		c, err := w.create("c", 20)
		if err != nil {
			t.Fatal(err)
		}
		other, err := w.create("other", 2)
		if err != nil {
			t.Fatal(err)
		}
		w.node.Warm(context.Background(), c)
		open := 0
		for _, p := range c.Partitions() {
			if w.node.IsOpen(c, p.ID) {
				open++
			}
		}
		if most == 0 && open < 20 || most > 0 && open > most+8 || open == 0 {
			t.Errorf("at most %d open: %d of 20 are", most, open)
		}
		if w.node.IsOpen(other, 0) {
			t.Error("a partition of another container was opened")
		}
		// A canceled call opens none and does not block.
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		w.node.Warm(cancelled, other)
	}
}

// TestWarmOpensSideBySide opens several stores at the same time: the disk delays the first
// one until another is being opened.
func TestWarmOpensSideBySide(t *testing.T) {
	t.Parallel()
	var opening atomic.Int64
	var watching atomic.Bool
	two := make(chan struct{})
	files := errorfs.Wrap(storagetest.NewCrashable().FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		// Each store begins with its file FORMAT.
		if !watching.Load() || op.Kind != errorfs.OpOpen || !strings.HasSuffix(op.Path, "/FORMAT") {
			return nil
		}
		if opening.Add(1) == 2 {
			close(two)
		}
		select {
		case <-two:
		case <-time.After(time.Minute):
			t.Error("only one store is being opened")
		}
		return nil
	}))
	w, err := openOn(files, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.create("c", 4)
	if err != nil {
		t.Fatal(err)
	}
	w.restart(t, func(*cluster.Config) {})
	watching.Store(true)
	w.node.Warm(t.Context(), c)
	if n := w.node.Open(); n != 4 || opening.Load() != 4 {
		t.Errorf("%d partitions are open, and %d were opened", n, opening.Load())
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
}
