package partition

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// transaction is what one request changes in the documents of one full partition
// key, until it is an effect or nothing. Each operation sees what those before it
// have left: find looks into the transaction first, then at the effects on their
// way, then into the snapshot. A refused operation leaves the transaction as it
// was, so that the caller may go on or drop it all; only commit changes anything
// outside.
//
// A document that changes several times has one edit, from the version in front
// of the transaction to the last one, and so one place in the feed. The versions
// in between have etags of their own and are in no row.
//
// It belongs to the writer, which keeps one and uses it again, or to a [Holding],
// which never commits it.
type transaction struct {
	p   *Partition
	now *published
	w   *writer // what is on its way, and scratch: the partition's, or that of a Holding

	epk  partitionkey.EPK
	key  []byte // canonical
	hash uint64

	edits []edit
	// at is which edit has the document of a key, or gone when the transaction
	// has taken it away. Keys that were not changed are in none.
	at map[string]int

	// Valid with the first version: what is true behind the last one.
	next     state
	paths    paths
	total    totals
	versions uint32
	written  int // bytes of documents
	started  bool

	horizon horizon // documents behind it are gone

	patience patience // of the writer, for the conditions of patches

	// held is who has which values of unique keys behind the last version, for
	// values that have changed hands, and heldAt where it stands.
	held   []holding
	heldAt map[string]int

	// rests is the latest effect on its way that the transaction has read from,
	// nil for none. What was read is certain when that effect is durable (I9).
	rests *flight

	// retention is for how many seconds the container keeps all versions, zero for
	// not at all, and revisions are what the complete feed gets.
	retention int64
	over      int64 // versions from before that time are no longer kept
	revisions []remembered

	row, other []byte // scratch of find
}

// gone is the place of a document that the transaction has deleted or renamed.
const gone = -1

const (
	// versionsMax is how many versions a transaction may make: an etag has 12 bits
	// for the place of a version in its effect.
	versionsMax = 1 << 12
	// writtenMax is how many bytes of documents it may write: the effect is held
	// in memory until it is durable, and many are on their way at once.
	writtenMax = flightsBytesMax / 2
)

// edit is what a transaction makes of one document.
type edit struct {
	// The version in front of the transaction. existed is false when the
	// transaction has created the document, and then there is none.
	existed   bool
	before    document
	beforeKey string
	beforeRow []byte // room for before when it comes from the snapshot; reused

	// The version behind it; a nil row is a document that is gone.
	version
	key string
	row []byte

	old, new keys   // that before and row are stored with
	change   change // from old to new
	ahead    *ahead // rows of the change that are not in change
	claims   claims // of row
	versions int    // that the transaction made of it, deletions included
}

// begin empties the transaction for a request on one full key.
func (tx *transaction) begin(p *Partition, now *published, epk partitionkey.EPK, key []byte, hash uint64) {
	tx.p, tx.now, tx.w = p, now, &p.writer
	tx.epk, tx.key, tx.hash = epk, key, hash
	tx.versions, tx.written, tx.rests = 0, 0, nil
	tx.revisions, tx.patience = nil, patience{}
	tx.started, tx.horizon = false, p.horizon(now)
}

// Bounds of what a transaction keeps for the next one.
const (
	editsKept = 16
	rowKept   = 64 << 10
)

// end lets go of everything that belongs to the request.
func (tx *transaction) end() {
	if len(tx.edits) > editsKept {
		tx.edits, tx.at = nil, nil
	}
	for i := range tx.edits {
		row := tx.edits[i].beforeRow
		if cap(row) > rowKept {
			row = nil
		}
		tx.edits[i] = edit{beforeRow: row[:0]}
	}
	tx.edits = tx.edits[:0]
	clear(tx.at)
	if len(tx.held) > editsKept*resource.UniqueKeysMax {
		tx.held, tx.heldAt = nil, nil
	}
	clear(tx.held)
	tx.held = tx.held[:0]
	clear(tx.heldAt)
	if cap(tx.row) > rowKept {
		tx.row = nil
	}
	if cap(tx.other) > rowKept {
		tx.other = nil
	}
	tx.p, tx.now, tx.w, tx.key, tx.rests, tx.paths = nil, nil, nil, nil, nil, paths{}
}

// current is the version of a document as a transaction sees it.
type current struct {
	document
	exists bool
	// expired says that there is a row still, and no document for anyone.
	expired bool
	row     []byte // that the document is taken from
	copied  bool   // the row is in the scratch that find was given
	edit    int    // that has the document; gone when the transaction has not changed it
}

