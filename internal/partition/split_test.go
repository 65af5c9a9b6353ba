package partition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/decandb/decan/internal/partition/check"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// half is one child of the split of a world.
type half struct {
	store *storage.Store
	child *Child
	own   resource.Partition
}

// halve begins a split and adopts both children.
func (w *world) halve(t *testing.T, at partitionkey.EPK) (*Split, [2]half) {
	t.Helper()
	p := w.partition.Load()
	at, err := p.SplitPoint(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Split(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	var halves [2]half
	for i, r := range []partitionkey.Range{{Min: w.own.Range.Min, Max: at}, {Min: at, Max: w.own.Range.Max}} {
		h := half{own: resource.Partition{ID: 20 + resource.PartitionID(i), Range: r, Parents: []resource.PartitionID{w.own.ID}, Generation: w.own.Generation + 1, Ordinal: 20 + uint32(i)}}
		dir := fmt.Sprint("half", i)
		low, high := s.LeftOut(h.own)
		if err := w.store.CheckpointWithout(dir, low, high); err != nil {
			t.Fatal(err)
		}
		if h.store, err = w.pool.Open(dir); err != nil {
			t.Fatal(err)
		}
		if h.child, err = s.Adopt(h.store, h.own); err != nil {
			t.Fatal(err)
		}
		halves[i] = h
	}
	return s, halves
}

// follow has both children catch up and seals the parent.
func follow(t *testing.T, s *Split, halves [2]half) error {
	t.Helper()
	var group, caughtUp sync.WaitGroup
	errs := make([]error, 2)
	for i, h := range halves {
		caughtUp.Add(1)
		group.Go(func() { errs[i] = h.child.Follow(t.Context(), sync.OnceFunc(caughtUp.Done)) })
	}
	caughtUp.Wait()
	err := s.Seal(t.Context())
	if err != nil {
		s.Cancel()
	}
	group.Wait()
	return errors.Join(append(errs, err)...)
}

// checkHalves verifies the bytes of both and closes them.
func (w *world) checkHalves(t *testing.T, halves [2]half) (documents int64) {
	t.Helper()
	for _, h := range halves {
		snapshot := h.store.Snapshot()
		report, err := check.Run(snapshot, w.container.Load())
		if err != nil || !report.Clean() {
			t.Errorf("child %s: %v, %q", h.own.ID, err, report.Problems)
		}
		documents += report.Documents
		if report.LSN != w.partition.Load().LSN() {
			t.Errorf("child %s has come to %d, its parent to %d", h.own.ID, report.LSN, w.partition.Load().LSN())
		}
		if err := errors.Join(snapshot.Close(), h.store.Close()); err != nil {
			t.Error(err)
		}
	}
	return documents
}

// A child of a split handles every family of rows.
func TestTrimKnowsEveryFamily(t *testing.T) {
	t.Parallel()
	known := slices.Concat(keyed, numbered, listed, []storage.Family{storage.FamilyRID, storage.FamilyMeta, storage.FamilyComplete})
	testEveryFamily(t, known)
}

// Writes between the checkpoint and the seal are in the child that owns them: new,
// changed, renamed and deleted documents. Paths that are complete stay complete in both
// children, even if the parent was empty in between.
func TestSplitFollows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	doc := func(i int, members string) string {
		return fmt.Sprintf(`{"id":"%d","a":"tenant%d","b":%d%s}`, i, i%5, i, members)
	}
	must := func(op Op, i int, members string) {
		t.Helper()
		if _, err := w.write(op, w.parse(doc(i, members)), func(r *Write) { r.ID = fmt.Sprint(i) }); err != nil {
			t.Fatalf("%s %d: %v", op, i, err)
		}
	}
	for i := range 60 {
		must(Create, i, `,"old":1,"both":2`)
	}
	s, halves := w.halve(t, "")
	// The parent is emptied, so that the next document begins a new set of complete
	// paths in one child while the other has none; then a similar document in the
	// other, which must not use the old set.
	for i := range 60 {
		must(Delete, i, "")
	}
	sides := [2][]int{}
	for i := range 60 {
		key := partitionkey.NewKey(partitionkey.String(fmt.Sprint("tenant", i%5)), partitionkey.Number(float64(i)))
		side := 0
		if w.container.Load().PartitionKey.Hash(key).Compare(s.cut) >= 0 {
			side = 1
		}
		sides[side] = append(sides[side], i)
	}
	must(Create, sides[0][0], `,"new":1,"both":2`)
	must(Create, sides[1][0], `,"new":1,"both":2`)
	must(Upsert, sides[0][1], `,"new":1`)
	must(Replace, sides[0][0], `,"other":{"deep":[1,2]}`)
	if err := follow(t, s, halves); err != nil {
		t.Fatal(err)
	}
	s.Done()
	if got := w.checkHalves(t, halves); got != 3 {
		t.Errorf("%d documents, want 3", got)
	}
	if _, err := w.write(Create, w.parse(doc(70, "")), nil); status.CodeOf(err) != status.CodeGone || status.SubOf(err) != status.SubRangeGone {
		t.Errorf("a write to the parent: %v, want 410/1002", err)
	}
	if _, err := w.read(partitionkey.NewKey(partitionkey.String("tenant0"), partitionkey.Number(0)), "0", nil); status.CodeOf(err) != status.CodeGone {
		t.Errorf("a read of the parent: %v, want 410", err)
	}
}

// Vectors, full text, composite and spatial terms, and computed properties are removed
// from a child as they were added.
func TestSplitIndexes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, everyIndexKey, everyIndex))
	var s *Split
	var halves [2]half
	write := func(text string) error {
		_, err := w.write(Upsert, w.parse(text), nil)
		return err
	}
	writeIndexed(t, write, 1, func() { s, halves = w.halve(t, "") })
	if err := follow(t, s, halves); err != nil {
		t.Fatal(err)
	}
	s.Done()
	if got := w.checkHalves(t, halves); got != 160 {
		t.Errorf("%d documents, want 160", got)
	}
}

