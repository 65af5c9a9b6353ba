package catalog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage/storagetest"
	"github.com/decandb/decan/partitionkey"
)

// accessText lists everything that a view contains about access.
func accessText(v *catalog.View) string {
	var out strings.Builder
	for _, d := range v.Databases() {
		for _, user := range v.Users(d.RID) {
			byName, ok := v.User(d.RID, user.ID)
			byRID, found := v.UserByRID(user.RID)
			if !ok || !found || byName != user || byRID != user {
				fmt.Fprintf(&out, "user %s is not found by name and RID\n", user.ID)
			}
			fmt.Fprintf(&out, "%s/%s %v\n", d.ID, user.ID, user)
			for _, p := range v.Permissions(user.RID) {
				byName, ok := v.Permission(user.RID, p.ID)
				byRID, found := v.PermissionByRID(p.RID)
				if !ok || !found || byName.RID != p.RID || byRID.ID != p.ID {
					fmt.Fprintf(&out, "permission %s is not found by name and RID\n", p.ID)
				}
				if c, exists := v.ContainerByRID(p.Target.Container); exists == p.Target.Waits() {
					fmt.Fprintf(&out, "permission %s is for no container\n", p.ID)
				} else if exists && p.Target.Awaited != "" && p.Target.Awaited != c.ID {
					fmt.Fprintf(&out, "permission %s waited for %s and is for %s\n", p.ID, p.Target.Awaited, c.ID)
				}
				if _, exists := v.Container(d.ID, p.Target.Awaited); exists && p.Target.Waits() && (p.Key == nil || p.Key.Len() < 3) {
					fmt.Fprintf(&out, "permission %s is not bound to %s\n", p.ID, p.Target.Awaited)
				}
				fmt.Fprintf(&out, "  %s %s %s %s %v %s %x\n", p.ID, p.RID, p.ETag, p.Resource, p.Target, p.Key, p.Fingerprint())
			}
		}
	}
	for _, role := range v.Roles() {
		fmt.Fprintf(&out, "%v\n", role)
	}
	for _, one := range v.RoleAssignments() {
		fmt.Fprintf(&out, "%v of %v\n", one, v.AssignedTo(one.Principal))
	}
	for _, which := range resource.AccountKeys {
		key, ok := v.AccountKey(which)
		fmt.Fprintf(&out, "%s %q %q %v\n", which, key.Key, key.Replaces, ok)
	}
	return out.String()
}

