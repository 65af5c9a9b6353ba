package compat

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestChangeFeed reads the latest-version change feed with the Go SDK: from the
// beginning and from a time, of the container, of each range and of a full key,
// in pages of every size, and compares it with what it wrote (S111).
func TestChangeFeed(t *testing.T) {
	overBoth(t, changeFeed)
}

// changed is an item of the change feed.
type changed struct {
	ID       string `json:"id"`
	TenantID string `json:"TenantId"`
	UserID   string `json:"UserId"`
	N        int    `json:"n"`
	LSN      int64  `json:"_lsn,omitempty"`
	TS       int64  `json:"_ts,omitempty"`
}

func (c changed) name() string { return c.TenantID + "|" + c.UserID + "|" + c.ID }

func (c changed) key() azcosmos.PartitionKey {
	return azcosmos.NewPartitionKeyString(c.TenantID).AppendString(c.UserID)
}

// changes is a container and what the test wrote to it.
type changes struct {
	t         *testing.T
	container *azcosmos.ContainerClient
	items     map[string]changed
	written   int
	last      int64 // the latest _ts
}

func (c *changes) change() {
	c.t.Helper()
	n := c.written
	c.written++
	item := changed{ID: fmt.Sprint("id", n*7%5), TenantID: fmt.Sprint("t", n*11%4), UserID: fmt.Sprint("u", n*5%3), N: n}
	if _, there := c.items[item.name()]; there && n%4 == 3 {
		if _, err := c.container.DeleteItem(c.t.Context(), item.key(), item.ID, nil); err != nil {
			c.t.Fatal(err)
		}
		delete(c.items, item.name())
		return
	}
	body, err := json.Marshal(item)
	if err != nil {
		c.t.Fatal(err)
	}
	got, err := c.container.UpsertItem(c.t.Context(), item.key(), body, &azcosmos.ItemOptions{EnableContentResponseOnWrite: true})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := json.Unmarshal(got.Value, &item); err != nil {
		c.t.Fatal(err)
	}
	c.last = max(c.last, item.TS)
	c.items[item.name()] = item
}

// drain reads a feed until there is nothing left for now: numbers by name, each
// of which is returned once, and the continuation of the feed.
func (c *changes) drain(t *testing.T, options azcosmos.ChangeFeedOptions) (found map[string]int, next string) {
	t.Helper()
	found = map[string]int{}
	for range 1000 {
		page, err := c.container.ReadChangeFeed(t.Context(), &options)
		if err != nil {
			t.Fatal(err)
		}
		if page.RawResponse.StatusCode == http.StatusNotModified {
			return found, page.ContinuationToken
		}
		if n := len(page.Items); options.MaxItemCount > 0 && n > int(options.MaxItemCount) || n != page.Count || page.RequestCharge < 1 {
			t.Fatalf("%d items of %d on a page of %d for %v RU", n, page.Count, options.MaxItemCount, page.RequestCharge)
		}
		for _, body := range page.Items {
			var item changed
			if err := json.Unmarshal(body, &item); err != nil || item.LSN <= 0 {
				t.Fatalf("%s: %v", body, err)
			}
			if _, twice := found[item.name()]; twice {
				t.Fatalf("%s comes twice", item.name())
			}
			found[item.name()] = item.N
		}
		options.Continuation = &page.ContinuationToken
	}
	t.Fatal("no end")
	return nil, ""
}

// want returns the expected content of a feed.
func (c *changes) want(holds func(changed) bool) map[string]int {
	want := map[string]int{}
	for name, item := range c.items {
		if holds(item) {
			want[name] = item.N
		}
	}
	return want
}

func changeFeed(t *testing.T, endpoint string) {
	ctx := t.Context()
	client := connect(t, endpoint, wellKnownKey, &visits{ids: map[string]bool{}})
	const partitions = 4
	container := newContainer(t, newDatabase(t, client), "items", partitions, "/TenantId", "/UserId")
	c := &changes{t: t, container: container, items: map[string]changed{}}
	for range 80 {
		c.change()
	}
	everything := azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}
	all, end := c.drain(t, azcosmos.ChangeFeedOptions{FeedRange: &everything})
	if want := c.want(func(changed) bool { return true }); !maps.Equal(all, want) {
		t.Errorf("got %v, want %v", all, want)
	}
	second := c.last + 1 // a time is in whole seconds, and exclusive (F9)
	for time.Now().Unix() < second {
		time.Sleep(50 * time.Millisecond)
	}
	for range 60 {
		c.change()
	}
	later := func(item changed) bool { return item.TS >= second }

	t.Run("goes on where it ended", func(t *testing.T) {
		found, again := c.drain(t, azcosmos.ChangeFeedOptions{Continuation: &end})
		if want := c.want(later); !maps.Equal(found, want) {
			t.Errorf("got %v, want %v", found, want)
		}
		if found, _ := c.drain(t, azcosmos.ChangeFeedOptions{Continuation: &again}); len(found) > 0 {
			t.Errorf("once more: %v", found)
		}
	})

	key := azcosmos.NewPartitionKeyString("t1").AppendString("u2")
	prefix := azcosmos.NewPartitionKeyString("t2")
	for _, scope := range []struct {
		name  string
		key   *azcosmos.PartitionKey
		holds func(changed) bool
	}{
		{"the container", nil, func(changed) bool { return true }},
		{"a whole key", &key, func(item changed) bool { return item.TenantID == "t1" && item.UserID == "u2" }},
		{"a prefix", &prefix, func(item changed) bool { return item.TenantID == "t2" }},
	} {
		for _, size := range []int32{1, 7, 0} {
			t.Run(fmt.Sprintf("%s in pages of %d", scope.name, size), func(t *testing.T) {
				options := azcosmos.ChangeFeedOptions{FeedRange: &everything, PartitionKey: scope.key, MaxItemCount: size}
				if found, _ := c.drain(t, options); !maps.Equal(found, c.want(scope.holds)) {
					t.Errorf("from the beginning: got %v, want %v", found, c.want(scope.holds))
				}
				start := time.Unix(second-1, 0)
				options.StartFrom = &start
				want := c.want(func(item changed) bool { return scope.holds(item) && later(item) })
				if found, _ := c.drain(t, options); !maps.Equal(found, want) {
					t.Errorf("from a time: got %v, want %v", found, want)
				}
			})
		}
	}

	t.Run("the ranges together are the container", func(t *testing.T) {
		ranges, err := container.ReadFeedRanges(ctx, nil)
		if err != nil || len(ranges) != partitions {
			t.Fatalf("%d ranges, %v", len(ranges), err)
		}
		sum := map[string]int{}
		for _, r := range ranges {
			found, _ := c.drain(t, azcosmos.ChangeFeedOptions{FeedRange: &r, MaxItemCount: 7})
			for name, n := range found {
				if _, twice := sum[name]; twice {
					t.Errorf("%s is in two ranges", name)
				}
				sum[name] = n
			}
		}
		if want := c.want(func(changed) bool { return true }); !maps.Equal(sum, want) {
			t.Errorf("got %v, want %v", sum, want)
		}
	})
}
