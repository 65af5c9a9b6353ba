package storage

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler decides which store of a pool may compact, with one budget for all.
// Pebble's own scheduler limits each store separately and wakes up ten times a second
// for it: a thousand quiet stores would cost a tenth of a core. This one acts only on
// events: a compaction or flush ended, a store was opened, or a pause is over.
//
// A store that is being opened gets no grant, because Open would wait for the
// compaction. A store whose compaction failed pauses, longer each time, because Pebble
// would retry at once. A store that has failed gets only the grants that release
// waiting writers.
//
// Pebble calls the methods of schedulerClient under its own lock. So the lock order is
// Pebble's lock, then mu; the scheduler never calls Pebble while it holds mu.
type scheduler struct {
	budget int

	mu       sync.Mutex
	running  int                // compactions in progress, and the one that is being granted
	waiting  []*schedulerClient // in the order in which they were refused
	granting bool               // a goroutine runs grant
	again    bool               // grant looks for candidates again before it ends
	closed   bool
	grants   sync.WaitGroup
}

// schedulerClient is one store's side of the scheduler.
type schedulerClient struct {
	s     *scheduler
	pacer pacer // of its compactions

	// Guarded by s.mu.
	db       pebble.DBForCompaction // nil before Register
	opening  bool
	gone     bool // after Unregister
	failed   bool
	stalled  bool
	waiting  bool // it is in s.waiting
	asks     int  // refusals so far
	running  int
	calls    int // calls into db in progress
	idle     *sync.Cond
	failures int       // failed compactions in a row
	resume   time.Time // no grant before
	timer    *time.Timer
}

const (
	// pauseMin and pauseMax bound the pause after a failed compaction.
	pauseMin = 100 * time.Millisecond
	pauseMax = time.Minute
	// candidatesMax is how many waiting stores are compared for one grant. A store
	// inspects all its levels to answer.
	candidatesMax = 16
)

func newScheduler(budget int) *scheduler { return &scheduler{budget: budget} }

func (s *scheduler) newClient() *schedulerClient {
	return &schedulerClient{s: s, opening: true, idle: sync.NewCond(&s.mu)}
}

// close waits for the last grants. All stores must be closed.
func (s *scheduler) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.grants.Wait()
}

// Register records the store's database.
func (c *schedulerClient) Register(_ int, db pebble.DBForCompaction) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.db = db
}

// Unregister ends all grants to the store and returns when no call into its database is
// in progress.
func (c *schedulerClient) Unregister() {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c.gone = true
	c.leaveLocked()
	if c.timer != nil {
		c.timer.Stop()
	}
	for c.calls > 0 {
		c.idle.Wait()
	}
}

// TrySchedule asks for a compaction now. A refused store waits in the queue, and its
// Schedule method is called for its grant.
func (c *schedulerClient) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return false, nil
	}
	if s.running < s.budget && c.eligibleLocked() {
		s.running++
		c.running++
		return true, c
	}
	c.asks++
	c.joinLocked()
	return false, nil
}

// UpdateGetAllowedWithoutPermission reports that the store may be allowed more
// compactions than before. Pebble holds its lock, so another goroutine grants them.
func (c *schedulerClient) UpdateGetAllowedWithoutPermission() { c.s.kick() }

// opened allows grants. The caller holds no lock.
func (c *schedulerClient) opened() {
	c.s.mu.Lock()
	c.opening = false
	c.s.mu.Unlock()
	c.s.kick()
}

// fail stops all compactions but those for which writers wait.
func (c *schedulerClient) fail() {
	c.s.mu.Lock()
	c.failed = true
	c.s.mu.Unlock()
	c.s.kick()
}

// stall records whether writers wait for compactions.
func (c *schedulerClient) stall(begins bool) {
	c.s.mu.Lock()
	c.stalled = begins
	c.s.mu.Unlock()
	c.s.kick()
}

// report records the result of a compaction.
func (c *schedulerClient) report(err error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		c.failures = 0
		return
	}
	if errors.Is(err, pebble.ErrCancelledCompaction) || c.gone {
		return
	}
	pause := min(pauseMin<<min(c.failures, 10), pauseMax)
	c.failures++
	c.resume = time.Now().Add(pause)
	if c.timer == nil {
		c.timer = time.AfterFunc(pause, s.kick)
		return
	}
	c.timer.Reset(pause)
}

