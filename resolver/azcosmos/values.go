package azcosmos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// orderValue is a JSON value as ORDER BY compares it. The zero value is undefined.
type orderValue struct {
	raw    json.RawMessage // nil for undefined
	rank   int             // of the type
	number float64
	text   string
}

// The ranks of the types, in the order of the service.
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

func parseOrderValue(raw json.RawMessage) orderValue {
	v := orderValue{raw: raw}
	if len(raw) == 0 {
		return v
	}
	switch raw[0] {
	case 'n':
		v.rank = rankNull
	case 'f':
		v.rank = rankFalse
	case 't':
		v.rank = rankTrue
	case '"':
		v.rank = rankString
		// The value comes out of a decoder, so it is valid.
		_ = json.Unmarshal(raw, &v.text)
	case '[':
		v.rank = rankArray
	case '{':
		v.rank = rankObject
	default:
		v.rank = rankNumber
		_ = json.Unmarshal(raw, &v.number)
	}
	return v
}

// compare orders two values. Arrays, and objects, have no order that matters; their
// text makes one.
func (v orderValue) compare(o orderValue) int {
	if c := cmp.Compare(v.rank, o.rank); c != 0 {
		return c
	}
	switch v.rank {
	case rankNumber:
		return cmp.Compare(v.number, o.number)
	case rankString:
		return cmp.Compare(v.text, o.text)
	}
	return bytes.Compare(v.raw, o.raw)
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
	count     float64
	sum       float64
	best      orderValue
	undefined bool // a value of a wrong type makes the whole undefined
}

// add takes the value of one row; an undefined one does not count.
func (a *accumulator) add(v orderValue) {
	if v.rank == rankUndefined {
		return
	}
	a.count++
	switch a.function {
	case "SUM", "AVG":
		a.undefined = a.undefined || v.rank != rankNumber
		a.sum += v.number
	case "MIN", "MAX":
		a.undefined = a.undefined || v.rank >= rankArray
		a.pick(v)
	}
}

// merge takes a partial result: how many values there were, and what they gave, which
// is undefined also when a type was wrong.
func (a *accumulator) merge(count float64, v orderValue) {
	a.count += count
	if a.function == "COUNT" {
		return
	}
	if v.rank == rankUndefined {
		a.undefined = a.undefined || count > 0
		return
	}
	if a.function == "SUM" || a.function == "AVG" {
		a.sum += v.number
	} else {
		a.pick(v)
	}
}

func (a *accumulator) pick(v orderValue) {
	c := v.compare(a.best)
	if a.best.rank == rankUndefined || a.function == "MIN" && c < 0 || a.function == "MAX" && c > 0 {
		a.best = v
	}
}

// result returns the aggregate as JSON, nil when it is undefined.
func (a *accumulator) result() json.RawMessage {
	number := a.sum
	switch {
	case a.function == "COUNT":
		number = a.count
	case a.undefined, a.count == 0 && a.function != "SUM":
		return nil
	case a.function == "AVG":
		number /= a.count
	case a.function == "MIN" || a.function == "MAX":
		return slices.Clone(a.best.raw)
	}
	text, err := json.Marshal(number)
	if err != nil {
		return nil // a sum beyond the range of numbers
	}
	return text
}
