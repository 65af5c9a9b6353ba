package auth

import "github.com/decandb/decan/internal/status"

// Kind is how a caller was authenticated.
type Kind uint8

// The kinds. The zero value is nobody.
const (
	Nobody Kind = iota
	Master      // with an account key: may do everything
)

// String returns the kind in lower case, as logs name it.
func (k Kind) String() string {
	if k == Master {
		return "master"
	}
	return "nobody"
}

// Caller is an authenticated someone. The zero value is nobody and may do
// nothing.
type Caller struct {
	kind Kind
}

// Owner returns the caller that the process itself is, for work that no client
// asked for. It may do everything that a [Master] may.
func Owner() Caller { return Caller{kind: Master} }

// Kind returns how the caller was authenticated.
func (c Caller) Kind() Kind { return c.kind }

// Action is what a caller does to a resource. The link says what kind of
// resource it is; for Create, Upsert, Query and List it is the parent's.
type Action uint8

// The actions. Definitions of databases, containers and throughput know Create,
// Read, Replace, Delete, List and Query; documents know all but Administer.
const (
	Read Action = iota
	Create
	Replace
	Upsert
	Delete
	List       // read a feed
	Query      // query, or ask for the plan of a query
	Administer // use the part of the admin door that lies behind the key
)

var actionNames = [...]string{"read", "create", "replace", "upsert", "delete", "list", "query", "administer"}

// String returns the action as messages name it.
func (a Action) String() string {
	if int(a) >= len(actionNames) {
		return "action(?)"
	}
	return actionNames[a]
}

// Allow returns nil when the caller may do that to the resource of that link,
// such as "dbs/d/colls/c"; empty is the account. Nobody gets 401/5000.
func (c Caller) Allow(action Action, link string) error {
	if c.kind == Master {
		return nil
	}
	return status.Unauthorized(status.SubAuthorizationMissing, "Nobody is authenticated, so %s on '%s' is not allowed.", action, clip(link, nameCharsShown))
}
