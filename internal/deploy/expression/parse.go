// Package expression is the expression language of Resource Manager templates: a parser
// and an evaluator of strings such as [concat('a', parameters('b'))].
//
// An expression may use values that are known only while a template is deployed, such as
// reference(id). Its value is then an [*Unknown]: the expression with everything known
// already reduced, which [Resolve] evaluates later. Results and messages are those of the
// vendor's engine; testdata holds what that engine answered.
//
// The package reads no clock, no file and no network: what an expression may see comes
// with [Env]. Depth, sizes and work are bounded ([DepthMax], [LengthMax], [WeightMax],
// [Budget]).
//
// Page: docs/deploy.md
package expression

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

// Limits of one expression.
const (
	// LengthMax is the length of an expression in characters, as documented by the vendor.
	LengthMax = 24576
	// DepthMax is how deeply calls and indexes may be nested.
	DepthMax = 200
	// WeightMax is the largest weight of a value (see [jsonc.Weight]): about 8 MB of text.
	WeightMax = 1 << 20
)

// Expr is a node of a parsed expression: a [Literal], a [*Call] or a [*Failure].
type Expr interface{ append(out []byte) []byte }

// Literal is a value.
type Literal struct{ Value any }

// Call is a function call and what follows it.
type Call struct {
	Namespace string // Of user functions, else empty.
	Name      string
	Args      []Expr
	Path      []Access
}

// Access is a .member or an [index] after a call.
type Access struct {
	Name  string // Of a member, if Index is nil.
	Index Expr
}

// Failure is an expression whose evaluation failed in a branch that may not be needed.
type Failure struct{ Err error }

func (l Literal) append(out []byte) []byte {
	switch v := l.Value.(type) {
	case nil:
		return append(out, "null()"...)
	case bool:
		return append(strconv.AppendBool(out, v), "()"...)
	case int64:
		return strconv.AppendInt(out, v, 10)
	case string:
		return append(append(append(out, '\''), strings.ReplaceAll(v, "'", "''")...), '\'')
	case *jsonc.Array:
		return (&Call{Name: "createArray", Args: literals(v.Items())}).append(out)
	case *jsonc.Object:
		var args []any
		for _, m := range v.Members() {
			args = append(args, m.Name, m.Value)
		}
		return (&Call{Name: "createObject", Args: literals(args)}).append(out)
	case *Unknown:
		return v.Expr.append(out)
	}
	return append(Literal{jsonc.Text(l.Value)}.append(append(out, "json("...)), ')')
}

func literals(values []any) []Expr {
	out := make([]Expr, len(values))
	for i, v := range values {
		out[i] = expr(v)
	}
	return out
}

func (c *Call) append(out []byte) []byte {
	if c.Namespace != "" {
		out = append(append(out, c.Namespace...), '.')
	}
	out = append(append(out, c.Name...), '(')
	for i, arg := range c.Args {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = arg.append(out)
	}
	out = append(out, ')')
	for _, access := range c.Path {
		if access.Index == nil {
			out = append(append(out, '.'), access.Name...)
			continue
		}
		out = append(access.Index.append(append(out, '[')), ']')
	}
	return out
}

func (f *Failure) append(out []byte) []byte {
	return append(Literal{f.Err.Error()}.append(append(out, "fail("...)), ')')
}

// Unknown is a value that is known only while a template is deployed.
type Unknown struct{ Expr Expr }

// Unknown implements [jsonc.Partial].
func (*Unknown) Unknown() {}

// String returns the reduced expression, in its brackets.
func (u *Unknown) String() string { return string(append(u.Expr.append([]byte{'['}), ']')) }

// expr returns the expression of a value.
func expr(v any) Expr {
	if u, is := v.(*Unknown); is {
		return u.Expr
	}
	return Literal{v}
}

// Error is an expression that is not valid, or whose evaluation failed. The text is that
// of the vendor's engine.
type Error string

// Error returns the message.
func (e Error) Error() string { return string(e) }

func errorf(format string, args ...any) error { return Error(fmt.Sprintf(format, args...)) }

// usage ends most messages.
const usage = " Please see https://aka.ms/arm-functions for usage details."

// Is reports whether a string of a template is an expression, and returns the
// expression without its brackets, or the string that it stands for otherwise: a string
// that begins with two brackets stands for one with a bracket less.
func Is(text string) (inside string, is bool) {
	if len(text) < 2 || text[0] != '[' || text[len(text)-1] != ']' {
		return text, false
	}
	if strings.HasPrefix(text, "[[") {
		return text[1:], false
	}
	return text[1 : len(text)-1], true
}

// Parse parses an expression without its brackets.
func Parse(text string) (Expr, error) {
	if units := utf16Len(text); units > LengthMax {
		return nil, errorf("The language expression length limit exceeded. Limit: '%d' and actual: '%d'.%s", LengthMax, units, usage)
	}
	p := &parser{text: text}
	if err := p.next(); err != nil {
		return nil, err
	}
	e, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.token != endOfData {
		return nil, p.expected(endOfData)
	}
	return e, nil
}

// token is a kind of token, under the vendor's name.
type token string

