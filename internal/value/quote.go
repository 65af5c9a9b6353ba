package value

import (
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendQuoted appends s as a JSON string. A byte that is not UTF-8 becomes
// U+FFFD, so that the result is always valid.
func AppendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0 // the bytes before it are written
	for i := skipPlain(s, 0); i < len(s); i = skipPlain(s, i) {
		if c := s[i]; c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\uFFFD"...)
			start = i + 1
		}
		i += n
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// skipPlain returns the first index at or after i at which a JSON string needs
// attention: a quote, a backslash, a control character, or the beginning of a
// character beyond ASCII; or the length of s. It processes eight bytes at a
// time.
func skipPlain(s string, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		w := s[i : i+8]
		x := uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 |
			uint64(w[4])<<32 | uint64(w[5])<<40 | uint64(w[6])<<48 | uint64(w[7])<<56
		// Subtraction borrows into the top bit of a byte that is too small. A
		// borrow affects only bytes after the first match.
		found := (x - ' '*ones) | ((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones) | x
		if found &= tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// ReadString parses the JSON string whose opening quote is text[at], and returns its
// content and the offset after its closing quote. The content shares text unless the
// string has escapes. It treats surrogates as [Parse] does. An error is a *SyntaxError
// with an offset in text.
func ReadString(text string, at int) (content string, end int, err error) {
	p := parser{text: text, pos: at}
	content, err = p.string()
	return content, p.pos, err
}

// string parses a string that begins with the quote at pos. A string without
// escapes shares the text.
func (p *parser) string() (string, error) {
	start := p.pos + 1
	i := start
	for {
		i = skipPlain(p.text, i)
		if i == len(p.text) {
			break
		}
		c := p.text[i]
		switch {
		case c == '"':
			p.pos = i + 1
			return p.text[start:i], nil
		case c == '\\':
			return p.unescape(start, i)
		case c < ' ':
			return "", p.errorf(i, "a control character in a string")
		default:
			n := p.runeLen(i)
			if n == 0 {
				return "", p.errorf(i, "invalid UTF-8")
			}
			i += n
		}
	}
	p.pos = i
	return "", p.unexpected("a closing quote")
}

// unescape parses the string that begins at start and whose first backslash is
// at i.
func (p *parser) unescape(start, i int) (string, error) {
	buf := append(p.scratch[:0], p.text[start:i]...)
	for i < len(p.text) {
		c := p.text[i]
		switch {
		case c == '"':
			p.pos = i + 1
			p.scratch = buf
			return string(buf), nil
		case c == '\\':
			n, err := p.escape(i, &buf)
			if err != nil {
				return "", err
			}
			i += n
		case c < ' ':
			return "", p.errorf(i, "a control character in a string")
		case c < utf8.RuneSelf:
			buf = append(buf, c)
			i++
		default:
			n := p.runeLen(i)
			if n == 0 {
				return "", p.errorf(i, "invalid UTF-8")
			}
			buf = append(buf, p.text[i:i+n]...)
			i += n
		}
	}
	p.pos = i
	return "", p.unexpected("a closing quote")
}

// escape appends the meaning of the escape at i and returns the length of the
// escape.
func (p *parser) escape(i int, buf *[]byte) (int, error) {
	if i+1 >= len(p.text) {
		p.pos = i + 1
		return 0, p.unexpected("an escaped character")
	}
	c := p.text[i+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return p.escapeUnicode(i, buf)
	default:
		return 0, p.errorf(i, "an unknown escape in a string")
	}
	*buf = append(*buf, c)
	return 2, nil
}

// escapeUnicode handles the escape with four hexadecimal digits. Two of them
// together encode a character beyond U+FFFF.
func (p *parser) escapeUnicode(i int, buf *[]byte) (int, error) {
	r, ok := p.hex(i + 2)
	if !ok {
		return 0, p.errorf(i, "a \\u escape without four hexadecimal digits")
	}
	n := 6
	if utf16.IsSurrogate(r) {
		high := r
		r = utf8.RuneError
		if strings.HasPrefix(p.text[i+n:], `\u`) {
			if low, ok := p.hex(i + n + 2); ok {
				if pair := utf16.DecodeRune(high, low); pair != utf8.RuneError {
					r = pair
					n += 6
				}
			}
		}
	}
	*buf = utf8.AppendRune(*buf, r)
	return n, nil
}

// hex parses four hexadecimal digits at i.
func (p *parser) hex(i int) (rune, bool) {
	if len(p.text)-i < 4 {
		return 0, false
	}
	r := rune(0)
	for _, c := range []byte(p.text[i : i+4]) {
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
		r = r<<4 | rune(c)
	}
	return r, true
}

// runeLen returns the length of the character at i, or 0 if the bytes there are
// not UTF-8.
func (p *parser) runeLen(i int) int {
	r, n := utf8.DecodeRuneInString(p.text[i:])
	if r == utf8.RuneError && n == 1 {
		return 0
	}
	return n
}
