package partition

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
)

// slowClock advances the clock of a partition at every reading, and counts the
// readings: two for each condition that the caller prepares, four for each that the
// writer evaluates, and one for each other patch that the writer repeats.
func (w *world) slowClock(tick time.Duration) (looks *atomic.Int64) {
	looks = new(atomic.Int64)
	w.partition.Load().elapsed = func() time.Duration { return time.Duration(looks.Add(1)) * tick }
	return looks
}

func (w *world) patchOf(text string) (o Operation) {
	w.tb.Helper()
	o.Op, o.ID = Patch, "first"
	var err error
	if o.Changes, o.Condition, err = patchOf(w.parse(text)); err != nil {
		w.tb.Fatal(err)
	}
	return o
}

// patches executes patches of the first document of a pair as a batch, and returns the
// result of each.
func (w *world) patches(atomicity Atomicity, texts ...string) (codes string) {
	w.tb.Helper()
	b := w.batchOf(pairKey, atomicity)
	for _, text := range texts {
		b.Operations = append(b.Operations, BatchOperation{Operation: w.patchOf(text)})
	}
	done, err := w.partition.Load().Batch(context.Background(), b)
	if err != nil {
		w.tb.Fatal(err)
	}
	for _, r := range done.Results {
		code := 200
		if r.Err != nil {
			code = int(r.Err.Code)
		}
		codes += fmt.Sprint(code, " ")
	}
	return strings.TrimSpace(codes)
}

const (
	fulfilled     = `{"condition":"from c where c.n >= 0","operations":[{"op":"incr","path":"/n","value":1}]}`
	unfulfilled   = `{"condition":"from c where c.n < 0","operations":[{"op":"incr","path":"/n","value":1}]}`
	unconditional = `[{"op":"incr","path":"/n","value":1}]`
)

// TestConditionTime has conditions use all of their time, and more: a patch whose
// condition takes longer is refused by the caller, whatever the result of the
// condition, and never reaches the writer.
func TestConditionTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	if _, err := w.writePair(0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tick  time.Duration
		text  string
		code  status.Code
		looks int64
	}{
		{ampleTime, fulfilled, 0, 2},
		{ampleTime, unfulfilled, status.CodePreconditionFailed, 2},
		{ampleTime + 1, fulfilled, status.CodeBadRequest, 2},
		{ampleTime + 1, unfulfilled, status.CodeBadRequest, 2},
		{ampleTime + 1, unconditional, 0, 0},
	} {
		looks := w.slowClock(c.tick)
		var meter throughput.Meter
		o := w.patchOf(c.text)
		_, err := w.write(Patch, value.Value{}, func(write *Write) {
			write.Key, write.ID, write.Changes, write.Condition, write.Meter = pairKey, o.ID, o.Changes, o.Condition, &meter
		})
		if got := status.CodeOf(err); got != c.code || looks.Load() != c.looks || meter.Charge() == 0 {
			t.Errorf("%v, %s: %v for %v after %d looks at the clock, want %d after %d", c.tick, c.text, err, meter.Charge(), looks.Load(), c.code, c.looks)
		}
	}
}

// TestEndlessCondition has conditions that would take minutes. After the default time
// one is interrupted in the middle of its function, and later ones are not evaluated;
// none reaches the writer.
func TestEndlessCondition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, `{"indexingMode":"none"}`))
	w.conditionTime = 0
	if err := errors.Join(w.close(), w.open()); err != nil {
		t.Fatal(err)
	}
	doc := `{"id":"first","a":"k","b":1,"n":0,"list":[0` + strings.Repeat(",1", 200_000) + `]}`
	if _, err := w.write(Create, w.parse(doc), nil); err != nil {
		t.Fatal(err)
	}
	condition := `from c where array_contains_any(c.list` + strings.Repeat(",'a'", 20_000) + `)`
	endless := `{"condition":"` + condition + `","operations":[{"op":"incr","path":"/n","value":1}]}`
	if got := w.patches(Each, endless, endless, endless, unconditional); got != "400 400 400 200" {
		t.Errorf("got %s", got)
	}
	// Nor does a condition whose request has ended.
	looks := w.slowClock(0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := w.patchOf(endless)
	_, err := w.writeContext(ctx, Patch, value.Value{}, func(write *Write) {
		write.Key, write.ID, write.Changes, write.Condition = pairKey, o.ID, o.Changes, o.Condition
	})
	if status.CodeOf(err) != status.CodeRequestTimeout || looks.Load() != 2 {
		t.Errorf("%v after %d looks at the clock", err, looks.Load())
	}
}

// TestConditionTimeOfBatches shows that all conditions of a request share one time, in
// the caller and in the writer, which evaluates conditions again if the request itself
// has changed their document.
func TestConditionTimeOfBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, ""))
	if _, err := w.writePair(0); err != nil {
		t.Fatal(err)
	}
	const tick = ampleTime / 6
	for _, c := range []struct {
		atomicity Atomicity
		tick      time.Duration
		texts     []string
		want      string
		looks     int64
	}{
		{Each, ampleTime / 2, []string{unfulfilled, unfulfilled}, "412 412", 4},
		{Each, ampleTime / 2, []string{unfulfilled, unfulfilled, unfulfilled, fulfilled, unconditional}, "412 412 400 400 200", 6},
		{Each, ampleTime/2 + 1, []string{unfulfilled, unfulfilled, unfulfilled, unfulfilled}, "412 400 400 400", 4},
		// Three in the writer take six ticks, one for the document and one for the
		// condition each; a fourth is too much.
		{Atomic, tick, []string{unconditional, fulfilled, fulfilled, fulfilled}, "200 200 200 200", 6 + 12},
		{Atomic, tick, []string{unconditional, fulfilled, fulfilled, fulfilled, fulfilled}, "424 424 424 424 400", 8 + 12 + 2},
		{Each, tick, []string{unconditional, unfulfilled, unfulfilled, unfulfilled, unfulfilled, unfulfilled, unconditional}, "200 412 412 412 400 400 200", 10 + 12 + 2 + 1},
	} {
		looks := w.slowClock(c.tick)
		if got := w.patches(c.atomicity, c.texts...); got != c.want || looks.Load() != c.looks {
			t.Errorf("%v, %s:\n got %s after %d looks at the clock\nwant %s after %d", c.tick, c.texts, got, looks.Load(), c.want, c.looks)
		}
	}
	// The time of one request does not count for the next.
	w.slowClock(ampleTime)
	for range 3 {
		if got := w.patches(Atomic, fulfilled); got != "200" {
			t.Errorf("the next request: %s", got)
		}
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}
