package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// holding is the holder of one set of values of one unique key after a transaction.
type holding struct {
	key    string // of the 'u' row
	number uint64 // of the document that has the values; zero for none
}

// claim returns the claims of the version before an operation. The error is Conflict if
// another document has values that the new version has. claim changes nothing.
func (tx *transaction) claim(op *operation, before *current) (old layout.Claims, err error) {
	u := tx.p.uniques
	if len(u) == 0 {
		return nil, nil
	}
	switch {
	case before.edit != gone:
		old = tx.edits[before.edit].claims
	case before.exists && op.before.found && op.before.version == before.Version:
		old = op.before.claims
	case before.exists:
		if old, err = u.OfBody(before.Body); err != nil {
			return nil, fmt.Errorf("partition %v: %w", tx.p.config.Ref, err)
		}
	}
	for i := range u {
		wanted := op.claimed().At(i)
		if wanted == nil || bytes.Equal(wanted, old.At(i)) {
			continue
		}
		holder, err := tx.holder(tx.uniqueKey(i, wanted))
		if err != nil {
			return nil, err
		}
		if holder != 0 {
			return nil, status.New(status.CodeConflict, 0,
				"Unique index constraint violation. Another document of the partition key has the same values at %s.", u[i].Text)
		}
	}
	return old, nil
}

// claimed returns the claims of the new version, nil if there is none.
func (op *operation) claimed() layout.Claims {
	if op.row == nil {
		return nil
	}
	return op.claims
}

// uniqueKey returns the key of a 'u' row of the transaction's logical partition, in
// scratch.
func (tx *transaction) uniqueKey(i int, values []byte) []byte {
	w := tx.w
	w.key = storage.UniqueKey(w.key[:0], tx.epk, tx.hash, i, values)
	return w.key
}

// holder returns the number of the document that has a set of values in the
// transaction, zero for none.
func (tx *transaction) holder(key []byte) (number uint64, err error) {
	if i, ok := tx.heldAt[string(key)]; ok {
		return tx.held[i].number, nil
	}
	if pending, ok := tx.w.overlay.uniques[string(key)]; ok {
		tx.rest(pending.flight)
		return pending.number, nil
	}
	_, err = tx.now.Rows.View(key, func(row []byte) error {
		number, err = layout.DecodeHolder(row)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read unique key in partition %v: %w", tx.p.config.Ref, err)
	}
	return number, nil
}

// hold changes the claims of a document from old to new.
func (tx *transaction) hold(number uint64, old, new layout.Claims) {
	for i := range tx.p.uniques {
		before, after := old.At(i), new.At(i)
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
