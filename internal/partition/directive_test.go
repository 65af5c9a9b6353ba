package partition

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// makeEarlier changes the store to what an earlier version of this program wrote: with
// this index row, and documents with the directives that directive draws. The world's
// partition is closed and opened again; nothing is rebuilt yet.
func (w *world) makeEarlier(t *testing.T, row layout.IndexRow, directive func() layout.Directive) {
	t.Helper()
	p := w.partition.Load()
	p.waitIdle()
	now, err := p.acquire()
	if err != nil {
		t.Fatal(err)
	}
	row.Version = layout.MetaVersion
	earlier, err := layout.CompileIndexing(row, nil)
	if err != nil {
		t.Fatal(err)
	}
	state := now.State
	b := builder{batch: w.store.NewBatch(), writer: &p.writer}
	rows := now.Rows.Iter(storage.FamilyDocument.Bounds())
	for valid := rows.First(); valid; valid = rows.Next() {
		text := slices.Clone(rows.Value())
		d, err := layout.DecodeDocument(text)
		if err != nil {
			t.Fatal(err)
		}
		before, err := now.Indexing.KeysOfStored(&d, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Directive = directive()
		const flagsAt, include, exclude = 1, 2, 4 // as docs/formats/document.md says
		switch d.Directive {
		case layout.Include:
			text[flagsAt] |= include
		case layout.Exclude:
			text[flagsAt] |= exclude
			state.Excludes = true
		case layout.ByPolicy:
		}
		after, err := earlier.KeysOfStored(&d, nil)
		if err != nil {
			t.Fatal(err)
		}
		b.keys(d.Number, layout.Diff(now.Indexing.Stored(before, d.Number, d.TS), earlier.Stored(after, d.Number, d.TS)))
		b.check(b.batch.Set(slices.Clone(rows.Key()), text))
	}
	text, err := row.Append()
	b.check(errors.Join(err, rows.Close()))
	b.check(b.batch.Set(storage.MetaKey(nil, layout.MetaIndex), text))
	b.check(b.batch.Set(storage.MetaKey(nil, layout.MetaState), state.Append(nil)))
	b.check(b.batch.Delete(storage.MetaKey(nil, layout.MetaPaths)))
	b.check(b.batch.Delete(storage.MetaKey(nil, layout.MetaPathsNext)))
	p.release(now)
	if err := errors.Join(b.err, w.store.Apply(b.batch), b.batch.Close(), w.close(), w.open()); err != nil {
		t.Fatal(err)
	}
	w.verify(t)
}

// agree compares the answers of the index with those of a plan that knows no index, over
// documents only. It returns how many answers it compared, and how many had rows.
func (w *world) agree(t *testing.T, when string, texts []string) (compared, rows int) {
	t.Helper()
	for _, text := range texts {
		got, _, err := w.rows(text, partitionkey.Full(), 0, nil)
		if err != nil {
			continue // An order that the policy does not allow.
		}
		plan, err := query.Compile(text, nil, nil, query.Options{Computed: w.container.Load().Indexing.Computed})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want, _, err := w.planned(plan, partitionkey.Full(), 0, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !strings.Contains(text, "ORDER BY") {
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %s\nwith the policy %s\nthe index says %.500q\nthe documents  %.500q", when, text, w.container.Load().Indexing.Value().JSON(), got, want)
		}
		compared++
		rows += min(1, len(want))
	}
	return compared, rows
}

// TestIndexedIsFull draws policies, documents and directives, as earlier versions
// stored them and as this one does, and compares what the index answers with what the
// documents say: before, during and after each rebuild.
func TestIndexedIsFull(t *testing.T) {
	t.Parallel()
	seeds := uint64(24)
	if raceDetector {
		seeds = 2 // One goroutine asks and compares, nearly all of the time.
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 7))
			w := newWorld(t, containerWith(t, 2, []string{"/pk"}, drawPolicy(random)))
			for i := range 40 + random.IntN(40) {
				if _, err := w.write(Upsert, w.parse(drawIndexed(random, i)), nil); err != nil {
					t.Fatal(err)
				}
			}
			compared, rows := w.agree(t, "written", indexedQueries)
			row := layout.IndexRow{Policy: w.container.Load().Indexing, Directives: true}
			if random.IntN(2) == 0 { // in the middle of a change of the policy
				other := containerWith(t, 2, []string{"/pk"}, drawPolicy(random)).Indexing
				row.Other, row.Phase, row.Until = &other, []layout.Phase{layout.Building, layout.Cleaning}[random.IntN(2)], math.MaxUint64
				row.Cursor = resource.NewNumber(w.own.Ordinal, uint64(random.IntN(50)))
			}
			w.makeEarlier(t, row, func() layout.Directive { return layout.Directive(random.IntN(3)) })
			step := func(when string) {
				c, r := w.agree(t, when, indexedQueries)
				compared, rows = compared+c, rows+r
				w.verify(t)
			}
			step("earlier")
			for i := range 10 {
				if _, err := w.write(Upsert, w.parse(drawIndexed(random, random.IntN(90))), nil); err != nil {
					t.Fatal(err, i)
				}
			}
			step("written to an earlier index")
			for range 3 {
				w.partition.Load().Reindex()
				w.partition.Load().waitIdle()
				if now := w.partition.Load().states.current.Load(); now.Indexing.Directives || now.Indexing.Phase != layout.Settled {
					t.Errorf("the index after a rebuild: %+v", now.Indexing.IndexRow)
				}
				step("rebuilt")
				c := *w.container.Load()
				c.Indexing = containerWith(t, 2, []string{"/pk"}, drawPolicy(random)).Indexing
				w.container.Store(&c)
				step("changed")
			}
			if compared < 300 || rows < 150 {
				t.Errorf("%d answers, %d of them with rows, were compared", compared, rows)
			}
		})
	}
}

