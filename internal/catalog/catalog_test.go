package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// clock is a fixed time: time stamps are part of the expected text.
func clock() time.Time { return time.Unix(1700000000, 0) }

// world is a catalog on a store in memory that can be opened again.
type world struct {
	pool  *storage.Pool
	store *storage.Store
	*catalog.Catalog

	planned map[string]resource.RID // by the name of the container
}

func newWorld(t testing.TB) *world {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{pool: pool, planned: map[string]resource.RID{}}
	if w.store, err = pool.Create("catalog"); err != nil {
		t.Fatal(err)
	}
	w.open(t)
	t.Cleanup(func() {
		if err := errors.Join(w.store.Close(), pool.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) open(t testing.TB) {
	t.Helper()
	c, err := catalog.Open(w.store, clock)
	if err != nil {
		t.Fatal(err)
	}
	w.Catalog = c
}

func (w *world) reopen(t testing.TB) {
	t.Helper()
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	store, err := w.pool.Open("catalog")
	if err != nil {
		t.Fatal(err)
	}
	w.store = store
	w.open(t)
}

func parseContainer(t testing.TB, id string) resource.Container {
	t.Helper()
	body, err := value.ParseString(fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/a","/b"],"kind":"MultiHash"}}`, id))
	if err != nil {
		t.Fatal(err)
	}
	c, err := resource.ParseContainer(body)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tile(d partitionkey.Definition, n int) []resource.Partition {
	var all []resource.Partition
	for i, r := range d.Divide(n) {
		all = append(all, resource.Partition{ID: resource.PartitionID(i), Range: r, Group: 1, Generation: 1, Ordinal: uint32(i)})
	}
	return all
}

// TestStories runs the files of testdata. Commands change the catalog and answer
// "ok" or the status; "show" prints the newest view.
func TestStories(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Parallel()
		w := newWorld(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return w.run(t, d)
		})
	})
}

func (w *world) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "reopen":
		w.reopen(t)
		return "ok"
	case "show":
		return text(w.View())
	case "leftovers":
		return leftoversText(w.View())
	}
	change, err := w.change(t, d)
	if err == nil {
		_, err = w.Commit(context.Background(), change)
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// change builds the change that a command describes: the first arguments are
// names, followed by key=value pairs.
func (w *world) change(t *testing.T, d *datadriven.TestData) (catalog.Change, error) {
	var names []string
	for _, arg := range d.CmdArgs {
		if len(arg.Vals) == 0 {
			names = append(names, arg.Key)
		}
	}
	var expect string
	d.MaybeScanArgs(t, "expect", &expect)
	if expect != "" {
		expect = `"` + expect + `"`
	}
	throughput := func() *resource.Throughput {
		var n int
		if d.MaybeScanArgs(t, "throughput", &n); n == 0 {
			return nil
		}
		return &resource.Throughput{Manual: n}
	}
	database, found := w.View().Database(names[0])
	if !found {
		database.RID = resource.DatabaseRID(999)
	}
	var container *catalog.Container
	if len(names) > 1 {
		container, _ = w.View().Container(names[0], names[1])
	}
	switch d.Cmd {
	case "create-database":
		return catalog.CreateDatabase{Database: resource.Database{ID: names[0]}, Throughput: throughput()}, nil
	case "delete-database":
		return catalog.DeleteDatabase{RID: database.RID, Expect: resource.ETag(expect)}, nil
	case "create-container":
		c := parseContainer(t, names[1])
		var planned bool
		if c.RID, planned = w.planned[names[1]]; !planned {
			c.RID = w.ReserveContainer(database.RID)
		}
		n := 1
		d.MaybeScanArgs(t, "partitions", &n)
		partitions := tile(c.PartitionKey, n)
		switch {
		case d.HasArg("gap"):
			partitions = append(partitions[:1], partitions[2:]...)
		case d.HasArg("twice"):
			partitions[1].ID = 0
		}
		return catalog.CreateContainer{Container: c, Partitions: partitions, Throughput: throughput()}, nil
	case "replace-container":
		c := container.Container
		c.Indexing.Mode = resource.IndexingNone
		return catalog.ReplaceContainer{Container: c, Expect: resource.ETag(expect)}, nil
	case "delete-container":
		if container == nil {
			return catalog.DeleteContainer{RID: "missing"}, nil
		}
		return catalog.DeleteContainer{RID: container.RID, Expect: resource.ETag(expect)}, nil
	case "put-throughput":
		owner := database.RID
		if container != nil {
			owner = container.RID
		}
		changed := *throughput()
		changed.Owner = owner
		changed.Shares = w.shares(t, d, names[0])
		return catalog.PutThroughput{Throughput: changed, Expect: resource.ETag(expect)}, nil
	case "plan-split", "finish-split", "drop-split":
		return splitChange(t, d, container), nil
	case "plan-merge", "finish-merge", "drop-merge":
		return mergeChange(t, d, container), nil
	}
	return w.recovery(t, d, names, container)
}

// shares reads the manual shares of partitions, such as shares=(0:700,1:300). In
// a shared throughput the name of the container comes first: a/0:700.
func (w *world) shares(t *testing.T, d *datadriven.TestData, database string) (list []resource.Share) {
	for _, arg := range d.CmdArgs {
		if arg.Key != "shares" {
			continue
		}
		for _, val := range arg.Vals {
			var s resource.Share
			name, id, shared := strings.Cut(val, "/")
			if !shared {
				id = val
			} else if c, ok := w.View().Container(database, name); ok {
				s.Container = c.RID
			}
			if _, err := fmt.Sscanf(id, "%d:%d", &s.ID, &s.RUs); err != nil {
				t.Fatal(err)
			}
			list = append(list, s)
		}
	}
	return list
}

// splitChange builds a change of a split of the given partition, at the digits of
// an EPK.
func splitChange(t *testing.T, d *datadriven.TestData, container *catalog.Container) catalog.Change {
	rid := resource.RID("missing")
	if container != nil {
		rid = container.RID
	}
	var id uint64
	var digits string
	d.ScanArgs(t, "id", &id)
	d.MaybeScanArgs(t, "at", &digits)
	at, err := partitionkey.ParseEPK(digits)
	if err != nil {
		t.Fatal(err)
	}
	parent := resource.PartitionID(id)
	switch d.Cmd {
	case "plan-split":
		return catalog.PlanSplit{Container: rid, Parent: parent, At: at}
	case "finish-split":
		return catalog.FinishSplit{Container: rid, Parent: parent}
	}
	return catalog.DropSplit{Container: rid, Parent: parent}
}

// mergeChange builds a change of a merge of two partitions, where one partition
// can serve 10,000 RU/s.
func mergeChange(t *testing.T, d *datadriven.TestData, container *catalog.Container) catalog.Change {
	const most = 10_000
	rid := resource.RID("missing")
	if container != nil {
		rid = container.RID
	}
	var a, b uint64
	d.ScanArgs(t, "ids", &a, &b)
	parents := [2]resource.PartitionID{resource.PartitionID(a), resource.PartitionID(b)}
	switch d.Cmd {
	case "plan-merge":
		return catalog.PlanMerge{Container: rid, Parents: parents, PartitionRUs: most}
	case "finish-merge":
		return catalog.FinishMerge{Container: rid, Parents: parents, PartitionRUs: most}
	}
	return catalog.DropMerge{Container: rid, Parents: parents}
}

// text prints everything in a view.
func text(v *catalog.View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version %d\n", v.Version())
	for _, d := range v.Databases() {
		fmt.Fprintf(&b, "%s %s %s\n", d.ID, d.RID, d.ETag)
		for _, c := range v.Containers(d.RID) {
			fmt.Fprintf(&b, "  %s %s %s indexing=%s ranges=%d next=%d\n", c.ID, c.RID, c.ETag, c.Indexing.Mode, c.Version, c.NextPartition)
			for r, p := range c.Ranges.All() {
				fmt.Fprintf(&b, "    %s %v", p.ID, r)
				if len(p.Parents) > 0 {
					fmt.Fprintf(&b, " of %v, generation %d, ordinal %d", p.Parents, p.Generation, p.Ordinal)
				}
				b.WriteByte('\n')
			}
			for _, p := range c.Gone {
				fmt.Fprintf(&b, "    gone %s %v\n", p.ID, p.Range)
			}
			for _, s := range c.Splits {
				fmt.Fprintf(&b, "    split of %s at %s into %s and %s\n", s.Parent, s.At, s.Children[0].ID, s.Children[1].ID)
			}
			for _, m := range c.Merges {
				fmt.Fprintf(&b, "    merge of %s and %s into %s\n", m.Parents[0], m.Parents[1], m.Child.ID)
			}
		}
	}
	for _, t := range v.Offers() {
		fmt.Fprintf(&b, "offer %s of %s: %d RU/s %s", t.RID, t.Owner, t.Total(), t.ETag)
		for _, s := range t.Shares {
			fmt.Fprintf(&b, " %s=%d", s.Name(), s.RUs)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A commit does not change a view taken before it.
func TestViewsAreImmutable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	if _, err := w.Commit(ctx, catalog.CreateDatabase{Database: resource.Database{ID: "d"}}); err != nil {
		t.Fatal(err)
	}
	before := w.View()
	database, _ := before.Database("d")
	c := parseContainer(t, "c")
	c.RID = w.ReserveContainer(database.RID)
	after, err := w.Commit(ctx, catalog.CreateContainer{Container: c, Partitions: tile(c.PartitionKey, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if _, found := before.Container("d", "c"); found || len(before.Containers(database.RID)) != 0 || before.ContainerCount() != 0 {
		t.Error("the older view shows the container")
	}
	if _, found := after.Container("d", "c"); !found || after != w.View() || after.Version() != before.Version()+1 {
		t.Errorf("the newer view: found %v, version %d after %d", found, after.Version(), before.Version())
	}
	if _, err := w.Commit(ctx, catalog.DeleteDatabase{RID: database.RID}); err != nil {
		t.Fatal(err)
	}
	if _, found := after.Container("d", "c"); !found {
		t.Error("deleting changed an older view")
	}
}

// Reserved numbers that were never committed are not stored. Committed ones are
// never assigned again, in this process or after a restart.
func TestNumbersAreNotReused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := context.Background()
	seen := map[resource.RID]bool{}
	for round := range 6 {
		if _, err := w.Commit(ctx, catalog.CreateDatabase{Database: resource.Database{ID: "d"}}); err != nil {
			t.Fatal(err)
		}
		database, _ := w.View().Database("d")
		c := parseContainer(t, "c")
		c.RID = w.ReserveContainer(database.RID)
		if _, err := w.Commit(ctx, catalog.CreateContainer{Container: c, Partitions: tile(c.PartitionKey, 1)}); err != nil {
			t.Fatal(err)
		}
		if seen[database.RID] || seen[c.RID] {
			t.Fatalf("round %d: RID used twice", round)
		}
		seen[database.RID], seen[c.RID] = true, true
		if _, err := w.Commit(ctx, catalog.DeleteDatabase{RID: database.RID}); err != nil {
			t.Fatal(err)
		}
		if round%2 == 1 {
			w.reopen(t)
		}
	}
}

// A commit with a cancelled context changes nothing.
func TestCommitCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.Commit(ctx, catalog.CreateDatabase{Database: resource.Database{ID: "d"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if got := w.View().Version(); got != 0 {
		t.Errorf("version %d, want 0", got)
	}
}

// A store of a newer format is refused with an error that says what to do.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	batch := w.store.NewBatch()
	defer batch.Close()
	if err := batch.Set(storage.MetaKey(nil, "catalog"), []byte(`{"format":99,"version":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Apply(batch); err != nil {
		t.Fatal(err)
	}
	_, err := catalog.Open(w.store, clock)
	if err == nil || !strings.Contains(err.Error(), "format 99") || !strings.Contains(err.Error(), "use the release") {
		t.Errorf("got %v", err)
	}
}

// Lookups match names exactly.
func TestNamesAreCaseSensitive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"db", "DB", "Db"} {
		if _, err := w.Commit(context.Background(), catalog.CreateDatabase{Database: resource.Database{ID: name}}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	_, err := w.Commit(context.Background(), catalog.CreateDatabase{Database: resource.Database{ID: "DB"}})
	if status.SubOf(err) != status.SubDatabaseExists {
		t.Errorf("second DB: got %v, want 409/3206", err)
	}
	if _, found := w.View().Database("dB"); found {
		t.Error("dB found")
	}
}

// Children get numbers as long as ordinals are left: the last two may be used,
// and then a split is refused.
func TestSplitNeedsOrdinals(t *testing.T) {
	t.Parallel()
	for ordinal, want := range map[uint32]status.Code{resource.OrdinalMax - 2: 0, resource.OrdinalMax - 1: status.CodeForbidden, resource.OrdinalMax: status.CodeForbidden} {
		w := newWorld(t)
		ctx := context.Background()
		if _, err := w.Commit(ctx, catalog.CreateDatabase{Database: resource.Database{ID: "d"}}); err != nil {
			t.Fatal(err)
		}
		database, _ := w.View().Database("d")
		c := parseContainer(t, "c")
		c.RID = w.ReserveContainer(database.RID)
		partitions := tile(c.PartitionKey, 1)
		partitions[0].Ordinal = ordinal
		if _, err := w.Commit(ctx, catalog.CreateContainer{Container: c, Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
		view, err := w.Commit(ctx, catalog.PlanSplit{Container: c.RID, Parent: 0, At: "\x20"})
		if status.CodeOf(err) != want {
			t.Errorf("after ordinal %d: got %v, want %d", ordinal, err, want)
		}
		if err == nil {
			planned, _ := view.Container("d", "c")
			if plan, _ := planned.Split(0); plan.Children[1].Ordinal != resource.OrdinalMax {
				t.Errorf("the last ordinal is %d", plan.Children[1].Ordinal)
			}
		}
	}
}
