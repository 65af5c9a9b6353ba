package bicep

import (
	"fmt"
	"slices"
	"strings"
)

// typeOf checks an expression and returns its type.
func (k *checker) typeOf(x expr, env *locals) *typ {
	if x == nil {
		return anyType
	}
	if k.depth++; k.depth > 4*nestingMax {
		k.depth--
		return anyType
	}
	t := k.infer(x, env)
	k.depth--
	k.types[x] = t
	return t
}

func (k *checker) infer(x expr, env *locals) *typ {
	switch x := x.(type) {
	case *literal:
		return literalOf(x.value)
	case *stringExpr:
		whole, known := x.parts[0], true
		for i, h := range x.holes {
			s, ok := k.typeOf(h, env).value.(string)
			known = known && ok && len(whole) < 1000
			if known {
				whole += s + x.parts[i+1]
			}
		}
		if known {
			return literalOf(whole)
		}
		return stringType
	case *nameExpr:
		return k.name(x, env)
	case *arrayExpr:
		return k.arrayType(x, env)
	case *objectExpr:
		return k.objectType(x, env)
	case *parenExpr:
		return k.typeOf(x.inner, env)
	case *assertExpr:
		return withoutNull(k.typeOf(x.base, env))
	case *memberExpr:
		return k.memberOf(x, env)
	case *indexExpr:
		return k.indexOf(x, env)
	case *childExpr:
		return k.child(x, env)
	case *callExpr:
		return k.call(x, env)
	case *unaryExpr:
		return k.unary(x, env)
	case *binaryExpr:
		return k.binary(x, env)
	case *ternaryExpr:
		condition := k.typeOf(x.condition, env)
		if !fits(condition, boolType, 0) {
			k.add(x.condition.at(), "BCP046", "Expected a value of type \"bool\".")
		}
		return union(k.typeOf(x.yes, env), k.typeOf(x.no, env))
	case *lambdaExpr:
		// A lambda that is an argument is checked with the call.
		k.add(x.span, "BCP200", "Lambda functions may only be specified directly as function arguments.")
		return anyType
	case *forExpr:
		return k.loop(x, env)
	case *ifExpr:
		k.typeOf(x.condition, env)
		return k.typeOf(x.body, env)
	}
	return anyType
}

func (k *checker) name(x *nameExpr, env *locals) *typ {
	s := k.lookup(x.name, env)
	if s == nil {
		switch x.name {
		case "":
			return anyType
		case "sys", "az":
			return &typ{category: tNamespace, symbol: &symbol{kind: symNamespace, name: x.name}}
		}
		if _, ok := functionTable()[x.name]; ok && k.place != inFunction {
			k.add(x.span, "BCP063", "The name %q is not a parameter, variable, resource or module.", x.name)
		} else {
			k.add(x.span, "BCP057", "The name %q does not exist in the current context.", x.name)
		}
		return anyType
	}
	k.names[x] = s
	k.use(s)
	t := s.target()
	switch t.kind {
	case symLocal:
		return t.typ
	case symParameter:
		return k.parameterType(t)
	case symVariable:
		if k.place == inDefault {
			k.add(x.span, "BCP072", "This symbol cannot be referenced here. Only other parameters can be referenced in parameter default values.")
		}
		return t.file.variableType(t)
	case symResource, symModule:
		if k.place == inDefault {
			k.add(x.span, "BCP072", "This symbol cannot be referenced here. Only other parameters can be referenced in parameter default values.")
		}
		if t.loop != nil {
			return &typ{category: tCollection, symbol: t}
		}
		return &typ{category: tResource, symbol: t}
	case symNamespace:
		return &typ{category: tNamespace, symbol: t}
	case symType:
		k.add(x.span, "BCP062", "The referenced declaration with name %q is a type, and may not be used as a value.", x.name)
	case symFunction:
		k.add(x.span, "BCP063", "The name %q is not a parameter, variable, resource or module.", x.name)
	}
	return anyType
}

