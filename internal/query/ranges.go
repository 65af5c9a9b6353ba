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

// placesOf returns the places of the levels of a key.
func placesOf(d partitionkey.Definition) ([]string, bool) {
	var places []string
	for _, text := range d.Paths {
		names, err := partitionkey.ParsePath(text)
		if err != nil {
			return nil, false
		}
		places = append(places, placeOf(names...))
	}
	return places, len(places) > 0
}

// keyRange is a range of EPKs and its meaning.
type keyRange struct {
	partitionkey.Range
	point  partitionkey.EPK
	exact  bool // a full key: the range contains only point
	prefix bool // a part of a hierarchical key: the range has all keys that begin with point
}

// rangesOf returns where documents that fulfil one of the boxes can be, sorted and
// disjoint.
func rangesOf(boxes []box, d partitionkey.Definition) []keyRange {
	everywhere := []keyRange{{Range: partitionkey.Full()}}
	places, ok := placesOf(d)
	if !ok {
		return everywhere
	}
	cases := make([]keyCase, len(boxes))
	for i, b := range boxes {
		if cases[i], ok = b.keys(places); !ok {
			return everywhere
		}
	}
	var list []keyRange
	room := keysMax
	for _, c := range together(cases) {
		some, ok := c.expand(d, &room)
		if !ok {
			return everywhere
		}
		list = append(list, some...)
	}
	return disjoint(list)
}

// keys returns the keys of documents in the box, or false if the box does not restrict
// the first level.
func (b box) keys(places []string) (keyCase, bool) {
	c := make(keyCase, len(places))
	for level, place := range places {
		if at := b.find(place); at >= 0 {
			c[level] = b[at].values.components()
		}
	}
	return c, c[0] != nil
}

// components returns the components that the values of a domain are in a key, or nil if
// they are not listed. Arrays and objects are not keys: a document with one at a key
// path is stored with the undefined keys.
func (d domain) components() []partitionkey.Component {
	if d.kinds&mayMiss != 0 {
		return nil
	}
	list := make([]partitionkey.Component, 0, len(d.intervals)+1)
	if d.kinds&(mayArray|mayObject) != 0 {
		if d.parts == nil {
			return nil
		}
		list = append(list, partitionkey.Undefined())
	}
	for _, v := range []value.Value{value.Null(), value.Bool(false), value.Bool(true)} {
		if d.kinds&kindsOf(v) != 0 {
			c, _ := component(v)
			list = append(list, c)
		}
	}
	for _, s := range d.listed() {
		v, ok := s.point()
		if !ok || hasNaN(v) {
			return nil
		}
		c, _ := component(v)
		list = append(list, c)
	}
	return unique(list)
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

// together merges the cases that restrict the same single level.
func together(cases []keyCase) []keyCase {
	if len(cases) < 2 {
		return cases
	}
	single := make([][]partitionkey.Component, len(cases[0]))
	out := cases[:0]
	for _, c := range cases {
		if level := c.only(); level >= 0 {
			single[level] = append(single[level], c[level]...)
			continue
		}
		out = append(out, c)
	}
	for level, list := range single {
		if list != nil {
			one := make(keyCase, len(single))
			one[level] = unique(list)
			out = append(out, one)
		}
	}
	return out
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

// expand returns the ranges of a case: those of the longest prefix of restricted
// levels whose combinations fit its share of the limit. A single level may have as
// many components as the filter. ok is false if no prefix is restricted.
func (c keyCase) expand(d partitionkey.Definition, room *int) (list []keyRange, ok bool) {
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
	if levels == 0 || levels < len(c) && d.Kind != partitionkey.KindMultiHash {
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
		bounds, err := d.Prefix(key)
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
