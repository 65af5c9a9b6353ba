package row

import (
	"slices"
	"strconv"
	"strings"
)

// Kind is the kind of a CQL type.
type Kind uint8

// The kinds. KindList and the kinds after it have parts.
const (
	KindASCII Kind = iota + 1
	KindBigInt
	KindBlob
	KindBoolean
	KindCounter
	KindDate
	KindDecimal
	KindDouble
	KindDuration
	KindFloat
	KindInet
	KindInt
	KindSmallInt
	KindText
	KindTime
	KindTimestamp
	KindTimeUUID
	KindTinyInt
	KindUUID
	KindVarInt
	KindList
	KindSet
	KindMap
	KindTuple
	KindUDT
	KindVector
)

var kindNames = [...]string{
	KindASCII: "ascii", KindBigInt: "bigint", KindBlob: "blob", KindBoolean: "boolean",
	KindCounter: "counter", KindDate: "date", KindDecimal: "decimal", KindDouble: "double",
	KindDuration: "duration", KindFloat: "float", KindInet: "inet", KindInt: "int",
	KindSmallInt: "smallint", KindText: "text", KindTime: "time", KindTimestamp: "timestamp",
	KindTimeUUID: "timeuuid", KindTinyInt: "tinyint", KindUUID: "uuid", KindVarInt: "varint",
	KindList: "list", KindSet: "set", KindMap: "map", KindTuple: "tuple", KindUDT: "udt",
	KindVector: "vector",
}

// String returns the name of the kind in CQL. A user-defined type is "udt".
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Type is a type of CQL. A Type is immutable and safe for concurrent use; make
// one with the constructors or with [ParseType]. Whether a clustering column is
// reversed is a property of the column, not of its type.
type Type struct {
	Kind Kind
	// Frozen says that a list, set, map or user-defined type is one value. One
	// that is not frozen is multi-cell: each element is a cell of its own. Tuples
	// and vectors are always frozen; Frozen is false for native types.
	Frozen bool
	// Parts are the element of a list, set or vector, the key and the value of a
	// map, the components of a tuple, or the types of the fields of a
	// user-defined type.
	Parts []*Type
	// Keyspace, Name and Fields describe a user-defined type. Fields are the names
	// of the fields, in the order of Parts.
	Keyspace, Name string
	Fields         []string
	// Dimension is the number of elements of a vector.
	Dimension int
}

var natives = func() (types [KindVarInt + 1]*Type) {
	for k := KindASCII; k <= KindVarInt; k++ {
		types[k] = &Type{Kind: k}
	}
	return types
}()

// Native returns the type of a kind without parts. It panics for other kinds.
func Native(k Kind) *Type {
	if k < KindASCII || k > KindVarInt {
		panic("row: " + k.String() + " is not a native type")
	}
	return natives[k]
}

// NativeNamed returns the native type with the given name, in lower case, or
// nil. "varchar" is text.
func NativeNamed(name string) *Type {
	if name == "varchar" {
		return natives[KindText]
	}
	for k := KindASCII; k <= KindVarInt; k++ {
		if kindNames[k] == name {
			return natives[k]
		}
	}
	return nil
}

// ListOf returns the multi-cell list of an element type.
func ListOf(element *Type) *Type { return &Type{Kind: KindList, Parts: []*Type{element}} }

// SetOf returns the multi-cell set of an element type.
func SetOf(element *Type) *Type { return &Type{Kind: KindSet, Parts: []*Type{element}} }

// MapOf returns the multi-cell map of a key type and a value type.
func MapOf(key, value *Type) *Type { return &Type{Kind: KindMap, Parts: []*Type{key, value}} }

// TupleOf returns the tuple of its components, which it freezes.
func TupleOf(components ...*Type) *Type {
	return &Type{Kind: KindTuple, Frozen: true, Parts: freezeAll(components)}
}

// VectorOf returns the vector of dimension elements of a type, which it freezes.
func VectorOf(element *Type, dimension int) *Type {
	return &Type{Kind: KindVector, Frozen: true, Parts: []*Type{element.Freeze()}, Dimension: dimension}
}

