package auth

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// Kind is how a caller was authenticated.
type Kind uint8

// The kinds. The zero value is a caller without credentials.
const (
	Anonymous Kind = iota
	Master         // with an account key: may do everything
	Reader         // with a read-only account key
	Token          // with a resource token, which has a permission
	Bearer         // with a bearer token, whose principal has roles
)

var kindNames = [...]string{"anonymous", "master", "reader", "token", "bearer"}

// String returns the name of the kind in logs.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return "kind(?)"
	}
	return kindNames[k]
}

// Caller is a client and what it may do. The zero value is a client without
// credentials, which may do nothing. It never changes.
type Caller struct {
	kind  Kind
	token *tokenClaims         // of a Token
	grant *resource.Permission // of a Token, after WithPermission
	who   *Principal           // of a Bearer
}

// Principal is the principal of a bearer token, and what it may do.
type Principal struct {
	ID     string   // object id of a user or an application
	Groups []string // object ids of its groups
	Roles  []Grant
}

// Grant is what a caller may do at a scope and below.
type Grant struct {
	At      resource.Scope
	Actions resource.DataActions
}

// Owner returns the caller for work of the server itself. It may do everything that a
// [Master] may.
func Owner() Caller { return Caller{kind: Master} }

// Kind returns how the caller was authenticated.
func (c Caller) Kind() Kind { return c.kind }

// Permission returns the permission of a [Token], which the engine looks up, and "" for
// other callers.
func (c Caller) Permission() resource.RID {
	if c.token == nil {
		return ""
	}
	return c.token.permission
}

// WithPermission returns the caller with its current permission, which is nil if it was
// deleted. It returns 403 if the permission was deleted, or changed after the token was
// made.
func (c Caller) WithPermission(p *resource.Permission) (Caller, error) {
	if p == nil || c.token == nil || p.RID != c.token.permission || p.Fingerprint() != c.token.print {
		return Caller{}, status.Forbidden(0, "The resource token is not valid any more: its permission was deleted or changed. Read the permission again for a new token.")
	}
	c.grant = p
	return c, nil
}

// Grant returns the permission of a [Token], and nil for other callers.
func (c Caller) Grant() *resource.Permission { return c.grant }

// Principal returns the object ids to which roles of a [Bearer] can be assigned: its
// own, then those of its groups.
func (c Caller) Principal() []string {
	if c.who == nil {
		return nil
	}
	return append([]string{c.who.ID}, c.who.Groups...)
}

// WithRoles returns the caller with the roles of its principal.
func (c Caller) WithRoles(roles []Grant) Caller {
	if c.who == nil {
		return c
	}
	who := *c.who
	who.Roles = roles
	c.who = &who
	return c
}

// Action is what a caller does to a resource. For Create, Upsert, Query and List, the
// link of the request is that of the parent.
type Action uint8

// The actions. Databases, containers and offers have Create, Read, Replace, Delete, List
// and Query; documents have all but Execute and Administer.
const (
	Read Action = iota
	Create
	Replace
	Upsert
	Delete
	Patch   // change a part of a document
	List    // read a feed
	Query   // run a query, or get its plan
	Feed    // read the change feed
	Execute // run a stored procedure

	// Administer is the use of the paths of the admin port that need a key.
	Administer
)

var actionNames = [...]string{"read", "create", "replace", "upsert", "delete", "patch", "list", "query", "feed", "execute", "administer"}

// String returns the name of the action in messages.
func (a Action) String() string {
	if int(a) >= len(actionNames) {
		return "action(?)"
	}
	return actionNames[a]
}

// reads reports whether an action changes nothing.
func (a Action) reads() bool {
	return a == Read || a == List || a == Query || a == Feed
}

// Resource is the kind of resource of an action. For Create, List and Query it is the
// kind of the resources below the link.
type Resource uint8

// The kinds of resources.
const (
	Account    Resource = iota
	Database            // its definition
	Container           // its definition, and the list of its partitions
	Document            // or the documents of a container
	Script              // a stored procedure, trigger or user-defined function
	Statistics          // of the partitions of a container
	Offer               // throughput
	User
	Permission
)

// Access is an action on a resource that a caller asks for.
type Access struct {
	Action Action
	On     Resource
	Asked  status.Path // as in the request, for messages

	At        resource.Scope // the current names
	Container resource.RID   // the container; "" for none
	Feed, ID  string         // the one document or script: "docs" and its id; empty for a whole feed
}

