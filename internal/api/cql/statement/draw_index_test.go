package statement

import (
	"fmt"

	"github.com/decandb/decan/internal/row"
)

// createIndex draws an index on a table, which may be refused. It returns the column as
// well, and the name that the index has.
func (d *drawing) createIndex(t *drawnTable) (text, name string, c drawnColumn) {
	c = pick(d, t.columns...)
	target := c.name
	frozen := !c.t.Multicell()
	switch {
	case c.t.Collection() && frozen && !d.one(10):
		target = "full(" + target + ")"
	case c.t.Kind == row.KindMap:
		target = pick(d, "keys(", "values(", "entries(") + target + ")"
	case d.one(20):
		target = pick(d, "keys(", "values(", "entries(", "full(") + target + ")"
	}
	name = d.name("i")
	return fmt.Sprintf("CREATE INDEX %s ON %s (%s)", name, t.name, target), name, c
}

// sought draws a relation that an index may find.
func (b *build) sought(c drawnColumn) string {
	t := c.t
	if !t.Multicell() || !t.Collection() {
		return c.name + " = " + b.term(t)
	}
	if t.Kind == row.KindMap {
		switch b.IntN(3) {
		case 0:
			return fmt.Sprintf("%s CONTAINS KEY %s", c.name, b.term(t.Key()))
		case 1:
			return fmt.Sprintf("%s[%s] = %s", c.name, b.term(t.Key()), b.term(t.Element()))
		}
	}
	return fmt.Sprintf("%s CONTAINS %s", c.name, b.term(t.Element()))
}
