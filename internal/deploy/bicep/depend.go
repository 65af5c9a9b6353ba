package bicep

import (
	"cmp"
	"slices"
)

// need is a resource that another one needs before it.
type need struct {
	symbol *symbol
	index  expr // of one item of a loop; nil for the whole
	env    *env
}

// dependencies writes the resources that s needs.
func (e *emitter) dependencies(r *object, s *symbol, v *env) {
	found := map[*symbol][]need{}
	seen := map[*symbol]bool{}
	e.collectResource(s, v, true, found, seen)
	var list []any
	var symbols []*symbol
	for t := range found {
		if t != s {
			symbols = append(symbols, t)
		}
	}
	slices.SortFunc(symbols, func(a, b *symbol) int { return cmp.Compare(a.path(), b.path()) })
	for _, t := range symbols {
		var terms []any
		for _, n := range found[t] {
			if n.index == nil || t.loop == nil || e.f.findLater(n.index) != nil {
				terms = nil
				break
			}
			term := call("format", termString(t.path()+"[{0}]"), e.term(n.index, n.env))
			if !slices.ContainsFunc(terms, func(o any) bool { return text(o.(termCall)) == text(term) }) {
				terms = append(terms, term)
			}
		}
		if terms == nil {
			terms = []any{t.path()}
		}
		list = append(list, terms...)
	}
	if len(list) > 0 {
		r.set("dependsOn", list)
	}
}

// collectResource finds what the body of a resource needs. Existing resources
// are not deployed: what they need is needed instead of them.
func (e *emitter) collectResource(s *symbol, v *env, top bool, found map[*symbol][]need, seen map[*symbol]bool) {
	if !top {
		v = nil
	}
	if s.parent != nil {
		e.collectSymbol(s.parent, need{s.parent, s.parentIndex, v}, !top, found, seen)
	}
	if s.loop != nil {
		e.collect(s.loop.list, v, !top, found, seen)
	}
	if s.condition != nil {
		e.collect(s.condition, v, !top, found, seen)
	}
	if s.body != nil {
		e.collect(s.body, v, !top, found, seen)
	}
}

// collectSymbol records a resource that is needed.
func (e *emitter) collectSymbol(s *symbol, n need, whole bool, found map[*symbol][]need, seen map[*symbol]bool) {
	if s.decl.existing {
		if !seen[s] {
			seen[s] = true
			e.collectResource(s, nil, false, found, seen)
		}
		return
	}
	if whole || n.index != nil && e.namesInner(n.index, n.env) {
		n.index = nil
	}
	found[s] = append(found[s], n)
}

// namesInner reports whether an index names a loop or a lambda that is inside
// of the resource: then no index can be given outside of it.
func (e *emitter) namesInner(x expr, v *env) bool {
	inner := false
	var walk func(expr)
	walk = func(x expr) {
		if n, ok := x.(*nameExpr); ok {
			if s := e.f.names[n]; s != nil && s.kind == symLocal && v.find(s.at.start) == nil {
				inner = true
			}
		}
		children(x, walk)
	}
	walk(x)
	return inner
}

// collect finds the resources that an expression names, through variables too.
func (e *emitter) collect(x expr, v *env, whole bool, found map[*symbol][]need, seen map[*symbol]bool) {
	if !e.spend(1) {
		return
	}
	switch y := x.(type) {
	case *nameExpr:
		s := e.f.names[y]
		if s == nil {
			return
		}
		s = s.target()
		switch s.kind {
		case symResource, symModule:
			e.collectSymbol(s, need{symbol: s}, whole, found, seen)
		case symVariable:
			if s.file == e.f && !seen[s] && s.decl.value != nil {
				seen[s] = true
				e.collect(s.decl.value, nil, true, found, seen)
			}
		}
		return
	case *childExpr:
		if s := e.f.children[y]; s != nil {
			e.collectSymbol(s, need{symbol: s}, whole, found, seen)
		}
		return
	case *indexExpr:
		if s := e.f.resourceOf(y.base); s == nil && e.f.resourceOf(y) != nil {
			return
		}
		if s := e.f.resourceOf(x); s != nil {
			e.collectSymbol(s, need{s, y.index, v}, whole, found, seen)
			e.collect(y.index, v, whole, found, seen)
			return
		}
	case *callExpr:
		if y.name.name == "nameof" {
			return
		}
	}
	children(x, func(c expr) { e.collect(c, v, whole, found, seen) })
}
