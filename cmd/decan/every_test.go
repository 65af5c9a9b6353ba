package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/decantest"
)

// act is one command of the play of TestEveryCommand.
type act struct {
	path  string // the words of the command
	args  string // as for words; DB is a database, DIR a directory, DATA a data directory
	shows string // what it prints, as a pattern
	code  int    // the exit status
	// says is what else a pipe has on standard error, as a pattern.
	says string
	// long means that a line may be wider than a terminal: a sentence, or what must not
	// be broken, such as a token or a path.
	long bool
}

// play has each command at least once, in an order in which they succeed.
var play = []act{
	{path: "version", shows: `^decan \d`},
	{path: "key", args: `'["a"]'`, shows: `\b[0-9A-F]{32}\b`, long: true},
	{path: "completion", args: "bash", shows: `complete `, long: true},
	{path: "database create", args: "DB", shows: `^The database DB is created, `},
	{path: "database list", shows: `(?m)^DB$`},
	{path: "database show", args: "DB", shows: `DB`},
	{path: "container create", args: "DB orders -k /pk --partitions 2", shows: `^The container DB/orders is created with the key /pk, `},
	{path: "container create", args: "DB copy -k /pk", shows: `is created`},
	{path: "container create", args: "DB states -k /id", shows: `is created`},
	{path: "container list", args: "DB", shows: `(?m)^orders  /pk$`},
	{path: "container show", args: "DB orders", shows: `key +/pk`},
	{path: "container set", args: "DB orders --ttl 86400", shows: `DB/orders`},
	{path: "item put", args: `DB orders '{"id":"1","pk":"a","note":"a long text that does not fit into the window of eighty columns, with its id"}'`, shows: `^The item 1 of DB/orders is created`},
	{path: "item get", args: `DB orders 1 --partition-key '["a"]'`, shows: `"pk": "a"`, long: true},
	{path: "item patch", args: `DB orders 1 --partition-key '["a"]' --set /n=1`, shows: `item 1`},
	{path: "item import", args: "DB orders DIR/items.jsonl", shows: `3 documents written in `},
	{path: "import", args: "DB orders DIR/items.jsonl", shows: `3 documents written in `},
	{path: "export documents", args: "DB orders --output DIR/out.jsonl", shows: `4 rows written, `, says: `^4 rows written, [\d.]+ RU\n$`},
	{path: "query", args: "DB orders 'SELECT c.id, c.note FROM c ORDER BY c.id'", shows: `\b4\b`},
	{path: "query", args: "DB orders 'SELECT * FROM c' --format table", shows: `(?m)^id`},
	{path: "explain", args: "DB orders 'SELECT * FROM c WHERE c.pk = \"a\"'", shows: `partition`},
	{path: "shell", args: `DB orders -c '\d' -c 'SELECT VALUE COUNT(1) FROM c'`, shows: `(?m)^ *4$`},
	{path: "script put", args: "DB orders function f DIR/f.js", shows: `function f`},
	{path: "script put", args: "DB orders procedure p DIR/p.js", shows: `procedure p`},
	{path: "script list", args: "DB orders", shows: `function +f`},
	{path: "script show", args: "DB orders function f", shows: `function f\(\)`},
	{path: "script run", args: `DB orders p --partition-key '["a"]'`, shows: `1`, says: `^[\d.]+ RU\n$`},
	{path: "script delete", args: "DB orders function f", shows: `function f`},
	{path: "throughput show", args: "DB orders", shows: `RU/s`},
	{path: "throughput set", args: "DB orders --throughput 500", shows: `500 RU/s`, long: true},
	{path: "user create", args: "DB u", shows: `user u`},
	{path: "user list", args: "DB", shows: `(?m)^u$`},
	{path: "permission create", args: "DB u p --container orders", shows: `^type=resource&`, long: true},
	{path: "permission list", args: "DB u", shows: `\bp\b`},
	{path: "permission token", args: "DB u p", shows: `^type=resource&`, long: true},
	{path: "permission delete", args: "DB u p", shows: `permission p`},
	{path: "user delete", args: "DB u", shows: `user u`},
	{path: "partitions list", args: "DB orders", shows: `2 physical partitions, 4 documents`},
	{path: "partitions merge", args: "DB orders", shows: `1 physical partition`},
	{path: "partitions split", args: "DB copy 0 --at 1F", shows: `^Partition 0 is now `, long: true},
	{path: "limits", args: "DB orders", shows: `one full partition key +20 GB`},
	{path: "queries list", shows: `[Qq]uer`},
	{path: "queries cancel", args: "4711", code: 1, says: `4711`, shows: `4711`},
	{path: "copy create", args: "job-DB DB/orders DB/copy --online", shows: `^job-DB: DB/orders to DB/copy, online, `},
	{path: "copy list", shows: `(?m)^job-DB `},
	{path: "copy show", args: "job-DB", shows: `^job-DB: `},
	{path: "copy pause", args: "job-DB", shows: `Paused`},
	{path: "copy resume", args: "job-DB", shows: `^job-DB: `},
	{path: "copy complete", args: "job-DB --watch", shows: `Completed`},
	{path: "copy create", args: "gone-DB DB/orders DB/copy --online", shows: `^gone-DB: `},
	{path: "copy cancel", args: "gone-DB", shows: `Cancelled`},
	{path: "deploy", args: "DIR/main.json", shows: `(?m)^4 resources: `},
	{path: "export template", args: "DB", shows: `"\$schema"`, long: true},
	{path: "advise", args: "--database DB --container orders --key /pk,/id", shows: `Take `, long: true},
	{path: "cert", args: "--data DIR/new", shows: `BEGIN CERTIFICATE`, says: `Trust this certificate`, long: true},
	{path: "token new-issuer", args: "--dir DIR/issuer", shows: `--token-issuer`, long: true},
	{path: "token sign", args: "--dir DIR/issuer --principal ann", shows: `^[\w-]+\.[\w-]+\.[\w-]+\s*$`, long: true},
	{path: "resolver state", args: "items:DB/states/a --init DIR/one.json", shows: `target +c0`, long: true},
	{path: "resolver where", args: "DIR/one.json a", shows: `c0`},
	{path: "resolver spread", args: "DIR/one.json DIR/keys", shows: `c0`},
	{path: "resolver plan", args: "DIR/one.json DIR/two.json", shows: `c1`},
	{path: "resolver verify", args: "items:DB/states/a", shows: `c0 +4`},
	{path: "resolver migrate", args: "items:DB/states/a --to DIR/two.json --alone --make", shows: `c1`},
	{path: "check", args: "DATA", shows: `every invariant holds\n$`, long: true},
	{path: "quarantine list", args: "DATA", shows: `^the quarantine is empty`},
	{path: "quarantine restore", args: "DATA x", code: 1, says: `no entry 'x'`, shows: `no entry 'x'`, long: true},
	{path: "quarantine delete", args: "DATA x", code: 1, says: `no entry 'x'`, shows: `no entry 'x'`, long: true},
	{path: "item delete", args: `DB orders 1 --partition-key '["a"]'`, shows: `item 1`},
	{path: "container delete", args: "DB copy --yes", shows: `^The container DB/copy is deleted`},
	{path: "database delete", args: "DB --yes", shows: `^The database DB is deleted`},
}

