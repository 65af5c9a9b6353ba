package engine

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
	"github.com/decandb/decan/partitionkey"
)

// Queries in the line and paused goroutines get alternate turns, and all turns if
// there are no others.
func TestTurnsAlternate(t *testing.T) {
	turns := newTurns(8, func() {})
	kinds := map[*waiter]string{}
	for range 3 {
		fresh, paused := new(waiter), new(waiter)
		kinds[fresh], kinds[paused] = "fresh", "paused"
		turns.fresh.push(fresh)
		turns.paused = append(turns.paused, paused)
	}
	last := new(waiter)
	kinds[last] = "paused"
	turns.paused = append(turns.paused, last)
	var order []string
	for range kinds {
		order = append(order, kinds[turns.nextLocked()])
	}
	if got := strings.Join(order, " "); got != "fresh paused fresh paused fresh paused paused" {
		t.Errorf("order %s", got)
	}
}

// A goroutine that has used its quantum of 50 ms is paused if another one waits. It
// keeps its turn while eight others are paused, because each of them holds a snapshot
// and memory.
func TestTurnsPausedAreBounded(t *testing.T) {
	m := newMachine(1, 4, 1<<20)
	j := m.newJob()
	ctx, cancel := context.WithCancel(t.Context())
	w := new(worker)
	w.begin(ctx, j, nil)
	if err := m.works(w, freeTime+quietTime); err != nil || !w.turn {
		t.Fatalf("%v, turn %v", err, w.turn)
	}
	m.turns.mu.Lock()
	for range 8 {
		m.turns.paused = append(m.turns.paused, &waiter{ready: make(chan struct{})})
		m.turns.waiting.Add(1)
	}
	m.turns.mu.Unlock()
	for range 20 {
		if err := m.works(w, sliceMax); err != nil || !w.turn {
			t.Fatalf("%v, turn %v; want it to continue", err, w.turn)
		}
	}
	if w.quantum < 50*time.Millisecond {
		t.Fatalf("it has worked for %v with its turn, want 50 ms or more", w.quantum)
	}
	// With seven it is paused: its context has ended, so it does not wait.
	m.turns.mu.Lock()
	m.turns.paused = m.turns.paused[1:]
	m.turns.waiting.Add(-1)
	m.turns.mu.Unlock()
	cancel()
	m.now += quietTime
	if err := w.ensureTurn(m.now, time.Duration(j.spent.Load())); !errors.Is(err, context.Canceled) || w.turn {
		t.Errorf("%v, turn %v; want it to be paused", err, w.turn)
	}
	m.turns.mu.Lock()
	m.turns.paused, m.turns.held = nil, 0
	m.turns.waiting.Store(0)
	m.turns.mu.Unlock()
	w.end()
	j.close()
}

// A goroutine yields after 100 µs while operations on single documents come in, and
// after 500 µs otherwise.
func TestWorkersYield(t *testing.T) {
	for _, c := range []struct {
		busy  bool
		every time.Duration
	}{{true, 100 * time.Microsecond}, {false, 500 * time.Microsecond}} {
		m := newMachine(2, 4, 1<<20)
		j := m.newJob()
		w := begin(t, j)
		if c.busy {
			m.turns.point()
		}
		if err := m.works(w, c.every-1); err != nil || m.yields != 0 {
			t.Errorf("busy %v: %v, yielded %d times in less than %v", c.busy, err, m.yields, c.every)
		}
		if err := m.works(w, 1); err != nil || m.yields == 0 {
			t.Errorf("busy %v: %v, not yielded after %v", c.busy, err, c.every)
		}
		w.end()
		j.close()
	}
}

