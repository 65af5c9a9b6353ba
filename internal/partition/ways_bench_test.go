//go:build linux

package partition

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/partitionkey"
)

// BenchmarkWays sweeps the documents of a key, the members of lists and the rows found,
// asks each query in every way by force and in the one that is chosen, in turn, and
// prints the processor time of each in microseconds and how many times that of the best
// way the choice takes. DECAN_BENCH_ITEMS (40,000) is the number of other documents.
func BenchmarkWays(b *testing.B) {
	others := 40_000
	if text := os.Getenv("DECAN_BENCH_ITEMS"); text != "" {
		if _, err := fmt.Sscan(text, &others); err != nil {
			b.Fatal(err)
		}
	}
	sizes := []int{10, 100, 1000, 2000, 10_000}
	w := newWorld(b, containerWith(b, 2, []string{"/pk"}, ""))
	pad := strings.Repeat("x", 700)
	write := func(key string, at, of int) {
		text := fmt.Sprintf(`{"id":"%s-%d","pk":%q,"rank":%d,"one":"v%d","ten":"v%d","all":"v","own":"%s-%d","name":"name %d","pad":%q}`,
			key, at, key, at, at, at/10, key, at%max(of/10, 1), at, pad)
		if _, err := w.write(Create, w.parse(text), nil); err != nil {
			b.Fatal(err)
		}
	}
	// Documents of the keys come among those of others.
	for i := range others {
		write(fmt.Sprintf("o%d", i%(others/2000+1)), i/(others/2000+1), 2000)
		for _, size := range sizes {
			if every := max(1, others/size); i%every == 0 && i/every < size {
				write(fmt.Sprintf("k%d", size), i/every, size)
			}
		}
	}
	if err := w.store.Flush(); err != nil {
		b.Fatal(err)
	}
	ways := []struct {
		name  string
		force forced
	}{
		{"chosen", forced{}},
		{"pass", forced{way: passes}},
		{"look", forced{way: looks, rosters: passes}},
		{"roster", forced{way: looks}},
		{"lists", forced{way: looks, lists: true}},
		{"told", forced{way: looks, told: true}},
	}
	for b.Loop() {
		fmt.Printf("\n%-34s %6s %6s", "filter", "key", "rows")
		for _, way := range ways {
			fmt.Printf(" %8s", way.name)
		}
		fmt.Printf(" %8s\n", "to best")
		worst, ratios := 0.0, []float64{}
		for _, size := range sizes {
			for _, where := range []string{
				`c.own = "k%d-1"`, `c.one = "v3"`, `c.ten = "v0"`, `c.all = "v"`, `c.rank >= 0 AND c.rank < 10`, `c.rank >= 5`,
				`c.ten IN ("v0", "v1", "v2")`, `c.ten = "v0" AND c.all = "v"`, `c.ten = "v0" AND c.rank > 3`, `CONTAINS(c.name, "77")`, `STARTSWITH(c.name, "name 1")`,
			} {
				if strings.Contains(where, "%d") {
					where = fmt.Sprintf(where, size)
				}
				took := make([]float64, len(ways))
				rows := 0
				for i, times := range w.askInTurn(b, where, fmt.Sprintf("k%d", size), len(ways), func(i int) { w.partition.Load().strategy.force = ways[i].force }, &rows) {
					slices.Sort(times)
					took[i] = times[len(times)/2]
				}
				ratio := took[0] / slices.Min(took[1:])
				worst, ratios = max(worst, ratio), append(ratios, ratio)
				fmt.Printf("%-34s %6d %6d", where, size, rows)
				for _, t := range took {
					fmt.Printf(" %8.0f", t)
				}
				fmt.Printf(" %8.2f\n", ratio)
			}
		}
		slices.Sort(ratios)
		within := 0
		for _, r := range ratios {
			if r <= 1.3 {
				within++
			}
		}
		fmt.Printf("%d of %d within 1.3 of the best; median %.2f, worst %.2f\n", within, len(ratios), ratios[len(ratios)/2], worst)
	}
	w.partition.Load().strategy.force = forced{}
}

// askInTurn asks a query in n ways, one after the other, several times, and returns the
// processor time of each call in microseconds. The first round, which makes the roster
// and fills caches, does not count.
func (w *world) askInTurn(b *testing.B, where, key string, n int, force func(i int), rows *int) [][]float64 {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := w.partition.Load()
	r, err := w.container.Load().PartitionKey.Prefix(partitionkey.NewKey(partitionkey.String(key)))
	if err != nil {
		b.Fatal(err)
	}
	plan, err := query.Compile("SELECT * FROM c WHERE "+where, nil, p.current.Load().indexing.active.Index, query.Options{})
	if err != nil {
		b.Fatal(err)
	}
	took := make([][]float64, n)
	for round := range 8 {
		// In another order each time: who comes after a long one finds no warm cache.
		for _, i := range rand.Perm(n) {
			force(i)
			began := threadTime(b)
			page, _, err := p.Query(b.Context(), Query{Plan: plan, Generation: w.own.Generation, Range: r})
			if err != nil {
				b.Fatal(err)
			}
			if *rows = len(page.Rows); round > 0 {
				took[i] = append(took[i], float64((threadTime(b)-began).Nanoseconds())/1000)
			}
		}
	}
	return took
}

// threadTime returns the processor time of the thread so far.
func threadTime(b *testing.B) time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		b.Fatal(err)
	}
	return time.Duration(at.Nano())
}
