package deploy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/deploy/expression"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// entry is a resource of a template, one for each iteration of a loop; or a point in the
// order, which is nothing to deploy.
type entry struct {
	expression.Resource // What expressions see.

	template *template
	node     *jsonc.Node
	symbol   string            // Of language version 2.0.
	loop     string            // The name of the copy loop.
	index    int               // Of the iteration; -1 without a loop.
	loops    []expression.Loop // For its expressions.
	declared string            // The name as written in a nested resource.
	parent   *entry            // Of a nested resource.
	skipped  bool              // By its condition.
	existing bool
	serial   *entry // The entry before it in a serial loop.

	body   *jsonc.Object
	needs  []*entry
	nested *template // Of a deployment.
	state  int       // Of the body: 0 not begun, 1 being evaluated, 2 done.
	place  int       // The position in the order.
}

// deploymentType is the type of nested templates.
const deploymentType = "Microsoft.Resources/deployments"

func (e *entry) isDeployment() bool { return strings.EqualFold(e.Type, deploymentType) }

// deployed reports whether an entry is a resource to deploy.
func (e *entry) deployed() bool {
	return e.node != nil && !e.skipped && !e.existing && !e.isDeployment()
}

// expand evaluates the variables, then the names of all resources, then their bodies.
func (t *template) expand() error {
	if t.depth > NestedMax {
		return failAt(t.root, "Templates are nested more than %d deep.", NestedMax)
	}
	if t.outer == nil {
		if err := t.declareVariables(); err != nil {
			return err
		}
	}
	resources := t.root.Get("resources")
	if t.symbolic && !resources.IsObject() || !t.symbolic && !resources.IsArray() {
		e := failAt(resources, "The member 'resources' must be an array, or an object of symbolic names if the template has the language version 2.0.")
		e.Code = invalidContent
		return e
	}
	if err := t.declareAll(resources, nil); err != nil {
		return err
	}
	for _, e := range t.entries {
		if err := e.evaluate(); err != nil {
			return err
		}
	}
	for _, e := range t.entries {
		if err := e.dependencies(); err != nil {
			return err
		}
	}
	return nil
}

// declareAll declares the resources of an array or of an object of symbolic names.
func (t *template) declareAll(resources *jsonc.Node, parent *entry) error {
	for i, node := range resources.Items {
		if err := t.declareLoop(node, "", i, parent); err != nil {
			return err
		}
	}
	for i, field := range resources.Fields {
		if err := t.declareLoop(field.Node, field.Name, i, parent); err != nil {
			return err
		}
	}
	return nil
}

// declareLoop declares a resource as often as its loop says.
func (t *template) declareLoop(node *jsonc.Node, symbol string, i int, parent *entry) error {
	if !node.IsObject() {
		return failAt(node, "A resource of the template must be an object.")
	}
	definition := node.Get("copy")
	if definition.IsNull() {
		return t.declare(&entry{template: t, node: node, symbol: symbol, index: -1, loops: t.loops, parent: parent}, i)
	}
	if parent != nil {
		return failAt(definition, "A resource inside another one cannot have a copy loop. Please see https://aka.ms/arm-resource-loops for usage details.")
	}
	name, named := definition.Get("name").Text()
	if !named {
		return failAt(definition, "The template 'copy' definition at line '%d' and column '%d' needs a name and a count. Please see https://aka.ms/arm-resource-loops for usage details.", definition.Line, definition.Column)
	}
	count, err := t.count(definition, t.env(0))
	if err != nil {
		return at(definition, err)
	}
	mode, _ := definition.Get("mode").Text()
	batch := int64(1)
	if size, is := definition.Get("batchSize").Int(); is {
		batch = size
	}
	if strings.EqualFold(mode, "serial") && batch < 1 {
		return failAt(definition, "The batchSize of a serial 'copy' must be at least 1.")
	}
	var before []*entry
	for i := range count {
		e := &entry{template: t, node: node, symbol: symbol, loop: name, index: i}
		e.loops = append(t.loops[:len(t.loops):len(t.loops)], expression.Loop{Name: name, Index: int64(i)})
		if strings.EqualFold(mode, "serial") && int64(i) >= batch {
			e.serial = before[i-int(batch)]
		}
		before = append(before, e)
		if err := t.declare(e, i); err != nil {
			return err
		}
	}
	return nil
}

