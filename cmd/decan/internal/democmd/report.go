package democmd

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

// demoReport is the comparison; --json prints it.
type demoReport struct {
	Events     int          `json:"events"`     // written to each container
	EventBytes int          `json:"eventBytes"` // of each, about
	Layouts    []demoResult `json:"keys"`
}

// demoResult is the result of the writes under one partition key, and the cost of the
// queries.
type demoResult struct {
	Key          string   `json:"key"`
	Container    string   `json:"container"`
	Partitions   int      `json:"partitions"` // physical ones, after the last split
	Documents    int64    `json:"documents"`  // as the server counts them
	Bytes        int64    `json:"documentBytes"`
	Taken        int      `json:"takenWrites"`
	TakenBytes   int64    `json:"takenBytes"`
	Refused      int      `json:"refusedWrites"` // 403 with sub-status 1014
	FullKeys     []string `json:"fullKeys"`      // those that refused writes, in the form of the header
	LargestKey   string   `json:"largestKey"`    // the largest logical partition
	LargestBytes int64    `json:"largestKeyBytes"`
	LogicalLimit int64    `json:"logicalPartitionMax"`

	Queries []demoAnswer `json:"queries"`
	Verdict string       `json:"verdict"`
}

// demoAnswer is the cost of one query, or of the point read.
type demoAnswer struct {
	Name    string `json:"name"`
	Text    string `json:"query,omitempty"`
	Missing int    `json:"missingDocuments"` // matching, but missing because their writes were refused

	remote.QueryCost
}

// summary adds up the answers to the writers and the numbers of the server.
func summary(layout *demoLayout, list containerState, ledgers []ledger) *demoResult {
	r := &demoResult{Key: layout.title, Container: layout.container, Partitions: len(list.Partitions), LogicalLimit: list.Limits.LogicalBytes}
	for _, p := range list.Partitions {
		r.Documents, r.Bytes = r.Documents+p.Documents, r.Bytes+p.Bytes
	}
	sums, full := map[string]int64{}, map[string]bool{}
	for _, book := range ledgers {
		r.Taken += book.taken
		for key, bytes := range book.bytes {
			sums[key] += bytes
		}
		for key, writes := range book.refused {
			r.Refused += writes
			full[key] = true
		}
	}
	r.FullKeys = slices.AppendSeq([]string{}, maps.Keys(full))
	slices.Sort(r.FullKeys)
	for key, bytes := range sums {
		r.TakenBytes += bytes
		if bytes > r.LargestBytes || bytes == r.LargestBytes && key < r.LargestKey {
			r.LargestKey, r.LargestBytes = key, bytes
		}
	}
	return r
}

func (r *demoResult) add(name, text string, cost remote.QueryCost, offered int) {
	cost.Total, cost.Charge = r.Partitions, math.Round(cost.Charge*100)/100
	r.Queries = append(r.Queries, demoAnswer{Name: name, Text: text, Missing: offered - cost.Documents, QueryCost: cost})
}

