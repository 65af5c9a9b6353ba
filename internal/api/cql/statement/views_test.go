package statement

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/materialize"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/partitionkey"
)

// waitForViews waits until all materialized views are built.
func (w *world) waitForViews(t testing.TB) {
	t.Helper()
	w.started.Do(w.Start)
	w.eventually(t, "the views are built", func() bool {
		built, _, err := w.execute("", "SELECT view_name FROM system.built_views", 0)
		if err != nil {
			t.Fatal(err)
		}
		all, _, err := w.execute("", "SELECT view_name FROM system_schema.views", 0)
		if err != nil {
			t.Fatal(err)
		}
		return built.Rows.Count == all.Rows.Count
	})
}

// eventually waits until something is true.
func (w *world) eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not true in time: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// viewStory is a table with views, and random writes of it.
type viewStory struct {
	*world
	rand *rand.Rand
	done []string // statements
}

// The views of the story: the statement that defines each, and the SELECT of the table
// that has the same rows.
var storyViews = []struct{ name, create, view, base string }{
	{
		"byv", "SELECT v, k, c, w, m FROM b WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, c, k) WITH CLUSTERING ORDER BY (c DESC, k ASC)",
		"SELECT v, k, c, w, m, writetime(w), ttl(w) FROM byv", "SELECT v, k, c, w, m, writetime(w), ttl(w) FROM b WHERE v > -1000 ALLOW FILTERING",
	},
	{
		"filtered", "SELECT * FROM b WHERE v IS NOT NULL AND k IN (1, 2) AND c > 1 PRIMARY KEY ((c, v), k)",
		"SELECT v, k, c, w, x, m, l, writetime(x), ttl(x) FROM filtered", "SELECT v, k, c, w, x, m, l, writetime(x), ttl(x) FROM b WHERE v > -1000 AND k IN (1, 2) AND c > 1 ALLOW FILTERING",
	},
	{
		"turned", "SELECT * FROM b WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
		"SELECT c, k, v, w, x, m, l, writetime(v), ttl(v) FROM turned", "SELECT c, k, v, w, x, m, l, writetime(v), ttl(v) FROM b",
	},
	{
		"few", "SELECT c, k, w FROM b WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
		"SELECT c, k, w, ttl(w) FROM few", "SELECT c, k, w, ttl(w) FROM b",
	},
}

func newViewStory(t testing.TB, w *world, seed uint64) *viewStory {
	t.Helper()
	// Partitions remove what has expired by the clock of the machine, which does not reach
	// that of the story.
	w.now = time.Now().Add(time.Hour)
	w.must(t, createKeyspace, "CREATE TABLE b (k int, c int, s int STATIC, v int, w text, x int, m map<int, int>, l list<int>, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 10000")
	// A table with a static column has no view of *; the views select all others.
	return &viewStory{world: w, rand: rand.New(rand.NewPCG(seed, 1))}
}

func (s *viewStory) define(t testing.TB) {
	t.Helper()
	for _, v := range storyViews {
		create := strings.Replace(v.create, "SELECT *", "SELECT k, c, v, w, x, m, l", 1)
		with := " WITH "
		if strings.Contains(create, with) {
			with = " AND "
		}
		s.must(t, "CREATE MATERIALIZED VIEW "+v.name+" AS "+create+with+"cosmosdb_provisioned_throughput = 10000")
	}
}

