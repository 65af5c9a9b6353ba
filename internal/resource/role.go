package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// The maximum number of roles of an account, as documented by the service.
const (
	RoleDefinitionsMax = 100
	RoleAssignmentsMax = 2_000
)

// DataActions is a set of actions on data. The bits exist only in memory; the
// names are stored and sent.
type DataActions uint16

// The actions.
const (
	ReadMetadata DataActions = 1 << iota
	CreateItem
	ReadItem
	ReplaceItem
	UpsertItem
	DeleteItem
	ExecuteQuery
	ReadChangeFeed
	ExecuteStoredProcedure
	ManageConflicts

	itemActions      = CreateItem | ReadItem | ReplaceItem | UpsertItem | DeleteItem
	containerActions = ExecuteQuery | ReadChangeFeed | ExecuteStoredProcedure | ManageConflicts
)

// actionPrefix begins the name of each action.
const actionPrefix = "Microsoft.DocumentDB/databaseAccounts/"

// dataActions are the names after the prefix, and the two wildcards, which do
// not overlap. It must not be changed.
var dataActions = []struct {
	name    string
	actions DataActions
}{
	{"readMetadata", ReadMetadata},
	{"sqlDatabases/containers/items/create", CreateItem},
	{"sqlDatabases/containers/items/read", ReadItem},
	{"sqlDatabases/containers/items/replace", ReplaceItem},
	{"sqlDatabases/containers/items/upsert", UpsertItem},
	{"sqlDatabases/containers/items/delete", DeleteItem},
	{"sqlDatabases/containers/executeQuery", ExecuteQuery},
	{"sqlDatabases/containers/readChangeFeed", ReadChangeFeed},
	{"sqlDatabases/containers/executeStoredProcedure", ExecuteStoredProcedure},
	{"sqlDatabases/containers/manageConflicts", ManageConflicts},
	{"sqlDatabases/containers/items/*", itemActions},
	{"sqlDatabases/containers/*", containerActions},
}

// String returns the names of the actions, separated by commas and blanks.
func (a DataActions) String() string {
	var names []string
	for _, known := range dataActions {
		if single := known.actions&(known.actions-1) == 0; single && a&known.actions != 0 {
			names = append(names, actionPrefix+known.name)
		}
	}
	return strings.Join(names, ", ")
}

// parseDataAction parses the name of an action in any letter case. An unknown
// name is status 400.
func parseDataAction(name string) (DataActions, error) {
	for _, known := range dataActions {
		if strings.EqualFold(name, actionPrefix+known.name) {
			return known.actions, nil
		}
	}
	return 0, status.BadRequest("The data action '%s' does not exist.", clip(name))
}

// RoleDefinition is a role: what it allows, and the scopes at which it can be
// assigned.
type RoleDefinition struct {
	ID     string   `json:"id"` // a GUID in lower case
	Name   string   `json:"name"`
	Scopes []string `json:"scopes"` // as given; see [ParseScope]

	// Permissions are the names of the allowed actions as given, one list for
	// each element of the definition's permissions.
	Permissions [][]string `json:"permissions"`

	BuiltIn bool `json:"-"`
}

// The built-in roles.
const (
	DataReaderID      = "00000000-0000-0000-0000-000000000001"
	DataContributorID = "00000000-0000-0000-0000-000000000002"
)

// BuiltInRoles returns the roles that every account has. They cannot be changed.
func BuiltInRoles() []RoleDefinition {
	const items, containers = actionPrefix + "sqlDatabases/containers/items/", actionPrefix + "sqlDatabases/containers/"
	return []RoleDefinition{
		{
			ID: DataReaderID, Name: "Cosmos DB Built-in Data Reader", Scopes: []string{"/"}, BuiltIn: true,
			Permissions: [][]string{{actionPrefix + "readMetadata", items + "read", containers + "executeQuery", containers + "readChangeFeed"}},
		},
		{
			ID: DataContributorID, Name: "Cosmos DB Built-in Data Contributor", Scopes: []string{"/"}, BuiltIn: true,
			Permissions: [][]string{{actionPrefix + "readMetadata", containers + "*", items + "*"}},
		},
	}
}

// Allowed returns the actions that the role allows.
func (r RoleDefinition) Allowed() DataActions {
	var all DataActions
	for _, list := range r.Permissions {
		for _, name := range list {
			actions, err := parseDataAction(name)
			if err == nil { // always true for a stored name
				all |= actions
			}
		}
	}
	return all
}

// AssignableAt reports whether the role can be assigned at a scope of the
// account: one of its own scopes must cover it.
func (r RoleDefinition) AssignableAt(at Scope, account string) bool {
	return slices.ContainsFunc(r.Scopes, func(text string) bool {
		own, err := ParseScope(text, account)
		return err == nil && own.Covers(at)
	})
}

// ParseRoleDefinition parses the properties of the role with that id from a
// request of the management API. Errors are status 400.
func ParseRoleDefinition(id string, properties value.Value, account string) (RoleDefinition, error) {
	r := RoleDefinition{ID: id, Name: properties.Get("roleName").Text()}
	if r.Name == "" || len(r.Name) > NameCharsMax {
		return r, status.BadRequest("The property 'roleName' must be a name of 1 to %d bytes.", NameCharsMax)
	}
	if kind := properties.Get("type"); kind.IsDefined() && !strings.EqualFold(kind.Text(), "CustomRole") {
		return r, status.BadRequest("The type of a role definition must be CustomRole.")
	}
	for _, scope := range properties.Get("assignableScopes").Items() {
		if _, err := ParseScope(scope.Text(), account); err != nil {
			return r, err
		}
		r.Scopes = append(r.Scopes, scope.Text())
	}
	for _, permission := range properties.Get("permissions").Items() {
		if len(permission.Get("notDataActions").Items()) > 0 {
			return r, status.BadRequest("The property 'notDataActions' is not supported: an action that is not in 'dataActions' is not allowed.")
		}
		var names []string
		for _, action := range permission.Get("dataActions").Items() {
			if _, err := parseDataAction(action.Text()); err != nil {
				return r, err
			}
			names = append(names, action.Text())
		}
		r.Permissions = append(r.Permissions, names)
	}
	const listMax = 100
	if len(r.Scopes) == 0 || len(r.Scopes) > listMax || len(r.Permissions) > listMax || r.Allowed() == 0 {
		return r, status.BadRequest("A role needs 1 to %d assignable scopes and at least one data action.", listMax)
	}
	return r, nil
}

