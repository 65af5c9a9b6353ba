package nosql_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/value"
)

const readerKey = "cmVhZG9ubHkgcmVhZG9ubHkgcmVhZG9ubHk="

// asked is a request of TestDirectCallers.
type asked struct {
	name, method, target, body string
	headers                    []string
}

// askedOfAll are the requests. N is the number of the caller.
var askedOfAll = []asked{
	{"read", "GET", "/dbs/d/colls/c/docs/1", "", []string{"x-ms-documentdb-partitionkey", `["a"]`}},
	{"read-b", "GET", "/dbs/d/colls/c/docs/1", "", []string{"x-ms-documentdb-partitionkey", `["b"]`}},
	{"create", "POST", "/dbs/d/colls/c/docs", `{"id":"new-N","pk":"a"}`, []string{"x-ms-documentdb-partitionkey", `["a"]`}},
	{"upsert", "POST", "/dbs/d/colls/c/docs", `{"id":"up-N","pk":"a"}`, []string{"x-ms-documentdb-partitionkey", `["a"]`, "x-ms-documentdb-is-upsert", "true"}},
	{"replace", "PUT", "/dbs/d/colls/c/docs/1", `{"id":"1","pk":"a"}`, []string{"x-ms-documentdb-partitionkey", `["a"]`}},
	{"patch", "PATCH", "/dbs/d/colls/c/docs/1", `{"operations":[{"op":"set","path":"/n","value":1}]}`, []string{"x-ms-documentdb-partitionkey", `["a"]`}},
	{"delete", "DELETE", "/dbs/d/colls/c/docs/old-N", "", []string{"x-ms-documentdb-partitionkey", `["a"]`}},
	{"delete-b", "DELETE", "/dbs/d/colls/c/docs/old-N", "", []string{"x-ms-documentdb-partitionkey", `["b"]`}},
	{"query", "POST", "/dbs/d/colls/c/docs", `{"query":"SELECT VALUE c.id FROM c WHERE c.id = '1'"}`, []string{"x-ms-documentdb-partitionkey", `["a"]`, "x-ms-documentdb-isquery", "True", "content-type", "application/query+json"}},
	{"feed", "GET", "/dbs/d/colls/c/docs", "", []string{"x-ms-documentdb-partitionkeyrangeid", "0", "x-ms-max-item-count", "1"}},
	{"changes", "GET", "/dbs/d/colls/c/docs", "", []string{"x-ms-documentdb-partitionkeyrangeid", "0", "a-im", "Incremental feed", "x-ms-max-item-count", "1"}},
	{"batch", "POST", "/dbs/d/colls/c/docs", `[{"operationType":"Read","id":"1"},{"operationType":"Upsert","resourceBody":{"id":"1","pk":"a"}}]`, []string{"x-ms-documentdb-partitionkey", `["a"]`, "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True"}},
	{"script", "POST", "/dbs/d/colls/c/sprocs/p", `[]`, []string{"x-ms-documentdb-partitionkey", `["a"]`}},
	{"database", "GET", "/dbs/d", "", nil},
	{"containers", "GET", "/dbs/d/colls", "", nil},
	{"users", "GET", "/dbs/d/users", "", nil},
	{"permission", "GET", "/dbs/d/users/ann/permissions/read", "", nil},
}

// callersOfBoth is what each caller may do; the rest is refused.
var callersOfBoth = []struct{ name, may string }{
	{"the primary key", "read read-b create upsert replace patch delete delete-b query feed changes batch script database containers users permission"},
	{"a read-only key", "read read-b query feed changes database containers users"},
	{"a token to read", "read read-b query feed changes"},
	{"a token to read one key", "read query"},
	{"a token for all", "read read-b create upsert replace patch delete delete-b query feed changes batch script"},
	{"a token for all of one key", "read create upsert replace patch delete query batch script"},
	{"a reader", "read read-b query feed changes database containers"},
	{"a contributor", "read read-b create upsert replace patch delete delete-b query feed changes batch script database containers"},
	{"a principal without a role", ""},
	{"another key", ""},
	{"a changed token", ""},
	{"an expired bearer token", ""},
	{"no one", ""},
}

// callersWorld is a world with all kinds of callers, and makes their authorization.
type callersWorld struct {
	*world
	tokens map[string]string
}

