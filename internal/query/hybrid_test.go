package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/status"
	fulltext "github.com/decandb/decan/internal/text"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/internal/vector"
	"github.com/decandb/decan/partitionkey"
)

// hybridDocument is a document of TestHybrid, from which the test computes
// results without the language.
type hybridDocument struct {
	id    int
	text  string // "" for none
	other string
	e     []float32 // nil for none
}

func (d hybridDocument) json() string {
	b := fmt.Sprintf(`{"id":"%d","_rid":"r%04d","keep":%t`, d.id, d.id, d.id%4 != 0)
	if d.text != "" {
		b += `,"text":"` + d.text + `"`
	}
	b += `,"other":"` + d.other + `"`
	if d.e != nil {
		b += fmt.Sprintf(`,"e":[%g,%g]`, d.e[0], d.e[1])
	}
	return b + "}"
}

func hybridDocuments(r *rand.Rand, n int) []hybridDocument {
	words := []string{"swim", "run", "walk", "boat", "river", "shoe", "the", "fast"}
	sentence := func() string {
		var list []string
		for range 1 + r.IntN(6) {
			list = append(list, words[r.IntN(len(words))])
		}
		return strings.Join(list, " ")
	}
	docs := make([]hybridDocument, n)
	for i := range docs {
		docs[i] = hybridDocument{id: i, other: sentence()}
		if r.IntN(6) > 0 {
			docs[i].text = sentence()
		}
		if r.IntN(6) > 0 {
			docs[i].e = []float32{float32(r.IntN(9)), float32(1 + r.IntN(9))}
		}
	}
	return docs
}

// textScores computes a FullTextScore; -1 means no score.
func textScores(docs []hybridDocument, of func(d hybridDocument) string, terms ...string) []float64 {
	a, _ := fulltext.For("en-US")
	s := fulltext.Statistics{Documents: int64(len(docs)), Hits: make([]int64, len(terms))}
	counts := make([][]int, len(docs))
	for i, d := range docs {
		tokens := a.Tokens(nil, of(d))
		s.Words += int64(len(tokens))
		for k, term := range terms {
			n := a.Phrase(term).Count(tokens)
			counts[i] = append(counts[i], n)
			if n > 0 {
				s.Hits[k]++
			}
		}
	}
	scores := make([]float64, len(docs))
	for i, d := range docs {
		scores[i] = -1
		if of(d) != "" {
			scores[i] = s.Score(counts[i], len(a.Tokens(nil, of(d))))
		}
	}
	return scores
}

func vectorScores(docs []hybridDocument, m vector.Metric, sign float64) []float64 {
	scores := make([]float64, len(docs))
	for i, d := range docs {
		scores[i] = -1.79769e308
		if d.e != nil {
			scores[i] = sign * m.Score(d.e, []float32{1, 2})
		}
	}
	return scores
}

// fusedIDs ranks all documents that pass, by all components.
func fusedIDs(docs []hybridDocument, weights []float64, scores ...[]float64) map[int]float64 {
	sums := map[int]float64{}
	for c, list := range scores {
		for i, d := range docs {
			if d.id%4 == 0 {
				continue
			}
			better := map[float64]bool{}
			for j, other := range docs {
				if other.id%4 != 0 && list[j] > list[i] {
					better[list[j]] = true
				}
			}
			sums[i] += weights[c] / float64(61+len(better))
		}
	}
	return sums
}

