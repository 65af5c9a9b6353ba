package query

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// TestText runs testdata. The commands are
//
//	load [exclude=(/path/?,...)]     documents, one a line; a query then finds these
//	params                           name and value, one parameter a line; for the commands that follow
//	query [page=n] [partitions=n]    rows, one a line
//	error                            the error of compiling or running
//	plan key=(/a,/b)                 the plan for clients
//	ranges key=(/a,/b)               where the rows can be, for a filter a line
//	access                           the index expression, for a filter a line
//	values                           the value of an expression a line
func TestText(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := &story{ix: newIndex(t)}
			datadriven.RunTest(t, path, s.run)
		})
	}
}

type story struct {
	ix     *index.Index
	docs   list
	params []Param
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "load":
		return s.load(t, d)
	case "params":
		return s.setParams(t, d)
	case "query":
		page, partitions := 0, 1
		d.MaybeScanArgs(t, "page", &page)
		d.MaybeScanArgs(t, "partitions", &partitions)
		return s.query(t, d.Input, page, partitions)
	case "error":
		out := s.query(t, d.Input, 0, 1)
		if !strings.HasPrefix(out, "4") {
			t.Fatalf("%s: no error: %s", d.Pos, out)
		}
		return out
	case "plan":
		p, err := Compile(d.Input, s.params, s.ix, Options{})
		if err != nil {
			return failure(err)
		}
		return describe(p, definition(t, d))
	case "ranges", "access", "values":
		var out []string
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSpace(line)
			out = append(out, line+" -> "+s.line(t, d, line))
		}
		return strings.Join(out, "\n")
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func (s *story) load(t *testing.T, d *datadriven.TestData) string {
	var excluded []string
	for _, arg := range d.CmdArgs {
		excluded = arg.Vals
	}
	s.ix, s.docs = newIndex(t, excluded...), nil
	for line := range strings.Lines(d.Input) {
		s.docs = append(s.docs, newDocument(t, s.ix, uint64(len(s.docs)+1), strings.TrimSpace(line)))
	}
	return fmt.Sprintf("%d documents", len(s.docs))
}

func (s *story) setParams(t *testing.T, d *datadriven.TestData) string {
	s.params = nil
	for line := range strings.Lines(d.Input) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := value.ParseString(text)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		s.params = append(s.params, Param{Name: name, Value: v})
	}
	return ""
}

func (s *story) query(t *testing.T, text string, page, partitions int) string {
	p, err := Compile(text, s.params, s.ix, Options{})
	if err != nil {
		return failure(err)
	}
	rows, pages, err := all(t.Context(), p, s.docs.split(partitions), Budget{MaxItems: page})
	if err != nil {
		return failure(err)
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "%s\n", row.JSON)
	}
	if page > 0 {
		fmt.Fprintf(&b, "%d pages\n", pages)
	}
	if b.Len() == 0 {
		return "no rows"
	}
	return b.String()
}

// line evaluates one filter or expression.
func (s *story) line(t *testing.T, d *datadriven.TestData, line string) string {
	text := "SELECT * FROM c WHERE " + line
	if d.Cmd == "values" {
		text = "SELECT VALUE " + line
	}
	p, err := Compile(text, s.params, s.ix, Options{})
	if err != nil {
		return failure(err)
	}
	switch d.Cmd {
	case "access":
		return p.Access().String()
	case "ranges":
		return describeKeys(p, definition(t, d))
	}
	page, err := p.Run(t.Context(), list{}, Budget{})
	switch {
	case err != nil:
		return failure(err)
	case len(page.Rows) == 0:
		return "undefined"
	}
	return string(page.Rows[0].JSON)
}

// describe returns how a plan differs from the default.
func describe(p *Plan, d partitionkey.Definition) string {
	var b strings.Builder
	plan := p.Describe(d)
	for _, m := range plan.Get("queryInfo").Members() {
		switch text := m.Value.JSON(); text {
		case "null", "[]", "{}", `""`, "false", `"None"`:
		default:
			if m.Name == "rewrittenQuery" {
				text = m.Value.Text()
			}
			fmt.Fprintf(&b, "%s %s\n", m.Name, text)
		}
	}
	fmt.Fprintf(&b, "ranges %s\n", describeKeys(p, d))
	fmt.Fprintf(&b, "needs %s\n", strings.Join(p.Needs().Names(), " "))
	return b.String()
}

// describeKeys names ranges by the keys of the test instead of their hashes.
func describeKeys(p *Plan, d partitionkey.Definition) string {
	names := map[partitionkey.EPK]string{"": "", "\xff": "FF"}
	components := []partitionkey.Component{
		partitionkey.Null(), partitionkey.Bool(true), partitionkey.Bool(false),
		partitionkey.Number(1), partitionkey.Number(2), partitionkey.Number(3),
		partitionkey.String("1"), partitionkey.String("a"), partitionkey.String("b"), partitionkey.String("c"),
	}
	level := []partitionkey.Key{{}}
	for range d.Paths {
		var next []partitionkey.Key
		for _, k := range level {
			for _, c := range components {
				next = append(next, k.Append(c))
			}
		}
		for _, k := range next {
			names[d.Hash(k)] = k.String()
		}
		level = next
	}
	var out []string
	for _, r := range p.keyRanges(d) {
		switch {
		case r.exact:
			out = append(out, "point "+names[r.point])
		case r.Equal(partitionkey.Full()):
			out = append(out, "full")
		default:
			out = append(out, "prefix "+names[r.Min])
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(slices.Values(out)), ", ")
}

func definition(t *testing.T, d *datadriven.TestData) partitionkey.Definition {
	def := partitionkey.Definition{Paths: []string{"/pk"}}
	for _, arg := range d.CmdArgs {
		if arg.Key == "key" {
			def.Paths = arg.Vals
		}
	}
	if len(def.Paths) > 1 {
		def.Kind = partitionkey.KindMultiHash
	}
	def = def.Normalize()
	if err := def.Validate(); err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return def
}

func failure(err error) string {
	var e *status.Error
	if !errors.As(err, &e) {
		return "no status: " + err.Error()
	}
	return fmt.Sprintf("%d %s", e.Code, e.Message)
}
