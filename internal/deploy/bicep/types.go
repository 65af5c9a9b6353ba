package bicep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// category is the outer form of a type.
type category int

const (
	tAny category = iota // not known, or refused already
	tNull
	tBool
	tInt
	tString
	tArray
	tObject
	tUnion
	tResource   // a resource or a module
	tCollection // a loop of resources or modules
	tLambda
	tNamespace
)

// typ is a type as the checker knows it. A type that it does not know is tAny,
// and fits everywhere: a file is refused only for what is surely wrong.
type typ struct {
	category category
	value    any    // of a literal: bool, int64 or string; nil otherwise
	item     *typ   // of an array; nil is any
	tuple    []*typ // of an array of fixed length, when isTuple
	isTuple  bool
	fields   []field // of an object
	open     bool    // an object that may hold more members
	sealed   bool    // an object type that refuses more members
	extra    *typ    // type of more members
	members  []*typ  // of a union
	symbol   *symbol // of tResource, tCollection, tNamespace
	name     string  // as messages name it, when not by its form
}

type field struct {
	name     string
	typ      *typ
	optional bool
}

var (
	anyType    = &typ{category: tAny}
	nullType   = &typ{category: tNull}
	boolType   = &typ{category: tBool}
	intType    = &typ{category: tInt}
	stringType = &typ{category: tString}
	arrayAny   = &typ{category: tArray}
	objectAny  = &typ{category: tObject, open: true}
)

func literalOf(v any) *typ {
	switch v := v.(type) {
	case nil:
		return nullType
	case bool:
		return &typ{category: tBool, value: v}
	case int64:
		return &typ{category: tInt, value: v}
	case string:
		return &typ{category: tString, value: v}
	}
	return anyType
}

// union joins types; a union inside is flattened.
func union(types ...*typ) *typ {
	var members []*typ
	add := func(t *typ) {
		for _, m := range members {
			if m.String() == t.String() && m.category != tObject && m.category != tArray {
				return
			}
		}
		members = append(members, t)
	}
	for _, t := range types {
		switch {
		case t.category == tAny:
			return anyType
		case t.category == tUnion:
			for _, m := range t.members {
				add(m)
			}
		default:
			add(t)
		}
	}
	if len(members) == 1 {
		return members[0]
	}
	if len(members) > 100 {
		return anyType
	}
	return &typ{category: tUnion, members: members}
}

// withoutNull takes null out of a union.
func withoutNull(t *typ) *typ {
	if t.category != tUnion {
		return t
	}
	members := slices.DeleteFunc(slices.Clone(t.members), func(m *typ) bool { return m.category == tNull })
	if len(members) == 0 {
		return anyType
	}
	return union(members...)
}

// String names the type as the vendor's compiler does.
func (t *typ) String() string {
	if t.name != "" {
		return t.name
	}
	switch t.category {
	case tNull:
		return "null"
	case tBool, tInt:
		if t.value != nil {
			return fmt.Sprint(t.value)
		}
		if t.category == tBool {
			return "bool"
		}
		return "int"
	case tString:
		if s, ok := t.value.(string); ok {
			return "'" + escapeText(s) + "'"
		}
		return "string"
	case tArray:
		if t.isTuple {
			names := make([]string, len(t.tuple))
			for i, m := range t.tuple {
				names[i] = m.String()
			}
			return "[" + strings.Join(names, ", ") + "]"
		}
		if t.item != nil && t.item.category != tAny {
			if t.item.category == tUnion {
				return "(" + t.item.String() + ")[]"
			}
			return t.item.String() + "[]"
		}
		return "array"
	case tObject:
		return "object"
	case tUnion:
		names := make([]string, len(t.members))
		for i, m := range t.members {
			names[i] = m.String()
		}
		slices.Sort(names)
		return strings.Join(names, " | ")
	case tResource:
		return t.symbol.typeName()
	case tCollection:
		return t.symbol.typeName() + "[]"
	case tLambda:
		return "lambda"
	case tNamespace:
		return "namespace"
	}
	return "any"
}

// escapeText writes the inner part of a string of one quote.
func escapeText(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\', c == '\'':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '$' && strings.HasPrefix(s[i+1:], "{"):
			b.WriteString(`\$`)
		case c < 0x20 || c == 0x7f:
			b.WriteString(`\u{` + strconv.FormatUint(uint64(c), 16) + `}`)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// comparableDepth bounds the comparison of types inside types.
const comparableDepth = 20

// fits reports whether a value of type from may be one of type to. It returns
// false only when it surely is not.
func fits(from, to *typ, depth int) bool {
	if depth > comparableDepth || from == to || from.category == tAny || to.category == tAny {
		return true
	}
	if from.category == tUnion {
		return slices.ContainsFunc(from.members, func(m *typ) bool { return fits(m, to, depth+1) })
	}
	if to.category == tUnion {
		return slices.ContainsFunc(to.members, func(m *typ) bool { return fits(from, m, depth+1) })
	}
	if from.category == tResource && to.category == tObject || from.category == tCollection && to.category == tArray {
		return true
	}
	if from.category != to.category {
		return false
	}
	switch from.category {
	case tBool, tInt, tString:
		return from.value == nil || to.value == nil || from.value == to.value
	case tArray:
		for i, m := range from.tuple {
			want := to.item
			if to.isTuple {
				if i >= len(to.tuple) {
					return false
				}
				want = to.tuple[i]
			}
			if want != nil && !fits(m, want, depth+1) {
				return false
			}
		}
		if from.item != nil && to.item != nil {
			return fits(from.item, to.item, depth+1)
		}
	case tObject:
		for _, want := range to.fields {
			have := from.field(want.name)
			if have == nil && !from.open && !want.optional && !isNullable(want.typ) {
				return false
			}
			if have != nil && !fits(have, want.typ, depth+1) {
				return false
			}
		}
	}
	return true
}

func isNullable(t *typ) bool {
	return t.category == tAny || t.category == tNull || t.category == tUnion && slices.ContainsFunc(t.members, isNullable)
}

// field returns the type of a member that the type names, or nil.
func (t *typ) field(name string) *typ {
	for i := range t.fields {
		if t.fields[i].name == name {
			return t.fields[i].typ
		}
	}
	return nil
}
