package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// machine is an engine without data on one processor, with a clock that the test
// sets.
type machine struct {
	*Engine
	now    time.Duration
	yields int // number of calls of yield
}

func newMachine(processors, queue int, memoryBytes int64) *machine {
	limits := resource.DefaultLimits()
	limits.QueryQueue, limits.QueryMemoryBytes = queue, memoryBytes
	m := &machine{Engine: &Engine{limits: limits, metrics: newMetrics(nil, nil)}}
	m.turns = newTurns(queue, func() { m.yields++ })
	m.turns.processors = func() int { return processors }
	m.turns.clock = func() time.Duration { return m.now }
	m.memory.total, m.memory.refused = memoryBytes, func() {}
	return m
}

// works lets a worker work for a time, and returns the result of its next
// check.
func (m *machine) works(w *worker, d time.Duration) error {
	m.now += d
	return pacing.Check(w)
}

// begin starts a worker of a job.
func begin(t *testing.T, j *job) *worker {
	w := new(worker)
	w.begin(t.Context(), j, nil)
	return w
}

// A query works without a turn at first, then takes one, and returns it at its
// end.
func TestTurnsFreeTime(t *testing.T) {
	m := newMachine(1, 4, 1<<20)
	j := m.newJob()
	w := begin(t, j)
	if err := m.works(w, freeTime); err != nil || m.turns.held != 0 {
		t.Fatalf("after its free time: %v, %d turns held, want none", err, m.turns.held)
	}
	if err := m.works(w, quietTime); err != nil || m.turns.held != 1 {
		t.Fatalf("beyond its free time: %v, %d turns held, want 1", err, m.turns.held)
	}
	if m.yields == 0 {
		t.Error("it never yielded")
	}
	w.end()
	if m.turns.held != 1 || !j.spare {
		t.Errorf("%d turns between two streams, want 1", m.turns.held)
	}
	j.close()
	if m.turns.held != 0 {
		t.Errorf("%d turns held at the end, want 0", m.turns.held)
	}
}

// If no turn is free, a query waits in a bounded line and starts again with its
// turn. It leaves the line when its context ends.
func TestTurnsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(1, 2, 1<<20)
		first := m.newJob()
		w := begin(t, first)
		if err := m.works(w, 2*freeTime); err != nil {
			t.Fatal(err)
		}
		second := m.newJob()
		second.again = true
		v := begin(t, second)
		if err := m.works(v, 2*freeTime); !errors.Is(err, query.ErrAgain) {
			t.Fatalf("got %v without a free turn, want ErrAgain", err)
		}
		v.end()
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 2)
		go func() { results <- second.wait(ctx) }()
		third := m.newJob()
		go func() { results <- third.wait(t.Context()) }()
		synctest.Wait()
		fourth := m.newJob()
		err := fourth.wait(t.Context())
		if e := status.From(err); e == nil || e.Code != status.CodeTooManyRequests || e.Sub != status.SubSystemBusy || e.RetryAfter < retryMin {
			t.Fatalf("got %v with a full line, want 429/3092 with a retry time", err)
		}
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled while it waits: %v", err)
		}
		w.end()
		first.close()
		if err := <-results; err != nil || m.turns.held != 1 || m.turns.waiting.Load() != 0 {
			t.Fatalf("%v, %d turns held, %d wait; want the third waiter to have the turn", err, m.turns.held, m.turns.waiting.Load())
		}
		third.close()
		if m.turns.held != 0 {
			t.Errorf("%d turns are left", m.turns.held)
		}
	})
}

// A query that waits for its first turn for ten seconds is refused.
func TestTurnsWaitTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(1, 2, 1<<20)
		m.turns.held = 1
		began := time.Now()
		if err := m.newJob().wait(t.Context()); status.CodeOf(err) != status.CodeTooManyRequests {
			t.Fatalf("got %v, want 429", err)
		}
		if waited := time.Since(began); waited != 10*time.Second {
			t.Errorf("refused after %v, want 10 s", waited)
		}
		if m.turns.waiting.Load() != 0 || m.turns.fresh.n != 0 {
			t.Error("it is still waiting")
		}
	})
}

// The message for a refused write of a large document fits a write as well as a
// query.
func TestTurnsRefusalOfWrites(t *testing.T) {
	m := newMachine(1, 0, 1<<20)
	m.turns.held = 1
	ctx, end := m.largeWork(t.Context())
	err := status.From(end(m.works(ctx.(*worker), 2*freeTime)))
	if err == nil || err.Code != status.CodeTooManyRequests || err.Sub != status.SubSystemBusy {
		t.Fatalf("got %v, want 429/3092", err)
	}
	if !strings.Contains(err.Message, "requests") || !strings.Contains(err.Message, "smaller document") {
		t.Errorf("a write gets the message: %s", err.Message)
	}
}

