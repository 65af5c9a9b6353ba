package query

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
)

// Ways counts how the rows of a query were made. Each figure is a sum over the pages
// that partitions were asked for.
type Ways struct {
	Passed  int64 // combinations of inputs that passed the filter
	Rows    int64 // rows that partitions returned; a group counts once for each partition that has a part
	Skipped int64 // rows of the result that OFFSET skipped

	Walked   int64 // pages made by a walk along an index
	Answered int64 // pages made from the index alone
	Searched int64 // pages made from the best documents of a search
}

func (w *Ways) add(o Ways) {
	w.Passed += o.Passed
	w.Rows += o.Rows
	w.Skipped += o.Skipped
	w.Walked += o.Walked
	w.Answered += o.Answered
	w.Searched += o.Searched
}

// Probe returns a plan whose [Plan.Estimate] is the number of documents with the terms
// of a step; nil for a step without terms.
func (s *Step) Probe() *Plan {
	if s.access == nil {
		return nil
	}
	return &Plan{query: &sql.Select{}, accessing: *s.access}
}

// Measure sets the figures of the steps of [Plan.Explain] after a page was made: those
// of the page, and the number of documents that the plan was expected to read, which is
// negative if unknown. Steps about terms keep their expected figures.
func (p *Plan) Measure(top *Step, stats *Stats, expected int64) {
	p.measure(top, stats, expected)
	top.expect(p)
}

func (p *Plan) measure(s *Step, stats *Stats, expected int64) {
	// A plan over the rows of another plan has the figures of that other plan.
	outer, ways := p.inner != nil, &stats.Ways
	switch s.Name {
	case "limit":
		s.Rows = stats.Output
	case "merge":
		s.Rows = stats.Output + ways.Skipped
	case "order", "project", "distinct", "group":
		if !outer {
			s.Rows = ways.Rows
		}
	case "filter":
		if !outer {
			s.Rows = ways.Passed
		}
	case "read":
		s.Rows, s.Expected = stats.Retrieved, expected
	case "or walk":
		s.Times = ways.Walked
	case "or ask the index":
		s.Times = ways.Answered
	case "or find nearest", "or read alone":
		s.Times = ways.Searched
	case "rows":
		return // the inner plan has rows of its own, which are not counted separately
	}
	if p.query.Rank && s.Name != "limit" {
		return // each component reads and scores separately
	}
	for _, below := range s.Steps {
		p.measure(below, stats, expected)
	}
}

// expect passes on the expectation of the step below, if each document makes one row.
func (s *Step) expect(p *Plan) {
	for _, below := range s.Steps {
		below.expect(p)
	}
	if len(s.Steps) == 0 || s.Expected >= 0 {
		return
	}
	below := s.Steps[0].Expected
	switch s.Name {
	case "limit":
		most := p.top
		if p.limit >= 0 {
			most = p.limit
			below = max(-1, below-max(0, p.offset))
		}
		if s.Expected = most; below >= 0 {
			s.Expected = min(most, below)
		}
	case "filter":
		if p.exact {
			s.Expected = below
		}
	case "merge":
		if s.Expected = below; p.group != nil && p.group.lone {
			s.Expected = 1
		}
	case "order", "project":
		s.Expected = below
	}
}

// The columns of figures after a tree.
const (
	figuresColumn = 64 // where they begin; a step with a longer text has a line of its own
	figureWidth   = 10
)

// table writes the steps with their figures.
func (s *Step) table() string {
	width := min(s.widest(0), figuresColumn)
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s%*s%*s\n", width, "", figureWidth, "rows", figureWidth, "expected")
	s.row(&b, 0, width)
	return b.String()
}

// widest returns the length in characters of the longest line of the tree that is at
// most figuresColumn long.
func (s *Step) widest(level int) int {
	most := utf8.RuneCountInString(s.line(level))
	if most > figuresColumn {
		most = 0
	}
	for _, below := range s.Steps {
		most = max(most, below.widest(level+1))
	}
	return most
}

func (s *Step) row(b *strings.Builder, level, width int) {
	line := s.line(level)
	b.WriteString(line)
	if figures := s.figures(); figures != "" {
		if n := utf8.RuneCountInString(line); n <= width {
			b.WriteString(strings.Repeat(" ", width-n))
		} else {
			b.WriteString("\n" + strings.Repeat(" ", width))
		}
		b.WriteString(figures)
	}
	b.WriteByte('\n')
	for _, below := range s.Steps {
		below.row(b, level+1, width)
	}
}

func (s *Step) figures() string {
	figure := func(n int64) string {
		if n < 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	switch {
	case s.Times > 0:
		return fmt.Sprintf("%*s", figureWidth, "taken "+figure(s.Times)+" x")
	case s.Times == 0:
		return fmt.Sprintf("%*s", figureWidth, "not taken")
	}
	return strings.TrimRight(fmt.Sprintf("%*s%*s", figureWidth, figure(s.Rows), figureWidth, figure(s.Expected)), " ")
}

// of sets the documents that a step is about.
func (s *Step) of(access index.Expr) *Step {
	s.access = &access
	return s
}
