package query

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// words are the scalars that random documents and filters share, so that filters
// match often.
var words = []string{"1", "2", "2.5", "-1", "0", `"a"`, `"ab"`, `"b"`, `""`, `"1"`, "true", "false", "null"}

var randomPaths = []string{"c.a", "c.b", "c.n.a", `c["n"]["b"]`, "c.id", "c.t[0]", "c.n"}

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

func randomDocument(r *rand.Rand, number int) string {
	members := []string{fmt.Sprintf(`"id":"%d"`, number)}
	nested := []string{}
	for _, name := range []string{"a", "b"} {
		if r.IntN(4) > 0 {
			members = append(members, fmt.Sprintf("%q:%s", name, randomValue(r)))
		}
		if r.IntN(4) > 0 {
			nested = append(nested, fmt.Sprintf("%q:%s", name, randomValue(r)))
		}
	}
	members = append(members, `"n":{`+strings.Join(nested, ",")+"}")
	if r.IntN(2) == 0 {
		members = append(members, fmt.Sprintf(`"t":[%s,%s]`, pick(r, words), pick(r, words)))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func randomValue(r *rand.Rand) string {
	switch r.IntN(12) {
	case 0:
		return "[" + pick(r, words) + "]"
	case 1:
		return `{"a":` + pick(r, words) + "}"
	}
	return pick(r, words)
}

// randomFilter writes a condition of the given depth.
func randomFilter(r *rand.Rand, depth int) string {
	path, constant := pick(r, randomPaths), pick(r, words)
	if r.IntN(16) == 0 {
		constant = "NaN"
	}
	if depth > 0 {
		switch r.IntN(6) {
		case 0, 1:
			return fmt.Sprintf("(%s AND %s)", randomFilter(r, depth-1), randomFilter(r, depth-1))
		case 2, 3:
			return fmt.Sprintf("(%s OR %s)", randomFilter(r, depth-1), randomFilter(r, depth-1))
		case 4:
			return fmt.Sprintf("NOT (%s)", randomFilter(r, depth-1))
		}
	}
	if r.IntN(3) == 0 {
		return randomQuestion(r, path, constant)
	}
	switch r.IntN(16) {
	case 0, 1, 2:
		return path + " = " + constant
	case 3:
		return constant + " = " + path
	case 4:
		return fmt.Sprintf("%s IN (%s, %s, %s)", path, constant, pick(r, words), randomValue(r))
	case 5:
		return path + " " + pick(r, []string{"<", "<=", ">", ">=", "!="}) + " " + constant
	case 6:
		return constant + " " + pick(r, []string{"<", "<=", ">", ">=", "!="}) + " " + path
	case 7:
		return fmt.Sprintf("%s BETWEEN %s AND %s", path, constant, pick(r, words))
	case 8:
		return fmt.Sprintf("STARTSWITH(%s, %s)", path, pick(r, []string{`"a"`, `""`, "1", "undefined"}))
	case 9:
		return fmt.Sprintf("%s(%s)", pick(r, []string{"IS_DEFINED", "IS_NULL", "IS_STRING", "IS_BOOL", "IS_ARRAY", "IS_OBJECT", "IS_NUMBER"}), path)
	case 10:
		return path
	case 11:
		return fmt.Sprintf("ARRAY_CONTAINS([%s, %s], %s)", constant, pick(r, words), path)
	case 12:
		return fmt.Sprintf("ARRAY_CONTAINS(c.t, %s)", constant)
	case 13:
		return path + " LIKE " + pick(r, []string{"'a%'", "'a'", "'%'", "'[a]%'", "''", "1"})
	case 14:
		return path + " = " + pick(r, randomPaths)
	}
	return pick(r, []string{"true", "false", "undefined", "1 = 1", "c.a = undefined", "NOT c.a", "c.a NOT IN (1, 'a')", "STRINGEQUALS(c.b, 'a')"})
}

// randomQuestion writes a condition that the index tests term by term, or a
// condition on elements.
func randomQuestion(r *rand.Rand, path, constant string) string {
	switch r.IntN(14) {
	case 11:
		return fmt.Sprintf("(LET v = %s IN v %s %s)", path, pick(r, []string{"=", "<", "!=", ">="}), constant)
	case 12:
		return fmt.Sprintf("(LET v = LOWER(%s) IN CONTAINS(v, %s))", path, pick(r, []string{`"a"`, `"b"`, "c.b", "v"}))
	case 0:
		return fmt.Sprintf("%s(%s, %s, %s)", pick(r, []string{"CONTAINS", "STARTSWITH", "ENDSWITH", "STRINGEQUALS", "RegexMatch"}), path, pick(r, []string{`"A"`, `"b"`, `""`, "1"}), pick(r, []string{"true", "false", "1", "c.b"}))
	case 1:
		return fmt.Sprintf("LOWER(%s) = %s", path, constant)
	case 2:
		return fmt.Sprintf("%s NOT LIKE %s", path, pick(r, []string{"'a%'", "'%b'", "'%'"}))
	case 3:
		return fmt.Sprintf("%s NOT IN (%s, %s)", path, constant, pick(r, words))
	case 4:
		return fmt.Sprintf("(%s > %s ? %s != %s : %s = %s)", path, constant, path, constant, path, pick(r, words))
	case 5:
		return fmt.Sprintf("(%s ?? %s) = %s", path, constant, pick(r, words))
	case 6:
		return fmt.Sprintf("EXISTS(SELECT VALUE x FROM x IN c.t WHERE x %s %s)", pick(r, []string{"=", "<", "!="}), constant)
	case 7:
		return fmt.Sprintf("EXISTS(SELECT VALUE x.a FROM c JOIN x IN c.%s WHERE x.a = %s OR %s = %s)", pick(r, []string{"a", "b", "t"}), constant, path, constant)
	case 8:
		return fmt.Sprintf("ARRAY_CONTAINS(%s, {a: %s}, true)", pick(r, []string{"c.t", "c.a", "[{a: 1, b: 2}]"}), constant)
	case 9:
		return fmt.Sprintf("ARRAY_CONTAINS_%s(c.t, %s, %s)", pick(r, []string{"ANY", "ALL"}), constant, pick(r, []string{constant, "undefined", "c.b"}))
	case 10:
		return fmt.Sprintf("(SELECT VALUE COUNT(1) FROM x IN c.t WHERE x = %s) > 0", constant)
	}
	return fmt.Sprintf("%s BETWEEN %s AND %s AND NOT (%s)", path, constant, pick(r, words), path)
}

// TestSuperset shows what Ranges and Access promise: for a document that passes
// the filter, the ranges contain its hash and the index expression admits it. An
// exact expression admits no other document.
func TestSuperset(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	definitions := []partitionkey.Definition{
		{Paths: []string{"/a"}},
		{Paths: []string{"/n/b"}, Version: 1},
		{Paths: []string{"/a", "/b"}, Kind: partitionkey.KindMultiHash},
		{Paths: []string{"/n/a", "/a", "/id"}, Kind: partitionkey.KindMultiHash},
	}
	ix := newIndex(t, "/n/b/?")
	var docs list
	for i := range 200 {
		docs = append(docs, newDocument(t, ix, uint64(i+1), randomDocument(r, i%40)))
	}
	matched, bounded, exact := 0, 0, 0
	for range 2_000 {
		filter := randomFilter(r, r.IntN(4))
		text := "SELECT VALUE c FROM c WHERE " + filter
		inside := strings.NewReplacer("c.n.", "n.", `c["n"]`, "n").Replace(filter)
		if r.IntN(4) == 0 && !strings.Contains(inside, "c.") {
			text = "SELECT VALUE 1 FROM c.n WHERE " + inside
		}
		with, err := Compile(text, nil, ix, Options{})
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		without, err := Compile(text, nil, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, want := numbersOf(t, with, docs), numbersOf(t, without, docs)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %s: with the index %v, without %v; access %v", seed, text, got, want, with.Access())
		}
		if with.exact {
			exact++
			if got := admittedBy(with, docs); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %s: the index says %v, the filter %v; access %v", seed, text, got, want, with.Access())
			}
		}
		for _, d := range definitions {
			d = d.Normalize()
			ranges := with.Ranges(d)
			checkDisjoint(t, text, ranges)
			if len(ranges) != 1 || !ranges[0].Equal(partitionkey.Full()) {
				bounded++
			}
			for _, number := range want {
				e := d.Hash(keyOf(d, docs[number-1].value))
				if !slices.ContainsFunc(ranges, func(r partitionkey.Range) bool { return r.Contains(e) }) {
					t.Fatalf("seed %d: %s over %v misses %s: %v", seed, text, d.Paths, docs[number-1].body, ranges)
				}
			}
		}
		matched += len(want)
	}
	if matched < 1_000 || bounded < 300 || exact < 200 {
		t.Fatalf("too few cases: %d matches, %d bounded, %d exact", matched, bounded, exact)
	}
}

// admittedBy returns the documents that the index expression of a plan admits.
func admittedBy(p *Plan, docs list) (numbers []uint64) {
	for _, d := range docs {
		if p.Access().Admits(d.terms) {
			numbers = append(numbers, d.number)
		}
	}
	return numbers
}

func checkDisjoint(t *testing.T, filter string, ranges []partitionkey.Range) {
	t.Helper()
	for i := range ranges {
		if ranges[i].Empty() || i > 0 && ranges[i].Min.Compare(ranges[i-1].Max) < 0 {
			t.Fatalf("%s: ranges %v", filter, ranges)
		}
	}
}

func numbersOf(t *testing.T, p *Plan, docs list) []uint64 {
	t.Helper()
	page, err := p.Run(t.Context(), docs, Budget{MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	var out []uint64
	for _, row := range page.Rows {
		out = append(out, row.Position.Number)
	}
	return out
}

// orderWord returns an order key of any type, often an equal one, or a long one. Many
// of the long ones share more bytes than a position keeps.
func orderWord(r *rand.Rand) string {
	switch r.IntN(6) {
	case 0:
		return fmt.Sprintf(`"%s%d"`, strings.Repeat("x", 140), r.IntN(6))
	case 1:
		return fmt.Sprintf(`"%s%s"`, strings.Repeat("x", OrderKeyMax-4), strings.Repeat("y", r.IntN(6)))
	case 2:
		return fmt.Sprintf(`["%s",%d]`, strings.Repeat("z", 130), r.IntN(3))
	case 3:
		return fmt.Sprint(r.IntN(5))
	}
	return pick(r, words)
}

// TestPaging compares paged and partitioned results with a sort in memory.
func TestPaging(t *testing.T) {
	t.Parallel()
	for range 300 {
		seed := rand.Uint64()
		checkPaging(t, seed)
	}
}

func checkPaging(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	ix := newIndex(t)
	var docs list
	for i := range r.IntN(60) {
		id := fmt.Sprint(i, strings.Repeat("-", r.IntN(3)*r.IntN(60))) // Rows differ in size.
		text := fmt.Sprintf(`{"id":"%s","k":%s,"keep":%t}`, id, orderWord(r), r.IntN(5) > 0)
		if r.IntN(8) == 0 {
			text = fmt.Sprintf(`{"id":"%s","keep":true}`, id)
		}
		docs = append(docs, newDocument(t, ix, uint64(i+1), text))
	}
	text, model := randomOrder(r, docs)
	p, err := Compile(text, nil, ix, Options{})
	if err != nil {
		t.Fatal(err)
	}
	parts := docs.split(1 + r.IntN(5))
	if !p.Ordered() {
		model = model[:0]
		for _, part := range parts {
			model = append(model, part...)
		}
		model = kept(model)
	}
	model = model[min(len(model), int(p.skip())):]
	model = model[:min(int64(len(model)), p.take())]
	b := Budget{MaxItems: r.IntN(8), MaxBytes: 1 + r.IntN(2_000)}
	rows, _, err := all(t.Context(), p, parts, b)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	var got, want []string
	for _, row := range rows {
		got = append(got, string(row.JSON))
	}
	for _, d := range model {
		want = append(want, d.value.Get("id").JSON())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d: %s over %d partitions, budget %+v\ngot  %v\nwant %v", seed, text, len(parts), b, got, want)
	}
}

// TestRunPages pages through one partition without a merge, with byte budgets so small
// that the sort repeatedly drops rows.
func TestRunPages(t *testing.T) {
	t.Parallel()
	for range 300 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 4))
		var docs list
		for i := range 40 {
			docs = append(docs, newDocument(t, nil, uint64(i+1), fmt.Sprintf(`{"k":%s,"pad":"%s"}`, orderWord(r), strings.Repeat("-", r.IntN(3)*r.IntN(200)))))
		}
		desc := ""
		if r.IntN(2) == 0 {
			desc = " DESC"
		}
		p := mustCompile(t, "SELECT * FROM c ORDER BY c.k"+desc)
		one, err := p.Run(t.Context(), docs, Budget{})
		if err != nil || len(one.Rows) != len(docs) {
			t.Fatal(len(one.Rows), err)
		}
		var got []Row
		b := Budget{MaxBytes: 1 + r.IntN(2_000), MaxItems: r.IntN(10)}
		for {
			page, err := p.Run(t.Context(), docs, b)
			if err != nil || len(page.Rows) == 0 {
				t.Fatalf("seed %d: empty page, %v", seed, err)
			}
			got = append(got, page.Rows...)
			if !page.More || len(got) > len(docs) {
				break
			}
			last := page.Rows[len(page.Rows)-1]
			b.After, b.AfterKey, b.Started = last.Position, last.Order, true
		}
		for i := range max(len(got), len(docs)) {
			if i >= len(got) || i >= len(docs) || got[i].Position.Number != one.Rows[i].Position.Number {
				t.Fatalf("seed %d: %d rows of %d; row %d differs", seed, len(got), len(docs), i)
			}
		}
	}
}

