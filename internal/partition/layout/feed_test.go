package layout

import (
	"math/rand/v2"
	"testing"

	"github.com/decandb/decan/partitionkey"
)

// A short EPK never excludes a document of the range, and excludes most others.
func TestShortRange(t *testing.T) {
	t.Parallel()
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	for _, levels := range []int{1, 2, 3} {
		definition := partitionkey.Definition{Kind: partitionkey.KindHash, Version: 2, Paths: []string{"/a", "/b", "/c"}[:levels]}
		if levels > 1 {
			definition.Kind = partitionkey.KindMultiHash
		}
		width, outside, passed := EPKWidth(definition), 0, 0
		draw := func() partitionkey.EPK {
			var parts []partitionkey.Component
			for range levels {
				parts = append(parts, partitionkey.Number(float64(random.IntN(4))))
			}
			return definition.Hash(partitionkey.NewKey(parts...))
		}
		for range 5000 {
			a, b, e := draw(), draw(), draw()
			r := partitionkey.Range{Min: a[:16*(1+random.IntN(levels))], Max: b}
			switch random.IntN(3) {
			case 0:
				r.Max = definition.Successor(a)
			case 1:
				r.Max = r.Min + partitionkey.MaxEPK
			}
			if r.Empty() {
				continue
			}
			near := NewShortRange(r, width)
			_, short, err := DecodeFeedValue(AppendFeedValue(nil, 1, string(e), width))
			if err != nil {
				t.Fatal(err)
			}
			holds := near.Holds(short)
			if r.Contains(e) && !holds {
				t.Fatalf("seed %d: %v is in %v, and its short form %x is not", seed, e, r, short)
			}
			if !r.Contains(e) {
				outside++
				if holds {
					passed++
				}
			}
		}
		// If bounds differ in the first level, only documents that share the first
		// level with a bound are in doubt.
		if passed*2 > outside {
			t.Errorf("%d levels: %d of %d documents outside are not told apart", levels, passed, outside)
		}
	}
}

// Neither row is misread, whatever it contains.
func FuzzCompleteRows(f *testing.F) {
	f.Add((&Revision{Change: Deleted, EPKSize: 16, Suffix: make([]byte, 30), Previous: []byte("x")}).Append(nil))
	f.Add(KeptList{{Max: "a", After: 3}, {Max: "b", After: 1}}.Append(nil))
	f.Fuzz(func(t *testing.T, row []byte) {
		if e, err := DecodeRevision(row); err == nil && string(e.Append(nil)) != string(row) {
			t.Errorf("%x is read as %+v", row, e)
		}
		if l, err := DecodeKept(row); err == nil && string(l.Append(nil)) != string(row) {
			t.Errorf("%x is read as %+v", row, l)
		}
	})
}
