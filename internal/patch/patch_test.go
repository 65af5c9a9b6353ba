package patch

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// TestPatches runs the files of testdata. The command doc sets the document for
// the commands after it. Each line of the input of patch is one operation, or
// the body of a request if the line is not an object with an op; the output is
// the patched document.
func TestPatches(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, file string) {
		t.Parallel()
		var doc value.Value
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "doc":
				doc = parse(t, d.Input)
				return ""
			case "patch":
				after, err := run(t, doc, d.Input)
				if err != nil {
					return err.Error()
				}
				return after.JSON()
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func parse(tb testing.TB, text string) value.Value {
	tb.Helper()
	v, err := value.Parse([]byte(text))
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return v
}

func run(t *testing.T, doc value.Value, input string) (value.Value, error) {
	before := doc.JSON()
	var list []value.Value
	for line := range strings.Lines(input) {
		list = append(list, parse(t, line))
	}
	body := value.Array(list)
	if len(list) == 1 && !list[0].Get("op").IsDefined() {
		body = list[0]
	}
	p, err := Parse(body)
	if err != nil {
		return doc, err
	}
	after, err := p.Apply(doc)
	if doc.JSON() != before {
		t.Errorf("the document changed from %s to %s", before, doc)
	}
	return after, err
}

func patchOf(tb testing.TB, text string) *Patch {
	tb.Helper()
	p, err := Parse(parse(tb, text))
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return p
}

// TestOperationsMax checks both sides of the limit.
func TestOperationsMax(t *testing.T) {
	t.Parallel()
	for n, refused := range map[int]bool{1: false, OperationsMax: false, OperationsMax + 1: true} {
		list := make([]value.Value, n)
		for i := range list {
			list[i] = parse(t, `{"op":"incr","path":"/n","value":1}`)
		}
		_, err := Parse(value.Array(list))
		if (err != nil) != refused {
			t.Errorf("%d operations: %v", n, err)
		}
	}
}

// TestDepth checks both sides of the maximum depth of a document: an allowed
// result can be parsed again.
func TestDepth(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for n, refused := range map[int]bool{value.DepthMax - 1: false, value.DepthMax: true} {
		// The value is one level below the document.
		p := patchOf(t, `[{"op":"set","path":"/x","value":`+deep(value.DepthMax-2)+`}]`)
		doc, err := p.Apply(parse(t, `{"id":"1"}`))
		if err != nil {
			t.Fatal(err)
		}
		body := value.Object([]value.Member{
			{Name: "op", Value: value.String("set")},
			{Name: "path", Value: value.String("/y")},
			{Name: "value", Value: parse(t, deep(n))},
		})
		p, err = Parse(value.Array([]value.Value{body}))
		if err != nil {
			t.Fatal(err)
		}
		doc, err = p.Apply(doc)
		if (err != nil) != refused {
			t.Errorf("a value of depth %d: %v", n, err)
		}
		if _, again := value.Parse(doc.Append(nil)); err == nil && again != nil {
			t.Errorf("a value of depth %d: %v", n, again)
		}
	}
}

// TestMoveDepth moves a deep value to a place where it becomes too deep.
func TestMoveDepth(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, value.DepthMax-1) + strings.Repeat("]", value.DepthMax-1)
	doc := parse(t, `{"id":"1","a":`+deep+`,"b":{}}`)
	if _, err := patchOf(t, `[{"op":"move","from":"/a","path":"/c"}]`).Apply(doc); err != nil {
		t.Error(err)
	}
	if _, err := patchOf(t, `[{"op":"move","from":"/a","path":"/b/c"}]`).Apply(doc); status.CodeOf(err) != status.CodeBadRequest {
		t.Errorf("got %v, want 400", err)
	}
}

