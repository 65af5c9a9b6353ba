package scan_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/partitionkey"
)

// rankedWorld holds documents with a different value of n and of b each, one of ten
// values of ten, and n as a string in text, in another order than that of their
// numbers.
func rankedWorld(tb testing.TB, documents int64) *world {
	tb.Helper()
	w := newWorld(tb, "/id", `{"compositeIndexes":[[{"path":"/ten"},{"path":"/n","order":"descending"}]]}`)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range 32 {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < documents; i = next.Add(1) - 1 {
				n, b := i*7919%documents, i*6101%documents
				w.write(partition.Create, "", fmt.Sprintf(`{"id":"%d","n":%d,"b":%d,"ten":%d,"text":"t%07d"}`, i, n, b, n%10, n))
			}
		})
	}
	wait.Wait()
	return w
}

// pagedTexts are ordered queries as users and clients write them to page; @n is a value
// of n in the middle.
var pagedTexts = []string{
	"SELECT * FROM c ORDER BY c.n",
	"SELECT * FROM c ORDER BY c.n DESC",
	"SELECT * FROM c ORDER BY c.text",
	"SELECT * FROM c WHERE c.n > @n ORDER BY c.n",
	"SELECT * FROM c WHERE IS_DEFINED(c.n) AND (c.n > @n OR IS_STRING(c.n) OR IS_ARRAY(c.n) OR IS_OBJECT(c.n)) ORDER BY c.n",
	"SELECT * FROM c WHERE c.n < @n OR NOT IS_DEFINED(c.n) OR IS_NULL(c.n) OR IS_BOOLEAN(c.n) ORDER BY c.n DESC",
	"SELECT * FROM c WHERE c.b > 5 ORDER BY c.n",
	"SELECT * FROM c WHERE (c.b > 5 OR c.b < 3) AND c.n > @n ORDER BY c.n",
	"SELECT * FROM c WHERE c.ten = 3 ORDER BY c.n",
	"SELECT * FROM c WHERE c.ten IN (3, 4, 5) ORDER BY c.n DESC",
	"SELECT * FROM c WHERE c.n * 2 >= 0 ORDER BY c.n",
	"SELECT * FROM c ORDER BY c.ten, c.n DESC",
	"SELECT * FROM c WHERE c.ten > 5 OR (c.ten = 5 AND c.n < @n) ORDER BY c.ten, c.n DESC",
	"SELECT * FROM c ORDER BY c.n OFFSET 20 LIMIT 2000",
}

// pageWork runs a page that begins at a position, and returns its work: terms passed
// and documents read.
func (w *world) pageWork(tb testing.TB, plan *query.Plan, from query.Progress, rows int) (work int64, next query.Progress, ids []string) {
	tb.Helper()
	stream := func(ctx context.Context, b query.Budget) (query.Page, error) {
		s := w.source(partitionkey.Full())
		defer s.Free()
		page, err := plan.Run(ctx, s.Face(), b)
		work += s.Effort()
		return page, err
	}
	page, next, err := plan.Merge([]query.Stream{stream}, from).Page(tb.Context(), query.Budget{MaxItems: rows})
	if err != nil {
		tb.Fatal(err)
	}
	for _, row := range page.Rows {
		ids = append(ids, w.parse(string(row.JSON)).Get("id").Text())
	}
	return work, next, ids
}

// The work for a small page of a long order is proportional to the page: the same bound
// holds for a small container and a larger one.
func TestSmallPages(t *testing.T) {
	t.Parallel()
	sizes := []int64{3000, 9000}
	if raceDetector {
		sizes = []int64{3000, 4000}
	}
	for _, documents := range sizes {
		w := rankedWorld(t, documents)
		for _, text := range pagedTexts {
			plan := w.planOf(strings.ReplaceAll(text, "@n", fmt.Sprint(documents/2)))
			for _, rows := range []int{1, 7, 100} {
				var from query.Progress
				for page := range 3 {
					work, next, ids := w.pageWork(t, plan, from, rows)
					// OFFSET skips 20 rows at the beginning, and twelve rows of other
					// values precede one that passes.
					if most := int64(70*rows + 150); len(ids) != rows || work > most {
						t.Errorf("%s, page %d: %d rows of %d for a work of %d, want %d at most", plan.Text(), page+1, len(ids), rows, work, most)
					}
					from = next
				}
			}
		}
	}
}

