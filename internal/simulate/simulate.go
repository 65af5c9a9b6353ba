// Package simulate tells how partition keys would work for given data and a given
// workload: where the data and the request units would be, what the queries would
// cost, and what happens when the data grows.
//
// Begin with [Advise], which compares candidate keys, or proposes them. It takes a
// [Sample] of documents and a [Workload], and returns [Advice]: a [Report] for each
// candidate, best first, and the findings in words. Each finding names the statement
// of the documentation that it applies (S4 to S62, S105 to S122 of the requirements).
//
// # Invariants
//
// The same input gives the same output. Routes, charges, splits and limits come from
// the packages that a server uses: partitionkey, query, throughput and placement. The
// package reads no file, asks no server and knows no clock.
//
// # Not here
//
// Reading samples, and carrying out advice: the command does both.
//
// Page: docs/advisor.md
package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// Settings are what a simulation assumes about the server.
type Settings struct {
	Limits   resource.Limits         // zero: the documented defaults
	Indexing resource.IndexingPolicy // zero: the default policy

	// ReadTwice means that the account's consistency level is strong or bounded staleness,
	// at which reads cost twice.
	ReadTwice bool

	// Table means that the container is a table of the Cassandra API: its keys have no
	// levels (S101), queries are not simulated, and logical partitions above the size that
	// Apache Cassandra advises are reported (S119). The caller gives the limits of tables,
	// see resource.Limits.OfTables (S120).
	Table bool
}

func (s Settings) withDefaults() Settings {
	if s.Limits == (resource.Limits{}) {
		s.Limits = resource.DefaultLimits()
	}
	if s.Indexing.Mode == "" {
		s.Indexing = resource.DefaultIndexing()
	}
	return s
}

// simulation is the part of the work that all candidates share.
type simulation struct {
	Settings
	ctx      context.Context
	workload Workload
	ix       *index.Index

	documents []document
	queries   []prepared
	total     int64   // documents of the container
	bytes     float64 // of all of them
	perSample float64 // documents of the container for one of the sample

	writeCharge float64 // of the mean insert
	readCharge  float64 // of the mean point read
	properties  []Property
}

// document is one document of the sample.
type document struct {
	value  value.Value
	body   []byte // JSON
	terms  []index.Term
	weight float64 // share of the documents of the container; all sum to 1
	work   float64 // share of the writes and point reads; all sum to 1
}

func newSimulation(ctx context.Context, sample Sample, w Workload, s Settings) (*simulation, error) {
	s = s.withDefaults()
	if len(sample.Documents) == 0 {
		return nil, status.BadRequest("The sample has no documents.")
	}
	if err := w.validate(); err != nil {
		return nil, err
	}
	if w.Growth == nil {
		w.Growth = []float64{10, 100}
	}
	if s.Table && len(w.Queries) > 0 {
		return nil, status.BadRequest("The queries of a table are CQL, which the advisor does not simulate: leave them out of the workload.")
	}
	ix, err := index.Compile(s.Indexing)
	if err != nil {
		return nil, err
	}
	x := &simulation{Settings: s, ctx: ctx, workload: w, ix: ix}
	var bytes, insert, read float64
	for _, d := range sample.Documents {
		if d.Kind() != value.KindObject {
			return nil, status.BadRequest("A document of the sample is not an object: %s", shorten(d.JSON()))
		}
		doc := document{value: d, body: d.Append(nil)}
		doc.terms = ix.Terms(nil, d)
		size := len(doc.body)
		if w.ItemBytes > 0 {
			size = w.ItemBytes
		}
		bytes += float64(size)
		insert += throughput.Insert(size, len(doc.terms))
		read += x.read(throughput.Read(size))
		x.documents = append(x.documents, doc)
	}
	n := float64(len(x.documents))
	x.total = max(w.Documents, int64(n))
	x.perSample = float64(x.total) / n
	x.bytes = bytes / n * float64(x.total)
	x.writeCharge, x.readCharge = insert/n, read/n
	if err := x.weigh(); err != nil {
		return nil, err
	}
	x.properties = x.findProperties()
	if err := x.prepare(); err != nil {
		return nil, err
	}
	x.ask()
	return x, nil
}

