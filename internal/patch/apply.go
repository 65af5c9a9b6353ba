package patch

import (
	"slices"
	"strconv"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// Apply returns the patched document. doc does not change; the result shares its
// unchanged parts. The error is a BadRequest that names the operation.
func (p *Patch) Apply(doc value.Value) (value.Value, error) {
	for i := range p.operations {
		var err *status.Error
		if doc, err = p.operations[i].apply(doc); err != nil {
			err.Message = "For Operation(" + number(i+1) + "): " + err.Message
			return value.Value{}, err
		}
	}
	return doc, nil
}

func number(n int) string { return strconv.Itoa(n) }

func (o *operation) apply(doc value.Value) (value.Value, *status.Error) {
	if o.kind != move {
		return o.edit(doc, 0)
	}
	source := operation{kind: remove, name: o.name, path: o.from}
	moved, err := source.at(doc)
	if err != nil || slices.Equal(o.path, o.from) {
		return doc, err
	}
	if doc, err = source.edit(doc, 0); err != nil {
		return doc, err
	}
	target := operation{kind: add, name: o.name, path: o.path, value: moved}
	return target.edit(doc, 0)
}

// at returns the value that the path names.
func (o *operation) at(doc value.Value) (value.Value, *status.Error) {
	for i, step := range o.path {
		if doc.Kind() != value.KindArray {
			doc = doc.Get(step)
		} else if at, ok := element(step, doc.Len()); ok {
			doc = doc.Index(at)
		} else {
			doc = value.Undefined()
		}
		if !doc.IsDefined() {
			return doc, o.missing(i)
		}
	}
	return doc, nil
}

// edit returns the value in with a change at the rest of the path. depth is the
// number of steps to in.
func (o *operation) edit(in value.Value, depth int) (value.Value, *status.Error) {
	step, last := o.path[depth], depth == len(o.path)-1
	switch in.Kind() {
	case value.KindObject:
		return o.editMember(in, step, last, depth)
	case value.KindArray:
		return o.editElement(in, step, last, depth)
	}
	return in, o.missing(depth)
}

func (o *operation) editMember(in value.Value, name string, last bool, depth int) (value.Value, *status.Error) {
	old := in.Get(name)
	var err *status.Error
	next := value.Undefined()
	switch {
	case !last && !old.IsDefined():
		return in, o.missing(depth)
	case !last:
		next, err = o.edit(old, depth+1)
	case !old.IsDefined() && (o.kind == replace || o.kind == remove):
		return in, o.missing(depth)
	case o.kind == remove:
	default:
		next, err = o.put(old)
	}
	if err != nil {
		return in, err
	}
	return in.With(name, next), nil
}

func (o *operation) editElement(in value.Value, step string, last bool, depth int) (value.Value, *status.Error) {
	items := in.Items()
	at, ok := element(step, len(items))
	if last && !ok && (o.kind == add || o.kind == set) {
		if step == "-" || step == strconv.Itoa(len(items)) {
			at, ok = len(items), true
		}
	}
	if !ok {
		return in, o.noElement(step, len(items))
	}
	switch {
	case last && o.kind == remove:
		return value.Array(slices.Concat(items[:at], items[at+1:])), nil
	case last && (o.kind == add || at == len(items)):
		next, err := o.put(value.Undefined())
		if err != nil {
			return in, err
		}
		return value.Array(slices.Concat(items[:at], []value.Value{next}, items[at:])), nil
	}
	var next value.Value
	var err *status.Error
	if last {
		next, err = o.put(items[at])
	} else {
		next, err = o.edit(items[at], depth+1)
	}
	if err != nil {
		return in, err
	}
	items = slices.Clone(items)
	items[at] = next
	return value.Array(items), nil
}

// element parses the step into an array as the index of an existing element.
func element(step string, length int) (at int, ok bool) {
	if step == "" || len(step) > 1 && step[0] == '0' {
		return 0, false
	}
	for i := range len(step) {
		if step[i] < '0' || step[i] > '9' || at > length {
			return 0, false
		}
		at = at*10 + int(step[i]-'0')
	}
	return at, at < length
}

// put returns the replacement of old, which is undefined if nothing is there.
func (o *operation) put(old value.Value) (value.Value, *status.Error) {
	if deep := len(o.path) + depth(o.value); deep > value.DepthMax {
		return old, status.BadRequest("The document would be nested %d levels deep at %.256s, and at most %d are allowed.", deep, o.path, value.DepthMax)
	}
	if o.kind != increment || !old.IsDefined() {
		return o.value, nil
	}
	if old.Kind() != value.KindNumber {
		return old, status.BadRequest("The value at %.256s is %s, not a number that can be incremented.", o.path, old.Kind())
	}
	a, whole := old.Int64()
	b, also := o.value.Int64()
	sum := a + b
	switch {
	case !whole || !also:
		next := value.Number(old.Float() + o.value.Float())
		if !next.Finite() {
			return old, o.overflow()
		}
		return next, nil
	case (sum > a) != (b > 0):
		return old, o.overflow()
	}
	return value.Int(sum), nil
}

func (o *operation) overflow() *status.Error {
	return status.BadRequest("The sum at %.256s is too large for a number.", o.path)
}

// depth returns the nesting depth of arrays and objects in a value.
func depth(v value.Value) int {
	deepest := 0
	switch v.Kind() {
	case value.KindArray:
		for _, item := range v.Items() {
			deepest = max(deepest, depth(item))
		}
	case value.KindObject:
		for _, m := range v.Members() {
			deepest = max(deepest, depth(m.Value))
		}
	default:
		return 0
	}
	return deepest + 1
}

// missing returns the error for a step of the path at which there is nothing.
func (o *operation) missing(at int) *status.Error {
	return status.BadRequest("%s Operation can only be performed on a path that exists: there is nothing at %.256s.", title[o.name], o.path[:at+1])
}

// noElement returns the error for a step that is not an element of an array of
// that length.
func (o *operation) noElement(step string, length int) *status.Error {
	return status.BadRequest("%s Operation can only be performed on an element that exists: %.256s leads to an array of %d elements, which has none at '%.64s'.", title[o.name], o.path, length, step)
}

// title is the name of an operation at the beginning of a sentence.
var title = map[string]string{"add": "Add", "set": "Set", "replace": "Replace", "remove": "Remove", "incr": "Increment", "move": "Move"}
