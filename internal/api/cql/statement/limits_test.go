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
		{"a literal of 1 MB", request{text: "INSERT INTO limits.t (k, s) VALUES (78, '" + strings.Repeat("x", 1<<20) + "')"}, "ok"},
		{"a row below 2 MB", text(2_000_000), "ok"},
		{"a row above 2 MB", text(2 << 20), "error 1500: The row is"},
		{"malformed UTF-8", bound("s", []byte{0xC3, 0x28}), "error 2200: String didn't validate."},
		{"an int of three bytes", bound("v", []byte{1, 2, 3}), "error 2200: Expected 4 or 0 byte int (3)"},
		{"a list that ends early", bound("l", []byte{0, 0, 0, 1, 0, 0}), "error 2200: Not enough bytes to read a list"},
		{"a list with a wrong element", bound("l", []byte{0, 0, 0, 1, 0, 0, 0, 1, 7}), "error 2200: Not enough bytes to read a list"},
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
		if rows := n.run(request{text: "SELECT v FROM limits.t WHERE k = 77"}); test.name != "a row below 2 MB" && rows != "# v int\n" {
			t.Errorf("%s: half done: %s", test.name, rows)
		}
		n.run(request{text: "DELETE FROM limits.t WHERE k = 77"})
	}
	// The protocol counts values with two bytes: 65,536 markers can be prepared, and not bound.
	many := markers(65_536)
	answer := n.ask(&frame.Prepare{Text: many.text})
	if e, ok := answer.Message.(*frame.Error); !ok || e.Code != frame.CodeInvalid && e.Code != frame.CodeSyntax {
		t.Errorf("65,536 markers: %.200v", answer.Message)
	}
	must("SELECT k FROM limits.t WHERE k = 1")
}
