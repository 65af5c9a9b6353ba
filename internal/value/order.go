package value

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/twmb/murmur3"
)

// Clients that merge partitions compare the order-by items of their rows themselves,
// so the order of rows is theirs: undefined, null, false, true, numbers, strings by
// UTF-16 code units, arrays, objects. Arrays compare by their hashes and objects too.

// AppendOrderKey appends the key of v in the order of rows, which is that of ORDER BY.
// The bytes compare as the values do, and no key is a prefix of another one.
//
// It is the key of [AppendKey] with two differences: an array or object is its
// tag and its [DistinctHash], and in a string the first byte of a character beyond
// U+FFFF is below that of a character from U+E000 on.
func AppendOrderKey(dst []byte, v Value) []byte {
	switch v.Kind() {
	case KindArray, KindObject:
		low, high := DistinctHash(v)
		return AppendHashOrderKey(dst, v.Kind(), low, high)
	case KindString:
		start := len(dst)
		dst = AppendKey(dst, v)
		asUTF16(dst[start:])
		return dst
	}
	return AppendKey(dst, v)
}

// CompareOrder orders values as ORDER BY does: -1, 0 or 1 if a comes before, with or
// after b in ascending order.
func CompareOrder(a, b Value) int {
	return bytes.Compare(AppendOrderKey(nil, a), AppendOrderKey(nil, b))
}

// AppendHashOrderKey appends the key of an array or an object of which only the
// [DistinctHash] is known.
func AppendHashOrderKey(dst []byte, kind Kind, low, high uint64) []byte {
	tag := byte(tagArray)
	if kind == KindObject {
		tag = tagObject
	}
	return hash128{low, high}.append(append(dst, tag))
}

// The first bytes of characters in UTF-8: those from U+E000 to U+FFFF, and after them
// those beyond U+FFFF. In UTF-16 the latter are surrogates, which come first.
const (
	leadPrivate = 0xEE
	leadBeyond  = 0xF0
	leadMax     = 0xF4
)

// asUTF16 changes the key of a string so that it compares by UTF-16 code units. Bytes
// of these values occur only at the beginning of a character.
func asUTF16(key []byte) {
	for i, c := range key {
		switch {
		case c < leadPrivate || c > leadMax:
		case c < leadBeyond:
			key[i] = c + (leadMax - leadBeyond + 1)
		default:
			key[i] = c - (leadBeyond - leadPrivate)
		}
	}
}

// hash128 is a hash of 128 bits in two halves.
type hash128 struct{ low, high uint64 }

// append appends the bytes of the hash from the least significant on, which is the
// order in which clients compare hashes.
func (h hash128) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, h.low)
	return binary.LittleEndian.AppendUint64(dst, h.high)
}

func (h hash128) of(data []byte) hash128 {
	low, high := murmur3.SeedSum128(h.low, h.high, data)
	return hash128{low, high}
}

func (h hash128) ofString(s string) hash128 {
	low, high := murmur3.SeedStringSum128(h.low, h.high, s)
	return hash128{low, high}
}

// ofHash returns the hash of another hash with h as the seed.
func (h hash128) ofHash(other hash128) hash128 {
	var room [16]byte
	return h.of(other.append(room[:0]))
}

// The seeds by which clients tell kinds of values apart.
var (
	seedRoot   = hash128{0xbfc2359eafc0e2b7, 0x8846e00284c4cf1f}
	seedNull   = hash128{0x1380f68bb3b0cfe4, 0x156c918bf564ee48}
	seedFalse  = hash128{0xc1be517fe893b40c, 0xe9fc8a4c531cd0dd}
	seedTrue   = hash128{0xf86d4abf9a412e74, 0x788488365c8a985d}
	seedNumber = hash128{0x2400e8b894ce9c2a, 0x790be1eabd7b9481}
	seedString = hash128{0x61f53f0a44204cfb, 0x09481be8ef4b56dd}
	seedArray  = hash128{0xfa573b014c4dc18e, 0xa014512c858eb115}
	seedObject = hash128{0x77b285ac511aef30, 0x3dcf187245822449}
	seedIndex  = hash128{0xfe057204216db999, 0x5b1cc3178bd9c593}
	seedName   = hash128{0xc915dde058492a8a, 0x7c8be2eba72e4634}

	seedMember = seedName.ofHash(seedString)
)

// DistinctHash returns the two halves of the hash by which clients of Cosmos DB compare
// values when they merge partitions, called DistinctHash in the .NET client. Equal
// values have equal hashes; zero is hashed without its sign.
func DistinctHash(v Value) (low, high uint64) {
	h := seedRoot.ofValue(v)
	return h.low, h.high
}

// ofValue returns the hash of a value with h as the seed.
func (h hash128) ofValue(v Value) hash128 {
	switch v.Kind() {
	case KindNull:
		return h.ofHash(seedNull)
	case KindBool:
		if v.Bool() {
			return h.ofHash(seedTrue)
		}
		return h.ofHash(seedFalse)
	case KindNumber:
		return h.ofHash(seedNumber).of(numberBytes(v))
	case KindString:
		return h.ofHash(seedString).ofString(v.Text())
	case KindArray:
		h = h.ofHash(seedArray)
		for i, item := range v.Items() {
			if !item.IsDefined() {
				continue
			}
			h = h.ofHash(hash128{seedIndex.low + uint64(i), seedIndex.high}.ofValue(item))
		}
		return h
	case KindObject:
		h = h.ofHash(seedObject)
		var all hash128 // of the members, whatever their order
		for _, m := range v.Members() {
			one := seedMember.ofString(m.Name).ofValue(m.Value)
			all = hash128{all.low ^ one.low, all.high ^ one.high}
		}
		if all != (hash128{}) {
			h = h.ofHash(all)
		}
		return h
	}
	return h // undefined
}

const numberBytesSize = 10

// numberBytes returns what clients hash of a number: a double, and ten more bits of an
// integer that a double cannot hold, in a structure of 16 bytes.
func numberBytes(v Value) []byte {
	double, extra := math.Float64bits(v.Float()), uint16(0)
	if n, ok := v.Int64(); ok && n != math.MinInt64 {
		size := uint64(max(n, -n))
		if top := bits.Len64(size) - 1; top > 52 {
			const exponentBias, mantissaBits, extraBits = 1023, 52, 10
			mantissa := size << (mantissaBits + extraBits - top) & (1<<(mantissaBits+extraBits) - 1)
			double = uint64(top+exponentBias)<<mantissaBits | mantissa>>extraBits
			extra = uint16(mantissa&(1<<extraBits-1)) << (16 - extraBits)
			if n < 0 {
				double |= 1 << 63
			}
		}
	}
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, numberBytesSize), double)
	return binary.LittleEndian.AppendUint16(b, extra)
}
