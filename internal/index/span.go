package index

import (
	"fmt"

	"github.com/decandb/decan/internal/value"
)

// Op is a predicate on the value at one path.
type Op uint8

// The predicates. Comparisons are true only for values of the same type, so Lt 5
// selects only numbers.
const (
	Eq      Op = iota // equal to the value
	Lt                // less than the value
	Le                // at most the value
	Gt                // greater than the value
	Ge                // at least the value
	Prefix            // a string that begins with the value, a string
	Defined           // not undefined; the value is ignored
	Kind              // of the same type as the value
)

var opNames = [...]string{"=", "<", "<=", ">", ">=", "STARTSWITH", "IS_DEFINED", "IS_TYPE"}

// String returns the predicate as a query writes it.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Span is an interval of terms. The documents that have a term in it are those
// that may satisfy a predicate.
type Span struct {
	// Low and High are the bounds of the terms, Low included and High excluded.
	// A span is empty if High is not above Low.
	Low, High Term

	// Exact means that every document of the span satisfies the predicate. It is
	// false if strings were cut, and on paths through arrays, where a term does
	// not say which element it comes from.
	Exact bool

	// One means that the span has at most one term, Low.
	One bool

	// Path is the path of the values in the terms; nil for terms of another
	// kind.
	Path Path

	// cellsOf is the path of the cells in the terms.
	cellsOf Path

	// Label names the index of the terms for people: the path in the form of an
	// indexing policy, such as /a/b/?, or a name.
	Label string
}

// Empty reports whether no document can be in the span.
func (s Span) Empty() bool { return s.Low >= s.High }

// String returns the label and the bounds, for tests and logs.
func (s Span) String() string {
	text := fmt.Sprintf("%s [%x,%x)", s.Label, string(s.Low), string(s.High))
	if s.Exact {
		text += " exact"
	}
	if s.One {
		text += " one"
	}
	return text
}

// Span returns the terms that a value at path has if it satisfies the predicate.
// It returns false if the index cannot answer: the path is not covered, or the
// value cannot be in an index, such as undefined, or an array in a comparison
// other than Eq. The span keeps path.
func (x *Index) Span(path Path, op Op, v value.Value) (Span, bool) {
	if !x.Covers(path) {
		return Span{}, false
	}
	b := bounds{id: x.walk(rootState, path).appendID(make([]byte, 0, idSize)), v: v}
	s, ok := b.span(op)
	if !ok {
		return Span{}, false
	}
	s.Path, s.Label = path, path.String()+"/?"
	s.Exact = s.Exact && !path.elements()
	return s, true
}

// bounds computes the bounds of spans at one path.
type bounds struct {
	id []byte
	v  value.Value
}

func (b bounds) span(op Op) (Span, bool) {
	switch op {
	case Defined:
		return Span{Low: b.tag(value.Null()), High: b.after(value.Object(nil)), Exact: true}, true
	case Kind:
		if !b.v.IsDefined() {
			return Span{}, false
		}
		low, high := b.kind()
		return Span{Low: low, High: high, Exact: true}, true
	case Prefix:
		if b.v.Kind() != value.KindString {
			return Span{}, false
		}
		return b.prefix(), true
	case Eq:
		return b.equal()
	}
	if k := b.v.Kind(); k == value.KindUndefined || k == value.KindArray || k == value.KindObject {
		return Span{}, false
	}
	return b.compare(op)
}

func (b bounds) equal() (Span, bool) {
	switch b.v.Kind() {
	case value.KindUndefined:
		return Span{}, false
	case value.KindArray, value.KindObject:
		low := b.tag(b.v)
		return Span{Low: low, High: successor(low), One: true}, true
	}
	key, cut := value.AppendKeyLimit(b.room(), b.v, StringBytesMax)
	low := Term(key)
	return Span{Low: low, High: successor(low), Exact: !cut, One: true}, true
}

// compare returns the span of an inequality. Cut strings with the same beginning
// have an arbitrary order, so if the bound is one of them, all of them belong to
// the span.
func (b bounds) compare(op Op) (Span, bool) {
	low, high := b.kind()
	key, cut := value.AppendKeyLimit(b.room(), b.v, StringBytesMax)
	from, to := Term(key), successor(Term(key))
	if cut {
		from = Term(key[:len(key)-cutHashSize])
		to = successor(from)
	}
	s := Span{Low: low, High: high, Exact: !cut}
	switch {
	case op == Lt && cut, op == Le:
		s.High = to
	case op == Lt:
		s.High = from
	case op == Gt && cut, op == Ge:
		s.Low = from
	case op == Gt:
		s.Low = to
	default:
		return Span{}, false
	}
	return s, true
}

// cutHashSize is the number of bytes of the hash at the end of the key of a cut
// string; see value.AppendKeyLimit.
const cutHashSize = 8

// prefix returns the span of all strings that begin with b.v.
func (b bounds) prefix() Span {
	text := b.v.Text()
	if len(text) > StringBytesMax {
		// Only cut strings are that long, and their terms begin with the first
		// bytes.
		key, _ := value.AppendKeyLimit(b.room(), b.v, StringBytesMax)
		low := Term(key[:len(key)-cutHashSize])
		return Span{Low: low, High: successor(low)}
	}
	key := value.AppendKey(b.room(), b.v)
	low := Term(key[:len(key)-stringEndSize])
	return Span{Low: low, High: successor(low), Exact: true}
}

// stringEndSize is the number of bytes that end the key of a string.
const stringEndSize = 2

// kind returns the bounds of the values of b.v's type.
func (b bounds) kind() (low, high Term) {
	if b.v.Kind() == value.KindBool {
		return b.tag(value.Bool(false)), b.after(value.Bool(true))
	}
	return b.tag(b.v), b.after(b.v)
}

// tag returns the first term that a value with v's tag can have.
func (b bounds) tag(v value.Value) Term {
	key, _ := value.AppendKeyLimit(b.room(), v, 0)
	return Term(key[:len(b.id)+1])
}

// after returns the first term after all values with v's tag.
func (b bounds) after(v value.Value) Term { return successor(b.tag(v)) }

// room returns a copy of the path's id with capacity for a key.
func (b bounds) room() []byte {
	return append(make([]byte, 0, 48), b.id...)
}

// successor returns the least bytes above all that begin with t. It exists
// because a term begins with the id of a path and a tag below 0xFF.
func successor(t Term) Term {
	b := []byte(t)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xFF {
			b[i]++
			return Term(b[:i+1])
		}
	}
	panic("index: no term is above " + fmt.Sprintf("%x", string(t)))
}
