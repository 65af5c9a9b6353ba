package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var fuzzTexts = []string{
	`null`, `true`, `-0.0`, `1E2`, `9007199254740993`, `9223372036854775808`, `1e400`, `5e-324`, `0.30000000000000004`,
	`"\ud83d\ude00\u0000é"`, `"\ud83d"`, `[[],{"a":[1,2.5]}]`, `{"b":1,"a":2,"b":{"c":null}}`, ` {"a" : "12345678\n" } `,
	`[1,]`, `{"a"}`, `"`, `01`,
}

// FuzzParse compares the accepted texts with encoding/json and checks that
// parsing the output changes nothing.
func FuzzParse(f *testing.F) {
	for _, text := range fuzzTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data)
		valid := json.Valid(data) && utf8.Valid(data)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(data) {
				t.Fatalf("error %v has an invalid offset", err)
			}
			stricter := strings.Contains(syntax.Message, "nested") || strings.Contains(syntax.Message, "too large")
			if valid && !stricter {
				t.Fatalf("%q is JSON, but: %v", data, err)
			}
			return
		}
		if !valid {
			t.Fatalf("%q is not JSON, but gives %v", data, v)
		}
		text := v.Append(nil)
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%q is written as %q: %v", data, text, err)
		}
		if !Equal(v, again) {
			t.Fatalf("%q is written as %q, which is another value", data, text)
		}
		if second := again.Append(nil); !bytes.Equal(text, second) {
			t.Fatalf("%q is written as %q and then as %q", data, text, second)
		}
		var theirs, ours any
		if json.Unmarshal(data, &theirs) == nil && json.Unmarshal(text, &ours) == nil {
			want, _ := json.Marshal(withoutMinusZero(theirs))
			got, _ := json.Marshal(ours)
			if !bytes.Equal(got, want) {
				t.Fatalf("%q is written as %q; encoding/json reads %s and %s", data, text, want, got)
			}
		}
	})
}

// withoutMinusZero replaces -0 by 0, as Parse does.
func withoutMinusZero(x any) any {
	switch x := x.(type) {
	case float64:
		return x + 0
	case []any:
		for i := range x {
			x[i] = withoutMinusZero(x[i])
		}
	case map[string]any:
		for name := range x {
			x[name] = withoutMinusZero(x[name])
		}
	}
	return x
}

// FuzzKey checks I7 and decoding for pairs of JSON texts.
func FuzzKey(f *testing.F) {
	for i, text := range fuzzTexts {
		f.Add(text, fuzzTexts[(i+1)%len(fuzzTexts)])
	}
	f.Fuzz(func(t *testing.T, left, right string) {
		a, err := ParseString(left)
		if err != nil {
			return
		}
		checkDecode(t, a)
		b, err := ParseString(right)
		if err != nil {
			return
		}
		checkPair(t, a, b)
		checkPair(t, a, Array([]Value{a, b}))
		checkPair(t, Array([]Value{a, b}), Array([]Value{b}))
		checkPair(t, Object([]Member{{"a", a}, {"b", b}}), Object([]Member{{"b", b}, {"a", a}}))
	})
}

// FuzzKeyNumber is FuzzKey for arbitrary bits of numbers and strings.
func FuzzKeyNumber(f *testing.F) {
	f.Add(int64(math.MaxInt64), float64(1<<63), "a", "a\x00")
	f.Add(int64(1<<53+1), float64(1<<53), "\x00\xff", "\x00\x01")
	f.Add(int64(math.MinInt64), float64(-(1 << 63)), "", "\xff")
	f.Add(int64(0), math.Copysign(0, -1), "é", "e")
	f.Fuzz(func(t *testing.T, i int64, x float64, s, u string) {
		values := []Value{
			Int(i), Int(i + 1), Int(-i), Number(float64(i)), Number(x), Number(-x), Number(math.Nextafter(float64(i), 0)),
			String(s), String(u), String(s + u), String(s + "\x00" + u),
		}
		if x >= -(1<<63) && x < 1<<63 {
			values = append(values, Int(int64(x)), Int(int64(x)-1))
		}
		for _, a := range values {
			checkDecode(t, a)
			for _, b := range values {
				checkPair(t, a, b)
			}
		}
	})
}

// FuzzKeyLimit checks that cut keys keep the order of what they hold.
func FuzzKeyLimit(f *testing.F) {
	f.Add("abcdef", "abcdeg", 3)
	f.Add("ab\x00", "ab\x00\x00", 3)
	f.Add("", "a", 0)
	f.Fuzz(func(t *testing.T, s, u string, limit int) {
		limit = max(0, min(limit, 1<<20))
		left, leftCut := AppendKeyLimit(nil, String(s), limit)
		right, rightCut := AppendKeyLimit(nil, String(u), limit)
		if leftCut != (len(s) > limit) || rightCut != (len(u) > limit) {
			t.Fatalf("limit %d: %q cut %t, %q cut %t", limit, s, leftCut, u, rightCut)
		}
		if got := bytes.Compare(left, right); got != strings.Compare(s, u) {
			if s[:min(limit, len(s))] != u[:min(limit, len(u))] || !leftCut || !rightCut {
				t.Fatalf("limit %d: keys %x and %x of %q and %q compare %d", limit, left, right, s, u, got)
			}
		}
		if (s == u) != bytes.Equal(left, right) {
			t.Fatalf("limit %d: keys %x and %x of %q and %q", limit, left, right, s, u)
		}
		if v, _, err := DecodeKey(left); leftCut != errors.Is(err, ErrKeyCut) || !leftCut && v.Text() != s {
			t.Fatalf("limit %d: key %x of %q decodes to %v, %v", limit, left, s, v, err)
		}
	})
}

// FuzzDecodeKey checks that bytes are either rejected or exactly the key of the
// decoded value.
func FuzzDecodeKey(f *testing.F) {
	for _, v := range samples() {
		f.Add(AppendKey(nil, v))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, rest, err := DecodeKey(data)
		if err != nil {
			return
		}
		if again := append(AppendKey(nil, v), rest...); !bytes.Equal(again, data) {
			t.Fatalf("%x decodes to %v, whose key and the rest are %x", data, v, again)
		}
	})
}

// FuzzParsePath checks that a printed path parses to the same path.
func FuzzParsePath(f *testing.F) {
	for _, text := range []string{
		"/a", `/a/"b c"/d`, `/'a/b'/`, `/"a\"b"`, "/a b /c", "//", "/*", "/[]", "/[12]", `/"*"`, `/""`, `/a"`, `/"a\`, `/'\'"'`, "/a\\", "/\u00a0a",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePath(text)
		if err != nil {
			return
		}
		if len(p) == 0 {
			t.Fatalf("path %q has no step", text)
		}
		again, err := ParsePath(p.String())
		if err != nil {
			t.Fatalf("path %q is written as %q: %v", text, p, err)
		}
		if !slices.Equal(p, again) {
			t.Fatalf("path %q is written as %q, which is another path", text, p)
		}
	})
}
