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

// Order is a way through the terms of the index that meets documents in the
// order of sort keys, or nearly so.
//
// Plans compare documents by order keys: the value keys of the sort keys one
// behind the other, those whose direction differs from that of the first with
// all their bytes inverted. An Order translates between order keys and terms.
type Order struct {
	// Walks says that there are terms to walk. Without them the policy allows
	// the order, and the documents have to be sorted.
	Walks bool

	Span Span // the terms
	Desc bool // from the greatest to the least

	// Missing says that documents without a term of Span belong to the order
	// too, in front of all others, behind them when Desc: their sort key is
	// undefined.
	Missing bool

	// Composite has the properties of the composite index that is used, such as
	// "/a ASC"; nil when it is the path's own terms.
	Composite []string

	// places begin the terms of the sort keys' own places.
	places []Term
	// prefix begins all terms: the id, and what stands for the properties in
	// front of the sort keys, which the filter fixes.
	prefix Term
	// inverted says of each sort key whether its bytes in terms are inverted.
	inverted []bool
	// flip says that bytes which order keys have inverted are plain in terms,
	// and the other way round.
	flip bool
}

// Order returns a way through the index for sort keys, and false when the policy
// does not allow to sort by them.
//
// One key has the terms of its place. Several need a composite index that has
// exactly their paths, all in their directions or all in the opposite ones. In
// front of them the index may have paths that the filter fixes to one value;
// then it serves a single key too, and is preferred. equal tells those: it
// returns the value that each document which passes the filter has at the path,
// and false when it knows none. It may be nil.
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
		// A document may have many values there, and one of them is its key.
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

// matches reports whether the index has the keys behind its first properties,
// in their directions or the opposite ones.
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
	// Keys that the filter fixes too make the way shorter.
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

// append appends what stands for v in the index.
func (p part) append(dst []byte, v value.Value) (term []byte, exact bool) {
	start := len(dst)
	dst, exact = appendValue(dst, v)
	if p.inverted {
		invert(dst[start:])
	}
	return dst, exact
}

// Narrow returns the part of the order in which the first sort key satisfies a
// predicate, given the span of the predicate at that key's path. It leaves out
// documents without a term: no predicate of a span is true of undefined. Any
// other span narrows nothing.
func (o Order) Narrow(s Span) Order {
	if !o.Walks || len(s.High) < idSize || !strings.HasPrefix(string(s.Low), string(o.places[0])) {
		return o
	}
	low, high := string(o.prefix)+string(s.Low[idSize:]), string(o.prefix)+string(s.High[idSize:])
	if s.Empty() {
		high = low
	} else if o.inverted[0] {
		// Bytes that rise become bytes that fall, so the ends change places. What
		// begins with one of them is on its other side then.
		low, high = o.turned(s.High), o.turned(s.Low)
	}
	o.Span.Low, o.Span.High = max(o.Span.Low, Term(low)), min(o.Span.High, Term(high))
	o.Missing = false
	return o
}

// Behind returns the part of the order in which the first sort key is v, as an
// order of the other keys: what narrows it narrows their terms. It is false when
// there is no other key, or terms do not tell v from other values.
func (o Order) Behind(v value.Value) (Order, bool) {
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
// key or comes behind it: no such document is in front of it, and some others may
// be behind it. A key that was cut stands for all that begin with it, and an
// empty one for all there are. The result is "" for the beginning of the walk
// and for documents without a term. It is the key's unless beyond: the whole walk is
// behind the key then, and what has the term at its beginning has another key.
func (o Order) Seek(key []byte) (at Term, beyond bool) {
	if !o.Walks || len(key) == 0 {
		return "", false
	}
	if o.Missing && key[0] == tagUndefined {
		return "", false
	}
	term, whole := []byte(o.prefix), true
	for _, inverted := range o.inverted {
		start := len(term)
		term, key, whole = seekValue(term, key, inverted != o.flip)
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

// seekValue reads the first value of an order key, whose bytes are inverted or
// not, and appends what stands for it in terms. Unless whole, that is only the
// beginning that all those values have in common which the key may mean, or
// which have no order in the index.
func seekValue(dst, key []byte, inverted bool) (term, rest []byte, whole bool) {
	var mask byte
	if inverted {
		mask = 0xFF
	}
	if len(key) == 0 {
		return dst, nil, false
	}
	switch tag := key[0] ^ mask; {
	case tag >= tagUndefined && tag <= tagTrue:
		return append(dst, tag), key[1:], true
	case tag == arrayTag, tag == objectTag:
		return append(dst, tag), nil, false
	case tag == tagNumber:
		n := min(len(key), numberSize)
		for _, c := range key[:n] {
			dst = append(dst, c^mask)
		}
		return dst, key[n:], n == numberSize
	case tag == tagString:
		return seekString(append(dst, tag), key[1:], mask)
	}
	return dst, nil, false
}

// seekString is seekValue behind the tag of a string.
func seekString(dst, key []byte, mask byte) (term, rest []byte, whole bool) {
	for size, i := 0, 0; i < len(key); size, i = size+1, i+1 {
		c := key[i] ^ mask
		if c == 0 {
			if i+1 == len(key) {
				return append(dst, 0), nil, false
			}
			switch next := key[i+1] ^ mask; next {
			case zeroEnd:
				return append(dst, 0, zeroEnd), key[i+2:], true
			case zeroByte:
			default:
				return append(dst, 0, next), nil, false
			}
		}
		if size == StringBytesMax {
			return append(dst, 0, zeroCut), nil, false
		}
		dst = append(dst, c)
		if c == 0 {
			dst = append(dst, zeroByte)
			i++
		}
	}
	return dst, nil, false
}

// Group tells how well a term of the walk puts documents in order. When exact,
// those under it have one order key, and all in front of it lesser ones in the
// direction of the walk. Otherwise the documents of all neighbouring terms with
// the same group belong together and have to be sorted.
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
	// In an order that is flipped the walk goes against the direction of the
	// keys, and so against that of the numbers of documents with equal ones.
	return string(t), !o.flip
}
