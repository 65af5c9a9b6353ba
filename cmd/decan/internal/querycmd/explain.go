package querycmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

// Explain is decan explain.
type Explain struct {
	Database  string            `arg:"" help:"The database."`
	Container string            `arg:"" help:"The container."`
	Query     string            `arg:"" help:"The query, such as 'SELECT * FROM c WHERE c.n > @n'."`
	Params    map[string]string `name:"param" short:"p" mapsep:"none" env:"-" placeholder:"NAME=JSON" help:"A parameter of the query and its value as JSON, such as n=3."`
	Partition string            `name:"partition-key" env:"-" placeholder:"JSON" help:"The partition key of the request as a JSON array; a shorter array is a prefix."`
	JSON      bool              `env:"-" help:"Print the explanation as the server sends it."`

	remote.Account
}

// explanation is the answer of the server; docs/nosql.md describes it.
type explanation struct {
	Text       string `json:"text"`
	Partitions struct {
		Total   int      `json:"total"`
		Visited []int    `json:"visited"`
		Ranges  []string `json:"ranges"`
	} `json:"partitions"`
	Indexes struct {
		Utilized  indexList `json:"UtilizedIndexes"`
		Potential indexList `json:"PotentialIndexes"`
	} `json:"indexes"`
	Estimated *int64  `json:"estimatedDocuments"`
	Retrieved int64   `json:"retrievedDocuments"`
	Hits      int64   `json:"indexHits"`
	Returned  int64   `json:"returnedRows"`
	Charge    float64 `json:"requestCharge"`
	Millis    float64 `json:"milliseconds"`
	Complete  bool    `json:"complete"`
	Progress  *int    `json:"indexProgress"`
}

// indexList is a list of indexes in the form of the service's index metrics.
type indexList struct {
	SingleIndexes []struct {
		IndexSpec string
	}
	CompositeIndexes []struct {
		IndexSpecs []string
	}
}

// String returns the names of the indexes, a composite one in parentheses.
func (l indexList) String() string {
	var names []string
	for _, x := range l.SingleIndexes {
		names = append(names, x.IndexSpec)
	}
	for _, x := range l.CompositeIndexes {
		names = append(names, "("+strings.Join(x.IndexSpecs, ", ")+")")
	}
	return strings.Join(names, ", ")
}

// Run shows how the server runs the first page of the query.
func (c *Explain) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	client, err := c.Documents(1)
	if err != nil {
		return err
	}
	defer client.Close()
	s := remote.Statement{Database: c.Database, Container: c.Container, Text: c.Query, Parameters: c.Params, Key: c.Partition}
	return PrintPlan(ctx, client, s, c.JSON, streams.Out)
}

// PrintPlan writes how the server runs the first page of a statement, as JSON or for
// people.
func PrintPlan(ctx context.Context, client *remote.Documents, s remote.Statement, asJSON bool, out io.Writer) error {
	s.Explain = true
	page, err := client.Page(ctx, s, "")
	if err != nil {
		return err
	}
	// Another server ignores the request for a plan, and answers with rows.
	if len(page.Rows) != 1 || !page.Rows[0].Get("text").IsDefined() || !page.Rows[0].Get("partitions").IsDefined() {
		return errors.New("this server does not explain queries: only Decan does")
	}
	plan := []byte(page.Rows[0].JSON())
	if asJSON {
		return console.PrintJSON(out, json.RawMessage(plan))
	}
	var e explanation
	if err := json.Unmarshal(plan, &e); err != nil {
		return err
	}
	return e.print(out)
}

// print writes the plan as a tree, and the cost of running it.
func (e *explanation) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, strings.TrimRight(e.Text, "\n"))
	fmt.Fprintln(&b)
	fmt.Fprintf(&b, "partitions   %d of %d: %v\n", len(e.Partitions.Visited), e.Partitions.Total, e.Partitions.Visited)
	for _, r := range e.Partitions.Ranges {
		fmt.Fprintf(&b, "range        %s\n", r)
	}
	if used := e.Indexes.Utilized.String(); used != "" {
		fmt.Fprintf(&b, "indexes      %s\n", used)
	}
	if missing := e.Indexes.Potential.String(); missing != "" {
		fmt.Fprintf(&b, "would help   %s\n", missing)
	}
	if e.Estimated != nil {
		fmt.Fprintf(&b, "estimated    %s\n", console.Counted(*e.Estimated, "document"))
	}
	fmt.Fprintf(&b, "read         %s, %s of them found by the index\n", console.Counted(e.Retrieved, "document"), console.Grouped(e.Hits))
	fmt.Fprintf(&b, "returned     %s\n", console.Counted(e.Returned, "row"))
	fmt.Fprintf(&b, "charge       %s\n", console.Units(e.Charge))
	fmt.Fprintf(&b, "took         %.2f ms\n", e.Millis)
	if e.Progress != nil {
		fmt.Fprintf(&b, "The index is being rebuilt (%d %% done): until then the query reads documents instead of the new index.\n", *e.Progress)
	}
	if !e.Complete {
		fmt.Fprintln(&b, "This is the first page; more pages follow.")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