// eligibleLocked reports whether the store may compact if the budget allows it.
func (c *schedulerClient) eligibleLocked() bool {
	if c.db == nil || c.opening || c.gone || (c.failed && !c.stalled) {
		return false
	}
	if c.failures > 0 && time.Now().Before(c.resume) {
		return false
	}
	return c.running < c.db.GetAllowedWithoutPermission()
}

// joinLocked appends the store to the queue if it is not in it.
func (c *schedulerClient) joinLocked() {
	if !c.waiting {
		c.waiting = true
		c.s.waiting = append(c.s.waiting, c)
	}
}

// leaveLocked removes the store from the queue.
func (c *schedulerClient) leaveLocked() {
	if c.waiting {
		c.waiting = false
		i := slices.Index(c.s.waiting, c)
		c.s.waiting = slices.Delete(c.s.waiting, i, i+1)
	}
}

// kick starts a goroutine that grants compactions, if there may be any to grant. The
// caller may hold Pebble's lock.
func (s *scheduler) kick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.waiting) == 0 || s.running >= s.budget {
		return
	}
	if s.granting {
		s.again = true
		return
	}
	s.granting = true
	s.grants.Go(s.grant)
}

// grant grants compactions until the budget is used or no store waits.
func (s *scheduler) grant() {
	for {
		asked, more := s.candidates()
		if !more {
			return
		}
		best, refused := choose(asked)
		accepted := best != nil && best.db.Schedule(best)
		s.granted(asked, refused, best, accepted)
	}
}

// candidate is a waiting store that may get the next grant.
type candidate struct {
	*schedulerClient
	asks int // schedulerClient.asks when it was asked
}

// candidates reserves one compaction of the budget and returns the stores that may have
// it. If there are none it ends the granting.
func (s *scheduler) candidates() (asked []candidate, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		s.again = false
		if s.running < s.budget && !s.closed {
			for _, c := range s.waiting {
				if c.eligibleLocked() {
					c.calls++
					asked = append(asked, candidate{c, c.asks})
				}
				if len(asked) == candidatesMax {
					break
				}
			}
		}
		if len(asked) > 0 {
			s.running++
			return asked, true
		}
		if !s.again {
			s.granting = false
			return nil, false
		}
	}
}

// choose asks each store for its waiting compaction. It returns the store with the most
// urgent one, the first of equals, and the stores that no longer have one.
func choose(asked []candidate) (best *schedulerClient, refused map[*schedulerClient]bool) {
	var waiting pebble.WaitingCompaction
	for _, q := range asked {
		isWaiting, w := q.db.GetWaitingCompaction()
		switch {
		case !isWaiting:
			if refused == nil {
				refused = map[*schedulerClient]bool{}
			}
			refused[q.schedulerClient] = true
		case best == nil || moreUrgent(w, waiting):
			best, waiting = q.schedulerClient, w
		}
	}
	return best, refused
}

func moreUrgent(a, b pebble.WaitingCompaction) bool {
	if a.Optional != b.Optional {
		return b.Optional
	}
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.Score > b.Score
}

// granted records the outcome of a grant.
func (s *scheduler) granted(asked []candidate, refused map[*schedulerClient]bool, best *schedulerClient, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !accepted {
		s.running--
	}
	for _, q := range asked {
		c := q.schedulerClient
		switch {
		case c == best && accepted:
			c.running++
			// It may want more, after the others.
			if c.waiting {
				c.leaveLocked()
				c.joinLocked()
			}
		case (c == best || refused[c]) && c.asks == q.asks:
			// A store that has asked again in the meantime keeps waiting.
			c.leaveLocked()
		}
		c.calls--
		c.idle.Broadcast()
	}
}

// MeasureCPU yields. The goroutines of a compaction call it every 128 rows and after
// each block that they write.
func (c *schedulerClient) MeasureCPU(pebble.CompactionGoroutineKind) { c.pacer.yield() }

// Started is part of a grant; the scheduler does not need it.
func (c *schedulerClient) Started() {}

// CumulativeStats is part of a grant; the scheduler does not need it.
func (c *schedulerClient) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done returns the grant to the budget and grants the next compaction.
func (c *schedulerClient) Done() {
	s := c.s
	s.mu.Lock()
	s.running--
	c.running--
	s.mu.Unlock()
	s.kick()
}
