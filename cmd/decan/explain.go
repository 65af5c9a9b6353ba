package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

type explainCommand struct {
	Database  string            `arg:"" help:"The database."`
	Container string            `arg:"" help:"The container."`
	Query     string            `arg:"" help:"The query, such as 'SELECT * FROM c WHERE c.n > @n'."`
	Params    map[string]string `name:"param" short:"p" mapsep:"none" env:"-" placeholder:"NAME=JSON" help:"A parameter and its value as JSON, such as n=3."`
	Partition string            `name:"partition-key" env:"-" placeholder:"JSON" help:"The partition key of the request as a JSON array; a shorter array is a prefix."`
	JSON      bool              `env:"-" help:"Print the explanation as the server sends it."`

	Endpoint string `name:"endpoint" default:"http://127.0.0.1:8081" env:"-" placeholder:"URL" help:"The server (${default})."`
	Key      string `name:"account-key" default:"${wellKnownKey}" env:"DECAN_ACCOUNT_KEY" placeholder:"KEY" help:"The account key, in base64 (the well-known one)."`

	trustFlags
}

// explanation is what the server answers; docs/nosql.md describes it.
type explanation struct {
	Text       string `json:"text"`
	Partitions struct {
		Total   int      `json:"total"`
		Visited []int    `json:"visited"`
		Ranges  []string `json:"ranges"`
	} `json:"partitions"`
	Indexes struct {
		Utilized, Potential indexList
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

// indexList is indexes in the form of the service's index metrics.
type indexList struct {
	SingleIndexes []struct {
		IndexSpec string
	}
	CompositeIndexes []struct {
		IndexSpecs []string
	}
}

// String names the indexes, a composite one in brackets; "" for none.
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

// Run asks the server to run the query's first page and to say how it did that.
func (c *explainCommand) Run(streams streams) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	page, err := c.ask(ctx)
	if err != nil {
		return err
	}
	if page.status != http.StatusOK {
		return refusal(page.status, page.body)
	}
	var rows struct{ Documents []json.RawMessage }
	if err := json.Unmarshal(page.body, &rows); err != nil || len(rows.Documents) != 1 {
		return fmt.Errorf("%s does not explain queries: it answered %.100s", c.Endpoint, page.body)
	}
	if c.JSON {
		var out bytes.Buffer
		if err := json.Indent(&out, rows.Documents[0], "", "  "); err != nil {
			return err
		}
		_, err := fmt.Fprintln(streams.out, out.String())
		return err
	}
	var e explanation
	if err := json.Unmarshal(rows.Documents[0], &e); err != nil {
		return err
	}
	return e.print(streams.out)
}

// refused is an answer of a server that is an error.
type refused struct {
	status int
	text   string
}

func (r refused) Error() string { return r.text }

// refusal is the error that the server answered, without what only a log needs.
func refusal(code int, body []byte) error {
	var answer struct{ Message string }
	if err := json.Unmarshal(body, &answer); err != nil || answer.Message == "" {
		return refused{code, fmt.Sprintf("%d %s", code, http.StatusText(code))}
	}
	text, _, _ := strings.Cut(answer.Message, "\r\nActivityId")
	return refused{code, text}
}

// ask sends the query.
func (c *explainCommand) ask(ctx context.Context) (answer, error) {
	client, err := newDocumentClient(c.Endpoint, c.Key, c.trustFlags, 1)
	if err != nil {
		return answer{}, err
	}
	defer client.close()
	body, err := queryBody(c.Query, c.Params)
	if err != nil {
		return answer{}, err
	}
	headers := queryHeaders("x-decan-explain", "true")
	if c.Partition != "" {
		headers = append(headers, "x-ms-documentdb-partitionkey", c.Partition)
	}
	return client.do(ctx, http.MethodPost, []string{"dbs", c.Database, "colls", c.Container, "docs"}, body, headers...)
}

// print writes the plan as a tree and what running it took.
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
		fmt.Fprintf(&b, "estimated    %s\n", counted(*e.Estimated, "document"))
	}
	fmt.Fprintf(&b, "read         %s, %s of them found by the index\n", counted(e.Retrieved, "document"), grouped(e.Hits))
	fmt.Fprintf(&b, "returned     %s\n", counted(e.Returned, "row"))
	fmt.Fprintf(&b, "charge       %.2f RU\n", e.Charge)
	fmt.Fprintf(&b, "took         %.2f ms\n", e.Millis)
	if e.Progress != nil {
		fmt.Fprintf(&b, "The index is being rebuilt, and %d %% of that is done: until then documents are read where the new index would answer.\n", *e.Progress)
	}
	if !e.Complete {
		fmt.Fprintln(&b, "This is the first page; there is more behind it.")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
