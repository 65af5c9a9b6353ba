package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/decandb/decan/partitionkey"
)

// LevelBytes is the length of one level of an EPK of version 2.
const LevelBytes = 16

// EPKWidth returns the length in bytes of a full EPK of a definition, zero if it
// varies.
func EPKWidth(d partitionkey.Definition) int {
	switch {
	case d.Kind == partitionkey.KindMultiHash:
		return LevelBytes * d.Levels()
	case d.Normalize().Version == 2:
		return LevelBytes
	}
	return 0
}

// KeyBounds returns the bounds of the row keys of a range, without the family, for
// EPKs of a width.
//
// A row key is the EPK followed by other bytes, so a bound that is longer than an EPK
// cannot be compared with it directly: cut to the width, it includes or excludes
// that EPK as a whole.
func KeyBounds(r partitionkey.Range, width int) (low, high []byte) {
	low, high = []byte(r.Min.Canonical()), []byte(r.Max.Canonical())
	if width == 0 {
		// EPKs of version 1 have no common width. The upper bound of a single EPK
		// is that EPK and one more byte, so one byte less includes it.
		if len(high) > 1 {
			high = PrefixEnd(high[:len(high)-1])
		}
		return low, high
	}
	if len(low) > width {
		low = PrefixEnd(low[:width])
	}
	if len(high) > width {
		high = PrefixEnd(high[:width])
	}
	return low, high
}

// PrefixEnd returns the least bytes above all that begin with b. One byte of b at least
// is below FF.
func PrefixEnd(b []byte) []byte {
	b = bytes.Clone(b)
	for i := len(b) - 1; ; i-- {
		if b[i] < 0xFF {
			b[i]++
			return b[:i+1]
		}
	}
}

// KeyHash is the second hash of a canonical key. It is cryptographic, so that a
// client cannot construct two keys of one EPK that collide.
func KeyHash(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:8])
}
