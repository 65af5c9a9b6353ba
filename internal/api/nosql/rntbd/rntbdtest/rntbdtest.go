// Package rntbdtest has a client of RNTBD for tests. It sends whatever tokens it is
// told, in their order, and decodes answers into plain values.
package rntbdtest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
)

// Frame is any frame of the protocol.
type Frame struct {
	// Word has the 4 bytes after the length: the status of an answer, or the type of
	// the resource and, in the upper half, the operation of a request.
	Word     uint32
	Activity rntbd.GUID
	Tokens   []rntbd.Token
	Payload  []byte
}

// Request returns a request without tokens.
func Request(resource rntbd.Resource, operation rntbd.Operation, activity rntbd.GUID) *Frame {
	return &Frame{Word: uint32(resource) | uint32(operation)<<16, Activity: activity}
}

// Resource returns the type of the resource of a request.
func (f *Frame) Resource() rntbd.Resource { return rntbd.Resource(f.Word) }

// Operation returns the operation of a request.
func (f *Frame) Operation() rntbd.Operation { return rntbd.Operation(f.Word >> 16) }

// Status returns the status of an answer.
func (f *Frame) Status() int { return int(f.Word) }

// Int adds an integer of a type, and returns f.
func (f *Frame) Int(id rntbd.RequestID, t rntbd.Type, n int64) *Frame {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	size := map[rntbd.Type]int{rntbd.TypeByte: 1, rntbd.TypeUShort: 2, rntbd.TypeULong: 4, rntbd.TypeLong: 4, rntbd.TypeULongLong: 8, rntbd.TypeLongLong: 8}[t]
	return f.Add(id, t, string(b[:size]))
}

// Text adds a String, and returns f.
func (f *Frame) Text(id rntbd.RequestID, s string) *Frame { return f.Add(id, rntbd.TypeString, s) }

// Add adds a token with the bytes of its value, and returns f.
func (f *Frame) Add(id rntbd.RequestID, t rntbd.Type, value string) *Frame {
	f.Tokens = append(f.Tokens, rntbd.Token{ID: uint16(id), Type: t, Value: value})
	return f
}

// Token returns the last token with an identifier, and whether there is one.
func (f *Frame) Token(id uint16) (rntbd.Token, bool) {
	for i := len(f.Tokens) - 1; i >= 0; i-- {
		if f.Tokens[i].ID == id {
			return f.Tokens[i], true
		}
	}
	return rntbd.Token{}, false
}

// Answered returns the value of an integer token of an answer, or -1 without it.
func (f *Frame) Answered(id rntbd.ResponseID) int64 {
	if t, ok := f.Token(uint16(id)); ok {
		if n, ok := t.Int(); ok {
			return n
		}
	}
	return -1
}

// Told returns the value of a text token of an answer, or "".
func (f *Frame) Told(id rntbd.ResponseID) string {
	t, _ := f.Token(uint16(id))
	return t.Value
}

// Append encodes the frame. The length of the payload is written if there is one; the
// token that says so is among Tokens.
func (f *Frame) Append(dst []byte) ([]byte, error) {
	begin := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, f.Word)
	dst = append(dst, f.Activity[:]...)
	for _, t := range f.Tokens {
		var err error
		if dst, err = t.Append(dst); err != nil {
			return dst, err
		}
	}
	binary.LittleEndian.PutUint32(dst[begin:], uint32(len(dst)-begin))
	if len(f.Payload) > 0 {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.Payload)))
		dst = append(dst, f.Payload...)
	}
	return dst, nil
}

// Kind is what a frame is, which decides whether it has a payload.
type Kind int

// The kinds of frames.
const (
	KindRequest Kind = iota
	KindResponse
	KindContextRequest
	KindContextResponse
)

// headMin is the size of a frame without tokens and payload.
const headMin = 24

// errShort means that a frame is longer than the bytes that there are.
var errShort = errors.New("the frame is incomplete")

// Decode decodes the frame at the beginning of wire, and returns how many bytes it has.
func Decode(kind Kind, wire []byte) (*Frame, int, error) {
	if len(wire) < headMin {
		return nil, 0, errShort
	}
	length := int(binary.LittleEndian.Uint32(wire))
	if length < headMin {
		return nil, 0, fmt.Errorf("a frame of %d bytes", length)
	}
	if length > len(wire) {
		return nil, 0, errShort
	}
	f := &Frame{Word: binary.LittleEndian.Uint32(wire[4:])}
	copy(f.Activity[:], wire[8:headMin])
	head := string(wire[:length])
	for at := headMin; at < length; {
		t, next, err := rntbd.NextToken(head, at)
		if err != nil {
			return nil, 0, err
		}
		f.Tokens = append(f.Tokens, t)
		at = next
	}
	if !f.hasPayload(kind) {
		return f, length, nil
	}
	if len(wire) < length+4 {
		return nil, 0, errShort
	}
	size := int(binary.LittleEndian.Uint32(wire[length:]))
	if size > len(wire)-length-4 {
		return nil, 0, errShort
	}
	f.Payload = append([]byte{}, wire[length+4:][:size]...)
	return f, length + 4 + size, nil
}

func (f *Frame) hasPayload(kind Kind) bool {
	var id uint16
	switch kind {
	case KindContextRequest:
		return false
	case KindContextResponse:
		return f.Status() < 200 || f.Status() >= 400
	case KindRequest:
		id = uint16(rntbd.RequestPayloadPresent)
	case KindResponse:
		id = uint16(rntbd.ResponsePayloadPresent)
	}
	t, _ := f.Token(id)
	n, _ := t.Int()
	return n != 0
}
