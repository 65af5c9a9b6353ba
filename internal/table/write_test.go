package table

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// world is a schema with tables in memory.
type world struct {
	schema *Schema
	tables map[[16]byte]map[string]map[string][]byte // items by table, routing key and name
	clock  int64
	ids    byte
}

// keyItems are the items of one routing key; it implements Items.
type keyItems struct {
	*world
	items map[string][]byte
}

func (k keyItems) Get(item string) ([]byte, error) { return k.items[item], nil }

func (k keyItems) Put(item string, body []byte, _ int64) error {
	if body == nil {
		delete(k.items, item)
	} else {
		k.items[item] = slices.Clone(body)
	}
	return nil
}

func (k keyItems) Micros() int64 { k.clock++; return k.clock }

// execute carries out one statement with values for its markers.
func (w *world) execute(text string, values ...[]byte) (string, error) {
	p, err := cql.Parse(text)
	if err != nil {
		return "", syntax("%s", err.Error())
	}
	b := &binding{moment: testMoment, values: values}
	switch s := p.Statement.(type) {
	case *cql.Select:
		return w.query(p, s, b)
	case *cql.Batch:
		return w.batch(p, s, b)
	case *cql.Insert:
		return w.write(p, s, s.Table, b)
	case *cql.Update:
		return w.write(p, s, s.Table, b)
	case *cql.Delete:
		return w.write(p, s, s.Table, b)
	}
	change, err := w.schema.Define(p.Statement, "ks", Environment{NewID: func() (id [16]byte) { w.ids++; id[0] = w.ids; return id }})
	if err == nil {
		w.schema = change.Schema
	}
	return "ok", err
}

// compile compiles a write.
func (w *world) compile(p cql.Parsed, s cql.Statement, name cql.Name) (*write, *terms, error) {
	t, err := w.schema.Table(name, "ks")
	if err != nil {
		return nil, nil, err
	}
	a := newTerms(p, w.schema.UserType)
	compiled, err := a.compileWrite(t, s)
	return compiled, a, err
}

func (w *world) write(p cql.Parsed, s cql.Statement, name cql.Name, b *binding) (string, error) {
	compiled, _, err := w.compile(p, s, name)
	if err != nil {
		return "", err
	}
	if err := compiled.check(); err != nil {
		return "", err
	}
	changes, err := compiled.bind(b, nil, testNow)
	if err != nil {
		return "", err
	}
	return w.evaluate(changes, compiled.conditional())
}

// batch carries out a batch; its conditions do not show in the answer.
func (w *world) batch(p cql.Parsed, s *cql.Batch, b *binding) (string, error) {
	var parts []batchPart
	var writes []*write
	for _, one := range s.Statements {
		var name cql.Name
		switch one := one.(type) {
		case *cql.Insert:
			name = one.Table
		case *cql.Update:
			name = one.Table
		case *cql.Delete:
			name = one.Table
		}
		compiled, _, err := w.compile(p, one, name)
		if err != nil {
			return "", err
		}
		parts, writes = append(parts, batchPart{compiled, b}), append(writes, compiled)
	}
	if err := checkBatch(s.Kind, s.Using, writes); err != nil {
		return "", err
	}
	w.clock++
	changes, err := bindBatch(parts, &w.clock, testNow)
	if err != nil {
		return "", err
	}
	return w.evaluate(changes, false)
}

func (w *world) evaluate(changes []*KeyChange, conditional bool) (string, error) {
	out := "ok"
	for _, c := range changes {
		keys := w.tables[c.Table.ID]
		if keys == nil {
			keys = map[string]map[string][]byte{}
			w.tables[c.Table.ID] = keys
		}
		if keys[c.Key] == nil {
			keys[c.Key] = map[string][]byte{}
		}
		if err := c.Evaluate(keyItems{w, keys[c.Key]}); err != nil {
			return "", err
		}
		if conditional {
			out = fmt.Sprintf("applied %v, %d rows found", c.Applied, len(c.found))
		}
	}
	return out, nil
}

func (w *world) query(p cql.Parsed, s *cql.Select, b *binding) (string, error) {
	t, err := w.schema.Table(s.From, "ks")
	if err != nil {
		return "", err
	}
	q, err := newTerms(p, w.schema.UserType).compileSelect(t, s)
	if err != nil {
		return "", err
	}
	page, err := q.run(context.Background(), &memory{table: t, items: w.tables[t.ID]}, b, &PageOptions{Now: testNow})
	if err != nil {
		return "", err
	}
	var rows []string
	for rest := page.Rows; len(rest) > 0; {
		n := binary.BigEndian.Uint32(rest)
		rows = append(rows, string(rest[4:4+n]))
		rest = rest[4+n:]
	}
	if len(rows) == 0 {
		return "no rows", nil
	}
	return strings.Join(rows, "\n"), nil
}

