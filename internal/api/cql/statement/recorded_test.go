package statement

import (
	"encoding/hex"
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
// which it is prepared, a page size, a timestamp, or now, the seconds since 1970. Each file
// has a keyspace of its own.
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
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "there is no command %s", d.Cmd)
			}
			r := recordedRequest(t, d)
			r.keyspace = keyspace
			answer := comparable(own.run(r))
			if apache == nil {
				return answer
			}
			recorded := comparable(apache.run(r))
			if recorded != answer {
				t.Errorf("%s: %s\n  apache: %s\n  decan:  %s", d.Pos, d.Input, indent(recorded), indent(answer))
			}
			return recorded
		})
		both("DROP KEYSPACE " + keyspace)
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
			for _, text := range arg.Vals {
				v := frame.Value{Unset: text == "unset"}
				if text != "null" && text != "unset" {
					var err error
					if v.Bytes, err = hex.DecodeString(strings.TrimPrefix(text, "0x")); err != nil {
						d.Fatalf(t, "%s: %v", text, err)
					}
				}
				r.values = append(r.values, v)
			}
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
