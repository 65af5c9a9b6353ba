package text

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestExpandingTexts checks that characters that folding and normalization make
// longer, the worst into four words of eighteen letters, cost work in proportion
// to the text, measured by allocated memory.
func TestExpandingTexts(t *testing.T) {
	const slack = 1 << 20
	for _, piece := range []string{"\uFDFA", "\uFDFA ", "\uFB03", "\u3300", "\u0130", "a\u0301", "\u0301", "\uAC01", "\u2168 "} {
		work := func(bytes int) (allocated uint64, tokens int) {
			text := strings.Repeat(piece, bytes/len(piece))
			a, _ := For("en-US")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			tokens = len(a.Tokens(nil, text))
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc, tokens
		}
		half, few := work(128 << 10)
		whole, many := work(256 << 10)
		if whole > 3*half+slack || many < few || many > 2*few+4 {
			t.Errorf("%q: %d bytes and %d tokens for half of the text, %d and %d for all", piece, half, few, whole, many)
		}
	}
}

// TestStemsAreKept checks that each word of a long text is stemmed once, and
// that the tokens are the same as without the cache.
func TestStemsAreKept(t *testing.T) {
	t.Parallel()
	for language, text := range benchTexts {
		a, _ := For(language)
		fresh := a.Tokens(nil, text)
		s, distinct := stemmer{stem: a.stem}, map[string]bool{}
		for range 50 {
			w := words{text: fold(text), apostrophe: a.apostrophe}
			var got []string
			for word, ok := w.next(); ok; word, ok = w.next() {
				if _, stop := a.stop[word]; !stop && len(word) <= TokenMax {
					got = append(got, s.of(word))
					distinct[word] = true
				}
			}
			if !slices.EqualFunc(got, fresh, func(stem string, token Token) bool { return stem == token.Text }) {
				t.Fatalf("%s: stems %q, want %v", language, got, fresh)
			}
		}
		if most := stemsFirst + len(distinct); s.count > most || s.count < len(distinct) {
			t.Errorf("%s: %d words stemmed, want %d at most", language, s.count, most)
		}
		long := strings.Repeat(text+" ", 9)
		if tokens := a.Tokens(nil, long); len(tokens) != 9*len(fresh) {
			t.Errorf("%s: %d tokens of nine texts, want %d", language, len(tokens), 9*len(fresh))
		}
	}
	// More different words than are cached.
	a, _ := For("en-US")
	s := stemmer{stem: a.stem}
	for i := range 3 * stemsMax {
		word := "walkings" + strings.Repeat("b", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26))
		s.of(word)
		if len(s.known) > stemsMax {
			t.Fatalf("%d stems are kept", len(s.known))
		}
	}
}
