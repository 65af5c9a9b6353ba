package bicep

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

// schema writes a type as the template language declares it.
func (e *emitter) schema(x typeExpr) *object {
	if !e.spend(1) {
		return &object{}
	}
	switch x := x.(type) {
	case *nameType:
		if s := e.f.symbols[x.name]; s != nil && s.kind == symType {
			return e.referenceTo(s.target())
		}
		if x.name == "any" {
			return &object{}
		}
		return newObject("type", x.name)
	case *literalType:
		t := (&checker{file: e.f, symbol: &symbol{}}).resolveType(x)
		if t.category == tNull {
			return newObject("type", "object", "nullable", true)
		}
		return newObject("type", schemaKind(t), "allowedValues", []any{t.value})
	case *arrayType:
		t := newObject("type", "array")
		if u, ok := x.item.(*unionType); ok && isMixed((&checker{file: e.f, symbol: &symbol{}}).mixedUnion(u)) {
			return t // the template language has no items of several kinds
		}
		if item := e.schema(x.item); len(item.members) > 0 {
			t.set("items", item)
		}
		return t
	case *tupleType:
		items := []any{}
		for _, m := range x.items {
			items = append(items, e.member0(m))
		}
		return newObject("type", "array", "prefixItems", items, "items", false)
	case *objectType:
		t := newObject("type", "object")
		properties := &object{}
		for _, m := range x.members {
			properties.set(m.name, e.member0(m))
		}
		if len(x.members) > 0 {
			t.set("properties", properties)
		}
		if x.additional != nil {
			t.set("additionalProperties", e.member0(*x.additional))
		}
		return t
	case *unionType:
		return e.unionSchema(x)
	case *nullableType:
		t := e.schema(x.base)
		t.set("nullable", true)
		return t
	case *nonNullType:
		t := e.schema(x.base)
		t.set("nullable", false)
		return t
	case *memberType:
		if name, ok := e.f.systemType(x); ok {
			if name == "any" {
				return &object{}
			}
			return newObject("type", name)
		}
		return e.partSchema(x)
	case *genericType:
		return e.genericSchema(x)
	}
	return &object{}
}

// member0 writes a member of an object type with its decorators.
func (e *emitter) member0(m typeMember) *object {
	t := e.schema(m.value)
	e.decorate(t, m.decorators)
	return t
}

// referenceTo writes the use of a declared type.
func (e *emitter) referenceTo(s *symbol) *object {
	_, name := e.templateName(s)
	return newObject("$ref", "#/definitions/"+name)
}

// schemaKind names the form of a type; what is not known is an object.
func schemaKind(t *typ) string {
	if t == nil {
		return "object"
	}
	switch withoutNull(t).category {
	case tBool:
		return "bool"
	case tInt:
		return "int"
	case tString:
		return "string"
	case tArray:
		return "array"
	}
	if t.category == tUnion && len(t.members) > 0 {
		return schemaKind(t.members[0])
	}
	return "object"
}

