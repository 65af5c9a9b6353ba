package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Family is the first byte of a row's key: the kind of the row. The list is closed; a
// store with any other family was written by a newer release.
type Family byte

// The row families. Numbers in keys are big-endian, so the order of bytes is the order
// of numbers.
//
//	'd' epk pkh item              -> the document
//	'r' number(8)                 -> epk pkh item: where the document is
//	't' term chunk(6)             -> posting list of an index term
//	'l' level(1) prefix chunk(6)  -> posting list of a key prefix
//	'f' lsn(8) ordinal(3) seq(4)  -> feed entry: one for each live document
//	'u' epk pkh key(1) values(16) -> number: the document with these values of a unique key
//	'v' lsn(8) ordinal(3) seq(4)  -> complete feed: every version, deletions included
//	'x' expiry(8) number(8)       -> expiry queue
//	'q' epk pkh                   -> size and count of a logical partition
//	'm' name                      -> a single value
//	'n' path(8) number(8)         -> a document's vector
//
// epk is the hashed key, as wide as the key definition makes it. pkh is a second hash of
// the whole key, 8 bytes.
const (
	FamilyDocument Family = 'd'
	FamilyFeed     Family = 'f'
	FamilyPrefix   Family = 'l'
	FamilyMeta     Family = 'm'
	FamilyVector   Family = 'n'
	FamilyLogical  Family = 'q'
	FamilyRID      Family = 'r'
	FamilyTerm     Family = 't'
	FamilyUnique   Family = 'u'
	FamilyComplete Family = 'v'
	FamilyExpiry   Family = 'x'
)

// families lists all of them in key order.
var families = [...]Family{FamilyDocument, FamilyFeed, FamilyPrefix, FamilyMeta, FamilyVector, FamilyLogical, FamilyRID, FamilyTerm, FamilyUnique, FamilyComplete, FamilyExpiry}

// Widths in bytes of the parts of keys.
const (
	HashBytes     = 8  // the second hash of a key, pkh
	NumberBytes   = 8  // a document number
	PathBytes     = 8  // the id of a path
	ValuesBytes   = 16 // a hash of the values of a unique key
	OrdinalBytes  = 3  // the ordinal of a partition
	SequenceBytes = 4  // the index of a document in its effect
	chunkBytes    = 6  // the upper 48 bits of a document number
)

// errKey says that a key has another family or width: the store is damaged, or the
// caller confused its rows.
var errKey = errors.New("not a key of this family")

// FamilyOf returns the family of a key, and false if the key has none.
func FamilyOf(key []byte) (Family, bool) {
	if len(key) == 0 {
		return 0, false
	}
	for _, f := range families {
		if key[0] == byte(f) {
			return f, true
		}
	}
	return 0, false
}

// Bounds returns the range of all keys of the family: low inclusive, high exclusive.
func (f Family) Bounds() (low, high []byte) {
	return []byte{byte(f)}, []byte{byte(f) + 1}
}

// String returns the family's letter.
func (f Family) String() string { return string(rune(f)) }

// DocumentKey appends the key of a document to dst. item is its id, or what orders it
// within its logical partition. The parts have no separators: a reader knows the width
// of epk from the container's definition.
func DocumentKey[K, I ~string | ~[]byte](dst []byte, epk K, hash uint64, item I) []byte {
	dst = append(dst, byte(FamilyDocument))
	dst = append(dst, epk...)
	dst = binary.BigEndian.AppendUint64(dst, hash)
	return append(dst, item...)
}

// DocumentSuffix returns a document's key without the family, which is the value of an
// 'r' row. It shares key's bytes.
func DocumentSuffix(key []byte) ([]byte, error) {
	if len(key) < 1+HashBytes || key[0] != byte(FamilyDocument) {
		return nil, fmt.Errorf("document key %x: %w", key, errKey)
	}
	return key[1:], nil
}

// DocumentKeyOf appends the document key with the given suffix.
func DocumentKeyOf(dst, suffix []byte) []byte {
	dst = append(dst, byte(FamilyDocument))
	return append(dst, suffix...)
}

// DecodeDocumentKey splits a document key, given the width of its epk in bytes. The
// results share key's bytes.
func DecodeDocumentKey(key []byte, epkBytes int) (epk []byte, hash uint64, item []byte, err error) {
	if len(key) < 1+epkBytes+HashBytes || key[0] != byte(FamilyDocument) {
		return nil, 0, nil, fmt.Errorf("document key %x: %w", key, errKey)
	}
	epk, rest := key[1:1+epkBytes], key[1+epkBytes:]
	return epk, binary.BigEndian.Uint64(rest), rest[HashBytes:], nil
}

// DocumentBounds returns the range of the keys of documents whose epk is in [min, max).
func DocumentBounds[K ~string | ~[]byte](min, max K) (low, high []byte) {
	return familyRange(FamilyDocument, min, max)
}

// LogicalBounds returns the range of the 'q' keys whose epk is in [min, max).
func LogicalBounds[K ~string | ~[]byte](min, max K) (low, high []byte) {
	return familyRange(FamilyLogical, min, max)
}

