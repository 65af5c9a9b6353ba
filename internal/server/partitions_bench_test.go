package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/server/servertest"
	"github.com/decandb/decan/partitionkey"
)

// BenchmarkManyPartitions measures containers with 8, 100 and 1,000 physical
// partitions that hold the same documents, and prints how the figures grow. The
// cost of requests to few partitions should not depend on the number of
// partitions (S40). Each size has a new server and data directory.
func BenchmarkManyPartitions(b *testing.B) {
	for b.Loop() {
		var columns []manyFigures
		for _, partitions := range manySizes {
			m := &manyBench{b: b, partitions: partitions, data: b.TempDir()}
			m.run()
			columns = append(columns, m.figures)
		}
		printMany(columns)
	}
}

var manySizes = []int{8, 100, 1000}

const (
	manyDocuments = 10_000 // of tenants with one each, the same in all containers
	manyUsers     = 500    // of the one tenant on manyTouched partitions, one document each
	manyTouched   = 5
	manySample    = 1_000 // measured requests to few partitions
	manyFans      = 50    // measured fan-outs
)

// manyFigures are the results of one size; times in microseconds.
type manyFigures struct {
	create, restart, reopen     float64
	write, targeted, prefix     float64
	fan                         float64
	targetedRU, prefixRU, fanRU float64
	idle                        float64 // bytes of resident memory of a partition that was written to, was flushed and is open; 0 where the system does not report it
}

type manyBench struct {
	b          *testing.B
	partitions int
	data       string
	server     *Server
	client     *servertest.Client
	figures    manyFigures
}

func (m *manyBench) run() {
	m.create()
	m.load(manyDocuments)
	m.ask()
	m.restart()
	m.rest()
	m.client.Close()
	if err := m.server.Close(); err != nil {
		m.b.Fatal(err)
	}
}

// dial makes a client for the following requests: a connection without a request
// for half a minute is closed.
func (m *manyBench) dial() {
	client, err := servertest.Dial(m.server.address())
	if err != nil {
		m.b.Fatal(err)
	}
	client.KeepHeaders = true
	m.client = client
}

// create measures the creation of a container with all partitions except four,
// and then splits the one of the large tenant four times, between its users.
func (m *manyBench) create() {
	m.server = start(m.b, Config{Data: m.data})
	began := time.Now()
	if err := m.server.CreateContainer(context.Background(), "bench", benchContainer, m.partitions-manyTouched+1); err != nil {
		m.b.Fatal(err)
	}
	m.figures.create = since(began)
	definition := partitionkey.Definition{Paths: []string{"/tenant", "/user"}, Kind: partitionkey.KindMultiHash, Version: 2}
	users := make([]partitionkey.EPK, manyUsers)
	for i := range users {
		users[i] = definition.Hash(partitionkey.NewKey(partitionkey.String("large"), partitionkey.String(fmt.Sprintf("u%d", i))))
	}
	slices.SortFunc(users, partitionkey.EPK.Compare)
	for i := 1; i < manyTouched; i++ {
		m.split(users[i*manyUsers/manyTouched])
	}
}

// split splits the partition that contains a point at that point.
func (m *manyBench) split(at partitionkey.EPK) {
	ctx := context.Background()
	stats, err := m.server.engine.PartitionStats(ctx, auth.Owner(), benchEngineLink)
	if err != nil {
		m.b.Fatal(err)
	}
	for _, s := range stats {
		if s.Partition.Range.Contains(at) {
			// A bound never ends in a zero byte, and a shorter one is between the
			// same two users.
			at = partitionkey.EPK(strings.TrimRight(string(at[:len(at)-8]), "\x00"))
			if _, err := m.server.engine.SplitPartition(ctx, auth.Owner(), engine.SplitRequest{Link: benchEngineLink, Partition: s.Partition.ID, At: at}); err != nil {
				m.b.Fatal(err)
			}
			return
		}
	}
	m.b.Fatalf("no partition holds %s", at)
}

// manyDocument returns a document of 1 KB. No other document has the value of its
// unique path.
func manyDocument(tenant, user string, unique int) (key, text string) {
	text = fmt.Sprintf(`{"id":"d%d","tenant":%q,"user":%q,"unique":"value-%d","kind":"order","status":"open","region":"north","count":%d,"note":"`,
		unique, tenant, user, unique, unique%7)
	return fmt.Sprintf(`[%q,%q]`, tenant, user), text + strings.Repeat("x", max(0, 1022-len(text))) + `"}`
}

