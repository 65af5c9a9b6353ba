package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Route says how many partitions a query asks, as the documentation names it (S56).
type Route string

// The routes.
const (
	SinglePartition Route = "single partition" // the filter gives the whole key (S47)
	Targeted        Route = "targeted"         // a prefix of the key, or several keys (S48, S49)
	FanOut          Route = "fan-out"          // all partitions (S50, S51)
)

// Report is what a simulation of one candidate found.
type Report struct {
	Paths  []string `json:"paths"`
	Levels []Level  `json:"levels"`

	// Keys is the number of logical partitions, estimated.
	Keys int64 `json:"keys"`
	// LargestKey is the key with the most data, and LargestBytes its size.
	LargestKey   string `json:"largestKey"`
	LargestBytes int64  `json:"largestBytes"`
	// Refused is how many documents the server would refuse, because their logical
	// partitions are full (S26).
	Refused int64 `json:"refused"`

	// LogicalStorage and LogicalWork are over the full keys of the sample,
	// PhysicalStorage and PhysicalWork over the physical partitions (S19).
	LogicalStorage  Skew `json:"logicalStorage"`
	LogicalWork     Skew `json:"logicalWork"`
	PhysicalStorage Skew `json:"physicalStorage"`
	PhysicalWork    Skew `json:"physicalWork"`
	// Tenants is over the values of the first level (S35).
	Tenants Skew `json:"tenants"`

	Partitions int `json:"partitions"`
	Active     int `json:"active"` // with documents (S105)
	// Reach is how many of them have documents of the greatest value of the first level,
	// which can use the throughput of all these (S5, S46).
	Reach int `json:"reach"`

	// Throughput is what is provisioned, Needed what the operations use, in RU/s.
	Throughput int     `json:"throughput"`
	Needed     float64 `json:"needed"`
	// Hottest is what the busiest physical partition uses of its share of the
	// throughput: above 1 requests are refused with 429.
	Hottest float64 `json:"hottest"`
	// WriteShare is the share of all writes that go to the partition with the most.
	WriteShare float64 `json:"writeShare"`

	// IngestMost is the highest rate in theory, 10,000 RU/s for each physical partition
	// (S16), and Ingest what the distribution of the keys allows, both in RU/s.
	IngestMost float64 `json:"ingestMost"`
	Ingest     float64 `json:"ingest"`
	// LoadHours is how long loading all documents takes at that rate.
	LoadHours float64 `json:"loadHours"`

	Queries []QueryReport `json:"queries,omitzero"`
	// Asked is the mean number of physical partitions that a query asks.
	Asked float64 `json:"asked"`

	Growth   []Stage   `json:"growth,omitzero"`
	Findings []Finding `json:"findings"`
	Steps    []string  `json:"steps,omitzero"` // what to do

	grade grade
}

// Level is one level of a candidate.
type Level struct {
	Path    string  `json:"path"`
	Values  int64   `json:"values"`  // distinct values
	Largest float64 `json:"largest"` // share of the documents
	Missing float64 `json:"missing"` // share of the documents without the property
}

// QueryReport is what a query of the workload does under a candidate.
type QueryReport struct {
	Query      string  `json:"query"`
	PerSecond  float64 `json:"perSecond"`
	Route      Route   `json:"route"`
	Partitions float64 `json:"partitions"` // that it asks, in the mean over its parameters
	Charge     float64 `json:"charge"`     // RU of one execution, all pages
}

// Stage is the container at a multiple of its data.
type Stage struct {
	Factor       float64 `json:"factor"`
	Bytes        int64   `json:"bytes"`
	Partitions   int     `json:"partitions"`
	LargestBytes int64   `json:"largestBytes"`
	Refused      bool    `json:"refused"` // the largest key is full: 403 (S26)
}

