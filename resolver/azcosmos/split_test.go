package azcosmos_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan"
	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// splitter splits physical partitions of a server through its admin port, as an
// operator does.
type splitter struct {
	t      *testing.T
	server *decantest.Server
}

func newSplitter(t *testing.T) splitter {
	t.Helper()
	return splitter{t, decantest.Start(t, decan.Config{AdminListen: "127.0.0.1:0"})}
}

// split replaces a partition of a container by two.
func (s splitter) split(container string, partition int) {
	s.t.Helper()
	if err := s.try(container, partition); err != nil {
		s.t.Fatal(err)
	}
}

// try is split for goroutines that must not end the test.
func (s splitter) try(container string, partition int) error {
	where := url.Values{"database": {"db"}, "container": {container}, "partition": {fmt.Sprint(partition)}}
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.server.AdminEndpoint()+"partitions/split?"+where.Encode(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("x-decan-key", s.server.Key())
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("split partition %d of %s: %s %s, %w", partition, container, answer.Status, body, err)
	}
	return nil
}

// splitQueries are queries without an order, and queries whose rows come in the
// same order however equal rows are arranged. Some of them have many equal rows.
var splitQueries = []struct {
	text  string
	order bool
}{
	{"SELECT VALUE c.id FROM c", false},
	{"select value c.id from c order by c.id", true},
	{"SELECT VALUE c.id FROM c ORDER BY c.city DESC", false},
	{"SELECT c.city FROM c ORDER BY c.city", true},
	{"SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.city", false},
	{"SELECT DISTINCT VALUE c.city FROM c", false},
	{"SELECT DISTINCT VALUE c.city FROM c ORDER BY c.city DESC", true},
	{"SELECT TOP 41 VALUE c.n FROM c WHERE IS_DEFINED(c.n) ORDER BY c.n DESC", true},
	{"SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 5 LIMIT 40", true},
	{"SELECT VALUE COUNT(1) FROM c", true},
	{"SELECT VALUE SUM(c.n) FROM c", true},
}

// TestQueryAcrossSplits splits the partitions of all containers after some pages
// of each query, one of them twice. The pager that began continues, and so does
// another pager with the last continuation token, even in a process that never
// saw the old partitions. Some containers have one partition, for which their
// gateway at first answers the whole query.
func TestQueryAcrossSplits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ containers, partitions int }{{1, 1}, {1, 2}, {2, 1}} {
		t.Run(fmt.Sprintf("containers=%d/partitions=%d", c.containers, c.partitions), func(t *testing.T) {
			t.Parallel()
			acrossSplits(t, c.containers, c.partitions)
		})
	}
}

