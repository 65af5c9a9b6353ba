package partition

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// benchDocument is a document of about sizeBytes with 15 indexed scalars.
func benchDocument(n int64, sizeBytes int) value.Value {
	members := []value.Member{
		{Name: "id", Value: value.String(fmt.Sprint("document-", n))},
		{Name: "a", Value: value.String(fmt.Sprint("tenant-", n%100))},
		{Name: "b", Value: value.String(fmt.Sprint("user-", n%1000))},
		{Name: "c", Value: value.String(fmt.Sprint("session-", n%10000))},
	}
	for i := range 10 {
		members = append(members, value.Member{Name: fmt.Sprint("property", i), Value: value.Int(n % int64(3*i+5))})
	}
	return value.Object(append(members, value.Member{Name: "text", Value: value.String(strings.Repeat("x", max(0, sizeBytes-380)))}))
}

func BenchmarkPointRead(b *testing.B) {
	paths := []string{"/a", "/b", "/c"}
	for _, levels := range []int{1, 3} {
		for _, size := range []int{1, 16} {
			b.Run(fmt.Sprintf("size=%dKiB/levels=%d", size, levels), func(b *testing.B) {
				w := newWorld(b, containerWith(b, 2, paths[:levels], ""))
				const documents = 200
				keys := make([]partitionkey.Key, documents)
				ids := make([]string, documents)
				for i := range documents {
					doc := benchDocument(int64(i), size<<10)
					if _, err := w.write(Create, doc, nil); err != nil {
						b.Fatal(err)
					}
					keys[i], ids[i] = w.container.Load().KeyOf(doc), doc.Get("id").Text()
				}
				p, definition := w.partition.Load(), w.container.Load().PartitionKey
				request := Read{Generation: w.own.Generation}
				epks := make([]partitionkey.EPK, documents)
				for i, key := range keys {
					epks[i] = definition.Hash(key)
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					request.Key, request.EPK, request.ID = keys[i%documents], epks[i%documents], ids[i%documents]
					if _, err := p.Read(b.Context(), request); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("size=1KiB/terms=15/writers=%d", writers), func(b *testing.B) {
			w := newWorld(b, containerWith(b, 2, []string{"/a", "/b", "/c"}, ""))
			var n atomic.Int64
			b.SetParallelism(writers)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := w.write(Create, benchDocument(n.Add(1), 1<<10), nil); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkReplace(b *testing.B) {
	w := newWorld(b, containerWith(b, 2, []string{"/a", "/b", "/c"}, ""))
	if _, err := w.write(Create, benchDocument(1, 1<<10), nil); err != nil {
		b.Fatal(err)
	}
	doc := benchDocument(1, 1<<10)
	b.ReportAllocs()
	n := int64(0)
	for b.Loop() {
		n++
		if _, err := w.write(Replace, doc.With("property9", value.Int(n)), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPrefixQuery reads one tenant of many: a page of 100 documents.
func BenchmarkPrefixQuery(b *testing.B) {
	w := newWorld(b, containerWith(b, 2, []string{"/a", "/b", "/c"}, ""))
	for n := range int64(10_000) {
		if _, err := w.write(Create, benchDocument(n, 1<<10), nil); err != nil {
			b.Fatal(err)
		}
	}
	r, err := w.container.Load().PartitionKey.Prefix(partitionkey.NewKey(partitionkey.String("tenant-7")))
	if err != nil {
		b.Fatal(err)
	}
	for _, text := range []string{"SELECT * FROM c", "SELECT * FROM c WHERE c.property9 = 3"} {
		b.Run(strings.ReplaceAll(text, " ", "_"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if rows, _, err := w.rows(text, r, 100, nil); err != nil || len(rows) == 0 {
					b.Fatal(len(rows), err)
				}
			}
		})
	}
}

// BenchmarkComplete is the splice of system properties into a stored body.
func BenchmarkComplete(b *testing.B) {
	w := newWorld(b, containerWith(b, 2, []string{"/a"}, ""))
	p := w.partition.Load()
	row := newDocumentRow(16, []byte("key"), benchDocument(1, 1<<10))
	stamp(row, version{number: 1, lsn: 1, ts: 1_700_000_000})
	b.ReportAllocs()
	for b.Loop() {
		d, err := decodeDocument(row)
		if err != nil {
			b.Fatal(err)
		}
		p.render.complete(&d)
	}
}
