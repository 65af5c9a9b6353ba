package query

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// planVectors is the number of queries in testdata/vectors/query-plans.jsonl and in
// query-plans-found.jsonl, whose queries TestPlanner found. planExceptions is the
// number of queries that Decan answers differently on purpose; it may only decrease.
const (
	planVectors    = 4663
	planExceptions = 15
)

// planVector is a query and what the service's planner answers.
type planVector struct {
	query   string
	params  []Param
	key     partitionkey.Definition
	single  bool
	errors  []value.Value // nil if the planner accepts the query
	plan    value.Value
	ranges  []value.Value // as effective keys; nil for the whole space
	refused bool
}

func loadPlanVectors(tb testing.TB) []planVector {
	tb.Helper()
	var list []planVector
	for _, name := range []string{"query-plans.jsonl", "query-plans-found.jsonl"} {
		data, err := os.ReadFile("testdata/vectors/" + name)
		if err != nil {
			tb.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			v, err := value.ParseString(strings.TrimSpace(line))
			if err != nil {
				tb.Fatal(err)
			}
			list = append(list, parsePlanVector(v))
		}
	}
	if len(list) != planVectors {
		tb.Fatalf("%d vectors, want %d", len(list), planVectors)
	}
	return list
}

// parsePlanVector reads a line of the vectors.
func parsePlanVector(v value.Value) planVector {
	one := planVector{query: v.Get("query").Text(), single: v.Get("single").IsTrue(), plan: v.Get("plan"), ranges: v.Get("epk").Items()}
	one.refused = v.Get("error").IsDefined()
	one.errors = v.Get("error").Items()
	for _, p := range v.Get("parameters").Items() {
		one.params = append(one.params, Param{Name: p.Get("name").Text(), Value: p.Get("value")})
	}
	paths := []string{"/pk"}
	if given := v.Get("key"); given.IsDefined() {
		paths = nil
		for _, path := range given.Items() {
			paths = append(paths, path.Text())
		}
	}
	one.key = partitionkey.Definition{Paths: paths}.Normalize()
	if len(paths) > 1 {
		one.key = partitionkey.Definition{Paths: paths, Kind: partitionkey.KindMultiHash}.Normalize()
	}
	return one
}

// planExceptionList reads the exceptions: the reason of each by its query. A line that
// begins with # is the reason of the queries after it, each a JSON string.
func planExceptionList(tb testing.TB) map[string]string {
	tb.Helper()
	data, err := os.ReadFile("testdata/vectors/query-plans-exceptions.txt")
	if err != nil {
		tb.Fatal(err)
	}
	list, reason := map[string]string{}, ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "# "); ok {
			reason = text
			continue
		}
		if line == "" {
			continue
		}
		v, err := value.ParseString(line)
		if err != nil || reason == "" {
			tb.Fatalf("%s: %v", line, err)
		}
		list[v.Text()] = reason
	}
	return list
}

// anyFunction finds every user-defined function, because only a container knows which
// there are.
func anyFunction(string) (Function, bool) {
	return func(_ context.Context, args []value.Value) (value.Value, error) { return value.Undefined(), nil }, true
}

// TestPlanVectors compares the answers to the queries that the service's planner was
// asked: refused or not, with which codes, positions and texts, and the plan member by
// member. The exceptions must differ, and their number may not grow. Prefixes of
// hierarchical keys are among the queries (S47 to S58).
func TestPlanVectors(t *testing.T) {
	t.Parallel()
	exceptions := planExceptionList(t)
	same, kinds, seen := 0, map[string]int{}, map[string]bool{}
	for _, v := range loadPlanVectors(t) {
		difference := v.compare(t)
		reason, excepted := exceptions[v.query]
		seen[v.query] = true
		switch {
		case difference == "":
			same++
			if excepted {
				t.Errorf("%q is answered as the planner answers it: take it off the exceptions (%s)", v.query, reason)
			}
		case excepted:
			kinds[reason]++
		default:
			t.Errorf("%q %v\n%s", v.query, v.params, difference)
		}
	}
	for query := range exceptions {
		if !seen[query] {
			t.Errorf("the exception %q is not among the vectors", query)
		}
	}
	total := 0
	for _, reason := range slices.Sorted(keysOf(kinds)) {
		total += kinds[reason]
		t.Logf("%d exceptions: %s", kinds[reason], reason)
	}
	t.Logf("%d plans are those of the service's planner, %d are exceptions, of %d", same, total, planVectors)
	if total > planExceptions {
		t.Errorf("%d exceptions, at most %d are allowed", total, planExceptions)
	}
}

