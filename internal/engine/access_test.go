package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// Keys of the account in these tests.
const (
	masterKey = "c2VjcmV0IG9mIHRoZSBhY2NvdW50Lg=="
	readerKey = "cmVhZC1vbmx5IHNlY3JldCBvZiBpdC4="
)

var accessNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// accessWorld is an engine with one credential of each kind.
type accessWorld struct {
	*world
	issuer *auth.Issuer
	clock  clock
	link   engine.Link
}

func newAccessWorld(t *testing.T, prefixes bool) *accessWorld {
	t.Helper()
	a := &accessWorld{}
	a.clock.set(accessNow)
	var err error
	if a.issuer, err = auth.NewIssuer(); err != nil {
		t.Fatal(err)
	}
	text, err := a.issuer.KeySet()
	if err != nil {
		t.Fatal(err)
	}
	set, err := auth.ParseKeySet(text)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := auth.NewVerifier(auth.Keys{Primary: masterKey, PrimaryReadonly: readerKey}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	runner := script.New(script.Limits{Time: time.Minute})
	t.Cleanup(runner.Close)
	a.world = newWorld(t, func(cfg *engine.Config) {
		cfg.Scripts = runner
		cfg.Now = a.clock.now
		cfg.PrefixPermissions = prefixes
		cfg.Verifier = verifier.WithBearer(auth.BearerRules{
			Issuers: []string{"iss"}, Audiences: []string{"aud"}, Keys: func(string) *auth.KeySet { return set },
		})
	})
	a.link = a.container(t, 2, "/t", "/u")
	for _, doc := range []string{`{"id":"1","t":"t1","u":"u1"}`, `{"id":"2","t":"t2","u":"u1"}`, `{"id":"3","t":"t1","u":"u1"}`} {
		a.create(t, a.link, doc)
	}
	if _, err := a.CreateUser(t.Context(), caller, engine.UserRequest{Link: a.link, Body: parse(t, `{"id":"ann"}`)}); err != nil {
		t.Fatal(err)
	}
	return a
}

// token creates a permission and returns the caller that its token
// authenticates.
func (a *accessWorld) token(t *testing.T, id, mode, link, key string) auth.Caller {
	t.Helper()
	who, err := a.Verify(auth.Credentials{Authorization: a.permit(t, id, mode, link, key)})
	if err != nil {
		t.Fatal(err)
	}
	return who
}

// permit creates a permission and returns its token.
func (a *accessWorld) permit(t *testing.T, id, mode, link, key string) string {
	t.Helper()
	body := fmt.Sprintf(`{"id":%q,"permissionMode":%q,"resource":%q}`, id, mode, link)
	if key != "" {
		body = strings.TrimSuffix(body, "}") + `,"resourcePartitionKey":` + key + "}"
	}
	res, err := a.CreatePermission(t.Context(), caller, engine.PermissionRequest{Link: a.link, User: "ann", Body: parse(t, body)})
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(res.Body)).Get("_token").Text()
}

