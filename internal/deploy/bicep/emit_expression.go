package bicep

import (
	"slices"
	"strings"
)

// value writes an expression as JSON, with terms for what is evaluated later.
func (e *emitter) value(x expr, v *env) any {
	if !e.spend(1) {
		return nil
	}
	switch x := x.(type) {
	case *literal:
		return x.value
	case *stringExpr:
		if len(x.holes) == 0 {
			return x.parts[0]
		}
	case *parenExpr:
		return e.value(x.inner, v)
	case *assertExpr:
		return e.value(x.base, v)
	case *arrayExpr:
		if slices.ContainsFunc(x.items, func(i arrayItem) bool { return i.spread }) {
			return e.spreadArray(x, v)
		}
		list := make([]any, len(x.items))
		for i, item := range x.items {
			list[i] = e.value(item.value, v)
		}
		return list
	case *objectExpr:
		if slices.ContainsFunc(x.items, func(i objectItem) bool { return i.spread }) {
			return e.spreadObject(x, v)
		}
		o := &object{}
		e.properties(o, x, v)
		return o
	case *unaryExpr:
		if n, ok := integer(x); ok {
			return n
		}
	case *callExpr:
		switch x.name.name {
		case "any":
			if len(x.args) == 1 && e.f.symbols["any"] == nil {
				return e.value(x.args[0], v)
			}
		case "nameof":
			if len(x.args) == 1 && e.f.symbols["nameof"] == nil {
				name, _ := nameOf(x.args[0])
				return name
			}
		}
		if l := e.f.content[x]; l != nil {
			return e.loadedValue(l)
		}
	case *nameExpr:
		if s := e.f.names[x]; s != nil && s.target().kind == symVariable {
			// A variable that only the deployment knows is written in place.
			if t := s.target(); t.file.variableLater(t) != nil {
				return (&emitter{emission: e.emission, f: t.file}).value(t.decl.value, nil)
			}
		}
	case *memberExpr:
		if ref, ok := e.reference(x.base, v); ok && !x.safe {
			return e.resourceMember(ref, x.name.name)
		}
	}
	return e.expression(x, v)
}

// term writes an expression for use inside another one.
func (e *emitter) term(x expr, v *env) term { return quote(e.value(x, v)) }

// loadedValue writes the content of a file: once as a variable, or in place.
func (e *emitter) loadedValue(l *loaded) any {
	if e.inline || strings.HasPrefix(l.key, "readEnvironmentVariable") {
		return l.value
	}
	t := e.loads[e.f.path+"\x00"+l.key]
	if t == nil {
		name := "$fxv#" + itoa(len(e.loads))
		e.variables.members = slices.Insert(e.variables.members, len(e.loads), member{name: name, value: l.value})
		t = call("variables", termString(name))
		e.loads[e.f.path+"\x00"+l.key] = t
	}
	return t
}

// expression writes what is not JSON by itself.
func (e *emitter) expression(x expr, v *env) term {
	switch x := x.(type) {
	case *stringExpr:
		return e.format(x, v)
	case *nameExpr:
		return e.name(x, v)
	case *memberExpr:
		return e.member(x, v)
	case *indexExpr:
		return e.index(x, v)
	case *childExpr:
		if ref, ok := e.reference(x, v); ok {
			return e.whole(ref)
		}
	case *callExpr:
		return e.call(x, v)
	case *unaryExpr:
		if x.op == "!" {
			return call("not", e.term(x.operand, v))
		}
		return call("sub", termInt(0), e.term(x.operand, v))
	case *binaryExpr:
		return e.binary(x, v)
	case *ternaryExpr:
		return call("if", e.term(x.condition, v), e.term(x.yes, v), e.term(x.no, v))
	case *lambdaExpr:
		return e.lambda(x, v)
	case *forExpr:
		// A loop where the template language has none is a map over its places.
		list := e.term(x.list, v)
		name := "loop" + itoa(x.start)
		index := call("lambdaVariables", termString(name))
		body := e.term(x.body, loopEnv(x, list, index, v))
		return call("map", call("range", termInt(0), call("length", list)), call("lambda", termString(name), body))
	}
	return call("null")
}

