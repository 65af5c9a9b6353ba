package query

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
)

// TestRegexByRunes shows that a search in text read rune by rune has the results
// of a search in the whole text: the first match, and all of them with their
// groups.
func TestRegexByRunes(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	pieces := []string{"a", "b", ".", "é", `\b`, `\B`, "^", "$", "(?m:^)", "(?m:$)", "(a)?", "(b|ab)", "[^a]", "a*", "a*?", "a{1,3}", "(?i:A)", `\Qa.\E`, "|", `\s`}
	letters := []string{"a", "a", "b", "é", "\n", " ", "A", "."}
	draw := func(from []string, most int) string {
		var b strings.Builder
		for range random.IntN(most) {
			b.WriteString(from[random.IntN(len(from))])
		}
		return b.String()
	}
	matches := 0
	for range 5000 {
		text, s := draw(pieces, 6), draw(letters, 12)
		if random.IntN(20) == 0 {
			text += `\Qa` // without an end
		}
		x, err := compileRegex(value.String(text), value.String([]string{"", "i", "m", "s"}[random.IntN(4)]), regexSizeMax)
		if err != nil {
			continue
		}
		slow := *x
		slow.cost = 2 * regexDirect
		e := newEnv()
		e.folds = false
		want := x.re.FindAllStringSubmatchIndex(s, -1)
		var got [][]int
		slow.each(e, s, len(s)+1, func(match []int) { got = append(got, match) })
		if !reflect.DeepEqual(got, want) || e.err != nil {
			t.Fatalf("seed %d: %q in %q: got %v, %v, want %v", seed, text, s, got, e.err, want)
		}
		if got, want := slow.first(e, s), x.re.FindStringSubmatchIndex(s); !reflect.DeepEqual(got, want) || slow.match(e, s) != (want != nil) {
			t.Fatalf("seed %d: %q in %q: got %v, want %v", seed, text, s, got, want)
		}
		matches += len(want)
	}
	if matches < 1000 {
		t.Errorf("seed %d: %d matches: too few to show anything", seed, matches)
	}
}

// The estimated cost of a rune is no less than the size of the expression.
func TestRegexCost(t *testing.T) {
	t.Parallel()
	for text, least := range map[string]int{
		"": 1, "abc": 3, "a{10}": 10, "(a{10}){20}": 200, "(a{10}){100}": 1000, "a{2,900}": 900, "a{,5}": 5, "(a{30}b{30}){30}": 1800,
	} {
		if got := regexCost(text); got < least {
			t.Errorf("%q: %d, want at least %d", text, got, least)
		}
	}
}
