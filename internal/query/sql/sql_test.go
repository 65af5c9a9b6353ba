package sql

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// TestText runs testdata. The command is
//
//	parse    the text as the printer writes it, or the error
func TestText(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd != "parse" {
					t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
				}
				q, err := Parse(d.Input, nil)
				if err != nil {
					return status.From(err).Error()
				}
				return q.String()
			})
		})
	}
}

// queries returns the queries in the testdata of this package and of package
// query.
func queries(tb testing.TB) []string {
	var paths []string
	for _, pattern := range []string{"testdata/*.txt", "../testdata/*.txt", "../testdata/*/*.txt"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			tb.Fatal(err)
		}
		paths = append(paths, found...)
	}
	var texts []string
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			line = strings.TrimSpace(line)
			expression, _, _ := strings.Cut(line, " -> ")
			switch {
			case line == "" || line[0] == '#' || strings.HasPrefix(line, "----"):
			case strings.HasPrefix(line, "SELECT"):
				texts = append(texts, line)
			default:
				texts = append(texts, "SELECT VALUE "+expression)
			}
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// FuzzParse checks that a printed tree parses to the same tree, and that errors
// are texts that clients can read.
func FuzzParse(f *testing.F) {
	for _, text := range queries(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text, nil)
		if err != nil {
			e := status.From(err)
			if e == nil || e.Code != status.CodeBadRequest || !json.Valid([]byte(e.Message)) {
				t.Fatalf("%q: the error is %v, want a BadRequest with JSON", text, err)
			}
			return
		}
		printed := q.String()
		again, err := Parse(printed, nil)
		if err != nil {
			t.Fatalf("%q is printed as %q, which does not parse: %v", text, printed, err)
		}
		if got := again.String(); got != printed {
			t.Fatalf("%q is printed as %q, and that as %q", text, printed, got)
		}
	})
}

// TestTokens checks that the spans of tokens lie in order in the text, and that
// only blanks and comments lie between them.
func TestTokens(t *testing.T) {
	t.Parallel()
	for _, text := range queries(t) {
		end := 0
		for l := NewLexer(text, nil); ; {
			tok := l.Next()
			if tok.At.Start < end || tok.At.End < tok.At.Start {
				t.Fatalf("%q: token %q at %v follows the offset %d", text, tok.Text, tok.At, end)
			}
			if gap := strings.TrimSpace(text[end:tok.At.Start]); gap != "" && !strings.HasPrefix(gap, "--") {
				t.Fatalf("%q: %q lies between two tokens", text, gap)
			}
			if end = tok.At.End; tok.Kind == TokenEnd || tok.Bad() {
				break
			}
		}
	}
}

// TestDeclaredParameters checks that the longest declared name wins, and that a
// name without a declaration is an identifier.
func TestDeclaredParameters(t *testing.T) {
	t.Parallel()
	declared := map[string]value.Value{"tenant": {}, "tenant-id": {}, "a b": {}}
	for text, want := range map[string][]string{
		"@tenant-id":     {"tenant-id"},
		"@tenant-idea":   {"tenant", "-", "idea"},
		"@tenant - @a b": {"tenant", "-", "a b"},
		"@other-id":      {"other", "-", "id"},
	} {
		var got []string
		for l, tok := NewLexer(text, declared), (Token{}); ; got = append(got, tok.Text) {
			if tok = l.Next(); tok.Kind == TokenEnd {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: tokens %q, want %q", text, got, want)
		}
	}
}

// BenchmarkParse parses a query of usual length.
func BenchmarkParse(b *testing.B) {
	const text = `SELECT c.id, c.n AS size FROM c JOIN t IN c.tags WHERE c.tenantId = @tenant-id AND (c.n > 5 OR t.name LIKE "a%") ORDER BY c.n DESC OFFSET 10 LIMIT 20`
	declared := map[string]value.Value{"tenant-id": value.String("a")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(text, declared); err != nil {
			b.Fatal(err)
		}
	}
}
