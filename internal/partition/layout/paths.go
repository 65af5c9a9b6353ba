package layout

import (
	"bytes"
	"errors"
	"fmt"
	"sort"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/storage"
)

// A path is complete if every document has a term of it. A walk that includes the
// documents without a term then need not look for them, which would take longer than
// all the rest.
//
// The rows hold the ids of the paths that every document has had since the partition
// was empty. The first document makes the set; a document that lacks a path removes
// the path, in the effect that writes the document. A path that was removed returns
// when the partition has become empty, or when an index rebuild has read every
// document.

// PathSet holds the ids of paths, concatenated in ascending order.
type PathSet []byte

// pathsMax is the maximum number of ids in a set, which keeps the smallest ones. It
// bounds the row, and the time of the comparison in each write.
const pathsMax = 512

// PathsOf returns the ids of the paths of sorted terms.
func PathsOf(terms []index.Term) PathSet {
	set := make(PathSet, 0, storage.PathBytes*min(len(terms), pathsMax))
	for _, t := range terms {
		id := t[:storage.PathBytes]
		if n := len(set); n >= storage.PathBytes && string(set[n-storage.PathBytes:]) == string(id) {
			continue
		}
		if len(set) == storage.PathBytes*pathsMax {
			break
		}
		set = append(set, id...)
	}
	return set
}

// In returns the ids of the set that sorted terms have as well. If they have all, it
// returns the set itself and allocates nothing.
func (s PathSet) In(terms []index.Term) PathSet {
	kept, cut := s, false
	for at := 0; at < len(s); at += storage.PathBytes {
		id := s[at : at+storage.PathBytes]
		for len(terms) > 0 && string(terms[0][:storage.PathBytes]) < string(id) {
			terms = terms[1:]
		}
		has := len(terms) > 0 && string(terms[0][:storage.PathBytes]) == string(id)
		switch {
		case !has && !cut:
			kept, cut = append(make(PathSet, 0, len(s)), s[:at]...), true
		case has && cut:
			kept = append(kept, id...)
		}
	}
	return kept
}

// Has reports whether the path of a term is in the set.
func (s PathSet) Has(t index.Term) bool {
	n := len(s) / storage.PathBytes
	id := string(t[:storage.PathBytes])
	at := sort.Search(n, func(i int) bool { return string(s[i*storage.PathBytes:(i+1)*storage.PathBytes]) >= id })
	return at < n && string(s[at*storage.PathBytes:(at+1)*storage.PathBytes]) == id
}

// Append appends the row of the set.
func (s PathSet) Append(dst []byte) []byte { return append(append(dst, MetaVersion), s...) }

// DecodePaths decodes a row. The set shares its bytes.
func DecodePaths(row []byte) (PathSet, error) {
	if len(row)%storage.PathBytes != 1 || row[0] != MetaVersion {
		return nil, fmt.Errorf("paths %x: %w", row, ErrMeta)
	}
	set := PathSet(row[1:])
	for at := storage.PathBytes; at < len(set); at += storage.PathBytes {
		if bytes.Compare(set[at-storage.PathBytes:at], set[at:at+storage.PathBytes]) >= 0 {
			return nil, fmt.Errorf("paths %x: %w", row, ErrMeta)
		}
	}
	return set, nil
}

// Paths are the complete paths of a partition.
type Paths struct {
	InUse PathSet // of the policy in use
	// next becomes inUse when the index of the next policy is built. It covers the
	// documents that the building sweep has passed, and those written since it
	// began.
	Next PathSet
}

// ReadPaths reads the rows of complete paths. A missing row is an empty set.
func ReadPaths(r Getter) (p Paths, err error) {
	read := func(name string) PathSet {
		row, found, readErr := r.Get(nil, storage.MetaKey(nil, name))
		if readErr == nil && found {
			row, readErr = DecodePaths(row)
		}
		err = errors.Join(err, readErr)
		return row
	}
	p.InUse, p.Next = read(MetaPaths), read(MetaPathsNext)
	return p, err
}

// After returns the complete paths after a document with keys, which are not
// stamped yet, is written. first says that it is the only document.
func (p Paths) After(x *Indexing, k *AllKeys, first bool) Paths {
	after := Paths{InUse: p.InUse.In(k.Active.Terms)}
	if first {
		after.InUse = PathsOf(k.Active.Terms)
	}
	switch {
	case x.Phase != Building:
	case first:
		after.Next = PathsOf(k.Other.Terms)
	default:
		after.Next = p.Next.In(k.Other.Terms)
	}
	return after
}

// And returns the ids that are in both sets.
func (s PathSet) And(other PathSet) PathSet {
	var both PathSet
	for len(s) > 0 && len(other) > 0 {
		a, b := s[:storage.PathBytes], other[:storage.PathBytes]
		order := bytes.Compare(a, b)
		if order == 0 {
			both = append(both, a...)
		}
		if order <= 0 {
			s = s[storage.PathBytes:]
		}
		if order >= 0 {
			other = other[storage.PathBytes:]
		}
	}
	return both
}
