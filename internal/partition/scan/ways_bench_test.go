//go:build linux

package scan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// BenchmarkWays varies the documents of a key, the length of lists and the rows found.
// It runs each query in every way and in the chosen one, in turn, and prints the
// processor time of each in microseconds, a lower quartile, and the ratio of the chosen
// way to the best one. It does so with everything in the cache, with documents that are
// not in the cache, and right after upserts of the documents of the keys.
// DECAN_BENCH_ITEMS (40,000) is the number of other documents; from 400,000 on there is
// a key of 100,000 documents as well.
func BenchmarkWays(b *testing.B) {
	q := newWaysBench(b)
	for _, state := range []struct {
		name    string
		begin   func()
		between func()
	}{
		{"warm", func() { q.w.reopen(1 << 30) }, nil},
		{"cold", func() { q.w.reopen(1 << 20) }, q.evict},
		{"upserted", func() { q.w.reopen(1 << 30); q.upsert() }, nil},
	} {
		b.Run(state.name, func(b *testing.B) {
			state.begin()
			for b.Loop() {
				q.sweep(state.name, state.between)
			}
		})
	}
}

// waysBench is a partition with keys of several sizes among others.
type waysBench struct {
	b      *testing.B
	w      *world
	others int
	sizes  []int

	pending map[string][]partition.BatchOperation
}

func newWaysBench(b *testing.B) *waysBench {
	q := &waysBench{b: b, others: 40_000, sizes: []int{10, 100, 1000, 2000, 10_000}, pending: map[string][]partition.BatchOperation{}}
	if text := os.Getenv("DECAN_BENCH_ITEMS"); text != "" {
		if _, err := fmt.Sscan(text, &q.others); err != nil {
			b.Fatal(err)
		}
	}
	if q.others >= 400_000 {
		q.sizes = append(q.sizes, 100_000)
	}
	q.w = newWorld(b, "/pk", "")
	q.w.memTableBytes = 16 << 20
	q.w.rosters = scan.NewRosters(32 << 20) // as in a server
	q.w.reopen(1 << 30)
	// Documents of the keys are mixed with others.
	keys := q.others/2000 + 1
	for i := range q.others {
		q.load(fmt.Sprintf("o%d", i%keys), i/keys, 2000)
		for _, size := range q.sizes {
			if every := max(1, q.others/size); i%every == 0 && i/every < size {
				q.load(fmt.Sprintf("k%d", size), i/every, size)
			}
		}
	}
	for key := range q.pending {
		q.flush(key)
	}
	for at := range 2000 {
		q.write(partition.Create, strings.Replace(q.document("small", at, 2000), waysPad, "", 1))
	}
	q.w.reopen(1 << 30)
	return q
}

var waysPad = strings.Repeat("x", 700)

// document returns a document of a key with that many documents. If there are very
// many, the other documents have no padding, to fit in memory.
func (q *waysBench) document(key string, at, of int) string {
	pad := waysPad
	if key[0] == 'o' && q.others > 100_000 {
		pad = ""
	}
	return fmt.Sprintf(`{"id":"%s-%d","pk":%q,"rank":%d,"one":"v%d","ten":"v%d","all":"v","own":"%s-%d","name":"name %d","pad":%q}`,
		key, at, key, at, at, at/10, key, at%max(of/10, 1), at, pad)
}

func (q *waysBench) write(op partition.Op, text string) { q.w.write(op, "", text) }

// load creates a document: at once, or in a batch if there are very many.
func (q *waysBench) load(key string, at, of int) {
	text := q.document(key, at, of)
	if q.others <= 100_000 {
		q.write(partition.Create, text)
		return
	}
	q.pending[key] = append(q.pending[key], partition.BatchOperation{Operation: partition.Operation{Op: partition.Create, Document: q.w.parse(text)}, Silent: true})
	if len(q.pending[key]) == partition.BatchMax {
		q.flush(key)
	}
}

