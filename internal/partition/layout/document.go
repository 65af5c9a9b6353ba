package layout

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

	flagTTL     = 1  // the document has its own time to live, after the key
	flagInclude = 2  // directive Include
	flagExclude = 4  // directive Exclude
	flagRow     = 8  // an item of a table: the body is not JSON
	flagWhole   = 16 // an item of a table that expires as a whole
	flagsKnown  = flagTTL | flagInclude | flagExclude | flagRow | flagWhole
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

// KeyBytesMax is the greatest length of a key that a row can have. The limits of
// its components keep every key far below it.
const KeyBytesMax = 1<<16 - 1

// ErrDocument is the error of a document row that cannot be read.
var ErrDocument = errors.New("damaged document row")

// Directive is the indexing directive with which an earlier version of this program
// wrote a document. Its indexes lack documents: those with Exclude, and those without
// Include if the policy's Automatic is off. Directives have no effect on the index now,
// and are not recorded.
type Directive uint8

// The directives.
const (
	ByPolicy Directive = iota
	Include
	Exclude
)

// Document is a decoded document row. It shares the bytes of the row.
type Document struct {
	Version
	ETag      [etagBytes]byte
	EPKSize   int
	Key       []byte    // the full partition key in canonical form
	TTL       int32     // its own time to live in seconds, -1 for never; zero if it has none
	Directive Directive // ByPolicy unless an earlier version wrote the document
	Item      bool      // an item of a table, whose Body package row encodes
	Whole     bool      // an item that is hidden from the end of its time to live
	Body      []byte    // JSON object without system properties, or what Item says; never empty
}

// Version identifies a document, and one version of it.
type Version struct {
	Number  uint64       // the document number
	LSN     resource.LSN // of the effect that wrote it
	Ordinal uint32       // of the partition that wrote it
	Seq     uint32       // position in the effect
	TS      int64        // seconds since 1970
}

// NewDocumentRow returns a row with the body of doc and those parts of the header
// that are known before the writer evaluates the request. Stamp adds the others.
func NewDocumentRow(epkSize int, key []byte, doc value.Value) []byte {
	const bodyGuess = 1 << 10
	row := make([]byte, offKey, offKey+len(key)+bodyGuess)
	row[0] = documentVersion
	row[offEPKSize] = byte(epkSize)
	binary.BigEndian.PutUint16(row[offKeySize:], uint16(len(key)))
	row = append(row, key...)
	if ttl, _ := TTLOf(doc); ttl != 0 {
		row[offFlags] = flagTTL
		row = binary.BigEndian.AppendUint32(row, uint32(ttl))
	}
	return doc.Append(row)
}

// NewItemRow returns a row with an item of a table. ttl is its time to live in seconds,
// zero if it has none; whole says that the item is hidden from its end. Stamp adds what
// only the writer knows.
func NewItemRow(epkSize int, key, body []byte, ttl int32, whole bool) []byte {
	row := make([]byte, offKey, offKey+len(key)+ttlBytes+len(body))
	row[0] = documentVersion
	if row[offFlags] = flagRow; whole {
		row[offFlags] |= flagWhole
	}
	row[offEPKSize] = byte(epkSize)
	binary.BigEndian.PutUint16(row[offKeySize:], uint16(len(key)))
	row = append(row, key...)
	if ttl != 0 {
		row[offFlags] |= flagTTL
		row = binary.BigEndian.AppendUint32(row, uint32(ttl))
	}
	return append(row, body...)
}

// Stamp writes the version, with a new etag, into the header of a row.
func Stamp(row []byte, v Version) {
	binary.BigEndian.PutUint64(row[offNumber:], v.Number)
	binary.BigEndian.PutUint64(row[offLSN:], uint64(v.LSN))
	row[offOrdinal] = byte(v.Ordinal >> 16)
	row[offOrdinal+1] = byte(v.Ordinal >> 8)
	row[offOrdinal+2] = byte(v.Ordinal)
	binary.BigEndian.PutUint32(row[offSeq:], v.Seq)
	binary.BigEndian.PutUint64(row[offTS:], uint64(v.TS))
	etag := v.NewETag()
	copy(row[offETag:], etag[:])
}

// NewETag returns the etag of a version. LSN, ordinal and position in the effect
// identify one version in the whole container; the time tells it from one of a
// container that was restored.
func (v Version) NewETag() (etag [etagBytes]byte) {
	binary.BigEndian.PutUint32(etag[0:], uint32(v.LSN))
	binary.BigEndian.PutUint16(etag[4:], uint16(v.LSN>>32))
	binary.BigEndian.PutUint16(etag[6:], uint16(v.LSN>>48))
	binary.BigEndian.PutUint32(etag[8:], v.Ordinal<<12|v.Seq&0xFFF)
	binary.BigEndian.PutUint32(etag[12:], uint32(v.TS))
	return etag
}

// Restamp replaces the time in a row. The etag stays the same, because clients have
// it.
func Restamp(row []byte, ts int64) {
	binary.BigEndian.PutUint64(row[offTS:], uint64(ts))
}

// BodyOf returns the body in a row of NewDocumentRow, or in one that can be decoded.
func BodyOf(row []byte) []byte { return row[bodyOffset(row):] }

// bodyOffset returns where the body of a row begins.
func bodyOffset(row []byte) int {
	at := offKey + int(binary.BigEndian.Uint16(row[offKeySize:]))
	if row[offFlags]&flagTTL != 0 {
		at += ttlBytes
	}
	return at
}