// Allow returns nil if a caller with an account key may do that to a resource. It
// refuses callers with tokens, because their rights depend on the resource, about which
// [Caller.May] decides. A caller without credentials gets 401/5000, any other 403.
func (c Caller) Allow(action Action, at status.Path) error {
	switch c.kind {
	case Master:
		return nil
	case Reader:
		if action.reads() {
			return nil
		}
	case Bearer:
		return unsupported(action, at)
	case Anonymous:
		return status.Unauthorized(status.SubAuthorizationMissing, "No one is authenticated, so the action %s on %s is not permitted.", action, at)
	}
	return insufficient(action, at)
}

// May returns nil if the caller may have the access. It does not check the partition
// key, which Grant().Key restricts. A caller without credentials gets 401/5000, any
// other 403.
func (c Caller) May(w Access) error {
	switch c.kind {
	case Master:
		return nil
	case Reader:
		// The answer to a read of a permission contains a token that may allow writes.
		if w.Action.reads() && w.On != Permission {
			return nil
		}
	case Token:
		if c.grant != nil && w.Container != "" && w.Container == c.grant.Target.Container && granted(c.grant, &w) {
			return nil
		}
	case Bearer:
		return c.who.may(&w)
	case Anonymous:
		return c.Allow(w.Action, w.Asked)
	}
	return insufficient(w.Action, w.Asked)
}

// granted decides for a permission on the container of the access.
func granted(p *resource.Permission, w *Access) bool {
	if !w.Action.reads() && !p.Mode.Is(resource.PermissionAll) {
		return false
	}
	whole := p.Target.Feed == "" // the container and all that is in it
	switch w.On {
	case Container:
		// Clients need the definition for every other operation.
		return w.Action == Read || whole && p.Key == nil
	case Statistics:
		return whole && p.Key == nil
	case Document:
		return whole || p.Target.Feed == "docs" && w.ID == p.Target.ID && w.ID != ""
	case Script:
		if whole {
			return p.Key == nil || w.Action == Execute
		}
		return w.Feed == p.Target.Feed && w.ID == p.Target.ID && w.ID != ""
	}
	return false
}

// may decides by roles.
func (p *Principal) may(w *Access) error {
	need := needed(w)
	if need == 0 {
		return unsupported(w.Action, w.Asked)
	}
	var have resource.DataActions
	for _, role := range p.Roles {
		if role.At.Covers(w.At) {
			have |= role.Actions
		}
	}
	missing := need &^ have
	if missing == 0 {
		return nil
	}
	sub := status.SubRoleData
	if missing&resource.ReadMetadata != 0 {
		sub = status.SubRoleMetadata
	}
	return status.Forbidden(sub, "Request is blocked because principal [%s] does not have required RBAC permissions to perform action [%s] on resource [%s].",
		status.Clip(p.ID, nameCharsShown), missing, w.At)
}

// needed returns the actions that roles must allow for an access, and 0 if no role can
// allow it. Queries also need the change feed, as clients use both for them.
func needed(w *Access) resource.DataActions {
	const query = resource.ExecuteQuery | resource.ReadChangeFeed
	switch w.On {
	case Database, Container, Statistics:
		if w.Action.reads() {
			return resource.ReadMetadata
		}
	case Document:
		switch w.Action {
		case Read:
			return resource.ReadItem
		case Create:
			return resource.CreateItem
		case Replace, Patch:
			return resource.ReplaceItem
		case Upsert:
			return resource.UpsertItem
		case Delete:
			return resource.DeleteItem
		case List, Query:
			return query
		case Feed:
			return resource.ReadChangeFeed
		}
	case Script:
		if w.Action == Execute {
			return resource.ExecuteStoredProcedure
		}
	}
	return 0
}

func unsupported(action Action, at status.Path) error {
	return status.Because(status.CodeForbidden, status.SubRoleUnsupported, status.NotPermitted{Action: action.String(), At: at, Keyless: true})
}

func insufficient(action Action, at status.Path) error {
	return status.Because(status.CodeForbidden, 0, status.NotPermitted{Action: action.String(), At: at})
}

// groupsMax is the number of groups of a principal that count, the maximum in a token.
const groupsMax = 200

// newPrincipal returns the principal of a bearer token.
func newPrincipal(id string, groups []string) *Principal {
	if len(groups) > groupsMax {
		groups = groups[:groupsMax]
	}
	return &Principal{ID: strings.Clone(id), Groups: slices.Clone(groups)}
}
