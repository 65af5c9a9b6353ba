package partition

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// A document row is a header and the JSON that the user wrote, less system
// properties. docs/formats/document.md has the layout.
const (
	documentVersion = 1

	flagTTL     = 1 // the document has its own time to live, after the key
	flagInclude = 2 // it was written with the directive Include
	flagExclude = 4 // it was written with the directive Exclude
	flagsKnown  = flagTTL | flagInclude | flagExclude
	ttlBytes    = 4

	offFlags = 1

	offNumber  = 2
	offLSN     = 10
	offOrdinal = 18
	offSeq     = 21
	offTS      = 25
	offETag    = 33
	offEPKSize = 49
	offKeySize = 50
	offKey     = 52
)

// etagBytes is the width of an etag.
const etagBytes = 16

// keyBytesMax is the greatest length of a key that a row can have. The limits of
// its components keep every key far below it.
const keyBytesMax = 1<<16 - 1

// errDocument is the error of a document row that cannot be read.
var errDocument = errors.New("damaged document row")

// Directive says whether a document is in the index. Each write sets it. Reads,
// lists and queries that read all documents find a document that is not in the
// index; a filter that the index answers does not.
type Directive uint8

// The directives.
const (
	ByPolicy Directive = iota // unless the policy's Automatic is off, as it is now
	Include                   // in any case
	Exclude                   // in no case
)

// document is a decoded document row. It shares the bytes of the row.
type document struct {
	version
	etag    [etagBytes]byte
	epkSize int
	key     []byte    // the full partition key in canonical form
	ttl     int32     // its own time to live in seconds, -1 for never; zero if it has none
	asked   Directive // that it was written with
	body    []byte    // JSON object without system properties, never empty
}

// version identifies a document, and one version of it.
type version struct {
	number  uint64       // the document number
	lsn     resource.LSN // of the effect that wrote it
	ordinal uint32       // of the partition that wrote it
	seq     uint32       // position in the effect
	ts      int64        // seconds since 1970
}

// newDocumentRow returns a row with the body of doc and those parts of the header
// that are known before the writer evaluates the request. Stamp adds the others.
func newDocumentRow(epkSize int, key []byte, doc value.Value) []byte {
	const bodyGuess = 1 << 10
	row := make([]byte, offKey, offKey+len(key)+bodyGuess)
	row[0] = documentVersion
	row[offEPKSize] = byte(epkSize)
	binary.BigEndian.PutUint16(row[offKeySize:], uint16(len(key)))
	row = append(row, key...)
	if ttl, _ := ttlOf(doc); ttl != 0 {
		row[offFlags] = flagTTL
		row = binary.BigEndian.AppendUint32(row, uint32(ttl))
	}
	return doc.Append(row)
}

// stamp writes the version, with a new etag, into the header of a row.
func stamp(row []byte, v version) {
	binary.BigEndian.PutUint64(row[offNumber:], v.number)
	binary.BigEndian.PutUint64(row[offLSN:], uint64(v.lsn))
	row[offOrdinal] = byte(v.ordinal >> 16)
	row[offOrdinal+1] = byte(v.ordinal >> 8)
	row[offOrdinal+2] = byte(v.ordinal)
	binary.BigEndian.PutUint32(row[offSeq:], v.seq)
	binary.BigEndian.PutUint64(row[offTS:], uint64(v.ts))
	etag := v.newETag()
	copy(row[offETag:], etag[:])
}

// newETag returns the etag of a version. LSN, ordinal and position in the effect
// identify one version in the whole container; the time tells it from one of a
// container that was restored.
func (v version) newETag() (etag [etagBytes]byte) {
	binary.BigEndian.PutUint32(etag[0:], uint32(v.lsn))
	binary.BigEndian.PutUint16(etag[4:], uint16(v.lsn>>32))
	binary.BigEndian.PutUint16(etag[6:], uint16(v.lsn>>48))
	binary.BigEndian.PutUint32(etag[8:], v.ordinal<<12|v.seq&0xFFF)
	binary.BigEndian.PutUint32(etag[12:], uint32(v.ts))
	return etag
}

// restamp replaces the time in a row. The etag stays the same, because clients have
// it.
func restamp(row []byte, ts int64) {
	binary.BigEndian.PutUint64(row[offTS:], uint64(ts))
}

// bodyOf returns the body in a row of newDocumentRow, or in one that can be decoded.
func bodyOf(row []byte) []byte { return row[bodyOffset(row):] }

// bodyOffset returns where the body of a row begins.
func bodyOffset(row []byte) int {
	at := offKey + int(binary.BigEndian.Uint16(row[offKeySize:]))
	if row[offFlags]&flagTTL != 0 {
		at += ttlBytes
	}
	return at
}

// directiveOf returns the directive of the document in a row.
func directiveOf(row []byte) Directive {
	switch {
	case row[offFlags]&flagExclude != 0:
		return Exclude
	case row[offFlags]&flagInclude != 0:
		return Include
	}
	return ByPolicy
}

// direct sets the directive in a new row.
func direct(row []byte, d Directive) {
	switch d {
	case Exclude:
		row[offFlags] |= flagExclude
	case Include:
		row[offFlags] |= flagInclude
	}
}

