package admin_test

import (
	"encoding/json"
	"testing"

	"github.com/decandb/decan/internal/auth"
)

// TestAccountKeys lists keys and replaces one in the form of the management API: after
// the answer, the old key gets 401.
func TestAccountKeys(t *testing.T) {
	t.Parallel()
	door, _ := newDoor(t, nil)
	walk(t, door, []step{
		{"POST", arm + "/listKeys", "", 200, []string{`"primaryMasterKey":"` + auth.WellKnownKey + `"`, `"secondaryMasterKey":"`, `"primaryReadonlyMasterKey":"`, `"secondaryReadonlyMasterKey":"`}},
		{"POST", "/regenerateKey", `{"keyKind":"tertiary"}`, 400, nil},
		{"POST", "/regenerateKey", `{}`, 400, nil},
		{"POST", "/subscriptions/0/resourceGroups/rg/providers/Microsoft.DocumentDB/databaseAccounts/other/listKeys", "", 404, nil},
	})
	keys := func(method, target, body, key string) (found map[string]string) {
		t.Helper()
		answer, content := call(t, door, method, target, body, "x-decan-key", key)
		if answer.StatusCode != 200 || json.Unmarshal([]byte(content), &found) != nil {
			t.Fatalf("%s %s: %d %s", method, target, answer.StatusCode, content)
		}
		return found
	}
	listed := keys("POST", "/listKeys", "", auth.WellKnownKey)
	readers := keys("GET", arm+"/readonlykeys", "", auth.WellKnownKey)
	if len(readers) != 2 || readers["primaryReadonlyMasterKey"] != listed["primaryReadonlyMasterKey"] {
		t.Errorf("read-only keys: %d, or others than were listed", len(readers))
	}
	if answer, content := call(t, door, "POST", "/listKeys", "", "x-decan-key", readers["primaryReadonlyMasterKey"]); answer.StatusCode != 403 {
		t.Errorf("with a read-only key: %d %s", answer.StatusCode, content)
	}
	made := keys("POST", arm+"/regenerateKey", `{"keyKind":"primary"}`, auth.WellKnownKey)
	if made["primaryMasterKey"] == auth.WellKnownKey || made["secondaryMasterKey"] != listed["secondaryMasterKey"] {
		t.Error("another key than the primary one was replaced")
	}
	if answer, content := call(t, door, "POST", "/listKeys", "", "x-decan-key", auth.WellKnownKey); answer.StatusCode != 401 {
		t.Errorf("with the old key: %d %s", answer.StatusCode, content)
	}
	keys("POST", "/listKeys", "", made["primaryMasterKey"])
	keys("POST", "/listKeys", "", made["secondaryMasterKey"])
}

// TestRoleResources creates, changes and deletes roles and assignments in the form of
// the management API.
func TestRoleResources(t *testing.T) {
	t.Parallel()
	door, _ := newDoor(t, nil)
	const (
		role   = "/sqlRoleDefinitions/AAAAAAAA-0000-0000-0000-000000000001"
		own    = "aaaaaaaa-0000-0000-0000-000000000001"
		given  = "/sqlRoleAssignments/bbbbbbbb-0000-0000-0000-000000000001"
		action = "Microsoft.DocumentDB/databaseAccounts/readMetadata"
		body   = `{"properties":{"roleName":"r","type":"CustomRole","assignableScopes":["` + arm + `/dbs/d"],"permissions":[{"dataActions":["` + action + `"],"notDataActions":[]}]}}`
	)
	walk(t, door, []step{
		{"GET", arm + "/sqlRoleDefinitions", "", 200, []string{`"roleName":"Cosmos DB Built-in Data Reader","type":"BuiltInRole","assignableScopes":["` + arm + `"]`}},
		{"GET", arm + "/sqlRoleDefinitions/00000000-0000-0000-0000-000000000002", "", 200, []string{`"roleName":"Cosmos DB Built-in Data Contributor"`}},
		{"PUT", arm + role, body, 200, []string{`"id":"` + arm + `/sqlRoleDefinitions/` + own + `","name":"` + own + `","type":"Microsoft.DocumentDB/databaseAccounts/sqlRoleDefinitions"`, `"dataActions":["` + action + `"]`}},
		{"GET", role, "", 200, []string{`"roleName":"r"`}},
		{"PUT", "/sqlRoleDefinitions/00000000-0000-0000-0000-000000000001", body, 409, nil},
		{"PUT", "/sqlRoleDefinitions/none", body, 400, nil},
		{"PUT", role, `{"properties":{"roleName":"r","assignableScopes":["/"],"permissions":[{"dataActions":["a"]}]}}`, 400, nil},
		{"PUT", role, `{"properties":{"roleName":"r","assignableScopes":["/"],"permissions":[{"dataActions":["` + action + `"],"notDataActions":["` + action + `"]}]}}`, 400, nil},
		{"PUT", role, `{"properties":{"roleName":"r","assignableScopes":[],"permissions":[{"dataActions":["` + action + `"]}]}}`, 400, nil},
		{"PUT", role, `{"properties":{"roleName":"r","assignableScopes":["/x"],"permissions":[{"dataActions":["` + action + `"]}]}}`, 400, nil},
		{"PUT", arm + given, `{"properties":{"roleDefinitionId":"` + arm + role + `","scope":"` + arm + `/dbs/d","principalId":"p"}}`, 200, []string{`"scope":"` + arm + `/dbs/d","principalId":"p"`}},
		{"PUT", given, `{"properties":{"roleDefinitionId":"` + own + `","scope":"/","principalId":"p"}}`, 400, nil},
		{"PUT", given, `{"properties":{"roleDefinitionId":"aaaaaaaa-0000-0000-0000-000000000009","scope":"/dbs/d","principalId":"p"}}`, 400, nil},
		{"PUT", given, `{"properties":{"roleDefinitionId":"` + own + `","scope":"/dbs/d"}}`, 400, nil},
		{"GET", given, "", 200, []string{`"roleDefinitionId":"/sqlRoleDefinitions/` + own + `"`}},
		{"GET", "/sqlRoleAssignments", "", 200, []string{`{"value":[{"id":"/sqlRoleAssignments/bbbbbbbb-`}},
		{"DELETE", role, "", 409, nil},
		{"DELETE", given, "", 204, nil},
		{"DELETE", given, "", 404, nil},
		{"GET", given, "", 404, nil},
		{"DELETE", role, "", 204, nil},
		{"GET", role, "", 404, nil},
		{"DELETE", "/sqlRoleDefinitions/00000000-0000-0000-0000-000000000001", "", 403, nil},
	})
}
