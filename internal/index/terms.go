package index

import (
	"slices"

	"github.com/decandb/decan/internal/value"
)

// Term is one thing that can be looked up: the 8-byte id of a path and the key
// of a value that stands there, or one byte for "an array" or "an object". No
// term is a prefix of another.
type Term string

// StringBytesMax is how many bytes of a string are in its term. Of a longer one
// the term has a hash, and readers look at the document to be sure.
const StringBytesMax = 128

// The markers of arrays and objects: the tags that begin their keys. They have
// an order among the other values but no content.
var (
	arrayTag  = value.AppendKey(nil, value.Array(nil))[0]
	objectTag = value.AppendKey(nil, value.Object(nil))[0]
)

// Terms appends the terms of a document to dst, sorted and each once, and
// returns it. The system properties of doc are ignored, _ts included: a writer
// adds [Index.Timestamp] when it knows the time.
//
// It allocates once for the bytes of all terms, besides what dst needs to grow.
func (x *Index) Terms(dst []Term, doc value.Value) []Term {
	if x.none {
		return dst
	}
	w := x.scratch.Get().(*walker)
	w.document(doc, &x.root)
	// The terms are parts of one string, for they live and die together.
	text := string(w.buf)
	start, first := 0, len(dst)
	for _, end := range w.ends {
		dst = append(dst, Term(text[start:end]))
		start = end
	}
	w.buf, w.ends = w.buf[:0], w.ends[:0]
	// A document of megabytes must not keep megabytes waiting for the next one.
	if cap(w.buf) <= scratchMax {
		x.scratch.Put(w)
	}
	slices.Sort(dst[first:])
	return dst[:first+len(slices.Compact(dst[first:]))]
}

// scratchMax is the size in bytes up to which a buffer is used again.
const scratchMax = 64 << 10

// Timestamp returns the term of the _ts property, in seconds, and false when
// the index has none.
func (x *Index) Timestamp(seconds int64) (Term, bool) {
	if x.none {
		return "", false
	}
	buf := Path{timestampName}.appendID(make([]byte, 0, 24))
	return Term(value.AppendKey(buf, value.Int(seconds))), true
}

// walker collects the terms of one document, one behind the other.
type walker struct {
	buf  []byte
	ends []int
}

// document walks the top level, where some names have rules of their own.
func (w *walker) document(doc value.Value, root *node) {
	below, _ := root.decide(false)
	for _, m := range doc.Members() {
		switch {
		case m.Name == idName:
			w.term(rootState.down(idName), m.Value)
		case m.Name == timestampName || system(m.Name):
		default:
			w.walk(m.Value, rootState.down(m.Name), root.child(m.Name), below)
		}
	}
}

// walk adds the terms of v, which stands at s, and of all below it.
func (w *walker) walk(v value.Value, s pathState, n *node, inherited bool) {
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
	switch v.Kind() {
	case value.KindArray:
		w.buf = append(w.buf, arrayTag)
	case value.KindObject:
		w.buf = append(w.buf, objectTag)
	default:
		w.buf, _ = value.AppendKeyLimit(w.buf, v, StringBytesMax)
	}
	w.ends = append(w.ends, len(w.buf))
}

// Diff compares the sorted terms of two versions of a document: removed are
// those of old alone, added those of new alone, both sorted. Equal lists
// allocate nothing.
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
