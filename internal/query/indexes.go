package query

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// IndexUse lists the indexes that a plan uses, and others that could reduce its cost.
// It depends only on the plan and the policy, not on the documents.
type IndexUse struct {
	Single             []string   // paths of used indexes as in a policy, such as /a/?
	Composite          [][]string // used composite indexes by their properties, such as /a ASC
	PotentialSingle    []string   // paths of the filter that the policy does not index
	PotentialComposite [][]string // composite indexes that would restrict or sort further
}

// Value returns the use in the form of the second version of the service's index
// metrics.
func (u IndexUse) Value() value.Value {
	return value.Object([]value.Member{
		{Name: "UtilizedIndexes", Value: indexLists(u.Single, u.Composite, false)},
		{Name: "PotentialIndexes", Value: indexLists(u.PotentialSingle, u.PotentialComposite, true)},
	})
}

// indexLists writes indexes. For an index that does not exist it adds a text about the
// benefit of the index.
func indexLists(single []string, composite [][]string, potential bool) value.Value {
	entry := func(name string, spec value.Value) value.Value {
		members := []value.Member{{Name: name, Value: spec}}
		if potential {
			members = append(members, value.Member{Name: "IndexImpactScore", Value: value.String("High")})
		}
		return value.Object(members)
	}
	one, many := []value.Value{}, []value.Value{}
	for _, path := range single {
		one = append(one, entry("IndexSpec", value.String(path)))
	}
	for _, properties := range composite {
		many = append(many, entry("IndexSpecs", textArray(properties)))
	}
	return value.Object([]value.Member{
		{Name: "SingleIndexes", Value: value.Array(one)},
		{Name: "CompositeIndexes", Value: value.Array(many)},
	})
}

// Indexes returns the indexes that the plan uses. It returns none for documents without
// a policy.
//
// The lists match those of the service: the tests of its .NET client contain 47 queries
// with the metrics of the service. The indexes of the filter come first, from the last
// condition to the first. The index of ORDER BY and those of group keys are not used if
// conditions on other paths are, unless a composite index is recommended for ORDER BY.
func (p *Plan) Indexes() IndexUse {
	var u IndexUse
	ix := p.with.ix
	if ix == nil {
		return u
	}
	u.add(p.accessing)
	slices.Reverse(u.Single)
	if p.group != nil {
		filtered := len(u.Single) > 0
		for _, l := range p.group.lookups {
			u.add(l.access)
			if l.way != byCount && !(filtered && len(p.group.keys) > 0) {
				u.add(index.Expr{Span: l.order.Span})
			}
		}
	}
	for x := range p.query.Columns() {
		u.prefixes(x, p)
	}
	keys := p.sortKeys()
	if order, ok := ix.Order(keys, p.where.fixed); ok && order.Composite != nil && order.Walks {
		u.Composite = [][]string{order.Composite}
	} else {
		u.potential(p, keys)
		if ok && order.Walks {
			u.sorted(policyPath(order.Span.Label))
		}
	}
	u.best(p)
	p.where.eachLeaf(func(leaf predicate) {
		path := indexPath(leaf.path)
		if text := path.String() + "/?"; !ix.Covers(path) && !slices.Contains(u.PotentialSingle, text) {
			u.PotentialSingle = append(u.PotentialSingle, text)
		}
	})
	return u
}

// sorted records the single index of an ORDER BY. PotentialComposite is set.
func (u *IndexUse) sorted(label string) {
	switch other := func(used string) bool { return used != label }; {
	case !slices.ContainsFunc(u.Single, other) || u.PotentialComposite != nil:
		u.single(label)
	default:
		u.Single = slices.DeleteFunc(u.Single, func(used string) bool { return !other(used) })
	}
}

// prefixes records the indexes of the paths that calls of STARTSWITH in a column test.
func (u *IndexUse) prefixes(x sql.Expr, p *Plan) {
	if call, ok := x.(*sql.CallExpr); ok && isFunction(call, "STARTSWITH") && p.query.From != nil {
		if in := p.query.From.Inputs[0]; in.Collection != nil && !in.In {
			if path := pathNames(call.Args[0]); len(path) > 0 {
				path = append(pathNames(in.Collection), path...)
				if p.with.ix.Covers(path) {
					u.single(path.String() + "/?")
				}
			}
		}
	}
	if _, nested := x.(*sql.Subquery); nested {
		return
	}
	for part := range sql.Children(x) {
		u.prefixes(part, p)
	}
}

