package bicep

import (
	"fmt"
	"strconv"
	"strings"
)

// functionOperators are the operators that functions of templates become.
var functionOperators = func() map[string]string {
	m := map[string]string{}
	for op, name := range operators {
		m[strings.ToLower(name)] = op
	}
	return m
}()

// Ranks of expressions that are not binary; those are in precedence.
const (
	rankTernary = 0
	rankUnary   = 8
	rankMember  = 9
)

// term prints an expression; floor is the rank that needs no parentheses.
func (p *printer) term(t term, floor int) (string, error) {
	text, rank, err := p.ranked(t)
	if err != nil {
		return "", err
	}
	if rank < floor {
		return "(" + text + ")", nil
	}
	return text, nil
}

func (p *printer) ranked(t term) (string, int, error) {
	switch t := t.(type) {
	case termString:
		return textOf(string(t)), rankMember, nil
	case termInt:
		if t < 0 {
			return strconv.FormatInt(int64(t), 10), rankUnary, nil
		}
		return strconv.FormatInt(int64(t), 10), rankMember, nil
	case termMember:
		base, err := p.term(t.base, rankMember)
		if err != nil {
			return "", 0, err
		}
		if isName(t.name) {
			return base + "." + t.name, rankMember, nil
		}
		return base + "[" + quoteText(t.name) + "]", rankMember, nil
	case termIndex:
		base, err := p.term(t.base, rankMember)
		if err != nil {
			return "", 0, err
		}
		index, err := p.term(t.index, rankTernary)
		return base + "[" + index + "]", rankMember, err
	case termCall:
		return p.call(t)
	}
	return "", 0, fmt.Errorf("an expression of this kind is not printed")
}

// call prints a function of templates as the operator, the name or the
// function that Bicep has for it.
func (p *printer) call(t termCall) (string, int, error) {
	name := strings.ToLower(t.name)
	switch {
	case len(t.args) == 0 && (name == "true" || name == "false" || name == "null"):
		return name, rankMember, nil
	case (name == "parameters" || name == "variables") && len(t.args) == 1:
		if s, ok := t.args[0].(termString); ok {
			if text := p.names[name[:1]+":"+strings.ToLower(string(s))]; text != "" {
				return text, rankMember, nil
			}
			return "", 0, fmt.Errorf("%s('%s') is not declared", name, string(s))
		}
		return "", 0, fmt.Errorf("%s() of an expression is not printed", name)
	case name == "not" && len(t.args) == 1:
		return p.not(t)
	case name == "if" && len(t.args) == 3:
		condition, err := p.term(t.args[0], 1)
		if err != nil {
			return "", 0, err
		}
		yes, err := p.term(t.args[1], 1)
		if err != nil {
			return "", 0, err
		}
		no, err := p.term(t.args[2], rankTernary)
		return condition + " ? " + yes + " : " + no, rankTernary, err
	case functionOperators[name] != "" && len(t.args) == 2:
		return p.operator(functionOperators[name], t)
	case name == "format" && len(t.args) > 0, name == "concat" && p.joins(t):
		list, err := p.pieces(t)
		return "'" + joined(list) + "'", rankMember, err
	case (name == "and" || name == "or") && len(t.args) > 2:
		rest := termCall{t.name, t.args[:len(t.args)-1]}
		return p.operator(functionOperators[name], termCall{t.name, []term{rest, t.args[len(t.args)-1]}})
	case name == "createarray", name == "createobject", name == "tryget", name == "indexfromend", name == "tryindexfromend":
		return p.literal(name, t)
	case strings.Contains(t.name, "."):
		return "", 0, fmt.Errorf("functions of the template (%s) are not printed", t.name)
	case name == "lambda" && len(t.args) > 0:
		return p.lambda(t)
	case name == "lambdavariables" && len(t.args) == 1:
		if s, ok := t.args[0].(termString); ok && isName(string(s)) {
			return string(s), rankMember, nil
		}
		return "", 0, fmt.Errorf("lambdaVariables() of an expression is not printed")
	case name == "copyindex":
		return "", 0, fmt.Errorf("loops (copyIndex) are not printed")
	case name == "reference":
		return p.reference(t)
	}
	args := make([]string, len(t.args))
	for i, a := range t.args {
		text, err := p.term(a, rankTernary)
		if err != nil {
			return "", 0, err
		}
		args[i] = text
	}
	if _, known := functionTable()[t.name]; !known && !strings.HasPrefix(t.name, "list") {
		for other := range functionTable() {
			if strings.EqualFold(other, t.name) {
				t.name = other
			}
		}
	}
	return t.name + "(" + strings.Join(args, ", ") + ")", rankMember, nil
}

