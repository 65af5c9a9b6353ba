package engine

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// feedToken is a position in a change feed: an LSN, exclusive, for each part of
// the key space. It names no partition. The LSN of a partition is valid for its
// children, because their LSNs continue after those of the parent.
//
// A position that one LSN describes, as whenever one partition is read, has that
// LSN in quotes as its ETag, such as "43": clients construct such positions. The
// format of others is in docs/formats/continuation-token.md; they are in quotes,
// too.
type feedToken struct {
	container resource.RID
	since     int64 // seconds since 1970; earlier changes are left out; 0: none are
	turn      int   // index of the entry to begin with
	min       partitionkey.EPK
	entries   []feedEntry // tile the scope from min on; at least one
	mixed     bool        // there is one entry, and since leaves out changes after its LSN
}

// feedEntry is the position in a part of the key space.
type feedEntry struct {
	max partitionkey.EPK // not included; the next entry begins there
	lsn resource.LSN     // 0: nothing of the part has been read
}

const (
	feedTokenVersion = 2 // continuations have 1

	// feedTokenCharsMax is more than the token of a thousand partitions needs.
	// A token of one partition has at most 22 characters.
	feedTokenCharsMax = 128 << 10

	feedTokenHead = 1 + 4 + containerRIDBytes

	containerRIDBytes = 8
)

// pieces divides the scope at the bounds of entries and partitions. It returns
// the pieces in range order, and the one to begin with.
func (t feedToken) pieces(c *catalog.Container, scope partitionkey.Range) (list []piece, first int) {
	low := t.min
	for i, entry := range t.entries {
		if i == t.turn {
			first = len(list)
		}
		part, ok := scope.Intersect(partitionkey.Range{Min: low, Max: entry.max})
		low = entry.max
		if !ok {
			continue
		}
		for _, owner := range c.Ranges.Overlapping(part) {
			if clip, ok := owner.Range.Intersect(part); ok {
				list = append(list, piece{partition: owner.Value, clip: clip, lsn: entry.lsn})
			}
		}
	}
	return list, first % len(list)
}

// next returns the token of the positions of pieces; turn is the piece to begin
// with. Neighbours at the same LSN become one entry.
func (t feedToken) next(pieces []piece, turn int) feedToken {
	next := feedToken{container: t.container, since: t.since, min: pieces[0].clip.Min.Canonical()}
	for i, p := range pieces {
		entry := feedEntry{max: p.clip.Max.Canonical(), lsn: p.lsn}
		next.mixed = next.mixed || p.mixed
		if n := len(next.entries); n > 0 && next.entries[n-1].lsn == p.lsn {
			next.entries[n-1] = entry
		} else {
			next.entries = append(next.entries, entry)
		}
		if i == turn {
			next.turn = len(next.entries) - 1
		}
	}
	return next
}

// simple reports whether one LSN describes the position.
func (t feedToken) simple() bool {
	return len(t.entries) == 1 && (t.since == 0 || t.entries[0].lsn > 0 && !t.mixed)
}

// etag returns the token as clients see it.
func (t feedToken) etag() resource.ETag {
	if t.simple() {
		return resource.ETag(`"` + strconv.FormatUint(uint64(t.entries[0].lsn), 10) + `"`)
	}
	b := make([]byte, 5, 128)
	b[0] = feedTokenVersion
	b = append(b, t.container...)
	b = binary.AppendUvarint(b, uint64(t.since))
	b = binary.AppendUvarint(b, uint64(t.turn))
	b = appendBytes(b, string(t.min))
	for _, entry := range t.entries {
		b = appendBytes(b, string(entry.max))
		b = binary.AppendUvarint(b, uint64(entry.lsn))
	}
	binary.BigEndian.PutUint32(b[1:], crc32.Checksum(b[5:], crcTable))
	return resource.ETag(`"` + base64.RawURLEncoding.EncodeToString(b) + `"`)
}

// parseFeedToken reads an ETag that etag made, with or without its quotes, for
// a scope of a container. Anything else is 400.
func parseFeedToken(etag resource.ETag, container resource.RID, scope partitionkey.Range) (feedToken, error) {
	text := string(etag)
	if inner, ok := strings.CutPrefix(text, `"`); ok {
		if inner, ok = strings.CutSuffix(inner, `"`); ok {
			text = inner
		}
	}
	if lsn, err := strconv.ParseUint(text, 10, 64); err == nil {
		return feedToken{container: container, min: scope.Min, entries: []feedEntry{{max: scope.Max, lsn: resource.LSN(lsn)}}}, nil
	}
	t, ok := decodeFeedToken(text)
	if !ok || t.container != container || !t.covers(scope) {
		return feedToken{}, status.Because(status.CodeBadRequest, 0, status.FeedPosition{})
	}
	return t, nil
}

func (t feedToken) covers(scope partitionkey.Range) bool {
	return partitionkey.Range{Min: t.min, Max: t.entries[len(t.entries)-1].max}.Covers(scope)
}

func decodeFeedToken(text string) (t feedToken, ok bool) {
	if len(text) > feedTokenCharsMax {
		return t, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < feedTokenHead || b[0] != feedTokenVersion ||
		binary.BigEndian.Uint32(b[1:]) != crc32.Checksum(b[5:], crcTable) {
		return t, false
	}
	t.container = resource.RID(b[5:feedTokenHead])
	r := reader{rest: b[feedTokenHead:]}
	t.since = int64(r.uvarint())
	turn := r.uvarint()
	t.min = partitionkey.EPK(r.bytes())
	low := t.min
	for len(r.rest) > 0 {
		entry := feedEntry{max: partitionkey.EPK(r.bytes()), lsn: resource.LSN(r.uvarint())}
		if r.failed || low.Compare(entry.max) >= 0 {
			return t, false
		}
		low = entry.max
		t.entries = append(t.entries, entry)
	}
	if r.failed || t.since < 0 || turn >= uint64(len(t.entries)) || low.Compare(partitionkey.MaxEPK) > 0 {
		return t, false
	}
	t.turn = int(turn)
	t.mixed = len(t.entries) == 1 && t.entries[0].lsn > 0
	// One position has one token, and a simple one is a number.
	return t, !t.simple() && string(t.etag()) == `"`+text+`"`
}
