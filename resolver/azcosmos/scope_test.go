package azcosmos_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan"
	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// call executes a stored procedure, which the SDK cannot do, and returns the
// response.
func call(t *testing.T, server *decantest.Server, target resolver.Target, procedure, key, arguments string) (status int, body string) {
	t.Helper()
	link := "dbs/" + target.Database + "/colls/" + target.Container + "/sprocs/" + procedure
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimRight(server.Endpoint(), "/")+"/"+link, bytes.NewReader([]byte(arguments)))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := base64.StdEncoding.DecodeString(server.Key())
	if err != nil {
		t.Fatal(err)
	}
	azcosmos.RESTScripts{}.Sign(request, secret, link, resolver.StoredProcedure)
	request.Header.Set("X-Ms-Documentdb-Partitionkey", fmt.Sprintf("[%q]", key))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// pairTemplate has a stored procedure that creates two items in one transaction,
// and a trigger that marks an item.
func pairTemplate() resolver.Template {
	template := usersTemplate()
	template.Definition = []byte(`{"partitionKey":{"paths":["/userId"]}}`)
	template.Scripts = []resolver.Script{
		{Kind: resolver.StoredProcedure, ID: "pair", Body: `function (a, b) {
			const all = getContext().getCollection(), link = all.getSelfLink();
			all.createDocument(link, a, e => { if (e) throw e;
				all.createDocument(link, b, e => { if (e) throw e; getContext().getResponse().setBody([a.id, b.id]); }); });
		}`},
		{Kind: resolver.Trigger, ID: "mark", TriggerType: "Pre", TriggerOperation: "All", Body: `function () {
			const request = getContext().getRequest(), item = request.getBody();
			item.marked = true;
			request.setBody(item);
		}`},
	}
	return template
}

// TestScriptsAtWork creates containers from a template and executes its stored
// procedure and its trigger (S145). A stored procedure is a transaction on one
// key of one container: if it uses two keys, the server refuses it and keeps
// nothing. The same holds for a batch (S148).
func TestScriptsAtWork(t *testing.T) {
	t.Parallel()
	template := pairTemplate()
	targets, err := template.Numbered(2)
	if err != nil {
		t.Fatal(err)
	}
	server := decantest.New(t)
	managed := managedOn(t, template, targets, map[string]*decantest.Server{"": server})
	if err := managed.Ensure(t.Context(), targets); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range 4 {
		user := fmt.Sprint("J", i)
		target, err := managed.Client.View().Routing().ForWrite(resolver.TextKey(user))
		if err != nil {
			t.Fatal(err)
		}
		seen[target.Name] = true
		pair := func(a, b string) (int, string) {
			return call(t, server, target, "pair", user, fmt.Sprintf(`[{"id":"a","userId":%q},{"id":"b","userId":%q}]`, a, b))
		}
		reads := func(id string) bool {
			_, err := managed.Client.Read(t.Context(), azcosmos.Ref{Key: resolver.TextKey(user), ID: id}, nil)
			if err != nil && !isStatus(err, 404) {
				t.Fatal(err)
			}
			return err == nil
		}
		if status, body := pair(user, "K"); status != 400 || !strings.Contains(body, "cannot reference partition keys other than") {
			t.Errorf("%s: a procedure over two keys: %d %s", user, status, body)
		}
		if reads("a") || reads("b") {
			t.Errorf("%s: a procedure that failed left an item", user)
		}
		if status, body := pair(user, user); status != 200 || body != `["a","b"]` {
			t.Errorf("%s: a procedure over one key: %d %s", user, status, body)
		}
		if !reads("a") || !reads("b") {
			t.Errorf("%s: a procedure did not make its items", user)
		}
		marked(t, managed.Client, user)
		batchOverTwoKeys(t, server, target, user)
	}
	if len(seen) != 2 {
		t.Errorf("the keys are in %v, want both containers", seen)
	}
}

