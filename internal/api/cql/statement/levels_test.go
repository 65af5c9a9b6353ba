package statement

import (
	"strings"
	"testing"

	"github.com/decandb/decan/internal/api/cql/frame"
)

// TestLevels sends each kind of statement with consistency levels that are wrong for it.
func TestLevels(t *testing.T) {
	t.Parallel()
	nodes := map[string]*node{"Decan": serveNode(t, newWorld(t))}
	if apache := cassandraNode(t); apache != nil {
		nodes["Apache Cassandra"] = apache
	}
	const (
		insert      = "INSERT INTO levels.t (k) VALUES (1)"
		conditional = "INSERT INTO levels.t (k) VALUES (1) IF NOT EXISTS"
		read        = "SELECT k FROM levels.t WHERE k = 2"
		count       = "UPDATE levels.n SET n = n + 1 WHERE k = 1"
		batch       = "BEGIN BATCH INSERT INTO levels.t (k) VALUES (1) APPLY BATCH"
		ofCondition = "BEGIN BATCH INSERT INTO levels.t (k) VALUES (1) IF NOT EXISTS APPLY BATCH"
	)
	const (
		noSerial = "error 2200: Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL\n"
		noCommit = ` is not supported as conditional update commit consistency. Use ANY if you mean "make sure it is accepted but I don't care how many replicas commit it for non-SERIAL reads"` + "\n"
	)
	serials := []frame.Consistency{frame.Serial, frame.LocalSerial, frame.One, frame.Any}
	want := func(text string, c, serial frame.Consistency) string {
		conditional := text == conditional || text == ofCondition
		switch {
		case conditional && serial != frame.Serial && serial != frame.LocalSerial:
			return noSerial
		case conditional && (c == frame.Serial || c == frame.LocalSerial):
			return "error 2200: " + c.String() + noCommit
		case text == read && c == frame.Any:
			return "error 2200: ANY ConsistencyLevel is only supported for writes\n"
		case text == count && c == frame.Any:
			return "error 2200: Consistency level ANY is not yet supported for counter table n\n"
		case text == count && (c == frame.Serial || c == frame.LocalSerial):
			return "error 2200: Counter operations are inherently non-serializable\n"
		case text == insert && (c == frame.Serial || c == frame.LocalSerial):
			return "error 2200: You must use conditional updates for serializable writes\n"
		}
		return ""
	}
	for name, n := range nodes {
		for _, text := range []string{
			"DROP KEYSPACE IF EXISTS levels", "CREATE KEYSPACE levels WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
			"CREATE TABLE levels.t (k int PRIMARY KEY)", "CREATE TABLE levels.n (k int PRIMARY KEY, n counter)",
		} {
			n.run(request{text: text})
		}
		for _, text := range []string{insert, conditional, read, count, batch, ofCondition} {
			for c := frame.Any; c <= frame.LocalOne; c++ {
				for _, serial := range serials {
					wrong := want(text, c, serial)
					if wrong == "" && (name != "Decan" || serial != frame.Serial) {
						continue // More levels than one node has, and what other tests have.
					}
					answer := n.ask(&frame.Query{Text: text, Parameters: frame.Parameters{Consistency: c, Serial: serial, Flags: frame.QuerySerial}})
					got := answerText(&answer, nil)
					if wrong == "" && strings.Contains(got, "error ") || wrong != "" && got != wrong {
						t.Errorf("%s: %s with %s and %s: %s, want %s", name, text, c, serial, got, wrong)
					}
				}
			}
		}
	}
}
