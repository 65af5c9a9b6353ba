package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/server/servertest"
	"golang.org/x/sync/errgroup"
)

// growing is a container on a server whose partitions split, as the Go SDK sees it.
type growing struct {
	*azcosmos.ContainerClient
	server *Server
}

func newClient(s *Server) (*azcosmos.Client, error) {
	credential, err := azcosmos.NewKeyCredential(s.Key())
	if err != nil {
		return nil, err
	}
	return azcosmos.NewClientWithKey(s.Endpoint(), credential, nil)
}

func newGrowing(t *testing.T, s *Server, key azcosmos.PartitionKeyDefinition, rus int32) growing {
	t.Helper()
	client, err := newClient(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "d"}, nil); err != nil {
		t.Fatal(err)
	}
	database, err := client.NewDatabase("d")
	if err != nil {
		t.Fatal(err)
	}
	throughput := azcosmos.NewManualThroughputProperties(rus)
	_, err = database.CreateContainer(t.Context(), azcosmos.ContainerProperties{ID: "c", PartitionKeyDefinition: key},
		&azcosmos.CreateContainerOptions{ThroughputProperties: &throughput})
	if err != nil {
		t.Fatal(err)
	}
	container, err := database.NewContainer("c")
	if err != nil {
		t.Fatal(err)
	}
	return growing{container, s}
}

// partitions returns the number of physical partitions. It does not ask the SDK,
// whose clients share a cache of them.
func (g growing) partitions(t *testing.T) int {
	t.Helper()
	var list struct{ PartitionKeyRanges []json.RawMessage }
	answer := call(t, g.server, http.MethodGet, "dbs/d/colls/c/pkranges", "")
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		t.Fatal(err)
	}
	return len(list.PartitionKeyRanges)
}

// ids pages through a query for ids and returns how often each occurred.
func (g growing) ids(ctx context.Context, query string, key azcosmos.PartitionKey, pageSize int32) (map[string]int, error) {
	seen := map[string]int{}
	pager := g.NewQueryItemsPager(query, key, &azcosmos.QueryOptions{PageSizeHint: pageSize})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return seen, err
		}
		for _, item := range page.Items {
			var id string
			if err := json.Unmarshal(item, &id); err != nil {
				return seen, err
			}
			seen[id]++
		}
	}
	return seen, nil
}

// changes reads the change feed of the whole container from a position to its
// end, and returns how often each document occurred, and the position.
func (g growing) changes(ctx context.Context, from map[string]*string, seen map[string]int) error {
	for feedRange, token := range from {
		var bounds azcosmos.FeedRange
		if err := json.Unmarshal([]byte(feedRange), &bounds); err != nil {
			return err
		}
		for {
			options := azcosmos.ChangeFeedOptions{FeedRange: &bounds, MaxItemCount: 50, Continuation: token}
			page, err := g.ReadChangeFeed(ctx, &options)
			if err != nil {
				return fmt.Errorf("change feed of %s: %w", feedRange, err)
			}
			for _, item := range page.Items {
				var document struct {
					ID string `json:"id"`
				}
				if err := json.Unmarshal(item, &document); err != nil {
					return err
				}
				seen[document.ID]++
			}
			if page.ContinuationToken != "" {
				token = &page.ContinuationToken
				from[feedRange] = token
			}
			if len(page.Items) == 0 {
				break
			}
		}
	}
	return nil
}

