package row

import "encoding/binary"

// Want is a column to read from a row.
type Want struct {
	Column uint32
	Type   *Type
}

// Value is what a reader sees of a column at a time.
type Value struct {
	// Bytes is the value in the form of the native protocol, nil for null. That of
	// a multi-cell column is assembled from its live elements; other ones share
	// memory with the row.
	Bytes []byte
	// Timestamp and Expiry are those of the cell of a column that is not
	// multi-cell. Expiry is 0 if the cell does not expire.
	Timestamp int64
	Expiry    int64
}

// Snapshot says how a row is read.
type Snapshot struct {
	// Now is the time of the reader in seconds.
	Now int64
	// Covered is the deletion of the partition or of a range that covers the row.
	Covered Deletion
}

// Read reads the columns of an encoded row into values, which must be as long as
// wants. Wants must be in the order of their column ids, each once; other columns
// are skipped, and it does not read the cells after the last wanted column if the
// row is known to be alive. It returns whether the row is alive. It allocates for
// multi-cell columns only.
func (r *Reader) Read(encoded []byte, wants []Want, at Snapshot, values []Value) (alive bool, err error) {
	if err := r.Reset(encoded); err != nil {
		return false, err
	}
	clear(values)
	alive = r.Marker.Live(at.Now) && !at.Covered.Covers(r.Marker.Timestamp)
	next := 0
	var elements assembler
	for r.Next() {
		c := &r.Cell
		if !c.Live(at.Now) || at.Covered.Covers(c.Timestamp) {
			continue
		}
		alive = alive || r.Known == nil || r.Known(c.Column)
		for next < len(wants) && wants[next].Column < c.Column {
			elements.finish(&values[next])
			next++
		}
		if next == len(wants) {
			if alive {
				break
			}
			continue
		}
		if wants[next].Column != c.Column {
			continue
		}
		if err := elements.see(wants[next].Type, c, &values[next]); err != nil {
			return false, err
		}
	}
	if next < len(wants) {
		elements.finish(&values[next])
	}
	return alive, r.Err()
}

// Value returns what a reader sees of one column of the row.
func (r *Row) Value(want Want, at Snapshot) (v Value, err error) {
	var elements assembler
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Column != want.Column || !c.Live(at.Now) || at.Covered.Covers(c.Timestamp) {
			continue
		}
		if err := elements.see(want.Type, c, &v); err != nil {
			return Value{}, err
		}
	}
	elements.finish(&v)
	return v, nil
}

// assembler builds the value of a column from its live cells.
type assembler struct {
	of    *Type
	buf   []byte
	count int // elements, entries or fields so far
}

func (a *assembler) see(t *Type, c *Cell, v *Value) error {
	if !t.Multicell() {
		v.Bytes, v.Timestamp = c.Value, c.Timestamp
		if v.Bytes == nil {
			v.Bytes = []byte{}
		}
		if c.Kind == CellExpiring {
			v.Expiry = c.Local
		}
		return nil
	}
	if a.of = t; t.Kind == KindUDT {
		if len(c.Path) != 2 {
			return corruptRow()
		}
		for index := int(binary.BigEndian.Uint16(c.Path)); a.count < index; a.count++ {
			a.buf = appendPart(a.buf, nil)
		}
		a.buf = appendValue(a.buf, c.Value)
		a.count++
		return nil
	}
	if a.buf == nil {
		a.buf = append(a.buf, 0, 0, 0, 0)
	}
	if t.Kind != KindList {
		key, err := t.PathKey(c)
		if err != nil {
			return err
		}
		a.buf = appendValue(a.buf, key)
	}
	if t.Kind != KindSet {
		a.buf = appendValue(a.buf, c.Value)
	}
	a.count++
	return nil
}

// appendValue appends a value that is not null.
func appendValue(dst, v []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(v))), v...)
}

// finish stores the assembled value, if there is one.
func (a *assembler) finish(v *Value) {
	if a.buf != nil {
		if a.of.Kind == KindUDT {
			for ; a.count < len(a.of.Parts); a.count++ {
				a.buf = appendPart(a.buf, nil)
			}
		} else {
			binary.BigEndian.PutUint32(a.buf, uint32(a.count))
		}
		v.Bytes = a.buf
	}
	*a = assembler{}
}

// ElementPath returns the path of the element of a multi-cell set or map with a
// key, and the bytes of the key that the path does not have.
func (t *Type) ElementPath(key []byte) (path, original []byte) {
	return t.Key().appendKey(nil, key), t.Key().Original(key)
}

// FieldPath returns the path of a field of a multi-cell user-defined type.
func FieldPath(index int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(index)) }

// PathKey returns the key of a set or map element. It shares memory with the cell
// or is new.
func (t *Type) PathKey(c *Cell) ([]byte, error) {
	if c.Original != nil {
		return c.Original, nil
	}
	key, rest, err := t.Key().cutKey(&keyArena{}, c.Path, 0)
	if err != nil || len(rest) > 0 {
		return nil, corruptRow()
	}
	return key, nil
}
