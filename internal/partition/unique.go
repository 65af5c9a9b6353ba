package partition

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// uniques are the unique keys of a container: no two documents of one full
// partition key have the same values at all paths of one of them. A container
// cannot change them, so they are compiled once.
type uniques []uniqueKey

type uniqueKey struct {
	paths []value.Path
	text  string // of the paths, for messages
}

// compileUniques reads the paths, which ParseContainer has checked.
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

// claims are the values that a document has at the unique keys, one hash of
// storage.ValuesBytes for each key in their order. Nil for no document, and when
// there are no unique keys.
type claims []byte

// of returns the claims of a document. Equal values have equal hashes, and a
// missing value is null, as in the service. The hash is a cryptographic one, so
// that nobody can have two sets of values meet.
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

// ofBody is of for a stored body.
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

// at is the claim of the i-th key, nil for no document.
func (c claims) at(i int) []byte {
	if c == nil {
		return nil
	}
	return c[i*storage.ValuesBytes : (i+1)*storage.ValuesBytes]
}

// holding is what a transaction makes of one set of values of one unique key.
type holding struct {
	key    string // of the 'u' row
	number uint64 // of the document that has them; zero for none
}

// claim returns the claims of the version in front of an operation, or Conflict
// when another document has values that the operation wants. It changes nothing.
func (tx *transaction) claim(op *operation, before *current) (old claims, err error) {
	u := tx.p.uniques
	if len(u) == 0 {
		return nil, nil
	}
	switch {
	case before.edit != gone:
		old = tx.edits[before.edit].claims
	case before.exists && op.before.found && op.before.version == before.version:
		old = op.before.claims
	case before.exists:
		if old, err = u.ofBody(before.body); err != nil {
			return nil, fmt.Errorf("partition %v: %w", tx.p.config.Ref, err)
		}
	}
	for i := range u {
		wanted := op.claimed().at(i)
		if wanted == nil || bytes.Equal(wanted, old.at(i)) {
			continue
		}
		holder, err := tx.holder(tx.uniqueKey(i, wanted))
		if err != nil {
			return nil, err
		}
		if holder != 0 {
			return nil, status.New(status.CodeConflict, 0,
				"Unique index constraint violation. Another document of the partition key has the same values at %s.", u[i].text)
		}
	}
	return old, nil
}

// claimed are the claims of the document behind an operation.
func (op *operation) claimed() claims {
	if op.row == nil {
		return nil
	}
	return op.claims
}

// uniqueKey is the key of a 'u' row of the transaction's logical partition. It
// is scratch.
func (tx *transaction) uniqueKey(i int, values []byte) []byte {
	w := tx.w
	w.key = storage.UniqueKey(w.key[:0], tx.epk, tx.hash, i, values)
	return w.key
}

// holder returns the number of the document that has a set of values, as the
// transaction sees it, and zero for none.
func (tx *transaction) holder(key []byte) (number uint64, err error) {
	if i, ok := tx.heldAt[string(key)]; ok {
		return tx.held[i].number, nil
	}
	if pending, ok := tx.w.overlay.uniques[string(key)]; ok {
		tx.rest(pending.flight)
		return pending.number, nil
	}
	_, err = tx.now.snapshot.View(key, func(row []byte) error {
		number, err = decodeHolder(row)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read unique key in partition %v: %w", tx.p.config.Ref, err)
	}
	return number, nil
}

// hold notes that the claims of a document go from old to new.
func (tx *transaction) hold(number uint64, old, new claims) {
	for i := range tx.p.uniques {
		before, after := old.at(i), new.at(i)
		if bytes.Equal(before, after) {
			continue
		}
		if before != nil {
			tx.setHolder(tx.uniqueKey(i, before), 0)
		}
		if after != nil {
			tx.setHolder(tx.uniqueKey(i, after), number)
		}
	}
}

func (tx *transaction) setHolder(key []byte, number uint64) {
	if i, ok := tx.heldAt[string(key)]; ok {
		tx.held[i].number = number
		return
	}
	if tx.heldAt == nil {
		tx.heldAt = map[string]int{}
	}
	h := holding{key: string(key), number: number}
	tx.heldAt[h.key] = len(tx.held)
	tx.held = append(tx.held, h)
}

// changed counts the rows by which the claims of two versions differ: those that
// go, and those that come.
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

// uniques writes the 'u' rows of an effect.
func (b *builder) uniques(all []holding) {
	w := b.writer
	for i := range all {
		w.key = append(w.key[:0], all[i].key...)
		if all[i].number == 0 {
			b.check(b.batch.Delete(w.key))
			continue
		}
		w.cell = binary.BigEndian.AppendUint64(w.cell[:0], all[i].number)
		b.check(b.batch.Set(w.key, w.cell))
	}
}

// decodeHolder reads a 'u' row: the number of the document that has the values.
func decodeHolder(row []byte) (number uint64, err error) {
	if len(row) == storage.NumberBytes {
		number = binary.BigEndian.Uint64(row)
	}
	if number == 0 {
		return 0, fmt.Errorf("unique key row %x: %w", row, errMeta)
	}
	return number, nil
}

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

// has reports whether a document lies under a key and has values at the i-th
// unique key.
func (c *checker) has(d *document, epk []byte, hash uint64, i int, values []byte) bool {
	if i >= len(c.unique) || keyHash(d.key) != hash {
		return false
	}
	doc, err := value.Parse(d.body)
	return err == nil && string(c.descriptor.Key.Hash(c.container.KeyOf(doc))) == string(epk) &&
		bytes.Equal(c.unique.of(doc).at(i), values)
}
