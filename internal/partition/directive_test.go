package partition

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// directed is the i-th document of these tests, every third of which is left out of
// the index.
func directed(i int) (text string, d Directive) {
	if i%3 == 0 {
		d = Exclude
	}
	return fmt.Sprintf(`{"id":"%d","a":"t%d","n":1}`, i, i%11), d
}

// directedWrite writes documents, of which some are left out.
func directedWrite(t *testing.T, owner func(value.Value) *world, op Op, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		text, d := directed(i)
		w := owner(value.Value{})
		doc := w.parse(text)
		if _, err := owner(doc).write(op, doc, func(r *Write) { r.Directive = d }); err != nil {
			t.Fatal(err)
		}
	}
}

// directedFound returns how many documents a filter finds, and how many there are.
func (w *world) directedFound(t *testing.T) (found, all int) {
	t.Helper()
	rows, _, err := w.rows("SELECT VALUE c.id FROM c WHERE c.n = 1", partitionkey.Full(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(rows), w.seen(t)
}

// What a directive leaves out of the index stays out of it in the children of a
// split, whether it existed before or was written during it, and still counts.
func TestDirectiveSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, ""))
	only := func(value.Value) *world { return w }
	directedWrite(t, only, Create, 1, 3) // Both are in.
	s, halves := w.halve(t, "")
	directedWrite(t, only, Create, 3, 60)
	if err := follow(t, s, halves); err != nil {
		t.Fatal(err)
	}
	s.Done()
	found, all := 0, 0
	for _, h := range halves {
		child := w.serve(t, h)
		some, every := child.directedFound(t)
		found, all = found+some, all+every
		child.verify(t)
	}
	if found != 40 || all != 59 {
		t.Errorf("a filter finds %d of %d documents, want 40 of 59", found, all)
	}
}

func TestDirectiveMerge(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t, containerWith(t, 2, []string{"/a"}, ""))
	owner := func(doc value.Value) *world {
		if !doc.IsDefined() {
			return n.worlds[0]
		}
		return n.owner(doc)
	}
	directedWrite(t, owner, Create, 0, 30)
	m, child := n.begin(1)
	directedWrite(t, owner, Create, 30, 60)
	n.finish(m, child)
	merged := n.worlds[1].serve(t, half{store: n.store, own: n.own})
	if found, all := merged.directedFound(t); found != 40 || all != 60 {
		t.Errorf("a filter finds %d of %d documents, want 40 of 60", found, all)
	}
	n.check()
}

