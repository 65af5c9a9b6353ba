package storage

import (
	"bytes"
	"fmt"
)

// CopyTo puts the rows with low <= key < high into b, a batch for another store:
// those of posting lists so that they join what that store has under their keys.
// It stops before the row at which limit bytes have been read and returns its
// key, nil when there are no more rows. The range is of one family. Whoever waits for
// a processor runs in between.
func (s *Snapshot) CopyTo(b *Batch, low, high []byte, limit int) (next []byte, err error) {
	family, known := FamilyOf(low)
	if !known {
		return nil, fmt.Errorf("copy rows from %x: %w", low, errKey)
	}
	lists := family == FamilyTerm || family == FamilyPrefix
	rows := s.Iter(low, high)
	read := 0
	var pace pace
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