func kept(docs list) list {
	return slices.DeleteFunc(slices.Clone(docs), func(d document) bool { return !d.value.Get("keep").IsTrue() })
}

// randomOrder returns a query and its expected ordered rows, before OFFSET, LIMIT
// and TOP.
func randomOrder(r *rand.Rand, docs list) (string, list) {
	text, tail, sign := "SELECT ", "", 1
	switch r.IntN(4) {
	case 0:
		text += fmt.Sprintf("TOP %d ", r.IntN(70))
	case 1:
		tail = fmt.Sprintf(" OFFSET %d LIMIT %d", r.IntN(20), r.IntN(70))
	}
	text += "VALUE c.id FROM c WHERE c.keep"
	if r.IntN(4) > 0 {
		text += " ORDER BY c.k"
		if r.IntN(2) == 0 {
			text += " DESC"
			sign = -1
		}
	}
	model := kept(docs)
	slices.SortFunc(model, func(a, b document) int {
		return sign * cmp.Or(value.CompareOrder(a.value.Get("k"), b.value.Get("k")), cmp.Compare(a.number, b.number))
	})
	return text + tail, model
}

// TestCutKeyOfGoneDocument shows that rows may be repeated, but are never lost, if the
// document at a position with a truncated key is deleted between two pages.
func TestCutKeyOfGoneDocument(t *testing.T) {
	t.Parallel()
	var docs list
	long := strings.Repeat("x", 200)
	for i := range 10 {
		docs = append(docs, newDocument(t, nil, uint64(i+1), fmt.Sprintf(`{"id":"%d","k":"%s%d"}`, i, long, 9-i)))
	}
	p, err := Compile("SELECT VALUE c.id FROM c ORDER BY c.k", nil, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	page, from, err := p.Merge(streams(p, docs.split(2)), Progress{}).Page(t.Context(), Budget{MaxItems: 4})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, row := range page.Rows {
		seen[string(row.JSON)] = true
	}
	gone := slices.IndexFunc(docs, func(d document) bool { return d.number == from.Position.Number })
	parts := slices.Delete(slices.Clone(docs), gone, gone+1).split(2)
	page, _, err = p.Merge(streams(p, parts), from).Page(t.Context(), Budget{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range page.Rows {
		seen[string(row.JSON)] = true
	}
	if len(seen) != len(docs) {
		t.Fatalf("saw %d of %d rows", len(seen), len(docs))
	}
}

// TestRewrittenQuery acts as a client: it sends the rewritten text of a plan to
// each partition, page by page, merges by order item and resource id, and resumes
// with a condition in place of the filter.
func TestRewrittenQuery(t *testing.T) {
	t.Parallel()
	ix := newIndex(t)
	var docs list
	for i, k := range []string{"3", `"b"`, "1", "null", "true", "1", `"a"`, "2", "false"} {
		docs = append(docs, newDocument(t, ix, uint64(i+1), fmt.Sprintf(`{"id":"%d","k":%s,"_rid":"r%d"}`, i, k, i)))
	}
	docs = append(docs, newDocument(t, ix, 10, `{"id":"9","_rid":"r9"}`))
	def := partitionkey.Definition{Paths: []string{"/id"}}.Normalize()
	original, err := Compile("SELECT VALUE c.id FROM c WHERE c.id != 'x' ORDER BY c.k", nil, ix, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rewritten := original.Describe(def).Get("queryInfo").Get("rewrittenQuery").Text()
	for _, c := range []struct{ filter, want string }{
		{"true", `["9","3","8","4","2","5","7","0","6","1"]`},
		{"(c.k >= 2 OR IS_STRING(c.k) OR IS_ARRAY(c.k) OR IS_OBJECT(c.k))", `["7","0","6","1"]`},
		{"(c.k > 2 OR IS_STRING(c.k))", `["0","6","1"]`},
		{"IS_DEFINED(c.k)", `["3","8","4","2","5","7","0","6","1"]`},
		{"(c.k > null OR IS_BOOLEAN(c.k))", `["8","4"]`},
	} {
		p, err := Compile(strings.ReplaceAll(rewritten, filterPlaceholder, c.filter), nil, ix, Options{})
		if err != nil {
			t.Fatalf("%s: %v", rewritten, err)
		}
		var merged []value.Value
		for _, part := range docs.split(3) {
			rows, _, err := all(t.Context(), p, []list{part}, Budget{MaxItems: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				v, err := value.Parse(row.JSON)
				if err != nil {
					t.Fatal(err)
				}
				merged = append(merged, v)
			}
		}
		slices.SortFunc(merged, func(a, b value.Value) int {
			item := func(v value.Value) value.Value { return v.Get("orderByItems").Index(0).Get("item") }
			if c := value.CompareOrder(item(a), item(b)); c != 0 {
				return c
			}
			return strings.Compare(a.Get("_rid").Text(), b.Get("_rid").Text())
		})
		for i := range merged {
			merged[i] = merged[i].Get("payload")
		}
		if got := value.Array(merged).JSON(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.filter, got, c.want)
		}
	}
}

// TestRewrittenParameters shows that a rewritten text means the same with the
// parameters of the request, names with hyphens included (S57).
func TestRewrittenParameters(t *testing.T) {
	t.Parallel()
	docs := list{newDocument(t, nil, 1, `{"tenant":"a","n":1}`), newDocument(t, nil, 2, `{"tenant":"b","n":1}`)}
	params := []Param{{Name: "@tenant-id", Value: value.String("b")}, {Name: "@tenant", Value: value.Int(9)}, {Name: "@id", Value: value.Int(1)}}
	p, err := Compile("SELECT VALUE c.tenant FROM c WHERE c.tenant = @tenant-id AND @tenant - @id = 8 ORDER BY c.n", params, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	def := partitionkey.Definition{Paths: []string{"/other"}}.Normalize()
	text := p.Describe(def).Get("queryInfo").Get("rewrittenQuery").Text()
	again, err := Compile(strings.ReplaceAll(text, filterPlaceholder, "true"), params, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	page, err := again.Run(t.Context(), docs, Budget{})
	if err != nil || len(page.Rows) != 1 || string(page.Rows[0].JSON) != `{"orderByItems":[{"item":1}],"payload":"b"}` {
		t.Fatalf("%s: %v, %v", text, page.Rows, err)
	}
	if !again.Pinned(partitionkey.Definition{Paths: []string{"/tenant"}}.Normalize()) {
		t.Fatalf("%s: the key no longer determines the partition", text)
	}
}

// TestTogether pages through children that share the position of their parent.
func TestTogether(t *testing.T) {
	t.Parallel()
	p, err := Compile("SELECT VALUE c.id FROM c WHERE c.keep", nil, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 3))
		var docs list
		children := make([]list, 1+r.IntN(4))
		for i := range r.IntN(40) {
			d := newDocument(t, nil, uint64(i+1), fmt.Sprintf(`{"id":%d,"keep":%t}`, i, r.IntN(3) > 0))
			docs = append(docs, d)
			child := r.IntN(len(children))
			children[child] = append(children[child], d)
		}
		together := Together(streams(p, children)...)
		var got []byte
		var from Progress
		for pages := 0; ; pages++ {
			page, next, err := p.Merge([]Stream{together}, from).Page(t.Context(), Budget{MaxItems: 1 + r.IntN(6), MaxBytes: 1 + r.IntN(12)})
			if err != nil || pages > 100 {
				t.Fatal(seed, pages, err)
			}
			for _, row := range page.Rows {
				got = append(append(got, row.JSON...), ' ')
			}
			if from = next; !page.More {
				break
			}
		}
		var want []byte
		for _, d := range kept(docs) {
			want = append(append(want, d.value.Get("id").JSON()...), ' ')
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: got %s, want %s", seed, got, want)
		}
	}
}
