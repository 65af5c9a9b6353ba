package table

import (
	"slices"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// batchPart is a statement of a batch with its values.
type batchPart struct {
	write *write
	b     *binding
}

// checkBatch checks what the statements of a batch are together. using is what the text
// of the batch says about time.
func checkBatch(kind cql.BatchKind, using cql.Using, writes []*write) error {
	conditional := slices.ContainsFunc(writes, (*write).conditional)
	counters := 0
	for _, w := range writes {
		if w.table.Counter() {
			counters++
		}
	}
	switch {
	case using.TTL != nil:
		return invalid("Global TTL on the BATCH statement is not supported.")
	case using.Timestamp != nil && conditional:
		return invalid("Cannot provide custom timestamp for conditional BATCH")
	case using.Timestamp != nil && kind == cql.Counter:
		return invalid("Cannot provide custom timestamp for counter BATCH")
	case using.Timestamp != nil && slices.ContainsFunc(writes, func(w *write) bool { return w.timestamp != nil }):
		return invalid("Timestamp must be set either on BATCH or individual statements")
	case using.Timestamp != nil && counters > 0:
		return invalid("Cannot provide custom timestamp for a BATCH containing counters")
	case kind == cql.Counter && counters < len(writes):
		return invalid("Cannot include non-counter statement in a counter batch")
	case counters > 0 && counters < len(writes):
		return invalid("Counter and non-counter mutations cannot exist in the same batch")
	case kind == cql.Logged && counters > 0:
		return invalid("Cannot include a counter statement in a logged batch")
	case conditional && slices.ContainsFunc(writes, func(w *write) bool { return w.table != writes[0].table }):
		return invalid("Batch with conditions cannot span multiple tables")
	}
	return nil
}

// checkOneKey checks that the statements of a batch with conditions name one partition key,
// and each of them one row, before anything else of them is bound.
func checkOneKey(parts []batchPart) error {
	only := ""
	for i, p := range parts {
		keys, err := p.write.where.keys(p.b)
		if err == nil {
			err = p.write.checkInBatch()
		}
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			if i > 0 && only != keys[0] {
				return invalid("Batch with conditions cannot span multiple partitions")
			}
			only = keys[0]
		}
		if err := p.write.checkOneRow(); err != nil {
			return err
		}
		if _, err := p.write.targets(p.b); err != nil {
			return err
		}
		if _, err := p.write.bindConditions(p.b); err != nil {
			return err
		}
	}
	return nil
}

// bindBatch returns what the statements of a batch do, one change for each partition key
// of each table. times is the timestamp of all of them; it must not be nil if they name
// several partition keys, because one writer knows nothing of another.
func bindBatch(parts []batchPart, times *int64, now int64) ([]*KeyChange, error) {
	if slices.ContainsFunc(parts, func(p batchPart) bool { return p.write.conditional() }) {
		if err := checkOneKey(parts); err != nil {
			return nil, err
		}
	}
	var all []*KeyChange
	for i, p := range parts {
		changes, err := p.write.bind(p.b, times, now)
		if err != nil {
			// As in Apache Cassandra, the keys of all statements come before their values.
			for _, later := range parts[i:] {
				if _, first := later.write.where.keys(later.b); first != nil {
					return nil, first
				}
			}
			return nil, err
		}
		for _, c := range changes {
			same := slices.IndexFunc(all, func(o *KeyChange) bool { return o.Table == c.Table && o.Key == c.Key })
			if same < 0 {
				all = append(all, c)
			} else {
				all[same].Join(c)
			}
		}
		if len(all) > 1 && slices.ContainsFunc(parts, func(p batchPart) bool { return p.write.conditional() }) {
			return nil, invalid("Batch with conditions cannot span multiple partitions")
		}
	}
	for _, c := range all {
		if err := c.mixed(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// mixed refuses conditions on one row that exclude each other.
func (k *KeyChange) mixed() error {
	type seen struct{ exists, notExists, others bool }
	rows := map[string]*seen{}
	for _, on := range k.conditions {
		name := string(on.key)
		if rows[name] == nil {
			rows[name] = &seen{}
		}
		s := rows[name]
		for _, c := range on.all {
			switch c.Kind {
			case row.RowExists:
				s.exists = true
			case row.RowNotExists:
				s.notExists = true
			default:
				s.others = true
			}
		}
		switch {
		case s.exists && s.notExists:
			return invalid("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row")
		case s.others && s.notExists:
			return invalid("Cannot mix IF conditions and IF NOT EXISTS for the same row")
		}
	}
	return nil
}
