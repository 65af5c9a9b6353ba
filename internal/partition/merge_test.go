package partition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/decandb/decan/internal/partition/check"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// neighbours are two partitions that border on each other in the middle of the key
// space.
type neighbours struct {
	t      *testing.T
	worlds [2]*world
	middle partitionkey.EPK
	store  *storage.Store // of the child
	own    resource.Partition
}

func newNeighbours(t *testing.T, container *resource.Container) *neighbours {
	t.Helper()
	n := &neighbours{t: t, middle: container.PartitionKey.Middle(partitionkey.Full())}
	for i, r := range []partitionkey.Range{{Max: n.middle}, {Min: n.middle, Max: partitionkey.MaxEPK}} {
		n.worlds[i] = newWorldOf(t, container, resource.Partition{ID: 7 + resource.PartitionID(i), Range: r, Generation: 3, Ordinal: 2 + uint32(i)})
	}
	n.own = resource.Partition{ID: 20, Range: partitionkey.Full(), Parents: []resource.PartitionID{7, 8}, Generation: 4, Ordinal: 20}
	return n
}

// write writes a document to the partition of its key.
func (n *neighbours) write(op Op, text string) error {
	doc := n.worlds[0].parse(text)
	_, err := n.owner(doc).write(op, doc, func(r *Write) { r.ID = doc.Get("id").Text() })
	return err
}

func (n *neighbours) owner(doc value.Value) *world {
	c := n.worlds[0].container.Load()
	if c.PartitionKey.Hash(c.KeyOf(doc)).Compare(n.middle) < 0 {
		return n.worlds[0]
	}
	return n.worlds[1]
}

// begin begins a merge with one of the two as the base.
func (n *neighbours) begin(base int) (*Merge, *Merged) {
	n.t.Helper()
	m, err := BeginMerge(n.t.Context(), n.worlds[0].partition.Load(), n.worlds[1].partition.Load())
	if err != nil {
		n.t.Fatal(err)
	}
	return m, n.adopt(m, base)
}

// adopt creates the child of a merge that has begun.
func (n *neighbours) adopt(m *Merge, base int) *Merged {
	n.t.Helper()
	w := n.worlds[base]
	err := w.store.Checkpoint("merged")
	if err == nil {
		n.store, err = w.pool.Open("merged")
	}
	if err != nil {
		n.t.Fatal(err)
	}
	child, err := m.Adopt(n.store, n.own, w.own.ID)
	if err != nil {
		n.t.Fatal(err)
	}
	return child
}

// finish has the child catch up, and both sealed.
func (n *neighbours) finish(m *Merge, child *Merged) {
	n.t.Helper()
	caughtUp := make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- child.Follow(n.t.Context(), sync.OnceFunc(func() { close(caughtUp) })) }()
	select {
	case <-caughtUp:
	case err := <-done:
		n.t.Fatal(err)
	}
	if err := errors.Join(m.Seal(n.t.Context()), <-done); err != nil {
		n.t.Fatal(err)
	}
	m.Done()
}

// check verifies the child's bytes, and that its LSN is greater than those of its
// parents.
func (n *neighbours) check() check.Report {
	n.t.Helper()
	snapshot := n.store.Snapshot()
	report, err := check.Run(snapshot, n.worlds[0].container.Load())
	if err := errors.Join(err, snapshot.Close()); err != nil || !report.Clean() {
		n.t.Errorf("child: %v, %q", err, report.Problems)
	}
	if want := max(n.worlds[0].partition.Load().LSN(), n.worlds[1].partition.Load().LSN()) + 1; report.LSN != want {
		n.t.Errorf("the child has come to %d, want %d", report.LSN, want)
	}
	return report
}

// Rows of every family are copied, except for those that are rewritten.
func TestMergeKnowsEveryFamily(t *testing.T) {
	t.Parallel()
	known := append(slices.Clone(copied), storage.FamilyMeta)
	testEveryFamily(t, known)
}

