package statement

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	door "github.com/decandb/decan/internal/api/cql"
	"github.com/decandb/decan/internal/api/cql/frame"
	"github.com/decandb/decan/internal/row"
)

// TestMemoryOfResults reads a table that is larger than the memory for requests and
// answers, by several clients at the same time. Without pages it is an error that says so,
// also of rows that are merged; with pages the clients get all rows, in bounded memory.
// DECAN_RESULT_MB is the size of the table in MB instead of 6: the memory is a third of it.
func TestMemoryOfResults(t *testing.T) {
	size := 6
	if given, err := strconv.Atoi(os.Getenv("DECAN_RESULT_MB")); err == nil {
		size = given
	}
	const rowBytes, clients = 256 << 10, 4
	limit := int64(size) << 20 / 3
	w := newWorld(t)
	n := serveNodeWith(t, w, func(c *door.Config) { c.InflightBytes = limit })
	w.must(t, createKeyspace, "CREATE TABLE t (k int, c int, pad text, PRIMARY KEY (k, c)) WITH cosmosdb_provisioned_throughput = 1000000")
	pad := strings.Repeat("x", rowBytes)
	rows := size << 20 / rowBytes
	for i := range rows {
		if answer := n.run(request{text: "INSERT INTO ks.t (k, c, pad) VALUES (?, ?, ?)", values: []frame.Value{{Bytes: row.Int(int32(i % 4))}, {Bytes: row.Int(int32(i / 4))}, {Bytes: []byte(pad)}}}); answer != "ok\n" {
			t.Fatal(answer)
		}
	}
	var heaviest atomic.Uint64
	watch := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heaviest.Store(max(heaviest.Load(), m.HeapAlloc))
	}
	runtime.GC()
	watch()
	before := heaviest.Load()
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
				watch()
			}
		}
	})
	all := []request{
		{text: "SELECT k, c, pad FROM ks.t"},
		{text: "SELECT k, c, pad FROM ks.t WHERE k IN (0, 1, 2, 3) ORDER BY c", page: 0},
	}
	var reading sync.WaitGroup
	for range clients {
		c := n.another(t)
		reading.Go(func() {
			for _, r := range all {
				if answer := c.run(r); !strings.HasPrefix(answer, "error 1001: The results of requests without pages take too much memory") {
					t.Errorf("%s without pages: %.200s", r.text, answer)
				}
			}
			count := 0
			for state, more := []byte(nil), true; more; {
				answer := c.ask(&frame.Query{Text: all[0].text, Parameters: frame.Parameters{
					Consistency: frame.LocalQuorum, Flags: frame.QueryPageSize | flagOf(state), PageSize: 100, PagingState: state,
				}})
				page, ok := answer.Message.(*frame.Rows)
				if !ok {
					t.Errorf("a page: %v", answer.Message)
					return
				}
				count, state = count+page.Count, page.Metadata.PagingState
				more = state != nil
			}
			if count != rows {
				t.Errorf("%d rows, want %d", count, rows)
			}
			if answer := c.run(request{text: "SELECT c FROM ks.t WHERE k = 0 LIMIT 1"}); answer != "# c int\n0\n" {
				t.Errorf("after an error: %s", answer)
			}
		})
	}
	reading.Wait()
	close(ended)
	watching.Wait()
	grown := int64(heaviest.Load()) - int64(before)
	t.Logf("%d rows of %d KB, limit %d MB: the heap has grown by %d MB at most, from %d MB", rows, rowBytes>>10, limit>>20, grown>>20, before>>20)
	// In a small test, the clients outweigh all else. The garbage collector begins when the
	// heap has doubled. Without a bound, each client would have the whole table twice.
	if most := int64(before) + 4*limit; size >= 100 && grown > most {
		t.Errorf("the heap has grown by %d MB, at most %d are expected", grown>>20, most>>20)
	}
}

func flagOf(state []byte) frame.QueryFlags {
	if state == nil {
		return 0
	}
	return frame.QueryPagingState
}
