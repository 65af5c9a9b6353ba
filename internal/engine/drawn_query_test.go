package engine_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/value"
)

// question is a query with the known facts about its result.
type question struct {
	text   string
	params []query.Param
	order  []sortKey // that needs an index; nil if none is needed
	free   bool      // the order of rows depends on properties of the server
	naive  *naive    // nil if only the engine can evaluate the text
	shape  string
}

// query draws a query.
func (d *drawn) query() question {
	d.params = map[string]string{}
	shape := d.one("plain", "plain", "plain", "ordered", "ordered", "several", "distinct", "aggregate", "aggregate", "group", "group", "join", "rows", "vector", "rank")
	filter := d.condition(d.IntN(4))
	if d.chance(15) {
		filter = condition{text: "true", of: func(value.Value) truth { return yes }}
	}
	q := map[string]func(condition) question{
		"plain": d.plain, "ordered": d.sorted, "several": d.several, "distinct": d.distinct, "aggregate": d.aggregate,
		"group": d.group, "join": d.join, "rows": d.rowsOfRows, "vector": d.vector, "rank": d.rank,
	}[shape](filter)
	q.shape = shape
	if q.naive != nil && filter.of == nil {
		q.naive = nil
	}
	for name, text := range d.params {
		q.params = append(q.params, query.Param{Name: name, Value: d.parsed(text).v})
	}
	return q
}

// cut draws TOP or OFFSET LIMIT for some percent of queries. It replaces <top>
// in the text by TOP, appends OFFSET LIMIT, and sets both in n.
func (d *drawn) cut(percent int, n *naive, format string, args ...any) string {
	top, tail := "", ""
	n.take = -1
	if d.chance(percent) {
		n.take = d.IntN(40)
		if top = fmt.Sprintf("TOP %d ", n.take); d.chance(50) {
			n.skip = d.IntN(20)
			top, tail = "", fmt.Sprintf(" OFFSET %d LIMIT %d", n.skip, n.take)
		}
	}
	return strings.Replace(fmt.Sprintf(format, args...), "<top>", top, 1) + tail
}

var rowID = func(group []stored) value.Value { return idPlace.of(group[0].value) }

func (d *drawn) plain(filter condition) question {
	n := &naive{filter: filter, row: rowID}
	list := "VALUE c.id"
	if d.chance(50) {
		n.row, list = nil, d.one(
			"*", "VALUE c", "c.id, c.a AS x, c.num", "c.id, c", `VALUE {"id": c.id, "n": [c.a, c.num]}`, "VALUE c.num + 1", "UPPER(c.s), c.t[0], c.n.a",
			`VALUE c.a ?? "none"`, "VALUE c.n.deep", "VALUE c.k[0].x", "c.id, ARRAY(SELECT VALUE x.x FROM x IN c.k WHERE x.x > 2) AS xs",
			"c.id, (SELECT VALUE COUNT(1) FROM x IN c.k) AS n", "c.id, EXISTS(SELECT VALUE x FROM x IN c.t WHERE x = 1) AS e", "c.id, c.low, c.size",
			"VALUE c.num = 3 ? c.a : c.id", "c.id, (SELECT VALUE MAX(x.x) FROM x IN c.k) AS most", "VALUE ARRAY(SELECT DISTINCT VALUE x.x FROM x IN c.k)",
		)
	}
	q := question{text: d.cut(25, n, "SELECT <top>%s FROM c WHERE %s", list, filter.text)}
	if n.row != nil {
		q.naive = n
	}
	return q
}

// way draws ascending or descending.
func (d *drawn) way(p place) sortKey { return sortKey{p, d.chance(50)} }

func orderText(keys []sortKey) string {
	var list []string
	for _, key := range keys {
		list = append(list, key.text+map[bool]string{true: " DESC"}[key.desc])
	}
	return strings.Join(list, ", ")
}

