package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// cursor is a query that is read page by page while documents change and
// partitions are split.
type cursor struct {
	shape   splittingShape
	req     [2]engine.QueryRequest
	rows    [2][]string
	ended   [2]bool
	changes int64           // when its last page was read
	touched map[string]bool // documents that have changed since it began
}

// turnCursor begins a cursor, or reads a page of one.
func (a *actor) turnCursor() {
	if len(a.cursors) < 4 {
		c := &cursor{touched: map[string]bool{}}
		for !c.shape.kept {
			c.shape = splittingShapes[a.random.IntN(len(splittingShapes))]
		}
		for on, s := range a.sides {
			c.req[on] = engine.QueryRequest{Link: s.link, Text: fmt.Sprintf(c.shape.text, a.id), MaxItems: 1 + a.random.IntN(12), Cross: true, Full: true}
		}
		c.changes = a.sides[1].changes.Load()
		a.cursors = append(a.cursors, c)
	}
	at := a.random.IntN(len(a.cursors))
	if a.advance(a.cursors[at]) {
		a.cursors = slices.Delete(a.cursors, at, at+1)
	}
}

// advance reads a page on both sides, and compares them when both have ended:
// each document that has not changed meanwhile came once.
func (a *actor) advance(c *cursor) (ended bool) {
	for on, s := range a.sides {
		if c.ended[on] {
			continue
		}
		begun := c.req[on].Continuation != ""
		rows, ok := a.page(s, &c.req[on])
		if !ok {
			return true
		}
		c.rows[on] = append(c.rows[on], rows...)
		c.ended[on] = c.req[on].Continuation == ""
		if now := s.changes.Load(); on == 1 && begun && now > c.changes {
			c.changes = now
			a.crossed++
		}
	}
	if !c.ended[0] || !c.ended[1] {
		return false
	}
	for on := range c.rows {
		c.rows[on] = slices.DeleteFunc(c.rows[on], func(row string) bool { return c.touched[parse(a.t, row).Index(0).Text()] })
		if ids := slices.Compact(slices.Sorted(slices.Values(c.rows[on]))); len(ids) != len(c.rows[on]) {
			a.t.Errorf("actor %d: %s: %s returned a row twice: %v", a.id, a.sides[on].name, c.req[on].Text, c.rows[on])
		}
	}
	a.compare(c.shape, "in pages between writes, what did not change: "+c.req[0].Text, c.rows)
	return true
}

// splitReader follows the change feed of a part of the container.
type splitReader struct {
	req     [2]engine.FeedRequest
	known   [2]map[string]string // this actor's documents, in their latest version
	etags   [2]map[string]string // of all documents
	ignored map[string]string    // documents from before the reader began
	holds   func(partitionkey.EPK) bool
	changes int64
}

// turnReader begins a reader, reads a page of one, or reads one to its end.
func (a *actor) turnReader() {
	if len(a.readers) < 5 {
		a.readers = append(a.readers, a.reader())
		return
	}
	r := a.readers[a.random.IntN(len(a.readers))]
	if a.random.IntN(6) == 0 {
		a.drain(r)
		return
	}
	for on := range a.sides {
		a.follow(r, on)
	}
}

// reader returns a reader that begins at the beginning, or now.
func (a *actor) reader() *splitReader {
	r := &splitReader{ignored: map[string]string{}, holds: partitionkey.Full().Contains, changes: a.sides[1].changes.Load()}
	key, clip := a.scoped()
	if key != nil {
		within, err := a.sides[0].key.Prefix(*key)
		if err != nil {
			a.t.Error(err)
		}
		r.holds = within.Contains
	}
	if clip != nil {
		r.holds = clip.Contains
	}
	now := a.random.IntN(2) == 0
	for on, s := range a.sides {
		r.known[on], r.etags[on] = map[string]string{}, map[string]string{}
		r.req[on] = engine.FeedRequest{Link: s.link, Key: key, Clip: clip}
		if now {
			r.req[on].After = partition.AnyETag
			a.follow(r, on)
		}
	}
	if now {
		for i, text := range a.model {
			r.ignored[a.name(i)] = text
		}
	}
	return r
}

// follow reads a page, and reports whether there are no further changes now.
func (a *actor) follow(r *splitReader, on int) (end bool) {
	s, req := a.sides[on], r.req[on]
	req.MaxItems = []int{2, 9, -1}[a.random.IntN(3)]
	req.Session = a.session(on)
	page, err := s.Feed(context.Background(), caller, req)
	if end = status.CodeOf(err) == status.CodeNotModified; err != nil && !end {
		a.t.Errorf("actor %d: %s: change feed: %v", a.id, s.name, err)
		return true
	}
	if now := s.changes.Load(); on == 1 && req.After != "" && now > r.changes {
		r.changes = now
		a.crossed++
	}
	r.req[on].After = page.ETag
	for _, row := range page.Rows {
		v := parse(a.t, string(row))
		id := v.Get("id").Text()
		if etag := v.Get("_etag").Text(); r.etags[on][id] == etag {
			a.t.Errorf("actor %d: %s: %s came twice in the change feed without a change", a.id, s.name, id)
		} else {
			r.etags[on][id] = etag
		}
		if strings.HasPrefix(id, a.name(0)[:2]) {
			r.known[on][id] = own(a.t, row)
		}
	}
	return end
}

// drain reads both sides to their ends. Then the latest version of every live
// document is known.
func (a *actor) drain(r *splitReader) {
	for on := range a.sides {
		for pages := 0; !a.follow(r, on); pages++ {
			if pages > 20_000 {
				a.t.Errorf("actor %d: the change feed of %s does not end", a.id, a.sides[on].name)
				return
			}
		}
		c := a.sides[on].container()
		for i, text := range a.model {
			if !r.holds(c.PartitionKey.Hash(c.KeyOf(parse(a.t, text)))) || r.ignored[a.name(i)] == text {
				continue
			}
			if got := r.known[on][a.name(i)]; got != text {
				a.t.Errorf("actor %d: the change feed of %s has %q of %s, want %s", a.id, a.sides[on].name, got, a.name(i), text)
			}
		}
	}
}
