package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server/servertest"
	"github.com/decandb/decan/internal/storage"
)

// BenchmarkQueryRatios measures queries over 8 partitions of 1 KB documents, at
// the numbers of documents in DECAN_BENCH_ITEMS (100,000 and 1,000,000), in one
// run with what each is compared with: a point read, a pass over the stored
// bytes, and PostgreSQL with JSONB where it is installed. `make bench` runs it
// and prints the table of docs/benchmarks.md.
func BenchmarkQueryRatios(b *testing.B) {
	sizes := []int{100_000, 1_000_000}
	if text := os.Getenv("DECAN_BENCH_ITEMS"); text != "" {
		sizes = nil
		for field := range strings.SplitSeq(text, ",") {
			var n int
			if _, err := fmt.Sscan(field, &n); err != nil {
				b.Fatal(err)
			}
			sizes = append(sizes, n)
		}
	}
	for b.Loop() {
		table := &ratios{b: b}
		equality, ranges := map[int]float64{}, map[int]float64{}
		for _, size := range sizes {
			q := newQueryBench(table, size)
			equality[size], ranges[size] = q.run()
		}
		if len(sizes) == 2 {
			small, large := sizes[0], sizes[1]
			growth := func(what string, p50 map[int]float64) {
				table.add(fmt.Sprintf("%s, %d against %d items", what, large, small), micros(p50[large]), micros(p50[small]),
					fmt.Sprintf("%.2f", p50[large]/p50[small]), "at most 1.3")
			}
			growth("equality, 10 items", equality)
			growth("range, 10 items", ranges)
		}
		table.print()
	}
}

const (
	queryBenchPartitions = 8
	queryBenchContainer  = `{"id":"c","partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2},` +
		`"indexingPolicy":{"indexingMode":"consistent","includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/note/?"},{"path":"/plain/?"},{"path":"/\"_etag\"/?"}]}}`
)

// queryItem is a document of 1 KB: ten share ten, a hundredth of all shares
// hundred, rank is unique, and plain is not indexed.
func queryItem(i, of int) string {
	text := fmt.Sprintf(`{"id":"q%d","tenant":"t%d","user":"u%d","ten":%d,"hundred":"h%02d","rank":%d,"price":%d.25,"kind":"order","status":"open","region":"north","city":"city-%d","flag":true,"stage":%d,"plain":%d,"note":"`,
		i, i%10, i%1000, i/10, i%100, (i*7919)%of, i%1000, i%200, i%5, i%10)
	return text + strings.Repeat("x", max(0, 1022-len(text))) + `"}`
}

func queryItemKey(i int) string { return fmt.Sprintf(`["t%d","u%d"]`, i%10, i%1000) }

// queryBench is one server with its items.
type queryBench struct {
	*ratios
	items  int
	data   string
	server *Server
	client *servertest.Client
}

func newQueryBench(r *ratios, items int) *queryBench {
	q := &queryBench{ratios: r, items: items, data: r.b.TempDir()}
	q.server = start(r.b, Config{Data: q.data})
	if err := q.server.CreateContainer(context.Background(), "bench", queryBenchContainer, queryBenchPartitions); err != nil {
		r.b.Fatal(err)
	}
	var wait sync.WaitGroup
	const loaders = 64
	for worker := range loaders {
		client, err := servertest.Dial(q.server.address())
		if err != nil {
			r.b.Fatal(err)
		}
		wait.Go(func() {
			defer client.Close()
			for i := worker; i < items; i += loaders {
				request := servertest.Prepare(q.server.Key(), "POST", benchLink, []byte(queryItem(i, items)), "x-ms-documentdb-partitionkey", queryItemKey(i))
				if response, err := client.Do(request); err != nil || response.Status != 201 {
					r.b.Errorf("%v %d %s", err, response.Status, response.Body)
					return
				}
			}
		})
	}
	wait.Wait()
	var err error
	if q.client, err = servertest.Dial(q.server.address()); err != nil {
		r.b.Fatal(err)
	}
	return q
}