// RoleAssignment assigns a role to a principal at a scope.
type RoleAssignment struct {
	ID         string `json:"id"`         // a GUID in lower case
	Definition string `json:"definition"` // id of the role
	Scope      string `json:"scope"`      // as given; see [ParseScope]
	Principal  string `json:"principal"`  // object id of a user, application or group
}

// ParseRoleAssignment parses the properties of the assignment with that id from
// a request of the management API. Errors are status 400.
func ParseRoleAssignment(id string, properties value.Value, account string) (RoleAssignment, error) {
	a := RoleAssignment{ID: id, Scope: properties.Get("scope").Text(), Principal: properties.Get("principalId").Text()}
	definition := properties.Get("roleDefinitionId").Text()
	a.Definition = strings.ToLower(definition[strings.LastIndexByte(definition, '/')+1:])
	if !IsGUID(a.Definition) {
		return a, status.BadRequest("The property 'roleDefinitionId' must end in the GUID of a role definition.")
	}
	if a.Principal == "" || len(a.Principal) > NameCharsMax {
		return a, status.BadRequest("The property 'principalId' must be the object id of a user, application or group, of 1 to %d bytes.", NameCharsMax)
	}
	_, err := ParseScope(a.Scope, account)
	return a, err
}

// Scope is where a role applies: the account if both names are empty, otherwise
// a database or one of its containers. It uses names: if a database or container
// is dropped and created again, its assignments apply to the new one.
type Scope struct {
	Database, Container string
}

// ParseScope parses a scope: the full management API id of an account, database
// or container, or its part after the account; "/" is the account. It accepts
// colls and containers, dbs and sqlDatabases. Errors are status 400.
func ParseScope(text, account string) (Scope, error) {
	wrong := status.BadRequest("The scope '%s' is not a scope of this account: use '/', '/dbs/D' or '/dbs/D/colls/C', or the full id of one of these.", clip(text))
	if !strings.HasPrefix(text, "/") || len(text) > 4*NameCharsMax {
		return Scope{}, wrong
	}
	parts := strings.Split(strings.Trim(text, "/"), "/")
	if strings.EqualFold(parts[0], "subscriptions") {
		// /subscriptions/S/resourceGroups/G/providers/Microsoft.DocumentDB/databaseAccounts/A
		const accountParts = 8
		if len(parts) < accountParts || !strings.EqualFold(parts[6], "databaseAccounts") || !strings.EqualFold(parts[7], account) {
			return Scope{}, wrong
		}
		parts = parts[accountParts:]
	} else if parts[0] == "" {
		parts = nil
	}
	var s Scope
	switch {
	case len(parts) == 0:
		return s, nil
	case len(parts) != 2 && len(parts) != 4,
		!strings.EqualFold(parts[0], "dbs") && !strings.EqualFold(parts[0], "sqlDatabases"), ValidID(parts[1]) != nil:
		return s, wrong
	}
	s.Database = parts[1]
	if len(parts) == 4 {
		if !strings.EqualFold(parts[2], "colls") && !strings.EqualFold(parts[2], "containers") || ValidID(parts[3]) != nil {
			return Scope{}, wrong
		}
		s.Container = parts[3]
	}
	return s, nil
}

// Covers reports whether at is s or is below it.
func (s Scope) Covers(at Scope) bool {
	return s.Database == "" || s.Database == at.Database && (s.Container == "" || s.Container == at.Container)
}

// String returns the short form of the scope.
func (s Scope) String() string {
	switch {
	case s.Database == "":
		return "/"
	case s.Container == "":
		return "/dbs/" + s.Database
	}
	return "/dbs/" + s.Database + "/colls/" + s.Container
}

// IsGUID reports whether the text is a GUID in lower case.
func IsGUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c < '0' || c > '9' && c < 'a' || c > 'f':
			return false
		}
	}
	return true
}

// AccountKey names one of the account's keys.
type AccountKey string

// The keys, with the names of the management API.
const (
	PrimaryKey           AccountKey = "primary"
	SecondaryKey         AccountKey = "secondary"
	PrimaryReadonlyKey   AccountKey = "primaryReadonly"
	SecondaryReadonlyKey AccountKey = "secondaryReadonly"
)

// AccountKeys are the four keys, primary first. It must not be changed.
var AccountKeys = []AccountKey{PrimaryKey, SecondaryKey, PrimaryReadonlyKey, SecondaryReadonlyKey}

// StoredKey is an account key that the server generated. It replaces the key
// that was configured at that time, and is ignored once another key is
// configured. It is never printed.
type StoredKey struct {
	Key      string `json:"key"`                // base64
	Replaces string `json:"replaces,omitempty"` // digest of the configured key; empty if there was none
}

// Format prints a placeholder for the key, whatever the verb is.
func (StoredKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "(hidden)") }

// KeyDigest returns the digest of a configured key for [StoredKey], "" for no
// key.
func KeyDigest(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(key)))
	return hex.EncodeToString(sum[:])
}
