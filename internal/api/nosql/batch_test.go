package nosql_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/api/nosql/hybridrow"
)

// batchHeaders are the headers of a transactional batch for the key a.
var batchHeaders = []string{"x-ms-documentdb-partitionkey", `["a"]`, "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True"}

// rows sends a batch as the .NET client does, and reads the answer.
func (w *world) rows(t *testing.T, operations []hybridrow.Operation, headers ...string) (code int, results []hybridrow.Result) {
	t.Helper()
	body := hybridrow.AppendOperations(nil, operations)
	answer := w.call(t, "POST", "/dbs/d/colls/c/docs", string(body), headers...)
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode >= 400 {
		return answer.StatusCode, nil
	}
	if kind := answer.Header.Get("content-type"); kind != "application/octet-stream" {
		t.Errorf("the content type is %s", kind)
	}
	if results, err = hybridrow.ReadResults(content); err != nil || len(results) != len(operations) {
		t.Fatalf("%d results of %d operations: %v", len(results), len(operations), err)
	}
	return answer.StatusCode, results
}

func statuses(results []hybridrow.Result) (list []int32) {
	for _, r := range results {
		list = append(list, r.Status)
	}
	return list
}

// TestHybridRow sends a batch and a bulk request in the form of the .NET client
// and expects answers in that form.
func TestHybridRow(t *testing.T) {
	t.Parallel()
	w := shop(t, 1)
	row := func(kind int32, id, body string) hybridrow.Operation {
		o := hybridrow.Operation{Type: kind, Resource: hybridrow.ResourceDocument, ID: id}
		if body != "" {
			o.Body = []byte(body)
		}
		return o
	}

	code, got := w.rows(t, []hybridrow.Operation{
		row(hybridrow.OpCreate, "", `{"id":"1","pk":"a","n":1}`),
		row(hybridrow.OpUpsert, "", `{"id":"2","pk":"a"}`),
		row(hybridrow.OpReplace, "2", `{"id":"2","pk":"a","n":5}`),
		row(hybridrow.OpPatch, "1", `{"operations":[{"op":"incr","path":"/n","value":1}]}`),
		row(hybridrow.OpRead, "1", ""),
		row(hybridrow.OpDelete, "2", ""),
	}, batchHeaders...)
	if want := []int32{201, 201, 200, 200, 200, 204}; code != 200 || !slices.Equal(statuses(got), want) {
		t.Fatalf("%d with %v, want %v", code, statuses(got), want)
	}
	var doc struct {
		N    int
		ETag string `json:"_etag"`
	}
	if err := json.Unmarshal(got[4].Body, &doc); err != nil || doc.N != 2 || doc.ETag != got[4].ETag || got[4].Charge != 1 {
		t.Errorf("read %s with etag %s for %v (%v)", got[4].Body, got[4].ETag, got[4].Charge, err)
	}

	minimal, bad, expiring := row(hybridrow.OpUpsert, "", `{"id":"1","pk":"a"}`), row(hybridrow.OpReplace, "1", `{"id":"1","pk":"a"}`), row(hybridrow.OpRead, "1", "")
	minimal.Minimal, bad.IfMatch = true, `"0"`
	one := int32(1)
	expiring.TimeToLive = &one
	mortal, left := row(hybridrow.OpUpsert, "", `{"id":"3","pk":"a"}`), row(hybridrow.OpUpsert, "", `{"id":"3","pk":"a"}`)
	mortal.TimeToLive, mortal.Minimal = &one, true
	left.IndexingDirective, left.Minimal = "exclude", true
	unknown := left
	unknown.IndexingDirective = "maybe"
	for _, c := range []struct {
		operations []hybridrow.Operation
		want       []int32
	}{
		{[]hybridrow.Operation{minimal}, []int32{200}},
		{[]hybridrow.Operation{minimal, bad, minimal}, []int32{424, 412, 424}},
		{[]hybridrow.Operation{row(hybridrow.OpCreate, "", `{`)}, []int32{400}},
		{[]hybridrow.Operation{expiring}, []int32{400}},
		{[]hybridrow.Operation{mortal, left}, []int32{201, 200}},
		{[]hybridrow.Operation{unknown}, []int32{400}},
	} {
		if _, got := w.rows(t, c.operations, batchHeaders...); !slices.Equal(statuses(got), c.want) || got[0].Body != nil {
			t.Errorf("got %+v, want %v", got, c.want)
		}
	}
	if code, _ := w.rows(t, []hybridrow.Operation{row(15, "1", "")}, batchHeaders...); code != 400 {
		t.Errorf("a query in a batch: %d", code)
	}
	if code, _ := w.rows(t, nil, batchHeaders...); code != 400 {
		t.Errorf("an empty batch: %d", code)
	}

	bulk := []hybridrow.Operation{row(hybridrow.OpCreate, "", `{"id":"1","pk":"b"}`), row(hybridrow.OpDelete, "none", ""), row(hybridrow.OpRead, "1", "")}
	for i, key := range []string{`["b"]`, `["c"]`, `["b"]`} {
		bulk[i].PartitionKey = key
	}
	code, got = w.rows(t, bulk, "x-ms-documentdb-partitionkeyrangeid", "0", "x-ms-cosmos-is-batch-request", "True",
		"x-ms-cosmos-batch-atomic", "False", "x-ms-cosmos-batch-continue-on-error", "True")
	if want := []int32{201, 404, 200}; code != 207 || !slices.Equal(statuses(got), want) {
		t.Errorf("%d with %v, want %v", code, statuses(got), want)
	}
}

