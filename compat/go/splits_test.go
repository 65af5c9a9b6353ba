package compat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestSplits splits physical partitions repeatedly while the Go SDK writes,
// reads, queries and follows the change feed (S5, S8, S12, S37): no call fails,
// and nothing is lost or returned twice.
func TestSplits(t *testing.T) {
	if os.Getenv("DECAN_SPLITS") == "" {
		t.Skip("needs a server whose partitions split after 256 KB: run compat/run.sh")
	}
	overBoth(t, func(t *testing.T, endpoint string) {
		client := connect(t, endpoint, wellKnownKey, &visits{ids: map[string]bool{}})
		s := &splitting{
			admin: os.Getenv("DECAN_ADMIN"), database: newDatabase(t, client),
			merging: merging(t, endpoint),
		}
		t.Run("one tenant grows", s.grows)
		t.Run("cuts whose hexadecimal form ends in zeros", s.zeros)
	})
}

const (
	splitWriters = 6
	splitEach    = 200
	splitTotal   = splitWriters * splitEach
	pagesMax     = 20 * splitTotal // only a reader that never ends needs more
)

// splitting is a server whose partitions split.
type splitting struct {
	admin    string
	database *azcosmos.DatabaseClient
	merging  *azcosmos.Client // makes the server merge the results of partitions
}

// full makes the server merge ordered rows, which a gateway does not do.
type full struct{}

func (full) Do(request *policy.Request) (*http.Response, error) {
	request.Raw().Header.Set("x-decan-cross-partition", "full")
	return request.Next()
}

func merging(t *testing.T, endpoint string) *azcosmos.Client {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(wellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	options := clientOptions(t, &visits{ids: map[string]bool{}})
	options.PerRetryPolicies = append(options.PerRetryPolicies, full{})
	client, err := azcosmos.NewClientWithKey(endpoint, credential, options)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (s *splitting) merged(t *testing.T, name string) *azcosmos.ContainerClient {
	t.Helper()
	container, err := s.merging.NewContainer(s.database.ID(), name)
	if err != nil {
		t.Fatal(err)
	}
	return container
}

// splitItem is an item of these tests.
type splitItem struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	User   string `json:"user"`
	N      int    `json:"n"`
	Text   string `json:"text,omitempty"`
}

func (i splitItem) key() azcosmos.PartitionKey {
	return azcosmos.NewPartitionKeyString(i.Tenant).AppendString(i.User)
}

func (i splitItem) create(ctx context.Context, container *azcosmos.ContainerClient) error {
	body, err := json.Marshal(i)
	if err != nil {
		return err
	}
	_, err = container.CreateItem(ctx, i.key(), body, nil)
	return err
}

var everywhere = azcosmos.NewPartitionKey()

// numbers returns the numbers of the items of a query and fails if one is
// returned twice.
func numbers(ctx context.Context, container *azcosmos.ContainerClient, query string, key azcosmos.PartitionKey, size int32) ([]int, error) {
	var found []int
	pager := container.NewQueryItemsPager(query, key, &azcosmos.QueryOptions{PageSizeHint: size})
	for pages := 0; pager.More(); pages++ {
		if pages == pagesMax {
			return nil, fmt.Errorf("%s has no end", query)
		}
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		for _, row := range page.Items {
			var item splitItem
			if err := json.Unmarshal(row, &item); err != nil {
				return nil, err
			}
			found = append(found, item.N)
		}
	}
	return found, distinct(found, query)
}

func distinct(found []int, what string) error {
	if set := slices.Compact(slices.Sorted(slices.Values(found))); len(set) != len(found) {
		return fmt.Errorf("%s: %d items come twice", what, len(found)-len(set))
	}
	return nil
}

// follower reads the change feed of a container.
type follower struct {
	container *azcosmos.ContainerClient
	options   azcosmos.ChangeFeedOptions
	seen      []int
}

func newFollower(container *azcosmos.ContainerClient) *follower {
	whole := azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}
	return &follower{container: container, options: azcosmos.ChangeFeedOptions{FeedRange: &whole, MaxItemCount: 50}}
}

// page reads one page and reports whether it was after the end.
func (f *follower) page(ctx context.Context) (ended bool, err error) {
	page, err := f.container.ReadChangeFeed(ctx, &f.options)
	if err != nil {
		return false, fmt.Errorf("the feed: %w", err)
	}
	for _, body := range page.Items {
		var item splitItem
		if err := json.Unmarshal(body, &item); err != nil {
			return false, err
		}
		f.seen = append(f.seen, item.N)
	}
	f.options.Continuation = &page.ContinuationToken
	return page.RawResponse.StatusCode == http.StatusNotModified, nil
}

// on reads to the end for now.
func (f *follower) on(ctx context.Context) error {
	for range pagesMax {
		if ended, err := f.page(ctx); ended || err != nil {
			return err
		}
	}
	return errors.New("the feed has no end")
}

