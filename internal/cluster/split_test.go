package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage/storagetest"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// keyKinds are the partition key definitions of the tests.
var keyKinds = map[string]string{
	"v1":    `{"paths":["/a"],"version":1}`,
	"v2":    `{"paths":["/a"],"version":2}`,
	"two":   `{"paths":["/a","/b"],"kind":"MultiHash"}`,
	"three": `{"paths":["/a","/b","/c"],"kind":"MultiHash"}`,
}

// everyKind returns keyKinds, and with the race detector only the first and the last.
func everyKind() map[string]string {
	if raceDetector {
		return map[string]string{"v1": keyKinds["v1"], "three": keyKinds["three"]}
	}
	return keyKinds
}

// createWith creates a container of n partitions with further members in its definition.
func (w *world) createWith(name, key, members string, n int) (*catalog.Container, error) {
	c, err := w.prepare(name)
	if err != nil {
		return nil, err
	}
	body, err := value.ParseString(fmt.Sprintf(`{"id":%q,"partitionKey":%s%s}`, name, key, members))
	if err != nil {
		return nil, err
	}
	rid := c.RID
	if c, err = resource.ParseContainer(body); err != nil {
		return nil, err
	}
	c.RID = rid
	partitions := tile(c.PartitionKey, n)
	if err := w.node.CreatePartitions(context.Background(), c, partitions); err != nil {
		return nil, err
	}
	view, err := w.catalog.Commit(context.Background(), catalog.CreateContainer{Container: c, Partitions: partitions, Throughput: w.offer})
	if err != nil {
		return nil, err
	}
	created, _ := view.Container("d", name)
	return created, nil
}

// client finds partitions in the newest view and retries when they have moved, as the
// engine does.
type client struct {
	w   *world
	rid resource.RID
}

func (c client) container() *catalog.Container {
	found, _ := c.w.catalog.View().ContainerByRID(c.rid)
	return found
}

// at calls use with the replica of the partition that owns an EPK.
func (c client) at(epk partitionkey.EPK, use func(r replica, p resource.Partition) error) error {
	var err error
	for range 1000 {
		container := c.container()
		p := container.Ranges.Locate(epk).Value
		if err = c.on(container, p, use); status.CodeOf(err) != status.CodeGone {
			return err
		}
	}
	return err
}

// replica calls use with a replica as the engine gets it.
type replica interface {
	Write(ctx context.Context, w partition.Write) (partition.Written, error)
	Read(ctx context.Context, r partition.Read) (partition.Found, error)
	Query(ctx context.Context, q partition.Query) (query.Page, resource.LSN, error)
}

func (c client) on(container *catalog.Container, p resource.Partition, use func(r replica, p resource.Partition) error) error {
	replica, release, err := c.w.node.Replica(context.Background(), container, p.ID)
	if err != nil {
		return err
	}
	defer release()
	return use(replica, p)
}

func (c client) write(op partition.Op, doc value.Value, id string) (partition.Written, error) {
	key := c.container().KeyOf(doc)
	epk := c.container().PartitionKey.Hash(key)
	var written partition.Written
	err := c.at(epk, func(r replica, p resource.Partition) (err error) {
		request := partition.Write{Op: op, Generation: p.Generation, Key: key, EPK: epk, ID: id}
		if op != partition.Delete {
			request.Document = doc
		}
		written, err = r.Write(context.Background(), request)
		return err
	})
	return written, err
}

// read returns a document, or nil if it does not exist.
func (c client) read(doc value.Value) (body []byte, lsn resource.LSN, err error) {
	key := c.container().KeyOf(doc)
	epk := c.container().PartitionKey.Hash(key)
	err = c.at(epk, func(r replica, p resource.Partition) error {
		found, err := r.Read(context.Background(), partition.Read{Generation: p.Generation, Key: key, EPK: epk, ID: doc.Get("id").Text()})
		body, lsn = found.Body, found.LSN
		if status.CodeOf(err) == status.CodeNotFound {
			return nil
		}
		return err
	})
	return body, lsn, err
}

// query runs a query over a range, in pages, and starts again if a partition has moved.
func (c client) query(text string, r partitionkey.Range) (rows []string, err error) {
	for range 1000 {
		if rows, err = c.queryOnce(text, r); status.CodeOf(err) != status.CodeGone {
			return rows, err
		}
	}
	return nil, err
}

