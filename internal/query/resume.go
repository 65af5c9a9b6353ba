package query

import (
	"bytes"
	"math"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// Resume says where the rows of an ordered query begin. Clients that merge partitions
// send it as resumeFilter with the first request to each partition when they continue
// after a row.
type Resume struct {
	// keys are the order keys of the values of the row, one for each key of ORDER BY,
	// in ascending order.
	keys [][]byte
	// rid is the document at which the rows of equal values begin; "" for all of them.
	rid resource.RID
	// exclude leaves out the rows of equal values; with a rid, those up to and
	// including the rows of that document.
	exclude bool
}

// ParseResume reads a resumeFilter:
//
//	{"value": [6, "a"], "rid": "AAAAF4AAAC0EAAAAAAAAAA==", "exclude": false}
//
// The list has one value for each key of ORDER BY. Null, booleans, numbers and strings
// are themselves. [] is undefined. An array or an object is {"type": "array", "low": 1,
// "high": 2}, or "object", with the halves of its hash as signed integers. Undefined
// and null are no resumeFilter: the result is nil. Any other value is a BadRequest.
func ParseResume(v value.Value) (*Resume, error) {
	switch v.Kind() {
	case value.KindUndefined, value.KindNull:
		return nil, nil
	case value.KindObject:
	default:
		return nil, badResume("It is a JSON %s where an object is expected.", v.Kind())
	}
	r := &Resume{}
	list := v.Get("value")
	if list.Kind() != value.KindArray || list.Len() == 0 {
		return nil, badResume("Its member value is not a list of the values of a row.")
	}
	for i, item := range list.Items() {
		key, ok := resumeKey(item)
		if !ok {
			return nil, badResume("Item %d of its member value is neither null, true, false, a number, a string, [], nor an object with type, low and high.", i+1)
		}
		r.keys = append(r.keys, key)
	}
	switch rid := v.Get("rid"); rid.Kind() {
	case value.KindUndefined, value.KindNull:
	default:
		var err error
		if r.rid, err = resource.ParseRID(rid.Text()); err != nil || !r.rid.IsDocument() {
			return nil, badResume("Its member rid is not the _rid of a document.")
		}
	}
	switch exclude := v.Get("exclude"); exclude.Kind() {
	case value.KindUndefined, value.KindNull:
	case value.KindBool:
		r.exclude = exclude.Bool()
	default:
		return nil, badResume("Its member exclude is neither true nor false.")
	}
	return r, nil
}

func badResume(format string, args ...any) error {
	return status.BadRequest("The resumeFilter of the query is invalid. "+format, args...)
}

// resumeKey returns the order key of a value of a resumeFilter.
func resumeKey(v value.Value) (key []byte, ok bool) {
	switch v.Kind() {
	case value.KindArray:
		return value.AppendOrderKey(nil, value.Undefined()), v.Len() == 0
	case value.KindObject:
		low, isLow := v.Get("low").Int64()
		high, isHigh := v.Get("high").Int64()
		switch kind := v.Get("type"); {
		case !isLow || !isHigh || kind.Kind() != value.KindString:
			return nil, false
		case kind.Text() == "array":
			return value.AppendHashOrderKey(nil, value.KindArray, uint64(low), uint64(high)), true
		case kind.Text() == "object":
			return value.AppendHashOrderKey(nil, value.KindObject, uint64(low), uint64(high)), true
		}
		return nil, false
	}
	return value.AppendOrderKey(nil, v), true
}

// Start is the beginning of the rows that a [Resume] asks for, in the order of a plan.
type Start struct{ place }

// Start translates r into the order of the plan. container is the RID of the queried
// container. The error is a BadRequest if the plan does not order rows, if r does not
// have one value for each key, or if r belongs to another container.
func (p *Plan) Start(r *Resume, container resource.RID) (*Start, error) {
	o := p.order
	switch {
	case p.query.Rank || p.inner != nil || o == nil:
		return nil, badResume("Only a query with ORDER BY that returns rows of documents can be resumed.")
	case len(r.keys) != len(o.keys):
		return nil, badResume("It has %d values, and ORDER BY of the query has %d.", len(r.keys), len(o.keys))
	case r.rid != "" && r.rid.Container() != container:
		return nil, badResume("Its member rid is that of a document in another container.")
	}
	s := &Start{}
	for i, k := range o.keys {
		from := len(s.key)
		s.key = append(s.key, r.keys[i]...)
		if k.invert {
			invert(s.key[from:])
		}
	}
	// The row before the first one, in the direction of the order.
	s.row = math.MaxInt
	switch n := r.rid.Number(); {
	case r.rid != "" && r.exclude:
		s.number = n
	case r.rid != "" && o.desc:
		s.number = n + 1
	case r.rid != "":
		s.number = n - 1
	case r.exclude != o.desc:
		s.number = math.MaxUint64
	case r.exclude:
		s.number = 1 // no document has the number 0
	}
	return s, nil
}

// beginAt sets where the page begins: after the position of the budget, or at its
// start if that is further. If the key of the position is truncated and the start has
// the same beginning, both apply.
func (r *run) beginAt(b *Budget) {
	r.from = originOf(b)
	s := b.From
	if s == nil {
		return
	}
	if !r.from.none {
		key := s.key
		if r.from.cut {
			key = key[:min(len(key), OrderKeyMax)]
		}
		if r.from.cut && bytes.Equal(key, r.from.key) {
			r.also = s
			return
		}
		if (place{key, s.number, s.row}).compare(r.from.place, r.plan.descending()) <= 0 {
			return
		}
	}
	r.from = origin{place: s.place}
}
