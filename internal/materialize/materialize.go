// Package materialize keeps the materialized views of the Cassandra API: it brings the
// rows of the views into agreement with the rows of their tables.
//
// The statements of CQL use it. Learn [Keeper]: a write of a table with views leaves an
// outbox in its effect, and [Keeper.Settle] reads it, changes the views and removes it.
// [Keeper.Start] settles what a crash or an error has left, and builds views of tables
// that have rows already. [Keeper.Builds] tells how far it is.
//
// # Invariants
//
// A row of a view is a function of one row of its table and the time: package table has
// it. Settling computes it from the row as it is then, never from the write, so settling
// again, later, or for several writes at once gives the same view. Only one call at a
// time settles or builds rows of a partition key, so a view is never changed by what an
// earlier state of the row says after a later one was used.
//
// An entry leaves an outbox only when the views are durable for a state of the row that
// is at least as new as the entry.
//
// Absent: isolation. Between a write and its answer, readers may see the table without
// the view, and one of the changes of a view before another.
//
// The package knows no statement, and decides nothing about rows.
//
// Page: docs/cassandra.md
package materialize

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/table"
)

// Viewed is a table with materialized views.
type Viewed struct {
	RID         resource.RID
	Table       *table.Table
	Projections []*table.Projection
	Views       map[[16]byte]resource.RID // the containers of the views by their ids
}

// Config configures a Keeper. Engine, Viewed and All are required.
type Config struct {
	Engine *engine.Engine

	// Viewed returns a table as it is now, nil if it does not exist or has no views. All
	// returns all tables with views.
	Viewed func(resource.RID) (*Viewed, error)
	All    func() ([]*Viewed, error)

	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil discards the log

	// Retry is the pause before something that failed is tried again. Zero means a second.
	Retry time.Duration

	// Sweep is the pause between two searches for outboxes that are not being settled, for
	// example because the outcome of a write was unknown. Zero means a minute.
	Sweep time.Duration

	// Step is called before every step of an update with its name: read, write, remove.
	// Its error ends the update. Tests simulate crashes in it; nil does nothing.
	Step func(name string) error
}

// The steps of settling, each before what it names.
const (
	stepRead   = "read"
	stepWrite  = "write"
	stepRemove = "remove"
)

// Keeper keeps the views. It is safe for concurrent use.
type Keeper struct {
	cfg Config

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{} // asks for builds
	late    chan struct{} // asks for a look at left

	mu     sync.Mutex
	keys   map[keyRef]*turn
	left   map[keyRef]attempt // what is to be settled by the background
	builds map[resource.RID]*Build
	closed bool
}

// leftMax bounds left. What is beyond is found by the next sweep.
const leftMax = 100_000

// keyRef is a partition key of a table.
type keyRef struct {
	table resource.RID
	key   string
}

// attempt is the next attempt to settle a partition key, and the pause before it.
type attempt struct {
	at    time.Time
	pause time.Duration
}

// turn lets one call after another work on a partition key.
type turn struct {
	held  chan struct{} // holds one value while a call works
	users int

	// Calls before the one with the number done need not work any more: asked counts them.
	asked, done uint64
}

// New returns a keeper. It does nothing by itself before Start.
func New(cfg Config) *Keeper {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Retry <= 0 {
		cfg.Retry = time.Second
	}
	if cfg.Sweep <= 0 {
		cfg.Sweep = time.Minute
	}
	if cfg.Step == nil {
		cfg.Step = func(string) error { return nil }
	}
	k := &Keeper{
		cfg: cfg, wake: make(chan struct{}, 1), late: make(chan struct{}, 1),
		keys: map[keyRef]*turn{}, left: map[keyRef]attempt{}, builds: map[resource.RID]*Build{},
	}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// Start settles in the background what earlier runs and errors have left, and builds
// views.
func (k *Keeper) Start() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	k.running.Go(k.settles)
	k.running.Go(k.buildings)
}

// Close stops all work and waits for it. What is left is done after the next Start.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	k.stop()
	k.mu.Unlock()
	k.running.Wait()
}

// Defined says that views were created or dropped.
func (k *Keeper) Defined() { ask(k.wake) }