// text evaluates a member that must be a string before anything exists. Its absence is
// an empty string.
func (e *entry) text(member string) (string, error) {
	node := e.node.Get(member)
	if node.IsNull() {
		return "", nil
	}
	value, err := e.template.evaluate(node, e.env(0))
	if err != nil {
		return "", err
	}
	text, is := value.(string)
	if !is {
		if expression.IsUnknown(value) {
			return "", fmt.Errorf("the value of '%s' is not known before the deployment: %s", member, jsonc.Text(value))
		}
		return "", fmt.Errorf("the value of '%s' must be a string, and is of type '%s'", member, expression.TypeName(value))
	}
	return text, nil
}

func (e *entry) env(place expression.Place) *expression.Env {
	env := e.template.env(place)
	env.Loops = e.loops
	return env
}

// invalid puts the service's words around an error in a resource.
func (e *entry) invalid(name string, err error) error {
	if e.template.outer != nil { // The service has no words around these.
		return at(e.node, err)
	}
	return wrap(e.node, err, "The template resource '%s' at line '%d' and column '%d' is not valid: %s. Please see https://aka.ms/arm-functions for usage details.", name, e.node.Line, e.node.Column)
}

const seeSyntax = " Please see https://aka.ms/arm-syntax-resources for usage details."

// declare evaluates what identifies a resource, and its condition. i is its position
// among its siblings.
func (t *template) declare(e *entry, i int) error {
	raw, _ := e.node.Get("name").Text()
	kind, isText := e.node.Get("type").Text()
	if !isText || kind == "" {
		err := failAt(e.node, "Required property 'type' not found in JSON. Path 'resources[%d]', line %d, position %d.", i, e.node.Line, e.node.Column)
		err.Code = invalidContent
		return err
	}
	name, err := e.text("name")
	if err != nil {
		return e.invalid(raw, err)
	}
	where := fmt.Sprintf("resources[%d]", i)
	if e.symbol != "" {
		where = e.symbol
	}
	if name == "" {
		return failAt(e.node, "The template resource '%s' of type '%s' at line '%d' and column '%d' is not valid. The name property cannot be null or empty."+seeSyntax, where, kind, e.node.Line, e.node.Column)
	}
	e.declared = name
	if e.parent != nil && !strings.Contains(strings.SplitN(kind, "/", 2)[0], ".") {
		kind, name = e.parent.Type+"/"+kind, e.parent.Name+"/"+name
	}
	e.Type, e.Name = kind, name
	if e.APIVersion, err = e.text("apiVersion"); err != nil {
		return e.invalid(name, err)
	}
	if e.APIVersion == "" {
		return failAt(e.node, "The template resource '%s' is not valid. The api-version property at line '%d' and column '%d' is not defined. The api-profile '<null>' for the template does not match any valid api-version for the resource type '%s'.  Either explicitly specify the api-version for the resource or specify the correct api-profile for the template.."+seeSyntax, name, e.node.Line, e.node.Column, kind)
	}
	names := strings.Split(name, "/")
	if want := strings.Count(kind, "/"); len(names) != want {
		place := e.node.Get("type")
		return failAt(place, "The template resource '%s' of type '%s' at line '%d' and column '%d' has an invalid name. The name '%s' contains '%d' name segment(s) separated by '/', but '%d' segment(s) were expected."+seeSyntax, name, kind, place.Line, place.Column, name, len(names), want)
	}
	scope, err := e.scope()
	if err != nil {
		return e.invalid(name, err)
	}
	e.ID = expression.JoinID(scope, kind, names)
	if err := e.decide(); err != nil {
		return e.invalid(name, err)
	}
	return t.enter(e)
}