// drawPolicy draws the members of a container on which its index depends.
func drawPolicy(random *rand.Rand) string {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	policy := `"indexingMode":"` + pick("consistent", "consistent", "consistent", "lazy", "none") + `","automatic":` + pick("true", "false")
	if !strings.Contains(policy, "none") {
		included, excluded := []string{"/*"}, []string{}
		if random.IntN(2) == 0 {
			included, excluded = excluded, included
		}
		for _, path := range []string{"/n/?", "/n/*", "/s/?", "/m/x/?", "/m/*", "/tags/[]/?", "/list/*", "/list/[]/x/?", `/"odd \"name\""/?`, "/g/*"} {
			switch random.IntN(4) {
			case 0:
				included = append(included, path)
			case 1:
				excluded = append(excluded, path)
			}
		}
		if random.IntN(2) == 0 {
			included = append(included, "/double/?", "/low/?")
		}
		if random.IntN(2) == 0 {
			included = append(included, "/list/[]/{x, y}/?")
		}
		policy += `,"includedPaths":` + paths(included) + `,"excludedPaths":` + paths(excluded)
		if random.IntN(2) == 0 {
			policy += `,"compositeIndexes":[[{"path":"/n","order":"ascending"},{"path":"/s","order":"descending"}],[{"path":"/m/x"},{"path":"/_ts"}]]`
		}
		if random.IntN(2) == 0 {
			policy += `,"spatialIndexes":[{"path":"/g/*","types":["Point","Polygon"]}]`
		}
		if random.IntN(2) == 0 {
			policy += `,"fullTextIndexes":[{"path":"/s"}]`
		}
	}
	return `{"indexingPolicy":{` + policy + `},"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/s","language":"en-US"}]},` +
		`"computedProperties":[{"name":"double","query":"SELECT VALUE c.n * 2 FROM c"},{"name":"low","query":"SELECT VALUE LOWER(c.s) FROM c"}]}`
}

func paths(list []string) string {
	members := make([]value.Value, len(list))
	for i, path := range list {
		members[i] = value.Object([]value.Member{{Name: "path", Value: value.String(path)}})
	}
	return value.Array(members).JSON()
}

