// Package text implements full-text analysis: it splits a text in some language
// into tokens, and computes matches, relevance scores and fused ranks from the
// tokens of documents. The index stores the result of [Analyzer.Tokens]. The
// query functions FullTextContains, FullTextContainsAll, FullTextContainsAny,
// FullTextScore and RRF are implemented here.
//
// The types to know, in this order: [Analyzer] (one per language), [Phrase] (a
// term of a query), [Statistics] (BM25 scores) and [Component] (the input of
// [Fuse]).
//
// # Invariants
//
//   - Tokens depend on the language, the version and the text alone, so they may
//     be stored: see [Version].
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

// Version increases when a release returns other tokens for some text than the
// previous one, so that an index knows that it must be rebuilt. [VersionOf] has
// the version of one language.
//
//   - 1: the first.
//   - 2: en-US has the stop words of the service instead of a part of them.
const Version = 2

// TokenMax is the maximum size of a token in bytes. A longer word, in a document
// or a term, is cut to TokenMax bytes without dividing a character; it is not
// stemmed.
const TokenMax = 64

// Token is a word in the form that the index stores.
type Token struct {
	// Text is folded, without stop words, and stemmed.
	Text string
	// Position is the number of words before this one, stop words included. It
	// gives the distance between two tokens in the text.
	Position int
}

// Analyzer turns texts of one language into tokens. It is immutable and safe for
// concurrent use.
type Analyzer struct {
	language string
	version  int
	// stem stems the current word of the environment.
	stem func(*snowballstem.Env) bool
	// stop holds the folded stop words.
	stop map[string]struct{}
	// apostrophe means that an apostrophe between two letters belongs to a word
	// (don't) instead of separating two (l'homme).
	apostrophe bool
}

// analyzers holds the analyzers of each language, by its tag in lower case, in
// the order of their versions.
var analyzers = sync.OnceValue(func() map[string][]*Analyzer {
	all := make(map[string][]*Analyzer, len(languages))
	for _, l := range languages {
		list := make([]*Analyzer, len(l.stop))
		for i, text := range l.stop {
			if i > 0 && text == l.stop[i-1] {
				list[i] = list[i-1]
				continue
			}
			a := &Analyzer{language: l.tag, version: i + 1, stem: l.stem, apostrophe: l.apostrophe, stop: map[string]struct{}{}}
			w := words{text: fold(text), apostrophe: l.apostrophe}
			for word, ok := w.next(); ok; word, ok = w.next() {
				a.stop[word] = struct{}{}
			}
			list[i] = a
		}
		all[strings.ToLower(l.tag)] = list
	}
	return all
})

// For returns the analyzer of a language by its tag, such as en-US, in any
// letter case. It returns false for a language that is not in [Languages].
func For(language string) (*Analyzer, bool) { return ForVersion(language, Version) }

// ForVersion is [For] for the tokens of an earlier [Version]. A version in which
// the tokens of the language did not change has the same analyzer as the one
// before. It returns false for a version that this release does not know, too.
func ForVersion(language string, version int) (*Analyzer, bool) {
	list := analyzers()[strings.ToLower(language)]
	if len(list) == 0 || version < 1 || version > Version {
		return nil, false
	}
	return list[min(version, len(list))-1], true
}

// VersionOf returns the version in which the tokens of a language changed last,
// 1 for a language that is not in [Languages].
func VersionOf(language string) int {
	if a, ok := For(language); ok {
		return a.version
	}
	return 1
}

// Languages returns the tags that [For] accepts, the default first. They are
// those that a full-text policy of the service can name.
func Languages() []string {
	tags := make([]string, len(languages))
	for i, l := range languages {
		tags[i] = l.tag
	}
	return tags
}

// Language returns the tag of the language as [Languages] spells it.
func (a *Analyzer) Language() string { return a.language }

// Version returns the version in which the tokens of the language became those
// of this analyzer.
func (a *Analyzer) Version() int { return a.version }

// Tokens appends the tokens of s to dst in the order of their positions, which
// begin at 0. Tokens may share memory with s; a caller that keeps them longer
// than the document must clone them.
//
// A word is a sequence of letters, marks and numbers of any script. A Chinese
// character and a Hiragana letter is a word by itself, because nothing else
// separates them. Words are compared in normalization form KC after full case
// folding, so Straße, STRASSE and ｓｔｒａｓｓｅ are one word; accents are significant.
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

// stemmer stems the words of one text. The words of a long text repeat, and a
// cache lookup is much faster than stemming.
type stemmer struct {
	stem  func(*snowballstem.Env) bool
	env   *snowballstem.Env
	count int               // words stemmed
	known map[string]string // nil for a short text
}

// How many words are stemmed before stems are cached, and the size at which the
// cache is cleared.
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

// Count returns the number of tokens of s: the length of a document in words, as
// [Statistics] counts it. It is cheaper than Tokens, because it does not stem.
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

// kept returns the stem of a word, or the word if the stem is empty or too long.
// It uses the memory of the word if possible.
func kept(word, stem string) string {
	switch {
	case stem == "" || len(stem) > TokenMax:
		return word
	case len(stem) <= len(word) && word[:len(stem)] == stem:
		return word[:len(stem)]
	}
	return stem
}
