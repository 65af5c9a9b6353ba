package scan

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// Rosters bounds the memory of the rosters of all partitions of a process. A roster is
// the set of the numbers of the documents of one full key. It limits what the index
// tells of the whole partition to the key, without reading documents of the key. No
// row on disk has that set.
//
// A query that reads all rows of a key leaves its roster, and Apply updates it. The
// least recently used roster is dropped for a new one. Any number of goroutines may
// use a Rosters. The zero value keeps none.
type Rosters struct {
	max int64 // bytes

	mu sync.Mutex

	newest, oldest *roster
	bytes          int64
}

// NewRosters returns memory for rosters of so many bytes in total. A document takes
// two bytes, and a chunk of 65,536 numbers about 60.
func NewRosters(bytes int64) *Rosters { return &Rosters{max: bytes} }

// RostersBytes is the memory for the rosters of a partition that shares none.
const RostersBytes = 1 << 20

// roster is the set of the numbers of the documents of one key: numbers in the state
// with the LSN at, and changes after it in the order of their LSNs. numbers are
// immutable.
type roster struct {
	owner   *rosters
	epk     string
	at      resource.LSN
	numbers *storage.Numbers
	changes []rosterChange
	mean    float64 // bytes of a document when the rows were read
	seats   *seats  // nil for a large key
	bytes   int64

	newer, older *roster // of Rosters
}

// rosterChange is a document that was created or deleted.
type rosterChange struct {
	lsn    resource.LSN
	number uint64
	gone   bool
}

// rosters are those of one partition. Guarded by shared.mu, but for count.
type rosters struct {
	shared *Rosters
	count  atomic.Int64 // of keys
	keys   map[string]*roster

	// changed has, for the keys of each slot, the last LSN that created or deleted a
	// document of one of them: a roster of an earlier state is too old to be kept.
	changed [rosterSlots]resource.LSN
	// spent has, for the keys of each slot, the time in nanoseconds that look-ups have
	// cost for lack of a roster. See regret.
	spent [rosterSlots]int64
}

const (
	rosterSlots = 256
	// rosterPending is the number of changes at which a reader merges them into the
	// set. A roster with more than rosterUnread changes has no readers, and is dropped.
	rosterPending = 64
	rosterUnread  = 4096
	rosterSize    = 256 // bytes of a roster without numbers
	// rosterMin is the least number of documents of a key with a roster: fewer are read
	// in the time of some look-ups.
	rosterMin = 8
)

// slot spreads keys by a hash: EPKs of version 1 have the same beginning.
func (r *rosters) slot(epk string) int {
	h := uint32(2166136261)
	for i := range len(epk) {
		h = (h ^ uint32(epk[i])) * 16777619
	}
	return int(h % rosterSlots)
}

// enrolled is the roster of a key in one state.
type enrolled struct {
	numbers *storage.Numbers // nil if there is no roster
	changes []rosterChange   // of numbers; few
	mean    float64          // approximate bytes of a document
	seats   *seats
}

// of returns the roster of a key in the state with an LSN.
func (r *rosters) of(epk partitionkey.EPK, at resource.LSN) enrolled {
	if r.count.Load() == 0 {
		return enrolled{}
	}
	shared := r.shared
	shared.mu.Lock()
	one := r.keys[string(epk)]
	if one == nil || at < one.at {
		shared.mu.Unlock()
		return enrolled{}
	}
	shared.use(one)
	numbers, changes := one.numbers, one.changes
	e := enrolled{mean: one.mean, seats: one.seats}
	shared.mu.Unlock()
	// Apply only appends to the changes, and does not modify those in this slice.
	n := len(changes)
	for n > 0 && changes[n-1].lsn > at {
		n--
	}
	if changes = changes[:n]; n >= rosterPending {
		numbers = resolved(numbers, changes)
		r.settle(one, numbers, changes[n-1].lsn, n)
		changes = nil
	}
	e.numbers, e.changes = numbers, changes
	return e
}

// extent returns the approximate extent of the key.
func (e enrolled) extent() extent {
	items := e.numbers.Len()
	for _, c := range e.changes {
		if c.gone {
			items--
		} else {
			items++ // A document with a new id counts twice.
		}
	}
	return extent{items: max(items, 1), bytes: e.mean}
}

