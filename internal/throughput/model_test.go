package throughput

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/decandb/decan/internal/resource"
)

// TestPublishedFigures compares the published figures with the model. off is the
// tolerance: 0 where the model should match, more where the published figure
// depends on an unknown document or is called approximate.
func TestPublishedFigures(t *testing.T) {
	t.Parallel()
	const terms = 14 // of a small document under the default policy
	for _, figure := range []struct {
		work      string
		published float64
		off       float64
		here      float64
	}{
		{"point read of 1 KB", 1, 0, Read(kilobyte)},
		{"point read of 100 KB", 10, 0.005, Read(100 * kilobyte)},
		{"insert of 1 KB, nothing indexed", 5, 0, Insert(kilobyte, 0)},
		{"insert of 100 KB, nothing indexed", 50, 0.005, Insert(100*kilobyte, 0)},
		{"insert of 1 KB, default index", 6.67, 0.02, Insert(kilobyte, terms)},
		{"insert of 1 KB, the sizing example", 10, 0.2, Insert(kilobyte, 40)},
		{"delete of 1 KB, default index", 6.67, 0.02, Delete(kilobyte, terms)},
		{"upsert over 1 KB, six terms differ", 10.67, 0.06, Replace(kilobyte, kilobyte, 6)},
		{"replace of 1 KB, nine terms differ", 11.05, 0.04, Replace(kilobyte, kilobyte, 9)},
		{"replace of 1 KB, everything differs", 2 * 6.67, 0.04, Replace(kilobyte, kilobyte, 2*terms)},
		{"query for one document of 10 KB", 3.19, 0.005, Query(Work{Documents: 1, Bytes: 10 * kilobyte, Lookups: 1, Hits: 1, Results: 1})},
		{"query that finds nothing", 2.3, 0.1, Query(Work{Lookups: 1})},
		{"query for one document of 1 KB", 2.65, 0.35, Query(Work{Documents: 1, Bytes: kilobyte, Lookups: 1, Hits: 1, Results: 1})},
		{"query for 1,000 documents of 1 KB", 1000, 10, Query(Work{Documents: 1000, Bytes: 1000 * kilobyte, Lookups: 1, Hits: 1000, Results: 1000})},
		{"one more physical partition", 2.5, 0.5, Query(Work{Lookups: 1})},
		{"point read of 1 KB, strong", 2, 0, AtLevel(Read(kilobyte), resource.Strong)},
		{"point read of 1 KB, bounded staleness", 2, 0, AtLevel(Read(kilobyte), resource.BoundedStaleness)},
		{"point read of 1 KB, session", 1, 0, AtLevel(Read(kilobyte), resource.Session)},
	} {
		if math.Abs(figure.here-figure.published) > figure.off+1e-9 {
			t.Errorf("%s: %.4f, published %.2f", figure.work, figure.here, figure.published)
		}
	}
}

// TestSmallest checks that nothing is free, and that an empty document costs
// what the smallest one does.
func TestSmallest(t *testing.T) {
	t.Parallel()
	if Read(0) != 1 || Read(1) != 1 || Insert(0, 0) != 5 || Refused(0) != 1 || Query(Work{}) < 2 {
		t.Errorf("read %v, insert %v, refused %v, query %v", Read(0), Insert(0, 0), Refused(0), Query(Work{}))
	}
}

