package engine_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// constants are the values of documents and filters: all types, numbers at the
// ends of their range, strings with a common prefix longer than the index
// stores.
func constants() []string {
	long := strings.Repeat("x", 126)
	list := []string{
		"null", "true", "false", "0", "-0", "1", "-1", "1.5", "1e300", "-1e300", "5e-324",
		"9007199254740993", "9223372036854775807", "-9223372036854775808", "18446744073709551616",
		`""`, `"a"`, `"A"`, `"ab"`, `"AB"`, `"b"`, `"1"`, `"true"`, `"é"`, `"É"`, `"e\u0301"`, `"\ud83d\ude00"`, `"\uffff"`, `"a\u0000b"`, `"a\"b\\c"`, `"%"`, `"a_b"`,
		"[]", "[1]", `["a",1]`, "[[1]]", "{}", `{"a":1}`, `{"a":1,"b":2}`, `{"b":2,"a":1}`, "[null]",
	}
	for _, end := range []string{"", "x", "xx", "xxx", "xxy", "y", "xxé", "xé", "xx" + long, "xx" + long + "a", "xx" + long + "b"} {
		list = append(list, fmt.Sprintf("%q", long+end))
	}
	return list
}

// The paths of documents. Filters use all of them, ORDER BY those that are
// members of objects.
var (
	plainPlaces = []place{
		named("pk"), named("sk"), named("a"),
		{`c["b b"]`, []any{"b b"}},
		{"c.n.a", []any{"n", "a"}},
		{"c.n.deep.er", []any{"n", "deep", "er"}},
		named("num"), named("f"), named("s"), named("id"), named("n"), named("t"),
	}
	elementPlaces = []place{{"c.t[0]", []any{"t", 0}}, {"c.t[2].a", []any{"t", 2, "a"}}, {"c.k[0].x", []any{"k", 0, "x"}}}
	numPlace      = named("num")
	idPlace       = named("id")
)

func named(name string) place { return place{"c." + name, []any{name}} }

// words are the words of the texts for full-text search.
var words = []string{"red", "blue", "fox", "foxes", "jump", "jumped", "the", "house", "Houses", "quick"}

// fragments are parts of the texts of documents, in both cases.
var fragments = []string{`"a"`, `"A"`, `"b"`, `"aB"`, `"x"`, `"X"`, `"é"`, `"É"`, `"red"`, `"FOX"`, `"houses"`, `" the"`, `"00"`}

// The shapes in spatial conditions.
var (
	points   = []string{`{"type":"Point","coordinates":[0,0]}`, `{"type":"Point","coordinates":[0.5,0.5]}`, `{"type":"Point","coordinates":[10,50]}`, `{"type":"Point","coordinates":[179.9,0]}`, `{"type":"Point","coordinates":[-179.9,0.1]}`, `{"type":"Point","coordinates":[0,90]}`}
	polygons = []string{`{"type":"Polygon","coordinates":[[[-1,-1],[1,-1],[1,1],[-1,1],[-1,-1]]]}`, `{"type":"Polygon","coordinates":[[[9,49],[11,49],[11,51],[9,51],[9,49]]]}`, `{"type":"Polygon","coordinates":[[[170,-10],[-170,-10],[-170,10],[170,10],[170,-10]]]}`}
	oddities = []string{`{"type":"Point","coordinates":[0,91]}`, `{"type":"Point"}`, `{"type":"LineString","coordinates":[[0,0],[2,2]]}`, `"nowhere"`}
)

// drawn draws documents, policies and queries from one pool of constants.
type drawn struct {
	*rand.Rand
	pool   []string
	keys   []string            // the values of partition keys, so few that each has several documents
	narrow bool                // every key value is from keys
	params map[string]string   // of the query that is being drawn
	made   map[string]*literal // parsed constants
}

func newDrawn(seed uint64) *drawn {
	d := &drawn{Rand: rand.New(rand.NewPCG(seed, 1)), pool: constants(), made: map[string]*literal{}}
	for range 7 {
		d.keys = append(d.keys, d.constant())
	}
	return d
}

func (d *drawn) one(list ...string) string { return list[d.IntN(len(list))] }

func (d *drawn) constant() string { return d.one(d.pool...) }

func (d *drawn) chance(percent int) bool { return d.IntN(100) < percent }

