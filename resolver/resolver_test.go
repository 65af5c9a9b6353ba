package resolver_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/resolvertest"
)

func names(list []resolver.Target) []string {
	out := []string{}
	for _, t := range list {
		out = append(out, t.Name)
	}
	return out
}

func target(name string) resolver.Target { return resolver.Target{Name: name} }

// must returns the value of a call that cannot fail in a test.
func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// TestContract runs the suite over every resolver of the package (S153, S154).
func TestContract(t *testing.T) {
	keys := []string{"", "a", "J1", "U4", "Ærø", "x y"}
	all := resolvertest.Interval[string]{Interval: resolver.AtLeast(""), Inside: keys}
	for kind := range hashed(t, numbered(5)) {
		t.Run(kind, func(t *testing.T) {
			resolvertest.Run(t, resolvertest.Config[string]{
				New:       func(t *testing.T) resolver.Resolver[string] { return hashed(t, numbered(5))[kind] },
				Keys:      keys,
				Intervals: []resolvertest.Interval[string]{all, {Interval: resolver.Point("J1"), Inside: []string{"J1"}}},
			})
		})
	}
	t.Run("range", func(t *testing.T) {
		resolvertest.Run(t, resolvertest.Config[int]{
			New: func(t *testing.T) resolver.Resolver[int] {
				return must[*resolver.Range[int]](t)(resolver.NewRange([]resolver.RangeEntry[int]{
					{Interval: resolver.HalfOpen(20, 30), Target: target("c")}, {Interval: resolver.HalfOpen(0, 10), Target: target("a")}, {Interval: resolver.HalfOpen(10, 20), Target: target("b")},
				}, resolver.RangeOptions{}))
			},
			Keys: []int{0, 9, 10, 29}, Foreign: []int{-1, 30},
			Intervals: []resolvertest.Interval[int]{{Interval: resolver.Closed(9, 10), Inside: []int{9, 10}}, {Interval: resolver.Below(11), Inside: []int{0, 10}}},
		})
	})
	t.Run("lookup", func(t *testing.T) {
		resolvertest.Run(t, resolvertest.Config[string]{
			New: func(t *testing.T) resolver.Resolver[string] {
				return must[*resolver.Lookup[string]](t)(resolver.NewLookup(scandinavia(), nil))
			},
			Keys: []string{"Norway", "Denmark", "Italy"}, Foreign: []string{"Mars"},
			Intervals: []resolvertest.Interval[string]{{Interval: resolver.AtLeast("N"), Inside: []string{"Norway"}}},
		})
	})
	t.Run("spillover", func(t *testing.T) {
		resolvertest.Run(t, resolvertest.Config[string]{
			New: func(t *testing.T) resolver.Resolver[string] {
				return must[*resolver.Spillover[string]](t)(resolver.NewSpillover[string](resolver.SpilloverConfig{Prefix: "c", Targets: numbered(12)}))
			},
			Keys: keys,
		})
	})
	t.Run("chain", func(t *testing.T) {
		resolvertest.Run(t, resolvertest.Config[resolver.Key]{
			New:     func(t *testing.T) resolver.Resolver[resolver.Key] { return regions(t).Current() },
			Keys:    []resolver.Key{resolver.TextKey("Norway", "J1"), resolver.TextKey("Italy", "J2")},
			Foreign: []resolver.Key{resolver.TextKey("Mars", "J1"), resolver.TextKey("Norway"), {}},
		})
	})
	t.Run("transition", func(t *testing.T) {
		resolvertest.Run(t, resolvertest.Config[string]{
			New: func(t *testing.T) resolver.Resolver[string] {
				return resolver.NewTransition[string](hashed(t, numbered(3))["ring"], hashed(t, numbered(4))["ring"])
			},
			Keys: keys,
		})
	})
	t.Run("single", func(t *testing.T) {
		resolvertest.Run(t, resolvertest.Config[string]{
			New:  func(*testing.T) resolver.Resolver[string] { return resolver.Single[string]{Target: target("only")} },
			Keys: keys,
		})
	})
}

// scandinavia is the table of the classic article: several values in one target
// (S176).
func scandinavia() map[string]resolver.Target {
	north := target("scandinavia")
	return map[string]resolver.Target{"Norway": north, "Denmark": north, "Sweden": north, "Italy": target("south")}
}

