package row

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
)

// This file handles values in the form of the native protocol. A nil slice is
// null. A slice of length zero that is not nil is the empty value, which most
// types have in addition to their ordinary values.

func badValue(format string, args ...any) error {
	return &Error{Reason: BadValue, Text: fmt.Sprintf(format, args...)}
}

// Pack returns a list or set of the given elements, or a map of the given keys
// and values in turn, as bytes of the native protocol. Count is the number of
// elements or entries. It copies the parts; a nil part is a null.
func Pack(count int, parts [][]byte) []byte {
	size := 4
	for _, part := range parts {
		size += 4 + len(part)
	}
	dst := binary.BigEndian.AppendUint32(make([]byte, 0, size), uint32(count))
	for _, part := range parts {
		dst = appendPart(dst, part)
	}
	return dst
}

// PackTuple returns a tuple or user-defined type of the given components, of
// which nil is null.
func PackTuple(components [][]byte) []byte {
	size := 0
	for _, part := range components {
		size += 4 + len(part)
	}
	dst := make([]byte, 0, size)
	for _, part := range components {
		dst = appendPart(dst, part)
	}
	return dst
}

// appendPart appends a value with its length; nil is the length -1.
func appendPart(dst, part []byte) []byte {
	if part == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(part))), part...)
}

// cutPart reads a value with its length. A null is nil. It returns false if src
// is too short.
func cutPart(src []byte) (part, rest []byte, ok bool) {
	if len(src) < 4 {
		return nil, nil, false
	}
	n := int32(binary.BigEndian.Uint32(src))
	src = src[4:]
	if n < 0 {
		return nil, src, true
	}
	if int64(n) > int64(len(src)) {
		return nil, nil, false
	}
	return src[:n:n], src[n:], true
}

// Split returns the parts of a value: the elements of a list, set or vector, the
// keys and values of a map in turn, or all components of a tuple or user-defined
// type, of which missing ones are nil. The parts are slices of v. It returns nil
// for null, for the empty value of a collection and for native types. The value
// must be valid; from bytes that are not, Split returns the parts before the
// fault.
func (t *Type) Split(v []byte) [][]byte {
	switch t.Kind {
	case KindList, KindSet, KindMap:
		if len(v) < 4 {
			return nil
		}
		n := int64(int32(binary.BigEndian.Uint32(v)))
		if t.Kind == KindMap {
			n *= 2
		}
		parts := make([][]byte, 0, max(0, min(n, int64(len(v)/4))))
		rest := v[4:]
		for range n {
			part, after, ok := cutPart(rest)
			if !ok {
				break
			}
			parts, rest = append(parts, part), after
		}
		return parts
	case KindTuple, KindUDT:
		if v == nil {
			return nil
		}
		parts := make([][]byte, len(t.Parts))
		rest := v
		for i := range parts {
			part, after, ok := cutPart(rest)
			if !ok {
				break
			}
			parts[i], rest = part, after
		}
		return parts
	case KindVector:
		parts, _ := t.splitVector(v)
		return parts
	}
	return nil
}

// fixedSize returns the length of the values of a type inside a vector, or 0 if
// the vector has the lengths.
func (t *Type) fixedSize() int {
	switch t.Kind {
	case KindBoolean:
		return 1
	case KindInt, KindFloat:
		return 4
	case KindBigInt, KindDouble, KindTimestamp:
		return 8
	case KindUUID, KindTimeUUID:
		return 16
	case KindVector:
		// A nested vector that no frame can hold has no fixed size, so that the
		// product cannot overflow.
		if size := t.Parts[0].fixedSize(); size < 1<<30/t.Dimension {
			return t.Dimension * size
		}
	}
	return 0
}

// splitVector returns the elements of a vector, or the bytes that remain after
// them.
func (t *Type) splitVector(v []byte) (parts [][]byte, err error) {
	if len(v) == 0 {
		return nil, nil
	}
	rest := v
	size := t.Parts[0].fixedSize()
	for range t.Dimension {
		n := uint64(size)
		if size == 0 {
			var used int
			if n, used = cutUnsignedVint(rest); used == 0 {
				return parts, badValue("Not enough bytes to read a %s", t)
			}
			rest = rest[used:]
		}
		if n > uint64(len(rest)) {
			return parts, badValue("Not enough bytes to read a %s", t)
		}
		parts, rest = append(parts, rest[:n:n]), rest[n:]
	}
	if len(rest) > 0 {
		return parts, badValue("Unexpected %d extraneous bytes after %s value", len(rest), t)
	}
	return parts, nil
}

