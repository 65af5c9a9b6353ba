package table

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"github.com/decandb/decan/internal/row"
)

// run is one execution of a query for one page.
type run struct {
	q       *query
	b       *binding
	options *PageOptions
	at      cursor // of the last row on the page
	page    Page
	more    bool // there is a row after the page

	limit, limitOfKey int64 // LIMIT and PER PARTITION LIMIT; negative for none

	filters   []filter
	selectors []selector
	inGroup   bool   // the selectors have a group that is not on the page
	groupKey  []byte // of that group
	groupAt   []byte // the key of the last row of that group

	key    string   // of the partition that is read
	values [][]byte // of the key
	meta   row.Meta
	view   view
	reader row.Reader
	keys   row.KeyDecoder
	static bool // the static row is alive
	rows   int  // live rows of the partition seen

	reads, readBytes int // items that were read for the page

	skip   bool // nothing else of the partition is needed
	merged []mergedRow

	mergedBytes int // of merged
	held        int // bytes of options.Memory
}

// mergedRow is a row that waits for those of other keys.
type mergedRow struct {
	key   []byte // the columns of ORDER BY, encoded
	cells []byte
}

// run reads one page.
func (q *query) run(ctx context.Context, source Source, b *binding, options *PageOptions) (Page, error) {
	if q.feed != nil {
		return q.runFeed(ctx, source, b, options)
	}
	r := &run{q: q, b: b, options: options}
	if err := r.begin(); err != nil {
		return Page{}, err
	}
	if r.at.limit == 0 {
		r.page.Warning = q.warning()
		return r.page, nil
	}
	var err error
	if q.where.keyed() {
		err = r.byKeys(ctx, source)
	} else {
		err = r.byTokens(ctx, source)
	}
	if err == nil {
		err = r.finish()
	}
	return r.page, err
}

// begin prepares the page.
func (r *run) begin() (err error) {
	q := r.q
	r.at = cursor{limit: -1, perPartition: -1}
	r.keys.Columns = q.keyColumns
	if q.limit != nil {
		if r.at.limit, err = limitOf(q.limit, r.b); err != nil {
			return err
		}
	}
	r.limit = r.at.limit
	if r.limitOfKey, err = r.partitionLimit(); err != nil {
		return err
	}
	if len(r.options.State) > 0 {
		if r.at, err = decodeState(r.options.State, r.options.Secret, r.options.ID); err != nil {
			return err
		}
	}
	if len(q.table.Dropped) > 0 {
		r.reader.Known = q.table.has
	}
	r.view = view{values: make([]row.Value, len(q.statics)+len(q.regulars)), now: r.options.Now, slot: q.slot}
	if q.plain != nil {
		return nil
	}
	for _, e := range q.expressions {
		s, err := e.selector(r.b)
		if err != nil {
			return err
		}
		r.selectors = append(r.selectors, s)
	}
	return nil
}

// through binds the filters, which Apache Cassandra does when it knows that the key allows
// rows, and returns the source through the index of the query, if there is one.
func (r *run) through(source Source, rows bool) (Source, error) {
	if !rows {
		return source, nil
	}
	if err := r.bindFilters(); err != nil {
		return nil, err
	}
	a := r.q.where.access
	indexed, ok := source.(Indexed)
	if a == nil || !ok {
		return source, nil
	}
	found, err := a.lookup(r.q.where, r.b)
	if err != nil {
		return nil, err
	}
	return indexed.Through(*found), nil
}

func (r *run) bindFilters() error {
	for _, one := range r.q.where.tuples {
		if _, err := one.bindFilter(r.b); err != nil {
			return err
		}
	}
	for _, one := range r.q.where.filters {
		f, err := one.bindFilter(r.b)
		if err != nil {
			return err
		}
		if a := r.q.where.access; a != nil && a.by == one {
			f.same = true
		}
		r.filters = append(r.filters, f)
	}
	by := r.q.where.sameBytes()
	if by == nil {
		return nil
	}
	f, err := by.bindFilter(r.b)
	f.same = true
	r.filters = append(r.filters, f)
	return err
}

