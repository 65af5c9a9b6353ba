package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/server"
)

// TestKillWhileCopying kills the real binary with SIGKILL at random moments while a copy
// job works: each start continues the job, and in the end both containers have the same
// documents and every invariant holds.
func TestKillWhileCopying(t *testing.T) {
	t.Parallel()
	const documents, rounds = 1000, 4
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	data, files := t.TempDir(), t.TempDir()
	var lines strings.Builder
	for i := range documents {
		fmt.Fprintf(&lines, `{"id":"%d","tenant":"t%d","user":"u%d","n":%d}`+"\n", i, i%7, i%50, i)
	}
	source := filepath.Join(files, "source.jsonl")
	if err := os.WriteFile(source, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := spawn(t, "--data", data)
	command(t, "import", "crash", "from", source, "--endpoint", makePair(t, p))
	jobs, partial := 0, 0
	begin := func() {
		jobs++
		command(t, "copy", "create", fmt.Sprint("j", jobs), "crash/from", "crash/to", "--admin", p.admin)
	}
	begin()
	life := 150 * time.Millisecond // the maximum, which is reduced while jobs end earlier
	for round := 0; round < rounds || partial < 2 && round < 4*rounds; round++ {
		time.Sleep(time.Duration(random.Int64N(int64(life)))) // the moment of death is the subject of this test
		p.kill()
		report, err := server.Check(data)
		if err != nil || len(report.Problems) > 0 {
			t.Fatalf("round %d: %v %v", round, err, report.Problems)
		}
		p = spawn(t, "--data", data)
		if shown := command(t, "copy", "show", fmt.Sprint("j", jobs), "--admin", p.admin); !strings.Contains(shown, "Completed") {
			partial++
		} else {
			life = max(life/2, time.Millisecond)
			begin()
		}
	}
	shown := command(t, "copy", "show", fmt.Sprint("j", jobs), "--watch", "--admin", p.admin)
	if !strings.Contains(shown, "Completed") {
		t.Errorf("the job is\n%s", shown)
	}
	if partial < 2 {
		t.Error("the jobs had ended before they were killed: the test shows nothing")
	}
	var exported [2][]string
	for i, container := range []string{"from", "to"} {
		text := command(t, "export", "crash", container, "--endpoint", p.address)
		exported[i] = slices.Sorted(strings.Lines(text))
	}
	if len(exported[0]) != documents || !slices.Equal(exported[0], exported[1]) {
		t.Errorf("the containers have %d and %d documents, want %d equal ones", len(exported[0]), len(exported[1]), documents)
	}
	p.command.Process.Signal(syscall.SIGTERM)
	if err := <-p.exited; err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.output)
	}
	t.Logf("%d kills came before the end of %d jobs", partial, jobs)
}

// makePair creates the containers from and to in a new database, and returns the address
// of the server.
func makePair(t *testing.T, p *process) string {
	t.Helper()
	client, err := remote.Account{Endpoint: p.address, Key: auth.WellKnownKey}.Documents(1)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, c := range []struct {
		path []string
		body string
	}{
		{[]string{"dbs"}, `{"id":"crash"}`},
		{[]string{"dbs", "crash", "colls"}, `{"id":"from","partitionKey":{"paths":["/tenant"],"kind":"Hash","version":2}}`},
		{[]string{"dbs", "crash", "colls"}, `{"id":"to","partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2}}`},
	} {
		a, err := client.Do(t.Context(), http.MethodPost, c.path, []byte(c.body))
		if err != nil || a.Status != http.StatusCreated {
			t.Fatalf("%s: %v %d %s", c.body, err, a.Status, a.Body)
		}
	}
	return p.address
}

// command runs a command line and returns its output.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out, err bytes.Buffer
	if code := run(args, console.Streams{In: strings.NewReader(""), Out: &out, Err: &err}); code != 0 {
		t.Fatalf("decan %s: %d\n%s%s", strings.Join(args, " "), code, out.String(), err.String())
	}
	return out.String()
}
