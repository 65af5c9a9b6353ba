package partition

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Hold asks for the documents of one full partition key, to work on them for
// longer than the writer could wait.
type Hold struct {
	Generation resource.Generation // of the partition as the caller knows it

	// Key is the full partition key, and EPK its hash. The caller has checked
	// both.
	Key partitionkey.Key
	EPK partitionkey.EPK

	Session resource.LSN      // that the caller has seen; zero for none
	Meter   *throughput.Meter // receives the charge of each operation
}

// Held is what came of a Hold.
type Held struct {
	LSN resource.LSN // of the effect, or of what was seen when there is none; also set with an error

	mark  []byte // how the text of an etag begins that the Holding gave out
	given int64  // time that its versions had
	final []version
}

// Holding works on the documents of one key while writes of others to that key
// wait; other keys go on, and so do readers. Its operations see what those before
// them have left, on top of a snapshot that has all of the key, and nobody sees
// them before all of them are one effect.
//
// It belongs to the goroutine of the function that [Partition.Hold] calls, and
// ends with it.
type Holding struct {
	p      *Partition
	now    *published
	lock   *keyLock
	keys   *request // epk, key and hash of its requests
	scope  partitionkey.Range
	writer writer // scratch and the state that tx goes on from; nothing is on its way
	tx     transaction
	meter  *throughput.Meter

	// done are the operations that have made a version, in their order, as the
	// writer will do them again.
	done []operation

	// Document numbers that the partition has given to this Holding and that are
	// free: those up to and including last, behind the counter of tx.
	last  uint64
	chunk uint64 // how many it got the last time
}

// Hold calls work with the documents of a key locked, and commits what it has
// done as one effect when it returns nil; otherwise nothing has happened, and the
// error is that of work.
//
// The other errors are those of [Partition.Write]. RetryWith says that documents
// have changed although the key was held, as when they expire: nothing has
// happened then.
func (p *Partition) Hold(ctx context.Context, ask Hold, work func(*Holding) error) (Held, error) {
	keys, err := p.newRequest(ask.Generation, ask.Key, ask.EPK, ask.Meter)
	if err != nil {
		return Held{LSN: p.LSN()}, err
	}
	lock := p.newLock(keys)
	defer p.unlock(lock)
	if err := p.seize(ctx, keys, lock); err != nil {
		return Held{LSN: p.LSN()}, err
	}
	now, err := p.acquire()
	if err != nil {
		return Held{}, err
	}
	defer p.release(now)
	if ask.Session > now.lsn {
		return Held{LSN: now.lsn}, status.SessionNotAvailable()
	}
	scope, err := p.descriptor.Key.Prefix(ask.Key)
	if err != nil {
		return Held{LSN: now.lsn}, err
	}
	h := &Holding{p: p, now: now, lock: lock, keys: keys, scope: scope, meter: ask.Meter}
	h.begin()
	if err := work(h); err != nil {
		return Held{LSN: now.lsn}, err
	}
	return h.commit(ctx)
}

// seize takes the lock behind all writes in front, and waits until those of the
// key are durable, so that the snapshot has them.
func (p *Partition) seize(ctx context.Context, keys *request, lock *keyLock) error {
	r := &request{epk: keys.epk, key: keys.key, hash: keys.hash, lock: lock, evaluated: make(chan struct{})}
	r.aside = func(r *request) error {
		if pending, ok := p.writer.overlay.logical[lock.key]; ok {
			r.proposal = pending.flight.proposal
		}
		return nil
	}
	err := p.submit(ctx, r)
	if err == nil {
		err = r.err
	}
	return err
}

// begin prepares the transaction. Its versions have an LSN that no effect has,
// and that nobody can guess, until they get that of their effect.
func (h *Holding) begin() {
	h.writer.next = h.now.state
	h.writer.next.lsn = resource.LSN(1<<63 | rand.Uint64()>>2) // One more is no overflow.
	h.writer.next.counter = 0
	h.writer.pathsKnown = true // Which paths are complete counts at the commit alone.
	h.tx.begin(h.p, h.now, h.keys.epk, h.keys.key, h.keys.hash)
	h.tx.w = &h.writer
}

