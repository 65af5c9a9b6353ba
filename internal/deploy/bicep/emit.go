package bicep

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const deploymentsVersion = "2025-04-01" // of the resource type that modules become

var schemas = map[string]string{
	"resourceGroup":   "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
	"subscription":    "https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentTemplate.json#",
	"managementGroup": "https://schema.management.azure.com/schemas/2019-08-01/managementGroupDeploymentTemplate.json#",
	"tenant":          "https://schema.management.azure.com/schemas/2019-08-01/tenantDeploymentTemplate.json#",
}

// emission is what the declarations of one template need beyond themselves.
type emission struct {
	c           *compiler
	root        *file
	variables   *object
	copies      []any // variables that are loops
	definitions *object
	functions   map[string]*object // by namespace
	namespaces  []string
	numbers     map[*file]int // of files that names are imported from
	done        map[*symbol]bool
	queue       []*symbol // imported names that are used and not written yet
	loads       map[string]term
	unions      map[*object][]unionMember // by the type that they were written as
	left        int                       // nodes that may still be made
	exhausted   bool
}

// emitter writes the declarations of one file into an emission.
type emitter struct {
	*emission
	f *file
	// inline writes loaded files where they are used, for parameter defaults,
	// which cannot name a variable.
	inline bool
}

// env gives the names of loops, lambdas and functions a meaning. Names are
// found by the place where they are declared.
type env struct {
	outer *env
	at    int
	value term
}

func (e *env) with(at int, value term) *env { return &env{e, at, value} }

func (e *env) find(at int) term {
	for ; e != nil; e = e.outer {
		if e.at == at {
			return e.value
		}
	}
	return nil
}

// template compiles a file that has been loaded.
func (c *compiler) template(f *file) (*object, error) {
	f.check()
	if err := c.failures(f); err != nil {
		return nil, err
	}
	if t := c.modules[f.path]; t != nil {
		return t, nil
	}
	e := &emitter{f: f, emission: &emission{
		c: c, root: f, variables: &object{}, definitions: &object{}, functions: map[string]*object{},
		numbers: map[*file]int{}, done: map[*symbol]bool{}, loads: map[string]term{}, unions: map[*object][]unionMember{}, left: expressionMax,
	}}
	t := e.file()
	if err := c.failures(f); err != nil {
		return nil, err
	}
	if e.exhausted {
		f.add(span{}, CodeLimit, "The file expands to more than %d values and functions.", expressionMax)
		return nil, f.err()
	}
	c.modules[f.path] = t
	return t, nil
}