// parsed returns a constant, without making it a parameter.
func (d *drawn) parsed(text string) literal {
	if l := d.made[text]; l != nil {
		return *l
	}
	v, err := value.ParseString(text)
	if err != nil {
		panic(text)
	}
	d.made[text] = &literal{text, v}
	return *d.made[text]
}

// literal draws a constant for a query: as a literal or as a parameter.
func (d *drawn) literal() literal {
	text := d.constant()
	if d.chance(20) {
		text = d.small()
	}
	return d.written(text)
}

func (d *drawn) written(text string) literal {
	l := d.parsed(text)
	if d.chance(20) {
		l.text = fmt.Sprintf("@p%d", len(d.params))
		d.params[l.text] = text
	}
	return l
}

// small draws a number that many documents share.
func (d *drawn) small() string { return fmt.Sprint(d.IntN(8)) }

func (d *drawn) sentence() string {
	var list []string
	for range d.IntN(7) {
		list = append(list, d.one(words...))
	}
	return strings.Join(list, d.one(" ", ", "))
}

func (d *drawn) shape() string {
	if d.chance(20) {
		return d.one(oddities...)
	}
	if d.chance(25) {
		return d.one(polygons...)
	}
	if d.chance(50) {
		return d.one(points...)
	}
	return fmt.Sprintf(`{"type":"Point","coordinates":[%.3f,%.3f]}`, d.Float64()*4-2, d.Float64()*4-2)
}

func (d *drawn) list(item func() string) string {
	var items []string
	for range d.IntN(4) {
		items = append(items, item())
	}
	return "[" + strings.Join(items, ",") + "]"
}

// inner draws a value at c.n.a, which may be the key.
func (d *drawn) inner() string {
	if d.narrow {
		return d.one(d.keys...)
	}
	return d.constant()
}

// document draws a document. It takes the members in kept from there, so that a
// replacement keeps the key.
func (d *drawn) document(id string, kept map[string]string) string {
	var members []string
	member := func(name string, percent int, text string) {
		if kept != nil {
			if old, fixed := kept[name]; fixed {
				if old != "" {
					members = append(members, fmt.Sprintf("%q:%s", name, old))
				}
				return
			}
		}
		if d.chance(percent) {
			members = append(members, fmt.Sprintf("%q:%s", name, text))
		}
	}
	member("id", 100, fmt.Sprintf("%q", id))
	member("pk", 85, d.one(d.keys...))
	member("sk", 85, d.one(d.keys[:4]...))
	member("a", 80, d.one(d.constant(), d.constant(), d.one(fragments...)))
	member("b b", 80, d.constant())
	member("n", 75, fmt.Sprintf(`{"a":%s,"deep":{"er":%s}}`, d.one(d.inner(), d.keys[0], d.keys[1]), d.constant()))
	member("t", 75, fmt.Sprintf(`[%s,%s,{"a":%s}]`, d.constant(), d.constant(), d.constant()))
	member("num", 90, d.small())
	member("f", 80, d.one("0.1", "0.2", "0.3", "1e16", "-1e16", "7", "-3.25", "9007199254740993"))
	member("s", 80, fmt.Sprintf("%q", d.sentence()))
	member("loc", 70, d.shape())
	member("k", 75, d.list(func() string { return fmt.Sprintf(`{"x":%s,"y":%s}`, d.small(), d.one(d.small(), d.constant())) }))
	member("v", 70, fmt.Sprintf("[%d,%d,%d]", d.IntN(9)-4, d.IntN(9)-4, d.IntN(9)-4))
	d.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}"
}

// policy is an indexing policy with the facts that the test needs.
type policy struct {
	text      string // the member indexingPolicy
	none      bool
	excluded  []string // names of properties that are not indexed; "" for all
	composite [][]sortKey
	computed  []resource.ComputedProperty
}

// composites are the composite indexes that a policy may have.
var composites = [][]sortKey{
	{{named("a"), false}, {named("num"), false}},
	{{named("a"), false}, {named("num"), true}},
	{{named("num"), true}, {named("s"), true}},
	{{named("num"), false}, {named("f"), true}, {named("id"), false}},
	{{place{"c.n.a", []any{"n", "a"}}, true}, {named("pk"), false}},
}

var computedProperties = []resource.ComputedProperty{
	{Name: "low", Query: "SELECT VALUE LOWER(c.a) FROM c"},
	{Name: "size", Query: "SELECT VALUE LENGTH(c.s) FROM c"},
}