func directiveOf(row []byte) Directive {
	switch {
	case row[offFlags]&flagExclude != 0:
		return Exclude
	case row[offFlags]&flagInclude != 0:
		return Include
	}
	return ByPolicy
}

// DecodeDocument decodes a row. The document shares its bytes.
func DecodeDocument(row []byte) (Document, error) {
	if len(row) < offKey || bodyOffset(row)+leastBody(row[offFlags]) > len(row) {
		return Document{}, fmt.Errorf("%d bytes: %w", len(row), ErrDocument)
	}
	if row[0] != documentVersion || row[offFlags]&^flagsKnown != 0 {
		return Document{}, fmt.Errorf("format %d with flags %d, which this release does not know: %w", row[0], row[offFlags], ErrDocument)
	}
	start := bodyOffset(row)
	keyEnd := offKey + int(binary.BigEndian.Uint16(row[offKeySize:]))
	d := Document{
		Version: Version{
			Number:  binary.BigEndian.Uint64(row[offNumber:]),
			LSN:     resource.LSN(binary.BigEndian.Uint64(row[offLSN:])),
			Ordinal: uint32(row[offOrdinal])<<16 | uint32(row[offOrdinal+1])<<8 | uint32(row[offOrdinal+2]),
			Seq:     binary.BigEndian.Uint32(row[offSeq:]),
			TS:      int64(binary.BigEndian.Uint64(row[offTS:])),
		},
		ETag:      [etagBytes]byte(row[offETag:]),
		EPKSize:   int(row[offEPKSize]),
		Key:       row[offKey:keyEnd:keyEnd],
		Directive: directiveOf(row),
		Item:      row[offFlags]&flagRow != 0,
		Whole:     row[offFlags]&flagWhole != 0,
		Body:      row[start:],
	}
	if row[offFlags]&flagTTL != 0 {
		d.TTL = int32(binary.BigEndian.Uint32(row[keyEnd:]))
	}
	if !d.Item && (d.Body[0] != '{' || d.Body[len(d.Body)-1] != '}') {
		return Document{}, fmt.Errorf("the body is not an object: %w", ErrDocument)
	}
	return d, nil
}

// leastBody returns the least length of a body, by the flags of its row. A document has
// an id at least, so system properties can follow a comma.
func leastBody(flags byte) int {
	if flags&flagRow != 0 {
		return 1
	}
	return len(`{"id":"x"}`)
}

// ETagText is the form of an etag that clients see, with quotes: 8-4-4-4-12 digits.
const ETagText = `"00000000-0000-0000-0000-000000000000"`

// AppendETag appends the text of an etag without its quotes.
func AppendETag(dst []byte, etag [etagBytes]byte) []byte {
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

// ETagOf returns an etag in the form that clients see.
func ETagOf(etag [etagBytes]byte) resource.ETag {
	var room [len(ETagText)]byte
	text := append(room[:0], '"')
	text = AppendETag(text, etag)
	return resource.ETag(append(text, '"'))
}

// Matches reports whether the document has the etag of a request.
func (d *Document) Matches(etag resource.ETag) bool {
	var room [len(ETagText)]byte
	text := append(room[:0], '"')
	text = append(AppendETag(text, d.ETag), '"')
	return string(etag) == string(text)
}

// SystemProperties are the properties that the database adds to a document when it
// is read, and drops from one that is written.
var SystemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts"}

// The texts around the system properties, which follow the user's own properties in
// the order of the service.
const (
	textRID  = `,"_rid":"`
	textSelf = `","_self":"`
	textETag = `/","_etag":"\"`

	// TextAttachments is the text between the etag and the time.
	TextAttachments = `\"","_attachments":"attachments/","_ts":`
)

const ridChars = 24 // length of the text of a document's RID

// Renderer adds the system properties to the stored bodies of one container.
type Renderer struct {
	container resource.RID
	docs      string // the _self link up to the RID of the document
}

// NewRenderer returns the renderer of a container.
func NewRenderer(container resource.RID) Renderer {
	return Renderer{container: container, docs: string(container.AppendSelf(nil)) + "docs/"}
}

// Size returns the length of the complete JSON of a document.
func (r *Renderer) Size(bodySize int, ts int64) int {
	var room [20]byte
	digits := len(strconv.AppendInt(room[:0], ts, 10))
	return bodySize + len(textRID) + ridChars + len(textSelf) + len(r.docs) + ridChars +
		len(textETag) + len(ETagText) - 2 + len(TextAttachments) + digits
}

// Append appends the complete JSON of a document: its body with the system
// properties at the end. It parses nothing.
func (r *Renderer) Append(dst []byte, d *Document) []byte {
	var raw [16]byte
	copy(raw[:], r.container)
	binary.LittleEndian.PutUint64(raw[8:], d.Number)

	dst = append(dst, d.Body[:len(d.Body)-1]...)
	dst = append(dst, textRID...)
	ridStart := len(dst)
	dst = resource.RID(raw[:]).AppendText(dst)
	rid := dst[ridStart:]
	dst = append(dst, textSelf...)
	dst = append(dst, r.docs...)
	dst = append(dst, rid...)
	dst = append(dst, textETag...)
	dst = AppendETag(dst, d.ETag)
	dst = append(dst, TextAttachments...)
	dst = strconv.AppendInt(dst, d.TS, 10)
	return append(dst, '}')
}

// Complete returns the complete JSON of a document, in one allocation.
func (r *Renderer) Complete(d *Document) []byte {
	return r.Append(make([]byte, 0, r.Size(len(d.Body), d.TS)), d)
}
