package bicep

// ident is a name in the source. An empty name is one that the parser missed.
type ident struct {
	span
	name string
}

// expr is an expression; each of the types below is one form of it.
type expr interface{ at() span }

type (
	skipped struct{ span } // an expression that could not be read; findings exist
	literal struct {
		span
		value any // nil, bool, int64
	}
	stringExpr struct {
		span
		parts []string // one more than holes
		holes []expr
	}
	arrayExpr struct {
		span
		items []arrayItem
	}
	objectExpr struct {
		span
		items     []objectItem
		resources []*declaration // nested resources
	}
	nameExpr struct{ ident }
	// memberExpr is base.name, or base.?name.
	memberExpr struct {
		span
		base expr
		name ident
		safe bool
	}
	// indexExpr is base[index], base[?index] or base[^index].
	indexExpr struct {
		span
		base, index   expr
		safe, fromEnd bool
	}
	// childExpr is base::name, a nested resource.
	childExpr struct {
		span
		base expr
		name ident
	}
	callExpr struct {
		span
		base expr // nil for a function without a namespace or an object
		name ident
		args []expr
		open span // the parentheses
	}
	unaryExpr struct {
		span
		op      string
		operand expr
	}
	binaryExpr struct {
		span
		op          string
		left, right expr
	}
	ternaryExpr struct {
		span
		condition, yes, no expr
	}
	assertExpr struct { // base!
		span
		base expr
	}
	parenExpr struct {
		span
		inner expr
	}
	lambdaExpr struct {
		span
		parameters []ident
		body       expr
	}
	forExpr struct {
		span
		item, index ident // index.name may be empty
		list, body  expr
	}
	ifExpr struct {
		span
		condition, body expr
	}
)

// arrayItem is an item of an array; spread is "...value".
type arrayItem struct {
	value  expr
	spread bool
}

// objectItem is a member of an object; spread is "...value".
type objectItem struct {
	key    expr // *stringExpr, or *nameExpr for a bare name; nil for a spread
	value  expr
	spread bool
}

// literalKey returns the name of a member, when it is no expression.
func (o *objectItem) literalKey() (string, bool) {
	switch k := o.key.(type) {
	case *nameExpr:
		return k.name, true
	case *stringExpr:
		if len(k.holes) == 0 {
			return k.parts[0], true
		}
	}
	return "", false
}

// get returns the value of a member with a literal name, or nil.
func (o *objectExpr) get(name string) expr {
	for i := range o.items {
		if key, ok := o.items[i].literalKey(); ok && key == name {
			return o.items[i].value
		}
	}
	return nil
}

// typeExpr is a type as written.
type typeExpr interface{ at() span }

type (
	skippedType struct{ span }
	nameType    struct{ ident }
	literalType struct {
		span
		value expr // *literal, *stringExpr, or a negative number as *unaryExpr
	}
	arrayType struct {
		span
		item typeExpr
	}
	tupleType struct {
		span
		items []typeMember
	}
	objectType struct {
		span
		members    []typeMember
		additional *typeMember // "*: type"
	}
	unionType struct {
		span
		members []typeExpr
	}
	nullableType struct {
		span
		base typeExpr
	}
	nonNullType struct {
		span
		base typeExpr
	}
	// memberType is base.name, base[*], base[0] or base.*.
	memberType struct {
		span
		base  typeExpr
		name  ident // of .name
		form  string
		index int
	}
	// genericType is resourceInput<'...'> and resourceOutput<'...'>.
	genericType struct {
		span
		name ident
		args []typeExpr
	}
)

// typeMember is a member of an object type or of a tuple.
type typeMember struct {
	span
	decorators []*decorator
	name       string
	value      typeExpr
}

type decorator struct {
	span
	call *callExpr // nil when it could not be read
}

// declaration is one statement of a file, or a nested resource.
type declaration struct {
	span
	keyword    string // param, var, resource, module, output, type, func, metadata, targetScope, import, using
	keywordAt  span
	decorators []*decorator
	name       ident
	typ        typeExpr
	value      expr // default, value or body; nil without one
	path       expr // of resource, module, import, using
	existing   bool

	// of func
	parameters []functionParameter
	result     typeExpr
	// of import
	symbols  []importedSymbol
	wildcard ident
	none     bool // using none

	// filled by the binder
	parent *declaration // of a nested resource
	broken bool         // a syntax error is inside
}

type functionParameter struct {
	name ident
	typ  typeExpr
}

type importedSymbol struct {
	original string
	at       span
	name     ident
}

// children calls f for each direct part of x.
func children(x expr, f func(expr)) {
	switch x := x.(type) {
	case *stringExpr:
		for _, h := range x.holes {
			f(h)
		}
	case *arrayExpr:
		for _, item := range x.items {
			f(item.value)
		}
	case *objectExpr:
		for _, item := range x.items {
			if k, ok := item.key.(*stringExpr); ok {
				f(k)
			}
			f(item.value)
		}
	case *memberExpr:
		f(x.base)
	case *indexExpr:
		f(x.base)
		f(x.index)
	case *childExpr:
		f(x.base)
	case *callExpr:
		if x.base != nil {
			f(x.base)
		}
		for _, a := range x.args {
			f(a)
		}
	case *unaryExpr:
		f(x.operand)
	case *binaryExpr:
		f(x.left)
		f(x.right)
	case *ternaryExpr:
		f(x.condition)
		f(x.yes)
		f(x.no)
	case *assertExpr:
		f(x.base)
	case *parenExpr:
		f(x.inner)
	case *lambdaExpr:
		f(x.body)
	case *forExpr:
		f(x.list)
		f(x.body)
	case *ifExpr:
		f(x.condition)
		f(x.body)
	}
}

// bare takes the parentheses and the "!" off an expression.
func bare(x expr) expr {
	for {
		switch y := x.(type) {
		case *parenExpr:
			x = y.inner
		case *assertExpr:
			x = y.base
		default:
			return x
		}
	}
}