// report simulates a candidate.
func (x *simulation) report(paths []string) (Report, error) {
	if err := x.err(); err != nil {
		return Report{}, err
	}
	c, err := containerOf(paths)
	if err != nil {
		return Report{}, err
	}
	r := Report{Paths: paths}
	counted := x.count(c.KeyOf)
	r.Keys = x.distinct(paths, counted)
	for i := range paths {
		level, err := x.level(paths, i)
		if err != nil {
			return Report{}, err
		}
		r.Levels = append(r.Levels, level)
	}
	groups, keys := x.groups(&c, counted, r.Keys)
	r.LargestKey, r.LargestBytes = counted.key, x.largestBytes(counted, r.Keys)
	r.Refused = x.refused(counted, r.LargestBytes)
	r.LogicalStorage = skewOf(slices.Collect(mapValues(counted.weights)))
	r.LogicalWork = skewOf(slices.Collect(mapValues(counted.work)))
	first, err := keyAt(paths[:1])
	if err != nil {
		return Report{}, err
	}
	tenants := x.count(first)
	r.Tenants = skewOf(slices.Collect(mapValues(tenants.work)))

	r.Throughput = x.workload.Throughput
	if r.Throughput == 0 {
		r.Throughput = x.size(c.PartitionKey, groups, keys)
	}
	laid := x.arrange(c.PartitionKey, groups, keys, r.Throughput, 1)
	r.Partitions, r.Active = laid.count(), laid.active()
	if r.Reach, err = x.reach(laid, first, tenants.key); err != nil {
		return Report{}, err
	}
	r.PhysicalStorage = laid.over(func(p part) float64 { return p.bytes })
	r.PhysicalWork = laid.over(func(p part) float64 { return p.work })
	load := x.load(laid, &r)
	r.Needed = load.total
	share := float64(r.Throughput) / float64(r.Partitions)
	for i, p := range laid.parts {
		r.Hottest = max(r.Hottest, load.parts[i]/float64(p.pieces)/share)
		r.WriteShare = max(r.WriteShare, p.work/float64(p.pieces))
	}
	r.IngestMost = float64(r.Partitions) * float64(x.Limits.PartitionRUs)
	r.Ingest = float64(x.Limits.PartitionRUs) / max(r.WriteShare, 1/float64(r.Partitions))
	r.LoadHours = float64(x.total) * x.writeCharge / r.Ingest / 3600
	for _, factor := range x.workload.Growth {
		r.Growth = append(r.Growth, x.stage(c.PartitionKey, groups, keys, counted, &r, factor))
	}
	x.judge(&r)
	return r, nil
}

// reach returns the number of physical partitions with documents of a value of the first
// level, which is given by its text.
func (x *simulation) reach(c *container, first func(value.Value) partitionkey.Key, name string) (int, error) {
	i := slices.IndexFunc(x.documents, func(d document) bool { return first(d.value).String() == name })
	if i < 0 {
		return 0, nil
	}
	r, err := c.key.Prefix(first(x.documents[i].value))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range c.parts {
		var bytes float64
		for _, g := range c.groups[p.from:p.to] {
			if r.Contains(g.epk) {
				bytes += g.bytes
			}
		}
		if bytes > 0 {
			n += int(math.Ceil(float64(p.pieces) * bytes / p.bytes * 0.999999))
		}
	}
	return n, nil
}

func mapValues(m map[string]float64) func(func(float64) bool) {
	return func(yield func(float64) bool) {
		for _, k := range sortedKeys(m) {
			if !yield(m[k]) {
				return
			}
		}
	}
}

func (x *simulation) level(paths []string, i int) (Level, error) {
	key, err := keyAt(paths[i : i+1])
	if err != nil {
		return Level{}, err
	}
	counted := x.count(key)
	return Level{
		Path: paths[i], Values: x.distinct(paths[i:i+1], counted), Largest: counted.largest,
		Missing: counted.weights[partitionkey.NewKey(partitionkey.Undefined()).String()],
	}, nil
}

// groups returns the logical partitions of the sample, by EPK, with what they hold of the
// container, and the number of keys of the container for each of them. If that is more
// than one, a key that occurs once in the sample is taken several times, with other
// values from the first level on at which nothing else in the sample has its values: few
// keys of a sample would otherwise look uneven where many keys are even.
func (x *simulation) groups(c *resource.Container, counted counts, distinct int64) ([]group, float64) {
	const copiesMax = 16
	keys := max(1, float64(distinct)/float64(len(counted.docs)))
	copies := min(copiesMax, int(keys))
	prefixes := map[string]int{}
	all := make([]partitionkey.Key, len(x.documents))
	for i := range x.documents {
		all[i] = c.KeyOf(x.documents[i].value)
		for level := 1; level < all[i].Len(); level++ {
			prefixes[prefix(all[i], level).String()]++
		}
	}
	list := make([]group, 0, len(counted.docs))
	seen := map[string]bool{}
	for _, key := range all {
		name := key.String()
		if seen[name] {
			continue
		}
		seen[name] = true
		g := group{epk: c.PartitionKey.Hash(key), name: name, bytes: counted.weights[name] * x.bytes, work: counted.work[name]}
		if counted.docs[name] > 1 || copies < 2 {
			list = append(list, g)
			continue
		}
		level := 0
		for level < key.Len()-1 && prefixes[prefix(key, level+1).String()] > 1 {
			level++
		}
		g.bytes /= float64(copies)
		g.work /= float64(copies)
		for n := range copies {
			other := prefix(key, level).Append(partitionkey.String(fmt.Sprint(name, n)))
			for other.Len() < key.Len() {
				other = other.Append(key.At(other.Len()))
			}
			g.epk = c.PartitionKey.Hash(other)
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b group) int { return cmp.Or(a.epk.Compare(b.epk), cmp.Compare(a.name, b.name)) })
	return list, max(1, float64(distinct)/float64(len(list)))
}

