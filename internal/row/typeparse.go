package row

import (
	"fmt"
	"strconv"
	"strings"
)

// typeDepthMax bounds the nesting of a type that ParseType or DecodeType
// reads.
const typeDepthMax = 64

// ParseType parses a type in CQL. It calls udt for names that are not native
// types; keyspace is empty if the text does not name one. The callback returns
// the multi-cell type, which ParseType freezes where the text says so. Parts
// keep the form that the text gives them, but everything inside frozen<...>,
// tuples and vectors is frozen. Native types and the words list, set, map,
// tuple, vector and frozen are recognized in any case. A text in quotes is the name of
// a class of Cassandra, such as 'org.apache.cassandra.db.marshal.Int32Type'.
//
// ParseType checks the syntax. It does not check where a type is allowed.
func ParseType(text string, udt func(keyspace, name string) (*Type, error)) (*Type, error) {
	p := typeParser{text: text, udt: udt}
	t, err := p.parse(0)
	if err != nil {
		return nil, err
	}
	if p.skip(); p.pos < len(p.text) {
		return nil, p.fail()
	}
	return t, nil
}

type typeParser struct {
	text string
	pos  int
	udt  func(keyspace, name string) (*Type, error)
}

func (p *typeParser) fail() error {
	return &Error{Reason: BadType, Text: fmt.Sprintf("Invalid type %q at position %d", p.text, p.pos)}
}

func (p *typeParser) skip() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

// take skips blanks and consumes c if it is next.
func (p *typeParser) take(c byte) bool {
	p.skip()
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

// name reads an identifier or a quoted name.
func (p *typeParser) name() (name string, quoted bool, err error) {
	p.skip()
	start := p.pos
	if p.pos < len(p.text) && p.text[p.pos] == '"' {
		var b strings.Builder
		for p.pos++; p.pos < len(p.text); p.pos++ {
			if p.text[p.pos] == '"' {
				if p.pos++; p.pos >= len(p.text) || p.text[p.pos] != '"' {
					return b.String(), true, nil
				}
			}
			b.WriteByte(p.text[p.pos])
		}
		return "", true, p.fail()
	}
	for p.pos < len(p.text) && isWord(p.text[p.pos]) {
		p.pos++
	}
	if p.pos == start {
		return "", false, p.fail()
	}
	return strings.ToLower(p.text[start:p.pos]), false, nil
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

func (p *typeParser) parse(depth int) (*Type, error) {
	if depth > typeDepthMax {
		return nil, p.fail()
	}
	if p.take('\'') {
		return p.class()
	}
	name, quoted, err := p.name()
	if err != nil {
		return nil, err
	}
	if p.take('.') {
		second, _, err := p.name()
		if err != nil {
			return nil, err
		}
		return p.user(name, second)
	}
	if !quoted {
		if t := NativeNamed(name); t != nil {
			return t, nil
		}
		if p.take('<') {
			return p.composed(name, depth)
		}
	}
	return p.user("", name)
}

// class reads the rest of a class in quotes. No class has a quote in its name.
func (p *typeParser) class() (*Type, error) {
	end := strings.IndexByte(p.text[p.pos:], '\'')
	if end < 0 {
		return nil, p.fail()
	}
	t, err := parseClass(p.text[p.pos : p.pos+end])
	p.pos += end + 1
	return t, err
}

func (p *typeParser) user(keyspace, name string) (*Type, error) {
	if p.udt == nil {
		return nil, &Error{Reason: BadType, Text: "Unknown type " + QuoteName(name)}
	}
	return p.udt(keyspace, name)
}

// composed reads the arguments of a type and its closing bracket.
func (p *typeParser) composed(name string, depth int) (*Type, error) {
	var parts []*Type
	dimension := 0
	for {
		p.skip()
		if name == "vector" && len(parts) == 1 {
			start := p.pos
			for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
				p.pos++
			}
			n, err := strconv.ParseUint(p.text[start:p.pos], 10, 31)
			if err != nil || n == 0 || !p.take('>') {
				return nil, p.fail()
			}
			dimension = int(n)
			break
		}
		part, err := p.parse(depth + 1)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		if p.take('>') {
			break
		}
		if !p.take(',') {
			return nil, p.fail()
		}
	}
	switch {
	case name == "list" && len(parts) == 1:
		return ListOf(parts[0]), nil
	case name == "set" && len(parts) == 1:
		return SetOf(parts[0]), nil
	case name == "map" && len(parts) == 2:
		return MapOf(parts[0], parts[1]), nil
	case name == "tuple":
		return TupleOf(parts...), nil
	case name == "vector" && dimension > 0:
		return VectorOf(parts[0], dimension), nil
	case name == "frozen" && len(parts) == 1:
		if parts[0].Native() {
			return nil, &Error{Reason: BadType, Text: "frozen<> is only allowed on collections, tuples, and user-defined types (got " + parts[0].String() + ")"}
		}
		return parts[0].Freeze(), nil
	}
	return nil, p.fail()
}
