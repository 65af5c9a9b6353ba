package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/decandb/decan/internal/pacing"
)

// TestPacer shows that a pacer keeps to its rate with pieces of any size, does not save
// idle time, and pauses far less often than once per piece.
func TestPacer(t *testing.T) {
	t.Parallel()
	const rate = 4 << 20
	for _, piece := range []int{100, 8 << 10, 1 << 20} {
		now := time.Unix(1000, 0)
		sleeps := 0
		ctx := context.Background()
		p := pacer{rate: rate, now: func() time.Time { return now }, sleep: func(_ context.Context, d time.Duration) error {
			sleeps++
			now = now.Add(d)
			return nil
		}}
		for range 2 {
			now = now.Add(time.Hour) // Nothing is read in this time.
			began, total := now, 0
			for total < 10*rate {
				total += piece
				if err := p.spend(ctx, piece); err != nil {
					t.Fatal(err)
				}
				most := float64(rate)*now.Sub(began).Seconds() + float64(rate)*scrubDebt.Seconds() + float64(piece)
				if float64(total) > 1.001*most { // Times are whole nanoseconds.
					t.Fatalf("pieces of %d: %d bytes in %v", piece, total, now.Sub(began))
				}
			}
			if took := now.Sub(began).Seconds(); took < 9.9 || took > 10.5 {
				t.Errorf("pieces of %d: %d bytes took %.2f s, want 10", piece, total, took)
			}
		}
		if sleeps > 2*10*int(time.Second/scrubDebt)+2 {
			t.Errorf("pieces of %d: %d pauses", piece, sleeps)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := pacer{rate: 1, now: time.Now, sleep: pacing.Sleep}
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := p.spend(ctx, 1<<30); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled pause: %v", err)
	}
}
