package query

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// valueHash is a line of testdata/value-hashes.jsonl: a value, its hash by the .NET
// client, and its form in a resumeFilter. The last line has only the order: the values
// as that client sorts them, with a list for those that it considers equal.
type valueHash struct {
	Value, Hash, Resume string
	Order               []json.RawMessage
}

func valueHashes(t testing.TB) (list []valueHash, order [][]string) {
	t.Helper()
	f, err := os.Open("testdata/value-hashes.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line valueHash
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		for _, raw := range line.Order {
			var one string
			var same []string
			if json.Unmarshal(raw, &one) == nil {
				same = []string{one}
			} else if err := json.Unmarshal(raw, &same); err != nil {
				t.Fatal(err)
			}
			order = append(order, same)
		}
		if line.Order == nil {
			list = append(list, line)
		}
	}
	if err := lines.Err(); err != nil || len(list) < 199 || len(order) < 150 {
		t.Fatalf("%d values, %d in order: %v", len(list), len(order), err)
	}
	return list, order
}

func parseValue(t testing.TB, text string) value.Value {
	t.Helper()
	if text == "undefined" {
		return value.Undefined()
	}
	v, err := value.ParseString(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// TestValueHashes compares hashes, the values of a resumeFilter and the order of rows
// with those of the .NET client.
func TestValueHashes(t *testing.T) {
	list, order := valueHashes(t)
	for _, line := range list {
		v := parseValue(t, line.Value)
		low, high := value.DistinctHash(v)
		if got := fmt.Sprintf("%016x%016x", high, low); got != line.Hash && line.Value != "-0.0" {
			t.Errorf("%s: hash %s instead of %s", line.Value, got, line.Hash)
		}
		key, ok := resumeKey(parseValue(t, line.Resume))
		if want := value.AppendOrderKey(nil, v); !ok || !bytes.Equal(key, want) {
			t.Errorf("%s: %s is %x instead of %x", line.Value, line.Resume, key, want)
		}
	}
	var last []byte
	for _, same := range order {
		key := value.AppendOrderKey(nil, parseValue(t, same[0]))
		if bytes.Compare(last, key) >= 0 {
			t.Errorf("%s does not come after the value before it", same[0])
		}
		for _, text := range same {
			other := value.AppendOrderKey(nil, parseValue(t, text))
			// The client takes these two numbers for equal; here they are neighbours.
			if text != "9223372036854775808" && !bytes.Equal(key, other) {
				t.Errorf("%s and %s are not equal", same[0], text)
			}
			last = other
		}
	}
}

// resumeIndex has the orders that the tests of resumeFilter use.
func resumeIndex(t testing.TB) *index.Index {
	t.Helper()
	ix, err := index.Compile(resource.IndexingPolicy{
		Mode: resource.IndexingConsistent, Automatic: true, Included: []string{"/*"},
		Composite: [][]resource.CompositePath{
			{{Path: "/k"}, {Path: "/m", Descending: true}},
			{{Path: "/m"}, {Path: "/k"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

var resumeContainer = resource.ContainerRID(resource.DatabaseRID(1), 1)

// resumeRID is the _rid of a document in tests of resumeFilter.
func resumeRID(number uint64) string {
	return resource.DocumentRID(resumeContainer, number).String()
}

// resumeDocuments have the values of the vectors as /k, several times each, and few
// values as /m.
func resumeDocuments(t testing.TB, ix *index.Index, r *rand.Rand) list {
	t.Helper()
	hashes, _ := valueHashes(t)
	var docs list
	for number := uint64(1); number <= 150; number++ {
		text := fmt.Sprintf(`{"id":"%d","_rid":%q,"pass":%t`, number, resumeRID(number), r.IntN(5) > 0)
		for _, name := range []string{"k", "m"} {
			at := r.IntN(len(hashes))
			if name == "m" || r.IntN(3) == 0 {
				at = r.IntN(12) * (len(hashes) / 12)
			}
			v := hashes[at].Value
			if name == "k" && r.IntN(4) == 0 { // the orders of UTF-8 and of UTF-16 differ
				v = []string{`"😀"`, `"\uE000"`, `"\uFFFF"`, `"a😀"`, `"a\uFFFF"`, `"aé"`, `"b"`}[r.IntN(7)]
			}
			if v != "undefined" {
				text += fmt.Sprintf(`,"%s":%s`, name, v)
			}
		}
		docs = append(docs, newDocument(t, ix, number, text+`,"a":[1,2,2]}`))
	}
	return docs
}

// resumed returns the numbers of the rows of a partition, page by page, which begin
// where the filter says.
func resumed(t *testing.T, p *Plan, src Source, filter string, items int) (numbers []uint64) {
	t.Helper()
	var start *Start
	if filter != "" {
		r, err := ParseResume(parseValue(t, filter))
		if err != nil {
			t.Fatal(err)
		}
		if start, err = p.Start(r, resumeContainer); err != nil {
			t.Fatal(err)
		}
	}
	b := Budget{MaxItems: items, From: start}
	for {
		page, err := p.Run(context.Background(), src, b)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Rows {
			numbers = append(numbers, row.Position.Number)
		}
		if !page.More {
			return numbers
		}
		b.After, b.Started = page.Next, true
	}
}

// TestResume resumes after each row, as the .NET client does in the partitions before
// that of the row, in its own and in those after it, with and without an index and at
// several page sizes.
func TestResume(t *testing.T) {
	ix := resumeIndex(t)
	docs := resumeDocuments(t, ix, rand.New(rand.NewPCG(1, 2)))
	for _, text := range []string{
		"SELECT c._rid, [{\"item\": c.k}] AS orderByItems, c.k AS payload FROM c ORDER BY c.k",
		"SELECT c._rid FROM c WHERE c.pass ORDER BY c.k DESC",
		"SELECT c._rid FROM c ORDER BY c.k, c.m DESC",
		"SELECT c._rid FROM c WHERE c.pass ORDER BY c.k DESC, c.m",
		"SELECT c._rid FROM c ORDER BY c.m, c.k",
		"SELECT DISTINCT c._rid, a FROM c JOIN a IN c.a ORDER BY c.k",
	} {
		t.Run(text, func(t *testing.T) {
			p, err := Compile(text, nil, ix, Options{})
			if err != nil {
				t.Fatal(err)
			}
			every := resumed(t, p, docs, "", 0)
			want := slices.Clone(every)
			keys := map[uint64][]byte{}
			for _, d := range docs {
				e := p.env(t.Context(), p.now)
				e.load(d.body)
				keys[d.number] = p.order.appendKey(nil, &e)
			}
			compare := func(a, b uint64) int {
				c := cmp.Or(bytes.Compare(keys[a], keys[b]), cmp.Compare(a, b))
				if p.order.desc {
					return -c
				}
				return c
			}
			if slices.SortFunc(want, compare); !slices.Equal(every, want) {
				t.Fatalf("order %v instead of %v", every, want)
			}
			names := []string{"k", "m"}
			if strings.Contains(text, "ORDER BY c.m") {
				slices.Reverse(names)
			}
			r := rand.New(rand.NewPCG(3, 4))
			for at := 0; at < len(every); at += 1 + r.IntN(30) {
				number := every[at]
				d := docs[number-1]
				values := make([]string, len(p.order.keys))
				for i := range values {
					values[i] = resumeText(d.value.Get(names[i]))
				}
				value := `{"value":[` + strings.Join(values, ",") + `],`
				for _, c := range []struct {
					filter string
					begins func(n uint64) bool
				}{
					{`"exclude":true}`, func(n uint64) bool { return !bytes.Equal(keys[n], keys[number]) && compare(n, number) > 0 }},
					{`"exclude":false}`, func(n uint64) bool { return bytes.Equal(keys[n], keys[number]) || compare(n, number) > 0 }},
					{`"rid":"` + resumeRID(number) + `"}`, func(n uint64) bool { return compare(n, number) >= 0 }},
					{`"rid":"` + resumeRID(number) + `","exclude":true}`, func(n uint64) bool { return compare(n, number) > 0 }},
				} {
					begin := slices.IndexFunc(every, c.begins)
					if begin < 0 {
						begin = len(every)
					}
					for _, src := range []Source{docs, indexed{docs}} {
						if got := resumed(t, p, src, value+c.filter, 8+r.IntN(60)); !slices.Equal(got, every[begin:]) {
							t.Fatalf("%T %s%s\n got %v\nwant %v", src, value, c.filter, got, every[begin:])
						}
					}
				}
			}
		})
	}
}

// resumeText returns the form of a value in a resumeFilter.
func resumeText(v value.Value) string {
	low, high := value.DistinctHash(v)
	switch v.Kind() {
	case value.KindUndefined:
		return "[]"
	case value.KindArray, value.KindObject:
		return fmt.Sprintf(`{"type":"%s","low":%d,"high":%d}`, v.Kind(), int64(low), int64(high))
	}
	return v.JSON()
}

// TestResumeFurther sends a resumeFilter with a position: the later one counts, even if
// the key of the position is truncated.
func TestResumeFurther(t *testing.T) {
	ix := resumeIndex(t)
	long := strings.Repeat("x", 2*OrderKeyMax)
	var docs list
	for n := uint64(1); n <= 9; n++ {
		docs = append(docs, newDocument(t, ix, n, fmt.Sprintf(`{"id":"%d","k":"%s%d"}`, n, long, (n+1)/3)))
	}
	p, err := Compile("SELECT c.id FROM c ORDER BY c.k", nil, ix, Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := p.Run(t.Context(), docs, Budget{MaxItems: 4})
	if err != nil || len(first.Rows) != 4 {
		t.Fatal(first.Rows, err)
	}
	for _, known := range []bool{true, false} {
		for rid, want := range map[uint64]uint64{1: 5, 4: 5, 5: 5, 7: 7, 9: 9} {
			r, err := ParseResume(parseValue(t, fmt.Sprintf(`{"value":["%s%d"],"rid":%q}`, long, (rid+1)/3, resumeRID(rid))))
			if err != nil {
				t.Fatal(err)
			}
			start, err := p.Start(r, resumeContainer)
			if err != nil {
				t.Fatal(err)
			}
			b := Budget{After: first.Next, Started: true, From: start, MaxItems: 1}
			if known {
				b.AfterKey = first.Rows[3].Order
			} else if rid < 5 {
				want = rid // the rows with the truncated key come again, but not those before the filter
			}
			page, err := p.Run(t.Context(), indexed{docs}, b)
			if err != nil || len(page.Rows) != 1 || page.Rows[0].Position.Number != want {
				t.Errorf("rid %d, key known %t: %v, %v", rid, known, page.Rows, err)
			}
		}
	}
}

// TestResumeCost reads as many documents for a page that is resumed as for the first
// one, wherever it begins.
func TestResumeCost(t *testing.T) {
	ix := resumeIndex(t)
	var docs list
	for n := uint64(1); n <= 4000; n++ {
		k := fmt.Sprintf(`"%04d"`, n/4)
		if n%7 == 0 {
			k = fmt.Sprint(n)
		}
		docs = append(docs, newDocument(t, ix, n, fmt.Sprintf(`{"id":"%d","k":%s,"m":%d}`, n, k, n%5)))
	}
	for _, text := range []string{"SELECT c.id FROM c ORDER BY c.k", "SELECT c.id FROM c ORDER BY c.k DESC", "SELECT c.id FROM c ORDER BY c.k, c.m DESC"} {
		p, err := Compile(text, nil, ix, Options{})
		if err != nil {
			t.Fatal(err)
		}
		first, err := p.Run(t.Context(), indexed{docs}, Budget{MaxItems: 20})
		if err != nil || first.Stats.Retrieved > 30 {
			t.Fatalf("%s: %d documents: %v", text, first.Stats.Retrieved, err)
		}
		for _, n := range []uint64{7, 700, 3990, 1001, 2001, 3333} {
			d := docs[n-1].value
			values := []string{d.Get("k").JSON(), d.Get("m").JSON()}[:len(p.order.keys)]
			for _, rest := range []string{`"exclude":true`, `"exclude":false`, `"exclude":false,"rid":"` + resumeRID(n) + `"`} {
				r, err := ParseResume(parseValue(t, `{"value":[`+strings.Join(values, ",")+`],`+rest+`}`))
				if err != nil {
					t.Fatal(err)
				}
				start, err := p.Start(r, resumeContainer)
				if err != nil {
					t.Fatal(err)
				}
				page, err := p.Run(t.Context(), indexed{docs}, Budget{MaxItems: 20, From: start})
				if most := first.Stats.Retrieved + 4; err != nil || page.Stats.Retrieved > most {
					t.Errorf("%s from %d, %s: %d documents read, more than %d: %v", text, n, rest, page.Stats.Retrieved, most, err)
				}
			}
		}
	}
}

// TestResumeErrors names what is wrong with a resumeFilter.
func TestResumeErrors(t *testing.T) {
	for _, c := range []struct{ filter, want string }{
		{`[1]`, "a JSON array where an object"},
		{`{}`, "not a list of the values"},
		{`{"value":[]}`, "not a list of the values"},
		{`{"value":6}`, "not a list of the values"},
		{`{"value":[[1]]}`, "Item 1"},
		{`{"value":[1,{"type":"array","low":1}]}`, "Item 2"},
		{`{"value":[{"type":"set","low":1,"high":2}]}`, "Item 1"},
		{`{"value":[{"type":"array","low":1.5,"high":2}]}`, "Item 1"},
		{`{"value":[{"type":"array","low":"1","high":2}]}`, "Item 1"},
		{`{"value":[1],"rid":5}`, "rid is not"},
		{`{"value":[1],"rid":"abc"}`, "rid is not"},
		{`{"value":[1],"rid":""}`, "rid is not"},
		{`{"value":[1],"exclude":"yes"}`, "exclude is neither"},
	} {
		_, err := ParseResume(parseValue(t, c.filter))
		if err == nil || status.CodeOf(err) != status.CodeBadRequest || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v instead of %q", c.filter, err, c.want)
		}
	}
	if r, err := ParseResume(value.Undefined()); r != nil || err != nil {
		t.Error("without a filter:", r, err)
	}
	ix := resumeIndex(t)
	other := resource.DocumentRID(resource.ContainerRID(resource.DatabaseRID(1), 2), 5).String()
	for _, c := range []struct{ text, filter, want string }{
		{"SELECT * FROM c", `{"value":[1]}`, "Only a query with ORDER BY"},
		{"SELECT c.k FROM c GROUP BY c.k ORDER BY c.k", `{"value":[1]}`, "Only a query with ORDER BY"},
		{"SELECT * FROM c ORDER BY c.k", `{"value":[1,2]}`, "It has 2 values, and ORDER BY of the query has 1."},
		{"SELECT * FROM c ORDER BY c.k, c.m DESC", `{"value":[1]}`, "It has 1 values, and ORDER BY of the query has 2."},
		{"SELECT * FROM c ORDER BY c.k", `{"value":[1],"rid":"` + other + `"}`, "another container"},
	} {
		p, err := Compile(c.text, nil, ix, Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := ParseResume(parseValue(t, c.filter))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = p.Start(r, resumeContainer); err == nil || status.CodeOf(err) != status.CodeBadRequest || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v instead of %q", c.text, c.filter, err, c.want)
		}
	}
}

// FuzzResume reads any JSON as a resumeFilter. One that is accepted has a key for each
// value.
func FuzzResume(f *testing.F) {
	f.Add(`{"value":[6,[],null,"a",{"type":"object","low":-1,"high":2}],"rid":"AAAAF4AAAC0EAAAAAAAAAA==","exclude":false}`)
	f.Add(`{"value":[{"type":"array","low":9223372036854775807,"high":1e3}],"exclude":true}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := value.ParseString(text)
		if err != nil {
			return
		}
		r, err := ParseResume(v)
		switch {
		case err != nil && status.CodeOf(err) != status.CodeBadRequest:
			t.Fatal(err)
		case err != nil || r == nil:
		case len(r.keys) != v.Get("value").Len() || r.rid != "" && r.rid.Number() == 0 && v.Get("rid").Text() == "":
			t.Fatalf("%s: %d keys", text, len(r.keys))
		}
	})
}
