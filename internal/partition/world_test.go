package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/replication"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// world is one partition with its store, on a disk in memory.
type world struct {
	tb         testing.TB
	disk       *storagetest.Disk
	pool       *storage.Pool
	store      *storage.Store
	group      replication.Group
	partition  atomic.Pointer[Partition]
	container  atomic.Pointer[resource.Container]
	own        resource.Partition
	limits     resource.Limits
	clock      atomic.Int64 // seconds
	cacheBytes int64
	// memTableBytes is the size of a write buffer; zero: 256 KB.
	memTableBytes uint64
	now           func() // called at every reading of the clock; may be nil

	conditionTime time.Duration // zero: the default
	clocks        func(*Config) // sets further ones; nil: none
}

// ampleTime is the time for the conditions of patches in a world: a slow machine may
// need much more than the default.
const ampleTime = time.Hour

// Apply is the state machine of the world's group.
func (w *world) Apply(_ replication.PartitionRef, effects []replication.Effect) ([]error, error) {
	return w.partition.Load().Apply(effects)
}

const storeDir = "partition"

// containerWith returns a container with these key paths and indexing policy. A
// policy that has a member indexingPolicy holds further members of the container.
func containerWith(tb testing.TB, version int, paths []string, policy string) *resource.Container {
	tb.Helper()
	kind := "Hash"
	if len(paths) > 1 {
		kind = "MultiHash"
	}
	if policy == "" {
		policy = "null"
	}
	members := `"indexingPolicy":` + policy + "}"
	if strings.HasPrefix(policy, `{"indexingPolicy"`) {
		members = policy[1:]
	}
	text := fmt.Sprintf(`{"id":"c","partitionKey":{"paths":["%s"],"kind":"%s","version":%d},%s`, strings.Join(paths, `","`), kind, version, members)
	body, err := value.Parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	c, err := resource.ParseContainer(body)
	if err != nil {
		tb.Fatal(err)
	}
	c.RID = resource.ContainerRID(resource.DatabaseRID(1), 1)
	return &c
}

// newWorld makes a fresh partition over the whole key space.
func newWorld(tb testing.TB, container *resource.Container) *world {
	tb.Helper()
	return newWorldOf(tb, container, resource.Partition{ID: 7, Range: partitionkey.Full(), Generation: 3, Ordinal: 2})
}

func newWorldOf(tb testing.TB, container *resource.Container, own resource.Partition) *world {
	tb.Helper()
	w := &world{tb: tb, disk: storagetest.NewCrashable(), own: own, limits: resource.DefaultLimits(), conditionTime: ampleTime}
	w.container.Store(container)
	w.clock.Store(1_700_000_000)
	if err := w.create(); err != nil {
		tb.Fatal(err)
	}
	if err := w.open(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := w.close(); err != nil && w.disk != nil {
			tb.Logf("close: %v", err)
		}
	})
	return w
}

func (w *world) config() Config {
	c := Config{
		Store:     w.store,
		Group:     w.group,
		Ref:       replication.PartitionRef{Container: w.container.Load().RID, Partition: w.own.ID},
		Container: w.container.Load,
		Limits:    w.limits,
		Now: func() time.Time {
			if w.now != nil {
				w.now()
			}
			return time.Unix(w.clock.Load(), 0)
		},
		ConditionTime: w.conditionTime,
	}
	if w.clocks != nil {
		w.clocks(&c)
	}
	return c
}

func (w *world) newPool() (err error) {
	w.pool, err = storage.NewPool(storage.Options{FS: w.disk.FS(), CacheBytes: max(1<<20, w.cacheBytes), MemTableBytes: cmp.Or(w.memTableBytes, 256<<10)})
	return err
}

func (w *world) create() error {
	if err := w.newPool(); err != nil {
		return err
	}
	var err error
	if w.store, err = w.pool.Create(storeDir); err == nil {
		err = Initialize(w.config(), w.own)
		err = errors.Join(err, w.store.Close())
		w.store = nil
	}
	return errors.Join(err, w.pool.Close())
}

// open opens the partition on the disk.
func (w *world) open() error {
	return w.openWith(func(sm replication.StateMachine) replication.Group { return replication.NewSolo(sm) })
}

func (w *world) openWith(newGroup func(replication.StateMachine) replication.Group) error {
	if err := w.newPool(); err != nil {
		return err
	}
	store, err := w.pool.Open(storeDir)
	if err != nil {
		return errors.Join(err, w.pool.Close())
	}
	w.store = store
	w.group = newGroup(w)
	p, err := Open(w.config())
	if err != nil {
		return errors.Join(err, w.close())
	}
	w.partition.Store(p)
	return nil
}

