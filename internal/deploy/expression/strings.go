package expression

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

func stringFunctions() []*function {
	return []*function{
		{name: "base64", min: 1, max: 1, eval: textual(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) })},
		{name: "base64ToString", min: 1, max: 1, eval: fromBase64},
		{name: "base64ToJson", min: 1, max: 1, eval: func(c *called) (any, error) {
			text, err := fromBase64(c)
			if err != nil {
				return nil, err
			}
			return c.parseJSON(text.(string))
		}},
		{name: "json", min: 1, max: 1, eval: func(c *called) (any, error) {
			text, err := c.text(0)
			if err != nil {
				return nil, err
			}
			return c.parseJSON(text)
		}},
		{name: "concat", max: -1, structural: true, eval: concat},
		{name: "endsWith", min: 2, max: 2, eval: pair(func(s, part string) any { _, found := trimFold(s, part, true); return found })},
		{name: "startsWith", min: 2, max: 2, eval: pair(func(s, part string) any { _, found := trimFold(s, part, false); return found })},
		{name: "format", min: 1, max: -1, eval: format},
		{name: "guid", min: 1, max: -1, eval: guid},
		{name: "uniqueString", min: 1, max: -1, eval: uniqueString},
		{name: "join", min: 2, max: 2, eval: join},
		{name: "padLeft", min: 2, max: 3, eval: padLeft},
		{name: "replace", min: 3, max: 3, eval: replace},
		{name: "split", min: 2, max: 2, eval: split},
		{name: "string", min: 1, max: 1, eval: toText},
		{name: "substring", min: 2, max: 3, eval: substring},
		{name: "toLower", min: 1, max: 1, eval: textual(func(s string) string { return strings.Map(lowerRune, s) })},
		{name: "toUpper", min: 1, max: 1, eval: textual(func(s string) string { return strings.Map(upperRune, s) })},
		{name: "trim", min: 1, max: 1, eval: textual(func(s string) string { return strings.TrimFunc(s, unicode.IsSpace) })},
	}
}

// textual returns a function of one string.
func textual(f func(string) string) func(*called) (any, error) {
	return func(c *called) (any, error) {
		s, err := c.text(0)
		if err != nil {
			return nil, err
		}
		return f(s), nil
	}
}

// pair returns a function of two strings.
func pair(f func(a, b string) any) func(*called) (any, error) {
	return func(c *called) (any, error) {
		s, err := c.texts()
		if err != nil {
			return nil, err
		}
		return f(s[0], s[1]), nil
	}
}

// lowerRune maps a character to the lower case of .NET's invariant culture: one character
// for one, and the Turkish ones stay.
func lowerRune(r rune) rune {
	if r == 'İ' {
		return r
	}
	return unicode.ToLower(r)
}

func upperRune(r rune) rune {
	if r == 'ı' || r == 'ß' {
		return r
	}
	return unicode.ToUpper(r)
}

// fold maps a character so that characters that differ in case are equal.
func fold(r rune) rune { return upperRune(lowerRune(r)) }

// foldText folds all characters.
func foldText(s string) string { return strings.Map(fold, s) }

// trimFold removes a part from the beginning or the end, without regard to case.
func trimFold(s, part string, end bool) (rest string, found bool) {
	s, part = foldText(s), foldText(part)
	if end {
		return strings.CutSuffix(s, part)
	}
	return strings.CutPrefix(s, part)
}

// units returns the UTF-16 units of a string, in which positions count.
func units(s string) []uint16 { return utf16.Encode([]rune(s)) }

func fromUnits(u []uint16) string { return string(utf16.Decode(u)) }

func fromBase64(c *called) (any, error) {
	s, err := c.text(0)
	if err != nil {
		return nil, err
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s))
	if err != nil {
		return nil, c.cannotConvert("decoded from base64 representation")
	}
	return strings.ToValidUTF8(string(decoded), "\uFFFD"), nil
}

func (c *called) parseJSON(text string) (any, error) {
	node, err := jsonc.Parse(text)
	if err != nil {
		return nil, errorf("Unable to evaluate the template language function '%s'. The argument provided is not a valid JSON string.", c.name)
	}
	return node.Plain(), nil
}

