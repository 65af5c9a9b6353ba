package table

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// dueItems are the items of routing keys, with the times at which they are due.
type dueItems struct {
	bodies map[string]map[string][]byte
	due    map[string]map[string]int64
	micros int64
}

// dueKey is one routing key of dueItems; it implements Items.
type dueKey struct {
	*dueItems
	key string
}

func (d dueKey) Get(item string) ([]byte, error) { return d.bodies[d.key][item], nil }

func (d dueKey) Put(item string, body []byte, due int64) error {
	if d.bodies[d.key] == nil {
		d.bodies[d.key], d.due[d.key] = map[string][]byte{}, map[string]int64{}
	}
	delete(d.bodies[d.key], item)
	delete(d.due[d.key], item)
	if body != nil {
		d.bodies[d.key][item] = slices.Clone(body)
	}
	if due != 0 {
		d.due[d.key][item] = due
	}
	return nil
}

func (d dueKey) Micros() int64 { d.micros++; return d.micros }

// collect makes at most steps collections of what is due at a time, and returns how many
// it has made.
func (d *dueItems) collect(t *testing.T, of *Table, now int64, most, steps int) (made int) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(d.due)) {
		var due []string
		for _, item := range slices.Sorted(maps.Keys(d.due[key])) {
			if d.due[key][item] <= now {
				due = append(due, item)
			}
		}
		if len(due) == 0 || made == steps {
			continue
		}
		c, err := of.Collect(due, most, now, func(from string, visit func(item, body []byte) (bool, error)) error {
			for _, item := range slices.Sorted(maps.Keys(d.bodies[key])) {
				if item < from {
					continue
				}
				if more, err := visit([]byte(item), d.bodies[key][item]); err != nil || !more {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = c.Evaluate(dueKey{d, key})
		}
		if err != nil {
			t.Fatal(err)
		}
		made++
	}
	return made
}

// TestCollectModel draws writes, deletions of all kinds and times to live, with timestamps
// that are older than the clock by up to the grace, for two copies of a table. What is not
// needed any more is collected at random times from one of them, also while a sweep is in
// progress: both answer alike at each step. In the end, long after the last write, the
// collected copy has live rows only.
func TestCollectModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			collectModel(t, rand.New(rand.NewPCG(seed, 11)))
		})
	}
}

