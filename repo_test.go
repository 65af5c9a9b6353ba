package decan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/decandb/decan"

// policy is section 3 of docs/architecture.md as text: a package left of the
// colon may import the packages right of it, and the standard library. A new
// arrow is an architectural decision: argue it in the commit.
const policy = `
internal/value, partitionkey, internal/status, internal/pacing:
internal/resource: value partitionkey status
internal/auth: resource status
internal/throughput: resource status
internal/placement: resource
internal/geo, internal/vector: value
internal/text:
internal/deploy/bicep:
internal/index: value resource status geo text vector
internal/deploy/jsonc:
internal/deploy/expression: deploy/jsonc
internal/deploy: value resource status deploy/jsonc deploy/expression
internal/query/sql: value status
internal/table/cql:
internal/table: partitionkey row table/cql
internal/query: value partitionkey resource status pacing index geo text vector query/sql
internal/row:
internal/script: value status
internal/patch: value status query/sql
internal/storage: status pacing
internal/replication: resource status
internal/partition/layout: value partitionkey resource status index row query storage
internal/partition/scan: value partitionkey resource status pacing index query vector throughput storage partition/layout
internal/partition: value partitionkey resource status pacing index patch query throughput storage replication partition/layout partition/scan
internal/partition/check: value partitionkey resource index row storage partition/layout
internal/catalog: value partitionkey resource status storage replication
internal/cluster: value partitionkey resource status pacing query table throughput storage replication partition partition/check catalog
internal/engine: value partitionkey resource status pacing auth index patch query script throughput partition catalog cluster
internal/api/cql/frame:
internal/api/transport:
internal/api/cql: status auth audit row table table/cql api/transport api/cql/frame
internal/simulate: value partitionkey resource status index query throughput placement
internal/batchlog: partitionkey resource status pacing auth row partition engine
internal/materialize: partitionkey resource status pacing auth row table partition engine
internal/api/cql/statement: partitionkey resource status pacing auth row table table/cql partition engine batchlog materialize api/cql api/cql/frame
internal/api/nosql/binaryjson: value
internal/api/nosql/hybridrow: value status
internal/api/nosql/rntbd: audit api/transport
internal/audit: auth status
internal/api/nosql: value partitionkey resource status auth audit query engine api/nosql/binaryjson api/nosql/hybridrow api/nosql/rntbd
internal/explorer:
internal/balance: partitionkey resource status pacing throughput placement partition catalog cluster
internal/copyjob: value partitionkey resource status pacing auth catalog engine
internal/api/admin: value partitionkey resource status pacing auth audit simulate catalog cluster engine copyjob
internal/server: value partitionkey resource status auth audit index query script throughput storage replication partition catalog cluster balance engine copyjob table api/transport api/nosql api/nosql/rntbd api/admin api/cql api/cql/statement explorer
resolver: partitionkey
resolver/azcosmos: value partitionkey resolver query/sql
.: server
decantest: decan
cmd/decan/internal/console:
cmd/decan/internal/remote: value partitionkey auth api/cql/frame
cmd/decan/internal/rows: value
cmd/decan/internal/advisecmd: value resource status server simulate cmd/decan/internal/console cmd/decan/internal/remote cmd/decan/internal/copycmd cmd/decan/internal/transfercmd
cmd/decan/internal/copycmd: cmd/decan/internal/console cmd/decan/internal/remote
cmd/decan/internal/democmd: decan cmd/decan/internal/console cmd/decan/internal/remote
cmd/decan/internal/deploycmd: status deploy deploy/bicep deploy/expression deploy/jsonc api/cql/frame cmd/decan/internal/console cmd/decan/internal/remote
cmd/decan/internal/resolvercmd: partitionkey auth resolver resolver/azcosmos cmd/decan/internal/console cmd/decan/internal/remote
cmd/decan/internal/transfercmd: value cmd/decan/internal/console cmd/decan/internal/remote cmd/decan/internal/rows
cmd/decan/internal/resourcecmd: value cmd/decan/internal/console cmd/decan/internal/remote
cmd/decan/internal/querycmd: value cmd/decan/internal/console cmd/decan/internal/remote cmd/decan/internal/rows cmd/decan/internal/transfercmd
cmd/decan/internal/shellcmd: value query row api/cql/frame cmd/decan/internal/console cmd/decan/internal/remote cmd/decan/internal/rows cmd/decan/internal/querycmd
cmd/decan: partitionkey auth server cmd/decan/internal/console cmd/decan/internal/remote cmd/decan/internal/advisecmd cmd/decan/internal/copycmd cmd/decan/internal/democmd cmd/decan/internal/deploycmd cmd/decan/internal/querycmd cmd/decan/internal/resolvercmd cmd/decan/internal/resourcecmd cmd/decan/internal/shellcmd cmd/decan/internal/transfercmd
`

