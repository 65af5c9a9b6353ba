package table

import (
	"bytes"
	"slices"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// filter is a restriction with the values of one execution.
type filter struct {
	*restriction
	t            *row.Type // of what is compared
	wanted       [][]byte  // of = and IN, and of CONTAINS
	element      []byte    // of column[element]
	lower, upper []byte    // nil for no bound

	// same says that values are equal if their bytes are, which differ for 1.0 and 1.00: an
	// index finds them so, as in Apache Cassandra.
	same bool
}

// equal compares a value of a row with one that is wanted.
func (f *filter) equal(t *row.Type, value, wanted []byte) bool {
	if f.same {
		return bytes.Equal(value, wanted)
	}
	return t.Compare(value, wanted) == 0
}

// bindFilter returns the filter of a restriction.
func (r *restriction) bindFilter(b *binding) (f filter, err error) {
	f = filter{restriction: r, t: r.columns[0].Type}
	if r.multi {
		f.t = r.tuple(len(r.columns))
	}
	switch {
	case r.slice() && r.multi:
		return f, invalid("Multi-column slice restrictions cannot be used for filtering.")
	case r.in() && len(r.columns) > 1:
		return f, invalid("Multicolumn IN filters are not supported")
	case r.slice():
		if r.lower != nil {
			if f.lower, err = r.compared(b, r.lower); err != nil {
				return f, err
			}
		}
		if r.upper != nil {
			f.upper, err = r.compared(b, r.upper)
		}
		return f, err
	case r.contains():
		if r.element != nil {
			if f.element, err = r.comparedAs("map key", b, r.element); err != nil {
				return f, err
			}
		}
		part := "value"
		if r.element != nil {
			part = "map value"
		}
		one, err := r.comparedAs(part, b, r.value)
		f.wanted = [][]byte{one}
		return f, err
	case r.in():
		f.wanted, err = r.listed(b)
		return f, err
	}
	one, err := r.compared(b, r.value)
	f.wanted = [][]byte{one}
	return f, err
}

// compared returns the value of a term that rows are compared with, which must not be null.
func (r *restriction) compared(b *binding, t term) ([]byte, error) {
	return r.comparedAs("value", b, t)
}

// comparedAs is compared with what an error calls the value.
func (r *restriction) comparedAs(what string, b *binding, t term) ([]byte, error) {
	if t.unset(b) {
		return nil, invalid("Unsupported unset %s for column %s", what, r.columns[0].Name)
	}
	v, err := t.bind(b)
	if err == nil && v == nil {
		err = invalid("Unsupported null %s for column %s", what, r.columns[0].Name)
	}
	return v, err
}

// accepts says whether a row satisfies the filter.
func (f *filter) accepts(v *view) bool {
	value := v.at(f.columns[0]).Bytes
	if f.multi {
		parts := make([][]byte, len(f.columns))
		for i, c := range f.columns {
			if parts[i] = v.at(c).Bytes; parts[i] == nil {
				return false
			}
		}
		value = row.PackTuple(parts)
	}
	switch {
	case value == nil:
		return false
	case f.contains():
		return f.hasPart(value)
	case f.slice():
		return f.within(value)
	}
	return slices.ContainsFunc(f.wanted, func(w []byte) bool { return w != nil && f.equal(f.t, value, w) })
}

// within compares a value with the bounds of a slice.
func (f *filter) within(value []byte) bool {
	if f.lower != nil {
		if c := f.t.Compare(value, f.lower); c < 0 || c == 0 && !f.lowerInclusive {
			return false
		}
	}
	if f.upper != nil {
		if c := f.t.Compare(value, f.upper); c > 0 || c == 0 && !f.upperInclusive {
			return false
		}
	}
	return true
}

// hasPart tells whether a collection has an element, a key, or a value at a key.
func (f *filter) hasPart(value []byte) bool {
	if f.element != nil {
		at := element(f.t)(value, [][]byte{f.element})
		return at != nil && f.equal(f.t.Element(), at, f.wanted[0])
	}
	parts, at, step, of := f.t.Split(value), 0, 1, f.t.Element()
	switch {
	case f.t.Kind == row.KindMap && f.operator == cql.ContainsKey:
		step, of = 2, f.t.Key()
	case f.t.Kind == row.KindMap:
		at, step = 1, 2
	}
	for ; at < len(parts); at += step {
		if f.equal(of, parts[at], f.wanted[0]) {
			return true
		}
	}
	return false
}
