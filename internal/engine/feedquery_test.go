package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// TestFeedQuery reads the change feed of two partitions with a query, with pages of
// several sizes: together they have the rows of the documents that satisfy it, in the
// order of the changes of each key, also where the rows of a page are larger than its
// documents and than a page of a query (F38).
func TestFeedQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	link := w.container(t, 2, "/pk")
	filler := strings.Repeat("x", 100_000)
	var want []string
	for i := range 60 {
		w.create(t, link, fmt.Sprintf(`{"id":"%02d","pk":"%d","n":%d,"p":%q}`, i, i%2, i, filler))
		if i%3 != 0 {
			want = append(want, fmt.Sprintf("%02d", i))
		}
	}
	for _, items := range []int{1, 7, 1000} {
		req := engine.FeedRequest{Link: link, MaxItems: items, Query: &engine.FeedQuery{
			Text:   "SELECT c.id, c.p, c.p AS q, c.p AS r FROM c WHERE c.n % @n != 0",
			Params: []query.Param{{Name: "@n", Value: value.Int(3)}},
		}}
		var got []string
		empty := 0
		for {
			page, err := w.Feed(t.Context(), caller, req)
			req.After = page.ETag
			if status.CodeOf(err) == status.CodeNotModified {
				break
			}
			if err != nil || page.ETag == "" {
				t.Fatalf("%d items: %v, etag %q", items, err, page.ETag)
			}
			if len(page.Rows) == 0 {
				empty++
			}
			for _, row := range page.Rows {
				v := parse(t, string(row))
				if v.Get("r").Text() != filler {
					t.Fatalf("%d items: a row is not whole", items)
				}
				got = append(got, v.Get("id").Text())
			}
		}
		if !slices.IsSortedFunc(got, inOneKey) {
			t.Errorf("%d items: %v are not in the order of the changes of a key", items, got)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%d items: %v, want %v", items, got, want)
		}
		if items == 1 && empty == 0 {
			t.Error("no page of one change was empty: a filtered page ends nothing")
		}
	}
}

// inOneKey compares two ids of TestFeedQuery if their documents have the same key.
func inOneKey(a, b string) int {
	if (a[1]-b[1])%2 != 0 {
		return 0
	}
	return strings.Compare(a, b)
}

// TestFeedQueryNeedsBoth shows that a query over the change feed needs the permission for
// queries, and that for the feed.
func TestFeedQueryNeedsBoth(t *testing.T) {
	t.Parallel()
	a := newAccessWorld(t, false)
	const containers = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/"
	for n, c := range []struct {
		actions string
		want    status.Code
	}{
		{fmt.Sprintf(`[%q]`, containers+"readChangeFeed"), status.CodeForbidden},
		{fmt.Sprintf(`[%q]`, containers+"executeQuery"), status.CodeForbidden},
		{fmt.Sprintf(`[%q,%q]`, containers+"readChangeFeed", containers+"executeQuery"), 0},
	} {
		role, name := guid(100+n), fmt.Sprint("role", n)
		properties := fmt.Sprintf(`{"roleName":%q,"type":"CustomRole","assignableScopes":["/"],"permissions":[{"dataActions":%s}]}`, name, c.actions)
		if _, err := a.PutRole(t.Context(), caller, role, parse(t, properties)); err != nil {
			t.Fatal(err)
		}
		a.assign(t, 200+n, role, "/", name)
		who, err := a.Verify(auth.Credentials{Authorization: a.bearer(t, name)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Feed(t.Context(), who, engine.FeedRequest{Link: a.link, Query: &engine.FeedQuery{Text: "SELECT * FROM c"}})
		if (err != nil || c.want != 0) && status.CodeOf(err) != c.want {
			t.Errorf("with %s: %v, want %d", c.actions, err, c.want)
		}
	}
	who := a.token(t, "k", "Read", "dbs/d/colls/c", `["t1","u1"]`)
	page, err := a.Feed(t.Context(), who, engine.FeedRequest{Link: a.link, Key: key(t, `["t1","u1"]`), Query: &engine.FeedQuery{Text: "SELECT VALUE c.id FROM c WHERE c.t != 'x'"}})
	if err != nil || len(page.Rows) != 2 {
		t.Errorf("with the token of a key: %v, %d rows", err, len(page.Rows))
	}
	_, err = a.Feed(t.Context(), who, engine.FeedRequest{Link: a.link, Query: &engine.FeedQuery{Text: "SELECT * FROM c"}})
	if status.CodeOf(err) != status.CodeForbidden {
		t.Errorf("all keys with the token of one: %v, want 403", err)
	}
}
