package expression

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

// functions is the table of functions by their names in lower case. It is built at its
// first use: functions evaluate expressions, which look functions up.
var functions struct {
	once   sync.Once
	byName map[string]*function
}

func table() map[string]*function {
	functions.once.Do(func() {
		functions.byName = map[string]*function{}
		for _, group := range [][]*function{logicFunctions(), stringFunctions(), arrayFunctions(), lambdaFunctions(), dateFunctions(), networkFunctions(), resourceFunctions()} {
			for _, f := range group {
				functions.byName[strings.ToLower(f.name)] = f
			}
		}
	})
	return functions.byName
}

func logicFunctions() []*function {
	return []*function{
		{name: "true", eval: func(*called) (any, error) { return true, nil }},
		{name: "false", eval: func(*called) (any, error) { return false, nil }},
		{name: "null", eval: func(*called) (any, error) { return nil, nil }},
		{name: "if", min: 3, max: 3, lazy: ifThen},
		{name: "and", min: 2, max: -1, lazy: func(c *called) (any, error) { return c.connect(false) }},
		{name: "or", min: 2, max: -1, lazy: func(c *called) (any, error) { return c.connect(true) }},
		{name: "not", min: 1, max: 1, eval: func(c *called) (any, error) {
			b, is := c.args[0].(bool)
			if !is {
				return nil, c.wrongType(0, "Boolean")
			}
			return !b, nil
		}},
		{name: "bool", min: 1, max: 1, eval: toBool},
		{name: "coalesce", max: -1, lazy: coalesce},
		{name: "equals", min: 2, max: 2, eval: func(c *called) (any, error) {
			return jsonc.Equal(c.args[0], c.args[1]), c.env.spend(min(jsonc.Weight(c.args[0]), jsonc.Weight(c.args[1])))
		}},
		{name: "less", min: 2, max: 2, eval: func(c *called) (any, error) { return c.order(func(n int) bool { return n < 0 }) }},
		{name: "lessOrEquals", min: 2, max: 2, eval: func(c *called) (any, error) { return c.order(func(n int) bool { return n <= 0 }) }},
		{name: "greater", min: 2, max: 2, eval: func(c *called) (any, error) { return c.order(func(n int) bool { return n > 0 }) }},
		{name: "greaterOrEquals", min: 2, max: 2, eval: func(c *called) (any, error) { return c.order(func(n int) bool { return n >= 0 }) }},

		{name: "add", min: 2, max: 2, eval: func(c *called) (any, error) { return c.arithmetic((*big.Int).Add) }},
		{name: "sub", min: 2, max: 2, eval: func(c *called) (any, error) { return c.arithmetic((*big.Int).Sub) }},
		{name: "mul", min: 2, max: 2, eval: func(c *called) (any, error) { return c.arithmetic((*big.Int).Mul) }},
		{name: "div", min: 2, max: 2, eval: func(c *called) (any, error) { return c.arithmetic((*big.Int).Quo) }},
		{name: "mod", min: 2, max: 2, eval: func(c *called) (any, error) { return c.arithmetic((*big.Int).Rem) }},
		{name: "int", min: 1, max: 1, eval: toInt},
		{name: "float", min: 1, max: 1, eval: toFloat},
		{name: "max", max: -1, eval: func(c *called) (any, error) { return c.extreme(1) }},
		{name: "min", max: -1, eval: func(c *called) (any, error) { return c.extreme(-1) }},
		{name: "copyIndex", max: 2, eval: copyIndex},
		{name: "fail", min: 1, max: 1, eval: func(c *called) (any, error) {
			text, err := c.text(0)
			if err != nil {
				return nil, err
			}
			return nil, Error(text)
		}},
	}
}

// branch evaluates an expression that may not be needed: while the choice is unknown, an
// error must not end the evaluation.
func (env *Env) branch(e Expr) any {
	value, err := Evaluate(e, env)
	if err != nil {
		return &Unknown{&Failure{err}}
	}
	return value
}

