package partition

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// TestDocumentBytes pins what is on disk: docs/formats/document.md.
func TestDocumentBytes(t *testing.T) {
	t.Parallel()
	doc, err := value.Parse([]byte(`{"id":"x","b":[1,"é"]}`))
	if err != nil {
		t.Fatal(err)
	}
	row := newDocumentRow(16, []byte("key"), doc)
	v := version{number: 0x0102030405060708, lsn: 0x1112131415161718, ordinal: 0xABCDE, seq: 0x123, ts: 0x65000000}
	stamp(row, v)
	want := "\x01\x00" +
		"\x01\x02\x03\x04\x05\x06\x07\x08" +
		"\x11\x12\x13\x14\x15\x16\x17\x18" +
		"\x0A\xBC\xDE" +
		"\x00\x00\x01\x23" +
		"\x00\x00\x00\x00\x65\x00\x00\x00" +
		"\x15\x16\x17\x18\x13\x14\x11\x12\xAB\xCD\xE1\x23\x65\x00\x00\x00" +
		"\x10\x00\x03key" + `{"id":"x","b":[1,"é"]}`
	if string(row) != want {
		t.Errorf("got  %q\nwant %q", row, want)
	}
	d, err := decodeDocument(row)
	if err != nil {
		t.Fatal(err)
	}
	if d.version != v || string(d.key) != "key" || d.epkSize != 16 || string(d.body) != `{"id":"x","b":[1,"é"]}` {
		t.Errorf("got %+v", d)
	}
	if got, want := etagOf(d.etag), resource.ETag(`"15161718-1314-1112-abcd-e12365000000"`); got != want || !d.matches(want) {
		t.Errorf("etag %s, want %s", got, want)
	}
	if got := (state{lsn: 1, counter: 2, items: 3, bytes: 4, ts: 5}).append(nil); !bytes.Equal(got, []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05")) {
		t.Errorf("state %x", got)
	}
	if got := appendFeedValue(nil, 7, "0123456789abcdefABCDEFGHIJKLMNOP", 32); string(got) != "\x00\x00\x00\x00\x00\x00\x00\x0701234567ABCD" {
		t.Errorf("feed row %q", got)
	}
}

// FuzzDecodeDocument reads any bytes as a document row: it never panics, and
// what it takes can be completed into the size that was promised.
func FuzzDecodeDocument(f *testing.F) {
	row := newDocumentRow(16, []byte("key"), value.Object([]value.Member{{Name: "id", Value: value.String("x")}}))
	f.Add(row)
	f.Add(row[:offKey])
	f.Add(append([]byte{2}, row[1:]...))
	f.Add([]byte{})
	render := newRenderer(resource.ContainerRID(resource.DatabaseRID(1), 1))
	f.Fuzz(func(t *testing.T, row []byte) {
		d, err := decodeDocument(row)
		if err != nil {
			return
		}
		if got, want := len(render.complete(&d)), render.size(len(d.body), d.ts); got != want {
			t.Errorf("%d bytes, want %d", got, want)
		}
	})
}

// FuzzDecodeMeta reads any bytes as each of the other rows.
func FuzzDecodeMeta(f *testing.F) {
	f.Add(state{lsn: 1}.append(nil))
	f.Add(state{lsn: 2, purged: 1}.append(nil))
	f.Add(purges{{extent: partitionkey.Full(), key: []byte{8, 'x', 0xFF}, lsn: 1}}.append(nil))
	f.Add(totals{bytes: 1, items: 1}.append(nil))
	f.Add([]byte(`{"version":1,"policy":{"mode":"consistent"},"phase":"build"}`))
	f.Add([]byte(`{"version":1,"container":"AAAAAYAAAAE=","partitionKey":{"paths":["/a"],"kind":"Hash","version":2},"range":{"min":"","max":"FF"}}`))
	f.Fuzz(func(t *testing.T, row []byte) {
		if s, err := decodeState(row); err == nil && !bytes.Equal(s.append(nil), row) {
			t.Errorf("state %+v", s)
		}
		if l, err := decodePurges(row); err == nil && !bytes.Equal(l.append(nil), row) {
			t.Errorf("purges %+v", l)
		}
		if s, err := decodeTotals(row); err == nil && !bytes.Equal(s.append(nil), row) {
			t.Errorf("totals %+v", s)
		}
		if x, err := decodeIndexRow(row); err == nil && (x.Phase == settled) != (x.Other == nil) {
			t.Errorf("index %+v", x)
		}
		if d, err := decodeDescriptor(row); err == nil && d.Range.Empty() {
			t.Errorf("descriptor %+v", d)
		}
	})
}

// TestLargestDocument writes a document of two megabytes with twenty thousand
// terms, and takes it away again.
func TestLargestDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, ""))
	if raceDetector {
		w.limits.DocumentBytes /= 8
		if err := errors.Join(w.close(), w.open()); err != nil {
			t.Fatal(err)
		}
	}
	limit := w.limits.DocumentBytes
	var items []value.Value
	for size := 100; size < limit-200; size += 103 {
		items = append(items, value.String(fmt.Sprintf("%0100d", len(items))))
	}
	doc := value.Object([]value.Member{{Name: "id", Value: value.String("large")}, {Name: "a", Value: value.String("x")}, {Name: "list", Value: value.Array(items)}})
	if _, err := w.write(Create, doc, nil); err != nil {
		t.Fatal(err)
	}
	if report := w.check(); !report.Clean() || report.Terms != int64(len(items))+4 {
		t.Errorf("%d terms, want %d; %q", report.Terms, len(items)+4, report.Problems)
	}
	if _, err := w.write(Replace, doc.With("list", value.Array(items[1:])), nil); err != nil {
		t.Fatal(err)
	}
	found, err := w.read(w.container.Load().KeyOf(doc), "large", nil)
	if err != nil || len(found.Body) < limit*9/10 {
		t.Errorf("read %d bytes: %v", len(found.Body), err)
	}
	if _, err := w.write(Delete, doc, func(request *Write) { request.ID = "large" }); err != nil {
		t.Fatal(err)
	}
	if report := w.check(); !report.Clean() || report.Terms != 0 {
		t.Errorf("%d terms are left; %q", report.Terms, report.Problems)
	}
	large := doc.With("text", value.String(string(make([]byte, limit))))
	if _, err := w.write(Create, large, nil); status.CodeOf(err) != status.CodeTooLarge {
		t.Errorf("got %v, want 413", err)
	}
}
