package table

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/row"
	"github.com/decandb/decan/internal/table/cql"
)

// ChangeKind says what a definition statement did.
type ChangeKind string

// The kinds of changes, as events and results have them.
const (
	Unchanged ChangeKind = "" // IF EXISTS or IF NOT EXISTS left all as it was
	Created   ChangeKind = "CREATED"
	Updated   ChangeKind = "UPDATED"
	Dropped   ChangeKind = "DROPPED"
)

// Change is what a definition statement does to a schema.
type Change struct {
	Kind ChangeKind
	// Target is KEYSPACE, TABLE or TYPE. An index is a change of its table, and a view is
	// a table. The definition of a type is in that of its keyspace.
	Target         string
	Keyspace, Name string // Name is empty for a keyspace
	Schema         *Schema
}

// Environment is what the definitions of a statement need from outside.
type Environment struct {
	NewID func() [16]byte // a new random uuid
	Now   int64           // in microseconds since 1970
}

// definer carries out one statement.
type definer struct {
	*Schema
	inUse string
	env   Environment
}

// Define carries out a statement that defines keyspaces, tables, types, indexes or views.
// inUse is the keyspace in use, which may be empty. The error is an *Error.
func (s *Schema) Define(statement cql.Statement, inUse string, env Environment) (Change, error) {
	d := &definer{s, inUse, env}
	switch e := statement.(type) {
	case *cql.CreateKeyspace:
		return d.createKeyspace(e)
	case *cql.AlterKeyspace:
		return d.alterKeyspace(e)
	case *cql.DropKeyspace:
		return d.dropKeyspace(e)
	case *cql.CreateTable:
		return d.createTable(e)
	case *cql.AlterTable:
		return d.alterTable(e)
	case *cql.DropTable:
		return d.dropTable(e)
	case *cql.CreateType:
		return d.createType(e)
	case *cql.AlterUserType:
		return d.alterType(e)
	case *cql.DropType:
		return d.dropType(e)
	case *cql.CreateIndex:
		return d.createIndex(e)
	case *cql.DropIndex:
		return d.dropIndex(e)
	case *cql.CreateView:
		return d.createView(e)
	case *cql.AlterView:
		return d.alterView(e)
	case *cql.DropView:
		return d.dropView(e)
	}
	return d.withoutFunctions(statement)
}

// systemKeyspaces are those that no statement changes.
var systemKeyspaces = []string{"system", "system_auth", "system_cosmos", "system_distributed", "system_schema", "system_traces", "system_views", "system_virtual_schema"}

func unmodifiable(keyspace string) error {
	if !slices.Contains(systemKeyspaces, strings.ToLower(keyspace)) {
		return nil
	}
	return &Error{Class: Unauthorized, Text: strings.ToLower(keyspace) + " keyspace is not user-modifiable."}
}

func (d *definer) qualify(n cql.Name) cql.Name {
	if n.Keyspace == "" {
		n.Keyspace = d.inUse
	}
	return n
}

// keyspaceOf returns the keyspace of a name. It is nil without an error if there is none
// and missing is set.
func (d *definer) keyspaceOf(n *cql.Name, missing bool) (*Keyspace, error) {
	*n = d.qualify(*n)
	if n.Keyspace == "" {
		return nil, noKeyspace()
	}
	if err := unmodifiable(n.Keyspace); err != nil {
		return nil, err
	}
	k := d.Keyspace(n.Keyspace)
	if k == nil && !missing {
		return nil, invalid("Keyspace '%s' doesn't exist", n.Keyspace)
	}
	return k, nil
}

func (d *definer) changed(kind ChangeKind, target string, k *Keyspace, name string) Change {
	return Change{Kind: kind, Target: target, Keyspace: k.Name, Name: name, Schema: d.with(k)}
}

func (d *definer) unchanged() Change { return Change{Schema: d.Schema} }