// drawIndexed draws a document with values at which an index could go wrong.
func drawIndexed(random *rand.Rand, id int) string {
	long := strings.Repeat("long ", 25) // 125 bytes; terms are cut at 128
	scalars := []string{
		"1", "2", "-1", "0", "1.0", "1.5", "1e300", "9007199254740993", "9007199254740992", "9223372036854775807", "null", "true", "false",
		`""`, `"a"`, `"A"`, `"Red running shoes"`, `"the"`, `"` + long + `"`, `"` + long + `abc"`, `"` + long + `abcd"`, `"` + long + `ABCE"`,
		`"\u0000"`, `"a\u0000b"`, `"\ud83d\ude00"`, `"\uffff"`, "[]", "{}", "[1]", `{"x":1}`, `[[1],"a"]`,
	}
	pick := func() string { return scalars[random.IntN(len(scalars))] }
	members := []string{fmt.Sprintf(`"id":"%d"`, id), fmt.Sprintf(`"pk":"p%d"`, id%3)}
	add := func(name, text string) {
		if random.IntN(4) > 0 {
			members = append(members, value.String(name).JSON()+":"+text)
		}
	}
	add("n", pick())
	add("s", pick())
	add("m", `{"x":`+pick()+`,"y":`+pick()+`}`)
	add("tags", "["+pick()+","+pick()+","+pick()+"]")
	add("list", `[{"x":`+pick()+`,"y":`+pick()+`},{"x":`+pick()+`},`+pick()+`]`)
	add(`odd "name"`, pick())
	add("double", pick())
	add("g", []string{
		`{"type":"Point","coordinates":[10,10]}`, `{"type":"Point","coordinates":[10.001,10]}`, `{"type":"Point","coordinates":[-170,-80]}`,
		`{"type":"Polygon","coordinates":[[[9,9],[11,9],[11,11],[9,11],[9,9]]]}`, `{"type":"Point"}`, pick(),
	}[random.IntN(6)])
	return "{" + strings.Join(members, ",") + "}"
}

var indexedQueries = makeIndexedQueries()

func makeIndexedQueries() (texts []string) {
	long := strings.Repeat("long ", 25)
	for _, where := range []string{
		"c.n = 1", "c.n != 1", "NOT (c.n = 1)", "c.n > 0", "c.n >= 9007199254740993", "c.n < 2", "c.n = null", "c.n IN (1, 'a', null)",
		"c.n BETWEEN 0 AND 2", "c.n + 0 = 1", "c.n = 9223372036854775807", "c.n = []", "c.n = {'x': 1}", "c.n = [1]", "IS_DEFINED(c.n)", "NOT IS_DEFINED(c.n)",
		"IS_NULL(c.n)", "IS_ARRAY(c.n)", "IS_OBJECT(c.m)", "IS_STRING(c.s)", "IS_NUMBER(c.n)", "IS_BOOL(c.n)", "IS_PRIMITIVE(c.s)", "NOT IS_STRING(c.s)",
		"c.s = 'a'", "c.s > 'a'", "c.s <= ''", "c.s = '" + long + "'", "c.s = '" + long + "abc'", "c.s > '" + long + "abc'", "c.s >= '" + long + "abcd'", "c.s < '" + long + "abd'",
		"STARTSWITH(c.s, 'a')", "STARTSWITH(c.s, '" + long + "ab')", "STARTSWITH(c.s, 'LONG', true)", "ENDSWITH(c.s, 'abc')", "CONTAINS(c.s, 'ong')", "CONTAINS(c.s, 'ABC', true)",
		"STRINGEQUALS(c.s, 'A', true)", "StringEquals(c.s, '" + long + "abce', true)", "c.s LIKE 'a%'", "c.s LIKE '%abc_'", "RegexMatch(c.s, '^long')", "c.s != 'a'",
		"c.m.x = 1", "c.m.x > c.m.y", "c['m']['y'] = 'a'", "c.m = {'x': 1, 'y': 1}", "IS_DEFINED(c.m.y)", "c['odd \"name\"'] = 1",
		"ARRAY_CONTAINS(c.tags, 1)", "ARRAY_CONTAINS(c.tags, 'a')", "ARRAY_CONTAINS(c.tags, {'x': 1}, true)", "ARRAY_CONTAINS(c.list, {'x': 1}, true)", "ARRAY_CONTAINS(c.list, {'x': 'a', 'y': 1}, true)",
		"c.tags[0] = 1", "c.tags[1] > 0", "c.list[0].x = 1", "EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 1)", "EXISTS(SELECT VALUE t FROM t IN c.list WHERE t.x = 1 AND t.y = 'a')",
		"ARRAY_CONTAINS_ANY(c.tags, 1, 'a')", "ARRAY_CONTAINS_ALL(c.tags, 1, 'a')", "ARRAY_LENGTH(c.tags) = 3",
		"c.double = 2", "c.double > 0", "IS_DEFINED(c.double)", "c.low = 'a'", "STARTSWITH(c.low, 'long')", "c.low != 'a'",
		"c.id = '7'", "c.id > '3'", "c._ts > 0", "c._ts = 1700000000", "c.pk = 'p1' AND c.n = 1", "c.n = 1 OR c.s = 'a'", "c.n = 1 AND (c.s = 'a' OR c.m.x = 1)",
		"FullTextContains(c.s, 'running')", "FullTextContainsAll(c.s, 'red', 'shoes')", "FullTextContainsAny(c.s, 'long', 'red')",
		"ST_DISTANCE(c.g, {'type':'Point','coordinates':[10,10]}) < 1000", "ST_WITHIN(c.g, {'type':'Polygon','coordinates':[[[9,9],[11,9],[11,11],[9,11],[9,9]]]})",
		"ST_INTERSECTS(c.g, {'type':'Point','coordinates':[10,10]})", "ST_DISTANCE(c.g, {'type':'Point','coordinates':[10,10]}) > 1000", "ST_ISVALID(c.g)", "true", "c.none = 1", "NOT (c.none = 1)",
	} {
		texts = append(texts, "SELECT VALUE c.id FROM c WHERE "+where, "SELECT VALUE COUNT(1) FROM c WHERE "+where)
	}
	return append(texts,
		"SELECT VALUE c.id FROM c ORDER BY c.n", "SELECT VALUE c.id FROM c ORDER BY c.n DESC", "SELECT VALUE c.id FROM c WHERE c.n > 0 ORDER BY c.n", "SELECT VALUE c.id FROM c ORDER BY c.s",
		"SELECT VALUE c.id FROM c ORDER BY c.n, c.s DESC", "SELECT VALUE c.id FROM c WHERE c.n = 1 ORDER BY c.n, c.s DESC", "SELECT VALUE c.id FROM c ORDER BY c.m.x, c._ts", "SELECT VALUE c.id FROM c ORDER BY c.low",
		"SELECT VALUE c.id FROM c ORDER BY c._ts", "SELECT TOP 3 VALUE c.id FROM c ORDER BY c.n DESC", "SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 2 LIMIT 5",
		"SELECT VALUE COUNT(1) FROM c", "SELECT VALUE COUNT(c.n) FROM c", "SELECT VALUE MIN(c.n) FROM c", "SELECT VALUE MAX(c.n) FROM c", "SELECT VALUE MAX(c.s) FROM c", "SELECT VALUE MIN(c.low) FROM c",
		"SELECT DISTINCT VALUE c.n FROM c", "SELECT DISTINCT VALUE c.m.x FROM c", "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n", "SELECT c.low, COUNT(1) AS k FROM c GROUP BY c.low", "SELECT c.pk, MAX(c.s) AS k FROM c GROUP BY c.pk",
		"SELECT VALUE t FROM c JOIN t IN c.tags WHERE t = 1", "SELECT VALUE t.y FROM c JOIN t IN c.list WHERE t.x = 1", "SELECT VALUE t FROM t IN c.tags WHERE t = 'a'")
}

