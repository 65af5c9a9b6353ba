package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage/storagetest"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// register is a document that one goroutine writes in steps, of which it knows
// which one is certain to be there, and which one may be.
type register struct {
	i                  int
	certain, attempted atomic.Int64
}

func (r *register) step(c client) error {
	n := r.attempted.Add(1)
	_, err := c.write(partition.Upsert, item(r.i, int(n)), "")
	if err == nil {
		r.certain.Store(n)
	}
	return err
}

// verify checks that the register is at a step between two.
func (r *register) verify(c client, low, high int64) error {
	body, _, err := c.read(item(r.i, 0))
	if err != nil || body == nil {
		if low == 0 && err == nil {
			return nil
		}
		return fmt.Errorf("document %d of step %d or above is %q: %w", r.i, low, body, err)
	}
	doc, err := value.Parse(body)
	if err != nil {
		return err
	}
	if n, _ := doc.Get("v").Int64(); n < low || n > high {
		return fmt.Errorf("document %d is of step %d, want %d to %d", r.i, n, low, high)
	}
	return nil
}

// moment is what is certain at a moment, and what the disk may be afterwards.
type moment struct {
	low, high []int64
	disks     []*storagetest.Disk
	at        string
}

var keptParts = []float64{0, 0.5, 1}

// take makes the copies between what was certain before and what had been
// attempted after.
func take(disk *storagetest.Disk, registers []*register, at string) moment {
	m := moment{at: at}
	for _, r := range registers {
		m.low = append(m.low, r.certain.Load())
	}
	for i, kept := range keptParts {
		m.disks = append(m.disks, disk.Crash(kept, uint64(i)))
	}
	for _, r := range registers {
		m.high = append(m.high, r.attempted.Load())
	}
	return m
}

// verify starts a server on each of the copies.
func (m moment) verify(t *testing.T, rid resource.RID, registers []*register) (partitions int) {
	t.Helper()
	for n, disk := range m.disks {
		kept := keptParts[n]
		w, err := open(disk, 0)
		if err != nil {
			t.Fatalf("%s, %v kept: %v", m.at, kept, err)
		}
		c := client{w, rid}
		partitions = c.container().Ranges.Len()
		if len(c.container().Splits) > 0 {
			t.Errorf("%s: the plan is still there", m.at)
		}
		for i, r := range registers {
			if err := r.verify(c, m.low[i], m.high[i]); err != nil {
				t.Errorf("%s, %v kept, %d partitions: %v", m.at, kept, partitions, err)
			}
		}
		if err := w.close(); err != nil {
			t.Fatalf("%s, %v kept: %v", m.at, kept, err)
		}
		clean(t, disk, partitions)
	}
	return partitions
}

// small is a container whose documents are certain, and a client of it.
func small(t *testing.T, w *world, key string, n int) (client, []*register) {
	t.Helper()
	created, err := w.createWith("c", key, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	c := client{w, created.RID}
	var registers []*register
	for i := range n {
		r := &register{i: i}
		if err := r.step(c); err != nil {
			t.Fatal(err)
		}
		registers = append(registers, r)
	}
	return c, registers
}

// Whenever the power fails during a split under load, and whatever of the writes
// that were not synced is lost, the next start finds one partition or two, and
// every acknowledged write in them.
func TestSplitCrash(t *testing.T) {
	t.Parallel()
	for name, key := range keyKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testSplitCrash(t, key)
		})
	}
}

