package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

// queriesCommand lists and cancels long queries.
type queriesCommand struct {
	List   queriesListCommand   `cmd:"" default:"withargs" help:"Show the queries and pages of the change feed that have run for more than a second (the default)."`
	Cancel queriesCancelCommand `cmd:"" help:"Cancel a query; its client gets 400."`
}

type queriesListCommand struct {
	JSON bool `env:"-" help:"Print what the server sends."`

	remote.Admin
}

// queryTable is the answer of GET /queries; docs/operating.md describes it.
type queryTable struct {
	Queries []struct {
		ID         string  `json:"id"`
		Database   string  `json:"database"`
		Container  string  `json:"container"`
		Operation  string  `json:"operation"`
		Caller     string  `json:"caller"`
		State      string  `json:"state"`
		Seconds    float64 `json:"seconds"`
		Processor  float64 `json:"processorSeconds"`
		Partitions int64   `json:"partitions"`
		Documents  int64   `json:"documents"`
		Charge     float64 `json:"requestCharge"`
	} `json:"queries"`
}

// Run prints the table.
func (c *queriesListCommand) Run(streams console.Streams) error {
	ctx, stop := queriesContext()
	defer stop()
	var raw json.RawMessage
	if err := c.Ask(ctx, http.MethodGet, "queries", nil, &raw); err != nil {
		return err
	}
	return show[queryTable](streams.Out, raw, c.JSON, c.Admin)
}

// queriesContext bounds how long a server may take to answer.
func queriesContext() (context.Context, context.CancelFunc) {
	ctx, stop := console.Interruptible()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	return ctx, func() { cancel(); stop() }
}

// String returns the table: a line for each query.
func (t queryTable) String() string {
	if len(t.Queries) == 0 {
		return "No query has run for more than a second.\n"
	}
	var b strings.Builder
	row := func(cells ...any) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-6s %-16s %-8s %-7s %9s %9s %10s %12s %12s  %s", cells...), " ") + "\n")
	}
	row("id", "operation", "state", "caller", "seconds", "processor", "partitions", "documents", "RU", "container")
	for _, q := range t.Queries {
		container := q.Database + "/" + q.Container
		if q.Container == "" {
			container = "(deleted)"
		}
		row(q.ID, q.Operation, q.State, q.Caller, fmt.Sprintf("%.1f", q.Seconds), fmt.Sprintf("%.1f", q.Processor),
			console.Grouped(q.Partitions), console.Grouped(q.Documents), console.Grouped(int64(q.Charge+0.5)), container)
	}
	return b.String()
}

type queriesCancelCommand struct {
	ID string `arg:"" help:"The id, as list prints it."`

	remote.Admin
}

// Run cancels the query.
func (c *queriesCancelCommand) Run(streams console.Streams) error {
	ctx, stop := queriesContext()
	defer stop()
	var none json.RawMessage
	if err := c.Ask(ctx, http.MethodDelete, "queries/"+url.PathEscape(c.ID), nil, &none); err != nil {
		return err
	}
	_, err := fmt.Fprintf(streams.Out, "Query %s is cancelled.\n", c.ID)
	return err
}
