package engine

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// PermissionRequest is a request for a permission of a user. Each answer has a
// new resource token.
type PermissionRequest struct {
	Link        Link          // of the database
	User        string        // id of the user, or the text of its RID
	Permission  string        // its id, or the text of its RID; empty for Create and Upsert
	Body        value.Value   // Create, Replace and Upsert
	IfMatch     resource.ETag // Replace, Upsert and Delete
	IfNoneMatch resource.ETag // Read: answer status.CodeNotModified when it is current

	// Lifetime is how long the token in the answer is valid, in whole seconds.
	// Zero is resource.TokenLifetimeDefault. A value below
	// resource.TokenLifetimeMin or above resource.TokenLifetimeMax is 400.
	Lifetime time.Duration
}

// CreatePermission creates a permission. A container that does not exist yet may be
// created later; the permission allows nothing until then. The error is 404 if its
// container is in another database, or if a document or script named by RID does not
// exist, 409 if the id is taken or the user has a permission for the same resource
// and key, and 400 if its key does not fit the container.
func (e *Engine) CreatePermission(ctx context.Context, caller auth.Caller, req PermissionRequest) (Resource, error) {
	return e.definePermission(caller, auth.Create, &req, func(p *permissions) error {
		permission, err := e.parsePermission(ctx, p.user, req.Body)
		if err != nil {
			return err
		}
		return p.commit(ctx, catalog.CreatePermission{User: p.user.RID, Permission: permission}, permission.ID)
	})
}

// UpsertPermission creates a permission, or replaces the one with its id.
// created reports which.
func (e *Engine) UpsertPermission(ctx context.Context, caller auth.Caller, req PermissionRequest) (res Resource, created bool, err error) {
	res, err = e.definePermission(caller, auth.Upsert, &req, func(p *permissions) error {
		permission, err := e.parsePermission(ctx, p.user, req.Body)
		if err != nil {
			return err
		}
		created, err = upsert(
			func() (resource.Permission, bool) { return e.catalog.View().Permission(p.user.RID, permission.ID) },
			func() error {
				return p.commit(ctx, catalog.CreatePermission{User: p.user.RID, Permission: permission}, permission.ID)
			},
			func(old resource.Permission) error {
				permission.RID = old.RID
				return p.commit(ctx, catalog.ReplacePermission{Permission: permission, Expect: req.IfMatch}, permission.ID)
			},
		)
		return err
	})
	return res, created, err
}

// ReadPermission returns a permission.
func (e *Engine) ReadPermission(_ context.Context, caller auth.Caller, req PermissionRequest) (Resource, error) {
	return e.definePermission(caller, auth.Read, &req, func(p *permissions) error {
		permission, err := p.locate(req.Permission)
		if err != nil {
			return err
		}
		p.answer(permission)
		if err := unmodified(req.IfNoneMatch, permission.ETag); err != nil {
			p.out.Body = nil
			return err
		}
		return nil
	})
}

// ReplacePermission changes a permission. If it then allows something else, tokens
// issued for it before are refused.
func (e *Engine) ReplacePermission(ctx context.Context, caller auth.Caller, req PermissionRequest) (Resource, error) {
	return e.definePermission(caller, auth.Replace, &req, func(p *permissions) error {
		old, err := p.locate(req.Permission)
		if err != nil {
			return err
		}
		permission, err := e.parsePermission(ctx, p.user, req.Body)
		if err != nil {
			return err
		}
		permission.RID = old.RID
		return p.commit(ctx, catalog.ReplacePermission{Permission: permission, Expect: req.IfMatch}, permission.ID)
	})
}

// DeletePermission removes a permission. Its tokens are refused afterwards.
func (e *Engine) DeletePermission(ctx context.Context, caller auth.Caller, req PermissionRequest) (Resource, error) {
	return e.definePermission(caller, auth.Delete, &req, func(p *permissions) error {
		permission, err := p.locate(req.Permission)
		if err != nil {
			return err
		}
		p.out.RID = permission.RID
		_, err = e.catalog.Commit(ctx, catalog.DeletePermission{RID: permission.RID, Expect: req.IfMatch})
		return err
	})
}

