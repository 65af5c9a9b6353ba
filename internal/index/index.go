// Package index turns documents into index terms and predicates into spans of
// terms. A partition stores, for each [Term], the numbers of the documents that
// have it; the query planner asks for the documents of a [Span].
//
// Begin with [Compile], which compiles an indexing policy, then read
// [Index.Terms], which a write adds to the index, and [Index.Span], which a
// query reads. [Expr] combines spans into what the planner asks a partition for,
// and [Order] is a walk through the terms that yields sorted documents.
//
// # Invariants
//
//   - A document found through the span of a predicate may fail the predicate,
//     unless the span is Exact; no document that satisfies it is missing.
//   - Terms depend on the policy and the document alone, and never change from
//     one release to the next: they are on disk. docs/formats/term.md has the
//     layout.
//   - Terms of different kinds, and of one place under two definitions, are
//     never equal: an expression that was made with another policy finds nothing
//     instead of the wrong documents, and [Index.Serves] reports that in advance.
//
// The package produces and interprets bytes; it reads and writes nothing. It
// does not evaluate computed properties; the documents must contain their
// values.
//
// Page: docs/index.md
package index

import (
	"sync"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// Index is a compiled indexing policy. It is safe for concurrent use.
type Index struct {
	root node // of the policy's paths; unused if none is set
	none bool // the policy disables the index

	// computed has the definitions of the computed properties.
	computed map[string]string

	// What the policy requests in addition to the terms of places. All are empty
	// if none is set.
	composites []composite
	tuples     []tuple
	spatial    *spatialNode // nil without a spatial index
	texts      []textIndex
	vectors    []vectorIndex

	ids    map[Term]bool // of composites, tuples and texts
	policy resource.IndexingPolicy

	scratch sync.Pool // of *walker
}

// node is one segment of the policy's paths. A nil node is a place that no path
// of the policy names.
type node struct {
	children map[string]*node
	subtree  rule // of a path that ends in /* here
	leaf     rule // of a path that ends in /? here, has precedence over subtree

	// computed is true for a computed property. The paths above it do not apply
	// to it, and its hash starts with seed.
	computed bool
	seed     pathState
}

type rule uint8

const (
	unsaid rule = iota
	include
	exclude
)

// Compile compiles a policy. If two paths cover a place the deeper one decides,
// and at equal depth /? before /*. Computed properties are indexed only under
// paths that name them, not under /*. For a policy that the service would
// refuse, the error is a BadRequest that names the path.
//
// Automatic has no effect.
func Compile(p resource.IndexingPolicy) (*Index, error) { return CompileTokens(p, TokensVersion) }

// CompileTokens is [Compile] for an index whose texts have tokens of a version from 1 to
// [TokensVersion].
func CompileTokens(p resource.IndexingPolicy, tokens int) (*Index, error) {
	x := &Index{none: p.Mode == resource.IndexingNone, policy: p, ids: map[Term]bool{}}
	x.scratch.New = func() any { return new(walker) }
	x.addComputed(p.Computed)
	for _, path := range p.Included {
		if err := x.add(path, include); err != nil {
			return nil, err
		}
	}
	for _, path := range p.Excluded {
		if err := x.add(path, exclude); err != nil {
			return nil, err
		}
	}
	if x.none {
		return x, nil
	}
	if x.root.subtree == unsaid {
		return nil, status.BadRequest("The special mandatory indexing path \"/*\" is not provided in any of the path type sets. Please provide this path in one of the sets.")
	}
	addTexts := func(p resource.IndexingPolicy) error { return x.addTexts(p, tokens) }
	for _, add := range []func(resource.IndexingPolicy) error{x.addComposites, x.addSpatial, addTexts, x.addVectors} {
		if err := add(p); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (x *Index) addComputed(properties []resource.ComputedProperty) {
	if len(properties) == 0 {
		return
	}
	x.computed = make(map[string]string, len(properties))
	x.root.children = make(map[string]*node, len(properties))
	for _, p := range properties {
		x.computed[p.Name] = p.Query
		x.root.children[p.Name] = &node{computed: true, seed: x.top(rootState, p.Name)}
	}
}

// add adds a path of the policy to the tree.
func (x *Index) add(text string, r rule) error {
	path, err := resource.ParseIndexPath(text)
	if err != nil {
		return err
	}
	if path.Tuple != nil {
		return x.addTuple(text, path, r)
	}
	n := &x.root
	for _, name := range path.Names {
		child := n.children[name]
		if child == nil {
			child = new(node)
			if n.children == nil {
				n.children = map[string]*node{}
			}
			n.children[name] = child
		}
		n = child
	}
	place := &n.leaf
	if path.Subtree {
		place = &n.subtree
	}
	if *place != unsaid && *place != r {
		return status.BadRequest("The indexing path '%s' is both included and excluded. Give it in one of the two lists.", clip(text))
	}
	*place = r
	return nil
}

// child returns the node of a place one level down.
func (n *node) child(name string) *node {
	if n == nil || n.children == nil {
		return nil
	}
	return n.children[name]
}

// decide returns whether values below n are indexed, and whether the value at n
// itself is. inherited is the rule of the places above.
func (n *node) decide(inherited bool) (below, here bool) {
	if n == nil {
		return inherited, inherited
	}
	below = inherited
	if n.subtree != unsaid {
		below = n.subtree == include
	}
	here = below
	if n.leaf != unsaid {
		here = n.leaf == include
	}
	return below, here
}

// Names of top-level properties that the policy does not control.
const (
	idName        = "id"  // always indexed
	timestampName = "_ts" // always indexed, see Index.Timestamp
)

// system reports whether a top-level name is a property that the database sets
// and does not index.
func system(name string) bool {
	switch name {
	case "_rid", "_self", "_etag", "_attachments":
		return true
	}
	return false
}

// Covers reports whether every value at path is indexed: scalars by value,
// arrays and objects as a marker. It is true for the properties id and _ts
// whatever the paths of the policy are, and false for the other system
// properties and in mode none.
func (x *Index) Covers(path Path) bool {
	if x.none || len(path) == 0 {
		return false
	}
	if len(path) == 1 && (path[0] == idName || path[0] == timestampName) {
		return true
	}
	if system(path[0]) || path[0] == timestampName || path[0] == idName {
		return false
	}
	n := &x.root
	below, here := n.decide(false)
	for _, name := range path {
		n = n.child(name)
		below, here = n.decide(below && (n == nil || !n.computed))
	}
	return here
}
