package admin

import (
	"net/http"
	"strings"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/resource"
)

// The paths of roles in the form of the service's management API, with and without the
// path of the account.
const (
	definitionsPath = "/sqlRoleDefinitions"
	assignmentsPath = "/sqlRoleAssignments"

	typePrefix = "Microsoft.DocumentDB/databaseAccounts"
)

func (h *handler) roleRoutes(mux *http.ServeMux) {
	for _, account := range []string{accountPath, ""} {
		definitions, assignments := account+definitionsPath, account+assignmentsPath
		mux.HandleFunc("GET "+definitions, h.keyed(h.listRoles))
		mux.HandleFunc("GET "+definitions+"/{id}", h.keyed(h.readRole))
		mux.HandleFunc("PUT "+definitions+"/{id}", h.keyed(h.putRole))
		mux.HandleFunc("DELETE "+definitions+"/{id}", h.keyed(h.deleteRole))
		mux.HandleFunc("GET "+assignments, h.keyed(h.listAssignments))
		mux.HandleFunc("GET "+assignments+"/{id}", h.keyed(h.readAssignment))
		mux.HandleFunc("PUT "+assignments+"/{id}", h.keyed(h.putAssignment))
		mux.HandleFunc("DELETE "+assignments+"/{id}", h.keyed(h.deleteAssignment))
	}
}

// managedResource is the envelope of a resource of the management API.
type managedResource struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Type       string `json:"type"`
	Properties any    `json:"properties"`
}

type managedList struct {
	Value []managedResource `json:"value"`
}

type roleProperties struct {
	Name        string           `json:"roleName"`
	Type        string           `json:"type"`
	Scopes      []string         `json:"assignableScopes"`
	Permissions []rolePermission `json:"permissions"`
}

type rolePermission struct {
	Actions    []string `json:"dataActions"`
	NotActions []string `json:"notDataActions"`
}

type assignmentProperties struct {
	Definition string `json:"roleDefinitionId"`
	Scope      string `json:"scope"`
	Principal  string `json:"principalId"`
}

// accountOf returns the path of the account in the form of the request. The ids in the
// answer begin with it.
func accountOf(hr *http.Request, from string) string {
	account, _, _ := strings.Cut(hr.URL.Path, from)
	return account
}

func describeRole(hr *http.Request, role resource.RoleDefinition) managedResource {
	properties := roleProperties{Name: role.Name, Type: "CustomRole", Scopes: role.Scopes, Permissions: []rolePermission{}}
	account := accountOf(hr, definitionsPath)
	if role.BuiltIn {
		properties.Type = "BuiltInRole"
		if account != "" {
			properties.Scopes = []string{account}
		}
	}
	for _, actions := range role.Permissions {
		properties.Permissions = append(properties.Permissions, rolePermission{Actions: actions, NotActions: []string{}})
	}
	return managedResource{account + definitionsPath + "/" + role.ID, role.ID, typePrefix + definitionsPath, properties}
}

func describeAssignment(hr *http.Request, one resource.RoleAssignment) managedResource {
	account := accountOf(hr, assignmentsPath)
	return managedResource{account + assignmentsPath + "/" + one.ID, one.ID, typePrefix + assignmentsPath, assignmentProperties{
		Definition: account + definitionsPath + "/" + one.Definition,
		Scope:      one.Scope,
		Principal:  one.Principal,
	}}
}

func (h *handler) listRoles(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if _, err := h.managed(hr); err != nil {
		return err
	}
	roles, err := h.engine.ListRoles(hr.Context(), caller)
	if err != nil {
		return err
	}
	list := managedList{Value: make([]managedResource, len(roles))}
	for i, role := range roles {
		list.Value[i] = describeRole(hr, role)
	}
	return write(hw, http.StatusOK, list)
}

func (h *handler) readRole(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if _, err := h.managed(hr); err != nil {
		return err
	}
	role, err := h.engine.ReadRole(hr.Context(), caller, hr.PathValue("id"))
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, describeRole(hr, role))
}

func (h *handler) putRole(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if _, err := h.managed(hr); err != nil {
		return err
	}
	body, err := h.readObject(hw, hr)
	if err != nil {
		return err
	}
	role, err := h.engine.PutRole(hr.Context(), caller, hr.PathValue("id"), body.Get("properties"))
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, describeRole(hr, role))
}

func (h *handler) deleteRole(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if _, err := h.managed(hr); err != nil {
		return err
	}
	if err := h.engine.DeleteRole(hr.Context(), caller, hr.PathValue("id")); err != nil {
		return err
	}
	hw.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *handler) listAssignments(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if _, err := h.managed(hr); err != nil {
		return err
	}
	assignments, err := h.engine.ListRoleAssignments(hr.Context(), caller)
	if err != nil {
		return err
	}
	list := managedList{Value: make([]managedResource, len(assignments))}
	for i, one := range assignments {
		list.Value[i] = describeAssignment(hr, one)
	}
	return write(hw, http.StatusOK, list)
}

func (h *handler) readAssignment(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if _, err := h.managed(hr); err != nil {
		return err
	}
	one, err := h.engine.ReadRoleAssignment(hr.Context(), caller, hr.PathValue("id"))
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, describeAssignment(hr, one))
}

func (h *handler) putAssignment(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if _, err := h.managed(hr); err != nil {
		return err
	}
	body, err := h.readObject(hw, hr)
	if err != nil {
		return err
	}
	one, err := h.engine.PutRoleAssignment(hr.Context(), caller, hr.PathValue("id"), body.Get("properties"))
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, describeAssignment(hr, one))
}

func (h *handler) deleteAssignment(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if _, err := h.managed(hr); err != nil {
		return err
	}
	if err := h.engine.DeleteRoleAssignment(hr.Context(), caller, hr.PathValue("id")); err != nil {
		return err
	}
	hw.WriteHeader(http.StatusNoContent)
	return nil
}
