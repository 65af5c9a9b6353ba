package partition

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/storage"
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

// BenchmarkPrefixQuery reads one of many tenants: a page of 100 documents.
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

// BenchmarkComplete adds the system properties to a stored body.
func BenchmarkComplete(b *testing.B) {
	w := newWorld(b, containerWith(b, 2, []string{"/a"}, ""))
	p := w.partition.Load()
	row := layout.NewDocumentRow(16, []byte("key"), benchDocument(1, 1<<10))
	layout.Stamp(row, layout.Version{Number: 1, LSN: 1, TS: 1_700_000_000})
	b.ReportAllocs()
	for b.Loop() {
		d, err := layout.DecodeDocument(row)
		if err != nil {
			b.Fatal(err)
		}
		p.own.Render.Complete(&d)
	}
}

// benchCounts is a partition with documents of 1 KB, of which only the id and property0
// are indexed. Everything is on disk and in the cache.
func benchCounts(b *testing.B, documents int64) *world {
	b.Helper()
	w := newWorld(b, containerWith(b, 2, []string{"/a"}, `{"includedPaths":[{"path":"/property0/?"}],"excludedPaths":[{"path":"/*"}]}`))
	for n := range documents {
		if _, err := w.write(Create, benchDocument(n, 1<<10), nil); err != nil {
			b.Fatal(err)
		}
	}
	w.cacheBytes = 256 << 20
	if err := errors.Join(w.store.Flush(), w.close(), w.open()); err != nil {
		b.Fatal(err)
	}
	return w
}

// touch adds up all bytes of the documents. It is a separate function so that the
// compiler treats it as ordinary code and not as the loop of a benchmark.
func touch(now *published) (sum, size int, err error) {
	rows := now.Rows.Iter(storage.FamilyDocument.Bounds())
	for valid := rows.First(); valid; valid = rows.Next() {
		row := rows.Value()
		for _, c := range row {
			sum += int(c)
		}
		size += len(row)
	}
	return sum, size, rows.Close()
}

// BenchmarkCount counts documents: a loop over their bytes, a query whose filter has no
// index, and one with an index, which reads no documents.
func BenchmarkCount(b *testing.B) {
	const documents = 20_000
	w := benchCounts(b, documents)
	b.Run("way=touch", func(b *testing.B) {
		p := w.partition.Load()
		for b.Loop() {
			now, err := p.acquire()
			if err != nil {
				b.Fatal(err)
			}
			sum, size, err := touch(now)
			if err != nil || sum < size {
				b.Fatal(sum, err)
			}
			p.release(now)
			b.SetBytes(int64(size))
		}
	})
	for _, c := range []struct{ way, filter, want string }{
		{"filter", "c.property3 = 2", "1429"},
		{"index", "c.property0 = 2", "4000"},
		{"all", "true", "20000"},
	} {
		b.Run("way="+c.way, func(b *testing.B) {
			for b.Loop() {
				rows, _, err := w.rows("SELECT VALUE COUNT(1) FROM c WHERE "+c.filter, partitionkey.Full(), 0, nil)
				if err != nil || len(rows) != 1 || rows[0] != c.want {
					b.Fatal(rows, err)
				}
			}
		})
	}
}

// indexedDocument is a document of 1 KB: in eight partitions, ten documents share ten,
// a hundredth of all share hundred, and rank is unique.
func indexedDocument(n, of int64) value.Value {
	return value.Object([]value.Member{
		{Name: "id", Value: value.String(fmt.Sprint("q", n))},
		{Name: "a", Value: value.String(fmt.Sprint("tenant-", n%100))},
		{Name: "ten", Value: value.Int(n * 8 / 10)},
		{Name: "many", Value: value.Int(n / 10)},
		{Name: "hundred", Value: value.String(fmt.Sprintf("h%02d", n%100))},
		{Name: "rank", Value: value.Int(n * 7919 % of)},
		{Name: "city", Value: value.String(fmt.Sprint("city-", n%200))},
		{Name: "flag", Value: value.Bool(true)},
		{Name: "plain", Value: value.Int(n % 10)},
		{Name: "note", Value: value.String(strings.Repeat("x", 800))},
	})
}

const indexedPolicy = `{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/note/?"},{"path":"/plain/?"}]}`

