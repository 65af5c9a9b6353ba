package cql

import (
	"strconv"
	"strings"
)

// Quote returns a name as a text has it: in quotes unless it is a name without them.
func Quote(name string) string {
	if bare(name) {
		return name
	}
	return string(appendQuoted(nil, name))
}

// bare reports whether a name needs no quotes: lower case, and not reserved.
func bare(name string) bool {
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for i := 1; i < len(name); i++ {
		if c := name[i]; !isDigit(c) && c != '_' && (c < 'a' || c > 'z') {
			return false
		}
	}
	k, ok := keywords[name]
	return !ok || k < firstReserved && k != tBool
}

func appendQuoted(b []byte, name string) []byte {
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(name, `"`, `""`)...)
	return append(b, '"')
}

// QuoteString returns a text as a string literal.
func QuoteString(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func appendName(b []byte, name string) []byte {
	if bare(name) {
		return append(b, name...)
	}
	return appendQuoted(b, name)
}

// String returns the name with its keyspace.
func (n Name) String() string {
	if n.Keyspace == "" {
		return Quote(n.Name)
	}
	return Quote(n.Keyspace) + "." + Quote(n.Name)
}

// String returns the type as a text has it.
func (t *Type) String() string { return string(t.appendTo(nil)) }

var typeWords = [...]string{ListType: "list", SetType: "set", MapType: "map", TupleType: "tuple", VectorType: "vector"}

func (t *Type) appendTo(b []byte) []byte {
	if t.Frozen {
		b = append(b, "frozen<"...)
	}
	switch t.Kind {
	case NativeType:
		b = append(b, t.Name...)
	case UserType:
		if t.Keyspace != "" {
			b = append(appendName(b, t.Keyspace), '.')
		}
		b = appendName(b, t.Name)
	case CustomType:
		b = append(b, QuoteString(t.Name)...)
	default:
		b = append(b, typeWords[t.Kind]...)
		b = append(b, '<')
		for i, e := range t.Elements {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = e.appendTo(b)
		}
		if t.Kind == VectorType {
			b = append(b, ", "...)
			b = strconv.AppendInt(b, int64(t.Dimension), 10)
		}
		b = append(b, '>')
	}
	if t.Frozen {
		b = append(b, '>')
	}
	return b
}

func text(e Expr) string { return string(e.appendTo(nil)) }

// String returns the constant.
func (e *Literal) String() string { return text(e) }

// String returns NULL.
func (e *Null) String() string { return text(e) }

// String returns the marker.
func (e *Marker) String() string { return text(e) }

// String returns the list.
func (e *ListLiteral) String() string { return text(e) }

// String returns the set.
func (e *SetLiteral) String() string { return text(e) }

// String returns the map.
func (e *MapLiteral) String() string { return text(e) }

// String returns the value with its fields in the order of the text.
func (e *UDTLiteral) String() string { return text(e) }

// String returns the tuple.
func (e *TupleLiteral) String() string { return text(e) }

// String returns the call.
func (e *Call) String() string { return text(e) }

// String returns the cast, with its keywords in lower case as in the name of a column.
func (e *Cast) String() string { return text(e) }

// String returns the value with its type.
func (e *TypeHint) String() string { return text(e) }

// String returns the operation; inner operations are in parentheses where the text needs them.
func (e *Binary) String() string { return text(e) }

// String returns the negated value.
func (e *Negation) String() string { return text(e) }

// String returns the name of the column.
func (e *Column) String() string { return text(e) }

// String returns the field.
func (e *Field) String() string { return text(e) }

// String returns the element.
func (e *Element) String() string { return text(e) }

// String returns the slice.
func (e *Slice) String() string { return text(e) }

// String returns the call.
func (e *WriteTime) String() string { return text(e) }

// String returns the call.
func (e *CountRows) String() string { return text(e) }

func (e *Literal) appendTo(b []byte) []byte {
	if e.Kind == StringLiteral {
		return append(b, QuoteString(e.Text)...)
	}
	return append(b, e.Text...)
}

func (e *Null) appendTo(b []byte) []byte { return append(b, "NULL"...) }

func (e *Marker) appendTo(b []byte) []byte {
	if e.Name == "" {
		return append(b, '?')
	}
	return appendName(append(b, ':'), e.Name)
}

func appendExprs(b []byte, open byte, all []Expr, end byte) []byte {
	b = append(b, open)
	for i, e := range all {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = e.appendTo(b)
	}
	return append(b, end)
}

func (e *ListLiteral) appendTo(b []byte) []byte  { return appendExprs(b, '[', e.Elements, ']') }
func (e *SetLiteral) appendTo(b []byte) []byte   { return appendExprs(b, '{', e.Elements, '}') }
func (e *TupleLiteral) appendTo(b []byte) []byte { return appendExprs(b, '(', e.Elements, ')') }

func (e *MapLiteral) appendTo(b []byte) []byte {
	b = append(b, '{')
	for i, m := range e.Entries {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = m.Key.appendTo(b)
		b = append(b, ": "...)
		b = m.Value.appendTo(b)
	}
	return append(b, '}')
}

func (e *UDTLiteral) appendTo(b []byte) []byte {
	b = append(b, '{')
	for i, f := range e.Fields {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendName(b, f.Name)
		b = append(b, ": "...)
		b = f.Value.appendTo(b)
	}
	return append(b, '}')
}

func (e *Call) appendTo(b []byte) []byte {
	if e.Function.Keyspace != "" {
		b = append(appendName(b, e.Function.Keyspace), '.')
	}
	if k, ok := keywords[e.Function.Name]; ok && (k == kToken || k == kCount) {
		b = append(b, e.Function.Name...)
	} else if ok && !isFunction(k) {
		b = appendQuoted(b, e.Function.Name)
	} else {
		b = appendName(b, e.Function.Name)
	}
	return appendExprs(b, '(', e.Args, ')')
}

func (e *Cast) appendTo(b []byte) []byte {
	b = e.Value.appendTo(append(b, "cast("...))
	return append(e.Type.appendTo(append(b, " as "...)), ')')
}

func (e *TypeHint) appendTo(b []byte) []byte {
	return e.Value.appendTo(append(e.Type.appendTo(append(b, '(')), ')'))
}

// tight is how strongly an expression holds together: 1 for a sum, 2 for a product,
// 3 for a sign, 4 for the rest.
func tight(e Expr) int {
	switch e := e.(type) {
	case *Binary:
		if e.Op == '+' || e.Op == '-' {
			return 1
		}
		return 2
	case *Negation:
		return 3
	}
	return 4
}

// appendAtLeast puts e into parentheses unless it holds together as strongly as needed.
func appendAtLeast(b []byte, e Expr, strength int) []byte {
	if tight(e) >= strength {
		return e.appendTo(b)
	}
	return append(e.appendTo(append(b, '(')), ')')
}

func (e *Binary) appendTo(b []byte) []byte {
	own := tight(e)
	b = appendAtLeast(b, e.Left, own)
	b = append(b, ' ', e.Op, ' ')
	return appendAtLeast(b, e.Right, own+1)
}

func (e *Negation) appendTo(b []byte) []byte {
	b = append(b, '-')
	if value := text(e.Value); tight(e.Value) < 3 || value[0] == '-' { // -- begins a comment
		return append(append(append(b, '('), value...), ')')
	}
	return e.Value.appendTo(b)
}

func (e *Column) appendTo(b []byte) []byte { return appendName(b, e.Name) }

func (e *Field) appendTo(b []byte) []byte {
	return appendName(append(appendAtLeast(b, e.Value, 4), '.'), e.Field)
}

func (e *Element) appendTo(b []byte) []byte {
	return append(e.Key.appendTo(append(appendAtLeast(b, e.Value, 4), '[')), ']')
}

func (e *Slice) appendTo(b []byte) []byte {
	b = append(appendAtLeast(b, e.Value, 4), '[')
	if e.From != nil {
		b = e.From.appendTo(b)
	}
	b = append(b, ".."...)
	if e.To != nil {
		b = e.To.appendTo(b)
	}
	return append(b, ']')
}

func (e *WriteTime) appendTo(b []byte) []byte {
	if e.TTL {
		b = append(b, "ttl("...)
	} else {
		b = append(b, "writetime("...)
	}
	return append(appendName(b, e.Column), ')')
}

func (e *CountRows) appendTo(b []byte) []byte { return append(b, "count(*)"...) }

// String returns the relation as a text has it, and as messages quote it.
func (r *Relation) String() string {
	var b []byte
	switch r.Kind {
	case OnIndex:
		b = append(appendName(append(b, "expr("...), r.Columns[0]), ", "...)
		return string(append(r.Value.appendTo(b), ')'))
	case OnToken:
		b = append(b, "token"...)
		fallthrough
	case OnTuple:
		b = append(b, '(')
		for i, c := range r.Columns {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendName(b, c)
		}
		b = append(b, ')')
	case OnFeed:
		b = append(append(b, strings.ToUpper(r.Columns[0])...), "()"...)
	case OnElement:
		b = append(r.Element.appendTo(append(appendName(b, r.Columns[0]), '[')), ']')
	default:
		b = appendName(b, r.Columns[0])
	}
	b = append(b, ' ')
	b = append(b, r.Operator.String()...)
	b = append(b, ' ')
	return string(r.Value.appendTo(b))
}

// FormatWhere returns the relations as the text of a WHERE clause, without the keyword.
func FormatWhere(where []Relation) string {
	var b strings.Builder
	for i := range where {
		if i > 0 {
			b.WriteString(" AND ")
		}
		b.WriteString(where[i].String())
	}
	return b.String()
}
