package value

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestText runs the cases in testdata. A command has many lines of input, each
// of which prints one line.
func TestText(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Parallel()
		if strings.Contains(path, "fuzz") {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var line func(string) string
			switch d.Cmd {
			case "parse":
				line = func(text string) string { return result(ParseString(text)) }
			case "order":
				return order(t, strings.Split(d.Input, "\n"))
			case "key":
				limit := math.MaxInt
				d.MaybeScanArgs(t, "limit", &limit)
				line = func(text string) string {
					key, truncated := AppendKeyLimit(nil, literal(t, text), limit)
					if truncated {
						return fmt.Sprintf("%x truncated", key)
					}
					return fmt.Sprintf("%x", key)
				}
			case "decode":
				line = func(text string) string {
					key, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
					if err != nil {
						t.Fatal(err)
					}
					v, rest, err := DecodeKey(key)
					if err == nil && len(rest) > 0 {
						return fmt.Sprintf("%v, then %x", v, rest)
					}
					return result(v, err)
				}
			case "path":
				line = describePath
			case "at":
				var text string
				text, d.Input, _ = strings.Cut(d.Input, "\n")
				v := literal(t, text)
				line = func(text string) string {
					p, err := ParsePath(text)
					if err != nil {
						return "error: " + err.Error()
					}
					return v.At(p).String()
				}
			case "with":
				var name string
				d.ScanArgs(t, "name", &name)
				line = func(text string) string {
					v, x, _ := strings.Cut(text, " with ")
					return literal(t, v).With(name, literal(t, x)).String()
				}
			case "without":
				line = func(text string) string { return literal(t, text).Without(argNames(d)...).String() }
			default:
				t.Fatalf("unknown command %q", d.Cmd)
			}
			var out strings.Builder
			for text := range strings.SplitSeq(d.Input, "\n") {
				fmt.Fprintln(&out, line(text))
			}
			return out.String()
		})
	})
}

func argNames(d *datadriven.TestData) []string {
	var names []string
	for _, arg := range d.CmdArgs {
		names = append(names, arg.Key)
	}
	return names
}

func result(v Value, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return v.String()
}

// literal parses JSON, or a name for a value that JSON cannot represent.
func literal(t *testing.T, text string) Value {
	t.Helper()
	switch text {
	case "undefined":
		return Undefined()
	case "NaN":
		return Number(math.NaN())
	case "Infinity":
		return Number(math.Inf(1))
	case "-Infinity":
		return Number(math.Inf(-1))
	case "[undefined]":
		return Array([]Value{Undefined()})
	}
	return mustParse(t, text)
}

// order sorts the lines by Compare and prints equal neighbours on one line.
// Every pair must agree with Equal and with the order of keys.
func order(t *testing.T, lines []string) string {
	slices.SortStableFunc(lines, func(a, b string) int {
		return checkPair(t, literal(t, a), literal(t, b))
	})
	var out strings.Builder
	for i, line := range lines {
		switch {
		case i == 0:
		case Compare(literal(t, lines[i-1]), literal(t, line)) == 0:
			out.WriteString("  =  ")
		default:
			out.WriteString("\n")
		}
		out.WriteString(line)
	}
	return out.String()
}

func describePath(text string) string {
	p, err := ParsePath(text)
	if err != nil {
		return "error: " + err.Error()
	}
	var names []string
	for _, s := range p {
		names = append(names, "<"+s.Name+">")
	}
	return strings.Join(names, " ") + "  " + p.String()
}

func TestNumberHasOneForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		value Value
		int64 int64
		exact bool
		json  string
	}{
		{"integral double", Number(1), 1, true, "1"},
		{"minus zero", Number(math.Copysign(0, -1)), 0, true, "0"},
		{"fraction", Number(1.5), 0, false, "1.5"},
		{"smallest integer", Number(-(1 << 63)), math.MinInt64, true, "-9223372036854775808"},
		{"first double beyond", Number(1 << 63), 0, false, "9223372036854776000"},
		{"first double below", Number(-(1<<63 + 2048)), 0, false, "-9223372036854778000"},
		{"largest integer", Int(math.MaxInt64), math.MaxInt64, true, "9223372036854775807"},
		{"large double", Number(16331239353195370), 16331239353195370, true, "16331239353195370"},
		{"infinity", Number(math.Inf(1)), 0, false, "null"},
		{"not a number", Number(math.NaN()), 0, false, "null"},
	} {
		i, exact := c.value.Int64()
		if i != c.int64 || exact != c.exact {
			t.Errorf("%s: Int64 = %d, %t; want %d, %t", c.name, i, exact, c.int64, c.exact)
		}
		if got := c.value.JSON(); got != c.json {
			t.Errorf("%s: JSON = %s, want %s", c.name, got, c.json)
		}
		if got, want := c.value.Finite(), c.json != "null"; got != want {
			t.Errorf("%s: Finite = %t, want %t", c.name, got, want)
		}
	}
}

func TestFiniteLooksInside(t *testing.T) {
	t.Parallel()
	inf := Number(math.Inf(-1))
	deep := Array([]Value{Int(1), Object([]Member{{"a", Null()}, {"b", Array([]Value{inf})}})})
	if deep.Finite() {
		t.Errorf("Finite of %v = true", deep)
	}
	if v := mustParse(t, document1K); !v.Finite() {
		t.Errorf("Finite of a document = false")
	}
}