func testSplitCrash(t *testing.T, key string) {
	_, random := seed(t)
	disk := storagetest.NewCrashable()
	var mu sync.Mutex
	var moments []moment
	var registers []*register
	var armed atomic.Bool
	operations, next := 0, 0
	// A crash may come in front of any writing operation; every so many are tried.
	files := errorfs.Wrap(disk.FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !armed.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if operations++; operations >= next {
			next = operations + 1 + random.IntN(24)
			moments = append(moments, take(disk, registers, fmt.Sprintf("operation %d, %v %s", operations, op.Kind, op.Path)))
		}
		return nil
	}))
	w, err := openOn(files, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, all := small(t, w, key, 40)
	registers = all
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for g := range 3 {
		writers.Go(func() {
			for i := g; ; i += 3 {
				select {
				case <-stop:
					return
				default:
				}
				// The first is the splitter's own.
				if err := registers[1+i%(len(registers)-1)].step(c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	armed.Store(true)
	_, err = w.node.Split(t.Context(), c.rid, 0, "")
	for range 20 {
		if err := registers[0].step(c); err != nil {
			t.Error(err)
		}
	}
	armed.Store(false)
	close(stop)
	writers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	found := map[int]int{}
	for _, m := range moments {
		found[m.verify(t, c.rid, registers)]++
	}
	t.Logf("%d operations, partitions found: %v", operations, found)
	if found[1] == 0 || found[2] == 0 || len(found) > 2 {
		t.Errorf("found %v partitions, want one and two", found)
	}
}

// Whichever operation of the disk fails during a split: it is done, or undone
// and the parent serves on, or the start tells; and every acknowledged write is
// there.
func TestSplitFailingDisk(t *testing.T) {
	t.Parallel()
	_, random := seed(t)
	outcomes := map[string]int{}
	for n := int64(1 + random.IntN(3)); ; n += int64(1 + random.IntN(4)) {
		disk := storagetest.NewCrashable()
		w, err := open(disk, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, registers := small(t, w, keyKinds["three"], 30)
		disk.FailAt(n)
		_, splitErr := w.node.Split(t.Context(), c.rid, 0, "")
		_, failed := disk.Operations()
		disk.Heal()
		outcome := afterFailure(t, c, registers, n, splitErr)
		outcomes[outcome]++
		_ = w.close() // a store that has failed says so again
		parts := moment{disks: []*storagetest.Disk{disk}, at: fmt.Sprintf("operation %d", n)}
		for _, r := range registers {
			parts.low, parts.high = append(parts.low, r.certain.Load()), append(parts.high, r.attempted.Load())
		}
		if got := parts.verify(t, c.rid, registers); (splitErr == nil || outcome == "again") && got != 2 {
			t.Errorf("operation %d: %s, and there is %d partition", n, outcome, got)
		}
		if failed == 0 {
			if splitErr != nil || n < 50 {
				t.Fatalf("operation %d: %v", n, splitErr)
			}
			break
		}
	}
	t.Logf("%v", outcomes)
	if outcomes["done"] == 0 || outcomes["again"] == 0 {
		t.Errorf("outcomes %v", outcomes)
	}
}

// afterFailure writes after a split, and splits again when the disk's trouble
// was not the parent's own or the catalog's.
func afterFailure(t *testing.T, c client, registers []*register, n int64, splitErr error) string {
	t.Helper()
	if splitErr != nil && status.CodeOf(splitErr) != status.CodeUnavailable {
		t.Errorf("operation %d: %v, want 503", n, splitErr)
	}
	failures := 0
	for _, r := range registers {
		switch err := r.step(c); status.CodeOf(err) {
		case 0:
		case status.CodeUnavailable:
			failures++
		default:
			t.Errorf("operation %d: write: %v, want 503", n, err)
		}
		if _, _, err := c.read(item(r.i, 0)); err != nil && status.CodeOf(err) != status.CodeUnavailable {
			t.Errorf("operation %d: read: %v", n, err)
		}
	}
	switch {
	case splitErr == nil:
		return "done"
	case failures > 0:
		return "stopped" // the parent's or the catalog's own files failed
	}
	if _, err := c.w.node.Split(t.Context(), c.rid, 0, ""); err != nil {
		if status.CodeOf(err) == status.CodeUnavailable {
			return "catalog stopped"
		}
		t.Errorf("operation %d: split again: %v", n, err)
	}
	return "again"
}

// While the disk has no room for the children, or no descriptors, the parent
// serves on as if nothing had been tried.
func TestSplitWithoutRoom(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"the disk is full": syscall.ENOSPC, "too many files are open": syscall.EMFILE} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := storagetest.NewCrashable()
			var armed atomic.Bool
			var seen, failAt atomic.Int64
			failAt.Store(1)
			files := errorfs.Wrap(disk.FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				_, child, in := strings.Cut(op.Path, "data/p/")
				_, child, _ = strings.Cut(child, "/")
				if !armed.Load() || !in || child == "" || strings.HasPrefix(child, "0") {
					return nil
				}
				switch op.Kind {
				case errorfs.OpCreate, errorfs.OpLink, errorfs.OpMkdirAll, errorfs.OpFileWrite:
					if seen.Add(1) >= failAt.Load() {
						return cause
					}
				}
				return nil
			}))
			w, err := openOn(files, 0)
			if err != nil {
				t.Fatal(err)
			}
			c, registers := small(t, w, keyKinds["v2"], 40)
			refused := 0
			for ; ; failAt.Add(7) {
				seen.Store(0)
				armed.Store(true)
				_, err := w.node.Split(t.Context(), c.rid, 0, "")
				armed.Store(false)
				if err == nil {
					break
				}
				refused++
				if known := status.From(err); known == nil || known.Code != status.CodeUnavailable || !strings.Contains(known.Message, name) {
					t.Fatalf("got %v, want 503 that says %q", err, name)
				}
				for _, r := range registers[:5] {
					if err := r.step(c); err != nil {
						t.Fatal(err)
					}
				}
				if n := c.container().Ranges.Len(); n != 1 || len(c.container().Splits) > 0 {
					t.Fatalf("%d partitions and plans %v", n, c.container().Splits)
				}
			}
			if refused < 3 {
				t.Errorf("refused %d times", refused)
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			clean(t, disk, 2)
		})
	}
}

// crowded is a file system that says how little it has left.
type crowded struct {
	vfs.FS
	free atomic.Uint64
}

func (f *crowded) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: f.free.Load()}, nil
}

