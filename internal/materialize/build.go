package materialize

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
	"github.com/decandb/decan/partitionkey"
)

// A view gets the rows that its table has already in the background. Its progress is a row
// of a table of the server, with the RID of the view as its key. A view that is truncated
// with its table has a new RID, and is built again from what its table has then.

const recordItem = "\x02" // a table without clustering columns

// Build is the state of the building of a view.
type Build struct {
	Keyspace, View string
	Done           bool
	Rows           int64  // of the table that were read
	After          string // the routing key that was read last; empty at the beginning
}

// record is the stored state.
type record = table.ViewBuildState

// Builds returns the state of all views, by name.
func (k *Keeper) Builds() (all []Build) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range k.builds {
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b Build) int {
		return cmp.Or(cmp.Compare(a.Keyspace, b.Keyspace), cmp.Compare(a.View, b.View))
	})
	return all
}

// buildings builds views until the keeper is closed.
func (k *Keeper) buildings() {
	for {
		err := k.buildAll(k.ctx)
		if k.ctx.Err() != nil {
			return
		}
		var again <-chan time.Time
		if err != nil {
			k.cfg.Logger.Warn("materialized views not built, will retry", "in", k.cfg.Retry, "error", err)
			again = time.After(k.cfg.Retry)
		}
		select {
		case <-again:
		case <-k.wake:
		case <-k.ctx.Done():
			return
		}
	}
}

// buildAll builds the views that are not built, and forgets those that were dropped.
func (k *Keeper) buildAll(ctx context.Context) error {
	records, err := k.records(ctx)
	if err != nil {
		return err
	}
	all, err := k.cfg.All()
	if err != nil {
		return err
	}
	known := map[resource.RID]*Build{}
	for _, v := range all {
		for _, p := range v.Projections {
			rid := v.Views[p.View.ID]
			known[rid] = stateOf(p, records[rid])
		}
	}
	k.mu.Lock()
	k.builds = known
	k.mu.Unlock()
	for rid := range records {
		if known[rid] == nil {
			if err := k.save(ctx, rid, nil); err != nil {
				return err
			}
		}
	}
	for _, v := range all {
		for _, p := range v.Projections {
			rid := v.Views[p.View.ID]
			if at := records[rid]; !at.Done {
				if err := k.build(ctx, v.RID, rid, p.View.ID, at); err != nil {
					return fmt.Errorf("build view %s.%s: %w", p.View.Keyspace, p.View.Name, err)
				}
			}
		}
	}
	return nil
}

func stateOf(p *table.Projection, r record) *Build {
	return &Build{Keyspace: p.View.Keyspace, View: p.View.Name, Done: r.Done, Rows: r.Rows, After: string(r.Key)}
}

// build reads the rows of a table from a position on, and gives the view their rows.
func (k *Keeper) build(ctx context.Context, base, view resource.RID, id [16]byte, at record) error {
	if err := k.cfg.Engine.Barrier(ctx, base); err != nil && status.CodeOf(err) != status.CodeNotFound {
		return err
	}
	for !at.Done {
		v, p, err := k.viewOf(base, id)
		if err != nil || p == nil || v.Views[id] != view {
			return err // It was dropped or truncated, which asks for another look.
		}
		if err := k.buildSome(ctx, v, p, &at); err != nil {
			if status.CodeOf(err) == status.CodeNotFound {
				return nil
			}
			return err
		}
		if err := k.save(ctx, view, &at); err != nil {
			return err
		}
		k.mu.Lock()
		k.builds[view] = stateOf(p, at)
		k.mu.Unlock()
	}
	k.cfg.Logger.Info("materialized view built", "container", view, "rows", at.Rows)
	return nil
}

// viewOf returns a view as it is now, nil if it does not exist any more.
func (k *Keeper) viewOf(base resource.RID, id [16]byte) (*Viewed, *table.Projection, error) {
	v, err := k.cfg.Viewed(base)
	if err != nil || v == nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(v.Projections, func(p *table.Projection) bool { return p.View.ID == id })
	if i < 0 {
		return nil, nil, nil
	}
	return v, v.Projections[i], nil
}

// buildSome reads the next rows.
func (k *Keeper) buildSome(ctx context.Context, v *Viewed, p *table.Projection, at *record) error {
	type rowsOf struct {
		key   string
		items []string
	}
	var found []rowsOf
	n := 0
	after, s := bytes.Clone(at.After), &settling{Keeper: k, viewed: v}
	err := s.patient(ctx, func() error {
		req := engine.ReadItemsRequest{Table: v.RID, Range: partitionkey.Full(), After: after, Visit: func(i *partition.Item) (bool, error) {
			after = append(after[:0], i.Position...)
			if i.Item[0] != table.RowItems[0] {
				return true, nil
			}
			if m := len(found); m == 0 || found[m-1].key != string(i.Key) {
				found = append(found, rowsOf{key: string(i.Key)})
			}
			last := &found[len(found)-1]
			last.items = append(last.items, string(i.Item))
			n++
			return n < rowsMax, nil
		}}
		_, err := k.cfg.Engine.ReadItems(ctx, auth.Owner(), req)
		return err
	})
	if err != nil {
		return err
	}
	for _, rows := range found {
		if err := k.buildKey(ctx, v, p, rows.key, rows.items); err != nil {
			return err
		}
		at.Key = []byte(rows.key)
	}
	at.Rows += int64(n)
	at.After, at.Done = after, n < rowsMax
	return nil
}

// buildKey gives the view the rows of one partition key.
func (k *Keeper) buildKey(ctx context.Context, v *Viewed, p *table.Projection, key string, items []string) error {
	ref := keyRef{v.RID, key}
	k.join(ref)
	defer k.leave(ref)
	if _, err := k.begin(ctx, ref, math.MaxUint64); err != nil { // No call that settles does this work.
		return err
	}
	defer k.end(ref, 0, false)
	s := &settling{Keeper: k, viewed: v, key: key}
	collected := table.Project(v.Table, []*table.Projection{p}, key, k.cfg.Now().Unix())
	if err := s.project(ctx, items, collected); err != nil {
		return err
	}
	return s.write(ctx, collected)
}

// save stores the state of a view; nil removes it.
func (k *Keeper) save(ctx context.Context, view resource.RID, r *record) error {
	rid, err := k.cfg.Engine.SystemTable(ctx, table.ViewBuilds, true)
	if err != nil {
		return err
	}
	_, err = k.cfg.Engine.WriteItems(ctx, auth.Owner(), engine.WriteItemsRequest{Table: rid, Key: string(view), Change: change{func(items table.Items) error {
		if r == nil {
			return items.Put(recordItem, nil, 0)
		}
		body, err := r.Append(nil, items.Micros())
		if err != nil {
			return err
		}
		return items.Put(recordItem, body, 0)
	}}})
	return err
}

// records returns the stored states of all views.
func (k *Keeper) records(ctx context.Context) (map[resource.RID]record, error) {
	all := map[resource.RID]record{}
	rid, err := k.cfg.Engine.SystemTable(ctx, table.ViewBuilds, false)
	if err != nil || rid == "" {
		return all, err
	}
	_, err = k.cfg.Engine.ReadItems(ctx, auth.Owner(), engine.ReadItemsRequest{Table: rid, Range: partitionkey.Full(), Visit: func(i *partition.Item) (bool, error) {
		r, err := table.DecodeViewBuildState(i.Body)
		if err != nil {
			return false, fmt.Errorf("state of view %q cannot be read: %w", i.Key, err)
		}
		all[resource.RID(i.Key)] = r
		return true, nil
	}})
	return all, err
}
