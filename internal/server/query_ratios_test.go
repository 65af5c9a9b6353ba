package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/server/servertest"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// BenchmarkQueryRatios measures queries over 8 partitions of 1 KB documents, at the
// numbers of documents in DECAN_BENCH_ITEMS (100,000), in one run with the figures that
// they are compared with: a point read, a pass over the stored bytes, and PostgreSQL
// with JSONB if it is installed. `make bench` runs it and prints the table of
// docs/benchmarks.md; with two numbers it also reports how times grow.
func BenchmarkQueryRatios(b *testing.B) {
	sizes := []int{100_000}
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

// BenchmarkFewDocuments measures, one at a time, a point read and the queries
// that return ten documents, over HTTP and in the engine: for profiles. Each
// query has another value; there are more values than cached plans.
// DECAN_BENCH_ITEMS (100,000) is the number of documents.
func BenchmarkFewDocuments(b *testing.B) {
	items := 100_000
	if text := os.Getenv("DECAN_BENCH_ITEMS"); text != "" {
		if _, err := fmt.Sscan(text, &items); err != nil {
			b.Fatal(err)
		}
	}
	q := newQueryBench(&ratios{b: b}, items)
	defer q.client.Close()
	read, equality, between, key, prefix := q.lookups()
	for _, l := range []lookup{read, equality, between, key, prefix} {
		b.Run("door=nosql/what="+l.what, func(b *testing.B) {
			quantiles(b, func(i int) error {
				response, err := q.client.Do(l.requests[i%len(l.requests)])
				if err == nil && response.Status != 200 {
					err = fmt.Errorf("%d %s", response.Status, response.Body)
				}
				return err
			})
		})
		b.Run("door=none/what="+l.what, func(b *testing.B) {
			quantiles(b, func(i int) error {
				_, err := l.calls[i%len(l.calls)]()
				return err
			})
		})
	}
}

// quantiles runs a benchmark and reports the mean, the median and the first
// decile of the calls. Other load on the machine affects the last two less.
func quantiles(b *testing.B, do func(i int) error) {
	b.ReportAllocs()
	took := make([]time.Duration, 0, 1<<20)
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		if err := do(i); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)/10].Nanoseconds()), "p10-ns")
}

const (
	queryBenchPartitions = 8
	queryBenchCache      = 1 << 30 // bytes, as much as PostgreSQL gets
	queryBenchContainer  = `{"id":"c","partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2},` +
		`"indexingPolicy":{"indexingMode":"consistent","includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/note/?"},{"path":"/plain/?"},{"path":"/\"_etag\"/?"}]}}`
)

var benchEngineLink = engine.Link{Database: "bench", Container: "c"}

// queryItem returns a document of 1 KB: ten share the value of ten, a hundredth
// of all share that of hundred, rank is unique, and plain is not indexed.
func queryItem(i, of int) string {
	text := fmt.Sprintf(`{"id":"q%d","tenant":"t%d","user":"u%d","ten":%d,"hundred":"h%02d","rank":%d,"price":%d.25,"kind":"order","status":"open","region":"north","city":"city-%d","flag":true,"stage":%d,"plain":%d,"note":"`,
		i, i%10, i%1000, i/10, i%100, (i*7919)%of, i%1000, i%200, i%5, i%10)
	return text + strings.Repeat("x", max(0, 1022-len(text))) + `"}`
}

func queryItemKey(i int) string { return fmt.Sprintf(`["t%d","u%d"]`, i%10, i%1000) }

// benchRest is the pause of the server between loading and measuring: the loaded
// data is flushed, just as PostgreSQL vacuums it.
const benchRest = 10 * time.Second

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
	q.server = start(r.b, Config{Data: q.data, Memory: MemoryOptions{Cache: queryBenchCache}, Storage: StorageOptions{IdleFlush: time.Second}})
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
	time.Sleep(benchRest)
	var err error
	if q.client, err = servertest.Dial(q.server.address()); err != nil {
		r.b.Fatal(err)
	}
	return q
}

