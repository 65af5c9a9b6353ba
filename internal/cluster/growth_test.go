package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// called records the containers for which a node has called Grown.
type called struct {
	mu  sync.Mutex
	all []resource.RID
}

func (c *called) add(rid resource.RID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, rid)
}

// take returns the containers since the last call of take.
func (c *called) take() []resource.RID {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

// TestCheckGrowth grows containers until Grown is called for one with an autoscale
// maximum: when it has grown by a 32nd of what the maximum can store, in any of its
// partitions, also if the partition was closed in between. Grown is not called for a
// container with manual throughput.
func TestCheckGrowth(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 0)
	var heard called
	w.restart(t, func(c *cluster.Config) {
		// 1,000 RU/s can store what two partitions can; a 32nd of that is 16 KB.
		c.Limits.PhysicalPartitionBytes, c.Grown, c.Maintenance = 256<<10, heard.add, -1
	})
	make2 := func(name string, offer resource.Throughput) client {
		t.Helper()
		w.offer = &offer
		c, err := w.createWith(name, keyKinds["v2"], "", 2)
		if err != nil {
			t.Fatal(err)
		}
		return client{w, c.RID}
	}
	automatic, manual := make2("automatic", resource.Throughput{Max: 1000}), make2("manual", resource.Throughput{Manual: 1000})
	grow := func(c client, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			doc := item(i, 1)
			doc = parseValue(t, strings.TrimSuffix(doc.JSON(), "}")+fmt.Sprintf(`,"text":%q}`, strings.Repeat("x", 1024-len(doc.JSON()))))
			if _, err := c.write(partition.Upsert, doc, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	var heardOf []resource.RID // all so far
	weigh := func() int {
		w.node.CheckGrowth()
		heardOf = append(heardOf, heard.take()...)
		return len(heardOf)
	}
	grow(automatic, 0, 15)
	grow(manual, 0, 40)
	if n := weigh(); n != 0 {
		t.Errorf("Grown was called for %v after 15 KB", heardOf)
	}
	grow(automatic, 0, 15) // writing the same documents again does not count as growth
	if n := weigh(); n != 0 {
		t.Errorf("Grown was called for %v without growth", heardOf)
	}
	w.restart(t, func(c *cluster.Config) { // The restart has reset the counts, and stored documents do not count as growth.
		c.Limits.PhysicalPartitionBytes, c.Grown, c.Maintenance, c.MaxOpen = 256<<10, heard.add, -1, 1
	})
	grow(automatic, 15, 30)
	if n := weigh(); n != 0 {
		t.Errorf("Grown was called for %v after another 15 KB", heardOf)
	}
	grow(automatic, 30, 33)
	if n := weigh(); n != 1 || heardOf[0] != automatic.rid {
		t.Errorf("Grown was called for %v after 18 KB, want %v", heardOf, automatic.rid)
	}
	if n := weigh(); n != 1 {
		t.Errorf("Grown was called again for %v without growth", heardOf)
	}
}

// TestCheckGrowthLoad uses autoscale maxima up. Grown is called for a container with an
// enabled upgrade policy after five seconds, and again when the load has reached the
// raised maximum.
func TestCheckGrowthLoad(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 0)
	var heard called
	var clock atomic.Int64
	clock.Store(1_700_000_000)
	w.restart(t, func(c *cluster.Config) {
		c.Grown, c.Maintenance, c.Now = heard.add, -1, func() time.Time { return time.Unix(clock.Load(), 0) }
	})
	on := resource.Upgrade{Percent: 10}
	shared := catalog.CreateDatabase{Database: resource.Database{ID: "d"}, Throughput: &resource.Throughput{Max: 100, Upgrade: on}}
	if _, err := w.catalog.Commit(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	made := map[string]*catalog.Container{}
	for name, offer := range map[string]*resource.Throughput{
		"shared": nil, "own": {Max: 100, Upgrade: on}, "off": {Max: 100, Upgrade: resource.Upgrade{Percent: 10, Off: true}},
		"none": {Max: 100}, "full": {Max: resource.DefaultLimits().ContainerRUs, Upgrade: on}, "idle": {Max: 100, Upgrade: on},
	} {
		w.offer = offer
		c, err := w.createWith(name, keyKinds["v2"], "", 1)
		if err != nil {
			t.Fatal(err)
		}
		made[name] = c
	}
	var asking []string
	use := func(seconds int) []string {
		t.Helper()
		for range seconds {
			for name, c := range made {
				for due := 0.0; name != "idle" && due < 100; {
					charge, err := w.put(c, 0, "x")
					if err != nil {
						t.Fatal(err)
					}
					due += charge
				}
			}
			w.node.CheckGrowth()
			clock.Add(1)
		}
		for _, rid := range heard.take() {
			for name, c := range made {
				if c.RID == rid && !slices.Contains(asking, name) {
					asking = append(asking, name)
				}
			}
		}
		slices.Sort(asking)
		return asking
	}
	if got := use(4); len(got) != 0 {
		t.Errorf("Grown was called for %v after four seconds", got)
	}
	if got := use(1); !slices.Equal(got, []string{"own", "shared"}) {
		t.Errorf("Grown was called for %v after five seconds, want those with an enabled policy", got)
	}
	if !w.node.ReachedMax(made["own"]) || !w.node.ReachedMax(made["shared"]) || w.node.ReachedMax(made["off"]) || w.node.ReachedMax(made["idle"]) {
		t.Error("ReachedMax differs from the containers for which Grown was called")
	}
	raised := catalog.PutThroughput{Throughput: resource.Throughput{Owner: made["own"].RID, Max: 1000, Upgrade: on}}
	if _, err := w.catalog.Commit(t.Context(), raised); err != nil {
		t.Fatal(err)
	}
	if w.node.ReachedMax(made["own"]) {
		t.Error("a maximum is reached as soon as it is raised")
	}
}

func parseValue(t *testing.T, text string) (v value.Value) {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestCheckGrowthShared grows two containers that share a throughput. They also share what
// its maximum can store, so Grown is called for each after half the growth.
func TestCheckGrowthShared(t *testing.T) {
	t.Parallel()
	w, _ := start(t, 0)
	var heard called
	w.restart(t, func(c *cluster.Config) {
		c.Limits.PhysicalPartitionBytes, c.Grown, c.Maintenance = 256<<10, heard.add, -1
	})
	change := catalog.CreateDatabase{Database: resource.Database{ID: "d"}, Throughput: &resource.Throughput{Max: 1000}}
	if _, err := w.catalog.Commit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	var want []resource.RID
	for _, name := range []string{"a", "b"} {
		c, err := w.create(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, c.RID)
		for i := range 9 {
			if err := w.writeText(c, 0, fmt.Sprint(i), strings.Repeat("x", 1024)); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.node.CheckGrowth()
	got := heard.take()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("Grown was called for %v, want %v", got, want)
	}
}
