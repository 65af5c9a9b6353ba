package cluster

import "testing"

// The descriptors lower the number of open partitions, and leaves at
// least one.
func TestOpenWith(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ wanted, descriptors, want int }{
		{4096, 0, 1},
		{4096, 11, 1},
		{4096, 23, 1},
		{4096, 24, 2},
		{4096, 512, 42},
		{4096, 1 << 20, 4096},
		{100, 1 << 20, 100},
		{1, 1024, 1},
	} {
		if got := openWith(c.wanted, c.descriptors); got != c.want {
			t.Errorf("%d wanted with %d descriptors: got %d, want %d", c.wanted, c.descriptors, got, c.want)
		}
	}
}
