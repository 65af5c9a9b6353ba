package row

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AppendJSON appends a value as SELECT JSON and toJson print it: numbers plain,
// a double as Java prints it and NaN as null, other native values as strings,
// keys of maps as strings. Null is null.
func (t *Type) AppendJSON(dst, v []byte) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	switch t.Kind {
	case KindASCII, KindText:
		return AppendJSONString(dst, string(v))
	case KindBlob:
		return append(t.appendText(append(dst, `"0x`...), v), '"')
	case KindList, KindSet, KindTuple, KindVector:
		dst = append(dst, '[')
		for i, part := range t.Split(v) {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = t.Parts[i%len(t.Parts)].AppendJSON(dst, part)
		}
		return append(dst, ']')
	case KindMap:
		return t.appendJSONMap(dst, v)
	case KindUDT:
		dst = append(dst, '{')
		for i, part := range t.Split(v) {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(AppendJSONName(dst, t.Fields[i]), ": "...)
			dst = t.Parts[i].AppendJSON(dst, part)
		}
		return append(dst, '}')
	}
	if len(v) == 0 {
		return append(dst, `""`...)
	}
	switch t.Kind {
	case KindDouble, KindFloat:
		if f := Floating(v); f != f || math.IsInf(f, 0) {
			return append(dst, "null"...)
		}
		return t.appendText(dst, v)
	case KindTinyInt, KindSmallInt, KindInt, KindBigInt, KindCounter, KindVarInt, KindDecimal, KindBoolean:
		return t.appendText(dst, v)
	case KindTimestamp:
		return append(appendTimestamp(append(dst, '"'), Integer(v), ' '), '"')
	}
	return append(t.appendText(append(dst, '"'), v), '"')
}