func (c client) queryOnce(text string, r partitionkey.Range) (rows []string, err error) {
	container := c.container()
	x, err := index.Compile(container.Indexing)
	if err != nil {
		return nil, err
	}
	plan, err := query.Compile(text, nil, x, query.Options{})
	if err != nil {
		return nil, err
	}
	var streams []query.Stream
	for _, entry := range container.Ranges.Overlapping(r) {
		streams = append(streams, func(ctx context.Context, b query.Budget) (page query.Page, err error) {
			err = c.on(container, entry.Value, func(on replica, p resource.Partition) error {
				page, _, err = on.Query(ctx, partition.Query{Plan: plan, Generation: p.Generation, Range: r, Budget: b})
				return err
			})
			return page, err
		})
	}
	var from query.Progress
	for {
		page, next, err := plan.Merge(streams, from).Page(context.Background(), query.Budget{MaxItems: 100})
		if err != nil {
			return nil, err
		}
		for _, row := range page.Rows {
			rows = append(rows, string(row.JSON))
		}
		if !page.More {
			return rows, nil
		}
		from = next
	}
}

// item returns document number i of the tests: few tenants, some users, many items.
func item(i, version int) value.Value {
	doc := fmt.Sprintf(`{"id":"%d","a":"tenant%d","b":%d,"c":null,"n":%d,"v":%d,"tags":["every",%d]`, i, i%7, i%13, i%10, version, i%3)
	if i%5 > 0 {
		doc += fmt.Sprintf(`,"odd":"%s"`, strings.Repeat("x", i%50))
	}
	v, err := value.ParseString(doc + "}")
	if err != nil {
		panic(err)
	}
	return v
}

// verify compares the container with a model: each document exists once, and counts
// from the index, prefixes and order are correct.
func (c client) verify(m map[int]int) error {
	var errs []error
	ask := func(text string, r partitionkey.Range, want []string, ordered bool) {
		rows, err := c.query(text, r)
		if !ordered {
			slices.Sort(rows)
			slices.Sort(want)
		}
		if err != nil || !slices.Equal(rows, want) {
			errs = append(errs, fmt.Errorf("%s in %v: %d rows, want %d; %v\ngot  %.300q\nwant %.300q", text, r, len(rows), len(want), fmt.Sprint(err), rows, want))
		}
	}
	all := map[string][]string{}
	counts := map[string]int{}
	for i, version := range m {
		doc := item(i, version)
		row := fmt.Sprintf(`{"id":"%d","v":%d}`, i, version)
		for _, name := range []string{"", doc.Get("a").Text(), fmt.Sprint("n", i%10)} {
			all[name] = append(all[name], row)
			counts[name]++
		}
		if i%5 > 0 {
			counts["odd"]++
		}
	}
	full := partitionkey.Full()
	ask("SELECT c.id, c.v FROM c", full, all[""], false)
	ask("SELECT VALUE COUNT(1) FROM c", full, []string{fmt.Sprint(counts[""])}, true)
	ask("SELECT VALUE COUNT(1) FROM c WHERE IS_DEFINED(c.odd)", full, []string{fmt.Sprint(counts["odd"])}, true)
	ask("SELECT c.id, c.v FROM c WHERE c.n = 3", full, all["n3"], false)
	definition := c.container().PartitionKey
	for t := range 7 {
		tenant := fmt.Sprint("tenant", t)
		r, err := definition.Prefix(partitionkey.NewKey(partitionkey.String(tenant)))
		if err != nil {
			return err
		}
		ask("SELECT c.id, c.v FROM c", r, all[tenant], false)
		ask("SELECT VALUE COUNT(1) FROM c", r, []string{fmt.Sprint(counts[tenant])}, true)
	}
	rows, err := c.query("SELECT VALUE c.n FROM c ORDER BY c.n", full)
	if err != nil || len(rows) != len(m) || !slices.IsSorted(rows) {
		errs = append(errs, fmt.Errorf("order: %d rows, want %d: %v", len(rows), len(m), fmt.Sprint(err)))
	}
	return errors.Join(errs...)
}

// clean verifies the stores on a disk that no node uses.
func clean(t testing.TB, disk *storagetest.Disk, partitions int) {
	t.Helper()
	report := check(t, disk)
	if !report.Clean() {
		t.Errorf("problems: %q", report.Problems)
	}
	for _, p := range report.Partitions {
		if !p.Clean() {
			t.Errorf("partition %s: %q", p.Partition, p.Problems)
		}
	}
	if len(report.Partitions) != partitions || len(report.Leftovers) > 0 || len(report.Unnamed) > 0 || len(report.Quarantine) > 0 {
		t.Errorf("%d partitions, leftovers %q, unnamed %q and quarantine %+v, want %d", len(report.Partitions), report.Leftovers, report.Unnamed, report.Quarantine, partitions)
	}
}