// statement draws a write.
func (s *viewStory) statement(keys int) string {
	n := func(below int) int { return s.rand.IntN(below) }
	k, c := n(keys), n(4)
	using := func(ttl bool) string {
		var parts []string
		if n(3) == 0 {
			parts = append(parts, fmt.Sprintf("TIMESTAMP %d", 1_700_000_000_000_000+int64(n(20))*500_000))
		}
		if ttl && n(4) == 0 {
			parts = append(parts, fmt.Sprintf("TTL %d", 1+n(20)))
		}
		if len(parts) == 0 {
			return ""
		}
		return " USING " + strings.Join(parts, " AND ")
	}
	value := func() string {
		if n(4) == 0 {
			return "null"
		}
		return fmt.Sprint(n(3))
	}
	where := fmt.Sprintf(" WHERE k = %d AND c = %d", k, c)
	sets := []string{
		"v = " + value(), "w = '" + fmt.Sprint(n(9)) + "'", "w = null", "x = " + value(),
		fmt.Sprintf("m[%d] = %s", n(2), value()), "m = {1: 1}", fmt.Sprintf("l = l + [%d]", n(5)), "l = null",
	}
	switch n(12) {
	case 0, 1:
		return fmt.Sprintf("INSERT INTO b (k, c, v, w) VALUES (%d, %d, %s, '%d')%s", k, c, value(), n(9), using(true))
	case 2:
		return fmt.Sprintf("INSERT INTO b (k, c) VALUES (%d, %d)%s", k, c, using(true))
	case 3, 4, 5:
		return "UPDATE b" + using(true) + " SET " + sets[n(len(sets))] + where
	case 6:
		return "DELETE " + []string{"v", "w", "x", "m", "l"}[n(5)] + " FROM b" + using(false) + where
	case 7:
		return "DELETE FROM b" + using(false) + where
	case 8:
		return fmt.Sprintf("DELETE FROM b%s WHERE k = %d AND c > %d AND c <= %d", using(false), k, c-2, c)
	case 9:
		if n(3) > 0 {
			return fmt.Sprintf("UPDATE b SET s = %d WHERE k = %d", n(5), k)
		}
		return fmt.Sprintf("DELETE FROM b%s WHERE k = %d", using(false), k)
	case 10:
		if n(2) == 0 {
			return fmt.Sprintf("INSERT INTO b (k, c, v) VALUES (%d, %d, %s) IF NOT EXISTS", k, c, value())
		}
		return "UPDATE b SET v = " + value() + where + " IF v = " + value()
	}
	return fmt.Sprintf("BEGIN %s BATCH %s; %s; %s; APPLY BATCH", []string{"", "UNLOGGED"}[n(2)],
		fmt.Sprintf("INSERT INTO b (k, c, v, x) VALUES (%d, %d, %s, 1)%s", k, c, value(), using(true)),
		fmt.Sprintf("DELETE FROM b%s WHERE k = %d AND c >= %d", using(false), n(keys), n(4)),
		fmt.Sprintf("UPDATE b SET v = %s WHERE k = %d AND c = %d", value(), k, n(4)))
}

// lines returns the rows of a SELECT, sorted.
func (s *viewStory) lines(t testing.TB, text string) string {
	t.Helper()
	r, _, err := s.execute("ks", text, 7)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	all := strings.Split(strings.TrimSpace(literals(r.Rows)), "\n")
	// A static row without rows is no row of a view.
	all = slices.DeleteFunc(all, func(line string) bool { return strings.HasPrefix(line, "null | ") })
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// only returns the lines that the other text does not have.
func only(text, other string) string {
	lines := strings.Split(other, "\n")
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return slices.Contains(lines, line) }), "\n")
}

// compare compares each view with the rows that its table says.
func (s *viewStory) compare(t testing.TB) {
	t.Helper()
	for _, v := range storyViews {
		got, want := s.lines(t, v.view), s.lines(t, v.base)
		if got != want {
			t.Fatalf("view %s after\n%s\nhas\n%s\nand its table\n%s", v.name, strings.Join(s.done[max(0, len(s.done)-20):], "\n"), only(got, want), only(want, got))
		}
	}
}

// write carries out a drawn write. Only a timeout of the views is an error that may be.
func (s *viewStory) write(t testing.TB, keys int) {
	t.Helper()
	text := s.statement(keys)
	s.done = append(s.done, text)
	_, _, err := s.execute("ks", text, 0)
	var late *door.WriteError
	if err != nil && (!errors.As(err, &late) || late.Type != frame.WriteView) {
		t.Fatalf("%s: %v", text, err)
	}
}

