package azcosmos_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/partitionkey"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// speaker sets a version of the REST API on every request.
type speaker struct {
	version  string
	requests atomic.Int64
}

func (s *speaker) Do(request *http.Request) (*http.Response, error) {
	s.requests.Add(1)
	request.Header.Set("x-ms-version", s.version)
	return http.DefaultClient.Do(request)
}

// TestServerSideVersion uses a container that the server partitions with the
// REST API version that introduced it, and one that was never partitioned
// (S151).
func TestServerSideVersion(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	server.Container("db", `{"id":"c0","partitionKey":{"paths":["/userId"],"kind":"Hash"}}`, 4)
	spoken := &speaker{version: "2015-12-16"}
	credential, err := sdk.NewKeyCredential(server.Key())
	if err != nil {
		t.Fatal(err)
	}
	client, err := sdk.NewClientWithKey(server.Endpoint(), credential, &sdk.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: spoken}})
	if err != nil {
		t.Fatal(err)
	}
	old, err := client.NewContainer("db", "c0")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		key := sdk.NewPartitionKeyString(fmt.Sprint("J", i))
		if _, err := old.CreateItem(t.Context(), key, fmt.Appendf(nil, `{"id":"u","userId":"J%d"}`, i), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := old.ReadItem(t.Context(), key, "u", nil); err != nil {
			t.Fatal(err)
		}
		page, err := old.NewQueryItemsPager("SELECT * FROM c", key, nil).NextPage(t.Context())
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("a query by key gives %d items, %v, want 1", len(page.Items), err)
		}
	}
	if n := spoken.requests.Load(); n < 60 {
		t.Errorf("%d requests were sent under the version, want one for each operation at least", n)
	}
}

// TestServerSideHash checks that every item is in the partition whose range
// contains the hash of its key, and that adjacent keys are often in different
// partitions: the server places by hash too, without a resolver (S165, S187).
func TestServerSideHash(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	const partitions = 8
	targets := targetsOn(t, server, 1, "/userId", partitions)
	client := static(t, ringState("/userId", targets), map[string]*sdk.Client{"": connect(t, server)})
	definition := partitionkey.Definition{Paths: []string{"/userId"}, Version: 2}
	ranges := definition.Divide(partitions)
	counts := make([]int, partitions)
	apart := 0
	last := ""
	const keys = 400
	for i := range keys {
		item, err := client.Create(t.Context(), fmt.Appendf(nil, `{"id":"u","userId":"J%04d"}`, i), nil)
		if err != nil {
			t.Fatal(err)
		}
		visited := item.Response.RawResponse.Header.Get("x-decan-partitions")
		hash := definition.Hash(resolver.TextKey(fmt.Sprintf("J%04d", i)))
		want := slices.IndexFunc(ranges, func(r partitionkey.Range) bool { return r.Contains(hash) })
		if visited != fmt.Sprint(want) {
			t.Fatalf("J%04d with the hash %s is in partition %s, want %d", i, hash, visited, want)
		}
		counts[want]++
		if visited != last {
			apart++
		}
		last = visited
	}
	for i, count := range counts {
		if count < keys/partitions/2 || count > keys/partitions*2 {
			t.Errorf("partition %d has %d of %d keys: %v", i, count, keys, counts)
		}
	}
	if apart < keys/2 {
		t.Errorf("%d of %d neighbours are in different partitions", apart, keys)
	}
}

