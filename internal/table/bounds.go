package table

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
	"github.com/decandb/decan/partitionkey"
)

// keyed says whether the clause names whole partition keys.
func (w *where) keyed() bool { return !w.keyRange }

// list returns the values of = or IN: for a tuple relation, tuples.
func (r *restriction) listed(b *binding) ([][]byte, error) {
	if r.operator == cql.Equal {
		v, err := r.bound(b, r.value)
		return [][]byte{v}, err
	}
	if r.value != nil {
		return r.marked(b)
	}
	values := make([][]byte, len(r.list))
	for i, t := range r.list {
		var err error
		if values[i], err = r.bound(b, t); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// marked returns the elements of the list of an IN with a marker.
func (r *restriction) marked(b *binding) ([][]byte, error) {
	unset := r.value.unset(b)
	if unset && r.multi {
		return nil, invalid("Invalid unset value for in%s", r.names())
	}
	if unset {
		return nil, r.noSet()
	}
	v, err := r.value.bind(b)
	switch {
	case err != nil:
		return nil, err
	case v == nil && r.multi:
		return nil, invalid("Invalid null value for IN restriction")
	case v == nil:
		return nil, invalid("Invalid null value for column %s", r.columns[0].Name)
	}
	t := r.columns[0].Type
	if r.multi {
		t = r.tuple(len(r.columns))
	}
	values := elementsOf(t, v)
	if (t.Kind == row.KindSet || t.Kind == row.KindMap) && slices.ContainsFunc(values, func(v []byte) bool { return v != nil && len(v) == 0 }) {
		return nil, invalid("Not enough bytes to read a %s", t.Kind)
	}
	if slices.ContainsFunc(values, func(v []byte) bool { return v == nil }) {
		return nil, r.noValue()
	}
	return values, nil
}

// names returns the columns of a tuple relation as messages have them.
func (r *restriction) names() string {
	names := make([]string, len(r.columns))
	for i, c := range r.columns {
		names[i] = c.Name
	}
	return "(" + strings.Join(names, ",") + ")"
}

// tuple returns the type of a tuple of the first columns.
func (r *restriction) tuple(columns int) *row.Type {
	types := make([]*row.Type, columns)
	for i, c := range r.columns[:columns] {
		types[i] = c.Type
	}
	return row.TupleOf(types...)
}

// bound returns the value of a term, which must not be null.
func (r *restriction) bound(b *binding, t term) ([]byte, error) {
	if t.unset(b) {
		return nil, r.noSet()
	}
	v, err := t.bind(b)
	if err == nil && v == nil {
		err = r.noValue()
	}
	return v, err
}

func (r *restriction) noSet() error {
	if r.multi {
		return invalid("Invalid unset value for tuple %s", r.names())
	}
	return invalid("Invalid unset value for column %s", r.columns[0].Name)
}

func (r *restriction) noValue() error {
	return invalid("Invalid null value in condition for column %s", r.columns[0].Name)
}

// keys returns the routing keys that the clause names, each once, in the order of their
// values. Of equal values with different bytes it returns the first.
func (w *where) keys(b *binding) ([]string, error) {
	if key, one, err := w.oneKey(b); one {
		if err != nil {
			return nil, err
		}
		return w.withTokens(b, []string{key})
	}
	combinations := [][][]byte{nil}
	for _, r := range w.partition {
		values, err := r.listed(b)
		if err != nil {
			return nil, err
		}
		var next [][][]byte
		for _, c := range combinations {
			for _, v := range values {
				if v == nil {
					return nil, r.noValue()
				}
				next = append(next, append(slices.Clone(c), v))
			}
		}
		if len(next) > combinationsMax {
			return nil, invalid("The query selects %d partition keys. At most %d are allowed.", len(next), combinationsMax)
		}
		combinations = next
	}
	keys := make([]string, 0, len(combinations))
	for _, c := range combinations {
		key, err := routingKey(c)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	slices.SortStableFunc(keys, w.compareKeys)
	return w.withTokens(b, slices.CompactFunc(keys, func(a, b string) bool { return w.compareKeys(a, b) == 0 }))
}

// oneKey returns the routing key of a clause with = for each column. one is false for
// others.
func (w *where) oneKey(b *binding) (key string, one bool, err error) {
	var room [4][]byte
	values := room[:0]
	for _, r := range w.partition {
		if !r.equal() {
			return "", false, nil
		}
	}
	for _, r := range w.partition {
		v, err := r.bound(b, r.value)
		if err != nil {
			return "", true, err
		}
		values = append(values, v)
	}
	key, err = routingKey(values)
	return key, true, err
}

// routingKey returns the routing key of the values of a partition key.
func routingKey(values [][]byte) (string, error) {
	key, err := row.RoutingKey(values...)
	if err != nil {
		return "", invalid("%s", err.Error())
	}
	if len(key) == 0 {
		return "", invalid("Key may not be empty")
	}
	return string(key), nil
}

// compareKeys orders routing keys by the values of their columns.
func (w *where) compareKeys(a, b string) int {
	columns := w.table.Partition
	left, err := row.SplitRoutingKey([]byte(a), len(columns))
	right, err2 := row.SplitRoutingKey([]byte(b), len(columns))
	if err != nil || err2 != nil {
		return strings.Compare(a, b) // Not keys of the table.
	}
	for i, c := range columns {
		if order := c.Type.Compare(left[i], right[i]); order != 0 {
			return order
		}
	}
	return 0
}

// withTokens returns the keys whose tokens the clause names. Bounds in the wrong order name
// what is outside of them, as in Apache Cassandra.
func (w *where) withTokens(b *binding, keys []string) ([]string, error) {
	if w.token == nil {
		return keys, nil
	}
	var bounds [2]int64
	t := *w.token
	for i, one := range []term{cmp.Or(t.equal, t.lower), cmp.Or(t.equal, t.upper)} {
		if one == nil {
			continue
		}
		var err error
		if bounds[i], err = tokenOf(one, b); err != nil {
			return nil, err
		}
	}
	above := func(n int64) bool {
		return t.lower == nil && t.equal == nil || n > bounds[0] || n == bounds[0] && (t.lowerInclusive || t.equal != nil)
	}
	below := func(n int64) bool {
		return t.upper == nil && t.equal == nil || n < bounds[1] || n == bounds[1] && (t.upperInclusive || t.equal != nil)
	}
	outside := t.lower != nil && t.upper != nil && bounds[0] > bounds[1]
	return slices.DeleteFunc(keys, func(key string) bool {
		n := partitionkey.Token([]byte(key))
		if outside {
			return !above(n) && !below(n)
		}
		return !above(n) || !below(n)
	}), nil
}

// tokenOf returns the value of a bound on token().
func tokenOf(t term, b *binding) (int64, error) {
	v, err := t.bind(b)
	if err == nil && len(v) == 0 {
		err = invalid("Invalid null token value")
	}
	return row.Integer(v), err
}

// combinationsMax bounds the products of IN lists.
const combinationsMax = 65_535

// tokenRange returns the bounds of the tokens, both included. It is empty if least is
// greater than greatest.
func (w *where) tokenRange(b *binding) (least, greatest int64, err error) {
	least, greatest = math.MinInt64, math.MaxInt64
	if w.token == nil {
		return least, greatest, nil
	}
	t := w.token
	if t.equal != nil {
		// As two bounds, the least integer is the whole ring.
		if least, err = tokenOf(t.equal, b); least == math.MinInt64 {
			return least, greatest, err
		}
		return least, least, err
	}
	if t.lower != nil {
		if least, err = tokenOf(t.lower, b); err != nil {
			return 0, 0, err
		}
		if !t.lowerInclusive {
			if least == math.MaxInt64 {
				return 1, 0, nil
			}
			least++
		}
	}
	if t.upper != nil {
		upper, err := tokenOf(t.upper, b)
		if err != nil {
			return 0, 0, err
		}
		// The least integer as an upper bound is the end of the ring.
		if upper != math.MinInt64 {
			if greatest = upper; !t.upperInclusive {
				greatest--
			}
		}
	}
	return least, greatest, nil
}

// span is a range of encoded clustering keys: those from start up to, but not
// including, end. An empty end is no bound.
type span struct{ start, end []byte }

// spans returns the ranges of clustering keys that the clause names, in order and
// without common keys. All rows are one span without bounds.
func (w *where) spans(b *binding) ([]span, error) {
	if w.prefix == 0 && w.slicing == nil {
		return []span{{}}, nil
	}
	prefixes := [][]byte{nil}
	for i := 0; i < w.prefix; {
		r := w.clustering[i]
		values, err := r.listed(b)
		if err != nil {
			return nil, err
		}
		var next [][]byte
		for _, v := range values {
			key, err := r.encode(v)
			if err != nil {
				return nil, err
			}
			for _, p := range prefixes {
				next = append(next, append(slices.Clone(p), key...))
			}
		}
		if len(next) > combinationsMax {
			return nil, invalid("The query selects %d clustering keys. At most %d are allowed.", len(next), combinationsMax)
		}
		prefixes = next
		i += len(r.columns)
	}
	slices.SortFunc(prefixes, bytes.Compare)
	prefixes = slices.CompactFunc(prefixes, bytes.Equal)
	var all []span
	for _, p := range prefixes {
		spans, err := w.slices(b, p)
		if err != nil {
			return nil, err
		}
		all = append(all, spans...)
	}
	return all, nil
}

// encode encodes a value, or a tuple of values, as a part of a clustering key.
func (r *restriction) encode(v []byte) ([]byte, error) {
	if v == nil {
		return nil, r.noValue()
	}
	if !r.multi {
		return r.columns[0].key().AppendKey(nil, v), nil
	}
	var key []byte
	for i, part := range r.tuple(len(r.columns)).Split(v) {
		if part == nil {
			return nil, invalid("Invalid null value for column %s", r.columns[i].Name)
		}
		key = r.columns[i].key().AppendKey(key, part)
	}
	return key, nil
}

// slices returns the spans of a prefix with the slice of the clause.
func (w *where) slices(b *binding, prefix []byte) ([]span, error) {
	if w.slicing == nil {
		if len(prefix) == 0 {
			return []span{{}}, nil
		}
		return []span{{row.Before(prefix), row.After(prefix)}}, nil
	}
	return w.slicing.spans(b, prefix)
}

// spans returns the ranges of keys that a slice names after a prefix. Bounds of a tuple
// are lexicographic by value, so columns of different directions give several ranges.
func (r *restriction) spans(b *binding, prefix []byte) ([]span, error) {
	lower, err := r.parts(b, r.lower, r.lowerTuple)
	if err != nil {
		return nil, err
	}
	upper, err := r.parts(b, r.upper, r.upperTuple)
	if err != nil {
		return nil, err
	}
	lower, upper, empty, err := r.nulls(lower, upper)
	if err != nil || empty {
		return nil, err
	}
	var all []span
	r.between(prefix, 0, lower, upper, &all)
	slices.SortFunc(all, func(a, b span) int { return bytes.Compare(a.start, b.start) })
	return all, nil
}

// nulls treats null as a bound on one column as Apache Cassandra does: it precedes every
// value in the clustering order. empty says that nothing is between the bounds. Its writers
// fail with such a bound.
func (r *restriction) nulls(lower, upper [][]byte) (low, high [][]byte, empty bool, err error) {
	null := func(bound [][]byte) bool { return bound != nil && bound[0] == nil }
	if !null(lower) && !null(upper) {
		return lower, upper, false, nil
	}
	start, end := &lower, &upper
	if r.columns[0].Descending {
		start, end = end, start
	}
	empty = null(*end)
	if r.writes && (!empty || *start == nil) {
		return nil, nil, false, r.noValue()
	}
	if null(*start) {
		*start = nil
	}
	return lower, upper, empty, nil
}

// parts returns the values of a bound by column, nil for no bound. columns is their number
// if the bound is a tuple.
func (r *restriction) parts(b *binding, t term, columns int) ([][]byte, error) {
	if t == nil {
		return nil, nil
	}
	if columns == 0 {
		switch unset := t.unset(b); {
		case unset && r.multi:
			return [][]byte{{}}, nil // Next to a bound that is a tuple, as in Apache Cassandra.
		case unset:
			return nil, r.noSet()
		}
		v, err := t.bind(b)
		return [][]byte{v}, err
	}
	v, err := r.bound(b, t)
	if err != nil {
		return nil, err
	}
	parts := r.tuple(columns).Split(v)
	for i, part := range parts {
		if part == nil {
			return nil, invalid("Invalid null value in condition for column %s", r.columns[i].Name)
		}
	}
	return parts, nil
}

// between adds the spans of the rows whose values in the columns from at on are between
// two bounds, either of which may be nil.
func (r *restriction) between(prefix []byte, at int, lower, upper [][]byte, all *[]span) {
	column := r.columns[at].key()
	if lower != nil && upper != nil {
		switch c := column.Type.Compare(lower[0], upper[0]); {
		case c > 0:
			return
		case c == 0 && len(lower) > 1 && len(upper) > 1:
			r.between(column.AppendKey(slices.Clone(prefix), lower[0]), at+1, lower[1:], upper[1:], all)
			return
		case c == 0 && (len(lower) == 1 && !r.lowerInclusive || len(upper) == 1 && !r.upperInclusive):
			return
		}
	}
	// The values of this column strictly between the bounds, or equal to one whose
	// columns end here.
	includeLower := lower == nil || len(lower) == 1 && r.lowerInclusive
	includeUpper := upper == nil || len(upper) == 1 && r.upperInclusive
	encode := func(bound [][]byte) []byte {
		if bound == nil {
			return nil
		}
		return column.AppendKey(slices.Clone(prefix), bound[0])
	}
	low, high, withLow, withHigh := encode(lower), encode(upper), includeLower, includeUpper
	if column.Descending {
		low, high, withLow, withHigh = high, low, withHigh, withLow
	}
	start, end := row.Span(prefix, low, withLow, high, withHigh)
	if bytes.Compare(start, end) < 0 {
		*all = append(*all, span{start, end})
	}
	if len(lower) > 1 {
		r.between(encode(lower), at+1, lower[1:], nil, all)
	}
	if len(upper) > 1 {
		r.between(encode(upper), at+1, nil, upper[1:], all)
	}
}