// PackVector returns a vector of the given elements.
func (t *Type) PackVector(elements [][]byte) []byte {
	dst := []byte{}
	fixed := t.Parts[0].fixedSize() > 0
	for _, element := range elements {
		if !fixed {
			dst = appendUnsignedVint(dst, uint64(len(element)))
		}
		dst = append(dst, element...)
	}
	return dst
}

// Pack returns a value of a type with parts; it is the inverse of [Type.Split].
// It does not sort.
func (t *Type) Pack(parts [][]byte) []byte {
	switch t.Kind {
	case KindMap:
		return Pack(len(parts)/2, parts)
	case KindList, KindSet:
		return Pack(len(parts), parts)
	case KindVector:
		return t.PackVector(parts)
	}
	return PackTuple(parts)
}

// Validate checks that bytes from a client are a value of the type. Null is
// valid. The texts of its errors are those of Cassandra 4.1.
func (t *Type) Validate(v []byte) error {
	if v == nil {
		return nil
	}
	switch t.Kind {
	case KindBlob, KindVarInt:
		return nil
	case KindASCII:
		for _, b := range v {
			if b >= 0x80 {
				return badValue("Invalid byte for ascii: %d", int8(b))
			}
		}
	case KindText:
		if !validText(v) {
			return badValue("String didn't validate.")
		}
	case KindBigInt, KindCounter:
		return checkSize(v, "Expected 8 or 0 byte long (%d)", 8, 0)
	case KindTimestamp:
		return checkSize(v, "Expected 8 or 0 byte long for date (%d)", 8, 0)
	case KindBoolean:
		return checkSize(v, "Expected 1 or 0 byte value (%d)", 1, 0)
	case KindDate:
		return checkSize(v, "Expected 4 byte long for date (%d)", 4)
	case KindTime:
		return checkSize(v, "Expected 8 byte long for time (%d)", 8)
	case KindDouble:
		return checkSize(v, "Expected 8 or 0 byte value for a double (%d)", 8, 0)
	case KindFloat:
		return checkSize(v, "Expected 4 or 0 byte value for a float (%d)", 4, 0)
	case KindInt:
		return checkSize(v, "Expected 4 or 0 byte int (%d)", 4, 0)
	case KindSmallInt:
		return checkSize(v, "Expected 2 bytes for a smallint (%d)", 2)
	case KindTinyInt:
		return checkSize(v, "Expected 1 byte for a tinyint (%d)", 1)
	case KindUUID:
		return checkSize(v, "UUID should be 16 or 0 bytes (%d)", 16, 0)
	case KindTimeUUID:
		if err := checkSize(v, "UUID should be 16 or 0 bytes (%d)", 16, 0); err != nil {
			return err
		}
		if len(v) > 0 && v[6]&0xf0 != 0x10 {
			// Cassandra 4.1 prints the first half byte, not the version.
			return badValue("Invalid version for TimeUUID type: 0x%x", v[0]>>4)
		}
	case KindInet:
		if n := len(v); n != 0 && n != 4 && n != 16 {
			return badValue("Expected 4 or 16 byte inetaddress; got %s", hex.EncodeToString(v))
		}
	case KindDecimal:
		if len(v) > 0 && len(v) < 4 {
			return badValue("Expected 0 or at least 4 bytes (%d)", len(v))
		}
	case KindDuration:
		return validateDuration(v)
	case KindList, KindSet, KindMap:
		return t.validateCollection(v)
	case KindTuple, KindUDT:
		return t.validateTuple(v)
	case KindVector:
		parts, err := t.splitVector(v)
		for _, part := range parts {
			if err := t.Parts[0].Validate(part); err != nil {
				return err
			}
		}
		return err
	}
	return nil
}

// ValidateStored checks that stored bytes are a value of the type. Unlike a value from a
// client, one of a literal or of JSON may be the empty value of any native type, as in
// Cassandra 4.1.
func (t *Type) ValidateStored(v []byte) error {
	err := t.Validate(v)
	switch {
	case err == nil || t.Native() && len(v) == 0:
		return nil
	case t.Native() || t.Kind == KindVector:
		return err
	}
	parts := t.Split(v)
	if string(t.Pack(parts)) != string(v) {
		return err
	}
	for i, part := range parts {
		if err := t.Parts[i%len(t.Parts)].ValidateStored(part); err != nil {
			return err
		}
	}
	return nil
}

func checkSize(v []byte, text string, sizes ...int) error {
	if slices.Contains(sizes, len(v)) {
		return nil
	}
	return badValue(text, len(v))
}

