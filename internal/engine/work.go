package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

const (
	// sliceTime is how long a goroutine works for a query before it gives way, and
	// quietTime while there are no operations on single documents.
	sliceTime = 100 * time.Microsecond
	quietTime = 500 * time.Microsecond

	// sliceMax is what a slice counts for at most: Go takes the processor of a
	// goroutine away after that time, so what is beyond it is no work.
	sliceMax = 10 * time.Millisecond

	// A goroutine that gives way does so again until it comes back within aloneTime so
	// many times in a row, or has waited for yieldMax.
	aloneTime  = 8 * time.Microsecond
	aloneTimes = 2
	yieldMax   = time.Millisecond

	// A goroutine that gives way waits for up to keepShare times as long as it works:
	// where processors are always wanted it would hardly go on otherwise. It keeps its
	// processor for keepMax at a time.
	keepShare = 4
	keepMax   = 2 * time.Millisecond

	// memoryRetryAfter is what a query is told when others hold the memory.
	memoryRetryAfter = 500 * time.Millisecond
)

// job is the work of one request that may take long. Its goroutines are workers.
type job struct {
	engine    *Engine
	request   context.Context
	container resource.RID
	memory    account

	// again says that the job may be ended with query.ErrAgain before it has had a turn;
	// free that it needs no turn at all, because others wait for what it holds.
	again, free bool

	begun  time.Duration // on the clock of turns
	spent  atomic.Int64  // processor time, of all workers
	waited atomic.Int64  // time in which the job did not work

	admitted atomic.Bool  // it has had a turn
	active   atomic.Int32 // workers but main

	main  *worker // of the goroutine that the request came in
	spare bool    // it holds a turn that no worker has; guarded by turns.mu
}

// newJob begins the work of a request. The caller closes the job.
func (e *Engine) newJob(ctx context.Context) *job {
	return &job{engine: e, request: ctx, begun: e.turns.clock(), memory: account{pool: &e.memory}}
}

// close gives back what the job holds. Its workers have ended.
func (j *job) close() {
	j.memory.close()
	if j.admitted.Load() {
		t := j.engine.turns
		t.mu.Lock()
		defer t.mu.Unlock()
		if j.spare {
			j.spare = false
			t.releaseLocked(t.clock())
		}
	}
}

// wait waits for a turn of a job that was ended with query.ErrAgain. One of its
// workers may have got a turn after another had found none; then that is the one.
func (j *job) wait(ctx context.Context) error {
	e, t := j.engine, j.engine.turns
	if j.hasSpare() {
		return nil
	}
	e.metrics.waited.Inc()
	from := t.clock()
	err := t.waitFresh(ctx, j.container)
	j.waited.Add(int64(t.clock() - from))
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	j.spare = true
	j.admitted.Store(true)
	return nil
}

func (j *job) hasSpare() bool {
	t := j.engine.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	return j.spare
}

// worker is a goroutine that works for a job, as the context of what it does.
//
// Each loop that may take long looks at the error of its context now and then. A
// worker's Err is where it counts its work, gives way to whoever waits for a
// processor, and waits for a turn. One that may not go on ends its context, and
// then fault says why.
type worker struct {
	context.Context
	cancel context.CancelCauseFunc

	job     *job
	turn    bool          // guarded by turns.mu when the worker is main
	since   time.Duration // when the slice under way began
	quantum time.Duration // work since the turn began
	keeps   time.Duration // until when it gives way to nobody
	waited  time.Duration
	fault   error // why the context was ended by the worker
}

// work begins a worker. The goroutine that calls it is the one that uses it, and
// ends it.
func (j *job) work(ctx context.Context) *worker {
	w := &worker{job: j, since: j.engine.turns.clock()}
	w.Context, w.cancel = context.WithCancelCause(ctx)
	return w
}

// begin is work for another worker than main, which leaves its turn to it.
func (j *job) begin(ctx context.Context) *worker {
	w := j.work(ctx)
	j.active.Add(1)
	if !j.admitted.Load() {
		return w
	}
	t := j.engine.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if j.main != nil && j.main.turn {
		j.main.turn, j.spare = false, true
	}
	if j.spare {
		w.turn, j.spare = true, false
	}
	return w
}

