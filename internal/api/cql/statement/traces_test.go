package statement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table"
)

// traced sends a request with the tracing flag and returns the trace's id as CQL has it.
func (n *node) traced(m frame.Message) (id string) {
	n.t.Helper()
	n.stream = (n.stream + 1) & 0x3FF
	if err := n.writer.Write(&frame.Frame{Version: frame.V5, Stream: n.stream, Flags: frame.FlagTracing, Message: m}); err != nil {
		n.t.Fatal(err)
	}
	f, err := n.reader.Next()
	if err != nil {
		n.t.Fatal(err)
	}
	if f.Flags&frame.FlagTracing == 0 {
		n.t.Fatalf("no trace: %+v", f)
	}
	return row.NativeNamed("uuid").Literal(f.TraceID[:])
}

// TestTraces: what a driver reads of a request that it has traced, at once.
func TestTraces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := serveNode(t, w)
	for _, text := range []string{createKeyspace, "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))", "CREATE INDEX ON ks.t (v)", "CREATE MATERIALIZED VIEW ks.tv AS SELECT * FROM ks.t WHERE c IS NOT NULL AND k IS NOT NULL PRIMARY KEY (c, k)"} {
		if answer := n.run(request{text: text}); strings.Contains(answer, "error") {
			t.Fatal(answer)
		}
	}
	w.built(t)
	w.waitForViews(t)
	one := func(text string) frame.Message {
		return &frame.Query{Text: text, Parameters: frame.Parameters{Consistency: frame.One, Flags: frame.QueryPageSize, PageSize: 10}}
	}
	prepared, ok := n.ask(&frame.Prepare{Text: "INSERT INTO ks.t (k, c, v) VALUES (?, ?, :v)"}).Message.(*frame.Prepared)
	if !ok {
		t.Fatal("not prepared")
	}
	execute := func(values ...[]byte) frame.Message {
		p := frame.Parameters{Consistency: frame.LocalQuorum, Flags: frame.QueryValues | frame.QuerySerial, Serial: frame.LocalSerial}
		for _, v := range values {
			p.Values = append(p.Values, frame.Value{Bytes: v})
		}
		return &frame.Execute{ID: prepared.ID, MetadataID: prepared.MetadataID, Parameters: p}
	}
	const head = "# request varchar | parameters map<varchar, varchar> | command varchar | coordinator inet | coordinator_port int | client inet\n"
	const ends = " | 'QUERY' | '127.0.0.1' | 10350 | '127.0.0.1'\n"
	for _, test := range []struct {
		name     string
		message  frame.Message
		session  string
		activity []string // what the events contain, in their order
	}{
		{
			"a query", one("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'x')"),
			"'Execute CQL3 query' | {'consistency_level': 'ONE', 'page_size': '10', 'query': 'INSERT INTO ks.t (k, c, v) VALUES (1, 1, ''x'')', 'serial_consistency_level': 'SERIAL'}",
			[]string{"Parsing INSERT", "Wrote 1 partition keys of t in physical partitions 0: ", "Updated materialized views", "Request charge: "},
		},
		{
			"an execution", execute(row.Int(2), nil, []byte(strings.Repeat("y", 1001))), "'Execute CQL3 prepared query' | {'bound_var_0_k': '2', 'bound_var_1_c': 'null', 'bound_var_2_v': '1001 bytes', 'consistency_level': 'LOCAL_QUORUM', 'query': 'INSERT INTO ks.t (k, c, v) VALUES (?, ?, :v)', 'serial_consistency_level': 'LOCAL_SERIAL'}",
			[]string{"Request failed: Invalid null value in condition for column c"},
		},
		{
			"a read", one("SELECT * FROM ks.t WHERE k = 1"), "", []string{"Parsing", "Read a partition key of t: 1 items from physical partitions 0, ", "Request charge"},
		},
		{
			"a read of all", one("SELECT * FROM ks.t"), "", []string{"Parsing", "Read a range of tokens of t: ", "Request charge"},
		},
		{
			"a read through an index", one("SELECT * FROM ks.t WHERE v = 'x'"), "", []string{"Parsing", "of t through a secondary index: ", "Request charge"},
		},
		{
			"a feed", one("SELECT * FROM ks.t WHERE COSMOS_CHANGEFEED_FROM_START() = true"), "", []string{"Parsing", "Read the change feed of t: ", "Request charge"},
		},
		{
			"a logged batch", one("BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (1, 1) INSERT INTO ks.t (k, c) VALUES (2, 1) APPLY BATCH"), "",
			[]string{"Parsing", "Recording a logged batch of 2 partition keys", "Wrote 2 partition keys of t", "Updated materialized views", "Request charge"},
		},
		{
			"a batch", &frame.Batch{Statements: []frame.BatchStatement{{Text: "INSERT INTO ks.t (k, c) VALUES (1, 1)"}}, Parameters: frame.Parameters{Consistency: frame.One}},
			"'Execute batch of CQL3 queries' | {'consistency_level': 'ONE', 'serial_consistency_level': 'SERIAL'}",
			[]string{"Parsing", "Wrote 1 partition keys", "Updated", "Request charge"},
		},
		{
			"a preparation", &frame.Prepare{Text: "SELECT v FROM ks.t"}, "'Preparing CQL3 query' | {'query': 'SELECT v FROM ks.t'}", []string{"Parsing", "Request charge: 0.00 RU"},
		},
		{"an error", one("SELECT nothing"), "", []string{"Parsing", "Request failed: line 0:-1"}},
		{"a long text", one("SELECT '" + strings.Repeat("é", 5000) + "'"), "", []string{"Parsing SELECT ''" + strings.Repeat("é", 400), "Request failed"}},
	} {
		id := n.traced(test.message)
		got := n.run(request{text: "SELECT request, parameters, command, coordinator, coordinator_port, client FROM system_traces.sessions WHERE session_id = " + id})
		if test.session != "" && got != head+test.session+ends {
			t.Errorf("%s:\n%s", test.name, got)
		}
		got = n.run(request{text: "SELECT duration, started_at FROM system_traces.sessions WHERE session_id = " + id, prepare: true})
		if lines := strings.Split(strings.TrimSpace(got), "\n"); len(lines) != 3 || strings.Contains(lines[2], "null") || strings.HasPrefix(lines[2], "0 ") {
			t.Errorf("%s: %s", test.name, got)
		}
		got = n.run(request{text: "SELECT activity, source, thread FROM system_traces.events WHERE session_id = " + id})
		rest := got
		for _, want := range test.activity {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%s: no %q in\n%s", test.name, want, got)
				break
			}
			rest = after
		}
		if strings.Count(got, "'127.0.0.1' | 'request'") < len(test.activity) {
			t.Errorf("%s: %s", test.name, got)
		}
	}
	all := n.run(request{text: "SELECT count(*) FROM system_traces.sessions"})
	if !strings.Contains(all, "\n11\n") {
		t.Errorf("all sessions: %s", all)
	}
	none := n.run(request{text: "SELECT * FROM system_traces.events WHERE session_id = 00000000-0000-1000-8000-000000000000"})
	if strings.Count(none, "\n") != 1 {
		t.Errorf("no session: %s", none)
	}
}