// TestHybrid runs hybrid searches over several partitions on the server, and as a
// client does with the plan, and compares both with ranks computed directly.
func TestHybrid(t *testing.T) {
	t.Parallel()
	text := func(d hybridDocument) string { return d.text }
	other := func(d hybridDocument) string { return d.other }
	cases := []struct {
		rank    string
		weights []float64
		scores  func(docs []hybridDocument) [][]float64
	}{
		{`RRF(FullTextScore(c.text, "swim", "run fast"), VectorDistance(c.e, [1, 2]))`, []float64{1, 1}, func(docs []hybridDocument) [][]float64 {
			return [][]float64{textScores(docs, text, "swim", "run fast"), vectorScores(docs, vector.Cosine, 1)}
		}},
		{`RRF(FullTextScore(c.text, @first, @second), FullTextScore(c.other, "river", "walk"), VectorDistance(c.e, @v, false, {"distanceFunction": "euclidean"}), [3, 1, 0.5])`, []float64{3, 1, 0.5}, func(docs []hybridDocument) [][]float64 {
			return [][]float64{textScores(docs, text, "boat", "shoe"), textScores(docs, other, "river", "walk"), vectorScores(docs, vector.Euclidean, -1)}
		}},
		{`FullTextScore(c.other, "swim")`, []float64{1}, func(docs []hybridDocument) [][]float64 {
			return [][]float64{textScores(docs, other, "swim")}
		}},
	}
	params := []Param{
		{Name: "@first", Value: value.String("boat")},
		{Name: "@second", Value: value.String("shoe")},
		{Name: "@v", Value: value.Array([]value.Value{value.Int(1), value.Int(2)})},
	}
	for _, c := range cases {
		for range 10 {
			seed := rand.Uint64()
			r := rand.New(rand.NewPCG(seed, 6))
			docs := hybridDocuments(r, 1+r.IntN(60))
			var stored list
			for _, d := range docs {
				stored = append(stored, newDocument(t, nil, uint64(d.id+1), d.json()))
			}
			parts := stored.split(1 + r.IntN(4))
			sums := fusedIDs(docs, c.weights, c.scores(docs)...)
			for _, count := range []string{"OFFSET 0 LIMIT 5", "OFFSET 3 LIMIT 10", "OFFSET 0 LIMIT 100"} {
				p, err := Compile("SELECT VALUE c.id FROM c WHERE c.keep ORDER BY RANK "+c.rank+" "+count, params, nil, Options{})
				if err != nil {
					t.Fatal(err)
				}
				for by, ids := range map[string][]string{
					"the server": serveHybrid(t, p, parts), "a client": clientHybrid(t, p, params, parts),
				} {
					if err := checkRanks(sums, ids, int(p.skip()), int(p.take())); err != nil {
						t.Fatalf("seed %d: %s: %s: %v", seed, c.rank, by, err)
					}
				}
			}
		}
	}
}

// checkRanks compares a result with the sums of ranks: it must contain the best
// documents in an order of their sums, each once. Those with equal sums may come
// in any order, which depends on how partitions are merged.
func checkRanks(sums map[int]float64, got []string, skip, take int) error {
	all := slices.SortedFunc(maps.Values(sums), func(a, b float64) int { return cmp.Compare(b, a) })
	all = all[min(skip, len(all)):]
	all = all[:min(take, len(all))]
	if len(got) != len(all) {
		return fmt.Errorf("%d rows, want %d", len(got), len(all))
	}
	seen := map[int]bool{}
	for i, id := range got {
		n, err := strconv.Atoi(id)
		if d := sums[n] - all[i]; err != nil || seen[n] || d > 1e-12 || d < -1e-12 {
			return fmt.Errorf("row %d is %s with %g, want one with %g", i, id, sums[n], all[i])
		}
		seen[n] = true
	}
	return nil
}

// TestRankIsNotRun shows that a ranking is refused if its rows would have no order.
func TestRankIsNotRun(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, `SELECT TOP 3 * FROM c ORDER BY RANK FullTextScore(c.text, "swim")`)
	docs := list{newDocument(t, nil, 1, `{"text":"swim"}`)}
	_, err := p.Run(t.Context(), docs, Budget{})
	if err == nil || status.From(err) != nil {
		t.Errorf("run: %v", err)
	}
	if _, _, err := p.Merge(streams(p, []list{docs}), Progress{}).Page(t.Context(), Budget{}); err == nil {
		t.Error("merged")
	}
	if p.Sorted() || p.Ordered() {
		t.Error("a ranking has no positions")
	}
}

