package rows

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/decandb/decan/internal/value"
)

// columnsMax is the maximum number of columns of a table: documents whose property
// names are data, such as ids, do not fit in a table.
const columnsMax = 10_000

// columnsWriter writes given columns as CSV.
type columnsWriter struct {
	columns Columns
	table   *csv.Writer
}

func newColumnsWriter(out io.Writer, names []string) (*columnsWriter, error) {
	w := &columnsWriter{}
	for _, name := range names {
		w.columns.Add(name)
	}
	table, err := newTable(out, w.columns.Names)
	w.table = table
	return w, err
}

func (w *columnsWriter) Write(row value.Value) error {
	if err := tabular(row); err != nil {
		return err
	}
	return w.table.Write(w.columns.Row(row))
}

func (w *columnsWriter) Close() error {
	w.table.Flush()
	return w.table.Error()
}

func (*columnsWriter) Discard() {}

// spoolWriter writes all columns as CSV. The first line names all of them, so the rows
// wait in a temporary file.
type spoolWriter struct {
	out     io.Writer
	columns Columns
	spool   *os.File
	rows    *bufio.Writer
}

func newSpoolWriter(out io.Writer) (*spoolWriter, error) {
	spool, err := os.CreateTemp("", "decan-rows-*.jsonl")
	if err != nil {
		return nil, err
	}
	return &spoolWriter{out: out, spool: spool, rows: bufio.NewWriterSize(spool, 256<<10)}, nil
}

func (w *spoolWriter) Write(row value.Value) error {
	if err := tabular(row); err != nil {
		return err
	}
	Flatten("", row, func(column, _ string) { w.columns.Add(column) })
	if len(w.columns.Names) > columnsMax {
		return fmt.Errorf("the rows have more than %d columns: choose columns with --columns, or another format with --format", columnsMax)
	}
	_, err := w.rows.Write(append(row.Append(nil), '\n'))
	return err
}

func (w *spoolWriter) Close() error {
	if err := w.rows.Flush(); err != nil {
		return err
	}
	if _, err := w.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return writeSpooled(w.spool, &w.columns, w.out)
}

// Discard removes the temporary file.
func (w *spoolWriter) Discard() {
	w.spool.Close()
	os.Remove(w.spool.Name())
}

// writeSpooled writes JSON lines as CSV.
func writeSpooled(spool io.Reader, columns *Columns, out io.Writer) error {
	table, err := newTable(out, columns.Names)
	if err != nil {
		return err
	}
	lines := bufio.NewReaderSize(spool, 256<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			table.Flush()
			return table.Error()
		}
		if err != nil {
			return err
		}
		row, err := value.Parse(line)
		if err != nil {
			return err
		}
		if err := table.Write(columns.Row(row)); err != nil {
			return err
		}
	}
}

// ByteOrderMark at the beginning of a file says that it is UTF-8.
const ByteOrderMark = "\xef\xbb\xbf"

// newTable writes the names of the columns, if there are any. Readers skip a byte order
// mark at the beginning of a file, so a first name that begins with one is preceded by
// another. They skip empty lines, so a single empty name is quoted.
func newTable(out io.Writer, columns []string) (*csv.Writer, error) {
	table := csv.NewWriter(out)
	if len(columns) == 0 {
		return table, nil
	}
	if strings.HasPrefix(columns[0], ByteOrderMark) {
		if _, err := io.WriteString(out, ByteOrderMark); err != nil {
			return nil, err
		}
	}
	if len(columns) == 1 && columns[0] == "" {
		_, err := io.WriteString(out, `""`+"\n")
		return table, err
	}
	return table, table.Write(columns)
}
