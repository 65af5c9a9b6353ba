package row

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// Mutation is what one statement does to one row, or to the static row, as data:
// it crosses wires as bytes. [Apply] makes it part of a row. A deletion of a
// partition or of a range of rows is a [Meta], which [MergeMeta] makes part of the
// metadata of the partition.
type Mutation struct {
	// Timestamp orders the write; TTL is the time to live of what it sets, in
	// seconds, 0 for no end.
	Timestamp int64
	TTL       uint32
	// Marker makes the row exist even without values, as INSERT does.
	Marker bool
	// DeleteRow deletes the whole row, except for what is later than Timestamp.
	DeleteRow bool
	// Ops change columns. A column that is not a counter occurs once.
	Ops []Op
	// Key are the clustering values whose bytes the encoded key does not have; see
	// [Type.Original].
	Key []KeyValue
	// Sequence decides the places of elements that the mutation adds to lists. It
	// must be positive and must rise from each mutation of a row to the next one.
	// The code that orders writes sets it, for example to the microseconds of its
	// clock, made unique.
	Sequence int64
}

// OpKind says what an Op does.
type OpKind uint8

// The kinds of changes of a column.
const (
	// OpSet sets a column that is not multi-cell to Value.
	OpSet OpKind = iota + 1
	// OpDelete makes a column that is not multi-cell null.
	OpDelete
	// OpClear deletes all elements of a multi-cell column, as DELETE does.
	OpClear
	// OpReplace sets a multi-cell column to Elements. Elements without a path are
	// those of a list.
	OpReplace
	// OpPut sets elements of a set, map or user-defined type.
	OpPut
	// OpRemove deletes elements of a set, map or user-defined type.
	OpRemove
	// OpAppend adds Elements to the end of a list.
	OpAppend
	// OpPrepend adds Elements to the start of a list, in their order.
	OpPrepend
	// OpSetIndex replaces the element of a list at Number by Value, or removes it if
	// Value is nil. It reads the row first.
	OpSetIndex
	// OpDeleteIndex deletes the element of a list at Number. It reads the row first.
	OpDeleteIndex
	// OpDiscard deletes all elements of a list with the values of Elements. It reads
	// the row first.
	OpDiscard
	// OpAdd adds Number to a counter. It reads the row first.
	OpAdd
	// OpCheckIndex changes nothing. It is an error if a list has no element at Number, as
	// with OpSetIndex. It reads the row first.
	OpCheckIndex
	opKindEnd
)

// Op is a change of one column.
type Op struct {
	Kind   OpKind
	Column uint32
	// Value is the value of OpSet and OpSetIndex.
	Value []byte
	// Number is the index in a list, from 0, or what OpAdd adds.
	Number int64
	// Elements are the elements of the other kinds.
	Elements []Element
}

// Element is an element of a multi-cell column; see [Cell].
type Element struct {
	Path, Original, Value []byte
}

// elementsOf returns the elements of a multi-cell value. Fields that are null are
// left out.
func (t *Type) elementsOf(v []byte) []Element {
	parts := t.Split(v)
	elements := make([]Element, 0, len(parts)/len(t.Parts)+1)
	switch t.Kind {
	case KindList:
		for _, part := range parts {
			elements = append(elements, Element{Value: part})
		}
	case KindSet:
		for _, part := range parts {
			path, original := t.ElementPath(part)
			elements = append(elements, Element{Path: path, Original: original, Value: []byte{}})
		}
	case KindMap:
		for i := 0; i+1 < len(parts); i += 2 {
			path, original := t.ElementPath(parts[i])
			elements = append(elements, Element{Path: path, Original: original, Value: parts[i+1]})
		}
	case KindUDT:
		for i, part := range parts {
			if part != nil {
				elements = append(elements, Element{Path: FieldPath(i), Value: part})
			}
		}
	}
	return elements
}

// SetColumn returns the change that sets a column of any type to a normalized
// value; nil is null.
func SetColumn(column uint32, t *Type, v []byte) Op {
	switch {
	case t.Multicell():
		return Op{Kind: OpReplace, Column: column, Elements: t.elementsOf(v)}
	case v == nil:
		return Op{Kind: OpDelete, Column: column}
	}
	return Op{Kind: OpSet, Column: column, Value: v}
}