func (m *manyBench) put(tenant, user string, unique int) servertest.Request {
	key, text := manyDocument(tenant, user, unique)
	return servertest.Prepare(m.server.Key(), "POST", benchLink, []byte(text), "x-ms-documentdb-partitionkey", key, "x-ms-documentdb-is-upsert", "True")
}

func tenantOf(i int) string { return fmt.Sprintf("t%d", i) }

// load writes the documents of the given number of small tenants and of the large one
// over many connections, for the first time or again.
func (m *manyBench) load(tenants int) {
	var wait sync.WaitGroup
	const loaders = 64
	for worker := range loaders {
		client, err := servertest.Dial(m.server.address())
		if err != nil {
			m.b.Fatal(err)
		}
		wait.Go(func() {
			defer client.Close()
			for i := worker; i < tenants+manyUsers; i += loaders {
				request := m.put(tenantOf(i), "u", i)
				if user := i - tenants; user >= 0 {
					request = m.put("large", fmt.Sprintf("u%d", user), manyDocuments+user)
				}
				if response, err := client.Do(request); err != nil || response.Status != 201 && response.Status != 200 {
					m.b.Errorf("%v %d %s", err, response.Status, response.Body)
					return
				}
			}
		})
	}
	wait.Wait()
	if m.b.Failed() {
		m.b.FailNow()
	}
}

// manyRequest is a request, and for a query also the request for the page after a
// continuation.
type manyRequest struct {
	first servertest.Request
	next  func(continuation string) servertest.Request
}

func (m *manyBench) query(text, v string) manyRequest {
	body := fmt.Appendf(nil, `{"query":%q,"parameters":[{"name":"@v","value":%q}]}`, text, v)
	next := func(continuation string) servertest.Request {
		headers := []string{"x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json", "x-ms-documentdb-query-enablecrosspartition", "True"}
		if continuation != "" {
			headers = append(headers, "x-ms-continuation", continuation)
		}
		return servertest.Prepare(m.server.Key(), "POST", benchLink, body, headers...)
	}
	return manyRequest{first: next(""), next: next}
}

const (
	askKey    = `SELECT * FROM c WHERE c.tenant = @v AND c["user"] = 'u'`
	askPrefix = `SELECT * FROM c WHERE c.tenant = 'large' AND c["unique"] = @v`
	askAll    = `SELECT * FROM c WHERE c["unique"] = @v`
)

// ask measures the time that a client waits, one request at a time.
func (m *manyBench) ask() {
	writes, targeted, prefix := make([]manyRequest, manySample), make([]manyRequest, manySample), make([]manyRequest, manySample)
	for i := range writes {
		fresh := manyDocuments + manyUsers + i
		writes[i].first = m.put(tenantOf(fresh), "u", fresh)
		targeted[i] = m.query(askKey, tenantOf(rand.IntN(manyDocuments)))
		prefix[i] = m.query(askPrefix, fmt.Sprintf("value-%d", manyDocuments+rand.IntN(manyUsers)))
	}
	fans := make([]manyRequest, manyFans)
	for i := range fans {
		fans[i] = m.query(askAll, fmt.Sprintf("value-%d", rand.IntN(manyDocuments)))
	}
	m.dial()
	f := &m.figures
	f.write, _ = m.p50(writes, 201, 1)
	f.targeted, f.targetedRU = m.p50(targeted, 200, 1)
	f.prefix, f.prefixRU = m.p50(prefix, 200, manyTouched)
	f.fan, f.fanRU = m.p50(fans, 200, m.partitions)
}

// p50 sends requests one after another, and returns the median time and charge of
// one with all its pages. Each must visit the given number of partitions.
func (m *manyBench) p50(requests []manyRequest, status, visits int) (took, charge float64) {
	var times, charges []float64
	for _, request := range requests {
		began := time.Now()
		units, visited := m.pages(request, status)
		times, charges = append(times, since(began)), append(charges, units)
		if visited != visits {
			m.b.Fatalf("visited %d of %d partitions, want %d", visited, m.partitions, visits)
		}
	}
	return median(times), median(charges)
}

// pages sends a request and those for the following pages, and returns their cost
// and the number of partitions they visited. A page ends if it takes too long.
func (m *manyBench) pages(request manyRequest, status int) (charge float64, visited int) {
	seen := map[string]bool{}
	for send := request.first; ; {
		response, err := m.client.Do(send)
		if err != nil || response.Status != status {
			m.b.Fatalf("%v %d %s", err, response.Status, response.Body)
		}
		units, err := strconv.ParseFloat(response.Header.Get("x-ms-request-charge"), 64)
		if err != nil {
			m.b.Fatal(err)
		}
		charge += units
		for id := range strings.SplitSeq(response.Header.Get("x-decan-partitions"), ",") {
			seen[id] = true
		}
		continuation := response.Header.Get("x-ms-continuation")
		if continuation == "" || request.next == nil {
			return charge, len(seen)
		}
		send = request.next(continuation)
	}
}

