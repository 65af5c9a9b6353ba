package index

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/value"
)

// SortKey is one key of an ORDER BY.
type SortKey struct {
	Path Path
	Desc bool
}

// Order is a walk through the terms of the index that yields documents in the
// order of sort keys, or nearly so.
//
// Plans compare documents by order keys: the concatenated keys of the sort keys,
// which are value keys with two differences. An array or object has a hash after
// its tag, and the first bytes of characters from U+E000 on have another order,
// that of UTF-16. Keys whose direction differs from the first have all their bytes
// inverted. An Order translates between order keys and terms. Where the two have
// different orders, documents form groups that must be sorted; see [Order.Group].
type Order struct {
	// Walks means that there are terms to walk. Otherwise the policy allows the
	// order, but the documents must be sorted.
	Walks bool

	Span Span // the terms
	Desc bool // from the greatest term to the least

	// Missing means that documents without a term in Span also belong to the
	// order, before all others, or after them if Desc is set: their sort key is
	// undefined.
	Missing bool

	// Composite lists the properties of the composite index that is used, such
	// as "/a ASC"; it is nil if the terms of the path itself are used.
	Composite []string

	// places are the prefixes of the terms of the sort keys' own places.
	places []Term
	// prefix is the common prefix of all terms: the id, and the encodings of the
	// properties before the sort keys, whose values the filter fixes.
	prefix Term
	// inverted says for each sort key whether its bytes in terms are inverted.
	inverted []bool
	// flip means that bytes that are inverted in order keys are plain in terms,
	// and vice versa.
	flip bool
}

// Order returns a walk through the index for sort keys, and false if the policy
// does not allow sorting by them.
//
// A single key uses the terms of its place. Several keys need a composite index
// with exactly their paths, all in their directions or all in the opposite ones.
// Before them the index may have paths whose values the filter fixes; then it
// also serves a single key, and is preferred. equal returns the value that every
// document that passes the filter has at a path, and false if it knows none.
// equal may be nil.
func (x *Index) Order(keys []SortKey, equal func(Path) (value.Value, bool)) (Order, bool) {
	if x.none || len(keys) == 0 {
		return Order{}, false
	}
	if equal == nil {
		equal = func(Path) (value.Value, bool) { return value.Undefined(), false }
	}
	var best Order
	bestFixed, found := 0, false
	for i := range x.composites {
		c := &x.composites[i]
		fixed := len(c.parts) - len(keys)
		if fixed < 0 || !c.matches(keys, fixed) {
			continue
		}
		o, ok := c.order(keys, fixed, equal)
		if better := !found || o.Walks && (!best.Walks || fixed > bestFixed); !ok || !better {
			continue
		}
		for _, key := range keys {
			o.places = append(o.places, x.walk(rootState, key.Path).id())
		}
		best, bestFixed, found = o, fixed, true
	}
	if found && best.Walks || len(keys) > 1 {
		return best, found
	}
	if o, ok := x.single(keys[0], equal); ok {
		return o, true
	}
	return best, found
}

// single returns the order of a place's own terms.
func (x *Index) single(key SortKey, equal func(Path) (value.Value, bool)) (Order, bool) {
	if !x.Covers(key.Path) {
		return Order{}, false
	}
	if key.Path.elements() {
		// A document may have many values there, one of which is its key.
		return Order{}, true
	}
	s, _ := x.Span(key.Path, Defined, value.Undefined())
	o := Order{Walks: true, Span: s, Desc: key.Desc, Missing: true, places: []Term{s.Low[:idSize]}, prefix: s.Low[:idSize], inverted: []bool{false}}
	if v, ok := equal(key.Path); ok {
		if one, ok := x.Span(key.Path, Eq, v); ok {
			o = o.Narrow(one)
		}
	}
	return o, true
}

// matches reports whether the index has the keys after its first fixed
// properties, in their directions or the opposite ones.
func (c *composite) matches(keys []SortKey, fixed int) bool {
	opposite := c.parts[fixed].desc != keys[0].Desc
	for i, key := range keys {
		p := c.parts[fixed+i]
		if (p.desc != key.Desc) != opposite || !slices.Equal(p.path, key.Path) {
			return false
		}
	}
	return true
}

