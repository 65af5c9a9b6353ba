package simulate

import (
	"math"
	"slices"

	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Sample is a part of the documents of a container, chosen so that each document had
// the same chance.
type Sample struct {
	Documents []value.Value
}

// Workload says what a container will hold and how it will be used. Its JSON form is
// the file of the command.
type Workload struct {
	// Documents is how many the container will hold; zero or less than the sample: the
	// sample is all.
	Documents int64 `json:"documents,omitzero"`

	// ItemBytes is the mean size of a document; zero: that of the sample.
	ItemBytes int `json:"itemBytes,omitzero"`

	// Throughput is what is provisioned, in RU/s; zero: what the operations need.
	Throughput int `json:"throughput,omitzero"`

	WritesPerSecond float64 `json:"writesPerSecond,omitzero"`
	ReadsPerSecond  float64 `json:"readsPerSecond,omitzero"` // point reads, with the whole key

	// LoadHours is the time in which all documents must be loaded; zero: there is none.
	LoadHours float64 `json:"loadHours,omitzero"`

	// Values are the numbers of distinct values at paths, where a sample does not show
	// them: {"/userId": 2000000}.
	Values map[string]int64 `json:"values,omitzero"`

	// Largest is the share of all documents that the greatest value at a path has:
	// {"/tenantId": 0.4}.
	Largest map[string]float64 `json:"largest,omitzero"`

	// Busiest is the share of writes and point reads that the busiest value at a path
	// has. Without it the work is where the documents are.
	Busiest map[string]float64 `json:"busiest,omitzero"`

	// Growth are the factors by which the data may grow, each 1 or more; nil: 10 and 100.
	Growth []float64 `json:"growth,omitzero"`

	Queries []Query `json:"queries,omitzero"`
}

// growthMax is the number of factors, and factorMax the greatest.
const (
	growthMax = 5
	factorMax = 1e6
)

// Query is a query and how often it runs.
type Query struct {
	Text       string      `json:"query"`
	Parameters []Parameter `json:"parameters,omitzero"`
	PerSecond  float64     `json:"perSecond"`
}

// Parameter is a parameter of a query: a value, or a path whose values in the sample
// take turns. All parameters with a path get their values from the same document.
type Parameter struct {
	Name  string      `json:"name"`
	Value value.Value `json:"value,omitzero"`
	Path  string      `json:"path,omitzero"`
}

func (w *Workload) validate() error {
	positive := func(name string, f float64) error {
		if f < 0 || math.IsInf(f, 0) || math.IsNaN(f) {
			return status.BadRequest("The workload's %s is %v; it must be zero or more.", name, f)
		}
		return nil
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"documents", float64(w.Documents)},
		{"itemBytes", float64(w.ItemBytes)},
		{"throughput", float64(w.Throughput)},
		{"writesPerSecond", w.WritesPerSecond},
		{"readsPerSecond", w.ReadsPerSecond},
		{"loadHours", w.LoadHours},
	} {
		if err := positive(f.name, f.value); err != nil {
			return err
		}
	}
	for _, path := range sortedKeys(w.Values) {
		if w.Values[path] < 1 {
			return status.BadRequest("The workload's values of %s are %d; there must be one or more.", path, w.Values[path])
		}
	}
	for name, shares := range map[string]map[string]float64{"largest": w.Largest, "busiest": w.Busiest} {
		for _, path := range sortedKeys(shares) {
			if share := shares[path]; !(share > 0 && share < 1) {
				return status.BadRequest("The workload's %s of %s is %v; a share is above 0 and below 1.", name, path, share)
			}
		}
	}
	if len(w.Growth) > growthMax {
		return status.BadRequest("The workload's growth has %d factors; give at most %d.", len(w.Growth), growthMax)
	}
	for _, factor := range w.Growth {
		if !(factor >= 1 && factor <= factorMax) {
			return status.BadRequest("The workload's growth has the factor %v; a factor is from 1 to %.0f.", factor, factorMax)
		}
	}
	for _, q := range w.Queries {
		if err := positive("perSecond of a query", q.PerSecond); err != nil {
			return err
		}
	}
	return nil
}

