package table

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
	"github.com/decandb/decan/partitionkey"
)

// Feed is a [Source] with a change feed.
type Feed interface {
	// Changes returns a page of the changes.
	Changes(ctx context.Context, ask FeedAsk) (FeedChanges, error)
}

// FeedAsk asks for a page of the change feed of a table.
type FeedAsk struct {
	Key      string             // a routing key; empty for all keys of Range
	Range    partitionkey.Range // of the hashed keys
	After    string             // Position of the page before; empty at the beginning
	Since    int64              // at the beginning: the second since 1970 of the first change; 0 for any
	Now      bool               // at the beginning: leave out all changes so far
	MaxItems int                // of the page, which has whole writes; 0 or less for the source's own
	Others   []string           // other items of the same keys to read
}

// FeedChanges is a page of the change feed of a table.
type FeedChanges struct {
	Items    []FeedItem // in the order of their last changes, of each physical partition
	Position string     // where the next page begins; never empty
}

// FeedItem is an item that has changed, as it is now.
type FeedItem struct {
	Key, Item, Body []byte
	Others          [][]byte // the bodies of the items that FeedAsk.Others names; nil for none
}

// feed is what WHERE says about the change feed.
type feed struct {
	since term // of COSMOS_CHANGEFEED_START_TIME(); nil without
	start term // of COSMOS_CHANGEFEED_FROM_START(); nil without
	part  term // of COSMOS_FEEDRANGE(); nil for the whole table
}

