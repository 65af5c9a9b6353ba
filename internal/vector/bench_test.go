package vector

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/decandb/decan/internal/value"
)

func benchVectors(dimensions int) (a, b []float32) {
	random := rand.New(rand.NewPCG(1, uint64(dimensions)))
	return normal(random, dimensions), normal(random, dimensions)
}

func BenchmarkScore(b *testing.B) {
	for _, dimensions := range []int{128, 768, 1536} {
		x, y := benchVectors(dimensions)
		for m := range Metric(len(metricNames)) {
			b.Run(fmt.Sprintf("metric=%s/dimensions=%d", m, dimensions), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					m.Score(x, y)
				}
			})
			b.Run(fmt.Sprintf("metric=%s/dimensions=%d/query=prepared", m, dimensions), func(b *testing.B) {
				scorer := m.Scorer(x)
				b.ReportAllocs()
				for b.Loop() {
					scorer.Score(y)
				}
			})
		}
	}
}

func BenchmarkEstimate(b *testing.B) {
	for _, dimensions := range []int{128, 768, 1536} {
		x, y := benchVectors(dimensions)
		for _, bits := range []int{1, 2, 4} {
			size := dimensions / 8 * bits
			if size > QuantizationMax {
				continue
			}
			b.Run(fmt.Sprintf("bits=%d/dimensions=%d", bits, dimensions), func(b *testing.B) {
				q, _ := NewQuantizer(Cosine, dimensions, size, nil)
				code, _ := q.Append(nil, x)
				e, _ := q.Query(y)
				b.ReportAllocs()
				for b.Loop() {
					e.Score(code)
				}
			})
		}
	}
}

func BenchmarkAppendCode(b *testing.B) {
	for _, dimensions := range []int{128, 768, 1536} {
		x, _ := benchVectors(dimensions)
		b.Run(fmt.Sprintf("dimensions=%d", dimensions), func(b *testing.B) {
			q, _ := NewQuantizer(Cosine, dimensions, QuantizationDefault(dimensions), nil)
			var code []byte
			b.ReportAllocs()
			for b.Loop() {
				code, _ = q.Append(code[:0], x)
			}
		})
	}
}

func BenchmarkQuery(b *testing.B) {
	x, _ := benchVectors(768)
	q, _ := NewQuantizer(Cosine, 768, QuantizationDefault(768), nil)
	b.ReportAllocs()
	for b.Loop() {
		q.Query(x)
	}
}

func BenchmarkParse(b *testing.B) {
	x, _ := benchVectors(768)
	items := make([]value.Value, len(x))
	for i, f := range x {
		items[i] = value.Number(float64(f))
	}
	raw := value.Array(items).Append(nil)
	dst := make([]float32, 0, len(x))
	b.Run("from=json", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		b.ReportAllocs()
		for b.Loop() {
			dst, _ = ParseJSON(raw, dst[:0])
		}
	})
	b.Run("from=value", func(b *testing.B) {
		v, _ := value.Parse(raw)
		b.ReportAllocs()
		for b.Loop() {
			dst, _ = Parse(v, dst[:0])
		}
	})
	b.Run("from=bytes", func(b *testing.B) {
		stored := AppendVector(nil, Float32, x)
		b.SetBytes(int64(len(stored)))
		b.ReportAllocs()
		for b.Loop() {
			dst, _ = DecodeVector(dst[:0], Float32, stored)
		}
	})
}

func BenchmarkTopK(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	scores := make([]float64, 10_000)
	for i := range scores {
		scores[i] = random.Float64()
	}
	top := NewTopK(Cosine, 50)
	b.ReportAllocs()
	for b.Loop() {
		top.Reset()
		for i, score := range scores {
			top.Push(uint64(i), score)
		}
	}
}
