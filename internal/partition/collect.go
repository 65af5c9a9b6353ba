package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Of an item of a table, parts become superfluous: cells expire, and records of deletions
// are not needed any more after some time. Config.Collect knows which, and the partition
// only when: each item may have a time at which it is due.

// Collection asks what can be removed from one partition key of a table. Its bytes are
// valid during the call.
type Collection struct {
	Key []byte // routing key

	// Items are names of items that are due, in no order: at most ExpireMax.
	Items []string

	// Most is the number of items that may be removed or rewritten, at most ExpireMax.
	Most int

	// Now is Config.Removal in seconds since 1970: what expires later is still there.
	Now int64

	// Read visits items of the partition key from a name on, in their order, until visit
	// returns false.
	Read func(from string, visit func(item, body []byte) (more bool, err error)) error
}

// Collected is what can be removed.
type Collected struct {
	// Change removes it. Items that it rewrites keep their versions: no reader of the
	// change feed gets them again. Nil removes nothing.
	Change Change

	Items int // number of items that the change removes or rewrites, about
}

// collectBytesMax is the greatest size of items that are collected in one effect.
const collectBytesMax = purgeBytesMax

// collections are items that are due, by logical key.
type collections struct {
	keys  []*collection
	byKey map[string]*collection
}

type collection struct {
	epk, key []byte
	hash     uint64
	items    []string
	bytes    int
}

// add adds an item. The next call of Expire finds those that are too many for an effect.
func (a *collections) add(key []byte, d *layout.Document) error {
	epk, hash, item, err := storage.DecodeDocumentKey(key, d.EPKSize)
	if err != nil {
		return err
	}
	logical := string(storage.LogicalKey(nil, epk, hash))
	c := a.byKey[logical]
	if c == nil {
		c = &collection{epk: bytes.Clone(epk), key: bytes.Clone(d.Key), hash: hash}
		if a.byKey == nil {
			a.byKey = map[string]*collection{}
		}
		a.byKey[logical] = c
		a.keys = append(a.keys, c)
	}
	if c.bytes += len(d.Body); c.bytes <= collectBytesMax || len(c.items) == 0 {
		c.items = append(c.items, string(item))
	}
	return nil
}

// collect removes what Config.Collect finds in items that are due, and returns the number
// of items.
func (p *Partition) collect(ctx context.Context, now *published, all collections, most int, meter *throughput.Meter) (collected int, err error) {
	for _, c := range all.keys {
		if collected >= most {
			break
		}
		ask := Collection{Key: c.key, Items: c.items, Most: most - collected, Now: p.config.Removal().Unix()}
		ask.Read = func(from string, visit func(item, body []byte) (bool, error)) error {
			return readItemsOf(ctx, now, c, from, visit)
		}
		found, err := p.config.Collect(ctx, ask)
		if err != nil {
			return collected, fmt.Errorf("collect items of partition %v: %w", p.config.Ref, err)
		}
		if found.Change == nil {
			continue
		}
		r := &request{epk: partitionkey.EPK(c.epk), key: c.key, hash: c.hash, meter: meter, change: found.Change, collects: true, evaluated: make(chan struct{})}
		if err = p.submit(ctx, r); err == nil {
			err = r.err
		}
		if err != nil {
			return collected, err
		}
		collected += found.Items
		p.served.cleared.Add(int64(found.Items))
	}
	return collected, nil
}

// readItemsOf visits items of a partition key in a published state.
func readItemsOf(ctx context.Context, now *published, c *collection, from string, visit func(item, body []byte) (bool, error)) (err error) {
	prefix := storage.DocumentKey(nil, partitionkey.EPK(c.epk), c.hash, "")
	rows := now.Rows.Iter(append(bytes.Clone(prefix), from...), layout.PrefixEnd(prefix))
	defer func() { err = errors.Join(err, rows.Close()) }()
	n := 0
	for valid := rows.First(); valid; valid = rows.Next() {
		if n++; n%itemsBetweenChecks == 0 {
			if err := pacing.Check(ctx); err != nil {
				return err
			}
		}
		d, err := layout.DecodeDocument(rows.Value())
		if err != nil {
			return err
		}
		if string(d.Key) != string(c.key) {
			continue
		}
		more, err := visit(rows.Key()[len(prefix):], d.Body)
		if err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// Urgent reports whether an item was due when it was written since the last call: Expire
// has much to do, such as the rows of a deleted partition key.
func (p *Partition) Urgent() bool { return p.urgent.Load() && p.urgent.Swap(false) }

// Due reports whether an item of the table is due now, or a document with its own time to
// live has expired: Expire has something to do. It looks at one row.
func (p *Partition) Due() bool {
	now, err := p.acquire()
	if err != nil {
		return false
	}
	defer p.release(now)
	low, _ := storage.FamilyExpiry.Bounds()
	rows := now.Rows.Iter(low, storage.ExpiryKey(nil, uint64(max(0, p.config.Removal().Unix()))+1, 0))
	due := rows.First()
	return rows.Close() == nil && due
}
