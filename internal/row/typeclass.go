package row

import (
	"fmt"
	"strings"
)

// marshalPackage is the package of Cassandra's classes of types, which their names may
// leave out.
const marshalPackage = "org.apache.cassandra.db.marshal."

// classes are Cassandra's classes of native types. DateType and LegacyTimeUUIDType are
// older names.
var classes = map[string]Kind{
	"AsciiType": KindASCII, "LongType": KindBigInt, "BytesType": KindBlob, "BooleanType": KindBoolean,
	"CounterColumnType": KindCounter, "SimpleDateType": KindDate, "DecimalType": KindDecimal, "DoubleType": KindDouble,
	"DurationType": KindDuration, "FloatType": KindFloat, "InetAddressType": KindInet, "Int32Type": KindInt,
	"ShortType": KindSmallInt, "UTF8Type": KindText, "TimeType": KindTime, "TimestampType": KindTimestamp,
	"DateType": KindTimestamp, "TimeUUIDType": KindTimeUUID, "LegacyTimeUUIDType": KindTimeUUID, "ByteType": KindTinyInt,
	"UUIDType": KindUUID, "IntegerType": KindVarInt,
}

// classArguments are the classes that have types as arguments, with their number; 0 is one
// or more.
var classArguments = map[string]int{"ListType": 1, "SetType": 1, "MapType": 2, "TupleType": 0, "FrozenType": 1, "ReversedType": 1}

// otherClasses are classes of Cassandra whose types have no name in CQL.
var otherClasses = map[string]bool{
	"CompositeType": true, "DynamicCompositeType": true, "EmptyType": true, "LexicalUUIDType": true, "PartitionerDefinedOrder": true,
	"ColumnToCollectionType": true, "UserType": true, "VectorType": true,
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
