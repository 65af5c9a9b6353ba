// Package pacing lets long work pause for other work and stop when it must.
//
// A loop that may take long calls [Check] every few steps. The code that starts the
// work decides what Check does: it passes a [Context] with a [Pacer].
package pacing

import (
	"context"
	"time"
)

// Pacer decides when work continues, and whether it does.
type Pacer interface {
	// Yield returns when the work may continue: at once or after a pause. If the work
	// must end, it returns the reason, the same error each time. The goroutine that
	// does the work calls it.
	Yield() error
}

// Context is a context whose work has a Pacer. Embed it in the Pacer to avoid an
// allocation of its own.
type Context struct {
	context.Context

	Pacer Pacer
}

type key struct{}

// Value returns the Pacer to [Check], and the values of the parent context to everyone
// else.
func (c *Context) Value(k any) any {
	if k == (key{}) {
		return c.Pacer
	}
	return c.Context.Value(k)
}

// Check returns the error of a context that has ended. Otherwise it calls the Yield
// method of the context's Pacer and returns its error. Without a Pacer it returns nil.
//
// A call takes about 0.1 µs if there is nothing to yield to, and allocates nothing: call
// it every few dozen steps.
func Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p, ok := ctx.Value(key{}).(Pacer); ok {
		return p.Yield()
	}
	return nil
}

// Sleep waits for a time, or until ctx ends. It returns the cause of that end, or nil.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
