// Package binaryjson is the binary form of JSON in which some clients of the
// service send and accept items: the Rust client always, the .NET client if its
// environment asks for it.
//
// [AppendText] turns it into JSON text, and [Append] turns JSON text into it. The
// layout and the choices of the writer follow the public sources of the .NET
// client and what its reader and writer produce (testdata).
//
// # Layout
//
// A document is the byte 0x80 and one value. A value is a marker, the length and
// the number of items where the marker says so, and the payload. Numbers are
// little-endian.
//
//	00-1F  the integers 0 to 31           C8-CE  numbers of 8 to 64 bits
//	20-3F  frequent strings (systemTable) CF     16-bit floats, not read
//	40-67  strings of a dictionary        D0-D2  null, false, true
//	71-74  base64, packed                 D3-DF  typed numbers, GUIDs, bytes
//	75-77  GUIDs, packed                  E0-E7  arrays
//	78-7F  characters of 4 to 7 bits      E8-EF  objects
//	80-BF  strings of 0 to 63 bytes       F0-F3  arrays of numbers of one type
//	C0-C6  longer strings, references     C7     unsigned 64-bit numbers
//
// # Invariants
//
//   - For any bytes, reading ends with text or an error. It writes no more than the
//     limit, even though a reference of two bytes can expand to a string of any length.
//   - What Append writes, AppendText reads as an equal value.
//
// The package knows no HTTP, no status and no document. It keeps no dictionaries
// of strings, which clients use only for responses that they have stored.
//
// Page: docs/nosql.md, "Binary JSON"
package binaryjson

import (
	"errors"
	"fmt"
)

// first is the first byte of every document.
const first = 0x80

// Is reports whether a body is binary JSON rather than text.
func Is(body []byte) bool { return len(body) > 0 && body[0] == first }

// depthMax is the number of arrays and objects that may be nested, as in the text
// form (value.DepthMax).
const depthMax = 128

// Errors of [AppendText] and [Append]. The first two have more detail when they
// are returned; compare with errors.Is.
var (
	// ErrInvalid says that the bytes are not binary JSON.
	ErrInvalid = errors.New("invalid binary JSON")
	// ErrText says that the text is not JSON.
	ErrText = errors.New("invalid JSON text")
	// ErrTooLong says that the text would be longer than the limit.
	ErrTooLong = errors.New("the text of the binary JSON is too long")
	// ErrTooDeep says that arrays and objects are nested more than 128 levels deep.
	ErrTooDeep = errors.New("the JSON is nested too deeply")
)

func invalid(offset int, what string) error {
	return fmt.Errorf("%w: %s at byte %d", ErrInvalid, what, offset)
}

// The markers.
const (
	literalMax = 0x20 // smaller markers are integers

	system     = 0x20
	dictionary = 0x40

	base64One    = 0x71 // the number of groups in one byte
	base64Two    = 0x72
	base64URLOne = 0x73
	base64URLTwo = 0x74

	guidLower  = 0x75
	guidUpper  = 0x76
	guidQuoted = 0x77

	lowerHex  = 0x78
	upperHex  = 0x79
	dateTime  = 0x7A
	packed4   = 0x7B
	packed5   = 0x7C
	packed6   = 0x7D
	packed7   = 0x7E
	packed7L2 = 0x7F

	short    = 0x80 // plus the length, up to 63
	shortMax = 0xC0

	string1    = 0xC0
	string2    = 0xC1
	string4    = 0xC2
	reference1 = 0xC3
	reference2 = 0xC4
	reference3 = 0xC5
	reference4 = 0xC6

	unsigned64 = 0xC7
	unsigned8  = 0xC8
	number16   = 0xC9
	number32   = 0xCA
	number64   = 0xCB
	double     = 0xCC
	float32Of  = 0xCD
	float64Of  = 0xCE

	null     = 0xD0
	no       = 0xD1
	yes      = 0xD2
	guid     = 0xD3
	uint8Of  = 0xD7
	int8Of   = 0xD8
	int16Of  = 0xD9
	int32Of  = 0xDA
	int64Of  = 0xDB
	uint32Of = 0xDC
	bytes1   = 0xDD
	bytes2   = 0xDE
	bytes4   = 0xDF

	array0  = 0xE0
	array1  = 0xE1
	arrayL1 = 0xE2
	arrayL2 = 0xE3
	arrayL4 = 0xE4
	arrayC1 = 0xE5
	arrayC2 = 0xE6
	arrayC4 = 0xE7

	object0  = 0xE8
	object1  = 0xE9
	objectL1 = 0xEA
	objectL2 = 0xEB
	objectL4 = 0xEC
	objectC1 = 0xED
	objectC2 = 0xEE
	objectC4 = 0xEF

	numbers1 = 0xF0
	numbers2 = 0xF1
	matrix1  = 0xF2
	matrix2  = 0xF3
)

// systemTable holds the strings with markers of their own, by marker less 0x20.
var systemTable = [...]string{
	"$s", "$t", "$v", "_attachments", "_etag", "_rid", "_self", "_ts",
	"attachments/", "coordinates", "geometry", "GeometryCollection", "id", "url", "Value", "label",
	"LineString", "link", "MultiLineString", "MultiPoint", "MultiPolygon", "name", "Name", "Type",
	"Point", "Polygon", "properties", "type", "value", "Feature", "FeatureCollection", "_id",
}

// The alphabets of strings with four bits for a character.
const (
	lowerHexDigits = "0123456789abcdef"
	upperHexDigits = "0123456789ABCDEF"
	dateTimeDigits = " 0123456789:-.TZ"
)
