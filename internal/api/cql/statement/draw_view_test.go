package statement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/row"
)

// drawnView is what a view adds to a table.
type drawnView struct {
	base  *drawnTable
	where string // the relations of its definition that are not IS NOT NULL
	moved string // the regular column of its table that is in its key; "" without
}

// joinsRows says whether rows of two partition keys of the table may have one row in the
// view: keys that differ in the bytes of decimals that are equal as clustering values.
func (v *drawnTable) joinsRows() bool {
	return slices.ContainsFunc(v.of("clustering"), func(c drawnColumn) bool {
		return c.t.References(row.KindDecimal) && slices.ContainsFunc(v.view.base.of("partition"), func(of drawnColumn) bool { return of.name == c.name })
	})
}

// createView draws a materialized view of a table, which may be refused.
func (d *drawing) createView(t *drawnTable) (text string, v *drawnTable) {
	b := &build{drawing: d}
	v = &drawnTable{name: d.name("m"), view: &drawnView{base: t}}
	keys := t.of("partition", "clustering")
	var others []drawnColumn
	for _, c := range t.of("regular") {
		if v.view.moved == "" && !c.t.Multicell() && c.t.Kind != row.KindDuration && d.one(2) || d.one(60) {
			v.view.moved, keys = c.name, append(keys, c)
			continue
		}
		others = append(others, c)
	}
	d.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	if d.one(40) {
		keys = keys[1:]
	}
	var relations, filters []string
	partition := 1
	if len(keys) > 1 {
		partition += d.IntN(min(2, len(keys)))
	}
	for i, c := range keys {
		c.reversed = c.desc
		c.desc = i >= partition && d.one(3)
		kind := "clustering"
		if i < partition {
			kind = "partition"
		}
		moved := c.kind == "regular"
		c.kind = kind
		v.columns = append(v.columns, c)
		switch {
		case d.one(60):
		case !moved && d.one(5) || d.one(60):
			filter := b.viewFilter(c)
			relations, filters = append(relations, filter), append(filters, filter)
			if d.one(2) {
				relations = append(relations, c.name+" IS NOT NULL")
			}
		default:
			relations = append(relations, c.name+" IS NOT NULL")
		}
	}
	selection := "*"
	if len(t.of("static")) > 0 || d.one(3) {
		var names []string
		for _, c := range v.columns {
			names = append(names, c.name)
		}
		others = slices.DeleteFunc(others, func(drawnColumn) bool { return d.one(3) })
		for _, c := range others {
			names = append(names, c.name)
		}
		if statics := t.of("static"); len(statics) > 0 && d.one(20) {
			names = append(names, statics[0].name)
		}
		d.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		selection = strings.Join(names, ", ")
	}
	if len(others) > 0 && d.one(8) {
		c := pick(d, others...)
		relations = append(relations, pick(d, c.name+" IS NOT NULL", c.name+" IS NOT NULL", c.name+" IS NOT NULL", c.name+" = "+b.literal(c.t)))
	}
	v.columns = append(v.columns, others...)
	v.view.where = strings.Join(filters, " AND ")
	var order []string
	for _, c := range v.of("clustering") {
		order = append(order, c.name+map[bool]string{true: " DESC", false: " ASC"}[c.desc])
	}
	text = fmt.Sprintf("CREATE MATERIALIZED VIEW %s AS SELECT %s FROM %s WHERE %s PRIMARY KEY ((%s)", v.name, selection, t.name, strings.Join(relations, " AND "), namesOf(v, "partition"))
	if names := namesOf(v, "clustering"); names != "" {
		text += ", " + names
	}
	text += ")"
	if strings.Contains(strings.Join(order, ""), "DESC") {
		text += " WITH CLUSTERING ORDER BY (" + strings.Join(order, ", ") + ")"
	}
	return text, v
}

// viewFilter draws a relation of a view's definition.
func (b *build) viewFilter(c drawnColumn) string {
	if b.one(4) {
		return fmt.Sprintf("%s IN (%s, %s)", c.name, b.literal(c.t), b.literal(c.t))
	}
	return fmt.Sprintf("%s %s %s", c.name, pick(b.drawing, "=", "<", "<=", ">", ">="), b.literal(c.t))
}

// namesOf returns the names of the columns of a kind.
func namesOf(t *drawnTable, kind string) string {
	var all []string
	for _, c := range t.of(kind) {
		all = append(all, c.name)
	}
	return strings.Join(all, ", ")
}

// fromBase is the SELECT of the table that has the rows of a view, but for those in which
// the column that moves is null.
func (v *drawnTable) fromBase() string {
	var names []string
	for _, c := range v.columns {
		names = append(names, c.name)
	}
	text := "SELECT " + strings.Join(names, ", ") + " FROM " + v.view.base.name
	if v.view.where != "" {
		text += " WHERE " + v.view.where + " ALLOW FILTERING"
	}
	return text
}

// rowsOf returns the rows of an answer in a fixed order, without those in which the column
// of that name is null.
func rowsOf(answer, moved string) []string {
	lines := strings.Split(strings.TrimSpace(answer), "\n")
	at := slices.IndexFunc(strings.Split(strings.TrimPrefix(lines[0], "# "), " | "), func(c string) bool { return moved != "" && strings.HasPrefix(c, moved+" ") })
	lines = slices.DeleteFunc(lines, func(l string) bool {
		cells := strings.Split(l, " | ")
		return at >= 0 && at < len(cells) && cells[at] == "null"
	})
	slices.Sort(lines)
	return lines
}

// withKeys leaves out rows whose partition key is one empty value, which is the first column
// of the answer or one of the others.
func (v *drawnTable) withKeys(lines []string) []string {
	keys := v.of("partition")
	at := slices.IndexFunc(v.columns, func(c drawnColumn) bool { return c.name == keys[0].name })
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		cells := strings.Split(l, " | ")
		return len(keys) == 1 && at < len(cells) && (cells[at] == "''" || cells[at] == "empty")
	})
}
