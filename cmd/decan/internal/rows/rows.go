// Package rows writes rows of queries for people and programs: as a table, JSON, JSON
// lines or CSV.
//
// [NewWriter] returns the writer of a format. [Flatten], [ParseColumn] and [InferCell]
// are the columns and cells of CSV, which package transfercmd reads again.
//
// # Invariants
//
// CSV, JSON and JSON lines lose nothing: package transfercmd reads what they hold as
// the same values. A table is for eyes: it cuts cells that are wider than its window.
//
// Page: docs/command-line.md
package rows

import (
	"errors"
	"fmt"
	"io"

	"github.com/decandb/decan/internal/value"
)

// The formats.
const (
	Table = "table"
	JSON  = "json"  // an array of rows
	Lines = "jsonl" // a row on each line
	CSV   = "csv"
)

// Options are the settings of a writer. The zero value has none.
type Options struct {
	Columns []string // of CSV and of a table; nil for those of the rows
	Width   int      // of the window of a table; 0 cuts nothing
	Rows    int      // how many rows a table collects for its widths; 0 for 1,000
}

// Writer writes rows one after another. The caller calls Close after the last row, and
// Discard when it is done with the writer, in any case.
type Writer interface {
	// Write writes a row, or keeps it until more is known. It keeps no row after it
	// returns, unless it is a table.
	Write(row value.Value) error
	// Close writes what is kept, and the end of the format. It does not close the output.
	Close() error
	// Discard removes temporary files.
	Discard()
}

// NewWriter returns the writer of a format.
func NewWriter(format string, out io.Writer, o Options) (Writer, error) {
	if len(o.Columns) > 0 {
		for _, name := range o.Columns {
			if _, err := ParseColumn(name); err != nil {
				return nil, err
			}
		}
	}
	switch format {
	case Lines:
		return &linesWriter{out: out}, nil
	case JSON:
		return &arrayWriter{out: out, before: "[\n"}, nil
	case CSV:
		if len(o.Columns) > 0 {
			return newColumnsWriter(out, o.Columns)
		}
		return newSpoolWriter(out)
	case Table:
		return newTableWriter(out, o), nil
	}
	return nil, fmt.Errorf("there is no format %q", format)
}

// linesWriter writes JSON lines.
type linesWriter struct {
	out    io.Writer
	buffer []byte
}

func (w *linesWriter) Write(row value.Value) error {
	w.buffer = append(row.Append(w.buffer[:0]), '\n')
	_, err := w.out.Write(w.buffer)
	return err
}

func (*linesWriter) Close() error { return nil }

func (*linesWriter) Discard() {}

// arrayWriter writes a JSON array with a row on each line.
type arrayWriter struct {
	out    io.Writer
	before string
	many   bool
}

func (w *arrayWriter) Write(row value.Value) error {
	_, err := w.out.Write(row.Append([]byte(w.before)))
	w.before, w.many = ",\n", true
	return err
}

func (w *arrayWriter) Close() error {
	end := "[]\n"
	if w.many {
		end = "\n]\n"
	}
	_, err := io.WriteString(w.out, end)
	return err
}

func (*arrayWriter) Discard() {}

// tabular returns an error if row cannot be a row of CSV.
func tabular(row value.Value) error {
	if row.Kind() != value.KindObject {
		return fmt.Errorf("a row is %s, and CSV needs objects: remove VALUE from the query, or give another --format", Article(row.Kind()))
	}
	if row.Len() == 0 {
		return errors.New("a row is an empty object, which CSV cannot express: give another --format")
	}
	return nil
}

// Article returns the name of a kind with its article.
func Article(kind value.Kind) string {
	switch kind {
	case value.KindArray, value.KindObject:
		return "an " + kind.String()
	case value.KindNull:
		return "null"
	}
	return "a " + kind.String()
}
