package table

import (
	"slices"

	"github.com/decandb/decan/internal/row"
)

// A selected expression is compiled into an expression, which is immutable and makes a
// selector for each execution. A selector sees the rows of one group after another and
// then has a value; a group is one row unless the statement aggregates or groups.

// expression is a compiled selected expression.
type expression interface {
	argument
	// selector returns a selector for one execution.
	selector(b *binding) (selector, error)
	// aggregates says whether the value is that of a group, not of its first row.
	aggregates() bool
	// reads calls use with each column whose value, or whose time if times is true, the
	// expression needs.
	reads(use func(c *Column, times bool))
}

// selector computes the value of an expression for one group of rows after another.
type selector interface {
	// add sees the next row of the group.
	add(v *view) error
	// value returns the value of the group, nil for null.
	value() ([]byte, error)
	// reset begins the next group.
	reset()
}

// binding is what one execution gives to a compiled statement.
type binding struct {
	moment *Moment
	values [][]byte // of the markers; nil is null
	unset  []bool   // marks values that the client has not set; may be nil

	members map[*jsonValues]map[string][]byte // of INSERT JSON, once decoded
}

// view is a row while it is evaluated. It is valid for one call.
type view struct {
	key        [][]byte // values of the partition key
	clustering [][]byte // values of the clustering columns; nil for a static row alone
	values     []row.Value
	slot       func(c *Column) int // of the other columns in values; negative if it is not read
	now        int64               // seconds since 1970
}

// at returns the value of a column.
func (v *view) at(c *Column) row.Value {
	switch c.Kind {
	case PartitionKey:
		return row.Value{Bytes: v.key[c.Position]}
	case Clustering:
		if v.clustering == nil {
			return row.Value{}
		}
		return row.Value{Bytes: v.clustering[c.Position]}
	}
	if i := v.slot(c); i >= 0 {
		return v.values[i]
	}
	return row.Value{}
}

// columnExpr is a column.
type columnExpr struct{ column *Column }

func (e *columnExpr) match(t *row.Type) match       { return typeMatch(t, e.column.Type) }
func (e *columnExpr) exactType() *row.Type          { return e.column.Type }
func (e *columnExpr) String() string                { return e.column.Name }
func (e *columnExpr) marks() bool                   { return false }
func (e *columnExpr) aggregates() bool              { return false }
func (e *columnExpr) reads(use func(*Column, bool)) { use(e.column, false) }
func (e *columnExpr) selector(*binding) (selector, error) {
	return &columnSelector{column: e.column}, nil
}

// columnSelector has the value of a column in the first row of the group.
type columnSelector struct {
	column *Column
	seen   bool
	null   bool
	kept   []byte
}

func (s *columnSelector) add(v *view) error {
	if s.seen {
		return nil
	}
	s.seen = true
	bytes := v.at(s.column).Bytes
	s.null = bytes == nil
	s.kept = append(s.kept[:0], bytes...)
	return nil
}

func (s *columnSelector) value() ([]byte, error) {
	if !s.seen || s.null {
		return nil, nil
	}
	if s.kept == nil {
		s.kept = []byte{}
	}
	return s.kept, nil
}
func (s *columnSelector) reset() { s.seen = false }

// writeTimeExpr is writetime(column), or ttl(column).
type writeTimeExpr struct {
	column *Column
	ttl    bool
}

func (e *writeTimeExpr) exactType() *row.Type {
	if e.ttl {
		return native(row.KindInt)
	}
	return native(row.KindBigInt)
}
func (e *writeTimeExpr) match(t *row.Type) match { return typeMatch(t, e.exactType()) }
func (e *writeTimeExpr) String() string {
	if e.ttl {
		return "ttl(" + e.column.Name + ")"
	}
	return "writetime(" + e.column.Name + ")"
}
func (e *writeTimeExpr) marks() bool                   { return false }
func (e *writeTimeExpr) aggregates() bool              { return false }
func (e *writeTimeExpr) reads(use func(*Column, bool)) { use(e.column, true) }
func (e *writeTimeExpr) selector(*binding) (selector, error) {
	return &writeTimeSelector{writeTimeExpr: e}, nil
}

type writeTimeSelector struct {
	*writeTimeExpr
	seen bool
	got  []byte
}