// A partition whose index may lack documents is neither split nor merged: its parts
// could not say so.
func TestNoSplitOfEarlierIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, `{"automatic":false}`))
	for i := range 20 {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%d","a":"t%d","n":1}`, i, i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	w.makeEarlier(t, layout.IndexRow{Policy: w.container.Load().Indexing, Directives: true}, func() layout.Directive { return layout.ByPolicy })
	p := w.partition.Load()
	if err := p.presentable(&handover{what: "split"}); status.CodeOf(err) != status.CodeConflict {
		t.Errorf("before the rebuild: %v", err)
	}
	p.Reindex()
	p.waitIdle()
	if err := p.presentable(&handover{what: "split"}); err != nil {
		t.Errorf("after the rebuild: %v", err)
	}
}

// An index of an earlier version that lacks nothing is kept.
func TestEarlierIndexIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/a"}, ""))
	if _, err := w.write(Create, w.parse(`{"id":"1","a":"t","n":1}`), nil); err != nil {
		t.Fatal(err)
	}
	w.makeEarlier(t, layout.IndexRow{Policy: w.container.Load().Indexing, Directives: true}, func() layout.Directive { return layout.Include })
	p := w.partition.Load()
	if row, err := p.nextStep(p.states.current.Load(), nil, nil); err != nil || row == nil || row.Phase != layout.Settled || row.Directives {
		t.Errorf("the first step is %+v, %v", row, err)
	}
	p.Reindex()
	p.waitIdle()
	if row, err := p.nextStep(p.states.current.Load(), nil, nil); err != nil || row != nil {
		t.Errorf("the second step is %+v, %v", row, err)
	}
}

