package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// AppendFeedValue appends the value of a feed row: the number of the document and
// its short EPK, by which a reader of a key range skips documents of other keys.
// The short EPK has 8 bytes of the first level and 4 of each further one.
func AppendFeedValue(dst []byte, number uint64, epk string, width int) []byte {
	const firstBytes, furtherBytes = 8, 4
	dst = binary.BigEndian.AppendUint64(dst, number)
	var first [firstBytes]byte
	copy(first[:], epk)
	dst = append(dst, first[:]...)
	for at := LevelBytes; at < width; at += LevelBytes {
		dst = append(dst, epk[at:at+furtherBytes]...)
	}
	return dst
}

// DecodeFeedValue decodes a value of AppendFeedValue. short shares the bytes of row.
func DecodeFeedValue(row []byte) (number uint64, short []byte, err error) {
	if len(row) < storage.NumberBytes+shortFirst || (len(row)-storage.NumberBytes-shortFirst)%shortFurther != 0 {
		return 0, nil, fmt.Errorf("feed row %x: %w", row, ErrDocument)
	}
	return binary.BigEndian.Uint64(row), row[storage.NumberBytes:], nil
}

// A short EPK has this many bytes of the first level, and of each further one.
const (
	shortFirst   = 8
	shortFurther = 4
)

// ShortRange tells from short EPKs alone which documents cannot be in a range.
// A level counts only if the bounds agree in all levels before it: then all
// documents of the range have the same values in those levels.
type ShortRange struct {
	low, high []byte // inclusive; of the levels that count
}

// NewShortRange returns the short form of a range, for EPKs of a width.
func NewShortRange(r partitionkey.Range, width int) ShortRange {
	var s ShortRange
	low, high := r.Min.Canonical(), r.Max.Canonical()
	for at := 0; at < max(width, 1); at += LevelBytes {
		n := shortFurther
		if at == 0 {
			n = shortFirst
		}
		s.low = append(s.low, level(low, at, n)...)
		s.high = append(s.high, level(high, at, n)...)
		if !bytes.Equal(level(low, at, LevelBytes), level(high, at, LevelBytes)) {
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

// Holds reports whether a document with a short EPK may be in the range.
func (s *ShortRange) Holds(short []byte) bool {
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
