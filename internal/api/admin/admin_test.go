package admin_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/api/admin"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/prometheus/client_golang/prometheus"
)

func now() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

// newDoor returns a door to a database in memory with the database d.
func newDoor(t *testing.T, ready func() error) (http.Handler, *engine.Engine) {
	t.Helper()
	e, _, registry := newEngine(t)
	return admin.New(admin.Config{Engine: e, Gatherer: registry, Ready: ready, Limits: resource.DefaultLimits(), Version: "test", Now: now}), e
}

// newEngine returns an engine in memory with the database d.
func newEngine(t *testing.T) (*engine.Engine, *catalog.Catalog, *prometheus.Registry) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pool, err := storage.NewPool(storage.Options{InMemory: true})
	check(err)
	t.Cleanup(func() { _ = pool.Close() })
	store, err := pool.Create("catalog")
	check(err)
	t.Cleanup(func() { _ = store.Close() })
	names, err := catalog.Open(store, now)
	check(err)
	limits := resource.DefaultLimits()
	limits.PageTime = time.Minute // A slow machine must not shorten a page.
	node, err := cluster.Start(cluster.Config{Pool: pool, Catalog: names, Limits: limits, Now: now})
	check(err)
	t.Cleanup(func() { _ = node.Close() })
	verifier, err := auth.NewVerifier(auth.Keys{Primary: auth.WellKnownKey}, limits.ClockSkew)
	check(err)
	registry := prometheus.NewRegistry()
	e := engine.New(engine.Config{Catalog: names, Node: node, Account: resource.Account{ID: "decan"}, Limits: limits, Verifier: verifier, Now: now, Registerer: registry, PrefixDeletes: true})
	_, err = e.CreateDatabase(t.Context(), auth.Owner(), engine.DatabaseRequest{Body: parse(t, `{"id":"d"}`)})
	check(err)
	return e, names, registry
}

