package statement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
)

// read draws a SELECT.
func (d *drawing) read() request {
	t := pick(d, slices.Concat(d.tables, d.views)...)
	b := d.newBuild()
	text := "SELECT "
	if b.one(10) {
		text += "JSON "
	}
	distinct := b.one(15)
	group := !distinct && b.one(10)
	switch {
	case distinct:
		text += "DISTINCT " + b.distinctSelection(t)
	case b.one(4):
		text += "*"
	default:
		text += b.selection(t, group || b.one(6))
	}
	text += " FROM " + t.name
	var relations []string
	filtering := b.one(4)
	keyed := b.IntN(5) > 0
	if keyed {
		relations = b.partitionRelations(t, true)
	}
	if b.IntN(3) > 0 && (keyed || filtering || b.one(5)) {
		relations = append(relations, b.clusteringRelations(t)...)
	}
	if filtering || b.one(10) {
		for range 1 + b.IntN(2) {
			relations = append(relations, b.filter(pick(d, t.columns...)))
		}
	}
	if len(t.indexed) > 0 && b.one(2) {
		if !keyed && b.one(2) {
			relations = nil
		}
		relations = append(relations, b.sought(pick(b.drawing, t.indexed...)))
	}
	if len(relations) > 0 {
		text += " WHERE " + strings.Join(relations, " AND ")
	}
	if group {
		var names []string
		keys := t.of("partition", "clustering")
		for _, c := range keys[:1+b.IntN(len(keys))] {
			if !b.one(10) {
				names = append(names, c.name)
			}
		}
		if b.wild > 0 && b.one(10) {
			names = append(names, pick(d, t.columns...).name)
		}
		if len(names) > 0 {
			text += " GROUP BY " + strings.Join(names, ", ")
		}
	}
	if b.one(5) {
		text += b.order(t)
	}
	if b.one(8) && !distinct || b.one(100) {
		text += " PER PARTITION LIMIT " + b.number(int64(pick(d, 1, 1, 2, 3)), row.KindInt)
	}
	if b.one(4) {
		text += " LIMIT " + b.number(int64(pick(d, 1, 2, 3, 5)), row.KindInt)
	}
	if b.wild > 0 && b.one(60) {
		text += pick(d, " LIMIT 0", " LIMIT -1", " LIMIT null", " PER PARTITION LIMIT 0", " LIMIT 'a'")
	}
	if filtering {
		text += " ALLOW FILTERING"
	}
	r := b.request(text)
	if b.one(3) {
		r.page = 1 + d.IntN(4)
	}
	return r
}

func (b *build) distinctSelection(t *drawnTable) string {
	var names []string
	for _, c := range t.of("partition") {
		if !b.one(20) {
			names = append(names, c.name)
		}
	}
	for _, c := range t.of("static") {
		if b.one(2) {
			names = append(names, c.name)
		}
	}
	if b.one(20) || len(names) == 0 {
		names = append(names, pick(b.drawing, t.columns...).name)
	}
	return strings.Join(names, ", ")
}