func (d *drawn) sorted(filter condition) question {
	keys := []sortKey{d.way(plainPlaces[d.IntN(len(plainPlaces))])}
	filter = d.resumed(filter, keys)
	n := &naive{filter: filter, order: keys, row: rowID}
	return question{text: d.cut(50, n, "SELECT <top>VALUE c.id FROM c WHERE %s ORDER BY %s", filter.text, orderText(keys)), order: keys, naive: n}
}

// several draws an order by several paths: mostly one that policies may
// support.
func (d *drawn) several(filter condition) question {
	keys := slices.Clone(composites[d.IntN(len(composites))])
	if d.chance(50) {
		for i := range keys {
			keys[i].desc = !keys[i].desc
		}
	}
	if d.chance(10) {
		keys[1] = d.way(keys[1].place)
	}
	if d.chance(25) { // The order of the remaining properties, after those that the filter fixes.
		v := d.literal()
		fixed := keys[0]
		filter = both("AND", condition{fixed.text + " = " + v.text, func(doc value.Value) truth { return equals(fixed.of(doc), v.v) }}, filter, func(x, y truth) truth { return min(x, y) })
		keys = keys[1:]
	}
	filter = d.resumed(filter, keys)
	n := &naive{filter: filter, order: keys, row: rowID}
	return question{text: d.cut(50, n, "SELECT <top>VALUE c.id FROM c WHERE %s ORDER BY %s", filter.text, orderText(keys)), order: keys, naive: n}
}

func (d *drawn) distinct(filter condition) question {
	p := plainPlaces[d.IntN(len(plainPlaces))]
	n := &naive{filter: filter, keys: []place{p}, row: func(group []stored) value.Value { return p.of(group[0].value) }}
	q := question{naive: n}
	switch d.IntN(6) {
	case 0, 1:
		n.take = -1
		q.text = fmt.Sprintf("SELECT DISTINCT VALUE %s FROM c WHERE %s", p.text, filter.text)
	case 2:
		n.order = []sortKey{d.way(p)}
		q.order = n.order
		q.text = d.cut(50, n, "SELECT DISTINCT <top>VALUE %s FROM c WHERE %s ORDER BY %s", p.text, filter.text, orderText(q.order))
	case 3:
		q.naive, q.order = nil, []sortKey{d.way(plainPlaces[d.IntN(len(plainPlaces))])}
		q.text = d.cut(30, n, "SELECT DISTINCT <top>VALUE c.num FROM c WHERE %s ORDER BY %s", filter.text, orderText(q.order))
	default:
		q.naive = nil
		list := d.one("c.num, c.sk", "c.a, c.num", "VALUE c.k", "c.low", "VALUE [c.num, c.pk]", "*")
		q.free = list == "*"
		cut := 30
		if q.free {
			cut = 0
		}
		q.text = d.cut(cut, n, "SELECT DISTINCT <top>%s FROM c WHERE %s", list, filter.text)
	}
	return q
}

func (d *drawn) aggregate(filter condition) question {
	p := plainPlaces[d.IntN(len(plainPlaces))]
	n := &naive{filter: filter, lone: true, take: -1}
	q := question{naive: n}
	list := ""
	switch d.IntN(9) {
	case 0, 1:
		list, n.row = "VALUE COUNT(1)", count
	case 2:
		list, n.row = fmt.Sprintf("VALUE COUNT(%s)", p.text), func(g []stored) value.Value { return value.Int(int64(len(valuesAt(g, p)))) }
	case 3:
		list, n.row = fmt.Sprintf("VALUE MIN(%s)", p.text), func(g []stored) value.Value { return extreme(g, p, 1) }
	case 4:
		list, n.row = fmt.Sprintf("VALUE MAX(%s)", p.text), func(g []stored) value.Value { return extreme(g, p, -1) }
	case 5:
		list, n.row = "VALUE SUM(c.num)", func(g []stored) value.Value { return sumOfIntegers(g, numPlace) }
	case 6:
		list, n.row = fmt.Sprintf("COUNT(1) AS n, SUM(c.num) AS s, MIN(%s) AS lo, MAX(%s) AS hi", p.text, p.text), func(g []stored) value.Value {
			return object("n", count(g), "s", sumOfIntegers(g, numPlace), "lo", extreme(g, p, 1), "hi", extreme(g, p, -1))
		}
	default:
		q.naive = nil
		list = d.one("VALUE SUM(c.f)", "VALUE AVG(c.f)", "VALUE AVG(c.num)", "COUNT(1), COUNTIF(c.num > 3), SUM(c.a)", "VALUE SUM(c.num * 2)", "VALUE ARRAY_LENGTH(MAKESET(c.num))", "VALUE MAX(LENGTH(c.s))", "VALUE COUNT(c.num > 3)")
	}
	q.text = fmt.Sprintf("SELECT %s FROM c WHERE %s", list, filter.text)
	if d.chance(10) {
		q.text += " OFFSET 0 LIMIT 1"
	}
	return q
}

