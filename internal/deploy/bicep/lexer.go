package bicep

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind int

const (
	kEOF kind = iota
	kNewLine
	kIdent
	kInt
	kString // a piece of a string; see token.last
	kPunct  // an operator or a bracket: token.text
	kBad    // not recognized; a finding exists
)

// token is one word of the source.
type token struct {
	span
	kind kind
	text string // identifiers, numbers and punctuation as written; strings without quotes and escapes
	// first and last say whether a piece of a string begins and ends it: between
	// two pieces is an expression.
	first, last bool
	bad         bool // a string with a finding
	raw         bool // a string of three quotes
}

// mode is one string that the lexer is inside of.
type mode struct {
	braces  int // open braces in the expression
	raw     bool
	dollars int // of a string of three quotes
}

type lexer struct {
	*report
	pos    int
	modes  []mode
	tokens []token
}

// lex cuts the source into tokens. The last one is kEOF.
func lex(r *report) []token {
	l := &lexer{report: r}
	if strings.HasPrefix(r.source, "\ufeff") {
		l.pos = len("\ufeff")
	}
	for {
		l.skipBlanks()
		t := l.next()
		l.tokens = append(l.tokens, t)
		if t.kind == kEOF {
			return l.tokens
		}
	}
}

func (l *lexer) peek(n int) byte {
	if l.pos+n < len(l.source) {
		return l.source[l.pos+n]
	}
	return 0
}

func isLineEnd(c byte) bool { return c == '\n' || c == '\r' }

// skipBlanks passes blanks, comments and directives, none of which is a token.
func (l *lexer) skipBlanks() {
	for l.pos < len(l.source) {
		rest := l.source[l.pos:]
		switch {
		case rest[0] == ' ' || rest[0] == '\t':
			l.pos++
		case strings.HasPrefix(rest, "//"):
			l.skipLine()
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				l.add(span{l.pos, l.pos}, "BCP002", "The multi-line comment at this location is not terminated. Terminate it with the */ character sequence.")
				l.pos = len(l.source)
				return
			}
			l.pos += 2 + end + 2
		case rest[0] == '#' && l.atLineStart() && (strings.HasPrefix(rest, "#disable-next-line") || strings.HasPrefix(rest, "#disable-diagnostics") || strings.HasPrefix(rest, "#restore-diagnostics")):
			l.skipLine()
		default:
			return
		}
	}
}

func (l *lexer) skipLine() {
	for l.pos < len(l.source) && !isLineEnd(l.source[l.pos]) {
		l.pos++
	}
}