// TestTouches checks places at, above and below those that a patch names.
func TestTouches(t *testing.T) {
	t.Parallel()
	p := patchOf(t, `[{"op":"set","path":"/a/b","value":1},{"op":"move","from":"/c/d","path":"/e"}]`)
	for place, want := range map[string]string{
		"/a": "'/a/b'", "/a/b": "'/a/b'", "/a/b/c": "'/a/b'", "/a/bc": "", "/b": "",
		"/c": "'/c/d'", "/c/d": "'/c/d'", "/e": "'/e'", "/e/f": "'/e'", "/d": "",
	} {
		path, err := value.ParsePath(place)
		if err != nil {
			t.Fatal(err)
		}
		if got, yes := p.Touches(path); got != want || yes != (want != "") {
			t.Errorf("%s: got %q and %t, want %q", place, got, yes, want)
		}
	}
}

// TestAgainstNaive compares random operations with the same operations on Go
// maps and slices.
func TestAgainstNaive(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	done := 0
	for range 20_000 {
		doc := parse(t, `{"a":{"a":1,"b":[1,2]},"b":[0,{"a":5},[7]],"n":3}`)
		paths := []string{"/a", "/a/a", "/a/b", "/a/b/0", "/a/b/2", "/a/b/-", "/b", "/b/1/a", "/b/2/0", "/b/3", "/n", "/x", "/x/y", "/b/x"}
		kind := []string{"add", "set", "replace", "remove", "incr"}[random.IntN(5)]
		at, n := paths[random.IntN(len(paths))], random.IntN(100)
		p := patchOf(t, fmt.Sprintf(`[{"op":%q,"path":%q,"value":%d}]`, kind, at, n))
		after, err := p.Apply(doc)
		want, ok := naive(plain(doc), kind, strings.Split(at[1:], "/"), float64(n))
		if ok != (err == nil) {
			t.Fatalf("seed %d: %s at %s: got %v, want success %t", seed, kind, at, err, ok)
		}
		if !ok {
			continue
		}
		done++
		if got := fmt.Sprint(plain(after)); got != fmt.Sprint(want) {
			t.Fatalf("seed %d: %s at %s: got %s, want %v", seed, kind, at, got, want)
		}
	}
	if done < 5_000 {
		t.Errorf("seed %d: only %d patches were possible", seed, done)
	}
}

// plain converts a value to Go types.
func plain(v value.Value) any {
	switch v.Kind() {
	case value.KindObject:
		m := map[string]any{}
		for _, member := range v.Members() {
			m[member.Name] = plain(member.Value)
		}
		return m
	case value.KindArray:
		var list []any
		for _, item := range v.Items() {
			list = append(list, plain(item))
		}
		return list
	}
	return v.Float()
}

// naive applies one operation in place.
func naive(in any, kind string, path []string, n float64) (out any, ok bool) {
	step, last := path[0], len(path) == 1
	switch in := in.(type) {
	case map[string]any:
		old, there := in[step]
		if !last {
			if !there {
				return nil, false
			}
			in[step], ok = naive(old, kind, path[1:], n)
			return in, ok
		}
		switch number, isNumber := old.(float64); {
		case !there && (kind == "replace" || kind == "remove"), kind == "incr" && there && !isNumber:
			return nil, false
		case kind == "remove":
			delete(in, step)
		case kind == "incr":
			in[step] = number + n
		default:
			in[step] = n
		}
		return in, true
	case []any:
		at := -1
		if _, err := fmt.Sscanf(step, "%d", &at); step == "-" {
			at = len(in)
		} else if err != nil {
			return nil, false
		}
		if !last {
			if at >= len(in) {
				return nil, false
			}
			in[at], ok = naive(in[at], kind, path[1:], n)
			return in, ok
		}
		switch {
		case at > len(in), at == len(in) && kind != "add" && kind != "set":
			return nil, false
		case at == len(in):
			return append(in, n), true
		case kind == "add":
			return append(in[:at:at], append([]any{n}, in[at:]...)...), true
		case kind == "remove":
			return append(in[:at:at], in[at+1:]...), true
		case kind == "incr":
			number, isNumber := in[at].(float64)
			in[at] = number + n
			return in, isNumber
		}
		in[at] = n
		return in, true
	}
	return nil, false
}

