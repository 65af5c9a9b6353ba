package table

import (
	"bytes"

	"github.com/decandb/decan/internal/row"
)

// lateWrites is the least time, in seconds, for which a record of what was deleted or has
// expired is kept: a write with an older timestamp in that time meets the record and loses.
const lateWrites = 600

// grace returns the number of seconds for which such a record is kept.
func (t *Table) grace() int64 { return max(int64(t.Options.GCGraceSeconds), lateWrites) }

// dueMost is the latest time at which an item is due. Marked items have later ones.
const dueMost = 1 << 31

// due returns the time at which something of a row can be removed, zero for never.
func (t *Table) due(r *row.Row) int64 {
	at, ok := r.Due(t.grace())
	if !ok {
		return 0
	}
	return min(max(1, at), dueMost)
}

// dueMeta is due for the deletions of a partition: at once, if there may be rows that they
// cover.
func (t *Table) dueMeta(m *row.Meta) int64 {
	at, ok := m.Due(t.grace())
	if !ok || m.Sweep.Pending {
		return 1
	}
	return min(max(1, at), dueMost)
}

// Bounds of one step of a sweep.
const (
	sweepItems = 500     // that are removed or rewritten: the most that a caller asks for
	sweepBytes = 4 << 20 // of those
	sweepReads = 20_000  // that are looked at
)

// collectPause is the time in seconds before a row is looked at again: one whose cells
// expire one after another is not rewritten for each.
const collectPause = 60

// Collecting is what can be removed from one partition key: data that the writer of its
// partition evaluates, as one effect. It changes nothing that a reader sees.
type Collecting struct {
	table *Table
	now   int64
	most  int
	items []string // of rows, the static row among them
	meta  bool     // the deletions are due

	// The step of the sweep: the sweep that it continues, and where it ended.
	swept     row.Sweep
	until     []byte
	completed bool
}

// Count returns the number of items that the change is about.
func (c *Collecting) Count() int {
	n := len(c.items)
	switch {
	case c.swept.Pending && !c.completed && c.most >= sweepItems:
		return max(n, c.most) // There is more.
	case c.meta:
		n++
	}
	return n
}

// Collect returns what can be removed of items of one partition key that are due, at a
// time in seconds since 1970: those items, and others, together at most most, which may
// be exceeded by those that are due. read visits the items of the key in their order, from a name
// on; the error is one of read, or of stored bytes.
func (t *Table) Collect(due []string, most int, now int64, read func(from string, visit func(item, body []byte) (more bool, err error)) error) (*Collecting, error) {
	c := &Collecting{table: t, now: now, most: most}
	for _, item := range due {
		if item == MetaItem {
			c.meta = true
		} else {
			c.items = append(c.items, item)
		}
	}
	if !c.meta {
		return c, nil
	}
	var meta row.Meta
	err := read(MetaItem, func(item, body []byte) (more bool, err error) {
		if string(item) == MetaItem {
			meta, err = row.DecodeMeta(bytes.Clone(body))
		}
		return false, err
	})
	if err != nil || !meta.Sweep.Pending {
		return c, err
	}
	return c, c.sweep(&meta, read)
}

// sweep finds the next rows that the deletions cover.
func (c *Collecting) sweep(meta *row.Meta, read func(string, func(item, body []byte) (bool, error)) error) error {
	// While views need the covered rows, nothing is swept.
	waits := false
	err := read(OutboxRange, func(item, body []byte) (more bool, err error) {
		if string(item) == OutboxRange {
			waits, err = c.awaits(item, body)
		}
		return false, err
	})
	if err != nil || waits {
		c.meta, c.items = false, nil
		return err
	}
	c.swept = meta.Sweep
	from := RowItems + string(meta.Sweep.From)
	if len(meta.Sweep.From) == 0 {
		from = StaticItem
	}
	found, size, reads := len(c.items), 0, 0
	c.completed = true
	var reader row.Reader
	return read(from, func(item, body []byte) (bool, error) {
		if string(item) >= rowsEnd {
			return false, nil
		}
		covered := meta.Deletion
		if item[0] == RowItems[0] {
			covered = meta.Covering(item[1:])
		}
		is, err := coversSome(&reader, body, covered)
		if err != nil {
			return false, err
		}
		if found >= min(c.most, sweepItems) && reads > 0 || size >= sweepBytes || reads >= sweepReads {
			c.completed = false
			if c.until = []byte{}; item[0] == RowItems[0] {
				c.until = bytes.Clone(item[1:])
			}
			return false, nil
		}
		if reads++; is {
			found, size = found+1, size+len(body)
			c.items = append(c.items, string(item))
		}
		return true, nil
	})
}

