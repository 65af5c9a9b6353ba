package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/value"
)

// documentClient speaks the NoSQL protocol as any client does. It neither retries
// nor remembers anything, so that what it is answered is what the server did.
// Many goroutines may use one.
type documentClient struct {
	endpoint string // with a slash at its end
	key      auth.Key
	http     *http.Client
}

// baseURL is an endpoint as people write it with a scheme and a slash at its end.
func baseURL(endpoint string) string {
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	return strings.TrimSuffix(endpoint, "/") + "/"
}

// newDocumentClient makes a client that keeps up to connections open.
func newDocumentClient(endpoint, key string, trust trustFlags, connections int) (*documentClient, error) {
	parsed, err := auth.ParseKey(key)
	if err != nil {
		return nil, fmt.Errorf("--account-key: %w", err)
	}
	client, err := trust.client(&http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true})
	if err != nil {
		return nil, err
	}
	return &documentClient{endpoint: baseURL(endpoint), key: parsed, http: client}, nil
}

// close ends the connections.
func (c *documentClient) close() { c.http.CloseIdleConnections() }

// answer is what the server said; the status is not judged.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// is reports whether an answer has a status and a sub-status.
func (a answer) is(status int, sub string) bool {
	return a.status == status && a.header.Get("x-ms-substatus") == sub
}

// refusal is the error for an answer that is none of those expected.
func (a answer) refusal(what string) error {
	return fmt.Errorf("%s: %d: %w", what, a.status, refusal(a.status, a.body))
}

// charge returns the request units of an answer.
func (a answer) charge() (float64, error) {
	charge, err := strconv.ParseFloat(a.header.Get("x-ms-request-charge"), 64)
	if err != nil {
		return 0, errors.New("the answer has no x-ms-request-charge")
	}
	return charge, nil
}

// partitions returns the ids of the physical partitions that were asked.
func (a answer) partitions() ([]string, error) {
	text := a.header.Get("x-decan-partitions")
	if text == "" {
		return nil, errors.New("the answer has no x-decan-partitions")
	}
	return strings.Split(text, ","), nil
}

// do sends a request. The segments are those of the resource's path; an odd number
// of them names a feed, such as dbs, d, colls. Headers come in pairs.
func (c *documentClient) do(ctx context.Context, method string, segments []string, body []byte, headers ...string) (answer, error) {
	escaped := make([]string, len(segments))
	for i, segment := range segments {
		escaped[i] = url.PathEscape(segment)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint+strings.Join(escaped, "/"), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	// A signature covers the resource, or for a feed the kind and its owner.
	kind, owner := segments[len(segments)-1], segments[:len(segments)-1]
	if len(segments)%2 == 0 {
		kind, owner = segments[len(segments)-2], segments
	}
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	request.Header.Set("authorization", auth.Sign(c.key, method, kind, strings.Join(owner, "/"), date))
	request.Header.Set("x-ms-date", date)
	request.Header.Set("x-ms-version", "2020-07-15")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: content}, err
}

// queryCost is what all pages of a query came to.
type queryCost struct {
	Visited   int     `json:"visitedPartitions"`
	Total     int     `json:"partitions"`
	Charge    float64 `json:"requestCharge"`
	Documents int     `json:"documents"`
	Pages     int     `json:"pages"`
}

// add counts an answer, and in asked the partitions that it names.
func (q *queryCost) add(a answer, asked map[string]bool) error {
	charge, err := a.charge()
	if err != nil {
		return err
	}
	partitions, err := a.partitions()
	if err != nil {
		return err
	}
	for _, id := range partitions {
		asked[id] = true
	}
	q.Visited, q.Charge, q.Pages = len(asked), q.Charge+charge, q.Pages+1
	return nil
}

// queryHeaders are those of a query over any number of partitions, and further ones
// in pairs.
func queryHeaders(further ...string) []string {
	return append([]string{
		"content-type", "application/query+json",
		"x-ms-documentdb-isquery", "True",
		"x-ms-documentdb-query-enablecrosspartition", "True",
	}, further...)
}

// queryBody is the body of a query whose parameters are JSON by their names.
func queryBody(text string, params map[string]string) ([]byte, error) {
	parameters := []map[string]any{}
	for name, text := range params {
		v, err := value.ParseString(text)
		if err != nil {
			return nil, fmt.Errorf("the parameter %s is not JSON: %s (a string needs quotes)", name, text)
		}
		parameters = append(parameters, map[string]any{"name": "@" + strings.TrimPrefix(name, "@"), "value": json.RawMessage(v.JSON())})
	}
	return json.Marshal(map[string]any{"query": text, "parameters": parameters})
}

// query reads all pages of a query and adds up what they cost. The query names no
// partition key beside its text: the server finds where to look. Total is the
// caller's to fill in.
func (c *documentClient) query(ctx context.Context, container []string, text string, parameters map[string]string) (queryCost, error) {
	named := []map[string]string{}
	for name, v := range parameters {
		named = append(named, map[string]string{"name": name, "value": v})
	}
	body, err := json.Marshal(map[string]any{"query": text, "parameters": named})
	if err != nil {
		return queryCost{}, err
	}
	headers := queryHeaders("x-ms-max-item-count", "1000")
	var cost queryCost
	asked := map[string]bool{}
	for position := ""; ; {
		with := headers
		if position != "" {
			with = append(headers[:len(headers):len(headers)], "x-ms-continuation", position)
		}
		page, err := c.do(ctx, http.MethodPost, append(container[:len(container):len(container)], "docs"), body, with...)
		if err != nil {
			return cost, err
		}
		if page.status != http.StatusOK {
			return cost, page.refusal(text)
		}
		var rows struct {
			Documents []json.RawMessage
		}
		if err := json.Unmarshal(page.body, &rows); err != nil {
			return cost, fmt.Errorf("%s: %w", text, err)
		}
		if err := cost.add(page, asked); err != nil {
			return cost, fmt.Errorf("%s: %w", text, err)
		}
		cost.Documents += len(rows.Documents)
		if position = page.header.Get("x-ms-continuation"); position == "" {
			return cost, nil
		}
	}
}
