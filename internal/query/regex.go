package query

import (
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// regex is a regular expression in Go's syntax, which has no look-around and no
// back-references as PCRE has. Its time is at most the product of its size and the
// length of the text, which may be minutes. If that product is large, it reads the
// text character by character and stops at the end of the run, which is slower.
type regex struct {
	re   *regexp.Regexp
	size int // in characters and instructions; see regexSizeMax
	cost int // maximum number of instructions for a character

	// lookback finds the next match in a text that begins one character before the
	// position, because \b and ^ of a line depend on that character. The match is
	// group 1.
	lookback func() (*regexp.Regexp, error)
}

const (
	regexRepeats = 1000    // maximum product of nested repetitions in the syntax
	regexDirect  = 1 << 20 // instructions that need no check of the context
	regexRune    = workCheck / 4
	regexText    = workDeep // length of an expression that is not constant
)

// regexSizeMax is the maximum size of a regular expression, and of all in a plan: the
// bytes of the text and the instructions, of about 40 bytes each. Without a limit a
// short text could demand very many repetitions.
const regexSizeMax = 100_000

// errPattern is the error of an invalid pattern, which makes a function undefined.
var errPattern = errors.New("invalid regular expression")

func regexTooLarge() error {
	return status.BadRequest("The regular expressions of the query are too large. All constant ones together, and each other one, may have at most %d characters and instructions. A repetition counts as often as it may repeat.", regexSizeMax)
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

// regex compiles a constant pattern and its modifiers, each pair once for a plan. The
// error is errPattern or that of a pattern that is too large.
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

// compileRegex compiles a pattern and its modifiers, of at most size room.
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
	return &regex{re: re, size: size, cost: regexCost(expr), lookback: sync.OnceValues(func() (*regexp.Regexp, error) {
		return regexp.Compile(`\A(?s:.)(?s:.*?)(` + tree.String() + `)`) // not text itself, which may end inside a quotation
	})}, nil
}

// instructions returns the approximate number of instructions of an expression. The
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

// regexCost returns an upper bound of the instructions of an expression: two for each
// byte, times its repetitions.
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

// extended removes white space and comments outside sets and escapes, as modifier x
// requires.
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

// runes reads a text until the run ends.
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

// short reports whether a text of n bytes may be matched that many times without a
// check of the context.
func (x *regex) short(n, times int) bool { return n <= regexDirect/x.cost/max(times, 1) }

// match reports whether the text has a match.
func (x *regex) match(e *env, s string) bool {
	if x.short(len(s), 1) {
		return x.re.MatchString(s)
	}
	return x.re.MatchReader(&runes{e, s}) && e.err == nil
}

// first returns the first match and its groups as pairs of offsets, or nil.
func (x *regex) first(e *env, s string) []int {
	if x.short(len(s), 1) {
		return x.re.FindStringSubmatchIndex(s)
	}
	return x.re.FindReaderSubmatchIndex(&runes{e, s})
}

// each calls visit for up to n matches in order.
func (x *regex) each(e *env, s string, n int, visit func(match []int)) {
	if x.short(len(s), len(s)) {
		for _, match := range x.re.FindAllStringSubmatchIndex(s, n) {
			visit(match)
		}
		return
	}
	// An empty match directly after another match does not count.
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

// next returns the first match that begins at an offset or after it.
func (x *regex) next(e *env, s string, at int) []int {
	if at == 0 {
		return x.first(e, s)
	}
	lookback, err := x.lookback()
	if err != nil {
		e.fail(err)
		return nil
	}
	_, size := utf8.DecodeLastRuneInString(s[:at])
	match := lookback.FindReaderSubmatchIndex(&runes{e, s[at-size:]})
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

// noRegex is the result of a function whose pattern is invalid.
func (e *env) noRegex(err error) value.Value {
	if !errors.Is(err, errPattern) {
		e.fail(err)
	}
	return value.Undefined()
}

// noRegexRun returns the runner for a pattern with an error. A query without documents
// does not report the error.
func noRegexRun(err error) runner {
	return func(e *env, _ []value.Value) value.Value { return e.noRegex(err) }
}

func regexMatch(e *env, x *regex, s value.Value) value.Value {
	if s.Kind() != value.KindString {
		return value.Undefined()
	}
	return value.Bool(x.match(e, s.Text()))
}

// fixedRegex compiles a constant pattern of RegexMatch once.
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

// extraction is the argument of REGEXEXTRACT and REGEXEXTRACTALL: an expression and
// the number of the group to return, 0 for the whole match.
type extraction struct {
	*regex
	group int
}

// extractionOf parses the arguments after the string.
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

// extract returns a function of a string and an extraction, which is parsed once if it
// is constant.
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

// extractionNow parses arguments that are not constant.
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

// of returns the text of the group in a match. A group without a match has none.
func (x extraction) of(s string, match []int) (text string, ok bool) {
	from, to := match[2*x.group], match[2*x.group+1]
	if from < 0 {
		return "", false
	}
	return s[from:to], true
}

// regexExtract returns the first match, or undefined.
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

// regexExtractAll returns the array of all matches, which may be empty. A match
// without the group counts as an empty string, so that matches keep their positions.
func regexExtractAll(e *env, x extraction, s string) value.Value {
	var items []value.Value
	x.each(e, s, arrayItemsMax, func(match []int) {
		text, _ := x.of(s, match)
		items = append(items, value.String(text))
	})
	return value.Array(items)
}

// replaceMatches returns REGEXREPLACE, which replaces the first match of a pattern, or
// REGEXREPLACEALL, which replaces up to most of them. The new text is literal. A
// constant pattern is compiled once.
func replaceMatches(most int) func(b binding) runner {
	return func(b binding) runner {
		pattern, known := b.constant(1)
		modifiers := value.String("")
		if len(b.parts) == 4 && known {
			modifiers, known = b.constant(3)
		}
		var fixed *regex
		if known {
			var err error
			if fixed, err = b.regex(pattern, modifiers); err != nil {
				return noRegexRun(err)
			}
		}
		return func(e *env, args []value.Value) value.Value {
			if !texts(args) {
				return value.Undefined()
			}
			x := fixed
			if x == nil {
				found, err := extractionNow(e, slices.Concat(args[1:2], args[3:]))
				if err != nil {
					return e.noRegex(err)
				}
				x = found.regex
			}
			return x.replace(e, args[0].Text(), args[2].Text(), most)
		}
	}
}

// replace replaces up to most matches.
func (x *regex) replace(e *env, s, with string, most int) value.Value {
	var b strings.Builder
	end, fits := 0, true
	x.each(e, s, most, func(match []int) {
		if fits = fits && e.fits(b.Len()+len(s)-end+len(with)); fits {
			b.WriteString(s[end:match[0]])
			b.WriteString(with)
			end = match[1]
		}
	})
	if !fits {
		return value.Undefined()
	}
	b.WriteString(s[end:])
	return value.String(b.String())
}