// growing is the work that runs while a tenant grows.
type growing struct {
	ctx       context.Context
	container *azcosmos.ContainerClient
	done      atomic.Bool // or something has failed
	failed    sync.Once
	err       error
	work      sync.WaitGroup

	mu      sync.Mutex
	written []splitItem // acknowledged writes, in order
	rounds  []*atomic.Int64
}

func (g *growing) start(act func() error) {
	g.work.Go(func() {
		if err := act(); err != nil {
			g.failed.Do(func() { g.err = err })
			g.done.Store(true)
		}
	})
}

// forever repeats a reader's round until the test is done.
func (g *growing) forever(round func() error) {
	rounds := new(atomic.Int64)
	g.rounds = append(g.rounds, rounds)
	g.start(func() error {
		for !g.done.Load() {
			if err := round(); err != nil {
				return err
			}
			rounds.Add(1)
			time.Sleep(250 * time.Millisecond) // leaves processor time to the writers
		}
		return nil
	})
}

// once waits until each reader has completed one more round.
func (g *growing) once() {
	for _, rounds := range g.rounds {
		for before := rounds.Load(); !g.done.Load() && rounds.Load() < before+2; {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func (g *growing) write(from, to int) error {
	for n := from; n < to && !g.done.Load(); n++ {
		item := splitItem{ID: fmt.Sprint("item ", n), Tenant: "acme", User: fmt.Sprint("user ", n%100), N: n, Text: strings.Repeat("x", 1000)}
		if err := item.create(g.ctx, g.container); err != nil {
			return fmt.Errorf("create: %w", err)
		}
		g.mu.Lock()
		g.written = append(g.written, item)
		g.mu.Unlock()
	}
	return nil
}

func (g *growing) known() []splitItem {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.written)
}

// complete checks that a query returns all items that existed before it began.
func (g *growing) complete(container *azcosmos.ContainerClient, query string, key azcosmos.PartitionKey, size int32) ([]int, error) {
	known := g.known()
	found, err := numbers(g.ctx, container, query, key, size)
	if err != nil {
		return nil, err
	}
	set := map[int]bool{}
	for _, n := range found {
		set[n] = true
	}
	for _, item := range known {
		if !set[item.N] {
			return nil, fmt.Errorf("%s: %s is missing", query, item.ID)
		}
	}
	return found, nil
}

// look reads one item, and several together.
func (g *growing) look() error {
	known := g.known()
	if len(known) == 0 {
		return nil
	}
	item := known[rand.IntN(len(known))]
	answer, err := g.container.ReadItem(g.ctx, item.key(), item.ID, nil)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	var read splitItem
	if err := json.Unmarshal(answer.Value, &read); err != nil || read.N != item.N {
		return fmt.Errorf("%s has %d, %w", item.ID, read.N, err)
	}
	var several []azcosmos.ItemIdentity
	for _, i := range known[max(0, len(known)-50):] {
		several = append(several, azcosmos.ItemIdentity{ID: i.ID, PartitionKey: i.key()})
	}
	many, err := g.container.ReadManyItems(g.ctx, several, nil)
	if err != nil || len(many.Items) != len(several) {
		return fmt.Errorf("%d of %d items read together, %w", len(many.Items), len(several), err)
	}
	return nil
}

func (s *splitting) grows(t *testing.T) {
	g := &growing{ctx: t.Context(), container: newContainer(t, s.database, "grows", 1, "/tenant", "/user")}
	merged, prefix := s.merged(t, "grows"), azcosmos.NewPartitionKeyString("acme")
	for _, query := range []struct {
		text string
		key  azcosmos.PartitionKey
		size int32
	}{
		{"SELECT c.n FROM c", everywhere, 7},
		{"SELECT c.n FROM c WHERE c.n >= 0", prefix, 7},
		{"SELECT c.n FROM c WHERE c.tenant = 'acme'", everywhere, 50},
	} {
		g.forever(func() error {
			_, err := g.complete(g.container, query.text, query.key, query.size)
			return err
		})
	}
	g.forever(func() error {
		found, err := g.complete(merged, "SELECT c.n FROM c ORDER BY c.n", everywhere, 50)
		if err == nil && !slices.IsSorted(found) {
			err = errors.New("rows are out of order")
		}
		return err
	})
	g.forever(g.look)
	feed := newFollower(g.container)
	g.forever(func() error { return feed.on(g.ctx) })

	var writers sync.WaitGroup
	for w := range splitWriters {
		writers.Add(1)
		g.start(func() error {
			defer writers.Done()
			return g.write(w*splitEach, (w+1)*splitEach)
		})
	}
	g.start(func() error {
		defer g.done.Store(true)
		writers.Wait()
		for !g.done.Load() {
			parts, err := s.partitions(g.ctx, "grows")
			if err != nil || len(parts) >= 6 {
				g.once()
				return err
			}
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	})
	g.work.Wait()
	if g.err != nil {
		t.Fatal(g.err)
	}

	if err := feed.on(g.ctx); err != nil {
		t.Fatal(err)
	}
	whole := newFollower(g.container)
	if err := whole.on(g.ctx); err != nil {
		t.Fatal(err)
	}
	for what, seen := range map[string][]int{"the feed while partitions split": feed.seen, "the feed from the beginning": whole.seen} {
		if err := distinct(seen, what); err != nil || len(seen) != splitTotal {
			t.Errorf("%s: %d items, %v", what, len(seen), err)
		}
	}
}

func (s *splitting) zeros(t *testing.T) {
	ctx := t.Context()
	container := newContainer(t, s.database, "zeros", 1, "/tenant", "/user")
	var want []int
	for n := range 60 {
		item := splitItem{ID: fmt.Sprint("item ", n), Tenant: fmt.Sprint("tenant ", n%4), User: fmt.Sprint("user ", n), N: n}
		if err := item.create(ctx, container); err != nil {
			t.Fatal(err)
		}
		want = append(want, n)
	}
	merged := s.merged(t, "zeros")
	check := func(at string) {
		t.Helper()
		equal := func(container *azcosmos.ContainerClient, query string, key azcosmos.PartitionKey, want []int) {
			t.Helper()
			found, err := numbers(ctx, container, query, key, 7)
			if !strings.Contains(query, "ORDER") {
				slices.Sort(found)
			}
			if err != nil || !slices.Equal(found, want) {
				t.Fatalf("after the cut at %s: %s: %v, %v", at, query, found, err)
			}
		}
		equal(container, "SELECT c.n FROM c", everywhere, want)
		equal(merged, "SELECT c.n FROM c ORDER BY c.n", everywhere, want)
		for tenant := range 4 {
			mine := slices.DeleteFunc(slices.Clone(want), func(n int) bool { return n%4 != tenant })
			equal(container, "SELECT c.n FROM c", azcosmos.NewPartitionKeyString(fmt.Sprint("tenant ", tenant)), mine)
			equal(container, fmt.Sprintf("SELECT c.n FROM c WHERE c.tenant = 'tenant %d'", tenant), everywhere, mine)
		}
		fresh := newFollower(container)
		if err := fresh.on(ctx); err != nil || len(fresh.seen) != len(want) || distinct(fresh.seen, "") != nil {
			t.Fatalf("after the cut at %s: a feed of %v, %v", at, fresh.seen, err)
		}
	}
	check("none")
	before := newFollower(container)
	before.options.MaxItemCount = 7
	if _, err := before.page(ctx); err != nil || len(before.seen) == 0 {
		t.Fatalf("%v, %v", before.seen, err)
	}
	for _, at := range []string{"20", "1000", "30000000", "2800" + strings.Repeat("00", 14), "0800" + strings.Repeat("00", 30)} {
		s.split(t, "zeros", at)
		check(at)
	}
	if parts, err := s.partitions(ctx, "zeros"); err != nil || len(parts) != 6 {
		t.Errorf("%v, %v, want 6 partitions", parts, err)
	}
	if err := before.on(ctx); err != nil || len(before.seen) != len(want) || distinct(before.seen, "") != nil {
		t.Errorf("a feed that began before: %v, %v", before.seen, err)
	}
}

// ask sends a request to the admin port.
func (s *splitting) ask(ctx context.Context, method, path, container, more string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s%s?database=%s&container=%s%s", s.admin, path, s.database.ID(), container, more), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("x-decan-key", wellKnownKey)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, body)
	}
	return body, err
}

// part is a physical partition; its first hashed key is Min.
type part struct {
	ID  string `json:"id"`
	Min string `json:"min"`
}

// partitions returns the partitions of a container in the order of their ranges.
func (s *splitting) partitions(ctx context.Context, container string) ([]part, error) {
	body, err := s.ask(ctx, http.MethodGet, "partitions", container, "")
	if err != nil {
		return nil, err
	}
	var list struct {
		Partitions []part `json:"partitions"`
	}
	return list.Partitions, json.Unmarshal(body, &list)
}

// split splits the partition that contains a hashed key, at that key.
func (s *splitting) split(t *testing.T, container, at string) {
	t.Helper()
	parts, err := s.partitions(t.Context(), container)
	if err != nil {
		t.Fatal(err)
	}
	holder := ""
	for _, p := range parts {
		if p.Min < at {
			holder = p.ID
		}
	}
	if _, err := s.ask(t.Context(), http.MethodPost, "partitions/split", container, "&partition="+holder+"&at="+at); err != nil {
		t.Fatal(err)
	}
}