const (
	endOfData    token = "EndOfData"
	identifier   token = "Identifier"
	literal      token = "Literal"
	integer      token = "Integer"
	leftParen    token = "LeftParenthesis"
	rightParen   token = "RightParenthesis"
	leftBracket  token = "LeftSquareBracket"
	rightBracket token = "RightSquareBracket"
	comma        token = "Comma"
	dot          token = "Dot"
)

// parser has one token of look-ahead.
type parser struct {
	text   string
	at     int
	token  token
	string string // Of a literal or identifier.
	number int64
}

func (p *parser) expected(want token) error {
	return errorf("Unable to parse language expression '%s': expected token '%s' and actual '%s'.", p.text, want, p.token)
}

// position returns an offset in UTF-16 units.
func (p *parser) position(at int) int { return utf16Len(p.text[:at]) }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// next reads a token.
func (p *parser) next() error {
	for p.at < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[p.at:])
		if r != ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\u00A0' {
			break
		}
		p.at += size
	}
	if p.at >= len(p.text) {
		p.token = endOfData
		return nil
	}
	start := p.at
	switch c := p.text[p.at]; {
	case strings.IndexByte("()[],.", c) >= 0:
		p.at++
		p.token = map[byte]token{'(': leftParen, ')': rightParen, '[': leftBracket, ']': rightBracket, ',': comma, '.': dot}[c]
	case c == '\'':
		return p.quoted()
	case isLetter(c):
		for p.at < len(p.text) && (isLetter(p.text[p.at]) || isDigit(p.text[p.at])) {
			p.at++
		}
		p.token, p.string = identifier, p.text[start:p.at]
	case isDigit(c) || c == '-' || c == '+':
		return p.digits()
	default:
		return p.unexpected()
	}
	return nil
}

func (p *parser) unexpected() error {
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return errorf("The language expression '%s' is not valid: the string character '%c' at position '%d' is not expected.", p.text, r, p.position(p.at))
}

func (p *parser) quoted() error {
	start := p.at
	for p.at++; ; p.at++ {
		end := strings.IndexByte(p.text[p.at:], '\'')
		if end < 0 {
			p.at = start
			return p.unexpected()
		}
		p.at += end + 1
		if p.at >= len(p.text) || p.text[p.at] != '\'' {
			p.token, p.string = literal, strings.ReplaceAll(p.text[start+1:p.at-1], "''", "'")
			return nil
		}
	}
}

func (p *parser) digits() error {
	start := p.at
	for p.at++; p.at < len(p.text) && isDigit(p.text[p.at]); p.at++ {
	}
	text := p.text[start:p.at]
	if p.at < len(p.text) && p.text[p.at] == '.' {
		return errorf("The language expression '%s' at position '%d' is not valid: float point numbers are not supported.", p.text, p.position(start))
	}
	if p.at < len(p.text) && isLetter(p.text[p.at]) {
		return p.unexpected()
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return errorf("The language expression '%s' is not valid: the value '%s' at position '%d' cannot be converted to number.", p.text, text, p.position(start))
	}
	p.token, p.number = integer, n
	return nil
}

func (p *parser) expression(depth int) (Expr, error) {
	if depth > DepthMax {
		return nil, errorf("The language expression is not valid: calls are nested more than %d deep.", DepthMax)
	}
	switch p.token {
	case literal:
		value := Literal{p.string}
		return value, p.next()
	case integer:
		value := Literal{p.number}
		return value, p.next()
	case identifier:
		return p.call(depth)
	}
	return nil, p.expected(identifier)
}

func (p *parser) call(depth int) (Expr, error) {
	call := &Call{Name: p.string}
	if err := p.next(); err != nil {
		return nil, err
	}
	for p.token == dot {
		if err := p.next(); err != nil {
			return nil, err
		}
		if p.token != identifier {
			return nil, p.expected(identifier)
		}
		call.Namespace = strings.TrimPrefix(call.Namespace+"."+call.Name, ".")
		call.Name = p.string
		if err := p.next(); err != nil {
			return nil, err
		}
	}
	if p.token != leftParen {
		return nil, p.expected(leftParen)
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	for first := true; p.token != rightParen; first = false {
		if !first {
			if p.token != comma {
				return nil, p.expected(rightParen)
			}
			if err := p.next(); err != nil {
				return nil, err
			}
		}
		arg, err := p.expression(depth + 1)
		if err != nil {
			return nil, err
		}
		call.Args = append(call.Args, arg)
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	return call, p.path(call, depth)
}

// path reads what follows a call.
func (p *parser) path(call *Call, depth int) error {
	for {
		switch p.token {
		case dot:
			if err := p.member(call); err != nil {
				return err
			}
		case leftBracket:
			if err := p.next(); err != nil {
				return err
			}
			index, err := p.expression(depth + 1)
			if err != nil {
				return err
			}
			if p.token != rightBracket {
				return p.expected(rightBracket)
			}
			call.Path = append(call.Path, Access{Index: index})
		default:
			return nil
		}
		if err := p.next(); err != nil {
			return err
		}
	}
}

func (p *parser) member(call *Call) error {
	if err := p.next(); err != nil {
		return err
	}
	if p.token != identifier {
		return p.expected(identifier)
	}
	call.Path = append(call.Path, Access{Name: p.string})
	return nil
}

// utf16Len returns the length of a string in UTF-16 units, in which the language counts.
func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}
