package engine

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// moved returns a version of a container with an old generation of partition i.
func moved(t *testing.T, c *catalog.Container, i int) *catalog.Container {
	t.Helper()
	entry := c.Ranges.At(i)
	entry.Value.Generation++
	ranges, err := c.Ranges.Replace([]partitionkey.Range{entry.Range}, []partitionkey.Entry[resource.Partition]{entry})
	if err != nil {
		t.Fatal(err)
	}
	stale := *c
	stale.Ranges = ranges
	return &stale
}

// If a page is made again because a partition has moved during the first
// attempt, it equals the page of the second attempt. Only the charge and the
// partitions asked include the first.
func TestAttemptStartsClean(t *testing.T) {
	t.Parallel()
	e, c := split(t, 4)
	link := Link{Database: "d", Container: "c"}
	hybrid := `SELECT VALUE c.id FROM c ORDER BY RANK RRF(FullTextScore(c.long, "x"), FullTextScore(c.id, "1", "2"))`
	first := c.Ranges.At(0).Range
	for _, c := range []struct {
		name string
		// The attempts before the last, each by the partition that has moved. In
		// -1 none has moved, and the page is dropped for another reason.
		before []int
		req    QueryRequest
		last   *partitionkey.Range // clip of the last attempt
	}{
		{name: "first partition", before: []int{0}, req: QueryRequest{Text: "SELECT VALUE c.id FROM c"}},
		{name: "third partition", before: []int{2}, req: QueryRequest{Text: "SELECT VALUE c.id FROM c"}},
		{name: "twice", before: []int{3, 1}, req: QueryRequest{Text: "SELECT VALUE c.id FROM c"}},
		{name: "in a page that is cut", before: []int{0}, req: QueryRequest{Text: "SELECT VALUE c.id FROM c", MaxItems: 20}},
		{name: "ordered", before: []int{2}, req: QueryRequest{Text: "SELECT VALUE c.id FROM c ORDER BY c.n", MaxItems: 20}},
		{name: "aggregate", before: []int{3}, req: QueryRequest{Text: "SELECT VALUE COUNT(1) FROM c"}},
		{name: "hybrid", before: []int{2}, req: QueryRequest{Text: hybrid}},
		{name: "behind a hybrid page", before: []int{-1}, req: QueryRequest{Text: hybrid}},
		{name: "behind a hybrid page that is cut", before: []int{-1, 3}, req: QueryRequest{Text: hybrid, MaxItems: 20}},
		{name: "behind a page", before: []int{-1}, req: QueryRequest{Text: "SELECT VALUE c.id FROM c", MaxItems: 20}},
		{name: "fewer partitions than before", before: []int{3}, req: QueryRequest{Text: "SELECT VALUE c.id FROM c"}, last: &first},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Link, c.req.Full, c.req.Cross = link, true, true
			container, _ := e.catalog.View().Container("d", "c")
			req := c.req
			q := queryPage{engine: e, req: &req, job: e.newJob()}
			for _, i := range c.before {
				if i < 0 {
					if err := q.attempt(context.Background(), container); err != nil {
						t.Fatal(err)
					}
				} else if err := q.attempt(context.Background(), moved(t, container, i)); status.CodeOf(err) != status.CodeGone {
					t.Fatalf("got %v from an attempt in which partition %d has moved, want 410", err, i)
				}
			}
			req.Clip, c.req.Clip = c.last, c.last
			if err := q.attempt(context.Background(), container); err != nil {
				t.Fatal(err)
			}
			q.job.close()
			want, err := e.Query(context.Background(), auth.Owner(), c.req)
			if err != nil {
				t.Fatal(err)
			}
			if got := texts(q.out); !slices.Equal(got, texts(want)) || len(got) == 0 {
				t.Errorf("rows %q, want %q", got, texts(want))
			}
			if q.out.Continuation != want.Continuation {
				t.Errorf("continuation %q, want %q", q.out.Continuation, want.Continuation)
			}
			if got := q.seen.token(false); got != want.Session || q.out.LSN != want.LSN {
				t.Errorf("session %q at %d, want %q at %d", got, q.out.LSN, want.Session, want.LSN)
			}
			got := []int64{q.out.Stats.Retrieved, q.out.Stats.Output, q.out.Stats.OutputBytes, q.out.Stats.Matched}
			if want := []int64{want.Stats.Retrieved, want.Stats.Output, want.Stats.OutputBytes, want.Stats.Matched}; !reflect.DeepEqual(got, want) {
				t.Errorf("statistics %v, want %v", got, want)
			}
		})
	}
}

// The look-up of a RID in a partition that has moved returns 410, not 404, so that
// the request is tried again: the document exists.
func TestDocumentByRIDMoves(t *testing.T) {
	t.Parallel()
	e := build(t)
	c := fill(t, e, 0, 5)
	ask := QueryRequest{Link: Link{Database: "d", Container: "c"}, Text: "SELECT c._rid, c.id, c.pk FROM c", Full: true, Cross: true}
	page, err := e.Query(t.Context(), auth.Owner(), ask)
	if err != nil || len(page.Rows) != 5 {
		t.Fatalf("%q, %v", page.Rows, err)
	}
	row, err := value.Parse(page.Rows[3])
	if err != nil {
		t.Fatal(err)
	}
	key := c.KeyOf(row)
	rid, id := row.Get("_rid").Text(), row.Get("id").Text()
	if got, err := e.idByRID(t.Context(), c, key, rid, nil); err != nil || got != id {
		t.Errorf("got %q and %v, want %q", got, err, id)
	}
	if _, err := e.idByRID(t.Context(), moved(t, c, 0), key, rid, nil); status.CodeOf(err) != status.CodeGone {
		t.Errorf("in a partition that has moved: %v, want 410", err)
	}
	for _, none := range []string{"", "x", id, rid[:len(rid)-4], c.RID.String()} {
		if _, err := e.idByRID(t.Context(), c, key, none, nil); !missing(err) {
			t.Errorf("%q: %v, want 404", none, err)
		}
	}
}
