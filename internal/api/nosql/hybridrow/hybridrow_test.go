package hybridrow

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/status"
)

func seconds(n int32) *int32 { return &n }

var operations = []Operation{
	{Type: OpCreate, Resource: ResourceDocument, Body: []byte(`{"id":"1"}`)},
	{
		Type: OpReplace, Resource: ResourceDocument, PartitionKey: `["a"]`, ID: "ü", Body: []byte(`{}`),
		IndexingDirective: "Default", IfMatch: `"1"`, IfNoneMatch: "*", TimeToLive: seconds(-1), Minimal: true,
	},
	{Type: OpRead, Resource: ResourceDocument, ID: strings.Repeat("x", 300)},
	{Type: OpUpsert, Resource: ResourceDocument, Body: bytes.Repeat([]byte(" "), 70_000)},
}

var results = []Result{
	{Status: 201, ETag: `"1"`, Body: []byte(`{"id":"1"}`), Charge: 6.67},
	{Status: 429, SubStatus: 3200, RetryAfterMillis: 12},
	{Status: 424},
}

// TestLayout compares the bytes of the smallest rows with the documented layout:
// segment, record, row.
func TestLayout(t *testing.T) {
	t.Parallel()
	got := hex.EncodeToString(AppendOperations(nil, []Operation{{Type: OpRead, Resource: ResourceDocument, ID: "x", Minimal: true}}))
	want := "81" + "f0d8ff7f" + "01" + "0a000000" + // segment of 10 bytes
		"81" + "f1d8ff7f" + "12000000" + "........" + // record of 18 bytes, with its checksum
		"81" + "7054e17f" + "13" + "02000000" + "02000000" + "01" + "78" + "03" + "0c"
	if got[:38]+got[46:] != want[:38]+want[46:] {
		t.Errorf("operation:\n got %s\nwant %s", got, want)
	}
	got = hex.EncodeToString(AppendResults(nil, []Result{{Status: 200, ETag: "e"}}))
	want = "81" + "f0d8ff7f" + "01" + "0a000000" +
		"81" + "f1d8ff7f" + "1a000000" + "........" +
		"81" + "7154e17f" + "07" + "c8000000" + "00000000" + "01" + "65" + "10" + "06" + "0000000000000000"
	if got[:38]+got[46:] != want[:38]+want[46:] {
		t.Errorf("result:\n got %s\nwant %s", got, want)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	stream := AppendOperations(nil, operations)
	if !Is(stream) {
		t.Error("the stream is not recognized as one")
	}
	got, err := ReadOperations(stream, math.MaxInt)
	if err != nil || !reflect.DeepEqual(got, operations) {
		t.Errorf("got %+v (%v), want %+v", got, err, operations)
	}
	back, err := ReadResults(AppendResults(nil, results))
	if err != nil || !reflect.DeepEqual(back, results) {
		t.Errorf("got %+v (%v), want %+v", back, err, results)
	}
	if none, err := ReadOperations(AppendOperations(nil, nil), math.MaxInt); err != nil || none != nil {
		t.Errorf("got %v (%v), want no operations", none, err)
	}
}

// TestUnknownFields reads past fields that later clients may add: fields of every
// type, names that are not in the schema, and a comment in the segment.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	unknown := []byte{
		typeNull, 1, typeFalse, 1, typeTrue, 1, 5, 1, 0, 6, 1, 0, 0, typeInt32, 1, 0, 0, 0, 0, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0,
		9, 1, 0, 10, 1, 0, 0, typeUint32, 1, 0, 0, 0, 0, 12, 1, 0, 0, 0, 0, 0, 0, 0, 0, 13, 1, 0x80, 1, 14, 1, 7,
		15, 1, 0, 0, 0, 0, typeFloat64, 1, 0, 0, 0, 0, 0, 0, 0, 0, 21, 1, 1, 0, typeUTF8, operationTokens + 3, 'n', 'e', 'w', 1, 'v',
		typeUTF8, tokenIfMatch, 1, 'e',
	}
	body := head(nil, schemaSegment)
	body = append(body, 3, 12, 0, 0, 0, 1, '#')
	body = record(body, schemaOperation, func(dst []byte) []byte {
		return append((&Operation{Type: OpDelete, Resource: ResourceDocument, ID: "x"}).append(dst), unknown...)
	})
	got, err := ReadOperations(body, math.MaxInt)
	if err != nil || len(got) != 1 || got[0].ID != "x" || got[0].IfMatch != "e" {
		t.Errorf("got %+v (%v)", got, err)
	}
}