// TestMonotone checks that more work never costs less.
func TestMonotone(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		size, grown := random.IntN(2<<20), random.IntN(1<<20)
		terms, more := random.IntN(5000), random.IntN(5000)
		for name, pair := range map[string][2]float64{
			"read":              {Read(size), Read(size + grown)},
			"insert size":       {Insert(size, terms), Insert(size+grown, terms)},
			"insert terms":      {Insert(size, terms), Insert(size, terms+more)},
			"replace old size":  {Replace(size, 100, terms), Replace(size+grown, 100, terms)},
			"replace new size":  {Replace(100, size, terms), Replace(100, size+grown, terms)},
			"insert to replace": {Insert(size, terms), Replace(size, size, terms)},
		} {
			if pair[0] > pair[1] {
				t.Fatalf("%s: %v costs more than %v (size %d+%d, terms %d+%d)", name, pair[0], pair[1], size, grown, terms, more)
			}
		}
		w := randomWork(random)
		base := Query(w)
		for i, grow := range []func(w Work) Work{
			func(w Work) Work { w.Documents++; return w },
			func(w Work) Work { w.Bytes += 1000; return w },
			func(w Work) Work { w.Lookups++; return w },
			func(w Work) Work { w.Hits++; return w },
			func(w Work) Work { w.Results++; return w },
			func(w Work) Work { w.Vectors++; return w },
			func(w Work) Work { w.Calls++; return w },
		} {
			// A part of the first document has been paid for already.
			if more := Query(grow(w)); more < base || i > 1 && more == base {
				t.Fatalf("growing field %d of %+v costs less, or nothing", i, w)
			}
		}
	}
}

func randomWork(random *rand.Rand) Work {
	documents := random.Int64N(1000)
	return Work{
		Documents: documents,
		Bytes:     documents * (100 + random.Int64N(8*kilobyte)),
		Lookups:   random.Int64N(10),
		Hits:      random.Int64N(2000),
		Results:   documents,
		Vectors:   random.Int64N(20_000),
		Calls:     random.Int64N(2*documents + 1),
	}
}

// TestPagesSumToTheWhole checks that the pages of a query together cost what one
// page would have cost.
func TestPagesSumToTheWhole(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		first := randomWork(random)
		first.Documents, first.Bytes = first.Documents+2, first.Bytes+kilobyte // at least one unit
		whole, sum := first, Query(first)
		for range random.IntN(10) {
			page := randomWork(random)
			page.Lookups, page.Resumed = 0, true
			sum += Query(page)
			whole.Documents += page.Documents
			whole.Bytes += page.Bytes
			whole.Vectors += page.Vectors
			whole.Calls += page.Calls
			whole.Hits += page.Hits
			whole.Results += page.Results
		}
		if want := Query(whole); math.Abs(sum-want) > 1e-6 {
			t.Fatalf("pages cost %v, the whole %v", sum, want)
		}
	}
}

// TestEmptyPageCostsAVisit checks that a later page that found nothing costs
// what a query costs that finds nothing.
func TestEmptyPageCostsAVisit(t *testing.T) {
	t.Parallel()
	if got, want := Query(Work{Resumed: true}), Query(Work{}); got != want || got == 0 {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := Query(Work{Resumed: true, Hits: 1}), Query(Work{}); got >= want {
		t.Errorf("a page with something costs %v, want less than %v", got, want)
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	var m Meter
	if m.Charge() != 0 {
		t.Errorf("fresh meter shows %v", m.Charge())
	}
	m.Add(1.004)
	if got := m.Charge(); got != 1 {
		t.Errorf("1.004 shows as %v", got)
	}
	m.Add(0.001)
	if got := m.Charge(); got != 1.01 {
		t.Errorf("1.005 shows as %v", got)
	}
	var nobody *Meter
	nobody.Add(5)
	nobody.Merge(&m)
	m.Merge(nobody)
	if nobody.Charge() != 0 || m.Charge() != 1.01 {
		t.Errorf("nil meter counts")
	}
	for _, wrong := range []float64{-1, math.NaN()} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a charge of %v was added", wrong)
				}
			}()
			m.Add(wrong)
		}()
	}
}

// TestMergeInAnyOrder checks that the sum of a fan-out does not depend on which
// partition answers first.
func TestMergeInAnyOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	parts := make([]Meter, 100)
	for i := range parts {
		for range 10 {
			parts[i].Add(random.Float64() * 1000)
		}
	}
	var want Meter
	for i := range parts {
		want.Merge(&parts[i])
	}
	for range 20 {
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		var got Meter
		for i := range parts {
			got.Merge(&parts[i])
		}
		if got != want {
			t.Fatalf("sum %v, in another order %v", want.Charge(), got.Charge())
		}
	}
}

func BenchmarkMeter(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var m Meter
		m.Add(Insert(2000, 20))
		m.Charge()
	}
}
