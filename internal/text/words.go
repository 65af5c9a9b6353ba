package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// fold returns s in the form in which words are compared: normalization form KC
// of its full case folding, without invisible characters, and with one kind of
// apostrophe. It returns s itself if nothing changes.
func fold(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	s = strings.Map(visible, s)
	s = norm.NFKC.String(s)
	s = cases.Fold().String(s)
	return norm.NFKC.String(s) // folding may decompose a character
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// visible drops invisible characters inside a word, such as the soft hyphen, and
// replaces typographic apostrophes by that of the keyboard.
func visible(r rune) rune {
	switch r {
	case '\u00AD', '\u200C', '\u200D', '\u2060', '\uFEFF':
		return -1
	case '\u2019', '\u02BC':
		return '\''
	}
	if r >= 0x180B && unicode.Is(unicode.Variation_Selector, r) {
		return -1
	}
	return r
}

// words iterates over the words of a folded text.
type words struct {
	text       string
	pos        int // the next byte to read
	apostrophe bool
}

// next returns the next word, a part of the text, and false at the end.
func (w *words) next() (string, bool) {
	for w.pos < len(w.text) {
		r, size := utf8.DecodeRuneInString(w.text[w.pos:])
		if !begins(r) {
			w.pos += size
			continue
		}
		start := w.pos
		w.pos += size
		if alone(r) {
			w.skipMarks()
		} else {
			w.skipWord()
		}
		return w.text[start:w.pos], true
	}
	return "", false
}

// skipWord moves to the end of the word at pos.
func (w *words) skipWord() {
	for w.pos < len(w.text) {
		r, size := utf8.DecodeRuneInString(w.text[w.pos:])
		switch {
		case r == '\'':
			if !w.apostrophe || !w.between() {
				return
			}
		case !continues(r) || alone(r):
			return
		}
		w.pos += size
	}
}

func (w *words) skipMarks() {
	for w.pos < len(w.text) {
		r, size := utf8.DecodeRuneInString(w.text[w.pos:])
		if !unicode.IsMark(r) {
			return
		}
		w.pos += size
	}
}

// between reports whether there are letters on both sides of the apostrophe at
// pos.
func (w *words) between() bool {
	before, _ := utf8.DecodeLastRuneInString(w.text[:w.pos])
	after, _ := utf8.DecodeRuneInString(w.text[w.pos+1:])
	return unicode.IsLetter(before) && unicode.IsLetter(after) && !alone(after)
}

func begins(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r)
}

func continues(r rune) bool {
	return begins(r) || r >= utf8.RuneSelf && unicode.IsMark(r)
}

// alone reports whether r is a word by itself, in scripts without space between
// words.
func alone(r rune) bool {
	return r >= 0x2E80 && unicode.In(r, unicode.Han, unicode.Hiragana)
}

// cut returns the first bytes of a word that is too long for a token.
func cut(word string) string {
	end := TokenMax
	for !utf8.RuneStart(word[end]) {
		end--
	}
	return word[:end]
}
