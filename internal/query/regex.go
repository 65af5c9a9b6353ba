package query

import (
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// regex is a regular expression of Go's syntax, which lacks the look-around and
// back-references of PCRE. Its time is at most the product of its size and the
// length of a text, which may be minutes: where that is much it reads the text rune
// by rune, and stops at the end of the run. That is slower, so it is not the rule.
type regex struct {
	re   *regexp.Regexp
	size int // in characters and instructions; see regexSizeMax
	cost int // of a rune at most, in instructions

	// behind finds the next match in a text that begins one rune before where to
	// look: what \b and a line's ^ ask about. The match is group 1.
	behind func() (*regexp.Regexp, error)
}

const (
	regexRepeats = 1000    // what the syntax allows of nested repetitions, all together
	regexDirect  = 1 << 20 // instructions that nobody needs to stop
	regexRune    = workCheck / 4
	regexText    = workDeep // of an expression that is not constant
)

// regexSizeMax bounds a regular expression, and all of a plan: the bytes of the
// text and the instructions that it compiles to, of about 40 bytes each. Without
// a bound a short text could ask for very many repetitions.
const regexSizeMax = 100_000

// errPattern is the error of a pattern that is not known, which makes a function
// undefined.
var errPattern = errors.New("no regular expression")

func regexTooLarge() error {
	return status.BadRequest("The regular expressions of the query are too large. All together, or one that is not constant, they can have %d characters and instructions; a repetition counts as often as it repeats at most.", regexSizeMax)
}

// regexes are the constant regular expressions of a plan.
type regexes struct {
	known map[[2]string]knownRegex // by pattern and modifiers
	size  int                      // of all
}

type knownRegex struct {
	*regex
	err error
}

// regex reads a constant pattern and its modifiers, each pair once for a plan. The
// error is errPattern, or that of what is too large.
func (b binding) regex(text, modifiers value.Value) (*regex, error) {
	if b.compilation == nil || text.Len()+modifiers.Len() > regexSizeMax {
		return compileRegex(text, modifiers, regexSizeMax)
	}
	all := &b.compilation.regexes
	key := [2]string{text.Text(), modifiers.Text()}
	if text.Kind() != value.KindString || modifiers.Kind() != value.KindString {
		return nil, errPattern
	}
	known, seen := all.known[key]
	if !seen {
		known.regex, known.err = compileRegex(text, modifiers, regexSizeMax-all.size)
		if known.err == nil {
			all.size += known.size
		}
		all.known[key] = known
	}
	return known.regex, known.err
}

// compileRegex reads a pattern and its modifiers, which may have as much as room.
func compileRegex(text, modifiers value.Value, room int) (*regex, error) {
	if text.Kind() != value.KindString || modifiers.Kind() != value.KindString {
		return nil, errPattern
	}
	expr := text.Text()
	if len(expr) > room {
		return nil, regexTooLarge()
	}
	if m := modifiers.Text(); m != "" {
		if strings.Trim(m, "imsx") != "" {
			return nil, errPattern
		}
		if strings.Contains(m, "x") {
			expr, m = extended(expr), strings.ReplaceAll(m, "x", "")
		}
		if m != "" {
			expr = "(?" + m + ")" + expr
		}
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, errPattern
	}
	size := len(expr) + instructions(tree)
	if size > room {
		return nil, regexTooLarge()
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, errPattern
	}
	return &regex{re: re, size: size, cost: regexCost(expr), behind: sync.OnceValues(func() (*regexp.Regexp, error) {
		return regexp.Compile(`\A(?s:.)(?s:.*?)(` + tree.String() + `)`) // The text as it is may end in a quotation.
	})}, nil
}

// instructions returns about how many instructions an expression compiles to. The
// parser bounds the depth of the tree.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, part := range re.Sub {
		n += instructions(part)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return max(1, len(re.Rune))
	case syntax.OpConcat:
		return n
	case syntax.OpCapture:
		return n + 2
	case syntax.OpAlternate:
		return n + len(re.Sub)
	case syntax.OpRepeat:
		if re.Min == re.Max {
			return n * max(1, re.Max)
		}
		return (n + 1) * max(re.Min+1, re.Max)
	}
	return n + 1
}

