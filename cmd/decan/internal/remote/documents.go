package remote

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

// Account is where the commands that read and write documents send their requests.
type Account struct {
	Endpoint   string `name:"endpoint" default:"http://127.0.0.1:8081" env:"DECAN_ENDPOINT" placeholder:"URL" help:"The server, or an account of Azure (${default})."`
	Key        string `name:"account-key" default:"${wellKnownKey}" env:"DECAN_ACCOUNT_KEY,DECAN_KEY" placeholder:"KEY" help:"The account key, in base64 (default: the well-known key)."`
	Connection string `name:"connection-string" env:"DECAN_CONNECTION_STRING" placeholder:"TEXT" help:"Endpoint and key in one text: AccountEndpoint=URL;AccountKey=KEY."`
	Token      string `name:"token" env:"DECAN_TOKEN" placeholder:"TEXT" help:"A token instead of the key: a bearer token (decan token sign) or a resource token (decan permission token)."`

	Trust
}

// Documents speaks the NoSQL protocol. It neither retries nor caches, so that its
// answers are those of the server. It is safe for concurrent use.
type Documents struct {
	endpoint string // with a slash at its end
	key      auth.Key
	token    string // the authorization header; "" to sign with the key
	http     *http.Client
}

// Documents returns a client that keeps up to that number of connections open. The
// caller closes it.
func (a Account) Documents(connections int) (*Documents, error) {
	c := &Documents{endpoint: baseURL(a.Endpoint), token: tokenHeader(a.Token)}
	var err error
	if c.token == "" {
		if c.key, err = auth.ParseKey(a.Key); err != nil {
			return nil, fmt.Errorf("--account-key: %w", err)
		}
	}
	c.http, err = a.Client(&http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// tokenHeader returns the authorization header of a token: of a resource token as the
// server prints it, percent-encoded or not, or of a bearer token.
func tokenHeader(token string) string {
	token = strings.TrimSpace(token)
	switch {
	case token == "":
		return ""
	case strings.HasPrefix(strings.ToLower(token), "type%3d"):
		return token
	case !strings.HasPrefix(token, "type="):
		token = "type=aad&ver=1.0&sig=" + token
	}
	return url.QueryEscape(token)
}

// Close closes the idle connections.
func (c *Documents) Close() { c.http.CloseIdleConnections() }

// baseURL returns an endpoint with a scheme and with a slash at its end.
func baseURL(endpoint string) string {
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	return strings.TrimSuffix(endpoint, "/") + "/"
}

// Answer is an answer of the server, whatever its status.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Is reports whether an answer has a status and a sub-status.
func (a Answer) Is(status int, sub string) bool {
	return a.Status == status && a.Header.Get("x-ms-substatus") == sub
}

// Refusal returns the error for an answer with an unexpected status.
func (a Answer) Refusal(what string) error {
	return fmt.Errorf("%s: %d: %w", what, a.Status, Refusal(a.Status, a.Body))
}

// Charge returns the request units of an answer.
func (a Answer) Charge() (float64, error) {
	charge, err := strconv.ParseFloat(a.Header.Get("x-ms-request-charge"), 64)
	if err != nil {
		return 0, errors.New("the answer has no x-ms-request-charge")
	}
	return charge, nil
}

// partitions returns the ids of the visited physical partitions.
func (a Answer) partitions() ([]string, error) {
	visited := a.Partitions()
	if visited == nil {
		return nil, errors.New("the answer has no x-decan-partitions")
	}
	return visited, nil
}

// Partitions returns the ids of the visited physical partitions; nil if the server
// does not say them, such as that of Azure.
func (a Answer) Partitions() []string {
	text := a.Header.Get("x-decan-partitions")
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// Do sends a request. The segments are those of the path of the resource; an odd
// number of them names a feed, such as dbs, d, colls. Headers are pairs of name and
// value.
func (c *Documents) Do(ctx context.Context, method string, segments []string, body []byte, headers ...string) (Answer, error) {
	escaped := make([]string, len(segments))
	for i, segment := range segments {
		escaped[i] = url.PathEscape(segment)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint+strings.Join(escaped, "/"), bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	// A signature covers the resource, or for a feed its kind and owner.
	kind, owner := segments[len(segments)-1], segments[:len(segments)-1]
	if len(segments)%2 == 0 {
		kind, owner = segments[len(segments)-2], segments
	}
	if kind == "offers" && len(segments) == 2 { // An offer has no name: its id alone is signed, in lower case.
		owner = []string{strings.ToLower(segments[1])}
	}
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	authorization := c.token
	if authorization == "" {
		authorization = auth.Sign(c.key, method, kind, strings.Join(owner, "/"), date)
	}
	request.Header.Set("authorization", authorization)
	request.Header.Set("x-ms-date", date)
	request.Header.Set("x-ms-version", "2020-07-15")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return Answer{Status: response.StatusCode, Header: response.Header, Body: content}, err
}

// QueryCost is the cost of all pages of a query.
type QueryCost struct {
	Visited   int     `json:"visitedPartitions"`
	Total     int     `json:"partitions"`
	Charge    float64 `json:"requestCharge"`
	Documents int     `json:"documents"`
	Pages     int     `json:"pages"`
}

// Add adds an answer. asked collects the visited partitions of all answers.
func (q *QueryCost) Add(a Answer, asked map[string]bool) error {
	charge, err := a.Charge()
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

// QueryHeaders returns the headers of a query over any number of partitions, and
// further ones, in pairs.
func QueryHeaders(further ...string) []string {
	return append([]string{
		"content-type", "application/query+json",
		"x-ms-documentdb-isquery", "True",
		"x-ms-documentdb-query-enablecrosspartition", "True",
	}, further...)
}

// QueryBody returns the body of a query. The parameters are JSON by their names.
func QueryBody(text string, params map[string]string) ([]byte, error) {
	parameters := []map[string]any{}
	for name, text := range params {
		v, err := value.ParseString(text)
		if err != nil {
			return nil, fmt.Errorf("--param %s: %s is not JSON; a string needs quotes", name, text)
		}
		parameters = append(parameters, map[string]any{"name": "@" + strings.TrimPrefix(name, "@"), "value": json.RawMessage(v.JSON())})
	}
	return json.Marshal(map[string]any{"query": text, "parameters": parameters})
}

// Query reads all pages of a query and adds up their cost. The request names no
// partition key: the server derives the partitions from the text. The caller fills
// in Total.
func (c *Documents) Query(ctx context.Context, container []string, text string, parameters map[string]string) (QueryCost, error) {
	named := []map[string]string{}
	for name, v := range parameters {
		named = append(named, map[string]string{"name": name, "value": v})
	}
	body, err := json.Marshal(map[string]any{"query": text, "parameters": named})
	if err != nil {
		return QueryCost{}, err
	}
	headers := QueryHeaders("x-ms-max-item-count", "1000")
	var cost QueryCost
	asked := map[string]bool{}
	for position := ""; ; {
		with := headers
		if position != "" {
			with = append(headers[:len(headers):len(headers)], "x-ms-continuation", position)
		}
		page, err := c.Do(ctx, http.MethodPost, append(container[:len(container):len(container)], "docs"), body, with...)
		if err != nil {
			return cost, err
		}
		if page.Status != http.StatusOK {
			return cost, page.Refusal(text)
		}
		var rows struct {
			Documents []json.RawMessage
		}
		if err := json.Unmarshal(page.Body, &rows); err != nil {
			return cost, fmt.Errorf("%s: %w", text, err)
		}
		if err := cost.Add(page, asked); err != nil {
			return cost, fmt.Errorf("%s: %w", text, err)
		}
		cost.Documents += len(rows.Documents)
		if position = page.Header.Get("x-ms-continuation"); position == "" {
			return cost, nil
		}
	}
}

// DocumentPath returns the path of the documents of a container.
func DocumentPath(database, container string) []string {
	return []string{"dbs", database, "colls", container, "docs"}
}
