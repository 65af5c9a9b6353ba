package cql

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// token is a piece of the text: text[start:end].
type token struct {
	kind       kind
	start, end int32
}

// lexer splits a text into tokens, one call of next after the other.
type lexer struct {
	text string
	pos  int
	// hidden makes next return blanks and comments too, as tokens of the kind tEOF
	// whose end is after their start.
	hidden bool
	// failed holds the first error of the text; the lexer skips what it cannot read.
	failed string
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isHex(c byte) bool    { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
func isWord(c byte) bool   { return isLetter(c) || isDigit(c) || c == '_' }

// at returns the byte at a position, and 0 after the text.
func (l *lexer) at(i int) byte {
	if i < len(l.text) {
		return l.text[i]
	}
	return 0
}

// next returns the next token. The last one is tEOF, of no length.
func (l *lexer) next() token {
	for l.pos < len(l.text) {
		start := l.pos
		k, ok := l.scan(l.text[start])
		if ok {
			return token{k, int32(start), int32(l.pos)}
		}
		if l.hidden && l.pos > start {
			return token{tEOF, int32(start), int32(l.pos)}
		}
	}
	return token{tEOF, int32(len(l.text)), int32(len(l.text))}
}

// scan reads what begins with c at pos, and moves pos after it. The result is false
// for blanks, comments and what the language does not know.
func (l *lexer) scan(c byte) (kind, bool) {
	switch {
	case isLetter(c):
		return l.word(), true
	case isDigit(c):
		return l.number(), true
	}
	switch c {
	case ' ', '\t', '\n', '\r':
		for l.pos < len(l.text) && strings.IndexByte(" \t\n\r", l.text[l.pos]) >= 0 {
			l.pos++
		}
		return 0, false
	case '\'':
		return l.quoted('\'', tString)
	case '"':
		if l.at(l.pos+1) == '"' && l.at(l.pos+2) != '"' {
			l.pos += 2
			return tEmptyQuoted, true
		}
		return l.quoted('"', tQuoted)
	case '$':
		return l.dollars()
	case '-':
		return l.minus()
	case '/':
		return l.slash()
	case '?':
		return l.symbol(tQuestion, 1)
	case '(':
		return l.symbol(tParenOpen, 1)
	case ')':
		return l.symbol(tParenClose, 1)
	case '[':
		return l.symbol(tBracketOpen, 1)
	case ']':
		return l.symbol(tBracketClose, 1)
	case '{':
		return l.symbol(tBraceOpen, 1)
	case '}':
		return l.symbol(tBraceClose, 1)
	case ',':
		return l.symbol(tComma, 1)
	case ';':
		return l.symbol(tSemicolon, 1)
	case ':':
		return l.symbol(tColon, 1)
	case '*':
		return l.symbol(tStar, 1)
	case '%':
		return l.symbol(tPercent, 1)
	case '=':
		return l.symbol(tEqual, 1)
	case '.':
		if l.at(l.pos+1) == '.' {
			return l.symbol(tRange, 2)
		}
		return l.symbol(tDot, 1)
	case '+':
		if l.at(l.pos+1) == '=' {
			return l.symbol(tPlusEqual, 2)
		}
		return l.symbol(tPlus, 1)
	case '<':
		if l.at(l.pos+1) == '=' {
			return l.symbol(tLessEqual, 2)
		}
		return l.symbol(tLess, 1)
	case '>':
		if l.at(l.pos+1) == '=' {
			return l.symbol(tGreaterEqual, 2)
		}
		return l.symbol(tGreater, 1)
	case '!':
		if l.at(l.pos+1) == '=' {
			return l.symbol(tNotEqual, 2)
		}
	}
	l.unknown()
	return 0, false
}

func (l *lexer) symbol(k kind, n int) (kind, bool) {
	l.pos += n
	return k, true
}

// unknown notes the character at pos as an error and skips it.
func (l *lexer) unknown() {
	r, n := utf8.DecodeRuneInString(l.text[l.pos:])
	l.fail(l.pos, "no viable alternative at character '"+escape(string(r))+"'")
	l.pos += n
}

// fail notes the first error, at a position of the text.
func (l *lexer) fail(pos int, message string) {
	if l.failed == "" {
		line, column := position(l.text, pos)
		l.failed = "line " + strconv.Itoa(line) + ":" + strconv.Itoa(column) + " " + message
	}
}

// quoted reads a string or a name in quotes; a doubled quote is one.
func (l *lexer) quoted(quote byte, k kind) (kind, bool) {
	for i := l.pos + 1; ; i += 2 {
		n := strings.IndexByte(l.text[min(i, len(l.text)):], quote)
		if n < 0 {
			break
		}
		i += n
		if l.at(i+1) != quote {
			l.pos = i + 1
			return k, true
		}
	}
	l.pos = len(l.text)
	l.fail(l.pos, "mismatched character '<EOF>' expecting '"+string(quote)+"'")
	return 0, false
}

// dollars reads a string between $$ and $$.
func (l *lexer) dollars() (kind, bool) {
	if l.at(l.pos+1) != '$' {
		l.unknown()
		return 0, false
	}
	n := strings.Index(l.text[l.pos+2:], "$$")
	if n < 0 {
		if last, size := utf8.DecodeLastRuneInString(l.text[l.pos+2:]); size > 0 {
			l.fail(len(l.text)-size, "mismatched character '"+escape(string(last))+"' expecting '$'")
		} else {
			l.fail(len(l.text), "mismatched character '<EOF>' expecting '$'")
		}
		l.pos = len(l.text)
		return 0, false
	}
	l.pos += 2 + n + 2
	return tString, true
}

// minus reads what begins with a minus: a comment, a negative number or duration, -=, -.
func (l *lexer) minus() (kind, bool) {
	switch c := l.at(l.pos + 1); {
	case c == '-':
		return l.comment()
	case c == '=':
		return l.symbol(tMinusEqual, 2)
	case isDigit(c):
		l.pos++
		return l.number(), true
	case c == 'P':
		if n := isoDuration(l.text[l.pos+1:]); n > 0 {
			return l.symbol(tDurationLiteral, 1+n)
		}
	case c|0x20 == 'n' && l.isWordAt(l.pos+1, "nan"):
		return l.symbol(tNegativeNaN, 4)
	case c|0x20 == 'i' && l.isWordAt(l.pos+1, "infinity"):
		return l.symbol(tNegativeInfinity, 9)
	}
	return l.symbol(tMinus, 1)
}

// isWordAt reports whether the whole word at a position is the given one.
func (l *lexer) isWordAt(i int, word string) bool {
	return len(l.text)-i >= len(word) && strings.EqualFold(l.text[i:i+len(word)], word) && !isWord(l.at(i+len(word)))
}

func (l *lexer) slash() (kind, bool) {
	switch l.at(l.pos + 1) {
	case '/':
		return l.comment()
	case '*':
		n := strings.Index(l.text[l.pos+2:], "*/")
		if n < 0 {
			l.pos = len(l.text)
			l.fail(l.pos, "mismatched character '<EOF>' expecting '*'")
			return 0, false
		}
		l.pos += 2 + n + 2
		return 0, false
	}
	return l.symbol(tSlash, 1)
}

// comment skips the rest of a line. Apache Cassandra insists on the end of the line.
func (l *lexer) comment() (kind, bool) {
	n := strings.IndexAny(l.text[l.pos:], "\n\r")
	if n < 0 {
		l.pos = len(l.text)
		l.fail(l.pos, "mismatched character '<EOF>' expecting set null")
		return 0, false
	}
	l.pos += n + 1
	return 0, false
}

// word reads a keyword, a name, or a literal that begins with a letter.
func (l *lexer) word() kind {
	start := l.pos
	c := l.text[start]
	if isHex(c) {
		if uuidLength(l.text[start:]) {
			l.pos += 36
			return tUUIDLiteral
		}
	} else if c == 'P' {
		if n := isoDuration(l.text[start:]); n > 0 && !isWord(l.at(start+n)) {
			l.pos += n
			return tDurationLiteral
		}
	}
	i := start + 1
	for i < len(l.text) && isWord(l.text[i]) {
		i++
	}
	l.pos = i
	if i-start > longestKeyword {
		return tIdent
	}
	var lower [longestKeyword]byte
	for j := start; j < i; j++ {
		b := l.text[j]
		if b >= 'A' && b <= 'Z' {
			b |= 0x20
		}
		lower[j-start] = b
	}
	if k, ok := keywords[string(lower[:i-start])]; ok {
		return k
	}
	if i-start == 4 && l.text[start:i] == "expr" && l.at(i) == '(' {
		l.pos++
		return tExpr
	}
	return tIdent
}

// number reads what begins with a digit, after an optional minus.
func (l *lexer) number() kind {
	start := l.pos
	negative := start > 0 && l.text[start-1] == '-'
	if !negative {
		if uuidLength(l.text[start:]) {
			l.pos += 36
			return tUUIDLiteral
		}
		if l.text[start] == '0' && l.at(start+1)|0x20 == 'x' {
			i := start + 2
			for i < len(l.text) && isHex(l.text[i]) {
				i++
			}
			l.pos = i
			return tHex
		}
	}
	if n := shortDuration(l.text[start:]); n > 0 {
		l.pos += n
		return tDurationLiteral
	}
	i := l.digits(start)
	k := tInteger
	if l.at(i) == '.' && l.at(i+1) != '.' {
		k = tFloat
		i = l.digits(i + 1)
	} else if l.at(i) == '.' && l.at(i+1) == '.' && l.at(i+2) == '.' {
		l.pos = i + 1 // 1... is the number 1. and a range
		return tFloat
	}
	if l.at(i)|0x20 == 'e' {
		j := i + 1
		if c := l.at(j); c == '+' || c == '-' {
			j++
		}
		if isDigit(l.at(j)) {
			k = tFloat
			i = l.digits(j)
		}
	}
	l.pos = i
	return k
}

func (l *lexer) digits(i int) int {
	for i < len(l.text) && isDigit(l.text[i]) {
		i++
	}
	return i
}

// uuidLength reports whether a text begins with a UUID.
func uuidLength(s string) bool {
	if len(s) < 36 || s[8] != '-' {
		return false
	}
	for i := range 36 {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
		} else if !isHex(s[i]) {
			return false
		}
	}
	return true
}

// shortDuration returns the length of a duration such as 1h30m at the beginning of s.
func shortDuration(s string) int {
	end := 0
	for {
		i := end
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		n := 0
		if i > end {
			n = durationUnit(s[i:])
		}
		if n == 0 {
			break
		}
		end = i + n
	}
	if end < len(s) && (isLetter(s[end]) || s[end] == '_') && end > 0 {
		return 0
	}
	return end
}

// durationUnit returns the length of the unit of a duration at the beginning of s.
func durationUnit(s string) int {
	if len(s) == 0 {
		return 0
	}
	second := byte(0)
	if len(s) > 1 {
		second = s[1] | 0x20
	}
	switch s[0] | 0x20 {
	case 'm':
		if second == 'o' || second == 's' {
			return 2
		}
		return 1
	case 'u', 'n':
		if second == 's' {
			return 2
		}
		return 0
	case 'y', 'w', 'd', 'h', 's':
		return 1
	}
	if strings.HasPrefix(s, "µs") || strings.HasPrefix(s, "µS") {
		return len("µs")
	}
	return 0
}

// isoDuration returns the length of a duration in one of the forms of ISO 8601 at the
// beginning of s, which begins with P.
func isoDuration(s string) int {
	if n := isoAlternative(s); n > 0 {
		return n
	}
	i := 1
	n := isoPart(s[i:], "YMD")
	if n == 0 {
		if n = isoPart(s[i:], "W"); n > 0 {
			return i + n
		}
	}
	i += n
	if i < len(s) && s[i] == 'T' {
		if n := isoPart(s[i+1:], "HMS"); n > 0 {
			return i + 1 + n
		}
	}
	if i == 1 {
		return 0
	}
	return i
}

// isoPart returns the length of numbers that are followed by letters of units, in order.
func isoPart(s, units string) int {
	end := 0
	for i := 0; i < len(s); i++ {
		if isDigit(s[i]) {
			continue
		}
		u := strings.IndexByte(units, s[i])
		if u < 0 || i == end {
			break
		}
		units = units[u+1:]
		end = i + 1
	}
	return end
}

// isoAlternative returns the length of P0001-02-03T04:05:06, or 0.
func isoAlternative(s string) int {
	const form = "P0000-00-00T00:00:00"
	if len(s) < len(form) {
		return 0
	}
	for i := range len(form) {
		if form[i] == '0' {
			if !isDigit(s[i]) {
				return 0
			}
		} else if s[i] != form[i] {
			return 0
		}
	}
	return len(form)
}
