// Package jsonc reads the JSON that templates are written in, with comments and other
// liberties, and holds the values of the template language.
//
// A value is nil, a bool, an int64, a [Big], a float64, a string, an [*Array] or an
// [*Object]. An integer and a number with a point or an exponent are different types,
// as the template language demands: 1 is not equal to 1.0. Values do not change after
// they are built, and may share parts.
//
// Page: docs/deploy.md
package jsonc

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Big is an integer outside the range of int64, as it was written.
type Big string

// Partial is implemented by values that are not known yet. Arrays and objects remember
// whether they contain one.
type Partial interface{ Unknown() }

// Array is a list of values.
type Array struct {
	items  []any
	weight int
	open   bool
}

// NewArray returns an array, which owns items.
func NewArray(items ...any) *Array {
	a := &Array{items: items, weight: 1}
	for _, item := range items {
		a.weight = add(a.weight, Weight(item))
		a.open = a.open || IsOpen(item)
	}
	return a
}

// Len returns the number of items.
func (a *Array) Len() int { return len(a.items) }

// At returns an item.
func (a *Array) At(i int) any { return a.items[i] }

// Items returns the items, which must not be changed.
func (a *Array) Items() []any { return a.items }

// Member is a member of an object.
type Member struct {
	Name  string
	Value any
}

// Object is a list of members with distinct names. Names that differ only in case are
// distinct, but a look-up that finds no equal name takes one that differs in case.
type Object struct {
	members []Member
	exact   map[string]int // nil while there are few members
	folded  map[string]int // the first member of each name in lower case
	weight  int
	open    bool
}

// few is the number of members from which an object has maps.
const few = 8

// NewObject returns an object of pairs of name and value.
func NewObject(pairs ...any) *Object {
	o := &Object{weight: 1}
	for i := 0; i+1 < len(pairs); i += 2 {
		o.Set(pairs[i].(string), pairs[i+1])
	}
	return o
}

// Len returns the number of members.
func (o *Object) Len() int { return len(o.members) }

// Members returns the members in their order. They must not be changed.
func (o *Object) Members() []Member { return o.members }

// Set adds a member, or replaces the value of the one with exactly that name. Only the
// code that builds an object may call it.
func (o *Object) Set(name string, value any) {
	o.weight = add(o.weight, add(Weight(name), Weight(value)))
	o.open = o.open || IsOpen(value)
	if i := o.exactly(name); i >= 0 {
		o.members[i].Value = value
		return
	}
	o.put(name, value)
}

// put adds a member with a new name.
func (o *Object) put(name string, value any) {
	o.members = append(o.members, Member{name, value})
	if o.exact != nil {
		o.index(len(o.members) - 1)
	} else if len(o.members) > few {
		o.exact, o.folded = map[string]int{}, map[string]int{}
		for i := range o.members {
			o.index(i)
		}
	}
}

func (o *Object) index(i int) {
	name := o.members[i].Name
	o.exact[name] = i
	lower := strings.ToLower(name)
	if _, taken := o.folded[lower]; !taken {
		o.folded[lower] = i
	}
}

// Replace sets the value of the member with that name in any case, which takes the new
// spelling, or adds one. Only the code that builds an object may call it.
func (o *Object) Replace(name string, value any) {
	i := o.Find(name)
	if i < 0 || o.members[i].Name == name {
		o.Set(name, value)
		return
	}
	old := o.members
	*o = Object{weight: 1}
	for j, m := range old {
		if j == i {
			m = Member{name, value}
		}
		o.Set(m.Name, m.Value)
	}
}

func (o *Object) exactly(name string) int {
	if o.exact != nil {
		if i, found := o.exact[name]; found {
			return i
		}
		return -1
	}
	for i := range o.members {
		if o.members[i].Name == name {
			return i
		}
	}
	return -1
}

// Find returns the position of a member: of exactly that name, or else of the first
// whose name differs in case, or -1.
func (o *Object) Find(name string) int {
	if i := o.exactly(name); i >= 0 {
		return i
	}
	if o.folded != nil {
		if i, found := o.folded[strings.ToLower(name)]; found {
			return i
		}
		return -1
	}
	for i := range o.members {
		if strings.EqualFold(o.members[i].Name, name) {
			return i
		}
	}
	return -1
}

// Get returns the value of a member, whose name may differ in case.
func (o *Object) Get(name string) (value any, found bool) {
	if i := o.Find(name); i >= 0 {
		return o.members[i].Value, true
	}
	return nil, false
}

// Exact returns the value of the member of exactly that name.
func (o *Object) Exact(name string) (value any, found bool) {
	if i := o.exactly(name); i >= 0 {
		return o.members[i].Value, true
	}
	return nil, false
}

