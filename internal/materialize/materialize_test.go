package materialize

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/table"
	"github.com/decandb/decan/internal/table/cql"
	"github.com/decandb/decan/partitionkey"
)

// world is an engine with stores in memory, a table t and its view v, turned round. The
// stores are checked at the end, which compares the view with the table.
type world struct {
	*engine.Engine
	schema *table.Schema
	viewed *Viewed
	gone   atomic.Bool // the view was dropped
}

func newWorld(t *testing.T) *world {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := pool.Create("data/catalog")
	if err != nil {
		t.Fatal(err)
	}
	known, err := catalog.Open(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	limits := resource.DefaultLimits()
	node, err := cluster.Start(cluster.Config{Pool: pool, Dir: "data", Catalog: known, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(node.Close(), store.Close()); err != nil {
			t.Error(err)
		}
		report, err := cluster.CheckStores(pool, "data")
		if err != nil || !report.Clean() {
			t.Errorf("check: %+v, %v", report, err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{schema: &table.Schema{}}
	id := byte(0)
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))",
		"CREATE MATERIALIZED VIEW ks.v AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, k, c)",
	} {
		change, err := w.schema.Define(parse(t, text).Statement, "", table.Environment{NewID: func() [16]byte { id++; return [16]byte{id} }, Now: 1})
		if err != nil {
			t.Fatal(err)
		}
		w.schema = change.Schema
	}
	w.Engine = engine.New(engine.Config{Catalog: known, Node: node, Account: resource.Account{ID: "decan", Consistency: resource.Session}, Limits: limits})
	ks := w.schema.Keyspace("ks")
	if _, err := w.CreateKeyspace(t.Context(), auth.Owner(), engine.KeyspaceRequest{Name: "ks", Definition: ks.Definition()}); err != nil {
		t.Fatal(err)
	}
	rids := map[string]resource.RID{}
	for _, of := range ks.Tables {
		made, err := w.CreateTable(t.Context(), auth.Owner(), engine.TableRequest{Keyspace: "ks", Name: of.Name, Columns: []string{of.Partition[0].Name}, Definition: of.Definition()})
		if err != nil {
			t.Fatal(err)
		}
		rids[of.Name] = made.RID
	}
	base := ks.Table("t")
	projections, err := w.schema.Projections(base)
	if err != nil {
		t.Fatal(err)
	}
	w.viewed = &Viewed{RID: rids["t"], Table: base, Projections: projections, Views: map[[16]byte]resource.RID{ks.Table("v").ID: rids["v"]}}
	return w
}

func parse(t *testing.T, text string) cql.Parsed {
	t.Helper()
	parsed, err := cql.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// keeper returns a keeper with a step, which is closed at the end.
func (w *world) keeper(t *testing.T, step func(string) error) *Keeper {
	k := New(Config{
		Engine: w.Engine, Step: step, Retry: time.Millisecond,
		Viewed: func(rid resource.RID) (*Viewed, error) {
			if rid != w.viewed.RID || w.gone.Load() {
				return nil, nil
			}
			return w.viewed, nil
		},
		All: func() ([]*Viewed, error) {
			if w.gone.Load() {
				return nil, nil
			}
			return []*Viewed{w.viewed}, nil
		},
	})
	t.Cleanup(k.Close)
	return k
}

// write carries out a statement without settling the view, and returns its routing key.
func (w *world) write(t *testing.T, viewed bool, text string) (key string) {
	t.Helper()
	p, err := w.schema.Prepare(parse(t, text), "ks")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	changes, err := p.Changes(table.Values{}, &table.Moment{Now: now}, nil, now.UnixMicro(), now.Unix())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if viewed {
			c.Projections = w.viewed.Projections
		}
		if _, err := w.WriteItems(t.Context(), auth.Owner(), engine.WriteItemsRequest{Table: w.viewed.RID, Key: c.Key, Change: change{c.Evaluate}}); err != nil {
			t.Fatal(err)
		}
		key = c.Key
	}
	return key
}

// count returns the number of rows of the view, and of entries of outboxes of the table.
func (w *world) count(t *testing.T) (rows, entries int) {
	t.Helper()
	for rid, n := range map[resource.RID]*int{w.viewed.RID: &entries, w.viewed.Views[w.viewed.Projections[0].View.ID]: &rows} {
		_, err := w.ReadItems(context.Background(), auth.Owner(), engine.ReadItemsRequest{
			Table: rid, Range: partitionkey.Full(), Marked: rid == w.viewed.RID,
			Visit: func(*partition.Item) (bool, error) { *n++; return true, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return rows, entries
}

// eventually waits until the view has rows and no outbox has an entry.
func (w *world) eventually(t *testing.T, rows int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		got, entries := w.count(t)
		if got == rows && entries == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the view has %d rows, want %d; %d entries", got, rows, entries)
		}
	}
}

var errStep = errors.New("the step fails")

// TestSettle ends an update before each of its steps: the entry stays, the update is an
// error unless the view is right already, and the next one makes it.
func TestSettle(t *testing.T) {
	t.Parallel()
	for _, fails := range []string{"", stepRead, stepWrite, stepRemove} {
		t.Run("fails "+fails, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			k := w.keeper(t, func(name string) error {
				if name == fails {
					return errStep
				}
				return nil
			})
			key := w.write(t, true, "INSERT INTO t (k, c, v) VALUES (1, 1, 5)")
			if rows, entries := w.count(t); rows != 0 || entries != 1 {
				t.Fatalf("before: %d rows, %d entries", rows, entries)
			}
			_, err := k.Settle(t.Context(), w.viewed.RID, key)
			if (err != nil) != (fails != "") || err != nil && !errors.Is(err, errStep) {
				t.Errorf("settle: %v", err)
			}
			rows, entries := w.count(t)
			if wrote := fails == "" || fails == stepRemove; (rows == 1) != wrote || fails != "" && entries != 1 {
				t.Errorf("after: %d rows, %d entries", rows, entries)
			}
			k.Close()
			if _, err := w.keeper(t, nil).Settle(t.Context(), w.viewed.RID, key); err != nil {
				t.Error(err)
			}
			w.eventually(t, 1)
		})
	}
}

// TestSettleInTheBackground: what failed, and what no write has asked for, is settled after
// Start, also if the first attempts fail.
func TestSettleInTheBackground(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var left atomic.Int32
	left.Store(3)
	k := w.keeper(t, func(string) error {
		if left.Add(-1) >= 0 {
			return errStep
		}
		return nil
	})
	asked := w.write(t, true, "INSERT INTO t (k, c, v) VALUES (1, 1, 5)")
	if _, err := k.Settle(t.Context(), w.viewed.RID, asked); !errors.Is(err, errStep) {
		t.Errorf("settle: %v", err)
	}
	w.write(t, true, "INSERT INTO t (k, c, v) VALUES (2, 1, 5)") // No client asks for it.
	k.Start()
	w.eventually(t, 2)
	k.Later(w.viewed.RID, w.write(t, true, "UPDATE t SET v = 6 WHERE k = 2 AND c = 1"))
	k.Later(w.viewed.RID, w.write(t, true, "DELETE FROM t WHERE k = 1"))
	w.eventually(t, 1)
}

// TestOneCallAtATime settles one partition key from many callers: no two update the view
// at the same time, and each returns after its write is in the view.
func TestOneCallAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var writing atomic.Int32
	var updates atomic.Int32
	k := w.keeper(t, func(name string) error {
		if name == stepWrite {
			if writing.Add(1) > 1 {
				t.Error("two calls update the view")
			}
			updates.Add(1)
		}
		if name == stepRemove {
			writing.Add(-1)
		}
		return nil
	})
	const callers = 20
	var group sync.WaitGroup
	for c := range callers {
		key := w.write(t, true, fmt.Sprintf("INSERT INTO t (k, c, v) VALUES (1, %d, 5)", c))
		group.Go(func() {
			if _, err := k.Settle(t.Context(), w.viewed.RID, key); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if rows, _ := w.count(t); rows != callers || updates.Load() > callers {
		t.Errorf("%d rows after %d updates", rows, updates.Load())
	}
	w.eventually(t, callers)
	// A caller that waits for its turn ends with its context.
	ref := keyRef{w.viewed.RID, "\x00\x00\x00\x01"}
	k.join(ref)
	if _, err := k.begin(t.Context(), ref, 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.settleNow(ctx, ref); err == nil {
		t.Error("a call that has ended has the turn")
	}
	k.end(ref, 0, false)
	k.leave(ref)
	if len(k.keys) != 0 {
		t.Errorf("%d turns are kept", len(k.keys))
	}
}

// TestBuild builds the view of a table with rows, is interrupted, and continues where it was. The
// state of a view that was dropped is removed.
func TestBuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rows = 3*rowsMax + 10
	for c := range rows {
		w.write(t, false, fmt.Sprintf("INSERT INTO t (k, c, v) VALUES (%d, %d, %d)", c/100, c, c%7))
	}
	var steps atomic.Int32
	first := w.keeper(t, func(string) error {
		if steps.Add(1) > 6 { // in the middle of the rows
			return errStep
		}
		return nil
	})
	if err := first.buildAll(t.Context()); !errors.Is(err, errStep) {
		t.Fatalf("build: %v", err)
	}
	if b := first.Builds(); len(b) != 1 || b[0].Done || b[0].Rows == 0 || b[0].Rows >= rows || b[0].After == "" {
		t.Errorf("interrupted: %+v", b)
	}
	at := first.Builds()[0].Rows
	first.Close()
	second := w.keeper(t, nil)
	if err := second.buildAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b := second.Builds(); len(b) != 1 || !b[0].Done || b[0].Rows != rows {
		t.Errorf("built: %+v, interrupted at %d", b, at)
	}
	w.eventually(t, rows)
	records, err := second.records(t.Context())
	if err != nil || len(records) != 1 {
		t.Errorf("%d states, %v", len(records), err)
	}
	w.gone.Store(true)
	if err := second.buildAll(t.Context()); err != nil {
		t.Error(err)
	}
	if records, err := second.records(t.Context()); err != nil || len(records) != 0 || len(second.Builds()) != 0 {
		t.Errorf("%d states after the view was dropped, %v", len(records), err)
	}
}
