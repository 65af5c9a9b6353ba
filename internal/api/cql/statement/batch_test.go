package statement

import (
	"errors"
	"slices"
	"testing"
	"time"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/batchlog"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
)

// recordOf returns the record of a logged batch that is not carried out.
func (w *world) recordOf(t *testing.T, text string) []byte {
	t.Helper()
	s, err := w.Prepare(t.Context(), w.session, "ks", text)
	if err != nil {
		t.Fatal(err)
	}
	now, err := w.schema()
	if err != nil {
		t.Fatal(err)
	}
	m := w.moment(nil)
	changes, err := s.Plan.(*plan).prepared.Changes(table.Values{}, m, nil, w.now.UnixMicro(), w.now.Unix())
	if err != nil {
		t.Fatal(err)
	}
	record, _, err := w.record(t.Context(), &writing{session: w.session, schema: now, changes: changes, logged: true})
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// replay makes the changes of a record, and returns their number.
func (w *world) replay(t *testing.T, record []byte) int {
	t.Helper()
	writes, err := w.recorded(record)
	if err != nil {
		t.Fatal(err)
	}
	_, errs := w.config.Engine.WriteAllItems(t.Context(), auth.Owner(), writes)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return len(writes)
}

func (w *world) must(t testing.TB, texts ...string) (rows string) {
	t.Helper()
	for _, text := range texts {
		r, _, err := w.execute("ks", text, 0)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if r.Rows != nil {
			rows = literals(r.Rows)
		}
	}
	return rows
}

const createKeyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"

// TestReplayedBatchesChangeNothing makes the changes of a batch again after each of some
// later statements: the rows are as if they had been made once.
func TestReplayedBatchesChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(t, createKeyspace, "CREATE TABLE t (k int, c int, s int STATIC, v text, l list<int>, m map<text, int>, PRIMARY KEY (k, c))",
		"CREATE TABLE n (k int PRIMARY KEY, v int)",
		"INSERT INTO t (k, c, v, l, m) VALUES (1, 1, 'first', [1, 2, 2, 3], {'a': 1})", "INSERT INTO t (k, c, v) VALUES (2, 5, 'gone')")
	w.now = time.Now() // That of the partitions, which give the other statements their timestamps.
	record := w.recordOf(t, "BEGIN BATCH "+
		"UPDATE t USING TTL 1000 SET v = 'batch', l[3] = 30 WHERE k = 1 AND c = 1 "+
		"UPDATE t SET l = l - [2], m = m + {'b': 2}, s = 4 WHERE k = 1 AND c = 1 "+
		"UPDATE t SET l = [8, 9] + l WHERE k = 1 AND c = 2 "+
		"DELETE FROM t WHERE k = 2 AND c > 3 INSERT INTO n (k, v) VALUES (7, 7) DELETE FROM n WHERE k = 8 APPLY BATCH")
	if n := w.replay(t, record); n != 4 {
		t.Fatalf("%d changes, want those of 4 keys", n)
	}
	const all = "SELECT k, c, s, v, l, m FROM t"
	want := "1 | 1 | 4 | 'batch' | [1, 30] | {'a': 1, 'b': 2}\n1 | 2 | 4 | null | [8, 9] | null\n"
	if got := w.must(t, all); got != want {
		t.Fatalf("rows\n%swant\n%s", got, want)
	}
	for _, later := range []string{
		"UPDATE t SET l = l + [40] WHERE k = 1 AND c = 1",
		"DELETE l[0] FROM t WHERE k = 1 AND c = 1",
		"UPDATE t SET l[0] = 31 WHERE k = 1 AND c = 1",
		"UPDATE t SET l = l + [2] WHERE k = 1 AND c = 1",
		"INSERT INTO t (k, c, v) VALUES (2, 5, 'again')",
		"UPDATE t SET v = 'later', m['b'] = 3 WHERE k = 1 AND c = 1",
		"DELETE FROM t WHERE k = 1 AND c = 2",
		"UPDATE t SET s = 5 WHERE k = 1",
		"DELETE FROM n WHERE k = 7",
	} {
		w.must(t, later)
		want, other := w.must(t, all), w.must(t, "SELECT * FROM n")
		w.replay(t, record)
		if got := w.must(t, all); got != want {
			t.Errorf("%s, and the batch again: rows\n%swant\n%s", later, got, want)
		}
		if got := w.must(t, "SELECT * FROM n"); got != other {
			t.Errorf("%s, and the batch again: rows\n%swant\n%s", later, got, other)
		}
	}
}