// bearer signs a token for a principal.
func (a *accessWorld) bearer(t *testing.T, principal string, groups ...string) string {
	t.Helper()
	token, err := a.issuer.Sign(auth.BearerToken{Issuer: "iss", Audience: "aud", Principal: principal, Groups: groups, NotBefore: a.clock.now(), Expires: a.clock.now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return "type=aad&ver=1.0&sig=" + token
}

// assign assigns a role to a principal.
func (a *accessWorld) assign(t *testing.T, n int, role, scope, principal string) {
	t.Helper()
	properties := fmt.Sprintf(`{"roleDefinitionId":%q,"scope":%q,"principalId":%q}`, role, scope, principal)
	if _, err := a.PutRoleAssignment(t.Context(), caller, guid(n), parse(t, properties)); err != nil {
		t.Fatal(err)
	}
}

func guid(n int) string { return fmt.Sprintf("10000000-0000-0000-0000-%012d", n) }

// signed returns the caller that a signature with a key authenticates.
func (a *accessWorld) signed(t *testing.T, text string) (auth.Caller, error) {
	t.Helper()
	key, err := auth.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	date := a.clock.now().Format("Mon, 02 Jan 2006 15:04:05 GMT")
	return a.Verify(auth.Credentials{Method: "get", Date: date, Authorization: auth.Sign(key, "get", "", "", date)})
}

// callers returns a caller for each kind of credential, by the name of its
// column in the table.
func (a *accessWorld) callers(t *testing.T) map[string]auth.Caller {
	t.Helper()
	all := map[string]auth.Caller{
		"no credentials": {},
		"All":            a.token(t, "all", "All", "dbs/d/colls/c", ""),
		"All of key":     a.token(t, "all-key", "All", "dbs/d/colls/c", `["t1","u1"]`),
		"All of item":    a.token(t, "all-item", "All", "dbs/d/colls/c/docs/1", ""),
		"All of sproc":   a.token(t, "all-sproc", "All", "dbs/d/colls/c/sprocs/f", ""),
		"All of trigger": a.token(t, "all-trigger", "All", "dbs/d/colls/c/triggers/f", ""),
		"All of udf":     a.token(t, "all-udf", "All", "dbs/d/colls/c/udfs/f", ""),
	}
	if _, err := a.CreateUser(t.Context(), caller, engine.UserRequest{Link: a.link, Body: parse(t, `{"id":"bob"}`)}); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]struct{ link, more string }{
		"Read": {}, "Read of key": {"", `,"resourcePartitionKey":["t1","u1"]`}, "Read of sproc": {"/sprocs/f", ""},
	} {
		body := fmt.Sprintf(`{"id":%q,"permissionMode":"Read","resource":%q%s}`, name, "dbs/d/colls/c"+of.link, of.more)
		res, err := a.CreatePermission(t.Context(), caller, engine.PermissionRequest{Link: a.link, User: "bob", Body: parse(t, body)})
		if err != nil {
			t.Fatal(err)
		}
		if all[name], err = a.Verify(auth.Credentials{Authorization: parse(t, string(res.Body)).Get("_token").Text()}); err != nil {
			t.Fatal(err)
		}
	}
	for name, key := range map[string]string{"key": masterKey, "read-only key": readerKey} {
		var err error
		if all[name], err = a.signed(t, key); err != nil {
			t.Fatal(err)
		}
	}
	a.assign(t, 1, resource.DataReaderID, "/", "reader")
	a.assign(t, 2, resource.DataContributorID, "/dbs/d", "writers")
	for name, authorization := range map[string]string{
		"Data Reader": a.bearer(t, "reader"), "Data Contributor": a.bearer(t, "someone", "writers"), "no role": a.bearer(t, "stranger"),
	} {
		var err error
		if all[name], err = a.Verify(auth.Credentials{Authorization: authorization}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// operations returns calls of all operations of the engine as a caller. None of
// them changes anything, even if it is allowed. A slash separates the name of an
// operation from a variant.
func (a *accessWorld) operations(t *testing.T) map[string]func(context.Context, auth.Caller) error {
	item := engine.Link{Database: "d", Container: "c", Document: "1"}
	other := engine.Link{Database: "d", Container: "c", Document: "3"} // of the same key
	const noETag = `"none"`
	wrong := parse(t, `{"id":1}`)
	document := func(link engine.Link, keyText, body string) engine.DocumentRequest {
		return engine.DocumentRequest{Link: link, Key: key(t, keyText), Document: parse(t, body), IfMatch: noETag, IfNoneMatch: ""}
	}
	own, others, renamed := `{"id":"1","t":"t1","u":"u1"}`, `{"id":"3","t":"t1","u":"u1"}`, `{"id":"4","t":"t1","u":"u1"}`
	const change = `{"operations":[{"op":"set","path":"/n","value":1}]}`
	usage := engine.ContainerRequest{Link: a.link, Usage: true}
	definition := engine.ContainerRequest{Link: a.link, Body: wrong, IfMatch: noETag}
	database := engine.DatabaseRequest{Link: engine.Link{Database: "d"}, Body: wrong, IfMatch: noETag}
	container := engine.ContainerRequest{Link: database.Link, Body: wrong, IfMatch: noETag}
	user := engine.UserRequest{Link: engine.Link{Database: "d"}, User: "ann", Body: wrong, IfMatch: noETag}
	permission := engine.PermissionRequest{Link: user.Link, User: "ann", Permission: "all", Body: wrong, IfMatch: noETag}
	rows := func(link engine.Link, keyText string) engine.QueryRequest {
		return engine.QueryRequest{Link: link, Text: "SELECT VALUE c.id FROM c", Key: key(t, keyText), Cross: true}
	}
	script := func(kind resource.ScriptKind) engine.ScriptRequest {
		return engine.ScriptRequest{Kind: kind, Link: a.link, Script: "f", Body: wrong, IfMatch: noETag}
	}
	rename := func(kind resource.ScriptKind) engine.ScriptRequest {
		req := script(kind)
		req.Body = parse(t, `{"id":"g","body":"function () {}","triggerType":"Pre","triggerOperation":"All"}`)
		return req
	}
	scripts := func(list func(context.Context, auth.Caller, resource.ScriptKind, engine.QueryRequest) (engine.Feed, error)) func(context.Context, auth.Caller) error {
		return func(ctx context.Context, c auth.Caller) error {
			_, err := list(ctx, c, resource.Function, rows(a.link, ""))
			return err
		}
	}
	execute := func(procedure, keyText string) engine.ExecuteRequest { // Neither procedure exists.
		return engine.ExecuteRequest{Link: a.link, Procedure: procedure, Key: key(t, keyText)}
	}
	purge := func(keyText string) engine.KeyRequest { // Invalid, so that nothing is deleted.
		return engine.KeyRequest{Link: a.link, Key: key(t, keyText), Options: engine.Options{Consistency: "none"}}
	}
	feed := func(keyText string) engine.FeedRequest {
		return engine.FeedRequest{Link: a.link, Key: key(t, keyText)}
	}
	batch := func(action auth.Action, id, body string) engine.BatchRequest {
		return engine.BatchRequest{Link: a.link, Key: key(t, `["t1","u1"]`), Operations: []engine.BatchOperation{{Action: action, ID: id, IfMatch: noETag, Body: parse(t, body), Size: len(body)}}}
	}
	properties := value.Value{}
	type call = func(context.Context, auth.Caller) error
	return map[string]call{
		"AccountKeys":     func(ctx context.Context, c auth.Caller) error { _, err := a.AccountKeys(ctx, c); return err },
		"RegenerateKey":   func(ctx context.Context, c auth.Caller) error { _, err := a.RegenerateKey(ctx, c, "none"); return err },
		"CreateDatabase":  of(a.CreateDatabase, database),
		"ReadDatabase":    of(a.ReadDatabase, database),
		"DeleteDatabase":  of(a.DeleteDatabase, database),
		"ListDatabases":   of(a.ListDatabases, rows(engine.Link{}, "")),
		"QueryDatabases":  of(a.QueryDatabases, rows(engine.Link{}, "")),
		"CreateContainer": of(a.CreateContainer, container),
		"ReadContainer":   of(a.ReadContainer, definition),
		"ReadContainer/usage": func(ctx context.Context, c auth.Caller) error {
			read, err := a.ReadContainer(ctx, c, usage)
			if err == nil && read.Usage == nil {
				err = errLeftOut
			}
			return err
		},
		"ReplaceContainer": of(a.ReplaceContainer, definition),
		"DeleteContainer":  of(a.DeleteContainer, definition),
		"ListContainers":   of(a.ListContainers, rows(database.Link, "")),
		"QueryContainers":  of(a.QueryContainers, rows(database.Link, "")),
		"Ranges":           of(a.Ranges, definition),
		"PartitionStats":   of(a.PartitionStats, a.link),
		"QueryVisits":      func(_ context.Context, c auth.Caller) error { _, err := a.QueryVisits(c, a.link); return err },
		"LimitsOf":         func(_ context.Context, c auth.Caller) error { _, err := a.LimitsOf(c, a.link); return err },
		"ChangeLimits": func(ctx context.Context, c auth.Caller) error {
			_, err := a.ChangeLimits(ctx, c, engine.Link{Database: "d", Container: "none"}, func(*resource.OwnLimits) error { return nil })
			return err
		},
		"SplitPartition":  of(a.SplitPartition, engine.SplitRequest{Link: a.link, Partition: 99}),
		"MergePartitions": of(a.MergePartitions, engine.MergeRequest{Link: engine.Link{Database: "none", Container: "none"}}),
		"MergeAll": func(ctx context.Context, c auth.Caller) error {
			_, err := a.MergeAll(ctx, c, engine.Link{Database: "none", Container: "none"}, true)
			return err
		},
		"RunningQueries": func(_ context.Context, c auth.Caller) error { _, err := a.RunningQueries(c); return err },
		"CancelQuery":    func(_ context.Context, c auth.Caller) error { return a.CancelQuery(c, "none") },

		"Create":                              of(a.Create, document(a.link, "", own)),
		"Create/another key":                  of(a.Create, document(a.link, "", `{"id":"2","t":"t2","u":"u1"}`)),
		"Create/another id":                   of(a.Create, document(a.link, "", others)),
		"Upsert":                              of(a.Upsert, document(a.link, "", own)),
		"Upsert/another id":                   of(a.Upsert, document(a.link, "", others)),
		"Read":                                of(a.Read, document(item, `["t1","u1"]`, own)),
		"Read/another key":                    of(a.Read, document(engine.Link{Database: "d", Container: "c", Document: "2"}, `["t2","u1"]`, own)),
		"Replace":                             of(a.Replace, document(item, "", own)),
		"Replace/another id":                  of(a.Replace, document(other, "", others)),
		"Replace/to another id":               of(a.Replace, document(item, "", renamed)),
		"Delete":                              of(a.Delete, document(item, `["t1","u1"]`, own)),
		"Patch":                               of(a.Patch, document(item, `["t1","u1"]`, change)),
		"Patch/another id":                    of(a.Patch, document(other, `["t1","u1"]`, change)),
		"DeleteByKey":                         of(a.DeleteByKey, purge(`["t1","u1"]`)),
		"DeleteByKey/another":                 of(a.DeleteByKey, purge(`["t2","u1"]`)),
		"DeleteByKey/prefix":                  of(a.DeleteByKey, purge(`["t1"]`)),
		"Batch/Read":                          of(a.Batch, batch(auth.Read, "1", own)),
		"Batch/Replace":                       of(a.Batch, batch(auth.Replace, "1", own)),
		"Batch/Replace another id":            of(a.Batch, batch(auth.Replace, "3", others)),
		"Batch/Replace to another id":         of(a.Batch, batch(auth.Replace, "1", renamed)),
		"Batch/Patch another id":              of(a.Batch, batch(auth.Patch, "3", change)),
		"List":                                of(a.List, rows(a.link, "")),
		"List/its key":                        of(a.List, rows(a.link, `["t1","u1"]`)),
		"Query":                               of(a.Query, rows(a.link, "")),
		"Query/its key":                       of(a.Query, rows(a.link, `["t1","u1"]`)),
		"Query/another key":                   of(a.Query, rows(a.link, `["t2","u1"]`)),
		"Query/prefix of a key":               of(a.Query, rows(a.link, `["t1"]`)),
		"QueryPlan":                           of(a.QueryPlan, engine.PlanRequest{Link: a.link, Text: "SELECT * FROM c"}),
		"Feed":                                of(a.Feed, feed("")),
		"Feed/its key":                        of(a.Feed, feed(`["t1","u1"]`)),
		"CreateScript":                        of(a.CreateScript, engine.ScriptRequest{Kind: resource.Function, Link: a.link, Body: wrong}),
		"ReadScript/udf":                      of(a.ReadScript, script(resource.Function)),
		"ReadScript/trigger":                  of(a.ReadScript, script(resource.Trigger)),
		"ReadScript/sproc":                    of(a.ReadScript, script(resource.Procedure)),
		"ReplaceScript/udf":                   of(a.ReplaceScript, script(resource.Function)),
		"ReplaceScript/udf to another id":     of(a.ReplaceScript, rename(resource.Function)),
		"ReplaceScript/trigger":               of(a.ReplaceScript, script(resource.Trigger)),
		"ReplaceScript/trigger to another id": of(a.ReplaceScript, rename(resource.Trigger)),
		"ReplaceScript/sproc":                 of(a.ReplaceScript, script(resource.Procedure)),
		"ReplaceScript/sproc to another id":   of(a.ReplaceScript, rename(resource.Procedure)),
		"DeleteScript/udf":                    of(a.DeleteScript, script(resource.Function)),
		"DeleteScript/trigger":                of(a.DeleteScript, script(resource.Trigger)),
		"DeleteScript/sproc":                  of(a.DeleteScript, script(resource.Procedure)),
		"ListScripts":                         scripts(a.ListScripts),
		"QueryScripts":                        scripts(a.QueryScripts),
		"Execute":                             of(a.Execute, execute("f", `["t1","u1"]`)),
		"Execute/another":                     of(a.Execute, execute("g", `["t1","u1"]`)),
		"Execute/another key":                 of(a.Execute, execute("f", `["t2","u1"]`)),
		"ListOffers":                          of(a.ListOffers, rows(engine.Link{}, "")),
		"QueryOffers":                         of(a.QueryOffers, rows(engine.Link{}, "")),
		"ReadOffer":                           of(a.ReadOffer, engine.OfferRequest{Offer: "none"}),
		"ReplaceOffer":                        of(a.ReplaceOffer, engine.OfferRequest{Offer: "none"}),
		"ThroughputDistribution": func(ctx context.Context, c auth.Caller) error {
			_, err := a.ThroughputDistribution(ctx, c, a.link, nil)
			return err
		},
		"CreateUser":       of(a.CreateUser, user),
		"UpsertUser":       func(ctx context.Context, c auth.Caller) error { _, _, err := a.UpsertUser(ctx, c, user); return err },
		"ReadUser":         of(a.ReadUser, user),
		"ReplaceUser":      of(a.ReplaceUser, user),
		"DeleteUser":       of(a.DeleteUser, user),
		"ListUsers":        of(a.ListUsers, rows(user.Link, "")),
		"QueryUsers":       of(a.QueryUsers, rows(user.Link, "")),
		"CreatePermission": of(a.CreatePermission, permission),
		"UpsertPermission": func(ctx context.Context, c auth.Caller) error {
			_, _, err := a.UpsertPermission(ctx, c, permission)
			return err
		},
		"ReadPermission":    of(a.ReadPermission, permission),
		"ReplacePermission": of(a.ReplacePermission, permission),
		"DeletePermission":  of(a.DeletePermission, permission),
		"ListPermissions": func(ctx context.Context, c auth.Caller) error {
			_, err := a.ListPermissions(ctx, c, permission, rows(user.Link, ""))
			return err
		},
		"QueryPermissions": func(ctx context.Context, c auth.Caller) error {
			_, err := a.QueryPermissions(ctx, c, permission, rows(user.Link, ""))
			return err
		},
		"PutRole": func(ctx context.Context, c auth.Caller) error {
			_, err := a.PutRole(ctx, c, guid(1), properties)
			return err
		},
		"ReadRole":   of(a.ReadRole, guid(1)),
		"ListRoles":  func(ctx context.Context, c auth.Caller) error { _, err := a.ListRoles(ctx, c); return err },
		"DeleteRole": func(ctx context.Context, c auth.Caller) error { return a.DeleteRole(ctx, c, guid(9)) },
		"PutRoleAssignment": func(ctx context.Context, c auth.Caller) error {
			_, err := a.PutRoleAssignment(ctx, c, guid(9), properties)
			return err
		},
		"ReadRoleAssignment":   of(a.ReadRoleAssignment, guid(1)),
		"ListRoleAssignments":  func(ctx context.Context, c auth.Caller) error { _, err := a.ListRoleAssignments(ctx, c); return err },
		"DeleteRoleAssignment": func(ctx context.Context, c auth.Caller) error { return a.DeleteRoleAssignment(ctx, c, guid(9)) },
	}
}

// of returns a call of an operation with one request.
func of[Q, A any](do func(context.Context, auth.Caller, Q) (A, error), req Q) func(context.Context, auth.Caller) error {
	return func(ctx context.Context, c auth.Caller) error {
		_, err := do(ctx, c, req)
		return err
	}
}

// accessTable reads the table of docs/access.md: its columns, and the cells of
// each operation.
func accessTable(t *testing.T) (columns []string, rows map[string][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	rows = map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if len(rows) > 0 && !strings.HasPrefix(line, "|") {
			break // Other tables follow.
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case cells[0] == "operation":
			columns = cells[1:]
		case columns != nil && strings.HasPrefix(line, "| `"):
			rows[strings.Trim(cells[0], "`")] = cells[1:]
		}
	}
	return columns, rows
}

// TestAccess calls every operation of the engine with every kind of credential,
// and compares what is allowed with the table in docs/access.md (S103).
func TestAccess(t *testing.T) {
	t.Parallel()
	a := newAccessWorld(t, false)
	callers, operations := a.callers(t), a.operations(t)
	columns, table := accessTable(t)
	if want := slices.Sorted(maps.Keys(callers)); !slices.Equal(slices.Sorted(slices.Values(columns)), want) {
		t.Fatalf("the table has the columns %q, want %q", columns, want)
	}
	checkWalk(t, operations)
	for name := range table {
		if operations[name] == nil {
			t.Errorf("the table has %s, which is not an operation", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(operations)) {
		cells := make([]string, len(columns))
		for i, column := range columns {
			cells[i] = verdict(t, name, operations[name](t.Context(), callers[column]))
		}
		if !slices.Equal(cells, table[name]) {
			t.Errorf("docs/access.md should have\n| `%s` | %s |", name, strings.Join(cells, " | "))
		}
	}
}

// errLeftOut means that an answer lacks what only some callers may see.
var errLeftOut = errors.New("left out")

// verdict returns yes for every answer of an operation to a caller that may
// call it.
func verdict(t *testing.T, name string, err error) string {
	t.Helper()
	switch code, sub := status.CodeOf(err), status.SubOf(err); {
	case errors.Is(err, errLeftOut):
		return "without"
	case err == nil || code != status.CodeUnauthorized && code != status.CodeForbidden:
		if code == status.CodeInternal {
			t.Errorf("%s: %v", name, err)
		}
		return "yes"
	case sub != 0:
		return fmt.Sprintf("%d/%d", code, sub)
	default:
		return fmt.Sprint(int(code))
	}
}

// checkWalk reports operations that the test does not call.
func checkWalk(t *testing.T, operations map[string]func(context.Context, auth.Caller) error) {
	t.Helper()
	walked := map[string]bool{}
	for name := range operations {
		method, _, _ := strings.Cut(name, "/")
		walked[method] = true
	}
	kind := reflect.TypeFor[*engine.Engine]()
	for i := range kind.NumMethod() {
		method := kind.Method(i)
		for j := range method.Type.NumIn() {
			if method.Type.In(j) == reflect.TypeFor[auth.Caller]() && !walked[method.Name] {
				t.Errorf("the engine has the operation %s: add it to operations and to docs/access.md", method.Name)
			}
		}
	}
}

// TestTokensOfScripts shows that the token of a stored procedure runs it, under
// any key or only the key of the token, and allows nothing else in the container
// (S103).
func TestTokensOfScripts(t *testing.T) {
	t.Parallel()
	a := newAccessWorld(t, false)
	for _, id := range []string{"mark", "other"} {
		a.procedure(t, a.link, id, `function (t, u) { __.createDocument(__.getSelfLink(), { id: "marked", t, u }); }`)
	}
	tokens := map[string]auth.Caller{
		"all":  a.token(t, "p", "All", "dbs/d/colls/c/sprocs/mark", ""),
		"key":  a.token(t, "k", "All", "dbs/d/colls/c/sprocs/mark", `["t3","u3"]`),
		"read": a.token(t, "r", "Read", "dbs/d/colls/c/sprocs/other", ""),
	}
	for _, c := range []struct {
		who, procedure, t, u string
		want                 status.Code
	}{
		{"all", "mark", "t1", "u1", 0},
		{"all", "mark", "t2", "u1", 0},
		{"all", "other", "t3", "u3", status.CodeForbidden},
		{"key", "mark", "t1", "u1", status.CodeForbidden},
		{"key", "mark", "t3", "u3", 0},
		{"key", "other", "t3", "u4", status.CodeForbidden},
		{"read", "other", "t4", "u4", status.CodeForbidden},
		{"read", "mark", "t4", "u4", status.CodeForbidden},
	} {
		under := key(t, fmt.Sprintf(`[%q,%q]`, c.t, c.u))
		_, err := a.Execute(t.Context(), tokens[c.who], engine.ExecuteRequest{Link: a.link, Procedure: c.procedure, Key: under, Args: []value.Value{value.String(c.t), value.String(c.u)}})
		if (err != nil || c.want != 0) && status.CodeOf(err) != c.want {
			t.Errorf("%s runs %s under %s: %v, want %d", c.who, c.procedure, under, err, c.want)
		}
	}
	if got, err := a.rows(t, a.link, "SELECT VALUE c.t FROM c WHERE c.id = 'marked' ORDER BY c.t"); err != nil || got != `"t1" "t2" "t3"` {
		t.Errorf("runs have marked %s, %v", got, err)
	}
	for _, c := range []struct {
		who  string
		want status.Code
	}{{"all", status.CodeForbidden}, {"key", status.CodeForbidden}, {"read", 0}} {
		_, err := a.ReadScript(t.Context(), tokens[c.who], engine.ScriptRequest{Kind: resource.Procedure, Link: a.link, Script: "other"})
		if (err != nil || c.want != 0) && status.CodeOf(err) != c.want {
			t.Errorf("%s reads the other procedure: %v, want %d", c.who, err, c.want)
		}
	}
}

// TestTokenKeepsItsID shows that the token of one item cannot replace it by an
// item with another id, neither in the request nor by a trigger that the request
// names (S103).
func TestTokenKeepsItsID(t *testing.T) {
	t.Parallel()
	a := newAccessWorld(t, false)
	a.script(t, a.link, resource.Trigger, `{"id":"rename","triggerType":"Pre","triggerOperation":"All",
		"body":"function () { const r = getContext().getRequest(); r.setBody({ ...r.getBody(), id: '4' }); }"}`)
	who := a.token(t, "p", "All", "dbs/d/colls/c/docs/1", "")
	replace := func(who auth.Caller, id string, triggers ...string) error {
		body := fmt.Sprintf(`{"id":%q,"t":"t1","u":"u1"}`, id)
		_, err := a.Replace(t.Context(), who, engine.DocumentRequest{
			Link: engine.Link{Database: "d", Container: "c", Document: "1"}, Document: parse(t, body), Size: len(body), PreTriggers: triggers,
		})
		return err
	}
	batched := func(id string) error {
		body := fmt.Sprintf(`{"id":%q,"t":"t1","u":"u1"}`, id)
		_, err := a.Batch(t.Context(), who, engine.BatchRequest{Link: a.link, Key: key(t, `["t1","u1"]`), Operations: []engine.BatchOperation{
			{Action: auth.Replace, ID: "1", Body: parse(t, body), Size: len(body)},
		}})
		return err
	}
	for name, err := range map[string]error{
		"by the request": replace(who, "4"), "by a trigger": replace(who, "1", "rename"), "in a batch": batched("4"),
	} {
		if status.CodeOf(err) != status.CodeForbidden {
			t.Errorf("renamed %s: %v, want 403", name, err)
		}
	}
	for name, err := range map[string]error{"by the request": replace(who, "1"), "in a batch": batched("1")} {
		if err != nil {
			t.Errorf("replaced %s: %v", name, err)
		}
	}
	if got, err := a.rows(t, a.link, "SELECT VALUE c.id FROM c ORDER BY c.id"); err != nil || got != `"1" "2" "3"` {
		t.Errorf("there are %s, %v", got, err)
	}
	if err := replace(caller, "1", "rename"); err != nil {
		t.Errorf("the trigger, called with the key: %v", err)
	}
}

// TestTokenLife shows how long a token is valid: up to the second of its end,
// while its permission allows the same, and with the keys that signed it.
func TestTokenLife(t *testing.T) {
	t.Parallel()
	a := newAccessWorld(t, false)
	token := auth.Credentials{Authorization: a.permit(t, "p", "Read", "dbs/d/colls/c", "")}
	check := func(when string, want status.Code) {
		t.Helper()
		if _, err := a.Verify(token); status.CodeOf(err) != want && (err != nil || want != 0) {
			t.Errorf("%s: %v, want %d", when, err, want)
		}
	}
	check("fresh", 0)
	a.clock.set(accessNow.Add(resource.TokenLifetimeDefault - time.Second))
	check("in its last second", 0)
	a.clock.set(accessNow.Add(resource.TokenLifetimeDefault))
	check("at its end", status.CodeForbidden)

	a.clock.set(accessNow)
	a.reopen(t)
	check("after a restart", 0)
	if _, err := a.RegenerateKey(t.Context(), caller, resource.SecondaryKey); err != nil {
		t.Fatal(err)
	}
	check("after another key was replaced", 0)
	if _, err := a.RegenerateKey(t.Context(), caller, resource.PrimaryKey); err != nil {
		t.Fatal(err)
	}
	check("after its key was replaced", status.CodeUnauthorized)
}

// TestDroppedWithOwner shows that a permission is deleted with its container
// and its database, in the stored catalog, too.
func TestDroppedWithOwner(t *testing.T) {
	t.Parallel()
	a := newAccessWorld(t, false)
	token := auth.Credentials{Authorization: a.permit(t, "p", "Read", "dbs/d/colls/c", "")}
	if _, err := a.DeleteContainer(t.Context(), caller, engine.ContainerRequest{Link: a.link}); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"at once", "after a restart"} {
		if _, err := a.Verify(token); status.CodeOf(err) != status.CodeForbidden {
			t.Errorf("%s: %v", when, err)
		}
		page, err := a.ListPermissions(t.Context(), caller, engine.PermissionRequest{Link: a.link, User: "ann"}, engine.QueryRequest{})
		if err != nil || len(page.Rows) != 0 {
			t.Errorf("%s: %d permissions, %v", when, len(page.Rows), err)
		}
		a.reopen(t)
	}
	if _, err := a.DeleteDatabase(t.Context(), caller, engine.DatabaseRequest{Link: engine.Link{Database: "d"}}); err != nil {
		t.Fatal(err)
	}
	a.reopen(t)
	if _, err := a.CreateDatabase(t.Context(), caller, engine.DatabaseRequest{Body: parse(t, `{"id":"d"}`)}); err != nil {
		t.Fatal(err)
	}
	page, err := a.ListUsers(t.Context(), caller, engine.QueryRequest{Link: engine.Link{Database: "d"}})
	if err != nil || len(page.Rows) != 0 {
		t.Errorf("a new database has %d users, %v", len(page.Rows), err)
	}
}

// TestRotation replaces each key of the account: the new key allows what the old
// one did, and the old one is refused, also after a restart, until the
// configuration has another key.
func TestRotation(t *testing.T) {
	t.Parallel()
	a := newAccessWorld(t, false)
	for _, c := range []struct {
		which resource.AccountKey
		of    func(auth.Keys) string
		kind  auth.Kind
	}{
		{resource.PrimaryKey, func(k auth.Keys) string { return k.Primary }, auth.Master},
		{resource.SecondaryKey, func(k auth.Keys) string { return k.Secondary }, auth.Master},
		{resource.PrimaryReadonlyKey, func(k auth.Keys) string { return k.PrimaryReadonly }, auth.Reader},
		{resource.SecondaryReadonlyKey, func(k auth.Keys) string { return k.SecondaryReadonly }, auth.Reader},
	} {
		keys, err := a.AccountKeys(t.Context(), caller)
		if err != nil {
			t.Fatal(err)
		}
		before := c.of(keys)
		if keys, err = a.RegenerateKey(t.Context(), caller, c.which); err != nil {
			t.Fatal(err)
		}
		for _, when := range []string{"at once", "after a restart"} {
			if who, err := a.signed(t, c.of(keys)); err != nil || who.Kind() != c.kind {
				t.Errorf("%s, the new %s key: %s, %v", when, c.which, who.Kind(), err)
			}
			if _, err := a.signed(t, before); status.CodeOf(err) != status.CodeUnauthorized {
				t.Errorf("%s, the old %s key: %v", when, c.which, err)
			}
			a.reopen(t)
		}
		if again, err := a.AccountKeys(t.Context(), caller); err != nil || c.of(again) != c.of(keys) {
			t.Errorf("the %s key is listed with another text, %v", c.which, err)
		}
	}
	made := a.PrimaryKey()
	other, err := auth.NewVerifier(auth.Keys{Primary: "YW5vdGhlciBrZXkgb2YgdGhlIHVzZXI="}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	a.cfg.Verifier = other
	a.reopen(t)
	if _, err := a.signed(t, other.Keys().Primary); err != nil {
		t.Errorf("a newly configured key: %v", err)
	}
	if _, err := a.signed(t, made); status.CodeOf(err) != status.CodeUnauthorized {
		t.Errorf("the key that it replaces: %v", err)
	}
}

// TestRoles assigns custom roles at each scope, and removes the assignments.
func TestRoles(t *testing.T) {
	t.Parallel()
	a := newAccessWorld(t, false)
	const items = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/"
	role := fmt.Sprintf(`{"roleName":"writer","assignableScopes":["/dbs/d"],"permissions":[{"dataActions":["%screate"]},{"dataActions":["%sRead"]}]}`, items, items)
	if _, err := a.PutRole(t.Context(), caller, guid(1), parse(t, role)); err != nil {
		t.Fatal(err)
	}
	read := func() error {
		who, err := a.Verify(auth.Credentials{Authorization: a.bearer(t, "ann")})
		if err != nil {
			return err
		}
		_, err = a.Read(t.Context(), who, engine.DocumentRequest{Link: engine.Link{Database: "d", Container: "c", Document: "1"}, Key: key(t, `["t1","u1"]`)})
		return err
	}
	if err := read(); status.SubOf(err) != status.SubRoleData {
		t.Errorf("without an assignment: %v", err)
	}
	for scope, want := range map[string]status.Code{"/": 400, "/dbs/e": 400, "/dbs/d/colls/other": 403, "/dbs/d/colls/c": 0, "/dbs/d": 0} {
		body := fmt.Sprintf(`{"roleDefinitionId":"/x/%s","scope":%q,"principalId":"ann"}`, guid(1), scope)
		_, err := a.PutRoleAssignment(t.Context(), caller, guid(2), parse(t, body))
		if err == nil {
			err = read()
			if err := a.DeleteRoleAssignment(t.Context(), caller, guid(2)); err != nil {
				t.Error(err)
			}
		}
		if (err != nil || want != 0) && status.CodeOf(err) != want {
			t.Errorf("at %s: %v, want %d", scope, err, want)
		}
	}
	a.assign(t, 3, guid(1), "/dbs/d", "ann")
	if err := a.DeleteRole(t.Context(), caller, guid(1)); status.CodeOf(err) != status.CodeConflict {
		t.Errorf("delete an assigned role: %v", err)
	}
	a.reopen(t)
	if err := read(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if err := a.DeleteRole(t.Context(), caller, resource.DataReaderID); status.CodeOf(err) != status.CodeForbidden {
		t.Errorf("delete a built-in role: %v", err)
	}
}
