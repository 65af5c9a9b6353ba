package query

import (
	fulltext "github.com/decandb/decan/internal/text"
	"github.com/decandb/decan/internal/value"
)

// buffers is memory that functions reuse for each document.
type buffers struct {
	tokens []fulltext.Token
	counts []int
	left   []float32
	right  []float32
}

// textFunctions search for the words of a property. A term is a word, several adjacent
// words, or an object {"term", "distance"} for words with a similar spelling. A property
// that is not a string, and any other term, makes the result undefined.
func textFunctions() []function {
	return []function{
		{name: "FullTextContains FULLTEXT_CONTAINS", min: 2, max: 2, bind: containsText(true)},
		{name: "FullTextContainsAll FULLTEXT_CONTAINS_ALL", min: 2, max: -1, bind: containsText(true)},
		{name: "FullTextContainsAny FULLTEXT_CONTAINS_ANY", min: 2, max: -1, bind: containsText(false)},
		{name: "_FullTextWordCount", min: 1, max: 1, bind: func(b binding) runner {
			a := b.analyzer()
			return func(_ *env, args []value.Value) value.Value {
				if args[0].Kind() != value.KindString {
					return value.Undefined()
				}
				return value.Int(int64(a.Count(args[0].Text())))
			}
		}},
		{name: "_FullTextScore", min: 5, max: 5, bind: textScore},

		// The analysis allows these two only after ORDER BY RANK, where they are not
		// evaluated: see [Plan.Hybrid].
		{name: "FullTextScore", min: 2, max: -1, run: undefinedRun},
		{name: "RRF", min: 1, max: -1, run: undefinedRun},
	}
}

// analyzer returns the analyzer for the language of the property, or for the default
// language.
func (b binding) analyzer() *fulltext.Analyzer {
	if b.ix != nil {
		path, _ := b.property(0)
		language, _ := b.ix.Language(path)
		if a, ok := fulltext.For(language); ok {
			return a
		}
	}
	a, _ := fulltext.For(fulltext.Languages()[0])
	return a
}

// phrases are the terms of a call.
type phrases struct {
	analyzer *fulltext.Analyzer
	fixed    []fulltext.Phrase // of constant terms
	known    bool              // the terms are constant
	wrong    bool              // one of them is not a term
}

// phrases parses the terms of a call from argument first if they are constant.
func (b binding) phrases(first int) phrases {
	p := phrases{analyzer: b.analyzer()}
	if p.known = len(b.parts) > first; !p.known {
		return p
	}
	var terms []value.Value
	for i := first; i < len(b.parts); i++ {
		v, ok := b.constant(i)
		if !ok {
			p.known = false
			return p
		}
		terms = append(terms, v)
	}
	fixed, ok := p.read(terms)
	p.fixed, p.wrong = fixed, !ok
	return p
}

// of returns the phrases of a call with these terms.
func (p phrases) of(terms []value.Value) ([]fulltext.Phrase, bool) {
	if p.known {
		return p.fixed, !p.wrong
	}
	return p.read(terms)
}

func (p phrases) read(terms []value.Value) ([]fulltext.Phrase, bool) {
	var list []fulltext.Phrase
	for _, term := range terms {
		phrase, ok := p.phrase(term)
		if !ok {
			return nil, false
		}
		list = append(list, phrase)
	}
	return list, true
}

func (p phrases) phrase(term value.Value) (fulltext.Phrase, bool) {
	switch term.Kind() {
	case value.KindString:
		return p.analyzer.Phrase(term.Text()), true
	case value.KindObject:
		word := term.Get("term")
		distance, ok := term.Get("distance").Int64()
		if word.Kind() != value.KindString || !ok || distance < 0 || distance > fulltext.DistanceMax {
			return fulltext.Phrase{}, false
		}
		return p.analyzer.Fuzzy(word.Text(), int(distance))
	}
	return fulltext.Phrase{}, false
}

// tokens returns the words of a document's property, valid until the next call.
func (p phrases) tokens(e *env, v value.Value) []fulltext.Token {
	e.buffers.tokens = p.analyzer.Tokens(e.buffers.tokens[:0], v.Text())
	return e.buffers.tokens
}

// containsText returns the function that reports whether a property contains all or
// any of the terms.
func containsText(all bool) func(b binding) runner {
	return func(b binding) runner {
		terms := b.phrases(1)
		return func(e *env, args []value.Value) value.Value {
			list, ok := terms.of(args[1:])
			if !ok || args[0].Kind() != value.KindString {
				return value.Undefined()
			}
			tokens := terms.tokens(e, args[0])
			for _, phrase := range list {
				if !e.work(len(tokens)) {
					return value.Undefined()
				}
				if phrase.Match(tokens) != all {
					return value.Bool(!all)
				}
			}
			return value.Bool(all)
		}
	}
}

// textScore returns the relevance of a document. Its arguments are the property, an
// array of terms, the number of documents, their total number of words, and the number
// of documents that contain each term. A property that is not a string has no score.
func textScore(b binding) runner {
	terms := phrases{analyzer: b.analyzer()}
	if v, ok := b.constant(1); ok && v.Kind() == value.KindArray {
		fixed, ok := terms.read(v.Items())
		terms.fixed, terms.known, terms.wrong = fixed, true, !ok
	}
	fixed, known := fulltext.Statistics{}, len(b.parts) > 0
	numbers := make([]value.Value, 3)
	for i := range numbers {
		v, ok := b.constant(2 + i)
		numbers[i], known = v, known && ok
	}
	if known {
		if fixed, known = statisticsOf(numbers); !known {
			return undefinedRun
		}
	}
	return func(e *env, args []value.Value) value.Value {
		if args[0].Kind() != value.KindString || args[1].Kind() != value.KindArray {
			return value.Undefined()
		}
		list, ok := terms.of(args[1].Items())
		s := fixed
		if !known && ok {
			s, ok = statisticsOf(args[2:])
		}
		if !ok {
			return value.Undefined()
		}
		tokens := terms.tokens(e, args[0])
		e.buffers.counts = e.buffers.counts[:0]
		for _, phrase := range list {
			if !e.work(len(tokens)) {
				return value.Undefined()
			}
			e.buffers.counts = append(e.buffers.counts, phrase.Count(tokens))
		}
		return value.Number(s.Score(e.buffers.counts, len(tokens)))
	}
}

// statisticsOf parses the last three arguments of _FullTextScore.
func statisticsOf(args []value.Value) (s fulltext.Statistics, ok bool) {
	documents, okDocuments := args[0].Int64()
	words, okWords := args[1].Int64()
	if !okDocuments || !okWords || args[2].Kind() != value.KindArray {
		return s, false
	}
	s.Documents, s.Words = documents, words
	for _, item := range args[2].Items() {
		hits, _ := item.Int64()
		s.Hits = append(s.Hits, hits)
	}
	return s, true
}
