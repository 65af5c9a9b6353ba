package azcosmos

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strconv"

	"github.com/decandb/decan/internal/value"
)

// orderValue is a JSON value as ORDER BY compares it. The zero value is
// undefined.
type orderValue struct {
	raw  json.RawMessage // as received; nil for undefined
	kind value.Kind
	key  []byte // of the value in the order of rows; nil for undefined

	number  float64 // the number, or the nearest double
	integer int64   // the number, if it is an integer of 64 bits
	whole   bool    // it is
}

// parseOrderValue parses a value that comes from a decoder and is therefore
// valid.
func parseOrderValue(raw json.RawMessage) orderValue {
	v, err := value.Parse(raw)
	if err != nil || !v.IsDefined() {
		return orderValue{} // nothing was received
	}
	order := orderValue{raw: raw, kind: v.Kind(), key: value.AppendOrderKey(nil, v)}
	if v.Kind() == value.KindNumber {
		order.number = v.Float()
		order.integer, order.whole = v.Int64()
	}
	return order
}

// compare orders two values as docs/query.md describes, with undefined first.
func (v orderValue) compare(o orderValue) int { return bytes.Compare(v.key, o.key) }

// nested reports whether the value is an array or an object.
func (v orderValue) nested() bool { return v.kind == value.KindArray || v.kind == value.KindObject }

// decode decodes a JSON value and keeps the text of its numbers. The decoder
// bounds the nesting depth.
func decode(raw []byte) (decoded any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return decoded, decoder.Decode(&decoded)
}

// compareRows orders two lists of order values by the terms of a statement.
func compareRows(terms []orderTerm, a, b []orderValue) int {
	for i := range terms {
		if c := a[i].compare(b[i]); c != 0 {
			if terms[i].descending {
				return -c
			}
			return c
		}
	}
	return 0
}

// accumulator combines an aggregate over rows or over partial results.
type accumulator struct {
	function  string
	count     int64
	integers  big.Int // the exact sum of the integers
	others    float64 // the sum of the other numbers
	best      orderValue
	undefined bool // a value of a wrong type makes the result undefined
}

// add adds the value of one row. It ignores undefined.
func (a *accumulator) add(v orderValue) {
	if v.kind == value.KindUndefined {
		return
	}
	a.count++
	switch a.function {
	case "SUM", "AVG":
		a.undefined = a.undefined || v.kind != value.KindNumber
		a.sum(v)
	case "MIN", "MAX":
		a.undefined = a.undefined || v.nested()
		a.pick(v)
	}
}

// merge adds a partial result: the number of values and their aggregate, which
// is also undefined if a value had a wrong type.
func (a *accumulator) merge(count int64, v orderValue) {
	a.count += count
	if a.function == "COUNT" {
		return
	}
	if v.kind == value.KindUndefined {
		a.undefined = a.undefined || count > 0
		return
	}
	if a.function == "SUM" || a.function == "AVG" {
		a.sum(v)
	} else {
		a.pick(v)
	}
}

func (a *accumulator) sum(v orderValue) {
	if v.whole {
		a.integers.Add(&a.integers, big.NewInt(v.integer))
	} else {
		a.others += v.number
	}
}

func (a *accumulator) pick(v orderValue) {
	c := v.compare(a.best)
	if a.best.kind == value.KindUndefined || a.function == "MIN" && c < 0 || a.function == "MAX" && c > 0 {
		a.best = v
	}
}

// result returns the aggregate as JSON, nil if it is undefined.
func (a *accumulator) result() json.RawMessage {
	switch {
	case a.function == "COUNT":
		return strconv.AppendInt(nil, a.count, 10)
	case a.undefined, a.count == 0 && a.function != "SUM":
		return nil
	case a.function == "MIN" || a.function == "MAX":
		return slices.Clone(a.best.raw)
	case a.function == "SUM" && a.others == 0 && a.integers.IsInt64():
		return a.integers.Append(nil, 10)
	}
	number, _ := new(big.Float).SetInt(&a.integers).Float64() // the nearest double
	number += a.others
	if a.function == "AVG" {
		number /= float64(a.count)
	}
	text, err := json.Marshal(number)
	if err != nil {
		return nil // the sum is beyond the range of numbers
	}
	return text
}
