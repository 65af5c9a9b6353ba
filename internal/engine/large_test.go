package engine

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// TestLargeDocumentsTakeTurns takes all turns: every write of a large document
// waits for one, and a write of a small document does not.
func TestLargeDocumentsTakeTurns(t *testing.T) {
	t.Parallel()
	e, _ := split(t, 1)
	ctx, caller, link := context.Background(), auth.Owner(), Link{Database: "d", Container: "large"}
	body := parse(t, `{"id":"large","partitionKey":{"paths":["/pk"]}}`)
	if _, err := e.CreateContainer(ctx, caller, ContainerRequest{Link: Link{Database: "d"}, Body: body}); err != nil {
		t.Fatal(err)
	}
	var now atomic.Int64
	e.turns.clock = func() time.Duration { return time.Duration(now.Add(int64(2 * time.Millisecond))) }
	e.turns.processors = func() int { return 1 }
	keyed := func(id string) *partitionkey.Key {
		key := partitionkey.NewKey(partitionkey.String(id))
		return &key
	}
	write := func(ctx context.Context, op string, id string, elements int) error {
		items := make([]string, elements)
		for i := range items {
			items[i] = fmt.Sprint(i)
		}
		text := fmt.Sprintf(`{"id":%q,"pk":%[1]q,"list":[%s]}`, id, strings.Join(items, ","))
		req := DocumentRequest{Link: link, Document: parse(t, text), Size: len(text)}
		var err error
		switch op {
		case "upsert":
			_, err = e.Upsert(ctx, caller, req)
		case "delete":
			req.Link.Document, req.Key, req.Size = id, keyed(id), 0
			_, err = e.Delete(ctx, caller, req)
		case "batch":
			_, err = e.Batch(ctx, caller, BatchRequest{Link: link, Key: keyed(id), Operations: []BatchOperation{
				{Action: auth.Upsert, Body: req.Document, Size: len(text)},
			}})
		}
		return err
	}
	idle := func() {
		t.Helper()
		e.turns.mu.Lock()
		defer e.turns.mu.Unlock()
		if e.turns.held != 0 || e.turns.waiting.Load() != 0 {
			t.Errorf("%d turns and %d waiters are left", e.turns.held, e.turns.waiting.Load())
		}
	}
	for _, c := range []struct {
		op string
		n  int
	}{{"upsert", 20_000}, {"upsert", 20_001}, {"batch", 20_002}, {"upsert", 1}, {"batch", 20_000}, {"delete", 0}} {
		e.turns.mu.Lock()
		e.turns.held = 1 // of another request
		e.turns.mu.Unlock()
		done := make(chan error, 1)
		go func() { done <- write(ctx, c.op, "large", c.n) }()
		for e.turns.waiting.Load() == 0 {
			select {
			case err := <-done:
				t.Fatalf("%s of %d elements did not wait for a turn: %v", c.op, c.n, err)
			default:
				time.Sleep(time.Millisecond)
			}
		}
		if err := write(ctx, "upsert", "small", 3); err != nil {
			t.Fatalf("a small document during %s of %d elements: %v", c.op, c.n, err)
		}
		e.turns.release()
		if err := <-done; err != nil {
			t.Fatalf("%s of %d elements: %v", c.op, c.n, err)
		}
		idle()
	}
	// A cancelled waiter leaves no turn and no waiter.
	e.turns.mu.Lock()
	e.turns.held = 1
	e.turns.mu.Unlock()
	short, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- write(short, "upsert", "large", 20_000) }()
	for e.turns.waiting.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; status.CodeOf(err) != status.CodeRequestTimeout {
		t.Errorf("got %v, want a timeout", err)
	}
	e.turns.release()
	idle()
}
