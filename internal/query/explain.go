package query

import (
	"fmt"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// Step is a part of how a plan runs. The steps below it run before it and provide its
// documents, rows or terms.
type Step struct {
	Name   string // such as order
	Detail string // such as c.a DESC; "" for none
	Steps  []*Step

	Count int      // of a step that looks up terms: the number of spans; otherwise 0
	Spans []string // the spans, if they are few: a value as JSON, or bounds in hexadecimal

	// Figures from [Plan.Measure] and from callers of [Step.Probe]; -1 if unknown.
	Rows     int64 // documents or rows that the step returned
	Expected int64 // documents or rows that the index alone predicts
	Times    int64 // of a step that begins with "or": number of pages of partitions made that way

	access *index.Expr // of a step about terms
}

// String returns the tree, one step a line, indented by two spaces for each level,
// with a newline at the end. If the top step has figures, they follow in columns.
func (s *Step) String() string {
	if s.Rows >= 0 {
		return s.table()
	}
	var b strings.Builder
	s.write(&b, 0)
	return b.String()
}

func (s *Step) write(b *strings.Builder, level int) {
	b.WriteString(s.line(level))
	b.WriteByte('\n')
	for _, below := range s.Steps {
		below.write(b, level+1)
	}
}

// line returns the text of the step itself.
func (s *Step) line(level int) string {
	line := strings.Repeat("  ", level) + s.Name
	if s.Detail != "" {
		line += " " + s.Detail
	}
	return line
}

// on returns a step that reads the results of others.
func on(name, detail string, below ...*Step) *Step {
	return &Step{Name: name, Detail: detail, Steps: below, Rows: -1, Expected: -1, Times: -1}
}

// Explain returns how the plan runs, from the rows for the client down to the index.
// It shows what is possible: a partition counts, and reads all of its documents if
// lists of the index would cost more.
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
		step = on("merge", "partitions in their range order", p.explainRows())
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
			if in := &q.From.Inputs[i]; i > 0 || in.In || in.Subquery != nil && p.inner == nil {
				step = on("expand", in.String(), step)
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
		step.Steps = append(step.Steps, p.explainBest()...)
	}
	return step
}

// explainLookups returns how the index answers instead of the documents.
func explainLookups(list []lookup) *Step {
	step := on("or ask the index", "")
	for _, l := range list {
		one := on("for the number of documents", "", explainAccess(l.access))
		switch l.way {
		case byEnds:
			one = on("for the ends of", walkText(l.order))
		case byValues:
			one = on("for the values of", walkText(l.order))
		case byWords:
			one = on("for the numbers of words of", walkText(l.order))
		case byDocuments:
			one = on("for documents to read", "", explainAccess(l.access))
		}
		step.Steps = append(step.Steps, one)
	}
	return step
}

// walkText describes the terms that a plan can follow.
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

// explainDocuments returns the step that provides documents.
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
		return explainParts(x)
	case index.Leaf:
		return explainSpans([]index.Expr{x}, "").of(x)
	case index.All, index.None:
		return on("terms", x.String())
	}
	return on("terms", x.Span.Label+", each looked at").of(x)
}

// explainParts returns the steps of a combination. Spans of one index are one step,
// because a list of values or the cells of a shape can be long.
func explainParts(x index.Expr) *Step {
	step := on("all of", "")
	if x.Op == index.Or {
		step.Name = "any of"
	}
	places := map[string]int{} // label to its index in lists
	var lists [][]index.Expr
	for _, arg := range x.Args {
		if len(arg.Args) == 1 && arg.Args[0].Op == index.Leaf {
			arg = arg.Args[0]
		}
		at, seen := places[arg.Span.Label]
		if arg.Op != index.Leaf || !seen {
			at = len(lists)
			lists = append(lists, nil)
		}
		if arg.Op == index.Leaf {
			places[arg.Span.Label] = at
		}
		lists[at] = append(lists[at], arg)
	}
	for _, list := range lists {
		if list[0].Op == index.Leaf {
			step.Steps = append(step.Steps, explainSpans(list, step.Name).of(joined(x.Op, list, index.All)))
			continue
		}
		step.Steps = append(step.Steps, explainAccess(list[0]))
	}
	if len(step.Steps) == 1 && len(lists[0]) == len(x.Args) {
		return step.Steps[0]
	}
	return step.of(x)
}

// spansMax is the maximum number of spans of one step that are shown separately.
const spansMax = 16

// explainSpans returns the step of spans of one index, for all or for any of them.
func explainSpans(list []index.Expr, count string) *Step {
	step := on("range", list[0].Span.Label)
	step.Count = len(list)
	one := !slices.ContainsFunc(list, func(arg index.Expr) bool { return !arg.Span.One })
	if one {
		step.Name = "term"
	}
	kind, path, special := strings.Cut(step.Detail, " ")
	special = special && !strings.HasPrefix(kind, "/")
	switch n := value.Int(int64(len(list))).JSON(); {
	case special && kind == "spatial":
		step.Name, step.Detail = "terms", path+" spatial, "+n+" cells"
	case len(list) == 1:
	case special:
		step.Name, step.Detail = step.Name+"s", step.Detail+", "+count+" "+n+" words"
	case one && count == "any of":
		step.Name, step.Detail = "terms", step.Detail+" IN "+n+" values"
	default:
		step.Name, step.Detail = step.Name+"s", step.Detail+", "+count+" "+n
	}
	if len(list) <= spansMax {
		for _, arg := range list {
			step.Spans = append(step.Spans, spanText(arg.Span))
		}
	}
	return step
}

// spanText returns the value of a single term that has one, otherwise the bounds of a
// span.
func spanText(s index.Span) string {
	if v, exact := index.DecodeTerm(s.Low); s.One && exact && s.Path != nil {
		return v.JSON()
	}
	return fmt.Sprintf("[%x,%x)", string(s.Low), string(s.High))
}

// explain returns how a hybrid search runs.
func (h *Hybrid) explain() *Step {
	name, detail := "rank", "by the one score"
	if h.ranking.fused {
		name, detail = "fuse", "by ranks"
	}
	step := on(name, detail)
	if p, err := h.Statistics(); p != nil && err == nil {
		statistics := on("statistics", "of all documents")
		if p.group != nil && len(p.group.lookups) > 0 {
			statistics.Steps = append(statistics.Steps, explainLookups(p.group.lookups))
		}
		step.Steps = append(step.Steps, statistics)
	}
	plans, err := h.Outline()
	for i, c := range h.ranking.components {
		from := h.plan.explainFilter(h.plan.explainDocuments())
		one := on("score", c.call.String(), from)
		if err == nil {
			one.Steps = append(one.Steps, plans[i].explainBest()...)
		}
		step.Steps = append(step.Steps, one)
	}
	return step
}

// The texts of the clauses.

func listText(list []sql.Expr) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = x.String()
	}
	return strings.Join(texts, ", ")
}

func selectText(q *sql.Select) string {
	text := (&sql.Select{Star: q.Star, Value: q.Value, Items: q.Items}).String()
	return strings.TrimPrefix(text, "SELECT ")
}

func orderText(keys []sql.OrderByItem) string {
	texts := make([]string, len(keys))
	for i := range keys {
		texts[i] = keys[i].String()
	}
	return strings.Join(texts, ", ")
}
