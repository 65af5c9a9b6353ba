package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/throughput"
)

// TestWarnOnce shows that the whole node warns once for each change of a throughput
// (issue 19, point 12): not for each partition of the container, and not for each
// container that is made with the same throughput.
func TestWarnOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	node := &Node{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	begun := now
	exceed := func(container resource.RID, partitions int, offer resource.ETag, rate float64) int {
		before := strings.Count(log.String(), "throughput exceeded")
		for id := range partitions {
			b := &budget{node: node, slot: &slot{ref: replication.PartitionRef{Container: container, Partition: resource.PartitionID(id)}}}
			b.terms.Store(&terms{offer: offer, own: throughput.NewBudget(throughput.Plan{Rate: rate}, begun)})
			for range 3 {
				b.warn(throughput.Refusal{}, now)
				now = now.Add(warnEvery * time.Second)
			}
		}
		return strings.Count(log.String(), "throughput exceeded") - before
	}
	for _, c := range []struct {
		what       string
		container  resource.RID
		partitions int
		offer      resource.ETag
		rate       float64
		want       int
	}{
		{"the first container", "a", 3, "1", 400, 1},
		{"after a split", "a", 4, "1", 200, 0},
		{"another one with the same throughput", "b", 2, "2", 400, 0},
		{"one with a higher throughput", "c", 2, "3", 800, 1},
		{"a change", "a", 3, "4", 800, 1},
		{"a change back", "a", 3, "5", 400, 1},
		{"again", "b", 2, "2", 400, 0},
	} {
		if got := exceed(c.container, c.partitions, c.offer, c.rate); got != c.want {
			t.Errorf("%s: %d warnings, want %d", c.what, got, c.want)
		}
	}
}

// TestWarnPause shows that a node warns at most once in warnEvery seconds, and that
// a change in that time is reported afterwards.
func TestWarnPause(t *testing.T) {
	t.Parallel()
	var w warnings
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	if !w.due("a", "1", 400, now) {
		t.Error("no first warning")
	}
	if w.due("a", "2", 800, now.Add((warnEvery-1)*time.Second)) {
		t.Error("a second warning within the pause")
	}
	if !w.due("a", "2", 800, now.Add(warnEvery*time.Second)) {
		t.Error("the change is not reported after the pause")
	}
}