func (e *emitter) format(x *stringExpr, v *env) term {
	var pattern strings.Builder
	args := []term{nil}
	for i, part := range x.parts {
		pattern.WriteString(strings.NewReplacer("{", "{{", "}", "}}").Replace(part))
		if i < len(x.holes) {
			pattern.WriteString("{" + itoa(i) + "}")
			args = append(args, e.term(x.holes[i], v))
		}
	}
	args[0] = termString(pattern.String())
	return call("format", args...)
}

func (e *emitter) name(x *nameExpr, v *env) term {
	s := e.f.names[x]
	if s == nil {
		return call("null")
	}
	s = s.target()
	switch s.kind {
	case symLocal:
		if t := v.find(s.at.start); t != nil {
			return t
		}
	case symParameter:
		return call("parameters", termString(s.name))
	case symVariable:
		_, name := e.templateName(s)
		return call("variables", termString(name))
	case symResource, symModule:
		if ref, ok := e.reference(x, v); ok {
			return e.whole(ref)
		}
		return call("references", termString(s.path()), termString("full"))
	}
	return call("null")
}

// resourceRef is a resource that an expression names.
type resourceRef struct {
	symbol *symbol
	index  term // of a loop
	env    *env // of the resource
}

// reference returns the resource that x names; a loop without an index is none.
func (e *emitter) reference(x expr, v *env) (resourceRef, bool) {
	s := e.f.resourceOf(x)
	if s == nil || s.body == nil {
		return resourceRef{}, false
	}
	i, indexed := bare(x).(*indexExpr)
	if s.loop == nil {
		return resourceRef{symbol: s}, !indexed
	}
	if !indexed {
		return resourceRef{}, false
	}
	index := e.term(i.index, v)
	return resourceRef{s, index, e.at(s, index)}, true
}

// symbolic returns the term that names a resource: its symbolic name.
func (r resourceRef) symbolic() term {
	if r.index == nil {
		return termString(r.symbol.path())
	}
	return call("format", termString(r.symbol.path()+"[{0}]"), r.index)
}

// whole writes a resource as a value.
func (e *emitter) whole(r resourceRef) term {
	if r.symbol.kind == symModule {
		return call("reference", r.symbolic())
	}
	return call("reference", r.symbolic(), termString(r.symbol.version), termString("full"))
}

// resourceMember writes a property of a resource or a module.
func (e *emitter) resourceMember(r resourceRef, name string) any {
	s := r.symbol
	if s.kind == symModule {
		if name == "name" {
			return e.moduleName(s, r.env)
		}
		return termMember{call("reference", r.symbolic()), name}
	}
	switch name {
	case "id":
		return e.id(r)
	case "name":
		return e.value(s.body.get("name"), r.env)
	case "type":
		return s.resourceType
	case "apiVersion":
		return s.version
	case "properties":
		return call("reference", r.symbolic())
	}
	return termMember{e.whole(r), name}
}

// id writes the id of a resource.
func (e *emitter) id(r resourceRef) term {
	s := r.symbol
	args := []term{termString(s.resourceType)}
	for _, segment := range e.segments(s, r.env) {
		args = append(args, quote(segment))
	}
	holder, v := e.holder(s, r.env)
	if x := holder.body.get("scope"); x != nil {
		if t := e.scopeID(x, v); t != nil {
			return call("extensionResourceId", append([]term{t}, args...)...)
		}
		if c, ok := bare(x).(*callExpr); ok {
			switch c.name.name {
			case "subscription":
				return call("subscriptionResourceId", args...)
			case "tenant":
				return call("tenantResourceId", args...)
			}
		}
	}
	switch e.f.scope {
	case "subscription":
		return call("subscriptionResourceId", args...)
	case "tenant":
		return call("tenantResourceId", args...)
	case "managementGroup":
		return call("extensionResourceId", append([]term{termMember{call("managementGroup"), "id"}}, args...)...)
	}
	return call("resourceId", args...)
}

