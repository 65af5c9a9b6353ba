package partition

import "sync/atomic"

// places remembers where documents are that an index led to: of a number, the key
// of its document's row behind the family, which otherwise is a look-up of its
// own. The zero value remembers nothing yet.
//
// It is a hint. A number keeps its key, but its id may change and it may be gone,
// so whoever reads the row compares the number. Any number of goroutines may use
// it, and take no lock.
type places struct {
	slots atomic.Pointer[[placesMax]atomic.Pointer[place]]
}

// placesMax is how many documents of a partition are remembered. With keys of
// ordinary length they take half a megabyte, and none before the first is.
const placesMax = 4096

type place struct {
	number uint64
	suffix string
}

// placeBytesMax is the length up to which keys are remembered.
const placeBytesMax = 256

// of returns where a document was; "" when that is not known.
func (p *places) of(number uint64) string {
	slots := p.slots.Load()
	if slots == nil {
		return ""
	}
	if at := slots[slotOf(number)].Load(); at != nil && at.number == number {
		return at.suffix
	}
	return ""
}

// keep notes where a document is, in place of another.
func (p *places) keep(number uint64, suffix []byte) {
	if len(suffix) > placeBytesMax {
		return
	}
	slots := p.slots.Load()
	if slots == nil {
		p.slots.CompareAndSwap(nil, new([placesMax]atomic.Pointer[place]))
		slots = p.slots.Load()
	}
	slots[slotOf(number)].Store(&place{number: number, suffix: string(suffix)})
}

// slotOf spreads numbers, which rise by one: neighbours have slots of their own.
func slotOf(number uint64) uint64 { return number % placesMax }
