package deploy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/deploy/jsonc"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// Action is what a deployment does with a resource, under the service's names.
type Action string

// The actions.
const (
	Create   Action = "Create"
	Modify   Action = "Modify"
	NoChange Action = "NoChange"
	// Uncertain is a resource whose content depends on what another one will be.
	Uncertain Action = "Deploy"
)

// Delta is a property that changes.
type Delta struct {
	Path   string // Such as indexingPolicy.includedPaths[0].path.
	Action Action // Create, Modify, or Delete.
	Before any
	After  any
}

// Delete is the action of a property that goes away.
const Delete Action = "Delete"

// Change is what must be done so that a resource is as the template wants it.
type Change struct {
	Item
	Action Action
	Deltas []Delta
	// Body is what to write: for a container, a script or a role its definition, for a
	// throughput its settings, for a table the columns and settings that it gets.
	Body *jsonc.Object
	// Options are those of a resource that is created: throughput or autoscaleSettings.
	Options *jsonc.Object
	// Before is what exists.
	Before *jsonc.Object
	// Notes are sentences about what the template has and the deployment leaves out.
	Notes []string
}

// Compare compares a resource with what exists. properties are those of the template,
// resolved; current is what exists, as a [Target] reads it, or nil. The error is a
// [*status.Error], or an [*Error].
func (i Item) Compare(raw, current *jsonc.Object) (Change, error) {
	clean, notes := i.Clean(raw)
	c := Change{Item: i, Notes: notes, Before: current}
	var err error
	switch i.Kind {
	case Account:
		c.Action = NoChange
		c.Notes = nil
		return c, nil
	case RoleDefinition, RoleAssignment:
		c.Body = relative(clean, i.accountID()).(*jsonc.Object)
	default:
		if c.Body, err = i.definition(clean); err != nil {
			return c, err
		}
		if options, has := clean.Get("options"); has {
			c.Options, _ = options.(*jsonc.Object)
		}
	}
	if jsonc.IsOpen(c.Body) {
		c.Action = Uncertain
		return c, nil
	}
	switch i.Kind {
	case Container:
		err = c.compareContainer()
	case Table:
		err = c.compareTable()
	case Throughput:
		err = c.compareThroughput()
	default:
		c.compareMembers()
	}
	return c, err
}

// accountID returns the id of the account of a resource.
func (i Item) accountID() string { return i.ID[:accountEnd(i.ID)] }

// accountEnd returns where the id of the account ends in an id that begins with it; 0 if
// it does not.
func accountEnd(id string) int {
	lower := lowerASCII(id)
	const segment = "/databaseaccounts/"
	at := strings.Index(lower, segment)
	if at < 0 {
		return 0
	}
	at += len(segment)
	if end := strings.IndexByte(lower[at:], '/'); end >= 0 {
		return at + end
	}
	return len(id)
}

// lowerASCII returns s with small letters, byte for byte: other letters may have another
// length when they are small.
func lowerASCII(s string) string {
	out := []byte(s)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] += 'a' - 'A'
		}
	}
	return string(out)
}

// BelowAccount returns the part of a scope below its account, such as /dbs/shop, whether
// the scope begins with the id of the account or not; "" is the account.
func BelowAccount(scope string) string {
	return strings.TrimSuffix(scope[accountEnd(scope):], "/")
}

// relative cuts the id of the account from the strings of a value: the account of the
// template is the server, whatever their names.
func relative(v any, account string) any {
	switch v := v.(type) {
	case *jsonc.Array:
		items := make([]any, v.Len())
		for i, item := range v.Items() {
			items[i] = relative(item, account)
		}
		return jsonc.NewArray(items...)
	case *jsonc.Object:
		out := jsonc.NewObject()
		for _, m := range v.Members() {
			out.Set(m.Name, relative(m.Value, account))
		}
		return out
	case string:
		rest, found := cutFold(v, account)
		switch {
		case !found || account == "":
			return v
		case rest == "":
			return "/"
		case rest[0] == '/':
			return rest
		}
	}
	return v
}