// libraries says which packages may import a module outside the standard
// library and this repository. golang.org/x is free to all.
var libraries = map[string][]string{
	"github.com/cockroachdb/pebble/v2":      {"internal/storage", "internal/storage/storagetest"},
	"github.com/golang-jwt/jwt/v5":          {"internal/auth"},
	"github.com/twmb/murmur3":               {"partitionkey", "internal/value"},
	"github.com/alecthomas/kong":            {"cmd/decan"},
	"github.com/KimMachineGun/automemlimit": {"cmd/decan"},
	"github.com/ergochat/readline":          {"cmd/decan/internal/shellcmd"},
	"github.com/creack/pty":                 nil,
	"github.com/golang/geo":                 {"internal/geo"},
	"go.yaml.in/yaml/v3":                    {"internal/deploy/bicep"},
	"github.com/blevesearch/snowballstem":   {"internal/text"},
	"modernc.org/quickjs":                   {"internal/script"},
	"github.com/klauspost/compress":         {"internal/api/cql/frame"},
	"github.com/pierrec/lz4/v4":             {"internal/api/cql/frame"},
	"github.com/prometheus/client_golang":   {"internal/storage", "internal/partition", "internal/cluster", "internal/engine", "internal/audit", "internal/api/transport", "internal/api/cql", "internal/api/nosql", "internal/api/nosql/rntbd", "internal/api/admin", "internal/server"},
	"github.com/Azure/azure-sdk-for-go":     {"resolver/azcosmos"}, // and in tests and examples
	"github.com/cockroachdb/datadriven":     nil,
	"github.com/google/go-cmp":              nil,
	"github.com/anishathalye/porcupine":     nil,
	"github.com/rogpeppe/go-internal":       nil,
	"github.com/cockroachdb/errors":         {"internal/storage", "internal/storage/storagetest"},
	"github.com/prometheus/client_model":    {"internal/api/admin"},
	"github.com/prometheus/common":          {"internal/api/admin"},
}