// size is that of the document, zero when there is none.
func (f *current) size() int { return len(f.body) }

// find returns the current version of the document with a key. The version may
// share scratch.
func (tx *transaction) find(key string, scratch *[]byte) (f current, err error) {
	f.edit = gone
	if own, ok := tx.own(key); ok {
		if own == gone {
			return f, nil
		}
		f.edit, f.row = own, tx.edits[own].row
	} else if pending, ok := tx.w.overlay.documents[key]; ok {
		tx.rest(pending.flight)
		f.row = pending.row
	} else {
		w := tx.w
		w.key = append(w.key[:0], key...)
		*scratch, f.copied, err = tx.now.snapshot.Get((*scratch)[:0], w.key)
		if err != nil {
			return f, fmt.Errorf("read document in partition %v: %w", tx.p.config.Ref, err)
		}
		if f.copied {
			f.row = *scratch
		}
	}
	if f.row == nil {
		return f, nil
	}
	if f.document, err = decodeDocument(f.row); err != nil {
		return f, fmt.Errorf("partition %v: %w", tx.p.config.Ref, err)
	}
	if string(f.document.key) != string(tx.key) {
		return f, fmt.Errorf("partition %v: two partition keys have one hash", tx.p.config.Ref)
	}
	f.expired = tx.horizon.passed(&f.document)
	f.exists = !f.expired
	return f, nil
}

// own returns what the transaction itself has made of a document.
func (tx *transaction) own(key string) (edit int, ok bool) {
	if len(tx.edits) == 0 {
		return 0, false
	}
	edit, ok = tx.at[key]
	return edit, ok
}

// rest notes that something was read from an effect on its way.
func (tx *transaction) rest(f *flight) {
	if f != nil && (tx.rests == nil || f.lsn > tx.rests.lsn) {
		tx.rests = f
	}
}

// do carries out one operation, or returns why not: a *status.Error, or the
// world's trouble. Charge and answer are in the operation, the charge also of
// one that is refused.
func (tx *transaction) do(op *operation) error {
	before, err := tx.find(op.oldKey(), &tx.row)
	if err != nil {
		return err
	}
	if op.expires {
		return tx.expire(op, &before)
	}
	op.charge = throughput.Refused(before.size())
	if err := op.conditions(&before); err != nil {
		return err
	}
	if op.ask.Op == Fetch {
		return op.read(&before)
	}
	if op.ask.Op == Patch {
		if err := tx.patch(op, &before.document, tx.now.indexing); err != nil {
			return err
		}
	}
	if op.renames() {
		other, err := tx.find(op.newKey(), &tx.other)
		if err != nil {
			return err
		}
		if other.exists {
			op.charge = throughput.Refused(other.size())
			return status.Conflict()
		}
		if other.expired {
			if err := tx.erase(op.newKey(), &other); err != nil {
				return err
			}
		}
	}
	if err := tx.clearWay(op, &before); err != nil {
		return err
	}
	return tx.change(op, &before)
}

// conditions checks an operation against the current version.
func (op *operation) conditions(before *current) error {
	ask := &op.ask
	if !before.exists {
		if ask.Op == Create || ask.Op == Upsert {
			return nil
		}
		return status.NotFound()
	}
	if ask.Op == Create {
		return status.Conflict()
	}
	if ask.IfMatch != "" && ask.IfMatch != AnyETag && !before.matches(ask.IfMatch) {
		return status.PreconditionFailed()
	}
	if ask.Op != Fetch && before.named(ask.IfNoneMatch) {
		return status.PreconditionFailed()
	}
	return nil
}

// named reports whether If-None-Match names the version.
func (f *current) named(etag resource.ETag) bool {
	return etag == AnyETag || etag != "" && f.matches(etag)
}

// read keeps the version that a read answers with. The error says that the
// client has it.
func (op *operation) read(before *current) error {
	op.version = before.version
	if op.row = before.row; before.copied {
		op.row = slices.Clone(before.row)
	}
	if before.named(op.ask.IfNoneMatch) {
		op.charge = throughput.NotModified
		return status.New(status.CodeNotModified, 0, "The document has not changed.")
	}
	op.charge = throughput.Read(before.size())
	return nil
}

