package storage

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// A posting list is a set of document numbers, divided into chunks of 65,536 numbers.
// Each chunk is a row. Its key is the key of the list and the upper 48 bits of the
// numbers; its value contains the lower 16 bits of the numbers in the set.
//
// A value has a set of added and a set of removed numbers, each empty, an array or a
// bitmap. The store merges values, older below newer. A value with nothing older below
// it has no removals; readers see only such values. The form of a set depends only on
// its size, so equal sets have equal bytes. A row that has become empty remains as one
// byte until it is swept; readers skip it.
//
//	form(1) [added count(2)] added removed
//
// form has the form of the added set in its low four bits and that of the removed set in
// its high four bits. The count exists if the added set is an array and the removed set
// is not empty. An array is ascending 16-bit numbers. A bitmap is 8,192 bytes; number 0
// is the lowest bit of the first byte. Numbers are little-endian.
const (
	formNone   = 0
	formArray  = 1
	formBitmap = 2

	formAddOne    = formArray      // one added number: three bytes
	formRemoveOne = formArray << 4 // one removed number: three bytes

	chunkSize   = 1 << 16
	chunkWords  = chunkSize / 64
	bitmapBytes = chunkSize / 8
	// arrayMax is the largest set that is smaller as an array.
	arrayMax = bitmapBytes/2 - 1
)

// view is a read-only set of 16-bit numbers in one of four forms: an array or a bitmap,
// encoded or not. Reading an encoded one needs no decoding.
type view struct {
	dense bool
	count int // of an array

	raw   []byte              // encoded, or nil
	array []uint16            // if it is an array and raw is nil
	words *[chunkWords]uint64 // if it is a bitmap and raw is nil
}

// at returns number i of an array.
func (v *view) at(i int) uint16 {
	if v.raw != nil {
		return binary.LittleEndian.Uint16(v.raw[2*i:])
	}
	return v.array[i]
}

// word returns word i of a bitmap.
func (v *view) word(i int) uint64 {
	if v.words != nil {
		return v.words[i]
	}
	return binary.LittleEndian.Uint64(v.raw[8*i:])
}

// bitmap returns all words of a bitmap, decoded into scratch if it is encoded.
func (v *view) bitmap(scratch *[chunkWords]uint64) *[chunkWords]uint64 {
	if v.words != nil {
		return v.words
	}
	raw := (*[bitmapBytes]byte)(v.raw)
	for i := range scratch {
		scratch[i] = binary.LittleEndian.Uint64(raw[8*i : 8*i+8])
	}
	return scratch
}

// has reports whether x is in a bitmap.
func (v *view) has(x uint16) bool { return v.word(int(x>>6))&(1<<(x&63)) != 0 }

// find returns the index of the first number of an array, at index from or later, that
// is x or higher. Callers move forward, so it gallops and then bisects.
func (v *view) find(from int, x uint16) int {
	step := 1
	low, high := from, from
	for high < v.count && v.at(high) < x {
		low = high + 1
		high += step
		step *= 2
	}
	high = min(high, v.count)
	for low < high {
		mid := int(uint(low+high) / 2)
		if v.at(mid) < x {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// size returns how many numbers the set has.
func (v *view) size() int {
	if !v.dense {
		return v.count
	}
	return v.ones(0, chunkWords)
}

// ones counts the numbers of a bitmap in the words [from, to).
func (v *view) ones(from, to int) (n int) {
	if v.words != nil {
		for _, w := range v.words[from:to] {
			n += bits.OnesCount64(w)
		}
		return n
	}
	for raw := v.raw[8*from : 8*to]; len(raw) >= 8; raw = raw[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(raw))
	}
	return n
}

// encoded is the value of a row of a posting list.
type encoded struct {
	added, removed view
}

// decodePosting checks the structure of a value and splits it. The views share its
// bytes.
func decodePosting(value []byte) (e encoded, err error) {
	if len(value) == 0 {
		return e, fmt.Errorf("empty value: %w", errPosting)
	}
	addForm, removeForm, rest := value[0]&0x0F, value[0]>>4, value[1:]
	addBytes := len(rest)
	switch {
	case addForm == formNone:
		addBytes = 0
	case addForm == formBitmap:
		addBytes = bitmapBytes
	case addForm == formArray && removeForm != formNone:
		if len(rest) < 2 {
			return e, fmt.Errorf("value of %d bytes: %w", len(value), errPosting)
		}
		addBytes = 2 * int(binary.LittleEndian.Uint16(rest))
		rest = rest[2:]
	}
	if addBytes > len(rest) {
		return e, fmt.Errorf("value of %d bytes: %w", len(value), errPosting)
	}
	var ok, alsoOK bool
	e.added, ok = encodedView(addForm, rest[:addBytes])
	e.removed, alsoOK = encodedView(removeForm, rest[addBytes:])
	if !ok || !alsoOK {
		return e, fmt.Errorf("form %#x, %d bytes: %w", value[0], len(value), errPosting)
	}
	return e, nil
}

func encodedView(form byte, raw []byte) (view, bool) {
	switch form {
	case formNone:
		return view{}, len(raw) == 0
	case formArray:
		n := len(raw) / 2
		return view{count: n, raw: raw}, len(raw)%2 == 0 && n > 0 && n <= arrayMax
	case formBitmap:
		return view{dense: true, raw: raw}, len(raw) == bitmapBytes
	}
	return view{}, false
}

// isEmptyPosting reports whether a row neither adds nor removes anything.
func isEmptyPosting(value []byte) bool { return len(value) == 1 && value[0] == formNone }

// appendPosting appends the value for two disjoint sets.
func appendPosting(dst []byte, added, removed *view) []byte {
	addSize, removeSize := added.size(), removed.size()
	addForm, removeForm := formFor(addSize), formFor(removeSize)
	dst = append(dst, addForm|removeForm<<4)
	if addForm == formArray && removeForm != formNone {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(addSize))
	}
	dst = appendView(dst, added, addForm)
	return appendView(dst, removed, removeForm)
}

func formFor(size int) byte {
	switch {
	case size == 0:
		return formNone
	case size <= arrayMax:
		return formArray
	}
	return formBitmap
}

func appendView(dst []byte, v *view, form byte) []byte {
	switch {
	case form == formNone:
		return dst
	case form == formBitmap && v.dense:
		for i := range chunkWords {
			dst = binary.LittleEndian.AppendUint64(dst, v.word(i))
		}
	case form == formArray && v.dense:
		for i := range chunkWords {
			for w := v.word(i); w != 0; w &= w - 1 {
				dst = binary.LittleEndian.AppendUint16(dst, uint16(i<<6|bits.TrailingZeros64(w)))
			}
		}
	case form == formArray:
		for i := range v.count {
			dst = binary.LittleEndian.AppendUint16(dst, v.at(i))
		}
	default:
		panic("storage: an array is above its largest size")
	}
	return dst
}
