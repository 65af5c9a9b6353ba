package cql

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
)

// TestMessages compares which statements are accepted, and the messages of the others,
// with recordings of Apache Cassandra 4.1.10.
func TestMessages(t *testing.T) {
	for _, path := range []string{"testdata/messages.txt", "testdata/differences.txt"} {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			_, err := Parse(d.Input)
			if err == nil {
				return "ok\n"
			}
			if _, ok := errors.AsType[*SyntaxError](err); !ok {
				t.Errorf("%s: the error is a %T", d.Input, err)
			}
			return err.Error() + "\n"
		})
	}
}

// TestTrees shows the tree of a statement of each kind.
func TestTrees(t *testing.T) {
	datadriven.RunTest(t, "testdata/trees.txt", func(t *testing.T, d *datadriven.TestData) string {
		p, err := Parse(d.Input)
		if err != nil {
			return err.Error() + "\n"
		}
		var b strings.Builder
		dump(&b, reflect.ValueOf(p.Statement), 0)
		if len(p.Markers) > 0 {
			fmt.Fprintf(&b, "markers %q\n", p.Markers)
		}
		return b.String()
	})
}

// dump writes the members of a tree that are not zero, one per line.
func dump(b *strings.Builder, v reflect.Value, indent int) {
	pad := strings.Repeat("  ", indent)
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if s, ok := v.Interface().(interface{ String() string }); ok && !v.IsNil() {
			if _, isType := v.Interface().(*Type); isType {
				fmt.Fprintf(b, " %s\n", s)
			} else if v.Elem().Kind() == reflect.Interface || v.Kind() == reflect.Interface {
				fmt.Fprintf(b, " %s %s\n", strings.TrimPrefix(v.Elem().Type().String(), "*cql."), s)
			} else {
				fmt.Fprintf(b, " %s\n", s)
			}
			return
		}
		dump(b, v.Elem(), indent)
	case reflect.Struct:
		fmt.Fprintf(b, " %s\n", v.Type().Name())
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				fmt.Fprintf(b, "%s  %s", pad, v.Type().Field(i).Name)
				dump(b, f, indent+1)
			}
		}
	case reflect.Slice:
		fmt.Fprintln(b)
		for i := range v.Len() {
			fmt.Fprintf(b, "%s  -", pad)
			dump(b, v.Index(i), indent+1)
		}
	case reflect.String:
		fmt.Fprintf(b, " %q\n", v.String())
	default:
		fmt.Fprintf(b, " %v\n", v.Interface())
	}
}

// TestBounds holds the limits of a text: nesting, markers and length.
func TestBounds(t *testing.T) {
	deep := func(open, inner, end string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	cases := []struct{ name, before, open, inner, end, after string }{
		{"lists", "INSERT INTO t (k) VALUES (", "[", "1", "]", ")"},
		{"sets", "INSERT INTO t (k) VALUES (", "{", "1", "}", ")"},
		{"maps", "INSERT INTO t (k) VALUES (", "{1:", "1", "}", ")"},
		{"types with fields", "INSERT INTO t (k) VALUES (", "{a:", "1", "}", ")"},
		{"tuples", "INSERT INTO t (k) VALUES ", "(", "1", ")", ""},
		{"calls", "INSERT INTO t (k) VALUES (", "f(", "1", ")", ")"},
		{"hints", "INSERT INTO t (k) VALUES (", "(int)", "1", "", ")"},
		{"casts", "INSERT INTO t (k) VALUES (", "CAST(", "1", " AS int)", ")"},
		{"sums", "INSERT INTO t (k) VALUES (", "1 + ", "1", "", ")"},
		{"products", "INSERT INTO t (k) VALUES (", "1 * ", "1", "", ")"},
		{"frozen", "CREATE TABLE t (k ", "frozen<list<", "int", ">>", " PRIMARY KEY)"},
		{"types", "CREATE TABLE t (k ", "list<", "int", ">", " PRIMARY KEY)"},
		{"selected parentheses", "SELECT ", "(", "k", ")", " FROM t"},
		{"selected signs", "SELECT ", "- ", "k", "", " FROM t"},
		{"selected fields", "SELECT k", ".f", "", "", " FROM t"},
		{"selected elements", "SELECT k", "[1]", "", "", " FROM t"},
		{"selected sums", "SELECT ", "k + ", "k", "", " FROM t"},
		{"selected lists", "SELECT ", "[", "k", "]", " FROM t"},
		{"selected sets", "SELECT ", "{", "k", "}", " FROM t"},
		{"selected hints", "SELECT ", "(int)", "k", "", " FROM t"},
		{"relations", "SELECT * FROM t WHERE ", "(", "k = 1", ")", ""},
		{"open parentheses", "SELECT * FROM t WHERE ", "(", "", "", ""},
	}
	for _, c := range cases {
		if c.name != "open parentheses" {
			if _, err := Parse(c.before + deep(c.open, c.inner, c.end, 100) + c.after); err != nil {
				t.Errorf("%s, 100 deep: %v", c.name, err)
			}
		}
		_, err := Parse(c.before + deep(c.open, c.inner, c.end, 100_000) + c.after)
		if err == nil || !strings.Contains(err.Error(), "nested more than 500 levels") {
			t.Errorf("%s, 100000 deep: %v", c.name, err)
		}
	}
	markers := "SELECT * FROM t WHERE k IN (?" + strings.Repeat(", ?", 65_534) + ")"
	if p, err := Parse(markers); err != nil || len(p.Markers) != 65_535 {
		t.Errorf("65,535 markers: %d, %v", len(p.Markers), err)
	}
	megabyte := "INSERT INTO t (k) VALUES ('" + strings.Repeat("x", 1<<20) + "')"
	p, err := Parse(megabyte)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Statement.(*Insert).Values[0].(*Literal).Text); n != 1<<20 {
		t.Errorf("the string has %d bytes", n)
	}
	if _, err := Parse(strings.Repeat(" ", MaxText+1)); err == nil || !strings.Contains(err.Error(), "longer than the maximum") {
		t.Errorf("a text that is too long: %v", err)
	}
}