// A document whose computed property is too large makes a query that needs it fail. The
// index must not leave the document out.
func TestComputedTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, `{"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/twice/?"}]},`+
		`"computedProperties":[{"name":"twice","query":"SELECT VALUE ARRAY_CONCAT(c.list, c.list, c.list)[0] FROM c"}]}`))
	for _, doc := range []string{
		`{"id":"small","pk":"t","list":["x"]}`,
		`{"id":"large","pk":"t","list":["x","` + strings.Repeat("y", 1_900_000) + `"]}`,
	} {
		if _, err := w.write(Create, w.parse(doc), nil); err != nil {
			t.Fatal(err)
		}
	}
	if rows, _, err := w.rows("SELECT VALUE c.id FROM c WHERE c.twice = 'x'", partitionkey.Full(), 0, nil); status.CodeOf(err) != status.CodeBadRequest {
		t.Errorf("%q, %v", rows, err)
	}
	if rows, _, err := w.rows("SELECT VALUE c.id FROM c WHERE c.list[0] = 'x'", partitionkey.Full(), 0, nil); err != nil || len(rows) != 2 {
		t.Errorf("%q, %v", rows, err)
	}
	w.verify(t)
	if _, err := w.write(Delete, w.parse("null"), func(r *Write) { r.ID, r.Key = "large", w.keyOf("t") }); err != nil {
		t.Fatal(err)
	}
	if rows, _, err := w.rows("SELECT VALUE c.id FROM c WHERE c.twice = 'x'", partitionkey.Full(), 0, nil); err != nil || len(rows) != 1 {
		t.Errorf("%q, %v", rows, err)
	}
	w.verify(t)
}

// TestExpireWhileLocked has a LockedTransaction meet documents that expire before it, under it and
// after it: it does not find what has expired, an expired id is free, and a document
// that expires while it works counts as deleted by another client.
func TestExpireWhileLocked(t *testing.T) {
	t.Parallel()
	c := containerWith(t, 2, []string{"/pk"}, `{"indexingPolicy":null,"defaultTtl":-1}`)
	c.Retention = testRetention
	w := newWorld(t, c)
	for id, ttl := range map[string]int{"before": 5, "under": 20, "behind": 50} {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":%q,"pk":"p","ttl":%d}`, id, ttl)), nil); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.Add(10)
	_, err := w.locked(t.Context(), w.keyOf("p"), nil, func(h *LockedTransaction) error {
		if _, err := h.Do(t.Context(), Operation{Op: Fetch, ID: "before"}); status.CodeOf(err) != status.CodeNotFound {
			t.Errorf("what has expired is read: %v", err)
		}
		return w.put(h, `{"id":"before","pk":"p"}`)
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.locked(t.Context(), w.keyOf("p"), nil, func(h *LockedTransaction) error {
		if _, err := h.Do(t.Context(), Operation{Op: Replace, ID: "under", Document: w.parse(`{"id":"under","pk":"p","n":1}`)}); err != nil {
			return err
		}
		w.clock.Add(10)
		return nil
	})
	if status.CodeOf(err) != status.CodeRetryWith {
		t.Errorf("what expired under the LockedTransaction is replaced: %v", err)
	}
	_, err = w.locked(t.Context(), w.keyOf("p"), nil, func(h *LockedTransaction) error {
		_, err := h.Do(t.Context(), Operation{Op: Replace, ID: "behind", Document: w.parse(`{"id":"behind","pk":"p","ttl":50}`)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Add(50)
	if n, err := w.partition.Load().Expire(t.Context(), nil, math.Inf(1)); n != 2 || err != nil {
		t.Errorf("%d documents expire, %v", n, err)
	}
	w.verify(t)
	told := map[string]int{}
	page, err := w.partition.Load().Feed(t.Context(), Feed{Complete: true, Generation: w.own.Generation, Range: partitionkey.Full()})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range page.Documents {
		facts := w.parse(string(text)).Get("metadata")
		told[facts.Get("operationType").Text()+facts.Get("id").Text()+facts.Get("timeToLiveExpired").JSON()]++
	}
	want := map[string]int{"create": 4, "replace": 1, "deletebeforetrue": 1, "deleteundertrue": 1, "deletebehindtrue": 1}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("the complete feed tells %v, want %v", told, want)
	}
}
