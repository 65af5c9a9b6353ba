// Package script runs the JavaScript of users: user-defined functions in
// queries, stored procedures and triggers, within bounds of time and memory.
//
// A [Runner] compiles a body to a [Program] and owns the engines that run it.
// [Program.Call] is one call of a user-defined function: values in, a value
// out. [Program.Run] is one run of a stored procedure or a trigger: it works on
// documents through a [Host], which the caller implements with a transaction,
// and every call of the host is made on the goroutine of Run.
//
// # Invariants
//
//   - A call leaves nothing that another call can see: no global variable, no property
//     of a built-in object, no state of the function itself.
//   - A script can use only its arguments and its host: no files, no
//     network, no modules, no timers.
//   - A call returns shortly after its time or its context ended, whatever the
//     script does, and an engine never holds more memory than it is given.
//   - A script that throws changes nothing: Run returns an error, and the caller
//     drops the transaction.
//
// The package knows no partitions, no requests and no catalog.
//
// Page: docs/script.md.
package script

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/status"
)

// Kind is the kind of a script.
type Kind int

// The kinds of scripts.
const (
	Function    Kind = iota // a user-defined function: Call
	Procedure               // a stored procedure: Run
	PreTrigger              // runs before the write, and may change its document: Run
	PostTrigger             // runs after the write, in its transaction: Run
)

// String returns the name of the kind for messages.
func (k Kind) String() string {
	switch k {
	case Function:
		return "user-defined function"
	case Procedure:
		return "stored procedure"
	case PreTrigger, PostTrigger:
		return "trigger"
	}
	return "script"
}

// Limits bound what scripts use. A zero field has its default. Sizes are in
// bytes.
type Limits struct {
	Time        time.Duration // one call or one run: 400 or 408; 5 s by default
	AcceptTime  time.Duration // how long into a run operations are accepted; 4 s by default
	MemoryBytes int           // what one engine allocates, including its own 0.3 MB; 64 MiB by default, at least 1 MiB
	BodyBytes   int           // text of a script: 413; 512 KiB by default
	ResultBytes int           // result of a call, body of a response; 4 MiB by default
	LogBytes    int           // what console.log collects in one run, escaped as in a URL; 8,000 by default, because some clients accept only 8,190 in a header
	Engines     int           // concurrent calls, and concurrent runs; others wait; four per processor by default
	Idle        int           // engines that are kept for the next call; one per processor by default
	Runaways    int           // scripts that could not be stopped and are still running; at this number no script is started: 429; 4 by default
}

const memoryMin = 1 << 20

func (l Limits) withDefaults() Limits {
	fill(&l.Time, 5*time.Second)
	fill(&l.AcceptTime, l.Time/5*4)
	fill(&l.MemoryBytes, 64<<20)
	fill(&l.BodyBytes, 512<<10)
	fill(&l.ResultBytes, 4<<20)
	fill(&l.LogBytes, 8000)
	fill(&l.Engines, 4*runtime.GOMAXPROCS(0))
	fill(&l.Idle, runtime.GOMAXPROCS(0))
	fill(&l.Runaways, 4)
	l.MemoryBytes = max(l.MemoryBytes, memoryMin)
	return l
}

func fill[T int | time.Duration](field *T, standard T) {
	if *field <= 0 {
		*field = standard
	}
}

// grace is how long a script may take to stop after it was told to. The engine
// checks its flag much more often, except in a few built-in functions.
const grace = time.Second

// Runner compiles scripts and runs them. It is safe for concurrent use.
//
// It owns the engines. Each has its own goroutine, because a caller must be able
// to abandon one.
type Runner struct {
	limits Limits
	grace  time.Duration

	calls, runs chan struct{} // slots; separate, because a run may execute queries and then waits for calls
	runaways    atomic.Int32
	machines    sync.WaitGroup // goroutines that will end
	code        sync.Map       // bytecode of our own scripts, by their text

	mu     sync.Mutex
	idle   []*machine
	closed bool
}

// New returns a Runner with these limits. It starts nothing before the first
// script is compiled.
func New(limits Limits) *Runner {
	limits = limits.withDefaults()
	return &Runner{
		limits: limits,
		grace:  grace,
		calls:  make(chan struct{}, limits.Engines),
		runs:   make(chan struct{}, limits.Engines),
	}
}

// errClosed is the error of scripts after Close.
var errClosed = errors.New("script runner: closed")

// Close waits for the running scripts and frees the engines. It does not wait
// for scripts that could not be stopped.
func (r *Runner) Close() {
	r.mu.Lock()
	idle := r.idle
	r.idle, r.closed = nil, true
	r.mu.Unlock()
	for _, m := range idle {
		m.retire()
	}
	r.machines.Wait()
}

// Runaways returns how many abandoned scripts are still running, because they
// could not be stopped in time.
func (r *Runner) Runaways() int { return int(r.runaways.Load()) }

// enter waits for a slot. The caller must release it with leave.
func (r *Runner) enter(ctx context.Context, slots chan struct{}) error {
	if r.Runaways() >= r.limits.Runaways {
		return status.TooManyRequests(status.SubScriptConcurrency, time.Second, "%d scripts did not stop when their time was over. No other is started before one of them ends.", r.Runaways())
	}
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Runner) leave(slots chan struct{}) { <-slots }