// order returns the order of an index that matches.
func (c *composite) order(keys []SortKey, fixed int, equal func(Path) (value.Value, bool)) (Order, bool) {
	prefix := []byte(c.id)
	for _, p := range c.parts[:fixed] {
		v, ok := equal(p.path)
		if !ok {
			return Order{}, false
		}
		prefix, _ = p.append(prefix, v)
	}
	o := Order{Walks: c.terms, Composite: make([]string, len(c.parts))}
	for i, p := range c.parts {
		o.Composite[i] = p.String()
	}
	if !c.terms {
		return o, true
	}
	o.flip = c.parts[fixed].inverted
	o.Desc = keys[0].Desc != o.flip
	o.prefix = Term(prefix)
	for _, p := range c.parts[fixed:] {
		o.inverted = append(o.inverted, p.inverted)
	}
	// Keys whose values are also fixed make the walk shorter.
	for _, p := range c.parts[fixed:] {
		v, ok := equal(p.path)
		if !ok {
			break
		}
		var exact bool
		if prefix, exact = p.append(prefix, v); !exact {
			break
		}
	}
	low := Term(prefix)
	o.Span = Span{Low: low, High: successor(low), Exact: true, Label: "(" + strings.Join(o.Composite, ", ") + ")"}
	return o, true
}

// append appends the encoding of v in the index.
func (p part) append(dst []byte, v value.Value) (term []byte, exact bool) {
	start := len(dst)
	dst, exact = appendValue(dst, v)
	if p.inverted {
		invert(dst[start:])
	}
	return dst, exact
}

// Narrow returns the part of the order in which the first sort key satisfies a
// predicate, given the span of the predicate at that key's path. It excludes
// documents without a term, because no predicate of a span is true for
// undefined. Any other span changes nothing.
func (o Order) Narrow(s Span) Order {
	if !o.Walks || len(s.High) < idSize || !strings.HasPrefix(string(s.Low), string(o.places[0])) {
		return o
	}
	low, high := string(o.prefix)+string(s.Low[idSize:]), string(o.prefix)+string(s.High[idSize:])
	if s.Empty() {
		high = low
	} else if o.inverted[0] {
		// Inverting bytes reverses their order, so the bounds change places.
		// Terms that begin with a bound are then on its other side.
		low, high = o.turned(s.High), o.turned(s.Low)
	}
	o.Span.Low, o.Span.High = max(o.Span.Low, Term(low)), min(o.Span.High, Term(high))
	o.Missing = false
	return o
}

// Fix returns the part of the order in which the first sort key is v, as an
// order of the other keys: Narrow then applies to the next key. It returns false
// if there is no other key, or if terms do not distinguish v from other values.
func (o Order) Fix(v value.Value) (Order, bool) {
	if !o.Walks || len(o.inverted) < 2 {
		return Order{}, false
	}
	prefix, exact := part{inverted: o.inverted[0]}.append([]byte(o.prefix), v)
	if !exact {
		return Order{}, false
	}
	o.prefix, o.places, o.inverted = Term(prefix), o.places[1:], o.inverted[1:]
	o.Span.Low, o.Span.High = max(o.Span.Low, o.prefix), min(o.Span.High, successor(o.prefix))
	return o, true
}

// turned returns the least term above all that begin with the inverted bytes of
// a bound.
func (o Order) turned(bound Term) string {
	key := []byte(bound[idSize:])
	invert(key)
	return string(successor(o.prefix + Term(key)))
}

