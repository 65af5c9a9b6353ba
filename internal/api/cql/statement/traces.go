package statement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table"
)

// traces keeps the latest traces in memory, by number and size.
type traces struct {
	count int // traces at most
	limit int // bytes at most

	mu    sync.Mutex
	kept  []*table.Trace // the eldest first
	byID  map[[16]byte]*table.Trace
	bytes int
}

// What a server keeps of traces: the eldest are dropped. A trace has 350 KB at most:
// 200 events of 1,000 bytes, and 100 bound values.
const (
	tracesMax     = 1000
	traceBytesMax = 8 << 20
)

// traceBytes is the approximate memory of a trace.
func traceBytes(t *table.Trace) int {
	const base, entry = 512, 96
	n := base + len(t.Request)
	for name, value := range t.Parameters {
		n += entry + len(name) + len(value)
	}
	for i := range t.Events {
		n += entry + len(t.Events[i].Activity)
	}
	return n
}

// keep keeps a trace. One that alone is larger than the limit loses its parameters and
// events.
func (k *traces) keep(t *table.Trace) {
	size := traceBytes(t)
	if size > k.limit {
		t.Parameters, t.Events = map[string]string{}, []table.TraceEvent{{After: t.Duration, Activity: "The trace is too large to be kept"}}
		size = traceBytes(t)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID == nil {
		k.byID = map[[16]byte]*table.Trace{}
	}
	k.kept, k.byID[t.ID] = append(k.kept, t), t
	k.bytes += size
	drop := 0
	for ; len(k.kept)-drop > 1 && (len(k.kept)-drop > k.count || k.bytes > k.limit); drop++ {
		eldest := k.kept[drop]
		k.bytes -= traceBytes(eldest)
		delete(k.byID, eldest.ID)
	}
	k.kept = slices.Delete(k.kept, 0, drop)
}

// Trace implements table.Traces.
func (k *traces) Trace(id [16]byte) (table.Trace, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.byID[id]
	if !ok {
		return table.Trace{}, false
	}
	return *t, true
}

// Traces implements table.Traces.
func (k *traces) Traces() []table.Trace {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]table.Trace, len(k.kept))
	for i, t := range k.kept {
		all[i] = *t
	}
	return all
}

// boundMax is how much of a bound value a trace keeps, in bytes of its text, and valuesMax
// how many values.
const (
	boundMax  = 1000
	valuesMax = 100
)

// Traced implements cql.Processor. The parameters are those of Apache Cassandra.
func (p *Processor) Traced(t *door.Trace) {
	kept := &table.Trace{ID: t.ID, Client: t.Client, Request: t.Request, Began: t.Began, Duration: t.Duration, Parameters: map[string]string{}}
	if t.Query != "" {
		kept.Parameters["query"] = t.Query
	}
	if at := t.Parameters; at != nil {
		kept.Parameters["consistency_level"] = at.Consistency.String()
		kept.Parameters["serial_consistency_level"] = frame.Serial.String()
		if at.Has(frame.QuerySerial) {
			kept.Parameters["serial_consistency_level"] = at.Serial.String()
		}
		if at.Has(frame.QueryPageSize) {
			kept.Parameters["page_size"] = fmt.Sprint(at.PageSize)
		}
	}
	if t.Statement != nil && len(t.Values) > 0 {
		if own, ok := t.Statement.Plan.(*plan); ok && own.prepared != nil {
			for i, marker := range own.prepared.Markers[:min(len(own.prepared.Markers), len(t.Values), valuesMax)] {
				name := marker.Name[:min(len(marker.Name), boundMax)]
				kept.Parameters[fmt.Sprintf("bound_var_%d_%s", i, strings.ToValidUTF8(name, ""))] = boundText(marker.Type, t.Values[i])
			}
		}
	}
	for _, e := range t.Events {
		kept.Events = append(kept.Events, table.TraceEvent{After: e.After, Activity: e.Activity})
	}
	p.traces.keep(kept)
}

// boundText returns the text of a bound value.
func boundText(t *row.Type, v frame.Value) string {
	switch {
	case v.Unset:
		return "unset"
	case v.Bytes == nil:
		return "null"
	case len(v.Bytes) > boundMax || t.Validate(v.Bytes) != nil:
		return fmt.Sprintf("%d bytes", len(v.Bytes))
	}
	text := t.Literal(v.Bytes)
	if len(text) > boundMax {
		return strings.ToValidUTF8(text[:boundMax], "") + "..."
	}
	return text
}

// read records a read of a table in the trace of the request.
func (s *items) read(ctx context.Context, what string, items int, r engine.ItemsResult, err error) {
	if !door.Traces(ctx) {
		return
	}
	outcome := ""
	if err != nil {
		outcome = ": " + err.Error()
	}
	through := ""
	if s.lookup != nil {
		through = " through a secondary index"
	}
	door.TraceEventf(ctx, "Read %s of %s%s: %d items from physical partitions %s, %.2f RU%s", what, s.name, through, items, visitedText(r.Partitions), r.Charge, outcome)
}

// wrote records writes in the trace of the request.
func wrote(ctx context.Context, w *writing, keys int, done engine.ItemsResult) {
	if !door.Traces(ctx) || len(w.changes) == 0 {
		return
	}
	door.TraceEventf(ctx, "Wrote %d partition keys of %s in physical partitions %s: %.2f RU", keys, w.changes[0].Table.Name, visitedText(done.Partitions), done.Charge)
}
