package scan

import "sync/atomic"

// locations caches where documents are: by the number of a document, the key of its
// row without the family, which otherwise costs a look-up. The zero value is an empty
// cache.
//
// An entry is a hint: a document keeps its partition key, but its id can change and it
// can be deleted, so the reader of the row compares the number. Any number of
// goroutines may use a cache. They take no lock.
type locations struct {
	slots atomic.Pointer[[locationsMax]atomic.Pointer[location]]
}

// locationsMax is the number of documents in the cache of a partition. With keys of
// ordinary length it takes half a megabyte, and no memory before the first entry.
const locationsMax = 4096

type location struct {
	number uint64
	suffix string
}

// locationBytesMax is the greatest length of a key in the cache.
const locationBytesMax = 256

// of returns the row key of a document without the family, empty if it is unknown.
func (p *locations) of(number uint64) string {
	slots := p.slots.Load()
	if slots == nil {
		return ""
	}
	if at := slots[slotOf(number)].Load(); at != nil && at.number == number {
		return at.suffix
	}
	return ""
}

// keep adds an entry. It replaces another one.
func (p *locations) keep(number uint64, suffix []byte) {
	if len(suffix) > locationBytesMax {
		return
	}
	slots := p.slots.Load()
	if slots == nil {
		p.slots.CompareAndSwap(nil, new([locationsMax]atomic.Pointer[location]))
		slots = p.slots.Load()
	}
	slots[slotOf(number)].Store(&location{number: number, suffix: string(suffix)})
}

// slotOf spreads numbers, which rise by one: adjacent numbers have different slots.
func slotOf(number uint64) uint64 { return number % locationsMax }
