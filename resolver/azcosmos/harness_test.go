package azcosmos_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// connect returns an SDK client of a server with the given policies.
func connect(t testing.TB, server *decantest.Server, policies ...policy.Policy) *sdk.Client {
	t.Helper()
	credential, err := sdk.NewKeyCredential(server.Key())
	if err != nil {
		t.Fatal(err)
	}
	client, err := sdk.NewClientWithKey(server.Endpoint(), credential, &sdk.ClientOptions{ClientOptions: azcore.ClientOptions{PerCallPolicies: policies}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// counter counts requests.
type counter struct{ requests atomic.Int64 }

func (c *counter) Do(request *policy.Request) (*http.Response, error) {
	c.requests.Add(1)
	return request.Next()
}

// targetsOn creates containers c0, c1, ... partitioned by path in the database
// db.
func targetsOn(t testing.TB, server *decantest.Server, count int, path string, partitions int) []resolver.Target {
	t.Helper()
	var list []resolver.Target
	for i := range count {
		name := fmt.Sprint("c", i)
		server.Container("db", fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":[%q],"kind":"Hash","version":2}}`, name, path), partitions)
		list = append(list, resolver.Target{Name: name, Database: "db", Container: name})
	}
	return list
}

func names(targets []resolver.Target) []string {
	var list []string
	for _, t := range targets {
		list = append(list, t.Name)
	}
	return list
}

// ringState is a state with one ring over all targets.
func ringState(path string, targets []resolver.Target) resolver.State {
	return resolver.State{
		Key:     resolver.KeySpec{Paths: []string{path}},
		Targets: targets,
		Current: resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindRing, Targets: names(targets)}},
	}
}

// movingState is a state with a move of everything from the first target to the
// second, in the given phase.
func movingState(targets []resolver.Target, phase resolver.Phase) resolver.State {
	state := ringState("/userId", targets[:1])
	state.Targets = targets
	state.Move = &resolver.Move{ID: "m", Phase: phase, Next: toOther}
	return state
}

// static returns a client of a state that never changes.
func static(t testing.TB, state resolver.State, accounts map[string]*sdk.Client) *azcosmos.Client {
	t.Helper()
	routing, err := resolver.Open(state, resolver.Registry{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.New(azcosmos.Config{Accounts: accounts, View: resolver.Static(routing)})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// all runs a query over everything and returns its rows as text.
func all(t testing.TB, client *azcosmos.Client, query string, options *azcosmos.QueryOptions) []string {
	t.Helper()
	items, charge, err := client.Query(query, resolver.All[resolver.Key](), options).Items(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if charge <= 0 {
		t.Errorf("%s: a charge of %v", query, charge)
	}
	rows := []string{}
	for _, item := range items {
		rows = append(rows, string(item))
	}
	return rows
}

// users creates n users and returns their documents.
func users(t testing.TB, client *azcosmos.Client, n int) []string {
	t.Helper()
	var documents []string
	for i := range n {
		document := fmt.Sprintf(`{"id":"u%d","userId":"J%d","n":%d,"city":"c%d","tags":["x","x","t%d"]}`, i, i, i, i%7, i)
		if i%10 == 3 {
			document = fmt.Sprintf(`{"id":"u%d","userId":"J%d","city":"c%d","tags":["x"]}`, i, i, i%7)
		}
		if _, err := client.Create(t.Context(), []byte(document), nil); err != nil {
			t.Fatal(err)
		}
		documents = append(documents, document)
	}
	return documents
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// text is a string in a state.
func text(s string) resolver.Value {
	var v resolver.Value
	quoted, _ := json.Marshal(s)
	if err := v.UnmarshalJSON(quoted); err != nil {
		panic(err)
	}
	return v
}
