package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// changes shows a page of the change feed of a container. Its lines are key, partition,
// clip (two bounds), items, after, since (seconds), and those of every request. A token
// of several ranges is shown by its size in hundreds of characters.
func (s *story) changes(ctx context.Context, t *testing.T, d *datadriven.TestData) (string, error) {
	req := engine.FeedRequest{Link: s.link, Key: s.key(t), MaxItems: s.number("items"), After: resource.ETag(s.headers["after"]), Options: s.options()}
	if _, given := s.headers["partition"]; given {
		id := resource.PartitionID(s.number("partition"))
		req.Partition = &id
	}
	if text, given := s.headers["clip"]; given {
		var clip partitionkey.Range
		low, high, _ := strings.Cut(text, " ")
		if err := errors.Join(clip.Min.UnmarshalText([]byte(low)), clip.Max.UnmarshalText([]byte(high))); err != nil {
			t.Fatal(err)
		}
		req.Clip = &clip
	}
	if seconds := s.number("since"); seconds > 0 {
		req.Since = time.Unix(int64(seconds), 0)
	}
	page, err := s.Feed(ctx, caller, req)
	s.continuation = string(page.ETag)
	var b strings.Builder
	for _, row := range page.Rows {
		v := parse(t, string(row))
		if d.HasArg("whole") {
			fmt.Fprintln(&b, v.Without("_etag", "_rid", "_self", "_attachments").JSON())
			continue
		}
		fmt.Fprintf(&b, "%s at %s\n", v.Get("id").Text(), v.Get("_lsn").JSON())
	}
	etag := string(page.ETag)
	if len(etag) > 24 {
		etag = fmt.Sprintf("of up to %d00 characters", len(etag)/100+1)
	}
	fmt.Fprintf(&b, "etag %s, session %s, partitions %v, %.2f RU\n", etag, page.Session, page.Partitions, page.Charge)
	return b.String(), err
}

// changesOf is the model of a document.
type changesOf struct {
	body string
	epk  partitionkey.EPK
	ts   int64
}

// feedWorld is a container, a model of its documents, and readers of its feed.
type feedWorld struct {
	*world
	t      *testing.T
	random *rand.Rand
	clock  atomic.Int64 // seconds
	link   engine.Link
	key    partitionkey.Definition
	live   map[string]changesOf

	followed int // parts that returned 410
}

// feedReader keeps the documents that it has received, and those that it must
// not receive.
type feedReader struct {
	scope   string
	parts   []engine.FeedRequest // read in turn: one, or one for each child of its partition
	holds   func(epk partitionkey.EPK) bool
	since   int64
	ignored map[string]string // bodies, by name, of versions from before the reader began
	known   map[string]string
	lsns    map[string]int // the latest of each key
}

// TestFeedModel draws writes, deletes, and readers with any start, scope and page size,
// while partitions are split. A reader at the end has the latest version of every live
// document of its scope. It gets none twice without a change in between, and gets the
// documents of a key in order.
func TestFeedModel(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 2, 5} {
		for _, paths := range [][]string{{"/a"}, {"/a", "/b"}} {
			for _, seed := range []uint64{1, 2} {
				if engine.RaceDetector && seed > 1 {
					break
				}
				t.Run(fmt.Sprintf("partitions=%d/levels=%d/seed=%d", partitions, len(paths), seed), func(t *testing.T) {
					t.Parallel()
					w := &feedWorld{t: t, random: rand.New(rand.NewPCG(seed, 3)), live: map[string]changesOf{}}
					w.clock.Store(1_700_000_000)
					w.world = newWorld(t, func(c *engine.Config) {
						c.Now = func() time.Time { return time.Unix(w.clock.Load(), 0) }
						c.Limits.ResponseBytes = 4000
					})
					w.link = w.container(t, partitions, paths...)
					w.run()
				})
			}
		}
	}
}

func (w *feedWorld) run() {
	c, _ := w.catalog.View().Container("d", "c")
	w.key = c.PartitionKey
	var readers []*feedReader
	for step := range 300 {
		w.clock.Add(w.random.Int64N(2))
		w.write()
		if step%8 == 5 {
			readers = append(readers, w.reader())
		}
		if step == 150 {
			w.reopen(w.t)
		}
		if step%60 == 40 {
			w.split()
		}
		if step%60 == 59 {
			w.merge()
		}
		for range min(2, len(readers)) {
			w.advance(readers[w.random.IntN(len(readers))])
		}
	}
	for _, r := range readers {
		w.drain(r)
		w.verify(r)
	}
	if w.followed == 0 && w.key.Levels() > 1 {
		w.t.Error("no reader met a split")
	}
}

