package batchlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// world is an engine with stores in memory, and a table.
type world struct {
	*engine.Engine
	catalog *catalog.Catalog
	node    *cluster.Node
	table   resource.RID
}

// definition is that of a table (k text, c int, v text, PRIMARY KEY (k, c)).
const definition = `{"version": 1, "id": "00112233445566778899aabbccddeeff", "next_id": 3, "columns": [
	{"name": "k", "type": "text", "kind": 0, "id": 0}, {"name": "v", "type": "text", "kind": 3, "id": 1}, {"name": "c", "type": "int", "kind": 1, "id": 2}]}`

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
	w := &world{}
	if w.catalog, err = catalog.Open(store, nil); err != nil {
		t.Fatal(err)
	}
	limits := resource.DefaultLimits()
	if w.node, err = cluster.Start(cluster.Config{Pool: pool, Dir: "data", Catalog: w.catalog, Limits: limits}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.node.Close(), store.Close()); err != nil {
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
	limits.Databases = 2 // the keyspace and its table; the table of records does not count
	w.Engine = engine.New(engine.Config{Catalog: w.catalog, Node: w.node, Account: resource.Account{ID: "decan", Consistency: resource.Session}, Limits: limits})
	ctx := context.Background()
	if _, err := w.CreateKeyspace(ctx, auth.Owner(), engine.KeyspaceRequest{Name: "ks", Definition: []byte(`{"version":1}`)}); err != nil {
		t.Fatal(err)
	}
	created, err := w.CreateTable(ctx, auth.Owner(), engine.TableRequest{Keyspace: "ks", Name: "t", Columns: []string{"k"}, Definition: []byte(definition)})
	if err != nil {
		t.Fatal(err)
	}
	w.table = created.RID
	return w
}

// write is a change of a test: a key gets a value. A record is a list of them.
type write struct {
	Table      resource.RID
	Key, Value string
}

var item = rowItems + string(positions.AppendKey(nil, row.Int(0)))

func (w write) request(refused func(key string) error) engine.WriteItemsRequest {
	return engine.WriteItemsRequest{Table: w.Table, Key: w.Key, Change: change(func(items partition.Items) error {
		if err := refused(w.Key); err != nil {
			return err
		}
		r := row.Row{Cells: []row.Cell{{Column: 1, Timestamp: 1, Value: []byte(w.Value)}}}
		return items.Put(item, r.Append(nil), 0)
	})}
}

func accept(string) error { return nil }

// batch returns a record of n writes, and the writes. refused may refuse some.
func (w *world) batch(n int, value string, refused func(key string) error) ([]byte, []engine.WriteItemsRequest) {
	var all []write
	var requests []engine.WriteItemsRequest
	for i := range n {
		one := write{w.table, fmt.Sprintf("key%d", i), value}
		all, requests = append(all, one), append(requests, one.request(refused))
	}
	record, _ := json.Marshal(all)
	return record, requests
}

func decode(record []byte) (writes []engine.WriteItemsRequest, err error) {
	var all []write
	err = json.Unmarshal(record, &all)
	for _, w := range all {
		writes = append(writes, w.request(accept))
	}
	return writes, err
}

