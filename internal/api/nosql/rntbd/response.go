package rntbd

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Response is the answer to a request. Its handler sets it while Serve runs. The tokens
// PayloadPresent and TransportRequestID are added when it is sent; a handler does not
// set them.
type Response struct {
	Status int // as in HTTP

	// Payload is the body; empty for none. It must not be changed after Serve has
	// returned.
	Payload []byte

	tokens []byte // encoded
}

func (w *Response) reset() {
	*w = Response{tokens: w.tokens[:0]}
}

// Begin removes everything that was set, for a handler that has to answer with an error
// instead.
func (w *Response) Begin(status int) {
	w.reset()
	w.Status = status
}

// header encodes the beginning of a token, whose type must be of a kind.
func (w *Response) header(id ResponseID, of kind) Type {
	t := responseTokens[id]
	if t.name == "" || types[t.typ].kind != of {
		panic(fmt.Sprintf("rntbd: token %s has the type %s", id, t.typ))
	}
	w.tokens = append(w.tokens, byte(id), byte(id>>8), byte(t.typ))
	return t.typ
}

// Int adds a token that is an integer. A value that its type cannot hold becomes the
// nearest one that it can.
func (w *Response) Int(id ResponseID, n int64) {
	switch t := w.header(id, kindInteger); t {
	case TypeByte:
		n = min(max(n, 0), math.MaxUint8)
	case TypeUShort:
		n = min(max(n, 0), math.MaxUint16)
	case TypeULong:
		n = min(max(n, 0), math.MaxUint32)
	case TypeLong:
		n = min(max(n, math.MinInt32), math.MaxInt32)
	}
	w.tokens = appendInteger(w.tokens, uint64(n), types[responseTokens[id].typ].fixed)
}

// Bool adds a token that is a truth value.
func (w *Response) Bool(id ResponseID, b bool) {
	n := int64(0)
	if b {
		n = 1
	}
	w.Int(id, n)
}

// Real adds a token that is a floating-point number.
func (w *Response) Real(id ResponseID, f float64) {
	if w.header(id, kindReal) == TypeFloat {
		w.tokens = binary.LittleEndian.AppendUint32(w.tokens, math.Float32bits(float32(f)))
		return
	}
	w.tokens = binary.LittleEndian.AppendUint64(w.tokens, math.Float64bits(f))
}

// GUID adds a token that is an identifier.
func (w *Response) GUID(id ResponseID, g GUID) {
	w.header(id, kindGUID)
	w.tokens = append(w.tokens, g[:]...)
}

// Text adds a token that is a text. If the text is longer than its type permits (65,535
// bytes, and 255 for a few), Text adds nothing and returns false.
func (w *Response) Text(id ResponseID, s string) bool { return addText(w, id, s) }

// TextBytes is Text for a text in bytes.
func (w *Response) TextBytes(id ResponseID, s []byte) bool { return addText(w, id, s) }

func addText[T string | []byte](w *Response, id ResponseID, s T) bool {
	begin := len(w.tokens)
	t := w.header(id, kindText)
	if len(s) > t.Max() {
		w.tokens = w.tokens[:begin]
		return false
	}
	w.tokens = appendInteger(w.tokens, uint64(len(s)), types[t].prefix)
	w.tokens = append(w.tokens, s...)
	return true
}

// ownTokens is the size of the tokens that the package adds.
const ownTokens = 4 + 7

// size returns the size of the encoded response.
func (w *Response) size() int {
	n := headMin + ownTokens + len(w.tokens)
	if len(w.Payload) > 0 {
		n += 4 + len(w.Payload)
	}
	return n
}

// appendHead encodes everything but the payload. Its last 4 bytes are the length of the
// payload, if there is one.
func (w *Response) appendHead(dst []byte, activity GUID, transport uint32) []byte {
	present := byte(0)
	if len(w.Payload) > 0 {
		present = 1
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(headMin+ownTokens+len(w.tokens)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(w.Status))
	dst = append(dst, activity[:]...)
	dst = append(dst, byte(ResponsePayloadPresent), byte(ResponsePayloadPresent>>8), byte(TypeByte), present)
	dst = append(dst, byte(ResponseTransportRequestID), byte(ResponseTransportRequestID>>8), byte(TypeULong))
	dst = binary.LittleEndian.AppendUint32(dst, transport)
	dst = append(dst, w.tokens...)
	if present == 1 {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(w.Payload)))
	}
	return dst
}
