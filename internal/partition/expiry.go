package partition

import (
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// ttlProperty is the property with a document's own time to live.
const ttlProperty = "ttl"

// ttlOf returns the own time to live of a document: seconds, -1 if it never
// expires, and zero if it has none. valid is false for any other value.
func ttlOf(doc value.Value) (ttl int32, valid bool) {
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

// horizon tells which documents are hidden at one moment: those that have expired,
// and those that were purged. The zero value hides none.
type horizon struct {
	ttl    int64 // of documents without their own; -1 for never, 0 if nothing expires
	now    int64 // seconds since 1970
	purges purges
}

// passed reports whether a document is hidden from every reader and writer.
func (h *horizon) passed(d *document) bool {
	return len(h.purges) > 0 && h.purges.hide(d) || h.expired(d)
}

// expired reports whether a document has expired.
func (h *horizon) expired(d *document) bool {
	if h.ttl == 0 {
		return false
	}
	ttl := int64(d.ttl)
	if ttl == 0 {
		ttl = h.ttl
	}
	return ttl > 0 && d.ts+ttl <= h.now
}

// expiry returns the time at which a document with its own time to live expires, in
// seconds since 1970. Such a document has a row in 'x'. It returns false for a
// document without its own time to live, or with one that never ends.
func (d *document) expiry() (seconds uint64, ok bool) {
	return uint64(d.ts + int64(d.ttl)), d.ttl > 0
}