// concat joins arrays, or strings, integers and booleans.
func concat(c *called) (any, error) {
	arrays := 0
	for _, arg := range c.args {
		switch arg.(type) {
		case *jsonc.Array:
			arrays++
		case string, int64, jsonc.Big, bool:
		default:
			return nil, mixed()
		}
	}
	if arrays == 0 {
		var out strings.Builder
		for _, arg := range c.args {
			out.WriteString(plainText(arg))
		}
		return out.String(), nil
	}
	if arrays < len(c.args) {
		return nil, mixed()
	}
	var items []any
	for _, arg := range c.args {
		items = append(items, arg.(*jsonc.Array).Items()...)
	}
	return jsonc.NewArray(items...), nil
}

func mixed() error {
	return errorf("The provided parameters for language function 'concat' are invalid. Either all or none of the parameters must be an array. Please see https://aka.ms/arm-function-concat for usage details.")
}

// namespace is that of the version 5 UUIDs of guid.
var namespace = [16]byte{0x11, 0xfb, 0x06, 0xfb, 0x71, 0x2d, 0x4d, 0xdd, 0x98, 0xc7, 0xe7, 0x1b, 0xbd, 0x58, 0x88, 0x30}

func guid(c *called) (any, error) {
	s, err := c.texts()
	if err != nil {
		return nil, err
	}
	sum := sha1.Sum(append(namespace[:], strings.Join(s, "-")...))
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	digits := hex.EncodeToString(sum[:16])
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:], nil
}

func uniqueString(c *called) (any, error) {
	s, err := c.texts()
	if err != nil {
		return nil, err
	}
	return UniqueString(strings.Join(s, "-")), nil
}

// UniqueString returns the 13 letters and digits that stand for a text in the function
// uniqueString.
func UniqueString(text string) string {
	hash := Hash(text)
	var out [13]byte
	for i := range out {
		out[i] = "abcdefghijklmnopqrstuvwxyz234567"[hash>>59]
		hash <<= 5
	}
	return string(out[:])
}

// Hash returns the 64-bit hash of uniqueString, a variant of MurmurHash of two lanes.
func Hash(text string) uint64 {
	const c1, c2 = 0x239B961B, 0xAB0E9789
	var h1, h2 uint32
	data := []byte(text)
	for ; len(data) >= 8; data = data[8:] {
		k1, k2 := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
		h1 ^= bits.RotateLeft32(k1*c1, 15) * c2
		h1 = bits.RotateLeft32(h1, 19) + h2
		h1 = h1*5 + 1444728091
		h2 ^= bits.RotateLeft32(k2*c2, 17) * c1
		h2 = bits.RotateLeft32(h2, 13) + h1
		h2 = h2*5 + 197830471
	}
	if len(data) > 0 {
		var tail [8]byte
		copy(tail[:], data)
		if len(data) > 4 {
			h2 ^= bits.RotateLeft32(binary.LittleEndian.Uint32(tail[4:])*c2, 17) * c1
		}
		h1 ^= bits.RotateLeft32(binary.LittleEndian.Uint32(tail[:])*c1, 15) * c2
	}
	h1 ^= uint32(len(text))
	h2 ^= uint32(len(text))
	h1 += h2
	h2 += h1
	h1, h2 = mix(h1), mix(h2)
	h1 += h2
	h2 += h1
	return uint64(h2)<<32 | uint64(h1)
}

func mix(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x85EBCA6B
	h ^= h >> 13
	h *= 0xC2B2AE35
	return h ^ h>>16
}

func join(c *called) (any, error) {
	items, err := c.array(0)
	if err != nil {
		return nil, err
	}
	with, err := c.text(1)
	if err != nil {
		return nil, err
	}
	if err := c.fits(len(with), items.Len()); err != nil {
		return nil, err
	}
	parts := make([]string, items.Len())
	for i, item := range items.Items() {
		parts[i] = plainText(item)
	}
	return strings.Join(parts, with), nil
}

// fits refuses a text before it is made, if it will have more than about size*times bytes.
func (c *called) fits(size, times int) error {
	if size > 0 && times > WeightMax*8/size {
		return errorf("The template is not valid: the value of an expression is too large.")
	}
	return nil
}