// scope returns the id of what the resource is placed in.
func (e *entry) scope() (string, error) {
	s := e.template.scope
	for member, target := range map[string]*string{"resourceGroup": &s.ResourceGroup, "subscriptionId": &s.SubscriptionID} {
		text, err := e.text(member)
		if err != nil {
			return "", err
		}
		if text != "" {
			*target = text
		}
	}
	group := "/subscriptions/" + s.SubscriptionID
	if s.ResourceGroup != "" {
		group += "/resourceGroups/" + s.ResourceGroup
	}
	scope, err := e.text("scope")
	switch {
	case err != nil:
		return "", err
	case scope == "":
		return group, nil
	case strings.HasPrefix(scope, "/"):
		return strings.TrimSuffix(scope, "/"), nil
	}
	return group + "/providers/" + scope, nil
}

// decide evaluates whether the resource is deployed.
func (e *entry) decide() error {
	if node := e.node.Get("existing"); node != nil && node.Value == true {
		e.existing = true
	}
	if e.parent != nil && e.parent.skipped {
		e.skipped = true
	}
	condition, err := e.template.evaluate(e.node.Get("condition"), e.env(0))
	if expression.IsUnknown(condition) {
		return fmt.Errorf("the value of 'condition' is not known before the deployment: %s", jsonc.Text(condition))
	}
	e.skipped = e.skipped || condition == false
	return err
}

// enter adds a resource to those of the template, and declares those inside it.
func (t *template) enter(e *entry) error {
	if e.deployed() {
		for _, other := range t.x.nodes {
			if other.deployed() && strings.EqualFold(other.ID, e.ID) {
				return failAt(e.node, "The resource '%s' at line '%d' and column '%d' is defined multiple times in a template."+seeSyntax, e.ID, e.node.Line, e.node.Column)
			}
		}
		if t.x.count++; t.x.count > ResourcesMax {
			return failAt(e.node, "The number of template resources limit exceeded. Limit: '%d' and actual: '%d'. Please see https://aka.ms/arm-template/#resources for usage details.", ResourcesMax, t.x.count)
		}
	}
	t.entries = append(t.entries, e)
	t.x.nodes = append(t.x.nodes, e)
	if inner := e.node.Get("resources"); inner != nil && !e.isDeployment() {
		return t.declareAll(inner, e)
	}
	return nil
}

// left are members of a resource that are not part of its body.
var left = []string{"type", "apiVersion", "name", "dependsOn", "copy", "comments", "metadata", "resources", "existing", "scope", "resourceGroup", "subscriptionId"}

// evaluate evaluates the body of a resource, once.
func (e *entry) evaluate() error {
	if e.state == 2 || e.skipped || e.existing {
		e.state = 2
		return nil
	}
	if e.state == 1 {
		return failAt(e.node, "Circular dependency detected on resource: '%s'."+seeSyntax, e.ID)
	}
	e.state = 1
	outer := e.template.user
	e.template.user = e
	defer func() { e.template.user = outer }()
	if e.isDeployment() {
		if err := e.expandNested(); err != nil {
			return err
		}
		e.state = 2
		return nil
	}
	body := jsonc.NewObject("id", e.ID, "type", e.Type, "name", e.Name, "apiVersion", e.APIVersion)
	for _, field := range e.node.Fields {
		if slices.ContainsFunc(left, func(name string) bool { return strings.EqualFold(name, field.Name) }) {
			continue
		}
		value, err := e.template.evaluate(field.Node, e.env(expression.AllowReference))
		if err != nil {
			return e.invalid(e.Name, err)
		}
		name := field.Name
		if strings.EqualFold(name, "condition") && value == true {
			continue
		}
		for _, known := range []string{"properties", "location", "tags", "kind", "sku", "identity"} {
			if strings.EqualFold(name, known) {
				name = known
			}
		}
		body.Set(name, value)
	}
	e.body = body
	e.state = 2
	return nil
}

