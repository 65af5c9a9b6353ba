package catalog

import (
	"cmp"
	"maps"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// Permission returns a permission of a user by name. Names are case-sensitive.
func (v *View) Permission(user resource.RID, name string) (resource.Permission, bool) {
	if owner, ok := v.users.get(user); ok {
		if found, ok := owner.byID[name]; ok {
			return *found, true
		}
	}
	return resource.Permission{}, false
}

// PermissionByRID returns a permission by RID. The permission never changes.
func (v *View) PermissionByRID(rid resource.RID) (*resource.Permission, bool) {
	owner, ok := v.users.get(rid.User())
	if !ok {
		return nil, false
	}
	found, ok := owner.byRID[rid]
	return found, ok
}

// Permissions returns the permissions of a user, oldest first.
func (v *View) Permissions(user resource.RID) []resource.Permission {
	owner, ok := v.users.get(user)
	if !ok {
		return nil
	}
	all := make([]resource.Permission, 0, len(owner.byID))
	for _, found := range owner.byID {
		all = append(all, *found)
	}
	slices.SortFunc(all, func(a, b resource.Permission) int { return cmp.Compare(a.RID.Number(), b.RID.Number()) })
	return all
}

// CreatePermission creates a permission of a user: 404/1003 without the user, 404
// if the container that it is for is gone, 409 if the id is taken or the user has a
// permission for the same resource, 403 if the account has as many as it may
// have.
type CreatePermission struct {
	User       resource.RID
	Permission resource.Permission // RID, ETag and TS are set by the commit
}

func (c CreatePermission) apply(d *draft) error {
	owner, ok := d.view.users.get(c.User)
	if !ok {
		return status.OwnerNotFound()
	}
	if _, taken := owner.byID[c.Permission.ID]; taken {
		return status.Conflict()
	}
	if d.view.users.permissions >= resource.PermissionsMax {
		return status.Forbidden(0, "The account has %d permissions, the maximum. Delete some first.", resource.PermissionsMax)
	}
	permission := c.Permission
	// Versions rise, so the numbers do too, and none is used twice.
	permission.RID = resource.PermissionRID(c.User, d.view.version)
	return d.putPermission(owner, permission, nil)
}

// ReplacePermission changes a permission: 404 if it or its container does not
// exist, 412 if Expect is set and is not its etag, 409 if the user has another
// permission with the new id or for the same resource.
type ReplacePermission struct {
	Permission resource.Permission // RID identifies it; ETag and TS are set by the commit
	Expect     resource.ETag
}

func (c ReplacePermission) apply(d *draft) error {
	owner, old, err := d.permission(c.Permission.RID, c.Expect)
	if err != nil {
		return err
	}
	if _, taken := owner.byID[c.Permission.ID]; taken && c.Permission.ID != old.ID {
		return status.Conflict()
	}
	return d.putPermission(owner, c.Permission, old)
}

// DeletePermission removes a permission: 404 if it does not exist, 412 if Expect
// is set and is not its etag.
type DeletePermission struct {
	RID    resource.RID
	Expect resource.ETag
}

func (c DeletePermission) apply(d *draft) error {
	owner, old, err := d.permission(c.RID, c.Expect)
	if err != nil {
		return err
	}
	d.dropPermissions(owner, []*resource.Permission{old})
	return nil
}

// permission returns the permission with a RID, and its user.
func (d *draft) permission(rid resource.RID, want resource.ETag) (*user, *resource.Permission, error) {
	owner, ok := d.view.users.get(rid.User())
	if !ok {
		return nil, nil, status.OwnerNotFound()
	}
	old, ok := owner.byRID[rid]
	if !ok {
		return nil, nil, status.NotFound()
	}
	return owner, old, expect(want, old.ETag)
}

// putPermission stores a permission in place of before, which is nil for a new one.
func (d *draft) putPermission(owner *user, permission resource.Permission, before *resource.Permission) error {
	database := d.view.byRID[owner.RID.Database()]
	if database == nil {
		return status.OwnerNotFound()
	}
	if c, ok := d.view.containers[permission.Target.Container]; ok && c.Database.RID == database.RID {
		// A permission that becomes its own again keeps its tokens.
		if before != nil && before.Target.Container == c.RID {
			permission.Target.Awaited = before.Target.Awaited
		}
	} else if !permission.Target.Waits() {
		return status.NotFound()
	} else if c, ok := database.containers[permission.Target.Awaited]; ok && fits(permission, c) {
		permission.Target.Container = c.RID // It was created after the look-up.
	}
	for _, other := range owner.byID {
		if other.RID != permission.RID && other.SameResource(permission) {
			e := status.Conflict()
			e.Message = "The user has a permission for this resource already, with the id '" + other.ID + "'."
			return e
		}
	}
	permission.ETag, permission.TS = d.etag(), d.now
	changed := *owner
	if before != nil {
		changed.byID = without(changed.byID, before.ID)
	}
	changed.byID = with(changed.byID, permission.ID, &permission)
	changed.byRID = with(changed.byRID, permission.RID, &permission)
	d.view.users.put(&changed, owner)
	return d.put(permissionRow, permission.RID, permission)
}

// dropPermissions removes permissions of a user, whose own row does not change.
func (d *draft) dropPermissions(owner *user, gone []*resource.Permission) {
	changed := *owner
	for _, one := range gone {
		changed.byID, changed.byRID = without(changed.byID, one.ID), without(changed.byRID, one.RID)
		d.remove(permissionRow, one.RID)
	}
	d.view.users.put(&changed, owner)
}

// fits reports whether a permission can be one for a container: its key is none, or a key
// or a prefix of one there.
func fits(p resource.Permission, c *Container) bool {
	return p.Key == nil || c.PartitionKey.Check(*p.Key, false) == nil
}

// bindPermissions gives the permissions that wait for a container of its name to a new
// container. They belong to it from now on, and are deleted with it.
func (d *draft) bindPermissions(c *Container) error {
	for _, owner := range d.view.users.of(c.Database.RID) {
		var bound []resource.Permission
		for _, one := range owner.byID {
			if one.Target.Waits() && one.Target.Awaited == c.ID && fits(*one, c) {
				bound = append(bound, *one)
			}
		}
		if len(bound) == 0 {
			continue
		}
		changed := *owner
		changed.byID, changed.byRID = maps.Clone(owner.byID), maps.Clone(owner.byRID)
		for i := range bound {
			one := &bound[i]
			one.Target.Container = c.RID
			changed.byID[one.ID], changed.byRID[one.RID] = one, one
			if err := d.put(permissionRow, one.RID, *one); err != nil {
				return err
			}
		}
		d.view.users.put(&changed, owner)
	}
	return nil
}

// deletePermissionsFor removes the permissions for a deleted container and for
// the resources in it.
func (d *draft) deletePermissionsFor(container resource.RID) {
	for _, owner := range d.view.users.of(container.Database()) {
		var gone []*resource.Permission
		for _, one := range owner.byID {
			if one.Target.Container == container {
				gone = append(gone, one)
			}
		}
		if len(gone) > 0 {
			d.dropPermissions(owner, gone)
		}
	}
}

// loadPermission adds a stored permission to the view. If its user or container
// does not exist, a release without permissions has deleted that. One that waits for a
// container continues to wait, even if another release has created one of its name.
func (v *View) loadPermission(permission resource.Permission) error {
	owner, ok := v.users.get(permission.RID.User())
	_, exists := v.containers[permission.Target.Container]
	if waits := permission.Target.Waits() && permission.Target.Awaited != ""; !ok || !exists && !waits {
		return nil
	}
	if owner.byID == nil {
		owner.byID, owner.byRID = map[string]*resource.Permission{}, map[resource.RID]*resource.Permission{}
	}
	owner.byID[permission.ID], owner.byRID[permission.RID] = &permission, &permission
	v.users.permissions++
	return nil
}

// loadPeople adds the stored users, permissions and access of the account to the
// view.
func (v *View) loadPeople(snapshot *storage.Snapshot) error {
	if err := scan(snapshot, userRow, v.loadUser); err != nil {
		return err
	}
	if err := scan(snapshot, permissionRow, v.loadPermission); err != nil {
		return err
	}
	return v.loadAccess(snapshot)
}
