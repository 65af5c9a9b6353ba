package index

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/decandb/decan/internal/text"
	"github.com/decandb/decan/internal/value"
)

// Term is an entry that can be looked up: the 8-byte id of a path and the key of
// a value at that path, or one byte for any array or any object. No term is a
// prefix of another.
type Term string

// StringBytesMax is how many bytes of a string are in its term. The term of a
// longer string has a hash, and readers must check the document.
const StringBytesMax = 128

// The markers of arrays and objects: the tags of their keys. They sort among the
// other values but have no content.
var (
	arrayTag  = value.AppendKey(nil, value.Array(nil))[0]
	objectTag = value.AppendKey(nil, value.Object(nil))[0]
)

// Terms appends the terms of a document to dst, sorted and without duplicates,
// and returns it. doc must contain the values of computed properties. Terms
// ignores its system properties, including _ts: before storing the terms, call
// [Index.Stamp] with the time.
//
// Except for growing dst, it allocates once, for the bytes of all terms.
func (x *Index) Terms(dst []Term, doc value.Value) []Term {
	dst, _ = x.TermsPaced(dst, doc, nil) // It has no check that could stop it.
	return dst
}

// TermsPaced is [Index.Terms] for a document that may have very many terms: it calls
// check every few hundred terms, and returns its first error. check may be nil.
func (x *Index) TermsPaced(dst []Term, doc value.Value, check func() error) ([]Term, error) {
	if x.none {
		return dst, nil
	}
	w := x.scratch.Get().(*walker)
	w.check, w.stopped = check, nil
	w.document(doc, &x.root)
	w.special(doc, x)
	w.check = nil
	if err := w.stopped; err != nil {
		return dst, err // The scratch memory is dropped with it.
	}
	// The terms are substrings of one string, because they have the same
	// lifetime.
	text := string(w.buf)
	start, first := 0, len(dst)
	for _, end := range w.ends {
		dst = append(dst, Term(text[start:end]))
		start = end
	}
	w.buf, w.ends = w.buf[:0], w.ends[:0]
	clear(w.tables)
	// Do not keep megabytes of buffers after a large document.
	if cap(w.buf) <= scratchMax && cap(w.tokens) <= scratchMax/tokenSize {
		x.scratch.Put(w)
	}
	if err := sortPaced(dst[first:], check); err != nil {
		return dst[:first], err
	}
	return dst[:first+len(slices.Compact(dst[first:]))], nil
}

const (
	// paceTerms is how many terms are created or merged between two calls of check.
	paceTerms = 512
	// runTerms is how many are sorted without a check: a fraction of a millisecond.
	runTerms = 4 * paceTerms
)

// sortPaced sorts terms, and calls check between steps if there are many.
func sortPaced(all []Term, check func() error) error {
	if check == nil || len(all) <= runTerms {
		slices.Sort(all)
		return nil
	}
	room := make([]Term, len(all))
	for low := 0; low < len(all); low += runTerms {
		slices.Sort(all[low:min(low+runTerms, len(all))])
		if err := check(); err != nil {
			return err
		}
	}
	from, to := all, room
	for width := runTerms; width < len(all); width *= 2 {
		for low := 0; low < len(all); low += 2 * width {
			mid, high := min(low+width, len(all)), min(low+2*width, len(all))
			if err := mergePaced(to[low:high], from[low:mid], from[mid:high], check); err != nil {
				return err
			}
		}
		from, to = to, from
	}
	if &from[0] != &all[0] {
		copy(all, from)
	}
	return nil
}

// mergePaced merges two sorted lists.
func mergePaced(dst, a, b []Term, check func() error) error {
	for i := range dst {
		if i%paceTerms == paceTerms-1 {
			if err := check(); err != nil {
				return err
			}
		}
		if len(b) == 0 || len(a) > 0 && a[0] <= b[0] {
			dst[i], a = a[0], a[1:]
		} else {
			dst[i], b = b[0], b[1:]
		}
	}
	return nil
}

// scratchMax is the maximum size in bytes of a buffer that is reused.
const (
	scratchMax = 64 << 10
	tokenSize  = int(unsafe.Sizeof(text.Token{}))
)

// Timestamp returns the term of the _ts property, in seconds, and false if the
// index has none.
func (x *Index) Timestamp(seconds int64) (Term, bool) {
	if x.none {
		return "", false
	}
	buf := rootState.down(timestampName).appendID(make([]byte, 0, 24))
	return Term(value.AppendKey(buf, value.Int(seconds))), true
}

// Stamp returns the terms that are stored for a document, sorted and without
// duplicates: the result of [Index.Terms] completed with _ts, the time of the
// write in seconds. The result may share the memory of terms.
func (x *Index) Stamp(terms []Term, seconds int64) []Term {
	term, ok := x.Timestamp(seconds)
	if !ok {
		return terms
	}
	for i := range x.composites {
		x.composites[i].stamp(terms, seconds)
	}
	at, found := slices.BinarySearch(terms, term)
	if found {
		return terms
	}
	return slices.Insert(terms, at, term)
}

// Timeless reports whether the term of [Index.Timestamp] is the only one that depends
// on the time of the write: [Index.Stamp] then changes no other.
func (x *Index) Timeless() bool {
	return !slices.ContainsFunc(x.composites, func(c composite) bool { return c.terms && c.stamped >= 0 })
}

// walker collects the terms of one document in one buffer.
type walker struct {
	buf  []byte
	ends []int

	check   func() error // called every paceTerms terms; may be nil
	stopped error        // its error

	tokens []text.Token
	words  map[string]struct{} // the tokens of one text that have a term
	cells  []uint64
	work   int // the work done for geometries, see shapeWorkMax

	// tables are maps of the members of wide objects by name; the key is the
	// first member.
	tables map[*value.Member]map[string]value.Value
}

