package server

import (
	"context"
	"testing"
	"time"
)

// Point reads get a processor while 64 clients run a SUM over a triple JOIN. Without
// admission of queries the median read waits for seconds, 100,000 times as long as on
// an idle server. The bound here is far above the aim, 5, because other programs may
// use the processors; BenchmarkHeavyQueries measures the ratio.
func TestHeavyQueriesLeaveProcessors(t *testing.T) {
	const attempts, bound, duration = 3, 100, 300 * time.Millisecond
	h := newHeavyBench(t, "")
	defer h.client.Close()
	idle, _ := h.read(duration)
	var ratio float64
	for range attempts {
		ctx, cancel := context.WithCancel(t.Context())
		wait := h.heavy(ctx)
		for end := time.Now().Add(5 * time.Minute); h.pages.Load() == 0; {
			if h.read(duration / 10); time.Now().After(end) {
				t.Fatal("no query has been answered within five minutes")
			}
		}
		busy, _ := h.read(duration)
		cancel()
		wait()
		ratio = busy / idle
		t.Logf("median of point reads: %.0f µs idle, %.0f µs with queries; %d pages, %d refused", idle, busy, h.pages.Load(), h.refused.Load())
		if ratio <= bound {
			return
		}
	}
	t.Errorf("point reads take %.0f times as long with heavy queries, want at most %d", ratio, bound)
}