func (k *checker) arrayType(x *arrayExpr, env *locals) *typ {
	t := &typ{category: tArray, isTuple: true}
	for _, item := range x.items {
		it := k.typeOf(item.value, env)
		if !item.spread {
			t.tuple = append(t.tuple, it)
			continue
		}
		it = withoutNull(it)
		switch {
		case it.isTuple:
			t.tuple = append(t.tuple, it.tuple...)
		case it.category == tAny || it.category == tArray || it.category == tUnion:
			t.isTuple = false
		default:
			k.add(item.value.at(), "BCP397", "The spread operator \"...\" can only be used in this context for an expression assignable to type %q.", "array")
			t.isTuple = false
		}
	}
	if !t.isTuple || len(t.tuple) > 1000 {
		return arrayAny
	}
	return t
}

func (k *checker) objectType(x *objectExpr, env *locals) *typ {
	t := &typ{category: tObject}
	for i := range x.items {
		item := &x.items[i]
		if s, ok := item.key.(*stringExpr); ok {
			k.typeOf(s, env)
		}
		it := k.typeOf(item.value, env)
		if item.spread {
			it = withoutNull(it)
			if !fits(it, objectAny, 0) {
				k.add(item.value.at(), "BCP397", "The spread operator \"...\" can only be used in this context for an expression assignable to type %q.", "object")
			}
			t.open = t.open || it.category != tObject || it.open || it.extra != nil
			if it.category == tObject {
				for _, f := range it.fields {
					t.setField(f.name, f.typ)
				}
			}
			continue
		}
		if name, ok := item.literalKey(); ok {
			t.setField(name, it)
		} else {
			t.open = true
		}
	}
	k.duplicates(x)
	return t
}

func (t *typ) setField(name string, ft *typ) {
	for i := range t.fields {
		if t.fields[i].name == name {
			t.fields[i].typ = ft
			return
		}
	}
	t.fields = append(t.fields, field{name: name, typ: ft})
}

// resourceTypes are the types of what every resource has.
var resourceTypes = map[string]*typ{
	"id": stringType, "name": stringType, "type": stringType, "apiVersion": stringType, "location": stringType,
}

func (k *checker) memberOf(x *memberExpr, env *locals) *typ {
	base := k.typeOf(x.base, env)
	return k.field(base, x.name.name, x.name.span, x.safe)
}

