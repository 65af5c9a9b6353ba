package resolver_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/decandb/decan/resolver"
)

// asleep returns the time that the clock shows after the machine has slept for
// some seconds: the wall clock has advanced and the monotonic clock has not. No
// function of package time can make such a value. The seconds of a time with
// both readings are the bits above bit 30 of its first word.
func asleep(at time.Time, seconds uint64) time.Time {
	*(*uint64)(unsafe.Pointer(&at)) += seconds << 30
	return at
}

// TestElapsed checks that Elapsed uses the clock that advanced further.
func TestElapsed(t *testing.T) {
	at := time.Now()
	woken := asleep(at, 3600)
	if woken.Sub(at) != 0 || woken.Round(0).Sub(at.Round(0)) != time.Hour {
		t.Fatalf("the clocks show %v and %v, want 0 and an hour: the layout of time.Time has changed", woken.Sub(at), woken.Round(0).Sub(at.Round(0)))
	}
	for _, c := range []struct {
		name     string
		from, to time.Time
		want     time.Duration
	}{
		{"awake", at, at.Add(time.Second), time.Second},
		{"asleep", at, woken, time.Hour},
		{"set back", woken, at.Add(time.Second), time.Second},
		{"without a monotonic clock", at.Round(0), woken, time.Hour},
	} {
		if got := resolver.Elapsed(c.from, c.to); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// single is a state with one target.
func single() resolver.State {
	return resolver.State{
		Key: resolver.KeySpec{Paths: []string{"/u"}}, Targets: numbered(1),
		Current: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"c0"}}},
	}
}

// TestLeaseAfterSleep puts the machine to sleep for longer than the lease: an
// earlier confirmation no longer counts.
func TestLeaseAfterSleep(t *testing.T) {
	store := &memory{}
	must[string](t)(resolver.SaveState(t.Context(), store, "s", single(), ""))
	began := time.Now()
	slept := uint64(0)
	live, err := resolver.Watch(t.Context(), resolver.LiveConfig{
		Store: store, Name: "s", Poll: -1, Lease: time.Hour, Now: func() time.Time { return asleep(began, slept) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	store.fail(errors.New("down"))
	for _, c := range []struct {
		slept uint64
		stale bool
	}{{0, false}, {3599, false}, {3600, true}} {
		slept = c.slept
		_, done, err := live.Begin(t.Context())
		if errors.Is(err, resolver.ErrStale) != c.stale {
			t.Errorf("after a sleep of %d s: %v, want ErrStale %v", slept, err, c.stale)
		}
		if err == nil {
			done()
		}
	}
}

// slow is a Store that delays its answers, or blocks until the context ends.
type slow struct {
	resolver.Store
	takes atomic.Int64 // time.Duration
}

func (s *slow) Load(ctx context.Context, name string) ([]byte, string, error) {
	document, version, err := s.Store.Load(ctx, name)
	select {
	case <-time.After(time.Duration(s.takes.Load())):
		return document, version, err
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
}

// TestBeginKeepsContext begins operations while a poll hangs in the store. They
// end with their context, and the poll ends with the lease. A state that took
// longer than the lease to load must not be used.
func TestBeginKeepsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{Store: &memory{}}
		must[string](t)(resolver.SaveState(t.Context(), store, "s", single(), ""))
		var mu sync.Mutex
		var polls []error // guarded by mu
		live, err := resolver.Watch(t.Context(), resolver.LiveConfig{
			Store: store, Name: "s", Poll: time.Second, Lease: 5 * time.Second, OnError: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				polls = append(polls, err)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		begin := func(timeout time.Duration) (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			began := time.Now()
			_, done, err := live.Begin(ctx)
			if err == nil {
				done()
			}
			return time.Since(began), err
		}
		store.takes.Store(int64(time.Hour))
		time.Sleep(5500 * time.Millisecond) // the poll has begun after 1 s
		if took, err := begin(100 * time.Millisecond); !errors.Is(err, resolver.ErrStale) || !errors.Is(err, context.DeadlineExceeded) || took != 100*time.Millisecond {
			t.Errorf("Begin while a poll hangs: %v after %v, want ErrStale after 100 ms", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := live.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Refresh while a poll hangs: %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		if len(polls) != 1 || !errors.Is(polls[0], context.DeadlineExceeded) {
			t.Errorf("after the lease the polls have ended with %v, want one that was too slow", polls)
		}
		mu.Unlock()
		store.takes.Store(int64(7 * time.Second))
		if _, err := begin(time.Minute); !errors.Is(err, resolver.ErrStale) {
			t.Errorf("with a store that takes longer than the lease: %v, want ErrStale", err)
		}
		store.takes.Store(int64(time.Second))
		if _, err := begin(time.Minute); err != nil {
			t.Errorf("with a store that answers again: %v", err)
		}
	})
}