// expandNested expands the template of a deployment.
func (e *entry) expandNested() error {
	properties := e.node.Get("properties")
	root := properties.Get("template")
	if root == nil {
		if properties.Get("templateLink") != nil {
			return failAt(properties.Get("templateLink"), "The deployment '%s' has a templateLink. Templates are not fetched from a network: write the template itself under properties.template.", e.Name)
		}
		return failAt(e.node, "The deployment '%s' has no template.", e.Name)
	}
	if mode, is := properties.Get("mode").Text(); is && !strings.EqualFold(mode, "Incremental") {
		return failAt(properties.Get("mode"), "The deployment '%s' has the mode '%s'. Only Incremental is supported: a deployment deletes nothing.", e.Name, mode)
	}
	t := e.template
	scope := t.scope
	for member, target := range map[string]*string{"resourceGroup": &scope.ResourceGroup, "subscriptionId": &scope.SubscriptionID, "location": &scope.Location} {
		text, err := e.text(member)
		if err != nil {
			return e.invalid(e.Name, err)
		}
		if text != "" {
			*target = text
		}
	}
	option, err := t.evaluate(properties.Get("expressionEvaluationOptions").Get("scope"), e.env(0))
	if err != nil {
		return e.invalid(e.Name, err)
	}
	inner := strings.EqualFold(fmt.Sprint(option), "inner")
	if inner {
		scope.Deployment = e.Name
	}
	nested, err := t.x.open(root, scope)
	if err != nil {
		return err
	}
	nested.depth = t.depth + 1
	nested.begin = &entry{template: t}
	t.x.nodes = append(t.x.nodes, nested.begin)
	e.nested = nested
	if !inner {
		nested.outer, nested.loops = t, e.loops
	} else if err := e.arguments(properties.Get("parameters")); err != nil {
		return err
	}
	if err := nested.expand(); err != nil {
		return err
	}
	outputs, err := nested.outputs()
	if err != nil {
		return err
	}
	all := jsonc.NewObject()
	for _, o := range outputs {
		all.Set(o.Name, jsonc.NewObject("type", capital(o.Type), "value", o.Value))
	}
	e.Outputs = all
	return nil
}

// capital returns the name of a type as the service shows it.
func capital(kind string) string {
	for _, name := range []string{"String", "SecureString", "Int", "Bool", "Object", "SecureObject", "Array"} {
		if strings.EqualFold(name, kind) {
			return name
		}
	}
	return kind
}

// arguments evaluates the parameters that a deployment gives to its template.
func (e *entry) arguments(node *jsonc.Node) error {
	args := map[string]argument{}
	var names []string
	if node.IsObject() {
		for _, field := range node.Fields {
			if field.Node.Get("reference") != nil {
				return failAt(field.Node, "The parameter '%s' refers to a key vault, which does not exist here.", field.Name)
			}
			value, err := e.argument(field.Node)
			if err != nil {
				return e.invalid(e.Name, err)
			}
			names = append(names, field.Name)
			args[strings.ToLower(field.Name)] = argument{value: value}
		}
	}
	return e.nested.take(names, args)
}

// argument evaluates one of them: an object with the value, or with a loop that makes it, as
// the compiler of Bicep writes it.
func (e *entry) argument(node *jsonc.Node) (any, error) {
	env := e.env(expression.AllowReference)
	if !node.Get("copy").IsArray() {
		return e.template.evaluate(node.Get("value"), env)
	}
	made, err := e.template.evaluate(node, env)
	if err != nil {
		return nil, err
	}
	o, is := made.(*jsonc.Object)
	if !is {
		return nil, failAt(node, "A parameter must be an object with a value.")
	}
	value, _ := o.Get("value")
	return value, nil
}

// Find implements [expression.Resources]: by id, symbolic name, or name.
func (t *template) Find(name string) (*expression.Resource, error) {
	for owner := t; owner != nil; owner = owner.outer {
		found := owner.match(name)
		if len(found) == 0 {
			continue
		}
		e := found[0]
		if e.isDeployment() && !e.existing {
			if err := e.evaluate(); err != nil {
				return nil, err
			}
		}
		return &e.Resource, nil
	}
	return nil, nil
}