// TestRecordsOfGoneTables replays batches whose tables were dropped, truncated, or created
// again, or whose deletions may be forgotten: only the other changes are made.
func TestRecordsOfGoneTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(t, createKeyspace)
	for _, name := range []string{"kept", "dropped", "emptied", "again"} {
		w.must(t, "CREATE TABLE "+name+" (k int PRIMARY KEY, v int)")
	}
	record := w.recordOf(t, "BEGIN BATCH INSERT INTO kept (k, v) VALUES (1, 1) INSERT INTO dropped (k, v) VALUES (1, 1) "+
		"INSERT INTO emptied (k, v) VALUES (1, 1) INSERT INTO again (k, v) VALUES (1, 1) APPLY BATCH")
	w.must(t, "DROP TABLE dropped", "TRUNCATE emptied", "DROP TABLE again", "CREATE TABLE again (k int PRIMARY KEY, w int)", "ALTER TABLE kept ADD x int")
	if n := w.replay(t, record); n != 1 {
		t.Errorf("%d changes", n)
	}
	if got := w.must(t, "SELECT * FROM kept"); got != "1 | 1 | null\n" {
		t.Errorf("rows %s", got)
	}
	if got := w.must(t, "SELECT * FROM emptied") + w.must(t, "SELECT * FROM again"); got != "" {
		t.Errorf("rows of tables that are gone: %s", got)
	}
	w.now = w.now.Add(10*24*time.Hour + time.Second)
	if n := w.replay(t, record); n != 0 {
		t.Errorf("%d changes after gc_grace_seconds", n)
	}
	for n := range record {
		if _, err := w.recorded(record[:n]); err == nil {
			t.Fatalf("%d bytes of a record of %d were read", n, len(record))
		}
	}
	if _, err := w.recorded(append(slices.Clone(record), 0)); err == nil {
		t.Error("a record with another byte was read")
	}
}

// TestErrorsOfLoggedBatches covers how the door words what can fail.
func TestErrorsOfLoggedBatches(t *testing.T) {
	t.Parallel()
	timeout := status.New(status.CodeRequestTimeout, 0, "timeout")
	for _, test := range []struct {
		recorded bool
		err      error
		kind     frame.WriteType
		code     status.Code
	}{
		{false, timeout, frame.WriteBatchLog, status.CodeRequestTimeout},
		{false, status.Unavailable(nil, "disk"), frame.WriteBatchLog, status.CodeRequestTimeout},
		{false, status.TooManyRequests(0, time.Second, "full"), frame.WriteBatchLog, status.CodeTooManyRequests},
		{true, timeout, frame.WriteBatch, status.CodeRequestTimeout},
		{true, status.TooManyRequests(0, time.Second, "full"), frame.WriteBatch, status.CodeRequestTimeout},
		{true, status.TooLarge("large"), frame.WriteBatch, status.CodeTooLarge},
	} {
		err := loggedError(&batchlog.Error{Recorded: test.recorded, Err: test.err})
		typed, ok := errors.AsType[*door.WriteError](err)
		if !ok || typed.Type != test.kind || status.CodeOf(err) != test.code {
			t.Errorf("%v, recorded %v: %T %v", test.err, test.recorded, err, err)
		}
	}
	if err := loggedError(&batchlog.Error{Err: status.TooLarge("large")}); err.Error() != "Batch too large" {
		t.Errorf("a record that is too large: %v", err)
	}
}