// TestLookup sends several values to one target. Unknown values have no target,
// or go to the default (S176, S177).
func TestLookup(t *testing.T) {
	l := must[*resolver.Lookup[string]](t)(resolver.NewLookup(scandinavia(), nil))
	for _, country := range []string{"Norway", "Denmark", "Sweden"} {
		if got, err := l.ForWrite(country); err != nil || got.Name != "scandinavia" {
			t.Errorf("%s goes to %s, %v", country, got.Name, err)
		}
	}
	if _, err := l.ForWrite("Mars"); !errors.Is(err, resolver.ErrNoTarget) {
		t.Errorf("writing an unknown value: %v, want ErrNoTarget", err)
	}
	if got, err := l.ForRead(resolver.Keys("Mars")); err != nil || len(got) != 0 {
		t.Errorf("reading an unknown value: %v, %v, want nothing", got, err)
	}
	other := target("other")
	l = must[*resolver.Lookup[string]](t)(resolver.NewLookup(scandinavia(), &other))
	if got, err := l.ForWrite("Mars"); err != nil || got.Name != "other" {
		t.Errorf("with a default, Mars goes to %s, %v", got.Name, err)
	}
	if got := names(l.Targets()); !slices.Equal(got, []string{"scandinavia", "south", "other"}) {
		t.Errorf("targets %q", got)
	}
}

