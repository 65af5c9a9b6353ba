package main

import (
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// TestClosingCutShort ends a server with two signals, at once and with increasing pauses,
// while it closes partitions with new writes. The next server has every acknowledged
// write.
func TestClosingCutShort(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	var gets []servertest.Request
	for round := range 4 {
		p := spawn(t, "--data", dir)
		client, err := servertest.Dial(p.address)
		if err != nil {
			t.Fatal(err)
		}
		send := func(link, body string, headers ...string) {
			t.Helper()
			if _, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", link, []byte(body), headers...), "a write", 201); err != nil {
				t.Fatal(err)
			}
		}
		if round == 0 {
			send("dbs", `{"id":"d"}`)
			for c := range 8 {
				send("dbs/d/colls", fmt.Sprintf(`{"id":"c%d","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`, c))
			}
		}
		for _, get := range gets {
			if _, err := ask(client, get, "a document of before", 200); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		for c := range 8 {
			for i := range 5 {
				link, id := fmt.Sprintf("dbs/d/colls/c%d/docs", c), fmt.Sprintf("%d-%d", round, i)
				send(link, fmt.Sprintf(`{"id":%q,"pk":"a"}`, id), "x-ms-documentdb-partitionkey", `["a"]`)
				gets = append(gets, servertest.Prepare(server.WellKnownKey, "GET", link+"/"+id, nil, "x-ms-documentdb-partitionkey", `["a"]`))
			}
		}
		client.Close()
		p.command.Process.Signal(syscall.SIGTERM)
		// A closing server refuses connections; it has then released the signals.
		for {
			other, err := net.Dial("tcp", p.address)
			if err != nil {
				break
			}
			other.Close()
		}
		time.Sleep(time.Duration(round) * 5 * time.Millisecond) // another moment of closing in each round
		p.command.Process.Signal(syscall.SIGTERM)
		<-p.exited
	}
	report, err := server.Check(dir)
	if err != nil || len(report.Problems) > 0 || report.Documents != int64(len(gets)) {
		t.Errorf("%d documents of %d, %q, %v", report.Documents, len(gets), report.Problems, err)
	}
}
