package query

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// TestRows runs testdata/rows, the cases about the rows that a document produces. The
// commands are those of TestText, and
//
//	container     members of the container in addition to its id and key
//	exact         whether the index alone says which documents pass, for a filter a line
func TestRows(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/rows/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			s := &rowStory{story: story{ix: newIndex(t)}}
			datadriven.RunTest(t, path, s.run)
		})
	}
}

type rowStory struct {
	story
	computed []resource.ComputedProperty
}

// errorOutput matches an error. No row has a space after a number.
var errorOutput = regexp.MustCompile(`^4\d\d `)

func (s *rowStory) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "container":
		return s.container(t, d)
	case "load":
		return s.load(t, d)
	case "query", "error":
		page, partitions := 0, 1
		d.MaybeScanArgs(t, "page", &page)
		d.MaybeScanArgs(t, "partitions", &partitions)
		out := s.rows(t, d.Input, page, partitions)
		if failed := errorOutput.MatchString(out); failed != (d.Cmd == "error") {
			t.Fatalf("%s: %s", d.Pos, out)
		}
		return out
	case "access", "exact", "ranges":
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSpace(line)
			b.WriteString(line + " -> " + s.question(t, d, line) + "\n")
		}
		return b.String()
	}
	return s.story.run(t, d)
}

// container reads a definition as the engine does.
func (s *rowStory) container(t *testing.T, d *datadriven.TestData) string {
	body, err := value.ParseString(d.Input)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	body = body.With("id", value.String("c"))
	if !body.Get("partitionKey").IsDefined() {
		body = body.With("partitionKey", value.Object([]value.Member{{Name: "paths", Value: value.Array([]value.Value{value.String("/pk")})}}))
	}
	c, err := resource.ParseContainer(body)
	if err == nil {
		_, err = CompileComputed(c.Indexing.Computed)
	}
	if err != nil {
		return failure(err)
	}
	if s.ix, err = index.Compile(c.Indexing); err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	s.computed = c.Indexing.Computed
	return ""
}

// load stores documents as a partition does: the index gets them with their
// computed properties.
func (s *rowStory) load(t *testing.T, d *datadriven.TestData) string {
	computed, err := CompileComputed(s.computed)
	if err != nil {
		t.Fatal(err)
	}
	s.docs = nil
	for line := range strings.Lines(d.Input) {
		doc := newDocument(t, nil, uint64(len(s.docs)+1), strings.TrimSpace(line))
		extended, err := computed.Extend(doc.body)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		doc.terms = s.ix.Terms(nil, extended)
		s.docs = append(s.docs, doc)
	}
	return ""
}

// rows runs a query with and without the index, which must give the same rows.
func (s *rowStory) rows(t *testing.T, text string, page, partitions int) string {
	run := func(ix *index.Index) string {
		p, err := Compile(text, s.params, ix, Options{Computed: s.computed})
		if err != nil {
			return failure(err)
		}
		rows, _, err := all(t.Context(), p, s.docs.split(partitions), Budget{MaxItems: page})
		if err != nil {
			return failure(err)
		}
		var b strings.Builder
		for _, row := range rows {
			b.Write(append(row.JSON, '\n'))
		}
		if b.Len() == 0 {
			return "no rows"
		}
		return b.String()
	}
	out := run(s.ix)
	if without := run(nil); out != without && !strings.HasPrefix(out, "4") {
		t.Errorf("%s\nwith the index:\n%s\nwithout:\n%s", text, out, without)
	}
	return out
}

// question evaluates one line: a filter of c, or a whole query.
func (s *rowStory) question(t *testing.T, d *datadriven.TestData, line string) string {
	text := line
	if !strings.HasPrefix(line, "SELECT") {
		text = "SELECT * FROM c WHERE " + line
	}
	p, err := Compile(text, s.params, s.ix, Options{Computed: s.computed})
	if err != nil {
		return failure(err)
	}
	switch d.Cmd {
	case "access":
		return p.Access().String()
	case "ranges":
		return describeKeys(p, definition(t, d))
	}
	if p.exact {
		return "exact"
	}
	return "to be filtered"
}

// TestComputedLimit defines as many computed properties as the service allows.
func TestComputedLimit(t *testing.T) {
	t.Parallel()
	var list []resource.ComputedProperty
	for i := range computedMax {
		list = append(list, resource.ComputedProperty{Name: fmt.Sprint("p", i), Query: "SELECT VALUE c.a FROM c"})
	}
	if _, err := CompileComputed(list); err != nil {
		t.Error(err)
	}
	list = append(list, resource.ComputedProperty{Name: "more", Query: "SELECT VALUE c.a FROM c"})
	if _, err := CompileComputed(list); status.CodeOf(err) != status.CodeBadRequest {
		t.Errorf("%d properties: %v", len(list), err)
	}
}

// TestExtend shows which properties a write adds for the index.
func TestExtend(t *testing.T) {
	t.Parallel()
	d, err := CompileComputed([]resource.ComputedProperty{
		{Name: "twice", Query: "SELECT VALUE c.m * 2 FROM c"},
		{Name: "n", Query: "SELECT VALUE {was: d.n} FROM d"},
		{Name: "gone", Query: "SELECT VALUE c.nothing FROM c"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"id":"1","n":4,"gone":1,"m":4}`: `{"id":"1","n":{"was":4},"m":4,"twice":8}`,
		` {"n":"x"} `:                     `{"n":{"was":"x"}}`,
		`{}`:                              `{"n":{}}`,
	} {
		got, err := d.Extend([]byte(body))
		if err != nil || got.JSON() != want {
			t.Errorf("%s: %s, %v, want %s", body, got.JSON(), err, want)
		}
	}
	if _, err := d.Extend([]byte(`{"n":`)); err == nil {
		t.Error("Extend accepts a document that is not JSON")
	}
	var none *Computed
	if got, err := none.Extend([]byte(`{"n":1}`)); err != nil || got.JSON() != `{"n":1}` {
		t.Errorf("%s, %v", got.JSON(), err)
	}
}
