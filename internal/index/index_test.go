package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
)

// TestIndex runs the cases of testdata. The policy command has lines "include
// PATH", "exclude PATH" and "mode none" and makes a new index; the container
// command makes one from the members of a container's definition, as JSON.
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
			case "container":
				p, err := container(d.Input)
				if err != nil {
					return err.Error()
				}
				if x, err = Compile(p); err != nil {
					return err.Error()
				}
				return "ok"
			case "terms":
				return describe(x, x.Terms(nil, parse(t, d.Input)), parse(t, d.Input))
			case "order":
				return eachLine(d.Input, func(line string) string { return line + " -> " + describeOrder(t, x, line) })
			case "serves":
				// Whether this index serves the expressions of an index with the policy
				// of the input.
				p, err := container(d.Input)
				if err != nil {
					return err.Error()
				}
				other, err := Compile(p)
				if err != nil {
					return err.Error()
				}
				return describeServed(t, x, other)
			case "covers":
				return eachLine(d.Input, func(line string) string {
					return fmt.Sprintf("%s %t", line, x.Covers(pathOf(t, line)))
				})
			case "span":
				return eachLine(d.Input, func(line string) string { return describeSpan(t, x, line) })
			case "diff":
				before, after, _ := strings.Cut(d.Input, "\n")
				old, new := parse(t, before), parse(t, after)
				removed, added := Diff(x.Terms(nil, old), x.Terms(nil, new))
				return "removed\n" + describe(x, removed, old) + "added\n" + describe(x, added, new)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func eachLine(input string, f func(line string) string) string {
	var b strings.Builder
	for line := range strings.Lines(input) {
		b.WriteString(f(strings.TrimSpace(line)) + "\n")
	}
	return b.String()
}

// describeSpan parses a path, an operator and a value, and prints which values
// of sample are in the span.
func describeSpan(t *testing.T, x *Index, line string) string {
	t.Helper()
	path, rest, _ := strings.Cut(line, " ")
	op, text, _ := strings.Cut(rest, " ")
	v := value.Undefined()
	if text != "" {
		v = parse(t, text)
	}
	s, ok := x.Span(pathOf(t, path), opOf(t, op), v)
	if !ok {
		return line + ": no index"
	}
	return fmt.Sprintf("%s:%s exact=%t one=%t %s", line, found(x, s), s.Exact, s.One, s.Label)
}

// sample is a list of documents for testing spans: every type at /a, and
// elements at /a/[].
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
	p, err := resource.ParseIndexPath(text + "/?")
	if err != nil {
		t.Fatal(err)
	}
	return p.Names
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

// TestTermBytes pins the bytes on disk: a change here makes every store
// unreadable.
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