// add records the indexes of an access.
func (u *IndexUse) add(x index.Expr) {
	if x.Span.Label != "" {
		u.single(x.Span.Label)
	}
	for _, arg := range x.Args {
		u.add(arg)
	}
}

func (u *IndexUse) single(label string) {
	label = policyPath(label)
	if !slices.Contains(u.Single, label) {
		u.Single = append(u.Single, label)
	}
}

// policyPath returns the path by which the service names an index: /loc/? for the
// label "spatial /loc".
func policyPath(label string) string {
	_, path, other := strings.Cut(label, " /")
	if !other || strings.HasPrefix(label, "/") {
		return label
	}
	return "/" + path + "/?"
}

// potential records a composite index. It starts with the properties that the filter
// fixes to one value. The remaining properties of the order follow, or else one that
// the filter bounds. Properties with a fixed value need no composite index by
// themselves, unless they are the keys of groups.
func (u *IndexUse) potential(p *Plan, keys []index.SortKey) {
	var fixed, bounded []string
	for _, term := range p.where.terms() {
		path := indexPath(term.path)
		switch {
		case len(path) == 0 || slices.Contains(path, index.Element):
		case term.op == opIn && len(term.values) == 1:
			fixed = append(fixed, path.String()+" ASC")
		case term.op == opLess || term.op == opLessEqual || term.op == opGreater || term.op == opGreaterEqual:
			bounded = append(bounded, path.String()+" ASC")
		}
	}
	slices.Sort(fixed)
	properties := slices.Compact(fixed)
	alone := len(properties)
	for _, key := range keys {
		way := " ASC"
		if key.Desc {
			way = " DESC"
		}
		if _, known := p.where.fixed(key.Path); !known {
			properties = append(properties, key.Path.String()+way)
		}
	}
	if len(properties) == alone && len(bounded) > 0 {
		properties = append(properties, slices.Min(bounded))
	}
	if len(properties) > 1 && (len(properties) > alone || p.groupsBy(properties)) {
		u.PotentialComposite = [][]string{properties}
	}
}

// groupsBy reports whether the keys of GROUP BY are the given properties of a composite
// index.
func (p *Plan) groupsBy(properties []string) bool {
	if len(p.query.GroupBy) != len(properties) {
		return false
	}
	for _, key := range p.query.GroupBy {
		if path := pathNames(key); len(path) == 0 || !slices.Contains(properties, path.String()+" ASC") {
			return false
		}
	}
	return true
}

// terms returns the predicates of a conjunction.
func (p predicate) terms() []predicate {
	if p.op == opAnd {
		return p.args
	}
	return []predicate{p}
}

// eachLeaf calls do for each predicate about one place.
func (p predicate) eachLeaf(do func(leaf predicate)) {
	if len(p.path) > 0 {
		do(p)
	}
	for _, arg := range p.args {
		arg.eachLeaf(do)
	}
}

// fixed returns the value at a path if all documents that pass have the same,
// otherwise false.
func (p predicate) fixed(path index.Path) (value.Value, bool) {
	for _, term := range p.terms() {
		if term.op == opIn && len(term.values) == 1 && slices.Equal(indexPath(term.path), path) {
			return term.values[0], true
		}
	}
	return value.Undefined(), false
}

// sortKeys returns the properties of ORDER BY; none if a key is not a property, or if
// it sorts groups.
func (p *Plan) sortKeys() []index.SortKey {
	q := p.query
	if q.Rank || p.group != nil || q.From == nil || q.From.Inputs[0].Collection == nil {
		return nil
	}
	base := pathNames(q.From.Inputs[0].Collection)
	var keys []index.SortKey
	for _, sort := range q.OrderBy {
		path := pathNames(sort.Expr)
		if len(path) == 0 {
			return nil
		}
		keys = append(keys, index.SortKey{Path: append(slices.Clone(base), path...), Desc: sort.Desc})
	}
	return keys
}

// pathNames returns the names and elements after the first name of a property, or nil
// if x is not a property.
func pathNames(x sql.Expr) index.Path {
	switch x := x.(type) {
	case *sql.MemberExpr:
		return append(pathNames(x.X), x.Name)
	case *sql.IndexExpr:
		at, ok := x.Index.(*sql.Literal)
		switch {
		case !ok:
			return nil
		case at.Value.Kind() == value.KindString:
			return append(pathNames(x.X), at.Value.Text())
		}
		return append(pathNames(x.X), index.Element)
	}
	return nil
}
