package bicep

import (
	"fmt"
	"slices"
	"strings"
)

// startProperties are what is known of a resource before it is deployed.
var startProperties = []string{"apiVersion", "id", "name", "type"}

// later is a part of an expression whose value only the deployment knows.
type later struct {
	at    expr
	chain []string // the variables that lead to the resource, and the resource
}

// findLater returns the first part of x that cannot be computed before the
// deployment, or nil.
func (f *file) findLater(x expr) *later {
	switch x := x.(type) {
	case *memberExpr:
		if s := f.resourceOf(x.base); s != nil {
			if s.kind == symModule && x.name.name != "name" || s.kind == symResource && !slices.Contains(startProperties, x.name.name) {
				return &later{x, []string{s.name}}
			}
			return f.laterIndex(x.base)
		}
	case *indexExpr:
		_, indexed := bare(x.base).(*indexExpr)
		if s := f.resourceOf(x.base); s != nil && (s.loop == nil || indexed) {
			if name, ok := f.constantKey(x.index); ok && (s.kind == symResource && slices.Contains(startProperties, name) || s.kind == symModule && name == "name") {
				return f.laterIndex(x.base)
			}
			return &later{x, []string{s.name}}
		}
		if s := f.resourceOf(x); s != nil {
			return &later{x, []string{s.name}}
		}
	case *callExpr:
		if x.base != nil {
			if s := f.resourceOf(x.base); s != nil {
				return &later{x, []string{s.name}}
			}
		}
		if x.name.name == "reference" || x.name.name == "list" || strings.HasPrefix(x.name.name, "list") && f.symbols[x.name.name] == nil {
			return &later{x, []string{x.name.name}}
		}
		if x.name.name == "nameof" {
			return nil
		}
	case *nameExpr:
		s := f.names[x]
		if s == nil {
			return nil
		}
		s = s.target()
		switch s.kind {
		case symResource, symModule:
			return &later{x, []string{s.name}}
		case symVariable:
			if l := s.file.variableLater(s); l != nil {
				return &later{x, append([]string{s.name}, l.chain...)}
			}
		}
		return nil
	case *childExpr:
		if s := f.children[x]; s != nil {
			return &later{x, []string{s.name}}
		}
	}
	var found *later
	children(x, func(c expr) {
		if found == nil {
			found = f.findLater(c)
		}
	})
	return found
}

// constantKey returns the text that an index is known to be.
func (f *file) constantKey(x expr) (string, bool) {
	if t := f.types[x]; t != nil {
		s, ok := t.value.(string)
		return s, ok
	}
	return "", false
}

// laterIndex looks into the indexes of a resource that is named.
func (f *file) laterIndex(x expr) *later {
	switch x := bare(x).(type) {
	case *indexExpr:
		if l := f.findLater(x.index); l != nil {
			return l
		}
		return f.laterIndex(x.base)
	case *childExpr:
		return f.laterIndex(x.base)
	}
	return nil
}

// resourceOf returns the resource or the module that an expression names, or nil.
func (f *file) resourceOf(x expr) *symbol {
	var s *symbol
	switch x := bare(x).(type) {
	case *nameExpr:
		s = f.names[x]
	case *childExpr:
		s = f.children[x]
	case *indexExpr:
		s = f.resourceOf(x.base)
		if s == nil || s.loop == nil {
			return nil
		}
	}
	if s != nil && (s.kind == symResource || s.kind == symModule) {
		return s
	}
	return nil
}

// variableLater is findLater of the value of a variable, computed once.
func (f *file) variableLater(s *symbol) *later {
	switch s.runtime {
	case no, running:
		return nil
	case unknown:
		s.runtime = running
		if s.decl.value == nil || f.findLater(s.decl.value) == nil {
			s.runtime = no
			return nil
		}
		s.runtime = yes
	}
	return f.findLater(s.decl.value)
}

// checkStart reports values that must be known before the deployment and are not.
func (f *file) checkStart() {
	for _, s := range f.order {
		switch s.kind {
		case symResource, symModule:
			f.startOfResource(s)
		case symVariable:
			if l, ok := s.decl.value.(*forExpr); ok {
				f.requireStart(l.list, "BCP178", "This expression is being used in the for-expression")
				f.requireStart(l.body, "BCP182", fmt.Sprintf("This expression is being used in the for-body of the variable %q", s.name))
			}
		case symOutput:
			if l, ok := s.decl.value.(*forExpr); ok {
				f.requireStart(l.list, "BCP178", "This expression is being used in the for-expression")
			}
		}
		f.checkLoops(s)
	}
}

