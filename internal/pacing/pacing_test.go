package pacing

import (
	"context"
	"errors"
	"testing"
	"time"
)

// counter is a Pacer that yields a given number of times and then ends the work.
type counter struct {
	Context

	left int
}

var errOver = errors.New("over")

func (c *counter) Yield() error {
	if c.left == 0 {
		return errOver
	}
	c.left--
	return nil
}

// Check finds the Pacer in derived contexts, and calls it only while the context has not
// ended. Asking a context for its error does not call the Pacer.
func TestCheck(t *testing.T) {
	if err := Check(t.Context()); err != nil {
		t.Errorf("without a Pacer: %v", err)
	}
	c := &counter{left: 2}
	c.Context = Context{Context: t.Context(), Pacer: c}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c))
	if err := Check(ctx); err != nil || c.left != 1 {
		t.Errorf("%v, %d left, want 1", err, c.left)
	}
	if ctx.Err() != nil || c.Err() != nil || c.left != 1 {
		t.Errorf("asking for the error called the Pacer")
	}
	cancel()
	if err := Check(ctx); !errors.Is(err, context.Canceled) || c.left != 1 {
		t.Errorf("ended: %v, %d left, want 1", err, c.left)
	}
	if err := Check(c); err != nil || c.left != 0 {
		t.Errorf("%v, %d left, want none", err, c.left)
	}
	for range 2 {
		if err := Check(c); !errors.Is(err, errOver) {
			t.Errorf("got %v, want the error of the Pacer", err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	c := &counter{left: 1 << 62}
	c.Context = Context{Context: b.Context(), Pacer: c}
	b.ReportAllocs()
	for b.Loop() {
		if err := Check(c); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSleep(t *testing.T) {
	t.Parallel()
	if err := Sleep(context.Background(), time.Millisecond); err != nil {
		t.Error(err)
	}
	reason := errors.New("reason")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(reason)
	if err := Sleep(ctx, time.Hour); !errors.Is(err, reason) {
		t.Errorf("%v, want the cause", err)
	}
}
