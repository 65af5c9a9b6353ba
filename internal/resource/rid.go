package resource

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/decandb/decan/internal/status"
)

// RID is a resource id: raw bytes whose layout says what it names and in which
// container and database that is. Clients use its prefixes, compare its numbers
// and sign it, so the layout is part of the protocol. The zero value names
// nothing.
//
//	database   4 bytes, most significant first
//	container  database, then 4 bytes, most significant first, of which the first has bit 0x80 set
//	user       database, then 4 bytes of which the first has bit 0x80 clear
//	document   container, then the document number as 8 bytes, least significant first
//	offer      3 bytes
//
// The highest four bits of a child's 8-byte number are its type: zero for a
// document, five for a partition.
type RID string

// The lengths of the layouts, in bytes.
const (
	offerBytes     = 3
	databaseBytes  = 4
	containerBytes = 8
	childBytes     = 16
)

const (
	containerBit     = 0x80
	partitionType    = 5
	typeShift        = 60
	numberMask       = 1<<typeShift - 1
	containerNumbers = 1 << 31
	offerNumbers     = 1 << 24
)

// ridText is base64 with '-' instead of '/', so that a RID can be part of a URL
// path. It is strict, so a RID has only one text.
var ridText = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-").Strict()

// DatabaseRID returns the RID of the database with that number. Numbers begin
// with 1: clients treat database number zero as "no database".
func DatabaseRID(n uint32) RID {
	return RID(binary.BigEndian.AppendUint32(nil, n))
}

// ContainerRID returns the RID of the database's container with that number,
// which must be below 2^31.
func ContainerRID(db RID, n uint32) RID {
	if len(db) != databaseBytes || n >= containerNumbers {
		panic(fmt.Sprintf("resource: container %d of %q", n, db))
	}
	var b [containerBytes]byte
	copy(b[:], db)
	binary.BigEndian.PutUint32(b[databaseBytes:], n)
	b[databaseBytes] |= containerBit
	return RID(b[:])
}

// DocumentRID returns the RID of the container's document with that number. See
// [NewNumber].
func DocumentRID(container RID, number uint64) RID {
	return childRID(container, number, 0)
}

// PartitionRID returns the RID of a partition of the container.
func PartitionRID(container RID, id PartitionID) RID {
	return childRID(container, uint64(id), partitionType)
}

func childRID(container RID, number, kind uint64) RID {
	if !container.IsContainer() || number > numberMask {
		panic(fmt.Sprintf("resource: child %d of %q", number, container))
	}
	var b [childBytes]byte
	copy(b[:], container)
	binary.LittleEndian.PutUint64(b[containerBytes:], number|kind<<typeShift)
	return RID(b[:])
}

// OfferRID returns the RID of the offer with that number, which is below 2^24.
func OfferRID(n uint32) RID {
	if n >= offerNumbers {
		panic(fmt.Sprintf("resource: offer %d", n))
	}
	return RID([]byte{byte(n >> 16), byte(n >> 8), byte(n)})
}

// ParseRID parses the text of a RID. The error is status 400 if it does not have
// the length of an offer, a database, a container or user, or a child of one.
func ParseRID(text string) (RID, error) {
	var room [childBytes + 2]byte // Decode may write up to two bytes of padding
	n := 0
	err := error(nil)
	if len(text) <= ridText.EncodedLen(childBytes) {
		n, err = ridText.Decode(room[:], []byte(text))
	}
	if err == nil {
		switch n {
		case offerBytes, databaseBytes, containerBytes, childBytes:
			// The decoder skips line breaks, but a RID has only one text.
			if len(text) == ridText.EncodedLen(n) {
				return RID(room[:n]), nil
			}
		}
	}
	return "", status.BadRequest("%q is not a resource id.", clip(text))
}

// String returns the text that clients see: base64 with '-' instead of '/'.
func (r RID) String() string { return string(r.AppendText(nil)) }

// AppendText appends the text that clients see to dst.
func (r RID) AppendText(dst []byte) []byte {
	var room [childBytes]byte
	return ridText.AppendEncode(dst, room[:copy(room[:], r)])
}

