package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/decantest"
)

// TestProgress: commands that may take long show progress on a terminal and none in a pipe.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := decantest.Start(t, decan.Config{AdminListen: "127.0.0.1:0"})
	dir := t.TempDir()
	template, items := filepath.Join(dir, "main.json"), filepath.Join(dir, "items.jsonl")
	var lines strings.Builder
	for i := range 500 {
		fmt.Fprintf(&lines, "{\"id\":\"%d\",\"a\":\"x\",\"b\":\"y\",\"c\":\"z\"}\n", i)
	}
	for name, text := range map[string]string{template: manyContainers(3), items: lines.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		shows string // on a terminal
		says  string // on standard error of a pipe, where standard output may be the rows
		local bool   // sends no request
		args  []string
	}{
		{shows: `25 %  container many/c000`, args: []string{"deploy", template, "--admin", s.AdminEndpoint()}},
		{shows: `\d+ %  [\d,]+ documents?, \d+ a second`, args: []string{"import", "many", "c000", items}},
		{shows: `500 rows, [\d.]+ RU`, says: `500 rows written, [\d.]+ RU\n`, args: []string{"export", "documents", "many", "c000", "--output", filepath.Join(dir, "OUT.jsonl")}},
		{shows: `100 %  8 of 8 partitions, 1,600 documents`, local: true, args: []string{"check", checkable(t)}},
	} {
		args := func(place string) (all []string) {
			for _, arg := range c.args {
				all = append(all, strings.ReplaceAll(arg, "OUT", place))
			}
			if !c.local {
				all = append(all, "--endpoint", s.Endpoint())
			}
			return all
		}
		term := inTerminal(t, 120, 20, []string{"TERM=xterm"}, args("terminal")...)
		term.sees(c.shows)
		if code := term.ends(); code != 0 {
			t.Errorf("%q ends with %d in a terminal", c.args, code)
		}
		var out, errs bytes.Buffer
		if code := run(args("pipe"), console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != 0 || !matches(c.says, errs.String()) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%q ends with %d in a pipe, and writes\n%s2>\n%s", c.args, code, &out, &errs)
		}
	}
}
