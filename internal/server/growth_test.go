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

// partitions returns how many physical partitions there are. It does not ask the
// SDK, whose clients share what they remember of them.
func (g growing) partitions(t *testing.T) int {
	t.Helper()
	var list struct{ PartitionKeyRanges []json.RawMessage }
	answer := call(t, g.server, http.MethodGet, "dbs/d/colls/c/pkranges", "")
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		t.Fatal(err)
	}
	return len(list.PartitionKeyRanges)
}

// ids pages through a query for ids and returns how often each came.
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

// changes reads the change feed of the whole container from a position until
// nothing is left, and returns how often each document came, and the position.
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

// TestS8GrowsThroughSplits has one tenant write several times what a physical
// partition holds (S5, S8, S12, S37) while others page through a query and
// follow the change feed. No call of the SDK fails, and nothing is lost or
// comes twice.
func TestS8GrowsThroughSplits(t *testing.T) {
	t.Parallel()
	s := start(t, Config{PhysicalPartitionMax: 256 << 10, LogicalPartitionMax: 64 << 10, CrossPartition: "full"})
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
					return fmt.Errorf("query while partitions split: %s came %d times", id, n)
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
		t.Error("no query came to its end while partitions split")
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

// TestS105ThroughputSplits raises a throughput beyond what the partitions can
// carry: the offer is pending until they have split, and everything can be read
// meanwhile (S18, S105, S109).
func TestS105ThroughputSplits(t *testing.T) {
	t.Parallel()
	s := start(t, Config{PartitionThroughputMax: 1000, CrossPartition: "full"})
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
		t.Error("the offer is not pending while one partition has to become five")
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

// TestSplitOnCommand splits by the admin port. A client that knows an earlier
// list of ranges is told those that are new, for it adds them to its own; what
// cannot be split is refused and changes nothing.
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
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.AdminEndpoint()+"partitions/split?database=d&container=c&"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-decan-key", s.Key())
		resp, err := http.DefaultClient.Do(req)
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
		"partition=1&at=30":    http.StatusBadRequest, // outside of its range
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
// pending, everything goes on, and a restart does what was left to be done.
func TestS18DelayedSplit(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := start(t, Config{Data: data, PartitionThroughputMax: 1000, SplitDelay: time.Hour})
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

	s = start(t, Config{Data: data, PartitionThroughputMax: 1000})
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

// TestOneKeyIsNotDivided fills a partition with one key beyond the storage
// limit. No cut would help, so it is left alone, and tried again only now and
// then.
func TestOneKeyIsNotDivided(t *testing.T) {
	t.Parallel()
	s := start(t, Config{PhysicalPartitionMax: 64 << 10})
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
	if n := failures(); n > 40 { // sixteen attempts for each time the limit
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