// regexCost bounds the instructions of an expression: two for each byte, times its
// repetitions.
func regexCost(expr string) int {
	repeats, n := 1, 0
	for i := range len(expr) {
		switch c := expr[i]; {
		case isDigit(c):
			n = min(n*10+int(c-'0'), regexRepeats)
		default:
			if c == '}' || c == ',' {
				repeats = min(repeats*max(n, 1), regexRepeats)
			}
			n = 0
		}
	}
	return 2 * (len(expr) + 1) * repeats
}

// extended drops white space and comments, which modifier x asks for, outside
// of sets and escapes.
func extended(expr string) string {
	var b strings.Builder
	inSet, comment := false, false
	for i := 0; i < len(expr); i++ {
		c := expr[i]
		switch {
		case comment:
			comment = c != '\n'
		case c == '\\' && i+1 < len(expr):
			b.WriteString(expr[i : i+2])
			i++
		case inSet:
			inSet = c != ']'
			b.WriteByte(c)
		case c == '#':
			comment = true
		case !strings.ContainsRune(blankCharacters, rune(c)):
			inSet = c == '['
			b.WriteByte(c)
		}
	}
	return b.String()
}

// runes reads a text as long as the run goes on.
type runes struct {
	e    *env
	rest string
}

// ReadRune implements [io.RuneReader].
func (r *runes) ReadRune() (c rune, size int, err error) {
	if r.rest == "" || !r.e.work(regexRune) {
		return 0, 0, io.EOF
	}
	c, size = utf8.DecodeRuneInString(r.rest)
	r.rest = r.rest[size:]
	return c, size, nil
}

// short reports whether a text of n bytes may be looked at so many times without a
// look at the context.
func (x *regex) short(n, times int) bool { return n <= regexDirect/x.cost/max(times, 1) }

// match reports whether the text has a match.
func (x *regex) match(e *env, s string) bool {
	if x.short(len(s), 1) {
		return x.re.MatchString(s)
	}
	return x.re.MatchReader(&runes{e, s}) && e.err == nil
}

// first returns the first match and its groups as pairs of places, nil for none.
func (x *regex) first(e *env, s string) []int {
	if x.short(len(s), 1) {
		return x.re.FindStringSubmatchIndex(s)
	}
	return x.re.FindReaderSubmatchIndex(&runes{e, s})
}

