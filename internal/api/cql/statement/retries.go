package statement

import (
	"context"
	"time"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/status"
)

// retries is how long the parts of a statement are tried again while the throughput of
// their partition is used up. The zero value does not retry.
type retries struct{ until time.Time }

// retries begins with a statement.
func (p *Processor) retries() retries {
	if p.config.Retry <= 0 {
		return retries{}
	}
	return retries{time.Now().Add(p.config.Retry)}
}

// retry calls do until it is not refused for its throughput. A refused part has done
// nothing. At the end of that time, the error is context.DeadlineExceeded.
func (p retries) retry(ctx context.Context, do func() error) error {
	for {
		err := do()
		if p.until.IsZero() || status.CodeOf(err) != status.CodeTooManyRequests {
			return err
		}
		left := time.Until(p.until)
		if left <= 0 {
			return context.DeadlineExceeded
		}
		door.TraceEventf(ctx, "Trying again: the throughput of a partition is used up")
		if err := pacing.Sleep(ctx, min(max(status.From(err).RetryAfter, time.Millisecond), left)); err != nil {
			return err
		}
	}
}