// TestSplitQuiet splits a partition into two, and these again: documents, counts, prefixes
// that span partitions, and positions do not change (S37-S40).
func TestSplitQuiet(t *testing.T) {
	t.Parallel()
	for name, key := range everyKind() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := storagetest.NewCrashable()
			w, err := open(disk, 0)
			if err != nil {
				t.Fatal(err)
			}
			created, err := w.createWith("c", key, "", 1)
			if err != nil {
				t.Fatal(err)
			}
			c := client{w, created.RID}
			m := map[int]int{}
			for i := range 400 {
				if _, err := c.write(partition.Upsert, item(i, 0), ""); err != nil {
					t.Fatal(err)
				}
				m[i] = 0
			}
			r := rand.New(rand.NewPCG(1, 2))
			for parts := 1; parts < 5; parts++ {
				if err := c.verify(m); err != nil {
					t.Fatalf("%d partitions: %v", parts, err)
				}
				parent := c.container().Ranges.At(r.IntN(parts)).Value
				if parts == 1 {
					parent = c.container().Ranges.At(0).Value
				}
				result, err := w.node.Split(t.Context(), c.rid, parent.ID, "")
				if errors.Is(err, partition.ErrIndivisible) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, child := range result.Children {
					if !slices.Contains(child.Parents, parent.ID) || len(child.Parents) != len(parent.Parents)+1 || child.Generation != parent.Generation+1 {
						t.Errorf("child %+v of %+v", child, parent)
					}
				}
				for i := range 50 {
					if _, err := c.write(partition.Upsert, item(i, parts), ""); err != nil {
						t.Fatal(err)
					}
					m[i] = parts
				}
			}
			if err := c.verify(m); err != nil {
				t.Fatal(err)
			}
			n := c.container().Ranges.Len()
			if n < 3 {
				t.Errorf("%d partitions", n)
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			clean(t, disk, n)
		})
	}
}

// seed returns a new seed for each run; a failure prints it.
func seed(t testing.TB) (uint64, *rand.Rand) {
	s := rand.Uint64()
	t.Logf("seed %d", s)
	return s, rand.New(rand.NewPCG(s, 0))
}

// TestSplitModel splits a partition continuously while it is written, read and queried:
// each acknowledged write exists once, queries always return what is certainly stored
// at that moment, and every store is clean (S37, S38).
func TestSplitModel(t *testing.T) {
	t.Parallel()
	for name, key := range everyKind() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testModel(t, key, 1, modelSplitter)
		})
	}
}

const (
	modelItems  = 600
	modelStatic = 10 // the first of every ten documents never changes
	modelSplits = 5
)

// modelSplitter splits partitions at medians, at the middle of their ranges and at random
// points.
func modelSplitter(t *testing.T, c client, random *rand.Rand) (splits int) {
	for range 4 * modelSplits {
		container := c.container()
		p := container.Ranges.At(random.IntN(container.Ranges.Len())).Value
		var at partitionkey.EPK
		switch random.IntN(3) {
		case 0:
			at = container.PartitionKey.Middle(p.Range)
		case 1:
			at = container.PartitionKey.Hash(container.KeyOf(item(random.IntN(modelItems), 0)))
		}
		_, err := c.w.node.Split(t.Context(), c.rid, p.ID, at)
		switch code := status.CodeOf(err); {
		case err == nil:
			splits++
		case code != status.CodeBadRequest:
			t.Errorf("split %s at %s: %v", p.ID, at, err)
		}
		if splits == modelSplits {
			break
		}
	}
	return splits
}

