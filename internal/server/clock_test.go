package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server/servertest"
)

// TestClockYearsAhead runs a server whose clock is years ahead for a while. The
// resulting times are reported. After the repair, _ts, time to live and the change feed
// from a time are as if the clock had always been right.
func TestClockYearsAhead(t *testing.T) {
	t.Parallel()
	var wall, elapsed atomic.Int64
	wall.Store(time.Now().Unix())
	pass := func(seconds int64) { wall.Add(seconds); elapsed.Add(seconds) }
	c := &crowded{t: t, config: Config{
		Data: t.TempDir(), Clock: ClockOptions{Skew: -1},
		Now:     func() time.Time { return time.Unix(wall.Load(), 0) },
		elapsed: func() time.Duration { return time.Duration(elapsed.Load()) * time.Second },
		// While the clock is ahead, the documents before it have expired. None is deleted.
		maintenance: time.Hour,
	}}
	must := func(want int, method, link, body string, headers ...string) servertest.Response {
		t.Helper()
		r := c.call(method, link, body, headers...)
		if r.Status != want {
			t.Fatalf("%s %s: %d %s, want %d", method, link, r.Status, r.Body, want)
		}
		return r
	}
	write := func(id string) {
		t.Helper()
		must(http.StatusCreated, "POST", crowdedContainer+"/docs", fmt.Sprintf(`{"id":%q,"pk":%q}`, id, id), onKey(id)...)
	}
	timeOf := func(id string) (ts int64) {
		t.Helper()
		r := must(http.StatusOK, "GET", crowdedContainer+"/docs/"+id, "", onKey(id)...)
		if _, after, found := strings.Cut(string(r.Body), `"_ts":`); !found {
			t.Fatalf("%s", r.Body)
		} else if _, err := fmt.Sscanf(after, "%d", &ts); err != nil {
			t.Fatal(err)
		}
		return ts
	}
	admin := func(method, path string) string {
		t.Helper()
		return adminText(t, c.server, method, path)
	}
	const ttl, years = 3600, 5 * 365 * 24 * 3600

	c.open()
	must(http.StatusCreated, "POST", "dbs", `{"id":"d"}`)
	must(http.StatusCreated, "POST", "dbs/d/colls", fmt.Sprintf(`{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":%d}`, ttl))
	write("before")
	right := timeOf("before")
	wall.Add(years) // While the server runs, _ts does not follow the jump, and nothing expires.
	write("held")
	if ts := timeOf("held"); ts != right {
		t.Errorf("under a jump of years a document has the time %d, want %d", ts, right)
	}
	timeOf("before")
	if text := admin("GET", "/ready"); !strings.Contains(text, "jumped ahead") {
		t.Errorf("/ready says %s", text)
	}
	if text := admin("POST", "/clock/accept"); !strings.Contains(text, `"doubtSeconds":0`) {
		t.Errorf("accepted: %s", text)
	}
	write("ahead") // An operator has accepted the clock.
	if ts := timeOf("ahead"); ts != right+years {
		t.Errorf("a document has the time %d, want that of the clock %d", ts, right+years)
	}
	wall.Add(-years)
	c.server.lookAtClock()
	write("after")
	if ts := timeOf("after"); ts != right+years {
		t.Errorf("a document has the time %d, want the latest time, %d", ts, right+years)
	}
	for path, want := range map[string]string{"/ready": `"state":"ahead"`, "/metrics": `decan_partitions_unwell{ailment="ahead"} 1`} {
		if text := admin("GET", path); !strings.Contains(text, want) {
			t.Errorf("%s does not say %s: %s", path, want, text)
		}
	}
	c.close()

	done, err := RepairClock(c.config.Data, time.Unix(wall.Load(), 0))
	if err != nil || done.Documents != 2 {
		t.Fatalf("repaired %+v, %v", done, err)
	}
	if report, err := Check(c.config.Data); err != nil || len(report.Problems)+len(report.Ahead) > 0 {
		t.Errorf("after the repair: %+v, %v", report, err)
	}

	pass(10)
	c.open()
	defer c.close()
	if text := admin("GET", "/ready"); strings.Contains(text, "clock") || strings.Contains(text, "ahead") {
		t.Errorf("after the repair /ready says %s", text)
	}
	write("last")
	for id, want := range map[string]int64{"before": right, "held": right, "ahead": right, "after": right, "last": right + 10} {
		if ts := timeOf(id); ts != want {
			t.Errorf("after the repair %s has the time %d, want %d", id, ts-right, want-right)
		}
	}
	since := time.Unix(right+9, 0).UTC().Format(http.TimeFormat)
	feed := must(http.StatusOK, "GET", crowdedContainer+"/docs", "", "A-IM", "Incremental feed", "If-Modified-Since", since)
	if n := strings.Count(string(feed.Body), `"_ts":`); n != 1 {
		t.Errorf("the feed after the second before the last write has %d documents: %s", n, feed.Body)
	}
	pass(ttl - 10)
	for _, id := range []string{"ahead", "after"} {
		must(http.StatusNotFound, "GET", crowdedContainer+"/docs/"+id, "", onKey(id)...)
	}
	timeOf("last")
}

// adminText returns the admin port's answer to a holder of the key.
func adminText(t *testing.T, s *Server, method, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, strings.TrimSuffix(s.AdminEndpoint(), "/")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-decan-key", s.Key())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