// decodeDocument decodes a row. The document shares its bytes.
func decodeDocument(row []byte) (document, error) {
	// A body has an id at least, so system properties can follow a comma.
	if len(row) < offKey || bodyOffset(row)+len(`{"id":"x"}`) > len(row) {
		return document{}, fmt.Errorf("%d bytes: %w", len(row), errDocument)
	}
	if row[0] != documentVersion || row[offFlags]&^flagsKnown != 0 {
		return document{}, fmt.Errorf("format %d with flags %d, which this release does not know: %w", row[0], row[offFlags], errDocument)
	}
	start := bodyOffset(row)
	keyEnd := offKey + int(binary.BigEndian.Uint16(row[offKeySize:]))
	d := document{
		version: version{
			number:  binary.BigEndian.Uint64(row[offNumber:]),
			lsn:     resource.LSN(binary.BigEndian.Uint64(row[offLSN:])),
			ordinal: uint32(row[offOrdinal])<<16 | uint32(row[offOrdinal+1])<<8 | uint32(row[offOrdinal+2]),
			seq:     binary.BigEndian.Uint32(row[offSeq:]),
			ts:      int64(binary.BigEndian.Uint64(row[offTS:])),
		},
		etag:    [etagBytes]byte(row[offETag:]),
		epkSize: int(row[offEPKSize]),
		key:     row[offKey:keyEnd:keyEnd],
		asked:   directiveOf(row),
		body:    row[start:],
	}
	if row[offFlags]&flagTTL != 0 {
		d.ttl = int32(binary.BigEndian.Uint32(row[keyEnd:]))
	}
	if d.body[0] != '{' || d.body[len(d.body)-1] != '}' {
		return document{}, fmt.Errorf("the body is no object: %w", errDocument)
	}
	return d, nil
}

// etagText is the form of an etag that clients see, with quotes: 8-4-4-4-12 digits.
const etagText = `"00000000-0000-0000-0000-000000000000"`

// appendETag appends the text of an etag without its quotes.
func appendETag(dst []byte, etag [etagBytes]byte) []byte {
	dst = hex.AppendEncode(dst, etag[0:4])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, etag[4:6])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, etag[6:8])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, etag[8:10])
	dst = append(dst, '-')
	return hex.AppendEncode(dst, etag[10:16])
}

// etagOf returns an etag in the form that clients see.
func etagOf(etag [etagBytes]byte) resource.ETag {
	var room [len(etagText)]byte
	text := append(room[:0], '"')
	text = appendETag(text, etag)
	return resource.ETag(append(text, '"'))
}

// matches reports whether the document has the etag of a request.
func (d *document) matches(etag resource.ETag) bool {
	var room [len(etagText)]byte
	text := append(room[:0], '"')
	text = append(appendETag(text, d.etag), '"')
	return string(etag) == string(text)
}

// systemProperties are the properties that the database adds to a document when it
// is read, and drops from one that is written.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts"}

// The texts around the system properties, which follow the user's own properties in
// the order of the service.
const (
	textRID  = `,"_rid":"`
	textSelf = `","_self":"`
	textETag = `/","_etag":"\"`

	// textAttachments is the text between the etag and the time.
	textAttachments = `\"","_attachments":"attachments/","_ts":`
)

const ridChars = 24 // length of the text of a document's RID

// renderer adds the system properties to the stored bodies of one container.
type renderer struct {
	container resource.RID
	docs      string // the _self link up to the RID of the document
}

// newRenderer returns the renderer of a container.
func newRenderer(container resource.RID) renderer {
	return renderer{container: container, docs: string(container.AppendSelf(nil)) + "docs/"}
}

// size returns the length of the complete JSON of a document.
func (r *renderer) size(bodySize int, ts int64) int {
	var room [20]byte
	digits := len(strconv.AppendInt(room[:0], ts, 10))
	return bodySize + len(textRID) + ridChars + len(textSelf) + len(r.docs) + ridChars +
		len(textETag) + len(etagText) - 2 + len(textAttachments) + digits
}

// append appends the complete JSON of a document: its body with the system
// properties at the end. It parses nothing.
func (r *renderer) append(dst []byte, d *document) []byte {
	var raw [16]byte
	copy(raw[:], r.container)
	binary.LittleEndian.PutUint64(raw[8:], d.number)

	dst = append(dst, d.body[:len(d.body)-1]...)
	dst = append(dst, textRID...)
	ridStart := len(dst)
	dst = resource.RID(raw[:]).AppendText(dst)
	rid := dst[ridStart:]
	dst = append(dst, textSelf...)
	dst = append(dst, r.docs...)
	dst = append(dst, rid...)
	dst = append(dst, textETag...)
	dst = appendETag(dst, d.etag)
	dst = append(dst, textAttachments...)
	dst = strconv.AppendInt(dst, d.ts, 10)
	return append(dst, '}')
}

// complete returns the complete JSON of a document, in one allocation.
func (r *renderer) complete(d *document) []byte {
	return r.append(make([]byte, 0, r.size(len(d.body), d.ts)), d)
}