// print prints a column for each key, and below the table a line about each. In a terminal
// that is too narrow for all columns it prints several tables, one after another.
func (r *demoReport) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of about %s, written to four containers\n\n", console.Counted(int64(r.Events), "event"), console.Size(int64(r.EventBytes)))
	atOnce := len(r.Layouts)
	if width, _ := console.Window(out); width > 0 && width < r.width(r.Layouts) {
		for atOnce = 1; r.width(r.Layouts[len(r.Layouts)-atOnce-1:]) <= width; atOnce++ {
		}
	}
	missing := false
	for layouts := range slices.Chunk(r.Layouts, atOnce) {
		missing = r.table(&b, layouts) || missing
		if atOnce < len(r.Layouts) {
			b.WriteString("\n")
		}
	}
	if missing {
		b.WriteString("* finds fewer documents, because writes were refused\n")
	}
	b.WriteString("\n")
	for _, layout := range r.Layouts {
		fmt.Fprintf(&b, "%s\n    %s\n", layout.Key, layout.Verdict)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// width returns the number of columns of a table.
func (r *demoReport) width(layouts []demoResult) int {
	n := demoNames
	for _, layout := range layouts {
		n += 2 + max(demoCell, len(layout.Key))
	}
	return n
}

// The columns of the names of rows, and of a key at least.
const (
	demoNames = 22
	demoCell  = 20
)

// table prints a table of some keys, and reports whether a query missed documents.
func (r *demoReport) table(b *strings.Builder, layouts []demoResult) (missing bool) {
	line := func(name string, cell func(demoResult) string) {
		text := fmt.Sprintf("%-*s", demoNames, name)
		for _, layout := range layouts {
			text += fmt.Sprintf("  %*s", max(demoCell, len(layout.Key)), cell(layout))
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	line("partition key", func(l demoResult) string { return l.Key })
	line("physical partitions", func(l demoResult) string { return console.Grouped(int64(l.Partitions)) })
	line("largest logical one", func(l demoResult) string { return console.Size(l.LargestBytes) })
	line("refused writes", func(l demoResult) string { return console.Grouped(int64(l.Refused)) })
	b.WriteString("\npartitions asked, and request units, of a query for\n")
	for i := range layouts[0].Queries {
		line(layouts[0].Queries[i].Name, func(l demoResult) string {
			q := l.Queries[i]
			missing = missing || q.Missing > 0
			return q.cell()
		})
	}
	return missing
}

// cell returns the text in a column of the table.
func (a demoAnswer) cell() string {
	mark := ""
	if a.Missing > 0 {
		mark = "*"
	}
	return fmt.Sprintf("%d of %d %10s%1s", a.Visited, a.Total, strings.TrimSuffix(console.Units(a.Charge), " RU"), mark)
}

// verdict explains the numbers in one line.
func (r *demoResult) verdict(layout *demoLayout) string {
	writes := "Accepts every write"
	if r.Refused > 0 {
		writes = fmt.Sprintf("Refuses %s: the limit of %s per key is reached by %s", console.Counted(int64(r.Refused), "write"), console.Size(r.LogicalLimit), strings.Join(r.FullKeys, ", "))
	}
	text := fmt.Sprintf("%s. Partitions asked for the largest tenant: %s; for a small one: %s; for a user: %s.",
		writes, r.asks(askLargest), r.asks(askSmall), r.asks(askUser))
	if layout.synthetic {
		text += " The program must build the key."
	}
	return text
}

// asks returns how many of the partitions a query visits.
func (r *demoResult) asks(name string) string {
	for _, q := range r.Queries {
		switch {
		case q.Name != name:
		case q.Visited == q.Total && q.Total > 1:
			return fmt.Sprintf("all %d", q.Total)
		default:
			return fmt.Sprintf("%d of %d", q.Visited, q.Total)
		}
	}
	return "none"
}

// loadMeter shows the progress of a load on a terminal, as a bar that is redrawn. Writers
// count; one goroutine at a time shows.
type loadMeter struct {
	done, refused atomic.Int64

	out      io.Writer
	terminal bool
	title    string
	total    int
	open     bool // the line of the bar has no end yet
}

func newLoadMeter(out io.Writer, title string, total int) *loadMeter {
	return &loadMeter{out: out, terminal: console.IsTerminal(out), title: title, total: total}
}

// show shows the progress, with the number of physical partitions.
func (m *loadMeter) show(partitions int) {
	if !m.terminal {
		return
	}
	part := float64(m.done.Load()) / float64(max(m.total, 1))
	fmt.Fprint(m.out, "\r\x1b[K", console.Fit(m.out, fmt.Sprintf("%s %s %s", m.title, console.Gauge(100*part), m.figures(partitions))))
	m.open = true
}

func (m *loadMeter) figures(partitions int) string {
	text := fmt.Sprintf("%s of %s, %s", console.Grouped(m.done.Load()), console.Grouped(int64(m.total)), console.Counted(int64(partitions), "partition"))
	if refused := m.refused.Load(); refused > 0 {
		text += fmt.Sprintf(", %s refused", console.Grouped(refused))
	}
	return text
}

// endLine ends the line of the bar.
func (m *loadMeter) endLine() {
	if m.open {
		fmt.Fprintln(m.out)
		m.open = false
	}
}