func prefix(k partitionkey.Key, levels int) partitionkey.Key {
	p := partitionkey.Key{}
	for i := range levels {
		p = p.Append(k.At(i))
	}
	return p
}

// largestBytes returns the size of the largest logical partition. A share of a sample
// says little about a key that it has once or twice: then all keys count as equal.
func (x *simulation) largestBytes(counted counts, keys int64) int64 {
	if counted.most < enough && keys > int64(len(counted.docs)) {
		return int64(x.bytes / float64(keys))
	}
	return int64(counted.largest * x.bytes)
}

// refused returns how many documents do not fit into their logical partitions.
func (x *simulation) refused(counted counts, largest int64) int64 {
	limit := float64(x.Limits.LogicalPartitionBytes)
	if float64(largest) <= limit {
		return 0
	}
	var over float64
	for weight := range mapValues(counted.weights) {
		over += max(0, weight*x.bytes-limit)
	}
	return int64(math.Ceil(over / (x.bytes / float64(x.total))))
}

// stage simulates a multiple of the data. If every document has a key of its own, there
// are more keys; otherwise each key has more documents.
func (x *simulation) stage(key partitionkey.Definition, groups []group, keys float64, counted counts, r *Report, factor float64) Stage {
	s := Stage{Factor: factor, Bytes: int64(x.bytes * factor), LargestBytes: r.LargestBytes}
	if counted.most == 1 && r.Keys == x.total {
		keys *= factor
	} else {
		s.LargestBytes = int64(min(float64(r.LargestBytes)*factor, math.MaxInt64/2))
	}
	s.Partitions = x.arrange(key, groups, keys, r.Throughput, factor).count()
	s.Refused = s.LargestBytes > x.Limits.LogicalPartitionBytes
	return s
}

// size returns what the operations need together, rounded up to 1,000 RU/s: queries that
// ask more partitions cost more, so it tries until the partitions of a throughput need no
// more. It is at least 400 RU/s and at most the limit of a container.
func (x *simulation) size(key partitionkey.Definition, groups []group, keys float64) int {
	const least, step = 400, 1000
	ru := float64(least)
	for range 12 {
		total := min(max(least, int(math.Ceil(ru/step))*step), x.Limits.ContainerRUs)
		if ru <= least {
			total = least
		}
		laid := x.arrange(key, groups, keys, total, 1)
		needed := x.load(laid, nil).total
		if needed <= float64(total) || total == x.Limits.ContainerRUs {
			return total
		}
		ru = needed
	}
	return x.Limits.ContainerRUs
}

// load is what the workload uses, in RU/s.
type load struct {
	total float64
	parts []float64 // by partition of the simulated container
}

// load computes it, and writes the reports of the queries into r if it is not nil.
func (x *simulation) load(c *container, r *Report) load {
	l := load{parts: make([]float64, len(c.parts))}
	units := x.workload.WritesPerSecond*x.writeCharge + x.workload.ReadsPerSecond*x.readCharge
	for i, p := range c.parts {
		l.parts[i] = units * p.work
	}
	l.total = units
	var asked, runs float64
	for i := range x.queries {
		q := &x.queries[i]
		report := QueryReport{Query: q.Text, PerSecond: q.PerSecond, Route: SinglePartition}
		for k := range q.plans {
			one := &q.plans[k]
			visit := x.visit(c, one)
			report.Route = wider(report.Route, visit.route)
			report.Partitions += one.share * visit.partitions
			report.Charge += one.share * visit.charge
			for i, charge := range visit.charges {
				if one.own > 0 && visit.route != FanOut {
					charge = visit.charge * c.parts[i].work // Other executions have other values.
				}
				l.parts[i] += q.PerSecond * one.share * charge
			}
		}
		report.Partitions = math.Round(report.Partitions*1e6) / 1e6 // The shares sum to 1 but for the last digits.
		l.total += q.PerSecond * report.Charge
		asked += q.PerSecond * report.Partitions
		runs += q.PerSecond
		if r != nil {
			r.Queries = append(r.Queries, report)
		}
	}
	if r != nil && runs > 0 {
		r.Asked = asked / runs
	}
	return l
}

