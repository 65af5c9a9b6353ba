package bicep

import (
	"fmt"
	"slices"
	"strings"
)

var typeNames = []string{"any", "array", "bool", "int", "object", "resourceInput", "resourceOutput", "string"}

// declared checks a type as written and returns it.
func (k *checker) declared(x typeExpr, decorators []*decorator) *typ {
	t := k.resolveType(x)
	if allowed := findDecorator(decorators, "allowed"); allowed != nil && len(allowed.args) == 1 {
		if list, ok := allowed.args[0].(*arrayExpr); ok {
			var members []*typ
			for _, item := range list.items {
				members = append(members, (&checker{file: k.file, symbol: &symbol{}}).typeOf(item.value, nil))
			}
			switch {
			case len(members) == 0:
			case t.category == tArray:
				return &typ{category: tArray, item: union(members...)}
			default:
				return union(members...)
			}
		}
	}
	if findDecorator(decorators, "sealed") != nil && t.category == tObject {
		sealed := *t
		sealed.sealed = true
		sealed.open = false
		return &sealed
	}
	return t
}

// findDecorator returns the call of a decorator, or nil.
func findDecorator(list []*decorator, name string) *callExpr {
	for _, d := range list {
		if d.call != nil && d.call.name.name == name {
			return d.call
		}
	}
	return nil
}

func (k *checker) resolveType(x typeExpr) *typ {
	if k.depth++; k.depth > 2*nestingMax {
		k.depth--
		return anyType
	}
	defer func() { k.depth-- }()
	switch x := x.(type) {
	case *nameType:
		return k.namedType(x)
	case *literalType:
		switch v := x.value.(type) {
		case *literal:
			return literalOf(v.value)
		case *stringExpr:
			return literalOf(v.parts[0])
		case *unaryExpr:
			l, ok := v.operand.(*literal)
			if !ok {
				return anyType
			}
			switch n := l.value.(type) {
			case int64:
				if v.op == "-" {
					return literalOf(-n)
				}
			case bool:
				if v.op == "!" {
					return literalOf(!n)
				}
			}
			k.add(x.span, "BCP285", "The type expression could not be reduced to a literal value.")
		}
	case *arrayType:
		k.optional++
		defer func() { k.optional-- }()
		if u, ok := x.item.(*unionType); ok {
			// Items may be of several kinds, which nothing else may.
			return &typ{category: tArray, item: k.mixedUnion(u)}
		}
		return &typ{category: tArray, item: k.resolveType(x.item)}
	case *tupleType:
		t := &typ{category: tArray, isTuple: true}
		for _, m := range x.items {
			k.decorators(m.decorators, "member", k.resolveType(m.value))
			t.tuple = append(t.tuple, k.declared(m.value, m.decorators))
		}
		return t
	case *objectType:
		return k.objectTypeOf(x)
	case *unionType:
		return k.unionOf(x)
	case *nullableType:
		k.optional++
		defer func() { k.optional-- }()
		return union(k.resolveType(x.base), nullType)
	case *nonNullType:
		return withoutNull(k.resolveType(x.base))
	case *memberType:
		return k.memberType(x)
	case *genericType:
		if x.name.name != "resourceInput" && x.name.name != "resourceOutput" {
			k.add(x.name.span, "BCP302", "The name %q is not a valid type.", x.name.name)
		} else if len(x.args) != 1 {
			k.add(x.span, "BCP071", "Expected 1 argument, but got %d.", len(x.args))
		}
		return anyType
	}
	return anyType
}