// DeleteColumn returns the change of DELETE with the column.
func DeleteColumn(column uint32, t *Type) Op {
	if t.Multicell() {
		return Op{Kind: OpClear, Column: column}
	}
	return Op{Kind: OpDelete, Column: column}
}

// AddElements returns the change that adds the elements of a normalized value to a
// multi-cell set, map or list, to the end of a list.
func AddElements(column uint32, t *Type, v []byte) Op {
	kind := OpPut
	if t.Kind == KindList {
		kind = OpAppend
	}
	return Op{Kind: kind, Column: column, Elements: t.elementsOf(v)}
}

// PrependElements returns the change that adds the elements of a list value to the
// start of a list.
func PrependElements(column uint32, t *Type, v []byte) Op {
	return Op{Kind: OpPrepend, Column: column, Elements: t.elementsOf(v)}
}

// RemoveElements returns the change that removes from a multi-cell collection the
// elements of v: a value of the same set or list type, or the set of the keys of a
// map.
func RemoveElements(column uint32, t *Type, v []byte) Op {
	if t.Kind == KindList {
		return Op{Kind: OpDiscard, Column: column, Elements: t.elementsOf(v)}
	}
	elements := SetOf(t.Key()).elementsOf(v)
	for i := range elements {
		elements[i].Value = nil
	}
	return Op{Kind: OpRemove, Column: column, Elements: elements}
}

// SetElement returns the change that sets the value of a key of a map; nil removes
// it. RemoveElement does the same for the element of a set.
func SetElement(column uint32, t *Type, key, v []byte) Op {
	path, original := t.ElementPath(key)
	kind := OpPut
	if v == nil {
		kind = OpRemove
	}
	return Op{Kind: kind, Column: column, Elements: []Element{{Path: path, Original: original, Value: v}}}
}

// RemoveElement returns the change that removes an element of a set or a key of a
// map.
func RemoveElement(column uint32, t *Type, key []byte) Op { return SetElement(column, t, key, nil) }

// SetField returns the change that sets a field of a multi-cell user-defined type;
// nil is null.
func SetField(column uint32, index int, v []byte) Op {
	kind := OpPut
	if v == nil {
		kind = OpRemove
	}
	return Op{Kind: kind, Column: column, Elements: []Element{{Path: FieldPath(index), Value: v}}}
}

// SetIndex returns the change that sets the element of a list at an index; nil
// removes it.
func SetIndex(column uint32, index int32, v []byte) Op {
	return Op{Kind: OpSetIndex, Column: column, Number: int64(index), Value: v}
}

// CheckIndex returns the change that nothing follows from, but the error of [SetIndex] if
// the list has no such element.
func CheckIndex(column uint32, index int32) Op {
	return Op{Kind: OpCheckIndex, Column: column, Number: int64(index)}
}

// DeleteIndex returns the change that removes the element of a list at an index.
func DeleteIndex(column uint32, index int32) Op {
	return Op{Kind: OpDeleteIndex, Column: column, Number: int64(index)}
}

// Reads says whether the result of the mutation depends on the row: it changes a
// list by index or value, or a counter. The changes of others can be merged into a
// row that is not known yet: they are Apply to an empty row.
func (m *Mutation) Reads() bool {
	return slices.ContainsFunc(m.Ops, func(op Op) bool { return op.Kind >= OpSetIndex })
}