// TestGroups creates and queries items in a group that is known by a name, as
// the legacy SDKs did in a database with a resolver. When a view is registered,
// clients use it from then on. A name without a view is an error (S150).
func TestGroups(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	account := map[string]*sdk.Client{"": connect(t, server)}
	targets := targetsOn(t, server, 4, "/userId", 1)
	var groups resolver.Groups
	client := func(name string) *azcosmos.Client {
		view, err := groups.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		client, err := azcosmos.New(azcosmos.Config{Accounts: account, View: view})
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	for i, half := range [][]resolver.Target{targets[:2], targets[2:]} {
		routing, err := resolver.Open(ringState("/userId", half), resolver.Registry{})
		if err != nil {
			t.Fatal(err)
		}
		groups.Register("dbs/users/", resolver.Static(routing))
		seen := map[string]bool{}
		for n := range 20 {
			item, err := client("dbs/users").Create(t.Context(), fmt.Appendf(nil, `{"id":"u","userId":"J%d"}`, n), nil)
			if err != nil {
				t.Fatal(err)
			}
			owner, err := routing.ForWrite(item.Ref.Key)
			if err != nil || item.Ref.Target != owner.Name {
				t.Errorf("J%d lies in %s, want %s, %v", n, item.Ref.Target, owner.Name, err)
			}
			seen[owner.Name] = true
		}
		if rows := all(t, client("/dbs/users"), "SELECT VALUE COUNT(1) FROM c", nil); !slices.Equal(rows, []string{"20"}) || !seen[half[0].Name] || !seen[half[1].Name] {
			t.Errorf("registration %d: %s items in %v, want 20 in %s", i, rows, seen, names(half))
		}
	}
	if _, err := groups.Get("dbs/others"); !errors.Is(err, resolver.ErrNotRegistered) {
		t.Errorf("another name: %v, want ErrNotRegistered", err)
	}
}

// TestServerOrClient keeps the same items in one container that the server
// partitions and in three that a resolver chooses from, and expects equal
// results (S186).
func TestServerOrClient(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	account := map[string]*sdk.Client{"": connect(t, server)}
	targets := targetsOn(t, server, 4, "/userId", 3)
	one := static(t, ringState("/userId", targets[:1]), account)
	three := static(t, ringState("/userId", targets[1:]), account)
	users(t, one, 60)
	users(t, three, 60)
	for _, query := range []string{
		"SELECT VALUE c.id FROM c ORDER BY c.id",
		"SELECT TOP 7 c.id, c.n FROM c WHERE c.city = 'c3' ORDER BY c.n DESC",
		"SELECT VALUE COUNT(1) FROM c WHERE c.n > 20",
		"SELECT VALUE AVG(c.n) FROM c",
	} {
		if a, b := all(t, one, query, nil), all(t, three, query, nil); !slices.Equal(a, b) || len(a) == 0 {
			t.Errorf("%s: one container gives %s, three give %s", query, a, b)
		}
	}
	for i := range 60 {
		ref := azcosmos.Ref{Key: resolver.TextKey(fmt.Sprint("J", i)), ID: fmt.Sprint("u", i)}
		a, errA := one.Read(t.Context(), ref, nil)
		b, errB := three.Read(t.Context(), ref, nil)
		if errA != nil || errB != nil || a.Ref.Target != "c0" || b.Ref.Target == "c0" {
			t.Errorf("J%d is read from %s and %s, %v, %v", i, a.Ref.Target, b.Ref.Target, errA, errB)
		}
	}
}

// TestClientSideRanges checks what client-side routing is for: a time interval
// is read only from the containers of its months, and a tenant with its own
// container can leave without affecting the others (S187).
func TestClientSideRanges(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	requests := &counter{}
	account := map[string]*sdk.Client{"": connect(t, server, requests)}
	targets := targetsOn(t, server, 4, "/at", 1)
	months := resolver.Scheme{Kind: resolver.KindRange, Type: resolver.TypeTime}
	bounds := []string{"2015-04-01", "2015-05-01", "2015-06-01", "2015-07-01", "2015-08-01"}
	for i, target := range targets {
		low, high := text(bounds[i]), text(bounds[i+1])
		months.Ranges = append(months.Ranges, resolver.RangeSpec{Low: &low, High: &high, Target: target.Name})
	}
	client := static(t, resolver.State{Key: resolver.KeySpec{Paths: []string{"/at"}}, Targets: targets, Current: resolver.Plan{Scheme: months}}, account)
	for i, bound := range bounds[:4] {
		for day := range 5 {
			document := fmt.Appendf(nil, `{"id":"e","at":"%s%02d","month":%d}`, strings.TrimSuffix(bound, "01"), day+1, i)
			if _, err := client.Create(t.Context(), document, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func(selection resolver.Selection[resolver.Key]) (items int, sent int64) {
		before := requests.requests.Load()
		rows, _, err := client.Query("SELECT * FROM c", selection, nil).Items(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(rows), requests.requests.Load() - before
	}
	april, sentApril := count(resolver.Between(resolver.HalfOpen(resolver.TextKey("2015-04-01"), resolver.TextKey("2015-04-15"))))
	everything, sentAll := count(resolver.All[resolver.Key]())
	if april != 5 || everything != 20 || sentAll < 4*sentApril {
		t.Errorf("April: %d items by %d requests; everything: %d by %d", april, sentApril, everything, sentAll)
	}
	container, err := account[""].NewContainer("db", targets[1].Container)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := container.Delete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if again, _ := count(resolver.Keys(resolver.TextKey("2015-04-03"), resolver.TextKey("2015-06-03"))); again != 10 {
		t.Errorf("without May, April and June give %d items", again)
	}
}
