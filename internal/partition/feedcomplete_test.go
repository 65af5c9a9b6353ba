package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/partition/check"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// told is one change as the complete feed must return it.
type told struct {
	name, kind        string
	epk               partitionkey.EPK
	lsn, previous     resource.LSN
	ts                int64
	current, replaced string // bodies, complete; empty for none
	kept              bool
}

// completeModel is all changes so far, and the readers.
type completeModel struct {
	*world
	random  *rand.Rand
	changes []told
	live    map[string]told // the last change of each existing document
	readers []*completeReader

	refused, read int
}

type completeReader struct {
	r        partitionkey.Range
	position resource.LSN
	next     int // in changes: everything before it is known
}

const testRetention = 2 * time.Minute

// TestCompleteFeedModel draws single writes and transactions, while readers of every
// range and page size follow the complete feed, some of them too slowly, and the policy
// is switched off and on. A reader that is in time gets every change once and in order;
// only a reader that is too late gets an error.
func TestCompleteFeedModel(t *testing.T) {
	t.Parallel()
	for _, paths := range [][]string{{"/a"}, {"/a", "/b"}} {
		for _, seed := range []uint64{1, 2, 3} {
			t.Run(fmt.Sprintf("levels=%d/seed=%d", len(paths), seed), func(t *testing.T) {
				t.Parallel()
				c := containerWith(t, 2, paths, `{"indexingMode":"none"}`)
				c.Retention = testRetention
				m := &completeModel{world: newWorld(t, c), random: rand.New(rand.NewPCG(seed, 17)), live: map[string]told{}}
				m.run(t)
			})
		}
	}
}