// A split does not run during an index rebuild: a policy change during a split waits
// for its end, and a partition whose index is rebuilt is not split.
func TestSplitAndRebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	for i := range 30 {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%d","a":"t%d","b":1,"x":%d}`, i, i, i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	p := w.partition.Load()
	s, halves := w.halve(t, "")
	next := containerWith(t, 2, []string{"/a", "/b"}, `{"includedPaths":[{"path":"/x/?"}],"excludedPaths":[{"path":"/*"}]}`)
	w.container.Store(next)
	p.Reindex()
	p.waitIdle()
	if got := p.Stats().IndexProgress; got != 0 {
		t.Errorf("the rebuild has come to %d %% during a split", got)
	}
	s.Cancel()
	for _, h := range halves {
		if err := h.child.Follow(t.Context(), func() {}); !errors.Is(err, errCancelled) {
			t.Errorf("follow a split that was cancelled: %v", err)
		}
		if err := h.store.Close(); err != nil {
			t.Error(err)
		}
	}
	p.waitIdle()
	if got := p.Stats().IndexProgress; got != 100 {
		t.Errorf("the rebuild has come to %d %% after the split", got)
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
	// Reversed.
	w.container.Store(containerWith(t, 2, []string{"/a", "/b"}, ""))
	if _, err := p.Split(t.Context(), s.cut); status.CodeOf(err) != status.CodeConflict {
		t.Errorf("split with a policy to be followed: %v, want 409", err)
	}
	p.waitIdle()
	if got := p.Stats().IndexProgress; got != 100 {
		t.Errorf("the rebuild has come to %d %% after a split was refused", got)
	}
	if _, err := p.Split(t.Context(), s.cut); err != nil {
		t.Error(err)
	}
	if _, err := p.Split(t.Context(), s.cut); status.CodeOf(err) != status.CodeConflict {
		t.Errorf("a second split: %v, want 409", err)
	}
}

// Nothing is written after a seal: writes wait and reads continue. After an unseal,
// writes continue too.
func TestSeal(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		p := w.partition.Load()
		first := w.begin(t.Context(), Create, `{"id":"1","a":"x","b":1}`)
		synctest.Wait()
		g.apply(t)
		if err := (<-first).err; err != nil {
			t.Fatal(err)
		}
		proposed := make(chan *Split)
		go func() {
			s, err := p.Split(t.Context(), p.own.Key.Middle(partitionkey.Full()))
			if err != nil {
				t.Error(err)
			}
			proposed <- s
		}()
		synctest.Wait()
		g.apply(t)
		s := <-proposed
		// Before the seal, proposed together with it, and after it.
		before := w.begin(t.Context(), Create, `{"id":"2","a":"x","b":1}`)
		synctest.Wait()
		sealed := make(chan error)
		go func() { sealed <- s.Seal(t.Context()) }()
		synctest.Wait()
		behind := w.begin(t.Context(), Create, `{"id":"3","a":"x","b":1}`)
		synctest.Wait()
		if n := g.apply(t); n != 2 {
			t.Errorf("%d effects in front of the seal and itself, want 2", n)
		}
		if err := errors.Join((<-before).err, <-sealed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := len(g.take()); n != 0 {
			t.Errorf("%d effects behind the seal", n)
		}
		for _, tail := range s.tails {
			effects, more, err := tail.take()
			if err != nil || more || len(effects) != 1 || effects[0].LSN != 2 {
				t.Errorf("the child has %d effects to follow, more %v, %v", len(effects), more, err)
			}
		}
		key := partitionkey.NewKey(partitionkey.String("x"), partitionkey.Number(1))
		if _, err := w.read(key, "2", nil); err != nil {
			t.Errorf("a read behind the seal: %v", err)
		}
		rejected, err := p.Apply([]replication.Effect{{Generation: w.own.Generation, LSN: 3, Rows: nil}})
		if err != nil || len(rejected) != 1 || status.CodeOf(rejected[0]) != status.CodeUnavailable {
			t.Errorf("an effect behind the seal: %v, %v", rejected, err)
		}
		cancelled := make(chan struct{})
		go func() {
			s.Cancel()
			close(cancelled)
		}()
		synctest.Wait()
		g.lose() // The unseal, once.
		for done := false; !done; {
			synctest.Wait()
			g.apply(t)
			select {
			case <-cancelled:
				done = true
			default:
				sleep() // Until it is proposed again.
			}
		}
		synctest.Wait()
		g.apply(t)
		if err := (<-behind).err; err != nil {
			t.Errorf("the write that waited: %v", err)
		}
	})
}

