package query

import (
	"slices"

	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Limits that bound the cost of routing for filters with many cases. Above them the
// ranges are wider than necessary, which costs requests but remains correct.
const (
	keysMax  = 10_000 // of combined levels, over all cases; above it shorter prefixes are used
	casesMax = 10_000 // of a disjunction; above it the cases are merged into one
)

// keyCase is one way to pass the filter: the allowed components for each level of the
// key, nil for a level without a condition. No list is empty.
type keyCase [][]partitionkey.Component

// routing derives key cases from a predicate. It has the paths of a definition as
// steps.
type routing struct {
	d     partitionkey.Definition
	paths []value.Path
}

func newRouting(d partitionkey.Definition) (*routing, bool) {
	r := &routing{d: d}
	for _, text := range d.Paths {
		names, err := partitionkey.ParsePath(text)
		if err != nil {
			return nil, false
		}
		path := make(value.Path, len(names))
		for i, name := range names {
			path[i] = value.Step{Name: name}
		}
		r.paths = append(r.paths, path)
	}
	return r, len(r.paths) > 0
}

// keyRange is a range of EPKs and its meaning.
type keyRange struct {
	partitionkey.Range
	point  partitionkey.EPK
	exact  bool // a full key: the range contains only point
	prefix bool // a part of a hierarchical key: the range has all keys that begin with point
}

// ranges returns where documents that pass p can be, sorted and disjoint.
func (p predicate) ranges(d partitionkey.Definition) []keyRange {
	everywhere := []keyRange{{Range: partitionkey.Full()}}
	r, ok := newRouting(d)
	if !ok {
		return everywhere
	}
	cases, bounded := r.cases(p)
	if !bounded {
		return everywhere
	}
	var list []keyRange
	room := keysMax
	for _, c := range cases {
		some, ok := r.expand(c, &room)
		if !ok {
			return everywhere
		}
		list = append(list, some...)
	}
	return disjoint(list)
}

// disjoint sorts ranges and merges those that overlap. Equal points become one.
// Adjacent points stay separate, so that clients see points.
func disjoint(list []keyRange) []keyRange {
	slices.SortFunc(list, func(a, b keyRange) int {
		if c := a.Min.Compare(b.Min); c != 0 {
			return c
		}
		return b.Max.Compare(a.Max)
	})
	var out []keyRange
	for _, r := range list {
		if n := len(out); n > 0 && r.Min.Compare(out[n-1].Max) < 0 {
			last := &out[n-1]
			if r.Max.Compare(last.Max) > 0 {
				last.Max, last.prefix = r.Max, false
			}
			last.exact = last.exact && r.exact && last.point == r.point
			continue
		}
		out = append(out, r)
	}
	return out
}

// cases returns the key cases of p, or false if p does not restrict the key. No cases
// means that nothing can pass.
func (r *routing) cases(p predicate) ([]keyCase, bool) {
	if p.hidden && p.op != opFalse {
		return nil, false
	}
	switch p.op {
	case opFalse:
		return nil, true
	case opIn:
		return r.leaf(p)
	case opKind:
		return r.kind(p)
	case opAnd:
		return r.conjunction(p.args)
	case opOr:
		return r.disjunction(p.args)
	}
	return nil, false
}

// leaf returns the cases of an equality with constants. Arrays and objects are not
// keys: a document with one at a key path is stored with the undefined keys.
func (r *routing) leaf(p predicate) ([]keyCase, bool) {
	level := slices.IndexFunc(r.paths, func(path value.Path) bool { return slices.Equal(path, p.path) })
	if level < 0 {
		return nil, false
	}
	list := make([]partitionkey.Component, 0, len(p.values))
	for _, v := range p.values {
		if f := v.Float(); f != f || !v.Finite() && len(p.values) == 1 {
			return nil, false // no key is infinite, and the service asks all partitions
		}
		c, ok := component(v)
		if !ok {
			c = partitionkey.Undefined()
		}
		list = append(list, c)
	}
	one := make(keyCase, len(r.paths))
	one[level] = unique(list)
	return []keyCase{one}, true
}

// kind returns the cases of a test for a type that has one or two values.
func (r *routing) kind(p predicate) ([]keyCase, bool) {
	switch p.values[0].Kind() {
	case value.KindNull:
		p.values = []value.Value{value.Null()}
	case value.KindBool:
		p.values = []value.Value{value.Bool(false), value.Bool(true)}
	default:
		return nil, false
	}
	return r.leaf(p)
}

func component(v value.Value) (partitionkey.Component, bool) {
	switch v.Kind() {
	case value.KindNull:
		return partitionkey.Null(), true
	case value.KindBool:
		return partitionkey.Bool(v.Bool()), true
	case value.KindNumber:
		return partitionkey.Number(v.Float()), true
	case value.KindString:
		return partitionkey.String(v.Text()), true
	}
	return partitionkey.Component{}, false
}

// conjunction intersects the cases of all terms, and ignores a term that does not
// restrict the key.
func (r *routing) conjunction(args []predicate) ([]keyCase, bool) {
	var result []keyCase
	bounded := false
	for _, arg := range args {
		cases, ok := r.cases(arg)
		switch {
		case !ok:
		case !bounded:
			result, bounded = cases, true
		case len(result)*len(cases) > casesMax:
			// Either side alone is sufficient.
			if len(cases) < len(result) {
				result = cases
			}
		default:
			result = meet(result, cases)
		}
	}
	return result, bounded
}

// meet intersects each case of a with each case of b and drops contradictions.
func meet(a, b []keyCase) []keyCase {
	var out []keyCase
	for _, x := range a {
	next:
		for _, y := range b {
			z := slices.Clone(x)
			for level, list := range y {
				switch {
				case list == nil:
				case z[level] == nil:
					z[level] = list
				default:
					if z[level] = common(z[level], list); len(z[level]) == 0 {
						continue next
					}
				}
			}
			out = append(out, z)
		}
	}
	return out
}

// disjunction collects the cases of all terms. It merges those that restrict the same
// single level, and merges all if there are too many.
func (r *routing) disjunction(args []predicate) ([]keyCase, bool) {
	var out []keyCase
	single := make([][]partitionkey.Component, len(r.paths))
	for _, arg := range args {
		cases, ok := r.cases(arg)
		if !ok {
			return nil, false
		}
		for _, c := range cases {
			if level := c.only(); level >= 0 {
				single[level] = append(single[level], c[level]...)
				continue
			}
			out = append(out, c)
		}
	}
	for level, list := range single {
		if list != nil {
			one := make(keyCase, len(r.paths))
			one[level] = unique(list)
			out = append(out, one)
		}
	}
	if len(out) > casesMax {
		out = []keyCase{merge(out)}
	}
	return out, true
}

// only returns the level if c restricts exactly one, otherwise -1.
func (c keyCase) only() int {
	only := -1
	for level, list := range c {
		if list != nil {
			if only >= 0 {
				return -1
			}
			only = level
		}
	}
	return only
}

// merge returns one case that admits what any of the cases admits.
func merge(cases []keyCase) keyCase {
	out := make(keyCase, len(cases[0]))
	for level := range out {
		var list []partitionkey.Component
		for _, c := range cases {
			if c[level] == nil {
				list = nil
				break
			}
			list = append(list, c[level]...)
		}
		if list != nil {
			out[level] = unique(list)
		}
	}
	return out
}

// expand returns the ranges of a case: those of the longest prefix of restricted
// levels whose combinations fit its share of the limit. A single level may have as
// many components as the filter. ok is false if no prefix is restricted.
func (r *routing) expand(c keyCase, room *int) (list []keyRange, ok bool) {
	levels, count := 0, 1
	for levels < len(c) && c[levels] != nil {
		longer := count * len(c[levels])
		if levels > 0 && longer > max(count, *room) {
			break
		}
		count = longer
		levels++
	}
	*room -= count
	if levels == 0 || levels < len(c) && r.d.Kind != partitionkey.KindMultiHash {
		return nil, false
	}
	keys := []partitionkey.Key{{}}
	for _, components := range c[:levels] {
		longer := make([]partitionkey.Key, 0, len(keys)*len(components))
		for _, key := range keys {
			for _, component := range components {
				longer = append(longer, key.Append(component))
			}
		}
		keys = longer
	}
	for _, key := range keys {
		bounds, err := r.d.Prefix(key)
		if err != nil {
			return nil, false
		}
		list = append(list, keyRange{Range: bounds, point: bounds.Min, exact: levels == len(c), prefix: levels < len(c)})
	}
	return list, true
}

func unique(list []partitionkey.Component) []partitionkey.Component {
	if len(list) < 2 {
		return list
	}
	seen := make(map[partitionkey.Component]struct{}, len(list))
	out := make([]partitionkey.Component, 0, len(list))
	for _, c := range list {
		if _, ok := seen[c]; !ok {
			seen[c] = struct{}{}
			out = append(out, c)
		}
	}
	return out
}

func common(a, b []partitionkey.Component) []partitionkey.Component {
	in := make(map[partitionkey.Component]struct{}, len(b))
	for _, c := range b {
		in[c] = struct{}{}
	}
	out := make([]partitionkey.Component, 0, min(len(a), len(b)))
	for _, c := range a {
		if _, ok := in[c]; ok {
			out = append(out, c)
		}
	}
	return out
}