// validName reports whether a name of a keyspace or table has only letters, digits and
// underscores, and at most 48 of them.
func validName(name string) bool {
	if name == "" || len(name) > 48 {
		return false
	}
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

func (d *definer) createKeyspace(e *cql.CreateKeyspace) (Change, error) {
	if slices.Contains(systemKeyspaces, strings.ToLower(e.Keyspace)) {
		return Change{}, invalid("System keyspace '%s' is not user-modifiable", e.Keyspace)
	}
	if !validName(e.Keyspace) {
		return Change{}, invalid("Keyspace name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got '%s')", e.Keyspace)
	}
	k := &Keyspace{Name: e.Keyspace, DurableWrites: true}
	if err := k.set(e.Properties); err != nil {
		return Change{}, err
	}
	if k.Replication == nil {
		return Change{}, invalid("Missing mandatory option 'replication'")
	}
	if d.Keyspace(e.Keyspace) != nil {
		if e.IfNotExists {
			return d.unchanged(), nil
		}
		return Change{}, &Error{Class: Exists, Text: `Cannot add existing keyspace "` + e.Keyspace + `"`, Keyspace: e.Keyspace}
	}
	if err := replicationOption(k.Replication, k.Name); err != nil {
		return Change{}, err
	}
	return d.changed(Created, "KEYSPACE", k, ""), nil
}

// strategies are the replication strategies that a keyspace may name.
var strategies = []string{"SimpleStrategy", "NetworkTopologyStrategy", "LocalStrategy", "EverywhereStrategy"}

// set changes a keyspace by the options of a statement. Nothing else follows from
// durable_writes; [replicationOption] checks the replication.
func (k *Keyspace) set(props []cql.Property) error {
	for _, p := range props {
		switch p.Name {
		case "replication":
			if !p.IsMap {
				return syntax("Invalid value for property '%s'. It should be a map.", p.Name)
			}
		case "durable_writes", "cosmosdb_provisioned_throughput", "cosmosdb_autoscale_max_throughput":
			if p.IsMap {
				return syntax("Invalid value for property '%s'. It should be a string", p.Name)
			}
		default:
			return syntax("Unknown property '%s'", p.Name)
		}
	}
	for _, p := range props {
		switch p.Name {
		case "durable_writes":
			durable, err := booleanOption(p)
			if err != nil {
				return err
			}
			k.DurableWrites = durable
		case "replication":
			given := entries(p)
			if given["class"] == "" {
				return config("Missing replication strategy class")
			}
			k.Replication = given
		case "cosmosdb_provisioned_throughput", "cosmosdb_autoscale_max_throughput":
			n, err := throughputOption(p)
			if err != nil {
				return err
			}
			if p.Name == "cosmosdb_provisioned_throughput" {
				k.Throughput = n
			} else {
				k.Autoscale = n
			}
		}
	}
	return oneThroughput(k.Throughput, k.Autoscale)
}

func (d *definer) alterKeyspace(e *cql.AlterKeyspace) (Change, error) {
	if err := unmodifiable(e.Keyspace); err != nil {
		return Change{}, err
	}
	k := d.Keyspace(e.Keyspace)
	if k == nil {
		if e.IfExists {
			return d.unchanged(), nil
		}
		return Change{}, invalid("Keyspace '%s' doesn't exist", e.Keyspace)
	}
	changed := *k
	if err := changed.set(e.Properties); err != nil {
		return Change{}, err
	}
	if slices.ContainsFunc(e.Properties, func(p cql.Property) bool { return p.Name == "replication" }) {
		if err := replicationOption(changed.Replication, k.Name); err != nil {
			return Change{}, err
		}
	}
	return d.changed(Updated, "KEYSPACE", &changed, ""), nil
}

func (d *definer) dropKeyspace(e *cql.DropKeyspace) (Change, error) {
	if err := unmodifiable(e.Keyspace); err != nil {
		return Change{}, err
	}
	if d.Keyspace(e.Keyspace) == nil {
		if e.IfExists {
			return d.unchanged(), nil
		}
		return Change{}, invalid("Keyspace '%s' doesn't exist", e.Keyspace)
	}
	return Change{Kind: Dropped, Target: "KEYSPACE", Keyspace: e.Keyspace, Schema: d.without(e.Keyspace)}, nil
}

// typeOf resolves a type of a column or field of a keyspace.
func (d *definer) typeOf(t *cql.Type, keyspace string) (*row.Type, error) {
	if other := foreign(t, keyspace); other != "" {
		return nil, invalid("Statement on keyspace %s cannot refer to a user type in keyspace %s; user types can only be used in the keyspace they are defined in", keyspace, other)
	}
	parsed, err := row.ParseType(t.String(), func(_, name string) (*row.Type, error) { return d.UserType(keyspace, name) })
	if err != nil {
		return nil, badType(err)
	}
	return parsed, checkParts(parsed)
}

// checkParts refuses the types that a collection or tuple cannot have inside.
func checkParts(t *row.Type) error {
	for i, p := range t.Parts {
		if t.Collection() {
			switch {
			case p.Kind == row.KindCounter:
				return invalid("Counters are not allowed inside collections: %s", t)
			case p.Multicell() && p.Kind == row.KindUDT:
				return invalid("Non-frozen UDTs are not allowed inside collections: %s", t)
			case p.Multicell():
				return invalid("Non-frozen collections are not allowed inside collections: %s", t)
			case p.Kind == row.KindDuration && t.Kind == row.KindMap && i == 0:
				return invalid("Durations are not allowed as map keys: %s", t)
			case p.Kind == row.KindDuration && t.Kind == row.KindSet:
				return invalid("Durations are not allowed inside sets: %s", t)
			}
		}
		if t.Kind == row.KindTuple && p.Kind == row.KindCounter {
			return invalid("Counters are not allowed inside tuples")
		}
		if t.Kind != row.KindUDT {
			if err := checkParts(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// foreign returns the keyspace of a user type that is not in the given one.
func foreign(t *cql.Type, keyspace string) string {
	if t.Kind == cql.UserType && t.Keyspace != "" && t.Keyspace != keyspace {
		return t.Keyspace
	}
	for _, e := range t.Elements {
		if other := foreign(e, keyspace); other != "" {
			return other
		}
	}
	return ""
}

func (d *definer) createType(e *cql.CreateType) (Change, error) {
	name := e.Type
	k, err := d.keyspaceOf(&name, false)
	if err != nil {
		return Change{}, err
	}
	if k.Type(name.Name) != nil {
		if e.IfNotExists {
			return d.unchanged(), nil
		}
		return Change{}, invalid("A user type with name '%s' already exists", name.Name)
	}
	t := row.UDTOf(k.Name, name.Name, nil, nil)
	for _, f := range e.Fields {
		if slices.Contains(t.Fields, f.Name) {
			return Change{}, invalid("Duplicate field name '%s' in type '%s'", f.Name, name.Name)
		}
		of, err := d.fieldType(f.Type, k.Name)
		if err != nil {
			return Change{}, err
		}
		t.Fields, t.Parts = append(t.Fields, f.Name), append(t.Parts, of)
	}
	return d.changed(Created, "TYPE", k.withType(t), name.Name), nil
}

func (d *definer) fieldType(t *cql.Type, keyspace string) (*row.Type, error) {
	if t.Kind == cql.NativeType && t.Name == "counter" {
		return nil, invalid("A user type cannot contain counters")
	}
	if t.Kind == cql.UserType && !t.Frozen {
		return nil, invalid("A user type cannot contain non-frozen UDTs")
	}
	return d.typeOf(t, keyspace)
}

func (d *definer) alterType(e *cql.AlterUserType) (Change, error) {
	name := e.Type
	k, err := d.keyspaceOf(&name, true)
	if err != nil {
		return Change{}, err
	}
	var t *row.Type
	if k != nil {
		t = k.Type(name.Name)
	}
	if t == nil {
		if e.IfExists {
			return d.unchanged(), nil
		}
		return Change{}, invalid("Type %s.%s doesn't exist", name.Keyspace, name.Name)
	}
	full := cql.Quote(k.Name) + "." + cql.Quote(t.Name)
	changed := row.UDTOf(k.Name, t.Name, slices.Clone(t.Fields), slices.Clone(t.Parts))
	switch {
	case e.Change != nil:
		return Change{}, invalid("Altering field types is no longer supported")
	case e.Add != nil:
		if t.Field(e.Add.Name) >= 0 {
			if e.IfField {
				return d.unchanged(), nil
			}
			return Change{}, invalid("Cannot add field %s to type %s: a field with name %s already exists", e.Add.Name, full, e.Add.Name)
		}
		of, err := d.fieldType(e.Add.Type, k.Name)
		if err != nil {
			return Change{}, err
		}
		if names(of, t.Name) {
			return Change{}, invalid("Cannot add new field %s of type %s to user type %s as it would create a circular reference", e.Add.Name, qualified(of), full)
		}
		if used := k.keyedBy(t.Name); len(used) > 0 {
			return Change{}, invalid("Cannot add new field %s of type %s to user type %s as the type is being used in partition key by the following tables: %s", e.Add.Name, qualified(of), full, strings.Join(used, ", "))
		}
		changed.Fields, changed.Parts = append(changed.Fields, e.Add.Name), append(changed.Parts, of)
	default:
		for _, r := range e.Renames {
			i := changed.Field(r.From)
			if i < 0 {
				if e.IfField {
					continue
				}
				return Change{}, invalid("Unkown field %s in user type %s", r.From, full)
			}
			changed.Fields[i] = r.To
		}
		if slices.Equal(changed.Fields, t.Fields) {
			return d.unchanged(), nil
		}
		for i, f := range changed.Fields {
			if slices.Contains(changed.Fields[:i], f) {
				return Change{}, invalid("Duplicate field name %s in type %s", f, full)
			}
		}
	}
	return d.changed(Updated, "TYPE", k.withType(changed), t.Name), nil
}

// qualified returns the text of a type with the keyspace of the outermost user type.
func qualified(t *row.Type) string {
	if t.Kind != row.KindUDT {
		return t.String()
	}
	text := cql.Quote(t.Keyspace) + "." + cql.Quote(t.Name)
	if t.Frozen {
		return "frozen<" + text + ">"
	}
	return text
}

func (d *definer) dropType(e *cql.DropType) (Change, error) {
	name := e.Type
	k, err := d.keyspaceOf(&name, true)
	if err != nil {
		return Change{}, err
	}
	if k == nil || k.Type(name.Name) == nil {
		if e.IfExists {
			return d.unchanged(), nil
		}
		return Change{}, invalid("Type '%s.%s' doesn't exist", name.Keyspace, name.Name)
	}
	var types, tables []string
	for _, t := range k.Types {
		if t.Name != name.Name && names(t, name.Name) {
			types = append(types, t.Name)
		}
	}
	for _, t := range k.Tables {
		if slices.ContainsFunc(t.all(), func(c *Column) bool { return names(c.Type, name.Name) }) {
			tables = append(tables, t.Name)
		}
	}
	switch {
	case len(types) > 0:
		return Change{}, invalid("Cannot drop user type '%s.%s' as it is still used by user types %s", k.Name, name.Name, strings.Join(types, ", "))
	case len(tables) > 0:
		return Change{}, invalid("Cannot drop user type '%s.%s' as it is still used by tables %s", k.Name, name.Name, strings.Join(tables, ", "))
	}
	return d.changed(Dropped, "TYPE", k.withoutType(name.Name), name.Name), nil
}

// keyedBy returns the tables whose partition keys have a user-defined type in them: a new
// field would change the bytes of their keys.
func (k *Keyspace) keyedBy(name string) (used []string) {
	for _, t := range k.Tables {
		if slices.ContainsFunc(t.Partition, func(c *Column) bool { return names(c.Type, name) }) {
			used = append(used, cql.Quote(t.Keyspace)+"."+cql.Quote(t.Name))
		}
	}
	slices.Sort(used)
	return used
}
