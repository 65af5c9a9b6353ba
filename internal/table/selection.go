package table

import (
	"errors"
	"fmt"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// selecting compiles selected expressions.
type selecting struct {
	table *Table
	terms *terms // makes the terms, and collects the markers

	// early has for each selector the first error about columns, types and functions that
	// do not exist. at is the selector that is compiled.
	early []error
	at    int
}

// first keeps an error as an early one.
func (s *selecting) first(err error) error {
	if s.early[s.at] == nil {
		s.early[s.at] = err
	}
	return err
}

// compile compiles an expression. expected is the type of what it is for, nil if that
// does not matter.
func (s *selecting) compile(e cql.Expr, expected *row.Type) (expression, error) {
	switch e := e.(type) {
	case *cql.Column:
		c := s.table.Column(e.Name)
		if c == nil {
			return nil, s.first(s.table.undefined(e.Name))
		}
		return &columnExpr{c}, nil
	case *cql.WriteTime:
		return s.writeTime(e)
	case *cql.CountRows:
		return &callExpr{f: countRows(), text: "count"}, nil
	case *cql.Call:
		return s.call(e)
	case *cql.Cast:
		return s.cast(e)
	case *cql.Binary:
		return s.binary(e, expected)
	case *cql.Negation:
		operand, err := s.argument(e.Value, nil)
		if err != nil {
			return nil, err
		}
		f, err := resolveNegation(operand, expected)
		if err != nil {
			return nil, s.first(err)
		}
		return s.finish(f, []cql.Expr{e.Value}, func(texts []string) string {
			if nested(e.Value) {
				return "-(" + texts[0] + ")"
			}
			return "-" + texts[0]
		})
	case *cql.TypeHint:
		return s.hinted(e)
	case *cql.TupleLiteral:
		return s.tuple(e, expected)
	case *cql.Field:
		return s.field(e)
	case *cql.Element:
		return s.element(e)
	case *cql.Slice:
		return s.slice(e)
	case *cql.ListLiteral, *cql.SetLiteral, *cql.MapLiteral, *cql.UDTLiteral:
		return s.collection(e, expected)
	}
	if expected == nil {
		return nil, cannotInfer(e)
	}
	t, err := s.terms.compile(e, s.table.receiver(expected, selectionName))
	if err != nil {
		return nil, err
	}
	return &constantExpr{t: expected, text: textOf(e), term: t}, nil
}

func (s *selecting) writeTime(e *cql.WriteTime) (expression, error) {
	c := s.table.Column(e.Column)
	if c == nil {
		return nil, s.first(s.table.undefined(e.Column))
	}
	name := "writeTime"
	if e.TTL {
		name = "ttl"
	}
	if c.Kind == PartitionKey || c.Kind == Clustering {
		return nil, invalid("Cannot use selection function %s on PRIMARY KEY part %s", name, c.Name)
	}
	if c.Type.Multicell() {
		kind := "collection"
		if c.Type.Kind == row.KindUDT {
			kind = "UDT"
		}
		return nil, invalid("Cannot use selection function %s on non-frozen %s %s", name, kind, c.Name)
	}
	return &writeTimeExpr{column: c, ttl: e.TTL}, nil
}

// argument returns an operand for the search of a function: an expression, or a
// literal or marker whose type depends on the function.
func (s *selecting) argument(e cql.Expr, expected *row.Type) (argument, error) {
	switch e := e.(type) {
	case *cql.Literal, *cql.Marker, *cql.Null:
		return s.terms.argument(e), nil
	case *cql.TypeHint:
		if _, literal := e.Value.(*cql.Literal); !literal {
			break
		}
		// The literal is looked at later, when the function is known.
		if t, err := s.terms.resolveType(e.Type, s.table.Keyspace); err == nil {
			text := "(" + hintName(e.Type, s.table.Keyspace, false) + ")" + textOf(e.Value)
			return &hintedLiteral{argument: s.terms.argument(e), t: t, text: text}, nil
		}
	}
	return s.compile(e, expected)
}

// hintedLiteral is a literal with the type that a hint gives it.
type hintedLiteral struct {
	argument
	t    *row.Type
	text string
}

func (h *hintedLiteral) String() string          { return h.text }
func (h *hintedLiteral) exactType() *row.Type    { return h.t }
func (h *hintedLiteral) match(t *row.Type) match { return typeMatch(t, h.t) }

// finish makes the call of a function with its arguments.
func (s *selecting) finish(f *function, args []cql.Expr, text func(texts []string) string) (expression, error) {
	call := &callExpr{f: f}
	texts := make([]string, len(args))
	for i, a := range args {
		name := fmt.Sprintf("arg%d(system.%s)", i, f.name)
		var compiled expression
		var err error
		switch a.(type) {
		case *cql.Literal, *cql.Marker, *cql.Null:
			var t term
			if t, err = s.terms.compile(a, s.table.receiver(f.args[i], name)); err == nil {
				compiled = &constantExpr{t: f.args[i], text: textOf(a), term: t}
			}
		default:
			compiled, err = s.compile(a, f.args[i])
		}
		if err != nil {
			return nil, err
		}
		if f.aggregate != nil && compiled.aggregates() {
			return nil, invalid("aggregate functions cannot be used as arguments of aggregate functions")
		}
		call.args = append(call.args, compiled)
		texts[i] = compiled.String()
	}
	call.text = text(texts)
	return call, nil
}

func (s *selecting) call(e *cql.Call) (expression, error) {
	if e.Function.Name == "count" && len(e.Args) == 1 && (e.Function.Keyspace == "" || e.Function.Keyspace == "system") {
		if l, ok := e.Args[0].(*cql.Literal); ok && l.Kind == cql.IntegerLiteral {
			return &callExpr{f: countRows(), text: "count"}, nil
		}
	}
	args := make([]argument, len(e.Args))
	for i, a := range e.Args {
		var err error
		if args[i], err = s.argument(a, nil); err != nil {
			return nil, err
		}
	}
	f, err := resolveFunction(e.Function, args, nil, s.table.keyTypes())
	if err != nil {
		return nil, s.first(err)
	}
	return s.finish(f, e.Args, func(texts []string) string {
		return "system." + f.name + "(" + strings.Join(texts, ", ") + ")"
	})
}

func (s *selecting) cast(e *cql.Cast) (expression, error) {
	to, err := s.terms.resolveType(e.Type, s.table.Keyspace)
	if err != nil {
		return nil, err
	}
	operand, err := s.argument(e.Value, nil)
	if err != nil {
		return nil, err
	}
	f, err := resolveCast(operand, to)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return s.compile(e.Value, to)
	}
	return s.finish(f, []cql.Expr{e.Value}, func(texts []string) string { return "cast(" + texts[0] + " as " + to.String() + ")" })
}

