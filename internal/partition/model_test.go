package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// model is the expected content of a partition, as simple as possible.
type model struct {
	documents map[string]*modelDocument // by key and id
	inserted  int

	// complete and incomplete count the spans that were reported as such.
	complete, incomplete int
}

type modelDocument struct {
	order   int // of insertion
	epk     partitionkey.EPK
	doc     value.Value
	id, key string
	number  uint64
	body    string // complete
}

// richPolicy has every kind of index, with vectors of this type of index.
func richPolicy(vectors string) string {
	return `{"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/double/?"},{"path":"/list/[]/{x, y}/?"}],"excludedPaths":[{"path":"/v/*"}],` +
		`"compositeIndexes":[[{"path":"/n","order":"ascending"},{"path":"/m/x","order":"descending"}],[{"path":"/double"},{"path":"/_ts"}]],` +
		`"spatialIndexes":[{"path":"/g/*","types":["Point"]}],"fullTextIndexes":[{"path":"/text"}],"vectorIndexes":[{"path":"/v","type":"` + vectors + `"}]},` +
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"float32","dimensions":3,"distanceFunction":"cosine"}]},` +
		`"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/text","language":"en-US"}]},` +
		`"computedProperties":[{"name":"double","query":"SELECT VALUE c.n * 2 FROM c"}]}`
}

// containerPolicy indexes everything.
var containerPolicy = resource.IndexingPolicy{Mode: resource.IndexingConsistent, Automatic: true, Included: []string{"/*"}}

// TestModel draws operations and queries, and compares the results with a map: with
// every kind of key, way of reading, page size and range, and across restarts.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, shape := range []struct {
		name    string
		version int
		paths   []string
	}{
		{"hash1", 1, []string{"/a"}},
		{"hash2", 2, []string{"/a"}},
		{"levels=2", 2, []string{"/a", "/b"}},
		{"levels=3", 2, []string{"/a", "/b", "/c"}},
	} {
		for _, seed := range []uint64{1, 2} {
			t.Run(fmt.Sprintf("%s/seed=%d", shape.name, seed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, containerWith(t, shape.version, shape.paths, ""))
				runModel(t, w, rand.New(rand.NewPCG(seed, 0)))
			})
		}
	}
}

func runModel(t *testing.T, w *world, random *rand.Rand) {
	m := &model{documents: map[string]*modelDocument{}}
	policies := []string{"", `{"includedPaths":[{"path":"/n/?"}],"excludedPaths":[{"path":"/*"}]}`, `{"indexingMode":"none"}`, richPolicy("flat"), richPolicy("quantizedFlat")}
	exact := 0
	w.partition.Load().steps.sweepDocuments = 7
	for step := range 260 {
		w.clock.Add(int64(random.IntN(2)))
		m.step(t, w, random)
		switch {
		case step%60 == 59:
			m.compare(t, w, random)
			exact += m.compareIndexed(t, w, random)
		case step%130 == 75:
			if err := w.crash(0, uint64(step)); err != nil {
				t.Fatal(err)
			}
			w.partition.Load().steps.sweepDocuments = 7
		case step%50 == 35:
			c := *w.container.Load()
			c.Indexing = containerWith(t, 2, []string{"/a"}, policies[random.IntN(len(policies))]).Indexing
			w.container.Store(&c)
			w.partition.Load().Reindex()
		}
	}
	w.partition.Load().waitIdle()
	m.compare(t, w, random)
	if exact += m.compareIndexed(t, w, random); exact < 20 {
		t.Errorf("only %d counts were exact", exact)
	}
	if m.complete < 20 || m.incomplete < 20 {
		t.Errorf("%d spans were complete and %d were not", m.complete, m.incomplete)
	}
	report := w.check()
	if !report.Clean() {
		t.Errorf("%q", report.Problems)
	}
	if report.Documents != int64(len(m.documents)) {
		t.Errorf("%d documents, want %d", report.Documents, len(m.documents))
	}
}

// drawDocument draws one of a few documents, so that operations collide.
func drawDocument(random *rand.Rand) value.Value {
	members := []value.Member{{Name: "id", Value: value.String(fmt.Sprint("i", random.IntN(30)))}}
	components := []value.Value{value.String("x"), value.String("y"), value.Int(1), value.Null(), value.Bool(true), {}, value.String(strings.Repeat("long", 40) + fmt.Sprint(random.IntN(2)))}
	for _, name := range []string{"a", "b", "c"} {
		members = append(members, value.Member{Name: name, Value: components[random.IntN(len(components))]})
	}
	scalars := []value.Value{value.Int(int64(random.IntN(6))), value.String("s"), value.Null(), {}, value.Array([]value.Value{value.Int(1), value.Int(int64(random.IntN(4)))}), value.Number(2.5)}
	members = append(members,
		value.Member{Name: "n", Value: scalars[random.IntN(len(scalars))]},
		value.Member{Name: "m", Value: value.Object([]value.Member{{Name: "x", Value: scalars[random.IntN(len(scalars))]}})},
		value.Member{Name: "v", Value: value.Array([]value.Value{value.Int(int64(random.IntN(2))), value.Number(0.5), scalars[random.IntN(2)]})},
		value.Member{Name: "g", Value: value.Object([]value.Member{
			{Name: "type", Value: value.String("Point")},
			{Name: "coordinates", Value: value.Array([]value.Value{value.Int(int64(random.IntN(90))), value.Int(int64(random.IntN(90)))})},
		})},
		value.Member{Name: "list", Value: value.Array([]value.Value{
			value.Object([]value.Member{{Name: "x", Value: scalars[random.IntN(len(scalars))]}, {Name: "y", Value: value.Int(1)}}),
			value.Object([]value.Member{{Name: "x", Value: value.String("s")}, {Name: "y", Value: value.Int(int64(random.IntN(3)))}}),
			value.Object([]value.Member{{Name: "x", Value: value.String("s")}, {Name: "y", Value: value.Null()}}),
		})},
		value.Member{Name: "text", Value: value.String([]string{"red houses", "a red house by the sea", "Sea", ""}[random.IntN(4)])},
		value.Member{Name: "pad", Value: value.String(strings.Repeat("p", random.IntN(200)))})
	return value.Object(members)
}

func (m *model) step(t *testing.T, w *world, random *rand.Rand) {
	c := w.container.Load()
	doc := drawDocument(random)
	key := c.KeyOf(doc)
	id := doc.Get("id").Text()
	name := string(key.Canonical(c.PartitionKey)) + "|" + id
	op := Op(random.IntN(4))
	before := m.documents[name]
	newName := name
	written := doc
	if op == Replace && random.IntN(3) == 0 {
		written = doc.With("id", value.String(fmt.Sprint("i", random.IntN(30))))
		newName = string(key.Canonical(c.PartitionKey)) + "|" + written.Get("id").Text()
	}
	want := status.Code(0)
	switch {
	case op == Create && before != nil:
		want = status.CodeConflict
	case (op == Replace || op == Delete) && before == nil:
		want = status.CodeNotFound
	case op == Replace && newName != name && m.documents[newName] != nil:
		want = status.CodeConflict
	}
	got, err := w.write(op, written, func(request *Write) { request.ID = id })
	if status.CodeOf(err) != want {
		t.Fatalf("%s of %s: got %v, want status %d", op, written, err, want)
	}
	if want != 0 {
		return
	}
	if op == Delete {
		delete(m.documents, name)
		return
	}
	after := &modelDocument{number: got.Number, body: string(got.Body), doc: written, epk: c.PartitionKey.Hash(key), id: written.Get("id").Text(), key: newName}
	if before == nil {
		m.inserted++
		after.order = m.inserted
	} else {
		after.order = before.order
		delete(m.documents, name)
	}
	m.documents[newName] = after
	body, err := value.Parse(got.Body)
	if err != nil || !value.Equal(body.Without(layout.SystemProperties...), written) {
		t.Fatalf("%s answered %s (%v), want the body %s", op, got.Body, err, written)
	}
	found, err := w.read(key, after.id, nil)
	if err != nil || string(found.Body) != string(got.Body) || found.ETag != got.ETag {
		t.Fatalf("read after %s: got %s (%v), want %s", op, found.Body, err, got.Body)
	}
}

// compare runs queries in every way and compares the rows with the model's.
func (m *model) compare(t *testing.T, w *world, random *rand.Rand) {
	t.Helper()
	filters := []struct {
		text  string
		holds func(doc value.Value) bool
	}{
		{"true", func(value.Value) bool { return true }},
		{"c.n = 3", func(d value.Value) bool { return value.Equal(d.Get("n"), value.Int(3)) }},
		{"c.n >= 2", func(d value.Value) bool { return d.Get("n").Kind() == value.KindNumber && d.Get("n").Float() >= 2 }},
		{`c.n = 3 OR c.m.x = "s"`, func(d value.Value) bool {
			return value.Equal(d.Get("n"), value.Int(3)) || d.Get("m").Get("x").Text() == "s"
		}},
		{`c.n < 4 AND c.m.x = "s"`, func(d value.Value) bool {
			return d.Get("n").Kind() == value.KindNumber && d.Get("n").Float() < 4 && d.Get("m").Get("x").Text() == "s"
		}},
		{"ARRAY_CONTAINS(c.n, 1)", func(d value.Value) bool { return d.Get("n").Kind() == value.KindArray }},
		{"c.n = 99", func(value.Value) bool { return false }},
	}
	for _, strategy := range []scan.Strategy{
		scan.DefaultStrategy(),
		{ScanMax: 4, ScanBytes: 300, SortedMax: 3, WalkFactor: 1, Force: scan.Forced{Way: scan.Passes}},
		{ScanMax: 0, SortedMax: 2, Force: scan.Forced{Way: scan.Looks, Rosters: scan.Passes}},
		{ScanMax: 0, SortedMax: 2, Force: scan.Forced{Way: scan.Looks, Lists: true, Rosters: scan.Looks}},
		{ScanMax: 0, SortedMax: 2, Force: scan.Forced{Way: scan.Looks, Match: true}},
	} {
		w.partition.Load().waitIdle() // A rebuild does not run while the strategy changes.
		w.partition.Load().reader.Strategy = strategy
		for _, filter := range filters {
			r := m.drawRange(w, random)
			pageItems := []int{0, 2, 7}[random.IntN(3)]
			got, _, err := w.rows("SELECT VALUE c.id FROM c WHERE "+filter.text, r, pageItems, nil)
			if err != nil {
				t.Fatalf("%s in %s: %v", filter.text, r, err)
			}
			want := m.rows(r, filter.holds)
			if !slices.Equal(got, want) {
				t.Fatalf("%s in %s with %+v and pages of %d:\n got %s\nwant %s", filter.text, r, strategy, pageItems, got, want)
			}
		}
	}
}

func (m *model) rows(r partitionkey.Range, holds func(value.Value) bool) []string {
	var list []*modelDocument
	for _, d := range m.documents {
		if r.Contains(d.epk) && holds(d.doc) {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b *modelDocument) int { return a.order - b.order })
	var rows []string
	for _, d := range list {
		rows = append(rows, `"`+d.id+`"`)
	}
	return rows
}

// drawRange draws the whole range, that of a prefix of an existing key, that of one
// full key, or one between any two points.
func (m *model) drawRange(w *world, random *rand.Rand) partitionkey.Range {
	definition := w.container.Load().PartitionKey
	key := w.container.Load().KeyOf(drawDocument(random))
	switch random.IntN(4) {
	case 0:
		return partitionkey.Full()
	case 1:
		prefix := partitionkey.NewKey(key.Components()[:1+random.IntN(key.Len())]...)
		r, err := definition.Prefix(prefix)
		if err != nil {
			panic(err)
		}
		return r
	case 2:
		middle := definition.Middle(partitionkey.Full())
		return []partitionkey.Range{{Min: "", Max: middle}, {Min: middle, Max: partitionkey.MaxEPK}}[random.IntN(2)]
	}
	a, b := definition.Hash(key), definition.Hash(w.container.Load().KeyOf(drawDocument(random)))
	if a.Compare(b) > 0 {
		a, b = b, a
	}
	if a.Compare(b) == 0 {
		b = partitionkey.MaxEPK
	}
	return partitionkey.Range{Min: a, Max: b}
}
