package text

import (
	"slices"
	"unicode/utf8"
)

const (
	// DistanceMax is the maximum number of edits of a fuzzy term.
	DistanceMax = 2
	// FuzzyWordsMax is the maximum number of words of a fuzzy term. Each word is
	// compared with every word of a document.
	FuzzyWordsMax = 16
)

// Phrase is one term of a query: a word, or several words that must follow each
// other with as many stop words between them as in the term, whichever stop
// words these are. The zero Phrase, and a term that consists only of stop words,
// match nothing, as in the service (Azure/azure-cosmos-dotnet-v3#5943). A Phrase
// is immutable.
type Phrase struct {
	words    []Token
	distance int
	// border holds, for each number of leading words, how many of them are also
	// the last words: that many stay matched if the next word does not match.
	border []int
}

// Phrase returns the phrase of a term.
func (a *Analyzer) Phrase(term string) Phrase {
	p := Phrase{words: a.Tokens(nil, term)}
	if len(p.words) < 2 {
		return p
	}
	p.border = make([]int, len(p.words))
	k := 0
	for i := 1; i < len(p.words); i++ {
		for k > 0 && !p.fits(p.words, i, k) {
			k = p.border[k-1]
		}
		if p.fits(p.words, i, k) {
			k++
		}
		p.border[i] = k
	}
	return p
}

// Fuzzy returns the phrase of a term {"term": ..., "distance": ...}, in which
// each word also matches words within that many edits (see [Within]). It
// compares stems, because the index contains nothing else. It returns false for
// a distance that is not 0 to [DistanceMax] and for a term of more than
// [FuzzyWordsMax] words without stop words. A distance of 0 gives the plain
// phrase.
func (a *Analyzer) Fuzzy(term string, distance int) (Phrase, bool) {
	if distance == 0 {
		return a.Phrase(term), true
	}
	p := Phrase{words: a.Tokens(nil, term), distance: distance}
	if distance < 0 || distance > DistanceMax || len(p.words) > FuzzyWordsMax {
		return Phrase{}, false
	}
	return p, true
}

// Tokens returns the distinct tokens of the phrase in the order of the term. A
// matching document has every one of them or, if [Phrase.Distance] is not 0, a
// token within that distance of each. There are none if nothing can match.
func (p Phrase) Tokens() []string {
	texts := make([]string, len(p.words))
	for i, w := range p.words {
		texts[i] = w.Text
	}
	if len(texts) < 2 {
		return texts
	}
	seen := make(map[string]struct{}, len(texts))
	return slices.DeleteFunc(texts, func(text string) bool {
		_, again := seen[text]
		seen[text] = struct{}{}
		return again
	})
}

// Distance returns how many edits a word may differ by: 0 for a plain phrase.
func (p Phrase) Distance() int { return p.distance }

// Match reports whether a document contains the phrase. The tokens must come
// from [Analyzer.Tokens] of the same language.
func (p Phrase) Match(tokens []Token) bool { return p.count(tokens, 1) > 0 }

// Count returns how often the phrase occurs in a document with these tokens.
// Occurrences may overlap: "go go" occurs twice in "go go go".
func (p Phrase) Count(tokens []Token) int { return p.count(tokens, len(tokens)) }

func (p Phrase) count(tokens []Token, enough int) int {
	switch {
	case len(p.words) == 0 || len(p.words) > len(tokens):
		return 0
	case p.distance > 0:
		return p.countFuzzy(tokens, enough)
	}
	return p.countPlain(tokens, enough)
}

// countPlain examines each token once (Knuth, Morris and Pratt), so that long
// phrases do not make a document expensive.
func (p Phrase) countPlain(tokens []Token, enough int) int {
	found, k := 0, 0
	for i := range tokens {
		for k > 0 && (k == len(p.words) || !p.fits(tokens, i, k)) {
			k = p.back(k)
		}
		if p.fits(tokens, i, k) {
			k++
		}
		if k == len(p.words) {
			if found++; found >= enough {
				break
			}
		}
	}
	return found
}

// back returns how many leading words still match if k of them matched but k+1
// did not.
func (p Phrase) back(k int) int {
	if p.border == nil {
		return 0
	}
	return p.border[k-1]
}

// fits reports whether token i can be word k of the phrase if the tokens before
// it are the words before k.
func (p Phrase) fits(tokens []Token, i, k int) bool {
	return tokens[i].Text == p.words[k].Text && p.spaced(tokens, i, k)
}

// spaced reports whether token i is as far from its predecessor as word k.
func (p Phrase) spaced(tokens []Token, i, k int) bool {
	return k == 0 || tokens[i].Position-tokens[i-1].Position == p.words[k].Position-p.words[k-1].Position
}

// countFuzzy tries every position, because similarity is not transitive.
func (p Phrase) countFuzzy(tokens []Token, enough int) int {
	found := 0
	for start := range len(tokens) - len(p.words) + 1 {
		k := 0
		for k < len(p.words) && p.spaced(tokens, start+k, k) &&
			Within(tokens[start+k].Text, p.words[k].Text, p.distance) {
			k++
		}
		if k == len(p.words) {
			if found++; found >= enough {
				break
			}
		}
	}
	return found
}

// Within reports whether at most distance edits turn a into b: a character
// inserted, deleted or replaced, or two adjacent characters exchanged. No
// character is edited twice (optimal string alignment). Strings longer than
// [TokenMax] bytes match only if they are equal; a negative distance matches
// nothing.
func Within(a, b string, distance int) bool {
	switch {
	case a == b:
		return distance >= 0
	case distance <= 0 || len(a) > TokenMax || len(b) > TokenMax:
		return false
	}
	var left, right [TokenMax]rune
	x, y := runes(&left, a), runes(&right, b)
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	if len(x)-len(y) > distance || len(y)-len(x) > distance {
		return false
	}
	return alignment(x, y, distance) <= distance
}

// alignment returns the number of edits between x and y, or any number above
// most if there are more. It keeps three rows of the usual table.
func alignment(x, y []rune, most int) int {
	var rows [3][TokenMax + 1]int
	before, above, row := &rows[0], &rows[1], &rows[2]
	for j := range len(y) + 1 {
		above[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(y); j++ {
			edits := min(above[j], row[j-1]) + 1
			if x[i-1] == y[j-1] {
				edits = min(edits, above[j-1])
			} else {
				edits = min(edits, above[j-1]+1)
			}
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				edits = min(edits, before[j-2]+1)
			}
			row[j] = edits
			least = min(least, edits)
		}
		if least > most { // every path to the last row adds to one that led here
			return least
		}
		before, above, row = above, row, before
	}
	return above[len(y)]
}

func runes(room *[TokenMax]rune, s string) []rune {
	n := 0
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		room[n] = r
		n++
		s = s[size:]
	}
	return room[:n]
}
