package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

type partitionsCommand struct {
	List  partitionsListCommand  `cmd:"" default:"withargs" help:"Show a container's physical partitions: size, throughput, hottest keys (the default)."`
	Split partitionsSplitCommand `cmd:"" help:"Split a physical partition in two while it serves."`
	Merge partitionsMergeCommand `cmd:"" help:"Merge physical partitions while they serve: two neighbours, or all of a container as far as its throughput and size allow."`
}

type partitionsListCommand struct {
	Database  string        `arg:"" help:"The database."`
	Container string        `arg:"" help:"The container."`
	Watch     time.Duration `env:"-" placeholder:"INTERVAL" help:"Show the table again at this interval, such as 1s, until interrupted."`
	JSON      bool          `env:"-" help:"Print what the server sends."`

	remote.Admin
}

// partitionTable is the answer of GET /partitions; docs/operating.md describes it.
type partitionTable struct {
	Database   string         `json:"database"`
	Container  string         `json:"container"`
	Limits     partitionLimit `json:"limits"`
	Visits     queryVisits    `json:"queryVisits"`
	Partitions []partitionRow `json:"partitions"`
}

type queryVisits struct {
	Queries int64   `json:"queries"`
	Mean    float64 `json:"mean"`
}

type partitionLimit struct {
	Bytes int64   `json:"partitionBytes"`
	RUs   float64 `json:"partitionRUs"`
}

type partitionRow struct {
	ID         string   `json:"id"`
	Min        string   `json:"min"`
	Max        string   `json:"max"`
	Parents    []string `json:"parents"`
	Change     string   `json:"change"`
	Documents  int64    `json:"documents"`
	Purging    int      `json:"purgingKeys"`
	Cleared    int64    `json:"clearedDocuments"`
	Bytes      int64    `json:"documentBytes"`
	Share      float64  `json:"share"`
	Consumed   float64  `json:"consumedRUs"`
	Normalized float64  `json:"normalizedRUConsumption"`
	Throttled  int64    `json:"throttled"`
	Keys       []hotKey `json:"hottestKeys"`
	Prefixes   []hotKey `json:"hottestPrefixes"`
}

type hotKey struct {
	Key   json.RawMessage `json:"key"`
	EPK   string          `json:"epk"`
	Units float64         `json:"requestUnits"`
}

// clearScreen moves the cursor of a terminal home and clears the rest.
const clearScreen = "\x1b[H\x1b[J"

// Run prints the table, once or until it is interrupted.
func (c *partitionsListCommand) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	return c.watch(ctx, streams.Out)
}

// watch prints the table, once or at its interval until the context ends.
func (c *partitionsListCommand) watch(ctx context.Context, out io.Writer) error {
	if c.Watch < 0 {
		return fmt.Errorf("--watch=%s: give a positive interval, such as 1s", c.Watch)
	}
	for {
		err := c.show(ctx, out)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil || c.Watch == 0 {
			return err
		}
		select {
		case <-time.After(c.Watch):
		case <-ctx.Done():
			return nil
		}
	}
}

// show asks once.
func (c *partitionsListCommand) show(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	query := url.Values{"database": {c.Database}, "container": {c.Container}}
	if c.JSON {
		var raw json.RawMessage
		if err := c.Ask(ctx, http.MethodGet, "partitions", query, &raw); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "%s\n", strings.TrimSpace(string(raw)))
		return err
	}
	var table partitionTable
	if err := c.Ask(ctx, http.MethodGet, "partitions", query, &table); err != nil {
		return err
	}
	width, _ := console.Window(out)
	text := table.fitting(width)
	if c.Watch > 0 {
		text = clearScreen + text
	}
	_, err := io.WriteString(out, text)
	return err
}

// fitting returns the table for a terminal with that many columns: if they are too few,
// without ranges and bars. 0 is no terminal.
func (t partitionTable) fitting(width int) string {
	wide := t.String()
	for line := range strings.Lines(wide) {
		if width > 0 && utf8.RuneCountInString(line) > width+1 { // with its end
			return t.narrow(width)
		}
	}
	return wide
}

// narrow returns a table without ranges and bars.
func (t partitionTable) narrow(width int) string {
	var b strings.Builder
	b.WriteString(strings.Replace(t.head(), ", a query asks", "\na query asks", 1))
	line := func(cells ...any) {
		text := []rune(strings.TrimRight(fmt.Sprintf("%-5s %12s %9s %9s %9s %7s %9s  %s", cells...), " "))
		if len(text) > width {
			text = append(text[:max(width, 1)-1], '…')
		}
		b.WriteString(string(text) + "\n")
	}
	line("id", "documents", "size", "of "+strings.ReplaceAll(console.Size(t.Limits.Bytes), " ", ""), "RU/s", "busiest", "throttled", "hottest key")
	for _, p := range t.Partitions {
		line(p.ID, console.Grouped(p.Documents), console.Size(p.Bytes), fmt.Sprintf("%.0f %%", p.filled(t.Limits.Bytes)), p.rate(),
			fmt.Sprintf("%.0f %%", p.Normalized), console.Grouped(p.Throttled), p.hottest())
	}
	for _, p := range t.Partitions {
		b.WriteString(p.progress())
	}
	return b.String()
}

// filled returns which part of its limit a partition has, in percent.
func (p partitionRow) filled(limit int64) float64 {
	return 100 * float64(p.Bytes) / float64(max(limit, 1))
}

