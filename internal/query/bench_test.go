package query

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// benchDocuments are documents of about 1 KiB with 15 properties.
func benchDocuments(b *testing.B, n int) plainList {
	var docs plainList
	for i := range n {
		var m strings.Builder
		fmt.Fprintf(&m, `{"id":"item-%06d","tenantId":"tenant-%d","userId":"user-%d","n":%d`, i, i%10, i%100, i%50)
		for j := range 10 {
			fmt.Fprintf(&m, `,"property%d":"%s"`, j, strings.Repeat("v", 70))
		}
		fmt.Fprintf(&m, `,"size":%d,"_rid":"abcdefgh","_ts":1700000000}`, i%50)
		docs = append(docs, Candidate{Number: uint64(i + 1), Body: []byte(m.String())})
	}
	return docs
}

// plainList is a Source without an index that does not copy documents.
type plainList []Candidate

func (l plainList) Candidates(_ context.Context, need Need) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		for _, c := range l {
			if c.Number > need.After && !yield(c, nil) {
				return
			}
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	ix := newIndex(b)
	params := []Param{{Name: "@tenant-id", Value: value.String("a")}, {Name: "@user-id", Value: value.String("b")}}
	d := partitionkey.Definition{Paths: []string{"/tenantId", "/userId", "/sessionId"}, Kind: partitionkey.KindMultiHash}.Normalize()
	b.ReportAllocs()
	for b.Loop() {
		p, err := Compile("SELECT * FROM c WHERE c.tenantId = @tenant-id AND c.userId = @user-id AND c.n > 5", params, ix, Options{})
		if err != nil || len(p.Ranges(d)) != 1 {
			b.Fatal(err)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	docs := benchDocuments(b, 1000)
	for name, text := range map[string]string{
		"filter":      `SELECT * FROM c WHERE c.tenantId = "none" AND c.n > 5`,
		"passthrough": `SELECT * FROM c`,
		"project":     `SELECT c.id, c.n FROM c WHERE c.n >= 0`,
		"order":       `SELECT TOP 10 * FROM c ORDER BY c.n`,
		"compute":     `SELECT VALUE CONCAT(c.id, "-", ToString(c.n * 2)) FROM c WHERE STARTSWITH(c.id, "item")`,
	} {
		b.Run("query="+name+"/docs=1000", func(b *testing.B) {
			p := mustCompile(b, text)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Run(b.Context(), docs, Budget{MaxBytes: 1 << 30}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFind measures the fixed cost of a run, and of a merge of eight, for
// queries that find one document each.
func BenchmarkFind(b *testing.B) {
	docs := benchDocuments(b, 8)
	for _, c := range []struct{ name, text string }{
		{"point", `SELECT * FROM c WHERE c.tenantId = "tenant-1"`},
		{"project", `SELECT c.id, c.n FROM c WHERE c.tenantId = "tenant-1"`},
		{"order", `SELECT * FROM c WHERE c.tenantId = "tenant-1" ORDER BY c.n`},
		{"count", `SELECT VALUE COUNT(1) FROM c WHERE c.tenantId = "tenant-1"`},
	} {
		p := mustCompile(b, c.text)
		b.Run("query="+c.name+"/streams=none", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if page, err := p.Run(b.Context(), docs[1:2], Budget{}); err != nil || len(page.Rows) != 1 {
					b.Fatal(len(page.Rows), err)
				}
			}
		})
		b.Run("query="+c.name+"/streams=8", func(b *testing.B) {
			var streams []Stream
			for i := range 8 {
				streams = append(streams, func(ctx context.Context, budget Budget) (Page, error) {
					return p.Run(ctx, docs[i:i+1], budget)
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				if page, _, err := p.Merge(streams, Progress{}).Page(b.Context(), Budget{}); err != nil || len(page.Rows) != 1 {
					b.Fatal(len(page.Rows), err)
				}
			}
		})
	}
}

func BenchmarkMerge(b *testing.B) {
	docs := benchDocuments(b, 1000)
	p := mustCompile(b, `SELECT VALUE c.id FROM c ORDER BY c.n`)
	var streams []Stream
	for i := range 8 {
		streams = append(streams, func(ctx context.Context, budget Budget) (Page, error) {
			return p.Run(ctx, docs[i*125:(i+1)*125], budget)
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := p.Merge(streams, Progress{}).Page(b.Context(), Budget{MaxItems: 1000}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCount counts documents with a filter that no index serves. The member that
// the filter reads is at several positions. For comparison, two loops only read the
// bytes: one at a time, and as many at a time as the machine can.
func BenchmarkCount(b *testing.B) {
	docs := benchDocuments(b, 1000)
	var size int64
	for _, c := range docs {
		size += int64(len(c.Body))
	}
	sum := 0
	for name, touch := range map[string]func(body []byte) int{
		"loop": func(body []byte) (n int) {
			for _, x := range body {
				n += int(x)
			}
			return n
		},
		"wide": func(body []byte) int { return bytes.Count(body, []byte{'#'}) },
	} {
		b.Run("touch="+name+"/docs=1000", func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				for _, c := range docs {
					sum += touch(c.Body)
				}
			}
		})
	}
	for _, c := range []struct{ name, text string }{
		{"all", `SELECT VALUE COUNT(1) FROM c`},
		{"begin", `SELECT VALUE COUNT(1) FROM c WHERE c.tenantId = "tenant-3"`},
		{"middle", `SELECT VALUE COUNT(1) FROM c WHERE c.property4 = "none"`},
		{"end", `SELECT VALUE COUNT(1) FROM c WHERE c.size > 25`},
		{"sum", `SELECT VALUE SUM(c.size) FROM c WHERE c.size > 25`},
		{"missing", `SELECT VALUE COUNT(1) FROM c WHERE c.nothing = 1`},
	} {
		b.Run("query="+c.name+"/docs=1000", func(b *testing.B) {
			p := mustCompile(b, c.text)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Run(b.Context(), docs, Budget{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Log(sum)
}

// BenchmarkGroup groups 1,000 documents by few and by many values, from the
// documents and from the index.
func BenchmarkGroup(b *testing.B) {
	docs := indexedDocuments(b, 1000)
	for _, c := range []struct{ name, text string }{
		{"few", `SELECT c.k10, COUNT(1) AS n FROM c GROUP BY c.k10`},
		{"many", `SELECT c.k1000, COUNT(1) AS n FROM c GROUP BY c.k1000`},
		{"sum", `SELECT c.k10, SUM(c.k1000) AS s, AVG(c.k1000) AS a FROM c GROUP BY c.k10`},
		{"distinct", `SELECT DISTINCT VALUE c.k10 FROM c`},
	} {
		p := compileWith(b, c.text, docs.ix)
		for name, src := range map[string]Source{"documents": docs.list, "index": docs} {
			if name == "index" && p.group.lookups == nil {
				continue
			}
			b.Run("query="+c.name+"/from="+name+"/docs=1000", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := p.Run(b.Context(), src, Budget{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkOrderIndex takes ten of 1,000 rows in order, by sorting and from the
// index.
func BenchmarkOrderIndex(b *testing.B) {
	docs := indexedDocuments(b, 1000)
	p := compileWith(b, `SELECT TOP 10 VALUE c.id FROM c ORDER BY c.k1000`, docs.ix)
	for name, src := range map[string]Source{"documents": docs.list, "index": docs} {
		b.Run("from="+name+"/docs=1000", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page, err := p.Run(b.Context(), src, Budget{})
				if err != nil || len(page.Rows) != 10 {
					b.Fatal(len(page.Rows), err)
				}
			}
		})
	}
}

// sortedTerms is a list with its terms in order, so that only the plan is
// measured.
type sortedTerms struct {
	list  plainList
	ix    *index.Index
	terms map[index.Term][]int
	order []index.Term
}

func indexedDocuments(b *testing.B, n int) sortedTerms {
	s := sortedTerms{ix: newIndex(b), terms: map[index.Term][]int{}}
	for i := range n {
		text := fmt.Sprintf(`{"id":"item-%06d","k10":%d,"k1000":%d,"pad":"%s"}`, i, i%10, (i*7919)%1000, strings.Repeat("v", 300))
		d := newDocument(b, s.ix, uint64(i+1), text)
		s.list = append(s.list, Candidate{Number: d.number, Body: d.body})
		for _, t := range d.terms {
			s.terms[t] = append(s.terms[t], i)
		}
	}
	s.order = slices.Sorted(maps.Keys(s.terms))
	return s
}

func (s sortedTerms) Candidates(ctx context.Context, need Need) iter.Seq2[Candidate, error] {
	return s.list.Candidates(ctx, need)
}

func (s sortedTerms) Count(context.Context, index.Expr, int64) (int64, bool, error) {
	return int64(len(s.list)), true, nil
}

func (s sortedTerms) within(walk Walk, visit func(t index.Term, docs []int) bool) {
	at, _ := slices.BinarySearch(s.order, walk.Span.Low)
	for ; at < len(s.order) && s.order[at] < walk.Span.High; at++ {
		if !visit(s.order[at], s.terms[s.order[at]]) {
			return
		}
	}
}

func (s sortedTerms) Terms(_ context.Context, walk Walk) iter.Seq2[TermCount, error] {
	return func(yield func(TermCount, error) bool) {
		s.within(walk, func(t index.Term, docs []int) bool {
			return yield(TermCount{Term: t, Count: int64(len(docs)), First: s.list[docs[0]].Number}, nil)
		})
	}
}

func (s sortedTerms) Ordered(_ context.Context, walk Walk) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		s.within(walk, func(t index.Term, docs []int) bool {
			for _, i := range docs {
				c := s.list[i]
				if c.Term = t; !yield(c, nil) {
					return false
				}
			}
			return true
		})
	}
}

func compileWith(t testing.TB, text string, ix *index.Index) *Plan {
	t.Helper()
	p, err := Compile(text, nil, ix, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// BenchmarkPlan compiles and describes the queries that the service's planner accepts,
// and reports the time of the median query. No index and no policy is involved.
func BenchmarkPlan(b *testing.B) {
	var list []planVector
	for _, v := range loadPlanVectors(b) {
		if !v.refused {
			list = append(list, v)
		}
	}
	times := make([]time.Duration, len(list))
	rounds := 0
	b.ReportAllocs()
	for b.Loop() {
		for i, v := range list {
			start := time.Now()
			if p, err := Prepare(v.query, v.params, nil, Options{Functions: anyFunction}); err == nil {
				AppendPlan(nil, p.Describe(v.key))
			}
			if took := time.Since(start); rounds == 0 || took < times[i] {
				times[i] = took // the least of all rounds: the machine may be busy
			}
		}
		rounds++
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2])/1e3, "us-p50/plan")
	b.ReportMetric(float64(times[len(times)*99/100])/1e3, "us-p99/plan")
}

// BenchmarkGroupPages reads the first page of 100 groups and all pages, of few and of
// many groups, from the index and from documents.
func BenchmarkGroupPages(b *testing.B) {
	docs := indexedDocuments(b, 10_000)
	for _, c := range []struct{ name, text string }{
		{"few", `SELECT c.k10, COUNT(1) AS n FROM c GROUP BY c.k10`},
		{"many", `SELECT c.k1000, COUNT(1) AS n FROM c GROUP BY c.k1000`},
		{"distinct", `SELECT DISTINCT VALUE c.k1000 FROM c`},
	} {
		p := compileWith(b, c.text, docs.ix)
		for name, src := range map[string]Source{"documents": docs.list, "index": docs} {
			run := func(ctx context.Context, budget Budget) (Page, error) { return p.Run(ctx, src, budget) }
			for pages, most := range map[string]int{"first": 1, "all": 1000} {
				b.Run("query="+c.name+"/from="+name+"/pages="+pages, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						for n, at, more := 0, (Progress{}), true; more && n < most; n++ {
							page, next, err := p.Merge([]Stream{run}, at).Page(b.Context(), Budget{MaxItems: 100})
							if err != nil {
								b.Fatal(err)
							}
							at, more = next, page.More
						}
					}
				})
			}
		}
	}
}
