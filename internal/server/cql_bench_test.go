package server

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/cql/cqltest"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/server/servertest"
)

const (
	createsMax = 30_000  // documents of one measurement
	cqlRows    = 1000    // that point reads choose from
	sliceLen   = 100     // rows of a slice
	keyWidth   = 10      // digits of a key, which requests carry as text
	noteSize   = 1 << 10 // bytes of the column that fills a row
)

// BenchmarkCQL compares prepared statements of the Cassandra API with the same work over
// REST on the same server: point reads and durable writes of 1 KB, and a slice of 100 rows.
// Both clients are raw: they send prepared bytes and read answers without decoding rows.
// If DECAN_CASSANDRA names an Apache Cassandra, its reads and writes are measured in the
// same run with the same client; `make bench-cassandra` starts one.
func BenchmarkCQL(b *testing.B) {
	for b.Loop() {
		t := &ratios{b: b}
		s := start(b, cassandra(Config{Data: b.TempDir()}))
		if err := s.CreateContainer(b.Context(), "bench", benchContainer, 1); err != nil {
			b.Fatal(err)
		}
		ours := &cqlSide{b: b, address: s.CQLAddresses()[0], user: "decan", key: s.Key()}
		ours.define()
		c := &cqlComparison{ratios: t, s: s, cql: ours}
		c.load()
		c.reads()
		c.creates()
		c.slices()
		if address := os.Getenv("DECAN_CASSANDRA"); address != "" {
			theirs := &cqlSide{b: b, address: address}
			theirs.define()
			theirs.fill()
			c.against(theirs)
		}
		t.print()
	}
}

// cqlSide is a server of the Cassandra API with a table of rows of 1 KB.
type cqlSide struct {
	b                  *testing.B
	address, user, key string
	wide               int64 // the next key for writes
}

// cqlConn is a raw connection that has signed in and prepared the statements.
type cqlConn struct {
	*cqltest.Raw
	read, insert, sliced cqltest.Execution
}

func (s *cqlSide) define() {
	c, err := cqltest.Dial(s.address, s.user, s.key, frame.V4)
	if err != nil {
		s.b.Fatal(err)
	}
	defer c.Close()
	for _, text := range []string{
		"CREATE KEYSPACE IF NOT EXISTS rows WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"DROP TABLE IF EXISTS rows.t", "DROP TABLE IF EXISTS rows.w",
		"CREATE TABLE rows.t (k text PRIMARY KEY, kind text, status text, count int, price double, note text)",
		"CREATE TABLE rows.w (k text, c int, kind text, status text, count int, price double, note text, PRIMARY KEY (k, c))",
	} {
		if _, err := c.Query(text); err != nil {
			s.b.Fatalf("%s: %v", text, err)
		}
	}
}

func (s *cqlSide) dial() *cqlConn {
	raw, err := cqltest.DialRaw(s.address, s.user, s.key)
	if err != nil {
		s.b.Fatal(err)
	}
	zero := strings.Repeat("0", keyWidth)
	number := func(n uint64, size int) []byte { return binary.BigEndian.AppendUint64(nil, n)[8-size:] }
	prepare := func(text string, values ...[]byte) cqltest.Execution {
		e, err := raw.Prepare(text, zero, values...)
		if err != nil {
			s.b.Fatal(err)
		}
		return e
	}
	return &cqlConn{
		Raw:  raw,
		read: prepare("SELECT * FROM rows.t WHERE k = ?"),
		insert: prepare("INSERT INTO rows.t (k, kind, status, count, price, note) VALUES (?, ?, ?, ?, ?, ?)",
			[]byte("order"), []byte("open"), number(7, 4), number(0x4045400000000000, 8), []byte(strings.Repeat("x", noteSize-60))),
		sliced: prepare("SELECT * FROM rows.w WHERE k = ?"),
	}
}

// drive runs next on so many connections for the time of a measurement, and returns the
// answers per second.
func (s *cqlSide) drive(connections int, min int, next func(c *cqlConn) []byte) float64 {
	var count atomic.Int64
	var stop atomic.Bool
	var wait sync.WaitGroup
	all := make([]*cqlConn, connections)
	for i := range all {
		all[i] = s.dial()
	}
	began := time.Now()
	timer := time.AfterFunc(benchDuration, func() { stop.Store(true) })
	defer timer.Stop()
	for _, c := range all {
		wait.Go(func() {
			defer c.Close()
			for !stop.Load() {
				if err := c.Do(next(c), min); err != nil {
					s.b.Error(err)
					return
				}
				count.Add(1)
			}
		})
	}
	wait.Wait()
	return float64(count.Load()) / time.Since(began).Seconds()
}

// fill writes the rows that are read.
func (s *cqlSide) fill() {
	c := s.dial()
	defer c.Close()
	for i := range int64(cqlRows) {
		if err := c.Do(c.insert.With(i), 0); err != nil {
			s.b.Fatal(err)
		}
	}
	s.wide = cqlRows
}

func (s *cqlSide) readRate() float64 {
	return s.drive(16, noteSize/2, func(c *cqlConn) []byte { return c.read.With(rand.Int64N(cqlRows)) })
}

func (s *cqlSide) insertRate() float64 {
	return s.drive(64, 0, func(c *cqlConn) []byte { return c.insert.With(atomic.AddInt64(&s.wide, 1)) })
}

// cqlComparison measures one server through both protocols.
type cqlComparison struct {
	*ratios
	s         *Server
	cql       *cqlSide
	documents int // created by measurements
}

