package row

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
)

// testUDT is the type that the judge of compat/cassandra knows as ks.pair.
var testUDT = UDTOf("ks", "pair", []string{"a", "b"}, []*Type{Native(KindInt), Native(KindText)})

func resolveTest(_, name string) (*Type, error) {
	if name == "pair" {
		return testUDT, nil
	}
	return nil, &Error{Reason: BadType, Text: "Unknown type " + name}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 20)) }

// comparable are the native types that may be in keys.
var comparableKinds = []Kind{
	KindASCII, KindBigInt, KindBlob, KindBoolean, KindDate, KindDecimal, KindDouble, KindFloat,
	KindInet, KindInt, KindSmallInt, KindText, KindTime, KindTimestamp, KindTimeUUID, KindTinyInt,
	KindUUID, KindVarInt,
}

// randomType draws a frozen type.
func randomType(r *rand.Rand, depth int) *Type {
	if depth == 0 || r.IntN(3) > 0 {
		return Native(comparableKinds[r.IntN(len(comparableKinds))])
	}
	part := func() *Type { return randomType(r, depth-1) }
	switch r.IntN(5) {
	case 0:
		return ListOf(part()).Freeze()
	case 1:
		return SetOf(part()).Freeze()
	case 2:
		return MapOf(part(), part()).Freeze()
	case 3:
		return testUDT.Freeze()
	}
	parts := []*Type{part()}
	for range r.IntN(3) {
		parts = append(parts, part())
	}
	return TupleOf(parts...)
}

var specialFloats = []float64{
	0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1, -1, 0.001, 0.0009999, 9999999, 1e7,
	math.MaxFloat64, math.SmallestNonzeroFloat64, 2e23, 1e23, math.MaxFloat32, math.SmallestNonzeroFloat32, 0.1, 123456.789,
}

// randomValue draws a valid, normalized value; the empty one too if the type has
// it.
func randomValue(r *rand.Rand, t *Type) []byte { return t.Normalize(randomRaw(r, t)) }

func randomRaw(r *rand.Rand, t *Type) []byte {
	if r.IntN(20) == 0 && t.Validate([]byte{}) == nil {
		return []byte{}
	}
	switch t.Kind {
	case KindASCII, KindText:
		letters := []rune("ab\x00\x01\x7f'\"\\\n Z:@")
		if t.Kind == KindText {
			letters = append(letters, 'é', '漢', '😀', '￿')
		}
		text := []rune{}
		for range r.IntN(6) {
			text = append(text, letters[r.IntN(len(letters))])
		}
		return []byte(string(text))
	case KindBlob:
		return randomBytes(r, r.IntN(5))
	case KindBoolean:
		return []byte{[]byte{0, 1, 2, 0x80, 0xff}[r.IntN(5)]}
	case KindTinyInt:
		return randomBytes(r, 1)
	case KindSmallInt:
		return randomBytes(r, 2)
	case KindInt:
		return randomBytes(r, 4)
	case KindDate:
		if r.IntN(2) == 0 {
			return Date(r.Int64N(60000) - 20000)
		}
		return randomBytes(r, 4)
	case KindTime:
		return BigInt(r.Int64N(nanosPerDay))
	case KindBigInt, KindCounter:
		return randomBytes(r, 8)
	case KindTimestamp:
		switch r.IntN(3) {
		case 0:
			return BigInt(r.Int64N(1 << 42))
		case 1:
			return BigInt(-r.Int64N(1 << 48))
		}
		return BigInt(r.Int64N(1 << 52))
	case KindDouble:
		switch r.IntN(3) {
		case 0:
			return Double(specialFloats[r.IntN(len(specialFloats))])
		case 1:
			return Double((r.Float64() - 0.5) * math.Pow(10, float64(r.IntN(20)-6)))
		}
		return randomBytes(r, 8)
	case KindFloat:
		switch r.IntN(3) {
		case 0:
			return Float(float32(specialFloats[r.IntN(len(specialFloats))]))
		case 1:
			return Float((r.Float32() - 0.5) * float32(math.Pow(10, float64(r.IntN(12)-4))))
		}
		return randomBytes(r, 4)
	case KindVarInt:
		return randomVarInt(r)
	case KindDecimal:
		scale := int32(r.IntN(12) - 4)
		switch r.IntN(10) {
		case 0:
			scale = int32(r.Uint32())
		case 1:
			scale = []int32{math.MinInt32, math.MaxInt32, -400, 400}[r.IntN(4)]
		}
		unscaled := bigInt(randomVarInt(r))
		if r.IntN(2) == 0 {
			unscaled.Mul(big.NewInt(r.Int64N(30)-15), new(big.Int).Exp(big.NewInt(10), big.NewInt(r.Int64N(8)), nil))
		}
		return Decimal(unscaled, scale)
	case KindUUID, KindTimeUUID:
		v := randomBytes(r, 16)
		if r.IntN(2) == 0 {
			// Of one time.
			copy(v, "\x80\x01\x7f\xff\x10\x20\x11\x30")
		}
		if t.Kind == KindTimeUUID || r.IntN(2) == 0 {
			v[6] = v[6]&0x0f | 0x10
		}
		return v
	case KindInet:
		return randomBytes(r, 4+12*r.IntN(2))
	case KindDuration:
		sign := int64(1 - 2*r.IntN(2))
		return appendDuration(nil, sign*r.Int64N(100), sign*r.Int64N(100), sign*r.Int64N(1<<r.IntN(62)))
	case KindTuple, KindUDT:
		parts := make([][]byte, len(t.Parts))
		for i := range parts {
			if r.IntN(5) > 0 {
				parts[i] = randomRaw(r, t.Parts[i])
			}
		}
		v := t.Pack(parts)
		if len(v) == 0 {
			return nil
		}
		return v
	case KindVector:
		parts := make([][]byte, t.Dimension)
		for i := range parts {
			for len(parts[i]) == 0 {
				parts[i] = randomRaw(r, t.Parts[0])
			}
		}
		return t.Pack(parts)
	}
	var parts [][]byte
	for range r.IntN(4) * len(t.Parts) {
		parts = append(parts, randomRaw(r, t.Parts[len(parts)%len(t.Parts)]))
	}
	return t.Pack(parts)
}

func randomBytes(r *rand.Rand, n int) []byte {
	v := binary.BigEndian.AppendUint64(nil, r.Uint64())
	v = binary.BigEndian.AppendUint64(v, r.Uint64())[:n]
	for i := range v {
		if r.IntN(4) == 0 {
			v[i] = []byte{0, 1, 0x7f, 0x80, 0xff}[r.IntN(5)]
		}
	}
	return v
}

func randomVarInt(r *rand.Rand) []byte {
	n := 1 + r.IntN(4)
	if r.IntN(6) == 0 {
		n = 1 + r.IntN(150)
	}
	var v []byte
	for len(v) < n {
		v = append(v, randomBytes(r, min(16, n-len(v)))...)
	}
	if r.IntN(8) > 0 {
		v = slices.Clone(trimVarInt(v))
	}
	return v
}
