package vector

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/decandb/decan/internal/value"
)

// TestVector runs the cases of testdata. Vectors are JSON arrays, one a line:
//
//	metrics, elements          names, one a line
//	score                      pairs of lines: the scores by each metric
//	parse                      texts: the vector, or refused
//	store element=int8         the bytes, and what is read back
//	decode element=int8        bytes in hexadecimal
//	sizes                      lines of "dimensions bytes": bits, kept, size
//	code metric=cosine bytes=2 center=(1,0)   the codes, and scores against the first
//	top metric=cosine k=2      lines of "id score"
func TestVector(t *testing.T) {
	datadriven.Walk(t, "testdata/cases", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			lines := strings.Split(d.Input, "\n")
			switch d.Cmd {
			case "metrics":
				return each(lines, func(line string) string { m, ok := ParseMetric(line); return named(m, ok) })
			case "elements":
				return each(lines, func(line string) string {
					e, ok := ParseElement(line)
					return named(e, ok) + fmt.Sprintf(" %d", e.Size())
				})
			case "score":
				return showScores(t, d, lines)
			case "parse":
				return each(lines, func(line string) string { return showParse(t, d, line) })
			case "store":
				return each(lines, func(line string) string { return showStored(t, d, line) })
			case "decode":
				return each(lines, func(line string) string { return showDecoded(t, d, line) })
			case "sizes":
				return each(lines, showSize)
			case "code":
				return showCodes(t, d, lines)
			case "top":
				return showTop(t, d, lines)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func each(lines []string, show func(string) string) string {
	var out strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&out, show(line))
	}
	return out.String()
}

func named(s fmt.Stringer, ok bool) string {
	if !ok {
		return "unknown"
	}
	return s.String()
}

func showScores(t *testing.T, d *datadriven.TestData, lines []string) string {
	var out strings.Builder
	for pair := range slices.Chunk(lines, 2) {
		a, b := vectorOf(t, d, pair[0]), vectorOf(t, d, pair[1])
		fmt.Fprintf(&out, "cosine %v dotproduct %v euclidean %v\n", Cosine.Score(a, b), DotProduct.Score(a, b), Euclidean.Score(a, b))
	}
	return out.String()
}

func showParse(t *testing.T, d *datadriven.TestData, line string) string {
	got, ok := ParseJSON([]byte(line), []float32{7})
	if got[0] != 7 {
		d.Fatalf(t, "%s: what was in dst is lost", line)
	}
	if !ok {
		if len(got) != 1 {
			d.Fatalf(t, "%s is refused, but appended", line)
		}
		return "refused"
	}
	return fmt.Sprint(got[1:])
}

func showStored(t *testing.T, d *datadriven.TestData, line string) string {
	e := elementArg(t, d)
	raw := AppendVector(nil, e, vectorOf(t, d, line))
	back, ok := DecodeVector(nil, e, raw)
	if !ok {
		d.Fatalf(t, "%x is not read back", raw)
	}
	return fmt.Sprintf("%x %v", raw, back)
}

func showDecoded(t *testing.T, d *datadriven.TestData, line string) string {
	raw, err := hex.DecodeString(line)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	got, ok := DecodeVector(nil, elementArg(t, d), raw)
	if !ok {
		return "refused"
	}
	return fmt.Sprint(got)
}

func showSize(line string) string {
	var dimensions, size int
	fmt.Sscan(line, &dimensions, &size)
	q, ok := NewQuantizer(Cosine, dimensions, size, nil)
	if !ok {
		return "refused"
	}
	return fmt.Sprintf("%d bits of %d coordinates, %d bytes", q.bits, q.kept, q.Size())
}

func showCodes(t *testing.T, d *datadriven.TestData, lines []string) string {
	size, center := 0, []float32(nil)
	d.ScanArgs(t, "bytes", &size)
	for _, arg := range d.CmdArgs {
		if arg.Key == "center" {
			center = vectorOf(t, d, "["+strings.Join(arg.Vals, ",")+"]")
		}
	}
	m := metricArg(t, d)
	query := vectorOf(t, d, lines[0])
	q, ok := NewQuantizer(m, len(query), size, center)
	if !ok {
		return "refused\n"
	}
	e, _ := q.Query(query)
	return each(lines, func(line string) string {
		v := vectorOf(t, d, line)
		code, ok := q.Append(nil, v)
		if !ok {
			return "refused"
		}
		return fmt.Sprintf("%x about %.4f exactly %.4f", code, e.Score(code), m.Score(query, v))
	})
}

func showTop(t *testing.T, d *datadriven.TestData, lines []string) string {
	k := 0
	d.ScanArgs(t, "k", &k)
	top := NewTopK(metricArg(t, d), k)
	var out strings.Builder
	for _, line := range lines {
		id, score, _ := strings.Cut(line, " ")
		f, err := strconv.ParseFloat(score, 64)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		n, _ := strconv.Atoi(id)
		worst, full := top.Worst()
		fmt.Fprintf(&out, "%t", top.Push(uint64(n), f))
		if full {
			fmt.Fprintf(&out, ", to beat %v", worst)
		}
		out.WriteByte('\n')
	}
	fmt.Fprintf(&out, "%v\n", top.Append(nil))
	return out.String()
}

func metricArg(t *testing.T, d *datadriven.TestData) Metric {
	name := ""
	d.ScanArgs(t, "metric", &name)
	m, ok := ParseMetric(name)
	if !ok {
		d.Fatalf(t, "no metric %s", name)
	}
	return m
}

func elementArg(t *testing.T, d *datadriven.TestData) Element {
	name := ""
	d.ScanArgs(t, "element", &name)
	e, ok := ParseElement(name)
	if !ok {
		d.Fatalf(t, "no element type %s", name)
	}
	return e
}

func vectorOf(t *testing.T, d *datadriven.TestData, text string) []float32 {
	v, ok := ParseJSON([]byte(text), nil)
	if !ok {
		d.Fatalf(t, "%s is not a vector", text)
	}
	return v
}

// seeded returns a source of randomness and logs how to repeat the run.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestScoresAgree compares the unrolled sums with plain ones, and a Scorer with
// Score exactly, for every remainder of the loops.
func TestScoresAgree(t *testing.T) {
	random := seeded(t)
	for dimensions := range 70 {
		a, b := normal(random, dimensions), normal(random, dimensions)
		product, left, right, distance := 0.0, 0.0, 0.0, 0.0
		for i := range a {
			x, y := float64(a[i]), float64(b[i])
			product, left, right, distance = product+x*y, left+x*x, right+y*y, distance+(x-y)*(x-y)
		}
		want := map[Metric]float64{DotProduct: product, Euclidean: math.Sqrt(distance), Cosine: 0}
		if dimensions > 0 {
			want[Cosine] = product / math.Sqrt(left*right)
		}
		for m, want := range want {
			got := m.Score(a, b)
			if math.Abs(got-want) > 1e-12*float64(dimensions+1) {
				t.Errorf("%s of %d dimensions is %v, want %v", m, dimensions, got, want)
			}
			if prepared := m.Scorer(a).Score(b); prepared != got {
				t.Errorf("%s of %d dimensions is %v, with a Scorer %v", m, dimensions, got, prepared)
			}
			if other := m.Score(b, a); other != got {
				t.Errorf("%s of %d dimensions is %v, with exchanged vectors %v", m, dimensions, got, other)
			}
			if !math.IsNaN(m.Score(a, append(b, 1))) || !math.IsNaN(m.Scorer(a).Score(append(b, 1))) {
				t.Errorf("%s compares vectors of different length", m)
			}
		}
	}
}

func normal(random *rand.Rand, dimensions int) []float32 {
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(random.NormFloat64())
	}
	return v
}

