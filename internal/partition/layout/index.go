package layout

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
)

// Phase is a phase of the change from one indexing policy to the next.
//
// A change makes two sweeps over all documents, in the order of their numbers. The
// first adds the terms of the new policy. Between the sweeps queries switch to it.
// The second removes the terms that only the old policy has. At any moment the
// number of a document tells which terms of it are in the store, so writes during a
// sweep keep the lists exact.
type Phase string

// The phases.
const (
	Settled  Phase = ""
	Building Phase = "build" // adding terms of the next policy
	Cleaning Phase = "clean" // removing terms of the previous policy
)

// IndexRow is the 'm' row of the index. It is JSON, because a policy changes rarely.
type IndexRow struct {
	Version int                     `json:"version"`
	Policy  resource.IndexingPolicy `json:"policy"` // what queries use

	Phase Phase `json:"phase,omitempty"`
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

	// Directives says that earlier versions of this program built the index of
	// Policy: it lacks documents, see [Directive]. OtherDirectives says the same of
	// Other; nil means that it is as Directives.
	Directives      bool  `json:"directives"`
	OtherDirectives *bool `json:"otherDirectives,omitempty"`

	// Tokens is the version of the tokens in the index of Policy, see [index.TokensOf],
	// and OtherTokens of those in the index of Other. Zero is version 1: earlier versions
	// of this program do not write it.
	Tokens      int `json:"tokens,omitzero"`
	OtherTokens int `json:"otherTokens,omitzero"`
}

// Versions of the index row. A release that knows only the first would read an index with
// later tokens as one with those of version 1, and find nothing. So the row has the second
// version if, and only if, there are such tokens.
//
// In the same way, a release that does not know secondary indexes of tables would write
// rows without their terms: with such an index the row has the third version.
const (
	indexRowPlain  = MetaVersion
	indexRowTokens = 2
	indexRowRows   = 3
)

// NewIndexRow returns the row of an index that a release makes new.
func NewIndexRow(p resource.IndexingPolicy) IndexRow {
	return IndexRow{Policy: p, Tokens: tokensOf(p)}
}

// tokensOf returns the version of the tokens of a new index as the row has it.
func tokensOf(p resource.IndexingPolicy) int {
	if v := index.TokensOf(p); v > 1 {
		return v
	}
	return 0
}

// Append returns the row. It sets Version.
func (x IndexRow) Append() ([]byte, error) {
	x.Version = indexRowPlain
	if x.Tokens > 1 || x.OtherTokens > 1 {
		x.Version = indexRowTokens
	}
	if len(x.Policy.Rows) > 0 || x.Other != nil && len(x.Other.Rows) > 0 {
		x.Version = indexRowRows
	}
	return json.Marshal(x)
}

// Current reports whether the index that queries use is the one that this release makes
// for the policy.
func (x *IndexRow) Current(want resource.IndexingPolicy) bool {
	return want.Equal(x.Policy) && x.Tokens == tokensOf(want)
}

// Settle returns the row of the index that is left when a change is complete.
func (x *IndexRow) Settle() IndexRow {
	return IndexRow{Policy: x.Policy, Directives: x.Directives, Tokens: x.Tokens}
}

// MayLack reports whether the index that queries use may lack documents of a partition
// with this state. If so, [BareTerm] has them.
func (x *IndexRow) MayLack(s *State) bool {
	return x.Policy.Mode != resource.IndexingNone && (len(x.Policy.Computed) > 0 || x.LeftOut(s))
}

// LeftOut reports whether an earlier version may have left documents out of the index.
// s is the state of the partition.
func (x *IndexRow) LeftOut(s *State) bool {
	return x.Directives && x.Policy.Mode != resource.IndexingNone && (s.Excludes || !x.Policy.Automatic)
}

// Begin makes next the policy that a change of policy builds. The index of next has
// all documents.
func (x *IndexRow) Begin(next resource.IndexingPolicy) {
	x.Other, x.OtherDirectives, x.OtherTokens = &next, new(bool), tokensOf(next)
}

