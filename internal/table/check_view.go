package table

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/decandb/decan/internal/row"
)

// ViewRow is a row of a materialized view as readers see it at a time.
type ViewRow struct {
	Key, Item string // its place in the view
	Shown     []byte // its cells, and the original bytes of its clustering key
	Base      string // routing key of its row in the table
}

// Reader returns a function that is called with the items of one partition of the table in
// their order, and returns the row that the view must have for each, at a time in seconds
// since 1970. ok is false if it must have none. pending says that updates of the view are
// outstanding for the partition key.
func (p *Projection) Reader(now int64) func(key, item, body []byte) (r ViewRow, ok, pending bool, err error) {
	var of []byte // the routing key of meta
	var meta row.Meta
	return func(key, item, body []byte) (r ViewRow, ok, pending bool, err error) {
		if !bytes.Equal(of, key) {
			of, meta = append(of[:0], key...), row.Meta{}
		}
		switch item[0] {
		case MetaItem[0]:
			meta, err = row.DecodeMeta(bytes.Clone(body))
		case OutboxItems[0], OutboxRange[0]:
			pending = true
		default:
			r, ok, err = p.must(string(key), string(item), body, &meta, now)
		}
		return r, ok, pending, err
	}
}

// must returns the row of the view for a stored item of the table. meta has the deletions of
// its partition key.
func (p *Projection) must(key, item string, body []byte, meta *row.Meta, now int64) (r ViewRow, ok bool, err error) {
	if item[0] != RowItems[0] {
		return r, false, nil
	}
	stored, err := row.DecodeRow(body)
	if err != nil {
		return r, false, err
	}
	b, err := p.base.baseRow(key, item, &stored)
	if err != nil {
		return r, false, err
	}
	shown := stored.Shadow(meta.Covering(b.key))
	b.row = &shown
	at, image, ok, err := p.image(&b, now)
	if err != nil || !ok {
		return r, false, err
	}
	return ViewRow{Key: at.Key, Item: at.Item, Shown: p.shown(&image, now), Base: key}, true, nil
}

// Has returns a stored item of the view, as [Projection.Reader] does. ok is false if it is no
// row that readers see.
func (p *Projection) Has(key, item string, body []byte, now int64) (r ViewRow, ok bool, err error) {
	if item[0] != RowItems[0] {
		return r, false, nil
	}
	stored, err := row.DecodeRow(body)
	if err != nil {
		return r, false, err
	}
	if !stored.Marker.Live(now) && (p.extra != nil || !stored.Alive(now)) {
		return r, false, nil
	}
	b, err := p.View.baseRow(key, item, &stored)
	if err != nil {
		return r, false, err
	}
	values := make([][]byte, len(p.base.Partition))
	for i, c := range p.partition {
		if c.Kind == PartitionKey {
			values[c.Position] = b.partition[i]
		}
	}
	for i, c := range p.clustering {
		if c.Kind == PartitionKey {
			values[c.Position] = b.clustering[i]
		}
	}
	base, err := row.RoutingKey(values...)
	if err != nil {
		return r, false, err
	}
	return ViewRow{Key: key, Item: item, Shown: p.shown(&stored, now), Base: string(base)}, true, nil
}

// shown encodes what readers see of a row of the view.
func (p *Projection) shown(r *row.Row, now int64) []byte {
	seen := row.Row{Key: r.Key}
	for i := range r.Cells {
		if c := &r.Cells[i]; p.regular[c.Column] && c.Live(now) {
			seen.Cells = append(seen.Cells, *c)
		}
	}
	return seen.Append(nil)
}

// Checker returns a function that verifies the items of the table in the order of its
// store, as [Table.CheckItem] does, and that nothing is left that a deletion covers whose
// sweep is finished.
func (t *Table) Checker() func(key, item, body []byte) error {
	var of []byte // the routing key of meta
	var meta row.Meta
	var reader row.Reader
	return func(key, item, body []byte) error {
		if err := t.CheckItem(item, body); err != nil {
			return err
		}
		if !bytes.Equal(key, of) {
			of, meta = append(of[:0], key...), row.Meta{}
		}
		covered := meta.Deletion
		switch item[0] {
		case MetaItem[0]:
			var err error
			meta, err = row.DecodeMeta(bytes.Clone(body))
			return err
		case RowItems[0]:
			covered = meta.Covering(item[1:])
		case StaticItem[0]:
		default:
			return nil
		}
		if meta.Sweep.Pending {
			return nil
		}
		left, err := coversSome(&reader, body, covered)
		if err == nil && left {
			err = fmt.Errorf("a deletion of its partition key covers it, and the removal of what that covers has ended")
		}
		return err
	}
}

// ViewBuilds is the name of the server's own table with the state of the building of each
// view, whose routing key is the RID of the view.
const ViewBuilds = "views"

// ViewBuildState is how far the building of a view is.
type ViewBuildState struct {
	Done  bool   `json:"done,omitempty"`
	Rows  int64  `json:"rows,omitempty"`
	After []byte `json:"after,omitempty"` // position of the last row that was read
	Key   []byte `json:"key,omitempty"`   // and its routing key
}

// DecodeViewBuildState reads the body of an item of [ViewBuilds].
func DecodeViewBuildState(body []byte) (s ViewBuildState, err error) {
	stored, err := row.DecodeRow(body)
	if err != nil {
		return s, err
	}
	if len(stored.Cells) != 1 {
		return s, fmt.Errorf("it has %d cells", len(stored.Cells))
	}
	return s, json.Unmarshal(stored.Cells[0].Value, &s)
}

// Append appends the body of the item of the state, written at a time in microseconds since
// 1970.
func (s *ViewBuildState) Append(dst []byte, micros int64) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return dst, err
	}
	stored := row.Row{Cells: []row.Cell{{Timestamp: micros, Value: text}}}
	return stored.Append(dst), nil
}
