package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/cql/cqltest"
	"github.com/decandb/decan/internal/api/cql/frame"
)

// askAdmin sends a request to the admin port and returns its answer.
func askAdmin(t *testing.T, s *Server, method, path, body string) (code int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(s.AdminEndpoint(), "/")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("x-decan-key", s.Key())
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(all)
}

// tablePartition is a physical partition as the admin port shows it.
type tablePartition struct {
	ID            string
	Documents     int64
	DocumentBytes int64
	ConsumedTotal float64
	Share         float64
	BilledRUs     int
	Keys          []struct {
		Key   json.RawMessage
		Units float64 `json:"requestUnits"`
	} `json:"hottestKeys"`
}

// tablePartitions returns the physical partitions of ks.t.
func tablePartitions(t *testing.T, s *Server) []tablePartition {
	t.Helper()
	code, answer := askAdmin(t, s, "GET", "/partitions?database=ks&container=t", "")
	var list struct{ Partitions []tablePartition }
	if err := json.Unmarshal([]byte(answer), &list); code != 200 || err != nil {
		t.Fatalf("%d %s: %v", code, answer, err)
	}
	return list.Partitions
}

// TestRESTSeesTables: a table is a container of the catalog over REST. Its definition, its
// partition key ranges and its offer are read, the offer is replaced, and everything else
// is refused with its name. CQL does not see containers of documents.
func TestRESTSeesTables(t *testing.T) {
	t.Parallel()
	s, c := onOneTable(t, Config{}, " WITH cosmosdb_provisioned_throughput = 1000")
	mustCQL(t, c, "INSERT INTO ks.t (k, v) VALUES (1, 'x')")
	const key = "x-ms-documentdb-partitionkey"
	for _, ask := range []struct {
		method, link, body string
		headers            []string
		code               int
		want               string
	}{
		{"GET", "dbs", "", nil, 200, `"id":"ks"`},
		{"GET", "dbs/ks", "", nil, 200, `"id":"ks"`},
		{"GET", "dbs/ks/colls", "", nil, 200, `"id":"t"`},
		{"GET", "dbs/ks/colls/t", "", nil, 200, `"paths":["/k"]`},
		{"GET", "dbs/ks/colls/t/pkranges", "", nil, 200, `"minInclusive":""`},
		{"GET", "offers", "", nil, 200, `"offerThroughput":1000`},
		{"GET", "dbs/ks/colls/t/docs", "", nil, 400, "'t' is a table"},
		{"GET", "dbs/ks/colls/t/docs", "", []string{"A-IM", "Incremental Feed"}, 400, "'t' is a table"},
		{"GET", "dbs/ks/colls/t/docs/1", "", []string{key, "[1]"}, 400, "'t' is a table"},
		{"POST", "dbs/ks/colls/t/docs", `{"id":"1","k":1}`, []string{key, "[1]"}, 400, "'t' is a table"},
		{"POST", "dbs/ks/colls/t/docs", `{"id":"1","k":1}`, []string{key, "[1]", "x-ms-documentdb-is-upsert", "true"}, 400, "'t' is a table"},
		{"PUT", "dbs/ks/colls/t/docs/1", `{"id":"1","k":1}`, []string{key, "[1]"}, 400, "'t' is a table"},
		{"PATCH", "dbs/ks/colls/t/docs/1", `{"operations":[{"op":"set","path":"/v","value":1}]}`, []string{key, "[1]"}, 400, "'t' is a table"},
		{"DELETE", "dbs/ks/colls/t/docs/1", "", []string{key, "[1]"}, 400, "'t' is a table"},
		{"POST", "dbs/ks/colls/t/docs", `{"query":"SELECT * FROM c"}`, []string{"Content-Type", "application/query+json", "x-ms-documentdb-isquery", "True", "x-ms-documentdb-query-enablecrosspartition", "true"}, 400, "'t' is a table"},
		{"POST", "dbs/ks/colls/t/docs", `[{"operationType":"Read","id":"1"}]`, []string{key, "[1]", "x-ms-cosmos-is-batch-request", "True"}, 400, "'t' is a table"},
		{"POST", "dbs/ks/colls/t/sprocs", `{"id":"p","body":"function(){}"}`, nil, 400, "'t' is a table"},
		{"PUT", "dbs/ks/colls/t", `{"id":"t","partitionKey":{"paths":["/k"]}}`, nil, 400, "'t' is a table"},
		{"DELETE", "dbs/ks/colls/t", "", nil, 400, "'t' is a table"},
		{"DELETE", "dbs/ks", "", nil, 400, "'ks' is a keyspace"},
		{"POST", "dbs/ks/colls", `{"id":"c","partitionKey":{"paths":["/k"]}}`, nil, 400, "'ks' is a keyspace"},
		{"POST", "dbs", `{"id":"documents"}`, nil, 201, ""},
		{"POST", "dbs/documents/colls", `{"id":"c","partitionKey":{"paths":["/k"]}}`, nil, 201, ""},
	} {
		r := call(t, s, ask.method, ask.link, ask.body, ask.headers...)
		if r.Status != ask.code || !strings.Contains(strings.ReplaceAll(string(r.Body), `\u0027`, "'"), ask.want) {
			t.Errorf("%s %s %v: %d %s, want %d with %s", ask.method, ask.link, ask.headers, r.Status, r.Body, ask.code, ask.want)
		}
	}
	// The Data Explorer tells tables from containers without an index by this (isTable of
	// its model.js).
	call(t, s, "POST", "dbs/documents/colls", `{"id":"plain","partitionKey":{"paths":["/k"]},"indexingPolicy":{"indexingMode":"none","automatic":false}}`)
	for link, policy := range map[string]bool{"dbs/ks/colls/t": false, "dbs/documents/colls/plain": true} {
		body := string(call(t, s, "GET", link, "").Body)
		if !strings.Contains(body, `"indexingMode":"none"`) || strings.Contains(body, `"conflictResolutionPolicy"`) != policy {
			t.Errorf("%s is %s", link, body)
		}
	}
	if rows := mustCQL(t, c, "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = 'documents'"); len(rows) != 0 {
		t.Errorf("CQL sees a database of documents: %v", rows)
	}
	failsCQL(t, c, "SELECT * FROM documents.c", frame.CodeInvalid, "keyspace documents does not exist")
	failsCQL(t, c, "DROP KEYSPACE documents", frame.CodeInvalid, "documents")
	failsCQL(t, c, "CREATE TABLE documents.t (k int PRIMARY KEY)", frame.CodeInvalid, "documents")
	for _, ends := range []string{
		`"source":{"database":"ks","container":"t"},"destination":{"database":"documents","container":"c"}`,
		`"source":{"database":"documents","container":"c"},"destination":{"database":"ks","container":"t"}`,
	} {
		ends = strings.NewReplacer(`"database"`, `"databaseName"`, `"container"`, `"containerName"`).Replace(ends)
		code, answer := askAdmin(t, s, "PUT", "/copyJobs/j", `{"properties":{"jobProperties":{"jobType":"NoSqlRUToNoSqlRU","tasks":[{`+ends+`}]},"mode":"Offline"}}`)
		if code != 400 || !strings.Contains(answer, "ks/t is a table") {
			t.Errorf("a copy job: %d %s", code, answer)
		}
	}
	if rows := mustCQL(t, c, "SELECT v FROM ks.t WHERE k = 1"); fmt.Sprint(rows) != "[['x']]" {
		t.Errorf("the table has %v", rows)
	}
}

