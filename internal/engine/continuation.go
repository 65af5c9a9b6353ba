package engine

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"hash/fnv"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// continuation is one position in the rows of a query, in terms that survive
// restarts, splits and merges. It names no partition. The layout is also in
// docs/formats/continuation-token.md.
//
// Layout, before base64 in its URL form without padding:
//
//	1  version, 1
//	4  CRC-32C of all that follows, big-endian
//	8  fingerprint of the query and container, big-endian
//	1  flags: 1 a position follows, 2 the position has an order key, 4 it stands
//	   between rows of one document, 8 the groups returned so far follow
//	   Range.Min and Range.Max, each as length (uvarint) and bytes
//	   number of the position (uvarint), order key as length (uvarint) and bytes
//	   row of the document (uvarint), with flag 4 alone
//	   skipped and taken (uvarint)
//	   groups returned so far, 8 bytes each, big-endian, with flag 8 alone
//
// The checksum detects damage, not malice: with a forged token a client reads
// only what it may query anyway.
type continuation struct {
	Query    uint64             // fingerprint
	Range    partitionkey.Range // that has the position; everything below it has been served
	Started  bool               // false: no row of Range has been served
	Position query.Position
	Skipped  int64 // rows that OFFSET has skipped
	Taken    int64 // rows that count for LIMIT or TOP

	// Seen names the groups returned so far, as [query.Progress] does. A token without
	// room for them has none.
	Seen []uint64
}

const (
	continuationVersion = 1

	// continuationBytesMax is more than any valid token has: two bounds of
	// three levels or of version 1, and an order key.
	continuationBytesMax = 740

	flagStarted = 1
	flagKey     = 2
	flagRow     = 4
	flagSeen    = 8
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// String returns the token: ASCII, below 1 KB.
func (c continuation) String() string {
	b := make([]byte, 5, 128)
	b[0] = continuationVersion
	b = binary.BigEndian.AppendUint64(b, c.Query)
	var flags byte
	if c.Started {
		flags |= flagStarted
	}
	if c.Position.Key != nil {
		flags |= flagKey
	}
	if c.Position.Row > 0 {
		flags |= flagRow
	}
	if len(c.Seen) > 0 {
		flags |= flagSeen
	}
	b = append(b, flags)
	b = appendBytes(b, string(c.Range.Min))
	b = appendBytes(b, string(c.Range.Max))
	b = binary.AppendUvarint(b, c.Position.Number)
	b = appendBytes(b, string(c.Position.Key))
	if c.Position.Row > 0 {
		b = binary.AppendUvarint(b, uint64(c.Position.Row))
	}
	b = binary.AppendUvarint(b, uint64(c.Skipped))
	b = binary.AppendUvarint(b, uint64(c.Taken))
	for _, group := range c.Seen {
		b = binary.BigEndian.AppendUint64(b, group)
	}
	if len(b) > continuationBytesMax && len(c.Seen) > 0 {
		c.Seen = nil
		return c.String()
	}
	binary.BigEndian.PutUint32(b[1:], crc32.Checksum(b[5:], crcTable))
	return base64.RawURLEncoding.EncodeToString(b)
}

func appendBytes(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// parseContinuation reads a token that String made for the query with this
// fingerprint. Any other text is 400.
func parseContinuation(token string, fingerprint uint64) (continuation, error) {
	c, ok := decodeContinuation(token)
	if !ok || c.Query != fingerprint {
		return continuation{}, invalidContinuation()
	}
	return c, nil
}

func invalidContinuation() error {
	return status.BadRequest("Invalid Continuation Token. It was not issued for this query, or has been changed.")
}

func decodeContinuation(token string) (c continuation, ok bool) {
	if len(token) > base64.RawURLEncoding.EncodedLen(continuationBytesMax) {
		return c, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < 14 || b[0] != continuationVersion ||
		binary.BigEndian.Uint32(b[1:]) != crc32.Checksum(b[5:], crcTable) {
		return c, false
	}
	c.Query = binary.BigEndian.Uint64(b[5:])
	flags := b[13]
	r := reader{rest: b[14:]}
	c.Started = flags&flagStarted != 0
	c.Range.Min = partitionkey.EPK(r.bytes())
	c.Range.Max = partitionkey.EPK(r.bytes())
	c.Position.Number = r.uvarint()
	key := r.bytes()
	if flags&flagKey != 0 {
		c.Position.Key = append([]byte{}, key...)
	}
	if flags&flagRow != 0 {
		c.Position.Row = int(r.uvarint())
	}
	c.Skipped = int64(r.uvarint())
	c.Taken = int64(r.uvarint())
	if flags&flagSeen != 0 {
		for len(r.rest) >= 8 && !r.failed {
			c.Seen = append(c.Seen, binary.BigEndian.Uint64(r.rest))
			r.rest = r.rest[8:]
		}
	}
	ok = !r.failed && len(r.rest) == 0 && c.Skipped >= 0 && c.Taken >= 0 && c.Position.Row >= 0 &&
		!c.Range.Empty() && c.Range.Max.Compare(partitionkey.MaxEPK) <= 0
	// A position has exactly one token: unknown flags and lengths with padding
	// are refused.
	return c, ok && c.String() == token
}

// reader reads the fields of a token.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.failed, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// fingerprint identifies a query and its container.
//
// A client that merges a query with ORDER BY itself adds a resume filter to the
// text, and sends the token that it got for the previous text. So the
// fingerprint of such a query leaves out filter and parameters.
func fingerprint(parent resource.RID, plan *query.Plan, req *QueryRequest) uint64 {
	text, params := req.Text, req.Params
	if plan.Sorted() {
		text, params = plan.Unfiltered(), nil
	}
	return hashQuery(parent, text, params)
}

func hashQuery(parent resource.RID, text string, params []query.Param) uint64 {
	h := fnv.New64a()
	h.Write([]byte(parent))
	h.Write([]byte{0})
	h.Write([]byte(text))
	var b []byte
	for _, p := range params {
		b = append(append(b[:0], 0), p.Name...)
		b = p.Value.Append(append(b, 0))
		h.Write(b)
	}
	return h.Sum64()
}

// withKey adds the hash of a whole key to a fingerprint: a position in one
// logical partition is meaningless in another.
func withKey(mark uint64, key partitionkey.EPK) uint64 {
	if key == "" {
		return mark
	}
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint64(nil, mark))
	h.Write([]byte(key))
	return h.Sum64()
}