// Settle returns a mutation that does the same to a row whatever happens to the row
// meanwhile: changes of a list by index or value name the elements that they mean in the
// row, and elements that it adds have their places by Sequence. So it may be made again.
// The error is an *Error if an index is outside of the list. Changes of counters cannot be
// settled.
func (m *Mutation) Settle(row *Row, at Snapshot) (Mutation, error) {
	settled := *m
	if !m.Reads() {
		return settled, nil
	}
	before := row.Shadow(at.Covered)
	settled.Ops = make([]Op, 0, len(m.Ops))
	b := cellBuilder{mutation: m, now: at.Now, before: &before}
	for i := range m.Ops {
		op, own := m.Ops[i], len(b.cells)
		if op.Kind == OpAdd {
			return Mutation{}, fmt.Errorf("settle a mutation: column %d is a counter", op.Column)
		}
		if err := b.change(&op); err != nil {
			return Mutation{}, err
		}
		if op.Kind == OpCheckIndex {
			continue
		}
		if op.Kind < OpSetIndex {
			settled.Ops = append(settled.Ops, op)
			continue
		}
		one := Op{Kind: OpRemove, Column: op.Column}
		if op.Kind == OpSetIndex && op.Value != nil {
			one.Kind = OpPut
		}
		for _, c := range b.cells[own:] {
			one.Elements = append(one.Elements, Element{Path: c.Path, Value: c.Value})
		}
		settled.Ops = append(settled.Ops, one)
	}
	return settled, nil
}

// Apply returns a row with the changes of mutations, at a time. Changes by index or
// value of a list read the row as it was before all of them, with the changes of their own
// mutation that precede them; changes of counters see the ones before. The result, too, has nothing that at.Covered covers. It
// shares memory with the arguments. What the client did wrong is an *Error; other
// errors are mistakes of the caller.
func Apply(row *Row, at Snapshot, mutations ...Mutation) (Row, error) {
	before := row.Shadow(at.Covered)
	after := before
	for i := range mutations {
		changes, err := mutations[i].changes(&before, &after, at.Now)
		if err != nil {
			return Row{}, err
		}
		after = Merge(&after, &changes)
	}
	return after.Shadow(at.Covered), nil
}

// changes returns the changes as a row.
func (m *Mutation) changes(before, counters *Row, now int64) (Row, error) {
	changes := Row{Key: m.Key}
	if m.DeleteRow {
		changes.Deletion = Deletion{Present: true, Timestamp: m.Timestamp, Local: now}
	} else if m.Marker {
		changes.Marker = Liveness{Present: true, Timestamp: m.Timestamp}
		if m.TTL > 0 {
			changes.Marker.TTL, changes.Marker.Expiry = m.TTL, now+int64(m.TTL)
		}
	}
	b := cellBuilder{mutation: m, now: now, before: before, counters: counters}
	for i := range m.Ops {
		if err := b.change(&m.Ops[i]); err != nil {
			return Row{}, err
		}
	}
	b.into(&changes)
	return changes, nil
}

// cellBuilder makes the cells of a mutation.
type cellBuilder struct {
	mutation *Mutation
	now      int64
	cells    []Cell

	before, counters *Row // what changes that read see
}

// change makes the cells of a change.
func (b *cellBuilder) change(op *Op) error {
	switch op.Kind {
	case OpSetIndex, OpDeleteIndex, OpCheckIndex:
		return b.atIndex(op)
	case OpDiscard:
		b.discard(op)
	case OpAdd:
		b.count(op, b.counters)
	default:
		return b.blind(op)
	}
	return nil
}

// into adds the cells to a row without cells. The same element may occur twice, and the
// deletion of the row covers all of it: merging cell by cell keeps the rules.
func (b *cellBuilder) into(r *Row) {
	cells := slices.Clone(b.cells)
	slices.SortStableFunc(cells, func(x, y Cell) int { return orderCells(&x, &y) })
	merged := merger{row: r}
	for i := range cells {
		if n := len(r.Cells); n > 0 && orderCells(&r.Cells[n-1], &cells[i]) == 0 {
			if last := &r.Cells[n-1]; cells[i].Kind == CellCounter || wins(&cells[i], last) {
				*last = cells[i]
			}
			continue
		}
		merged.add(&cells[i])
	}
}

// state returns the row as the changes so far have made it.
func (b *cellBuilder) state() *Row {
	if len(b.cells) == 0 {
		return b.before
	}
	var own Row
	b.into(&own)
	after := Merge(b.before, &own)
	return &after
}

