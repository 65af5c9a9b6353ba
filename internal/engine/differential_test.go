package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/value"
)

// constants are what documents hold and filters ask for: all types, numbers at
// the ends of their range, strings that agree in more bytes than an index keeps.
func constants() []string {
	long := strings.Repeat("x", 126)
	list := []string{
		"null", "true", "false", "0", "-0", "1", "-1", "1.5", "1e300", "-1e300", "5e-324",
		"9007199254740993", "9223372036854775807", "-9223372036854775808", "18446744073709551616",
		`""`, `"a"`, `"A"`, `"ab"`, `"b"`, `"1"`, `"true"`, `"é"`, `"e\u0301"`, `"\ud83d\ude00"`, `"\uffff"`, `"a\u0000b"`, `"a\"b\\c"`, `"%"`, `"a_b"`,
		"[]", "[1]", `["a",1]`, "[[1]]", "{}", `{"a":1}`, `{"a":1,"b":2}`, `{"b":2,"a":1}`, "[null]",
	}
	for _, end := range []string{"", "x", "xx", "xxx", "xxy", "y", "xxé", "xé", "xx" + long, "xx" + long + "a", "xx" + long + "b"} {
		list = append(list, fmt.Sprintf("%q", long+end))
	}
	return list
}

// drawn makes documents and conditions of one pool of constants.
type drawn struct {
	*rand.Rand
	pool []string
}

func (d drawn) constant() string { return d.pool[d.IntN(len(d.pool))] }

func (d drawn) one(list ...string) string { return list[d.IntN(len(list))] }

func (d drawn) document(i int) string {
	members := []string{fmt.Sprintf(`"id":"%03d"`, i)}
	member := func(name string) {
		if d.IntN(6) > 0 {
			members = append(members, fmt.Sprintf("%q:%s", name, d.constant()))
		}
	}
	member("pk")
	member("sk")
	member("a")
	member("b b")
	if d.IntN(4) > 0 {
		members = append(members, fmt.Sprintf(`"n":{"a":%s,"deep":{"er":%s}}`, d.constant(), d.constant()))
	}
	if d.IntN(4) > 0 {
		members = append(members, fmt.Sprintf(`"t":[%s,%s,{"a":%s}]`, d.constant(), d.constant(), d.constant()))
	}
	d.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}"
}

func (d drawn) path() string {
	return d.one("c.pk", "c.pk", "c.sk", "c.a", `c["b b"]`, "c.n.a", "c.n.deep.er", "c.t[0]", "c.t[2].a", "c.n", "c.t")
}

func (d drawn) condition(depth int) string {
	if depth > 0 {
		switch d.IntN(5) {
		case 0, 1:
			return fmt.Sprintf("(%s AND %s)", d.condition(depth-1), d.condition(depth-1))
		case 2, 3:
			return fmt.Sprintf("(%s OR %s)", d.condition(depth-1), d.condition(depth-1))
		default:
			return fmt.Sprintf("(NOT (%s))", d.condition(depth-1))
		}
	}
	path, v := d.path(), d.constant()
	switch d.IntN(14) {
	case 0, 1, 2:
		return path + " = " + v
	case 3:
		return v + " = " + path
	case 4:
		list := make([]string, 1+d.IntN(12))
		for i := range list {
			list[i] = d.constant()
		}
		return fmt.Sprintf("%s %sIN (%s)", path, d.one("", "", "NOT "), strings.Join(list, ", "))
	case 5, 6:
		return path + d.one(" < ", " <= ", " > ", " >= ", " != ") + v
	case 7:
		return fmt.Sprintf("(%s %sBETWEEN %s AND %s)", path, d.one("", "", "NOT "), v, d.constant())
	case 8:
		return fmt.Sprintf("STARTSWITH(%s, %s%s)", path, v, d.one("", ", false", ", true"))
	case 9:
		return fmt.Sprintf("%s(%s)", d.one("IS_DEFINED", "IS_NULL", "IS_STRING", "IS_BOOL", "IS_NUMBER", "IS_ARRAY", "IS_OBJECT", "IS_PRIMITIVE"), path)
	case 10:
		return fmt.Sprintf("ARRAY_CONTAINS(c.t, %s%s)", v, d.one("", ", true", ", false"))
	case 11:
		return fmt.Sprintf("ARRAY_CONTAINS([%s, %s], %s)", v, d.constant(), path)
	case 12:
		return path + " LIKE " + d.one(`"a%"`, `"a!_b" ESCAPE "!"`, `"%x"`, `"[a-b]%"`, `"`+strings.Repeat("x", 130)+`%"`, `"_"`, `""`, `"%"`)
	}
	return path + d.one(" = ", " < ", " != ") + d.path()
}

// The same documents give the same rows with an index and without, over 1, 8 and
// 64 partitions, in pages of any size, with constants in the text or as
// parameters, and with the filter asked for the other way round: what a filter
// keeps, its negation leaves out.
func TestDifferential(t *testing.T) {
	t.Parallel()
	for _, paths := range [][]string{{"/pk"}, {"/pk", "/sk"}, {"/pk", "/sk", "/id"}} {
		t.Run(fmt.Sprint(len(paths)), func(t *testing.T) {
			t.Parallel()
			checkDifferential(t, rand.Uint64(), paths)
		})
	}
}