// begin restarts the server, and returns the microseconds until a document is
// read.
func (m *manyBench) begin(config Config) float64 {
	m.client.Close()
	if err := m.server.Close(); err != nil {
		m.b.Fatal(err)
	}
	began := time.Now()
	m.server = start(m.b, config)
	m.dial()
	read := servertest.Prepare(m.server.Key(), "GET", benchLink+"/d0", nil, "x-ms-documentdb-partitionkey", `["t0","u"]`)
	if response, err := m.client.Do(read); err != nil || response.Status != 200 {
		m.b.Fatalf("%v %d %s", err, response.Status, response.Body)
	}
	return since(began)
}

// restart measures a start, then the first fan-out, which opens all partitions.
func (m *manyBench) restart() {
	m.figures.restart = m.begin(Config{Data: m.data})
	m.figures.reopen, _ = m.p50([]manyRequest{m.query(askAll, "value-1")}, 200, m.partitions)
}

// rest measures the memory of partitions that are all open, were written to and
// have been flushed. The block cache is so small that its size does not matter:
// it is not part of the partitions.
func (m *manyBench) rest() {
	const flush = time.Second
	m.begin(Config{Data: m.data, Storage: StorageOptions{IdleFlush: flush}, Memory: MemoryOptions{Cache: 1 << 20}})
	before := resident()
	m.load(min(manyDocuments, 10*m.partitions)) // more would be too much to stay open with
	time.Sleep(5 * flush)                       // A store is flushed one to two intervals after its last write.
	after := resident()
	stats, err := m.server.engine.PartitionStats(context.Background(), auth.Owner(), benchEngineLink)
	if err != nil {
		m.b.Fatal(err)
	}
	open := 0
	for _, s := range stats {
		if s.Writes > 0 { // since it was opened; a few have none of the documents
			open++
		}
	}
	if open < m.partitions*9/10 {
		m.b.Fatalf("only %d of %d partitions are open and were written to", open, m.partitions)
	}
	m.figures.idle = (after - before) / float64(open)
}

func since(began time.Time) float64 { return float64(time.Since(began).Nanoseconds()) / 1000 }

// resident returns the bytes of memory that the process keeps after garbage is
// freed; 0 where the system does not report it.
func resident() float64 {
	runtime.GC()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return 0
	}
	return pages * float64(os.Getpagesize())
}

// printMany prints a column for each size, and the ratio of the last to the
// first.
func printMany(columns []manyFigures) {
	fmt.Fprintf(os.Stdout, "\n%s, %d processors; %d documents of 1 KB in each container\n", runtime.Version(), runtime.GOMAXPROCS(0), manyDocuments+manyUsers)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(out, "physical partitions")
	for _, n := range manySizes {
		fmt.Fprintf(out, "\t%d", n)
	}
	fmt.Fprintf(out, "\t%d : %d\n", manySizes[len(manySizes)-1], manySizes[0])
	line := func(what string, show func(float64) string, of func(manyFigures) float64) {
		fmt.Fprint(out, what)
		for _, f := range columns {
			fmt.Fprint(out, "\t", show(of(f)))
		}
		fmt.Fprintf(out, "\t%.2f\n", of(columns[len(columns)-1])/of(columns[0]))
	}
	units := func(n float64) string { return fmt.Sprintf("%.2f RU", n) }
	kilobytes := func(n float64) string { return fmt.Sprintf("%.0f KB", n/1024) }
	line("create the container", micros, func(f manyFigures) float64 { return f.create })
	line("point write, p50", micros, func(f manyFigures) float64 { return f.write })
	line("query of a full key, p50", micros, func(f manyFigures) float64 { return f.targeted })
	line("its charge", units, func(f manyFigures) float64 { return f.targetedRU })
	line(fmt.Sprintf("query of a prefix on %d partitions, p50", manyTouched), micros, func(f manyFigures) float64 { return f.prefix })
	line("its charge", units, func(f manyFigures) float64 { return f.prefixRU })
	line("query of all partitions, p50", micros, func(f manyFigures) float64 { return f.fan })
	line("its charge", units, func(f manyFigures) float64 { return f.fanRU })
	line("restart to the first read", micros, func(f manyFigures) float64 { return f.restart })
	line("first query of all partitions, which opens them", micros, func(f manyFigures) float64 { return f.reopen })
	line("memory of an open partition, written to and flushed", kilobytes, func(f manyFigures) float64 { return f.idle })
	out.Flush()
}
