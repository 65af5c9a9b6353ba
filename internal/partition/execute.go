package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Transact asks for a transaction on the documents of one full partition key that takes
// longer than the writer can wait.
type Transact struct {
	Generation resource.Generation // of the partition as the caller knows it

	// Key is the full partition key, and EPK its hash. The caller has checked both.
	Key partitionkey.Key
	EPK partitionkey.EPK

	Session resource.LSN      // that the caller has seen; zero for none
	Meter   *throughput.Meter // receives the charge of each operation
}

// Committed is the result of [Partition.Transact].
type Committed struct {
	LSN resource.LSN // of the effect, or of the state that was read; set with an error as well

	// Totals are those of the state after the effect, or of a later one.
	Totals Totals

	mark  []byte           // beginning of the text of each provisional etag
	given int64            // provisional time of the versions
	final []layout.Version // by the position of the provisional version in its effect
}

// LockedTransaction is a transaction over a locked key: other writes to the key wait, but
// readers, and writes to other keys, do not. Its operations see the results of those
// before them and a snapshot with all earlier writes to the key. No one else sees them
// before they are one effect.
//
// It belongs to the goroutine of the function that [Partition.Transact] calls, and ends
// when that function returns.
type LockedTransaction struct {
	p      *Partition
	now    *published
	lock   *keyLock
	keys   *request // has epk, key and hash of its requests
	scope  partitionkey.Range
	writer writer // scratch, and the state that tx begins with; its overlay is empty
	tx     transaction
	meter  *throughput.Meter

	// done has the operations that have made a version, in their order, for the writer
	// to execute again.
	done []operation

	// The partition has reserved the document numbers after the counter of tx, up to
	// and including last, for the LockedTransaction.
	last  uint64
	chunk uint64 // size of the last reservation
}

// Transact calls work with a key locked. If work returns nil, Transact commits its operations
// as one effect; otherwise it drops them and returns the error of work.
//
// The other errors are those of [Partition.Write]. RetryWith says that documents have
// changed although the key was locked, for example because they have expired. There is
// no effect then.
func (p *Partition) Transact(ctx context.Context, ask Transact, work func(*LockedTransaction) error) (Committed, error) {
	keys, err := p.newRequest(ask.Generation, ask.Key, ask.EPK, ask.Meter)
	if err != nil {
		return Committed{LSN: p.LSN()}, err
	}
	lock := p.intake.newLock(keys)
	defer p.unlock(lock)
	if err := p.seize(ctx, keys, lock); err != nil {
		return Committed{LSN: p.LSN()}, err
	}
	now, err := p.acquire()
	if err != nil {
		return Committed{}, err
	}
	defer p.release(now)
	if ask.Session > now.LSN {
		return Committed{LSN: now.LSN}, status.SessionNotAvailable()
	}
	scope, err := p.own.Key.Prefix(ask.Key)
	if err != nil {
		return Committed{LSN: now.LSN}, err
	}
	h := &LockedTransaction{p: p, now: now, lock: lock, keys: keys, scope: scope, meter: ask.Meter}
	h.begin()
	if err := work(h); err != nil {
		return Committed{LSN: now.LSN}, err
	}
	return h.commit(ctx)
}

// unlock releases a lock, or withdraws it.
func (p *Partition) unlock(lock *keyLock) { p.heavy.unpark(p.intake.unlock(lock)) }

