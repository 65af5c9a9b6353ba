package engine

import (
	"context"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// UserRequest is a request for a user of a database.
type UserRequest struct {
	Link        Link          // of the database
	User        string        // its id, or the text of its RID; empty for Create and Upsert
	Body        value.Value   // Create, Replace and Upsert
	IfMatch     resource.ETag // Replace, Upsert and Delete
	IfNoneMatch resource.ETag // Read: answer status.CodeNotModified when it is current
}

// CreateUser creates a user. The error is 409 if the id is taken.
func (e *Engine) CreateUser(ctx context.Context, caller auth.Caller, req UserRequest) (Resource, error) {
	return e.defineUser(caller, auth.Create, &req, func(database resource.Database, out *Resource) error {
		user, err := resource.ParseUser(req.Body)
		if err != nil {
			return err
		}
		return e.createUser(ctx, database, user, out)
	})
}

// UpsertUser creates a user, or replaces the one with its id. created reports
// which.
func (e *Engine) UpsertUser(ctx context.Context, caller auth.Caller, req UserRequest) (res Resource, created bool, err error) {
	res, err = e.defineUser(caller, auth.Upsert, &req, func(database resource.Database, out *Resource) error {
		user, err := resource.ParseUser(req.Body)
		if err != nil {
			return err
		}
		created, err = upsert(
			func() (resource.User, bool) { return e.catalog.View().User(database.RID, user.ID) },
			func() error { return e.createUser(ctx, database, user, out) },
			func(old resource.User) error { return e.replaceUser(ctx, old, user, req.IfMatch, out) },
		)
		return err
	})
	return res, created, err
}

// ReadUser returns a user.
func (e *Engine) ReadUser(_ context.Context, caller auth.Caller, req UserRequest) (Resource, error) {
	return e.defineUser(caller, auth.Read, &req, func(database resource.Database, out *Resource) error {
		user, err := locateUser(e.catalog.View(), database, req.User)
		if err != nil {
			return err
		}
		out.user(user)
		if err := unmodified(req.IfNoneMatch, user.ETag); err != nil {
			out.Body = nil
			return err
		}
		return nil
	})
}

// ReplaceUser changes the id of a user.
func (e *Engine) ReplaceUser(ctx context.Context, caller auth.Caller, req UserRequest) (Resource, error) {
	return e.defineUser(caller, auth.Replace, &req, func(database resource.Database, out *Resource) error {
		old, err := locateUser(e.catalog.View(), database, req.User)
		if err != nil {
			return err
		}
		user, err := resource.ParseUser(req.Body)
		if err != nil {
			return err
		}
		return e.replaceUser(ctx, old, user, req.IfMatch, out)
	})
}

// DeleteUser removes a user with its permissions. Their tokens are refused
// afterwards.
func (e *Engine) DeleteUser(ctx context.Context, caller auth.Caller, req UserRequest) (Resource, error) {
	return e.defineUser(caller, auth.Delete, &req, func(database resource.Database, out *Resource) error {
		user, err := locateUser(e.catalog.View(), database, req.User)
		if err != nil {
			return err
		}
		out.RID = user.RID
		_, err = e.catalog.Commit(ctx, catalog.DeleteUser{RID: user.RID, Expect: req.IfMatch})
		return err
	})
}

// ListUsers returns a page of a database's users.
func (e *Engine) ListUsers(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	req.Text, req.Params = listText, nil
	return e.QueryUsers(ctx, caller, req)
}

// QueryUsers runs a query over the users of a database.
func (e *Engine) QueryUsers(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	return e.definitionsOf(ctx, caller, auth.User, req, func(view *catalog.View, out *Feed) ([]definition, error) {
		database, ok := locateDatabase(view, req.Link)
		if !ok {
			return nil, status.OwnerNotFound()
		}
		out.ParentRID = database.RID
		out.Owner, out.OwnerRID = Owner{Database: database.ID}, database.RID
		var all []definition
		for _, user := range view.Users(database.RID) {
			all = append(all, definition{rid: user.RID, content: user.Value()})
		}
		return all, nil
	})
}

func (e *Engine) createUser(ctx context.Context, database resource.Database, user resource.User, out *Resource) error {
	view, err := e.catalog.Commit(ctx, catalog.CreateUser{Database: database.RID, User: user})
	if err != nil {
		return err
	}
	return out.committedUser(view, database, user.ID)
}

func (e *Engine) replaceUser(ctx context.Context, old, user resource.User, ifMatch resource.ETag, out *Resource) error {
	user.RID = old.RID
	view, err := e.catalog.Commit(ctx, catalog.ReplaceUser{User: user, Expect: ifMatch})
	if err != nil {
		return err
	}
	changed, ok := view.UserByRID(old.RID)
	if !ok {
		return status.NotFound() // unreachable: view is the one this commit made
	}
	out.user(changed)
	return nil
}

// defineUser carries out an operation on a user: it checks the permission,
// charges it, finds the database, and turns every error into a status.
func (e *Engine) defineUser(caller auth.Caller, action auth.Action, req *UserRequest, operation func(resource.Database, *Resource) error) (Resource, error) {
	return e.defineAs(caller, action, auth.User, Link{Database: req.Link.Database}, func(out *Resource) error {
		database, ok := locateDatabase(e.catalog.View(), req.Link)
		if !ok {
			return status.OwnerNotFound()
		}
		out.Owner, out.OwnerRID = Owner{Database: database.ID}, database.RID
		return operation(database, out)
	})
}

// locateUser finds a user by id, or by the text of its RID.
func locateUser(view *catalog.View, database resource.Database, name string) (resource.User, error) {
	if user, ok := view.User(database.RID, name); ok {
		return user, nil
	}
	if rid, err := resource.ParseRID(name); err == nil && rid.Database() == database.RID {
		if user, ok := view.UserByRID(rid); ok {
			return user, nil
		}
	}
	return resource.User{}, status.NotFound()
}

// committedUser sets the fields of the answer from a user of the view that a
// commit returned.
func (r *Resource) committedUser(view *catalog.View, database resource.Database, id string) error {
	user, ok := view.User(database.RID, id)
	if !ok {
		return status.NotFound() // unreachable: view is the one this commit made
	}
	r.user(user)
	return nil
}

// user sets the fields of the answer from a user.
func (r *Resource) user(user resource.User) {
	r.Body, r.RID, r.ETag = user.Value().Append(nil), user.RID, user.ETag
}