func (d *drawn) policy() policy {
	var p policy
	included, excluded := []string{"/*"}, []string{`/"_etag"/?`}
	switch d.IntN(6) {
	case 0:
		p.none = d.chance(50)
		p.excluded, included, excluded = []string{""}, nil, []string{"/*"}
		if p.none {
			p.text = `{"indexingMode":"none","automatic":false}`
			return p
		}
	case 1, 2, 3:
		for _, name := range []string{"a", "b b", "num", "n", "t", "s", "f", "k"} {
			if d.chance(30) {
				p.excluded, excluded = append(p.excluded, name), append(excluded, fmt.Sprintf(`/\"%s\"/*`, name))
			}
		}
	}
	for _, tuple := range []string{"/k/[]/{x, y}/?", "/k/[]/{y}/?", "/t/[]/{a}/?"} {
		if d.chance(30) {
			included = append(included, tuple)
		}
	}
	excluded[0] = strings.ReplaceAll(excluded[0], `"`, `\"`)
	for _, c := range composites {
		if d.chance(40) {
			p.composite = append(p.composite, c)
		}
	}
	if d.chance(40) {
		p.computed = computedProperties
		if p.excluded == nil || p.excluded[0] != "" {
			included = append(included, "/low/?", "/size/?")
		}
	}
	p.text = fmt.Sprintf(`{"includedPaths":[%s],"excludedPaths":[%s],"compositeIndexes":[%s]%s%s%s}`,
		paths(included), paths(excluded), compositeText(p.composite),
		d.one("", `,"spatialIndexes":[{"path":"/loc/*","types":["Point","LineString","Polygon","MultiPolygon"]}]`), d.one("", `,"fullTextIndexes":[{"path":"/s"}]`), d.one("", "", `,"vectorIndexes":[{"path":"/v","type":"flat"}]`))
	return p
}

func paths(list []string) string {
	var items []string
	for _, path := range list {
		items = append(items, fmt.Sprintf(`{"path":"%s"}`, path))
	}
	return strings.Join(items, ",")
}

func compositeText(list [][]sortKey) string {
	var all []string
	for _, index := range list {
		var properties []string
		for _, key := range index {
			properties = append(properties, fmt.Sprintf(`{"path":%q,"order":%q}`, "/"+strings.ReplaceAll(strings.TrimPrefix(key.text, "c."), ".", "/"), map[bool]string{false: "ascending", true: "descending"}[key.desc]))
		}
		all = append(all, "["+strings.Join(properties, ",")+"]")
	}
	return strings.Join(all, ",")
}

// orders reports whether the policy supports an order by keys. It does not know
// about composite indexes after properties that a filter fixes.
func (p policy) orders(keys []sortKey) bool {
	if p.none {
		return false
	}
	if len(keys) == 1 && (keys[0].top() == "id" || !slices.Contains(p.excluded, "") && !slices.Contains(p.excluded, keys[0].top())) {
		return true
	}
	return slices.ContainsFunc(p.composite, func(index []sortKey) bool {
		if len(index) != len(keys) {
			return false
		}
		for i := range index {
			if index[i].text != keys[i].text || index[i].desc != keys[i].desc != (index[0].desc != keys[0].desc) {
				return false
			}
		}
		return true
	})
}

// place draws the path of a condition.
func (d *drawn) place() place {
	switch d.IntN(10) {
	case 0, 1:
		return named(d.one("pk", "sk"))
	case 2:
		return elementPlaces[d.IntN(len(elementPlaces))]
	case 3:
		return numPlace
	}
	return plainPlaces[d.IntN(len(plainPlaces))]
}

// condition draws a filter.
func (d *drawn) condition(depth int) condition {
	if depth > 0 {
		a := d.condition(depth - 1)
		switch d.IntN(5) {
		case 0, 1:
			return both("AND", a, d.condition(depth-1), func(x, y truth) truth { return min(x, y) })
		case 2, 3:
			return both("OR", a, d.condition(depth-1), func(x, y truth) truth { return max(x, y) })
		}
		return negated(fmt.Sprintf("(NOT (%s))", a.text), a)
	}
	if d.chance(30) {
		return d.call()
	}
	return d.comparison()
}