// Switch exchanges the two policies.
func (x *IndexRow) Switch() {
	policy, directives := x.Policy, x.Directives
	x.Policy, x.Directives = *x.Other, x.otherDirectives()
	x.Other, x.OtherDirectives = &policy, &directives
	x.Tokens, x.OtherTokens = x.OtherTokens, x.Tokens
}

func (x *IndexRow) otherDirectives() bool {
	if x.OtherDirectives == nil {
		return x.Directives
	}
	return *x.OtherDirectives
}

// DecodeIndexRow decodes a row of Append.
func DecodeIndexRow(row []byte) (IndexRow, error) {
	var x IndexRow
	if err := json.Unmarshal(row, &x); err != nil {
		return x, fmt.Errorf("index: %w: %w", err, ErrMeta)
	}
	tokens := max(x.Tokens, x.OtherTokens)
	if x.Version < indexRowPlain || x.Version > indexRowRows || tokens > index.TokensVersion || min(x.Tokens, x.OtherTokens) < 0 {
		return x, fmt.Errorf("the index has version %d and tokens of version %d, which this release does not know: %w", x.Version, tokens, ErrMeta)
	}
	if (x.Phase == Settled) != (x.Other == nil) ||
		(x.Phase != Settled && x.Phase != Building && x.Phase != Cleaning) {
		return x, fmt.Errorf("index %s: %w", row, ErrMeta)
	}
	return x, nil
}

// Indexing is an index row with its policies compiled. It is immutable.
type Indexing struct {
	IndexRow
	Active   *Compiled // Policy
	Changing *Compiled // Other; nil when settled
}

// Compiled is a compiled policy.
type Compiled struct {
	*index.Index
	computed *query.Computed // nil without computed properties

	rows []*row.Index // secondary indexes of a table; none for documents

	// The index lacks documents as directives, and the policy's mode and Automatic,
	// say.
	directives, none, automatic bool
}

// CompileIndexing compiles the policies of a row. It takes those that before has
// as well, unless before is nil.
func CompileIndexing(row IndexRow, before *Indexing) (*Indexing, error) {
	x := &Indexing{IndexRow: row}
	var err error
	if x.Active, err = compileOnce(row.Policy, row.Directives, row.Tokens, before); err != nil {
		return nil, err
	}
	if row.Other != nil {
		x.Changing, err = compileOnce(*row.Other, row.otherDirectives(), row.OtherTokens, before)
	}
	return x, err
}

func compileOnce(p resource.IndexingPolicy, directives bool, tokens int, before *Indexing) (*Compiled, error) {
	if before != nil {
		if before.Policy.Equal(p) && before.Active.directives == directives && before.Tokens == tokens {
			return before.Active, nil
		}
		if before.Other != nil && before.Other.Equal(p) && before.Changing.directives == directives && before.OtherTokens == tokens {
			return before.Changing, nil
		}
	}
	c, err := compile(p, max(1, tokens))
	if err == nil {
		c.directives = directives
	}
	return c, err
}

// Compile compiles the policy of a new index.
func Compile(p resource.IndexingPolicy) (*Compiled, error) { return compile(p, index.TokensOf(p)) }

