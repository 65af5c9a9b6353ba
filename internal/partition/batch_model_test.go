package partition

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/decandb/decan/internal/patch"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// batchModel is the expected content of one key of a partition: the content and the
// etag of each id.
type batchModel map[string]modelVersion

type modelVersion struct {
	n, size int64
	etag    resource.ETag
}

// TestBatchModel draws batches of every atomicity with every operation and condition,
// and compares the answers and the stored documents with a map, while policies change
// and across restarts.
func TestBatchModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			runBatchModel(t, rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

func runBatchModel(t *testing.T, random *rand.Rand) {
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	policies := []string{"", `{"includedPaths":[{"path":"/n/?"}],"excludedPaths":[{"path":"/*"}]}`, richPolicy("flat")}
	models := map[string]batchModel{}
	refused, whole := 0, 0
	for step := range 250 {
		w.clock.Add(int64(random.IntN(2)))
		name := fmt.Sprint("k", random.IntN(3))
		if models[name] == nil {
			models[name] = batchModel{}
		}
		key := partitionkey.NewKey(partitionkey.String(name), partitionkey.Number(1))
		b := w.batchOf(key, Atomicity(random.IntN(3)))
		for range 1 + random.IntN(7) {
			b.Operations = append(b.Operations, models[name].draw(t, random, name))
		}
		next, codes := models[name].run(b)
		got, err := w.partition.Load().Batch(context.Background(), b)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range codes {
			r := &got.Results[i]
			code := status.Code(0)
			if r.Err != nil {
				code = r.Err.Code
			}
			if code != want {
				t.Fatalf("step %d: operation %d (%s %s): got %v, want %d", step, i, b.Operations[i].Op, b.Operations[i].ID, r.Err, want)
			}
		}
		models[name] = next
		next.learn(t, b, &got)
		if got.Refused {
			refused++
		} else {
			whole++
		}
		switch {
		case step%50 == 49:
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			if err := w.open(); err != nil {
				t.Fatal(err)
			}
		case step%30 == 29:
			c := *w.container.Load()
			c.Indexing = containerWith(t, 2, []string{"/x"}, policies[random.IntN(len(policies))]).Indexing
			w.container.Store(&c)
			w.partition.Load().Reindex()
		}
	}
	w.partition.Load().waitIdle()
	if refused < 20 || whole < 20 {
		t.Errorf("%d batches were refused and %d were not", refused, whole)
	}
	documents := 0
	for name, m := range models {
		documents += len(m)
		m.compare(t, w, partitionkey.NewKey(partitionkey.String(name), partitionkey.Number(1)))
	}
	if report := w.check(); !report.Clean() || report.Documents != int64(documents) {
		t.Errorf("%d documents, want %d; %q", report.Documents, documents, report.Problems)
	}
}

var modelIDs = []string{"x", "y", "z"}

func modelDocumentOf(id, name string, n, size int64) value.Value {
	return value.Object([]value.Member{
		{Name: "id", Value: value.String(id)},
		{Name: "a", Value: value.String(name)},
		{Name: "b", Value: value.Int(1)},
		{Name: "n", Value: value.Int(n)},
		{Name: "pad", Value: value.String(strings.Repeat("p", int(size)))},
	})
}

// draw draws an operation on one of a few ids.
func (m batchModel) draw(t *testing.T, random *rand.Rand, name string) (o BatchOperation) {
	o.Op = []Op{Create, Upsert, Replace, Delete, Patch, Fetch}[random.IntN(6)]
	id := modelIDs[random.IntN(len(modelIDs))]
	o.Silent = random.IntN(4) == 0
	if random.IntN(3) == 0 { // The etag of the version before the batch, or an unknown one.
		o.IfMatch = []resource.ETag{m[id].etag, AnyETag, `"none"`}[random.IntN(3)]
	}
	if random.IntN(6) == 0 {
		o.IfNoneMatch = []resource.ETag{m[id].etag, `"none"`}[random.IntN(2)]
	}
	n, size := random.Int64N(5), random.Int64N(40)
	switch o.Op {
	case Create, Upsert:
		o.Document = modelDocumentOf(id, name, n, size)
	case Replace: // Perhaps under another name.
		o.ID = id
		o.Document = modelDocumentOf(modelIDs[random.IntN(len(modelIDs))], name, n, size)
	case Patch:
		o.ID = id
		text := `{"operations":[{"op":"incr","path":"/n","value":1}]}`
		if random.IntN(3) == 0 {
			text = fmt.Sprintf(`{"condition":"from c where c.n < %d","operations":[{"op":"incr","path":"/n","value":1}]}`, n)
		}
		var err error
		if o.Changes, o.Condition, err = patchOf(mustParse(t, text)); err != nil {
			t.Fatal(err)
		}
	default:
		o.ID = id
	}
	return o
}

func mustParse(t *testing.T, text string) value.Value {
	t.Helper()
	v, err := value.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// run applies a batch to a copy of the model, and returns the result of each operation.
// The etags of changed documents are not known yet: the index of the operation replaces
// them.
func (m batchModel) run(b Batch) (batchModel, []status.Code) {
	codes := make([]status.Code, len(b.Operations))
	next := maps.Clone(m)
	for i := range b.Operations {
		codes[i] = next.do(&b.Operations[i], resource.ETag(fmt.Sprint(i)))
		if codes[i] == 0 || codes[i] == status.CodeNotModified {
			continue
		}
		if b.Atomicity == Each {
			continue
		}
		for j := i + 1; j < len(codes); j++ {
			codes[j] = status.CodeFailedDependency
		}
		if b.Atomicity == Atomic {
			for j := range i {
				codes[j] = status.CodeFailedDependency
			}
			return m, codes
		}
		break
	}
	return next, codes
}

// do applies one operation. Its etag is a placeholder.
func (m batchModel) do(o *BatchOperation, etag resource.ETag) status.Code {
	id := o.ID
	if o.Op == Create || o.Op == Upsert {
		id = o.Document.Get("id").Text()
	}
	old, there := m[id]
	named := o.IfNoneMatch != "" && o.IfNoneMatch == old.etag
	if o.Op == Fetch {
		named = named || o.IfMatch == AnyETag || o.IfMatch != "" && o.IfMatch == old.etag
	}
	switch {
	case !there && o.Op != Create && o.Op != Upsert:
		return status.CodeNotFound
	case there && o.Op == Create:
		return status.CodeConflict
	case there && o.Op != Fetch && o.IfMatch != "" && o.IfMatch != AnyETag && o.IfMatch != old.etag:
		return status.CodePreconditionFailed
	case there && named && o.Op == Fetch:
		return status.CodeNotModified
	case there && named:
		return status.CodePreconditionFailed
	}
	switch o.Op {
	case Delete:
		delete(m, id)
	case Patch:
		if o.Changes.Condition != "" {
			var limit int64
			if _, err := fmt.Sscanf(o.Changes.Condition, "from c where c.n < %d", &limit); err != nil || old.n >= limit {
				return status.CodePreconditionFailed
			}
		}
		m[id] = modelVersion{n: old.n + 1, size: old.size, etag: etag}
	case Create, Upsert, Replace:
		to := o.Document.Get("id").Text()
		if _, taken := m[to]; taken && to != id {
			return status.CodeConflict
		}
		delete(m, id)
		n, _ := o.Document.Get("n").Int64()
		m[to] = modelVersion{n: n, size: int64(o.Document.Get("pad").Len()), etag: etag}
	}
	return 0
}

// learn copies the etags in the results of a batch to the model.
func (m batchModel) learn(t *testing.T, b Batch, got *Batched) {
	t.Helper()
	seen := map[resource.ETag]bool{}
	for i := range got.Results {
		r := &got.Results[i]
		if r.Err != nil || b.Operations[i].Op == Fetch {
			continue
		}
		if seen[r.ETag] && r.ETag != "" {
			t.Fatalf("two versions have the etag %s", r.ETag)
		}
		seen[r.ETag] = true
		if (r.Body == nil) != (b.Operations[i].Silent || b.Operations[i].Op == Delete) {
			t.Fatalf("operation %d (%s): the body is %q", i, b.Operations[i].Op, r.Body)
		}
		for id, v := range m {
			if v.etag == resource.ETag(fmt.Sprint(i)) {
				v.etag = r.ETag
				m[id] = v
			}
		}
	}
}

// compare reads everything back.
func (m batchModel) compare(t *testing.T, w *world, key partitionkey.Key) {
	t.Helper()
	for _, id := range modelIDs {
		found, err := w.read(key, id, nil)
		v, there := m[id]
		if !there {
			if status.CodeOf(err) != status.CodeNotFound {
				t.Errorf("%s %s: got %v, want 404", key, id, err)
			}
			continue
		}
		var doc struct {
			N   int64
			Pad string
		}
		if err == nil {
			err = json.Unmarshal(found.Body, &doc)
		}
		if err != nil || doc.N != v.n || int64(len(doc.Pad)) != v.size || found.ETag != v.etag {
			t.Errorf("%s %s: got %s with %s (%v), want %+v", key, id, found.Body, found.ETag, err, v)
		}
	}
}

// pair is two documents that batches keep equal.
func pair(n int64) (first, second value.Value) {
	return modelDocumentOf("first", "k", n, n%7), modelDocumentOf("second", "k", n, n%5)
}

var pairKey = partitionkey.NewKey(partitionkey.String("k"), partitionkey.Number(1))

func (w *world) writePair(n int64) (Batched, error) {
	b := w.batchOf(pairKey, Atomic)
	first, second := pair(n)
	b.Operations = make([]BatchOperation, 2)
	b.Operations[0].Op, b.Operations[0].Document = Upsert, first
	b.Operations[1].Op, b.Operations[1].Document = Upsert, second
	return w.partition.Load().Batch(context.Background(), b)
}

// readPair returns the numbers of both in one state; none if the documents do not
// exist.
func (w *world) readPair() ([]string, error) {
	rows, _, err := w.rows("SELECT VALUE c.n FROM c", partitionkey.Full(), 0, nil)
	return rows, err
}

// TestBatchesAreWhole reads while batches are written, and simulates a power failure:
// both documents of a pair always have the same number, and no batch that was
// acknowledged or read is lost.
func TestBatchesAreWhole(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			batchesAreWhole(t, seed)
		})
	}
}

