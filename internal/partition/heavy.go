package partition

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/partition/layout"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// A write of a document with very many terms is an effect of megabytes. Others wait
// behind it for its evaluation and for its sync, so it is made as short as it can be,
// and few are on their way at once:
//
//   - What it changes in the index is worked out and written as rows by the caller,
//     for the version that is published, see [ahead]. The writer checks that this
//     still is the current version and appends the rows.
//   - All heavy writes of a partition pass a gate in front of the writer's queue. A
//     small write therefore finds at most one large effect in front of it, however
//     many clients send such documents.

const (
	// heavyMin is from which weight on a write passes the gate.
	heavyMin = 256 << 10
	// heavyBytes is the weight that may be behind the gate at once. A heavier write
	// passes alone.
	heavyBytes = 8 << 20
	// heavyWaiting is how many may wait in front of the gate: their documents are in
	// memory meanwhile.
	heavyWaiting = 64
	// heavyCrowds is the weight from which on a write waits until the store has
	// flushed what it has in memory: it needs a write buffer of its own.
	heavyCrowds = 2 << 20
	// termWeight is about how many bytes of an effect one term takes.
	termWeight = 40
	// heavyTerms is from how many terms on the rows of the index are made ahead.
	heavyTerms = 4096

	heavyRetryAfter = 500 * time.Millisecond
	// heavyLook is how often a heavy write looks whether the store is ready for it.
	heavyLook = 2 * time.Millisecond
)

// weight is about how many bytes the effect of a request has.
func (r *request) weight() (bytes int) {
	for i := range r.operations {
		op := &r.operations[i]
		if op.err == nil {
			bytes += len(op.row) + termWeight*op.terms()
		}
	}
	return bytes
}

// terms is how many terms an operation may change.
func (op *operation) terms() int { return op.keys.Count() + op.before.keys.Count() }

// beginWork asks for work on a document of a size, if that is large and there is none
// under way.
func (r *request) beginWork(ctx context.Context, size int) {
	if r.working == nil && r.work != nil && size >= LargeMin {
		r.working, r.endWork = r.work(ctx)
	}
}

// look is what loops call in work under way; nil when there is none.
func (r *request) look() func() error {
	if r.working == nil {
		return nil
	}
	working := r.working
	return func() error { return pacing.Check(working) }
}

// rest ends the work under way, and returns what its caller is told.
func (r *request) rest(ctx context.Context, err error) error {
	if r.working == nil {
		return err
	}
	err = r.endWork(err)
	r.working, r.endWork = nil, nil
	if err != nil && status.From(err) == nil && ctx.Err() != nil {
		return timedOut(ctx, "The write was not begun in time and has had no effect.")
	}
	return err
}

// gate bounds the weight of the heavy writes between the front of the writer's queue
// and the end of their effects. They pass in the order in which they come.
type gate struct {
	anew atomic.Int64 // writes with heavyTerms that the writer has worked out itself

	mu sync.Mutex

	passed int // weight behind the gate
	line   []*passing
}

// passing is a write in front of the gate.
type passing struct {
	weight int
	passed bool          // guarded by gate.mu
	open   chan struct{} // closed with passed
}

// enter waits until a write may pass. The error is TooManyRequests, or that of the
// context.
func (g *gate) enter(ctx context.Context, weight int) error {
	g.mu.Lock()
	if len(g.line) == 0 && (g.passed == 0 || g.passed+weight <= heavyBytes) {
		g.passed += weight
		g.mu.Unlock()
		return nil
	}
	if len(g.line) >= heavyWaiting {
		g.mu.Unlock()
		return status.TooManyRequests(0, heavyRetryAfter, "%d writes of large documents wait for the partition. Try again later, or write smaller documents.", heavyWaiting)
	}
	me := &passing{weight: weight, open: make(chan struct{})}
	g.line = append(g.line, me)
	g.mu.Unlock()
	select {
	case <-me.open:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if me.passed {
		g.leaveLocked(weight)
	} else {
		g.line = slices.DeleteFunc(g.line, func(o *passing) bool { return o == me })
		g.leaveLocked(0) // Who stood behind may be lighter.
	}
	return timedOut(ctx, "The write was not begun in time and has had no effect.")
}

// leave says that a write that has passed is done.
func (g *gate) leave(weight int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaveLocked(weight)
}

func (g *gate) leaveLocked(weight int) {
	if g.passed -= weight; g.passed < 0 {
		panic("a heavy write has left twice")
	}
	for len(g.line) > 0 && (g.passed == 0 || g.passed+g.line[0].weight <= heavyBytes) {
		next := g.line[0]
		g.line = slices.Delete(g.line, 0, 1)
		g.passed += next.weight
		next.passed = true
		close(next.open)
	}
}

// pass has a heavy request wait for the gate, and does the rest of the work that needs
// no order. It returns what is called when the request has its result; nil for a light
// one.
func (p *Partition) pass(ctx context.Context, r *request) (leave func(), err error) {
	weight := r.weight()
	if weight < heavyMin {
		return nil, nil
	}
	if err := p.heavy.enter(ctx, weight); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.heavy.leave(weight)
		}
	}()
	if len(r.operations) == 1 && r.operations[0].terms() >= heavyTerms {
		r.beginWork(ctx, LargeMin)
		if err := r.rest(ctx, p.lookAhead(ctx, r, &r.operations[0])); err != nil {
			return nil, err
		}
	}
	if weight >= heavyCrowds {
		if err := p.calm(ctx); err != nil {
			return nil, err
		}
	}
	return func() { p.heavy.leave(weight) }, nil
}

