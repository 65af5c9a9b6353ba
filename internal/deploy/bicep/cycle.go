package bicep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// checkCycles reports declarations that need themselves.
func (f *file) checkCycles() {
	for _, s := range f.order {
		if s.kind == symOutput {
			continue
		}
		chain := f.cycleOf(s)
		switch len(chain) {
		case 0:
		case 1:
			code, message := "BCP079", "This expression is referencing its own declaration, which is not allowed."
			if s.kind == symType {
				code, message = "BCP298", "This type definition includes itself as required component, which creates a constraint that cannot be fulfilled."
			}
			f.add(f.usePlace(s, s), code, "%s", message)
		default:
			names := make([]string, len(chain))
			for i, c := range chain {
				names[i] = c.name
			}
			code, message := "BCP080", "The expression is involved in a cycle (%s)."
			if s.kind == symType {
				code, message = "BCP299", "This type definition includes itself as a required component via a cycle (%s)."
			}
			f.add(f.usePlace(s, chain[0]), code, message, quoted(names))
		}
	}
}

// cycleOf returns the declarations from the one that s uses to s itself, or nil.
func (f *file) cycleOf(s *symbol) []*symbol {
	seen := map[*symbol]bool{}
	var walk func(at *symbol, depth int) []*symbol
	walk = func(at *symbol, depth int) []*symbol {
		if depth > 1000 {
			return nil
		}
		for _, u := range at.used {
			if u == s {
				return []*symbol{s}
			}
			if seen[u] || u.file != f {
				continue
			}
			seen[u] = true
			if rest := walk(u, depth+1); rest != nil {
				return append([]*symbol{u}, rest...)
			}
		}
		return nil
	}
	return walk(s, 0)
}

// usePlace returns where the declaration of s names another one.
func (f *file) usePlace(s, used *symbol) span {
	found := s.at
	first := -1
	for x, t := range f.names {
		if t == used && x.start >= s.decl.start && x.start < s.decl.end && (first < 0 || x.start < first) {
			first, found = x.start, x.span
		}
	}
	for x, t := range f.calls {
		if t == used && x.start >= s.decl.start && x.start < s.decl.end && (first < 0 || x.start < first) {
			first, found = x.start, x.span
		}
	}
	return found
}

// checkSameNames reports resources of one type, and modules of one scope, whose
// names are the same text.
func (f *file) checkSameNames() {
	type key struct{ typ, name, parent, scope string }
	found := map[key][]*symbol{}
	for _, s := range f.order {
		if s.kind != symResource && s.kind != symModule || s.body == nil || s.decl.existing || s.loop != nil || s.condition != nil || s.parent != nil && (s.parent.loop != nil || s.parent.condition != nil) {
			continue
		}
		name, ok := s.body.get("name").(*stringExpr)
		scope := s.body.get("scope")
		if s.kind == symModule && s.module == nil && s.template == nil {
			continue
		}
		if !ok || len(name.holes) > 0 || scope != nil && s.kind == symResource {
			continue
		}
		id := key{typ: strings.ToLower(s.resourceType), name: strings.ToLower(name.parts[0])}
		if scope != nil {
			id.scope = f.source[scope.at().start:scope.at().end]
		}
		if s.parent != nil {
			id.parent = fmt.Sprintf("%p", s.parent)
		}
		found[id] = append(found[id], s)
	}
	for _, list := range found {
		if len(list) < 2 {
			continue
		}
		slices.SortFunc(list, func(a, b *symbol) int { return cmp.Compare(a.at.start, b.at.start) })
		names := make([]string, len(list))
		for i, s := range list {
			names[i] = fmt.Sprintf("%q", s.name)
		}
		for _, s := range list {
			if s.kind == symModule {
				f.add(s.body.get("name").at(), "BCP122", "Modules: %s are defined with this same name and this same scope in a file. Rename them or split into different modules.", strings.Join(names, ", "))
				continue
			}
			f.add(s.body.get("name").at(), "BCP121", "Resources: %s are defined with this same name in a file. Rename them or split into different modules.", strings.Join(names, ", "))
		}
	}
}
