package partition

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// The effect of a write of documents with very many terms has megabytes of rows. Other
// writes wait for its evaluation and its sync, so both are as short as possible, and few
// such writes are between the queue and the disk at a time:
//
//   - The caller computes the changes of the index, and makes their rows, for the
//     published version: see [ahead]. The writer checks that the version is still
//     current, and appends the rows.
//   - All heavy requests of a partition pass a [gate] before the writer's queue: writes,
//     batches, and the commits of transactions that hold a key. A small write therefore
//     waits for one large effect, however many clients send such documents.
//
// Expire, Clear and Purge delete documents without the gate: clients cannot choose how
// many of them are deleted at a time.

const (
	// heavyMin is the weight from which a request passes the gate.
	heavyMin = 256 << 10
	// heavyBytes is the greatest weight of the requests that have passed. A heavier
	// request passes alone.
	heavyBytes = 8 << 20
	// heavyWaiting is the greatest number of requests that wait at the gate, with
	// their documents in memory. Owners of key locks do not count.
	heavyWaiting = 64
	// heavyCrowds is the weight from which a request waits until the store has flushed
	// its write buffers, because its effect needs a write buffer of its own.
	heavyCrowds = 2 << 20
	// termWeight is the approximate number of bytes of a term in an effect.
	termWeight = 40
	// heavyTerms is the number of terms from which the caller makes the rows of the
	// index.
	heavyTerms = 4096

	heavyRetryAfter = 500 * time.Millisecond
	// heavyLook is the time between two looks at whether the store is ready.
	heavyLook = 2 * time.Millisecond
)

// weight returns the approximate number of bytes of the effect of a request.
func (r *request) weight() (bytes int) {
	for i := range r.operations {
		op := &r.operations[i]
		if op.err == nil {
			bytes += len(op.row) + termWeight*op.terms()
		}
	}
	return bytes
}

// terms returns the greatest number of terms that an operation can change.
func (op *operation) terms() int { return op.keys.Count() + op.before.keys.Count() }

// beginWork begins work on a document, if the document is large and no work is in
// progress.
func (r *request) beginWork(ctx context.Context, size int) {
	if r.working == nil && r.work != nil && size >= LargeMin {
		r.working, r.endWork = r.work(ctx)
	}
}

// look returns the function that loops of the work call; nil if none is in progress.
func (r *request) look() func() error {
	if r.working == nil {
		return nil
	}
	working := r.working
	return func() error { return pacing.Check(working) }
}

// rest ends the work in progress, and returns the error for the caller.
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

// gate bounds the weight of the heavy requests that have passed it and have no result
// yet. They pass in the order in which they arrive, except that owners of key locks
// come first.
//
// An owner does not wait for requests that are parked until it releases its lock, since
// those wait for it.
type gate struct {
	// max is the weight of the requests that may have passed: heavyBytes, less in tests.
	max int

	recomputed atomic.Int64 // operations with heavyTerms whose change the writer has computed

	mu sync.Mutex

	passed int // weight of the requests that have passed
	parked int // weight of those that wait for a lock
	owners []*passing
	line   []*passing
}

// passing is a heavy request at the gate or after it. The gate's mutex guards it.
type passing struct {
	weight int
	owner  bool // the request is that of the owner of a key lock
	passed bool
	left   bool
	parks  int           // calls of park less those of unpark
	open   chan struct{} // closed with passed
}

// enter waits until a request may pass. It has to leave. The error is TooManyRequests,
// or RequestTimeout if ctx ends.
func (g *gate) enter(ctx context.Context, weight int, owner bool) (*passing, error) {
	me := &passing{weight: weight, owner: owner, open: make(chan struct{})}
	if err := g.queue(me); err != nil {
		return nil, err
	}
	select {
	case <-me.open:
		return me, nil
	case <-ctx.Done():
	}
	g.leave(me)
	return nil, timedOut(ctx, "The write was not begun in time and has had no effect.")
}

// queue adds a request to its line, and lets it pass if it may.
func (g *gate) queue(me *passing) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case me.owner:
		g.owners = append(g.owners, me)
	case len(g.line) >= heavyWaiting:
		return status.TooManyRequests(0, heavyRetryAfter, "%d writes of large documents wait for the partition. Try again later, or write smaller documents.", heavyWaiting)
	default:
		g.line = append(g.line, me)
	}
	g.admitLocked()
	return nil
}