func (q *waysBench) flush(key string) {
	batch := partition.Batch{Generation: q.w.own.Generation, Key: partitionkey.NewKey(partitionkey.String(key))}
	batch.EPK = q.w.container.PartitionKey.Hash(batch.Key)
	if batch.Operations = q.pending[key]; len(batch.Operations) == 0 {
		return
	}
	if _, err := q.w.partition.Batch(q.b.Context(), batch); err != nil {
		q.b.Fatal(err)
	}
	delete(q.pending, key)
}

// upsert writes documents of the keys again, up to 2,000 of each.
func (q *waysBench) upsert() {
	for _, size := range q.sizes {
		for at := range min(size, 2000) {
			q.write(partition.Upsert, q.document(fmt.Sprintf("k%d", size), at*(size/min(size, 2000)), size))
		}
	}
}

// evict reads other documents, three times the size of the cache.
func (q *waysBench) evict() {
	s := q.w.source(q.w.keyRange(fmt.Sprintf("o%d", rand.IntN(q.others/2000+1))))
	defer s.Free()
	rows := q.w.now().Rows.Iter(s.DocumentBounds())
	for n, valid := 0, rows.First(); valid && n < 3<<20; valid = rows.Next() {
		n += len(rows.Value())
	}
	if err := rows.Close(); err != nil {
		q.b.Fatal(err)
	}
}

var benchedWays = []struct {
	name  string
	force scan.Forced
}{
	{"chosen", scan.Forced{}},
	{"pass", scan.Forced{Way: scan.Passes}},
	{"look", scan.Forced{Way: scan.Looks, Rosters: scan.Passes}},
	{"roster", scan.Forced{Way: scan.Looks}},
	{"lists", scan.Forced{Way: scan.Looks, Lists: true}},
	{"matched", scan.Forced{Way: scan.Looks, Match: true}},
}

// sweep runs every query in every way. between is called before each query.
func (q *waysBench) sweep(state string, between func()) {
	fmt.Printf("\n%s\n%-34s %6s %6s", state, "filter", "key", "rows")
	for _, way := range benchedWays {
		fmt.Printf(" %8s", way.name)
	}
	fmt.Printf(" %8s\n", "to best")
	var ratios []float64
	for _, size := range q.sizes {
		for _, where := range []string{
			`c.own = "k%d-1"`, `c.one = "v3"`, `c.ten = "v0"`, `c.all = "v"`, `c.rank >= 0 AND c.rank < 10`, `c.rank >= 5`,
			`c.ten IN ("v0", "v1", "v2")`, `c.ten = "v0" AND c.all = "v"`, `c.ten = "v0" AND c.rank > 3`, `CONTAINS(c.name, "77")`, `STARTSWITH(c.name, "name 1")`,
		} {
			if strings.Contains(where, "%d") {
				where = fmt.Sprintf(where, size)
			}
			took, rows := q.ask(where, fmt.Sprintf("k%d", size), between)
			ratio := took[0] / slices.Min(took[1:])
			ratios = append(ratios, ratio)
			fmt.Printf("%-34s %6d %6d", where, size, rows)
			for _, t := range took {
				fmt.Printf(" %8.0f", t)
			}
			mark := ""
			if ratio > 1.3 {
				mark = " *"
			}
			fmt.Printf(" %8.2f%s\n", ratio, mark)
		}
	}
	slices.Sort(ratios)
	within, found := slices.BinarySearch(ratios, 1.3)
	if found {
		within++
	}
	fmt.Printf("%s: %d of %d within 1.3 of the best; median %.2f, worst %.2f\n", state, within, len(ratios), ratios[len(ratios)/2], ratios[len(ratios)-1])
}

const (
	// waysTime is the approximate time for one query in each way, in waysRounds to
	// waysRoundsMax rounds. A way that is waysHopeless times slower than another one
	// gets only waysRounds.
	waysTime      = 15 * time.Millisecond
	waysRounds    = 3
	waysRoundsMax = 60
	waysHopeless  = 5
)

