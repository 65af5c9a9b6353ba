package statement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/row"
)

// copies are tables with indexes, and a copy of each without indexes.
type copies struct {
	*drawing
	t     *testing.T
	w     *world
	own   *node
	names map[string][]string // of the indexes of a table

	same, through, refused int
}

const copySuffix = "plain"

var (
	prepared   = regexp.MustCompile(`(?m)^prepared .*\n`)
	errorClass = regexp.MustCompile(`error [0-9A-F]{4}`)
)

// onCopies returns a request on the copies of the tables.
func (c *copies) onCopies(r request) request {
	for _, t := range c.tables {
		name := regexp.MustCompile(`\b` + t.name + `\b`)
		r.text = name.ReplaceAllString(r.text, t.name+copySuffix)
		r.batch = slices.Clone(r.batch)
		for i := range r.batch {
			r.batch[i].text = name.ReplaceAllString(r.batch[i].text, t.name+copySuffix)
		}
	}
	return r
}

// run runs a request and returns an answer that does not depend on the names of tables.
func (c *copies) run(r request) string {
	r.keyspace = c.keyspace
	answer := comparable(recentTimes.ReplaceAllString(c.own.run(r), "NOW"))
	return strings.ReplaceAll(prepared.ReplaceAllString(answer, ""), copySuffix, "")
}

// both runs a request on the tables and on their copies, and compares the answers.
func (c *copies) both(r request) (ok bool) {
	answer, other := c.run(r), c.run(c.onCopies(r))
	if class := errorClass.FindString(answer); class != "" && class == errorClass.FindString(other) {
		return false // A message may have a place in the text.
	}
	if answer != other {
		c.t.Errorf("%s\n%s\nand on the copy\n%s", r.text, answer, other)
	}
	return !strings.Contains(answer, "error ")
}

// read compares a SELECT with the same one with ALLOW FILTERING on the copy.
func (c *copies) read(r request) {
	answer := c.run(r)
	plain := c.onCopies(r)
	switch {
	case strings.Contains(answer, "error 0000"):
		c.t.Errorf("%s\n%s", r.text, answer)
	case strings.Contains(answer, "error "):
		c.refused++
		return
	case !strings.Contains(r.text, "ALLOW FILTERING"):
		if other := c.run(plain); strings.Contains(other, "error ") {
			c.through++
		}
		plain.text += " ALLOW FILTERING"
	}
	if other := c.run(plain); answer != other {
		c.t.Errorf("%s\n%v\n%s\nand without indexes\n%s", r.text, r.values, answer, other)
	}
	c.same++
}

// change creates or drops an index, or splits a table.
func (c *copies) change() {
	t := pick(c.drawing, c.tables...)
	switch c.IntN(4) {
	case 0, 1:
		text, name, column := c.createIndex(t)
		if !strings.Contains(c.run(request{text: text}), "error ") {
			c.names[t.name] = append(c.names[t.name], name)
			t.indexed = append(t.indexed, column)
		}
		if c.one(2) {
			c.w.built(c.t)
		}
	case 2:
		if names := c.names[t.name]; len(names) > 1 {
			i := c.IntN(len(names))
			if answer := c.run(request{text: "DROP INDEX " + names[i]}); strings.Contains(answer, "error ") {
				c.t.Error(answer)
			}
			c.names[t.name], t.indexed = slices.Delete(names, i, i+1), slices.Delete(t.indexed, i, i+1)
		}
	case 3:
		now, err := c.w.schema()
		if err != nil {
			c.t.Fatal(err)
		}
		rid := now.byTable[[2]string{c.keyspace, t.name}].RID
		of, _ := c.w.catalog.View().ContainerByRID(rid)
		if of.Ranges.Len() < 4 {
			id := of.Ranges.At(c.IntN(of.Ranges.Len())).Value.ID
			if _, err := c.w.node.Split(context.Background(), rid, id, ""); err != nil {
				c.t.Logf("split: %v", err) // An index is being built, or there is only one key.
			}
		}
	}
}

// everyKind is a table with each kind of column that an index may be on.
func (c *copies) everyKind() {
	t := &drawnTable{name: "every"}
	for _, text := range []string{
		"k0 int partition", "k1 int partition", "c0 int clustering", "c1 int clustering", "s0 int static", "s1 set<int> static",
		"v0 int regular", "v1 text regular", "l0 list<int> regular", "e0 set<int> regular", "m0 map<int, int> regular", "f0 frozen<list<int>> regular", "u0 tuple<int, int> regular",
	} {
		words := strings.Fields(text)
		typ, err := row.ParseType(strings.Join(words[1:len(words)-1], " "), nil)
		if err != nil {
			c.t.Fatal(err)
		}
		t.columns = append(t.columns, drawnColumn{name: words[0], t: typ, kind: words[len(words)-1], desc: words[0] == "c1"})
	}
	c.tables = append(c.tables, t, t)
	c.both(request{text: "CREATE TABLE every (k0 int, k1 int, c0 int, c1 int, s0 int static, s1 set<int> static, v0 int, v1 text, l0 list<int>, e0 set<int>, m0 map<int, int>, f0 frozen<list<int>>, u0 tuple<int, int>, PRIMARY KEY ((k0, k1), c0, c1)) WITH CLUSTERING ORDER BY (c0 ASC, c1 DESC)"})
	for _, target := range []string{"k0", "k1", "c0", "c1", "s0", "s1", "v0", "v1", "l0", "e0", "keys(m0)", "values(m0)", "entries(m0)", "full(f0)", "u0"} {
		name := c.name("i")
		if answer := c.run(request{text: "CREATE INDEX " + name + " ON every (" + target + ")"}); strings.Contains(answer, "error ") {
			c.t.Fatal(answer)
		}
		column := strings.TrimSuffix(target[strings.Index(target, "(")+1:], ")")
		c.names["every"] = append(c.names["every"], name)
		t.indexed = append(t.indexed, t.columns[slices.IndexFunc(t.columns, func(c drawnColumn) bool { return c.name == column })])
	}
}