// weigh sets the weights of documents and work, so that the greatest and the busiest
// values have the shares that the workload names.
func (x *simulation) weigh() error {
	n := float64(len(x.documents))
	for i := range x.documents {
		x.documents[i].weight, x.documents[i].work = 1/n, 1/n
	}
	for _, path := range sortedKeys(x.workload.Largest) {
		if err := x.shift(path, x.workload.Largest[path], func(d *document) *float64 { return &d.weight }); err != nil {
			return err
		}
	}
	for i := range x.documents { // The work follows the data unless the workload says more.
		x.documents[i].work = x.documents[i].weight
	}
	for _, path := range sortedKeys(x.workload.Busiest) {
		if err := x.shift(path, x.workload.Busiest[path], func(d *document) *float64 { return &d.work }); err != nil {
			return err
		}
	}
	return nil
}

// shift gives the value with the greatest sum at a path the share, and all other
// documents the rest in their proportions.
func (x *simulation) shift(path string, share float64, of func(*document) *float64) error {
	key, err := keyAt([]string{path})
	if err != nil {
		return err
	}
	sums := map[string]float64{}
	names := make([]string, len(x.documents))
	for i := range x.documents {
		names[i] = key(x.documents[i].value).String()
		sums[names[i]] += *of(&x.documents[i])
	}
	if len(sums) < 2 {
		return nil // There is nothing to shift.
	}
	best := ""
	for _, name := range sortedKeys(sums) {
		if best == "" || sums[name] > sums[best] {
			best = name
		}
	}
	for i := range x.documents {
		w := of(&x.documents[i])
		if names[i] == best {
			*w *= share / sums[best]
		} else {
			*w *= (1 - share) / (1 - sums[best])
		}
	}
	return nil
}

// keyAt returns a function that reads the key of documents at the paths.
func keyAt(paths []string) (func(value.Value) partitionkey.Key, error) {
	c, err := containerOf(paths)
	if err != nil {
		return nil, err
	}
	return c.KeyOf, nil
}

// containerOf returns a container with a key of the paths, as a client would create it.
func containerOf(paths []string) (resource.Container, error) {
	items := make([]value.Value, len(paths))
	for i, p := range paths {
		items[i] = value.String(p)
	}
	kind := "Hash"
	if len(paths) > 1 {
		kind = "MultiHash"
	}
	return resource.ParseContainer(value.Object([]value.Member{
		{Name: "id", Value: value.String("candidate")},
		{Name: "partitionKey", Value: value.Object([]value.Member{
			{Name: "paths", Value: value.Array(items)},
			{Name: "kind", Value: value.String(kind)},
			{Name: "version", Value: value.Int(2)},
		})},
	}))
}

// shorten returns the beginning of a text that may be long.
func shorten(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Advise simulates the candidates and returns their reports, best first. Each candidate
// is a list of one to three paths, as in "/tenantId". Without candidates it proposes
// keys of the properties of the sample.
//
// The error is a BadRequest for an empty sample, a workload that is not valid, a query
// that does not compile and a candidate that no container can have; or that of ctx.
func Advise(ctx context.Context, sample Sample, w Workload, candidates [][]string, s Settings) (*Advice, error) {
	x, err := newSimulation(ctx, sample, w, s)
	if err != nil {
		return nil, err
	}
	proposing := len(candidates) == 0
	if proposing {
		candidates = x.propose()
	}
	advice := &Advice{
		Sampled: len(x.documents), Documents: x.total, Bytes: int64(x.bytes),
		WriteCharge: x.writeCharge, ReadCharge: x.readCharge,
		Properties: x.properties,
	}
	for _, paths := range candidates {
		if x.Table && len(paths) > 1 {
			return nil, status.BadRequest("%s: a table has no hierarchical key. Give one property for each candidate.", strings.Join(paths, ", "))
		}
		report, err := x.report(paths)
		if err != nil {
			if e := new(partitionkey.Error); errors.As(err, &e) {
				err = status.BadRequest("%s is no partition key: %s", strings.Join(paths, ", "), e.Message)
			}
			return nil, err
		}
		advice.Candidates = append(advice.Candidates, report)
	}
	if len(advice.Candidates) == 0 {
		return nil, status.BadRequest("No property of the sample can be a partition key: none is a text, a number or a boolean.")
	}
	rank(advice.Candidates)
	if proposing {
		advice.Candidates = advice.Candidates[:min(len(advice.Candidates), proposals)]
	}
	x.conclude(advice)
	return advice, nil
}

// proposals is the number of proposed keys that advice shows.
const proposals = 6

func (x *simulation) err() error {
	if err := context.Cause(x.ctx); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	return nil
}