// close closes everything but the disk.
func (w *world) close() error {
	var err error
	if p := w.partition.Swap(nil); p != nil {
		// Close waits for proposed effects, for which Apply still needs it.
		w.partition.Store(p)
		err = p.Close()
		w.partition.Store(nil)
	}
	if w.group != nil {
		err = errors.Join(err, w.group.Close())
		w.group = nil
	}
	if w.store != nil {
		err = errors.Join(err, w.store.Close())
		w.store = nil
	}
	if w.pool != nil {
		err = errors.Join(err, w.pool.Close())
		w.pool = nil
	}
	return err
}

// crash opens the disk again as a power failure may leave it.
func (w *world) crash(kept float64, seed uint64) error {
	after := w.disk.Crash(kept, seed)
	if err := w.close(); err != nil {
		w.tb.Logf("close before crash: %v", err)
	}
	w.disk = after
	return w.open()
}

func (w *world) parse(text string) value.Value {
	w.tb.Helper()
	v, err := value.Parse([]byte(text))
	if err != nil {
		w.tb.Fatalf("%s: %v", text, err)
	}
	return v
}

// write fills in the fields that the engine sets.
func (w *world) write(op Op, doc value.Value, edit func(*Write)) (Written, error) {
	return w.writeContext(context.Background(), op, doc, edit)
}

func (w *world) writeContext(ctx context.Context, op Op, doc value.Value, edit func(*Write)) (Written, error) {
	c := w.container.Load()
	request := Write{Op: op, Generation: w.own.Generation, Document: doc, Key: c.KeyOf(doc)}
	if edit != nil {
		edit(&request)
	}
	request.EPK = c.PartitionKey.Hash(request.Key)
	return w.partition.Load().Write(ctx, request)
}

// purge fills in the fields that the engine sets.
func (w *world) purge(key partitionkey.Key, meter *throughput.Meter) (Purged, error) {
	r, err := w.container.Load().PartitionKey.Prefix(key)
	if err != nil {
		w.tb.Fatal(err)
	}
	return w.partition.Load().Purge(context.Background(), Purge{Generation: w.own.Generation, Key: key, Range: r, Meter: meter})
}

func (w *world) read(key partitionkey.Key, id string, edit func(*Read)) (Found, error) {
	c := w.container.Load()
	request := Read{Generation: w.own.Generation, Key: key, EPK: c.PartitionKey.Hash(key), ID: id}
	if edit != nil {
		edit(&request)
	}
	return w.partition.Load().Read(context.Background(), request)
}

// rows runs a query to its end, in pages of pageItems, over a range: each page
// with a merge of its own, as requests do.
func (w *world) rows(text string, r partitionkey.Range, pageItems int, meter *throughput.Meter) (rows []string, pages int, err error) {
	p := w.partition.Load()
	now, err := p.acquire()
	if err != nil {
		return nil, 0, err
	}
	active := now.Indexing.Active.Index
	p.release(now)
	plan, err := query.Compile(text, nil, active, query.Options{Computed: w.container.Load().Indexing.Computed})
	if err != nil {
		return nil, 0, err
	}
	return w.planned(plan, r, pageItems, meter)
}

// planned is rows for a plan.
func (w *world) planned(plan *query.Plan, r partitionkey.Range, pageItems int, meter *throughput.Meter) (rows []string, pages int, err error) {
	p := w.partition.Load()
	stream := func(ctx context.Context, b query.Budget) (query.Page, error) {
		page, _, err := p.Query(ctx, Query{Plan: plan, Generation: w.own.Generation, Range: r, Budget: b, Meter: meter})
		return page, err
	}
	var from query.Progress
	for {
		page, next, err := plan.Merge([]query.Stream{stream}, from).Page(context.Background(), query.Budget{MaxItems: pageItems})
		if err != nil {
			return nil, pages, err
		}
		pages++
		for _, row := range page.Rows {
			rows = append(rows, string(row.JSON))
		}
		if !page.More {
			return rows, pages, nil
		}
		from = next
	}
}

// statusText is an error as stories show it.
func statusText(err error) string {
	if e := status.From(err); e != nil {
		text := fmt.Sprintf("%d", e.Code)
		if e.Sub != 0 {
			text += fmt.Sprintf("/%d", e.Sub)
		}
		return text + " " + e.Message
	}
	return "error: " + err.Error()
}