// Of two workers, one may find no turn while the other gets one that has become
// free before the attempt ends: the job starts again with that turn.
func TestTurnsOneOfTwo(t *testing.T) {
	m := newMachine(1, 2, 1<<20)
	j := m.newJob()
	j.again = true
	w, v := begin(t, j), begin(t, j)
	m.turns.held = 1 // of another request
	if err := m.works(w, 2*freeTime); !errors.Is(err, query.ErrAgain) {
		t.Fatalf("got %v without a free turn", err)
	}
	m.turns.release()
	if err := m.works(v, 2*freeTime); err != nil {
		t.Fatal(err)
	}
	w.end()
	v.end()
	if err := j.wait(t.Context()); err != nil || !j.spare || m.turns.held != 1 {
		t.Fatalf("%v, spare %v, %d turns held; want only the turn that it has", err, j.spare, m.turns.held)
	}
	j.close()
	if m.turns.held != 0 {
		t.Errorf("%d turns are left", m.turns.held)
	}
}

// The line serves containers in rotation, and the waiters of one container in
// their order.
func TestTurnsFairness(t *testing.T) {
	var l line
	list := []*waiter{{container: "a"}, {container: "a"}, {container: "a"}, {container: "b"}, {container: "c"}, {container: "b"}}
	for _, w := range list {
		l.push(w)
	}
	if !l.remove(list[1]) || l.remove(list[1]) {
		t.Fatal("a waiter is removed once")
	}
	var got []int
	for l.n > 0 {
		got = append(got, slices.Index(list, l.pop()))
	}
	if want := []int{0, 3, 4, 2, 5}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// A query passes its turn to a waiter after a quantum, and gets it back.
func TestTurnsQuantum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(1, 2, 1<<20)
		first := m.newJob()
		w := begin(t, first)
		if err := m.works(w, 2*freeTime); err != nil {
			t.Fatal(err)
		}
		second := m.newJob()
		admitted := make(chan error, 1)
		go func() {
			err := second.wait(t.Context())
			admitted <- err
			second.close()
		}()
		synctest.Wait()
		for w.quantum < quantum-sliceMax {
			if err := m.works(w, sliceMax); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-admitted:
			t.Fatal("the second was admitted before the quantum of the first was over")
		default:
		}
		if err := m.works(w, sliceMax); err != nil {
			t.Fatal(err)
		}
		if err := <-admitted; err != nil {
			t.Fatal(err)
		}
		if !w.turn || m.turns.held != 1 {
			t.Errorf("the first has no turn again; %d are held", m.turns.held)
		}
		w.end()
		first.close()
	})
}

// An operation on a single document reserves one processor for 20 ms, but not the last
// one.
func TestTurnsBusy(t *testing.T) {
	m := newMachine(4, 2, 1<<20)
	if got := m.turns.limit(m.now); got != 4 {
		t.Errorf("%d turns on 4 processors, want 4", got)
	}
	m.turns.point()
	if got := m.turns.limit(m.now); got != 3 {
		t.Errorf("%d turns during operations on single documents, want 3", got)
	}
	if got := m.turns.limit(m.now + 20*time.Millisecond - 1); got != 3 {
		t.Errorf("%d turns within 20 ms, want 3", got)
	}
	if got := m.turns.limit(m.now + 20*time.Millisecond); got != 4 {
		t.Errorf("%d turns after 20 ms, want 4", got)
	}
	m = newMachine(1, 2, 1<<20)
	m.turns.point()
	if got := m.turns.limit(m.now); got != 1 {
		t.Errorf("%d turns on 1 processor, want 1", got)
	}
}

// A request that exceeds its processor time is refused. Waiting does not count.
func TestTurnsProcessorTime(t *testing.T) {
	m := newMachine(1, 2, 1<<20)
	m.limits.QueryTime = 5 * sliceMax
	j := m.newJob()
	w := begin(t, j)
	for range 5 {
		if err := m.works(w, time.Second); err != nil { // 10 ms of it are work.
			t.Fatal(err)
		}
	}
	if err := m.works(w, quietTime); status.CodeOf(err) != status.CodeBadRequest {
		t.Fatalf("got %v, want 400", err)
	}
	w.end()
	j.close()
	if m.turns.held != 0 {
		t.Errorf("%d turns are left", m.turns.held)
	}
}

