package check

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// sums is a fingerprint of a set of entries of posting lists that does not depend on
// their order. It tells whether documents and lists agree without holding either in
// memory. With a random seed the probability of an accidental agreement is 2^-64.
type sums struct {
	seed  maphash.Seed
	count int64
	sum   uint64
	buf   []byte
}

func newSums() sums { return sums{seed: maphash.MakeSeed()} }

func (s *sums) add(list []byte, number uint64) {
	s.buf = append(s.buf[:0], list...)
	s.buf = binary.BigEndian.AppendUint64(s.buf, number)
	s.sum += maphash.Bytes(s.seed, s.buf)
	s.count++
}

// keysOf returns the index keys that the store must have of the document with a row key,
// none if its body cannot be parsed. look, if not nil, is called with the keys of each policy
// first.
func (c *checker) keysOf(key []byte, d *layout.Document, look func(d *layout.Document, k *layout.AllKeys)) layout.Keys {
	k, err := c.indexing.KeysOfStored(d, key)
	if err != nil {
		c.report.problem("Document %d: %v.", d.Number, err)
		return layout.Keys{}
	}
	if look != nil {
		look(d, &k)
	}
	return c.indexing.Stored(k, d.Number, d.TS)
}

// lacks reports the complete paths that a document does not have.
func (c *checker) lacks(d *layout.Document, k *layout.AllKeys) {
	name := func(set layout.PathSet, terms []index.Term) {
		if kept := set.In(terms); len(kept) < len(set) {
			c.report.problem("Document %d lacks a path that is marked as complete: of %x it has %x.", d.Number, []byte(set), []byte(kept))
		}
	}
	name(c.paths.InUse, k.Active.Terms)
	// While an index is built, the paths of its policy do not cover the documents
	// that the sweep has not passed.
	if c.indexing.HasBoth(d.Number) && c.indexing.Phase == layout.Building {
		name(c.paths.Next, k.Other.Terms)
	}
}

// listsOf calls visit with the key of each posting list that must have a document.
func (c *checker) listsOf(k layout.Keys, epk partitionkey.EPK, visit func(list []byte) error) error {
	var key []byte
	for _, term := range k.Terms {
		key = storage.TermKey(key[:0], term)
		if err := visit(key); err != nil {
			return err
		}
	}
	for level := 1; level*layout.LevelBytes < c.epkWidth; level++ {
		key = storage.PrefixKey(key[:0], level, epk[:level*layout.LevelBytes])
		if err := visit(key); err != nil {
			return err
		}
	}
	return nil
}

// postings compares the posting lists with the documents, and reports the
// differences if there are any.
func (c *checker) postings() error {
	stored := sums{seed: c.lists.seed}
	err := c.entries(func(list []byte, number uint64) error {
		stored.add(list, number)
		c.compared++
		if list[0] == byte(storage.FamilyTerm) {
			c.report.Terms++
		}
		return nil
	})
	if err != nil || stored.count == c.lists.count && stored.sum == c.lists.sum {
		return err
	}
	before := len(c.report.Problems) + c.report.Unnamed
	if err := c.missing(); err != nil {
		return err
	}
	if err := c.entries(c.stray); err != nil {
		return err
	}
	if before == len(c.report.Problems)+c.report.Unnamed {
		c.report.problem("The posting lists hold %d entries, the documents ask for %d.", stored.count, c.lists.count)
	}
	return nil
}

// entries calls visit for each entry of each posting list.
func (c *checker) entries(visit func(list []byte, number uint64) error) error {
	for _, f := range []storage.Family{storage.FamilyTerm, storage.FamilyPrefix} {
		lists := c.snapshot.Lists(f.Bounds())
		for valid := lists.First(); valid; valid = lists.Next() {
			if err := c.list(lists.Key(), visit); err != nil {
				_ = lists.Close() // The error of the list tells more.
				return err
			}
		}
		if err := lists.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) list(list []byte, visit func(list []byte, number uint64) error) error {
	set := c.snapshot.Postings(list)
	for number, ok := set.Next(); ok; number, ok = set.Next() {
		err := c.read()
		if err == nil {
			err = visit(list, number)
		}
		if err != nil {
			_ = set.Close() // The error of visit tells more.
			return err
		}
	}
	return set.Close()
}

// missing reports the lists that lack one of their documents.
func (c *checker) missing() error {
	return c.each(storage.FamilyDocument, func(key, row []byte) error {
		d, err := layout.DecodeDocument(row)
		if err != nil {
			return nil // It has been reported.
		}
		epk, err := c.place(key, &d)
		if err != nil {
			return nil
		}
		return c.listsOf(c.keysOf(key, &d, nil), epk, func(list []byte) error {
			set := c.snapshot.Postings(list)
			set.SeekGE(d.Number)
			if number, ok := set.Next(); !ok || number != d.Number {
				c.report.problem("Document %d is missing from posting list %x.", d.Number, list)
			}
			return set.Close()
		})
	})
}

// stray reports an entry of a posting list that its document does not have.
func (c *checker) stray(list []byte, number uint64) error {
	suffix, found, err := c.snapshot.Get(nil, storage.RIDKey(nil, number))
	if err != nil {
		return err
	}
	if !found {
		c.report.problem("Posting list %x has number %d, which no document has.", list, number)
		return nil
	}
	d, err := c.find(suffix)
	if err != nil || d == nil {
		return err
	}
	var lists []string
	epk := partitionkey.EPK(suffix[:min(d.EPKSize, len(suffix))])
	err = c.listsOf(c.keysOf(storage.DocumentKeyOf(nil, suffix), d, nil), epk, func(list []byte) error {
		lists = append(lists, string(list))
		return nil
	})
	if err == nil && !slices.Contains(lists, string(list)) {
		c.report.problem("Posting list %x has document %d, which does not belong there.", list, number)
	}
	return err
}
