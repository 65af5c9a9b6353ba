package statement

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
)

// bind executes a prepared statement with values.
func (w *world) bind(s *door.Statement, values ...[]byte) (*door.Result, error) {
	given := make([]frame.Value, len(values))
	for i, v := range values {
		given[i] = frame.Value{Bytes: v}
	}
	return w.Execute(context.Background(), w.session, s, &door.Request{Values: given, Parameters: &frame.Parameters{Consistency: frame.Quorum}})
}

// TestStatementsWhileTheySplit counts with conditional updates, inserts rows and reads the
// table while its partitions split: no client sees an error, no count and no row is lost,
// and no scan repeats a row (S115).
func TestStatementsWhileTheySplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.t (k int, c int, n int, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 10000",
	} {
		if _, _, err := w.execute("", text, 0); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	prepare := func(text string) *door.Statement {
		s, err := w.Prepare(t.Context(), w.session, "ks", text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	read, count := prepare("SELECT n FROM t WHERE k = ? AND c = 0"), prepare("UPDATE t SET n = ? WHERE k = ? AND c = 0 IF n = ?")
	insert, scan := prepare("INSERT INTO t (k, c, n) VALUES (?, ?, 0)"), prepare("SELECT k, c FROM t")
	const keys = 10
	for k := range int32(keys) {
		if _, err := w.bind(insert, row.Int(k), row.Int(0)); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	var counted, inserted [keys]atomic.Int32
	var group sync.WaitGroup
	for client := range int32(4) {
		group.Go(func() {
			for i := client; !stop.Load(); i++ {
				k := row.Int(i % keys)
				r, err := w.bind(read, k)
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				old := r.Rows.Cells[4:]
				n := int32(binary.BigEndian.Uint32(old))
				if r, err = w.bind(count, row.Int(n+1), k, old); err != nil {
					t.Errorf("count: %v", err)
					return
				}
				if r.Rows.Cells[4] == 1 {
					counted[i%keys].Add(1)
				}
			}
		})
	}
	group.Go(func() {
		for i := int32(0); !stop.Load(); i++ {
			if _, err := w.bind(insert, row.Int(i%keys), row.Int(1+i/keys)); err != nil {
				t.Errorf("insert: %v", err)
				return
			}
			inserted[i%keys].Add(1)
		}
	})
	group.Go(func() {
		for !stop.Load() {
			r, err := w.bind(scan)
			if err != nil {
				t.Errorf("scan: %v", err)
				return
			}
			rows := strings.Split(strings.TrimSpace(literals(r.Rows)), "\n")
			slices.Sort(rows)
			if n := len(slices.Compact(rows)); n != r.Rows.Count || n < keys {
				t.Errorf("a scan has %d rows, %d different ones", r.Rows.Count, n)
			}
		}
	})
	table := w.current.Load().byTable[[2]string{"ks", "t"}].RID
	for range 3 {
		c, _ := w.catalog.View().ContainerByRID(table)
		for _, p := range c.Partitions() {
			if _, err := w.node.Split(context.Background(), table, p.ID, ""); err != nil {
				t.Logf("split: %v", err)
			}
		}
	}
	stop.Store(true)
	group.Wait()
	c, _ := w.catalog.View().ContainerByRID(table)
	if c.Ranges.Len() < 4 {
		t.Errorf("%d partitions", c.Ranges.Len())
	}
	for k := range int32(keys) {
		r, err := w.bind(read, row.Int(k))
		if err != nil {
			t.Fatal(err)
		}
		if n := int32(binary.BigEndian.Uint32(r.Rows.Cells[4:])); n != counted[k].Load() {
			t.Errorf("key %d: counted to %d, %d updates were applied", k, n, counted[k].Load())
		}
		_, _, err = w.execute("ks", fmt.Sprintf("SELECT c FROM t WHERE k = %d", k), 0)
		if err != nil {
			t.Error(err)
		}
		all, _, err := w.execute("ks", fmt.Sprintf("SELECT c FROM t WHERE k = %d", k), 7)
		if err != nil || int32(all.Rows.Count) != inserted[k].Load()+1 {
			t.Errorf("key %d: %d rows, %d were inserted, %v", k, all.Rows.Count, inserted[k].Load()+1, err)
		}
	}
}
