package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/partition/scan"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/internal/vector"
	"github.com/decandb/decan/partitionkey"
)

// plain is a document for the naive evaluation.
type plain struct {
	number uint64
	epk    partitionkey.EPK
	bare   string
	whole  string
	terms  []index.Term
}

// plainly returns the documents of a model in the order of their numbers, with their
// index terms.
func (m *model) plainly(t *testing.T, x *index.Index, properties []resource.ComputedProperty) []plain {
	t.Helper()
	computed, err := query.CompileComputed(properties)
	if err != nil {
		t.Fatal(err)
	}
	var list []plain
	for _, d := range m.documents {
		doc, err := computed.Extend(d.doc.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		terms := x.Stamp(x.Terms(nil, doc), int64(parsed(t, d.body).Get("_ts").Float()))
		list = append(list, plain{number: d.number, epk: d.epk, bare: string(d.doc.Append(nil)), whole: d.body, terms: terms})
	}
	slices.SortFunc(list, func(a, b plain) int { return cmpNumbers(a.number, b.number) })
	return list
}

func cmpNumbers(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func parsed(t *testing.T, text string) value.Value {
	t.Helper()
	v, err := value.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// passesFilter is the test of filters: that the JSON of a value has an even
// length.
func passesFilter(v value.Value) bool { return len(v.String())%2 == 0 }

// admits evaluates an expression over the terms of a document.
func admits(e index.Expr, terms []index.Term) bool {
	switch e.Op {
	case index.All:
		return true
	case index.Leaf:
		return slices.ContainsFunc(terms, func(t index.Term) bool { return t >= e.Span.Low && t < e.Span.High })
	case index.Filter:
		return slices.ContainsFunc(terms, func(t index.Term) bool {
			v, exact := index.DecodeTerm(t)
			return t >= e.Span.Low && t < e.Span.High && (!exact || e.Test(v))
		})
	case index.And:
		return !slices.ContainsFunc(e.Args, func(arg index.Expr) bool { return !admits(arg, terms) })
	case index.Or:
		return slices.ContainsFunc(e.Args, func(arg index.Expr) bool { return admits(arg, terms) })
	}
	return false
}

// compareIndexed calls every method of a source over a random part of the key space,
// and compares the results with the naive ones over the same documents.
func (m *model) compareIndexed(t *testing.T, w *world, random *rand.Rand) (exact int) {
	t.Helper()
	p := w.partition.Load()
	p.waitIdle()
	now, err := p.acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer p.release(now)
	x := now.Indexing.Active.Index
	all := m.plainly(t, x, now.Indexing.Policy.Computed)
	strategies := []scan.Strategy{
		scan.DefaultStrategy(),
		{ScanMax: 3, ScanBytes: 300, SortedMax: 3, WalkFactor: 1, WalkBytes: 1 << 20, Costs: scan.Costs{Row: 1, Seat: 1, Miss: 1}},
		{ScanMax: 1000, SortedMax: 2, WalkFactor: 0, WalkBytes: 400, Costs: scan.Costs{Row: 1, Seat: 1000, Miss: 1000}},
		{ScanMax: 0, SortedMax: 2, Costs: scan.Costs{Row: 1, Miss: 2}},
	}
	whole := p.own.Range
	for range 60 {
		asked := m.drawRange(w, random)
		clip, ok := asked.Intersect(p.own.Range)
		if !ok {
			continue
		}
		strategy := strategies[random.IntN(len(strategies))]
		strategy.Force = drawForced(random)
		if random.IntN(2) == 0 {
			strategy.Costs = scan.MeasuredCosts()
		}
		p.reader.Strategy = strategy
		inClip := slices.DeleteFunc(slices.Clone(all), func(d plain) bool { return !clip.Contains(d.epk) })
		access := drawAccess(x, random, 2)
		label := fmt.Sprintf("%s in %s under %+v", access, asked, strategy)
		admitted := slices.DeleteFunc(slices.Clone(inClip), func(d plain) bool { return !admits(access, d.terms) })

		if checkCount(t, newProbe(p, now, asked, clip), access, label, int64(len(admitted))) {
			exact++
		}
		need := query.Need{Access: access, Unordered: random.IntN(2) == 0, Bare: random.IntN(2) == 0}
		if random.IntN(2) == 0 && len(all) > 0 {
			need.After = all[random.IntN(len(all))].number
		}
		checkCandidates(t, newProbe(p, now, asked, clip), need, label, admitted)
		checkLatest(t, newProbe(p, now, asked, clip), need, label, admitted, inClip, x.Serves(access))
		if x.Serves(access) {
			checkNearest(t, newProbe(p, now, asked, clip), access, admitted, random, label)
		}
		for range 3 {
			walk := drawWalk(x, all, random)
			m.completed(t, newProbe(p, now, whole, whole), walk.Span, all)
			walk.Access = access
			label := fmt.Sprintf("walk %s desc=%t missing=%t place=%t effort=%d from=%x started=%t after=%d of %s", walk.Span.Label, walk.Desc, walk.Missing, walk.Place.High != "", walk.Effort, string(walk.From), walk.Started, walk.After, label)
			want := walkNaively(walk, admitted)
			if random.IntN(3) == 0 {
				text := orderTexts[random.IntN(len(orderTexts))]
				checkPlan(t, newProbe(p, now, asked, clip), now.Indexing, text, random.IntN(4), label)
			}
			checkTerms(t, newProbe(p, now, asked, clip), walk, label, want)
			checkOrdered(t, newProbe(p, now, asked, clip), walk, label, want)
		}
	}
	// A document has two terms of this span.
	if span, used := x.Tuple(index.Path{"list", index.Element}, []index.Path{{"x"}}, []value.Value{value.String("s")}); len(used) > 0 {
		access := index.Expr{Op: index.Leaf, Span: span}
		checkCount(t, newProbe(p, now, whole, whole), access, access.String(), int64(len(all)))
	}
	p.reader.Strategy = scan.DefaultStrategy()
	return exact
}

// probe is a source under test.
type probe struct {
	*scan.Source
	active *layout.Compiled
	direct bool // the clip is the whole partition or a prefix of the key
}

func newProbe(p *Partition, now *published, asked, clip partitionkey.Range) probe {
	prefix := false
	if d := p.own.Key; d.Kind == partitionkey.KindMultiHash {
		levels := len(asked.Min) / levelBytes
		prefix = levels > 0 && levels < d.Levels() && len(asked.Min) == levels*levelBytes && asked.Max == asked.Min+partitionkey.MaxEPK
	}
	return probe{Source: p.reader.Source(&now.Snapshot, asked, clip), active: now.Indexing.Active, direct: prefix || clip.Equal(p.own.Range)}
}

// levelBytes is the length of one level of an EPK.
const levelBytes = 16

// checkCount compares Count with the number of documents, and reports whether
// the count was exact.
func checkCount(t *testing.T, s probe, access index.Expr, label string, want int64) (exact bool) {
	t.Helper()
	for _, most := range []int64{0, 1, 3, 1 << 40} {
		n, known, err := s.Count(context.Background(), access, most)
		if err != nil {
			t.Fatalf("count %s: %v", label, err)
		}
		if known && n != min(want, most) || !known && n >= 0 && n < min(want, most) || n > most {
			t.Fatalf("count %s up to %d: %d (exact %t), want %d", label, most, n, known, want)
		}
		exact = known
	}
	if work := s.Charged(query.Page{}, false); work.Documents > 0 || work.Bytes > 0 {
		t.Fatalf("count %s is charged as %+v", label, work)
	}
	if !exact && s.direct && access.Exact() && s.active.Serves(access) {
		t.Fatalf("count %s of an exact expression is not exact", label)
	}
	return exact && access.Op != index.All && access.Op != index.None
}

// checkCandidates compares candidates with the documents that the expression admits:
// they are a superset, in order, without duplicates.
func checkCandidates(t *testing.T, s probe, need query.Need, label string, admitted []plain) {
	t.Helper()
	want := map[uint64]plain{}
	for _, d := range admitted {
		if d.number > need.After {
			want[d.number] = d
		}
	}
	serves := s.active.Serves(need.Access)
	last := need.After
	seen := map[uint64]bool{}
	for c, err := range s.Candidates(context.Background(), need) {
		if err != nil {
			t.Fatalf("candidates %s: %v", label, err)
		}
		d, ok := want[c.Number]
		if ok {
			checkBody(t, label, c, d, need.Bare)
		}
		switch {
		case seen[c.Number]:
			t.Fatalf("candidates %s: %d comes twice", label, c.Number)
		case !need.Unordered && c.Number <= last:
			t.Fatalf("candidates %s: %d comes after %d", label, c.Number, last)
		case serves && !ok:
			t.Fatalf("candidates %s: %d does not belong there", label, c.Number)
		}
		seen[c.Number], last = true, c.Number
		delete(want, c.Number)
	}
	if len(want) > 0 {
		t.Fatalf("candidates %s, %+v: %d are left out", label, need, len(want))
	}
}

func checkBody(t *testing.T, label string, c query.Candidate, d plain, bare bool) {
	t.Helper()
	body := d.whole
	if bare {
		body = d.bare
	}
	if string(c.Body) != body {
		t.Fatalf("%s: document %d is %s, want %s", label, c.Number, c.Body, body)
	}
}

// found is a document under a term.
type found struct {
	term     index.Term
	document plain
}

// walkNaively returns the entries of a walk.
func walkNaively(walk query.Walk, documents []plain) []found {
	var list, missing []found
	place := walk.Place
	if place.High == "" {
		place = walk.Span
	}
	for _, d := range documents {
		has := false
		for _, term := range d.terms {
			has = has || term >= place.Low && term < place.High
			if term >= walk.Span.Low && term < walk.Span.High {
				list = append(list, found{term, d})
			}
		}
		if !has && walk.Missing {
			missing = append(missing, found{"", d})
		}
	}
	slices.SortStableFunc(list, func(a, b found) int { return strings.Compare(string(a.term), string(b.term)) })
	list = append(missing, list...)
	if walk.Desc {
		slices.Reverse(list)
	}
	if walk.From == "" && !walk.Started {
		return list
	}
	return slices.DeleteFunc(list, func(f found) bool {
		number := f.document.number
		if f.term == walk.From {
			return walk.After != 0 && (!walk.Desc && number <= walk.After || walk.Desc && number >= walk.After)
		}
		return (f.term < walk.From) != walk.Desc
	})
}

func checkTerms(t *testing.T, s probe, walk query.Walk, label string, want []found) {
	t.Helper()
	walk.First = true
	for c, err := range s.Terms(context.Background(), walk) {
		if refused(t, s, walk, true, err) {
			return
		}
		if err != nil {
			t.Fatalf("terms of %s: %v", label, err)
		}
		n := 0
		for n < len(want) && want[n].term == c.Term {
			n++
		}
		if c.Count == 0 || int64(n) != c.Count {
			t.Fatalf("terms of %s: %x counts %d, want %d", label, string(c.Term), c.Count, n)
		}
		first := slices.MinFunc(want[:n], func(a, b found) int { return cmp.Compare(a.document.number, b.document.number) })
		if c.First != first.document.number && walk.After == 0 {
			t.Fatalf("terms of %s: the first document of %x is %d, want %d (F29)", label, string(c.Term), c.First, first.document.number)
		}
		want = want[n:]
	}
	if len(want) > 0 {
		t.Fatalf("terms of %s: %d documents are left, the first under %x", label, len(want), string(want[0].term))
	}
}

func checkOrdered(t *testing.T, s probe, walk query.Walk, label string, want []found) {
	t.Helper()
	serves := s.active.Serves(walk.Access) && walk.Effort == 0
	for c, err := range s.Ordered(context.Background(), walk) {
		if refused(t, s, walk, false, err) {
			return
		}
		if err != nil {
			t.Fatalf("documents of %s: %v", label, err)
		}
		if !serves && (len(want) == 0 || want[0].document.number != c.Number || want[0].term != c.Term) {
			continue // There may be more than those that satisfy the access.
		}
		if len(want) == 0 || want[0].term != c.Term || want[0].document.number != c.Number {
			t.Fatalf("documents of %s: %d under %x is not the next of %d", label, c.Number, string(c.Term), len(want))
		}
		checkBody(t, label, c, want[0].document, walk.Bare)
		want = want[1:]
	}
	if len(want) > 0 {
		t.Fatalf("documents of %s: %d are left, the first %d under %x", label, len(want), want[0].document.number, string(want[0].term))
	}
}

// orderTexts are queries that an index answers or orders.
var orderTexts = []string{
	"SELECT VALUE COUNT(1) FROM c WHERE c.n = 3",
	`SELECT VALUE COUNT(1) FROM c WHERE c.a = "x" AND c.n >= 2`,
	"SELECT VALUE MAX(c.n) FROM c",
	"SELECT MIN(c.m.x) AS least, COUNT(c.n) AS n FROM c",
	"SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n",
	"SELECT DISTINCT VALUE c.m.x FROM c",
	"SELECT DISTINCT VALUE c.a FROM c WHERE c.n = 1",
	"SELECT TOP 3 VALUE c.id FROM c ORDER BY c.n",
	"SELECT TOP 3 VALUE c.id FROM c ORDER BY c.m.x DESC",
	"SELECT VALUE c.id FROM c WHERE c.n > 0 ORDER BY c._ts DESC",
	"SELECT TOP 4 VALUE c.id FROM c ORDER BY c.n, c.m.x DESC",
	"SELECT VALUE c.id FROM c WHERE c.n = 1 ORDER BY c.m.x",
	`SELECT VALUE c.id FROM c WHERE CONTAINS(c.a, "ong") AND c.n < 9`,
	"SELECT VALUE c.double FROM c WHERE c.double > 3",
}

// checkNearest compares a search with a sort of all documents by the same
// scores.
func checkNearest(t *testing.T, s probe, access index.Expr, admitted []plain, random *rand.Rand, label string) {
	t.Helper()
	n := query.Nearest{
		Path: index.Path{"v"}, Vector: []float32{1, 0.5, float32(random.IntN(3))}, K: 1 + random.IntN(20),
		Metric: []vector.Metric{vector.Cosine, vector.DotProduct, vector.Euclidean}[random.IntN(3)], Access: access, Bare: true,
	}
	form, stored := s.active.VectorForm(n.Path)
	if !stored {
		for _, err := range s.Nearest(context.Background(), n) {
			if status.CodeOf(err) != status.CodeUnavailable {
				t.Fatalf("nearest of %s, without vectors: %v", label, err)
			}
		}
		return
	}
	n.Form = form.ID
	var want []vector.Scored
	for _, d := range admitted {
		if v, ok := vector.Parse(parsed(t, d.bare).Get("v"), nil); ok && stored && len(v) == form.Dimensions {
			want = append(want, vector.Scored{ID: d.number, Score: n.Metric.Score(n.Vector, v)})
		}
	}
	slices.SortFunc(want, func(a, b vector.Scored) int {
		switch {
		case n.Metric.Better(a.Score, b.Score):
			return -1
		case n.Metric.Better(b.Score, a.Score):
			return 1
		}
		return cmp.Compare(b.ID, a.ID)
	})
	guesses := random.IntN(2) == 0
	if guesses {
		n.List = 1 + random.IntN(20)
	} else if len(want) > 0 && random.IntN(2) == 0 {
		at := random.IntN(len(want))
		n.From, n.Started, want = want[at], true, want[at+1:]
	}
	most := random.IntN(len(want) + 2)
	var got []uint64
	for c, err := range s.Nearest(context.Background(), n) {
		if err != nil {
			t.Fatalf("nearest of %s: %v", label, err)
		}
		if got = append(got, c.Number); len(got) == most {
			break
		}
	}
	var all []uint64
	for _, w := range want {
		all = append(all, w.ID)
	}
	if guesses {
		// Each once, and in the end all of them.
		slices.Sort(all)
		slices.Sort(got)
		if len(got) < min(max(most, 1), len(all)) || len(slices.Compact(slices.Clone(got))) != len(got) || len(got) == len(all) && !slices.Equal(got, all) {
			t.Fatalf("%d guesses of %s: %v, want %v", n.List, label, got, all)
		}
		return
	}
	if most > 0 {
		all = all[:min(most, len(all))]
	}
	if !slices.Equal(got, all) {
		t.Fatalf("nearest of %s: %v, want %v", label, got, all)
	}
}

// checkPlan compares the result of a plan on the source with its result on the
// documents alone.
func checkPlan(t *testing.T, s probe, x *layout.Indexing, text string, pageItems int, label string) {
	t.Helper()
	plan, err := query.Compile(text, nil, x.Active.Index, query.Options{Computed: x.Policy.Computed})
	if status.CodeOf(err) == status.CodeBadRequest {
		return // The policy lacks the index that the order needs.
	}
	if err != nil {
		t.Fatal(err)
	}
	got := planRows(t, plan, s, pageItems)
	want := planRows(t, plan, struct{ query.Source }{s.Source}, 0)
	if !slices.Equal(got, want) {
		t.Fatalf("%s in pages of %d, %s:\n got %s\nwant %s", text, pageItems, label, got, want)
	}
}

func planRows(t *testing.T, plan *query.Plan, src query.Source, pageItems int) (rows []string) {
	t.Helper()
	stream := func(ctx context.Context, b query.Budget) (query.Page, error) { return plan.Run(ctx, src, b) }
	var from query.Progress
	for {
		page, next, err := plan.Merge([]query.Stream{stream}, from).Page(context.Background(), query.Budget{MaxItems: pageItems})
		if err != nil {
			t.Fatalf("%s: %v", plan.Text(), err)
		}
		for _, row := range page.Rows {
			rows = append(rows, string(row.JSON))
		}
		if !page.More {
			return rows
		}
		from = next
	}
}

// refused reports whether the index lacks what the walk needs, and checks that the
// source returns that error.
func refused(t *testing.T, s probe, walk query.Walk, exactly bool, err error) bool {
	t.Helper()
	x := s.active
	serves := x.Serves(index.Expr{Op: index.Leaf, Span: walk.Span}) && (!exactly || x.Serves(walk.Access))
	if !serves && status.CodeOf(err) != status.CodeUnavailable {
		t.Fatalf("a walk over %s, which the index does not have, ends with %v", walk.Span.Label, err)
	}
	return !serves
}

// completed checks the terms that all documents have according to a source, which need
// not know all of them.
func (m *model) completed(t *testing.T, s probe, span index.Span, all []plain) {
	t.Helper()
	yes, err := s.Complete(span)
	if err != nil {
		t.Fatal(err)
	}
	lacks := slices.ContainsFunc(all, func(d plain) bool { return !admits(index.Expr{Op: index.Leaf, Span: span}, d.terms) })
	switch {
	case yes && lacks:
		t.Fatalf("%s is said to be complete and is not", span)
	case yes:
		m.complete++
	case lacks:
		m.incomplete++
	}
}

// TestIndexBehind runs plans that use an index of the container's policy that the
// partition has not built yet.
func TestIndexBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, ""))
	for n := range int64(100) {
		if _, err := w.write(Create, benchDocument(n, 400).With("n", value.Int(n%7)).With("m", value.Int(-n)), nil); err != nil {
			t.Fatal(err)
		}
	}
	c := *w.container.Load()
	c.Indexing = containerWith(t, 2, []string{"/a"}, `{"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/double/?"}],"compositeIndexes":[[{"path":"/n"},{"path":"/m"}]]},`+
		`"computedProperties":[{"name":"double","query":"SELECT VALUE c.n * 2 FROM c"}]}`).Indexing
	w.container.Store(&c)
	p := w.partition.Load()
	ix, err := index.Compile(c.Indexing)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"SELECT TOP 3 VALUE c.m FROM c ORDER BY c.n, c.m": "-98 -91 -84",
		"SELECT VALUE COUNT(1) FROM c WHERE c.double = 4": "14",
		"SELECT DISTINCT VALUE c.double FROM c":           "0 2 4 6 8 10 12",
	} {
		plan, err := query.Compile(text, nil, ix, query.Options{Computed: c.Indexing.Computed})
		if err != nil {
			t.Fatal(err)
		}
		ask := func() string {
			page, _, err := plan.Merge([]query.Stream{func(ctx context.Context, b query.Budget) (query.Page, error) {
				page, _, err := p.Query(ctx, Query{Plan: plan, Generation: w.own.Generation, Range: partitionkey.Full(), Budget: b})
				return page, err
			}}, query.Progress{}).Page(t.Context(), query.Budget{})
			if err != nil {
				return err.Error()
			}
			var rows []string
			for _, row := range page.Rows {
				rows = append(rows, string(row.JSON))
			}
			return strings.Join(rows, " ")
		}
		if got := ask(); got != want {
			t.Errorf("%s before the index is there: %s, want %s", text, got, want)
		}
	}
}

