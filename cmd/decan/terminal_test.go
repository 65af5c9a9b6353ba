package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/decantest"
)

// terminal is a program in a terminal of the system.
type terminal struct {
	t       *testing.T
	file    *os.File
	command *exec.Cmd

	mu      sync.Mutex
	changed chan struct{} // closed when more was written; guarded by mu
	text    []byte        // what the program has written; guarded by mu
	ended   bool          // guarded by mu
	seen    int           // how much of text the story has looked at
}

// inTerminal starts decan in a terminal of a size. Further environment is in the form
// NAME=VALUE.
func inTerminal(t *testing.T, columns, lines uint16, environment []string, args ...string) *terminal {
	t.Helper()
	return startInTerminal(t, exec.Command("decan", args...), columns, lines, environment)
}

// startInTerminal starts a program in a terminal of a size.
func startInTerminal(t *testing.T, command *exec.Cmd, columns, lines uint16, environment []string) *terminal {
	t.Helper()
	command.Env = append(os.Environ(), environment...)
	file, err := pty.StartWithSize(command, &pty.Winsize{Cols: columns, Rows: lines})
	if err != nil {
		t.Skipf("this system has no terminals: %v", err)
	}
	term := &terminal{t: t, file: file, command: command, changed: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(term.read)
	t.Cleanup(func() {
		_ = command.Process.Kill() // It has usually ended.
		file.Close()
		reading.Wait()
	})
	return term
}

// askPosition is how a program asks a terminal where the cursor is.
const askPosition = "\x1b[6n"

// read collects what the program writes, and answers as a terminal does.
func (term *terminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := term.file.Read(buffer)
		term.mu.Lock()
		before := bytes.Count(term.text, []byte(askPosition))
		term.text = append(term.text, buffer[:n]...)
		asked := bytes.Count(term.text, []byte(askPosition)) - before
		term.ended = err != nil
		close(term.changed)
		term.changed = make(chan struct{})
		term.mu.Unlock()
		for range asked {
			_, _ = term.file.WriteString("\x1b[1;1R")
		}
		if err != nil {
			return
		}
	}
}

// control are the sequences that move the cursor and clear parts of the screen.
var control = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]|[\r\a\b]")

// types sends keys.
func (term *terminal) types(keys string) {
	term.t.Helper()
	if _, err := term.file.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

// sees waits until the program has written a text that matches, after what was seen
// before, and returns the text up to there without controls.
func (term *terminal) sees(pattern string) string {
	term.t.Helper()
	matcher := regexp.MustCompile(pattern)
	deadline := time.After(time.Minute)
	for {
		term.mu.Lock()
		changed, ended := term.changed, term.ended
		text := control.ReplaceAll(term.text, nil)
		term.mu.Unlock()
		if at := matcher.FindIndex(text[min(term.seen, len(text)):]); at != nil {
			part := string(text[term.seen : term.seen+at[1]])
			term.seen += at[1]
			return part
		}
		if ended {
			term.t.Fatalf("the program has ended and never wrote %q:\n%s", pattern, text)
		}
		select {
		case <-changed:
		case <-deadline:
			term.t.Fatalf("the program never wrote %q after %q; all it wrote:\n%s", pattern, text[:term.seen], text)
		}
	}
}

// ends waits for the end of the program and returns its exit status.
func (term *terminal) ends() int {
	term.t.Helper()
	err := term.command.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		term.t.Fatal(err)
	}
	return 0
}

// slowQueries returns the endpoint of a server that never answers a query with the word
// slowWord, and a channel that tells when one has come and when its client has gone.
func slowQueries(t *testing.T, endpoint string) (string, chan string) {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }}
	events := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte(slowWord)) {
			events <- "begun"
			<-r.Context().Done()
			events <- "gone"
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, events
}

const slowWord = "never_ends"

