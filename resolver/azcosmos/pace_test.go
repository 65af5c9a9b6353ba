package azcosmos_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// clock is a time that advances only by sleeping.
type clock struct {
	mu     sync.Mutex
	at     time.Time
	sleeps []time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	c.sleeps = append(c.sleeps, d)
	return ctx.Err()
}

// timed returns a mover that uses a clock, with the default Settle, and with the
// default lease if lease is 0.
func (w *world) timed(c *clock, lease time.Duration, config azcosmos.MoverConfig) *azcosmos.Mover {
	w.t.Helper()
	live, err := resolver.Watch(w.t.Context(), resolver.LiveConfig{Store: w.store, Name: "users", Poll: -1, Lease: lease})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(live.Close)
	config.Client, err = azcosmos.New(azcosmos.Config{Accounts: w.accounts(), View: live})
	if err != nil {
		w.t.Fatal(err)
	}
	config.Client.SetSleep(c.sleep)
	config.Store, config.Name, config.Now = w.store, "users", c.now
	mover, err := azcosmos.NewMover(config)
	if err != nil {
		w.t.Fatal(err)
	}
	return mover
}

// TestSettleDefault waits for the default lease and timeout together before the
// work of each phase, and after the last one.
func TestSettleDefault(t *testing.T) {
	t.Parallel()
	w := tenant(t, 3)
	c := &clock{at: time.Now()}
	mover := w.timed(c, 0, azcosmos.MoverConfig{})
	if err := mover.Begin(t.Context(), "move", w.targets, toOther); err != nil {
		t.Fatal(err)
	}
	if _, err := mover.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := slices.Repeat([]time.Duration{15 * time.Second}, 8); !slices.Equal(c.sleeps, want) {
		t.Errorf("waits %v, want %v", c.sleeps, want)
	}
}

// TestThrottle checks the bounds on items and charge per second of a move.
func TestThrottle(t *testing.T) {
	t.Parallel()
	const documents = 20
	for name, config := range map[string]azcosmos.MoverConfig{
		"items": {ItemsPerSecond: 4, Settle: func(context.Context) error { return nil }},
		"RU":    {ChargePerSecond: 7, Settle: func(context.Context) error { return nil }},
		"none":  {Settle: func(context.Context) error { return nil }},
	} {
		w := tenant(t, documents)
		c := &clock{at: time.Now()}
		began := c.at
		mover := w.timed(c, time.Hour, config) // the clock leaps whenever one of several workers waits
		if err := mover.Begin(t.Context(), "move", w.targets, toOther); err != nil {
			t.Fatal(err)
		}
		progress, err := mover.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// Copy, verify (items and copies), the fence (both again) and clean
		// process each item.
		want := map[string]float64{"items": 6 * documents / 4.0, "RU": progress.Charge / 7, "none": 0}[name]
		if took := c.now().Sub(began).Seconds(); took < want-0.01 || took > want*1.01+0.01 {
			t.Errorf("%s: the move took %.2f s at %.1f RU, want %.2f", name, took, progress.Charge, want)
		}
	}
}