// query prepares a query that the server answers in full.
func (q *queryBench) query(text string, params ...any) servertest.Request {
	list := []map[string]any{}
	for i := 0; i+1 < len(params); i += 2 {
		list = append(list, map[string]any{"name": params[i], "value": params[i+1]})
	}
	body, err := json.Marshal(map[string]any{"query": text, "parameters": list})
	if err != nil {
		q.b.Fatal(err)
	}
	return servertest.Prepare(q.server.Key(), "POST", benchLink, body,
		"x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json",
		"x-ms-documentdb-query-enablecrosspartition", "True", "x-decan-cross-partition", "full")
}

// p50 sends requests in turn and returns the median time in microseconds. The
// number of rows of every answer must be want.
func (q *queryBench) p50(requests []servertest.Request, rounds, want int) float64 {
	var took []float64
	for range rounds {
		for _, request := range requests {
			began := time.Now()
			response, err := q.client.Do(request)
			took = append(took, float64(time.Since(began).Nanoseconds())/1000)
			if err != nil || response.Status != 200 {
				q.b.Fatalf("%v %d %s", err, response.Status, response.Body)
			}
			if want >= 0 && !strings.Contains(string(response.Body), fmt.Sprintf(`"_count":%d`, want)) {
				q.b.Fatalf("not %d rows: %.200s", want, response.Body)
			}
		}
	}
	return median(took)
}

func micros(us float64) string {
	if us >= 10_000 {
		return fmt.Sprintf("%.1f ms", us/1000)
	}
	return fmt.Sprintf("%.0f µs", us)
}

// run measures everything and returns the medians of equality and range.
func (q *queryBench) run() (equality, ranges float64) {
	defer func() { q.client.Close() }()
	reads, equals, between := q.lookups()
	var read []float64
	var equalityRounds, rangeRounds, equalityRatios, rangeRatios []float64
	for range benchRounds {
		r, e, g := q.p50(reads, 2, -1), q.p50(equals, 2, 10), q.p50(between, 2, 10)
		read, equalityRounds, rangeRounds = append(read, r), append(equalityRounds, e), append(rangeRounds, g)
		equalityRatios, rangeRatios = append(equalityRatios, e/r), append(rangeRatios, g/r)
	}
	equality, ranges = median(equalityRounds), median(rangeRounds)
	name := func(what string) string { return fmt.Sprintf("%s, %d items", what, q.items) }
	q.add(name("equality returning 10, p50"), micros(equality), micros(median(read))+" point read", fmt.Sprintf("%.2f", median(equalityRatios)), "at most 2")
	q.add(name("range returning 10, p50"), micros(ranges), micros(median(read))+" point read", fmt.Sprintf("%.2f", median(rangeRatios)), "at most 2")

	one := func(text string, rounds, rows int, params ...any) float64 {
		return q.p50([]servertest.Request{q.query(text, params...)}, rounds, rows)
	}
	top := one("SELECT TOP 10 * FROM c ORDER BY c.rank", 200, 10)
	q.add(name("ORDER BY TOP 10, p50"), micros(top), "", "", "below 1 ms")
	q.add(name("COUNT of everything, p50"), micros(one("SELECT VALUE COUNT(1) FROM c", 200, 1)), "", "", "below 1 ms")
	q.add(name("COUNT under an indexed filter, p50"), micros(one("SELECT VALUE COUNT(1) FROM c WHERE c.hundred = 'h42'", 200, 1)), "", "", "below 1 ms")
	group := one("SELECT c.hundred, COUNT(1) AS n FROM c GROUP BY c.hundred", 20, 100)
	q.add(name("GROUP BY 100 values, p50"), micros(group), "", "", q.aim(100_000, "below 100 ms"))
	sums := one("SELECT c.hundred, SUM(c.price) AS p FROM c GROUP BY c.hundred", 5, 100)
	q.add(name("GROUP BY 100 values with SUM, p50"), micros(sums), "", "", "published")
	rows := one("SELECT VALUE c.id FROM c WHERE c.plain = 3 AND c.rank < 0", 5, 0)
	q.add(name("filter without an index, no rows, p50"), micros(rows), "", "", "published")
	count := one("SELECT VALUE COUNT(1) FROM c WHERE c.plain = 3", 7, 1)
	postgres := q.postgres()
	if err := q.server.Close(); err != nil {
		q.b.Fatal(err)
	}
	scan := q.scan()
	q.add(name("COUNT under a filter without an index, p50"), micros(count), micros(scan)+" pass over the stored bytes", fmt.Sprintf("%.2f", scan/count), "at least 0.5 of its speed")
	for _, p := range []struct {
		what      string
		ours      float64
		statement string
	}{
		{"equality", equality, postgresEquality}, {"ORDER BY TOP 10", top, postgresTop}, {"GROUP BY", group, postgresGroup},
	} {
		theirs, ok := postgres[p.statement]
		if !ok {
			continue
		}
		q.add(name(p.what+" against PostgreSQL, JSONB and GIN"), micros(p.ours), micros(theirs), fmt.Sprintf("%.2f", p.ours/theirs), "at most 1")
	}
	return equality, ranges
}

