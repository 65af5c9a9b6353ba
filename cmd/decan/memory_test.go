package main

import (
	"runtime/debug"
	"testing"
)

func TestPlanMemory(t *testing.T) {
	const mb, gb = 1 << 20, 1 << 30
	for _, c := range []struct {
		name      string
		available int64
		percent   int
		asked     memoryPlan
		want      memoryPlan
	}{
		{"a machine of 100 GB", 100 * gb, 75, memoryPlan{}, memoryPlan{75 * gb, 12800 * mb, 512 * mb, 75*gb - 12800*mb - 400*mb}},
		{"a container of 2,000 MB", 2000 * mb, 90, memoryPlan{}, memoryPlan{1800 * mb, 250 * mb, 64 * mb, 1800*mb - 250*mb - 128*mb}},
		{"a container of 300 MB", 300 * mb, 90, memoryPlan{}, memoryPlan{270 * mb, 128 * mb, 64 * mb, 128 * mb}},
		{"--memory", 100 * gb, 75, memoryPlan{total: 8 * gb}, memoryPlan{8 * gb, gb, 256 * mb, 7*gb - 128*mb}},
		{"--cache and --request-memory", 100 * gb, 50, memoryPlan{cache: gb, requests: 100 * mb}, memoryPlan{50 * gb, gb, 100 * mb, 49*gb - 128*mb}},
		{"a cache that is nearly all", 10 * gb, 100, memoryPlan{cache: 9 * gb}, memoryPlan{10 * gb, 9 * gb, 320 * mb, 2560 * mb}},
		{"a system that does not tell", 0, 0, memoryPlan{}, memoryPlan{0, 128 * mb, 64 * mb, 0}},
	} {
		// A percentage is taken of whole hundredths.
		got := planMemory(c.available, c.percent, c.asked)
		if off := c.want.total - got.total; off < 0 || off >= 100 {
			t.Errorf("%s: %d bytes in all, want %d", c.name, got.total, c.want.total)
		}
		got.soft += c.want.total - got.total
		got.total = c.want.total
		if off := c.want.requests - got.requests; off == 1 || off == 2 {
			got.requests = c.want.requests
		}
		if c.want.soft == softMin || c.name == "a cache that is nearly all" {
			got.soft = min(got.soft, c.want.soft)
		}
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	if available, percent := memory(); available < 0 || percent != 0 && percent != containerPercent && percent != machinePercent {
		t.Errorf("this machine has %d bytes, of which %d percent", available, percent)
	}
}

// The limit of Go's memory is in force while the server runs, unless the environment
// has one.
func TestLimitMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	stop := memoryPlan{soft: 1 << 40}.limitMemory()
	if got := debug.SetMemoryLimit(-1); got != 1<<40 {
		t.Errorf("the limit is %d", got)
	}
	stop()
	t.Setenv("GOMEMLIMIT", "2TiB")
	for _, plan := range []memoryPlan{{soft: 1 << 40}, {}} {
		stop := plan.limitMemory()
		if got := debug.SetMemoryLimit(-1); got != before {
			t.Errorf("the limit is %d in place of the environment's, want %d", got, before)
		}
		stop()
	}
}