// replica is one container with the documents of all.
type replica struct {
	name  string
	world *world
	link  engine.Link
}

func checkDifferential(t *testing.T, seed uint64, paths []string) {
	d := drawn{Rand: rand.New(rand.NewPCG(seed, 1)), pool: constants()}
	scan := newWorld(t, nil)
	replicas := []replica{{"scan", scan, scan.unindexed(t, paths...)}}
	for _, n := range []int{1, 8, 64} {
		w := newWorld(t, nil)
		replicas = append(replicas, replica{fmt.Sprint(n), w, w.container(t, n, paths...)})
	}
	docs := map[string]value.Value{}
	for i := range 120 {
		text := d.document(i)
		docs[fmt.Sprintf(`"%03d"`, i)] = parse(t, text)
		for _, r := range replicas {
			r.world.create(t, r.link, text)
		}
	}
	matched := 0
	for range 60 {
		filter := d.condition(d.IntN(4))
		req := engine.QueryRequest{Text: "SELECT VALUE c.id FROM c WHERE " + filter, Full: true}
		var want []string
		for _, r := range replicas {
			req.Link, req.MaxItems = r.link, []int{1, 7, 0, 0}[d.IntN(4)]
			got, _ := r.world.all(t, req)
			slices.Sort(got)
			if r.name == "scan" {
				want = got
				continue
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, key %v, %s partitions, pages of %d: %s\ngot  %v\nwant %v", seed, paths, r.name, req.MaxItems, filter, got, want)
			}
		}
		matched += len(want)
		d.ordered(t, seed, replicas, docs, filter, want)
	}
	if matched < 300 {
		t.Errorf("the test says little: %d matches", matched)
	}
}

// ordered adds ORDER BY, TOP and OFFSET LIMIT to a filter whose rows are known.
func (d drawn) ordered(t *testing.T, seed uint64, replicas []replica, docs map[string]value.Value, filter string, ids []string) {
	t.Helper()
	names := d.one("pk", "a", "b b", "n.a", "n.deep.er", "id")
	by := "c"
	for name := range strings.SplitSeq(names, ".") {
		by += fmt.Sprintf("[%q]", name)
	}
	keyOf := func(id string) value.Value {
		v := docs[id]
		for name := range strings.SplitSeq(names, ".") {
			v = v.Get(name)
		}
		return v
	}
	way, sign := "ASC", 1
	if d.IntN(2) == 0 {
		way, sign = "DESC", -1
	}
	var want []value.Value
	for _, id := range ids {
		want = append(want, keyOf(id))
	}
	slices.SortFunc(want, func(a, b value.Value) int { return sign * value.Compare(a, b) })
	head, tail := "SELECT", ""
	switch d.IntN(3) {
	case 0:
		n := d.IntN(40)
		head += fmt.Sprintf(" TOP %d", n)
		want = want[:min(n, len(want))]
	case 1:
		n, m := d.IntN(20), d.IntN(40)
		tail = fmt.Sprintf(" OFFSET %d LIMIT %d", n, m)
		want = want[min(n, len(want)):]
		want = want[:min(m, len(want))]
	}
	text := fmt.Sprintf("%s VALUE c.id FROM c WHERE %s ORDER BY %s %s%s", head, filter, by, way, tail)
	for _, r := range replicas[1:] {
		req := engine.QueryRequest{Link: r.link, Text: text, Full: true, MaxItems: []int{1, 7, 0}[d.IntN(3)]}
		got, _ := r.world.all(t, req)
		seen := map[string]bool{}
		for i, id := range got {
			if seen[id] || !slices.Contains(ids, id) {
				t.Fatalf("seed %d, %s partitions: %s: row %s twice or wrong", seed, r.name, text, id)
			}
			seen[id] = true
			if i >= len(want) || value.Compare(keyOf(id), want[i]) != 0 {
				t.Fatalf("seed %d, %s partitions, pages of %d: %s: row %d is %s", seed, r.name, req.MaxItems, text, i, id)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d, %s partitions, pages of %d: %s: %d rows, want %d", seed, r.name, req.MaxItems, text, len(got), len(want))
		}
	}
}

// unindexed is container, with one partition and without an index.
func (w *world) unindexed(t testing.TB, paths ...string) engine.Link {
	t.Helper()
	link := w.container(t, 1, paths...)
	ctx := context.Background()
	body := fmt.Sprintf(`{"id":"plain","indexingPolicy":{"indexingMode":"none","automatic":false},"partitionKey":{"paths":["%s"],"kind":%q,"version":2}}`,
		strings.Join(paths, `","`), map[bool]string{true: "Hash", false: "MultiHash"}[len(paths) == 1])
	link.Container = ""
	if _, err := w.CreateContainer(ctx, caller, engine.ResourceRequest{Link: link, Body: parse(t, body), Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	link.Container = "plain"
	return link
}