func wider(a, b Route) Route {
	order := []Route{SinglePartition, Targeted, FanOut}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// visit is one execution of a query.
type visit struct {
	route      Route
	partitions float64
	charge     float64
	charges    []float64 // by partition of the simulated container
}

// visit routes a query as the server does, and charges what each partition does.
func (x *simulation) visit(c *container, one *instance) visit {
	v := visit{route: Targeted, charges: make([]float64, len(c.parts))}
	ranges := one.plan.Ranges(c.key)
	switch {
	case one.plan.Pinned(c.key):
		v.route = SinglePartition
	case len(ranges) == 1 && ranges[0].Equal(partitionkey.Full()):
		v.route = FanOut
	}
	spans := leaves(one.plan.Access())
	works := make([]struct{ documents, results float64 }, len(c.parts))
	places := x.places(c)
	name, loaded := "", one.loaded
	if v.route != FanOut {
		name = strings.Join(c.key.Paths, "\x00")
	}
	combined := x.combine(one, name, func(n int) bool { return within(ranges, places[n].epk) })
	if combined != nil && combined.answered {
		loaded = combined.loaded
	}
	for _, n := range loaded {
		if within(ranges, places[n].epk) {
			works[places[n].part].documents += one.standsFor(x, n)
		}
	}
	for _, n := range one.matched {
		if within(ranges, places[n].epk) {
			works[places[n].part].results += one.standsFor(x, n)
		}
	}
	size := x.bytes / float64(x.total)
	if one.most > 0 && len(one.matched) > 0 { // Each partition reads until it has the rows.
		reads := one.most * float64(len(one.loaded)) / float64(len(one.matched))
		for i := range works {
			works[i].documents, works[i].results = min(works[i].documents, reads), min(works[i].results, one.most)
		}
	}
	for i, p := range c.parts {
		if !slices.ContainsFunc(ranges, p.r.Overlaps) {
			continue
		}
		pieces := float64(p.pieces)
		if v.route == SinglePartition {
			pieces = 1
		}
		work := throughput.Work{
			Documents: int64(works[i].documents / pieces), Bytes: int64(works[i].documents * size / pieces),
			Results: int64(works[i].results / pieces), Lookups: spans,
		}
		if spans > 0 {
			work.Hits = work.Documents
		}
		if combined != nil {
			rows, hits := combined.in(x, pieces, func(n int) bool { return places[n].part == i && within(ranges, places[n].epk) })
			if work.Results = int64(rows); combined.answered {
				work.Lookups, work.Hits = combined.lookups, work.Documents+int64(hits)
			}
		}
		charge := x.read(throughput.Query(work)) * pieces
		v.charges[i] = charge
		v.charge += charge
		v.partitions += pieces
	}
	return v
}

// read returns the charge of a read at the consistency level of the account.
func (x *simulation) read(charge float64) float64 {
	if x.ReadTwice {
		return 2 * charge
	}
	return charge
}

// enough is how many documents of the sample say something about a key.
const enough = 3

// standsFor returns how many documents of the container a document of the sample stands
// for in an execution. A query that got its values from a document always finds it; if
// it finds few others, they stand for the mean number of documents with such values.
func (i *instance) standsFor(x *simulation, n int) float64 {
	if i.own > 0 && len(i.loaded) < enough {
		return i.own / float64(len(i.loaded))
	}
	return x.documents[n].weight * float64(x.total)
}

// place is where a document of the sample is.
type place struct {
	epk  partitionkey.EPK
	part int
}

// places returns the places of the documents of the sample.
func (x *simulation) places(c *container) []place {
	if c.places == nil {
		key, err := keyAt(c.key.Paths)
		c.places = make([]place, len(x.documents))
		for i := range x.documents {
			k := partitionkey.Key{}
			if err == nil {
				k = key(x.documents[i].value)
			}
			p := &c.places[i]
			p.epk = c.key.Hash(k)
			p.part, _ = slices.BinarySearchFunc(c.parts, p.epk, func(q part, e partitionkey.EPK) int {
				if q.r.Contains(e) {
					return 0
				}
				return q.r.Min.Compare(e)
			})
		}
	}
	return c.places
}

func within(ranges []partitionkey.Range, e partitionkey.EPK) bool {
	return slices.ContainsFunc(ranges, func(r partitionkey.Range) bool { return r.Contains(e) })
}