func padLeft(c *called) (any, error) {
	switch c.args[0].(type) {
	case string, int64:
	default:
		return nil, c.wrongType(0, "String", "Integer")
	}
	text := plainText(c.args[0])
	width, err := c.integer(1)
	if err != nil {
		return nil, err
	}
	with := " "
	if len(c.args) > 2 {
		if with, err = c.text(2); err != nil {
			return nil, err
		}
		if utf16Len(with) != 1 {
			return nil, errorf("Unable to evaluate template language function 'padLeft': the third parameter is invalid. The padding character must be a single character, while '%s' was provided. The syntax is padLeft(string, totalWidth [, paddingChar]). Please see https://aka.ms/arm-function-padleft for usage details.", with)
		}
	}
	if err := c.fits(len(with), int(min(max(width, 0), WeightMax*8+1))); err != nil {
		return nil, err
	}
	missing := int(width) - utf16Len(text)
	return strings.Repeat(with, max(missing, 0)) + text, nil
}

func replace(c *called) (any, error) {
	s, err := c.texts()
	if err != nil {
		return nil, err
	}
	if s[1] == "" {
		return nil, errorf("The template language function 'replace' expects its second parameter to not be null or empty." + usage)
	}
	if err := c.fits(len(s[2]), strings.Count(s[0], s[1])); err != nil {
		return nil, err
	}
	return strings.ReplaceAll(s[0], s[1], s[2]), nil
}

func split(c *called) (any, error) {
	text, err := c.text(0)
	if err != nil {
		return nil, err
	}
	var delimiters []string
	switch by := c.args[1].(type) {
	case string:
		delimiters = []string{by}
	case *jsonc.Array:
		for _, item := range by.Items() {
			s, is := item.(string)
			if !is {
				return nil, c.wrongType(1, "String", "Array")
			}
			delimiters = append(delimiters, s)
		}
	default:
		return nil, c.wrongType(1, "String", "Array")
	}
	if err := c.env.spend(len(text) / 8 * len(delimiters)); err != nil {
		return nil, err
	}
	var items []any
	begin := 0
	for at := 0; at < len(text); {
		cut := 0
		for _, d := range delimiters {
			if d != "" && strings.HasPrefix(text[at:], d) {
				cut = len(d)
				break
			}
		}
		if cut == 0 {
			at++
			continue
		}
		items = append(items, text[begin:at])
		at += cut
		begin = at
	}
	return jsonc.NewArray(append(items, text[begin:])...), nil
}

func toText(c *called) (any, error) {
	switch v := c.args[0].(type) {
	case string, bool, int64, jsonc.Big:
		return plainText(v), nil
	case *jsonc.Array, *jsonc.Object:
		return jsonc.Text(v), nil
	}
	return nil, c.wrongType(0, "Integer", "String", "Boolean", "Object", "Array")
}

func substring(c *called) (any, error) {
	s, err := c.text(0)
	if err != nil {
		return nil, err
	}
	u := units(s)
	size := int64(len(u))
	index, err := c.integer(1)
	if err != nil {
		return nil, err
	}
	const where = "Unable to evaluate the template language function 'substring'. "
	const see = " Please see https://aka.ms/arm-function-substring for usage details."
	switch {
	case index < 0:
		return nil, errorf(where+"The index parameter cannot be less than zero. The index: '%d'."+see, index)
	case index > size:
		return nil, errorf(where+"The index parameter cannot be larger than the length of the string. The index parameter: '%d', the length of the string parameter: '%d'."+see, index, size)
	}
	length := size - index
	if len(c.args) > 2 {
		if length, err = c.integer(2); err != nil {
			return nil, err
		}
		if length < 0 {
			return nil, errorf(where+"The length parameter cannot be less than zero. The length parameter: '%d'."+see, length)
		}
		if length > size-index {
			return nil, errorf(where+"The index and length parameters must refer to a location within the string. The index parameter: '%d', the length parameter: '%d', the length of the string parameter: '%d'."+see, index, length, size)
		}
	}
	return fromUnits(u[index : index+length]), nil
}

// indexFold returns the position of a part in UTF-16 units, without regard to case, or -1.
func indexFold(s, part string, last bool) int64 {
	s, part = foldText(s), foldText(part)
	at := strings.Index(s, part)
	if last {
		at = strings.LastIndex(s, part)
		if part == "" && s != "" { // .NET Framework's answer.
			_, size := utf8.DecodeLastRuneInString(s)
			at = len(s) - size
		}
	}
	if at < 0 {
		return -1
	}
	return int64(utf16Len(s[:at]))
}
