package deploycmd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/deploy"
	"github.com/decandb/decan/internal/deploy/bicep"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// Export is decan export template.
type Export struct {
	Database string `arg:"" optional:"" help:"The database, or the keyspace of the Cassandra API (default: the whole account)."`
	Bicep    bool   `env:"-" help:"Write Bicep (default: JSON)."`

	targetFlags
}

// The API version of exported resources, and the first part of their types.
const (
	exportVersion = "2025-10-15"
	exportPrefix  = "Microsoft.DocumentDB/databaseAccounts/"
)

// Run writes the template to standard output.
func (c *Export) Run(streams console.Streams) error {
	target, err := c.open()
	if err != nil {
		return err
	}
	defer target.close()
	ctx, stop := console.Interruptible()
	defer stop()
	e := &exporter{client: target}
	if err := e.export(ctx, c.Database); err != nil {
		return err
	}
	for _, note := range e.notes {
		fmt.Fprintln(streams.Err, "note:", note)
	}
	text := e.template()
	if c.Bicep {
		formatted, err := bicep.Format([]byte(text))
		if err != nil {
			return err
		}
		text = string(formatted)
	}
	_, err = fmt.Fprintln(streams.Out, text)
	return err
}

// exporter collects the resources of a template.
type exporter struct {
	*client
	resources []any
	notes     []string
}

// template returns the whole template as JSON. The name of the account is a parameter.
func (e *exporter) template() string {
	return jsonc.Indent(jsonc.NewObject(
		"$schema", "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
		"contentVersion", "1.0.0.0",
		"parameters", jsonc.NewObject("account", jsonc.NewObject("type", "string", "defaultValue", "decan", "metadata", jsonc.NewObject("description", "The name of the account."))),
		"resources", jsonc.NewArray(e.resources...)))
}

// add adds a resource with a definition and options. names are those below the account.
func (e *exporter) add(kind string, names []string, definition, options *jsonc.Object) {
	name := func(names []string) string {
		return "[format('{0}/" + strings.NewReplacer("'", "''", "{", "{{", "}", "}}").Replace(strings.Join(names, "/")) + "', parameters('account'))]"
	}
	resource := jsonc.NewObject("type", exportPrefix+kind, "apiVersion", exportVersion, "name", name(names))
	if types := strings.Split(kind, "/"); len(names) > 1 {
		owner := "[resourceId('" + exportPrefix + strings.Join(types[:len(types)-1], "/") + "', parameters('account')"
		for _, n := range names[:len(names)-1] {
			owner += ", " + literal(n)
		}
		resource.Set("dependsOn", jsonc.NewArray(owner+")]"))
	}
	properties := jsonc.NewObject("resource", escaped(definition))
	if options != nil && options.Len() > 0 {
		properties.Set("options", escaped(options))
	}
	resource.Set("properties", properties)
	e.resources = append(e.resources, resource)
}

// escaped returns a value whose strings are not treated as expressions: one that begins
// with a bracket gets another.
func escaped(v any) any {
	switch v := v.(type) {
	case *jsonc.Array:
		items := make([]any, v.Len())
		for i, item := range v.Items() {
			items[i] = escaped(item)
		}
		return jsonc.NewArray(items...)
	case *jsonc.Object:
		out := jsonc.NewObject()
		for _, m := range v.Members() {
			out.Set(m.Name, escaped(m.Value))
		}
		return out
	case string:
		if len(v) > 1 && v[0] == '[' && v[len(v)-1] == ']' {
			return "[" + v
		}
	}
	return v
}

// export exports a database or keyspace with its roles, or without a name all of them.
func (e *exporter) export(ctx context.Context, name string) error {
	names := []string{name}
	if name == "" {
		var err error
		if names, err = e.names(ctx); err != nil {
			return err
		}
	}
	for _, each := range names {
		if err := e.database(ctx, each); err != nil {
			return err
		}
	}
	return e.roles(ctx, name)
}

