package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/cql/cqltest"
	"github.com/decandb/decan/internal/api/cql/frame"
)

// onOneTable returns a server that enforces throughput, and a client with ks.t.
func onOneTable(t *testing.T, config Config, options string) (*Server, *cqltest.Client) {
	t.Helper()
	config.Throughput.Enforcement = "on"
	s := start(t, cassandra(config))
	c := cqlClient(t, s, s.Key())
	mustCQL(t, c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	mustCQL(t, c, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)"+options)
	return s, c
}

// charged runs a statement and returns the request units of its answer, and the
// partitions that it names.
func charged(t *testing.T, c *cqltest.Client, m frame.Message) (float64, string) {
	t.Helper()
	f, err := c.Do(m)
	if err != nil {
		t.Fatalf("%+v: %v", m, err)
	}
	charge, found := frame.Lookup(f.Payload, "RequestCharge")
	if !found || len(charge) != 8 {
		t.Fatalf("%+v: the payload is %v", m, f.Payload)
	}
	partitions, _ := frame.Lookup(f.Payload, "decan-partitions")
	return math.Float64frombits(binary.BigEndian.Uint64(charge)), string(partitions)
}

func textOf(format string, args ...any) *frame.Query {
	return &frame.Query{Text: fmt.Sprintf(format, args...), Parameters: frame.Parameters{Consistency: frame.One}}
}

// TestCQLCharges: every answer tells its cost in request units, and which physical
// partitions it visited (S121).
func TestCQLCharges(t *testing.T) {
	t.Parallel()
	s, c := onOneTable(t, Config{}, " WITH cosmosdb_provisioned_throughput = 30000")
	small, one := charged(t, c, textOf("INSERT INTO ks.t (k, v) VALUES (1, 'x')"))
	large, _ := charged(t, c, textOf("INSERT INTO ks.t (k, v) VALUES (2, '%s')", strings.Repeat("x", 10_000)))
	if small <= 0 || large < 1.5*small {
		t.Errorf("an insert costs %v, one of 10 KB %v", small, large)
	}
	read, there := charged(t, c, textOf("SELECT * FROM ks.t WHERE k = 1"))
	if read <= 0 || read >= small || there != one || one == "" {
		t.Errorf("a read costs %v at partition %q, the insert was at %q", read, there, one)
	}
	quorum := textOf("SELECT * FROM ks.t WHERE k = 1")
	quorum.Parameters.Consistency = frame.Quorum
	if twice, _ := charged(t, c, quorum); twice != 2*read {
		t.Errorf("a read at QUORUM costs %v, at ONE %v", twice, read)
	}
	if scan, all := charged(t, c, textOf("SELECT * FROM ks.t")); scan <= read || strings.Count(all, ",") < 2 {
		t.Errorf("a scan costs %v at partitions %q", scan, all)
	}
	batch, _ := charged(t, c, &frame.Batch{Type: frame.Unlogged, Parameters: frame.Parameters{Consistency: frame.One}, Statements: []frame.BatchStatement{
		{Text: "INSERT INTO ks.t (k, v) VALUES (1, 'x')"}, {Text: "INSERT INTO ks.t (k, v) VALUES (3, 'x')"},
	}})
	if batch < 2*small {
		t.Errorf("a batch of two costs %v, one insert %v", batch, small)
	}
	if cost, _ := charged(t, c, textOf("SELECT * FROM system.local")); cost != 0 {
		t.Errorf("a read of a system table costs %v", cost)
	}
	charged(t, c, &frame.Prepare{Text: "SELECT * FROM ks.t WHERE k = ?"})
	charged(t, c, textOf("CREATE TABLE ks.u (k int PRIMARY KEY)"))
	three, err := cqltest.Dial(s.CQLAddresses()[0], "decan", s.Key(), frame.V3)
	if err != nil {
		t.Fatal(err)
	}
	defer three.Close()
	if f, err := three.Do(textOf("SELECT * FROM ks.t WHERE k = 1")); err != nil || f.Payload != nil {
		t.Errorf("version 3 of the protocol has no payload: %v %v", f.Payload, err)
	}
}

// retryAfter reads the text of an overloaded answer as the retry policies for the
// service do: the pieces between commas that have two parts.
func retryAfter(text string) (millis int, activity string) {
	for piece := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(piece, "=")
		switch {
		case strings.TrimSpace(name) == "RetryAfterMs":
			millis, _ = strconv.Atoi(value)
		case strings.HasSuffix(name, "ActivityID"):
			activity = value
		}
	}
	return millis, activity
}