func batchesAreWhole(t *testing.T, seed uint64) {
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	var attempted, certain atomic.Int64
	var done atomic.Bool
	var group sync.WaitGroup
	reads := make(chan struct{}, 1<<16)
	sure := func(n int64) {
		for before := certain.Load(); before < n && !certain.CompareAndSwap(before, n); before = certain.Load() {
		}
	}
	group.Go(func() {
		for !done.Load() {
			n := attempted.Add(1)
			if got, err := w.writePair(n); err != nil || got.Refused {
				t.Errorf("batch %d: %+v, %v", n, got, err)
				return
			}
			sure(n)
		}
	})
	for range 2 {
		group.Go(func() {
			for !done.Load() {
				rows, err := w.readPair()
				if err != nil || len(rows) > 0 && (len(rows) != 2 || rows[0] != rows[1]) {
					t.Errorf("seed %d: read %s (%v)", seed, rows, err)
					return
				}
				if len(rows) > 0 {
					var n int64
					fmt.Sscan(rows[0], &n)
					sure(n)
				}
				select {
				case reads <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 30 + rand.New(rand.NewPCG(seed, 2)).IntN(100) {
		<-reads
	}
	low := certain.Load()
	after := w.disk.Crash(float64(seed%3)/2, seed)
	high := attempted.Load()
	done.Store(true)
	group.Wait()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	w.disk = after
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	rows, err := w.readPair()
	if err != nil || len(rows) == 0 && low > 0 || len(rows) > 0 && (len(rows) != 2 || rows[0] != rows[1]) {
		t.Fatalf("seed %d: after the crash: %s (%v)", seed, rows, err)
	}
	if len(rows) > 0 {
		var n int64
		if fmt.Sscan(rows[0], &n); n < low || n > high {
			t.Errorf("seed %d: after the crash: %d, want %d to %d", seed, n, low, high)
		}
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("seed %d: %q", seed, report.Problems)
	}
}

// TestCountersAddUp increments one property from several clients at once, so that most
// patches are evaluated again on a newer version: none is lost or counted twice.
func TestCountersAddUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	if _, err := w.writePair(0); err != nil {
		t.Fatal(err)
	}
	changes, err := patch.Parse(mustParse(t, `[{"op":"incr","path":"/n","value":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	const sides, times = 8, 50
	var group sync.WaitGroup
	for side := range sides {
		group.Go(func() {
			for range times {
				o := Operation{Op: Patch, ID: "first", Changes: changes}
				var err error
				if side%2 == 0 {
					_, err = w.write(Patch, value.Value{}, func(write *Write) {
						write.Key, write.ID, write.Changes = pairKey, o.ID, o.Changes
					})
				} else {
					b := w.batchOf(pairKey, Atomic)
					b.Operations = []BatchOperation{{Operation: o}}
					_, err = w.partition.Load().Batch(context.Background(), b)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	rows, err := w.readPair()
	if want := []string{fmt.Sprint(sides * times), "0"}; err != nil || !slices.Equal(rows, want) {
		t.Errorf("got %s (%v), want %s", rows, err, want)
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// casInput is a batch of both documents of a pair: the first is replaced if its etag is
// the one read before, the second unconditionally. Without an etag both are read.
type casInput struct {
	expect resource.ETag
	n      int64
}

// casState is the number of both documents, and the etag of the first.
type casState struct {
	n    [2]int64
	etag resource.ETag
}

type casOutput struct {
	casState
	refused bool
}

// TestLinearizable has several clients read and compare-and-set in batches, and checks
// that one order of all batches explains the results.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	first, err := w.writePair(0)
	if err != nil {
		t.Fatal(err)
	}
	model := porcupine.Model{
		Init: func() any { return casState{etag: first.Results[0].ETag} },
		Step: func(state, input, output any) (bool, any) {
			s, in, out := state.(casState), input.(casInput), output.(casOutput)
			if in.expect == "" {
				return s == out.casState, s
			}
			if s.etag != in.expect {
				return out.refused, s
			}
			return !out.refused, casState{n: [2]int64{in.n, in.n}, etag: out.etag}
		},
	}
	var mu sync.Mutex
	var history []porcupine.Operation
	var refused atomic.Int64
	begun := time.Now()
	var group sync.WaitGroup
	const sides, rounds = 4, 40
	for side := range sides {
		group.Go(func() {
			var known resource.ETag
			for round := range rounds {
				in := casInput{expect: known, n: int64(side*rounds + round + 1)}
				call := time.Since(begun)
				out, err := w.compareAndSet(in)
				if err != nil {
					t.Error(err)
					return
				}
				op := porcupine.Operation{ClientId: side, Input: in, Output: out, Call: int64(call), Return: int64(time.Since(begun))}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
				if known = out.etag; out.refused {
					refused.Add(1)
				}
			}
		})
	}
	group.Wait()
	if !porcupine.CheckOperations(model, history) {
		t.Errorf("no order explains the %d answers", len(history))
	}
	if n := refused.Load(); n == 0 || int(n) == len(history) {
		t.Errorf("%d of %d batches were refused", n, len(history))
	}
}

// compareAndSet carries out a batch of the linearizability test.
func (w *world) compareAndSet(in casInput) (out casOutput, err error) {
	b := w.batchOf(pairKey, Atomic)
	b.Operations = make([]BatchOperation, 2)
	one, two := &b.Operations[0], &b.Operations[1]
	if in.expect == "" {
		one.Op, one.ID, two.Op, two.ID = Fetch, "first", Fetch, "second"
	} else {
		one.Op, two.Op, one.IfMatch = Replace, Replace, in.expect
		one.Document, two.Document = pair(in.n)
	}
	got, err := w.partition.Load().Batch(context.Background(), b)
	if err != nil || got.Refused {
		return casOutput{refused: got.Refused}, err
	}
	out.etag = got.Results[0].ETag
	for i := range got.Results {
		var doc struct{ N int64 }
		if err := json.Unmarshal(got.Results[i].Body, &doc); err != nil {
			return out, err
		}
		out.n[i] = doc.N
	}
	return out, nil
}

// TestBatchMax checks both sides of the maximum number of operations.
func TestBatchMax(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	for n, want := range map[int]status.Code{0: status.CodeBadRequest, 1: 0, BatchMax: 0, BatchMax + 1: status.CodeBadRequest} {
		b := w.batchOf(pairKey, Atomic)
		for i := range n {
			b.Operations = append(b.Operations, BatchOperation{Operation: Operation{Op: Upsert, Document: modelDocumentOf(fmt.Sprint(i), "k", 1, 1)}})
		}
		got, err := w.partition.Load().Batch(context.Background(), b)
		if status.CodeOf(err) != want || got.Refused {
			t.Errorf("%d operations: %v", n, err)
		}
	}
}

// transact executes any number of upserts as one transaction.
func (w *world) transact(t *testing.T, documents []value.Value) error {
	t.Helper()
	p, b := w.partition.Load(), w.batchOf(pairKey, Atomic)
	r, err := p.newRequest(b.Generation, b.Key, b.EPK, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.operations = make([]operation, len(documents))
	for i, doc := range documents {
		r.operations[i].ask = Operation{Op: Upsert, Document: doc}
	}
	if err := p.prepare(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := p.submit(t.Context(), r); err != nil || r.err != nil {
		t.Fatal(err, r.err)
	}
	if r.refused {
		return r.operations[len(documents)-1].err
	}
	return nil
}

// TestTransactionLimits checks both sides of the limits of versions and bytes that one
// transaction may write, and its etags.
func TestTransactionLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, `{"indexingMode":"none"}`))
	doc := modelDocumentOf("x", "k", 1, 1)
	for n, want := range map[int]status.Code{versionsMax: 0, versionsMax + 1: status.CodeBadRequest} {
		if err := w.transact(t, slices.Repeat([]value.Value{doc}, n)); status.CodeOf(err) != want {
			t.Errorf("%d versions: %v", n, err)
		}
	}
	const size = 1 << 20
	frame := int64(len(modelDocumentOf("x", "k", 1, 0).JSON()))
	for over, want := range map[int64]status.Code{0: 0, 1: status.CodeTooLarge} {
		documents := slices.Repeat([]value.Value{modelDocumentOf("x", "k", 1, size-frame)}, writtenMax/size)
		documents[len(documents)-1] = modelDocumentOf("x", "k", 1, size-frame+over)
		if err := w.transact(t, documents); status.CodeOf(err) != want {
			t.Errorf("%d bytes too many: %v", over, err)
		}
	}
	if report := w.check(); !report.Clean() || report.Documents != 1 {
		t.Errorf("%d documents; %q", report.Documents, report.Problems)
	}
}

// BenchmarkBatch replaces documents of 1 KB in one batch: one effect, one sync.
func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("size=1KiB/operations=%d", n), func(b *testing.B) {
			w := newWorld(b, containerWith(b, 2, []string{"/a"}, ""))
			batch := w.batchOf(partitionkey.NewKey(partitionkey.String("tenant-1")), Atomic)
			batch.Operations = make([]BatchOperation, n)
			b.ReportAllocs()
			round := int64(0)
			for b.Loop() {
				round++
				for i := range batch.Operations {
					doc := benchDocument(1, 1<<10).With("id", value.String(fmt.Sprint(i))).With("property9", value.Int(round))
					batch.Operations[i] = BatchOperation{Operation: Operation{Op: Upsert, Document: doc}}
				}
				if got, err := w.partition.Load().Batch(b.Context(), batch); err != nil || got.Refused {
					b.Fatal(got, err)
				}
			}
		})
	}
}