func familyRange[K ~string | ~[]byte](f Family, min, max K) (low, high []byte) {
	low = append([]byte{byte(f)}, min...)
	high = append([]byte{byte(f)}, max...)
	return low, high
}

// RIDKey appends the key of the row that locates the document with this number.
func RIDKey(dst []byte, number uint64) []byte {
	dst = append(dst, byte(FamilyRID))
	return binary.BigEndian.AppendUint64(dst, number)
}

// DecodeRIDKey returns the document number of an 'r' key.
func DecodeRIDKey(key []byte) (number uint64, err error) {
	if len(key) != 1+NumberBytes || key[0] != byte(FamilyRID) {
		return 0, fmt.Errorf("number key %x: %w", key, errKey)
	}
	return binary.BigEndian.Uint64(key[1:]), nil
}

// TermKey appends the key of an index term's posting list, without a chunk, for
// functions such as [Batch.AddPosting] and [Snapshot.Postings]. No term may be a prefix
// of another.
func TermKey[T ~string | ~[]byte](dst []byte, term T) []byte {
	dst = append(dst, byte(FamilyTerm))
	return append(dst, term...)
}

// DecodeTermKey returns the term of a posting list's key without a chunk, such as
// [Lists.Key] returns. It shares key's bytes.
func DecodeTermKey(key []byte) (term []byte, err error) {
	if len(key) < 2 || key[0] != byte(FamilyTerm) {
		return nil, fmt.Errorf("term key %x: %w", key, errKey)
	}
	return key[1:], nil
}

// PrefixKey appends the key of the posting list of the documents under the first levels
// of a hierarchical key, without a chunk. level counts from one, and epk contains the
// levels up to it.
func PrefixKey[K ~string | ~[]byte](dst []byte, level int, epk K) []byte {
	dst = append(dst, byte(FamilyPrefix), byte(level))
	return append(dst, epk...)
}

// DecodePrefixKey splits the key of a prefix's posting list without a chunk, such as
// [Lists.Key] returns. epk shares key's bytes.
func DecodePrefixKey(key []byte) (level int, epk []byte, err error) {
	if len(key) < 3 || key[0] != byte(FamilyPrefix) {
		return 0, nil, fmt.Errorf("prefix key %x: %w", key, errKey)
	}
	return int(key[1]), key[2:], nil
}

// FeedKey appends the key of a feed entry. ordinal has 20 bits.
func FeedKey(dst []byte, lsn uint64, ordinal uint32, seq uint32) []byte {
	return appendVersion(append(dst, byte(FamilyFeed)), lsn, ordinal, seq)
}

// appendVersion appends the identity of one version of a document.
func appendVersion(dst []byte, lsn uint64, ordinal uint32, seq uint32) []byte {
	dst = binary.BigEndian.AppendUint64(dst, lsn)
	dst = append(dst, byte(ordinal>>16), byte(ordinal>>8), byte(ordinal))
	return binary.BigEndian.AppendUint32(dst, seq)
}

// DecodeFeedKey splits a feed key.
func DecodeFeedKey(key []byte) (lsn uint64, ordinal, seq uint32, err error) {
	return decodeVersion(FamilyFeed, key)
}

func decodeVersion(f Family, key []byte) (lsn uint64, ordinal, seq uint32, err error) {
	if len(key) != 1+8+OrdinalBytes+SequenceBytes || key[0] != byte(f) {
		return 0, 0, 0, fmt.Errorf("feed key %x: %w", key, errKey)
	}
	lsn = binary.BigEndian.Uint64(key[1:])
	ordinal = uint32(key[9])<<16 | uint32(key[10])<<8 | uint32(key[11])
	return lsn, ordinal, binary.BigEndian.Uint32(key[12:]), nil
}

// FeedBounds returns the range of the feed keys with from <= lsn <= to.
func FeedBounds(from, to uint64) (low, high []byte) {
	low = binary.BigEndian.AppendUint64([]byte{byte(FamilyFeed)}, from)
	if to == ^uint64(0) {
		return low, []byte{byte(FamilyFeed) + 1}
	}
	return low, binary.BigEndian.AppendUint64([]byte{byte(FamilyFeed)}, to+1)
}

// CompleteKey appends the key of an entry of the complete feed. ordinal has 20
// bits.
func CompleteKey(dst []byte, lsn uint64, ordinal uint32, seq uint32) []byte {
	return appendVersion(append(dst, byte(FamilyComplete)), lsn, ordinal, seq)
}

// DecodeCompleteKey splits the key of an entry of the complete feed.
func DecodeCompleteKey(key []byte) (lsn uint64, ordinal, seq uint32, err error) {
	return decodeVersion(FamilyComplete, key)
}

// CompleteBounds returns the range of the keys of the complete feed with from <= lsn.
func CompleteBounds(from uint64) (low, high []byte) {
	return binary.BigEndian.AppendUint64([]byte{byte(FamilyComplete)}, from), []byte{byte(FamilyComplete) + 1}
}

