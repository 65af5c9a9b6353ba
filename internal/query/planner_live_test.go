package query

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/query/sql"
	"github.com/decandb/decan/internal/value"
)

// judge runs the service's planner, which the .NET client contains. testdata/planner
// has the program that asks it. A judge is for one goroutine.
type judge struct {
	command []string
	process *exec.Cmd // nil if it does not run
	in      io.WriteCloser
	lines   chan string // answers; closed when the process ends
	said    *bytes.Buffer
	asked   int // by this process
}

// judgeMax is the number of questions after which the process starts again, because the
// planner keeps memory.
const judgeMax = 50_000

// judgeWait is the time after which a question counts as one that ends the process.
const judgeWait = time.Minute

// newJudge starts the planner with the program that CSRUN names, which compiles and runs
// a C# file, or with dotnet. It skips the test if there is neither.
func newJudge(t *testing.T) *judge {
	t.Helper()
	j := &judge{}
	file := filepath.Join("testdata", "planner", "planner.cs")
	if csrun := os.Getenv("CSRUN"); csrun != "" {
		j.command = []string{csrun, file}
	} else if dotnet, err := exec.LookPath("dotnet"); err == nil {
		j.command = []string{dotnet, "run", "--project", filepath.Dir(file), "--configuration", "Release"}
	} else {
		t.Skip("not run: the service's planner needs dotnet, or CSRUN with a program that runs a C# file")
	}
	t.Cleanup(j.stop)
	if answers := j.ask(t, []string{`{"query":"SELECT * FROM c"}`}); !answers[0].Get("plan").IsDefined() {
		t.Fatalf("%s does not plan: %s", j.command, j.said)
	}
	return j
}