// TestTracesAreBounded keeps one trace less, as many as, and one more than fit, by number and
// by size.
func TestTracesAreBounded(t *testing.T) {
	t.Parallel()
	trace := func(n, size int) *table.Trace {
		return &table.Trace{ID: [16]byte{byte(n), byte(n >> 8)}, Request: strings.Repeat("x", size), Duration: time.Second}
	}
	const each = 10_000
	bytes := traceBytes(trace(0, each))
	for name, k := range map[string]*traces{"by number": {count: 5, limit: 1 << 30}, "by size": {count: 1 << 30, limit: 5 * bytes}} {
		for n := range 100 {
			k.keep(trace(n, each))
			all := k.Traces()
			if want := min(n+1, 5); len(all) != want || len(k.byID) != want || k.bytes != want*bytes {
				t.Fatalf("%s: after %d traces %d are kept, %d bytes", name, n+1, len(all), k.bytes)
			}
			for i, kept := range all {
				if want := max(0, n-4) + i; kept.ID[0] != byte(want) {
					t.Fatalf("%s: trace %d is %v", name, want, kept.ID)
				}
			}
		}
		if _, ok := k.Trace([16]byte{94}); ok {
			t.Errorf("%s: a dropped trace is found", name)
		}
		if _, ok := k.Trace([16]byte{95}); !ok {
			t.Errorf("%s: the eldest trace is not found", name)
		}
	}
	// A trace of the size of all is kept alone, a larger one without what is large.
	k := &traces{count: 10, limit: 5 * bytes}
	k.keep(trace(1, each))
	fits := trace(2, 0)
	fits.Parameters = map[string]string{"query": strings.Repeat("x", 5*bytes-traceBytes(trace(2, 0))-96-len("query"))}
	k.keep(fits)
	if all := k.Traces(); len(all) != 1 || len(all[0].Parameters) != 1 {
		t.Errorf("%d traces", len(all))
	}
	large := trace(3, 0)
	large.Parameters = map[string]string{"query": fits.Parameters["query"] + "x"}
	k.keep(large)
	if all := k.Traces(); k.bytes > k.limit || len(all[len(all)-1].Parameters) != 0 {
		t.Errorf("%d traces, %d bytes: %v", len(all), k.bytes, fmt.Sprint(all[len(all)-1].Parameters))
	}
}
