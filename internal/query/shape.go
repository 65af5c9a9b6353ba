package query

import (
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// Shape is a query without the values that it is about, so that executions with other
// values have the same shape. The key advisor records shapes.
type Shape struct {
	Text       string           `json:"query"`
	Parameters []ShapeParameter `json:"parameters,omitzero"` // in the order of their first use
}

// ShapeParameter is a parameter of a shape. It has the path of the property that the
// value was compared with, or a value: of TOP, OFFSET, LIMIT and other numbers, booleans
// and nulls without such a property, and of names of properties. In place of every other
// value it has an empty text.
type ShapeParameter struct {
	Name  string      `json:"name"` // with the @
	Value value.Value `json:"value,omitzero"`
	Path  string      `json:"path,omitzero"`
}

// ShapeOf returns the shape of a query. Texts, and numbers that are compared with a
// property, become parameters. Comments are left out. The error is that of [Compile] about the text.
func ShapeOf(text string, params []Param) (Shape, error) {
	declared := make(map[string]value.Value, len(params))
	for _, p := range params {
		declared[strings.TrimPrefix(p.Name, "@")] = p.Value
	}
	q, err := sql.Parse(text, declared)
	if err != nil {
		return Shape{}, err
	}
	s := shaper{declared: declared, seen: map[string]int{}, kept: map[string]bool{}}
	if q.From != nil && q.From.Inputs[0].Subquery == nil && !q.From.Inputs[0].In {
		s.root = q.From.Inputs[0].Name()
	}
	for _, x := range []sql.Expr{q.Top, q.Offset, q.Limit} {
		if p, ok := x.(*sql.Parameter); ok {
			s.use(p.Name, "", true)
		}
	}
	for x := range q.Exprs() {
		s.visit(x, "")
	}
	s.layout(text)
	slices.SortFunc(s.cuts, func(a, b excision) int { return a.at.Start - b.at.Start })
	var b strings.Builder
	end := 0
	for _, c := range s.cuts {
		b.WriteString(text[end:c.at.Start])
		b.WriteString(c.name)
		end = c.at.End
	}
	b.WriteString(text[end:])
	return Shape{Text: b.String(), Parameters: s.parameters}, nil
}

// shaper collects the parameters of a shape.
type shaper struct {
	declared   map[string]value.Value
	root       string // the alias of the documents
	parameters []ShapeParameter
	seen       map[string]int // positions of the parameters
	cuts       []excision
	kept       map[string]bool // parameters whose value is needed
	last       int             // number of the last constant
}

// excision is a constant that a parameter replaces, or a gap between two tokens that a
// blank replaces.
type excision struct {
	at   sql.Span
	name string
}

// layout removes comments, which may have values, and line breaks.
func (s *shaper) layout(text string) {
	tokens := sql.NewLexer(text, s.declared)
	for end, more := 0, true; more; {
		t := tokens.Next()
		if gap := text[end:t.At.Start]; gap != "" && gap != " " {
			s.cuts = append(s.cuts, excision{sql.Span{Start: end, End: t.At.Start}, " "})
		}
		end, more = t.At.End, t.Kind != sql.TokenEnd
	}
}

// use adds a parameter of the request.
func (s *shaper) use(name, path string, keep bool) {
	i, known := s.seen[name]
	if !known {
		i = len(s.parameters)
		s.seen[name] = i
		s.parameters = append(s.parameters, ShapeParameter{Name: "@" + name})
	}
	p := &s.parameters[i]
	v := s.declared[name]
	switch {
	case keep:
		p.Value, p.Path, s.kept[name] = v, "", true
	case s.kept[name] || p.Path != "": // The first use decides.
	case path != "":
		p.Value, p.Path = value.Value{}, path
	default:
		p.Value = withoutText(v)
	}
}

// withoutText returns numbers, booleans and null as they are, and an empty text for other
// values.
func withoutText(v value.Value) value.Value {
	switch v.Kind() {
	case value.KindNumber, value.KindBool, value.KindNull:
		return v
	}
	return value.String("")
}

// constant replaces a constant.
func (s *shaper) constant(at sql.Span, path string) {
	for {
		s.last++
		name := "value" + strconv.Itoa(s.last)
		if _, taken := s.declared[name]; taken {
			continue
		}
		p := ShapeParameter{Name: "@" + name, Path: path}
		if path == "" {
			p.Value = value.String("")
		}
		s.parameters = append(s.parameters, p)
		s.cuts = append(s.cuts, excision{at, p.Name})
		return
	}
}

// visit collects the values in x, which is compared with the property at path; "" if it
// is compared with none.
func (s *shaper) visit(x sql.Expr, path string) {
	switch x := x.(type) {
	case *sql.Literal:
		switch kind := x.Value.Kind(); {
		case kind == value.KindString, kind == value.KindNumber && path != "":
			s.constant(x.At, path)
		}
		return
	case *sql.Parameter:
		s.use(x.Name, path, false)
		return
	case *sql.UnaryExpr:
		if l, ok := x.X.(*sql.Literal); ok && path != "" && l.Value.Kind() == value.KindNumber {
			s.constant(x.At, path)
			return
		}
	case *sql.MemberExpr:
		if x.Param != "" {
			s.use(x.Param, "", true)
		}
		s.visit(x.X, "")
		return
	case *sql.BinaryExpr:
		switch x.Op {
		case "=", "!=", "<", "<=", ">", ">=":
			s.visit(x.X, s.within(x.Y))
			s.visit(x.Y, s.within(x.X))
			return
		}
	case *sql.BetweenExpr, *sql.InExpr, *sql.LikeExpr:
		path = ""
		for part := range sql.Children(x) {
			s.visit(part, path)
			if path == "" { // The first operand is what the others are compared with.
				path = s.within(part)
			}
		}
		return
	case *sql.CallExpr:
		// A text next to a property is compared with it in one way or another; a number is
		// a position or a length.
		for _, arg := range x.Args {
			if path = s.within(arg); path != "" {
				break
			}
		}
		for _, arg := range x.Args {
			if l, ok := arg.(*sql.Literal); ok && l.Value.Kind() == value.KindNumber {
				continue
			}
			s.visit(arg, path)
		}
		return
	case *sql.Subquery:
		for part := range x.Query.Exprs() {
			s.visit(part, "")
		}
		return
	case *sql.LogicalExpr:
		path = ""
	}
	for part := range sql.Children(x) {
		s.visit(part, path)
	}
}

// within returns the path of a property in x: the first; "" if there is none.
func (s *shaper) within(x sql.Expr) string {
	if path := s.path(x); path != "" {
		return path
	}
	for part := range sql.Children(x) {
		if path := s.within(part); path != "" {
			return path
		}
	}
	return ""
}

// path returns the path of a property of the documents; "" if x is none.
func (s *shaper) path(x sql.Expr) string {
	path := ""
	for {
		switch m := x.(type) {
		case *sql.MemberExpr:
			if m.Name == "" || strings.ContainsAny(m.Name, `/"\*?[]`) {
				return ""
			}
			path, x = "/"+m.Name+path, m.X
			continue
		case *sql.Ident:
			if s.root != "" && m.Name == s.root {
				return path
			}
		}
		return ""
	}
}
