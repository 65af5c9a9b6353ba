package sql

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/decandb/decan/internal/value"
)

// TokenKind is the kind of a token.
type TokenKind uint8

// The kinds of tokens.
const (
	TokenEnd       TokenKind = iota
	TokenIdent               // Text is the identifier
	TokenKeyword             // Text is the keyword in upper case
	TokenNumber              // Value is the number
	TokenString              // Value is the string
	TokenParameter           // Text is the name without the @
	TokenSymbol              // Text is the operator or bracket
	TokenInvalid             // not a token of the language
	TokenBadNumber           // an invalid number
	TokenBadString           // a string without a closing quote
)

// Token is a lexical element of a text.
type Token struct {
	Kind  TokenKind
	At    Span
	Text  string
	Value value.Value
}

// Is reports whether the token is that keyword or symbol.
func (t Token) Is(text string) bool {
	return (t.Kind == TokenKeyword || t.Kind == TokenSymbol) && t.Text == text
}

// Bad reports whether the token is not part of the language.
func (t Token) Bad() bool { return t.Kind >= TokenInvalid }

// reserved contains the keywords. Those with true may also be identifiers.
var reserved = map[string]bool{
	"ALL": true, "FIRST": true, "LAST": true, "LET": true, "RANK": true,
	"AND": false, "ARRAY": false, "AS": false, "ASC": false, "BETWEEN": false, "BY": false,
	"CASE": false, "CAST": false, "CONVERT": false, "CROSS": false, "DESC": false,
	"DISTINCT": false, "ELSE": false, "END": false, "ESCAPE": false, "EXISTS": false,
	"FOR": false, "FROM": false, "GROUP": false, "HAVING": false, "IN": false,
	"INNER": false, "INSERT": false, "INTO": false, "IS": false, "JOIN": false, "LEFT": false,
	"LIKE": false, "LIMIT": false, "NOT": false, "OFFSET": false, "ON": false,
	"OR": false, "ORDER": false, "OUTER": false, "OVER": false, "RIGHT": false, "SELECT": false,
	"SET": false, "THEN": false, "TOP": false,
	"UPDATE": false, "VALUE": false, "WHEN": false, "WHERE": false, "WITH": false,
}

// keywordMax is the length of the longest keyword.
const keywordMax = len("UNDEFINED")

// keyword returns name in upper case if it is a keyword, otherwise "". Keywords may be
// in any letter case, except udf and the names of values, which are lower case: NULL is
// an identifier. NaN and Infinity are keywords only in this spelling and are returned
// unchanged.
func keyword(name string) string {
	if len(name) > keywordMax {
		return ""
	}
	switch name {
	case "true", "false", "null", "undefined", "udf":
		return strings.ToUpper(name)
	case "NaN", "Infinity":
		return name
	}
	upper := strings.ToUpper(name)
	if _, ok := reserved[upper]; ok {
		return upper
	}
	return ""
}

// Lexer splits query text into tokens. Create it with [NewLexer].
type Lexer struct {
	text string
	pos  int

	// declared are the parameters of the request by name. declaredMax is the
	// length of the longest name that is not an identifier: only a declared name
	// such as tenant-id is distinct from a subtraction.
	declared    map[string]value.Value
	declaredMax int
}

// oddNameMax is the maximum length of parameter names that are not identifiers. It
// bounds the cost of the search for them.
const oddNameMax = 256

// NewLexer returns a lexer of a text. declared are the parameters of the request by
// name, without the @; nil for none.
func NewLexer(text string, declared map[string]value.Value) *Lexer {
	l := &Lexer{text: text, declared: declared}
	for name := range declared {
		if len(name) <= oddNameMax && len(name) > l.declaredMax && scanName(name, 0) != len(name) {
			l.declaredMax = len(name)
		}
	}
	return l
}

// Next returns the next token. At the end of the text it always returns a TokenEnd.
func (l *Lexer) Next() Token {
	l.skipBlanks()
	start := l.pos
	if start >= len(l.text) {
		return Token{Kind: TokenEnd, At: Span{start, start}}
	}
	c := l.text[start]
	switch {
	case startsName(l.text, start):
		l.pos = scanName(l.text, start)
		t := l.token(TokenIdent, start)
		if word := keyword(t.Text); word != "" {
			t.Kind, t.Text = TokenKeyword, word
		}
		return t
	case digit(c), c == '.' && start+1 < len(l.text) && digit(l.text[start+1]):
		return l.number()
	case c == '\'' || c == '"':
		return l.quoted()
	case c == '@':
		return l.parameter()
	}
	return l.symbol()
}

