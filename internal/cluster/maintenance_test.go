package cluster_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/decandb/decan/internal/cluster"
)

// TestMaintenance shows that a node runs the maintenance tasks at the configured interval.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 0)
	w.restart(t, func(c *cluster.Config) { c.Maintenance = time.Millisecond })
	c := purgedPartitions(t, w, 1, 0)
	for began := time.Now(); w.isPurging(c, 0); runtime.Gosched() {
		if time.Since(began) > time.Minute {
			t.Fatal("the node does not clear by itself")
		}
	}
	if n, err := w.count(c, 0); err != nil || n != 0 {
		t.Errorf("%d documents are left (%v)", n, err)
	}
}
