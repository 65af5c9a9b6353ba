package bicep

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// termParser reads an expression of the template language.
type termParser struct {
	source string
	pos    int
	depth  int
}

// parseTerm reads the text between the brackets of an expression.
func parseTerm(source string) (term, error) {
	p := &termParser{source: source}
	t, err := p.term()
	if err == nil {
		if p.blanks(); p.pos < len(p.source) {
			err = errors.New("text follows the expression")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("expression [%s]: position %d: %w", source, p.pos+1, err)
	}
	return t, nil
}

func (p *termParser) blanks() {
	for p.pos < len(p.source) && strings.IndexByte(" \t\r\n", p.source[p.pos]) >= 0 {
		p.pos++
	}
}

// take passes c after blanks, if it follows.
func (p *termParser) take(c byte) bool {
	p.blanks()
	if p.pos < len(p.source) && p.source[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *termParser) name() string {
	p.blanks()
	start := p.pos
	for p.pos < len(p.source) && (isLetter(p.source[p.pos]) || p.pos > start && isDigit(p.source[p.pos])) {
		p.pos++
	}
	return p.source[start:p.pos]
}

func (p *termParser) term() (term, error) {
	if p.depth++; p.depth > nestingMax {
		return nil, errNesting
	}
	defer func() { p.depth-- }()
	p.blanks()
	if p.pos >= len(p.source) {
		return nil, errors.New("the expression ends too early")
	}
	switch c := p.source[p.pos]; {
	case c == '\'':
		return p.string()
	case isDigit(c) || c == '-' || c == '+':
		return p.number()
	}
	name := p.name()
	if name == "" {
		return nil, fmt.Errorf("unexpected %q", p.source[p.pos])
	}
	if p.take('.') {
		member := p.name()
		if member == "" {
			return nil, errors.New("a name is missing after the dot")
		}
		name += "." + member
	}
	if !p.take('(') {
		return nil, fmt.Errorf("%q has no arguments", name)
	}
	c := termCall{name: name}
	if !p.take(')') {
		for {
			a, err := p.term()
			if err != nil {
				return nil, err
			}
			c.args = append(c.args, a)
			if p.take(')') {
				break
			}
			if !p.take(',') {
				return nil, errors.New("a comma or a parenthesis is missing")
			}
		}
	}
	return p.accesses(c)
}

// accesses reads the members and indexes after a call.
func (p *termParser) accesses(t term) (term, error) {
	for n := 0; ; n++ {
		switch {
		case n > nestingMax:
			return nil, errNesting
		case p.take('.'):
			name := p.name()
			if name == "" {
				return nil, errors.New("a name is missing after the dot")
			}
			t = termMember{t, name}
		case p.take('['):
			index, err := p.term()
			if err != nil {
				return nil, err
			}
			if !p.take(']') {
				return nil, errors.New("a bracket is not closed")
			}
			t = termIndex{t, index}
		default:
			return t, nil
		}
	}
}

func (p *termParser) string() (term, error) {
	var b strings.Builder
	for i := p.pos + 1; i < len(p.source); i++ {
		if p.source[i] != '\'' {
			b.WriteByte(p.source[i])
			continue
		}
		if i+1 < len(p.source) && p.source[i+1] == '\'' {
			b.WriteByte('\'')
			i++
			continue
		}
		p.pos = i + 1
		return termString(b.String()), nil
	}
	return nil, errors.New("a string is not closed")
}

func (p *termParser) number() (term, error) {
	start := p.pos
	p.pos++
	for p.pos < len(p.source) && isDigit(p.source[p.pos]) {
		p.pos++
	}
	n, err := strconv.ParseInt(p.source[start:p.pos], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is no integer", p.source[start:p.pos])
	}
	return termInt(n), nil
}