// Room returns how many more versions the Holding may make, zero when their bytes
// are near the limit.
func (h *Holding) Room() int {
	if h.tx.written > writtenMax/4*3 {
		return 0
	}
	return versionsMax - int(h.tx.versions)
}

// Do carries out one operation, which is no Patch, and returns its answer. The
// etag and the time of a version are final only in what [Held.Settle] has seen.
// Errors are those of [Partition.Write], and of a Fetch NotModified; the Holding
// goes on as if the operation had never come.
func (h *Holding) Do(ctx context.Context, ask Operation) (Written, error) {
	if ask.Op == Patch {
		return Written{}, status.Unsupported("A patch in a script")
	}
	op := &operation{ask: ask, indexing: h.now.indexing}
	err := h.p.prepareOperation(ctx, h.keys, op, h.now)
	if err == nil && (ask.Op == Create || ask.Op == Upsert) {
		err = h.number(ctx)
	}
	if err != nil {
		return Written{}, err
	}
	again := *op
	again.keys, again.before.keys = op.keys.clone(), op.before.keys.clone() // Evaluation uses them up.
	err = h.tx.do(op)
	h.meter.Add(op.charge)
	if err != nil {
		return Written{}, err
	}
	if ask.Op != Fetch {
		again.version, again.created, again.number = op.version, op.created, op.version.number
		again.ask.IfMatch, again.ask.IfNoneMatch = "", "" // They are fulfilled.
		again.silent = true
		h.done = append(h.done, again)
	}
	return h.p.written(op)
}

func (k allKeys) clone() allKeys { return allKeys{active: k.active.clone(), other: k.other.clone()} }

// number sees to it that there is a document number to give. The partition gives
// as many again as it has given before, so that at most half of them are lost.
func (h *Holding) number(ctx context.Context) error {
	counter := &h.writer.next.counter
	if h.tx.started {
		counter = &h.tx.next.counter
	}
	if *counter < h.last {
		return nil
	}
	n := min(max(1, h.chunk*2), versionsMax)
	var first uint64
	r := &request{epk: h.keys.epk, key: h.keys.key, hash: h.keys.hash, lock: h.lock, evaluated: make(chan struct{})}
	r.aside = func(*request) error {
		next := &h.p.writer.next
		if next.counter+n >= resource.NumbersMax {
			return status.Forbidden(0, "The partition has given out all its document numbers.")
		}
		first = next.counter
		next.counter += n
		return nil
	}
	err := h.p.submit(ctx, r)
	if err == nil {
		err = r.err
	}
	if err != nil {
		return err
	}
	*counter, h.last, h.chunk = first, first+n, n
	return nil
}

// ID returns the id of the document with a number, false when the key has none.
func (h *Holding) ID(number uint64) (string, bool, error) {
	prefix := storage.DocumentKey(nil, h.keys.epk, h.keys.hash, "")
	for i := range h.tx.edits {
		if e := &h.tx.edits[i]; e.number == number {
			return e.key[min(len(prefix), len(e.key)):], e.row != nil, nil
		}
	}
	var id string
	found := false
	_, err := h.now.snapshot.View(storage.RIDKey(nil, number), func(row []byte) error {
		suffix, own := bytes.CutPrefix(row, prefix[1:])
		id, found = string(suffix), own
		return nil
	})
	if err != nil {
		return "", false, fmt.Errorf("read number in partition %v: %w", h.p.config.Ref, err)
	}
	return id, found, nil
}

// Query returns a page of a plan's rows over the documents of the key, with what
// the Holding has done to them. Positions are those of [Partition.Query].
func (h *Holding) Query(ctx context.Context, plan *query.Plan, b query.Budget) (query.Page, error) {
	clip, overlaps := h.scope.Intersect(h.p.descriptor.Range)
	if !overlaps {
		return query.Page{}, status.PartitionMoved(status.SubRangeGone)
	}
	s := newSource(h.p, h.now, h.scope, clip)
	defer s.free()
	page, err := plan.Run(ctx, h.over(s), b)
	if err != nil && ctx.Err() != nil && status.From(err) == nil {
		err = ended(ctx)
	}
	h.p.queries.Add(1)
	h.meter.Add(throughput.Query(s.charged(page, b.Started)))
	return page, err
}