// limitOf returns the value of a LIMIT.
func limitOf(t term, b *binding) (int64, error) {
	if t.unset(b) {
		return -1, nil
	}
	v, err := t.bind(b)
	switch {
	case err != nil:
		return 0, err
	case v == nil:
		return 0, invalid("Invalid null value of limit")
	case row.Integer(v) <= 0:
		return 0, invalid("LIMIT must be strictly positive")
	}
	return row.Integer(v), nil
}

// partitionLimit returns the limit for each key.
func (r *run) partitionLimit() (int64, error) {
	if r.q.perKey == nil {
		return -1, nil
	}
	if r.q.perKey.unset(r.b) {
		return -1, nil
	}
	return limitOf(r.q.perKey, r.b)
}

// byKeys reads the partitions that the statement names.
func (r *run) byKeys(ctx context.Context, source Source) error {
	var spans []span
	var err error
	if r.q.where.indexed { // The key is looked at where rows are possible, as in Apache Cassandra.
		if spans, err = r.q.where.spans(r.b); err != nil || len(spans) == 0 {
			return err
		}
	}
	keys, err := r.q.where.keys(r.b)
	if err != nil {
		return err
	}
	if len(keys) > 0 { // Otherwise nothing else is looked at, as in Apache Cassandra.
		if spans, err = r.q.where.spans(r.b); err != nil {
			return err
		}
	}
	if source, err = r.through(source, len(spans) > 0); err != nil {
		return err
	}
	r.page.Warning = r.q.warning()
	if err := r.q.checkPaging(r.options.Size, len(keys) == 0 || len(spans) == 0); err != nil {
		return err
	}
	if r.at.key != "" {
		at, found := slices.BinarySearchFunc(keys, r.at.key, r.q.where.compareKeys)
		if found && r.at.done {
			at++
		}
		keys = keys[at:]
	}
	for _, key := range keys {
		if err := r.ofKey(ctx, source, key, spans); err != nil || r.more {
			return err
		}
	}
	return nil
}

// ofKey reads the spans of one partition, or what follows the cursor in it.
func (r *run) ofKey(ctx context.Context, source Source, key string, spans []span) error {
	resumed := key == r.at.key && !r.at.done
	if err := r.enter(key, resumed); err != nil {
		return err
	}
	if resumed {
		spans = after(spans, r.at.row, r.q.reverse)
	}
	if err := source.Key(ctx, key, r.itemSlices(spans), r.item); err != nil {
		return err
	}
	if r.more {
		return nil
	}
	return r.leave()
}

// after returns the parts of spans that follow a key in the order of reading.
func after(spans []span, key []byte, reverse bool) (rest []span) {
	for _, s := range spans {
		if reverse {
			if len(s.end) == 0 || bytes.Compare(s.end, key) > 0 {
				s.end = key
			}
		} else if next := append(slices.Clone(key), 0); bytes.Compare(s.start, next) < 0 {
			s.start = next
		}
		if len(s.end) == 0 && !reverse || bytes.Compare(s.start, s.end) < 0 {
			rest = append(rest, s)
		}
	}
	return rest
}

// itemSlices returns the items to read of a partition.
func (r *run) itemSlices(spans []span) []ItemSlice {
	list := append(make([]ItemSlice, 0, 2+len(spans)), ItemSlice{From: MetaItem, To: MetaItem + "\x00"})
	if len(r.q.table.Static) > 0 {
		list = append(list, ItemSlice{From: StaticItem, To: StaticItem + "\x00"})
	}
	before := len(list)
	for _, s := range spans {
		one := ItemSlice{From: RowItems + string(s.start), To: rowsEnd, Reverse: r.q.reverse}
		if len(s.end) > 0 {
			one.To = RowItems + string(s.end)
		}
		list = append(list, one)
	}
	if r.q.reverse {
		slices.Reverse(list[before:])
	}
	return list
}

