// Package drivers runs the Cassandra drivers of Go against the server at DECAN_CQL, with the
// user DECAN_CQL_USER and the password DECAN_CQL_KEY.
package drivers

import (
	"os"
	"testing"
	"time"
)

func endpoint() string { return os.Getenv("DECAN_CQL") }
func user() string     { return os.Getenv("DECAN_CQL_USER") }
func key() string      { return os.Getenv("DECAN_CQL_KEY") }

// first returns a key above which others do not write at the same time.
func first() int { return int(time.Now().UnixMicro() & 0x3fffffff) }

// schema creates the table of the program.
func schema(t *testing.T) {
	t.Helper()
	config := cluster1(4, key())
	config.Keyspace = ""
	s, err := config.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, statement := range []string{
		"CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY, v text)",
	} {
		if err := s.Query(statement).Exec(); err != nil {
			t.Fatal(err)
		}
	}
}