// modelWriter writes its share of the documents until stop, and records in m which exist.
func modelWriter(c client, m map[int]int, g, writers int, start uint64, stop chan struct{}) error {
	r := rand.New(rand.NewPCG(start, uint64(g+1)))
	for version := 1; ; version++ {
		select {
		case <-stop:
			return nil
		default:
		}
		i := r.IntN(modelItems/writers)*writers + g
		if i%modelStatic == 0 {
			continue
		}
		_, there := m[i]
		op := [...]partition.Op{partition.Upsert, partition.Upsert, partition.Create, partition.Delete, partition.Replace}[r.IntN(5)]
		_, err := c.write(op, item(i, version), fmt.Sprint(i))
		want := status.Code(0)
		switch {
		case op == partition.Create && there:
			want = status.CodeConflict
		case (op == partition.Delete || op == partition.Replace) && !there:
			want = status.CodeNotFound
		case op == partition.Delete:
			delete(m, i)
		default:
			m[i] = version
		}
		if status.CodeOf(err) != want {
			return fmt.Errorf("%s of %d, which exists: %v: %w", op, i, there, err)
		}
		body, _, err := c.read(item(i, 0))
		if err != nil {
			return err
		}
		if version, there := m[i]; there != (body != nil) || there && !strings.Contains(string(body), fmt.Sprintf(`"v":%d,`, version)) {
			return fmt.Errorf("%d is %s, want version %d, %v", i, body, version, there)
		}
	}
}

// modelReader reads the documents that never change, until stop.
func modelReader(c client, static map[int]int, stop chan struct{}) error {
	var want []string
	for i := range static {
		want = append(want, fmt.Sprintf(`%d`, i))
	}
	slices.Sort(want)
	const text = `SELECT VALUE c.id FROM c WHERE c.n = 0 ORDER BY c.n`
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		rows, err := c.query(text, partitionkey.Full())
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i] = strings.Trim(rows[i], `"`)
		}
		slices.Sort(rows)
		if !slices.Equal(rows, want) {
			return fmt.Errorf("%d rows %q, want %d", len(rows), rows, len(want))
		}
		count, err := c.query(`SELECT VALUE COUNT(1) FROM c WHERE c.n = 0`, partitionkey.Full())
		if err != nil || len(count) != 1 || count[0] != fmt.Sprint(len(want)) {
			return fmt.Errorf("counted %q, want %d: %w", count, len(want), err)
		}
	}
}

// delayed returns a world whose splits wait after their plan.
func delayed(t *testing.T, files vfs.FS, delay time.Duration) *world {
	t.Helper()
	w, err := openOn(files, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.restart(t, func(c *cluster.Config) { c.SplitDelay = delay })
	return w
}

// TestSplitWaits delays a split, as the service does for hours: the partition serves, its
// plan is visible, and it cannot be split by another change. Dropping the container or
// stopping the server ends the split, and a start drops its plan.
func TestSplitWaits(t *testing.T) {
	t.Parallel()
	testWaits(t, splitOne, 1, func(c client, registers []*register) {
		plan, ok := c.container().Split(0)
		if !ok || plan.Children[0].ID != 1 || plan.Children[1].ID != 2 || plan.Children[0].Range.Max != plan.At || c.container().NextPartition != 3 {
			t.Errorf("plan %+v, next %s", plan, c.container().NextPartition)
		}
		if err := registers[0].step(c); err != nil {
			t.Error(err)
		}
		if _, err := c.w.node.Split(t.Context(), c.rid, 0, ""); status.CodeOf(err) != status.CodeConflict {
			t.Errorf("a second split: %v, want 409", err)
		}
	})
}

// TestSplitAndDrop drops the container at any moment of a split, and nothing is left.
func TestSplitAndDrop(t *testing.T) {
	t.Parallel()
	testAndDrop(t, splitOne)
}

// TestSplitInDoubt leaves it unknown whether the switch is stored: writes to the range
// are refused and reads are served until a start determines the outcome.
func TestSplitInDoubt(t *testing.T) {
	t.Parallel()
	testInDoubt(t, splitOne)
}

// TestSplitHasWritesWait sends requests to the parent while the switch is being stored:
// they wait for it, and then get 410/1002.
func TestSplitHasWritesWait(t *testing.T) {
	t.Parallel()
	testNamed(t, splitOne)
}

// TestSplitWhileHeld keeps a holder of the parent during a split: the holder can still
// read, and the directory is removed when it leaves.
func TestSplitWhileHeld(t *testing.T) {
	t.Parallel()
	w, disk := start(t, 0)
	c, _ := small(t, w, keyKinds["v2"], 20)
	replica, release, err := w.node.Replica(t.Context(), c.container(), 0)
	if err != nil {
		t.Fatal(err)
	}
	before := c.container()
	result, err := w.node.Split(t.Context(), c.rid, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	if replica.Stats().Failure != nil {
		t.Error("the parent failed")
	}
	dir := fmt.Sprintf("data/p/%x/0", string(c.rid))
	if _, err := disk.FS().Stat(dir); err != nil {
		t.Errorf("the directory of a parent that is held: %v", err)
	}
	release()
	awaitGone(t, disk.FS(), dir)
	if _, _, err := w.node.Replica(t.Context(), before, 0); status.CodeOf(err) != status.CodeGone || status.SubOf(err) != status.SubRangeGone {
		t.Errorf("the parent by an old view: %v, want 410/1002", err)
	}
	if _, err := w.node.Split(t.Context(), c.rid, 0, ""); status.CodeOf(err) != status.CodeNotFound {
		t.Errorf("the parent is split again: %v, want 404", err)
	}
	for _, child := range result.Children {
		if lsn, open := w.node.LSN(c.container(), child.ID); !open || lsn != 21 {
			t.Errorf("child %s: LSN %d, open %v, want 21", child.ID, lsn, open)
		}
	}
}

const hang = time.Minute // longer than anything takes

// awaitGone waits until a directory is removed, which happens in the background.
func awaitGone(t testing.TB, files vfs.FS, dir string) {
	t.Helper()
	for end := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
		_, err := files.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s still exists: %v", dir, err)
		}
	}
}

