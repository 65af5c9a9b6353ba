package expression

import (
	"strings"
	"time"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

// Place says what an expression may use, which depends on where in a template it stands.
type Place uint8

// What a place may allow.
const (
	// AllowReference allows reference, references and the list functions.
	AllowReference Place = 1 << iota
	// AllowNew allows utcNow and newGuid: in the default of a parameter.
	AllowNew
)

// Loop is a copy loop in which an expression stands.
type Loop struct {
	Name  string // Empty for the loop of an output, which has no name.
	Index int64
	// Named is true for a loop over a property or variable, which copyIndex must name.
	Named bool
}

// Scope is where a deployment puts its resources.
type Scope struct {
	SubscriptionID, TenantID string
	ResourceGroup            string // Empty at the scope of a subscription.
	Location                 string
	Deployment               string        // The name of the deployment.
	Template                 *jsonc.Object // What deployment().properties.template has.
}

// Resource is a resource that an expression may name.
type Resource struct {
	ID, Type, Name, APIVersion string
	// Outputs are the outputs of a deployment inside the template; nil for others.
	Outputs *jsonc.Object
}

// Resources are the resources of a template.
type Resources interface {
	// Find returns a resource by its name, symbolic name or id; nil if there is none.
	Find(name string) (*Resource, error)
	// Loop returns the resources of a symbolic name with a copy loop.
	Loop(symbol string) ([]*Resource, error)
	// Use notes that the expression needs a resource, which must be made before.
	Use(r *Resource)
}

// Runtime answers for what is known only while a template is deployed.
type Runtime interface {
	// Reference returns the properties of a resource, or all of it.
	Reference(id, apiVersion string, full bool) (any, error)
	// List carries out an operation whose name begins with list.
	List(operation, id, apiVersion string, args []any) (any, error)
}

// Function is a function that a template defines.
type Function struct {
	Name string // With its namespace.
	// Check checks an argument (from 0), and completes it.
	Check func(i int, value any) (any, error)
	// Params are the names of the parameters.
	Params []string
	// Body is a value of the template, in which only the parameters are known.
	Body func(env *Env) (any, error)
}

// Env is what an expression may see. A function that is nil answers that there is
// nothing.
type Env struct {
	Scope     Scope
	Parameter func(name string) (value any, found bool, err error)
	Variable  func(name string) (value any, found bool, err error)
	Function  func(name string) *Function
	Resources Resources
	Loops     []Loop // The innermost last.
	Place     Place
	Symbolic  bool // The template has language version 2.0.

	// Now and NewGUID are for defaults of parameters; while they are nil, utcNow and
	// newGuid give an [*Unknown].
	Now     func() time.Time
	NewGUID func() string
	// Runtime is nil while a template is expanded.
	Runtime Runtime
	// Budget is shared by all expressions of a deployment. Nil means no limit.
	Budget *Budget

	lambda *binding
	calls  int // How many user functions are being evaluated.
}

// Budget is how much work may still be done, in calls and in the weight of results.
type Budget struct{ Left int }

// BudgetMax is a budget for a whole deployment: about a second of work.
const BudgetMax = 20_000_000

// spend takes work out of the budget.
func (env *Env) spend(work int) error {
	if env.Budget == nil {
		return nil
	}
	if work > env.Budget.Left {
		env.Budget.Left = 0
		return errorf("The template is not valid: its expressions need too much work.")
	}
	env.Budget.Left -= work
	return nil
}

// binding is a variable of a lambda.
type binding struct {
	name  string
	value any
	outer *binding
}

// Evaluate evaluates an expression. The value may contain an [*Unknown] if env has no
// Runtime.
func Evaluate(e Expr, env *Env) (any, error) {
	switch e := e.(type) {
	case Literal:
		if u, is := e.Value.(*Unknown); is {
			return Evaluate(u.Expr, env)
		}
		if jsonc.IsOpen(e.Value) && env.Runtime != nil {
			return Resolve(e.Value, env)
		}
		return e.Value, nil
	case *Failure:
		return nil, e.Err
	case *Call:
		value, err := env.call(e)
		if err != nil {
			return nil, err
		}
		return env.follow(value, e.Path)
	}
	return nil, nil
}

// Resolve evaluates what is unknown in a value, with an env that has a Runtime.
func Resolve(v any, env *Env) (any, error) {
	if !jsonc.IsOpen(v) {
		return v, nil
	}
	switch v := v.(type) {
	case *jsonc.Array:
		items := make([]any, v.Len())
		for i, item := range v.Items() {
			resolved, err := Resolve(item, env)
			if err != nil {
				return nil, err
			}
			items[i] = resolved
		}
		return jsonc.NewArray(items...), nil
	case *jsonc.Object:
		o := jsonc.NewObject()
		for _, m := range v.Members() {
			resolved, err := Resolve(m.Value, env)
			if err != nil {
				return nil, err
			}
			o.Set(m.Name, resolved)
		}
		return o, nil
	case *Unknown:
		return Evaluate(v.Expr, env)
	}
	return v, nil
}

// follow applies members and indexes.
func (env *Env) follow(value any, path []Access) (any, error) {
	for _, access := range path {
		var key any = access.Name
		if access.Index != nil {
			index, err := Evaluate(access.Index, env)
			if err != nil {
				return nil, err
			}
			key = index
		}
		if isUnknown(value) || isUnknown(key) {
			value = accessed(value, access, key)
			continue
		}
		next, err := member(value, key)
		if err != nil {
			return nil, err
		}
		value = next
	}
	return value, nil
}

// IsUnknown reports whether a value is an [*Unknown].
func IsUnknown(v any) bool { return isUnknown(v) }

func isUnknown(v any) bool {
	_, is := v.(*Unknown)
	return is
}

// accessed returns an access to an unknown value, or by an unknown key.
func accessed(value any, access Access, key any) any {
	call, is := expr(value).(*Call)
	if !is { // A known value: tryGet has the same meaning for what exists.
		return &Unknown{&Call{Name: "tryGet", Args: []Expr{expr(value), expr(key)}}}
	}
	longer := *call
	if access.Index != nil {
		access = Access{Index: expr(key)}
	}
	longer.Path = append(longer.Path[:len(longer.Path):len(longer.Path)], access)
	return &Unknown{&longer}
}

// member returns a member of an object or an item of an array.
func member(value, key any) (any, error) {
	switch value := value.(type) {
	case *jsonc.Array:
		i, is := key.(int64)
		if !is {
			return nil, errorf("Unable to evaluate named property or non-integer index '%s' on an array value.", plainText(key))
		}
		if i < 0 || i >= int64(value.Len()) {
			return nil, errorf("The language expression property array index '%d' is out of bounds.", i)
		}
		return value.At(int(i)), nil
	case *jsonc.Object:
		name, is := key.(string)
		if !is {
			return nil, errorf("The language expression property '%s' can't be evaluated, property name must be a string.", plainText(key))
		}
		found, ok := value.Get(name)
		if !ok {
			names := make([]string, value.Len())
			for i, m := range value.Members() {
				names[i] = m.Name
			}
			return nil, errorf("The language expression property '%s' doesn't exist, available properties are '%s'.", name, strings.Join(names, ", "))
		}
		return found, nil
	}
	return nil, errorf("The language expression property '%s' can't be evaluated.", plainText(key))
}

// function is an entry of the table of functions.
type function struct {
	name     string
	min, max int // The number of arguments; max is -1 if any number is allowed.
	// eval gets evaluated arguments.
	eval func(c *called) (any, error)
	// lazy gets unevaluated ones. One of the two is set.
	lazy func(c *called) (any, error)
	// structural means that eval does not look at what items and members are, so that
	// they may be unknown.
	structural bool
}

// called is a call of a function.
type called struct {
	*function
	env  *Env
	call *Call
	args []any // Evaluated; empty for lazy functions.
}

// call evaluates a call without its path.
func (env *Env) call(call *Call) (any, error) {
	if err := env.spend(1); err != nil {
		return nil, err
	}
	if call.Namespace != "" {
		return env.callUser(call)
	}
	f := table()[strings.ToLower(call.Name)]
	if f == nil {
		lower := strings.ToLower(call.Name)
		if !strings.HasPrefix(lower, "list") {
			return nil, unknownFunction(call.Name)
		}
		f = &function{name: call.Name, min: 1, max: 3, eval: list}
	}
	c := &called{function: f, env: env, call: call}
	if err := c.arity(len(call.Args)); err != nil {
		return nil, err
	}
	if f.lazy != nil {
		value, err := f.lazy(c)
		if err != nil {
			return nil, err
		}
		return value, env.weigh(value, false)
	}
	c.args = make([]any, len(call.Args))
	open := false
	for i, arg := range call.Args {
		value, err := Evaluate(arg, env)
		if err != nil {
			return nil, err
		}
		c.args[i] = value
		open = open || isUnknown(value) || !f.structural && jsonc.IsOpen(value)
	}
	if open {
		return c.later(c.args...), nil
	}
	value, err := f.eval(c)
	if err != nil {
		return nil, err
	}
	return value, env.weigh(value, true)
}

// weigh refuses values that are too large, and charges for those that were made.
func (env *Env) weigh(value any, made bool) error {
	weight := jsonc.Weight(value)
	if weight > WeightMax {
		return errorf("The template is not valid: the value of an expression is too large.")
	}
	if !made {
		weight = 0
	}
	return env.spend(weight)
}

func unknownFunction(name string) error {
	return errorf("The template function '%s' is not valid."+usage, name)
}

// later returns the call with reduced arguments, to be evaluated in a deployment.
func (c *called) later(args ...any) any {
	reduced := &Call{Namespace: c.call.Namespace, Name: c.name, Args: make([]Expr, len(args))}
	for i, arg := range args {
		reduced.Args[i] = expr(arg)
	}
	return &Unknown{reduced}
}

// arity checks the number of arguments.
func (c *called) arity(n int) error {
	switch {
	case n >= c.min && (c.max < 0 || n <= c.max):
		return nil
	case c.max < 0 && c.min == 1:
		return errorf("Unable to evaluate template language function '%s'. At least one parameter should be provided."+usage, c.name)
	case c.max < 0:
		return errorf("Unable to evaluate template language function '%s'. At least two parameter should be provided."+usage, c.name)
	case c.min == c.max:
		return errorf("Unable to evaluate template language function '%s': function requires %d argument(s) while %d were provided. Please see https://aka.ms/arm-resource-functions/#%[1]s for usage details.", c.name, c.min, n)
	}
	return errorf("Unable to evaluate template language function '%s': function requires between %d and %d argument(s) while %d were provided. Please see https://aka.ms/arm-resource-functions/#%[1]s for usage details.", c.name, c.min, c.max, n)
}

// callUser evaluates a function that the template defines.
func (env *Env) callUser(call *Call) (any, error) {
	name := call.Namespace + "." + call.Name
	var f *Function
	if env.Function != nil {
		f = env.Function(name)
	}
	if f == nil {
		return nil, unknownFunction(name)
	}
	if env.calls > DepthMax {
		return nil, errorf("The template is not valid: the user-defined function '%s' calls itself.", name)
	}
	c := &called{function: &function{name: call.Name, min: len(f.Params), max: len(f.Params)}, env: env, call: call}
	if err := c.arity(len(call.Args)); err != nil {
		return nil, err
	}
	args := jsonc.NewObject()
	values := make([]any, len(call.Args))
	open := false
	for i, arg := range call.Args {
		value, err := Evaluate(arg, env)
		if err != nil {
			return nil, err
		}
		if value, err = f.Check(i, value); err != nil {
			return nil, err
		}
		values[i] = value
		args.Set(f.Params[i], value)
		open = open || jsonc.IsOpen(value)
	}
	inner := &Env{Scope: env.Scope, Function: env.Function, Symbolic: env.Symbolic, Runtime: env.Runtime, Budget: env.Budget, calls: env.calls + 1}
	inner.Parameter = func(name string) (any, bool, error) {
		value, found := args.Get(name)
		return value, found, nil
	}
	value, err := f.Body(inner)
	if err != nil {
		return nil, err
	}
	return value, env.weigh(value, false)
}

// typeName returns the vendor's name of the type of a value.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "Null"
	case bool:
		return "Boolean"
	case int64, jsonc.Big:
		return "Integer"
	case float64:
		return "Float"
	case string:
		return "String"
	case *jsonc.Array:
		return "Array"
	case *jsonc.Object:
		return "Object"
	}
	return "Token"
}