// seize takes the lock after all writes before it, and waits until those of the key are
// durable, so that the next snapshot has them.
func (p *Partition) seize(ctx context.Context, keys *request, lock *keyLock) error {
	r := &request{epk: keys.epk, key: keys.key, hash: keys.hash, lock: lock, evaluated: make(chan struct{})}
	r.task = func(r *request) error {
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

// begin prepares the transaction. Its versions have a random LSN that no effect has,
// until they get that of their effect.
func (h *LockedTransaction) begin() {
	h.writer.next = h.now.State
	h.writer.next.LSN = resource.LSN(1<<63 | rand.Uint64()>>2) // One more is no overflow.
	h.writer.next.Counter = 0
	h.writer.pathsKnown = true // Complete paths matter only in the commit.
	h.tx.begin(h.p, h.now, h.keys.epk, h.keys.key, h.keys.hash)
	h.tx.w = &h.writer
}

// Room returns the number of further versions that the LockedTransaction may make. It is zero
// when the bytes of the documents are near their limit.
func (h *LockedTransaction) Room() int {
	if h.tx.written > writtenMax/4*3 {
		return 0
	}
	return versionsMax - int(h.tx.versions)
}

// Do executes one operation, which must not be a Patch. The etag and the time in the
// result are provisional: [Committed.Settle] replaces them. Errors are those of
// [Partition.Write], and NotModified for a Fetch. An operation with an error has no
// effect on the LockedTransaction.
func (h *LockedTransaction) Do(ctx context.Context, ask Operation) (Written, error) {
	if ask.Op == Patch {
		return Written{}, status.Unsupported("A patch in a script")
	}
	op := &operation{ask: ask, indexing: h.now.Indexing}
	err := h.p.prepareOperation(ctx, h.keys, op, h.now)
	if err == nil && (ask.Op == Create || ask.Op == Upsert) {
		err = h.number(ctx)
	}
	if err != nil {
		return Written{}, err
	}
	again := *op
	again.keys, again.before.keys = op.keys.Clone(), op.before.keys.Clone() // Evaluation overwrites them.
	err = h.tx.do(op)
	h.meter.Add(op.charge)
	if err != nil {
		return Written{}, err
	}
	if ask.Op != Fetch {
		again.version, again.created, again.number = op.version, op.created, op.version.Number
		again.ask.IfMatch, again.ask.IfNoneMatch = "", "" // They are satisfied.
		again.silent = true
		h.done = append(h.done, again)
	}
	return h.p.written(op)
}

// number reserves document numbers if there are none left: twice as many as the last
// time, so that at most half of all are lost.
func (h *LockedTransaction) number(ctx context.Context) error {
	counter := &h.writer.next.Counter
	if h.tx.started {
		counter = &h.tx.next.Counter
	}
	if *counter < h.last {
		return nil
	}
	n := min(max(1, h.chunk*2), versionsMax)
	var first uint64
	r := &request{epk: h.keys.epk, key: h.keys.key, hash: h.keys.hash, lock: h.lock, evaluated: make(chan struct{})}
	r.task = func(*request) error {
		next := &h.p.writer.next
		if next.Counter+n >= resource.NumbersMax {
			return status.Forbidden(0, "The partition has given out all its document numbers.")
		}
		first = next.Counter
		next.Counter += n
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

// ID returns the id of the document with a number, false if the key has none.
func (h *LockedTransaction) ID(number uint64) (string, bool, error) {
	prefix := storage.DocumentKey(nil, h.keys.epk, h.keys.hash, "")
	for i := range h.tx.edits {
		if e := &h.tx.edits[i]; e.Number == number {
			return e.key[min(len(prefix), len(e.key)):], e.row != nil, nil
		}
	}
	var id string
	found := false
	_, err := h.now.Rows.View(storage.RIDKey(nil, number), func(row []byte) error {
		suffix, own := bytes.CutPrefix(row, prefix[1:])
		id, found = string(suffix), own
		return nil
	})
	if err != nil {
		return "", false, fmt.Errorf("read number in partition %v: %w", h.p.config.Ref, err)
	}
	return id, found, nil
}

// Query returns a page of the rows of a plan over the documents of the key, as the
// LockedTransaction has left them. Positions are those of [Partition.Query].
func (h *LockedTransaction) Query(ctx context.Context, plan *query.Plan, b query.Budget) (query.Page, error) {
	clip, overlaps := h.scope.Intersect(h.p.own.Range)
	if !overlaps {
		return query.Page{}, status.PartitionMoved(status.SubRangeGone)
	}
	s := h.p.reader.Source(&h.now.Snapshot, h.scope, clip)
	defer s.Free()
	over, err := h.over(s)
	if err != nil {
		return query.Page{}, err
	}
	page, err := plan.Run(ctx, over, b)
	if err != nil && ctx.Err() != nil && status.From(err) == nil {
		err = scan.Ended(ctx)
	}
	h.p.served.queries.Add(1)
	h.meter.Add(throughput.Query(s.Charged(page, b.Started)))
	return page, err
}

// over returns a source of the documents as the LockedTransaction has left them.
func (h *LockedTransaction) over(s *scan.Source) (query.Source, error) {
	if len(h.tx.edits) == 0 {
		return s.Face(), nil
	}
	hidden := make(map[uint64]bool, len(h.tx.edits))
	var rows [][]byte
	for i := range h.tx.edits {
		e := &h.tx.edits[i]
		hidden[e.Number] = true
		if e.existed {
			hidden[e.before.Number] = true
		}
		if e.row != nil {
			rows = append(rows, e.row)
		}
	}
	return s.Overlay(hidden, rows)
}

// commit makes the writer execute the operations again as one request, which passes the
// gate if it is heavy. The lock is released as soon as they are evaluated.
func (h *LockedTransaction) commit(ctx context.Context) (Committed, error) {
	committed := Committed{LSN: h.now.LSN}
	if len(h.done) == 0 {
		return committed, nil
	}
	r := &request{epk: h.keys.epk, key: h.keys.key, hash: h.keys.hash, lock: h.lock, evaluated: make(chan struct{})}
	r.operations = h.done
	first := h.done[0].version
	err := h.p.pass(ctx, r)
	if err != nil {
		return committed, err
	}
	defer h.p.passed(r)
	if err = h.p.enqueue(r); err == nil {
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
		return committed, err
	}
	h.p.served.writes.Add(1)
	committed.LSN, committed.given, committed.Totals = r.lsn, first.TS, h.p.totals()
	etag := first.NewETag()
	committed.mark = layout.AppendETag(nil, etag)[:markChars]
	for i := range r.operations {
		// By the position in the provisional etag. The final one can differ, because the
		// deletion of an expired document takes a position as well.
		place := int(h.done[i].version.Seq)
		committed.final = append(committed.final, make([]layout.Version, max(0, place+1-len(committed.final)))...)
		committed.final[place] = r.operations[i].version
	}
	return committed, nil
}

func changedMeanwhile() error {
	return status.New(status.CodeRetryWith, 0, "Documents of the partition key have changed meanwhile. Try again.")
}

// markChars is the length of the LSN in the text of an etag.
const markChars = len("00000000-0000-0000-")

// Settle replaces the provisional etags of the LockedTransaction in a text by the final ones, and
// the provisional times that follow them in complete documents. It overwrites text if
// the times have the same length, which they have for the next 260 years.
func (h *Committed) Settle(text []byte) []byte {
	if len(h.mark) == 0 {
		return text
	}
	const digits = len(layout.ETagText) - 2
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
		etag := h.final[seq].NewETag()
		layout.AppendETag(text[at-digits:at-digits], etag)
		text = h.settleTime(text, at, h.final[seq].TS)
	}
}

// settleTime replaces the time after the etag that ends at an offset.
func (h *Committed) settleTime(text []byte, at int, ts int64) []byte {
	before := strconv.AppendInt([]byte(layout.TextAttachments), h.given, 10)
	if ts == h.given || !bytes.HasPrefix(text[at:], before) {
		return text
	}
	return slices.Replace(text, at, at+len(before), strconv.AppendInt([]byte(layout.TextAttachments), ts, 10)...)
}
