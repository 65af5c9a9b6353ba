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
	Nobody Kind = iota
	Master      // with an account key: may do everything
	Reader      // with a read-only account key
	Token       // with a resource token, which speaks for a permission
	Bearer      // with a bearer token, which names a principal that has roles
)

var kindNames = [...]string{"anonymous", "master", "reader", "token", "bearer"}

// String returns the kind in lower case, as logs name it.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return "kind(?)"
	}
	return kindNames[k]
}

// Caller is an authenticated client and what it may do. The zero value is a client
// without credentials, which may do nothing. It never changes.
type Caller struct {
	kind  Kind
	token *tokenClaims         // of a Token
	grant *resource.Permission // of a Token, once it is known
	who   *Principal           // of a Bearer
}

// Principal is whom a bearer token names, and what that may do.
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

// Owner returns the caller that the process itself is, for work that no client
// asked for. It may do everything that a [Master] may.
func Owner() Caller { return Caller{kind: Master} }

// Kind returns how the caller was authenticated.
func (c Caller) Kind() Kind { return c.kind }

// Permission returns the permission that a [Token] speaks for, which the engine
// has to look up, and "" for every other caller.
func (c Caller) Permission() resource.RID {
	if c.token == nil {
		return ""
	}
	return c.token.permission
}

// WithPermission returns the caller with what its permission says now, nil when
// there is none. Errors are 403: it is gone, or it allows something else than it
// did when the token was made.
func (c Caller) WithPermission(p *resource.Permission) (Caller, error) {
	if p == nil || c.token == nil || p.RID != c.token.permission || p.Fingerprint() != c.token.print {
		return Caller{}, status.Forbidden(0, "The resource token is not valid any more: its permission was deleted or changed. Read the permission again for a new token.")
	}
	c.grant = p
	return c, nil
}

// Grant returns the permission of a [Token], nil for every other caller.
func (c Caller) Grant() *resource.Permission { return c.grant }

// Principal returns the object ids that roles of a [Bearer] may be given to: its
// own first, then its groups.
func (c Caller) Principal() []string {
	if c.who == nil {
		return nil
	}
	return append([]string{c.who.ID}, c.who.Groups...)
}

// WithRoles returns the caller with the roles that its principal has.
func (c Caller) WithRoles(roles []Grant) Caller {
	if c.who == nil {
		return c
	}
	who := *c.who
	who.Roles = roles
	c.who = &who
	return c
}

// Action is what a caller does to a resource. The link says what kind of
// resource it is; for Create, Upsert, Query and List it is the parent's.
type Action uint8

// The actions. Definitions of databases, containers and throughput know Create,
// Read, Replace, Delete, List and Query; documents know all but Execute and
// Administer.
const (
	Read Action = iota
	Create
	Replace
	Upsert
	Delete
	Patch   // change a document in part
	List    // read a feed
	Query   // query, or ask for the plan of a query
	Feed    // read the change feed
	Execute // run a stored procedure

	// Administer is to use the part of the admin door that needs the key.
	Administer
)

var actionNames = [...]string{"read", "create", "replace", "upsert", "delete", "patch", "list", "query", "feed", "execute", "administer"}

// String returns the action as messages name it.
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

// Resource is the kind of a resource that an action is about. For Create, List
// and Query it is that of the resources below the link.
type Resource uint8

// The kinds of resources.
const (
	Account    Resource = iota
	Database            // its definition
	Container           // its definition, and the list of its partitions
	Document            // or the documents of a container
	Script              // a stored procedure, trigger or user-defined function
	Statistics          // how the partitions of a container are doing
	Offer               // throughput
	User
	Permission
)

// Wish is one thing that a caller wants to do.
type Wish struct {
	Action Action
	On     Resource
	Asked  status.Path // as it was asked, for messages

	At        resource.Scope // where it is: names, as they are now
	Container resource.RID   // the container that it is in; "" for none
	Feed, ID  string         // the one document or script: "docs" and its id; empty for a whole feed
}

// Allow returns nil if the caller may do that to a resource, by the names of the
// request. It is for those who hold a key: what a token or a role permits depends
// on the resource itself, so Allow refuses them, and [Caller.May] decides. A
// caller without credentials gets 401/5000, any other 403.
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
	case Nobody:
		return status.Unauthorized(status.SubAuthorizationMissing, "No one is authenticated, so the action %s on %s is not permitted.", action, at)
	}
	return insufficient(action, at)
}

// May returns nil when the caller may do what it wants: any of it as far as that
// depends on the partition key, which Grant().Key bounds. A caller without
// credentials gets 401/5000, any other 403.
func (c Caller) May(w Wish) error {
	switch c.kind {
	case Master:
		return nil
	case Reader:
		// A caller that reads a permission has a token that may write.
		if w.Action.reads() && w.On != Permission {
			return nil
		}
	case Token:
		if c.grant != nil && w.Container != "" && w.Container == c.grant.Target.Container && granted(c.grant, &w) {
			return nil
		}
	case Bearer:
		return c.who.may(&w)
	case Nobody:
		return c.Allow(w.Action, w.Asked)
	}
	return insufficient(w.Action, w.Asked)
}

// granted decides for a permission whose container is the one of the wish.
func granted(p *resource.Permission, w *Wish) bool {
	if !w.Action.reads() && p.Mode != resource.PermissionAll {
		return false
	}
	whole := p.Target.Feed == "" // the container and all that is in it
	switch w.On {
	case Container:
		// Clients cannot do without the definition, whatever they want there.
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
func (p *Principal) may(w *Wish) error {
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

// needed returns the actions that a role must allow for a wish, 0 for what no
// role allows. Queries need the change feed too, because clients make them of
// both.
func needed(w *Wish) resource.DataActions {
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

// groupsMax is how many groups of a principal count, as a token has at most.
const groupsMax = 200

// newPrincipal takes what a bearer token says.
func newPrincipal(id string, groups []string) *Principal {
	if len(groups) > groupsMax {
		groups = groups[:groupsMax]
	}
	return &Principal{ID: strings.Clone(id), Groups: slices.Clone(groups)}
}
