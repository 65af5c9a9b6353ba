package query

import (
	"strings"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/internal/vector"
)

// vectorFunctions compare vectors: arrays of one or more numbers, of one length.
// Anything else makes them undefined. Behind the vectors may stand whether the
// index is to be left aside, which changes no result, and an object of options.
func vectorFunctions() []function {
	score := func(_ vector.Metric, score float64) float64 { return score }
	return []function{
		{name: "VectorDistance", min: 2, max: 4, bind: vectorDistance(score), direct: storedVector(score)},
		{name: "_VectorScore", min: 2, max: 4, bind: vectorDistance(similarity), direct: storedVector(similarity)},
	}
}

// similarity is what rewritten queries sort by: greater for more similar vectors,
// whatever the metric. It is its own inverse.
func similarity(m vector.Metric, score float64) float64 {
	if m.Better(0, 1) {
		return -score
	}
	return score
}

// vectorDistance makes a function of the score of two vectors.
func vectorDistance(f func(m vector.Metric, score float64) float64) func(b binding) runner {
	return func(b binding) runner {
		byPolicy := b.policyMetric()
		var fixed [2][]float32
		for i := range fixed {
			if v, ok := b.constant(i); ok {
				if fixed[i], ok = vector.Parse(v, nil); !ok {
					return undefinedRun
				}
			}
		}
		return func(e *env, args []value.Value) value.Value {
			metric, ok := metricOf(args[2:], byPolicy)
			if !ok {
				return value.Undefined()
			}
			left, right := fixed[0], fixed[1]
			if left == nil {
				if left, ok = vector.Parse(args[0], e.rooms.left[:0]); ok {
					e.rooms.left = left
				}
			}
			if right == nil && ok {
				if right, ok = vector.Parse(args[1], e.rooms.right[:0]); ok {
					e.rooms.right = right
				}
			}
			if !ok || len(left) != len(right) {
				return value.Undefined()
			}
			return value.Number(f(metric, metric.Score(left, right)))
		}
	}
}

// storedVector makes the same function of a vector in the document and a
// constant one, with constant options: the constant is read once, and the other
// without making a value of it.
func storedVector(f func(m vector.Metric, score float64) float64) func(b binding) func(e *env) value.Value {
	return func(b binding) func(e *env) value.Value {
		place, constant := b.parts[0], b.parts[1]
		if place.slot < 0 {
			place, constant = constant, place
		}
		options := make([]value.Value, len(b.parts)-2)
		for i := range options {
			var ok bool
			if options[i], ok = b.constant(i + 2); !ok {
				return nil
			}
		}
		metric, known := metricOf(options, b.policyMetric())
		query, ok := vector.Parse(constant.v, nil)
		if place.slot < 0 || !constant.con || !known || !ok {
			return nil
		}
		slot, scorer := place.slot, metric.Scorer(query)
		return func(e *env) value.Value {
			v, ok := vector.ParseJSON(e.raw(slot), e.rooms.left[:0])
			if !ok || len(v) != len(query) {
				return value.Undefined()
			}
			e.rooms.left = v
			return value.Number(f(metric, scorer.Score(v)))
		}
	}
}

// metricOf returns how vectors are compared: as the arguments behind them say,
// or else as the policy does.
func metricOf(options []value.Value, byPolicy vector.Metric) (vector.Metric, bool) {
	if len(options) > 0 && options[0].Kind() != value.KindBool {
		return 0, false
	}
	if len(options) < 2 {
		return byPolicy, true
	}
	if options[1].Kind() != value.KindObject {
		return 0, false
	}
	name := options[1].Get("distanceFunction")
	if !name.IsDefined() {
		return byPolicy, true
	}
	return vector.ParseMetric(name.Text())
}

// policyMetric is that of the vector policy of either property; cosine without.
func (b binding) policyMetric() vector.Metric {
	for i := range 2 {
		path, ok := b.property(i)
		if !ok || b.ix == nil {
			continue
		}
		if policy, ok := b.ix.VectorAt(path); ok {
			m, _ := vector.ParseMetric(policy.Distance)
			return m
		}
	}
	return vector.Cosine
}

// vectorFaults are the faults in the constant options of VectorDistance. The
// analysis adds them to its own.
func vectorFaults(call *sql.CallExpr, params map[string]value.Value) []sql.Diagnostic {
	if !isFunction(call, "VectorDistance") || len(call.Args) < 4 {
		return nil
	}
	options, ok := inputs{params: params}.constant(call.Args[3])
	if !ok {
		return nil
	}
	var faults []sql.Diagnostic
	fault := func(code, format string, args ...any) {
		faults = append(faults, sql.Diagnosticf(call.Args[3].Span(), code, format, args...))
	}
	for _, name := range [...]string{searchListMultiplier, listMultiplier} {
		v := options.Get(name)
		if n, ok := v.Int64(); v.IsDefined() && (!ok || n < 1 || n > searchMultiplierMax) {
			fault("SC2213", "The option '%s' of the VectorDistance function must be an integer from 1 to %d.", name, searchMultiplierMax)
		}
	}
	if v := options.Get("distanceFunction"); v.IsDefined() {
		if _, ok := vector.ParseMetric(v.Text()); !ok {
			fault("SC2212", "The option 'distanceFunction' of the VectorDistance function must be cosine, dotproduct or euclidean.")
		}
	}
	if v := options.Get("dataType"); v.IsDefined() {
		if !vectorTypes[strings.ToLower(v.Text())] {
			fault("SC2212", "The option 'dataType' of the VectorDistance function must be float32, float16, int8 or uint8.")
		}
	}
	return faults
}

// searchMultiplierMax bounds how many times the wanted rows an index looks at.
const searchMultiplierMax = 100

// vectorTypes are the element types that an option may name. The results are
// those of float32 whichever it is: the type says how a vector is stored.
var vectorTypes = map[string]bool{"float32": true, "float16": true, "int8": true, "uint8": true}