// UDTOf returns a multi-cell user-defined type. It keeps the slices.
func UDTOf(keyspace, name string, fields []string, types []*Type) *Type {
	return &Type{Kind: KindUDT, Keyspace: keyspace, Name: name, Fields: fields, Parts: types}
}

// Freeze returns the frozen form of a type; its parts are frozen too. A native
// type is its own frozen form.
func (t *Type) Freeze() *Type {
	if t.Frozen || t.Native() {
		return t
	}
	frozen := *t
	frozen.Frozen = true
	frozen.Parts = freezeAll(t.Parts)
	return &frozen
}

func freezeAll(types []*Type) []*Type {
	frozen := make([]*Type, len(types))
	for i, t := range types {
		frozen[i] = t.Freeze()
	}
	return frozen
}

// Native says whether the type has no parts.
func (t *Type) Native() bool { return t.Kind < KindList }

// Collection says whether the type is a list, a set or a map.
func (t *Type) Collection() bool {
	return t.Kind == KindList || t.Kind == KindSet || t.Kind == KindMap
}

// Multicell says whether a column of this type has a cell per element or field.
func (t *Type) Multicell() bool {
	return !t.Frozen && (t.Collection() || t.Kind == KindUDT)
}

// Element returns the type of the elements of a list, set or vector, or of the
// values of a map.
func (t *Type) Element() *Type { return t.Parts[len(t.Parts)-1] }

// Key returns the type of the keys of a map, or of the elements of a set.
func (t *Type) Key() *Type { return t.Parts[0] }

// Field returns the index of the field of a user-defined type, or -1.
func (t *Type) Field(name string) int { return slices.Index(t.Fields, name) }

// Equal says whether two types are the same, frozen alike, with the same fields.
func (t *Type) Equal(other *Type) bool {
	return t == other || t != nil && other != nil &&
		t.Kind == other.Kind && t.Frozen == other.Frozen && t.Dimension == other.Dimension &&
		t.Keyspace == other.Keyspace && t.Name == other.Name && slices.Equal(t.Fields, other.Fields) &&
		slices.EqualFunc(t.Parts, other.Parts, (*Type).Equal)
}

// References says whether the type is, or has a part that is, of a kind.
func (t *Type) References(k Kind) bool {
	return t.Kind == k || slices.ContainsFunc(t.Parts, func(part *Type) bool { return part.References(k) })
}

// String returns the type as tables of system_schema print it, such as
// "frozen<tuple<int, frozen<list<int>>>>". User-defined types have no keyspace.
func (t *Type) String() string { return string(t.append(nil)) }

func (t *Type) append(dst []byte) []byte {
	if t.Native() {
		return append(dst, t.Kind.String()...)
	}
	if t.Kind == KindVector {
		dst = t.Parts[0].append(append(dst, "vector<"...))
		dst = strconv.AppendInt(append(dst, ", "...), int64(t.Dimension), 10)
		return append(dst, '>')
	}
	if t.Frozen {
		dst = append(dst, "frozen<"...)
	}
	if t.Kind == KindUDT {
		dst = append(dst, QuoteName(t.Name)...)
	} else {
		dst = append(append(dst, t.Kind.String()...), '<')
		for i, part := range t.Parts {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = part.append(dst)
		}
		dst = append(dst, '>')
	}
	if t.Frozen {
		dst = append(dst, '>')
	}
	return dst
}

// reserved are the words that must be quoted as names.
var reserved = func() map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(`add allow alter and apply asc authorize batch begin by
		columnfamily create delete desc describe drop entries execute from full grant if in index
		infinity insert into is keyspace limit materialized modify nan norecursive not null of on or
		order primary rename revoke schema select set table to token truncate unlogged update use
		using view where with`) {
		words[word] = true
	}
	return words
}()

// QuoteName returns a name as CQL text: in double quotes unless it is an
// identifier in lower case and not a reserved word.
func QuoteName(name string) string {
	plain := name != "" && !reserved[name]
	for i := 0; plain && i < len(name); i++ {
		c := name[i]
		plain = c >= 'a' && c <= 'z' || i > 0 && (c == '_' || c >= '0' && c <= '9')
	}
	if plain {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
