package partition

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
)

// paths writes the rows of complete paths that differ.
func (b *builder) paths(before, after layout.Paths) {
	b.pathRow(layout.MetaPaths, before.InUse, after.InUse)
	b.pathRow(layout.MetaPathsNext, before.Next, after.Next)
}

func (b *builder) pathRow(name string, before, after layout.PathSet) {
	w := b.writer
	switch {
	case bytes.Equal(before, after):
	case len(after) == 0:
		w.key = storage.MetaKey(w.key[:0], name)
		b.check(b.batch.Delete(w.key))
	default:
		w.key = storage.MetaKey(w.key[:0], name)
		w.cell = after.Append(w.cell[:0])
		b.check(b.batch.Set(w.key, w.cell))
	}
}

// knownPaths returns the complete paths after all proposed effects.
func (p *Partition) knownPaths(now *published) (layout.Paths, error) {
	w := &p.writer
	if !w.pathsKnown {
		// There are no proposed effects since the writer has restarted.
		known, err := layout.ReadPaths(now.Rows)
		if err != nil {
			return layout.Paths{}, fmt.Errorf("partition %v: %w", p.config.Ref, err)
		}
		w.paths, w.pathsKnown = known, true
	}
	return w.paths, nil
}

// firstPaths returns the paths of the first document under a policy. A sweep over all
// documents begins with them.
func (p *Partition) firstPaths(now *published, c *layout.Compiled) (set layout.PathSet, err error) {
	rows := now.Rows.Iter(storage.FamilyRID.Bounds())
	defer func() { err = errors.Join(err, rows.Close()) }()
	if !rows.First() {
		return nil, nil
	}
	row, found, err := now.Rows.Get(nil, storage.DocumentKeyOf(nil, rows.Value()))
	if err != nil || !found {
		return nil, err // The sweep returns the error.
	}
	d, err := layout.DecodeDocument(row)
	if err != nil {
		return nil, err
	}
	if d.Item {
		return nil, nil // No query of a table asks whether a path is complete.
	}
	doc, err := value.Parse(d.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", layout.ErrDocument, err)
	}
	k, err := c.Keys(nil, doc, d.Body, nil)
	return layout.PathsOf(k.Terms), err
}