// compileFeed compiles the functions of the change feed in WHERE. It returns nil if there
// are none.
func (a *terms) compileFeed(q *query, s *cql.Select) (*feed, error) {
	f := &feed{}
	for i := range s.Where {
		if r := &s.Where[i]; r.Kind == cql.OnFeed {
			if err := f.add(a, q.table, r); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case *f == feed{}:
		return nil, nil
	case f.since == nil && f.start == nil:
		return nil, invalid("COSMOS_FEEDRANGE() needs COSMOS_CHANGEFEED_START_TIME() or COSMOS_CHANGEFEED_FROM_START()")
	case f.since != nil && f.start != nil:
		return nil, invalid("COSMOS_CHANGEFEED_START_TIME() and COSMOS_CHANGEFEED_FROM_START() exclude each other")
	}
	return f, q.checkFeed(f, s)
}

// add compiles one function.
func (f *feed) add(a *terms, t *Table, r *cql.Relation) error {
	name := r.Columns[0]
	shown := strings.ToUpper(name) + "()"
	to, kind := &f.since, row.KindTimestamp
	switch name {
	case cql.FeedVersions:
		return invalid("The change feed of a table has the latest versions of rows only: %s is not supported", shown)
	case cql.FeedFromStart:
		to, kind = &f.start, row.KindBoolean
	case cql.FeedRange:
		to, kind = &f.part, row.KindText
	}
	if r.Operator != cql.Equal {
		return invalid("Only = is supported after %s, not %s", shown, r.Operator)
	}
	if *to != nil {
		return invalid("%s cannot be restricted by more than one relation", shown)
	}
	value, err := a.compile(r.Value, t.receiver(native(kind), name+"()"))
	*to = value
	return err
}

// checkFeed refuses what a feed cannot do: it has one order, and no end.
func (q *query) checkFeed(f *feed, s *cql.Select) error {
	refused := func(what string) error { return invalid("The change feed does not support %s", what) }
	switch w := q.where; {
	case unmodifiable(q.table.Keyspace) != nil:
		return refused("system tables")
	case q.distinct:
		return refused("DISTINCT")
	case q.aggregates:
		return refused("aggregates")
	case len(s.GroupBy) > 0:
		return refused("GROUP BY")
	case len(s.OrderBy) > 0:
		return refused("ORDER BY: its rows are in the order of their changes")
	case s.PerPartitionLimit != nil:
		return refused("PER PARTITION LIMIT")
	case s.Limit != nil:
		return refused("LIMIT: it has no end. Use the page size")
	case w.keyIn:
		return refused("IN on the partition key")
	case w.token != nil && w.keyed():
		return refused("token() together with the partition key")
	case f.part != nil && (w.keyed() || w.token != nil):
		return refused("COSMOS_FEEDRANGE() together with the partition key or token()")
	}
	return nil
}

// others are the items that are read with each row: the deletions of its key, and the
// static row.
func (q *query) others() []string {
	if len(q.statics) == 0 {
		return []string{MetaItem}
	}
	return []string{MetaItem, StaticItem}
}

// runFeed reads one page of the change feed.
func (q *query) runFeed(ctx context.Context, source Source, b *binding, options *PageOptions) (Page, error) {
	from, ok := source.(Feed)
	if !ok {
		return Page{}, invalid("The change feed does not support system tables")
	}
	r := &run{q: q, b: b, options: &PageOptions{Now: options.Now, Memory: options.Memory}} // The page has all rows of the changes.
	if err := r.begin(); err != nil {
		return Page{}, err
	}
	spans, err := q.where.spans(b)
	if err != nil {
		return Page{}, err
	}
	if err := r.bindFilters(); err != nil {
		return Page{}, err
	}
	ask, err := q.feedAsk(b)
	if err != nil {
		return Page{}, err
	}
	ask.MaxItems = options.Size
	of := feedOf(q.table, &ask)
	if options.State != nil {
		if ask.After, err = decodeFeedState(options.State, options.Secret, of); err != nil {
			return Page{}, err
		}
	}
	changes, err := from.Changes(ctx, ask)
	if err != nil {
		return Page{}, err
	}
	for i := range changes.Items {
		item := &changes.Items[i]
		if ask.Key != "" && string(item.Key) != ask.Key {
			continue // of another key with the same token
		}
		if err := r.change(item, spans); err != nil {
			return Page{}, err
		}
	}
	r.page.State = appendFeedState(nil, changes.Position, options.Secret, of)
	return r.page, nil
}

// feedAsk returns what the values of the statement ask for.
func (q *query) feedAsk(b *binding) (FeedAsk, error) {
	ask := FeedAsk{Range: partitionkey.Full(), Others: q.others()}
	value := func(t term, name string) ([]byte, error) {
		if t.unset(b) {
			return nil, invalid("Invalid unset value for %s()", strings.ToUpper(name))
		}
		v, err := t.bind(b)
		if err == nil && len(v) == 0 {
			err = invalid("Invalid null value for %s()", strings.ToUpper(name))
		}
		return v, err
	}
	if t := q.feed.since; t != nil {
		v, err := value(t, cql.FeedStartTime)
		if err != nil {
			return ask, err
		}
		// The time of a change has seconds, so all changes of the second count.
		const milli = 1000
		ask.Since = max(0, row.Integer(v)/milli)
	}
	if t := q.feed.start; t != nil {
		v, err := value(t, cql.FeedFromStart)
		if err != nil {
			return ask, err
		}
		ask.Now = v[0] == 0
	}
	if t := q.feed.part; t != nil {
		v, err := value(t, cql.FeedRange)
		if err != nil {
			return ask, err
		}
		if ask.Range, err = ParseFeedRange(string(v)); err != nil {
			return ask, err
		}
	}
	if q.where.keyed() {
		keys, err := q.where.keys(b)
		if err == nil {
			ask.Key = keys[0]
		}
		return ask, err
	}
	if q.where.token != nil {
		least, greatest, err := q.where.tokenRange(b)
		if err == nil && least > greatest {
			err = invalid("The range of tokens is empty")
		}
		ask.Range = tokenBounds(least, greatest)
		return ask, err
	}
	return ask, nil
}

// tokenBounds returns the hashed keys of a range of tokens, both included.
func tokenBounds(least, greatest int64) partitionkey.Range {
	bounds := partitionkey.Range{Min: partitionkey.TokenEPK(least), Max: partitionkey.MaxEPK}
	if above := greatest + 1; above > greatest {
		bounds.Max = partitionkey.TokenEPK(above)
	}
	return bounds
}

// change adds the row of a changed item to the page, if it is alive and accepted.
func (r *run) change(item *FeedItem, spans []span) error {
	rows := item.Item[0] == RowItems[0]
	if !rows && item.Item[0] != StaticItem[0] {
		return nil
	}
	if err := r.enter(string(item.Key), false); err != nil {
		return err
	}
	if meta := item.Others[0]; meta != nil {
		if _, err := r.item([]byte(MetaItem), meta); err != nil {
			return err
		}
	}
	switch {
	case rows && len(item.Others) > 1 && item.Others[1] != nil:
		if _, err := r.item([]byte(StaticItem), item.Others[1]); err != nil {
			return err
		}
	case !rows:
		if _, err := r.item([]byte(StaticItem), item.Body); err != nil {
			return err
		}
		if !r.static || r.q.where.prefix > 0 || r.q.where.slicing != nil {
			return nil
		}
		r.view.clustering = nil
		_, err := r.add(nil)
		return err
	}
	if !within(spans, item.Item[1:]) {
		return nil
	}
	_, err := r.row(item.Item[1:], item.Body)
	return err
}

// feedRange is the text of a part of the change feed, as system_cosmos.feedranges has it.
type feedRange struct {
	Range struct {
		Min *partitionkey.EPK `json:"min"`
		Max *partitionkey.EPK `json:"max"`
	} `json:"Range"`
}

// FeedRangeText returns the text of a range for COSMOS_FEEDRANGE().
func FeedRangeText(of partitionkey.Range) string {
	return `{"Range":{"min":"` + of.Min.String() + `","max":"` + of.Max.String() + `"}}`
}

// feedRangeMax is more than the bytes of a text of FeedRangeText.
const feedRangeMax = 1 << 10

// ParseFeedRange reads a text of [FeedRangeText], possibly of a range that no physical
// partition has any more. The error is an *Error.
func ParseFeedRange(text string) (partitionkey.Range, error) {
	wrong := invalid("Invalid value for COSMOS_FEEDRANGE(): use the column range of system_cosmos.feedranges")
	var f feedRange
	if len(text) > feedRangeMax {
		return partitionkey.Range{}, wrong
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&f) != nil || d.More() || f.Range.Min == nil || f.Range.Max == nil {
		return partitionkey.Range{}, wrong
	}
	of := partitionkey.Range{Min: *f.Range.Min, Max: *f.Range.Max}
	if of.Empty() || !partitionkey.Full().Covers(of) {
		return partitionkey.Range{}, wrong
	}
	return of, nil
}

// A paging state of the change feed is its version, a code of authentication, and a
// position. It belongs to a table and to the part of it that is read. The statement and its
// start time may differ, so that a client may keep the state for longer than those.
const feedStateVersion = 2

// feedOf identifies the part of a table that a feed reads.
func feedOf(t *Table, ask *FeedAsk) []byte {
	of := append([]byte("change feed "), t.ID[:]...)
	if ask.Key != "" {
		return append(append(of, 'k'), ask.Key...)
	}
	of = append(append(of, 'r'), ask.Range.Min.String()...)
	return append(append(of, '-'), ask.Range.Max.String()...)
}

// appendFeedState appends the state of a position.
func appendFeedState(dst []byte, position string, secret, of []byte) []byte {
	dst = append(dst, feedStateVersion)
	dst = append(dst, codeOf(secret, of, []byte(position))...)
	return append(dst, position...)
}

// decodeFeedState reads a state of appendFeedState. The error is errPagingState.
func decodeFeedState(state, secret, of []byte) (position string, err error) {
	if len(state) <= 1+pagingCode || state[0] != feedStateVersion {
		return "", errPagingState
	}
	code, body := state[1:1+pagingCode], state[1+pagingCode:]
	if !hmac.Equal(code, codeOf(secret, of, body)) {
		return "", errPagingState
	}
	return string(body), nil
}

// IsFeedRanges says whether a table is system_cosmos.feedranges.
func (y *System) IsFeedRanges(t *Table) bool {
	return t == y.Keyspace("system_cosmos").Table("feedranges")
}

// FeedRanges returns the rows of system_cosmos.feedranges: the ranges of all tables that are
// not system tables.
func (y *System) FeedRanges(of func(*Table) []partitionkey.Range) *Rows {
	rows := &Rows{table: y.Keyspace("system_cosmos").Table("feedranges"), items: map[string][]rowItem{}}
	for _, k := range y.keyspaces {
		for _, t := range k.Tables {
			for _, one := range of(t) {
				rows.add(map[string][]byte{"keyspace_name": []byte(t.Keyspace), "table_name": []byte(t.Name), "range": []byte(FeedRangeText(one))})
			}
		}
	}
	rows.sort()
	return rows
}
