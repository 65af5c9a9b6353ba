// Package patch applies a PATCH request to a document: it adds, sets, replaces,
// removes, increments and moves values at paths.
//
// [Parse] parses and checks the body of a request, and [Patch.Apply] returns the
// next version of a document. Both are pure functions. The condition of a patch
// is a filter in the query language. Parse checks its syntax; the caller evaluates
// [Patch.ConditionQuery].
//
// # Invariants
//
//   - A patch is applied in full or, with an error, not at all.
//   - A document stays one that can be parsed again: no deeper than [value.DepthMax], and without numbers that JSON cannot represent.
//   - The id and the system properties are never touched.
//   - Integers of 64 bits stay exact.
//
// The package knows nothing about partition keys; callers use [Patch.Touches] to
// protect them.
//
// Page: docs/partition.md, "Transactions".
package patch

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// OperationsMax is the maximum number of operations of a patch, as in the
// service.
const OperationsMax = 10

// Patch is a list of operations on one document. It is immutable.
type Patch struct {
	// Condition is a query without its SELECT, such as "from c where c.n = 1",
	// for which the document must be a result; empty for none. Its syntax is
	// correct.
	Condition string

	operations []operation
}

// kind is the type of an operation.
type kind uint8

const (
	add     kind = iota // inserts a value into an object, or between the elements of an array
	set                 // the same, but replaces an element
	replace             // set for an existing value only
	remove
	increment
	move
)

var kinds = map[string]kind{"add": add, "set": set, "replace": replace, "remove": remove, "incr": increment, "move": move}

// operation is one operation of a patch.
type operation struct {
	kind  kind
	name  string // of the kind, for messages
	path  path
	from  path // for move
	value value.Value
}

// Parse parses the body of a PATCH request: an object with operations and an
// optional condition, or only the array of operations. It ignores unknown
// members. The error is a BadRequest.
func Parse(body value.Value) (*Patch, error) {
	p := &Patch{}
	list := body
	if body.Kind() == value.KindObject {
		list = body.Get("operations")
		switch condition := body.Get("condition"); condition.Kind() {
		case value.KindUndefined, value.KindNull:
		case value.KindString:
			p.Condition = condition.Text()
		default:
			return nil, status.BadRequest("The condition of a patch is a string such as 'from c where c.n = 1', not %s.", condition.Kind())
		}
	}
	if list.Kind() != value.KindArray {
		return nil, status.BadRequest("The body of a patch is an object with an array of operations.")
	}
	switch n := list.Len(); {
	case n == 0:
		return nil, status.BadRequest("A patch has at least one operation.")
	case n > OperationsMax:
		return nil, status.BadRequest("The number of patch operations can't exceed '%d': there are %d.", OperationsMax, n)
	}
	p.operations = make([]operation, list.Len())
	for i, item := range list.Items() {
		o, err := parseOperation(item)
		if err != nil {
			err.Message = "For Operation(" + number(i+1) + "): " + err.Message
			return nil, err
		}
		p.operations[i] = o
	}
	if err := p.checkCondition(); err != nil {
		return nil, err
	}
	return p, nil
}

func parseOperation(item value.Value) (o operation, err *status.Error) {
	if item.Kind() != value.KindObject {
		return o, status.BadRequest("A patch operation is an object, not %s.", item.Kind())
	}
	o.name = strings.ToLower(item.Get("op").Text())
	known := false
	if o.kind, known = kinds[o.name]; !known {
		return o, status.BadRequest("The operation %.64s is not one of add, set, replace, remove, incr and move.", item.Get("op"))
	}
	if o.path, err = parsePath(item.Get("path")); err != nil {
		return o, err
	}
	switch o.kind {
	case remove:
	case move:
		if o.from, err = parsePath(item.Get("from")); err != nil {
			return o, err
		}
		if len(o.path) > len(o.from) && o.path.begins(o.from) {
			return o, status.BadRequest("The path %.256s is inside %.256s: a value cannot be moved into itself.", o.path, o.from)
		}
	default:
		if o.value = item.Get("value"); !o.value.IsDefined() {
			o.value = value.Null() // some clients write it so
		}
		if o.kind == increment && o.value.Kind() != value.KindNumber {
			return o, status.BadRequest("The value to increment %.256s by is %s, not a number.", o.path, o.value.Kind())
		}
	}
	return o, nil
}

// Touches reports whether an operation names a path of properties, or a path
// above or below it, and returns the path that it names.
func (p *Patch) Touches(place value.Path) (named string, yes bool) {
	names := make(path, len(place))
	for i, step := range place {
		names[i] = step.Name
	}
	for i := range p.operations {
		o := &p.operations[i]
		for _, own := range []path{o.path, o.from} {
			if own != nil && (own.begins(names) || names.begins(own)) {
				return own.String(), true
			}
		}
	}
	return "", false
}

// path is a parsed JSON pointer with at least one step. Messages show 256
// characters of it.
type path []string

// fixed are the properties that a patch cannot change.
var fixed = []string{"id", "_rid", "_self", "_etag", "_ts", "_attachments"}

func parsePath(v value.Value) (path, *status.Error) {
	text := v.Text()
	if v.Kind() != value.KindString || !strings.HasPrefix(text, "/") {
		return nil, status.BadRequest("The path %.256s is not valid: a path is a string that begins with a slash, such as '/a/b'.", v)
	}
	if n := strings.Count(text, "/"); n > value.DepthMax {
		return nil, status.BadRequest("The path is %d steps deep, and at most %d are allowed.", n, value.DepthMax)
	}
	steps := path(strings.Split(text[1:], "/"))
	for i, step := range steps {
		plain := strings.ReplaceAll(strings.ReplaceAll(step, "~0", ""), "~1", "")
		if strings.Contains(plain, "~") {
			return nil, status.BadRequest("The path %.256s is not valid: in a path ~0 stands for a tilde and ~1 for a slash.", v)
		}
		steps[i] = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
	}
	if slices.Contains(fixed, steps[0]) {
		return nil, status.BadRequest("The path %.256s cannot be patched: the id and the system properties cannot change.", v)
	}
	return steps, nil
}

// begins reports whether other is a prefix of the path, or equal to it.
func (p path) begins(other path) bool {
	return len(other) <= len(p) && slices.Equal(p[:len(other)], other)
}

// String returns the path as a quoted JSON pointer.
func (p path) String() string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, step := range p {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(step, "~", "~0"), "/", "~1"))
	}
	b.WriteByte('\'')
	return b.String()
}