// over is a source of the documents of the snapshot, and those that the Holding
// has changed in their place.
func (h *Holding) over(s *source) query.Source {
	if len(h.tx.edits) == 0 {
		return s.face()
	}
	o := &overlaid{source: s, touched: make(map[uint64]bool, len(h.tx.edits))}
	for i := range h.tx.edits {
		e := &h.tx.edits[i]
		o.touched[e.number] = true
		if e.existed {
			o.touched[e.before.number] = true
		}
		if e.row != nil {
			o.edits = append(o.edits, e)
		}
	}
	slices.SortFunc(o.edits, func(a, b *edit) int { return cmp.Compare(a.number, b.number) })
	return o
}

// overlaid is a source with other documents in the place of some. It has no index
// of its own, so plans get documents alone.
type overlaid struct {
	source  *source
	touched map[uint64]bool // numbers whose documents in the snapshot do not count
	edits   []*edit         // by number
}

// Candidates yields the documents that may satisfy the need, the changed ones
// without asking an index.
func (o *overlaid) Candidates(ctx context.Context, need query.Need) iter.Seq2[query.Candidate, error] {
	return func(yield func(query.Candidate, error) bool) {
		rest := o.edits
		for len(rest) > 0 && rest[0].number <= need.After {
			rest = rest[1:]
		}
		for c, err := range o.source.Candidates(ctx, need) {
			if err != nil {
				yield(c, err)
				return
			}
			for len(rest) > 0 && rest[0].number < c.Number {
				// The row that the snapshot's candidate lies in is scratch of the source.
				if !o.changed(rest[0], need.Bare, yield) {
					return
				}
				rest = rest[1:]
			}
			if !o.touched[c.Number] && !yield(c, nil) {
				return
			}
		}
		for _, e := range rest {
			if !o.changed(e, need.Bare, yield) {
				return
			}
		}
	}
}

// changed yields a document as the Holding has left it.
func (o *overlaid) changed(e *edit, bare bool, yield func(query.Candidate, error) bool) bool {
	d, err := decodeDocument(e.row)
	if err != nil {
		yield(query.Candidate{}, fmt.Errorf("partition %v: %w", o.source.p.config.Ref, err))
		return false
	}
	o.source.work.Documents++
	o.source.work.Bytes += int64(len(d.body))
	o.source.last = len(d.body)
	body := d.body
	if !bare {
		body = o.source.p.render.complete(&d)
	}
	return yield(query.Candidate{Number: e.number, Body: body}, nil)
}

// commit has the writer do at once what was done, under the lock, and proposes
// the effect. The lock is free as soon as that is evaluated.
func (h *Holding) commit(ctx context.Context) (Held, error) {
	held := Held{LSN: h.now.lsn}
	if len(h.done) == 0 {
		return held, nil
	}
	r := &request{epk: h.keys.epk, key: h.keys.key, hash: h.keys.hash, lock: h.lock, evaluated: make(chan struct{})}
	r.operations = h.done
	first := h.done[0].version
	err := h.p.enqueue(r)
	if err == nil {
		err = h.p.begun(ctx, r)
		h.p.unlock(h.lock)
	}
	if err == nil {
		err = h.p.certain(ctx, r)
	}
	if err == nil {
		err = r.err
	}
	if err == nil && r.refused {
		err = changedMeanwhile()
	}
	if err != nil {
		return held, err
	}
	h.p.writes.Add(1)
	held.LSN, held.given = r.lsn, first.ts
	etag := first.newETag()
	held.mark = appendETag(nil, etag)[:markChars]
	for i := range r.operations {
		// By the place that the text has, which an expired document may have taken too.
		place := int(h.done[i].version.seq)
		held.final = append(held.final, make([]version, max(0, place+1-len(held.final)))...)
		held.final[place] = r.operations[i].version
	}
	return held, nil
}

func changedMeanwhile() error {
	return status.New(status.CodeRetryWith, 0, "Documents of the partition key have changed meanwhile. Try again.")
}