func (d *drawn) group(filter condition) question {
	p := plainPlaces[d.IntN(len(plainPlaces))]
	n := &naive{filter: filter, keys: []place{p}, take: -1}
	q := question{naive: n}
	list, by := "", p.text
	switch d.IntN(6) {
	case 0, 1:
		list, n.row = fmt.Sprintf("%s AS k, COUNT(1) AS n", p.text), func(g []stored) value.Value { return object("k", p.of(g[0].value), "n", count(g)) }
	case 2:
		list, n.row = fmt.Sprintf("%s AS k, SUM(c.num) AS s, MAX(c.id) AS id", p.text), func(g []stored) value.Value {
			return object("k", p.of(g[0].value), "s", sumOfIntegers(g, numPlace), "id", extreme(g, idPlace, -1))
		}
	case 3:
		n.keys = []place{p, numPlace}
		by += ", c.num"
		list, n.row = fmt.Sprintf("c.num, %s AS k, COUNT(c.a) AS n", p.text), func(g []stored) value.Value {
			return object("num", numPlace.of(g[0].value), "k", p.of(g[0].value), "n", value.Int(int64(len(valuesAt(g, named("a"))))))
		}
		if p.text == "c.num" {
			q.naive, list, by = nil, "c.num, COUNT(c.a) AS n", "c.num"
		}
	default:
		q.naive = nil
		by = d.one("LENGTH(c.s)", "c.num % 2", "c.low", "c.k[0].x", "UPPER(c.a)", "c.t", "{\"n\": c.num}")
		list = fmt.Sprintf("%s AS k, COUNT(1) AS n, AVG(c.f) AS f, COUNTIF(c.num > 3) AS m", by)
	}
	tail := ""
	if by == p.text && d.chance(30) {
		key := []sortKey{d.way(p)}
		n.order, q.order, tail = key, key, " ORDER BY "+orderText(key)
	}
	q.text = fmt.Sprintf("SELECT %s FROM c WHERE %s GROUP BY %s%s", list, filter.text, by, tail)
	if d.chance(15) {
		n.skip, n.take = d.IntN(5), d.IntN(9)
		q.text += fmt.Sprintf(" OFFSET %d LIMIT %d", n.skip, n.take)
		if n.order == nil {
			q.naive = nil // Any of the groups is a valid result.
		}
	}
	return q
}