// scopeID writes the id of the scope that x names, or nil for the scope of the
// deployment and for those that have a function of their own.
func (e *emitter) scopeID(x expr, v *env) term {
	if ref, ok := e.reference(x, v); ok {
		if strings.EqualFold(ref.symbol.resourceType, resourceGroupType) {
			return groupID(nil, e.term(ref.symbol.body.get("name"), ref.env))
		}
		return e.id(ref)
	}
	c, ok := bare(x).(*callExpr)
	if !ok || len(c.args) == 0 {
		return nil
	}
	switch c.name.name {
	case "resourceGroup":
		if len(c.args) == 2 {
			return groupID(e.term(c.args[0], v), e.term(c.args[1], v))
		}
		return groupID(nil, e.term(c.args[0], v))
	case "subscription":
		return call("format", termString("/subscriptions/{0}"), e.term(c.args[0], v))
	case "managementGroup":
		return call("tenantResourceId", termString("Microsoft.Management/managementGroups"), e.term(c.args[0], v))
	}
	return nil
}

// groupID writes the id of a resource group; subscription nil is that of the deployment.
func groupID(subscription, name term) term {
	if subscription == nil {
		subscription = termMember{call("subscription"), "subscriptionId"}
	}
	return call("format", termString("/subscriptions/{0}/resourceGroups/{1}"), subscription, name)
}

// safeChain reports whether x follows a ".?": then the rest of the chain
// is null too.
func safeChain(x expr) bool {
	for {
		switch y := x.(type) {
		case *memberExpr:
			if y.safe {
				return true
			}
			x = y.base
		case *indexExpr:
			if y.safe {
				return true
			}
			x = y.base
		default:
			return false
		}
	}
}

// extend applies an access to a value; in a chain that may be null it goes
// into the function that made it so.
func extend(base term, safe bool, access func(term) term, key term) term {
	c, ok := base.(termCall)
	switch {
	case !safe || !ok:
		return access(base)
	case c.name == "tryGet":
		return termCall{c.name, append(slices.Clone(c.args), key)}
	case c.name == "if" && len(c.args) == 3:
		args := slices.Clone(c.args)
		args[1] = extend(args[1], true, access, key)
		return termCall{c.name, args}
	}
	return access(base)
}

func (e *emitter) member(x *memberExpr, v *env) term {
	name := x.name.name
	if ref, ok := e.reference(x.base, v); ok {
		t := quote(e.resourceMember(ref, name))
		if x.safe && ref.symbol.condition != nil {
			return call("if", quote(e.condition(ref.symbol, ref.env)), t, call("null"))
		}
		return t
	}
	if x.base != nil {
		if n, ok := bare(x.base).(*nameExpr); ok {
			if s := e.f.names[n]; s != nil && s.kind == symNamespace && s.namespace != nil {
				if t := s.namespace.exported(name); t != nil {
					_, variable := e.templateName(t)
					return call("variables", termString(variable))
				}
			}
		}
	}
	return e.access(x.base, termString(name), func(b term) term { return termMember{b, name} }, x.safe, v)
}

// access writes base.key in one of its forms; outputs of modules have a
// "value" of their own.
func (e *emitter) access(base expr, key term, plain func(term) term, safe bool, v *env) term {
	output := e.isOutputs(base)
	b := e.term(base, v)
	chain := safeChain(base)
	full := func(b term) term {
		if output {
			return termMember{plain(b), "value"}
		}
		return plain(b)
	}
	if !safe {
		t := extend(b, chain, full, key)
		if c, ok := t.(termCall); ok && output && chain && c.name == "tryGet" {
			return termCall{c.name, append(slices.Clone(c.args), termString("value"))}
		}
		return t
	}
	try := func(b term) term {
		if output {
			return call("tryGet", b, key, termString("value"))
		}
		return call("tryGet", b, key)
	}
	if c, ok := b.(termCall); ok && chain && c.name == "if" && len(c.args) == 3 {
		return call("if", c.args[0], try(c.args[1]), c.args[2])
	}
	return try(b)
}