func (m *completeModel) run(t *testing.T) {
	ranges := &model{}
	for step := range 600 {
		m.clock.Add(int64(m.random.IntN(4)))
		if m.random.IntN(60) == 0 {
			m.clock.Add(int64(testRetention/time.Second) + 1)
		}
		m.write(t)
		if step%8 == 3 {
			m.begin(t, ranges.drawRange(m.world, m.random))
		}
		if step%101 == 100 {
			if err := m.crash(0, uint64(step)); err != nil {
				t.Fatal(err)
			}
		}
		if m.random.IntN(40) == 0 {
			c := *m.container.Load()
			c.ReplacedImages = m.random.IntN(2) == 0
			c.Retention = testRetention - c.Retention
			m.container.Store(&c)
		}
		for range min(4, len(m.readers)) {
			m.advance(t, m.random.IntN(len(m.readers)))
		}
	}
	if m.read < 200 || m.refused < 5 {
		t.Errorf("%d changes read and %d readers refused: too few to show anything", m.read, m.refused)
	}
	if report := m.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// write executes one to three operations on one key as one effect.
func (m *completeModel) write(t *testing.T) {
	t.Helper()
	first := drawDocument(m.random)
	c := m.container.Load()
	key := c.KeyOf(first)
	var operations []BatchOperation
	for range 1 + m.random.IntN(3) {
		id := strconv.Itoa(m.random.IntN(4))
		text := first.Without("id").JSON()
		doc := m.parse(fmt.Sprintf(`{"id":%q,"v":%d,%s`, id, m.random.Int64N(1_000_000), text[1:]))
		operations = append(operations, BatchOperation{Operation: Operation{Op: []Op{Upsert, Upsert, Delete}[m.random.IntN(3)], ID: id, Document: doc}})
	}
	var meter throughput.Meter
	done, err := m.partition.Load().Batch(context.Background(), Batch{
		Generation: m.own.Generation, Key: key, EPK: c.PartitionKey.Hash(key), Atomicity: Each, Operations: operations, Meter: &meter,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range done.Results {
		name := string(key.Canonical(c.PartitionKey)) + "|" + operations[i].ID
		before, exists := m.live[name]
		if r.Err != nil {
			if status.CodeOf(r.Err) != status.CodeNotFound || exists {
				t.Fatal(r.Err)
			}
			continue
		}
		change := told{
			name: operations[i].ID, kind: "create", epk: c.PartitionKey.Hash(key), lsn: done.LSN, ts: m.clock.Load(),
			current: string(r.Body), kept: c.Retention > 0,
		}
		if exists {
			change.kind, change.previous, change.replaced = "replace", before.lsn, before.current
		}
		m.live[name] = change
		if operations[i].Op == Delete {
			change.kind, change.current = "delete", ""
			delete(m.live, name)
		}
		m.changes = append(m.changes, change)
	}
}

// begin adds a reader that begins at now.
func (m *completeModel) begin(t *testing.T, r partitionkey.Range) {
	t.Helper()
	page, err := m.partition.Load().Feed(context.Background(), Feed{Complete: true, Generation: m.own.Generation, Range: r, Now: true})
	if m.container.Load().Retention == 0 {
		if status.CodeOf(err) != status.CodeBadRequest {
			t.Fatalf("a container that keeps nothing answered %v", err)
		}
		return
	}
	if err != nil || len(page.Documents) > 0 || page.More || page.Position != page.LSN {
		t.Fatalf("now is %+v, %v", page, err)
	}
	m.readers = append(m.readers, &completeReader{r: r, position: page.Position, next: len(m.changes)})
}

// advance reads a page for a reader, and removes a reader that is too late.
func (m *completeModel) advance(t *testing.T, i int) {
	t.Helper()
	r := m.readers[i]
	ask := Feed{
		Complete: true, Generation: m.own.Generation, Range: r.r, After: r.position,
		MaxItems: []int{0, 1, 7}[m.random.IntN(3)], MaxBytes: []int{0, 1, 2000}[m.random.IntN(3)],
	}
	page, err := m.partition.Load().Feed(context.Background(), ask)
	may, must := m.lost(r)
	switch {
	case status.CodeOf(err) == status.CodeBadRequest && may:
		m.refused++
		m.readers = append(m.readers[:i], m.readers[i+1:]...)
		return
	case err != nil:
		t.Fatalf("a reader in time at %d got %v", r.position, err)
	case must:
		t.Fatalf("a reader that has missed something at %d got %d changes", r.position, len(page.Documents))
	}
	for _, text := range page.Documents {
		for !r.r.Contains(m.changes[r.next].epk) {
			r.next++
		}
		m.compare(t, string(text), m.changes[r.next])
		r.next++
		m.read++
	}
	r.position = page.Position
	rest := r.next
	for rest < len(m.changes) && (!r.r.Contains(m.changes[rest].epk) || page.More && m.changes[rest].lsn > page.Position) {
		rest++
	}
	if rest < len(m.changes) {
		t.Fatalf("a page up to %d of %d leaves out %+v", page.Position, page.LSN, m.changes[rest])
	}
}

// lost reports whether a reader may, and whether it must, be refused: a change after
// its position was not kept, or is past its retention.
func (m *completeModel) lost(r *completeReader) (may, must bool) {
	off := m.container.Load().Retention == 0
	horizon := m.clock.Load() - int64(testRetention/time.Second)
	may, must = off, off
	first := true
	for _, c := range m.changes {
		if c.lsn <= r.position {
			continue
		}
		may = may || !c.kept || c.ts < horizon
		if r.r.Contains(c.epk) {
			must = must || !c.kept || first && c.ts < horizon
			first = false
		}
	}
	return may, must
}

func (m *completeModel) compare(t *testing.T, text string, want told) {
	t.Helper()
	v := m.parse(text)
	image := func(name, want string) {
		t.Helper()
		got := ""
		if doc := v.Get(name); doc.Len() > 0 {
			got = doc.JSON()
		}
		if got != want {
			t.Fatalf("%s of %s\nis not %s", name, text, want)
		}
	}
	image("current", want.current)
	if want.kind == "replace" && !m.container.Load().ReplacedImages {
		want.replaced = ""
	}
	image("previous", want.replaced)
	more := ""
	if want.kind != "create" {
		more = fmt.Sprintf(`,"previousImageLSN":%d`, want.previous)
	}
	if want.kind == "delete" {
		more += fmt.Sprintf(`,"id":%q,"partitionKey":`, want.name)
	}
	metadata := fmt.Sprintf(`{"lsn":%d,"crts":%d,"operationType":%q%s`, want.lsn, want.ts, want.kind, more)
	if got := v.Get("metadata").JSON(); !strings.HasPrefix(got, metadata) {
		t.Fatalf("metadata %s, want %s", got, metadata)
	}
}

// A deletion by time to live appears as one, whether it runs in the background or is
// caused by a new document of the same id.
func TestCompleteFeedTellsExpiry(t *testing.T) {
	t.Parallel()
	c := containerWith(t, 2, []string{"/a"}, "")
	c.Retention, c.DefaultTTL = testRetention, 10
	w := newWorld(t, c)
	create := func(id string) {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":%q,"a":1}`, id)), nil); err != nil {
			t.Fatal(err)
		}
	}
	create("1")
	create("2")
	create("3")
	if _, err := w.write(Delete, w.parse(`{"id":"3","a":1}`), func(x *Write) { x.ID = "3" }); err != nil {
		t.Fatal(err)
	}
	w.clock.Add(10)
	create("1")
	if n, err := w.partition.Load().Expire(t.Context(), nil, math.Inf(1)); n != 1 || err != nil {
		t.Fatalf("%d expired, %v", n, err)
	}
	page, err := w.partition.Load().Feed(t.Context(), Feed{Complete: true, Generation: w.own.Generation, Range: partitionkey.Full(), MaxItems: 7})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, text := range page.Documents {
		v := w.parse(string(text))
		facts := v.Get("metadata")
		id := v.Get("current").Get("id").Text() + facts.Get("id").Text()
		got = append(got, fmt.Sprintf("%s %s at %s %s", facts.Get("operationType").Text(), id, facts.Get("lsn").JSON(), facts.Get("timeToLiveExpired").JSON()))
	}
	want := []string{
		"create 1 at 1 ", "create 2 at 2 ", "create 3 at 3 ", "delete 3 at 4 ",
		"delete 1 at 5 true", "create 1 at 5 ", "delete 2 at 6 true",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Changes past their retention are deleted by later writes, and all changes once the
// policy is off.
func TestCompleteFeedLeaves(t *testing.T) {
	t.Parallel()
	c := containerWith(t, 2, []string{"/a"}, `{"indexingMode":"none"}`)
	c.Retention = testRetention
	w := newWorld(t, c)
	write := func(n int) {
		for i := range n {
			if _, err := w.write(Upsert, w.parse(fmt.Sprintf(`{"id":"%d","a":%d}`, i%7, i%5)), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows := func() (n int) {
		snapshot := w.store.Snapshot()
		it := snapshot.Iter(storage.FamilyComplete.Bounds())
		for valid := it.First(); valid; valid = it.Next() {
			n++
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		if err := snapshot.Close(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	write(100)
	if n := rows(); n != 100 {
		t.Fatalf("%d rows of 100 writes", n)
	}
	w.clock.Add(int64(testRetention / time.Second)) // the last second of it
	write(1)
	if n := rows(); n != 101 {
		t.Errorf("%d rows in the last second, want 101", n)
	}
	w.clock.Add(1)
	write(40)
	if n := rows(); n != 41 {
		t.Errorf("%d rows after that and 40 writes more, want 41", n)
	}
	off := *w.container.Load()
	off.Retention = 0
	w.container.Store(&off)
	write(30)
	if n := rows(); n != 0 {
		t.Errorf("%d rows without the policy, want none", n)
	}
	snapshot := w.store.Snapshot()
	if list, err := layout.ReadKept(snapshot); err != nil || len(list) != 0 {
		t.Errorf("kept %v, %v", list, err)
	}
	if err := snapshot.Close(); err != nil {
		t.Fatal(err)
	}
}

// A reader that is in time before a merge is in time after it, however far apart the
// LSNs of the two parents are; a late reader stays late; and the check finds no problem
// until a change is missing.
func TestCompleteFeedMerged(t *testing.T) {
	t.Parallel()
	for base := range 2 {
		c := containerWith(t, 2, []string{"/a"}, `{"indexingMode":"none"}`)
		c.Retention = testRetention
		n := newNeighbours(t, c)
		write := func(on, times int) {
			t.Helper()
			for a, done := 0, 0; done < times; a++ {
				text := fmt.Sprintf(`{"id":"1","a":%d,"n":%d}`, a%40, done)
				if n.owner(n.worlds[0].parse(text)) != n.worlds[on] {
					continue
				}
				if err := n.write(Upsert, text); err != nil {
					t.Fatal(err)
				}
				done++
			}
		}
		// The low parent has many changes, the oldest of which are deleted; the high
		// one has few, all older.
		write(0, 100)
		for _, w := range n.worlds {
			w.clock.Add(int64(testRetention/time.Second) + 1)
		}
		write(0, 50)
		write(1, 5)
		gone := resource.LSN(100)
		m, child := n.begin(base)
		n.finish(m, child)
		n.check()
		p, err := Open(Config{
			Store: n.store, Ref: n.worlds[0].config().Ref, Container: n.worlds[0].container.Load, Now: n.worlds[0].config().Now,
		})
		if err != nil {
			t.Fatal(err)
		}
		low, high := partitionkey.Range{Max: n.middle}, partitionkey.Range{Min: n.middle, Max: partitionkey.MaxEPK}
		for _, c := range []struct {
			r     partitionkey.Range
			after resource.LSN
			want  int // changes; -1 for refused
		}{
			{high, 0, 5},
			{high, 3, 2},
			{high, 5, 0},
			{low, gone - 1, -1},
			{low, gone, 50},
			{low, gone + 20, 30},
			{low, 0, -1},
			{partitionkey.Full(), 3, -1},
			{partitionkey.Full(), gone, 50},
			{partitionkey.Full(), 151, 0},
		} {
			page, err := p.Feed(t.Context(), Feed{Complete: true, Generation: n.own.Generation, Range: c.r, After: c.after})
			got := len(page.Documents)
			if status.CodeOf(err) == status.CodeBadRequest {
				got = -1
			} else if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("base %d: %d changes of %v behind %d, want %d", base, got, c.r, c.after, c.want)
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		batch := n.store.NewBatch()
		if err := errors.Join(batch.Delete(storage.CompleteKey(nil, 5, n.worlds[1].own.Ordinal, 0)), n.store.Apply(batch), batch.Close()); err != nil {
			t.Fatal(err)
		}
		snapshot := n.store.Snapshot()
		report, err := check.Run(snapshot, c)
		if err := errors.Join(err, snapshot.Close()); err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0], "not in the complete feed") {
			t.Errorf("base %d: without a change the check finds %v, %q", base, err, report.Problems)
		}
	}
}
