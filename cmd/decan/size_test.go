package main

import (
	"math"
	"testing"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1, "1000": 1000, "512KB": 512 << 10, "4 MB": 4 << 20, " 20gb ": 20 << 30, "8589934591GB": 8589934591 << 30, "9223372036854775807": math.MaxInt64,
	} {
		var s sizeBytes
		if err := s.UnmarshalText([]byte(text)); err != nil || int64(s) != want {
			t.Errorf("%q: got %d %v, want %d", text, s, err, want)
		}
	}
	for _, wrong := range []string{"", "0", "-1", "GB", "4TB", "1.5GB", "8589934592GB", "9223372036854775808", "4MBKB", "0x10"} {
		var s sizeBytes
		if err := s.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q was read as %d", wrong, s)
		}
	}
}

func FuzzSize(f *testing.F) {
	f.Add("20GB")
	f.Add("4 mb")
	f.Fuzz(func(t *testing.T, text string) {
		var s sizeBytes
		if err := s.UnmarshalText([]byte(text)); err == nil && s <= 0 {
			t.Errorf("%q is %d", text, s)
		}
	})
}
