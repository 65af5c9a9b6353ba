// Package batchlog makes the logged batches of the Cassandra API atomic when they change
// several partition keys: after a crash, all changes of a batch are made, or none.
//
// The statements of CQL use it. Learn [Log]: [Log.Write] records a batch, makes its
// changes and removes the record. [Log.Start] finishes the batches that a crash or an
// error has interrupted.
//
// # Invariants
//
// A record is durable before the first change of its batch, and is removed after the
// last one is durable. It has all that the changes depend on, timestamps included, so
// making them again changes nothing.
//
// Absent: isolation. Readers see some changes of a batch before others.
//
// The package knows no statement: a record is bytes that [Config.Decode] reads.
//
// Page: docs/cassandra.md
package batchlog

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/status"
)

// Config configures a Log. Engine and Decode are required.
type Config struct {
	Engine *engine.Engine

	// Decode returns the writes of a record. It leaves out those that must not be made
	// any more, for example because their table was dropped.
	Decode func(record []byte) ([]engine.WriteItemsRequest, error)

	Logger *slog.Logger // nil discards the log

	// Retry is the pause before an interrupted batch is finished, and the first pause
	// between two attempts. Zero means a second.
	Retry time.Duration

	// step is called with the name of every step of a batch. Tests simulate crashes in
	// it.
	step func(name string) error
}

// The steps of a batch, each before what it names.
const (
	stepRecord = "record"
	stepWrite  = "write" // of one partition key
	stepAnswer = "answer"
	stepRemove = "remove"
)

// Log has the batches in progress. It is safe for concurrent use.
type Log struct {
	cfg Config

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{} // asks for a replay

	mu     sync.Mutex
	active map[string]bool // the keys of the records of calls in progress
	closed bool
}

// New returns a log. It finishes no batch of an earlier run before Start.
func New(cfg Config) *Log {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Retry <= 0 {
		cfg.Retry = time.Second
	}
	if cfg.step == nil {
		cfg.step = func(string) error { return nil }
	}
	l := &Log{cfg: cfg, wake: make(chan struct{}, 1), active: map[string]bool{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Start finishes interrupted batches in the background, those of earlier runs first.
func (l *Log) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.running.Go(l.replays)
}

// Close stops all work and waits for it. Batches that are interrupted are finished after
// the next Start.
func (l *Log) Close() {
	l.mu.Lock()
	l.closed = true
	l.stop()
	l.mu.Unlock()
	l.running.Wait()
}

// Error is the error of a batch.
type Error struct {
	// Recorded says that the record is durable: the batch will be finished later. If it
	// is false and the error is not certain, it may be.
	Recorded bool
	Err      error
}

// Error returns the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// throughputWait is how long a batch waits for throughput after it was recorded.
const throughputWait = 2 * time.Second

// Write makes the changes of a batch, each with the rights of the caller, and returns when
// all are durable. record is what Config.Decode needs to make them again. The error is an
// *Error.
func (l *Log) Write(ctx context.Context, caller auth.Caller, record []byte, writes []engine.WriteItemsRequest) (engine.ItemsResult, error) {
	key, err := l.begin()
	if err != nil {
		return engine.ItemsResult{}, &Error{Err: err}
	}
	complete := false
	defer func() {
		if !complete {
			l.end(key)
			l.replaySoon()
		}
	}()
	if err := l.save(ctx, caller, key, record); err != nil {
		return engine.ItemsResult{}, &Error{Err: err}
	}
	result, err := l.apply(ctx, caller, writes)
	if err == nil {
		err = l.cfg.step(stepAnswer)
	}
	if err != nil {
		return result, &Error{Recorded: true, Err: err}
	}
	complete = l.later(func() {
		defer l.end(key)
		if err := l.remove(l.ctx, key); err != nil {
			l.replaySoon()
		}
	})
	return result, nil
}

// begin returns a new key, which no replay touches before end.
func (l *Log) begin() (string, error) {
	key := newKey()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return "", status.Unavailable(nil, "The server is shutting down.")
	}
	l.active[key] = true
	return key, nil
}

func (l *Log) end(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.active, key)
}

func (l *Log) isActive(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.active[key]
}

// later calls do in a goroutine, unless the log is closed.
func (l *Log) later(do func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.running.Go(do)
	return true
}

// replaySoon asks for a replay.
func (l *Log) replaySoon() {
	select {
	case l.wake <- struct{}{}:
	default: // One is asked for already.
	}
}

// apply makes changes and returns the first error, after all of them have ended. It waits
// for throughput.
func (l *Log) apply(ctx context.Context, caller auth.Caller, writes []engine.WriteItemsRequest) (total engine.ItemsResult, err error) {
	if err := l.cfg.step(stepWrite); err != nil {
		return total, err
	}
	for until := time.Now().Add(throughputWait); ; {
		result, errs := l.cfg.Engine.WriteAllItems(ctx, caller, writes)
		total.Add(result)
		var refused []engine.WriteItemsRequest
		pause := time.Millisecond
		err = nil
		for i, failed := range errs {
			if known := status.From(failed); known != nil && known.Code == status.CodeTooManyRequests {
				refused, pause = append(refused, writes[i]), max(pause, known.RetryAfter)
			} else if failed != nil {
				return total, failed
			}
			err = cmp.Or(err, failed)
		}
		if len(refused) == 0 || time.Now().After(until) || pacing.Sleep(ctx, pause) != nil {
			return total, err
		}
		writes = refused
	}
}