// TestHostilePatches checks that very long patches are refused with a short
// message, or applied with little more memory than a copy, for each operation,
// of the arrays and objects that it changes.
func TestHostilePatches(t *testing.T) {
	const long = 1 << 18
	path := func(text string) string { return `[{"op":"add","path":"` + text + `","value":1}]` }
	numbers := "[0" + strings.Repeat(",0", long/2) + "]"
	array := `{"a":` + numbers + "}"
	ten := "[" + strings.Repeat(`{"op":"add","path":"/a/1","value":1},`, 9) + `{"op":"remove","path":"/a/1"}]`
	for name, c := range map[string]struct {
		doc, body string
		refused   bool
		most      int // bytes
	}{
		"no path":     {`{}`, path(strings.Repeat("x", long)), true, 8 * long},
		"long name":   {`{}`, path("/" + strings.Repeat("x", long)), false, 8 * long},
		"long way":    {`{}`, path("/" + strings.Repeat("x", long) + "/y"), true, 16 * long},
		"tildes":      {`{}`, path("/" + strings.Repeat("~", long)), true, 16 * long},
		"many steps":  {`{}`, path(strings.Repeat("/x", long/2)), true, 8 * long},
		"system":      {`{}`, path("/id/" + strings.Repeat("x", long)), true, 8 * long},
		"no kind":     {`{}`, `[{"op":"` + strings.Repeat("x", long) + `","path":"/a"}]`, true, 8 * long},
		"kind":        {`{}`, `[{"op":` + numbers + `,"path":"/a"}]`, true, 16 * long},
		"many":        {`{}`, numbers, true, long},
		"no element":  {`{"a":[]}`, path("/a/" + strings.Repeat("x", long)), true, 8 * long},
		"moved below": {`{}`, `[{"op":"move","from":"/` + strings.Repeat("x", long) + `","path":"/` + strings.Repeat("x", long) + `/y"}]`, true, 32 * long},
		"long array":  {array, ten, false, 10 * 13 * long},
	} {
		t.Run(name, func(t *testing.T) {
			doc, body := parse(t, c.doc), parse(t, c.body)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := Parse(body)
			if err == nil {
				_, err = p.Apply(doc)
			}
			runtime.ReadMemStats(&after)
			if (err != nil) != c.refused || err != nil && len(err.Error()) > 2000 {
				t.Errorf("got %.300v", err)
			}
			most := uint64(c.most)
			if raceDetector {
				most *= 2 // the compiler allocates twice for this expression
			}
			if taken := after.TotalAlloc - before.TotalAlloc; taken > most {
				t.Errorf("it took %d bytes, want at most %d", taken, most)
			}
		})
	}
}

// FuzzPatch applies any patch to any document: it is applied or refused, and the
// result can be stored.
func FuzzPatch(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"id":"1","a":[1,{"b":2}]}`, `[{"op":"add","path":"/a/-","value":{"c":1.5}},{"op":"incr","path":"/a/0","value":9223372036854775807}]`},
		{`{"id":"1","a":{"b":[]}}`, `{"condition":"from c","operations":[{"op":"move","from":"/a/b","path":"/~0~1"},{"op":"remove","path":"/a"}]}`},
		{`{"n":1e308}`, `[{"op":"incr","path":"/n","value":1e308},{"op":"set","path":"/a/0","value":null}]`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, body string) {
		doc, err := value.Parse([]byte(text))
		if err != nil || doc.Kind() != value.KindObject {
			return
		}
		list, err := value.Parse([]byte(body))
		if err != nil {
			return
		}
		p, err := Parse(list)
		if err == nil {
			before := doc.JSON()
			doc, err = p.Apply(doc)
			if err != nil {
				doc = parse(t, before)
			}
		}
		if err != nil && status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("the error is not a BadRequest: %v", err)
		}
		again, err := value.Parse(doc.Append(nil))
		if err != nil || !value.Equal(again, doc) {
			t.Errorf("%s cannot be parsed again: %v", doc, err)
		}
		for _, name := range fixed {
			if !value.Equal(doc.Get(name), parse(t, text).Get(name)) {
				t.Errorf("%s changed", name)
			}
		}
	})
}