// isOutputs reports whether x is the outputs of a module.
func (e *emitter) isOutputs(x expr) bool {
	m, ok := bare(x).(*memberExpr)
	if !ok || m.name.name != "outputs" {
		return false
	}
	s := e.f.resourceOf(m.base)
	return s != nil && s.kind == symModule
}

func (e *emitter) index(x *indexExpr, v *env) term {
	if ref, ok := e.reference(x, v); ok {
		return e.whole(ref)
	}
	if ref, ok := e.reference(x.base, v); ok {
		if name, ok := e.f.constantKey(x.index); ok {
			return quote(e.resourceMember(ref, name))
		}
	}
	index := e.term(x.index, v)
	if x.fromEnd {
		base := e.term(x.base, v)
		if x.safe {
			return call("tryIndexFromEnd", base, index)
		}
		return call("indexFromEnd", base, index)
	}
	return e.access(x.base, index, func(b term) term { return termIndex{b, index} }, x.safe, v)
}

// operators of the language and their functions.
var operators = map[string]string{
	"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "==": "equals", "<": "less", "<=": "lessOrEquals",
	">": "greater", ">=": "greaterOrEquals", "&&": "and", "||": "or", "??": "coalesce",
}

func (e *emitter) binary(x *binaryExpr, v *env) term {
	left, right := e.term(x.left, v), e.term(x.right, v)
	switch x.op {
	case "!=":
		return call("not", call("equals", left, right))
	case "=~", "!~":
		t := call("equals", call("toLower", left), call("toLower", right))
		if x.op == "!~" {
			return call("not", t)
		}
		return t
	}
	return call(operators[x.op], left, right)
}

func (e *emitter) lambda(x *lambdaExpr, v *env) term {
	args := make([]term, 0, len(x.parameters)+1)
	for _, p := range x.parameters {
		args = append(args, termString(p.name))
		v = v.with(p.start, call("lambdaVariables", termString(p.name)))
	}
	return call("lambda", append(args, e.term(x.body, v))...)
}

func (e *emitter) call(x *callExpr, v *env) term {
	var args []term
	add := func() {
		for _, a := range x.args {
			args = append(args, e.term(a, v))
		}
	}
	name := x.name.name
	if x.base != nil {
		if ref, ok := e.reference(x.base, v); ok {
			args = []term{ref.symbolic(), termString(ref.symbol.version)}
			if len(x.args) > 0 {
				args[1] = e.term(x.args[0], v)
				for _, a := range x.args[1:] {
					args = append(args, e.term(a, v))
				}
			}
			return call(name, args...)
		}
		if n, ok := bare(x.base).(*nameExpr); ok {
			if s := e.f.names[n]; s != nil && s.namespace != nil {
				if t := s.namespace.exported(name); t != nil {
					add()
					namespace, function := e.templateName(t)
					return call(namespace+"."+function, args...)
				}
			}
		}
		add()
		return call(name, args...)
	}
	add()
	if s := e.f.symbols[name]; s != nil && s.kind == symFunction {
		namespace, function := e.templateName(s.target())
		return call(namespace+"."+function, args...)
	}
	return call(name, args...)
}

func (e *emitter) spreadArray(x *arrayExpr, v *env) term {
	var parts []term
	var plain []term
	flush := func() {
		if len(plain) > 0 {
			parts = append(parts, call("createArray", plain...))
			plain = nil
		}
	}
	for _, item := range x.items {
		if item.spread {
			flush()
			parts = append(parts, e.term(item.value, v))
			continue
		}
		plain = append(plain, e.term(item.value, v))
	}
	flush()
	return call("flatten", call("createArray", parts...))
}

func (e *emitter) spreadObject(x *objectExpr, v *env) term {
	var parts []term
	run := &objectExpr{}
	flush := func() {
		if len(run.items) > 0 {
			parts = append(parts, e.term(run, v))
			run = &objectExpr{}
		}
	}
	for _, item := range x.items {
		if item.spread {
			flush()
			parts = append(parts, e.term(item.value, v))
			continue
		}
		run.items = append(run.items, item)
	}
	flush()
	return call("shallowMerge", call("createArray", parts...))
}