// namedType finds what the name of a type means.
func (k *checker) namedType(x *nameType) *typ {
	s := k.symbols[x.name]
	if s != nil && s.kind == symType {
		k.use(s)
		return s.target().file.typeOfSymbol(s.target())
	}
	switch x.name {
	case "any":
		return anyType
	case "array":
		return arrayAny
	case "bool":
		return boolType
	case "int":
		return intType
	case "object":
		return objectAny
	case "string":
		return stringType
	case "resourceInput", "resourceOutput":
		k.add(x.span, "BCP384", "The %q type requires 1 argument(s).", x.name)
		return anyType
	}
	if s != nil && s.kind == symNamespace {
		return &typ{category: tNamespace, symbol: s}
	}
	names := slices.Clone(typeNames)
	for name, t := range k.symbols {
		if t.kind == symType {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i := range names {
		names[i] = fmt.Sprintf("%q", names[i])
	}
	if s != nil {
		k.add(x.span, "BCP287", "%q refers to a value but is being used as a type here.", x.name)
	} else {
		k.add(x.span, "BCP302", "The name %q is not a valid type. Please specify one of the following types: %s.", x.name, strings.Join(names, ", "))
	}
	return anyType
}

// typeOfSymbol returns the type that a declaration names.
func (f *file) typeOfSymbol(s *symbol) *typ {
	if s.typ != nil {
		return s.typ
	}
	if s.resolving {
		return anyType
	}
	s.resolving = true
	k := &checker{file: f, symbol: s}
	s.typ = k.declared(s.decl.typ, s.decl.decorators)
	s.resolving = false
	return s.typ
}

// systemType returns the name of a type of the language that is written with
// its namespace, as in sys.string.
func (f *file) systemType(x *memberType) (string, bool) {
	n, ok := x.base.(*nameType)
	if !ok || x.form != "." || n.name != "sys" || f.symbols["sys"] != nil {
		return "", false
	}
	return x.name.name, true
}

func (k *checker) objectTypeOf(x *objectType) *typ {
	t := &typ{category: tObject}
	for _, m := range x.members {
		if t.field(m.name) != nil {
			k.add(m.span, "BCP025", "The property %q is declared multiple times in this object. Remove or rename the duplicate properties.", m.name)
			continue
		}
		mt := k.declared(m.value, m.decorators)
		k.decorators(m.decorators, "member", mt)
		t.fields = append(t.fields, field{m.name, mt, isNullable(mt) && mt.category != tAny})
	}
	if x.additional != nil {
		k.optional++
		defer func() { k.optional-- }()
		t.extra = k.declared(x.additional.value, x.additional.decorators)
	}
	return t
}

// unionOf checks that the members of a union are of one kind.
func (k *checker) unionOf(x *unionType) *typ {
	members := make([]*typ, len(x.members))
	for i, m := range x.members {
		members[i] = k.resolveType(m)
	}
	u := union(members...)
	if u.category != tUnion {
		return u
	}
	base := tAny
	for _, m := range u.members {
		switch m.category {
		case tNull:
			continue
		case tAny:
			return anyType
		}
		if base != tAny && base != m.category {
			k.add(x.span, "BCP294", "Type unions must be reducible to a single ARM type (such as 'string', 'int', or 'bool').")
			return anyType
		}
		base = m.category
	}
	for i, m := range u.members {
		if m.category != tNull && m.category != tObject && m.category != tArray && m.value == nil && i < len(x.members) {
			k.add(x.members[i].at(), "BCP293", "All members of a union type declaration must be literal values.")
			return anyType
		}
	}
	return u
}

// mixedUnion returns a union whose members may be of several kinds.
func (k *checker) mixedUnion(x *unionType) *typ {
	members := make([]*typ, len(x.members))
	for i, m := range x.members {
		members[i] = k.resolveType(m)
	}
	u := union(members...)
	if isMixed(u) {
		return u
	}
	return k.unionOf(x)
}

// isMixed reports whether a union has members of several kinds.
func isMixed(u *typ) bool {
	base := tAny
	for _, m := range u.members {
		if m.category == tNull {
			continue
		}
		if base != tAny && base != m.category {
			return true
		}
		base = m.category
	}
	return false
}

// memberType returns the type of a part of a type.
func (k *checker) memberType(x *memberType) *typ {
	if name, ok := k.systemType(x); ok {
		return (&checker{file: &file{report: k.report}, symbol: k.symbol}).namedType(&nameType{ident{x.name.span, name}})
	}
	base := k.resolveType(x.base)
	switch x.form {
	case ".":
		if base.category == tNamespace && base.symbol.namespace != nil {
			if s := base.symbol.namespace.exported(x.name.name); s != nil && s.kind == symType {
				k.use(s)
				return s.file.typeOfSymbol(s)
			}
			k.add(x.name.span, "BCP052", "The type %q does not contain property %q.", base.symbol.name, x.name.name)
			return anyType
		}
		if base.category == tObject {
			if t := base.field(x.name.name); t != nil {
				return t
			}
			k.add(x.name.span, "BCP053", "The type %q does not contain property %q.", base, x.name.name)
		} else if base.category != tAny {
			k.add(x.name.span, "BCP055", "Cannot access properties of type %q. An \"object\" type is required.", base)
		}
	case "[*]":
		if base.category == tArray && base.item != nil {
			return base.item
		}
		if base.category != tAny {
			k.add(x.span, "BCP390", "The array item type access operator ('[*]') can only be used with typed arrays.")
		}
	case "[]":
		if base.isTuple {
			if x.index < len(base.tuple) {
				return base.tuple[x.index]
			}
			k.add(x.span, "BCP311", "The provided index value of \"%d\" is not valid for type %q.", x.index, base)
		} else if base.category != tAny {
			k.add(x.span, "BCP389", "The type %q does not declare an item at an index.", base)
		}
	case ".*":
		if base.category == tObject && base.extra != nil {
			return base.extra
		}
		if base.category != tAny {
			k.add(x.span, "BCP391", "Type member access is only supported on a reference to a named type.")
		}
	}
	return anyType
}

// decoratorTargets says what each decorator can be attached to.
var decoratorTargets = map[string][]string{
	"allowed":       {"param"},
	"batchSize":     {"resource", "module"},
	"description":   {"param", "var", "resource", "module", "output", "type", "func", "member"},
	"discriminator": {"param", "output", "type", "member"},
	"export":        {"var", "type", "func"},
	"maxLength":     {"param", "output", "type", "member"},
	"maxValue":      {"param", "output", "type", "member"},
	"metadata":      {"param", "output", "type", "func", "member"},
	"minLength":     {"param", "output", "type", "member"},
	"minValue":      {"param", "output", "type", "member"},
	"sealed":        {"param", "output", "type", "member"},
	"secure":        {"param", "output", "type", "member"},
}

// refusedDecorators are known to the compiler and not to this reader.
var refusedDecorators = []string{"onlyIfNotExists", "retryOn", "waitUntil", "validate", "nullIfNotFound", "allowReadOnly"}

var decoratorCodes = map[string]string{"param": "BCP125", "var": "BCP126", "resource": "BCP127", "module": "BCP128", "output": "BCP129", "import": "BCP130", "metadata": "BCP269", "targetScope": "BCP130", "using": "BCP130"}

// decorators checks the decorators of a declaration, or of a member whose type
// is given.
func (k *checker) decorators(list []*decorator, keyword string, target *typ) {
	for _, d := range list {
		if d.call == nil {
			continue
		}
		name := d.call.name
		targets, known := decoratorTargets[name.name]
		switch {
		case !known && slices.Contains(refusedDecorators, name.name):
			k.add(name.span, CodeUnsupported, "The decorator %q is not read here.", name.name)
			continue
		case !known:
			k.add(name.span, "BCP057", "The name %q does not exist in the current context.", name.name)
			continue
		case !slices.Contains(targets, keyword):
			code := decoratorCodes[keyword]
			if code == "" {
				code = "BCP130"
			}
			k.add(name.span, code, "Function %q cannot be used as a decorator of a %q declaration.", name.name, keyword)
			continue
		}
		if target == nil && k.symbol.decl != nil && k.symbol.decl.typ != nil {
			target = (&checker{file: k.file, symbol: &symbol{}}).resolveType(k.symbol.decl.typ)
		}
		k.decorator(d, target)
	}
	k.limits(list)
}

// decorator checks the arguments and the target of one decorator.
func (k *checker) decorator(d *decorator, target *typ) {
	name := d.call.name.name
	var want, attached *typ
	switch name {
	case "description", "discriminator":
		want = stringType
	case "allowed":
		want = arrayAny
	case "metadata":
		want = objectAny
	case "minLength", "maxLength":
		want, attached = intType, union(arrayAny, stringType)
	case "minValue", "maxValue":
		want, attached = intType, intType
	case "batchSize":
		want = intType
	case "secure":
		attached = union(objectAny, stringType)
	case "sealed":
		attached = objectAny
	}
	if want == nil {
		k.count(d.call, 0, 0)
	} else if k.count(d.call, 1, 1) {
		a := d.call.args[0]
		t := k.typeOf(a, nil)
		switch {
		case !fits(t, want, 0):
			k.add(a.at(), "BCP070", "Argument of type %s is not assignable to parameter of type %s.", shown(t), shown(want))
		case !constant(a):
			k.add(firstVariable(a).at(), "BCP032", "The value must be a compile-time constant.")
		case name == "allowed" && len(a.(*arrayExpr).items) == 0:
			k.add(a.at(), "BCP099", "The \"allowed\" array must contain one or more items.")
		case name == "allowed":
			k.allowed(a.(*arrayExpr), target)
		case name == "batchSize":
			if n, ok := t.value.(int64); ok && n < 1 {
				k.add(a.at(), "BCP154", "Expected a batch size of at least 1 but the specified value was \"%d\".", n)
			}
		}
	}
	if name == "batchSize" && k.symbol.loop == nil {
		k.add(d.span, "BCP153", "Expected a resource or module declaration that is a loop.")
	}
	if attached != nil && target != nil && !fits(withoutNull(target), attached, 0) {
		k.add(d.span, "BCP124", "The decorator %q can only be attached to targets of type %s, but the target has type %s.", name, shown(attached), shown(target))
	}
}

// allowed compares the allowed values with the type of the parameter.
func (k *checker) allowed(list *arrayExpr, target *typ) {
	if target == nil || target.category == tArray {
		return
	}
	for _, item := range list.items {
		if t := k.types[item.value]; t != nil && !fits(t, target, 0) {
			k.add(item.value.at(), "BCP034", "The enclosing array expected an item of type %s, but the provided item was of type %s.", shown(target), shown(t))
		}
	}
}

// constant reports whether an expression is the same in every deployment.
func constant(x expr) bool {
	switch x := x.(type) {
	case *literal, *skipped:
		return true
	case *stringExpr:
		return len(x.holes) == 0
	case *unaryExpr:
		return constant(x.operand)
	case *parenExpr:
		return constant(x.inner)
	case *arrayExpr:
		return !slices.ContainsFunc(x.items, func(i arrayItem) bool { return i.spread || !constant(i.value) })
	case *objectExpr:
		return !slices.ContainsFunc(x.items, func(i objectItem) bool { return i.spread || !constant(i.value) })
	}
	return false
}

// firstVariable returns the part of an expression that is not constant.
func firstVariable(x expr) expr {
	for {
		var inner expr
		switch x.(type) {
		case *arrayExpr, *objectExpr, *parenExpr:
			children(x, func(c expr) {
				if inner == nil && !constant(c) {
					inner = c
				}
			})
		}
		if inner == nil {
			return x
		}
		x = inner
	}
}

// limits compares the lower and the upper bound of a type.
func (k *checker) limits(list []*decorator) {
	for _, what := range []string{"Length", "Value"} {
		low, high := findDecorator(list, "min"+what), findDecorator(list, "max"+what)
		if low == nil || high == nil || len(low.args) != 1 || len(high.args) != 1 {
			continue
		}
		a, okA := integer(low.args[0])
		b, okB := integer(high.args[0])
		if okA && okB && a > b {
			at := low.span
			for _, d := range list {
				if d.call == low {
					at = d.span
				}
			}
			k.add(at, "BCP331", "A type's \"min%s\" must be less than or equal to its \"max%s\", but a minimum of %d and a maximum of %d were specified.", what, what, a, b)
		}
	}
}

// integer returns the value of a literal number.
func integer(x expr) (int64, bool) {
	switch x := x.(type) {
	case *literal:
		n, ok := x.value.(int64)
		return n, ok
	case *unaryExpr:
		n, ok := integer(x.operand)
		return -n, ok && x.op == "-"
	case *parenExpr:
		return integer(x.inner)
	}
	return 0, false
}
