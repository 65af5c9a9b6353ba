package server

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/server/servertest"
)

const (
	slowDocuments = 1500
	slowArray     = 40 // elements of the array that is joined with itself

	// slowFilter has no index and matches no document. It evaluates 64,000 combinations
	// for each.
	slowFilter = `EXISTS (SELECT VALUE 1 FROM a IN c.a JOIN b IN c.a JOIN d IN c.a WHERE a + b + d < 0)`

	// endlessFilter evaluates 2.56 million, so all documents together take minutes.
	endlessFilter = `EXISTS (SELECT VALUE 1 FROM a IN c.a JOIN b IN c.a JOIN d IN c.a JOIN e IN c.a WHERE a + b + d + e < 0)`
)

// slowServer is a server on which queries take long and are listed as soon as they need
// a turn, with the same documents in the containers c and other.
func slowServer(t *testing.T) *Server {
	t.Helper()
	limits := resource.DefaultLimits()
	limits.LongQuery, limits.QueryTime, limits.PageTime = 1, time.Hour, time.Hour
	s := start(t, Config{Limits: limits, Protocol: ProtocolOptions{CrossPartition: "full"}})
	call(t, s, "POST", "dbs", `{"id":"d"}`)
	c, err := servertest.Dial(s.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list := strings.TrimSuffix(strings.Repeat("1,", slowArray), ",")
	for name, documents := range map[string]int{"c": slowDocuments, "other": 1} {
		code, answer := callAdmin(t, s, "POST", "containers?database=d&partitions=2",
			`{"id":"`+name+`","partitionKey":{"paths":["/id"]},"indexingPolicy":{"includedPaths":[],"excludedPaths":[{"path":"/*"}]}}`)
		if code != http.StatusCreated {
			t.Fatalf("%d %s", code, answer)
		}
		for i := range documents {
			r, err := c.Do(servertest.Prepare(s.Key(), "POST", "dbs/d/colls/"+name+"/docs", fmt.Appendf(nil, `{"id":"secret%d","n":%d,"a":[%s]}`, i, i, list),
				"x-ms-documentdb-partitionkey", fmt.Sprintf(`["secret%d"]`, i)))
			if err != nil || r.Status != http.StatusCreated {
				t.Fatalf("%v %d %s", err, r.Status, r.Body)
			}
		}
	}
	return s
}

func slowQuery(s *Server, container, text string) servertest.Request {
	body, _ := json.Marshal(map[string]string{"query": text}) // Strings always marshal.
	return servertest.Prepare(s.Key(), "POST", "dbs/d/colls/"+container+"/docs", body,
		"x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json", "x-ms-documentdb-query-enablecrosspartition", "True")
}

type listedQuery struct {
	ID, Database, Container, Operation, Caller, State string

	Seconds, ProcessorSeconds, RequestCharge float64
	Partitions, Documents                    int64
}

func listQueries(t *testing.T, s *Server) []listedQuery {
	t.Helper()
	code, answer := callAdmin(t, s, "GET", "queries", "")
	var list struct{ Queries []listedQuery }
	decoder := json.NewDecoder(strings.NewReader(answer))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); code != http.StatusOK || err != nil || list.Queries == nil {
		t.Fatalf("%d %s %v", code, answer, err)
	}
	if strings.Contains(answer, "secret") || strings.Contains(answer, "SELECT") {
		t.Errorf("the list says what is asked for: %s", answer)
	}
	return list.Queries
}

// untilQueries requests the list until it is as wanted, and returns it.
func untilQueries(t *testing.T, s *Server, what string, wanted func([]listedQuery) bool) []listedQuery {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		list := listQueries(t, s)
		if wanted(list) {
			return list
		}
		if time.Now().After(end) {
			t.Fatalf("%s: the list is %+v", what, list)
		}
	}
}

func none(list []listedQuery) bool { return len(list) == 0 }

