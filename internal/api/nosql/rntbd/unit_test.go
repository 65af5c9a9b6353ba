package rntbd

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

// TestGUID: an identifier has its first three fields reversed on the wire.
func TestGUID(t *testing.T) {
	const text = "00112233-4455-6677-8899-aabbccddeeff"
	g, err := ParseGUID(text)
	if err != nil || hex.EncodeToString(g[:]) != "33221100554477668899aabbccddeeff" || g.String() != text {
		t.Errorf("%x, %s, %v", g[:], g, err)
	}
	for _, bad := range []string{"", text[1:], strings.Replace(text, "-", "0", 1), strings.Replace(text, "f", "g", 1)} {
		if _, err := ParseGUID(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestIntegers: each type of integer gives its value, with its sign if it has one.
func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		typ  Type
		hex  string
		want int64
	}{
		{TypeByte, "ff", 255},
		{TypeUShort, "feff", 65534},
		{TypeULong, "ffffffff", math.MaxUint32},
		{TypeLong, "ffffffff", -1},
		{TypeLong, "ffffff7f", math.MaxInt32},
		{TypeULongLong, "0100000000002000", 1<<53 + 1},
		{TypeLongLong, "ffffffffffffffff", -1},
		{TypeLongLong, "0100000000002000", 1<<53 + 1},
	} {
		value, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := (Token{Type: c.typ, Value: string(value)}).Int(); got != c.want || !ok {
			t.Errorf("%s %s: %d, %t; want %d", c.typ, c.hex, got, ok, c.want)
		}
	}
}

// TestOtherKind: of a known identifier with a value of another kind, nothing is read,
// and the rest of the frame is.
func TestOtherKind(t *testing.T) {
	head := make([]byte, headMin)
	for _, token := range []Token{
		{ID: uint16(RequestPartitionKey), Type: TypeByte, Value: "\x01"},
		{ID: uint16(RequestPageSize), Type: TypeString, Value: "10"},
		{ID: 0x7777, Type: TypeULongBytes, Value: "abc"},
		{ID: uint16(RequestDocumentName), Type: TypeSmallString, Value: "first"},
		{ID: uint16(RequestDocumentName), Type: TypeULongString, Value: "last"},
		{ID: uint16(RequestTimeToLiveInSeconds), Type: TypeLong, Value: "\xff\xff\xff\xff"},
	} {
		var err error
		if head, err = token.Append(head); err != nil {
			t.Fatal(err)
		}
	}
	var r Request
	if err := r.decode(string(head)); err != nil {
		t.Fatal(err)
	}
	ttl, _ := r.Int(RequestTimeToLiveInSeconds)
	if r.Has(RequestPartitionKey) || r.Has(RequestPageSize) || r.Text(RequestDocumentName) != "last" || ttl != -1 {
		t.Errorf("%t, %t, %q, %d", r.Has(RequestPartitionKey), r.Has(RequestPageSize), r.Text(RequestDocumentName), ttl)
	}
}

// TestBroken: frames that cannot be read are violations that say why.
func TestBroken(t *testing.T) {
	fixed := strings.Repeat("00", headMin)
	for name, c := range map[string]struct{ hex, want string }{
		"short":          {fixed[2:], "a frame has 23 bytes, and at least 24 are needed"},
		"half a token":   {fixed + "000007", "a token needs 4 bytes, and 3 are left"},
		"unknown type":   {fixed + "00000f00", "token 0x0000 has the unknown type 0x0F"},
		"invalid type":   {fixed + "0000ff00", "token 0x0000 has the unknown type 0xFF"},
		"long text":      {fixed + "0000070561626364", "token 0x0000 of type SmallString is longer than its frame"},
		"half a length":  {fixed + "00000900000000"[:12], "token 0x0000 of type ULongString is longer than its frame"},
		"huge length":    {fixed + "00000cffffffff00", "token 0x0000 of type ULongBytes is longer than its frame"},
		"half a number":  {fixed + "00000500000000", "token 0x0000 of type LongLong is longer than its frame"},
		"many tokens":    {fixed + strings.Repeat("77770001", tokensMax+1), "a frame has more than 1024 tokens"},
		"tokens allowed": {fixed + strings.Repeat("77770001", tokensMax), ""},
	} {
		head, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(name, err)
		}
		got := ""
		if err := new(Request).decode(string(head)); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestResponseLimits: numbers are brought into the range of their type, and a text that
// is too long is left out.
func TestResponseLimits(t *testing.T) {
	var w Response
	w.Int(ResponseItemCount, math.MaxInt64)
	w.Int(ResponseSubStatus, -1)
	w.Int(ResponseIndexingDirective, 256)
	w.Int(ResponseItemLSN, -1)
	w.Bool(ResponseHasTentativeWrites, true)
	if got := hex.EncodeToString(w.tokens); got != "140002ffffffff"+"1c000200000000"+"0d0000ff"+"320005ffffffffffffffff"+"3d000001" {
		t.Error(got)
	}
	before := len(w.tokens)
	if w.Text(ResponseContinuationToken, strings.Repeat("x", math.MaxUint16+1)) || w.Text(ResponseSchemaVersion, strings.Repeat("x", 256)) || len(w.tokens) != before {
		t.Error("a text was too long and was added")
	}
	if !w.Text(ResponseContinuationToken, strings.Repeat("x", math.MaxUint16)) || !w.TextBytes(ResponseSchemaVersion, []byte(strings.Repeat("x", 255))) {
		t.Error("a text of the maximum length was not added")
	}
	w.Begin(404)
	if w.Status != 404 || len(w.tokens) != 0 {
		t.Errorf("%+v", w)
	}
}

// TestNames: known identifiers have the names of the clients' tables, others are numbers.
func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{RequestAIM.String(), "A_IM"},
		{RequestID(0x000B).String(), "0x000B"},
		{ResponseQuorumAckedLSN.String(), "QuorumAckedLSN"},
		{ResponseID(0xFFFF).String(), "0xFFFF"},
		{StoredProcedure.String() + " " + Resource(0x21).String(), "StoredProcedure resource 0x21"},
		{Batch.String() + " " + Operation(0x07).String(), "Batch operation 0x07"},
		{TypeGUID.String() + " " + Type(0x0F).String(), "Guid type 0x0F"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}
