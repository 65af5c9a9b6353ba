// Command requirements writes docs/requirements.md: what Decan must do,
// statement by statement, and the tests that show each statement.
//
// The statements are in statements.txt. A test shows a statement if its text
// contains the number, such as S47, or a range, such as S47 to S54. An unknown
// number is an error. With -check the command writes nothing, and fails if the
// page is stale.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed statements.txt
var statementsText string

const page = "docs/requirements.md"

func main() {
	check := flag.Bool("check", false, "write nothing; fail if the page is stale")
	root := flag.String("root", "..", "the repository")
	flag.Parse()
	log.SetFlags(0)
	if err := run(*root, *check); err != nil {
		log.Fatal(err)
	}
}

func run(root string, check bool) error {
	groups, err := readStatements(statementsText)
	if err != nil {
		return err
	}
	shown, err := findTests(root)
	if err != nil {
		return err
	}
	text, err := render(groups, shown)
	if err != nil {
		return err
	}
	name := filepath.Join(root, filepath.FromSlash(page))
	if !check {
		return os.WriteFile(name, text, 0o644)
	}
	have, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, text) {
		return fmt.Errorf("%s is stale: run go run -C tools ./requirements", page)
	}
	return nil
}

type group struct {
	title      string
	statements []statement
}

type statement struct {
	number   int
	sentence string
	waits    string // the plan of the roadmap, "" for none
}

func readStatements(text string) ([]group, error) {
	var groups []group
	seen := map[int]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		if title, ok := strings.CutPrefix(line, "## "); ok {
			groups = append(groups, group{title: title})
			continue
		}
		if len(groups) == 0 {
			return nil, fmt.Errorf("%q comes before the first group", line)
		}
		last := &groups[len(groups)-1]
		if plan, ok := strings.CutPrefix(line, "  waits: "); ok {
			last.statements[len(last.statements)-1].waits = plan
			continue
		}
		name, sentence, _ := strings.Cut(line, " ")
		number, err := strconv.Atoi(strings.TrimPrefix(name, "S"))
		if err != nil || !strings.HasPrefix(name, "S") || sentence == "" || seen[number] {
			return nil, fmt.Errorf("%q is no new statement", line)
		}
		seen[number] = true
		last.statements = append(last.statements, statement{number: number, sentence: sentence})
	}
	return groups, nil
}

// place is a test that shows a statement.
type place struct {
	file string // with slashes, from the root
	test string // the function in file, "" for the whole file
}

var (
	// breaks joins the lines of a comment, so that a range may cross them.
	breaks = regexp.MustCompile(`\n[ \t]*(?://|#|\*)?[ \t]*`)
	// numbers matches a number or a range of numbers.
	numbers = regexp.MustCompile(`\bS(\d{1,3})\b(?:(?: to |-)S(\d{1,3})\b)?`)
	// function begins a test of a Go file, with the comment that belongs to it.
	function = regexp.MustCompile(`(?m)(?:^//.*\n)*^func (?:\([^)]*\) )?(\w+)`)
)