func both(op string, a, b condition, join func(x, y truth) truth) condition {
	c := condition{text: fmt.Sprintf("(%s %s %s)", a.text, op, b.text)}
	if a.of != nil && b.of != nil {
		c.of = func(doc value.Value) truth { return join(a.of(doc), b.of(doc)) }
	}
	return c
}

func negated(text string, a condition) condition {
	c := condition{text: text}
	if a.of != nil {
		c.of = func(doc value.Value) truth { return -a.of(doc) }
	}
	return c
}

// perhaps negates a condition with NOT as an infix, at random.
func (d *drawn) perhaps(text string, of func(doc value.Value) truth) condition {
	if d.chance(70) {
		return condition{strings.Replace(text, "NOT ", "", 1), of}
	}
	return condition{text, func(doc value.Value) truth { return -of(doc) }}
}

// comparison draws a condition with an operator.
func (d *drawn) comparison() condition {
	p, v := d.place(), d.literal()
	if (p.text == "c.pk" || p.text == "c.sk") && d.chance(60) {
		v = d.written(d.one(d.keys...)) // so that filters target partitions with rows
	}
	switch d.IntN(12) {
	case 11:
		op := d.one("=", "<", ">=", "!=")
		return condition{fmt.Sprintf("(LET x = %s IN x %s %s)", p.text, op, v.text), func(doc value.Value) truth { return compares(op, p.of(doc), v.v) }}
	case 0, 1, 2:
		return condition{p.text + " = " + v.text, func(doc value.Value) truth { return equals(p.of(doc), v.v) }}
	case 3:
		return condition{v.text + " = " + p.text, func(doc value.Value) truth { return equals(p.of(doc), v.v) }}
	case 4:
		list := make([]literal, 1+d.IntN(9))
		var texts []string
		for i := range list {
			list[i] = d.literal()
			texts = append(texts, list[i].text)
		}
		return d.perhaps(fmt.Sprintf("%s NOT IN (%s)", p.text, strings.Join(texts, ", ")), func(doc value.Value) truth { return among(p.of(doc), list) })
	case 5, 6:
		op := d.one("<", "<=", ">", ">=", "!=")
		return condition{p.text + " " + op + " " + v.text, func(doc value.Value) truth { return compares(op, p.of(doc), v.v) }}
	case 7:
		high := d.literal()
		return d.perhaps(fmt.Sprintf("(%s NOT BETWEEN %s AND %s)", p.text, v.text, high.text), func(doc value.Value) truth { return within(p.of(doc), v.v, high.v) })
	case 8:
		other, op := d.place(), d.one("=", "<", "!=")
		return condition{p.text + " " + op + " " + other.text, func(doc value.Value) truth { return compares(op, p.of(doc), other.of(doc)) }}
	case 9:
		n := d.small()
		op := d.one("=", "<", ">=")
		v := d.written(n)
		return condition{"c.num " + op + " " + v.text, func(doc value.Value) truth { return compares(op, doc.Get("num"), v.v) }}
	}
	return condition{p.text, func(doc value.Value) truth {
		if v := p.of(doc); v.Kind() == value.KindBool {
			return truthOf(v.Bool())
		}
		return unknown
	}}
}

// patterns are patterns of LIKE, with equivalent regular expressions.
var patterns = [][2]string{
	{`"a%"`, "^a.*$"},
	{`"a!_b" ESCAPE "!"`, "^a_b$"},
	{`"%x"`, "^.*x$"},
	{`"[a-b]%"`, "^[a-b].*$"},
	{`"[^a]"`, "^[^a]$"},
	{`"` + strings.Repeat("x", 130) + `%"`, "^" + strings.Repeat("x", 130) + ".*$"},
	{`"_"`, "^.$"},
	{`""`, "^$"},
	{`"%"`, "^.*$"},
	{`"%fox%"`, "^.*fox.*$"},
}