func (s *selecting) binary(e *cql.Binary, expected *row.Type) (expression, error) {
	left, err := s.argument(e.Left, nil)
	if err != nil {
		return nil, err
	}
	right, err := s.argument(e.Right, nil)
	if err != nil {
		return nil, err
	}
	f, err := resolveOperation(e.Op, left, right, expected)
	if err != nil {
		return nil, s.first(err)
	}
	return s.finish(f, []cql.Expr{e.Left, e.Right}, func(texts []string) string {
		for i, operand := range []cql.Expr{e.Left, e.Right} {
			if nested(operand) {
				texts[i] = "(" + texts[i] + ")"
			}
		}
		return texts[0] + " " + string(e.Op) + " " + texts[1]
	})
}

func (s *selecting) hinted(e *cql.TypeHint) (expression, error) {
	t, err := s.terms.resolveType(e.Type, s.table.Keyspace)
	if err != nil {
		if _, inner := s.argument(e.Value, nil); inner != nil && s.early[s.at] != nil {
			return nil, inner
		}
		return nil, s.first(err)
	}
	t = t.Freeze() // As in Apache Cassandra, so that no column with cells of its own has it.
	name := "(" + hintName(e.Type, s.table.Keyspace, false) + ")"
	a, err := s.argument(e.Value, t)
	if err != nil {
		if refused, is := errors.AsType[*Error](err); is && refused.untyped && s.early[s.at] == nil {
			text := name + textOf(e.Value)
			return nil, invalid("Cannot assign value %s to %s of type %s", text, text, t)
		}
		return nil, err
	}
	of, column := a.(*columnExpr)
	if a.match(t) == noMatch || column && of.column.Type.Multicell() && t.Frozen {
		return nil, invalid("Cannot assign value %s%s to %s%s of type %s", name, a, name, a, t)
	}
	inner, err := s.compile(e.Value, t)
	if err != nil {
		return nil, err
	}
	text := inner.String()
	if single, ok := e.Value.(*cql.TupleLiteral); ok && len(single.Elements) == 1 && t.Kind != row.KindTuple {
		text = "(" + text + ")"
	}
	return &hintedExpr{expression: inner, t: t, text: name + text}, nil
}