// TestQueriesCancelled lists two queries with an unindexed filter while they run, and
// cancels one: its client gets 400, and the other continues.
func TestQueriesCancelled(t *testing.T) {
	s := slowServer(t)
	if list := listQueries(t, s); len(list) != 0 {
		t.Errorf("before any query: %+v", list)
	}
	type outcome struct {
		servertest.Response
		err error
	}
	answers := make(chan outcome, 2)
	for range 2 {
		c, err := servertest.Dial(s.address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			r, err := c.Do(slowQuery(s, "c", "SELECT VALUE c.id FROM c WHERE "+slowFilter))
			answers <- outcome{r, err}
		}()
	}
	list := untilQueries(t, s, "two queries at work", func(list []listedQuery) bool {
		return len(list) == 2 && list[0].Documents > 0 && list[1].Documents > 0
	})
	for _, q := range list {
		if q.Database != "d" || q.Container != "c" || q.Operation != "query" || q.Caller != "master" || q.State != "running" ||
			q.Partitions < 1 || q.Partitions > 2 || q.Documents > slowDocuments || q.RequestCharge < 0 {
			t.Errorf("listed: %+v", q)
		}
	}
	if _, metrics := callAdmin(t, s, "GET", "metrics", ""); !strings.Contains(metrics, "\ndecan_engine_queries_long 2\n") {
		t.Error("the metrics do not have two long queries")
	}
	if code, answer := callAdmin(t, s, "DELETE", "queries/"+list[1].ID, ""); code != http.StatusNoContent {
		t.Fatalf("cancel: %d %s", code, answer)
	}
	first := <-answers
	if first.err != nil || first.Status != http.StatusBadRequest || !strings.Contains(string(first.Body), "cancelled by an operator of the server, who saw it as query "+list[1].ID) {
		t.Errorf("cancelled: %v %d %s", first.err, first.Status, first.Body)
	}
	if left := listQueries(t, s); len(left) != 1 || left[0].ID != list[0].ID {
		t.Errorf("after one was cancelled: %+v", left)
	}
	if code, answer := callAdmin(t, s, "DELETE", "queries/"+list[1].ID, ""); code != http.StatusNotFound {
		t.Errorf("cancelled again: %d %s", code, answer)
	}
	if code, answer := callAdmin(t, s, "DELETE", "queries/"+list[0].ID, ""); code != http.StatusNoContent {
		t.Errorf("cancel the other: %d %s", code, answer)
	}
	if second := <-answers; second.err != nil || second.Status != http.StatusBadRequest {
		t.Errorf("the other: %v %d %s", second.err, second.Status, second.Body)
	}
	untilQueries(t, s, "all are cancelled", none)
}

// send sends a request and does not wait for its answer.
func send(t *testing.T, s *Server, r servertest.Request) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.address())
	if err == nil {
		_, err = r.WriteTo(conn)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestQueriesOfClientsThatLeave closes connections in the middle of queries that would
// take minutes: each ends, whatever its state.
func TestQueriesOfClientsThatLeave(t *testing.T) {
	s := slowServer(t)
	for _, text := range []string{
		"SELECT VALUE c.id FROM c WHERE " + endlessFilter,
		"SELECT VALUE SUM(a + b + d + e) FROM c JOIN a IN c.a JOIN b IN c.a JOIN d IN c.a JOIN e IN c.a",
		"SELECT VALUE c.id FROM c WHERE NOT " + endlessFilter + " ORDER BY c.id",
	} {
		conn := send(t, s, slowQuery(s, "c", text))
		untilQueries(t, s, text, func(list []listedQuery) bool { return len(list) == 1 && list[0].State == "running" })
		conn.Close()
		untilQueries(t, s, text+": its client has left", none)
	}

	// With all turns taken, and as many paused as may be, the next one waits.
	var heavy []net.Conn
	for range runtime.GOMAXPROCS(0) + 8 {
		heavy = append(heavy, send(t, s, slowQuery(s, "c", "SELECT VALUE c.id FROM c WHERE "+endlessFilter)))
	}
	untilQueries(t, s, "all have had a turn", func(list []listedQuery) bool {
		for _, q := range list {
			if q.State != "running" {
				return false
			}
		}
		return len(list) == len(heavy)
	})
	waits := func(list []listedQuery) bool {
		for _, q := range list {
			if q.Container == "other" {
				return q.State == "waiting"
			}
		}
		return false
	}
	conn := send(t, s, slowQuery(s, "other", "SELECT VALUE c.id FROM c WHERE "+endlessFilter))
	untilQueries(t, s, "one waits for a turn", waits)
	conn.Close()
	untilQueries(t, s, "its client has left", func(list []listedQuery) bool { return len(list) == len(heavy) && !waits(list) })
	if _, metrics := callAdmin(t, s, "GET", "metrics", ""); strings.Contains(metrics, `decan_engine_query_overload_total{reason="queue"} 1`) {
		t.Error("the waiting query was refused before its client left")
	}
	for _, conn := range heavy {
		conn.Close()
	}
	untilQueries(t, s, "all clients have left", none)
}
