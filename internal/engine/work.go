package engine

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

const (
	// sliceTime is how long a goroutine works for a query before it yields. It is
	// quietTime if there are no operations on single documents.
	sliceTime = 100 * time.Microsecond
	quietTime = 500 * time.Microsecond

	// sliceMax is the most that one slice adds to the processor time: Go
	// preempts a goroutine after that time, so the rest of the slice is not
	// work.
	sliceMax = 10 * time.Millisecond

	// A goroutine yields repeatedly until it gets its processor back within aloneTime
	// for aloneTimes times in a row, or has waited for yieldMax.
	aloneTime  = 8 * time.Microsecond
	aloneTimes = 2
	yieldMax   = time.Millisecond

	// After it has yielded, a goroutine keeps its processor for a keepShare-th of the
	// time that it has waited, at most for keepMax. Otherwise it would make almost no
	// progress while all processors are busy.
	keepShare = 4
	keepMax   = 2 * time.Millisecond

	// memoryRetryAfter is the retry time of a query that is refused because
	// others use the memory.
	memoryRetryAfter = 500 * time.Millisecond
)

// job is the work of one request that may take long. Workers are its goroutines.
type job struct {
	engine    *Engine
	container resource.RID
	memory    account

	// again allows the job to end with query.ErrAgain and start again before it has had
	// a turn. free means that it needs no turn, because other requests wait for what it
	// locks.
	again, free bool

	begun  time.Duration // on the clock of turns
	spent  atomic.Int64  // processor time, of all workers
	kept   atomic.Int64  // part of spent: work of ended workers since they last yielded
	waited atomic.Int64  // time that the job has spent waiting

	admitted atomic.Bool  // it has had a turn
	active   atomic.Int32 // workers other than main

	// Shown by [Engine.RunningQueries]. operation is "" for a job that is not shown.
	operation string
	caller    auth.Kind
	asked     atomic.Int64 // partitions
	read      atomic.Int64 // documents
	listing   atomic.Pointer[listing]

	main       worker       // of the goroutine of the request
	mainMemory streamMemory // of main, until the job is closed
	spare      bool         // the job holds a turn that no worker has; guarded by turns.mu
}

// newJob starts the work of a request. The caller closes the job.
func (e *Engine) newJob() *job {
	j := &job{engine: e, begun: e.turns.clock(), memory: account{pool: &e.memory}}
	j.mainMemory.account = &j.memory
	return j
}