func compile(p resource.IndexingPolicy, tokens int) (c *Compiled, err error) {
	c = &Compiled{none: p.Mode == resource.IndexingNone, automatic: p.Automatic}
	if c.Index, err = index.CompileTokens(p, tokens); err == nil {
		c.computed, err = query.CompileComputed(p.Computed)
	}
	for _, text := range p.Rows {
		if err == nil {
			var x *row.Index
			x, err = row.ParseIndex(text)
			c.rows = append(c.rows, x)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("compile indexing policy: %w", err)
	}
	return c, nil
}

// Keys returns the keys of a document. body is its JSON, and doc the value of it.
// It appends the terms to dst, and calls look regularly if it is not nil.
func (c *Compiled) Keys(dst []index.Term, doc value.Value, body []byte, look func() error) (k Keys, err error) {
	tooLarge := false
	if c.computed != nil {
		if doc, err = c.computed.Extend(body); err != nil && status.CodeOf(err) != status.CodeBadRequest {
			return Keys{}, fmt.Errorf("%w: %w", ErrDocument, err)
		}
		tooLarge = err != nil
	}
	k.Terms, err = c.TermsPaced(dst, doc, look)
	if tooLarge && !c.none {
		// No term of this policy is less.
		k.Terms = slices.Insert(k.Terms, 0, BareTerm)
	}
	k.Vectors = c.Vectors(nil, doc)
	return k, err
}

// HasBoth reports whether a document has the keys of both policies in the store.
func (x *Indexing) HasBoth(number uint64) bool {
	if x.Phase == Settled {
		return false
	}
	passed := number <= x.Cursor || number > x.Until
	return passed == (x.Phase == Building)
}

// Progress returns the progress of a change in percent, 100 if there is none.
func (x *Indexing) Progress() int {
	if x.Phase == Settled {
		return 100
	}
	half := 50
	if x.Total > 0 {
		half = int(min(50, x.Passed*50/x.Total))
	}
	if x.Phase == Cleaning {
		half += 50
	}
	return min(half, 99)
}

// Keys are the terms and vectors by which one policy finds a document. Terms of _ts
// are missing until the keys are stamped, because only the writer knows the time.
type Keys struct {
	Terms   []index.Term
	Vectors []index.VectorEntry
}

// AllKeys are the keys of a document under both policies of an indexing.
type AllKeys struct{ Active, Other Keys }

// BareTerm is a term of the documents that the index lacks. Its list tells whether there
// are any. No path has this id. A document whose computed properties cannot be computed,
// because one is too large, has it in addition to its other terms. For one that an index
// of an earlier version lacks it is the only term, except for that of the time.
const BareTerm index.Term = "\x00\x00\x00\x00\x00\x00\x00\x00\x01"

// lacks reports whether the index lacks documents with a directive.
func (c *Compiled) lacks(d Directive) bool {
	return c.directives && !c.none && (d == Exclude || d == ByPolicy && !c.automatic)
}

// KeysOf computes the keys of a document. body is its JSON, and doc the value of it.
// d is [Document.Directive]. look, if not nil, is called regularly; its error ends the work.
func (x *Indexing) KeysOf(doc value.Value, body []byte, d Directive, look func() error) (k AllKeys, err error) {
	const termsGuess = 24 // with room for the timestamp
	if x.Active.lacks(d) {
		k.Active.Terms = []index.Term{BareTerm}
	} else if k.Active, err = x.Active.Keys(make([]index.Term, 0, termsGuess), doc, body, look); err != nil {
		return k, err
	}
	switch {
	case x.Changing == nil:
	case x.Changing.lacks(d):
		k.Other.Terms = []index.Term{BareTerm}
	default:
		k.Other, err = x.Changing.Keys(nil, doc, body, look)
	}
	return k, err
}

// KeysOfStored computes the keys of a stored document, or of an item of a table, whose row
// has this key.
func (x *Indexing) KeysOfStored(d *Document, key []byte) (AllKeys, error) {
	if d.Item {
		return x.KeysOfItem(d.Key, key, d.Body)
	}
	doc, err := value.Parse(d.Body)
	if err != nil {
		return AllKeys{}, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	return x.KeysOf(doc, d.Body, d.Directive, nil)
}

// KeysOfItem computes the keys of an item of a table. partition is the routing key, and
// key that of the item's row.
func (x *Indexing) KeysOfItem(partition, key, body []byte) (k AllKeys, err error) {
	if k.Active.Terms, err = x.Active.itemTerms(partition, key, body); err == nil && x.Changing != nil {
		k.Other.Terms, err = x.Changing.itemTerms(partition, key, body)
	}
	return k, err
}

// itemTerms returns the terms of an item, sorted: the beginning that its index gives, and
// the key of its row without the family. So the terms of a value are in the order of the
// rows, and each is of one row.
func (c *Compiled) itemTerms(partition, key, body []byte) (terms []index.Term, err error) {
	if len(c.rows) == 0 {
		return nil, nil
	}
	suffix, err := storage.DocumentSuffix(key)
	if err != nil {
		return nil, err
	}
	_, _, item, err := storage.DecodeDocumentKey(key, LevelBytes)
	if err != nil {
		return nil, err
	}
	for _, x := range c.rows {
		err := x.Values(partition, item, body, func(value []byte) { terms = append(terms, index.Term(append(value, suffix...))) })
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDocument, err)
		}
	}
	slices.Sort(terms)
	return slices.Compact(terms), nil
}