// A split is not begun when it would fill the disk.
func TestSplitNeedsRoom(t *testing.T) {
	t.Parallel()
	files := &crowded{FS: storagetest.NewCrashable().FS()}
	w, err := openOn(files, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := small(t, w, keyKinds["v2"], 40)
	version := w.catalog.View().Version()
	files.free.Store(64 << 20)
	if _, err := w.node.Split(t.Context(), c.rid, 0, ""); status.CodeOf(err) != status.CodeUnavailable {
		t.Errorf("got %v, want 503", err)
	}
	if got := w.catalog.View().Version(); got != version {
		t.Errorf("the catalog came from version %d to %d", version, got)
	}
	files.free.Store(80 << 20)
	if _, err := w.node.Split(t.Context(), c.rid, 0, ""); err != nil {
		t.Error(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
}

// What cannot be split is refused with a status that says why, and nothing has
// changed (S41, S42).
func TestSplitRefused(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 0)
	c, _ := small(t, w, keyKinds["two"], 40)
	first := c.container().PartitionKey.Hash(c.container().KeyOf(item(1, 0)))
	one, err := w.createWith("one", keyKinds["v2"], "", 2)
	if err != nil {
		t.Fatal(err)
	}
	alone := client{w, one.RID}
	for i := range 10 {
		if _, err := alone.write(partition.Create, item(7*i, 0), ""); err != nil { // tenant0 alone
			t.Fatal(err)
		}
	}
	filled := one.Ranges.Locate(one.PartitionKey.Hash(one.KeyOf(item(0, 0)))).Value
	version := w.catalog.View().Version()
	for name, test := range map[string]struct {
		rid  resource.RID
		id   resource.PartitionID
		at   string
		code status.Code
		why  error
	}{
		"unknown container":         {rid: resource.ContainerRID(resource.DatabaseRID(9), 9), code: status.CodeNotFound},
		"unknown partition":         {rid: c.rid, id: 7, code: status.CodeNotFound},
		"zero bytes are the bound":  {rid: c.rid, at: "\x00\x00", code: status.CodeBadRequest},
		"the upper bound":           {rid: c.rid, at: "\xff", code: status.CodeBadRequest},
		"behind the upper bound":    {rid: c.rid, at: "\xff\x01", code: status.CodeBadRequest},
		"where no hash is":          {rid: c.rid, at: "\x40", code: status.CodeBadRequest},
		"no hash on level two":      {rid: c.rid, at: string(first[:16]) + "\x40", code: status.CodeBadRequest},
		"inside of one full key":    {rid: c.rid, at: string(first) + "\x01", code: status.CodeBadRequest},
		"outside of its range":      {rid: one.RID, id: 0, at: "\x30", code: status.CodeBadRequest},
		"the bound between the two": {rid: one.RID, id: 0, at: string(one.Ranges.At(0).Range.Max), code: status.CodeBadRequest},
		"filled by one key":         {rid: one.RID, id: filled.ID, code: status.CodeBadRequest, why: partition.ErrIndivisible},
	} {
		_, err := w.node.Split(t.Context(), test.rid, test.id, partitionkey.EPK(test.at))
		if status.CodeOf(err) != test.code || test.why != nil && !errors.Is(err, test.why) {
			t.Errorf("%s: %v, want %d", name, err, test.code)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.node.Split(ended, c.rid, 0, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if got := w.catalog.View().Version(); got != version {
		t.Errorf("the catalog came from version %d to %d", version, got)
	}
	// Inside of a tenant, and at a full key, is allowed (S38).
	for _, at := range []string{string(first[:16]) + "\x01", string(first)} {
		owner := c.container().Ranges.Locate(partitionkey.EPK(at)).Value
		if _, err := w.node.Split(t.Context(), c.rid, owner.ID, partitionkey.EPK(at)); err != nil {
			t.Errorf("at %x: %v", at, err)
		}
	}
	if n := c.container().Ranges.Len(); n != 3 {
		t.Errorf("%d partitions", n)
	}
}

// Bounds have no zero bytes at their end, however often an empty or a full
// partition is split: clients differ in how they compare those.
func TestSplitBounds(t *testing.T) {
	t.Parallel()
	for name, key := range keyKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, random := seed(t)
			w, _ := start(t, 0)
			created, err := w.createWith("c", key, "", 1)
			if err != nil {
				t.Fatal(err)
			}
			c := client{w, created.RID}
			for i := 0; i < 200 && c.container().Ranges.Len() < 10; i++ {
				if i == 3 && random.IntN(2) == 0 {
					if _, err := c.write(partition.Create, item(0, 0), ""); err != nil {
						t.Fatal(err)
					}
				}
				ranges := c.container().Ranges
				p := ranges.At(random.IntN(ranges.Len())).Value
				if _, err := w.node.Split(t.Context(), c.rid, p.ID, ""); err != nil && !errors.Is(err, partition.ErrIndivisible) {
					t.Fatal(err)
				}
			}
			for r := range c.container().Ranges.All() {
				if r.Max.Canonical() != r.Max {
					t.Errorf("the bound %s ends in zeros", r.Max)
				}
			}
			if n := c.container().Ranges.Len(); n != 10 {
				t.Errorf("%d partitions", n)
			}
		})
	}
}

// The prefixes of what was cut: a partition whose range begins inside of a tenant
// counts its own part of it.
func TestSplitInsideTenant(t *testing.T) {
	t.Parallel()
	disk := storagetest.NewCrashable()
	w, err := open(disk, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, registers := small(t, w, keyKinds["three"], 200)
	m := map[int]int{}
	for _, r := range registers {
		m[r.i] = 1
	}
	var epks []partitionkey.EPK
	for _, r := range registers {
		epks = append(epks, c.container().PartitionKey.Hash(c.container().KeyOf(item(r.i, 0))))
	}
	slices.SortFunc(epks, partitionkey.EPK.Compare)
	_, random := seed(t)
	for _, width := range []int{16, 17, 32, 40, 48} {
		at := epks[1+random.IntN(len(epks)-1)][:width].Canonical()
		p := c.container().Ranges.Locate(at).Value
		if at == p.Range.Min.Canonical() {
			continue
		}
		if _, err := w.node.Split(t.Context(), c.rid, p.ID, at); err != nil {
			t.Fatalf("at %s: %v", at, err)
		}
		if err := c.verify(m); err != nil {
			t.Fatalf("at %s: %v", at, err)
		}
	}
	n := c.container().Ranges.Len()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	clean(t, disk, n)
}