// split has a partition of two or more keys split.
func (w *feedWorld) split() {
	c, _ := w.catalog.View().Container("d", "c")
	entry := c.Ranges.At(w.random.IntN(c.Ranges.Len()))
	if _, err := w.node.Split(context.Background(), c.RID, entry.Value.ID, ""); err != nil && !errors.Is(err, partition.ErrIndivisible) {
		w.t.Fatal(err)
	}
}

// merge merges two neighbours.
func (w *feedWorld) merge() {
	c, _ := w.catalog.View().Container("d", "c")
	if c.Ranges.Len() < 2 {
		return
	}
	at := w.random.IntN(c.Ranges.Len() - 1)
	if _, err := w.node.Merge(context.Background(), c.RID, c.Ranges.At(at).Value.ID, c.Ranges.At(at+1).Value.ID); err != nil {
		w.t.Fatal(err)
	}
}

// drain reads until no part has further documents.
func (w *feedWorld) drain(r *feedReader) {
	quiet := 0
	for range 5000 {
		if quiet++; !w.advance(r) {
			quiet = 0
		}
		if quiet >= len(r.parts) {
			return
		}
	}
	w.t.Fatalf("%s: no end", r.scope)
}

func (w *feedWorld) write() {
	id, a, b := w.random.IntN(20), w.random.IntN(4), w.random.IntN(3)
	text := fmt.Sprintf(`{"id":"%d","a":%d,"b":%d,"n":%d,"pad":"%s"}`, id, a, b, w.random.IntN(1000), strings.Repeat("p", w.random.IntN(600)))
	doc := parse(w.t, text)
	name, key := w.name(text), w.keyOf(text)
	if w.random.IntN(3) > 0 {
		got, err := w.Upsert(context.Background(), caller, engine.DocumentRequest{Link: w.link, Document: doc})
		if err != nil {
			w.t.Fatal(err)
		}
		w.live[name] = changesOf{body: string(got.Body), epk: w.key.Hash(key), ts: w.clock.Load()}
		return
	}
	link := w.link
	link.Document = fmt.Sprint(id)
	_, err := w.Delete(context.Background(), caller, engine.DocumentRequest{Link: link, Key: &key})
	if _, there := w.live[name]; there != (err == nil) {
		w.t.Fatalf("delete %s: %v", name, err)
	}
	delete(w.live, name)
}

func (w *feedWorld) keyOf(doc string) partitionkey.Key {
	v := parse(w.t, doc)
	key := partitionkey.NewKey(partitionkey.Number(v.Get("a").Float()))
	if w.key.Levels() > 1 {
		key = key.Append(partitionkey.Number(v.Get("b").Float()))
	}
	return key
}

func (w *feedWorld) name(doc string) string {
	return fmt.Sprint(w.keyOf(doc), "|", parse(w.t, doc).Get("id").Text())
}

// reader draws the scope and the start of a reader.
func (w *feedWorld) reader() *feedReader {
	r := &feedReader{known: map[string]string{}, ignored: map[string]string{}, lsns: map[string]int{}}
	r.parts = []engine.FeedRequest{{Link: w.link}}
	w.scope(r, &r.parts[0])
	switch w.random.IntN(4) {
	case 0:
		r.scope += " from the beginning"
	case 1:
		r.scope += " from a time"
		r.since = 1_700_000_000 + w.random.Int64N(w.clock.Load()-1_700_000_000+3)
		r.parts[0].Since = time.Unix(r.since, 0)
	default:
		r.scope += " from now"
		r.parts[0].After = "*"
		for name, d := range w.live {
			r.ignored[name] = d.body
		}
		if !w.advance(r) {
			w.t.Fatalf("%s is not at the end", r.scope)
		}
	}
	return r
}

