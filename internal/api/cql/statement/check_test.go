package statement

import (
	"context"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table"
	"github.com/decandb/decan/partitionkey"
)

// TestCheckOfItems verifies every item that statements store, and items that no statement
// stores.
func TestCheckOfItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(t, createKeyspace, "CREATE TYPE point (x int, y int)",
		"CREATE TABLE t (k int, a decimal, b frozen<point>, s int STATIC, v text, l list<int>, d int, PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY (a DESC)",
		"CREATE TABLE n (k int PRIMARY KEY, c counter)",
		"INSERT INTO t (k, a, b, s, v, l, d) VALUES (1, 1.50, {x: 1, y: 2}, 1, 'v', [1, 2], 3)", "DELETE FROM t WHERE k = 1 AND a < 1", "ALTER TABLE t DROP d",
		"INSERT INTO t (k, a, b, v) VALUES (1, 2, {x: 1, y: 2}, 'v') USING TTL 100", "UPDATE n SET c = c + 1 WHERE k = 1", "DELETE c FROM n WHERE k = 1")
	now, err := w.schema()
	if err != nil {
		t.Fatal(err)
	}
	var key []byte // of a row
	for _, name := range []string{"t", "n"} {
		rid := now.byTable[[2]string{"ks", name}].RID
		n := 0
		_, err := w.config.Engine.ReadItems(context.Background(), auth.Owner(), engine.ReadItemsRequest{Table: rid, Range: partitionkey.Full(), Visit: func(i *partition.Item) (bool, error) {
			n++
			if name == "t" && i.Item[0] == table.RowItems[0] {
				key = append(key[:0], i.Item...)
			}
			return true, now.tableOf(rid).CheckItem(i.Item, i.Body)
		}})
		if err != nil || n == 0 {
			t.Errorf("table %s, %d items: %v", name, n, err)
		}
	}
	of := now.tableOf(now.byTable[[2]string{"ks", "t"}].RID)
	id := func(name string) uint32 { return of.Column(name).ID }
	live := func(column uint32, path string, value []byte) []byte {
		c := row.Cell{Column: column, Timestamp: 1, Value: value}
		if path != "" {
			c.Path = []byte(path)
		}
		r := row.Row{Cells: []row.Cell{c}}
		return r.Append(nil)
	}
	counter := row.Row{Cells: []row.Cell{{Column: id("v"), Kind: row.CellCounter, Timestamp: 1, Value: row.BigInt(1)}}}
	marker := row.Row{Marker: row.Liveness{Present: true, Timestamp: 1}}
	for _, test := range []struct {
		name, item string
		body       []byte
	}{
		{"no name", "", marker.Append(nil)},
		{"another kind", "\x03", marker.Append(nil)},
		{"a longer static name", "\x01x", live(id("s"), "", row.Int(1))},
		{"a key that is cut", string(key[:len(key)-1]), marker.Append(nil)},
		{"a key that is longer", string(key) + "\x00", marker.Append(nil)},
		{"no key", "\x02", marker.Append(nil)},
		{"a body that is no row", string(key), []byte("{}")},
		{"a body that is cut", string(key), live(id("v"), "", []byte("text"))[:9]},
		{"deletions that are none", table.MetaItem, (&row.Meta{}).Append(nil)},
		{"a row as deletions", table.MetaItem, marker.Append(nil)},
		{"a static marker", table.StaticItem, marker.Append(nil)},
		{"a static cell in a row", string(key), live(id("s"), "", row.Int(1))},
		{"a regular cell in the static row", table.StaticItem, live(id("v"), "", []byte("x"))},
		{"a key column as a cell", string(key), live(id("k"), "", row.Int(1))},
		{"an unknown column", string(key), live(99, "", row.Int(1))},
		{"an element of a text", string(key), live(id("v"), "path", []byte("x"))},
		{"a list without elements", string(key), live(id("l"), "", row.Int(1))},
		{"a counter", string(key), counter.Append(nil)},
		{"a value of another type", table.StaticItem, live(id("s"), "", []byte("abc"))},
	} {
		if err := of.CheckItem([]byte(test.item), test.body); err == nil {
			t.Errorf("%s: the item is accepted", test.name)
		}
	}
}

// TestCheckFindsBadRows stores an item that no statement stores: the check of the data
// directory names it.
func TestCheckFindsBadRows(t *testing.T) {
	t.Parallel()
	w, check := newCheckedWorld(t)
	w.must(t, createKeyspace, "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))", "INSERT INTO t (k, c, v) VALUES (1, 1, 1)")
	rid := w.current.Load().byTable[[2]string{"ks", "t"}].RID
	bad := row.Row{Cells: []row.Cell{{Column: w.current.Load().tableOf(rid).Column("v").ID, Timestamp: 1, Value: []byte("no int")}}}
	for key, item := range map[string]string{"\x00\x00\x00\x01": "\x02\x08\x80\x00\x00\x01", "\x00\x00\x00\x02": "\x02short"} {
		_, err := w.config.Engine.WriteItems(t.Context(), auth.Owner(), engine.WriteItemsRequest{Table: rid, Key: key, Change: changeFunc(func(i partition.Items) error {
			return i.Put(item, bad.Append(nil), 0)
		})})
		if err != nil {
			t.Fatal(err)
		}
	}
	report := check()
	var found []string
	for _, p := range report.Partitions {
		found = append(found, p.Problems...)
	}
	if problems := strings.Join(found, "\n"); report.Clean() || len(found) < 2 || !strings.Contains(problems, "column v") || !strings.Contains(problems, "key") {
		t.Errorf("problems %q", problems)
	}
}

// changeFunc is a change of a test.
type changeFunc func(partition.Items) error

func (f changeFunc) Evaluate(i partition.Items) error { return f(i) }
