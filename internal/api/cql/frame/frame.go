// Package frame is the codec of the native protocol of CQL, versions 3, 4 and 5.
//
// A server reads requests with a [Reader] and encodes responses with a [Writer];
// a client does the reverse with the same two types. Between them is the [Frame]:
// one message with its stream, its flags and what the protocol attaches to it (trace
// id, warnings, custom payload). A [Message] is the body of one opcode, such as
// [Query] or [Rows]; [Error] is the body of ERROR and the error type of this package.
//
// frame.go has envelopes and opcodes, primitives.go the notations of the protocol,
// types.go the descriptions of types, request.go and response.go the messages,
// segment.go the segments of version 5, compress.go the compression.
//
// # Invariants
//
// No input panics. Memory is allocated for bytes that have arrived or that their
// compression can contain, never for a length alone. Every error of a decoder is an
// [*Error] with [CodeProtocol], except those of the connection.
//
// The package opens no connection, and knows no statement and no value.
//
// Page: docs/cassandra.md
package frame

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Version is a version of the protocol, without the bit for the direction.
type Version byte

// The versions that the package decodes and encodes.
const (
	V3 Version = 3
	V4 Version = 4
	V5 Version = 5
)

// Supported reports whether the package decodes messages of the version.
func (v Version) Supported() bool { return v >= V3 && v <= V5 }

// String returns the version as in messages: 4/v4.
func (v Version) String() string { return fmt.Sprintf("%d/v%d", byte(v), byte(v)) }

// Opcode says which message an envelope holds.
type Opcode byte

// The opcodes.
const (
	OpError         Opcode = 0x00
	OpStartup       Opcode = 0x01
	OpReady         Opcode = 0x02
	OpAuthenticate  Opcode = 0x03
	OpOptions       Opcode = 0x05
	OpSupported     Opcode = 0x06
	OpQuery         Opcode = 0x07
	OpResult        Opcode = 0x08
	OpPrepare       Opcode = 0x09
	OpExecute       Opcode = 0x0A
	OpRegister      Opcode = 0x0B
	OpEvent         Opcode = 0x0C
	OpBatch         Opcode = 0x0D
	OpAuthChallenge Opcode = 0x0E
	OpAuthResponse  Opcode = 0x0F
	OpAuthSuccess   Opcode = 0x10
)

// opcodes has the name and the direction of each opcode. It never changes.
var opcodes = [...]struct {
	name     string
	response bool
}{
	OpError:         {"ERROR", true},
	OpStartup:       {"STARTUP", false},
	OpReady:         {"READY", true},
	OpAuthenticate:  {"AUTHENTICATE", true},
	OpOptions:       {"OPTIONS", false},
	OpSupported:     {"SUPPORTED", true},
	OpQuery:         {"QUERY", false},
	OpResult:        {"RESULT", true},
	OpPrepare:       {"PREPARE", false},
	OpExecute:       {"EXECUTE", false},
	OpRegister:      {"REGISTER", false},
	OpEvent:         {"EVENT", true},
	OpBatch:         {"BATCH", false},
	OpAuthChallenge: {"AUTH_CHALLENGE", true},
	OpAuthResponse:  {"AUTH_RESPONSE", false},
	OpAuthSuccess:   {"AUTH_SUCCESS", true},
}

// Known reports whether the protocol defines the opcode.
func (o Opcode) Known() bool { return int(o) < len(opcodes) && opcodes[o].name != "" }

// Response reports whether servers send the opcode.
func (o Opcode) Response() bool { return o.Known() && opcodes[o].response }

// String returns the name of the opcode as in messages.
func (o Opcode) String() string {
	if !o.Known() {
		return fmt.Sprintf("opcode(%d)", byte(o))
	}
	return opcodes[o].name
}

// Flags are the flags of an envelope.
type Flags byte

// The flags.
const (
	FlagCompressed Flags = 1 << iota // the body is compressed; versions 3 and 4
	FlagTracing                      // the request asks for a trace; the response has the id of one
	FlagPayload                      // a custom payload is attached
	FlagWarning                      // warnings are attached
	FlagBeta                         // the client accepts a version that is not final
)

// HeaderSize is the number of bytes of a header.
const HeaderSize = 9

// EventStream is the stream of events.
const EventStream = -1

// Header is the header of an envelope.
type Header struct {
	Version  Version
	Response bool // the direction, as the version byte has it
	Flags    Flags
	Stream   int16
	Opcode   Opcode
	Length   uint32 // of the body, as sent; not checked
}

const directionBit = 0x80

// ParseHeader decodes a header. It accepts every value.
func ParseHeader(b *[HeaderSize]byte) Header {
	return Header{
		Version:  Version(b[0] &^ directionBit),
		Response: b[0]&directionBit != 0,
		Flags:    Flags(b[1]),
		Stream:   int16(binary.BigEndian.Uint16(b[2:])),
		Opcode:   Opcode(b[4]),
		Length:   binary.BigEndian.Uint32(b[5:]),
	}
}

// Append appends the encoded header to b.
func (h Header) Append(b []byte) []byte {
	version := byte(h.Version)
	if h.Response {
		version |= directionBit
	}
	b = append(b, version, byte(h.Flags))
	b = binary.BigEndian.AppendUint16(b, uint16(h.Stream))
	b = append(b, byte(h.Opcode))
	return binary.BigEndian.AppendUint32(b, h.Length)
}

// Pair is a name with its value. A map of the protocol is a list of pairs, because its
// order is kept.
type Pair[V any] struct {
	Name  string
	Value V
}

