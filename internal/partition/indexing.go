package partition

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
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

	// Directives says that the index follows directives. A row of the time before
	// them lacks it: then all documents are in the index, whatever Automatic says.
	Directives bool `json:"directives"`
}

func (x indexRow) append() ([]byte, error) {
	x.Directives = true
	return json.Marshal(x)
}

func decodeIndexRow(row []byte) (indexRow, error) {
	var x indexRow
	if err := json.Unmarshal(row, &x); err != nil {
		return x, fmt.Errorf("index: %w: %w", err, errMeta)
	}
	if x.Version != metaVersion || (x.Phase == settled) != (x.Other == nil) ||
		(x.Phase != settled && x.Phase != building && x.Phase != cleaning) {
		return x, fmt.Errorf("index %s: %w", row, errMeta)
	}
	if !x.Directives {
		// The container asks for another policy then, and a rebuild follows.
		x.Policy.Automatic = true
		if x.Other != nil {
			x.Other.Automatic = true
		}
	}
	return x, nil
}

// indexing is an indexRow with its policies compiled. It is immutable.
type indexing struct {
	indexRow
	active *compiled
	other  *compiled // nil when settled
}

// compiled is a policy ready for use.
type compiled struct {
	*index.Index
	computed *query.Computed // nil without computed properties
}

// compileIndexing compiles the policies of a row, reusing those of the one
// before it where they are the same.
func compileIndexing(row indexRow, before *indexing) (*indexing, error) {
	x := &indexing{indexRow: row}
	var err error
	if x.active, err = compileOnce(row.Policy, before); err != nil {
		return nil, err
	}
	if row.Other != nil {
		x.other, err = compileOnce(*row.Other, before)
	}
	return x, err
}

func compileOnce(p resource.IndexingPolicy, before *indexing) (*compiled, error) {
	if before != nil {
		if before.Policy.Equal(p) {
			return before.active, nil
		}
		if before.Other != nil && before.Other.Equal(p) {
			return before.other, nil
		}
	}
	return compile(p)
}

func compile(p resource.IndexingPolicy) (c *compiled, err error) {
	c = new(compiled)
	if c.Index, err = index.Compile(p); err == nil {
		c.computed, err = query.CompileComputed(p.Computed)
	}
	if err != nil {
		return nil, fmt.Errorf("compile indexing policy: %w", err)
	}
	return c, nil
}

// keys returns what a document can be found by. body is its JSON, and doc the
// value of that.
func (c *compiled) keys(dst []index.Term, doc value.Value, body []byte, look func() error) (k keys, err error) {
	if c.computed != nil {
		// A value that is too large to be computed is not indexed.
		if doc, err = c.computed.Extend(body); err != nil && status.CodeOf(err) != status.CodeBadRequest {
			return keys{}, fmt.Errorf("%w: %w", errDocument, err)
		}
	}
	k.terms, err = c.TermsPaced(dst, doc, look)
	k.vectors = c.Vectors(nil, doc)
	return k, err
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

// keys is what a document can be found by under one policy. The terms lack _ts
// until they are stamped, because only the writer knows the time.
type keys struct {
	terms   []index.Term
	vectors []index.VectorEntry
}

// allKeys are the keys of a document under the policies of an indexing.
type allKeys struct{ active, other keys }

// bareTerm is the one term, beside that of the time, of a document that a directive
// leaves out, so that it is known whether there are any. No path has this id.
const bareTerm index.Term = "\x00\x00\x00\x00\x00\x00\x00\x00\x01"

// leavesOut reports whether a policy has a document in no index that was written
// with a directive.
func leavesOut(p *resource.IndexingPolicy, d Directive) bool {
	return p.Mode != resource.IndexingNone && (d == Exclude || d == ByPolicy && !p.Automatic)
}

// keysOf computes the keys of a document that was written with a directive. body is
// its JSON, and doc the value of that. look is called now and then and ends it with an
// error; nil: nobody asks.
func (x *indexing) keysOf(doc value.Value, body []byte, d Directive, look func() error) (k allKeys, err error) {
	const termsGuess = 24 // with room for the timestamp
	if leavesOut(&x.Policy, d) {
		k.active.terms = []index.Term{bareTerm}
	} else if k.active, err = x.active.keys(make([]index.Term, 0, termsGuess), doc, body, look); err != nil {
		return k, err
	}
	switch {
	case x.other == nil:
	case leavesOut(x.Other, d):
		k.other.terms = []index.Term{bareTerm}
	default:
		k.other, err = x.other.keys(nil, doc, body, look)
	}
	return k, err
}

// keysOfBody is keysOf for a stored body.
func (x *indexing) keysOfBody(body []byte, d Directive) (allKeys, error) {
	doc, err := value.Parse(body)
	if err != nil {
		return allKeys{}, fmt.Errorf("%w: %w", errDocument, err)
	}
	return x.keysOf(doc, body, d, nil)
}

// inUse returns the terms that queries find a stored document by, sorted.
func (x *indexing) inUse(d *document) ([]index.Term, error) {
	if leavesOut(&x.Policy, d.asked) {
		return x.active.Stamp([]index.Term{bareTerm}, d.ts), nil
	}
	doc, err := value.Parse(d.body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDocument, err)
	}
	k, err := x.active.keys(nil, doc, d.body, nil)
	return x.active.Stamp(k.terms, d.ts), err
}

// stored returns all the keys that the store has of a document with this number
// and time, sorted. It may use up the memory of k.
func (x *indexing) stored(k allKeys, number uint64, ts int64) keys {
	all := keys{terms: x.active.Stamp(k.active.terms, ts), vectors: k.active.vectors}
	if x.both(number) {
		all.terms = append(all.terms, x.other.Stamp(k.other.terms, ts)...)
		slices.Sort(all.terms)
		all.terms = slices.Compact(all.terms)
		all.vectors = append(all.vectors, k.other.vectors...)
	}
	all.vectors = sortedVectors(all.vectors)
	return all
}

// sortedVectors returns vectors in the order of their ids, each once: those with one id
// are the same, since it stands for their form as well. It uses their memory.
func sortedVectors(all []index.VectorEntry) []index.VectorEntry {
	slices.SortFunc(all, func(a, b index.VectorEntry) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b index.VectorEntry) bool { return a.ID == b.ID })
}

// change is the difference between the keys of two versions of a document.
type change struct {
	removed, added []index.Term
	dropped        []index.Term // the ids of vectors
	put            []index.VectorEntry
}

// diff compares sorted keys.
func diff(before, after keys) (c change) {
	c.removed, c.added = index.Diff(before.terms, after.terms)
	old := before.vectors
	for _, v := range after.vectors {
		for len(old) > 0 && old[0].ID < v.ID {
			c.dropped = append(c.dropped, old[0].ID)
			old = old[1:]
		}
		same := len(old) > 0 && old[0].ID == v.ID
		if !same || !bytes.Equal(old[0].Stored, v.Stored) {
			c.put = append(c.put, v)
		}
		if same {
			old = old[1:]
		}
	}
	for _, v := range old {
		c.dropped = append(c.dropped, v.ID)
	}
	return c
}