// TestPartitionsOfTables: the admin port shows the physical partitions of a table with
// their load and their hottest keys (S117, S118), splits and merges them, and lists and
// changes the limits; physical partitions of tables have 30 GB, those of documents 50 GB
// (S120, S194).
func TestPartitionsOfTables(t *testing.T) {
	t.Parallel()
	s, c := onOneTable(t, Config{}, " WITH cosmosdb_autoscale_max_throughput = 4000")
	for k := range 40 {
		mustCQL(t, c, fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, 'x')", k))
	}
	for range 50 {
		mustCQL(t, c, "SELECT v FROM ks.t WHERE k = 7")
	}
	all := tablePartitions(t, s)
	if len(all) != 1 || all[0].Documents != 40 || all[0].DocumentBytes == 0 || all[0].ConsumedTotal < 40 || all[0].Share == 0 || all[0].BilledRUs < 400 {
		t.Fatalf("%+v", all)
	}
	if hot := all[0].Keys; len(hot) == 0 || !strings.Contains(string(hot[0].Key), "00000007") || hot[0].Units < 50 {
		t.Errorf("the hottest keys are %+v", hot)
	}
	code, answer := askAdmin(t, s, "GET", "/limits?database=ks&container=t", "")
	if code != 200 || !strings.Contains(answer, `"partitionBytes":32212254720`) || !strings.Contains(answer, `"logicalPartitionBytes":21474836480`) {
		t.Errorf("the limits of a table: %d %s", code, answer)
	}
	call(t, s, "POST", "dbs", `{"id":"d"}`)
	call(t, s, "POST", "dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/k"]}}`)
	if code, answer = askAdmin(t, s, "GET", "/limits?database=d&container=c", ""); code != 200 || !strings.Contains(answer, `"partitionBytes":53687091200`) {
		t.Errorf("the limits of a container: %d %s", code, answer)
	}
	if code, answer = askAdmin(t, s, "POST", "/partitions/split?database=ks&container=t&partition="+all[0].ID, ""); code != 200 {
		t.Fatalf("split: %d %s", code, answer)
	}
	if all = tablePartitions(t, s); len(all) != 2 || all[0].Documents+all[1].Documents != 40 {
		t.Fatalf("after a split: %+v", all)
	}
	if code, answer = askAdmin(t, s, "POST", "/partitions/merge?database=ks&container=t&partition="+all[0].ID+"&with="+all[1].ID, ""); code != 200 {
		t.Fatalf("merge: %d %s", code, answer)
	}
	if all = tablePartitions(t, s); len(all) != 1 || all[0].Documents != 40 {
		t.Errorf("after a merge: %+v", all)
	}
	if rows := mustCQL(t, c, "SELECT count(*) FROM ks.t"); fmt.Sprint(rows) != "[[40]]" {
		t.Errorf("the table has %q rows", rows)
	}
}

// TestLimitsOfTables: with limits of some megabytes, a partition key is full at its limit
// and can be emptied, a table splits by its size, also while rows are read (S119, S120),
// and a write to a large partition key warns. Tokens do not change by that (S130).
func TestLimitsOfTables(t *testing.T) {
	t.Parallel()
	config := Config{Partitions: PartitionOptions{LogicalMax: 1 << 20, PhysicalMax: 5 << 20}, Cassandra: CassandraOptions{PartitionWarning: 256 << 10}}
	config.Throughput.Enforcement = "off"
	s := start(t, cassandra(config))
	c := cqlClient(t, s, s.Key())
	mustCQL(t, c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	mustCQL(t, c, "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))")
	text := strings.Repeat("x", 100<<10)
	insert := func(k, c int) *frame.Query {
		return textOf("INSERT INTO ks.t (k, c, v) VALUES (%d, %d, '%s')", k, c, text)
	}
	warned := 0
	for i := range 10 {
		f, err := c.Do(insert(0, i))
		if err != nil {
			t.Fatal(i, err)
		}
		if len(f.Warnings) > 0 {
			if warned++; i < 2 || !strings.Contains(f.Warnings[0], "ks.t") || !strings.Contains(f.Warnings[0], "00000000") {
				t.Errorf("row %d: %q", i, f.Warnings)
			}
		}
	}
	if warned != 8 {
		t.Errorf("%d warnings, want those of the third row and later ones", warned)
	}
	_, err := c.Do(insert(0, 10))
	if e := (*frame.Error)(nil); !errors.As(err, &e) || e.Code != frame.CodeWriteFailure || !strings.HasPrefix(e.Message, "Partition key reached maximum size of 1 MB") {
		t.Errorf("a full partition: %v %.100v", e, err)
	}
	mustCQL(t, c, "DELETE FROM ks.t WHERE k = 0")
	retry(t, func() bool { // The rows leave in the background.
		_, err := c.Do(insert(0, 10))
		return err == nil
	})
	tokens := mustCQL(t, c, "SELECT token(k) FROM ks.t WHERE k = 0 LIMIT 1")
	reading, stop := make(chan error), make(chan struct{})
	other := cqlClient(t, s, s.Key())
	go func() {
		for {
			select {
			case <-stop:
				reading <- nil
				return
			default:
			}
			if err := countAll(other); err != nil {
				reading <- err
				return
			}
		}
	}()
	for k := 1; k < 100; k++ {
		for i := range 2 {
			if _, err := c.Do(insert(k, i)); err != nil {
				t.Fatal(k, err)
			}
		}
	}
	retry(t, func() bool {
		all := tablePartitions(t, s)
		return len(all) >= 4 && !slices.ContainsFunc(all, func(p tablePartition) bool { return p.DocumentBytes > 3<<20+3<<19 })
	})
	close(stop)
	if err := <-reading; err != nil {
		t.Error(err)
	}
	if again := mustCQL(t, c, "SELECT token(k) FROM ks.t WHERE k = 0 LIMIT 1"); fmt.Sprint(again) != fmt.Sprint(tokens) || len(tokens) != 1 {
		t.Errorf("the token is %q, and was %q", again, tokens)
	}
}

// countAll counts all rows.
func countAll(c *cqltest.Client) error {
	_, err := c.Query("SELECT count(*) FROM ks.t")
	return err
}

// retry waits until something holds.
func retry(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not hold after two minutes")
		}
	}
}