// end ends a worker that begin has made. Its turn is left to main, or to others
// while workers of the same job are at work.
func (w *worker) end() {
	j, t := w.job, w.job.engine.turns
	now := t.clock()
	w.count(now)
	j.waited.Add(int64(w.waited))
	w.cancel(nil)
	if !w.turn {
		j.active.Add(-1)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w.turn = false
	// Counted with the turn in hand: a worker that has begun meanwhile may wait for
	// it, and would wait for ever for one that the job keeps.
	if active := j.active.Add(-1); active == 0 && !j.spare {
		j.spare = true
		return
	}
	t.releaseLocked(now)
}

// finish ends main.
func (w *worker) finish() {
	j, t := w.job, w.job.engine.turns
	w.count(t.clock())
	w.cancel(nil)
	if !j.admitted.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.turn {
		w.turn = false
		if j.spare {
			t.releaseLocked(t.clock())
		}
		j.spare = true
	}
}

// Err implements [context.Context]. The goroutine of the worker calls it.
func (w *worker) Err() error {
	if err := w.job.request.Err(); err != nil {
		return err
	}
	if err := w.Context.Err(); err != nil {
		return err
	}
	if err := w.pause(); err != nil {
		w.fault = err
		w.cancel(err)
	}
	return w.Context.Err()
}

// pause ends a slice of work, if it has taken long enough to be one.
func (w *worker) pause() error {
	t := w.job.engine.turns
	now := t.clock()
	slice := quietTime
	if t.busy(now) {
		slice = sliceTime
	}
	if now-w.since < slice {
		return nil
	}
	spent := w.count(now)
	if most := w.job.engine.limits.QueryTime; spent > most {
		w.job.engine.metrics.refused.WithLabelValues("time").Inc()
		return status.BadRequest("The request needs more than %v of processor time, which is the most that one may use. Filter for fewer documents, or ask for a part of them at a time.", most)
	}
	if !w.job.free {
		if err := w.queue(now, spent); err != nil {
			return err
		}
	}
	w.yield()
	return nil
}

// count adds a slice to the work that is done, and returns all of the job's.
func (w *worker) count(now time.Duration) time.Duration {
	worked := min(now-w.since, sliceMax)
	w.since = now
	w.quantum += worked
	w.job.engine.metrics.worked.Add(worked.Seconds())
	return time.Duration(w.job.spent.Add(int64(worked)))
}

// yield gives way to the goroutines that wait for a processor, until there are none:
// a request goes from one to the next, and is answered over the network.
func (w *worker) yield() {
	t := w.job.engine.turns
	left := t.clock()
	w.since = left
	if left < w.keeps {
		return
	}
	for alone := 0; alone < aloneTimes && w.since-left < yieldMax; {
		from := w.since
		t.giveWay()
		if w.since = t.clock(); w.since-from > aloneTime {
			alone = 0
		} else {
			alone++
		}
	}
	w.waited += w.since - left
	w.keeps = w.since + min((w.since-left)/keepShare, keepMax)
}

// queue sees to it that a worker that has worked for long has a turn.
func (w *worker) queue(now, spent time.Duration) error {
	t := w.job.engine.turns
	switch {
	case !w.turn && spent <= freeTime:
		return nil
	case !w.turn:
		return w.enter(now)
	}
	t.look(now)
	if w.quantum < quantum && !t.busy(now) {
		return nil
	}
	return w.pass(now)
}

// enter gets a turn.
func (w *worker) enter(now time.Duration) error {
	j, t := w.job, w.job.engine.turns
	t.mu.Lock()
	switch {
	case j.spare:
		j.spare = false
	case t.takeLocked(now):
	case j.again && !j.admitted.Load():
		t.mu.Unlock()
		return query.ErrAgain
	case len(t.paused) >= t.most:
		t.mu.Unlock()
		return t.full()
	default:
		return w.rest(now)
	}
	w.turn, w.quantum = true, 0
	j.admitted.Store(true)
	t.mu.Unlock()
	return nil
}

// pass leaves the turn to somebody who waits for one, and waits for the next: when
// the worker has had its time, or there are fewer turns than there were.
func (w *worker) pass(now time.Duration) error {
	t := w.job.engine.turns
	t.mu.Lock()
	if t.held <= t.limit(now) && (w.quantum < quantum || t.waiting.Load() == 0 || len(t.paused) >= pausedMax) {
		t.mu.Unlock()
		return nil
	}
	w.turn = false
	t.releaseLocked(now)
	return w.rest(now)
}

// rest waits for a turn in the middle of the work. It is called with turns.mu
// locked and unlocks it.
func (w *worker) rest(from time.Duration) error {
	j, t := w.job, w.job.engine.turns
	me := &waiter{ready: make(chan struct{})}
	t.paused = append(t.paused, me)
	t.waiting.Add(1)
	t.mu.Unlock()
	var err error
	select {
	case <-me.ready:
	case <-w.Done():
		if t.forsake(me) {
			t.release()
		}
		err = w.Context.Err()
	}
	now := t.clock()
	w.waited += now - from
	w.since = now
	if err != nil {
		return err
	}
	w.turn, w.quantum = true, 0
	j.admitted.Store(true)
	return nil
}

// late reports whether the page of the worker ends where it is: when it was worked
// on for the time of a page, or would be answered too late otherwise.
func (w *worker) late() bool {
	e := w.job.engine
	passed := e.turns.clock() - w.job.begun
	return passed-time.Duration(w.job.waited.Load())-w.waited >= e.limits.PageTime || passed >= e.limits.RequestTimeout/2
}

// streamMemory is what the page of one stream holds.
type streamMemory struct {
	account *account
	held    int64
}

// renew drops what the page before this one held.
func (s *streamMemory) renew() {
	s.account.give(s.held)
	s.held = 0
}

func (s *streamMemory) grow(need int64) (int64, error) {
	granted, err := s.account.take(need)
	s.held += granted
	return granted, err
}

// bound has a budget bounded by what the worker may do.
func (w *worker) bound(b *query.Budget, memory *streamMemory) {
	b.Late, b.Grow = w.late, memory.grow
}
