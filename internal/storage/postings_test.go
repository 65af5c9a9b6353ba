package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is the expected contents of the posting lists of a store.
type model map[string]map[uint64]bool

func (m model) clone() model {
	c := model{}
	for list, numbers := range m {
		c[list] = map[uint64]bool{}
		for n := range numbers {
			c[list][n] = true
		}
	}
	return c
}

func (m model) sorted(list string) []uint64 {
	numbers := make([]uint64, 0, len(m[list]))
	for n := range m[list] {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

// union returns the sorted numbers of all lists with low <= list < high.
func (m model) union(low, high string) []uint64 {
	all := map[uint64]bool{}
	for list, numbers := range m {
		if list >= low && list < high {
			for n := range numbers {
				all[n] = true
			}
		}
	}
	return model{"": all}.sorted("")
}

// all reads a set to its end and closes it.
func all(t testing.TB, p *Postings) []uint64 {
	t.Helper()
	numbers := []uint64{}
	for n, ok := p.Next(); ok; n, ok = p.Next() {
		numbers = append(numbers, n)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return numbers
}

// differ describes the first difference of two lists of numbers.
func differ(got, want []uint64) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("number %d is %#x, want %#x", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d numbers, want %d", len(got), len(want))
	}
	return ""
}

// checkModel compares all posting lists of a snapshot with the model.
func checkModel(t *testing.T, snapshot *Snapshot, m model, r *rand.Rand) {
	t.Helper()
	for list := range m {
		want := m.sorted(list)
		if text := differ(all(t, snapshot.Postings([]byte(list))), want); text != "" {
			t.Fatalf("list %s: %s", list, text)
		}
		p := snapshot.Postings([]byte(list))
		if n, err := p.Count(); err != nil || n != int64(len(want)) {
			t.Fatalf("list %s: count %d, %v, want %d", list, n, err, len(want))
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		checkSeeks(t, snapshot.Postings([]byte(list)), want, r)
		checkBack(t, snapshot.Postings([]byte(list)), want, r)
		checkNumbers(t, snapshot.Postings([]byte(list)), want, r)
		checkGather(t, func() *Postings { return snapshot.Postings([]byte(list)) }, want, r)
	}
	for range 4 {
		low, high := fmt.Sprintf("t%c", 'a'+r.IntN(6)), fmt.Sprintf("t%c", 'a'+r.IntN(6))
		want := m.union(low, high)
		if text := differ(all(t, snapshot.PostingsRange(t.Context(), []byte(low), []byte(high))), want); text != "" {
			t.Fatalf("lists [%s,%s): %s", low, high, text)
		}
		checkSeeks(t, snapshot.PostingsRange(t.Context(), []byte(low), []byte(high)), want, r)
		checkBack(t, snapshot.PostingsRange(t.Context(), []byte(low), []byte(high)), want, r)
		checkKeep(t, snapshot, m, low, high)
		checkWithin(t, snapshot, m, r)
	}
	checkWalk(t, snapshot, m)
}

// checkKeep reads a range with every other of its lists, and another range with all
// lists.
func checkKeep(t *testing.T, snapshot *Snapshot, m model, low, high string) {
	t.Helper()
	odd := func(list []byte) bool { return list[1]%2 == 1 }
	want := map[uint64]bool{}
	for list, numbers := range m {
		if list >= low && list < high && odd([]byte(list)) || list >= "tb" && list < "td" {
			for n := range numbers {
				want[n] = true
			}
		}
	}
	p := snapshot.PostingsRanges(t.Context(), ListRange{Low: []byte(low), High: []byte(high), Keep: odd}, ListRange{Low: []byte("tb"), High: []byte("td")})
	if text := differ(all(t, p), model{"": want}.sorted("")); text != "" {
		t.Fatalf("odd lists of [%s,%s) and tb, tc: %s", low, high, text)
	}
}

// checkSeeks moves forward by seeks and steps.
func checkSeeks(t *testing.T, p *Postings, want []uint64, r *rand.Rand) {
	t.Helper()
	defer p.Close()
	at := 0
	for range 40 {
		if r.IntN(2) == 0 || len(want) == 0 {
			n, ok := p.Next()
			if ok != (at < len(want)) || ok && n != want[at] {
				t.Fatalf("Next = %#x, %v, want number %d of %d", n, ok, at, len(want))
			}
			if ok {
				at++
			}
			continue
		}
		goal := want[r.IntN(len(want))] + uint64(r.IntN(3)) - 1
		found, _ := slices.BinarySearch(want, goal)
		at = max(at, found)
		if ok := p.SeekGE(goal); ok != (at < len(want)) {
			t.Fatalf("SeekGE(%#x) = %v with %d numbers left", goal, ok, len(want)-at)
		}
	}
	if n, err := p.Count(); err != nil || n != int64(len(want)-at) {
		t.Fatalf("count of the rest = %d, %v, want %d", n, err, len(want)-at)
	}
}

// checkBack moves backward by seeks and steps.
func checkBack(t *testing.T, p *Postings, want []uint64, r *rand.Rand) {
	t.Helper()
	defer p.Close()
	left := len(want)
	for range 40 {
		if r.IntN(2) == 0 || len(want) == 0 {
			n, ok := p.Prev()
			if ok != (left > 0) || ok && n != want[left-1] {
				t.Fatalf("Prev = %#x, %v, want number %d", n, ok, left-1)
			}
			left = max(0, left-1)
			continue
		}
		goal := want[r.IntN(len(want))] + uint64(r.IntN(3)) - 1
		found, _ := slices.BinarySearch(want, goal)
		left = min(left, found)
		if ok := p.SeekLT(goal); ok != (left > 0) {
			t.Fatalf("SeekLT(%#x) = %v with %d numbers left", goal, ok, left)
		}
	}
	if n, err := p.Count(); err != nil || n != int64(left) {
		t.Fatalf("count of the rest = %d, %v, want %d", n, err, left)
	}
}

// falling reads a set in descending order and returns it in ascending order.
func falling(t testing.TB, p *Postings) []uint64 {
	t.Helper()
	numbers := []uint64{}
	for n, ok := p.Prev(); ok; n, ok = p.Prev() {
		numbers = append(numbers, n)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(numbers)
	return numbers
}

// checkWithin iterates over all lists in one direction, reads some of each, and
// compares with the model, restricted to the numbers of one list.
func checkWithin(t *testing.T, snapshot *Snapshot, m model, r *rand.Rand) {
	t.Helper()
	var limit map[uint64]bool
	lists := snapshot.Lists([]byte("t"), []byte("u"))
	defer lists.Close()
	if r.IntN(3) > 0 {
		name := fmt.Sprintf("t%c", 'a'+r.IntN(5))
		set, err := snapshot.Postings([]byte(name)).Collect(t.Context())
		must(t, err)
		lists.Within(set)
		if limit = m[name]; limit == nil {
			limit = map[uint64]bool{}
		}
	}
	var names []string
	for name, numbers := range m {
		if len(numbers) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	falls := r.IntN(2) == 0
	start, move := lists.First, lists.Next
	if falls {
		slices.Reverse(names)
		start, move = lists.Last, lists.Prev
	}
	i := 0
	for ok := start(); ok; ok = move() {
		if i == len(names) || string(lists.Key()) != names[i] {
			t.Fatalf("list %s is not number %d of %v", lists.Key(), i, names)
		}
		want := m.sorted(names[i])
		if limit != nil {
			want = slices.DeleteFunc(want, func(n uint64) bool { return !limit[n] })
		}
		for range r.IntN(4) { // Reading again starts from the beginning.
			checkPart(t, lists.Numbers(), want, r)
		}
		if n, err := lists.Count(); r.IntN(2) == 0 && (err != nil || n != int64(len(want))) {
			t.Fatalf("list %s counts %d, %v, want %d", lists.Key(), n, err, len(want))
		}
		i++
	}
	if err := lists.Err(); err != nil || i != len(names) {
		t.Fatalf("%d of %d lists, %v", i, len(names), err)
	}
}

// checkPart reads some numbers of a set by any method.
func checkPart(t *testing.T, p *Postings, want []uint64, r *rand.Rand) {
	t.Helper()
	switch r.IntN(4) {
	case 0:
		checkSeeks(t, p, want, r)
	case 1:
		checkBack(t, p, want, r)
	case 2:
		for i := range min(len(want), r.IntN(3)) {
			if n, ok := p.Next(); !ok || n != want[i] {
				t.Fatalf("Next = %#x, %v, want %#x", n, ok, want[i])
			}
		}
	case 3:
		for i := range min(len(want), r.IntN(3)) {
			if n, ok := p.Prev(); !ok || n != want[len(want)-1-i] {
				t.Fatalf("Prev = %#x, %v, want %#x", n, ok, want[len(want)-1-i])
			}
		}
	}
}

// checkWalk iterates over all lists in both directions. Empty lists must not appear.
func checkWalk(t *testing.T, snapshot *Snapshot, m model) {
	t.Helper()
	var want []string
	for list, numbers := range m {
		if len(numbers) > 0 {
			want = append(want, fmt.Sprintf("%s %d", list, len(numbers)))
		}
	}
	slices.Sort(want)
	lists := snapshot.Lists([]byte("ta"), []byte("tz"))
	defer lists.Close()
	line := func(i int) string {
		if i%3 == 0 {
			// Moving without counting must work as well.
			return want[i]
		}
		n, err := lists.Count()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s %d", lists.Key(), n)
	}
	var forward, backward []string
	for ok := lists.First(); ok && len(forward) < len(want)+1; ok = lists.Next() {
		if len(forward) == len(want) {
			t.Fatalf("unexpected list %s", lists.Key())
		}
		forward = append(forward, line(len(forward)))
	}
	for ok := lists.Last(); ok; ok = lists.Prev() {
		if len(backward) == len(want) {
			t.Fatalf("unexpected list %s backward", lists.Key())
		}
		backward = append(backward, line(len(want)-1-len(backward)))
	}
	slices.Reverse(backward)
	if err := lists.Err(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(forward, want) || !slices.Equal(backward, want) {
		t.Fatalf("lists forward %v, backward %v, want %v", forward, backward, want)
	}
}

// Random adds and removes, flushes, compactions and old snapshots: every snapshot shows
// the sets of its moment.
func TestPostingModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			r := rand.New(rand.NewPCG(seed, 1))
			m := model{}
			type past struct {
				snapshot *Snapshot
				model    model
			}
			var kept []past
			defer func() {
				for _, p := range kept {
					p.snapshot.Close()
				}
			}()
			// Numbers are concentrated in dense chunks, sparse ones, and the ends of chunks.
			number := func() uint64 {
				base := []uint64{0, 65530, 3 << 40, 0xFFF<<40 | 1<<39, 1<<60 - 70000}[r.IntN(5)]
				return base + uint64(r.IntN([]int{3, 200, 70000}[r.IntN(3)]))
			}
			for range 120 {
				b := s.NewBatch()
				for range 1 + r.IntN(400) {
					list := fmt.Sprintf("t%c", 'a'+r.IntN(5))
					if m[list] == nil {
						m[list] = map[uint64]bool{}
					}
					n := number()
					if r.IntN(3) > 0 {
						m[list][n] = true
						must(t, b.AddPosting([]byte(list), n))
					} else {
						delete(m[list], n)
						must(t, b.RemovePosting([]byte(list), n))
					}
				}
				// Remove and add of the same number in one batch, in both orders.
				n := number()
				if m["te"] == nil {
					m["te"] = map[uint64]bool{}
				}
				must(t, errors.Join(b.RemovePosting([]byte("te"), n), b.AddPosting([]byte("te"), n),
					b.AddPosting([]byte("te"), n+1), b.RemovePosting([]byte("te"), n+1)))
				m["te"][n] = true
				delete(m["te"], n+1)
				if r.IntN(20) == 0 {
					// A list that becomes empty disappears.
					for n := range m["ta"] {
						must(t, b.RemovePosting([]byte("ta"), n))
					}
					m["ta"] = map[uint64]bool{}
				}
				must(t, errors.Join(s.Apply(b), b.Close()))
				switch r.IntN(12) {
				case 0:
					must(t, s.Flush())
				case 1:
					must(t, s.Flush())
					must(t, s.db.Compact(t.Context(), []byte("a"), []byte("z"), r.IntN(2) == 0))
				case 2:
					kept = append(kept, past{s.Snapshot(), m.clone()})
				case 3:
					if len(kept) > 0 {
						kept[0].snapshot.Close()
						kept = kept[1:]
					}
				}
				if r.IntN(6) == 0 {
					snapshot := s.Snapshot()
					checkModel(t, snapshot, m, r)
					snapshot.Close()
				}
			}
			for _, p := range kept {
				checkModel(t, p.snapshot, p.model, r)
			}
			// After everything is removed and compacted, no row is left.
			b := s.NewBatch()
			for list, numbers := range m {
				for n := range numbers {
					must(t, b.RemovePosting([]byte(list), n))
				}
			}
			must(t, errors.Join(s.Apply(b), b.Close()))
			for _, p := range kept {
				must(t, p.snapshot.Close())
			}
			kept = nil
			must(t, s.Flush())
			must(t, s.db.Compact(t.Context(), []byte("a"), []byte("z"), false))
			must(t, s.Flush())
			snapshot := s.Snapshot()
			defer snapshot.Close()
			it := snapshot.Iter(nil, nil)
			if it.First() {
				t.Errorf("row %x = %x is left of empty lists", it.Key(), it.Value())
			}
			must(t, it.Close())
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Random trees of sets, compared with the same trees over maps.
func TestSetAlgebra(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := rand.New(rand.NewPCG(7, 7))
	m := model{}
	b := s.NewBatch()
	for i := range 8 {
		list := fmt.Sprintf("t%c", 'a'+i)
		m[list] = map[uint64]bool{}
		size := []int{0, 1, 30, 3000, 6000, 20000}[r.IntN(6)]
		span := []int{10000, 66000, 300000}[r.IntN(3)]
		for range size {
			n := uint64(r.IntN(span)) + uint64(r.IntN(2))<<40
			m[list][n] = true
			must(t, b.AddPosting([]byte(list), n))
		}
	}
	must(t, errors.Join(s.Apply(b), b.Close(), s.Flush()))
	snapshot := s.Snapshot()
	defer snapshot.Close()

	var build func(depth int) (*Postings, map[uint64]bool, string)
	build = func(depth int) (*Postings, map[uint64]bool, string) {
		if depth == 0 || r.IntN(4) == 0 {
			i := r.IntN(8)
			list := fmt.Sprintf("t%c", 'a'+i)
			if r.IntN(4) == 0 {
				high := fmt.Sprintf("t%c", 'a'+i+r.IntN(8-i))
				set := map[uint64]bool{}
				for _, n := range m.union(list, high) {
					set[n] = true
				}
				return snapshot.PostingsRange(t.Context(), []byte(list), []byte(high)), set, list + ".." + high
			}
			return snapshot.Postings([]byte(list)), m[list], list
		}
		op := r.IntN(3)
		count := 2
		if op != 2 {
			count = 1 + r.IntN(4)
		}
		var sets []*Postings
		out := map[uint64]bool{}
		text := []string{"and(", "or(", "not("}[op]
		for i := range count {
			p, set, label := build(depth - 1)
			sets = append(sets, p)
			text += label + " "
			next := map[uint64]bool{}
			for n := range set {
				if i == 0 || (op == 0 && out[n]) {
					next[n] = true
				}
			}
			if i > 0 && op == 1 {
				for n := range set {
					out[n] = true
				}
				continue
			}
			if i > 0 && op == 2 {
				for n := range out {
					if !set[n] {
						next[n] = true
					}
				}
			}
			out = next
		}
		switch op {
		case 0:
			return Intersect(sets...), out, text + ")"
		case 1:
			return Union(sets...), out, text + ")"
		}
		return Difference(sets[0], sets[1]), out, text + ")"
	}
	for range 150 {
		seed := r.Uint64()
		r = rand.New(rand.NewPCG(seed, 0))
		p, set, text := build(3)
		want := model{"": set}.sorted("")
		if problem := differ(all(t, p), want); problem != "" {
			t.Fatalf("%s: %s", text, problem)
		}
		r = rand.New(rand.NewPCG(seed, 0))
		p, _, _ = build(3)
		checkSeeks(t, p, want, r)
		r = rand.New(rand.NewPCG(seed, 0))
		p, _, _ = build(3)
		if problem := differ(falling(t, p), want); problem != "" {
			t.Fatalf("%s backward: %s", text, problem)
		}
		r = rand.New(rand.NewPCG(seed, 0))
		p, _, _ = build(3)
		checkBack(t, p, want, r)
		r = rand.New(rand.NewPCG(seed, 0))
		p, _, _ = build(3)
		checkNumbers(t, p, want, r)
		r = rand.New(rand.NewPCG(seed, 1))
	}
	if n, err := Union().Count(); n != 0 || err != nil {
		t.Errorf("union of nothing has %d numbers, %v", n, err)
	}
}

func TestCountTo(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	b := s.NewBatch()
	for i := range uint64(200) {
		must(t, b.AddPosting([]byte("tl"), i<<16))
	}
	must(t, errors.Join(s.Apply(b), b.Close()))
	snapshot := s.Snapshot()
	defer snapshot.Close()
	p := snapshot.Postings([]byte("tl"))
	defer p.Close()
	if n, err := p.CountTo(10); n != 10 || err != nil {
		t.Errorf("CountTo(10) = %d, %v", n, err)
	}
}

// A list whose key is a prefix of another's has only its own numbers.
func TestListsOfDifferentWidth(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	b := s.NewBatch()
	must(t, b.AddPosting([]byte("ta"), 1))
	must(t, b.AddPosting([]byte("ta\x00"), 2))
	must(t, b.AddPosting([]byte("ta\x00\x00\x00\x00\x00\x00\x00\x00"), 3))
	must(t, b.AddPosting([]byte("ta\xff"), 1<<40))
	must(t, b.AddPosting([]byte("ta"), 1<<41))
	must(t, errors.Join(s.Apply(b), b.Close()))
	snapshot := s.Snapshot()
	defer snapshot.Close()
	if got, want := all(t, snapshot.Postings([]byte("ta"))), []uint64{1, 1 << 41}; !slices.Equal(got, want) {
		t.Errorf("list ta = %x, want %x", got, want)
	}
	if got, want := falling(t, snapshot.Postings([]byte("ta"))), []uint64{1, 1 << 41}; !slices.Equal(got, want) {
		t.Errorf("list ta backward = %x, want %x", got, want)
	}
}

// Numbers up to the greatest one, and lists whose keys end in 0xFF.
func TestPostingEnds(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	list := []byte("t\xff\xff")
	want := []uint64{0, 65535, 65536, 1<<64 - 2, 1<<64 - 1}
	b := s.NewBatch()
	for _, n := range want {
		must(t, b.AddPosting(list, n))
	}
	must(t, errors.Join(s.Apply(b), b.Close()))
	snapshot := s.Snapshot()
	defer snapshot.Close()
	if got := all(t, snapshot.Postings(list)); !slices.Equal(got, want) {
		t.Errorf("numbers = %x, want %x", got, want)
	}
	if got := falling(t, snapshot.Postings(list)); !slices.Equal(got, want) {
		t.Errorf("numbers backward = %x, want %x", got, want)
	}
	p := snapshot.PostingsRange(t.Context(), []byte("t"), []byte("u"))
	if got := all(t, p); !slices.Equal(got, want) {
		t.Errorf("range = %x, want %x", got, want)
	}
	p = snapshot.Postings(list)
	if p.SeekLT(0) {
		t.Error("SeekLT finds a number below zero")
	}
	must(t, p.Close())
	lists := snapshot.Lists([]byte("t"), []byte("u"))
	defer lists.Close()
	if !lists.SeekLE(list) || string(lists.Key()) != string(list) {
		t.Errorf("SeekLE does not find the list itself")
	}
	if n, ok := lists.Numbers().Prev(); !ok || n != want[len(want)-1] {
		t.Errorf("the last number of the list is %x, %v", n, ok)
	}
	if lists.SeekLE(list[:2]) {
		t.Errorf("SeekLE finds list %x above", lists.Key())
	}
	p = snapshot.Postings(list)
	defer p.Close()
	if !p.SeekGE(1<<64 - 1) {
		t.Error("SeekGE does not find the last number")
	}
}

func TestPostingsRangeCancelled(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	b := s.NewBatch()
	for i := range 2 * checkEvery {
		must(t, b.AddPosting(fmt.Appendf(nil, "t%06d", i), uint64(i)))
	}
	must(t, errors.Join(s.Apply(b), b.Close()))
	snapshot := s.Snapshot()
	defer snapshot.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := snapshot.PostingsRange(ctx, []byte("t"), []byte("u"))
	if n, ok := p.Next(); ok {
		t.Errorf("a cancelled range has number %d", n)
	}
	if err := p.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want that it was cancelled", err)
	}
}