func (w *feedWorld) scope(r *feedReader, req *engine.FeedRequest) {
	c, _ := w.catalog.View().Container("d", "c")
	prefix := func(levels int) {
		key := w.keyOf(fmt.Sprintf(`{"id":"x","a":%d,"b":%d}`, w.random.IntN(4), w.random.IntN(3)))
		key = partitionkey.NewKey(key.Components()[:levels]...)
		part, err := w.key.Prefix(key)
		if err != nil {
			w.t.Fatal(err)
		}
		req.Key, r.holds = &key, part.Contains
	}
	switch w.random.IntN(5) {
	case 0:
		r.scope, r.holds = "the container", partitionkey.Full().Contains
	case 1:
		r.scope = "a partition"
		entry := c.Ranges.At(w.random.IntN(c.Ranges.Len()))
		id := entry.Value.ID
		req.Partition, req.Clip, r.holds = &id, &entry.Range, entry.Range.Contains
	case 2:
		r.scope = "a key"
		prefix(w.key.Levels())
	case 3:
		r.scope = "a prefix"
		prefix(1)
	case 4:
		r.scope = "a part of the key space"
		middle := w.key.Middle(partitionkey.Full())
		clip := partitionkey.Range{Min: w.key.Middle(partitionkey.Range{Max: middle}), Max: w.key.Middle(partitionkey.Range{Min: middle, Max: partitionkey.MaxEPK})}
		req.Clip, r.holds = &clip, clip.Contains
	}
}

// advance reads a page of the next part, and reports whether that part was at
// its end.
func (w *feedWorld) advance(r *feedReader) bool {
	req := r.parts[0]
	req.MaxItems = []int{1, 7, -1}[w.random.IntN(3)]
	page, err := w.Feed(context.Background(), caller, req)
	if req.Partition != nil && status.CodeOf(err) == status.CodeGone && status.SubOf(err) == status.SubRangeGone {
		w.follow(r)
		return false
	}
	end := status.CodeOf(err) == status.CodeNotModified
	if err != nil && !end || end && len(page.Rows) > 0 {
		w.t.Fatalf("%s: %v with %d documents", r.scope, err, len(page.Rows))
	}
	for _, row := range page.Rows {
		w.take(r, string(row))
	}
	rows := w.begun(page.Rows)
	if req.MaxItems > 0 && len(rows) > req.MaxItems {
		w.t.Fatalf("%s: %d documents on a page of %d", r.scope, len(rows), req.MaxItems)
	}
	if size := len(bytes.Join(rows, nil)); len(rows) > 1 && size > w.cfg.Limits.ResponseBytes {
		w.t.Fatalf("%s: %d bytes on a page", r.scope, size)
	}
	if page.ETag == "" || page.Charge < 1 || page.Session == "" {
		w.t.Fatalf("%s: etag %q, charge %v, session %q", r.scope, page.ETag, page.Charge, page.Session)
	}
	req.After = page.ETag
	if w.random.IntN(2) == 0 { // Some clients send the time with each page, others do not.
		req.Since = time.Time{}
	}
	r.parts = append(r.parts[1:], req)
	return end
}

// begun returns the documents of a page without those that follow another one of
// the same, last LSN: the documents of one LSN are on one page, whatever its size,
// and merged partitions may each have some.
func (w *feedWorld) begun(rows [][]byte) [][]byte {
	lsn := func(at int) int64 {
		n, _ := parse(w.t, string(rows[at])).Get("_lsn").Int64()
		return n
	}
	end := len(rows)
	for end > 1 && lsn(end-2) == lsn(end-1) {
		end--
	}
	return rows[:end]
}

// follow replaces a part that returned 410 by the present partitions of its
// range, as clients do. Each continues at the same position.
func (w *feedWorld) follow(r *feedReader) {
	c, _ := w.catalog.View().Container("d", "c")
	gone := r.parts[0]
	r.parts = r.parts[1:]
	for _, entry := range c.Ranges.Overlapping(*gone.Clip) {
		id := entry.Value.ID
		clip, _ := entry.Range.Intersect(*gone.Clip)
		part := gone
		part.Partition, part.Clip = &id, &clip
		r.parts = append(r.parts, part)
	}
	w.followed++
}

func (w *feedWorld) take(r *feedReader, row string) {
	v := parse(w.t, row)
	name, body := w.name(row), v.Without("_lsn").JSON()
	live, there := w.live[name]
	if !there || live.body != body || !r.holds(live.epk) || live.ts <= r.since {
		w.t.Fatalf("%s has %s, want %+v", r.scope, row, live)
	}
	if r.known[name] == body || r.ignored[name] == body {
		w.t.Fatalf("%s has %s again", r.scope, row)
	}
	r.known[name] = body
	key, lsn := fmt.Sprint(w.keyOf(row)), int(v.Get("_lsn").Float())
	if lsn <= r.lsns[key] {
		w.t.Fatalf("%s has LSN %d of key %s after %d", r.scope, lsn, key, r.lsns[key])
	}
	r.lsns[key] = lsn
}

