package transfercmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/cmd/decan/internal/rows"
	"github.com/decandb/decan/internal/value"
)

// Export is decan export.
type Export struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`

	Query     string            `default:"SELECT * FROM c" env:"-" placeholder:"TEXT" help:"Write the rows of this query (${default})."`
	Params    map[string]string `name:"param" short:"p" mapsep:"none" env:"-" placeholder:"NAME=JSON" help:"A parameter of the query and its value as JSON, such as n=3."`
	Partition string            `name:"partition-key" env:"-" placeholder:"JSON" help:"Export only documents of this partition key, a JSON array; a shorter array is a prefix."`
	Format    string            `enum:",jsonl,json,csv" default:"" env:"-" placeholder:"FORMAT" help:"jsonl (a document on each line), json (an array of documents) or csv (default: by the name of the output; jsonl for standard output)."`
	Output    string            `short:"o" default:"-" env:"-" placeholder:"FILE" help:"The file to write; - is standard output. The file appears when it is complete."`
	Columns   []string          `env:"-" placeholder:"NAME,..." help:"The columns of a CSV file, with dots for properties of objects (default: all columns of the rows, which are kept in a temporary file until all are known)."`
	System    bool              `name:"system-properties" env:"-" help:"Also write the properties that the server sets, such as _ts."`
	Page      int               `default:"1000" env:"-" placeholder:"N" help:"How many rows to request at a time (${default})."`

	remote.Account
}

// Validate refuses invalid numbers.
func (c *Export) Validate() error {
	if c.Page < 1 {
		return errors.New("--page must be at least 1")
	}
	return nil
}

// Run writes the rows page by page.
func (c *Export) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	format, err := formatOf(c.Format, c.Output)
	if err != nil {
		return err
	}
	if len(c.Columns) > 0 && format != formatCSV {
		return errors.New("--columns needs --format csv")
	}
	client, err := c.Documents(2)
	if err != nil {
		return err
	}
	defer client.Close()
	ex := &exporter{Export: c, client: client, streams: streams, meter: console.NewHint(streams.Err)}
	err = ex.toFile(func(out io.Writer) error { return ex.write(ctx, format, out) })
	ex.meter.End()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted after %s", console.Counted(ex.rows, "row"))
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(streams.Err, "%s written, %s\n", console.Counted(ex.rows, "row"), console.Units(ex.charge))
	return err
}

// exporter is a running export.
type exporter struct {
	*Export
	client  *remote.Documents
	streams console.Streams
	meter   *console.Meter

	total  int64 // expected rows; 0 if unknown
	rows   int64
	charge float64
	shown  time.Time
}

// toFile calls write with the output. A file has another name until it is complete.
func (ex *exporter) toFile(write func(io.Writer) error) error {
	if ex.Output == "-" {
		out := bufio.NewWriterSize(ex.streams.Out, 256<<10)
		return errors.Join(write(out), out.Flush())
	}
	partial := ex.Output + ".part"
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, 256<<10)
	err = write(out)
	if err == nil {
		err = errors.Join(out.Flush(), file.Sync())
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return os.Rename(partial, ex.Output)
}

// write writes all rows in a format.
func (ex *exporter) write(ctx context.Context, format string, out io.Writer) error {
	ex.count(ctx)
	writer, err := rows.NewWriter(format, out, rows.Options{Columns: ex.Columns})
	if err != nil {
		return err
	}
	defer writer.Discard()
	if err := ex.read(ctx, writer.Write); err != nil {
		return err
	}
	return writer.Close()
}

// count requests the number of rows, for the progress. Only that of the default query
// is known beforehand.
func (ex *exporter) count(ctx context.Context) {
	if ex.Query != "SELECT * FROM c" {
		return
	}
	page, err := ex.ask(ctx, "SELECT VALUE COUNT(1) FROM c", "")
	if err != nil || page.Status != http.StatusOK {
		return // The export works without the count.
	}
	var counted struct{ Documents []int64 }
	if json.Unmarshal(page.Body, &counted) == nil && len(counted.Documents) == 1 {
		ex.total = counted.Documents[0]
	}
}

// ask requests the page of a query after a continuation.
func (ex *exporter) ask(ctx context.Context, text, continuation string) (remote.Answer, error) {
	body, err := remote.QueryBody(text, ex.Params)
	if err != nil {
		return remote.Answer{}, err
	}
	headers := remote.QueryHeaders("x-decan-cross-partition", "full", "x-ms-max-item-count", fmt.Sprint(ex.Page))
	if ex.Partition != "" {
		headers = append(headers, "x-ms-documentdb-partitionkey", ex.Partition)
	}
	if continuation != "" {
		headers = append(headers, "x-ms-continuation", continuation)
	}
	a, err := remote.Retrying(ctx, func() (remote.Answer, error) {
		a, err := ex.client.Do(ctx, http.MethodPost, remote.DocumentPath(ex.Database, ex.Container), body, headers...)
		if spent, err := a.Charge(); err == nil {
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
		if page.Status != http.StatusOK {
			return page.Refusal(ex.Database + "/" + ex.Container)
		}
		answered, err := value.Parse(page.Body)
		if err != nil {
			return fmt.Errorf("read a page: %w", err)
		}
		for _, row := range answered.Get("Documents").Items() {
			if !ex.System {
				row = row.Without(rows.SystemProperties...)
			}
			if err := take(row); err != nil {
				return err
			}
			ex.rows++
		}
		ex.show()
		if position = page.Header.Get("x-ms-continuation"); position == "" {
			return nil
		}
	}
}

// show shows the progress, a few times per second.
func (ex *exporter) show() {
	now := time.Now()
	if now.Sub(ex.shown) < console.MeterEvery {
		return
	}
	ex.shown = now
	part := -1.0
	if ex.total > 0 {
		part = float64(ex.rows) / float64(ex.total)
	}
	ex.meter.Show(part, fmt.Sprintf("%s, %s", console.Counted(ex.rows, "row"), console.Units(ex.charge)))
}
