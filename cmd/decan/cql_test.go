package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/decandb/decan/cmd/decan/internal/console"
)

// TestCassandraDefault: without --cql, the commands that speak CQL go to the machine of the
// endpoint, and there to the port of decan serve.
func TestCassandraDefault(t *testing.T) {
	const machine = "127.0.0.2" // where no server of this machine listens
	port := ""
	for _, flag := range serveFlags(t) {
		if flag.Name == "cql-listen" {
			_, port, _ = net.SplitHostPort(flag.Default)
		}
	}
	template := filepath.Join(t.TempDir(), "main.json")
	if err := os.WriteFile(template, []byte(`{"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", "contentVersion": "1.0.0.0", "resources": [{"type": "Microsoft.DocumentDB/databaseAccounts/cassandraKeyspaces",
		"apiVersion": "2024-05-15", "name": "a/ks", "properties": {"resource": {"id": "ks"}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"shell", "-c", `\cql`}, {"deploy", template}} {
		var out, errs bytes.Buffer
		code := run(append(args, "--endpoint", "http://"+machine+":1"), console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if want := "no Cassandra API answers at " + net.JoinHostPort(machine, port); code != 1 || port == "" || !strings.Contains(out.String()+errs.String(), want) {
			t.Errorf("%q ends with %d and writes\n%s\n2>\n%s\nwant %q", args, code, out.String(), errs.String(), want)
		}
	}
}
