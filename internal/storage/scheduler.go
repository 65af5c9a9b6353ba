package storage

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler decides which store of a pool may compact, under one budget for
// all. Pebble's own scheduler limits each store by itself and wakes ten times a
// second for it; a thousand quiet stores cost a tenth of a core. This one acts
// only when something happened: a compaction or flush ended, a store was
// opened, or a pause is over.
//
// A store that is being opened gets nothing, because Open would wait for the
// compaction. A store whose compaction failed pauses, longer each time, because
// Pebble would try again at once. A store that has failed gets nothing but what
// lets waiting writers out.
//
// Pebble calls turn's methods under its own lock, so the order of locks is
// Pebble's first and mu second; Pebble is never called under mu.
type scheduler struct {
	budget int

	mu       sync.Mutex
	running  int     // compactions under way, and one that is being granted
	waiting  []*turn // in the order they were refused
	granting bool    // a goroutine hands out grants
	again    bool    // it shall look once more before it ends
	closed   bool
	grants   sync.WaitGroup
}

// turn is one store's side of the scheduler.
type turn struct {
	s        *scheduler
	courtesy courtesy // of its compactions

	// Guarded by s.mu.
	db       pebble.DBForCompaction // nil before Register
	opening  bool
	gone     bool // after Unregister
	failed   bool
	stalled  bool
	waiting  bool // is in s.waiting
	asks     int  // refusals so far
	running  int
	calls    int // calls into db under way
	idle     *sync.Cond
	failures int       // compactions that failed in a row
	resume   time.Time // no grants before
	timer    *time.Timer
}

const (
	// pauseMin and pauseMax bound the pause after a failed compaction.
	pauseMin = 100 * time.Millisecond
	pauseMax = time.Minute
	// candidatesMax is how many waiting stores are compared for one grant.
	// Asking a store costs it a look at all its levels.
	candidatesMax = 16
)

func newScheduler(budget int) *scheduler { return &scheduler{budget: budget} }

func (s *scheduler) newTurn() *turn {
	return &turn{s: s, opening: true, idle: sync.NewCond(&s.mu)}
}

// close waits for the last grants. All stores have been closed.
func (s *scheduler) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.grants.Wait()
}

// Register takes note of the store's database.
func (t *turn) Register(_ int, db pebble.DBForCompaction) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.db = db
}

// Unregister ends all grants to the store and returns when no call into its
// database is under way.
func (t *turn) Unregister() {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	t.gone = true
	t.leaveLocked()
	if t.timer != nil {
		t.timer.Stop()
	}
	for t.calls > 0 {
		t.idle.Wait()
	}
}

// TrySchedule asks for a compaction now. When it is refused the store waits,
// and is called when its turn comes.
func (t *turn) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.gone {
		return false, nil
	}
	if s.running < s.budget && t.eligibleLocked() {
		s.running++
		t.running++
		return true, t
	}
	t.asks++
	t.joinLocked()
	return false, nil
}

// UpdateGetAllowedWithoutPermission says that the store may want more than
// before. Pebble holds its lock, so the grant is made elsewhere.
func (t *turn) UpdateGetAllowedWithoutPermission() { t.s.kick() }

// opened ends the time without grants. No lock is held.
func (t *turn) opened() {
	t.s.mu.Lock()
	t.opening = false
	t.s.mu.Unlock()
	t.s.kick()
}

// fail stops all compactions that nobody waits for.
func (t *turn) fail() {
	t.s.mu.Lock()
	t.failed = true
	t.s.mu.Unlock()
	t.s.kick()
}

// stall says that writers wait, or that they wait no more.
func (t *turn) stall(begins bool) {
	t.s.mu.Lock()
	t.stalled = begins
	t.s.mu.Unlock()
	t.s.kick()
}

// report takes the outcome of a compaction.
func (t *turn) report(err error) {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		t.failures = 0
		return
	}
	if errors.Is(err, pebble.ErrCancelledCompaction) || t.gone {
		return
	}
	pause := min(pauseMin<<min(t.failures, 10), pauseMax)
	t.failures++
	t.resume = time.Now().Add(pause)
	if t.timer == nil {
		t.timer = time.AfterFunc(pause, s.kick)
		return
	}
	t.timer.Reset(pause)
}

// eligibleLocked reports whether the store may compact when there is budget.
func (t *turn) eligibleLocked() bool {
	if t.db == nil || t.opening || t.gone || (t.failed && !t.stalled) {
		return false
	}
	if t.failures > 0 && time.Now().Before(t.resume) {
		return false
	}
	return t.running < t.db.GetAllowedWithoutPermission()
}

// joinLocked puts the store at the end of the queue if it is not in it.
func (t *turn) joinLocked() {
	if !t.waiting {
		t.waiting = true
		t.s.waiting = append(t.s.waiting, t)
	}
}

// leaveLocked takes the store out of the queue.
func (t *turn) leaveLocked() {
	if t.waiting {
		t.waiting = false
		i := slices.Index(t.s.waiting, t)
		t.s.waiting = slices.Delete(t.s.waiting, i, i+1)
	}
}

// kick has grants handed out, if there may be any, on a goroutine: the caller
// may hold Pebble's lock.
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

// grant hands out grants until budget or wishes run out.
func (s *scheduler) grant() {
	for {
		asked, more := s.ask()
		if !more {
			return
		}
		best, refused := choose(asked)
		accepted := best != nil && best.db.Schedule(best)
		s.settle(asked, refused, best, accepted)
	}
}

// question is a waiting store that may get the next grant.
type question struct {
	*turn
	asks int // turn.asks when it was asked
}

// ask takes a part of the budget and returns who may have it. It ends the
// granting when there is nothing to grant.
func (s *scheduler) ask() (asked []question, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		s.again = false
		if s.running < s.budget && !s.closed {
			for _, t := range s.waiting {
				if t.eligibleLocked() {
					t.calls++
					asked = append(asked, question{t, t.asks})
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

// choose asks each store for its wish and returns the most urgent one, the
// first of equals, and those that wish for nothing any more.
func choose(asked []question) (best *turn, refused map[*turn]bool) {
	var wish pebble.WaitingCompaction
	for _, q := range asked {
		waits, w := q.db.GetWaitingCompaction()
		switch {
		case !waits:
			if refused == nil {
				refused = map[*turn]bool{}
			}
			refused[q.turn] = true
		case best == nil || moreUrgent(w, wish):
			best, wish = q.turn, w
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

// settle takes note of what became of a grant.
func (s *scheduler) settle(asked []question, refused map[*turn]bool, best *turn, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !accepted {
		s.running--
	}
	for _, q := range asked {
		t := q.turn
		switch {
		case t == best && accepted:
			t.running++
			// It may wish for more, behind the others.
			if t.waiting {
				t.leaveLocked()
				t.joinLocked()
			}
		case (t == best || refused[t]) && t.asks == q.asks:
			// A store that has asked again in the meantime keeps waiting.
			t.leaveLocked()
		}
		t.calls--
		t.idle.Broadcast()
	}
}

// MeasureCPU is called by the goroutines of a compaction every 128 rows and behind
// every block of the table they write. It gives way.
func (t *turn) MeasureCPU(pebble.CompactionGoroutineKind) { t.courtesy.giveWay() }

// Started and CumulativeStats complete the grant; nothing here depends on them.
func (t *turn) Started() {}

// CumulativeStats does nothing.
func (t *turn) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done gives the grant back and passes it on.
func (t *turn) Done() {
	s := t.s
	s.mu.Lock()
	s.running--
	t.running--
	s.mu.Unlock()
	s.kick()
}