func (d *drawn) join(filter condition) question {
	from := d.one(
		"c.id, x FROM c JOIN x IN c.k", "c.id, x FROM c JOIN x IN c.t", "c.id, x.x, y FROM c JOIN x IN c.k JOIN y IN c.t", "c.id, x FROM c JOIN (SELECT VALUE y.x FROM y IN c.k WHERE y.x > 2) x",
		"VALUE [c.id, x] FROM c JOIN x IN (SELECT VALUE c.t)", "VALUE x.x FROM c JOIN x IN c.k", "VALUE {id: c.id, x: x} FROM c JOIN (SELECT y.x, COUNT(1) AS n FROM y IN c.k GROUP BY y.x) x",
	)
	n := new(naive)
	q := question{}
	filter.text = d.one("", "", "x.x > 3 AND ", "x.x = 2 AND x.y = 1 AND ", "IS_DEFINED(x.y) AND ", "x != 1 AND ") + filter.text
	switch d.IntN(6) {
	case 0:
		q.order = []sortKey{d.way(plainPlaces[d.IntN(len(plainPlaces))])}
		q.text = d.cut(40, n, "SELECT <top>%s WHERE %s ORDER BY %s", from, filter.text, orderText(q.order))
	case 1:
		q.text = d.cut(20, n, "SELECT DISTINCT <top>VALUE x.x FROM c JOIN x IN c.k WHERE %s", filter.text)
	case 2:
		q.text = fmt.Sprintf("SELECT x.x, COUNT(1) AS n, MAX(c.id) AS id FROM c JOIN x IN c.k WHERE %s GROUP BY x.x", filter.text)
	case 3:
		q.text = fmt.Sprintf("SELECT VALUE %s FROM c JOIN x IN c.k WHERE %s", d.one("COUNT(1)", "SUM(x.x)", "MAX(x.x)", "AVG(c.f)"), filter.text)
	default:
		q.text = d.cut(30, n, "SELECT <top>%s WHERE %s", from, filter.text)
	}
	return q
}

// rowsOfRows draws a query over the rows of a subquery, and over arrays and
// values in documents.
func (d *drawn) rowsOfRows(filter condition) question {
	n := new(naive)
	return question{text: d.one(
		fmt.Sprintf("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE %s FROM c WHERE %s) x", plainPlaces[d.IntN(len(plainPlaces))].text, filter.text),
		fmt.Sprintf("SELECT VALUE x FROM (SELECT c.num AS g, COUNT(1) AS n FROM c WHERE %s GROUP BY c.num) x WHERE x.n > 1", filter.text),
		fmt.Sprintf("SELECT VALUE MAX(x.n) FROM (SELECT c.pk, COUNT(1) AS n FROM c WHERE %s GROUP BY c.pk) x", filter.text),
		d.cut(30, n, "SELECT <top>VALUE x.id FROM (SELECT c.id, c.num FROM c WHERE %s) x WHERE x.num > 2", filter.text),
		d.cut(30, n, "SELECT <top>VALUE x FROM x IN c.k WHERE x.x %s %s", d.one("=", "<", ">"), d.small()),
		d.cut(30, n, "SELECT <top>* FROM c.n.deep WHERE deep.er != %s", d.constant()),
		fmt.Sprintf("SELECT x.x, COUNT(1) AS n FROM x IN c.k GROUP BY x.x ORDER BY x.x%s", d.one("", " DESC")),
	)}
}

func (d *drawn) vector(filter condition) question {
	distance := fmt.Sprintf("VectorDistance(c.v, [%d, %d, %d], %s, {distanceFunction: %q})", d.IntN(9)-4, d.IntN(9)-4, 1+d.IntN(4), d.one("true", "false"), d.one("euclidean", "cosine", "dotproduct"))
	return question{text: fmt.Sprintf("SELECT TOP %d c.id, %s AS d FROM c WHERE %s ORDER BY %s", 1+d.IntN(30), distance, filter.text, distance)}
}

func (d *drawn) rank(filter condition) question {
	text := fmt.Sprintf("FullTextScore(c.s, %q, %q)", d.one(words...), d.one(words...))
	vector := fmt.Sprintf("VectorDistance(c.v, [%d, %d, 1], true, {distanceFunction: %q})", d.IntN(9)-4, d.IntN(9)-4, d.one("euclidean", "cosine"))
	by := d.one(text, fmt.Sprintf("RRF(%s, %s)", text, vector), fmt.Sprintf("RRF(%s, %s, [2, 1])", text, vector), fmt.Sprintf("RRF(%s, FullTextScore(c.s, %q))", text, d.one(words...)))
	return question{text: fmt.Sprintf("SELECT TOP %d VALUE c.id FROM c WHERE %s ORDER BY RANK %s", 1+d.IntN(30), filter.text, by)}
}
