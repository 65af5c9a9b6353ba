package partition

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

const years = 5 * 365 * 24 * 3600 // seconds

// timesContainer uses everything that depends on the time of a write: terms of _ts, one
// of them in a composite index, times to live, unique keys and all versions.
func timesContainer(t *testing.T) *resource.Container {
	c := containerWith(t, 2, []string{"/a", "/b"}, `{"indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[],`+
		`"compositeIndexes":[[{"path":"/n","order":"ascending"},{"path":"/_ts","order":"descending"}]]},`+
		`"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},"defaultTtl":1000}`)
	c.Retention = time.Hour
	return c
}

// poison writes documents before, while and after the clock is years ahead, and returns
// the right time at the end.
func poison(t *testing.T, w *world) (now int64) {
	t.Helper()
	write := func(from, to int) {
		for n := from; n < to; n++ {
			text := fmt.Sprintf(`{"id":"i%d","a":"t%d","b":1,"n":%d,"u":"u%d"`, n%20, n%3, n, n%20)
			if n%4 == 1 {
				text += `,"ttl":500`
			}
			if _, err := w.write(Upsert, w.parse(text+"}"), func(r *Write) { r.ID = fmt.Sprint("i", n%20) }); err != nil {
				t.Fatal(err)
			}
			w.clock.Add(1)
		}
	}
	remove := func(n int) {
		doc := w.parse(fmt.Sprintf(`{"id":"i%d","a":"t%d","b":1}`, n%20, n%3))
		if _, err := w.write(Delete, doc, func(r *Write) { r.ID = fmt.Sprint("i", n%20) }); err != nil {
			t.Fatal(err)
		}
	}
	write(0, 12)
	now = w.clock.Load()
	w.clock.Add(years)
	write(8, 17)
	remove(14)
	w.clock.Store(now)
	write(17, 20)
	remove(18)
	return w.clock.Load()
}

