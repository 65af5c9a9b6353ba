package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// appendFeedValue appends the value of a feed row: the number of the document and
// its short EPK, by which a reader of a key range skips documents of other keys.
// The short EPK has 8 bytes of the first level and 4 of each further one.
func appendFeedValue(dst []byte, number uint64, epk string, width int) []byte {
	const firstBytes, furtherBytes = 8, 4
	dst = binary.BigEndian.AppendUint64(dst, number)
	var first [firstBytes]byte
	copy(first[:], epk)
	dst = append(dst, first[:]...)
	for at := hashBytes; at < width; at += hashBytes {
		dst = append(dst, epk[at:at+furtherBytes]...)
	}
	return dst
}

// decodeFeedValue decodes a value of appendFeedValue. short shares the bytes of row.
func decodeFeedValue(row []byte) (number uint64, short []byte, err error) {
	if len(row) < storage.NumberBytes+shortFirst || (len(row)-storage.NumberBytes-shortFirst)%shortFurther != 0 {
		return 0, nil, fmt.Errorf("feed row %x: %w", row, errDocument)
	}
	return binary.BigEndian.Uint64(row), row[storage.NumberBytes:], nil
}

// A short EPK has this many bytes of the first level, and of each further one.
const (
	shortFirst   = 8
	shortFurther = 4
)

// shortRange tells from short EPKs alone which documents cannot be in a range.
// A level counts only if the bounds agree in all levels before it: then all
// documents of the range have the same values in those levels.
type shortRange struct {
	low, high []byte // inclusive; of the levels that count
}

// newShortRange returns the short form of a range, for EPKs of a width.
func newShortRange(r partitionkey.Range, width int) shortRange {
	var s shortRange
	low, high := r.Min.Canonical(), r.Max.Canonical()
	for at := 0; at < max(width, 1); at += hashBytes {
		n := shortFurther
		if at == 0 {
			n = shortFirst
		}
		s.low = append(s.low, level(low, at, n)...)
		s.high = append(s.high, level(high, at, n)...)
		if !bytes.Equal(level(low, at, hashBytes), level(high, at, hashBytes)) {
			break
		}
	}
	return s
}

// level returns n bytes of an EPK from an offset, padded with zeros.
func level(e partitionkey.EPK, at, n int) []byte {
	b := make([]byte, n)
	if at < len(e) {
		copy(b, e[at:])
	}
	return b
}

// holds reports whether a document with a short EPK may be in the range.
func (s *shortRange) holds(short []byte) bool {
	for at := 0; at < len(s.low) && at < len(short); {
		end := min(at+shortFurther, len(short))
		if at == 0 {
			end = min(shortFirst, len(short))
		}
		if bytes.Compare(short[at:end], s.low[at:end]) < 0 || bytes.Compare(short[at:end], s.high[at:end]) > 0 {
			return false
		}
		at = end
	}
	return true
}