func (l *Lexer) token(kind TokenKind, start int) Token {
	return Token{Kind: kind, At: Span{start, l.pos}, Text: l.text[start:l.pos]}
}

// skipBlanks skips white space, and comments to the end of their line.
func (l *Lexer) skipBlanks() {
	for l.pos < len(l.text) {
		rest := l.text[l.pos:]
		switch {
		case rest[0] == ' ' || rest[0] >= '\t' && rest[0] <= '\r':
			l.pos++
		case strings.HasPrefix(rest, "--"):
			end := strings.IndexAny(rest, "\r\n")
			if end < 0 {
				end = len(rest)
			}
			l.pos += end
		case rest[0] >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(rest)
			if !unicode.IsSpace(r) {
				return
			}
			l.pos += size
		default:
			return
		}
	}
}

// number reads a decimal or hexadecimal number. Nothing that belongs to a name may
// follow directly, so that c.12a is an error and not an alias.
func (l *Lexer) number() Token {
	start := l.pos
	if l.text[start] == '0' && start+1 < len(l.text) && l.text[start+1]|0x20 == 'x' {
		return l.hexadecimal()
	}
	i := scanDigits(l.text, start)
	integral := true
	if i < len(l.text) && l.text[i] == '.' {
		integral = false
		i = scanDigits(l.text, i+1)
	}
	if i < len(l.text) && l.text[i]|0x20 == 'e' {
		j := i + 1
		if j < len(l.text) && (l.text[j] == '+' || l.text[j] == '-') {
			j++
		}
		if k := scanDigits(l.text, j); k > j {
			integral = false
			i = k
		}
	}
	l.pos = i
	if startsName(l.text, i) {
		return l.badNumber(start)
	}
	t := l.token(TokenNumber, start)
	if n, err := strconv.ParseInt(t.Text, 10, 64); integral && err == nil {
		t.Value = value.Int(n)
		return t
	}
	f, err := strconv.ParseFloat(t.Text, 64)
	if err != nil {
		t.Kind = TokenBadNumber
	}
	t.Value = value.Double(f)
	return t
}

func (l *Lexer) hexadecimal() Token {
	start := l.pos
	i := start + 2
	for i < len(l.text) {
		if _, ok := hexDigit(l.text[i]); !ok {
			break
		}
		i++
	}
	l.pos = i
	if startsName(l.text, i) {
		return l.badNumber(start)
	}
	t := l.token(TokenNumber, start)
	n, err := strconv.ParseUint(t.Text[2:], 16, 64)
	switch {
	case err != nil:
		t.Kind = TokenBadNumber
	case n > math.MaxInt64:
		t.Value = value.Number(float64(n))
	default:
		t.Value = value.Int(int64(n))
	}
	return t
}

// badNumber reads the name after an invalid number too, so that the error shows both.
func (l *Lexer) badNumber(start int) Token {
	if l.text[l.pos]|0x20 == 'e' && l.pos+1 < len(l.text) && (l.text[l.pos+1] == '+' || l.text[l.pos+1] == '-') {
		l.pos += 2
	}
	for next := nextInName(l.text, l.pos); next > l.pos; next = nextInName(l.text, l.pos) {
		l.pos = next
	}
	return l.token(TokenBadNumber, start)
}

// quoted reads a string in single or double quotes, which may have control characters.
func (l *Lexer) quoted() Token {
	start, quote := l.pos, l.text[l.pos]
	end := start + 1
	plain := true
	for end < len(l.text) && l.text[end] != quote {
		if l.text[end] == '\\' {
			plain = false
			end++
		}
		end++
	}
	if end >= len(l.text) || l.text[end] != quote {
		l.pos = len(l.text)
		return l.token(TokenBadString, start)
	}
	l.pos = end + 1
	t := l.token(TokenString, start)
	content := l.text[start+1 : end]
	if !plain {
		unescaped, wrong := unescape(content)
		if wrong >= 0 {
			_, size := utf8.DecodeRuneInString(l.text[start+1+wrong:])
			l.pos = start + 1 + wrong + size
			return l.token(TokenBadString, start)
		}
		content = unescaped
	}
	t.Value = value.String(content)
	return t
}

