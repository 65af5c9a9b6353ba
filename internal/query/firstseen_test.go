package query

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
)

// scanned are the groups of a query that combines documents, made from the rows of the
// same query without GROUP BY or DISTINCT.
func scanned(t *testing.T, rows []string, counted bool) []string {
	t.Helper()
	var order []string
	first, count := map[string]string{}, map[string]int{}
	for _, row := range rows {
		v, err := value.ParseString(row)
		if err != nil {
			t.Fatal(err)
		}
		key := string(value.AppendKey(nil, v))
		if count[key]++; count[key] == 1 {
			order, first[key] = append(order, key), v.JSON()
		}
	}
	var out []string
	for _, key := range order {
		row := first[key]
		if counted {
			row = strings.Replace(strings.TrimSuffix(row, "}")+fmt.Sprintf(`,"n":%d}`, count[key]), "{,", "{", 1)
		}
		out = append(out, row)
	}
	return out
}

// TestGroupsAsFirstSeen shows that groups and distinct rows come in the order in which a
// scan first meets them (F29), however they are found: in documents or in the index,
// with filters, in one partition or several, in pages of any size, with little memory.
// A scan is the query without GROUP BY and DISTINCT over documents. A group shows the
// members of its first document in their order.
func TestGroupsAsFirstSeen(t *testing.T) {
	t.Parallel()
	ix := shapeIndex(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 29))
	exprs := []string{"c.a", "c.b", "c.s", "c.o", "c.f", "c.hidden", "LENGTH(c.s)", "c.a > 1", "t", "c.t[0]", "IS_DEFINED(c.a)", "c.id"}
	filters := []string{"", "", "c.b = 1", "c.f > 0.15", "c.hidden = 1", "IS_DEFINED(c.a)", `CONTAINS(c.s, "yy")`, `c.a IN (1, "ab", null)`, "c.a = 1 OR c.f = 7", "c.a != 1"}
	looked := 0
	for range 200 {
		var docs list
		for i := range pickInt(r, 1, 9, 40, 90) {
			docs = append(docs, randomShape(t, r, ix, 3*i+1))
		}
		var columns, keys []string
		for i := range 1 + r.IntN(2) {
			key := pick(r, exprs)
			keys, columns = append(keys, key), append(columns, fmt.Sprintf("%s AS k%d", key, i))
		}
		from := " FROM c"
		if slices.Contains(keys, "t") {
			from += " JOIN t IN c.t"
		}
		if filter := pick(r, filters); filter != "" {
			from += " WHERE " + filter
		}
		counted := r.IntN(2) == 0
		text, limit := "SELECT DISTINCT "+strings.Join(columns, ", ")+from, ""
		if counted {
			text = "SELECT " + strings.Join(columns, ", ") + ", COUNT(1) AS n" + from + " GROUP BY " + strings.Join(keys, ", ")
		}
		offset, most := r.IntN(4), 1+r.IntN(9)
		if r.IntN(3) == 0 {
			limit = fmt.Sprintf(" OFFSET %d LIMIT %d", offset, most)
		}
		plan, scan := compileWith(t, text+limit, ix), mustCompile(t, "SELECT "+strings.Join(columns, ", ")+from)
		if plan.group.lookups != nil {
			looked++
		}
		parts := pickInt(r, 1, 2, 5)
		rows, _, err := all(t.Context(), scan, docs.split(parts), Budget{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := scanned(t, rowTexts(rows), counted)
		if limit != "" {
			want = want[min(offset, len(want)):min(offset+most, len(want))]
		}
		for range 4 {
			w := shapeRun{parts: parts, page: pickInt(r, 0, 1, 3, 10), bytes: pickInt(r, 0, 0, 40), indexed: r.IntN(3) > 0, parallel: r.IntN(2) == 0, memory: int64(pickInt(r, 0, 0, 3000))}
			got, err := w.texts(t.Context(), plan, docs)
			for i, v := range parsed(t, got) {
				got[i] = v.JSON() // of one form for each number
			}
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("F29, seed %d: %s: %s: %v\ngot  %v\nwant %v", seed, text+limit, w, err, got, want)
			}
		}
	}
	if looked < 25 {
		t.Errorf("seed %d: the index answers only %d queries", seed, looked)
	}
}