// packages lists the directories of the main module that hold Go files.
func packages(t *testing.T) []string {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "compat" || name == "tools" || name == "decan-data") {
				return filepath.SkipDir
			}
			files, _ := filepath.Glob(filepath.Join(path, "*.go"))
			if len(files) > 0 {
				dirs = append(dirs, filepath.ToSlash(path))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// allowed parses policy into package -> import paths.
func allowed() map[string][]string {
	rules := map[string][]string{}
	full := func(name string) string {
		switch {
		case name == "partitionkey", name == "decantest", name == "resolver", name == "resolver/azcosmos", strings.HasPrefix(name, "cmd/"):
			return module + "/" + name
		case name == "decan", name == ".":
			return module
		}
		return module + "/internal/" + strings.TrimPrefix(name, "internal/")
	}
	for line := range strings.Lines(policy) {
		left, right, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found {
			continue
		}
		var targets []string
		for _, name := range strings.Fields(right) {
			targets = append(targets, full(name))
		}
		for name := range strings.SplitSeq(left, ",") {
			rules[full(strings.TrimSpace(name))] = targets
		}
	}
	return rules
}

func TestFloors(t *testing.T) {
	rules := allowed()
	for _, dir := range packages(t) {
		path := module
		if dir != "." {
			path += "/" + dir
		}
		// A test suite that ships with a package (replicationtest, storagetest)
		// lives on its parent's floor.
		owner := path
		if strings.HasSuffix(dir, "test") && dir != "decantest" {
			owner = module + "/" + filepath.ToSlash(filepath.Dir(dir))
		}
		targets, known := rules[owner]
		if !known {
			t.Errorf("package %s is not in the policy: add a line to repo_test.go and docs/architecture.md, and argue it in the commit", dir)
			continue
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue // tests may assemble what they need
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range parsed.Imports {
				imported := strings.Trim(spec.Path.Value, `"`)
				switch {
				case imported == owner || slices.Contains(targets, imported):
				case strings.HasPrefix(imported, module):
					t.Errorf("%s imports %s, which its floor does not allow: see section 3 of docs/architecture.md", file, imported)
				case !strings.Contains(strings.SplitN(imported, "/", 2)[0], "."), strings.HasPrefix(imported, "golang.org/x/"):
				default:
					if !fenced(imported, dir) {
						t.Errorf("%s imports %s: a library is fenced to the packages named in repo_test.go", file, imported)
					}
				}
			}
		}
	}
}

func fenced(imported, dir string) bool {
	for library, dirs := range libraries {
		if imported == library || strings.HasPrefix(imported, library+"/") {
			return slices.Contains(dirs, dir)
		}
	}
	return false
}

// wireWords are words of the protocols that only doors speak (I8): names of headers,
// paths of the REST protocol, and its list of errors. wireNames are those that comments must not contain
// either.
var (
	wireWords = regexp.MustCompile(`\{"Errors"|(?i)x-ms-|x-decan-|\bheaders?\b|\bIf-(None-)?Match\b|\bdbs/|\bcolls\b`)
	wireNames = regexp.MustCompile(`(?i)x-ms-|\bcolls\b`)
)

// TestWireWords: no text of the packages between the doors and the disk has a word
// of the REST protocol. Those packages give an error a reason (status.Reason), and
// each door words it for its clients. Not among them are auth and resource, which
// check signatures and definitions in the form of the service, and script, whose API
// for JavaScript has links.
func TestWireWords(t *testing.T) {
	dirs := []string{
		"partitionkey", "internal/status", "internal/value", "internal/throughput", "internal/placement", "internal/index",
		"internal/geo", "internal/text", "internal/vector", "internal/pacing",
		"internal/query", "internal/query/sql", "internal/table", "internal/table/cql", "internal/patch", "internal/storage", "internal/replication", "internal/partition", "internal/partition/layout", "internal/partition/check", "internal/partition/scan", "internal/catalog",
		"internal/cluster", "internal/engine", "internal/balance", "internal/copyjob",
	}
	set := token.NewFileSet()
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range file.Comments {
				if found := wireNames.FindString(c.Text()); found != "" {
					t.Errorf("%s: the comment has %q, a word of a protocol", set.Position(c.Pos()), found)
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && wireWords.MatchString(text.Value) {
					t.Errorf("%s: %s is text of a protocol; give the error a status.Reason", set.Position(text.Pos()), text.Value)
				}
				return true
			})
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, dir := range packages(t) {
		files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		commented := 0
		sources := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			sources++
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if parsed.Doc != nil && !strings.HasPrefix(parsed.Doc.Text(), "//go:") {
				commented++
			}
		}
		if sources > 0 && commented != 1 {
			t.Errorf("package %s: %d files carry a package comment, want exactly one: the file named after the package", dir, commented)
		}
	}
}

func TestNoReplaceLines(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("\nreplace")) {
		t.Error("go.mod has a replace line: a fresh clone of a user would not see the same code")
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

func TestDocumentLinks(t *testing.T) {
	for _, file := range documents(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllSubmatch(text, -1) {
			target := string(match[1])
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, target)
			}
		}
	}
}