// All queries share the memory: a request up to the limit gets it, one beyond it is
// 429 with a retry time, and one that alone needs more is 400.
func TestMemoryTotal(t *testing.T) {
	const total = 4 * memoryStep
	m := newMachine(1, 2, total)
	first, second := m.newJob(), m.newJob()
	if granted, err := first.memory.take(total - memoryStep); err != nil || granted != total-memoryStep {
		t.Fatal(granted, err)
	}
	if granted, err := second.memory.take(1); err != nil || granted != memoryStep {
		t.Fatal(granted, err)
	}
	if _, err := second.memory.take(1); status.CodeOf(err) != status.CodeTooManyRequests || status.From(err).RetryAfter == 0 {
		t.Fatalf("got %v, want 429 with a retry time", err)
	}
	if _, err := second.memory.take(total); status.CodeOf(err) != status.CodeBadRequest {
		t.Fatalf("got %v, want 400", err)
	}
	first.close()
	if granted, err := second.memory.take(total - memoryStep); err != nil || granted != total-memoryStep {
		t.Fatal(granted, err)
	}
	second.memory.give(memoryStep)
	second.close()
	if m.memory.used != 0 {
		t.Errorf("%d bytes are left", m.memory.used)
	}
}

// Queries return their turns and memory, whether they succeed, are refused or are
// cancelled.
func TestHeavyQueriesLeaveNothing(t *testing.T) {
	t.Parallel()
	e, link, _ := unindexed(t)
	ctx := context.Background()
	distinct := QueryRequest{Link: link, Text: "SELECT DISTINCT VALUE CONCAT(c.id, '" + strings.Repeat("x", 200) + "') FROM c", Full: true, Cross: true}
	clean := func(when string) {
		t.Helper()
		if used := e.memory.bytes(); used != 0 || e.turns.held != 0 || e.turns.waiting.Load() != 0 {
			t.Errorf("%s: %d bytes, %d turns, %d waiting are left", when, used, e.turns.held, e.turns.waiting.Load())
		}
	}
	if _, err := e.Query(ctx, auth.Owner(), distinct); err != nil {
		t.Fatal(err)
	}
	clean("success")
	e.memory.used = e.memory.total // All of it is in use.
	if _, err := e.Query(ctx, auth.Owner(), distinct); status.CodeOf(err) != status.CodeTooManyRequests {
		t.Fatalf("got %v without memory, want 429", err)
	}
	e.memory.used -= e.memory.total
	clean("refusal")
	for n := int64(1); n < 40; n++ {
		_, _ = e.Query(newFuse(n), auth.Owner(), distinct)
		clean("cancelled")
	}
}