// TestWrites carries out the statements of a file, one after another, and compares their
// answers with those of Apache Cassandra 4.1.10. Rows are read with SELECT JSON.
func TestWrites(t *testing.T) {
	for _, path := range []string{"testdata/writes.txt", "testdata/conditions.txt", "testdata/batches.txt"} {
		w := &world{schema: &Schema{}, tables: map[[16]byte]map[string]map[string][]byte{}, clock: 1_700_000_000_000_000}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := w.execute(d.Input)
			if err != nil {
				return answer(t, err)
			}
			return out + "\n"
		})
	}
}

// TestWriteMarkers holds the names and types of markers, and those of the partition key.
func TestWriteMarkers(t *testing.T) {
	w := &world{schema: &Schema{}, tables: map[[16]byte]map[string]map[string][]byte{}}
	for _, s := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
		"CREATE TYPE ty (a int, b text)",
		"CREATE TABLE t (k int, j int, c int, v int, l list<int>, m map<text, int>, st set<text>, u ty, PRIMARY KEY ((k, j), c))",
	} {
		if _, err := w.execute(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ text, markers, keys string }{
		{"INSERT INTO t (c, j, k, v) VALUES (?, ?, ?, :mine) USING TTL ? AND TIMESTAMP ?", "c int, j int, k int, mine int, [ttl] int, [timestamp] bigint", "[2 1]"},
		{"INSERT INTO t (k, j, c) VALUES (1, ?, ?)", "j int, c int", "[]"},
		{"INSERT INTO t JSON ?", "[json] text", "[]"},
		{
			"UPDATE t SET m[?] = ?, l[?] = ?, u.a = ?, st = st - ? WHERE k = ? AND j = ? AND c = ?",
			"key(m) text, value(m) int, idx(l) int, value(l) int, u.a int, st set<text>, k int, j int, c int", "[6 7]",
		},
		{"UPDATE t SET m = m - ? WHERE k = ? AND j IN (?, ?) AND c = ?", "m frozen<set<text>>, k int, j int, j int, c int", "[1 3]"},
		{
			"UPDATE t SET v = 1 WHERE k = ? AND j = ? AND c = ? IF m[?] IN ? AND v = ? AND u.b IN (?)",
			"k int, j int, c int, key(m) text, in(value(m)) frozen<list<int>>, v int, u.b text", "[0 1]",
		},
		{
			"DELETE l[?], m[?] FROM t USING TIMESTAMP ? WHERE k = ? AND j = ? AND c = ?",
			"idx(l) int, key(m) text, [timestamp] bigint, k int, j int, c int", "[3 4]",
		},
	} {
		p, err := cql.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		compiled, a, err := w.compile(p, p.Statement, cql.Name{Name: "t"})
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var all []string
		for _, m := range a.markers {
			all = append(all, m.Name+" "+m.Type.String())
		}
		if got := strings.Join(all, ", "); got != c.markers {
			t.Errorf("%s\nhas the markers %s\nnot              %s", c.text, got, c.markers)
		}
		if got := fmt.Sprint(keyMarkers(a.markers, []*Table{compiled.table})); got != c.keys {
			t.Errorf("%s: the markers of the key are %s, not %s", c.text, got, c.keys)
		}
	}
}

// TestWriteUnset holds what unset and null values do.
func TestWriteUnset(t *testing.T) {
	w := &world{schema: &Schema{}, tables: map[[16]byte]map[string]map[string][]byte{}}
	for _, s := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
		"CREATE TABLE t (k int PRIMARY KEY, v int, w int)",
		"INSERT INTO t (k, v, w) VALUES (1, 2, 3)",
	} {
		if _, err := w.execute(s); err != nil {
			t.Fatal(err)
		}
	}
	p, err := cql.Parse("UPDATE t USING TIMESTAMP ? AND TTL ? SET v = ?, w = ? WHERE k = 1")
	if err != nil {
		t.Fatal(err)
	}
	b := &binding{moment: testMoment, values: [][]byte{nil, nil, nil, nil}, unset: []bool{true, true, true, false}}
	if _, err := w.write(p, p.Statement, cql.Name{Name: "t"}, b); err != nil {
		t.Fatal(err)
	}
	if got, err := w.execute("SELECT JSON * FROM t"); got != `{"k": 1, "v": 2, "w": null}` {
		t.Errorf("%s, %v", got, err)
	}
	b.unset[0] = false
	if _, err := w.write(p, p.Statement, cql.Name{Name: "t"}, b); err == nil || err.Error() != "Invalid null value of timestamp" {
		t.Errorf("a null timestamp: %v", err)
	}
	key, err := cql.Parse("UPDATE t SET v = 1 WHERE k = ?")
	if err != nil {
		t.Fatal(err)
	}
	for want, unset := range map[string]bool{"Invalid unset value for column k": true, "Invalid null value in condition for column k": false} {
		_, err := w.write(key, key.Statement, cql.Name{Name: "t"}, &binding{moment: testMoment, values: [][]byte{nil}, unset: []bool{unset}})
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_, err = w.write(key, key.Statement, cql.Name{Name: "t"}, &binding{moment: testMoment, values: [][]byte{row.BigInt(1)}})
	if err == nil || err.Error() != "Expected 4 or 0 byte int (8)" {
		t.Errorf("a key of eight bytes: %v", err)
	}
}