// order draws an ORDER BY.
func (b *build) order(t *drawnTable) string {
	clustering := t.of("clustering")
	if len(clustering) == 0 || b.wild > 0 && b.one(15) {
		return " ORDER BY " + pick(b.drawing, t.columns...).name
	}
	reverse := b.one(2)
	var all []string
	for _, c := range clustering[:1+b.IntN(len(clustering))] {
		direction := " ASC"
		if c.desc != reverse != b.one(15) {
			direction = " DESC"
		}
		all = append(all, c.name+direction)
	}
	if b.one(20) {
		b.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	return " ORDER BY " + strings.Join(all, ", ")
}

// selection draws the selectors.
func (b *build) selection(t *drawnTable, aggregates bool) string {
	var all []string
	for range 1 + b.IntN(4) {
		text := b.selector(pick(b.drawing, t.columns...), t)
		if aggregates && b.one(2) {
			c := pick(b.drawing, t.columns...)
			text = pick(b.drawing, "count(*)", "count(1)", "count("+c.name+")", "min("+c.name+")", "max("+c.name+")", "min("+c.name+")", "max("+c.name+")", "sum("+c.name+")", "avg("+c.name+")")
		}
		if b.one(10) {
			text += " AS " + pick(b.drawing, "x", "\"Y y\"", "k0")
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// selector draws a selector of a column.
func (b *build) selector(c drawnColumn, t *drawnTable) string {
	if b.IntN(2) > 0 {
		return c.name
	}
	k := c.t
	if b.one(3) {
		switch {
		case k.Kind == row.KindMap, k.Kind == row.KindSet:
			if b.one(2) {
				return fmt.Sprintf("%s[%s]", c.name, b.term(k.Parts[0]))
			}
			return fmt.Sprintf("%s[%s..%s]", c.name, pick(b.drawing, "", b.literal(k.Parts[0])), pick(b.drawing, "", b.literal(k.Parts[0])))
		case k.Kind == row.KindUDT:
			return c.name + "." + pick(b.drawing, k.Fields...)
		}
	}
	switch b.IntN(14) {
	case 0:
		return "writetime(" + c.name + ")"
	case 1:
		return "ttl(" + c.name + ")"
	case 2:
		return "toJson(" + c.name + ")"
	case 3:
		return "CAST(" + c.name + " AS " + pick(b.drawing, "text", "ascii", "int", "bigint", "double", "decimal", "varint", "timestamp", "date", "float", "smallint", "tinyint", "boolean") + ")"
	case 4:
		var keys []string
		for _, p := range t.of("partition") {
			keys = append(keys, p.name)
		}
		return "token(" + strings.Join(keys, ", ") + ")"
	case 5, 6:
		other := pick(b.drawing, t.columns...)
		operand := pick(b.drawing, other.name, "1", "2", "0", "1.5", "-3", "(int) 4", "1h", "2d", "1mo", c.name)
		return c.name + " " + pick(b.drawing, "+", "-", "*", "/", "%") + " " + operand
	case 7:
		if k.Native() {
			return k.String() + "AsBlob(" + c.name + ")"
		}
	case 8:
		return "-" + c.name
	case 9:
		return pick(b.drawing, "toDate", "toTimestamp", "toUnixTimestamp", "dateOf", "unixTimestampOf", "minTimeuuid", "blobAsInt", "blobAsText", "nosuch", "token", "fromJson", "typeAsBlob") + "(" + c.name + ")"
	case 10:
		return "(" + typeText(k) + ") " + b.term(k)
	case 11:
		return pick(b.drawing, "(int) 5", "1", "'a'", "(text) 'a'", "?", "null", "zz", "c.x", "[c0, 1]", "("+c.name+", 1)", "["+c.name+"]", "{"+c.name+"}", "("+c.name+")")
	case 12:
		return "(" + c.name + ", " + pick(b.drawing, t.columns...).name + ")"
	}
	return c.name
}

// literal returns a plain value.
func (b *build) literal(t *row.Type) string { return t.Literal(b.value(t)) }

// partitionRelations draws the relations on the partition key.
func (b *build) partitionRelations(t *drawnTable, reads bool) (all []string) {
	keys := t.of("partition")
	if reads && b.one(5) {
		var names []string
		var terms []string
		for _, c := range keys {
			names = append(names, c.name)
			terms = append(terms, b.literal(c.t))
		}
		token := "token(" + strings.Join(names, ", ") + ")"
		value := pick(b.drawing, "token("+strings.Join(terms, ", ")+")", "0", "-9223372036854775808", "-5000000000000000000", "5000000000000000000", "9223372036854775807")
		all = append(all, token+" "+pick(b.drawing, ">", ">=", "<", "<=", "=")+" "+value)
		if b.one(3) {
			all = append(all, token+" "+pick(b.drawing, "<", "<=", ">")+" "+pick(b.drawing, "0", "9223372036854775807", "3000000000000000000"))
		}
		return all
	}
	for _, c := range keys {
		switch {
		case b.wild > 0 && b.one(40):
		case b.one(8):
			all = append(all, b.in(c))
		case b.wild > 0 && b.one(40):
			all = append(all, fmt.Sprintf("%s %s %s", c.name, pick(b.drawing, "<", ">=", "!=", "CONTAINS"), b.term(c.t)))
		default:
			all = append(all, fmt.Sprintf("%s = %s", c.name, b.term(c.t)))
		}
	}
	return all
}

// in draws an IN relation.
func (b *build) in(c drawnColumn) string {
	if b.bound && b.one(3) {
		var parts [][]byte
		for range b.IntN(4) {
			parts = append(parts, b.value(c.t))
		}
		return c.name + " IN " + b.mark(row.ListOf(c.t).Pack(parts))
	}
	var terms []string
	for range pick(b.drawing, 0, 1, 2, 2, 3) {
		terms = append(terms, b.term(c.t))
	}
	return fmt.Sprintf("%s IN (%s)", c.name, strings.Join(terms, ", "))
}

// clusteringRelations draws relations on a prefix of the clustering columns.
func (b *build) clusteringRelations(t *drawnTable) (all []string) {
	columns := t.of("clustering")
	if len(columns) == 0 {
		return nil
	}
	i := 0
	for ; i < len(columns) && b.one(2); i++ {
		if b.one(5) {
			all = append(all, b.in(columns[i]))
			continue
		}
		all = append(all, fmt.Sprintf("%s = %s", columns[i].name, b.term(columns[i].t)))
	}
	if b.wild > 0 && b.one(20) {
		i = b.IntN(len(columns))
	}
	if i == len(columns) {
		return all
	}
	rest := columns[i:]
	switch b.IntN(4) {
	case 0, 1:
		c := rest[0]
		all = append(all, fmt.Sprintf("%s %s %s", c.name, pick(b.drawing, "<", "<=", ">", ">="), b.term(c.t)))
		if b.one(2) {
			all = append(all, fmt.Sprintf("%s %s %s", c.name, pick(b.drawing, "<", "<=", ">", ">="), b.term(c.t)))
		}
	case 2:
		n := 1 + b.IntN(len(rest))
		var names []string
		for _, c := range rest[:n] {
			names = append(names, c.name)
		}
		left := "(" + strings.Join(names, ", ") + ")"
		switch b.IntN(5) {
		case 0:
			var tuples []string
			for range 1 + b.IntN(3) {
				tuples = append(tuples, b.tuple(rest[:n]))
			}
			all = append(all, left+" IN ("+strings.Join(tuples, ", ")+")")
		case 1:
			all = append(all, left+" = "+b.tuple(rest[:n]))
		default:
			all = append(all, left+" "+pick(b.drawing, ">", ">=")+" "+b.tuple(rest[:n]))
			if b.one(2) {
				m := 1 + b.IntN(n)
				all = append(all, "("+strings.Join(names[:m], ", ")+") "+pick(b.drawing, "<", "<=")+" "+b.tuple(rest[:m]))
			}
		}
	}
	return all
}

// tuple draws the right side of a relation on several columns.
func (b *build) tuple(columns []drawnColumn) string {
	if b.bound && b.one(4) {
		var parts [][]byte
		var types []*row.Type
		for _, c := range columns {
			parts, types = append(parts, b.value(c.t)), append(types, c.t)
		}
		return b.mark(row.TupleOf(types...).Pack(parts))
	}
	var terms []string
	for _, c := range columns {
		terms = append(terms, b.term(c.t))
	}
	return "(" + strings.Join(terms, ", ") + ")"
}

// filter draws a relation on any column.
func (b *build) filter(c drawnColumn) string {
	t := c.t
	switch {
	case t.Collection() && b.one(2):
		if t.Kind == row.KindMap {
			switch b.IntN(3) {
			case 0:
				return fmt.Sprintf("%s CONTAINS KEY %s", c.name, b.term(t.Parts[0]))
			case 1:
				return fmt.Sprintf("%s[%s] = %s", c.name, b.term(t.Parts[0]), b.term(t.Parts[1]))
			}
		}
		return fmt.Sprintf("%s CONTAINS %s", c.name, b.term(t.Parts[len(t.Parts)-1]))
	case b.one(8):
		return b.in(c)
	case b.wild > 0 && b.one(25):
		return pick(b.drawing, c.name+" IS NOT NULL", c.name+" LIKE 'a%'", c.name+" != "+b.literal(t), c.name+" CONTAINS 1", c.name+"[0] = 1", c.name+" = null")
	}
	return fmt.Sprintf("%s %s %s", c.name, pick(b.drawing, "=", "=", "<", "<=", ">", ">="), b.term(t))
}

// broken changes a token of a text, or more.
func (d *drawing) broken(r request) request {
	words := strings.Fields(r.text)
	if len(words) < 3 || r.batch != nil {
		return r
	}
	i := d.IntN(len(words))
	switch d.IntN(5) {
	case 0:
		words = append(words[:i], words[i+1:]...)
	case 1:
		words[i] = words[i] + " " + words[i]
	case 2:
		j := d.IntN(len(words))
		words[i], words[j] = words[j], words[i]
	case 3:
		words = words[:i]
	case 4:
		words[i] = pick(d, "zz", "SELECT", "(", ")", ",", ";", "1", "'x'", "k0", "c0", "v0", "IF", "AND", "@", "\"\"", "'", "IN", "=", "nosuch.t")
	}
	r.text = strings.Join(words, " ")
	if strings.Count(r.text, "?") != len(r.values) {
		r.values = nil
		for range strings.Count(r.text, "?") {
			r.values = append(r.values, frame.Value{Bytes: []byte{0, 0, 0, 1}})
		}
	}
	return r
}