// ask asks for something, unless it is asked for already.
func ask(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Later settles a partition key in the background, after a pause.
func (k *Keeper) Later(base resource.RID, key string) { k.again(keyRef{base, key}, k.cfg.Retry) }

func (k *Keeper) again(ref keyRef, pause time.Duration) {
	k.mu.Lock()
	first := len(k.left) == 0
	if _, known := k.left[ref]; !known && len(k.left) < leftMax {
		k.left[ref] = attempt{time.Now().Add(pause), pause}
	}
	k.mu.Unlock()
	if first {
		ask(k.late)
	}
}

// Settle brings the views into agreement with the rows of a partition key that writes
// have changed, and returns when that is durable. The caller's writes are durable. After
// an error it is tried again in the background.
func (k *Keeper) Settle(ctx context.Context, base resource.RID, key string) (engine.ItemsResult, error) {
	spent, err := k.settleNow(ctx, keyRef{base, key})
	if err != nil {
		k.Later(base, key)
	}
	return spent, err
}

// settleNow settles a partition key when it is its turn, unless another call has done so
// meanwhile.
func (k *Keeper) settleNow(ctx context.Context, ref keyRef) (spent engine.ItemsResult, err error) {
	number := k.join(ref)
	defer k.leave(ref)
	covered, err := k.begin(ctx, ref, number)
	if err != nil || covered {
		return spent, err
	}
	next := k.numberOf(ref)
	spent, err = k.settle(ctx, ref)
	k.end(ref, next, err == nil)
	return spent, err
}

// join makes the caller a user of the turn of a key, and returns its number.
func (k *Keeper) join(ref keyRef) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.keys[ref]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		k.keys[ref] = t
	}
	t.users++
	t.asked++
	return t.asked
}

func (k *Keeper) leave(ref keyRef) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.keys[ref]; t.users > 1 {
		t.users--
	} else {
		delete(k.keys, ref)
	}
}

// begin waits for the turn of a key. It returns true, and does not take the turn, if a
// call that began after this one has joined has done all that it has to do.
func (k *Keeper) begin(ctx context.Context, ref keyRef, number uint64) (covered bool, err error) {
	k.mu.Lock()
	t := k.keys[ref]
	k.mu.Unlock()
	select {
	case t.held <- struct{}{}:
	case <-ctx.Done():
		e := status.New(status.CodeRequestTimeout, 0, "The materialized views of the row were not updated in time.")
		e.Cause = context.Cause(ctx)
		return false, e
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.done >= number {
		<-t.held
		return true, nil
	}
	return false, nil
}

// numberOf returns the number of the call that has joined last: what is read after it has
// the writes of all calls up to that one.
func (k *Keeper) numberOf(ref keyRef) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys[ref].asked
}

// end gives the turn of a key back.
func (k *Keeper) end(ref keyRef, number uint64, done bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.keys[ref]
	if done {
		t.done = max(t.done, number)
	}
	<-t.held
}

// retryMax is the longest pause before something that failed is tried again.
const retryMax = time.Minute

// settles settles what is left, until the keeper is closed.
func (k *Keeper) settles() {
	sweep := time.NewTimer(0)
	defer sweep.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-due.C:
		case <-k.late:
		case <-sweep.C:
			if err := k.sweep(k.ctx); err != nil && k.ctx.Err() == nil {
				k.cfg.Logger.Warn("outboxes of materialized views not settled, will retry", "in", k.cfg.Sweep, "error", err)
			}
			sweep.Reset(k.cfg.Sweep)
		case <-k.ctx.Done():
			return
		}
		ready, next := k.due()
		for ref, a := range ready {
			if _, err := k.settleNow(k.ctx, ref); err != nil {
				if k.ctx.Err() != nil {
					return
				}
				pause := min(2*a.pause, retryMax)
				k.cfg.Logger.Warn("materialized views not updated, will retry", "container", ref.table, "in", pause, "error", err)
				k.again(ref, pause)
				next = min(next, pause)
			}
		}
		due.Reset(next)
	}
}

// due takes what is due out of left, and returns the pause before the next look.
func (k *Keeper) due() (ready map[keyRef]attempt, next time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next = retryMax
	ready = map[keyRef]attempt{}
	for ref, a := range k.left {
		if wait := time.Until(a.at); wait > 0 {
			next = min(next, wait)
			continue
		}
		ready[ref] = a
		delete(k.left, ref)
	}
	return ready, next
}
