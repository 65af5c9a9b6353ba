package layout

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Revision is one change of one document in the complete feed. It shares the bytes
// of its row.
type Revision struct {
	Change  ChangeKind
	TS      int64
	EPKSize int
	Suffix  []byte // of the document's row key, after the family
	// The document rows after and before the change; empty for none.
	Current, Previous []byte
}

// ChangeKind is the kind of a change, as it is stored.
type ChangeKind byte

// The kinds of changes.
const (
	Created ChangeKind = 1 + iota
	Replaced
	Deleted
	Expired // deleted after its time to live
)

var changeNames = [...]string{Created: "create", Replaced: "replace", Deleted: "delete", Expired: "delete"}

const (
	revisionVersion = 1
	revisionTimeAt  = 1 + 1 + 1
	revisionHead    = revisionTimeAt + 8 + 2 + 4
)

// Append appends the row of the change.
func (e *Revision) Append(dst []byte) []byte {
	dst = append(dst, revisionVersion, byte(e.Change), byte(e.EPKSize))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.TS))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(e.Suffix)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.Current)))
	dst = append(dst, e.Suffix...)
	dst = append(dst, e.Current...)
	return append(dst, e.Previous...)
}

// SetRevisionTime replaces the time of the change in a row.
func SetRevisionTime(row []byte, ts int64) {
	binary.BigEndian.PutUint64(row[revisionTimeAt:], uint64(ts))
}

// DecodeRevision decodes a row. The revision shares its bytes.
func DecodeRevision(row []byte) (e Revision, err error) {
	damaged := func() (Revision, error) {
		return Revision{}, fmt.Errorf("feed entry %x: %w", row[:min(len(row), 64)], ErrDocument)
	}
	if len(row) < revisionHead || row[0] != revisionVersion || row[1] < byte(Created) || row[1] > byte(Expired) {
		return damaged()
	}
	e = Revision{Change: ChangeKind(row[1]), EPKSize: int(row[2]), TS: int64(binary.BigEndian.Uint64(row[revisionTimeAt:]))}
	key, current := int(binary.BigEndian.Uint16(row[11:])), int(binary.BigEndian.Uint32(row[13:]))
	rest := row[revisionHead:]
	if e.EPKSize+storage.HashBytes > key || key > len(rest) || current > len(rest)-key {
		return damaged()
	}
	e.Suffix, e.Current, e.Previous = rest[:key], rest[key:key+current], rest[key+current:]
	if (e.Change >= Deleted) != (current == 0) || (e.Change == Created) != (len(e.Previous) == 0) {
		return damaged()
	}
	return e, nil
}

// Revision returns the JSON of a change, and the size in bytes of the documents in
// it, without system properties. A replace has the document before it if replaced is
// true, a deletion always has.
func (r *Renderer) Revision(e *Revision, lsn resource.LSN, key partitionkey.Definition, replaced bool) (body []byte, size int, err error) {
	dst := make([]byte, 0, len(e.Current)+len(e.Previous)+512)
	dst = append(dst, `{"current":`...)
	if len(e.Current) == 0 {
		// Clients that look for a property of it need an object.
		dst = append(dst, "{}"...)
	} else {
		d, err := DecodeDocument(e.Current)
		if err != nil {
			return nil, 0, err
		}
		dst = r.Append(dst, &d)
		size += len(d.Body)
	}
	var previous Document
	if len(e.Previous) > 0 {
		if previous, err = DecodeDocument(e.Previous); err != nil {
			return nil, 0, err
		}
		if e.Change != Replaced || replaced {
			dst = r.Append(append(dst, `,"previous":`...), &previous)
			size += len(previous.Body)
		}
	}
	dst = append(dst, `,"metadata":{"lsn":`...)
	dst = strconv.AppendUint(dst, uint64(lsn), 10)
	dst = append(dst, `,"crts":`...)
	dst = strconv.AppendInt(dst, e.TS, 10)
	dst = append(dst, `,"operationType":"`...)
	dst = append(dst, changeNames[e.Change]...)
	dst = append(dst, '"')
	if e.Change != Created {
		dst = append(dst, `,"previousImageLSN":`...)
		dst = strconv.AppendUint(dst, uint64(previous.LSN), 10)
	}
	if e.Change == Expired {
		dst = append(dst, `,"timeToLiveExpired":true`...)
	}
	if e.Change >= Deleted {
		doc, err := value.Parse(previous.Body)
		if err != nil {
			return nil, 0, err
		}
		dst = append(dst, `,"id":`...)
		dst = value.String(string(e.Suffix[e.EPKSize+storage.HashBytes:])).Append(dst)
		dst = append(dst, `,"partitionKey":`...)
		dst = keyOf(key, doc).Append(dst)
	}
	return append(dst, "}}"...), size, nil
}

// keyOf returns an object with the partition key of a document. Its members are
// named after the paths, without their first slash.
func keyOf(key partitionkey.Definition, doc value.Value) value.Value {
	var members []value.Member
	for _, path := range key.Paths {
		names, _ := resource.ParsePropertyPath(path)
		at := make(value.Path, len(names))
		for i, name := range names {
			at[i].Name = name
		}
		if v := doc.At(at); v.Kind() != value.KindUndefined {
			members = append(members, value.Member{Name: path[1:], Value: v})
		}
	}
	return value.Object(members)
}
