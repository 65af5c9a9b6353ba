package check

import (
	"bytes"
	"encoding/binary"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// claims verifies the 'u' rows of a document.
func (c *checker) claims(d *layout.Document, epk partitionkey.EPK) error {
	all, err := c.unique.OfBody(d.Body)
	if err != nil {
		return nil // It has been reported.
	}
	for i := range c.unique {
		c.uniqueRows++
		c.key = storage.UniqueKey(c.key[:0], epk, layout.KeyHash(d.Key), i, all.At(i))
		want := binary.BigEndian.AppendUint64(nil, d.Number)
		if err := c.expect(c.key, want, "row of unique key %d of document %d", i, d.Number); err != nil {
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
func (c *checker) has(d *layout.Document, epk []byte, hash uint64, i int, values []byte) bool {
	if i >= len(c.unique) || layout.KeyHash(d.Key) != hash {
		return false
	}
	doc, err := value.Parse(d.Body)
	return err == nil && string(c.descriptor.Key.Hash(c.container.KeyOf(doc))) == string(epk) &&
		bytes.Equal(c.unique.Of(doc).At(i), values)
}

// complete looks for changes that cannot be read, or that are newer than the
// partition.
func (c *checker) complete() error {
	return c.each(storage.FamilyComplete, func(key, row []byte) error {
		lsn, _, _, err := storage.DecodeCompleteKey(key)
		if err == nil {
			_, err = layout.DecodeRevision(row)
		}
		if err != nil || lsn == 0 || resource.LSN(lsn) > c.state.LSN {
			c.report.problem("The change %x cannot be read, or is ahead of LSN %d.", key, c.state.LSN)
		}
		return nil
	})
}

// revision verifies that the last change of a document is in the complete feed, if
// the feed still has every change of its key since then.
func (c *checker) revision(d *layout.Document, epk partitionkey.EPK) error {
	if part := c.kept.At(epk); part == nil || d.LSN <= part.After {
		return nil
	}
	c.key = storage.CompleteKey(c.key[:0], uint64(d.LSN), d.Ordinal, d.Seq)
	found, err := c.snapshot.View(c.key, func(row []byte) error {
		e, err := layout.DecodeRevision(row)
		if err != nil || len(e.Current) == 0 {
			c.report.problem("The last change of document %d cannot be read: %v.", d.Number, err)
			return nil
		}
		last, err := layout.DecodeDocument(e.Current)
		if err != nil || last.Version != d.Version || !bytes.Equal(last.Body, d.Body) {
			c.report.problem("The last change of document %d is %+v, not %+v.", d.Number, last.Version, d.Version)
		}
		return nil
	})
	if err == nil && !found {
		c.report.problem("The last change of document %d is not in the complete feed.", d.Number)
	}
	return err
}