// query prepares a query that the server answers in full, with additional
// headers.
func (q *queryBench) query(text string, header []string, params ...any) servertest.Request {
	list := []map[string]any{}
	for i := 0; i+1 < len(params); i += 2 {
		list = append(list, map[string]any{"name": params[i], "value": params[i+1]})
	}
	body, err := json.Marshal(map[string]any{"query": text, "parameters": list})
	if err != nil {
		q.b.Fatal(err)
	}
	header = append(header, "x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json",
		"x-ms-documentdb-query-enablecrosspartition", "True", "x-decan-cross-partition", "full")
	return servertest.Prepare(q.server.Key(), "POST", benchLink, body, header...)
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
	equality, ranges = q.few()
	name := func(what string) string { return fmt.Sprintf("%s, %d items", what, q.items) }
	one := func(text string, rounds, rows int, params ...any) float64 {
		return q.p50([]servertest.Request{q.query(text, nil, params...)}, rounds, rows)
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

// few measures the queries that find few items against point reads, both over
// HTTP and both in the engine, and returns the medians of equality and range over
// HTTP. The first round, with values that no query has used before, is also shown
// separately: later ones may find rows in a cache.
func (q *queryBench) few() (equality, ranges float64) {
	read, equals, between, key, prefix := q.lookups()
	var reads, readCalls []float64
	list := []struct {
		lookup
		name string
		rows int
		aim  string

		took, calls, ratios, callRatios []float64
	}{
		{lookup: equals, name: "equality returning 10", rows: 10, aim: "at most 2"},
		{lookup: between, name: "range returning 10", rows: 10, aim: "at most 2"},
		{lookup: key, name: "equality in a key, returning 1", rows: 1, aim: "published"},
		{lookup: prefix, name: "equality in a prefix of the key, returning 1", rows: 1, aim: "published"},
	}
	for range benchRounds {
		r, rc := q.p50(read.requests, 1, -1), q.p50Calls(read.calls, 1, 1)
		reads, readCalls = append(reads, r), append(readCalls, rc)
		for i := range list {
			l := &list[i]
			e, c := q.p50(l.requests, 1, l.rows), q.p50Calls(l.lookup.calls, 1, l.rows)
			l.took, l.calls = append(l.took, e), append(l.calls, c)
			l.ratios, l.callRatios = append(l.ratios, e/r), append(l.callRatios, c/rc)
		}
	}
	for i := range list {
		l := &list[i]
		q.add(fmt.Sprintf("%s, p50, %d items", l.name, q.items), micros(median(l.took)), micros(median(reads))+" point read", fmt.Sprintf("%.2f", median(l.ratios)), l.aim)
		q.add("  the first time each is sent", micros(l.took[0]), micros(reads[0])+" point read", fmt.Sprintf("%.2f", l.ratios[0]), "published")
		q.add("  of it in the engine", micros(median(l.calls)), micros(median(readCalls))+" point read", fmt.Sprintf("%.2f", median(l.callRatios)), "published")
	}
	return median(list[0].took), median(list[1].took)
}

// aim returns the aim, which applies at one size.
func (q *queryBench) aim(items int, text string) string {
	if q.items == items {
		return text
	}
	return "published"
}

// lookup is a kind of request for few documents, with many values: over HTTP and,
// for the same values, in the engine.
type lookup struct {
	what     string
	requests []servertest.Request
	calls    []func() (rows int, err error)
}

// lookupValues is the number of values of each lookup: more than the engine's
// cached plans, so that a repeated value needs a new plan.
const lookupValues = 1500

// lookups prepares point reads and the queries that return few items.
func (q *queryBench) lookups() (read, equality, between, key, prefix lookup) {
	read.what, equality.what, between.what = "point-read", "equality", "range"
	key.what, prefix.what = "equality-in-a-key", "equality-in-a-prefix"
	for range lookupValues {
		i := rand.IntN(q.items)
		low := rand.IntN(q.items - 10)
		tenant, full := fmt.Sprintf(`["t%d"]`, i%10), queryItemKey(i)
		q.read(&read, fmt.Sprintf("q%d", i), full)
		q.ask(&equality, "", "SELECT * FROM c WHERE c.ten = @v", "@v", i/10)
		q.ask(&between, "", "SELECT * FROM c WHERE c.rank >= @v AND c.rank < @w", "@v", low, "@w", low+10)
		q.ask(&key, full, "SELECT * FROM c WHERE c.ten = @v", "@v", i/10)
		q.ask(&prefix, tenant, "SELECT * FROM c WHERE c.ten = @v", "@v", i/10)
	}
	return read, equality, between, key, prefix
}

// read adds a point read to a lookup.
func (q *queryBench) read(l *lookup, id, key string) {
	l.requests = append(l.requests, servertest.Prepare(q.server.Key(), "GET", benchLink+"/"+id, nil, "x-ms-documentdb-partitionkey", key))
	req := engine.DocumentRequest{Link: benchEngineLink, Key: q.key(key)}
	req.Link.Document = id
	l.calls = append(l.calls, func() (int, error) {
		_, err := q.server.engine.Read(context.Background(), auth.Owner(), req)
		return 1, err
	})
}

// ask adds a query to a lookup, for one key if it is given.
func (q *queryBench) ask(l *lookup, key, text string, params ...any) {
	var header []string
	req := engine.QueryRequest{Link: benchEngineLink, Text: text, Cross: true, Full: true}
	if key != "" {
		header, req.Key = []string{"x-ms-documentdb-partitionkey", key}, q.key(key)
	}
	for i := 0; i+1 < len(params); i += 2 {
		req.Params = append(req.Params, query.Param{Name: params[i].(string), Value: value.Number(float64(params[i+1].(int)))})
	}
	l.requests = append(l.requests, q.query(text, header, params...))
	l.calls = append(l.calls, func() (int, error) {
		page, err := q.server.engine.Query(context.Background(), auth.Owner(), req)
		return len(page.Rows), err
	})
}

func (q *queryBench) key(text string) *partitionkey.Key {
	key, err := partitionkey.Parse(text)
	if err != nil {
		q.b.Fatal(err)
	}
	return &key
}

// p50Calls is p50 for calls of the engine.
func (q *queryBench) p50Calls(calls []func() (int, error), rounds, want int) float64 {
	var took []float64
	for range rounds {
		for _, call := range calls {
			began := time.Now()
			rows, err := call()
			took = append(took, float64(time.Since(began).Nanoseconds())/1000)
			if err != nil || rows != want {
				q.b.Fatalf("%d rows, want %d: %v", rows, want, err)
			}
		}
	}
	return median(took)
}

// scan passes over the rows of all documents and reads each byte, in as many
// partitions at once as a query, and returns the median time in microseconds.
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

// never occurs in no document.
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
