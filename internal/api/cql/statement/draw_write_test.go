package statement

import (
	"fmt"
	"strings"

	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
)

// write draws an INSERT, UPDATE, DELETE or batch.
func (d *drawing) write() request {
	t := pick(d, d.tables...)
	if len(d.views) > 0 && d.one(150) {
		t = pick(d, d.views...)
	}
	if d.one(12) {
		return d.batch(t)
	}
	b := d.newBuild()
	return b.request(b.change(t, false))
}

// change draws one change of a table.
func (b *build) change(t *drawnTable, inBatch bool) string {
	if t.counter && !b.one(30) {
		if b.one(6) {
			return b.delete(t, inBatch)
		}
		return b.update(t, inBatch)
	}
	switch b.IntN(10) {
	case 0, 1, 2:
		return b.insert(t, inBatch)
	case 3:
		return b.insertJSON(t, inBatch)
	case 4, 5, 6, 7:
		return b.update(t, inBatch)
	}
	return b.delete(t, inBatch)
}

// batch draws a batch of changes, most often of one table.
func (d *drawing) batch(t *drawnTable) request {
	b := d.newBuild()
	kind := pick(d, "", "UNLOGGED ", "UNLOGGED ")
	if t.counter {
		kind = pick(d, "COUNTER ", "COUNTER ", "UNLOGGED ")
	}
	var parts []string
	one := func() string {
		if d.one(10) {
			t = pick(d, d.tables...)
		}
		return b.change(t, true)
	}
	if d.one(3) {
		r := request{batchType: map[string]frame.BatchType{"": frame.Logged, "UNLOGGED ": frame.Unlogged, "COUNTER ": frame.CounterBatch}[kind], now: d.now, timestamp: d.stamp}
		for range 1 + d.IntN(4) {
			b.values = nil
			text := one()
			r.batch = append(r.batch, request{text: text, values: b.values})
		}
		return r
	}
	using := ""
	if d.one(6) {
		using = " USING TIMESTAMP " + fmt.Sprint(d.stamp)
	}
	for range 1 + d.IntN(4) {
		parts = append(parts, one())
	}
	return b.request("BEGIN " + kind + "BATCH" + using + " " + strings.Join(parts, "; ") + pick(d, "; ", " ") + "APPLY BATCH")
}

// using draws the options of a write.
func (b *build) using(t *drawnTable, ttl bool) string {
	var all []string
	if t.counter && !b.one(40) {
		return ""
	}
	if b.one(4) {
		all = append(all, "TIMESTAMP "+b.number(b.stamp+int64(b.IntN(7)-3), row.KindBigInt))
	}
	if ttl && b.one(5) {
		all = append(all, "TTL "+b.number(int64(pick(b.drawing, 10, 100, 1000, 0, 100000)), row.KindInt))
	}
	if b.wild > 0 && b.one(40) {
		all = append(all, pick(b.drawing, "TTL -1", "TTL 630720001", "TTL 630720000", "TIMESTAMP -5", "TTL null", "TIMESTAMP 1.5"))
	}
	if len(all) == 0 {
		return ""
	}
	return " USING " + strings.Join(all, " AND ")
}

// number returns an integer as a literal or a marker.
func (b *build) number(n int64, k row.Kind) string {
	if !b.bound || b.one(3) {
		return fmt.Sprint(n)
	}
	if b.wild > 0 && b.one(20) {
		b.values = append(b.values, frame.Value{Unset: b.one(2)})
		return "?"
	}
	if k == row.KindInt {
		return b.mark(row.Int(int32(n)))
	}
	return b.mark(row.BigInt(n))
}

func (b *build) insert(t *drawnTable, inBatch bool) string {
	var names, values []string
	for _, c := range t.columns {
		key := c.kind == "partition" || c.kind == "clustering"
		if key && b.wild > 0 && b.one(60) || !key && b.one(3) {
			continue
		}
		if c.kind == "clustering" && b.one(40) {
			continue
		}
		names, values = append(names, c.name), append(values, b.term(c.t))
	}
	if b.wild > 0 && b.one(60) {
		names = append(names, pick(b.drawing, "zz", "k0", "v0"))
		values = append(values, "1")
	}
	text := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", t.name, strings.Join(names, ", "), strings.Join(values, ", "))
	if b.one(8) {
		text += " IF NOT EXISTS"
		if !b.one(10) {
			return text
		}
	}
	return text + b.using(t, true)
}