// ifThen evaluates only the branch that is taken.
func ifThen(c *called) (any, error) {
	condition, err := Evaluate(c.call.Args[0], c.env)
	if err != nil {
		return nil, err
	}
	if isUnknown(condition) {
		return c.later(condition, c.env.branch(c.call.Args[1]), c.env.branch(c.call.Args[2])), nil
	}
	taken, is := condition.(bool)
	if !is {
		return nil, errorf("The template language function 'if' expects its first parameter to be of type 'boolean'. The provided value is of type '%s'. Please see https://aka.ms/arm-function-if for usage details.", typeName(condition))
	}
	if taken {
		return Evaluate(c.call.Args[1], c.env)
	}
	return Evaluate(c.call.Args[2], c.env)
}

// connect is and, or: it evaluates arguments up to the first that decides.
func (c *called) connect(decides bool) (any, error) {
	for i, arg := range c.call.Args {
		value, err := Evaluate(arg, c.env)
		if err != nil {
			return nil, err
		}
		if isUnknown(value) {
			rest := []any{value}
			for _, other := range c.call.Args[i+1:] {
				rest = append(rest, c.env.branch(other))
			}
			if len(rest) == 1 { // The others did not decide.
				rest = append(rest, !decides)
			}
			return c.later(rest...), nil
		}
		b, is := value.(bool)
		if !is {
			return nil, errorf("The provided arguments for template language function '%s' is not valid: all arguments should be of type 'boolean'. Please see https://aka.ms/arm-functions#%[1]s for usage details.", c.name)
		}
		if b == decides {
			return decides, nil
		}
	}
	return !decides, nil
}

func coalesce(c *called) (any, error) {
	for i, arg := range c.call.Args {
		value, err := Evaluate(arg, c.env)
		if err != nil {
			return nil, err
		}
		if isUnknown(value) {
			rest := []any{value}
			for _, other := range c.call.Args[i+1:] {
				rest = append(rest, c.env.branch(other))
			}
			return c.later(rest...), nil
		}
		if value != nil {
			return value, nil
		}
	}
	return nil, nil
}

// cannotConvert is the error of bool, float and base64 functions.
func (c *called) cannotConvert(to string) error {
	return errorf("The template language function '%s' was invoked with a parameter that is not valid. The value cannot be %s.", c.name, to)
}

func toBool(c *called) (any, error) {
	switch v := c.args[0].(type) {
	case bool:
		return v, nil
	case int64:
		return v != 0, nil
	case float64:
		return v != 0, nil
	case string:
		switch s := strings.TrimSpace(v); {
		case strings.EqualFold(s, "true"):
			return true, nil
		case strings.EqualFold(s, "false"):
			return false, nil
		}
	}
	return nil, c.cannotConvert("converted to the target type")
}

// collators keep the state of a comparison, so that a goroutine needs its own.
var collators = sync.Pool{New: func() any { return collate.New(language.Und) }}

// order compares two numbers or two strings. Strings compare as in the root of the
// Unicode collation.
func (c *called) order(holds func(int) bool) (any, error) {
	a, textual := c.args[0].(string)
	b, also := c.args[1].(string)
	if textual && also {
		collator := collators.Get().(*collate.Collator)
		defer collators.Put(collator)
		return holds(collator.CompareString(a, b)), nil
	}
	if textual || also {
		i := 0
		if textual {
			i = 1
		}
		return nil, c.wrongType(i, "String")
	}
	n, err := c.compare(c.args[0], c.args[1])
	if err != nil {
		return nil, err
	}
	return holds(n), nil
}

// compare compares two numbers.
func (c *called) compare(a, b any) (int, error) {
	x, ok := number(a)
	y, also := number(b)
	if !ok || !also {
		return 0, errorf("The provided arguments for template language function '%s' is not valid: all function arguments should be of numeric types. Please see https://aka.ms/arm-functions#%[1]s for usage details.", c.name)
	}
	return x.Cmp(y), nil
}