// marked creates an item with a trigger and checks its mark.
func marked(t *testing.T, client *azcosmos.Client, user string) {
	t.Helper()
	document := fmt.Appendf(nil, `{"id":"m","userId":%q}`, user)
	item, err := client.Create(t.Context(), document, &sdk.ItemOptions{PreTriggers: []string{"mark"}, EnableContentResponseOnWrite: true})
	var stored struct{ Marked bool }
	if err == nil {
		err = json.Unmarshal(item.Value, &stored)
	}
	if err != nil || !stored.Marked {
		t.Errorf("%s: with a trigger %s, %v, want it marked", user, item.Value, err)
	}
}

// batchOverTwoKeys sends a batch with an item of another key without the client,
// and checks that the server refuses it.
func batchOverTwoKeys(t *testing.T, server *decantest.Server, target resolver.Target, user string) {
	t.Helper()
	container, err := connect(t, server).NewContainer(target.Database, target.Container)
	if err != nil {
		t.Fatal(err)
	}
	batch := container.NewTransactionalBatch(sdk.NewPartitionKeyString(user))
	batch.CreateItem(fmt.Appendf(nil, `{"id":"x","userId":%q}`, user), nil)
	batch.CreateItem([]byte(`{"id":"y","userId":"K"}`), nil)
	response, err := container.ExecuteTransactionalBatch(t.Context(), batch, nil)
	if !isStatus(err, 400) && (err != nil || response.Success || response.OperationResults[1].StatusCode != 400) {
		t.Errorf("%s: a batch over two keys: %+v, %v, want 400", user, response.OperationResults, err)
	}
	if _, err := container.ReadItem(t.Context(), sdk.NewPartitionKeyString(user), "x", nil); !isStatus(err, 404) {
		t.Errorf("%s: the first half of a batch that failed: %v, want 404", user, err)
	}
}

// TestIsolation spends the whole throughput of one month's container: its
// requests are refused, those for the other month are not (S147).
func TestIsolation(t *testing.T) {
	t.Parallel()
	server := decantest.Start(t, decan.Config{Throughput: "on"})
	account := connect(t, server)
	if _, err := account.CreateDatabase(t.Context(), sdk.DatabaseProperties{ID: "db"}, nil); err != nil {
		t.Fatal(err)
	}
	database, err := account.NewDatabase("db")
	if err != nil {
		t.Fatal(err)
	}
	var targets []resolver.Target
	for i, throughput := range []int32{1000, 400} { // last month has more than the one before
		name := fmt.Sprint("c", i)
		properties := sdk.ContainerProperties{ID: name, PartitionKeyDefinition: sdk.PartitionKeyDefinition{Paths: []string{"/userId"}}}
		manual := sdk.NewManualThroughputProperties(throughput)
		if _, err := database.CreateContainer(t.Context(), properties, &sdk.CreateContainerOptions{ThroughputProperties: &manual}); err != nil {
			t.Fatal(err)
		}
		targets = append(targets, resolver.Target{Name: name, Database: "db", Container: name})
	}
	state := regionState(targets, "")
	state.Key.Paths = []string{"/month"}
	state.Current.Scheme.Table = []resolver.LookupSpec{
		{Values: []resolver.Value{text("2015-04")}, Target: "c0"}, {Values: []resolver.Value{text("2015-03")}, Target: "c1"},
	}
	client := byUser(t, opened(t, state), account)
	ctx := policy.WithRetryOptions(t.Context(), policy.RetryOptions{MaxRetries: -1})
	number := 0
	write := func(month string, values int) (azcosmos.Item, error) {
		var list []string
		for range values {
			number++
			list = append(list, fmt.Sprint(number))
		}
		return client.Create(ctx, fmt.Appendf(nil, `{"id":"e%d","userId":"d","month":%q,"values":[%s]}`, number, month, strings.Join(list, ",")), nil)
	}
	// A request is admitted while any budget is left. It may cost more than
	// that; the following seconds pay for it.
	for {
		item, err := write("2015-03", 20_000)
		if isStatus(err, 429) {
			break
		}
		if err != nil || item.Charge < 5*400 {
			t.Fatalf("a large item costs %v, %v, want the budget of five seconds", item.Charge, err)
		}
	}
	for range 10 {
		if item, err := write("2015-04", 1); err != nil || item.Ref.Target != "c0" {
			t.Errorf("the other month: %s, %v", item.Ref.Target, err)
		}
	}
}
