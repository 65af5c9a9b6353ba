package table

import (
	"errors"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// Marker is a bind marker of a statement.
type Marker struct {
	Keyspace, Table string
	Name            string // its own, or that of what the value is for
	Type            *row.Type

	column *Column // whose value the marker is; nil for other values
}

// term is a compiled value: of an INSERT, an assignment, a relation or a condition.
type term interface {
	// bind returns the value, normalized; nil is null.
	bind(b *binding) ([]byte, error)
	// unset says whether the term is a marker that the client has not set.
	unset(b *binding) bool
}

// receiver is what a value is for.
type receiver struct {
	t    *row.Type
	name string // as messages and markers have it

	keyspace, table string
	keys            []*row.Type // types of the partition key, for token()
	column          *Column     // the value is one of a column; nil for a part or another value
	columns         []*Column   // of a tuple of a relation
}

// part returns what a part of the value is for.
func (r receiver) part(t *row.Type, name string) receiver {
	r.t, r.name, r.column, r.columns = t, name, nil, nil
	return r
}

// of returns the receiver of the values of a column.
func (r receiver) of(c *Column) receiver {
	r.t, r.name, r.column, r.columns = c.Type, c.Name, c, nil
	return r
}

// terms compiles the values of one statement, and collects its markers.
type terms struct {
	named   []string // the names of the markers, in the order of the text
	markers []Marker // by index; those that were compiled have a type

	// userType finds a user-defined type, not frozen. The error is that of an unknown
	// type.
	userType func(keyspace, name string) (*row.Type, error)
}

// newTerms returns the terms of a statement.
func newTerms(p cql.Parsed, userType func(keyspace, name string) (*row.Type, error)) *terms {
	return &terms{named: p.Markers, markers: make([]Marker, len(p.Markers)), userType: userType}
}

// resolveType returns the type that a text names.
func (a *terms) resolveType(t *cql.Type, keyspace string) (*row.Type, error) {
	parsed, err := row.ParseType(t.String(), func(own, name string) (*row.Type, error) {
		if own == "" {
			own = keyspace
		}
		return a.userType(own, name)
	})
	if err != nil {
		return nil, badType(err)
	}
	return parsed, checkParts(parsed)
}

// compile compiles a value for its receiver.
func (a *terms) compile(e cql.Expr, r receiver) (term, error) {
	switch e := e.(type) {
	case *cql.Literal:
		kind := literalKind(e.Kind)
		v, err := r.t.ParseLiteral(kind, e.Text, r.name)
		if err != nil {
			refused := invalid("%s", err.Error())
			refused.untyped = r.name == selectionName && !r.t.Accepts(kind)
			return nil, refused
		}
		return constant(v), nil
	case *cql.Null:
		if r.t.Kind == row.KindCounter {
			return nil, invalid("Invalid null value for counter increment/decrement")
		}
		return constant(nil), nil
	case *cql.Marker:
		return a.marker(e, r), nil
	case *cql.ListLiteral, *cql.SetLiteral, *cql.MapLiteral:
		return a.collection(e, r)
	case *cql.UDTLiteral:
		return a.udt(e, r)
	case *cql.TupleLiteral:
		return a.tuple(e, r)
	case *cql.TypeHint:
		return a.hint(e, r)
	case *cql.Call:
		return a.call(e, r)
	case *cql.Binary:
		left, right := a.argument(e.Left), a.argument(e.Right)
		f, err := resolveOperationFor(e.Op, left, right, r.t, r.column != nil && r.column.Descending)
		if err != nil {
			return nil, err
		}
		return a.apply(f, []cql.Expr{e.Left, e.Right}, r)
	case *cql.Negation:
		f, err := resolveNegation(a.argument(e.Value), r.t)
		if err != nil {
			return nil, err
		}
		return a.apply(f, []cql.Expr{e.Value}, r)
	case *cql.Cast:
		f, err := castFunction(a.argument(e.Value), e.Type, r.t)
		if err != nil {
			return nil, err
		}
		return a.apply(f, []cql.Expr{e.Value}, r)
	}
	return nil, invalid("%s is not a value", e)
}

func literalKind(k cql.LiteralKind) row.LiteralKind { return row.LiteralKind(k.String()) }

// constant is a value that needs no binding.
type constant []byte

func (c constant) bind(*binding) ([]byte, error) { return c, nil }
func (c constant) unset(*binding) bool           { return false }

// apply makes the term of a call of a function.
func (a *terms) apply(f *function, args []cql.Expr, r receiver) (term, error) {
	if f.aggregate != nil {
		return nil, invalid("Aggregation function are not supported in the where clause")
	}
	if typeMatch(r.t, f.result) == noMatch {
		if f.operator != 0 {
			return nil, invalid("Type error: cannot assign result of operation %c (type %s) to %s (type %s)", f.operator, f.result, r.name, r.t)
		}
		return nil, invalid("Type error: cannot assign result of function system.%s (type %s) to %s (type %s)", f.name, f.result, r.name, r.t)
	}
	c := &applied{f: f}
	for i, e := range args {
		t, err := a.compile(e, r.part(f.args[i], "arg"+strconv.Itoa(i)+"(system."+f.name+")"))
		if err != nil {
			return nil, err
		}
		c.args = append(c.args, t)
	}
	return c, nil
}

// applied is the value of a function of values.
type applied struct {
	f    *function
	args []term
}

func (c *applied) bind(b *binding) ([]byte, error) {
	values := make([][]byte, len(c.args))
	for i, a := range c.args {
		if a.unset(b) {
			return nil, invalid("Invalid unset value for argument in call to function %s", c.f.name)
		}
		var err error
		if values[i], err = a.bind(b); err != nil {
			return nil, err
		}
	}
	return c.f.call(b.moment, values)
}
func (c *applied) unset(*binding) bool { return false }

func (a *terms) call(e *cql.Call, r receiver) (term, error) {
	args := make([]argument, len(e.Args))
	for i, x := range e.Args {
		args[i] = a.argument(x)
	}
	if name := e.Function.Name; name == "tojson" && (e.Function.Keyspace == "" || e.Function.Keyspace == "system") {
		return nil, invalid("toJson() may only be used within the selection clause of SELECT statements")
	}
	f, err := resolveFunction(e.Function, args, r.t, r.keys)
	if e, ok := errors.AsType[*Error](err); ok && e.unknown != "" {
		return nil, invalid("Unknown function %s called", e.unknown)
	}
	if err != nil {
		return nil, err
	}
	return a.apply(f, e.Args, r)
}

func (a *terms) hint(e *cql.TypeHint, r receiver) (term, error) {
	t, err := a.resolveType(e.Type, r.keyspace)
	if err != nil {
		return nil, err
	}
	if a.argument(e.Value).match(t) == noMatch {
		return nil, invalid("Cannot cast value %s to type %s", textOf(e.Value), hintName(e.Type, r.keyspace, false))
	}
	if hintMatch(r.t, t) == noMatch {
		return nil, invalid("Cannot assign value (%s)%s to %s of type %s", hintName(e.Type, r.keyspace, false), textOf(e.Value), r.name, r.t)
	}
	return a.compile(e.Value, r) // As in Apache Cassandra, the value is one of the receiver.
}

// hintMatch says whether a value with the type of a hint may be passed for a type: one that
// is frozen is no other one.
func hintMatch(expected, hint *row.Type) match {
	if expected.Multicell() != hint.Multicell() {
		return noMatch
	}
	return typeMatch(expected, hint)
}

// hintName returns the name of the type of a hint as messages and columns have it. frozen
// says that the type is a part of a frozen one.
func hintName(t *cql.Type, keyspace string, frozen bool) string {
	frozen = frozen || t.Frozen
	if t.Kind == cql.NativeType || t.Kind == cql.CustomType || t.Kind == cql.VectorType {
		return t.String()
	}
	parts := make([]string, len(t.Elements))
	for i, e := range t.Elements {
		parts[i] = hintName(e, keyspace, frozen || t.Kind == cql.TupleType)
	}
	inner := strings.Join(parts, ", ")
	name := ""
	switch t.Kind {
	case cql.TupleType:
		return "tuple<" + inner + ">"
	case cql.ListType:
		name = "list<" + inner + ">"
	case cql.SetType:
		name = "set<" + inner + ">"
	case cql.MapType:
		name = "map<" + inner + ">"
	default:
		if t.Keyspace != "" {
			keyspace = t.Keyspace
		}
		name = keyspace + "." + t.Name
	}
	if frozen {
		return "frozen<" + name + ">"
	}
	return name
}

// whole is a value with parts.
type whole struct {
	t     *row.Type
	parts []term
	what  string // what the value is, in messages about null parts; empty if they may be null
}

func (w *whole) bind(b *binding) ([]byte, error) {
	parts := make([][]byte, len(w.parts))
	for i, p := range w.parts {
		if p == nil {
			continue
		}
		if p.unset(b) {
			switch {
			case w.t.Kind == row.KindTuple:
				return nil, invalid("Invalid unset value for tuple field number %d", i)
			case w.t.Kind == row.KindUDT && w.t.Frozen:
				return nil, invalid("Invalid unset value for field '%s' of user defined type %s", w.t.Fields[i], cql.Quote(w.t.Name))
			case w.t.Kind == row.KindUDT:
				parts[i] = []byte{} // As in Apache Cassandra.
				continue
			}
			return nil, invalid("Invalid unset value for %s", w.t)
		}
		var err error
		if parts[i], err = p.bind(b); err != nil {
			return nil, err
		}
		if parts[i] == nil && w.what != "" {
			return nil, invalid("null is not supported inside collections")
		}
	}
	return w.t.Normalize(w.t.Pack(parts)), nil
}
func (w *whole) unset(*binding) bool { return false }

// part compiles a part of a value.
func (a *terms) partOf(w *whole, e cql.Expr, r receiver) error {
	t, err := a.compile(e, r)
	w.parts = append(w.parts, t)
	return err
}

// collection compiles a list, set, map or vector.
func (a *terms) collection(e cql.Expr, r receiver) (term, error) {
	w := &whole{t: r.t, what: "collection"}
	type pair struct {
		e    cql.Expr
		t    *row.Type
		what string // what the part is, in messages
		name string
	}
	var parts []pair
	kind := ""
	switch e := e.(type) {
	case *cql.ListLiteral:
		if kind = "list"; r.t.Kind == row.KindVector {
			kind = "vector"
		} else if r.t.Kind != row.KindList {
			return nil, invalid("Invalid list literal for %s of type %s", r.name, r.t)
		}
		for _, x := range e.Elements {
			parts = append(parts, pair{x, r.t.Element(), "value", "value(" + r.name + ")"})
		}
		if kind == "vector" && len(parts) != r.t.Dimension {
			return nil, invalid("Invalid vector literal for %s of type %s; expected %d elements, but given %d", r.name, r.t, r.t.Dimension, len(parts))
		}
	case *cql.SetLiteral:
		if kind = "set"; r.t.Kind == row.KindMap && len(e.Elements) == 0 {
			break
		}
		if r.t.Kind == row.KindUDT && len(e.Elements) == 0 {
			return a.udt(&cql.UDTLiteral{}, r)
		}
		if r.t.Kind != row.KindSet {
			return nil, invalid("Invalid set literal for %s of type %s", r.name, r.t)
		}
		for _, x := range e.Elements {
			parts = append(parts, pair{x, r.t.Key(), "value", "value(" + r.name + ")"})
		}
	case *cql.MapLiteral:
		if kind = "map"; r.t.Kind != row.KindMap {
			return nil, invalid("Invalid map literal for %s of type %s", r.name, r.t)
		}
		for _, x := range e.Entries {
			parts = append(parts, pair{x.Key, r.t.Key(), "key", "key(" + r.name + ")"}, pair{x.Value, r.t.Element(), "value", "value(" + r.name + ")"})
		}
	}
	for _, p := range parts {
		if marks(p.e) {
			return nil, invalid("Invalid %s literal for %s: bind variables are not supported inside collection literals", kind, r.name)
		}
		if _, null := p.e.(*cql.Null); null {
			return nil, invalid("null is not supported inside collections")
		}
		if a.argument(p.e).match(p.t) == noMatch {
			return nil, invalid("Invalid %s literal for %s: %s %s is not of type %s", kind, r.name, p.what, textOf(p.e), p.t)
		}
		if err := a.partOf(w, p.e, r.part(p.t, p.name)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// udt compiles a value of a user-defined type; fields may be missing.
func (a *terms) udt(e *cql.UDTLiteral, r receiver) (term, error) {
	if r.t.Kind != row.KindUDT {
		return nil, invalid("Invalid user type literal for %s of type %s", r.name, r.t)
	}
	w := &whole{t: r.t, parts: make([]term, len(r.t.Parts))}
	for _, f := range e.Fields {
		i := r.t.Field(f.Name)
		if i < 0 {
			return nil, invalid("Unknown field '%s' in value of user defined type %s", f.Name, r.t.Name)
		}
		if a.argument(f.Value).match(r.t.Parts[i]) == noMatch {
			return nil, invalid("Invalid user type literal for %s: field %s is not of type %s", r.name, f.Name, r.t.Parts[i])
		}
		t, err := a.compile(f.Value, r.part(r.t.Parts[i], r.name+"."+f.Name))
		if err != nil {
			return nil, err
		}
		w.parts[i] = t
	}
	return w, nil
}

func (a *terms) tuple(e *cql.TupleLiteral, r receiver) (term, error) {
	if r.t.Kind != row.KindTuple && (r.t.Kind != row.KindUDT || len(e.Elements) == 1) {
		if len(e.Elements) == 1 {
			return a.compile(e.Elements[0], r)
		}
		return nil, invalid("Invalid tuple type literal for %s of type %s", r.name, r.t)
	}
	for i, x := range e.Elements {
		if i == len(r.t.Parts) {
			return nil, invalid("Invalid tuple literal for %s: too many elements. Type %s expects %d but got %d", r.name, r.t, len(r.t.Parts), len(e.Elements))
		}
		if r.columns == nil && a.argument(x).match(r.t.Parts[i]) == noMatch {
			return nil, invalid("Invalid tuple literal for %s: component %d is not of type %s", r.name, i, r.t.Parts[i])
		}
	}
	// As in Apache Cassandra, the value ends with the last element that is given.
	w := &whole{t: r.t, parts: make([]term, len(e.Elements))}
	for i, x := range e.Elements {
		if r.columns != nil {
			t, err := a.compile(x, r.of(r.columns[i]))
			if err != nil {
				return nil, err
			}
			w.parts[i] = t
			continue
		}
		t, err := a.compile(x, r.part(r.t.Parts[i], r.name+"["+strconv.Itoa(i)+"]"))
		if err != nil {
			return nil, err
		}
		w.parts[i] = t
	}
	return w, nil
}

// marks says whether a value contains a marker.
func marks(e cql.Expr) bool {
	switch e := e.(type) {
	case *cql.Marker:
		return true
	case *cql.ListLiteral:
		return slices.ContainsFunc(e.Elements, marks)
	case *cql.SetLiteral:
		return slices.ContainsFunc(e.Elements, marks)
	case *cql.MapLiteral:
		return slices.ContainsFunc(e.Entries, func(m cql.MapEntry) bool { return marks(m.Key) || marks(m.Value) })
	case *cql.UDTLiteral:
		return slices.ContainsFunc(e.Fields, func(f cql.FieldValue) bool { return marks(f.Value) })
	case *cql.TupleLiteral:
		return slices.ContainsFunc(e.Elements, marks)
	case *cql.TypeHint:
		return marks(e.Value)
	case *cql.Cast:
		return marks(e.Value)
	case *cql.Call:
		return slices.ContainsFunc(e.Args, marks)
	case *cql.Binary:
		return marks(e.Left) || marks(e.Right)
	case *cql.Negation:
		return marks(e.Value)
	}
	return false
}

// argument returns a value as the argument of a function.
func (a *terms) argument(e cql.Expr) argument { return &raw{a, e} }

// raw is a value that is not compiled yet.
type raw struct {
	terms *terms
	e     cql.Expr
}

func (r *raw) String() string { return textOf(r.e) }
func (r *raw) marks() bool    { return marks(r.e) }

// exactType returns the type of a value that has one by itself.
func (r *raw) exactType() *row.Type {
	switch e := r.e.(type) {
	case *cql.TypeHint:
		if t, err := r.terms.resolveType(e.Type, ""); err == nil {
			return t
		}
	case *cql.Call, *cql.Binary, *cql.Negation, *cql.Cast:
		if f := r.function(nil); f != nil {
			return f.result
		}
	}
	return nil
}

// function returns the function of a call or an operation, nil if there is none.
func (r *raw) function(expected *row.Type) *function {
	var f *function
	var err error
	switch e := r.e.(type) {
	case *cql.Call:
		args := make([]argument, len(e.Args))
		for i, x := range e.Args {
			args[i] = r.terms.argument(x)
		}
		f, err = resolveFunction(e.Function, args, expected, nil)
	case *cql.Binary:
		f, err = resolveOperation(e.Op, r.terms.argument(e.Left), r.terms.argument(e.Right), expected)
	case *cql.Negation:
		f, err = resolveNegation(r.terms.argument(e.Value), expected)
	case *cql.Cast:
		f, err = castFunction(r.terms.argument(e.Value), e.Type, expected)
	}
	if err != nil {
		return nil
	}
	return f
}

func (r *raw) match(t *row.Type) match {
	switch e := r.e.(type) {
	case *cql.Literal:
		return literalMatch(e, t)
	case *cql.Null:
		if t.Kind == row.KindCounter {
			return noMatch
		}
		return weak
	case *cql.Marker:
		return weak
	case *cql.TypeHint:
		if own := r.exactType(); own != nil {
			return hintMatch(t, own)
		}
		return noMatch
	case *cql.Call, *cql.Binary, *cql.Negation, *cql.Cast:
		// As in Apache Cassandra, what is wrong in a call is said when it is compiled.
		f := r.function(t)
		if f == nil {
			return weak
		}
		return typeMatch(t, f.result)
	case *cql.ListLiteral:
		if t.Kind != row.KindList && t.Kind != row.KindVector {
			return noMatch
		}
		return r.all(e.Elements, func(int) *row.Type { return t.Element() })
	case *cql.SetLiteral:
		if len(e.Elements) == 0 && (t.Kind == row.KindMap || t.Kind == row.KindUDT) {
			return weak
		}
		if t.Kind != row.KindSet {
			return noMatch
		}
		return r.all(e.Elements, func(int) *row.Type { return t.Key() })
	case *cql.MapLiteral:
		if t.Kind != row.KindMap {
			return noMatch
		}
		best := exact
		for _, entry := range e.Entries {
			best = min(best, r.terms.argument(entry.Key).match(t.Key()), r.terms.argument(entry.Value).match(t.Element()))
		}
		return best
	case *cql.UDTLiteral:
		if t.Kind != row.KindUDT {
			return noMatch
		}
		for _, f := range e.Fields {
			if i := t.Field(f.Name); i < 0 || r.terms.argument(f.Value).match(t.Parts[i]) == noMatch {
				return noMatch
			}
		}
		return weak
	case *cql.TupleLiteral:
		if t.Kind != row.KindTuple && t.Kind != row.KindUDT {
			if len(e.Elements) == 1 {
				return r.terms.argument(e.Elements[0]).match(t)
			}
			return noMatch
		}
		if len(e.Elements) > len(t.Parts) {
			return noMatch
		}
		return r.all(e.Elements, func(i int) *row.Type { return t.Parts[i] })
	}
	return noMatch
}

func (r *raw) all(elements []cql.Expr, of func(i int) *row.Type) match {
	best := exact
	for i, x := range elements {
		best = min(best, r.terms.argument(x).match(of(i)))
	}
	return best
}

// literalMatch says whether a constant may be passed for a type. Each form has a type
// that it fits best.
func literalMatch(e *cql.Literal, t *row.Type) match {
	if !t.Accepts(literalKind(e.Kind)) {
		return noMatch
	}
	if preferred(e) == t.Kind {
		return exact
	}
	return weak
}

// preferred returns the kind of type that a constant fits best.
func preferred(e *cql.Literal) row.Kind {
	switch e.Kind {
	case cql.StringLiteral:
		if strings.IndexFunc(e.Text, func(r rune) bool { return r >= 0x80 }) < 0 {
			return row.KindASCII
		}
		return row.KindText
	case cql.IntegerLiteral:
		n, ok := new(big.Int).SetString(e.Text, 10)
		switch {
		case ok && n.IsInt64() && n.Int64() == int64(int32(n.Int64())):
			return row.KindInt
		case ok && n.IsInt64():
			return row.KindBigInt
		}
		return row.KindVarInt
	case cql.FloatLiteral:
		return row.KindDouble
	case cql.BooleanLiteral:
		return row.KindBoolean
	case cql.UUIDLiteral:
		return row.KindUUID
	case cql.HexLiteral:
		return row.KindBlob
	}
	return row.KindDuration
}
