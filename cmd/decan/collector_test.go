package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercentFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		liveMB uint64
		want   int
	}{
		{0, 6400}, {1, 6300}, {8, 700}, {16, 300}, {24, 150}, {30, 100}, {32, 100}, {64, 100}, {65, 100}, {1 << 20, 100},
	} {
		if got := percentFor(test.liveMB << 20); got != test.want {
			t.Errorf("%d MB in use: %d percent, want %d", test.liveMB, got, test.want)
		}
	}
}

// TestHeapFloor allocates many times the live heap, and counts the collections.
func TestHeapFloor(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(percentDefault)
	defer debug.SetGCPercent(before)
	const each, times = 1 << 20, 512
	collections := func() uint32 {
		var from, to runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&from)
		for range times {
			garbage = make([]byte, each)
		}
		runtime.ReadMemStats(&to)
		return to.NumGC - from.NumGC
	}
	stop := keepHeapFloor()
	floored := collections()
	stop()
	runtime.GC()
	plain := collections()
	if most := uint32(times * each / (heapFloor / 3)); floored > most || plain <= most {
		t.Errorf("%d collections with a floor and %d without; want at most %d, and more", floored, plain, most)
	}
}

var garbage []byte
