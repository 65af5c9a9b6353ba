package row

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
)

// Compare orders two values of the type as Cassandra's comparators do. Null is
// first, then the empty value. Integers, timestamps and numbers compare by
// value, a decimal equals one of another scale, -0 is less than 0, and NaN
// follows every number. Text, blob, inet, date, time and duration compare as
// unsigned bytes. A uuid compares by version first; those of version 1 then by
// time. A timeuuid compares by time, then by its other bytes as signed ones.
// Collections compare by their elements in order; of two with a common
// beginning, the shorter is less. Tuples compare by components, of which null is
// least.
//
// The values must be valid. Compare does not panic for others, but their order
// is not defined.
func (t *Type) Compare(a, b []byte) int {
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(rank(a), rank(b))
	}
	switch t.Kind {
	case KindTinyInt, KindSmallInt, KindInt, KindBigInt, KindCounter, KindTimestamp:
		if c := cmp.Compare(int8(a[0]), int8(b[0])); c != 0 {
			return c
		}
		return bytes.Compare(a, b)
	case KindBoolean:
		return cmp.Compare(min(a[0], 1), min(b[0], 1))
	case KindDouble:
		if len(a) < 8 || len(b) < 8 {
			break
		}
		return cmp.Compare(doubleOrder(a), doubleOrder(b))
	case KindFloat:
		if len(a) < 4 || len(b) < 4 {
			break
		}
		return cmp.Compare(floatOrder(a), floatOrder(b))
	case KindVarInt:
		return compareVarInts(a, b)
	case KindDecimal:
		if len(a) < 4 || len(b) < 4 {
			break
		}
		return compareDecimals(a, b)
	case KindUUID:
		if len(a) < 16 || len(b) < 16 {
			break
		}
		return compareUUIDs(a, b)
	case KindTimeUUID:
		if len(a) < 16 || len(b) < 16 {
			break
		}
		if c := cmp.Compare(uuidTime(a), uuidTime(b)); c != 0 {
			return c
		}
		const signs = 0x8080808080808080
		return cmp.Compare(binary.BigEndian.Uint64(a[8:])^signs, binary.BigEndian.Uint64(b[8:])^signs)
	case KindList, KindSet, KindMap:
		return t.compareCollections(a, b)
	case KindTuple, KindUDT:
		return t.compareTuples(a, b)
	case KindVector:
		return t.compareVectors(a, b)
	}
	return bytes.Compare(a, b)
}

// rank orders null, the empty value and other values.
func rank(v []byte) int {
	switch {
	case v == nil:
		return 0
	case len(v) == 0:
		return 1
	}
	return 2
}

// doubleOrder maps a double to an integer with the order of Java's
// Double.compare: every NaN is the same and greatest.
func doubleOrder(v []byte) uint64 {
	b := binary.BigEndian.Uint64(v)
	if f := math.Float64frombits(b); f != f {
		b = 0x7ff8000000000000
	}
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// floatOrder does the same for a float.
func floatOrder(v []byte) uint32 {
	b := binary.BigEndian.Uint32(v)
	if f := math.Float32frombits(b); f != f {
		b = 0x7fc00000
	}
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

// uuidTime returns the 60 bits of time of a version 1 UUID, and its version
// above them.
func uuidTime(v []byte) uint64 {
	high := binary.BigEndian.Uint64(v)
	return high<<48 | high<<16&0xffff00000000 | high>>32
}

func compareUUIDs(a, b []byte) int {
	version := a[6] >> 4
	if c := cmp.Compare(version, b[6]>>4); c != 0 {
		return c
	}
	if version == 1 {
		if c := cmp.Compare(uuidTime(a), uuidTime(b)); c != 0 {
			return c
		}
		return bytes.Compare(a[8:], b[8:])
	}
	return bytes.Compare(a, b)
}

// trimVarInt removes redundant sign bytes.
func trimVarInt(v []byte) []byte {
	for len(v) > 1 && (v[0] == 0 && v[1] < 0x80 || v[0] == 0xff && v[1] >= 0x80) {
		v = v[1:]
	}
	return v
}

func compareVarInts(a, b []byte) int {
	a, b = trimVarInt(a), trimVarInt(b)
	negative := a[0] >= 0x80
	if negative != (b[0] >= 0x80) {
		if negative {
			return -1
		}
		return 1
	}
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		if negative {
			return -c
		}
		return c
	}
	return bytes.Compare(a, b)
}

// bigInt returns the integer of two's complement bytes; no bytes are 0.
func bigInt(v []byte) *big.Int {
	n := new(big.Int).SetBytes(v)
	if len(v) > 0 && v[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(v))*8))
	}
	return n
}

