package sql

// Name returns the alias of an input. Without AS it is the last name of the
// collection; "" if there is none.
func (in *Input) Name() string {
	if in.Alias == "" && in.Collection != nil {
		return sourceName(in.Collection)
	}
	return in.Alias
}

// sourceName returns the last name of a collection.
func sourceName(x Expr) string {
	switch x := x.(type) {
	case *Ident:
		return x.Name
	case *MemberExpr:
		return x.Name
	}
	return ""
}

// Columns iterates over the expressions of the select list.
func (q *Select) Columns() func(yield func(Expr) bool) {
	return func(yield func(Expr) bool) {
		if q.Value != nil && !yield(q.Value) {
			return
		}
		for _, item := range q.Items {
			if !yield(item.Expr) {
				return
			}
		}
	}
}

// Idents iterates over the identifiers in x, including those in subqueries, whose own
// aliases are among them.
func Idents(x Expr) func(yield func(*Ident) bool) {
	return func(yield func(*Ident) bool) { walkNames(x, yield) }
}

func walkNames(x Expr, yield func(*Ident) bool) bool {
	switch x := x.(type) {
	case *Ident:
		return yield(x)
	case *Subquery:
		for part := range x.Query.Exprs() {
			if !walkNames(part, yield) {
				return false
			}
		}
	}
	for part := range Children(x) {
		if !walkNames(part, yield) {
			return false
		}
	}
	return true
}

// Exprs iterates over the expressions of a query and of the queries in its FROM
// clause, except TOP, OFFSET and LIMIT.
func (q *Select) Exprs() func(yield func(Expr) bool) {
	return func(yield func(Expr) bool) { q.walk(yield) }
}

func (q *Select) walk(yield func(Expr) bool) bool {
	if q.From != nil {
		for i := range q.From.Inputs {
			in := &q.From.Inputs[i]
			if in.Subquery != nil && !in.Subquery.walk(yield) || in.Collection != nil && !yield(in.Collection) {
				return false
			}
		}
	}
	for x := range q.Columns() {
		if !yield(x) {
			return false
		}
	}
	if q.Where != nil && !yield(q.Where) {
		return false
	}
	for _, x := range q.GroupBy {
		if !yield(x) {
			return false
		}
	}
	for _, s := range q.OrderBy {
		if !yield(s.Expr) {
			return false
		}
	}
	return true
}

// Children iterates over the direct operands of x. A [Subquery] has none.
func Children(x Expr) func(yield func(Expr) bool) {
	return func(yield func(Expr) bool) {
		all := func(list ...Expr) {
			for _, part := range list {
				if !yield(part) {
					return
				}
			}
		}
		switch x := x.(type) {
		case *MemberExpr:
			all(x.X)
		case *IndexExpr:
			all(x.X, x.Index)
		case *UnaryExpr:
			all(x.X)
		case *BinaryExpr:
			all(x.X, x.Y)
		case *LogicalExpr:
			all(x.Terms...)
		case *CoalesceExpr:
			all(x.X, x.Y)
		case *ConditionalExpr:
			all(x.Cond, x.Then, x.Else)
		case *BetweenExpr:
			all(x.X, x.Low, x.High)
		case *InExpr:
			if yield(x.X) {
				all(x.List...)
			}
		case *LikeExpr:
			all(x.X, x.Pattern)
		case *LetExpr:
			all(x.Value, x.In)
		case *CallExpr:
			all(x.Args...)
		case *ArrayLiteral:
			all(x.Items...)
		case *ObjectLiteral:
			for _, m := range x.Members {
				if !yield(m.Expr) {
					return
				}
			}
		}
	}
}
