package value

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"
)

// checkPair returns Compare(a, b) after checking everything that must agree with
// it (I7).
func checkPair(tb testing.TB, a, b Value) int {
	tb.Helper()
	c := Compare(a, b)
	left, right := AppendKey(nil, a), AppendKey(nil, b)
	if k := bytes.Compare(left, right); k != c {
		tb.Fatalf("Compare(%v, %v) = %d, but keys %x and %x compare %d", a, b, c, left, right, k)
	}
	if back := Compare(b, a); back != -c {
		tb.Fatalf("Compare(%v, %v) = %d and the other way round %d", a, b, c, back)
	}
	if equal := Equal(a, b); equal != (c == 0) {
		tb.Fatalf("Compare(%v, %v) = %d and Equal %t", a, b, c, equal)
	}
	if c != 0 && (bytes.HasPrefix(left, right) || bytes.HasPrefix(right, left)) {
		tb.Fatalf("of the keys of %v and %v one is a prefix of the other: %x, %x", a, b, left, right)
	}
	return c
}

// samples are values at every edge of the number range, and some of every kind.
func samples() []Value {
	var all []Value
	for _, i := range []int64{
		0, 1, 2, 10, 255, 256, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1<<53 + 3, 1 << 54, 1<<54 + 1, 1<<54 + 3,
		1<<62 - 1, 1 << 62, 1<<62 + 1, 1<<62 + 511, 1<<62 + 512, 1<<62 + 513, 1<<62 + 1023, 1<<62 + 1024,
		math.MaxInt64 - 1025, math.MaxInt64 - 1024, math.MaxInt64 - 1023, math.MaxInt64 - 512, math.MaxInt64 - 511,
		math.MaxInt64 - 1, math.MaxInt64,
	} {
		all = append(all, Int(i), Int(-i), Number(float64(i)), Number(-float64(i)))
	}
	for _, f := range []float64{
		0.5, 1.5, 0.1, 1e-300, 5e-324, 2.2250738585072014e-308, 4503599627370495.5, 1e15 + 0.5, 1 << 63, 1<<63 + 2048,
		1e21, 1e300, math.MaxFloat64, math.Inf(1),
	} {
		all = append(all, Number(f), Number(-f))
	}
	all = append(all, Int(math.MinInt64), Number(math.NaN()), Number(math.Copysign(0, -1)),
		Undefined(), Null(), Bool(false), Bool(true))
	for _, s := range []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xc3\xbf", "\x01", "a", "a\x00", "a\x00b", "a\x01", "ab", "é", "\uffff", "😀"} {
		all = append(all, String(s), Array([]Value{String(s)}), Object([]Member{{s, Null()}}))
	}
	return append(all,
		Array(nil), Array([]Value{Undefined()}), Array([]Value{Null()}), Array([]Value{Null(), Undefined()}),
		Array([]Value{Array(nil)}), Array([]Value{Array(nil), Null()}), Array([]Value{Array([]Value{Null()})}),
		Object(nil), Object([]Member{{"b", Int(1)}, {"a", Int(2)}}), Object([]Member{{"a", Int(2)}, {"b", Int(1)}}),
		Object([]Member{{"a", Int(2)}, {"b", Int(1)}, {"c", Int(0)}}), Object([]Member{{"a", Int(3)}}))
}

// TestKeyOrder checks for every pair of the samples that Compare equals the byte
// order of keys, and that decoding returns the value (I7).
func TestKeyOrder(t *testing.T) {
	t.Parallel()
	all := samples()
	for _, a := range all {
		for _, b := range all {
			checkPair(t, a, b)
		}
		checkDecode(t, a)
	}
}

// checkDecode encodes v before other bytes and expects both back.
func checkDecode(tb testing.TB, v Value) {
	tb.Helper()
	key := AppendKey(nil, v)
	got, rest, err := DecodeKey(append(slices.Clip(key), 0xAB, 0x00))
	if err != nil {
		tb.Fatalf("decode key %x of %v: %v", key, v, err)
	}
	if !Equal(got, v) || string(rest) != "\xAB\x00" {
		tb.Fatalf("key %x of %v decodes to %v, rest %x", key, v, got, rest)
	}
	if again := AppendKey(nil, got); !bytes.Equal(again, key) {
		tb.Fatalf("key of %v is %x, and of its decoded self %x", v, key, again)
	}
	for n := range min(len(key), 100) {
		if _, _, err := DecodeKey(key[:n]); err == nil {
			tb.Fatalf("the first %d bytes of key %x decode", n, key)
		}
	}
}

// TestNumberOrderIsExact compares the order of integers and doubles with the
// exact order of math/big.
func TestNumberOrderIsExact(t *testing.T) {
	t.Parallel()
	exact := func(v Value) *big.Float {
		if i, ok := v.Int64(); ok {
			return new(big.Float).SetInt64(i)
		}
		return big.NewFloat(v.Float())
	}
	var numbers []Value
	for _, v := range samples() {
		if v.Kind() == KindNumber && !math.IsNaN(v.Float()) {
			numbers = append(numbers, v)
		}
	}
	for _, a := range numbers {
		for _, b := range numbers {
			if got, want := Compare(a, b), exact(a).Cmp(exact(b)); got != want {
				t.Errorf("Compare(%v, %v) = %d, want %d", a, b, got, want)
			}
		}
	}
}

// TestKeyLimitOrder checks that a limited key keeps the order of what it holds
// and reports when it is truncated.
func TestKeyLimitOrder(t *testing.T) {
	t.Parallel()
	const limit = 4
	rising := []string{"", "abc", "abcd", "abcde", "abce", "abcf\x00", "abd", "b"}
	for i, low := range rising {
		a, cut := AppendKeyLimit(nil, String(low), limit)
		if cut != (len(low) > limit) {
			t.Errorf("%q: truncated = %t", low, cut)
		}
		for _, high := range rising[i+1:] {
			if b, _ := AppendKeyLimit(nil, String(high), limit); bytes.Compare(a, b) >= 0 {
				t.Errorf("key %x of %q is not before key %x of %q", a, low, b, high)
			}
		}
	}
	left, _ := AppendKeyLimit(nil, String("abcdX"), limit)
	right, _ := AppendKeyLimit(nil, String("abcdY"), limit)
	if bytes.Equal(left, right) {
		t.Errorf("distinct long strings have one key %x", left)
	}
	if common := len(left) - cutSize; !bytes.Equal(left[:common], right[:common]) {
		t.Errorf("keys %x and %x differ before the hash", left, right)
	}
	if _, _, err := DecodeKey(left); !errors.Is(err, ErrKeyCut) {
		t.Errorf("decode of a cut key: %v", err)
	}
}

func TestDecodeKeyDepth(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{keyDepthMax, keyDepthMax + 1, 1 << 20} {
		key := bytes.Repeat([]byte{tagArray}, depth)
		key = append(key, make([]byte, depth)...)
		if _, _, err := DecodeKey(key); (err == nil) != (depth <= keyDepthMax) {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}
