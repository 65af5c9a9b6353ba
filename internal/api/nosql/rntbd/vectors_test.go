package rntbd

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// vector is a recorded frame and what it means.
type vector struct {
	Name    string
	Kind    string
	Hex     string
	Decoded struct {
		Length                      int
		Status                      int
		ResourceType, OperationType int
		ActivityID                  string
		Tokens                      tokenList
		Payload                     *string
		PayloadLength               int
		Skipped                     tokenList `json:"skippedByTheJavaDecoder"`
	}
}

// tokenList are tokens by name, in the order of the file.
type tokenList []wanted

type wanted struct {
	Name     string
	ID       string
	Type     string
	Value    json.RawMessage
	ValueHex *string
}

func (l *tokenList) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var w wanted
		if err := d.Decode(&w); err != nil {
			return err
		}
		w.Name = name.(string)
		if w.ID == "" { // The tokens of contexts are listed by their identifiers.
			w.ID = w.Name
		}
		*l = append(*l, w)
	}
	return nil
}

// token makes the token of its description.
func (w *wanted) token() (Token, error) {
	id, err := strconv.ParseUint(strings.TrimPrefix(w.ID, "0x"), 16, 16)
	if err != nil {
		return Token{}, err
	}
	t := Token{ID: uint16(id), Type: 0xFF}
	for i := range types {
		if types[i].name == w.Type {
			t.Type = Type(i)
		}
	}
	if t.Type == 0xFF {
		return Token{}, fmt.Errorf("unknown type %q", w.Type)
	}
	if w.ValueHex != nil {
		b, err := hex.DecodeString(*w.ValueHex)
		t.Value = string(b)
		return t, err
	}
	form := types[t.Type]
	switch form.kind {
	case kindInteger:
		n, err := strconv.ParseInt(string(w.Value), 10, 64)
		if err != nil {
			return Token{}, err
		}
		t.Value = string(appendInteger(nil, uint64(n), form.fixed))
		return t, nil
	case kindReal:
		f, err := strconv.ParseFloat(string(w.Value), 64)
		if err != nil {
			return Token{}, err
		}
		t.Value = string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)))
		return t, nil
	}
	var text string
	if err := json.Unmarshal(w.Value, &text); err != nil {
		return Token{}, err
	}
	if form.kind == kindGUID {
		g, err := ParseGUID(text)
		t.Value = string(g[:])
		return t, err
	}
	t.Value = text
	return t, nil
}

func vectors(tb testing.TB) []vector {
	tb.Helper()
	b, err := os.ReadFile("testdata/frames.json")
	if err != nil {
		tb.Fatal(err)
	}
	var file struct{ Frames []vector }
	if err := json.Unmarshal(b, &file); err != nil {
		tb.Fatal(err)
	}
	if len(file.Frames) != 160 {
		tb.Fatalf("%d frames", len(file.Frames))
	}
	return file.Frames
}

func (v *vector) wire(tb testing.TB) []byte {
	tb.Helper()
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// wantedTokens returns the described tokens by identifier.
func (v *vector) wantedTokens(t *testing.T) map[uint16]Token {
	t.Helper()
	all := map[uint16]Token{}
	for _, list := range []tokenList{v.Decoded.Tokens, v.Decoded.Skipped} {
		for i := range list {
			token, err := list[i].token()
			if err != nil {
				t.Fatalf("%s: %v", list[i].Name, err)
			}
			all[token.ID] = token
		}
	}
	return all
}

// TestVectors: each recorded frame is decoded into the tokens that it is known to have.
func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			wire, want := v.wire(t), v.wantedTokens(t)
			head := string(wire[:v.Decoded.Length])
			if got := int(integer(head[:4], false)); got != v.Decoded.Length {
				t.Errorf("length %d, want %d", got, v.Decoded.Length)
			}
			if got := GUID([]byte(head[8:24])).String(); got != v.Decoded.ActivityID {
				t.Errorf("activity %s, want %s", got, v.Decoded.ActivityID)
			}
			again := []byte(head[:headMin])
			for at := headMin; at < len(head); {
				token, next, err := NextToken(head, at)
				if err != nil {
					t.Fatal(err)
				}
				at = next
				if token != want[token.ID] {
					t.Errorf("got %+v, want %+v", token, want[token.ID])
				}
				delete(want, token.ID)
				if again, err = token.Append(again); err != nil {
					t.Fatal(err)
				}
			}
			if len(want) > 0 {
				t.Errorf("missing: %v", want)
			}
			if string(again) != head {
				t.Errorf("encoded again: %x, want %x", again, head)
			}
			switch v.Kind {
			case "request":
				v.checkRequest(t, head)
			case "contextRequest":
				v.checkHello(t, head)
			case "response":
				v.checkResponse(t, wire)
			}
		})
	}
}

