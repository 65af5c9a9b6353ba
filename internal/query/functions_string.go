package query

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/decandb/decan/internal/value"
)

// stringFunctions take strings; any other argument makes them undefined.
// Positions and lengths count characters, not bytes.
func stringFunctions() []function {
	one := func(name string, f func(s string) value.Value) function {
		return function{name: name, min: 1, max: 1, run: func(_ *env, args []value.Value) value.Value {
			if args[0].Kind() != value.KindString {
				return value.Undefined()
			}
			return f(args[0].Text())
		}}
	}
	convert := func(name string, f func(s string) string) function {
		return one(name, func(s string) value.Value { return value.String(f(s)) })
	}
	list := []function{
		search("CONTAINS", strings.Contains), search("STARTSWITH", strings.HasPrefix),
		search("ENDSWITH", strings.HasSuffix), search("STRINGEQUALS STRING_EQUALS", func(a, b string) bool { return a == b }),
		searchMany("CONTAINS_ANY_CS", false, false), searchMany("CONTAINS_ALL_CS", false, true),
		searchMany("CONTAINS_ANY_CI", true, false), searchMany("CONTAINS_ALL_CI", true, true),
		convert("LOWER", strings.ToLower), convert("UPPER", strings.ToUpper), convert("REVERSE", reverse),
		one("LENGTH", func(s string) value.Value { return value.Int(int64(utf8.RuneCountInString(s))) }),
		trim("TRIM", strings.TrimSpace, strings.Trim),
		trim("LTRIM", func(s string) string { return strings.TrimLeft(s, blankCharacters) }, strings.TrimLeft),
		trim("RTRIM", func(s string) string { return strings.TrimRight(s, blankCharacters) }, strings.TrimRight),
		{name: "CONCAT", min: 2, max: -1, run: concat},
		{name: "INDEX_OF", min: 2, max: 3, run: indexOf},
		{name: "LASTINDEXOF LAST_INDEX_OF", min: 2, max: 3, run: lastIndexOf},
		{name: "LEFT", min: 2, max: 2, run: func(_ *env, args []value.Value) value.Value {
			return sub(args[0], value.Int(0), args[1])
		}},
		{name: "RIGHT", min: 2, max: 2, run: right},
		{name: "SUBSTRING", min: 3, max: 3, run: func(_ *env, args []value.Value) value.Value {
			return sub(args[0], args[1], args[2])
		}},
		{name: "REPLACE", min: 3, max: 3, run: replace},
		{name: "REPLICATE", min: 2, max: 2, run: replicate},
		{name: "RegexMatch REGEX_MATCH", min: 2, max: 3, run: dynamicRegex},
		{name: "REGEXEXTRACT REGEX_EXTRACT", min: 2, max: 4, bind: extract(regexExtract)},
		{name: "REGEXEXTRACTALL REGEX_EXTRACT_ALL", min: 2, max: 4, bind: extract(regexExtractAll)},
		part("SUBSTRINGBEFORE SUBSTRING_BEFORE", strings.Index, false), part("SUBSTRINGAFTER SUBSTRING_AFTER", strings.Index, true),
		part("LASTSUBSTRINGBEFORE LAST_SUBSTRING_BEFORE", strings.LastIndex, false),
		part("LASTSUBSTRINGAFTER LAST_SUBSTRING_AFTER", strings.LastIndex, true),
		{name: "ToString TO_STRING", min: 1, max: 1, run: toString},
		{name: "StringJoin STRING_JOIN", min: 2, max: 2, run: stringJoin},
		{name: "StringSplit STRING_SPLIT", min: 2, max: 2, run: stringSplit},
	}
	for name, kind := range map[string]value.Kind{
		"StringToArray STRING_TO_ARRAY": value.KindArray, "StringToBoolean STRING_TO_BOOLEAN": value.KindBool,
		"StringToNull STRING_TO_NULL": value.KindNull, "StringToNumber STRING_TO_NUMBER": value.KindNumber,
		"StringToObject STRING_TO_OBJECT": value.KindObject,
	} {
		list = append(list, one(name, func(s string) value.Value {
			v, err := value.Parse([]byte(s))
			if err != nil || v.Kind() != kind {
				return value.Undefined()
			}
			return v
		}))
	}
	return list
}

// texts returns the arguments when all are strings.
func texts(args []value.Value) bool {
	for _, a := range args {
		if a.Kind() != value.KindString {
			return false
		}
	}
	return true
}

// search makes a question about two strings, with an optional third argument
// that asks to ignore case.
func search(name string, holds func(s, t string) bool) function {
	return function{name: name, min: 2, max: 3, run: func(_ *env, args []value.Value) value.Value {
		if !texts(args[:2]) {
			return value.Undefined()
		}
		s, t := args[0].Text(), args[1].Text()
		if len(args) == 3 {
			if args[2].Kind() != value.KindBool {
				return value.Undefined()
			}
			if args[2].IsTrue() {
				s, t = strings.ToLower(s), strings.ToLower(t)
			}
		}
		return value.Bool(holds(s, t))
	}}
}

