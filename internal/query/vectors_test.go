package query

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// TestVectors runs the examples of the language that the project collected. Those
// in testdata/vectors/unsupported.txt must be refused as unsupported; an example
// that works must be removed from the list, so the list only shrinks.
func TestVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/vectors/query-examples.json")
	if err != nil {
		t.Fatal(err)
	}
	suites, err := value.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/vectors/unsupported.txt")
	if err != nil {
		t.Fatal(err)
	}
	later := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			later[line] = true
		}
	}
	seen := map[string]bool{}
	for _, suite := range suites.Items() {
		for _, c := range suite.Get("cases").Items() {
			text := c.Get("query").Text()
			seen[text] = seen[text] || later[text]
			t.Run(suite.Get("name").Text()+"/"+text, func(t *testing.T) {
				t.Parallel()
				runVector(t, suite, c, later[text])
			})
		}
	}
	for text := range later {
		if !seen[text] {
			t.Errorf("unsupported.txt lists a query that is in no suite: %s", text)
		}
	}
}

func runVector(t *testing.T, suite, c value.Value, later bool) {
	def := partitionkey.Definition{Paths: []string{suite.Get("container").Get("partitionKey").Get("paths").Index(0).Text()}}.Normalize()
	policy := vectorPolicy(t, suite.Get("container"))
	rows, err := vectorRows(t, suite, c, def, policy)
	if later {
		if e := status.From(err); e == nil || !strings.Contains(e.Message, "is not supported by this version of Decan") {
			t.Fatalf("listed as unsupported; got rows %v, error %v: take it off the list", rows, err)
		}
		return
	}
	if want := c.Get("expect").Get("error"); want.IsDefined() {
		e := status.From(err)
		if e == nil || value.Int(int64(e.Code)).Float() != want.Get("status").Float() || !strings.Contains(e.Message, want.Get("code").Text()) {
			t.Fatalf("got %v, %v, want error %s", rows, err, want.JSON())
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	expect := c.Get("expect")
	got, want := slices.Clone(rows), slices.Clone(expect.Get("documents").Items())
	if !expect.Get("ordered").IsTrue() {
		slices.SortFunc(got, value.Compare)
		slices.SortFunc(want, value.Compare)
	}
	if !slices.EqualFunc(got, want, value.Equal) {
		t.Fatalf("got %s, want %s", value.Array(got).JSON(), value.Array(want).JSON())
	}
}

// vectorRows runs a case over four partitions, of which it visits those that the
// plan names.
func vectorRows(t *testing.T, suite, c value.Value, def partitionkey.Definition, policy resource.IndexingPolicy) ([]value.Value, error) {
	ix, err := index.Compile(policy)
	if err != nil {
		t.Fatal(err)
	}
	computed, err := CompileComputed(policy.Computed)
	if err != nil {
		t.Fatal(err)
	}
	var params []Param
	for _, p := range c.Get("parameters").Items() {
		params = append(params, Param{Name: p.Get("name").Text(), Value: p.Get("value")})
	}
	p, err := Compile(c.Get("query").Text(), params, ix, Options{Computed: policy.Computed, Functions: suiteFunctions(t, suite.Get("container"))})
	if err != nil {
		return nil, err
	}
	ranges := p.Ranges(def)
	if key := c.Get("options").Get("partitionKey"); key.IsDefined() {
		k, err := partitionkey.Parse(key.JSON())
		if err != nil {
			t.Fatal(err)
		}
		r, err := def.Prefix(k)
		if err != nil {
			t.Fatal(err)
		}
		ranges = []partitionkey.Range{r}
	}
	var parts []list
	for _, partition := range def.Divide(4) {
		for _, r := range ranges {
			if visit, ok := partition.Intersect(r); ok {
				parts = append(parts, vectorDocuments(t, suite, def, ix, computed, visit))
			}
		}
	}
	rows, _, err := all(t.Context(), p, parts, Budget{MaxItems: int(c.Get("options").Get("maxItemCount").Float())})
	var out []value.Value
	for _, row := range rows {
		v, err := value.Parse(row.JSON)
		if err != nil {
			t.Fatalf("row %s: %v", row.JSON, err)
		}
		out = append(out, v)
	}
	return out, err
}

// suiteFunctions returns the user-defined functions of a suite.
func suiteFunctions(t *testing.T, container value.Value) func(name string) (Function, bool) {
	defined := container.Get("userDefinedFunctions").Items()
	if len(defined) == 0 {
		return nil
	}
	runner := script.New(script.Limits{})
	t.Cleanup(runner.Close)
	return func(name string) (Function, bool) {
		for _, f := range defined {
			if f.Get("id").Text() != name {
				continue
			}
			program, err := runner.Compile(t.Context(), script.Function, name, f.Get("body").Text())
			if err != nil {
				t.Fatal(err)
			}
			return program.Call, true
		}
		return nil, false
	}
}

func vectorDocuments(t *testing.T, suite value.Value, def partitionkey.Definition, ix *index.Index, computed *Computed, r partitionkey.Range) list {
	var docs list
	for i, d := range suite.Get("documents").Items() {
		d = d.With("_rid", value.String(fmt.Sprintf("rid%d", i)))
		if r.Contains(def.Hash(keyOf(def, d))) {
			doc := newDocument(t, nil, uint64(i+1), d.JSON())
			extended, err := computed.Extend(doc.body)
			if err != nil {
				t.Fatal(err)
			}
			doc.terms = ix.Terms(nil, extended)
			docs = append(docs, doc)
		}
	}
	return docs
}

// keyOf extracts the key of a document, as a container does.
func keyOf(d partitionkey.Definition, doc value.Value) partitionkey.Key {
	var key partitionkey.Key
	for _, text := range d.Paths {
		path, err := value.ParsePath(text)
		if err != nil {
			panic(err)
		}
		c, ok := component(doc.At(path))
		if !ok {
			c = partitionkey.Undefined()
		}
		key = key.Append(c)
	}
	return key
}

// vectorPolicy reads the container of a suite as the engine does.
func vectorPolicy(t *testing.T, container value.Value) resource.IndexingPolicy {
	body := value.Object([]value.Member{{Name: "id", Value: value.String("c")}})
	for _, m := range container.Members() {
		if m.Name != "userDefinedFunctions" {
			body = body.With(m.Name, m.Value)
		}
	}
	c, err := resource.ParseContainer(body)
	if err != nil {
		t.Fatal(err)
	}
	return c.Indexing
}
