// Package advisecmd is decan advise: the comparison of partition keys on the documents
// of files or of a container.
//
// advisecmd.go has the command, sample.go the ways to get a sample, print.go the tables,
// record.go what records the workload, apply.go what makes a container with the best key.
//
// Page: docs/advisor.md
package advisecmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/simulate"
	"github.com/decandb/decan/internal/status"
)

// Command is decan advise.
type Command struct {
	Files []string `arg:"" optional:"" help:"Files with documents: JSON lines, a JSON array or CSV; - is standard input."`

	Database  string `env:"-" placeholder:"NAME" help:"Take the sample from a container of this database instead."`
	Container string `env:"-" placeholder:"NAME" help:"The container; its present key is one of the candidates."`

	Key      []string `sep:"none" env:"-" placeholder:"PATHS" help:"A candidate: one to three paths with commas between them, such as /TenantId,/UserId. Repeat it to compare several; without it keys are proposed."`
	Workload string   `env:"-" placeholder:"FILE" help:"A JSON file with what the container will hold and the queries and writes that it will get; see docs/advisor.md."`
	Sample   int      `default:"1000" env:"-" placeholder:"N" help:"How many documents to take as the sample (${default})."`
	Format   string   `enum:",jsonl,json,csv" default:"" env:"-" placeholder:"FORMAT" help:"The format of the files: jsonl, json or csv (default: by their names)."`
	JSON     bool     `env:"-" help:"Print the whole comparison as JSON."`
	All      bool     `env:"-" help:"Print the findings of every candidate, not only of the best."`

	Table bool `env:"-" help:"The documents are rows of a table of the Cassandra API: keys of one property, physical partitions of 30GB, and a note on logical partitions above 100MB."`

	PhysicalPartitionMax server.Size `name:"physical-partition-max" env:"-" placeholder:"SIZE" help:"Simulate physical partitions of this size (default: 50GB, or 30GB with --table)."`
	LogicalPartitionMax  server.Size `name:"logical-partition-max" env:"-" placeholder:"SIZE" help:"Simulate logical partitions of this size (default: 20GB)."`

	recordFlags
	applyFlags
	remote.Account
}

// sampleMax bounds a sample: the simulation keeps it in memory and looks at each document
// for each query.
const sampleMax = 20_000

// Validate refuses contradictory flags.
func (c *Command) Validate() error {
	switch {
	case c.Sample < 1 || c.Sample > sampleMax:
		return fmt.Errorf("--sample must be 1 to %d, not %d", sampleMax, c.Sample)
	case (c.Database == "") != (c.Container == ""):
		return errors.New("--database and --container go together: give both")
	case len(c.Files) > 0 && c.Container != "":
		return errors.New("a sample comes from files or from a container: give only one")
	case len(c.Files) == 0 && c.Container == "":
		return errors.New("there is no sample: name files, or --database and --container")
	}
	if err := c.recordFlags.check(c); err != nil {
		return err
	}
	return c.applyFlags.check(c)
}

// Run compares the candidates.
func (c *Command) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	workload, err := c.workload()
	if err != nil {
		return err
	}
	if c.Record > 0 {
		if err := c.record(ctx, streams.Err, &workload); err != nil {
			return err
		}
	}
	var candidates [][]string
	for _, key := range c.Key {
		candidates = append(candidates, strings.Split(key, ","))
	}
	found, err := c.sample(ctx, streams.In)
	if err != nil {
		return err
	}
	if workload.Documents == 0 {
		workload.Documents = found.total
	}
	if len(candidates) > 0 && found.key != nil && !has(candidates, found.key) {
		candidates = append(candidates, found.key)
	}
	settings := simulate.Settings{Limits: c.limits(), Table: c.Table}
	advice, err := simulate.Advise(ctx, simulate.Sample{Documents: found.documents}, workload, candidates, settings)
	if refused := status.From(err); refused != nil {
		return errors.New(refused.Message)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return console.PrintJSON(streams.Out, advice)
	}
	if err := c.print(streams.Out, advice, found.key); err != nil {
		return err
	}
	if c.Apply {
		return c.apply(ctx, streams.Out, advice, found.key)
	}
	c.hint(streams.Out, advice, found.key)
	return nil
}

func has(candidates [][]string, key []string) bool {
	return slices.ContainsFunc(candidates, func(c []string) bool { return slices.Equal(c, key) })
}

// limits returns the simulated limits.
func (c *Command) limits() resource.Limits {
	l := resource.DefaultLimits()
	if c.Table {
		l = l.Of(l.OfTables())
	}
	if c.PhysicalPartitionMax > 0 {
		l.PhysicalPartitionBytes = int64(c.PhysicalPartitionMax)
	}
	if c.LogicalPartitionMax > 0 {
		l.LogicalPartitionBytes = int64(c.LogicalPartitionMax)
	}
	return l
}

// workload reads the file of the workload. An unknown member is an error, because it is a
// wish that would not be simulated.
func (c *Command) workload() (simulate.Workload, error) {
	var w simulate.Workload
	if c.Workload == "" {
		return w, nil
	}
	text, err := os.ReadFile(c.Workload)
	if err != nil {
		return w, fmt.Errorf("--workload: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&w); err != nil {
		return w, fmt.Errorf("--workload: %s: %w", c.Workload, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return w, fmt.Errorf("--workload: %s: there is more than one JSON value", c.Workload)
	}
	return w, nil
}
