package partition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

const textPolicy = `{"indexingPolicy":{"fullTextIndexes":[{"path":"/s"},{"path":"/d"}]},` +
	`"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/s","language":"en-US"},{"path":"/d","language":"de-DE"}]}}`

// tokenQueries have words that are stop words now and were none in the first version of
// the tokens, words that are in both, and other words.
var tokenQueries = []string{
	"SELECT VALUE c.id FROM c WHERE FullTextContains(c.s, 'known')",
	"SELECT VALUE c.id FROM c WHERE FullTextContains(c.s, 'well known island')",
	"SELECT VALUE c.id FROM c WHERE FullTextContains(c.s, 'island')",
	"SELECT VALUE c.id FROM c WHERE FullTextContainsAll(c.s, 'island', 'well')",
	"SELECT VALUE c.id FROM c WHERE FullTextContainsAny(c.s, 'harbour', 'well')",
	"SELECT VALUE c.id FROM c WHERE FullTextContains(c.s, {'term': 'ilsand', 'distance': 1})",
	"SELECT VALUE c.id FROM c WHERE FullTextContains(c.d, 'Haus')",
	"SELECT VALUE COUNT(1) FROM c WHERE FullTextContains(c.s, 'island')",
	"SELECT VALUE SUM(_FullTextWordCount(c.s)) FROM c",
}

// indexText returns the index row as it is stored.
func (w *world) indexText(t *testing.T) string {
	t.Helper()
	now, err := w.partition.Load().acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer w.partition.Load().release(now)
	text, found, err := now.Rows.Get(nil, storage.MetaKey(nil, layout.MetaIndex))
	if err != nil || !found {
		t.Fatal(found, err)
	}
	return string(text)
}

// TestEarlierTokens opens a partition whose index an earlier release made, with the first
// version of the tokens. Queries find the same as without an index: before the rebuild,
// after a crash in the middle of it, and after it.
func TestEarlierTokens(t *testing.T) {
	t.Parallel()
	for _, phase := range []layout.Phase{layout.Building, layout.Cleaning} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, containerWith(t, 2, []string{"/pk"}, textPolicy))
			put := func(id int, text string) {
				t.Helper()
				doc := fmt.Sprintf(`{"id":"%d","pk":"p","s":%q,"d":"Das Haus"}`, id, text)
				if _, err := w.write(Upsert, w.parse(doc), nil); err != nil {
					t.Fatal(err)
				}
			}
			const documents = 30
			for i := range documents {
				put(i, []string{"a well known island", "this island", "known harbour", "new and well known"}[i%4])
			}
			w.makeEarlier(t, layout.IndexRow{Policy: w.container.Load().Indexing}, func() layout.Directive { return layout.ByPolicy })
			if text := w.indexText(t); !strings.Contains(text, `"version":1`) || strings.Contains(text, "okens") {
				t.Fatalf("the row of an earlier release is %s", text)
			}
			agree := func(when string) {
				t.Helper()
				if compared, rows := w.agree(t, when, tokenQueries); compared != len(tokenQueries) || rows < 5 {
					t.Errorf("%s: %d answers, %d with rows", when, compared, rows)
				}
				w.verify(t)
			}
			agree("earlier")
			p := w.partition.Load()
			if p.Stats().IndexProgress == 100 {
				t.Error("an index with earlier tokens counts as complete")
			}
			if err := p.presentable(&handover{what: "split"}); status.CodeOf(err) != status.CodeConflict {
				t.Errorf("a split before the rebuild: %v", err)
			}
			p.waitIdle()
			p.steps.sweepDocuments = 7
			for n := 0; ; n++ {
				if err := p.step(); err != nil || n > documents {
					t.Fatal(n, err)
				}
				if now := p.states.current.Load(); now.Indexing.Phase == phase && now.Indexing.Passed == 14 {
					break
				}
			}
			p.steps.sweepDocuments = 0 // It makes no progress until the crash.
			agree("in the middle")
			put(3, "an island with a new harbour")
			put(documents, "another well known island")
			agree("written in the middle")
			if err := w.crash(0, 1); err != nil {
				t.Fatal(err)
			}
			agree("after the crash")
			w.partition.Load().Reindex()
			w.partition.Load().waitIdle()
			agree("rebuilt")
			if text := w.indexText(t); !strings.Contains(text, `"version":2`) || !strings.Contains(text, `"tokens":2}`) {
				t.Errorf("the row after the rebuild is %s", text)
			}
			if progress := w.partition.Load().Stats().IndexProgress; progress != 100 {
				t.Errorf("progress %d", progress)
			}
			if err := w.partition.Load().presentable(&handover{what: "split"}); err != nil {
				t.Errorf("a split after the rebuild: %v", err)
			}
		})
	}
}

