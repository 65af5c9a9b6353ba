package materialize

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
	"github.com/decandb/decan/partitionkey"
)

// entriesMax is the number of entries of an outbox that are settled together, and rowsMax
// that of the rows of a range.
const (
	entriesMax = 256
	rowsMax    = 256
)

// settling is one call of settle.
type settling struct {
	*Keeper
	viewed *Viewed
	key    string
	spent  engine.ItemsResult
}

// settle settles the outbox of a partition key. The caller has its turn.
func (k *Keeper) settle(ctx context.Context, ref keyRef) (engine.ItemsResult, error) {
	if err := k.cfg.Step(stepRead); err != nil {
		return engine.ItemsResult{}, err
	}
	for {
		v, err := k.cfg.Viewed(ref.table)
		if err != nil || v == nil {
			return engine.ItemsResult{}, err
		}
		s := &settling{Keeper: k, viewed: v, key: ref.key}
		more, err := s.some(ctx)
		if err != nil && status.CodeOf(err) == status.CodeNotFound {
			if now, err := k.cfg.Viewed(ref.table); err == nil && now == nil {
				return s.spent, nil // The table was dropped or truncated meanwhile.
			}
		}
		if err != nil || !more {
			return s.spent, err
		}
	}
}

// some settles some entries, and returns whether there are more.
func (s *settling) some(ctx context.Context) (more bool, err error) {
	entries, err := s.entries(ctx)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	var items []string
	collected := table.Project(s.viewed.Table, s.viewed.Projections, s.key, s.cfg.Now().Unix())
	for i := range entries {
		if e := &entries[i]; e.Row() != "" {
			items = append(items, e.Row())
			for _, p := range e.Places {
				collected.Leave(p.Place)
			}
		}
	}
	if len(items) > 0 {
		if err := s.project(ctx, items, collected); err != nil {
			return false, err
		}
		if err := s.write(ctx, collected); err != nil {
			return false, err
		}
	}
	for i := range entries {
		if e := &entries[i]; e.Row() == "" {
			if err := s.ranges(ctx, &e.Ranges); err != nil {
				return false, err
			}
		}
	}
	more = len(entries) == entriesMax
	return more, s.remove(ctx, entries, more)
}

// entries reads entries of the outbox.
func (s *settling) entries(ctx context.Context) (entries []table.OutboxEntry, err error) {
	err = s.read(ctx, []partition.Slice{{From: table.OutboxItems, To: table.OutboxEnd}}, func() { entries = nil }, func(item, body []byte) (bool, error) {
		e, err := table.DecodeOutbox(item, body)
		entries = append(entries, e)
		return len(entries) < entriesMax, err
	})
	return entries, err
}

// read reads items of the partition key, and waits for throughput.
func (s *settling) read(ctx context.Context, list []partition.Slice, restart func(), visit func(item, body []byte) (bool, error)) error {
	return s.patient(ctx, func() error {
		restart()
		r, err := s.cfg.Engine.ReadItems(ctx, auth.Owner(), engine.ReadItemsRequest{
			Table: s.viewed.RID, Key: s.key, Slices: list, Restart: restart,
			Visit: func(i *partition.Item) (bool, error) { return visit(i.Item, i.Body) },
		})
		s.spent.Add(r)
		return err
	})
}

// project adds the rows of the views for rows of the partition key.
func (s *settling) project(ctx context.Context, items []string, into *table.Projected) error {
	list := []partition.Slice{partition.Point(table.MetaItem)}
	for _, item := range items {
		list = append(list, partition.Point(item))
	}
	rows, meta, err := s.rows(ctx, list, len(items))
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := into.Add(r, &meta); err != nil {
			return err
		}
	}
	return nil
}

// rows reads the deletions of the partition and at most most rows.
func (s *settling) rows(ctx context.Context, list []partition.Slice, most int) (rows []table.StoredRow, meta row.Meta, err error) {
	err = s.read(ctx, list, func() { rows, meta = nil, row.Meta{} }, func(item, body []byte) (more bool, err error) {
		if string(item) == table.MetaItem {
			meta, err = row.DecodeMeta(bytes.Clone(body))
			return true, err
		}
		rows = append(rows, table.StoredRow{Item: string(item), Body: string(body)})
		return len(rows) < most, nil
	})
	return rows, meta, err
}

// ranges settles deletions of ranges, or of the partition: all rows in them, the deleted
// ones too, because these say where their rows in the views are.
func (s *settling) ranges(ctx context.Context, ranges *row.Meta) error {
	list := []partition.Slice{{From: table.RowItems, To: table.OutboxItems}}
	if !ranges.Deletion.Present {
		list = list[:0]
		for _, r := range ranges.Ranges {
			one := partition.Slice{From: table.RowItems + string(r.Start), To: table.OutboxItems}
			if len(r.End) > 0 {
				one.To = table.RowItems + string(r.End)
			}
			list = append(list, one)
		}
	}
	for _, one := range list {
		for {
			rows, meta, err := s.rows(ctx, []partition.Slice{partition.Point(table.MetaItem), one}, rowsMax)
			if err != nil {
				return err
			}
			collected := table.Project(s.viewed.Table, s.viewed.Projections, s.key, s.cfg.Now().Unix())
			for _, r := range rows {
				if err := collected.Add(r, &meta); err != nil {
					return err
				}
			}
			if err := s.write(ctx, collected); err != nil {
				return err
			}
			if len(rows) < rowsMax {
				break
			}
			one.From = rows[len(rows)-1].Item + "\x00"
		}
	}
	return nil
}