// TestRangeChecks checks that overlaps and gaps are refused, and that adjacent
// integers leave no gap (S173).
func TestRangeChecks(t *testing.T) {
	entries := func(intervals ...resolver.Interval[int]) []resolver.RangeEntry[int] {
		var list []resolver.RangeEntry[int]
		for i, interval := range intervals {
			list = append(list, resolver.RangeEntry[int]{Interval: interval, Target: target(fmt.Sprint("c", i))})
		}
		return list
	}
	for _, c := range []struct {
		name    string
		entries []resolver.RangeEntry[int]
		options resolver.RangeOptions
		want    error
	}{
		{"half-open", entries(resolver.HalfOpen(1, 5), resolver.HalfOpen(5, 9)), resolver.RangeOptions{}, nil},
		{"closed integers", entries(resolver.Closed(16, 30), resolver.Closed(1, 15)), resolver.RangeOptions{}, nil},
		{"open ends", entries(resolver.Below(0), resolver.AtLeast(0)), resolver.RangeOptions{}, nil},
		{"gap", entries(resolver.HalfOpen(1, 5), resolver.HalfOpen(6, 9)), resolver.RangeOptions{}, resolver.ErrGap},
		{"gap of one value", entries(resolver.HalfOpen(1, 5), resolver.Interval[int]{Low: resolver.Bound[int]{Value: 5, Kind: resolver.Excluded}}), resolver.RangeOptions{}, resolver.ErrGap},
		{"gap that is meant", entries(resolver.HalfOpen(1, 5), resolver.HalfOpen(6, 9)), resolver.RangeOptions{AllowGaps: true}, nil},
		{"shared end", entries(resolver.Closed(1, 5), resolver.Closed(5, 9)), resolver.RangeOptions{}, resolver.ErrOverlap},
		{"overlap", entries(resolver.HalfOpen(1, 7), resolver.HalfOpen(5, 9)), resolver.RangeOptions{AllowGaps: true}, resolver.ErrOverlap},
		{"two of everything", entries(resolver.Everything[int](), resolver.Everything[int]()), resolver.RangeOptions{}, resolver.ErrOverlap},
		{"overlap that is meant", entries(resolver.HalfOpen(1, 7), resolver.HalfOpen(5, 9)), resolver.RangeOptions{FirstWins: true}, nil},
		{"empty", entries(resolver.HalfOpen(5, 5)), resolver.RangeOptions{}, resolver.ErrConfig},
		{"reversed", entries(resolver.Closed(5, 4)), resolver.RangeOptions{FirstWins: true}, resolver.ErrConfig},
		{"none", nil, resolver.RangeOptions{}, resolver.ErrConfig},
	} {
		if _, err := resolver.NewRange(c.entries, c.options); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := resolver.NewRange([]resolver.RangeEntry[string]{{Interval: resolver.Closed("A", "M"), Target: target("a")}, {Interval: resolver.Closed("N", "Z"), Target: target("b")}}, resolver.RangeOptions{}); !errors.Is(err, resolver.ErrGap) {
		t.Errorf("A to M and N to Z: %v, want ErrGap: Mary lies between", err)
	}
}

// TestRangeModel compares random ranges and reads with a linear search (S174).
func TestRangeModel(t *testing.T) {
	r := seed(t)
	for range 300 {
		var entries []resolver.RangeEntry[int]
		low := r.IntN(5)
		for i := range 1 + r.IntN(8) {
			high := low + 1 + r.IntN(6)
			entries = append(entries, resolver.RangeEntry[int]{Interval: resolver.HalfOpen(low, high), Target: target(fmt.Sprint("c", i%5))})
			low = high + r.IntN(2)
		}
		byLow := slices.Clone(entries)
		r.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		resolved := must[*resolver.Range[int]](t)(resolver.NewRange(entries, resolver.RangeOptions{AllowGaps: true}))
		a, b := r.IntN(50), r.IntN(50)
		wanted := resolver.Closed(min(a, b), max(a, b))
		var want []string
		for _, e := range byLow {
			if e.Interval.Low.Value <= max(a, b) && e.Interval.High.Value > min(a, b) && !slices.Contains(want, e.Target.Name) {
				want = append(want, e.Target.Name)
			}
		}
		got := names(must[[]resolver.Target](t)(resolved.ForRead(resolver.Between(wanted))))
		if !slices.Equal(got, want) {
			t.Fatalf("%v over %v: %q, want %q", wanted, byLow, got, want)
		}
		for key := -1; key < 50; key++ {
			i := slices.IndexFunc(byLow, func(e resolver.RangeEntry[int]) bool {
				return e.Interval.Low.Value <= key && key < e.Interval.High.Value
			})
			got, err := resolved.ForWrite(key)
			if (err == nil) != (i >= 0) || i >= 0 && got.Name != byLow[i].Target.Name {
				t.Fatalf("%d over %v: %s, %v", key, byLow, got.Name, err)
			}
		}
	}
}

// TestEventTime is the case of the classic article: the events of 1 to 14 April
// 2015 in one container, and a query over a time range (S147, S171, S175).
func TestEventTime(t *testing.T) {
	day := func(month time.Month, day int) time.Time { return time.Date(2015, month, day, 0, 0, 0, 0, time.UTC) }
	r := must[*resolver.Range[time.Time]](t)(resolver.NewRangeFunc([]resolver.RangeEntry[time.Time]{
		{Interval: resolver.HalfOpen(day(4, 1), day(4, 15)), Target: target("early")},
		{Interval: resolver.HalfOpen(day(4, 15), day(5, 1)), Target: target("late")},
	}, time.Time.Compare, resolver.RangeOptions{}))
	for moment, want := range map[time.Time]string{
		day(4, 1): "early", day(4, 15).Add(-time.Nanosecond): "early", day(4, 15): "late", day(5, 1): "", day(3, 31): "",
	} {
		if got, _ := r.ForWrite(moment); got.Name != want {
			t.Errorf("%v goes to %q, want %q", moment, got.Name, want)
		}
	}
	got := must[[]resolver.Target](t)(r.ForRead(resolver.Between(resolver.Closed(day(4, 14), day(4, 20)))))
	if !slices.Equal(names(got), []string{"early", "late"}) {
		t.Errorf("14 to 20 April is in %q", names(got))
	}
}

// TestBuckets divides time into containers, plans future ones and lists old ones
// for the archive (S147).
func TestBuckets(t *testing.T) {
	date := func(text string) time.Time { return must[time.Time](t)(time.Parse(time.DateOnly, text)) }
	for _, c := range []struct {
		period      resolver.Period
		from, until string
		want        []string
	}{
		{resolver.Daily, "2024-02-28", "2024-03-01", []string{"2024-02-28", "2024-02-29", "2024-03-01"}},
		{resolver.Weekly, "2026-01-01", "2026-01-12", []string{"2025-12-29", "2026-01-05", "2026-01-12"}},
		{resolver.Weekly, "2026-01-04", "2026-01-04", []string{"2025-12-29"}},
		{resolver.Monthly, "2025-12-31", "2026-02-01", []string{"2025-12", "2026-01", "2026-02"}},
		{resolver.Yearly, "2024-12-31", "2025-01-01", []string{"2024", "2025"}},
	} {
		b := resolver.Buckets{Period: c.period}
		var got []string
		for _, e := range must[[]resolver.RangeEntry[time.Time]](t)(b.Entries(date(c.from), date(c.until))) {
			got = append(got, e.Target.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s from %s to %s: %q, want %q", c.period, c.from, c.until, got, c.want)
		}
	}
	b := resolver.Buckets{Period: resolver.Monthly, Template: resolver.Target{Name: "e-", Container: "events-"}, Ahead: 1, Keep: 2}
	plan := must[resolver.BucketPlan](t)(b.Plan(date("2026-01-15"), date("2026-05-15"), []resolver.Target{target("e-2026-01"), target("e-2026-02"), target("e-2026-03"), target("other")}))
	var create []string
	for _, e := range plan.Create {
		create = append(create, e.Target.Container)
	}
	if !slices.Equal(create, []string{"events-2026-04", "events-2026-05", "events-2026-06"}) || !slices.Equal(names(plan.Archive), []string{"e-2026-01", "e-2026-02"}) {
		t.Errorf("plan: create %q, archive %q", create, names(plan.Archive))
	}
	for _, bad := range []resolver.Buckets{{}, {Period: "hour"}, {Period: resolver.Daily, Ahead: -1}} {
		if _, err := bad.Entries(date("2026-01-01"), date("2026-01-02")); !errors.Is(err, resolver.ErrConfig) {
			t.Errorf("%+v: %v, want ErrConfig", bad, err)
		}
	}
	if _, err := (resolver.Buckets{Period: resolver.Daily}).Entries(date("1900-01-01"), date("2026-01-01")); !errors.Is(err, resolver.ErrConfig) {
		t.Errorf("too many buckets: %v", err)
	}
}

// TestTransitionModes checks the four read modes and the five write modes with a
// key that moves and one that stays (S183, S203).
func TestTransitionModes(t *testing.T) {
	table := func(moving string) resolver.Resolver[string] {
		return must[*resolver.Lookup[string]](t)(resolver.NewLookup(map[string]resolver.Target{"stays": target("a"), "moves": target(moving)}, nil))
	}
	current, next := table("b"), table("c")
	for _, c := range []struct {
		read resolver.ReadMode
		want []string
	}{
		{resolver.ReadCurrent, []string{"a", "b"}}, {resolver.ReadNext, []string{"a", "c"}}, {resolver.ReadBoth, []string{"a", "b", "c"}}, {resolver.ReadNone, []string{}},
	} {
		tr := &resolver.Transition[string]{Current: current, Next: next, Read: c.read, RetryAfter: 3 * time.Second}
		got, err := tr.ForRead(resolver.All[string]())
		if !slices.Equal(names(got), c.want) || errors.Is(err, resolver.ErrMigrating) != (c.read == resolver.ReadNone) {
			t.Errorf("%s: %q, %v, want %q", c.read, names(got), err, c.want)
		}
		if held, ok := errors.AsType[*resolver.MigratingError](err); c.read == resolver.ReadNone && (!ok || held.RetryAfter != 3*time.Second) {
			t.Errorf("%s: %v does not say when to try again", c.read, err)
		}
	}
	for _, c := range []struct {
		write         resolver.WriteMode
		first, second string
		err           error
	}{
		{resolver.WriteCurrent, "b", "", nil},
		{resolver.WriteCurrentNext, "b", "c", nil},
		{resolver.WriteNone, "b", "c", resolver.ErrMigrating},
		{resolver.WriteNextCurrent, "c", "b", nil},
		{resolver.WriteNext, "c", "", nil},
		{"other", "", "", resolver.ErrConfig},
	} {
		tr := &resolver.Transition[string]{Current: current, Next: next, Write: c.write}
		route, err := tr.Route("moves")
		if route.First.Name != c.first || route.Second.Name != c.second || route.Moves != (c.second != "") || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", c.write, route, err)
		}
		if stays, err := tr.Route("stays"); !errors.Is(c.err, resolver.ErrConfig) && (err != nil || stays.Moves || stays.First.Name != "a") {
			t.Errorf("%s: a key that stays: %+v, %v", c.write, stays, err)
		}
	}
}

// TestPhases walks forward and back, and checks that adjacent phases agree on
// which layout decides.
func TestPhases(t *testing.T) {
	order := []resolver.Phase{resolver.Prepare, resolver.DualWrite, resolver.Copy, resolver.Verify, resolver.Fence, resolver.Switch, resolver.Clean}
	for i, phase := range order {
		undo := phase != resolver.Switch && phase != resolver.Clean
		if phase.MayBecome(resolver.Undo) != undo {
			t.Errorf("%s may become undo: %v, want %v", phase, !undo, undo)
		}
		for j, other := range order {
			if phase.MayBecome(other) != (j == i+1) {
				t.Errorf("%s may become %s: %v", phase, other, j != i+1)
			}
		}
		if i+1 == len(order) {
			if phase.Following() != "" || !phase.Final() {
				t.Errorf("%s is not the last", phase)
			}
			continue
		}
		if phase.Following() != order[i+1] || phase.Final() {
			t.Errorf("%s is followed by %s", phase, phase.Following())
		}
		checkNeighbours(t, phase, order[i+1])
		if undo {
			checkNeighbours(t, phase, resolver.Undo)
		}
	}
	if read, write := resolver.Phase("other").Modes(); read != resolver.ReadNone || write != resolver.WriteNone {
		t.Errorf("an unknown phase reads %s and writes %s", read, write)
	}
}

// checkNeighbours checks two phases that clients may be in at the same time: a
// client in one phase reads what a client in the other writes, and if the
// deciding layouts differ, neither of them writes.
func checkNeighbours(t *testing.T, a, b resolver.Phase) {
	t.Helper()
	reaches := map[resolver.WriteMode][]resolver.ReadMode{
		resolver.WriteCurrent: {resolver.ReadCurrent}, resolver.WriteNext: {resolver.ReadNext}, resolver.WriteNone: {resolver.ReadCurrent, resolver.ReadNext},
		resolver.WriteCurrentNext: {resolver.ReadCurrent, resolver.ReadNext}, resolver.WriteNextCurrent: {resolver.ReadCurrent, resolver.ReadNext},
	}
	first := map[resolver.WriteMode]string{
		resolver.WriteCurrent: "current", resolver.WriteCurrentNext: "current", resolver.WriteNextCurrent: "next", resolver.WriteNext: "next",
	}
	readA, writeA := a.Modes()
	readB, writeB := b.Modes()
	if !slices.Contains(reaches[writeA], readB) || !slices.Contains(reaches[writeB], readA) {
		t.Errorf("%s and %s: what one writes the other does not read", a, b)
	}
	if first[writeA] != "" && first[writeB] != "" && first[writeA] != first[writeB] {
		t.Errorf("%s and %s: both layouts decide writes", a, b)
	}
}

// document is a document of one of several types (S178).
type document struct {
	Type   string
	UserID string `json:"userId"`
	Order  struct{ Customer string }
}

// TestExtractors takes keys by path, hierarchical ones included, and by
// functions that depend on the type of a document or combine values (S149, S159,
// S163, S178).
func TestExtractors(t *testing.T) {
	byType := resolver.KeyOf(func(d document) (resolver.Key, error) {
		switch d.Type {
		case "user":
			return resolver.TextKey(d.UserID), nil
		case "order":
			return resolver.TextKey(d.Order.Customer + "/" + d.Type), nil
		}
		return resolver.Key{}, errors.New("what is this")
	})
	paths := must[resolver.Extractor](t)(resolver.Paths("/tenant", "/user/id"))
	quoted := must[resolver.Extractor](t)(resolver.Paths(`/"a/b"`))
	for _, c := range []struct {
		extract  resolver.Extractor
		document string
		want     string // "" for ErrKey
	}{
		{byType, `{"type":"user","userId":"J1"}`, `["J1"]`},
		{byType, `{"type":"order","order":{"customer":"J1"}}`, `["J1/order"]`},
		{byType, `{"type":"other"}`, ""},
		{byType, `[`, ""},
		{paths, `{"tenant":"T","user":{"id":7}}`, `["T",7]`},
		{paths, `{"tenant":null,"user":{"id":true}}`, `[null,true]`},
		{paths, `{"tenant":"T"}`, `["T",{}]`},
		{paths, `{"tenant":"T","user":{"id":{"x":1}}}`, `["T",{}]`},
		{paths, `{"tenant":"T","user":[1]}`, `["T",{}]`},
		{paths, `{"tenant":"T","user":{"id":1},"tenant":"U"}`, `["U",1]`},
		{paths, `7`, ""},
		{paths, `{`, ""},
		{quoted, `{"a/b":"x"}`, `["x"]`},
	} {
		key, err := c.extract([]byte(c.document))
		if (c.want == "") != errors.Is(err, resolver.ErrKey) || err == nil && key.String() != c.want {
			t.Errorf("%s: %v, %v, want %s", c.document, key, err, c.want)
		}
	}
	for _, bad := range [][]string{nil, {"tenant"}, {"/a/*"}, {"/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9"}} {
		if _, err := resolver.Paths(bad...); !errors.Is(err, resolver.ErrConfig) {
			t.Errorf("Paths(%q): %v, want ErrConfig", bad, err)
		}
	}
}

// TestKeyConversions converts keys to text, numbers and times.
func TestKeyConversions(t *testing.T) {
	for key, want := range map[string]string{`["J1"]`: "J1", `[""]`: "", `[7]`: "7", `[true]`: "true", `["a",1]`: `["a",1]`, `[null]`: "error", `["[x]"]`: "[x]"} {
		var k resolver.Key
		if err := k.UnmarshalJSON([]byte(key)); err != nil {
			t.Fatal(err)
		}
		if got, err := resolver.Text(k); got != want && (want != "error" || !errors.Is(err, resolver.ErrKey)) {
			t.Errorf("Text(%s) = %q, %v, want %q", key, got, err, want)
		}
	}
	for key, want := range map[string]string{
		`["2015-04-01T00:00:00Z"]`: "2015-04-01T00:00:00Z", `["2015-04-01T02:00:00+02:00"]`: "2015-04-01T00:00:00Z", `["2015-04-01"]`: "2015-04-01T00:00:00Z",
		`["2015-04-01T00:00:00"]`: "2015-04-01T00:00:00Z", `[1427846400]`: "2015-04-01T00:00:00Z", `[1427846400.5]`: "2015-04-01T00:00:00.5Z", `[-0.5]`: "1969-12-31T23:59:59.5Z",
		`["April"]`: "", `[1e300]`: "", `[true]`: "", `["2015-04-01","x"]`: "",
	} {
		var k resolver.Key
		if err := k.UnmarshalJSON([]byte(key)); err != nil {
			t.Fatal(err)
		}
		got, err := resolver.Time(k)
		if (err != nil) != (want == "") || err == nil && got.Format(time.RFC3339Nano) != want {
			t.Errorf("Time(%s) = %v, %v, want %s", key, got, err, want)
		}
	}
}

// TestGroups registers routings by name: a replacement is used from the next
// call, and an unknown name is an error (S150, S158).
func TestGroups(t *testing.T) {
	extract := must[resolver.Extractor](t)(resolver.Paths("/userId"))
	view := func(name string) *resolver.Live {
		return resolver.Static(resolver.NewRouting(extract, resolver.Single[resolver.Key]{Target: target(name)}))
	}
	var groups resolver.Groups
	if _, err := groups.Get("dbs/users"); !errors.Is(err, resolver.ErrNotRegistered) {
		t.Errorf("before: %v", err)
	}
	for _, name := range []string{"first", "second"} {
		groups.Register("/dbs/users/", view(name))
		got := must[*resolver.Live](t)(groups.Get("dbs/users"))
		routing := got.Routing()
		key := must[resolver.Key](t)(routing.Key([]byte(`{"userId":"J1"}`)))
		if owner := must[resolver.Target](t)(routing.ForWrite(key)); owner.Name != name {
			t.Errorf("%s is in force, want %s", owner.Name, name)
		}
	}
	groups.Register("dbs/other", view("x"))
	groups.Register("dbs/users", nil)
	if _, err := groups.Get("dbs/users"); !errors.Is(err, resolver.ErrNotRegistered) {
		t.Errorf("after removal: %v", err)
	}
	if _, err := groups.Get("dbs/other"); err != nil {
		t.Error(err)
	}
}

// TestSpilloverNames checks that containers are ordered and named by number.
func TestSpilloverNames(t *testing.T) {
	s := must[*resolver.Spillover[int]](t)(resolver.NewSpillover[int](resolver.SpilloverConfig{
		Prefix: "Collection.", MaxBytes: 1000, MaxDocuments: 10,
		Targets: []resolver.Target{{Name: "Collection.10", Container: "logs10"}, {Name: "Collection.9", Container: "logs9"}},
	}))
	if s.Last().Name != "Collection.10" || s.Next().Name != "Collection.11" || s.Next().Container != "logs11" {
		t.Errorf("last %+v, next %+v", s.Last(), s.Next())
	}
	for _, c := range []struct {
		bytes, documents int64
		want             bool
	}{{899, 8, false}, {900, 0, true}, {0, 9, true}} {
		if got := s.Full(c.bytes, c.documents); got != c.want {
			t.Errorf("Full(%d, %d) = %v", c.bytes, c.documents, got)
		}
	}
	for _, bad := range []string{"Collection.", "Collection.01", "Collection.-1", "Other.1", "Collection.99999999999"} {
		if _, err := resolver.NewSpillover[int](resolver.SpilloverConfig{Prefix: "Collection.", Targets: targets(bad)}); !errors.Is(err, resolver.ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", bad, err)
		}
	}
}

// TestGuidance checks that docs/resolver.md tells readers what they need: the
// methods of each SDK (S153), what replaced the resolvers and when (S151), that
// the server hashes too (S165), that both ways exist and which to choose (S186,
// S187). Its tables name only what exists. TestServerSideVersion,
// TestServerSideHash and TestServerOrClient of package azcosmos, and all other
// tests that the page names, show that it is true.
func TestGuidance(t *testing.T) {
	text, err := os.ReadFile("../docs/resolver.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for statement, phrase := range map[string]string{
		"S151": "when REST API version 2015-12-16 added server-side partitioning",
		"S165": "one container; the server hashes",
		"S153": "those of .NET, Node.js and Java; Python had similar ones",
		"S186": "both give the same answers (`TestServerOrClient`)",
		"S187": "One container is usually the right choice",
	} {
		if !strings.Contains(page, phrase) {
			t.Errorf("%s: docs/resolver.md does not say %q", statement, phrase)
		}
	}
	declared := exported(t, ".", "azcosmos", "resolvertest")
	shown := regexp.MustCompile("`(Test\\w+|Benchmark\\w+)`").FindAllStringSubmatch(page, -1)
	for _, test := range shown {
		if !declared[test[1]] {
			t.Errorf("docs/resolver.md names the test %s, which does not exist", test[1])
		}
	}
	methods := regexp.MustCompile("\\| `\\w+\\.(\\w+)` \\|\n").FindAllStringSubmatch(page, -1)
	if len(shown) < 20 || len(methods) < 4 {
		t.Errorf("docs/resolver.md names %d tests and %d methods of the SDKs", len(shown), len(methods))
	}
	for _, method := range methods {
		if !declared[method[1]] {
			t.Errorf("S153: the table of methods names %s, which does not exist", method[1])
		}
	}
	_, table, _ := strings.Cut(page, "### Server side or client side")
	table, _, _ = strings.Cut(table, "\nTransactions")
	choices := regexp.MustCompile("`([A-Z]\\w*)(?:\\.(\\w+))?`").FindAllStringSubmatch(table, -1)
	if len(choices) < 8 {
		t.Errorf("the table of choices names %d things: %q", len(choices), choices)
	}
	for _, choice := range choices {
		if !declared[choice[1]] || choice[2] != "" && !declared[choice[2]] {
			t.Errorf("S187: the table of choices names %s, which does not exist", choice[0])
		}
	}
}

// exported returns the names that packages declare, including those of struct
// fields.
func exported(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, dir := range dirs {
		for _, file := range parsed(t, filepath.Join(dir, "*.go")) {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					names[n.Name.Name] = true
				case *ast.FuncDecl:
					names[n.Name.Name] = true
				case *ast.Field:
					for _, name := range n.Names {
						names[name.Name] = true
					}
				}
				return true
			})
		}
	}
	return names
}

func parsed(t *testing.T, pattern string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	var files []*ast.File
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// TestSamples checks that the samples exist, run with every test, and are free
// to use and to change (S185).
func TestSamples(t *testing.T) {
	ran := 0
	for _, pattern := range []string{"example_test.go", "azcosmos/example_test.go"} {
		for _, example := range doc.Examples(parsed(t, pattern)...) {
			if example.Output == "" {
				t.Errorf("the sample %s in %s has no output, so no test runs it", example.Name, pattern)
			}
			ran++
		}
	}
	if ran < 7 {
		t.Errorf("%d samples, want those of hashing, legacy data, tenants, regions, months, movement and a move", ran)
	}
	for path, phrase := range map[string]string{
		"../LICENSE":          "Apache License",
		"../CONTRIBUTING.md":  "go test ./...",
		"../docs/resolver.md": "The examples are runnable: tenants, regions, months, and from two containers to three.",
	} {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), phrase) {
			t.Errorf("%s does not say %q: %v", path, phrase, err)
		}
	}
}
