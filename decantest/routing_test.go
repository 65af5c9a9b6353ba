package decantest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/partitionkey"
)

// visitLog collects the x-decan-partitions header of every response.
type visitLog struct {
	mu  sync.Mutex
	ids []string
}

// Do sends the request and reads the header of the response.
func (l *visitLog) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		for id := range strings.SplitSeq(resp.Header.Get("x-decan-partitions"), ",") {
			if id != "" && !slices.Contains(l.ids, id) {
				l.ids = append(l.ids, id)
			}
		}
	}
	return resp, err
}

// take returns the collected values, sorted, and clears them.
func (l *visitLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := l.ids
	l.ids = nil
	slices.Sort(ids)
	return ids
}

// TestRouting checks the routing of hierarchical keys as a client sees it (S6,
// S23, S39, S47 to S54, S56 to S58): the header names exactly the partitions
// whose ranges overlap the prefix that the filter determines, with 1, 8 and 64
// partitions.
func TestRouting(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	definition := partitionkey.Definition{Paths: []string{"/TenantId", "/UserId", "/SessionId"}, Kind: partitionkey.KindMultiHash, Version: 2}
	for _, partitions := range []int{1, 8, 64} {
		database := fmt.Sprint("db", partitions)
		server.Container(database, `{"id":"c","partitionKey":{"paths":["/TenantId","/UserId","/SessionId"],"kind":"MultiHash","version":2}}`, partitions)
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			routing(t, server, database, definition, partitions)
		})
	}
}

func routing(t *testing.T, server *decantest.Server, database string, definition partitionkey.Definition, partitions int) {
	credential, err := azcosmos.NewKeyCredential(server.Key())
	if err != nil {
		t.Fatal(err)
	}
	visited := &visitLog{}
	client, err := azcosmos.NewClientWithKey(server.Endpoint(), credential, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{PerRetryPolicies: []policy.Policy{visited}},
	})
	if err != nil {
		t.Fatal(err)
	}
	container, err := client.NewContainer(database, "c")
	if err != nil {
		t.Fatal(err)
	}
	for tenant := range 4 {
		for user := range 3 {
			for session := range 2 {
				key := azcosmos.NewPartitionKeyString(fmt.Sprint("t", tenant)).AppendString(fmt.Sprint("u", user)).AppendString(fmt.Sprint("s", session))
				item := fmt.Appendf(nil, `{"id":"1","TenantId":"t%d","UserId":"u%d","SessionId":"s%d"}`, tenant, user, session)
				if _, err := container.CreateItem(t.Context(), key, item, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	key := func(texts ...string) partitionkey.Key {
		b := partitionkey.NewBuilder()
		for _, text := range texts {
			b.AddString(text)
		}
		return b.Build()
	}
	everywhere := []partitionkey.Key{key()}
	for _, c := range []struct {
		statement, filter string
		keys              []partitionkey.Key // the prefixes that the filter determines
		rows              int
	}{
		{"S47", "c.TenantId = 't1' AND c.UserId = 'u2' AND c.SessionId = 's0'", []partitionkey.Key{key("t1", "u2", "s0")}, 1},
		{"S48", "c.TenantId = 't1' AND c.UserId = 'u2'", []partitionkey.Key{key("t1", "u2")}, 2},
		{"S49", "c.TenantId = 't1'", []partitionkey.Key{key("t1")}, 6},
		{"S50", "c.UserId = 'u2'", everywhere, 8},
		{"S51", "c.SessionId = 's0'", everywhere, 12},
		{"S52 middle and last", "c.UserId = 'u2' AND c.SessionId = 's0'", everywhere, 4},
		{"S52 gap", "c.TenantId = 't1' AND c.SessionId = 's0'", []partitionkey.Key{key("t1")}, 3},
		{"S56 reversed", "'t1' = c.TenantId", []partitionkey.Key{key("t1")}, 6},
		{"S56 IN", "c.TenantId IN ('t0', 't3')", []partitionkey.Key{key("t0"), key("t3")}, 12},
		{"S56 OR", "c.TenantId = 't0' OR (c.TenantId = 't2' AND c.UserId = 'u1')", []partitionkey.Key{key("t0"), key("t2", "u1")}, 8},
		{"S56 OR of levels", "c.TenantId = 't0' OR c.UserId = 'u1'", everywhere, 12},
		{"S56 extra predicate", "c.TenantId = 't1' AND c.id = '1' AND NOT (c.UserId = 'u9')", []partitionkey.Key{key("t1")}, 6},
		{"S56 range", "c.TenantId >= 't1'", everywhere, 18},
		{"S57 S58 parameters", "c.TenantId = @tenant-id", []partitionkey.Key{key("t1")}, 6},
	} {
		visited.take()
		rows := 0
		pager := container.NewQueryItemsPager("SELECT * FROM c WHERE "+c.filter, azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{
			QueryParameters: []azcosmos.QueryParameter{{Name: "@tenant-id", Value: "t1"}},
			PageSizeHint:    5,
		})
		for pager.More() {
			page, err := pager.NextPage(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", c.statement, err)
			}
			rows += len(page.Items)
		}
		var want []string
		for id, r := range definition.Divide(partitions) {
			if slices.ContainsFunc(c.keys, func(k partitionkey.Key) bool {
				extent, err := definition.Prefix(k)
				return err == nil && r.Overlaps(extent)
			}) {
				want = append(want, fmt.Sprint(id))
			}
		}
		slices.Sort(want)
		if got := visited.take(); rows != c.rows || !slices.Equal(got, want) {
			t.Errorf("%s: %s: %d rows from partitions %v, want %d from %v", c.statement, c.filter, rows, got, c.rows, want)
		}
	}
}
