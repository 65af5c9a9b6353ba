package cql

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestTraceEvents records as many events as a trace keeps, and more, with texts up to the
// limit, and longer ones.
func TestTraceEvents(t *testing.T) {
	t.Parallel()
	if TraceEventf(t.Context(), "nothing"); Traces(t.Context()) {
		t.Error("a context without a tracer traces")
	}
	for _, n := range []int{traceEventsMax, traceEventsMax + 1, traceEventsMax + 50} {
		tr := &tracer{now: time.Now, began: time.Now()}
		ctx := context.WithValue(t.Context(), tracerKey{}, tr)
		var group sync.WaitGroup
		for range n {
			group.Go(func() { TraceEventf(ctx, "%s", strings.Repeat("x", traceActivityMax)) })
		}
		group.Wait()
		events := tr.end("the end")
		want := n + 1
		if n > traceEventsMax {
			want = traceEventsMax + 2
			if got := events[traceEventsMax].Activity; got != map[int]string{1: "1 more events are not kept", 50: "50 more events are not kept"}[n-traceEventsMax] {
				t.Errorf("%q", got)
			}
		}
		if len(events) != want || events[len(events)-1].Activity != "the end" || len(events[0].Activity) != traceActivityMax {
			t.Errorf("%d events: %d are kept, want %d", n, len(events), want)
		}
	}
	if got := clipText(strings.Repeat("x", traceActivityMax-1)+"é", traceActivityMax); got != strings.Repeat("x", traceActivityMax-1)+"..." {
		t.Errorf("%q", got)
	}
}