// TestWalkEnds stops walks early and cancels their context. A leaked iterator fails the
// close of the store.
func TestWalkEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, ""))
	for n := range int64(200) {
		if _, err := w.write(Create, benchDocument(n, 400), nil); err != nil {
			t.Fatal(err)
		}
	}
	p := w.partition.Load()
	now, err := p.acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer p.release(now)
	span, _ := now.Indexing.Active.Span(index.Path{"id"}, index.Defined, value.Null())
	missing, _ := now.Indexing.Active.Span(index.Path{"nobody"}, index.Defined, value.Null())
	walks := map[string]query.Walk{"terms": {Span: span}, "falling": {Span: span, Desc: true}, "missing": {Span: missing, Missing: true}}
	for name, walk := range walks {
		for _, whole := range []bool{true, false} {
			s := p.reader.Source(&now.Snapshot, p.own.Range, p.own.Range)
			if !whole {
				half := partitionkey.Range{Max: p.own.Key.Middle(partitionkey.Full())}
				s = p.reader.Source(&now.Snapshot, half, half)
			}
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			for _, err := range s.Ordered(ctx, walk) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n == 2 {
					break
				}
			}
			cancel()
			for kind, ended := range map[string]error{"ordered": last(s.Ordered(ctx, walk)), "terms": last(s.Terms(ctx, walk)), "candidates": last(s.Candidates(ctx, query.Need{Unordered: true}))} {
				if name == "missing" && kind == "terms" && whole {
					continue // One term: there is nothing to look up in between.
				}
				if !errors.Is(ended, context.Canceled) && status.CodeOf(ended) != status.CodeRequestTimeout {
					t.Errorf("%s of %s (whole %t) with a context that ended: %v", kind, name, whole, ended)
				}
			}
		}
	}
}

// last drains a sequence and returns the error at its end.
func last[T any](seq iter.Seq2[T, error]) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}
