package cluster

import "testing"

// The descriptor limit lowers the number of open partitions, and leaves at
// least one.
func TestOpenUnder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wanted int
		limit  uint64
		want   int
	}{
		{4096, 0, 1},
		{4096, 512, 1},
		{4096, 523, 1},
		{4096, 536, 2},
		{4096, 1024, 42},
		{4096, 1 << 20, 4096},
		{100, 1 << 20, 100},
		{100, ^uint64(0), 100}, // unlimited
		{1, 1024, 1},
	} {
		if got := openUnder(c.wanted, c.limit); got != c.want {
			t.Errorf("%d wanted under %d descriptors: got %d, want %d", c.wanted, c.limit, got, c.want)
		}
	}
}