func (b *build) insertJSON(t *drawnTable, _ bool) string {
	var members []string
	for _, c := range t.columns {
		key := c.kind == "partition" || c.kind == "clustering"
		if !key && b.one(3) || key && b.wild > 0 && b.one(50) {
			continue
		}
		value := string(c.t.AppendJSON(nil, b.value(c.t)))
		if b.wild > 0 && b.one(b.wild) {
			value = pick(b.drawing, "null", "1", "\"x\"", "true", "[]", "{}", "[1]", "1.5", "\"1\"", "[null]", "2147483648", "\"0x00\"")
		}
		members = append(members, fmt.Sprintf("%q: %s", c.name, value))
	}
	if b.wild > 0 && b.one(40) {
		members = append(members, "\"zz\": 1")
	}
	text := "{" + strings.Join(members, ", ") + "}"
	value := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if b.bound {
		value = b.mark([]byte(text))
	}
	return fmt.Sprintf("INSERT INTO %s JSON %s%s", t.name, value, pick(b.drawing, "", "", " DEFAULT NULL", " DEFAULT UNSET")) + b.using(t, true)
}

// assignment draws one assignment of UPDATE.
func (b *build) assignment(c drawnColumn) string {
	t := c.t
	if t.Kind == row.KindCounter {
		n := row.Native(row.KindBigInt)
		switch b.IntN(5) {
		case 0:
			return fmt.Sprintf("%s = %s - %s", c.name, c.name, b.term(n))
		case 1:
			return fmt.Sprintf("%s %s %s", c.name, pick(b.drawing, "+=", "-="), b.term(n))
		}
		return fmt.Sprintf("%s = %s + %s", c.name, c.name, b.term(n))
	}
	if t.Collection() && !t.Frozen || b.wild > 0 && b.one(20) {
		switch b.IntN(8) {
		case 0:
			return fmt.Sprintf("%s = %s + %s", c.name, c.name, b.term(t))
		case 1:
			of := t
			if t.Kind == row.KindMap {
				of = row.SetOf(t.Parts[0])
			}
			return fmt.Sprintf("%s = %s - %s", c.name, c.name, b.term(of))
		case 2:
			return fmt.Sprintf("%s %s %s", c.name, pick(b.drawing, "+=", "-="), b.term(t))
		case 3:
			return fmt.Sprintf("%s = %s + %s", c.name, b.term(t), c.name)
		case 4, 5:
			switch {
			case t.Kind == row.KindMap:
				return fmt.Sprintf("%s[%s] = %s", c.name, b.term(t.Parts[0]), b.term(t.Parts[1]))
			case t.Kind == row.KindList:
				return fmt.Sprintf("%s[%d] = %s", c.name, b.IntN(3), b.term(t.Parts[0]))
			}
			return fmt.Sprintf("%s[%s] = %s", c.name, b.term(row.Native(row.KindInt)), b.term(row.Native(row.KindInt)))
		}
	}
	if t.Kind == row.KindUDT && !t.Frozen && b.one(2) || b.wild > 0 && b.one(60) {
		if len(t.Fields) == 0 {
			return fmt.Sprintf("%s.f0 = %s", c.name, b.term(t))
		}
		i := b.IntN(len(t.Fields))
		return fmt.Sprintf("%s.%s = %s", c.name, t.Fields[i], b.term(t.Parts[i]))
	}
	return fmt.Sprintf("%s = %s", c.name, b.term(t))
}