func (s *writeTimeSelector) add(v *view) error {
	if s.seen {
		return nil
	}
	s.seen, s.got = true, nil
	switch value := v.at(s.column); {
	case value.Bytes == nil:
	case !s.ttl:
		s.got = row.BigInt(value.Timestamp)
	case value.Expiry != 0:
		s.got = row.Int(int32(value.Expiry - v.now))
	}
	return nil
}
func (s *writeTimeSelector) value() ([]byte, error) { return s.got, nil }
func (s *writeTimeSelector) reset()                 { s.seen, s.got = false, nil }

// constantExpr is a literal or a marker with the type that is expected of it.
type constantExpr struct {
	t    *row.Type
	text string
	term term
}

func (e *constantExpr) match(t *row.Type) match   { return typeMatch(t, e.t) }
func (e *constantExpr) exactType() *row.Type      { return e.t }
func (e *constantExpr) String() string            { return e.text }
func (e *constantExpr) marks() bool               { return false }
func (e *constantExpr) aggregates() bool          { return false }
func (e *constantExpr) reads(func(*Column, bool)) {}
func (e *constantExpr) selector(b *binding) (selector, error) {
	if e.term.unset(b) {
		return constantSelector{}, nil // As in Apache Cassandra, the empty value.
	}
	v, err := e.term.bind(b)
	return constantSelector(v), err
}

// notSet says whether an expression is a marker that the client has not set.
func notSet(e expression, b *binding) bool {
	if h, ok := e.(*hintedExpr); ok {
		e = h.expression
	}
	c, ok := e.(*constantExpr)
	return ok && c.term.unset(b)
}

type constantSelector []byte

func (s constantSelector) add(*view) error        { return nil }
func (s constantSelector) value() ([]byte, error) { return s, nil }
func (s constantSelector) reset()                 {}

// callExpr is a call of a function, an operation or a cast.
type callExpr struct {
	f    *function
	args []expression
	text string
}

func (e *callExpr) match(t *row.Type) match { return typeMatch(t, e.f.result) }
func (e *callExpr) exactType() *row.Type    { return e.f.result }
func (e *callExpr) String() string          { return e.text }
func (e *callExpr) marks() bool             { return slices.ContainsFunc(e.args, expression.marks) }
func (e *callExpr) aggregates() bool {
	return e.f.aggregate != nil || slices.ContainsFunc(e.args, expression.aggregates)
}

func (e *callExpr) reads(use func(*Column, bool)) {
	for _, a := range e.args {
		a.reads(use)
	}
}

func (e *callExpr) selector(b *binding) (selector, error) {
	args := make([]selector, len(e.args))
	for i, a := range e.args {
		if notSet(a, b) && e.f.name != "" {
			return nil, invalid("Invalid unset value for argument in call to function %s", e.f.name)
		}
		var err error
		if args[i], err = a.selector(b); err != nil {
			return nil, err
		}
	}
	if e.f.aggregate != nil {
		return &aggregateSelector{f: e.f, args: args, sum: e.f.aggregate()}, nil
	}
	return &callSelector{f: e.f, moment: b.moment, args: args, values: make([][]byte, len(args))}, nil
}

type callSelector struct {
	f      *function
	moment *Moment
	args   []selector
	values [][]byte
}

func (s *callSelector) add(v *view) error {
	for _, a := range s.args {
		if err := a.add(v); err != nil {
			return err
		}
	}
	return nil
}

func (s *callSelector) value() ([]byte, error) {
	for i, a := range s.args {
		var err error
		if s.values[i], err = a.value(); err != nil {
			return nil, err
		}
	}
	return s.f.call(s.moment, s.values)
}

func (s *callSelector) reset() {
	for _, a := range s.args {
		a.reset()
	}
}

// aggregateSelector adds the value of its argument in each row.
type aggregateSelector struct {
	f    *function
	args []selector // none for COUNT(*)
	sum  aggregator
}

func (s *aggregateSelector) add(v *view) error {
	if len(s.args) == 0 {
		return s.sum.add(nil)
	}
	a := s.args[0]
	a.reset()
	if err := a.add(v); err != nil {
		return err
	}
	value, err := a.value()
	if err != nil {
		return err
	}
	return s.sum.add(value)
}

func (s *aggregateSelector) value() ([]byte, error) { return s.sum.result(), nil }
func (s *aggregateSelector) reset()                 { s.sum = s.f.aggregate() }

// partExpr is a part of a value: a field, an element or a slice.
type partExpr struct {
	of    expression
	t     *row.Type
	text  string
	bound []term // of an element or slice; nil in it for an open bound
	part  func(v []byte, bounds [][]byte) []byte
}