// change makes the next version of a document, or of none a document.
func (tx *transaction) change(op *operation, before *current) error {
	if op.row != nil {
		if err := tx.p.config.Store.CanGrow(); err != nil {
			return err
		}
	}
	if err := tx.start(); err != nil {
		return err
	}
	if tx.versions == versionsMax {
		return status.BadRequest("A transaction changes documents at most %d times.", versionsMax)
	}
	if size := tx.written + op.size(); tx.versions > 0 && size > writtenMax {
		return status.TooLarge("The documents that the transaction writes are %d bytes long. At most %d are allowed.", size, writtenMax)
	}
	next := tx.next
	v := version{lsn: next.lsn, ordinal: tx.p.descriptor.Ordinal, seq: tx.versions, ts: next.ts}
	if before.exists {
		v.number = before.number
	} else if op.number != 0 {
		v.number = op.number
	} else {
		if next.counter+1 >= resource.NumbersMax {
			return status.Forbidden(0, "The partition has given out all its document numbers.")
		}
		next.counter++
		v.number = resource.NewNumber(v.ordinal, next.counter)
	}
	if op.number != 0 && (v.number != op.number || before.exists == op.created) {
		return changedMeanwhile()
	}
	m, err := tx.move(op, before, v)
	if status.From(err) != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("partition %v: %w", tx.p.config.Ref, err)
	}
	var items, bytes int64
	if before.exists {
		items, bytes = items-1, bytes-int64(before.size())
	}
	if op.row != nil {
		items, bytes = items+1, bytes+int64(op.size())
	}
	total := totals{items: tx.total.items + items, bytes: tx.total.bytes + bytes}
	next.items, next.bytes = next.items+items, next.bytes+bytes
	next.excludes = next.items > 0 && (next.excludes || op.row != nil && directiveOf(op.row) == Exclude)
	if err := tx.p.quota(bytes, total.bytes); err != nil && !tx.horizon.purges.concern(tx.key) {
		return err // Of a key that is being emptied nobody knows what will be left.
	}
	if total.items < 0 || total.bytes < 0 || next.items < 0 || next.bytes < 0 {
		panic(fmt.Sprintf("partition %v: totals below zero: %+v in %+v", tx.p.config.Ref, total, next))
	}
	if op.row != nil {
		stamp(op.row, v)
	}
	op.version, op.created = v, !before.exists
	op.charge = op.cost(before, &m)
	tx.next, tx.total, tx.paths = next, total, m.paths
	tx.versions++
	tx.written += op.size()
	tx.remember(op, before, v)
	tx.enter(op, before, m)
	return nil
}

// start finds out what the first version goes on from.
func (tx *transaction) start() error {
	if tx.started {
		return nil
	}
	w := tx.w
	known := w.paths
	if !w.pathsKnown {
		var err error
		if known, err = tx.p.knownPaths(tx.now); err != nil {
			return err
		}
	}
	tx.retention = int64(tx.p.config.Container().Retention / time.Second)
	if tx.w == &tx.p.writer {
		if err := tx.p.knowKept(tx.now); err != nil {
			return err
		}
	}
	var err error
	if tx.total, err = tx.totals(); err != nil {
		return err
	}
	tx.next, tx.paths = w.next, known
	tx.next.lsn++
	tx.next.ts = max(tx.next.ts, tx.p.config.Now().Unix())
	if tx.retention > 0 {
		// The time of writes does not go back with a clock that was ahead.
		tx.over = min(tx.next.ts, tx.p.config.Removal().Unix()) - tx.retention
	}
	tx.started = true
	return nil
}

// totals returns those of the logical partition in front of the transaction.
func (tx *transaction) totals() (totals, error) {
	w := tx.w
	w.key = storage.LogicalKey(w.key[:0], tx.epk, tx.hash)
	if pending, ok := w.overlay.logical[string(w.key)]; ok {
		tx.rest(pending.flight)
		return pending.totals, nil
	}
	var found bool
	var err error
	w.cell, found, err = tx.now.snapshot.Get(w.cell[:0], w.key)
	if err != nil || !found {
		return totals{}, err
	}
	return decodeTotals(w.cell)
}

// move is the way of the index from one version of a document to the next.
type move struct {
	old, new keys // that they are stored with
	change   change
	paths    paths // complete behind it

	ahead *ahead // rows of the change that were made already; nil: none

	wasClaimed     claims // of the version in front
	freed, claimed int    // rows of unique keys
}

