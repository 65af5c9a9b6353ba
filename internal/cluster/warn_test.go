package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/throughput"
)

// TestWarnOnce shows that a partition warns once for each throughput that it has,
// and not again as long as that stays.
func TestWarnOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := &budget{node: &Node{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}, slot: &slot{}}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	begun := now
	for _, rate := range []float64{400, 800, 400} {
		b.terms.Store(&terms{own: throughput.NewBudget(throughput.Plan{Rate: rate}, begun)})
		for range 10 {
			b.warn(throughput.Refusal{}, now)
			now = now.Add(warnEvery * time.Second)
		}
	}
	if n := strings.Count(log.String(), "throughput exceeded"); n != 3 {
		t.Errorf("%d warnings for 3 changes of throughput: %s", n, log.String())
	}
}
