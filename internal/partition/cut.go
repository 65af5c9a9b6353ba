package partition

import (
	"context"
	"errors"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// SplitPoint returns where the partition is to be split: at the given point when
// it is not empty, and otherwise between the two keys where half of the stored
// bytes lie on either side (S37, S109), or halfway through the range when there
// are no documents.
//
// A point that is outside of the range, at one of its bounds, or inside of one
// full key is BadRequest; so is a partition that cannot be divided, with
// [ErrIndivisible] as the cause. The result has no zero bytes at its end, since
// clients differ in what they take those for.
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
	if now.items == 0 {
		cut, ok := between(p.descriptor.Key, p.descriptor.Range.Min, p.descriptor.Range.Max)
		if !ok || p.admitsCut(cut) != nil {
			return "", indivisible(p.descriptor.ID, "its range holds one key only")
		}
		return cut, nil
	}
	below, above, err := p.median(ctx, now)
	if err != nil {
		return "", err
	}
	if above == "" {
		return "", indivisible(p.descriptor.ID, "all of its documents have one partition key")
	}
	cut, ok := between(p.descriptor.Key, below, above)
	if !ok {
		cut = firstPart(below, above, p.epkWidth)
	}
	return cut, nil
}

// admitsCut checks a point that somebody named.
func (p *Partition) admitsCut(at partitionkey.EPK) error {
	r := p.descriptor.Range
	switch {
	case at.Compare(r.Min) <= 0 || at.Compare(r.Max) >= 0:
		return status.BadRequest("The point %s does not lie inside of the range %s of partition %s.", at, r, p.descriptor.ID)
	case !addressable(at, p.epkWidth):
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
	for i := 0; i < len(at); i += hashBytes {
		if at[i] > 0x3F {
			return false
		}
	}
	return len(at) <= width
}

// addressable1 is addressable for version 1, whose EPKs are the ordered number
// of the hash and the ordered form of the key, self-delimiting both. Only what
// goes on behind a complete one lies inside of a key.
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

// median returns the two neighbouring EPKs between which the sizes of logical
// partitions balance best; above is empty when there is only one.
func (p *Partition) median(ctx context.Context, now *published) (below, above partitionkey.EPK, err error) {
	rows := now.snapshot.Iter(storage.FamilyLogical.Bounds())
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
		t, err := decodeTotals(rows.Value())
		if err != nil {
			return "", "", err
		}
		if string(raw) != string(last) {
			epk := partitionkey.EPK(raw)
			if off := abs(now.bytes - 2*sum); read > 1 && (best < 0 || off < best) {
				best, below, above = off, last, epk
			}
			if 2*sum >= now.bytes && above != "" {
				return below, above, nil // It only gets worse.
			}
			last = epk
		}
		sum += t.bytes
	}
	return below, above, nil
}

// scanCheckEvery is after how many rows a scan looks at its context.
const scanCheckEvery = 1 << 12

func abs(n int64) int64 { return max(n, -n) }

// between returns a point with below < point < above that is as short as the
// service's own bounds and has no zero byte at its end, and false when it finds
// none.
func between(d partitionkey.Definition, below, above partitionkey.EPK) (partitionkey.EPK, bool) {
	const attempts = 16 // each second-to-last point ends in a zero byte once in 256
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

// firstPart returns the shortest beginning of above, by whole levels, that lies
// behind below: a bound between the two when no point is.
func firstPart(below, above partitionkey.EPK, width int) partitionkey.EPK {
	for end := hashBytes; end < width; end += hashBytes {
		if part := above[:end].Canonical(); below.Compare(part) < 0 {
			return part
		}
	}
	return above.Canonical()
}
