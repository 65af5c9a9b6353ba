package partition

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// waysWorld has documents of 40 keys. Of each key a hundredth shares n, which all keys
// have, and a tenth own, which no other key has.
func waysWorld(tb testing.TB, each int) *world {
	tb.Helper()
	w := newWorld(tb, containerWith(tb, 2, []string{"/pk"}, ""))
	for i := range 40 * each {
		key, at := i%40, i/40
		text := fmt.Sprintf(`{"id":"d%d","pk":"k%d","n":%d,"own":"o%d-%d","rank":%d,"name":"name %d","half":%t}`, i, key, at%(each/10), key, at%10, at, at, at%2 == 0)
		if _, err := w.write(Create, w.parse(text), nil); err != nil {
			tb.Fatal(err)
		}
	}
	return w
}

func (w *world) keyRange(tb testing.TB, name string) partitionkey.Range {
	tb.Helper()
	r, err := w.container.Load().PartitionKey.Prefix(partitionkey.NewKey(partitionkey.String(name)))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// shapesOfWays are filters that lists and documents tell in different ways.
var shapesOfWays = []string{
	"", "WHERE c.n = 3", "WHERE c.n IN (1, 2, 3)", "WHERE c.rank >= 10 AND c.rank < 20", "WHERE c.rank >= 0",
	"WHERE c.n = 3 AND c.half = true", "WHERE c.n = 3 AND c.rank > 5", `WHERE CONTAINS(c.name, "1")`,
	`WHERE STARTSWITH(c.name, "name 2")`, `WHERE c.own = "o3-4"`, `WHERE c.own = "o9-4"`, "WHERE c._ts > 5 AND c.n = 1",
	"WHERE c.n = 1 OR c.rank > 95", "WHERE c.n = 99999", "WHERE NOT IS_DEFINED(c.n)",
}

// Each way gives the same rows in the same order, for the same charge, whatever the
// size of pages: with and without a roster, by lists and by documents.
func TestWaysAgree(t *testing.T) {
	t.Parallel()
	w := waysWorld(t, 100)
	p := w.partition.Load()
	var ways []forced
	for n := range 9 {
		goes, rosters := way(n/3), way(n%3)
		ways = append(ways, forced{way: goes, rosters: rosters}, forced{way: goes, rosters: rosters, lists: true}, forced{way: goes, rosters: rosters, told: true})
	}
	for _, shape := range shapesOfWays {
		for _, ask := range []struct {
			key  string
			page int
		}{{"k3", 7}, {"k3", 1000}} {
			r := w.keyRange(t, ask.key)
			var rows []string
			var charge float64
			for i, force := range ways {
				p.reader.Strategy.force = force
				meter := new(throughput.Meter)
				got, _, err := w.rows("SELECT * FROM c "+shape, r, ask.page, meter)
				if err != nil {
					t.Fatalf("%s with %+v: %v", shape, force, err)
				}
				if i == 0 {
					rows, charge = got, float64(meter.Charge())
				}
				if !slices.Equal(got, rows) || float64(meter.Charge()) != charge {
					t.Errorf("%s in pages of %d with %+v: %d rows for %v, want %d for %v", shape, ask.page, force, len(got), meter.Charge(), len(rows), charge)
				}
			}
		}
	}
}

// A page that a number of documents fills, or of bytes, is filled by look-ups where to
// read all that count would take a pass.
func TestChoiceByPage(t *testing.T) {
	t.Parallel()
	w := waysWorld(t, 200)
	p := w.partition.Load()
	p.reader.Strategy.costs.seat = p.reader.Strategy.costs.find // as in a key whose roster does not know where rows are
	r := w.keyRange(t, "k3")
	now, err := p.acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer p.release(now)
	s := p.reader.Source(&now.shot, r, r)
	if _, err := s.enroll(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.Free()
	mean := int(p.reader.rosters.of(r.Min, now.LSN).mean)
	for _, c := range []struct {
		where       string
		want, bytes int
		chosen      way
	}{
		{"WHERE c.half = true", 0, 0, passes},           // half of 200 documents
		{"WHERE c.half = true", 10, 0, looks},           // ten of them
		{"WHERE c.half = true", 0, 10 * mean, looks},    // about ten of them
		{"WHERE c.half = true", 1000, 10 * mean, looks}, // the smaller number counts
		{"WHERE c.half = true", 10, 1000 * mean, looks},
		{"WHERE c.half = true", 1000, 1000 * mean, passes}, // more than there are
		{"WHERE c.half = true", 0, 150 * mean, passes},     // more than look-ups are worth
		{"", 0, 0, passes},
		{"", 0, 10 * mean, looks},
		{"", 0, 1000 * mean, passes},
	} {
		plan, err := query.Compile("SELECT * FROM c "+c.where, nil, now.indexing.Active.Index, query.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := p.reader.Source(&now.shot, r, r)
		got, err := s.choose(context.Background(), plan.Access(), query.Need{Access: plan.Access(), Want: c.want, WantBytes: c.bytes})
		if err != nil || got.way != c.chosen {
			t.Errorf("%q for %d documents or %d bytes: %v (%v), want %v", c.where, c.want, c.bytes, got.way, err, c.chosen)
		}
		if got.set != nil {
			got.set.Close()
		}
		s.Free()
	}
}

// A roster follows the documents that come and go, and a reader of an older state does
// not see what came later.
func TestRosterFollowsWrites(t *testing.T) {
	t.Parallel()
	w := waysWorld(t, 20)
	p := w.partition.Load()
	random := rand.New(rand.NewPCG(1, 2))
	r := w.keyRange(t, "k1")
	there := map[string]bool{}
	for at := range 20 {
		there[fmt.Sprintf("d%d", at*40+1)] = true
	}
	check := func(step int) {
		t.Helper()
		p.reader.Strategy.force = forced{way: looks}
		got, _, err := w.rows("SELECT VALUE c.id FROM c WHERE c.n >= 0", r, 1000, nil)
		p.reader.Strategy.force = forced{way: passes, rosters: passes}
		want, _, wrong := w.rows("SELECT VALUE c.id FROM c WHERE c.n >= 0", r, 1000, nil)
		if err != nil || wrong != nil || !slices.Equal(got, want) || len(got) != len(there) {
			t.Fatalf("step %d: %d rows (%v), %d without a roster (%v), and %d were written", step, len(got), err, len(want), wrong, len(there))
		}
	}
	p.reader.Strategy.force = forced{way: looks, rosters: looks}
	if _, _, err := w.rows("SELECT * FROM c WHERE c.n >= 0", r, 1000, nil); err != nil || p.reader.rosters.count.Load() != 1 {
		t.Fatalf("%d rosters after a query that makes one: %v", p.reader.rosters.count.Load(), err)
	}
	old, err := p.acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer p.release(old)
	before := int64(len(there))
	for step := range 400 {
		id := fmt.Sprintf("d%d", random.IntN(40)*40+1)
		op := Upsert
		if there[id] && random.IntN(2) == 0 {
			op = Delete
		}
		doc := w.parse(fmt.Sprintf(`{"id":%q,"pk":"k1","n":%d}`, id, random.IntN(5)))
		if _, err := w.write(op, doc, func(q *Write) { q.ID = id }); err != nil {
			t.Fatal(err)
		}
		if there[id] = op == Upsert; !there[id] {
			delete(there, id)
		}
		if step%7 == 0 || step > 380 {
			check(step)
		}
	}
	if p.reader.rosters.count.Load() != 1 {
		t.Errorf("%d rosters are left", p.reader.rosters.count.Load())
	}
	if e := p.reader.rosters.of(r.Min, old.LSN); e.numbers != nil {
		if n, err := e.postings().Count(); err != nil || n != before {
			t.Errorf("a reader of the first state sees %d documents of %d: %v", n, before, err)
		}
	}
}

// The room for rosters is bounded: the one that was used the longest time ago goes.
func TestRostersMakeRoom(t *testing.T) {
	t.Parallel()
	w := waysWorld(t, 20)
	p := w.partition.Load()
	p.reader.rosters.shared.max = 4 << 10
	p.reader.Strategy.force = forced{way: looks, rosters: looks}
	for i := range 40 {
		if _, _, err := w.rows("SELECT * FROM c WHERE c.n >= 0", w.keyRange(t, fmt.Sprintf("k%d", i)), 1000, nil); err != nil {
			t.Fatal(err)
		}
		if used := p.reader.rosters.shared.bytes; used > p.reader.rosters.shared.max {
			t.Fatalf("rosters take %d bytes of %d", used, p.reader.rosters.shared.max)
		}
	}
	if n := p.reader.rosters.count.Load(); n == 0 || n == 40 {
		t.Errorf("%d rosters are kept of 40", n)
	}
	if e := p.reader.rosters.of(w.keyRange(t, "k39").Min, p.LSN()); e.numbers == nil {
		t.Error("the last roster is not there")
	}
}

// What is chosen follows from the costs and from what is known of the key.
func TestChoice(t *testing.T) {
	t.Parallel()
	w := waysWorld(t, 200)
	p := w.partition.Load()
	r := w.keyRange(t, "k3")
	now, err := p.acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer p.release(now)
	for _, c := range []struct {
		where  string
		roster bool
		want   way
	}{
		{`WHERE c.own = "o3-4"`, false, looks},                   // 20 documents, all of the key
		{"WHERE c.half = true", false, passes},                   // half of all documents, and no roster
		{"WHERE c.half = true", true, looks},                     // half of the key, and the roster says where
		{"WHERE c.n = 3", true, looks},                           // ten of the key, and 400 in all
		{"WHERE c.n = 3 AND c.half = true", true, looks},         // the same, and a long list
		{`WHERE c.n = 3 AND CONTAINS(c.name, "1")`, true, looks}, // the names are asked of ten documents
		{"WHERE c.rank >= 10 AND c.rank < 20", true, looks},      // ten short lists
		{`WHERE CONTAINS(c.name, "1")`, true, passes},            // a list for each name
	} {
		p.reader.Strategy.force = forced{}
		p.reader.rosters.clear(0, false)
		if c.roster {
			s := p.reader.Source(&now.shot, r, r)
			if _, err := s.enroll(context.Background()); err != nil {
				t.Fatal(err)
			}
			s.Free()
		}
		plan, err := query.Compile("SELECT * FROM c "+c.where, nil, now.indexing.Active.Index, query.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := p.reader.Source(&now.shot, r, r)
		got, err := s.choose(context.Background(), plan.Access(), query.Need{Access: plan.Access()})
		if err != nil || got.way != c.want {
			t.Errorf("%s, roster %t: %v (%v), want %v", c.where, c.roster, got.way, err, c.want)
		}
		if got.set != nil {
			got.set.Close()
		}
		s.Free()
	}
}