// rate returns the throughput of a partition.
func (p partitionRow) rate() string {
	if p.Share > 0 {
		return console.Grouped(int64(p.Share + 0.5))
	}
	return "-"
}

// head returns the line above the table, and an empty one.
func (t partitionTable) head() string {
	var documents, bytes int64
	var share float64
	for _, p := range t.Partitions {
		documents, bytes, share = documents+p.Documents, bytes+p.Bytes, share+p.Share
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s  %s, %s, %s", t.Database, t.Container, console.Counted(int64(len(t.Partitions)), "physical partition"), console.Counted(documents, "document"), console.Size(bytes))
	if share > 0 {
		fmt.Fprintf(&b, ", %s RU/s", console.Grouped(int64(share+0.5)))
	}
	if t.Visits.Queries > 0 {
		fmt.Fprintf(&b, ", a query asks %.1f of them on average", t.Visits.Mean)
	}
	b.WriteString("\n\n")
	return b.String()
}

// String returns the table: a line for each partition, with a bar for its size and
// one for its throughput.
func (t partitionTable) String() string {
	var b strings.Builder
	b.WriteString(t.head())
	fmt.Fprintf(&b, "%-5s %-23s %12s %9s %-17s %9s %-17s %9s  %s\n",
		"id", "range", "documents", "size", "of "+console.Size(t.Limits.Bytes), "RU/s", "busiest second", "throttled", "hottest key")
	for _, p := range t.Partitions {
		fmt.Fprintf(&b, "%-5s %-23s %12s %9s %s %9s %s %9s  %s\n",
			p.ID, shortRange(p.Min, p.Max), console.Grouped(p.Documents), console.Size(p.Bytes),
			console.Gauge(p.filled(t.Limits.Bytes)), p.rate(), console.Gauge(p.Normalized), console.Grouped(p.Throttled), p.hottest())
	}
	for _, p := range t.Partitions {
		b.WriteString(p.progress())
	}
	return b.String()
}

// progress returns a line for each change of a partition that is in progress.
func (p partitionRow) progress() string {
	var b strings.Builder
	if p.Change != "" {
		fmt.Fprintf(&b, "A %s of partition %s is in progress.\n", p.Change, p.ID)
	}
	switch {
	case p.Purging > 0:
		fmt.Fprintf(&b, "Partition %s: the documents of %s are being deleted and still count; %s deleted so far.\n", p.ID, console.Counted(int64(p.Purging), "deleted partition key"), console.Grouped(p.Cleared))
	case p.Cleared > 0:
		fmt.Fprintf(&b, "Partition %s: %s of deleted partition keys deleted.\n", p.ID, console.Counted(p.Cleared, "document"))
	}
	return b.String()
}

// hottest returns the key that recently spent most, and for hierarchical keys the
// prefix, with the request units.
func (p partitionRow) hottest() string {
	var all []string
	if len(p.Keys) > 0 {
		all = append(all, p.Keys[0].String())
	}
	if len(p.Prefixes) > 0 {
		all = append(all, "all below "+p.Prefixes[0].String())
	}
	return strings.Join(all, ", ")
}

// String returns the key and its request units.
func (k hotKey) String() string {
	name := string(k.Key)
	if name == "" {
		name = k.EPK
	}
	const most = 40
	if runes := []rune(name); len(runes) > most {
		name = string(runes[:most-1]) + "…"
	}
	return fmt.Sprintf("%s %s RU", name, console.Grouped(int64(k.Units+0.5)))
}

// shortRange shortens the bounds of a range to their first digits.
func shortRange(low, high string) string {
	short := func(epk string) string {
		const digits = 8
		if len(epk) > digits {
			return epk[:digits] + "…"
		}
		return epk
	}
	return fmt.Sprintf("%9s - %-9s", short(low), short(high))
}

type partitionsSplitCommand struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`
	Partition string `arg:"" help:"The id of the physical partition."`
	At        string `env:"-" placeholder:"EPK" help:"The effective partition key at which the second part begins, in hexadecimal; decan key shows those (default: where each part has half of the stored bytes)."`

	remote.Admin
}

// splitOutcome is the answer of POST /partitions/split.
type splitOutcome struct {
	Parent   string   `json:"parent"`
	At       string   `json:"at"`
	Children []string `json:"children"`
	Pause    float64  `json:"pauseMilliseconds"`
	Took     float64  `json:"milliseconds"`
}

// Run splits the partition and prints the result.
func (c *partitionsSplitCommand) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	query := url.Values{"database": {c.Database}, "container": {c.Container}, "partition": {c.Partition}}
	if c.At != "" {
		query.Set("at", c.At)
	}
	var out splitOutcome
	if err := c.Ask(ctx, http.MethodPost, "partitions/split", query, &out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(streams.Out, "Partition %s is now %s, split at %s. The split took %.0f ms; writes waited for %.1f ms.\n",
		out.Parent, strings.Join(out.Children, " and "), out.At, out.Took, out.Pause)
	return err
}

// show prints an answer of the admin port: unchanged if asJSON, otherwise as T
// prints it.
func show[T any](out io.Writer, raw json.RawMessage, asJSON bool, from remote.Admin) error {
	if asJSON {
		_, err := fmt.Fprintf(out, "%s\n", strings.TrimSpace(string(raw)))
		return err
	}
	var table T
	if err := from.Decode(raw, &table); err != nil {
		return err
	}
	_, err := fmt.Fprint(out, table)
	return err
}