// close returns the turn and the memory of the job. Its workers have ended.
func (j *job) close() {
	j.unlist()
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

// dropMemory returns the memory of an attempt that has ended without a page.
func (j *job) dropMemory() {
	j.memory.close()
	j.mainMemory.held = 0
}

// wait waits for the turn of a job that ended with query.ErrAgain. If one of its
// workers got a turn after another had found none, the job has that turn already.
func (j *job) wait(ctx context.Context) error {
	e, t := j.engine, j.engine.turns
	if j.hasSpare() {
		return nil
	}
	e.metrics.waited.Inc()
	from := t.clock()
	err := t.waitFresh(ctx, j.stopped(), j.container)
	j.waited.Add(int64(t.clock() - from))
	if err != nil {
		return cmp.Or(j.cancelled(), err)
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

// worker is a goroutine that works for a job. It is also the context of its
// calls.
//
// Each loop that may take long calls [pacing.Check] every few steps. There the worker
// counts its work, yields to goroutines that wait for a processor, and waits for a turn.
// When it may not continue, fault tells why.
type worker struct {
	pacing.Context

	job          *job
	memory       *streamMemory
	turn         bool          // guarded by turns.mu when the worker is main
	since        time.Duration // when the current slice began
	kept         time.Duration // work before since, after which the goroutine has not yielded
	done         int64         // of main: spent plus waited of the job at since
	quantum      time.Duration // work since the turn began
	noYieldUntil time.Duration // until when it keeps its processor
	waited       time.Duration
	reported     int64 // documents counted for the job that are not on a page yet
	fault        error // why the worker may not continue; nil if its context has ended
}

// work starts w. The goroutine that calls it uses the worker and ends it.
func (w *worker) work(ctx context.Context, j *job, memory *streamMemory) {
	*w = worker{job: j, memory: memory, since: j.engine.turns.clock(), done: j.spent.Load() + j.waited.Load()}
	w.Context = pacing.Context{Context: ctx, Pacer: w}
}

// workMain starts main.
func (j *job) workMain(ctx context.Context) *worker {
	j.main.work(ctx, j, &j.mainMemory)
	return &j.main
}

// begin starts a worker other than main, which passes its turn to it.
func (w *worker) begin(ctx context.Context, j *job, memory *streamMemory) {
	w.work(ctx, j, memory)
	// Many short visits to partitions yield as often as a long one.
	w.kept = time.Duration(j.kept.Swap(0))
	j.active.Add(1)
	if !j.admitted.Load() {
		return
	}
	t := j.engine.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if j.main.turn {
		j.main.turn, j.spare = false, true
	}
	if j.spare {
		w.turn, j.spare = true, false
	}
}

// end ends a worker that begin has started. Its turn stays with the job if that
// has no other worker, else it is released.
func (w *worker) end() {
	j, t := w.job, w.job.engine.turns
	now := t.clock()
	w.count(now)
	j.kept.Add(int64(w.kept))
	j.waited.Add(int64(w.waited))
	if !w.turn {
		j.active.Add(-1)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w.turn = false
	// The count changes while turns.mu is locked: a worker that has begun meanwhile
	// may wait for this turn, and would never get it if the job kept it.
	if active := j.active.Add(-1); active == 0 && !j.spare {
		j.spare = true
		return
	}
	t.releaseLocked(now)
}

// finish ends main. Its turn stays with the job.
func (w *worker) finish() {
	j, t := w.job, w.job.engine.turns
	w.count(t.clock())
	j.waited.Add(int64(w.waited))
	w.waited = 0
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

// largeWork is a [partition.Work]: it makes the write of a large document take
// turns with heavy queries.
func (e *Engine) largeWork(ctx context.Context) (context.Context, func(error) error) {
	job := e.newJob()
	worker := job.workMain(ctx)
	return worker, func(err error) error {
		if worker.fault != nil {
			err = worker.fault
		}
		worker.finish()
		job.close()
		return err
	}
}

// Yield implements [pacing.Pacer].
func (w *worker) Yield() error {
	if w.fault != nil {
		return w.fault
	}
	err := w.pause()
	if err != nil && w.Err() == nil {
		w.fault = err
	}
	return err
}

// pause ends the slice of work if it is long enough.
func (w *worker) pause() error {
	t := w.job.engine.turns
	now := t.clock()
	slice := quietTime
	if t.busy(now) {
		slice = sliceTime
	}
	if now-w.since+w.kept < slice {
		return nil
	}
	spent := w.count(now)
	if err := w.job.cancelled(); err != nil {
		return err
	}
	if most := w.job.engine.limits.QueryTime; spent > most {
		w.job.engine.metrics.refused.WithLabelValues("time").Inc()
		return status.BadRequest("The request needs more than %v of processor time, which is the maximum for one request. Filter for fewer documents, or ask for a part of them at a time.", most)
	}
	if !w.job.free {
		if err := w.ensureTurn(now, spent); err != nil {
			return err
		}
	}
	w.yieldToOthers()
	return nil
}

// count adds the slice to the work of the job, and returns the sum.
func (w *worker) count(now time.Duration) time.Duration {
	j := w.job
	worked := now - w.since
	if w == &j.main {
		worked -= time.Duration(j.spent.Load() + j.waited.Load() - w.done) // The other workers have counted that.
	}
	worked = max(0, min(worked, sliceMax))
	w.since = now
	w.kept += worked
	w.quantum += worked
	j.engine.metrics.worked.Add(worked.Seconds())
	spent := j.spent.Add(int64(worked))
	w.done = spent + j.waited.Load()
	return time.Duration(spent)
}

// yieldToOthers lets the goroutines run that wait for a processor, until there are none: a
// request passes through several goroutines before it is answered over the network.
func (w *worker) yieldToOthers() {
	t := w.job.engine.turns
	left := t.clock()
	w.since, w.kept = left, 0
	if left < w.noYieldUntil {
		return
	}
	for alone := 0; alone < aloneTimes && w.since-left < yieldMax; {
		from := w.since
		t.yield()
		if w.since = t.clock(); w.since-from > aloneTime {
			alone = 0
		} else {
			alone++
		}
	}
	w.waited += w.since - left
	w.noYieldUntil = w.since + min((w.since-left)/keepShare, keepMax)
}

// ensureTurn gets a turn for a worker that has used freeTime, and passes it on
// when the worker has had it for long.
func (w *worker) ensureTurn(now, spent time.Duration) error {
	t := w.job.engine.turns
	switch {
	case !w.turn && spent <= freeTime:
		return nil
	case !w.turn:
		return w.takeTurn(now)
	}
	t.look(now)
	if w.quantum < quantum && !t.busy(now) {
		return nil
	}
	return w.passTurn(now)
}

// takeTurn gets a turn, at once or by waiting.
func (w *worker) takeTurn(now time.Duration) error {
	j, t := w.job, w.job.engine.turns
	t.mu.Lock()
	j.list()
	switch {
	case j.spare:
		j.spare = false
	case t.takeLocked(now):
	case j.again && !j.admitted.Load():
		t.mu.Unlock()
		return query.ErrAgain
	case len(t.paused) >= t.lineMax:
		t.mu.Unlock()
		return t.full()
	default:
		return w.waitPaused(now)
	}
	w.turn, w.quantum = true, 0
	j.admitted.Store(true)
	t.mu.Unlock()
	return nil
}

// passTurn releases the turn to another waiter and waits for the next one, if the
// worker has used its quantum or there are fewer turns than before.
func (w *worker) passTurn(now time.Duration) error {
	t := w.job.engine.turns
	t.mu.Lock()
	if t.held <= t.limit(now) && (w.quantum < quantum || t.waiting.Load() == 0 || len(t.paused) >= pausedMax) {
		t.mu.Unlock()
		return nil
	}
	w.turn = false
	t.releaseLocked(now)
	return w.waitPaused(now)
}

// waitPaused waits for a turn in the middle of the work. It is called with
// turns.mu locked, and unlocks it.
func (w *worker) waitPaused(from time.Duration) error {
	j, t := w.job, w.job.engine.turns
	me := &waiter{ready: make(chan struct{})}
	t.paused = append(t.paused, me)
	t.waiting.Add(1)
	t.mu.Unlock()
	var err error
	select {
	case <-me.ready:
	case <-w.Done():
		if t.abandon(me) {
			t.release()
		}
		err = w.Err()
	case <-j.stopped():
		if t.abandon(me) {
			t.release()
		}
		err = j.cancelled()
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

// Late reports whether the page of the worker must end where it is: because the
// work has taken Limits.PageTime, or because half of Limits.RequestTimeout has
// passed.
func (w *worker) Late() bool {
	e := w.job.engine
	passed := e.turns.clock() - w.job.begun
	return passed-time.Duration(w.job.waited.Load())-w.waited >= e.limits.PageTime || passed >= e.limits.RequestTimeout/2
}

// streamMemory is the memory of the page of one stream.
type streamMemory struct {
	account *account
	held    int64
}

// renew returns the memory of the previous page.
func (s *streamMemory) renew() {
	s.account.give(s.held)
	s.held = 0
}

// Grow implements [query.Granter].
func (s *streamMemory) Grow(need int64) (int64, error) {
	granted, err := s.account.take(need)
	s.held += granted
	return granted, err
}

// Read implements [query.Reader].
func (w *worker) Read(documents int) {
	w.job.read.Add(int64(documents))
	w.reported += int64(documents)
}

// paged records that a page is complete for which this many documents were
// read.
func (w *worker) paged(documents int64) {
	w.job.read.Add(max(0, documents-w.reported))
	w.reported = 0
}

// bound sets the parts of a budget that the worker controls.
func (w *worker) bound(b *query.Budget) { b.Late, b.Grow, b.Read = w, w.memory, w }