// TestKindBytes pins the terms of the other kinds, and those below a computed
// property, which are also stored on disk.
func TestKindBytes(t *testing.T) {
	t.Parallel()
	p, err := container(everything)
	if err != nil {
		t.Fatal(err)
	}
	earlier, err := CompileTokens(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	x := mustContainer(t, everything)
	for _, c := range []struct {
		x    *Index
		doc  string
		want []string
	}{
		{x, `{"a":1,"b":"x"}`, []string{"1372b7ad93006d10 0105c0140000000000000000", "814d2aabe24d0939 05bff00000000000000000f987fffe"}},
		{x, `{"cp":true}`, []string{"1372b7ad93006d10 0405c0140000000000000000", "814d2aabe24d0939 01fe", "f4bf51012cb2b05c 04"}},
		{x, `{"list":[{"a":"x","b":{"c":null}}]}`, []string{"1372b7ad93006d10 0105c0140000000000000000", "814d2aabe24d0939 01fe", "860ad4af6b8b152b 0678000102"}},
		{x, `{"text":"Running"}`, []string{"00978999c643d6fe 05bff00000000000000000", "1372b7ad93006d10 0105c0140000000000000000", "814d2aabe24d0939 01fe", "9950e8e3e672ba70 0672756e0001"}},
		{earlier, `{"text":"Running"}`, []string{"1372b7ad93006d10 0105c0140000000000000000", "574e0221db7b4f1e 0672756e0001", "67309d6033715cec 05bff00000000000000000", "814d2aabe24d0939 01fe"}},
		{x, `{"place":{"type":"Point","coordinates":[1,2]}}`, []string{"1372b7ad93006d10 0105c0140000000000000000", "47cbd39a2dafd188 10036e18b7e22321", "814d2aabe24d0939 01fe"}},
	} {
		doc, plain := parse(t, c.doc), mustCompile(t, "/*")
		var got []string
		for _, term := range c.x.Stamp(c.x.Terms(nil, doc), 5) {
			if !slices.Contains(plain.Stamp(plain.Terms(nil, doc), 5), term) {
				got = append(got, fmt.Sprintf("%x %x", string(term[:idSize]), string(term[idSize:])))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("terms of %s: got %q, want %q", c.doc, got, c.want)
		}
	}
	for path, want := range map[string]string{"v": "d178ff636881ebe7 6ab8f5a6ea35c352", "a": "786a68ac27a08cf2 "} {
		if form, _ := x.VectorForm(Path{path}); fmt.Sprintf("%x %x", string(form.ID), string(form.CodeID)) != want {
			t.Errorf("ids of the vectors and codes at %s: got %x %x, want %s", path, string(form.ID), string(form.CodeID), want)
		}
	}
}

// TestSpanAgreesWithPredicate generates values and predicates and compares the
// span with the predicate: it must be a superset, and equal if it is exact.
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

// TestTermsAreSortedAndReusable checks that a reused buffer keeps nothing of the
// previous document, with several goroutines at once.
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
	for _, seed := range []string{"/*", "/a/?", `/"a-b"/[]/?`, `/"a\"b"/*`, "/a", "//?", "/é/?", "/{a,b}/?", `/"`, `/a/[]/{b, "c-d"/e}/?`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, err := resource.ParseIndexPath(text)
		if err != nil {
			return
		}
		written := Path(path.Names).String()
		if path.Tuple != nil {
			members := make([]string, len(path.Tuple))
			for i, member := range path.Tuple {
				members[i] = strings.TrimPrefix(Path(member).String(), "/")
			}
			written += "/{" + strings.Join(members, ", ") + "}"
		}
		if path.Subtree {
			written += "/*"
		} else {
			written += "/?"
		}
		again, err := resource.ParseIndexPath(written)
		if err != nil || !reflect.DeepEqual(again, path) {
			t.Fatalf("%q was read as %v, and its text %q as %v (%v)", text, path, written, again, err)
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

// BenchmarkTermsOfKinds measures what the other kinds add to a document with 15
// terms.
func BenchmarkTermsOfKinds(b *testing.B) {
	for _, kind := range []struct{ name, members string }{
		{"none", `{}`},
		{"composite", `{"indexingPolicy":{"compositeIndexes":[[{"path":"/p0"},{"path":"/p1"}],[{"path":"/p2"},{"path":"/_ts","order":"descending"}]]}}`},
		{"text", `{"fullTextPolicy":{"fullTextPaths":[{"path":"/p0"}]},"indexingPolicy":{"fullTextIndexes":[{"path":"/p0"}]}}`},
		{"spatial", `{"indexingPolicy":{"spatialIndexes":[{"path":"/*","types":["Point","Polygon","MultiPolygon","LineString"]}]}}`},
	} {
		b.Run("kind="+kind.name, func(b *testing.B) {
			x := mustContainer(b, kind.members)
			doc := benchDocument(b)
			if kind.name == "spatial" {
				doc = doc.With("p13", parse(b, `{"type":"Point","coordinates":[1,2]}`))
			}
			var dst []Term
			b.ReportAllocs()
			for b.Loop() {
				dst = x.Stamp(x.Terms(dst[:0], doc), 1)
			}
			b.ReportMetric(float64(len(dst)), "terms")
		})
	}
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

// TestTermsPaced computes the terms of large documents with checks in between. The
// checks can end it and have no other effect.
func TestTermsPaced(t *testing.T) {
	x := mustCompile(t, "/*")
	for _, n := range []int{0, 1, paceTerms - 1, paceTerms, paceTerms + 1, runTerms, runTerms + 1, 3*runTerms + 5, 8 * runTerms} {
		items := make([]value.Value, n)
		for i := range items {
			items[i] = value.Int(int64(i * 7919 % (n + 1) / 2 * 3)) // Some of them twice.
		}
		doc := value.Object([]value.Member{{Name: "id", Value: value.String("1")}, {Name: "list", Value: value.Array(items)}})
		looks := 0
		got, err := x.TermsPaced(nil, doc, func() error { looks++; return nil })
		if want := x.Terms(nil, doc); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d elements: %v, %d terms, want %d", n, err, len(got), len(want))
		}
		if looks < n/paceTerms {
			t.Errorf("%d elements: %d looks", n, looks)
		}
		enough := errors.New("enough")
		for at := 1; at <= looks; at += 1 + looks/9 {
			left := at
			if _, err := x.TermsPaced(nil, doc, func() error {
				if left--; left == 0 {
					return enough
				}
				return nil
			}); !errors.Is(err, enough) {
				t.Errorf("%d elements: ended at look %d with %v", n, at, err)
			}
		}
	}
}