// unescape replaces the escapes of a string literal. An unpaired surrogate becomes
// U+FFFD, as in documents. An unknown escape is the character after the backslash.
// wrong is the offset of a character that should be a hexadecimal digit, or -1.
func unescape(s string) (out string, wrong int) {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b = append(b, s[i])
			i++
			continue
		}
		c := s[i+1] // a backslash is never the last character
		i += 2
		switch c {
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r, ok := hex4(s, i)
			if !ok {
				for i < len(s) {
					if _, digit := hexDigit(s[i]); !digit {
						break
					}
					i++
				}
				return "", i
			}
			i += 4
			if r >= 0xD800 && r < 0xDC00 && strings.HasPrefix(s[i:], `\u`) {
				if low, ok := hex4(s, i+2); ok && low >= 0xDC00 && low < 0xE000 {
					r = 0x10000 + (r-0xD800)<<10 + (low - 0xDC00)
					i += 6
				}
			}
			b = utf8.AppendRune(b, r)
		default:
			b = append(b, c)
		}
	}
	return string(b), -1
}

func hex4(s string, i int) (r rune, ok bool) {
	if i+4 > len(s) {
		return 0, false
	}
	for _, c := range []byte(s[i : i+4]) {
		d, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

func hexDigit(c byte) (int, bool) {
	switch {
	case digit(c):
		return int(c - '0'), true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10, true
	}
	return 0, false
}

// parameter reads @name. It takes the longest declared name that matches, otherwise
// an identifier.
func (l *Lexer) parameter() Token {
	start := l.pos
	rest := l.text[start+1:]
	end := scanName(rest, 0)
	for n := min(l.declaredMax, len(rest)); n > end; n-- {
		if last, _ := utf8.DecodeLastRuneInString(rest[:n]); nextInName(rest, n) > n && nextInName(string(last), 0) > 0 {
			continue // the match ends inside a word
		}
		if _, ok := l.declared[rest[:n]]; ok {
			end = n
			break
		}
	}
	l.pos = start + 1 + end
	if end == 0 {
		return l.token(TokenInvalid, start)
	}
	t := l.token(TokenParameter, start)
	t.Text = t.Text[1:]
	return t
}

// symbols are the operators and brackets. A symbol comes before its prefixes.
var symbols = [...]string{
	">>>", "<=", ">=", "<>", "!=", "<<", ">>", "||", "??",
	"(", ")", "[", "]", "{", "}", ",", ".", ":", "?", "*", "/", "%",
	"+", "-", "~", "&", "|", "^", "=", "<", ">",
}

func (l *Lexer) symbol() Token {
	start := l.pos
	for _, s := range symbols {
		if strings.HasPrefix(l.text[start:], s) {
			l.pos += len(s)
			t := l.token(TokenSymbol, start)
			if s == "<>" {
				t.Text = "!="
			}
			return t
		}
	}
	_, size := utf8.DecodeRuneInString(l.text[start:])
	l.pos += size
	return l.token(TokenInvalid, start)
}

// nameStart reports whether a name may begin with a byte of ASCII.
func nameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// startsName reports whether a name may begin at i: with a letter of the first 65,536
// code points, as for the service's planner, or an underscore.
func startsName(s string, i int) bool {
	if i >= len(s) || s[i] < utf8.RuneSelf {
		return i < len(s) && nameStart(s[i])
	}
	r, size := utf8.DecodeRuneInString(s[i:])
	return size < 4 && (unicode.IsLetter(r) || unicode.Is(unicode.Nl, r))
}

// nextInName returns the offset after the character at i if that character may be in a
// name, otherwise i.
func nextInName(s string, i int) int {
	if i >= len(s) || s[i] < utf8.RuneSelf {
		if i < len(s) && (nameStart(s[i]) || digit(s[i])) {
			return i + 1
		}
		return i
	}
	r, size := utf8.DecodeRuneInString(s[i:])
	if size < 4 && (unicode.IsLetter(r) || unicode.In(r, unicode.Nl, unicode.Nd)) {
		return i + size
	}
	return i
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// scanName returns the end of the identifier at i, or i if there is none.
func scanName(s string, i int) int {
	if !startsName(s, i) {
		return i
	}
	for {
		next := nextInName(s, i)
		if next == i {
			return i
		}
		i = next
	}
}

func scanDigits(s string, i int) int {
	for i < len(s) && digit(s[i]) {
		i++
	}
	return i
}
