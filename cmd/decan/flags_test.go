package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// model parses no command line: it is the tree of commands and flags.
func model(t *testing.T) *kong.Application {
	t.Helper()
	var commands cli
	parser, err := newParser(&commands, streams{})
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

var (
	flagName = regexp.MustCompile(`(?:^|[^-\w])--([a-z][a-z0-9-]*)`)
	flagRow  = regexp.MustCompile("(?m)^\\| (`--[^|]*) \\| ([^|]*) \\|")
)

// TestFlagsOfServeAreDocumented checks that docs/operating.md names each flag of
// decan serve, that each row of its tables of flags names flags that exist, and that
// the default in the row is that of the flag.
func TestFlagsOfServeAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, match := range flagName.FindAllSubmatch(text, -1) {
		named[string(match[1])] = true
	}
	flags := map[string]*kong.Flag{}
	for _, command := range model(t).Children {
		if command.Name != "serve" {
			continue
		}
		for _, flag := range command.Flags {
			flags[flag.Name] = flag
			if !named[flag.Name] {
				t.Errorf("docs/operating.md does not name --%s", flag.Name)
			}
		}
	}
	for _, row := range flagRow.FindAllStringSubmatch(string(text), -1) {
		names := flagName.FindAllStringSubmatch(row[1], -1)
		defaults := strings.Split(row[2], ", ")
		for i, name := range names {
			flag, exists := flags[name[1]]
			if !exists {
				t.Errorf("docs/operating.md has a row for --%s, which decan serve does not have", name[1])
				continue
			}
			said := strings.TrimSpace(defaults[min(i, len(defaults)-1)])
			if flag.Default == "" || flag.Default == "0" || len(names) > 1 && len(defaults) != len(names) {
				continue // The row describes the default in words.
			}
			if said != flag.Default {
				t.Errorf("docs/operating.md: the default of --%s is %q, the flag has %q", name[1], said, flag.Default)
			}
		}
	}
}

// TestFlagsInDocuments checks that a flag that a page names is one of some command.
// Lines of pictures and about other programs are left out.
func TestFlagsInDocuments(t *testing.T) {
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
