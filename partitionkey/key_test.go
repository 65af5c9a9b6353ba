package partitionkey

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

func hierarchy(levels int) Definition {
	paths := []string{"/tenantId", "/userId", "/sessionId"}
	return Definition{Paths: paths[:levels], Kind: KindMultiHash, Version: 2}
}

// TestBuilder checks that a built key equals the key from a header (S83).
func TestBuilder(t *testing.T) {
	t.Parallel()
	b := NewBuilder().AddString("Microsoft").AddNumber(math.Copysign(0, -1))
	early := b.Build()
	late := b.AddBool(true).AddBool(false).AddNull().AddNone().Build()
	if got, want := early.String(), `["Microsoft",0]`; got != want {
		t.Errorf("the first key = %s, want %s", got, want)
	}
	if got, want := late.String(), `["Microsoft",0,true,false,null,{}]`; got != want {
		t.Errorf("the second key = %s, want %s", got, want)
	}
	for _, key := range []Key{early, NewBuilder().AddBool(true).AddBool(false).AddNull().Build(), NewBuilder().AddNone().Build()} {
		if parsed, err := Parse(key.String()); err != nil || !parsed.Equal(key) {
			t.Errorf("Parse(%s) = %s, %v", key, parsed, err)
		}
	}
	if got := NewBuilder().Build(); got.Len() != 0 || !got.Equal(Key{}) {
		t.Errorf("a key of nothing = %s", got)
	}
}