// byTokens reads the partitions of a range of tokens.
func (r *run) byTokens(ctx context.Context, source Source) error {
	least, greatest, err := r.q.where.tokenRange(r.b)
	if err != nil {
		return err
	}
	spans, err := r.q.where.spans(r.b)
	if err != nil {
		return err
	}
	if source, err = r.through(source, len(spans) > 0); err != nil {
		return err
	}
	r.page.Warning = r.q.warning()
	from := r.at.key
	if from != "" && !r.at.done {
		if err := r.ofKey(ctx, source, from, spans); err != nil || r.more {
			return err
		}
	}
	for least <= greatest {
		r.key, r.skip = "", false
		err := source.Tokens(ctx, least, greatest, from, func(key, item, body []byte) (bool, error) {
			if string(key) != r.key {
				if err := r.next(string(key)); err != nil || r.more {
					return false, err
				}
			}
			from = r.key
			if item[0] == RowItems[0] && !within(spans, item[1:]) {
				r.read(body)
				return !r.endAt(item[1:]), nil
			}
			return r.item(item, body)
		})
		if err != nil || r.more {
			return err
		}
		if !r.skip {
			break
		}
		if err := r.leave(); err != nil || r.more {
			return err
		}
	}
	if r.key != "" && !r.skip {
		return r.leave()
	}
	return nil
}

// next leaves the partition that was read and enters another one.
func (r *run) next(key string) error {
	if r.key != "" {
		if err := r.leave(); err != nil || r.more {
			return err
		}
		if r.over() {
			r.at.key, r.at.row, r.at.done, r.at.bare = r.key, nil, true, false
			r.more = true
			return nil
		}
	}
	return r.enter(key, false)
}

// read counts an item that was read for the page.
func (r *run) read(body []byte) {
	r.reads++
	r.readBytes += len(body)
}

// over says whether enough was read for the page.
func (r *run) over() bool {
	if r.options.Size <= 0 || r.q.aggregates || len(r.q.group) > 0 || r.q.ordered > 0 {
		return false
	}
	return r.reads >= cmp.Or(r.options.Reads, pageReads) || r.readBytes >= pageReadBytes
}

// endAt ends the page after a row, if enough was read. It returns whether the page ends.
func (r *run) endAt(key []byte) bool {
	if !r.over() {
		return false
	}
	r.at.key, r.at.row, r.at.done, r.at.bare = r.key, bytes.Clone(key), false, r.rows == 0
	r.more = true
	return true
}

// within says whether a key is in one of the spans.
func within(spans []span, key []byte) bool {
	return slices.ContainsFunc(spans, func(s span) bool {
		return bytes.Compare(s.start, key) <= 0 && (len(s.end) == 0 || bytes.Compare(key, s.end) < 0)
	})
}

// enter begins a partition.
func (r *run) enter(key string, resumed bool) error {
	values, err := row.SplitRoutingKey([]byte(key), len(r.q.table.Partition))
	if err != nil {
		return err
	}
	r.key, r.values, r.view.key = key, values, values
	r.meta, r.static, r.rows, r.skip = row.Meta{}, false, 0, false
	clear(r.view.values)
	if resumed {
		if !r.at.bare {
			r.rows = 1
		}
		return nil
	}
	r.at.perPartition = r.limitOfKey
	return nil
}

// item reads one item of the partition.
func (r *run) item(item, body []byte) (more bool, err error) {
	r.read(body)
	switch item[0] {
	case OutboxItems[0], OutboxRange[0]:
		return true, nil
	case MetaItem[0]:
		meta, err := row.DecodeMeta(bytes.Clone(body))
		r.meta = meta
		return true, err
	case StaticItem[0]:
		values := r.view.values[:len(r.q.statics)]
		r.static, err = r.reader.Read(bytes.Clone(body), r.q.statics, row.Snapshot{Now: r.options.Now, Covered: r.meta.Deletion}, values)
		return true, err
	}
	if more, err = r.row(item[1:], body); err == nil && more {
		more = !r.endAt(item[1:])
	}
	return more, err
}

