package bicep

import (
	"fmt"
	"slices"
	"strings"
)

// locals are the names of loops, lambdas and functions around an expression.
type locals struct {
	outer *locals
	names []*symbol
	// only hides the names of the file, in the body of a function.
	only bool
	// resource is the resource whose nested resources can be named.
	resource *symbol
}

// place says what an expression is part of: some functions and names are for
// some places only.
type place int

const (
	inFile place = iota
	inDefault
	inFunction
	inParams // a value of a .bicepparam file
)

// check finds what is wrong with a file beyond its syntax.
func (f *file) check() {
	if f.checked {
		return
	}
	f.checked = true
	for _, s := range f.order {
		f.checkSymbol(s)
	}
	f.checkCycles()
	f.checkStart()
	f.checkSameNames()
}

func (f *file) checkSymbol(s *symbol) {
	d := s.decl
	k := &checker{file: f, symbol: s}
	switch d.keyword {
	case "metadata":
		k.typeOf(d.value, nil)
	case "param":
		if f.params {
			k.place = inParams
			k.typeOf(d.value, nil)
			break
		}
		t := k.declared(d.typ, d.decorators)
		k.place = inDefault
		if d.value != nil {
			k.assign(d.value, t, d.value.at(), nil)
		}
	case "var":
		if d.value == nil {
			break
		}
		if f.params {
			k.place = inParams
		}
		if d.typ != nil {
			k.assign(d.value, k.declared(d.typ, d.decorators), d.value.at(), nil)
		} else {
			f.variableType(s)
		}
	case "type":
		k.declared(d.typ, d.decorators)
	case "func":
		k.place = inFunction
		env := &locals{only: true}
		for _, p := range d.parameters {
			env.names = append(env.names, &symbol{kind: symLocal, name: p.name.name, file: f, at: p.name.span, typ: k.declared(p.typ, nil)})
		}
		result := k.declared(d.result, nil)
		if d.value != nil {
			k.assign(d.value, result, d.value.at(), env)
		}
	case "output":
		t := k.declared(d.typ, d.decorators)
		if d.value != nil {
			k.assign(d.value, t, d.value.at(), nil)
		}
	case "resource":
		k.resource(s)
	case "module":
		k.module(s)
	}
	k.decorators(d.decorators, d.keyword, nil)
}

// variableType returns the type of a variable, and checks its value once.
func (f *file) variableType(s *symbol) *typ {
	if s.typ != nil {
		return s.typ
	}
	if s.resolving || s.decl.value == nil {
		return anyType
	}
	s.resolving = true
	k := &checker{file: f, symbol: s}
	if f.params {
		k.place = inParams
	}
	if s.decl.typ != nil {
		s.typ = k.declared(s.decl.typ, s.decl.decorators)
	} else {
		s.typ = k.typeOf(s.decl.value, nil)
	}
	s.resolving = false
	return s.typ
}

// checker checks the expressions of one declaration.
type checker struct {
	*file
	symbol *symbol
	place  place
	depth  int
	// optional counts the optional parts of a type that are around: a type may
	// name itself there.
	optional int
}

// lookup finds what a name means.
func (k *checker) lookup(name string, env *locals) *symbol {
	for e := env; e != nil; e = e.outer {
		for _, s := range e.names {
			if s.name == name {
				return s
			}
		}
		if e.only {
			return nil
		}
		if e.resource != nil {
			if n := e.resource.nested[name]; n != nil {
				return n
			}
		}
	}
	return k.symbols[name]
}

// use records that the declaration needs a name.
func (k *checker) use(s *symbol) {
	if k.optional == 0 && s.kind != symLocal && !slices.Contains(k.symbol.used, s) {
		k.symbol.used = append(k.symbol.used, s)
	}
}

