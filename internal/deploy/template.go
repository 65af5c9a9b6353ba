// Package deploy reads Resource Manager templates and says which resources they ask for,
// and what must change so that they exist.
//
// [Expand] turns a template and its parameters into resources in an order of deployment,
// with everything evaluated that does not depend on what exists. [Compare] compares a
// resource with what exists. The package does no I/O: a client carries the changes out.
//
// Page: docs/deploy.md
package deploy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/decandb/decan/internal/deploy/expression"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// Limits of a template, as documented by the vendor.
const (
	ParametersMax = 256
	VariablesMax  = 512
	OutputsMax    = 64
	ResourcesMax  = 800 // With those of loops and nested templates.
	CopyMax       = 800
	// NestedMax is how deeply templates may be nested. The vendor names no limit.
	NestedMax = 20
)

// Error is a template or parameter that is refused, with the code of the service.
type Error struct {
	Code    string
	Message string
	// File, Line and Column are the place: File is the Name of a [Source], or a file that its
	// Place returns. Line is 0 if there is no place, such as for a value of the command line.
	File         string
	Line, Column int

	checked bool // The message needs no words around it.
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Codes of the service.
const (
	invalidTemplate = "InvalidTemplate"
	invalidContent  = "InvalidRequestContent"
)

// failAt returns an error at a node.
func failAt(node *jsonc.Node, format string, args ...any) *Error {
	e := &Error{Code: invalidTemplate, Message: fmt.Sprintf(format, args...)}
	e.place(node)
	return e
}

// place gives an error the place of a node, if there is one.
func (e *Error) place(node *jsonc.Node) {
	if node != nil {
		e.File, e.Line, e.Column = node.File, node.Line, node.Column
	}
}

// misplaced is an error of an expression with its node. The words around it, which are
// those of the service, have the place of the whole resource.
type misplaced struct {
	error
	node *jsonc.Node
}

// Unwrap returns the error itself.
func (m misplaced) Unwrap() error { return m.error }

// at gives an error the place of a node, unless it has one.
func at(node *jsonc.Node, err error) *Error {
	if e, is := errors.AsType[*Error](err); is {
		if e.Line == 0 {
			e.place(node)
		}
		return e
	}
	if inner, is := errors.AsType[misplaced](err); is {
		node = inner.node
	}
	return failAt(node, "%s", err)
}

// wrap puts words around an error of an expression, as the service does.
func wrap(node *jsonc.Node, err error, format string, args ...any) *Error {
	if e, is := errors.AsType[*Error](err); is {
		return at(node, e)
	}
	if inner, is := errors.AsType[misplaced](err); is {
		node = inner.node
	}
	return failAt(node, format, append(args, err)...)
}

// Source is a text and where it comes from.
type Source struct {
	Name string // Of the file, for the places of errors.
	Text string
	// Place returns the place that a place of the text was compiled from; nil if the text
	// was not compiled. Lines and columns are those of [jsonc.Node].
	Place func(line, column int) (file string, fromLine, fromColumn int)
}

// parse reads the text. The nodes have the places of what it was compiled from.
func (s Source) parse() (*jsonc.Node, error) {
	root, err := jsonc.Parse(s.Text)
	if err == nil {
		s.relocate(root)
	}
	return root, err
}

func (s Source) relocate(node *jsonc.Node) {
	node.File = s.Name
	if s.Place != nil {
		node.File, node.Line, node.Column = s.Place(node.Line, node.Column)
	}
	for _, item := range node.Items {
		s.relocate(item)
	}
	for _, field := range node.Fields {
		s.relocate(field.Node)
	}
}

// Request is what [Expand] gets.
type Request struct {
	Template Source
	// Parameters are parameters files. Later values replace earlier ones.
	Parameters []Source
	// Values are parameters by name, as text: for a parameter of the type string the text
	// is the value, for others it is JSON. They replace those of the file.
	Values map[string]string
	Scope  expression.Scope

	// Now and NewGUID serve utcNow and newGuid. While they are nil, the functions give
	// unknown values.
	Now     func() time.Time
	NewGUID func() string
}

// Output is an output of a template.
type Output struct {
	Name   string
	Type   string // As written, such as string.
	Secure bool
	Value  any
}

// Deployment is an expanded template.
type Deployment struct {
	// Resources are those to deploy, in an order in which each follows what it needs.
	Resources []*Resource
	Outputs   []Output

	x *expander
	t *template

	account string // The one that was chosen; see [Choice].
}

// Resource is a resource that a template asks for.
type Resource struct {
	ID         string
	Type       string // As written, such as Microsoft.DocumentDB/databaseAccounts/sqlDatabases.
	Name       string // With the names of its parents: acc/db.
	APIVersion string
	Symbol     string // Of language version 2.0, else empty.
	// Body has the members as they are sent: id, type, name, apiVersion and those of the
	// template. Values that depend on what exists are [*expression.Unknown].
	Body *jsonc.Object
	// Needs are the resources that must exist before, as positions in the list.
	Needs []int
	// File, Line and Column are the place of the resource, as in [Error].
	File         string
	Line, Column int

	env *expression.Env
}

// Resolve returns the body with everything evaluated, from what exists now.
func (r *Resource) Resolve(runtime expression.Runtime) (*jsonc.Object, error) {
	env := *r.env
	env.Runtime = runtime
	env.Budget = &expression.Budget{Left: expression.BudgetMax}
	resolved, err := expression.Resolve(r.Body, &env)
	if err != nil {
		return nil, &Error{
			Code: invalidTemplate, File: r.File, Line: r.Line, Column: r.Column,
			Message: fmt.Sprintf("Unable to process template language expressions for resource '%s' at line '%d' and column '%d'. '%s'", r.ID, r.Line, r.Column, err),
		}
	}
	return resolved.(*jsonc.Object), nil
}

// Properties returns the member properties, or an empty object.
func (r *Resource) Properties() *jsonc.Object {
	value, _ := r.Body.Get("properties")
	if properties, is := value.(*jsonc.Object); is {
		return properties
	}
	return jsonc.NewObject()
}

// Resolve returns the value of an output, from what exists now.
func (d *Deployment) Resolve(o Output, runtime expression.Runtime) (any, error) {
	env := d.t.env(expression.AllowReference)
	env.Runtime = runtime
	env.Budget = &expression.Budget{Left: expression.BudgetMax}
	return expression.Resolve(o.Value, env)
}

// Expand evaluates a template. The error is an [*Error] or a [*jsonc.Error]; the latter is
// about the template.
func Expand(request Request) (*Deployment, error) {
	root, err := request.Template.parse()
	if err != nil {
		return nil, err
	}
	given, err := request.given()
	if err != nil {
		return nil, err
	}
	x := &expander{request: request, budget: &expression.Budget{Left: expression.BudgetMax}}
	t, err := x.open(root, request.Scope)
	if err != nil {
		return nil, err
	}
	if err := t.takeTexts(given, request.Values); err != nil {
		return nil, err
	}
	if err := t.expand(); err != nil {
		return nil, err
	}
	outputs, err := t.outputs()
	if err != nil {
		return nil, err
	}
	resources, err := x.order()
	if err != nil {
		return nil, err
	}
	return &Deployment{Resources: resources, Outputs: outputs, x: x, t: t}, nil
}

// expander has what all templates of a deployment share.
type expander struct {
	request Request
	budget  *expression.Budget
	nodes   []*entry // All resources, and the ends of nested templates.
	count   int      // Resources to deploy.
}

// template is a template that is being expanded.
type template struct {
	x        *expander
	root     *jsonc.Node
	scope    expression.Scope
	outer    *template // Whose parameters and variables hold, for the scope outer.
	loops    []expression.Loop
	depth    int
	symbolic bool

	parameters  symbols
	variables   symbols
	functions   map[string]*expression.Function
	definitions *jsonc.Node

	entries []*entry // Resources, with those that are not deployed.
	user    *entry   // The resource whose body is being evaluated.
	begin   *entry   // What all resources of a nested template need.
}

// topMembers are the members that a template may have.
var topMembers = []string{"$schema", "contentVersion", "languageVersion", "metadata", "apiProfile", "definitions", "parameters", "functions", "variables", "resources", "outputs"}

// open checks the form of a template.
func (x *expander) open(root *jsonc.Node, scope expression.Scope) (*template, error) {
	if !root.IsObject() {
		return nil, failAt(root, "The template is not a JSON object.")
	}
	t := &template{x: x, root: root, scope: scope}
	for _, field := range root.Fields {
		if !slices.ContainsFunc(topMembers, func(name string) bool { return strings.EqualFold(name, field.Name) }) {
			e := failAt(field.Node, "Could not find member '%s' on object of type 'Template'. Path '%[1]s', line %d, position %d.", field.Name, field.Node.Line, field.Node.Column)
			e.Code = invalidContent
			return nil, e
		}
	}
	for _, name := range []string{"$schema", "contentVersion", "resources"} {
		if root.Get(name).IsNull() {
			e := failAt(root, "Required property '%s' not found in JSON. Path '', line %d, position %d.", name, root.Line, root.Column)
			e.Code = invalidContent
			return nil, e
		}
	}
	schema, _ := root.Get("$schema").Text()
	switch lower := strings.ToLower(schema); {
	case strings.Contains(lower, "subscriptiondeploymenttemplate"):
		t.scope.ResourceGroup = ""
	case strings.Contains(lower, "managementgroupdeploymenttemplate"), strings.Contains(lower, "tenantdeploymenttemplate"):
		return nil, failAt(root.Get("$schema"), "Templates of the scope of a management group or tenant have nothing that exists here: %s.", schema)
	case !strings.Contains(lower, "deploymenttemplate"):
		return nil, failAt(root.Get("$schema"), "The value of '$schema' is not that of a deployment template: '%s'.", schema)
	}
	if version, is := root.Get("languageVersion").Text(); is {
		if !strings.HasPrefix(version, "2.") && !strings.HasPrefix(version, "1.") {
			return nil, failAt(root.Get("languageVersion"), "The template language version '%s' is not supported.", version)
		}
		t.symbolic = strings.HasPrefix(version, "2.")
	}
	t.definitions = root.Get("definitions")
	described := jsonc.NewObject()
	for _, name := range []string{"contentVersion", "metadata"} {
		if member := root.Get(name); member != nil {
			described.Set(name, member.Plain())
		}
	}
	t.scope.Template = described
	for _, limit := range []struct {
		name string
		most int
	}{{"parameters", ParametersMax}, {"variables", VariablesMax}, {"outputs", OutputsMax}} {
		member := root.Get(limit.name)
		if member != nil && !member.IsNull() && !member.IsObject() {
			return nil, failAt(member, "The member '%s' of the template must be an object.", limit.name)
		}
		if member != nil && len(member.Fields) > limit.most {
			return nil, failAt(member, "The number of template %s limit exceeded. Limit: '%d' and actual: '%d'. Please see https://aka.ms/arm-template/#%[1]s for usage details.", limit.name, limit.most, len(member.Fields))
		}
	}
	return t, t.readFunctions()
}

// env returns what an expression of the template may see.
func (t *template) env(place expression.Place) *expression.Env {
	owner := t
	for owner.outer != nil {
		owner = owner.outer
	}
	return &expression.Env{
		Scope:     t.scope,
		Parameter: owner.parameters.get,
		Variable:  owner.variables.get,
		Function:  func(name string) *expression.Function { return owner.functions[strings.ToLower(name)] },
		Resources: t,
		Loops:     t.loops,
		Place:     place,
		Symbolic:  t.symbolic,
		Now:       t.x.request.Now,
		NewGUID:   t.x.request.NewGUID,
		Budget:    t.x.budget,
	}
}

// evaluate returns the value of a node: strings may be expressions, names of members too,
// and a member copy of an object makes arrays.
func (t *template) evaluate(node *jsonc.Node, env *expression.Env) (any, error) {
	switch {
	case node == nil:
		return nil, nil
	case node.IsArray():
		items := make([]any, len(node.Items))
		for i, item := range node.Items {
			value, err := t.evaluate(item, env)
			if err != nil {
				return nil, err
			}
			items[i] = value
		}
		return jsonc.NewArray(items...), nil
	case node.IsObject():
		return t.evaluateObject(node, env)
	}
	text, is := node.Value.(string)
	if !is {
		return node.Value, nil
	}
	value, err := evaluateText(text, env)
	if err != nil {
		if _, is := errors.AsType[misplaced](err); !is {
			err = misplaced{err, node}
		}
		return nil, err
	}
	return value, nil
}

// evaluateText returns the value of a string of a template.
func evaluateText(text string, env *expression.Env) (any, error) {
	inside, is := expression.Is(text)
	if !is {
		return inside, nil
	}
	e, err := expression.Parse(inside)
	if err != nil {
		return nil, err
	}
	value, err := expression.Evaluate(e, env)
	if err != nil {
		return nil, err
	}
	if a, is := value.(*jsonc.Array); is && jsonc.IsOpen(a) {
		return expression.Later(a), nil
	}
	return value, nil
}

func (t *template) evaluateObject(node *jsonc.Node, env *expression.Env) (any, error) {
	o := jsonc.NewObject()
	for _, field := range node.Fields {
		if strings.EqualFold(field.Name, "copy") && field.Node.IsArray() {
			if err := t.copies(o, field.Node, env); err != nil {
				return nil, err
			}
			continue
		}
		name := field.Name
		if _, is := expression.Is(name); is || strings.HasPrefix(name, "[[") {
			value, err := evaluateText(name, env)
			if err != nil {
				return nil, misplaced{err, field.Node}
			}
			text, is := value.(string)
			if !is {
				return nil, failAt(field.Node, "The name of a member must be a string: '%s' has a value of type '%s'.", name, expression.TypeName(value))
			}
			name = text
		}
		value, err := t.evaluate(field.Node, env)
		if err != nil {
			return nil, err
		}
		o.Set(name, value)
	}
	return o, nil
}

// copies adds the arrays of a member copy.
func (t *template) copies(o *jsonc.Object, list *jsonc.Node, env *expression.Env) error {
	for _, loop := range list.Items {
		name, named := loop.Get("name").Text()
		if !named || loop.Get("input") == nil {
			return failAt(loop, "The template 'copy' definition at line '%d' and column '%d' needs a name, a count and an input. Please see https://aka.ms/arm-resource-loops for usage details.", loop.Line, loop.Column)
		}
		items, err := t.repeat(loop, expression.Loop{Name: name, Named: true}, loop.Get("input"), env)
		if err != nil {
			return err
		}
		o.Set(name, items)
	}
	return nil
}

// repeat evaluates an input as often as the count of a loop says.
func (t *template) repeat(definition *jsonc.Node, loop expression.Loop, input *jsonc.Node, env *expression.Env) (*jsonc.Array, error) {
	count, err := t.count(definition, env)
	if err != nil {
		return nil, err
	}
	inner := *env
	items := make([]any, count)
	for i := range items {
		loop.Index = int64(i)
		inner.Loops = append(env.Loops[:len(env.Loops):len(env.Loops)], loop)
		if items[i], err = t.evaluate(input, &inner); err != nil {
			return nil, err
		}
	}
	return jsonc.NewArray(items...), nil
}

// count returns the number of iterations of a loop.
func (t *template) count(definition *jsonc.Node, env *expression.Env) (int, error) {
	value, err := t.evaluate(definition.Get("count"), env)
	if err != nil {
		return 0, err
	}
	n, is := value.(int64)
	if !is || n < 0 || n > CopyMax {
		e := failAt(definition, "The template 'copy' definition at line '%d' and column '%d' has an invalid copy count of: '%s'. The copy count must be a non-negative integer value and cannot exceed '%d'. Please see https://aka.ms/arm-resource-loops for usage details.",
			definition.Line, definition.Column, strings.Trim(jsonc.Text(value), `"`), CopyMax)
		e.checked = true
		return 0, e
	}
	return int(n), nil
}
