package statement

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/status"
)

// patience is how long the parts of a statement are tried again while the throughput of
// their partition is used up. The zero value does not retry.
type patience struct{ until time.Time }

// patience begins with a statement.
func (p *Processor) patience() patience {
	if p.config.Retry <= 0 {
		return patience{}
	}
	return patience{time.Now().Add(p.config.Retry)}
}

func (p patience) retries() bool { return !p.until.IsZero() }

// retry calls do until it is not refused for its throughput. A refused part has done
// nothing. At the end of the patience, the error is context.DeadlineExceeded.
func (p patience) retry(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !p.retries() || status.CodeOf(err) != status.CodeTooManyRequests {
			return err
		}
		left := time.Until(p.until)
		if left <= 0 {
			return context.DeadlineExceeded
		}
		wait := time.NewTimer(min(max(status.From(err).RetryAfter, time.Millisecond), left))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
	}
}