// TestParseVeryMany checks that the key of a header with very many components
// fits no definition, and takes no memory for them.
func TestParseVeryMany(t *testing.T) {
	full := strings.Repeat(`1,`, LevelsMax-1) + "1"
	if key, err := Parse("[" + full + "]"); err != nil || key.Len() != LevelsMax {
		t.Errorf("%d levels: %s, %v", LevelsMax, key, err)
	}
	header := "[" + strings.Repeat("1,", 1<<20) + "1]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	key, err := Parse(header)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	err = hierarchy(LevelsMax).Check(key, false)
	var e *Error
	if !errors.As(err, &e) || !e.Mismatch || e.Given != 4 || e.Levels != 3 {
		t.Errorf("very many levels: %v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<10 {
		t.Errorf("took %d bytes", took)
	}
}

// TestKeyImmutable checks that keys do not change when what they were made from
// changes.
func TestKeyImmutable(t *testing.T) {
	t.Parallel()
	list := []Component{String("a"), Number(1)}
	key := NewKey(list...)
	one, other := key.Append(Null()), key.Append(Bool(true))
	list[0] = Null()
	key.Components()[1] = Null()
	for _, c := range []struct{ got, want string }{
		{key.String(), `["a",1]`},
		{one.String(), `["a",1,null]`},
		{other.String(), `["a",1,true]`},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	if !one.HasPrefix(key) || one.HasPrefix(other) || key.HasPrefix(one) || !key.HasPrefix(Key{}) {
		t.Error("HasPrefix is wrong")
	}
}

func TestComponentAccessors(t *testing.T) {
	t.Parallel()
	negativeZero := math.Copysign(0, -1)
	for _, c := range []struct {
		component Component
		typ       Type
		number    float64
		text      string
	}{
		{Component{}, TypeUndefined, 0, ""},
		{Undefined(), TypeUndefined, 0, ""},
		{Null(), TypeNull, 0, ""},
		{Bool(false), TypeFalse, 0, ""},
		{Bool(true), TypeTrue, 0, ""},
		{Number(2.5), TypeNumber, 2.5, ""},
		{String("é"), TypeString, 0, "é"},
		{String("a\xff\xfeb"), TypeString, 0, "a\ufffd\ufffdb"},
	} {
		if c.component.Type() != c.typ || c.component.Float() != c.number || c.component.Text() != c.text {
			t.Errorf("%+v: got type %d, number %v, text %q", c, c.component.Type(), c.component.Float(), c.component.Text())
		}
	}
	if Number(negativeZero) != Number(0) || math.Signbit(Number(negativeZero).Float()) {
		t.Error("-0 is not 0")
	}
	if Number(math.NaN()) != Number(-math.NaN()) {
		t.Error("NaN is not equal to itself as a component")
	}
	if String("") == Undefined() || Number(0) == Undefined() || Null() == Undefined() {
		t.Error("a value counts as undefined")
	}
}

// TestNotFinite checks that a number that JSON cannot represent can be in a Key,
// but is rejected everywhere else.
func TestNotFinite(t *testing.T) {
	t.Parallel()
	d := Definition{Paths: []string{"/pk"}}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		key := NewKey(Number(f))
		if err := d.Check(key, true); err == nil {
			t.Errorf("Check of %v = nil", f)
		}
		if b, err := json.Marshal(key); err == nil {
			t.Errorf("Marshal of %v = %s", f, b)
		}
		if parsed, err := Parse(key.String()); err == nil {
			t.Errorf("Parse(%s) = %v", key, parsed)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	type document struct {
		Definition Definition
		Key        Key
		Range      Range
	}
	want := `{"Definition":{"paths":[],"kind":"Hash"},"Key":["a",{},1],"Range":{"min":"","max":"FF"}}`
	b, err := json.Marshal(document{Key: NewKey(String("a"), Undefined(), Number(1)), Range: Full()})
	if err != nil || string(b) != want {
		t.Fatalf("got %s, %v, want %s", b, err, want)
	}
	var back document
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(back); err != nil || string(again) != want {
		t.Errorf("got %s, %v, want %s", again, err, want)
	}
	for _, wrong := range []string{`{"Key":[[1]]}`, `{"Key":"x"}`, `{"Range":{"min":"0"}}`, `{"Definition":{"kind":"x"}}`} {
		if err := json.Unmarshal([]byte(wrong), &back); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
	if b, err := json.Marshal(Kind(7)); err == nil {
		t.Errorf("an unknown kind is written as %s", b)
	}
}

// TestDefinitionEqual checks that everything in a definition matters, including
// the order of its paths (S99).
func TestDefinitionEqual(t *testing.T) {
	t.Parallel()
	base := Definition{Paths: []string{"/a", "/b"}, Kind: KindMultiHash, Version: 2}
	if same := (Definition{Paths: []string{"/a", "/b"}, Kind: KindMultiHash}); !base.Equal(same) {
		t.Error("an absent version is not 2")
	}
	for _, other := range []Definition{
		{Paths: []string{"/b", "/a"}, Kind: KindMultiHash, Version: 2},
		{Paths: []string{"/a"}, Kind: KindMultiHash, Version: 2},
		{Paths: []string{"/a", "/b", "/c"}, Kind: KindMultiHash, Version: 2},
		{Paths: []string{"/a", "/b"}, Kind: KindHash, Version: 2},
		{Paths: []string{"/a", "/b"}, Kind: KindMultiHash, Version: 1},
		{Paths: []string{"/a", "/b"}, Kind: KindMultiHash, Version: 2, SystemKey: true},
	} {
		if base.Equal(other) || other.Equal(base) {
			t.Errorf("%+v equals %+v", base, other)
		}
	}
	if none := base.None(); none.String() != "[{},{}]" || base.Check(none, true) != nil || base.Levels() != 2 {
		t.Errorf("None = %s", none)
	}
}

// randomKey chooses from few values, so that equal components are common.
func randomKey(r *rand.Rand, levels int) Key {
	var key Key
	for range levels {
		var c Component
		switch r.IntN(6) {
		case 0:
			c = Undefined()
		case 1:
			c = Null()
		case 2:
			c = Bool(r.IntN(2) == 0)
		case 3:
			c = Number(float64(r.IntN(5)-2) * math.Pow(10, float64(r.IntN(40)-20)))
		default:
			runes := []rune{'a', 'é', '€', 0xE000, 0xFFFD, 0xFFFF, 0x10000, 0x1F600, 0, '"'}
			var b strings.Builder
			for range r.IntN(4) {
				b.WriteRune(runes[r.IntN(len(runes))])
			}
			c = String(b.String())
		}
		key = key.Append(c)
	}
	return key
}

// TestPrefixHoldsItsKeys checks that the range of a prefix contains exactly the
// keys that begin with it (S14).
func TestPrefixHoldsItsKeys(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(14, 1))
	d := hierarchy(3)
	for range 20_000 {
		key, other := randomKey(r, 3), randomKey(r, 3)
		for n := range 4 {
			prefix := NewKey(key.Components()[:n]...)
			reach, err := d.Prefix(prefix)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(d.Hash(key)), string(d.Hash(prefix))) {
				t.Fatalf("the hash of %s does not begin with that of %s", key, prefix)
			}
			if !reach.Contains(d.Hash(key)) {
				t.Fatalf("%v, the range of %s, does not hold %s", reach, prefix, key)
			}
			if reach.Contains(d.Hash(other)) != other.HasPrefix(prefix) {
				t.Fatalf("%v, the range of %s: wrong about %s", reach, prefix, other)
			}
		}
	}
}

// TestPointHoldsOneKey checks that the range of a full key contains only that
// key, under each version.
func TestPointHoldsOneKey(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(14, 2))
	for _, d := range []Definition{
		{Paths: []string{"/pk"}, Version: 1},
		{Paths: []string{"/pk"}, Version: 2},
		hierarchy(1),
		hierarchy(2),
	} {
		for range 5_000 {
			key, other := randomKey(r, d.Levels()), randomKey(r, d.Levels())
			point, err := d.Prefix(key)
			if err != nil {
				t.Fatal(err)
			}
			if !point.Contains(d.Hash(key)) || point.Empty() {
				t.Fatalf("%v does not hold its key %s", point, key)
			}
			if point.Contains(d.Hash(other)) != key.Equal(other) {
				t.Fatalf("%v, the point of %s: wrong about %s", point, key, other)
			}
		}
	}
}

// TestSuccessorVersion1 checks that version 1 distinguishes keys with equal
// hashes.
func TestSuccessorVersion1(t *testing.T) {
	t.Parallel()
	d := Definition{Paths: []string{"/pk"}, Version: 1}
	long := strings.Repeat("x", 100)
	values := []Component{
		Undefined(), Null(), Bool(false), Bool(true),
		Number(-1), Number(0), Number(5e-324), Number(2), Number(math.Nextafter(2, 3)), Number(3),
		String(""), String("\x00"), String("\x00\x00"), String("\x01"), String("a"), String("a\x00"), String("a\x00\x00"), String("a\x01"),
		String(long), String(strings.Repeat("é", 60)),
	}
	// The ordered form of the hash 2 ends in a zero byte.
	for _, hash := range []float64{0, 2, 3, math.MaxUint32} {
		var points []EPK
		for i := range values {
			points = append(points, EPK(appendOrdered(appendOrderedNumber(nil, hash), values[i:i+1], true)))
		}
		for i, e := range points {
			point := Range{e, d.Successor(e)}
			for j, other := range points {
				if point.Contains(other) != (i == j) {
					t.Errorf("hash %v: %v holds %v", hash, point, other)
				}
			}
		}
	}
}

// TestCompareIsAnOrder checks that Compare is an order, and that strings compare
// as UTF-16.
func TestCompareIsAnOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(14, 3))
	for range 20_000 {
		a, b, c := randomKey(r, r.IntN(3)), randomKey(r, r.IntN(3)), randomKey(r, r.IntN(3))
		if Compare(a, b) != -Compare(b, a) || (Compare(a, b) == 0) != a.Equal(b) {
			t.Fatalf("%s and %s: %d and %d", a, b, Compare(a, b), Compare(b, a))
		}
		if Compare(a, b) <= 0 && Compare(b, c) <= 0 && Compare(a, c) > 0 {
			t.Fatalf("%s, %s, %s are not in order", a, b, c)
		}
		if a.Len() > 0 && b.Len() > 0 && a.At(0).Type() == TypeString && b.At(0).Type() == TypeString {
			x, y := utf16.Encode([]rune(a.At(0).Text())), utf16.Encode([]rune(b.At(0).Text()))
			if got, want := compareUTF16(a.At(0).Text(), b.At(0).Text()), slices.Compare(x, y); got != want {
				t.Fatalf("%s and %s: %d, want %d", a, b, got, want)
			}
		}
	}
}

