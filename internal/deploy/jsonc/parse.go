package jsonc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// DepthMax is how deeply arrays and objects may be nested. Compiled modules, which are
// templates inside templates, use about 12 levels each.
const DepthMax = 256

// SizeMax is the limit of a text in bytes. The service accepts templates of 4 MB.
const SizeMax = 4 << 20

// Node is a value with its place in the text.
type Node struct {
	// Value is the scalar, or nil for an array or object.
	Value any
	// Items are the items of an array.
	Items []*Node
	// Fields are the members of an object. A name occurs once; the last value holds.
	Fields []Field

	kind kind

	// Line and Column are the place: of an array or object its opening bracket, of a
	// scalar its last character. Both begin with 1, and a column counts UTF-16 units,
	// as in the messages of the service.
	Line, Column int

	// File is the file that the place is in, if the user of the package sets it.
	File string
}

type kind byte

const (
	scalar kind = iota
	array
	object
)

// Field is a member of an object in the text.
type Field struct {
	Name string
	Node *Node
}

// IsArray reports whether a node is an array.
func (n *Node) IsArray() bool { return n != nil && n.kind == array }

// IsObject reports whether a node is an object.
func (n *Node) IsObject() bool { return n != nil && n.kind == object }

// IsNull reports whether a node is absent or null.
func (n *Node) IsNull() bool { return n == nil || n.kind == scalar && n.Value == nil }

// Get returns a member, whose name may differ in case, or nil.
func (n *Node) Get(name string) *Node {
	if !n.IsObject() {
		return nil
	}
	var folded *Node
	for _, field := range n.Fields {
		if field.Name == name {
			return field.Node
		}
		if folded == nil && strings.EqualFold(field.Name, name) {
			folded = field.Node
		}
	}
	return folded
}

// Text returns the string of a node.
func (n *Node) Text() (text string, ok bool) {
	if n == nil {
		return "", false
	}
	text, ok = n.Value.(string)
	return text, ok
}

// Bool reports whether a node is true.
func (n *Node) Bool() bool { return n != nil && n.Value == true }

// Int returns the integer of a node.
func (n *Node) Int() (value int64, ok bool) {
	if n == nil {
		return 0, false
	}
	value, ok = n.Value.(int64)
	return value, ok
}

// Plain returns the value without places.
func (n *Node) Plain() any {
	if n == nil {
		return nil
	}
	switch n.kind {
	case array:
		items := make([]any, len(n.Items))
		for i, item := range n.Items {
			items[i] = item.Plain()
		}
		return NewArray(items...)
	case object:
		o := NewObject()
		for _, field := range n.Fields {
			o.Set(field.Name, field.Node.Plain())
		}
		return o
	}
	return n.Value
}

// Error is a text that is not JSON.
type Error struct {
	Line, Column int // The place of the first unexpected character, from 1.
	Message      string
}

// Error returns the place and the message.
func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Parse reads a text. In addition to JSON it accepts // and /* */ comments, strings in
// single quotes, line ends in strings, names without quotes, a comma before a closing
// bracket, and a byte order mark. The error is an [*Error].
func Parse(text string) (*Node, error) {
	p := &parser{text: text, line: 1}
	if len(text) > SizeMax {
		return nil, &Error{1, 1, fmt.Sprintf("the text has %d bytes; the limit is %d", len(text), SizeMax)}
	}
	p.text = strings.TrimPrefix(p.text, "\uFEFF")
	node, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if err := p.blanks(); err != nil {
		return nil, err
	}
	if p.at < len(p.text) {
		return nil, p.unexpected("the end of the text")
	}
	return node, nil
}

// parser is a position in a text.
type parser struct {
	text  string
	at    int
	line  int
	start int // Where the line begins.
}

// column returns the number of UTF-16 units of the line before the position.
func (p *parser) column() int {
	units := 0
	for _, r := range p.text[p.start:p.at] {
		units += max(utf16.RuneLen(r), 1)
	}
	return units
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{p.line, p.column() + 1, fmt.Sprintf(format, args...)}
}

