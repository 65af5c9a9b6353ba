package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// TestIndex runs the cases of testdata. The policy command has lines "include
// PATH", "exclude PATH" and "mode none", and makes a new index.
func TestIndex(t *testing.T) {
	datadriven.Walk(t, "testdata/cases", func(t *testing.T, file string) {
		x := mustCompile(t, "/*")
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "policy":
				p := policyOf(t, d.Input)
				compiled, err := Compile(p)
				if err != nil {
					return err.Error()
				}
				x = compiled
				return "ok"
			case "terms":
				return describe(x.Terms(nil, parse(t, d.Input)), parse(t, d.Input))
			case "covers":
				var b strings.Builder
				for line := range strings.Lines(d.Input) {
					line = strings.TrimSpace(line)
					fmt.Fprintf(&b, "%s %t\n", line, x.Covers(pathOf(t, line)))
				}
				return b.String()
			case "span":
				// Each line: path, operator, value. The answer says which of
				// the documents given with "documents" are in the span.
				var b strings.Builder
				for line := range strings.Lines(d.Input) {
					path, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
					op, text, _ := strings.Cut(rest, " ")
					v := value.Undefined()
					if text != "" {
						v = parse(t, text)
					}
					s, ok := x.Span(pathOf(t, path), opOf(t, op), v)
					if !ok {
						fmt.Fprintf(&b, "%s: no index\n", strings.TrimSpace(line))
						continue
					}
					fmt.Fprintf(&b, "%s:%s exact=%t one=%t %s\n", strings.TrimSpace(line), found(x, s), s.Exact, s.One, s.Label)
				}
				return b.String()
			case "diff":
				before, after, _ := strings.Cut(d.Input, "\n")
				old, new := parse(t, before), parse(t, after)
				removed, added := Diff(x.Terms(nil, old), x.Terms(nil, new))
				return "removed\n" + describe(removed, old) + "added\n" + describe(added, new)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// sample is what spans are tried on: every type at /a, and elements at /a/[].
var sample = []string{
	`{}`, `{"a":null}`, `{"a":false}`, `{"a":true}`, `{"a":-1.5}`, `{"a":0}`, `{"a":5}`, `{"a":9007199254740993}`,
	`{"a":""}`, `{"a":"b"}`, `{"a":"ba"}`, `{"a":"c"}`, `{"a":"b\u0000"}`, `{"a":[]}`, `{"a":[5,"b"]}`, `{"a":{}}`, `{"a":{"b":5}}`, `{"a":{"[]":5}}`,
}

func found(x *Index, s Span) string {
	var b strings.Builder
	for _, text := range sample {
		doc, err := value.Parse([]byte(text))
		if err != nil {
			panic(err)
		}
		if inSpan(x.Terms(nil, doc), s) {
			b.WriteString(" " + text)
		}
	}
	return b.String()
}

func inSpan(terms []Term, s Span) bool {
	return slices.ContainsFunc(terms, func(t Term) bool { return s.Low <= t && t < s.High })
}

// describe prints terms as path and value, by looking for the places of doc
// whose path has the id.
func describe(terms []Term, doc value.Value) string {
	places := map[string]string{}
	var walk func(v value.Value, p Path)
	walk = func(v value.Value, p Path) {
		places[string(p.appendID(nil))] = p.String()
		for _, m := range v.Members() {
			walk(m.Value, append(slices.Clone(p), m.Name))
		}
		for _, item := range v.Items() {
			walk(item, append(slices.Clone(p), Element))
		}
	}
	walk(doc, nil)
	var lines []string
	for _, term := range terms {
		place, key := places[string(term[:8])], []byte(term[8:])
		switch {
		case key[0] == arrayTag:
			lines = append(lines, place+" array")
		case key[0] == objectTag:
			lines = append(lines, place+" object")
		default:
			v, _, err := value.DecodeKey(key)
			if err != nil {
				lines = append(lines, fmt.Sprintf("%s cut after %d bytes", place, len(key)))
				continue
			}
			lines = append(lines, place+" "+v.String())
		}
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		return "none\n"
	}
	return strings.Join(lines, "\n") + "\n"
}

func policyOf(t *testing.T, text string) resource.IndexingPolicy {
	t.Helper()
	p := resource.IndexingPolicy{Mode: resource.IndexingConsistent, Automatic: true}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "include":
			p.Included = append(p.Included, rest)
		case "exclude":
			p.Excluded = append(p.Excluded, rest)
		case "mode":
			p.Mode = resource.IndexingMode(rest)
		default:
			t.Fatalf("unknown word %q", word)
		}
	}
	return p
}

func mustCompile(tb testing.TB, included ...string) *Index {
	tb.Helper()
	x, err := Compile(resource.IndexingPolicy{Mode: resource.IndexingConsistent, Automatic: true, Included: included})
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

func pathOf(t *testing.T, text string) Path {
	t.Helper()
	p, _, err := resource.ParseIndexingPath(text + "/?")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func opOf(t *testing.T, text string) Op {
	t.Helper()
	i := slices.Index(opNames[:], text)
	if i < 0 {
		t.Fatalf("unknown operator %q", text)
	}
	return Op(i)
}

func parse(tb testing.TB, text string) value.Value {
	tb.Helper()
	v, err := value.Parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// TestTermBytes pins what is on disk: a change here makes every store unreadable.
func TestTermBytes(t *testing.T) {
	t.Parallel()
	x := mustCompile(t, "/*")
	for _, c := range []struct{ doc, want string }{
		{`{"id":"x"}`, "0d39a5a1f1760e7c06780001"},
		{`{"a":{"b":1}}`, "3aec69d286fbd39b08 d1cc471618320c9c05bff00000000000000000"},
		{`{"tags":["t"]}`, "b406c052beab231a07 ed7be65bd27ee12906740001"},
	} {
		terms := x.Terms(nil, parse(t, c.doc))
		var got []string
		for _, term := range terms {
			got = append(got, fmt.Sprintf("%x", string(term)))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("terms of %s: got %s, want %s", c.doc, strings.Join(got, " "), c.want)
		}
	}
}

// TestSpanAgreesWithPredicate draws values and predicates and compares the span
// with the predicate itself: a superset always, equal when exact.
func TestSpanAgreesWithPredicate(t *testing.T) {
	t.Parallel()
	x := mustCompile(t, "/*")
	long := strings.Repeat("x", StringBytesMax-1)
	values := []value.Value{
		value.Undefined(), value.Null(), value.Bool(false), value.Bool(true),
		value.Int(-1 << 63), value.Int(-1), value.Int(0), value.Int(1), value.Number(0.5), value.Number(1e300), value.Int(1<<53 + 1), value.Int(1<<63 - 1),
		value.String(""), value.String("\x00"), value.String("a"), value.String("a\x00"), value.String("a\x00b"), value.String("ab"), value.String("b"), value.String("é"), value.String("\U0001F600"),
		value.String(long), value.String(long + "x"), value.String(long + "xx"), value.String(long + "xy"), value.String(long + "y"), value.String(long + "yx"), value.String(long + "\x00"), value.String(long + "\x00a"), value.String(long + "é"), value.String(long + "éx"),
		value.Array(nil), value.Array([]value.Value{value.Int(1)}), value.Object(nil), value.Object([]value.Member{{Name: "b", Value: value.Int(1)}}),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := make([]byte, 120+random.IntN(20))
		for i := range b {
			b[i] = "ab\x00"[random.IntN(3)]
		}
		for i := range b[:118] {
			b[i] = 'a'
		}
		values = append(values, value.String(string(b)))
	}
	path := Path{"a"}
	for _, stored := range values {
		doc := value.Object([]value.Member{{Name: "a", Value: stored}})
		terms := x.Terms(nil, doc)
		for _, v := range values {
			for op := Eq; op <= Kind; op++ {
				s, ok := x.Span(path, op, v)
				if !ok {
					continue
				}
				got, want := inSpan(terms, s), holds(stored, op, v)
				if want && !got {
					t.Fatalf("%s %s %s holds but is not in the span %s", stored, op, v, s)
				}
				if got && !want && s.Exact {
					t.Fatalf("%s %s %s does not hold but is in the exact span %s", stored, op, v, s)
				}
			}
		}
	}
}

// holds is the predicate as the query language defines it.
func holds(stored value.Value, op Op, v value.Value) bool {
	if !stored.IsDefined() {
		return false
	}
	same := stored.Kind() == v.Kind()
	c := value.Compare(stored, v)
	switch op {
	case Eq:
		return same && c == 0
	case Lt:
		return same && c < 0
	case Le:
		return same && c <= 0
	case Gt:
		return same && c > 0
	case Ge:
		return same && c >= 0
	case Prefix:
		return same && strings.HasPrefix(stored.Text(), v.Text())
	case Defined:
		return true
	}
	return same
}

// TestTermsAreSortedAndReusable shows that a buffer used again keeps nothing of
// the document before, from several goroutines at once.
func TestTermsAreSortedAndReusable(t *testing.T) {
	t.Parallel()
	x := mustCompile(t, "/*")
	done := make(chan error, 4)
	for g := range 4 {
		go func() {
			for i := range 200 {
				doc := value.Object([]value.Member{{Name: "n", Value: value.Int(int64(g*1000 + i))}, {Name: "a", Value: value.Array([]value.Value{value.Int(2), value.Int(1), value.Int(2)})}})
				terms := x.Terms(nil, doc)
				if len(terms) != 4 || !slices.IsSorted(terms) {
					done <- fmt.Errorf("got %d terms, sorted %t", len(terms), slices.IsSorted(terms))
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func FuzzPolicyPath(f *testing.F) {
	for _, seed := range []string{"/*", "/a/?", `/"a-b"/[]/?`, `/"a\"b"/*`, "/a", "//?", "/é/?", "/{a,b}/?", `/"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, subtree, err := resource.ParseIndexingPath(text)
		if err != nil {
			return
		}
		ending := "/?"
		if subtree {
			ending = "/*"
		}
		again, subtreeAgain, err := resource.ParseIndexingPath(Path(path).String() + ending)
		if err != nil || subtreeAgain != subtree || !slices.Equal(again, path) {
			t.Fatalf("%q was read as %q, and its text %q as %q (%v)", text, path, Path(path), again, err)
		}
	})
}

func BenchmarkTerms(b *testing.B) {
	x := mustCompile(b, "/*")
	doc := benchDocument(b)
	var dst []Term
	b.ReportAllocs()
	for b.Loop() {
		dst = x.Terms(dst[:0], doc)
	}
	b.ReportMetric(float64(len(dst)), "terms")
}

func BenchmarkDiff(b *testing.B) {
	x := mustCompile(b, "/*")
	old := benchDocument(b)
	before, after := x.Terms(nil, old), x.Terms(nil, old.With("p7", value.String("other")))
	b.ReportAllocs()
	for b.Loop() {
		Diff(before, after)
	}
}

func benchDocument(b *testing.B) value.Value {
	var text strings.Builder
	text.WriteString(`{"id":"0123456789"`)
	for i := range 14 {
		fmt.Fprintf(&text, `,"p%d":"value number %d of the document"`, i, i)
	}
	text.WriteString("}")
	return parse(b, text.String())
}