// ListPermissions returns a page of a user's permissions, each with a token. It
// uses Link, User and Lifetime of req; page selects the page.
func (e *Engine) ListPermissions(ctx context.Context, caller auth.Caller, req PermissionRequest, page QueryRequest) (Feed, error) {
	page.Text, page.Params = listText, nil
	return e.QueryPermissions(ctx, caller, req, page)
}

// QueryPermissions runs a query over the permissions of a user, as
// [Engine.ListPermissions] has them.
func (e *Engine) QueryPermissions(ctx context.Context, caller auth.Caller, req PermissionRequest, page QueryRequest) (Feed, error) {
	page.Link = Link{Database: req.Link.Database}
	return e.definitionsOf(ctx, caller, auth.Permission, page, func(view *catalog.View, out *Feed) ([]definition, error) {
		p := permissions{engine: e, out: &Resource{}}
		var err error
		if p.expires, err = e.expiry(req.Lifetime); err != nil {
			return nil, err
		}
		if err := p.find(view, &req); err != nil {
			return nil, err
		}
		out.Owner, out.OwnerRID = p.out.Owner, p.out.OwnerRID
		out.ParentRID = p.user.RID
		var all []definition
		for _, permission := range view.Permissions(p.user.RID) {
			all = append(all, definition{rid: permission.RID, content: p.describe(permission)})
		}
		return all, nil
	})
}

// permissions is the state of a running request on permissions.
type permissions struct {
	engine  *Engine
	user    resource.User
	expires time.Time // of the tokens that it issues
	out     *Resource
}

// definePermission carries out an operation on a permission: it checks that the
// caller may do it, charges it, finds the user, and turns every error into a
// status.
func (e *Engine) definePermission(caller auth.Caller, action auth.Action, req *PermissionRequest, operation func(*permissions) error) (Resource, error) {
	return e.defineAs(caller, action, auth.Permission, Link{Database: req.Link.Database}, func(out *Resource) error {
		expires, err := e.expiry(req.Lifetime)
		if err != nil {
			return err
		}
		p := permissions{engine: e, expires: expires, out: out}
		if err := p.find(e.catalog.View(), req); err != nil {
			return err
		}
		return operation(&p)
	})
}

// find finds the user, and sets the owner in the answer.
func (p *permissions) find(view *catalog.View, req *PermissionRequest) error {
	database, ok := locateDatabase(view, req.Link)
	if !ok {
		return status.OwnerNotFound()
	}
	user, err := locateUser(view, database, req.User)
	if err != nil {
		return status.OwnerNotFound()
	}
	p.user = user
	p.out.Owner, p.out.OwnerRID = Owner{Database: database.ID, User: user.ID}, user.RID
	return nil
}

// locate finds a permission of the user by id, or by the text of its RID.
func (p *permissions) locate(name string) (resource.Permission, error) {
	view := p.engine.catalog.View()
	if found, ok := view.Permission(p.user.RID, name); ok {
		return found, nil
	}
	if rid, err := resource.ParseRID(name); err == nil && rid.User() == p.user.RID {
		if found, ok := view.PermissionByRID(rid); ok {
			return *found, nil
		}
	}
	return resource.Permission{}, status.NotFound()
}

// commit commits a change, and answers with the permission that it made or
// changed.
func (p *permissions) commit(ctx context.Context, change catalog.Change, id string) error {
	view, err := p.engine.catalog.Commit(ctx, change)
	if err != nil {
		return err
	}
	permission, ok := view.Permission(p.user.RID, id)
	if !ok {
		return status.NotFound() // unreachable: view is the one this commit made
	}
	p.answer(permission)
	return nil
}

func (p *permissions) answer(permission resource.Permission) {
	p.out.Body, p.out.RID, p.out.ETag = p.describe(permission).Append(nil), permission.RID, permission.ETag
}

// describe returns a permission as clients read it, with a new token.
func (p *permissions) describe(permission resource.Permission) value.Value {
	token := ""
	if current := p.engine.verifier.Load(); current != nil {
		token = current.verifier.Mint(&permission, p.expires)
	}
	return permission.Value(token)
}

