package partition

import (
	"bytes"
	"errors"
	"fmt"
	"sort"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
)

// A path is complete when every document has a term of it. A walk that has to
// show the documents without a term need not look for them then, which would
// take longer than all the rest.
//
// What is kept are the ids of paths that every document has had since the
// partition was empty: the first document makes the set, and one that lacks a
// path takes it out, in the effect that writes it. Documents that are alike
// change nothing. A path that was taken out comes back when the partition has
// become empty or an index rebuild has seen every document.

// pathSet holds the ids of paths, rising, one behind the other.
type pathSet []byte

// pathsMax is how many ids a set keeps, the smallest of them: a bound for the
// row and for the time that a write takes to compare.
const pathsMax = 512

// pathsOf returns the ids of the paths that sorted terms are of.
func pathsOf(terms []index.Term) pathSet {
	set := make(pathSet, 0, storage.PathBytes*min(len(terms), pathsMax))
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

// in returns the ids that sorted terms have too: the set itself when those are
// all, and then it allocates nothing.
func (s pathSet) in(terms []index.Term) pathSet {
	kept, cut := s, false
	for at := 0; at < len(s); at += storage.PathBytes {
		id := s[at : at+storage.PathBytes]
		for len(terms) > 0 && string(terms[0][:storage.PathBytes]) < string(id) {
			terms = terms[1:]
		}
		has := len(terms) > 0 && string(terms[0][:storage.PathBytes]) == string(id)
		switch {
		case !has && !cut:
			kept, cut = append(make(pathSet, 0, len(s)), s[:at]...), true
		case has && cut:
			kept = append(kept, id...)
		}
	}
	return kept
}

// has reports whether the id that begins a term is in the set.
func (s pathSet) has(t index.Term) bool {
	n := len(s) / storage.PathBytes
	id := string(t[:storage.PathBytes])
	at := sort.Search(n, func(i int) bool { return string(s[i*storage.PathBytes:(i+1)*storage.PathBytes]) >= id })
	return at < n && string(s[at*storage.PathBytes:(at+1)*storage.PathBytes]) == id
}

func (s pathSet) append(dst []byte) []byte { return append(append(dst, metaVersion), s...) }

// decodePaths returns the set in a row, whose bytes it shares.
func decodePaths(row []byte) (pathSet, error) {
	if len(row)%storage.PathBytes != 1 || row[0] != metaVersion {
		return nil, fmt.Errorf("paths %x: %w", row, errMeta)
	}
	set := pathSet(row[1:])
	for at := storage.PathBytes; at < len(set); at += storage.PathBytes {
		if bytes.Compare(set[at-storage.PathBytes:at], set[at:at+storage.PathBytes]) >= 0 {
			return nil, fmt.Errorf("paths %x: %w", row, errMeta)
		}
	}
	return set, nil
}

// paths are the complete paths of a partition.
type paths struct {
	inUse pathSet // under the policy in use
	// next is what inUse becomes when the policy under way is complete. It holds
	// for the documents that the building sweep has passed and those written
	// since it began.
	next pathSet
}

// readPaths reads the rows of complete paths. A row that is not there is a set
// of nothing.
func readPaths(r reader) (p paths, err error) {
	read := func(name string) pathSet {
		row, found, readErr := r.Get(nil, storage.MetaKey(nil, name))
		if readErr == nil && found {
			row, readErr = decodePaths(row)
		}
		err = errors.Join(err, readErr)
		return row
	}
	p.inUse, p.next = read(metaPaths), read(metaPathsNext)
	return p, err
}

// behind returns the complete paths after a document has been written with keys,
// which are not stamped yet. first says that it is the only one.
func (p paths) behind(x *indexing, k *allKeys, first bool) paths {
	after := paths{inUse: p.inUse.in(k.active.terms)}
	if first {
		after.inUse = pathsOf(k.active.terms)
	}
	switch {
	case x.Phase != building:
	case first:
		after.next = pathsOf(k.other.terms)
	default:
		after.next = p.next.in(k.other.terms)
	}
	return after
}

// paths writes the rows that differ.
func (b *builder) paths(before, after paths) {
	b.pathRow(metaPaths, before.inUse, after.inUse)
	b.pathRow(metaPathsNext, before.next, after.next)
}

func (b *builder) pathRow(name string, before, after pathSet) {
	w := b.writer
	switch {
	case bytes.Equal(before, after):
	case len(after) == 0:
		w.key = storage.MetaKey(w.key[:0], name)
		b.check(b.batch.Delete(w.key))
	default:
		w.key = storage.MetaKey(w.key[:0], name)
		w.cell = after.append(w.cell[:0])
		b.check(b.batch.Set(w.key, w.cell))
	}
}

// knownPaths returns the complete paths after all effects on their way.
func (p *Partition) knownPaths(now *published) (paths, error) {
	w := &p.writer
	if !w.pathsKnown {
		// Nothing is on its way yet since the writer started anew.
		known, err := readPaths(now.snapshot)
		if err != nil {
			return paths{}, fmt.Errorf("partition %v: %w", p.config.Ref, err)
		}
		w.paths, w.pathsKnown = known, true
	}
	return w.paths, nil
}

// firstPaths returns the paths of the first document under a policy, with which
// a sweep begins that looks at all of them.
func (p *Partition) firstPaths(now *published, c *compiled) (set pathSet, err error) {
	rows := now.snapshot.Iter(storage.FamilyRID.Bounds())
	defer func() { err = errors.Join(err, rows.Close()) }()
	if !rows.First() {
		return nil, nil
	}
	row, found, err := now.snapshot.Get(nil, storage.DocumentKeyOf(nil, rows.Value()))
	if err != nil || !found {
		return nil, err // The sweep will tell.
	}
	d, err := decodeDocument(row)
	if err != nil {
		return nil, err
	}
	doc, err := value.Parse(d.body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDocument, err)
	}
	k, err := c.keys(nil, doc, d.body, nil)
	return pathsOf(k.terms), err
}

// complete reports whether every document of the partition has a term of a span.
func (s *source) complete(span index.Span) (yes bool, err error) {
	active := s.now.indexing.active
	own, ok := active.Span(span.Path, index.Defined, value.Null())
	if !ok || own.Low < span.Low || own.High > span.High {
		return false, nil // The terms of the path are not all in the span.
	}
	// The time is written to every document, and is not known when the paths
	// are compared.
	if ts, ok := active.Timestamp(0); ok && ts[:storage.PathBytes] == own.Low[:storage.PathBytes] {
		return true, nil
	}
	s.key = storage.MetaKey(s.key[:0], metaPaths)
	_, err = s.now.snapshot.View(s.key, func(row []byte) error {
		set, err := decodePaths(row)
		yes = err == nil && set.has(own.Low)
		return err
	})
	if err != nil {
		err = s.damaged(err)
	}
	return yes, err
}
