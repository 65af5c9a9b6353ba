package catalog

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// The kinds of the rows of users and permissions.
const (
	userRow       = "user/"
	permissionRow = "permission/"
)

// users are all users of the account. An account may have hundreds of thousands,
// and a commit copies what it changes, so they are divided into parts, of which a
// commit copies one or two. The zero value is empty. users never change.
type users struct {
	byRID  [userParts]map[resource.RID]*user
	byName [userParts]map[userName]*user

	count, permissions int
}

const userParts = 256

// userName identifies a user in the account.
type userName struct {
	database resource.RID
	id       string
}

// user is a user with its permissions.
type user struct {
	resource.User
	byID  map[string]*resource.Permission
	byRID map[resource.RID]*resource.Permission
}

// userSeed is random, so that names cannot be chosen to overload one part. It
// never changes.
var userSeed = maphash.MakeSeed()

func partOf[K comparable](key K) uint64 { return maphash.Comparable(userSeed, key) % userParts }

func (u *users) get(rid resource.RID) (*user, bool) {
	found, ok := u.byRID[partOf(rid)][rid]
	return found, ok
}

func (u *users) named(database resource.RID, id string) (*user, bool) {
	name := userName{database, id}
	found, ok := u.byName[partOf(name)][name]
	return found, ok
}

// of returns the users of a database, oldest first.
func (u *users) of(database resource.RID) []*user {
	var all []*user
	for _, part := range u.byRID {
		for rid, one := range part {
			if rid.Database() == database {
				all = append(all, one)
			}
		}
	}
	slices.SortFunc(all, func(a, b *user) int { return cmp.Compare(a.RID, b.RID) })
	return all
}

// put stores a user in place of before, which is nil for a new user.
func (u *users) put(one, before *user) {
	if before != nil {
		u.remove(before)
	}
	u.count++
	u.permissions += len(one.byID)
	rids := &u.byRID[partOf(one.RID)]
	*rids = with(*rids, one.RID, one)
	name := userName{one.RID.Database(), one.ID}
	names := &u.byName[partOf(name)]
	*names = with(*names, name, one)
}

func (u *users) remove(one *user) {
	u.count--
	u.permissions -= len(one.byID)
	rids := &u.byRID[partOf(one.RID)]
	*rids = without(*rids, one.RID)
	name := userName{one.RID.Database(), one.ID}
	names := &u.byName[partOf(name)]
	*names = without(*names, name)
}

// with returns a copy of a map with one more entry.
func with[K comparable, V any](m map[K]V, key K, content V) map[K]V {
	changed := make(map[K]V, len(m)+1)
	maps.Copy(changed, m)
	changed[key] = content
	return changed
}

// without returns a copy of a map with one entry less.
func without[K comparable, V any](m map[K]V, key K) map[K]V {
	changed := maps.Clone(m)
	delete(changed, key)
	return changed
}

// User returns a user of a database by name. Names are case-sensitive.
func (v *View) User(database resource.RID, name string) (resource.User, bool) {
	if found, ok := v.users.named(database, name); ok {
		return found.User, true
	}
	return resource.User{}, false
}

// UserByRID returns a user by RID.
func (v *View) UserByRID(rid resource.RID) (resource.User, bool) {
	if found, ok := v.users.get(rid); ok {
		return found.User, true
	}
	return resource.User{}, false
}

// Users returns the users of a database, oldest first.
func (v *View) Users(database resource.RID) []resource.User {
	var all []resource.User
	for _, found := range v.users.of(database) {
		all = append(all, found.User)
	}
	return all
}

// CreateUser creates a user of a database: 404/1003 without the database, 409 if
// the id is taken, 403 if the account has as many as it may have.
type CreateUser struct {
	Database resource.RID
	User     resource.User // RID, ETag and TS are set by the commit
}

