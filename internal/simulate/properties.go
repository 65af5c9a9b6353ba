package simulate

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Property is a property of the sample that can be a level of a key.
type Property struct {
	Path    string  `json:"path"`
	Values  int64   `json:"values"`  // distinct values in the container, estimated
	Largest float64 `json:"largest"` // share of the documents that the greatest value has
	Missing float64 `json:"missing"` // share of the documents without the property

	// Asked is the share of the queries, weighted by how often they run, that fix the
	// property, so that a key of this one level would route them.
	Asked float64 `json:"asked"`

	unique bool // no value occurs twice
}

const (
	// depthMax is how deep objects are searched for properties.
	depthMax = 3
	// propertiesMax bounds the properties that are looked at.
	propertiesMax = 200
)

// findProperties returns the properties with texts, numbers and booleans, those with the
// most values first.
func (x *simulation) findProperties() []Property {
	paths := map[string]bool{}
	for i := range x.documents {
		collect(paths, "", x.documents[i].value, depthMax)
	}
	var list []Property
	for _, path := range sortedKeys(paths) {
		if len(list) == propertiesMax {
			break
		}
		if p, ok := x.property(path); ok {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(a, b Property) int { return cmp.Compare(b.Values, a.Values) })
	return list
}

// collect adds the paths of scalars.
func collect(paths map[string]bool, prefix string, v value.Value, depth int) {
	for _, m := range v.Members() {
		if strings.HasPrefix(m.Name, "_") || strings.ContainsAny(m.Name, `/"\*?[]`) || m.Name == "" {
			continue // System properties change with each write; the others need quotes.
		}
		path := prefix + "/" + m.Name
		switch m.Value.Kind() {
		case value.KindString, value.KindNumber, value.KindBool:
			paths[path] = true
		case value.KindObject:
			if depth > 1 {
				collect(paths, path, m.Value, depth-1)
			}
		}
	}
}

// property measures a path. It is false for one that no key can have.
func (x *simulation) property(path string) (Property, bool) {
	key, err := keyAt([]string{path})
	if err != nil {
		return Property{}, false
	}
	c := x.count(func(v value.Value) partitionkey.Key { return key(v) })
	p := Property{Path: path, Largest: c.largest}
	p.Values = x.distinct([]string{path}, c)
	p.unique = c.most == 1
	missing := partitionkey.NewKey(partitionkey.Undefined()).String()
	p.Missing = c.weights[missing]
	return p, true
}

// counts are the documents of the sample by key.
type counts struct {
	docs    map[string]int
	weights map[string]float64 // shares of the documents of the container
	work    map[string]float64 // shares of the operations
	once    int                // keys with one document of the sample
	most    int                // documents of the key that has the most
	largest float64            // the greatest weight
	key     string             // that has it
}

func (x *simulation) count(key func(value.Value) partitionkey.Key) counts {
	c := counts{docs: map[string]int{}, weights: map[string]float64{}, work: map[string]float64{}}
	for i := range x.documents {
		d := &x.documents[i]
		name := key(d.value).String()
		c.docs[name]++
		c.weights[name] += d.weight
		c.work[name] += d.work
	}
	for _, name := range sortedKeys(c.docs) {
		if c.docs[name] == 1 {
			c.once++
		}
		c.most = max(c.most, c.docs[name])
		if c.weights[name] > c.largest {
			c.largest, c.key = c.weights[name], name
		}
	}
	return c
}

// distinct estimates the number of distinct keys in the container from the sample: each
// key that occurs once in the sample stands for the square root of the documents that
// one of the sample stands for (the guaranteed-error estimator of Charikar and others),
// and a property without any repetition has a value for each document.
//
// What the workload says about a path holds for a key of that path alone, and is at
// least the number for a longer key.
func (x *simulation) distinct(paths []string, c counts) int64 {
	n := int64(len(c.docs))
	switch {
	case c.most == 1:
		n = x.total
	case c.once > 0:
		n += int64(float64(c.once) * (math.Sqrt(x.perSample) - 1))
	}
	if len(paths) == 1 {
		if known := x.workload.Values[paths[0]]; known > 0 {
			n = known
		}
	}
	for _, path := range paths {
		n = max(n, min(x.workload.Values[path], x.total))
	}
	return min(n, x.total)
}
