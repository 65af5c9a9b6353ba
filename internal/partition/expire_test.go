package partition

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// mortal is a document in the model of expiry.
type mortal struct {
	key     [2]string // of tenant and id
	n, ttl  int64     // its own ttl; zero for none
	written int64
	order   int
}

func (d *mortal) alive(defaultTTL, now int64) bool {
	ttl := d.ttl
	if ttl == 0 {
		ttl = defaultTTL
	}
	return defaultTTL == 0 || ttl <= 0 || now < d.written+ttl
}

// mortals is a partition with documents that expire, and its expected content.
type mortals struct {
	*world
	t       *testing.T
	random  *rand.Rand
	all     map[[2]string]*mortal
	ttl     int64 // the default
	counted int
	late    int // creations that replaced expired documents
	purged  int // documents
}

// TestExpireModel draws writes, deletions of keys and prefixes, background deletions,
// changes of the default, crashes and the passing of time, and compares every way of
// reading with a map.
func TestExpireModel(t *testing.T) {
	t.Parallel()
	seeds := uint64(4)
	if raceDetector {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			m := &mortals{
				world: newWorld(t, uniqueContainer(t, 2, []string{"/a", "/b"})), t: t, random: rand.New(rand.NewPCG(seed, 3)),
				all: map[[2]string]*mortal{},
			}
			m.run()
		})
	}
}

func (m *mortals) run() {
	deleted := 0
	for step := range 400 {
		if m.random.IntN(3) == 0 {
			m.clock.Add(m.random.Int64N(5))
		}
		m.write(step)
		switch {
		case step%40 == 39:
			c := *m.container.Load()
			m.ttl = []int64{10, 25, -1, 0, 25}[m.random.IntN(5)]
			c.DefaultTTL = int32(m.ttl)
			m.container.Store(&c)
		case step%25 == 24:
			n, err := m.partition.Load().Expire(m.t.Context(), nil, math.Inf(1))
			if err != nil {
				m.t.Fatal(err)
			}
			deleted += n
			m.clear()
			m.complete()
		case step%19 == 8:
			m.purge()
		case step%7 == 3: // A part of the pending deletions.
			if _, err := m.partition.Load().Clear(m.t.Context(), nil, 12); err != nil {
				m.t.Fatal(err)
			}
		case step%110 == 109:
			if err := m.crash(0, uint64(step)); err != nil {
				m.t.Fatal(err)
			}
		}
		if step%15 == 0 {
			m.compare()
		}
	}
	if report := m.check(); !report.Clean() {
		m.t.Errorf("%q", report.Problems)
	}
	if deleted < 10 || m.counted < 5 || m.late < 5 || m.purged < 10 {
		m.t.Errorf("%d deleted, %d counts by the index, %d creations over what had expired, %d purged", deleted, m.counted, m.late, m.purged)
	}
}