func parse(t *testing.T, text string) value.Value {
	t.Helper()
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// call sends a request; headers are name, value, name, value.
func call(t *testing.T, door http.Handler, method, target, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	hr := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		hr.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	door.ServeHTTP(recorder, hr)
	answer := recorder.Result()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode >= 400 && answer.StatusCode != http.StatusServiceUnavailable {
		var fault struct{ Code, Message string }
		if json.Unmarshal(content, &fault) != nil || fault.Code == "" || fault.Message == "" {
			t.Errorf("%s %s: an error without code and message: %s", method, target, content)
		}
	}
	return answer, string(content)
}

// TestOpen reads the paths that need no key.
func TestOpen(t *testing.T) {
	t.Parallel()
	door, _ := newDoor(t, nil)
	for target, want := range map[string]string{
		"/alive":   `{"status":"alive","version":"test"}`,
		"/ready":   `{"status":"ready","version":"test"}`,
		"/metrics": "# HELP decan_engine_",
	} {
		answer, content := call(t, door, "GET", target, "")
		if answer.StatusCode != 200 || !strings.Contains(content, want) {
			t.Errorf("%s: %d %s", target, answer.StatusCode, content)
		}
	}
	if answer, content := call(t, door, "HEAD", "/ready", ""); answer.StatusCode != 200 {
		t.Errorf("HEAD /ready: %d %s", answer.StatusCode, content)
	}
	if answer, _ := call(t, door, "GET", "/nowhere", ""); answer.StatusCode != 404 {
		t.Errorf("an unknown path: %d", answer.StatusCode)
	}
	if answer, _ := call(t, door, "DELETE", "/partitions", ""); answer.StatusCode != 405 || answer.Header.Get("Allow") == "" {
		t.Errorf("an unknown verb: %d %v", answer.StatusCode, answer.Header)
	}
}

// TestEverythingElseNeedsTheKey requests every other path without a key.
func TestEverythingElseNeedsTheKey(t *testing.T) {
	t.Parallel()
	door, _ := newDoor(t, nil)
	for target, method := range map[string]string{
		"/": "GET", "/partitions?database=d&container=c": "GET", "/containers?database=d": "POST",
		"/debug/pprof/": "GET", "/debug/pprof/heap": "GET", "/debug/pprof/cmdline": "GET",
		"/debug/pprof/profile": "GET", "/debug/pprof/symbol": "GET", "/debug/pprof/trace": "GET",
	} {
		if answer, content := call(t, door, method, target, ""); answer.StatusCode != 401 {
			t.Errorf("%s %s: %d %s, want 401", method, target, answer.StatusCode, content)
		}
	}
	answer, content := call(t, door, "GET", "/", "", "x-decan-key", auth.WellKnownKey)
	if answer.StatusCode != 200 || !strings.Contains(content, `"path":"GET /partitions?database=D\u0026container=C"`) {
		t.Errorf("with the key: %d %s", answer.StatusCode, content)
	}
}

// TestNotReady shows the answer before and after the server serves.
func TestNotReady(t *testing.T) {
	t.Parallel()
	fault := errors.New("the catalog is being read")
	door, _ := newDoor(t, func() error { return fault })
	if answer, content := call(t, door, "GET", "/ready", ""); answer.StatusCode != 503 || !strings.Contains(content, fault.Error()) {
		t.Errorf("%d %s", answer.StatusCode, content)
	}
	if answer, _ := call(t, door, "GET", "/alive", ""); answer.StatusCode != 200 {
		t.Errorf("not ready is not dead: %d", answer.StatusCode)
	}
	fault = nil
	if answer, _ := call(t, door, "GET", "/ready", ""); answer.StatusCode != 200 {
		t.Errorf("ready: %d", answer.StatusCode)
	}
}

// TestKey shows both ways to authenticate with the key, and that no other works.
func TestKey(t *testing.T) {
	t.Parallel()
	door, _ := newDoor(t, nil)
	const target = "/debug/pprof/cmdline"
	key, err := auth.ParseKey(auth.WellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	date := now().Format(http.TimeFormat)
	old := now().Add(-time.Hour).Format(http.TimeFormat)
	sign := func(method, link, date string) string { return auth.Sign(key, method, "", link, date) }
	for _, c := range []struct {
		name    string
		headers []string
		want    int
	}{
		{"the key", []string{"x-decan-key", auth.WellKnownKey}, 200},
		{"a signature", []string{"x-ms-date", date, "authorization", sign("GET", "debug/pprof/cmdline", date)}, 200},
		{"nothing", nil, 401},
		{"another key", []string{"x-decan-key", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="}, 401},
		{"no key", []string{"x-decan-key", "not base64"}, 401},
		{"another path", []string{"x-ms-date", date, "authorization", sign("GET", "partitions", date)}, 401},
		{"another verb", []string{"x-ms-date", date, "authorization", sign("POST", "debug/pprof/cmdline", date)}, 401},
		{"an old date", []string{"x-ms-date", old, "authorization", sign("GET", "debug/pprof/cmdline", old)}, 403},
	} {
		if answer, content := call(t, door, "GET", target, "", c.headers...); answer.StatusCode != c.want {
			t.Errorf("%s: %d, want %d: %s", c.name, answer.StatusCode, c.want, content)
		}
	}
	for _, closed := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/symbol", "/debug/pprof/trace", "/partitions"} {
		if answer, _ := call(t, door, "GET", closed, ""); answer.StatusCode != 401 {
			t.Errorf("%s without a key: %d", closed, answer.StatusCode)
		}
	}
	if answer, _ := call(t, door, "POST", "/containers", "{}"); answer.StatusCode != 401 {
		t.Errorf("/containers without a key: %d", answer.StatusCode)
	}
}

// TestPartitions creates a container with three physical partitions and checks their
// statistics.
func TestPartitions(t *testing.T) {
	t.Parallel()
	door, e := newDoor(t, nil)
	const definition = `{"id":"c","partitionKey":{"paths":["/pk"]}}`
	with := func(method, target, body string, headers ...string) (*http.Response, string) {
		return call(t, door, method, target, body, append(headers, "x-decan-key", auth.WellKnownKey)...)
	}
	answer, content := with("POST", "/containers?database=d&partitions=3", definition)
	if answer.StatusCode != 201 || !strings.Contains(content, `"id":"c"`) {
		t.Fatalf("create: %d %s", answer.StatusCode, content)
	}
	document, err := value.ParseString(`{"id":"1","pk":"a"}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Create(t.Context(), auth.Owner(), engine.DocumentRequest{Link: engine.Link{Database: "d", Container: "c"}, Document: document, Size: 19}); err != nil {
		t.Fatal(err)
	}
	_, content = with("GET", "/partitions?database=d&container=c", "")
	if !strings.Contains(content, `"queryVisits":{"queries":0,"partitions":0,"mean":0}`) {
		t.Errorf("before any query: %s", content)
	}
	for _, text := range []string{"SELECT VALUE c.id FROM c", `SELECT * FROM c WHERE c.pk = "a"`, `SELECT * FROM c WHERE c.pk = "b"`} {
		if _, err := e.Query(t.Context(), auth.Owner(), engine.QueryRequest{Link: engine.Link{Database: "d", Container: "c"}, Text: text, Cross: true}); err != nil {
			t.Fatal(err)
		}
	}
	answer, content = with("GET", "/partitions?database=d&container=c", "")
	if !strings.Contains(content, `"queryVisits":{"queries":3,"partitions":5,"mean":1.67}`) {
		t.Errorf("after queries of all, one and one of three partitions: %s", content)
	}
	var got struct {
		Database, Container string
		Partitions          []struct {
			ID, Min, Max string
			Parents      []string
			Documents    int64
			LSN          uint64
		}
	}
	if err := json.Unmarshal([]byte(content), &got); err != nil || answer.StatusCode != 200 {
		t.Fatalf("partitions: %d %s %v", answer.StatusCode, content, err)
	}
	documents := int64(0)
	for _, p := range got.Partitions {
		documents += p.Documents
	}
	if len(got.Partitions) != 3 || documents != 1 || got.Partitions[0].Min != "" || got.Partitions[2].Max != "FF" || got.Partitions[1].Min != got.Partitions[0].Max || got.Partitions[0].Parents == nil {
		t.Errorf("partitions: %s", content)
	}

	if answer, content := with("POST", "/containers?database=d", `{"id":"h","partitionKey":{"paths":["/pk"]}}`, "x-decan-partition-count", "2"); answer.StatusCode != 201 {
		t.Errorf("count in the header: %d %s", answer.StatusCode, content)
	}
	if _, content := with("GET", "/partitions?database=d&container=h", ""); strings.Count(content, `"min"`) != 2 {
		t.Errorf("count in the header: %s", content)
	}
	if answer, content := with("POST", "/containers?database=d&throughput=25000", `{"id":"t","partitionKey":{"paths":["/pk"]}}`); answer.StatusCode != 201 {
		t.Errorf("throughput: %d %s", answer.StatusCode, content)
	}

	for _, c := range []struct {
		method, target, body string
		want                 int
	}{
		{"POST", "/containers?database=d&partitions=3", definition, 409},
		{"POST", "/containers?partitions=3", definition, 400},
		{"POST", "/containers?database=nowhere&partitions=3", definition, 404},
		{"POST", "/containers?database=d&partitions=0", definition, 400},
		{"POST", "/containers?database=d&partitions=many", definition, 400},
		{"POST", "/containers?database=d&throughput=x", definition, 400},
		{"POST", "/containers?database=d&autoscale=x", definition, 400},
		{"POST", "/containers?database=d", "", 400},
		{"POST", "/containers?database=d", "[]", 400},
		{"POST", "/containers?database=d", strings.Repeat(" ", 2<<20) + "{}", 413},
		{"GET", "/partitions?database=d", "", 400},
		{"GET", "/partitions?database=d&container=nowhere", "", 404},
	} {
		if answer, content := with(c.method, c.target, c.body); answer.StatusCode != c.want {
			t.Errorf("%s %s %.60s: %d, want %d: %s", c.method, c.target, c.body, answer.StatusCode, c.want, content)
		}
	}
}
