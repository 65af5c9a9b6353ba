package query

import (
	"slices"
	"strconv"
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
		convert("LOWER", strings.ToLower), convert("UPPER", strings.ToUpper), convert("REVERSE", reverse),
		one("LENGTH", func(s string) value.Value { return value.Int(int64(utf8.RuneCountInString(s))) }),
		trim("TRIM", strings.TrimFunc), trim("LTRIM", strings.TrimLeftFunc), trim("RTRIM", strings.TrimRightFunc),
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

// texts returns the arguments if all are strings.
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
				s, t = strings.ToLower(s), strings.ToLower(t)
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
			s = strings.ToLower(s)
		}
		result := decides.not()
		for _, arg := range args[1:] {
			if !e.work(len(s) + arg.Len()) {
				return value.Undefined()
			}
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

// blankCharacters are the characters that a pattern ignores with the modifier x.
const blankCharacters = " \t\r\n\v\f"

// trim returns a function with an optional set of characters to remove. The default is
// the white space of Unicode.
func trim(name string, cut func(s string, in func(r rune) bool) string) function {
	return function{name: name, min: 1, max: 2, run: func(_ *env, args []value.Value) value.Value {
		switch {
		case !texts(args):
			return value.Undefined()
		case len(args) == 1:
			return value.String(cut(args[0].Text(), unicode.IsSpace))
		}
		return value.String(cut(args[0].Text(), characters(args[1].Text())))
	}}
}

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

// sub returns length characters from start, both limited to the string.
func sub(s, start, length value.Value) value.Value {
	from, okFrom := whole(start)
	n, okN := whole(length)
	if s.Kind() != value.KindString || !okFrom || !okN {
		return value.Undefined()
	}
	rest := s.Text()[offset(s.Text(), from):]
	return value.String(rest[:offset(rest, n)])
}

// part returns a function that splits a string at a delimiter and returns the part
// before it or after it. Without the delimiter the result is the empty string; the
// documentation does not say.
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
	n, ok := whole(args[1])
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
		from, ok = whole(args[2])
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
		from, ok := whole(args[2])
		if !ok || from < 0 {
			return value.Undefined()
		}
		// A match may begin at the position, but not after it.
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

// replicateMax is the documented maximum length of the result of REPLICATE, in
// characters.
const replicateMax = 10_000

func replicate(_ *env, args []value.Value) value.Value {
	n, ok := whole(args[1])
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