func (j *judge) start(t *testing.T) {
	j.process, j.said = exec.Command(j.command[0], j.command[1:]...), &bytes.Buffer{}
	j.process.Stderr = j.said
	in, err := j.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := j.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.process.Start(); err != nil {
		t.Fatal(err)
	}
	j.in, j.lines, j.asked = in, make(chan string, 64), 0
	go func(lines chan<- string) {
		defer close(lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}(j.lines)
}

func (j *judge) stop() {
	if j.process == nil {
		return
	}
	_ = j.in.Close()
	_ = j.process.Process.Kill()
	for range j.lines {
	}
	_ = j.process.Wait() // the process was killed
	j.process = nil
}

// ask returns the answer to each request; planner.cs has their form. It is undefined for
// a request on which the planner's library ends the process.
func (j *judge) ask(t *testing.T, requests []string) []value.Value {
	t.Helper()
	answers := make([]value.Value, 0, len(requests))
	for len(answers) < len(requests) {
		if j.process != nil && j.asked >= judgeMax {
			j.stop()
		}
		if j.process == nil {
			j.start(t)
		}
		rest := requests[len(answers):]
		rest = rest[:min(len(rest), judgeMax-j.asked)]
		go func(in io.Writer) {
			for _, request := range rest {
				if _, err := io.WriteString(in, request+"\n"); err != nil {
					return // the reader of the answers sees the end
				}
			}
		}(j.in)
		for range rest {
			line, ok := j.next()
			if !ok {
				j.stop()
				answers = append(answers, value.Undefined())
				break
			}
			v, err := value.ParseString(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			answers = append(answers, v)
			j.asked++
		}
	}
	return answers
}

func (j *judge) next() (string, bool) {
	select {
	case line, ok := <-j.lines:
		return line, ok
	case <-time.After(judgeWait):
		return "", false
	}
}

// values asks for the values of expressions without properties, which the planner
// computes where they are compared with the partition key. It omits expressions that
// the planner does not compute and those on which its library fails.
func (j *judge) values(t *testing.T, exprs []string) []valueVector {
	t.Helper()
	requests := make([]string, len(exprs))
	for i, x := range exprs {
		requests[i] = `{"query":` + string(value.AppendQuoted(nil, "SELECT * FROM c WHERE c.pk = ToString(["+x+"])")) + "}"
	}
	var list []valueVector
	for i, answer := range j.ask(t, requests) {
		if code := answer.Get("error").Index(0).Get("code"); code.IsDefined() {
			list = append(list, valueVector{expr: exprs[i], code: code.Text()})
			continue
		}
		ranges := answer.Get("ranges")
		if text := ranges.Index(0).Get("min").Index(0); ranges.Len() == 1 && text.Kind() == value.KindString {
			list = append(list, valueVector{expr: exprs[i], text: text.Text()})
		}
	}
	return list
}

// question is a query to ask the planner.
type question struct {
	query  string
	params []value.Member // by names with the @
	key    []string
	single bool
}

// request returns the question as planner.cs reads it.
func (q question) request() string { return value.Object(q.members()).JSON() }

func (q question) members() []value.Member {
	members := []value.Member{{Name: "query", Value: value.String(q.query)}}
	if len(q.params) > 0 {
		var list []value.Value
		for _, p := range q.params {
			list = append(list, value.Object([]value.Member{{Name: "name", Value: value.String(p.Name)}, {Name: "value", Value: p.Value}}))
		}
		members = append(members, value.Member{Name: "parameters", Value: value.Array(list)})
	}
	if len(q.key) > 0 {
		members = append(members, value.Member{Name: "key", Value: textArray(q.key)})
	}
	if q.single {
		members = append(members, value.Member{Name: "single", Value: value.Bool(true)})
	}
	return members
}

// vector returns the question with the answer as a line of testdata/vectors has them, or
// false if there is no answer.
func (q question) vector(answer value.Value) (value.Value, bool) {
	members := q.members()
	switch {
	case answer.Get("error").IsDefined():
		members = append(members, value.Member{Name: "error", Value: answer.Get("error")})
	case answer.Get("plan").IsDefined():
		plan := withoutDefaults(answer.Get("plan"))
		if info := answer.Get("plan").Get("queryInfo"); info.Kind() == value.KindObject && !plan.Get("queryInfo").IsDefined() {
			plan = plan.With("queryInfo", value.Object(nil))
		}
		members = append(members, value.Member{Name: "plan", Value: plan})
		if ranges := answer.Get("epk"); rangesText(ranges.Items()) != epkText(nil) {
			members = append(members, value.Member{Name: "epk", Value: epkOf(ranges.Items())})
		}
	default:
		return value.Undefined(), false
	}
	return value.Object(members), true
}

// epkOf writes ranges as the vectors have them: [min, max, "[]"].
func epkOf(list []value.Value) value.Value {
	var out []value.Value
	for _, r := range list {
		kind := []byte("()")
		if r.Get("isMinInclusive").IsTrue() {
			kind[0] = '['
		}
		if r.Get("isMaxInclusive").IsTrue() {
			kind[1] = ']'
		}
		out = append(out, value.Array([]value.Value{r.Get("min"), r.Get("max"), value.String(string(kind))}))
	}
	return value.Array(out)
}

// difference is one kind of difference between Decan and the planner, with its shortest
// example.
type difference struct {
	kind, text string
	count      int
	example    question
	vector     value.Value
}

// judgeAll asks the planner the questions and collects the differences by their kind.
// failed counts the questions without an answer.
func (j *judge) judgeAll(t *testing.T, list []question, found map[string]*difference, documented map[string]int) (failed int) {
	t.Helper()
	requests := make([]string, len(list))
	for i, q := range list {
		requests[i] = q.request()
	}
	for i, answer := range j.ask(t, requests) {
		line, ok := list[i].vector(answer)
		if !ok {
			failed++
			continue
		}
		v := parsePlanVector(line)
		text := v.judged(t)
		if text == "" {
			continue
		}
		if reason := documentedDifference(v, text); reason != "" {
			documented[reason]++
			continue
		}
		kind := kindOfDifference(text)
		name := kind
		if os.Getenv("DECAN_PLANNER_EACH") != "" {
			name += "\n" + list[i].query
		}
		d := found[name]
		if d == nil {
			d = &difference{kind: kind}
			found[name] = d
		}
		if d.count++; d.count == 1 || len(v.query) < len(d.example.query) {
			d.text, d.example, d.vector = text, list[i], line
		}
	}
	return failed
}

var (
	errorCode  = regexp.MustCompile(`"code":("[A-Z0-9]+"|[0-9]+)`)
	quotedText = regexp.MustCompile(`'[^']*'|[0-9]+`)
	points     = regexp.MustCompile(`[0-9A-F]{32,}`)
	message    = regexp.MustCompile(`"message":"((?:[^"\\]|\\.)*)"`)
)

// kindOfDifference returns what many differences have in common: the member of the plan,
// or the errors without places and names.
func kindOfDifference(text string) string {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.HasSuffix(first, "Info") {
		return first
	}
	if first == "ranges" {
		return "ranges" + points.ReplaceAllString(rest, "_")
	}
	if first == "errors" {
		got, want, _ := strings.Cut(rest, "\nwant")
		for _, side := range []string{got, want} {
			first += " " + strings.Join(errorCode.FindAllString(side, -1), " ")
		}
		return first
	}
	head, _, _ := strings.Cut(first, ";")
	for _, m := range message.FindAllStringSubmatch(text, 1) {
		head += ": " + quotedText.ReplaceAllString(m[1], "_")
	}
	return head
}

// documentedDifference returns the reason of a difference that docs/planner.md lists, or
// "".
func documentedDifference(v planVector, text string) string {
	switch {
	case v.refused && v.errors == nil:
		return "refused by the planner without a text"
	case strings.HasPrefix(text, "hybridSearchQueryInfo") && v.sameInlined(false):
		return "the texts of a hybrid search have the values of parameters"
	case strings.HasPrefix(text, "hybridSearchQueryInfo") && v.sameInlined(true):
		return "a negative weight of a component stays, and its order"
	case v.endsAtBetween():
		return "BETWEEN next to AND or OR"
	}
	if v.errors != nil || strings.HasPrefix(text, "refused") || strings.HasPrefix(text, "panic") {
		return ""
	}
	q, err := sql.Parse(v.query, v.declared())
	switch {
	case err != nil:
	case q.From != nil && !namesContainer(q):
		return "a query that reads no documents"
	case asksForAll(q):
		return "ALL asks whether every row is true"
	}
	return ""
}

// endsAtBetween reports whether the planner stops reading the query at a BETWEEN after
// AND or OR, or at an AND or OR after BETWEEN.
func (v planVector) endsAtBetween() bool {
	if len(v.errors) != 1 || v.errors[0].Get("code").Text() != "SC1001" {
		return false
	}
	text, at := []rune(strings.ToUpper(v.query)), v.errors[0].Get("location")
	start, _ := at.Get("start").Int64()
	end, _ := at.Get("end").Int64()
	if start < 0 || end < start || int(end) > len(text) {
		return false
	}
	before := string(text[:start])
	switch string(text[start:end]) {
	case "BETWEEN":
		return strings.Contains(before, "AND") || strings.Contains(before, "OR")
	case "AND", "OR":
		return strings.Contains(before, "BETWEEN")
	}
	return false
}

// asksForAll reports whether a query has ALL(SELECT ...) in it.
func asksForAll(q *sql.Select) bool {
	var in func(x sql.Expr) bool
	in = func(x sql.Expr) bool {
		if s, ok := x.(*sql.Subquery); ok && (s.Kind == sql.SubqueryAll || asksForAll(s.Query)) {
			return true
		}
		for part := range sql.Children(x) {
			if in(part) {
				return true
			}
		}
		return false
	}
	for x := range q.Exprs() {
		if in(x) {
			return true
		}
	}
	return false
}

// declared returns the parameters by their names without the @.
func (v planVector) declared() map[string]value.Value {
	all := map[string]value.Value{}
	for _, p := range v.params {
		all[strings.TrimPrefix(p.Name, "@")] = p.Value
	}
	return all
}

// sameInlined reports whether the plan for a hybrid search is that of the planner with the
// values of parameters in its texts and, if least is set, but for negative weights.
func (v planVector) sameInlined(least bool) bool {
	p, err := Prepare(v.query, v.params, nil, Options{Functions: anyFunction})
	if err != nil {
		return false
	}
	got := withoutDefaults(p.Describe(v.key).Get("hybridSearchQueryInfo"))
	want := inlined(p, v.plan.Get("hybridSearchQueryInfo"))
	if least {
		want = leastScores(got, want)
	}
	return value.Equal(got, withoutDefaults(want))
}

var (
	greatestScore = regexp.MustCompile(`(\(_(?:VectorScore|FullTextScore)\((?:[^?]*?)\) \?\? )1\.7976900000000001e\+308`)
	ascendingText = regexp.MustCompile(`(\nORDER BY .*) ASC(\n|$)`)
)

// leastScores rewrites a plan for a hybrid search with negative weights: the planner turns
// the order of such a component round, and Decan its weight.
func leastScores(got, want value.Value) value.Value {
	weights := slices.Clone(want.Get("componentWeights").Items())
	components := slices.Clone(want.Get("componentQueryInfos").Items())
	for i := range components {
		negative := i < len(weights) && i < got.Get("componentWeights").Len() && got.Get("componentWeights").Index(i).Float() < 0
		text := greatestScore.ReplaceAllStringFunc(components[i].Get("rewrittenQuery").Text(), func(m string) string {
			least := "-1.7976900000000001e+308"
			if strings.HasPrefix(m, "(_FullText") {
				least = "-1"
			}
			return greatestScore.ReplaceAllString(m, "${1}"+least)
		})
		if negative {
			weights[i] = value.Number(-weights[i].Float())
			text = ascendingText.ReplaceAllStringFunc(text, func(m string) string {
				if strings.Contains(m, "_FullText") {
					return strings.Replace(m, " ASC", " DESC", 1)
				}
				return strings.Replace(m, " ASC", "", 1)
			})
			components[i] = components[i].With("orderBy", textArray([]string{"Descending"}))
		}
		components[i] = components[i].With("rewrittenQuery", value.String(text))
	}
	return want.With("componentWeights", value.Array(weights)).With("componentQueryInfos", value.Array(components))
}

// inlined replaces the parameters in the texts of a plan.
func inlined(p *Plan, v value.Value) value.Value {
	switch v.Kind() {
	case value.KindArray:
		items := slices.Clone(v.Items())
		for i := range items {
			items[i] = inlined(p, items[i])
		}
		return value.Array(items)
	case value.KindObject:
		for _, m := range slices.Clone(v.Members()) {
			switch text := m.Value.Text(); {
			case m.Name == "rewrittenQuery" || m.Name == "globalStatisticsQuery":
				v = v.With(m.Name, value.String(p.with.inline(text)))
			case m.Value.Kind() == value.KindArray:
				v = v.With(m.Name, inlined(p, m.Value))
			}
		}
	}
	return v
}

// judged is compare, but returns a panic as a difference.
func (v planVector) judged(t *testing.T) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return v.compare(t)
}

// shrink removes tokens from the example of a difference as long as it stays one of its
// kind.
func (j *judge) shrink(t *testing.T, d *difference) {
	t.Helper()
	tokens := tokenPattern.FindAllString(d.example.query, -1)
	for size := min(len(tokens)/2, 40); size > 0; {
		var list []question
		var texts [][]string
		for at := 0; at+size <= len(tokens); at++ {
			shorter := append(slices.Clone(tokens[:at]), tokens[at+size:]...)
			q := d.example
			q.query = strings.Join(shorter, "")
			list, texts = append(list, q), append(texts, shorter)
		}
		requests := make([]string, len(list))
		for i, q := range list {
			requests[i] = q.request()
		}
		again := false
		for i, answer := range j.ask(t, requests) {
			line, ok := list[i].vector(answer)
			if !ok {
				continue
			}
			v := parsePlanVector(line)
			if text := v.judged(t); text != "" && kindOfDifference(text) == d.kind && documentedDifference(v, text) == "" {
				d.text, d.example, d.vector, tokens, again = text, list[i], line, texts[i], true
				break
			}
		}
		if !again || size > len(tokens) {
			size = min(size-1, len(tokens))
		}
	}
}

// tokenPattern finds tokens with the blanks before them.
var tokenPattern = regexp.MustCompile(`\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|@?[\p{L}_][\p{L}_0-9]*|[0-9][0-9.eE]*|\?\?|[<>!=]=|<>|>>>?|<<|\|\||\S)`)

// shrunkMax is the number of kinds of differences whose examples are shortened.
const shrunkMax = 12

// plannerJob returns the number of inputs of a test that asks the service's planner, and
// the seed of the first. It skips the test if the number is not set.
func plannerJob(t *testing.T) (total int, seed uint64) {
	total, _ = strconv.Atoi(os.Getenv("DECAN_PLANNER"))
	if total == 0 {
		t.Skip("DECAN_PLANNER is not set")
	}
	seed, err := strconv.ParseUint(os.Getenv("DECAN_PLANNER_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64N(1 << 32)
	}
	t.Logf("DECAN_PLANNER_SEED=%d", seed)
	return total, seed
}

// TestPlanner asks the service's planner random queries and compares its answers with
// those of Decan. A tenth of the queries are of the kind that TestSecondOpinion runs.
// DECAN_PLANNER is the number of queries and DECAN_PLANNER_SEED where
// they begin; without the former the test does nothing. It writes the shortest example
// of each kind of difference in the form of testdata/vectors, and with DECAN_PLANNER_EACH
// a short example of each difference.
func TestPlanner(t *testing.T) {
	total, seed := plannerJob(t)
	j := newJudge(t)
	found, documented := map[string]*difference{}, map[string]int{}
	failed := 0
	for done := 0; done < total; {
		var list []question
		for range min(5000, total-done) {
			r := rand.New(rand.NewPCG(seed, uint64(done+len(list))))
			if list = append(list, randomQuery(r)); len(list)%10 == 0 {
				w := &queryWriter{Rand: r, loops: loopsMax}
				list[len(list)-1] = question{query: w.query(3, "c", false)}
			}
		}
		failed += j.judgeAll(t, list, found, documented)
		if done += len(list); done%20_000 == 0 {
			t.Logf("%d queries, %d kinds of differences", done, len(found))
		}
	}
	differences, shown := 0, 0
	for _, d := range slices.SortedFunc(maps.Values(found), func(a, b *difference) int { return cmp.Compare(b.count, a.count) }) {
		differences += d.count
		if shown++; shown <= shrunkMax || os.Getenv("DECAN_PLANNER_EACH") != "" {
			j.shrink(t, d)
		}
		t.Errorf("%d times: %s\n%s\n%s", d.count, d.kind, d.text, d.vector.JSON())
	}
	for _, reason := range slices.Sorted(maps.Keys(documented)) {
		t.Logf("%d times: %s", documented[reason], reason)
	}
	t.Logf("%d queries with seed %d: %d differences of %d kinds, %d without an answer", total, seed, differences, len(found), failed)
}
