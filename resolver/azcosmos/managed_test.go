package azcosmos_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/resolver"
	"github.com/decandb/decan/resolver/azcosmos"
)

// usersTemplate is a template with a script of each kind.
func usersTemplate() resolver.Template {
	return resolver.Template{
		Target: resolver.Target{Name: "users-", Database: "made", Container: "users-"},
		Definition: []byte(`{"partitionKey":{"paths":["/userId"]},"defaultTtl":-1,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]}]},
			"indexingPolicy":{"indexingMode":"consistent","includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/blob/*"}],
				"compositeIndexes":[[{"path":"/b","order":"ascending"},{"path":"/a","order":"descending"}]]}}`),
		Throughput: 500,
		Scripts: []resolver.Script{
			{Kind: resolver.StoredProcedure, ID: "hello", Body: "function hello() { getContext().getResponse().setBody('hello'); }"},
			{Kind: resolver.Trigger, ID: "stamp", Body: "function stamp() {}", TriggerType: "Pre", TriggerOperation: "All"},
			{Kind: resolver.UserDefinedFunction, ID: "twice", Body: "function twice(n) { return 2 * n; }"},
		},
	}
}

// managedOn returns a Managed for a template on servers by account, with
// policies for the client's requests.
func managedOn(t *testing.T, template resolver.Template, targets []resolver.Target, servers map[string]*decantest.Server, policies ...policy.Policy) azcosmos.Managed {
	t.Helper()
	accounts, keys := map[string]*sdk.Client{}, map[string]azcosmos.Account{}
	for name, server := range servers {
		accounts[name] = connect(t, server, policies...)
		keys[name] = azcosmos.Account{Endpoint: server.Endpoint(), Key: server.Key()}
	}
	routing, err := resolver.Open(ringState("/userId", targets), resolver.Registry{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.New(azcosmos.Config{Accounts: accounts, View: resolver.Static(routing), Scripts: azcosmos.RESTScripts{Accounts: keys}})
	if err != nil {
		t.Fatal(err)
	}
	return azcosmos.Managed{Client: client, Template: template}
}

// planned returns the plan as text.
func planned(t *testing.T, m azcosmos.Managed, targets []resolver.Target) []string {
	t.Helper()
	changes, err := m.Plan(t.Context(), targets)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, change := range changes {
		lines = append(lines, change.String())
	}
	return lines
}

// TestManaged creates containers from a template in two accounts. The plan says
// what is missing and changes nothing, creation waits when it is throttled, two
// concurrent programs create each container once, and the containers have the
// policies, the throughput and working scripts (S145, S179, S184).
func TestManaged(t *testing.T) {
	t.Parallel()
	template := usersTemplate()
	targets, err := template.Numbered(3)
	if err != nil {
		t.Fatal(err)
	}
	targets[2].Account = "eu"
	servers := map[string]*decantest.Server{"": decantest.New(t), "eu": decantest.New(t)}
	busy := &throttle{}
	managed := managedOn(t, template, targets, servers, busy)
	all3 := ": make the container; register sprocs/hello; register triggers/stamp; register udfs/twice"
	for range 2 {
		if got, want := planned(t, managed, targets), []string{"users-0" + all3, "users-1" + all3, "users-2" + all3}; !slices.Equal(got, want) {
			t.Fatalf("the plan is %q, want %q", got, want)
		}
	}
	busy.left.Store(3)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			if err := managed.Ensure(t.Context(), targets); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got := planned(t, managed, targets); len(got) != 0 || busy.left.Load() > 0 {
		t.Errorf("afterwards the plan is %q, with %d refusals left", got, busy.left.Load())
	}
	made, err := managed.Client.TemplateOf(t.Context(), targets[2])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(made.Scripts, template.Scripts) || made.Throughput != 500 || made.Autoscale || !strings.Contains(string(made.Definition), `"automatic":true`) {
		t.Errorf("made was %+v with %s", made, made.Definition)
	}
	seen := map[string]bool{}
	for i := range 30 {
		item, err := managed.Client.Create(t.Context(), fmt.Appendf(nil, `{"id":"u","userId":"J%d","n":%d}`, i, i), nil)
		if err != nil {
			t.Fatal(err)
		}
		seen[item.Ref.Target] = true
	}
	if rows := all(t, managed.Client, "SELECT VALUE SUM(udf.twice(c.n)) FROM c", nil); !slices.Equal(rows, []string{"870"}) || len(seen) != 3 {
		t.Errorf("twice the sum of 0 to 29 in %d containers is %s, want 870 in 3", len(seen), rows)
	}
}

// TestManagedDiffers compares containers that differ from a template: scripts
// are repaired, as after a crash between the container and its scripts; settings
// are reported and left unchanged.
func TestManagedDiffers(t *testing.T) {
	t.Parallel()
	template := usersTemplate()
	targets, err := template.Numbered(2)
	if err != nil {
		t.Fatal(err)
	}
	server := decantest.New(t)
	managed := managedOn(t, template, targets, map[string]*decantest.Server{"": server})
	bare := managed
	bare.Template.Scripts = nil
	if err := bare.Ensure(t.Context(), targets); err != nil {
		t.Fatal(err)
	}
	const put = "register sprocs/hello; register triggers/stamp; register udfs/twice"
	if got, want := planned(t, managed, targets), []string{"users-0: " + put, "users-1: " + put}; !slices.Equal(got, want) {
		t.Errorf("without scripts the plan is %q, want %q", got, want)
	}
	if err := managed.Ensure(t.Context(), targets[:1]); err != nil {
		t.Fatal(err)
	}
	scripts := azcosmos.RESTScripts{Accounts: map[string]azcosmos.Account{"": {Endpoint: server.Endpoint(), Key: server.Key()}}}
	for _, other := range []resolver.Script{
		{Kind: resolver.UserDefinedFunction, ID: "twice", Body: "function twice(n) { return 0; }"},
		{Kind: resolver.Trigger, ID: "stamp", Body: "function stamp() {}", TriggerType: "Post", TriggerOperation: "All"},
		{Kind: resolver.StoredProcedure, ID: "mine", Body: "function mine() {}"},
	} {
		if err := scripts.PutScript(t.Context(), targets[0], other); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := planned(t, managed, targets[:1]), []string{"users-0: register triggers/stamp; register udfs/twice"}; !slices.Equal(got, want) {
		t.Errorf("with other scripts the plan is %q, want %q", got, want)
	}
	for _, c := range []struct{ change, want string }{
		{`"defaultTtl":-1`, ""},
		{`"defaultTtl":60`, "leave another defaultTtl"},
		{`"partitionKey":{"paths":["/id"]}`, "leave another partitionKey"},
		{`"indexingPolicy":{"excludedPaths":[{"path":"/blob/*"}]}`, ""},
		{`"indexingPolicy":{"excludedPaths":[{"path":"/other/*"}]}`, "leave another indexingPolicy"},
		{`"indexingPolicy":{"compositeIndexes":[[{"path":"/a","order":"descending"},{"path":"/b","order":"ascending"}]]}`, "leave another indexingPolicy"},
		{`"uniqueKeyPolicy":{"uniqueKeys":[]}`, ""},
	} {
		other := bare
		other.Template.Definition = []byte("{" + c.change + "}")
		if !strings.Contains(c.change, "partitionKey") {
			other.Template.Definition = []byte(`{"partitionKey":{"paths":["/userId"]},` + c.change + "}")
		}
		got := strings.Join(planned(t, other, targets[1:]), "")
		if got != "" {
			got = strings.TrimPrefix(got, "users-1: ")
		}
		if got != c.want {
			t.Errorf("%s: the plan is %q, want %q", c.change, got, c.want)
		}
		if err := other.Ensure(t.Context(), targets[1:]); err != nil {
			t.Errorf("%s: %v", c.change, err)
		}
		if got := strings.Join(planned(t, other, targets[1:]), ""); (got == "") != (c.want == "") {
			t.Errorf("%s: Ensure has changed it", c.change)
		}
	}
	other := bare
	other.Template.Throughput, other.Template.Autoscale = 5000, true
	if got := planned(t, other, targets); !slices.Equal(got, []string{"users-0: leave another throughput", "users-1: leave another throughput"}) {
		t.Errorf("with another throughput the plan is %q", got)
	}
}

// TestManagedRefusals checks that templates that cannot be applied create
// nothing.
func TestManagedRefusals(t *testing.T) {
	t.Parallel()
	template := usersTemplate()
	targets, err := template.Numbered(1)
	if err != nil {
		t.Fatal(err)
	}
	server := decantest.New(t)
	managed := managedOn(t, template, targets, map[string]*decantest.Server{"": server})
	for _, definition := range []string{
		``, `[]`, `{}`, `{"partitionKey":{"paths":[]}}`, `{"partitionKey":"/userId"}`,
		`{"partitionKey":{"paths":["/userId"]},"computedProperties":[{"name":"n","query":"SELECT VALUE 1 FROM c"}]}`,
		`{"partitionKey":{"paths":["/userId"]},"indexingPolicy":{"indexMode":"consistent"}}`,
	} {
		managed.Template.Definition = []byte(definition)
		if err := managed.Ensure(t.Context(), targets); !errors.Is(err, resolver.ErrConfig) {
			t.Errorf("definition %s: %v, want ErrConfig", definition, err)
		}
	}
	managed.Template = template
	managed.Client = static(t, ringState("/userId", targets), map[string]*sdk.Client{"": connect(t, server)})
	if err := managed.Ensure(t.Context(), targets); !errors.Is(err, resolver.ErrConfig) {
		t.Errorf("scripts without Config.Scripts: %v, want ErrConfig", err)
	}
	if missing, err := managed.Client.Missing(t.Context(), targets); err != nil || len(missing) != 1 {
		t.Errorf("missing are %v, %v: something was made", names(missing), err)
	}
}

// throttle answers some creations with 429 and a delay of 1 ms.
type throttle struct{ left atomic.Int64 }

func (b *throttle) Do(request *policy.Request) (*http.Response, error) {
	if request.Raw().Method != http.MethodPost || b.left.Add(-1) < 0 {
		return request.Next()
	}
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Status: "429 Too Many Requests", Request: request.Raw(),
		Header: http.Header{"X-Ms-Retry-After-Ms": {"1"}}, Body: io.NopCloser(strings.NewReader(`{"code":"429"}`)),
	}, nil
}

// TestScripts creates a script over REST: the request is signed, and replaces a
// script that exists. Lists are paged, and a throttled request is repeated.
func TestScripts(t *testing.T) {
	t.Parallel()
	var requests []string
	early := true
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		requests = append(requests, request.Method+" "+request.URL.Path+" "+string(body)+" "+request.Header.Get("Authorization"))
		switch {
		case request.Method == http.MethodPost:
			answer.WriteHeader(http.StatusConflict)
		case request.Method == http.MethodGet && early:
			early = false
			answer.Header().Set("X-Ms-Retry-After-Ms", "1")
			answer.WriteHeader(http.StatusTooManyRequests)
		case request.Method == http.MethodGet && request.Header.Get("X-Ms-Continuation") == "":
			answer.Header().Set("X-Ms-Continuation", "2")
			_, _ = io.WriteString(answer, `{"StoredProcedures":[{"id":"p1","body":"b"}],"Triggers":[],"UserDefinedFunctions":[]}`)
		default:
			_, _ = io.WriteString(answer, `{"StoredProcedures":[],"Triggers":[],"UserDefinedFunctions":[{"id":"f2","body":"b"}]}`)
		}
	}))
	defer server.Close()
	scripts := azcosmos.RESTScripts{Accounts: map[string]azcosmos.Account{"": {Endpoint: server.URL, Key: "a2V5"}}, Now: func() time.Time { return time.Unix(0, 0) }}
	target := resolver.Target{Database: "db", Container: "c"}
	if err := scripts.PutScript(t.Context(), target, resolver.Script{Kind: resolver.Trigger, ID: "t", Body: "b", TriggerType: "Pre", TriggerOperation: "All"}); err != nil {
		t.Fatal(err)
	}
	body := ` {"id":"t","body":"b","triggerType":"Pre","triggerOperation":"All"} `
	want := []string{"POST /dbs/db/colls/c/triggers" + body + signature("post", "triggers", "dbs/db/colls/c"), "PUT /dbs/db/colls/c/triggers/t" + body + signature("put", "triggers", "dbs/db/colls/c/triggers/t")}
	if !slices.Equal(requests, want) {
		t.Errorf("requests %q\nwant %q", requests, want)
	}
	if _, err := scripts.ReadScripts(t.Context(), target); !isStatus(err, 429) {
		t.Errorf("a list that comes too early: %v, want 429", err)
	}
	got, err := scripts.ReadScripts(t.Context(), target)
	if listed := []resolver.Script{{Kind: resolver.StoredProcedure, ID: "p1", Body: "b"}, {Kind: resolver.UserDefinedFunction, ID: "f2", Body: "b"}}; err != nil || !slices.Equal(got, listed) {
		t.Errorf("ReadScripts = %+v, %v, want %+v", got, err, listed)
	}
	if err := scripts.PutScript(t.Context(), target, resolver.Script{Kind: "other"}); !errors.Is(err, resolver.ErrConfig) {
		t.Errorf("unknown kind: %v", err)
	}
	target.Account = "eu"
	if _, err := scripts.ReadScripts(t.Context(), target); !errors.Is(err, resolver.ErrConfig) {
		t.Errorf("unknown account: %v", err)
	}
}

// signature returns the documented signature of a request at the beginning of
// 1970 with the key "key".
func signature(method, kind, link string) string {
	mac := hmac.New(sha256.New, []byte("key"))
	_, _ = io.WriteString(mac, method+"\n"+kind+"\n"+link+"\nthu, 01 jan 1970 00:00:00 gmt\n\n")
	return url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