// Use implements [expression.Resources].
func (t *template) Use(r *expression.Resource) {
	for owner := t; owner != nil; owner = owner.outer {
		for _, e := range owner.entries {
			if &e.Resource == r && owner.user != nil && owner.user != e {
				owner.user.needs = append(owner.user.needs, e)
			}
		}
	}
}

// Loop implements [expression.Resources].
func (t *template) Loop(symbol string) ([]*expression.Resource, error) {
	var out []*expression.Resource
	for _, e := range t.entries {
		if !strings.EqualFold(e.symbol, symbol) {
			continue
		}
		if e.isDeployment() {
			if err := e.evaluate(); err != nil {
				return nil, err
			}
		}
		out = append(out, &e.Resource)
	}
	return out, nil
}

// match returns the resources that a name refers to; the name is an id, a symbolic name with or
// without an index, a type and name, a name, or the name of a loop.
func (t *template) match(name string) []*entry {
	var out []*entry
	for _, e := range t.entries {
		symbol := e.symbol
		if e.index >= 0 {
			symbol += "[" + strconv.Itoa(e.index) + "]"
		}
		if e.symbol != "" && (strings.EqualFold(name, symbol) || strings.EqualFold(name, e.symbol)) || strings.EqualFold(name, e.ID) {
			out = append(out, e)
		}
	}
	if out != nil {
		return out
	}
	for _, e := range t.entries {
		if strings.EqualFold(name, e.Name) || strings.EqualFold(name, e.Type+"/"+e.Name) || e.loop != "" && strings.EqualFold(name, e.loop) ||
			strings.HasSuffix(e.ID, "/"+strings.TrimPrefix(name, "/")) && strings.Contains(name, "/providers/") {
			out = append(out, e)
		}
	}
	if out != nil {
		return out
	}
	for _, e := range t.entries {
		if e.parent != nil && strings.EqualFold(name, e.declared) {
			out = append(out, e)
		}
	}
	return out
}

// dependencies reads the dependsOn of a resource.
func (e *entry) dependencies() error {
	if e.skipped || e.existing {
		return nil
	}
	if e.serial != nil {
		e.needs = append(e.needs, e.serial)
	}
	node := e.node.Get("dependsOn")
	if node.IsNull() {
		return nil
	}
	value, err := e.template.evaluate(node, e.env(0))
	if err != nil {
		return e.invalid(e.Name, err)
	}
	list, is := value.(*jsonc.Array)
	if !is {
		return failAt(node, "The member 'dependsOn' of the resource '%s' must be an array.", e.Name)
	}
	for _, item := range list.Items() {
		name, is := item.(string)
		if !is {
			return failAt(node, "The member 'dependsOn' of the resource '%s' must be an array of strings.", e.Name)
		}
		found := e.template.match(name)
		if len(found) == 0 && !e.template.isEmptyLoop(name) {
			return failAt(node, "The resource '%s' is not defined in the template. Please see https://aka.ms/arm-syntax-dependson for usage details.", name)
		}
		for _, other := range found {
			if other != e {
				e.needs = append(e.needs, other)
			}
		}
	}
	return nil
}

// isEmptyLoop reports whether a name is that of a loop without iterations.
func (t *template) isEmptyLoop(name string) bool {
	resources := t.root.Get("resources")
	for _, field := range resources.Fields {
		if strings.EqualFold(field.Name, name) && field.Node.Get("copy") != nil {
			return true
		}
	}
	for _, node := range append(slices.Clone(resources.Items), valuesOf(resources)...) {
		if loop, is := node.Get("copy").Get("name").Text(); is && strings.EqualFold(loop, name) {
			return true
		}
	}
	return false
}

func valuesOf(node *jsonc.Node) []*jsonc.Node {
	var out []*jsonc.Node
	for _, field := range node.Fields {
		out = append(out, field.Node)
	}
	return out
}
