package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// A query that names a partition continues after the partition has split and its
// children have merged with others, in the name of that partition, from every position
// and from the beginning. Clients that keep their list of partitions so get every row of
// its range once, in the same order, and no row of another range.
func TestFormerPartition(t *testing.T) {
	t.Parallel()
	e := build(t)
	fill(t, e, 0, 30)
	two := divide(t, e, partitionkey.Full(), 2)
	fill(t, e, 30, 60)
	first, second := two.Ranges.At(0).Value, two.Ranges.At(1).Value
	ask := func(id resource.PartitionID, text string) QueryRequest {
		return QueryRequest{Text: text, Partition: &id, Former: true}
	}
	want, other := map[string][]string{}, map[string][]string{}
	positions := map[string][]reached{}
	for _, text := range splitShapes {
		want[text], _ = pages(t, e, ask(first.ID, text))
		other[text], _ = pages(t, e, ask(second.ID, text))
		for _, size := range []int{1, 4} {
			req := ask(first.ID, text)
			req.MaxItems = size
			_, list := pages(t, e, req)
			positions[text] = append(positions[text], list...)
		}
	}

	divide(t, e, first.Range, 3)
	c, _ := e.catalog.View().Container("d", "c")
	low, high := c.Ranges.At(2).Value, c.Ranges.At(3).Value // of the first, and the second
	if high.ID != second.ID {
		t.Fatalf("the partitions are %v", c.Partitions())
	}
	ids := [2]resource.PartitionID{low.ID, high.ID}
	link := Link{Database: "d", Container: "c"}
	if _, err := e.MergePartitions(context.Background(), auth.Owner(), MergeRequest{Link: link, Partitions: ids}); err != nil {
		t.Fatal(err)
	}

	for _, text := range splitShapes {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			plan, err := e.compile(text, nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			for id, rows := range map[resource.PartitionID][]string{first.ID: want[text], second.ID: other[text]} {
				got, _ := pages(t, e, ask(id, text))
				switch {
				case plan.Ordered() && !plan.FirstSeen() && !slices.Equal(got, rows), len(got) != len(rows):
					t.Errorf("partition %s from the beginning:\ngot  %v\nwant %v", id, got, rows)
				case (plan.FirstSeen() || !plan.Ordered() && !plan.Needs().Any()) && !plan.Limited() && !sameRows(got, rows): // in the order of partitions now
					t.Errorf("partition %s from the beginning:\ngot  %v\nwant %v", id, got, rows)
				}
			}
			for i, at := range positions[text] {
				if RaceDetector && i%4 != 0 {
					continue // The others reach no other code.
				}
				req := ask(first.ID, text)
				req.MaxItems, req.Continuation = 10*at.size, at.token
				rest, _ := pages(t, e, req)
				if got := slices.Concat(at.rows, rest); !slices.Equal(got, want[text]) {
					t.Fatalf("after %d of %d rows:\ngot  %v\nwant %v", len(at.rows), len(want[text]), got, want[text])
				}
			}
		})
	}

	req := ask(first.ID, "SELECT * FROM c")
	req.Link = link
	page, err := e.Query(context.Background(), auth.Owner(), req)
	if err != nil || !page.Former || len(page.Partitions) != 3 {
		t.Errorf("former %v, partitions %v, %v", page.Former, page.Partitions, err)
	}
	req.Former = false
	if _, err := e.Query(context.Background(), auth.Owner(), req); status.SubOf(err) != status.SubRangeGone {
		t.Errorf("a client that follows splits gets %v, want 410/1002", err)
	}
	req = ask(99, "SELECT * FROM c")
	req.Link = link
	if _, err := e.Query(context.Background(), auth.Owner(), req); status.SubOf(err) != status.SubRangeGone {
		t.Errorf("a partition that never was: %v, want 410/1002", err)
	}
}

// sameRows reports whether two lists have the same rows.
func sameRows(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
