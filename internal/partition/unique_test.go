package partition

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/decandb/decan/internal/partition/check"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/replication/replicationtest"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
)

// uniqueContainer has two unique keys: /u alone, and /v with /w.
func uniqueContainer(tb testing.TB, version int, paths []string) *resource.Container {
	return containerWith(tb, version, paths, `{"indexingPolicy":null,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]},{"paths":["/v","/w"]}]}}`)
}

// uniqueModel is the content of each document, by tenant and id.
type uniqueModel map[[2]string]uniqueValues

type uniqueValues struct{ u, v, w int }

func (m uniqueModel) clone() uniqueModel {
	next := uniqueModel{}
	for k, v := range m {
		next[k] = v
	}
	return next
}

// taken reports whether another document than one of the tenant has the values.
func (m uniqueModel) taken(tenant, id string, want uniqueValues) bool {
	for key, got := range m {
		if key[0] == tenant && key[1] != id && (got.u == want.u || got.v == want.v && got.w == want.w) {
			return true
		}
	}
	return false
}

// do applies one operation to the model and returns its result.
func (m uniqueModel) do(tenant string, o *BatchOperation) status.Code {
	content := func() uniqueValues {
		number := func(name string) int { n, _ := o.Document.Get(name).Int64(); return int(n) }
		return uniqueValues{number("u"), number("v"), number("w")}
	}
	id := o.ID
	if id == "" {
		id = o.Document.Get("id").Text()
	}
	_, there := m[[2]string{tenant, id}]
	switch {
	case o.Op == Create && there:
		return status.CodeConflict
	case (o.Op == Replace || o.Op == Delete) && !there:
		return status.CodeNotFound
	case o.Op == Delete:
		delete(m, [2]string{tenant, id})
		return 0
	}
	to := o.Document.Get("id").Text()
	if _, taken := m[[2]string{tenant, to}]; taken && to != id {
		return status.CodeConflict
	}
	if m.taken(tenant, id, content()) {
		return status.CodeConflict
	}
	delete(m, [2]string{tenant, id})
	m[[2]string{tenant, to}] = content()
	return 0
}

func drawUnique(random *rand.Rand, tenant string) (o BatchOperation) {
	id := fmt.Sprint("i", random.IntN(6))
	o.Op = []Op{Create, Upsert, Replace, Delete}[random.IntN(4)]
	if o.Op == Delete {
		o.ID = id
		return o
	}
	if o.Op == Replace { // Perhaps under another name.
		o.ID = id
		id = fmt.Sprint("i", random.IntN(6))
	}
	members := []value.Member{{Name: "id", Value: value.String(id)}, {Name: "a", Value: value.String(tenant)}, {Name: "b", Value: value.Int(1)}}
	for _, name := range []string{"u", "v", "w"} {
		members = append(members, value.Member{Name: name, Value: value.Int(random.Int64N(12))})
	}
	o.Document = value.Object(members)
	return o
}

// TestUniqueModel draws batches of every atomicity on documents whose values often
// conflict, and compares with a map, across restarts and crashes.
func TestUniqueModel(t *testing.T) {
	t.Parallel()
	seeds := uint64(4)
	if raceDetector {
		seeds = 1
	}
	for seed := range seeds {
		for version, paths := range map[int][]string{1: {"/a"}, 2: {"/a", "/b"}} {
			t.Run(fmt.Sprintf("version=%d/seed=%d", version, seed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, uniqueContainer(t, version, paths))
				runUniqueModel(t, w, rand.New(rand.NewPCG(seed, 11)))
			})
		}
	}
}

func runUniqueModel(t *testing.T, w *world, random *rand.Rand) {
	m := uniqueModel{}
	refused := 0
	for step := range 300 {
		tenant := fmt.Sprint("t", random.IntN(2))
		key := w.container.Load().KeyOf(w.parse(fmt.Sprintf(`{"a":%q,"b":1}`, tenant)))
		b := w.batchOf(key, Atomicity(random.IntN(3)))
		next := m.clone()
		var want []status.Code
		for range 1 + random.IntN(4) {
			o := drawUnique(random, tenant)
			b.Operations = append(b.Operations, o)
			code := next.do(tenant, &o)
			want = append(want, code)
			if code != 0 && b.Atomicity != Each {
				break
			}
		}
		failed := want[len(want)-1] != 0
		got, err := w.partition.Load().Batch(context.Background(), b)
		if err != nil {
			t.Fatal(err)
		}
		for i, code := range want {
			if failed && b.Atomicity == Atomic && i < len(want)-1 {
				code = status.CodeFailedDependency
			}
			if r := got.Results[i].Err; code == 0 && r != nil || code != 0 && (r == nil || r.Code != code) {
				t.Fatalf("step %d: operation %d (%s %s %s): got %v, want %d", step, i, b.Operations[i].Op, b.Operations[i].ID, b.Operations[i].Document, r, code)
			}
		}
		if got.Refused {
			refused++
		}
		if !failed || b.Atomicity != Atomic {
			m = next
		}
		if step%100 == 99 {
			if err := w.crash(0, uint64(step)); err != nil {
				t.Fatal(err)
			}
		}
	}
	report := w.check()
	if !report.Clean() || report.Documents != int64(len(m)) {
		t.Errorf("%d documents, want %d; %q", report.Documents, len(m), report.Problems)
	}
	if refused < 50 || refused > 250 {
		t.Errorf("%d batches of 300 were refused", refused)
	}
}