// TestLastReaderDoesNotWait shows that the last holder of a partition that was split or
// dropped neither closes it nor deletes its files, which would delay its request. Nothing
// is flushed before it is deleted, and closing the node waits for the deletion.
func TestLastReaderDoesNotWait(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(w *world, c client) error{
		"split": func(w *world, c client) error {
			_, err := w.node.Split(context.Background(), c.rid, 0, "")
			return err
		},
		"drop": func(w *world, c client) error {
			_, err := w.catalog.Commit(context.Background(), catalog.DeleteContainer{RID: c.rid})
			w.node.DropContainer(c.rid)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := storagetest.NewCrashable()
			files := &droppedFS{FS: disk.FS(), begun: make(chan struct{}), left: make(chan struct{})}
			w, err := openOn(files, 0)
			if err != nil {
				t.Fatal(err)
			}
			c, _ := small(t, w, keyKinds["v2"], 20)
			_, release, err := w.node.Replica(t.Context(), c.container(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := act(w, c); err != nil {
				t.Fatal(err)
			}
			dir := fmt.Sprintf("data/p/%x/0", string(c.rid))
			files.dir.Store(&dir)
			release()
			<-files.begun
			close(files.left)
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			if _, err := disk.FS().Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory after Close: %v", err)
			}
			if files.waited.Load() {
				t.Error("the last reader waits until the directory is deleted")
			}
			if n := files.tables.Load(); n > 0 {
				t.Errorf("%d tables were written to be deleted", n)
			}
		})
	}
}

// droppedFS observes the deletion of a directory. The deletion waits until left is
// closed, and then takes long.
type droppedFS struct {
	vfs.FS
	dir    atomic.Pointer[string] // nil until the test sets it
	begun  chan struct{}          // closed when the directory is about to be deleted
	left   chan struct{}
	waited atomic.Bool  // until the time was over
	tables atomic.Int64 // created in the directory
}

func (d *droppedFS) RemoveAll(name string) error {
	if dir := d.dir.Load(); dir != nil && *dir == name {
		close(d.begun)
		select {
		case <-d.left:
		case <-time.After(hang):
			d.waited.Store(true)
		}
		time.Sleep(20 * time.Millisecond) // A node that does not wait is closed by then.
	}
	return d.FS.RemoveAll(name)
}

func (d *droppedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if dir := d.dir.Load(); dir != nil && strings.HasPrefix(name, *dir) && path.Ext(name) == ".sst" {
		d.tables.Add(1)
	}
	return d.FS.Create(name, category)
}

// TestSplitFeed continues from positions in the parent's change feed: each is valid in the
// feed of each child, which returns each later change once and nothing else.
func TestSplitFeed(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 0)
	c, registers := small(t, w, keyKinds["two"], 40)
	const seen = resource.LSN(26) // documents 0 to 24
	if _, err := w.node.Split(t.Context(), c.rid, 0, ""); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{3, 30} {
		if err := registers[i].step(c); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, p := range c.container().Partitions() {
		_, ids := c.changes(t, p, p.Range, seen, 0)
		got = append(got, ids...)
	}
	want := []string{"3"}
	for i := 25; i < 40; i++ {
		want = append(want, fmt.Sprint(i))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the feed after %d has %q, want %q", seen, got, want)
	}
}

// TestSplitMetrics counts splits, failed splits and their pauses.
func TestSplitMetrics(t *testing.T) {
	t.Parallel()
	testMetrics(t, splitOne, "split")
}
