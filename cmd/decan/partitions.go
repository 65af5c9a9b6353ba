package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

type partitionsCommand struct {
	List  partitionsListCommand  `cmd:"" default:"withargs" help:"Show a container's physical partitions: size, throughput, hottest keys (the default)."`
	Split partitionsSplitCommand `cmd:"" help:"Split a physical partition in two while it serves."`
	Merge partitionsMergeCommand `cmd:"" help:"Merge physical partitions while they serve: two neighbours, or all of a container as far as its throughput and size allow."`
}

// adminServer is where the commands that manage a server ask.
type adminServer struct {
	Endpoint string `name:"admin" default:"http://127.0.0.1:8080" env:"-" placeholder:"URL" help:"The admin port of the server (${default})."`
	Key      string `name:"account-key" default:"${wellKnownKey}" env:"DECAN_ACCOUNT_KEY" placeholder:"KEY" help:"The account key, in base64 (the well-known one)."`

	trustFlags
}

// ask sends a request without a body and decodes the answer into out.
func (s adminServer) ask(ctx context.Context, method, path string, query url.Values, out any) error {
	return s.send(ctx, method, path+"?"+query.Encode(), nil, out)
}

// send sends a request and decodes the answer into out.
func (s adminServer) send(ctx context.Context, method, path string, content io.Reader, out any) error {
	endpoint := baseURL(s.Endpoint)
	request, err := http.NewRequestWithContext(ctx, method, endpoint+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("x-decan-key", s.Key)
	client, err := s.client(http.DefaultTransport.(*http.Transport).Clone())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return refusal(response.StatusCode, body)
	}
	if raw, ok := out.(*json.RawMessage); ok {
		*raw = body
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%s is not an admin port of decan: it answered %.100s; --admin names the admin port", endpoint, body)
	}
	return nil
}

type partitionsListCommand struct {
	Database  string        `arg:"" help:"The database."`
	Container string        `arg:"" help:"The container."`
	Watch     time.Duration `env:"-" placeholder:"INTERVAL" help:"Show it again at this interval, such as 1s, until interrupted."`
	JSON      bool          `env:"-" help:"Print what the server sends."`

	adminServer
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

// clearScreen moves the cursor of a terminal home and clears what is below.
const clearScreen = "\x1b[H\x1b[J"

// Run prints the table, once or until it is interrupted.
func (c *partitionsListCommand) Run(streams streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return c.watch(ctx, streams.out)
}

// watch prints the table, once or at its interval until the context ends.
func (c *partitionsListCommand) watch(ctx context.Context, out io.Writer) error {
	if c.Watch < 0 {
		return fmt.Errorf("--watch=%s: an interval is positive, such as 1s", c.Watch)
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
		if err := c.ask(ctx, http.MethodGet, "partitions", query, &raw); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "%s\n", strings.TrimSpace(string(raw)))
		return err
	}
	var table partitionTable
	if err := c.ask(ctx, http.MethodGet, "partitions", query, &table); err != nil {
		return err
	}
	text := table.String()
	if c.Watch > 0 {
		text = clearScreen + text
	}
	_, err := io.WriteString(out, text)
	return err
}

