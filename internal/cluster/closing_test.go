package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestClosingTells logs the progress of a long shutdown at each tick, and its end. A short
// shutdown logs nothing.
func TestClosingTells(t *testing.T) {
	t.Parallel()
	for _, ticks := range []int{0, 3} {
		var text bytes.Buffer
		n := &Node{cfg: Config{Now: time.Now, Logger: slog.New(slog.NewTextHandler(&text, nil))}}
		var closed atomic.Int64
		tick := make(chan time.Time)
		end := n.logClosing(tick, &closed, 7)
		for range ticks {
			closed.Add(2)
			tick <- time.Time{}
		}
		end()
		lines := strings.Count(text.String(), "closing partitions")
		ends := strings.Count(text.String(), "msg=\"partitions closed\" closed=6")
		if lines != ticks || ends != min(ticks, 1) || ticks > 0 && !strings.Contains(text.String(), "of=7") {
			t.Errorf("%d ticks:\n%s", ticks, &text)
		}
	}
}
