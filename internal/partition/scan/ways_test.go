package scan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/throughput"
)

// waysWorld has documents of 40 keys. In each key, a hundredth of the documents share a
// value of n that all keys have, and a tenth a value of own that no other key has.
func waysWorld(tb testing.TB, each int) *world {
	tb.Helper()
	w := newWorld(tb, "/pk", "")
	for i := range 40 * each {
		key, at := i%40, i/40
		text := fmt.Sprintf(`{"id":"d%d","pk":"k%d","n":%d,"own":"o%d-%d","rank":%d,"name":"name %d","half":%t}`, i, key, at%(each/10), key, at%10, at, at, at%2 == 0)
		w.write(partition.Create, "", text)
	}
	return w
}

// shapesOfWays are filters that are evaluated differently by lists and by documents.
var shapesOfWays = []string{
	"", "WHERE c.n = 3", "WHERE c.n IN (1, 2, 3)", "WHERE c.rank >= 10 AND c.rank < 20", "WHERE c.rank >= 0",
	"WHERE c.n = 3 AND c.half = true", "WHERE c.n = 3 AND c.rank > 5", `WHERE CONTAINS(c.name, "1")`,
	`WHERE STARTSWITH(c.name, "name 2")`, `WHERE c.own = "o3-4"`, `WHERE c.own = "o9-4"`, "WHERE c._ts > 5 AND c.n = 1",
	"WHERE c.n = 1 OR c.rank > 95", "WHERE c.n = 99999", "WHERE NOT IS_DEFINED(c.n)",
}

// Each way returns the same rows in the same order, for the same charge, whatever the
// size of pages: with and without a roster, by lists and by documents.
func TestWaysAgree(t *testing.T) {
	t.Parallel()
	w := waysWorld(t, 100)
	var ways []scan.Forced
	for n := range 9 {
		goes, rosters := scan.Way(n/3), scan.Way(n%3)
		ways = append(ways, scan.Forced{Way: goes, Rosters: rosters}, scan.Forced{Way: goes, Rosters: rosters, Lists: true}, scan.Forced{Way: goes, Rosters: rosters, Match: true})
	}
	for _, shape := range shapesOfWays {
		for _, page := range []query.Budget{{MaxItems: 7}, {MaxItems: 1000}, {MaxBytes: 1500}, {MaxItems: 30, MaxBytes: 4000}} {
			r := w.keyRange("k3")
			var rows []string
			var charge float64
			for i, force := range ways {
				w.reader.Strategy.Force = force
				meter := new(throughput.Meter)
				got := w.rows("SELECT * FROM c "+shape, r, page, meter)
				if i == 0 {
					rows, charge = got, meter.Charge()
				}
				if !slices.Equal(got, rows) || meter.Charge() != charge {
					t.Errorf("%s in pages of %d rows and %d bytes with %+v: %d rows for %v, want %d for %v",
						shape, page.MaxItems, page.MaxBytes, force, len(got), meter.Charge(), len(rows), charge)
				}
			}
		}
	}
}

