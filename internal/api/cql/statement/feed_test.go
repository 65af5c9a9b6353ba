package statement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table"
)

// TestFeedStates continues feeds with states that are not theirs, and with those of a table
// that was dropped.
func TestFeedStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(t, createKeyspace, "CREATE TABLE t (k int PRIMARY KEY, v int)", "CREATE TABLE u (k int PRIMARY KEY, v int)",
		"INSERT INTO t (k, v) VALUES (1, 1)", "INSERT INTO t (k, v) VALUES (2, 1)")
	const all, one, part, rows = "SELECT * FROM t WHERE COSMOS_CHANGEFEED_FROM_START() = true", "SELECT * FROM t WHERE k = 1 AND COSMOS_CHANGEFEED_FROM_START() = true",
		"SELECT * FROM t WHERE token(k) > 0 AND COSMOS_CHANGEFEED_FROM_START() = true", "SELECT * FROM t"
	state := func(text string) []byte {
		r, err := w.page("ks", text, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Rows.PagingState
	}
	good := state(all)
	if r, err := w.page("ks", all, 10, good); err != nil || r.Rows.Count != 1 {
		t.Fatalf("the own state: %+v, %v", r, err)
	}
	other := "SELECT * FROM u WHERE COSMOS_CHANGEFEED_FROM_START() = true"
	changed := slices.Clone(good)
	changed[len(changed)-1] ^= 1
	refused := map[string]struct {
		text  string
		state []byte
	}{
		"of another table":      {other, good},
		"of a key":              {all, state(one)},
		"of all keys":           {one, good},
		"of a range":            {all, state(part)},
		"of rows":               {all, state(rows)},
		"of a feed":             {rows, good},
		"changed":               {all, changed},
		"cut":                   {all, good[:len(good)-1]},
		"short":                 {all, good[:17]},
		"of one byte":           {all, []byte{2}},
		"of another version":    {all, append([]byte{3}, good[1:]...)},
		"empty":                 {all, []byte{}},
		"of the dropped table":  {all, good},
		"of a range, truncated": {part, good[:8]},
	}
	check := func(name string) {
		c := refused[name]
		_, err := w.page("ks", c.text, 10, c.state)
		if e := (*table.Error)(nil); !errors.As(err, &e) || e.Class != table.Protocol {
			t.Errorf("a state %s: %v", name, err)
		}
	}
	for name := range refused {
		if name != "of the dropped table" {
			check(name)
		}
	}
	w.must(t, "DROP TABLE t", "CREATE TABLE t (k int PRIMARY KEY, v int)", "INSERT INTO t (k, v) VALUES (1, 1)")
	check("of the dropped table")
}

// TestFeedWhileTheySplit follows the feed of a table, of a key and of two ranges of tokens
// while rows are written and partitions are split and merged: each reader gets the last
// version of every row, and of each key in the order of the writes (S115).
func TestFeedWhileTheySplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(t, createKeyspace, "CREATE TABLE t (k int, c int, n int, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 10000")
	const keys, rounds = 12, 4
	write, err := w.Prepare(t.Context(), w.session, "ks", "INSERT INTO t (k, c, n) VALUES (?, ?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	put := func(k, c, n int32) {
		if _, err := w.bind(write, row.Int(k), row.Int(c), row.Int(n)); err != nil {
			t.Error(err)
		}
	}
	for k := range int32(keys) {
		put(k, 0, 0)
	}
	var stop atomic.Bool
	var last int32
	var group sync.WaitGroup
	group.Go(func() {
		for n := int32(1); !stop.Load() || n < 50; n++ {
			for k := range int32(keys) {
				put(k, n%3, n)
			}
			last = n
		}
	})
	const where = " AND COSMOS_CHANGEFEED_START_TIME() = '2020-01-01'"
	readers := map[string]*feedReader{
		"table": {text: "SELECT k, c, n FROM t WHERE" + where[4:]}, "key": {text: "SELECT k, c, n FROM t WHERE k = 3" + where},
		"low": {text: "SELECT k, c, n FROM t WHERE token(k) < 0" + where}, "high": {text: "SELECT k, c, n FROM t WHERE token(k) >= 0" + where},
	}
	var ended atomic.Bool
	var following sync.WaitGroup
	for name, r := range readers {
		following.Go(func() { r.follow(t, w, name, &ended) })
	}
	for round := range rounds {
		if err := w.reshape("ks", "t", round%2 == 0); err != nil {
			t.Logf("round %d: %v", round, err)
		}
	}
	stop.Store(true)
	group.Wait()
	ended.Store(true)
	following.Wait()
	want := func(k int) map[string]string {
		all := map[string]string{}
		for c := range int32(3) {
			all[fmt.Sprintf("%d | %d", k, c)] = fmt.Sprint(last - (last-c)%3)
		}
		return all
	}
	merged := map[string]string{}
	for k := range keys {
		for row, n := range want(k) {
			if got := readers["table"].rows[row]; got != n {
				t.Errorf("table: row %s has %q, want %s", row, got, n)
			}
			if got := readers["key"].rows[row]; k == 3 && got != n {
				t.Errorf("key: row %s has %q, want %s", row, got, n)
			}
			merged[row] = n
		}
	}
	if low, high := readers["low"].rows, readers["high"].rows; len(low)+len(high) != len(merged) || len(readers["key"].rows) != 3 {
		t.Errorf("%d and %d rows of the ranges, %d of the table; %d of the key", len(low), len(high), len(merged), len(readers["key"].rows))
	}
}

// feedReader follows a feed of rows (k, c, n).
type feedReader struct {
	text string
	rows map[string]string // the last n of each key "k | c"
}

// follow reads until the feed is empty after the writes have ended.
func (r *feedReader) follow(t *testing.T, w *world, name string, ended *atomic.Bool) {
	r.rows = map[string]string{}
	highest := map[string]int{} // n of each partition key
	var state []byte
	for {
		over := ended.Load()
		page, err := w.page("ks", r.text, 7, state)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if len(page.Rows.PagingState) == 0 {
			t.Errorf("%s: no state", name)
			return
		}
		state = page.Rows.PagingState
		if over && page.Rows.Count == 0 {
			return
		}
		for line := range strings.Lines(literals(page.Rows)) {
			var k, c, n int
			if _, err := fmt.Sscanf(line, "%d | %d | %d", &k, &c, &n); err != nil {
				t.Errorf("%s: %q: %v", name, line, err)
				return
			}
			key := fmt.Sprint(k)
			if n < highest[key] {
				t.Errorf("%s: key %d has n %d after %d", name, k, n, highest[key])
			}
			highest[key] = n
			r.rows[fmt.Sprintf("%d | %d", k, c)] = fmt.Sprint(n)
		}
	}
}
