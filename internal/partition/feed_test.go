package partition

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// feed: feed [key=JSON] [after=LSN] [since=SECONDS] [items=N] [bytes=N] [session=LSN]
// [generation=N] [now] [begun] [whole]; one page. The key may be a prefix, the time counts
// from where the clock of a story begins, and whole shows all of each document.
func (s *story) feed(d *datadriven.TestData) string {
	number := func(name string) (n int) {
		if d.HasArg(name) {
			d.ScanArgs(s.t, name, &n)
		}
		return n
	}
	var meter throughput.Meter
	ask := Feed{
		After: resource.LSN(number("after")), Now: d.HasArg("now"), Begun: d.HasArg("begun"), MaxItems: number("items"), MaxBytes: number("bytes"),
		Session: resource.LSN(number("session")), Generation: s.w.own.Generation, Range: partitionkey.Full(), Meter: &meter,
	}
	if d.HasArg("generation") {
		ask.Generation = resource.Generation(number("generation"))
	}
	if d.HasArg("since") {
		ask.Since = clockStart + int64(number("since"))
	}
	if text := s.arg(d, "key"); text != "" {
		var err error
		if ask.Range, err = s.w.container.Load().PartitionKey.Prefix(s.key(text)); err != nil {
			s.t.Fatal(err)
		}
	}
	page, err := s.w.partition.Load().Feed(context.Background(), ask)
	if err != nil {
		return fmt.Sprintf("%s (lsn %d, %.2f RU)\n", statusText(err), page.LSN, meter.Charge())
	}
	var b strings.Builder
	for _, doc := range page.Documents {
		if d.HasArg("whole") {
			fmt.Fprintf(&b, "%s\n", s.hide(string(doc)))
			continue
		}
		v := s.w.parse(string(doc))
		fmt.Fprintf(&b, "%s at %s\n", v.Get("id").Text(), v.Get("_lsn").JSON())
	}
	more := map[bool]string{true: "more", false: "end"}[page.More]
	fmt.Fprintf(&b, "position %d of %d, %s, %.2f RU\n", page.Position, page.LSN, more, meter.Charge())
	return b.String()
}

// clockStart is the initial time of a world.
const clockStart = 1_700_000_000

// seen is a document as a reader of the feed knows it.
type seen struct {
	body string
	lsn  resource.LSN
}

// feedModel is a simple model: every change of every document with its LSN and time.
type feedModel struct {
	live map[string]feedDocument // by key and id
}

type feedDocument struct {
	name string
	epk  partitionkey.EPK
	body string // complete
	lsn  resource.LSN
	ts   int64
}

// readerOf is one reader of the feed, with the documents that it received.
type readerOf struct {
	r        partitionkey.Range
	since    int64
	position resource.LSN
	known    map[string]seen
	start    resource.LSN // earlier changes are not requested
}

// TestFeedModel draws writes and lets readers of every range, start and page
// size read in between. A reader that has reached the end knows the latest
// version of every live document that changed after its start; no version comes twice,
// and pages are in the order of LSNs.
func TestFeedModel(t *testing.T) {
	t.Parallel()
	for _, shape := range []struct {
		name    string
		version int
		paths   []string
	}{
		{"hash1", 1, []string{"/a"}},
		{"hash2", 2, []string{"/a"}},
		{"levels=2", 2, []string{"/a", "/b"}},
		{"levels=3", 2, []string{"/a", "/b", "/c"}},
	} {
		for _, seed := range []uint64{1, 2, 3} {
			t.Run(fmt.Sprintf("%s/seed=%d", shape.name, seed), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, 7))
				w := newWorld(t, containerWith(t, shape.version, shape.paths, `{"indexingMode":"none"}`))
				runFeedModel(t, w, random)
			})
		}
	}
}

