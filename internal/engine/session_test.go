package engine

import (
	"testing"

	"github.com/decandb/decan/internal/resource"
)

// A token of a partition, or of any of its ancestors, is a lower bound for it;
// tokens of other partitions say nothing.
func TestSessionOfParents(t *testing.T) {
	t.Parallel()
	e := &Engine{account: resource.Account{Consistency: resource.Session}}
	child := resource.Partition{ID: 5, Parents: []resource.PartitionID{0, 2}}
	for _, c := range []struct {
		token, level string
		want         resource.LSN
	}{
		{"", "", 0},
		{"5:-1#7", "", 7},
		{"2:-1#9", "", 9},
		{"0:-1#3,2:-1#9,5:-1#4", "", 9},
		{"1:-1#100", "", 0},
		{"2:11", "", 11},
		{"5:-1#7", "Eventual", 0},
		{"5:-1#7", "ConsistentPrefix", 0},
		{"5:-1#7", "Session", 7},
	} {
		r, err := e.reading(Options{Session: c.token, Consistency: c.level})
		if err != nil {
			t.Fatalf("%s: %v", c.token, err)
		}
		if got := r.behind(child); got != c.want {
			t.Errorf("token %q at level %q: got %d, want %d", c.token, c.level, got, c.want)
		}
	}
}