// elsewhere are the commands that other tests run in a terminal and in a pipe.
var elsewhere = map[string]string{"serve": "TestServeInTerminal", "demo tenants": "TestDemoTenants and TestDemoInterrupted of democmd"}

// screen is a terminal of 80 columns in this process.
type screen struct {
	*os.File // what a command writes to and reads from
	reading  sync.WaitGroup
	keyboard *os.File
	text     bytes.Buffer
}

func openScreen(t *testing.T) *screen {
	t.Helper()
	keyboard, file, err := pty.Open()
	if err != nil {
		t.Skipf("this system has no terminals: %v", err)
	}
	if err := pty.Setsize(keyboard, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	s := &screen{File: file, keyboard: keyboard}
	s.reading.Go(func() { _, _ = io.Copy(&s.text, keyboard) }) // It ends with an error when the last writer closes.
	return s
}

// end returns all that was written.
func (s *screen) end() string {
	s.Close()
	s.reading.Wait()
	s.keyboard.Close()
	return strings.ReplaceAll(s.text.String(), "\r\n", "\n")
}

// playFiles are the files in the directory of a play with a database.
func playFiles(where string) map[string]string {
	return map[string]string{
		"items.jsonl": "{\"id\":\"2\",\"pk\":\"a\"}\n{\"id\":\"3\",\"pk\":\"b\"}\n{\"id\":\"4\",\"pk\":\"c\"}\n",
		"f.js":        "function f() {}\n", "p.js": "function p() { getContext().getResponse().setBody(1); }\n", "keys": "[\"a\"]\n",
		"main.json": strings.ReplaceAll(manyContainers(3), "many", where),
		"one.json":  `{"key": {"paths": ["/id"]}, "targets": [{"name": "c0", "database": "` + where + `", "container": "orders"}], "current": {"scheme": {"kind": "ring", "targets": ["c0"]}}}`,
		"two.json":  `{"key": {"paths": ["/id"]}, "targets": [{"name": "c0", "database": "` + where + `", "container": "orders"}, {"name": "c1", "database": "` + where + `", "container": "more"}], "current": {"scheme": {"kind": "ring", "targets": ["c0", "c1"]}}}`,
	}
}

// TestEveryCommand runs each command in a pipe, and again in a terminal of 80 columns. The
// pipe has no control character and nothing on standard error but what the command must
// say; the terminal has no colours, and its tables fit.
func TestEveryCommand(t *testing.T) {
	t.Parallel()
	s := decantest.Start(t, decan.Config{AdminListen: "127.0.0.1:0", CQLListen: "127.0.0.1:0"})
	data := checkable(t)
	nodes := leaves(t)
	seen := map[string]bool{}
	for _, where := range []string{"pipe", "term"} {
		dir := t.TempDir()
		for name, text := range playFiles(where) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, a := range play {
			node := nodes[a.path]
			if node == nil {
				t.Fatalf("there is no command %s", a.path)
			}
			seen[a.path] = true
			replace := strings.NewReplacer("DATA", data, "DIR", dir, "DB", where).Replace
			args := words(t, replace(a.path+" "+a.args))
			for _, flag := range node.Flags {
				if value := map[string]string{"endpoint": s.Endpoint(), "admin": s.AdminEndpoint(), "cql": s.CQLAddress()}[flag.Name]; value != "" {
					args = append(args, "--"+flag.Name, value)
				}
			}
			if where == "pipe" {
				var out, errs bytes.Buffer
				code := run(args, console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
				all := out.String() + errs.String()
				says := regexp.MustCompile(`^$`)
				if a.says != "" {
					says = regexp.MustCompile(a.says)
				}
				if code != a.code || !regexp.MustCompile(replace(a.shows)).MatchString(all) || !says.MatchString(errs.String()) || strings.ContainsAny(all, "\x1b\r\b\a") {
					t.Errorf("in a pipe: decan %q ends with %d and writes\n%s2>\n%s", args, code, &out, &errs)
				}
				continue
			}
			terminal := openScreen(t)
			code := run(args, console.Streams{In: terminal.File, Out: terminal.File, Err: terminal.File})
			all := terminal.end()
			plain := control.ReplaceAllString(all, "")
			if code != a.code || !regexp.MustCompile(replace(a.shows)).MatchString(plain) || regexp.MustCompile("\x1b\\[[0-9;]*m").MatchString(all) {
				t.Errorf("in a terminal: decan %q ends with %d and writes\n%s", args, code, all)
			}
			for line := range strings.SplitSeq(strings.ReplaceAll(all, "\r", "\n"), "\n") {
				if width := utf8.RuneCountInString(control.ReplaceAllString(line, "")); width > 80 && !a.long {
					t.Errorf("in a terminal: decan %q writes a line of %d columns: %s", args, width, line)
				}
			}
		}
	}
	for path := range nodes {
		if !seen[path] && elsewhere[path] == "" {
			t.Errorf("%s is not run", path)
		}
	}
}

// TestServeInTerminal starts a server in a terminal, and ends it with Ctrl-C. The story
// serve.txtar has it in a pipe.
func TestServeInTerminal(t *testing.T) {
	t.Parallel()
	term := inTerminal(t, 80, 24, []string{"TERM=xterm"}, "serve", "--in-memory", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--direct-listen=127.0.0.1:0", "--cql-listen=127.0.0.1:0")
	all := term.sees(`decan \S+ is ready after [\d.]+ m?s\n(.*\n)* +admin .*\n`)
	for line := range strings.Lines(all) {
		if utf8.RuneCountInString(line) > 81 && !strings.HasPrefix(line, "  key ") {
			t.Errorf("a line is wider than the terminal: %s", line)
		}
	}
	term.types(keyCtrlC)
	if code := term.ends(); code != 0 || strings.Contains(all, "\x1b") {
		t.Errorf("it ends with %d, and wrote %q", code, all)
	}
}
