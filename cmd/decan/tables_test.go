package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandsOnTables runs the commands about containers on a table of the Cassandra API:
// those about partitions and limits serve it, and those about documents refuse it and say
// why.
func TestCommandsOnTables(t *testing.T) {
	t.Parallel()
	p := spawn(t, "--in-memory")
	defer p.kill()
	mustCQL(t, p, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
		"INSERT INTO ks.t (k, v) VALUES (1, 1)", "INSERT INTO ks.t (k, v) VALUES (2, 2)", "INSERT INTO ks.t (k, v) VALUES (3, 3)")
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(file, []byte(`{"id":"1","k":1}`+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	const refused = "The container 't' is a table. Its rows are read and written with CQL."
	for _, test := range []struct {
		command string
		fails   bool
		want    string
	}{
		{"partitions list ks t --admin http://" + p.admin, false, `["0x0000000`},
		{"partitions split ks t 0 --admin http://" + p.admin, false, "Partition 0 is now 1 and 2"},
		{"partitions merge ks t --admin http://" + p.admin, false, "ks/t has 1 physical partition"},
		{"limits ks t --admin http://" + p.admin, false, "one full partition key                      20 GB"},
		{"limits ks t --logical-partition-bytes 1MB --admin http://" + p.admin, false, "one full partition key                       1 MB"},
		{"export ks t --endpoint http://" + p.address, true, refused},
		{"export ks t --format csv --endpoint http://" + p.address, true, refused},
		{"import ks t " + file + " --endpoint http://" + p.address, true, refused},
	} {
		out, err := exec.Command(path, strings.Fields(test.command)...).CombinedOutput()
		if (err != nil) != test.fails || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: %v\n%s", test.command, err, out)
		}
	}
	mustCQL(t, p, "SELECT * FROM ks.t")
}