// aim returns what is aimed at, which holds at one size.
func (q *queryBench) aim(items int, text string) string {
	if q.items == items {
		return text
	}
	return "published"
}

// lookups prepares point reads and the queries that return ten items.
func (q *queryBench) lookups() (reads, equals, between []servertest.Request) {
	for range 200 {
		i := rand.IntN(q.items)
		reads = append(reads, servertest.Prepare(q.server.Key(), "GET", fmt.Sprintf("%s/q%d", benchLink, i), nil, "x-ms-documentdb-partitionkey", queryItemKey(i)))
		equals = append(equals, q.query("SELECT * FROM c WHERE c.ten = @v", "@v", i/10))
		low := rand.IntN(q.items - 10)
		between = append(between, q.query("SELECT * FROM c WHERE c.rank >= @v AND c.rank < @w", "@v", low, "@w", low+10))
	}
	return reads, equals, between
}

// scan passes over the rows of all documents and looks at each byte, as many
// partitions at once as a query asks, and returns the median time in
// microseconds.
func (q *queryBench) scan() float64 {
	pool, err := storage.NewPool(storage.Options{})
	if err != nil {
		q.b.Fatal(err)
	}
	defer pool.Close()
	dirs, err := filepath.Glob(filepath.Join(q.data, "p", "*", "*"))
	if err != nil || len(dirs) != queryBenchPartitions {
		q.b.Fatal(len(dirs), err)
	}
	stores := make([]*storage.Store, len(dirs))
	for i, dir := range dirs {
		if stores[i], err = pool.Open(dir); err != nil {
			q.b.Fatal(err)
		}
		defer stores[i].Close()
	}
	var took []float64
	for range 7 {
		began := time.Now()
		each(len(stores), func(i int) { passOver(q.b, stores[i]) })
		took = append(took, float64(time.Since(began).Microseconds()))
	}
	return median(took)
}

// each calls do for 0 to n-1, two at a time.
func each(n int, do func(i int)) {
	var wait sync.WaitGroup
	tickets := make(chan struct{}, 2)
	for i := range n {
		tickets <- struct{}{}
		wait.Go(func() {
			defer func() { <-tickets }()
			do(i)
		})
	}
	wait.Wait()
}

// never is in no document.
var never = []byte{0, 0xFF}

// passOver reads every byte of the documents of a store.
func passOver(b *testing.B, store *storage.Store) {
	snapshot := store.Snapshot()
	defer snapshot.Close()
	low, high := storage.FamilyDocument.Bounds()
	rows := snapshot.Iter(low, high)
	defer rows.Close()
	found := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		found += bytes.Count(rows.Value(), never)
	}
	if err := rows.Err(); err != nil || found < 0 {
		b.Error(err)
	}
}