func collectModel(t *testing.T, random *rand.Rand) {
	w := &world{schema: &Schema{}, tables: map[[16]byte]map[string]map[string][]byte{}}
	const grace = 1000
	for _, s := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
		fmt.Sprintf("CREATE TABLE t (k int, c int, d int, s int STATIC, v int, w text, m map<int, int>, l list<int>, PRIMARY KEY (k, c, d)) WITH gc_grace_seconds = %d", grace),
	} {
		if _, err := w.execute(s); err != nil {
			t.Fatal(err)
		}
	}
	of, err := w.schema.Table(cql.Name{Name: "t"}, "ks")
	if err != nil {
		t.Fatal(err)
	}
	now := int64(1_700_000_000)
	both := [2]*dueItems{}
	for i := range both {
		both[i] = &dueItems{map[string]map[string][]byte{}, map[string]map[string]int64{}, now * 1_000_000}
	}
	number := func(n int) int { return random.IntN(n) }
	using := func(ttl bool) string {
		text := fmt.Sprintf(" USING TIMESTAMP %d", (now-int64(number(grace)))*1_000_000+int64(number(3)))
		if ttl && number(2) == 0 {
			text += fmt.Sprintf(" AND TTL %d", 1+number(grace))
		}
		return text
	}
	where := func() string {
		return fmt.Sprintf(" WHERE k = %d AND c = %d AND d = %d", number(2), number(4), number(4))
	}
	draw := func() string {
		switch number(12) {
		case 0, 1, 2, 3:
			return fmt.Sprintf("INSERT INTO t (k, c, d, v, w, m, l) VALUES (%d, %d, %d, %d, 'w', {1: 1, 2: 2}, [1, 2])", number(2), number(4), number(4), number(100)) + using(true)
		case 4:
			return "UPDATE t" + using(true) + fmt.Sprintf(" SET v = %d, m[%d] = 5, s = %d", number(100), number(4), number(100)) + where()
		case 5:
			return "UPDATE t" + using(true) + fmt.Sprintf(" SET s = %d WHERE k = %d", number(100), number(2))
		case 6:
			return "DELETE v, m[1], l FROM t" + using(false) + where()
		case 7:
			return "DELETE FROM t" + using(false) + where()
		case 8:
			return "DELETE FROM t" + using(false) + fmt.Sprintf(" WHERE k = %d AND c = %d", number(2), number(4))
		case 9:
			return "DELETE FROM t" + using(false) + fmt.Sprintf(" WHERE k = %d AND c >= %d AND c < %d", number(2), number(3), number(5))
		case 10:
			return "DELETE FROM t" + using(false) + fmt.Sprintf(" WHERE k = %d", number(2))
		}
		return "DELETE s FROM t" + using(false) + fmt.Sprintf(" WHERE k = %d", number(2))
	}
	read := func(d *dueItems) string {
		p, err := cql.Parse("SELECT JSON k, c, d, s, v, w, m, l, writetime(v), ttl(w) FROM t")
		if err != nil {
			t.Fatal(err)
		}
		q, err := newTerms(p, nil).compileSelect(of, p.Statement.(*cql.Select))
		if err != nil {
			t.Fatal(err)
		}
		page, err := q.run(context.Background(), &memory{table: of, items: d.bodies}, &binding{moment: testMoment}, &PageOptions{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return string(page.Rows)
	}
	collected := 0
	for step := range 400 {
		now += int64(number(30))
		text := draw()
		p, err := cql.Parse(text)
		if err != nil {
			t.Fatal(text, err)
		}
		compiled, _, err := w.compile(p, p.Statement, cql.Name{Name: "t"})
		if err != nil {
			t.Fatal(text, err)
		}
		for _, d := range both {
			changes, err := compiled.bind(&binding{moment: testMoment}, nil, now)
			for _, c := range changes {
				if err == nil {
					err = c.Evaluate(dueKey{d, c.Key})
				}
			}
			if err != nil {
				t.Fatal(text, err)
			}
		}
		if number(3) == 0 {
			collected += both[1].collect(t, of, now, 1+number(3), 1+number(3))
		}
		if got, want := read(both[1]), read(both[0]); got != want {
			t.Fatalf("step %d at %d, after %s: the copies differ:\n%s\nwant\n%s", step, now, text, got, want)
		}
	}
	if collected == 0 {
		t.Error("nothing was collected")
	}
	now += 4 * grace
	want := read(both[0])
	for rounds := 0; both[1].collect(t, of, now, 2, 100) > 0; rounds++ {
		if now += collectPause; rounds > 200 {
			t.Fatal("the collection does not end")
		}
	}
	if got := read(both[1]); got != want {
		t.Errorf("after the last collection\n%s\nwant\n%s", got, want)
	}
	for key, items := range both[1].bodies {
		for item, body := range items {
			r, err := row.DecodeRow(body)
			if item == MetaItem || err != nil || !r.Alive(now) || both[1].due[key][item] != 0 {
				t.Errorf("item %x of key %x is left: %+v, %v", item, key, r, err)
			}
			for i := range r.Cells {
				if c := &r.Cells[i]; !c.Live(now) {
					t.Errorf("item %x has a dead cell: %+v", item, c)
				}
			}
		}
	}
}

// TestDeletionsOfAPartitionAreSwept removes 1,700 covered rows in steps of 500, and no
// row that was written after the deletion.
func TestDeletionsOfAPartitionAreSwept(t *testing.T) {
	t.Parallel()
	w := &world{schema: &Schema{}, tables: map[[16]byte]map[string]map[string][]byte{}}
	for _, s := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}", "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))",
	} {
		if _, err := w.execute(s); err != nil {
			t.Fatal(err)
		}
	}
	of, err := w.schema.Table(cql.Name{Name: "t"}, "ks")
	if err != nil {
		t.Fatal(err)
	}
	const now = 1_700_000_000
	items := &dueItems{map[string]map[string][]byte{}, map[string]map[string]int64{}, now * 1_000_000}
	must := func(text string) {
		t.Helper()
		p, err := cql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		compiled, _, err := w.compile(p, p.Statement, cql.Name{Name: "t"})
		if err != nil {
			t.Fatal(err)
		}
		changes, err := compiled.bind(&binding{moment: testMoment}, nil, now)
		if err == nil {
			err = changes[0].Evaluate(dueKey{items, changes[0].Key})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1700 {
		must(fmt.Sprintf("INSERT INTO t (k, c, v) VALUES (1, %d, 1)", i))
	}
	must("DELETE FROM t WHERE k = 1")
	for _, c := range []int{3, 600, 5000} {
		must(fmt.Sprintf("INSERT INTO t (k, c, v) VALUES (1, %d, 2)", c))
	}
	// A deletion that is made between Collect and Evaluate is swept too.
	found, err := of.Collect([]string{MetaItem}, 0, now, func(from string, visit func(item, body []byte) (bool, error)) error {
		for _, all := range items.bodies {
			if from == MetaItem {
				_, err := visit([]byte(MetaItem), all[MetaItem])
				return err
			}
		}
		return nil
	})
	if err != nil || !found.completed {
		t.Fatal(err)
	}
	must("DELETE FROM t WHERE k = 1 AND c > 4999")
	for key := range items.bodies {
		if err := found.Evaluate(dueKey{items, key}); err != nil {
			t.Fatal(err)
		}
	}
	must("INSERT INTO t (k, c, v) VALUES (1, 5001, 2)")
	steps := 0
	for items.collect(t, of, now+1, sweepItems, 1) > 0 {
		steps++
		if steps > 10 {
			t.Fatal("the sweep does not end")
		}
	}
	for _, all := range items.bodies {
		if len(all) != 4 || all[MetaItem] == nil || steps != 4 {
			t.Errorf("%d items after %d steps, want 3 rows and the deletion after 4", len(all), steps)
		}
	}
	must("INSERT INTO t (k, c, v) VALUES (1, 9, 9) USING TIMESTAMP 5")
	for _, all := range items.bodies {
		if len(all) != 4 {
			t.Error("an older write is stored")
		}
	}
	// While an entry of the outbox needs the covered rows they stay, for the grace at most.
	must("DELETE FROM t WHERE k = 1")
	for key, all := range items.bodies {
		entry := OutboxEntry{Item: OutboxRange, Stamp: now * 1_000_000}
		if err := (dueKey{items, key}).Put(OutboxRange, entry.encode(), MarkedExpiry); err != nil {
			t.Fatal(err)
		}
		if items.collect(t, of, now+10, 500, 1); len(all) != 5 {
			t.Errorf("%d items, want three rows, the deletion and the entry", len(all))
		}
		if items.collect(t, of, now+865_000, 1, 1); len(all) != 4 {
			t.Errorf("%d items, want two rows, the deletion and the entry", len(all))
		}
		delete(all, OutboxRange)
		delete(items.due[key], OutboxRange)
	}
	must("INSERT INTO t (k, c, v) VALUES (1, 9, 9)")
	// A sweep that takes longer than the grace: the deletion stays until it ends.
	must("DELETE FROM t WHERE k = 1")
	const late = now + 2_000_000
	if items.collect(t, of, late, 2, 1); len(items.bodies[slices.Collect(maps.Keys(items.bodies))[0]]) != 2 {
		t.Error("a step of two rows does not leave one row and the deletion")
	}
	for key, all := range items.bodies {
		if items.collect(t, of, late, 2, 1); len(all) != 0 || len(items.due[key]) != 0 {
			t.Errorf("%d items and %d due times are left", len(all), len(items.due[key]))
		}
	}
}

// countedItems counts the calls of a change.
type countedItems struct {
	dueKey
	gets, puts int
}

func (c *countedItems) Get(item string) ([]byte, error) {
	c.gets++
	return c.dueKey.Get(item)
}

func (c *countedItems) Put(item string, body []byte, due int64) error {
	c.puts++
	return c.dueKey.Put(item, body, due)
}

// TestDeletionOfALargePartition counts what the writer of a partition does for a deletion of
// a partition key with many rows, and for its sweep, which is what other writes wait for: the
// deletion and a write of the same key between two steps take as many calls as in a small
// partition, and a step has a bound that does not depend on the number of rows.
func TestDeletionOfALargePartition(t *testing.T) {
	t.Parallel()
	w := &world{schema: &Schema{}, tables: map[[16]byte]map[string]map[string][]byte{}}
	for _, s := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}", "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))",
	} {
		if _, err := w.execute(s); err != nil {
			t.Fatal(err)
		}
	}
	of, err := w.schema.Table(cql.Name{Name: "t"}, "ks")
	if err != nil {
		t.Fatal(err)
	}
	const now, few, many = 1_700_000_000, 10, 50_000
	var deletion, insertion [2]countedItems
	for i, rows := range []int{few, many} {
		items := &dueItems{map[string]map[string][]byte{}, map[string]map[string]int64{}, now * 1_000_000}
		var key string
		change := func(text string) countedItems {
			t.Helper()
			p, err := cql.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			compiled, _, err := w.compile(p, p.Statement, cql.Name{Name: "t"})
			if err != nil {
				t.Fatal(err)
			}
			changes, err := compiled.bind(&binding{moment: testMoment}, nil, now)
			if err != nil {
				t.Fatal(err)
			}
			key = changes[0].Key
			counted := countedItems{dueKey: dueKey{items, key}}
			if err := changes[0].Evaluate(&counted); err != nil {
				t.Fatal(err)
			}
			return counted
		}
		change("INSERT INTO t (k, c, v) VALUES (1, 0, 1)")
		column := []row.KeyColumn{of.Clustering[0].key()}
		name := func(c int) string { return RowItems + string(row.EncodeKey(column, [][]byte{row.Int(int32(c))})) }
		for c := range rows {
			items.bodies[key][name(c)] = items.bodies[key][name(0)]
		}
		deletion[i] = change("DELETE FROM t WHERE k = 1")
		names := slices.Sorted(maps.Keys(items.bodies[key]))
		steps := 0
		for items.due[key][MetaItem] <= now+1 {
			found, err := of.Collect([]string{MetaItem}, sweepItems, now+1, func(from string, visit func(item, body []byte) (bool, error)) error {
				at, _ := slices.BinarySearch(names, from)
				for _, item := range names[at:] {
					body := items.bodies[key][item]
					if body == nil {
						continue
					}
					if more, err := visit([]byte(item), body); err != nil || !more {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			step := countedItems{dueKey: dueKey{items, key}}
			if err := found.Evaluate(&step); err != nil {
				t.Fatal(err)
			}
			if step.puts > sweepItems+1 || step.gets > 2*sweepItems+2 {
				t.Errorf("a step of the sweep of %d rows reads %d items and writes %d", rows, step.gets, step.puts)
			}
			if steps++; steps == 1 {
				insertion[i] = change("INSERT INTO t (k, c, v) VALUES (1, 1000000, 1)")
			}
			if steps > rows/sweepItems+2 {
				t.Fatalf("the sweep of %d rows does not end", rows)
			}
		}
		if n := len(items.bodies[key]); n != 2 {
			t.Errorf("%d items are left of %d rows, want the deletion and the new row", n, rows)
		}
	}
	for name, both := range map[string][2]countedItems{"deletion": deletion, "insertion": insertion} {
		if both[0].gets != both[1].gets || both[0].puts != both[1].puts || both[1].gets > 6 || both[1].puts > 3 {
			t.Errorf("the %s reads %d items and writes %d in a partition of %d rows, %d and %d in one of %d", name,
				both[0].gets, both[0].puts, few, both[1].gets, both[1].puts, many)
		}
	}
}