// ask runs a query in all ways, one after another, several times, and returns the
// processor time of each way in microseconds, a lower quartile, because other work on
// the machine only adds to it. The first round, which creates the roster and fills
// caches, does not count.
func (q *waysBench) ask(where, key string, between func()) (quartiles []float64, rows int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := q.w.keyRange(key)
	plan := q.w.planOf("SELECT * FROM c WHERE " + where)
	took := make([][]float64, len(benchedWays))
	least := math.Inf(1)
	for round := range waysRoundsMax {
		asked := false
		// In another order each time: a way that follows a long one finds a cold cache.
		for _, i := range rand.Perm(len(benchedWays)) {
			if len(took[i]) >= waysRounds && (sum(took[i]) > float64(waysTime.Microseconds()) || slices.Min(took[i]) > waysHopeless*least) {
				continue
			}
			asked = true
			if q.w.reader.Strategy.Force = benchedWays[i].force; between != nil {
				between()
			}
			began := threadTime(q.b)
			page, err := q.w.query(q.b.Context(), plan, r, query.Budget{}, nil)
			if err != nil {
				q.b.Fatal(err)
			}
			if rows = len(page.Rows); round > 0 {
				t := float64((threadTime(q.b) - began).Nanoseconds()) / 1000
				took[i], least = append(took[i], t), min(least, t)
			}
		}
		if !asked {
			break
		}
	}
	for _, times := range took {
		slices.Sort(times)
		quartiles = append(quartiles, times[len(times)/4])
	}
	return quartiles, rows
}

// BenchmarkScanMax reads the ranks of a key, with their documents counted, and the
// first hundred documents of its feed, with several values of scanMax in turn, and
// prints the processor time in microseconds, a lower quartile.
func BenchmarkScanMax(b *testing.B) {
	q := newWaysBench(b)
	plan := q.w.planOf("SELECT c.rank, COUNT(1) AS n FROM c GROUP BY c.rank")
	limits := []int64{0, 5000, 20_000}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		fmt.Printf("\n%-6s %6s %v\n", "what", "key", limits)
		for _, size := range q.sizes {
			r := q.w.keyRange(fmt.Sprintf("k%d", size))
			for _, ask := range []struct {
				name string
				do   func() error
			}{
				{"walk", func() error {
					_, err := q.w.query(b.Context(), plan, r, query.Budget{}, nil)
					return err
				}},
				{"feed", func() error {
					s := q.w.source(r)
					defer s.Free()
					_, err := s.Feed(b.Context(), scan.Feed{MaxItems: 100, Meter: new(throughput.Meter)})
					return err
				}},
			} {
				took := make([][]float64, len(limits))
				for range 10 {
					for i, limit := range limits {
						q.w.reader.Strategy.ScanMax = limit
						began := threadTime(b)
						if err := ask.do(); err != nil {
							b.Fatal(err)
						}
						took[i] = append(took[i], float64((threadTime(b)-began).Nanoseconds())/1000)
					}
				}
				fmt.Printf("%-6s %6d", ask.name, size)
				for _, times := range took {
					slices.Sort(times)
					fmt.Printf(" %8.0f", times[len(times)/4])
				}
				fmt.Println()
			}
		}
		q.w.reader.Strategy = scan.DefaultStrategy()
	}
}

func sum(list []float64) (total float64) {
	for _, x := range list {
		total += x
	}
	return total
}

// threadTime returns the processor time of the thread so far.
func threadTime(b *testing.B) time.Duration { return clockTime(b, unix.CLOCK_THREAD_CPUTIME_ID) }

// processTime returns the processor time of the process so far.
func processTime(b *testing.B) time.Duration { return clockTime(b, unix.CLOCK_PROCESS_CPUTIME_ID) }

func clockTime(b *testing.B, clock int32) time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(clock, &at); err != nil {
		b.Fatal(err)
	}
	return time.Duration(at.Nano())
}
