package engine_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/value"
)

// BenchmarkPointRead reads a document of 1 KB by id and key. The engine looks
// up the names, extracts and hashes the key, locates the range, and calls the
// node twice.
func BenchmarkPointRead(b *testing.B) {
	for _, levels := range []int{1, 3} {
		b.Run(fmt.Sprintf("size=1KiB/levels=%d", levels), func(b *testing.B) {
			w := newWorld(b, nil)
			link := w.container(b, 8, []string{"/t", "/u", "/s"}[:levels]...)
			w.create(b, link, fmt.Sprintf(`{"id":"1","t":"tenant","u":"user","s":"session","pad":%q}`, strings.Repeat("x", 900)))
			req := engine.DocumentRequest{Link: link, Key: key(b, []string{"", `["tenant"]`, "", `["tenant","user","session"]`}[levels])}
			req.Link.Document = "1"
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Read(ctx, caller, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCreate creates documents of 1 KB in 8 partitions, from one writer
// and from 64.
func BenchmarkCreate(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("size=1KiB/partitions=8/writers=%d", writers), func(b *testing.B) {
			w := newWorld(b, nil)
			link := w.container(b, 8, "/t")
			doc := parse(b, fmt.Sprintf(`{"id":"","t":"","a":1,"b":"two","c":true,"pad":%q}`, strings.Repeat("x", 900)))
			ctx := context.Background()
			var n atomic.Int64
			create := func() {
				i := value.String(strconv.FormatInt(n.Add(1), 10))
				doc := doc.With("id", i).With("t", i)
				if _, err := w.Create(ctx, caller, engine.DocumentRequest{Link: link, Document: doc, Size: 1024}); err != nil {
					b.Error(err)
				}
			}
			b.ReportAllocs()
			if writers == 1 {
				for b.Loop() {
					create()
				}
				return
			}
			b.SetParallelism(writers / 2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					create()
				}
			})
		})
	}
}

// BenchmarkPrefixQuery reads the 100 documents of a tenant of 2,000, by the
// first of three levels.
func BenchmarkPrefixQuery(b *testing.B) {
	for _, how := range []string{"key", "filter"} {
		b.Run("documents=100/by="+how, func(b *testing.B) {
			w := newWorld(b, nil)
			link := w.container(b, 8, "/t", "/u", "/s")
			for i := range 2000 {
				w.create(b, link, fmt.Sprintf(`{"id":"%d","t":"t%d","u":%d,"s":%d,"pad":%q}`, i, i%20, i%7, i, strings.Repeat("x", 200)))
			}
			req := engine.QueryRequest{Link: link, Text: "SELECT * FROM c", Key: key(b, `["t3"]`), Cross: true}
			if how == "filter" {
				req.Text, req.Key = `SELECT * FROM c WHERE c.t = "t3"`, nil
			}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				page, err := w.Query(ctx, caller, req)
				if err != nil || len(page.Rows) != 100 {
					b.Fatal(len(page.Rows), err)
				}
			}
		})
	}
}

// BenchmarkSmallQuery asks 8 partitions for 10 of 10,000 documents by an equality. Most
// of the time is the fixed cost of a visit to a partition.
func BenchmarkSmallQuery(b *testing.B) {
	w := newWorld(b, nil)
	link := w.container(b, 8, "/t")
	for i := range 10000 {
		w.create(b, link, fmt.Sprintf(`{"id":"%d","t":"t%d","n":%d,"pad":%q}`, i, i, i%1000, strings.Repeat("x", 200)))
	}
	req := engine.QueryRequest{Link: link, Text: "SELECT * FROM c WHERE c.n = 7", Cross: true}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		page, err := w.Query(ctx, caller, req)
		if err != nil || len(page.Rows) != 10 {
			b.Fatal(len(page.Rows), err)
		}
	}
}

// BenchmarkPlanRequest asks for the plan of a query with an order, a filter and a
// parameter, whose value is another each time, or the same from the second time on.
func BenchmarkPlanRequest(b *testing.B) {
	for _, repeated := range []bool{false, true} {
		b.Run(fmt.Sprintf("repeated=%v", repeated), func(b *testing.B) {
			w := newWorld(b, nil)
			link := w.container(b, 8, "/t")
			ctx, i := context.Background(), 0
			b.ReportAllocs()
			for b.Loop() {
				if i++; repeated {
					i = 0
				}
				req := engine.PlanRequest{
					Link: link, Text: "SELECT c.id, c.n FROM c WHERE c.n > @n AND c.kind = 'a' ORDER BY c.n", Features: "OrderBy",
					Params: []query.Param{{Name: "@n", Value: value.Int(int64(i))}},
				}
				if _, err := w.QueryPlan(ctx, caller, req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