// Lookup returns the value of the first pair with the name.
func Lookup[V any](pairs []Pair[V], name string) (V, bool) {
	at := slices.IndexFunc(pairs, func(p Pair[V]) bool { return p.Name == name })
	if at < 0 {
		var none V
		return none, false
	}
	return pairs[at].Value, true
}

// UUID is a UUID as the protocol sends it.
type UUID [16]byte

// String returns the UUID in its usual form.
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// Message is the body of an envelope. The implementations are the messages of this
// package.
type Message interface {
	// Opcode returns the opcode of the message.
	Opcode() Opcode

	encode(e *encoder)
}

// Frame is a message with all else that an envelope has.
type Frame struct {
	Version Version
	Stream  int16

	// Flags says whether a request asks for a trace, a response has a trace id, and
	// whether the client accepts a beta version. The other flags follow from the
	// fields.
	Flags Flags

	TraceID  UUID           // of a response with FlagTracing
	Warnings []string       // of a response; not sent in version 3
	Payload  []Pair[[]byte] // nil for none; not sent in version 3
	Message  Message
}

// Decode decodes the body of an envelope, which must be decompressed. The frame refers
// to body. Bytes after the message are ignored, as the protocol asks.
func Decode(h Header, body []byte) (Frame, error) {
	f := Frame{Version: h.Version, Stream: h.Stream, Flags: h.Flags & (FlagTracing | FlagBeta)}
	if !h.Opcode.Known() {
		return f, protocolError("Unknown opcode %d", byte(h.Opcode))
	}
	if h.Opcode.Response() != h.Response {
		return f, protocolError("Wrong protocol direction (expected %s, got %s) for opcode %d (%s)",
			direction(h.Opcode.Response()), direction(h.Response), byte(h.Opcode), h.Opcode)
	}
	d := &decoder{b: body, version: h.Version}
	if h.Response && h.Flags&FlagTracing != 0 {
		f.TraceID = d.uuid()
	}
	if h.Flags&FlagWarning != 0 && h.Response {
		f.Warnings = d.stringList()
	}
	if h.Flags&FlagPayload != 0 && h.Version >= V4 {
		f.Payload = d.bytesMap()
	}
	f.Message = decoders[h.Opcode](d)
	return f, d.err
}

func direction(response bool) string {
	if response {
		return "RESPONSE"
	}
	return "REQUEST"
}

// decoders has the decoder of each opcode. It never changes.
var decoders = [...]func(*decoder) Message{
	OpError:         decodeError,
	OpStartup:       decodeStartup,
	OpReady:         func(*decoder) Message { return Ready{} },
	OpAuthenticate:  func(d *decoder) Message { return Authenticate{Class: d.string()} },
	OpOptions:       func(*decoder) Message { return Options{} },
	OpSupported:     decodeSupported,
	OpQuery:         decodeQuery,
	OpResult:        decodeResult,
	OpPrepare:       decodePrepare,
	OpExecute:       decodeExecute,
	OpRegister:      decodeRegister,
	OpEvent:         decodeEvent,
	OpBatch:         decodeBatch,
	OpAuthChallenge: func(d *decoder) Message { return AuthChallenge{Token: d.bytes()} },
	OpAuthResponse:  func(d *decoder) Message { return AuthResponse{Token: d.bytes()} },
	OpAuthSuccess:   func(d *decoder) Message { return AuthSuccess{Token: d.bytes()} },
}

// BodyMax is the maximum length of a body in the protocol.
const BodyMax = 256 << 20

// Append appends the encoded envelope to b, without compression. The error says which
// part does not fit into its length field; b is then returned as it was.
func (f *Frame) Append(b []byte) ([]byte, error) {
	op := f.Message.Opcode()
	h := Header{Version: f.Version, Response: op.Response(), Flags: f.Flags & (FlagTracing | FlagBeta), Stream: f.Stream, Opcode: op}
	if f.Version >= V4 {
		if len(f.Warnings) > 0 {
			h.Flags |= FlagWarning
		}
		if f.Payload != nil {
			h.Flags |= FlagPayload
		}
	}
	start := len(b)
	e := &encoder{b: h.Append(b), version: f.Version}
	if h.Response && h.Flags&FlagTracing != 0 {
		e.b = append(e.b, f.TraceID[:]...)
	}
	if h.Flags&FlagWarning != 0 {
		e.stringList(f.Warnings)
	}
	if h.Flags&FlagPayload != 0 {
		e.bytesMap(f.Payload)
	}
	f.Message.encode(e)
	length := len(e.b) - start - HeaderSize
	if length > BodyMax {
		e.fail("the body", length)
	}
	if e.err != nil {
		return e.b[:start], e.err
	}
	binary.BigEndian.PutUint32(e.b[start+HeaderSize-4:], uint32(length))
	return e.b, nil
}

// Consistency is a consistency level.
type Consistency uint16

// The consistency levels.
const (
	Any Consistency = iota
	One
	Two
	Three
	Quorum
	All
	LocalQuorum
	EachQuorum
	Serial
	LocalSerial
	LocalOne
)

var consistencyNames = [...]string{
	"ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM", "SERIAL", "LOCAL_SERIAL", "LOCAL_ONE",
}

// String returns the name of the level as in statements and messages.
func (c Consistency) String() string {
	if int(c) >= len(consistencyNames) {
		return fmt.Sprintf("consistency(%d)", uint16(c))
	}
	return consistencyNames[c]
}

// IsSerial reports whether the level is one for conditional statements.
func (c Consistency) IsSerial() bool { return c == Serial || c == LocalSerial }

// shortMax is the maximum of a [short], and so of most lengths and counts.
const shortMax = math.MaxUint16
