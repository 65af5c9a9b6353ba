package engine_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/engine"
)

// The pages of a query together cost as much as one page. Rows that a partition
// has read and that do not fit on a page are charged by the page that returns
// them, whether the page ends by bytes or by its number of rows.
func TestPagesAreChargedOnce(t *testing.T) {
	t.Parallel()
	const documents, partitions = 300, 6
	load := func(responseBytes int) (*world, engine.Link) {
		w := newWorld(t, func(c *engine.Config) { c.Limits.ResponseBytes = responseBytes })
		link := w.container(t, partitions, "/pk")
		for i := range documents {
			w.create(t, link, fmt.Sprintf(`{"id":"%d","pk":"%d","text":%q}`, i, i, strings.Repeat("x", 1000)))
		}
		return w, link
	}
	whole := func(w *world, req engine.QueryRequest) (charge float64, pages, rows int) {
		for {
			page, err := w.Query(context.Background(), caller, req)
			if err != nil {
				t.Fatal(err)
			}
			charge, pages, rows = charge+page.Charge, pages+1, rows+len(page.Rows)
			if page.Continuation == "" {
				return charge, pages, rows
			}
			req.Continuation = page.Continuation
		}
	}
	w, link := load(4 << 20)
	ask := engine.QueryRequest{Link: link, Text: "SELECT * FROM c", Cross: true, MaxItems: -1}
	want, pages, rows := whole(w, ask)
	if pages != 1 || rows != documents {
		t.Fatalf("%d pages, %d rows", pages, rows)
	}
	small, link := load(40_000)
	ask.Link = link
	byBytes, bytePages, rows := whole(small, ask)
	if rows != documents || bytePages < 5 {
		t.Fatalf("%d pages, %d rows", bytePages, rows)
	}
	ask.MaxItems = 7
	byItems, itemPages, rows := whole(w, ask)
	if rows != documents {
		t.Fatalf("%d rows", rows)
	}
	for name, got := range map[string]struct {
		charge float64
		pages  int
	}{"bytes": {byBytes, bytePages}, "items": {byItems, itemPages}} {
		t.Logf("by %s: %.2f RU in %d pages, %.2f RU in one", name, got.charge, got.pages, want)
		// The charge of each page is rounded to hundredths.
		if most := 0.01 * float64(got.pages); math.Abs(got.charge-want) > most {
			t.Errorf("pages ended by %s cost %.2f RU in %d pages, one page %.2f", name, got.charge, got.pages, want)
		}
	}
}