// postings returns a new set of the documents.
func (e enrolled) postings() *storage.Postings {
	set := e.numbers.Postings()
	if len(e.changes) == 0 {
		return set
	}
	came, went := netChanges(e.changes)
	if len(came) > 0 {
		set = storage.Union(set, storage.NumbersOf(came).Postings())
	}
	if len(went) > 0 {
		set = storage.Difference(set, storage.NumbersOf(went).Postings())
	}
	return set
}

// netChanges returns the numbers that changes add in the end, and those that they
// remove.
func netChanges(changes []rosterChange) (came, went []uint64) {
	last := make(map[uint64]bool, len(changes))
	for _, c := range changes {
		last[c.number] = c.gone
	}
	for number, gone := range last {
		if gone {
			went = append(went, number)
		} else {
			came = append(came, number)
		}
	}
	return came, went
}

// resolved returns numbers with changes.
func resolved(numbers *storage.Numbers, changes []rosterChange) *storage.Numbers {
	came, went := netChanges(changes)
	gone := storage.NumbersOf(went)
	var b storage.NumbersBuilder
	set := numbers.Postings()
	for number, ok := set.Next(); ok; number, ok = set.Next() {
		if !gone.Has(number) {
			b.Add(number)
		}
	}
	for _, number := range came {
		b.Add(number)
	}
	return b.Numbers()
}

// settle replaces a roster by one that has its first n changes in its numbers.
func (r *rosters) settle(one *roster, numbers *storage.Numbers, at resource.LSN, n int) {
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	if r.keys[one.epk] != one || one.at >= at {
		return // It was dropped, or another reader has replaced it.
	}
	left := append([]rosterChange(nil), one.changes[n:]...)
	r.drop(one)
	r.add(&roster{owner: r, epk: one.epk, at: at, numbers: numbers, changes: left, mean: one.mean, seats: one.seats})
}

// keep adds the roster of a key, which a reader of the state with an LSN has found. at
// may be nil; mean is the mean size of the documents in bytes.
func (r *rosters) keep(epk partitionkey.EPK, lsn resource.LSN, numbers *storage.Numbers, at *seats, mean float64) {
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	if r.keys == nil {
		return // The partition is closed.
	}
	r.spent[r.slot(string(epk))] = 0
	if r.changed[r.slot(string(epk))] > lsn {
		return // The changes since then are unknown.
	}
	if before := r.keys[string(epk)]; before != nil {
		r.drop(before)
	}
	r.add(&roster{owner: r, epk: string(epk), at: lsn, numbers: numbers, seats: at, mean: mean})
}

// fits reports whether the roster of so many documents is worth its memory.
func (r *rosters) fits(items int64) bool { return 4*items+rosterSize <= r.shared.max/4 }

// add adds a roster. It drops the least recently used ones if necessary.
func (r *rosters) add(one *roster) {
	shared := r.shared
	one.bytes = one.numbers.Bytes() + one.seats.bytes() + rosterSize
	if one.bytes > shared.max/2 {
		return
	}
	for shared.bytes+one.bytes > shared.max {
		shared.oldest.owner.drop(shared.oldest)
	}
	shared.bytes += one.bytes
	shared.push(one)
	r.keys[one.epk] = one
	r.count.Store(int64(len(r.keys)))
}

func (r *rosters) drop(one *roster) {
	r.shared.unlink(one)
	r.shared.bytes -= one.bytes
	delete(r.keys, one.epk)
	r.count.Store(int64(len(r.keys)))
}

// clear drops all rosters. With end, no roster is kept any more.
func (r *rosters) clear(at resource.LSN, end bool) {
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	for _, one := range r.keys {
		r.drop(one)
	}
	for i := range r.changed {
		r.changed[i] = max(r.changed[i], at)
	}
	if end {
		r.keys = nil
	}
}

// spend adds nanoseconds that look-ups have cost for lack of a roster.
func (r *rosters) spend(epk partitionkey.EPK, took int64) {
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	r.spent[r.slot(string(epk))] += took
}

// due reports whether that time has reached a price since the last roster was made.
func (r *rosters) due(epk partitionkey.EPK, price int64) bool {
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	return r.spent[r.slot(string(epk))] >= price
}

// note adds the changes of an effect. Readers see the state of it later.
func (r *rosters) note(lsn resource.LSN, m *Moves) {
	if len(m.list) == 0 && !m.unclear {
		return
	}
	if m.unclear || !m.keyed {
		r.clear(lsn, false)
		return
	}
	r.shared.mu.Lock()
	defer r.shared.mu.Unlock()
	r.changed[r.slot(string(m.epk))] = lsn
	one := r.keys[string(m.epk)]
	if one == nil {
		return
	}
	if len(one.changes)+len(m.list) > rosterUnread {
		r.drop(one)
		return
	}
	for _, c := range m.list {
		c.lsn = lsn
		one.changes = append(one.changes, c)
	}
}

