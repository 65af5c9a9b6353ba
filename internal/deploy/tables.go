package deploy

import (
	"strings"

	"github.com/decandb/decan/internal/deploy/jsonc"
	"github.com/decandb/decan/internal/status"
)

// compareTable compares the schema and the expiry of a table. What exists has the same
// form as a template's definition, with all members. The body of a change has the columns
// that are added, and defaultTtl if it changes.
func (c *Change) compareTable() error {
	wanted, err := tableDefinition(c.Body)
	if err != nil {
		return err
	}
	if ttl, has := c.Body.Get("analyticalStorageTtl"); has && ttl != int64(0) {
		c.Notes = append(c.Notes, "properties.resource.analyticalStorageTtl has no effect: there is no analytical store")
	}
	c.Body = wanted
	if c.Before == nil {
		c.Action = Create
		return nil
	}
	before, err := tableDefinition(c.Before)
	if err != nil {
		return err
	}
	old, _ := before.Get("schema")
	schema, _ := wanted.Get("schema")
	for _, member := range []string{"partitionKeys", "clusterKeys"} {
		a, _ := old.(*jsonc.Object).Get(member)
		b, _ := schema.(*jsonc.Object).Get(member)
		if !jsonc.Equal(a, b) {
			return status.BadRequest("The key of a table cannot be changed: its %s are %s.", member, jsonc.Text(a))
		}
	}
	return c.alterTable(before, wanted)
}

// alterTable sets the columns that the table lacks and the changed expiry.
func (c *Change) alterTable(before, wanted *jsonc.Object) error {
	have := columnsOf(before)
	added := []any{}
	c.Action = NoChange
	for _, m := range columnsOf(wanted).Members() {
		old, exists := have.Exact(m.Name)
		switch {
		case !exists:
			added = append(added, jsonc.NewObject("name", m.Name, "type", m.Value))
			c.Deltas = append(c.Deltas, Delta{"schema.columns." + m.Name, Create, nil, m.Value})
		case old != m.Value:
			return status.BadRequest("The type of a column cannot be changed: that of '%s' is %v.", m.Name, old)
		}
	}
	for _, m := range have.Members() {
		if _, stays := columnsOf(wanted).Exact(m.Name); !stays {
			c.Notes = append(c.Notes, "the column "+m.Name+" is not in the template; it stays")
		}
	}
	body := jsonc.NewObject("columns", jsonc.NewArray(added...))
	a, _ := before.Get("defaultTtl")
	b, _ := wanted.Get("defaultTtl")
	if a != b {
		body.Set("defaultTtl", b)
		c.Deltas = append(c.Deltas, Delta{"defaultTtl", Modify, a, b})
	}
	c.Body = body
	if len(c.Deltas) > 0 {
		c.Action = Modify
	}
	return nil
}

// columnsOf returns the types of columns by name.
func columnsOf(table *jsonc.Object) *jsonc.Object {
	out := jsonc.NewObject()
	schema, _ := table.Get("schema")
	columns, _ := schema.(*jsonc.Object).Get("columns")
	for _, item := range columns.(*jsonc.Array).Items() {
		column := item.(*jsonc.Object)
		name, _ := column.Get("name")
		kind, _ := column.Get("type")
		out.Set(name.(string), kind)
	}
	return out
}

// tableDefinition returns a definition with all members, types in lower case and -1 for
// no expiry.
func tableDefinition(body *jsonc.Object) (*jsonc.Object, error) {
	id, _ := body.Get("id")
	member, _ := body.Get("schema")
	schema, is := member.(*jsonc.Object)
	if !is {
		return nil, status.BadRequest("The table '%v' has no schema.", id)
	}
	list := func(member string, form func(o *jsonc.Object, name string) *jsonc.Object) (*jsonc.Array, error) {
		value, _ := schema.Get(member)
		array, is := value.(*jsonc.Array)
		if value == nil {
			return jsonc.NewArray(), nil
		}
		if !is {
			return nil, status.BadRequest("The member '%s' of the schema of table '%v' must be an array.", member, id)
		}
		var items []any
		for _, item := range array.Items() {
			o, is := item.(*jsonc.Object)
			if !is {
				return nil, status.BadRequest("The member '%s' of the schema of table '%v' must be an array of objects.", member, id)
			}
			name, _ := o.Get("name")
			text, is := name.(string)
			if !is || text == "" {
				return nil, status.BadRequest("An entry of '%s' of the schema of table '%v' has no name.", member, id)
			}
			items = append(items, form(o, text))
		}
		return jsonc.NewArray(items...), nil
	}
	untyped := ""
	columns, err := list("columns", func(o *jsonc.Object, name string) *jsonc.Object {
		kind, _ := o.Get("type")
		text, is := kind.(string)
		if !is {
			untyped = name
		}
		return jsonc.NewObject("name", name, "type", normalType(text))
	})
	if err != nil {
		return nil, err
	}
	if untyped != "" {
		return nil, status.BadRequest("The column '%s' of table '%v' has no type.", untyped, id)
	}
	partition, err := list("partitionKeys", func(_ *jsonc.Object, name string) *jsonc.Object { return jsonc.NewObject("name", name) })
	if err != nil {
		return nil, err
	}
	if partition.Len() == 0 {
		return nil, status.BadRequest("The table '%v' has no partitionKeys.", id)
	}
	wrong := ""
	cluster, err := list("clusterKeys", func(o *jsonc.Object, name string) *jsonc.Object {
		order := "Asc"
		given, has := o.Get("orderBy")
		if text, _ := given.(string); strings.EqualFold(text, "Desc") {
			order = "Desc"
		} else if has && !strings.EqualFold(text, "Asc") {
			wrong = name
		}
		return jsonc.NewObject("name", name, "orderBy", order)
	})
	if err != nil {
		return nil, err
	}
	if wrong != "" {
		return nil, status.BadRequest("The orderBy of the key '%s' of table '%v' must be Asc or Desc.", wrong, id)
	}
	ttl, has := body.Get("defaultTtl")
	if !has || ttl == int64(0) {
		ttl = int64(-1)
	}
	return jsonc.NewObject("id", id, "defaultTtl", ttl,
		"schema", jsonc.NewObject("columns", columns, "partitionKeys", partition, "clusterKeys", cluster)), nil
}

// normalType returns a type as CQL writes it: in lower case, with one form of blanks.
func normalType(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	text = strings.NewReplacer("< ", "<", " >", ">", " ,", ",", ", ", ",").Replace(text)
	text = strings.ReplaceAll(text, ",", ", ")
	if text == "varchar" {
		return "text"
	}
	return text
}
