package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

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

// TestTokensOfBulkInsert shows that a bulk insert in a physical partition takes the right
// to write each of its documents (S103).
func TestTokensOfBulkInsert(t *testing.T) {
	t.Parallel()
	a := newAccessWorld(t, false)
	c, _ := a.catalog.View().Container("d", "c")
	document := parse(t, `{"id":"bulk","t":"t1","u":"u1"}`)
	partition := c.Ranges.Locate(c.PartitionKey.Hash(c.KeyOf(document))).Value.ID
	for i, who := range []struct {
		resource, key string
		mode          string
		want          status.Code
	}{
		{"dbs/d/colls/c", "", "All", 0},
		{"dbs/d/colls/c", `["t1","u1"]`, "All", status.CodeConflict}, // it exists by then
		{"dbs/d/colls/c", `["t2","u1"]`, "All", status.CodeForbidden},
		{"dbs/d/colls/c", `["t3","u1"]`, "Read", status.CodeForbidden},
		{"dbs/d/colls/c/docs/bulk", "", "All", status.CodeForbidden},
		{"dbs/d/colls/c/sprocs/__.sys.commonBulkInsert", "", "All", status.CodeForbidden},
	} {
		token := a.token(t, fmt.Sprint("p", i), who.mode, who.resource, who.key)
		done, err := a.Execute(t.Context(), token, engine.ExecuteRequest{Link: a.link, Procedure: "__.sys.commonBulkInsert", Partition: &partition, Args: []value.Value{value.Array([]value.Value{document})}})
		if (err != nil || who.want != 0) && status.CodeOf(err) != who.want {
			t.Errorf("%s of %s %s: %s, %v, want %d", who.mode, who.resource, who.key, done.Body, err, who.want)
		}
	}
	_, err := a.Execute(t.Context(), auth.Owner(), engine.ExecuteRequest{Link: engine.Link{Database: "d", Container: "none"}, Procedure: "__.sys.commonBulkInsert", Partition: &partition, Args: []value.Value{value.Array(nil)}})
	if status.CodeOf(err) != status.CodeNotFound {
		t.Errorf("in a container that does not exist: %v", err)
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
