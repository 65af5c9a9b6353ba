package partition

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/partition/check"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// byText is an index on the text of rowBody, byStatic one on that of static rows.
func byText() *row.Index {
	return &row.Index{Part: row.IndexRegular, Of: row.IndexValue, Types: []row.KeyColumn{{Type: row.Native(row.KindText)}}}
}

func byStatic() *row.Index {
	x := byText()
	x.Part = row.IndexStatic
	return x
}

// index changes the secondary indexes of the table, in the background.
func (w *world) index(definitions ...string) {
	next := *w.container.Load()
	next.Indexing.Rows = definitions
	w.container.Store(&next)
	w.partition.Load().Reindex()
}

// lookup looks for a text.
func lookup(x *row.Index, text string) *Lookup {
	return &Lookup{Definition: x.Text(), Value: x.AppendValue(nil, []byte(text), nil), First: []string{row.MetaItem, row.StaticItem}, Whole: x.Part == row.IndexStatic}
}

// with returns the items with a text.
func with(list []string, text string) (found []string) {
	for _, one := range list {
		if strings.HasSuffix(one, "="+text) {
			found = append(found, one)
		}
	}
	return found
}

// TestLookupModel draws changes of rows, creates and drops an index again and again, and
// crashes in between: what the index finds, of one key, of slices and of all keys in
// pages, is what is found without it. Where the partition has the whole index it visits
// nothing else.
func TestLookupModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newTable(t))
			random := rand.New(rand.NewPCG(seed, 11))
			x := byText()
			keys := []string{"theo", "a", "\x00\x04theo\x00\x00\x00\x00", "\xFF\xFE"}
			w.partition.Load().steps.sweepDocuments = 3
			used := 0
			for step := range 400 {
				key, item := keys[random.IntN(len(keys))], fmt.Sprintf("%02d", random.IntN(30))
				_, err := w.change(key, nil, func(i Items) error {
					for range 1 + random.IntN(3) {
						body := rowBody(fmt.Sprint("t", random.IntN(5)))
						if random.IntN(3) == 0 {
							body = nil
						}
						if err := i.Put(rowName(item), body, 0); err != nil {
							return err
						}
						item = fmt.Sprintf("%02d", random.IntN(30))
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				switch step % 80 {
				case 5, 50:
					w.index(x.Text())
				case 40:
					w.index()
				case 9, 60:
					if err := w.crash(random.Float64(), seed); err != nil {
						t.Fatal(err)
					}
					w.partition.Load().steps.sweepDocuments = 3
					w.partition.Load().Reindex()
				}
				used += compareLookup(t, w, x, keys[random.IntN(len(keys))], random)
			}
			if used < 50 {
				t.Errorf("the index was complete %d times", used)
			}
			w.partition.Load().waitIdle()
			w.verify(t)
		})
	}
}

// compareLookup compares a lookup with a visit of all items, and returns 1 if it went
// through a complete index.
func compareLookup(t *testing.T, w *world, x *row.Index, key string, random *rand.Rand) (used int) {
	t.Helper()
	text := fmt.Sprint("t", random.IntN(5))
	from := fmt.Sprintf("\x02%02d", random.IntN(30))
	slice := []Slice{Point(row.MetaItem), {From: from, To: from[:2] + "\xff"}}
	complete := w.partition.Load().HasRowIndex(x.Text())
	compare := func(what string, got, all []string) {
		t.Helper()
		if want := with(all, text); !slices.Equal(with(got, text), want) || complete && len(got) != len(want) && w.partition.Load().HasRowIndex(x.Text()) {
			t.Fatalf("%s: %q, want %q (complete: %t)", what, got, want, complete)
		}
	}
	all, _, err := w.visit(ReadItems{Key: routing(key), Slices: slice}, allItems)
	got, _, err2 := w.visit(ReadItems{Key: routing(key), Slices: slice, Lookup: lookup(x, text)}, allItems)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	compare("a slice", got, all)
	all, _, err = w.visit(ReadItems{Range: partitionkey.Full()}, allItems)
	if err != nil {
		t.Fatal(err)
	}
	got = nil
	var after []byte
	for {
		page, last, err := w.visit(ReadItems{Range: partitionkey.Full(), After: after, Lookup: lookup(x, text)}, 1+random.IntN(4))
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		got, after = append(got, page...), last
	}
	compare("pages of all keys", got, all)
	if complete {
		return 1
	}
	return 0
}