func (t *Type) validateCollection(v []byte) error {
	if len(v) == 0 && t.Kind != KindList {
		return nil
	}
	if len(v) < 4 {
		return badValue("Not enough bytes to read a %s", t.Kind)
	}
	n := int64(int32(binary.BigEndian.Uint32(v)))
	if n < 0 {
		return badValue("The data cannot be deserialized as a %s", t.Kind)
	}
	rest, null := v[4:], false
	for range n {
		for _, part := range t.Parts {
			value, after, ok := cutPart(rest)
			if !ok {
				return badValue("Not enough bytes to read a %s", t.Kind)
			}
			if value == nil && t.Kind != KindList {
				return badValue("Null value read when not allowed")
			}
			rest = after
			if value == nil {
				null = true // Apache Cassandra finds what is wrong with the bytes first.
				continue
			}
			if err := part.Validate(value); err != nil {
				return err
			}
		}
	}
	if len(rest) > 0 {
		return badValue("Unexpected extraneous bytes after %s value", t.Kind)
	}
	if null {
		return badValue("null is not supported inside collections")
	}
	return nil
}

func (t *Type) validateTuple(v []byte) error {
	what, name := "component", func(int) string { return "" }
	if t.Kind == KindUDT {
		what, name = "field", func(i int) string { return " " + t.Fields[i] }
	}
	rest := v
	for i, part := range t.Parts {
		if len(rest) == 0 {
			return nil
		}
		if len(rest) < 4 {
			return badValue("Not enough bytes to read size of %dth %s%s", i, what, name(i))
		}
		value, after, ok := cutPart(rest)
		if !ok {
			return badValue("Not enough bytes to read %dth %s%s", i, what, name(i))
		}
		rest = after
		if err := part.Validate(value); err != nil {
			if t.Kind == KindUDT {
				return badValue("Failure validating the %dth field%s; %s", i, name(i), err)
			}
			return err
		}
	}
	if len(rest) > 0 {
		if t.Kind == KindUDT {
			return badValue("Invalid remaining data after end of UDT value")
		}
		return badValue("Invalid remaining data after end of tuple value")
	}
	return nil
}

// validText accepts what Cassandra accepts as UTF-8: surrogates encoded in three
// bytes, the two bytes C0 80, and second bytes of some longer forms that UTF-8
// does not allow.
func validText(v []byte) bool {
	for i := 0; i < len(v); {
		b := v[i]
		n, ok := 0, true
		second := func() byte {
			if i+1 < len(v) {
				return v[i+1]
			}
			ok = false
			return 0
		}
		switch {
		case b < 0x80:
			i++
			continue
		case b == 0xc0:
			n, ok = 1, second() == 0x80
		case b>>5 == 6:
			n, ok = 1, b&0x1e != 0 && second()&0xc0 == 0x80
		case b == 0xe0:
			n, ok = 2, second()&0xe0 != 0x80 && ok
		case b>>4 == 14:
			n, ok = 2, second()&0xc0 == 0x80
		case b == 0xf0:
			n, ok = 3, second()&0x30 != 0 && ok
		case b>>3 == 30:
			n, ok = 3, second()&0xc0 == 0x80
		default:
			return false
		}
		if !ok || i+n >= len(v) {
			return false
		}
		for _, c := range v[i+2 : i+n+1] {
			if c&0xc0 != 0x80 {
				return false
			}
		}
		i += n + 1
	}
	return true
}

func validateDuration(v []byte) error {
	if len(v) < 3 {
		return badValue("Expected at least 3 bytes for a duration (%d)", len(v))
	}
	months, days, nanos, ok := cutDuration(v)
	switch {
	case !ok:
		return badValue("Not enough bytes to read a duration")
	case months != int64(int32(months)):
		return badValue("The duration months must be a 32 bits integer but was: %d", months)
	case days != int64(int32(days)):
		return badValue("The duration days must be a 32 bits integer but was: %d", days)
	case !(months >= 0 && days >= 0 && nanos >= 0) && !(months <= 0 && days <= 0 && nanos <= 0):
		return badValue("The duration months, days and nanoseconds must be all of the same sign (%d, %d, %d)", months, days, nanos)
	}
	return nil
}