// passed leaves the gate when a request has its result, which may be later than its
// caller waits for it.
func (r *request) passed(leave func()) {
	select {
	case <-r.evaluated:
	default:
		leave() // The writer never had it.
		return
	}
	if r.proposal == nil {
		leave()
		return
	}
	select {
	case <-r.proposal.Done():
		leave()
	default:
		go func() {
			<-r.proposal.Done()
			leave()
		}()
	}
}

// calm waits until the store has no full write buffers and not too many tables: in
// front of the gate that costs the heavy write time, and behind it everybody.
func (p *Partition) calm(ctx context.Context) error {
	var tick *time.Ticker
	for p.config.Store.Busy() {
		if tick == nil {
			tick = time.NewTicker(heavyLook)
			defer tick.Stop()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return timedOut(ctx, "The write was not begun in time and has had no effect.")
		}
	}
	return nil
}

// ahead is what an operation changes in the index if the version that its caller has
// found is the current one, without the term of the time, which only the writer knows.
type ahead struct {
	removed, added int           // terms
	vectors        layout.Change // of vectors alone

	// The rows of the terms, in the order of their keys: those below the term of the
	// time, and those above it.
	low, high *storage.Batch
	number    uint64 // of the document in the rows
}

// lookAhead makes the rows of the index of an operation. Heavy writes pass one after
// the other, so the version that is published now is likely to be the current one.
func (p *Partition) lookAhead(ctx context.Context, r *request, op *operation) error {
	if op.err != nil || op.row == nil && op.ask.Op != Delete {
		return nil // Refused, or a patch that the writer has to make.
	}
	now, err := p.acquire()
	if err != nil {
		return err
	}
	defer p.release(now)
	if !op.indexing.Fits(now.Indexing) || now.Indexing.Phase != layout.Settled || !now.Indexing.Active.Timeless() {
		return nil // The writer works it out, as for any document.
	}
	if op.ask.Op != Create {
		if err := p.refresh(ctx, r, op, now); err != nil {
			return err
		}
		if op.before.refused != nil {
			return nil
		}
	}
	look := r.look()
	if look == nil {
		look = func() error { return pacing.Check(ctx) }
	}
	op.ahead, err = aheadOf(now.Indexing, look, op)
	if err != nil && ctx.Err() != nil {
		return timedOut(ctx, "The write was not begun in time and has had no effect.")
	}
	return err
}

// refresh finds the version to be replaced again if it is another one by now.
func (p *Partition) refresh(ctx context.Context, r *request, op *operation, now *published) error {
	same := false
	found, err := now.Rows.View([]byte(op.oldKey()), func(row []byte) error {
		d, err := layout.DecodeDocument(row)
		same = err == nil && op.before.found && op.before.version == d.Version
		return err
	})
	if err != nil || same || !found && !op.before.found {
		return err
	}
	op.before = guess{}
	return p.prepareBefore(ctx, r, op, now)
}

// aheadOf returns the rows that lead from the keys of the guessed version to those of
// the new one.
func aheadOf(x *layout.Indexing, look func() error, op *operation) (*ahead, error) {
	var old, new layout.Keys
	a := &ahead{}
	if op.before.found {
		old, a.number = op.before.keys.Active, op.before.version.Number
	}
	if op.row != nil {
		new = op.keys.Active
	}
	a.vectors = layout.Diff(layout.Keys{Vectors: layout.SortVectors(slices.Clone(old.Vectors))}, layout.Keys{Vectors: layout.SortVectors(slices.Clone(new.Vectors))})
	time, _ := x.Active.Timestamp(0)
	part := func(from, to []index.Term) (below, above []index.Term) {
		at, _ := slices.BinarySearch(from, time[:min(len(time), storage.PathBytes)])
		return from[:at], from[at:]
	}
	oldLow, oldHigh := part(old.Terms, nil)
	newLow, newHigh := part(new.Terms, nil)
	var err error
	if a.low, err = a.rows(look, oldLow, newLow); err == nil {
		a.high, err = a.rows(look, oldHigh, newHigh)
	}
	return a, err
}