// field returns the type of a member of a value.
func (k *checker) field(base *typ, name string, at span, safe bool) *typ {
	if name == "" {
		if !fits(base, objectAny, 0) && base.category != tNamespace && base.category != tResource {
			k.add(at, "BCP055", "Cannot access properties of type %q. An \"object\" type is required.", base)
		}
		return anyType
	}
	switch base.category {
	case tAny:
		return anyType
	case tUnion:
		var list []*typ
		objects := 0
		for _, m := range base.members {
			switch m.category {
			case tNull:
			case tObject:
				objects++
				if ft := m.field(name); ft != nil {
					list = append(list, ft)
				} else {
					list = append(list, anyType)
				}
			default:
				list = append(list, anyType)
				if m.category == tAny || m.category == tResource {
					objects++
				}
			}
		}
		if objects == 0 {
			k.add(at, "BCP055", "Cannot access properties of type %q. An \"object\" type is required.", base)
		}
		return optional(union(append(list, anyTypeIf(len(list) == 0)...)...), safe)
	case tObject:
		if ft := base.field(name); ft != nil {
			return optional(ft, safe)
		}
		if base.extra != nil {
			return optional(base.extra, safe)
		}
		if base.open || safe {
			return anyType
		}
		names := make([]string, len(base.fields))
		for i := range base.fields {
			names[i] = fmt.Sprintf("%q", base.fields[i].name)
		}
		slices.Sort(names)
		if len(names) == 0 {
			k.add(at, "BCP052", "The type %q does not contain property %q.", base, name)
		} else {
			k.add(at, "BCP053", "The type %q does not contain property %q. Available properties include %s.", base, name, strings.Join(names, ", "))
		}
		return anyType
	case tResource:
		if base.symbol.kind == symModule {
			return k.moduleField(base.symbol, name, at, safe)
		}
		if t := resourceTypes[name]; t != nil {
			if name == "name" && base.symbol.body != nil && base.symbol.loop == nil {
				if s, ok := base.symbol.body.get("name").(*stringExpr); ok && len(s.holes) == 0 {
					return literalOf(s.parts[0])
				}
			}
			return t
		}
		known := strings.HasPrefix(strings.ToLower(base.symbol.resourceType), "microsoft.documentdb/")
		if known && !slices.Contains(resourceProperties, name) && !safe {
			k.add(at, "BCP053", "The type %q does not contain property %q. Available properties include \"apiVersion\", \"id\", \"identity\", \"kind\", \"location\", \"name\", \"properties\", \"sku\", \"tags\", \"type\".", base, name)
		}
		return anyType
	case tNamespace:
		if g := base.symbol.namespace; g != nil {
			if s := g.exported(name); s != nil && s.kind == symVariable {
				return g.variableType(s)
			}
		}
		k.add(at, "BCP052", "The type %q does not contain property %q.", base.symbol.name, name)
		return anyType
	case tCollection:
		k.add(at, "BCP144", "Directly referencing a resource or module collection is not currently supported here. Apply an array indexer to the expression.")
		return anyType
	}
	k.add(at, "BCP055", "Cannot access properties of type %q. An \"object\" type is required.", base)
	return anyType
}

func anyTypeIf(b bool) []*typ {
	if b {
		return []*typ{anyType}
	}
	return nil
}

// optional adds null to a type that ".?" gives.
func optional(t *typ, safe bool) *typ {
	if safe {
		return union(t, nullType)
	}
	return t
}

func (k *checker) moduleField(s *symbol, name string, at span, safe bool) *typ {
	switch name {
	case "name":
		return stringType
	case "outputs":
		t := &typ{category: tObject, name: "outputs"}
		switch {
		case s.module != nil:
			for _, o := range s.module.order {
				if o.kind == symOutput {
					t.fields = append(t.fields, field{name: o.name, typ: s.module.outputType(o)})
				}
			}
		case s.template != nil:
			if outputs, ok := s.template.get("outputs").(*object); ok {
				for _, m := range outputs.members {
					t.fields = append(t.fields, field{name: m.name, typ: anyType})
				}
			}
		default:
			return anyType
		}
		return optional(t, safe)
	}
	k.add(at, "BCP053", "The type \"module\" does not contain property %q. Available properties include \"name\", \"outputs\".", name)
	return anyType
}

// outputType returns the declared type of an output.
func (f *file) outputType(s *symbol) *typ {
	if s.typ == nil {
		k := &checker{file: f, symbol: &symbol{}}
		s.typ = k.declared(s.decl.typ, s.decl.decorators)
	}
	return s.typ
}