// resource checks the body of a resource.
func (k *checker) resource(s *symbol) {
	env := k.surroundings(s)
	env = k.head(s, env)
	if s.body == nil || s.resourceType == "" {
		if s.body != nil {
			k.typeOf(s.body, env)
		}
		return
	}
	k.findParent(s, env)
	known := strings.HasPrefix(strings.ToLower(s.resourceType), "microsoft.documentdb/")
	hasName := false
	for _, item := range s.body.items {
		name, ok := item.literalKey()
		if !ok {
			k.typeOf(item.value, env)
			hasName = hasName || item.spread
			continue
		}
		at := item.key.at()
		switch {
		case s.decl.existing && !slices.Contains([]string{"name", "scope", "parent", "dependsOn"}, name):
			k.add(at, "BCP173", "The property %q cannot be used in an existing resource declaration.", name)
		case s.decl.existing && name == "dependsOn":
			k.add(at, "BCP173", "The property %q cannot be used in an existing resource declaration.", name)
		case known && !slices.Contains(resourceProperties, name):
			k.add(at, "BCP037", "The property %q is not allowed on objects of type %q. Permissible properties include \"asserts\", \"dependsOn\", \"location\", \"parent\", \"tags\".", name, s.resourceType)
		case name == "id" || name == "type" || name == "apiVersion":
			k.add(at, "BCP073", "The property %q is read-only. Expressions cannot be assigned to read-only properties.", name)
		}
		switch name {
		case "name":
			hasName = true
			k.assign(item.value, stringType, at, env)
			k.checkName(s, item.value)
		case "dependsOn":
			k.dependsOn(item.value, env)
		case "parent":
			if s.decl.parent != nil {
				k.add(at, "BCP037", "The property %q is not allowed in a nested resource.", name)
			}
			k.typeOf(item.value, env)
		case "scope":
			k.scopeValue(s, item.value, env)
		default:
			k.typeOf(item.value, env)
		}
	}
	if !hasName && !s.decl.broken {
		k.add(s.at, "BCP035", "The specified \"resource\" declaration is missing the following required properties: \"name\".")
	}
	k.duplicates(s.body)
}

// resourceProperties are the members that resources of this provider can have.
var resourceProperties = []string{
	"apiVersion", "asserts", "dependsOn", "eTag", "extendedLocation", "id", "identity", "kind", "location", "managedBy",
	"managedByExtended", "name", "parent", "placement", "plan", "properties", "scale", "scope", "sku", "systemData", "tags", "type", "zones",
}

// surroundings returns the names of the outer resources of a nested one.
func (k *checker) surroundings(s *symbol) *locals {
	if s.decl.parent == nil || s.parent == nil {
		return nil
	}
	return &locals{outer: k.surroundings(s.parent), resource: s.parent}
}

// head checks the loop and the condition of a body, and returns the names inside.
func (k *checker) head(s *symbol, env *locals) *locals {
	if s.nested != nil {
		env = &locals{outer: env, resource: s}
	}
	if s.loop != nil {
		env = k.loopNames(s.loop, env)
	}
	if s.condition != nil {
		k.assign(s.condition, boolType, s.condition.at(), env)
	}
	return env
}

// loopNames checks the list of a loop and returns its names.
func (k *checker) loopNames(l *forExpr, env *locals) *locals {
	list := withoutNull(k.typeOf(l.list, env))
	item := anyType
	switch {
	case list.category == tArray:
		item = itemType(list)
	case !fits(list, arrayAny, 0):
		k.add(l.list.at(), "BCP137", "Loop expected an expression of type \"array\" but the provided value is of type %q.", list)
	}
	inner := &locals{outer: env, names: []*symbol{{kind: symLocal, name: l.item.name, file: k.file, at: l.item.span, typ: item}}}
	if l.index.name != "" {
		if l.index.name == l.item.name {
			k.add(l.index.span, "BCP028", "Identifier %q is declared multiple times. Remove or rename the duplicates.", l.index.name)
		}
		inner.names = append(inner.names, &symbol{kind: symLocal, name: l.index.name, file: k.file, at: l.index.span, typ: intType})
	}
	return inner
}

// itemType returns the type of the items of an array.
func itemType(list *typ) *typ {
	if list.isTuple {
		if len(list.tuple) == 0 {
			return anyType
		}
		return union(list.tuple...)
	}
	if list.item != nil {
		return list.item
	}
	return anyType
}

