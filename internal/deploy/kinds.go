package deploy

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of resource that a deployment makes.
type Kind string

// The kinds of resources.
const (
	Account         Kind = "account"
	Database        Kind = "database"
	Container       Kind = "container"
	StoredProcedure Kind = "stored procedure"
	Trigger         Kind = "trigger"
	UDF             Kind = "function"
	Throughput      Kind = "throughput"
	RoleDefinition  Kind = "role definition"
	RoleAssignment  Kind = "role assignment"
	Keyspace        Kind = "keyspace"
	Table           Kind = "table"
)

// provider begins the types of the service.
const provider = "Microsoft.DocumentDB/"

// kindOf is the kind of a type.
type kindOf struct {
	kind Kind
	// shape is the type whose properties it has.
	shape string
	// names are the positions of the names in the name of the resource that identify it
	// within the account.
	names []int
}

// typeKinds are the types that can be deployed, in lower case and without the provider.
// Those of the first generation name an API, and throughput settings name no offer.
var typeKinds = map[string]kindOf{
	"databaseaccounts":                                              {Account, "databaseAccounts", nil},
	"databaseaccounts/sqldatabases":                                 {Database, "databaseAccounts/sqlDatabases", []int{1}},
	"databaseaccounts/sqldatabases/throughputsettings":              {Throughput, "databaseAccounts/sqlDatabases/throughputSettings", []int{1}},
	"databaseaccounts/sqldatabases/containers":                      {Container, "databaseAccounts/sqlDatabases/containers", []int{1, 2}},
	"databaseaccounts/sqldatabases/containers/throughputsettings":   {Throughput, "databaseAccounts/sqlDatabases/containers/throughputSettings", []int{1, 2}},
	"databaseaccounts/sqldatabases/containers/storedprocedures":     {StoredProcedure, "databaseAccounts/sqlDatabases/containers/storedProcedures", []int{1, 2, 3}},
	"databaseaccounts/sqldatabases/containers/triggers":             {Trigger, "databaseAccounts/sqlDatabases/containers/triggers", []int{1, 2, 3}},
	"databaseaccounts/sqldatabases/containers/userdefinedfunctions": {UDF, "databaseAccounts/sqlDatabases/containers/userDefinedFunctions", []int{1, 2, 3}},
	"databaseaccounts/sqlroledefinitions":                           {RoleDefinition, "databaseAccounts/sqlRoleDefinitions", []int{1}},
	"databaseaccounts/sqlroleassignments":                           {RoleAssignment, "databaseAccounts/sqlRoleAssignments", []int{1}},
	"databaseaccounts/cassandrakeyspaces":                           {Keyspace, "databaseAccounts/cassandraKeyspaces", []int{1}},
	"databaseaccounts/cassandrakeyspaces/throughputsettings":        {Throughput, "databaseAccounts/cassandraKeyspaces/throughputSettings", []int{1}},
	"databaseaccounts/cassandrakeyspaces/tables":                    {Table, "databaseAccounts/cassandraKeyspaces/tables", []int{1, 2}},
	"databaseaccounts/cassandrakeyspaces/tables/throughputsettings": {Throughput, "databaseAccounts/cassandraKeyspaces/tables/throughputSettings", []int{1, 2}},

	"databaseaccounts/apis/databases":                     {Database, "databaseAccounts/sqlDatabases", []int{2}},
	"databaseaccounts/apis/databases/settings":            {Throughput, "databaseAccounts/sqlDatabases/throughputSettings", []int{2}},
	"databaseaccounts/apis/databases/containers":          {Container, "databaseAccounts/sqlDatabases/containers", []int{2, 3}},
	"databaseaccounts/apis/databases/containers/settings": {Throughput, "databaseAccounts/sqlDatabases/containers/throughputSettings", []int{2, 3}},
	"databaseaccounts/apis/keyspaces":                     {Keyspace, "databaseAccounts/cassandraKeyspaces", []int{2}},
	"databaseaccounts/apis/keyspaces/settings":            {Throughput, "databaseAccounts/cassandraKeyspaces/throughputSettings", []int{2}},
	"databaseaccounts/apis/keyspaces/tables":              {Table, "databaseAccounts/cassandraKeyspaces/tables", []int{2, 3}},
	"databaseaccounts/apis/keyspaces/tables/settings":     {Throughput, "databaseAccounts/cassandraKeyspaces/tables/throughputSettings", []int{2, 3}},
}