// TestBestScores shows that the best rows by a score come from the documents with
// its words, and from the latest of the others if those are not enough, and that
// the rows are the same as those of a sort.
func TestBestScores(t *testing.T) {
	t.Parallel()
	ix := containerIndex(t, `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
		"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/text","language":"en-US"}]},
		"indexingPolicy":{"fullTextIndexes":[{"path":"/text"}]}}`)
	var docs list
	for i := range 200 {
		text := []string{"a boat", "swim swim", "to run", "swim and run fast", "stone"}[i%10/2]
		if i%10 == 9 {
			text = "horse"
		}
		docs = append(docs, newDocument(t, ix, uint64(i+1), fmt.Sprintf(`{"id":"%d","n":%d,"text":"%s, %d"}`, i, i, text, i%7)))
	}
	for _, c := range []struct {
		terms, where string
		top, read    int64
	}{
		{`["swim"]`, "true", 10, 80},
		{`["horse", "boot"]`, "true", 10, 20},
		{`["horse"]`, "true", 21, 22},                            // too few: one more of the others
		{`["horse"]`, "true", 60, 200},                           // far too few
		{`["horse"]`, "c.n >= 0", 20, 20},                        //
		{`["horse"]`, "c.n % 2 + 0 * LENGTH(c.id) = 0", 10, 40},  // no row passes the filter
		{`["horse"]`, "c.n % 50 + 0 * LENGTH(c.id) = 0", 4, 265}, // few of the others pass
		{`["swim", "run", "boat"]`, "true", 10, 200},             // the most of all
		{`[{"term": "hors", "distance": 1}]`, "true", 10, 20},    //
		{`[]`, "true", 10, 10},                                   // all scores are zero
	} {
		text := fmt.Sprintf(`SELECT TOP %d VALUE c.id FROM c WHERE %s ORDER BY _FullTextScore(c.text, %s, 200, 600, [30, 30, 30]) DESC`, c.top, c.where, c.terms)
		p := compileWith(t, text, ix)
		if explained := p.Explain().String(); c.terms != "[]" && !strings.Contains(explained, "or read alone documents with a word\n") {
			t.Errorf("%s: explained as\n%s", text, explained)
		}
		want, _, err := all(t.Context(), p, []list{docs}, Budget{})
		if err != nil {
			t.Fatal(err)
		}
		run := func(ctx context.Context, b Budget) (Page, error) { return p.Run(ctx, indexed{docs}, b) }
		page, _, err := p.Merge([]Stream{run}, Progress{}).Page(t.Context(), Budget{})
		if err != nil || page.Stats.Retrieved != c.read {
			t.Errorf("%s: read %d documents, want %d, %v", text, page.Stats.Retrieved, c.read, err)
		}
		same := func(a, b Row) bool { return string(a.JSON) == string(b.JSON) }
		if !slices.EqualFunc(page.Rows, want, same) {
			t.Errorf("%s: the rows with an index differ", text)
		}
		var paged []Row
		var from Progress
		for more := true; more; {
			var part Page
			if part, from, err = p.Merge([]Stream{run}, from).Page(t.Context(), Budget{MaxItems: 3}); err != nil {
				t.Fatal(err)
			}
			paged, more = append(paged, part.Rows...), part.More
		}
		if !slices.EqualFunc(paged, want, same) {
			t.Errorf("%s: the rows in pages differ", text)
		}
	}
}

// serveHybrid runs a hybrid search as the engine does.
func serveHybrid(t *testing.T, p *Plan, parts []list) []string {
	t.Helper()
	rows, err := hybridRows(t.Context(), p.Hybrid(), parts, Budget{MaxItems: 7})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, row := range rows {
		ids = append(ids, strings.Trim(string(row.JSON), `"`))
	}
	return ids
}

// hybridRows runs a hybrid search, with its queries in pages of the given size.
func hybridRows(ctx context.Context, h *Hybrid, parts []list, b Budget) ([]Row, error) {
	var row []byte
	statistics, err := h.Statistics()
	if err != nil {
		return nil, err
	}
	if statistics != nil {
		rows, _, err := all(ctx, statistics, parts, b)
		if err != nil || len(rows) != 1 {
			return nil, fmt.Errorf("%d rows of statistics, %w", len(rows), err)
		}
		row = rows[0].JSON
	}
	plans, err := h.Components(row)
	if err != nil {
		return nil, err
	}
	components := make([][]Row, len(plans))
	for i, plan := range plans {
		if components[i], _, err = all(ctx, plan, parts, b); err != nil {
			return nil, err
		}
	}
	return h.Fuse(components)
}

