package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

// checkable creates a data directory with two containers.
func checkable(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	running, err := server.Start(context.Background(), server.Config{Data: dir, Ports: server.PortOptions{Data: "127.0.0.1:0", Admin: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := servertest.Dial(strings.Trim(strings.TrimPrefix(running.Endpoint(), "http://"), "/"))
	if err != nil {
		t.Fatal(err)
	}
	send := func(link, body string, headers ...string) {
		t.Helper()
		if _, err := ask(client, servertest.Prepare(server.WellKnownKey, "POST", link, []byte(body), headers...), "a write", 200, 201); err != nil {
			t.Fatal(err)
		}
	}
	send("dbs", `{"id":"shop"}`)
	for _, name := range []string{"carts", "items"} {
		send("dbs/shop/colls", fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`, name), "x-ms-offer-throughput", "20000")
		var batch []string
		for i := range 100 {
			batch = append(batch, fmt.Sprintf(`{"operationType":"Create","resourceBody":{"id":"%d","pk":"a","n":%d}}`, i, i))
		}
		for key := range 8 {
			send("dbs/shop/colls/"+name+"/docs", strings.ReplaceAll("["+strings.Join(batch, ",")+"]", `"pk":"a"`, fmt.Sprintf(`"pk":"%d"`, key)),
				"x-ms-documentdb-partitionkey", fmt.Sprintf(`["%d"]`, key), "x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true")
		}
	}
	if err := running.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// stopper writes to a buffer, and interrupts the process at each line until a handler of
// the process has received a signal.
type stopper struct {
	bytes.Buffer
	with os.Signal
}

func (s *stopper) Write(text []byte) (int, error) {
	came := make(chan os.Signal, 1)
	signal.Notify(came, s.with)
	defer signal.Stop(came)
	own, _ := os.FindProcess(os.Getpid())
	if err := own.Signal(s.with); err != nil {
		return 0, err
	}
	<-came
	time.Sleep(50 * time.Millisecond) // The check hears of it at about the same time.
	return s.Buffer.Write(text)
}

// TestCheckCommand checks a directory with a line for each tenth and without, and
// interrupts it. It sends signals to its own process, so no other test runs meanwhile.
func TestCheckCommand(t *testing.T) {
	dir := checkable(t)
	before := filesBelow(t, dir)
	const whole = "1 database, 2 containers, 8 partitions, 1,600 documents"
	for _, args := range [][]string{{}, {"--parallel", "1"}, {"--progress"}} {
		var out, progress bytes.Buffer
		code := run(append([]string{"check", dir}, args...), console.Streams{Out: &out, Err: &progress})
		if code != 0 || !strings.Contains(out.String(), whole) || !strings.HasSuffix(out.String(), "every invariant holds\n") {
			t.Errorf("%q: %d\n%s%s", args, code, &out, &progress)
		}
		want := `^$`
		if len(args) > 0 && args[0] == "--progress" {
			want = `(?s)100 %  8 of 8 partitions, 1,600 documents, .* documents a second\n$`
		}
		if !regexp.MustCompile(want).MatchString(progress.String()) {
			t.Errorf("%q: on standard error\n%s\nwant %s", args, &progress, want)
		}
	}
	for _, with := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		// After the check has released the signal, it must not end the process.
		kept := make(chan os.Signal, 16)
		signal.Notify(kept, with)
		var out bytes.Buffer
		progress := stopper{with: with}
		code := run([]string{"check", "--progress", "--parallel", "1", dir}, console.Streams{Out: &out, Err: &progress})
		signal.Stop(kept)
		last := regexp.MustCompile(`decan: .*: interrupted: checked \d partitions?, with 0 problems; \d not checked; nothing was changed\n$`)
		if code != exitInterrupted || !last.MatchString(progress.String()) {
			t.Errorf("%v: %d\n%s%s", with, code, &out, &progress)
		}
		if text := out.String(); !strings.Contains(text, "not checked: 4 partitions of items in shop\n") || strings.Contains(text, "every invariant holds") {
			t.Errorf("%v: on standard output\n%s", with, text)
		}
	}
	if after := filesBelow(t, dir); !maps.Equal(before, after) {
		t.Error("the directory is not what it was")
	}
}

// TestCheckParallel shows how many partitions are verified at the same time.
func TestCheckParallel(t *testing.T) {
	t.Parallel()
	all := checkParallel(0, 0) // of an unknown amount of memory
	for _, c := range []struct {
		available int64
		want      int
	}{{1 << 40, all}, {100 << 20, 1}, {256 << 20 * 100 / 75, 1}} {
		if got := checkParallel(c.available, 75); got != c.want {
			t.Errorf("%d bytes: %d, want %d", c.available, got, c.want)
		}
	}
}
