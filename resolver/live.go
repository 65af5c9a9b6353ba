package resolver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The defaults of a LiveConfig.
const (
	PollDefault  = 2 * time.Second
	LeaseDefault = 5 * time.Second
)

// LiveConfig describes how a client follows a shared state.
type LiveConfig struct {
	Store Store
	Name  string // name of the state in the store

	Registry Registry

	// Poll is the interval at which Live asks the store for a new state. Default
	// PollDefault; a negative value disables polling, so that only Refresh,
	// Confirm and an expired lease load the state.
	Poll time.Duration

	// Lease is how long a loaded state counts as confirmed. An operation that
	// begins later loads the state first, and fails with ErrStale if that fails.
	// A move waits at least the longest lease of all clients between two phases,
	// so no client is ever more than one phase late. Default LeaseDefault.
	Lease time.Duration

	// OnChange is called with the new routing after a switch. It must return
	// quickly. Nil disables it.
	OnChange func(*Routing)

	// OnError is called by the poll when the store does not answer or its state
	// cannot be used. The client keeps its present state until the lease
	// expires. Nil disables it.
	OnError func(error)

	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Live is a client's view of a shared state. It polls the store and switches
// atomically. An operation holds its routing until it ends, so that a switch can
// wait until the old routing is unused. It is safe for concurrent use.
type Live struct {
	config LiveConfig
	seen   atomic.Pointer[seen]
	stop   context.CancelFunc
	done   sync.WaitGroup

	loading chan struct{} // holds one token while a load is in progress: a lock that a context can interrupt

	old []*Routing // retired routings with operations in flight; guarded by loading
}

// seen is a routing and the time at which its state was last confirmed.
type seen struct {
	routing *Routing
	version string
	at      time.Time
}

// Watch loads the state and polls the store until Close.
func Watch(ctx context.Context, c LiveConfig) (*Live, error) {
	if c.Poll == 0 {
		c.Poll = PollDefault
	}
	if c.Lease <= 0 {
		c.Lease = LeaseDefault
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	l := &Live{config: c, loading: make(chan struct{}, 1)}
	if err := l.load(ctx); err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(context.Background())
	l.stop = stop
	if c.Poll > 0 {
		l.done.Go(func() { l.poll(watching) })
	}
	return l, nil
}

// Static returns a view of a routing that never changes.
func Static(routing *Routing) *Live {
	l := &Live{stop: func() {}, loading: make(chan struct{}, 1)}
	l.seen.Store(&seen{routing: routing})
	return l
}

// Close stops polling and waits for a poll in progress. Operations in flight
// continue.
func (l *Live) Close() {
	l.stop()
	l.done.Wait()
}

func (l *Live) poll(ctx context.Context) {
	ticker := time.NewTicker(l.config.Poll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// An answer that takes longer than the lease confirms nothing.
		asking, cancel := context.WithTimeout(ctx, l.config.Lease)
		err := l.load(asking)
		cancel()
		if err != nil && ctx.Err() == nil && l.config.OnError != nil {
			l.config.OnError(err)
		}
	}
}

// lock waits until no load is in progress, or returns the error of the context.
func (l *Live) lock(ctx context.Context) error {
	select {
	case l.loading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Live) unlock() { <-l.loading }

// load asks the store and switches if the state has changed.
func (l *Live) load(ctx context.Context) error {
	if l.config.Store == nil {
		return nil
	}
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	// The state was in force when the load began, but perhaps not when it ended.
	at := l.config.Now()
	state, version, err := LoadState(ctx, l.config.Store, l.config.Name)
	if err != nil {
		return err
	}
	last := l.seen.Load()
	if last != nil && last.version == version {
		l.seen.Store(&seen{last.routing, version, at})
		return nil
	}
	if last != nil && state.Revision < last.routing.State.Revision {
		return fmt.Errorf("%w: the store went back from revision %d to %d", ErrStale, last.routing.State.Revision, state.Revision)
	}
	routing, err := Open(state, l.config.Registry)
	if err != nil {
		return err
	}
	l.seen.Store(&seen{routing, version, at})
	if last != nil {
		last.routing.retire()
		l.old = append(l.busyLocked(), last.routing)
		if l.config.OnChange != nil {
			l.config.OnChange(routing)
		}
	}
	return nil
}

// Confirm loads the state now and returns its routing. A long operation calls it
// at its end to learn whether the routing it used is still in force. The error
// is an ErrStale.
func (l *Live) Confirm(ctx context.Context) (*Routing, error) {
	if err := l.load(ctx); err != nil {
		return nil, errors.Join(ErrStale, err)
	}
	return l.Routing(), nil
}

// Refresh loads the state now and waits until no operation uses an older one.
// When it returns nil, this client uses only the new state.
func (l *Live) Refresh(ctx context.Context) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	if err := l.lock(ctx); err != nil {
		return err
	}
	old := l.busyLocked()
	l.unlock()
	for _, routing := range old {
		select {
		case <-routing.retired:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// busyLocked returns the retired routings that operations still use.
func (l *Live) busyLocked() []*Routing {
	return slices.DeleteFunc(slices.Clone(l.old), func(routing *Routing) bool {
		select {
		case <-routing.retired:
			return true
		default:
			return false
		}
	})
}

// Routing returns the current routing, confirmed or not. Use Begin to act on it.
func (l *Live) Routing() *Routing { return l.seen.Load().routing }

// Lease returns how long a state counts as confirmed, 0 for a view made by
// Static.
func (l *Live) Lease() time.Duration { return l.config.Lease }

// Begin returns the routing to act on and a function that the caller must call
// once when the operation ends. If the lease has expired, Begin loads the state
// first. It returns ErrStale if that fails, takes longer than the lease, or is
// interrupted by ctx.
func (l *Live) Begin(ctx context.Context) (*Routing, func(), error) {
	for {
		s := l.seen.Load()
		if l.lapsed(s) {
			if err := l.load(ctx); err != nil {
				return nil, nil, errors.Join(ErrStale, err)
			}
			if s = l.seen.Load(); l.lapsed(s) {
				return nil, nil, fmt.Errorf("%w: the store takes longer than the lease of %v", ErrStale, l.config.Lease)
			}
		}
		if s.routing.acquire() {
			return s.routing, s.routing.release, nil
		}
	}
}

// lapsed reports whether the state was confirmed too long ago to act on it.
func (l *Live) lapsed(s *seen) bool {
	return l.config.Store != nil && Elapsed(s.at, l.config.Now()) >= l.config.Lease
}

// Elapsed returns the time between two readings of the clock, even if the
// machine slept in between. It returns the larger of the differences of the
// monotonic clock, which may stop while the machine sleeps, and of the wall
// clock, which may be set back. Use it to decide whether a lease has expired.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