// row reads a row of the partition.
func (r *run) row(key, body []byte) (more bool, err error) {
	regulars := r.view.values[len(r.q.statics):]
	alive, err := r.reader.Read(body, r.q.regulars, row.Snapshot{Now: r.options.Now, Covered: r.meta.Covering(key)}, regulars)
	if v := r.q.table.View; v != nil && v.Strict {
		alive = r.reader.Marker.Live(r.options.Now)
	}
	if err != nil || !alive {
		return true, err
	}
	r.rows++
	if r.q.clustering {
		if err := r.clusteringOf(key, body); err != nil {
			return false, err
		}
	}
	return r.add(key)
}

// clusteringOf sets the values of the clustering columns of a row.
func (r *run) clusteringOf(key, body []byte) error {
	values, err := r.keys.Decode(key)
	if err != nil {
		return err
	}
	if err := r.reader.Reset(body); err != nil {
		return err
	}
	for _, original := range r.reader.KeyValues() {
		if original.Column < len(values) {
			values[original.Column] = original.Value
		}
	}
	r.view.clustering = values
	return nil
}

// leave ends a partition: one with a live static row and without rows is a row itself.
func (r *run) leave() error {
	if r.static && r.rows == 0 && r.q.where.prefix == 0 && r.q.where.slicing == nil {
		r.view.clustering = nil
		clear(r.view.values[len(r.q.statics):])
		if _, err := r.add(nil); err != nil {
			return err
		}
		if r.more {
			return nil
		}
	}
	if len(r.q.group) > 0 && r.inGroup { // A group never has rows of two partition keys.
		if err := r.endGroup(); err != nil {
			return err
		}
	}
	if (!r.q.aggregates || len(r.q.group) > 0) && r.at.key == r.key {
		r.at.done = true
	}
	return nil
}

// add adds the row in the view to the result, if it passes the filters. It returns
// false if nothing else of the partition, or at all, is to be read.
func (r *run) add(key []byte) (more bool, err error) {
	for i := range r.filters {
		if !r.filters[i].accepts(&r.view) {
			return true, nil
		}
	}
	if r.at.perPartition == 0 {
		r.skip = true
		return false, nil
	}
	if r.q.aggregates || len(r.q.group) > 0 {
		if more, err = r.addToGroup(key); more && r.q.distinct {
			r.skip = true
			return false, err
		}
		return more, err
	}
	if r.at.limit == 0 {
		r.stop()
		return false, nil
	}
	if r.q.ordered == 0 && r.full() {
		r.more = true
		return false, nil
	}
	start := len(r.page.Rows)
	if err := r.emit(); err != nil {
		return false, err
	}
	if r.q.ordered > 0 {
		prefix, err := r.orderOf(key)
		if err != nil {
			return false, err
		}
		cells := bytes.Clone(r.page.Rows[start:])
		r.merged = append(r.merged, mergedRow{key: prefix, cells: cells})
		r.mergedBytes += len(prefix) + len(cells) + mergedRowBytes
		r.page.Rows = r.page.Rows[:start]
		if r.at.perPartition > 0 {
			r.at.perPartition--
		}
		return true, nil
	}
	r.returnedRow(key)
	if r.q.distinct {
		r.skip = true
		return false, nil
	}
	return true, nil
}

// orderOf returns the part of an encoded clustering key by which rows are merged. A static
// row without rows has none: it precedes all rows in the order of the table.
func (r *run) orderOf(key []byte) ([]byte, error) {
	if key == nil {
		return nil, nil
	}
	rest := key
	for _, c := range r.q.table.Clustering[:r.q.ordered] {
		var err error
		if _, rest, err = c.key().CutKey(rest); err != nil {
			return nil, err
		}
	}
	return bytes.Clone(key[:len(key)-len(rest)]), nil
}