// TypeName returns the vendor's name of the type of a value, such as Integer.
func TypeName(v any) string { return typeName(v) }

// plainText returns a scalar as the engine prints it in messages and texts.
func plainText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return v
	case float64:
		return jsonc.FormatFloat(v)
	}
	return jsonc.Text(v)
}

var ordinals = []string{"first", "second", "third", "fourth", "fifth"}

// wrongType returns the error for an argument of an unexpected type.
func (c *called) wrongType(i int, want ...string) error {
	which, phrase := "parameter", "of type"
	if c.max != 1 || len(want) > 1 {
		which = "parameter"
		if i < len(ordinals) {
			which = ordinals[i] + " parameter"
		}
	}
	if len(want) > 1 {
		phrase = "one of the following types"
	}
	return errorf("The template language function '%s' expects its %s to be %s '%s'. The provided value is of type '%s'."+usage,
		c.name, which, phrase, strings.Join(want, ", "), typeName(c.args[i]))
}

// text returns an argument that must be a string.
func (c *called) text(i int) (string, error) {
	s, is := c.args[i].(string)
	if !is {
		return "", c.wrongType(i, "String")
	}
	return s, nil
}

// texts returns all arguments, which must be strings.
func (c *called) texts() ([]string, error) {
	out := make([]string, len(c.args))
	for i := range c.args {
		s, err := c.text(i)
		if err != nil {
			return nil, err
		}
		out[i] = s
	}
	return out, nil
}

// integer returns an argument that must be an integer.
func (c *called) integer(i int) (int64, error) {
	n, is := c.args[i].(int64)
	if !is {
		return 0, c.wrongType(i, "Integer")
	}
	return n, nil
}

// array returns an argument that must be an array.
func (c *called) array(i int) (*jsonc.Array, error) {
	a, is := c.args[i].(*jsonc.Array)
	if !is {
		return nil, c.wrongType(i, "Array")
	}
	return a, nil
}

// object returns an argument that must be an object.
func (c *called) object(i int) (*jsonc.Object, error) {
	o, is := c.args[i].(*jsonc.Object)
	if !is {
		return nil, c.wrongType(i, "Object")
	}
	return o, nil
}

// Later returns a value that contains unknown ones as one unknown value.
func Later(v any) any {
	if isUnknown(v) {
		return v
	}
	return &Unknown{Literal{v}}
}
