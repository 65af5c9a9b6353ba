package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/decantest"
)

// words splits a command line as a shell does: quotes, and backslashes outside single
// quotes.
func words(t testing.TB, line string) (all []string) {
	t.Helper()
	var word strings.Builder
	quote, begun := byte(0), false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if begun {
				all = append(all, word.String())
				word.Reset()
				begun = false
			}
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == c:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(line):
			i++
			if line[i] != '\n' {
				word.WriteByte(line[i])
				begun = true
			}
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if quote != 0 {
		t.Fatalf("%s: a quote is not closed", line)
	}
	if begun {
		all = append(all, word.String())
	}
	return all
}

// volatile are the parts of an output that differ from run to run.
var volatile = []struct {
	pattern *regexp.Regexp
	shown   string
}{
	{regexp.MustCompile(`\d[\d,.]* RU\b([^/]|$)`), "<charge>$1"},
	{regexp.MustCompile(`\b\d[\d.]* (ms|s)\b`), "<time>"},
	{regexp.MustCompile(`"_(rid|self|etag)": ?"(\\.|[^"\\])*"`), `"_$1": <$1>`},
	{regexp.MustCompile(`"_ts": ?\d+`), `"_ts": <ts>`},
	{regexp.MustCompile(`type=resource&\S+`), "<token>"},
	{regexp.MustCompile(`127\.0\.0\.1:\d{4,5}\b`), "<address>"},
	{regexp.MustCompile(`--continuation '[^']+'`), "--continuation <position>"},
}

// TestCommandStories runs the stories of testdata/stories against servers in this
// process: the input is a command line after its verb, or with stdin the first line, and
// the rest is standard input. The output is standard output, then standard error after a
// line with 2>, then the exit status if it is not 0. The verb file writes a file in the
// working directory of the story.
func TestCommandStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := decantest.Start(t, decan.Config{AdminListen: "127.0.0.1:0"})
		t.Setenv("DECAN_ENDPOINT", s.Endpoint())
		t.Setenv("DECAN_ADMIN", s.AdminEndpoint())
		t.Setenv("TMPDIR", t.TempDir())
		full, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(t.TempDir())
		var keys struct{ PrimaryReadonlyMasterKey string }
		admin := remote.Admin{Endpoint: s.AdminEndpoint(), Key: s.Key()}
		if err := admin.Ask(t.Context(), "POST", "readonlykeys", nil, &keys); err != nil {
			t.Fatal(err)
		}
		position := regexp.MustCompile(`--continuation '([^']+)'`)
		next := ""
		datadriven.RunTest(t, full, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "file" {
				if err := os.WriteFile(d.CmdArgs[0].Key, []byte(d.Input+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return ""
			}
			line, in := d.Input, ""
			if d.HasArg("stdin") {
				line, in, _ = strings.Cut(d.Input, "\n")
			}
			line = strings.NewReplacer("$ENDPOINT", s.Endpoint(), "$KEY", s.Key(), "$NEXT", next, "$READONLY", keys.PrimaryReadonlyMasterKey).Replace(line)
			var out, errs bytes.Buffer
			code := run(words(t, line), console.Streams{In: strings.NewReader(in), Out: &out, Err: &errs})
			if found := position.FindStringSubmatch(errs.String()); found != nil {
				next = found[1]
			}
			text := out.String()
			if errs.Len() > 0 {
				text += "2>\n" + errs.String()
			}
			if code != 0 {
				text += fmt.Sprintf("exit %d\n", code)
			}
			for _, v := range volatile {
				text = v.pattern.ReplaceAllString(text, v.shown)
			}
			if text == "" {
				return "nothing\n"
			}
			return text
		})
	})
}