// drawnAccess draws a random change of users, permissions, roles or keys, or of
// the resources that permissions are for.
func drawnAccess(t *testing.T, c *catalog.Catalog, r *rand.Rand, n int) catalog.Change {
	v := c.View()
	var users []resource.User
	for _, d := range v.Databases() {
		users = append(users, v.Users(d.RID)...)
	}
	database := v.Databases()[r.IntN(len(v.Databases()))]
	containers := v.Containers(database.RID)
	name := fmt.Sprint("n", r.IntN(6))
	switch n { // at least one permission waits for its container
	case 0:
		return catalog.CreateUser{Database: database.RID, User: resource.User{ID: name}}
	case 1:
		return catalog.CreatePermission{User: users[0].RID, Permission: resource.Permission{ID: name, Mode: resource.PermissionRead, Target: resource.PermissionTarget{Awaited: "c0"}}}
	case 2:
		container := parseContainer(t, "c0")
		container.RID = c.ReserveContainer(database.RID)
		return catalog.CreateContainer{Container: container, Partitions: tile(container.PartitionKey, 1)}
	}
	guid := fmt.Sprintf("10000000-0000-0000-0000-%012d", r.IntN(4))
	switch r.IntN(14) {
	case 0:
		if len(v.Databases()) < 3 {
			return catalog.CreateDatabase{Database: resource.Database{ID: fmt.Sprint("d", n)}}
		}
	case 1:
		container := parseContainer(t, fmt.Sprint("c", r.IntN(12)))
		for _, user := range v.Users(database.RID) { // perhaps one that permissions wait for
			for _, p := range v.Permissions(user.RID) {
				if p.Target.Waits() && r.IntN(2) == 0 {
					container.ID = p.Target.Awaited
				}
			}
		}
		container.RID = c.ReserveContainer(database.RID)
		return catalog.CreateContainer{Container: container, Partitions: tile(container.PartitionKey, 1)}
	case 2:
		if len(containers) > 1 {
			return catalog.DeleteContainer{RID: containers[r.IntN(len(containers))].RID}
		}
	case 3:
		if len(v.Databases()) > 2 {
			return catalog.DeleteDatabase{RID: database.RID}
		}
	case 4:
		return catalog.PutRole{Role: resource.RoleDefinition{ID: guid, Name: name, Scopes: []string{"/"}, Permissions: [][]string{{"Microsoft.DocumentDB/databaseAccounts/readMetadata"}}}}
	case 5:
		return catalog.PutRoleAssignment{Assignment: resource.RoleAssignment{ID: guid, Definition: resource.DataReaderID, Scope: "/", Principal: name}}
	case 6:
		return catalog.DeleteRoleAssignment{ID: guid}
	case 7:
		return catalog.DeleteRole{ID: guid}
	case 8:
		return catalog.PutAccountKeys{Keys: map[resource.AccountKey]resource.StoredKey{resource.AccountKeys[r.IntN(4)]: {Key: name, Replaces: fmt.Sprint(n)}}}
	case 9, 10:
		if len(users) > 0 && r.IntN(3) == 0 {
			user := users[r.IntN(len(users))]
			user.ID = name
			return catalog.ReplaceUser{User: user}
		}
		return catalog.CreateUser{Database: database.RID, User: resource.User{ID: name}}
	case 11:
		if len(users) > 0 {
			return catalog.DeleteUser{RID: users[r.IntN(len(users))].RID}
		}
	default:
		if len(users) == 0 || len(containers) == 0 {
			break
		}
		user := users[r.IntN(len(users))]
		own := v.Permissions(user.RID)
		if len(own) > 0 && r.IntN(3) == 0 {
			return catalog.DeletePermission{RID: own[r.IntN(len(own))].RID}
		}
		key := partitionkey.NewKey([]partitionkey.Component{partitionkey.String(name), partitionkey.Undefined(), partitionkey.Null()}[:1+r.IntN(3)]...)
		target := resource.PermissionTarget{Container: containers[r.IntN(len(containers))].RID}
		if r.IntN(2) == 0 {
			target = resource.PermissionTarget{Awaited: fmt.Sprint("c", r.IntN(12))}
		}
		p := resource.Permission{ID: name, Mode: resource.PermissionAll, Resource: name, Key: &key, Target: target}
		if len(own) > 0 && r.IntN(2) == 0 {
			p.RID = own[r.IntN(len(own))].RID
			return catalog.ReplacePermission{Permission: p}
		}
		return catalog.CreatePermission{User: user.RID, Permission: p}
	}
	return catalog.CreateUser{Database: database.RID, User: resource.User{ID: name}}
}

// TestAccessSurvives draws changes; after a crash at any moment the committed
// changes are there, and earlier views do not change.
func TestAccessSurvives(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	disk := storagetest.NewCrashable()
	c, shut, err := onDisk(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer shut()
	if _, err := c.Commit(context.Background(), catalog.CreateDatabase{Database: resource.Database{ID: "d"}}); err != nil {
		t.Fatal(err)
	}
	committed, permissions, bound := 0, 0, 0
	for n := range 600 {
		before := c.View()
		was := accessText(before)
		_, err := c.Commit(context.Background(), drawnAccess(t, c, r, n))
		if err != nil && status.From(err) == nil {
			t.Fatalf("seed %d, step %d: %v", seed, n, err)
		}
		if err == nil {
			committed++
		}
		for _, d := range c.View().Databases() {
			for _, user := range c.View().Users(d.RID) {
				for _, p := range c.View().Permissions(user.RID) {
					if old, ok := before.PermissionByRID(p.RID); ok && old.Target.Waits() && !p.Target.Waits() && old.ETag == p.ETag {
						bound++
						if old.Fingerprint() != p.Fingerprint() {
							t.Errorf("seed %d, step %d: the tokens of %s end with the creation of its container", seed, n, p.ID)
						}
					}
				}
			}
		}
		if accessText(before) != was {
			t.Fatalf("seed %d, step %d: an earlier view has changed", seed, n)
		}
		if n%25 != 0 {
			continue
		}
		permissions += strings.Count(accessText(c.View()), "\n  ")
		after, shut, err := onDisk(disk.Crash(r.Float64(), seed+uint64(n)))
		if err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, n, err)
		}
		if got, want := accessText(after.View()), accessText(c.View()); got != want || strings.Contains(got, " is ") || strings.Contains(got, " waited ") {
			t.Errorf("seed %d, step %d:\n%s\nwant:\n%s", seed, n, got, want)
		}
		shut()
	}
	if committed < 50 || permissions == 0 || bound == 0 {
		t.Errorf("seed %d: only %d changes fit, %d permissions were seen, and %d waited for their container", seed, committed, permissions, bound)
	}
}