// selectionName is the name of a selected value in messages.
const selectionName = "[selection]"

// cannotInfer returns the error of a selected value whose type is not known.
func cannotInfer(e cql.Expr) error {
	err := invalid("Cannot infer type for term %s in selection clause (try using a cast to force a type)", e)
	err.untyped = true
	return err
}

// nested says whether an operand is an operation of two values, which needs parentheses.
func nested(e cql.Expr) bool {
	if t, ok := e.(*cql.TupleLiteral); ok && len(t.Elements) == 1 {
		return nested(t.Elements[0])
	}
	_, binary := e.(*cql.Binary)
	return binary
}

// hintedExpr is an expression whose type the text gives.
type hintedExpr struct {
	expression
	t    *row.Type
	text string
}

func (e *hintedExpr) match(t *row.Type) match { return typeMatch(t, e.t) }
func (e *hintedExpr) exactType() *row.Type    { return e.t }
func (e *hintedExpr) String() string          { return e.text }

func (s *selecting) tuple(e *cql.TupleLiteral, expected *row.Type) (expression, error) {
	if len(e.Elements) == 1 && (expected == nil || expected.Kind != row.KindTuple) {
		return s.compile(e.Elements[0], expected)
	}
	for _, element := range e.Elements {
		if expected != nil && expected.Kind == row.KindTuple {
			break
		}
		switch element.(type) {
		case *cql.Literal, *cql.Marker, *cql.Null:
			return nil, cannotInfer(e)
		}
	}
	return s.pack(e.Elements, func(i int) *row.Type {
		if expected != nil && expected.Kind == row.KindTuple && i < len(expected.Parts) {
			return expected.Parts[i]
		}
		return nil
	}, func(parts []expression) *row.Type {
		types := make([]*row.Type, len(parts))
		for i, p := range parts {
			types[i] = p.exactType()
		}
		return row.TupleOf(types...)
	}, "(", ")")
}

// pack compiles the parts of a tuple or collection. kind returns the type of the whole.
func (s *selecting) pack(parts []cql.Expr, expected func(i int) *row.Type, kind func([]expression) *row.Type, open, end string) (expression, error) {
	e := &packExpr{}
	texts := make([]string, len(parts))
	for i, p := range parts {
		compiled, err := s.compile(p, expected(i))
		if err != nil {
			return nil, err
		}
		e.parts, texts[i] = append(e.parts, compiled), compiled.String()
	}
	e.t = kind(e.parts)
	e.text = open + strings.Join(texts, ", ") + end
	return e, nil
}

// collection compiles a list, set, map or user-defined type of expressions.
func (s *selecting) collection(e cql.Expr, expected *row.Type) (expression, error) {
	infer := func() error {
		return cannotInfer(e)
	}
	one := func(elements []cql.Expr, k row.Kind, make func(*row.Type) *row.Type, open, end string) (expression, error) {
		var of *row.Type
		if expected != nil && expected.Kind == k {
			of = expected.Element()
		}
		for i := 0; of == nil && i < len(elements); i++ {
			if one, err := s.compile(elements[i], nil); err == nil {
				of = one.exactType()
			}
		}
		if of == nil && len(elements) == 0 {
			return nil, infer()
		}
		if k == row.KindSet && of != nil && of.References(row.KindDuration) {
			return nil, invalid("Durations are not allowed inside sets: %s", row.SetOf(of).Freeze())
		}
		return s.pack(elements, func(int) *row.Type { return of }, func(parts []expression) *row.Type {
			if of == nil {
				of = parts[0].exactType()
			}
			return make(of)
		}, open, end)
	}
	switch e := e.(type) {
	case *cql.ListLiteral:
		return one(e.Elements, row.KindList, row.ListOf, "[", "]")
	case *cql.SetLiteral:
		if len(e.Elements) == 0 && expected != nil && expected.Kind == row.KindMap {
			return &packExpr{t: expected, text: "{}"}, nil
		}
		return one(e.Elements, row.KindSet, row.SetOf, "{", "}")
	case *cql.MapLiteral:
		if expected != nil && expected.Kind == row.KindUDT {
			return s.fields(e, expected)
		}
		for _, entry := range e.Entries {
			if c, ok := entry.Key.(*cql.Column); ok && s.table.Column(c.Name) == nil {
				return nil, s.first(s.table.undefined(c.Name))
			}
		}
	}
	if expected == nil {
		return nil, infer()
	}
	t, err := s.terms.compile(e, s.table.receiver(expected, selectionName))
	if err != nil {
		return nil, err
	}
	return &constantExpr{t: expected, text: textOf(e), term: t}, nil
}

