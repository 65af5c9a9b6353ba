package text

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"golang.org/x/text/unicode/norm"
)

// TestText runs the cases of testdata. Texts are in the input, one a line:
//
//	tokens lang=en-US      the tokens of each line, as position:token;
//	  version=1            of an earlier version
//	phrase lang=en-US      the first line is a term, the others are documents;
//	  distance=1           how often it occurs, and the tokens to look up
//	within                 two words a line and the smallest distance, "far" over 2
//	score documents=N words=N hits=(..)   lines of "words count..."
//	fuse                   lines of "weight asc|desc document:score..."
func TestText(t *testing.T) {
	datadriven.Walk(t, "testdata/cases", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			lines := strings.Split(d.Input, "\n")
			switch d.Cmd {
			case "languages":
				return strings.Join(Languages(), " ") + "\n"
			case "for":
				return tryFor(lines)
			case "tokens":
				return showTokens(analyzer(t, d), lines)
			case "phrase":
				return showPhrase(t, d, lines)
			case "within":
				return showWithin(t, d, lines)
			case "score":
				return showScores(t, d, lines)
			case "fuse":
				return showFused(t, d, lines)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func analyzer(t *testing.T, d *datadriven.TestData) *Analyzer {
	language := Languages()[0]
	d.MaybeScanArgs(t, "lang", &language)
	version := Version
	d.MaybeScanArgs(t, "version", &version)
	a, ok := ForVersion(language, version)
	if !ok {
		d.Fatalf(t, "no analyzer for %s", language)
	}
	return a
}

func englishAnalyzer(t *testing.T) *Analyzer {
	t.Helper()
	a, ok := For("en-US")
	if !ok {
		t.Fatal("no analyzer for English")
	}
	return a
}

func tryFor(lines []string) string {
	var out strings.Builder
	for _, line := range lines {
		if a, ok := For(line); ok {
			fmt.Fprintf(&out, "%s: %s\n", line, a.Language())
		} else {
			fmt.Fprintf(&out, "%s: unknown\n", line)
		}
	}
	return out.String()
}

func showTokens(a *Analyzer, lines []string) string {
	var out strings.Builder
	for _, line := range lines {
		if text, err := strconv.Unquote(line); err == nil {
			line = text
		}
		tokens := a.Tokens(nil, line)
		for i, token := range tokens {
			if i > 0 {
				out.WriteByte(' ')
			}
			fmt.Fprintf(&out, "%d:%s", token.Position, token.Text)
		}
		if len(tokens) == 0 {
			out.WriteString("(none)")
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func showPhrase(t *testing.T, d *datadriven.TestData, lines []string) string {
	a, distance := analyzer(t, d), 0
	d.MaybeScanArgs(t, "distance", &distance)
	p, ok := a.Fuzzy(lines[0], distance)
	if !ok {
		return "refused\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "look up %v\n", p.Tokens())
	for _, line := range lines[1:] {
		tokens := a.Tokens(nil, line)
		count := p.Count(tokens)
		if p.Match(tokens) != (count > 0) {
			d.Fatalf(t, "%q: count %d, but match is %t", line, count, p.Match(tokens))
		}
		fmt.Fprintf(&out, "%d\n", count)
	}
	return out.String()
}

func showWithin(t *testing.T, d *datadriven.TestData, lines []string) string {
	var out strings.Builder
	for _, line := range lines {
		a, b, found := strings.Cut(line, " ")
		if !found {
			d.Fatalf(t, "want two words: %q", line)
		}
		answer := "far"
		for distance := DistanceMax; distance >= 0; distance-- {
			if Within(a, b, distance) != Within(b, a, distance) {
				d.Fatalf(t, "%q: not symmetric at %d", line, distance)
			}
			if !Within(a, b, distance) {
				break
			}
			answer = strconv.Itoa(distance)
		}
		fmt.Fprintln(&out, answer)
	}
	return out.String()
}

func showScores(t *testing.T, d *datadriven.TestData, lines []string) string {
	var s Statistics
	d.MaybeScanArgs(t, "documents", &s.Documents)
	d.MaybeScanArgs(t, "words", &s.Words)
	d.MaybeScanArgs(t, "hits", &s.Hits)
	var out strings.Builder
	for _, line := range lines {
		numbers := ints(t, d, line)
		fmt.Fprintf(&out, "%.9f\n", s.Score(numbers[1:], numbers[0]))
	}
	return out.String()
}

func showFused(t *testing.T, d *datadriven.TestData, lines []string) string {
	var components []Component
	for _, line := range lines {
		fields := strings.Fields(line)
		c := Component{Weight: float(t, d, fields[0]), Ascending: fields[1] == "asc"}
		for _, field := range fields[2:] {
			document, score, _ := strings.Cut(field, ":")
			c.Scores = append(c.Scores, Scored{ints(t, d, document)[0], float(t, d, score)})
		}
		components = append(components, c)
	}
	var out strings.Builder
	for _, s := range Fuse(components) {
		fmt.Fprintf(&out, "%d %.9f\n", s.Document, s.Score)
	}
	return out.String()
}

func ints(t *testing.T, d *datadriven.TestData, text string) []int {
	var numbers []int
	for _, field := range strings.Fields(text) {
		n, err := strconv.Atoi(field)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func float(t *testing.T, d *datadriven.TestData, text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return f
}

// seeded returns a source of randomness and logs how to repeat the run.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestPhraseCountsLikeASearch compares the linear count with the plain
// definition, on repetitive texts of few words.
func TestPhraseCountsLikeASearch(t *testing.T) {
	random, a := seeded(t), englishAnalyzer(t)
	draw := func(most int) string {
		words := make([]string, 1+random.IntN(most))
		for i := range words {
			words[i] = []string{"red", "bike", "the", "of"}[random.IntN(4)]
		}
		return strings.Join(words, " ")
	}
	hits := 0
	for range 5000 {
		term, document := draw(6), draw(40)
		p, tokens := a.Phrase(term), a.Tokens(nil, document)
		want := 0
		for start := range tokens {
			if occursAt(p.words, tokens[start:]) {
				want++
			}
		}
		if got := p.Count(tokens); got != want {
			t.Fatalf("%q is %d times in %q, want %d", term, got, document, want)
		}
		hits += want
	}
	if hits == 0 {
		t.Fatal("no case had an occurrence")
	}
}

func occursAt(phrase, tokens []Token) bool {
	if len(phrase) == 0 || len(phrase) > len(tokens) {
		return false
	}
	for k, word := range phrase {
		if tokens[k].Text != word.Text || tokens[k].Position-tokens[0].Position != word.Position-phrase[0].Position {
			return false
		}
	}
	return true
}

// TestWithinIsTheEditDistance compares the bounded table with all strings that
// one and two edits produce, which is the same for two separate edits.
func TestWithinIsTheEditDistance(t *testing.T) {
	const alphabet = "abé"
	edits := func(s string) []string {
		r := []rune(s)
		var made []string
		for i := range len(r) + 1 {
			for _, c := range alphabet {
				made = append(made, string(slices.Insert(slices.Clone(r), i, c)))
			}
			if i < len(r) {
				made = append(made, string(slices.Delete(slices.Clone(r), i, i+1)))
				for _, c := range alphabet {
					changed := slices.Clone(r)
					changed[i] = c
					made = append(made, string(changed))
				}
			}
			if i+1 < len(r) {
				changed := slices.Clone(r)
				changed[i], changed[i+1] = changed[i+1], changed[i]
				made = append(made, string(changed))
			}
		}
		return made
	}
	random := seeded(t)
	for range 200 {
		word := ""
		for range random.IntN(7) {
			word += string([]rune(alphabet)[random.IntN(3)])
		}
		near := map[string]bool{word: true}
		for _, other := range edits(word) {
			near[other] = true
		}
		for other := range near {
			for _, third := range edits(other) {
				if got, want := Within(word, third, 1), near[third]; got != want {
					t.Fatalf("Within(%q, %q, 1) = %t, want %t", word, third, got, want)
				}
			}
			if !Within(word, other, 2) {
				t.Fatalf("Within(%q, %q, 2) is false, but it is within 1", word, other)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	a := englishAnalyzer(t)
	for _, c := range []struct {
		word string
		want int
	}{
		{strings.Repeat("q", TokenMax), TokenMax},
		{strings.Repeat("q", TokenMax+1), TokenMax},
		{strings.Repeat("é", TokenMax/2), TokenMax},
		{"q" + strings.Repeat("é", TokenMax/2), TokenMax - 1},
	} {
		tokens := a.Tokens(nil, c.word+" bike")
		if len(tokens) != 2 || len(tokens[0].Text) != c.want || tokens[1].Position != 1 {
			t.Errorf("a word of %d bytes gives %v, want one token of %d bytes", len(c.word), tokens, c.want)
		}
	}
	if Within(strings.Repeat("q", TokenMax+1), strings.Repeat("q", TokenMax), DistanceMax) {
		t.Error("Within compared more than a token")
	}
	if !Within(strings.Repeat("q", TokenMax-1), strings.Repeat("q", TokenMax), 1) {
		t.Error("Within did not compare two tokens of the greatest size")
	}
	words := strings.Repeat("red ", FuzzyWordsMax)
	if _, ok := a.Fuzzy(words, 1); !ok {
		t.Errorf("a fuzzy term of %d words is refused", FuzzyWordsMax)
	}
	if _, ok := a.Fuzzy(words+"red", 1); ok {
		t.Errorf("a fuzzy term of %d words is accepted", FuzzyWordsMax+1)
	}
	for distance, want := range map[int]bool{-1: false, 0: true, DistanceMax: true, DistanceMax + 1: false} {
		if _, ok := a.Fuzzy("red", distance); ok != want {
			t.Errorf("distance %d: %t, want %t", distance, ok, want)
		}
	}
}

// TestTokensAppends checks that the content of dst stays, and that a token whose
// word ends in its stem costs one small allocation, inside the stemmer.
func TestTokensAppends(t *testing.T) {
	a := englishAnalyzer(t)
	got := a.Tokens([]Token{{"kept", 7}}, "red bike")
	if want := []Token{{"kept", 7}, {"red", 0}, {"bike", 1}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	text := strings.Repeat("red bike and a map ", 100)
	room := a.Tokens(nil, text)
	const fixed = 1 // the stemmer itself
	if allocations := testing.AllocsPerRun(10, func() { room = a.Tokens(room[:0], text) }); allocations > float64(len(room)+fixed) {
		t.Errorf("%g allocations for %d tokens", allocations, len(room))
	}
	for _, p := range []Phrase{{}, a.Phrase(""), a.Phrase(" ... ")} {
		if p.Match(room) || p.Match(nil) || p.Count(room) != 0 || len(p.Tokens()) != 0 {
			t.Error("an empty phrase matches")
		}
	}
}

// TestStopWords checks that stop words are never found, and that each is listed
// once, in folded form.
func TestStopWords(t *testing.T) {
	for _, l := range languages {
		for i, text := range l.stop {
			a, _ := ForVersion(l.tag, i+1)
			listed := strings.Fields(text)
			if len(a.stop) != len(listed) {
				t.Errorf("%s: %d stop words, %d are listed", l.tag, len(a.stop), len(listed))
			}
			for _, word := range listed {
				if tokens := a.Tokens(nil, word); len(tokens) > 0 {
					t.Errorf("%s: the stop word %s gives %v", l.tag, word, tokens)
				}
			}
		}
	}
}

// TestVersions checks that an analyzer of each version of the tokens is kept, since
// indexes of earlier releases have their tokens.
func TestVersions(t *testing.T) {
	for _, c := range []struct {
		language      string
		version, want int // want 0: unknown
	}{
		{"en-US", 1, 1},
		{"en-us", 2, 2},
		{"en-US", 0, 0},
		{"en-US", Version + 1, 0},
		{"de-DE", 1, 1},
		{"de-DE", 2, 1},
		{"nl-NL", 1, 0},
	} {
		a, ok := ForVersion(c.language, c.version)
		if ok != (c.want > 0) || ok && a.Version() != c.want {
			t.Errorf("%s in version %d: %+v, %t, want version %d", c.language, c.version, a, ok, c.want)
		}
	}
	newest := 1
	for _, language := range Languages() {
		a, _ := For(language)
		newest = max(newest, a.Version())
		if VersionOf(language) != a.Version() {
			t.Errorf("the version of %s is %d, and its analyzer has %d", language, VersionOf(language), a.Version())
		}
	}
	if newest != Version {
		t.Errorf("Version is %d, and that of the newest analyzer %d", Version, newest)
	}
}

// FuzzTokens checks the invariants of the package on any text in any language.
func FuzzTokens(f *testing.F) {
	for _, text := range []string{
		"The quick-brown fox's 3 dogs don't jump.", "Straße STRASSE ｓｔｒａｓｓｅ", "l’homme qu'il a vu",
		"東京タワーへ行く", "e\u0301té ÉTÉ", "İstanbul ΣΊΣΥΦΟΣ", "co\u00ADoperate", "\xff\xfe broken \xc3", "㎏ ﷺ ½ Ⅷ ①",
		strings.Repeat("long", 40), "naïveté’s", "'''", "a'b'c", "y'y", "\u0301mark first",
	} {
		for i := range languages {
			f.Add(text, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, text string, language uint8) {
		a, _ := For(languages[int(language)%len(languages)].tag)
		tokens := a.Tokens(nil, text)
		last := -1
		for _, token := range tokens {
			if token.Text == "" || len(token.Text) > TokenMax || !utf8.ValidString(token.Text) {
				t.Fatalf("%q gives the token %q", text, token.Text)
			}
			if token.Position <= last {
				t.Fatalf("%q: position %d after %d", text, token.Position, last)
			}
			last = token.Position
		}
		if got := a.Count(text); got != len(tokens) {
			t.Fatalf("%q has %d tokens, but Count says %d", text, len(tokens), got)
		}
		if p := a.Phrase(text); p.Match(tokens) != (len(tokens) > 0) {
			t.Fatalf("%q does not contain itself", text)
		}
		if utf8.ValidString(text) {
			if got := a.Tokens(nil, norm.NFD.String(text)); !slices.Equal(got, tokens) {
				t.Fatalf("%q gives %v, decomposed %v", text, tokens, got)
			}
		}
		if !slices.Equal(a.Tokens(nil, text), tokens) {
			t.Fatalf("%q has other tokens the second time", text)
		}
	})
}

// TestLogarithm compares the portable logarithm with that of package math.
func TestLogarithm(t *testing.T) {
	random := seeded(t)
	worst := 0.0
	for i := range 100_000 {
		x := math.Exp(random.Float64()*1400 - 700)
		if i%2 == 0 { // near 1, where most values of an idf are
			x = 1 + random.Float64()
		}
		want := math.Log(x)
		ulp := math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want)
		worst = max(worst, math.Abs(ln(x)-want)/ulp)
	}
	if worst > 4 {
		t.Errorf("off by %.1f ulp, want at most 4", worst)
	}
	if ln(1) != 0 {
		t.Errorf("ln(1) = %g", ln(1))
	}
}

// TestScoreIsSane generates statistics and documents, possible and impossible
// ones.
func TestScoreIsSane(t *testing.T) {
	random := seeded(t)
	number := func() int64 {
		return [...]int64{math.MinInt64, -1, 0, 1, 2, 1000, math.MaxInt64, random.Int64N(100)}[random.IntN(8)]
	}
	for range 20_000 {
		s := Statistics{Documents: number(), Words: number(), Hits: []int64{number(), number()}}
		counts, words := []int{int(number()), int(number())}, int(number())
		score := s.Score(counts, words)
		if math.IsNaN(score) || math.IsInf(score, 0) || score < 0 {
			t.Fatalf("%+v scores %g for %v of %d", s, score, counts, words)
		}
		const countable = 1 << 50 // Beyond, the idf of a term in all documents is less than a float64 can add to 1.
		if none := counts[0] <= 0 && counts[1] <= 0; none != (score == 0) && (none || s.Documents < countable) {
			t.Fatalf("%+v scores %g for %v of %d", s, score, counts, words)
		}
		if more := s.Score([]int{max(counts[0], 0)/2 + 1, counts[1]}, words); counts[0] <= 0 && more < score {
			t.Fatalf("%+v: one occurrence more scores %g, was %g", s, more, score)
		}
	}
}

func TestStatisticsAdd(t *testing.T) {
	var sum Statistics
	sum.Add(Statistics{Documents: 2, Words: 30, Hits: []int64{1, 0}})
	sum.Add(Statistics{Documents: 3, Words: 12, Hits: []int64{2, 5}})
	if want := (Statistics{Documents: 5, Words: 42, Hits: []int64{3, 5}}); sum.Documents != want.Documents ||
		sum.Words != want.Words || !slices.Equal(sum.Hits, want.Hits) {
		t.Errorf("got %+v, want %+v", sum, want)
	}
}

// TestFuseIgnoresTheOrderOfItsInput shuffles the input.
func TestFuseIgnoresTheOrderOfItsInput(t *testing.T) {
	random := seeded(t)
	for range 500 {
		components := make([]Component, 1+random.IntN(3))
		for i := range components {
			components[i] = Component{Ascending: random.IntN(2) == 0, Weight: random.NormFloat64()}
			for document := range random.IntN(20) {
				components[i].Scores = append(components[i].Scores, Scored{document, float64(random.IntN(5))})
			}
		}
		want := Fuse(components)
		for i := range components {
			shuffled := slices.Clone(components[i].Scores)
			random.Shuffle(len(shuffled), func(a, b int) { shuffled[a], shuffled[b] = shuffled[b], shuffled[a] })
			before := slices.Clone(shuffled)
			components[i].Scores = shuffled
			if got := Fuse(components); !slices.Equal(got, want) {
				t.Fatalf("%v fuse to %v, in another order to %v", components, want, got)
			}
			if !slices.Equal(shuffled, before) {
				t.Fatal("Fuse changed its input")
			}
		}
		if !slices.IsSortedFunc(want, func(a, b Scored) int { return before(a, b, false) }) {
			t.Fatalf("%v is not in order", want)
		}
	}
}
