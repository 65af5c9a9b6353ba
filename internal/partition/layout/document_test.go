package layout

import (
	"bytes"
	"testing"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// TestDocumentBytes pins the format on disk: docs/formats/document.md.
func TestDocumentBytes(t *testing.T) {
	t.Parallel()
	doc, err := value.Parse([]byte(`{"id":"x","b":[1,"é"]}`))
	if err != nil {
		t.Fatal(err)
	}
	row := NewDocumentRow(16, []byte("key"), doc)
	v := Version{Number: 0x0102030405060708, LSN: 0x1112131415161718, Ordinal: 0xABCDE, Seq: 0x123, TS: 0x65000000}
	Stamp(row, v)
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
	d, err := DecodeDocument(row)
	if err != nil {
		t.Fatal(err)
	}
	if d.Version != v || string(d.Key) != "key" || d.EPKSize != 16 || string(d.Body) != `{"id":"x","b":[1,"é"]}` {
		t.Errorf("got %+v", d)
	}
	if got, want := ETagOf(d.ETag), resource.ETag(`"15161718-1314-1112-abcd-e12365000000"`); got != want || !d.Matches(want) {
		t.Errorf("etag %s, want %s", got, want)
	}
	if got := (State{LSN: 1, Counter: 2, Items: 3, Bytes: 4, TS: 5}).Append(nil); !bytes.Equal(got, []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05")) {
		t.Errorf("state %x", got)
	}
	if got := AppendFeedValue(nil, 7, "0123456789abcdefABCDEFGHIJKLMNOP", 32); string(got) != "\x00\x00\x00\x00\x00\x00\x00\x0701234567ABCD" {
		t.Errorf("feed row %q", got)
	}
}

// FuzzDecodeDocument reads any bytes as a document row: it never panics, and
// a row that it accepts can be completed, with the announced size.
func FuzzDecodeDocument(f *testing.F) {
	row := NewDocumentRow(16, []byte("key"), value.Object([]value.Member{{Name: "id", Value: value.String("x")}}))
	f.Add(row)
	f.Add(row[:offKey])
	f.Add(append([]byte{2}, row[1:]...))
	f.Add([]byte{})
	render := NewRenderer(resource.ContainerRID(resource.DatabaseRID(1), 1))
	f.Fuzz(func(t *testing.T, row []byte) {
		d, err := DecodeDocument(row)
		if err != nil {
			return
		}
		if got, want := len(render.Complete(&d)), render.Size(len(d.Body), d.TS); got != want {
			t.Errorf("%d bytes, want %d", got, want)
		}
	})
}

// FuzzDecodeMeta reads any bytes as each of the other rows.
func FuzzDecodeMeta(f *testing.F) {
	f.Add(State{LSN: 1}.Append(nil))
	f.Add(State{LSN: 2, Purged: 1}.Append(nil))
	f.Add(Marks{{Extent: partitionkey.Full(), Key: []byte{8, 'x', 0xFF}, LSN: 1}}.Append(nil))
	f.Add(Totals{Bytes: 1, Items: 1}.Append(nil))
	f.Add([]byte(`{"version":1,"policy":{"mode":"consistent"},"phase":"build"}`))
	f.Add([]byte(`{"version":1,"container":"AAAAAYAAAAE=","partitionKey":{"paths":["/a"],"kind":"Hash","version":2},"range":{"min":"","max":"FF"}}`))
	f.Fuzz(func(t *testing.T, row []byte) {
		if s, err := DecodeState(row); err == nil && !bytes.Equal(s.Append(nil), row) {
			t.Errorf("state %+v", s)
		}
		if l, err := DecodeMarks(row); err == nil && !bytes.Equal(l.Append(nil), row) {
			t.Errorf("purges %+v", l)
		}
		if s, err := DecodeTotals(row); err == nil && !bytes.Equal(s.Append(nil), row) {
			t.Errorf("totals %+v", s)
		}
		if x, err := DecodeIndexRow(row); err == nil && (x.Phase == Settled) != (x.Other == nil) {
			t.Errorf("index %+v", x)
		}
		if d, err := DecodeDescriptor(row); err == nil && d.Range.Empty() {
			t.Errorf("descriptor %+v", d)
		}
	})
}