func (k *checker) indexOf(x *indexExpr, env *locals) *typ {
	base := k.typeOf(x.base, env)
	index := k.typeOf(x.index, env)
	switch base.category {
	case tAny:
		return anyType
	case tCollection:
		if !fits(index, intType, 0) {
			k.add(x.index.at(), "BCP074", "Indexing over arrays requires an index of type \"int\" but the provided index was of type %q.", index)
		}
		return &typ{category: tResource, symbol: base.symbol}
	case tUnion:
		return anyType
	case tArray:
		if !fits(index, intType, 0) {
			k.add(x.index.at(), "BCP074", "Indexing over arrays requires an index of type \"int\" but the provided index was of type %q.", index)
			return anyType
		}
		n, ok := index.value.(int64)
		if !base.isTuple || !ok {
			return optional(itemType(base), x.safe)
		}
		if x.fromEnd {
			n = int64(len(base.tuple)) - n
		}
		if n >= 0 && n < int64(len(base.tuple)) {
			return base.tuple[n]
		}
		if !x.safe {
			k.add(x.index.at(), "BCP311", "The provided index value of \"%d\" is not valid for type %q.", index.value, base)
		}
		return anyType
	case tObject, tResource:
		if x.fromEnd {
			k.add(x.index.at(), "BCP414", "The \"^\" indexing operator cannot be used on base expressions of type %q.", base)
			return anyType
		}
		if !fits(index, stringType, 0) {
			k.add(x.index.at(), "BCP075", "Indexing over objects requires an index of type \"string\" but the provided index was of type %q.", index)
			return anyType
		}
		if name, ok := index.value.(string); ok {
			return k.field(base, name, x.index.at(), x.safe)
		}
		return anyType
	}
	k.add(x.index.at(), "BCP076", "Cannot index over expression of type %q. Arrays or objects are required.", base)
	return anyType
}

func (k *checker) child(x *childExpr, env *locals) *typ {
	base := k.typeOf(x.base, env)
	if base.category == tAny {
		return anyType
	}
	if base.category != tResource || base.symbol.kind != symResource {
		k.add(x.name.span, "BCP158", "Cannot access nested resources of type %q. A resource type is required.", base)
		return anyType
	}
	n := base.symbol.nested[x.name.name]
	if n == nil {
		k.add(x.name.span, "BCP159", "The resource %q does not contain a nested resource named %q.", base.symbol.name, x.name.name)
		return anyType
	}
	k.children[x] = n
	k.use(n)
	if n.loop != nil {
		return &typ{category: tCollection, symbol: n}
	}
	return &typ{category: tResource, symbol: n}
}

func (k *checker) unary(x *unaryExpr, env *locals) *typ {
	t := k.typeOf(x.operand, env)
	want := intType
	if x.op == "!" {
		want = boolType
	}
	if !fits(t, want, 0) || x.op == "+" {
		k.add(x.span, "BCP044", "Cannot apply operator %q to operand of type %s.", x.op, shown(t))
		return anyType
	}
	if n, ok := t.value.(int64); ok && x.op == "-" {
		return literalOf(-n)
	}
	return want
}

func (k *checker) binary(x *binaryExpr, env *locals) *typ {
	left, right := k.typeOf(x.left, env), k.typeOf(x.right, env)
	fail := func() *typ {
		k.add(x.span, "BCP045", "Cannot apply operator %q to operands of type %s and %s.", x.op, shown(left), shown(right))
		return anyType
	}
	both := func(t *typ) bool { return fits(left, t, 0) && fits(right, t, 0) }
	switch x.op {
	case "??":
		if left.category == tNull {
			return right
		}
		if !isNullable(left) {
			return left
		}
		return union(withoutNull(left), right)
	case "||", "&&":
		if !both(boolType) {
			return fail()
		}
		return boolType
	case "=~", "!~":
		if !both(stringType) {
			return fail()
		}
		return boolType
	case "<", "<=", ">", ">=":
		if !both(intType) && !both(stringType) {
			return fail()
		}
		return boolType
	case "==", "!=":
		return boolType
	}
	if !both(intType) {
		return fail()
	}
	return intType
}

// loop checks a loop that is a value.
func (k *checker) loop(x *forExpr, env *locals) *typ {
	inner := k.loopNames(x, env)
	body := k.typeOf(x.body, inner)
	return &typ{category: tArray, item: body}
}