// checkRequest: a request shows each token whose identifier is in the table.
func (v *vector) checkRequest(t *testing.T, head string) {
	var r Request
	if err := r.decode(head); err != nil {
		t.Fatal(err)
	}
	if int(r.Resource) != v.Decoded.ResourceType || int(r.Operation) != v.Decoded.OperationType || r.Activity.String() != v.Decoded.ActivityID {
		t.Errorf("%s of %s, %s", r.Operation, r.Resource, r.Activity)
	}
	known := 0
	for i := range v.Decoded.Tokens {
		w := &v.Decoded.Tokens[i]
		token, err := w.token()
		if err != nil {
			t.Fatal(err)
		}
		id := RequestID(token.ID)
		if int(id) >= len(requestTokens) || requestTokens[id].name == "" {
			continue
		}
		known++
		if id.String() != w.Name && id != RequestWorkloadIDByte {
			t.Errorf("0x%04X is %s, want %s", token.ID, id, w.Name)
		}
		if got := r.Text(id); got != token.Value {
			t.Errorf("%s: %q, want %q", id, got, token.Value)
		}
		if n, isInt := token.Int(); isInt {
			if got, ok := r.Int(id); !ok || got != n {
				t.Errorf("%s: %d, want %d", id, got, n)
			}
		}
	}
	if len(r.slots) != known {
		t.Errorf("%d tokens, want %d", len(r.slots), known)
	}
	if r.Bool(RequestPayloadPresent) != (v.Decoded.PayloadLength > 0) {
		t.Errorf("payload present: %t, and its length is %d", r.Bool(RequestPayloadPresent), v.Decoded.PayloadLength)
	}
}

func (v *vector) checkHello(t *testing.T, head string) {
	h, err := decodeHello(head)
	if err != nil || h.refusal != "" {
		t.Fatal(h.refusal, err)
	}
	tokens := v.wantedTokens(t)
	if h.activity.String() != v.Decoded.ActivityID || h.version != tokens[1].Value || h.agent != tokens[2].Value {
		t.Errorf("%+v", h)
	}
}

// checkResponse: Response encodes the same tokens in the same order to the same bytes,
// except that its first two tokens are always PayloadPresent and TransportRequestID.
func (v *vector) checkResponse(t *testing.T, wire []byte) {
	activity, err := ParseGUID(v.Decoded.ActivityID)
	if err != nil {
		t.Fatal(err)
	}
	w := Response{Status: v.Decoded.Status, Payload: wire[v.Decoded.Length:]}
	if len(w.Payload) > 0 {
		w.Payload = w.Payload[4:]
	}
	want := append([]byte{}, wire[:headMin]...)
	var first, second, rest []byte
	var transport int64
	head := string(wire[:v.Decoded.Length])
	for at := headMin; at < len(head); {
		token, next, err := NextToken(head, at)
		if err != nil {
			t.Fatal(err)
		}
		bytesOf := wire[at:next]
		at = next
		id := ResponseID(token.ID)
		switch {
		case id == ResponsePayloadPresent:
			first = bytesOf
			continue
		case id == ResponseTransportRequestID:
			second = bytesOf
			transport, _ = token.Int()
			continue
		case int(id) >= len(responseTokens) || responseTokens[id].name == "":
			continue // The server has no such token.
		}
		rest = append(rest, bytesOf...)
		if responseTokens[id].typ != token.Type {
			t.Errorf("%s is %s, want %s", id, responseTokens[id].typ, token.Type)
		}
		switch n, _ := token.Int(); types[token.Type].kind {
		case kindInteger:
			w.Int(id, n)
		case kindReal:
			w.Real(id, math.Float64frombits(integer(token.Value, false)))
		case kindGUID:
			w.GUID(id, GUID([]byte(token.Value)))
		case kindText:
			if !w.Text(id, token.Value) {
				t.Errorf("%s does not fit", id)
			}
		}
	}
	if second == nil { // Some recorded answers were not made for a request.
		second = []byte{0x35, 0, byte(TypeULong), 0, 0, 0, 0}
	}
	want = append(append(append(want, first...), second...), rest...)
	binary.LittleEndian.PutUint32(want, uint32(len(want)))
	want = append(want, wire[v.Decoded.Length:]...)
	got := append(w.appendHead(nil, activity, uint32(transport)), w.Payload...)
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%x, want\n%x", got, want)
	}
	if w.size() != len(got) {
		t.Errorf("size %d, want %d", w.size(), len(got))
	}
}
