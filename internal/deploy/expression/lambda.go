package expression

import (
	"math"
	"sort"
	"strings"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

func lambdaFunctions() []*function {
	return []*function{
		{name: "map", min: 2, max: 2, lazy: mapItems},
		{name: "filter", min: 2, max: 2, lazy: filterItems},
		{name: "reduce", min: 3, max: 3, lazy: reduceItems},
		{name: "sort", min: 2, max: 2, lazy: sortItems},
		{name: "toObject", min: 2, max: 3, lazy: toObject},
		{name: "groupBy", min: 2, max: 3, lazy: groupBy},
		{name: "mapValues", min: 2, max: 2, lazy: mapValues},
		{name: "lambdaVariables", min: 1, max: 1, eval: lambdaVariable},
	}
}

func lambdaVariable(c *called) (any, error) {
	if c.env.lambda == nil {
		return nil, unknownFunction(c.name)
	}
	name, err := c.text(0)
	if err != nil {
		return nil, err
	}
	for b := c.env.lambda; b != nil; b = b.outer {
		if strings.EqualFold(b.name, name) {
			return b.value, nil
		}
	}
	return nil, errorf("The lambda variable '%s' is not found."+usage, name)
}

// lambda is an argument that is a function.
type lambda struct {
	env    *Env
	params []string
	body   Expr
}

// lambda returns an argument that must be a lambda with a number of parameters.
func (c *called) lambda(i, least, most int) (*lambda, error) {
	call, is := c.call.Args[i].(*Call)
	if !is || !strings.EqualFold(call.Name, "lambda") || call.Namespace != "" || call.Path != nil {
		name := "Token"
		if is {
			value, err := Evaluate(call, c.env)
			if err != nil {
				return nil, err
			}
			name = typeName(value)
		}
		return nil, errorf("The template language function '%s' expects its %s parameter to be of type 'lambda'. The provided value is of type '%s'."+usage, c.name, ordinals[i], name)
	}
	shape := &called{function: &function{name: "lambda", min: least + 1, max: most + 1}}
	if err := shape.arity(len(call.Args)); err != nil {
		return nil, err
	}
	l := &lambda{env: c.env, body: call.Args[len(call.Args)-1]}
	for _, arg := range call.Args[:len(call.Args)-1] {
		value, is := arg.(Literal)
		name, textual := value.Value.(string)
		if !is || !textual {
			return nil, errorf("The template language function 'lambda' expects the names of its variables to be strings." + usage)
		}
		l.params = append(l.params, name)
	}
	return l, nil
}

// apply evaluates the body for as many values as there are parameters.
func (l *lambda) apply(values ...any) (any, error) {
	if err := l.env.spend(1); err != nil {
		return nil, err
	}
	inner := *l.env
	for i, name := range l.params {
		inner.lambda = &binding{name, values[i], inner.lambda}
	}
	return Evaluate(l.body, &inner)
}

// reduced returns the lambda as an expression, with everything else in it reduced.
func (l *lambda) reduced() any {
	args := make([]Expr, len(l.params), len(l.params)+1)
	values := make([]any, len(l.params))
	for i, name := range l.params {
		args[i] = Literal{name}
		values[i] = &Unknown{&Call{Name: "lambdaVariables", Args: []Expr{Literal{name}}}}
	}
	inner := *l.env
	for i, name := range l.params {
		inner.lambda = &binding{name, values[i], inner.lambda}
	}
	return &Unknown{&Call{Name: "lambda", Args: append(args, expr(inner.branch(l.body)))}}
}

// input evaluates the first argument. If it is unknown, the call is to be made later.
func (c *called) input(lambdas ...*lambda) (value, later any, err error) {
	value, err = Evaluate(c.call.Args[0], c.env)
	if err != nil {
		return nil, nil, err
	}
	c.args = []any{value}
	if isUnknown(value) {
		return nil, c.postpone(value, nil, lambdas...), nil
	}
	return value, nil, nil
}

// postpone returns the call with reduced arguments.
func (c *called) postpone(value any, further []any, lambdas ...*lambda) any {
	args := append([]any{value}, further...)
	for _, l := range lambdas {
		args = append(args, l.reduced())
	}
	return c.later(args...)
}

// inputArray evaluates the first argument, which must be an array.
func (c *called) inputArray(lambdas ...*lambda) (a *jsonc.Array, later any, err error) {
	value, later, err := c.input(lambdas...)
	if err != nil || later != nil {
		return nil, later, err
	}
	a, is := value.(*jsonc.Array)
	if !is {
		return nil, nil, c.wrongType(0, "Array")
	}
	return a, nil, nil
}

// over returns the values that the lambda gets for an item: the item, and its index if
// there is a parameter for it.
func over(item any, i int) []any { return []any{item, int64(i)} }

func mapItems(c *called) (any, error) {
	l, err := c.lambda(1, 1, 2)
	if err != nil {
		return nil, err
	}
	in, later, err := c.inputArray(l)
	if err != nil || later != nil {
		return later, err
	}
	out := make([]any, in.Len())
	weight := 0
	for i, item := range in.Items() {
		if out[i], err = l.apply(over(item, i)...); err != nil {
			return nil, err
		}
		if weight += jsonc.Weight(out[i]); weight > WeightMax {
			return nil, c.fits(1, math.MaxInt)
		}
	}
	return jsonc.NewArray(out...), nil
}

// wrongResult returns the error for a lambda that returned a value of another type.
func (c *called) wrongResult(want string, i int, got any) error {
	return errorf("The lambda expression provided to language function '%s' is expected to return a value of type '%s', but evaluation on the input element at position %d returned a value of type '%s'."+usage, c.name, want, i, typeName(got))
}

func filterItems(c *called) (any, error) {
	l, err := c.lambda(1, 1, 2)
	if err != nil {
		return nil, err
	}
	in, later, err := c.inputArray(l)
	if err != nil || later != nil {
		return later, err
	}
	out := []any{}
	for i, item := range in.Items() {
		value, err := l.apply(over(item, i)...)
		if err != nil {
			return nil, err
		}
		if isUnknown(value) {
			return c.postpone(in, nil, l), nil
		}
		keep, is := value.(bool)
		if !is {
			return nil, c.wrongResult("Boolean", i, value)
		}
		if keep {
			out = append(out, item)
		}
	}
	return jsonc.NewArray(out...), nil
}

func reduceItems(c *called) (any, error) {
	l, err := c.lambda(2, 2, 3)
	if err != nil {
		return nil, err
	}
	value, err := Evaluate(c.call.Args[0], c.env)
	if err != nil {
		return nil, err
	}
	current, err := Evaluate(c.call.Args[1], c.env)
	if err != nil {
		return nil, err
	}
	c.args = []any{value, current}
	if isUnknown(value) {
		return c.postpone(value, []any{current}, l), nil
	}
	in, is := value.(*jsonc.Array)
	if !is {
		return nil, c.wrongType(0, "Array")
	}
	for i, item := range in.Items() {
		if current, err = l.apply(append([]any{current}, over(item, i)...)...); err != nil {
			return nil, err
		}
	}
	return current, nil
}

// sortItems sorts; items of which neither comes before the other keep their order.
func sortItems(c *called) (any, error) {
	l, err := c.lambda(1, 2, 2)
	if err != nil {
		return nil, err
	}
	in, later, err := c.inputArray(l)
	if err != nil || later != nil {
		return later, err
	}
	out := append([]any{}, in.Items()...)
	var failed error
	unknown := false
	before := func(a, b any) bool {
		if failed != nil || unknown {
			return false
		}
		value, err := l.apply(a, b)
		if failed = err; err != nil {
			return false
		}
		if unknown = isUnknown(value); unknown {
			return false
		}
		less, is := value.(bool)
		if !is {
			failed = errorf("The lambda expression provided to language function 'sort' is expected to return a value of type 'Boolean', but evaluation returned a value of type '%s'."+usage, typeName(value))
		}
		return less
	}
	sort.SliceStable(out, func(i, j int) bool { return before(out[i], out[j]) && !before(out[j], out[i]) })
	if failed != nil {
		return nil, failed
	}
	if unknown {
		return c.postpone(in, nil, l), nil
	}
	return jsonc.NewArray(out...), nil
}

// keyed reads the lambdas and the input of toObject and groupBy, and calls each with the
// key and the value of every item. later is set if a key is unknown.
func (c *called) keyed(each func(key string, value any) error) (later any, err error) {
	lambdas := make([]*lambda, len(c.call.Args)-1)
	for i := range lambdas {
		if lambdas[i], err = c.lambda(i+1, 1, 1); err != nil {
			return nil, err
		}
	}
	in, later, err := c.inputArray(lambdas...)
	if err != nil || later != nil {
		return later, err
	}
	for i, item := range in.Items() {
		value, err := lambdas[0].apply(item)
		if err != nil {
			return nil, err
		}
		if isUnknown(value) {
			return c.postpone(in, nil, lambdas...), nil
		}
		name, is := value.(string)
		if !is {
			return nil, c.wrongResult("String", i, value)
		}
		value = item
		if len(lambdas) > 1 {
			if value, err = lambdas[1].apply(item); err != nil {
				return nil, err
			}
		}
		if err := each(name, value); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func toObject(c *called) (any, error) {
	out := jsonc.NewObject()
	later, err := c.keyed(func(key string, value any) error {
		if out.Find(key) >= 0 {
			return errorf("The lambda expression parameter at index '1' of function 'toObject' returned a duplicate key '%s'. Object keys must be strings that are case-insensitively unique."+usage, key)
		}
		out.Set(key, value)
		return nil
	})
	if err != nil || later != nil {
		return later, err
	}
	return out, nil
}

func groupBy(c *called) (any, error) {
	var names []string
	groups := map[string][]any{}
	later, err := c.keyed(func(key string, value any) error {
		folded := foldText(key)
		if _, found := groups[folded]; !found {
			names = append(names, key)
		}
		groups[folded] = append(groups[folded], value)
		return nil
	})
	if err != nil || later != nil {
		return later, err
	}
	out := jsonc.NewObject()
	for _, name := range names {
		out.Set(name, jsonc.NewArray(groups[foldText(name)]...))
	}
	return out, nil
}

func mapValues(c *called) (any, error) {
	l, err := c.lambda(1, 1, 1)
	if err != nil {
		return nil, err
	}
	value, later, err := c.input(l)
	if err != nil || later != nil {
		return later, err
	}
	in, is := value.(*jsonc.Object)
	if !is {
		return nil, c.wrongType(0, "Object")
	}
	out := jsonc.NewObject()
	for _, m := range in.Members() {
		value, err := l.apply(m.Value)
		if err != nil {
			return nil, err
		}
		out.Set(m.Name, value)
	}
	return out, nil
}
