package engine_test

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/value"
)

// A second implementation of queries, as plain as possible: no plan, no index,
// no bytes.

// truth is the result of a condition. By its numbers, AND is the minimum of two,
// OR the maximum, and NOT the negative.
type truth int

const (
	no      truth = -1
	unknown truth = 0
	yes     truth = 1
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// condition is a filter as text and as a function of a document. The function is
// nil if only the engine can evaluate the text.
type condition struct {
	text string
	of   func(doc value.Value) truth
}

// place is a path in a document.
type place struct {
	text  string
	steps []any // names and positions
}

func (p place) of(doc value.Value) value.Value {
	for _, step := range p.steps {
		switch step := step.(type) {
		case string:
			doc = doc.Get(step)
		case int:
			doc = doc.Index(step)
		}
	}
	return doc
}

// top returns the first name of the path.
func (p place) top() string { return p.steps[0].(string) }

// literal is a constant as text and as a value.
type literal struct {
	text string
	v    value.Value
}

func equals(a, b value.Value) truth {
	if !a.IsDefined() || !b.IsDefined() {
		return unknown
	}
	return truthOf(value.Equal(a, b))
}

// compares is a comparison operator of the language.
func compares(op string, a, b value.Value) truth {
	switch op {
	case "=":
		return equals(a, b)
	case "!=":
		return -equals(a, b)
	}
	if a.Kind() != b.Kind() || !a.IsDefined() || a.Kind() > value.KindString {
		return unknown
	}
	c := value.Compare(a, b)
	return truthOf(op[0] == '<' && c < 0 || op[0] == '>' && c > 0 || len(op) == 2 && c == 0)
}

// within is BETWEEN: no if one comparison is, whatever the other one gives.
func within(v, low, high value.Value) truth {
	return min(compares(">=", v, low), compares("<=", v, high))
}

// among is IN.
func among(v value.Value, list []literal) truth {
	result := no
	for _, one := range list {
		result = max(result, equals(v, one.v))
	}
	return result
}

// searches is a function of two strings, optionally with a flag to ignore case.
func searches(name string, s, t value.Value, ignoreCase bool) truth {
	if s.Kind() != value.KindString || t.Kind() != value.KindString {
		return unknown
	}
	a, b := s.Text(), t.Text()
	if ignoreCase {
		a, b = strings.ToLower(a), strings.ToLower(b)
	}
	switch name {
	case "CONTAINS":
		return truthOf(strings.Contains(a, b))
	case "STARTSWITH":
		return truthOf(strings.HasPrefix(a, b))
	case "ENDSWITH":
		return truthOf(strings.HasSuffix(a, b))
	}
	return truthOf(a == b)
}

// isType is a function such as IS_NUMBER.
func isType(name string, v value.Value) truth {
	kinds := map[string]value.Kind{
		"IS_NULL": value.KindNull, "IS_BOOL": value.KindBool, "IS_NUMBER": value.KindNumber,
		"IS_STRING": value.KindString, "IS_ARRAY": value.KindArray, "IS_OBJECT": value.KindObject,
	}
	switch name {
	case "IS_DEFINED":
		return truthOf(v.IsDefined())
	case "IS_PRIMITIVE":
		return truthOf(v.IsDefined() && v.Kind() <= value.KindString)
	}
	return truthOf(v.Kind() == kinds[name])
}

// hasElement is ARRAY_CONTAINS, with or without parts of objects.
func hasElement(array, x value.Value, partial bool) truth {
	if array.Kind() != value.KindArray || !x.IsDefined() {
		return unknown
	}
	return truthOf(slices.ContainsFunc(array.Items(), func(item value.Value) bool {
		return value.Equal(item, x) || partial && partOf(x, item)
	}))
}

func partOf(x, whole value.Value) bool {
	if x.Kind() != value.KindObject || whole.Kind() != value.KindObject {
		return value.Equal(x, whole)
	}
	return !slices.ContainsFunc(x.Members(), func(m value.Member) bool { return !partOf(m.Value, whole.Get(m.Name)) })
}

// like is LIKE of a pattern without escapes.
func like(v value.Value, pattern *regexp.Regexp) truth {
	if v.Kind() != value.KindString {
		return unknown
	}
	return truthOf(pattern.MatchString(v.Text()))
}

// ordered sorts documents by paths. Ties are in the order of numbers, in the
// direction of the first path.
func ordered(docs []stored, keys []sortKey) []stored {
	docs = slices.Clone(docs)
	slices.SortFunc(docs, func(a, b stored) int {
		for _, key := range keys {
			if c := value.CompareOrder(key.of(a.value), key.of(b.value)); c != 0 {
				return turned(c, key.desc)
			}
		}
		return turned(cmp.Compare(a.number, b.number), len(keys) > 0 && keys[0].desc)
	})
	return docs
}

func turned(c int, desc bool) int {
	if desc {
		return -c
	}
	return c
}

type sortKey struct {
	place
	desc bool
}

// naive is a query of a simple shape: it selects a value of each document, or
// of each group of documents.
type naive struct {
	filter condition
	order  []sortKey
	keys   []place // of groups; nil without lone: there are no groups
	lone   bool    // all documents are one group
	row    func(group []stored) value.Value
	skip   int
	take   int // -1 for all
}

// rows computes the rows, in the order of documents; groups have no order.
func (n naive) rows(docs []stored) []value.Value {
	docs = slices.DeleteFunc(slices.Clone(docs), func(d stored) bool { return n.filter.of != nil && n.filter.of(d.value) != yes })
	docs = ordered(docs, n.order)
	var groups [][]stored
	switch {
	case n.lone:
		groups = [][]stored{docs}
	case n.keys != nil:
		groups = n.groups(docs)
	default:
		for i := range docs {
			groups = append(groups, docs[i:i+1])
		}
	}
	var rows []value.Value
	for _, group := range groups {
		if v := n.row(group); v.IsDefined() {
			rows = append(rows, v)
		}
	}
	rows = rows[min(n.skip, len(rows)):]
	if n.take >= 0 {
		rows = rows[:min(n.take, len(rows))]
	}
	return rows
}

func (n naive) groups(docs []stored) [][]stored {
	var groups [][]stored
	places := map[string]int{}
	for _, d := range docs {
		var key []byte
		for _, p := range n.keys {
			key = value.AppendKey(key, p.of(d.value))
		}
		at, ok := places[string(key)]
		if !ok {
			at = len(groups)
			places[string(key)], groups = at, append(groups, nil)
		}
		groups[at] = append(groups[at], d)
	}
	return groups
}

// valuesAt returns the defined values at a path.
func valuesAt(group []stored, p place) []value.Value {
	var list []value.Value
	for _, d := range group {
		if v := p.of(d.value); v.IsDefined() {
			list = append(list, v)
		}
	}
	return list
}

// extreme is MIN or, if sign is -1, MAX.
func extreme(group []stored, p place, sign int) value.Value {
	best := value.Undefined()
	for _, v := range valuesAt(group, p) {
		if v.Kind() > value.KindString {
			return value.Undefined()
		}
		if !best.IsDefined() || sign*value.Compare(v, best) < 0 {
			best = v
		}
	}
	return best
}

// sumOfIntegers is SUM of small integers.
func sumOfIntegers(group []stored, p place) value.Value {
	sum := int64(0)
	for _, v := range valuesAt(group, p) {
		n, ok := v.Int64()
		if !ok {
			return value.Undefined()
		}
		sum += n
	}
	return value.Int(sum)
}

func count(group []stored) value.Value { return value.Int(int64(len(group))) }

func object(pairs ...any) value.Value {
	var members []value.Member
	for i := 0; i < len(pairs); i += 2 {
		members = append(members, value.Member{Name: pairs[i].(string), Value: pairs[i+1].(value.Value)})
	}
	return value.Object(members)
}