func (w *feedWorld) verify(r *feedReader) {
	for name, d := range w.live {
		asked := r.holds(d.epk) && d.ts > r.since && r.ignored[name] != d.body
		if asked && r.known[name] != d.body {
			w.t.Errorf("%s knows %q of %s, want %+v", r.scope, r.known[name], name, d)
		}
	}
}

// Partitions are split while one goroutine writes and another reads: in the end
// the reader has the latest version of every document, and it gets none twice.
func TestFeedWhileSplitting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 2, "/pk")
	const documents, rounds = 60, 15
	latest := map[string]string{} // of the writer until done is closed
	write := func(from, to int) {
		for i := from; i < to; i++ {
			text := fmt.Sprintf(`{"id":"%d","pk":%d,"n":%d}`, i%documents, i%documents, i)
			got, err := w.Upsert(context.Background(), caller, engine.DocumentRequest{Link: link, Document: parse(t, text)})
			if err != nil {
				t.Error(err)
				return
			}
			latest[fmt.Sprint(i%documents)] = string(got.Body)
		}
	}
	write(0, documents)
	done := make(chan struct{})
	go func() {
		defer close(done)
		write(documents, documents*rounds)
	}()
	reshaped := reshape(t, w, 8)
	known := readUntil(t, w, link, done)
	<-reshaped
	if len(known) != documents {
		t.Errorf("%d of %d documents", len(known), documents)
	}
	for id, body := range latest {
		if known[id] != body {
			t.Errorf("knows %s, want %s", known[id], body)
		}
	}
}

// reshape changes the partitions of a container of two or more the given number of
// times, and then closes the channel that it returns. It merges two neighbours in
// every third step if there are more than two partitions, and splits one in the
// others. A partition with fewer than two keys is not split.
func reshape(t *testing.T, w *world, times int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range times {
			c, _ := w.catalog.View().Container("d", "c")
			at := i % (c.Ranges.Len() - 1)
			low, high := c.Ranges.At(at).Value.ID, c.Ranges.At(at+1).Value.ID
			var err error
			if i%3 == 2 && c.Ranges.Len() > 2 {
				_, err = w.node.Merge(context.Background(), c.RID, low, high)
			} else {
				_, err = w.node.Split(context.Background(), c.RID, low, "")
			}
			if err != nil && !errors.Is(err, partition.ErrIndivisible) {
				t.Error(err)
			}
		}
	}()
	return done
}

// readUntil reads the feed of a container up to its end after done is closed,
// and returns the documents by id. No version may come twice.
func readUntil(t *testing.T, w *world, link engine.Link, done <-chan struct{}) map[string]string {
	t.Helper()
	known := map[string]string{}
	req := engine.FeedRequest{Link: link, MaxItems: 7}
	for last := false; ; {
		page, err := w.Feed(context.Background(), caller, req)
		end := status.CodeOf(err) == status.CodeNotModified
		if err != nil && !end {
			t.Fatal(err)
		}
		for _, row := range page.Rows {
			v := parse(t, string(row))
			id, body := v.Get("id").Text(), v.Without("_lsn").JSON()
			if known[id] == body {
				t.Fatalf("%s comes twice", row)
			}
			known[id] = body
		}
		req.After = page.ETag
		if end && last {
			return known
		}
		if end { // The writer may have written after this page.
			select {
			case <-done:
				last = true
			default:
			}
		}
	}
}

// The pages of a feed rotate over the partitions: one that changes faster than
// it is read does not delay the others.
func TestFeedTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 4, "/pk")
	for i := range 40 {
		w.create(t, link, fmt.Sprintf(`{"id":"%d","pk":%d}`, i, i))
	}
	req := engine.FeedRequest{Link: link, MaxItems: 1}
	var first []resource.PartitionID
	for range 4 {
		page, err := w.Feed(context.Background(), caller, req)
		if err != nil || len(page.Rows) != 1 {
			t.Fatalf("%d documents, %v", len(page.Rows), err)
		}
		first = append(first, page.Partitions[0])
		req.After = page.ETag
	}
	if got := fmt.Sprint(first); got != "[0 1 2 3]" {
		t.Errorf("the partitions were asked in the order %s", got)
	}
}

// A feed needs a caller.
func TestFeedNeedsCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 1, "/pk")
	if _, err := w.Feed(context.Background(), anonymous, engine.FeedRequest{Link: link}); status.CodeOf(err) != status.CodeUnauthorized {
		t.Errorf("got %v", err)
	}
}
