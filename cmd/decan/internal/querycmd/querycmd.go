// Package querycmd is the commands of decan that read and write items: [Query] and
// [Explain] for queries, [Item] for single items. They speak the REST protocol, so they
// work with Azure too.
//
// # Invariants
//
// Standard output has rows and items, and nothing else: statistics, progress and
// positions go to standard error.
//
// Page: docs/command-line.md
package querycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/cmd/decan/internal/rows"
)

// Query is decan query.
type Query struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`
	Text      string `arg:"" optional:"" name:"query" help:"The query, such as 'SELECT * FROM c WHERE c.n > @n'; - is standard input (default: that of --file)."`

	File         string            `short:"f" env:"-" placeholder:"FILE" help:"Read the query from this file."`
	Params       map[string]string `name:"param" short:"p" mapsep:"none" env:"-" placeholder:"NAME=JSON" help:"A parameter of the query and its value as JSON, such as n=3."`
	Partition    remote.Key        `name:"partition-key" env:"-" placeholder:"JSON" help:"The partition key of the request as a JSON array; a shorter array is a prefix."`
	Format       string            `enum:",table,json,jsonl,csv" default:"" env:"-" placeholder:"FORMAT" help:"table, json (an array), jsonl (a row on each line) or csv (default: table on a terminal, otherwise jsonl)."`
	Columns      []string          `env:"-" placeholder:"NAME,..." help:"The columns of table or csv, with dots for properties of objects (default: those of the rows)."`
	System       bool              `name:"system-properties" env:"-" help:"Also show the properties that the server sets, such as _ts."`
	Page         int               `default:"1000" env:"-" placeholder:"N" help:"How many rows to request at a time (${default})."`
	Pages        int               `default:"0" env:"-" placeholder:"N" help:"End after this many pages, and print the position of the next one to standard error (default: all)."`
	Continuation string            `env:"-" placeholder:"TEXT" help:"Begin at this position, which --pages has printed."`
	Explain      bool              `env:"-" help:"Show how the server answers the query in place of its rows, as decan explain does."`
	Stats        bool              `env:"-" help:"Print rows, charge, pages, partitions and time to standard error, also if that is no terminal."`
	ExitEmpty    bool              `env:"-" help:"End with status 3 if there is no row."`

	remote.Account
}

// exitEmpty is the exit status of --exit-empty.
const exitEmpty = 3

// Validate refuses contradictory flags and invalid numbers.
func (c *Query) Validate() error {
	switch {
	case c.Text == "" && c.File == "":
		return errors.New("give a query, or a file with one with --file")
	case c.Text != "" && c.File != "":
		return errors.New("the query and --file both say what to run: give only one")
	case c.Page < 1:
		return errors.New("--page must be at least 1")
	case c.Pages < 0:
		return errors.New("--pages must not be negative")
	case len(c.Columns) > 0 && (c.Format == rows.JSON || c.Format == rows.Lines):
		return errors.New("--columns is for --format table and --format csv")
	}
	return nil
}

// Run writes the rows page by page.
func (c *Query) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	text, err := c.text(streams)
	if err != nil {
		return err
	}
	client, err := c.Documents(1)
	if err != nil {
		return err
	}
	defer client.Close()
	s := remote.Statement{Database: c.Database, Container: c.Container, Text: text, Parameters: c.Params, Key: string(c.Partition), Rows: c.Page}
	if c.Explain {
		return PrintPlan(ctx, client, s, c.Format == rows.JSON || c.Format == rows.Lines, streams.Out)
	}
	format, options := c.Format, rows.Options{Columns: c.Columns}
	terminal := console.IsTerminal(streams.Out)
	if format == "" {
		format = rows.Lines
		if terminal || len(c.Columns) > 0 {
			format = rows.Table
		}
	}
	if terminal {
		options.Width, _ = console.Window(streams.Out)
	}
	run := Reading{Statement: s, Position: c.Continuation, Pages: c.Pages, System: c.System, Format: format, Options: options}
	if !terminal {
		meter := console.NewHint(streams.Err)
		defer meter.End()
		run.Progress = func(cost Cost) { meter.Show(-1, cost.String()) }
	}
	cost, err := run.Write(ctx, client, streams.Out)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %s", console.Counted(cost.Rows, "row"))
	}
	if err != nil {
		return err
	}
	if cost.Next != "" {
		fmt.Fprintf(streams.Err, "More rows follow: continue with --continuation '%s'\n", cost.Next)
	}
	if c.Stats || console.IsTerminal(streams.Err) && terminal {
		fmt.Fprintln(streams.Err, cost)
	}
	if c.ExitEmpty && cost.Rows == 0 {
		return console.Exit{Code: exitEmpty, Err: errors.New("there is no row")}
	}
	return nil
}

// text returns the query.
func (c *Query) text(streams console.Streams) (string, error) {
	switch {
	case c.Text == "-":
		text, err := io.ReadAll(streams.In)
		return string(text), err
	case c.Text != "":
		return c.Text, nil
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return "", fmt.Errorf("--file: %w", err)
	}
	return string(text), nil
}

// Reading is the pages of a statement that are to be written.
type Reading struct {
	remote.Statement
	Position string // of the first page
	Pages    int    // most pages; 0 for all
	System   bool   // with the properties that the server sets
	Format   string // of package rows
	Options  rows.Options
	Progress func(Cost) // called after each page; nil for nothing
}

// Cost is what a statement has cost so far.
type Cost struct {
	Rows       int64
	Charge     float64 // request units
	Pages      int
	Partitions []string // ids of the visited physical partitions in order of their visit; nil if the server does not say them
	Took       time.Duration
	Next       string // position of the next page; "" after the last one
}

// String returns the cost as one line.
func (c Cost) String() string {
	text := console.Counted(c.Rows, "row") + ", " + console.Units(c.Charge)
	if c.Pages != 1 {
		text += ", " + console.Counted(c.Pages, "page")
	}
	switch n := len(c.Partitions); {
	case n == 1:
		text += ", partition " + c.Partitions[0]
	case n > 1 && n <= 8:
		text += ", partitions " + strings.Join(c.Partitions, " ")
	case n > 8:
		text += ", " + console.Counted(n, "partition")
	}
	return text + ", " + console.Took(c.Took)
}

// Write writes the rows page by page, and returns what they have cost, also with an
// error.
func (r *Reading) Write(ctx context.Context, client *remote.Documents, out io.Writer) (Cost, error) {
	var cost Cost
	began := time.Now()
	defer func() { cost.Took = time.Since(began) }()
	writer, err := rows.NewWriter(r.Format, out, r.Options)
	if err != nil {
		return cost, err
	}
	defer writer.Discard()
	seen := map[string]bool{}
	for cost.Next = r.Position; ; {
		page, err := client.Page(ctx, r.Statement, cost.Next)
		if err != nil {
			return cost, errors.Join(err, writer.Close())
		}
		cost.Pages++
		cost.Charge += page.Charge
		for _, id := range page.Partitions {
			if !seen[id] {
				seen[id] = true
				cost.Partitions = append(cost.Partitions, id)
			}
		}
		for _, row := range page.Rows {
			if !r.System {
				row = row.Without(rows.SystemProperties...)
			}
			if err := writer.Write(row); err != nil {
				return cost, err
			}
			cost.Rows++
		}
		cost.Next = page.Continuation
		cost.Took = time.Since(began)
		if r.Progress != nil {
			r.Progress(cost)
		}
		if cost.Next == "" || cost.Pages == r.Pages {
			return cost, writer.Close()
		}
	}
}
