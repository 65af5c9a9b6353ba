package table

import (
	"bytes"
	"slices"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// marker returns the term of a marker, and records what it is for.
func (a *terms) marker(e *cql.Marker, r receiver) term {
	name := e.Name
	if name == "" {
		name = r.name
	}
	a.markers[e.Index] = Marker{Keyspace: r.keyspace, Table: r.table, Name: name, Type: r.t, column: r.column}
	return &bound{index: e.Index, t: r.t, relation: len(r.columns) > 0 && r.t.Kind == row.KindTuple}
}

// bound is the value of a marker.
type bound struct {
	index    int
	t        *row.Type
	relation bool // a tuple of values of columns
	in       bool // a list of IN, whose elements may be null
}

// nullable makes the list of an IN one whose elements may be null, if it is a marker.
func nullable(t term) term {
	if m, ok := t.(*bound); ok {
		m.in = true
	}
	return t
}

func (m *bound) bind(b *binding) ([]byte, error) {
	v := b.values[m.index]
	if v == nil {
		return nil, nil
	}
	if m.relation && m.t.Exceeds(v) {
		plural := ""
		if len(m.t.Parts) > 1 {
			plural = "s"
		}
		return nil, invalid("Expected %d value%s for %s column, but got more", len(m.t.Parts), plural, m.t)
	}
	checked := v
	if m.in {
		checked = withoutNulls(m.t, v)
	}
	if kind := withoutBytes(m.t, v); kind != 0 {
		return nil, invalid("Not enough bytes to read a %s", kind)
	}
	if err := m.t.Validate(checked); err != nil {
		return nil, invalid("%s", err.Error())
	}
	return m.t.Normalize(v), nil
}

// withoutBytes returns the kind of a set or map that is a value or an element of it and has
// no bytes, not even a count; 0 without. In tuples, Apache Cassandra accepts them.
func withoutBytes(t *row.Type, v []byte) row.Kind {
	switch {
	case v == nil || !t.Collection():
		return 0
	case len(v) == 0 && t.Kind != row.KindList:
		return t.Kind
	case !slices.ContainsFunc(t.Parts, (*row.Type).Collection):
		return 0
	}
	for i, part := range t.Split(v) {
		if kind := withoutBytes(t.Parts[i%len(t.Parts)], part); kind != 0 {
			return kind
		}
	}
	return 0
}

// withoutNulls returns a list without its null elements; bytes that are no list as they are.
func withoutNulls(t *row.Type, v []byte) []byte {
	parts := t.Split(v)
	null := func(p []byte) bool { return p == nil }
	if !slices.ContainsFunc(parts, null) || !bytes.Equal(row.Pack(len(parts), parts), v) {
		return v
	}
	parts = slices.DeleteFunc(parts, null)
	return row.Pack(len(parts), parts)
}

// elementsOf returns the elements of the list of an IN. As in Apache Cassandra, one without
// bytes is null in the types that have no empty value.
func elementsOf(t *row.Type, v []byte) [][]byte {
	parts := row.ListOf(t).Split(v)
	for i, p := range parts {
		if len(p) == 0 && t.Native() && t.Kind != row.KindText && t.Kind != row.KindASCII && t.Kind != row.KindBlob {
			parts[i] = nil
		}
	}
	return parts
}

func (m *bound) unset(b *binding) bool { return b.unset != nil && b.unset[m.index] }
