package layout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/index"
)

// drawTerms draws sorted terms of paths below the given one, often several of a
// path, and returns the ids of the paths as text.
func drawTerms(random *rand.Rand, paths int) (terms []index.Term, ids []string) {
	for path := range paths {
		if random.IntN(3) == 0 {
			continue
		}
		id := fmt.Sprintf("%08d", path)
		ids = append(ids, id)
		for n := range 1 + random.IntN(3) {
			terms = append(terms, index.Term(fmt.Sprint(id, "value", n)))
		}
	}
	return terms, ids
}

func (s PathSet) list() (ids []string) {
	for part := range slices.Chunk(s, 8) {
		ids = append(ids, string(part))
	}
	return ids
}

// TestPathSet compares sets of paths with lists of words.
func TestPathSet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		paths := 1 + random.IntN(40)
		terms, ids := drawTerms(random, paths)
		set := PathsOf(terms)
		if got := set.list(); !slices.Equal(got, ids) {
			t.Fatalf("seed %d: paths of %q: got %q, want %q", seed, terms, got, ids)
		}
		others, otherIDs := drawTerms(random, paths)
		want := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(otherIDs, id) })
		got := set.In(others)
		if !slices.Equal(got.list(), want) {
			t.Fatalf("seed %d: of %q in %q: got %q, want %q", seed, ids, otherIDs, got.list(), want)
		}
		if !slices.Equal(set.list(), ids) {
			t.Fatalf("seed %d: the set has changed to %q", seed, set.list())
		}
		for path := range paths + 1 {
			id := fmt.Sprintf("%08d", path)
			if got, want := got.Has(index.Term(id+"x")), slices.Contains(want, id); got != want {
				t.Fatalf("seed %d: has %s: %t, want %t", seed, id, got, want)
			}
		}
		again, err := DecodePaths(got.Append(nil))
		if err != nil || !slices.Equal(again, got) {
			t.Fatalf("seed %d: %x decodes to %x, %v", seed, got.Append(nil), again, err)
		}
		if same := set.In(terms); len(set) > 0 && &same[0] != &set[0] {
			t.Fatalf("seed %d: a document with all paths makes a new set", seed)
		}
	}
}

// TestPathSetLimit adds the maximum number of paths of a set, and one more.
func TestPathSetLimit(t *testing.T) {
	t.Parallel()
	for _, paths := range []int{pathsMax - 1, pathsMax, pathsMax + 1} {
		var terms []index.Term
		for n := range paths {
			terms = append(terms, index.Term(fmt.Sprintf("%08dx", n)))
		}
		set := PathsOf(terms)
		if got, want := len(set.list()), min(paths, pathsMax); got != want {
			t.Errorf("%d paths: %d are kept, want %d", paths, got, want)
		}
		if got, want := set.Has(terms[paths-1]), paths <= pathsMax; got != want {
			t.Errorf("%d paths: the last is kept: %t, want %t", paths, got, want)
		}
	}
}

// TestPathSetDamage decodes damaged rows.
func TestPathSetDamage(t *testing.T) {
	t.Parallel()
	for _, row := range []string{"", "\x02", "\x01short", "\x0100000002" + "00000001", "\x0100000001" + "00000001", "\x0100000001" + "0000000"} {
		if set, err := DecodePaths([]byte(row)); err == nil {
			t.Errorf("%q is %q, want an error", row, set.list())
		}
	}
}
