package rntbd

import (
	"errors"
	"strings"
	"testing"
)

// addHeads adds the heads of the recorded frames of some kinds to a corpus.
func addHeads(f *testing.F, kinds ...string) {
	for _, v := range vectors(f) {
		for _, kind := range kinds {
			if v.Kind == kind {
				f.Add(v.wire(f)[:v.Decoded.Length])
			}
		}
	}
}

// again encodes the tokens of a head one by one.
func again(t *testing.T, head string) string {
	encoded := []byte(head[:headMin])
	for at := headMin; at < len(head); {
		token, next, err := NextToken(head, at)
		if err != nil {
			t.Fatal(err)
		}
		at = next
		if encoded, err = token.Append(encoded); err != nil {
			t.Fatal(err)
		}
	}
	return string(encoded)
}

func checkViolation(t *testing.T, err error) {
	var v *Violation
	if !errors.As(err, &v) || v.Reason == "" {
		t.Fatalf("%T: %v", err, err)
	}
}

// FuzzRequest: no head panics, every error is a Violation, a head that was decoded is
// encoded to the same bytes, and no token has bytes that are not in the head.
func FuzzRequest(f *testing.F) {
	addHeads(f, "request", "contextRequest", "response")
	f.Fuzz(func(t *testing.T, head []byte) {
		var r Request
		if err := r.decode(string(head)); err != nil {
			checkViolation(t, err)
			return
		}
		if got := again(t, string(head)); got != string(head) {
			t.Errorf("%x became %x", head, got)
		}
		for id := range RequestID(len(requestTokens) + 2) {
			text := r.Text(id)
			_, isInt := r.Int(id)
			switch {
			case !r.Has(id) && (text != "" || isInt || r.Bool(id) || r.GUID(id) != GUID{}):
				t.Errorf("%s is absent and has a value", id)
			case !strings.Contains(string(head), text):
				t.Errorf("%s has %q", id, text)
			case r.Has(id) && isInt != (types[requestTokens[id].typ].kind == kindInteger):
				t.Errorf("%s: an integer: %t", id, isInt)
			}
		}
	})
}

// FuzzContext: no first frame panics, and what answers it is a frame.
func FuzzContext(f *testing.F) {
	addHeads(f, "contextRequest", "request")
	f.Fuzz(func(t *testing.T, head []byte) {
		h, err := decodeHello(string(head))
		if err != nil {
			checkViolation(t, err)
			return
		}
		answer := h.appendAnswer(nil, "Decan", "version=1")
		length := int(integer(string(answer[:4]), false))
		if refused := len(answer) > length; refused != (h.refusal != "") {
			t.Errorf("%x for %+v", answer, h)
		}
		again(t, string(answer[:length]))
	})
}

// FuzzToken: a token that can be encoded is decoded to itself.
func FuzzToken(f *testing.F) {
	for i := range types {
		f.Add(uint16(i), byte(i), strings.Repeat("x", int(types[i].fixed)))
	}
	f.Add(uint16(1), byte(TypeString), strings.Repeat("x", 70_000))
	f.Fuzz(func(t *testing.T, id uint16, typ byte, value string) {
		token := Token{ID: id, Type: Type(typ), Value: value}
		b, err := token.Append(nil)
		if err != nil {
			return
		}
		got, next, err := NextToken(string(b), 0)
		if err != nil || next != len(b) || got != token {
			t.Errorf("%+v: %+v, %d of %d, %v", token, got, next, len(b), err)
		}
		for cut := range min(len(b), 300) {
			if _, _, err := NextToken(string(b[:cut]), 0); err == nil {
				t.Errorf("%x is complete", b[:cut])
			}
		}
	})
}