// parsePermission reads a definition, and finds its resource.
func (e *Engine) parsePermission(ctx context.Context, user resource.User, body value.Value) (resource.Permission, error) {
	p, err := resource.ParsePermission(body)
	if err != nil {
		return p, err
	}
	named, err := resource.ParsePermissionLink(p.Resource)
	if err != nil {
		return p, err
	}
	view := e.catalog.View()
	c, ok := locateContainer(view, Link{Database: named.Database, Container: named.Container})
	if !ok {
		p.Target = awaited(view, user, named)
		return p, checkKeyless(&p)
	}
	if c.Database.RID != user.RID.Database() {
		return p, status.New(status.CodeNotFound, 0, "The resource '%s' of the permission does not exist in the database of the user.", p.Resource)
	}
	p.Target = resource.PermissionTarget{Container: c.RID, Feed: named.Feed, ID: named.ID}
	if err := checkKeyless(&p); err != nil {
		return p, err
	}
	if err := e.checkPermissionKey(c, &p); err != nil {
		return p, err
	}
	if rid, err := resource.ParseRID(named.ID); err == nil && rid.Container() == c.RID {
		return p, e.resolvePermission(ctx, c, rid, &p)
	}
	return p, nil
}

// awaited returns the target of a permission whose container does not exist.
func awaited(view *catalog.View, user resource.User, named resource.PermissionLink) resource.PermissionTarget {
	t := resource.PermissionTarget{Awaited: named.Container, Feed: named.Feed, ID: named.ID}
	if d, ok := locateDatabase(view, Link{Database: named.Database}); !ok || d.RID != user.RID.Database() {
		t.Awaited = named.Database + "/" + named.Container
	}
	return t
}

// checkKeyless refuses a key of a permission for a resource without a partition.
func checkKeyless(p *resource.Permission) error {
	if p.Key != nil && (p.Target.Feed == "triggers" || p.Target.Feed == "udfs") {
		return status.BadRequest("A permission for a trigger or a user-defined function has no resourcePartitionKey: they have no partition.")
	}
	return nil
}

// checkPermissionKey refuses a key that does not fit the container. By default,
// as in the service, only a whole key fits (S102).
func (e *Engine) checkPermissionKey(c *catalog.Container, p *resource.Permission) error {
	if p.Key == nil {
		return nil
	}
	if levels := c.PartitionKey.Levels(); p.Key.Len() < levels && !e.prefixPermissions {
		return status.Because(status.CodeBadRequest, 0, status.PrefixPermission{Values: p.Key.Len(), Levels: levels})
	}
	if err := c.PartitionKey.Check(*p.Key, false); err != nil {
		return status.BadRequest("The resourcePartitionKey does not fit the container: %s", err)
	}
	return nil
}

// resolvePermission replaces the RID of a document or script, which a link may
// have, by its id, and sets the key of the document.
func (e *Engine) resolvePermission(ctx context.Context, c *catalog.Container, rid resource.RID, p *resource.Permission) error {
	missing := status.New(status.CodeNotFound, 0, "The resource '%s' of the permission does not exist.", p.Resource)
	if p.Target.Feed != "docs" {
		kind, _ := resource.ScriptKindOf(p.Target.Feed)
		found, ok := c.Scripts(kind).ByRID(rid)
		if !ok {
			return missing
		}
		p.Target.ID = found.ID
		return nil
	}
	page, err := e.Query(ctx, auth.Owner(), QueryRequest{
		Link:   Link{Database: c.Database.ID, Container: c.ID},
		Text:   "SELECT * FROM c WHERE c._rid = @rid",
		Params: []query.Param{{Name: "@rid", Value: value.String(rid.String())}},
		Cross:  true,
		Full:   true,
	})
	if err != nil {
		return err
	}
	if len(page.Rows) == 0 {
		return missing
	}
	doc, err := value.Parse(page.Rows[0])
	if err != nil {
		return err
	}
	key := c.KeyOf(doc)
	if p.Key != nil && !key.HasPrefix(*p.Key) {
		return status.BadRequest("The resourcePartitionKey is not that of the document '%s'.", p.Resource)
	}
	p.Target.ID, p.Key = doc.Get("id").Text(), &key
	return nil
}
