package partition

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// phase is how far the change from one indexing policy to the next has come.
//
// A change has two sweeps over all documents in the order of their numbers. The
// first adds the terms of the new policy, so that queries can switch to it at
// once between the sweeps; the second takes away what only the old policy
// asked for. At each moment it is known of each document, by its number alone,
// which terms are in the store, so writes in between keep the lists exact.
type phase string

const (
	settled  phase = ""
	building phase = "build" // adding terms of the next policy
	cleaning phase = "clean" // removing terms of the previous policy
)

// indexRow is the 'm' row of the index, as JSON: a change of policy is rare.
type indexRow struct {
	Version int                     `json:"version"`
	Policy  resource.IndexingPolicy `json:"policy"` // what queries use

	Phase phase `json:"phase,omitempty"`
	// Other is the policy under way: the next one while building, the previous
	// one while cleaning.
	Other *resource.IndexingPolicy `json:"other,omitempty"`
	// Cursor is the number of the last document that the sweep has passed, and
	// Until the last that it has to: later documents are written as the sweep
	// would leave them.
	Cursor uint64 `json:"cursor,omitempty"`
	Until  uint64 `json:"until,omitempty"`
	// Passed and Total count documents for the progress in percent.
	Passed int64 `json:"passed,omitempty"`
	Total  int64 `json:"total,omitempty"`
}

func (x indexRow) append() ([]byte, error) { return json.Marshal(x) }

func decodeIndexRow(row []byte) (indexRow, error) {
	var x indexRow
	if err := json.Unmarshal(row, &x); err != nil {
		return x, fmt.Errorf("index: %w: %w", err, errMeta)
	}
	if x.Version != metaVersion || (x.Phase == settled) != (x.Other == nil) ||
		(x.Phase != settled && x.Phase != building && x.Phase != cleaning) {
		return x, fmt.Errorf("index %s: %w", row, errMeta)
	}
	return x, nil
}

// indexing is an indexRow with its policies compiled. It is immutable.
type indexing struct {
	indexRow
	active *index.Index
	other  *index.Index // nil when settled
}

// compileIndexing compiles the policies of a row, reusing those of the one
// before it where they are the same.
func compileIndexing(row indexRow, before *indexing) (*indexing, error) {
	x := &indexing{indexRow: row}
	var err error
	if x.active, err = compileOnce(row.Policy, before); err != nil {
		return nil, fmt.Errorf("compile indexing policy: %w", err)
	}
	if row.Other == nil {
		return x, nil
	}
	if x.other, err = compileOnce(*row.Other, before); err != nil {
		return nil, fmt.Errorf("compile indexing policy: %w", err)
	}
	return x, nil
}

func compileOnce(p resource.IndexingPolicy, before *indexing) (*index.Index, error) {
	if before != nil {
		if before.Policy.Equal(p) {
			return before.active, nil
		}
		if before.Other != nil && before.Other.Equal(p) {
			return before.other, nil
		}
	}
	return index.Compile(p)
}

// both reports whether the document has the terms of both policies in the store.
func (x *indexing) both(number uint64) bool {
	if x.Phase == settled {
		return false
	}
	passed := number <= x.Cursor || number > x.Until
	return passed == (x.Phase == building)
}

// progress returns how far a change has come in percent; 100 when there is none.
func (x *indexing) progress() int {
	if x.Phase == settled {
		return 100
	}
	half := 50
	if x.Total > 0 {
		half = int(min(50, x.Passed*50/x.Total))
	}
	if x.Phase == cleaning {
		half += 50
	}
	return min(half, 99)
}

// terms are the terms of one document under the policies of an indexing, without
// that of _ts, which only the writer knows.
type terms struct {
	active, other []index.Term
}

// termsOf computes terms from a document.
func (x *indexing) termsOf(doc value.Value) terms {
	// Room for the timestamp as well.
	t := terms{active: x.active.Terms(make([]index.Term, 0, 24), doc)}
	if x.other != nil {
		t.other = x.other.Terms(nil, doc)
	}
	return t
}

// stored returns all the terms that the store has of a document with this
// number and time, sorted.
func (x *indexing) stored(t terms, number uint64, ts int64) []index.Term {
	list := withTimestamp(t.active, x.active, ts)
	if !x.both(number) {
		return list
	}
	list = append(list, withTimestamp(t.other, x.other, ts)...)
	slices.Sort(list)
	return slices.Compact(list)
}

// withTimestamp puts the term of _ts in its place. The result may share the
// memory of list, which is not used afterwards.
func withTimestamp(list []index.Term, x *index.Index, ts int64) []index.Term {
	term, ok := x.Timestamp(ts)
	if !ok {
		return list
	}
	at, _ := slices.BinarySearch(list, term)
	return slices.Insert(list, at, term)
}
