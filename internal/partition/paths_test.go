package partition

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/value"
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

func (s pathSet) list() (ids []string) {
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
		set := pathsOf(terms)
		if got := set.list(); !slices.Equal(got, ids) {
			t.Fatalf("seed %d: paths of %q: got %q, want %q", seed, terms, got, ids)
		}
		others, otherIDs := drawTerms(random, paths)
		want := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(otherIDs, id) })
		got := set.in(others)
		if !slices.Equal(got.list(), want) {
			t.Fatalf("seed %d: of %q in %q: got %q, want %q", seed, ids, otherIDs, got.list(), want)
		}
		if !slices.Equal(set.list(), ids) {
			t.Fatalf("seed %d: the set has changed to %q", seed, set.list())
		}
		for path := range paths + 1 {
			id := fmt.Sprintf("%08d", path)
			if got, want := got.has(index.Term(id+"x")), slices.Contains(want, id); got != want {
				t.Fatalf("seed %d: has %s: %t, want %t", seed, id, got, want)
			}
		}
		again, err := decodePaths(got.append(nil))
		if err != nil || !slices.Equal(again, got) {
			t.Fatalf("seed %d: %x decodes to %x, %v", seed, got.append(nil), again, err)
		}
		if same := set.in(terms); len(set) > 0 && &same[0] != &set[0] {
			t.Fatalf("seed %d: a document with all paths makes a new set", seed)
		}
	}
}

// TestPathSetLimit has as many paths as a set keeps, and one more.
func TestPathSetLimit(t *testing.T) {
	t.Parallel()
	for _, paths := range []int{pathsMax - 1, pathsMax, pathsMax + 1} {
		var terms []index.Term
		for n := range paths {
			terms = append(terms, index.Term(fmt.Sprintf("%08dx", n)))
		}
		set := pathsOf(terms)
		if got, want := len(set.list()), min(paths, pathsMax); got != want {
			t.Errorf("%d paths: %d are kept, want %d", paths, got, want)
		}
		if got, want := set.has(terms[paths-1]), paths <= pathsMax; got != want {
			t.Errorf("%d paths: the last is kept: %t, want %t", paths, got, want)
		}
	}
}

// TestPathSetDamage decodes rows that nobody writes.
func TestPathSetDamage(t *testing.T) {
	t.Parallel()
	for _, row := range []string{"", "\x02", "\x01short", "\x0100000002" + "00000001", "\x0100000001" + "00000001", "\x0100000001" + "0000000"} {
		if set, err := decodePaths([]byte(row)); err == nil {
			t.Errorf("%q is %q, want an error", row, set.list())
		}
	}
}

