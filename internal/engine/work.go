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
	container resource.RID
	memory    account

	// again says that the job may be ended with query.ErrAgain before it has had a turn;
	// free that it needs no turn at all, because others wait for what it holds.
	again, free bool

	begun  time.Duration // on the clock of turns
	spent  atomic.Int64  // processor time, of all workers
	kept   atomic.Int64  // of it, what workers that have ended worked without giving way
	waited atomic.Int64  // time in which the job did not work

	admitted atomic.Bool  // it has had a turn
	active   atomic.Int32 // workers but main

	// What [Engine.RunningQueries] shows; operation is "" for a job that is not shown.
	operation string
	caller    auth.Kind
	asked     atomic.Int64 // partitions
	read      atomic.Int64 // documents
	listing   atomic.Pointer[listing]

	main       worker       // of the goroutine that the request came in
	mainMemory streamMemory // what main holds until the job is closed
	spare      bool         // the job holds a turn that no worker has; guarded by turns.mu
}

// newJob begins the work of a request. The caller closes the job.
func (e *Engine) newJob() *job {
	j := &job{engine: e, begun: e.turns.clock(), memory: account{pool: &e.memory}}
	j.mainMemory.account = &j.memory
	return j
}

// close gives back what the job holds. Its workers have ended.
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

// wait waits for a turn of a job that was ended with query.ErrAgain. One of its
// workers may have got a turn after another had found none; then that is the one.
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

// worker is a goroutine that works for a job, as the context of what it does.
//
// Each loop that may take long calls [pacing.Check] now and then. There the worker
// counts its work, gives way to whoever waits for a processor, and waits for a turn. Once
// it may not go on, fault says why.
type worker struct {
	pacing.Context

	job     *job
	memory  *streamMemory
	turn    bool          // guarded by turns.mu when the worker is main
	since   time.Duration // when the slice under way began
	kept    time.Duration // work before since for which the goroutine did not give way
	done    int64         // what the job had spent and waited at since; of main
	quantum time.Duration // work since the turn began
	keeps   time.Duration // until when it gives way to nobody
	waited  time.Duration
	told    int64 // documents that it has counted for the job and that are on no page yet
	fault   error // why the worker does not go on; nil when its context has ended
}

// work begins w. The goroutine that calls it is the one that uses the worker, and ends
// it.
func (w *worker) work(ctx context.Context, j *job, memory *streamMemory) {
	*w = worker{job: j, memory: memory, since: j.engine.turns.clock(), done: j.spent.Load() + j.waited.Load()}
	w.Context = pacing.Context{Context: ctx, Pacer: w}
}

// workMain begins main.
func (j *job) workMain(ctx context.Context) *worker {
	j.main.work(ctx, j, &j.mainMemory)
	return &j.main
}

// begin is work for another worker than main, which leaves its turn to it.
func (w *worker) begin(ctx context.Context, j *job, memory *streamMemory) {
	w.work(ctx, j, memory)
	// Many short visits to partitions are to give way as often as a long one.
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

// end ends a worker that begin has made. Its turn is left to main, or to others
// while workers of the same job are at work.
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

// largeWork is a [partition.Work]: a large document takes turns with heavy queries.
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

// pause ends a slice of work, if it has taken long enough to be one.
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
		return status.BadRequest("The request needs more than %v of processor time, which is the most that one may use. Filter for fewer documents, or ask for a part of them at a time.", most)
	}
	if !w.job.free {
		if err := w.queue(now, spent); err != nil {
			return err
		}
	}
	w.yieldToOthers()
	return nil
}

// count adds a slice to the work that is done, and returns all of the job's.
func (w *worker) count(now time.Duration) time.Duration {
	j := w.job
	worked := now - w.since
	if w == &j.main {
		worked -= time.Duration(j.spent.Load() + j.waited.Load() - w.done) // Others have counted that.
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

// yieldToOthers yields the processor until no other goroutine waits for one:
// a request goes from one to the next, and is answered over the network.
func (w *worker) yieldToOthers() {
	t := w.job.engine.turns
	left := t.clock()
	w.since, w.kept = left, 0
	if left < w.keeps {
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
	j.list()
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
		err = w.Err()
	case <-j.stopped():
		if t.forsake(me) {
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

// Late reports whether the page of the worker ends where it is: when it was worked
// on for the time of a page, or would be answered too late otherwise.
func (w *worker) Late() bool {
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

// Grow implements [query.Granter].
func (s *streamMemory) Grow(need int64) (int64, error) {
	granted, err := s.account.take(need)
	s.held += granted
	return granted, err
}

// Read implements [query.Reader].
func (w *worker) Read(documents int) {
	w.job.read.Add(int64(documents))
	w.told += int64(documents)
}

// paged notes that a page is made for which so many documents were read.
func (w *worker) paged(documents int64) {
	w.job.read.Add(max(0, documents-w.told))
	w.told = 0
}

// bound has a budget bounded by what the worker may do.
func (w *worker) bound(b *query.Budget) { b.Late, b.Grow, b.Read = w, w.memory, w }