func (f *file) startOfResource(s *symbol) {
	if s.loop != nil {
		f.requireStart(s.loop.list, "BCP178", "This expression is being used in the for-expression")
	}
	if s.condition != nil {
		f.requireStart(s.condition, "BCP177", "This expression is being used in the if-condition expression")
	}
	if s.body == nil {
		return
	}
	typeName := "module"
	if s.kind == symResource {
		typeName = s.resourceType
	}
	if x := s.body.get("name"); x != nil {
		f.requireStart(x, "BCP120", fmt.Sprintf("This expression is being used in an assignment to the \"name\" property of the %q type", typeName))
	}
	if x := s.body.get("scope"); x != nil && f.resourceOf(x) == nil {
		f.requireStart(x, "BCP120", fmt.Sprintf("This expression is being used in an assignment to the \"scope\" property of the %q type", typeName))
	}
	if x := s.body.get("parent"); x != nil {
		if l := f.laterIndex(x); l != nil {
			f.requireStart(l.at, "BCP120", fmt.Sprintf("This expression is being used in an assignment to the \"parent\" property of the %q type", typeName))
		}
	}
}

func (f *file) requireStart(x expr, code, use string) {
	l := f.findLater(x)
	if l == nil {
		return
	}
	message := use + ", which requires a value that can be calculated at the start of the deployment."
	if len(l.chain) > 1 {
		message += fmt.Sprintf(" You are referencing a variable which cannot be calculated at the start (%s).", quoted(l.chain))
	}
	last := l.chain[len(l.chain)-1]
	if f.symbols[last] != nil && f.symbols[last].kind == symModule {
		message += fmt.Sprintf(" Properties of %s which can be calculated at the start include \"name\".", last)
	} else if f.symbols[last] != nil {
		message += fmt.Sprintf(" Properties of %s which can be calculated at the start include \"apiVersion\", \"id\", \"name\", \"type\".", last)
	}
	f.add(l.at.at(), code, "%s", message)
}

// checkLoops reports loops at places where the template language has none.
func (f *file) checkLoops(s *symbol) {
	const wrong = "For-expressions are not supported in this context. For-expressions may be used as values of resource, module, variable, and output declarations, or values of resource and module properties."
	var walk func(x expr, property, inside bool)
	walk = func(x expr, property, inside bool) {
		switch x := x.(type) {
		case nil:
			return
		case *forExpr:
			if !property {
				f.add(x.span, "BCP138", wrong)
			}
			if inside {
				f.requireStart(x.list, "BCP178", "This expression is being used in the for-expression")
			}
			walk(x.list, false, inside)
			walk(x.body, false, inside)
			return
		case *objectExpr:
			// With a spread the object becomes a function, which has no loops inside.
			inside = inside && !slices.ContainsFunc(x.items, func(i objectItem) bool { return i.spread })
			for i := range x.items {
				_, literal := x.items[i].literalKey()
				walk(x.items[i].value, inside && literal, inside)
			}
			return
		case *arrayExpr:
			inside = inside && !slices.ContainsFunc(x.items, func(i arrayItem) bool { return i.spread })
			for _, item := range x.items {
				walk(item.value, false, inside)
			}
			return
		case *parenExpr:
			walk(x.inner, false, false)
			return
		}
		children(x, func(c expr) { walk(c, false, false) })
	}
	switch s.kind {
	case symResource, symModule:
		if s.loop != nil {
			walk(s.loop.list, false, false)
		}
		walk(s.condition, false, false)
		if s.body != nil {
			walk(s.body, true, true)
		}
	case symVariable, symOutput:
		if l, ok := s.decl.value.(*forExpr); ok {
			walk(l.list, false, false)
			walk(l.body, false, false)
			return
		}
		walk(s.decl.value, false, false)
	default:
		if s.decl.keyword == "param" && f.params {
			if l, ok := s.decl.value.(*forExpr); ok {
				walk(l.list, false, false)
				walk(l.body, false, false)
				return
			}
		}
		walk(s.decl.value, false, false)
	}
}
