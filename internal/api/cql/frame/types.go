package frame

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// TypeID is the number of a type in the protocol.
type TypeID uint16

// The types.
const (
	TypeCustom    TypeID = 0x00
	TypeASCII     TypeID = 0x01
	TypeBigint    TypeID = 0x02
	TypeBlob      TypeID = 0x03
	TypeBoolean   TypeID = 0x04
	TypeCounter   TypeID = 0x05
	TypeDecimal   TypeID = 0x06
	TypeDouble    TypeID = 0x07
	TypeFloat     TypeID = 0x08
	TypeInt       TypeID = 0x09
	TypeTimestamp TypeID = 0x0B
	TypeUUID      TypeID = 0x0C
	TypeVarchar   TypeID = 0x0D
	TypeVarint    TypeID = 0x0E
	TypeTimeUUID  TypeID = 0x0F
	TypeInet      TypeID = 0x10
	TypeDate      TypeID = 0x11
	TypeTime      TypeID = 0x12
	TypeSmallint  TypeID = 0x13
	TypeTinyint   TypeID = 0x14
	TypeDuration  TypeID = 0x15
	TypeList      TypeID = 0x20
	TypeMap       TypeID = 0x21
	TypeSet       TypeID = 0x22
	TypeUDT       TypeID = 0x30
	TypeTuple     TypeID = 0x31
)

// natives has, for each type without parameters, its name in CQL, the name of its class
// in Cassandra and the version since which it has a number. It never changes.
var natives = map[TypeID]struct {
	name, class string
	since       Version
}{
	TypeASCII:     {"ascii", "AsciiType", V3},
	TypeBigint:    {"bigint", "LongType", V3},
	TypeBlob:      {"blob", "BytesType", V3},
	TypeBoolean:   {"boolean", "BooleanType", V3},
	TypeCounter:   {"counter", "CounterColumnType", V3},
	TypeDecimal:   {"decimal", "DecimalType", V3},
	TypeDouble:    {"double", "DoubleType", V3},
	TypeFloat:     {"float", "FloatType", V3},
	TypeInt:       {"int", "Int32Type", V3},
	TypeTimestamp: {"timestamp", "TimestampType", V3},
	TypeUUID:      {"uuid", "UUIDType", V3},
	TypeVarchar:   {"varchar", "UTF8Type", V3},
	TypeVarint:    {"varint", "IntegerType", V3},
	TypeTimeUUID:  {"timeuuid", "TimeUUIDType", V3},
	TypeInet:      {"inet", "InetAddressType", V3},
	TypeDate:      {"date", "SimpleDateType", V4},
	TypeTime:      {"time", "TimeType", V4},
	TypeSmallint:  {"smallint", "ShortType", V4},
	TypeTinyint:   {"tinyint", "ByteType", V4},
	TypeDuration:  {"duration", "DurationType", V5},
}

// ClassPrefix is the package of Cassandra's classes of types.
const ClassPrefix = "org.apache.cassandra.db.marshal."

// Type is the type of a column or a marker. It never changes once it is in use.
type Type struct {
	ID    TypeID
	Class string // of a custom type

	// Params are the types inside: one of a list or a set, key and value of a map, all
	// of a tuple or a UDT.
	Params []Type

	// Of a UDT. Fields are the names of Params.
	Keyspace, Name string
	Fields         []string
}

// Simple returns a type without parameters.
func Simple(id TypeID) Type { return Type{ID: id} }

// ListOf returns the type of a list.
func ListOf(element Type) Type { return Type{ID: TypeList, Params: []Type{element}} }

// SetOf returns the type of a set.
func SetOf(element Type) Type { return Type{ID: TypeSet, Params: []Type{element}} }

// MapOf returns the type of a map.
func MapOf(key, value Type) Type { return Type{ID: TypeMap, Params: []Type{key, value}} }

// TupleOf returns the type of a tuple.
func TupleOf(components ...Type) Type { return Type{ID: TypeTuple, Params: components} }

// VectorOf returns the type of a vector, which all versions send as a custom type.
func VectorOf(element Type, dimensions int) Type {
	return Type{Class: fmt.Sprintf("%sVectorType(%s , %d)", ClassPrefix, element.MarshalClass(), dimensions)}
}