// put adds a cell with a value, or a tombstone if the value is nil.
func (b *cellBuilder) put(column uint32, e Element) {
	c := Cell{Column: column, Path: e.Path, Original: e.Original, Timestamp: b.mutation.Timestamp, Value: e.Value}
	switch {
	case e.Value == nil:
		c.Kind, c.Local = CellTombstone, b.now
	case b.mutation.TTL > 0:
		c.Kind, c.TTL, c.Local = CellExpiring, b.mutation.TTL, b.now+int64(b.mutation.TTL)
	}
	b.cells = append(b.cells, c)
}

func (b *cellBuilder) clear(column uint32, timestamp int64) {
	b.cells = append(b.cells, Cell{Column: column, Kind: CellDeletion, Timestamp: timestamp, Local: b.now})
}

// blind makes the cells of a change that reads nothing.
func (b *cellBuilder) blind(op *Op) error {
	switch op.Kind {
	case OpSet:
		b.put(op.Column, Element{Value: nonNull(op.Value)})
	case OpDelete:
		b.put(op.Column, Element{})
	case OpClear:
		b.clear(op.Column, b.mutation.Timestamp)
	case OpReplace:
		// The deletion precedes the elements, which have the mutation's timestamp.
		b.clear(op.Column, b.mutation.Timestamp-1)
		return b.elements(op, 1)
	case OpPut, OpAppend:
		return b.elements(op, 1)
	case OpPrepend:
		return b.elements(op, -1)
	case OpRemove:
		for _, e := range op.Elements {
			e.Value = nil
			b.put(op.Column, e)
		}
	default:
		return fmt.Errorf("%w: mutation: change of kind %d", ErrCorrupt, op.Kind)
	}
	return nil
}

// elements puts elements; one without a path gets a place in its list, after all
// others if sign is 1, before all others if it is -1.
func (b *cellBuilder) elements(op *Op, sign int64) error {
	for i, e := range op.Elements {
		if e.Path == nil {
			if b.mutation.Sequence <= 0 {
				return fmt.Errorf("add to a list: the mutation has no sequence")
			}
			e.Path = listPath(sign*b.mutation.Sequence, i)
		}
		e.Value = nonNull(e.Value)
		b.put(op.Column, e)
	}
	return nil
}

func nonNull(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}

// listPath returns the place of the element that a mutation adds as its nth: what
// later mutations append follows, what they prepend precedes.
func listPath(sequence int64, n int) []byte {
	path := binary.BigEndian.AppendUint64(make([]byte, 0, 12), uint64(sequence)^1<<63)
	return binary.BigEndian.AppendUint32(path, uint32(n))
}

// live returns the live elements of a multi-cell column.
func (b *cellBuilder) live(row *Row, column uint32) []Cell {
	var live []Cell
	for i := range row.Cells {
		if c := &row.Cells[i]; c.Column == column && c.Path != nil && c.Live(b.now) {
			live = append(live, *c)
		}
	}
	return live
}

func (b *cellBuilder) atIndex(op *Op) error {
	elements := b.live(b.state(), op.Column)
	if len(elements) == 0 {
		text := "Attempted to set an element on a list which is null"
		if op.Kind == OpDeleteIndex {
			text = "Attempted to delete an element from a list which is null"
		}
		return &Error{Reason: BadMutation, Text: text}
	}
	if op.Number < 0 || op.Number >= int64(len(elements)) {
		return &Error{Reason: BadMutation, Text: fmt.Sprintf("List index %d out of bound, list has size %d", op.Number, len(elements))}
	}
	if op.Kind == OpCheckIndex {
		return nil
	}
	e := Element{Path: elements[op.Number].Path}
	if op.Kind == OpSetIndex {
		e.Value = op.Value
	}
	b.put(op.Column, e)
	return nil
}

func (b *cellBuilder) discard(op *Op) {
	for _, c := range b.live(b.state(), op.Column) {
		for _, e := range op.Elements {
			if bytes.Equal(e.Value, c.Value) {
				b.put(op.Column, Element{Path: c.Path})
				break
			}
		}
	}
}