// TestS8GrowsThroughSplits lets one tenant write several times the capacity of a
// physical partition (S5, S8, S12, S37) while others page through a query and
// follow the change feed. No call of the SDK fails, and no document is lost or
// duplicated.
func TestS8GrowsThroughSplits(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Partitions: PartitionOptions{PhysicalMax: 256 << 10, LogicalMax: 64 << 10}, Protocol: ProtocolOptions{CrossPartition: "full"}})
	c := newGrowing(t, s, azcosmos.PartitionKeyDefinition{Paths: []string{"/tenant", "/user"}, Kind: azcosmos.PartitionKeyKindMultiHash, Version: 2}, 400)

	start, err := json.Marshal(azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 6, 250
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	readers, reading := errgroup.WithContext(ctx)
	fed, position := map[string]int{}, map[string]*string{string(start): nil}
	pages := 0
	readers.Go(func() error {
		for reading.Err() == nil {
			if err := c.changes(reading, position, fed); err != nil && reading.Err() == nil {
				return err
			}
		}
		return nil
	})
	readers.Go(func() error {
		for reading.Err() == nil {
			seen, err := c.ids(reading, "SELECT VALUE c.id FROM c", azcosmos.NewPartitionKey(), 7)
			if err != nil && reading.Err() == nil {
				return fmt.Errorf("query while partitions split: %w", err)
			}
			for id, n := range seen {
				if n != 1 {
					return fmt.Errorf("query while partitions split: %s was returned %d times", id, n)
				}
			}
			pages++
		}
		return nil
	})
	var load errgroup.Group
	for w := range writers {
		load.Go(func() error {
			for i := range each {
				user := fmt.Sprintf("user %d", (w*each+i)%100)
				id := fmt.Sprintf("%d-%d", w, i)
				body := fmt.Sprintf(`{"id":%q,"tenant":"acme","user":%q,"text":%q}`, id, user, strings.Repeat("x", 1000))
				key := azcosmos.NewPartitionKeyString("acme").AppendString(user)
				if _, err := c.CreateItem(ctx, key, []byte(body), nil); err != nil {
					return fmt.Errorf("create %s: %w", id, err)
				}
			}
			return nil
		})
	}
	if err := load.Wait(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := readers.Wait(); err != nil {
		t.Fatal(err)
	}
	// 1.5 MB in partitions of at most 256 KB.
	waitFor(t, "six partitions", func() bool {
		return c.partitions(t) >= 6
	})
	if err := c.changes(t.Context(), position, fed); err != nil {
		t.Fatal(err)
	}
	whole := map[string]int{}
	if err := c.changes(t.Context(), map[string]*string{string(start): nil}, whole); err != nil {
		t.Fatal(err)
	}
	everything, err := c.ids(t.Context(), "SELECT VALUE c.id FROM c", azcosmos.NewPartitionKey(), 100)
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := c.ids(t.Context(), "SELECT VALUE c.id FROM c", azcosmos.NewPartitionKeyString("acme"), 7)
	if err != nil {
		t.Fatal(err)
	}
	for name, seen := range map[string]map[string]int{
		"the feed while partitions split": fed, "the feed from the beginning": whole, "a query": everything, "a query of the prefix": tenant,
	} {
		if len(seen) != writers*each {
			t.Errorf("%s has %d documents of %d", name, len(seen), writers*each)
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%s has %s %d times", name, id, n)
			}
		}
	}
	if pages == 0 {
		t.Error("no query completed while partitions split")
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// TestS105ThroughputSplits raises a throughput beyond the capacity of the
// partitions: the offer is pending until they have split, and everything can be
// read during that time (S18, S105, S109).
func TestS105ThroughputSplits(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Throughput: ThroughputOptions{PartitionMax: 1000}, Protocol: ProtocolOptions{CrossPartition: "full"}})
	c := newGrowing(t, s, azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}, 1000)
	ctx := t.Context()
	for i := range 200 {
		key := fmt.Sprint(i)
		if _, err := c.CreateItem(ctx, azcosmos.NewPartitionKeyString(key), []byte(`{"id":"x","pk":"`+key+`"}`), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.partitions(t); n != 1 {
		t.Fatalf("%d partitions", n)
	}
	raised, err := c.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(4500), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !raised.IsReplacePending {
		t.Error("the offer is not pending before one partition is split into five")
	}
	waitFor(t, "the offer", func() bool {
		offer, err := c.ReadThroughput(ctx, nil)
		return err == nil && !offer.IsReplacePending
	})
	if n := c.partitions(t); n != 5 {
		t.Errorf("%d partitions for 4,500 RU/s of 1,000 each", n)
	}
	seen, err := c.ids(ctx, "SELECT VALUE c.pk FROM c", azcosmos.NewPartitionKey(), 7)
	if err != nil || len(seen) != 200 {
		t.Errorf("%d documents of 200, %v", len(seen), err)
	}
	lowered, err := c.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(1000), nil)
	if err != nil || lowered.IsReplacePending {
		t.Errorf("lowering: %v, pending %v", err, lowered.IsReplacePending)
	}
	if n := c.partitions(t); n != 5 {
		t.Errorf("%d partitions after the throughput was lowered: they stay", n)
	}
}