// findParent finds the resource that the parent property names.
func (k *checker) findParent(s *symbol, env *locals) {
	x := s.body.get("parent")
	if x == nil || s.decl.parent != nil {
		return
	}
	if t := k.typeOf(x, env); t.category == tResource && t.symbol.kind == symResource {
		s.parent = t.symbol
		if i, ok := bare(x).(*indexExpr); ok {
			s.parentIndex = i.index
		}
		if i := strings.LastIndex(s.resourceType, "/"); s.parent.resourceType != "" && !strings.EqualFold(s.resourceType[:i], s.parent.resourceType) {
			k.add(s.decl.path.at(), "BCP036", "The property \"parent\" expected a value of type %q but the provided value is of type %q.", s.resourceType[:i], s.parent.resourceType)
			s.parent = nil
		}
		for p := s.parent; p != nil; p = p.parent {
			if p == s {
				s.parent = nil // a cycle, which checkCycles names
				break
			}
		}
	} else if t.category != tAny {
		k.add(x.at(), "BCP240", "The \"parent\" property only permits direct references to resources. Expressions are not supported.")
	}
}

// checkName compares the number of segments of a name with its type.
func (k *checker) checkName(s *symbol, x expr) {
	value, ok := x.(*stringExpr)
	if !ok {
		return
	}
	slashes := 0
	for _, part := range value.parts {
		slashes += strings.Count(part, "/")
	}
	if s.parent != nil || s.decl.parent != nil || s.body.get("parent") != nil {
		if slashes > 0 {
			k.add(x.at(), "BCP170", "Expected resource name to not contain any \"/\" characters. Child resources with a parent resource reference (via the parent property or via nesting) must not contain a fully-qualified name.")
		}
		return
	}
	want := strings.Count(s.resourceType, "/") - 1
	if len(value.holes) == 0 && slashes != want || slashes > want {
		k.add(x.at(), "BCP169", "Expected resource name to contain %d \"/\" character(s). The number of name segments must match the number of segments in the resource type.", want)
	}
}

// dependsOn checks a list of resources.
func (k *checker) dependsOn(x expr, env *locals) {
	t := k.typeOf(x, env)
	if !fits(t, arrayAny, 0) {
		k.add(x.at(), "BCP036", "The property \"dependsOn\" expected a value of type \"(module | resource)[]\" but the provided value is of type %q.", t)
	}
	list, ok := x.(*arrayExpr)
	if !ok {
		return
	}
	for _, item := range list.items {
		if t := k.typeOf(item.value, env); t.category != tResource && t.category != tCollection && t.category != tAny && !item.spread && !isNullable(t) {
			k.add(item.value.at(), "BCP034", "The enclosing array expected an item of type \"module[] | (resource | module) | resource[]\", but the provided item was of type %q.", t)
		}
	}
}

// scopeValue checks what a resource or a module is deployed to.
func (k *checker) scopeValue(s *symbol, x expr, env *locals) {
	t := k.typeOf(x, env)
	ok := t.category == tAny || t.category == tResource && (s.kind == symResource || strings.EqualFold(t.symbol.resourceType, resourceGroupType))
	if c, isCall := bare(x).(*callExpr); isCall && slices.Contains([]string{"resourceGroup", "subscription", "managementGroup", "tenant"}, c.name.name) {
		ok = true
	}
	if n, isTernary := bare(x).(*ternaryExpr); isTernary {
		k.add(n.span, CodeUnsupported, "A scope that depends on a condition is not read here.")
		return
	}
	if !ok {
		k.add(x.at(), "BCP036", "The property \"scope\" expected a value of type \"resource | tenant | managementGroup | resourceGroup | subscription\" but the provided value is of type %q.", t)
	}
}

const resourceGroupType = "Microsoft.Resources/resourceGroups"