// apis are the names of the API that types of the first generation have.
var apis = map[string]string{"databases": "sql", "keyspaces": "cassandra"}

// Item is a resource of a kind.
type Item struct {
	*Resource
	Kind Kind
	// Names identify the resource: of a container the database and the container, of a
	// throughput those of its owner.
	Names []string

	shape string
}

// Path returns the names as a path, such as shop/orders.
func (i Item) Path() string {
	if i.Kind == Account {
		return i.Name
	}
	return strings.Join(i.Names, "/")
}

// Title returns the kind and the path.
func (i Item) Title() string { return string(i.Kind) + " " + i.Path() }

// OfTables reports whether the resource belongs to the Cassandra API.
func (i Item) OfTables() bool { return strings.Contains(i.shape, "cassandra") }

// Choice is which resources of a template are deployed.
type Choice struct {
	// Ignore leaves out the resources that do not exist here.
	Ignore bool
	// Account leaves out the resources of other accounts; "" if the template has one.
	Account string
}

// Items returns the resources of a deployment by kind, and as others those that are left
// out. Resources that do not exist here, and those of several accounts, are an error that
// names all of them unless they are to be left out.
func (d *Deployment) Items(choice Choice) (items []Item, others []*Resource, err error) {
	var accounts []string
	var unknown []*Resource
	for _, r := range d.Resources {
		rest, ours := cutFold(r.Type, provider)
		kind, known := typeKinds[strings.ToLower(rest)]
		item := Item{Resource: r, Kind: kind.kind, shape: kind.shape}
		names := strings.Split(r.Name, "/")
		for segment, api := range apis {
			if strings.Contains(strings.ToLower(rest), "/apis/"+segment) && !strings.EqualFold(names[1], api) {
				known = false
			}
		}
		if !ours || !known {
			if !strings.EqualFold(r.Type, "Microsoft.Resources/resourceGroups") {
				others, unknown = append(others, r), append(unknown, r)
			}
			continue
		}
		for _, at := range kind.names {
			item.Names = append(item.Names, names[at])
		}
		if !slices.ContainsFunc(accounts, func(a string) bool { return strings.EqualFold(a, names[0]) }) {
			accounts = append(accounts, names[0])
		}
		if choice.Account != "" && !strings.EqualFold(names[0], choice.Account) {
			others = append(others, r)
			continue
		}
		items = append(items, item)
	}
	if len(unknown) > 0 && !choice.Ignore {
		return nil, others, refuse(unknown)
	}
	if len(items) == 0 && len(accounts) > 0 {
		return nil, others, notSupported("The template has no resources of the account '%s', but those of '%s'.", choice.Account, strings.Join(accounts, "', '"))
	}
	if len(accounts) > 1 && choice.Account == "" {
		return nil, others, notSupported("The template has resources of %d accounts, '%s'. A server is one account: choose it with --account.", len(accounts), strings.Join(accounts, "', '"))
	}
	d.account = choice.Account
	return items, others, nil
}

func notSupported(format string, args ...any) error {
	return &Error{Code: "NotSupported", Message: fmt.Sprintf(format, args...)}
}

func cutFold(s, prefix string) (rest string, found bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// refuse returns the error for resources that cannot be deployed.
func refuse(others []*Resource) error {
	list := make([]string, len(others))
	for i, r := range others {
		list[i] = fmt.Sprintf("%s '%s' (line %d)", r.Type, r.Name, r.Line)
	}
	one := "a resource that does not exist here"
	if len(others) > 1 {
		one = fmt.Sprintf("%d resources that do not exist here", len(others))
	}
	return &Error{
		Code: "NotSupported", File: others[0].File, Line: others[0].Line, Column: others[0].Column,
		Message: fmt.Sprintf("The template has %s: %s.", one, strings.Join(list, ", ")),
	}
}
