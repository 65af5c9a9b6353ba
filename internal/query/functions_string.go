package query

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/decandb/decan/internal/value"
)

// stringFunctions take strings. Any other argument makes them undefined. Positions and
// lengths count characters, not bytes.
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
		convert("LOWER", lower), convert("UPPER", upper), convert("REVERSE", reverse),
		one("LENGTH", func(s string) value.Value { return value.Int(int64(utf8.RuneCountInString(s))) }),
		trim("TRIM", strings.TrimFunc), trim("LTRIM", strings.TrimLeftFunc), trim("RTRIM", strings.TrimRightFunc),
		{name: "CONCAT", min: 2, max: -1, run: concat},
		{name: "INDEX_OF INDEXOF", min: 2, max: 3, run: indexOf},
		{name: "LASTINDEXOF", min: 2, max: 3, run: lastIndexOf},
		{name: "LEFT", min: 2, max: 2, run: func(_ *env, args []value.Value) value.Value {
			return sub(args[0], value.Int(0), args[1])
		}},
		{name: "RIGHT", min: 2, max: 2, run: right},
		{name: "SUBSTRING", min: 3, max: 3, run: func(_ *env, args []value.Value) value.Value {
			return sub(args[0], args[1], args[2])
		}},
		{name: "REPLACE", min: 3, max: 3, run: replace},
		{name: "REPLICATE", min: 2, max: 2, run: replicate},
		{name: "RegexMatch", min: 2, max: 3, run: dynamicRegex},
		{name: "REGEXEXTRACT", min: 2, max: 4, bind: extract(regexExtract)},
		{name: "REGEXEXTRACTALL", min: 2, max: 4, bind: extract(regexExtractAll)},
		{name: "REGEXREPLACE", min: 3, max: 4, bind: replaceMatches(1)},
		{name: "REGEXREPLACEALL", min: 3, max: 4, bind: replaceMatches(math.MaxInt)},
		part("SUBSTRINGBEFORE", strings.Index, false), part("SUBSTRINGAFTER", strings.Index, true),
		part("LASTSUBSTRINGBEFORE", strings.LastIndex, false),
		part("LASTSUBSTRINGAFTER", strings.LastIndex, true),
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
			v, err := value.ParseLenient(s)
			if err != nil || v.Kind() != kind {
				return value.Undefined()
			}
			return v
		}))
	}
	return list
}

// lower and upper change the case of single characters, but only if both characters map
// to each other. İ and ǅ stay unchanged because their counterparts map to other
// characters.
func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return strings.Map(func(r rune) rune { return counterpart(r, unicode.ToLower, unicode.ToUpper) }, s)
}

func upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	return strings.Map(func(r rune) rune { return counterpart(r, unicode.ToUpper, unicode.ToLower) }, s)
}

func counterpart(r rune, change, back func(r rune) rune) rune {
	if c := change(r); back(c) == r {
		return c
	}
	return r
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// texts reports whether the arguments are strings.
func texts(args []value.Value) bool {
	for _, a := range args {
		if a.Kind() != value.KindString {
			return false
		}
	}
	return true
}

// search returns a test of two strings, with an optional third argument that ignores
// case.
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
				s, t = lower(s), lower(t)
			}
		}
		return value.Bool(holds(s, t))
	}}
}