func runFeedModel(t *testing.T, w *world, random *rand.Rand) {
	m := &feedModel{live: map[string]feedDocument{}}
	ranges := &model{}
	var readers []*readerOf
	for step := range 400 {
		w.clock.Add(int64(random.IntN(2)))
		m.write(t, w, random)
		if step%10 == 3 {
			readers = append(readers, m.reader(w, ranges.drawRange(w, random), random))
		}
		if step%97 == 96 {
			if err := w.crash(0, uint64(step)); err != nil {
				t.Fatal(err)
			}
		}
		// With these, readers of small ranges gather documents instead of following
		// the feed.
		w.partition.Load().reader.Strategy = scan.DefaultStrategy()
		if random.IntN(2) == 0 {
			w.partition.Load().reader.Strategy.ScanMax, w.partition.Load().reader.Strategy.Costs = []int64{5, 40}[random.IntN(2)], scan.Costs{Row: 1}
		}
		for range min(2, len(readers)) {
			m.advance(t, w, readers[random.IntN(len(readers))], random)
		}
	}
	for _, r := range readers {
		for !m.advance(t, w, r, random) {
		}
		m.verify(t, r)
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// write creates, changes or deletes a document.
func (m *feedModel) write(t *testing.T, w *world, random *rand.Rand) {
	t.Helper()
	doc := drawDocument(random)
	c := w.container.Load()
	key := c.KeyOf(doc)
	name := string(key.Canonical(c.PartitionKey)) + "|" + doc.Get("id").Text()
	op := Upsert
	if random.IntN(3) == 0 {
		op = Delete
	}
	got, err := w.write(op, doc, func(x *Write) { x.ID = doc.Get("id").Text() })
	switch {
	case op == Delete && m.live[name].name == "" && status.CodeOf(err) == status.CodeNotFound:
		return
	case err != nil:
		t.Fatal(err)
	case op == Delete:
		delete(m.live, name)
		return
	}
	m.live[name] = feedDocument{name: name, epk: c.PartitionKey.Hash(key), body: string(got.Body), lsn: got.LSN, ts: w.clock.Load()}
}

// reader draws a reader that begins at the beginning, now, at a time or after
// an LSN.
func (m *feedModel) reader(w *world, r partitionkey.Range, random *rand.Rand) *readerOf {
	now := w.partition.Load().LSN()
	reader := &readerOf{r: r, known: map[string]seen{}}
	switch random.IntN(4) {
	case 0:
	case 1:
		page, err := w.partition.Load().Feed(context.Background(), Feed{Generation: w.own.Generation, Range: r, Now: true})
		if err != nil || page.Position != now || len(page.Documents) > 0 || page.More {
			w.tb.Fatalf("now is %+v, %v at %d", page, err, now)
		}
		reader.position, reader.start = now, now
	case 2:
		reader.since = clockStart + random.Int64N(w.clock.Load()-clockStart+5)
	case 3:
		reader.position = resource.LSN(random.Uint64N(uint64(now) + 3))
		reader.start = reader.position
	}
	return reader
}

// advance reads a page of random size, and reports whether it was the last for now.
func (m *feedModel) advance(t *testing.T, w *world, r *readerOf, random *rand.Rand) bool {
	t.Helper()
	ask := Feed{
		Generation: w.own.Generation, Range: r.r, After: r.position, Since: r.since,
		MaxItems: []int{0, 1, 7}[random.IntN(3)], MaxBytes: []int{0, 1, 2000}[random.IntN(3)],
	}
	if random.IntN(8) == 0 {
		ask.Deadline = time.Unix(1, 0) // in the past: the page ends after a few rows
	}
	page, err := w.partition.Load().Feed(context.Background(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(page.Documents); ask.MaxItems > 0 && n > ask.MaxItems || ask.MaxBytes == 1 && n > 1 {
		t.Fatalf("%d documents for %+v", n, ask)
	}
	if page.More && page.Position <= r.position && len(page.Documents) == 0 {
		t.Fatalf("%+v made no progress: %+v", ask, page)
	}
	last := r.position
	for _, body := range page.Documents {
		last = m.take(t, w, r, string(body), last)
	}
	if page.Position < last || !page.More && page.Position < page.LSN {
		t.Fatalf("position %d behind %d of %d", page.Position, last, page.LSN)
	}
	r.position = page.Position
	return !page.More
}

// take checks a document of the feed, and returns its LSN.
func (m *feedModel) take(t *testing.T, w *world, r *readerOf, body string, last resource.LSN) resource.LSN {
	t.Helper()
	v := w.parse(body)
	c := w.container.Load()
	name := string(c.KeyOf(v).Canonical(c.PartitionKey)) + "|" + v.Get("id").Text()
	live, ok := m.live[name]
	if !ok || v.Without("_lsn").JSON() != live.body || v.Get("_lsn").JSON() != fmt.Sprint(live.lsn) {
		t.Fatalf("the feed has %s, want %+v", body, live)
	}
	if !r.r.Contains(live.epk) || live.ts < r.since || live.lsn <= last {
		t.Fatalf("the feed of %+v behind %d has %+v", r, last, live)
	}
	r.known[name] = seen{body: live.body, lsn: live.lsn}
	return live.lsn
}

// verify compares the documents of a reader at the end of the feed with the stored
// ones.
func (m *feedModel) verify(t *testing.T, r *readerOf) {
	t.Helper()
	for name, d := range m.live {
		asked := r.r.Contains(d.epk) && d.lsn > r.start && d.ts >= r.since
		if known, ok := r.known[name]; asked && (!ok || known.body != d.body) {
			t.Errorf("a reader from %d and %d of %v knows %+v of %+v", r.start, r.since, r.r, known, d)
		}
	}
	if r.start == 0 && r.since == 0 && r.r.Equal(partitionkey.Full()) && len(r.known) < len(m.live) {
		t.Errorf("a reader of everything knows %d of %d documents", len(r.known), len(m.live))
	}
}

// A cancelled request ends in the middle of the feed.
func TestFeedCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, `{"indexingMode":"none"}`))
	for i := range 200 {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%d","a":1}`, i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	page, err := w.partition.Load().Feed(ctx, Feed{Generation: w.own.Generation, Range: partitionkey.Full()})
	if status.CodeOf(err) != status.CodeRequestTimeout || page.LSN != 200 || len(page.Documents) > 0 {
		t.Errorf("got %+v, %v", page, err)
	}
}

// The rows of the feed that a damaged store may have are an error, not a panic.
func TestFeedDamage(t *testing.T) {
	t.Parallel()
	for _, row := range [][]byte{nil, {1}, make([]byte, 15), make([]byte, 17), make([]byte, 19)} {
		if _, _, err := layout.DecodeFeedValue(row); err == nil {
			t.Errorf("%x is taken for a feed row", row)
		}
	}
	for _, n := range []int{16, 20, 24} {
		if _, short, err := layout.DecodeFeedValue(make([]byte, n)); err != nil || len(short) != n-8 {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// Documents that share an LSN, like those of one transaction or of two merged
// partitions, are never on different pages. A start time excludes older changes, even
// those after a newer one.
func TestFeedKeepsLSNsWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, `{"indexingMode":"none"}`))
	for i := 1; i <= 4; i++ {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%d","a":%d}`, i, i%2)), nil); err != nil {
			t.Fatal(err)
		}
	}
	w.restamp(resource.NewNumber(2, 2), layout.Version{LSN: 2, Ordinal: 2, Seq: 0, TS: clockStart + 9})
	w.restamp(resource.NewNumber(2, 3), layout.Version{LSN: 2, Ordinal: 2, Seq: 1, TS: clockStart})
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	odd, err := w.container.Load().PartitionKey.Prefix(partitionkey.NewKey(partitionkey.Number(1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		ask  Feed
		want string
	}{
		{"one document", Feed{MaxItems: 1}, "1 to 1 more"},
		{"two documents would be half", Feed{MaxItems: 2}, "1 2 3 to 2 more"},
		{"one byte", Feed{MaxBytes: 1}, "1 to 1 more"},
		{"one byte would be half", Feed{MaxBytes: 1, After: 1}, "2 3 to 3 more"},
		{"the rest", Feed{After: 2}, "4 to 4 end"},
		{"nothing older", Feed{Since: clockStart + 1, After: 1}, "2 to 4 end"},
		{"of one key", Feed{Range: odd, MaxItems: 1}, "1 to 1 more"},
		{"of one key, the rest", Feed{Range: odd, After: 1}, "3 to 4 end"},
	} {
		for _, few := range []bool{false, true} {
			if few {
				w.partition.Load().reader.Strategy.ScanMax, w.partition.Load().reader.Strategy.Costs = 2, scan.Costs{Row: 1}
			} else {
				w.partition.Load().reader.Strategy = scan.DefaultStrategy()
			}
			c.ask.Generation = w.own.Generation
			if c.ask.Range.Empty() {
				c.ask.Range = partitionkey.Full()
			}
			page, err := w.partition.Load().Feed(context.Background(), c.ask)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, doc := range page.Documents {
				got += w.parse(string(doc)).Get("id").Text() + " "
			}
			got += fmt.Sprintf("to %d %s", page.Position, map[bool]string{true: "more", false: "end"}[page.More])
			if got != c.want {
				t.Errorf("%s, few %v: %s, want %s", c.name, few, got, c.want)
			}
		}
	}
}

// restamp changes the version of a document in the store, without the partition.
func (w *world) restamp(number uint64, v layout.Version) {
	w.tb.Helper()
	snapshot := w.store.Snapshot()
	defer snapshot.Close()
	suffix, _, err := snapshot.Get(nil, storage.RIDKey(nil, number))
	key := storage.DocumentKeyOf(nil, suffix)
	row, found, err2 := snapshot.Get(nil, key)
	if err != nil || err2 != nil || !found {
		w.tb.Fatalf("document %d: %v, %v", number, err, err2)
	}
	d, err := layout.DecodeDocument(row)
	if err != nil {
		w.tb.Fatal(err)
	}
	old := storage.FeedKey(nil, uint64(d.LSN), d.Ordinal, d.Seq)
	feed, _, err := snapshot.Get(nil, old)
	if err != nil {
		w.tb.Fatal(err)
	}
	v.Number = number
	layout.Stamp(row, v)
	batch := w.store.NewBatch()
	defer batch.Close()
	_ = batch.Delete(old)
	_ = batch.Set(key, row)
	_ = batch.Set(storage.FeedKey(nil, uint64(v.LSN), v.Ordinal, v.Seq), feed)
	if err := w.store.Apply(batch); err != nil {
		w.tb.Fatal(err)
	}
}

// BenchmarkFeed reads a page of 100 documents from the beginning of a feed, and
// that of one key from the beginning, of 10,000 documents.
func BenchmarkFeed(b *testing.B) {
	w := newWorld(b, containerWith(b, 2, []string{"/a"}, `{"indexingMode":"none"}`))
	for i := range 10_000 {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%d","a":%d}`, i, i%500)), nil); err != nil {
			b.Fatal(err)
		}
	}
	key, err := w.container.Load().PartitionKey.Prefix(partitionkey.NewKey(partitionkey.Number(7)))
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		ask  Feed
		want int
	}{
		{"page", Feed{Range: partitionkey.Full(), MaxItems: 100}, 100},
		{"key", Feed{Range: key}, 20},
		{"end", Feed{Range: partitionkey.Full(), After: 10_000}, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.ask.Generation = w.own.Generation
			b.ReportAllocs()
			for b.Loop() {
				page, err := w.partition.Load().Feed(context.Background(), c.ask)
				if err != nil || len(page.Documents) != c.want {
					b.Fatal(len(page.Documents), err)
				}
			}
		})
	}
}
