package engine

import (
	"bytes"
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/throughput"
)

// Bounds of reading ahead: partitions that are asked at the same time for one look-up, and
// items and bytes that each of them keeps in memory. A partition with more items is read on
// when it is its turn.
const (
	aheadMax   = 8
	aheadItems = 100
	aheadBytes = 256 << 10
)

// aheadPart is what was read ahead of one partition.
type aheadPart struct {
	meter throughput.Meter
	items []partition.Item
	bytes int
	cut   bool // there are more items
	err   error
}

// keep keeps a copy of an item, unless there are enough.
func (p *aheadPart) keep(i *partition.Item) (more bool, err error) {
	if len(p.items) >= aheadItems || p.bytes >= aheadBytes {
		p.cut = true
		return false, nil
	}
	p.bytes += len(i.Position) + len(i.Key) + len(i.Item) + len(i.Body)
	p.items = append(p.items, partition.Item{Position: bytes.Clone(i.Position), Key: bytes.Clone(i.Key), Item: bytes.Clone(i.Item), Body: bytes.Clone(i.Body), LSN: i.LSN})
	return true, nil
}

// ahead asks some partitions at the same time, and passes their items to the caller in the
// order of the partitions. What was read is charged, whether the caller needs it or not.
func (v *itemVisit) ahead(ctx context.Context, c *catalog.Container, some []task) error {
	parts := make([]aheadPart, len(some))
	workers(len(some), aheadMax, func(i int) {
		p := &parts[i]
		p.meter.Twice = v.meter.Twice
		r := v.asking(&some[i], &p.meter)
		r.Visit = p.keep
		p.err = v.read(ctx, c, some[i].partition, r)
	})
	for i := range parts {
		v.meter.Merge(&parts[i].meter)
		v.engine.visit(&v.out, some[i].partition.ID)
	}
	for i := range parts {
		p := &parts[i]
		for at := range p.items {
			if more, err := v.pass(&p.items[at]); err != nil || !more {
				return err
			}
		}
		if p.err != nil {
			return p.err
		}
		if p.cut {
			if err := v.ofTask(ctx, c, some[i:]); err != nil || v.stopped {
				return err
			}
		}
	}
	return nil
}