// A goroutine yields until it gets its processor back at once, for at most 1 ms.
// Then it keeps the processor for a quarter of the time that it has waited, at most
// for 2 ms.
func TestWorkersKeepTheirProcessor(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits []time.Duration // of one call of yield after another; then 0
		calls int
		keeps time.Duration
	}{
		{"alone", nil, aloneTimes, 0},
		{"one request", []time.Duration{200 * time.Microsecond}, 1 + aloneTimes, 50 * time.Microsecond},
		{"always busy", []time.Duration{400 * time.Microsecond, 400 * time.Microsecond, 400 * time.Microsecond, 400 * time.Microsecond}, 3, 300 * time.Microsecond},
		{"a long wait", []time.Duration{100 * time.Millisecond}, 1, 2 * time.Millisecond},
	} {
		m := newMachine(2, 4, 1<<20)
		calls := 0
		m.turns.yield = func() {
			if calls < len(c.waits) {
				m.now += c.waits[calls]
			}
			calls++
		}
		j := m.newJob()
		w := begin(t, j)
		m.turns.point()
		if err := m.works(w, sliceTime); err != nil {
			t.Fatal(err)
		}
		if calls != c.calls {
			t.Errorf("%s: yielded %d times, want %d", c.name, calls, c.calls)
		}
		if keeps := w.noYieldUntil - m.now; keeps != c.keeps {
			t.Errorf("%s: it keeps its processor for %v, want %v", c.name, keeps, c.keeps)
		}
		if c.keeps > sliceTime {
			calls = 0
			m.turns.point()
			if err := m.works(w, sliceTime); err != nil || calls != 0 {
				t.Errorf("%s: %v, yielded %d times while it may keep its processor", c.name, err, calls)
			}
			if err := m.works(w, c.keeps); err != nil || calls == 0 {
				t.Errorf("%s: %v, not yielded afterwards", c.name, err)
			}
		}
		w.end()
		j.close()
	}
}

// A page ends after its time of work, to which waiting does not count, or when half
// of the time of its request has passed, to which it does.
func TestPagesEndInTime(t *testing.T) {
	m := newMachine(2, 4, 1<<20)
	m.limits.PageTime, m.limits.RequestTimeout = 5*time.Second, 60*time.Second
	for _, c := range []struct {
		worked, waited, others time.Duration // waited by this worker, and by earlier ones
		late                   bool
	}{
		{5*time.Second - 1, 0, 0, false},
		{5 * time.Second, 0, 0, true},
		{time.Second, 10 * time.Second, 10 * time.Second, false},
		{5 * time.Second, 10 * time.Second, 10 * time.Second, true},
		{time.Second, 15 * time.Second, 14*time.Second - 1, false},
		{time.Second, 15 * time.Second, 14 * time.Second, true},
	} {
		j := m.newJob()
		w := begin(t, j)
		m.now += c.worked + c.waited + c.others
		w.waited = c.waited
		j.waited.Store(int64(c.others))
		if got := w.Late(); got != c.late {
			t.Errorf("%+v: late %v", c, got)
		}
		w.waited = 0
		w.end()
		j.close()
	}
}

// The memory of a page is returned when its stream is asked for the next page.
func TestMemoryOfPages(t *testing.T) {
	m := newMachine(1, 4, 1<<20)
	j := m.newJob()
	stream, other := streamMemory{account: &j.memory}, streamMemory{account: &j.memory}
	for _, s := range []*streamMemory{&stream, &other} {
		if _, err := s.Grow(400_000); err != nil {
			t.Fatal(err)
		}
	}
	if used := m.memory.bytes(); used < 800_000 {
		t.Fatalf("%d bytes are used", used)
	}
	stream.renew()
	if used := m.memory.bytes(); used < 400_000 || used > 400_000+memoryStep {
		t.Errorf("%d bytes are used after one stream has begun its next page", used)
	}
	j.close()
	if used := m.memory.bytes(); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
}

// allTaken returns an engine with documents in one partition key, whose only turn
// is taken by another request, and on which every check of a worker ends a slice of
// 2 ms.
func allTaken(t *testing.T) (e *Engine, link Link, key *partitionkey.Key) {
	t.Helper()
	e, _ = split(t, 1)
	ctx, caller, link := context.Background(), auth.Owner(), Link{Database: "d", Container: "one"}
	body := parse(t, `{"id":"one","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"includedPaths":[],"excludedPaths":[{"path":"/*"}]}}`)
	if _, err := e.CreateContainer(ctx, caller, ContainerRequest{Link: Link{Database: "d"}, Body: body}); err != nil {
		t.Fatal(err)
	}
	const documents = 300
	for i := range documents {
		doc := parse(t, `{"id":"`+strings.Repeat("x", i+1)+`","pk":"p","n":1}`)
		if _, err := e.Create(ctx, caller, DocumentRequest{Link: link, Document: doc}); err != nil {
			t.Fatal(err)
		}
	}
	var now atomic.Int64
	e.turns.clock = func() time.Duration { return time.Duration(now.Add(int64(2 * time.Millisecond))) }
	e.turns.processors = func() int { return 1 }
	e.turns.mu.Lock()
	e.turns.held = 1
	e.turns.mu.Unlock()
	k := partitionkey.NewKey(partitionkey.String("p"))
	return e, link, &k
}

