package index

import (
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// composite is a composite index. Each document has one term in it: the id, and
// for each property the encoding of its value, with all bytes inverted if its
// direction differs from that of the first property. So the order of the terms
// is the order of the index, forwards or backwards.
type composite struct {
	id    Term
	parts []part

	// terms is false if no document has a term, because a property is one of
	// many in an array, or a system property that is not indexed.
	terms bool
	// stamped is the index of _ts in parts, -1 if it is not among them.
	stamped int
}

// part is one property of a composite index.
type part struct {
	path     Path
	desc     bool
	inverted bool // desc differs from that of the first part
}

func (p part) String() string {
	if p.desc {
		return p.path.String() + " DESC"
	}
	return p.path.String() + " ASC"
}

// addComposites compiles the composite indexes. It omits an index that is
// another one with all directions reversed, because both have the same terms.
func (x *Index) addComposites(p resource.IndexingPolicy) error {
	for _, properties := range p.Composite {
		if len(properties) == 0 {
			return status.BadRequest("A composite index has no paths.")
		}
		c := composite{terms: true, stamped: -1}
		s := rootState.mark(compositeKind)
		for i, property := range properties {
			path, ok := resource.ParsePropertyPath(property.Path)
			if !ok {
				return status.BadRequest("The path '%s' of a composite index is not valid.", clip(property.Path))
			}
			q := part{path: path, desc: property.Descending, inverted: property.Descending != properties[0].Descending}
			direction := "+"
			if q.inverted {
				direction = "-"
			}
			s = x.walk(s, q.path).mark(direction)
			switch {
			case len(path) == 1 && path[0] == timestampName:
				c.stamped = i
			case q.path.elements() || system(path[0]) || path[0] == timestampName:
				c.terms = false
			}
			c.parts = append(c.parts, q)
		}
		if c.id = s.id(); x.ids[c.id] {
			continue
		}
		if c.terms {
			x.ids[c.id] = true
		}
		x.composites = append(x.composites, c)
	}
	return nil
}

// composite adds the term of one composite index.
func (w *walker) composite(doc value.Value, c *composite) {
	if !c.terms {
		return
	}
	w.buf = append(w.buf, c.id...)
	for i, p := range c.parts {
		v := value.Int(0) // stamp writes the time here
		if i != c.stamped {
			v = w.at(doc, p.path)
		}
		start := len(w.buf)
		w.buf, _ = appendValue(w.buf, v)
		if p.inverted {
			invert(w.buf[start:])
		}
	}
	w.end()
}

// stamp writes the time into the document's term in the index, if terms has one.
// The terms stay sorted, because no other term has its id.
func (c *composite) stamp(terms []Term, seconds int64) {
	if !c.terms || c.stamped < 0 {
		return
	}
	i, _ := slices.BinarySearch(terms, c.id)
	if i == len(terms) || len(terms[i]) < idSize || terms[i][:idSize] != c.id {
		return
	}
	at := idSize
	for _, p := range c.parts[:c.stamped] {
		k, ok := readKey(terms[i][at:], p.inverted)
		if !ok {
			return
		}
		at += k.size
	}
	term := []byte(terms[i])
	key := value.AppendKey(term[at:at:len(term)], value.Int(seconds))
	if c.parts[c.stamped].inverted {
		invert(key)
	}
	terms[i] = Term(term)
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// termKey is the encoding of one value in a term.
type termKey struct {
	size int // in bytes
	// group is the length of the prefix that the value shares with all values
	// from which it cannot be distinguished or ordered; it equals size if the
	// encoding is exact.
	group int
	exact bool
}

// Tags of value keys, and the bytes after a zero in the key of a string; see
// docs/formats/value-key.md.
const (
	tagUndefined = 0x01
	tagNull      = 0x02
	tagTrue      = 0x04
	tagNumber    = 0x05
	tagString    = 0x06

	zeroEnd  = 0x01
	zeroCut  = 0x02
	zeroByte = 0xFF

	numberSize = 11 // including the tag
)

// readKey reads the first value of the rest of a term, whose bytes may be
// inverted. It returns false for invalid bytes.
func readKey(t Term, inverted bool) (k termKey, ok bool) {
	var mask byte
	if inverted {
		mask = 0xFF
	}
	if t == "" {
		return termKey{}, false
	}
	switch tag := t[0] ^ mask; {
	case tag >= tagUndefined && tag <= tagTrue:
		return termKey{1, 1, true}, true
	case tag == tagNumber:
		return termKey{numberSize, numberSize, true}, len(t) >= numberSize
	case tag == arrayTag, tag == objectTag:
		return termKey{1, 1, false}, true
	case tag != tagString:
		return termKey{}, false
	}
	wide := 0 // the length up to the first character from U+E000 on
	for i := 1; i+1 < len(t); i++ {
		if t[i] != mask {
			if lead := t[i] ^ mask; wide == 0 && lead >= leadPrivate && lead <= leadMax {
				wide = i
			}
			continue
		}
		switch t[i+1] ^ mask {
		case zeroEnd:
			if wide > 0 {
				return termKey{i + 2, wide, false}, true
			}
			return termKey{i + 2, i + 2, true}, true
		case zeroCut:
			if wide > 0 {
				return termKey{i + 2 + cutHashSize, wide, false}, len(t) >= i+2+cutHashSize
			}
			return termKey{i + 2 + cutHashSize, i + 2, false}, len(t) >= i+2+cutHashSize
		}
		i++
	}
	return termKey{}, false
}

// tuple is a tuple path. For each element of the array, documents have a term
// with the values of its members, in order, so that predicates on the same
// element can be looked up together.
type tuple struct {
	id      Term
	array   Path // without the [] at its end
	members []Path
	label   string
}

func (x *Index) addTuple(text string, path resource.IndexPath, r rule) error {
	if r == exclude {
		return status.BadRequest("The tuple path '%s' is excluded. A tuple can only be included.", clip(text))
	}
	if x.none || system(path.Names[0]) || path.Names[0] == timestampName {
		return nil
	}
	t := tuple{array: path.Names[:len(path.Names)-1], label: text}
	s := x.walk(rootState.mark(tupleKind), path.Names)
	for _, member := range path.Tuple {
		s = s.mark(",")
		for _, name := range member {
			s = s.down(name)
		}
		t.members = append(t.members, member)
	}
	if t.id = s.id(); !x.ids[t.id] {
		x.ids[t.id] = true
		x.tuples = append(x.tuples, t)
	}
	return nil
}

// tuple adds the terms of one tuple path. An element without the first member
// has none, because every span of the tuple begins with the value of that
// member.
func (w *walker) tuple(doc value.Value, t *tuple) {
	for _, item := range w.at(doc, t.array).Items() {
		if w.stopped != nil {
			return
		}
		if !t.members[0].at(item).IsDefined() {
			continue
		}
		w.buf = append(w.buf, t.id...)
		for _, member := range t.members {
			w.buf, _ = appendValue(w.buf, member.at(item))
		}
		w.end()
	}
}

// Tuple returns the span of documents with an element in the array at path in
// which some of members equal their values: as many of them as a tuple path of
// the policy begins with, in any order. used are their indexes in members; it is
// empty if no tuple path begins with one of them. path must end in [Element].
// For these members the span is exact, unless a string is long or a value is an
// array or an object; undefined equals nothing.
func (x *Index) Tuple(path Path, members []Path, values []value.Value) (s Span, used []int) {
	if len(path) == 0 || len(members) != len(values) || path[len(path)-1] != Element {
		return Span{}, nil
	}
	for i := range x.tuples {
		t := &x.tuples[i]
		if !slices.Equal(t.array, path[:len(path)-1]) {
			continue
		}
		if span, places := t.span(members, values); len(places) > len(used) {
			s, used = span, places
		}
	}
	return s, used
}

// span returns the terms that begin with the values of the tuple's first
// members, as far as these are in members.
func (t *tuple) span(members []Path, values []value.Value) (s Span, used []int) {
	low, exact := []byte(t.id), true
	for _, member := range t.members {
		i := slices.IndexFunc(members, func(p Path) bool { return slices.Equal(p, member) })
		if i < 0 || !values[i].IsDefined() {
			break
		}
		var one bool
		low, one = appendValue(low, values[i])
		exact = exact && one
		used = append(used, i)
	}
	term := Term(low)
	return Span{Low: term, High: successor(term), Exact: exact, One: len(used) == len(t.members), Label: t.label}, used
}