// names returns the databases and keyspaces of the account. Without a Cassandra API there
// are no keyspaces.
func (e *exporter) names(ctx context.Context) ([]string, error) {
	list, err := e.documents.List(ctx, "the databases", []string{"dbs"}, "Databases")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, raw := range list {
		found, err := parse(raw)
		if err != nil {
			return nil, err
		}
		id, _ := found.Get("id")
		names = append(names, fmt.Sprint(id))
	}
	rows, err := e.cql.run(ctx, "SELECT keyspace_name FROM system_schema.keyspaces")
	if err != nil {
		e.notes = append(e.notes, "keyspaces are not exported: "+err.Error())
	}
	for _, row := range rows {
		if name := string(row[0]); !strings.HasPrefix(name, "system") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// database exports a database with its containers and their scripts, or the keyspace of
// that name: a server that has the Cassandra API says which of the two it is.
func (e *exporter) database(ctx context.Context, name string) error {
	keyspace, tableError := e.cql.read(ctx, itemOf("cassandraKeyspaces", name))
	if keyspace != nil {
		return e.keyspace(ctx, name, keyspace)
	}
	found, err := e.Read(ctx, itemOf("sqlDatabases", name))
	if err != nil {
		return err
	}
	if found == nil {
		if tableError != nil && !isStatementError(tableError) {
			return fmt.Errorf("there is no database %s, and %w", name, tableError)
		}
		return fmt.Errorf("there is no database or keyspace %s", name)
	}
	options, err := e.options(ctx, "sqlDatabases/throughputSettings", name)
	if err != nil {
		return err
	}
	e.add("sqlDatabases", []string{name}, jsonc.NewObject("id", name), options)
	users, err := e.documents.List(ctx, "the users", []string{"dbs", name, "users"}, "Users")
	if err != nil {
		return err
	}
	if len(users) > 0 {
		e.notes = append(e.notes, fmt.Sprintf("database %s: users and their permissions are not exported, since they have no resource type: %s", name, console.Counted(len(users), "user")))
	}
	list, err := e.documents.List(ctx, "the containers", []string{"dbs", name, "colls"}, "DocumentCollections")
	if err != nil {
		return err
	}
	for _, raw := range list {
		if err := e.container(ctx, name, raw); err != nil {
			return err
		}
	}
	return nil
}

// itemOf returns the resource with a type below the account and names.
func itemOf(kind string, names ...string) deploy.Item {
	id := "/providers/Microsoft.DocumentDB/databaseAccounts/a"
	for i, segment := range strings.Split(kind, "/") {
		name := "default"
		if i < len(names) {
			name = names[i]
		}
		id += "/" + segment + "/" + name
	}
	item, _ := deploy.ItemOf(id)
	return item
}

// options returns the throughput of a database, container or table in the form of
// options; nil if it has none of its own.
func (e *exporter) options(ctx context.Context, kind string, names ...string) (*jsonc.Object, error) {
	_, settings, err := e.offer(ctx, itemOf(kind, names...))
	if err != nil || settings == nil {
		return nil, err
	}
	out := jsonc.NewObject()
	for _, name := range []string{"throughput", "autoscaleSettings"} {
		if v, has := settings.Get(name); has {
			out.Set(name, v)
		}
	}
	return out, nil
}

// container exports a container with its scripts.
func (e *exporter) container(ctx context.Context, database string, raw json.RawMessage) error {
	found, err := parse(raw)
	if err != nil {
		return err
	}
	id, _ := found.Get("id")
	name := fmt.Sprint(id)
	item := itemOf("sqlDatabases/containers", database, name)
	clean, notes := item.Clean(jsonc.NewObject("resource", withoutSystem(found)))
	for _, note := range notes {
		e.notes = append(e.notes, item.Title()+": "+note)
	}
	definition, _ := clean.Get("resource")
	options, err := e.options(ctx, "sqlDatabases/containers/throughputSettings", database, name)
	if err != nil {
		return err
	}
	e.add("sqlDatabases/containers", []string{database, name}, definition.(*jsonc.Object), options)
	for _, scripts := range []struct{ word, list, kind string }{
		{"sprocs", "StoredProcedures", "storedProcedures"}, {"triggers", "Triggers", "triggers"}, {"udfs", "UserDefinedFunctions", "userDefinedFunctions"},
	} {
		list, err := e.documents.List(ctx, "the scripts", []string{"dbs", database, "colls", name, scripts.word}, scripts.list)
		if err != nil {
			return err
		}
		for _, raw := range list {
			script, err := parse(raw)
			if err != nil {
				return err
			}
			id, _ := script.Get("id")
			e.add("sqlDatabases/containers/"+scripts.kind, []string{database, name, fmt.Sprint(id)}, withoutSystem(script), nil)
		}
	}
	return nil
}

// withoutSystem returns a definition without what the server sets.
func withoutSystem(o *jsonc.Object) *jsonc.Object {
	out := jsonc.NewObject()
	for _, m := range o.Members() {
		if !strings.HasPrefix(m.Name, "_") && m.Name != "statistics" {
			out.Set(m.Name, m.Value)
		}
	}
	return out
}

// keyspace exports a keyspace with its tables.
func (e *exporter) keyspace(ctx context.Context, name string, found *jsonc.Object) error {
	options, err := e.options(ctx, "cassandraKeyspaces/throughputSettings", name)
	if err != nil {
		return err
	}
	e.add("cassandraKeyspaces", []string{name}, found, options)
	if err := e.inexpressible(ctx, name); err != nil {
		return err
	}
	rows, err := e.cql.run(ctx, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = "+literal(name))
	if err != nil {
		return err
	}
	tables := make([]string, len(rows))
	for i, row := range rows {
		tables[i] = string(row[0])
	}
	slices.Sort(tables)
	for _, table := range tables {
		definition, err := e.cql.read(ctx, itemOf("cassandraKeyspaces/tables", name, table))
		if err != nil {
			return err
		}
		options, err := e.options(ctx, "cassandraKeyspaces/tables/throughputSettings", name, table)
		if err != nil {
			return err
		}
		e.add("cassandraKeyspaces/tables", []string{name, table}, definition, options)
	}
	return nil
}

// inexpressible notes what a keyspace has and no resource type can have.
func (e *exporter) inexpressible(ctx context.Context, name string) error {
	where := " WHERE keyspace_name = " + literal(name)
	for _, part := range []struct{ noun, query string }{
		{"type", "SELECT type_name FROM system_schema.types" + where},
		{"index", "SELECT index_name FROM system_schema.indexes" + where},
		{"materialized view", "SELECT view_name FROM system_schema.views" + where},
	} {
		rows, err := e.cql.run(ctx, part.query)
		if err != nil {
			return err
		}
		for _, row := range rows {
			e.notes = append(e.notes, fmt.Sprintf("keyspace %s: the %s %s is not exported: it has no resource type", name, part.noun, row[0]))
		}
	}
	rows, err := e.cql.run(ctx, "SELECT table_name, column_name, kind FROM system_schema.columns"+where)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if string(row[2]) == "static" {
			e.notes = append(e.notes, fmt.Sprintf("table %s/%s: a template cannot say that the column %s is static", name, row[0], row[1]))
		}
	}
	return nil
}
