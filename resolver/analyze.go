package resolver

import (
	"math"
	"slices"
)

// Spread says how evenly a sample of keys lies over targets.
type Spread struct {
	Counts     map[string]int // by the name of the target, of all targets
	Unrouted   int            // keys that no target takes
	MaxToMean  float64        // of the counts by weight; 1 is even, 0 is no key
	Gini       float64        // of the counts by weight; 0 is even
	KeysRouted int
}

// SpreadOf routes a sample. Weights divide the counts before they are compared.
func SpreadOf[K any](r Resolver[K], keys []K) Spread {
	s := Spread{Counts: map[string]int{}}
	targets := r.Targets()
	for _, t := range targets {
		s.Counts[t.Name] = 0
	}
	for _, key := range keys {
		t, err := r.ForWrite(key)
		if err != nil {
			s.Unrouted++
			continue
		}
		s.Counts[t.Name]++
		s.KeysRouted++
	}
	loads := make([]float64, len(targets))
	for i, t := range targets {
		loads[i] = float64(s.Counts[t.Name]) / t.weight()
	}
	s.MaxToMean, s.Gini = unevenness(loads)
	return s
}

// unevenness returns the greatest load by the mean, and the Gini coefficient.
func unevenness(loads []float64) (maxToMean, gini float64) {
	slices.Sort(loads)
	sum, ranked := 0.0, 0.0
	for i, load := range loads {
		sum += load
		ranked += float64(i+1) * load
	}
	if sum == 0 {
		return 0, 0
	}
	n := float64(len(loads))
	return loads[len(loads)-1] * n / sum, math.Max(0, 2*ranked/(n*sum)-(n+1)/n)
}

// Movement says what a change of resolvers would move of a sample of keys.
type Movement struct {
	Keys     int
	Moved    int
	Pairs    map[[2]string]int // moved keys by the names of old and new target
	Unrouted int               // keys that one of the two does not take
}

// MovementOf routes a sample with both resolvers.
func MovementOf[K any](before, after Resolver[K], keys []K) Movement {
	m := Movement{Keys: len(keys), Pairs: map[[2]string]int{}}
	for _, key := range keys {
		from, errBefore := before.ForWrite(key)
		to, errAfter := after.ForWrite(key)
		if errBefore != nil || errAfter != nil {
			m.Unrouted++
			continue
		}
		if from.Name != to.Name {
			m.Moved++
			m.Pairs[[2]string{from.Name, to.Name}]++
		}
	}
	return m
}
