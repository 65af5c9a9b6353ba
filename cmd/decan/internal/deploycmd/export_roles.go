package deploycmd

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/deploy"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// accountExpression is the id of the account in an exported template.
const accountExpression = "resourceId('Microsoft.DocumentDB/databaseAccounts', parameters('account'))"

// role is a role definition or assignment as the admin port lists it.
type role struct {
	Name       string
	Properties struct {
		RoleName         string
		Type             string
		AssignableScopes []string
		Permissions      []struct{ DataActions []string }

		RoleDefinitionID string `json:"roleDefinitionId"`
		Scope            string
		PrincipalID      string `json:"principalId"`
	}
}

// roles exports the role assignments of a database and what is below it, with the
// definitions that these use and those that can be assigned only there; without a name all
// roles. The account of Azure has no admin port to list them: a note says so.
func (e *exporter) roles(ctx context.Context, database string) error {
	definitions, err := e.listRoles(ctx, "sqlRoleDefinitions")
	if err == nil {
		var assignments []role
		if assignments, err = e.listRoles(ctx, "sqlRoleAssignments"); err == nil {
			e.addRoles(definitions, assignments, database)
		}
	}
	if err != nil && ctx.Err() == nil {
		e.notes = append(e.notes, "roles are not exported: the admin port ("+e.admin.Endpoint+", --admin) lists them: "+err.Error())
		return nil
	}
	return err
}

func (e *exporter) listRoles(ctx context.Context, path string) ([]role, error) {
	var answer json.RawMessage
	if err := e.admin.Send(ctx, http.MethodGet, path, nil, &answer); err != nil {
		return nil, err
	}
	var list struct{ Value []role }
	err := e.admin.Decode(answer, &list)
	return list.Value, err
}

// addRoles adds the definitions that are not built in, then the assignments.
func (e *exporter) addRoles(definitions, assignments []role, database string) {
	assignments = slices.DeleteFunc(assignments, func(r role) bool { return !within(r.Properties.Scope, database) })
	used := map[string]bool{}
	for _, assignment := range assignments {
		used[definitionOf(assignment)] = true
	}
	own := map[string]bool{}
	for _, r := range definitions {
		outside := slices.ContainsFunc(r.Properties.AssignableScopes, func(scope string) bool { return !within(scope, database) })
		if r.Properties.Type == "BuiltInRole" || outside && !used[r.Name] {
			continue
		}
		own[r.Name] = true
		var scopes, permissions []any
		for _, scope := range r.Properties.AssignableScopes {
			scopes = append(scopes, scopeExpression(scope))
		}
		for _, permission := range r.Properties.Permissions {
			var actions []any
			for _, action := range permission.DataActions {
				actions = append(actions, action)
			}
			permissions = append(permissions, jsonc.NewObject("dataActions", jsonc.NewArray(actions...)))
		}
		e.addRole("sqlRoleDefinitions", r.Name, nil, jsonc.NewObject("roleName", escaped(r.Properties.RoleName), "type", "CustomRole",
			"assignableScopes", jsonc.NewArray(scopes...), "permissions", jsonc.NewArray(permissions...)))
	}
	for _, r := range assignments {
		var needs []any
		definition := "[resourceId('" + exportPrefix + "sqlRoleDefinitions', parameters('account'), '" + definitionOf(r) + "')]"
		if own[definitionOf(r)] {
			needs = append(needs, definition)
		}
		e.addRole("sqlRoleAssignments", r.Name, needs, jsonc.NewObject("roleDefinitionId", definition,
			"principalId", escaped(r.Properties.PrincipalID), "scope", scopeExpression(r.Properties.Scope)))
	}
}

// addRole adds a resource below the account whose properties are not a definition with
// options.
func (e *exporter) addRole(kind, name string, needs []any, properties *jsonc.Object) {
	resource := jsonc.NewObject("type", exportPrefix+kind, "apiVersion", exportVersion, "name", "[format('{0}/"+name+"', parameters('account'))]")
	if len(needs) > 0 {
		resource.Set("dependsOn", jsonc.NewArray(needs...))
	}
	resource.Set("properties", properties)
	e.resources = append(e.resources, resource)
}

// definitionOf returns the name of the definition of an assignment.
func definitionOf(assignment role) string {
	id := assignment.Properties.RoleDefinitionID
	return id[strings.LastIndexByte(id, '/')+1:]
}

// within reports whether a scope is a database or below it; without a name every scope is.
func within(scope, database string) bool {
	path := deploy.BelowAccount(scope) + "/"
	return database == "" || strings.HasPrefix(path, "/dbs/"+database+"/")
}

// scopeExpression returns the expression of a scope in any account.
func scopeExpression(scope string) string {
	path := deploy.BelowAccount(scope)
	if path == "" {
		return "[" + accountExpression + "]"
	}
	return "[format('{0}" + strings.NewReplacer("'", "''", "{", "{{", "}", "}}").Replace(path) + "', " + accountExpression + ")]"
}