// clientHybrid runs the plan as an SDK does, and without the parameters, since
// one of the SDKs leaves those out.
func clientHybrid(t *testing.T, p *Plan, params []Param, parts []list) []string {
	t.Helper()
	def := partitionkey.Definition{Paths: []string{"/id"}}.Normalize()
	info := p.Describe(def).Get("hybridSearchQueryInfo")
	c := client{parts: parts}
	fill := []string{filterPlaceholder, "true"}
	if info.Get("requiresGlobalStatistics").IsTrue() {
		fill = append(fill, clientStatistics(t, c, info.Get("globalStatisticsQuery").Text())...)
	}
	replacer := strings.NewReplacer(fill...)
	var found []hybridRow
	seen := map[string]bool{}
	for _, one := range info.Get("componentQueryInfos").Items() {
		var rows []value.Value
		for _, part := range parts {
			rows = append(rows, c.rows(t, replacer.Replace(one.Get("rewrittenQuery").Text()), []list{part})...)
		}
		rows = clientOrder(rows, one.Get("orderBy").Items())
		if n, ok := one.Get("top").Int64(); ok {
			rows = rows[:min(int(n), len(rows))]
		}
		for _, row := range rows {
			h, err := parseHybridRow([]byte(row.JSON()), info.Get("componentQueryInfos").Len())
			if err != nil {
				t.Fatal(err)
			}
			if !seen[h.rid] {
				seen[h.rid] = true
				found = append(found, h)
			}
		}
	}
	var weights []float64
	given := info.Get("componentWeights").Items()
	if len(given) == 0 {
		given = slices.Repeat([]value.Value{value.Int(1)}, info.Get("componentQueryInfos").Len())
	}
	for _, w := range given {
		weights = append(weights, w.Float())
	}
	found = clientRanks(found, weights)
	if n, ok := info.Get("skip").Int64(); ok {
		found = found[min(int(n), len(found)):]
	}
	if n, ok := info.Get("take").Int64(); ok {
		found = found[:min(int(n), len(found))]
	}
	var ids []string
	for _, row := range found {
		ids = append(ids, row.payload.Text())
	}
	return ids
}

// clientStatistics adds up the rows of all partitions.
func clientStatistics(t *testing.T, c client, text string) []string {
	t.Helper()
	documents, words, hits := 0.0, map[int]float64{}, map[int][]float64{}
	for _, part := range c.parts {
		for _, row := range c.rows(t, text, []list{part}) {
			documents += row.Get("documentCount").Float()
			for i, entry := range row.Get("fullTextStatistics").Items() {
				words[i] += entry.Get("totalWordCount").Float()
				for k, hit := range entry.Get("hitCounts").Items() {
					if len(hits[i]) == k {
						hits[i] = append(hits[i], 0)
					}
					hits[i][k] += hit.Float()
				}
			}
		}
	}
	fill := []string{documentsPlaceholder, fmt.Sprint(documents)}
	for i := range words {
		fill = append(fill, fmt.Sprintf(wordsPlaceholder, i), fmt.Sprint(words[i]), fmt.Sprintf(hitsPlaceholder, i), strings.ReplaceAll(fmt.Sprint(hits[i]), " ", ","))
	}
	return fill
}

// clientRanks orders rows by the sum of their weighted reciprocal ranks. The rows
// of a single component are already in order.
func clientRanks(found []hybridRow, weights []float64) []hybridRow {
	if len(weights) == 1 {
		return found
	}
	type scored struct {
		row hybridRow
		sum float64
	}
	list := make([]scored, len(found))
	for i, row := range found {
		list[i].row = row
		for c, weight := range weights {
			better := map[float64]bool{}
			for _, other := range found {
				if other.scores[c] > row.scores[c] {
					better[other.scores[c]] = true
				}
			}
			list[i].sum += weight / float64(61+len(better))
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(b.sum, a.sum) })
	for i, s := range list {
		found[i] = s.row
	}
	return found
}
