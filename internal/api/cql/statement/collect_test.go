package statement

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/row"
)

// stored returns the number of items and their bytes in all partitions of a table.
func (w *world) stored(t *testing.T, name string) (items, bytes int64) {
	t.Helper()
	c, ok := w.catalog.View().ContainerByRID(w.current.Load().byTable[[2]string{"ks", name}].RID)
	if !ok {
		t.Fatal("the table is not in the catalog")
	}
	for _, p := range c.Partitions() {
		replica, release, err := w.node.Replica(t.Context(), c, p.ID)
		if err != nil {
			t.Fatal(err)
		}
		s := replica.Stats()
		release()
		items, bytes = items+s.Documents, bytes+s.Bytes
	}
	return items, bytes
}

// waitUntil waits until something holds: items are due in the second after their write.
func (w *world) waitUntil(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not hold after a minute")
		}
	}
}

// TestDeletedRowsLeaveTheStatistics deletes a partition with 3,000 rows and a range of
// another one. Both are one small write. The rows disappear from the counters in steps,
// while the partition splits in between, and not those that were written later or that are
// not covered. Older writes lose, before and after.
func TestDeletedRowsLeaveTheStatistics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.now = time.Time{}
	w.must(t, createKeyspace, "CREATE TABLE t (k int, c int, s int STATIC, v text, PRIMARY KEY (k, c))")
	insert, err := w.Prepare(t.Context(), w.session, "ks", "INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("x", 100))
	for i := range int32(3000) {
		if _, err := w.bind(insert, row.Int(1), row.Int(i), text); err != nil {
			t.Fatal(err)
		}
	}
	for i := range int32(100) {
		if _, err := w.bind(insert, row.Int(2), row.Int(i), text); err != nil {
			t.Fatal(err)
		}
	}
	w.must(t, "UPDATE t SET s = 1 WHERE k = 1", "DELETE FROM t WHERE k = 1", "INSERT INTO t (k, c, v) VALUES (1, 7, 'new')", "DELETE FROM t WHERE k = 2 AND c >= 50")
	answers := func() string {
		t.Helper()
		return w.must(t, "INSERT INTO t (k, c, v) VALUES (1, 8, 'old') USING TIMESTAMP 1", "SELECT k, c, s FROM t WHERE k = 1") +
			w.must(t, "UPDATE t USING TIMESTAMP 1 SET v = 'old' WHERE k = 2 AND c = 60", "SELECT count(*) FROM t WHERE k = 2")
	}
	const want = "1 | 7 | null\n50\n"
	if got := answers(); got != want {
		t.Errorf("before the removal: %q", got)
	}
	before, bytes := w.stored(t, "t")
	if before != 3101 { // The two older writes have removed what they have met.
		t.Errorf("%d items before the removal", before)
	}
	w.waitUntil(t, func() bool {
		w.node.Expire(context.Background()) // It is bounded: some rows are left.
		some, _ := w.stored(t, "t")
		return some < before && some > 53
	})
	table := w.current.Load().byTable[[2]string{"ks", "t"}].RID
	c, _ := w.catalog.View().ContainerByRID(table)
	if _, err := w.node.Split(context.Background(), table, c.Partitions()[0].ID, ""); err != nil {
		t.Fatal(err)
	}
	// A row and a deletion, and fifty rows and a deletion.
	w.waitUntil(t, func() bool {
		w.node.Clear(context.Background())
		items, _ := w.stored(t, "t")
		return items == 53
	})
	if got := answers(); got != want {
		t.Errorf("after the removal: %q", got)
	}
	if items, left := w.stored(t, "t"); items != 53 || left >= bytes/10 {
		t.Errorf("%d items with %d bytes after the removal, %d bytes before", items, left, bytes)
	}
}

// TestDeadRowsAreRemovedAfterTheGrace stores rows that expire and rows that were deleted
// twenty days ago, and some that are within the grace.
func TestDeadRowsAreRemovedAfterTheGrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.now = time.Time{}
	w.must(t, createKeyspace, "CREATE TABLE t (k int, c int, v text, l list<int>, PRIMARY KEY (k, c))", "CREATE TABLE soon (k int PRIMARY KEY, v text) WITH gc_grace_seconds = 0")
	w.now = time.Now().Add(-20 * 24 * time.Hour)
	w.must(t, "INSERT INTO t (k, c, v) VALUES (1, 1, 'expired') USING TTL 1000", "INSERT INTO t (k, c, v) VALUES (1, 2, 'deleted')",
		"DELETE FROM t WHERE k = 1 AND c = 2", "INSERT INTO t (k, c, v, l) VALUES (1, 3, 'in part', [1, 2])", "DELETE l FROM t WHERE k = 1 AND c = 3",
		"DELETE FROM t WHERE k = 1 AND c > 100")
	w.now = time.Now().Add(-time.Hour)
	value := strings.Repeat("v", 1000)
	w.must(t, fmt.Sprintf("INSERT INTO t (k, c, v) VALUES (2, 1, '%s') USING TTL 1000", value), "DELETE FROM t WHERE k = 2 AND c = 2",
		fmt.Sprintf("INSERT INTO soon (k, v) VALUES (1, '%s') USING TTL 1000", value), "DELETE FROM soon WHERE k = 2")
	w.now = time.Time{}
	_, bytes := w.stored(t, "t")
	// What is left are the row with c = 3, and of k = 2 the tombstones of both rows, without
	// the value; and nothing of the table without a grace.
	w.waitUntil(t, func() bool {
		w.node.Expire(context.Background())
		items, left := w.stored(t, "t")
		others, _ := w.stored(t, "soon")
		return items == 3 && left < bytes-900 && others == 0
	})
	w.must(t, fmt.Sprintf("UPDATE t USING TIMESTAMP %d SET v = 'late' WHERE k = 2 AND c = 1", time.Now().Add(-2*time.Hour).UnixMicro()))
	if got := w.must(t, "SELECT k, c, v, l FROM t"); got != "1 | 3 | 'in part' | null\n" {
		t.Errorf("%q", got)
	}
}