func acrossSplits(t *testing.T, containers, partitions int) {
	s := newSplitter(t)
	targets := targetsOn(t, s.server, containers, "/userId", partitions)
	state := ringState("/userId", targets)
	client := static(t, state, map[string]*sdk.Client{"": connect(t, s.server)})
	users(t, client, 60)
	type place struct {
		pager *azcosmos.Pager
		token string
		rows  []string
	}
	options := azcosmos.QueryOptions{PageSize: 4}
	var want [][]string
	var places []place
	for _, q := range splitQueries {
		want = append(want, all(t, client, q.text, nil))
		at := place{pager: client.Query(q.text, resolver.All[resolver.Key](), &options)}
		for range 2 {
			page, err := at.pager.NextPage(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", q.text, err)
			}
			at.token, at.rows = page.Continuation, appendRows(at.rows, page.Items)
		}
		places = append(places, at)
	}
	for _, target := range targets {
		s.split(target.Container, 0)
		s.split(target.Container, partitions) // the first half of partition 0
	}
	newcomer := static(t, state, map[string]*sdk.Client{"": connect(t, s.server)})
	for i, q := range splitQueries {
		at := places[i]
		rest, _, err := at.pager.Items(t.Context())
		if err != nil {
			t.Errorf("%s: the pager that began: %v", q.text, err)
		}
		answers := map[string][]string{
			"the pager that began": appendRows(slices.Clone(at.rows), rest),
			"a new pager":          all(t, client, q.text, &options),
		}
		if at.token != "" {
			options := azcosmos.QueryOptions{PageSize: 4, Continuation: at.token}
			answers["the token"] = append(slices.Clone(at.rows), byPages(t, client, q.text, options)...)
			answers["the token elsewhere"] = append(slices.Clone(at.rows), byPages(t, newcomer, q.text, options)...)
		} else if len(at.rows) < len(want[i]) {
			t.Errorf("%s: no token after %d of %d rows", q.text, len(at.rows), len(want[i]))
		}
		for who, got := range answers {
			want := want[i]
			if !q.order {
				got, want = sorted(got), sorted(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s gives %d rows %s\nwant %d %s", q.text, who, len(got), got, len(want), want)
			}
		}
	}
}

func appendRows(rows []string, items [][]byte) []string {
	for _, item := range items {
		rows = append(rows, string(item))
	}
	return rows
}

// TestPrefixOverPartitions queries a prefix of a hierarchical key, which some
// partitions cannot hold, before and after splits.
func TestPrefixOverPartitions(t *testing.T) {
	t.Parallel()
	s := newSplitter(t)
	var targets []resolver.Target
	for i := range 2 {
		name := fmt.Sprint("c", i)
		s.server.Container("db", fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/tenant","/user"],"kind":"MultiHash","version":2}}`, name), 6)
		targets = append(targets, resolver.Target{Name: name, Database: "db", Container: name})
	}
	state := ringState("/tenant", targets)
	state.Key.Paths = []string{"/tenant", "/user"}
	client := static(t, state, map[string]*sdk.Client{"": connect(t, s.server)})
	want := []string{}
	for i := range 90 {
		if _, err := client.Create(t.Context(), fmt.Appendf(nil, `{"id":"%02d","tenant":"t%d","user":"u%d"}`, i, i%3, i), nil); err != nil {
			t.Fatal(err)
		}
		if i%3 == 1 {
			want = append(want, fmt.Sprintf(`"%02d"`, i))
		}
	}
	prefix := resolver.TextKey("t1")
	options := azcosmos.QueryOptions{PageSize: 5, PartitionKey: &prefix}
	const query = "SELECT VALUE c.id FROM c ORDER BY c.id"
	check := func(when string) {
		t.Helper()
		if got := all(t, client, query, &options); !slices.Equal(got, want) {
			t.Errorf("%s: %s\nwant %s", when, got, want)
		}
	}
	check("before the splits")
	pager := client.Query(query, resolver.All[resolver.Key](), &options)
	page, err := pager.NextPage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		for partition := range 6 {
			s.split(target.Container, partition)
		}
	}
	check("after the splits")
	options.Continuation = page.Continuation
	if got := append(appendRows(nil, page.Items), byPages(t, client, query, options)...); !slices.Equal(got, want) {
		t.Errorf("with the earlier token: %s\nwant %s", got, want)
	}
}

// TestSplitWhileNaming splits a partition after the container's partitions were
// listed and before their ids were requested.
func TestSplitWhileNaming(t *testing.T) {
	t.Parallel()
	s := newSplitter(t)
	done := false
	between := policyFunc(func(request *policy.Request) (*http.Response, error) {
		response, err := request.Next()
		if !done && err == nil && strings.HasSuffix(request.Raw().URL.Path, "/pkranges") {
			done = true
			if err := s.try("c0", 0); err != nil {
				t.Error(err)
			}
		}
		return response, err
	})
	client := static(t, ringState("/userId", targetsOn(t, s.server, 1, "/userId", 2)), map[string]*sdk.Client{"": connect(t, s.server, between)})
	users(t, client, 40)
	if got := all(t, client, "SELECT VALUE c.id FROM c ORDER BY c.id", nil); len(got) != 40 || !done {
		t.Errorf("%d rows, want 40; split: %v", len(got), done)
	}
}

// policyFunc is a policy of one function.
type policyFunc func(request *policy.Request) (*http.Response, error)

func (f policyFunc) Do(request *policy.Request) (*http.Response, error) { return f(request) }