// MarshalText returns the text that clients see. It never fails.
func (r RID) MarshalText() ([]byte, error) { return r.AppendText(nil), nil }

// UnmarshalText parses the text with [ParseRID]. The empty text is the zero
// value.
func (r *RID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*r = ""
		return nil
	}
	parsed, err := ParseRID(string(text))
	if err != nil {
		return err
	}
	*r = parsed
	return nil
}

// Numbers returns the arguments of DatabaseRID and ContainerRID for the
// container that r names. It panics for any other RID.
func (r RID) Numbers() (database, container uint32) {
	if !r.IsContainer() {
		panic(fmt.Sprintf("resource: numbers of %q", r))
	}
	b := []byte(r)
	return binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[databaseBytes:]) &^ containerNumbers
}

// IsOffer reports whether r names an offer.
func (r RID) IsOffer() bool { return len(r) == offerBytes }

// IsDatabase reports whether r names a database.
func (r RID) IsDatabase() bool { return len(r) == databaseBytes }

// IsContainer reports whether r names a container.
func (r RID) IsContainer() bool {
	return len(r) == containerBytes && r[databaseBytes]&containerBit != 0
}

// IsDocument reports whether r names a document.
func (r RID) IsDocument() bool { return r.isChild(0) }

// IsPartition reports whether r names a partition.
func (r RID) IsPartition() bool { return r.isChild(partitionType) }

func (r RID) isChild(kind byte) bool {
	return len(r) == childBytes && r[databaseBytes]&containerBit != 0 && r[childBytes-1]>>4 == kind
}

// Database returns the RID of the database that r is or belongs to, and the zero
// value for an offer.
func (r RID) Database() RID {
	if len(r) < databaseBytes {
		return ""
	}
	return r[:databaseBytes]
}

// Container returns the RID of the container that r is or belongs to, and the
// zero value if there is none.
func (r RID) Container() RID {
	if len(r) < containerBytes || r[databaseBytes]&containerBit == 0 {
		return ""
	}
	return r[:containerBytes]
}

// Number returns the number of a document or partition inside its container,
// and zero for every other RID.
func (r RID) Number() uint64 {
	if len(r) != childBytes {
		return 0
	}
	return binary.LittleEndian.Uint64([]byte(r[containerBytes:])) & numberMask
}

// counterBits is the width of the counter in a document number; counter and
// ordinal together leave the four bits of the type free.
const (
	counterBits = 40
	ordinalBits = typeShift - counterBits

	// OrdinalMax is the highest ordinal of a partition.
	OrdinalMax = 1<<ordinalBits - 1
)

// NewNumber returns the number of the counter-th document (40 bits) of a
// partition with that ordinal (20 bits). A partition that has assigned 2^40
// numbers can accept no new documents; at a thousand per second that takes 34
// years.
func NewNumber(ordinal uint32, counter uint64) uint64 {
	return uint64(ordinal)<<counterBits | counter
}

// AppendSelf appends the _self link of a database, container, document,
// partition or offer: the RIDs from the outermost inwards. The zero value has no
// link and appends nothing. AppendSelf panics for any other RID.
func (r RID) AppendSelf(dst []byte) []byte {
	if r == "" {
		return dst
	}
	if r.IsOffer() {
		return appendLink(dst, "offers/", r)
	}
	dst = appendLink(dst, "dbs/", r.Database())
	if r.IsDatabase() {
		return dst
	}
	dst = appendLink(dst, "colls/", r.Container())
	switch {
	case r.IsContainer():
		return dst
	case r.IsDocument():
		return appendLink(dst, "docs/", r)
	case r.IsPartition():
		return appendLink(dst, "pkranges/", r)
	}
	panic(fmt.Sprintf("resource: link to %q", string(r)))
}

func appendLink(dst []byte, feed string, r RID) []byte {
	dst = append(dst, feed...)
	dst = r.AppendText(dst)
	return append(dst, '/')
}

func (r RID) self() string { return string(r.AppendSelf(nil)) }