// rows makes the rows of the terms that differ.
func (a *ahead) rows(look func() error, old, new []index.Term) (*storage.Batch, error) {
	batch := storage.NewBatchOf((len(old) + len(new)) * termWeight)
	var key []byte
	for n := 0; len(old) > 0 || len(new) > 0; n++ {
		if n%256 == 0 {
			if err := look(); err != nil {
				return nil, err
			}
		}
		order := 0
		switch {
		case len(old) == 0:
			order = 1
		case len(new) == 0:
			order = -1
		case old[0] < new[0]:
			order = -1
		case old[0] > new[0]:
			order = 1
		}
		var err error
		switch order {
		case -1:
			key = storage.TermKey(key[:0], old[0])
			err = batch.RemovePosting(key, a.number)
			a.removed++
		case 1:
			key = storage.TermKey(key[:0], new[0])
			err = batch.AddPosting(key, a.number)
			a.added++
		}
		if err != nil {
			return nil, err
		}
		if order <= 0 {
			old = old[1:]
		}
		if order >= 0 {
			new = new[1:]
		}
	}
	return batch, nil
}

// apart takes the terms out of a change, and returns their rows in the order of their
// keys, as they would have been made ahead.
func apart(c *layout.Change, number uint64) (*ahead, error) {
	a := &ahead{number: number, high: storage.NewBatch()}
	var err error
	a.low, err = a.rows(func() error { return nil }, c.Removed, c.Added)
	c.Removed, c.Added = nil, nil
	return a, err
}

// take returns what was made ahead for an operation when it is true of the version in
// front of it, and nil otherwise. v holds the number that both versions share.
func (op *operation) take(x *layout.Indexing, before *current, v layout.Version) *ahead {
	a := op.ahead
	switch {
	case a == nil || before.edit != gone || !op.indexing.Fits(x) || x.Phase != layout.Settled:
		return nil
	case before.exists != op.before.found || before.exists && op.before.version != before.Version:
		return nil
	}
	return a
}

// stamped is the change of everything but what was made ahead: the terms of the time,
// and the vectors.
func (a *ahead) stamped(x *layout.Indexing, before *current, op *operation, v layout.Version) layout.Change {
	c := a.vectors
	var old, new []index.Term
	if before.exists {
		if t, ok := x.Active.Timestamp(before.TS); ok {
			old = []index.Term{t}
		}
	}
	if op.row != nil {
		if t, ok := x.Active.Timestamp(v.TS); ok {
			new = []index.Term{t}
		}
	}
	c.Removed, c.Added = index.Diff(old, new)
	return c
}

// splice returns the rows of a batch and those that were made ahead, in the order of
// their keys: the store takes large batches that are sorted in a fraction of the time.
func (a *ahead) splice(small *storage.Batch, number uint64) (*storage.Batch, error) {
	if a.number != number {
		for _, b := range []*storage.Batch{a.low, a.high} {
			if err := b.Renumber(number); err != nil {
				return nil, err
			}
		}
	}
	var rows []storage.Row
	ranges := false
	err := storage.ReadRows(small.Repr(), func(r storage.Row) error {
		rows = append(rows, r)
		ranges = ranges || r.Kind == storage.RowDeleteRange
		return nil
	})
	if err != nil {
		return nil, err
	}
	// The deletion of a range counts for the rows in front of it alone.
	if !ranges {
		slices.SortStableFunc(rows, func(a, b storage.Row) int { return bytes.Compare(a.Key, b.Key) })
	}
	all := storage.NewBatchOf(small.Len() + a.low.Len() + a.high.Len())
	family, _ := storage.FamilyTerm.Bounds()
	_, behind := storage.FamilyTerm.Bounds()
	next := func(until []byte) {
		for err == nil && len(rows) > 0 && (until == nil || bytes.Compare(rows[0].Key, until) < 0) {
			err = all.Add(rows[0])
			rows = rows[1:]
		}
	}
	join := func(b *storage.Batch) {
		if err == nil {
			err = all.Join(b)
		}
	}
	next(family)
	join(a.low)
	next(behind)
	join(a.high)
	next(nil)
	return all, err
}