// However a page is found, all pages together equal one large page.
func TestSmallPagesAgree(t *testing.T) {
	t.Parallel()
	documents := int64(1000)
	if raceDetector {
		documents = 300
	}
	w := rankedWorld(t, documents)
	for _, text := range pagedTexts {
		plan := w.planOf(strings.ReplaceAll(text, "@n", fmt.Sprint(documents/2)))
		_, _, want := w.pageWork(t, plan, query.Progress{}, 0)
		for _, rows := range []int{1, 7, 100} {
			var got []string
			for from := (query.Progress{}); !from.Done; {
				var ids []string
				_, from, ids = w.pageWork(t, plan, from, rows)
				got = append(got, ids...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s in pages of %d: %d rows, want %d", plan.Text(), rows, len(got), len(want))
			}
		}
	}
}

// A document counts as found by the index only if the index was used, and not if all
// documents were read because the index of the policy is not built yet.
func TestIndexHits(t *testing.T) {
	t.Parallel()
	w := rankedWorld(t, 200)
	hits := func(plan *query.Plan) (retrieved, hits int64) {
		page, err := w.query(t.Context(), plan, partitionkey.Full(), query.Budget{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return page.Stats.Retrieved, page.Stats.IndexHits
	}
	for _, c := range []struct {
		text string
		want [2]int64
	}{
		{"SELECT * FROM c WHERE c.ten = 3", [2]int64{20, 20}},
		{"SELECT * FROM c WHERE CONTAINS(c.text, '3') AND c.ten = 3", [2]int64{20, 20}},
		{"SELECT * FROM c WHERE c.ten + 0 * c.n = 3", [2]int64{200, 0}},
		{"SELECT TOP 5 * FROM c ORDER BY c.n", [2]int64{5, 5}},
		{"SELECT VALUE COUNT(1) FROM c WHERE c.ten = 3 AND c.n * 2 >= 0", [2]int64{20, 20}},
	} {
		if read, found := hits(w.planOf(c.text)); c.want != [2]int64{read, found} {
			t.Errorf("%s: %d documents read, %d found by the index, want %v", c.text, read, found, c.want)
		}
	}
	body := w.parse(`{"id":"c","partitionKey":{"paths":["/id"],"kind":"Hash","version":2},"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/double/?"}]},"computedProperties":[{"name":"double","query":"SELECT VALUE c.ten * 2 FROM c"}]}`)
	c, err := resource.ParseContainer(body)
	if err != nil {
		t.Fatal(err)
	}
	c.RID = w.container.RID
	w.container = &c // and the partition is not told
	ix, err := index.Compile(c.Indexing)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := query.Compile("SELECT * FROM c WHERE c.double = 6", nil, ix, query.Options{Computed: c.Indexing.Computed})
	if err != nil {
		t.Fatal(err)
	}
	if read, found := hits(plan); read != 200 || found != 0 {
		t.Errorf("index behind: %d documents read, %d found by the index", read, found)
	}
}

// BenchmarkSmallPage reads pages of an ordered query of many documents, continued by a
// filter, as clients do.
func BenchmarkSmallPage(b *testing.B) {
	for _, documents := range []int64{5000, 50_000} {
		w := rankedWorld(b, documents)
		for _, filter := range []string{"true", "IS_DEFINED(c.n) AND (c.n > 1000 OR IS_STRING(c.n) OR IS_ARRAY(c.n) OR IS_OBJECT(c.n))", "c.b > 5"} {
			plan := w.planOf("SELECT * FROM c WHERE " + filter + " ORDER BY c.n")
			for _, rows := range []int{1, 7, 100} {
				b.Run(fmt.Sprintf("documents=%d/rows=%d/filter=%.10s", documents, rows, filter), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						page, err := w.query(b.Context(), plan, partitionkey.Full(), query.Budget{MaxItems: rows}, nil)
						if err != nil || len(page.Rows) != rows {
							b.Fatal(len(page.Rows), err)
						}
					}
				})
			}
		}
	}
}
