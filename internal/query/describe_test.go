package query

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// TestDescribe runs testdata/describe. The commands are
//
//	params            as in TestText
//	index             a policy, for the commands that follow
//	plan key=(/a)     the plan for clients, or why there is none
//	explain           how the plan runs
//	indexes           what it uses
func TestDescribe(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/describe/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := &story{}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "params":
					return s.setParams(t, d)
				case "index":
					s.ix = containerIndex(t, `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"indexingPolicy":`+d.Input+`}`)
					return ""
				}
				p, err := Compile(d.Input, s.params, s.ix, Options{})
				if err != nil {
					return failure(err)
				}
				switch d.Cmd {
				case "explain":
					return p.Explain().String()
				case "indexes":
					return p.Indexes().Value().JSON()
				}
				def := definition(t, d)
				if err := p.Describable(def); err != nil {
					return failure(err) + "\nneeds " + strings.Join(p.Needs().Names(), " ")
				}
				return describeHybrid(p, def) + describe(p, def)
			})
		})
	}
}

// describeHybrid shows the plan of a query with ORDER BY RANK, "" for others.
func describeHybrid(p *Plan, d partitionkey.Definition) string {
	hybrid := p.Describe(d).Get("hybridSearchQueryInfo")
	var b strings.Builder
	for _, m := range hybrid.Members() {
		if m.Name != "componentQueryInfos" {
			b.WriteString(m.Name + " " + m.Value.JSON() + "\n")
			continue
		}
		for _, info := range m.Value.Items() {
			for _, name := range []string{"top", "orderBy", "orderByExpressions", "rewrittenQuery", "hasNonStreamingOrderBy"} {
				b.WriteString("  " + name + " " + info.Get(name).JSON() + "\n")
			}
		}
	}
	return b.String()
}

// containerIndex compiles the policies of a container.
func containerIndex(t *testing.T, definition string) *index.Index {
	t.Helper()
	body, err := value.ParseString(definition)
	if err != nil {
		t.Fatal(err)
	}
	c, err := resource.ParseContainer(body)
	if err != nil {
		t.Fatal(err)
	}
	ix, err := index.Compile(c.Indexing)
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

// TestAppendPlan shows that weights have a fraction, whatever the texts of the
// plan contain.
func TestAppendPlan(t *testing.T) {
	t.Parallel()
	p, err := Compile(`SELECT TOP 5 c.id, '"componentWeights":[2,1]' AS trap FROM c ORDER BY RANK RRF(FullTextScore(c.text, "a"), FullTextScore(c.text, "b"), [2, 1e-7])`, nil, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := partitionkey.Definition{Paths: []string{"/pk"}}.Normalize()
	text := string(AppendPlan([]byte("before"), p.Describe(d)))
	if !strings.HasPrefix(text, "before{") || !strings.Contains(text, `"componentWeights":[2.0,1e-7]`) {
		t.Error(text)
	}
	if v, err := value.ParseString(strings.TrimPrefix(text, "before")); err != nil || !value.Equal(v, p.Describe(d)) {
		t.Error(err, v)
	}
}