// call draws a condition with a function.
func (d *drawn) call() condition {
	p, v := d.place(), d.literal()
	switch d.IntN(16) {
	case 0, 1, 2:
		name, flag := d.one("CONTAINS", "STARTSWITH", "STARTSWITH", "ENDSWITH", "STRINGEQUALS"), d.one("", ", false", ", true", ", true")
		if d.chance(50) {
			v = d.written(d.one(fragments...))
		}
		return condition{fmt.Sprintf("%s(%s, %s%s)", name, p.text, v.text, flag), func(doc value.Value) truth { return searches(name, p.of(doc), v.v, flag == ", true") }}
	case 3, 4:
		name := d.one("IS_DEFINED", "IS_NULL", "IS_STRING", "IS_BOOL", "IS_NUMBER", "IS_ARRAY", "IS_OBJECT", "IS_PRIMITIVE")
		return condition{fmt.Sprintf("%s(%s)", name, p.text), func(doc value.Value) truth { return isType(name, p.of(doc)) }}
	case 5:
		flag := d.one("", ", true", ", false")
		return condition{fmt.Sprintf("ARRAY_CONTAINS(c.t, %s%s)", v.text, flag), func(doc value.Value) truth { return hasElement(doc.Get("t"), v.v, flag == ", true") }}
	case 6:
		part := d.parsed(fmt.Sprintf(`{"x":%s}`, d.small()))
		return condition{fmt.Sprintf("ARRAY_CONTAINS(c.k, %s, true)", part.text), func(doc value.Value) truth { return hasElement(doc.Get("k"), part.v, true) }}
	case 7:
		other := d.literal()
		return condition{fmt.Sprintf("ARRAY_CONTAINS([%s, %s], %s)", v.text, other.text, p.text), func(doc value.Value) truth {
			return hasElement(value.Array([]value.Value{v.v, other.v}), p.of(doc), false)
		}}
	case 8:
		pattern := patterns[d.IntN(len(patterns))]
		exp := regexp.MustCompile("(?s)" + pattern[1])
		return d.perhaps(fmt.Sprintf("%s NOT LIKE %s", p.text, pattern[0]), func(doc value.Value) truth { return like(p.of(doc), exp) })
	case 9:
		pattern, flag := d.one("^a", "b$", "x{120}", "^(a|b)+$", "FOX"), d.one("", "i")
		exp := regexp.MustCompile(map[string]string{"i": "(?i)"}[flag] + pattern)
		return condition{fmt.Sprintf("RegexMatch(%s, %q, %q)", p.text, pattern, flag), func(doc value.Value) truth { return like(p.of(doc), exp) }}
	case 10:
		n := d.parsed(d.small())
		return condition{fmt.Sprintf("EXISTS(SELECT VALUE x FROM x IN c.k WHERE x.x = %s)", n.text), func(doc value.Value) truth {
			return truthOf(slices.ContainsFunc(doc.Get("k").Items(), func(x value.Value) bool { return equals(x.Get("x"), n.v) == yes }))
		}}
	case 11:
		return condition{text: d.spatial()}
	case 12:
		return condition{text: d.fullText()}
	case 13, 14:
		return d.oneElement()
	}
	return condition{text: d.one(
		fmt.Sprintf("LOWER(%s) = LOWER(%s)", p.text, v.text), fmt.Sprintf("LENGTH(%s) > 2", p.text), "c.num % 3 = 1",
		fmt.Sprintf("(%s ?? %s) = %s", p.text, v.text, d.small()), "c._ts > 0", fmt.Sprintf("ARRAY_LENGTH(c.k) = %s", d.small()),
		fmt.Sprintf("(SELECT VALUE COUNT(1) FROM x IN c.k) > %s", d.small()), fmt.Sprintf("ABS(%s) <= 1", p.text),
		`c.low = "a"`, "c.size > 10", fmt.Sprintf("STARTSWITH(c.low, %s)", v.text),
	)}
}

