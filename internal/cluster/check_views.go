package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition/check"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/table"
)

// viewParts is the number of parts into which the rows of a view are divided by the hash of
// their place. The first reading of the stores adds up the rows of each part on both sides,
// and only parts whose sums differ are read again, so that memory does not depend on the
// number of rows.
const viewParts = 1 << 12

// viewRowsMax is the number of rows that are compared at a time, unless one part has more,
// and viewProblems the number of problems of one view that are named.
const (
	viewRowsMax  = 1 << 20
	viewProblems = 10
)

// comparison compares a materialized view with its table.
type comparison struct {
	base, view *catalog.Container
	projection *table.Projection
	now        int64 // seconds since 1970

	mu    sync.Mutex
	parts [viewParts]viewPart
	// pending has the keys of the table for which updates of the view are outstanding: the
	// next start of a server makes them.
	pending map[string]bool
	failed  error // a row that cannot be read; the check of its partition reports it as well
}

// viewPart is the sum of the rows of a part.
type viewPart struct {
	must, has viewSum
}

type viewSum struct {
	rows int64
	sum  [2]uint64
}

// add adds a row.
func (c *comparison) add(r *table.ViewRow, must bool) {
	part, hash := hashesOf(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.parts[part].has
	if must {
		s = &c.parts[part].must
	}
	s.rows++
	s.sum[0] += hash[0]
	s.sum[1] += hash[1]
}

// hashesOf returns the part of a row, and a hash of all of it.
func hashesOf(r *table.ViewRow) (part uint16, hash [2]uint64) {
	b := binary.AppendUvarint(nil, uint64(len(r.Key)))
	b = append(append(b, r.Key...), r.Item...)
	place := sha256.Sum256(b)
	whole := sha256.Sum256(append(place[:], r.Shown...))
	return binary.BigEndian.Uint16(place[:]) % viewParts, [2]uint64{binary.BigEndian.Uint64(whole[:]), binary.BigEndian.Uint64(whole[8:])}
}

// visitor returns a function that is called with the items of one partition in their order:
// of the table if must, otherwise of the view.
func (c *comparison) visitor(must bool, add func(*table.ViewRow)) func(key, item, body []byte) {
	read := c.projection.Reader(c.now)
	return func(key, item, body []byte) {
		var r table.ViewRow
		var ok, pending bool
		var err error
		switch {
		case len(item) == 0:
			return // The check of the partition reports it.
		case must:
			r, ok, pending, err = read(key, item, body)
		default:
			r, ok, err = c.projection.Has(string(key), string(item), body, c.now)
		}
		if pending {
			c.mu.Lock()
			c.pending[string(key)] = true
			c.mu.Unlock()
		}
		if err != nil {
			c.mu.Lock()
			c.failed = err
			c.mu.Unlock()
		}
		if ok {
			add(&r)
		}
	}
}

// comparisons are those of all views, and what is known of the building of views.
type comparisons struct {
	all []*comparison

	mu    sync.Mutex
	built map[resource.RID]bool
}

// plan adds the views of a keyspace.
func (s *comparisons) plan(view *catalog.View, d resource.Database, schema *table.Schema, now int64) {
	for _, t := range schema.Keyspace(d.ID).Tables {
		projections, err := schema.Projections(t)
		base, ok := view.Container(d.ID, t.Name)
		if err != nil || !ok {
			continue // A server does not start with it, and says so.
		}
		for _, p := range projections {
			if of, ok := view.Container(d.ID, p.View.Name); ok {
				s.all = append(s.all, &comparison{base: base, view: of, projection: p, now: now, pending: map[string]bool{}})
			}
		}
	}
}

// visit returns a function that is called with each item of a partition of a container, nil
// if no comparison needs them.
func (s *comparisons) visit(c *catalog.Container) func(key, item, body []byte) {
	if c.Database.IsSystem() && c.ID == table.ViewBuilds {
		return func(key, _, body []byte) {
			if state, err := table.DecodeViewBuildState(body); err == nil && state.Done {
				s.mu.Lock()
				s.built[resource.RID(key)] = true
				s.mu.Unlock()
			}
		}
	}
	var all []func(key, item, body []byte)
	for _, one := range s.all {
		switch c.RID {
		case one.base.RID:
			all = append(all, one.visitor(true, func(r *table.ViewRow) { one.add(r, true) }))
		case one.view.RID:
			all = append(all, one.visitor(false, func(r *table.ViewRow) { one.add(r, false) }))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return func(key, item, body []byte) {
		for _, visit := range all {
			visit(key, item, body)
		}
	}
}

// report compares the sums of all views that are built, and reads the parts again that
// differ. all are the partitions that were checked.
func (s *comparisons) report(ctx context.Context, n *Node, view *catalog.View, all []*checked, report *Report) {
	read := func(c *catalog.Container) bool {
		return !slices.ContainsFunc(all, func(one *checked) bool {
			return one.container.RID == c.RID && (!one.done || one.err != nil)
		})
	}
	for _, c := range s.all {
		if !s.built[c.view.RID] || c.failed != nil || !read(c.base) || !read(c.view) {
			continue
		}
		if err := c.compare(ctx, n, view, report); err != nil && ctx.Err() == nil {
			report.problem("View '%s.%s' cannot be compared with its table: %v", c.view.Database.ID, c.view.ID, err)
		}
	}
}

// compare finds the rows that differ.
func (c *comparison) compare(ctx context.Context, n *Node, view *catalog.View, report *Report) error {
	found := 0
	for next := 0; next < viewParts && found <= viewProblems; {
		parts := map[uint16]bool{}
		for rows := int64(0); next < viewParts; next++ {
			p := &c.parts[next]
			if p.must == p.has {
				continue
			}
			if rows += p.must.rows + p.has.rows; rows > viewRowsMax && len(parts) > 0 {
				break
			}
			parts[uint16(next)] = true
		}
		if len(parts) == 0 {
			return nil
		}
		problems, err := c.differences(ctx, n, view, parts)
		if err != nil {
			return err
		}
		for _, text := range problems {
			if found++; found > viewProblems {
				report.problem("View '%s.%s' has more rows that are not those of its table '%s'.", c.view.Database.ID, c.view.ID, c.base.ID)
				return nil
			}
			report.problem("View '%s.%s' of table '%s': %s.", c.view.Database.ID, c.view.ID, c.base.ID, text)
		}
	}
	return nil
}

// differences reads the rows of some parts on both sides.
func (c *comparison) differences(ctx context.Context, n *Node, view *catalog.View, parts map[uint16]bool) (problems []string, err error) {
	type place struct{ key, item string }
	must := map[place]table.ViewRow{}
	err = n.items(ctx, view, c.base, func() func(key, item, body []byte) {
		return c.visitor(true, func(r *table.ViewRow) {
			if part, _ := hashesOf(r); parts[part] {
				must[place{r.Key, r.Item}] = *r
			}
		})
	})
	if err != nil {
		return nil, err
	}
	tell := func(at place, text string) {
		problems = append(problems, fmt.Sprintf("the row %x of the key %x %s", at.item, at.key, text))
	}
	err = n.items(ctx, view, c.view, func() func(key, item, body []byte) {
		return c.visitor(false, func(r *table.ViewRow) {
			if part, _ := hashesOf(r); !parts[part] || c.pending[r.Base] {
				return
			}
			at := place{r.Key, r.Item}
			switch want, ok := must[at]; {
			case !ok:
				tell(at, "is not one of the table")
			case !bytes.Equal(want.Shown, r.Shown):
				tell(at, "has not the values of the table")
			}
			delete(must, at)
		})
	})
	if err != nil {
		return nil, err
	}
	for at, r := range must {
		if !c.pending[r.Base] {
			tell(at, "is missing")
		}
	}
	slices.Sort(problems)
	return problems, nil
}

// items visits all items of a table. begin is called for each partition.
func (n *Node) items(ctx context.Context, view *catalog.View, c *catalog.Container, begin func() func(key, item, body []byte)) error {
	for i := range c.Ranges.Len() {
		one := &checked{container: c, partition: c.Ranges.At(i).Value}
		must := openingOf(n.partitionDir(one.ref()), n.marks.set.partitions[one.ref()], func() *catalog.View { return view })
		err := inspect(n.cfg.Pool, n.partitionDir(one.ref()), must, func(snapshot *storage.Snapshot) error {
			return check.Items(ctx, snapshot, begin())
		})
		if err != nil {
			return err
		}
	}
	return nil
}
