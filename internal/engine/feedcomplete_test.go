package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// follower reads the feed of all versions of a part of the key space.
type follower struct {
	req    engine.FeedRequest
	holds  func(id string) bool
	events map[string][]string // by document: its changes
}

// advance reads one page, and reports whether it was at the end.
func (f *follower) advance(t *testing.T, w *world) (end bool) {
	t.Helper()
	page, err := w.Feed(context.Background(), caller, f.req)
	end = status.CodeOf(err) == status.CodeNotModified
	if err != nil && !end {
		t.Fatal(err)
	}
	for _, row := range page.Rows {
		v := parse(t, string(row))
		change := v.Get("metadata").Get("operationType").Text()
		id := v.Get("current").Get("id").Text()
		body := v.Get("current").Get("_etag").Text()
		if change == "delete" {
			id = v.Get("metadata").Get("id").Text()
			if got, want := v.Get("metadata").Get("partitionKey").JSON(), fmt.Sprintf(`{"pk":%s}`, id); got != want {
				t.Errorf("partition key %s, want %s", got, want)
			}
		}
		if before := v.Get("previous").Get("_etag").Text(); before != "" {
			body += " after " + before
		}
		f.events[id] = append(f.events[id], change+" "+body)
	}
	f.req.After = page.ETag
	return end
}

// completeWorld has a container that keeps all versions.
func completeWorld(t *testing.T, partitions int) (*world, engine.Link) {
	t.Helper()
	w := newWorld(t, nil)
	return w, w.containerOf(t, partitions, `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"changeFeedPolicy":{"retentionDuration":60},"previousImageRetentionPolicy":{"supportedFeatures":{"allVersionsAndDeletes":{"mode":3}}}}`)
}

// Partitions are split and merged while one goroutine writes and others read all
// versions, of the container and of parts of it. Each reader sees every change of
// each document once and in order, and continues after a restart.
func TestCompleteFeedWhileSplitting(t *testing.T) {
	t.Parallel()
	w, link := completeWorld(t, 2)
	const documents, rounds = 30, 10
	definition := func() partitionkey.Definition {
		c, _ := w.catalog.View().Container("d", "c")
		return c.PartitionKey
	}()
	hash := func(id string) partitionkey.EPK { return definition.Hash(*key(t, `[`+id+`]`)) }
	happened := map[string][]string{} // by document; of the writer until done is closed
	last := map[string]string{}       // the etag of each live document
	write := func(from, to int) {
		for i := from; i < to; i++ {
			id := fmt.Sprint(i % documents)
			req := engine.DocumentRequest{Link: link, Key: key(t, `[`+id+`]`)}
			if i%7 == 6 && last[id] != "" {
				req.Link.Document = id
				if _, err := w.Delete(context.Background(), caller, req); err != nil {
					t.Error(err)
					return
				}
				happened[id] = append(happened[id], "delete  after "+last[id])
				delete(last, id)
				continue
			}
			req.Document = parse(t, fmt.Sprintf(`{"id":%q,"pk":%s,"n":%d}`, id, id, i))
			got, err := w.Upsert(context.Background(), caller, req)
			if err != nil {
				t.Error(err)
				return
			}
			event := "create " + string(got.ETag)
			if last[id] != "" {
				event = "replace " + string(got.ETag) + " after " + last[id]
			}
			happened[id] = append(happened[id], event)
			last[id] = string(got.ETag)
		}
	}
	middle := definition.Middle(partitionkey.Full())
	low, high := partitionkey.Range{Max: middle}, partitionkey.Range{Min: middle, Max: partitionkey.MaxEPK}
	one := key(t, `[7]`)
	followers := []*follower{
		{req: engine.FeedRequest{MaxItems: 7}, holds: func(string) bool { return true }},
		{req: engine.FeedRequest{MaxItems: 1, Clip: &low}, holds: func(id string) bool { return low.Contains(hash(id)) }},
		{req: engine.FeedRequest{MaxItems: -1, Clip: &high}, holds: func(id string) bool { return high.Contains(hash(id)) }},
		{req: engine.FeedRequest{MaxItems: 3, Key: one}, holds: func(id string) bool { return id == "7" }},
	}
	for _, f := range followers {
		f.req.Link, f.req.Complete, f.req.After, f.events = link, true, "*", map[string][]string{}
		if !f.advance(t, w) {
			t.Fatal("now has changes")
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		write(0, documents*rounds)
	}()
	reshaped := reshape(t, w, 6)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		for _, f := range followers {
			f.advance(t, w)
		}
	}
	<-reshaped
	w.reopen(t)
	write(documents*rounds, documents*(rounds+1))
	for i, f := range followers {
		for !f.advance(t, w) {
		}
		for id, want := range happened {
			if !f.holds(id) {
				want = nil
			}
			if got := quoted(f.events[id]); !slices.Equal(got, quoted(want)) {
				t.Errorf("follower %d has of document %s\n%q, want\n%q", i, id, got, want)
			}
		}
	}
}

// quoted returns events with quoted etags, as results have them.
func quoted(events []string) []string {
	all := make([]string, len(events))
	for i, e := range events {
		for _, c := range e {
			if c != '"' && c != '\\' {
				all[i] += string(c)
			}
		}
	}
	return all
}

// The feed of all versions begins at the current time, and exists only if the
// container keeps versions.
func TestCompleteFeedRefused(t *testing.T) {
	t.Parallel()
	w, link := completeWorld(t, 2)
	w.create(t, link, `{"id":"1","pk":1}`)
	plain := newWorld(t, nil)
	other := plain.container(t, 1, "/pk")
	for _, c := range []struct {
		name string
		w    *world
		req  engine.FeedRequest
		want status.Code
	}{
		{"now", w, engine.FeedRequest{Link: link, After: "*"}, status.CodeNotModified},
		{"from what is kept on", w, engine.FeedRequest{Link: link, After: `"1"`}, 0},
		{"the beginning", w, engine.FeedRequest{Link: link}, status.CodeBadRequest},
		{"a time", w, engine.FeedRequest{Link: link, After: "*", Since: time.Unix(1, 0)}, status.CodeBadRequest},
		{"no policy", plain, engine.FeedRequest{Link: other, After: "*"}, status.CodeBadRequest},
		{"another mode's position in a container without policy", plain, engine.FeedRequest{Link: other, After: `"0"`}, status.CodeBadRequest},
	} {
		c.req.Complete = true
		if _, err := c.w.Feed(t.Context(), caller, c.req); status.CodeOf(err) != c.want {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := w.Feed(t.Context(), anonymous, engine.FeedRequest{Link: link, Complete: true, After: "*"}); status.CodeOf(err) != status.CodeUnauthorized {
		t.Errorf("anonymous got %v", err)
	}
}