// oneElement draws conditions that one array element has to fulfil together, or
// that different elements may fulfil.
func (d *drawn) oneElement() condition {
	x, y := d.parsed(d.small()), d.written(d.one(d.small(), d.constant()))
	has := func(name string, v literal) func(item value.Value) bool {
		return func(item value.Value) bool { return equals(item.Get(name), v.v) == yes }
	}
	some := func(doc value.Value, tests ...func(item value.Value) bool) bool {
		return slices.ContainsFunc(doc.Get("k").Items(), func(item value.Value) bool {
			return !slices.ContainsFunc(tests, func(test func(value.Value) bool) bool { return !test(item) })
		})
	}
	switch d.IntN(5) {
	case 0:
		return condition{fmt.Sprintf("EXISTS(SELECT VALUE x FROM x IN c.k JOIN y IN c.k WHERE x.x = %s AND y.y = %s)", x.text, y.text), func(doc value.Value) truth {
			return truthOf(some(doc, has("x", x)) && some(doc, has("y", y)))
		}}
	case 1:
		part := d.parsed(fmt.Sprintf(`{"x":%s,"y":%s}`, x.text, d.small()))
		return condition{fmt.Sprintf("ARRAY_CONTAINS(c.k, %s, true)", part.text), func(doc value.Value) truth { return hasElement(doc.Get("k"), part.v, true) }}
	case 2:
		return condition{fmt.Sprintf("EXISTS(SELECT VALUE z FROM z IN c.k WHERE z.y = %s)", y.text), func(doc value.Value) truth { return truthOf(some(doc, has("y", y))) }}
	}
	return condition{fmt.Sprintf("EXISTS(SELECT VALUE x FROM x IN c.k WHERE x.y = %s AND x.x = %s)", y.text, x.text), func(doc value.Value) truth {
		return truthOf(some(doc, has("x", x), has("y", y)))
	}}
}

// resume draws a condition by which a client continues an ordered query after a
// row: the first key is after a value, of its type or of the types after that, or
// it equals the value and the second key is after another one.
func (d *drawn) resume(keys []sortKey) condition {
	v := d.literal()
	behind := func(key sortKey, v literal) condition {
		op := map[bool]string{false: ">", true: "<"}[key.desc]
		c := condition{key.text + " " + op + " " + v.text, func(doc value.Value) truth { return compares(op, key.of(doc), v.v) }}
		types := []string{"IS_NULL", "IS_BOOL", "IS_NUMBER", "IS_STRING", "IS_ARRAY", "IS_OBJECT"}
		at := map[value.Kind]int{value.KindNull: 0, value.KindBool: 1, value.KindNumber: 2, value.KindString: 3, value.KindArray: 4, value.KindObject: 5}[v.v.Kind()]
		after := types[at+1:]
		if key.desc {
			after = types[:at]
		}
		for _, name := range after {
			c = both("OR", c, condition{fmt.Sprintf("%s(%s)", name, key.text), func(doc value.Value) truth { return isType(name, key.of(doc)) }}, func(x, y truth) truth { return max(x, y) })
		}
		if key.desc {
			missing := condition{fmt.Sprintf("IS_DEFINED(%s)", key.text), func(doc value.Value) truth { return isType("IS_DEFINED", key.of(doc)) }}
			c = both("OR", c, negated("NOT "+missing.text, missing), func(x, y truth) truth { return max(x, y) })
		}
		return c
	}
	c := behind(keys[0], v)
	if len(keys) > 1 {
		same := condition{keys[0].text + " = " + v.text, func(doc value.Value) truth { return equals(keys[0].of(doc), v.v) }}
		next := both("AND", same, behind(keys[1], d.literal()), func(x, y truth) truth { return min(x, y) })
		c = both("OR", c, next, func(x, y truth) truth { return max(x, y) })
	}
	return c
}

// resumed prepends a resume condition to some filters.
func (d *drawn) resumed(filter condition, keys []sortKey) condition {
	if d.chance(60) {
		return filter
	}
	return both("AND", d.resume(keys), filter, func(x, y truth) truth { return min(x, y) })
}

func (d *drawn) spatial() string {
	switch d.IntN(3) {
	case 0:
		return fmt.Sprintf("ST_DISTANCE(c.loc, %s) %s %s", d.one(points...), d.one("<", "<=", ">"), d.one("0", "1000", "60000", "200000", "6000000"))
	case 1:
		return fmt.Sprintf("ST_WITHIN(c.loc, %s)", d.one(polygons...))
	}
	return fmt.Sprintf("ST_INTERSECTS(%s, c.loc)", d.one(append(polygons, oddities[2])...))
}

func (d *drawn) fullText() string {
	switch d.IntN(4) {
	case 0:
		return fmt.Sprintf("FullTextContainsAll(c.s, %q, %q)", d.one(words...), d.one(words...))
	case 1:
		return fmt.Sprintf("FullTextContainsAny(c.s, %q, %q)", d.one(words...), d.one(words...))
	case 2:
		return fmt.Sprintf("FullTextContains(c.s, %q)", d.one(words...)+" "+d.one(words...))
	}
	return fmt.Sprintf("FullTextContains(c.s, %q)", d.one(words...))
}