// TestUniqueRace has several clients create documents with the same value at once, and
// delete them: one client wins each round, also in a group that loses effects.
func TestUniqueRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, uniqueContainer(t, 2, []string{"/a", "/b"}))
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	err := w.openWith(func(sm replication.StateMachine) replication.Group {
		return replicationtest.NewFlaky(sm, replicationtest.FlakyOptions{Seed: 5, Delay: 0.2, Lose: 0.05, LoseAnswer: 0.05, Refuse: 0.02})
	})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	var won, lost, unknown atomic.Int64
	for side := range 6 {
		group.Go(func() {
			for round := range 40 {
				doc := w.parse(fmt.Sprintf(`{"id":"%d-%d","a":"t","b":1,"u":%d,"v":%d,"w":%d}`, side, round, round, round%7, side*1000+round))
				_, err := w.write(Create, doc, nil)
				switch status.CodeOf(err) {
				case 0:
					won.Add(1)
				case status.CodeConflict:
					lost.Add(1)
				case status.CodeUnavailable, status.CodeTooManyRequests:
					unknown.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	w.partition.Load().waitIdle()
	if won.Load() > 40 || won.Load() < 10 || lost.Load() < 40 || unknown.Load() == 0 {
		t.Errorf("%d won, %d lost, %d unknown", won.Load(), lost.Load(), unknown.Load())
	}
	if report := w.check(); !report.Clean() || report.Documents < won.Load() || report.Documents > 40 {
		t.Errorf("%d documents, %d won; %q", report.Documents, won.Load(), report.Problems)
	}
}

// TestUniqueRestsOnEffect shows that the values of proposed effects are seen, and that
// a refusal because of them waits until they are durable, and is dropped if they are
// lost (I9).
func TestUniqueRestsOnEffect(t *testing.T) {
	held(t, func(t *testing.T, w *world, g *heldGroup) {
		unique := uniqueContainer(t, 2, []string{"/a", "/b"})
		u, err := layout.CompileUniques(unique.UniqueKeys)
		if err != nil {
			t.Fatal(err)
		}
		w.container.Store(unique)
		w.partition.Load().uniques = u
		first := w.begin(t.Context(), Create, `{"id":"1","a":"x","u":1}`)
		synctest.Wait()
		second := w.begin(t.Context(), Create, `{"id":"2","a":"x","u":1,"v":2}`)
		synctest.Wait()
		if answered(second) {
			t.Fatal("a refusal was answered before what it rests on is durable")
		}
		g.lose()
		for _, c := range []<-chan result{first, second} {
			if r := <-c; status.CodeOf(r.err) != status.CodeUnavailable {
				t.Errorf("got %v, want 503", r.err)
			}
		}
		third := w.begin(t.Context(), Create, `{"id":"3","a":"x","u":1,"v":3}`)
		synctest.Wait()
		fourth := w.begin(t.Context(), Upsert, `{"id":"3","a":"x","u":2,"v":3}`)
		synctest.Wait()
		fifth := w.begin(t.Context(), Create, `{"id":"5","a":"x","u":1,"v":5}`)
		synctest.Wait()
		sixth := w.begin(t.Context(), Create, `{"id":"6","a":"x","u":2,"v":6}`)
		synctest.Wait()
		g.apply(t)
		for i, c := range []<-chan result{third, fourth, fifth} {
			if r := <-c; r.err != nil {
				t.Errorf("write %d: %v", i+3, r.err)
			}
		}
		if r := <-sixth; status.CodeOf(r.err) != status.CodeConflict || !strings.HasPrefix(status.From(r.err).Message, "Unique index constraint violation.") {
			t.Errorf("got %v, want 409", r.err)
		}
	})
}

// TestUniqueSplit splits and merges while values are added, removed and moved to other
// documents: each child has the rows of its own documents and no others.
func TestUniqueSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, uniqueContainer(t, 2, []string{"/a", "/b"}))
	write := func(op Op, i, n int) {
		t.Helper()
		doc := w.parse(fmt.Sprintf(`{"id":"%d","a":"t%d","b":%d,"u":%d,"v":%d}`, i, i%9, i%3, n, n))
		if _, err := w.write(op, doc, func(r *Write) { r.ID = fmt.Sprint(i) }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 90 {
		write(Create, i, i)
	}
	s, halves := w.halve(t, "")
	for i := range 30 {
		write(Delete, i, 0)
		write(Create, i+200, i)
		write(Upsert, i+30, i+1000)
		write(Create, i+300, i+2000)
	}
	if err := follow(t, s, halves); err != nil {
		t.Fatal(err)
	}
	s.Done()
	for _, h := range halves {
		snapshot := h.store.Snapshot()
		rows := 0
		it := snapshot.Iter(storage.FamilyUnique.Bounds())
		for ok := it.First(); ok; ok = it.Next() {
			rows++
		}
		report, err := check.Run(snapshot, w.container.Load())
		if err != nil || rows == 0 || int64(rows) != 2*report.Documents {
			t.Errorf("child %s: %d rows of unique keys for %d documents (%v)", h.own.ID, rows, report.Documents, err)
		}
		if err := it.Close(); err != nil {
			t.Error(err)
		}
		if err := snapshot.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := w.checkHalves(t, halves); got != 120 {
		t.Errorf("%d documents, want 120", got)
	}
}

// TestUniqueMerge does the same for a merge.
func TestUniqueMerge(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t, uniqueContainer(t, 2, []string{"/a", "/b"}))
	write := func(op Op, i, v int) {
		t.Helper()
		if err := n.write(op, fmt.Sprintf(`{"id":"%d","a":"t%d","b":%d,"u":%d,"v":%d}`, i, i%9, i%3, v, v)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 90 {
		write(Create, i, i)
	}
	m, child := n.begin(1)
	for i := range 30 {
		write(Delete, i, 0)
		write(Create, i+300, i+2000)
		write(Upsert, i+30, i+1000)
	}
	n.finish(m, child)
	if got := n.check().Documents; got != 90 {
		t.Errorf("%d documents, want 90", got)
	}
}