// TestSplitOnCommand splits through the admin port. A client that knows an
// earlier list of ranges receives the new ones, which it adds to its own; an
// invalid split is refused and changes nothing.
func TestSplitOnCommand(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	newGrowing(t, s, azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}, 400)
	ranges := func(etag string) (servertest.Response, []string) {
		t.Helper()
		headers := []string{"A-IM", "Incremental Feed"}
		if etag != "" {
			headers = append(headers, "If-None-Match", etag)
		}
		answer := call(t, s, http.MethodGet, "dbs/d/colls/c/pkranges", "", headers...)
		var list struct {
			PartitionKeyRanges []struct {
				ID      string   `json:"id"`
				Parents []string `json:"parents"`
			}
		}
		if len(answer.Body) > 0 {
			if err := json.Unmarshal(answer.Body, &list); err != nil {
				t.Fatal(err)
			}
		}
		var ids []string
		for _, r := range list.PartitionKeyRanges {
			ids = append(ids, r.ID+" of "+strings.Join(r.Parents, ","))
		}
		return answer, ids
	}
	split := func(query string) (code int, body string) {
		t.Helper()
		return callAdmin(t, s, http.MethodPost, "partitions/split?database=d&container=c&"+query, "")
	}
	want := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}

	first, ids := ranges("")
	want("at first", ids, "0 of ")
	if code, body := split("partition=0"); code != http.StatusOK || !strings.Contains(body, `"children":["1","2"]`) {
		t.Fatalf("split: %d %s", code, body)
	}
	second, ids := ranges(first.Header.Get("Etag"))
	want("after a split", ids, "1 of 0", "2 of 0")
	if code, body := split("partition=2&at=30"); code != http.StatusOK {
		t.Fatalf("split at 30: %d %s", code, body)
	}
	third, ids := ranges(second.Header.Get("Etag"))
	want("after another", ids, "3 of 0,2", "4 of 0,2")
	_, ids = ranges(first.Header.Get("Etag"))
	want("from the first list on", ids, "1 of 0", "3 of 0,2", "4 of 0,2")
	for query, code := range map[string]int{
		"partition=0":          http.StatusNotFound,   // it was split
		"partition=1&at=30":    http.StatusBadRequest, // outside its range
		"partition=3&at=30":    http.StatusBadRequest, // its bound
		"partition=9":          http.StatusNotFound,
		"partition=x":          http.StatusBadRequest,
		"partition=1&at=nohex": http.StatusBadRequest,
	} {
		if got, body := split(query); got != code || !strings.Contains(body, `"message"`) {
			t.Errorf("split %s: %d %s, want %d", query, got, body, code)
		}
	}
	if last, ids := ranges(third.Header.Get("Etag")); last.Status != http.StatusNotModified {
		t.Errorf("refused splits have changed the list: %d %q", last.Status, ids)
	}
}

