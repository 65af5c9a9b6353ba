package statement

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/api/cql/frame"
)

// TestRecorded compares Decan with the answers of Apache Cassandra 4.1 in testdata/recorded:
// "run" has a statement, and perhaps its values in hexadecimal (or null, or unset), with
// which it is prepared, a page size, a timestamp, or now, the seconds since 1970; "binds" has
// a statement and lines of values for it, and "differs" one whose answer is not Cassandra's,
// as docs/compatibility.md says. Each file has a keyspace of its own.
//
// With DECAN_CASSANDRA, the answers are Cassandra's: so -rewrite records them, and the test
// then shows where Decan differs.
func TestRecorded(t *testing.T) {
	datadriven.Walk(t, "testdata/recorded", func(t *testing.T, path string) {
		apache := cassandraNode(t)
		w := newWorld(t)
		w.now = time.Time{}
		own := serveNode(t, w)
		keyspace := strings.TrimSuffix(filepath.Base(path), ".txt")
		both := func(text string) {
			for _, n := range []*node{apache, own} {
				if n == nil {
					continue
				}
				if answer := n.run(request{text: text}); strings.Contains(answer, "error") {
					t.Fatalf("%s: %s", text, answer)
				}
			}
		}
		both("DROP KEYSPACE IF EXISTS " + keyspace)
		both("CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
		var different []string // All are shown at the end: after an error nothing is recorded.
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			run := func(n *node) string { return "" }
			switch d.Cmd {
			case "run":
				r := recordedRequest(t, d)
				r.keyspace = keyspace
				run = func(n *node) string { return comparable(n.run(r)) }
			case "differs":
				r := recordedRequest(t, d)
				r.keyspace = keyspace
				return recordedDifference(d, r, own, apache)
			case "binds":
				run = func(n *node) string { return recordedBinds(t, d, n, keyspace) }
			default:
				d.Fatalf(t, "there is no command %s", d.Cmd)
			}
			answer := run(own)
			if apache == nil {
				return answer
			}
			recorded := documentedBinds(d.Cmd, run(apache), answer)
			if recorded != answer {
				different = append(different, fmt.Sprintf("%s: %s\n%s", d.Pos, d.Input, differentLines(recorded, answer)))
			}
			return recorded
		})
		both("DROP KEYSPACE " + keyspace)
		for _, one := range different {
			t.Error(one)
		}
	})
}

// recordedRequest returns the request of a case.
func recordedRequest(t *testing.T, d *datadriven.TestData) request {
	r := request{text: d.Input}
	for _, arg := range d.CmdArgs {
		number := func() int64 {
			n, err := strconv.ParseInt(arg.Vals[0], 10, 64)
			if err != nil {
				d.Fatalf(t, "%s: %v", arg.Key, err)
			}
			return n
		}
		switch arg.Key {
		case "values":
			r.prepare = true
			r.values = recordedValues(t, d, arg.Vals)
		case "prepare":
			r.prepare = true
		case "page":
			r.page = int(number())
		case "timestamp":
			r.timestamp = number()
		case "now":
			r.now = int32(number())
		default:
			d.Fatalf(t, "there is no argument %s", arg.Key)
		}
	}
	return r
}

// recordedValues returns values of a case.
func recordedValues(t *testing.T, d *datadriven.TestData, texts []string) (values []frame.Value) {
	for _, text := range texts {
		v := frame.Value{Unset: text == "unset"}
		if text != "null" && text != "unset" {
			var err error
			if v.Bytes, err = hex.DecodeString(strings.TrimPrefix(text, "0x")); err != nil {
				d.Fatalf(t, "%s: %v", text, err)
			}
		}
		values = append(values, v)
	}
	return values
}

// recordedBinds runs the statement of the first line, prepared, with the values of each
// further line, and returns an answer for each. After one without an error it adds the column
// "read" of the table. An error must leave the table as it was; so must a statement that
// cannot be prepared.
func recordedBinds(t *testing.T, d *datadriven.TestData, n *node, keyspace string) string {
	var table, read string
	d.ScanArgs(t, "table", &table)
	d.MaybeScanArgs(t, "read", &read)
	state := func(columns string) string {
		return n.run(request{text: "SELECT " + columns + " FROM " + table, keyspace: keyspace})
	}
	lines := strings.Split(d.Input, "\n")
	var out strings.Builder
	before := state("*")
	for _, line := range lines[1:] {
		r := request{text: lines[0], prepare: true, values: recordedValues(t, d, strings.Fields(line)), keyspace: keyspace}
		answer := comparable(n.run(r))
		if _, rest, ok := strings.Cut(answer, "\n"); ok && strings.HasPrefix(answer, "prepared") {
			answer = rest
		}
		after := state("*")
		if strings.Contains(answer, "error ") && after != before {
			t.Errorf("%s: %s %s: half done: %s, before %s", d.Pos, lines[0], line, after, before)
		}
		before = after
		answer = printable(strings.ReplaceAll(strings.TrimSpace(answer), "\n", " / "))
		if read != "" && !strings.Contains(answer, "error ") {
			_, rows, _ := strings.Cut(strings.TrimSpace(state(read)), "\n")
			answer += ": " + printable(strings.ReplaceAll(rows, "\n", " / "))
		}
		fmt.Fprintf(&out, "%s: %s\n", line, answer)
	}
	return out.String()
}

// documentedBinds returns the recorded answers, with those of Decan where Cassandra has an
// internal error or docs/compatibility.md lists the difference.
func documentedBinds(command, apache, own string) string {
	if command != "binds" {
		return apache
	}
	a, b := strings.Split(apache, "\n"), strings.Split(own, "\n")
	for i := range min(len(a), len(b)) {
		_, theirs, _ := strings.Cut(a[i], ": ")
		_, ours, _ := strings.Cut(b[i], ": ")
		listed := documented(request{}, strings.TrimPrefix(theirs, "prepare "), strings.TrimPrefix(ours, "prepare "))
		switch {
		case strings.Contains(theirs, "error 1500: "):
			listed = "an internal error of Cassandra"
		case strings.Contains(ours, "Invalid null value for column") && !strings.Contains(theirs, "error "):
			listed = "a bound tuple that ends early"
		case strings.Contains(ours, "Invalid 'unset' value in condition") && !strings.Contains(theirs, "error "):
			listed = "an unset key in a condition"
		}
		if listed != "" && !strings.Contains(ours, "error 0000") {
			a[i] = b[i]
		}
	}
	return strings.Join(a, "\n")
}

// recordedDifference returns both answers; that of Cassandra from the file if there is none.
func recordedDifference(d *datadriven.TestData, r request, own, apache *node) string {
	const theirs, ours = "apache: ", "decan:  "
	recorded, _, _ := strings.Cut(d.Expected, ours)
	if apache != nil {
		recorded = theirs + comparable(apache.run(r))
	}
	return recorded + ours + comparable(own.run(r))
}

// printable escapes what is not text of one line.
func printable(s string) string {
	return strings.ReplaceAll(strings.Trim(strconv.Quote(s), `"`), `\"`, `"`)
}

// differentLines shows where two answers differ.
func differentLines(apache, own string) string {
	var out strings.Builder
	a, b := strings.Split(apache, "\n"), strings.Split(own, "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			fmt.Fprintf(&out, "  apache: %s\n  decan:  %s\n", x, y)
		}
	}
	return out.String()
}
