package index

import (
	"encoding/binary"
	"strings"
	"unicode"

	"github.com/decandb/decan/internal/value"
)

// Element is the segment of a path for every element of an array.
const Element = "[]"

// Path names a place in documents: property names from the top, and [Element]
// for the elements of an array. A property whose name is [] cannot be
// distinguished from the elements of an array; see [Span.Exact].
type Path []string

// String returns the path in the form of an indexing policy without the ending:
// /a/"b-c"/[].
func (p Path) String() string {
	var b strings.Builder
	for _, name := range p {
		b.WriteByte('/')
		if name == Element || bare(name) {
			b.WriteString(name)
			continue
		}
		b.WriteByte('"')
		for _, r := range name {
			if r == '"' || r == '\\' {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
		b.WriteByte('"')
	}
	return b.String()
}

// bare reports whether a name needs no quotes.
func bare(name string) bool {
	for _, r := range name {
		if !plain(r) {
			return false
		}
	}
	return name != ""
}

func plain(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// elements reports whether the path goes through the elements of an array.
func (p Path) elements() bool {
	for _, name := range p {
		if name == Element {
			return true
		}
	}
	return false
}

// pathState is the hash of the first segments of a path. The hash of a child
// continues that of its parent.
type pathState uint64

// rootState is the hash of no segments (the offset basis of FNV-1a).
const rootState pathState = 14695981039346656037

// down returns the hash with one more segment.
func (s pathState) down(name string) pathState {
	const prime = 1099511628211
	for i := range len(name) {
		s = (s ^ pathState(name[i])) * prime
	}
	// A byte that does not occur in UTF-8 ends the segment, so that /ab and /a/b
	// differ.
	return (s ^ 0xFF) * prime
}

// mark returns the hash with a word that is not a segment: another byte that
// does not occur in UTF-8 comes before it. So the ids of different kinds of
// terms, and those of one path under two definitions, are unrelated.
func (s pathState) mark(word string) pathState {
	const prime = 1099511628211
	return ((s ^ 0xFE) * prime).down(word)
}

// The words at the start of the hashes of the kinds of terms. The terms of a
// place itself have none.
const (
	compositeKind = "composite"
	tupleKind     = "tuple"
	spatialKind   = "spatial"
	textKind      = "text"
	wordsKind     = "words"
	vectorKind    = "vector"
)

// idSize is the number of bytes of a term that identify its place or places.
const idSize = 8

// appendID appends the id of the place of the hash. With FNV alone, paths that
// differ in their last letter have similar ids; the finalizer spreads them.
func (s pathState) appendID(dst []byte) []byte {
	h := uint64(s)
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return binary.BigEndian.AppendUint64(dst, h)
}

// id returns the id as the prefix of a term.
func (s pathState) id() Term { return Term(s.appendID(nil)) }

// top returns the hash s with a top-level property. A computed property has
// another hash for each definition.
func (x *Index) top(s pathState, name string) pathState {
	s = s.down(name)
	if query, ok := x.computed[name]; ok {
		s = s.mark(query)
	}
	return s
}

// walk returns the hash s with a whole path from the top.
func (x *Index) walk(s pathState, path Path) pathState {
	for i, name := range path {
		if i == 0 {
			s = x.top(s, name)
		} else {
			s = s.down(name)
		}
	}
	return s
}

// at returns the value at a path that goes through no array, or undefined if
// there is none.
func (p Path) at(doc value.Value) value.Value {
	for _, name := range p {
		doc = doc.Get(name)
	}
	return doc
}

// clip shortens text from a caller for use in a message.
func clip(s string) string {
	const charactersMax = 128
	n := 0
	for i := range s {
		if n++; n > charactersMax {
			return s[:i] + "..."
		}
	}
	return s
}