// IsOpen reports whether a value is not known yet, or contains one that is not.
func IsOpen(v any) bool {
	switch v := v.(type) {
	case *Array:
		return v.open
	case *Object:
		return v.open
	case Partial:
		return true
	}
	return false
}

// Weight returns a measure of the size of a value as it would be written out: about one
// for each scalar and for each 8 bytes of text. Shared parts count as often as they
// occur, so that a small value in memory may have a large weight.
func Weight(v any) int {
	switch v := v.(type) {
	case string:
		return 1 + len(v)/8
	case Big:
		return 1 + len(v)/8
	case *Array:
		return v.weight
	case *Object:
		return v.weight
	}
	return 1
}

// add adds two weights without overflow.
func add(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// Equal reports whether two values are equal. Members may be in any order; the case of
// names and strings counts.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case *Array:
		b, ok := b.(*Array)
		if !ok || len(a.items) != len(b.items) {
			return false
		}
		for i := range a.items {
			if !Equal(a.items[i], b.items[i]) {
				return false
			}
		}
		return true
	case *Object:
		b, ok := b.(*Object)
		if !ok || len(a.members) != len(b.members) {
			return false
		}
		for _, m := range a.members {
			other, found := b.Exact(m.Name)
			if !found || !Equal(m.Value, other) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case *Array, *Object:
		return false
	}
	return a == b
}

// Text returns a value as compact JSON.
func Text(v any) string { return string(Append(nil, v)) }

// Append appends a value as compact JSON, in the form of the vendor's library: a float
// has a point or an exponent, NaN and the infinities are strings, and only control
// characters, quotes, backslashes and the two line separators are escaped.
func Append(out []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...)
	case bool:
		return strconv.AppendBool(out, v)
	case int64:
		return strconv.AppendInt(out, v, 10)
	case Big:
		return append(out, v...)
	case float64:
		return appendFloat(out, v)
	case string:
		return appendString(out, v)
	case *Array:
		out = append(out, '[')
		for i, item := range v.items {
			if i > 0 {
				out = append(out, ',')
			}
			out = Append(out, item)
		}
		return append(out, ']')
	case *Object:
		out = append(out, '{')
		for i, m := range v.members {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendString(out, m.Name), ':')
			out = Append(out, m.Value)
		}
		return append(out, '}')
	case interface{ String() string }: // A value that is not known yet.
		return appendString(out, v.String())
	}
	return append(out, "null"...)
}

// Indent returns a value as JSON with one member a line.
func Indent(v any) string { return string(appendIndent(nil, v, "\n")) }

func appendIndent(out []byte, v any, line string) []byte {
	inner := line + "  "
	switch v := v.(type) {
	case *Array:
		if len(v.items) == 0 {
			break
		}
		out = append(out, '[')
		for i, item := range v.items {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendIndent(append(out, inner...), item, inner)
		}
		return append(append(out, line...), ']')
	case *Object:
		if len(v.members) == 0 {
			break
		}
		out = append(out, '{')
		for i, m := range v.members {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendString(append(out, inner...), m.Name), ": "...)
			out = appendIndent(out, m.Value, inner)
		}
		return append(append(out, line...), '}')
	}
	return Append(out, v)
}

// FormatFloat returns a float as .NET's invariant culture writes it.
func FormatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0 && math.Signbit(f):
		return "-0"
	}
	if abs := math.Abs(f); f == 0 || abs >= 1e-5 && abs < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	text := strconv.FormatFloat(f, 'E', -1, 64)
	return text
}

func appendFloat(out []byte, f float64) []byte {
	text := FormatFloat(f)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(append(append(out, '"'), text...), '"')
	}
	out = append(out, text...)
	if !strings.ContainsAny(text, ".E") {
		out = append(out, ".0"...)
	}
	return out
}

func appendString(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case c == '"' || c == '\\':
				out = append(out, '\\', c)
			case c == '\n':
				out = append(out, `\n`...)
			case c == '\r':
				out = append(out, `\r`...)
			case c == '\t':
				out = append(out, `\t`...)
			case c == '\b':
				out = append(out, `\b`...)
			case c == '\f':
				out = append(out, `\f`...)
			case c < ' ':
				out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			default:
				out = append(out, c)
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch r {
		case '\u0085':
			out = append(out, `\u0085`...)
		case '\u2028':
			out = append(out, `\u2028`...)
		case '\u2029':
			out = append(out, `\u2029`...)
		case utf8.RuneError:
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, s[i:i+size]...)
		}
		i += size
	}
	return append(out, '"')
}