// findTests returns where each number is named.
func findTests(root string) (map[int][]place, error) {
	shown := map[int]map[place]bool{}
	note := func(p place, text string) {
		for _, match := range numbers.FindAllStringSubmatch(breaks.ReplaceAllString(text, " "), -1) {
			first, _ := strconv.Atoi(match[1]) // digits
			last := first
			if match[2] != "" {
				last, _ = strconv.Atoi(match[2]) // digits
			}
			for n := first; n <= last; n++ {
				if shown[n] == nil {
					shown[n] = map[place]bool{}
				}
				shown[n][p] = true
			}
		}
	}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(relative)
		if entry.IsDir() {
			if skipped(file) {
				return filepath.SkipDir
			}
			return nil
		}
		if !isTest(file) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(file, ".go") {
			note(place{file: file}, string(text))
			return nil
		}
		for test, part := range functions(string(text)) {
			note(place{file, test}, part)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sorted := map[int][]place{}
	for n, places := range shown {
		sorted[n] = slices.SortedFunc(maps.Keys(places), func(a, b place) int {
			return strings.Compare(a.file+"\x00"+a.test, b.file+"\x00"+b.test)
		})
	}
	return sorted, nil
}

func skipped(dir string) bool {
	base := path.Base(dir)
	return base != "." && base != ".." && strings.HasPrefix(base, ".") || slices.Contains([]string{"node_modules", "target", "__pycache__", "tools", "docs", "bin", "decan-data"}, base)
}

// isTest reports whether a file holds tests: of Go, of a client in another
// language, or a text that a test of Go runs.
func isTest(file string) bool {
	switch path.Ext(file) {
	case ".go":
		return strings.HasSuffix(file, "_test.go")
	case ".txt", ".txtar":
		return strings.Contains(file, "testdata/")
	case ".mjs", ".py", ".java", ".rs", ".cs":
		return strings.HasPrefix(file, "compat/")
	}
	return false
}

// functions yields the parts of a Go file by test. Parts that belong to no test
// have the name "".
func functions(text string) func(func(string, string) bool) {
	return func(yield func(string, string) bool) {
		at, name := 0, ""
		for _, match := range function.FindAllStringSubmatchIndex(text, -1) {
			if !yield(name, text[at:match[0]]) {
				return
			}
			at, name = match[0], text[match[2]:match[3]]
			if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Benchmark") && !strings.HasPrefix(name, "Example") && !strings.HasPrefix(name, "Fuzz") {
				name = ""
			}
		}
		yield(name, text[at:])
	}
}

const head = `# Requirements

What Decan has to do, in statements that are numbered for good, and the tests that show each one.
The statements follow the public documents on partitioning for which Decan was begun: hierarchical partition keys with their frequently asked questions, partitioning in the Cassandra API, and client-side partitioning.
A test names the numbers of the statements that it shows.
"Open" marks a statement that no test names, with the plan of [roadmap.md](roadmap.md) that it waits for.

This page is generated: change ` + "`tools/requirements/statements.txt`" + ` or the tests, and run ` + "`make requirements`" + `.

`

func render(groups []group, shown map[int][]place) ([]byte, error) {
	var out bytes.Buffer
	total, open, known := 0, 0, map[int]bool{}
	for _, g := range groups {
		for _, s := range g.statements {
			known[s.number] = true
			total++
			if len(shown[s.number]) == 0 {
				open++
			}
		}
	}
	var unknown []error
	for _, n := range slices.Sorted(maps.Keys(shown)) {
		if !known[n] {
			unknown = append(unknown, fmt.Errorf("%s names S%d, which is no statement", shown[n][0].file, n))
		}
	}
	if len(unknown) > 0 {
		return nil, errors.Join(unknown...)
	}
	fmt.Fprintf(&out, "%sOf %d statements, tests show %d; %d are open.\n", head, total, total-open, open)
	for _, g := range groups {
		fmt.Fprintf(&out, "\n## %s\n\n| | statement | tests |\n|---|---|---|\n", g.title)
		for _, s := range g.statements {
			fmt.Fprintf(&out, "| S%d | %s | %s |\n", s.number, s.sentence, s.tests(shown[s.number]))
		}
	}
	return out.Bytes(), nil
}

// tests returns the last column of a statement's row.
func (s statement) tests(places []place) string {
	if len(places) == 0 {
		if s.waits == "" {
			return "open"
		}
		return "open: " + s.waits
	}
	var cells []string
	for i := 0; i < len(places); {
		file, names := places[i].file, []string(nil)
		for ; i < len(places) && places[i].file == file; i++ {
			if places[i].test != "" {
				names = append(names, places[i].test)
			}
		}
		cell := fmt.Sprintf("[%s](../%s)", strings.TrimPrefix(file, "internal/"), file)
		if len(names) > 0 {
			cell += " " + strings.Join(names, ", ")
		}
		cells = append(cells, cell)
	}
	return strings.Join(cells, "; ")
}