// TestPathsWhileBuilding changes documents in the middle of a change of policy,
// which a crash interrupts: a path that one of them lacks must not be taken for
// complete afterwards.
func TestPathsWhileBuilding(t *testing.T) {
	t.Parallel()
	const documents = 40
	for _, c := range []struct {
		name string
		edit func(w *world, doc value.Value) error
		want string
	}{
		{"nothing", func(*world, value.Value) error { return nil }, "/id /pk /n /m"},
		{"passed", func(w *world, doc value.Value) error {
			_, err := w.write(Replace, doc.With("id", value.String("d0")).Without("n"), nil)
			return err
		}, "/id /pk /m"},
		{"ahead", func(w *world, doc value.Value) error {
			_, err := w.write(Replace, doc.With("id", value.String(fmt.Sprint("d", documents-1))).Without("n"), nil)
			return err
		}, "/id /pk /m"},
		{"new", func(w *world, doc value.Value) error {
			_, err := w.write(Create, doc.With("id", value.String("new")).Without("m"), nil)
			return err
		}, "/id /pk /n"},
		{"gone", func(w *world, doc value.Value) error {
			for n := range documents {
				if _, err := w.write(Delete, doc.With("id", value.String(fmt.Sprint("d", n))), func(r *Write) { r.ID = fmt.Sprint("d", n) }); err != nil {
					return err
				}
			}
			_, err := w.write(Create, doc.With("extra", value.Int(1)).Without("m"), nil)
			return err
		}, "/id /pk /n /extra"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, containerWith(t, 2, []string{"/pk"}, `{"includedPaths":[{"path":"/pk/?"}],"excludedPaths":[{"path":"/*"}]}`))
			doc := w.parse(`{"id":"x","pk":1,"n":1,"m":2}`)
			for n := range documents {
				if _, err := w.write(Create, doc.With("id", value.String(fmt.Sprint("d", n))), nil); err != nil {
					t.Fatal(err)
				}
			}
			container := *w.container.Load()
			container.Indexing = containerWith(t, 2, []string{"/pk"}, "").Indexing
			w.container.Store(&container)
			p := w.partition.Load()
			p.waitIdle() // The goroutine of the last write is done with the writer.
			p.strategy.sweepDocuments = 7
			// The writer is taken by hand to the middle of the first sweep.
			for range 4 {
				if err := p.step(); err != nil {
					t.Fatal(err)
				}
			}
			if now := p.current.Load(); now.indexing.Phase != building || now.indexing.Passed != 21 {
				t.Fatalf("the sweep is at %+v", now.indexing.indexRow)
			}
			// It makes no headway until it is opened again.
			p.strategy.sweepDocuments = 0
			if err := errors.Join(c.edit(w, doc), w.crash(0, 1)); err != nil {
				t.Fatal(err)
			}
			w.partition.Load().Reindex()
			w.partition.Load().waitIdle()
			if got := w.complete(t, "/id /pk /n /m /extra"); got != c.want {
				t.Errorf("complete are %s, want %s", got, c.want)
			}
			if report := w.check(); !report.Clean() {
				t.Errorf("%q", report.Problems)
			}
		})
	}
}

// TestPathsOfEmptyBuilding writes the first document while the policy of an empty
// partition is being changed.
func TestPathsOfEmptyBuilding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, `{"includedPaths":[{"path":"/pk/?"}],"excludedPaths":[{"path":"/*"}]}`))
	container := *w.container.Load()
	container.Indexing = containerWith(t, 2, []string{"/pk"}, "").Indexing
	w.container.Store(&container)
	p := w.partition.Load()
	if err := p.step(); err != nil || p.current.Load().indexing.Phase != building {
		t.Fatal(p.current.Load().indexing.indexRow, err)
	}
	p.writer.stalled = true // until the write, which is evaluated before the next step
	if _, err := w.write(Create, w.parse(`{"id":"x","pk":1,"n":1}`), nil); err != nil {
		t.Fatal(err)
	}
	p.waitIdle()
	if got, want := w.complete(t, "/id /pk /n"), "/id /pk /n"; got != want {
		t.Errorf("complete are %s, want %s", got, want)
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// TestPathsOfLostEffects loses a deletion and the creation of the first document
// behind it. What the writer took for complete then never was.
func TestPathsOfLostEffects(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		do := func(op Op, text string, end func()) {
			answer := w.begin(t.Context(), op, text)
			synctest.Wait()
			end()
			synctest.Wait()
			<-answer
		}
		apply := func() { g.apply(t) }
		do(Create, `{"id":"1","a":"x","b":1,"n":1,"m":1}`, apply)
		do(Delete, `{"id":"1","a":"x","b":1}`, func() { do(Create, `{"id":"2","a":"x","b":1,"k":1}`, g.lose) })
		do(Create, `{"id":"3","a":"x","b":1,"k":1,"n":1}`, apply)
		if got, want := w.complete(t, "/id /a /n /m /k"), "/id /a /n"; got != want {
			t.Errorf("complete are %s, want %s", got, want)
		}
	})
}

// complete returns those of some paths, separated by blanks, that are complete.
func (w *world) complete(tb testing.TB, paths string) string {
	tb.Helper()
	s, release := w.sourceOf(tb)
	defer release()
	var list []string
	for path := range strings.FieldsSeq(paths) {
		span, ok := s.now.indexing.active.Span(strings.Split(path[1:], "/"), index.Defined, value.Null())
		if !ok {
			continue
		}
		yes, err := s.complete(span)
		if err != nil {
			tb.Fatal(err)
		}
		if yes {
			list = append(list, path)
		}
	}
	return strings.Join(list, " ")
}