// Moves are the documents that one effect creates and deletes.
type Moves struct {
	epk     []byte
	keyed   bool // epk is known
	unclear bool // the effect has rows of several keys, or deletes ranges
	list    []rosterChange
}

// Reset prepares m for another effect.
func (m *Moves) Reset() {
	*m = Moves{epk: m.epk[:0], list: m.list[:0]}
}

// See looks at a row of an effect.
func (m *Moves) See(row storage.Row) error {
	switch row.Kind {
	case storage.RowPosting: // Nearly all rows of a large effect.
		return nil
	case storage.RowDeleteRange:
		m.unclear = true
		return nil
	}
	family, ok := storage.FamilyOf(row.Key)
	if !ok {
		return nil
	}
	switch family {
	case storage.FamilyRID:
		number, err := storage.DecodeRIDKey(row.Key)
		if err != nil {
			return err
		}
		m.list = append(m.list, rosterChange{number: number, gone: row.Kind == storage.RowDelete})
	case storage.FamilyLogical:
		epk, _, err := storage.DecodeLogicalKey(row.Key)
		if err != nil {
			return err
		}
		m.unclear = m.unclear || m.keyed && string(m.epk) != string(epk)
		m.epk, m.keyed = append(m.epk[:0], epk...), true
	}
	return nil
}

// use makes a roster the most recently used.
func (s *Rosters) use(one *roster) {
	if s.newest != one {
		s.unlink(one)
		s.push(one)
	}
}

func (s *Rosters) push(one *roster) {
	one.newer, one.older = nil, s.newest
	if s.newest != nil {
		s.newest.newer = one
	} else {
		s.oldest = one
	}
	s.newest = one
}

func (s *Rosters) unlink(one *roster) {
	if one.newer != nil {
		one.newer.older = one.older
	} else {
		s.newest = one.older
	}
	if one.older != nil {
		one.older.newer = one.newer
	} else {
		s.oldest = one.newer
	}
	one.newer, one.older = nil, nil
}

// seats tell where the documents of a key are: for each number, the end of its row key.
// They are immutable, and hints as [locations] are: the reader of the row compares the
// number.
type seats struct {
	numbers []uint64 // sorted in the result of sorted
	ends    []uint32 // of the text of each number
	text    []byte
	prefix  []byte // of all row keys
}

// seatsMax is the greatest number of documents of a roster with seats. Each takes 12
// bytes and its id.
const seatsMax = 1 << 14

// add adds the document of a row, whose key without the first skip bytes is kept.
func (t *seats) add(number uint64, key []byte, skip int) {
	if len(t.numbers) == 0 {
		t.prefix = append(t.prefix[:0], key[:skip]...)
	}
	t.numbers = append(t.numbers, number)
	t.text = append(t.text, key[skip:]...)
	t.ends = append(t.ends, uint32(len(t.text)))
}

// sorted returns a copy in the order of the numbers. It takes no more memory than it
// needs.
func (t *seats) sorted() *seats {
	order := make([]int, len(t.numbers))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(t.numbers[a], t.numbers[b]) })
	next := &seats{
		numbers: make([]uint64, 0, len(order)), ends: make([]uint32, 0, len(order)),
		text: make([]byte, 0, len(t.text)), prefix: slices.Clone(t.prefix),
	}
	for _, i := range order {
		next.numbers = append(next.numbers, t.numbers[i])
		next.text = append(next.text, t.item(i)...)
		next.ends = append(next.ends, uint32(len(next.text)))
	}
	return next
}

func (t *seats) item(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = t.ends[i-1]
	}
	return t.text[from:t.ends[i]]
}

// appendKey appends the row key of a document, and reports whether it is known.
func (t *seats) appendKey(dst []byte, number uint64) ([]byte, bool) {
	if t == nil {
		return dst, false
	}
	i, found := slices.BinarySearch(t.numbers, number)
	if !found {
		return dst, false
	}
	return append(append(dst, t.prefix...), t.item(i)...), true
}

func (t *seats) bytes() int64 {
	if t == nil {
		return 0
	}
	return int64(12*len(t.numbers) + len(t.text) + len(t.prefix))
}