// failures returns the findings of a file, then those of the files that it loaded.
func (c *compiler) failures(f *file) error {
	all := &Error{}
	add := func(g *file) {
		if e, ok := errors.AsType[*Error](g.err()); ok {
			all.Diagnostics = append(all.Diagnostics, e.Diagnostics...)
		}
	}
	add(f)
	var paths []string
	for path, g := range c.files {
		if g != f {
			g.check()
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		add(c.files[path])
	}
	if len(all.Diagnostics) == 0 {
		return nil
	}
	return all
}

// file writes the whole template.
func (e *emitter) file() *object {
	parameters, outputs, resources := &object{}, &object{}, &object{}
	metadata := newObject("_generator", newObject("name", "decan"))
	for _, s := range e.f.order {
		switch {
		case s.decl.keyword == "metadata":
			metadata.setFrom(e.f, s.at, s.name, e.value(s.decl.value, nil))
		case s.kind == symParameter:
			parameters.setFrom(e.f, s.at, s.name, e.parameter(s))
		case s.kind == symType:
			e.definition(s, s.name)
		case s.kind == symFunction:
			e.function(s, "__bicep", s.name)
		case s.kind == symVariable:
			e.variable(s, s.name)
		case s.kind == symResource:
			resources.setFrom(e.f, s.at, s.path(), e.resource(s))
		case s.kind == symModule:
			resources.setFrom(e.f, s.at, s.path(), e.module(s))
		case s.kind == symOutput:
			outputs.setFrom(e.f, s.at, s.name, e.output(s))
		}
	}
	e.imports()
	t := newObject("$schema", schemas[e.f.scope], "languageVersion", "2.0", "contentVersion", "1.0.0.0", "metadata", metadata)
	if len(e.definitions.members) > 0 {
		t.set("definitions", e.definitions)
	}
	if len(e.functions) > 0 {
		var list []any
		for _, n := range e.namespaces {
			list = append(list, newObject("namespace", n, "members", e.functions[n]))
		}
		t.set("functions", list)
	}
	if len(parameters.members) > 0 {
		t.set("parameters", parameters)
	}
	if len(e.copies) > 0 {
		e.variables.members = slices.Insert(e.variables.members, 0, member{name: "copy", value: e.copies})
	}
	if len(e.variables.members) > 0 {
		t.set("variables", e.variables)
	}
	t.set("resources", resources)
	if len(outputs.members) > 0 {
		t.set("outputs", outputs)
	}
	return t
}

// imports writes the imported names that are used, and what these use.
func (e *emitter) imports() {
	for len(e.queue) > 0 {
		s := e.queue[0]
		e.queue = e.queue[1:]
		other := &emitter{emission: e.emission, f: s.file}
		namespace, name := e.importName(s)
		switch s.kind {
		case symVariable:
			other.variable(s, name)
		case symType:
			other.definition(s, name)
		case symFunction:
			other.function(s, namespace, name)
		}
	}
}

// templateName returns the name of a variable or a type in the template, and
// has it written if it comes from another file.
func (e *emitter) templateName(s *symbol) (namespace, name string) {
	if s.file == e.root {
		return "__bicep", s.name
	}
	if !e.done[s] {
		e.done[s] = true
		e.queue = append(e.queue, s)
	}
	return e.importName(s)
}

// importName returns the name under which the root file imports a symbol, or
// one of its own with a number for the file. Functions have their namespace.
func (e *emission) importName(s *symbol) (namespace, name string) {
	var names []string
	for n, t := range e.root.symbols {
		if t.imported == s {
			names = append(names, n)
		}
	}
	if len(names) > 0 {
		return "__bicep", slices.Min(names)
	}
	if e.numbers[s.file] == 0 {
		e.numbers[s.file] = len(e.numbers) + 1
	}
	prefix := "_" + strconv.Itoa(e.numbers[s.file])
	if s.kind == symFunction {
		return prefix, s.name
	}
	return "", prefix + "." + s.name
}

// variable writes a variable; one that only the deployment knows is written
// where it is used.
func (e *emitter) variable(s *symbol, name string) {
	if s.decl.value == nil || e.f.variableLater(s) != nil {
		return
	}
	if l, ok := s.decl.value.(*forExpr); ok {
		e.copies = append(e.copies, e.copyOf(l, name, name, nil))
		return
	}
	e.variables.setFrom(e.f, s.decl.value.at(), name, e.value(s.decl.value, nil))
}

// copyOf writes a loop over values; loop is the name in copyIndex.
func (e *emitter) copyOf(l *forExpr, name, loop string, v *env) *object {
	c := &object{}
	if name != "" {
		c.set("name", name)
	}
	list := e.term(l.list, v)
	index := call("copyIndex")
	if loop != "" {
		index = call("copyIndex", termString(loop))
	}
	c.setFrom(e.f, l.list.at(), "count", call("length", list))
	input := e.value(l.body, loopEnv(l, list, index, v))
	switch n := input.(type) {
	case []any, bool:
		// The template language evaluates an input only when it is text or an object.
		input = quote(n)
	case int64:
		input = call("int", quote(n))
	}
	c.setFrom(e.f, l.body.at(), "input", input)
	return c
}

func loopEnv(l *forExpr, list, index term, v *env) *env {
	v = v.with(l.item.start, termIndex{list, index})
	if l.index.name != "" {
		v = v.with(l.index.start, index)
	}
	return v
}

func (e *emitter) function(s *symbol, namespace, name string) {
	d := s.decl
	var v *env
	parameters := []any{}
	for _, p := range d.parameters {
		t := e.schema(p.typ)
		t.set("name", p.name.name)
		parameters = append(parameters, t)
		v = v.with(p.name.start, call("parameters", termString(p.name.name)))
	}
	output := e.schema(d.result)
	inline := &emitter{emission: e.emission, f: e.f, inline: true}
	output.set("value", inline.value(d.value, v))
	if e.functions[namespace] == nil {
		e.functions[namespace] = &object{}
		e.namespaces = append(e.namespaces, namespace)
	}
	m := newObject("parameters", parameters, "output", output)
	e.decorate(m, d.decorators)
	e.functions[namespace].setFrom(e.f, s.at, name, m)
}

func (e *emitter) definition(s *symbol, name string) {
	t := e.schema(s.decl.typ)
	e.decorate(t, s.decl.decorators)
	e.definitions.setFrom(e.f, s.at, name, t)
}

func (e *emitter) parameter(s *symbol) *object {
	t := e.schema(s.decl.typ)
	if s.decl.value != nil {
		if n, ok := s.decl.typ.(*nameType); len(t.members) == 0 && !(ok && n.name == "any") {
			t.set("type", schemaKind(e.f.types[s.decl.value]))
		}
		inline := &emitter{emission: e.emission, f: e.f, inline: true}
		t.setFrom(e.f, s.decl.value.at(), "defaultValue", inline.value(s.decl.value, nil))
	}
	e.decorate(t, s.decl.decorators)
	return t
}

func (e *emitter) output(s *symbol) *object {
	t := e.schema(s.decl.typ)
	if l, ok := s.decl.value.(*forExpr); ok {
		t.set("copy", e.copyOf(l, "", "", nil))
	} else {
		t.setFrom(e.f, s.decl.value.at(), "value", e.value(s.decl.value, nil))
	}
	e.decorate(t, s.decl.decorators)
	return t
}

// resource writes a resource.
func (e *emitter) resource(s *symbol) *object {
	r := &object{}
	v := e.head(s, r)
	if s.decl.existing {
		r.set("existing", true)
	}
	r.set("type", s.resourceType)
	r.set("apiVersion", s.version)
	holder, hv := e.holder(s, v)
	if scope := holder.body.get("scope"); scope != nil {
		e.scopeOf(r, scope, hv)
	}
	r.setFrom(e.f, s.nameAt(), "name", e.fullName(s, v))
	e.properties(r, s.body, v, "name", "scope", "parent", "dependsOn")
	e.dependencies(r, s, v)
	e.decorate(r, s.decl.decorators)
	return r
}

// holder returns the outermost of the resources that hold s, which says where
// they all are deployed.
func (e *emitter) holder(s *symbol, v *env) (*symbol, *env) {
	for s.parent != nil && s.parent.body != nil {
		var index term
		if s.parentIndex != nil {
			index = e.term(s.parentIndex, v)
		}
		s, v = s.parent, e.at(s.parent, index)
	}
	return s, v
}

// head writes the loop and the condition.
func (e *emitter) head(s *symbol, r *object) *env {
	var v *env
	if s.loop != nil {
		list := e.term(s.loop.list, nil)
		c := newObject("name", s.path(), "count", call("length", list))
		if batch := findDecorator(s.decl.decorators, "batchSize"); batch != nil && len(batch.args) == 1 {
			c.set("mode", "serial")
			c.set("batchSize", e.value(batch.args[0], nil))
		}
		r.setFrom(e.f, s.loop.list.at(), "copy", c)
		v = loopEnv(s.loop, list, call("copyIndex"), nil)
	}
	if t := e.condition(s, v); t != nil {
		at := s.at
		if s.condition != nil {
			at = s.condition.at()
		}
		r.setFrom(e.f, at, "condition", t)
	}
	return v
}

// condition joins the conditions of a resource and of those around it.
func (e *emitter) condition(s *symbol, v *env) any {
	var outer any
	if s.decl.parent != nil && s.parent != nil {
		outer = e.condition(s.parent, nil)
	}
	switch {
	case s.condition == nil:
		return outer
	case outer == nil:
		return e.value(s.condition, v)
	}
	return call("and", quote(outer), e.term(s.condition, v))
}

// properties writes the members of an object into o; loops become "copy".
func (e *emitter) properties(o *object, x *objectExpr, v *env, skip ...string) {
	var copies []any
	for i := range x.items {
		item := &x.items[i]
		name, ok := item.literalKey()
		if ok && slices.Contains(skip, name) {
			continue
		}
		if l, isLoop := item.value.(*forExpr); isLoop && ok {
			copies = append(copies, e.copyOf(l, name, name, v))
			continue
		}
		if ok && strings.EqualFold(name, "copy") {
			// A member with the plain name copy would declare a loop.
			o.members = append(o.members, member{name: name, computed: call("string", termString(name)), value: e.value(item.value, v), from: origin{e.f, item.value.at().start}})
			continue
		}
		if ok {
			o.setFrom(e.f, item.value.at(), escapeLiteral(name), e.value(item.value, v))
			continue
		}
		if item.spread {
			continue // of the body of a resource; the checker refuses it
		}
		o.members = append(o.members, member{computed: e.term(item.key, v), value: e.value(item.value, v), from: origin{e.f, item.value.at().start}})
	}
	if len(copies) > 0 {
		o.members = slices.Insert(o.members, 0, member{name: "copy", value: copies})
	}
}

// segments returns the parts of the name of a resource, one for each segment
// of its type. V is the environment of the resource.
func (e *emitter) segments(s *symbol, v *env) []any {
	name := s.body.get("name")
	if s.parent != nil && s.parent.body != nil {
		var index term
		if s.parentIndex != nil {
			index = e.term(s.parentIndex, v)
		}
		return append(e.segments(s.parent, e.at(s.parent, index)), e.value(name, v))
	}
	n := strings.Count(s.resourceType, "/")
	value := e.value(name, v)
	if n == 1 {
		return []any{value}
	}
	list := make([]any, n)
	if text, ok := value.(string); ok {
		if parts := strings.Split(text, "/"); len(parts) == n {
			for i := range parts {
				list[i] = parts[i]
			}
			return list
		}
	}
	for i := range list {
		list[i] = termIndex{call("split", quote(value), termString("/")), termInt(i)}
	}
	return list
}

// at returns the environment of one item of a resource that is a loop.
func (e *emitter) at(s *symbol, index term) *env {
	if s.loop == nil {
		return nil
	}
	if index == nil {
		index = call("copyIndex")
	}
	return loopEnv(s.loop, e.term(s.loop.list, nil), index, nil)
}

// nameAt returns where the name of a resource or a module is written.
func (s *symbol) nameAt() span {
	if name := s.body.get("name"); name != nil {
		return name.at()
	}
	return s.at
}

// fullName writes the name with those of its parents.
func (e *emitter) fullName(s *symbol, v *env) any {
	if s.parent == nil {
		return e.value(s.body.get("name"), v)
	}
	segments := e.segments(s, v)
	var pattern strings.Builder
	args := []term{nil}
	for i, segment := range segments {
		if i > 0 {
			pattern.WriteByte('/')
		}
		fmt.Fprintf(&pattern, "{%d}", i)
		args = append(args, quote(segment))
	}
	args[0] = termString(pattern.String())
	return call("format", args...)
}

// scopeOf writes where a resource or a module is deployed.
func (e *emitter) scopeOf(r *object, x expr, v *env) {
	if ref, ok := e.reference(x, v); ok {
		if strings.EqualFold(ref.symbol.resourceType, resourceGroupType) {
			r.set("resourceGroup", e.value(ref.symbol.body.get("name"), ref.env))
			if inner := ref.symbol.body.get("scope"); inner != nil {
				e.scopeOf(r, inner, ref.env)
			}
			return
		}
		r.set("scope", e.id(ref))
		return
	}
	c, ok := bare(x).(*callExpr)
	if !ok {
		r.set("scope", e.value(x, v))
		return
	}
	args := make([]any, len(c.args))
	for i, a := range c.args {
		args[i] = e.value(a, v)
	}
	switch c.name.name {
	case "resourceGroup":
		switch {
		case len(args) == 2:
			r.set("subscriptionId", args[0])
			r.set("resourceGroup", args[1])
		case len(args) == 1:
			r.set("resourceGroup", args[0])
		case e.f.scope == "resourceGroup":
			// Its own scope: nothing to say.
		}
	case "subscription":
		switch {
		case len(args) == 1:
			r.set("subscriptionId", args[0])
		case e.f.scope == "resourceGroup":
			r.set("subscriptionId", termMember{call("subscription"), "subscriptionId"})
		}
	case "managementGroup":
		if len(args) == 1 {
			r.set("scope", call("format", termString("Microsoft.Management/managementGroups/{0}"), quote(args[0])))
		}
	case "tenant":
		if e.f.scope != "tenant" {
			r.set("scope", "/")
		}
	}
}

// module writes the deployment that a module becomes.
func (e *emitter) module(s *symbol) *object {
	r := &object{}
	v := e.head(s, r)
	r.set("type", "Microsoft.Resources/deployments")
	r.set("apiVersion", deploymentsVersion)
	r.setFrom(e.f, s.nameAt(), "name", e.moduleName(s, v))
	scope := s.body.get("scope")
	if scope != nil {
		e.scopeOf(r, scope, v)
	}
	inner := "resourceGroup"
	if s.module != nil {
		inner = s.module.scope
	}
	if inner != "resourceGroup" && (scope != nil && e.f.scope != inner || e.f.scope != "resourceGroup") {
		// A deployment outside of a resource group has a region of its own.
		location := termMember{call("deployment"), "location"}
		if e.f.scope == "resourceGroup" {
			location = termMember{call("resourceGroup"), "location"}
		}
		r.set("location", location)
	}
	p := newObject("expressionEvaluationOptions", newObject("scope", "inner"), "mode", "Incremental")
	if params, ok := bareObject(s.body.get("params")); ok && len(params.items) > 0 {
		values := &object{}
		for i := range params.items {
			name, ok := params.items[i].literalKey()
			if !ok {
				e.f.add(params.items[i].value.at(), CodeUnsupported, "The parameters of a module are written one by one here.")
				continue
			}
			if l, ok := params.items[i].value.(*forExpr); ok {
				// A map and no copy: an expander need not know of loops in parameters.
				values.setFrom(e.f, l.at(), name, newObject("value", e.expression(l, v)))
				continue
			}
			values.setFrom(e.f, params.items[i].value.at(), name, newObject("value", e.value(params.items[i].value, v)))
		}
		p.set("parameters", values)
	} else if x := s.body.get("params"); x != nil && !ok {
		e.f.add(x.at(), CodeUnsupported, "The parameters of a module are written one by one here.")
	}
	template := s.template
	if s.module != nil {
		t, err := e.c.template(s.module)
		if err != nil {
			if s.module.err() != nil { // Otherwise this file alone has some.
				e.f.add(s.decl.path.at(), "BCP104", "The referenced module has errors.")
			}
			return r
		}
		template = t
	}
	if template != nil {
		e.spend(countNodes(template, e.left+1))
	}
	p.setFrom(e.f, s.at, "template", template)
	r.set("properties", p)
	e.dependencies(r, s, v)
	e.decorate(r, s.decl.decorators)
	return r
}

func bareObject(x expr) (*objectExpr, bool) {
	o, ok := bare(x).(*objectExpr)
	return o, ok
}

// countNodes counts the values inside v, up to limit.
func countNodes(v any, limit int) int {
	n := 1
	switch v := v.(type) {
	case *object:
		for i := 0; i < len(v.members) && n < limit; i++ {
			n += countNodes(v.members[i].value, limit-n)
		}
	case []any:
		for i := 0; i < len(v) && n < limit; i++ {
			n += countNodes(v[i], limit-n)
		}
	}
	return n
}

// spend takes nodes from what the file may expand to.
func (e *emission) spend(n int) bool {
	e.left -= n
	e.exhausted = e.exhausted || e.left < 0
	return !e.exhausted
}

// moduleName writes the name of a deployment; without one it is made of the
// symbolic name.
func (e *emitter) moduleName(s *symbol, v *env) any {
	if name := s.body.get("name"); name != nil {
		return e.value(name, v)
	}
	unique := call("uniqueString", termString(s.name), termMember{call("deployment"), "name"})
	if s.loop != nil {
		return call("format", termString(s.name+"-{0}-{1}"), call("copyIndex"), unique)
	}
	return call("format", termString(s.name+"-{0}"), unique)
}