// move compares what the versions in front of and behind an operation can be
// found by. v holds the number that both share.
func (tx *transaction) move(op *operation, before *current, v version) (m move, err error) {
	x := tx.now.indexing
	m.paths = tx.paths
	if m.wasClaimed, err = tx.claim(op, before); err != nil {
		return m, err
	}
	m.freed, m.claimed = tx.p.uniques.changed(m.wasClaimed, op.claimed())
	if m.ahead = op.take(x, before, v); m.ahead != nil {
		m.change = m.ahead.stamped(x, before, op, v)
		if op.row != nil {
			m.paths = m.paths.behind(x, &op.keys, tx.next.items == 0)
		}
		return m, nil
	}
	if op.terms() >= heavyTerms {
		tx.p.heavy.anew.Add(1)
	}
	switch {
	case before.edit != gone:
		m.old = tx.edits[before.edit].new
	case before.exists:
		k := op.before.keys
		if !op.before.found || op.before.version != before.version || !op.indexing.fits(x) {
			if k, err = x.keysOfBody(before.body, before.asked); err != nil {
				return m, err
			}
		}
		m.old = x.stored(k, before.number, before.ts)
	}
	if op.row != nil {
		k := op.keys
		if !op.indexing.fits(x) {
			if k, err = x.keysOfBody(op.row[bodyOffset(op.row):], directiveOf(op.row)); err != nil {
				return m, err
			}
		}
		// The first document of an empty partition begins with the paths anew.
		m.paths = m.paths.behind(x, &k, tx.next.items == 0)
		m.new = x.stored(k, v.number, v.ts)
	}
	m.change = diff(m.old, m.new)
	return m, nil
}

// enter notes what an operation has made of its document.
func (tx *transaction) enter(op *operation, before *current, m move) {
	if tx.at == nil {
		tx.at = map[string]int{}
	}
	place := before.edit
	if place == gone {
		place = len(tx.edits)
		tx.edits = slices.Grow(tx.edits, 1)[:place+1] // What lies there keeps its room.
		e := &tx.edits[place]
		e.existed, e.before, e.beforeKey, e.old = before.exists, before.document, op.oldKey(), m.old
		if before.copied { // The document stays in its bytes.
			tx.row, e.beforeRow = e.beforeRow, tx.row
		}
	}
	e := &tx.edits[place]
	tx.hold(op.version.number, m.wasClaimed, op.claimed())
	e.claims = op.claimed()
	e.key, e.row, e.version, e.new, e.change, e.ahead = op.newKey(), op.row, op.version, m.new, m.change, m.ahead
	if e.versions++; e.versions > 1 {
		e.change = change{} // of the last version alone; see moved
	}
	if op.row == nil || op.renames() {
		tx.at[op.oldKey()] = gone
	}
	if op.row != nil {
		tx.at[op.newKey()] = place
	}
}

// commit proposes what has been changed as one effect, and notes it in the
// overlay. There must be a change.
func (tx *transaction) commit() (*flight, error) {
	w := &tx.p.writer
	b := builder{batch: tx.p.config.Store.NewBatch(), writer: w}
	// First what was there, then what is: a key may change hands.
	for i := range tx.edits {
		b.remove(tx, &tx.edits[i])
	}
	for i := range tx.edits {
		b.enter(tx, &tx.edits[i])
	}
	b.paths(w.paths, tx.paths)
	b.uniques(tx.held)
	b.totals(tx)
	b.state(tx.next)
	keeping := b.complete(tx)
	b.under(tx.p)
	b.splice(tx)
	if b.err != nil {
		return nil, errors.Join(b.err, b.batch.Close())
	}
	f := tx.p.propose(b.batch, tx.next.lsn, tx.next.items-w.next.items, tx.next.bytes-w.next.bytes)
	w.next, w.paths, w.keeping = tx.next, tx.paths, keeping
	tx.note(f)
	return f, nil
}

// note puts what the effect leaves into the overlay.
func (tx *transaction) note(f *flight) {
	o := &tx.p.writer.overlay
	for i := range tx.edits {
		if e := &tx.edits[i]; e.leaves() {
			o.put(f, e.beforeKey, nil)
		}
	}
	for i := range tx.edits {
		if e := &tx.edits[i]; e.row != nil {
			o.put(f, e.key, e.row)
		}
	}
	if len(tx.held) > 0 {
		o.hold(f, tx.held)
	}
	f.logical = string(storage.LogicalKey(tx.p.writer.key[:0], tx.epk, tx.hash))
	o.logical[f.logical] = pendingTotals{totals: tx.total, flight: f}
}

// leaves reports whether the document goes from the key that it had.
func (e *edit) leaves() bool {
	return e.existed && (e.row == nil || e.key != e.beforeKey)
}

// moved returns how the index gets from the first version to the last.
func (e *edit) moved() change {
	if e.versions > 1 {
		return diff(e.old, e.new)
	}
	return e.change
}