// values returns the values of keys, each once.
func (w *world) values(t *testing.T, n int) (found []string) {
	t.Helper()
	for i := range n {
		value := ""
		_, err := w.ReadItems(t.Context(), auth.Owner(), engine.ReadItemsRequest{
			Table: w.table, Key: fmt.Sprintf("key%d", i), Slices: []partition.Slice{partition.Point(item)}, Restart: func() {},
			Visit: func(i *partition.Item) (bool, error) {
				r, err := row.DecodeRow(i.Body)
				value = string(r.Cells[0].Value)
				return false, err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(found, value) {
			found = append(found, value)
		}
	}
	return found
}

// records returns the number of records.
func (w *world) records(t *testing.T) int {
	t.Helper()
	table, err := w.SystemTable(t.Context(), tableName, false)
	if err != nil || table == "" {
		return 0
	}
	all, _, err := (&Log{cfg: Config{Engine: w.Engine}}).keys(t.Context(), table, nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

var errCrash = errors.New("crash")

// TestCrashAtEachStep stops a batch at each of its steps, and begins again with another
// log: all keys have the value of the batch if it was recorded, and none otherwise.
func TestCrashAtEachStep(t *testing.T) {
	t.Parallel()
	const keys = 5
	for _, test := range []struct {
		step     string
		refused  string // the key whose write is the crash
		recorded bool
	}{
		{step: stepRecord},
		{step: stepWrite, recorded: true},
		{refused: "key0", recorded: true},
		{refused: "key4", recorded: true},
		{step: stepAnswer, recorded: true},
		{step: stepRemove, recorded: true},
	} {
		t.Run(test.step+test.refused, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			step := func(name string) error {
				if name == test.step {
					return errCrash
				}
				return nil
			}
			before := New(Config{Engine: w.Engine, Decode: decode, step: step})
			record, writes := w.batch(keys, "new", func(key string) error {
				if key == test.refused {
					return errCrash
				}
				return nil
			})
			_, err := before.Write(t.Context(), auth.Owner(), record, writes)
			before.Close()
			failed, ok := errors.AsType[*Error](err)
			if test.step == stepRemove {
				if err != nil {
					t.Fatalf("an error after the answer: %v", err)
				}
			} else if !ok || failed.Recorded != test.recorded {
				t.Fatalf("error %v", err)
			}
			if n := w.records(t); n == 1 != test.recorded {
				t.Fatalf("%d records", n)
			}
			after := New(Config{Engine: w.Engine, Decode: decode, Retry: time.Millisecond})
			defer after.Close()
			after.Start()
			want := ""
			if test.recorded {
				want = "new"
			}
			eventually(t, "the batch is not finished", func() bool { return w.records(t) == 0 && slices.Equal(w.values(t, keys), []string{want}) })
		})
	}
}

// TestInterruptedBatchIsFinished refuses a key for some time: the call returns an error,
// and the same log finishes the batch. A call in progress is not touched.
func TestInterruptedBatchIsFinished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := New(Config{Engine: w.Engine, Decode: decode, Retry: time.Millisecond})
	defer l.Close()
	l.Start()
	record, writes := w.batch(3, "new", func(key string) error {
		if key == "key1" {
			return status.Unavailable(nil, "not now")
		}
		return nil
	})
	if _, err := l.Write(t.Context(), auth.Owner(), record, writes); status.CodeOf(err) != status.CodeUnavailable {
		t.Fatalf("error %v", err)
	}
	eventually(t, "the batch is not finished", func() bool { return w.records(t) == 0 && slices.Equal(w.values(t, 3), []string{"new"}) })

	entered, leave := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	slow, _ := w.batch(3, "replayed", accept)
	_, writes = w.batch(3, "slow", func(key string) error {
		if key == "key2" && once.CompareAndSwap(false, true) {
			close(entered)
			<-leave
		}
		return nil
	})
	ended := make(chan error)
	go func() {
		_, err := l.Write(context.Background(), auth.Owner(), slow, writes)
		ended <- err
	}()
	<-entered
	if left, err := l.replay(t.Context()); left != 0 || err != nil {
		t.Errorf("a replay during a call: %d left, %v", left, err)
	}
	close(leave)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := w.values(t, 3); !slices.Equal(got, []string{"slow"}) {
		t.Errorf("values %q: a replay has touched a batch in progress", got)
	}
}

// TestRecords covers a record of several parts, one that is too large, a caller that may
// not write, and a record of which a part is missing.
func TestRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := New(Config{Engine: w.Engine, Decode: decode})
	defer l.Close()
	ctx := t.Context()
	large := bytes.Repeat([]byte("0123456789"), partBytes/4)
	if err := l.save(ctx, auth.Owner(), "large", large); err != nil {
		t.Fatal(err)
	}
	table, err := w.SystemTable(ctx, tableName, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := l.load(ctx, table, "large"); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	_, err = w.WriteItems(ctx, auth.Owner(), engine.WriteItemsRequest{Table: table, Key: "large", Change: change(func(items partition.Items) error {
		return items.Put(itemOf(1), nil, 0)
	})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.load(ctx, table, "large"); err == nil {
		t.Error("a record without one of its parts was read")
	}
	if err := l.save(ctx, auth.Owner(), "huge", make([]byte, 32<<20)); status.CodeOf(err) != status.CodeTooLarge {
		t.Errorf("a record of 32 MB: %v", err)
	}
	if got, err := l.load(ctx, table, "huge"); err != nil || got != nil {
		t.Errorf("a refused record has %d bytes, %v", len(got), err)
	}
}

// TestTableOfRecordsIsHidden looks for the table of records as a client could.
func TestTableOfRecordsIsHidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := New(Config{Engine: w.Engine, Decode: decode})
	record, writes := w.batch(2, "v", accept)
	if _, err := l.Write(t.Context(), auth.Owner(), record, writes); err != nil {
		t.Fatal(err)
	}
	l.Close()
	table, err := w.SystemTable(t.Context(), tableName, false)
	if err != nil || table == "" {
		t.Fatalf("no table: %v", err)
	}
	if _, all := w.Keyspaces(); len(all) != 1 || len(all[0].Tables) != 1 {
		t.Errorf("keyspaces %+v", all)
	}
	feed, err := w.ListDatabases(t.Context(), auth.Owner(), engine.QueryRequest{})
	if err != nil || len(feed.Rows) != 1 {
		t.Errorf("databases %+v, %v", feed, err)
	}
	for _, link := range []engine.Link{
		{Database: resource.SystemDatabase, Container: tableName},
		{Database: table.Database().String(), Container: tableName},
		{Database: table.Database().String(), Container: table.String()},
		{Database: "ks", Container: table.String()},
	} {
		if _, err := w.ReadContainer(t.Context(), auth.Owner(), engine.ContainerRequest{Link: link}); status.CodeOf(err) != status.CodeNotFound {
			t.Errorf("container %v: %v", link, err)
		}
		if _, err := w.ReadDatabase(t.Context(), auth.Owner(), engine.DatabaseRequest{Link: engine.Link{Database: link.Database}}); link.Database != "ks" && status.CodeOf(err) != status.CodeNotFound {
			t.Errorf("database %v: %v", link, err)
		}
	}
	if n := w.catalog.View().ContainerCount(); n != 1 {
		t.Errorf("%d containers count", n)
	}
}

// TestRecordsSurviveSplits splits the table of records while a batch is interrupted.
func TestRecordsSurviveSplits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := New(Config{Engine: w.Engine, Decode: decode})
	const batches = 8
	for i := range batches {
		record, writes := w.batch(2, fmt.Sprint(i), func(string) error { return errCrash })
		if _, err := l.Write(t.Context(), auth.Owner(), record, writes); err == nil {
			t.Fatal("no error")
		}
	}
	l.Close()
	table, err := w.SystemTable(t.Context(), tableName, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.node.Split(t.Context(), table, 0, ""); err != nil {
		t.Fatal(err)
	}
	if n := w.records(t); n != batches {
		t.Fatalf("%d records after a split", n)
	}
	after := New(Config{Engine: w.Engine, Decode: decode, Retry: time.Millisecond})
	defer after.Close()
	after.Start()
	eventually(t, "batches are not finished", func() bool { return w.records(t) == 0 })
}