// reference prints reference('symbol') as the properties of the resource.
func (p *printer) reference(t termCall) (string, int, error) {
	if len(t.args) > 0 {
		if s, ok := t.args[0].(termString); ok {
			for _, r := range p.resources {
				if r.symbol != "" && r.symbol == string(s) {
					if len(t.args) == 3 {
						return r.name, rankMember, nil
					}
					return r.name + ".properties", rankMember, nil
				}
			}
		}
	}
	args := make([]string, len(t.args))
	for i, a := range t.args {
		text, err := p.term(a, rankTernary)
		if err != nil {
			return "", 0, err
		}
		args[i] = text
	}
	return "reference(" + strings.Join(args, ", ") + ")", rankMember, nil
}

// lambda prints lambda('x', body) as x => body.
func (p *printer) lambda(t termCall) (string, int, error) {
	last := len(t.args) - 1
	names := make([]string, last)
	for i, a := range t.args[:last] {
		s, ok := a.(termString)
		if !ok || !isName(string(s)) {
			return "", 0, fmt.Errorf("a lambda without names is not printed")
		}
		names[i] = string(s)
	}
	head := "(" + strings.Join(names, ", ") + ")"
	if last == 1 {
		head = names[0]
	}
	body, err := p.term(t.args[last], rankTernary)
	return head + " => " + body, rankTernary, err
}

func (p *printer) not(t termCall) (string, int, error) {
	if c, ok := t.args[0].(termCall); ok && strings.EqualFold(c.name, "equals") && len(c.args) == 2 {
		return p.operator("!=", c)
	}
	text, err := p.term(t.args[0], rankMember)
	return "!" + text, rankUnary, err
}

func (p *printer) operator(op string, t termCall) (string, int, error) {
	rank := precedence[op]
	left, err := p.term(t.args[0], rank)
	if err != nil {
		return "", 0, err
	}
	right, err := p.term(t.args[1], rank+1)
	return left + " " + op + " " + right, rank, err
}

// literal prints createArray, createObject and tryGet.
func (p *printer) literal(name string, t termCall) (string, int, error) {
	args := make([]string, len(t.args))
	for i, a := range t.args {
		text, err := p.term(a, rankTernary)
		if err != nil {
			return "", 0, err
		}
		args[i] = text
	}
	switch {
	case name == "createarray":
		return "[" + strings.Join(args, ", ") + "]", rankMember, nil
	case name == "createobject" && len(args)%2 == 0:
		parts := make([]string, 0, len(args)/2)
		for i := 0; i < len(args); i += 2 {
			k := args[i]
			if s, ok := t.args[i].(termString); ok {
				k = key(string(s))
			} else {
				k = "'${" + k + "}'"
			}
			parts = append(parts, k+": "+args[i+1])
		}
		if len(parts) == 0 {
			return "{}", rankMember, nil
		}
		return "{ " + strings.Join(parts, ", ") + " }", rankMember, nil
	case name == "indexfromend" && len(args) == 2, name == "tryindexfromend" && len(args) == 2:
		base, err := p.term(t.args[0], rankMember)
		open := "[^"
		if name == "tryindexfromend" {
			open = "[?^"
		}
		return base + open + args[1] + "]", rankMember, err
	case name == "tryget" && len(args) > 1:
		base, err := p.term(t.args[0], rankMember)
		if err != nil {
			return "", 0, err
		}
		for i, a := range t.args[1:] {
			s, isText := a.(termString)
			switch {
			case isText && isName(string(s)) && i == 0:
				base += ".?" + string(s)
			case isText && isName(string(s)):
				base += "." + string(s)
			case i == 0:
				base += "[?" + args[1] + "]"
			default:
				base += "[" + args[i+1] + "]"
			}
		}
		return base, rankMember, nil
	}
	return "", 0, fmt.Errorf("%s with these arguments is not printed", t.name)
}

// joins reports whether concat joins text: an argument is a string.
func (p *printer) joins(t termCall) bool {
	for _, a := range t.args {
		if _, ok := a.(termString); ok {
			return true
		}
	}
	return false
}

// piece is a part of a string: text, or an expression as printed.
type piece struct {
	text string
	hole bool
}

// joined prints pieces as the inner part of a string.
func joined(list []piece) string {
	var b strings.Builder
	for _, x := range list {
		if x.hole {
			b.WriteString("${" + x.text + "}")
		} else {
			b.WriteString(escapeText(x.text))
		}
	}
	return b.String()
}

