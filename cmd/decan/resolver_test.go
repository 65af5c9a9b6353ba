package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
	"github.com/decandb/decan/resolver/azcosmos"
)

// movers is a server with a state in a container, whose ring grows from one container
// to two.
type movers struct {
	t       *testing.T
	address string
	flags   []string // of every command
	two     string   // the file of the next state
	items   int
}

const moverState = "items:shop/states/users"

func newMovers(t *testing.T, items int) *movers {
	t.Helper()
	p := spawn(t, "--in-memory", "--log-level", "error")
	m := &movers{t: t, address: p.address, items: items, two: filepath.Join(t.TempDir(), "two.json")}
	m.flags = []string{"--endpoint", "http://" + p.address}
	client, err := servertest.Dial(p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	create := func(link, body string, headers ...string) {
		response, err := client.Do(servertest.Prepare(server.WellKnownKey, "POST", link, []byte(body), headers...))
		if err != nil || response.Status != 201 {
			t.Fatalf("%s: %v %d %s", body, err, response.Status, response.Body)
		}
	}
	create("dbs", `{"id":"shop"}`)
	for name, path := range map[string]string{"c0": "/userId", "c1": "/userId", "states": "/id"} {
		create("dbs/shop/colls", fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":[%q],"kind":"Hash","version":2}}`, name, path))
	}
	for i := range items {
		create("dbs/shop/colls/c0/docs", fmt.Sprintf(`{"id":"u%d","userId":"J%d","n":%d.50,"tags":["a",null]}`, i, i, i), "x-ms-documentdb-partitionkey", fmt.Sprintf(`["J%d"]`, i))
	}
	create("dbs/shop/colls/c0/udfs", `{"id":"twice","body":"function twice(n) { return 2 * n; }"}`)
	one := filepath.Join(t.TempDir(), "one.json")
	for path, targets := range map[string]string{one: `"c0"`, m.two: `"c0","c1"`} {
		state := fmt.Sprintf(`{"key":{"paths":["/userId"]},"targets":[{"name":"c0","database":"shop","container":"c0"},{"name":"c1","database":"shop","container":"c1"}],
			"current":{"scheme":{"kind":"ring","targets":[%s]}}}`, targets)
		if err := os.WriteFile(path, []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.run("state", moverState, "--init", one)
	return m
}

// run runs a resolver command in this process and returns its output.
func (m *movers) run(args ...string) string {
	m.t.Helper()
	var out, err bytes.Buffer
	if code := run(append(append([]string{"resolver"}, args...), m.flags...), console.Streams{Out: &out, Err: &err}); code != 0 {
		m.t.Fatalf("%v: exit code %d\n%s%s", args, code, &out, &err)
	}
	return out.String()
}

// audit returns the result of verify.
func (m *movers) audit() azcosmos.Audit {
	m.t.Helper()
	var audit azcosmos.Audit
	if err := json.Unmarshal([]byte(m.run("verify", moverState, "--json")), &audit); err != nil {
		m.t.Fatal(err)
	}
	return audit
}

// moverProcess is decan resolver migrate in a process of its own.
type moverProcess struct {
	command *exec.Cmd
	lines   *bufio.Scanner
	errors  bytes.Buffer
}

func (m *movers) migrate(args ...string) *moverProcess {
	m.t.Helper()
	path, err := binary()
	if err != nil {
		m.t.Fatal(err)
	}
	args = append([]string{"resolver", "migrate", moverState, "--alone", "--lease", "300ms", "--timeout", "1s", "--progress"}, args...)
	p := &moverProcess{command: exec.Command(path, append(args, m.flags...)...)}
	p.command.Stderr = &p.errors
	out, err := p.command.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { p.command.Process.Kill() })
	p.lines = bufio.NewScanner(out)
	return p
}

// wait reads the rest of the output and returns the exit code, -1 after a signal.
func (p *moverProcess) wait() int {
	for p.lines.Scan() {
	}
	p.command.Wait()
	return p.command.ProcessState.ExitCode()
}

// settled checks that every item exists once, in its container and unchanged.
func (m *movers) settled(before azcosmos.Audit) {
	m.t.Helper()
	after := m.audit()
	if after.Total != before.Total || after.Total.Items != int64(m.items) {
		m.t.Errorf("there are %+v, before the move there were %+v", after.Total, before.Total)
	}
	all := int64(0)
	for _, found := range after.Containers {
		all += found.All.Items
		if found.Strays != 0 || found.All.Items == 0 {
			m.t.Errorf("%s has %d items, %d of them strays", found.Target, found.All.Items, found.Strays)
		}
	}
	if all != int64(m.items) || len(after.Containers) != 2 || after.Phase != "" {
		m.t.Errorf("%d containers hold %d items in phase %q, want 2 and %d without a move", len(after.Containers), all, after.Phase, m.items)
	}
}

// TestMigrateKill kills decan resolver migrate with SIGKILL at random moments, and runs it
// again each time: no item is lost, duplicated or changed (S182), and the new container has
// the scripts of the old one.
func TestMigrateKill(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	m := newMovers(t, 100)
	before := m.audit()
	kills := 0
	for args := []string{"--to", m.two, "--page", "7", "--parallelism", "2", "--make"}; ; args = []string{"--page", "7", "--make"} {
		p := m.migrate(args...)
		for range 2 + r.IntN(8) {
			p.lines.Scan()
		}
		if kills < 3 {
			p.command.Process.Signal(syscall.SIGKILL)
		}
		code := p.wait()
		if code == 0 {
			break
		}
		if code > 0 {
			t.Fatalf("after %d kills: exit code %d\n%s", kills, code, &p.errors)
		}
		kills++
		if state := m.run("state", moverState); !strings.Contains(state, "move-1, phase") {
			break // The command had already ended.
		}
	}
	if t.Logf("%d kills", kills); kills < 2 {
		t.Errorf("only %d kills: that shows little", kills)
	}
	m.settled(before)
	client, err := servertest.Dial(m.address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	script, err := client.Do(servertest.Prepare(server.WellKnownKey, "GET", "dbs/shop/colls/c1/udfs/twice", nil))
	if err != nil || script.Status != 200 {
		t.Errorf("the function in the new container: %v, %d %s", err, script.Status, script.Body)
	}
	if out := m.run("migrate", moverState, "--to", m.two); !strings.HasPrefix(out, "nothing to move") {
		t.Errorf("once more: %s", out)
	}
}

// TestMigrateTwice: a second mover refuses to start while the first one works. The first
// one, interrupted by SIGINT, releases the move, so that the next one continues at once.
func TestMigrateTwice(t *testing.T) {
	t.Parallel()
	m := newMovers(t, 40)
	before := m.audit()
	first := m.migrate("--to", m.two, "--page", "5", "--items-per-second", "2")
	for first.lines.Scan() && !strings.HasPrefix(first.lines.Text(), "copy") {
	}
	second := m.migrate()
	if code := second.wait(); code != 1 || !strings.Contains(second.errors.String(), "another Mover is at work on the move move-1; nothing is lost") {
		t.Errorf("the second mover: exit code %d\n%s", code, &second.errors)
	}
	first.command.Process.Signal(syscall.SIGINT)
	if code := first.wait(); code != 1 || first.errors.String() != "decan: interrupted; run decan resolver migrate again to continue\n" {
		t.Errorf("the first mover: exit code %d\n%s", code, &first.errors)
	}
	third := m.migrate("--lease", "24h") // Otherwise it would wait that long.
	if code := third.wait(); code != 0 {
		t.Errorf("the third mover: exit code %d\n%s", code, &third.errors)
	}
	m.settled(before)
}

// TestResolverRefusals checks exit codes and errors of one line: 2 for an invalid command
// line, with a second line about the help, and 1 for other errors.
func TestResolverRefusals(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(state, []byte(`{"key":{"paths":["/u"]},"targets":[{"name":"a"}],"current":{"scheme":{"kind":"single","targets":["a"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		args []string
	}{
		{2, []string{}},
		{2, []string{"explode"}},
		{2, []string{"where", state}},
		{2, []string{"where", state, "a", "--no-such-flag"}},
		{2, []string{"spread"}},
		{2, []string{"plan"}},
		{2, []string{"migrate", "d/n", "--page", "many"}},
		{2, []string{"migrate", "d/n", "--undo", "--to", state}},
		{2, []string{"migrate", "d/n", "--items-per-second=-1"}},
		{2, []string{"migrate", "d/n", "--parallelism", "0"}},
		{2, []string{"verify", "d/n", "--timeout=-1s"}},
		{2, []string{"state"}},
		{1, []string{"where", filepath.Join(state, "x", "y"), "a"}},
		{1, []string{"where", "", "a"}},
		{1, []string{"spread", state, filepath.Dir(state)}},
		{1, []string{"plan", state, "-"}},
		{1, []string{"migrate", state, "--to", state}},
		{1, []string{"verify", state}},
		{1, []string{"verify", "items:a/b/c", "--endpoint", "ftp://x"}},
		{1, []string{"verify", "items:a/b/c", "--account-key", "no base64!"}},
		{1, []string{"verify", "items:a/b/c", "--state-account", "eu"}},
		{1, []string{"verify", "items:a/b/c", "--accounts", state}},
		{1, []string{"verify", "items:a//c"}},
		{1, []string{"state", state, "--init", state}},
	} {
		var out, err bytes.Buffer
		code := run(append([]string{"resolver"}, c.args...), console.Streams{Out: &out, Err: &err})
		if code != c.code || strings.Count(err.String(), "\n") != c.code || !strings.HasPrefix(err.String(), "decan: ") {
			t.Errorf("%q: exit code %d, want %d and as many lines\n%s", c.args, code, c.code, &err)
		}
	}
}