// rowsOf returns all rows of a store except empty posting lists.
func rowsOf(t *testing.T, store *storage.Store) map[string]string {
	t.Helper()
	snapshot := store.Snapshot()
	rows, all := snapshot.Iter(nil, nil), map[string]string{}
	for valid := rows.First(); valid; valid = rows.Next() {
		f, _ := storage.FamilyOf(rows.Key())
		if f == storage.FamilyTerm && bytes.Equal(rows.Value(), []byte{0}) {
			continue
		}
		all[string(rows.Key())] = string(rows.Value())
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	if err := snapshot.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// repair calls RepairTimes for the closed store of a world.
func (w *world) repair(now int64) (done RepairedTimes, err error) {
	if err := w.newPool(); err != nil {
		return done, err
	}
	if w.store, err = w.pool.Open(storeDir); err == nil {
		done, err = RepairTimes(w.store, now)
	}
	return done, err
}

// times returns the _ts of all documents by their ids.
func (w *world) times(t *testing.T) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	rows, _, err := w.rows(`SELECT c.id, c._ts FROM c`, partitionkey.Full(), 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		v := w.parse(row)
		all[v.Get("id").Text()], _ = v.Get("_ts").Int64()
	}
	return all
}

// TestClockYearsAhead shows the effects of a clock that was years ahead, and that the
// repair removes all of them: times, terms, expiry and both feeds have the time of the
// repair.
func TestClockYearsAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, timesContainer(t))
	now := poison(t, w)
	p := w.partition.Load()
	if ahead := p.Latest() - now; ahead < years-100 {
		t.Fatalf("the latest time is %d seconds ahead, want years", ahead)
	}
	// Later writes get the latest time, which does not advance.
	if latest := w.times(t)["i19"]; latest != p.Latest() {
		t.Errorf("after the clock is back, a write has the time %d, want %d", latest, p.Latest())
	}
	before := w.times(t)
	etag := w.etag(t, "t0", "i15")
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	done, err := w.repair(now)
	if err != nil {
		t.Fatal(err)
	}
	if done.Documents != 10 || done.Versions == 0 || done.Latest < now+years-100 {
		t.Errorf("repaired: %+v", done)
	}
	if again, err := RepairTimes(w.store, now); err != nil || again.Documents+again.Versions != 0 || again.Latest != now {
		t.Errorf("repaired again: %+v, %v", again, err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	if report := w.check(); !report.Clean() || report.Latest != now {
		t.Fatalf("after the repair: latest %d, %q", report.Latest, report.Problems)
	}
	after := w.times(t)
	if len(after) != len(before) {
		t.Fatalf("%d documents, want %d", len(after), len(before))
	}
	for id, ts := range before {
		if after[id] != min(ts, now) {
			t.Errorf("%s has the time %d, want %d", id, after[id], min(ts, now))
		}
	}
	if got := w.etag(t, "t0", "i15"); got != etag {
		t.Errorf("the etag became %s", got)
	}
	w.afterRepair(t, now, before)
}

// etag returns the etag of a document.
func (w *world) etag(t *testing.T, tenant, id string) string {
	t.Helper()
	found, err := w.read(partitionkey.NewKey(partitionkey.String(tenant), partitionkey.Number(1)), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.parse(string(found.Body)).Get("_etag").Text()
}

// afterRepair checks queries by time, the change feed, and expiry.
func (w *world) afterRepair(t *testing.T, now int64, before map[string]int64) {
	t.Helper()
	late := 0
	for _, ts := range before {
		if ts > now {
			late++
		}
	}
	for text, want := range map[string]string{
		fmt.Sprintf(`SELECT VALUE COUNT(1) FROM c WHERE c._ts = %d`, now):             fmt.Sprint(late),
		fmt.Sprintf(`SELECT VALUE COUNT(1) FROM c WHERE c._ts > %d`, now):             "0",
		`SELECT VALUE MAX(c._ts) FROM c`:                                              fmt.Sprint(now),
		`SELECT VALUE COUNT(1) FROM c`:                                                fmt.Sprint(len(before)),
		fmt.Sprintf(`SELECT VALUE COUNT(1) FROM c WHERE c.n > 0 AND c._ts = %d`, now): fmt.Sprint(late),
	} {
		rows, _, err := w.rows(text, partitionkey.Full(), 100, nil)
		if err != nil || len(rows) != 1 || rows[0] != want {
			t.Errorf("%s: %v, %v, want %s", text, rows, err, want)
		}
	}
	p := w.partition.Load()
	if _, err := w.write(Create, w.parse(`{"id":"new","a":"t0","b":1,"u":"new"}`), nil); err != nil {
		t.Fatal(err)
	}
	if ts := w.times(t)["new"]; ts != w.clock.Load() {
		t.Errorf("a write has the time %d, want that of the clock %d", ts, w.clock.Load())
	}
	for since, want := range map[int64]int{now + 1: 0, now: late + 1, 1: len(before) + 1} {
		page, err := p.Feed(context.Background(), Feed{Since: since, Generation: w.own.Generation, Range: partitionkey.Full()})
		if err != nil || len(page.Documents) != want {
			t.Errorf("the feed from %d has %d documents, want %d (%v)", since-now, len(page.Documents), want, err)
		}
	}
	w.clock.Store(now + 499)
	if got := w.times(t)["i17"]; got != now {
		t.Errorf("i17 is gone before its time to live is over: %d", got)
	}
	w.clock.Store(now + 500)
	if _, found := w.times(t)["i17"]; found {
		t.Error("i17 is there when its time to live is over")
	}
	w.clock.Store(now + 1000)
	if left := w.times(t); len(left) != 0 {
		t.Errorf("left when the time to live is over: %v", left)
	}
	if n, err := p.Expire(t.Context(), nil, math.Inf(1)); err != nil || n != len(before)+1 {
		t.Errorf("%d documents deleted, want %d (%v)", n, len(before)+1, err)
	}
	w.clock.Store(now + 3600) // The versions are past their retention from now on, and the next writes delete them.
	for range 30 {
		if _, err := w.write(Upsert, w.parse(`{"id":"x","a":"t0","b":1}`), nil); err != nil {
			t.Fatal(err)
		}
		w.clock.Add(200)
	}
	for key, row := range rowsOf(t, w.store) {
		if e, err := layout.DecodeRevision([]byte(row)); key[0] == byte(storage.FamilyComplete) && (err != nil || e.TS <= now) {
			t.Errorf("a version of %d is still there (%v)", e.TS-now, err)
		}
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// TestRepairEndsAnywhere interrupts the repair at each disk operation, also by a power
// failure: every invariant holds, and another repair results in the same rows.
func TestRepairEndsAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, timesContainer(t))
	now := poison(t, w)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	start := w.disk
	w.disk = start.Crash(1, 0)
	if _, err := w.repairSmall(now); err != nil {
		t.Fatal(err)
	}
	want := rowsOf(t, w.store)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	partly := 0
	for n := int64(1); ; n++ {
		w.disk = start.Crash(1, 0)
		w.disk.FailFrom(n)
		_, repairErr := w.repairSmall(now)
		_ = w.close() // A store on a broken disk returns an error.
		_, failed := w.disk.Operations()
		if failed > 0 {
			w.disk = w.disk.Crash(float64(n%3)/2, uint64(n))
		}
		w.disk.Heal()
		if err := w.open(); err != nil {
			t.Fatalf("operation %d: %v", n, err)
		}
		if report := w.check(); !report.Clean() {
			t.Fatalf("operation %d: %q", n, report.Problems)
		} else if report.Latest > now {
			for _, ts := range w.times(t) {
				if ts == now {
					partly++
					break
				}
			}
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.repairSmall(now); err != nil {
			t.Fatalf("operation %d: again: %v", n, err)
		}
		got := rowsOf(t, w.store)
		if len(got) != len(want) {
			t.Fatalf("operation %d: %d rows, want %d", n, len(got), len(want))
		}
		for key, row := range want {
			if got[key] != row {
				t.Fatalf("operation %d: row %x is %x, want %x", n, key, got[key], row)
			}
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		if failed == 0 {
			if repairErr != nil {
				t.Fatal(repairErr)
			}
			break
		}
	}
	if partly == 0 {
		t.Error("no repair was ended between two documents")
	}
}

// repairSmall is repair with a batch for each document.
func (w *world) repairSmall(now int64) (done RepairedTimes, err error) {
	if err := w.newPool(); err != nil {
		return done, err
	}
	if w.store, err = w.pool.Open(storeDir); err == nil {
		done, err = repairTimes(w.store, now, 1)
	}
	return done, err
}

// TestRepairGoesOnLater shows that a repair that is interrupted and repeated later
// keeps the times in the order of LSNs.
func TestRepairGoesOnLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, timesContainer(t))
	now := poison(t, w)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	w.disk.FailFrom(12)
	if _, err := w.repairSmall(now); err == nil {
		t.Fatal("the repair did not fail")
	}
	_ = w.close()
	w.disk.Heal()
	if _, err := w.repairSmall(now + 10); err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	page, err := w.partition.Load().Feed(context.Background(), Feed{Generation: w.own.Generation, Range: partitionkey.Full()})
	if err != nil {
		t.Fatal(err)
	}
	last, seen := int64(0), map[int64]bool{}
	for _, doc := range page.Documents {
		ts, _ := w.parse(string(doc)).Get("_ts").Int64()
		if ts < last {
			t.Errorf("%d comes after %d", ts, last)
		}
		last, seen[ts] = ts, true
	}
	if !seen[now] || !seen[now+10] || last != now+10 {
		t.Errorf("times: %v; the test wants some of both repairs", seen)
	}
	if report := w.check(); !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
}

// TestRepairWhileRebuilding repairs a partition whose index is being rebuilt, when some
// documents have the terms of both policies.
func TestRepairWhileRebuilding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, timesContainer(t))
	now := poison(t, w)
	p := w.partition.Load()
	p.intake.mu.Lock()
	idle := p.intake.idle
	p.intake.mu.Unlock()
	<-idle // The writer has ended, so the test can run its steps.
	c := *w.container.Load()
	c.Indexing = containerWith(t, 2, []string{"/a"}, `{"includedPaths":[{"path":"/n/?"}],"excludedPaths":[{"path":"/*"}]}`).Indexing
	w.container.Store(&c)
	p.steps.sweepDocuments = 7
	for range 2 { // Some steps of the rebuild, not all.
		if err := p.step(); err != nil {
			t.Fatal(err)
		}
	}
	if progress := p.Stats().IndexProgress; progress == 100 {
		t.Fatal("the rebuild is over")
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if done, err := w.repair(now); err != nil || done.Documents != 10 {
		t.Fatalf("%+v, %v", done, err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	if report := w.check(); !report.Clean() {
		t.Fatalf("%q", report.Problems)
	}
	w.partition.Load().Reindex()
	w.partition.Load().waitIdle()
	if report := w.check(); !report.Clean() || w.partition.Load().Stats().IndexProgress != 100 {
		t.Errorf("after the rebuild: %q", report.Problems)
	}
}

// TestClockInDoubt shows that a partition hides and deletes documents by the times
// given for that, on both sides of each, while writes have the time of the clock.
func TestClockInDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, timesContainer(t))
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	start := w.clock.Load()
	certain, removal := start, start
	w.clocks = func(c *Config) {
		c.Certain = func() time.Time { return time.Unix(certain, 0) }
		c.Removal = func() time.Time { return time.Unix(removal, 0) }
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	create := func(id, more string) error {
		_, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":%q,"a":"t","b":1,"u":%q%s}`, id, id, more)), nil)
		return err
	}
	for id, more := range map[string]string{"default": "", "own": `,"ttl":500`} {
		if err := create(id, more); err != nil {
			t.Fatal(err)
		}
	}
	expire := func(want int) {
		t.Helper()
		if n, err := w.partition.Load().Expire(t.Context(), nil, math.Inf(1)); err != nil || n != want {
			t.Errorf("%d documents deleted, want %d (%v)", n, want, err)
		}
	}
	seen := func(want int) {
		t.Helper()
		if got := w.times(t); len(got) != want {
			t.Errorf("%d documents are seen, want %d", len(got), want)
		}
	}
	w.clock.Add(years)
	seen(2)
	expire(0)
	if err := create("default", ""); status.CodeOf(err) != status.CodeConflict {
		t.Errorf("a document whose expiry is in doubt was replaced by a creation: %v", err)
	}
	certain = start + 499
	seen(2)
	certain = start + 500
	seen(1)
	expire(0)
	removal = start + 499
	expire(0)
	removal = start + 500
	expire(1)
	certain, removal = start+1000, start+999
	seen(0)
	expire(0)
	removal = start + 1000
	expire(1)
	if err := create("late", ""); err != nil {
		t.Fatal(err)
	}
	if got := w.partition.Load().Latest(); got != start+years {
		t.Errorf("the write has the time %d, want that of the clock", got-start)
	}
}

// TestVersionsOutliveDoubt shows that a clock that is ahead removes no version from the
// complete feed before its retention has certainly passed, and that a stored time that
// is ahead does not either.
func TestVersionsOutliveDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, timesContainer(t))
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	start := w.clock.Load()
	removal := start
	w.clocks = func(c *Config) {
		c.Certain = func() time.Time { return time.Unix(removal, 0) }
	}
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	upsert := func() {
		t.Helper()
		if _, err := w.write(Upsert, w.parse(`{"id":"x","a":"t","b":1}`), nil); err != nil {
			t.Fatal(err)
		}
	}
	versions := func() (n int) {
		for key := range rowsOf(t, w.store) {
			if key[0] == byte(storage.FamilyComplete) {
				n++
			}
		}
		return n
	}
	for range 5 {
		upsert()
	}
	w.clock.Add(years)
	upsert()
	w.clock.Store(start)
	for removal = start; removal < start+3600; removal += 600 {
		upsert()
	}
	if n := versions(); n != 12 {
		t.Errorf("%d versions are left, want all 12", n)
	}
	page, err := w.partition.Load().Feed(context.Background(), Feed{Complete: true, Generation: w.own.Generation, Range: partitionkey.Full()})
	if err != nil || len(page.Documents) != 12 {
		t.Errorf("%d versions are read, want 12 (%v)", len(page.Documents), err)
	}
	removal = start + 3601
	upsert()
	if n := versions(); n > 9 {
		t.Errorf("%d versions are left when the first five are over", n)
	}
}
