package azcosmos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
)

// orderValue is a JSON value as ORDER BY compares it. The zero value is
// undefined.
type orderValue struct {
	raw    json.RawMessage // as received; nil for undefined, and inside another value
	rank   int             // of the type
	whole  bool            // the number is an integer of 64 bits, so integer is exact
	number float64         // the number, or the nearest double

	integer int64
	text    string
	names   []string     // of an object's members, sorted
	items   []orderValue // elements of an array, or values of an object in the order of names
}

// The ranks of the types, in the service's order.
const (
	rankUndefined = iota
	rankNull
	rankFalse
	rankTrue
	rankNumber
	rankString
	rankArray
	rankObject
)

// parseOrderValue parses a value that comes from a decoder and is therefore
// valid.
func parseOrderValue(raw json.RawMessage) orderValue {
	var v orderValue
	if len(raw) == 0 {
		return v
	}
	if raw[0] == '"' { // by far the most frequent type needs no decoder
		v.rank = rankString
		_ = json.Unmarshal(raw, &v.text)
	} else if decoded, err := decode(raw); err == nil {
		v = orderOf(decoded)
	}
	v.raw = raw
	return v
}

// decode decodes a JSON value and keeps the text of its numbers. The decoder
// bounds the nesting depth.
func decode(raw []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return value, decoder.Decode(&value)
}

// orderOf returns a decoded value as ORDER BY compares it.
func orderOf(value any) orderValue {
	var v orderValue
	switch value := value.(type) {
	case nil:
		v.rank = rankNull
	case bool:
		v.rank = rankFalse
		if value {
			v.rank = rankTrue
		}
	case json.Number:
		v.rank = rankNumber
		text := string(plainNumber(value))
		v.number, _ = strconv.ParseFloat(text, 64) // infinite beyond the range of doubles
		integer, err := strconv.ParseInt(text, 10, 64)
		v.integer, v.whole = integer, err == nil
	case string:
		v.rank, v.text = rankString, value
	case []any:
		v.rank = rankArray
		for _, item := range value {
			v.items = append(v.items, orderOf(item))
		}
	case map[string]any:
		v.rank = rankObject
		v.names = slices.Sorted(maps.Keys(value))
		for _, name := range v.names {
			v.items = append(v.items, orderOf(value[name]))
		}
	}
	return v
}

// compare orders two values as docs/query.md describes: numbers exactly, arrays
// by the first element that differs and then the shorter first, objects likewise
// by their members sorted by name.
func (v orderValue) compare(o orderValue) int {
	if c := cmp.Compare(v.rank, o.rank); c != 0 {
		return c
	}
	switch v.rank {
	case rankNumber:
		return v.compareNumber(o)
	case rankString:
		return cmp.Compare(v.text, o.text)
	}
	for i := range min(len(v.items), len(o.items)) {
		if v.rank == rankObject {
			if c := cmp.Compare(v.names[i], o.names[i]); c != 0 {
				return c
			}
		}
		if c := v.items[i].compare(o.items[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(v.items), len(o.items))
}

func (v orderValue) compareNumber(o orderValue) int {
	if v.whole && o.whole {
		return cmp.Compare(v.integer, o.integer)
	}
	if c := cmp.Compare(v.number, o.number); c != 0 || v.whole == o.whole {
		return c
	}
	// The integer rounds to the other number. That is not an integer of 64 bits,
	// so it is above all of them.
	if v.whole {
		return -1
	}
	return 1
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
	if v.rank == rankUndefined {
		return
	}
	a.count++
	switch a.function {
	case "SUM", "AVG":
		a.undefined = a.undefined || v.rank != rankNumber
		a.sum(v)
	case "MIN", "MAX":
		a.undefined = a.undefined || v.rank >= rankArray
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
	if v.rank == rankUndefined {
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
	if a.best.rank == rankUndefined || a.function == "MIN" && c < 0 || a.function == "MAX" && c > 0 {
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