// TestCanonicalVersion1 checks that version 1 hashes exactly what its canonical
// form keeps.
func TestCanonicalVersion1(t *testing.T) {
	t.Parallel()
	d := Definition{Paths: []string{"/pk"}, Version: 1}
	r := rand.New(rand.NewPCG(14, 4))
	alphabet := []string{"a", "é", "€", "😀"}
	for range 2_000 {
		var b strings.Builder
		for range 40 + r.IntN(30) {
			b.WriteString(strings.Repeat(alphabet[r.IntN(4)], 1+r.IntN(3)))
		}
		key, longer := NewKey(String(b.String())), NewKey(String(b.String()+"x"))
		sameID := string(key.Canonical(d)) == string(longer.Canonical(d))
		if units := len(utf16.Encode([]rune(b.String()))); sameID != (units >= 100) {
			t.Fatalf("%s: %d units, and one more is the same partition: %v", key, units, sameID)
		}
		if sameID && d.Hash(key) != d.Hash(longer) {
			t.Fatalf("%s: one partition, two hashes", key)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`[]`, `["Microsoft","0000-11-0000-1111",7]`, `[{},[],null,true,false]`, `[-0.0,1e400,5E-324]`,
		`["\ud83d\ude00\ud83d","\U0001f600\x00\a\v"]`, ` [ "é" , 1.0e+21 ] `, `[{"type":"MinNumber"}]`, `"Infinity"`, `["\`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		key, err := Parse(header)
		if err != nil {
			if key.Len() != 0 || err.Error() == "" {
				t.Fatalf("Parse(%q) = %v, %q", header, key, err)
			}
			return
		}
		again, err := Parse(key.String())
		if err != nil || !again.Equal(key) || Compare(again, key) != 0 {
			t.Fatalf("%q is %s, which is %s, %v", header, key, again, err)
		}
		// Every array that strict JSON accepts is accepted too, with the same
		// strings, up to the maximum number of levels.
		var elements []any
		if json.Unmarshal([]byte(header), &elements) == nil && min(len(elements), LevelsMax+1) != key.Len() {
			t.Fatalf("%q has %d elements, not %d", header, len(elements), key.Len())
		}
		for i, element := range elements {
			if s, ok := element.(string); ok && i < key.Len() && key.At(i).Text() != s {
				t.Fatalf("%q: element %d is %q, want %q", header, i, key.At(i).Text(), s)
			}
		}
		if !json.Valid([]byte(key.String())) {
			t.Fatalf("%s is not JSON", key)
		}
		for _, version := range []int{1, 2} {
			d := Definition{Paths: []string{"/pk"}, Version: version}
			if e := d.Hash(key); !Full().Contains(e) {
				t.Fatalf("the hash %v of %s is outside of the key space", e, key)
			}
		}
	})
}

func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{`/a`, `/a/b/`, `/"a/b"/c`, `/'x\'y'`, `/ a /*`, `/`, ``, `/[]`, `/"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		segments, err := ParsePath(path)
		if (err == nil) != (len(segments) > 0) {
			t.Fatalf("ParsePath(%q) = %q, %v", path, segments, err)
		}
		for _, segment := range segments {
			if !strings.Contains(path, segment) {
				t.Fatalf("ParsePath(%q) = %q", path, segments)
			}
		}
	})
}