// searchMany returns CONTAINS with several strings, any or all of which must occur.
func searchMany(name string, ignoreCase, all bool) function {
	decides := truthOf(!all)
	return function{name: name, min: 2, max: -1, run: func(e *env, args []value.Value) value.Value {
		if args[0].Kind() != value.KindString {
			return value.Undefined()
		}
		s := args[0].Text()
		if ignoreCase {
			s = lower(s)
		}
		result := decides.not()
		for _, arg := range args[1:] {
			if !e.work(len(s) + arg.Len()) {
				return value.Undefined()
			}
			t := arg.Text()
			if ignoreCase {
				t = lower(t)
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

// blankCharacters are the characters that a pattern ignores with the modifier x.
const blankCharacters = " \t\r\n\v\f"

// trim returns a function with an optional set of characters to remove. Without it, and
// if it is empty, the function removes the white space of Unicode.
func trim(name string, cut func(s string, in func(r rune) bool) string) function {
	return function{name: name, min: 1, max: 2, run: func(_ *env, args []value.Value) value.Value {
		switch {
		case !texts(args):
			return value.Undefined()
		case len(args) == 1 || args[1].Len() == 0:
			return value.String(cut(args[0].Text(), isSpace))
		}
		return value.String(cut(args[0].Text(), characters(args[1].Text())))
	}}
}

// isSpace reports whether trimming removes a character. U+180E was white space in
// earlier versions of Unicode.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r == '\u180e' }

// charactersMax is the length of a set of characters up to which a loop is faster than
// a map.
const charactersMax = 64

// characters returns the function that reports whether a set has a character.
func characters(set string) func(r rune) bool {
	if len(set) <= charactersMax {
		return func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	in := make(map[rune]bool)
	for _, r := range set {
		in[r] = true
	}
	return func(r rune) bool { return in[r] }
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

// offset returns the byte offset of character n of s, or the end of s if there are
// fewer.
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

// sub returns at most length characters from start. It returns an empty string if start
// is negative.
func sub(s, start, length value.Value) value.Value {
	from, okFrom := start.Integer()
	n, okN := length.Integer()
	if s.Kind() != value.KindString || !okFrom || !okN {
		return value.Undefined()
	}
	if from < 0 {
		return value.String("")
	}
	rest := s.Text()[offset(s.Text(), from):]
	return value.String(rest[:offset(rest, n)])
}

// part returns a function that splits a string at a delimiter and returns the part
// before it or after it. Without the delimiter the result is undefined.
func part(name string, find func(s, delimiter string) int, after bool) function {
	return function{name: name, min: 2, max: 2, run: func(_ *env, args []value.Value) value.Value {
		if !texts(args) {
			return value.Undefined()
		}
		s, delimiter := args[0].Text(), args[1].Text()
		i := find(s, delimiter)
		switch {
		case i < 0:
			return value.Undefined()
		case after:
			return value.String(s[i+len(delimiter):])
		}
		return value.String(s[:i])
	}}
}

func right(_ *env, args []value.Value) value.Value {
	n, ok := args[1].Integer()
	if args[0].Kind() != value.KindString || !ok {
		return value.Undefined()
	}
	s := args[0].Text()
	return value.String(s[offset(s, int64(utf8.RuneCountInString(s))-max(n, 0)):])
}

// indexOf begins at a position, which the service truncates to 32 bits. It finds
// nothing from a position outside the string.
func indexOf(_ *env, args []value.Value) value.Value {
	from := int64(0)
	ok := texts(args[:2])
	if len(args) == 3 && ok {
		from, ok = args[2].Integer()
	}
	if !ok {
		return value.Undefined()
	}
	s := args[0].Text()
	from = int64(int32(from))
	if from < 0 || from > int64(utf8.RuneCountInString(s)) {
		return value.Int(-1)
	}
	start := offset(s, from)
	i := strings.Index(s[start:], args[1].Text())
	if i < 0 {
		return value.Int(-1)
	}
	return value.Int(int64(utf8.RuneCountInString(s[:start+i])))
}

// lastIndexOf searches backwards from a position: a match ends there or before. The
// default, also for an undefined position, is the last character. It finds nothing from
// a position outside the string. The service truncates the position to 32 bits.
func lastIndexOf(_ *env, args []value.Value) value.Value {
	if !texts(args[:2]) {
		return value.Undefined()
	}
	s := args[0].Text()
	length := int64(utf8.RuneCountInString(s))
	last := length
	if len(args) == 3 && args[2].IsDefined() {
		var ok bool
		if last, ok = args[2].Integer(); !ok {
			return value.Undefined()
		}
		last = int64(int32(last))
	}
	if last < 0 || last > length {
		return value.Int(-1)
	}
	last = max(0, min(last, length-1))
	if args[1].Len() == 0 {
		return value.Int(last)
	}
	s = s[:offset(s, last+1)]
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
	if old == "" || !e.fits(len(s)+strings.Count(s, old)*max(0, len(with)-len(old))) {
		return value.Undefined()
	}
	return value.String(strings.ReplaceAll(s, old, with))
}

// replicateMax is the maximum length of the result of REPLICATE, in characters. The
// documentation says 10,000, but the service accepts 100,000.
const replicateMax = 100_000

func replicate(_ *env, args []value.Value) value.Value {
	n, ok := args[1].Integer()
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

func toString(e *env, args []value.Value) value.Value {
	v := args[0]
	if v.Kind() == value.KindString || !v.IsDefined() {
		return v
	}
	if !e.fitsValue(v) {
		return value.Undefined()
	}
	if v.Signed() == 0 && math.Signbit(v.Signed()) {
		return value.String("-0") // Unlike here, the text of an array writes -0 without a sign.
	}
	return value.String(string(v.AppendText(nil)))
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
