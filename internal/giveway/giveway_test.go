package giveway

import (
	"context"
	"errors"
	"testing"
)

// counter is a Worker that gives way so many times.
type counter struct {
	Context

	left int
}

var errOver = errors.New("over")

func (c *counter) GiveWay() error {
	if c.left == 0 {
		return errOver
	}
	c.left--
	return nil
}

// Check finds the Worker under contexts that were made from it, and has it give way only
// while the context goes on. To look at the context alone does nothing.
func TestCheck(t *testing.T) {
	if err := Check(t.Context()); err != nil {
		t.Errorf("without a Worker: %v", err)
	}
	c := &counter{left: 2}
	c.Context = Context{Context: t.Context(), Worker: c}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c))
	if err := Check(ctx); err != nil || c.left != 1 {
		t.Errorf("%v, %d left, want 1", err, c.left)
	}
	if ctx.Err() != nil || c.Err() != nil || c.left != 1 {
		t.Errorf("to look at the error counted")
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
			t.Errorf("got %v, want the error of the Worker", err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	c := &counter{left: 1 << 62}
	c.Context = Context{Context: b.Context(), Worker: c}
	b.ReportAllocs()
	for b.Loop() {
		if err := Check(c); err != nil {
			b.Fatal(err)
		}
	}
}
