package engine_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// TestItemFeed reads the change feed of a table of several partitions from times, with the
// other items with the changed ones.
func TestItemFeed(t *testing.T) {
	t.Parallel()
	var c clock
	c.set(time.Unix(1_800_000_000, 0))
	w := newWorld(t, func(cfg *engine.Config) { cfg.Now = c.now })
	tbl := newTable(t, w, 3)
	write := func(key, item, body string) {
		if _, err := w.WriteItems(t.Context(), caller, engine.WriteItemsRequest{Table: tbl, Key: key, Change: putting(item, body)}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 20 {
		write("user"+strconv.Itoa(n), "a", "\x01old")
	}
	c.set(time.Unix(1_800_000_100, 0))
	write("user1", "b", "\x01new")
	write("user2", "a", "\x01new")
	read := func(req engine.ItemFeedRequest) (string, resource.ETag) {
		t.Helper()
		var out []string
		for range 100 {
			page, err := w.ItemFeed(t.Context(), caller, req)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range page.Items {
				text := string(i.Key) + "/" + string(i.Item) + "=" + string(i.Body[1:])
				for _, b := range i.Others {
					text += "," + strings.TrimPrefix(string(b), "\x01")
				}
				out = append(out, text)
			}
			req.After = page.Position
			if page.Position == "" || page.Charge <= 0 {
				t.Fatalf("page %+v", page)
			}
			if !page.More {
				return strings.Join(out, " "), page.Position
			}
		}
		t.Fatal("no end")
		return "", ""
	}
	full := partitionkey.Full()
	all, after := read(engine.ItemFeedRequest{Table: tbl, Range: full, MaxItems: 7})
	if n := strings.Count(all, "/"); n != 21 {
		t.Errorf("%d items: %s", n, all)
	}
	for _, test := range []struct {
		name string
		req  engine.ItemFeedRequest
		want string
	}{
		{"the second of the change", engine.ItemFeedRequest{Range: full, Since: 1_800_000_100}, "2"},
		{"after it", engine.ItemFeedRequest{Range: full, Since: 1_800_000_101}, ""},
		{"a key, with other items", engine.ItemFeedRequest{Key: "user1", Others: []string{"b", "c", "a"}}, "user1/a=old,new,,old user1/b=new,new,,old"},
		{"a key since", engine.ItemFeedRequest{Key: "user1", Since: 1_800_000_050}, "user1/b=new"},
		{"after all", engine.ItemFeedRequest{Range: full, After: after}, ""},
		{"now", engine.ItemFeedRequest{Range: full, After: partition.AnyETag}, ""},
	} {
		test.req.Table = tbl
		got, _ := read(test.req)
		if test.want == "2" {
			got = strconv.Itoa(strings.Count(got, "/"))
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	for name, req := range map[string]engine.ItemFeedRequest{
		"no position":  {Table: tbl, Range: full, After: "x"},
		"no table":     {Table: "no", Range: full},
		"empty range":  {Table: tbl, Range: partitionkey.Range{Min: "\x05", Max: "\x05"}},
		"of documents": {Table: "", Range: full},
	} {
		if page, err := w.ItemFeed(t.Context(), caller, req); err == nil || len(page.Items) > 0 {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
	}
}

// TestItemFeedWithoutThroughput: a page that a table cannot pay is empty, and the next one
// begins at the same place.
func TestItemFeedWithoutThroughput(t *testing.T) {
	t.Parallel()
	var c clock
	c.set(time.Unix(1_800_000_000, 0))
	w := newWorld(t, func(cfg *engine.Config) { cfg.Now = c.now })
	least := 400 // RU/s
	if _, err := w.CreateKeyspace(t.Context(), caller, engine.KeyspaceRequest{Name: "ks", Definition: []byte(`{"k":1}`)}); err != nil {
		t.Fatal(err)
	}
	made, err := w.CreateTable(t.Context(), caller, engine.TableRequest{
		Keyspace: "ks", Name: "t", Columns: []string{"k"}, Definition: []byte(`{"t":1}`), Throughput: engine.ThroughputRequest{Manual: &least},
	})
	if err != nil {
		t.Fatal(err)
	}
	tbl := made.RID
	const items = 100
	body := "\x01" + strings.Repeat("x", 200<<10)
	for n := range items {
		if _, err := w.WriteItems(t.Context(), caller, engine.WriteItemsRequest{Table: tbl, Key: "user" + strconv.Itoa(n), Change: putting("a", body)}); err != nil {
			t.Fatal(err)
		}
	}
	w.throttling = cluster.Throttling{Enforcement: cluster.EnforceOn}
	w.reopen(t)
	req := engine.ItemFeedRequest{Table: tbl, Range: partitionkey.Full(), MaxItems: 10, Since: 1}
	seen, refused := 0, 0
	for range 10 * items {
		page, err := w.ItemFeed(t.Context(), caller, req)
		if err != nil || page.Position == "" {
			t.Fatalf("page %+v, %v", page, err)
		}
		if seen += len(page.Items); !page.More {
			break
		}
		if len(page.Items) == 0 {
			refused++
			if req.After != "" && page.Position != req.After {
				t.Fatalf("the position of an empty page is %s after %s", page.Position, req.After)
			}
			// Readers from now on have no position yet.
			if _, err := w.ItemFeed(t.Context(), caller, engine.ItemFeedRequest{Table: tbl, Range: partitionkey.Full(), After: partition.AnyETag}); status.CodeOf(err) != status.CodeTooManyRequests {
				t.Fatalf("from now on: %v", err)
			}
			c.set(c.now().Add(time.Second))
		}
		req.After = page.Position
	}
	if seen != items || refused == 0 {
		t.Errorf("%d items, %d refused pages", seen, refused)
	}
}