// The child has everything that both parents write while it copies: before the position
// of the copy, after it and at it. The larger families have rows for more than one
// step.
func TestMergeFollows(t *testing.T) {
	t.Parallel()
	for base := range 2 {
		t.Run(fmt.Sprint("base ", base), func(t *testing.T) {
			t.Parallel()
			start := rand.Uint64()
			t.Logf("seed %d", start)
			n := newNeighbours(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
			text := func(i, v int) string {
				return fmt.Sprintf(`{"id":"%d","a":"tenant%d","b":%d,"v":%d,"w%d":1,"pad":"%s"}`, i, i%9, i%50, v, v%5, strings.Repeat("p", 400+v%100))
			}
			const documents, writers = 3000, 4
			model := map[int]int{}
			for i := range documents {
				if err := n.write(Create, text(i, 0)); err != nil {
					t.Fatal(err)
				}
				model[i] = 0
			}
			m, child := n.begin(base)
			stop := make(chan struct{})
			var group sync.WaitGroup
			var mu sync.Mutex
			wrote := 0
			for g := range writers {
				random := rand.New(rand.NewPCG(start, uint64(g)))
				group.Go(func() {
					for v := 1; ; v++ {
						select {
						case <-stop:
							return
						default:
						}
						i := random.IntN(documents/writers)*writers + g
						op := Upsert
						if random.IntN(4) == 0 {
							op = Delete
						}
						err := n.write(op, text(i, v))
						mu.Lock()
						_, there := model[i]
						switch code := status.CodeOf(err); {
						case code == status.CodeGone:
							mu.Unlock()
							return // It was merged.
						case op == Delete && err == nil && there:
							delete(model, i)
						case op == Delete && code == status.CodeNotFound && !there:
						case op == Upsert && err == nil:
							model[i] = v
						default:
							t.Errorf("%s of %d, which is there: %v: %v", op, i, there, err)
						}
						wrote++
						mu.Unlock()
					}
				})
			}
			n.finish(m, child)
			close(stop)
			group.Wait()
			if wrote == 0 {
				t.Error("nothing was written meanwhile")
			}
			if report := n.check(); report.Documents != int64(len(model)) {
				t.Errorf("%d documents, want %d", report.Documents, len(model))
			}
			n.compare(model)
		})
	}
}

// compare reads all documents of the child and their versions.
func (n *neighbours) compare(model map[int]int) {
	n.t.Helper()
	rows := n.store.Snapshot()
	iter := rows.Iter(storage.FamilyDocument.Bounds())
	found := 0
	for valid := iter.First(); valid; valid = iter.Next() {
		d, err := layout.DecodeDocument(iter.Value())
		if err != nil {
			n.t.Fatal(err)
		}
		doc, err := value.Parse(d.Body)
		if err != nil {
			n.t.Fatal(err)
		}
		var id int
		if _, err := fmt.Sscan(doc.Get("id").Text(), &id); err != nil {
			n.t.Fatal(err)
		}
		v, _ := doc.Get("v").Int64()
		if want, there := model[id]; !there || int64(want) != v {
			n.t.Errorf("document %d is of version %d, want %d, %v", id, v, want, there)
		}
		found++
	}
	if err := errors.Join(iter.Close(), rows.Close()); err != nil || found != len(model) {
		n.t.Errorf("%d documents, want %d: %v", found, len(model), err)
	}
}

// Vectors, full text, composite and spatial terms, and computed properties are copied
// unchanged, and lists that both parents have are united.
func TestMergeIndexes(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t, containerWith(t, 2, everyIndexKey, everyIndex))
	var m *Merge
	var child *Merged
	writeIndexed(t, func(text string) error { return n.write(Upsert, text) }, 11, func() { m, child = n.begin(0) })
	n.finish(m, child)
	if got := n.check().Documents; got != 160 {
		t.Errorf("%d documents, want 160", got)
	}
}

