package shellcmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestSplit runs the stories of testdata: lines, as SQL or CQL, and the statements that
// they complete.
func TestSplit(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/split", func(t *testing.T, d *datadriven.TestData) string {
		var b buffer
		var out strings.Builder
		for line := range strings.Lines(d.Input + "\n") {
			for _, text := range b.add(line, d.Cmd == "cql") {
				out.WriteString("run  " + strings.ReplaceAll(text, "\n", `\n`) + "\n")
			}
		}
		if rest := b.rest(); rest != "" {
			out.WriteString("rest " + strings.ReplaceAll(rest, "\n", `\n`) + "\n")
		}
		if out.Len() == 0 {
			return "nothing\n"
		}
		return out.String()
	})
}

// FuzzSplit: no text is lost or run twice, whatever its quotes.
func FuzzSplit(f *testing.F) {
	f.Add("SELECT ';' ; -- ;\nSELECT \"\\\";\";", false)
	f.Add("SELECT $$;$$; /* ; */ 'it''s';", true)
	f.Fuzz(func(t *testing.T, text string, cql bool) {
		all, rest := split(text, cql)
		if len(rest) > len(text) || !strings.HasSuffix(text, rest) {
			t.Fatalf("%q leaves %q", text, rest)
		}
		at := 0
		for _, one := range all {
			next := strings.Index(text[at:], one)
			if next < 0 {
				t.Fatalf("%q has no statement %q after %d", text, one, at)
			}
			at += next + len(one)
		}
		if at > len(text)-len(rest) && len(all) > 0 {
			t.Fatalf("%q: statements and rest %q overlap", text, rest)
		}
		if again, left := split(rest, cql); len(again) > 0 || left != rest {
			t.Fatalf("%q: the rest %q has statements %q", text, rest, again)
		}
	})
}

// TestAliases: the names of a statement with their paths in documents.
func TestAliases(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SELECT ":                       "c=",
		"SELECT * FROM orders o WHERE ": "o=",
		"SELECT * FROM c WHERE ":        "c=",
		"SELECT * FROM c AS x JOIN l IN x.lines JOIN t IN l.tags": "l=lines.[] t=lines.[].tags.[] x=",
		"SELECT * FROM t IN c.tags":                               "t=tags.[]",
	} {
		var got []string
		for name, path := range aliases(text, "c") {
			got = append(got, name+"="+strings.Join(path, "."))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s has %q, want %s", text, got, want)
		}
	}
}

// TestFields splits arguments of commands.
func TestFields(t *testing.T) {
	t.Parallel()
	got := fields(`item put shop orders '{"id":"a b"}' ["x y",{"z":"]"}] --set=1 "q r"`)
	want := []string{"item", "put", "shop", "orders", `{"id":"a b"}`, `["x y",{"z":"]"}]`, "--set=1", "q r"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
