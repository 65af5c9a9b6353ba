package statement

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table"
	"github.com/decandb/decan/partitionkey"
)

// pendingSweeps returns the number of partition keys of a table whose deletions have yet to
// remove what they cover.
func (w *world) pendingSweeps(t testing.TB, name string) (n int) {
	t.Helper()
	_, err := w.config.Engine.ReadItems(context.Background(), auth.Owner(), engine.ReadItemsRequest{
		Table: w.current.Load().byTable[[2]string{"ks", name}].RID, Range: partitionkey.Full(),
		Visit: func(i *partition.Item) (bool, error) {
			if string(i.Item) != table.MetaItem {
				return true, nil
			}
			meta, err := row.DecodeMeta(append([]byte{}, i.Body...))
			if meta.Sweep.Pending {
				n++
			}
			return true, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// reshapeRounds is the number of changes of partitions of TestTablesChangeShape;
// DECAN_RESHAPE_ROUNDS sets another one.
func reshapeRounds(t *testing.T) int {
	rounds := 12
	if text := os.Getenv("DECAN_RESHAPE_ROUNDS"); text != "" {
		if _, err := fmt.Sscan(text, &rounds); err != nil {
			t.Fatalf("DECAN_RESHAPE_ROUNDS is %q: %v", text, err)
		}
	}
	return rounds
}

// TestTablesChangeShape splits and merges the partitions of a table at random in a loop, while
// clients write, delete rows, ranges and partitions, and read: no statement fails, each
// client reads what it has written, and afterwards everything that deletions cover is
// removed, whichever partitions it has been in (S115).
func TestTablesChangeShape(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.now = time.Time{}
	w.must(t, createKeyspace, "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 10000", "CREATE INDEX ON t (v)")
	w.built(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const clients, keys, rows = 4, 5, 30
	for k := range clients * keys {
		w.must(t, fmt.Sprintf("INSERT INTO t (k, c, v) VALUES (%d, %d, 0)", k, rows))
	}
	var stop atomic.Bool
	var group sync.WaitGroup
	var statements atomic.Int64
	for client := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(client)))
			var of [keys]map[int]int
			for k := range of {
				of[k] = map[int]int{rows: 0}
			}
			run := func(text string) bool {
				statements.Add(1)
				r, _, err := w.execute("ks", text, 11)
				if err != nil {
					t.Errorf("%s: %v", text, err)
					return false
				}
				if r.Rows == nil {
					return true
				}
				k := 0
				if _, err := fmt.Sscanf(text, "SELECT c, v FROM t WHERE k = %d", &k); err != nil {
					t.Error(err)
				}
				want := of[k%keys]
				if strings.Contains(text, " v = 7") {
					some := map[int]int{}
					for c, v := range want {
						if v == 7 {
							some[c] = v
						}
					}
					want = some
				}
				rest := r.Rows.Cells
				for range r.Rows.Count {
					c, v := int(binary.BigEndian.Uint32(rest[4:])), int(binary.BigEndian.Uint32(rest[12:]))
					if got, ok := want[c]; !ok || got != v {
						t.Errorf("%s: row %d has %d, want %d (%t)", text, c, v, got, ok)
						return false
					}
					rest = rest[16:]
				}
				if r.Rows.Count != len(want) {
					t.Errorf("%s: %d rows, want %d", text, r.Rows.Count, len(want))
					return false
				}
				return true
			}
			for n := 1; !stop.Load(); n++ {
				i, c := random.IntN(keys), random.IntN(rows)
				k := client*keys + i
				var text string
				switch random.IntN(8) {
				default:
					text = fmt.Sprintf("INSERT INTO t (k, c, v) VALUES (%d, %d, %d)", k, c, n%20)
					of[i][c] = n % 20
				case 3:
					text = fmt.Sprintf("DELETE FROM t WHERE k = %d AND c >= %d AND c < %d", k, c, c+8)
					for at := c; at < c+8; at++ {
						delete(of[i], at)
					}
				case 4:
					text = fmt.Sprintf("DELETE FROM t WHERE k = %d", k)
					clear(of[i])
				case 5:
					text = fmt.Sprintf("DELETE FROM t WHERE k = %d AND c = %d", k, c)
					delete(of[i], c)
				case 6:
					text = fmt.Sprintf("SELECT c, v FROM t WHERE k = %d", k)
				case 7:
					text = fmt.Sprintf("SELECT c, v FROM t WHERE k = %d AND v = 7", k)
				}
				if !run(text) {
					return
				}
			}
			for i := range keys {
				run(fmt.Sprintf("SELECT c, v FROM t WHERE k = %d", client*keys+i))
			}
		})
	}
	random := rand.New(rand.NewPCG(seed, clients))
	splits, merges, waiting := 0, 0, 0
	rid := w.current.Load().byTable[[2]string{"ks", "t"}].RID
	for range reshapeRounds(t) {
		c, _ := w.catalog.View().ContainerByRID(rid)
		all := c.Partitions()
		at := random.IntN(len(all))
		if len(all) > 1 && (len(all) > 5 || random.IntN(2) == 0) {
			at = random.IntN(len(all) - 1)
			waiting += w.pendingSweeps(t, "t")
			if _, err := w.node.Merge(context.Background(), rid, all[at].ID, all[at+1].ID); err != nil {
				t.Errorf("merge: %v", err)
			}
			merges++
			continue
		}
		if _, err := w.node.Split(context.Background(), rid, all[at].ID, ""); err != nil && !strings.Contains(err.Error(), "one partition key") && !strings.Contains(err.Error(), "no documents") {
			t.Errorf("split: %v", err)
		}
		splits++
	}
	stop.Store(true)
	group.Wait()
	w.eventually(t, "all sweeps are finished", func() bool { return w.pendingSweeps(t, "t") == 0 })
	t.Logf("%d splits, %d merges, %d pending sweeps at merges, %d statements", splits, merges, waiting, statements.Load())
}
