// Package text is full-text analysis: from a text and its language to the
// tokens it is found by, and from the tokens of documents to matches, relevance
// scores and fused ranks. The index stores what [Analyzer.Tokens] returns, and
// the query functions FullTextContains, FullTextContainsAll, FullTextContainsAny,
// FullTextScore and RRF are computed here.
//
// The types to know, in this order: [Analyzer] (one per language), [Phrase] (a
// term of a query), [Statistics] (BM25 scores) and [Component] (the input of
// [Fuse]).
//
// # Invariants
//
//   - Tokens depend on the language and the text alone, so they may be stored:
//     see [Version].
//   - Every token is valid UTF-8 of 1 to [TokenMax] bytes.
//   - A text contains itself: a phrase made of a text matches the tokens of that
//     text, unless it has none.
//   - Scores and fused ranks are the same bits on every machine.
//
// The package knows nothing about documents, paths, policies or queries, and
// keeps no state.
//
// Page: docs/fulltext.md.
package text

import (
	"strings"
	"sync"

	"github.com/blevesearch/snowballstem"
)

// Version rises when a release makes other tokens of some text than the one
// before, so that an index can tell that it has to be built again.
const Version = 1

// TokenMax is the size in bytes of the longest token. Of a longer word the first
// TokenMax bytes are kept, less those of a character that does not fit whole,
// in documents and in terms alike; it is not stemmed.
const TokenMax = 64

// Token is a word as the index knows it.
type Token struct {
	// Text is folded, without stop words, and stemmed.
	Text string
	// Position counts the words before this one, stop words included, so that
	// it tells how far apart two tokens were written.
	Position int
}

// Analyzer turns texts of one language into tokens. It is immutable and may be
// shared between goroutines.
type Analyzer struct {
	language string
	// stem reduces the current word of the environment.
	stem func(*snowballstem.Env) bool
	// stop holds the words that are left out, folded.
	stop map[string]struct{}
	// apostrophe says that an apostrophe between two letters is inside a word
	// (don't) and does not separate two (l'homme).
	apostrophe bool
}

// analyzers holds one analyzer for each language, by its tag in lower case.
var analyzers = sync.OnceValue(func() map[string]*Analyzer {
	all := make(map[string]*Analyzer, len(languages))
	for _, l := range languages {
		a := &Analyzer{language: l.tag, stem: l.stem, apostrophe: l.apostrophe, stop: map[string]struct{}{}}
		w := words{text: fold(l.stop), apostrophe: l.apostrophe}
		for word, ok := w.next(); ok; word, ok = w.next() {
			a.stop[word] = struct{}{}
		}
		all[strings.ToLower(l.tag)] = a
	}
	return all
})

// For returns the analyzer of a language by its tag, such as en-US, in any case.
// It reports false for a language that is not one of [Languages].
func For(language string) (*Analyzer, bool) {
	a, ok := analyzers()[strings.ToLower(language)]
	return a, ok
}

// Languages returns the tags that [For] knows, the default first. They are the
// ones a full-text policy of the service may name.
func Languages() []string {
	tags := make([]string, len(languages))
	for i, l := range languages {
		tags[i] = l.tag
	}
	return tags
}

// Language returns the tag of the language as [Languages] spells it.
func (a *Analyzer) Language() string { return a.language }

// Tokens appends the tokens of s to dst in the order of their positions, which
// begin at 0. The texts may share memory with s, so who keeps tokens beyond the
// document clones them.
//
// A word is a run of letters, marks and numbers of any script; a Chinese
// character and a Hiragana letter is a word of its own, since nothing else
// separates those. Words are compared in normalization form KC after full case
// folding, so that Straße, STRASSE and ｓｔｒａｓｓｅ are one word; accents count.
// Bytes that are not UTF-8 separate words.
func (a *Analyzer) Tokens(dst []Token, s string) []Token {
	w := words{text: fold(s), apostrophe: a.apostrophe}
	stems := stemmer{stem: a.stem}
	for position := 0; ; position++ {
		word, ok := w.next()
		if !ok {
			return dst
		}
		if _, isStop := a.stop[word]; isStop {
			continue
		}
		if len(word) > TokenMax {
			dst = append(dst, Token{cut(word), position})
			continue
		}
		dst = append(dst, Token{stems.of(word), position})
	}
}

// stemmer stems the words of one text. Those of a long text come again and
// again, and finding one is much quicker than stemming it.
type stemmer struct {
	stem  func(*snowballstem.Env) bool
	env   *snowballstem.Env
	count int               // words stemmed
	known map[string]string // nil in a short text
}

// How many words are stemmed before stems are kept, and how many are kept until
// all are forgotten.
const (
	stemsFirst = 256
	stemsMax   = 4096
)

func (s *stemmer) of(word string) string {
	if stem, known := s.known[word]; known {
		return stem
	}
	if s.env == nil {
		s.env = snowballstem.NewEnv(word)
	} else {
		s.env.SetCurrent(word)
	}
	s.stem(s.env)
	s.count++
	stem := kept(word, s.env.Current())
	switch {
	case s.count < stemsFirst:
	case s.known == nil:
		s.known = map[string]string{}
	case len(s.known) == stemsMax:
		clear(s.known)
	}
	if s.known != nil {
		s.known[word] = stem
	}
	return stem
}

// Count returns how many tokens s has: the length of a document in words, as
// [Statistics] counts it. It is cheaper than Tokens, since it stems nothing.
func (a *Analyzer) Count(s string) int {
	w := words{text: fold(s), apostrophe: a.apostrophe}
	count := 0
	for word, ok := w.next(); ok; word, ok = w.next() {
		if _, isStop := a.stop[word]; !isStop {
			count++
		}
	}
	return count
}

// kept returns the stem of a word, or the word when the stemmer left nothing or
// made it too long. It prefers the memory of the word, which is there anyway.
func kept(word, stem string) string {
	switch {
	case stem == "" || len(stem) > TokenMax:
		return word
	case len(stem) <= len(word) && word[:len(stem)] == stem:
		return word[:len(stem)]
	}
	return stem
}
