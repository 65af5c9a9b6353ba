package partition

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
)

// uniques are the unique keys of a container: no two documents of one full
// partition key have the same values at all paths of a unique key. A container
// cannot change them, so they are compiled once.
type uniques []uniqueKey

// uniqueKey is one unique key.
type uniqueKey struct {
	paths []value.Path
	text  string // of the paths, for messages
}

// compileUniques compiles the unique keys of a container, whose paths
// resource.ParseContainer has checked.
func compileUniques(keys []resource.UniqueKey) (uniques, error) {
	var u uniques
	for _, key := range keys {
		k := uniqueKey{text: strings.Join(key.Paths, ", ")}
		for _, text := range key.Paths {
			names, ok := resource.ParsePropertyPath(text)
			if !ok {
				return nil, fmt.Errorf("unique key path %q: %w", text, errMeta)
			}
			path := make(value.Path, len(names))
			for i, name := range names {
				path[i].Name = name
			}
			k.paths = append(k.paths, path)
		}
		u = append(u, k)
	}
	return u, nil
}

// claims are hashes of the values that a document has at the unique keys: one of
// storage.ValuesBytes for each key, in their order. They are nil for no document,
// and if there are no unique keys.
type claims []byte

// of returns the claims of a document. Equal values have equal hashes, and a
// missing value counts as null, as in the service. The hash is cryptographic, so
// that a client cannot make two sets of values collide.
func (u uniques) of(doc value.Value) claims {
	if len(u) == 0 {
		return nil
	}
	all := make(claims, 0, len(u)*storage.ValuesBytes)
	var room [256]byte
	for i := range u {
		key := room[:0]
		for _, path := range u[i].paths {
			v := doc.At(path)
			if v.Kind() == value.KindUndefined {
				v = value.Null()
			}
			key = value.AppendKey(key, v)
		}
		sum := sha256.Sum256(key)
		all = append(all, sum[:storage.ValuesBytes]...)
	}
	return all
}

// ofBody returns the claims of a stored body.
func (u uniques) ofBody(body []byte) (claims, error) {
	if len(u) == 0 {
		return nil, nil
	}
	doc, err := value.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDocument, err)
	}
	return u.of(doc), nil
}

// at returns the claim of the i-th key, nil for no document.
func (c claims) at(i int) []byte {
	if c == nil {
		return nil
	}
	return c[i*storage.ValuesBytes : (i+1)*storage.ValuesBytes]
}

// changed counts the rows that a change of claims from old to new removes and adds.
func (u uniques) changed(old, new claims) (removed, added int) {
	for i := range u {
		before, after := old.at(i), new.at(i)
		if bytes.Equal(before, after) {
			continue
		}
		if before != nil {
			removed++
		}
		if after != nil {
			added++
		}
	}
	return removed, added
}

// decodeHolder decodes a 'u' row: the number of the document that has the values.
func decodeHolder(row []byte) (number uint64, err error) {
	if len(row) == storage.NumberBytes {
		number = binary.BigEndian.Uint64(row)
	}
	if number == 0 {
		return 0, fmt.Errorf("unique key row %x: %w", row, errMeta)
	}
	return number, nil
}