// purge deletes the documents of a tenant, by full key or by prefix, at once or with a
// mark.
func (m *mortals) purge() {
	key := partitionkey.NewKey(partitionkey.String(fmt.Sprint("t", m.random.IntN(3))))
	if m.random.IntN(2) == 0 {
		key = key.Append(partitionkey.Number(1))
	}
	p := m.partition.Load()
	p.steps.purgeMax = int64(m.random.IntN(2)) * 6
	before := p.LSN()
	got, err := m.world.purge(key, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	now, gone := m.clock.Load(), 0
	for at, d := range m.all {
		if partitionkey.String(at[0]) == key.At(0) {
			if d.alive(m.ttl, now) {
				gone++
			}
			delete(m.all, at)
		}
	}
	m.purged += gone
	if !got.Marked && got.Deleted != gone || gone > 0 && got.LSN != before+1 || got.LSN != p.LSN() {
		m.t.Fatalf("purge of %s at %d: %+v, want %d gone", key, before, got, gone)
	}
}

// clear deletes all purged documents.
func (m *mortals) clear() {
	for p := m.partition.Load(); p.Stats().Purging > 0; {
		if _, err := p.Clear(m.t.Context(), nil, 60); err != nil {
			m.t.Fatal(err)
		}
	}
}

// write creates, replaces or deletes a document. There are few values of the unique
// key, so that they conflict.
func (m *mortals) write(step int) {
	id, tenant := fmt.Sprint("i", m.random.IntN(12)), fmt.Sprint("t", m.random.IntN(3))
	own := []int64{0, 0, 3, 12, 40, -1}[m.random.IntN(6)]
	n := m.random.Int64N(4)
	text := fmt.Sprintf(`{"id":%q,"a":%q,"b":1,"n":%d,"u":%q,"v":%q`, id, tenant, n, id, id)
	if own != 0 {
		text += fmt.Sprintf(`,"ttl":%d`, own)
	}
	doc := m.parse(text + "}")
	key := [2]string{tenant, id}
	now := m.clock.Load()
	old := m.all[key]
	there := old != nil && old.alive(m.ttl, now)
	op := []Op{Create, Upsert, Replace, Delete}[m.random.IntN(4)]
	want := status.Code(0)
	switch {
	case op == Create && there:
		want = status.CodeConflict
	case (op == Replace || op == Delete) && !there:
		want = status.CodeNotFound
	}
	got, err := m.world.write(op, doc, func(r *Write) { r.ID = id })
	if status.CodeOf(err) != want {
		m.t.Fatalf("step %d: %s %s: got %v, want %d", step, op, doc, err, want)
	}
	if want != 0 {
		return
	}
	if op == Delete {
		delete(m.all, key)
		return
	}
	if got.Created == there {
		m.t.Fatalf("step %d: %s %s: created %v", step, op, doc, got.Created)
	}
	if old != nil && !there {
		m.late++
	}
	next := &mortal{key: key, n: n, ttl: own, written: now, order: step}
	if there {
		next.order = old.order
	}
	m.all[key] = next
}

// compare reads all documents in every way.
func (m *mortals) compare() {
	now := m.clock.Load()
	var alive []*mortal
	for key, d := range m.all {
		_, err := m.read(partitionkey.NewKey(partitionkey.String(key[0]), partitionkey.Number(1)), key[1], nil)
		want := status.CodeNotFound
		if d.alive(m.ttl, now) {
			alive, want = append(alive, d), 0
		}
		if status.CodeOf(err) != want {
			m.t.Fatalf("%v, default %d, now %d: read: %v", *d, m.ttl, now, err)
		}
	}
	slices.SortFunc(alive, func(a, b *mortal) int { return a.order - b.order })
	p := m.partition.Load()
	for _, p.reader.Strategy = range []scan.Strategy{
		scan.DefaultStrategy(),
		{ScanMax: 4, ScanBytes: 300, SortedMax: 3, WalkFactor: 1, Force: scan.Forced{Way: scan.Passes}},
		{ScanMax: 0, SortedMax: 2, Force: scan.Forced{Way: scan.Looks}},
	} {
		for tenant, r := range m.ranges() {
			m.query(r, alive, tenant, "SELECT VALUE c.id FROM c", func(*mortal) bool { return true })
			m.query(r, alive, tenant, "SELECT VALUE c.id FROM c WHERE c.n = 1", func(d *mortal) bool { return d.n == 1 })
			m.count(r, alive, tenant)
		}
	}
	p.reader.Strategy = scan.DefaultStrategy()
	m.compareFeed(alive)
}

// ranges are the whole key space, and each tenant.
func (m *mortals) ranges() map[string]partitionkey.Range {
	all := map[string]partitionkey.Range{"": partitionkey.Full()}
	for i := range 3 {
		tenant := fmt.Sprint("t", i)
		r, err := m.container.Load().PartitionKey.Prefix(partitionkey.NewKey(partitionkey.String(tenant)))
		if err != nil {
			m.t.Fatal(err)
		}
		all[tenant] = r
	}
	return all
}

func (m *mortals) query(r partitionkey.Range, alive []*mortal, tenant, text string, holds func(*mortal) bool) {
	got, _, err := m.rows(text, r, 2, nil)
	var want []string
	for _, d := range alive {
		if (tenant == "" || tenant == d.key[0]) && holds(d) {
			want = append(want, `"`+d.key[1]+`"`)
		}
	}
	if err != nil || !slices.Equal(got, want) {
		m.t.Fatalf("%s of %q: got %s (%v), want %s", text, tenant, got, err, want)
	}
}

func (m *mortals) count(r partitionkey.Range, alive []*mortal, tenant string) {
	want := [4]int{}
	total := 0
	for _, d := range alive {
		if tenant == "" || tenant == d.key[0] {
			want[d.n]++
			total++
		}
	}
	for n, want := range want {
		got, _, err := m.rows(fmt.Sprintf("SELECT VALUE COUNT(1) FROM c WHERE c.n = %d", n), r, 0, nil)
		if err != nil || len(got) != 1 || got[0] != fmt.Sprint(want) {
			m.t.Fatalf("count of n = %d in %q: got %s (%v), want %d", n, tenant, got, err, want)
		}
	}
	got, _, err := m.rows("SELECT VALUE COUNT(1) FROM c", r, 0, nil)
	if err != nil || len(got) != 1 || got[0] != fmt.Sprint(total) {
		m.t.Fatalf("count of %q: got %s (%v), want %d", tenant, got, err, total)
	}
}

func (m *mortals) compareFeed(alive []*mortal) {
	page, err := m.partition.Load().Feed(m.t.Context(), Feed{Generation: m.own.Generation, Range: partitionkey.Full()})
	if err != nil || len(page.Documents) != len(alive) {
		m.t.Fatalf("the feed has %d documents (%v), want %d", len(page.Documents), err, len(alive))
	}
}

// complete checks the state after Expire: no expired document is stored, and the counts
// of the index are exact.
func (m *mortals) complete() {
	now := m.clock.Load()
	alive := 0
	for key, d := range m.all {
		if d.alive(m.ttl, now) {
			alive++
		} else {
			delete(m.all, key)
		}
	}
	p := m.partition.Load()
	if got := p.Stats().Documents; got != int64(alive) {
		m.t.Fatalf("%d documents are stored behind Expire, want %d", got, alive)
	}
	state, err := p.acquire()
	if err != nil {
		m.t.Fatal(err)
	}
	defer p.release(state)
	s := p.reader.Source(&state.Snapshot, partitionkey.Full(), p.own.Range)
	defer s.Free()
	if _, indexed := s.Face().(query.Indexed); !indexed {
		m.t.Fatal("the index is stale after Expire")
	}
	m.counted++
}

// TestExpireSplit splits and merges partitions while their expired documents are
// deleted.
func TestExpireSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a", "/b"}, `{"indexingPolicy":null,"defaultTtl":50}`))
	text := func(i, ttl int) string {
		return fmt.Sprintf(`{"id":"%d","a":"t%d","b":%d,"ttl":%d}`, i, i%9, i%3, ttl)
	}
	for i := range 120 {
		doc := strings.Replace(text(i, 20+i%3*30), `,"ttl":20`, "", 1)
		if _, err := w.write(Create, w.parse(doc), nil); err != nil {
			t.Fatal(err)
		}
	}
	s, halves := w.halve(t, "")
	w.clock.Add(50)
	for range 3 {
		if _, err := w.partition.Load().Expire(t.Context(), nil, math.Inf(1)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if _, err := w.write(Upsert, w.parse(text(i, 5)), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := follow(t, s, halves); err != nil {
		t.Fatal(err)
	}
	s.Done()
	// One third has no ttl, one third has 50, and one third 80; six of these are
	// written again, with fourteen others.
	if got := w.checkHalves(t, halves); got != 40+14 {
		t.Errorf("%d documents, want 54", got)
	}
}

func TestExpireMerge(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t, containerWith(t, 2, []string{"/a", "/b"}, `{"indexingPolicy":null,"defaultTtl":50}`))
	for i := range 90 {
		if err := n.write(Create, fmt.Sprintf(`{"id":"%d","a":"t%d","b":%d,"ttl":%d}`, i, i%9, i%3, 30+i%2*40)); err != nil {
			t.Fatal(err)
		}
	}
	m, child := n.begin(0)
	for _, w := range n.worlds {
		w.clock.Add(30)
		if _, err := w.partition.Load().Expire(t.Context(), nil, math.Inf(1)); err != nil {
			t.Fatal(err)
		}
	}
	n.finish(m, child)
	if got := n.check().Documents; got != 45 {
		t.Errorf("%d documents, want 45", got)
	}
}
