package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// readers has the operations that take a session token.
func readers(t *testing.T, w *world, link engine.Link, session string) map[string]func() error {
	options := engine.Options{Session: session}
	document := link
	document.Document = "1"
	return map[string]func() error{
		"read": func() error {
			_, err := w.Read(t.Context(), caller, engine.DocumentRequest{Link: document, Key: key(t, `["1"]`), Options: options})
			return err
		},
		"query": func() error {
			_, err := w.Query(t.Context(), caller, engine.QueryRequest{Link: link, Key: key(t, `["1"]`), Text: "SELECT * FROM c", Options: options})
			return err
		},
		"feed": func() error {
			_, err := w.Feed(t.Context(), caller, engine.FeedRequest{Link: link, Key: key(t, `["1"]`), Options: options})
			return err
		},
	}
}

func isBehind(err error) bool {
	return status.CodeOf(err) == status.CodeNotFound && status.SubOf(err) == status.SubReadSessionNotAvailable
}

// A read whose session token is ahead of the partition is tried again until the
// partition has caught up.
func TestSessionWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *engine.Config) { c.Limits.SessionWait = time.Minute })
	link := w.container(t, 1, "/a")
	lsn := w.create(t, link, `{"id":"1","a":"1"}`).LSN
	asked := func() int64 {
		all, err := w.PartitionStats(t.Context(), caller, link)
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Reads + all[0].Queries
	}
	for _, name := range []string{"read", "query", "feed"} {
		run := readers(t, w, link, resource.PartitionID(0).SessionToken(lsn+2))[name]
		before := asked()
		answer := make(chan error, 1)
		go func() { answer <- run() }()
		for asked() < before+2 { // It was refused once, and tried again.
			runtime.Gosched()
		}
		for range 2 {
			select {
			case err := <-answer:
				t.Fatalf("%s: answered before the token was reached: %v", name, err)
			default:
			}
			lsn++
			if made := w.create(t, link, fmt.Sprintf(`{"id":"%d","a":"1"}`, lsn)); made.LSN != lsn {
				t.Fatalf("LSN %d, want %d", made.LSN, lsn)
			}
		}
		if err := <-answer; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Without a wait, and when the wait is over, a token that is ahead by one is
// refused, and one that is just reached is not.
func TestSessionWaitEnds(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Millisecond} {
		w := newWorld(t, func(c *engine.Config) { c.Limits.SessionWait = wait })
		link := w.container(t, 1, "/a")
		lsn := w.create(t, link, `{"id":"1","a":"1"}`).LSN
		for name, run := range readers(t, w, link, resource.PartitionID(0).SessionToken(lsn)) {
			if err := run(); err != nil {
				t.Errorf("%s, wait %v: %v", name, wait, err)
			}
		}
		for name, run := range readers(t, w, link, resource.PartitionID(0).SessionToken(lsn+1)) {
			if err := run(); !isBehind(err) {
				t.Errorf("%s, wait %v: got %v for a token that is one ahead, want 404/1002", name, wait, err)
			}
		}
	}
}

// Tokens of a partition apply to the partitions that it was split into and merged
// into: up to their LSN they are reached, beyond it they are refused.
func TestSessionOfFamilies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *engine.Config) { c.Limits.SessionWait = 0 })
	link := w.container(t, 1, "/a")
	for i := range 20 {
		w.create(t, link, fmt.Sprintf(`{"id":"1","a":"%d"}`, i))
	}
	// The partition that serves key 1, the ids of all partitions that have served
	// it, and ids of partitions that never have.
	where := func() resource.Partition {
		c, _ := w.catalog.View().Container("d", "c")
		return c.Ranges.Locate(c.PartitionKey.Hash(*key(t, `["1"]`))).Value
	}
	check := func(state string, family []resource.PartitionID, strangers []resource.PartitionID) {
		t.Helper()
		made := w.create(t, link, fmt.Sprintf(`{"id":%q,"a":"1"}`, state))
		own := where()
		if want := own.ID.SessionToken(made.LSN); made.Session != want {
			t.Errorf("%s: token %s, want %s", state, made.Session, want)
		}
		for _, id := range append(family, own.ID) {
			for name, run := range readers(t, w, link, id.SessionToken(made.LSN)) {
				if err := run(); err != nil {
					t.Errorf("%s: %s with the token of %s: %v", state, name, id, err)
				}
			}
			for name, run := range readers(t, w, link, id.SessionToken(made.LSN+1)) {
				if err := run(); !isBehind(err) {
					t.Errorf("%s: %s with a token of %s that is ahead: %v", state, name, id, err)
				}
			}
		}
		for _, id := range strangers {
			for name, run := range readers(t, w, link, id.SessionToken(made.LSN+1000)) {
				if err := run(); err != nil {
					t.Errorf("%s: %s with the token of %s, which does not hold the key: %v", state, name, id, err)
				}
			}
		}
	}
	root := where().ID
	check("whole", nil, []resource.PartitionID{root + 1000})

	c, _ := w.catalog.View().Container("d", "c")
	if _, err := w.node.Split(context.Background(), c.RID, root, partitionkey.EPK("")); err != nil {
		t.Fatal(err)
	}
	c, _ = w.catalog.View().Container("d", "c")
	low, high := c.Ranges.At(0).Value.ID, c.Ranges.At(1).Value.ID
	other := low
	if where().ID == low {
		other = high
	}
	check("split", []resource.PartitionID{root}, []resource.PartitionID{other})

	if _, err := w.node.Merge(context.Background(), c.RID, low, high); err != nil {
		t.Fatal(err)
	}
	check("merged", []resource.PartitionID{root, low, high}, []resource.PartitionID{root + 1000})
	w.reopen(t)
	check("restarted", []resource.PartitionID{root, low, high}, []resource.PartitionID{root + 1000})
}
