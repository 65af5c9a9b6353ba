package table

import (
	"context"
	"slices"

	"github.com/decandb/decan/internal/row"
)

// Source has the stored items of a table. Items of a partition key are in the order of
// their names: the deletions of the partition, its static row, and its rows in
// clustering order.
type Source interface {
	// Key visits the items of a routing key in each of the slices, one after another.
	Key(ctx context.Context, key string, slices []ItemSlice, visit func(item, body []byte) (more bool, err error)) error

	// Tokens visits the items of the keys whose tokens are from least to greatest, both
	// included, in the order of tokens. after, if not empty, is a routing key after
	// whose items the visit begins.
	Tokens(ctx context.Context, least, greatest int64, after string, visit func(key, item, body []byte) (more bool, err error)) error
}

// ItemSlice is a range of the items of a partition key: those from From up to, but not
// including, To. An empty To is no bound.
type ItemSlice struct {
	From, To string
	Reverse  bool // the last one first
}

// The kinds of items, which are the first bytes of their names.
const (
	MetaItem   = row.MetaItem
	StaticItem = row.StaticItem
	RowItems   = row.RowItems
	rowsEnd    = "\x03"
)

// ResultColumn is a column of a result.
type ResultColumn struct {
	Name string
	Type *row.Type
}

// Page is a page of a result.
type Page struct {
	// Rows are the cells of all rows in the form of the native protocol: for each its
	// length in four bytes and its bytes, and the length -1 for null.
	Rows  []byte
	Count int    // rows
	State []byte // of the next page; nil if this is the last one

	// Warning is what the client is warned of; empty for nothing.
	Warning string
}

// Memory holds memory for a result. The error ends the read.
type Memory interface{ Hold(bytes int) error }

// PageOptions says which page of a result is asked for.
type PageOptions struct {
	Size   int    // rows at most; zero or less asks for all of them
	State  []byte // of the page before; nil for the first one
	Secret []byte // with which states are signed
	ID     []byte // identifies the statement and its table
	Now    int64  // seconds since 1970: what has expired then is not read

	// Memory is asked before a result without pages takes more of it. Rows that are merged
	// are such a result. Nil does not bound it.
	Memory Memory

	// Reads is the number of items after which a page of a Size ends, with or without
	// rows: many may be deleted or filtered out. Zero is pageReads.
	Reads int
}

// Bounds of what is read for one page, if the client pages. Aggregates, groups and rows that
// are merged in clustering order have no page that could end.
const (
	pageReads     = 100_000
	pageReadBytes = 64 << 20
)

// pageBytes is the size of the cells at which a page ends, if the client pages.
const pageBytes = 1 << 20

// resultBytesMax bounds a result that is not paged.
const resultBytesMax = 200 << 20

// heldFirst is the size of a result for which no memory is held.
const heldFirst = 64 << 10

// query is a compiled SELECT.
type query struct {
	table       *Table
	where       *where
	expressions []expression
	columns     []ResultColumn
	plain       []plainColumn // of expressions that are all columns, without groups; nil otherwise
	json        bool
	distinct    bool
	aggregates  bool      // one group, or several by group
	group       []*Column // of GROUP BY
	ordered     int       // clustering columns by which the rows of several keys are merged; 0 if they are not
	reverse     bool
	sorted      bool  // ORDER BY sorts the rows of several keys
	limit       term  // nil for none
	perKey      term  // PER PARTITION LIMIT; nil for none
	feed        *feed // the statement reads the change feed; nil for the rows

	statics, regulars []row.Want        // to read, in the order of their ids
	slot              func(*Column) int // of a column in a view, negative if it is not read
	clustering        bool              // the values of the clustering columns are needed
	keyColumns        []row.KeyColumn   // the clustering columns
}

// plainColumn is a selected column.
type plainColumn struct {
	kind  ColumnKind
	index int // position in the key, or slot
}

// prepareReads finds the columns to read.
func (q *query) prepareReads() {
	seen := map[*Column]bool{}
	use := func(c *Column, _ bool) {
		if c.Kind == Clustering {
			q.clustering = true
		}
		if seen[c] {
			return
		}
		seen[c] = true
		switch c.Kind {
		case Static:
			q.statics = append(q.statics, row.Want{Column: c.ID, Type: c.Type})
		case Regular:
			q.regulars = append(q.regulars, row.Want{Column: c.ID, Type: c.Type})
		case PartitionKey, Clustering:
		}
	}
	for _, e := range q.expressions {
		e.reads(use)
	}
	for _, r := range q.where.filters {
		for _, c := range r.columns {
			use(c, false)
		}
	}
	if by := q.where.sameBytes(); by != nil {
		use(by.columns[0], false)
	}
	for _, c := range q.group {
		use(c, false)
	}
	order := func(a, b row.Want) int { return int(int64(a.Column) - int64(b.Column)) }
	slices.SortFunc(q.statics, order)
	slices.SortFunc(q.regulars, order)
	slots := map[uint32]int{}
	for i, w := range q.statics {
		slots[w.Column] = i
	}
	for i, w := range q.regulars {
		slots[w.Column] = len(q.statics) + i
	}
	q.slot = func(c *Column) int {
		if i, ok := slots[c.ID]; ok {
			return i
		}
		return -1
	}
	for _, c := range q.table.Clustering {
		q.keyColumns = append(q.keyColumns, c.key())
	}
	if q.aggregates || q.json || len(q.group) > 0 {
		return
	}
	var plain []plainColumn
	for _, e := range q.expressions {
		c, ok := e.(*columnExpr)
		if !ok {
			return
		}
		p := plainColumn{kind: c.column.Kind, index: c.column.Position}
		if p.kind == Static || p.kind == Regular {
			p.index = slots[c.column.ID]
		}
		plain = append(plain, p)
	}
	q.plain = plain
}
