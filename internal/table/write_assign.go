package table

import (
	"math"
	"slices"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// assignment compiles one assignment of UPDATE.
func (w *write) assignment(a *terms, c *Column, e *cql.Assignment) error {
	switch {
	case c.Type.Kind == row.KindCounter && e.Target.Element == nil && e.Target.Field == "":
		return w.count(a, c, e)
	case e.Target.Element != nil:
		return w.setElement(a, c, e)
	case e.Target.Field != "":
		return w.setField(a, c, e)
	case e.Kind == cql.Set:
		return w.set(a, c, e.Value)
	}
	name := c.Name
	text := "(" + name + " = " + name + " + " + textOf(e.Value) + ")"
	if e.Kind == cql.Subtract {
		text = "(" + name + " = " + name + " - " + textOf(e.Value) + ")"
	} else if e.Kind == cql.Prepend {
		text = "(" + name + " = " + textOf(e.Value) + " - " + name + ")"
	}
	if e.Kind == cql.Prepend && c.Type.Kind != row.KindList {
		if _, err := a.compile(e.Value, w.table.receiver(c.Type, c.Name)); err != nil {
			return err
		}
	}
	switch {
	case e.Kind == cql.Prepend && c.Type.Kind != row.KindList:
		return invalid("Invalid operation %s for non list column %s", text, name)
	case e.Kind == cql.Prepend && c.Type.Frozen:
		return invalid("Invalid operation %s for frozen list column %s", text, name)
	case e.Kind == cql.Add && (c.Type.Kind == row.KindTuple || c.Type.Kind == row.KindUDT):
		return invalid("Invalid operation %s for tuple column %s", text, name)
	case !c.Type.Collection() && e.Kind == cql.Add && w.conditional():
		return w.add(a, c, e.Value, text)
	case !c.Type.Collection():
		return invalid("Invalid operation %s for non counter column %s", text, name)
	case !c.Type.Multicell():
		return invalid("Invalid operation %s for frozen collection column %s", text, name)
	}
	r := w.table.receiver(c.Type, c.Name)
	if e.Kind == cql.Subtract && c.Type.Kind == row.KindMap {
		r = r.part(row.SetOf(c.Type.Key()).Freeze(), c.Name)
	}
	v, err := a.compile(e.Value, r)
	switch {
	case err != nil && c.Type.Kind == row.KindMap && e.Kind == cql.Subtract:
		return invalid("Value for a map substraction has to be a set, but was: '%s'", textOf(e.Value))
	case err != nil && c.Type.Kind == row.KindMap:
		return invalid("Value for a map addition has to be a map, but was: '%s'", textOf(e.Value))
	case err != nil:
		return err
	}
	make := map[cql.AssignmentKind]func(uint32, *row.Type, []byte) row.Op{
		cql.Add: row.AddElements, cql.Subtract: row.RemoveElements, cql.Prepend: row.PrependElements,
	}[e.Kind]
	w.assign(assignment{column: c, terms: []term{v}, op: func(values [][]byte) (row.Op, error) {
		return make(c.ID, c.Type, values[0]), nil
	}})
	return nil
}

// add compiles column = column + value of a column that is no counter, which a conditional
// write may have: it reads the row anyway.
func (w *write) add(a *terms, c *Column, value cql.Expr, text string) error {
	numeric := slices.Contains(numericKinds, c.Type.Kind)
	if !numeric && c.Type.Kind != row.KindText && c.Type.Kind != row.KindASCII {
		return invalid("Invalid operation %s for non-numeric and non-text type %s", text, c.Name)
	}
	v, err := a.compile(value, w.table.receiver(c.Type, c.Name).of(c))
	if err != nil {
		return err
	}
	w.assign(assignment{column: c, terms: []term{v}, adds: true, op: func(values [][]byte) (row.Op, error) {
		if values[0] == nil {
			return row.Op{}, invalid("Invalid null value for an addition to column %s", c.Name)
		}
		return row.SetColumn(c.ID, c.Type, values[0]), nil
	}})
	return nil
}

// count compiles the assignment of a counter.
func (w *write) count(a *terms, c *Column, e *cql.Assignment) error {
	name := c.Name
	if e.Kind == cql.Set {
		if _, err := a.compile(e.Value, w.table.receiver(c.Type, name).of(c)); err != nil {
			return err
		}
		return invalid("Cannot set the value of counter column %s (counters can only be incremented/decremented, not set)", name)
	}
	if e.Kind == cql.Prepend {
		if _, err := a.compile(e.Value, w.table.receiver(c.Type, name).of(c)); err != nil {
			return err
		}
		return invalid("Invalid operation (%s = %s - %s) for non list column %s", name, textOf(e.Value), name, name)
	}
	if _, ok := e.Value.(*cql.Null); ok {
		return invalid("Invalid null value for counter increment/decrement")
	}
	v, err := a.compile(e.Value, w.table.receiver(native(row.KindCounter), c.Name))
	if err != nil {
		return err
	}
	w.assign(assignment{column: c, terms: []term{v}, op: func(values [][]byte) (row.Op, error) {
		if len(values[0]) == 0 {
			return row.Op{}, invalid("Invalid null value for counter increment")
		}
		n := row.Integer(values[0])
		if e.Kind == cql.Subtract {
			if n == math.MinInt64 {
				return row.Op{}, invalid("The negation of %d overflows supported counter precision (signed 8 bytes integer)", n)
			}
			n = -n
		}
		return row.Op{Kind: row.OpAdd, Column: c.ID, Number: n}, nil
	}})
	return nil
}

// setElement compiles column[element] = value.
func (w *write) setElement(a *terms, c *Column, e *cql.Assignment) error {
	name := c.Name
	text := "(" + name + "[" + textOf(e.Target.Element) + "] = " + textOf(e.Value) + ")"
	switch {
	case !c.Type.Collection():
		return invalid("Invalid operation %s for non collection column %s", text, name)
	case !c.Type.Multicell():
		return invalid("Invalid operation %s for frozen collection column %s", text, name)
	case c.Type.Kind == row.KindSet:
		return invalid("Invalid operation %s for set column %s", text, name)
	}
	key, err := w.elementKey(a, c, e.Target.Element)
	if err != nil {
		return err
	}
	v, err := a.compile(e.Value, w.table.receiver(c.Type.Element(), "value("+c.Name+")"))
	if err != nil {
		return err
	}
	w.assign(assignment{column: c, terms: []term{v, key}, op: func(values [][]byte) (row.Op, error) { return elementOp(c, values[1], values[0], false) }})
	return nil
}

// elementKey compiles the key of an element of a collection.
func (w *write) elementKey(a *terms, c *Column, e cql.Expr) (term, error) {
	switch c.Type.Kind {
	case row.KindList:
		return a.compile(e, w.table.receiver(native(row.KindInt), "idx("+c.Name+")"))
	case row.KindSet:
		return a.compile(e, w.table.receiver(c.Type.Key(), "value("+c.Name+")"))
	}
	return a.compile(e, w.table.receiver(c.Type.Key(), "key("+c.Name+")"))
}

// elementOp sets an element to a value, or removes it if the value is nil. removes is for
// DELETE.
func elementOp(c *Column, key, v []byte, removes bool) (row.Op, error) {
	if c.Type.Kind == row.KindList {
		if len(key) == 0 {
			return row.Op{}, invalid("Invalid null value for list index")
		}
		if removes {
			return row.DeleteIndex(c.ID, int32(row.Integer(key))), nil
		}
		return row.SetIndex(c.ID, int32(row.Integer(key)), v), nil
	}
	if key == nil {
		if c.Type.Kind == row.KindSet {
			return row.Op{}, invalid("Invalid null set element")
		}
		return row.Op{}, invalid("Invalid null map key")
	}
	return row.SetElement(c.ID, c.Type, key, v), nil
}

// setField compiles column.field = value.
func (w *write) setField(a *terms, c *Column, e *cql.Assignment) error {
	name := c.Name
	text := "(" + name + "." + e.Target.Field + " = " + textOf(e.Value) + ")"
	switch {
	case c.Type.Kind != row.KindUDT:
		return invalid("Invalid operation %s for non-UDT column %s", text, name)
	case !c.Type.Multicell():
		return invalid("Invalid operation %s for frozen UDT column %s", text, name)
	}
	i := c.Type.Field(e.Target.Field)
	if i < 0 {
		return invalid("UDT column %s does not have a field named %s", name, e.Target.Field)
	}
	v, err := a.compile(e.Value, w.table.receiver(c.Type.Parts[i], c.Name+"."+e.Target.Field))
	if err != nil {
		return err
	}
	w.assign(assignment{column: c, terms: []term{v}, op: func(values [][]byte) (row.Op, error) { return row.SetField(c.ID, i, values[0]), nil }})
	return nil
}

// deletion compiles a column, element or field of DELETE.
func (w *write) deletion(a *terms, c *Column, e *cql.Target) error {
	name := c.Name
	switch {
	case e.Element != nil:
		if !c.Type.Collection() {
			return invalid("Invalid deletion operation for non collection column %s", name)
		}
		if !c.Type.Multicell() {
			return invalid("Invalid deletion operation for frozen collection column %s", name)
		}
		key, err := w.elementKey(a, c, e.Element)
		if err != nil {
			return err
		}
		w.assign(assignment{column: c, terms: []term{key}, removes: true, op: func(values [][]byte) (row.Op, error) { return elementOp(c, values[0], nil, true) }})
	case e.Field != "":
		if c.Type.Kind != row.KindUDT {
			return invalid("Invalid field deletion operation for non-UDT column %s", name)
		}
		if !c.Type.Multicell() {
			return invalid("Frozen UDT column %s does not support field deletions", name)
		}
		i := c.Type.Field(e.Field)
		if i < 0 {
			return invalid("UDT column %s does not have a field named %s", name, e.Field)
		}
		w.assign(assignment{column: c, op: func([][]byte) (row.Op, error) { return row.SetField(c.ID, i, nil), nil }})
	default:
		w.assign(assignment{column: c, op: func([][]byte) (row.Op, error) { return row.DeleteColumn(c.ID, c.Type), nil }})
	}
	return nil
}