// TestSortedGroups shows that GROUP BY with ORDER BY of its keys gives the groups in the
// order in which the same query without GROUP BY first has them (F29).
func TestSortedGroups(t *testing.T) {
	t.Parallel()
	ix := shapeIndex(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 30))
	for range 60 {
		var docs list
		for i := range pickInt(r, 1, 40, 90) {
			docs = append(docs, randomShape(t, r, ix, i+1))
		}
		order := pick(r, []string{"c.a", "c.b", "c.s"}) + pick(r, []string{"", " DESC"})
		key, _, _ := strings.Cut(order, " ")
		scan := compileWith(t, "SELECT "+key+" AS k FROM c ORDER BY "+order, ix)
		parts := pickInt(r, 1, 2, 5)
		rows, _, err := all(t.Context(), scan, docs.split(parts), Budget{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, counted := range []bool{false, true} {
			text := "SELECT DISTINCT " + key + " AS k FROM c ORDER BY " + order
			if counted {
				text = "SELECT " + key + " AS k, COUNT(1) AS n FROM c GROUP BY " + key + " ORDER BY " + order
			}
			plan, want := compileWith(t, text, ix), scanned(t, rowTexts(rows), counted)
			for _, page := range []int{0, 1, 7} {
				for _, ahead := range []bool{false, true} {
					w := shapeRun{parts: parts, page: page, indexed: ahead, parallel: ahead}
					got, err := w.rows(t.Context(), plan, docs)
					if err != nil {
						t.Fatalf("F29, seed %d: %s: %s: %v", seed, text, w, err)
					}
					compareRows(t, fmt.Sprintf("F29, seed %d: %s: %s", seed, text, w), got, parsed(t, want), false)
				}
			}
		}
	}
}

// TestGroupsBetweenChanges shows which groups the pages of a query have that reads
// changing documents (F29). While a token names all groups that were returned, none
// comes twice, and none is missing that existed all the time, whatever was added,
// deleted or changed. With more groups, that holds for those whose first document stays
// the same.
func TestGroupsBetweenChanges(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 31))
	for _, kinds := range []int{20, 60, 400} {
		for _, text := range []string{"SELECT DISTINCT VALUE c.k FROM c", "SELECT VALUE c.k FROM c GROUP BY c.k"} {
			ix := newIndex(t)
			plan := compileWith(t, text, ix)
			parts := make([]list, 1+r.IntN(4))
			var number uint64
			add := func(part, kind int) {
				number++
				doc := newDocument(t, ix, uint64(part)<<40|number, fmt.Sprintf(`{"id":"%d","k":%d}`, number, kind))
				parts[part] = append(parts[part], doc)
			}
			for range 3 * kinds {
				add(r.IntN(len(parts)), r.IntN(kinds))
			}
			always, firsts, returned := firstNumbers(parts, nil), firstNumbers(parts, nil), map[string]int{}
			var from Progress
			for more := true; more; {
				var list []Stream
				for _, part := range parts {
					list = append(list, func(ctx context.Context, b Budget) (Page, error) { return plan.Run(ctx, indexed{part}, b) })
				}
				page, next, err := plan.Merge(list, from).Page(t.Context(), Budget{MaxItems: 1 + r.IntN(30)})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for _, row := range page.Rows {
					returned[string(row.JSON)]++
				}
				from, more = next, page.More
				for range 10 {
					part := r.IntN(len(parts))
					if r.IntN(2) == 0 || len(parts[part]) == 0 {
						add(part, r.IntN(kinds))
						continue
					}
					i := r.IntN(len(parts[part]))
					parts[part] = slices.Delete(slices.Clone(parts[part]), i, i+1)
				}
				always, firsts = groupsInBoth(always, firstNumbers(parts, nil)), firstNumbers(parts, firsts)
			}
			stable := always
			if kinds > SeenMax {
				stable = firsts
			}
			for kind := range stable {
				if returned[kind] != 1 {
					t.Errorf("F29, seed %d: %s over %d kinds: group %s came %d times", seed, text, kinds, kind, returned[kind])
				}
			}
			for kind, n := range returned {
				if n > 1 && kinds <= SeenMax {
					t.Errorf("F29, seed %d: %s over %d kinds: group %s came %d times", seed, text, kinds, kind, n)
				}
			}
			if len(stable) < kinds/4 {
				t.Errorf("seed %d: only %d of %d groups are stable", seed, len(stable), kinds)
			}
		}
	}
}

// firstNumbers returns the number of the first document of each group. With former, only those
// that are the same.
func firstNumbers(parts []list, former map[string]uint64) map[string]uint64 {
	firsts := map[string]uint64{}
	for _, part := range parts {
		for _, d := range part {
			if key := d.value.Get("k").JSON(); firsts[key] == 0 {
				firsts[key] = d.number
			}
		}
	}
	for key, number := range firsts {
		if former != nil && former[key] != number {
			delete(firsts, key)
		}
	}
	return firsts
}

// groupsInBoth returns what of a is in b.
func groupsInBoth(a, b map[string]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for key := range a {
		if b[key] > 0 {
			out[key] = a[key]
		}
	}
	return out
}

// TestFirstSeenSplit shows that a position in groups is valid after a partition has
// split: its children are one place in the order of streams, and in the order of
// document numbers.
func TestFirstSeenSplit(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 32))
	docs := groupDocuments(t, 200)
	plan := mustCompile(t, "SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k")
	three := []list{docs[:90], docs[90:280], docs[280:]}
	whole, _, err := all(t.Context(), plan, three, Budget{})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{3, 100, 150} {
		var from Progress
		var got []string
		for {
			page, next, err := plan.Merge(streams(plan, three), from).Page(t.Context(), Budget{MaxItems: size})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rowTexts(page.Rows)...)
			if from = next; len(got) > 95 {
				break // in the second partition
			}
		}
		if from.Stream != 1 || from.Streams != 1 {
			t.Fatalf("pages of %d end in stream %d", size, from.Stream)
		}
		var halves [2]list
		for _, d := range three[1] {
			i := r.IntN(2)
			halves[i] = append(halves[i], d)
		}
		from.Streams = 2
		four := []list{three[0], halves[0], halves[1], three[2]}
		for more := true; more; {
			page, next, err := plan.Merge(streams(plan, four), from).Page(t.Context(), Budget{MaxItems: size})
			if err != nil {
				t.Fatal(err)
			}
			got, more, from = append(got, rowTexts(page.Rows)...), page.More, next
		}
		if !slices.Equal(got, rowTexts(whole)) {
			t.Errorf("F29, seed %d: pages of %d:\ngot  %v\nwant %v", seed, size, got, rowTexts(whole))
		}
	}
}

func rowTexts(rows []Row) (out []string) {
	for _, row := range rows {
		out = append(out, string(row.JSON))
	}
	return out
}

func parsed(t *testing.T, rows []string) (out []value.Value) {
	t.Helper()
	for _, row := range rows {
		v, err := value.ParseString(row)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}