// rowWhere draws the relations that name a row, or a partition.
func (b *build) rowWhere(t *drawnTable, kinds ...string) string {
	var all []string
	for _, c := range t.of(kinds...) {
		switch {
		case b.wild > 0 && b.one(60):
			continue
		case b.one(12):
			all = append(all, fmt.Sprintf("%s IN (%s, %s)", c.name, b.term(c.t), b.term(c.t)))
		case b.wild > 0 && b.one(60):
			all = append(all, fmt.Sprintf("%s > %s", c.name, b.term(c.t)))
		default:
			all = append(all, fmt.Sprintf("%s = %s", c.name, b.term(c.t)))
		}
	}
	if b.wild > 0 && b.one(60) {
		c := pick(b.drawing, t.columns...)
		all = append(all, fmt.Sprintf("%s = %s", c.name, b.term(c.t)))
	}
	if len(all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(all, " AND ")
}

func (b *build) update(t *drawnTable, inBatch bool) string {
	using := b.using(t, true)
	statics, regular := t.of("static"), t.of("regular")
	kinds := []string{"partition", "clustering"}
	from := append(regular, statics...)
	if len(statics) > 0 && b.one(4) {
		from = statics
		if !b.one(12) {
			kinds = kinds[:1]
		}
	}
	if len(from) == 0 || b.wild > 0 && b.one(80) {
		from = t.columns
	}
	var sets []string
	for _, i := range b.Perm(len(from))[:1+b.IntN(min(3, len(from)))] {
		sets = append(sets, b.assignment(from[i]))
	}
	return fmt.Sprintf("UPDATE %s%s SET %s%s%s", t.name, using, strings.Join(sets, ", "), b.rowWhere(t, kinds...), b.conditions(t, using))
}

// conditions draws an IF clause.
func (b *build) conditions(t *drawnTable, using string) string {
	if t.counter && !b.one(50) || strings.Contains(using, "TIMESTAMP") && !b.one(20) || !b.one(5) {
		return ""
	}
	if b.one(3) {
		return " IF EXISTS"
	}
	from := t.of("regular", "static")
	if len(from) == 0 || b.wild > 0 && b.one(40) {
		from = t.columns
	}
	var all []string
	for range 1 + b.IntN(2) {
		all = append(all, b.condition(pick(b.drawing, from...)))
	}
	return " IF " + strings.Join(all, " AND ")
}

func (b *build) condition(c drawnColumn) string {
	operator := pick(b.drawing, "=", "=", "!=", "<", "<=", ">", ">=")
	t, target := c.t, c.name
	switch {
	case t.Kind == row.KindMap && b.one(2):
		target, t = fmt.Sprintf("%s[%s]", c.name, b.term(t.Parts[0])), t.Parts[1]
	case t.Kind == row.KindList && b.one(2):
		target, t = fmt.Sprintf("%s[%s]", c.name, b.term(row.Native(row.KindInt))), t.Parts[0]
	case t.Kind == row.KindUDT && b.one(2):
		i := b.IntN(len(t.Fields))
		target, t = c.name+"."+t.Fields[i], t.Parts[i]
	case t.Collection() && b.one(3):
		if t.Kind == row.KindMap && b.one(2) {
			return fmt.Sprintf("%s CONTAINS KEY %s", target, b.term(t.Parts[0]))
		}
		return fmt.Sprintf("%s CONTAINS %s", target, b.term(t.Parts[len(t.Parts)-1]))
	}
	if b.one(6) {
		return fmt.Sprintf("%s IN (%s, %s)", target, b.term(t), b.term(t))
	}
	if b.one(6) {
		return fmt.Sprintf("%s %s null", target, operator)
	}
	return fmt.Sprintf("%s %s %s", target, operator, b.term(t))
}

func (b *build) delete(t *drawnTable, inBatch bool) string {
	var what []string
	kinds := []string{"partition", "clustering"}
	where, using := "", ""
	if b.one(2) {
		from := t.of("regular")
		if len(t.of("static")) > 0 && b.one(3) {
			from, kinds = t.of("static"), kinds[:1]
		}
		if len(from) == 0 || b.wild > 0 && b.one(40) {
			from = t.columns
		}
		for range 1 + b.IntN(2) {
			c := pick(b.drawing, from...)
			text := c.name
			switch {
			case c.t.Kind == row.KindMap && b.one(2), c.t.Kind == row.KindSet && b.one(2):
				text += "[" + b.term(c.t.Parts[0]) + "]"
			case c.t.Kind == row.KindList && b.one(2):
				text += "[" + b.term(row.Native(row.KindInt)) + "]"
			case c.t.Kind == row.KindUDT && b.one(2):
				text += "." + pick(b.drawing, c.t.Fields...)
			}
			what = append(what, text)
		}
	}
	head := "DELETE " + strings.Join(what, ", ")
	if len(what) > 0 {
		head += " "
	}
	head += "FROM " + t.name
	if b.one(3) && (!t.counter || b.one(30)) {
		using = " USING TIMESTAMP " + b.number(b.stamp+int64(b.IntN(5)-2), row.KindBigInt)
	}
	if len(what) > 0 || b.one(2) {
		where = b.rowWhere(t, kinds...)
	} else {
		where = " WHERE " + strings.Join(append(b.partitionRelations(t, false), b.clusteringRelations(t)...), " AND ")
	}
	return head + using + where + b.conditions(t, using)
}