// searchMany makes CONTAINS with several strings, of which any or all must be
// there.
func searchMany(name string, ignoreCase, all bool) function {
	decides := truthOf(!all)
	return function{name: name, min: 2, max: -1, run: func(_ *env, args []value.Value) value.Value {
		if args[0].Kind() != value.KindString {
			return value.Undefined()
		}
		s := args[0].Text()
		if ignoreCase {
			s = strings.ToLower(s)
		}
		result := decides.not()
		for _, arg := range args[1:] {
			t := arg.Text()
			if ignoreCase {
				t = strings.ToLower(t)
			}
			switch {
			case arg.Kind() != value.KindString:
				result = unknown
			case truthOf(strings.Contains(s, t)) == decides:
				return decides.value()
			}
		}
		return result.value()
	}}
}

const blankCharacters = " \t\r\n\v\f"

// trim makes a function with an optional set of characters to cut off.
func trim(name string, blank func(s string) string, cut func(s, set string) string) function {
	return function{name: name, min: 1, max: 2, run: func(_ *env, args []value.Value) value.Value {
		switch {
		case !texts(args):
			return value.Undefined()
		case len(args) == 1:
			return value.String(blank(args[0].Text()))
		}
		return value.String(cut(args[0].Text(), args[1].Text()))
	}}
}

func reverse(s string) string {
	runes := []rune(s)
	slices.Reverse(runes)
	return string(runes)
}

func concat(e *env, args []value.Value) value.Value {
	n := 0
	for _, a := range args {
		n += a.Len()
	}
	if !texts(args) || !e.fits(n) {
		return value.Undefined()
	}
	var b strings.Builder
	b.Grow(n)
	for _, a := range args {
		b.WriteString(a.Text())
	}
	return value.String(b.String())
}

// offset returns the byte position of character n of s, the end for those
// behind it.
func offset(s string, n int64) int {
	if n <= 0 {
		return 0
	}
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// sub returns length characters from start on, both clipped to the string.
func sub(s, start, length value.Value) value.Value {
	from, okFrom := start.Int64()
	n, okN := length.Int64()
	if s.Kind() != value.KindString || !okFrom || !okN {
		return value.Undefined()
	}
	rest := s.Text()[offset(s.Text(), from):]
	return value.String(rest[:offset(rest, n)])
}

// part makes a function that splits a string at a delimiter and keeps the part
// in front of it or behind it. Without the delimiter there is no such part, and
// the result is the empty string; the documentation is silent on that.
func part(name string, find func(s, delimiter string) int, behind bool) function {
	return function{name: name, min: 2, max: 2, run: func(_ *env, args []value.Value) value.Value {
		if !texts(args) {
			return value.Undefined()
		}
		s, delimiter := args[0].Text(), args[1].Text()
		i := find(s, delimiter)
		switch {
		case i < 0:
			return value.String("")
		case behind:
			return value.String(s[i+len(delimiter):])
		}
		return value.String(s[:i])
	}}
}

func right(_ *env, args []value.Value) value.Value {
	n, ok := args[1].Int64()
	if args[0].Kind() != value.KindString || !ok {
		return value.Undefined()
	}
	s := args[0].Text()
	return value.String(s[offset(s, int64(utf8.RuneCountInString(s))-max(n, 0)):])
}

func indexOf(_ *env, args []value.Value) value.Value {
	from := int64(0)
	ok := texts(args[:2])
	if len(args) == 3 && ok {
		from, ok = args[2].Int64()
	}
	if !ok || from < 0 {
		return value.Undefined()
	}
	s := args[0].Text()
	start := offset(s, from)
	i := strings.Index(s[start:], args[1].Text())
	if i < 0 {
		return value.Int(-1)
	}
	return value.Int(int64(utf8.RuneCountInString(s[:start+i])))
}

func lastIndexOf(_ *env, args []value.Value) value.Value {
	if !texts(args[:2]) {
		return value.Undefined()
	}
	s := args[0].Text()
	if len(args) == 3 {
		from, ok := args[2].Int64()
		if !ok || from < 0 {
			return value.Undefined()
		}
		// A match may begin at the position, not behind it.
		s = s[:min(len(s), offset(s, from)+len(args[1].Text()))]
	}
	i := strings.LastIndex(s, args[1].Text())
	if i < 0 {
		return value.Int(-1)
	}
	return value.Int(int64(utf8.RuneCountInString(s[:i])))
}

func replace(e *env, args []value.Value) value.Value {
	if !texts(args) {
		return value.Undefined()
	}
	s, old, with := args[0].Text(), args[1].Text(), args[2].Text()
	if old == "" {
		return args[0]
	}
	if !e.fits(len(s) + strings.Count(s, old)*max(0, len(with)-len(old))) {
		return value.Undefined()
	}
	return value.String(strings.ReplaceAll(s, old, with))
}

// replicateMax is the documented limit of REPLICATE's result, in characters.
const replicateMax = 10_000

func replicate(_ *env, args []value.Value) value.Value {
	n, ok := args[1].Int64()
	if args[0].Kind() != value.KindString || !ok || n < 0 {
		return value.Undefined()
	}
	s := args[0].Text()
	if s == "" {
		return args[0]
	}
	if n > replicateMax || n*int64(utf8.RuneCountInString(s)) > replicateMax {
		return value.Undefined()
	}
	return value.String(strings.Repeat(s, int(n)))
}

// compileRegex makes an expression of Go's syntax, which lacks the look-around
// and back-references of PCRE and cannot run away in time. ok is false for a
// pattern it does not know.
func compileRegex(text, modifiers value.Value) (re *regexp.Regexp, ok bool) {
	if text.Kind() != value.KindString || modifiers.Kind() != value.KindString {
		return nil, false
	}
	expr := text.Text()
	if m := modifiers.Text(); m != "" {
		if strings.Trim(m, "imsx") != "" {
			return nil, false
		}
		if strings.Contains(m, "x") {
			expr, m = extended(expr), strings.ReplaceAll(m, "x", "")
		}
		if m != "" {
			expr = "(?" + m + ")" + expr
		}
	}
	re, err := regexp.Compile(expr)
	return re, err == nil
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

func dynamicRegex(_ *env, args []value.Value) value.Value {
	modifiers := value.String("")
	if len(args) == 3 {
		modifiers = args[2]
	}
	re, ok := compileRegex(args[1], modifiers)
	if !ok {
		return value.Undefined()
	}
	return regexMatch(re, args[0])
}

// extraction is what REGEXEXTRACT and REGEXEXTRACTALL look for: an expression,
// and the number of the group to return, 0 for the whole match.
type extraction struct {
	re    *regexp.Regexp
	group int
}

// extractionOf reads the arguments behind the string.
func extractionOf(args []value.Value) (extraction, bool) {
	modifiers, number := value.String(""), value.Int(0)
	if len(args) > 1 {
		modifiers = args[1]
	}
	if len(args) > 2 {
		number = args[2]
	}
	re, ok := compileRegex(args[0], modifiers)
	n, whole := number.Int64()
	if !ok || !whole || n < 0 || n > int64(re.NumSubexp()) {
		return extraction{}, false
	}
	return extraction{re: re, group: int(n)}, true
}

// extract makes a function of a string and an extraction, which is read once
// when it is constant.
func extract(f func(x extraction, s string) value.Value) func(b binding) runner {
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
			var ok bool
			if x, ok = extractionOf(fixed); !ok {
				return undefinedRun
			}
		}
		return func(_ *env, args []value.Value) value.Value {
			x, ok := x, known
			if !known {
				x, ok = extractionOf(args[1:])
			}
			if !ok || args[0].Kind() != value.KindString {
				return value.Undefined()
			}
			return f(x, args[0].Text())
		}
	}
}