// number returns a number for comparisons; not for NaN.
func number(v any) (*big.Float, bool) {
	switch v := v.(type) {
	case int64:
		return new(big.Float).SetInt64(v), true
	case float64:
		if math.IsNaN(v) {
			return nil, false
		}
		return new(big.Float).SetFloat64(v), true
	case jsonc.Big:
		f, _, err := big.ParseFloat(string(v), 10, 200, big.ToNearestEven)
		return f, err == nil
	}
	return nil, false
}

func (c *called) extreme(sign int) (any, error) {
	values := c.args
	if len(values) == 1 {
		if array, is := values[0].(*jsonc.Array); is {
			values = array.Items()
		}
	}
	if len(values) == 0 {
		return nil, (&called{function: &function{name: c.name, min: 1, max: -1}}).arity(0)
	}
	best := values[0]
	for _, v := range values {
		n, err := c.compare(v, best)
		if err != nil {
			return nil, err
		}
		if n == sign {
			best = v
		}
	}
	return best, nil
}

func (c *called) arithmetic(operate func(z, x, y *big.Int) *big.Int) (any, error) {
	x, err := c.integer(0)
	if err != nil {
		return nil, err
	}
	y, err := c.integer(1)
	if err != nil {
		return nil, err
	}
	divides := c.name == "div" || c.name == "mod"
	if divides && y == 0 {
		return nil, errorf("The template language function '%s' tried to divide by zero."+usage, c.name)
	}
	z := operate(new(big.Int), big.NewInt(x), big.NewInt(y))
	if !z.IsInt64() && divides || divides && x == math.MinInt64 && y == -1 {
		return nil, errorf("Arithmetic operation resulted in an overflow.")
	}
	if !z.IsInt64() {
		return nil, errorf("The template language function '%s' overflowed with the operants '%d' and '%d'."+usage, c.name, x, y)
	}
	return z.Int64(), nil
}

func toInt(c *called) (any, error) {
	switch v := c.args[0].(type) {
	case int64, jsonc.Big:
		return v, nil
	case string:
		if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
			return n, nil
		}
		return nil, errorf("The template language function 'int' cannot convert provided value '%s' to integer value. Please see https://aka.ms/arm-function-int for usage details.", v)
	}
	return nil, c.wrongType(0, "Integer", "String")
}

func toFloat(c *called) (any, error) {
	switch v := c.args[0].(type) {
	case int64:
		return float64(v), nil
	case float64:
		return v, nil
	case string:
		text := strings.ReplaceAll(strings.TrimSpace(v), ",", "") // Commas group thousands.
		if f, err := strconv.ParseFloat(text, 64); err == nil && !strings.ContainsAny(text, "xXpP_") {
			return f, nil
		}
	}
	return nil, c.cannotConvert("converted to the target type")
}

// copyIndex returns the index of a loop, plus an offset.
func copyIndex(c *called) (any, error) {
	name, named := "", false
	args := c.args
	if len(args) > 0 {
		if name, named = args[0].(string); named {
			args = args[1:]
		}
	}
	offset := int64(0)
	if len(args) > 0 {
		n, is := args[0].(int64)
		if !is || len(args) > 1 {
			return nil, c.wrongType(len(c.args)-1, "Integer")
		}
		offset = n
	}
	for i := len(c.env.Loops) - 1; i >= 0; i-- {
		loop := c.env.Loops[i]
		if named && strings.EqualFold(loop.Name, name) || !named && !loop.Named {
			return loop.Index + offset, nil
		}
	}
	return nil, errorf("The template function 'copyIndex' is not expected at this location. The function can only be used in a resource with copy specified. Please see https://aka.ms/arm-resource-loops for usage details.")
}
