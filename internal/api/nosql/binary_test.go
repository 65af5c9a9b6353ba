package nosql_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/api/nosql/binaryjson"
	"github.com/decandb/decan/internal/api/nosql/hybridrow"
	"github.com/decandb/decan/internal/value"
)

func binaryOf(t testing.TB, text string) string {
	t.Helper()
	b, err := binaryjson.Append(nil, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// textOf reads an answer, which is binary if wanted.
func textOf(t testing.TB, answer *http.Response, binary bool) string {
	t.Helper()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := binaryjson.Is(content); got != binary {
		t.Fatalf("binary %t, want %t: %q", got, binary, content)
	}
	if answer.Header.Get("Content-Length") == "" {
		t.Error("no length")
	}
	if !binary {
		return string(content)
	}
	text, rest, err := binaryjson.AppendText(nil, content, 1<<20)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%X: %v", content, err)
	}
	return string(text)
}

// F4: each write takes binary JSON and stores what the text form stores. Answers are
// binary where a header asks for it.
func TestBinaryJSON(t *testing.T) {
	t.Parallel()
	w := shop(t, 1)
	key := []string{"x-ms-documentdb-partitionkey", `["a"]`}
	const docs = "/dbs/d/colls/c/docs"
	const document = `{"id":"1","pk":"a","n":9007199254740993,"list":[1.5,2.5,null,true],"text":"äöü \u0001","nested":{"id":"x","list":[]}}`
	answer := w.call(t, "POST", docs, binaryOf(t, document), key...)
	if text := textOf(t, answer, false); answer.StatusCode != 201 || !strings.Contains(text, `"n":9007199254740993`) {
		t.Fatalf("%d %s", answer.StatusCode, text)
	}
	want := w.must(t, "GET", docs+"/1", "", key...)

	for _, c := range []struct {
		headers []string
		binary  bool
	}{
		{nil, false},
		{[]string{"x-ms-cosmos-supported-serialization-formats", "JsonText,CosmosBinary"}, false},
		{[]string{"x-ms-cosmos-supported-serialization-formats", "CosmosBinary, HybridRow"}, true},
		{[]string{"x-ms-cosmos-supported-serialization-formats", "cosmosbinary"}, true},
		{[]string{"x-ms-cosmos-supported-serialization-formats", "CosmosBinary+UInt64"}, true},
		{[]string{"x-ms-cosmos-supported-serialization-formats", "JSONTEXT, HybridRow"}, false},
		{[]string{"x-ms-documentdb-content-serialization-format", "CosmosBinary"}, true},
		{[]string{"x-ms-documentdb-content-serialization-format", "JsonText", "x-ms-cosmos-supported-serialization-formats", "CosmosBinary"}, false},
	} {
		headers := append(c.headers, key...)
		read := textOf(t, w.call(t, "GET", docs+"/1", "", headers...), c.binary)
		if got, err := value.ParseString(read); err != nil || !value.Equal(got, mustParse(t, want)) {
			t.Errorf("%v: %s, want %s", c.headers, read, want)
		}
		query := append([]string{"x-ms-documentdb-isquery", "True", "content-type", "application/query+json"}, headers...)
		found := textOf(t, w.call(t, "POST", docs, `{"query":"SELECT * FROM c ORDER BY c.n"}`, query...), c.binary)
		if !strings.Contains(found, `"_count":1`) {
			t.Errorf("%v: %s", c.headers, found)
		}
		// Lists are text.
		for _, list := range [][]string{headers, append([]string{"A-IM", "Incremental Feed"}, headers...)} {
			if got := textOf(t, w.call(t, "GET", docs, "", list...), false); !strings.Contains(got, `"_count":1`) {
				t.Errorf("%v: %s", list, got)
			}
		}
		// Errors are text.
		missing := w.call(t, "GET", docs+"/2", "", headers...)
		if text := textOf(t, missing, false); missing.StatusCode != 404 || !strings.Contains(text, "NotFound") {
			t.Errorf("%d %s", missing.StatusCode, text)
		}
	}
	binary := append([]string{"x-ms-cosmos-supported-serialization-formats", "CosmosBinary"}, key...)
	for _, c := range []struct {
		method, target, body string
		headers              []string
		status               int
	}{
		{"POST", docs, `{"id":"2","pk":"a"}`, nil, 201},
		{"POST", docs, `{"id":"2","pk":"a","n":1}`, []string{"x-ms-documentdb-is-upsert", "True"}, 200},
		{"PUT", docs + "/2", `{"id":"2","pk":"a","n":2}`, nil, 200},
		{"PATCH", docs + "/2", `{"operations":[{"op":"incr","path":"/n","value":3}]}`, nil, 200},
		{"POST", docs, `{"query":"SELECT * FROM c WHERE c.n = @n","parameters":[{"name":"@n","value":5}]}`, []string{"x-ms-documentdb-isquery", "True", "content-type", "application/query+json"}, 200},
	} {
		answer := w.call(t, c.method, c.target, binaryOf(t, c.body), append(c.headers, binary...)...)
		if text := textOf(t, answer, true); answer.StatusCode != c.status || !strings.Contains(text, `"id":"2"`) {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.body, answer.StatusCode, text, c.status)
		}
	}
	if answer := w.call(t, "DELETE", docs+"/2", "", binary...); answer.StatusCode != 204 {
		t.Error(answer.StatusCode)
	}
	// Definitions are always text.
	textOf(t, w.call(t, "GET", "/dbs/d/colls/c", "", binary...), false)
}