// TestLookupOfStatic finds whole keys by their static rows, and continues inside of a key.
func TestLookupOfStatic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newTable(t))
	x := byStatic()
	w.index(x.Text(), byText().Text())
	for key, text := range map[string]string{"a": "yes", "b": "no", "c": "yes", "d": ""} {
		_, err := w.change(key, nil, func(i Items) error {
			var err error
			if text != "" {
				err = i.Put(row.StaticItem, rowBody(text), 0)
			}
			return errors.Join(err, i.Put(rowName("1"), rowBody("yes"), 0), i.Put(rowName("2"), rowBody("no"), 0))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.partition.Load().waitIdle()
	want := []string{"/=yes", "/1=yes", "/2=no"}
	var all []string
	for _, key := range []string{"a", "c"} {
		for _, one := range want {
			all = append(all, key+one)
		}
	}
	slices.SortStableFunc(all, func(a, b string) int {
		d := w.container.Load().PartitionKey
		return d.Hash(routing(a[:1])).Compare(d.Hash(routing(b[:1])))
	})
	for size := 1; size <= len(all)+1; size++ {
		var got []string
		var after []byte
		for {
			page, last, err := w.visit(ReadItems{Range: partitionkey.Full(), After: after, Lookup: lookup(x, "yes")}, size)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			got, after = append(got, page...), last
		}
		if !slices.Equal(got, all) {
			t.Fatalf("pages of %d: %q, want %q", size, got, all)
		}
	}
	for key, found := range map[string]int{"a": 3, "b": 0, "d": 0} {
		got, _, err := w.visit(ReadItems{Key: routing(key), Slices: []Slice{Point(row.MetaItem), Point(row.StaticItem), {From: row.RowItems}}, Lookup: lookup(x, "yes")}, allItems)
		if err != nil || len(got) != found {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
	// A row that the other index finds comes after the first items of its key.
	got, _, err := w.visit(ReadItems{Range: partitionkey.Full(), Lookup: lookup(byText(), "no")}, allItems)
	if err != nil || len(got) != 3+4 || !slices.Contains(got, "b/=no") || slices.Contains(got, "b/1=yes") {
		t.Errorf("%q, %v", got, err)
	}
	w.verify(t)
}

// TestLookupCharge reads less, and pays less, through an index.
func TestLookupCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newTable(t))
	x := byText()
	for i := range 300 {
		if err := w.putItem(fmt.Sprint("k", i%10), fmt.Sprintf("%03d", i), fmt.Sprint("t", i%100), 0); err != nil {
			t.Fatal(err)
		}
	}
	charge := func(l *Lookup) (float64, int) {
		var meter throughput.Meter
		got, _, err := w.visit(ReadItems{Range: partitionkey.Full(), Lookup: l, Meter: &meter}, allItems)
		if err != nil {
			t.Fatal(err)
		}
		return meter.Charge(), len(got)
	}
	scan, visited := charge(lookup(x, "t7"))
	if visited != 300 {
		t.Errorf("%d items without the index", visited)
	}
	w.index(x.Text())
	w.partition.Load().waitIdle()
	through, visited := charge(lookup(x, "t7"))
	if visited != 3 || through >= scan/2 {
		t.Errorf("%d items for %v request units, %v without the index", visited, through, scan)
	}
}

// TestSplitAndMergeLookups writes while a table with an index splits and merges: the
// children have exactly the terms of their rows.
func TestSplitAndMergeLookups(t *testing.T) {
	t.Parallel()
	table := newTable(t)
	table.Indexing.Rows = []string{byText().Text()}
	put := func(w *world, from, to int) {
		for i := from; i < to; i++ {
			if err := w.putItem(fmt.Sprint("k", i%40), fmt.Sprintf("%03d", i%97), fmt.Sprint("t", i%7), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := newWorld(t, table)
	put(w, 0, 300)
	s, halves := w.halve(t, "")
	put(w, 250, 400)
	if err := follow(t, s, halves); err != nil {
		t.Fatal(err)
	}
	s.Done()
	if w.checkHalves(t, halves) == 0 {
		t.Error("no items")
	}
	n := newNeighbours(t, table)
	write := func(from, to int) {
		for i := from; i < to; i++ {
			key := fmt.Sprint("k", i%40)
			owner := n.worlds[0]
			if table.PartitionKey.Hash(routing(key)).Compare(n.middle) >= 0 {
				owner = n.worlds[1]
			}
			if err := owner.putItem(key, fmt.Sprintf("%03d", i%97), fmt.Sprint("t", i%7), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(0, 300)
	m, child := n.begin(0)
	write(250, 400)
	n.finish(m, child)
	n.check()
}

// TestLookupOfDueItems removes items that are due, with their terms. Until then they are
// found.
func TestLookupOfDueItems(t *testing.T) {
	t.Parallel()
	table := newTable(t)
	table.Indexing.Rows = []string{byText().Text()}
	w := newWorld(t, table)
	for i := range 20 {
		due := int64(0)
		if i%2 == 0 {
			due = w.clock.Load() + 10
		}
		if err := w.putItem("k", fmt.Sprintf("%02d", i), "t", due); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := w.visit(ReadItems{Range: partitionkey.Full(), Lookup: lookup(byText(), "t")}, allItems)
	if err != nil || len(got) != 20 {
		t.Errorf("%d items, %v", len(got), err)
	}
	_, err = w.change("k", nil, func(i Items) error {
		for n := 0; n < 20; n += 2 {
			if err := i.Put(rowName(fmt.Sprintf("%02d", n)), nil, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err = w.visit(ReadItems{Range: partitionkey.Full(), Lookup: lookup(byText(), "t")}, allItems)
	if err != nil || len(got) != 10 {
		t.Errorf("%d items after half were removed, %v", len(got), err)
	}
	w.verify(t)
}

// TestCheckKnowsTermsOfRows damages the index of a table in both directions.
func TestCheckKnowsTermsOfRows(t *testing.T) {
	t.Parallel()
	table := newTable(t)
	table.Indexing.Rows = []string{byText().Text()}
	w := newWorld(t, table)
	for _, item := range []string{"1", "2"} {
		if err := w.putItem("k", item, "t", 0); err != nil {
			t.Fatal(err)
		}
	}
	snapshot := w.store.Snapshot()
	lists := snapshot.Lists(storage.FamilyTerm.Bounds())
	if !lists.First() {
		t.Fatal("no terms")
	}
	list := slices.Clone(lists.Key())
	numbers := lists.Numbers()
	number, _ := numbers.Next()
	if err := errors.Join(lists.Close(), snapshot.Close()); err != nil {
		t.Fatal(err)
	}
	other := slices.Clone(list)
	other[len(other)-1]++ // the place of the other row
	for _, damage := range []struct {
		change func(b *storage.Batch) error
		want   string
	}{
		{func(b *storage.Batch) error { return b.RemovePosting(list, number) }, "is missing from posting list"},
		{func(b *storage.Batch) error {
			return errors.Join(b.AddPosting(list, number), b.AddPosting(other, number))
		}, "does not belong there"},
	} {
		b := w.store.NewBatch()
		if err := errors.Join(damage.change(b), w.store.Apply(b)); err != nil {
			t.Fatal(err)
		}
		snapshot := w.store.Snapshot()
		report, err := check.Run(snapshot, w.container.Load())
		if err := errors.Join(err, snapshot.Close()); err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0], damage.want) {
			t.Errorf("%v, %q, want %q", err, report.Problems, damage.want)
		}
	}
}