func TestQuote(t *testing.T) {
	for name, want := range map[string]string{
		"a": "a", "a1_": "a1_", "A": `"A"`, "select": `"select"`, "key": "key", "": `""`, `a"b`: `"a""b"`,
		"1a": `"1a"`, "_a": `"_a"`, "schema": `"schema"`, "int": "int", "true": `"true"`, "nan": `"nan"`, "é": `"é"`,
	} {
		if got := Quote(name); got != want {
			t.Errorf("Quote(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestParseTypeAndWhere(t *testing.T) {
	for _, text := range []string{
		"int", "text", "frozen<map<text, frozen<list<int>>>>", "tuple<int, frozen<ks.ty>>", "vector<float, 3>", `"Ks"."Ty"`, "set<uuid>", "'a.b.C'",
	} {
		p, err := ParseType(text)
		if err != nil || p.String() != text {
			t.Errorf("ParseType(%s) = %v, %v", text, p, err)
		}
	}
	if _, err := ParseType("int int"); err == nil {
		t.Error("two types parse as one")
	}
	const where = `k IS NOT NULL AND "C" > 5 AND (a, b) IN ((1, 2)) AND m['x'] = 'it''s' AND token(k, l) <= 3 AND s CONTAINS KEY :v AND expr(i, 'q')`
	r, err := ParseWhere(where)
	if err != nil {
		t.Fatal(err)
	}
	if got := FormatWhere(r); got != where {
		t.Errorf("FormatWhere: %s", got)
	}
	if r, err := ParseWhere(""); r != nil || err != nil {
		t.Errorf("ParseWhere of nothing: %v, %v", r, err)
	}
	if _, err := ParseWhere("k = 1 LIMIT 2"); err == nil {
		t.Error("a limit parses as a part of WHERE")
	}
}

// statements returns all statements of the text files.
func statements(t testing.TB) []string {
	var all []string
	for _, path := range []string{"testdata/messages.txt", "testdata/differences.txt", "testdata/trees.txt"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(string(data), "\n\n") {
			_, rest, _ := strings.Cut(block, "\n")
			statement, _, ok := strings.Cut(rest, "\n----\n")
			if ok {
				all = append(all, statement)
			}
		}
	}
	if len(all) < 300 {
		t.Fatalf("the files have %d statements", len(all))
	}
	return all
}

// printed parses the expressions and relations of a statement again from their texts.
func printed(t *testing.T, s Statement) {
	where := func(r []Relation) {
		text := FormatWhere(r)
		again, err := ParseWhere(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := FormatWhere(again); got != text {
			t.Fatalf("%s becomes %s", text, got)
		}
	}
	switch s := s.(type) {
	case *Select:
		where(s.Where)
		for _, sel := range s.Selectors {
			text := "SELECT " + sel.Expr.String() + " FROM t"
			again, err := Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if got := again.Statement.(*Select).Selectors[0].Expr.String(); got != sel.Expr.String() {
				t.Fatalf("%s becomes %s", sel.Expr, got)
			}
		}
	case *Update:
		where(s.Where)
	case *Delete:
		where(s.Where)
	case *CreateTable:
		for _, c := range s.Columns {
			again, err := ParseType(c.Type.String())
			if err != nil {
				t.Fatalf("%s: %v", c.Type, err)
			}
			if diff := cmp.Diff(c.Type, again); diff != "" {
				t.Fatalf("%s changes when it is parsed again:\n%s", c.Type, diff)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range statements(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error has no text")
			}
			return
		}
		printed(t, p.Statement)
	})
}

func BenchmarkParse(b *testing.B) {
	for name, text := range map[string]string{
		"select": "SELECT a, b, c FROM ks.t WHERE k = ? AND c = ?",
		"insert": "INSERT INTO ks.t (k, a, b, c) VALUES (?, ?, ?, ?)",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
