package statement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table"
	"github.com/decandb/decan/partitionkey"
)

// stored is an item of a table.
type stored struct{ key, item, body string }

// storedRows returns the rows of a table as they are stored.
func (w *world) storedRows(t testing.TB, name string) (all []stored) {
	t.Helper()
	now, err := w.schema()
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.config.Engine.ReadItems(context.Background(), auth.Owner(), engine.ReadItemsRequest{
		Table: now.byTable[[2]string{"ks", name}].RID, Range: partitionkey.Full(),
		Visit: func(i *partition.Item) (bool, error) {
			if i.Item[0] == table.RowItems[0] {
				all = append(all, stored{string(i.Key), string(i.Item), string(i.Body)})
			}
			return true, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// put stores an item of a table, or removes it if it has no body.
func (w *world) put(t testing.TB, name string, one stored) {
	t.Helper()
	now, err := w.schema()
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.config.Engine.WriteItems(t.Context(), auth.Owner(), engine.WriteItemsRequest{
		Table: now.byTable[[2]string{"ks", name}].RID, Key: one.key,
		Change: changeFunc(func(i partition.Items) error {
			if one.body == "" {
				return i.Put(one.item, nil, 0)
			}
			return i.Put(one.item, []byte(one.body), 0)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCheckComparesViews damages a view, and what its table says about it, in each way: the
// check of the data directory finds the damage, and nothing else.
func TestCheckComparesViews(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		damage func(*testing.T, *world)
		want   []string // the ends of the problems; nil for none
	}{
		{"nothing", func(*testing.T, *world) {}, nil},
		{"a row of the view is missing", func(t *testing.T, w *world) {
			one := w.storedRows(t, "v")[3]
			one.body = ""
			w.put(t, "v", one)
		}, []string{"is missing."}},
		{"a row of the view is of no row of the table", func(t *testing.T, w *world) {
			all := w.storedRows(t, "v")
			all[0].key = "\x00\x00\x10\x00"
			w.put(t, "v", all[0])
		}, []string{"is not one of the table."}},
		{"a row of the view has an old value", func(t *testing.T, w *world) {
			all := w.storedRows(t, "v")
			all[0].body = strings.Replace(all[0].body, "text", "TEXT", 1)
			w.put(t, "v", all[0])
		}, []string{"has not the values of the table."}},
		{"a row is at its old place", func(t *testing.T, w *world) {
			all := w.storedRows(t, "v")
			one := all[0]
			one.body = ""
			w.put(t, "v", one)
			all[0].key = "\x00\x00\x10\x00"
			w.put(t, "v", all[0])
		}, []string{"is missing.", "is not one of the table."}},
		{"many rows are missing", func(t *testing.T, w *world) {
			for _, one := range w.storedRows(t, "v") {
				one.body = ""
				w.put(t, "v", one)
			}
		}, append(strings.Split(strings.Repeat("is missing.,", 10), ",")[:10], "has more rows that are not those of its table 't'.")},
		{"an update of the view is outstanding", func(t *testing.T, w *world) {
			w.views.Close()
			config := w.keeperConfig()
			config.Step = func(string) error { return errors.New("crash") }
			(&viewStory{world: w}).crash(config.Step, false)
			for _, text := range []string{"UPDATE ks.t SET v = 100 WHERE k = 3 AND c = 3", "DELETE FROM ks.t WHERE k = 4"} {
				if _, _, err := w.execute("ks", text, 0); err == nil {
					t.Error("the view was updated")
				}
			}
		}, nil},
		{"a view that is not built", func(t *testing.T, w *world) {
			w.views.Close()
			w.must(t, "CREATE MATERIALIZED VIEW late AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, k, c)")
		}, nil},
		{"rows that a finished sweep has left", func(t *testing.T, w *world) {
			deletion := row.Deletion{Present: true, Timestamp: 1 << 60, Local: w.now.Unix()}
			meta := row.Meta{Deletion: deletion}
			one := w.storedRows(t, "plain")[0]
			one.item, one.body = table.MetaItem, string(meta.Append(nil))
			w.put(t, "plain", one)
		}, []string{"the removal of what that covers has ended."}},
		{"a static row that a finished sweep has left", func(t *testing.T, w *world) {
			w.must(t, "DELETE FROM statics WHERE k = 2", "INSERT INTO statics (k, s) VALUES (1, 1)")
			meta := row.Meta{Deletion: row.Deletion{Present: true, Timestamp: 1 << 60, Local: w.now.Unix()}}
			w.put(t, "statics", stored{"\x00\x00\x00\x01", table.MetaItem, string(meta.Append(nil))})
		}, []string{"the removal of what that covers has ended."}},
		{"rows that a sweep has yet to remove", func(t *testing.T, w *world) {
			meta := row.Meta{Deletion: row.Deletion{Present: true, Timestamp: 1 << 60, Local: w.now.Unix()}, Sweep: row.Sweep{Pending: true}}
			one := w.storedRows(t, "plain")[0]
			one.item, one.body = table.MetaItem, string(meta.Append(nil))
			w.put(t, "plain", one)
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, check := newCheckedWorld(t)
			w.now = time.Now()
			w.must(t, createKeyspace, "CREATE TABLE t (k int, c int, v int, w text, PRIMARY KEY (k, c))", "CREATE TABLE plain (k int PRIMARY KEY, v int)", "CREATE TABLE statics (k int, c int, s int static, PRIMARY KEY (k, c))",
				"CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, k, c)")
			w.waitForViews(t)
			for k := range 20 {
				w.must(t, fmt.Sprintf("INSERT INTO t (k, c, v, w) VALUES (%d, %d, %d, 'text')", k, k, k*3), fmt.Sprintf("INSERT INTO plain (k, v) VALUES (%d, 1)", k))
			}
			w.must(t, "DELETE FROM t WHERE k = 5", "UPDATE t SET v = 7 WHERE k = 6 AND c = 6", "UPDATE t USING TTL 10000 SET w = 'text' WHERE k = 7 AND c = 7")
			test.damage(t, w)
			report := check()
			found := report.Problems
			for _, p := range report.Partitions {
				found = append(found, p.Problems...)
			}
			found = slices.DeleteFunc(found, func(text string) bool {
				return strings.HasPrefix(text, "The size row of logical partition") // It counts no row with a problem.
			})
			ok := len(found) == len(test.want)
			for i := range found {
				ok = ok && strings.HasSuffix(found[i], test.want[i])
			}
			if !ok || report.Clean() != (test.want == nil) {
				t.Errorf("problems:\n%s", strings.Join(found, "\n"))
			}
		})
	}
}
