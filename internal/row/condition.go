package row

import (
	"encoding/binary"
	"fmt"
)

// Condition is one condition of a conditional statement as data, for one row or for
// the static row. All conditions of a statement must hold.
type Condition struct {
	Kind ConditionKind
	// Column and Type are the column, of the other kinds than the first two.
	Column uint32
	Type   *Type
	// Key is the key of a map, or the index in a list as an int, of ElementIs.
	Key []byte
	// Field is the index of the field of FieldIs.
	Field int
	// Op compares the value on the left with each of Values; only In may have
	// another number of them than one. Nil is null.
	Op     Operator
	Values [][]byte
}

// ConditionKind says what a condition is about.
type ConditionKind uint8

// The kinds of conditions.
const (
	RowExists ConditionKind = iota + 1
	RowNotExists
	// ColumnIs compares the value of a column.
	ColumnIs
	// ElementIs compares a value of a map or list.
	ElementIs
	// FieldIs compares a field of a user-defined type.
	FieldIs
	conditionKindEnd
)

// Operator is an operator of a condition.
type Operator uint8

// The operators.
const (
	Equal Operator = iota + 1
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual
	In
	// Contains and ContainsKey look for a value or key in a collection.
	Contains
	ContainsKey
	operatorEnd
)

// String returns the operator in CQL.
func (o Operator) String() string {
	names := [...]string{"", "=", "!=", "<", "<=", ">", ">=", "IN", "CONTAINS", "CONTAINS KEY"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("operator %d", o)
}

func badCondition(format string, args ...any) error {
	return &Error{Reason: BadCondition, Text: fmt.Sprintf(format, args...)}
}

// Holds says whether the condition holds for a row as a reader sees it; a row that
// does not exist is the zero Row. Errors of type *Error have the texts of
// Cassandra 4.1; others wrap ErrCorrupt.
func (c *Condition) Holds(row *Row, at Snapshot) (bool, error) {
	switch c.Kind {
	case RowExists, RowNotExists:
		shadowed := row.Shadow(at.Covered)
		return shadowed.Alive(at.Now) == (c.Kind == RowExists), nil
	}
	v, err := row.Value(Want{Column: c.Column, Type: c.Type}, at)
	if err != nil {
		return false, err
	}
	left, of := v.Bytes, c.Type
	switch c.Kind {
	case ElementIs:
		if left, err = c.element(left); err != nil {
			return false, err
		}
		of = c.Type.Element()
	case FieldIs:
		parts := c.Type.Split(left)
		left, of = nil, c.Type.Parts[c.Field]
		if c.Field < len(parts) {
			left = parts[c.Field]
		}
	}
	if c.Op == Contains || c.Op == ContainsKey {
		return c.contains(left)
	}
	// A multi-cell collection without elements is null.
	multi := c.Kind == ColumnIs && c.Type.Multicell() && c.Type.Collection()
	op := c.Op
	if op == In {
		op = Equal
	}
	for _, right := range c.Values {
		if multi && right != nil && len(c.Type.Split(right)) == 0 {
			if op != Equal && op != NotEqual {
				return false, badCondition("Invalid comparison with an empty %s for operator \"%s\"", c.Type.Kind, op)
			}
			right = nil
		}
		held, err := compareWith(of, left, op, right)
		if held || err != nil {
			return held, err
		}
	}
	return false, nil
}

// element returns the value of the condition's key in a collection.
func (c *Condition) element(collection []byte) ([]byte, error) {
	list := c.Type.Kind == KindList
	if c.Key == nil || list && len(c.Key) == 0 {
		if list {
			return nil, badCondition("Invalid null value for list element access")
		}
		return nil, badCondition("Invalid null value for map element access")
	}
	parts := c.Type.Split(collection)
	if list {
		index := Integer(c.Key)
		if index < 0 {
			return nil, badCondition("Invalid negative list index %d", index)
		}
		if index < int64(len(parts)) {
			return parts[index], nil
		}
		return nil, nil
	}
	for i := 0; i+1 < len(parts); i += 2 {
		if c.Type.Key().Compare(parts[i], c.Key) == 0 {
			return parts[i+1], nil
		}
	}
	return nil, nil
}

func (c *Condition) contains(collection []byte) (bool, error) {
	of, step, first := c.Type.Element(), 1, 0
	if c.Type.Kind == KindMap {
		step = 2
		if c.Op == Contains {
			first = 1
		}
	}
	if c.Op == ContainsKey {
		of = c.Type.Key()
	}
	parts := c.Type.Split(collection)
	for _, right := range c.Values {
		if right == nil {
			return false, badCondition("Invalid comparison with null for operator \"%s\"", c.Op)
		}
		for i := first; i < len(parts); i += step {
			if of.Compare(parts[i], right) == 0 {
				return true, nil
			}
		}
	}
	return false, nil
}

// compareWith compares the value of a row with that of a condition.
func compareWith(t *Type, left []byte, op Operator, right []byte) (bool, error) {
	if right == nil {
		switch op {
		case Equal:
			return left == nil, nil
		case NotEqual:
			return left != nil, nil
		}
		return false, badCondition("Invalid comparison with null for operator \"%s\"", op)
	}
	if left == nil {
		return op == NotEqual, nil
	}
	order := t.Compare(left, right)
	switch op {
	case Equal:
		return order == 0, nil
	case NotEqual:
		return order != 0, nil
	case Less:
		return order < 0, nil
	case LessEqual:
		return order <= 0, nil
	case Greater:
		return order > 0, nil
	case GreaterEqual:
		return order >= 0, nil
	}
	return false, fmt.Errorf("%w: condition: %s", ErrCorrupt, op)
}

// Append appends the encoded form of the condition, which [DecodeCondition] reads.
func (c *Condition) Append(dst []byte) []byte {
	dst = append(dst, conditionVersion, byte(c.Kind), byte(c.Op))
	if c.Kind > RowNotExists {
		dst = AppendType(binary.AppendUvarint(dst, uint64(c.Column)), c.Type)
	}
	dst = binary.AppendUvarint(appendOptional(dst, c.Key), uint64(c.Field))
	dst = binary.AppendUvarint(dst, uint64(len(c.Values)))
	for _, v := range c.Values {
		dst = appendOptional(dst, v)
	}
	return dst
}

const conditionVersion = 1

// DecodeCondition reads an encoded condition, which shares memory with the bytes.
// Its errors wrap ErrCorrupt.
func DecodeCondition(encoded []byte) (Condition, error) {
	c := &cursor{rest: encoded}
	version := c.byte()
	condition := Condition{Kind: ConditionKind(c.byte()), Op: Operator(c.byte())}
	if condition.Kind > RowNotExists {
		condition.Column = c.uint32()
		condition.Type = c.typeOf(0)
	}
	condition.Key = c.optional()
	condition.Field = int(c.uint32())
	for range c.count() {
		condition.Values = append(condition.Values, c.optional())
	}
	if version != conditionVersion || c.bad || len(c.rest) > 0 || !condition.valid() {
		return Condition{}, fmt.Errorf("%w: condition", ErrCorrupt)
	}
	return condition, nil
}

// valid checks that the parts of a condition fit each other.
func (c *Condition) valid() bool {
	switch c.Kind {
	case RowExists, RowNotExists:
		return true
	case FieldIs:
		if c.Type.Kind != KindUDT || c.Field >= len(c.Type.Parts) {
			return false
		}
	case ElementIs:
		if c.Type.Kind != KindList && c.Type.Kind != KindMap {
			return false
		}
	case ColumnIs:
	default:
		return false
	}
	switch c.Op {
	case Contains:
		return c.Kind == ColumnIs && c.Type.Collection()
	case ContainsKey:
		return c.Kind == ColumnIs && c.Type.Kind == KindMap
	}
	return c.Op >= Equal && c.Op <= In && (c.Op == In || len(c.Values) == 1)
}

// AppendType appends the encoded form of a type, which [DecodeType] reads. It has
// the whole of a user-defined type.
func AppendType(dst []byte, t *Type) []byte {
	frozen := byte(0)
	if t.Frozen {
		frozen = 1
	}
	dst = append(dst, byte(t.Kind), frozen)
	if t.Native() {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(t.Dimension))
	dst = appendBytes(appendBytes(dst, []byte(t.Keyspace)), []byte(t.Name))
	dst = binary.AppendUvarint(dst, uint64(len(t.Parts)))
	for i, part := range t.Parts {
		if t.Kind == KindUDT {
			dst = appendBytes(dst, []byte(t.Fields[i]))
		}
		dst = AppendType(dst, part)
	}
	return dst
}

// DecodeType reads an encoded type. Its errors wrap ErrCorrupt.
func DecodeType(encoded []byte) (*Type, error) {
	c := &cursor{rest: encoded}
	t := c.typeOf(0)
	if c.bad || len(c.rest) > 0 {
		return nil, fmt.Errorf("%w: type", ErrCorrupt)
	}
	return t, nil
}

// typeOf reads a type. After a fault it returns the type int.
func (c *cursor) typeOf(depth int) *Type {
	kind, frozen := Kind(c.byte()), c.byte()
	if kind < KindASCII || kind > KindVector || frozen > 1 || depth > typeDepthMax {
		c.fail()
	}
	if c.bad || kind <= KindVarInt {
		if frozen > 0 {
			c.fail()
		}
		if c.bad {
			kind = KindInt
		}
		return natives[kind]
	}
	t := &Type{Kind: kind, Frozen: frozen == 1, Dimension: int(c.uint32()), Keyspace: string(c.bytes()), Name: string(c.bytes())}
	for range c.count() {
		if kind == KindUDT {
			t.Fields = append(t.Fields, string(c.bytes()))
		}
		t.Parts = append(t.Parts, c.typeOf(depth+1))
	}
	parts := map[Kind]int{KindList: 1, KindSet: 1, KindVector: 1, KindMap: 2}[kind]
	if parts > 0 && len(t.Parts) != parts || parts == 0 && len(t.Parts) == 0 || (kind == KindVector) != (t.Dimension > 0) {
		c.fail()
		return natives[KindInt]
	}
	return t
}
