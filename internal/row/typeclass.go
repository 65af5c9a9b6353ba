package row

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// marshalPackage is the package of Cassandra's classes of types, which their names may
// leave out.
const marshalPackage = "org.apache.cassandra.db.marshal."

// classNames are Cassandra's classes of native types.
var classNames = map[Kind]string{
	KindASCII: "AsciiType", KindBigInt: "LongType", KindBlob: "BytesType", KindBoolean: "BooleanType", KindCounter: "CounterColumnType",
	KindDate: "SimpleDateType", KindDecimal: "DecimalType", KindDouble: "DoubleType", KindDuration: "DurationType", KindFloat: "FloatType",
	KindInet: "InetAddressType", KindInt: "Int32Type", KindSmallInt: "ShortType", KindText: "UTF8Type", KindTime: "TimeType",
	KindTimestamp: "TimestampType", KindTimeUUID: "TimeUUIDType", KindTinyInt: "ByteType", KindUUID: "UUIDType", KindVarInt: "IntegerType",
}

// classes are the native types by the names of their classes, older ones too.
var classes = func() map[string]Kind {
	all := map[string]Kind{"DateType": KindTimestamp, "LegacyTimeUUIDType": KindTimeUUID}
	for kind, name := range classNames {
		all[name] = kind
	}
	return all
}()

// classArguments are the classes that have types as arguments, with their number; 0 is one
// or more.
var classArguments = map[string]int{"ListType": 1, "SetType": 1, "MapType": 2, "TupleType": 0, "FrozenType": 1, "ReversedType": 1}

// otherClasses are classes of Cassandra whose types have no name in CQL.
var otherClasses = map[string]bool{
	"CompositeType": true, "DynamicCompositeType": true, "EmptyType": true, "LexicalUUIDType": true, "PartitionerDefinedOrder": true,
	"ColumnToCollectionType": true, "UserType": true, "VectorType": true,
}

// ClassName returns the name of the type's class in Cassandra with its package and
// arguments. A few of Cassandra's messages have it.
func (t *Type) ClassName() string {
	parts := make([]string, len(t.Parts))
	for i, p := range t.Parts {
		parts[i] = p.ClassName()
	}
	name := marshalPackage
	switch t.Kind {
	case KindList:
		name += "ListType"
	case KindSet:
		name += "SetType"
	case KindMap:
		name += "MapType"
	case KindTuple:
		return name + "TupleType(" + strings.Join(parts, ",") + ")"
	case KindUDT:
		name += "UserType"
		for i, p := range parts {
			parts[i] = hex.EncodeToString([]byte(t.Fields[i])) + ":" + p
		}
		parts = append([]string{t.Keyspace, hex.EncodeToString([]byte(t.Name))}, parts...)
	default:
		return name + classNames[t.Kind]
	}
	name += "(" + strings.Join(parts, ",") + ")"
	if t.Frozen {
		return marshalPackage + "FrozenType(" + name + ")"
	}
	return name
}

// parseClass parses a type that is named by its class in Cassandra, such as
// "ListType(Int32Type)". The empty text is blob, as in Cassandra. What Cassandra calls a
// syntax error has the reason BadClass.
func parseClass(text string) (*Type, error) {
	if strings.TrimSpace(text) == "" {
		return natives[KindBlob], nil
	}
	p := classParser{text: text}
	t, err := p.parse(0)
	if err == nil {
		if p.skip(); p.pos < len(text) {
			err = p.fail("unexpected text after the type")
		}
	}
	return t, err
}

type classParser struct {
	text string
	pos  int
}

func (p *classParser) fail(what string) error {
	return &Error{Reason: BadClass, Text: fmt.Sprintf("Cannot parse type %s: Syntax error parsing '%s' at char %d: %s", p.text, p.text, p.pos, what)}
}

func (p *classParser) skip() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *classParser) take(c byte) bool {
	p.skip()
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *classParser) parse(depth int) (*Type, error) {
	if depth > typeDepthMax {
		return nil, p.fail("too many types inside each other")
	}
	p.skip()
	start := p.pos
	for p.pos < len(p.text) && (isWord(p.text[p.pos]) || strings.IndexByte("+-.&", p.text[p.pos]) >= 0) {
		p.pos++
	}
	name := p.text[start:p.pos]
	if name == "" {
		return nil, p.fail("a class is missing")
	}
	short := strings.TrimPrefix(name, marshalPackage)
	count, composed := classArguments[short]
	kind, native := classes[short]
	switch {
	case native:
		return natives[kind], nil
	case otherClasses[short]:
		return nil, &Error{Reason: BadType, Text: fmt.Sprintf("The class %s is not supported: its type has no name in CQL", marshalPackage+short)}
	case !composed && strings.Contains(name, ".") && short == name:
		return nil, &Error{Reason: BadClass, Text: fmt.Sprintf("Error setting type %s: Unable to find abstract-type class '%s'", p.text, name)}
	case !composed:
		return nil, &Error{Reason: BadClass, Text: fmt.Sprintf("Error setting type %s: Unable to find abstract-type class '%s'", p.text, marshalPackage+short)}
	}
	parts, err := p.arguments(depth)
	if err != nil {
		return nil, err
	}
	if count != 0 && len(parts) != count || len(parts) == 0 {
		return nil, &Error{Reason: BadClass, Text: fmt.Sprintf("Error setting type %s: Invalid definition for comparator %s.", p.text, marshalPackage+short)}
	}
	switch short {
	case "ListType":
		return ListOf(parts[0]), nil
	case "SetType":
		return SetOf(parts[0]), nil
	case "MapType":
		return MapOf(parts[0], parts[1]), nil
	case "TupleType":
		return TupleOf(parts...), nil
	case "FrozenType":
		return parts[0].Freeze(), nil
	}
	return parts[0], nil // Whether a column is reversed is not a part of its type.
}

// arguments parses the types in brackets after a class; without brackets there are none.
func (p *classParser) arguments(depth int) (parts []*Type, err error) {
	if !p.take('(') {
		return nil, nil
	}
	for {
		part, err := p.parse(depth + 1)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		if p.take(')') {
			return parts, nil
		}
		if !p.take(',') {
			if p.pos == len(p.text) {
				return nil, p.fail("unexpected end of string")
			}
			return nil, p.fail("a comma or a bracket is missing")
		}
	}
}