// instances is the number of documents that give their values to the parameters of a
// query.
const instances = 25

// prepared is a query of the workload with each set of its parameters.
type prepared struct {
	Query
	plans []instance
}

// instance is a query with one set of parameters.
type instance struct {
	plan    *query.Plan
	share   float64 // of the executions
	own     float64 // documents of the container with the same values, in the mean; 0 without
	most    float64 // rows after which the query ends, by TOP or LIMIT without ORDER BY; 0 without
	loaded  []int   // the documents of the sample that the index finds, by number
	matched []int   // those that pass the filter

	groups   map[int][]string     // see group; nil for rows of single documents
	combined map[string]*combined // see combine
}

// prepare compiles the queries and runs them on the sample.
func (x *simulation) prepare() error {
	for _, q := range x.workload.Queries {
		p := prepared{Query: q}
		from, paths, err := x.instancesOf(q)
		if err != nil {
			return err
		}
		own, err := x.sharing(paths)
		if err != nil {
			return err
		}
		var sum float64
		for _, i := range from {
			params := make([]query.Param, len(q.Parameters))
			for k, parameter := range q.Parameters {
				params[k] = query.Param{Name: parameter.Name, Value: parameter.Value}
				if parameter.Path != "" {
					path, err := value.ParsePath(parameter.Path)
					if err != nil {
						return status.BadRequest("%s is no path: %v", parameter.Path, err)
					}
					params[k].Value = x.documents[i].value.At(path)
				}
			}
			plan, err := query.Compile(q.Text, params, x.ix, query.Options{Limits: x.Limits})
			if err != nil {
				return status.BadRequest("The query %s is not valid: %v", shorten(q.Text), err)
			}
			if plan.Hybrid() != nil {
				return status.BadRequest("The query %s ranks documents by several scores, which the advisor does not simulate.", shorten(q.Text))
			}
			one := instance{plan: plan, share: x.documents[i].work, own: own, most: most(plan)}
			sum += one.share
			if err := x.match(&one); err != nil {
				return err
			}
			if err := x.group(&one); err != nil {
				return err
			}
			p.plans = append(p.plans, one)
		}
		for i := range p.plans {
			p.plans[i].share /= sum
		}
		x.queries = append(x.queries, p)
	}
	return nil
}

// most returns the number of rows after which a query without an order ends; 0 if it
// does not end before its last row.
func most(plan *query.Plan) float64 {
	if plan.Ordered() || !plan.Limited() {
		return 0
	}
	info := plan.Describe(partitionkey.Definition{Paths: []string{"/id"}, Version: 2}).Get("queryInfo")
	return max(info.Get("top").Float(), info.Get("offset").Float()+info.Get("limit").Float())
}

// instancesOf returns the documents whose values a query takes, and the paths of these
// values: one document and no path if it takes none.
func (x *simulation) instancesOf(q Query) (documents []int, paths []string, err error) {
	for _, p := range q.Parameters {
		if p.Path != "" && p.Value.IsDefined() {
			return nil, nil, status.BadRequest("The parameter %s has a value and a path; it can have one of them.", p.Name)
		}
		if p.Path != "" {
			paths = append(paths, p.Path)
		}
	}
	n := len(x.documents)
	if len(paths) == 0 {
		return []int{0}, nil, nil
	}
	for k := range min(n, instances) {
		documents = append(documents, k*n/min(n, instances))
	}
	return documents, paths, nil
}

// sharing returns the mean number of documents of the container that have the same
// values at the paths, of which the first three count.
func (x *simulation) sharing(paths []string) (float64, error) {
	if len(paths) == 0 {
		return 0, nil
	}
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	paths = paths[:min(len(paths), partitionkey.LevelsMax)]
	key, err := keyAt(paths)
	if err != nil {
		return 0, status.BadRequest("The parameters have a path that no key can have: %v", err)
	}
	return min(x.perSample, float64(x.total)/float64(x.distinct(paths, x.count(key)))), nil
}