// benchIndexed is a partition with such documents, on disk and in the cache.
func benchIndexed(b *testing.B, documents int64) *world {
	b.Helper()
	w := newWorld(b, containerWith(b, 2, []string{"/a"}, indexedPolicy))
	var next atomic.Int64
	var wait sync.WaitGroup
	for range 64 {
		wait.Go(func() {
			for n := next.Add(1) - 1; n < documents; n = next.Add(1) - 1 {
				if _, err := w.write(Create, indexedDocument(n, documents), nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	w.cacheBytes = 256 << 20
	if err := errors.Join(w.store.Flush(), w.close(), w.open()); err != nil {
		b.Fatal(err)
	}
	return w
}

// planOf compiles a query for the policy of a partition.
func (w *world) planOf(tb testing.TB, text string) *query.Plan {
	tb.Helper()
	now, err := w.partition.Load().acquire()
	if err != nil {
		tb.Fatal(err)
	}
	defer w.partition.Load().release(now)
	plan, err := query.Compile(text, nil, now.Indexing.Active.Index, query.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return plan
}

// drain reads all candidates and returns their number.
func drain(candidates iter.Seq2[query.Candidate, error]) (n int, err error) {
	for _, err := range candidates {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// sourceOf returns the source of a query over the whole partition; call release.
func (w *world) sourceOf(tb testing.TB) (s *scan.Source, release func()) {
	p := w.partition.Load()
	now, err := p.acquire()
	if err != nil {
		tb.Fatal(err)
	}
	s = p.reader.Source(&now.Snapshot, partitionkey.Full(), partitionkey.Full())
	return s, func() {
		s.Free()
		p.release(now)
	}
}

// span returns the terms of a predicate on a top-level property.
func (w *world) span(tb testing.TB, place string, op index.Op, v value.Value) index.Span {
	span, ok := w.partition.Load().states.current.Load().Indexing.Active.Span(index.Path{place}, op, v)
	if !ok {
		tb.Fatalf("%s is not indexed", place)
	}
	return span
}

// BenchmarkEquality finds the documents of one term: with the source alone, and with a
// plan. Point reads of the same documents are measured for comparison.
func BenchmarkEquality(b *testing.B) {
	b.Run("documents=2500/found=1", func(b *testing.B) { benchEquality(b, 2500, "ten", 1) })
	b.Run("documents=100000/found=10", func(b *testing.B) { benchEquality(b, 100_000, "many", 10) })
}

func benchEquality(b *testing.B, documents int64, place string, want int) {
	w := benchIndexed(b, documents)
	p := w.partition.Load()
	run := func(way string, want int, do func(i int) (found int, err error)) {
		b.Run("way="+way, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if found, err := do(i % 64); err != nil || found < want {
					b.Fatal(found, err)
				}
			}
		})
	}
	var reads [64]Read
	var accesses [64]index.Expr
	var plans [64]*query.Plan
	for i := range reads {
		doc := indexedDocument(rand.Int64N(documents/10-1)*10, documents)
		key := w.container.Load().KeyOf(doc)
		reads[i] = Read{Generation: w.own.Generation, Key: key, EPK: w.container.Load().PartitionKey.Hash(key), ID: doc.Get("id").Text()}
		accesses[i] = index.Expr{Op: index.Leaf, Span: w.span(b, place, index.Eq, doc.Get(place))}
		plans[i] = w.planOf(b, fmt.Sprintf("SELECT * FROM c WHERE c.%s = %s", place, doc.Get(place)))
	}
	run("read", 1, func(i int) (int, error) {
		_, err := p.Read(b.Context(), reads[i])
		return 1, err
	})
	run("source", want, func(i int) (int, error) {
		s, release := w.sourceOf(b)
		defer release()
		return drain(s.Candidates(b.Context(), query.Need{Access: accesses[i]}))
	})
	run("query", want, func(i int) (int, error) {
		page, _, err := p.Query(b.Context(), Query{Plan: plans[i], Generation: w.own.Generation, Range: partitionkey.Full(), Budget: query.Budget{MaxItems: 100}})
		return len(page.Rows), err
	})
}

// BenchmarkWalk reads the terms of a path: the first ten documents in its order, and
// the number of documents of each value.
func BenchmarkWalk(b *testing.B) {
	w := benchIndexed(b, 2500)
	p := w.partition.Load()
	for _, c := range []struct {
		way, text string
		rows      int
	}{
		{"top", "SELECT TOP 10 * FROM c ORDER BY c.rank", 10},
		{"down", "SELECT TOP 10 * FROM c ORDER BY c.rank DESC", 10},
		{"group", "SELECT c.hundred, COUNT(1) AS n FROM c GROUP BY c.hundred", 100},
		{"count", "SELECT VALUE COUNT(1) FROM c WHERE c.hundred = 'h42'", 1},
	} {
		plan := w.planOf(b, c.text)
		b.Run("way="+c.way, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page, _, err := p.Query(b.Context(), Query{Plan: plan, Generation: w.own.Generation, Range: partitionkey.Full(), Budget: query.Budget{MaxItems: 1000}})
				if err != nil || len(page.Rows) != c.rows {
					b.Fatal(len(page.Rows), err)
				}
			}
		})
	}
}