// unionSchema writes the literal values of a union.
func (e *emitter) unionSchema(x *unionType) *object {
	k := &checker{file: e.f, symbol: &symbol{}}
	u := k.resolveType(x)
	t := newObject("type", schemaKind(withoutNull(u)))
	var values []any
	literal := true
	if parts := e.objectsOf(x, 0); len(parts) > 0 {
		e.unions[t] = parts
	}
	for _, m := range u.members {
		switch {
		case m.category == tNull:
			t.set("nullable", true)
		case m.value == nil:
			literal = false
		default:
			values = append(values, m.value)
		}
	}
	if u.category != tUnion && u.value != nil {
		values = []any{u.value}
	}
	if literal && len(values) > 0 {
		slices.SortFunc(values, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		t.set("allowedValues", values)
	}
	return t
}

// part is a type as written with the file that it is in.
type part struct {
	f    *file
	x    typeExpr
	with []*decorator
}

// findPart follows base.name, base[*], base[0] and base.* to a type as written.
func findPart(f *file, x typeExpr, depth int) (part, bool) {
	if depth > nestingMax {
		return part{}, false
	}
	switch x := x.(type) {
	case *nameType:
		if s := f.symbols[x.name]; s != nil && s.kind == symType {
			t := s.target()
			return findPart(t.file, t.decl.typ, depth+1)
		}
	case *nullableType:
		return findPart(f, x.base, depth+1)
	case *nonNullType:
		return findPart(f, x.base, depth+1)
	case *memberType:
		if n, ok := x.base.(*nameType); ok && x.form == "." {
			if s := f.symbols[n.name]; s != nil && s.kind == symNamespace && s.namespace != nil {
				if t := s.namespace.exported(x.name.name); t != nil {
					return findPart(t.file, t.decl.typ, depth+1)
				}
				return part{}, false
			}
		}
		p, ok := x.step(f, depth)
		if !ok {
			return p, false
		}
		return findPart(p.f, p.x, depth+1)
	}
	return part{f: f, x: x}, true
}

// step returns the member of a type as written, its name not followed.
func (x *memberType) step(f *file, depth int) (part, bool) {
	base, ok := findPart(f, x.base, depth+1)
	if !ok {
		return part{}, false
	}
	switch b := base.x.(type) {
	case *objectType:
		for _, m := range b.members {
			if x.form == "." && m.name == x.name.name {
				return part{base.f, m.value, m.decorators}, true
			}
		}
		if x.form == ".*" && b.additional != nil {
			return part{base.f, b.additional.value, b.additional.decorators}, true
		}
	case *arrayType:
		if x.form == "[*]" {
			return part{f: base.f, x: b.item}, true
		}
	case *tupleType:
		if x.form == "[]" && x.index < len(b.items) {
			return part{base.f, b.items[x.index].value, b.items[x.index].decorators}, true
		}
	}
	return part{}, false
}

// partSchema writes a part of a type in place.
func (e *emitter) partSchema(x *memberType) *object {
	if n, ok := x.base.(*nameType); ok && x.form == "." {
		if s := e.f.symbols[n.name]; s != nil && s.kind == symNamespace && s.namespace != nil {
			if t := s.namespace.exported(x.name.name); t != nil && t.kind == symType {
				return e.referenceTo(t)
			}
		}
	}
	root := x.base
	for {
		m, ok := root.(*memberType)
		if !ok {
			break
		}
		root = m.base
	}
	if _, ok := root.(*genericType); ok {
		return e.resourceSchema(x)
	}
	p, ok := x.step(e.f, 0)
	if !ok {
		return newObject("type", "object")
	}
	other := &emitter{emission: e.emission, f: p.f, inline: e.inline}
	t := other.schema(p.x)
	other.decorate(t, p.with)
	return t
}

// genericSchema writes the type of a whole resource.
func (e *emitter) genericSchema(*genericType) *object { return newObject("type", "object") }

// resourceSchema writes the type of a part of a resource, whose form this
// reader does not know: a parameter takes it from its default value.
func (e *emitter) resourceSchema(x *memberType) *object {
	if x.form == "." && (x.name.name == "properties" || x.name.name == "tags" || x.name.name == "sku" || x.name.name == "identity") {
		if _, whole := x.base.(*genericType); whole {
			return newObject("type", "object")
		}
	}
	return &object{}
}

// decorate writes the decorators of a declaration into its type.
func (e *emitter) decorate(t *object, list []*decorator) {
	metadata, _ := t.get("metadata").(*object)
	if metadata == nil {
		metadata = &object{}
	}
	// The first of two equal decorators holds.
	for _, d := range slices.Backward(list) {
		if d.call == nil {
			continue
		}
		var argument any
		if len(d.call.args) == 1 {
			argument = e.value(d.call.args[0], nil)
		}
		switch name := d.call.name.name; name {
		case "description":
			metadata.set(name, argument)
		case "metadata":
			if o, ok := argument.(*object); ok {
				for _, m := range o.members {
					metadata.set(m.name, m.value)
				}
			}
		case "allowed":
			t.set("allowedValues", argument)
		case "minLength", "maxLength", "minValue", "maxValue":
			t.set(name, argument)
		case "secure":
			if t.get("type") == "object" {
				t.set("type", "secureObject")
			} else if t.get("type") == "string" {
				t.set("type", "securestring")
			}
		case "sealed":
			t.set("additionalProperties", false)
		case "discriminator":
			if name, ok := argument.(string); ok {
				e.discriminate(t, name)
			}
		}
	}
	if len(metadata.members) > 0 {
		t.set("metadata", metadata)
	}
}

// discriminate marks a union of objects, whose members unionSchema kept.
func (e *emitter) discriminate(t *object, name string) {
	mapping := &object{}
	for _, u := range e.unions[t] {
		if v, ok := u.typ.fieldLiteral(name); ok {
			mapping.set(v, u.schema)
		}
	}
	t.set("discriminator", newObject("propertyName", name, "mapping", mapping))
}

// unionMember is a member of a union of objects: a decorator names what tells
// them apart.
type unionMember struct {
	typ    *typ
	schema *object
}

// objectsOf returns the objects of a union, those of unions inside included.
func (e *emitter) objectsOf(x typeExpr, depth int) []unionMember {
	var list []unionMember
	switch y := x.(type) {
	case *unionType:
		for _, m := range y.members {
			list = append(list, e.objectsOf(m, depth+1)...)
		}
		return list
	case *nullableType:
		return e.objectsOf(y.base, depth+1)
	case *nameType:
		if s := e.f.symbols[y.name]; s != nil && s.kind == symType && depth < nestingMax && e.spend(1) {
			t := s.target()
			if u, ok := t.decl.typ.(*unionType); ok {
				return (&emitter{emission: e.emission, f: t.file}).objectsOf(u, depth+1)
			}
		}
	}
	if r := (&checker{file: e.f, symbol: &symbol{}}).resolveType(x); r.category == tObject {
		list = append(list, unionMember{r, e.schema(x)})
	}
	return list
}

func (t *typ) fieldLiteral(name string) (string, bool) {
	ft := t.field(name)
	if ft == nil {
		return "", false
	}
	s, ok := ft.value.(string)
	return s, ok
}
