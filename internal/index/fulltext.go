package index

import (
	"slices"
	"strconv"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/text"
	"github.com/decandb/decan/internal/value"
)

// textIndex is a full-text index. Documents have a term for each token of the
// string at its path, and one for its number of words.
type textIndex struct {
	id, words Term
	path      Path
	analyzer  *text.Analyzer
	label     string
}

func (x *Index) addTexts(p resource.IndexingPolicy, version int) error {
	for _, f := range p.FullText {
		path, ok := resource.ParsePropertyPath(f.Path)
		if !ok || Path(path).elements() {
			return status.BadRequest("The path '%s' of a full-text index is not valid.", clip(f.Path))
		}
		analyzer, ok := text.ForVersion(f.Language, version)
		if !ok {
			return status.BadRequest("The language '%s' of the full-text index of '%s' is not known.", clip(f.Language), clip(f.Path))
		}
		if unindexed(path[0]) {
			continue
		}
		t := textIndex{path: path, analyzer: analyzer, label: f.Path}
		// Tokens of another language or version have another meaning.
		tokens := analyzer.Language()
		if v := analyzer.Version(); v > 1 {
			tokens += " " + strconv.Itoa(v)
		}
		t.id = x.walk(rootState.mark(textKind), t.path).mark(tokens).id()
		if !x.ids[t.id] {
			t.words = x.walk(rootState.mark(wordsKind), t.path).mark(tokens).id()
			x.ids[t.id], x.ids[t.words] = true, true
			x.texts = append(x.texts, t)
		}
	}
	return nil
}

// TokensVersion is the latest version of tokens that an index can have.
const TokensVersion = text.Version

// TokensOf returns the version of the tokens of a new index with a policy: the highest
// version of one of its languages, 1 if it has no texts. An index that was made with a
// lower version has other terms.
func TokensOf(p resource.IndexingPolicy) int {
	version := 1
	if p.Mode != resource.IndexingNone {
		for _, f := range p.FullText {
			version = max(version, text.VersionOf(f.Language))
		}
	}
	return version
}

// text adds the terms of one full-text index.
func (w *walker) text(doc value.Value, t *textIndex) {
	v := w.at(doc, t.path)
	if v.Kind() != value.KindString {
		return
	}
	w.tokens = t.analyzer.Tokens(w.tokens[:0], v.Text())
	w.buf = value.AppendKey(append(w.buf, t.words...), value.Int(int64(len(w.tokens))))
	w.end()
	if w.words == nil {
		w.words = map[string]struct{}{}
	}
	for _, token := range w.tokens {
		if _, again := w.words[token.Text]; again {
			continue
		}
		w.words[token.Text] = struct{}{}
		w.buf = value.AppendKey(append(w.buf, t.id...), value.String(token.Text))
		w.end()
	}
	clear(w.tokens) // they keep the document in memory
	clear(w.words)
}

// tokensMax is the maximum number of tokens that are looked up for one phrase.
const tokensMax = 64

// FullText returns the documents whose text at path has all of the tokens, and
// false if path has no full-text index or there is no token. The tokens must be
// those of the language of the path, see [text.Phrase.Tokens]. The expression is
// never exact, because a phrase may contain a token twice. Of a very long term
// only the first [tokensMax] tokens are looked up; see [Index.Phrase].
func (x *Index) FullText(path Path, tokens []string) (Expr, bool) {
	t := x.textAt(path)
	if t == nil || len(tokens) == 0 {
		return Expr{}, false
	}
	// Never a single Leaf: two spans of one text are independent and must not be
	// merged to one, as two spans of a value may be.
	e := Expr{Op: And}
	for _, token := range tokens[:min(len(tokens), tokensMax)] {
		low := Term(value.AppendKey([]byte(t.id), value.String(token)))
		e.Args = append(e.Args, Expr{Op: Leaf, Span: Span{Low: low, High: successor(low), One: true, Label: "text " + t.label}})
	}
	return e, true
}

// Phrase returns the documents whose text at path may contain the phrase, which
// must be in the language of the path, and false if path has no full-text index.
// The expression is exact for a phrase of one word; the words of a longer one
// may be in other places of the text.
func (x *Index) Phrase(path Path, p text.Phrase) (Expr, bool) {
	all, ok := x.Tokens(path)
	if !ok {
		return Expr{}, false
	}
	tokens := p.Tokens()
	if len(tokens) == 0 {
		return Expr{Op: None}, true
	}
	if p.Distance() > 0 {
		e := Expr{Op: And}
		for _, token := range tokens {
			e.Args = append(e.Args, Expr{Op: Filter, Span: all, Test: func(v value.Value) bool {
				return text.Within(v.Text(), token, p.Distance())
			}})
		}
		return e, true
	}
	e, ok := x.FullText(path, tokens)
	if len(tokens) == 1 {
		e.Args[0].Span.Exact = p.Match([]text.Token{{Text: tokens[0]}})
	}
	return e, ok
}

// Tokens returns the span of all tokens at path, for a [Filter] that tests each
// of them, and false if path has no full-text index.
func (x *Index) Tokens(path Path) (Span, bool) {
	t := x.textAt(path)
	if t == nil {
		return Span{}, false
	}
	return Span{Low: t.id, High: successor(t.id), Label: "text " + t.label}, true
}

// Words returns the span of the word counts of the texts at path, and false if
// path has no full-text index. Each document with a text there has one term in
// it, which [DecodeTerm] decodes.
func (x *Index) Words(path Path) (Span, bool) {
	t := x.textAt(path)
	if t == nil {
		return Span{}, false
	}
	return Span{Low: t.words, High: successor(t.words), Exact: true, Label: "text " + t.label}, true
}

func (x *Index) textAt(path Path) *textIndex {
	for i := range x.texts {
		if slices.Equal(x.texts[i].path, path) {
			return &x.texts[i]
		}
	}
	return nil
}

// Language returns the language of the texts at path, such as en-US. ok is true
// if the full-text policy names the path; otherwise it is the default language
// of the policy, or that of the service if there is no policy.
func (x *Index) Language(path Path) (language string, ok bool) {
	for _, t := range x.policy.Texts.Paths {
		if names, valid := resource.ParsePropertyPath(t.Path); valid && slices.Equal(names, path) {
			return t.Language, true
		}
	}
	if language = x.policy.Texts.Default; language == "" {
		language = resource.DefaultLanguage
	}
	return language, false
}