// appendBigInt appends the least two's complement bytes of n.
func appendBigInt(dst []byte, n *big.Int) []byte {
	if n.Sign() == 0 {
		return append(dst, 0)
	}
	if n.Sign() > 0 {
		if n.BitLen()%8 == 0 {
			dst = append(dst, 0)
		}
		return append(dst, n.Bytes()...)
	}
	// -n - 1 has the inverted bits of n.
	inverse := new(big.Int).Not(n)
	size := inverse.BitLen()/8 + 1
	start := len(dst)
	dst = append(dst, make([]byte, size)...)
	inverse.FillBytes(dst[start:])
	for i := start; i < len(dst); i++ {
		dst[i] = ^dst[i]
	}
	return dst
}

// smallDecimal returns the unscaled value of a decimal if it has at most 64
// bits.
func smallDecimal(v []byte) (unscaled int64, ok bool) {
	mantissa := trimVarInt(v[4:])
	if len(mantissa) > 8 {
		return 0, false
	}
	if len(mantissa) > 0 && mantissa[0] >= 0x80 {
		unscaled = -1
	}
	for _, b := range mantissa {
		unscaled = unscaled<<8 | int64(b)
	}
	return unscaled, true
}

func decimalScale(v []byte) int32 { return int32(binary.BigEndian.Uint32(v)) }

func compareDecimals(a, b []byte) int {
	x, okX := smallDecimal(a)
	y, okY := smallDecimal(b)
	if okX && okY && decimalScale(a) == decimalScale(b) {
		return cmp.Compare(x, y)
	}
	return bytes.Compare(appendDecimalKey(nil, a), appendDecimalKey(nil, b))
}

func (t *Type) compareCollections(a, b []byte) int {
	if len(a) < 4 || len(b) < 4 {
		return bytes.Compare(a, b)
	}
	sizeA, sizeB := int32(binary.BigEndian.Uint32(a)), int32(binary.BigEndian.Uint32(b))
	a, b = a[4:], b[4:]
	for range min(sizeA, sizeB) {
		for _, part := range t.Parts {
			x, restA, okA := cutPart(a)
			y, restB, okB := cutPart(b)
			if !okA || !okB {
				return bytes.Compare(a, b)
			}
			if c := part.Compare(x, y); c != 0 {
				return c
			}
			a, b = restA, restB
		}
	}
	return cmp.Compare(sizeA, sizeB)
}

func (t *Type) compareTuples(a, b []byte) int {
	for _, part := range t.Parts {
		if len(a) == 0 && len(b) == 0 {
			break
		}
		// What is missing is null.
		x, restA, _ := cutPart(a)
		y, restB, _ := cutPart(b)
		if c := part.Compare(x, y); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return 0
}

func (t *Type) compareVectors(a, b []byte) int {
	x, y := t.Split(a), t.Split(b)
	for i := range min(len(x), len(y)) {
		if c := t.Parts[0].Compare(x[i], y[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

// The variable-length integers of Cassandra: the number of leading ones of the
// first byte is the number of bytes after it.

func appendUnsignedVint(dst []byte, n uint64) []byte {
	extra := min(8, (bits.Len64(n|1)-1)/7)
	if extra == 8 {
		dst = append(dst, 0xff)
	} else {
		dst = append(dst, byte(n>>(8*extra))|^byte(0xff>>extra))
	}
	for i := extra - 1; i >= 0; i-- {
		dst = append(dst, byte(n>>(8*i)))
	}
	return dst
}

// cutUnsignedVint returns the number and its length, which is 0 if src is too
// short.
func cutUnsignedVint(src []byte) (n uint64, used int) {
	if len(src) == 0 {
		return 0, 0
	}
	extra := bits.LeadingZeros8(^src[0])
	if len(src) <= extra {
		return 0, 0
	}
	if extra < 8 {
		n = uint64(src[0] & (0xff >> extra))
	}
	for _, b := range src[1 : extra+1] {
		n = n<<8 | uint64(b)
	}
	return n, extra + 1
}

// cutDuration reads the three numbers of a duration.
func cutDuration(v []byte) (months, days, nanos int64, ok bool) {
	for _, part := range []*int64{&months, &days, &nanos} {
		n, used := cutUnsignedVint(v)
		if used == 0 {
			return 0, 0, 0, false
		}
		*part = int64(n>>1) ^ -int64(n&1)
		v = v[used:]
	}
	return months, days, nanos, true
}

// appendDuration is the inverse of cutDuration.
func appendDuration(dst []byte, months, days, nanos int64) []byte {
	for _, n := range []int64{months, days, nanos} {
		dst = appendUnsignedVint(dst, uint64(n)<<1^uint64(n>>63))
	}
	return dst
}
