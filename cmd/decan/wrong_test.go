package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/decantest"
)

// goodLine is a correct command line of one command, and what the command does.
type goodLine struct {
	args string // as for words; DIR is an empty directory, TEMPLATE a template, STATE a state
	// writes means that a key that may only read is refused.
	writes bool
	// missing is the same command line with MISSING, a file that does not exist; "" if the
	// command reads no file.
	missing string
}

// goodLines has all commands.
var goodLines = map[string]goodLine{
	"serve":              {args: "--in-memory"},
	"key":                {args: `'["a"]'`},
	"explain":            {args: "shop orders 'SELECT * FROM c'"},
	"partitions list":    {args: "shop orders"},
	"partitions split":   {args: "shop orders 0", writes: true},
	"partitions merge":   {args: "shop orders", writes: true},
	"limits":             {args: "shop orders"},
	"queries list":       {args: ""},
	"queries cancel":     {args: "1", writes: true},
	"demo tenants":       {args: "--documents 1000"},
	"advise":             {args: "--database shop --container orders --key /a", missing: "MISSING --key /a"},
	"database create":    {args: "other", writes: true},
	"database list":      {args: ""},
	"database show":      {args: "shop"},
	"database delete":    {args: "shop --yes", writes: true},
	"container create":   {args: "shop other -k /a", writes: true, missing: "shop other --file MISSING"},
	"container list":     {args: "shop"},
	"container show":     {args: "shop orders"},
	"container set":      {args: "shop orders --ttl 5", writes: true, missing: "shop orders --indexing @MISSING"},
	"container delete":   {args: "shop orders --yes", writes: true},
	"item get":           {args: `shop orders 1 --partition-key '["a"]'`},
	"item put":           {args: `shop orders '{"id":"1","pk":"a"}'`, writes: true, missing: "shop orders --file MISSING"},
	"item patch":         {args: `shop orders 1 --partition-key '["a"]' --set /n=1`, writes: true},
	"item delete":        {args: `shop orders 1 --partition-key '["a"]'`, writes: true},
	"item import":        {args: "shop orders DIR/items.jsonl", writes: true, missing: "shop orders MISSING"},
	"query":              {args: "shop orders 'SELECT * FROM c'", missing: "shop orders --file MISSING"},
	"shell":              {args: "shop orders -c 'SELECT 1'", missing: `shop orders -c '\i MISSING'`},
	"script list":        {args: "shop orders"},
	"script show":        {args: "shop orders function f"},
	"script put":         {args: "shop orders function f DIR/f.js", writes: true, missing: "shop orders function f MISSING"},
	"script delete":      {args: "shop orders function f", writes: true},
	"script run":         {args: `shop orders p --partition-key '["a"]'`, writes: true},
	"throughput show":    {args: "shop orders"},
	"throughput set":     {args: "shop orders --throughput 500", writes: true},
	"user create":        {args: "shop u", writes: true},
	"user list":          {args: "shop"},
	"user delete":        {args: "shop u", writes: true},
	"permission create":  {args: "shop u p --container orders", writes: true},
	"permission list":    {args: "shop u"},
	"permission token":   {args: "shop u p"},
	"permission delete":  {args: "shop u p", writes: true},
	"deploy":             {args: "TEMPLATE", writes: true, missing: "MISSING"},
	"copy create":        {args: "job shop/orders shop/copy", writes: true},
	"copy list":          {args: ""},
	"copy show":          {args: "job"},
	"copy pause":         {args: "job", writes: true},
	"copy resume":        {args: "job", writes: true},
	"copy cancel":        {args: "job", writes: true},
	"copy complete":      {args: "job", writes: true},
	"import":             {args: "shop orders DIR/items.jsonl", writes: true, missing: "shop orders MISSING"},
	"export documents":   {args: "shop orders"},
	"export template":    {args: "shop"},
	"cert":               {args: "--data DIR"},
	"token new-issuer":   {args: "--dir DIR/issuer"},
	"token sign":         {args: "--dir DIR --principal p", missing: "--dir MISSING --principal p"},
	"resolver where":     {args: "items:shop/orders/s a", missing: "MISSING a"},
	"resolver spread":    {args: "items:shop/orders/s DIR/keys", missing: "MISSING"},
	"resolver plan":      {args: "items:shop/orders/s", missing: "MISSING"},
	"resolver migrate":   {args: "items:shop/orders/s", missing: "MISSING"},
	"resolver verify":    {args: "items:shop/orders/s", missing: "MISSING"},
	"resolver state":     {args: "items:shop/orders/s", missing: "MISSING"},
	"check":              {args: "DIR", missing: "MISSING"},
	"quarantine list":    {args: "DIR", missing: "MISSING"},
	"quarantine restore": {args: "DIR name", missing: "MISSING name"},
	"quarantine delete":  {args: "DIR name", missing: "MISSING name"},
	"completion":         {args: "bash"},
	"version":            {args: ""},
}

