package query

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// Computed are the computed properties of a container: expressions over a document
// that queries see as top-level properties, in place of stored properties of the same
// names. A nil Computed has none. It is immutable.
type Computed struct {
	list  []computedProperty
	names map[string]int // into list
	plan  Plan           // places, slots and registers of what Extend evaluates
	evals []func(e *env) value.Value
}

type computedProperty struct {
	name  string
	alias string // of the document in x
	x     sql.Expr
}

// computedMax is the maximum number of computed properties of a container.
const computedMax = 20

// CompileComputed checks and compiles computed properties. It returns nil for an empty
// list. Each property is SELECT VALUE of an expression FROM one name, without other
// clauses, subqueries, aggregates, user-defined or spatial functions, or functions
// whose result varies. It must not refer to another computed property. The error is a
// BadRequest that names the property.
func CompileComputed(list []resource.ComputedProperty) (*Computed, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > computedMax {
		return nil, status.BadRequest("The container has %d computed properties, and at most %d are allowed.", len(list), computedMax)
	}
	d := &Computed{names: map[string]int{}}
	for i, p := range list {
		if _, seen := d.names[p.Name]; seen {
			return nil, refuseComputed(p.Name, "its name occurs more than once")
		}
		if p.Name == "" || p.Name == "id" || systemProperty(p.Name) {
			return nil, refuseComputed(p.Name, "its name is that of a system property")
		}
		d.names[p.Name] = i
	}
	for i, p := range list {
		if err := d.add(i, p); err != nil {
			return nil, err
		}
	}
	c := newCompiler(nil, d, nil)
	for _, p := range d.list {
		d.evals = append(d.evals, c.property(p.name).value())
	}
	d.plan = Plan{places: c.places, locals: c.locals}
	return d, nil
}

func refuseComputed(name, why string) error {
	return status.BadRequest("The computed property '%s' is not valid: %s", truncate(name), why)
}

// truncate limits the length of client text in a message.
func truncate(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// malformed returns the error of a definition whose query is not one, in the words of the
// service. Its details have numbers as codes, and no location.
func malformed(i int, p resource.ComputedProperty, err error) error {
	details := status.From(err).Message
	if parsed, parseErr := value.ParseString(details); parseErr == nil {
		var faults []value.Value
		for _, fault := range parsed.Get("errors").Items() {
			code, err := strconv.Atoi(strings.TrimPrefix(fault.Get("code").Text(), "SC"))
			if err != nil {
				continue
			}
			faults = append(faults, value.Object([]value.Member{
				{Name: "severity", Value: fault.Get("severity")},
				{Name: "code", Value: value.Int(int64(code))},
				{Name: "message", Value: fault.Get("message")},
			}))
		}
		details = value.Object([]value.Member{{Name: "errors", Value: value.Array(faults)}}).JSON()
	}
	return status.Service("Computed property at index (%d) has a malformed query: '%s' Error details: '%s'", i, truncate(p.Query), details)
}

// add checks property i and adds it.
func (d *Computed) add(i int, p resource.ComputedProperty) error {
	q, err := sql.Parse(p.Query, nil)
	if err != nil {
		return malformed(i, p, err)
	}
	plan := &Plan{query: q}
	if err := plan.check(p.Query); err != nil {
		return malformed(i, p, err)
	}
	if q.Value == nil {
		return status.Service("Required VALUE expression missing from computed property query '%s' at index (%d).", truncate(p.Query), i)
	}
	if why := notComputable(q); why != "" {
		return refuseComputed(p.Name, why)
	}
	property := computedProperty{name: p.Name, alias: q.From.Inputs[0].Name(), x: q.Value}
	if why := d.refuses(&property, q.Value); why != "" {
		return refuseComputed(p.Name, why)
	}
	if plan.refused != nil {
		return malformed(i, p, plan.refused)
	}
	d.list = append(d.list, property)
	return nil
}

// notComputable returns the clause that is not allowed in a computed property.
func notComputable(q *sql.Select) string {
	switch {
	case q.From == nil:
		return "its query has no FROM clause"
	case len(q.From.Inputs) != 1:
		return "its query has a JOIN"
	case q.Distinct, q.Top != nil, q.Where != nil, len(q.GroupBy) > 0, len(q.OrderBy) > 0, q.Offset != nil:
		return "its query may have only the clauses SELECT VALUE and FROM"
	}
	in := &q.From.Inputs[0]
	if _, whole := in.Collection.(*sql.Ident); !whole || in.In {
		return "its query must be FROM the whole document"
	}
	return ""
}

// refuses returns what is not allowed in x in a computed property.
func (d *Computed) refuses(p *computedProperty, x sql.Expr) string {
	switch x := x.(type) {
	case *sql.Subquery:
		return "its query has a subquery"
	case *sql.CallExpr:
		if why := refusesCall(x); why != "" {
			return why
		}
	case *sql.MemberExpr:
		root, ok := x.X.(*sql.Ident)
		if _, computed := d.names[x.Name]; ok && computed && root.Name == p.alias && x.Name != p.name {
			return "it refers to the computed property '" + truncate(x.Name) + "'"
		}
	}
	for part := range sql.Children(x) {
		if why := d.refuses(p, part); why != "" {
			return why
		}
	}
	return ""
}

func refusesCall(x *sql.CallExpr) string {
	name := strings.ToUpper(x.Name)
	f := functions[name]
	switch {
	case x.UDF:
		return "it calls a user-defined function"
	case f == nil:
		return ""
	case f.aggregate:
		return "it has an aggregate"
	case f.volatile:
		return "the result of " + f.name + " varies"
	case strings.HasPrefix(name, "ST_"):
		return "it calls the spatial function " + f.name
	}
	return ""
}

func (d *Computed) has(name string) bool {
	if d == nil {
		return false
	}
	_, ok := d.names[name]
	return ok
}

// property compiles a computed property over the stored document.
func (c *compiler) property(name string) code {
	d := c.computed
	p := &d.list[d.names[name]]
	var part code
	c.computed = nil
	c.within(&scope{names: map[string]alias{p.alias: {local: -1, found: true}}}, func() { part = c.expr(p.x) })
	c.computed = d
	return part
}

// Extend returns the document in body, which is JSON, with its computed properties:
// the input of the index on a write. An undefined one is missing, even if a property
// of that name is stored. The value may share the memory of body. A nil Computed adds
// nothing.
func (d *Computed) Extend(body []byte) (value.Value, error) {
	doc, err := value.Parse(body)
	if err != nil || d == nil {
		return doc, err
	}
	e := d.plan.env(context.Background(), time.Time{})
	e.load(body)
	for i, eval := range d.evals {
		doc = doc.With(d.list[i].name, eval(&e))
	}
	return doc, e.err
}