// outboxes returns the number of entries in outboxes.
func (s *viewStory) outboxes(t testing.TB) (n int) {
	t.Helper()
	rid := s.rid("b")
	_, err := s.config.Engine.ReadItems(context.Background(), auth.Owner(), engine.ReadItemsRequest{
		Table: rid, Range: partitionkey.Full(), Marked: true,
		Visit: func(*partition.Item) (bool, error) { n++; return true, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *viewStory) rid(name string) resource.RID {
	now, err := s.schema()
	if err != nil {
		panic(err)
	}
	return now.byTable[[2]string{"ks", name}].RID
}

// TestViewsFollowTheirTable draws writes of all kinds, with timestamps, times to live and
// deletions, and compares the views with their table after each of them.
func TestViewsFollowTheirTable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			s := newViewStory(t, newWorld(t), seed)
			for range 20 {
				s.write(t, 3)
			}
			s.define(t)
			s.waitForViews(t)
			s.compare(t)
			for range 250 {
				s.write(t, 3)
				if s.rand.IntN(8) == 0 {
					s.now = s.now.Add(time.Duration(s.rand.IntN(5)) * time.Second)
				}
				s.compare(t)
			}
		})
	}
}

// crash ends the keeper of the views and starts another one, as a crash and a start do.
func (s *viewStory) crash(step func(string) error, start bool) {
	s.views.Close()
	config := s.keeperConfig()
	config.Step = step
	s.views = materialize.New(config)
	if start {
		s.views.Start()
	}
}

// TestViewsAfterCrashes ends updates of the views before any of their steps, starts
// again, and finds views that agree with their table.
func TestViewsAfterCrashes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			s := newViewStory(t, newWorld(t), 100+seed)
			s.define(t)
			failing := errors.New("crash")
			var lock sync.Mutex
			draw := rand.New(rand.NewPCG(seed, 2))
			for range 12 {
				s.crash(func(string) error {
					lock.Lock()
					defer lock.Unlock()
					if draw.IntN(3) == 0 {
						return failing
					}
					return nil
				}, false)
				for range 12 {
					s.write(t, 3)
				}
				s.now = s.now.Add(time.Second)
				s.crash(nil, true)
				s.eventually(t, "all outboxes are settled", func() bool { return s.outboxes(t) == 0 })
				s.compare(t)
			}
		})
	}
}

// TestViewsWhileTheySplit writes from several clients while the table and its views split,
// and while a view is built (S115).
func TestViewsWhileTheySplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newViewStory(t, w, 7)
	s.Start()
	for range 200 {
		s.write(t, 40)
	}
	var stop atomic.Bool
	var group sync.WaitGroup
	for client := range uint64(4) {
		own := &viewStory{world: w, rand: rand.New(rand.NewPCG(client, 3))}
		group.Go(func() {
			for !stop.Load() {
				text := own.statement(40)
				if _, _, err := own.execute("ks", text, 0); err != nil {
					t.Errorf("%s: %v", text, err)
					return
				}
			}
		})
	}
	s.define(t)
	for range 3 {
		for _, name := range []string{"b", "byv", "turned"} {
			c, _ := s.catalog.View().ContainerByRID(s.rid(name))
			for _, p := range c.Partitions() {
				if _, err := s.node.Split(context.Background(), c.RID, p.ID, ""); err != nil && !strings.Contains(err.Error(), "one partition key") {
					t.Logf("split: %v", err)
				}
			}
		}
	}
	s.started.Do(func() {})
	s.waitForViews(t)
	stop.Store(true)
	group.Wait()
	s.eventually(t, "all outboxes are settled", func() bool { return s.outboxes(t) == 0 })
	for _, name := range []string{"b", "byv", "turned"} {
		c, _ := s.catalog.View().ContainerByRID(s.rid(name))
		if c.Ranges.Len() < 3 {
			t.Errorf("%s has %d partitions", name, c.Ranges.Len())
		}
	}
	s.compare(t)
}

// TestViewsOfATruncatedTable empties the views with their table.
func TestViewsOfATruncatedTable(t *testing.T) {
	t.Parallel()
	s := newViewStory(t, newWorld(t), 8)
	s.define(t)
	s.waitForViews(t)
	for range 30 {
		s.write(t, 3)
	}
	s.must(t, "TRUNCATE b")
	s.compare(t)
	if got := s.lines(t, "SELECT * FROM byv"); got != "" {
		t.Errorf("the view has %s", got)
	}
	s.waitForViews(t)
	for range 30 {
		s.write(t, 3)
		s.compare(t)
	}
}