// HasRowIndex reports whether the index that queries use has all rows of a secondary index
// with a definition.
func (x *Indexing) HasRowIndex(definition string) bool {
	return slices.Contains(x.Policy.Rows, definition)
}

// TermsInUse returns the terms by which queries find a stored document, sorted.
func (x *Indexing) TermsInUse(d *Document) ([]index.Term, error) {
	if x.Active.lacks(d.Directive) {
		return x.Active.Stamp([]index.Term{BareTerm}, d.TS), nil
	}
	doc, err := value.Parse(d.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	k, err := x.Active.Keys(nil, doc, d.Body, nil)
	return x.Active.Stamp(k.Terms, d.TS), err
}

// Stored returns all keys that the store has of a document with this number and
// time, sorted. It may overwrite k.
func (x *Indexing) Stored(k AllKeys, number uint64, ts int64) Keys {
	all := Keys{Terms: x.Active.Stamp(k.Active.Terms, ts), Vectors: k.Active.Vectors}
	if x.HasBoth(number) {
		all.Terms = append(all.Terms, x.Changing.Stamp(k.Other.Terms, ts)...)
		slices.Sort(all.Terms)
		all.Terms = slices.Compact(all.Terms)
		all.Vectors = append(all.Vectors, k.Other.Vectors...)
	}
	all.Vectors = SortVectors(all.Vectors)
	return all
}

// SortVectors sorts vectors by their ids and removes duplicates: vectors with the
// same id are equal, since the id includes the form. It overwrites all.
func SortVectors(all []index.VectorEntry) []index.VectorEntry {
	slices.SortFunc(all, func(a, b index.VectorEntry) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b index.VectorEntry) bool { return a.ID == b.ID })
}

// Change is the difference between the keys of two versions of a document.
type Change struct {
	Removed, Added []index.Term
	Dropped        []index.Term // the ids of vectors
	Put            []index.VectorEntry
}

// Diff returns the change between sorted keys.
func Diff(before, after Keys) (c Change) {
	c.Removed, c.Added = index.Diff(before.Terms, after.Terms)
	old := before.Vectors
	for _, v := range after.Vectors {
		for len(old) > 0 && old[0].ID < v.ID {
			c.Dropped = append(c.Dropped, old[0].ID)
			old = old[1:]
		}
		same := len(old) > 0 && old[0].ID == v.ID
		if !same || !bytes.Equal(old[0].Stored, v.Stored) {
			c.Put = append(c.Put, v)
		}
		if same {
			old = old[1:]
		}
	}
	for _, v := range old {
		c.Dropped = append(c.Dropped, v.ID)
	}
	return c
}

// Fits reports whether keys that were computed under x are valid under y.
func (x *Indexing) Fits(y *Indexing) bool {
	return x == y || x.Active == y.Active && x.Changing == y.Changing
}

// Clone returns a copy of the slices, which Stored may overwrite.
func (k Keys) Clone() Keys {
	return Keys{Terms: slices.Clone(k.Terms), Vectors: slices.Clone(k.Vectors)}
}

// Clone returns a copy of the slices, which Stored may overwrite.
func (k AllKeys) Clone() AllKeys { return AllKeys{Active: k.Active.Clone(), Other: k.Other.Clone()} }

// Count returns the number of terms, of both policies.
func (k *AllKeys) Count() int { return len(k.Active.Terms) + len(k.Other.Terms) }