// untilWaiting returns when a request waits for a turn. The test fails if the request
// is done before.
func untilWaiting[T any](t *testing.T, e *Engine, done <-chan T) {
	t.Helper()
	for e.turns.waiting.Load() == 0 {
		select {
		case result := <-done:
			t.Fatalf("the request did not wait for a turn: %v", result)
		default:
			time.Sleep(time.Millisecond)
		}
	}
}

// Queries of stored procedures do not wait for a turn, because writes to their key
// wait for them. They are not listed.
func TestQueriesOfProceduresNeedNoTurn(t *testing.T) {
	t.Parallel()
	e, link, key := allTaken(t)
	runner := script.New(script.Limits{})
	t.Cleanup(runner.Close)
	e.scripts = runner
	body := parse(t, `{"id":"f","body":"function () { var c = getContext(); c.getCollection().queryDocuments(c.getCollection().getSelfLink(), 'SELECT VALUE c.id FROM c WHERE c.n = 2', function (error, rows) { if (error) throw error; c.getResponse().setBody(rows.length); }); }"}`)
	if _, err := e.CreateScript(t.Context(), auth.Owner(), ScriptRequest{Kind: resource.Procedure, Link: link, Body: body}); err != nil {
		t.Fatal(err)
	}
	began := e.turns.clock()
	got, err := e.Execute(t.Context(), auth.Owner(), ExecuteRequest{Link: link, Procedure: "f", Key: key})
	if err != nil || string(got.Body) != "0" {
		t.Fatalf("%s, %v", got.Body, err)
	}
	if worked := e.turns.clock() - began; worked < 10*time.Millisecond {
		t.Errorf("the query was checked for %v: the test shows nothing", worked)
	}
	if e.turns.waiting.Load() != 0 || e.running.last != 0 {
		t.Errorf("%d waiting, %d listed", e.turns.waiting.Load(), e.running.last)
	}
}

// Queries over definitions do not wait for a turn.
func TestQueriesOfDefinitionsNeedNoTurn(t *testing.T) {
	t.Parallel()
	e, _, _ := allTaken(t)
	page, err := e.QueryContainers(t.Context(), auth.Owner(), QueryRequest{Link: Link{Database: "d"}, Text: "SELECT VALUE c.id FROM c ORDER BY c.id"})
	if err != nil || len(page.Rows) != 2 {
		t.Errorf("%q, %v", page.Rows, err)
	}
}

// A page of the change feed waits for its turn in the middle of its work: it does
// not read again what it has.
func TestFeedsWaitForTurns(t *testing.T) {
	t.Parallel()
	e, link, _ := allTaken(t)
	type answer struct {
		page Feed
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		page, err := e.Feed(context.Background(), auth.Owner(), FeedRequest{Link: link, MaxItems: -1})
		done <- answer{page, err}
	}()
	untilWaiting(t, e, done)
	e.turns.mu.Lock()
	paused, fresh := len(e.turns.paused), e.turns.fresh.n
	e.turns.mu.Unlock()
	if paused != 1 || fresh != 0 {
		t.Errorf("%d paused, %d in the line, want 1 and 0", paused, fresh)
	}
	e.turns.release()
	if a := <-done; a.err != nil || len(a.page.Rows) != 300 {
		t.Errorf("%d documents, %v", len(a.page.Rows), a.err)
	}
}

// The work that a query drops when it waits for its first turn is not charged: here
// that of the partitions that it has read before it needs a turn.
func TestDroppedWorkIsNotCharged(t *testing.T) {
	t.Parallel()
	e, link, _ := unindexed(t)
	req := QueryRequest{Link: link, Text: "SELECT VALUE c.id FROM c WHERE c.n = 2", Cross: true}
	var now, calls, step atomic.Int64
	e.turns.clock = func() time.Duration {
		calls.Add(1)
		return time.Duration(now.Add(step.Load()))
	}
	e.turns.processors = func() int { return 1 }
	calls.Store(0)
	page, err := e.Query(t.Context(), auth.Owner(), req)
	if err != nil || page.Charge == 0 {
		t.Fatalf("%v, %v", page.Charge, err)
	}
	step.Store(int64(2*freeTime) / calls.Load()) // The free time ends in the middle.
	e.turns.mu.Lock()
	e.turns.held = 1 // of another request
	e.turns.mu.Unlock()
	done := make(chan float64, 1)
	go func() {
		page, err := e.Query(context.Background(), auth.Owner(), req)
		if err != nil {
			t.Error(err)
		}
		done <- page.Charge
	}()
	untilWaiting(t, e, done)
	e.turns.release()
	if waited := <-done; waited != page.Charge {
		t.Errorf("%v RU after a wait, %v without one", waited, page.Charge)
	}
}