// count adds to a counter, which wraps around at 64 bits. Its cell is later than
// the one that it replaces, whatever the clock says.
func (b *cellBuilder) count(op *Op, row *Row) {
	total, timestamp := op.Number, b.mutation.Timestamp
	add := func(cells []Cell) bool {
		for i := range cells {
			if c := &cells[i]; c.Column == op.Column && c.Kind == CellCounter {
				total += Integer(c.Value)
				timestamp = max(timestamp, c.Timestamp+1)
				return true
			}
		}
		return false
	}
	// The last cell of this mutation has the sum of the ones before.
	reversed := slices.Clone(b.cells)
	slices.Reverse(reversed)
	if !add(reversed) {
		add(row.Cells)
	}
	b.cells = append(b.cells, Cell{Column: op.Column, Kind: CellCounter, Timestamp: timestamp, Value: BigInt(total)})
}

// The encoded form of a mutation, version 1.
const mutationVersion = 1

const (
	mutationMarker = 1 << iota
	mutationDeleteRow
	mutationFlagsEnd
)

// Append appends the encoded form of the mutation, which [DecodeMutation] reads.
func (m *Mutation) Append(dst []byte) []byte {
	flags := byte(0)
	if m.Marker {
		flags |= mutationMarker
	}
	if m.DeleteRow {
		flags |= mutationDeleteRow
	}
	dst = append(dst, mutationVersion, flags)
	dst = binary.AppendVarint(dst, m.Timestamp)
	dst = binary.AppendUvarint(dst, uint64(m.TTL))
	dst = binary.AppendVarint(dst, m.Sequence)
	dst = binary.AppendUvarint(dst, uint64(len(m.Key)))
	for _, k := range m.Key {
		dst = appendBytes(binary.AppendUvarint(dst, uint64(k.Column)), k.Value)
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Ops)))
	for i := range m.Ops {
		op := &m.Ops[i]
		dst = binary.AppendUvarint(append(dst, byte(op.Kind)), uint64(op.Column))
		dst = binary.AppendVarint(appendOptional(dst, op.Value), op.Number)
		dst = binary.AppendUvarint(dst, uint64(len(op.Elements)))
		for _, e := range op.Elements {
			dst = appendOptional(appendOptional(appendOptional(dst, e.Path), e.Original), e.Value)
		}
	}
	return dst
}

// appendOptional appends bytes that may be nil.
func appendOptional(dst, v []byte) []byte {
	if v == nil {
		return append(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(v))+1), v...)
}

// optional is the inverse of appendOptional.
func (c *cursor) optional() []byte {
	n := c.uvarint()
	if n == 0 {
		return nil
	}
	if n--; n > uint64(len(c.rest)) {
		c.fail()
		return nil
	}
	v := c.rest[:n:n]
	c.rest = c.rest[n:]
	return v
}

// DecodeMutation reads an encoded mutation, which shares memory with the bytes. Its
// errors wrap ErrCorrupt.
func DecodeMutation(encoded []byte) (Mutation, error) {
	c := &cursor{rest: encoded}
	version, flags := c.byte(), c.byte()
	if version != mutationVersion || flags >= mutationFlagsEnd {
		c.fail()
	}
	m := Mutation{
		Marker: flags&mutationMarker != 0, DeleteRow: flags&mutationDeleteRow != 0,
		Timestamp: c.varint(), TTL: c.uint32(), Sequence: c.varint(),
	}
	for range c.count() {
		m.Key = append(m.Key, KeyValue{Column: int(c.uint32()), Value: c.bytes()})
	}
	for range c.count() {
		op := Op{Kind: OpKind(c.byte()), Column: c.uint32(), Value: c.optional(), Number: c.varint()}
		if op.Kind == 0 || op.Kind >= opKindEnd {
			c.fail()
		}
		for range c.count() {
			op.Elements = append(op.Elements, Element{Path: c.optional(), Original: c.optional(), Value: c.optional()})
		}
		m.Ops = append(m.Ops, op)
	}
	if c.bad || len(c.rest) > 0 {
		return Mutation{}, fmt.Errorf("%w: mutation", ErrCorrupt)
	}
	return m, nil
}
