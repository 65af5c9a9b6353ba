package engine

import (
	"context"
	"strings"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// PutRole creates or changes the custom role with a GUID. properties are those
// of the management API. The caller must be an administrator, as for all
// operations on roles.
func (e *Engine) PutRole(ctx context.Context, caller auth.Caller, id string, properties value.Value) (resource.RoleDefinition, error) {
	id, err := e.mayGiveRoles(caller, id)
	if err != nil {
		return resource.RoleDefinition{}, err
	}
	role, err := resource.ParseRoleDefinition(id, properties, e.account.ID)
	if err != nil {
		return role, err
	}
	for _, other := range e.catalog.View().Roles() {
		if other.ID != id && strings.EqualFold(other.Name, role.Name) {
			fault := status.Conflict()
			fault.Message = "The role " + other.ID + " has the name '" + other.Name + "' already."
			return role, fault
		}
	}
	_, err = e.catalog.Commit(ctx, catalog.PutRole{Role: role})
	return role, fail(err)
}

// ReadRole returns the role with a GUID.
func (e *Engine) ReadRole(_ context.Context, caller auth.Caller, id string) (resource.RoleDefinition, error) {
	id, err := e.mayGiveRoles(caller, id)
	if err != nil {
		return resource.RoleDefinition{}, err
	}
	role, ok := e.catalog.View().Role(id)
	if !ok {
		return role, status.NotFound()
	}
	return role, nil
}

// ListRoles returns all roles, the built-in ones first.
func (e *Engine) ListRoles(_ context.Context, caller auth.Caller) ([]resource.RoleDefinition, error) {
	if err := caller.Allow(auth.Administer, status.Path{}); err != nil {
		return nil, err
	}
	return e.catalog.View().Roles(), nil
}

// DeleteRole removes a custom role that is not assigned.
func (e *Engine) DeleteRole(ctx context.Context, caller auth.Caller, id string) error {
	id, err := e.mayGiveRoles(caller, id)
	if err != nil {
		return err
	}
	_, err = e.catalog.Commit(ctx, catalog.DeleteRole{ID: id})
	return fail(err)
}

// PutRoleAssignment assigns a role to a principal. properties are those of the
// management API. The error is 400 if the role may not be assigned at the
// scope.
func (e *Engine) PutRoleAssignment(ctx context.Context, caller auth.Caller, id string, properties value.Value) (resource.RoleAssignment, error) {
	id, err := e.mayGiveRoles(caller, id)
	if err != nil {
		return resource.RoleAssignment{}, err
	}
	one, err := resource.ParseRoleAssignment(id, properties, e.account.ID)
	if err != nil {
		return one, err
	}
	role, ok := e.catalog.View().Role(one.Definition)
	if !ok {
		return one, status.BadRequest("The role definition %s does not exist.", one.Definition)
	}
	at, err := resource.ParseScope(one.Scope, e.account.ID)
	if err != nil {
		return one, err
	}
	if !role.AssignableAt(at, e.account.ID) {
		return one, status.BadRequest("The role '%s' cannot be given at the scope %s: it is not at or below one of its assignable scopes.", role.Name, at)
	}
	_, err = e.catalog.Commit(ctx, catalog.PutRoleAssignment{Assignment: one})
	return one, fail(err)
}

// ReadRoleAssignment returns the assignment with a GUID.
func (e *Engine) ReadRoleAssignment(_ context.Context, caller auth.Caller, id string) (resource.RoleAssignment, error) {
	id, err := e.mayGiveRoles(caller, id)
	if err != nil {
		return resource.RoleAssignment{}, err
	}
	one, ok := e.catalog.View().RoleAssignment(id)
	if !ok {
		return one, status.NotFound()
	}
	return one, nil
}

// ListRoleAssignments returns all assignments.
func (e *Engine) ListRoleAssignments(_ context.Context, caller auth.Caller) ([]resource.RoleAssignment, error) {
	if err := caller.Allow(auth.Administer, status.Path{}); err != nil {
		return nil, err
	}
	return e.catalog.View().RoleAssignments(), nil
}

// DeleteRoleAssignment removes an assignment, with effect from the next
// request.
func (e *Engine) DeleteRoleAssignment(ctx context.Context, caller auth.Caller, id string) error {
	id, err := e.mayGiveRoles(caller, id)
	if err != nil {
		return err
	}
	_, err = e.catalog.Commit(ctx, catalog.DeleteRoleAssignment{ID: id})
	return fail(err)
}

// mayGiveRoles refuses callers that are not administrators, and returns a GUID
// in its stored form.
func (e *Engine) mayGiveRoles(caller auth.Caller, id string) (string, error) {
	if err := caller.Allow(auth.Administer, status.Path{}); err != nil {
		return "", err
	}
	id = strings.ToLower(id)
	if !resource.IsGUID(id) {
		return "", status.BadRequest("The id '%.64s' is not a GUID.", id)
	}
	return id, nil
}