// A LockedTransaction's documents have the directive that its operation asked for, in the
// store as well.
func TestDirectiveHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, ""))
	_, err := w.locked(t.Context(), w.keyOf("p"), nil, func(h *LockedTransaction) error {
		_, err := h.Do(t.Context(), Operation{Op: Create, Directive: Exclude, Document: w.parse(`{"id":"1","pk":"p","n":1}`)})
		return errors.Join(err, w.put(h, `{"id":"2","pk":"p","n":1}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	if found, all := w.directedFound(t); found != 1 || all != 2 {
		t.Errorf("a filter finds %d of %d documents", found, all)
	}
	w.verify(t)
	// An empty partition has no excluded document.
	if _, err := w.purge(w.keyOf("p"), nil); err != nil {
		t.Fatal(err)
	}
	if p := w.partition.Load(); p.states.current.Load().Excludes {
		t.Error("the empty partition still has documents in no index")
	}
}

// A store from before directives has all documents in its index, also where the
// policy says otherwise. It follows the policy once it is opened.
func TestDirectiveOfOldStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, ""))
	for i := range 20 {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%d","a":"t%d","n":1}`, i, i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	manual := containerWith(t, 2, []string{"/a"}, `{"automatic":false}`)
	old, err := layout.IndexRow{Version: layout.MetaVersion, Policy: manual.Indexing}.Append()
	if err != nil {
		t.Fatal(err)
	}
	old = bytes.Replace(old, []byte(`"directives":true`), []byte(`"directives":false`), 1)
	batch := w.store.NewBatch()
	defer batch.Close()
	if err := errors.Join(batch.Set(storage.MetaKey(nil, layout.MetaIndex), old), w.store.Apply(batch), w.close()); err != nil {
		t.Fatal(err)
	}
	w.container.Store(manual)
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	w.verifyFound(t, 20) // Plans get documents alone, and the sets are as they were.
	w.partition.Load().Reindex()
	w.partition.Load().waitIdle()
	w.verifyFound(t, 0)
}

// verifyFound checks what is stored, and how many documents a filter finds.
func (w *world) verifyFound(t *testing.T, want int) {
	t.Helper()
	w.verify(t)
	if found, _ := w.directedFound(t); found != want {
		t.Errorf("a filter finds %d documents, want %d", found, want)
	}
}

func TestParseDirective(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Directive{"": ByPolicy, "Default": ByPolicy, "INCLUDE": Include, "exclude": Exclude, "0": ByPolicy, "1": Exclude, "2": Include} {
		if got, err := ParseDirective(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"no", "Exclude ", "3", "-1"} {
		if _, err := ParseDirective(text); status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestExpireWhileLocked has a LockedTransaction meet documents that expire before it, under it and
// after it: it does not find what has expired, an expired id is free, and a document
// that expires while it works counts as deleted by another client.
func TestExpireWhileLocked(t *testing.T) {
	t.Parallel()
	c := containerWith(t, 2, []string{"/pk"}, `{"indexingPolicy":null,"defaultTtl":-1}`)
	c.Retention = testRetention
	w := newWorld(t, c)
	for id, ttl := range map[string]int{"before": 5, "under": 20, "behind": 50} {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":%q,"pk":"p","ttl":%d}`, id, ttl)), nil); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Add(10)
	_, err := w.locked(t.Context(), w.keyOf("p"), nil, func(h *LockedTransaction) error {
		if _, err := h.Do(t.Context(), Operation{Op: Fetch, ID: "before"}); status.CodeOf(err) != status.CodeNotFound {
			t.Errorf("what has expired is read: %v", err)
		}
		return w.put(h, `{"id":"before","pk":"p"}`)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.locked(t.Context(), w.keyOf("p"), nil, func(h *LockedTransaction) error {
		if _, err := h.Do(t.Context(), Operation{Op: Replace, ID: "under", Document: w.parse(`{"id":"under","pk":"p","n":1}`)}); err != nil {
			return err
		}
		w.clock.Add(10)
		return nil
	})
	if status.CodeOf(err) != status.CodeRetryWith {
		t.Errorf("what expired under the LockedTransaction is replaced: %v", err)
	}
	_, err = w.locked(t.Context(), w.keyOf("p"), nil, func(h *LockedTransaction) error {
		_, err := h.Do(t.Context(), Operation{Op: Replace, ID: "behind", Document: w.parse(`{"id":"behind","pk":"p","ttl":50}`)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Add(50)
	if n, err := w.partition.Load().Expire(t.Context(), nil, math.Inf(1)); n != 2 || err != nil {
		t.Errorf("%d documents expire, %v", n, err)
	}
	w.verify(t)
	told := map[string]int{}
	page, err := w.partition.Load().Feed(t.Context(), Feed{Complete: true, Generation: w.own.Generation, Range: partitionkey.Full()})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range page.Documents {
		facts := w.parse(string(text)).Get("metadata")
		told[facts.Get("operationType").Text()+facts.Get("id").Text()+facts.Get("timeToLiveExpired").JSON()]++
	}
	want := map[string]int{"create": 4, "replace": 1, "deletebeforetrue": 1, "deleteundertrue": 1, "deletebehindtrue": 1}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("the complete feed tells %v, want %v", told, want)
	}
}
