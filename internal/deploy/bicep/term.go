package bicep

import (
	"encoding/json"
	"strconv"
	"strings"
)

// term is an expression of the template language.
type term interface {
	write(w *strings.Builder)
}

type (
	termString string
	termInt    int64
	termCall   struct {
		name string
		args []term
	}
	termMember struct {
		base term
		name string
	}
	termIndex struct{ base, index term }
)

// text returns an expression without its brackets. It stops a little after
// templateSizeMax bytes: a term can hold another one many times.
func text(t term) string {
	var w strings.Builder
	t.write(&w)
	return w.String()
}

func full(w *strings.Builder) bool { return w.Len() > templateSizeMax }

func (t termString) write(w *strings.Builder) {
	w.WriteByte('\'')
	w.WriteString(strings.ReplaceAll(string(t), "'", "''"))
	w.WriteByte('\'')
}

func (t termInt) write(w *strings.Builder) { w.WriteString(strconv.FormatInt(int64(t), 10)) }

func (t termCall) write(w *strings.Builder) {
	w.WriteString(t.name)
	w.WriteByte('(')
	for i, a := range t.args {
		if full(w) {
			return
		}
		if i > 0 {
			w.WriteString(", ")
		}
		a.write(w)
	}
	w.WriteByte(')')
}

func (t termMember) write(w *strings.Builder) {
	t.base.write(w)
	if isName(t.name) {
		w.WriteByte('.')
		w.WriteString(t.name)
		return
	}
	w.WriteByte('[')
	termString(t.name).write(w)
	w.WriteByte(']')
}

func (t termIndex) write(w *strings.Builder) {
	t.base.write(w)
	w.WriteByte('[')
	if !full(w) {
		t.index.write(w)
	}
	w.WriteByte(']')
}

// isName reports whether s can follow a dot.
func isName(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (i == 0 || !isDigit(s[i])) {
			return false
		}
	}
	return s != ""
}

func call(name string, args ...term) term { return termCall{name, args} }

// quote returns the term of a value that may hold terms.
func quote(v any) term {
	switch v := v.(type) {
	case nil:
		return call("null")
	case bool:
		return call(strconv.FormatBool(v))
	case int64:
		if v != int64(int32(v)) {
			return call("json", termString(strconv.FormatInt(v, 10)))
		}
		return termInt(v)
	case json.Number:
		return call("json", termString(v.String()))
	case string:
		return termString(v)
	case term:
		return v
	case []any:
		args := make([]term, len(v))
		for i, item := range v {
			args[i] = quote(item)
		}
		return call("createArray", args...)
	case *object:
		args := make([]term, 0, 2*len(v.members))
		for _, m := range v.members {
			var name term = termString(m.name)
			if m.computed != nil {
				name = m.computed
			}
			args = append(args, name, quote(m.value))
		}
		return call("createObject", args...)
	}
	return call("null")
}