// A full-text query uses an index with current tokens, and reads documents while the
// index has earlier ones.
func TestTokensOfAnotherVersionAreNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, containerWith(t, 2, []string{"/pk"}, textPolicy))
	for i := range 20 {
		if _, err := w.write(Create, w.parse(fmt.Sprintf(`{"id":"%d","pk":"p","s":"island %d"}`, i, i%2)), nil); err != nil {
			t.Fatal(err)
		}
	}
	now := w.partition.Load().states.current.Load()
	current, err := index.Compile(w.container.Load().Indexing)
	if err != nil {
		t.Fatal(err)
	}
	expr, _ := current.FullText(index.Path{"s"}, []string{"island"})
	if !now.Indexing.Active.Serves(expr) {
		t.Error("a new index does not serve the current tokens")
	}
	earlier, err := layout.CompileIndexing(layout.IndexRow{Policy: w.container.Load().Indexing}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if earlier.Active.Serves(expr) {
		t.Error("an index with earlier tokens serves the current ones")
	}
	// The tokens of German did not change, nor did other terms.
	german, _ := current.FullText(index.Path{"d"}, []string{"haus"})
	if !earlier.Active.Serves(german) {
		t.Error("an index of an earlier release does not serve tokens that did not change")
	}
}

// The row of an index without tokens of a later version is the one of earlier releases,
// which can open the partition. They refuse the other, and a release refuses tokens that
// it does not know.
func TestIndexRowVersions(t *testing.T) {
	t.Parallel()
	italian := strings.ReplaceAll(textPolicy, "en-US", "it-IT")
	for members, want := range map[string]string{"": `"version":1,`, italian: `"version":1,`, textPolicy: `"version":2,`} {
		w := newWorld(t, containerWith(t, 2, []string{"/pk"}, members))
		if text := w.indexText(t); !strings.Contains(text, want) || strings.Contains(text, `"tokens":`) != (members == textPolicy) {
			t.Errorf("%s has the row %s", members, text)
		}
		if w.partition.Load().Stats().IndexProgress != 100 {
			t.Errorf("a new index of %s is not complete", members)
		}
	}
	for _, text := range []string{`{"version":4,"policy":{}}`, `{"version":2,"policy":{},"tokens":3}`, `{"version":1,"policy":{},"tokens":-1}`} {
		if row, err := layout.DecodeIndexRow([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, row)
		}
	}
	// An index with earlier tokens that gets another policy has the tokens of each.
	policy := containerWith(t, 2, []string{"/pk"}, textPolicy).Indexing
	row := layout.IndexRow{Policy: policy}
	row.Begin(policy)
	row.Phase = layout.Building
	text, err := row.Append()
	if err != nil {
		t.Fatal(err)
	}
	again, err := layout.DecodeIndexRow(text)
	if err != nil || again.Tokens != 0 || again.OtherTokens != 2 || again.Version != 2 {
		t.Errorf("%s is read as %+v, %v", text, again, err)
	}
	again.Switch()
	if settled := again.Settle(); settled.Tokens != 2 || settled.OtherTokens != 0 {
		t.Errorf("after the change: %+v", settled)
	}
}
