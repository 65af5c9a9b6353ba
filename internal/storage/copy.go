package storage

import (
	"bytes"
	"fmt"
)

// CopyTo adds the rows with low <= key < high to b, a batch for another store. Rows of
// posting lists merge with those that the other store has under their keys. CopyTo
// stops before the next row once it has read limit bytes, and returns the key of that
// row, nil when there are no more rows. The range must be within one family. CopyTo
// yields the processor regularly.
func (s *Snapshot) CopyTo(b *Batch, low, high []byte, limit int) (next []byte, err error) {
	family, known := FamilyOf(low)
	if !known {
		return nil, fmt.Errorf("copy rows from %x: %w", low, errKey)
	}
	lists := family == FamilyTerm || family == FamilyPrefix
	rows := s.Iter(low, high)
	read := 0
	pace := rowPacer{pacer: pacer{clock: s.pool.options.clock}}
	for valid := rows.First(); valid && err == nil; valid = rows.Next() {
		pace.row()
		if read >= limit && read > 0 {
			next = bytes.Clone(rows.Key())
			break
		}
		key, value := rows.Key(), rows.Value()
		read += len(key) + len(value)
		switch {
		case rows.Err() != nil: // Close returns it.
		case !lists:
			err = b.Set(key, value)
		case !isEmptyPosting(value):
			err = b.rows.Merge(key, value, nil)
		}
	}
	if closeErr := rows.Close(); err == nil {
		err = closeErr
	}
	return next, err
}
