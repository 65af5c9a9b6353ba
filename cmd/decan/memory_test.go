package main

import (
	"runtime/debug"
	"testing"

	"github.com/decandb/decan/internal/server"
)

func TestDivideMemory(t *testing.T) {
	t.Parallel()
	const mb, gb = 1 << 20, 1 << 30
	type options = server.MemoryOptions
	for _, c := range []struct {
		name      string
		available int64
		percent   int
		asked     options
		want      options
		soft      softLimit
	}{
		{"a machine of 100 GB", 100 * gb, 75, options{}, options{Process: 75 * gb, Cache: 12800 * mb, Requests: 512 * mb}, 75*gb - 12800*mb - 400*mb},
		{"a container of 2,000 MB", 2000 * mb, 90, options{}, options{Process: 1800 * mb, Cache: 250 * mb, Requests: 64 * mb}, 1800*mb - 250*mb - 128*mb},
		{"a container of 300 MB", 300 * mb, 90, options{}, options{Process: 270 * mb, Cache: 128 * mb, Requests: 64 * mb}, 128 * mb},
		{"--memory", 100 * gb, 75, options{Process: 8 * gb}, options{Process: 8 * gb, Cache: gb, Requests: 256 * mb}, 7*gb - 128*mb},
		{"--cache and --request-memory", 100 * gb, 50, options{Cache: gb, Requests: 100 * mb}, options{Process: 50 * gb, Cache: gb, Requests: 100 * mb}, 49*gb - 128*mb},
		{"a cache that is nearly all", 10 * gb, 100, options{Cache: 9 * gb}, options{Process: 10 * gb, Cache: 9 * gb, Requests: 320 * mb}, 2560 * mb},
		{"a system that does not tell", 0, 0, options{}, options{Cache: 128 * mb, Requests: 64 * mb}, 0},
	} {
		got := c.asked
		soft := divideMemory(c.available, c.percent, &got)
		// The percentage is of whole hundredths, so all sizes may be a few bytes less.
		near := func(what string, got, want int64) {
			if off := want - got; off < 0 || off >= 100 {
				t.Errorf("%s: %s is %d, want %d", c.name, what, got, want)
			}
		}
		near("the memory", int64(got.Process), int64(c.want.Process))
		near("the cache", int64(got.Cache), int64(c.want.Cache))
		near("the memory of requests", int64(got.Requests), int64(c.want.Requests))
		near("the soft limit", int64(soft), int64(c.soft))
	}
	if available, percent := memory(); available < 0 || percent != 0 && percent != containerPercent && percent != machinePercent {
		t.Errorf("this machine has %d bytes, of which %d percent", available, percent)
	}
}

// TestSoftLimit: the limit of Go's memory is in force while the server runs, unless
// the environment has one.
func TestSoftLimit(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	stop := softLimit(1 << 40).apply()
	if got := debug.SetMemoryLimit(-1); got != 1<<40 {
		t.Errorf("the limit is %d", got)
	}
	stop()
	t.Setenv("GOMEMLIMIT", "2TiB")
	for _, limit := range []softLimit{1 << 40, 0} {
		stop := limit.apply()
		if got := debug.SetMemoryLimit(-1); got != before {
			t.Errorf("the limit is %d in place of the environment's, want %d", got, before)
		}
		stop()
	}
}
