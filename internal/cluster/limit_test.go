package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestDescriptorsMatter shows that a warning about the limit of descriptors, with the
// remedy, is logged only if the limit keeps some partitions from being open.
func TestDescriptorsMatter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		exist int
		warns bool
	}{{0, false}, {2, false}, {3, true}} {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		if got := maxOpen(4096, 2*descriptorsPerPartition, c.exist, logger); got != 2 {
			t.Errorf("%d may be open, want 2", got)
		}
		if warns := strings.Contains(log.String(), "ulimit -n"); warns != c.warns {
			t.Errorf("with %d partitions the log is %q", c.exist, log.String())
		}
	}
}

// TestOpenWith lowers the number of open partitions to what the descriptors allow, but
// not below one.
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
