package partition

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// recallK is the number of rows of the searches below.
const recallK = 10

// vectorWorld is a partition of vectors that cluster around a hundred centers, like
// those of texts, with a property n that counts to a hundred.
type vectorWorld struct {
	*world
	random     *rand.Rand
	dimensions int
	centers    [][]float64
}

func newVectorWorld(tb testing.TB, kind string, dimensions, documents int) *vectorWorld {
	tb.Helper()
	const seed = 2026
	w := &vectorWorld{random: rand.New(rand.NewPCG(seed, uint64(dimensions))), dimensions: dimensions}
	for range 100 {
		center := make([]float64, dimensions)
		for i := range center {
			center[i] = w.random.NormFloat64()
		}
		w.centers = append(w.centers, center)
	}
	w.world = newWorld(tb, containerWith(tb, 2, []string{"/id"}, vectorPolicy(kind, "float32", dimensions)))
	w.load(documents)
	w.cacheBytes = 256 << 20
	if err := errors.Join(w.store.Flush(), w.close(), w.open()); err != nil {
		tb.Fatal(err)
	}
	return w
}

// load writes documents, several at the same time.
func (w *vectorWorld) load(documents int) {
	texts := make(chan string)
	var writers sync.WaitGroup
	for range 16 {
		writers.Go(func() {
			for text := range texts {
				doc, err := value.ParseString(text)
				if err == nil {
					_, err = w.write(Create, doc, nil)
				}
				if err != nil {
					w.tb.Error(err)
				}
			}
		})
	}
	for i := range documents {
		texts <- fmt.Sprintf(`{"id":"%d","n":%d,"v":%s}`, i, i%100, w.vector())
	}
	close(texts)
	writers.Wait()
}

func vectorPolicy(kind, element string, dimensions int) string {
	return fmt.Sprintf(`{"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/v/*"}],"vectorIndexes":[{"path":"/v","type":%q}]},`+
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":%q,"dimensions":%d,"distanceFunction":"cosine"}]}}`, kind, element, dimensions)
}

// vector draws a vector near a center, as JSON.
func (w *vectorWorld) vector() string {
	center := w.centers[w.random.IntN(len(w.centers))]
	text := []byte{'['}
	for i, x := range center {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendFloat(text, math.Round(100*(x+0.5*w.random.NormFloat64()))/100, 'g', -1, 64)
	}
	return string(append(text, ']'))
}

// nearestText is the text of a search; how is the text after its vectors.
func nearestText(vector, how, where string) string {
	return fmt.Sprintf("SELECT TOP %d VALUE c.id FROM c %s ORDER BY VectorDistance(c.v, %s%s)", recallK, where, vector, how)
}

// recall returns how many of the correct rows a search finds.
func recall(tb testing.TB, w *vectorWorld, queries int, how, where string) float64 {
	tb.Helper()
	found := 0
	for range queries {
		vector := w.vector()
		want := w.answer(tb, nearestText(vector, ", true", where))
		right := map[string]bool{}
		for _, id := range want {
			right[id] = true
		}
		for _, id := range w.answer(tb, nearestText(vector, how, where)) {
			if right[id] {
				found++
			}
		}
	}
	return float64(found) / float64(queries*recallK)
}

func (w *vectorWorld) answer(tb testing.TB, text string) []string {
	tb.Helper()
	rows, _, err := w.rows(text, partitionkey.Full(), 0, nil)
	if err != nil || len(rows) != recallK {
		tb.Fatalf("%d rows: %v", len(rows), err)
	}
	return rows
}

// checkLatest compares the documents that a source yields backwards with a list in the
// order of their numbers: the admitted ones, or all if the index does not cover the
// condition.
func checkLatest(t *testing.T, s probe, need query.Need, label string, admitted, all []plain, known bool) {
	t.Helper()
	if !known {
		admitted = all
	}
	var want, got []uint64
	for _, d := range slices.Backward(admitted) {
		if need.After == 0 || d.number < need.After {
			want = append(want, d.number)
		}
	}
	for c, err := range s.Latest(t.Context(), need) {
		if err != nil {
			t.Fatalf("latest of %s: %v", label, err)
		}
		got = append(got, c.Number)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("latest of %s below %d: %v, want %v", label, need.After, got, want)
	}
}

// TestRecallOfSearches checks the numbers in docs/compatibility.md; with -v it prints
// them.
func TestRecallOfSearches(t *testing.T) {
	t.Parallel()
	documents, queries, widths := 10_000, 20, []int{128, 768}
	if raceDetector {
		documents, queries, widths = 1_000, 3, widths[:1]
	}
	for _, dimensions := range widths {
		t.Run(fmt.Sprint("dimensions=", dimensions), func(t *testing.T) {
			w := newVectorWorld(t, "quantizedFlat", dimensions, documents)
			for _, c := range []struct {
				name, how, where string
				floor            float64
			}{
				{"all", "", "", 0.98},
				{"half of all", "", "WHERE c.n < 50", 0.98},
				{"a hundredth", "", "WHERE c.n = 7", 1},
				{"what no index tells", "", "WHERE c.n * 2 >= 150", 0.98},
				{"a short list", ", false, {quantizedVectorListMultiplier: 1}", "", 0.6},
			} {
				got := recall(t, w, queries, c.how, c.where)
				t.Logf("recall@%d among %s: %.3f", recallK, c.name, got)
				if got < c.floor {
					t.Errorf("recall@%d among %s is %.3f, want %.3f", recallK, c.name, got, c.floor)
				}
			}
		})
	}
}

// BenchmarkNearest compares the ways to find the ten nearest of 10,000 vectors.
func BenchmarkNearest(b *testing.B) {
	for _, dimensions := range []int{128, 768} {
		w := newVectorWorld(b, "quantizedFlat", dimensions, 10_000)
		for _, c := range []struct{ way, how, where string }{
			{"codes", "", ""},
			{"flat", ", true", ""},
			{"filtered", "", "WHERE c.n = 7"},
			{"documents", ", true", ""},
		} {
			b.Run(fmt.Sprintf("dimensions=%d/way=%s", dimensions, c.way), func(b *testing.B) {
				p := w.partition.Load()
				now, err := p.acquire()
				if err != nil {
					b.Fatal(err)
				}
				defer p.release(now)
				var plans []*query.Plan
				for range 16 {
					plan, err := query.Compile(nearestText(w.vector(), c.how, c.where), nil, now.Indexing.Active.Index, query.Options{})
					if err != nil {
						b.Fatal(err)
					}
					plans = append(plans, plan)
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					s := p.reader.Source(&now.Snapshot, partitionkey.Full(), p.own.Range)
					var source query.Source = s
					if c.way == "documents" {
						source = struct{ query.Source }{s}
					}
					page, err := plans[i%len(plans)].Run(b.Context(), source, query.Budget{})
					if err != nil || len(page.Rows) != recallK {
						b.Fatal(len(page.Rows), err)
					}
					s.Free()
					i++
				}
				b.StopTimer()
				b.ReportMetric(recall(b, w, 10, c.how, c.where), "recall")
			})
		}
	}
}
