package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/engine"
)

// A selective filter reads few documents of many, by posting lists. Each
// partition has more documents than a query scans.
func TestIndexLeadsToFewDocuments(t *testing.T) {
	t.Parallel()
	count, partitions := 100_000, 8
	if engine.RaceDetector {
		count, partitions = 10_000, 2 // a tenth of the pace
	}
	last := count - 1
	w := newWorld(t, nil)
	link := w.container(t, partitions, "/pk")
	done := make(chan struct{})
	const writers = 64
	for g := range writers {
		go func() {
			for i := g; i < count; i += writers {
				doc := fmt.Sprintf(`{"id":"%06d","pk":%d,"n":%d,"s":"name %06d"}`, i, i%5000, i, i)
				if _, err := w.Create(context.Background(), caller, engine.DocumentRequest{Link: link, Document: parse(t, doc), Size: len(doc)}); err != nil {
					t.Error(err)
				}
			}
			done <- struct{}{}
		}()
	}
	for range writers {
		<-done
	}
	for _, c := range []struct {
		filter string
		rows   int
		most   int64 // documents read
	}{
		{`c.n = 777`, 1, 1},
		{`777 = c.n AND c.s = "name 000777"`, 1, 1},
		{`c.n >= 500 AND c.n < 520`, 20, 20},
		{`c.n BETWEEN 500 AND 519`, 20, 20},
		{fmt.Sprintf(`c.n IN (1, 2, 3, %d)`, last), 4, 4},
		{`c.n = 1 OR c.s = "name 000002"`, 2, 2},
		{`STARTSWITH(c.s, "name 00001")`, 10, 10},
		{`c.s LIKE "name 00001%"`, 10, 10},
		{`c.s = "name 000009" AND c.n > 5`, 1, 1},
		{`IS_NULL(c.n)`, 0, 0},
		{`c.absent = 1`, 0, 0},
		{`c.pk = 7`, count / 5000, int64(count / 5000)},
		{`c.pk IN (7, 8) AND c.n < 1000`, 2, 2},
		{fmt.Sprintf(`c.n > %d OR IS_STRING(c.n)`, last-9), 9, 9},
		{`c.n IN (` + strings.TrimSuffix(strings.Repeat("5,", 5000), ",") + `)`, 1, 1},
	} {
		var read int64
		rows := 0
		req := engine.QueryRequest{Link: link, Text: "SELECT c.id FROM c WHERE " + c.filter, Cross: true}
		for {
			page, err := w.Query(context.Background(), caller, req)
			if err != nil {
				t.Fatal(err)
			}
			read += page.Stats.Retrieved
			rows += len(page.Rows)
			if req.Continuation = page.Continuation; req.Continuation == "" {
				break
			}
		}
		if rows != c.rows || read > c.most {
			t.Errorf("%.80s: %d rows, want %d; %d documents read, want at most %d", c.filter, rows, c.rows, read, c.most)
		}
	}
}
