package text

import (
	_ "embed"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/spanish"
)

// languages are those in the service's documentation, the default first. stop
// has the stop words of each version of the tokens: the last list is in use, the
// earlier ones are those of indexes that are not rebuilt yet.
//
// The English list is the one that the service publishes. The others contain words
// with a grammatical function and no meaning; they are short on purpose, because
// a stop word can never be found.
//
// Any change here changes tokens: see [Version].
var languages = []struct {
	tag        string
	stem       func(*snowballstem.Env) bool
	apostrophe bool
	stop       []string
}{
	{tag: "en-US", stem: english.Stem, apostrophe: true, stop: []string{englishStop1, englishStop2}},
	{tag: "de-DE", stem: german.Stem, stop: []string{germanStop}},
	{tag: "es-ES", stem: spanish.Stem, stop: []string{spanishStop}},
	{tag: "fr-FR", stem: french.Stem, stop: []string{frenchStop}},
	{tag: "it-IT", stem: italian.Stem, stop: []string{italianStop}},
	{tag: "pt-PT", stem: portuguese.Stem, stop: []string{portugueseStop}},
	{tag: "pt-BR", stem: portuguese.Stem, stop: []string{portugueseStop}},
}

// The stop words of each language, separated by white space.
var (
	//go:embed stopwords/en1.txt
	englishStop1 string
	//go:embed stopwords/en2.txt
	englishStop2 string
	//go:embed stopwords/de.txt
	germanStop string
	//go:embed stopwords/es.txt
	spanishStop string
	//go:embed stopwords/fr.txt
	frenchStop string
	//go:embed stopwords/it.txt
	italianStop string
	//go:embed stopwords/pt.txt
	portugueseStop string
)