// String is the table as people read it: a line for each partition, with a bar
// for how full it is and one for how busy.
func (t partitionTable) String() string {
	var documents, bytes int64
	var share float64
	for _, p := range t.Partitions {
		documents, bytes, share = documents+p.Documents, bytes+p.Bytes, share+p.Share
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s  %s, %s, %s", t.Database, t.Container, counted(int64(len(t.Partitions)), "physical partition"), counted(documents, "document"), size(bytes))
	if share > 0 {
		fmt.Fprintf(&b, ", %s RU/s", grouped(int64(share+0.5)))
	}
	if t.Visits.Queries > 0 {
		fmt.Fprintf(&b, ", a query asks %.1f of them on average", t.Visits.Mean)
	}
	b.WriteString("\n\n")
	fmt.Fprintf(&b, "%-5s %-23s %12s %9s %-17s %9s %-17s %9s  %s\n",
		"id", "range", "documents", "size", "of "+size(t.Limits.Bytes), "RU/s", "busiest second", "throttled", "hottest key")
	for _, p := range t.Partitions {
		rate := "-"
		if p.Share > 0 {
			rate = grouped(int64(p.Share + 0.5))
		}
		fmt.Fprintf(&b, "%-5s %-23s %12s %9s %s %9s %s %9s  %s\n",
			p.ID, shortRange(p.Min, p.Max), grouped(p.Documents), size(p.Bytes),
			gauge(100*float64(p.Bytes)/float64(max(t.Limits.Bytes, 1))), rate, gauge(p.Normalized), grouped(p.Throttled), p.hottest())
	}
	for _, p := range t.Partitions {
		b.WriteString(p.underWay())
	}
	return b.String()
}

// underWay says what is being done to a partition, a line for each.
func (p partitionRow) underWay() string {
	var b strings.Builder
	if p.Change != "" {
		fmt.Fprintf(&b, "A %s of partition %s is under way.\n", p.Change, p.ID)
	}
	switch {
	case p.Purging > 0:
		fmt.Fprintf(&b, "Partition %s: the documents of %s are being cleared away and still counted; %s gone.\n", p.ID, counted(int64(p.Purging), "deleted partition key"), grouped(p.Cleared))
	case p.Cleared > 0:
		fmt.Fprintf(&b, "Partition %s: %s of deleted partition keys cleared away.\n", p.ID, counted(p.Cleared, "document"))
	}
	return b.String()
}

// hottest names the key that spent most of late, and the prefix of a hierarchical key,
// and how much.
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

// String names the key, and what it has spent.
func (k hotKey) String() string {
	name := string(k.Key)
	if name == "" {
		name = k.EPK
	}
	const most = 40
	if runes := []rune(name); len(runes) > most {
		name = string(runes[:most-1]) + "…"
	}
	return fmt.Sprintf("%s %s RU", name, grouped(int64(k.Units+0.5)))
}

// gauge draws percent as ten cells and its figure, 17 columns wide.
func gauge(percent float64) string {
	const cells = 10
	eighths := int(min(max(percent, 0), 100)/100*cells*8 + 0.5)
	full, part := eighths/8, eighths%8
	drawn := strings.Repeat("█", full)
	if part > 0 {
		drawn += string(rune('█' + 8 - part))
		full++
	}
	return fmt.Sprintf("%s%s %4.0f %%", drawn, strings.Repeat("·", cells-full), percent)
}

// shortRange shortens bounds to the figures that tell neighbours apart.
func shortRange(low, high string) string {
	short := func(epk string) string {
		const figures = 8
		if len(epk) > figures {
			return epk[:figures] + "…"
		}
		return epk
	}
	return fmt.Sprintf("%9s - %-9s", short(low), short(high))
}

// counted is a number of things: "1 document", "1,234 documents". All numbers of things
// in messages and tables are written by it or by [grouped].
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// size is bytes as people read them, in powers of 1,024.
func size(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	n, unit := float64(bytes), 0
	for n >= 1000 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	if unit == 0 || n >= 100 || n == float64(int64(n)) {
		return fmt.Sprintf("%.0f %s", n, units[unit])
	}
	return fmt.Sprintf("%.1f %s", n, units[unit])
}

// grouped is a number with a comma between thousands.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

type partitionsSplitCommand struct {
	Database  string `arg:"" help:"The database."`
	Container string `arg:"" help:"The container."`
	Partition string `arg:"" help:"The id of the physical partition."`
	At        string `env:"-" placeholder:"EPK" help:"Where to cut, as an effective partition key in hexadecimal; decan key shows those. Without it the stored bytes are halved."`

	adminServer
}

// splitOutcome is the answer of POST /partitions/split.
type splitOutcome struct {
	Parent   string   `json:"parent"`
	At       string   `json:"at"`
	Children []string `json:"children"`
	Pause    float64  `json:"pauseMilliseconds"`
	Took     float64  `json:"milliseconds"`
}

// Run has the partition split and says what came of it.
func (c *partitionsSplitCommand) Run(streams streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	query := url.Values{"database": {c.Database}, "container": {c.Container}, "partition": {c.Partition}}
	if c.At != "" {
		query.Set("at", c.At)
	}
	var out splitOutcome
	if err := c.ask(ctx, http.MethodPost, "partitions/split", query, &out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(streams.out, "Partition %s is now %s, cut at %s. It took %.0f ms; writes waited for %.1f ms of them.\n",
		out.Parent, strings.Join(out.Children, " and "), out.At, out.Took, out.Pause)
	return err
}

type partitionsMergeCommand struct {
	Database   string   `arg:"" help:"The database."`
	Container  string   `arg:"" help:"The container."`
	Partitions []string `arg:"" optional:"" name:"partition" help:"The ids of two neighbouring physical partitions; without them all of the container's are merged, the smallest pairs first."`
	DryRun     bool     `env:"-" help:"Only say which partitions there would be."`

	adminServer
}

// mergeOutcome is the answer of POST /partitions/merge.
type mergeOutcome struct {
	Parents []string `json:"parents"`
	Child   string   `json:"child"`
	Pause   float64  `json:"pauseMilliseconds"`
	Took    float64  `json:"milliseconds"`
}

// mergeLayout is the answer of POST .../partitionMerge.
type mergeLayout struct {
	Partitions []struct {
		ID      string  `json:"id"`
		Storage float64 `json:"storageInKB"`
	} `json:"physicalPartitionStorageInfoCollection"`
}

// Run has the partitions merged and says what came of it.
func (c *partitionsMergeCommand) Run(streams streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch {
	case len(c.Partitions) == 0:
		return c.all(ctx, streams.out)
	case len(c.Partitions) != 2:
		return fmt.Errorf("name two neighbouring partitions, or none for all of the container")
	case c.DryRun:
		return fmt.Errorf("--dry-run is for a whole container: leave out the partitions")
	}
	query := url.Values{"database": {c.Database}, "container": {c.Container}, "partition": {c.Partitions[0]}, "with": {c.Partitions[1]}}
	var out mergeOutcome
	if err := c.ask(ctx, http.MethodPost, "partitions/merge", query, &out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(streams.out, "Partitions %s are now %s. It took %.0f ms; writes waited for %.1f ms of them.\n",
		strings.Join(out.Parents, " and "), out.Child, out.Took, out.Pause)
	return err
}

// all has a whole container merged.
func (c *partitionsMergeCommand) all(ctx context.Context, out io.Writer) error {
	path := fmt.Sprintf("sqlDatabases/%s/containers/%s/partitionMerge", url.PathEscape(c.Database), url.PathEscape(c.Container))
	var layout mergeLayout
	if err := c.send(ctx, http.MethodPost, path, strings.NewReader(fmt.Sprintf(`{"isDryRun":%t}`, c.DryRun)), &layout); err != nil {
		return err
	}
	has := "has"
	if c.DryRun {
		has = "would have"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s %s %s:\n", c.Database, c.Container, has, counted(int64(len(layout.Partitions)), "physical partition"))
	for _, p := range layout.Partitions {
		fmt.Fprintf(&b, "%-5s %9s\n", p.ID, size(int64(p.Storage*1024)))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// show prints an answer of the admin port: as it came if asJSON, and otherwise as T
// prints it.
func show[T any](out io.Writer, raw json.RawMessage, asJSON bool, from adminServer) error {
	if asJSON {
		_, err := fmt.Fprintf(out, "%s\n", strings.TrimSpace(string(raw)))
		return err
	}
	var table T
	if err := json.Unmarshal(raw, &table); err != nil {
		return fmt.Errorf("%s is no admin port of decan: it answered %.100s", from.Endpoint, raw)
	}
	_, err := fmt.Fprint(out, table)
	return err
}
