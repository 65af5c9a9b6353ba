package catalog

import (
	"cmp"
	"maps"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// The kinds of the rows of access that belong to no database; an id follows in
// place of a RID.
const (
	roleRow       = "role/"
	assignmentRow = "assignment/"
	accountKeyRow = "key/"
)

// access is the account's record of who may do what: roles, their assignments,
// and account keys that the server made. It never changes.
type access struct {
	roles       map[string]resource.RoleDefinition
	assignments map[string]resource.RoleAssignment
	byPrincipal map[string][]resource.RoleAssignment // the same assignments
	keys        map[resource.AccountKey]resource.StoredKey
}

func (a *access) clone() *access {
	return &access{maps.Clone(a.roles), maps.Clone(a.assignments), maps.Clone(a.byPrincipal), maps.Clone(a.keys)}
}

// newAccess returns the access of a new account.
func newAccess() *access {
	a := &access{
		map[string]resource.RoleDefinition{},
		map[string]resource.RoleAssignment{},
		map[string][]resource.RoleAssignment{},
		map[resource.AccountKey]resource.StoredKey{},
	}
	for _, role := range resource.BuiltInRoles() {
		a.roles[role.ID] = role
	}
	return a
}

// assign stores an assignment under its id and its principal.
func (a *access) assign(one resource.RoleAssignment) {
	a.unassign(one.ID)
	a.assignments[one.ID] = one
	list := append(slices.Clone(a.byPrincipal[one.Principal]), one)
	slices.SortFunc(list, func(a, b resource.RoleAssignment) int { return cmp.Compare(a.ID, b.ID) })
	a.byPrincipal[one.Principal] = list
}

func (a *access) unassign(id string) {
	old, ok := a.assignments[id]
	if !ok {
		return
	}
	delete(a.assignments, id)
	rest := slices.DeleteFunc(slices.Clone(a.byPrincipal[old.Principal]), func(one resource.RoleAssignment) bool { return one.ID == id })
	if a.byPrincipal[old.Principal] = rest; len(rest) == 0 {
		delete(a.byPrincipal, old.Principal)
	}
}

// Role returns a role by id, built-in or custom.
func (v *View) Role(id string) (resource.RoleDefinition, bool) {
	role, ok := v.access.roles[id]
	return role, ok
}

// Roles returns all roles in the order of their ids.
func (v *View) Roles() []resource.RoleDefinition {
	return slices.SortedFunc(maps.Values(v.access.roles), func(a, b resource.RoleDefinition) int { return cmp.Compare(a.ID, b.ID) })
}

// RoleAssignment returns an assignment by id.
func (v *View) RoleAssignment(id string) (resource.RoleAssignment, bool) {
	one, ok := v.access.assignments[id]
	return one, ok
}

// RoleAssignments returns all assignments in the order of their ids.
func (v *View) RoleAssignments() []resource.RoleAssignment {
	return slices.SortedFunc(maps.Values(v.access.assignments), func(a, b resource.RoleAssignment) int { return cmp.Compare(a.ID, b.ID) })
}

// AssignedTo returns the assignments of a principal in the order of their ids.
func (v *View) AssignedTo(principal string) []resource.RoleAssignment {
	return v.access.byPrincipal[principal]
}

// AccountKey returns the account key that the server made, if there is one.
func (v *View) AccountKey(which resource.AccountKey) (resource.StoredKey, bool) {
	key, ok := v.access.keys[which]
	return key, ok
}

// PutRole creates or changes a custom role: 403 for a built-in one, and if the
// account has as many as it may have.
type PutRole struct {
	Role resource.RoleDefinition
}

func (c PutRole) apply(d *draft) error {
	old, exists := d.view.access.roles[c.Role.ID]
	switch {
	case exists && old.BuiltIn:
		return status.Forbidden(0, "The built-in role %s cannot be changed.", old.ID)
	case !exists && len(d.view.access.roles) >= resource.RoleDefinitionsMax:
		return status.Forbidden(0, "The account has %d role definitions, the maximum. Delete one first.", resource.RoleDefinitionsMax)
	}
	d.view.access = d.view.access.clone()
	d.view.access.roles[c.Role.ID] = c.Role
	return d.putText(roleRow, c.Role.ID, c.Role)
}

// DeleteRole removes a custom role: 404 if it does not exist, 403 for a built-in
// one, 409 while it is assigned.
type DeleteRole struct {
	ID string
}

func (c DeleteRole) apply(d *draft) error {
	old, ok := d.view.access.roles[c.ID]
	switch {
	case !ok:
		return status.NotFound()
	case old.BuiltIn:
		return status.Forbidden(0, "The built-in role %s cannot be deleted.", old.ID)
	}
	for _, one := range d.view.access.assignments {
		if one.Definition == c.ID {
			e := status.Conflict()
			e.Message = "The role is assigned by " + one.ID + ". Delete its assignments first."
			return e
		}
	}
	d.view.access = d.view.access.clone()
	delete(d.view.access.roles, c.ID)
	d.removeText(roleRow, c.ID)
	return nil
}

// PutRoleAssignment gives a role to a principal, or changes the assignment: 400
// without the role, 403 if the account has as many assignments as it may have.
type PutRoleAssignment struct {
	Assignment resource.RoleAssignment
}

func (c PutRoleAssignment) apply(d *draft) error {
	if _, ok := d.view.access.roles[c.Assignment.Definition]; !ok {
		return status.BadRequest("The role definition %s does not exist.", c.Assignment.Definition)
	}
	_, exists := d.view.access.assignments[c.Assignment.ID]
	if !exists && len(d.view.access.assignments) >= resource.RoleAssignmentsMax {
		return status.Forbidden(0, "The account has %d role assignments, the maximum. Delete one first.", resource.RoleAssignmentsMax)
	}
	d.view.access = d.view.access.clone()
	d.view.access.assign(c.Assignment)
	return d.putText(assignmentRow, c.Assignment.ID, c.Assignment)
}

// DeleteRoleAssignment removes an assignment: 404 if it does not exist.
type DeleteRoleAssignment struct {
	ID string
}

func (c DeleteRoleAssignment) apply(d *draft) error {
	if _, ok := d.view.access.assignments[c.ID]; !ok {
		return status.NotFound()
	}
	d.view.access = d.view.access.clone()
	d.view.access.unassign(c.ID)
	d.removeText(assignmentRow, c.ID)
	return nil
}

// PutAccountKeys stores account keys that the server made, in place of those of
// the same kind.
type PutAccountKeys struct {
	Keys map[resource.AccountKey]resource.StoredKey
}

func (c PutAccountKeys) apply(d *draft) error {
	d.view.access = d.view.access.clone()
	for which, key := range c.Keys {
		d.view.access.keys[which] = key
		if err := d.putText(accountKeyRow, string(which), storedAccountKey{which, key}); err != nil {
			return err
		}
	}
	return nil
}

// storedAccountKey is the row of an account key.
type storedAccountKey struct {
	Which resource.AccountKey `json:"which"`
	resource.StoredKey
}

// loadAccess adds the stored roles, assignments and keys to the view.
func (v *View) loadAccess(snapshot *storage.Snapshot) error {
	err := scan(snapshot, roleRow, func(role resource.RoleDefinition) error {
		v.access.roles[role.ID] = role
		return nil
	})
	if err != nil {
		return err
	}
	err = scan(snapshot, assignmentRow, func(one resource.RoleAssignment) error {
		v.access.assign(one)
		return nil
	})
	if err != nil {
		return err
	}
	return scan(snapshot, accountKeyRow, func(key storedAccountKey) error {
		v.access.keys[key.Which] = key.StoredKey
		return nil
	})
}

// putText and removeText are put and remove for rows whose name ends in text.
func (d *draft) putText(kind, id string, content any) error {
	return d.put(kind, resource.RID(id), content)
}

func (d *draft) removeText(kind, id string) { d.remove(kind, resource.RID(id)) }

// format is the version that the rows of the view need: 2 if an account key was
// replaced, because a release that reads only 1 would accept the old key.
func (v *View) format() int {
	for _, key := range v.access.keys {
		if key.Replaces != "" {
			return 2
		}
	}
	return 1
}
