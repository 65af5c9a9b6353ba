package partition

import (
	"context"
	"math"
	"testing"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/partitionkey"
)

// TestLastPosition reads after the greatest possible position, as a forged continuation
// token may: the result is empty, and no iterator stays open.
func TestLastPosition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, ""))
	if _, err := w.write(Create, w.parse(`{"id":"1","pk":"a","n":1}`), nil); err != nil {
		t.Fatal(err)
	}
	p := w.partition.Load()
	plan, err := query.Compile("SELECT * FROM c WHERE c.n = 1", nil, p.states.current.Load().Indexing.Active.Index, query.Options{})
	if err != nil {
		t.Fatal(err)
	}
	page, _, err := p.Query(context.Background(), Query{
		Plan: plan, Generation: w.own.Generation, Range: partitionkey.Full(),
		Budget: query.Budget{MaxItems: 10, Started: true, After: query.Position{Number: math.MaxUint64}},
	})
	if err != nil || len(page.Rows) != 0 || page.More {
		t.Errorf("got %d rows, more %v, %v; want none", len(page.Rows), page.More, err)
	}
	if err := w.close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