func (l *lexer) atLineStart() bool {
	for i := l.pos - 1; i >= 0 && !isLineEnd(l.source[i]); i-- {
		if c := l.source[i]; c != ' ' && c != '\t' && c < utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// punctuation holds the operators, the longest first.
var punctuation = []string{
	"...", "&&", "||", "??", "==", "!=", "=~", "!~", "<=", ">=", "=>", "::", ".?", "[?",
	"{", "}", "(", ")", "[", "]", ",", ".", ":", "?", "!", "<", ">", "=", "+", "-", "*", "/", "%", "@", "|", "^",
}

func (l *lexer) next() token {
	start := l.pos
	if start >= len(l.source) {
		return token{span: span{start, start}, kind: kEOF}
	}
	c := l.source[start]
	switch {
	case isLineEnd(c):
		for l.pos < len(l.source) && isLineEnd(l.source[l.pos]) {
			l.pos++
		}
		// A string of one quote cannot hold a line end, not even in an expression.
		for len(l.modes) > 0 && !l.modes[len(l.modes)-1].raw {
			l.modes = l.modes[:len(l.modes)-1]
			l.add(span{start, l.pos}, "BCP004", "The string at this location is not terminated due to an unexpected new line character.")
		}
		return token{span: span{start, l.pos}, kind: kNewLine}
	case isLetter(c):
		for l.pos < len(l.source) && (isLetter(l.source[l.pos]) || isDigit(l.source[l.pos])) {
			l.pos++
		}
		return token{span: span{start, l.pos}, kind: kIdent, text: l.source[start:l.pos]}
	case isDigit(c):
		for l.pos < len(l.source) && isDigit(l.source[l.pos]) {
			l.pos++
		}
		return token{span: span{start, l.pos}, kind: kInt, text: l.source[start:l.pos]}
	case c == '\'':
		if strings.HasPrefix(l.source[start:], "'''") {
			l.pos += 3
			return l.rawPiece(start, 0, true)
		}
		l.pos++
		return l.piece(start, true)
	case c == '$':
		dollars := 1
		for l.peek(dollars) == '$' {
			dollars++
		}
		if strings.HasPrefix(l.source[start+dollars:], "'''") {
			l.pos += dollars + 3
			return l.rawPiece(start, dollars, true)
		}
	}
	if n := len(l.modes); n > 0 {
		top := &l.modes[n-1]
		switch c {
		case '{':
			top.braces++
		case '}':
			if top.braces == 0 {
				raw, dollars := top.raw, top.dollars
				l.modes = l.modes[:n-1]
				l.pos++
				if raw {
					return l.rawPiece(start, dollars, false)
				}
				return l.piece(start, false)
			}
			top.braces--
		}
	}
	for _, p := range punctuation {
		if strings.HasPrefix(l.source[start:], p) {
			l.pos += len(p)
			return token{span: span{start, l.pos}, kind: kPunct, text: p}
		}
	}
	_, size := utf8.DecodeRuneInString(l.source[start:])
	l.pos += size
	t := token{span: span{start, l.pos}, kind: kBad, text: l.source[start:l.pos]}
	if c == '"' {
		l.add(t.span, "BCP103", "The following token is not recognized: %q. Strings are defined using single quotes in bicep.", `"`)
	} else {
		l.add(t.span, "BCP001", "The following token is not recognized: \"%s\".", strings.ToValidUTF8(t.text, "?"))
	}
	return t
}

// piece reads a piece of a string of one quote: up to its end or to "${".
func (l *lexer) piece(start int, first bool) token {
	t := token{kind: kString, first: first}
	var text strings.Builder
	for {
		if l.pos >= len(l.source) || isLineEnd(l.source[l.pos]) {
			message := "The string at this location is not terminated due to an unexpected new line character."
			code := "BCP004"
			if l.pos >= len(l.source) {
				code, message = "BCP005", "The string at this location is not terminated. Complete the escape sequence and terminate the string with a single unescaped quote character."
			}
			l.add(span{start, l.pos}, code, "%s", message)
			t.bad, t.last = true, true
			break
		}
		c := l.source[l.pos]
		if c == '\'' {
			l.pos++
			t.last = true
			break
		}
		if c == '$' && l.peek(1) == '{' {
			l.pos += 2
			l.modes = append(l.modes, mode{})
			break
		}
		if c == '\\' {
			if s, size := escape(l.source[l.pos:]); size > 0 {
				text.WriteString(s)
				l.pos += size
				continue
			}
			if l.pos+1 < len(l.source) && !isLineEnd(l.source[l.pos+1]) {
				l.badEscape()
				t.bad = true
			}
			l.pos++
			continue
		}
		text.WriteByte(c)
		l.pos++
	}
	t.span = span{start, l.pos}
	t.text = text.String()
	return t
}

func (l *lexer) badEscape() {
	if l.source[l.pos+1] == 'u' {
		l.add(span{l.pos, l.pos + 2}, "BCP133", "The unicode escape sequence is not valid. Valid unicode escape sequences range from \\u{0} to \\u{10FFFF}.")
	} else {
		l.add(span{l.pos, l.pos + 2}, "BCP006", `The specified escape sequence is not recognized. Only the following escape sequences are allowed: "\$", "\'", "\\", "\n", "\r", "\t", "\u{...}".`)
	}
	_, size := utf8.DecodeRuneInString(l.source[l.pos+1:])
	l.pos += size
}

// escape reads an escape sequence at the start of s; size 0 means that it is none.
func escape(s string) (text string, size int) {
	if len(s) < 2 {
		return "", 0
	}
	switch s[1] {
	case 'n':
		return "\n", 2
	case 'r':
		return "\r", 2
	case 't':
		return "\t", 2
	case '\\', '\'':
		return s[1:2], 2
	case '$':
		if strings.HasPrefix(s[2:], "{") {
			return "${", 3
		}
		return "$", 2
	case 'u':
		end := strings.IndexByte(s[:min(len(s), 24)], '}')
		if end < 4 || s[2] != '{' {
			return "", 0
		}
		n, err := strconv.ParseUint(s[3:end], 16, 32)
		if err != nil || n > utf8.MaxRune {
			return "", 0
		}
		if utf16.IsSurrogate(rune(n)) {
			return surrogates(s, end+1, rune(n))
		}
		return string(rune(n)), end + 1
	}
	return "", 0
}

// surrogates reads the second half of a character that is written as two escapes.
func surrogates(s string, size int, high rune) (text string, n int) {
	rest := s[size:]
	end := strings.IndexByte(rest[:min(len(rest), 24)], '}')
	if !strings.HasPrefix(rest, "\\u{") || end < 0 {
		return "", 0
	}
	low, err := strconv.ParseUint(rest[3:end], 16, 32)
	if err != nil || low > utf8.MaxRune {
		return "", 0
	}
	r := utf16.DecodeRune(high, rune(low))
	if r == utf8.RuneError {
		return "", 0
	}
	return string(r), size + end + 1
}

// rawPiece reads a piece of a string of three quotes. With dollars > 0, that
// many dollars and a brace begin an expression.
func (l *lexer) rawPiece(start, dollars int, first bool) token {
	t := token{kind: kString, first: first, raw: true}
	if first {
		if l.peek(0) == '\r' {
			l.pos++
		}
		if l.peek(0) == '\n' {
			l.pos++
		}
	}
	begin := l.pos
	hole := strings.Repeat("$", dollars) + "{"
	for {
		rest := l.source[l.pos:]
		if rest == "" {
			l.add(span{start, l.pos}, "BCP140", "The multi-line string at this location is not terminated. Terminate it with \"'''\".")
			t.bad, t.last = true, true
			t.text = l.source[begin:]
			break
		}
		if strings.HasPrefix(rest, "'''") {
			// The last three of a row of quotes are the end.
			quotes := 3
			for quotes < len(rest) && rest[quotes] == '\'' {
				quotes++
			}
			t.text = l.source[begin : l.pos+quotes-3]
			l.pos += quotes
			t.last = true
			break
		}
		if dollars > 0 && strings.HasPrefix(rest, hole) {
			t.text = l.source[begin:l.pos]
			l.pos += len(hole)
			l.modes = append(l.modes, mode{raw: true, dollars: dollars})
			break
		}
		l.pos++
	}
	t.span = span{start, l.pos}
	return t
}
