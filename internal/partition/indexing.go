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

// phase is a phase of the change from one indexing policy to the next.
//
// A change makes two sweeps over all documents, in the order of their numbers. The
// first adds the terms of the new policy. Between the sweeps queries switch to it.
// The second removes the terms that only the old policy has. At any moment the
// number of a document tells which terms of it are in the store, so writes during a
// sweep keep the lists exact.
type phase string

// The phases.
const (
	settled  phase = ""
	building phase = "build" // adding terms of the next policy
	cleaning phase = "clean" // removing terms of the previous policy
)

// indexRow is the 'm' row of the index. It is JSON, because a policy changes rarely.
type indexRow struct {
	Version int                     `json:"version"`
	Policy  resource.IndexingPolicy `json:"policy"` // what queries use

	Phase phase `json:"phase,omitempty"`
	// Other is the next policy while building, the previous one while cleaning, and
	// nil when settled.
	Other *resource.IndexingPolicy `json:"other,omitempty"`
	// Cursor is the number of the last document that the sweep has passed, and
	// Until of the last that it has to pass. Later documents are written as the
	// sweep would leave them.
	Cursor uint64 `json:"cursor,omitempty"`
	Until  uint64 `json:"until,omitempty"`
	// Passed and Total count documents for the progress in percent.
	Passed int64 `json:"passed,omitempty"`
	Total  int64 `json:"total,omitempty"`

	// Directives says that the index follows directives. An older row does not have
	// it: then all documents are in the index, whatever Automatic says.
	Directives bool `json:"directives"`
}

// append returns the row.
func (x indexRow) append() ([]byte, error) {
	x.Directives = true
	return json.Marshal(x)
}

// decodeIndexRow decodes a row of append.
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
		// The policy then differs from the container's, so a rebuild follows.
		x.Policy.Automatic = true
		if x.Other != nil {
			x.Other.Automatic = true
		}
	}
	return x, nil
}

// indexing is an index row with its policies compiled. It is immutable.
type indexing struct {
	indexRow
	active *compiled // Policy
	other  *compiled // Other; nil when settled
}

// compiled is a compiled policy.
type compiled struct {
	*index.Index
	computed *query.Computed // nil without computed properties
}

// compileIndexing compiles the policies of a row. It takes those that before has
// as well, unless before is nil.
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

// compile compiles a policy.
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

// keys returns the keys of a document. body is its JSON, and doc the value of it.
// Terms are appended to dst. TermsPaced calls look, if it is not nil.
func (c *compiled) keys(dst []index.Term, doc value.Value, body []byte, look func() error) (k keys, err error) {
	if c.computed != nil {
		// A computed value that is too large is not indexed.
		if doc, err = c.computed.Extend(body); err != nil && status.CodeOf(err) != status.CodeBadRequest {
			return keys{}, fmt.Errorf("%w: %w", errDocument, err)
		}
	}
	k.terms, err = c.TermsPaced(dst, doc, look)
	k.vectors = c.Vectors(nil, doc)
	return k, err
}

// both reports whether a document has the keys of both policies in the store.
func (x *indexing) both(number uint64) bool {
	if x.Phase == settled {
		return false
	}
	passed := number <= x.Cursor || number > x.Until
	return passed == (x.Phase == building)
}

// progress returns the progress of a change in percent, 100 if there is none.
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

// keys are the terms and vectors by which one policy finds a document. Terms of _ts
// are missing until the keys are stamped, because only the writer knows the time.
type keys struct {
	terms   []index.Term
	vectors []index.VectorEntry
}

// allKeys are the keys of a document under both policies of an indexing.
type allKeys struct{ active, other keys }

// bareTerm is the only term, except for that of the time, of a document that its
// directive excludes from the index. Its list tells whether there are such
// documents. No path has this id.
const bareTerm index.Term = "\x00\x00\x00\x00\x00\x00\x00\x00\x01"

// leavesOut reports whether a policy excludes documents with a directive from the
// index.
func leavesOut(p *resource.IndexingPolicy, d Directive) bool {
	return p.Mode != resource.IndexingNone && (d == Exclude || d == ByPolicy && !p.Automatic)
}

// keysOf computes the keys of a document with a directive. body is its JSON, and doc
// the value of it. look, if not nil, is called regularly; its error ends the work.
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

// keysOfBody computes the keys of a stored body.
func (x *indexing) keysOfBody(body []byte, d Directive) (allKeys, error) {
	doc, err := value.Parse(body)
	if err != nil {
		return allKeys{}, fmt.Errorf("%w: %w", errDocument, err)
	}
	return x.keysOf(doc, body, d, nil)
}

// inUse returns the terms by which queries find a stored document, sorted.
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

// stored returns all keys that the store has of a document with this number and
// time, sorted. It may overwrite k.
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

// sortedVectors sorts vectors by their ids and removes duplicates: vectors with the
// same id are equal, since the id includes the form. It overwrites all.
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

// diff returns the change between sorted keys.
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

// fits reports whether keys that were computed under x are valid under y.
func (x *indexing) fits(y *indexing) bool {
	return x == y || x.active == y.active && x.other == y.other
}

// clone returns a copy, for stored overwrites keys.
func (k keys) clone() keys {
	return keys{terms: slices.Clone(k.terms), vectors: slices.Clone(k.vectors)}
}

// clone returns a copy.
func (k allKeys) clone() allKeys { return allKeys{active: k.active.clone(), other: k.other.clone()} }

// count returns the number of terms, of both policies.
func (k *allKeys) count() int { return len(k.active.terms) + len(k.other.terms) }
