package table

import (
	"context"
	"net/netip"
	"time"

	"github.com/decandb/decan/internal/row"
)

// Trace is a request that was traced, as system_traces has it.
type Trace struct {
	ID         [16]byte
	Client     netip.Addr
	Request    string
	Parameters map[string]string
	Began      time.Time
	Duration   time.Duration
	Events     []TraceEvent // in their order
}

// TraceEvent is an event of a trace.
type TraceEvent struct {
	After    time.Duration // since the beginning
	Activity string
}

// Traces are the traces that a server keeps.
type Traces interface {
	// Trace returns one of them.
	Trace(id [16]byte) (Trace, bool)

	// Traces returns all of them.
	Traces() []Trace
}

// tracesOf is the source of a table of system_traces.
type tracesOf struct {
	system *System
	table  *Table
	from   Traces
}

// TracesOf returns the rows of a table of system_traces, nil for another table.
func (y *System) TracesOf(t *Table, from Traces) Source {
	if t.Keyspace != "system_traces" {
		return nil
	}
	return &tracesOf{y, t, from}
}

// Key implements [Source].
func (s *tracesOf) Key(ctx context.Context, key string, list []ItemSlice, visit func(item, body []byte) (more bool, err error)) error {
	if len(key) != len(Trace{}.ID) {
		return nil
	}
	t, ok := s.from.Trace([16]byte([]byte(key)))
	if !ok {
		return nil
	}
	return s.rows(t).Key(ctx, key, list, visit)
}

// Tokens implements [Source].
func (s *tracesOf) Tokens(ctx context.Context, least, greatest int64, after string, visit func(key, item, body []byte) (more bool, err error)) error {
	return s.rows(s.from.Traces()...).Tokens(ctx, least, greatest, after, visit)
}

// rows makes the rows of traces.
func (s *tracesOf) rows(all ...Trace) *Rows {
	rows := &Rows{table: s.table, items: map[string][]rowItem{}}
	address, port := s.system.address.Addr().AsSlice(), row.Int(int32(s.system.address.Port()))
	for i := range all {
		t := &all[i]
		if s.table.Name == "sessions" {
			rows.add(map[string][]byte{
				"session_id": t.ID[:], "client": t.Client.Unmap().AsSlice(), "command": []byte("QUERY"), "coordinator": address, "coordinator_port": port,
				"duration": row.Int(micros(t.Duration)), "parameters": textMap(t.Parameters), "request": []byte(t.Request), "started_at": row.BigInt(t.Began.UnixMilli()),
			})
			continue
		}
		began := TimeUUIDTicks(t.Began)
		var last uint64
		for _, e := range t.Events {
			// The order of the rows is that of the ids, so each has a later time.
			last = max(last+1, began+uint64(e.After/100))
			id := TimeUUID(last, [8]byte{0x80})
			rows.add(map[string][]byte{
				"session_id": t.ID[:], "event_id": id[:], "activity": []byte(e.Activity), "source": address, "source_port": port,
				"source_elapsed": row.Int(micros(e.After)), "thread": []byte("request"),
			})
		}
	}
	rows.sort()
	return rows
}

// micros returns a time in microseconds, as far as an int has them. It is 1 at least: a
// client takes a trace with a duration as complete.
func micros(d time.Duration) int32 {
	const most = 1<<31 - 1
	return int32(min(max(d.Microseconds(), 1), most))
}
