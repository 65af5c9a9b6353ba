package query

import (
	"strings"

	"github.com/decandb/decan/internal/index"
)

// Step is a part of how a plan runs. The steps below it come before it: they
// are where its documents, rows or terms come from.
type Step struct {
	Name   string // such as order
	Detail string // such as c.a DESC; "" for none
	Steps  []*Step
}

// String returns the tree, a step a line and two blanks for each level, with a
// line break at the end.
func (s *Step) String() string {
	var b strings.Builder
	s.write(&b, 0)
	return b.String()
}

func (s *Step) write(b *strings.Builder, level int) {
	b.WriteString(strings.Repeat("  ", level))
	b.WriteString(s.Name)
	if s.Detail != "" {
		b.WriteString(" " + s.Detail)
	}
	b.WriteByte('\n')
	for _, below := range s.Steps {
		below.write(b, level+1)
	}
}

// on returns a step that takes what the others give.
func on(name, detail string, below ...*Step) *Step {
	return &Step{Name: name, Detail: detail, Steps: below}
}

// Explain returns how the plan runs, from the rows that the client gets down to
// the index. It says what is possible: a partition counts, and reads all of its
// documents where lists of the index would cost more.
func (p *Plan) Explain() *Step {
	q := p.query
	var step *Step
	switch {
	case q.Rank:
		step = p.Hybrid().explain()
	case isGrouped(q) || q.Distinct:
		step = on("merge", "groups by key", p.explainRows())
	case len(q.OrderBy) > 0:
		step = on("merge", "rows by key, equal ones by document", p.explainRows())
	default:
		step = on("merge", "partitions one behind the other", p.explainRows())
	}
	if p.limit >= 0 {
		step = on("limit", countDetail("offset", p.offset)+", "+countDetail("limit", p.limit), step)
	}
	if p.top >= 0 {
		step = on("limit", countDetail("top", p.top), step)
	}
	return step
}

func countDetail(name string, n int64) string { return name + " " + count(n).JSON() }

// explainRows returns how one partition makes its rows.
func (p *Plan) explainRows() *Step {
	q := p.query
	step := p.explainDocuments()
	if q.From != nil {
		for i := range q.From.Inputs {
			if in := &q.From.Inputs[i]; i > 0 || in.In || in.Query != nil && p.inner == nil {
				step = on("expand", inputText(in), step)
			}
		}
	}
	step = p.explainFilter(step)
	switch {
	case isGrouped(q) && len(q.GroupBy) == 0:
		step = on("group", "all rows", step)
	case isGrouped(q):
		step = on("group", "by "+listText(q.GroupBy), step)
	}
	if g := p.group; g != nil && len(g.lookups) > 0 {
		step.Steps = append(step.Steps, explainLookups(g.lookups))
	}
	step = on("project", selectText(q), step)
	if q.Distinct {
		step = on("distinct", "", step)
	}
	if len(q.OrderBy) > 0 {
		step = on("order", orderText(q.OrderBy), step)
	}
	if o := p.order; o != nil && p.group == nil {
		if o.index.Walks {
			step.Steps = append(step.Steps, on("or walk", walkText(o.index.Order)))
		}
		if o.best.Op != index.All {
			step.Steps = append(step.Steps, on("or read alone", "documents with a word", explainAccess(o.best)))
		}
	}
	return step
}

// explainLookups returns how the index answers instead of documents.
func explainLookups(list []lookup) *Step {
	step := on("or ask the index", "")
	for _, l := range list {
		one := on("for the number of documents", "", explainAccess(l.access))
		switch l.way {
		case byEnds:
			one = on("for the ends of", walkText(l.order))
		case byValues:
			one = on("for the values of", walkText(l.order))
		}
		step.Steps = append(step.Steps, one)
	}
	return step
}

// walkText names the terms that a plan can follow.
func walkText(o index.Order) string {
	text := o.Span.Label
	if o.Composite != nil {
		text = strings.Join(o.Composite, ", ")
	}
	if o.Desc {
		text += " backwards"
	}
	return text
}

func (p *Plan) explainFilter(step *Step) *Step {
	if p.query.Where == nil {
		return step
	}
	return on("filter", p.query.Where.String(), step)
}

// explainDocuments returns where documents come from.
func (p *Plan) explainDocuments() *Step {
	switch {
	case p.query.From == nil:
		return on("row", "one without a document")
	case p.inner != nil:
		return on("rows", "of the query in FROM", p.inner.Explain())
	}
	access := p.Access()
	switch access.Op {
	case index.None:
		return on("read", "nothing: no document can pass")
	case index.All:
		return on("read", "all documents")
	}
	detail := "documents that the index finds"
	if p.exact && access.Exact() {
		detail += ", exactly"
	}
	return on("read", detail, explainAccess(access))
}

func explainAccess(x index.Expr) *Step {
	switch x.Op {
	case index.And, index.Or:
		name := "all of"
		if x.Op == index.Or {
			name = "any of"
		}
		step := on(name, "")
		for _, arg := range x.Args {
			step.Steps = append(step.Steps, explainAccess(arg))
		}
		return step
	case index.Leaf:
		name := "range"
		if x.Span.One {
			name = "term"
		}
		return on(name, x.Span.Label)
	case index.All, index.None:
		return on("terms", x.String())
	}
	return on("terms", x.Span.Label+", each looked at")
}

// explain returns how a hybrid search runs.
func (h *Hybrid) explain() *Step {
	name, detail := "rank", "by the one score"
	if h.ranking.fused {
		name, detail = "fuse", "by ranks"
	}
	step := on(name, detail)
	if h.plan.statisticsText(h.ranking) != "" {
		step.Steps = append(step.Steps, on("statistics", "of all documents"))
	}
	for _, c := range h.ranking.components {
		from := h.plan.explainFilter(h.plan.explainDocuments())
		step.Steps = append(step.Steps, on("score", c.call.String(), from))
	}
	return step
}

// The texts of the clauses.

func inputText(in *Input) string {
	var p printer
	p.input(in, true)
	return strings.TrimPrefix(p.String(), " JOIN ")
}

func listText(list []Expr) string {
	var p printer
	p.list(list)
	return p.String()
}

func selectText(q *Select) string {
	text := (&Select{Star: q.Star, Value: q.Value, Items: q.Items}).String()
	return strings.TrimPrefix(text, "SELECT ")
}

func orderText(keys []Sort) string {
	var p printer
	p.orderBy(&Select{OrderBy: keys})
	return strings.TrimPrefix(p.String(), " ORDER BY ")
}