// TestIndexedModel draws tables, writes with timestamps, times to live and deletions,
// indexes that are created and dropped, and splits: a SELECT of a table with indexes has
// the answer that the same SELECT has of a copy without indexes, with ALLOW FILTERING.
func TestIndexedModel(t *testing.T) {
	t.Parallel()
	steps := 600
	if testing.Short() {
		steps = 100
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.now = time.Time{}
			d := &drawing{Rand: rand.New(rand.NewPCG(seed, 14)), keyspace: "ks", stamp: 1_000_000, now: int32(time.Now().Unix())}
			c := &copies{drawing: d, t: t, w: w, own: serveNode(t, w), names: map[string][]string{}}
			c.own.run(request{text: "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"})
			for range 2 {
				if strings.Contains(c.run(request{text: d.createType()}), "error ") {
					d.types = d.types[:len(d.types)-1]
				}
			}
			c.everyKind()
			for len(d.tables) < 5 {
				r := request{text: d.createTable()}
				at := d.tables[len(d.tables)-1]
				if at.counter || !c.both(r) {
					d.tables = d.tables[:len(d.tables)-1]
				}
			}
			for range 6 {
				c.change()
			}
			for step := range steps {
				switch n := c.IntN(20); {
				case n == 0:
					c.change()
				case n == 1:
					d.now += int32(c.IntN(5))
				case n < 9:
					c.both(d.write())
				default:
					c.read(d.read())
				}
				if t.Failed() {
					t.Fatalf("step %d", step)
				}
			}
			t.Logf("%d equal answers, %d through indexes, %d errors", c.same, c.through, c.refused)
			if c.through < steps/60 {
				t.Error("too few queries went through an index")
			}
		})
	}
}

// run executes statements in the keyspace ks, and returns the result of the last one.
func (w *world) run(t *testing.T, all ...string) *door.Result {
	t.Helper()
	var last *door.Result
	for _, text := range all {
		r, _, err := w.execute("ks", text, 0)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		last = r
	}
	return last
}

// TestIndexedReadsVisitPartitions reads through an index of a table with several physical
// partitions: all of them for a value alone, one for a partition key. The charge is less
// than that of a read without the index.
func TestIndexedReadsVisitPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(t, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))")
	for i := range 400 {
		w.run(t, fmt.Sprintf("INSERT INTO t (k, c, v) VALUES (%d, %d, %d)", i%20, i, i%100))
	}
	w.run(t, "CREATE INDEX ON t (v)")
	w.built(t)
	rid := w.current.Load().byTable[[2]string{"ks", "t"}].RID
	of, _ := w.catalog.View().ContainerByRID(rid)
	if _, err := w.node.Split(t.Context(), rid, of.Ranges.At(0).Value.ID, ""); err != nil {
		t.Fatal(err)
	}
	visited := func(r *door.Result) int {
		return 1 + strings.Count(string(r.Payload[0].Value), ",")
	}
	all := w.run(t, "SELECT c FROM t WHERE v = 7")
	if all.Rows.Count != 4 || visited(all) != 2 {
		t.Errorf("%d rows of %d partitions, want 4 of 2", all.Rows.Count, visited(all))
	}
	one := w.run(t, "SELECT c FROM t WHERE k = 7 AND v = 7")
	if one.Rows.Count != 4 || visited(one) != 1 {
		t.Errorf("%d rows of %d partitions, want 4 of 1", one.Rows.Count, visited(one))
	}
	w.run(t, "DROP INDEX t_v_idx")
	scan := w.run(t, "SELECT c FROM t WHERE v = 7 ALLOW FILTERING")
	if all.Charge <= one.Charge || scan.Charge <= all.Charge {
		t.Errorf("the charges are %v, for one key %v, without the index %v", all.Charge, one.Charge, scan.Charge)
	}
}

// TestIndexPermissions asks for what Apache Cassandra asks for: ALTER on the table.
func TestIndexPermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(t, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATE TABLE t (k int PRIMARY KEY, v int)", "CREATE INDEX i ON t (v)")
	for text, want := range map[string]string{
		"CREATE INDEX ON t (v)":       "ALTER <table ks.t>",
		"CREATE INDEX ON other.u (v)": "ALTER <table other.u>",
		"DROP INDEX i":                "ALTER <table ks.t>",
		"DROP INDEX ks.i":             "ALTER <table ks.t>",
		"DROP INDEX nope":             "ALTER <keyspace ks>",
	} {
		s, err := w.Prepare(t.Context(), w.session, "ks", text)
		if err != nil || s.Permission+" "+s.On != want {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
}
