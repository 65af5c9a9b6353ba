package layout

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

// Uniques are the unique keys of a container: no two documents of one full
// partition key have the same values at all paths of a unique key. A container
// cannot change them, so they are compiled once.
type Uniques []UniqueKey

// UniqueKey is one unique key.
type UniqueKey struct {
	paths []value.Path
	Text  string // of the paths, for messages
}

// CompileUniques compiles the unique keys of a container, whose paths
// resource.ParseContainer has checked.
func CompileUniques(keys []resource.UniqueKey) (Uniques, error) {
	var u Uniques
	for _, key := range keys {
		k := UniqueKey{Text: strings.Join(key.Paths, ", ")}
		for _, text := range key.Paths {
			names, ok := resource.ParsePropertyPath(text)
			if !ok {
				return nil, fmt.Errorf("unique key path %q: %w", text, ErrMeta)
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

// Claims are hashes of the values that a document has at the unique keys: one of
// storage.ValuesBytes for each key, in their order. They are nil for no document,
// and if there are no unique keys.
type Claims []byte

// Of returns the claims of a document. Equal values have equal hashes, and a
// missing value counts as null, as in the service. The hash is cryptographic, so
// that a client cannot make two sets of values collide.
func (u Uniques) Of(doc value.Value) Claims {
	if len(u) == 0 {
		return nil
	}
	all := make(Claims, 0, len(u)*storage.ValuesBytes)
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

// OfBody returns the claims of a stored body.
func (u Uniques) OfBody(body []byte) (Claims, error) {
	if len(u) == 0 {
		return nil, nil
	}
	doc, err := value.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	return u.Of(doc), nil
}

// At returns the claim of the i-th key, nil for no document.
func (c Claims) At(i int) []byte {
	if c == nil {
		return nil
	}
	return c[i*storage.ValuesBytes : (i+1)*storage.ValuesBytes]
}

// Changed counts the rows that a change of claims from old to new removes and adds.
func (u Uniques) Changed(old, new Claims) (removed, added int) {
	for i := range u {
		before, after := old.At(i), new.At(i)
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

// DecodeHolder decodes a 'u' row: the number of the document that has the values.
func DecodeHolder(row []byte) (number uint64, err error) {
	if len(row) == storage.NumberBytes {
		number = binary.BigEndian.Uint64(row)
	}
	if number == 0 {
		return 0, fmt.Errorf("unique key row %x: %w", row, ErrMeta)
	}
	return number, nil
}
