package cql

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// The messages are those of a parser that ANTLR 3 generates.
//
// A rule that wants one kind of token and sees another reports a mismatched input. A
// choice between several forms looks ahead until one form is left; when none is left it
// reports no viable alternative at the token that excluded the last, and goes back to the
// token where the choice began. Cassandra appends a part of the text to both: ten tokens
// before the token where the parser is, which it puts into brackets, and at most two
// tokens after it, as far as the parser looked. Blanks and comments count as tokens.

// snippetBefore and snippetAfter are how many tokens a message quotes at most.
const snippetBefore, snippetAfter = 10, 2

// position returns the line (from 1) and the column (from 0) of a byte of the text.
func position(text string, pos int) (line, column int) {
	line = 1 + strings.Count(text[:pos], "\n")
	begin := strings.LastIndexByte(text[:pos], '\n') + 1
	return line, units(text[begin:pos])
}

// units returns the length of a text in units of UTF-16, in which Java counts.
func units(s string) int {
	n := utf8.RuneCountInString(s)
	for _, r := range s {
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// escape makes control characters visible as ANTLR does.
func escape(s string) string {
	return strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
}

// fail notes an error. Only the first one counts.
func (p *parser) fail(message string) {
	if p.err == nil {
		p.err = &SyntaxError{Text: message}
	}
	p.stop()
}

// note notes an error of which the parser only speaks if the rest of the text is a
// statement or fails later.
func (p *parser) note(message string) {
	if p.err == nil {
		p.err = &SyntaxError{Text: message}
	}
}

// stop moves to the end of the text, so that every loop of the parser ends.
func (p *parser) stop() {
	p.stopped = true
	p.pos = len(p.tokens) - 1
}

// mismatch reports that the current token is not of the kind that a rule wants. ahead is
// how many tokens after it the rule has looked at.
func (p *parser) mismatch(want kind, ahead int) {
	p.failAt(p.pos, p.pos, p.pos+ahead, "mismatched input '"+escape(p.tokenText(p.pos))+"' expecting "+kindNames[want])
}

// noViable reports that the token at index excluded the last form of a choice that
// began at the token with the index start.
func (p *parser) noViable(start, index int) {
	index = min(index, len(p.tokens)-1)
	p.failAt(start, index, index, "no viable alternative at input '"+escape(p.tokenText(index))+"'")
}

// failAt reports an error at the token with an index; the parser is at the token start
// and has looked at tokens up to last.
func (p *parser) failAt(start, index, last int, message string) {
	if p.err != nil {
		p.stop()
		return
	}
	if p.lex.failed != "" && p.lexFailedAt <= index {
		p.fail(p.lex.failed)
		return
	}
	t := p.tokens[index]
	line, column := 0, -1
	if t.kind != tEOF {
		line, column = position(p.lex.text, int(t.start))
	}
	p.fail("line " + strconv.Itoa(line) + ":" + strconv.Itoa(column) + " " + message + p.snippet(start, last))
}

// tokenText returns the text of a token as a message shows it: strings and names without
// their quotes.
func (p *parser) tokenText(index int) string {
	t := p.tokens[index]
	if t.kind == tEOF {
		return "<EOF>"
	}
	return shown(p.lex.text, t)
}

// shown returns the text of a token without its quotes.
func shown(text string, t token) string {
	s := text[t.start:t.end]
	switch t.kind {
	case tString:
		return unquoteString(s)
	case tQuoted:
		return strings.ReplaceAll(s[1:len(s)-1], `""`, `"`)
	}
	return s
}

// snippet quotes the text around the token start, at most up to the token last.
func (p *parser) snippet(start, last int) string {
	if p.tokens[start].kind == tEOF {
		return ""
	}
	text := p.lex.text
	raw := rawTokens(text, p.tokens[min(last, len(p.tokens)-1)])
	at := -1
	for i, t := range raw {
		if t.start == p.tokens[start].start {
			at = i
		}
	}
	if at < 0 {
		return ""
	}
	from := raw[max(0, at-snippetBefore)]
	to := raw[min(len(raw)-1, at+snippetAfter)]
	if to.kind == tEOF && to.end == to.start {
		return ""
	}
	// Java counts the characters of a token without its quotes, and cuts there.
	offending := raw[at]
	fromLine, fromColumn := position(text, int(from.start))
	toLine, toColumn := position(text, int(to.start))
	offLine, offColumn := position(text, int(offending.start))
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	toEnd := toColumn + units(shown(text, to))
	offEnd := offColumn + units(shown(text, offending))
	begins := fromLine == 1 && fromColumn == 0
	ends := toLine == len(lines) && toEnd == units(lines[len(lines)-1])

	var b strings.Builder
	b.WriteString(" (")
	if !begins {
		b.WriteString("...")
	}
	for i := fromLine; i <= toLine && i <= len(lines); i++ {
		line := lines[i-1]
		low, high := 0, units(line)
		if i == toLine {
			high = min(high, toEnd)
		}
		if i == fromLine {
			low = fromColumn
		}
		if i != offLine {
			b.WriteString(cut(line, low, high))
			continue
		}
		b.WriteString(cut(line, low, offColumn))
		b.WriteByte('[')
		b.WriteString(cut(line, offColumn, min(high, offEnd)))
		b.WriteByte(']')
		b.WriteString(cut(line, offEnd, high))
	}
	if !ends {
		b.WriteString("...")
	}
	b.WriteByte(')')
	return b.String()
}

// rawTokens returns all tokens up to the given one, blanks and comments included.
func rawTokens(text string, last token) []token {
	l := lexer{text: text, hidden: true}
	var all []token
	for {
		t := l.next()
		all = append(all, t)
		if t.start >= last.start || t.kind == tEOF && t.end == t.start {
			return all
		}
	}
}

// cut returns the part of a line between two columns, in units of UTF-16.
func cut(line string, low, high int) string {
	if low >= high {
		return ""
	}
	begin, column := len(line), 0
	for i, r := range line {
		if column == low {
			begin = i
		}
		if column >= high {
			return line[min(begin, i):i]
		}
		column++
		if r > 0xFFFF {
			if column++; column == high+1 {
				return line[begin:i] + "?" // Java prints half of a character so.
			}
		}
	}
	return line[begin:]
}