func TestObjectDropsUndefined(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		members []Member
		want    string
	}{
		{nil, `{}`},
		{[]Member{{"a", Undefined()}}, `{}`},
		{[]Member{{"a", Undefined()}, {"b", Int(1)}, {"c", Undefined()}, {"d", Int(2)}}, `{"b":1,"d":2}`},
		{[]Member{{"a", Int(1)}, {"b", Int(2)}, {"a", Int(3)}}, `{"a":3,"b":2}`},
		{[]Member{{"a", Int(1)}, {"b", Int(2)}, {"a", Undefined()}}, `{"b":2}`},
	} {
		if got := Object(c.members).JSON(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// TestArrayKeepsUndefined checks that undefined elements keep their position in
// the array but are omitted from its JSON.
func TestArrayKeepsUndefined(t *testing.T) {
	t.Parallel()
	v := Array([]Value{Undefined(), Int(1), Undefined(), Int(2), Undefined()})
	if got := v.JSON(); got != "[1,2]" {
		t.Errorf("JSON = %s", got)
	}
	if got := v.Len(); got != 5 {
		t.Errorf("Len = %d", got)
	}
	if got := v.Index(3); !Equal(got, Int(2)) {
		t.Errorf("Index(3) = %v", got)
	}
	if got := Undefined().Append([]byte("x")); string(got) != "x" {
		t.Errorf("Append of undefined gives %q", got)
	}
}

// TestAccessorsOfOtherKinds checks that accessors return zero values for other
// kinds.
func TestAccessorsOfOtherKinds(t *testing.T) {
	t.Parallel()
	for _, v := range samples() {
		kind := v.Kind()
		if kind != KindBool && (v.Bool() || v.IsTrue()) {
			t.Errorf("%v is true", v)
		}
		if _, exact := v.Int64(); kind != KindNumber && (v.Float() != 0 || exact) {
			t.Errorf("%v is a number", v)
		}
		if kind != KindString && v.Text() != "" {
			t.Errorf("%v has text %q", v, v.Text())
		}
		if kind != KindArray && (v.Items() != nil || v.Index(0).IsDefined()) {
			t.Errorf("%v has items", v)
		}
		if kind != KindObject && (v.Members() != nil || v.Get("").IsDefined()) {
			t.Errorf("%v has members", v)
		}
		if got := v.IsDefined(); got != (kind != KindUndefined) {
			t.Errorf("%v: IsDefined = %t", v, got)
		}
	}
	if v := Array([]Value{Null()}); v.Index(-1).IsDefined() || v.Index(1).IsDefined() {
		t.Errorf("an index out of range is defined")
	}
}

func TestWithLeavesOriginal(t *testing.T) {
	t.Parallel()
	v := mustParse(t, `{"a":1,"b":2}`)
	first := v.With("a", Int(3)).With("c", Int(4))
	second := first.With("d", Int(5))
	third := first.With("e", Int(6))
	for _, c := range []struct {
		got  Value
		want string
	}{
		{v, `{"a":1,"b":2}`},
		{first, `{"a":3,"b":2,"c":4}`},
		{second, `{"a":3,"b":2,"c":4,"d":5}`},
		{third, `{"a":3,"b":2,"c":4,"e":6}`},
		{Undefined().With("a", Null()), `{"a":null}`},
		{Undefined().With("a", Undefined()).With("b", Null()), `{"b":null}`},
	} {
		if got := c.got.JSON(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("With of a number does not panic")
		}
	}()
	Int(1).With("a", Null())
}

// TestAtIndex checks paths with an array index, which the syntax of partition
// keys does not have.
func TestAtIndex(t *testing.T) {
	t.Parallel()
	v := mustParse(t, `{"a":[{"b":1},{"b":2}],"0":"name"}`)
	for _, c := range []struct {
		path Path
		want string
	}{
		{Path{}, v.JSON()},
		{Path{{Name: "a"}, {Index: 1, IsIndex: true}, {Name: "b"}}, "2"},
		{Path{{Name: "a"}, {Index: 2, IsIndex: true}}, "undefined"},
		{Path{{Name: "a"}, {Index: -1, IsIndex: true}}, "undefined"},
		{Path{{Name: "a"}, {Name: "1"}}, "undefined"},
		{Path{{Index: 0, IsIndex: true}}, "undefined"},
		{Path{{Name: "0"}}, `"name"`},
	} {
		if got := v.At(c.path).String(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.path, got, c.want)
		}
	}
	p := Path{{Name: "a"}, {Index: 12, IsIndex: true}}
	if got := p.String(); got != "/a/[12]" {
		t.Errorf("String = %s", got)
	}
	for _, text := range []string{p.String(), ""} {
		if _, err := ParsePath(text); err == nil {
			t.Errorf("%q is accepted as the path of a partition key", text)
		}
	}
}

// TestAllocations checks that the hot functions allocate only their result.
func TestAllocations(t *testing.T) {
	v, other := mustParse(t, document1K), mustParse(t, document1K)
	dst := make([]byte, 0, 4096)
	for _, c := range []struct {
		name string
		most float64
		run  func()
	}{
		{"append", 0, func() { dst = v.Append(dst[:0]) }},
		{"key", 0, func() { dst = AppendKey(dst[:0], v) }},
		{"compare", 0, func() { Compare(v, other) }},
		{"equal", 0, func() { Equal(v, other) }},
		// One text, and one slice for each of six containers.
		{"parse", 1 + 6, func() { _, _ = Parse([]byte(document1K)) }},
	} {
		if got := testing.AllocsPerRun(20, c.run); got > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.most)
		}
	}
}