// The effects that wait for children are bounded: Apply waits for the children, but not
// for those that were cancelled.
func TestTailIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tail := newTail()
		large := []replication.Effect{{LSN: 1, Rows: make([]byte, tailBytesMax+1)}}
		tail.add(large)
		var added atomic.Int32
		add := func() {
			tail.add(large)
			added.Add(1)
		}
		go add()
		synctest.Wait()
		if added.Load() != 0 {
			t.Error("there is no bound")
		}
		if effects, more, err := tail.take(); len(effects) != 1 || !more || err != nil {
			t.Errorf("took %d effects, more %v, %v", len(effects), more, err)
		}
		synctest.Wait()
		if added.Load() != 1 {
			t.Error("there is room, and nobody noticed")
		}
		go add()
		synctest.Wait()
		tail.abandon()
		synctest.Wait()
		if added.Load() != 2 {
			t.Error("somebody waits for nobody")
		}
		add()
	})
}

// A split that fails repeatedly, in a group that loses, refuses and delays effects,
// loses no acknowledged write.
func TestSplitFlaky(t *testing.T) {
	t.Parallel()
	start := rand.Uint64()
	t.Logf("seed %d", start)
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	w.flaky(t, start)
	registers := newRegisters(8)
	stop := make(chan struct{})
	var group sync.WaitGroup
	for _, r := range registers {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				bearable(t, r.step(w))
			}
		})
	}
	p := w.partition.Load()
	cut := p.own.Key.Middle(partitionkey.Full())
	sealOften(t, func() (*Split, error) { return p.Split(context.Background(), cut) })
	close(stop)
	group.Wait()
	p.waitIdle()
	for _, r := range registers {
		if err := r.verify(w, r.certain.Load(), r.attempted.Load()); err != nil {
			t.Error(err)
		}
	}
	bearable(t, registers[0].step(w))
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// A context that ends withdraws what the writer has not taken up.
func TestSplitContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	p := w.partition.Load()
	cut := p.own.Key.Middle(partitionkey.Full())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		s, err := p.Split(ended, cut)
		if err == nil {
			s.Cancel() // The writer was quicker.
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	s, err := p.Split(t.Context(), cut)
	if err != nil {
		t.Fatal(err)
	}
	s.Cancel()
}

// A partition of version 1 that no key divides.
func TestAddressable(t *testing.T) {
	t.Parallel()
	definition := partitionkey.Definition{Paths: []string{"/a"}, Version: 1}
	for _, key := range []partitionkey.Component{
		partitionkey.String("redmond"), partitionkey.String(strings.Repeat("long", 60)), partitionkey.Number(4711), partitionkey.Null(), partitionkey.Bool(true), partitionkey.String(""),
	} {
		epk := definition.Hash(partitionkey.NewKey(key))
		for end := 1; end <= len(epk); end++ {
			if at := epk[:end].Canonical(); !addressable(at, 0) {
				t.Errorf("%v: %s lies in front of every key that begins so", key, at)
			}
		}
		if at := epk + "\x01"; addressable(at, 0) {
			t.Errorf("%v: %s lies inside of its key", key, at)
		}
	}
	for at, want := range map[partitionkey.EPK]bool{"\x3f": true, "\x40": false, "\x01\x40": true, partitionkey.EPK(strings.Repeat("\x01", 16)): true, partitionkey.EPK(strings.Repeat("\x01", 17)): false} {
		if got := addressable(at, 16); got != want {
			t.Errorf("%s: %v, want %v", at, got, want)
		}
	}
}

// sleep advances the fake time of a bubble.
func sleep() { time.Sleep(time.Millisecond) }