// TestS18DelayedSplit imitates the hours that the service takes: the offer is
// pending, everything continues to work, and a restart completes the remaining
// work.
func TestS18DelayedSplit(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := start(t, Config{Data: data, Throughput: ThroughputOptions{PartitionMax: 1000}, Partitions: PartitionOptions{SplitDelay: time.Hour}})
	c := newGrowing(t, s, azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}, 1000)
	ctx := t.Context()
	if _, err := c.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(2000), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateItem(ctx, azcosmos.NewPartitionKeyString("a"), []byte(`{"id":"x","pk":"a"}`), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(3000), nil); statusOf(err) != 423 {
		t.Errorf("raising once more while the offer is pending: %v, want 423", err)
	}
	offer, err := c.ReadThroughput(ctx, nil)
	if err != nil || !offer.IsReplacePending || c.partitions(t) != 1 {
		t.Errorf("while the split is held: pending %v, %d partitions, %v", offer.IsReplacePending, c.partitions(t), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = start(t, Config{Data: data, Throughput: ThroughputOptions{PartitionMax: 1000}})
	c.server = s
	waitFor(t, "the second partition", func() bool { return c.partitions(t) == 2 })
}

func statusOf(err error) int {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		return 0
	}
	return answer.StatusCode
}

// TestOneKeyIsNotDivided fills a partition with one key beyond the storage limit.
// No split would help, so the partition stays as it is, and a split is retried
// only occasionally.
func TestOneKeyIsNotDivided(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Partitions: PartitionOptions{PhysicalMax: 64 << 10}})
	c := newGrowing(t, s, azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}, 400)
	text := strings.Repeat("x", 1000)
	for i := range 192 { // three times the limit
		body := fmt.Sprintf(`{"id":"%d","pk":"a","text":%q}`, i, text)
		if _, err := c.CreateItem(t.Context(), azcosmos.NewPartitionKeyString("a"), []byte(body), nil); err != nil {
			t.Fatal(err)
		}
	}
	failures := func() int {
		_, after, _ := strings.Cut(scrape(t, s), "\ndecan_partition_split_failures_total ")
		n, err := strconv.Atoi(after[:strings.IndexByte(after, '\n')])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	waitFor(t, "the first attempt", func() bool { return failures() > 0 })
	if n := failures(); n > 40 { // sixteen attempts per multiple of the limit
		t.Errorf("%d attempts to divide a key", n)
	}
	if n := c.partitions(t); n != 1 {
		t.Errorf("%d partitions", n)
	}
	// Another key makes a cut possible.
	for i := range 32 {
		key := fmt.Sprint("b", i)
		body := fmt.Sprintf(`{"id":"b","pk":%q,"text":%q}`, key, text)
		if _, err := c.CreateItem(t.Context(), azcosmos.NewPartitionKeyString(key), []byte(body), nil); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "a split", func() bool { return c.partitions(t) > 1 })
}

func (g growing) admin(t *testing.T, method, path, body string) (code int, answer string) {
	t.Helper()
	return callAdmin(t, g.server, method, path, body)
}

