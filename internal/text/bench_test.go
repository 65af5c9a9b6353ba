package text

import "testing"

// benchTexts are ordinary prose of about 1 KiB.
var benchTexts = map[string]string{
	"en-US": `The ferry leaves the old harbour every morning at seven and carries commuters, bicycles and crates of ` +
		`fish across the bay. On windy days the crossing takes nearly an hour, because the captain follows the coast ` +
		`instead of heading straight for the lighthouse. Passengers who travel daily know each other by name; they ` +
		`share newspapers, coffee and complaints about the weather. Last winter the engine failed twice, and the ` +
		`owners promised to replace it before spring. They bought a second boat instead, smaller and faster, which ` +
		`carries forty people but no bicycles. The commuters wrote a letter, the newspapers printed it, and the town ` +
		`council discussed it for three evenings. In the end the old ferry was repaired and painted red, the smaller ` +
		`boat was sold to an island further north, and the captain was given a new coat. Since then the crossing has ` +
		`been quiet. Tourists photograph the red ferry in the evening light, and children wave from the harbour wall ` +
		`while the crates of fish are unloaded.`,
	"de-DE": `Die Fähre verlässt den alten Hafen jeden Morgen um sieben und bringt Pendler, Fahrräder und Kisten voller ` +
		`Fische über die Bucht. An stürmischen Tagen dauert die Überfahrt fast eine Stunde, weil der Kapitän der Küste ` +
		`folgt und nicht geradeaus auf den Leuchtturm zuhält. Wer täglich fährt, kennt die anderen beim Namen; man teilt ` +
		`Zeitungen, Kaffee und Klagen über das Wetter. Im letzten Winter fiel zweimal die Maschine aus, und die ` +
		`Eigentümer versprachen, sie vor dem Frühling zu ersetzen. Stattdessen kauften sie ein zweites Boot, kleiner und ` +
		`schneller, das vierzig Menschen trägt, aber keine Fahrräder. Die Pendler schrieben einen Brief, die Zeitungen ` +
		`druckten ihn, und der Rat der Stadt beriet drei Abende darüber. Am Ende wurde die alte Fähre repariert und rot ` +
		`gestrichen, das kleinere Boot auf eine Insel im Norden verkauft, und der Kapitän bekam einen neuen Mantel.`,
}

func BenchmarkTokens(b *testing.B) {
	for language, text := range benchTexts {
		b.Run("language="+language, func(b *testing.B) {
			a, _ := For(language)
			tokens := a.Tokens(nil, text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				tokens = a.Tokens(tokens[:0], text)
			}
		})
	}
}

func BenchmarkPhraseCount(b *testing.B) {
	a, _ := For("en-US")
	tokens := a.Tokens(nil, benchTexts["en-US"])
	fuzzy, _ := a.Fuzzy("smaler bost", 1)
	for name, p := range map[string]Phrase{"plain": a.Phrase("smaller boats"), "fuzzy": fuzzy} {
		b.Run("term="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p.Count(tokens) == 0 {
					b.Fatal("not found")
				}
			}
		})
	}
}

func BenchmarkScore(b *testing.B) {
	s := Statistics{Documents: 1_000_000, Words: 100_000_000, Hits: []int64{10, 1000, 100_000}}
	for b.Loop() {
		if s.Score([]int{1, 2, 3}, 120) <= 0 {
			b.Fatal("no score")
		}
	}
}