func (c CreateUser) apply(d *draft) error {
	if _, ok := d.view.byRID[c.Database]; !ok {
		return status.OwnerNotFound()
	}
	if _, taken := d.view.users.named(c.Database, c.User.ID); taken {
		return status.Conflict()
	}
	if d.view.users.count >= resource.UsersMax || d.next.User >= resource.UserNumbers-1 {
		return status.Forbidden(0, "The account has had as many users as it may have, which is %d at a time.", resource.UsersMax)
	}
	one := &user{User: c.User}
	d.next.User++ // The first is 1.
	one.RID = resource.UserRID(c.Database, d.next.User)
	return d.putUser(one, nil)
}

// ReplaceUser changes the id of a user: 404 if it does not exist, 412 if Expect
// is set and is not its etag, 409 if another user has the new id.
type ReplaceUser struct {
	User   resource.User // RID identifies it; ETag and TS are set by the commit
	Expect resource.ETag
}

func (c ReplaceUser) apply(d *draft) error {
	old, ok := d.view.users.get(c.User.RID)
	if !ok {
		return status.NotFound()
	}
	if err := expect(c.Expect, old.ETag); err != nil {
		return err
	}
	if _, taken := d.view.users.named(old.RID.Database(), c.User.ID); taken && c.User.ID != old.ID {
		return status.Conflict()
	}
	changed := *old
	changed.User = c.User
	return d.putUser(&changed, old)
}

// DeleteUser removes a user with its permissions: 404 if it does not exist, 412
// if Expect is set and is not its etag.
type DeleteUser struct {
	RID    resource.RID
	Expect resource.ETag
}

func (c DeleteUser) apply(d *draft) error {
	old, ok := d.view.users.get(c.RID)
	if !ok {
		return status.NotFound()
	}
	if err := expect(c.Expect, old.ETag); err != nil {
		return err
	}
	d.deleteUser(old)
	return nil
}

func (d *draft) putUser(one, before *user) error {
	one.ETag, one.TS = d.etag(), d.now
	d.view.users.put(one, before)
	return d.put(userRow, one.RID, one.User)
}

func (d *draft) deleteUser(one *user) {
	for rid := range one.byRID {
		d.remove(permissionRow, rid)
	}
	d.view.users.remove(one)
	d.remove(userRow, one.RID)
}

// deleteUsers removes the users of a deleted database, with one copy of each
// part.
func (d *draft) deleteUsers(database resource.RID) {
	u := &d.view.users
	for i, part := range u.byRID {
		var kept map[resource.RID]*user
		for rid, one := range part {
			if rid.Database() != database {
				continue
			}
			if kept == nil {
				kept = maps.Clone(part)
			}
			delete(kept, rid)
			u.count--
			u.permissions -= len(one.byID)
			d.remove(userRow, rid)
			for permission := range one.byRID {
				d.remove(permissionRow, permission)
			}
		}
		if kept != nil {
			u.byRID[i] = kept
		}
	}
	for i, part := range u.byName {
		kept := maps.Clone(part)
		maps.DeleteFunc(kept, func(name userName, _ *user) bool { return name.database == database })
		if len(kept) < len(part) {
			u.byName[i] = kept
		}
	}
}

// loadUser adds a stored user to the view. If its database does not exist, a
// release without users has deleted that.
func (v *View) loadUser(stored resource.User) error {
	if _, ok := v.byRID[stored.RID.Database()]; ok {
		v.users.loadUser(&user{User: stored})
	}
	return nil
}

// loadUser is put without a copy, before the view is published.
func (u *users) loadUser(one *user) {
	u.count++
	rids, name := &u.byRID[partOf(one.RID)], userName{one.RID.Database(), one.ID}
	names := &u.byName[partOf(name)]
	if *rids == nil {
		*rids = map[resource.RID]*user{}
	}
	if *names == nil {
		*names = map[userName]*user{}
	}
	(*rids)[one.RID], (*names)[name] = one, one
}

// nextUser returns the highest user number in use, or the stored one if that is
// higher: a release without users forgets it.
func (v *View) nextUser(stored uint32) uint32 {
	for _, part := range v.users.byRID {
		for rid := range part {
			stored = max(stored, rid.UserNumber())
		}
	}
	return stored
}
