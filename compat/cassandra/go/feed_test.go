package drivers

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// following reads the change feed of a table page by page, while rows are written and its
// partitions split: the paging state of each page is where the next one begins.
func following(t *testing.T, s session, keyspace string) {
	check := must(t)
	table := keyspace + ".feed"
	check(s.exec("CREATE TABLE " + table + " (k int, c int, v text, PRIMARY KEY (k, c))"))
	var state []byte
	read := func(size int, text string, values ...any) (all []string) {
		t.Helper()
		for {
			rows, next, err := s.page(size, state, text, values...)
			check(err)
			if len(next) == 0 {
				t.Fatal("a page has no state")
			}
			state = next
			if len(rows) == 0 {
				return all
			}
			for _, row := range rows {
				all = append(all, fmt.Sprint(row["k"], " ", row["c"], " ", row["v"]))
			}
		}
	}
	since := time.Now().UTC()
	text := "SELECT * FROM " + table + " WHERE COSMOS_CHANGEFEED_START_TIME() = '" + since.Format("2006-01-02T15:04:05.000Z") + "'"
	insert := "INSERT INTO " + table + " (k, c, v) VALUES (?, ?, ?)"
	for i := range 20 {
		check(s.exec(insert, i%2, i, "a"))
	}
	check(s.exec(insert, 0, 0, "b"))
	if got := read(3, text); len(got) != 20 || got[19] != "0 0 b" {
		t.Errorf("the feed: %s", got)
	}
	if got := read(3, text); len(got) != 0 {
		t.Errorf("nothing has changed, but %s", got)
	}
	if admin := os.Getenv("DECAN_ADMIN"); admin != "" {
		for _, id := range partitions(t, admin, keyspace, "feed") {
			call(t, fmt.Sprintf("%spartitions/split?database=%s&container=feed&partition=%s", admin, keyspace, id), http.MethodPost)
		}
	}
	check(s.exec("DELETE FROM "+table+" WHERE k = ? AND c = ?", 1, 1))
	check(s.exec(insert, 5, 5, "c"))
	check(s.exec(insert, 1, 3, "c"))
	got := read(100, text)
	slices.Sort(got)
	if want := "[1 3 c 5 5 c]"; fmt.Sprint(got) != want {
		t.Errorf("after a split: %s, want %s", got, want)
	}
	state = nil
	if got := read(100, "SELECT * FROM "+table+" WHERE k = ? AND COSMOS_CHANGEFEED_START_TIME() = ?", 5, since); fmt.Sprint(got) != "[5 5 c]" {
		t.Errorf("the feed of a key: %s", got)
	}
}

// tracing reads the trace of a statement with the tracer of the driver.
func tracing(t *testing.T, s session, keyspace string) {
	var out bytes.Buffer
	must(t)(s.traced(&out, "SELECT * FROM "+keyspace+".t WHERE k = ?", 1))
	for _, want := range []string{"Tracing session", "Read a partition key of t: ", "Request charge: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the trace has no %q:\n%s", want, out.String())
		}
	}
}