// Seek returns the term at which a walk reaches the documents whose order key is
// key or comes later in the walk: no such document comes before that term, but
// other documents may come after it. A key that was cut means all keys that
// begin with it, and an empty key means all keys. The result is "" for the
// beginning of the walk and for documents without a term. If beyond is true, the
// key is before the start of the walk: at is then the start, and its documents
// have other keys.
func (o Order) Seek(key []byte) (at Term, beyond bool) {
	if !o.Walks || len(key) == 0 {
		return "", false
	}
	if o.Missing && key[0] == tagUndefined {
		return "", false
	}
	term, whole, wide := []byte(o.prefix), true, false
	for _, inverted := range o.inverted {
		start := len(term)
		term, key, whole, wide = seekValue(term, key, inverted != o.flip)
		if wide {
			// The group of all strings whose next character is from U+E000 on.
			first := byte(leadPrivate)
			if inverted != o.Desc {
				first = leadMax
			}
			term = append(term, first)
		}
		if inverted {
			invert(term[start:])
		}
		if !whole {
			break
		}
	}
	at = Term(term)
	if !o.Desc {
		return max(at, o.Span.Low), at < o.Span.Low
	}
	if !whole {
		at = successor(at)
	}
	return min(at, o.Span.High), at > o.Span.High
}

// The first bytes in UTF-8 of characters from U+E000 to U+FFFF are leadPrivate and the
// next one, those of characters beyond are the following ones up to leadMax. In the
// order of UTF-16 the latter come first, so terms order such strings only up to that
// character.
const (
	leadPrivate = 0xEE
	leadMax     = 0xF4
)

// seekValue reads the first value of an order key, whose bytes may be inverted,
// and appends its encoding in terms. If whole is false, the result is only the
// common prefix of all values that the key may mean or that the index cannot
// order. With wide it ends before a character from U+E000 on.
func seekValue(dst, key []byte, inverted bool) (term, rest []byte, whole, wide bool) {
	var mask byte
	if inverted {
		mask = 0xFF
	}
	if len(key) == 0 {
		return dst, nil, false, false
	}
	switch tag := key[0] ^ mask; {
	case tag >= tagUndefined && tag <= tagTrue:
		return append(dst, tag), key[1:], true, false
	case tag == arrayTag, tag == objectTag:
		return append(dst, tag), nil, false, false
	case tag == tagNumber:
		n := min(len(key), numberSize)
		for _, c := range key[:n] {
			dst = append(dst, c^mask)
		}
		return dst, key[n:], n == numberSize, false
	case tag == tagString:
		return seekString(append(dst, tag), key[1:], mask)
	}
	return dst, nil, false, false
}

// seekString is seekValue after the tag of a string.
func seekString(dst, key []byte, mask byte) (term, rest []byte, whole, wide bool) {
	for size, i := 0, 0; i < len(key); size, i = size+1, i+1 {
		c := key[i] ^ mask
		if c == 0 {
			if i+1 == len(key) {
				return append(dst, 0), nil, false, false
			}
			switch next := key[i+1] ^ mask; next {
			case zeroEnd:
				return append(dst, 0, zeroEnd), key[i+2:], true, false
			case zeroByte:
			default:
				return append(dst, 0, next), nil, false, false
			}
		}
		if size == StringBytesMax {
			return append(dst, 0, zeroCut), nil, false, false
		}
		if c >= leadPrivate && c <= leadMax {
			return dst, nil, false, true
		}
		dst = append(dst, c)
		if c == 0 {
			dst = append(dst, zeroByte)
			i++
		}
	}
	return dst, nil, false, false
}

// Group says how precisely a term of the walk orders documents. If exact is
// true, the documents of the term have one order key, and all documents before
// them have lesser keys in the direction of the walk. Otherwise the documents of
// all adjacent terms with the same group must be sorted together.
func (o Order) Group(t Term) (group string, exact bool) {
	if t == "" {
		return "", true
	}
	at := len(o.prefix)
	if len(t) < at {
		return string(t), false
	}
	for _, inverted := range o.inverted {
		k, ok := readKey(t[at:], inverted)
		switch {
		case !ok:
			return string(t), false
		case !k.exact:
			return string(t[:at+k.group]), false
		}
		at += k.size
	}
	// In a flipped order the walk goes against the direction of the keys, and so
	// against the order of the numbers of documents with equal keys.
	return string(t), !o.flip
}