// coversSome says whether a deletion covers something of a stored row.
func coversSome(r *row.Reader, body []byte, d row.Deletion) (bool, error) {
	if err := r.Reset(body); err != nil || !d.Present {
		return false, err
	}
	if r.Marker.Present && d.Covers(r.Marker.Timestamp) || r.Deletion.Present && d.Covers(r.Deletion.Timestamp) {
		return true, nil
	}
	for r.Next() {
		if d.Covers(r.Cell.Timestamp) {
			return true, nil
		}
	}
	return false, r.Err()
}

// Evaluate removes what is not needed. What was written since Collect stays.
func (c *Collecting) Evaluate(items Items) error {
	k := KeyChange{Table: c.table, Now: c.now}
	e := evaluation{KeyChange: &k, items: items}
	body, err := items.Get(MetaItem)
	if err != nil {
		return err
	}
	if body != nil {
		if e.meta, err = row.DecodeMeta(bytes.Clone(body)); err != nil {
			return err
		}
	}
	if waits, err := c.waits(items, OutboxRange); waits || err != nil {
		return err
	}
	for _, item := range c.items {
		if err := c.collect(&e, item); err != nil {
			return err
		}
	}
	if !c.meta || body == nil {
		return nil
	}
	if s := &e.meta.Sweep; s.Pending && s.Round == c.swept.Round && bytes.Equal(s.From, c.swept.From) {
		if s.From = c.until; c.completed {
			*s = row.Sweep{}
		}
	}
	if !e.meta.Sweep.Pending {
		e.meta, _ = e.meta.Purge(c.now - c.table.grace())
	}
	if e.meta.Empty() {
		return items.Put(MetaItem, nil, 0)
	}
	return items.Put(MetaItem, e.meta.Append(nil), c.table.dueMeta(&e.meta))
}

// waits says whether views are still to be changed by an entry of the outbox: that needs the
// rows as they are, also those that a deletion covers. They stay due. An entry that is older
// than the grace, such as one of a view that was dropped, is not waited for.
func (c *Collecting) waits(items Items, entry string) (bool, error) {
	body, err := items.Get(entry)
	if err != nil || body == nil {
		return false, err
	}
	return c.awaits([]byte(entry), body)
}

func (c *Collecting) awaits(entry, body []byte) (bool, error) {
	e, err := DecodeOutbox(entry, body)
	return c.now-e.Stamp/1_000_000 <= c.table.grace(), err
}

// collect removes what is not needed of one row.
func (c *Collecting) collect(e *evaluation, item string) error {
	if item != StaticItem {
		if waits, err := c.waits(e.items, OutboxItems+item[len(RowItems):]); waits || err != nil {
			return err
		}
	}
	before, covered, err := e.read(item)
	if err != nil || before.Empty() {
		return err
	}
	after := before.Shadow(covered)
	// An expired cell that was written long ago is a tombstone first.
	for changed := true; changed; {
		after, changed = after.Purge(c.now, c.now-c.table.grace())
	}
	if after.Empty() {
		return e.items.Put(item, nil, 0)
	}
	due := c.table.due(&after)
	if due != 0 {
		due = max(due, c.now+collectPause)
	}
	return e.items.Put(item, after.Append(nil), due)
}
