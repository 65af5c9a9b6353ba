package statement

import (
	"errors"
	"testing"

	"github.com/decandb/decan/internal/table"
)

// TestRelease311: errors have the texts of 3.11, and the server does not describe.
func TestRelease311(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.config
	config.Node.Release, config.Node.CQL, config.Node.Protocol = "3.11.19", "3.4.4", "4"
	w.Processor = New(config)
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TYPE ks.addr (street text)",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int, fl frozen<list<int>>)",
	} {
		if _, _, err := w.execute("", text, 0); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"SELECT * FROM ks.x":                            "unconfigured table x",
		"SELECT x FROM ks.t":                            "Undefined column name x",
		"CREATE TABLE ks.a (a int)":                     "No PRIMARY KEY specifed (exactly one required)",
		"CREATE TABLE ks.a (k int PRIMARY KEY, k text)": "Multiple definition of identifier k",
		"CREATE TABLE ks.a (k int, PRIMARY KEY (x))":    "Unknown definition x referenced in PRIMARY KEY",
		"CREATE TABLE ks.a (k addr PRIMARY KEY)":        "Invalid non-frozen collection type for PRIMARY KEY component k",
		"ALTER TABLE ks.t ADD v int":                    "Invalid column name v because it conflicts with an existing column",
		"ALTER TABLE ks.t DROP x":                       "Column x was not found in table t",
		"ALTER TABLE ks.t DROP k":                       "Cannot drop PRIMARY KEY part k",
		"ALTER TABLE ks.t RENAME v TO w":                "Cannot rename non PRIMARY KEY part v",
		"ALTER TABLE ks.t ALTER v TYPE text":            "Altering of types is not allowed",
		"DROP TYPE ks.x":                                "No user type named ks.x exists.",
		"DESCRIBE KEYSPACES":                            "line 1:0 no viable alternative at input 'DESCRIBE' ([DESCRIBE])",
		"desc table ks.t":                               "line 1:0 no viable alternative at input 'desc' ([desc])",
		"SELECT * FROM system.peers_v2":                 "unconfigured table peers_v2",
	} {
		_, _, err := w.execute("ks", text, 0)
		if known := (*table.Error)(nil); !errors.As(err, &known) || known.Text != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	// The texts of statements on indexes, by themselves.
	for text, want := range map[string]string{
		"Cannot create values() index on frozen column fl. Frozen collections are immutable and must be fully indexed by using the 'full(fl)' modifier": "Cannot create values() index on frozen column fl. Frozen collections only support full() indexes",
		"Index 'ks.x' doesn't exist'": "Index 'x' could not be found in any of the tables of keyspace 'ks'",
		"another":                     "another",
	} {
		if got := in311(&table.Error{Text: text}).Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
