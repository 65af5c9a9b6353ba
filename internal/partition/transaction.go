package partition

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// transaction has the changes of one request to documents of one full partition key,
// until they become one effect or are dropped. Each operation sees the results of
// those before it: find looks in the transaction first, then in the overlay, then in
// the snapshot. A refused operation does not change the transaction, so the caller may
// continue or drop all of it. Only commit changes anything else.
//
// A document that changes several times has one edit, from the version before the
// transaction to the last one, and so one place in the feed. The versions between them
// have their own etags, and no rows.
//
// A transaction belongs to the writer, which reuses it, or to a [LockedTransaction],
// which never commits it.
type transaction struct {
	p   *Partition
	now *published
	w   *writer // overlay and scratch: those of the partition, or of a LockedTransaction

	epk  partitionkey.EPK
	key  []byte // canonical
	hash uint64

	edits []edit
	// at has the index of the edit of the document with a row key, or gone if the
	// transaction has removed the document. Unchanged documents are not in it.
	at map[string]int

	// Valid once started: the state after the last version.
	next     layout.State
	paths    layout.Paths
	total    layout.Totals
	versions uint32
	written  int // bytes of documents
	started  bool

	horizon layout.Horizon // hides documents

	allowance allowance // for conditions, in the writer

	// held has the holders of values of unique keys after the last version, of those
	// values whose holder has changed; heldAt has the index by row key.
	held   []holding
	heldAt map[string]int

	// rests is the latest proposed effect that the transaction has read from, nil if
	// there is none. What was read is certain when that effect is durable (I9).
	rests *flight

	// retention is the number of seconds for which the container keeps all versions,
	// zero if it does not. revisions are the entries of the complete feed.
	retention int64
	over      int64 // versions from before that time are not kept any more
	revisions []remembered

	row, other []byte // scratch of find
}

// gone is the index of a document that the transaction has deleted or renamed.
const gone = -1

const (
	// versionsMax is the greatest number of versions in a transaction: an etag has 12
	// bits for the position of a version in its effect.
	versionsMax = 1 << 12
	// writtenMax is the greatest number of bytes of documents that it may write: an
	// effect is in memory until it is durable, together with many others.
	writtenMax = flightsBytesMax / 2
)

// edit is the change of one document in a transaction.
type edit struct {
	// The version before the transaction. existed is false if there is none.
	existed   bool
	before    layout.Document
	beforeKey string
	beforeRow []byte // memory for before if it comes from the snapshot; reused

	// The version after the transaction. A nil row is no document.
	layout.Version
	key string
	row []byte

	old, new layout.Keys   // that the store has of before and row
	change   layout.Change // from old to new; valid if versions is 1
	ahead    *ahead        // rows of the change that are not in change; may be nil
	claims   layout.Claims // of row
	versions int           // of the document in the transaction, deletions included
}

// begin prepares the transaction for a request on one full key.
func (tx *transaction) begin(p *Partition, now *published, epk partitionkey.EPK, key []byte, hash uint64) {
	tx.p, tx.now, tx.w = p, now, &p.writer
	tx.epk, tx.key, tx.hash = epk, key, hash
	tx.versions, tx.written, tx.rests = 0, 0, nil
	tx.revisions, tx.allowance = nil, allowance{}
	tx.started, tx.horizon = false, p.reader.Horizon(&now.Snapshot)
}

// Bounds of the memory that a transaction leaves to the next one.
const (
	editsKept = 16
	rowKept   = 64 << 10
)

// end drops everything that belongs to the request.
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
	tx.p, tx.now, tx.w, tx.key, tx.rests, tx.paths = nil, nil, nil, nil, nil, layout.Paths{}
}

// current is the version of a document as a transaction sees it.
type current struct {
	layout.Document
	exists bool
	// expired says that there is a row of a hidden document.
	expired bool
	row     []byte // of the document
	copied  bool   // row is in the scratch of find
	edit    int    // index of the edit of the document; gone if there is none
}

// size returns the size of the document, zero if there is none.
func (f *current) size() int { return len(f.Body) }

// find returns the current version of the document with a row key. It may share the
// bytes of scratch.
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
		*scratch, f.copied, err = tx.now.Rows.Get((*scratch)[:0], w.key)
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
	if f.Document, err = layout.DecodeDocument(f.row); err != nil {
		return f, fmt.Errorf("partition %v: %w", tx.p.config.Ref, err)
	}
	if string(f.Document.Key) != string(tx.key) {
		return f, fmt.Errorf("partition %v: two partition keys have one hash", tx.p.config.Ref)
	}
	f.expired = tx.horizon.Hides(&f.Document)
	f.exists = !f.expired
	return f, nil
}

