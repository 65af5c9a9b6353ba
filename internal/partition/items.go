package partition

import (
	"context"
	"fmt"
	"math"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// WriteItems asks for changes of items of one full partition key of a table.
type WriteItems struct {
	Generation resource.Generation // of the partition as the caller knows it

	// Key is the full partition key, and EPK its hash. The caller has checked both.
	Key partitionkey.Key
	EPK partitionkey.EPK

	// Change decides about the changes. The writer calls it at most once, with the
	// state that all earlier writes of the key have left. Its changes become one
	// effect, or none if it returns an error.
	Change Change

	Meter *throughput.Meter // receives the charge, that of a refused change as well

	// Size, if not nil, receives the bytes of all items of the key after a change.
	Size *int64
}

// Change is a change of items of one partition key, as data that the writer evaluates:
// package row has the implementation.
type Change interface {
	// Evaluate reads and writes items. An error that is no *status.Error fails the
	// request, not the partition. Evaluate keeps none of the bytes that it gets.
	Evaluate(Items) error
}

// Items are the items of one partition key while a [Change] is evaluated. An item is
// named by bytes, and items are ordered by them.
type Items interface {
	// Get returns the body of an item, nil if there is none. It is valid until the next
	// call.
	Get(item string) (body []byte, err error)

	// Put replaces the body of an item; nil removes the item. At due, in seconds since
	// 1970, something of it can be removed; zero is never, and the greatest time marks the
	// item: a partition finds its marked items at once. A negative time is that at which
	// the whole item is hidden and removed, -due. body is copied. The error is
	// TooLarge for a body that exceeds Limits.DocumentBytes, and that of a full logical
	// partition.
	Put(item string, body []byte, due int64) error

	// Micros returns a time in microseconds since 1970 that is greater than that of any
	// earlier change of the partition which has asked for it.
	Micros() int64
}

// WriteItems evaluates a change and returns when its effect is durable, with the LSN of
// the effect or of the state that was read. Errors are those of Change and of
// [Partition.Write].
func (p *Partition) WriteItems(ctx context.Context, w WriteItems) (resource.LSN, error) {
	r, err := p.newRequest(w.Generation, w.Key, w.EPK, w.Meter)
	if err != nil {
		return p.LSN(), err
	}
	r.change = w.Change
	if err = p.submit(ctx, r); err == nil {
		err = r.err
	}
	if err != nil || r.lsn == 0 {
		return p.LSN(), err
	}
	p.served.writes.Add(1)
	if w.Size != nil {
		*w.Size = r.keyBytes
	}
	return r.lsn, nil
}

// changeItems evaluates the change of a request, and proposes its effect.
func (p *Partition) changeItems(r *request, now *published) error {
	tx := &p.writer.tx
	tx.begin(p, now, r.epk, r.key, r.hash)
	defer tx.end()
	items := items{tx: tx, keeps: r.collects}
	err := r.change.Evaluate(&items)
	r.charge = items.charge
	if err == nil && tx.versions > 0 {
		var f *flight
		if f, err = tx.commit(); err == nil {
			r.proposal, r.lsn, r.keyBytes = f.proposal, f.lsn, tx.total.Bytes
			return nil
		}
	}
	if tx.rests != nil {
		r.proposal = tx.rests.proposal
	}
	if r.charge == 0 {
		r.charge = throughput.Refused(items.read)
	}
	return err
}

// items implements [Items] in the writer.
type items struct {
	tx     *transaction
	charge float64
	read   int  // bytes of the items that were read
	keeps  bool // items keep their versions
}

// Get implements [Items].
func (i *items) Get(item string) ([]byte, error) {
	tx := i.tx
	f, err := tx.find(string(storage.DocumentKey(nil, tx.epk, tx.hash, item)), &tx.row)
	if err != nil || !f.exists {
		return nil, err
	}
	i.read += len(f.Body)
	return f.Body, nil
}

// Put implements [Items].
func (i *items) Put(item string, body []byte, due int64) error {
	tx := i.tx
	if most := tx.p.config.Limits.DocumentBytes; len(body) > most {
		return status.TooLarge("The row is %d bytes long. At most %d are allowed.", len(body), most)
	}
	key := string(storage.DocumentKey(nil, tx.epk, tx.hash, item))
	before, err := tx.find(key, &tx.row)
	if err != nil {
		return err
	}
	op := operation{documents: [2]string{key, key}, indexing: tx.now.Indexing, silent: true, keeps: i.keeps}
	op.ask.Op = Upsert
	switch {
	case body == nil && !before.exists:
		return nil
	case body == nil:
		op.ask.Op = Delete
	default:
		if err := tx.start(); err != nil {
			return err
		}
		ts := tx.next.TS
		if i.keeps && before.exists {
			ts = before.TS
		}
		op.row = layout.NewItemRow(len(tx.epk), tx.key, body, ttlUntil(max(due, -due), ts), due < 0)
		if op.keys, err = op.indexing.KeysOfItem(tx.key, []byte(key), body); err != nil {
			return err
		}
	}
	if err := tx.clearWay(&op, &before); err != nil {
		return err
	}
	err = tx.change(&op, &before)
	i.charge += op.charge
	if err == nil && due > 0 && due <= tx.next.TS && !i.keeps {
		tx.p.urgent.Store(true)
	}
	return err
}

// ttlUntil returns the time to live of an item that is written at ts and due at a time,
// both in seconds since 1970. It is at least a second.
func ttlUntil(due, ts int64) int32 {
	if due == 0 {
		return 0
	}
	return int32(min(max(1, due-ts), math.MaxInt32))
}

// Micros implements [Items].
func (i *items) Micros() int64 {
	w := &i.tx.p.writer
	w.micros = max(w.micros+1, i.tx.p.config.Now().UnixMicro(), w.next.TS*1_000_000)
	return w.micros
}

// ReadItems asks for items of a table, in their order.
type ReadItems struct {
	Generation resource.Generation // of the partition as the caller knows it

	// Key and EPK are those of one full partition key, and Slices the parts of it to
	// visit, one after another. An empty Key asks for all keys of Range.
	Key    partitionkey.Key
	EPK    partitionkey.EPK
	Slices []Slice

	// Range has the keys that count, if Key is empty. Any part of it outside of the
	// partition belongs to other partitions. After, if not empty, is the position of
	// the item after which the visit begins.
	Range partitionkey.Range
	After []byte

	Lookup *Lookup // limits the visit; nil for no limit

	// Marked limits the visit of a range to marked items, in no order; see [Items].
	Marked bool

	Session resource.LSN      // that the caller has seen; zero for none
	Meter   *throughput.Meter // receives the charge
	Resumed bool              // the charge is that of a page after the first

	// Visit is called with each item until it returns false.
	Visit func(*Item) (more bool, err error)
}

// Slice is a part of the items of a partition key: those from From up to, but not
// including, To. An empty To is no bound.
type Slice struct {
	From, To string
	Reverse  bool // the last one first
}

// point reports whether the bounds leave room for one item only.
func (s *Slice) point() bool {
	return len(s.To) == len(s.From)+1 && s.To[:len(s.From)] == s.From && s.To[len(s.From)] == 0
}

// Point returns the slice of one item.
func Point(item string) Slice { return Slice{From: item, To: item + "\x00"} }

// AfterKey returns a position after all items of a routing key, whose names must not
// begin with the byte FF.
func AfterKey(routingKey string) []byte {
	epk := partitionkey.TokenEPK(partitionkey.Token([]byte(routingKey)))
	return storage.DocumentKey(nil, epk, layout.KeyHash([]byte(routingKey)), "\xff")
}

// EPKOf returns the EPK in the position of an item.
func EPKOf(position []byte) (partitionkey.EPK, error) {
	epk, _, _, err := storage.DecodeDocumentKey(position, layout.LevelBytes)
	return partitionkey.EPK(epk), err
}

// Item is an item of a table. Its bytes are valid during the visit.
type Item struct {
	Position []byte // for ReadItems.After
	Key      []byte // the routing key
	Item     []byte // its name in the partition key
	Body     []byte
	LSN      resource.LSN
}

// ReadItems visits items of one published state, and returns its LSN, with an error as
// well. Errors are those of Visit, PartitionMoved, SessionNotAvailable, Unavailable, and
// RequestTimeout when ctx ends.
func (p *Partition) ReadItems(ctx context.Context, r *ReadItems) (resource.LSN, error) {
	now, err := p.acquire()
	if err != nil {
		return 0, err
	}
	defer p.release(now)
	if r.Session > now.LSN {
		return now.LSN, status.SessionNotAvailable()
	}
	v := itemVisit{p: p, now: now, ask: r, horizon: p.reader.Horizon(&now.Snapshot)}
	if r.Key.Len() > 0 {
		err = v.ofKey(ctx)
	} else {
		err = v.ofRange(ctx)
	}
	if err != nil && ctx.Err() != nil && status.From(err) == nil {
		err = timedOut(ctx, "The read was ended before it was complete.")
	}
	r.Meter.Add(v.charge())
	return now.LSN, err
}

// itemVisit is one call of ReadItems.
type itemVisit struct {
	p       *Partition
	now     *published
	ask     *ReadItems
	horizon layout.Horizon
	key     []byte // canonical, of one key
	item    Item

	keyRoom    [64]byte // of key
	prefixRoom [48]byte // of the part of the row keys of one key that they have in common

	items, bytes int64 // visited
	points       int   // looked up
	scans        int   // slices that were no point
	lookups      int64 // in an index
	hits         int64 // terms that were found
}

// charge returns the charge of the visit: that of point reads if there was no scan.
func (v *itemVisit) charge() float64 {
	if v.scans == 0 && v.points > 0 {
		return throughput.Read(int(v.bytes))
	}
	return throughput.Query(throughput.Work{Documents: v.items, Bytes: v.bytes, Lookups: v.lookups, Hits: v.hits, Results: v.items, Resumed: v.ask.Resumed})
}

// ofKey visits the slices of one partition key.
func (v *itemVisit) ofKey(ctx context.Context) error {
	r := v.ask
	if err := v.p.admit(r.Generation, r.Key, r.EPK); err != nil {
		return err
	}
	v.p.served.reads.Add(1)
	v.key = r.Key.AppendCanonical(v.keyRoom[:0], v.p.own.Key)
	prefix := storage.DocumentKey(v.prefixRoom[:0], r.EPK, layout.KeyHash(v.key), "")
	if !r.Lookup.usable(v.now) && ascending(r.Slices) {
		return v.failed(v.together(ctx, prefix))
	}
	return v.failed(v.oneByOne(ctx, prefix))
}

// ascending reports whether slices can be read with one pass in the order of the items.
func ascending(list []Slice) bool {
	for i := range list {
		if list[i].Reverse || i > 0 && (list[i-1].To == "" || list[i].From < list[i-1].To) {
			return false
		}
	}
	return len(list) > 0
}

// together visits the slices of a partition key in one pass.
func (v *itemVisit) together(ctx context.Context, prefix []byte) (err error) {
	list := v.ask.Slices
	bound := func(s string) []byte { return append(prefix[:len(prefix):len(prefix)], s...) }
	high := layout.PrefixEnd(prefix)
	if last := list[len(list)-1].To; last != "" {
		high = bound(last)
	}
	rows := v.now.Rows.Iter(bound(list[0].From), high)
	defer func() {
		if closed := rows.Close(); err == nil {
			err = closed
		}
	}()
	n := 0
	valid := rows.First()
	for i := range list {
		s := &list[i]
		if s.point() {
			v.points++
		} else {
			v.scans++
		}
		if valid && string(rows.Key()[len(prefix):]) < s.From {
			valid = rows.SeekGE(bound(s.From))
		}
		for valid && (s.To == "" || string(rows.Key()[len(prefix):]) < s.To) {
			if n++; n%itemsBetweenChecks == 0 {
				if err := pacing.Check(ctx); err != nil {
					return err
				}
			}
			more, err := v.visit(rows.Key(), rows.Value())
			if err != nil || !more {
				return err
			}
			valid = rows.Next()
		}
	}
	return rows.Err()
}

// oneByOne visits the slices of a partition key one after another, through the index if
// there is one.
func (v *itemVisit) oneByOne(ctx context.Context, prefix []byte) error {
	r := v.ask
	indexed := r.Lookup.usable(v.now)
	if indexed {
		v.scans++
		if found, err := v.finds(prefix, layout.PrefixEnd(prefix)); err != nil || !found {
			return err
		}
	}
	for i := range r.Slices {
		s := &r.Slices[i]
		low := append(prefix[:len(prefix):len(prefix)], s.From...)
		if s.point() {
			v.points++
			_, more, err := v.look(low)
			if err != nil || !more {
				return err
			}
			continue
		}
		v.scans++
		high := layout.PrefixEnd(prefix)
		if s.To != "" {
			high = append(prefix[:len(prefix):len(prefix)], s.To...)
		}
		var more bool
		var err error
		if indexed && !r.Lookup.Whole {
			more, err = v.found(ctx, low, high, func([]byte) (next, more bool, err error) { return false, true, nil })
		} else {
			more, err = v.scan(ctx, low, high, s.Reverse)
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// ofRange visits the items of a range of keys.
func (v *itemVisit) ofRange(ctx context.Context) error {
	r, own := v.ask, &v.p.own
	clip, overlaps := r.Range.Intersect(own.Range)
	if r.Generation != own.Generation || !overlaps {
		return status.PartitionMoved(status.SubRangeGone)
	}
	v.p.served.queries.Add(1)
	v.scans++
	if r.Marked {
		return v.failed(v.ofMarked(ctx, clip))
	}
	low, high := layout.KeyBounds(clip, own.Width)
	low = append([]byte{byte(storage.FamilyDocument)}, low...)
	high = append([]byte{byte(storage.FamilyDocument)}, high...)
	if len(r.After) > 0 && string(r.After) >= string(low) {
		low = append(append(low[:0], r.After...), 0)
	}
	if r.Lookup.usable(v.now) {
		return v.failed(v.foundInRange(ctx, low, high))
	}
	_, err := v.scan(ctx, low, high, false)
	return v.failed(err)
}

// failed adds the name of the partition to an error of its store.
func (v *itemVisit) failed(err error) error {
	if err != nil && status.From(err) == nil {
		return fmt.Errorf("read items of partition %v: %w", v.p.config.Ref, err)
	}
	return err
}

// scan visits the items between two bounds.
func (v *itemVisit) scan(ctx context.Context, low, high []byte, reverse bool) (more bool, err error) {
	if string(low) >= string(high) {
		return true, nil
	}
	rows := v.now.Rows.Iter(low, high)
	defer func() {
		if closed := rows.Close(); err == nil {
			err = closed
		}
	}()
	begin, next := rows.First, rows.Next
	if reverse {
		begin, next = rows.Last, rows.Prev
	}
	n := 0
	for valid := begin(); valid; valid = next() {
		if n++; n%itemsBetweenChecks == 0 {
			if err := pacing.Check(ctx); err != nil {
				return false, err
			}
		}
		more, err := v.visit(rows.Key(), rows.Value())
		if err != nil || !more {
			return false, err
		}
	}
	return true, rows.Err()
}

// itemsBetweenChecks is the number of items after which a scan lets other work pass.
const itemsBetweenChecks = 64

// visit passes an item to the caller, unless it is hidden or of another key.
func (v *itemVisit) visit(key, row []byte) (more bool, err error) {
	d, err := layout.DecodeDocument(row)
	if err != nil {
		return false, err
	}
	if v.key != nil && string(d.Key) != string(v.key) || v.horizon.Hides(&d) {
		return true, nil
	}
	_, _, item, err := storage.DecodeDocumentKey(key, d.EPKSize)
	if err != nil {
		return false, err
	}
	v.items++
	v.bytes += int64(len(d.Body))
	v.item = Item{Position: key, Key: d.Key, Item: item, Body: d.Body, LSN: d.LSN}
	return v.ask.Visit(&v.item)
}
