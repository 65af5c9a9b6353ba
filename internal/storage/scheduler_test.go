package storage

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// fakeDB is a database with a number of compactions to run. It takes its lock where
// Pebble takes its own.
type fakeDB struct {
	client  *schedulerClient
	score   float64
	allowed int
	ran     chan<- string // receives the name when a compaction begins
	name    string
	onIdle  func() // called once, when no compaction is waiting

	mu      sync.Mutex
	wanted  int
	waiting bool
	grants  []pebble.CompactionGrantHandle
}

func (d *fakeDB) GetAllowedWithoutPermission() int { return d.allowed }

func (d *fakeDB) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	waiting := d.look()
	if onIdle := d.onIdle; !waiting && onIdle != nil {
		d.onIdle = nil
		onIdle()
	}
	return waiting, pebble.WaitingCompaction{Priority: 1, Score: d.score}
}

func (d *fakeDB) look() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = d.waiting && d.wanted > 0
	return d.waiting
}

func (d *fakeDB) Schedule(grant pebble.CompactionGrantHandle) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.waiting || d.wanted == 0 {
		d.waiting = false
		return false
	}
	d.beginLocked(grant)
	return true
}

func (d *fakeDB) beginLocked(grant pebble.CompactionGrantHandle) {
	d.wanted--
	d.grants = append(d.grants, grant)
	if d.ran != nil {
		d.ran <- d.name
	}
}

// want requests n compactions, as Pebble does after a flush.
func (d *fakeDB) want(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted += n
	d.askLocked()
}

func (d *fakeDB) askLocked() {
	if d.waiting {
		return
	}
	for d.wanted > 0 {
		ok, grant := d.client.TrySchedule()
		if !ok {
			d.waiting = true
			return
		}
		d.beginLocked(grant)
	}
}

// finish ends one compaction.
func (d *fakeDB) finish(err error) {
	d.client.report(err)
	d.mu.Lock()
	grant := d.grants[0]
	d.grants = d.grants[1:]
	d.mu.Unlock()
	grant.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.askLocked()
}

func (d *fakeDB) running() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.grants)
}

func register(s *scheduler, name string, allowed int) *fakeDB {
	d := &fakeDB{client: s.newClient(), allowed: allowed, name: name}
	d.client.Register(2, d)
	return d
}

func TestSchedulerBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(3)
		dbs := []*fakeDB{}
		for i := range 5 {
			d := register(s, fmt.Sprint(i), 2)
			d.client.opened()
			d.want(4)
			dbs = append(dbs, d)
		}
		left := 20
		for left > 0 {
			synctest.Wait()
			total, possible := 0, 0
			for _, d := range dbs {
				n := d.running()
				total += n
				possible += min(2, n+d.wanted)
				if n > 2 {
					t.Errorf("store %s runs %d compactions, 2 are allowed", d.name, n)
				}
			}
			if total != min(3, possible) {
				t.Fatalf("%d compactions run with a budget of 3 and %d left", total, left)
			}
			for _, d := range dbs {
				if d.running() > 0 {
					d.finish(nil)
					left--
					break
				}
			}
		}
		synctest.Wait()
		if s.running != 0 {
			t.Errorf("%d grants are left when idle", s.running)
		}
		for _, d := range dbs {
			d.client.Unregister()
		}
		s.close()
	})
}

// The most urgent store is first.
func TestSchedulerOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(1)
		ran := make(chan string, 100)
		first := register(s, "first", 1)
		first.client.opened()
		first.want(1)
		for name, score := range map[string]float64{"calm": 1, "urgent": 9} {
			d := register(s, name, 1)
			d.score, d.ran = score, ran
			d.client.opened()
			d.want(1)
		}
		first.finish(nil)
		synctest.Wait()
		if got := <-ran; got != "urgent" {
			t.Errorf("the %s store is next, want the urgent one", got)
		}
	})
}

// A store that no longer has a compaction waiting, and requests one before the
// scheduler has recorded that, is not forgotten.
func TestSchedulerNewRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(1)
		first, second := register(s, "first", 1), register(s, "second", 1)
		first.client.opened()
		second.client.opened()
		first.want(1)
		second.want(1)
		second.mu.Lock()
		second.wanted = 0
		second.mu.Unlock()
		second.onIdle = func() { second.want(1) }
		first.finish(nil)
		synctest.Wait()
		if n := second.running(); n != 1 {
			t.Errorf("%d compactions run, want the new request", n)
		}
	})
}