// A query that waits in the line for its first turn has returned the memory of its
// first attempt.
func TestWaitingQueriesHoldNoMemory(t *testing.T) {
	t.Parallel()
	e, link, _ := unindexed(t)
	var now, peak atomic.Int64
	e.turns.clock = func() time.Duration { // Each check of a worker reads it.
		peak.Store(max(peak.Load(), e.memory.bytes()))
		return time.Duration(now.Add(int64(20 * time.Microsecond)))
	}
	e.turns.processors = func() int { return 1 }
	e.turns.held = 1 // of another request
	distinct := QueryRequest{Link: link, Text: "SELECT DISTINCT VALUE CONCAT(c.id, '" + strings.Repeat("x", 4000) + "') FROM c", Full: true, Cross: true}
	done := make(chan error, 1)
	go func() {
		_, err := e.Query(context.Background(), auth.Owner(), distinct)
		done <- err
	}()
	untilWaiting(t, e, done)
	if peak.Load() == 0 {
		t.Error("the first attempt used no memory: the test shows nothing")
	}
	if used := e.memory.bytes(); used != 0 {
		t.Errorf("%d bytes while the query waits, want 0", used)
	}
	e.turns.release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The time that the main worker has waited counts as waiting in later attempts,
// too, and not as work on the page.
func TestWaitsOfEarlierAttempts(t *testing.T) {
	m := newMachine(1, 4, 1<<20)
	m.limits.PageTime = time.Second
	m.turns.yield = func() { m.now += 2 * time.Second }
	j := m.newJob()
	if err := m.works(j.workMain(t.Context()), quietTime); err != nil {
		t.Fatal(err)
	}
	j.main.finish()
	if m.now < 2*time.Second {
		t.Fatalf("the worker has not yielded: %v", m.now)
	}
	if j.workMain(t.Context()).Late() {
		t.Error("a page is late because of a wait before it")
	}
	j.main.finish()
	j.close()
}

// Visits to many partitions, each shorter than a slice, yield as often as one long
// visit and need a turn like it. Their time is counted once: by the worker that asks
// the partition, not by main, too.
func TestTurnsShortVisits(t *testing.T) {
	m := newMachine(1, 4, 1<<20)
	j := m.newJob()
	main := j.workMain(t.Context())
	const visits, each = 100, quietTime / 10
	for range visits {
		w := begin(t, j)
		if err := pacing.Check(w); err != nil {
			t.Fatal(err)
		}
		m.now += each
		w.end()
	}
	if err := pacing.Check(main); err != nil {
		t.Fatal(err)
	}
	if got := time.Duration(j.spent.Load()); got != visits*each {
		t.Errorf("%v counted, want %v", got, visits*each)
	}
	if least := int(visits * each / quietTime / 2); m.yields < least {
		t.Errorf("it yielded %d times, want at least %d", m.yields, least)
	}
	if !j.admitted.Load() {
		t.Errorf("it has no turn after %v", visits*each)
	}
	main.finish()
	j.close()
	if m.turns.held != 0 {
		t.Errorf("%d turns are left", m.turns.held)
	}
}

// A request that needs a turn is listed until it is closed, with the time since it began,
// and can be cancelled in every state: at work, paused, or in the line. Other requests
// continue. A job that is not a page is never listed.
func TestRunningCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(1, 4, 1<<20)
		m.limits.LongQuery = time.Second
		m.logger = slog.New(slog.DiscardHandler)
		page := func() *job {
			j := m.newJob()
			j.operation = runningQuery
			return j
		}
		cancel := func(j *job) {
			t.Helper()
			id := strconv.FormatUint(j.listing.Load().id, 10)
			for range 2 {
				if err := m.CancelQuery(auth.Owner(), id); err != nil {
					t.Error(err)
				}
			}
		}
		refused := func(what string, err error) {
			t.Helper()
			if status.CodeOf(err) != status.CodeBadRequest || !strings.Contains(err.Error(), "cancelled by an operator") {
				t.Errorf("%s: %v, want 400 that says so", what, err)
			}
		}

		short := page()
		w := begin(t, short)
		if err := m.works(w, freeTime); err != nil || short.listing.Load() != nil {
			t.Errorf("within its free time: listed, or %v", err)
		}
		w.end()
		short.close()
		write := m.newJob()
		w = begin(t, write)
		if err := m.works(w, freeTime+quietTime); err != nil || write.listing.Load() != nil {
			t.Errorf("a write: listed, or %v", err)
		}
		w.end()
		write.close()

		working, paused, fresh := page(), page(), page()
		fresh.again = true
		w = begin(t, working)
		if err := m.works(w, freeTime+quietTime); err != nil {
			t.Fatal(err)
		}
		var results [2]error
		done := make(chan int)
		go func() {
			p := begin(t, paused)
			p.job.spent.Store(int64(2 * freeTime))
			p.kept = quietTime
			results[0] = pacing.Check(p)
			p.end()
			done <- 0
		}()
		synctest.Wait()
		go func() {
			p := begin(t, fresh)
			p.job.spent.Store(int64(2 * freeTime))
			p.kept = quietTime
			if err := pacing.Check(p); !errors.Is(err, query.ErrAgain) {
				t.Errorf("without a turn: %v", err)
			}
			p.end()
			results[1] = fresh.wait(t.Context())
			done <- 1
		}()
		synctest.Wait()
		if n := m.turns.waiting.Load(); n != 2 {
			t.Fatalf("%d wait, want 2", n)
		}
		if n := len(m.long()); n != 0 {
			t.Errorf("%d are long before a second has passed", n)
		}
		m.now += time.Second
		if long := m.long(); len(long) != 3 || long[0] != working || long[1] != paused || long[2] != fresh {
			t.Errorf("%d are long, want three in their order", len(long))
		}
		cancel(paused)
		<-done
		refused("paused", results[0])
		if n := m.turns.waiting.Load(); n != 1 {
			t.Errorf("%d wait, want 1: the others continue", n)
		}
		cancel(fresh)
		<-done
		refused("in the line", results[1])
		if err := m.works(w, quietTime); err != nil {
			t.Errorf("the one at work: %v", err)
		}
		cancel(working)
		refused("at work", m.works(w, quietTime))
		refused("again", pacing.Check(w))
		w.end()
		for _, j := range []*job{working, paused, fresh} {
			id := strconv.FormatUint(j.listing.Load().id, 10)
			j.close()
			if err := m.CancelQuery(auth.Owner(), id); status.CodeOf(err) != status.CodeNotFound {
				t.Errorf("when it is done: %v, want 404", err)
			}
		}
		if m.turns.held != 0 || m.turns.waiting.Load() != 0 || len(m.running.listed) != 0 {
			t.Errorf("%d turns, %d waiting, %d listed are left", m.turns.held, m.turns.waiting.Load(), len(m.running.listed))
		}
		for _, id := range []string{"", "x", "0", "99"} {
			if err := m.CancelQuery(auth.Owner(), id); status.CodeOf(err) != status.CodeNotFound {
				t.Errorf("cancel %q: %v, want 404", id, err)
			}
		}
		if err := m.CancelQuery(auth.Caller{}, "1"); status.CodeOf(err) != status.CodeUnauthorized {
			t.Errorf("cancelled without permission: %v, want 401", err)
		}
		if _, err := m.RunningQueries(auth.Caller{}); status.CodeOf(err) != status.CodeUnauthorized {
			t.Errorf("listed without permission: %v, want 401", err)
		}
	})
}