func (t *Type) appendJSONMap(dst, v []byte) []byte {
	dst = append(dst, '{')
	for i, part := range t.Split(v) {
		if i%2 == 1 {
			dst = t.Parts[1].AppendJSON(append(dst, ": "...), part)
			continue
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		start := len(dst)
		dst = t.Parts[0].AppendJSON(dst, part)
		if dst[start] != '"' {
			key := string(dst[start:])
			dst = AppendJSONString(dst[:start], key)
		}
	}
	return append(dst, '}')
}

// AppendJSONName appends the name of a column or field as a JSON string. A name
// that CQL folds to another one has double quotes inside.
func AppendJSONName(dst []byte, name string) []byte {
	if name != strings.ToLower(name) {
		name = `"` + name + `"`
	}
	return AppendJSONString(dst, name)
}

// AppendJSONString appends a JSON string with the escapes that Cassandra uses.
func AppendJSONString(dst []byte, text string) []byte {
	const digits = "0123456789ABCDEF"
	dst = append(dst, '"')
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(text[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		switch at := strings.IndexByte("\"\\\b\t\n\f\r", c); {
		case at >= 0:
			dst = append(dst, '\\', `"\btnfr`[at])
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
		i++
	}
	return append(dst, '"')
}

// JSON is a parsed JSON value. The zero value is null.
type JSON struct {
	kind jsonKind
	// text is the content of a string, a number as written, or true or false.
	text string
	// list are the elements of an array.
	list []JSON
	// Members are the members of an object in their order, each name once.
	Members []JSONMember
}

// JSONMember is a member of a JSON object.
type JSONMember struct {
	Name  string
	Value JSON
}

type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBoolean
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

// jsonDepthMax bounds the nesting of a JSON text.
const jsonDepthMax = 1000

func badJSON(format string, args ...any) error {
	return &Error{Reason: BadJSON, Text: fmt.Sprintf(format, args...)}
}

// Null says whether the value is null.
func (j JSON) Null() bool { return j.kind == jsonNull }

// ParseJSON parses the first JSON value of a text; it ignores what follows. Of
// members with the same name, the last one counts.
func ParseJSON(text string) (JSON, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	j, err := parseJSON(decoder, 0)
	if err != nil {
		return JSON{}, badJSON("Error decoding JSON string: %s", err)
	}
	return j, nil
}

// ParseJSONRow parses the text of INSERT JSON: an object, of which the names fold
// to lower case unless they are in quotes.
func ParseJSONRow(text string) ([]JSONMember, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	j, err := parseJSON(decoder, 0)
	switch {
	case err != nil:
		return nil, badJSON("Could not decode JSON string as a map: %s. (String was: %s)", err, text)
	case j.kind == jsonNull:
		return nil, badJSON("Got null for INSERT JSON values")
	case j.kind != jsonObject:
		return nil, badJSON("Could not decode JSON string as a map: it is %s. (String was: %s)", j.class(), text)
	}
	return foldNames(j.Members), nil
}

func parseJSON(decoder *json.Decoder, depth int) (JSON, error) {
	token, err := decoder.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return JSON{}, err
	}
	if depth > jsonDepthMax {
		return JSON{}, fmt.Errorf("nesting is deeper than %d", jsonDepthMax)
	}
	switch token := token.(type) {
	case bool:
		return JSON{kind: jsonBoolean, text: strconv.FormatBool(token)}, nil
	case json.Number:
		return JSON{kind: jsonNumber, text: token.String()}, nil
	case string:
		return JSON{kind: jsonString, text: token}, nil
	case json.Delim:
		if token == '[' {
			return parseJSONArray(decoder, depth)
		}
		return parseJSONObject(decoder, depth)
	}
	return JSON{}, nil
}

func parseJSONArray(decoder *json.Decoder, depth int) (JSON, error) {
	j := JSON{kind: jsonArray}
	for decoder.More() {
		element, err := parseJSON(decoder, depth+1)
		if err != nil {
			return JSON{}, err
		}
		j.list = append(j.list, element)
	}
	_, err := decoder.Token()
	return j, err
}

func parseJSONObject(decoder *json.Decoder, depth int) (JSON, error) {
	j := JSON{kind: jsonObject}
	index := map[string]int{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return JSON{}, err
		}
		value, err := parseJSON(decoder, depth+1)
		if err != nil {
			return JSON{}, err
		}
		member := JSONMember{Value: value}
		member.Name, _ = name.(string)
		if at, repeated := index[member.Name]; repeated {
			j.Members[at] = member
			continue
		}
		index[member.Name] = len(j.Members)
		j.Members = append(j.Members, member)
	}
	_, err := decoder.Token()
	return j, err
}

// foldNames returns the members with their names as CQL reads them. Of two that
// become one name, the one that changed counts.
func foldNames(members []JSONMember) []JSONMember {
	folded := make([]JSONMember, 0, len(members))
	index := map[string]int{}
	for _, changed := range []bool{false, true} {
		for _, m := range members {
			name := strings.ToLower(m.Name)
			if len(m.Name) >= 2 && strings.HasPrefix(m.Name, `"`) && strings.HasSuffix(m.Name, `"`) {
				name = m.Name[1 : len(m.Name)-1]
			}
			if (name != m.Name) != changed {
				continue
			}
			m.Name = name
			if at, repeated := index[name]; repeated {
				folded[at] = m
				continue
			}
			index[name] = len(folded)
			folded = append(folded, m)
		}
	}
	return folded
}

// class returns the name that messages have for the value: that of its Java
// class.
func (j JSON) class() string {
	switch j.kind {
	case jsonBoolean:
		return "Boolean"
	case jsonString:
		return "String"
	case jsonArray:
		return "ArrayList"
	case jsonObject:
		return "LinkedHashMap"
	case jsonNumber:
		if strings.ContainsAny(j.text, ".eE") {
			return "Double"
		}
		if _, err := strconv.ParseInt(j.text, 10, 32); err == nil {
			return "Integer"
		}
		if _, err := strconv.ParseInt(j.text, 10, 64); err == nil {
			return "Long"
		}
		return "BigInteger"
	}
	return "null"
}

// String returns the value as messages have it: as Java prints it.
func (j JSON) String() string {
	switch j.kind {
	case jsonNull:
		return "null"
	case jsonArray:
		texts := make([]string, len(j.list))
		for i, element := range j.list {
			texts[i] = element.String()
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case jsonObject:
		texts := make([]string, len(j.Members))
		for i, m := range j.Members {
			texts[i] = m.Name + "=" + m.Value.String()
		}
		return "{" + strings.Join(texts, ", ") + "}"
	case jsonNumber:
		if j.class() == "Double" {
			f, _ := strconv.ParseFloat(j.text, 64)
			return string(appendJavaFloat(nil, f, 64))
		}
		if j.text == "-0" {
			return "0"
		}
	}
	return j.text
}

// FromJSON returns the value that JSON denotes for a type, and nil for null. The
// texts of its errors are those of Cassandra 4.1; the caller adds the name of the
// column. The result is normalized.
func (t *Type) FromJSON(j JSON) ([]byte, error) {
	if j.kind == jsonNull {
		return nil, nil
	}
	switch t.Kind {
	case KindList, KindSet, KindMap, KindTuple, KindUDT, KindVector:
		if j.kind == jsonString {
			parsed, err := ParseJSON(j.text)
			if err != nil {
				return nil, err
			}
			j = parsed
		}
		v, err := t.partsFromJSON(j)
		if err != nil {
			return nil, err
		}
		return t.Normalize(v), nil
	}
	return t.nativeFromJSON(j)
}

func (t *Type) partsFromJSON(j JSON) ([]byte, error) {
	var parts [][]byte
	switch {
	case t.Kind == KindMap && j.kind == jsonObject:
		for _, m := range j.Members {
			if m.Value.Null() {
				return nil, badJSON("Invalid null value in map")
			}
			key, err := t.Parts[0].FromJSON(JSON{kind: jsonString, text: m.Name})
			if err != nil {
				return nil, err
			}
			value, err := t.Parts[1].FromJSON(m.Value)
			if err != nil {
				return nil, err
			}
			parts = append(parts, key, value)
		}
	case t.Kind == KindUDT && j.kind == jsonObject:
		return t.fieldsFromJSON(j)
	case t.Kind == KindMap || t.Kind == KindUDT:
		return nil, badJSON("Expected a map, but got a %s: %s", j.class(), j)
	case j.kind != jsonArray:
		what := map[Kind]string{KindSet: "list (representing a set)", KindTuple: "list representation of a tuple"}[t.Kind]
		if what == "" {
			what = "list"
		}
		return nil, badJSON("Expected a %s, but got a %s: %s", what, j.class(), j)
	default:
		if t.Kind == KindTuple && len(j.list) > len(t.Parts) {
			return nil, badJSON("Tuple contains extra items (expected %d): %s", len(t.Parts), j)
		}
		if t.Kind == KindTuple && len(j.list) < len(t.Parts) {
			return nil, badJSON("Tuple is missing items (expected %d): %s", len(t.Parts), j)
		}
		if t.Kind == KindVector && len(j.list) != t.Dimension {
			return nil, badJSON("Vector must have %d elements, but got %d: %s", t.Dimension, len(j.list), j)
		}
		for i, element := range j.list {
			if element.Null() && t.Kind != KindTuple {
				return nil, badJSON("Invalid null element in %s", t.Kind)
			}
			part, err := t.Parts[i%len(t.Parts)].FromJSON(element)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
	}
	return t.Pack(parts), nil
}

func (t *Type) fieldsFromJSON(j JSON) ([]byte, error) {
	members := foldNames(j.Members)
	parts := make([][]byte, len(t.Parts))
	for i, name := range t.Fields {
		for _, m := range members {
			if m.Name != name {
				continue
			}
			part, err := t.Parts[i].FromJSON(m.Value)
			if err != nil {
				return nil, err
			}
			parts[i] = part
		}
	}
	for _, m := range members {
		if t.Field(m.Name) < 0 {
			return nil, badJSON("Unknown field '%s' in value of user defined type %s", m.Name, t.Name)
		}
	}
	return PackTuple(parts), nil
}

// expected are the words of messages about JSON of another kind.
var expected = map[Kind]string{
	KindASCII: "an ascii string", KindText: "a UTF-8 string", KindBigInt: "a bigint value",
	KindBoolean: "a boolean value", KindInt: "an int value", KindDouble: "a double value",
	KindFloat: "a float value", KindSmallInt: "a short value", KindTinyInt: "a byte value",
	KindDate: "a string representation of a date value", KindTime: "a string representation of a time value",
	KindTimestamp: "a long or a datestring representation of a timestamp value",
	KindUUID:      "a string representation of a uuid", KindTimeUUID: "a string representation of a timeuuid",
	KindInet: "a string representation of an inet value", KindDuration: "a string representation of a duration",
	KindCounter: "a bigint value",
}

func (t *Type) nativeFromJSON(j JSON) ([]byte, error) {
	switch t.Kind {
	case KindVarInt, KindDecimal:
		text := j.String()
		if v, err := t.ParseText(text); err == nil && (text != "" || t.Kind == KindDecimal) {
			return v, nil
		}
		return nil, badJSON("Value '%s' is not a valid representation of a %s value", text, t.Kind)
	case KindBlob:
		return blobFromJSON(j)
	}
	if j.kind == jsonString {
		return t.ParseText(j.text)
	}
	class := j.class()
	whole := class == "Integer" || class == "Long"
	number := j.kind == jsonNumber
	switch {
	case t.Kind == KindBoolean && j.kind == jsonBoolean,
		(t.Kind == KindTinyInt || t.Kind == KindSmallInt) && number:
		return t.ParseText(j.String())
	case t.Kind == KindInt && class == "Integer", t.Kind == KindBigInt && whole, t.Kind == KindTimestamp && class == "Long":
		n, _ := strconv.ParseInt(j.text, 10, 64)
		return BigInt(n)[8-map[Kind]int{KindInt: 4, KindBigInt: 8, KindTimestamp: 8}[t.Kind]:], nil
	case number && j.text == "-0" && (t.Kind == KindDouble || t.Kind == KindFloat):
		// It is an integer.
		return t.ParseText("0")
	case t.Kind == KindDouble && number:
		f, _ := strconv.ParseFloat(j.text, 64)
		return Double(f), nil
	case t.Kind == KindFloat && number:
		// A number with a point is a double first, which is then rounded.
		if class == "Double" {
			f, _ := strconv.ParseFloat(j.text, 64)
			return Float(float32(f)), nil
		}
		f, _ := strconv.ParseFloat(j.text, 32)
		return Float(float32(f)), nil
	}
	return nil, badJSON("Expected %s, but got a %s: %s", expected[t.Kind], class, j)
}

func blobFromJSON(j JSON) ([]byte, error) {
	fail := func(reason string) ([]byte, error) {
		return nil, badJSON("Value '%s' is not a valid blob representation: %s", j, reason)
	}
	if j.kind != jsonString {
		class := map[string]string{"ArrayList": "java.util.", "LinkedHashMap": "java.util.", "BigInteger": "java.math."}[j.class()]
		if class == "" {
			class = "java.lang."
		}
		class += j.class()
		return fail("class " + class + " cannot be cast to class java.lang.String (" + class +
			" and java.lang.String are in module java.base of loader 'bootstrap')")
	}
	digits, found := strings.CutPrefix(j.text, "0x")
	if !found {
		return fail("String representation of blob is missing 0x prefix: " + j.text)
	}
	v, err := Native(KindBlob).ParseText(digits)
	if err != nil {
		return fail(err.Error())
	}
	return v, nil
}