func TestBetter(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		m    Metric
		a, b float64
		want bool
	}{
		{Cosine, 1, 0.5, true},
		{Cosine, 0.5, 1, false},
		{Cosine, 1, 1, false},
		{DotProduct, 3, -3, true},
		{DotProduct, -3, 3, false},
		{Euclidean, 1, 2, true},
		{Euclidean, 2, 1, false},
		{Euclidean, 2, 2, false},
		{Cosine, -1, nan, true},
		{Cosine, nan, -1, false},
		{Euclidean, math.Inf(1), nan, true},
		{Euclidean, nan, math.Inf(1), false},
		{Cosine, nan, nan, false},
	} {
		if got := c.m.Better(c.a, c.b); got != c.want {
			t.Errorf("%s: %v better than %v is %t", c.m, c.a, c.b, got)
		}
	}
}

// TestHalf reads and writes every 16-bit number, and checks rounding of numbers
// in between.
func TestHalf(t *testing.T) {
	random := seeded(t)
	for bits := range 1 << 16 {
		raw := binary.LittleEndian.AppendUint16(nil, uint16(bits))
		v, ok := DecodeVector(nil, Float16, raw)
		if wantOK := bits&0x7C00 != 0x7C00; ok != wantOK {
			t.Fatalf("%04x is finite: %t, want %t", bits, ok, wantOK)
		}
		if !ok {
			continue
		}
		if back := AppendVector(nil, Float16, v); string(back) != string(raw) {
			t.Fatalf("%x is %v is %x", raw, v, back)
		}
		if next := uint16(bits + 1); next&0x7C00 != 0x7C00 && bits < 0x8000 {
			low, high := float64(v[0]), float64(halfFloat(next))
			x := float32(low + (high-low)*random.Float64())
			got := float64(halfFloat(halfBits(x)))
			if want := min(math.Abs(float64(x)-low), math.Abs(float64(x)-high)); math.Abs(float64(x)-got) != want {
				t.Fatalf("%v is stored as %v, between %v and %v", x, got, low, high)
			}
			middle := halfBits(float32((low + high) / 2))
			if middle&1 != 0 {
				t.Fatalf("the middle of %v and %v is not stored as the even one", low, high)
			}
		}
	}
}