// own returns the index of the transaction's edit of a document, or gone. ok is false
// if the transaction has not changed it.
func (tx *transaction) own(key string) (edit int, ok bool) {
	if len(tx.edits) == 0 {
		return 0, false
	}
	edit, ok = tx.at[key]
	return edit, ok
}

// rest notes that the transaction depends on a proposed effect.
func (tx *transaction) rest(f *flight) {
	if f != nil && (tx.rests == nil || f.lsn > tx.rests.lsn) {
		tx.rests = f
	}
}

// do executes one operation. The error is a *status.Error if the operation is refused,
// and any other if something fails. Result and charge are in the operation, the charge
// of a refused one as well.
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
		if err := tx.patch(op, &before.Document, tx.now.Indexing); err != nil {
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
	if ask.Op == Fetch {
		return nil // see read
	}
	if ask.IfMatch != "" && ask.IfMatch != AnyETag && !before.Matches(ask.IfMatch) || before.named(ask.IfNoneMatch) {
		return status.PreconditionFailed()
	}
	return nil
}

// named reports whether If-None-Match names the version.
func (f *current) named(etag resource.ETag) bool {
	return etag == AnyETag || etag != "" && f.Matches(etag)
}

// read sets the result of a Fetch. The error is NotModified if the client has the
// version: a read has one condition, which the clients of the service send under
// either name.
func (op *operation) read(before *current) error {
	op.version = before.Version
	if op.row = before.row; before.copied {
		op.row = slices.Clone(before.row)
	}
	if before.named(op.ask.IfNoneMatch) || before.named(op.ask.IfMatch) {
		op.charge = throughput.NotModified
		return status.New(status.CodeNotModified, 0, "The document has not changed.")
	}
	op.charge = throughput.Read(before.size())
	return nil
}

// change adds the next version of a document, which may be its deletion.
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
	v := layout.Version{LSN: next.LSN, Ordinal: tx.p.own.Ordinal, Seq: tx.versions, TS: next.TS}
	if before.exists {
		v.Number = before.Number
	} else if op.number != 0 {
		v.Number = op.number
	} else {
		if next.Counter+1 >= resource.NumbersMax {
			return status.Forbidden(0, "The partition has given out all its document numbers.")
		}
		next.Counter++
		v.Number = resource.NewNumber(v.Ordinal, next.Counter)
	}
	if op.number != 0 && (v.Number != op.number || before.exists == op.created) {
		return changedMeanwhile()
	}
	if op.keeps && before.exists && op.row != nil {
		v = before.Version
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
	total := layout.Totals{Items: tx.total.Items + items, Bytes: tx.total.Bytes + bytes}
	next.Items, next.Bytes = next.Items+items, next.Bytes+bytes
	next.Excludes = next.Excludes && next.Items > 0
	if err := tx.p.quota(bytes, total.Bytes); err != nil && !tx.horizon.Marks.Concern(tx.key) {
		return err // While documents of the key are purged, its totals count those as well.
	}
	if total.Items < 0 || total.Bytes < 0 || next.Items < 0 || next.Bytes < 0 {
		panic(fmt.Sprintf("partition %v: totals below zero: %+v in %+v", tx.p.config.Ref, total, next))
	}
	if op.row != nil {
		layout.Stamp(op.row, v)
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

// start sets the state that the first version follows.
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
		if err := tx.p.loadKept(tx.now); err != nil {
			return err
		}
	}
	var err error
	if tx.total, err = tx.totals(); err != nil {
		return err
	}
	tx.next, tx.paths = w.next, known
	tx.next.LSN++
	tx.next.TS = max(tx.next.TS, tx.p.config.Now().Unix())
	if tx.retention > 0 {
		// After a clock was ahead, the time of writes can be later than Removal.
		tx.over = min(tx.next.TS, tx.p.config.Removal().Unix()) - tx.retention
	}
	tx.started = true
	return nil
}

// totals returns those of the logical partition before the transaction.
func (tx *transaction) totals() (layout.Totals, error) {
	w := tx.w
	w.key = storage.LogicalKey(w.key[:0], tx.epk, tx.hash)
	if pending, ok := w.overlay.logical[string(w.key)]; ok {
		tx.rest(pending.flight)
		return pending.Totals, nil
	}
	var found bool
	var err error
	w.cell, found, err = tx.now.Rows.Get(w.cell[:0], w.key)
	if err != nil || !found {
		return layout.Totals{}, err
	}
	return layout.DecodeTotals(w.cell)
}

