package bicep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// object is a JSON object that keeps the order of its members.
type object struct{ members []member }

// member is a member of an object. Values are nil, bool, int64, json.Number,
// string, []any, *object, and term for what is evaluated later.
type member struct {
	name     string
	value    any
	computed term   // the name, when it is an expression
	from     origin // of the value
}

// origin is where a value comes from; its file is nil if nothing says so.
type origin struct {
	file   *file
	offset int
}

// newObject takes names and values in turn.
func newObject(pairs ...any) *object {
	o := &object{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		o.set(name, pairs[i+1])
	}
	return o
}

// set adds a member, or replaces it.
func (o *object) set(name string, value any) {
	for i := range o.members {
		if o.members[i].name == name {
			o.members[i].value = value
			return
		}
	}
	o.members = append(o.members, member{name: name, value: value})
}

// setFrom is set for a value that comes from a place in a file.
func (o *object) setFrom(f *file, at span, name string, value any) {
	o.set(name, value)
	for i := range o.members {
		if o.members[i].name == name {
			o.members[i].from = origin{f, at.start}
		}
	}
}

func (o *object) get(name string) any {
	for _, m := range o.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// encode writes a value as JSON, indented by two.
func (f *file) encode(v any) (*Compiled, error) {
	w := &jsonWriter{}
	w.write(v, 0)
	if w.b.Len() > templateSizeMax {
		return nil, &Error{[]Diagnostic{{File: f.path, Line: 1, Column: 1, Code: CodeLimit, Message: fmt.Sprintf("The template has more than %d bytes.", templateSizeMax)}}}
	}
	return &Compiled{JSON: w.b.Bytes(), root: f, places: w.places}, w.err
}

type jsonWriter struct {
	b      bytes.Buffer
	places []placed
	err    error
}

func (w *jsonWriter) line(depth int) {
	w.b.WriteByte('\n')
	for range depth {
		w.b.WriteString("  ")
	}
}

func (w *jsonWriter) write(v any, depth int) {
	if w.b.Len() > templateSizeMax {
		return
	}
	switch v := v.(type) {
	case nil:
		w.b.WriteString("null")
	case bool:
		w.b.WriteString(strconv.FormatBool(v))
	case int64:
		w.b.WriteString(strconv.FormatInt(v, 10))
	case json.Number:
		w.b.WriteString(v.String())
	case string:
		w.string(escapeLiteral(v))
	case term:
		w.string("[" + text(v) + "]")
	case rawText:
		w.string(string(v))
	case []any:
		if len(v) == 0 {
			w.b.WriteString("[]")
			return
		}
		w.b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				w.b.WriteByte(',')
			}
			w.line(depth + 1)
			w.write(item, depth+1)
		}
		w.line(depth)
		w.b.WriteByte(']')
	case *object:
		if len(v.members) == 0 {
			w.b.WriteString("{}")
			return
		}
		w.b.WriteByte('{')
		for i, m := range v.members {
			if i > 0 {
				w.b.WriteByte(',')
			}
			w.line(depth + 1)
			if m.computed != nil {
				w.string("[" + text(m.computed) + "]")
			} else {
				w.string(m.name)
			}
			w.b.WriteString(": ")
			begin := len(w.places)
			if m.from.file != nil {
				w.places = append(w.places, placed{start: w.b.Len(), from: m.from})
			}
			w.write(m.value, depth+1)
			if m.from.file != nil {
				w.places[begin].end = w.b.Len()
			}
		}
		w.line(depth)
		w.b.WriteByte('}')
	default:
		w.err = fmt.Errorf("a value of type %T is in the template: this is an error of the reader", v)
	}
}

func (w *jsonWriter) string(s string) {
	e := json.NewEncoder(&w.b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string is always encoded
	w.b.Truncate(w.b.Len() - 1)
}

// rawText is a string that already has the form of a template: it is written
// as it is.
type rawText string

// escapeLiteral returns a string in the form that a template reads back as it is.
func escapeLiteral(s string) string {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		return "[" + s
	}
	return s
}

var errNesting = errors.New("the JSON is nested too deep")

// parseJSON reads JSON into the values of member, the order of members kept.
// raw reads strings as rawText, for what is a template already.
func parseJSON(b []byte, raw bool) (any, error) {
	d := json.NewDecoder(bytes.NewReader(withoutComments(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))))
	d.UseNumber()
	v, err := parseValue(d, raw, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the JSON value")
	}
	return v, nil
}

func parseValue(d *json.Decoder, raw bool, depth int) (any, error) {
	if depth > nestingMax {
		return nil, errNesting
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			list := []any{}
			for d.More() {
				v, err := parseValue(d, raw, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := d.Token()
			return list, err
		}
		o := &object{}
		seen := map[string]int{}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, _ := k.(string)
			v, err := parseValue(d, raw, depth+1)
			if err != nil {
				return nil, err
			}
			if i, ok := seen[name]; ok {
				o.members[i].value = v
				continue
			}
			seen[name] = len(o.members)
			o.members = append(o.members, member{name: name, value: v})
		}
		_, err := d.Token()
		return o, err
	case json.Number:
		if n, err := strconv.ParseInt(t.String(), 10, 64); err == nil {
			return n, nil
		}
		return t, nil
	case string:
		if raw {
			return rawText(t), nil
		}
		return t, nil
	}
	return t, nil // bool or nil
}

// withoutComments replaces the comments of JSON by blanks, as the vendor's
// tools take them.
func withoutComments(b []byte) []byte {
	out := bytes.Clone(b)
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(b[i:], []byte("//")):
			for ; i < len(b) && !isLineEnd(b[i]); i++ {
				out[i] = ' '
			}
		case bytes.HasPrefix(b[i:], []byte("/*")):
			end := bytes.Index(b[i+2:], []byte("*/"))
			if end < 0 {
				return out
			}
			for end += i + 4; i < end; i++ {
				out[i] = ' '
			}
			i--
		}
	}
	return out
}