// document walks the top level, where some names have their own rules.
func (w *walker) document(doc value.Value, root *node) {
	below, _ := root.decide(false)
	for _, m := range doc.Members() {
		switch {
		case m.Name == idName:
			w.term(rootState.down(idName), m.Value)
		case m.Name == timestampName || system(m.Name):
		default:
			n := root.child(m.Name)
			if n != nil && n.computed {
				w.walk(m.Value, n.seed, n, false)
				continue
			}
			w.walk(m.Value, rootState.down(m.Name), n, below)
		}
	}
}

// walk adds the terms of v, whose place is s, and of everything below it.
func (w *walker) walk(v value.Value, s pathState, n *node, inherited bool) {
	if w.stopped != nil {
		return
	}
	below, here := n.decide(inherited)
	if here {
		w.term(s, v)
	}
	if !below && (n == nil || n.children == nil) {
		return
	}
	switch v.Kind() {
	case value.KindObject:
		for _, m := range v.Members() {
			w.walk(m.Value, s.down(m.Name), n.child(m.Name), below)
		}
	case value.KindArray:
		s, n := s.down(Element), n.child(Element)
		for _, item := range v.Items() {
			w.walk(item, s, n, below)
		}
	}
}

// term adds the term of v at s.
func (w *walker) term(s pathState, v value.Value) {
	w.buf = s.appendID(w.buf)
	w.buf, _ = appendValue(w.buf, v)
	w.end()
}

// appendValue appends the encoding of a value in a term, and reports whether no
// other value has it.
func appendValue(dst []byte, v value.Value) (term []byte, exact bool) {
	switch v.Kind() {
	case value.KindArray:
		return append(dst, arrayTag), false
	case value.KindObject:
		return append(dst, objectTag), false
	}
	dst, cut := value.AppendKeyLimit(dst, v, StringBytesMax)
	return dst, !cut
}

// special adds the terms that are not of one place, or not of its value.
func (w *walker) special(doc value.Value, x *Index) {
	for i := range x.composites {
		w.composite(doc, &x.composites[i])
	}
	for i := range x.tuples {
		w.tuple(doc, &x.tuples[i])
	}
	if x.spatial != nil && w.stopped == nil {
		w.spatialTop(doc, x)
	}
	for i := range x.texts {
		if w.stopped != nil {
			return
		}
		w.text(doc, &x.texts[i])
	}
}

// wide is the number of members from which an object is searched by a map. With
// 100 composite indexes an object is searched 800 times, and it may have 200,000
// members.
const wide = 1024

// at is [Path.at] for a document in which many paths are looked up.
func (w *walker) at(v value.Value, path Path) value.Value {
	for _, name := range path {
		members := v.Members()
		if len(members) < wide {
			v = v.Get(name)
			continue
		}
		table := w.tables[&members[0]]
		if table == nil {
			table = make(map[string]value.Value, len(members))
			for _, m := range members {
				table[m.Name] = m.Value
			}
			if w.tables == nil {
				w.tables = map[*value.Member]map[string]value.Value{}
			}
			w.tables[&members[0]] = table
		}
		v = table[name]
	}
	return v
}

// end ends a term.
func (w *walker) end() {
	w.ends = append(w.ends, len(w.buf))
	if w.check != nil && len(w.ends)%paceTerms == 0 && w.stopped == nil {
		w.stopped = w.check()
	}
}

// DecodeTerm returns the value in a term of a single place, or the word in one
// of a full-text index. exact is false if the value is not completely in the
// term: for an array or an object the value is empty, for a long string it is
// the first [StringBytesMax] bytes without an incomplete character. Invalid
// bytes return undefined and false. For a term of another kind the result has no
// meaning, so call it only for terms of a known span.
func DecodeTerm(t Term) (v value.Value, exact bool) {
	if len(t) <= idSize {
		return value.Undefined(), false
	}
	// DecodeKey does not keep its argument.
	key := unsafe.Slice(unsafe.StringData(string(t)), len(t))[idSize:]
	switch {
	case len(key) == 1 && key[0] == arrayTag:
		return value.Array(nil), false
	case len(key) == 1 && key[0] == objectTag:
		return value.Object(nil), false
	}
	v, rest, err := value.DecodeKey(key)
	switch {
	case err == nil && len(rest) == 0:
		return v, true
	case errors.Is(err, value.ErrKeyCut):
		return value.String(cutText(key)), false
	}
	return value.Undefined(), false
}

// cutText returns the remaining text in the key of a cut string.
func cutText(key []byte) string {
	if len(key) <= cutHashSize+stringEndSize {
		return ""
	}
	escaped := key[1 : len(key)-cutHashSize-stringEndSize]
	text := strings.ReplaceAll(string(escaped), "\x00\xff", "\x00")
	for len(text) > 0 {
		if r, size := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || size > 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return text
}

// Diff compares the sorted terms of two versions of a document: removed are
// those only in old, added those only in new, both sorted. Equal lists allocate
// nothing.
func Diff(old, new []Term) (removed, added []Term) {
	for len(old) > 0 && len(new) > 0 {
		switch {
		case old[0] == new[0]:
			old, new = old[1:], new[1:]
		case old[0] < new[0]:
			removed = append(removed, old[0])
			old = old[1:]
		default:
			added = append(added, new[0])
			new = new[1:]
		}
	}
	return append(removed, old...), append(added, new...)
}
