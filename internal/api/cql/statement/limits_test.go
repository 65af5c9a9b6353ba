package statement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
)

// TestLimitsOfStatements sends statements at and beyond limits, and values that are none. Each
// has its documented error, the ones that are refused change nothing, and the connection
// continues.
func TestLimitsOfStatements(t *testing.T) {
	w := newWorld(t)
	n := serveNode(t, w)
	must := func(text string) {
		t.Helper()
		if answer := n.run(request{text: text}); strings.Contains(answer, "error") {
			t.Fatalf("%s: %s", text, answer)
		}
	}
	must("CREATE KEYSPACE limits WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	must("CREATE TABLE limits.t (k int PRIMARY KEY, v int, s text, b blob, l list<frozen<list<int>>>, \"Quoted \"\"name\"\"\" int, \"select\" int)")
	must("CREATE TABLE limits.ix (k int PRIMARY KEY, w text)")
	must("CREATE INDEX ON limits.ix (w)")
	must("CREATE TABLE limits.tk (k text PRIMARY KEY)")
	must("CREATE TABLE limits.tc (k int, c text, PRIMARY KEY (k, c))")
	markers := func(count int) request {
		r := request{text: "SELECT k FROM limits.t WHERE k IN (" + strings.TrimSuffix(strings.Repeat("?,", count), ",") + ")"}
		for i := range count {
			r.values = append(r.values, frame.Value{Bytes: row.Int(int32(i % 3))})
		}
		return r
	}
	nested := func(depth int) string {
		return "CREATE TABLE limits.n" + fmt.Sprint(depth) + " (k int PRIMARY KEY, v " + strings.Repeat("frozen<list<", depth) + "int" + strings.Repeat(">>", depth) + ")"
	}
	text := func(size int) request {
		return request{text: "INSERT INTO limits.t (k, s) VALUES (77, ?)", values: []frame.Value{{Bytes: []byte(strings.Repeat("x", size))}}}
	}
	bound := func(column string, v []byte) request {
		return request{text: "INSERT INTO limits.t (k, " + column + ") VALUES (77, ?)", values: []frame.Value{{Bytes: v}}}
	}
	for _, test := range []struct {
		name string
		r    request
		want string // part of the answer
	}{
		{"65,535 markers", markers(65_535), "# k int"},
		{"a statement of 1 MB", request{text: "SELECT k /* " + strings.Repeat("x", 1<<20) + " */ FROM limits.t WHERE k = 1"}, "# k int"},
		{"a prepared statement of 1 MB", request{text: "SELECT k /* " + strings.Repeat("x", 1<<20) + " */ FROM limits.t WHERE k = 1", prepare: true}, "prepared "},
		{"a batch of 1 MB", request{text: "BEGIN BATCH " + strings.Repeat("INSERT INTO limits.t (k, v) VALUES (78, 1); ", 24_000) + "APPLY BATCH"}, "ok"},
		{"a literal of 1 MB", request{text: "INSERT INTO limits.t (k, s) VALUES (78, '" + strings.Repeat("x", 1<<20) + "')"}, "ok"},
		{"a row below 2 MB", text(2_000_000), "ok"},
		{"a row above 2 MB", text(2 << 20), "error 1500: The row is"},
		{"malformed UTF-8", bound("s", []byte{0xC3, 0x28}), "error 2200: String didn't validate."},
		{"an int of three bytes", bound("v", []byte{1, 2, 3}), "error 2200: Expected 4 or 0 byte int (3)"},
		{"a list that ends early", bound("l", []byte{0, 0, 0, 1, 0, 0}), "error 2200: Not enough bytes to read a list"},
		{"a list with a wrong element", bound("l", []byte{0, 0, 0, 1, 0, 0, 0, 1, 7}), "error 2200: Not enough bytes to read a list"},
		{"an int of no bytes", bound("v", []byte{}), "ok"},
		{"a text for an int", bound("v", []byte("five")), "ok"},
		{"a list with a length below zero", bound("l", []byte{0xFF, 0xFF, 0xFF, 0xFF}), "error 2200: The data cannot be deserialized as a list"},
		{"a list with bytes after its end", bound("l", []byte{0, 0, 0, 0, 9}), "error 2200: Unexpected extraneous bytes after list value"},
		{"a null element", bound("l", []byte{0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF}), "error 2200: null is not supported inside collections"},
		{"an element of a null list", request{text: "UPDATE limits.t SET l[0] = ? WHERE k = 77", values: []frame.Value{{Unset: true}}}, "error 2200: Attempted to set an element on a list which is null"},
		{"an indexed value of 65,534 bytes", request{text: "INSERT INTO limits.ix (k, w) VALUES (1, '" + strings.Repeat("x", 65_534) + "')"}, "ok"},
		{"a search for 65,534 bytes", request{text: "SELECT k FROM limits.ix WHERE w = '" + strings.Repeat("x", 65_534) + "'"}, "# k int\n1\n"},
		{"an indexed value of 65,535 bytes", request{text: "INSERT INTO limits.ix (k, w) VALUES (2, '" + strings.Repeat("x", 65_535) + "')"}, "error 2200: Cannot index value of size 65535 for index ix_w_idx on limits.ix(w) (maximum allowed size=65535)"},
		{"a search for 65,535 bytes", request{text: "SELECT k FROM limits.ix WHERE w = '" + strings.Repeat("x", 65_535) + "'"}, "# k int\n"},
		{"a search for 65,536 bytes", request{text: "SELECT k FROM limits.ix WHERE w = '" + strings.Repeat("x", 65_536) + "'"}, "error 2200: Index expression values may not be larger than 64K"},
		{"a key of 65,535 bytes", request{text: "INSERT INTO limits.tk (k) VALUES ('" + strings.Repeat("k", 65_535) + "')"}, "ok"},
		{"a key of 65,536 bytes", request{text: "INSERT INTO limits.tk (k) VALUES ('" + strings.Repeat("k", 65_536) + "')"}, "error 2200: Key length of 65536 is longer than maximum of 65535"},
		{"a search for a key of 65,536 bytes", request{text: "SELECT k FROM limits.tk WHERE k = '" + strings.Repeat("k", 65_536) + "'"}, "error 2200: Key length of 65536 is longer than maximum of 65535"},
		{"a clustering key of 65,535 bytes", request{text: "INSERT INTO limits.tc (k, c) VALUES (1, '" + strings.Repeat("c", 65_535) + "')"}, "ok"},
		{"a clustering key of 65,536 bytes", request{text: "INSERT INTO limits.tc (k, c) VALUES (1, '" + strings.Repeat("c", 65_536) + "')"}, "error 2200: Key length of 65536 is longer than maximum of 65535"},
		{"a value of 499 levels", request{text: "SELECT k FROM limits.t WHERE k = " + strings.Repeat("(int) ", 498) + "1"}, "# k int"},
		{"a value of 501 levels", request{text: "SELECT k FROM limits.t WHERE k = " + strings.Repeat("(int) ", 501) + "1"}, "error 2000: Statement is nested more than 500 levels deep"},
		{"a name in quotes", request{text: `INSERT INTO limits.t (k, "Quoted ""name""") VALUES (1, 2)`}, "ok"},
		{"a name in quotes that does not exist", request{text: `INSERT INTO limits.t (k, "quoted ""name""") VALUES (1, 2)`}, `error 2200: Undefined column name "quoted ""name""" in table limits.t`},
		{"a reserved word in quotes", request{text: `SELECT "select" FROM limits.t WHERE k = 5`}, "# select int"},
		{"a reserved word", request{text: "SELECT select FROM limits.t"}, "error 2000: line 1:7 no viable alternative at input 'select'"},
		{"an empty name", request{text: `SELECT "" FROM limits.t`}, "error 2000: "},
		{"an unknown option of a table", request{text: "CREATE TABLE limits.o (k int PRIMARY KEY) WITH nosuch = 1"}, "error 2000: Unknown property 'nosuch'"},
		{"a wrong value of an option", request{text: "CREATE TABLE limits.o (k int PRIMARY KEY) WITH gc_grace_seconds = -1"}, "error 2300: gc_grace_seconds must be greater than or equal to 0 (got -1)"},
		{"a name of 48 characters", request{text: "CREATE TABLE limits." + strings.Repeat("n", 48) + " (k int PRIMARY KEY)"}, "created table"},
		{"a name of 49 characters", request{text: "CREATE TABLE limits." + strings.Repeat("m", 49) + " (k int PRIMARY KEY)"}, "error 2300: limits." + strings.Repeat("m", 49) + ": Table name must not be empty"},
		{"a type of 16 levels", request{text: nested(16)}, "created table"},
		{"a type of 10,000 levels", request{text: nested(10_000)}, "error 2"},
		{"a value of 10,000 levels", request{text: "INSERT INTO limits.t (k, l) VALUES (77, " + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + ")"}, "error 2"},
		{"parentheses of 10,000 levels", request{text: "SELECT " + strings.Repeat("(", 10_000) + "k" + strings.Repeat(")", 10_000) + " FROM limits.t"}, "error 2"},
		{"an empty statement", request{text: ""}, "error 2000: "},
		{"two statements", request{text: "SELECT k FROM limits.t; SELECT k FROM limits.t"}, "error 2000: "},
		{"LIMIT 0", request{text: "SELECT k FROM limits.t LIMIT 0"}, "error 2200: LIMIT must be strictly positive"},
		{"LIMIT of the greatest int", request{text: "SELECT k FROM limits.t LIMIT 2147483647"}, "# k int"},
		{"LIMIT above the greatest int", request{text: "SELECT k FROM limits.t LIMIT 2147483648"}, "error 2200: "},
		{"the greatest time to live", request{text: "INSERT INTO limits.t (k, v) VALUES (80, 1) USING TTL 130000000"}, "ok"},
		{"a time to live above the limit", request{text: "INSERT INTO limits.t (k, v) VALUES (77, 1) USING TTL 630720001"}, "error 2200: ttl is too large. requested (630720001) maximum (630720000)"},
		{"a negative time to live", request{text: "INSERT INTO limits.t (k, v) VALUES (77, 1) USING TTL -1"}, "error 2200: A TTL must be greater or equal to 0, but was -1"},
		{"the least timestamp", request{text: "INSERT INTO limits.t (k, v) VALUES (77, 1) USING TIMESTAMP -9223372036854775808"}, "error 2200: Out of bound timestamp"},
		{"a timestamp above the least", request{text: "INSERT INTO limits.t (k, v) VALUES (81, 1) USING TIMESTAMP -9223372036854775807"}, "ok"},
		{"too few values", request{text: "INSERT INTO limits.t (k, v) VALUES (77, ?)"}, "error 2200: Invalid amount of bind variables"},
		{"too many values", request{text: "SELECT k FROM limits.t WHERE k = ?", values: []frame.Value{{Bytes: row.Int(1)}, {Bytes: row.Int(1)}}}, "error 2200: Invalid amount of bind variables"},
	} {
		if answer := n.run(test.r); !strings.HasPrefix(answer, test.want) {
			t.Errorf("%s: %.300s, want %s", test.name, answer, test.want)
		}
		// The connection answers, and what was refused has written nothing.
		n.run(request{text: "DELETE FROM limits.t WHERE k = 78"})
		if rows := n.run(request{text: "SELECT v FROM limits.t WHERE k = 77"}); test.want != "ok" && rows != "# v int\n" {
			t.Errorf("%s: half done: %s", test.name, rows)
		}
		n.run(request{text: "DELETE FROM limits.t WHERE k = 77"})
	}
	// The protocol counts values with two bytes.
	tooMany := markers(65_536)
	if answer, want := n.run(request{text: tooMany.text, prepare: true}), "prepare error 2200: Too many markers(?). 65536 markers exceed the allowed maximum of 65535\n"; answer != want {
		t.Errorf("65,536 markers: %.200s, want %s", answer, want)
	}
	if answer := n.run(request{text: tooMany.text}); answer != "error 2200: Invalid amount of bind variables\n" {
		t.Errorf("65,536 markers without values: %.200s", answer)
	}
	must("SELECT k FROM limits.t WHERE k = 1")
}

// TestMalformedText sends strings that are not UTF-8 in requests that are otherwise well
// formed. As in Apache Cassandra, each is a protocol error, and the connection continues.
func TestMalformedText(t *testing.T) {
	t.Parallel()
	nodes := []*node{serveNode(t, newWorld(t))}
	if apache := cassandraNode(t); apache != nil {
		nodes = append(nodes, apache)
	}
	one := frame.Parameters{Consistency: frame.One}
	keyspace := one
	keyspace.Flags, keyspace.Keyspace = frame.QueryKeyspace, "\xFF"
	for _, n := range nodes {
		for _, test := range []struct {
			m    frame.Message
			want string // the bytes from the malformed one on
		}{
			{&frame.Query{Text: "SELECT '\xC3\x28' FROM system.local", Parameters: one}, "c328272046524f4d2073797374656d2e6c6f63616c"},
			{&frame.Query{Text: "SELECT key FROM system.local WHERE key = '\xED\xA0\x80'", Parameters: one}, "eda08027"},
			{&frame.Query{Text: "SELECT '\xF0\x9F\x98", Parameters: one}, "f09f98"},
			{&frame.Prepare{Text: "SELECT \"\xC3\x28\""}, "c32822"},
			{&frame.Batch{Statements: []frame.BatchStatement{{Text: "INSERT \xFF"}}, Parameters: one}, "ff"},
			{&frame.Query{Text: "SELECT key FROM local", Parameters: keyspace}, "ff"},
		} {
			answer := n.ask(test.m)
			text := answerText(&answer, nil)
			if want := "error 000a: Cannot decode string as UTF8: '" + test.want + "'"; !strings.HasPrefix(text, want) {
				t.Errorf("%+v: %s, want %s", test.m, text, want)
			}
			if rows := n.run(request{text: "SELECT key FROM system.local"}); rows != "# key varchar\n'local'\n" {
				t.Errorf("after %+v: %s", test.m, rows)
			}
		}
		// The same bytes are text where they are well formed.
		if rows := n.run(request{text: "SELECT key AS \"\u00C3\U0001F600\" FROM system.local WHERE key = '\u00C3('"}); rows != "# \u00C3\U0001F600 varchar\n" {
			t.Errorf("well-formed text: %s", rows)
		}
	}
}
