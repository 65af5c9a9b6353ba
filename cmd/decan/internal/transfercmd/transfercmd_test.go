package transfercmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/cmd/decan/internal/rows"
	"github.com/decandb/decan/internal/value"
)

// readRecords reads a whole text: documents, and errors as !LINE: TEXT. It stops at an
// error that ends the reading, which it returns as !! TEXT.
func readRecords(format, text string, infer bool) (out []string, documents []value.Value) {
	r, err := newRecordReader(format, strings.NewReader(text), infer)
	for err == nil {
		var rec record
		rec, err = r.next()
		var bad *recordError
		switch {
		case err == nil:
			out = append(out, fmt.Sprintf("%d: %s", rec.line, rec.document.JSON()))
			documents = append(documents, rec.document)
		case errors.As(err, &bad):
			out = append(out, fmt.Sprintf("!%d: %v", bad.line, bad.cause))
			err = nil
		}
	}
	if !errors.Is(err, io.EOF) {
		out = append(out, "!! "+err.Error())
	}
	return out, documents
}

// TestReadRecords runs the stories of testdata/read: a format, the text of a file, and its
// documents with their lines, or the errors.
func TestReadRecords(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/read/formats", func(t *testing.T, d *datadriven.TestData) string {
		format, types, _ := strings.Cut(d.Cmd, "-")
		out, _ := readRecords(format, d.Input, types != "strings")
		if len(out) == 0 {
			return "nothing\n"
		}
		return strings.Join(out, "\n") + "\n"
	})
}

// TestReadRecordsInUTF8: text that is not UTF-8 is refused, and not changed: a cell
// with its line, the name of a column with the file.
func TestReadRecordsInUTF8(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"id,a\n1,\xf0\n2,\u00e9\n": "!2: the cell of column 2 is not UTF-8\n" + `3: {"id":"2","a":"é"}`,
		"id,\xf0\n1,2\n":           `!! line 1: column "\xf0" is not UTF-8`,
	} {
		if out, _ := readRecords(formatCSV, text, true); strings.Join(out, "\n") != want {
			t.Errorf("%q:\n%s\nwant\n%s", text, strings.Join(out, "\n"), want)
		}
	}
}