// module checks the body of a module against the file that it names.
func (k *checker) module(s *symbol) {
	if s.module != nil {
		s.module.check()
		if len(s.module.findings) > 0 {
			k.add(s.decl.path.at(), "BCP104", "The referenced module has errors.")
		}
	}
	env := k.head(s, nil)
	if s.body == nil {
		return
	}
	var params expr
	owner := s.at
	for _, item := range s.body.items {
		name, ok := item.literalKey()
		if !ok {
			k.typeOf(item.value, env)
			continue
		}
		switch name {
		case "name":
			k.assign(item.value, stringType, item.key.at(), env)
		case "params":
			params, owner = item.value, item.key.at()
			k.typeOf(item.value, env)
		case "scope":
			k.scopeValue(s, item.value, env)
		case "dependsOn":
			k.dependsOn(item.value, env)
		case "identity", "extensionConfigs":
			k.add(item.key.at(), CodeUnsupported, "The property %q of a module is not read here.", name)
		default:
			k.add(item.key.at(), "BCP037", "The property %q is not allowed on objects of type \"module\". Permissible properties include \"dependsOn\", \"scope\".", name)
		}
	}
	k.duplicates(s.body)
	k.arguments(s, params, owner, env)
	if s.module != nil {
		k.moduleScope(s)
	}
}

// arguments checks the parameters that a module gets.
func (k *checker) arguments(s *symbol, params expr, owner span, env *locals) {
	want := k.moduleParameters(s)
	if want == nil {
		return
	}
	if params == nil {
		params = &objectExpr{span: owner}
	}
	if _, ok := params.(*objectExpr); ok && !s.decl.broken {
		if missing := k.missing(params.(*objectExpr), want); len(missing) > 0 {
			k.add(owner, "BCP035", "The specified \"object\" declaration is missing the following required properties: %s.", strings.Join(missing, ", "))
			// The members are still checked; the missing ones are reported.
			want = &typ{category: tObject, fields: slices.Clone(want.fields), sealed: true, open: true}
			for i := range want.fields {
				want.fields[i].optional = true
			}
		}
	}
	k.assign(params, want, owner, env)
}

// moduleParameters returns the parameters of a module as an object type, or nil.
func (k *checker) moduleParameters(s *symbol) *typ {
	t := &typ{category: tObject, sealed: true}
	switch {
	case s.module != nil:
		for _, p := range s.module.order {
			if p.decl.keyword != "param" {
				continue
			}
			pt := s.module.parameterType(p)
			optional := p.decl.value != nil || isNullable(pt)
			if optional {
				pt = union(pt, nullType)
			}
			t.fields = append(t.fields, field{p.name, pt, optional})
		}
	case s.template != nil:
		parameters, _ := s.template.get("parameters").(*object)
		if parameters == nil {
			return t
		}
		for _, m := range parameters.members {
			p, ok := m.value.(*object)
			if !ok {
				continue
			}
			optional := slices.ContainsFunc(p.members, func(m member) bool { return m.name == "defaultValue" || m.name == "nullable" })
			t.fields = append(t.fields, field{m.name, anyType, optional})
		}
	default:
		return nil
	}
	return t
}

// parameterType returns the type of a parameter.
func (f *file) parameterType(s *symbol) *typ {
	if s.typ == nil {
		if s.resolving {
			return anyType
		}
		s.resolving = true
		k := &checker{file: f, symbol: s}
		s.typ = k.declared(s.decl.typ, s.decl.decorators)
		s.resolving = false
	}
	return s.typ
}

// moduleScope compares the scope of a module with that of its file.
func (k *checker) moduleScope(s *symbol) {
	scope := k.file.scope
	if x := s.body.get("scope"); x != nil {
		switch c := bare(x).(type) {
		case *callExpr:
			scope = c.name.name
		default:
			scope = "resourceGroup"
		}
	}
	if scope != s.module.scope {
		at := s.at
		if x := s.body.get("scope"); x != nil {
			at = x.at()
		}
		k.add(at, "BCP134", "Scope %q is not valid for this module. Permitted scopes: %q.", scope, s.module.scope)
	}
}

// duplicates reports members that an object has twice.
func (k *checker) duplicates(o *objectExpr) {
	seen := map[string][]span{}
	for i := range o.items {
		if name, ok := o.items[i].literalKey(); ok {
			seen[name] = append(seen[name], o.items[i].key.at())
		}
	}
	for name, places := range seen {
		for _, at := range places {
			if len(places) > 1 {
				k.add(at, "BCP025", "The property %q is declared multiple times in this object. Remove or rename the duplicate properties.", name)
			}
		}
	}
}

