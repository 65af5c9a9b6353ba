package row

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

// TestKeyExamples checks the documented encodings byte for byte.
func TestKeyExamples(t *testing.T) {
	t.Parallel()
	asc := func(k Kind) KeyColumn { return KeyColumn{Type: Native(k)} }
	desc := func(k Kind) KeyColumn { return KeyColumn{Type: Native(k), Descending: true} }
	for _, c := range []struct {
		name   string
		column KeyColumn
		value  string
		want   string
	}{
		{"int 5", asc(KindInt), "00000005", "0880000005"},
		{"int -1", asc(KindInt), "ffffffff", "087fffffff"},
		{"text a", asc(KindText), "61", "08610001"},
		{"text a descending", desc(KindText), "61", "f79efffe"},
		{"bigint 0 descending", desc(KindBigInt), "0000000000000000", "f77fffffffffffffff"},
		{"boolean true", asc(KindBoolean), "01", "0801"},
		{"varint 128", asc(KindVarInt), "0080", "088180"},
		{"varint 0", asc(KindVarInt), "00", "0880"},
		{"varint -1", asc(KindVarInt), "ff", "087f"},
		{"empty text", asc(KindText), "", "04"},
		{"text with NUL", asc(KindText), "610062", "086100ff620001"},
		{"date", asc(KindDate), "80000000", "0880000000"},
		{"tuple", KeyColumn{Type: TupleOf(Native(KindInt), Native(KindText))}, "0000000400000001ffffffff", "08088000000100"},
	} {
		value, err := hex.DecodeString(c.value)
		if err != nil {
			t.Fatal(err)
		}
		key := c.column.AppendKey(nil, value)
		if got := hex.EncodeToString(key); got != c.want {
			t.Errorf("%s: key %s, want %s", c.name, got, c.want)
		}
		back, rest, err := c.column.CutKey(key)
		if err != nil || len(rest) > 0 || !bytes.Equal(back, value) {
			t.Errorf("%s: decoded %x, rest %x, error %v", c.name, back, rest, err)
		}
	}
	key := EncodeKey([]KeyColumn{asc(KindInt), asc(KindText)}, [][]byte{Int(1), {}})
	if got := hex.EncodeToString(key); got != "088000000104" {
		t.Errorf("(int 1, empty text): key %s", got)
	}
}

// checkOrder compares the orders of two values and of their keys.
func checkOrder(t *testing.T, c KeyColumn, a, b []byte) {
	t.Helper()
	want := c.Type.Compare(a, b)
	if c.Descending {
		want = -want
	}
	if got := bytes.Compare(c.AppendKey(nil, a), c.AppendKey(nil, b)); got != want {
		t.Fatalf("%s descending=%v: Compare(%x, %x) = %d, keys %x and %x compare %d",
			c.Type, c.Descending, a, b, want, c.AppendKey(nil, a), c.AppendKey(nil, b), got)
	}
}

// TestKeyOrder checks that keys order as Compare does, for each native type and
// for random types, both directions.
func TestKeyOrder(t *testing.T) {
	t.Parallel()
	r := newRand(1)
	types := []*Type{}
	for _, k := range comparableKinds {
		types = append(types, Native(k))
	}
	types = append(types, VectorOf(Native(KindFloat), 2), VectorOf(Native(KindText), 2))
	for range 60 {
		types = append(types, randomType(r, 3))
	}
	for _, typ := range types {
		for _, descending := range []bool{false, true} {
			c := KeyColumn{Type: typ, Descending: descending}
			values := [][]byte{nil}
			for range 60 {
				values = append(values, randomValue(r, typ))
			}
			for _, a := range values {
				for _, b := range values {
					checkOrder(t, c, a, b)
				}
				checkRoundTrip(t, c, a)
			}
		}
	}
}

// checkRoundTrip checks that a decoded value equals the encoded one, and that
// Original names exactly the values that change.
func checkRoundTrip(t *testing.T, c KeyColumn, v []byte) {
	t.Helper()
	key := c.AppendKey(nil, v)
	back, rest, err := c.CutKey(append(key, 0x77))
	if err != nil || !bytes.Equal(rest, []byte{0x77}) || (back == nil) != (v == nil) || c.Type.Compare(back, v) != 0 {
		t.Fatalf("%s: %x decoded from %x as %x, rest %x, error %v", c.Type, v, key, back, rest, err)
	}
	if err := c.Type.Validate(back); err != nil {
		t.Fatalf("%s: %x decoded as %x: %v", c.Type, v, back, err)
	}
	if changed := !bytes.Equal(back, v); changed != (c.Type.Original(v) != nil) || changed && c.Type.Exact() {
		t.Fatalf("%s: %x decoded as %x, Original %x, Exact %v", c.Type, v, back, c.Type.Original(v), c.Type.Exact())
	}
}

