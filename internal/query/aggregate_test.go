package query

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// TestTotal adds random numbers in random order, in parts that are merged and
// several at a time, and compares with rational arithmetic.
func TestTotal(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 5))
	for range 3_000 {
		parts := make([]Total, 1+r.IntN(4))
		sum, integers := new(big.Rat), true
		for range r.IntN(30) {
			v, times := randomNumber(r), int64(1)
			if r.IntN(3) == 0 {
				times += r.Int64N(1_000_000)
			}
			if _, ok := v.Int64(); !ok && math.Abs(v.Float()) < 1e-200 {
				times = 1
			}
			parts[r.IntN(len(parts))].add(v, times)
			x := new(big.Rat)
			if i, ok := v.Int64(); ok {
				x.SetInt64(i)
			} else {
				integers = false
				x.SetFloat64(v.Float())
			}
			sum.Add(sum, x.Mul(x, new(big.Rat).SetInt64(times)))
		}
		total := parts[0]
		for i := range parts[1:] {
			total.merge(&parts[i+1])
		}
		f, _ := sum.Float64()
		want := value.Number(f)
		if integers && sum.Num().IsInt64() {
			want = value.Int(sum.Num().Int64())
		}
		if got := total.value(); !value.Equal(got, want) {
			t.Fatalf("seed %d: got %s, want %s", seed, got, want)
		}
	}
}

func randomNumber(r *rand.Rand) value.Value {
	switch r.IntN(6) {
	case 0:
		return value.Int(r.Int64() - r.Int64())
	case 1:
		return value.Int([]int64{math.MaxInt64, math.MinInt64, 0, -1, 1 << 53}[r.IntN(5)])
	case 2:
		return value.Int(r.Int64N(100))
	case 3:
		return value.Number(math.Ldexp(r.Float64()-0.5, r.IntN(1200)-600))
	case 4:
		return value.Number([]float64{0.1, 1e16, -1e16, 1e-300, 0x1p-1074, 0.5, 1 + 0x1p-52}[r.IntN(7)])
	}
	return value.Number(r.Float64())
}

// TestTotalBeyondDoubles shows the results of sums that exceed every double, and
// of infinities and NaN in any order.
func TestTotalBeyondDoubles(t *testing.T) {
	t.Parallel()
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		name string
		in   []float64
		want float64
	}{
		{"too large", []float64{math.MaxFloat64, math.MaxFloat64}, inf},
		{"too small", []float64{-math.MaxFloat64, -math.MaxFloat64}, -inf},
		{"infinite", []float64{1.5, inf, 2}, inf},
		{"both", []float64{inf, 1, -inf}, nan},
		{"none", []float64{nan, 1, inf}, nan},
		{"the least", []float64{0x1p-1074, 0x1p-1074}, 0x1p-1073},
		{"cancelled", []float64{1e300, 0.1, -1e300}, 0.1},
		{"half to even", []float64{1, 0x1p-53}, 1},
		{"more than half", []float64{1, 0x1p-53, 0x1p-1000}, 1 + 0x1p-52},
		{"less than half", []float64{1, 0x1p-53, -0x1p-1000}, 1},
	} {
		var sum Total
		for _, x := range c.in {
			sum.add(value.Number(x), 1)
		}
		if got := sum.value().Float(); got != c.want && (got == got || c.want == c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestAggregateMerge shows that several aggregates over parts of the values,
// merged in any order, give the result of one aggregate over all.
func TestAggregateMerge(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 6))
	pool := append([]string{"undefined", "[1]", `{"a":1}`}, words...)
	for range 2_000 {
		kinds := words
		if r.IntN(3) == 0 {
			kinds = pool
		}
		kind := AggregateKind(r.IntN(int(MakeSet) + 1))
		e := newEnv()
		whole := Aggregate{Kind: kind}
		parts := make([]Aggregate, 3)
		for i := range parts {
			parts[i].Kind = kind
		}
		for range r.IntN(12) {
			v := value.Undefined()
			if text := pick(r, kinds); text != "undefined" {
				v, _ = value.ParseString(text)
			}
			whole.add(e, v)
			parts[r.IntN(3)].add(e, v)
		}
		merged := parts[0]
		merged.merge(e, &parts[1])
		merged.merge(e, &parts[2])
		got, want := merged.result(), whole.result()
		if kind == MakeList || kind == MakeSet {
			got, want = sortedItems(got), sortedItems(want)
		}
		if got.IsDefined() != want.IsDefined() || got.IsDefined() && !value.Equal(got, want) {
			t.Fatalf("seed %d: kind %d: got %s, want %s", seed, kind, got, want)
		}
	}
}

func sortedItems(v value.Value) value.Value {
	items := append([]value.Value{}, v.Items()...)
	slices.SortFunc(items, value.Compare)
	return value.Array(items)
}

// TestListMemory shows that a list that does not fit is refused, and one that
// just fits is not.
func TestListMemory(t *testing.T) {
	t.Parallel()
	v := value.String(strings.Repeat("x", 1000))
	size := int64(sizeOf(v))
	for _, c := range []struct {
		most int64
		ok   bool
	}{{10 * size, true}, {10*size - 1, false}} {
		e := newEnv()
		e.memoryMax = c.most
		list := Aggregate{Kind: MakeList}
		for range 10 {
			list.add(e, v)
		}
		if ok := e.err == nil; ok != c.ok {
			t.Errorf("%d bytes: %v", c.most, e.err)
		}
		if !c.ok && (status.CodeOf(e.err) != status.CodeBadRequest || !strings.Contains(e.err.Error(), "10239 bytes")) {
			t.Errorf("error %v", e.err)
		}
	}
}
