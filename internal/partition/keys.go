package partition

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/decandb/decan/partitionkey"
)

// hashBytes is the length of one level of an EPK of version 2.
const hashBytes = 16

// epkWidth returns the length in bytes of a full EPK of a definition, zero if it
// varies.
func epkWidth(d partitionkey.Definition) int {
	switch {
	case d.Kind == partitionkey.KindMultiHash:
		return hashBytes * d.Levels()
	case d.Normalize().Version == 2:
		return hashBytes
	}
	return 0
}

// keyBounds returns the bounds of the row keys of a range, without the family, for
// EPKs of a width.
//
// A row key is the EPK followed by other bytes, so a bound that is longer than an EPK
// cannot be compared with it directly: cut to the width, it includes or excludes
// that EPK as a whole.
func keyBounds(r partitionkey.Range, width int) (low, high []byte) {
	low, high = []byte(r.Min.Canonical()), []byte(r.Max.Canonical())
	if width == 0 {
		// EPKs of version 1 have no common width. The upper bound of a single EPK
		// is that EPK and one more byte, so one byte less includes it.
		if len(high) > 1 {
			high = after(high[:len(high)-1])
		}
		return low, high
	}
	if len(low) > width {
		low = after(low[:width])
	}
	if len(high) > width {
		high = after(high[:width])
	}
	return low, high
}

// after returns the least bytes above all that begin with b. One byte of b at least
// is below FF.
func after(b []byte) []byte {
	b = bytes.Clone(b)
	for i := len(b) - 1; ; i-- {
		if b[i] < 0xFF {
			b[i]++
			return b[:i+1]
		}
	}
}

// keyHash is the second hash of a canonical key. It is cryptographic, so that a
// client cannot construct two keys of one EPK that collide.
func keyHash(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:8])
}
