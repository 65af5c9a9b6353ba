package partition

import (
	"context"
	"fmt"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// markedFrom is a time in seconds since 1970 that lies between those at which items of
// rows expire, which are below 1<<31 and some minutes, and those of marked items, which
// have the longest time to live that a row of the store can have, 68 years.
const markedFrom = 3 << 30

// ofMarked visits the marked items of a range, which are at the end of the expiry queue.
func (v *itemVisit) ofMarked(ctx context.Context, clip partitionkey.Range) (err error) {
	_, high := storage.FamilyExpiry.Bounds()
	rows := v.now.Rows.Iter(storage.ExpiryKey(nil, markedFrom, 0), high)
	defer func() {
		if closed := rows.Close(); err == nil {
			err = closed
		}
	}()
	n := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; n%itemsBetweenChecks == 0 {
			if err := pacing.Check(ctx); err != nil {
				return err
			}
		}
		_, number, err := storage.DecodeExpiryKey(rows.Key())
		if err != nil {
			return err
		}
		key, d, err := v.now.Document(number)
		if err == nil && d == nil {
			err = fmt.Errorf("item %d is missing: %w", number, layout.ErrDocument)
		}
		if err != nil {
			return err
		}
		epk, _, item, err := storage.DecodeDocumentKey(key, d.EPKSize)
		if err != nil {
			return err
		}
		if !clip.Contains(partitionkey.EPK(epk)) {
			continue
		}
		v.items++
		v.bytes += int64(len(d.Body))
		v.item = Item{Position: key, Key: d.Key, Item: item, Body: d.Body, LSN: d.LSN}
		if more, err := v.ask.Visit(&v.item); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}