// unexpected returns the error for the character at the position.
func (p *parser) unexpected(want string) error {
	if p.at >= len(p.text) {
		return p.fail("the text ends where %s is expected", want)
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return p.fail("%q is not expected here; %s is", r, want)
}

// newline notes that the line ends with the character before the position.
func (p *parser) newline() {
	p.line++
	p.start = p.at
}

// blanks skips blanks and comments.
func (p *parser) blanks() error {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '\n':
			p.at++
			p.newline()
		case c == ' ' || c == '\t' || c == '\r':
			p.at++
		case strings.HasPrefix(p.text[p.at:], "\u00A0"):
			p.at += len("\u00A0")
		case strings.HasPrefix(p.text[p.at:], "//"):
			if end := strings.IndexByte(p.text[p.at:], '\n'); end >= 0 {
				p.at += end
			} else {
				p.at = len(p.text)
			}
		case strings.HasPrefix(p.text[p.at:], "/*"):
			end := strings.Index(p.text[p.at+2:], "*/")
			if end < 0 {
				return p.fail("the comment has no */")
			}
			for end += p.at + 4; p.at < end; {
				p.at++
				if p.text[p.at-1] == '\n' {
					p.newline()
				}
			}
		default:
			return nil
		}
	}
	return nil
}

// here completes a node with the position after its last read character.
func (p *parser) here(n *Node) *Node {
	n.Line, n.Column = p.line, p.column()
	return n
}

func (p *parser) value(depth int) (*Node, error) {
	if err := p.blanks(); err != nil {
		return nil, err
	}
	if p.at >= len(p.text) {
		return nil, p.unexpected("a value")
	}
	if depth >= DepthMax {
		return nil, p.fail("arrays and objects are nested more than %d deep", DepthMax)
	}
	switch c := p.text[p.at]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"' || c == '\'':
		text, err := p.quoted()
		if err != nil {
			return nil, err
		}
		return p.here(&Node{Value: text}), nil
	case c == '-' || c == '+' || c >= '0' && c <= '9' || c == '.':
		return p.number()
	}
	word := p.word()
	var value any
	switch word {
	case "true":
		value = true
	case "false":
		value = false
	case "null":
	default:
		return nil, p.unexpected("a value")
	}
	p.at += len(word)
	return p.here(&Node{Value: value}), nil
}

// word returns the letters, digits, _ and $ at the position.
func (p *parser) word() string {
	end := p.at
	for end < len(p.text) {
		c := p.text[end]
		if c != '_' && c != '$' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			break
		}
		end++
	}
	return p.text[p.at:end]
}

func (p *parser) object(depth int) (*Node, error) {
	p.at++
	node := p.here(&Node{kind: object})
	seen := map[string]int{}
	for {
		if err := p.blanks(); err != nil {
			return nil, err
		}
		if p.at < len(p.text) && p.text[p.at] == '}' {
			p.at++
			return node, nil
		}
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		if err := p.blanks(); err != nil {
			return nil, err
		}
		if p.at >= len(p.text) || p.text[p.at] != ':' {
			return nil, p.unexpected("a colon")
		}
		p.at++
		value, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if i, twice := seen[name]; twice {
			node.Fields[i].Node = value
		} else {
			seen[name] = len(node.Fields)
			node.Fields = append(node.Fields, Field{name, value})
		}
		if more, err := p.comma('}'); err != nil || !more {
			return node, err
		}
	}
}

func (p *parser) array(depth int) (*Node, error) {
	p.at++
	node := p.here(&Node{kind: array})
	for {
		if err := p.blanks(); err != nil {
			return nil, err
		}
		if p.at < len(p.text) && p.text[p.at] == ']' {
			p.at++
			return node, nil
		}
		item, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		node.Items = append(node.Items, item)
		if more, err := p.comma(']'); err != nil || !more {
			return node, err
		}
	}
}

