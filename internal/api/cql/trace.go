package cql

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/decandb/decan/internal/api/cql/frame"
)

// Trace describes a request that asked for a trace.
type Trace struct {
	ID       frame.UUID
	Began    time.Time
	Duration time.Duration
	Request  string // such as "Execute CQL3 query"
	Query    string // its text, also of a prepared statement; "" for a batch
	Client   netip.Addr
	Session  *Session

	Statement  *Statement        // that was executed; nil if it was not known
	Values     []frame.Value     // of the markers of an executed prepared statement
	Parameters *frame.Parameters // nil for PREPARE

	Events []TraceEvent
}

// TraceEvent is something that happened while a traced request was carried out.
type TraceEvent struct {
	After    time.Duration // since Trace.Began
	Activity string
}

const (
	traceEventsMax   = 200  // of one trace
	traceActivityMax = 1000 // bytes of the text of an event
)

// tracer records the events of one request. A request may record from several goroutines.
type tracer struct {
	now   func() time.Time
	began time.Time

	mu      sync.Mutex
	events  []TraceEvent
	dropped int
}

type tracerKey struct{}

// Traces says whether the request of a context is traced.
func Traces(ctx context.Context) bool { return ctx.Value(tracerKey{}) != nil }

// TraceEventf records an event of the request of a context, if that is traced. After
// 200 events, those of a request are only counted. Only the first 1,000 bytes of a text are
// kept.
func TraceEventf(ctx context.Context, format string, args ...any) {
	if t, ok := ctx.Value(tracerKey{}).(*tracer); ok {
		t.add(fmt.Sprintf(format, args...))
	}
}

func (t *tracer) add(activity string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) >= traceEventsMax {
		t.dropped++
		return
	}
	t.events = append(t.events, TraceEvent{After: t.now().Sub(t.began), Activity: clipText(activity, traceActivityMax)})
}

// end returns the events with those of the end of the request.
func (t *tracer) end(last ...string) []TraceEvent {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dropped > 0 {
		last = append([]string{fmt.Sprintf("%d more events are not kept", t.dropped)}, last...)
	}
	for _, activity := range last {
		t.events = append(t.events, TraceEvent{After: t.now().Sub(t.began), Activity: clipText(activity, traceActivityMax)})
	}
	return t.events
}

// clipText returns the first bytes of a text, at most limit and three dots, as valid UTF-8.
func clipText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// startTrace begins to trace the request.
func (r *request) startTrace(began time.Time) {
	r.trace = newTimeUUID()
	r.tracer = &tracer{now: r.server.config.Now, began: began}
}

// context returns the context of the request, with its tracer if there is one.
func (r *request) context() context.Context {
	if r.tracer == nil {
		return r.ctx
	}
	return context.WithValue(r.ctx, tracerKey{}, r.tracer)
}

// traceQueryMax is how much of the text of a statement a trace keeps, in bytes.
const traceQueryMax = 4000

// traced gives the processor the trace of the request.
func (r *request) traced(done *outcome) {
	t := &Trace{ID: r.trace, Began: r.tracer.began, Client: r.session.Remote.Addr(), Session: r.session, Statement: r.statement}
	switch m := r.frame.Message.(type) {
	case *frame.Query:
		t.Request, t.Query, t.Parameters = "Execute CQL3 query", m.Text, &m.Parameters
	case *frame.Prepare:
		t.Request, t.Query = "Preparing CQL3 query", m.Text
	case *frame.Execute:
		t.Request, t.Parameters = "Execute CQL3 prepared query", &m.Parameters
		if r.entry != nil {
			t.Query = r.entry.text
			if values, ok := resolve(r.entry.statement, &m.Parameters); ok {
				t.Values = values
			}
		}
	case *frame.Batch:
		t.Request, t.Parameters = "Execute batch of CQL3 queries", &m.Parameters
	}
	t.Query = clipText(t.Query, traceQueryMax)
	last := fmt.Sprintf("Request charge: %.2f RU", done.charge)
	if e, ok := done.message.(*frame.Error); ok {
		last = "Request failed: " + e.Message
	}
	t.Events = r.tracer.end(last)
	t.Duration = r.server.config.Now().Sub(t.Began)
	r.server.config.Processor.Traced(t)
}
