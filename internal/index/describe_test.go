package index

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/geo"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// container returns the indexing policy of a container with these members.
func container(members string) (resource.IndexingPolicy, error) {
	body, err := value.ParseString(members)
	if err != nil {
		return resource.IndexingPolicy{}, err
	}
	body = body.With("id", value.String("c"))
	if !body.Get("partitionKey").IsDefined() {
		key, _ := value.ParseString(`{"paths":["/partition"]}`)
		body = body.With("partitionKey", key)
	}
	c, err := resource.ParseContainer(body)
	return c.Indexing, err
}

func mustContainer(tb testing.TB, members string) *Index {
	tb.Helper()
	p, err := container(members)
	if err != nil {
		tb.Fatal(err)
	}
	x, err := Compile(p)
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// describe prints terms as their paths and values. It finds the path of a term
// among the paths of doc, by the id.
func describe(x *Index, terms []Term, doc value.Value) string {
	places := map[Term]string{}
	var walk func(v value.Value, p Path)
	walk = func(v value.Value, p Path) {
		if len(p) > 0 {
			places[x.walk(rootState, p).id()] = p.String()
			if at := x.spatialAt(p); at != nil {
				places[x.spatialID(p, at)] = "cell of " + p.String()
			}
		}
		for _, m := range v.Members() {
			walk(m.Value, append(slices.Clone(p), m.Name))
		}
		for _, item := range v.Items() {
			walk(item, append(slices.Clone(p), Element))
		}
	}
	walk(doc, nil)
	for _, t := range x.tuples {
		places[t.id] = t.label
	}
	for _, t := range x.texts {
		places[t.id] = "word of " + t.label
		places[t.words] = "words of " + t.label
	}
	for _, c := range x.composites {
		places[c.id] = fmt.Sprint(c.parts)
	}
	var lines []string
	for _, term := range terms {
		lines = append(lines, places[term[:idSize]]+" "+describeValues(x, term))
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		return "none\n"
	}
	return strings.Join(lines, "\n") + "\n"
}

// describeValues prints what follows the id of a term.
func describeValues(x *Index, term Term) string {
	inverted := []bool{false}
	for _, c := range x.composites {
		if c.id == term[:idSize] {
			inverted = nil
			for _, p := range c.parts {
				inverted = append(inverted, p.inverted)
			}
		}
	}
	for _, t := range x.tuples {
		if t.id == term[:idSize] {
			inverted = make([]bool, len(t.members))
		}
	}
	var out []string
	rest := term[idSize:]
	for _, turned := range inverted {
		k, ok := readKey(rest, turned)
		if !ok {
			return fmt.Sprintf("%d bytes", len(rest))
		}
		key := []byte(rest[:k.size])
		if turned {
			invert(key)
		}
		out = append(out, describeKey(key))
		rest = rest[k.size:]
	}
	if rest != "" {
		return fmt.Sprintf("%d bytes", len(term)-idSize)
	}
	return strings.Join(out, " ")
}

func describeKey(key []byte) string {
	switch {
	case bytes.Equal(key, []byte{arrayTag}):
		return "array"
	case bytes.Equal(key, []byte{objectTag}):
		return "object"
	}
	v, _, err := value.DecodeKey(key)
	if err != nil {
		return fmt.Sprintf("cut after %d bytes", len(key))
	}
	return v.String()
}

// parseOrder parses sort keys and what the filter fixes: /a, /b DESC where /c =
// 5 and /d = "x".
func parseOrder(t *testing.T, text string) ([]SortKey, func(Path) (value.Value, bool)) {
	t.Helper()
	order, where, _ := strings.Cut(text, " where ")
	var keys []SortKey
	for item := range strings.SplitSeq(order, ", ") {
		path, desc := strings.CutSuffix(item, " DESC")
		keys = append(keys, SortKey{Path: pathOf(t, path), Desc: desc})
	}
	fixed := map[string]value.Value{}
	for item := range strings.SplitSeq(where, " and ") {
		if path, v, ok := strings.Cut(item, " = "); ok {
			fixed[pathOf(t, path).String()] = parse(t, v)
		}
	}
	return keys, func(p Path) (value.Value, bool) {
		v, ok := fixed[p.String()]
		return v, ok
	}
}

func describeOrder(t *testing.T, x *Index, text string) string {
	t.Helper()
	keys, equal := parseOrder(t, text)
	o, ok := x.Order(keys, equal)
	if !ok {
		return "no"
	}
	out := []string{"sort"}
	if o.Walks {
		out = []string{"walk", o.Span.Label}
	}
	for _, word := range []struct {
		is   bool
		name string
	}{{o.Desc, "backwards"}, {o.Missing, "with missing"}, {o.flip, "flipped"}, {o.Walks && len(o.Span.Low) > idSize+1, "from " + describeValuesOf(o)}} {
		if word.is {
			out = append(out, word.name)
		}
	}
	if o.Composite != nil {
		out = append(out, "of "+strings.Join(o.Composite, ", "))
	}
	return strings.Join(out, " ")
}

// describeValuesOf prints the values with which all terms of an order begin.
func describeValuesOf(o Order) string {
	if len(o.Span.Low) <= idSize {
		return "start"
	}
	return fmt.Sprintf("%x", string(o.Span.Low[idSize:]))
}

// describeServed prints whether x serves each expression that other can produce.
func describeServed(t *testing.T, x, other *Index) string {
	t.Helper()
	var b strings.Builder
	say := func(name string, e Expr) { fmt.Fprintf(&b, "%s %t\n", name, x.Serves(e)) }
	for _, path := range []Path{{"id"}, {"a"}, {"cp"}, {"tags", Element}} {
		if s, ok := other.Span(path, Defined, value.Undefined()); ok {
			say(path.String(), Expr{Op: Leaf, Span: s})
			say(path.String()+" filter", Expr{Op: Filter, Span: s, Test: func(value.Value) bool { return true }})
		}
	}
	for _, c := range other.composites {
		keys := make([]SortKey, len(c.parts))
		for i, p := range c.parts {
			keys[i] = SortKey{Path: p.path, Desc: p.desc}
		}
		o, _ := other.Order(keys, nil)
		say(o.Span.Label, Expr{Op: Leaf, Span: o.Span})
	}
	if e, ok := other.Spatial(Path{"loc"}, []geo.Interval{{Low: 1, High: 2}}); ok {
		say("spatial /loc", e)
	}
	for _, text := range other.texts {
		e, _ := other.FullText(text.path, []string{"word"})
		say("text "+text.label, e)
	}
	for _, tuple := range other.tuples {
		s, _ := other.Tuple(append(slices.Clone(tuple.array), Element), tuple.members[:1], []value.Value{value.Int(1)})
		say(tuple.label, Expr{Op: Leaf, Span: s})
	}
	return b.String()
}
