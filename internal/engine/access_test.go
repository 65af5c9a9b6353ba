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
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
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
	table  resource.RID
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
		cfg.PrefixPermissions, cfg.PrefixDeletes = prefixes, true
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
	a.table = newTable(t, a.world, 1)
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
		"StartRecording": func(_ context.Context, c auth.Caller) error {
			return a.StartRecording(c, engine.Link{Database: "none", Container: "none"})
		},
		"StopRecording": func(_ context.Context, c auth.Caller) error {
			_, err := a.StopRecording(c, engine.Link{Database: "none", Container: "none"})
			return err
		},
		"RunningQueries": func(_ context.Context, c auth.Caller) error { _, err := a.RunningQueries(c); return err },
		"CancelQuery":    func(_ context.Context, c auth.Caller) error { return a.CancelQuery(c, "none") },

		"Create":                      of(a.Create, document(a.link, "", own)),
		"Create/another key":          of(a.Create, document(a.link, "", `{"id":"2","t":"t2","u":"u1"}`)),
		"Create/another id":           of(a.Create, document(a.link, "", others)),
		"Upsert":                      of(a.Upsert, document(a.link, "", own)),
		"Upsert/another id":           of(a.Upsert, document(a.link, "", others)),
		"Read":                        of(a.Read, document(item, `["t1","u1"]`, own)),
		"Read/another key":            of(a.Read, document(engine.Link{Database: "d", Container: "c", Document: "2"}, `["t2","u1"]`, own)),
		"Replace":                     of(a.Replace, document(item, "", own)),
		"Replace/another id":          of(a.Replace, document(other, "", others)),
		"Replace/to another id":       of(a.Replace, document(item, "", renamed)),
		"Delete":                      of(a.Delete, document(item, `["t1","u1"]`, own)),
		"Patch":                       of(a.Patch, document(item, `["t1","u1"]`, change)),
		"Patch/another id":            of(a.Patch, document(other, `["t1","u1"]`, change)),
		"DeleteByKey":                 of(a.DeleteByKey, purge(`["t1","u1"]`)),
		"DeleteByKey/another":         of(a.DeleteByKey, purge(`["t2","u1"]`)),
		"DeleteByKey/prefix":          of(a.DeleteByKey, purge(`["t1"]`)),
		"Batch/Read":                  of(a.Batch, batch(auth.Read, "1", own)),
		"Batch/Replace":               of(a.Batch, batch(auth.Replace, "1", own)),
		"Batch/Replace another id":    of(a.Batch, batch(auth.Replace, "3", others)),
		"Batch/Replace to another id": of(a.Batch, batch(auth.Replace, "1", renamed)),
		"Batch/Patch another id":      of(a.Batch, batch(auth.Patch, "3", change)),
		"List":                        of(a.List, rows(a.link, "")),
		"List/its key":                of(a.List, rows(a.link, `["t1","u1"]`)),
		"Query":                       of(a.Query, rows(a.link, "")),
		"Query/its key":               of(a.Query, rows(a.link, `["t1","u1"]`)),
		"Query/another key":           of(a.Query, rows(a.link, `["t2","u1"]`)),
		"Query/prefix of a key":       of(a.Query, rows(a.link, `["t1"]`)),
		"QueryPlan":                   of(a.QueryPlan, engine.PlanRequest{Link: a.link, Text: "SELECT * FROM c"}),
		"Feed":                        of(a.Feed, feed("")),
		"Feed/its key":                of(a.Feed, feed(`["t1","u1"]`)),
		"CreateScript":                of(a.CreateScript, engine.ScriptRequest{Kind: resource.Function, Link: a.link, Body: wrong}),
		"UpsertScript": func(ctx context.Context, c auth.Caller) error {
			_, _, err := a.UpsertScript(ctx, c, engine.ScriptRequest{Kind: resource.Function, Link: a.link, Body: wrong})
			return err
		},
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
		"CreateKeyspace":  of(a.CreateKeyspace, engine.KeyspaceRequest{Name: "d"}),
		"ReplaceKeyspace": of(a.ReplaceKeyspace, engine.KeyspaceRequest{Name: "ks", Version: noETag}),
		"DropKeyspace":    of(a.DropKeyspace, engine.KeyspaceRequest{Name: "none"}),
		"CreateTable":     of(a.CreateTable, engine.TableRequest{Keyspace: "ks", Name: "user"}),
		"ReplaceTable":    of(a.ReplaceTable, engine.TableRequest{Keyspace: "ks", Name: "user", Version: noETag}),
		"DropTable":       of(a.DropTable, engine.TableRequest{Keyspace: "ks", Name: "none"}),
		"TruncateTable":   of(a.TruncateTable, engine.TableRequest{Keyspace: "ks", Name: "none"}),
		"ReplaceTables":   of(a.ReplaceTables, []engine.TableRequest{{Keyspace: "ks", Name: "none"}}),
		"WriteItems":      of(a.WriteItems, engine.WriteItemsRequest{Table: a.table, Key: "k", Change: changeFunc(func(partition.Items) error { return status.Conflict() })}),
		"WriteAllItems": func(ctx context.Context, c auth.Caller) error {
			_, errs := a.WriteAllItems(ctx, c, []engine.WriteItemsRequest{{Table: a.table, Key: "k", Change: changeFunc(func(partition.Items) error { return status.Conflict() })}})
			return errs[0]
		},
		"ItemFeed": of(a.ItemFeed, engine.ItemFeedRequest{Table: a.table, Range: partitionkey.Full(), Level: resource.Session}),
		"ReadItems": of(a.ReadItems, engine.ReadItemsRequest{
			Table: a.table, Key: "k", Slices: []partition.Slice{partition.Point("a")}, Visit: func(*partition.Item) (bool, error) { return true, nil },
		}),
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
