package layout

import (
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// ttlProperty is the property with a document's own time to live.
const ttlProperty = "ttl"

// TTLOf returns the own time to live of a document: seconds, -1 if it never
// expires, and zero if it has none. valid is false for any other value.
func TTLOf(doc value.Value) (ttl int32, valid bool) {
	v := doc.Get(ttlProperty)
	if v.Kind() == value.KindUndefined {
		return 0, true
	}
	if !resource.ValidTTL(v) {
		return 0, false
	}
	n, _ := v.Int64()
	return int32(n), true
}

// Horizon tells which documents are hidden at one moment: those that have expired,
// and those that were purged. The zero value hides none.
type Horizon struct {
	TTL   int64 // of documents without their own; -1 for never, 0 if nothing expires
	Now   int64 // seconds since 1970
	Marks Marks
}

// Hides reports whether a document is hidden from every reader and writer.
func (h *Horizon) Hides(d *Document) bool {
	return len(h.Marks) > 0 && h.Marks.Hides(d) || h.Expired(d)
}

// Expired reports whether a document has expired. Of most items of a table only parts do,
// which their readers know.
func (h *Horizon) Expired(d *Document) bool { return (!d.Item || d.Whole) && h.Due(d) }

// Due reports whether a document has expired, or something of an item of a table can be
// removed.
func (h *Horizon) Due(d *Document) bool {
	if h.TTL == 0 {
		return false
	}
	ttl := int64(d.TTL)
	if ttl == 0 {
		ttl = h.TTL
	}
	return ttl > 0 && d.TS+ttl <= h.Now
}

// Expiry returns the time at which a document with its own time to live expires, or at
// which something of an item of a table can be removed, in seconds since 1970. Such a document has a row in 'x'. It returns false for a
// document without its own time to live, or with one that never ends.
func (d *Document) Expiry() (seconds uint64, ok bool) {
	return uint64(d.TS + int64(d.TTL)), d.TTL > 0
}