// regexExtract is the first match, undefined without one.
func regexExtract(x extraction, s string) value.Value {
	at := x.re.FindStringSubmatchIndex(s)
	if at == nil || at[2*x.group] < 0 {
		return value.Undefined()
	}
	return value.String(s[at[2*x.group]:at[2*x.group+1]])
}

// regexExtractAll is the array of all matches, empty without one. A match in
// which the group takes no part counts as the empty string, so that matches
// keep their places.
func regexExtractAll(x extraction, s string) value.Value {
	var items []value.Value
	for _, match := range x.re.FindAllStringSubmatch(s, arrayItemsMax) {
		items = append(items, value.String(match[x.group]))
	}
	return value.Array(items)
}

func toString(e *env, args []value.Value) value.Value {
	v := args[0]
	switch {
	case v.Kind() == value.KindString || !v.IsDefined():
		return v
	case v.Kind() == value.KindNumber && !v.Finite():
		text := strconv.FormatFloat(v.Float(), 'g', -1, 64)
		return value.String(strings.TrimPrefix(strings.Replace(text, "Inf", "Infinity", 1), "+"))
	}
	if !e.fitsValue(v) {
		return value.Undefined()
	}
	return value.String(v.JSON())
}

func stringJoin(e *env, args []value.Value) value.Value {
	items := args[0].Items()
	if args[0].Kind() != value.KindArray || args[1].Kind() != value.KindString || !texts(items) {
		return value.Undefined()
	}
	parts := make([]string, len(items))
	n := args[1].Len() * len(items)
	for i, item := range items {
		parts[i] = item.Text()
		n += item.Len()
	}
	if !e.fits(n) {
		return value.Undefined()
	}
	return value.String(strings.Join(parts, args[1].Text()))
}

func stringSplit(_ *env, args []value.Value) value.Value {
	if !texts(args) {
		return value.Undefined()
	}
	if args[1].Text() == "" {
		return value.Array([]value.Value{args[0]})
	}
	parts := strings.Split(args[0].Text(), args[1].Text())
	items := make([]value.Value, len(parts))
	for i, part := range parts {
		items[i] = value.String(part)
	}
	return value.Array(items)
}
