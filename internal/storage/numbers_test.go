package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// checkNumbers reads a set into memory and compares it there.
func checkNumbers(t *testing.T, p *Postings, want []uint64, r *rand.Rand) {
	t.Helper()
	n, err := p.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n.Len() != int64(len(want)) {
		t.Fatalf("%d numbers in memory, want %d", n.Len(), len(want))
	}
	if text := differ(all(t, n.Postings()), want); text != "" {
		t.Fatalf("in memory: %s", text)
	}
	for range 20 {
		number := r.Uint64() >> r.IntN(64)
		if len(want) > 0 {
			number = want[r.IntN(len(want))] + uint64(r.IntN(3)) - 1
		}
		if _, has := slices.BinarySearch(want, number); n.Has(number) != has {
			t.Fatalf("Has(%#x) = %v", number, !has)
		}
	}
	checkSeeks(t, n.Postings(), want, r)
	checkBack(t, n.Postings(), want, r)
}

// checkGather reads a set with limits close to its size, into a slice that contains
// other numbers.
func checkGather(t *testing.T, set func() *Postings, want []uint64, r *rand.Rand) {
	t.Helper()
	for _, most := range []int{max(0, len(want)-1+r.IntN(3)), r.IntN(len(want) + 1)} {
		few, many, _, err := set().Gather(t.Context(), []uint64{7}, most, math.MaxInt64)
		switch {
		case err != nil:
			t.Fatal(err)
		case few[0] != 7:
			t.Fatalf("the first number is %d", few[0])
		case len(want) <= most:
			if text := differ(few[1:], want); text != "" || many != nil {
				t.Fatalf("with at most %d: %s, set: %t", most, text, many != nil)
			}
		case many == nil || len(few) != 1:
			t.Fatalf("%d numbers of at most %d are few", len(want), most)
		default:
			if text := differ(all(t, many.Postings()), want); text != "" {
				t.Fatalf("above %d: %s", most, text)
			}
		}
		limit := r.IntN(len(want) + 2)
		few, many, over, err := set().Gather(t.Context(), []uint64{7}, most, int64(limit))
		if err != nil || over != (len(want) > limit) || few[0] != 7 {
			t.Fatalf("%d numbers are more than %d: %t, %v", len(want), limit, over, err)
		}
		if over && (len(few) != 1 || many != nil) {
			t.Fatalf("%d numbers and a set %t of more than %d", len(few)-1, many != nil, limit)
		}
	}
}

// GatherRange reads a range up to its limit, and reports a longer one.
func TestGatherRange(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	b := s.NewBatch()
	const lists, each = 20, 3
	for n := range uint64(lists * each) {
		must(t, b.AddPosting(fmt.Appendf(nil, "t%02d", n/each), n))
	}
	must(t, errors.Join(s.Apply(b), b.Close()))
	snapshot := s.Snapshot()
	defer snapshot.Close()
	for _, keep := range []func([]byte) bool{nil, func(list []byte) bool { return list[2]%2 == 1 }} {
		for most := range lists + 2 {
			for _, wide := range []int{0, 1, most, most + 1, lists} {
				wide = min(wide, lists-5)
				r := ListRange{Low: []byte("t05"), High: fmt.Appendf(nil, "t%02d", 5+wide), Keep: keep}
				got, over, err := snapshot.GatherRange(t.Context(), r, most)
				want, wrong := snapshot.PostingsRanges(t.Context(), r).Collect(t.Context())
				if err != nil || wrong != nil || over != (wide > most) {
					t.Fatalf("%d lists of at most %d: %t, %v, %v", wide, most, over, err, wrong)
				}
				if !over && !slices.Equal(all(t, got.Postings()), all(t, want.Postings())) {
					t.Fatalf("%d lists: %d numbers, want %d", wide, got.Len(), want.Len())
				}
			}
		}
	}
}

// TestNumbersOf builds sets from numbers in any order, in few chunks and in many.
func TestNumbersOf(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		chunks := 1 + r.IntN(3*fewChunks)
		var list []uint64
		for range r.IntN(500) {
			list = append(list, uint64(r.IntN(chunks))<<16|uint64(r.IntN(100)))
		}
		n := NumbersOf(list)
		slices.Sort(list)
		want := slices.Compact(list)
		if text := differ(all(t, n.Postings()), want); text != "" || n.Len() != int64(len(want)) {
			t.Fatalf("seed %d: %d numbers: %s", seed, n.Len(), text)
		}
	}
}

// TestGatherCancelled cancels the context of a set that is being gathered.
func TestGatherCancelled(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	b := s.NewBatch()
	for n := range uint64(3 * checkEvery) {
		must(t, errors.Join(b.AddPosting([]byte("ta"), n<<16), b.AddPosting([]byte("tb"), n<<16|1)))
	}
	must(t, errors.Join(s.Apply(b), b.Close()))
	snapshot := s.Snapshot()
	defer snapshot.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	both := func() *Postings { return Intersect(snapshot.Postings([]byte("ta")), snapshot.Postings([]byte("tb"))) }
	if few, _, _, err := both().Gather(t.Context(), nil, 1, math.MaxInt64); err != nil || len(few) != 0 {
		t.Errorf("got %d, %v, want nothing", len(few), err)
	}
	if _, _, _, err := both().Gather(ctx, nil, 1, math.MaxInt64); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended: %v", err)
	}
}