// Normalize returns a valid value in the form in which it is stored and
// returned: sets sorted and without repeats, maps sorted, with the last value of
// a repeated key, all of it inside other values too. A tuple or user-defined type that ends
// early stays short: a partition key has another token with its nulls written. It returns v itself if nothing changes. A list,
// set or map that is not null stays a value, even without elements.
func (t *Type) Normalize(v []byte) []byte {
	if len(v) == 0 || t.Native() {
		return v
	}
	parts := t.Split(v)
	changed := false
	for i, part := range parts {
		of := t.Parts[i%len(t.Parts)]
		normal := of.Normalize(part)
		if len(normal) != len(part) || len(part) > 0 && &normal[0] != &part[0] {
			parts[i], changed = normal, true
		}
	}
	switch t.Kind {
	case KindSet:
		if !slices.IsSortedFunc(parts, t.Key().strictly) {
			slices.SortStableFunc(parts, t.Key().Compare)
			parts = slices.CompactFunc(parts, func(a, b []byte) bool { return t.Key().Compare(a, b) == 0 })
			changed = true
		}
	case KindMap:
		if sorted := t.sortEntries(parts); sorted != nil {
			parts, changed = sorted, true
		}
	}
	if !changed {
		return v
	}
	if t.Kind == KindTuple || t.Kind == KindUDT {
		parts = parts[:given(v)]
	}
	return t.Pack(parts)
}

// given returns the number of components that a tuple has.
func given(v []byte) (n int) {
	for len(v) > 0 {
		_, rest, ok := cutPart(v)
		if !ok {
			break
		}
		v, n = rest, n+1
	}
	return n
}

// Exceeds says whether bytes follow the components of a tuple or user-defined type.
func (t *Type) Exceeds(v []byte) bool {
	for range t.Parts {
		_, rest, ok := cutPart(v)
		if !ok {
			return false
		}
		v = rest
	}
	return len(v) > 0
}

// strictly compares so that equal values count as out of order.
func (t *Type) strictly(a, b []byte) int {
	// slices.IsSortedFunc calls it with the later value first.
	if t.Compare(a, b) <= 0 {
		return -1
	}
	return 1
}

// sortEntries returns the entries of a map sorted by key, or nil if they are
// sorted.
func (t *Type) sortEntries(parts [][]byte) [][]byte {
	type entry struct{ key, value []byte }
	entries := make([]entry, 0, len(parts)/2)
	sorted := true
	for i := 0; i+1 < len(parts); i += 2 {
		sorted = sorted && (i == 0 || t.Key().Compare(parts[i-2], parts[i]) < 0)
		entries = append(entries, entry{parts[i], parts[i+1]})
	}
	if sorted {
		return nil
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return t.Key().Compare(a.key, b.key) })
	result := make([][]byte, 0, len(parts))
	for i, e := range entries {
		if i+1 < len(entries) && t.Key().Compare(e.key, entries[i+1].key) == 0 {
			continue
		}
		result = append(result, e.key, e.value)
	}
	return result
}

// RoutingKey returns the bytes from which the token of a partition is computed:
// the value of the only partition key column, or the values of several, each
// with its length. partitionkey.Token returns the token.
func RoutingKey(values ...[]byte) ([]byte, error) {
	if len(values) == 1 {
		if len(values[0]) > routingKeyMax {
			return nil, badValue("Key length of %d is longer than maximum of %d", len(values[0]), routingKeyMax)
		}
		return values[0], nil
	}
	size := 0
	for _, value := range values {
		size += 3 + len(value)
	}
	key := make([]byte, 0, size)
	for _, value := range values {
		if len(value) > routingKeyMax {
			return nil, badValue("Key length of %d is longer than maximum of %d", size, routingKeyMax)
		}
		key = binary.BigEndian.AppendUint16(key, uint16(len(value)))
		key = append(append(key, value...), 0)
	}
	if len(key) > routingKeyMax {
		return nil, badValue("Key length of %d is longer than maximum of %d", len(key), routingKeyMax)
	}
	return key, nil
}

// SplitRoutingKey returns the values of the partition key columns from a routing
// key of n columns. They are slices of key.
func SplitRoutingKey(key []byte, n int) ([][]byte, error) {
	if n == 1 {
		return [][]byte{key}, nil
	}
	values := make([][]byte, 0, n)
	for range n {
		if len(key) < 3 {
			return nil, fmt.Errorf("%w: routing key", ErrCorrupt)
		}
		size := int(binary.BigEndian.Uint16(key))
		if len(key) < size+3 || key[size+2] != 0 {
			return nil, fmt.Errorf("%w: routing key", ErrCorrupt)
		}
		values = append(values, key[2:size+2:size+2])
		key = key[size+3:]
	}
	if len(key) > 0 {
		return nil, fmt.Errorf("%w: routing key", ErrCorrupt)
	}
	return values, nil
}

// routingKeyMax is the length of the longest routing key in bytes.
const routingKeyMax = math.MaxUint16