// definition returns the member resource, whose id must be the name of the resource.
func (i Item) definition(clean *jsonc.Object) (*jsonc.Object, error) {
	member, _ := clean.Get("resource")
	object, is := member.(*jsonc.Object)
	if !is {
		return nil, status.BadRequest("The resource '%s' has no properties.resource.", i.Name)
	}
	out := jsonc.NewObject()
	name := i.Names[len(i.Names)-1]
	if i.Kind != Throughput {
		out.Set("id", name)
	}
	for _, m := range object.Members() {
		switch m.Name {
		case "id":
			if i.Kind != Throughput && m.Value != name {
				return nil, status.BadRequest("The id '%v' in properties.resource is not the last part of the name '%s'.", m.Value, i.Name)
			}
		case "createMode", "restoreParameters":
			if m.Name == "createMode" && m.Value != "Default" {
				return nil, status.BadRequest("The createMode '%v' is not supported: there are no backups to restore from.", m.Value)
			}
		default:
			out.Set(m.Name, m.Value)
		}
	}
	return out, nil
}

// parsed returns a value of the data plane.
func parsed(o *jsonc.Object) (value.Value, error) { return value.ParseString(jsonc.Text(o)) }

// object returns a value of the data plane as an object of this package.
func object(v value.Value) *jsonc.Object {
	node, err := jsonc.Parse(string(v.JSON()))
	if err != nil {
		panic(err) // Written JSON is JSON.
	}
	return node.Plain().(*jsonc.Object)
}

// systemMembers are members of a definition that the server sets.
var systemMembers = []string{"_rid", "_ts", "_self", "_etag", "_docs", "_sprocs", "_triggers", "_udfs", "_conflicts", "_colls", "_users", "statistics"}

// stripped returns a definition without what the server sets.
func stripped(o *jsonc.Object) *jsonc.Object {
	out := jsonc.NewObject()
	for _, m := range o.Members() {
		if !slices.Contains(systemMembers, m.Name) {
			out.Set(m.Name, m.Value)
		}
	}
	return out
}

// compareContainer compares definitions with all defaults filled in.
func (c *Change) compareContainer() error {
	wanted, err := parsed(c.Body)
	if err != nil {
		return err
	}
	if c.Before == nil {
		c.Action = Create
		_, err := resource.ParseContainer(wanted)
		return err
	}
	if _, table := c.Before.Get("table"); table {
		return status.BadRequest("The container '%s' is a table of the Cassandra API.", c.Path())
	}
	before, err := parsed(c.Before)
	if err != nil {
		return err
	}
	old, err := resource.ParseContainer(before)
	if err != nil {
		return err
	}
	// Members that the published types do not have are not the template's to remove.
	for _, name := range extensions {
		if kept, has := c.Before.Get(name); has {
			if _, given := c.Body.Get(name); !given {
				c.Body.Set(name, kept)
			}
		}
	}
	if key, has := c.Body.Get("partitionKey"); !has || key == nil {
		kept, _ := c.Before.Get("partitionKey")
		c.Body.Set("partitionKey", kept)
	}
	if wanted, err = parsed(c.Body); err != nil {
		return err
	}
	replaced, err := old.Replace(wanted)
	if err != nil {
		return err
	}
	c.diff(stripped(object(old.Value())), stripped(object(replaced.Value())))
	return nil
}

// diff sets the deltas and the action.
func (c *Change) diff(before, after *jsonc.Object) {
	c.Deltas = differences(nil, "", before, after)
	c.Action = Modify
	if len(c.Deltas) == 0 {
		c.Action = NoChange
	}
}

// compareMembers compares the members that the template has.
func (c *Change) compareMembers() {
	if c.Before == nil {
		c.Action = Create
		return
	}
	before := jsonc.NewObject()
	for _, m := range c.Body.Members() {
		if old, has := c.Before.Get(m.Name); has {
			before.Set(m.Name, withoutEmpty(old))
		}
	}
	c.diff(before, withoutEmpty(c.Body).(*jsonc.Object))
	if c.Kind == Database || c.Kind == Keyspace {
		c.Action, c.Deltas = NoChange, nil // They have no properties of their own.
	}
}

// withoutEmpty returns a value without members that are empty arrays: a role without
// notDataActions means the same as one with none of them.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case *jsonc.Array:
		items := make([]any, v.Len())
		for i, item := range v.Items() {
			items[i] = withoutEmpty(item)
		}
		return jsonc.NewArray(items...)
	case *jsonc.Object:
		out := jsonc.NewObject()
		for _, m := range v.Members() {
			if a, is := m.Value.(*jsonc.Array); !is || a.Len() > 0 {
				out.Set(m.Name, withoutEmpty(m.Value))
			}
		}
		return out
	}
	return v
}