// waitFor waits for an event of slowQueries.
func waitFor(t *testing.T, events chan string, want string) {
	t.Helper()
	select {
	case got := <-events:
		if got != want {
			t.Fatalf("the query has %s, want %s", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the query has never %s", want)
	}
}

// shopServer returns a server with a container of three orders under a key of two
// levels, and a user-defined function.
func shopServer(t *testing.T) *decantest.Server {
	t.Helper()
	s := decantest.Start(t, decan.Config{AdminListen: "127.0.0.1:0", CQLListen: "127.0.0.1:0"})
	at := "--endpoint=" + s.Endpoint()
	for _, args := range [][]string{
		{"container", "create", "shop", "orders", "-k", "/tenant", "-k", "/user", "--create-database", "--partitions", "4", at},
		{"item", "put", "shop", "orders", `{"id":"1","tenant":"Contoso","user":"Alice","total":5,"lines":[{"sku":"book","price":3}]}`, at},
		{"item", "put", "shop", "orders", `{"id":"2","tenant":"Contoso","user":"Bob","total":7,"note":"a long note that does not fit into a narrow window"}`, at},
		{"item", "put", "shop", "orders", `{"id":"3","tenant":"Fabrikam","user":"Carol","total":9}`, at},
	} {
		var errs bytes.Buffer
		if code := run(args, console.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs}); code != 0 {
			t.Fatal(errs.String())
		}
	}
	var errs bytes.Buffer
	if code := run([]string{"script", "put", "shop", "orders", "function", "twice", "-", at}, console.Streams{In: strings.NewReader("function twice(n) { return 2 * n; }"), Out: io.Discard, Err: &errs}); code != 0 {
		t.Fatal(errs.String())
	}
	return s
}

// The keys of a terminal.
const (
	keyTab   = "\t"
	keyEnter = "\r"
	keyUp    = "\x1b[A"
	keyCtrlC = "\x03"
	keyCtrlD = "\x04"
	keyCtrlR = "\x12"
)

// TestShellInTerminal is a session in a terminal: completion, several lines, history,
// Ctrl-C, the place of an error, the pager and the width of the window.
func TestShellInTerminal(t *testing.T) {
	t.Parallel()
	s := shopServer(t)
	endpoint, events := slowQueries(t, s.Endpoint())
	state := t.TempDir()
	environment := []string{"TERM=xterm", "XDG_STATE_HOME=" + state, "PAGER=sed s/^/paged:/", "DECAN_ENDPOINT=" + endpoint}
	term := inTerminal(t, 60, 20, environment, "shell", "--cql", s.CQLAddress())
	term.sees(`\\\? lists the commands`)
	term.sees(`decan> `)

	// Names of databases and containers, of the server.
	term.types(`\c sh` + keyTab)
	term.sees(`\\c shop`)
	term.types(`/or` + keyTab)
	term.sees(`\\c shop/orders`)
	term.types(keyEnter)
	term.sees(`shop/orders> `)

	// Several lines; names of properties, from the items; keywords in the case they are typed.
	term.types("SELECT c.id, c.tot" + keyTab)
	term.sees(`c\.total`)
	term.types(keyEnter)
	term.sees(`-> `)
	term.types("fr" + keyTab + " c where c.tenant = \"Contoso\" ORD" + keyTab + " c.id;" + keyEnter)
	term.sees(`from c where c\.tenant = "Contoso" ORDER BY c\.id`)
	term.sees(`id  total\n--  -----\n1       5\n2       7\n2 rows, [\d.]+ RU, partition 2, [\d.]+ m?s\n`)
	term.sees(`shop/orders> `)

	// Names below lists, built-in functions and those of the container.
	term.types("SELECT VALUE IS_DEF" + keyTab)
	term.sees(`IS_DEFINED\(`)
	term.types("udf.tw" + keyTab)
	term.sees(`udf\.twice\(`)
	term.types("l.pr")
	term.types(keyCtrlC) // The typed text is dropped.
	term.sees(`shop/orders> `)
	term.types("SELECT VALUE udf.twice(l.price) FROM c JOIN l IN c.lines WHERE l.s" + keyTab)
	term.sees(`l\.sku`)
	term.types(" = 'book';" + keyEnter)
	term.sees(`value\n-----\n    6\n1 row`)
	term.sees(`shop/orders> `)

	// The history: the last statement in one line, and a search.
	term.types(keyUp)
	term.sees(`SELECT VALUE udf\.twice`)
	term.types(keyEnter)
	term.sees(`    6\n1 row`)
	term.sees(`shop/orders> `)
	term.types(keyCtrlR + "from c where")
	term.sees(`SELECT c\.id, c\.total from c where`)
	term.types(keyEnter)
	term.sees(`2 rows`)
	term.sees(`shop/orders> `)

	// Ctrl-C ends a statement, and the shell continues.
	term.types("SELECT * FROM c WHERE c." + slowWord + ";" + keyEnter)
	waitFor(t, events, "begun")
	term.types(keyCtrlC)
	term.sees(`The statement is cancelled\.\n`)
	waitFor(t, events, "gone")
	term.sees(`shop/orders> `)

	// The place of an error.
	term.types("SELECT * FORM c;" + keyEnter)
	term.sees(`  SELECT \* FORM c\n           \^\^\^\^\nerror: Syntax error, incorrect syntax near 'FORM'`)
	term.sees(`shop/orders> `)

	// No line is wider than the window.
	term.types("SELECT c.id, c.tenant, c.user, c.note FROM c;" + keyEnter)
	shown := term.sees(`3 rows`)
	_, table, _ := strings.Cut(shown, "\n")
	for line := range strings.Lines(table) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > 60 {
			t.Errorf("a line is wider than the window: %q", line)
		}
	}
	if !strings.Contains(table, "a long note") || !strings.Contains(table, "…") {
		t.Errorf("the table is\n%s", table)
	}

	// Long output goes through the pager, and not without it.
	term.types(`\?` + keyEnter)
	term.sees(`paged:.*\\d \[CONTAINER\]`)
	term.sees(`shop/orders> `)
	term.types(`\pager off` + keyEnter)
	term.sees(`shop/orders> `)
	term.types(`\?` + keyEnter)
	if text := term.sees(`\\q +end the shell`); strings.Contains(text, "paged:") {
		t.Errorf("with \\pager off:\n%s", text)
	}
	term.sees(`shop/orders> `)

	// CQL at the same prompt.
	term.types(`\cql` + keyEnter)
	term.sees(`cql> `)
	term.types("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; USE k;" + keyEnter)
	term.sees(`cql:k> `)
	term.types("CREATE TABLE t (a int PRIMARY KEY, m map<text, int>, d duration); INSERT INTO t (a, m, d) VALUES (1, {'x': 2}, 1h30m);" + keyEnter)
	term.sees(`RU`)
	term.types("SELECT * FROM t;" + keyEnter)
	term.sees(`a  d      m\n-  -----  -------\n1  1h30m  \{"x": ?2\}\n1 row, [\d.]+ RU, [\d.]+ m?s`)
	term.types("SELECT nothing FROM t;" + keyEnter)
	term.sees(`error: .*nothing`)
	term.types(`\sql` + keyEnter)
	term.sees(`shop/orders> `)
	term.types(`\q` + keyEnter)
	if code := term.ends(); code != 0 {
		t.Errorf("it ends with %d", code)
	}

	// The history is kept, and only its owner reads it.
	info, err := os.Stat(filepath.Join(state, "decan", "history"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the history: %v, %v", info, err)
	}
	term = inTerminal(t, 60, 20, environment, "shell", "shop", "orders")
	term.sees(`shop/orders> `)
	term.types(keyUp + keyUp + keyUp)
	term.sees(`SELECT nothing FROM t;`)
	term.types(keyCtrlC + keyCtrlD)
	if code := term.ends(); code != 0 {
		t.Errorf("Ctrl-D ends it with %d", code)
	}
}

// TestCommandsInTerminal: on a terminal a query prints a table that fits, with
// statistics, and a delete asks.
func TestCommandsInTerminal(t *testing.T) {
	t.Parallel()
	s := shopServer(t)
	environment := []string{"TERM=xterm", "DECAN_ENDPOINT=" + s.Endpoint()}
	term := inTerminal(t, 40, 20, environment, "query", "shop", "orders", "SELECT c.id, c.note FROM c ORDER BY c.id")
	term.sees(`id  note\n--  -+\n1\n2   a long note that does not fit into …\n3\n3 rows, [\d.]+ RU, partitions [\d ]+, [\d.]+ m?s\n`)
	if code := term.ends(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	term = inTerminal(t, 80, 20, environment, "container", "delete", "shop", "orders")
	term.sees(`Delete the container shop/orders with all its items\? \[y/N\] `)
	term.types("n" + keyEnter)
	term.sees(`decan: nothing is deleted`)
	if code := term.ends(); code != 1 {
		t.Errorf("no ends it with %d", code)
	}
	term = inTerminal(t, 80, 20, environment, "container", "delete", "shop", "orders")
	term.sees(`\[y/N\] `)
	term.types("y" + keyEnter)
	term.sees(`The container shop/orders is deleted`)
	if code := term.ends(); code != 0 {
		t.Errorf("yes ends it with %d", code)
	}
}

// TestShellInPipe: the same shell in a pipe reads statements until the first error, and
// writes rows as JSON lines, without a prompt and without controls of a terminal.
func TestShellInPipe(t *testing.T) {
	t.Parallel()
	s := shopServer(t)
	dir := t.TempDir()
	included := filepath.Join(dir, "included.sql")
	if err := os.WriteFile(included, []byte("SELECT VALUE c.total FROM c\n WHERE c.id = '3';\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, in, out, errs string
		code                int
		args                []string
	}{
		{
			name: "statements", in: "\\c shop/orders\nSELECT VALUE c.id -- a ; in a comment\nFROM c WHERE c.id IN ('1', ';') ORDER BY c.id; SELECT VALUE 'it\\'s; one';\nSELECT VALUE nonsense(1)",
			out: "\"1\"\n\"it's; one\"\n", errs: "decan: line 4: .*nonsense.*\n", code: 1,
		},
		{
			name: "parameters", in: "\\set t \"Fabrikam\"\n\\set\nSELECT VALUE c.id FROM c WHERE c.tenant = @t;\n\\unset t\n\\key [\"Contoso\"]\nSELECT VALUE COUNT(1) FROM c;\n",
			out: "@t \"Fabrikam\"\n\"3\"\n2\n",
		},
		{
			name: "formats", in: "\\f csv\nSELECT c.id, c.total FROM c WHERE c.id = '1';\n\\f json\nSELECT VALUE 1;\n\\f table\nSELECT VALUE 1;\n\\f xml\n",
			out: "id,total\n1,5\n[\n1\n]\nvalue\n-----\n    1\n", errs: `decan: line 7: \\f: give table, json, jsonl or csv\n`, code: 1,
		},
		{
			name: "files", in: "\\i " + included + "\n\\o " + filepath.Join(dir, "out") + "\nSELECT VALUE 5;\n\\o\nSELECT VALUE 6;\n\\o " + included + "\n",
			out: "9\n6\n", errs: `decan: line 6: \\o .*: there is such a file.*\n`, code: 1,
		},
		{
			name: "commands", in: "\\l\n\\d\n\\decan item get shop orders 3 --partition-key '[\"Fabrikam\",\"Carol\"]'\n\\q\nSELECT VALUE 1;\n",
			out: "(?s)shop\nshop/orders\n\nkey.*\"total\": 9.*",
		},
		{name: "unknown", in: "SELECT VALUE 1;\n\\nothing\nSELECT VALUE 2;\n", out: "1\n", errs: `decan: line 2: there is no command \\nothing: \\\? lists the commands\n`, code: 1},
		{name: "command flags", args: []string{"-c", "SELECT VALUE 1; SELECT VALUE 2", "-c", `\timing on`, "-c", "SELECT VALUE 3"}, out: "1\n2\n3\n", errs: "1 row, <charge>.*\n"},
		{
			name: "cql", in: "\\cql " + s.CQLAddress() + "\nSELECT release_version, key FROM system.local;\nSELECT * FROM system.nothing;\n",
			out: `\{"release_version":"4.1.*","key":"local"\}` + "\n", errs: "decan: line 3: .*nothing.*\n", code: 1,
		},
		{name: "no cql", in: "\\cql 127.0.0.1:1\n", errs: `decan: line 1: no Cassandra API answers at 127.0.0.1:1 .*--cql.*\n`, code: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"shell", "shop", "orders", "--endpoint=" + s.Endpoint()}, c.args...)
			var out, errs bytes.Buffer
			code := run(args, console.Streams{In: strings.NewReader(c.in), Out: &out, Err: &errs})
			said := volatile[0].pattern.ReplaceAllString(errs.String(), volatile[0].shown)
			if code != c.code || !matches(c.out, out.String()) || !matches(c.errs, said) || strings.Contains(out.String(), "\x1b") {
				t.Errorf("it ends with %d, and writes\n%s\n2>\n%s\nwant %d\n%s\n2>\n%s", code, out.String(), said, c.code, c.out, c.errs)
			}
		})
	}
}

// matches reports whether a text is a pattern, or equal to it.
func matches(pattern, text string) bool {
	matcher, err := regexp.Compile(fmt.Sprintf(`\A(?:%s)\z`, pattern))
	return pattern == text || err == nil && matcher.MatchString(text)
}