// TestHierarchicalRoutes compares what a filter on levels of a key visits with the plan of
// the service's planner for the same query: one key, a prefix, several or all.
func TestHierarchicalRoutes(t *testing.T) {
	t.Parallel()
	answers := map[string]planVector{}
	for _, v := range loadPlanVectors(t) {
		answers[fmt.Sprint(v.query, v.key.Paths)] = v
	}
	three := []string{"/TenantId", "/UserId", "/SessionId"}
	for _, c := range []struct {
		filter string
		paths  []string
		ranges int // 0 for the whole space
		prefix bool
	}{
		{"c.TenantId = 'm' AND c.UserId = 'u' AND c.SessionId = 's'", three, 1, false},            // S47
		{"c.TenantId = 'm' AND c.UserId = 'u'", three, 1, true},                                   // S48
		{"c.TenantId = 'm'", three, 1, true},                                                      // S49
		{"c.UserId = 'u'", three, 0, false},                                                       // S50
		{"c.SessionId = 's'", three, 0, false},                                                    // S51
		{"c.UserId = 'u' AND c.SessionId = 's'", three, 0, false},                                 // S52
		{"c.TenantId = 'm' AND c.SessionId = 's'", three, 1, true},                                // S52
		{"c.UserId = 'u'", three[:2], 0, false},                                                   // S53
		{"c.TenantId = 'm'", three[:2], 1, true},                                                  // S54
		{"c.TenantId = 'm' AND c.UserId = 'u'", three[:2], 1, false},                              // S54
		{"c.TenantId = 'm'", three[:1], 1, false},                                                 // S55
		{"c.TenantId IN ('m', 'n') AND c.n > 1", three, 2, true},                                  // S56
		{"'m' = c.TenantId OR (c.TenantId = 'n' AND c.UserId = 'u')", three, 2, true},             // S56
		{"c.TenantId = 'm' OR c.UserId = 'u'", three, 0, false},                                   // S56
		{"c.TenantId = @tenant AND c.UserId = @user AND c.SessionId = @session", three, 1, false}, // S57
		{"c.TenantId = @tenant", three, 1, true},                                                  // S58
	} {
		v, ok := answers[fmt.Sprint("SELECT * FROM c WHERE "+c.filter, c.paths)]
		if !ok {
			t.Errorf("%s of %v is not among the vectors", c.filter, c.paths)
			continue
		}
		if difference := v.compare(t); difference != "" {
			t.Errorf("%s of %v: %s", c.filter, c.paths, difference)
		}
		p, err := Prepare(v.query, v.params, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ranges := p.Describe(v.key).Get("queryRanges").Items()
		first := ranges[0]
		whole := len(ranges) == 1 && first.Get("min").Text() == "" && first.Get("max").Text() == partitionkey.MaxEPK.String()
		prefix := strings.HasSuffix(first.Get("max").Text(), "FF") && !whole
		if got := len(ranges); whole != (c.ranges == 0) || !whole && (got != c.ranges || prefix != c.prefix) {
			t.Errorf("%s of %v visits %s", c.filter, c.paths, rangesText(ranges))
		}
	}
}

func keysOf(m map[string]int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// compare returns how the answer differs from the planner's, or "".
func (v planVector) compare(tb testing.TB) string {
	p, err := Prepare(v.query, v.params, nil, Options{Functions: anyFunction})
	if err == nil {
		err = p.Describable(v.key)
	}
	if err != nil {
		return v.compareError(tb, err)
	}
	if v.refused {
		return fmt.Sprintf("accepted; want %s", value.Array(v.errors).JSON())
	}
	described := p.Describe(v.key)
	if v.single {
		described = p.DescribeKey(v.key)
	}
	plan, err := value.Parse(AppendPlan(nil, described))
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range []string{"queryInfo", "hybridSearchQueryInfo"} {
		got, want := withoutDefaults(plan.Get(name)), v.plan.Get(name)
		if got.Kind() == value.KindNull && !want.IsDefined() || value.Equal(got, withoutDefaults(want)) {
			continue
		}
		return fmt.Sprintf("%s\n got %s\nwant %s", name, got.JSON(), want.JSON())
	}
	if got, want := rangesText(plan.Get("queryRanges").Items()), epkText(v.ranges); got != want {
		return fmt.Sprintf("ranges\n got %s\nwant %s", got, want)
	}
	return ""
}

func (v planVector) compareError(tb testing.TB, err error) string {
	e := status.From(err)
	if e == nil || e.Code != status.CodeBadRequest {
		return fmt.Sprintf("error %v is not a BadRequest", err)
	}
	if !v.refused {
		return fmt.Sprintf("refused; want a plan\n got %s", e.Message)
	}
	if e.Quoted && v.errors == nil {
		return "" // the planner has only a number
	}
	body := value.Undefined()
	if !e.Quoted {
		if body, err = value.ParseString(e.Message); err != nil {
			tb.Fatal(err)
		}
	}
	if got, want := body.Get("errors"), value.Array(v.errors); !value.Equal(got, want) {
		return fmt.Sprintf("errors\n got %s\nwant %s", got.JSON(), want.JSON())
	}
	return ""
}

// withoutDefaults returns a plan without members that have their default value, as in
// the vectors.
func withoutDefaults(v value.Value) value.Value {
	switch v.Kind() {
	case value.KindArray:
		items := make([]value.Value, v.Len())
		for i, item := range v.Items() {
			items[i] = withoutDefaults(item)
		}
		return value.Array(items)
	case value.KindObject:
		var members []value.Member
		for _, m := range v.Members() {
			one := withoutDefaults(m.Value)
			if hasEffect(one) || m.Name == "dCountInfo" && one.Kind() == value.KindObject {
				members = append(members, value.Member{Name: m.Name, Value: one})
			}
		}
		return value.Object(members)
	}
	return v
}

// hasEffect reports whether a member of a plan differs from its default.
func hasEffect(v value.Value) bool {
	switch v.Kind() {
	case value.KindNull:
		return false
	case value.KindBool:
		return v.IsTrue()
	case value.KindString:
		return v.Text() != "" && v.Text() != distinctNone
	case value.KindArray, value.KindObject:
		return v.Len() > 0
	}
	return true
}

// rangesText shows the ranges of a plan as the vectors have them.
func rangesText(list []value.Value) string {
	var parts []string
	for _, r := range list {
		low, high := "(", ")"
		if r.Get("isMinInclusive").IsTrue() {
			low = "["
		}
		if r.Get("isMaxInclusive").IsTrue() {
			high = "]"
		}
		parts = append(parts, low+r.Get("min").Text()+", "+r.Get("max").Text()+high)
	}
	return strings.Join(parts, " ")
}

func epkText(list []value.Value) string {
	if list == nil {
		return "[, FF)"
	}
	var parts []string
	for _, r := range list {
		kind := r.Index(2).Text()
		parts = append(parts, kind[:1]+r.Index(0).Text()+", "+r.Index(1).Text()+kind[1:])
	}
	return strings.Join(parts, " ")
}

// refusedTexts are parts of the errors with which partitions refuse queries that the
// planner accepts: an ORDER BY of elements, SELECT * without FROM, and aggregates where
// there are no groups.
var refusedTexts = []string{"Order-by over correlated collections is not supported.", "SC1021", "SC2104", "SC2101"}

// TestPlanVectorsRun runs the texts that the planner makes of the vectors on each
// partition, merges the rows as clients do, and compares them with the rows of the query
// itself. Rows of a subquery that combines documents are those of each partition, so for
// them there is only one.
func TestPlanVectorsRun(t *testing.T) {
	t.Parallel()
	refused, ran, rewritten := 0, 0, 0
	for i, v := range loadPlanVectors(t) {
		if v.refused {
			continue
		}
		p, err := Prepare(v.query, v.params, nil, Options{Functions: anyFunction})
		if err == nil {
			err = p.Describable(v.key)
		}
		if err != nil {
			continue // an exception, which TestPlanVectors has judged
		}
		if err := p.Runnable(); err != nil {
			if e := status.From(err); p.query.From != nil && (e == nil || !slices.ContainsFunc(refusedTexts, func(text string) bool { return strings.Contains(e.Message, text) })) {
				t.Errorf("%q: %v", v.query, err)
			}
			refused++
			continue
		}
		r := rand.New(rand.NewPCG(uint64(i), 11))
		docs := vectorRowsOf(t, r)
		c := client{seed: uint64(i), pages: []int{0, 3}[i%2], parts: docs.split(3), params: v.params}
		if notInJSON(t, p, docs) {
			continue
		}
		switch {
		case p.Hybrid() != nil:
			runComponents(t, c, p, v.key)
		case variable(v.query):
			c.whole(t, v.query)
		case p.query.Star && len(p.query.OrderBy) > 0 && inputName(p.query) != p.query.From.Inputs[0].Name():
			// The planner's text selects the documents instead of places in them.
		default:
			if combining(p.query.From) != nil || p.alone(p.keyRanges(v.key)) {
				c.parts = docs.split(1)
			}
			c.compareIn(t, v.query, v.key)
		}
		ran++
		if p.Describe(v.key).Get("queryInfo").Get("rewrittenQuery").Len() > 0 {
			rewritten++
		}
	}
	t.Logf("%d queries ran, of which %d are rewritten; partitions refuse %d", ran, rewritten, refused)
	if ran < 1400 || refused > 12 {
		t.Errorf("%d queries ran, partitions refuse %d", ran, refused)
	}
}

// notInJSON reports whether a row of the query is a number that JSON does not have.
func notInJSON(t *testing.T, p *Plan, docs list) bool {
	if p.Hybrid() != nil {
		return false
	}
	_, _, err := all(t.Context(), p, []list{docs}, Budget{})
	return err != nil && strings.Contains(err.Error(), `"code":4001`)
}

// variable reports whether the result of a query differs from run to run.
func variable(text string) bool {
	text = strings.ToUpper(text)
	return slices.ContainsFunc([]string{"RAND(", "GETCURRENT", "NOW(", "AGO("}, func(name string) bool { return strings.Contains(text, name) })
}

// vectorRowsOf makes documents with the properties that the vectors ask for, of few
// distinct values.
func vectorRowsOf(t *testing.T, r *rand.Rand) list {
	t.Helper()
	words := []string{`"a"`, `"b"`, `"x"`, "1", "2", "3", "null", "true", "1.5"}
	var docs list
	for i := range 12 {
		var b strings.Builder
		fmt.Fprintf(&b, `{"id":"%d","_rid":"r%03d","_ts":%d,"n":%d,"tags":["%s","b"],"t":[%d,2],"o":{"x":%d,"y":[1,2]},"nums":[1,2],"e":[%d,1],"vector":[%d,0,1],"v":[%d,1],"text":"a dog and %s cats"`,
			i, i, i, r.IntN(4), pick(r, []string{"a", "c"}), r.IntN(3), r.IntN(3), i+1, i+1, i+1, pick(r, []string{"two", "x"}))
		fmt.Fprintf(&b, `,"items":[{"q":%d},{"q":1}],"kids":[{"n":"k","age":%d,"pets":[]}],"name":"Ann %d"`, r.IntN(3), r.IntN(9), r.IntN(2))
		for _, name := range []string{"pk", "a", "b", "c", "d", "g", "k", "x", "y", "z", "f", "flag"} {
			if r.IntN(5) > 0 {
				fmt.Fprintf(&b, `,"%s":%s`, name, pick(r, words))
			}
		}
		docs = append(docs, newDocument(t, nil, uint64(i+1), b.String()+"}"))
	}
	return docs
}

// runComponents runs the queries of a hybrid search on each partition with the
// statistics in place of their placeholders.
func runComponents(t *testing.T, c client, p *Plan, key partitionkey.Definition) {
	t.Helper()
	info := p.Describe(key).Get("hybridSearchQueryInfo")
	fill := []string{filterPlaceholder, "true", documentsPlaceholder, "12"}
	c.rows(t, info.Get("globalStatisticsQuery").Text(), c.parts)
	for i := range info.Get("componentQueryInfos").Items() {
		fill = append(fill, fmt.Sprintf(wordsPlaceholder, i), "60", fmt.Sprintf(hitsPlaceholder, i), "[3, 3]")
	}
	for _, one := range info.Get("componentQueryInfos").Items() {
		text := strings.NewReplacer(fill...).Replace(one.Get("rewrittenQuery").Text())
		var rows []value.Value
		for _, part := range c.parts {
			rows = append(rows, c.rows(t, text, []list{part})...)
		}
		for _, row := range rows {
			if row.Get("_rid").Kind() != value.KindString || row.Get("payload").Get("componentScores").Len() != len(info.Get("componentQueryInfos").Items()) {
				t.Errorf("%s: %s", text, row.JSON())
			}
		}
	}
}