// callAdmin sends a request to the admin port of a server.
func callAdmin(t *testing.T, s *Server, method, path, body string) (code int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.AdminEndpoint()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-decan-key", s.Key())
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// layout is the answer to a merge in the form of the management API.
type layout struct {
	Partitions []struct {
		ID      string  `json:"id"`
		Storage float64 `json:"storageInKB"`
	} `json:"physicalPartitionStorageInfoCollection"`
}

func (g growing) merge(t *testing.T, body string) (left layout) {
	t.Helper()
	code, answer := g.admin(t, http.MethodPost, "sqlDatabases/d/containers/c/partitionMerge", body)
	if code != http.StatusOK {
		t.Fatalf("merge: %d %s", code, answer)
	}
	if err := json.Unmarshal([]byte(answer), &left); err != nil {
		t.Fatal(err)
	}
	return left
}

// follow reads the change feed of the container from a position to its end, counts the
// documents, and returns the new position. Unlike the Go SDK it names no partition: the
// SDK reads only by the id of a partition, which gives no position in a merged one.
func (g growing) follow(t *testing.T, from string, seen map[string]int) string {
	t.Helper()
	for {
		page := call(t, g.server, http.MethodGet, "dbs/d/colls/c/docs", "", "A-IM", "Incremental feed", "If-None-Match", from, "x-ms-max-item-count", "20")
		from = page.Header.Get("Etag")
		if page.Status == http.StatusNotModified {
			return from
		}
		var content struct{ Documents []struct{ ID string } }
		if err := json.Unmarshal(page.Body, &content); err != nil || page.Status != http.StatusOK {
			t.Fatalf("change feed: %d %s", page.Status, page.Body)
		}
		for _, document := range content.Documents {
			seen[document.ID]++
		}
	}
}

// TestS111MergeAfterLoad loads few keys into many partitions, scales down and
// merges (S110, S111, S112): fewer partitions remain, none of them empty, no
// document is lost, and a query and a change feed that began before continue.
func TestS111MergeAfterLoad(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Throughput: ThroughputOptions{PartitionMax: 1000}, Protocol: ProtocolOptions{CrossPartition: "full"}})
	c := newGrowing(t, s, azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}, 8000)
	ctx := t.Context()
	waitFor(t, "eight partitions", func() bool { return c.partitions(t) == 8 })
	const keys, each = 5, 30
	want := map[string]int{}
	for i := range keys * each {
		key, id := fmt.Sprint(i%keys), fmt.Sprint(i)
		if _, err := c.CreateItem(ctx, azcosmos.NewPartitionKeyString(key), []byte(`{"id":"`+id+`","pk":"`+key+`"}`), nil); err != nil {
			t.Fatal(err)
		}
		want[id] = 1
	}
	feed := map[string]int{}
	position := c.follow(t, "", feed)
	if len(feed) != len(want) {
		t.Fatalf("%d changes", len(feed))
	}
	seen := map[string]int{}
	pager := c.NewQueryItemsPager("SELECT VALUE c.id FROM c", azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{PageSizeHint: 11})
	take := func() {
		t.Helper()
		page, err := pager.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			seen[strings.Trim(string(item), `"`)]++
		}
	}
	take()
	take()

	if lowered, err := c.ReplaceThroughput(ctx, azcosmos.NewManualThroughputProperties(3000), nil); err != nil || lowered.IsReplacePending {
		t.Fatalf("scaling down: pending %v, %v", lowered.IsReplacePending, err)
	}
	foreseen := c.merge(t, `{"isDryRun":true}`)
	if n := c.partitions(t); n != 8 {
		t.Errorf("%d partitions after a dry run", n)
	}
	left := c.merge(t, `{}`)
	if len(left.Partitions) != 3 || c.partitions(t) != 3 || !slices.Equal(left.Partitions, foreseen.Partitions) {
		t.Errorf("the merge left %v, the dry run predicted %v, want 3", left, foreseen)
	}
	for _, p := range left.Partitions {
		if p.Storage <= 0 {
			t.Errorf("partition %s is empty", p.ID)
		}
	}
	for pager.More() {
		take()
	}
	for id := range want {
		if seen[id] != 1 {
			t.Errorf("the query returned %s %d times", id, seen[id])
		}
	}
	clear(feed)
	for _, id := range []string{"0", "7", "23"} {
		n, _ := strconv.Atoi(id)
		key := fmt.Sprint(n % keys)
		if _, err := c.UpsertItem(ctx, azcosmos.NewPartitionKeyString(key), []byte(`{"id":"`+id+`","pk":"`+key+`","n":2}`), nil); err != nil {
			t.Fatal(err)
		}
	}
	if c.follow(t, position, feed); len(feed) != 3 || feed["0"] != 1 || feed["7"] != 1 || feed["23"] != 1 {
		t.Errorf("changes since the merge: %v", feed)
	}
	if again := c.merge(t, ``); len(again.Partitions) != 3 {
		t.Errorf("merged again: %v", again)
	}
}

