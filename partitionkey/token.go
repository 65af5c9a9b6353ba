package partitionkey

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The constants of MurmurHash3 x64 128.
const (
	tokenC1 = 0x87C37B91114253D5
	tokenC2 = 0x4CF5AD432745937F
)

// Token returns the token that CQL's token function and the drivers compute for
// a routing key: the first word of MurmurHash3 x64 128 in Cassandra's variant.
// That variant differs from the original in the bytes after the last whole
// block, which it treats as signed. The least integer is the token of the empty
// key only; a key that hashes to it gets the greatest integer.
//
// The EPK of a key of [KindToken] is its token, see [TokenEPK]. For other kinds
// tokens and EPKs are unrelated.
func Token(routingKey []byte) int64 {
	if len(routingKey) == 0 {
		return math.MinInt64
	}
	var h1, h2 uint64
	rest := routingKey
	for ; len(rest) >= 16; rest = rest[16:] {
		h1 ^= tokenMix1(binary.LittleEndian.Uint64(rest))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52DCE729
		h2 ^= tokenMix2(binary.LittleEndian.Uint64(rest[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495AB5
	}
	h2 ^= tokenMix2(signedTail(rest[min(8, len(rest)):]))
	h1 ^= tokenMix1(signedTail(rest[:min(8, len(rest))]))

	h1 ^= uint64(len(routingKey))
	h2 ^= uint64(len(routingKey))
	h1 += h2
	h2 += h1
	h1, h2 = tokenFinal(h1), tokenFinal(h2)
	if token := int64(h1 + h2); token != math.MinInt64 {
		return token
	}
	return math.MaxInt64
}

// TokenEPK returns the EPK of the keys with a token. The order of tokens is that
// of their EPKs: an EPK is the token without its sign, the least integer being
// zero, in the upper 64 of the 126 bits of a hash of version 2. So tables divide
// and split their key space as other containers do.
func TokenEPK(token int64) EPK {
	var room [hashWidth]byte
	return EPK(appendToken(room[:0], token))
}

func appendToken(dst []byte, token int64) []byte {
	u := uint64(token) ^ 1<<63
	return uint128{u >> 2, u << 62}.append(dst)
}

// Tokens returns the least and the greatest token whose EPK lies in the range,
// and false if there is none.
func (r Range) Tokens() (least, greatest int64, ok bool) {
	low, okLow := tokenFrom(r.Min)
	above, okAbove := tokenFrom(r.Max)
	switch {
	case !okLow:
		return 0, 0, false
	case !okAbove:
		return low, math.MaxInt64, true
	}
	return low, above - 1, low < above
}

// tokenFrom returns the least token whose EPK is not below a bound, and false if
// there is none.
func tokenFrom(e EPK) (token int64, ok bool) {
	var b [hashWidth]byte
	copy(b[:], e)
	u := uint128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
	if u.high>>62 != 0 {
		return 0, false
	}
	from := u.high<<2 | u.low>>62
	if u.low<<2 != 0 || len(e) > hashWidth && !zeros(e[hashWidth:]) {
		if from++; from == 0 {
			return 0, false
		}
	}
	return int64(from ^ 1<<63), true
}

// signedTail combines up to eight bytes as Java does, where bytes are
// sign-extended.
func signedTail(tail []byte) (k uint64) {
	for i, b := range tail {
		k ^= uint64(int64(int8(b))) << (8 * i)
	}
	return k
}

func tokenMix1(k uint64) uint64 { return bits.RotateLeft64(k*tokenC1, 31) * tokenC2 }

func tokenMix2(k uint64) uint64 { return bits.RotateLeft64(k*tokenC2, 33) * tokenC1 }

func tokenFinal(k uint64) uint64 {
	k = (k ^ k>>33) * 0xFF51AFD7ED558CCD
	k = (k ^ k>>33) * 0xC4CEB9FE1A85EC53
	return k ^ k>>33
}
