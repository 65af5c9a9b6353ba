// Command answers prepares the query comparison: it fills the containers of
// queries.json, lets the server answer each query as a whole, and writes the
// list with these results. The runners of the SDKs compare their own results
// with it.
//
// It uses plain HTTP, so that no SDK merges rows in the results, and pages of
// several sizes. It exits with status 1 if the server refuses a query or its
// pages differ; it still writes the file.
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

const wellKnownKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// database is the database of the containers.
const database = "answers"

// list is queries.json and, with results, the file that the runners read.
type list struct {
	Database   string            `json:"database"`
	Containers []container       `json:"containers,omitempty"`
	Queries    []query           `json:"queries"`
	Exclusions []json.RawMessage `json:"exclusions"`
}

type container struct {
	Definition map[string]any `json:"definition"`
	Throughput int            `json:"throughput"` // RU/s; 6,000 make a physical partition
	Documents  []any          `json:"documents"`

	// DocumentsOf names an earlier container with the same documents.
	DocumentsOf string `json:"documentsOf"`
}

// Compare is "ordered" if the rows have one order, "rows" if any order is
// correct, and "some" if any rows of the query named in Of are correct, as long
// as their number is.
type query struct {
	Name         string `json:"name"`
	Query        string `json:"query"`
	Compare      string `json:"compare"`
	Of           string `json:"of,omitempty"`
	Container    string `json:"container"` // empty for the first one
	Parameters   []any  `json:"parameters,omitempty"`
	PartitionKey []any  `json:"partitionKey,omitempty"`
	Want         []any  `json:"want,omitempty"` // the rows, if they were found without a server
	Rows         []any  `json:"rows"`
	Refusal      string `json:"refusal,omitempty"` // why there are no rows
}

