package partitionkey

import (
	"encoding/hex"
	"strings"
)

// EPK is an effective partition key, the hash of a key: a point in the key
// space, as bytes. Its printed, wire and JSON form is upper-case hexadecimal.
// Compare EPKs with [EPK.Compare], not with == or <, because trailing zero bytes
// do not matter. For that reason, and because encoding/json writes map keys
// without conversion, do not use an EPK as the key of a map.
type EPK string

// The bounds of the key space.
const (
	MinEPK EPK = ""     // the lowest EPK, that of the empty key
	MaxEPK EPK = "\xff" // above the EPK of every key
)

const upperHex = "0123456789ABCDEF"

// ParseEPK parses hexadecimal digits of either case, two per byte. The error is
// an *Error.
func ParseEPK(digits string) (EPK, error) {
	b, err := hex.DecodeString(digits)
	if err != nil {
		return "", errorf("The effective partition key %q is not an even number of hexadecimal digits.", clip(digits))
	}
	return EPK(b), nil
}

// String returns the EPK as upper-case hexadecimal, "" for MinEPK.
func (e EPK) String() string {
	b, _ := e.AppendText(make([]byte, 0, 2*len(e)))
	return string(b)
}

// AppendText appends the upper-case hexadecimal form to dst. It never fails.
func (e EPK) AppendText(dst []byte) ([]byte, error) {
	for i := range len(e) {
		dst = append(dst, upperHex[e[i]>>4], upperHex[e[i]&0xF])
	}
	return dst, nil
}

// MarshalText returns the upper-case hexadecimal form. It never fails.
func (e EPK) MarshalText() ([]byte, error) { return e.AppendText(nil) }

// UnmarshalText parses the EPK with [ParseEPK].
func (e *EPK) UnmarshalText(digits []byte) error {
	parsed, err := ParseEPK(string(digits))
	if err != nil {
		return err
	}
	*e = parsed
	return nil
}

// Compare returns -1 if e is less than o, 0 if they are the same point, and +1
// if e is greater.
func (e EPK) Compare(o EPK) int {
	n := min(len(e), len(o))
	if c := strings.Compare(string(e[:n]), string(o[:n])); c != 0 {
		return c
	}
	if !zeros(e[n:]) {
		return +1
	}
	if !zeros(o[n:]) {
		return -1
	}
	return 0
}

// Canonical returns the shortest EPK for the same point, without trailing zero
// bytes. Canonical EPKs can be compared with ==.
func (e EPK) Canonical() EPK {
	return EPK(strings.TrimRight(string(e), "\x00"))
}

func zeros(e EPK) bool {
	for i := range len(e) {
		if e[i] != 0 {
			return false
		}
	}
	return true
}