// compareThroughput compares settings. An export of the portal has both kinds; autoscale
// rules then.
func (c *Change) compareThroughput() error {
	settings := jsonc.NewObject()
	if autoscale, has := c.Body.Get("autoscaleSettings"); has {
		settings.Set("autoscaleSettings", autoscale)
	} else if manual, has := c.Body.Get("throughput"); has {
		settings.Set("throughput", manual)
	} else {
		return status.BadRequest("The throughput settings '%s' have neither throughput nor autoscaleSettings.", c.Name)
	}
	if buckets, has := c.Body.Get("throughputBuckets"); has {
		settings.Set("throughputBuckets", buckets)
	}
	c.Body = settings
	if c.Before == nil {
		return status.New(status.CodeNotFound, 0, "The %s has no throughput of its own that could be set.", c.owner())
	}
	c.diff(common(c.Before, settings), settings)
	return nil
}

// owner returns the kind and path of what has a throughput.
func (i Item) owner() string {
	kind := Database
	switch {
	case i.OfTables() && len(i.Names) == 2:
		kind = Table
	case i.OfTables():
		kind = Keyspace
	case len(i.Names) == 2:
		kind = Container
	}
	return string(kind) + " '" + i.Path() + "'"
}

// common returns the members of before of which wanted says something: those that it has,
// and of the throughput the kind that goes away.
func common(before, wanted *jsonc.Object) *jsonc.Object {
	out := jsonc.NewObject()
	for _, m := range before.Members() {
		inner, is := m.Value.(*jsonc.Object)
		other, has := wanted.Get(m.Name)
		if both, object := other.(*jsonc.Object); is && has && object {
			out.Set(m.Name, common(inner, both))
		} else if has || m.Name == "throughput" || m.Name == "autoscaleSettings" {
			out.Set(m.Name, m.Value)
		}
	}
	return out
}

// differences appends the differences of two values.
func differences(out []Delta, path string, before, after any) []Delta {
	if jsonc.Equal(before, after) {
		return out
	}
	a, both := before.(*jsonc.Object)
	b, objects := after.(*jsonc.Object)
	if both && objects {
		return objectDifferences(out, path, a, b)
	}
	x, both := before.(*jsonc.Array)
	y, arrays := after.(*jsonc.Array)
	if both && arrays {
		return arrayDifferences(out, path, x, y)
	}
	return append(out, Delta{path, Modify, before, after})
}

func objectDifferences(out []Delta, path string, a, b *jsonc.Object) []Delta {
	inside := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	for _, m := range a.Members() {
		if other, has := b.Exact(m.Name); has {
			out = differences(out, inside(m.Name), m.Value, other)
		} else {
			out = append(out, Delta{inside(m.Name), Delete, m.Value, nil})
		}
	}
	for _, m := range b.Members() {
		if _, has := a.Exact(m.Name); !has {
			out = append(out, Delta{inside(m.Name), Create, nil, m.Value})
		}
	}
	return out
}

// arrayDifferences compares arrays of equal length item by item, others as sets.
func arrayDifferences(out []Delta, path string, a, b *jsonc.Array) []Delta {
	if a.Len() == b.Len() {
		for i := range a.Len() {
			out = differences(out, fmt.Sprintf("%s[%d]", path, i), a.At(i), b.At(i))
		}
		return out
	}
	has := func(list *jsonc.Array, v any) bool {
		return slices.ContainsFunc(list.Items(), func(other any) bool { return jsonc.Equal(other, v) })
	}
	begun := len(out)
	for i, v := range a.Items() {
		if !has(b, v) {
			out = append(out, Delta{fmt.Sprintf("%s[%d]", path, i), Delete, v, nil})
		}
	}
	for i, v := range b.Items() {
		if !has(a, v) {
			out = append(out, Delta{fmt.Sprintf("%s[%d]", path, i), Create, nil, v})
		}
	}
	if len(out) == begun { // Only repetitions differ.
		out = append(out, Delta{path, Modify, a, b})
	}
	return out
}
