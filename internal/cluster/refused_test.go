package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage/storagetest"
	"github.com/decandb/decan/partitionkey"
)

// TestSplitRefused refuses impossible splits with a status that gives the reason, and
// changes nothing (S41, S42).
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
		if _, err := alone.write(partition.Create, item(7*i, 0), ""); err != nil { // only tenant0
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
		"unknown container":             {rid: resource.ContainerRID(resource.DatabaseRID(9), 9), code: status.CodeNotFound},
		"unknown partition":             {rid: c.rid, id: 7, code: status.CodeNotFound},
		"zero bytes are the bound":      {rid: c.rid, at: "\x00\x00", code: status.CodeBadRequest},
		"the upper bound":               {rid: c.rid, at: "\xff", code: status.CodeBadRequest},
		"above the upper bound":         {rid: c.rid, at: "\xff\x01", code: status.CodeBadRequest},
		"above every hash":              {rid: c.rid, at: "\x40", code: status.CodeBadRequest},
		"above every hash of level two": {rid: c.rid, at: string(first[:16]) + "\x40", code: status.CodeBadRequest},
		"inside a full key":             {rid: c.rid, at: string(first) + "\x01", code: status.CodeBadRequest},
		"outside its range":             {rid: one.RID, id: 0, at: "\x30", code: status.CodeBadRequest},
		"the bound between the two":     {rid: one.RID, id: 0, at: string(one.Ranges.At(0).Range.Max), code: status.CodeBadRequest},
		"filled by one key":             {rid: one.RID, id: filled.ID, code: status.CodeBadRequest, why: partition.ErrIndivisible},
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
	// A cut inside a tenant, or at a full key, is allowed (S38).
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

// TestSplitBounds splits empty and full partitions repeatedly. The bounds never end in
// zero bytes, because clients differ in how they compare those.
func TestSplitBounds(t *testing.T) {
	t.Parallel()
	for name, key := range everyKind() {
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

// TestSplitInsideTenant cuts inside a tenant: each partition counts its own part of the
// tenant.
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

// TestMergeRefused refuses impossible merges with a status that gives the reason, and
// changes nothing.
func TestMergeRefused(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 0)
	c, _ := smallOf(t, w, keyKinds["two"], 40, 4)
	other, err := w.createWith("other", keyKinds["v2"], "", 2)
	if err != nil {
		t.Fatal(err)
	}
	version := w.catalog.View().Version()
	for name, test := range map[string]struct {
		rid       resource.RID
		low, high resource.PartitionID
		code      status.Code
	}{
		"unknown container":      {rid: resource.ContainerRID(resource.DatabaseRID(9), 9), high: 1, code: status.CodeNotFound},
		"unknown partition":      {rid: c.rid, low: 3, high: 4, code: status.CodeNotFound},
		"the other unknown":      {rid: c.rid, low: 7, high: 3, code: status.CodeNotFound},
		"one of another":         {rid: other.RID, low: 1, high: 2, code: status.CodeNotFound},
		"the same one twice":     {rid: c.rid, low: 1, high: 1, code: status.CodeBadRequest},
		"one is in between":      {rid: c.rid, low: 1, high: 3, code: status.CodeBadRequest},
		"the first and the last": {rid: c.rid, low: 3, high: 0, code: status.CodeBadRequest},
	} {
		if _, err := w.node.Merge(t.Context(), test.rid, test.low, test.high); status.CodeOf(err) != test.code {
			t.Errorf("%s: %v, want %d", name, err, test.code)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.node.Merge(ended, c.rid, 0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if got := w.catalog.View().Version(); got != version {
		t.Errorf("the catalog came from version %d to %d", version, got)
	}
}

// TestMergeLimits merges two partitions if one may hold all their documents and serve
// their throughput, and refuses it if either limit is a little lower.
func TestMergeLimits(t *testing.T) {
	t.Parallel()
	bytes := int64(0)
	for i := range 40 {
		bytes += int64(len(item(i, 1).JSON()))
	}
	shares := []resource.Share{{ID: 0, RUs: 1500}, {ID: 1, RUs: 2000}}
	for name, test := range map[string]struct {
		bytes  int64
		rus    int
		offer  *resource.Throughput
		merges bool
	}{
		"as many bytes":          {bytes: bytes, rus: 10_000, merges: true},
		"a byte too many":        {bytes: bytes - 1, rus: 10_000},
		"as much throughput":     {bytes: bytes, rus: 3500, offer: &resource.Throughput{Manual: 3500}, merges: true},
		"too much throughput":    {bytes: bytes, rus: 3400, offer: &resource.Throughput{Manual: 3500}},
		"as much by hand":        {bytes: bytes, rus: 3500, offer: &resource.Throughput{Manual: 3500, Shares: shares}, merges: true},
		"too much by hand":       {bytes: bytes, rus: 3400, offer: &resource.Throughput{Manual: 3400, Shares: shares}},
		"autoscale up to enough": {bytes: bytes, rus: 4000, offer: &resource.Throughput{Max: 4000}, merges: true},
		"autoscale up to more":   {bytes: bytes, rus: 4000, offer: &resource.Throughput{Max: 5000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := start(t, 0)
			w.restart(t, func(c *cluster.Config) {
				c.Limits.PhysicalPartitionBytes, c.Limits.PartitionRUs = test.bytes, test.rus
			})
			w.offer = test.offer
			c, _ := smallOf(t, w, keyKinds["v2"], 40, 2)
			err := mergeTwo.do(t.Context(), c)
			if test.merges != (err == nil) || err != nil && status.CodeOf(err) != status.CodeBadRequest {
				t.Errorf("got %v", err)
			}
			if got := c.container().Ranges.Len(); got != map[bool]int{true: 1, false: 2}[test.merges] {
				t.Errorf("%d partitions", got)
			}
		})
	}
}

// TestMergeDividedMeanwhile divides the throughput during a merge so that both
// partitions together have more than one can serve. The merge fails, and both
// continue to serve. It does so for the throughput of a container and for that of a
// database.
func TestMergeDividedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		second int // RU/s
		shared bool
		want   status.Code
	}{
		"as much as one can serve":         {4000, false, 0},
		"a step more":                      {4100, false, status.CodeConflict},
		"shared, as much as one can serve": {4000, true, 0},
		"shared, a step more":              {4100, true, status.CodeConflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := storagetest.NewCrashable()
			var watched atomic.Pointer[client] // nil until the throughput is to be divided
			// The child's directory appears after the plan is stored.
			files := errorfs.Wrap(disk.FS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				c := watched.Load()
				if c == nil || !strings.Contains(op.Path, fmt.Sprintf("data/p/%x/2", string(c.rid))) || !watched.CompareAndSwap(c, nil) {
					return nil
				}
				divided := resource.Throughput{Owner: c.rid, Manual: 6000 + test.second, Shares: []resource.Share{{ID: 0, RUs: 6000}, {ID: 1, RUs: test.second}}}
				if test.shared {
					divided.Owner = c.rid.Database()
					divided.Shares[0].Container, divided.Shares[1].Container = c.rid, c.rid
				}
				if _, err := c.w.catalog.Commit(context.Background(), catalog.PutThroughput{Throughput: divided}); err != nil {
					t.Error(err)
				}
				return nil
			}))
			w, err := openOn(files, 0)
			if err != nil {
				t.Fatal(err)
			}
			if w.offer = (&resource.Throughput{Manual: 8000}); test.shared {
				if _, err := w.catalog.Commit(t.Context(), catalog.CreateDatabase{Database: resource.Database{ID: "d"}, Throughput: w.offer}); err != nil {
					t.Fatal(err)
				}
				w.offer = nil
			}
			c, registers := smallOf(t, w, keyKinds["v2"], 20, 2)
			watched.Store(&c)
			err = mergeTwo.do(t.Context(), c)
			if status.CodeOf(err) != test.want {
				t.Errorf("got %v, want %d", err, test.want)
			}
			for _, r := range registers {
				if err := r.step(c); err != nil {
					t.Error(err)
				}
			}
			want := 1
			if test.want != 0 {
				want = 2
			}
			if n := c.container().Ranges.Len(); n != want || c.plans() != 0 {
				t.Errorf("%d partitions, %d plans", n, c.plans())
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			clean(t, disk, want)
		})
	}
}
