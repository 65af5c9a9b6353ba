package scan_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// world is a partition that writes, on a disk in memory, and a reader of its own over
// the same store, which follows the effects.
type world struct {
	tb        testing.TB
	disk      *storagetest.Disk
	pool      *storage.Pool
	store     *storage.Store
	group     replication.Group
	partition *partition.Partition
	reader    *scan.Reader
	rosters   *scan.Rosters
	container *resource.Container
	own       resource.Partition
	active    *index.Index

	cacheBytes    int64
	memTableBytes uint64
	effects       func(replication.Effect) // called for each effect; may be nil

	mu      sync.Mutex
	current *scan.Snapshot // nil after a write
}

// newWorld returns a partition of a container with this key path and indexing policy.
func newWorld(tb testing.TB, path, policy string) *world {
	tb.Helper()
	body, err := value.ParseString(fmt.Sprintf(`{"id":"c","partitionKey":{"paths":[%q],"kind":"Hash","version":2},"indexingPolicy":%s}`, path, cmp.Or(policy, "null")))
	if err != nil {
		tb.Fatal(err)
	}
	container, err := resource.ParseContainer(body)
	if err != nil {
		tb.Fatal(err)
	}
	container.RID = resource.ContainerRID(resource.DatabaseRID(1), 1)
	w := &world{
		tb: tb, disk: storagetest.NewCrashable(), container: &container, rosters: scan.NewRosters(scan.RostersBytes),
		own: resource.Partition{ID: 7, Range: partitionkey.Full(), Generation: 3, Ordinal: 2},
	}
	if w.active, err = index.Compile(container.Indexing); err != nil {
		tb.Fatal(err)
	}
	if w.pool, err = w.newPool(); err == nil {
		w.store, err = w.pool.Create("partition")
	}
	if err == nil {
		err = partition.Initialize(w.config(), w.own)
	}
	if err = errors.Join(err, w.store.Close(), w.pool.Close(), w.open()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := w.close(); err != nil {
			tb.Error(err)
		}
	})
	return w
}

func (w *world) newPool() (*storage.Pool, error) {
	return storage.NewPool(storage.Options{FS: w.disk.FS(), CacheBytes: max(1<<20, w.cacheBytes), MemTableBytes: cmp.Or(w.memTableBytes, 256<<10)})
}

func (w *world) config() partition.Config {
	return partition.Config{
		Store: w.store, Group: w.group, Container: func() *resource.Container { return w.container },
		Ref: replication.PartitionRef{Container: w.container.RID, Partition: w.own.ID},
	}
}

func (w *world) open() (err error) {
	if w.pool, err = w.newPool(); err != nil {
		return err
	}
	if w.store, err = w.pool.Open("partition"); err != nil {
		return err
	}
	w.group = replication.NewSolo(w)
	if w.partition, err = partition.Open(w.config()); err != nil {
		return err
	}
	rows := w.store.Snapshot()
	d, _, err := scan.ReadSnapshot(rows)
	config := w.config()
	w.reader = scan.NewReader(scan.Config{Name: "world", Own: layout.NewIdentity(d), Container: config.Container, Certain: time.Now, Rosters: w.rosters})
	return errors.Join(err, rows.Close())
}

func (w *world) close() error {
	w.mu.Lock()
	err := w.dropLocked()
	w.mu.Unlock()
	err = errors.Join(err, w.partition.Close(), w.group.Close(), w.store.Close(), w.pool.Close())
	w.reader.Close()
	return err
}

// reopen opens the store again, with an empty write buffer and a cache of that many
// bytes.
func (w *world) reopen(cache int64) {
	err := errors.Join(w.store.Flush(), w.close())
	w.cacheBytes = cache
	if err = errors.Join(err, w.open()); err != nil {
		w.tb.Fatal(err)
	}
}

// Apply is the state machine of the group: the reader sees the effects before the
// partition applies them, as Reader.Note requires.
func (w *world) Apply(_ replication.PartitionRef, effects []replication.Effect) ([]error, error) {
	for _, e := range effects {
		var moves scan.Moves
		if err := storage.ReadRows(e.Rows, moves.See); err != nil {
			return nil, err
		}
		w.reader.Note(e.LSN, &moves)
		if w.effects != nil {
			w.effects(e)
		}
	}
	return w.partition.Apply(effects)
}

// dropLocked closes the current snapshot. mu is held.
func (w *world) dropLocked() error {
	now := w.current
	if w.current = nil; now == nil {
		return nil
	}
	return now.Rows.Close()
}

// now returns the current snapshot, which is open until the next write.
func (w *world) now() *scan.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current == nil {
		_, now, err := scan.ReadSnapshot(w.store.Snapshot())
		if err != nil {
			w.tb.Fatal(err)
		}
		w.current = &now
	}
	return w.current
}

// keep returns the current snapshot, which is open until the end of the test.
func (w *world) keep() *scan.Snapshot {
	now := w.now()
	w.mu.Lock()
	w.current = nil
	w.mu.Unlock()
	w.tb.Cleanup(func() {
		if err := now.Rows.Close(); err != nil {
			w.tb.Error(err)
		}
	})
	return now
}

func (w *world) source(r partitionkey.Range) *scan.Source {
	return w.reader.Source(w.now(), r, r)
}

func (w *world) parse(text string) value.Value {
	w.tb.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		w.tb.Fatalf("%s: %v", text, err)
	}
	return v
}

// write fills in the fields that the engine sets. An empty id is that of the document.
func (w *world) write(op partition.Op, id, text string) {
	w.tb.Helper()
	doc := w.parse(text)
	key := w.container.KeyOf(doc)
	_, err := w.partition.Write(context.Background(), partition.Write{
		Op: op, ID: id, Generation: w.own.Generation, Document: doc, Key: key, EPK: w.container.PartitionKey.Hash(key),
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err = errors.Join(err, w.dropLocked()); err != nil {
		w.tb.Error(err)
	}
}

// keyRange returns the range of a key of one text.
func (w *world) keyRange(name string) partitionkey.Range {
	w.tb.Helper()
	r, err := w.container.PartitionKey.Prefix(partitionkey.NewKey(partitionkey.String(name)))
	if err != nil {
		w.tb.Fatal(err)
	}
	return r
}

func (w *world) planOf(text string) *query.Plan {
	w.tb.Helper()
	plan, err := query.Compile(text, nil, w.active, query.Options{})
	if err != nil {
		w.tb.Fatal(err)
	}
	return plan
}

// query runs a plan for one page, as partition.Query does.
func (w *world) query(ctx context.Context, plan *query.Plan, r partitionkey.Range, b query.Budget, meter *throughput.Meter) (query.Page, error) {
	s := w.source(r)
	defer s.Free()
	page, err := plan.Run(ctx, s.Face(), b)
	meter.Add(throughput.Query(s.Charged(page, b.Started)))
	return page, err
}

// rows runs a query to its end, in pages within a budget.
func (w *world) rows(text string, r partitionkey.Range, b query.Budget, meter *throughput.Meter) (rows []string) {
	w.tb.Helper()
	plan := w.planOf(text)
	stream := func(ctx context.Context, b query.Budget) (query.Page, error) { return w.query(ctx, plan, r, b, meter) }
	var from query.Progress
	for {
		page, next, err := plan.Merge([]query.Stream{stream}, from).Page(context.Background(), b)
		if err != nil {
			w.tb.Fatal(err)
		}
		for _, row := range page.Rows {
			rows = append(rows, string(row.JSON))
		}
		if !page.More {
			return rows
		}
		from = next
	}
}