var page = regexp.MustCompile(`Page: (docs/[\w/.-]+\.md)`)

func TestPagesNamedInPackageComments(t *testing.T) {
	for _, dir := range packages(t) {
		files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range page.FindAllSubmatch(text, -1) {
				if _, err := os.Stat(string(match[1])); err != nil {
					t.Errorf("%s names %s, which does not exist", file, match[1])
				}
			}
		}
	}
}

// documents lists the Markdown files of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "target" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestReadmePrograms keeps the programs of the README equal to the ones that
// tests run: a fenced block is preceded by a comment that names its source.
func TestReadmePrograms(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	marker := regexp.MustCompile("(?s)<!-- copied from ([^ ]+) -->\n```[a-z]*\n(.*?)```")
	found := marker.FindAllSubmatch(readme, -1)
	if len(found) < 3 {
		t.Fatalf("README.md copies %d programs, want those in Go, JavaScript and C#", len(found))
	}
	for _, match := range found {
		source, err := os.ReadFile(string(match[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Contains(source, bytes.TrimRight(match[2], "\n")) {
			t.Errorf("the program in README.md differs from %s: copy it again", match[1])
		}
	}
}

// TestChangelogFragments checks that each pending change says of which kind it is.
func TestChangelogFragments(t *testing.T) {
	files, _ := filepath.Glob("changelog/*.md")
	for _, file := range files {
		if filepath.Base(file) == "README.md" {
			continue
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		scanner := bufio.NewScanner(f)
		scanner.Scan()
		kind := scanner.Text()
		f.Close()
		if !slices.Contains([]string{"# Added", "# Changed", "# Fixed", "# Security"}, kind) {
			t.Errorf("%s begins with %q, want # Added, # Changed, # Fixed or # Security", file, kind)
		}
	}
}

// TestOrphanTestdata finds testdata directories whose package has no test.
func TestOrphanTestdata(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "target" {
			return filepath.SkipDir
		}
		if d.Name() == "testdata" {
			tests, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*_test.go"))
			if len(tests) == 0 {
				t.Errorf("%s belongs to no test", path)
			}
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fileLines is the number of lines above which a Go file holds two subjects.
const fileLines = 700

// generated matches the line that marks a generated Go file.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// TestFileLengths checks that no Go file, except generated ones, is longer than
// fileLines.
func TestFileLengths(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && strings.HasPrefix(name, ".") || name == "node_modules" || name == "target" || name == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if lines := bytes.Count(text, []byte("\n")); lines > fileLines && !generated.Match(text) {
			t.Errorf("%s has %d lines, more than %d: split it by subject", path, lines, fileLines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Error("no Go file was found")
	}
}

// TestUpwardReach checks that floors 0 and 1 do not reach the storage, however
// indirectly.
func TestUpwardReach(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Deps", "./internal/value", "./partitionkey", "./internal/status",
		"./internal/resource", "./internal/auth", "./internal/throughput", "./internal/index", "./internal/query", "./internal/script").Output()
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for decoder.More() {
		var listed struct {
			ImportPath string
			Deps       []string
		}
		if err := decoder.Decode(&listed); err != nil {
			t.Fatal(err)
		}
		for _, dep := range listed.Deps {
			if strings.HasPrefix(dep, "github.com/cockroachdb/pebble") || dep == module+"/internal/storage" || dep == "net/http" {
				t.Errorf("%s reaches %s: floors 0 and 1 are pure", listed.ImportPath, dep)
			}
		}
	}
}

// TestRequirements checks that docs/requirements.md names the tests of today, and
// that every statement that a test names exists.
func TestRequirements(t *testing.T) {
	out, err := exec.Command("go", "run", "-C", "tools", "./requirements", "-check").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestTemplateTypes checks that internal/deploy/types.json is what its generator writes.
func TestTemplateTypes(t *testing.T) {
	out, err := exec.Command("go", "run", "-C", "tools", "./templatetypes", "-check").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
