package query

import (
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/internal/vector"
)

// vectorFunctions compare vectors: arrays of one or more numbers, of equal length.
// Other arguments make the result undefined. Two arguments may follow the vectors:
// whether to ignore the index, which changes no result, and an object of options.
func vectorFunctions() []function {
	score := func(_ vector.Metric, score float64) float64 { return score }
	return []function{
		{name: "VectorDistance", min: 2, max: 4, bind: vectorDistance(score), direct: storedVector(score)},
		{name: "_VectorScore", min: 2, max: 4, bind: vectorDistance(similarity), direct: storedVector(similarity)},
	}
}

// similarity converts a score to the key by which rewritten queries sort, which is
// greater for more similar vectors, whatever the metric. It is its own inverse.
func similarity(m vector.Metric, score float64) float64 {
	if m.Better(0, 1) {
		return -score
	}
	return score
}

// vectorDistance returns a function of the score of two vectors.
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
				if left, ok = vector.Parse(args[0], e.buffers.left[:0]); ok {
					e.buffers.left = left
				}
			}
			if right == nil && ok {
				if right, ok = vector.Parse(args[1], e.buffers.right[:0]); ok {
					e.buffers.right = right
				}
			}
			if !ok || len(left) != len(right) {
				return value.Undefined()
			}
			return value.Double(f(metric, metric.Score(left, right)))
		}
	}
}

// storedVector is [vectorDistance] for a stored vector and a constant one with constant
// options. It parses the constant once and reads the stored vector as text.
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
			v, ok := vector.ParseJSON(e.raw(slot), e.buffers.left[:0])
			if !ok || len(v) != len(query) {
				return value.Undefined()
			}
			e.buffers.left = v
			return value.Double(f(metric, scorer.Score(v)))
		}
	}
}

// metricOf returns the metric of the arguments after the vectors, or else of the
// policy.
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

// policyMetric returns the metric in the vector policy of either property; cosine if
// there is none.
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

// vectorTypes are the element types that an option may name. Results are those of
// float32 for every type: the type says how a vector is stored.
var vectorTypes = map[string]bool{"float32": true, "float16": true, "int8": true, "uint8": true}
