package partition

import (
	"context"
	"errors"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// SplitPoint returns the point at which to split the partition: at, if it is not empty.
// Otherwise it is a point between two keys with half of the stored bytes on either side
// (S37, S109), or the middle of the range if there are no documents.
//
// The error is BadRequest for a point that is outside of the range, at one of its
// bounds, or inside of one full key, and for a partition that cannot be divided; then
// its cause is [ErrIndivisible]. The result does not end with a zero byte, because
// clients interpret those differently.
func (p *Partition) SplitPoint(ctx context.Context, at partitionkey.EPK) (partitionkey.EPK, error) {
	if at != "" {
		at = at.Canonical()
		return at, p.admitsCut(at)
	}
	now, err := p.acquire()
	if err != nil {
		return "", err
	}
	defer p.release(now)
	if now.Items == 0 {
		cut, ok := between(p.own.Key, p.own.Range.Min, p.own.Range.Max)
		if !ok || p.admitsCut(cut) != nil {
			return "", indivisible(p.own.ID, "its range holds one key only")
		}
		return cut, nil
	}
	below, above, err := p.median(ctx, now)
	if err != nil {
		return "", err
	}
	if above == "" {
		return "", indivisible(p.own.ID, "all of its documents have one partition key")
	}
	cut, ok := between(p.own.Key, below, above)
	if !ok {
		cut = firstPart(below, above, p.own.Width)
	}
	return cut, nil
}

// admitsCut checks a point of a caller.
func (p *Partition) admitsCut(at partitionkey.EPK) error {
	r := p.own.Range
	switch {
	case at.Compare(r.Min) <= 0 || at.Compare(r.Max) >= 0:
		return status.BadRequest("The point %s is not inside the range %s of partition %s.", at, r, p.own.ID)
	case !addressable(at, p.own.Width):
		return status.BadRequest("The point %s lies inside of one partition key, or where no key can be. A logical partition is never divided.", at)
	}
	return nil
}

// addressable reports whether a canonical point can lie between two full keys.
func addressable(at partitionkey.EPK, width int) bool {
	if width == 0 {
		return addressable1(string(at))
	}
	// The first two bits of each level's hash are zero.
	for i := 0; i < len(at); i += layout.LevelBytes {
		if at[i] > 0x3F {
			return false
		}
	}
	return len(at) <= width
}

// addressable1 is addressable for version 1. Its EPKs consist of the ordered number of
// the hash and the ordered form of the key, which both delimit themselves. A point is
// inside of a key only if it continues after a complete EPK.
func addressable1(at string) bool {
	const markNumber, markString, longBytes = 0x05, 0x08, 101
	number := func(s string) (rest string) {
		for i := 2; i < len(s); i++ {
			if s[i]&1 == 0 {
				return s[i+1:]
			}
		}
		return ""
	}
	if at[0] != markNumber {
		return false
	}
	key := number(at)
	switch {
	case key == "":
		return true
	case key[0] == markNumber:
		return number(key) == ""
	case key[0] != markString:
		return len(key) == 1
	}
	for i := 1; i < len(key)-1; i++ {
		if key[i] == 0 {
			return false
		}
	}
	return len(key) <= 1+longBytes
}

// median returns the two adjacent EPKs between which the sizes of the logical partitions
// balance best. above is empty if there is only one EPK.
func (p *Partition) median(ctx context.Context, now *published) (below, above partitionkey.EPK, err error) {
	rows := now.Rows.Iter(storage.FamilyLogical.Bounds())
	defer func() { err = errors.Join(err, rows.Close()) }()
	var sum int64
	var last partitionkey.EPK
	best := int64(-1)
	read := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if read++; read%scanCheckEvery == 0 && ctx.Err() != nil {
			return "", "", context.Cause(ctx)
		}
		raw, _, err := storage.DecodeLogicalKey(rows.Key())
		if err != nil {
			return "", "", err
		}
		t, err := layout.DecodeTotals(rows.Value())
		if err != nil {
			return "", "", err
		}
		if string(raw) != string(last) {
			epk := partitionkey.EPK(raw)
			if off := abs(now.Bytes - 2*sum); read > 1 && (best < 0 || off < best) {
				best, below, above = off, last, epk
			}
			if 2*sum >= now.Bytes && above != "" {
				return below, above, nil // Later points balance worse.
			}
			last = epk
		}
		sum += t.Bytes
	}
	return below, above, nil
}

// scanCheckEvery is the number of rows between two looks at the context.
const scanCheckEvery = 1 << 12

func abs(n int64) int64 { return max(n, -n) }

// between returns a point with below < point < above that is as short as the bounds of
// the service and does not end with a zero byte, and false if it finds none.
func between(d partitionkey.Definition, below, above partitionkey.EPK) (partitionkey.EPK, bool) {
	const attempts = 16 // One point in 256 ends with a zero byte.
	for range attempts {
		middle := d.Middle(partitionkey.Range{Min: below, Max: above})
		if middle.Compare(below) <= 0 || middle.Compare(above) >= 0 {
			return "", false
		}
		if middle[len(middle)-1] != 0 {
			return middle, true
		}
		below = middle
	}
	return "", false
}

// firstPart returns the shortest prefix of above, of whole levels, that is greater than
// below. It is the bound between the two if there is no point between them.
func firstPart(below, above partitionkey.EPK, width int) partitionkey.EPK {
	for end := layout.LevelBytes; end < width; end += layout.LevelBytes {
		if part := above[:end].Canonical(); below.Compare(part) < 0 {
			return part
		}
	}
	return above.Canonical()
}
