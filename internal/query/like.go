package query

import (
	"strings"
	"unicode/utf8"
)

// pattern is a compiled LIKE pattern: a list of parts that must match a whole string.
type pattern []patternPart

type patternPart struct {
	kind    partKind
	literal string // of partLiteral
	negated bool   // of partSet
	ranges  []rune // of partSet: pairs of first and last
}

type partKind uint8

const (
	partLiteral partKind = iota
	partAny              // % : any run of characters
	partOne              // _ : one character
	partSet              // [...] : one character of a set
)

// compileLike parses a pattern. A bracket that is not closed is a literal, as is an
// escape character at the end.
func compileLike(text, escape string) pattern {
	var p pattern
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			p = append(p, patternPart{kind: partLiteral, literal: literal.String()})
			literal.Reset()
		}
	}
	closed := strings.LastIndexByte(text, ']') // no bracket follows it
	for i := 0; i < len(text); {
		if escape != "" && strings.HasPrefix(text[i:], escape) && i+len(escape) < len(text) {
			i += len(escape)
			_, size := utf8.DecodeRuneInString(text[i:])
			literal.WriteString(text[i : i+size])
			i += size
			continue
		}
		switch text[i] {
		case '%':
			flush()
			if len(p) == 0 || p[len(p)-1].kind != partAny {
				p = append(p, patternPart{kind: partAny})
			}
			i++
			continue
		case '_':
			flush()
			p = append(p, patternPart{kind: partOne})
			i++
			continue
		case '[':
			if i > closed {
				break
			}
			if set, size := compileSet(text[i:]); size > 0 {
				flush()
				p = append(p, set)
				i += size
				continue
			}
		}
		literal.WriteByte(text[i])
		i++
	}
	flush()
	return p
}

// compileSet parses [abc], [a-f] or [^a]. size is 0 if the text is not a set.
func compileSet(text string) (set patternPart, size int) {
	end := strings.IndexByte(text[1:], ']')
	if end <= 0 {
		return set, 0
	}
	body := []rune(text[1 : 1+end])
	set.kind = partSet
	if body[0] == '^' && len(body) > 1 {
		set.negated = true
		body = body[1:]
	}
	for i := 0; i < len(body); i++ {
		first, last := body[i], body[i]
		if i+2 < len(body) && body[i+1] == '-' {
			last = body[i+2]
			i += 2
		}
		set.ranges = append(set.ranges, first, last)
	}
	return set, end + 2
}

// match reports whether the whole of s matches the pattern. On a mismatch it returns to
// the last % and extends it by one character. Earlier ones need no backtracking, so the
// time is at most the product of both lengths. It returns false if the run ends first.
func (p pattern) match(e *env, s string) bool {
	i, at := 0, 0
	runPart, runAt := -1, 0
	for {
		if i < len(p) && p[i].kind == partAny {
			runPart, runAt = i, at
			i++
			continue
		}
		if i < len(p) {
			if !e.work(p[i].work()) {
				return false
			}
			if size, ok := p[i].take(s[at:]); ok {
				at += size
				i++
				continue
			}
		} else if at == len(s) {
			return true
		}
		if runPart < 0 || runAt >= len(s) {
			return false
		}
		if runPart == len(p)-1 {
			return true
		}
		_, size := utf8.DecodeRuneInString(s[runAt:])
		runAt += size
		i, at = runPart+1, runAt
	}
}

// searches reports whether the pattern is a literal anywhere in a text, or at its end.
func (p pattern) searches() bool {
	return len(p) > 1 && len(p) < 4 && p[0].kind == partAny && p[1].kind == partLiteral && (len(p) == 2 || p[2].kind == partAny)
}

// beginsWith reports whether the pattern is a literal prefix and nothing else.
func (p pattern) beginsWith() bool {
	return len(p) == 2 && p[0].kind == partLiteral && p[1].kind == partAny
}

// work is the work of take: a comparison of words of memory, or of characters.
func (p *patternPart) work() int { return 1 + len(p.literal)>>4 + len(p.ranges) }

// take matches one part other than % at the beginning of s.
func (p *patternPart) take(s string) (size int, ok bool) {
	if p.kind == partLiteral {
		return len(p.literal), strings.HasPrefix(s, p.literal)
	}
	if s == "" {
		return 0, false
	}
	r, size := utf8.DecodeRuneInString(s)
	if p.kind == partOne {
		return size, true
	}
	in := false
	for i := 0; i < len(p.ranges); i += 2 {
		in = in || r >= p.ranges[i] && r <= p.ranges[i+1]
	}
	return size, in != p.negated
}

// prefix returns the literal prefix of every match, and whether the pattern is only
// that literal.
func (p pattern) prefix() (literal string, whole bool) {
	if len(p) == 0 {
		return "", true
	}
	if p[0].kind != partLiteral {
		return "", false
	}
	return p[0].literal, len(p) == 1
}