// each calls visit for the matches one behind the other, as many as n.
func (x *regex) each(e *env, s string, n int, visit func(match []int)) {
	if x.short(len(s), len(s)) {
		for _, match := range x.re.FindAllStringSubmatchIndex(s, n) {
			visit(match)
		}
		return
	}
	// An empty match right behind another one is none.
	for at, last := 0, -1; at <= len(s) && n > 0 && e.err == nil; {
		match := x.next(e, s, at)
		if match == nil {
			return
		}
		if match[1] != at || match[0] != last {
			visit(match)
			n--
		}
		if last = match[1]; match[1] > at {
			at = match[1]
			continue
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		at += max(size, 1)
	}
}

// next returns the first match that begins at a place or behind it.
func (x *regex) next(e *env, s string, at int) []int {
	if at == 0 {
		return x.first(e, s)
	}
	behind, err := x.behind()
	if err != nil {
		e.fail(err)
		return nil
	}
	_, size := utf8.DecodeLastRuneInString(s[:at])
	match := behind.FindReaderSubmatchIndex(&runes{e, s[at-size:]})
	if match == nil {
		return nil
	}
	for i := range match {
		if match[i] >= 0 {
			match[i] += at - size
		}
	}
	return match[2:]
}

func dynamicRegex(e *env, args []value.Value) value.Value {
	modifiers := value.String("")
	if len(args) == 3 {
		modifiers = args[2]
	}
	if !e.work(regexText) {
		return value.Undefined()
	}
	x, err := compileRegex(args[1], modifiers, regexSizeMax)
	if err != nil {
		return e.noRegex(err)
	}
	if !e.work(x.size) {
		return value.Undefined()
	}
	return regexMatch(e, x, args[0])
}

// noRegex is what a function comes to that has no regular expression.
func (e *env) noRegex(err error) value.Value {
	if !errors.Is(err, errPattern) {
		e.fail(err)
	}
	return value.Undefined()
}

// noRegexRun is the function of a pattern with an error, which queries without
// documents do not meet.
func noRegexRun(err error) runner {
	return func(e *env, _ []value.Value) value.Value { return e.noRegex(err) }
}

func regexMatch(e *env, x *regex, s value.Value) value.Value {
	if s.Kind() != value.KindString {
		return value.Undefined()
	}
	return value.Bool(x.match(e, s.Text()))
}

// fixedRegex compiles the pattern of RegexMatch once when it is constant.
func fixedRegex(b binding) (run runner, ok bool) {
	text, ok := b.constant(1)
	modifiers := value.String("")
	if len(b.parts) == 3 && ok {
		modifiers, ok = b.constant(2)
	}
	if !ok {
		return nil, false
	}
	x, err := b.regex(text, modifiers)
	if err != nil {
		return noRegexRun(err), true
	}
	return func(e *env, args []value.Value) value.Value { return regexMatch(e, x, args[0]) }, true
}

// extraction is what REGEXEXTRACT and REGEXEXTRACTALL look for: an expression,
// and the number of the group to return, 0 for the whole match.
type extraction struct {
	*regex
	group int
}

// extractionOf reads the arguments behind the string.
func extractionOf(args []value.Value, compile func(text, modifiers value.Value) (*regex, error)) (extraction, error) {
	modifiers, number := value.String(""), value.Int(0)
	if len(args) > 1 {
		modifiers = args[1]
	}
	if len(args) > 2 {
		number = args[2]
	}
	x, err := compile(args[0], modifiers)
	if err != nil {
		return extraction{}, err
	}
	n, whole := number.Int64()
	if !whole || n < 0 || n > int64(x.re.NumSubexp()) {
		return extraction{}, errPattern
	}
	return extraction{regex: x, group: int(n)}, nil
}

// extract makes a function of a string and an extraction, which is read once
// when it is constant.
func extract(f func(e *env, x extraction, s string) value.Value) func(b binding) runner {
	return func(b binding) runner {
		var fixed []value.Value
		for i := 1; i < len(b.parts); i++ {
			if v, ok := b.constant(i); ok {
				fixed = append(fixed, v)
			}
		}
		known := len(b.parts) > 1 && len(fixed) == len(b.parts)-1
		var x extraction
		if known {
			var err error
			if x, err = extractionOf(fixed, b.regex); err != nil {
				return noRegexRun(err)
			}
		}
		return func(e *env, args []value.Value) value.Value {
			x := x
			if !known {
				var err error
				if x, err = extractionNow(e, args[1:]); err != nil {
					return e.noRegex(err)
				}
			}
			if args[0].Kind() != value.KindString {
				return value.Undefined()
			}
			return f(e, x, args[0].Text())
		}
	}
}

// extractionNow reads arguments that are not constant.
func extractionNow(e *env, args []value.Value) (x extraction, err error) {
	if !e.work(regexText) {
		return x, e.err
	}
	x, err = extractionOf(args, func(text, modifiers value.Value) (*regex, error) {
		return compileRegex(text, modifiers, regexSizeMax)
	})
	if err == nil && !e.work(x.size) {
		err = e.err
	}
	return x, err
}

// of is the text of the group in a match; a group that takes no part has none.
func (x extraction) of(s string, match []int) (text string, ok bool) {
	from, to := match[2*x.group], match[2*x.group+1]
	if from < 0 {
		return "", false
	}
	return s[from:to], true
}

// regexExtract is the first match, undefined without one.
func regexExtract(e *env, x extraction, s string) value.Value {
	match := x.first(e, s)
	if match == nil {
		return value.Undefined()
	}
	if text, ok := x.of(s, match); ok {
		return value.String(text)
	}
	return value.Undefined()
}

// regexExtractAll is the array of all matches, empty without one. A match in
// which the group takes no part counts as the empty string, so that matches
// keep their places.
func regexExtractAll(e *env, x extraction, s string) value.Value {
	var items []value.Value
	x.each(e, s, arrayItemsMax, func(match []int) {
		text, _ := x.of(s, match)
		items = append(items, value.String(text))
	})
	return value.Array(items)
}