// leaves returns the commands that can be run, by their words.
func leaves(t *testing.T) map[string]*kong.Node {
	t.Helper()
	all := map[string]*kong.Node{}
	var walk func(node *kong.Node, path string)
	walk = func(node *kong.Node, path string) {
		for _, child := range node.Children {
			if !child.Hidden {
				walk(child, strings.TrimSpace(path+" "+child.Name))
			}
		}
		if len(node.Children) == 0 {
			all[path] = node
		}
	}
	walk(model(t).Node, "")
	return all
}

// TestWrongInput: whatever is wrong, each command says it in one sentence, and in a second
// one which flag helps; it writes nothing else, and ends with 2 if the command line is wrong
// and with 1 otherwise. That is so for an unknown flag, a missing file, a server that is
// down, a wrong key, and a key that may only read.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	s := decantest.Start(t, decan.Config{AdminListen: "127.0.0.1:0", CQLListen: "127.0.0.1:0"})
	for _, args := range [][]string{
		{"container", "create", "shop", "orders", "-k", "/pk", "--create-database"},
		{"container", "create", "shop", "copy", "-k", "/pk"},
		{"item", "put", "shop", "orders", `{"id":"1","pk":"a"}`},
		{"user", "create", "shop", "u"},
	} {
		types(t, 0, append(args, "--endpoint", s.Endpoint()))
	}
	var keys struct{ PrimaryReadonlyMasterKey string }
	if err := (remote.Admin{Endpoint: s.AdminEndpoint(), Key: s.Key()}).Ask(t.Context(), "POST", "readonlykeys", nil, &keys); err != nil {
		t.Fatal(err)
	}
	nodes := leaves(t)
	for path := range goodLines {
		if nodes[path] == nil {
			t.Errorf("there is no command %s", path)
		}
	}
	const (
		refused  = `the server refuses the key(, or the clock of this machine is wrong)?\nGive the key of the account with --account-key, DECAN_KEY or --connection-string.*\.\n$`
		readOnly = `\nThis key may not do that: give one that may with --account-key, DECAN_KEY or --connection-string\.\n$`
		down     = `^decan: no server answers at 127\.0\.0\.1:1: connection refused\nStart a server with decan serve, or give the (endpoint|admin port|Cassandra API) of another server with --(endpoint URL|admin URL|cql ADDRESS)\.\n$`
	)
	for path, node := range nodes {
		line, has := goodLines[path]
		if !has {
			t.Errorf("%s is not tested", path)
			continue
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{"items.jsonl": `{"id":"2","pk":"a"}`, "f.js": "function f() {}", "keys": "[\"a\"]\n", "main.json": manyContainers(1)} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			flags := map[string]bool{}
			for _, flag := range node.Flags {
				flags[flag.Name] = true
			}
			// wrong runs a command line, and compares what it says.
			wrong := func(what string, code int, pattern, args string, further ...string) {
				t.Helper()
				args = strings.NewReplacer("DIR", dir, "TEMPLATE", filepath.Join(dir, "main.json"), "MISSING", filepath.Join(dir, "nothing", "here")).Replace(args)
				all := append(words(t, path+" "+args), further...)
				var out, errs bytes.Buffer
				got := run(all, console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
				if got != code || out.Len() > 0 || !regexp.MustCompile(pattern).MatchString(errs.String()) || strings.Count(errs.String(), "\n") > 2 {
					t.Errorf("%s: decan %q ends with %d and writes\n%s2>\n%swant %d and %s", what, all, got, &out, &errs, code, pattern)
				}
			}
			at := func(endpoint, admin, cql string) (further []string) {
				for _, flag := range [][2]string{{"endpoint", endpoint}, {"admin", admin}, {"cql", cql}} {
					if flags[flag[0]] {
						further = append(further, "--"+flag[0], flag[1])
					}
				}
				return further
			}
			here := at(s.Endpoint(), s.AdminEndpoint(), s.CQLAddress())
			if path == "serve" { // It has flags of these names of its own.
				here = nil
			}
			wrong("an unknown flag", 2, `^decan: unknown flag --nosuch.*\nRun decan --help for the commands and flags\.\n$`, line.args, "--nosuch")
			if line.missing != "" {
				wrong("a missing file", 1, `^decan: .*nothing.here.*: (no such file or directory|there is no such file and no such stored state|the directory has no keys of an issuer).*\n$`, line.missing, here...)
			}
			if len(here) == 0 {
				return
			}
			wrong("no server", 1, down, line.args, at("http://127.0.0.1:1", "http://127.0.0.1:1", "127.0.0.1:1")...)
			wrong("another key", 1, refused, line.args, append(here, "--account-key", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")...)
			if line.writes {
				wrong("a key that may only read", 1, readOnly, line.args, append(here, "--account-key", keys.PrimaryReadonlyMasterKey)...)
			}
		})
	}
}