// A path that is complete in both parents is complete in the child; an empty parent
// does not count.
func TestMergeCompletePaths(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		low, high string // members that all documents of one parent have in addition
		want      int    // complete paths, with those of id, a and b
	}{
		{"the same", `,"x":1,"y":1`, `,"x":1,"y":1`, 5},
		{"some", `,"x":1,"y":1`, `,"y":1,"z":1`, 4},
		{"none", `,"x":1`, `,"z":1`, 3},
		{"the high one is empty", `,"x":1,"y":1`, "", 5},
		{"the low one is empty", "", `,"y":1,"z":1`, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNeighbours(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
			for i := range 40 {
				text := fmt.Sprintf(`{"id":"%d","a":"t%d","b":1`, i, i)
				members := test.low
				if n.owner(n.worlds[0].parse(text+"}")) == n.worlds[1] {
					members = test.high
				}
				if members == "" {
					continue
				}
				if err := n.write(Create, text+members+"}"); err != nil {
					t.Fatal(err)
				}
			}
			m, child := n.begin(1)
			n.finish(m, child)
			n.check()
			known, err := layout.ReadPaths(n.store.Snapshot())
			if got := len(known.InUse) / storage.PathBytes; err != nil || got != test.want {
				t.Errorf("%d complete paths, want %d: %v", got, test.want, err)
			}
		})
	}
}

// A merge does not run during an index rebuild or a split; a refused merge changes
// neither parent.
func TestMergeRefusedByOne(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	low, high := n.worlds[0].partition.Load(), n.worlds[1].partition.Load()
	next := containerWith(t, 2, []string{"/a", "/b"}, `{"includedPaths":[{"path":"/x/?"}],"excludedPaths":[{"path":"/*"}]}`)
	n.worlds[1].container.Store(next)
	if _, err := BeginMerge(t.Context(), low, high); status.CodeOf(err) != status.CodeConflict {
		t.Errorf("with a policy to be followed: %v, want 409", err)
	}
	high.Reindex()
	high.waitIdle()
	n.worlds[0].container.Store(next)
	low.Reindex()
	low.waitIdle()
	s, err := high.Split(t.Context(), high.own.Key.Middle(high.own.Range))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := BeginMerge(t.Context(), low, high); status.CodeOf(err) != status.CodeConflict || !strings.Contains(err.Error(), "being split") {
		t.Errorf("during a split: %v, want 409", err)
	}
	s.Cancel()
	m, err := BeginMerge(t.Context(), low, high)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Partition{low, high} {
		if _, err := p.Split(t.Context(), p.own.Key.Middle(p.own.Range)); status.CodeOf(err) != status.CodeConflict || !strings.Contains(err.Error(), "being merged") {
			t.Errorf("a split during a merge: %v, want 409", err)
		}
	}
	m.Cancel()
	for i := range 20 {
		if err := n.write(Create, fmt.Sprintf(`{"id":"%d","a":"t%d","b":1}`, i, i)); err != nil {
			t.Error(err)
		}
	}
}

// A merge that fails repeatedly, in groups that lose, refuse and delay effects, loses
// no acknowledged write.
func TestMergeFlaky(t *testing.T) {
	t.Parallel()
	start := rand.Uint64()
	t.Logf("seed %d", start)
	n := newNeighbours(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	for i, w := range n.worlds {
		w.flaky(t, start+uint64(i))
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	written := make([]map[int]bool, 4)
	for g := range written {
		written[g] = map[int]bool{}
		group.Go(func() {
			for i := g; ; i += len(written) {
				select {
				case <-stop:
					return
				default:
				}
				err := n.write(Create, fmt.Sprintf(`{"id":"%d","a":"t%d","b":%d}`, i, i%20, i))
				if bearable(t, err); err == nil {
					written[g][i] = true
				}
			}
		})
	}
	low, high := n.worlds[0].partition.Load(), n.worlds[1].partition.Load()
	sealOften(t, func() (*Merge, error) { return BeginMerge(context.Background(), low, high) })
	close(stop)
	group.Wait()
	low.waitIdle()
	high.waitIdle()
	for _, w := range n.worlds {
		if report := w.check(); !report.Clean() {
			t.Errorf("%q", report.Problems)
		}
	}
	for _, part := range written {
		for i := range part {
			w := n.owner(n.worlds[0].parse(fmt.Sprintf(`{"id":"%d","a":"t%d","b":%d}`, i, i%20, i)))
			key := partitionkey.NewKey(partitionkey.String(fmt.Sprint("t", i%20)), partitionkey.Number(float64(i)))
			if _, err := w.read(key, fmt.Sprint(i), nil); err != nil {
				t.Errorf("document %d: %v", i, err)
			}
		}
	}
}