// TestKeyComposites sorts composites of several columns, ascending and
// descending, by their columns and by their keys, and checks the bounds of
// prefixes.
func TestKeyComposites(t *testing.T) {
	t.Parallel()
	r := newRand(2)
	for range 60 {
		columns := make([]KeyColumn, 1+r.IntN(4))
		for i := range columns {
			columns[i] = KeyColumn{Type: randomType(r, 1), Descending: r.IntN(2) == 0}
		}
		keys := make([][][]byte, 40)
		for i := range keys {
			keys[i] = make([][]byte, len(columns))
			for j, c := range columns {
				if keys[i][j] = randomValue(r, c.Type); keys[i][j] == nil {
					keys[i][j] = []byte{}
				}
				if i > 0 && r.IntN(2) == 0 {
					keys[i][j] = keys[r.IntN(i)][j]
				}
			}
		}
		compare := func(a, b [][]byte, n int) int {
			for i, c := range columns[:n] {
				if order := c.Type.Compare(a[i], b[i]); order != 0 {
					if c.Descending {
						return -order
					}
					return order
				}
			}
			return 0
		}
		for _, a := range keys {
			full := EncodeKey(columns, a)
			values, err := DecodeKey(columns, full)
			if err != nil || compare(values, a, len(columns)) != 0 {
				t.Fatalf("%x decoded from %x as %x: %v", a, full, values, err)
			}
			for _, b := range keys {
				other := EncodeKey(columns, b)
				if got, want := bytes.Compare(full, other), compare(a, b, len(columns)); got != want {
					t.Fatalf("keys %x and %x compare %d, columns %d", full, other, got, want)
				}
				n := r.IntN(len(columns) + 1)
				prefix := EncodeKey(columns[:n], b[:n])
				want := compare(a, b, n)
				if got := bytes.Compare(full, Before(prefix)) >= 0; got != (want >= 0) {
					t.Fatalf("key %x against the start of prefix %x: %v, columns %d", full, prefix, got, want)
				}
				if got := bytes.Compare(full, After(prefix)) >= 0; got != (want > 0) {
					t.Fatalf("key %x against the end of prefix %x: %v, columns %d", full, prefix, got, want)
				}
			}
		}
	}
}

// TestSpan checks inclusive and exclusive bounds below a prefix.
func TestSpan(t *testing.T) {
	t.Parallel()
	columns := []KeyColumn{{Type: Native(KindText)}, {Type: Native(KindInt)}, {Type: Native(KindInt), Descending: true}}
	prefix := EncodeKey(columns, [][]byte{[]byte("p")})
	bound := func(n int32) []byte { return columns[1].AppendKey(slices.Clip(prefix), Int(n)) }
	for _, c := range []struct {
		lower, upper         []byte
		lowerInc, upperInc   bool
		want                 string
		otherPrefixesOutside bool
	}{
		{nil, nil, false, false, "1 2 3", true},
		{bound(1), nil, true, false, "1 2 3", true},
		{bound(1), nil, false, false, "2 3", true},
		{nil, bound(3), false, true, "1 2 3", true},
		{nil, bound(3), false, false, "1 2", true},
		{bound(2), bound(2), true, true, "2", true},
		{bound(1), bound(3), false, false, "2", true},
	} {
		start, end := Span(prefix, c.lower, c.lowerInc, c.upper, c.upperInc)
		var got []string
		for n := int32(1); n <= 3; n++ {
			in := 0
			for _, third := range []int32{-1, 0, 1} {
				key := EncodeKey(columns, [][]byte{[]byte("p"), Int(n), Int(third)})
				if bytes.Compare(key, start) >= 0 && bytes.Compare(key, end) < 0 {
					in++
				}
			}
			if in == 3 {
				got = append(got, string(rune('0'+n)))
			} else if in != 0 {
				t.Errorf("a span divides the rows of %d", n)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("span [%x, %x) has %v, want %s", start, end, got, c.want)
		}
		for _, other := range []string{"o", "q", "p\x00", ""} {
			key := EncodeKey(columns, [][]byte{[]byte(other), Int(2), Int(0)})
			if bytes.Compare(key, start) >= 0 && bytes.Compare(key, end) < 0 {
				t.Errorf("span [%x, %x) has a key of prefix %q", start, end, other)
			}
		}
	}
}

// FuzzCutKey checks that any bytes decode without a panic, and that what decodes
// encodes again to a key that decodes to the same value.
func FuzzCutKey(f *testing.F) {
	for seed := range uint64(30) {
		r := newRand(seed)
		typ := randomType(r, 3)
		f.Add(seed, KeyColumn{Type: typ}.AppendKey(nil, randomValue(r, typ)))
	}
	f.Fuzz(func(t *testing.T, seed uint64, key []byte) {
		typ := randomType(newRand(seed), 3)
		for _, descending := range []bool{false, true} {
			c := KeyColumn{Type: typ, Descending: descending}
			v, _, err := c.CutKey(key)
			if err != nil {
				continue
			}
			again, rest, err := c.CutKey(c.AppendKey(nil, v))
			if err != nil || len(rest) > 0 || c.Type.Compare(again, v) != 0 {
				t.Fatalf("%s: %x decoded as %x, then %x: %v", typ, key, v, again, err)
			}
		}
	})
}

func BenchmarkEncodeKey(b *testing.B) {
	columns := []KeyColumn{{Type: Native(KindText)}, {Type: Native(KindTimestamp), Descending: true}, {Type: Native(KindTimeUUID)}}
	values := [][]byte{[]byte("sensor-0042"), BigInt(1700000000000), parseUUID("e6216794-498d-11f1-9035-415b0af9ce8c")}
	dst := make([]byte, 0, 64)
	b.Run("op=encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = dst[:0]
			for i, c := range columns {
				dst = c.AppendKey(dst, values[i])
			}
		}
	})
	key := EncodeKey(columns, values)
	b.Run("op=decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeKey(columns, key); err != nil {
				b.Fatal(err)
			}
		}
	})
}