// leave removes a request: it has its result, or does not wait any more.
func (g *gate) leave(me *passing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if me.left {
		panic("a heavy request has left twice")
	}
	me.left = true
	if me.passed {
		g.passed -= me.weight
		if me.parks > 0 {
			g.parked -= me.weight
		}
	} else {
		same := func(other *passing) bool { return other == me }
		g.owners, g.line = slices.DeleteFunc(g.owners, same), slices.DeleteFunc(g.line, same)
	}
	g.admitLocked()
}

// park tells the gate that requests wait for a lock, and unpark that they do not any
// more. The calls for a request may come in any order. Light requests are ignored.
func (g *gate) park(requests []*request)   { g.move(requests, 1) }
func (g *gate) unpark(requests []*request) { g.move(requests, -1) }

func (g *gate) move(requests []*request, by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range requests {
		p := r.passing
		if p == nil || p.left {
			continue
		}
		before := p.parks > 0
		p.parks += by
		switch after := p.parks > 0; {
		case after && !before:
			g.parked += p.weight
		case before && !after:
			g.parked -= p.weight
		}
	}
	g.admitLocked()
}

// admitLocked lets requests pass.
func (g *gate) admitLocked() {
	for len(g.owners) > 0 && g.fits(g.passed-g.parked, g.owners[0].weight) {
		g.openLocked(&g.owners)
	}
	for len(g.owners) == 0 && len(g.line) > 0 && g.fits(g.passed, g.line[0].weight) {
		g.openLocked(&g.line)
	}
}

// fits reports whether a request may pass while others of a weight have no result.
func (g *gate) fits(others, weight int) bool { return others == 0 || others+weight <= g.max }

// openLocked lets the first request of a line pass.
func (g *gate) openLocked(line *[]*passing) {
	next := (*line)[0]
	*line = slices.Delete(*line, 0, 1)
	g.passed += next.weight
	next.passed = true
	close(next.open)
}

// pass makes a heavy request wait at the gate, and then does the rest of the work that
// needs no order. The caller calls passed after it, whatever the error of what follows.
func (p *Partition) pass(ctx context.Context, r *request) (err error) {
	weight := r.weight()
	if weight < heavyMin {
		return nil
	}
	if r.passing, err = p.heavy.enter(ctx, weight, r.lock != nil); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			p.heavy.leave(r.passing)
			r.passing = nil
		}
	}()
	if err := p.lookAheadAll(ctx, r); err != nil {
		return err
	}
	if weight >= heavyCrowds {
		return p.waitForStore(ctx)
	}
	return nil
}

// lookAheadAll makes the rows of the index for each operation with many terms, unless
// the request has other operations on its document: the version before the operation is
// known only to the writer then.
func (p *Partition) lookAheadAll(ctx context.Context, r *request) error {
	var touched map[string]int
	if len(r.operations) > 1 {
		touched = make(map[string]int, len(r.operations))
		for i := range r.operations {
			op := &r.operations[i]
			touched[op.oldKey()]++
			if op.renames() {
				touched[op.newKey()]++
			}
		}
	}
	for i := range r.operations {
		op := &r.operations[i]
		if op.terms() < heavyTerms || touched[op.oldKey()] > 1 || touched[op.newKey()] > 1 {
			continue
		}
		r.beginWork(ctx, LargeMin)
		if err := r.rest(ctx, p.lookAhead(ctx, r, op)); err != nil {
			return err
		}
	}
	return nil
}

// passed leaves the gate when a request has its result, which may be later than the
// caller waits for it.
func (p *Partition) passed(r *request) {
	me := r.passing
	if me == nil {
		return
	}
	select {
	case <-r.evaluated:
	default:
		p.heavy.leave(me) // The writer will not evaluate it.
		return
	}
	if r.proposal == nil {
		p.heavy.leave(me)
		return
	}
	select {
	case <-r.proposal.Done():
		p.heavy.leave(me)
	default:
		go func() {
			<-r.proposal.Done()
			p.heavy.leave(me)
		}()
	}
}