// fields compiles a value of a user-defined type, whose names of fields are read as columns.
func (s *selecting) fields(e *cql.MapLiteral, t *row.Type) (expression, error) {
	packed := &packExpr{t: t, parts: make([]expression, len(t.Parts)), text: e.String()}
	for _, entry := range e.Entries {
		name, ok := entry.Key.(*cql.Column)
		if !ok {
			return nil, invalid("%s is not a valid field identifier of type %s ", entry.Key, t)
		}
		i := t.Field(name.Name)
		if i < 0 {
			return nil, invalid("Unknown field '%s' in value of user defined type %s", name.Name, t)
		}
		var err error
		if packed.parts[i], err = s.compile(entry.Value, t.Parts[i]); err != nil {
			return nil, err
		}
	}
	for i, p := range packed.parts {
		if p == nil {
			packed.parts[i] = &constantExpr{t: t.Parts[i], text: "null", term: constant(nil)}
		}
	}
	return packed, nil
}

func (s *selecting) field(e *cql.Field) (expression, error) {
	of, err := s.compile(e.Value, nil)
	if err != nil {
		return nil, err
	}
	t := of.exactType()
	if t.Kind != row.KindUDT {
		return nil, invalid("Invalid field selection: %s of type %s is not a user type", of, t)
	}
	i := t.Field(e.Field)
	if i < 0 {
		name := cql.Quote(t.Name)
		if t.Frozen {
			name = "frozen<" + name + ">"
		}
		return nil, invalid("%s of type %s has no field %s", of, name, e.Field)
	}
	return &partExpr{of: of, t: t.Parts[i], text: of.String() + "." + e.Field, part: field(t, i)}, nil
}

func (s *selecting) element(e *cql.Element) (expression, error) {
	of, t, err := s.keyed(e.Value, "element")
	if err != nil {
		return nil, err
	}
	what := "key"
	if t.Kind == row.KindSet {
		what = "value"
	}
	bound, err := s.terms.compile(e.Key, s.table.receiver(t.Key(), what+"("+of.String()+")"))
	if err != nil {
		return nil, err
	}
	result := t.Element()
	return &partExpr{of: of, t: result, text: of.String() + "[" + textOf(e.Key) + "]", bound: []term{bound}, part: element(t)}, nil
}

// keyed compiles a map or set of which a part is selected.
func (s *selecting) keyed(e cql.Expr, what string) (expression, *row.Type, error) {
	of, err := s.compile(e, nil)
	if err != nil {
		return nil, nil, err
	}
	t := of.exactType()
	switch t.Kind {
	case row.KindMap, row.KindSet:
		return of, t, nil
	case row.KindList:
		if what == "element" {
			return nil, nil, invalid("Element selection is only allowed on sets and maps, but %s is a list", of)
		}
		return nil, nil, invalid("Slice selection is only allowed on sets and maps, but %s is a list", of)
	}
	return nil, nil, invalid("Invalid %s selection: %s is not a collection", what, of)
}

func (s *selecting) slice(e *cql.Slice) (expression, error) {
	of, t, err := s.keyed(e.Value, "slice")
	if err != nil {
		return nil, err
	}
	part := &partExpr{of: of, t: t, bound: make([]term, 2), part: slice(t)}
	var texts [2]string
	for i, bound := range []cql.Expr{e.From, e.To} {
		if bound == nil {
			continue
		}
		name := []string{"start", "end"}[i] + "(" + of.String() + ")"
		if part.bound[i], err = s.terms.compile(bound, s.table.receiver(t.Key(), name)); err != nil {
			return nil, err
		}
		texts[i] = textOf(bound)
	}
	part.text = of.String() + "[" + texts[0] + ".." + texts[1] + "]"
	return part, nil
}
