package text

import "math"

// The usual parameters of BM25. The service says that its scoring is the
// standard one but does not publish its parameters.
const (
	saturation = 1.2  // k1: how soon further occurrences stop counting
	length     = 0.75 // b: how much the length of a document reduces its score
)

// Statistics describes all documents that are ranked together, for one property
// and the terms of one FullTextScore.
type Statistics struct {
	// Documents is the number of documents, with or without the property.
	Documents int64
	// Words is the sum of [Analyzer.Count] over the documents.
	Words int64
	// Hits is the number of matching documents for each term.
	Hits []int64
}

// Add adds other, the statistics of more documents for the same terms.
func (s *Statistics) Add(other Statistics) {
	s.Documents += other.Documents
	s.Words += other.Words
	for i, hits := range other.Hits {
		if i == len(s.Hits) {
			s.Hits = append(s.Hits, 0)
		}
		s.Hits[i] += hits
	}
}

// Score returns the BM25 relevance of a document with this many words, where
// counts is the number of occurrences of each term. It is 0 if no term occurs,
// never negative, never NaN, and greater for a greater count up to rounding.
//
//	sum over terms of idf * count * (k1 + 1) / (count + k1 * (1 - b + b * words / average))
//	idf = ln(1 + (Documents - hits + 0.5) / (hits + 0.5)),  k1 = 1.2,  b = 0.75
//
// The statistics may come from a client. Impossible numbers, such as more hits
// than documents, are replaced by the nearest possible ones; a term beyond the
// end of Hits has no hits.
func (s Statistics) Score(counts []int, words int) float64 {
	documents := float64(max(s.Documents, 0))
	relative := 1.0
	if s.Words > 0 && documents > 0 {
		relative = float64(max(words, 0)) / (float64(s.Words) / documents)
	}
	norm := float64(saturation * (1 - length + float64(length*relative)))
	score := 0.0
	for i, count := range counts {
		if count <= 0 {
			continue
		}
		hits := 0.0
		if i < len(s.Hits) {
			hits = min(float64(max(s.Hits[i], 0)), documents)
		}
		frequency := float64(count)
		idf := ln(1 + (documents-hits+0.5)/(hits+0.5))
		score += float64(idf * (frequency * (saturation + 1) / (frequency + norm)))
	}
	return score
}

// ln returns the natural logarithm of a positive finite number, within 4 ulp.
// That of package math differs in the last bit on some machines, but ranks are
// compared between machines. The conversions keep the compiler from fusing
// operations.
func ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	// ln m = 2 artanh f = 2 (f + f^3/3 + f^5/5 + ...), where |f| < 0.172.
	f := (m - 1) / (m + 1)
	square := float64(f * f)
	sum := 0.0
	for k := 23; k >= 1; k -= 2 {
		sum = float64(sum*square) + 1/float64(k)
	}
	return float64(float64(e)*math.Ln2) + float64(2*f*sum)
}