// change is a change of table as a partition evaluates it.
type change struct{ evaluate func(table.Items) error }

// Evaluate implements partition.Change.
func (c change) Evaluate(items partition.Items) error { return c.evaluate(items) }

// write changes the views. It leaves out those that were dropped.
func (s *settling) write(ctx context.Context, collected *table.Projected) error {
	if collected.Len() == 0 {
		return nil
	}
	if err := s.cfg.Step(stepWrite); err != nil {
		return err
	}
	var all []engine.WriteItemsRequest
	for _, c := range collected.Changes() {
		if rid := s.viewed.Views[c.View.ID]; rid != "" {
			all = append(all, engine.WriteItemsRequest{Table: rid, Key: c.Key, Change: change{c.Evaluate}})
		}
	}
	return s.patient(ctx, func() error {
		done, errs := s.cfg.Engine.WriteAllItems(ctx, auth.Owner(), all)
		s.spent.Add(done)
		var again []engine.WriteItemsRequest
		var kept []error
		for i, err := range errs {
			if err == nil || status.CodeOf(err) == status.CodeNotFound {
				continue
			}
			again, kept = append(again, all[i]), append(kept, err)
		}
		all = again
		// One that is not throttled decides: trying again does not help.
		slices.SortStableFunc(kept, func(a, b error) int { return throttled(a) - throttled(b) })
		if len(kept) == 0 {
			return nil
		}
		return kept[0]
	})
}

func throttled(err error) int {
	if status.CodeOf(err) == status.CodeTooManyRequests {
		return 1
	}
	return 0
}

// remove removes entries. It does not wait for that unless the caller reads more of them.
func (s *settling) remove(ctx context.Context, entries []table.OutboxEntry, wait bool) error {
	if err := s.cfg.Step(stepRemove); err != nil {
		return err
	}
	remove := func(ctx context.Context) error {
		return s.patient(ctx, func() error {
			_, err := s.cfg.Engine.WriteItems(ctx, auth.Owner(), engine.WriteItemsRequest{
				Table: s.viewed.RID, Key: s.key, Change: change{table.OutboxDone(entries).Evaluate},
			})
			return err
		})
	}
	if wait || !s.later(func() {
		if err := remove(s.ctx); err != nil && status.CodeOf(err) != status.CodeNotFound {
			s.Later(s.viewed.RID, s.key)
		}
	}) {
		return remove(ctx)
	}
	return nil
}

// later calls do in a goroutine, unless the keeper is closed.
func (k *Keeper) later(do func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.running.Go(do)
	return true
}

// throughputWait is how long settling waits for throughput.
const throughputWait = 2 * time.Second

// patient tries again while there is no throughput.
func (s *settling) patient(ctx context.Context, do func() error) error {
	for until := time.Now().Add(throughputWait); ; {
		err := do()
		if throttled(err) == 0 || time.Now().After(until) {
			return err
		}
		pause := time.Millisecond
		if known := status.From(err); known != nil {
			pause = max(pause, known.RetryAfter)
		}
		if pacing.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// sweepMax bounds the partition keys that a sweep has in memory.
const sweepMax = 10_000

// sweep finds the outboxes of all tables, and settles them.
func (k *Keeper) sweep(ctx context.Context) error {
	all, err := k.cfg.All()
	if err != nil {
		return err
	}
	var failed []error
	for _, v := range all {
		for {
			keys, more, err := k.outboxes(ctx, v.RID)
			if err != nil {
				failed = append(failed, err)
				break
			}
			settled := 0
			for _, key := range keys {
				if _, err := k.Settle(ctx, v.RID, key); err != nil {
					failed = append(failed, err)
					if ctx.Err() != nil {
						return ctx.Err()
					}
					continue
				}
				settled++
			}
			if !more || settled == 0 {
				break
			}
		}
	}
	return errors.Join(failed...)
}

// outboxes returns the partition keys of a table that have an outbox, each once.
func (k *Keeper) outboxes(ctx context.Context, base resource.RID) (keys []string, more bool, err error) {
	seen := map[string]bool{}
	_, err = k.cfg.Engine.ReadItems(ctx, auth.Owner(), engine.ReadItemsRequest{
		Table: base, Range: partitionkey.Full(), Marked: true,
		Visit: func(i *partition.Item) (bool, error) {
			if key := string(i.Key); !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
			more = len(keys) == sweepMax
			return !more, nil
		},
	})
	if status.CodeOf(err) == status.CodeNotFound {
		return nil, false, nil // It was dropped or truncated.
	}
	return keys, more, err
}