// move is the change of the index from one version of a document to the next.
type move struct {
	old, new layout.Keys // that the store has of the two versions
	change   layout.Change
	paths    layout.Paths // complete paths after it

	ahead *ahead // rows of the change that are not in change; may be nil

	wasClaimed     layout.Claims // of the version before
	freed, claimed int           // number of rows of unique keys
}

// move computes the change of the index by an operation. v has the number of the
// document.
func (tx *transaction) move(op *operation, before *current, v layout.Version) (m move, err error) {
	x := tx.now.Indexing
	m.paths = tx.paths
	if m.wasClaimed, err = tx.claim(op, before); err != nil {
		return m, err
	}
	m.freed, m.claimed = tx.p.uniques.Changed(m.wasClaimed, op.claimed())
	if m.ahead = op.take(x, before, v); m.ahead != nil {
		m.change = m.ahead.stamped(x, before, op, v)
		if op.row != nil {
			m.paths = m.paths.After(x, &op.keys, tx.next.Items == 0)
		}
		return m, nil
	}
	if op.terms() >= heavyTerms && tx.w == &tx.p.writer {
		tx.p.heavy.recomputed.Add(1)
	}
	switch {
	case before.edit != gone:
		m.old = tx.edits[before.edit].new
	case before.exists:
		k := op.before.keys
		if !op.before.found || op.before.version != before.Version || !op.indexing.Fits(x) {
			if k, err = x.KeysOfStored(&before.Document, []byte(op.oldKey())); err != nil {
				return m, err
			}
		}
		m.old = x.Stored(k, before.Number, before.TS)
	}
	if op.row != nil {
		k := op.keys
		if !op.indexing.Fits(x) {
			d, err := layout.DecodeDocument(op.row)
			if err == nil {
				k, err = x.KeysOfStored(&d, []byte(op.newKey()))
			}
			if err != nil {
				return m, err
			}
		}
		// The first document of an empty partition makes a new set of paths.
		m.paths = m.paths.After(x, &k, tx.next.Items == 0)
		m.new = x.Stored(k, v.Number, v.TS)
	}
	m.change = layout.Diff(m.old, m.new)
	return m, nil
}

// enter records the result of an operation in the edit of its document.
func (tx *transaction) enter(op *operation, before *current, m move) {
	if tx.at == nil {
		tx.at = map[string]int{}
	}
	place := before.edit
	if place == gone {
		place = len(tx.edits)
		tx.edits = slices.Grow(tx.edits, 1)[:place+1] // An earlier edit there has left beforeRow.
		e := &tx.edits[place]
		e.existed, e.before, e.beforeKey, e.old = before.exists, before.Document, op.oldKey(), m.old
		if before.copied { // The document shares the bytes of tx.row.
			tx.row, e.beforeRow = e.beforeRow, tx.row
		}
	}
	e := &tx.edits[place]
	tx.hold(op.version.Number, m.wasClaimed, op.claimed())
	e.claims = op.claimed()
	e.key, e.row, e.Version, e.new, e.change, e.ahead = op.newKey(), op.row, op.version, m.new, m.change, m.ahead
	if e.versions++; e.versions > 1 {
		e.change = layout.Change{} // It is that of the last version only; see moved.
	}
	if op.row == nil || op.renames() {
		tx.at[op.oldKey()] = gone
	}
	if op.row != nil {
		tx.at[op.newKey()] = place
	}
}

// commit proposes the changes as one effect, and adds it to the overlay. There must be
// a change.
func (tx *transaction) commit() (*flight, error) {
	w := &tx.p.writer
	b := builder{batch: tx.p.config.Store.NewBatch(), writer: w}
	// Removals come first, because a row key may pass from one document to another.
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
	f := tx.p.propose(b.batch, tx.next.LSN, tx.next.Items-w.next.Items, tx.next.Bytes-w.next.Bytes)
	w.next, w.paths, w.keeping = tx.next, tx.paths, keeping
	tx.note(f)
	return f, nil
}

// note enters the results of the effect into the overlay.
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
	o.logical[f.logical] = pendingTotals{Totals: tx.total, flight: f}
}

// leaves reports whether the document leaves the row key that it had.
func (e *edit) leaves() bool {
	return e.existed && (e.row == nil || e.key != e.beforeKey)
}

// moved returns the change of the index from the first version to the last.
func (e *edit) moved() layout.Change {
	if e.versions > 1 {
		return layout.Diff(e.old, e.new)
	}
	return e.change
}
