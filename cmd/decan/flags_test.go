package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/decandb/decan/cmd/decan/internal/console"
)

// model parses no command line: it is the tree of commands and flags.
func model(t *testing.T) *kong.Application {
	t.Helper()
	var commands cli
	parser, err := newParser(&commands, console.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

var (
	flagName    = regexp.MustCompile(`(?:^|[^-\w])--([a-z][a-z0-9-]*)`)
	flagRow     = regexp.MustCompile("(?m)^\\| `--([a-z0-9-]+)`[^|]* \\| ([^|]*) \\| ([^|]*) \\|$")
	helpDefault = regexp.MustCompile(`\(default: (.*?)\)[.;,]`)
)

// serveFlags returns the flags of decan serve.
func serveFlags(t *testing.T) []*kong.Flag {
	t.Helper()
	for _, command := range model(t).Children {
		if command.Name == "serve" {
			return command.Flags
		}
	}
	t.Fatal("there is no command serve")
	return nil
}

// defaultOf returns the default of a flag as its help states it.
func defaultOf(flag *kong.Flag) string {
	if flag.Default != "" {
		return flag.Default
	}
	if flag.IsBool() {
		return "off"
	}
	if said := helpDefault.FindStringSubmatch(flag.Help); said != nil {
		return said[1]
	}
	return "none"
}

// TestServeFlagsAreDocumented compares the tables of docs/operating.md with the flags
// of decan serve: each flag has one row, with its default, and no other flag has one.
func TestServeFlagsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Flags of decan serve\n")
	if !found {
		t.Fatal("docs/operating.md has no section on the flags of decan serve")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]string{}
	for _, row := range flagRow.FindAllStringSubmatch(section, -1) {
		if _, twice := rows[row[1]]; twice {
			t.Errorf("docs/operating.md has two rows for --%s", row[1])
		}
		rows[row[1]] = strings.ReplaceAll(row[2], "`", "")
	}
	for _, flag := range serveFlags(t) {
		said, found := rows[flag.Name]
		if want := defaultOf(flag); !found || said != want {
			t.Errorf("docs/operating.md: the default of --%s is %q (in a row: %v), the flag has %q", flag.Name, said, found, want)
		}
		delete(rows, flag.Name)
	}
	for name := range rows {
		t.Errorf("docs/operating.md has a row for --%s, which decan serve does not have", name)
	}
}

// TestServeFlagsInEnvironment: each flag of decan serve has the environment variable
// that docs/operating.md derives from its name, and a help text.
func TestServeFlagsInEnvironment(t *testing.T) {
	t.Parallel()
	flags := serveFlags(t)
	for _, flag := range flags {
		want := "DECAN_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		if !slices.Equal(flag.Envs, []string{want}) || flag.Help == "" {
			t.Errorf("--%s: the environment names are %q, want %s; the help is %q", flag.Name, flag.Envs, want, flag.Help)
		}
	}
	if len(flags) < 65 {
		t.Errorf("%d flags", len(flags))
	}
}

// TestFlagsInDocuments checks that a flag that a page names is one of some command.
// Lines of pictures and about other programs are left out.
func TestFlagsInDocuments(t *testing.T) {
	t.Parallel()
	flags := map[string]bool{"help": true}
	var walk func(*kong.Node)
	walk = func(node *kong.Node) {
		for _, flag := range node.Flags {
			flags[flag.Name] = true
			if flag.Tag.Negatable != "" {
				flags["no-"+flag.Name] = true
			}
		}
		for _, child := range node.Children {
			walk(child)
		}
	}
	walk(model(t).Node)
	pages, _ := filepath.Glob("../../docs/*.md")
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if slices.ContainsFunc([]string{"-->", "<--", "openssl", "docker", "systemctl", "curl", "npm", "apt", "git "}, func(program string) bool { return strings.Contains(line, program) }) {
				continue
			}
			for _, match := range flagName.FindAllStringSubmatch(line, -1) {
				if !flags[match[1]] {
					t.Errorf("%s names --%s, which no command has: %s", filepath.Base(page), match[1], strings.TrimSpace(line))
				}
			}
		}
	}
}