// load writes the documents and rows that are read: documents of the key of the slice are
// as large as its rows.
func (c *cqlComparison) load() {
	client, err := servertest.Dial(c.s.address())
	if err != nil {
		c.b.Fatal(err)
	}
	defer client.Close()
	create := func(r servertest.Request) {
		if response, err := client.Do(r); err != nil || response.Status != 201 {
			c.b.Fatalf("%v %d %s", err, response.Status, response.Body)
		}
	}
	for i := range cqlRows {
		create(createRequest(c.s.Key(), fmt.Sprintf("d%d", i), i))
	}
	for i := range sliceLen {
		body := strings.Replace(document(fmt.Sprintf("s%d", i), i), fmt.Sprintf(`"tenant":"t%d","user":"u%d"`, i%10, i%100), `"tenant":"slice","user":"all"`, 1)
		create(servertest.Prepare(c.s.Key(), "POST", benchLink, []byte(body), "x-ms-documentdb-partitionkey", sliceKey))
	}
	c.cql.fill()
	rows, err := cqltest.Dial(c.cql.address, c.cql.user, c.cql.key, frame.V4)
	if err != nil {
		c.b.Fatal(err)
	}
	defer rows.Close()
	for i := range sliceLen {
		text := fmt.Sprintf("INSERT INTO rows.w (k, c, kind, status, count, price, note) VALUES ('%0*d', %d, 'order', 'open', 7, 42.5, '%s')",
			keyWidth, 0, i, strings.Repeat("x", noteSize-60))
		if _, err := rows.Query(text); err != nil {
			c.b.Fatal(err)
		}
	}
}

const sliceKey = `["slice","all"]`

// compare measures both sides in alternating rounds.
func (c *cqlComparison) compare(what, other, aim string, ours, theirs func() float64) {
	var mine, its, quotients []float64
	for range benchRounds {
		a, b := ours(), theirs()
		mine, its, quotients = append(mine, a), append(its, b), append(quotients, a/b)
	}
	c.add(what, fmt.Sprintf("%.0f/s", median(mine)), fmt.Sprintf("%.0f/s %s", median(its), other), fmt.Sprintf("%.2f", median(quotients)), aim)
}

func (c *cqlComparison) reads() {
	reads := make([]servertest.Request, cqlRows)
	for i := range reads {
		reads[i] = servertest.Prepare(c.s.Key(), "GET", fmt.Sprintf("%s/d%d", benchLink, i), nil, "x-ms-documentdb-partitionkey", documentKey(i))
	}
	c.compare("prepared SELECT of a row of 1 KB, 16 connections", "REST point reads of 1 KB", "at least 1", c.cql.readRate, func() float64 {
		return drive(c.b, c.s.address(), 16, 200, func(int) (servertest.Request, bool) { return reads[rand.IntN(cqlRows)], true })
	})
}

func (c *cqlComparison) creates() {
	c.compare("prepared INSERT, durable, 64 connections", "REST creates of 1 KB", "at least 0.8", c.cql.insertRate, func() float64 {
		prepared := make([]servertest.Request, createsMax) // Clients of the Cassandra API sign nothing.
		for i := range prepared {
			c.documents++
			prepared[i] = createRequest(c.s.Key(), fmt.Sprintf("n%d", c.documents), c.documents)
		}
		var used atomic.Int64
		return drive(c.b, c.s.address(), 64, 201, func(int) (servertest.Request, bool) {
			i := used.Add(1) - 1
			if i >= createsMax {
				return servertest.Request{}, false
			}
			return prepared[i], true
		})
	})
}

func (c *cqlComparison) slices() {
	query := servertest.Prepare(c.s.Key(), "POST", benchLink, []byte(`{"query":"SELECT * FROM c"}`), "x-ms-documentdb-partitionkey", sliceKey,
		"x-ms-documentdb-isquery", "true", "content-type", "application/query+json", "x-ms-max-item-count", "1000")
	c.compare("slice of 100 rows of one partition, 4 connections", "REST query with 100 documents", "at least 0.5", func() float64 {
		return c.cql.drive(4, sliceLen*noteSize/2, func(x *cqlConn) []byte { return x.sliced.With(0) })
	}, func() float64 {
		return drive(c.b, c.s.address(), 4, 200, func(int) (servertest.Request, bool) { return query, true })
	})
}

// against measures another server of the Cassandra API in the same run.
func (c *cqlComparison) against(theirs *cqlSide) {
	// Its compiler gets the time that it needs.
	for range 5 {
		theirs.readRate()
		theirs.insertRate()
	}
	c.compare("prepared SELECT of a row of 1 KB, 16 connections", "Apache Cassandra", "at least 3", c.cql.readRate, theirs.readRate)
	c.compare("prepared INSERT, durable, 64 connections", "Apache Cassandra", "at least 3", c.cql.insertRate, theirs.insertRate)
	if pid := os.Getenv("DECAN_CASSANDRA_PID"); pid != "" {
		mine, its := residentMB(c.b, "self"), residentMB(c.b, pid)
		c.add("resident memory after that", fmt.Sprintf("%d MB with the clients", mine), fmt.Sprintf("%d MB Apache Cassandra", its),
			fmt.Sprintf("%.2f", float64(mine)/float64(its)), "at most 0.1")
	}
}

// residentMB returns the resident memory of a process in MB.
func residentMB(b *testing.B, pid string) int {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	var kb int
	if _, err := fmt.Sscanf(after, "%d kB", &kb); err != nil {
		b.Fatal(err)
	}
	return kb >> 10
}