// MarshalClass returns the name of Cassandra's class for the type, with parameters.
func (t *Type) MarshalClass() string {
	switch t.ID {
	case TypeCustom:
		return t.Class
	case TypeList, TypeSet, TypeMap, TypeTuple:
		parts := make([]string, len(t.Params))
		for i := range t.Params {
			parts[i] = t.Params[i].MarshalClass()
		}
		return ClassPrefix + map[TypeID]string{TypeList: "ListType", TypeSet: "SetType", TypeMap: "MapType", TypeTuple: "TupleType"}[t.ID] +
			"(" + strings.Join(parts, ",") + ")"
	case TypeUDT:
		parts := []string{t.Keyspace, hex.EncodeToString([]byte(t.Name))}
		for i := range t.Params {
			parts = append(parts, hex.EncodeToString([]byte(t.Fields[i]))+":"+t.Params[i].MarshalClass())
		}
		return ClassPrefix + "UserType(" + strings.Join(parts, ",") + ")"
	}
	return ClassPrefix + natives[t.ID].class
}

// String returns the type for people, nearly as in CQL.
func (t *Type) String() string {
	parts := make([]string, len(t.Params))
	for i := range t.Params {
		parts[i] = t.Params[i].String()
		if i < len(t.Fields) {
			parts[i] = t.Fields[i] + " " + parts[i]
		}
	}
	inner := strings.Join(parts, ", ")
	switch t.ID {
	case TypeCustom:
		return "custom " + t.Class
	case TypeList:
		return "list<" + inner + ">"
	case TypeSet:
		return "set<" + inner + ">"
	case TypeMap:
		return "map<" + inner + ">"
	case TypeTuple:
		return "tuple<" + inner + ">"
	case TypeUDT:
		return "udt " + t.Keyspace + "." + t.Name + "(" + inner + ")"
	}
	return natives[t.ID].name
}

func (e *encoder) option(t *Type) {
	native, simple := natives[t.ID]
	switch {
	case simple && e.version < native.since:
		e.short(int(TypeCustom), "a type")
		e.string(ClassPrefix + native.class)
	case simple:
		e.short(int(t.ID), "a type")
	case t.ID == TypeCustom:
		e.short(int(TypeCustom), "a type")
		e.string(t.Class)
	case t.ID == TypeList || t.ID == TypeSet || t.ID == TypeMap:
		e.short(int(t.ID), "a type")
		e.options(t)
	case t.ID == TypeTuple:
		e.short(int(t.ID), "a type")
		e.short(len(t.Params), "a tuple")
		e.options(t)
	case t.ID == TypeUDT:
		e.short(int(t.ID), "a type")
		e.string(t.Keyspace)
		e.string(t.Name)
		e.short(len(t.Params), "a user-defined type")
		for i := range t.Params {
			e.string(t.Fields[i])
			e.option(&t.Params[i])
		}
	default:
		e.fail("an unknown type", int(t.ID))
	}
}

func (e *encoder) options(t *Type) {
	for i := range t.Params {
		e.option(&t.Params[i])
	}
}

// typeDepthMax is how deep types may be nested in a message that is decoded.
const typeDepthMax = 64

// optionSize is the minimum number of bytes of a type.
const optionSize = 2

func (d *decoder) option(depth int) Type {
	t := Type{ID: TypeID(d.short())}
	if depth > typeDepthMax {
		d.fail("Types are nested more than %d deep", typeDepthMax)
	}
	if d.err != nil {
		return Type{}
	}
	if _, simple := natives[t.ID]; simple {
		return t
	}
	switch t.ID {
	case TypeCustom:
		t.Class = d.string()
	case TypeList, TypeSet:
		t.Params = []Type{d.option(depth + 1)}
	case TypeMap:
		t.Params = []Type{d.option(depth + 1), d.option(depth + 1)}
	case TypeTuple:
		// Appended, since a count inside a count inside a count is not yet true.
		for range d.count(optionSize) {
			if d.err == nil {
				t.Params = append(t.Params, d.option(depth+1))
			}
		}
	case TypeUDT:
		t.Keyspace, t.Name = d.string(), d.string()
		for range d.count(2 + optionSize) {
			if d.err == nil {
				t.Fields = append(t.Fields, d.string())
				t.Params = append(t.Params, d.option(depth+1))
			}
		}
	default:
		d.fail("Unknown type code %d", t.ID)
	}
	return t
}