// markChars is how much of the text of an etag is the LSN.
const markChars = len("00000000-0000-0000-")

// Settle puts the final etags in the place of those that the Holding gave out,
// wherever they stand in a text, and the final time behind those that stand in a
// whole document. It changes text itself when both are as long as before, which
// they are for the next 260 years.
func (h *Held) Settle(text []byte) []byte {
	if len(h.mark) == 0 {
		return text
	}
	const digits = len(etagText) - 2
	for at := 0; ; {
		i := bytes.Index(text[at:], h.mark)
		if i < 0 || len(text)-at-i < digits {
			return text
		}
		at += i
		tail := text[at+markChars : at+digits]
		at += digits
		var place [2]byte
		if _, err := hex.Decode(place[:], tail[5:9]); err != nil {
			continue
		}
		seq := int(binary.BigEndian.Uint16(place[:]) & (versionsMax - 1))
		if seq >= len(h.final) {
			continue
		}
		etag := h.final[seq].newETag()
		appendETag(text[at-digits:at-digits], etag)
		text = h.settleTime(text, at, h.final[seq].ts)
	}
}

// settleTime replaces the time behind the etag that ends at a place.
func (h *Held) settleTime(text []byte, at int, ts int64) []byte {
	before := strconv.AppendInt([]byte(textAttachments), h.given, 10)
	if ts == h.given || !bytes.HasPrefix(text[at:], before) {
		return text
	}
	return slices.Replace(text, at, at+len(before), strconv.AppendInt([]byte(textAttachments), ts, 10)...)
}

// keyLock keeps the writes of others away from a key. All of it is guarded by the
// partition's mu.
type keyLock struct {
	key      string     // of the logical partition, as its 'q' row has it
	held     bool       // the writer has given it to its owner
	released bool       // its owner needs it no more
	parked   []*request // that wait for it
}

// newLock announces that somebody will want a lock.
func (p *Partition) newLock(keys *request) *keyLock {
	lock := &keyLock{key: string(keys.logical())}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders++
	return lock
}

// logical is the key of the 'q' row of the request's logical partition.
func (r *request) logical() []byte { return storage.LogicalKey(nil, r.epk, r.hash) }

// passLocked takes the requests for locked keys out of those that the writer is
// about to serve, and locks keys for those who ask for it, in their order. mu is
// held.
func (p *Partition) passLocked(requests []*request) []*request {
	served := requests[:0]
	for _, r := range requests {
		key := r.logical()
		lock := p.locks[string(key)]
		switch {
		case lock != nil && lock != r.lock:
			lock.parked = append(lock.parked, r)
			p.parked++
			continue
		case lock == nil && r.lock != nil && !r.lock.held && !r.lock.released:
			if p.locks == nil {
				p.locks = map[string]*keyLock{}
			}
			p.locks[string(key)] = r.lock
			r.lock.held = true
		}
		served = append(served, r)
	}
	clear(requests[len(served):])
	return served
}

// unlock gives a lock back, or says that it is not wanted any more. Whoever waits
// for it comes before all others.
func (p *Partition) unlock(lock *keyLock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lock.released {
		return
	}
	lock.released = true
	p.holders--
	if lock.held {
		delete(p.locks, lock.key)
	}
	parked := lock.parked
	lock.parked = nil
	p.parked -= len(parked)
	if len(parked) == 0 {
		return
	}
	if p.closed {
		refuse(parked, errClosed())
		return
	}
	p.queue = append(parked, p.queue...)
	if !p.sealed {
		p.startLocked()
	}
}

// unparkLocked takes the requests that wait for locks away from them. mu is held.
func (p *Partition) unparkLocked() (all []*request) {
	for _, lock := range p.locks {
		all = append(all, lock.parked...)
		lock.parked = nil
	}
	p.parked = 0
	return all
}

// refuse answers requests that nobody will serve.
func refuse(requests []*request, err error) {
	for _, r := range requests {
		if r.stage.CompareAndSwap(waiting, claimed) {
			r.err = err
			close(r.evaluated)
		}
	}
}
