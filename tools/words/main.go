// Command words looks for words that do not read like plain English, in the
// prose of the files that ../words.txt lists as finished: Markdown pages, comments
// and messages of Go files, and comments of text cases, scripts and programs in
// other languages. It prints one line per finding and exits with code 1 if there
// is any. It is a help and no judge of style.
//
// Usage: go run -C tools ./words, from the root of the repository.
package main

import (
	"bufio"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// word is a pattern to avoid and what to write instead.
type word struct {
	pattern *regexp.Regexp
	better  string
}

func main() {
	words, finished, err := readList("words.txt")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	found := 0
	for _, file := range files(finished) {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			continue // deleted and not committed yet
		}
		lines := strings.Split(string(text), "\n")
		for _, p := range prose(file, text) {
			for _, w := range words {
				for _, at := range w.pattern.FindAllStringIndex(p.text, -1) {
					line := p.lineOf(at[0])
					if exempt(lines, line) {
						continue
					}
					fmt.Printf("%s:%d: %q: %s\n", file, line, p.text[at[0]:at[1]], w.better)
					found++
				}
			}
		}
	}
	if found > 0 {
		os.Exit(1)
	}
}

// exempt reports whether a line, counted from 1, gives a reason to keep its
// words: "words: reason" at its end.
func exempt(lines []string, line int) bool { return strings.Contains(lines[line-1], "words: ") }

// readList reads the list: a pattern, a tab and the better word, or the path of a
// finished file or directory. Lines that begin with # are comments.
func readList(path string) (words []word, finished []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, better, isWord := strings.Cut(line, "\t")
		if !isWord {
			finished = append(finished, line)
			continue
		}
		compiled, err := regexp.Compile(`(?i)\b(?:` + pattern + `)\b`)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %q: %w", path, pattern, err)
		}
		words = append(words, word{compiled, better})
	}
	return words, finished, lines.Err()
}

// files returns the tracked files at or below the paths.
func files(paths []string) []string {
	if len(paths) == 0 {
		return nil
	}
	command := exec.Command("git", append([]string{"ls-files", "--"}, paths...)...)
	command.Dir = ".."
	out, err := command.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "git ls-files:", err)
		os.Exit(1)
	}
	return strings.Fields(string(out))
}

// passage is a piece of prose. Its lines are joined by blanks, so that a phrase
// is found even if it is wrapped.
type passage struct {
	text  string
	lines []int // line numbers in the file
	ends  []int // offset in text at which each line ends
}

func (p *passage) add(line int, text string) {
	p.text += strings.TrimSpace(text) + " "
	p.lines, p.ends = append(p.lines, line), append(p.ends, len(p.text))
}

func (p *passage) lineOf(offset int) int {
	return p.lines[sort.SearchInts(p.ends, offset+1)]
}

// prose returns the passages of a file, by its kind.
func prose(file string, text []byte) []passage {
	switch filepath.Ext(file) {
	case ".go":
		return goProse(file, text)
	case ".md":
		return lineProse(text, markdownLine())
	case ".txt", ".txtar", ".py", ".sh", ".toml":
		return lineProse(text, commentLine("#"))
	case ".cs", ".java", ".js":
		return lineProse(text, commentLine("//"))
	}
	return nil
}

// goProse returns the comments of a Go file and, except for tests, its messages.
func goProse(file string, text []byte) (passages []passage) {
	set := token.NewFileSet()
	source := set.AddFile(file, set.Base(), len(text))
	var s scanner.Scanner
	s.Init(source, text, nil, scanner.ScanComments)
	last := -2
	for {
		pos, kind, literal := s.Scan()
		line := source.Line(pos)
		switch {
		case kind == token.EOF:
			return passages
		case kind == token.COMMENT:
			if line != last+1 {
				passages = append(passages, passage{})
			}
			last = line
			passages[len(passages)-1].add(line, strings.TrimPrefix(literal, "//"))
		case kind == token.STRING && strings.Contains(literal, " ") && !strings.HasSuffix(file, "_test.go"):
			passages = append(passages, passage{})
			passages[len(passages)-1].add(line, literal)
			last = -2
		}
	}
}

// commentLine returns a filter that keeps comments on lines of their own.
func commentLine(mark string) func(string) (string, bool) {
	return func(line string) (string, bool) { return strings.CutPrefix(strings.TrimSpace(line), mark) }
}

// lineProse returns each line that keep accepts as a passage.
func lineProse(text []byte, keep func(string) (string, bool)) (passages []passage) {
	for i, line := range strings.Split(string(text), "\n") {
		if kept, ok := keep(line); ok {
			passages = append(passages, passage{})
			passages[len(passages)-1].add(i+1, kept)
		}
	}
	return passages
}

var codeSpan = regexp.MustCompile("`[^`]*`")

// markdownLine returns a filter that drops code blocks and code spans.
func markdownLine() func(string) (string, bool) {
	inCode := false
	return func(line string) (string, bool) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inCode = !inCode
			return "", false
		}
		return codeSpan.ReplaceAllString(line, "``"), !inCode
	}
}
