package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/decantest"
)

// TestAdviseApply is S100, S104, S106: the advice is applied to a container that exists.
// The new container has the proposed key and everything else of the old one, and all of
// its documents. What cannot be applied makes nothing.
func TestAdviseApply(t *testing.T) {
	s := decantest.Start(t, decan.Config{AdminListen: "127.0.0.1:0"})
	t.Setenv("DECAN_ENDPOINT", s.Endpoint())
	t.Setenv("DECAN_ADMIN", s.AdminEndpoint())
	do := func(code int, want string, line ...string) string {
		t.Helper()
		var out bytes.Buffer
		if got := run(line, console.Streams{In: strings.NewReader(""), Out: &out, Err: &out}); got != code || !strings.Contains(out.String(), want) {
			t.Fatalf("%q: exit code %d, want %d and %q in\n%s", line, got, code, want, &out)
		}
		return out.String()
	}
	var lines strings.Builder
	for i := range 300 {
		fmt.Fprintf(&lines, `{"id":"e%d","TenantId":"t%d","UserId":"u%d","n":%d}`+"\n", i, i%3, i%100, i)
	}
	file := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	do(0, "", "container", "create", "shop", "events", "-k", "/TenantId", "--create-database", "--autoscale", "4000", "--ttl", "86400")
	do(0, "300 documents", "import", "shop", "events", file)
	advise := func(more ...string) []string {
		return append([]string{"advise", "--database", "shop", "--container", "events", "--key", "/TenantId,/UserId"}, more...)
	}
	load := filepath.Join(t.TempDir(), "w.json")
	if err := os.WriteFile(load, []byte(`{"documents":1000000000,"writesPerSecond":10,"values":{"/UserId":5000000,"/TenantId":5000}}`), 0o600); err != nil {
		t.Fatal(err)
	}

	do(0, "--apply makes the container shop/events-rekeyed with this key", advise("--workload", load)...)
	done := do(0, "The container shop/events-rekeyed is created with the key /TenantId, /UserId and autoscale to 4000 RU/s.", advise("--workload", load, "--apply")...)
	if !strings.Contains(done, "300 of 300") || !strings.Contains(done, "advise-events-rekeyed: shop/events to shop/events-rekeyed, offline, Completed") {
		t.Errorf("the job is not shown to its end:\n%s", done)
	}
	do(0, "300", "query", "shop", "events-rekeyed", "SELECT VALUE COUNT(1) FROM c WHERE IS_DEFINED(c.n)")
	do(0, "300", "query", "shop", "events", "SELECT VALUE COUNT(1) FROM c")
	made := do(0, `"MultiHash"`, "container", "show", "shop", "events-rekeyed", "--json")
	if !strings.Contains(made, "86400") {
		t.Errorf("the time to live of the source is lost:\n%s", made)
	}
	do(0, "4,000", "container", "show", "shop", "events-rekeyed")

	// The second time there is such a container; with another name there is none. An online
	// job catches up and waits.
	do(1, "there is a container shop/events-rekeyed: give another name with --into", advise("--workload", load, "--apply")...)
	do(0, "decan copy complete advise-other", advise("--workload", load, "--apply", "--into", "other", "--online")...)
	do(0, "", "copy", "complete", "advise-other", "--watch")

	// Nothing to do, and nothing that would help.
	do(0, "Nothing to apply: shop/other has the best key of the candidates", "advise", "--database", "shop", "--container", "other", "--key", "/TenantId,/UserId", "--workload", load, "--apply")
	do(1, "nothing is applied: the server would refuse writes under every candidate", "advise", "--database", "shop", "--container", "events", "--key", "/n", "--logical-partition-max", "1", "--apply", "--into", "never")
	do(1, "never", "container", "show", "shop", "never")

	do(2, "--apply copies a container", "advise", file, "--apply")
	do(2, "--into and --online belong to --apply", advise("--into", "x")...)
	do(2, "give --json or --apply, not both", advise("--apply", "--json")...)
	do(2, "not tables", advise("--apply", "--table")...)
}

// TestAdviseRecord records what clients do with a container while the command waits, and
// takes it as the workload, without the values of the queries.
func TestAdviseRecord(t *testing.T) {
	s := decantest.Start(t, decan.Config{AdminListen: "127.0.0.1:0"})
	t.Setenv("DECAN_ENDPOINT", s.Endpoint())
	t.Setenv("DECAN_ADMIN", s.AdminEndpoint())
	do := func(code int, want string, line ...string) {
		t.Helper()
		var out bytes.Buffer
		if got := run(line, console.Streams{In: strings.NewReader(""), Out: &out, Err: &out}); got != code || !strings.Contains(out.String(), want) {
			t.Errorf("%q: exit code %d, want %d and %q in\n%s", line, got, code, want, &out)
		}
	}
	directory := t.TempDir()
	file, saved := filepath.Join(directory, "two.json"), filepath.Join(directory, "w.json")
	if err := os.WriteFile(file, []byte(`[{"id":"1","TenantId":"secret","UserId":"u"},{"id":"2","TenantId":"other","UserId":"v"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	do(0, "", "container", "create", "shop", "events", "-k", "/UserId", "--create-database")
	do(0, "2 documents", "import", "shop", "events", file)
	// A recording of a moment has the query, unless the machine is too busy to begin one in
	// it: then it is made longer.
	var w []byte
	for moment := 100 * time.Millisecond; !strings.Contains(string(w), "SELECT"); moment *= 2 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			do(0, "", "advise", "--database", "shop", "--container", "events", "--record", moment.String(), "--save-workload", saved)
		}()
		for asking := true; asking; {
			do(0, "", "query", "shop", "events", "SELECT * FROM c WHERE c.TenantId = 'secret'")
			select {
			case <-ended:
				asking = false
			default:
			}
		}
		var err error
		if w, err = os.ReadFile(saved); err != nil {
			t.Fatal(err)
		}
	}
	if text := string(w); !strings.Contains(text, "c.TenantId = @value1") || !strings.Contains(text, `"path": "/TenantId"`) || strings.Contains(text, "secret") {
		t.Errorf("the workload is %s", text)
	}
	do(0, "targeted", "advise", "--database", "shop", "--container", "events", "--workload", saved, "--key", "/TenantId,/UserId", "--all")
	do(1, "which --record finds out", "advise", "--database", "shop", "--container", "events", "--workload", saved, "--record", "1ms")
	do(1, "none", "advise", "--database", "shop", "--container", "none", "--record", "1ms")
	do(2, "--record records a container", "advise", file, "--record", "1s")
	do(2, "--save-workload belongs to --record", "advise", file, "--save-workload", saved)
	do(2, "--record must be a time", "advise", "--database", "shop", "--container", "events", "--record", "24h")
}