// TestCQLOverloaded: above the throughput of a table, requests are overloaded and say
// when to try again; after that time they succeed. A physical partition has 10,000 RU/s
// (S123).
func TestCQLOverloaded(t *testing.T) {
	t.Parallel()
	s, c := onOneTable(t, Config{}, "")
	body := strings.Repeat("x", 50_000)
	refused := 0
	for i := 0; refused < 3 && i < 1000; i++ {
		_, err := c.Do(textOf("INSERT INTO ks.t (k, v) VALUES (%d, '%s')", i, body))
		if err == nil {
			continue
		}
		e := (*frame.Error)(nil)
		if !errors.As(err, &e) || e.Code != frame.CodeOverloaded {
			t.Fatalf("insert %d: %v", i, err)
		}
		refused++
		millis, activity := retryAfter(e.Message)
		if millis < 1 || millis > 60_000 || !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(activity) || !strings.HasPrefix(e.Message, "Request rate is large: ActivityID=") {
			t.Fatalf("text %q", e.Message)
		}
		time.Sleep(time.Duration(millis) * time.Millisecond)
		mustCQL(t, c, fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, 'x')", i))
	}
	if refused < 3 {
		t.Fatal("nothing was refused")
	}
	if _, metrics := ask(t, s, "GET", "metrics"); !strings.Contains(metrics, `decan_throttled_requests_total{outcome="refused",reason="budget"} 3`) {
		t.Error("the metrics do not have the refused requests")
	}
	mustCQL(t, c, "ALTER TABLE ks.t WITH cosmosdb_provisioned_throughput = 10000")
	var stats struct {
		Partitions []struct{ Share float64 }
	}
	_, text := ask(t, s, "GET", "partitions?database=ks&container=t", "x-decan-key", s.Key())
	if err := json.Unmarshal([]byte(text), &stats); err != nil || len(stats.Partitions) != 1 || stats.Partitions[0].Share != 10_000 {
		t.Errorf("%s %v", text, err)
	}
	offers := call(t, s, "GET", "offers", "")
	if !strings.Contains(string(offers.Body), `"offerThroughput":10000`) {
		t.Errorf("offers %s", offers.Body)
	}
}

// TestCQLServerRetries: with --cql-server-retries, what is over the throughput waits.
func TestCQLServerRetries(t *testing.T) {
	t.Parallel()
	s, c := onOneTable(t, Config{Cassandra: CassandraOptions{Retries: true}}, "")
	body := strings.Repeat("x", 50_000)
	began := time.Now()
	inserts, spent := 0, 0.0
	for ; spent < 1000; inserts++ { // of 400 RU/s
		charge, _ := charged(t, c, textOf("INSERT INTO ks.t (k, v) VALUES (%d, '%s')", inserts, body))
		spent += charge
	}
	if rows := mustCQL(t, c, "SELECT k FROM ks.t"); len(rows) != inserts {
		t.Errorf("%d rows, want %d", len(rows), inserts)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("nothing has waited: %v", took)
	}
	if _, metrics := ask(t, s, "GET", "metrics"); strings.Contains(metrics, `decan_cql_errors_total{error="overloaded"}`) {
		t.Error("a client got an error")
	}
}

// TestCQLScansRetry: a scan of several partitions that are over their throughput
// continues where it was refused: it has each row once.
func TestCQLScansRetry(t *testing.T) {
	t.Parallel()
	s, c := onOneTable(t, Config{Cassandra: CassandraOptions{Retries: true}, Partitions: PartitionOptions{Preset: "laptop"}}, " WITH cosmosdb_provisioned_throughput = 4000")
	const rows = 40
	body := strings.Repeat("x", 50_000)
	for i := range rows {
		mustCQL(t, c, fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, '%s')", i, body))
	}
	var clients sync.WaitGroup
	for range 4 {
		client := cqlClient(t, s, s.Key())
		clients.Go(func() {
			for range 12 {
				got, err := client.Query("SELECT k, v FROM ks.t")
				if err != nil {
					t.Errorf("scan: %v", err)
					return
				}
				seen := map[string]bool{}
				for _, row := range got {
					seen[row[0]] = true
				}
				if len(got) != rows || len(seen) != rows {
					t.Errorf("%d rows, %d different ones", len(got), len(seen))
				}
			}
		})
	}
	clients.Wait()
	if _, metrics := ask(t, s, "GET", "metrics"); strings.Contains(metrics, `decan_throttled_requests_total{outcome="refused",reason="budget"} 0`) {
		t.Error("nothing was refused")
	}
}

// TestCQLThroughputWhileRunning changes the throughput of a table with ALTER TABLE and
// over REST while clients read and write with prepared statements: none sees an error
// (S210).
func TestCQLThroughputWhileRunning(t *testing.T) {
	t.Parallel()
	s := start(t, cassandra(Config{}))
	c := cqlClient(t, s, s.Key())
	mustCQL(t, c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	mustCQL(t, c, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var done atomic.Int64
	var running sync.WaitGroup
	for n := range 3 {
		client := cqlClient(t, s, s.Key())
		running.Go(func() {
			for i := n; ctx.Err() == nil; i += 3 {
				for _, text := range []string{"INSERT INTO ks.t (k, v) VALUES (%d, 'x')", "SELECT v FROM ks.t WHERE k = %d"} {
					if _, err := client.Query(fmt.Sprintf(text, i%100)); err != nil {
						t.Errorf("%s: %v", text, err)
						return
					}
				}
				done.Add(1)
			}
		})
	}
	wait := func() {
		for goal := done.Load() + 20; done.Load() < goal && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	for _, rus := range []int{800, 10_000, 25_000, 400} {
		wait()
		if _, err := c.Query(fmt.Sprintf("ALTER TABLE ks.t WITH cosmosdb_provisioned_throughput = %d", rus)); err != nil {
			if e := (*frame.Error)(nil); !errors.As(err, &e) || !strings.Contains(e.Message, "cannot be raised while another change") {
				t.Errorf("%d: %v", rus, err)
			}
		}
	}
	wait()
	cancel()
	running.Wait()
}