func newCallersWorld(t *testing.T) *callersWorld {
	t.Helper()
	issuer, err := auth.NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	text, err := issuer.KeySet()
	if err != nil {
		t.Fatal(err)
	}
	set, err := auth.ParseKeySet(text)
	if err != nil {
		t.Fatal(err)
	}
	w := &callersWorld{newWorld(t, settings{readOnly: readerKey, bearer: auth.BearerRules{
		Issuers: []string{"iss"}, Audiences: []string{"aud"}, Keys: func(string) *auth.KeySet { return set },
	}}), map[string]string{}}
	t.Cleanup(w.close)
	w.must(t, "POST", "/dbs", `{"id":"d"}`)
	w.must(t, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
	w.must(t, "POST", "/dbs/d/colls/c/sprocs", `{"id":"p","body":"function () { getContext().getResponse().setBody(1); }"}`)
	for _, pk := range []string{"a", "b"} {
		w.must(t, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"`+pk+`"}`)
		for n := range callersOfBoth {
			w.must(t, "POST", "/dbs/d/colls/c/docs", fmt.Sprintf(`{"id":"old-%d","pk":%q}`, n, pk))
		}
	}
	w.must(t, "POST", "/dbs/d/users", `{"id":"ann"}`)
	w.must(t, "POST", "/dbs/d/users", `{"id":"bob"}`)
	permit := func(name, user, id, mode, key string) {
		answer := w.must(t, "POST", "/dbs/d/users/"+user+"/permissions", fmt.Sprintf(`{"id":%q,"permissionMode":%q,"resource":"dbs/d/colls/c"%s}`, id, mode, key))
		var permission struct {
			Token string `json:"_token"`
		}
		if err := json.Unmarshal([]byte(answer), &permission); err != nil {
			t.Fatal(err)
		}
		w.tokens[name] = permission.Token
	}
	permit("a token to read", "ann", "read", "Read", "")
	permit("a token to read one key", "ann", "read-a", "Read", `,"resourcePartitionKey":["a"]`)
	permit("a token for all", "bob", "all", "All", "")
	permit("a token for all of one key", "bob", "all-a", "All", `,"resourcePartitionKey":["a"]`)
	w.tokens["a changed token"] = strings.Replace(w.tokens["a token for all"], "sig=A", "sig=B", 1)
	bearer := func(name, principal string, expires time.Time) {
		token, err := issuer.Sign(auth.BearerToken{Issuer: "iss", Audience: "aud", Principal: principal, NotBefore: now().Add(-2 * time.Hour), Expires: expires})
		if err != nil {
			t.Fatal(err)
		}
		w.tokens[name] = "type=aad&ver=1.0&sig=" + token
	}
	bearer("a reader", "reader", now().Add(time.Hour))
	bearer("a contributor", "contributor", now().Add(time.Hour))
	bearer("a principal without a role", "stranger", now().Add(time.Hour))
	bearer("an expired bearer token", "contributor", now().Add(-time.Hour))
	for n, principal := range []string{"reader", "contributor"} {
		properties, err := value.ParseString(fmt.Sprintf(`{"roleDefinitionId":"00000000-0000-0000-0000-00000000000%d","scope":"/","principalId":%q}`, n+1, principal))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.engine.PutRoleAssignment(t.Context(), auth.Owner(), fmt.Sprintf("10000000-0000-0000-0000-00000000000%d", n), properties); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// header returns the headers of a request of a caller.
func (w *callersWorld) header(caller string, r asked) http.Header {
	header := http.Header{}
	for i := 0; i < len(r.headers); i += 2 {
		header.Set(r.headers[i], r.headers[i+1])
	}
	date := now().UTC().Format(http.TimeFormat)
	header.Set("x-ms-date", date)
	key := map[string]auth.Key{"the primary key": testKey, "a read-only key": mustKey(auth.ParseKey(readerKey)), "another key": mustKey(auth.ParseKey("YW5vdGhlciBrZXkgYW5vdGhlciBrZXkgYW4="))}[caller]
	switch token, has := w.tokens[caller]; {
	case has:
		header.Set("authorization", strings.NewReplacer("=", "%3d", "&", "%26", ";", "%3b", "/", "%2f", "+", "%2b").Replace(token))
	case caller != "no one":
		kind, link := nosql.Signed(r.target)
		header.Set("authorization", auth.Sign(key, r.method, kind, link, date))
	}
	return header
}

// TestDirectCallers: a key, a read-only key, resource tokens and bearer tokens may do over
// direct mode what they may do over the gateway, and are refused with the same status.
func TestDirectCallers(t *testing.T) {
	t.Parallel()
	gateway, direct := newCallersWorld(t), newCallersWorld(t)
	door := openDirect(t, direct.world)
	for n, caller := range callersOfBoth {
		var may []string
		for _, r := range askedOfAll {
			numbered := strings.NewReplacer("N", fmt.Sprint(n))
			r.body = numbered.Replace(r.body)
			r.target = numbered.Replace(r.target)
			hr := httptest.NewRequest(r.method, r.target, strings.NewReader(r.body))
			hr.Header = gateway.header(caller.name, r)
			recorder := httptest.NewRecorder()
			gateway.handler.ServeHTTP(recorder, hr)
			want := recorder.Result()
			for name, values := range maps.Clone(want.Header) {
				want.Header[http.CanonicalHeaderKey(name)] = values
			}
			content, err := io.ReadAll(want.Body)
			if err != nil {
				t.Fatal(err)
			}
			frame := door.frameOf(r.method, r.target, direct.header(caller.name, r), r.body)
			if frame == nil {
				t.Fatalf("direct mode has no %s", r.name)
			}
			got, payload := response(door.do(t, frame))
			if got.StatusCode != want.StatusCode || got.Header.Get("x-ms-substatus") != want.Header.Get("x-ms-substatus") || codeOf(payload) != codeOf(content) {
				t.Errorf("%s, %s: direct mode answers %d/%s %s, the gateway %d/%s %s", caller.name, r.name,
					got.StatusCode, got.Header.Get("x-ms-substatus"), payload, want.StatusCode, want.Header.Get("x-ms-substatus"), content)
			}
			switch want.StatusCode {
			case 200, 201, 204:
				may = append(may, r.name)
			case 401, 403:
			default:
				t.Errorf("%s, %s: %d %s", caller.name, r.name, want.StatusCode, content)
			}
		}
		if all := strings.Join(may, " "); all != caller.may {
			t.Errorf("%s may\n%s\nwant\n%s", caller.name, all, caller.may)
		}
	}
}

// codeOf returns the code of an error.
func codeOf(body []byte) string {
	var answer struct{ Code string }
	_ = json.Unmarshal(body, &answer) // Rows have none.
	return answer.Code
}
