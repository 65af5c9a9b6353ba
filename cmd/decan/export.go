package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/decandb/decan/internal/value"
)

type exportCommand struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`

	Query     string            `default:"SELECT * FROM c" env:"-" placeholder:"TEXT" help:"Write the rows of this query (${default})."`
	Params    map[string]string `name:"param" short:"p" mapsep:"none" env:"-" placeholder:"NAME=JSON" help:"A parameter of the query and its value as JSON, such as n=3."`
	Partition string            `name:"partition-key" env:"-" placeholder:"JSON" help:"Only documents of this partition key, a JSON array; a shorter array is a prefix."`
	Format    string            `enum:",jsonl,json,csv" default:"" env:"-" placeholder:"FORMAT" help:"jsonl (a document on each line), json (an array of documents) or csv; without it the name of the output says it, and standard output is jsonl."`
	Output    string            `short:"o" default:"-" env:"-" placeholder:"FILE" help:"Where to write; - is standard output. A file is put in place when it is whole."`
	Columns   []string          `env:"-" placeholder:"NAME,..." help:"The columns of a CSV file, with dots for properties of objects. Without it there are all that the rows have, and the rows are kept in a temporary file until those are known."`
	System    bool              `name:"system-properties" env:"-" help:"Write the properties that the server sets as well, such as _ts."`
	Page      int               `default:"1000" env:"-" placeholder:"N" help:"How many rows to ask for at a time (${default})."`

	dataServer
}

// Validate refuses what contradicts itself.
func (c *exportCommand) Validate() error {
	if c.Page < 1 {
		return errors.New("--page is 1 or more")
	}
	return nil
}

// Run writes the rows page by page.
func (c *exportCommand) Run(streams streams) error {
	ctx, stop := interruptible()
	defer stop()
	format, err := formatOf(c.Format, c.Output)
	if err != nil {
		return err
	}
	if len(c.Columns) > 0 && format != formatCSV {
		return errors.New("--columns is for --format csv")
	}
	client, err := newDocumentClient(c.Endpoint, c.Key, c.trustFlags, 2)
	if err != nil {
		return err
	}
	defer client.close()
	ex := &exporter{exportCommand: c, client: client, streams: streams, meter: meter{out: streams.err, terminal: isTerminal(streams.err)}}
	err = ex.toFile(func(out io.Writer) error { return ex.write(ctx, format, out) })
	ex.meter.end()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stopped after %s", counted(ex.rows, "row"))
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(streams.err, "%s written, %.2f RU\n", counted(ex.rows, "row"), ex.charge)
	return err
}

// exporter is an export at work.
type exporter struct {
	*exportCommand
	client  *documentClient
	streams streams
	meter   meter

	total  int64 // rows that are expected; 0 when that is not known
	rows   int64
	charge float64
	shown  time.Time
}

// toFile has write fill the output: a file aside, which gets its name when it is
// whole.
func (ex *exporter) toFile(write func(io.Writer) error) error {
	if ex.Output == "-" {
		out := bufio.NewWriterSize(ex.streams.out, 256<<10)
		return errors.Join(write(out), out.Flush())
	}
	aside := ex.Output + ".part"
	file, err := os.Create(aside)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, 256<<10)
	err = write(out)
	if err == nil {
		err = errors.Join(out.Flush(), file.Sync())
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(aside))
	}
	return os.Rename(aside, ex.Output)
}

// write writes all rows in a format.
func (ex *exporter) write(ctx context.Context, format string, out io.Writer) error {
	ex.count(ctx)
	switch {
	case format == formatLines:
		return ex.read(ctx, func(row value.Value) error {
			_, err := out.Write(append(row.Append(nil), '\n'))
			return err
		})
	case format == formatArray:
		return ex.writeArray(ctx, out)
	case len(ex.Columns) > 0:
		return ex.writeColumns(ctx, out)
	}
	return ex.writeTable(ctx, out)
}

func (ex *exporter) writeArray(ctx context.Context, out io.Writer) error {
	before := "[\n"
	err := ex.read(ctx, func(row value.Value) error {
		_, err := out.Write(row.Append([]byte(before)))
		before = ",\n"
		return err
	})
	if err != nil {
		return err
	}
	if before == "[\n" {
		_, err = io.WriteString(out, "[]\n")
	} else {
		_, err = io.WriteString(out, "\n]\n")
	}
	return err
}

// writeColumns writes the columns that were asked for.
func (ex *exporter) writeColumns(ctx context.Context, out io.Writer) error {
	var columns columnSet
	for _, name := range ex.Columns {
		if _, err := parseColumn(name); err != nil {
			return err
		}
		columns.add(name)
	}
	table, err := newTable(out, columns.names)
	if err != nil {
		return err
	}
	err = ex.read(ctx, func(row value.Value) error {
		if err := tabular(row); err != nil {
			return err
		}
		return table.Write(columns.row(row))
	})
	table.Flush()
	return errors.Join(err, table.Error())
}

// columnsMax bounds the columns of a table: documents with properties of their
// own names, such as ids, make no table.
const columnsMax = 10_000

// writeTable writes all columns. The first line needs them before the first row
// is written, so the rows wait in a file.
func (ex *exporter) writeTable(ctx context.Context, out io.Writer) error {
	spool, err := os.CreateTemp("", "decan-export-*.jsonl")
	if err != nil {
		return err
	}
	defer os.Remove(spool.Name())
	defer spool.Close()
	var columns columnSet
	rows := bufio.NewWriterSize(spool, 256<<10)
	err = ex.read(ctx, func(row value.Value) error {
		if err := tabular(row); err != nil {
			return err
		}
		flatten("", row, func(column, _ string) { columns.add(column) })
		if len(columns.names) > columnsMax {
			return fmt.Errorf("the rows have more than %d columns: choose some with --columns, or another format", columnsMax)
		}
		_, err := rows.Write(append(row.Append(nil), '\n'))
		return err
	})
	if err = errors.Join(err, rows.Flush()); err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return writeSpooled(spool, &columns, out)
}

// writeSpooled writes JSON lines as CSV.
func writeSpooled(spool io.Reader, columns *columnSet, out io.Writer) error {
	table, err := newTable(out, columns.names)
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
		if err := table.Write(columns.row(row)); err != nil {
			return err
		}
	}
}

// byteOrderMark in front of a file says that it is UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// newTable writes the names of the columns, if there are any. Readers pass over a
// byte order mark in front of a file: a first name that begins with one has another
// in front. And they pass over empty lines: a name that is alone and empty has quotes.
func newTable(out io.Writer, columns []string) (*csv.Writer, error) {
	table := csv.NewWriter(out)
	if len(columns) == 0 {
		return table, nil
	}
	if strings.HasPrefix(columns[0], byteOrderMark) {
		if _, err := io.WriteString(out, byteOrderMark); err != nil {
			return nil, err
		}
	}
	if len(columns) == 1 && columns[0] == "" {
		_, err := io.WriteString(out, `""`+"\n")
		return table, err
	}
	return table, table.Write(columns)
}

// tabular refuses what is no row of a table.
func tabular(row value.Value) error {
	if row.Kind() != value.KindObject {
		return fmt.Errorf("a row is %s, and CSV takes objects: leave VALUE out of the query, or use another format", article(row.Kind()))
	}
	if row.Len() == 0 {
		return errors.New("a row is an empty object, which CSV cannot say: use another format")
	}
	return nil
}

// count asks how many rows there will be, as far as that is known beforehand: it
// is for the progress alone.
func (ex *exporter) count(ctx context.Context) {
	if ex.Query != "SELECT * FROM c" {
		return
	}
	page, err := ex.ask(ctx, "SELECT VALUE COUNT(1) FROM c", "")
	if err != nil || page.status != http.StatusOK {
		return // A server that does not count over partitions exports all the same.
	}
	var rows struct{ Documents []int64 }
	if json.Unmarshal(page.body, &rows) == nil && len(rows.Documents) == 1 {
		ex.total = rows.Documents[0]
	}
}

// ask sends a query for its page behind a continuation.
func (ex *exporter) ask(ctx context.Context, text, continuation string) (answer, error) {
	body, err := queryBody(text, ex.Params)
	if err != nil {
		return answer{}, err
	}
	headers := queryHeaders("x-decan-cross-partition", "full", "x-ms-max-item-count", fmt.Sprint(ex.Page))
	if ex.Partition != "" {
		headers = append(headers, "x-ms-documentdb-partitionkey", ex.Partition)
	}
	if continuation != "" {
		headers = append(headers, "x-ms-continuation", continuation)
	}
	a, err := patiently(ctx, func() (answer, error) {
		a, err := ex.client.do(ctx, http.MethodPost, documentPath(ex.Database, ex.Container), body, headers...)
		if spent, err := a.charge(); err == nil {
			ex.charge += spent
		}
		return a, err
	})
	return a, err
}

// read calls take with every row.
func (ex *exporter) read(ctx context.Context, take func(value.Value) error) error {
	for position := ""; ; {
		page, err := ex.ask(ctx, ex.Query, position)
		if err != nil {
			return err
		}
		if page.status != http.StatusOK {
			return page.refusal(ex.Database + "/" + ex.Container)
		}
		answered, err := value.Parse(page.body)
		if err != nil {
			return fmt.Errorf("read a page: %w", err)
		}
		for _, row := range answered.Get("Documents").Items() {
			if !ex.System {
				row = row.Without(systemProperties...)
			}
			if err := take(row); err != nil {
				return err
			}
			ex.rows++
		}
		ex.show()
		if position = page.header.Get("x-ms-continuation"); position == "" {
			return nil
		}
	}
}

// show shows the progress now and then.
func (ex *exporter) show() {
	now := time.Now()
	if now.Sub(ex.shown) < meterEvery {
		return
	}
	ex.shown = now
	part := -1.0
	if ex.total > 0 {
		part = float64(ex.rows) / float64(ex.total)
	}
	ex.meter.show(part, fmt.Sprintf("%s rows, %.0f RU", grouped(ex.rows), ex.charge))
}