// TestRecordTooLong: a document that is too long is refused, one at the limit is read, and
// the reading continues if the end of the document is known.
func TestRecordTooLong(t *testing.T) {
	t.Parallel()
	for _, format := range []string{formatLines, formatArray} {
		fits := `{"a":"` + strings.Repeat("x", recordBytesMax-len(`{"a":""}`)-1) + `"}`
		for _, c := range []struct {
			text string
			want int
		}{{fits, 2}, {fits[:6] + "xx" + fits[6:], 1}} {
			_, documents := readRecords(format, c.text+"\n"+`{"b":1}`, true)
			if len(documents) != c.want || !value.Equal(documents[len(documents)-1], value.Object([]value.Member{{Name: "b", Value: value.Int(1)}})) {
				t.Errorf("%s: %d documents of %d bytes, want %d", format, len(documents), len(c.text), c.want)
			}
		}
	}
	// An unclosed quote ends the reading before it fills the memory.
	endless := io.MultiReader(strings.NewReader("id,a\n1,\""), endlessReader{})
	r, err := newRecordReader(formatCSV, endless, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.next(); !errors.Is(err, errLongRecord) {
		t.Errorf("an endless cell: %v", err)
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// toCSV writes documents as export does.
func toCSV(t testing.TB, documents []value.Value) string {
	var out bytes.Buffer
	w, err := rows.NewWriter(rows.CSV, &out, rows.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	for _, d := range documents {
		if err := w.Write(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// FuzzCSVRoundTrip exports any document as CSV and imports it again: the result is an
// equal value, whatever its strings contain. The order of members may differ, and empty
// objects stay.
func FuzzCSVRoundTrip(f *testing.F) {
	for _, text := range []string{
		`{"id":"1","n":1,"s":"1","t":"true","u":true,"v":null,"w":"null","x":"","y":[],"z":{}}`,
		`{"a.b":1,"a":{"b":2,"c.d\\e":{"f":"\r\n"}},"":{"":"x"}}`,
		`{"i":9223372036854775807,"j":"12345678901234567890","k":"0.1","l":0.1,"m":1.7976931348623157e308,"o":"1e5","p":"05"}`,
		`{"q":"\"quoted\"","r":"{","s":"[1]","t":" 5 ","u":"\u0000","v":",","w":"a\nb","x":"\ufeff"}`,
		`{"id":"\"7\"\r"}`, `{"id":"5"}`, `{"\ufeff":1,"id":"5"}`, `{"\ufeff\ufeffa":1}`, `{"\ufeffa\"b":1}`,
		`{"q\r":"\r","long":0.12345678901234568}`, `{"":""}`, `{"":{"":5}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		document, err := value.ParseString(text)
		if err != nil || document.Kind() != value.KindObject || document.Len() == 0 || !isText(document.Get("id")) {
			return // It is not a document, or it is refused as a row.
		}
		if deep(document) || strings.Contains(text, "\ufffd") {
			return // Such names are refused, and bytes that are not text.
		}
		table := toCSV(t, []value.Value{document})
		out, got := readRecords(formatCSV, table, true)
		if len(got) != 1 || !value.Equal(got[0], document) {
			t.Fatalf("%s\nas CSV is\n%s\nand comes back as %q", document.JSON(), table, out)
		}
	})
}

// isText reports whether a value may be the id of a document, or is missing.
func isText(v value.Value) bool { return !v.IsDefined() || v.Kind() == value.KindString }

// deep reports whether a column would have too many levels.
func deep(v value.Value) bool {
	found := false
	rows.Flatten("", v, func(column, _ string) {
		names, err := rows.ParseColumn(column)
		found = found || err != nil || len(names) > value.DepthMax
	})
	return found
}

// FuzzReadRecords reads any text in any format: the reading ends, and documents of JSON
// lines or an array are equal after they are written and read again.
func FuzzReadRecords(f *testing.F) {
	for _, text := range []string{"", "[", "[]", "[{}]", `[{"a":1},{"b":[{}]}] x`, "{}\n{}", "{\"a\":\n1}\n", "a,b.c\n1,2\n", "\"", "a\n\"", "\xef\xbb\xbf{}", "a,a\n", "0\n\xf0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range []string{formatLines, formatArray, formatCSV} {
			out, documents := readRecords(format, text, true)
			if len(out) > len(text)+1 {
				t.Fatalf("%s: %d documents and errors from %d bytes", format, len(out), len(text))
			}
			var lines, array bytes.Buffer
			for i, d := range documents {
				lines.Write(append(d.Append(nil), '\n'))
				array.WriteString([]string{"[", ","}[min(i, 1)])
				array.Write(d.Append(nil))
			}
			if len(documents) == 0 {
				continue
			}
			array.WriteByte(']')
			_, again := readRecords(formatLines, lines.String(), true)
			_, once := readRecords(formatArray, array.String(), true)
			same := func(a, b value.Value) bool { return value.Equal(a, b) }
			if !slices.EqualFunc(documents, again, same) || !slices.EqualFunc(documents, once, same) {
				t.Fatalf("%s: %q changes when it is written", format, text)
			}
		}
	})
}

// TestLow: the watermark is below every unfinished record.
func TestLow(t *testing.T) {
	t.Parallel()
	var l low
	for i, c := range []struct{ add, want int64 }{{1, 0}, {2, 0}, {0, 3}, {4, 3}, {3, 5}} {
		if l.add(c.add); l.next != c.want {
			t.Errorf("step %d: %d, want %d", i, l.next, c.want)
		}
	}
	if len(l.ahead) != 0 {
		t.Errorf("%d records are remembered for ever", len(l.ahead))
	}
}