// FuzzParseJSON compares with value.Parse and Parse.
func FuzzParseJSON(f *testing.F) {
	for _, text := range []string{
		`[1,2.5,-3e2]`, ` [ 0.1 , -0 ]`, `[]`, `[1`, `[1,]`, `[1]x`, `[01]`, `[1.]`, `[.5]`, `[-]`, `[1e]`, `[1e400]`,
		`[1e39]`, `[-0.0]`, `[-0e5]`, `[1e-400]`, `[9007199254740993]`, `[12345678901234567890]`, `[123456789012345678901234]`,
		`[0.30000000000000004]`, `[3.4028235677973366e38]`, `[3.4028235677973362e38]`, `[0.0000000000000000000000001]`,
		`["1"]`, `[null]`, `[[1]]`, `{"a":1}`, `1`, ``, "[1,\t2\r\n]", `[1 2]`, `[+1]`, `[0.1234567890123456789]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, gotOK := ParseJSON(raw, nil)
		v, err := value.Parse(raw)
		want, wantOK := Parse(v, nil)
		if wantOK = wantOK && err == nil; gotOK != wantOK {
			t.Fatalf("%q: %t, want %t", raw, gotOK, wantOK)
		}
		if !slices.EqualFunc(got, want, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			t.Fatalf("%q is %v, want %v", raw, got, want)
		}
	})
}

// FuzzDecodeVector decodes arbitrary bytes as vectors, and encodes what it could
// decode.
func FuzzDecodeVector(f *testing.F) {
	f.Add([]byte{0, 0, 0x80, 0x3F}, uint8(Float32))
	f.Add([]byte{0, 0x7C}, uint8(Float16))
	f.Add([]byte{1, 0x80}, uint8(Int8))
	f.Add([]byte{1, 2, 3}, uint8(7))
	f.Fuzz(func(t *testing.T, raw []byte, element uint8) {
		e := Element(element)
		v, ok := DecodeVector(nil, e, raw)
		if !ok {
			if len(v) != 0 {
				t.Fatalf("%x is refused, but gives %v", raw, v)
			}
			return
		}
		if back := AppendVector(nil, e, v); string(back) != string(raw) {
			t.Fatalf("%x is %v is %x", raw, v, back)
		}
	})
}

// TestTopKIsASort pushes in every order of ties and compares with sorting.
func TestTopKIsASort(t *testing.T) {
	random := seeded(t)
	for range 2000 {
		m := Metric(random.IntN(len(metricNames)))
		k := random.IntN(12)
		all := make([]Scored, random.IntN(40))
		for i := range all {
			all[i] = Scored{uint64(i), float64(random.IntN(6))}
			if all[i].Score == 5 {
				all[i].Score = math.NaN()
			}
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		top := NewTopK(m, k)
		top.Push(1000, 3)
		top.Reset()
		for _, s := range all {
			top.Push(s.ID, s.Score)
		}
		got := top.Append([]Scored{{7, 7}})[1:]
		slices.SortFunc(all, func(a, b Scored) int {
			switch {
			case m.Better(a.Score, b.Score) || !m.Better(b.Score, a.Score) && a.ID < b.ID:
				return -1
			}
			return 1
		})
		want := all[:min(k, len(all))]
		if top.Len() != len(want) || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s: best %d are %v, want %v", m, k, got, want)
		}
		// The next results, for any last result of an earlier search.
		if len(all) == 0 {
			continue
		}
		at := random.IntN(len(all))
		next := NewTopK(m, k)
		next.After(all[at])
		for _, i := range random.Perm(len(all)) {
			next.Push(all[i].ID, all[i].Score)
		}
		if got, want := next.Append(nil), all[at+1:][:min(k, len(all)-at-1)]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s: next %d after %v are %v, want %v", m, k, all[at], got, want)
		}
	}
}

func TestTopKDoesNotAllocate(t *testing.T) {
	top := NewTopK(Cosine, 100)
	id := uint64(0)
	if n := testing.AllocsPerRun(1000, func() { id++; top.Push(id, float64(id*7919%1000)) }); n != 0 {
		t.Errorf("%v allocations for each push", n)
	}
	if huge := NewTopK(Cosine, math.MaxInt); cap(huge.heap) > roomMax || !huge.Push(1, 1) {
		t.Error("a huge k allocates at once, or keeps nothing")
	}
	if none := NewTopK(Cosine, -1); none.Push(1, 1) || none.Len() != 0 {
		t.Error("a k below 1 keeps something")
	}
}