// stringOf prints pieces as a value: one expression needs no string.
func stringOf(list []piece) string {
	if len(list) == 1 && list[0].hole {
		return list[0].text
	}
	return "'" + joined(list) + "'"
}

// interpolation prints an expression as the inner part of a string.
func (p *printer) interpolation(t term) (string, error) {
	list, err := p.pieces(t)
	return joined(list), err
}

// pieces cuts an expression into text and expressions.
func (p *printer) pieces(t term) ([]piece, error) {
	if list := p.splitPart(t); list != nil {
		return list, nil
	}
	c, ok := t.(termCall)
	switch {
	case ok && strings.EqualFold(c.name, "concat") && p.joins(c):
		var list []piece
		for _, a := range c.args {
			x, err := p.argument(a)
			if err != nil {
				return nil, err
			}
			list = append(list, x...)
		}
		return list, nil
	case ok && strings.EqualFold(c.name, "format") && len(c.args) > 0:
		if pattern, isText := c.args[0].(termString); isText {
			return p.pattern(string(pattern), c.args[1:])
		}
	}
	x, err := p.hole(t)
	return []piece{x}, err
}

// splitPart returns the part of a name that split(name, '/')[n] takes, or nil.
func (p *printer) splitPart(t term) []piece {
	i, ok := t.(termIndex)
	if !ok {
		return nil
	}
	n, isInt := i.index.(termInt)
	c, isCall := i.base.(termCall)
	if !isInt || !isCall || !strings.EqualFold(c.name, "split") || len(c.args) != 2 || c.args[1] != termString("/") {
		return nil
	}
	whole, err := p.pieces(c.args[0])
	if err != nil {
		return nil
	}
	if parts := cut(whole); len(parts) > 1 && n >= 0 && int(n) < len(parts) && len(parts[n]) > 0 {
		return parts[n]
	}
	return nil
}

// cut cuts pieces at the slashes of their text.
func cut(all []piece) [][]piece {
	list := [][]piece{nil}
	for _, x := range all {
		if x.hole {
			list[len(list)-1] = append(list[len(list)-1], x)
			continue
		}
		for i, part := range strings.Split(x.text, "/") {
			if i > 0 {
				list = append(list, nil)
			}
			if part != "" {
				list[len(list)-1] = append(list[len(list)-1], piece{text: part})
			}
		}
	}
	return list
}

// argument returns an argument of format or concat.
func (p *printer) argument(t term) ([]piece, error) {
	if list := p.splitPart(t); list != nil {
		return list, nil
	}
	x, err := p.hole(t)
	return []piece{x}, err
}

// hole returns one argument as a piece.
func (p *printer) hole(t term) (piece, error) {
	if s, ok := t.(termString); ok {
		return piece{text: string(s)}, nil
	}
	text, err := p.term(t, rankTernary)
	if strings.Contains(text, "\n") {
		err = fmt.Errorf("a string of several lines inside another one is not printed")
	}
	return piece{text, true}, err
}

// pattern cuts the text of format at its arguments.
func (p *printer) pattern(pattern string, args []term) ([]piece, error) {
	var list []piece
	var plain strings.Builder
	flush := func() {
		if plain.Len() > 0 {
			list = append(list, piece{text: plain.String()})
			plain.Reset()
		}
	}
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if (c == '{' || c == '}') && i+1 < len(pattern) && pattern[i+1] == c {
			plain.WriteByte(c)
			i++
			continue
		}
		if c != '{' {
			plain.WriteByte(c)
			continue
		}
		end := strings.IndexByte(pattern[i:], '}')
		if end < 0 {
			return nil, fmt.Errorf("the format %q is broken", pattern)
		}
		n, err := strconv.Atoi(pattern[i+1 : i+end])
		if err != nil || n < 0 || n >= len(args) {
			// Widths and forms of numbers have no other form: the function is kept.
			text, err := p.keptFormat(pattern, args)
			return []piece{{text, true}}, err
		}
		flush()
		x, err := p.argument(args[n])
		if err != nil {
			return nil, err
		}
		list = append(list, x...)
		i += end
	}
	flush()
	return list, nil
}

// keptFormat prints format as a function.
func (p *printer) keptFormat(pattern string, args []term) (string, error) {
	list := []string{quoteText(pattern)}
	for _, a := range args {
		text, err := p.term(a, rankTernary)
		if err != nil {
			return "", err
		}
		list = append(list, text)
	}
	return "format(" + strings.Join(list, ", ") + ")", nil
}
