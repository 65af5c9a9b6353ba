package partitionkey

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Parse parses a key in the form of the partition key header: a JSON array with
// one element per level. An empty array is the empty key. The elements {} and []
// are undefined. Numbers become doubles; a number too large for a double is an
// error. Half of a surrogate pair becomes U+FFFD.
//
// In strings, Parse also accepts the escapes of Go's quoting, because the Go
// client sends them; otherwise the text must be JSON. The error is an *Error.
//
// Parse does not check the key against a definition; [Definition.Check] does. A
// key with more than [LevelsMax] components fits no definition, so Parse keeps
// only one component beyond that limit.
func Parse(header string) (Key, error) {
	p := parser{text: header}
	components := p.array()
	if p.fault != "" {
		return Key{}, errorf("The partition key is not valid: %s (position %d).", p.fault, p.at)
	}
	return Key{components}, nil
}

// parser parses one header. It stops at the first fault; at is then its
// position.
type parser struct {
	text  string
	at    int
	fault string
}

// array parses the whole text.
func (p *parser) array() []Component {
	if !utf8.ValidString(p.text) {
		return p.fail("text that is not UTF-8")
	}
	if p.blanks(); !p.skip('[') {
		return p.fail("a JSON array is expected")
	}
	var components []Component
	if p.blanks(); !p.skip(']') {
		components = make([]Component, 0, LevelsMax)
		for more := true; more && p.fault == ""; {
			c := p.element()
			if len(components) <= LevelsMax {
				components = append(components, c)
			}
			more = p.separator()
		}
	}
	if p.blanks(); p.fault == "" && p.at < len(p.text) {
		return p.fail("text after the array")
	}
	return components
}

// separator reads the text after an element and reports whether another element
// follows.
func (p *parser) separator() bool {
	if p.blanks(); p.fault != "" || p.skip(']') {
		return false
	}
	if !p.skip(',') {
		p.fail("',' or ']' is expected")
	}
	return true
}

func (p *parser) element() Component {
	p.blanks()
	switch c := p.peek(); {
	case c == '"':
		return p.quoted()
	case c == '{':
		return p.undefined('}', "an object with content is not a partition key value")
	case c == '[':
		return p.undefined(']', "an array is not a partition key value")
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case p.word("null"):
		return Null()
	case p.word("false"):
		return Bool(false)
	case p.word("true"):
		return Bool(true)
	}
	p.fail("a string, number, boolean, null or {} is expected")
	return Component{}
}

// undefined parses an empty object or array.
func (p *parser) undefined(end byte, fault string) Component {
	start := p.at
	p.at++
	if p.blanks(); !p.skip(end) {
		p.at = start
		p.fail(fault)
	}
	return Undefined()
}

func (p *parser) number() Component {
	start := p.at
	p.skip('-')
	ok := p.skip('0') || p.digits()
	if p.skip('.') {
		ok = p.digits() && ok
	}
	if p.skip('e') || p.skip('E') {
		_ = p.skip('+') || p.skip('-')
		ok = p.digits() && ok
	}
	if !ok {
		p.fail("a number is not valid")
		return Component{}
	}
	f, err := strconv.ParseFloat(p.text[start:p.at], 64)
	if err != nil {
		p.at = start
		p.fail("a number is too large for a double")
	}
	return Number(f)
}

// digits skips all digits and reports whether there is at least one.
func (p *parser) digits() bool {
	start := p.at
	for c := p.peek(); '0' <= c && c <= '9'; c = p.peek() {
		p.at++
	}
	return p.at > start
}

func (p *parser) quoted() Component {
	p.at++
	// Most strings have no escape; they share the memory of the header.
	if i := strings.IndexAny(p.text[p.at:], `"\`); i >= 0 && p.text[p.at+i] == '"' {
		text := p.text[p.at : p.at+i]
		if hasControl(text) {
			p.fail("a string holds a control character that is not escaped")
			return Component{}
		}
		p.at += i + 1
		return Component{typ: TypeString, text: text}
	}
	var text []byte
	for {
		switch c := p.peek(); {
		case p.at == len(p.text):
			p.fail("a string is not closed")
			return Component{}
		case c == '"':
			p.at++
			return Component{typ: TypeString, text: string(text)}
		case c == '\\':
			if text = p.escape(text); p.fault != "" {
				return Component{}
			}
		case c < ' ':
			p.fail("a string holds a control character that is not escaped")
			return Component{}
		default:
			text = append(text, c)
			p.at++
		}
	}
}

// escape parses one escape sequence and appends its meaning.
func (p *parser) escape(text []byte) []byte {
	const short, meaning = `"\/bfnrtav`, "\"\\/\b\f\n\r\t\a\v"
	start := p.at
	p.at++
	c := p.peek()
	p.at++
	if i := strings.IndexByte(short, c); i >= 0 && p.at <= len(p.text) {
		return append(text, meaning[i])
	}
	switch c {
	case 'u':
		if r, ok := p.hex(4); ok {
			return utf8.AppendRune(text, p.pair(r))
		}
	case 'U':
		if r, ok := p.hex(8); ok && r <= utf8.MaxRune {
			return utf8.AppendRune(text, rune(r))
		}
	case 'x':
		// Go writes a byte that is not valid UTF-8 in this way. In the body,
		// Go's JSON encoder writes U+FFFD for it, and the key must be the same.
		if r, ok := p.hex(2); ok && r < utf8.RuneSelf {
			return append(text, byte(r))
		} else if ok {
			return utf8.AppendRune(text, utf8.RuneError)
		}
	}
	p.at = start
	p.fail("a string holds an escape that is not valid")
	return text
}

// pair completes the first half of a surrogate pair with the escape that
// follows. Without a second half it returns the first, for which AppendRune
// writes U+FFFD.
func (p *parser) pair(unit uint32) rune {
	first, start := rune(unit), p.at
	if utf16.IsSurrogate(first) && p.skip('\\') && p.skip('u') {
		if second, ok := p.hex(4); ok {
			if r := utf16.DecodeRune(first, rune(second)); r != utf8.RuneError {
				return r
			}
		}
	}
	p.at = start
	return first
}

// hex parses exactly n hexadecimal digits.
func (p *parser) hex(n int) (uint32, bool) {
	if p.at+n > len(p.text) {
		return 0, false
	}
	var v uint32
	for _, c := range []byte(p.text[p.at : p.at+n]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | uint32(c)
	}
	p.at += n
	return v, true
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' {
			return true
		}
	}
	return false
}

// peek returns the next byte, or 0 at the end of the text.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// skip reads the byte c if it is the next one.
func (p *parser) skip(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) word(w string) bool {
	if strings.HasPrefix(p.text[p.at:], w) {
		p.at += len(w)
		return true
	}
	return false
}

func (p *parser) blanks() {
	for p.skip(' ') || p.skip('\t') || p.skip('\n') || p.skip('\r') {
	}
}

// fail records the first fault. It returns nil, so that it can end a function
// that returns a list.
func (p *parser) fail(fault string) []Component {
	if p.fault == "" {
		p.fault = fault
	}
	return nil
}