func main() {
	endpoint := flag.String("endpoint", "http://127.0.0.1:8081", "the server")
	in := flag.String("queries", "../queries.json", "the list")
	out := flag.String("out", "", "where to write the list with answers")
	flag.Parse()
	server := server{endpoint: strings.TrimSuffix(*endpoint, "/")}
	failed, err := server.answer(*in, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

// server is the server under test.
type server struct{ endpoint string }

// answer returns the number of queries without a result, or with more than one.
func (s server) answer(in, out string) (failed int, err error) {
	text, err := os.ReadFile(in)
	if err != nil {
		return 0, err
	}
	var l list
	if err := json.Unmarshal(text, &l); err != nil {
		return 0, fmt.Errorf("%s: %w", in, err)
	}
	trouble, err := s.fill(l.Containers)
	if err != nil {
		return 0, err
	}
	for i := range l.Queries {
		q := &l.Queries[i]
		if q.Container == "" {
			q.Container = l.Containers[0].name()
		}
		if err := trouble[q.Container]; err != nil {
			q.Refusal = err.Error()
		} else if err := s.rows(q); err != nil {
			q.Refusal = err.Error()
		}
		if q.Refusal != "" {
			failed++
			fmt.Printf("FAIL %s: %s\n", q.Name, q.Refusal)
		}
	}
	fmt.Printf("answers: %d of %d queries are answered, with the same rows by pages of every size\n", len(l.Queries)-failed, len(l.Queries))
	l.Database, l.Containers = database, nil
	if text, err = json.Marshal(l); err != nil {
		return failed, err
	}
	return failed, os.WriteFile(out, text, 0o600)
}

func (c *container) name() string {
	name, _ := c.Definition["id"].(string)
	return name
}

// fill creates the containers and their documents. It returns the refusals of
// the server by container; queries of the other containers can still be
// answered.
func (s server) fill(containers []container) (map[string]error, error) {
	if _, _, err := s.post("", "dbs", map[string]any{"id": database}, nil); err != nil {
		return nil, err
	}
	trouble := map[string]error{}
	documents := map[string][]any{}
	for _, c := range containers {
		if c.DocumentsOf != "" {
			c.Documents = documents[c.DocumentsOf]
		}
		documents[c.name()] = c.Documents
		trouble[c.name()] = s.fillOne(c)
	}
	return trouble, nil
}

func (s server) fillOne(c container) error {
	throughput := http.Header{"X-Ms-Offer-Throughput": {strconv.Itoa(c.Throughput)}}
	if _, _, err := s.post("dbs/"+database, "colls", c.Definition, throughput); err != nil {
		return err
	}
	for _, document := range c.Documents {
		if _, _, err := s.post("dbs/"+database+"/colls/"+c.name(), "docs", document, nil); err != nil {
			return err
		}
	}
	return nil
}

// rows sets the rows of the query.
func (s server) rows(q *query) error {
	for _, size := range []int{-1, 1, 7} {
		rows, err := s.pages(q, size)
		if err != nil {
			return err
		}
		if size < 0 {
			q.Rows = rows
		} else if !same(q.Compare, rows, q.Rows) {
			return fmt.Errorf("pages of %d: got %v, want %v", size, rows, q.Rows)
		}
	}
	if q.Want != nil && !same(q.Compare, q.Rows, q.Want) {
		return fmt.Errorf("got %v, want %v", q.Rows, q.Want)
	}
	return nil
}

// same compares rows as a query requires. The runners check which of several
// possible rows are returned.
func same(compare string, got, want []any) bool {
	switch compare {
	case "ordered":
		return reflect.DeepEqual(got, want)
	case "some":
		return len(got) == len(want)
	}
	return slices.Equal(sorted(got), sorted(want))
}

// sorted returns the rows as sorted JSON, with the members of objects in order.
func sorted(rows []any) []string {
	texts := make([]string, len(rows))
	for i, row := range rows {
		text, _ := json.Marshal(row)
		texts[i] = string(text)
	}
	slices.Sort(texts)
	return texts
}

// pages returns the rows of all pages of at most size rows; -1 lets the server
// choose the size.
func (s server) pages(q *query, size int) ([]any, error) {
	header := http.Header{
		"Content-Type":            {"application/query+json"},
		"X-Ms-Documentdb-Isquery": {"True"},
		"X-Ms-Max-Item-Count":     {strconv.Itoa(size)},
		"X-Decan-Cross-Partition": {"full"},
	}
	if q.PartitionKey != nil {
		key, _ := json.Marshal(q.PartitionKey)
		header.Set("X-Ms-Documentdb-Partitionkey", string(key))
	}
	body := map[string]any{"query": q.Query, "parameters": q.Parameters}
	rows := []any{}
	for range 10_000 {
		text, answer, err := s.post("dbs/"+database+"/colls/"+q.Container, "docs", body, header)
		if err != nil {
			return nil, err
		}
		var page struct{ Documents []any }
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, err
		}
		if size > 0 && len(page.Documents) > size {
			return nil, fmt.Errorf("a page of %d rows has %d", size, len(page.Documents))
		}
		rows = append(rows, page.Documents...)
		if answer.Get("X-Ms-Continuation") == "" {
			return rows, nil
		}
		header.Set("X-Ms-Continuation", answer.Get("X-Ms-Continuation"))
	}
	return nil, fmt.Errorf("the pages of %d rows have no end", size)
}

// post sends a signed request to a feed: the link of a parent and the kind of
// its children.
func (s server) post(parent, kind string, body any, header http.Header) ([]byte, http.Header, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, nil, err
	}
	path := strings.TrimPrefix(parent+"/"+kind, "/")
	request, err := http.NewRequest(http.MethodPost, s.endpoint+"/"+path, bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	if header != nil {
		request.Header = header.Clone()
	}
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	request.Header.Set("X-Ms-Date", date)
	request.Header.Set("X-Ms-Version", "2020-07-15")
	request.Header.Set("Authorization", signature(http.MethodPost, kind, parent, date))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", response.Status, reason(answer))
	}
	return answer, response.Header, err
}

// reason returns the message of an error body, without the activity id.
func reason(body []byte) string {
	var e struct{ Message string }
	if json.Unmarshal(body, &e) != nil {
		return string(body)
	}
	message, _, _ := strings.Cut(e.Message, "\r\n")
	return message
}

// signature is the signature with the master key, as described in the public
// documentation of access control over REST.
func signature(verb, kind, link, date string) string {
	key, _ := base64.StdEncoding.DecodeString(wellKnownKey)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n\n", strings.ToLower(verb), kind, link, date)
	return url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
