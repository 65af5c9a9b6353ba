package partitionkey

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestToken checks the tokens of the public vectors, each confirmed by three
// drivers (S128).
func TestToken(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/cql-tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Count   int
		Vectors []struct {
			RoutingKey string `json:"routing_key_hex"`
			Token      string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if file.Count < 200 || len(file.Vectors) != file.Count {
		t.Fatalf("%d vectors of %d", len(file.Vectors), file.Count)
	}
	for _, v := range file.Vectors {
		key, err := hex.DecodeString(v.RoutingKey)
		if err != nil {
			t.Fatal(err)
		}
		if got := strconv.FormatInt(Token(key), 10); got != v.Token {
			t.Errorf("Token(%s) = %s, want %s", v.RoutingKey, got, v.Token)
		}
	}
	if got := Token(nil); got != math.MinInt64 {
		t.Errorf("Token of the empty key = %d", got)
	}
}

// TestTokenEPK checks that the EPKs of tokens are in their order, and inside the key
// space (S129: -2^63 to 2^63 - 1).
func TestTokenEPK(t *testing.T) {
	t.Parallel()
	tokens := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 62, -2, -1, 0, 1, 2, 3, 4, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	d := Definition{Paths: []string{"/a", "/b", "/c", "/d"}, Kind: KindToken, Version: 2}
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, token := range tokens {
		e := TokenEPK(token)
		if !Full().Contains(e) {
			t.Errorf("the EPK of %d is %v", token, e)
		}
		if i > 0 && TokenEPK(tokens[i-1]).Compare(e) >= 0 {
			t.Errorf("the EPK of %d is not above that of %d", token, tokens[i-1])
		}
		point := Range{e, d.Successor(e)}
		if least, greatest, ok := point.Tokens(); least != token || greatest != token || !ok {
			t.Errorf("Tokens of the point of %d = %d, %d, %v", token, least, greatest, ok)
		}
		if _, _, ok := (Range{d.Successor(e), TokenEPK(token)}).Tokens(); ok {
			t.Errorf("an empty range after %d has tokens", token)
		}
	}
	if least, greatest, ok := Full().Tokens(); least != math.MinInt64 || greatest != math.MaxInt64 || !ok {
		t.Errorf("Tokens of the key space = %d, %d, %v", least, greatest, ok)
	}
}

// TestTokenRanges checks that the ranges of a new table divide the tokens evenly and
// without a gap, also after each range was split.
func TestTokenRanges(t *testing.T) {
	t.Parallel()
	d := Definition{Paths: []string{"/k"}, Kind: KindToken, Version: 2}
	for n := 1; n <= 9; n++ {
		var ranges []Range
		for _, r := range d.Divide(n) {
			middle := d.Middle(r)
			ranges = append(ranges, Range{r.Min, middle}, Range{middle, r.Max})
		}
		next := int64(math.MinInt64)
		for i, r := range ranges {
			least, greatest, ok := r.Tokens()
			if !ok || least != next {
				t.Fatalf("range %d of %d begins with token %d, want %d", i, len(ranges), least, next)
			}
			if width := float64(greatest) - float64(least); math.Abs(width/math.Exp2(64)*float64(len(ranges))-1) > 1e-6 {
				t.Errorf("range %d of %d has %g tokens", i, len(ranges), width)
			}
			next = greatest + 1
		}
		if next != math.MinInt64 {
			t.Errorf("the last of %d ranges ends at %d", len(ranges), next-1)
		}
	}
}

// TestTokenKeys checks the keys of tables: any bytes, whole keys only.
func TestTokenKeys(t *testing.T) {
	t.Parallel()
	d := Definition{Paths: []string{"/firstname", "/lastname"}, Kind: KindToken, Version: 2}
	key := NewKey(Bytes("\x00\x04theo\x00\x00\x02\xFF\xFE\x00"))
	if err := d.Check(key, true); err != nil {
		t.Error(err)
	}
	r, err := d.Prefix(key)
	if least, greatest, ok := r.Tokens(); err != nil || !ok || least != greatest || least != Token([]byte(key.At(0).Text())) {
		t.Errorf("Prefix = %v, %v: tokens %d to %d", r, err, least, greatest)
	}
	if got := string(key.Canonical(d)); got != key.At(0).Text() {
		t.Errorf("Canonical = %q", got)
	}
	if got, want := key.String(), `["0x00047468656f000002fffe00"]`; got != want {
		t.Errorf("String = %s, want %s", got, want)
	}
	for _, wrong := range []Key{
		NewKey(String("theo")), NewKey(Undefined()), NewKey(Bytes("")),
		{},
		NewKey(Bytes(strings.Repeat("x", RoutingKeyBytesMax+1))), NewKey(Bytes("a"), Bytes("b")),
	} {
		if d.Check(wrong, true) == nil {
			t.Errorf("Check(%v) = nil", wrong)
		}
	}
	if err := d.Check(NewKey(Bytes(strings.Repeat("x", RoutingKeyBytesMax))), true); err != nil {
		t.Error(err)
	}
	document := Definition{Paths: []string{"/k"}, Kind: KindHash, Version: 2}
	if document.Check(NewKey(Bytes("a")), true) == nil {
		t.Error("a container of documents accepts the key of a table")
	}
	for _, wrong := range []Definition{
		{Kind: KindToken, Version: 2}, {Paths: []string{"/a"}, Kind: KindToken, Version: 1}, {Paths: []string{"/a", "/a"}, Kind: KindToken, Version: 2},
	} {
		if wrong.Validate() == nil {
			t.Errorf("Validate(%+v) = nil", wrong)
		}
	}
}