// missing lists the members that an object must have and has not, quoted.
func (k *checker) missing(o *objectExpr, want *typ) []string {
	var list []string
	for i := range o.items {
		if o.items[i].spread {
			return nil
		}
		if _, ok := o.items[i].literalKey(); !ok {
			return nil
		}
	}
	for _, w := range want.fields {
		if !w.optional && (w.typ.category == tAny || !isNullable(w.typ)) && o.get(w.name) == nil {
			list = append(list, fmt.Sprintf("%q", w.name))
		}
	}
	slices.Sort(list)
	return list
}

// assign checks that x can be a value of type to. Owner is the place for
// members that are missing: the name of what the object is for.
func (k *checker) assign(x expr, to *typ, owner span, env *locals) {
	from := k.typeOf(x, env)
	k.assigned(x, from, to, owner, "")
}

// assigned compares; property is the member that x is the value of, or "".
func (k *checker) assigned(x expr, from, to *typ, owner span, property string) {
	if k.depth++; k.depth > nestingMax {
		k.depth--
		return
	}
	defer func() { k.depth-- }()
	switch v := x.(type) {
	case *parenExpr:
		k.assigned(v.inner, from, to, owner, property)
		return
	case *objectExpr:
		if t := pick(to, tObject); t != nil && k.object(v, t, owner) {
			return
		}
	case *arrayExpr:
		if t := pick(to, tArray); t != nil && k.array(v, t) {
			return
		}
	}
	if fits(from, to, 0) {
		return
	}
	switch property {
	case "":
		k.add(x.at(), "BCP033", "Expected a value of type %s but the provided value is of type %s.", shown(to), shown(from))
	case "[]":
		k.add(x.at(), "BCP034", "The enclosing array expected an item of type %s, but the provided item was of type %s.", shown(to), shown(from))
	default:
		k.add(x.at(), "BCP036", "The property %q expected a value of type %s but the provided value is of type %s.", property, shown(to), shown(from))
	}
}

// shown quotes a type without escaping it a second time.
func shown(t *typ) string { return "\"" + t.String() + "\"" }

// pick returns the one member of a type that has this category, or nil.
func pick(t *typ, c category) *typ {
	if t.category == c {
		return t
	}
	var found *typ
	if t.category == tUnion {
		for _, m := range t.members {
			if m.category == tAny || m.category == c && found != nil {
				return nil
			}
			if m.category == c {
				found = m
			}
		}
	}
	return found
}

// object compares the members of a literal object; it returns false when the
// whole is to be compared instead.
func (k *checker) object(o *objectExpr, to *typ, owner span) bool {
	if missing := k.missing(o, to); len(missing) > 0 && len(to.fields) > 0 {
		k.add(owner, "BCP035", "The specified \"object\" declaration is missing the following required properties: %s.", strings.Join(missing, ", "))
		return true
	}
	for i := range o.items {
		item := &o.items[i]
		name, ok := item.literalKey()
		if !ok {
			continue
		}
		want := to.field(name)
		if want == nil {
			want = to.extra
		}
		from := k.types[item.value]
		if l, ok := item.value.(*forExpr); ok {
			from = k.types[l]
		}
		switch {
		case want == nil && to.sealed:
			names := make([]string, len(to.fields))
			for i := range to.fields {
				names[i] = fmt.Sprintf("%q", to.fields[i].name)
			}
			slices.Sort(names)
			k.add(item.key.at(), "BCP037", "The property %q is not allowed on objects of type %q. Permissible properties include %s.", name, to, strings.Join(names, ", "))
		case want != nil && from != nil:
			k.assigned(item.value, from, want, item.key.at(), name)
		}
	}
	return true
}

// array compares the items of a literal array.
func (k *checker) array(a *arrayExpr, to *typ) bool {
	if to.isTuple && len(a.items) != len(to.tuple) && !slices.ContainsFunc(a.items, func(i arrayItem) bool { return i.spread }) {
		return false
	}
	for i, item := range a.items {
		want := to.item
		if to.isTuple && i < len(to.tuple) {
			want = to.tuple[i]
		}
		if from := k.types[item.value]; want != nil && from != nil && !item.spread {
			k.assigned(item.value, from, want, item.value.at(), "[]")
		}
	}
	return true
}