// comma reads a comma, after which there is more, or the closing bracket.
func (p *parser) comma(bracket byte) (more bool, err error) {
	if err := p.blanks(); err != nil {
		return false, err
	}
	if p.at < len(p.text) {
		switch p.text[p.at] {
		case ',':
			p.at++
			return true, nil
		case bracket:
			p.at++
			return false, nil
		}
	}
	return false, p.unexpected("a comma or " + string(bracket))
}

func (p *parser) name() (string, error) {
	if p.at < len(p.text) && (p.text[p.at] == '"' || p.text[p.at] == '\'') {
		return p.quoted()
	}
	word := p.word()
	if word == "" {
		return "", p.unexpected("a name")
	}
	p.at += len(word)
	return word, nil
}

func (p *parser) number() (*Node, error) {
	end := p.at + 1
	for end < len(p.text) && strings.IndexByte("+-.0123456789eE", p.text[end]) >= 0 {
		end++
	}
	text := strings.TrimPrefix(p.text[p.at:end], "+")
	var value any
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, p.fail("%s is not a number", text)
		}
		value = f
	} else if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		value = i
	} else if strings.Trim(strings.TrimPrefix(text, "-"), "0123456789") == "" && errors.Is(err, strconv.ErrRange) {
		digits, negative := strings.CutPrefix(text, "-")
		digits = strings.TrimLeft(digits, "0")
		if negative {
			digits = "-" + digits
		}
		value = Big(digits)
	} else {
		return nil, p.fail("%s is not a number", text)
	}
	p.at = end
	if next := p.word(); next != "" {
		return nil, p.unexpected("the end of a number")
	}
	return p.here(&Node{Value: value}), nil
}

// quoted reads a string with its quotes. Line ends in it are part of it.
func (p *parser) quoted() (string, error) {
	quote := p.text[p.at]
	opening := *p
	p.at++
	var out strings.Builder
	begun := p.at
	for p.at < len(p.text) {
		c := p.text[p.at]
		switch {
		case c == quote:
			out.WriteString(p.text[begun:p.at])
			p.at++
			return strings.ToValidUTF8(out.String(), "\uFFFD"), nil
		case c == '\\':
			out.WriteString(p.text[begun:p.at])
			if err := p.escape(&out); err != nil {
				return "", err
			}
			begun = p.at
		case c == '\n':
			p.at++
			p.newline()
		default:
			p.at++
		}
	}
	return "", opening.fail("the string has no closing quote")
}

// escape reads an escape sequence.
func (p *parser) escape(out *strings.Builder) error {
	const letters, meanings = `"'\/bfnrt`, "\"'\\/\b\f\n\r\t"
	if p.at+1 >= len(p.text) {
		return p.fail("the string has no closing quote")
	}
	c := p.text[p.at+1]
	if i := strings.IndexByte(letters, c); i >= 0 {
		out.WriteByte(meanings[i])
		p.at += 2
		return nil
	}
	if c == '\n' { // A line that continues.
		p.at += 2
		p.newline()
		return nil
	}
	if c != 'u' {
		return p.fail("\\%c is not an escape sequence", c)
	}
	unit, ok := p.hex(p.at + 2)
	if !ok {
		return p.fail("\\u needs four hexadecimal digits")
	}
	p.at += 6
	r := rune(unit)
	if utf16.IsSurrogate(r) && strings.HasPrefix(p.text[p.at:], `\u`) {
		if low, ok := p.hex(p.at + 2); ok {
			if joined := utf16.DecodeRune(r, rune(low)); joined != utf8.RuneError {
				p.at += 6
				r = joined
			}
		}
	}
	out.WriteRune(r)
	return nil
}

func (p *parser) hex(at int) (unit uint64, ok bool) {
	if at+4 > len(p.text) {
		return 0, false
	}
	unit, err := strconv.ParseUint(p.text[at:at+4], 16, 32)
	return unit, err == nil
}