func (e *partExpr) match(t *row.Type) match       { return typeMatch(t, e.t) }
func (e *partExpr) exactType() *row.Type          { return e.t }
func (e *partExpr) String() string                { return e.text }
func (e *partExpr) marks() bool                   { return e.of.marks() }
func (e *partExpr) aggregates() bool              { return e.of.aggregates() }
func (e *partExpr) reads(use func(*Column, bool)) { e.of.reads(use) }

func (e *partExpr) selector(b *binding) (selector, error) {
	of, err := e.of.selector(b)
	if err != nil {
		return nil, err
	}
	s := &partSelector{selector: of, part: e.part, bounds: make([][]byte, len(e.bound))}
	for i, bound := range e.bound {
		if bound == nil {
			continue
		}
		what := "element"
		if len(e.bound) == 2 {
			what = "slice"
		}
		if bound.unset(b) {
			if len(e.bound) == 2 {
				continue // As in Apache Cassandra, an open bound.
			}
			return nil, invalid("Invalid unset value for element selection on %s", e.of)
		}
		if s.bounds[i], err = bound.bind(b); err != nil {
			return nil, err
		}
		if s.bounds[i] == nil {
			return nil, invalid("Invalid null value for %s selection on %s", what, e.of)
		}
	}
	return s, nil
}

type partSelector struct {
	selector
	part   func(v []byte, bounds [][]byte) []byte
	bounds [][]byte
}

func (s *partSelector) value() ([]byte, error) {
	v, err := s.selector.value()
	if err != nil || v == nil {
		return nil, err
	}
	return s.part(v, s.bounds), nil
}

// packExpr is a collection or tuple of expressions.
type packExpr struct {
	t     *row.Type
	parts []expression
	text  string
}

func (e *packExpr) match(t *row.Type) match { return typeMatch(t, e.t) }
func (e *packExpr) exactType() *row.Type    { return e.t }
func (e *packExpr) String() string          { return e.text }
func (e *packExpr) marks() bool             { return slices.ContainsFunc(e.parts, expression.marks) }

func (e *packExpr) aggregates() bool { return slices.ContainsFunc(e.parts, expression.aggregates) }

func (e *packExpr) reads(use func(*Column, bool)) {
	for _, p := range e.parts {
		p.reads(use)
	}
}

func (e *packExpr) selector(b *binding) (selector, error) {
	f := &function{result: e.t, nulls: true, eval: func(_ *Moment, parts [][]byte) ([]byte, error) {
		if e.t.Kind == row.KindTuple || e.t.Kind == row.KindUDT {
			return row.PackTuple(parts), nil
		}
		for _, p := range parts {
			if p == nil {
				return nil, invalid("null is not supported inside collections")
			}
		}
		count := len(parts)
		if e.t.Kind == row.KindMap {
			count /= 2
		}
		return e.t.Normalize(row.Pack(count, parts)), nil
	}}
	return (&callExpr{f: f, args: e.parts}).selector(b)
}

// field returns the part of a tuple or user-defined type at an index.
func field(t *row.Type, index int) func(v []byte, _ [][]byte) []byte {
	return func(v []byte, _ [][]byte) []byte {
		parts := t.Split(v)
		if index >= len(parts) {
			return nil
		}
		return parts[index]
	}
}

// element returns the value at a key of a map, or the element of a set if it has it.
func element(t *row.Type) func(v []byte, bounds [][]byte) []byte {
	return func(v []byte, bounds [][]byte) []byte {
		parts := t.Split(v)
		if t.Kind == row.KindSet {
			for _, p := range parts {
				if t.Key().Compare(p, bounds[0]) == 0 {
					return p
				}
			}
			return nil
		}
		for i := 0; i+1 < len(parts); i += 2 {
			if t.Key().Compare(parts[i], bounds[0]) == 0 {
				return parts[i+1]
			}
		}
		return nil
	}
}

// slice returns the part of a map or set between two keys, both included.
func slice(t *row.Type) func(v []byte, bounds [][]byte) []byte {
	return func(v []byte, bounds [][]byte) []byte {
		parts, step := t.Split(v), 1
		if t.Kind == row.KindMap {
			step = 2
		}
		var kept [][]byte
		for i := 0; i+step <= len(parts); i += step {
			k := parts[i]
			if (bounds[0] == nil || t.Key().Compare(k, bounds[0]) >= 0) && (bounds[1] == nil || t.Key().Compare(k, bounds[1]) <= 0) {
				kept = append(kept, parts[i:i+step]...)
			}
		}
		if len(kept) == 0 && !t.Frozen {
			return nil
		}
		return row.Pack(len(kept)/step, kept)
	}
}