// stop ends the reading because of LIMIT: there is no next page.
func (r *run) stop() { r.more = true }

// full says whether the page has no room for another row.
func (r *run) full() bool {
	return r.options.Size > 0 && (r.page.Count >= r.options.Size || len(r.page.Rows) >= pageBytes)
}

// returnedRow counts a row on the page.
func (r *run) returnedRow(key []byte) {
	r.page.Count++
	r.at.key, r.at.row, r.at.done, r.at.bare = r.key, append(r.at.row[:0], key...), false, false
	if r.at.limit > 0 {
		r.at.limit--
	}
	if r.at.perPartition > 0 {
		r.at.perPartition--
	}
}

// emit appends the cells of the row in the view.
func (r *run) emit() error {
	if err := r.hold(); err != nil {
		return err
	}
	if r.q.plain != nil {
		size := 0
		for _, p := range r.q.plain {
			size += cellSize + len(r.plain(p))
		}
		r.page.Rows = slices.Grow(r.page.Rows, size)
		for _, p := range r.q.plain {
			r.page.Rows = appendCell(r.page.Rows, r.plain(p))
		}
		return nil
	}
	for _, s := range r.selectors {
		s.reset()
		if err := s.add(&r.view); err != nil {
			return err
		}
	}
	return r.emitSelectors()
}

// plain returns the value of a selected column in the view.
func (r *run) plain(p plainColumn) []byte {
	switch p.kind {
	case PartitionKey:
		return r.view.key[p.index]
	case Clustering:
		if r.view.clustering == nil {
			return nil
		}
		return r.view.clustering[p.index]
	case Static, Regular:
	}
	return r.view.values[p.index].Bytes
}

// emitSelectors appends the cells of the values of the selectors.
func (r *run) emitSelectors() error {
	if !r.q.json {
		for _, s := range r.selectors {
			v, err := s.value()
			if err != nil {
				return err
			}
			r.page.Rows = appendCell(r.page.Rows, v)
		}
		return nil
	}
	text := []byte{'{'}
	for i, s := range r.selectors {
		v, err := s.value()
		if err != nil {
			return err
		}
		if i > 0 {
			text = append(text, ", "...)
		}
		text = row.AppendJSONName(text, r.q.columns[i].Name)
		text = append(text, ": "...)
		text = r.q.columns[i].Type.AppendJSON(text, v)
	}
	r.page.Rows = appendCell(r.page.Rows, append(text, '}'))
	return nil
}

// finish completes the page.
func (r *run) finish() error {
	q := r.q
	switch {
	case q.ordered > 0:
		r.merge()
	case r.inGroup && !r.more:
		if err := r.endGroup(); err != nil {
			return err
		}
	case q.aggregates && len(q.group) == 0 && r.page.Count == 0 && len(r.options.State) == 0:
		for _, s := range r.selectors {
			s.reset()
		}
		if err := r.emitSelectors(); err != nil {
			return err
		}
		r.page.Count++
	}
	if r.more && r.at.limit != 0 {
		r.page.State = r.at.appendState(nil, r.options.Secret, r.options.ID)
	}
	return nil
}

// merge puts the rows of several keys on the page in clustering order.
func (r *run) merge() {
	slices.SortStableFunc(r.merged, func(a, b mergedRow) int {
		if r.q.reverse {
			return bytes.Compare(b.key, a.key)
		}
		return bytes.Compare(a.key, b.key)
	})
	for _, m := range r.merged {
		if r.at.limit == 0 {
			break
		}
		r.page.Rows = append(r.page.Rows, m.cells...)
		r.page.Count++
		if r.at.limit > 0 {
			r.at.limit--
		}
	}
	r.more = false
}

// cellSize is the number of bytes of a cell in addition to its value.
const cellSize = 4

// appendCell appends a value as a cell of a result: its length and bytes, or null.
func appendCell(dst, v []byte) []byte {
	if v == nil {
		return append(dst, 0xFF, 0xFF, 0xFF, 0xFF)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(v))), v...)
}
