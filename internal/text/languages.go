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

// languages are those in the service's documentation, the default first. The
// list of stop words contains words with a grammatical function and no meaning.
// It is short on purpose, because a stop word can never be found.
//
// Any change here changes tokens: see [Version].
var languages = []struct {
	tag        string
	stem       func(*snowballstem.Env) bool
	apostrophe bool
	stop       string
}{
	{tag: "en-US", stem: english.Stem, apostrophe: true, stop: englishStop},
	{tag: "de-DE", stem: german.Stem, stop: germanStop},
	{tag: "es-ES", stem: spanish.Stem, stop: spanishStop},
	{tag: "fr-FR", stem: french.Stem, stop: frenchStop},
	{tag: "it-IT", stem: italian.Stem, stop: italianStop},
	{tag: "pt-PT", stem: portuguese.Stem, stop: portugueseStop},
	{tag: "pt-BR", stem: portuguese.Stem, stop: portugueseStop},
}

// The stop words of each language, separated by white space.
var (
	//go:embed stopwords/en.txt
	englishStop string
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
