package frame

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// BenchmarkDecodeExecute decodes an EXECUTE with three values.
func BenchmarkDecodeExecute(b *testing.B) {
	for _, v := range vectors(b) {
		if v.Name != "execute-v4-gocql-insert" {
			continue
		}
		wire := unhex(b, v.Hex)
		h := ParseHeader((*[HeaderSize]byte)(wire))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(h, wire[HeaderSize:]); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.Fatal("no vector")
}

// BenchmarkWriteRows writes results of rows of 1 KB.
func BenchmarkWriteRows(b *testing.B) {
	for _, form := range []struct {
		name        string
		version     Version
		compression Compression
	}{{"v4", V4, NoCompression}, {"v4,lz4", V4, LZ4}, {"v4,snappy", V4, Snappy}, {"v5", V5, NoCompression}, {"v5,lz4", V5, LZ4}} {
		for _, rows := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("form=%s/rows=%d", form.name, rows), func(b *testing.B) {
				cell := AppendBytes(nil, bytes.Repeat([]byte("0123456789abcdef"), 64))
				f := &Frame{Version: form.version, Message: &Rows{
					Metadata: Metadata{Columns: NewColumns([]Column{{"ks", "t", "v", Simple(TypeVarchar)}}), Skip: true},
					Count:    rows, Cells: bytes.Repeat(cell, rows),
				}}
				w := NewWriter(io.Discard)
				if form.version == V5 {
					w.StartSegments(form.compression)
				} else {
					w.SetCompression(form.compression)
				}
				b.SetBytes(int64(rows * len(cell)))
				b.ReportAllocs()
				for b.Loop() {
					if err := w.Write(f); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