// ExpiryKey appends the key of an entry of the expiry queue. expiry is in
// seconds since 1970 and not negative.
func ExpiryKey(dst []byte, expiry uint64, number uint64) []byte {
	dst = append(dst, byte(FamilyExpiry))
	dst = binary.BigEndian.AppendUint64(dst, expiry)
	return binary.BigEndian.AppendUint64(dst, number)
}

// DecodeExpiryKey splits an expiry key.
func DecodeExpiryKey(key []byte) (expiry, number uint64, err error) {
	if len(key) != 1+8+NumberBytes || key[0] != byte(FamilyExpiry) {
		return 0, 0, fmt.Errorf("expiry key %x: %w", key, errKey)
	}
	return binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:]), nil
}

// LogicalKey appends the key of a logical partition's totals.
func LogicalKey[K ~string | ~[]byte](dst []byte, epk K, hash uint64) []byte {
	dst = append(dst, byte(FamilyLogical))
	dst = append(dst, epk...)
	return binary.BigEndian.AppendUint64(dst, hash)
}

// DecodeLogicalKey splits a 'q' key. epk shares key's bytes.
func DecodeLogicalKey(key []byte) (epk []byte, hash uint64, err error) {
	if len(key) < 1+HashBytes || key[0] != byte(FamilyLogical) {
		return nil, 0, fmt.Errorf("logical partition key %x: %w", key, errKey)
	}
	cut := len(key) - HashBytes
	return key[1:cut], binary.BigEndian.Uint64(key[cut:]), nil
}

// UniqueKey appends the key of the row that names the document with these values of a
// unique key. key counts from zero and is below 256; values is a hash of ValuesBytes.
func UniqueKey[K ~string | ~[]byte](dst []byte, epk K, hash uint64, key int, values []byte) []byte {
	dst = append(dst, byte(FamilyUnique))
	dst = append(dst, epk...)
	dst = binary.BigEndian.AppendUint64(dst, hash)
	dst = append(dst, byte(key))
	return append(dst, values...)
}

// DecodeUniqueKey splits a 'u' key. epk and values share row's bytes.
func DecodeUniqueKey(row []byte) (epk []byte, hash uint64, key int, values []byte, err error) {
	const after = HashBytes + 1 + ValuesBytes
	if len(row) < 1+after || row[0] != byte(FamilyUnique) {
		return nil, 0, 0, nil, fmt.Errorf("unique key %x: %w", row, errKey)
	}
	epk, rest := row[1:len(row)-after], row[len(row)-after:]
	return epk, binary.BigEndian.Uint64(rest), int(rest[HashBytes]), rest[HashBytes+1:], nil
}

// MetaKey appends the key of the row with this name. The package that owns the store
// chooses the names.
func MetaKey[N ~string | ~[]byte](dst []byte, name N) []byte {
	dst = append(dst, byte(FamilyMeta))
	return append(dst, name...)
}

// DecodeMetaKey returns the name of an 'm' row. It shares key's bytes.
func DecodeMetaKey(key []byte) (name []byte, err error) {
	if len(key) < 1 || key[0] != byte(FamilyMeta) {
		return nil, fmt.Errorf("meta key %x: %w", key, errKey)
	}
	return key[1:], nil
}

// VectorKey appends the key of the vector that a document has at a path. path is the
// 8-byte id of the path.
func VectorKey[P ~string | ~[]byte](dst []byte, path P, number uint64) []byte {
	dst = append(dst, byte(FamilyVector))
	dst = append(dst, path...)
	return binary.BigEndian.AppendUint64(dst, number)
}

// DecodeVectorKey splits the key of a vector. path shares key's bytes.
func DecodeVectorKey(key []byte) (path []byte, number uint64, err error) {
	if len(key) != 1+PathBytes+NumberBytes || key[0] != byte(FamilyVector) {
		return nil, 0, fmt.Errorf("vector key %x: %w", key, errKey)
	}
	return key[1 : 1+PathBytes], binary.BigEndian.Uint64(key[1+PathBytes:]), nil
}

// VectorBounds returns the range of the keys of the vectors at a path, ordered by
// document number.
func VectorBounds[P ~string | ~[]byte](path P) (low, high []byte) {
	low = append([]byte{byte(FamilyVector)}, path...)
	return low, successor(low)
}

// appendChunk appends the chunk of a document number, which ends the key of each row of
// a posting list.
func appendChunk(dst []byte, chunk uint64) []byte {
	return append(dst, byte(chunk>>40), byte(chunk>>32), byte(chunk>>24), byte(chunk>>16), byte(chunk>>8), byte(chunk))
}

// cutChunk splits the key of a posting row.
func cutChunk(key []byte) (list []byte, chunk uint64, err error) {
	cut := len(key) - chunkBytes
	if cut < 1 {
		return nil, 0, fmt.Errorf("posting key %x: %w", key, errKey)
	}
	k := key[cut:]
	return key[:cut], uint64(k[0])<<40 | uint64(k[1])<<32 | uint64(k[2])<<24 | uint64(k[3])<<16 | uint64(k[4])<<8 | uint64(k[5]), nil
}