// waitForStore waits until the store has no full write buffers and not too many tables. Without
// it, all writes after the heavy one would wait for that.
func (p *Partition) waitForStore(ctx context.Context) error {
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

// ahead is the change of the index by an operation on the version that its caller has
// found. It lacks the term of the time, which only the writer knows.
type ahead struct {
	removed, added int           // terms
	vectors        layout.Change // of vectors alone

	// The rows of the terms in the order of their keys: those before the term of the
	// time, and those after it.
	low, high *storage.Batch
	number    uint64 // of the document in the rows
}

// lookAhead makes the ahead of an operation. Heavy requests pass one after another, so
// the published version is probably the current one.
func (p *Partition) lookAhead(ctx context.Context, r *request, op *operation) error {
	if op.err != nil || op.row == nil && op.ask.Op != Delete {
		return nil // It is refused, or is a patch that the writer makes.
	}
	now, err := p.acquire()
	if err != nil {
		return err
	}
	defer p.release(now)
	if !op.indexing.Fits(now.Indexing) || now.Indexing.Phase != layout.Settled || !now.Indexing.Active.Timeless() {
		return nil // The writer computes the change, as for small documents.
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

// refresh finds the version to replace again if it has changed.
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

// apart moves the terms of a change to an ahead.
func apart(c *layout.Change, number uint64) (*ahead, error) {
	a := &ahead{number: number, high: storage.NewBatch()}
	var err error
	a.low, err = a.rows(func() error { return nil }, c.Removed, c.Added)
	c.Removed, c.Added = nil, nil
	return a, err
}

// take returns the ahead of an operation if it is valid for the current version, and
// nil otherwise. v has the number of the document.
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

// stamped returns the change that is not in the rows of the ahead: the terms of the
// time, and the vectors.
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

// splice returns the rows of a batch and of aheads in the order of their keys: the store
// applies large batches that are sorted in a fraction of the time.
func splice(small *storage.Batch, aheads []*ahead) (*storage.Batch, error) {
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
	// The deletion of a range applies only to the rows before it.
	if !ranges {
		slices.SortStableFunc(rows, func(a, b storage.Row) int { return bytes.Compare(a.Key, b.Key) })
	}
	size := small.Len()
	for _, a := range aheads {
		size += a.low.Len() + a.high.Len()
	}
	s := splicing{all: storage.NewBatchOf(size), rows: rows}
	low, high := storage.FamilyTerm.Bounds()
	s.until(low)
	s.join(aheads, func(a *ahead) *storage.Batch { return a.low })
	s.until(high)
	s.join(aheads, func(a *ahead) *storage.Batch { return a.high })
	s.until(nil)
	return s.all, s.err
}

// splicing is one splice.
type splicing struct {
	all  *storage.Batch
	rows []storage.Row // of the small batch, not added yet
	err  error
}

// until adds the rows of the small batch whose keys are below a bound; nil is no bound.
func (s *splicing) until(bound []byte) {
	for s.err == nil && len(s.rows) > 0 && (bound == nil || bytes.Compare(s.rows[0].Key, bound) < 0) {
		s.err = s.all.Add(s.rows[0])
		s.rows = s.rows[1:]
	}
}

// join adds a part of each ahead, merged by their keys.
func (s *splicing) join(aheads []*ahead, part func(a *ahead) *storage.Batch) {
	if len(aheads) == 1 && s.err == nil {
		s.err = s.all.Join(part(aheads[0]))
		return
	}
	runs := make([][]storage.Row, 0, len(aheads))
	for _, a := range aheads {
		run := make([]storage.Row, 0, part(a).Rows())
		err := storage.ReadRows(part(a).Repr(), func(r storage.Row) error {
			run = append(run, r)
			return nil
		})
		if s.err == nil {
			s.err = err
		}
		runs = append(runs, run)
	}
	for len(runs) > 1 {
		half := runs[:0]
		for len(runs) > 1 {
			half, runs = append(half, mergeRows(runs[0], runs[1])), runs[2:]
		}
		runs = append(half, runs...)
	}
	for i := 0; len(runs) > 0 && s.err == nil && i < len(runs[0]); i++ {
		s.err = s.all.Add(runs[0][i])
	}
}

// mergeRows merges rows that are sorted by their keys.
func mergeRows(a, b []storage.Row) []storage.Row {
	merged := make([]storage.Row, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if bytes.Compare(b[0].Key, a[0].Key) < 0 {
			merged, b = append(merged, b[0]), b[1:]
		} else {
			merged, a = append(merged, a[0]), a[1:]
		}
	}
	return append(append(merged, a...), b...)
}

// renumber makes the rows those of a document with a number.
func (a *ahead) renumber(number uint64) error {
	if a.number == number {
		return nil
	}
	a.number = number
	return errors.Join(a.low.Renumber(number), a.high.Renumber(number))
}
