package value

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DepthMax is how deeply arrays and objects may be nested in a JSON text. It
// bounds the stack that a request can use.
const DepthMax = 128

// DeepMax is the nesting limit of [ParseDeep].
const DeepMax = keyDepthMax

// SyntaxError says where and why a text is not acceptable JSON.
type SyntaxError struct {
	// Offset is the number of bytes before the error.
	Offset int
	// Message describes the error without its position.
	Message string
	// Deep is true if arrays and objects are nested too deeply.
	Deep bool
}

// Error returns the message with its position.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("JSON at byte %d: %s", e.Offset, e.Message)
}

// Parse parses one JSON text as defined by RFC 8259, in UTF-8 without a byte
// order mark. It copies data once; the strings of the value share that copy.
//
// If several members have the same name, the last value wins and takes the
// position of the first. An integer of 64 bits stays exact; every other number
// becomes the nearest double. The escape of half a surrogate pair becomes
// U+FFFD. The error is a *SyntaxError for a number too large for a double,
// invalid UTF-8, more than [DepthMax] levels of nesting, and any text after the
// value.
func Parse(data []byte) (Value, error) {
	return ParseString(string(data))
}

// ParseString is [Parse] without the copy: the strings of the value share text.
func ParseString(text string) (Value, error) { return parse(parser{text: text, depthMax: DepthMax}) }

// ParseLenient is [ParseString] as the functions of the query language that convert
// strings do it in the service: numbers may have leading zeros, and one with an exponent
// is a [Double].
func ParseLenient(text string) (Value, error) {
	return parse(parser{text: text, depthMax: DepthMax, lenient: true})
}

// ParseDeep is [ParseString] for texts that Decan itself produces, such as the
// rows of a query, in which documents are nested in other values. It accepts up
// to [DeepMax] levels, as many as [DecodeKey].
func ParseDeep(text string) (Value, error) { return parse(parser{text: text, depthMax: DeepMax}) }

func parse(p parser) (Value, error) {
	// Space on the stack for the open arrays and objects of an ordinary
	// document.
	var values [32]Value
	var members [32]Member
	open := stacks{values: stack[Value]{room: values[:]}, members: stack[Member]{room: members[:]}}
	p.skipSpace()
	v, err := p.value(&open, 0)
	if err != nil {
		return Value{}, err
	}
	p.skipSpace()
	if p.pos < len(p.text) {
		return Value{}, p.errorf(p.pos, "%s after the value", p.here())
	}
	return v, nil
}

// parser parses text in one pass.
type parser struct {
	text    string
	pos     int    // the next byte to read
	scratch []byte // for strings with escapes

	depthMax int
	lenient  bool // see ParseLenient
}

// stacks hold the elements of the arrays and objects that are still open, so
// that a finished one is allocated once with its exact size. They are separate
// from the parser, and push never stores an old room again; only then can the
// compiler keep the first rooms in the stack frame of parse.
type stacks struct {
	values  stack[Value]
	members stack[Member]
}

type stack[T any] struct {
	room []T
	size int
}

func (s *stack[T]) push(x T) {
	if s.size == len(s.room) {
		grown := make([]T, 2*s.size)
		copy(grown, s.room)
		s.room = grown
	}
	s.room[s.size] = x
	s.size++
}

// above returns the elements that were pushed since the stack had the given
// size.
func (s *stack[T]) above(size int) []T { return s.room[size:s.size] }