// TestMalformed cuts a stream at every byte and changes every bit of it: each is
// refused or read, and a record whose bytes differ from its checksum is refused.
func TestMalformed(t *testing.T) {
	t.Parallel()
	stream := AppendOperations(nil, operations[:2])
	whole := map[int]bool{len(stream): true, segmentBytes: true}
	whole[len(AppendOperations(nil, operations[:1]))] = true
	for n := range stream {
		_, err := ReadOperations(stream[:n], math.MaxInt)
		if (err == nil) != whole[n] {
			t.Errorf("cut at %d: %v", n, err)
		}
		if err != nil && status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("cut at %d: %v is no BadRequest", n, err)
		}
	}
	for n := segmentBytes; n < len(stream); n++ {
		for bit := range 8 {
			changed := bytes.Clone(stream)
			changed[n] ^= 1 << bit
			if _, err := ReadOperations(changed, math.MaxInt); err == nil {
				t.Errorf("bit %d of byte %d is changed, and nothing is said", bit, n)
			}
		}
	}
	if _, err := ReadResults(stream); err == nil {
		t.Error("operations are read as results")
	}
}

// TestMost reads as many operations as requested, and keeps no more of a stream
// in memory: very many small ones, or one with a long text.
func TestMost(t *testing.T) {
	five := AppendOperations(nil, slices.Repeat(operations[:1], 5))
	for most, want := range map[int]int{1: 1, 4: 4, 5: 5, 6: 5, math.MaxInt: 5} {
		if got, err := ReadOperations(five, most); err != nil || len(got) != want {
			t.Errorf("most %d: %d operations, %v", most, len(got), err)
		}
	}
	// Errors after them are ignored.
	if got, err := ReadOperations(append(bytes.Clone(five), 1, 2, 3), 5); err != nil || len(got) != 5 {
		t.Errorf("%d operations, %v", len(got), err)
	}
	long := Operation{Type: OpRead, Resource: ResourceDocument, ID: strings.Repeat("x", 1<<20)}
	for name, body := range map[string][]byte{
		"small": AppendOperations(nil, slices.Repeat([]Operation{{Type: OpRead, Resource: ResourceDocument}}, 40_000)),
		"long":  AppendOperations(nil, []Operation{long}),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := ReadOperations(body, 101)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 2*uint64(len(body)) || err != nil || len(got) > 101 {
			t.Errorf("%s: %d operations in %d bytes took %d, %v", name, len(got), len(body), taken, err)
		}
	}
}

// FuzzOperations reads any bytes: operations that were read can be written and
// read again.
func FuzzOperations(f *testing.F) {
	f.Add(AppendOperations(nil, operations[:3]))
	f.Add(AppendOperations(nil, nil))
	f.Add([]byte{version, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := ReadOperations(body, math.MaxInt)
		if err != nil {
			return
		}
		again, err := ReadOperations(AppendOperations(nil, got), math.MaxInt)
		if err != nil || len(again) != len(got) {
			t.Fatalf("%+v: %v", got, err)
		}
		for i := range got {
			if got[i].Body == nil {
				got[i].Body = again[i].Body
			}
			if !reflect.DeepEqual(got[i], again[i]) {
				t.Errorf("got %+v, want %+v", again[i], got[i])
			}
		}
	})
}

// FuzzRow reads a row after a correct checksum, which random bytes never have.
func FuzzRow(f *testing.F) {
	f.Add((&operations[1]).append(nil))
	f.Add([]byte{3, 0, 0, 0, 0, 2, 0, 0, 0, typeUTF8, 20, 'a'})
	f.Fuzz(func(t *testing.T, row []byte) {
		body := record(stream(nil), schemaOperation, func(dst []byte) []byte { return append(dst, row...) })
		if got, err := ReadOperations(body, math.MaxInt); err == nil && len(got) != 1 {
			t.Errorf("%d operations in one row", len(got))
		}
		body = record(stream(nil), schemaResult, func(dst []byte) []byte { return append(dst, row...) })
		if got, err := ReadResults(body); err == nil && len(got) != 1 {
			t.Errorf("%d results in one row", len(got))
		}
	})
}
