package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/decandb/decan/internal/value"
)

// Statement is a query of one container.
type Statement struct {
	Database   string
	Container  string
	Text       string
	Parameters map[string]string // values as JSON, by their names with or without @
	Key        string            // partition key as a JSON array, or a prefix of it; "" for none
	Rows       int               // most rows of a page; 0 leaves it to the server
	Explain    bool              // the answer describes how Decan runs the query
	Metrics    bool              // the answer has the statistics of the query
}

// Page is a page of the rows of a statement.
type Page struct {
	Rows         []value.Value
	Charge       float64  // request units
	Partitions   []string // ids of the visited physical partitions; nil if the server does not say them
	Continuation string   // position of the next page; "" after the last one
	Metrics      string   // statistics of the query, if they are requested
}

// errUnmerged is the answer of an account whose gateway does not merge the rows of
// several partitions for this query: status 400 with sub-status 1004.
var errUnmerged = errors.New("this account does not merge the rows of several partitions for such a query (ORDER BY, DISTINCT, GROUP BY, aggregates, TOP): name one partition key with --partition-key, or use an SDK")

// Page requests the page of a statement at a position; "" is the first. It asks Decan
// to merge the rows of all partitions; Azure does so only for queries whose rows need no
// order.
func (c *Documents) Page(ctx context.Context, s Statement, position string) (Page, error) {
	body, err := QueryBody(s.Text, s.Parameters)
	if err != nil {
		return Page{}, err
	}
	headers := QueryHeaders("x-decan-cross-partition", "full")
	add := func(name, content string) { headers = append(headers, name, content) }
	if s.Rows > 0 {
		add("x-ms-max-item-count", strconv.Itoa(s.Rows))
	}
	if s.Key != "" {
		add("x-ms-documentdb-partitionkey", s.Key)
	}
	if position != "" {
		add("x-ms-continuation", position)
	}
	if s.Explain {
		add("x-decan-explain", "true")
	}
	if s.Metrics {
		add("x-ms-documentdb-populatequerymetrics", "True")
	}
	a, err := Throttled(ctx, func() (Answer, error) {
		return c.Do(ctx, http.MethodPost, DocumentPath(s.Database, s.Container), body, headers...)
	})
	switch {
	case err != nil:
		return Page{}, err
	case a.Is(http.StatusBadRequest, "1004"):
		return Page{}, errUnmerged
	case a.Status == http.StatusNotFound:
		return Page{}, fmt.Errorf("the container %s/%s: %w", s.Database, s.Container, Refusal(a.Status, a.Body))
	case a.Status != http.StatusOK:
		return Page{}, Refusal(a.Status, a.Body)
	}
	answered, err := value.Parse(a.Body)
	if err != nil {
		return Page{}, fmt.Errorf("read a page: %w", err)
	}
	page := Page{
		Rows:         answered.Get("Documents").Items(),
		Partitions:   a.Partitions(),
		Continuation: a.Header.Get("x-ms-continuation"),
		Metrics:      a.Header.Get("x-ms-documentdb-query-metrics"),
	}
	page.Charge, _ = a.Charge() // Not every answer has one.
	return page, nil
}

// Throttled sends a request, and repeats it while the answer is 429, after the pause
// that the answer asks for. Unlike [Retrying] it returns every other answer and error
// at once.
func Throttled(ctx context.Context, send func() (Answer, error)) (Answer, error) {
	for {
		a, err := send()
		if err != nil || a.Status != http.StatusTooManyRequests {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return a, err
		}
		if err := pause(ctx, a, tryMin); err != nil {
			return a, err
		}
	}
}

// Call sends a request with a JSON body, or without one for nil, and returns the
// answer. It repeats the request while it is throttled; every status from 400 on is an
// error, whose words begin with what, if that is given.
func (c *Documents) Call(ctx context.Context, what, method string, segments []string, body any, headers ...string) (Answer, error) {
	var content []byte
	switch body := body.(type) {
	case nil:
	case json.RawMessage:
		content = body
	default:
		var err error
		if content, err = json.Marshal(body); err != nil {
			return Answer{}, err
		}
	}
	if content != nil {
		headers = append([]string{"content-type", "application/json"}, headers...)
	}
	a, err := Throttled(ctx, func() (Answer, error) { return c.Do(ctx, method, segments, content, headers...) })
	switch {
	case err != nil:
		return a, err
	case a.Status < http.StatusBadRequest:
		return a, nil
	case what == "":
		return a, Refusal(a.Status, a.Body)
	}
	return a, fmt.Errorf("%s: %w", what, Refusal(a.Status, a.Body))
}

// List reads all pages of a feed, whose answers have the resources in member, such as
// Databases.
func (c *Documents) List(ctx context.Context, what string, segments []string, member string) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	for position := ""; ; {
		var headers []string
		if position != "" {
			headers = []string{"x-ms-continuation", position}
		}
		a, err := c.Call(ctx, what, http.MethodGet, segments, nil, headers...)
		if err != nil {
			return nil, err
		}
		var page map[string]json.RawMessage
		if err := json.Unmarshal(a.Body, &page); err != nil {
			return nil, fmt.Errorf("%s: the answer is not that of an account: %.100s", what, a.Body)
		}
		var some []json.RawMessage
		if err := json.Unmarshal(page[member], &some); err != nil {
			return nil, fmt.Errorf("%s: the answer is not that of an account: %.100s", what, a.Body)
		}
		all = append(all, some...)
		if position = a.Header.Get("x-ms-continuation"); position == "" {
			return all, nil
		}
	}
}
