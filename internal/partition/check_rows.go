package partition

import (
	"bytes"
	"encoding/binary"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// claims verifies the 'u' rows of a document.
func (c *checker) claims(d *document, epk partitionkey.EPK) error {
	all, err := c.unique.ofBody(d.body)
	if err != nil {
		return nil // It has been reported.
	}
	for i := range c.unique {
		c.uniqueRows++
		c.key = storage.UniqueKey(c.key[:0], epk, keyHash(d.key), i, all.at(i))
		want := binary.BigEndian.AppendUint64(nil, d.number)
		if err := c.expect(c.key, want, "row of unique key %d of document %d", i, d.number); err != nil {
			return err
		}
	}
	return nil
}

// uniques looks for 'u' rows without a document that has their values.
func (c *checker) uniques() error {
	return c.strays(storage.FamilyUnique, c.uniqueRows, func(key, row []byte) error {
		epk, hash, i, values, err := storage.DecodeUniqueKey(key)
		if err != nil || len(row) != storage.NumberBytes {
			c.report.problem("Unique key row %x cannot be read.", key)
			return nil
		}
		d, err := c.findNumber(row)
		if err != nil {
			return err
		}
		if d == nil || !c.has(d, epk, hash, i, values) {
			c.report.problem("The row %x of unique key %d is of no document.", key, i)
		}
		return nil
	})
}

// has reports whether a document has a partition key, and values at the i-th unique
// key.
func (c *checker) has(d *document, epk []byte, hash uint64, i int, values []byte) bool {
	if i >= len(c.unique) || keyHash(d.key) != hash {
		return false
	}
	doc, err := value.Parse(d.body)
	return err == nil && string(c.descriptor.Key.Hash(c.container.KeyOf(doc))) == string(epk) &&
		bytes.Equal(c.unique.of(doc).at(i), values)
}

// complete looks for changes that cannot be read, or that are newer than the
// partition.
func (c *checker) complete() error {
	return c.each(storage.FamilyComplete, func(key, row []byte) error {
		lsn, _, _, err := storage.DecodeCompleteKey(key)
		if err == nil {
			_, err = decodeRevision(row)
		}
		if err != nil || lsn == 0 || resource.LSN(lsn) > c.state.lsn {
			c.report.problem("The change %x cannot be read, or is ahead of LSN %d.", key, c.state.lsn)
		}
		return nil
	})
}

// revision verifies that the last change of a document is in the complete feed, if
// the feed still has every change of its key since then.
func (c *checker) revision(d *document, epk partitionkey.EPK) error {
	if part := c.kept.at(epk); part == nil || d.lsn <= part.after {
		return nil
	}
	c.key = storage.CompleteKey(c.key[:0], uint64(d.lsn), d.ordinal, d.seq)
	found, err := c.snapshot.View(c.key, func(row []byte) error {
		e, err := decodeRevision(row)
		if err != nil || len(e.current) == 0 {
			c.report.problem("The last change of document %d cannot be read: %v.", d.number, err)
			return nil
		}
		last, err := decodeDocument(e.current)
		if err != nil || last.version != d.version || !bytes.Equal(last.body, d.body) {
			c.report.problem("The last change of document %d is %+v, not %+v.", d.number, last.version, d.version)
		}
		return nil
	})
	if err == nil && !found {
		c.report.problem("The last change of document %d is not in the complete feed.", d.number)
	}
	return err
}