// A store that is being opened gets no grant, and its request is not forgotten.
func TestSchedulerOpening(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(4)
		d := register(s, "d", 4)
		d.want(2)
		d.client.UpdateGetAllowedWithoutPermission()
		synctest.Wait()
		if n := d.running(); n != 0 {
			t.Fatalf("%d compactions run while the store opens", n)
		}
		d.client.opened()
		synctest.Wait()
		if n := d.running(); n != 2 {
			t.Errorf("%d compactions run after the store opened, want 2", n)
		}
	})
}

// After a failed compaction the store pauses, longer each time. A store that has failed
// compacts only while writers wait.
func TestSchedulerPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(4)
		d := register(s, "d", 1)
		d.client.opened()
		d.want(100)
		for i, want := range []time.Duration{pauseMin, 2 * pauseMin, 4 * pauseMin} {
			begin := time.Now()
			d.finish(errors.New("disk"))
			synctest.Wait()
			if d.running() != 0 {
				t.Fatalf("failure %d: the store compacts again at once", i+1)
			}
			for d.running() == 0 {
				time.Sleep(pauseMin / 2)
				synctest.Wait()
			}
			if pause := time.Since(begin); pause < want || pause > want+pauseMin {
				t.Errorf("failure %d: pause of %v, want %v", i+1, pause, want)
			}
		}
		d.finish(nil)
		synctest.Wait()
		if d.running() != 1 {
			t.Fatal("a success does not end the pauses")
		}
		d.finish(pebble.ErrCancelledCompaction)
		synctest.Wait()
		if d.running() != 1 {
			t.Fatal("a cancelled compaction makes a pause")
		}
		d.client.fail()
		d.finish(nil)
		synctest.Wait()
		if d.running() != 0 {
			t.Fatal("a failed store compacts")
		}
		d.client.stall(true)
		synctest.Wait()
		if d.running() != 1 {
			t.Error("a failed store does not release waiting writers")
		}
		d.client.stall(false)
		d.finish(nil)
		d.client.Unregister()
		d.client.stall(true)
		synctest.Wait()
		if d.running() != 0 {
			t.Error("an unregistered store gets a grant")
		}
		s.close()
	})
}

// Many quiet stores have few goroutines and no timers. This test is not
// parallel, because it counts the goroutines of the process.
func TestQuietStores(t *testing.T) {
	const stores = 300
	p := newPool(t, Options{})
	before := runtime.NumGoroutine()
	var opened []*Store
	for i := range stores {
		s, err := p.Create(fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "mk", "v")
		if i%2 == 0 {
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		opened = append(opened, s)
	}
	if n := runtime.NumGoroutine() - before; n > 3*stores {
		t.Errorf("%d stores have %d goroutines", stores, n)
	}
	p.scheduler.mu.Lock()
	if len(p.scheduler.waiting) > 0 || p.scheduler.running > 0 {
		t.Errorf("%d quiet stores wait for compactions and %d run", len(p.scheduler.waiting), p.scheduler.running)
	}
	p.scheduler.mu.Unlock()
	for _, s := range opened {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// Goroutines that are ending need a processor to end.
	left := runtime.NumGoroutine() - before
	for deadline := time.Now().Add(time.Minute); left > 10 && time.Now().Before(deadline); left = runtime.NumGoroutine() - before {
		time.Sleep(time.Millisecond)
	}
	if left > 10 {
		t.Errorf("%d goroutines are left after all stores were closed", left)
	}
}

// Real stores under load share the budget, and all of them are compacted.
func TestCompactionOfManyStores(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{MemTableBytes: 64 << 10, Compactions: 1})
	var writers sync.WaitGroup
	for i := range 6 {
		writers.Go(func() {
			s, err := p.Create(fmt.Sprint(i))
			if err != nil {
				t.Error(err)
				return
			}
			for j := range 600 {
				put(t, s, fmt.Sprintf("mrow%04d", j*7919%10000), string(make([]byte, 1500)))
			}
			if err := s.Flush(); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
}
