package expression

import (
	"sort"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

func arrayFunctions() []*function {
	return []*function{
		{name: "array", min: 1, max: 1, structural: true, eval: func(c *called) (any, error) {
			if a, is := c.args[0].(*jsonc.Array); is {
				return a, nil
			}
			return jsonc.NewArray(c.args[0]), nil
		}},
		{name: "createArray", max: -1, eval: func(c *called) (any, error) { return jsonc.NewArray(c.args...), nil }},
		{name: "createObject", max: -1, eval: createObject},
		{name: "contains", min: 2, max: 2, eval: contains},
		{name: "distinct", min: 1, max: 1, eval: distinct},
		{name: "empty", min: 1, max: 1, structural: true, eval: empty},
		{name: "first", min: 1, max: 1, structural: true, eval: func(c *called) (any, error) { return c.end(false) }},
		{name: "last", min: 1, max: 1, structural: true, eval: func(c *called) (any, error) { return c.end(true) }},
		{name: "flatten", min: 1, max: 1, structural: true, eval: flatten},
		{name: "indexFromEnd", min: 2, max: 2, structural: true, eval: indexFromEnd},
		{name: "tryIndexFromEnd", min: 2, max: 2, structural: true, eval: tryIndexFromEnd},
		{name: "indexOf", min: 2, max: 2, eval: func(c *called) (any, error) { return c.indexOf(false) }},
		{name: "lastIndexOf", min: 2, max: 2, eval: func(c *called) (any, error) { return c.indexOf(true) }},
		{name: "intersection", min: 2, max: -1, eval: intersection},
		{name: "union", min: 2, max: -1, eval: union},
		{name: "shallowMerge", min: 1, max: 1, structural: true, eval: shallowMerge},
		{name: "length", min: 1, max: 1, structural: true, eval: length},
		{name: "range", min: 2, max: 2, eval: numbers},
		{name: "take", min: 2, max: 2, structural: true, eval: func(c *called) (any, error) { return c.part(true) }},
		{name: "skip", min: 2, max: 2, structural: true, eval: func(c *called) (any, error) { return c.part(false) }},
		{name: "tryGet", min: 2, max: -1, structural: true, eval: tryGet},
		{name: "items", min: 1, max: 1, structural: true, eval: items},
		{name: "objectKeys", min: 1, max: 1, structural: true, eval: objectKeys},
	}
}

func createObject(c *called) (any, error) {
	if len(c.args)%2 != 0 {
		return nil, errorf("The template language function 'createObject' expects an even number of parameters. The number of provided parameters was '%d'."+usage, len(c.args))
	}
	var places, types []string
	for i := 0; i < len(c.args); i += 2 {
		if _, is := c.args[i].(string); !is {
			places, types = append(places, strconv.Itoa(i+1)), append(types, typeName(c.args[i]))
		}
	}
	if places != nil {
		return nil, errorf("The template language function 'createObject' expects the parameters at an odd-numbered position to be of type 'string'. The specified parameters at positions '%s' are of types '%s', respectively."+usage,
			strings.Join(places, ", "), strings.Join(types, ", "))
	}
	o := jsonc.NewObject()
	var twice []string
	for i := 0; i < len(c.args); i += 2 {
		name := c.args[i].(string)
		if _, found := o.Exact(name); found {
			twice = append(twice, name)
		}
		o.Set(name, c.args[i+1])
	}
	if twice != nil {
		return nil, errorf("The template language function 'createObject' expects all property names to be unique. The following property names were duplicated: %s."+usage, strings.Join(twice, ", "))
	}
	return o, nil
}

// search charges for comparing a value with all items of an array.
func (c *called) search(a *jsonc.Array, v any) error {
	return c.env.spend(jsonc.Weight(a) + a.Len()*min(jsonc.Weight(v), 1024))
}

func contains(c *called) (any, error) {
	switch in := c.args[0].(type) {
	case *jsonc.Object:
		if name, is := c.args[1].(string); is {
			return in.Find(name) >= 0, nil
		}
	case *jsonc.Array:
		if err := c.search(in, c.args[1]); err != nil {
			return nil, err
		}
		return indexOfItem(in, c.args[1]) >= 0, nil
	case string:
		if part, is := c.args[1].(string); is {
			return strings.Contains(in, part), nil
		}
	}
	return nil, errorf("The template function 'contains' expects parameters of matching types: a dictionary and a key (string), an array and a value (object), or a string and a substring. The provided types '%s' and '%s' are incompatible. Please see https://aka.ms/arm-function-contains for usage details.",
		typeName(c.args[0]), typeName(c.args[1]))
}

func indexOfItem(a *jsonc.Array, v any) int {
	for i, item := range a.Items() {
		if jsonc.Equal(item, v) {
			return i
		}
	}
	return -1
}

func (c *called) indexOf(last bool) (any, error) {
	switch in := c.args[0].(type) {
	case string:
		part, err := c.text(1)
		if err != nil {
			return nil, err
		}
		return indexFold(in, part, last), nil
	case *jsonc.Array:
		if err := c.search(in, c.args[1]); err != nil {
			return nil, err
		}
		if !last {
			return int64(indexOfItem(in, c.args[1])), nil
		}
		for i := in.Len() - 1; i >= 0; i-- {
			if jsonc.Equal(in.At(i), c.args[1]) {
				return int64(i), nil
			}
		}
		return int64(-1), nil
	}
	return nil, c.wrongType(0, "String", "Array")
}

// set is a set of values.
type set map[string]bool

// key returns a text that is equal for equal values.
func key(v any) string {
	o, is := v.(*jsonc.Object)
	if !is {
		if a, is := v.(*jsonc.Array); is {
			var out strings.Builder
			out.WriteByte('[')
			for _, item := range a.Items() {
				out.WriteString(key(item))
				out.WriteByte(',')
			}
			return out.String() + "]"
		}
		return jsonc.Text(v)
	}
	members := make([]string, o.Len())
	for i, m := range o.Members() {
		members[i] = jsonc.Text(m.Name) + ":" + key(m.Value)
	}
	sort.Strings(members)
	return "{" + strings.Join(members, ",") + "}"
}

// add reports whether a value was not in the set.
func (s set) add(v any) bool {
	k := key(v)
	if s[k] {
		return false
	}
	s[k] = true
	return true
}

func distinct(c *called) (any, error) {
	in, err := c.array(0)
	if err != nil {
		return nil, err
	}
	seen, out := set{}, []any{}
	for _, item := range in.Items() {
		if seen.add(item) {
			out = append(out, item)
		}
	}
	return jsonc.NewArray(out...), nil
}

func empty(c *called) (any, error) {
	switch v := c.args[0].(type) {
	case nil:
		return true, nil
	case string:
		return v == "", nil
	case *jsonc.Array:
		return v.Len() == 0, nil
	case *jsonc.Object:
		return v.Len() == 0, nil
	}
	return nil, errorf("The template function 'empty' expects its parameter to be an object, an array, or a string. The provided value is of type '%s'. Please see https://aka.ms/arm-function-empty for usage details.", typeName(c.args[0]))
}

// end is first, last.
func (c *called) end(last bool) (any, error) {
	switch v := c.args[0].(type) {
	case string:
		u := units(v)
		if len(u) == 0 {
			return "", nil
		}
		if last {
			return fromUnits(u[len(u)-1:]), nil
		}
		return fromUnits(u[:1]), nil
	case *jsonc.Array:
		if v.Len() == 0 {
			return nil, nil
		}
		if last {
			return v.At(v.Len() - 1), nil
		}
		return v.At(0), nil
	}
	return nil, errorf("The template language function '%s' expects its parameter be an array or a string. The provided value is of type '%s'. Please see https://aka.ms/arm-function-%[1]s for usage details.", c.name, typeName(c.args[0]))
}

func flatten(c *called) (any, error) {
	in, err := c.array(0)
	if err != nil {
		return nil, err
	}
	var out []any
	var places, types []string
	for i, item := range in.Items() {
		if isUnknown(item) {
			return c.later(c.args...), nil
		}
		a, is := item.(*jsonc.Array)
		if !is {
			places, types = append(places, strconv.Itoa(i)), append(types, typeName(item))
			continue
		}
		out = append(out, a.Items()...)
	}
	if places != nil {
		return nil, errorf("The template language function 'flatten' expects its first parameter to be an array only containing elements of type(s) 'Array'. The provided value contains elements with disallowed type(s) '%s' in index(es) %s."+usage,
			strings.Join(types, ", "), strings.Join(places, ", "))
	}
	return jsonc.NewArray(out...), nil
}

func indexFromEnd(c *called) (any, error) {
	a, err := c.array(0)
	if err != nil {
		return nil, err
	}
	i, err := c.integer(1)
	if err != nil {
		return nil, err
	}
	if i <= 0 {
		return nil, errorf("Unable to evaluate the template language function 'indexFromEnd'. The index parameter must be greater than zero, but an index of '%d' was received.", i)
	}
	if i > int64(a.Len()) {
		return nil, errorf("Unable to evaluate the template language function 'indexFromEnd'. The index parameter cannot be larger than the length of the array. The index parameter was '%d', and the length of the array parameter was '%d'.", i, a.Len())
	}
	return a.At(a.Len() - int(i)), nil
}

func tryIndexFromEnd(c *called) (any, error) {
	a, is := c.args[0].(*jsonc.Array)
	if !is {
		return nil, nil
	}
	i, err := c.integer(1)
	if err != nil {
		return nil, err
	}
	if i <= 0 || i > int64(a.Len()) {
		return nil, nil
	}
	return a.At(a.Len() - int(i)), nil
}

// sameKind returns the error for arguments of union and intersection that are not all
// arrays, or all objects; nil if they are.
func (c *called) sameKind() error {
	for i, arg := range c.args {
		switch arg.(type) {
		case *jsonc.Array, *jsonc.Object:
		default:
			return errorf("The template language function '%s' expects its %s parameter to be of type 'Array, Object'. The provided value is of type '%s'."+usage, c.name, ordinals[min(i, len(ordinals)-1)], typeName(arg))
		}
	}
	for _, arg := range c.args[1:] {
		if typeName(arg) != typeName(c.args[0]) {
			return errorf("Template language function '%s' expects parameters of the same type, but found multiple types.", c.name)
		}
	}
	return nil
}

// intersection keeps what all arguments have, in the order of the first one.
func intersection(c *called) (any, error) {
	if err := c.sameKind(); err != nil {
		return nil, err
	}
	if objects, is := c.args[0].(*jsonc.Object); is {
		out := jsonc.NewObject()
		for _, m := range objects.Members() {
			in := true
			for _, other := range c.args[1:] {
				v, found := other.(*jsonc.Object).Exact(m.Name)
				in = in && found && jsonc.Equal(v, m.Value)
			}
			if in {
				out.Set(m.Name, m.Value)
			}
		}
		return out, nil
	}
	items := c.args[0].(*jsonc.Array).Items()
	for _, other := range c.args[1:] {
		has := set{}
		for _, item := range other.(*jsonc.Array).Items() {
			has.add(item)
		}
		seen, kept := set{}, []any{}
		for _, item := range items {
			if has[key(item)] && seen.add(item) {
				kept = append(kept, item)
			}
		}
		items = kept
	}
	return jsonc.NewArray(items...), nil
}

func union(c *called) (any, error) {
	if err := c.sameKind(); err != nil {
		return nil, err
	}
	if _, is := c.args[0].(*jsonc.Array); is {
		seen, out := set{}, []any{}
		for _, arg := range c.args {
			for _, item := range arg.(*jsonc.Array).Items() {
				if seen.add(item) {
					out = append(out, item)
				}
			}
		}
		return jsonc.NewArray(out...), nil
	}
	merged := c.args[0].(*jsonc.Object)
	for _, arg := range c.args[1:] {
		next, err := c.merge(merged, arg.(*jsonc.Object))
		if err != nil {
			return nil, err
		}
		merged = next
	}
	return merged, nil
}

// merge merges two objects, and the objects in them. A null of b replaces nothing.
func (c *called) merge(a, b *jsonc.Object) (*jsonc.Object, error) {
	if err := c.env.spend(a.Len() + b.Len()); err != nil {
		return nil, err
	}
	out := jsonc.NewObject()
	for _, m := range a.Members() {
		out.Set(m.Name, m.Value)
	}
	for _, m := range b.Members() {
		old, found := out.Get(m.Name)
		if !found {
			out.Set(m.Name, m.Value)
			continue
		}
		if m.Value == nil {
			continue
		}
		left, leftIs := old.(*jsonc.Object)
		right, rightIs := m.Value.(*jsonc.Object)
		value := m.Value
		if leftIs && rightIs {
			inner, err := c.merge(left, right)
			if err != nil {
				return nil, err
			}
			value = inner
		} else if old != nil && typeName(old) != typeName(value) && (composite(old) || composite(value)) {
			return nil, errorf("The template language function 'union' failed to evaluate due to a type mismatch between '%s' and '%s'. Please see https://aka.ms/arm-function-union for usage details.", typeName(old), typeName(value))
		}
		out.Replace(m.Name, value)
	}
	return out, nil
}

func composite(v any) bool {
	switch v.(type) {
	case *jsonc.Array, *jsonc.Object:
		return true
	}
	return false
}

func shallowMerge(c *called) (any, error) {
	in, err := c.array(0)
	if err != nil {
		return nil, err
	}
	out := jsonc.NewObject()
	for _, item := range in.Items() {
		if isUnknown(item) {
			return c.later(c.args...), nil
		}
		o, is := item.(*jsonc.Object)
		if !is {
			return nil, errorf("The template language function 'shallowMerge' expects its first parameter to be an array only containing elements of type(s) 'Object'. The provided value is of type '%s'."+usage, typeName(item))
		}
		for _, m := range o.Members() {
			if i := out.Find(m.Name); i >= 0 { // The first spelling stays.
				out.Set(out.Members()[i].Name, m.Value)
			} else {
				out.Set(m.Name, m.Value)
			}
		}
	}
	return out, nil
}

func length(c *called) (any, error) {
	switch v := c.args[0].(type) {
	case string:
		return int64(utf16Len(v)), nil
	case *jsonc.Array:
		return int64(v.Len()), nil
	case *jsonc.Object:
		return int64(v.Len()), nil
	}
	return nil, errorf("The template language function 'length' expects its parameter to be an array, object, or a string. The provided value is of type '%s'. Please see https://aka.ms/arm-function-length for usage details.", typeName(c.args[0]))
}

func numbers(c *called) (any, error) {
	start, err := c.integer(0)
	if err != nil {
		return nil, err
	}
	count, err := c.integer(1)
	if err != nil {
		return nil, err
	}
	const countMax, sumMax = 10000, 2147483647
	if count < 0 || count > countMax || start > sumMax-count {
		return nil, errorf("The template language function 'range' parameters are out of range: 'count' must be a positive integer no larger than 1000 and the sum of 'start index' and 'count' must be no larger than 2147483647. Please see https://aka.ms/arm-function-range for usage details.")
	}
	items := make([]any, count)
	for i := range items {
		items[i] = start + int64(i)
	}
	return jsonc.NewArray(items...), nil
}

// part is take, skip.
func (c *called) part(take bool) (any, error) {
	var size int
	var u []uint16
	switch v := c.args[0].(type) {
	case string:
		u = units(v)
		size = len(u)
	case *jsonc.Array:
		size = v.Len()
	default:
		return nil, errorf("The template language function '%s' expects its first parameter 'collection' to be an array or a string. The provided value is of type '%s'. Please see https://aka.ms/arm-function-%[1]s for usage details.", c.name, typeName(v))
	}
	n, err := c.integer(1)
	if err != nil {
		return nil, err
	}
	at := int(min(max(n, 0), int64(size)))
	from, to := at, size
	if take {
		from, to = 0, at
	}
	if a, is := c.args[0].(*jsonc.Array); is {
		return jsonc.NewArray(a.Items()[from:to:to]...), nil
	}
	return fromUnits(u[from:to]), nil
}

// tryGet returns null where the first name or index does not exist.
func tryGet(c *called) (any, error) {
	value := c.args[0]
	for i, k := range c.args[1:] {
		if value == nil {
			return nil, nil
		}
		if isUnknown(value) {
			return (&called{function: c.function, call: c.call}).later(append([]any{value}, c.args[i+1:]...)...), nil
		}
		next, err := member(value, k)
		if err != nil {
			if i > 0 {
				return nil, err
			}
			return nil, nil
		}
		value = next
	}
	return value, nil
}

// sorted returns the members sorted by name, without regard to case; names that differ
// only in case keep their order.
func sorted(o *jsonc.Object) []jsonc.Member {
	members := append([]jsonc.Member(nil), o.Members()...)
	sort.SliceStable(members, func(i, j int) bool { return foldText(members[i].Name) < foldText(members[j].Name) })
	return members
}

func items(c *called) (any, error) {
	o, err := c.object(0)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, m := range sorted(o) {
		out = append(out, jsonc.NewObject("key", m.Name, "value", m.Value))
	}
	return jsonc.NewArray(out...), nil
}

func objectKeys(c *called) (any, error) {
	o, err := c.object(0)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, m := range sorted(o) {
		out = append(out, m.Name)
	}
	return jsonc.NewArray(out...), nil
}