// call checks a call of a function of the language, of the file or of a namespace.
func (k *checker) call(x *callExpr, env *locals) *typ {
	if x.base != nil {
		base := k.typeOf(x.base, env)
		switch base.category {
		case tNamespace:
			if g := base.symbol.namespace; g != nil {
				if s := g.exported(x.name.name); s != nil && s.kind == symFunction {
					k.use(s)
					return k.userCall(x, s, env)
				}
				k.add(x.name.span, "BCP107", "The function %q does not exist in namespace %q.", x.name.name, base.symbol.name)
				k.arguments0(x, env)
				return anyType
			}
			return k.systemCall(x, env)
		case tResource:
			if strings.HasPrefix(x.name.name, "list") && base.symbol.kind == symResource {
				k.arguments0(x, env)
				return anyType
			}
			k.arguments0(x, env)
			if base.symbol.kind == symResource && x.name.name == "getSecret" {
				k.add(x.name.span, CodeUnsupported, "Secrets of a key vault are not read here: give the value as a parameter.")
				return anyType
			}
			k.add(x.name.span, "BCP109", "The type %q does not contain function %q.", base, x.name.name)
			return anyType
		case tAny:
		default:
			k.add(x.name.span, "BCP109", "The type %q does not contain function %q.", base, x.name.name)
		}
		k.arguments0(x, env)
		return anyType
	}
	if s := k.symbols[x.name.name]; s != nil && s.kind == symFunction {
		k.use(s)
		return k.userCall(x, s.target(), env)
	}
	return k.systemCall(x, env)
}

// arguments0 checks the arguments of a call that is refused or not known.
func (k *checker) arguments0(x *callExpr, env *locals) {
	for _, a := range x.args {
		if l, ok := a.(*lambdaExpr); ok {
			k.lambda(l, env, nil)
			continue
		}
		k.typeOf(a, env)
	}
}

// lambda checks the body of a lambda and returns its type.
func (k *checker) lambda(l *lambdaExpr, env *locals, parameters []*typ) *typ {
	inner := &locals{outer: env}
	for i, p := range l.parameters {
		t := anyType
		if i < len(parameters) {
			t = parameters[i]
		}
		for _, n := range inner.names {
			if n.name == p.name {
				k.add(p.span, "BCP028", "Identifier %q is declared multiple times. Remove or rename the duplicates.", p.name)
			}
		}
		inner.names = append(inner.names, &symbol{kind: symLocal, name: p.name, file: k.file, at: p.span, typ: t})
	}
	return k.typeOf(l.body, inner)
}

func (k *checker) userCall(x *callExpr, s *symbol, env *locals) *typ {
	k.calls[x] = s
	want := s.decl.parameters
	low := len(want)
	g := s.file
	gk := &checker{file: g, symbol: &symbol{}}
	types := make([]*typ, len(want))
	for i, p := range want {
		types[i] = gk.declared(p.typ, nil)
	}
	for low > 0 && isNullable(types[low-1]) && types[low-1].category != tAny {
		low--
	}
	k.count(x, low, len(want))
	for i, a := range x.args {
		if i < len(want) {
			if t := k.typeOf(a, env); !fits(t, types[i], 0) {
				k.add(a.at(), "BCP070", "Argument of type %s is not assignable to parameter of type %s.", shown(t), shown(types[i]))
			}
			continue
		}
		k.typeOf(a, env)
	}
	return gk.declared(s.decl.result, nil)
}

// count reports a wrong number of arguments; high < 0 has no bound.
func (k *checker) count(x *callExpr, low, high int) bool {
	n := len(x.args)
	if n >= low && (high < 0 || n <= high) {
		return true
	}
	expected := fmt.Sprintf("%d to %d arguments", low, high)
	switch {
	case low == high && low == 1:
		expected = "1 argument"
	case low == high:
		expected = fmt.Sprintf("%d arguments", low)
	case high < 0 && low == 1:
		expected = "at least 1 argument"
	case high < 0:
		expected = fmt.Sprintf("at least %d arguments", low)
	}
	k.add(x.open, "BCP071", "Expected %s, but got %d.", expected, n)
	return false
}
