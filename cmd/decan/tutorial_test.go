package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan"
	"github.com/decandb/decan/decantest"
)

var shellBlock = regexp.MustCompile("(?s)\n```sh\n(.*?)```")

// TestTutorial runs the commands of docs/tutorial.md in their order, in one shell, on a
// server in this process: its first and last command start and stop one. What the page
// says of their results must hold (S6, S65, S105, S110 to S112).
func TestTutorial(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the page has commands of bash, which is not installed on this machine")
	}
	page, err := os.ReadFile("../../docs/tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	script.WriteString("set -eu\n")
	for i, block := range shellBlock.FindAllSubmatch(page, -1) {
		commands := string(block[1])
		if i == 0 {
			if commands != "decan serve --in-memory --limits laptop &\n" {
				t.Fatalf("the first block is %q", commands)
			}
			continue
		}
		script.WriteString("echo '== block " + string(rune('a'+i)) + "'\n")
		script.WriteString(strings.ReplaceAll(commands, "kill %1\n", ""))
	}
	s := decantest.Start(t, decan.Config{AdminListen: "127.0.0.1:0", Limits: "laptop", Throughput: "on"})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, bash, "-c", script.String())
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), "DECAN_ENDPOINT="+s.Endpoint(), "DECAN_ADMIN="+s.AdminEndpoint())
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	blocks := strings.Split(out.String(), "== block ")
	for _, c := range []struct{ block, pattern string }{
		{"b", `key +/tenant, /user, /session \(MultiHash, version 2\)\n`},
		{"c", `1 physical partition, 0 documents`},
		{"d", `"kind": "login"`},
		{"e", `^e\n500 documents written`},
		{"f", `(?s)n1 +click +1\n.*session  n\n-------  -\n.*\d+\.?\d*\nid,user\n`},
		{"g", `4 physical partitions, 501 documents`},
		{"h", `^h\n\d+\n1 row, \S+ RU, partitions? \d+( \d+)?, .*\n\d+\n1 row, \S+ RU, partition \d+, .*\n\d+\n1 row, \S+ RU, partitions \d+ \d+ \d+ \d+, `},
		{"i", `Nothing would be merged: 4,000 RU/s need 4 partitions of at most 1,000 RU/s each\.`},
		{"i", `The throughput of shop/events was 4,000 RU/s, and is 1,000 RU/s\.\nshop/events has 1 physical partition:`},
		{"i", `\n501\n`},
		{"j", `\{"kind":"click","n":500\}`},
		{"k", `The database shop is deleted`},
	} {
		found := false
		for _, text := range blocks {
			if strings.HasPrefix(text, c.block+"\n") && regexp.MustCompile(c.pattern).MatchString(text) {
				found = true
			}
		}
		if !found {
			t.Errorf("block %s does not match %s", c.block, c.pattern)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
