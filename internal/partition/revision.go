package partition

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// revision is one change of one document in the complete feed. It shares the bytes
// of its row.
type revision struct {
	change  changeKind
	ts      int64
	epkSize int
	suffix  []byte // of the document's row key, after the family
	// The document rows after and before the change; empty for none.
	current, previous []byte
}

// changeKind is the kind of a change, as it is stored.
type changeKind byte

// The kinds of changes.
const (
	created changeKind = 1 + iota
	replaced
	deleted
	expired // deleted after its time to live
)

var changeNames = [...]string{created: "create", replaced: "replace", deleted: "delete", expired: "delete"}

const (
	revisionVersion = 1
	revisionTimeAt  = 1 + 1 + 1
	revisionHead    = revisionTimeAt + 8 + 2 + 4
)

// append appends the row of the change.
func (e *revision) append(dst []byte) []byte {
	dst = append(dst, revisionVersion, byte(e.change), byte(e.epkSize))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.ts))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(e.suffix)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.current)))
	dst = append(dst, e.suffix...)
	dst = append(dst, e.current...)
	return append(dst, e.previous...)
}

// setRevisionTime replaces the time of the change in a row.
func setRevisionTime(row []byte, ts int64) {
	binary.BigEndian.PutUint64(row[revisionTimeAt:], uint64(ts))
}

// decodeRevision decodes a row. The revision shares its bytes.
func decodeRevision(row []byte) (e revision, err error) {
	damaged := func() (revision, error) {
		return revision{}, fmt.Errorf("feed entry %x: %w", row[:min(len(row), 64)], errDocument)
	}
	if len(row) < revisionHead || row[0] != revisionVersion || row[1] < byte(created) || row[1] > byte(expired) {
		return damaged()
	}
	e = revision{change: changeKind(row[1]), epkSize: int(row[2]), ts: int64(binary.BigEndian.Uint64(row[revisionTimeAt:]))}
	key, current := int(binary.BigEndian.Uint16(row[11:])), int(binary.BigEndian.Uint32(row[13:]))
	rest := row[revisionHead:]
	if e.epkSize+storage.HashBytes > key || key > len(rest) || current > len(rest)-key {
		return damaged()
	}
	e.suffix, e.current, e.previous = rest[:key], rest[key:key+current], rest[key+current:]
	if (e.change >= deleted) != (current == 0) || (e.change == created) != (len(e.previous) == 0) {
		return damaged()
	}
	return e, nil
}

// revision returns the JSON of a change, and the size in bytes of the documents in
// it, without system properties.
func (r *renderer) revision(e *revision, lsn resource.LSN, key partitionkey.Definition) (body []byte, size int, err error) {
	dst := make([]byte, 0, len(e.current)+len(e.previous)+512)
	dst = append(dst, '{')
	var previous document
	for _, image := range []struct {
		name string
		row  []byte
	}{{`"current":`, e.current}, {`"previous":`, e.previous}} {
		if len(image.row) == 0 {
			continue
		}
		d, err := decodeDocument(image.row)
		if err != nil {
			return nil, 0, err
		}
		dst = append(r.append(append(dst, image.name...), &d), ',')
		size += len(d.body)
		previous = d // The second one, if there are two.
	}
	dst = append(dst, `"metadata":{"lsn":`...)
	dst = strconv.AppendUint(dst, uint64(lsn), 10)
	dst = append(dst, `,"crts":`...)
	dst = strconv.AppendInt(dst, e.ts, 10)
	dst = append(dst, `,"operationType":"`...)
	dst = append(dst, changeNames[e.change]...)
	dst = append(dst, '"')
	if e.change != created {
		dst = append(dst, `,"previousImageLSN":`...)
		dst = strconv.AppendUint(dst, uint64(previous.lsn), 10)
	}
	if e.change == expired {
		dst = append(dst, `,"timeToLiveExpired":true`...)
	}
	if e.change >= deleted {
		doc, err := value.Parse(previous.body)
		if err != nil {
			return nil, 0, err
		}
		dst = append(dst, `,"id":`...)
		dst = value.String(string(e.suffix[e.epkSize+storage.HashBytes:])).Append(dst)
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