func mustParse(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Bulk operations have binary documents in their rows.
func TestBinaryJSONInBatches(t *testing.T) {
	t.Parallel()
	w := shop(t, 1)
	code, results := w.rows(t, []hybridrow.Operation{
		{Type: hybridrow.OpCreate, Resource: hybridrow.ResourceDocument, PartitionKey: `["a"]`, Body: []byte(binaryOf(t, `{"id":"1","pk":"a","n":[1,2]}`))},
		{Type: hybridrow.OpCreate, Resource: hybridrow.ResourceDocument, PartitionKey: `["a"]`, Body: []byte("\x80\xEA\x05\x01")},
		{Type: hybridrow.OpRead, Resource: hybridrow.ResourceDocument, PartitionKey: `["a"]`, ID: "1"},
	}, "x-ms-cosmos-is-batch-request", "True", "x-ms-documentdb-partitionkeyrangeid", "0", "x-ms-cosmos-batch-continue-on-error", "True")
	if got := statuses(results); code != 207 || got[0] != 201 || got[1] != 400 || got[2] != 200 || !strings.Contains(string(results[2].Body), `"n":[1,2]`) {
		t.Errorf("%d %v %s", code, got, results[2].Body)
	}
}

// Broken and too large binary bodies, and unknown formats, are refused, and nothing
// is written.
func TestBinaryJSONRefused(t *testing.T) {
	t.Parallel()
	w := shop(t, 1)
	const docs = "/dbs/d/colls/c/docs"
	document := binaryOf(t, `{"id":"1","pk":"a"}`)
	// 1,000 references to 60,000 characters.
	huge := "\x80\xE4\x00\x00\x00\x00\xC1\x60\xEA" + strings.Repeat("a", 60_000) + strings.Repeat("\xC3\x06", 1000)
	n := len(huge) - 6
	huge = huge[:2] + string([]byte{byte(n), byte(n >> 8), byte(n >> 16), 0}) + huge[6:]
	for name, c := range map[string]struct {
		body, header string
		status       int
	}{
		"cut":              {document[:len(document)-1], "", 400},
		"trailing bytes":   {document + "\x00", "", 400},
		"only the version": {"\x80", "", 400},
		"no object":        {"\x80\xE0", "", 400},
		"too deep":         {"\x80" + strings.Repeat("\xE1", 200) + "\x01", "", 400},
		"a name twice":     {"\x80\xEA\x06\x81\x61\x01\x81\x61\x0A", "", 400},
		"too long":         {huge, "", 413},
		"unknown format":   {document, "CosmosText", 400},
		"rows":             {document, "HybridRow", 400},
	} {
		headers := []string{"x-ms-documentdb-partitionkey", `["a"]`}
		if c.header != "" {
			headers = append(headers, "x-ms-documentdb-content-serialization-format", c.header)
		}
		answer := w.call(t, "POST", docs, c.body, headers...)
		if text := textOf(t, answer, false); answer.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", name, answer.StatusCode, text, c.status)
		}
	}
	// What the .NET client's own tests send.
	for _, formats := range []string{"Invalid value", ", ,", ",,", "JsonText CosmosBinary", ",JsonText|CosmosBinary", "Json Text", "Json,Text", "JsonText, "} {
		headers := []string{"x-ms-documentdb-partitionkey", `["a"]`, "x-ms-cosmos-supported-serialization-formats", formats}
		query := append([]string{"x-ms-documentdb-isquery", "True", "content-type", "application/query+json"}, headers...)
		for _, answer := range []*http.Response{
			w.call(t, "GET", docs, "", headers...), w.call(t, "POST", docs, `{"query":"SELECT * FROM c"}`, query...), w.call(t, "POST", docs, `{"id":"1","pk":"a"}`, headers...),
		} {
			if answer.StatusCode != 400 {
				t.Errorf("%q: %d, want 400", formats, answer.StatusCode)
			}
		}
	}
	for _, format := range []string{"Not a valid value", "HybridRow"} {
		if answer := w.call(t, "GET", docs, "", "x-ms-documentdb-partitionkey", `["a"]`, "x-ms-documentdb-content-serialization-format", format); answer.StatusCode != 400 {
			t.Errorf("a list as %q: %d, want 400", format, answer.StatusCode)
		}
	}
	if list := w.must(t, "GET", docs, "", "x-ms-documentdb-partitionkey", `["a"]`); !strings.Contains(list, `"_count":0`) {
		t.Error(list)
	}
}