// value parses the value at pos, nested in depth arrays and objects.
func (p *parser) value(open *stacks, depth int) (Value, error) {
	if p.pos >= len(p.text) {
		return Value{}, p.unexpected("a value")
	}
	switch c := p.text[p.pos]; c {
	case '"':
		s, err := p.string()
		return String(s), err
	case '{':
		return p.object(open, depth+1)
	case '[':
		return p.array(open, depth+1)
	case 't':
		return Bool(true), p.word("true")
	case 'f':
		return Bool(false), p.word("false")
	case 'n':
		return Null(), p.word("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.number()
	}
	return Value{}, p.unexpected("a value")
}

func (p *parser) object(open *stacks, depth int) (Value, error) {
	if depth > p.depthMax {
		return Value{}, p.tooDeep()
	}
	p.pos++
	p.skipSpace()
	if p.next('}') {
		return Value{kind: KindObject}, nil
	}
	base := open.members.size
	for {
		if p.pos >= len(p.text) || p.text[p.pos] != '"' {
			return Value{}, p.unexpected("a member name")
		}
		name, err := p.string()
		if err != nil {
			return Value{}, err
		}
		p.skipSpace()
		if !p.next(':') {
			return Value{}, p.unexpected("':'")
		}
		p.skipSpace()
		v, err := p.value(open, depth)
		if err != nil {
			return Value{}, err
		}
		open.members.push(Member{name, v})
		p.skipSpace()
		if p.next('}') {
			break
		}
		if !p.next(',') {
			return Value{}, p.unexpected("',' or '}'")
		}
		p.skipSpace()
	}
	kept := distinct(open.members.above(base))
	open.members.size = base
	members := make([]Member, len(kept))
	copy(members, kept)
	return object(members), nil
}

func (p *parser) array(open *stacks, depth int) (Value, error) {
	if depth > p.depthMax {
		return Value{}, p.tooDeep()
	}
	p.pos++
	p.skipSpace()
	if p.next(']') {
		return Value{kind: KindArray}, nil
	}
	base := open.values.size
	for {
		v, err := p.value(open, depth)
		if err != nil {
			return Value{}, err
		}
		open.values.push(v)
		p.skipSpace()
		if p.next(']') {
			break
		}
		if !p.next(',') {
			return Value{}, p.unexpected("',' or ']'")
		}
		p.skipSpace()
	}
	top := open.values.above(base)
	items := make([]Value, len(top))
	copy(items, top)
	open.values.size = base
	return Array(items), nil
}

// number parses a number. It computes integers of up to 18 digits, which nearly
// all are, while scanning; strconv parses the others.
func (p *parser) number() (Value, error) {
	start := p.pos
	negative := p.next('-')
	first := p.pos
	n := int64(0)
	for p.pos < len(p.text) {
		d := p.text[p.pos] - '0'
		if d > 9 {
			break
		}
		n = n*10 + int64(d) // may overflow; it is not used then
		p.pos++
	}
	digits := p.pos - first
	if digits == 0 {
		return Value{}, p.unexpected("a digit")
	}
	if digits > 1 && p.text[first] == '0' && !p.lenient {
		return Value{}, p.errorf(first, "a number with a leading zero")
	}
	integral := true
	if p.next('.') {
		integral = false
		if !p.digits() {
			return Value{}, p.unexpected("a digit")
		}
	}
	exponent := p.next('e') || p.next('E')
	if exponent {
		integral = false
		if !p.next('+') {
			p.next('-')
		}
		if !p.digits() {
			return Value{}, p.unexpected("a digit")
		}
	}
	if integral && digits <= 18 {
		if negative {
			n = -n
		}
		return Int(n), nil
	}
	token := p.text[start:p.pos]
	if integral {
		if i, err := strconv.ParseInt(token, 10, 64); err == nil {
			return Int(i), nil
		}
	}
	f, err := strconv.ParseFloat(token, 64)
	if err != nil { // the syntax is valid, so the number is out of range
		return Value{}, p.errorf(start, "a number too large for a double")
	}
	if exponent && p.lenient {
		return Double(f), nil
	}
	return Number(f), nil
}

// digits skips digits and reports whether there was at least one.
func (p *parser) digits() bool {
	start := p.pos
	for p.pos < len(p.text) && p.text[p.pos]-'0' <= 9 {
		p.pos++
	}
	return p.pos > start
}

// word parses the literal name w.
func (p *parser) word(w string) error {
	if !strings.HasPrefix(p.text[p.pos:], w) {
		return p.errorf(p.pos, "an unknown word")
	}
	p.pos += len(w)
	return nil
}

// next skips the byte c if it is next, and reports whether it was.
func (p *parser) next(c byte) bool {
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *parser) skipSpace() {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\n', '\r', '\t':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) errorf(offset int, format string, args ...any) error {
	return &SyntaxError{Offset: offset, Message: fmt.Sprintf(format, args...)}
}

func (p *parser) unexpected(want string) error {
	return p.errorf(p.pos, "%s where %s is expected", p.here(), want)
}

func (p *parser) tooDeep() error {
	return &SyntaxError{Offset: p.pos, Message: fmt.Sprintf("more than %d nested arrays and objects", p.depthMax), Deep: true}
}

// here describes the character at pos.
func (p *parser) here() string {
	if p.pos >= len(p.text) {
		return "the end"
	}
	r, n := utf8.DecodeRuneInString(p.text[p.pos:])
	if r == utf8.RuneError && n == 1 {
		return fmt.Sprintf("byte 0x%02x", p.text[p.pos])
	}
	return strconv.QuoteRune(r)
}