// TestMergeOnCommand merges two neighbours through the admin port. A client that
// knows an earlier list of ranges receives the new one with all its ancestors,
// and the merged partitions answer 410/1002; an invalid merge is refused and
// changes nothing.
func TestMergeOnCommand(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	c := newGrowing(t, s, azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}, 400)
	merge := func(query string) (int, string) {
		t.Helper()
		return c.admin(t, http.MethodPost, "partitions/merge?database=d&container=c&"+query, "")
	}
	for _, id := range []string{"0", "2"} {
		if code, body := c.admin(t, http.MethodPost, "partitions/split?database=d&container=c&partition="+id, ""); code != http.StatusOK {
			t.Fatalf("split: %d %s", code, body)
		}
	}
	before := call(t, s, http.MethodGet, "dbs/d/colls/c/pkranges", "", "A-IM", "Incremental Feed").Header.Get("Etag")
	for query, code := range map[string]int{
		"partition=0&with=1": http.StatusNotFound, // it was split
		"partition=1&with=4": http.StatusBadRequest,
		"partition=1&with=1": http.StatusBadRequest,
		"partition=1":        http.StatusBadRequest,
		"partition=1&with=x": http.StatusBadRequest,
	} {
		if got, body := merge(query); got != code || !strings.Contains(body, `"message"`) {
			t.Errorf("merge %s: %d %s, want %d", query, got, body, code)
		}
	}
	if same := call(t, s, http.MethodGet, "dbs/d/colls/c/pkranges", "", "A-IM", "Incremental Feed", "If-None-Match", before); same.Status != http.StatusNotModified {
		t.Errorf("refused merges have changed the list: %d %s", same.Status, same.Body)
	}
	if code, body := merge("partition=3&with=1"); code != http.StatusOK || !strings.Contains(body, `"parents":["1","3"],"child":"5"`) {
		t.Fatalf("merge: %d %s", code, body)
	}
	after := call(t, s, http.MethodGet, "dbs/d/colls/c/pkranges", "", "A-IM", "Incremental Feed", "If-None-Match", before)
	var list struct {
		PartitionKeyRanges []struct {
			ID      string   `json:"id"`
			Parents []string `json:"parents"`
		}
	}
	if err := json.Unmarshal(after.Body, &list); err != nil {
		t.Fatal(err)
	}
	if got := list.PartitionKeyRanges; len(got) != 1 || got[0].ID != "5" || !slices.Equal(got[0].Parents, []string{"0", "1", "2", "3"}) {
		t.Errorf("new in the list: %+v", got)
	}
	for _, id := range []string{"1", "3"} {
		gone := call(t, s, http.MethodGet, "dbs/d/colls/c/docs", "", "x-ms-documentdb-partitionkeyrangeid", id)
		if gone.Status != http.StatusGone || gone.Header.Get("x-ms-substatus") != "1002" {
			t.Errorf("partition %s: %d/%s, want 410/1002", id, gone.Status, gone.Header.Get("x-ms-substatus"))
		}
	}
}

// TestIdlePartitionLetsGo writes more to a partition than an idle one should keep
// in memory. Once idle it is flushed and closed, and the next request opens it.
func TestIdlePartitionLetsGo(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Storage: StorageOptions{IdleFlush: 10 * time.Millisecond}})
	newGrowing(t, s, azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2}, 400)
	// Each needs a write buffer of 2 MB, however soon after another it arrives.
	const documents = 4
	for i := range documents {
		body := fmt.Sprintf(`{"id":"%d","pk":"a","text":%q}`, i, strings.Repeat("x", 1_500_000))
		if r := call(t, s, http.MethodPost, "dbs/d/colls/c/docs", body); r.Status != http.StatusCreated {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	// A reopened partition does not count earlier writes; on a slow machine it may be
	// closed between two of them.
	waitFor(t, "the partition to be closed", func() bool {
		stats, err := s.engine.PartitionStats(t.Context(), auth.Owner(), engine.Link{Database: "d", Container: "c"})
		if err != nil || len(stats) != 1 {
			t.Fatalf("%d partitions, %v", len(stats), err)
		}
		return stats[0].Writes < documents
	})
	for i := range documents {
		r := call(t, s, http.MethodGet, fmt.Sprintf("dbs/d/colls/c/docs/%d", i), "", "x-ms-documentdb-partitionkey", `["a"]`)
		if r.Status != http.StatusOK {
			t.Errorf("document %d: %d %s", i, r.Status, r.Body)
		}
	}
}