// A page that is limited by documents or bytes is filled by look-ups, where reading all
// documents would take a pass.
func TestChoiceByPage(t *testing.T) {
	t.Parallel()
	w := waysWorld(t, 200)
	w.reader.Strategy.Costs.Seat = w.reader.Strategy.Costs.Find // as for a key whose roster has no places of rows
	r := w.keyRange("k3")
	s := w.source(r)
	if _, err := s.Enroll(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Free()
	_, bytes, ok := w.reader.Roster(r.Min, w.now().LSN)
	if !ok {
		t.Fatal("there is no roster")
	}
	mean := int(bytes)
	for _, c := range []struct {
		where       string
		want, bytes int
		chosen      scan.Way
	}{
		{"WHERE c.half = true", 0, 0, scan.Passes},           // half of 200 documents
		{"WHERE c.half = true", 10, 0, scan.Looks},           // ten of them
		{"WHERE c.half = true", 0, 10 * mean, scan.Looks},    // about ten of them
		{"WHERE c.half = true", 1000, 10 * mean, scan.Looks}, // the smaller number counts
		{"WHERE c.half = true", 10, 1000 * mean, scan.Looks},
		{"WHERE c.half = true", 1000, 1000 * mean, scan.Passes}, // more than exist
		{"WHERE c.half = true", 0, 150 * mean, scan.Passes},     // too many for look-ups
		{"", 0, 0, scan.Passes},
		{"", 0, 10 * mean, scan.Looks},
		{"", 0, 1000 * mean, scan.Passes},
	} {
		plan := w.planOf("SELECT * FROM c " + c.where)
		s := w.source(r)
		got, err := s.Choose(t.Context(), plan.Access(), query.Need{Access: plan.Access(), Want: c.want, WantBytes: c.bytes})
		if err != nil || got != c.chosen {
			t.Errorf("%q for %d documents or %d bytes: %v (%v), want %v", c.where, c.want, c.bytes, got, err, c.chosen)
		}
		s.Free()
	}
}

// A roster follows added and removed documents, and a reader of an older state does not
// see later ones.
func TestRosterFollowsWrites(t *testing.T) {
	t.Parallel()
	w := waysWorld(t, 20)
	random := rand.New(rand.NewPCG(1, 2))
	r := w.keyRange("k1")
	there := map[string]bool{}
	for at := range 20 {
		there[fmt.Sprintf("d%d", at*40+1)] = true
	}
	check := func(step int) {
		t.Helper()
		w.reader.Strategy.Force = scan.Forced{Way: scan.Looks}
		got := w.rows("SELECT VALUE c.id FROM c WHERE c.n >= 0", r, query.Budget{}, nil)
		w.reader.Strategy.Force = scan.Forced{Way: scan.Passes, Rosters: scan.Passes}
		want := w.rows("SELECT VALUE c.id FROM c WHERE c.n >= 0", r, query.Budget{}, nil)
		if !slices.Equal(got, want) || len(got) != len(there) {
			t.Fatalf("step %d: %d rows, %d without a roster, and %d were written", step, len(got), len(want), len(there))
		}
	}
	w.reader.Strategy.Force = scan.Forced{Way: scan.Looks, Rosters: scan.Looks}
	if w.rows("SELECT * FROM c WHERE c.n >= 0", r, query.Budget{}, nil); w.reader.RosterCount() != 1 {
		t.Fatalf("%d rosters after a query that makes one", w.reader.RosterCount())
	}
	old := w.keep()
	before := int64(len(there))
	for step := range 400 {
		id := fmt.Sprintf("d%d", random.IntN(40)*40+1)
		op := partition.Upsert
		if there[id] && random.IntN(2) == 0 {
			op = partition.Delete
		}
		w.write(op, id, fmt.Sprintf(`{"id":%q,"pk":"k1","n":%d}`, id, random.IntN(5)))
		if there[id] = op == partition.Upsert; !there[id] {
			delete(there, id)
		}
		if step%7 == 0 || step > 380 {
			check(step)
		}
	}
	if w.reader.RosterCount() != 1 {
		t.Errorf("%d rosters are left", w.reader.RosterCount())
	}
	if set, _, ok := w.reader.Roster(r.Min, old.LSN); ok {
		if n, err := set.Count(); err != nil || n != before {
			t.Errorf("a reader of the first state sees %d documents of %d: %v", n, before, err)
		}
	}
}

// The memory for rosters is bounded: the least recently used one is dropped.
func TestRostersMakeRoom(t *testing.T) {
	t.Parallel()
	w := waysWorld(t, 20)
	const most = 4 << 10
	w.rosters.SetMax(most)
	w.reader.Strategy.Force = scan.Forced{Way: scan.Looks, Rosters: scan.Looks}
	for i := range 40 {
		w.rows("SELECT * FROM c WHERE c.n >= 0", w.keyRange(fmt.Sprintf("k%d", i)), query.Budget{}, nil)
		if used := w.rosters.Used(); used > most {
			t.Fatalf("rosters take %d bytes of %d", used, most)
		}
	}
	if n := w.reader.RosterCount(); n == 0 || n == 40 {
		t.Errorf("%d rosters are kept of 40", n)
	}
	if _, _, ok := w.reader.Roster(w.keyRange("k39").Min, w.now().LSN); !ok {
		t.Error("the last roster is not there")
	}
}

// The choice depends on the costs and on what is known about the key.
func TestChoice(t *testing.T) {
	t.Parallel()
	w := waysWorld(t, 200)
	r := w.keyRange("k3")
	for _, c := range []struct {
		where  string
		roster bool
		want   scan.Way
	}{
		{`WHERE c.own = "o3-4"`, false, scan.Looks},                   // 20 documents, all of the key
		{"WHERE c.half = true", false, scan.Passes},                   // half of all documents, and no roster
		{"WHERE c.half = true", true, scan.Looks},                     // half of the key, with places in the roster
		{"WHERE c.n = 3", true, scan.Looks},                           // ten of the key, and 400 of the partition
		{"WHERE c.n = 3 AND c.half = true", true, scan.Looks},         // the same, and a long list
		{`WHERE c.n = 3 AND CONTAINS(c.name, "1")`, true, scan.Looks}, // the names are compared in ten documents
		{"WHERE c.rank >= 10 AND c.rank < 20", true, scan.Looks},      // ten short lists
		{`WHERE CONTAINS(c.name, "1")`, true, scan.Passes},            // a list for each name
	} {
		w.reader.Strategy.Force = scan.Forced{}
		w.reader.DropRosters()
		if c.roster {
			s := w.source(r)
			if _, err := s.Enroll(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Free()
		}
		plan := w.planOf("SELECT * FROM c " + c.where)
		s := w.source(r)
		got, err := s.Choose(t.Context(), plan.Access(), query.Need{Access: plan.Access()})
		if err != nil || got != c.want {
			t.Errorf("%s, roster %t: %v (%v), want %v", c.where, c.roster, got, err, c.want)
		}
		s.Free()
	}
}
