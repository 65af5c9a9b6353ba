package sql

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
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

// negativeZero finds -0 in a printed text. The planner writes -0.0 so, and reads it as 0.
var negativeZero = regexp.MustCompile(`-0([^.0-9]|$)`)

// FuzzParse checks that a printed tree parses to the same tree, positions aside, and
// that errors are texts that clients can read.
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
		if got := again.String(); got != printed && !negativeZero.MatchString(printed) {
			t.Fatalf("%q is printed as %q, and that as %q", text, printed, got)
		}
		if at := treesDiffer(reflect.ValueOf(q), reflect.ValueOf(again)); at != "" {
			t.Fatalf("%q is printed as %q, whose tree differs at %s", text, printed, at)
		}
	})
}

// treesDiffer returns where two trees differ, positions aside, or "" if they do not.
// Whole numbers are equal whether or not they are floating point.
func treesDiffer(a, b reflect.Value) string {
	if a.Kind() == reflect.Interface {
		a, b = a.Elem(), b.Elem()
	}
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return fmt.Sprintf(": %v and %v", a, b)
	}
	switch {
	case !a.IsValid() || a.Type() == reflect.TypeFor[Span]():
		return ""
	case a.Type() == reflect.TypeFor[value.Value]():
		x, y := a.Interface().(value.Value), b.Interface().(value.Value)
		if x.IsDefined() != y.IsDefined() || x.IsDefined() && !value.Equal(x, y) {
			return fmt.Sprintf(": %s and %s", x.JSON(), y.JSON())
		}
		return ""
	}
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() && b.IsNil() {
				return ""
			}
			return ": only one is nil"
		}
		return treesDiffer(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() {
			return fmt.Sprintf(": %d and %d elements", a.Len(), b.Len())
		}
		for i := range a.Len() {
			if at := treesDiffer(a.Index(i), b.Index(i)); at != "" {
				return fmt.Sprintf("[%d]%s", i, at)
			}
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if at := treesDiffer(a.Field(i), b.Field(i)); at != "" {
				return "." + a.Type().Field(i).Name + at
			}
		}
	default:
		if !a.Equal(b) {
			return fmt.Sprintf(": %v and %v", a, b)
		}
	}
	return ""
}

// TestTreesDiffer checks that every kind of difference between two trees is found, and
// that positions are none.
func TestTreesDiffer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{"SELECT * FROM c", "SELECT  *  FROM  c", ""},
		{"SELECT VALUE 1", "SELECT VALUE 1.0", ""},
		{"SELECT c.a FROM c", "SELECT c.b FROM c", ".Items[0].Expr.Name: a and b"},
		{"SELECT c.a FROM c", `SELECT c["a"] FROM c`, ".Items[0].Expr.Quoted: false and true"},
		{"SELECT VALUE 1", "SELECT VALUE 2", ".Value.Value: 1 and 2"},
		{"SELECT VALUE 1", "SELECT VALUE undefined", ".Value.Value: 1 and "},
		{"SELECT VALUE [1]", "SELECT VALUE [1, 2]", ".Value.Items: 1 and 2 elements"},
		{"SELECT VALUE 1 FROM c", "SELECT VALUE 1", ".From: only one is nil"},
		{"SELECT VALUE NOT c.a FROM c", "SELECT VALUE c.a FROM c", ".Value: "},
	} {
		a, err := Parse(c.a, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Parse(c.b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := treesDiffer(reflect.ValueOf(a), reflect.ValueOf(b)); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s and %s differ at %q, want %q", c.a, c.b, got, c.want)
		}
	}
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
