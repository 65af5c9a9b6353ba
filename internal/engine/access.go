package engine

import (
	"fmt"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Verify turns credentials into a caller, as auth.Verifier does, with its
// current permission or roles.
func (e *Engine) Verify(c auth.Credentials) (auth.Caller, error) {
	current := e.verifier.Load()
	if current == nil {
		return auth.Caller{}, status.Unauthorized(status.SubAuthorizationMissing, "The server has no account key, so no caller can be authenticated.")
	}
	caller, err := current.verifier.Verify(c, e.now())
	if err != nil {
		return caller, err
	}
	switch caller.Kind() {
	case auth.Token:
		return e.withPermission(caller)
	case auth.Bearer:
		return e.withRoles(caller), nil
	}
	return caller, nil
}

// Verifier returns the verifier of the account's current keys, nil if there is none.
func (e *Engine) Verifier() *auth.Verifier {
	current := e.verifier.Load()
	if current == nil {
		return nil
	}
	return current.verifier
}

// withPermission adds the permission that a resource token names.
func (e *Engine) withPermission(caller auth.Caller) (auth.Caller, error) {
	view := e.catalog.View()
	found, _ := view.PermissionByRID(caller.Permission())
	caller, err := caller.WithPermission(found)
	if err != nil {
		return caller, err
	}
	if found.Target.Waits() {
		return caller, nil // It allows nothing yet.
	}
	c, ok := view.ContainerByRID(found.Target.Container)
	if !ok || found.Key != nil && found.Key.Len() < c.PartitionKey.Levels() && !e.prefixPermissions {
		return auth.Caller{}, status.Because(status.CodeForbidden, 0, status.PrefixToken{})
	}
	return caller, nil
}

// withRoles adds what the roles of a principal and its groups allow.
func (e *Engine) withRoles(caller auth.Caller) auth.Caller {
	view := e.catalog.View()
	var roles []auth.Grant
	for _, id := range caller.Principal() {
		for _, one := range view.AssignedTo(id) {
			role, ok := view.Role(one.Definition)
			at, err := resource.ParseScope(one.Scope, e.account.ID)
			if !ok || err != nil {
				continue // The account was renamed since the role was assigned.
			}
			roles = append(roles, auth.Grant{At: at, Actions: role.Allowed()})
		}
	}
	return caller.WithRoles(roles)
}

// allow decides whether the caller may do w to the resource that the link names,
// as far as the partition key does not matter: see [allowKey] and
// [Engine.confine] for that. It sets the names in w.
func (e *Engine) allow(caller auth.Caller, w auth.Access, link Link) error {
	if caller.Kind() == auth.Master {
		return nil
	}
	w.Asked = link.path()
	if w.Feed != "" && link.Document == "" {
		w.Asked.Kind, w.Asked.ID = w.Feed, w.ID
	}
	// A resource that does not exist has the name from the request: a caller
	// who may see the whole database learns that it is missing, any other
	// caller is refused.
	w.At = resource.Scope{Database: link.Database, Container: link.Container}
	view := e.catalog.View()
	if c, ok := locateContainer(view, link); ok && link.Container != "" {
		w.At, w.Container = resource.Scope{Database: c.Database.ID, Container: c.ID}, c.RID
	} else if d, ok := locateDatabase(view, link); ok {
		w.At.Database = d.ID
	}
	return caller.May(w)
}

// allowDocuments decides about the documents of the link's container, or about the
// one that the link names. For a resource token it sets options.IntendedRID to the
// container of the decision, so that no other container of the same name is used. An
// operation that knows the partition key also calls [allowKey]; one on several keys
// calls [Engine.confine].
func (e *Engine) allowDocuments(caller auth.Caller, action auth.Action, link Link, options *Options) error {
	w := auth.Access{Action: action, On: auth.Document}
	if link.Document != "" {
		w.Feed, w.ID = "docs", link.Document
	}
	if err := e.allow(caller, w, link); err != nil {
		return err
	}
	grant := caller.Grant()
	if grant == nil {
		return nil
	}
	rid := grant.Target.Container.String()
	if options.IntendedRID != "" && options.IntendedRID != rid {
		return forbidden("The resource token is for another container than the one that the request expects.")
	}
	options.IntendedRID = rid
	return nil
}

// allowID refuses a replacement with another id if the caller's permission is
// for one document or script: the new name is another resource. body is the
// replacement. A body without an id passes here and fails later.
func allowID(caller auth.Caller, body value.Value) error {
	grant := caller.Grant()
	if grant == nil || grant.Target.Feed == "" {
		return nil
	}
	if id := body.Get("id"); id.Kind() == value.KindString && id.Text() != grant.Target.ID {
		return forbidden("The resource token is for one resource, which it cannot give another id.")
	}
	return nil
}

// allowKey refuses a partition key that the caller's permission does not cover.
func allowKey(caller auth.Caller, c *catalog.Container, key partitionkey.Key) error {
	grant := caller.Grant()
	if grant == nil || grant.Target.Container == c.RID && (grant.Key == nil || key.HasPrefix(given(c.PartitionKey, *grant.Key))) {
		return nil
	}
	return forbidden("The resource token is not for the partition key %s.", key)
}

// confine restricts an operation on several documents to the partition key of the
// caller's permission. A key outside of it is refused. A request without a key
// gets the prefix of the permission. If the permission is for a whole key, the
// request has to name that key, unless bind is true: then it gets the whole key,
// too.
func (e *Engine) confine(caller auth.Caller, key **partitionkey.Key, bind bool) error {
	grant := caller.Grant()
	if grant == nil || grant.Key == nil {
		return nil
	}
	c, ok := e.catalog.View().ContainerByRID(grant.Target.Container)
	if !ok {
		return forbidden("The container of the resource token does not exist any more.")
	}
	own := given(c.PartitionKey, *grant.Key)
	if *key != nil {
		return allowKey(caller, c, given(c.PartitionKey, **key))
	}
	if own.Len() == c.PartitionKey.Levels() && !bind {
		return status.Because(status.CodeForbidden, 0, status.TokenNeedsKey{})
	}
	*key = &own
	return nil
}

// allowFeed decides about a query or a list, and restricts it to the partition
// key of the caller's permission.
func (e *Engine) allowFeed(caller auth.Caller, action auth.Action, req *QueryRequest) error {
	if err := e.allowDocuments(caller, action, req.Link, &req.Options); err != nil {
		return err
	}
	free := req.Key == nil
	if err := e.confine(caller, &req.Key, false); err != nil {
		return err
	}
	if !free || req.Key == nil || req.Partition == nil {
		return nil
	}
	// A client that iterates over all partitions must not mistake the answer for
	// that of a partition that has moved.
	c, ok := e.catalog.View().ContainerByRID(caller.Grant().Target.Container)
	if !ok {
		return nil // The request fails when it looks up the container.
	}
	p, ok := c.Partition(*req.Partition)
	if extent, err := c.PartitionKey.Prefix(*req.Key); ok && err == nil && !p.Range.Overlaps(extent) {
		return forbidden("The resource token is not for what the physical partition %s holds.", p.ID)
	}
	return nil
}

// forbidden returns the error of an operation that a resource token does not
// allow.
func forbidden(format string, args ...any) error {
	return status.Because(status.CodeForbidden, 0, status.OutsideToken{Detail: fmt.Sprintf(format, args...)})
}

// kindOf returns the kind of resource that an action is about: the definition that
// the link names, or its children.
func kindOf(action auth.Action, link Link) auth.Resource {
	below := action == auth.Create || action == auth.List || action == auth.Query
	switch {
	case link.Container != "" && below:
		return auth.Script
	case link.Container != "", link.Database != "" && below:
		return auth.Container
	}
	return auth.Database
}

// keyring is the verifier for one version of the account's keys.
type keyring struct {
	verifier *auth.Verifier
	at       uint64 // version of the catalog with these keys
}

// refreshKeys makes the keys of the newest view valid.
func (e *Engine) refreshKeys() {
	for {
		old, view := e.verifier.Load(), e.catalog.View()
		if e.configured == nil || old != nil && old.at >= view.Version() {
			return
		}
		fresh, err := e.configured.WithKeys(e.keysOf(view))
		if err != nil {
			e.logger.Error("stored account keys cannot be read", "error", err)
			fresh = nil // Every caller is refused: a replaced key must not become valid again.
		}
		if e.verifier.CompareAndSwap(old, &keyring{fresh, view.Version()}) {
			return
		}
	}
}

// keysOf returns the account's keys: those of the configuration, except for the
// ones replaced by keys that the server generated.
func (e *Engine) keysOf(view *catalog.View) auth.Keys {
	keys := e.configured.Keys()
	for _, which := range resource.AccountKeys {
		text := keyOf(&keys, which)
		if made, ok := view.AccountKey(which); ok && made.Replaces == resource.KeyDigest(*text) {
			*text = made.Key
		}
	}
	return keys
}

// keyOf returns a pointer to one of the keys.
func keyOf(keys *auth.Keys, which resource.AccountKey) *string {
	switch which {
	case resource.SecondaryKey:
		return &keys.Secondary
	case resource.PrimaryReadonlyKey:
		return &keys.PrimaryReadonly
	case resource.SecondaryReadonlyKey:
		return &keys.SecondaryReadonly
	}
	return &keys.Primary
}

// expiry returns when a token issued now expires.
func (e *Engine) expiry(lifetime time.Duration) (time.Time, error) {
	if lifetime == 0 {
		lifetime = resource.TokenLifetimeDefault
	}
	if lifetime < resource.TokenLifetimeMin || lifetime > resource.TokenLifetimeMax {
		return time.Time{}, status.BadRequest("A resource token is valid for %d to %d seconds, not %d.",
			int(resource.TokenLifetimeMin.Seconds()), int(resource.TokenLifetimeMax.Seconds()), int(lifetime.Seconds()))
	}
	return e.now().Add(lifetime), nil
}
