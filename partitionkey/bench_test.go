package partitionkey

import (
	"fmt"
	"testing"
)

func BenchmarkAppendHash(b *testing.B) {
	for _, levels := range []int{1, 3} {
		b.Run(fmt.Sprintf("levels=%d", levels), func(b *testing.B) {
			d := hierarchy(levels)
			key := NewKey([]Component{String("Contoso"), String("user-4711"), String("0000-11-0000-1111")}[:levels]...)
			dst := make([]byte, 0, 48)
			b.ReportAllocs()
			for b.Loop() {
				dst = d.AppendHash(dst[:0], key)
			}
		})
	}
}

// BenchmarkParse measures reading the key from the header (S84).
func BenchmarkParse(b *testing.B) {
	for levels, header := range map[int]string{1: `["Contoso"]`, 3: `["Contoso","user-4711","0000-11-0000-1111"]`} {
		b.Run(fmt.Sprintf("levels=%d", levels), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(header); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLocate(b *testing.B) {
	for _, ranges := range []int{10, 1000} {
		b.Run(fmt.Sprintf("ranges=%d", ranges), func(b *testing.B) {
			d := hierarchy(3)
			m := fresh(b, d, ranges)
			e := d.Hash(NewKey(String("Contoso"), String("user-4711"), Number(17)))
			b.ReportAllocs()
			for b.Loop() {
				m.Locate(e)
			}
		})
	}
}
