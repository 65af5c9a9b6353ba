package rows

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/value"
)

// TestFormats runs the stories of testdata: rows, one on each line, in a format, with
// columns and the width of a window.
func TestFormats(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/formats", func(t *testing.T, d *datadriven.TestData) string {
		var o Options
		for _, arg := range d.CmdArgs {
			switch arg.Key {
			case "columns":
				o.Columns = arg.Vals
			case "width":
				arg.Scan(t, 0, &o.Width)
			case "rows":
				arg.Scan(t, 0, &o.Rows)
			}
		}
		var out bytes.Buffer
		w, err := NewWriter(d.Cmd, &out, o)
		if err != nil {
			return err.Error() + "\n"
		}
		defer w.Discard()
		for line := range strings.Lines(d.Input) {
			v, err := value.ParseString(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(v); err != nil {
				return err.Error() + "\n"
			}
		}
		if err := w.Close(); err != nil {
			return err.Error() + "\n"
		}
		if out.Len() == 0 {
			return "nothing\n"
		}
		return out.String()
	})
}

// FuzzTable writes any text in a table: no control character reaches the terminal, and
// no line is wider than the window.
func FuzzTable(f *testing.F) {
	f.Add("a", "\x1b[2J\x00é漢字", 20)
	f.Add("\n", strings.Repeat("x", 99), 7)
	f.Fuzz(func(t *testing.T, name, text string, window int) {
		if window < 20 || window > 1000 {
			return
		}
		var out bytes.Buffer
		w := newTableWriter(&out, Options{Width: window})
		if err := w.Write(value.Object([]value.Member{{Name: name, Value: value.String(text)}, {Name: name + "2", Value: value.Int(1)}})); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			if line != Shown(line) || Wide(line) > window {
				t.Fatalf("a window of %d has the line %q of %d", window, line, Wide(line))
			}
		}
	})
}
