package statement

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/decandb/decan/internal/status"
)

// TestRetries: what is over its throughput is tried again when that is useful, until a
// minute is over, or the client is gone.
func TestRetries(t *testing.T) {
	t.Parallel()
	over := status.TooManyRequests(status.SubRequestRateTooLarge, 700*time.Millisecond, "over")
	for name, c := range map[string]struct {
		retry time.Duration
		fails int // calls that are refused
		err   error
		after time.Duration
		calls int
	}{
		"off":            {0, 5, over, 0, 1},
		"at once":        {time.Minute, 0, nil, 0, 1},
		"after a while":  {time.Minute, 3, nil, 2100 * time.Millisecond, 4},
		"never":          {time.Minute, 1000, context.DeadlineExceeded, time.Minute, 87},
		"the last piece": {time.Second, 1000, context.DeadlineExceeded, time.Second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Processor{config: Config{Retry: c.retry}}
				began, calls := time.Now(), 0
				err := p.retries().retry(t.Context(), func() error {
					if calls++; calls <= c.fails {
						return over
					}
					return nil
				})
				if !errors.Is(err, c.err) || time.Since(began) != c.after || calls != c.calls {
					t.Errorf("%v after %v and %d calls, want %v after %v and %d", err, time.Since(began), calls, c.err, c.after, c.calls)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := &Processor{config: Config{Retry: time.Minute}}
		if err := p.retries().retry(ctx, func() error { return over }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the client is gone: %v", err)
		}
		other := errors.New("another error")
		if err := p.retries().retry(t.Context(), func() error { return other }); !errors.Is(err, other) {
			t.Errorf("%v", err)
		}
	})
}