// TestBatchLimits tests both sides of the limits on the number of operations and
// the size of a batch.
func TestBatchLimits(t *testing.T) {
	t.Parallel()
	w := shop(t, 1)
	batch := func(n, pad int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"operationType":"Upsert","resourceBody":{"id":"%d","pk":"a"}}`, i)
		}
		body := "[" + strings.Join(list, ",") + "]"
		return body + strings.Repeat(" ", max(0, pad-len(body)))
	}
	const most = 2 << 20
	for _, c := range []struct {
		n, size, want int
	}{
		{1, 0, 200}, {100, 0, 200}, {101, 0, 400}, {1, most, 200}, {1, most + 1, 413},
	} {
		answer := w.call(t, "POST", "/dbs/d/colls/c/docs", batch(c.n, c.size), batchHeaders...)
		if answer.StatusCode != c.want {
			t.Errorf("%d operations in %d bytes: %d, want %d", c.n, c.size, answer.StatusCode, c.want)
		}
	}
}

// TestBatchAnswerTooLong tests that the last operation of an atomic batch has the error
// if the documents exceed 4 MB, and the charge of what was read (F15).
func TestBatchAnswerTooLong(t *testing.T) {
	t.Parallel()
	w := shop(t, 1)
	doc := `{"id":"1","pk":"a","pad":"` + strings.Repeat("x", 1<<20) + `"}`
	if answer := w.call(t, "POST", "/dbs/d/colls/c/docs", doc); answer.StatusCode != 201 {
		t.Fatalf("create: %d", answer.StatusCode)
	}
	reads := make([]hybridrow.Operation, 10)
	for i := range reads {
		reads[i] = hybridrow.Operation{Type: hybridrow.OpRead, Resource: hybridrow.ResourceDocument, ID: "1"}
	}
	code, got := w.rows(t, reads[:3], batchHeaders...)
	if want := []int32{200, 200, 200}; code != 200 || !slices.Equal(statuses(got), want) {
		t.Errorf("3 reads: %d with %v, want %v", code, statuses(got), want)
	}
	charge := got[0].Charge * 3
	code, got = w.rows(t, reads, batchHeaders...)
	want := append(slices.Repeat([]int32{424}, 9), 413)
	if code != 207 || !slices.Equal(statuses(got), want) || got[9].Charge <= charge {
		t.Errorf("10 reads: %d with %v, want %v", code, got, want)
	}
}

// TestHostileBatches sends refused batches of the maximum body size: the
// allocated memory is proportional to the body, and the answer is short. A value
// of a long array takes twelve times its text, and the buffer for it grows by
// doubling, so that up to sixty times the text are allocated in total.
func TestHostileBatches(t *testing.T) {
	w := shop(t, 1)
	const size = 600 << 10
	fill := func(head, piece, tail string) string {
		return head + strings.Repeat(piece, (size-len(head)-len(tail))/len(piece)) + tail
	}
	row := func(o hybridrow.Operation) string {
		stream := hybridrow.AppendOperations(nil, nil)
		return string(hybridrow.AppendOperations(nil, []hybridrow.Operation{o})[len(stream):])
	}
	head := string(hybridrow.AppendOperations(nil, nil))
	for name, body := range map[string]string{
		"numbers":        fill("[0", ",0", "]"),
		"arrays":         fill("[[]", ",[]", "]"),
		"operations":     fill(`[{"operationType":"Read"}`, `,{"operationType":"Read"}`, "]"),
		"operation type": fill(`[{"operationType":"`, "x", `"}]`),
		"type of parts":  fill(`[{"operationType":[0`, ",0", `]}]`),
		"directive":      fill(`[{"operationType":"Upsert","indexingDirective":"`, "x", `","resourceBody":{"id":"1","pk":"a"}}]`),
		"key":            fill(`[{"operationType":"Read","id":"1","partitionKey":"[\"a`, "x", `"}]`),
		"key of parts":   fill(`[{"operationType":"Read","id":"1","partitionKey":[0`, ",0", `]}]`),
		"patch":          fill(`[{"operationType":"Patch","id":"1","resourceBody":[0`, ",0", `]}]`),
		"patch path":     fill(`[{"operationType":"Patch","id":"1","resourceBody":[{"op":"set","path":"`, "x", `","value":1}]}]`),
		"patch steps":    fill(`[{"operationType":"Patch","id":"1","resourceBody":[{"op":"set","path":"`, "/x", `","value":1}]}]`),
		"patch of key":   fill(`[{"operationType":"Patch","id":"1","resourceBody":[{"op":"set","path":"/pk/`, "x", `","value":1}]}]`),
		"condition":      fill(`[{"operationType":"Patch","id":"1","resourceBody":{"condition":"`, "x", `","operations":[{"op":"remove","path":"/a"}]}}]`),
		"open":           fill("", "[", ""),
		"rows":           fill(head, row(hybridrow.Operation{Type: hybridrow.OpRead, Resource: hybridrow.ResourceDocument}), ""),
		"row type":       head + row(hybridrow.Operation{Type: 15, Resource: hybridrow.ResourceDocument, Body: []byte(strings.Repeat("x", size-100))}),
		"row key":        head + row(hybridrow.Operation{Type: hybridrow.OpRead, Resource: hybridrow.ResourceDocument, PartitionKey: strings.Repeat("x", size-100)}),
		"row body":       head + row(hybridrow.Operation{Type: hybridrow.OpCreate, Resource: hybridrow.ResourceDocument, Body: []byte(fill("[0", ",0", "")[:size-100])}),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			answer := w.call(t, "POST", "/dbs/d/colls/c/docs", body, batchHeaders...)
			runtime.ReadMemStats(&after)
			content, err := io.ReadAll(answer.Body)
			if err != nil || len(content) > 2000 {
				t.Errorf("an answer of %d bytes, %v", len(content), err)
			}
			if answer.StatusCode != 400 && !(answer.StatusCode == 207 && !bytes.Contains(content, []byte(`"statusCode":2`))) {
				t.Errorf("%d: %.200q", answer.StatusCode, content)
			}
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 64*uint64(len(body)) {
				t.Errorf("%d bytes for a body of %d", taken, len(body))
			}
		})
	}
}

// FuzzBatch sends any bytes as a batch, in JSON and in HybridRow: the answer has
// the same form and as many results as operations, or refuses the batch.
func FuzzBatch(f *testing.F) {
	w := shop(f, 1)
	f.Add([]byte(`[{"operationType":"Create","resourceBody":{"id":"1","pk":"a"},"partitionKey":"[\"a\"]"},{"operationType":"Patch","id":"1","resourceBody":{"condition":"from c","operations":[{"op":"incr","path":"/n","value":1}]}}]`), true)
	f.Add([]byte(`[{"operationType":"Read","id":"1","ifNoneMatch":"*","partitionKey":["a"]}]`), false)
	f.Add(hybridrow.AppendOperations(nil, []hybridrow.Operation{{Type: hybridrow.OpRead, Resource: hybridrow.ResourceDocument, ID: "1", PartitionKey: `["a"]`}}), false)
	f.Fuzz(func(t *testing.T, body []byte, atomic bool) {
		headers := batchHeaders
		if !atomic {
			headers = []string{"x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "False", "x-ms-cosmos-batch-continue-on-error", "True"}
		}
		answer := w.call(t, "POST", "/dbs/d/colls/c/docs", string(body), headers...)
		content, err := io.ReadAll(answer.Body)
		switch {
		case err != nil:
			t.Fatal(err)
		case answer.StatusCode == 400:
			return
		case answer.StatusCode != 200 && answer.StatusCode != 207:
			t.Fatalf("%d: %s", answer.StatusCode, content)
		case hybridrow.Is(body):
			operations, _ := hybridrow.ReadOperations(body, math.MaxInt)
			if results, err := hybridrow.ReadResults(content); err != nil || len(results) != len(operations) {
				t.Errorf("%d results of %d operations: %v", len(results), len(operations), err)
			}
			return
		}
		var operations, results []map[string]any
		if err := json.Unmarshal(content, &results); err != nil {
			t.Errorf("%s: %v", content, err)
		}
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&operations); err == nil && len(operations) != len(results) {
			t.Errorf("%d results of %d operations", len(results), len(operations))
		}
	})
}
