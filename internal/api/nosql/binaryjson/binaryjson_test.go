package binaryjson

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/value"
)

// vector is a line of testdata/vectors.jsonl, which the writer and the reader of the
// .NET client made. A line that begins with the text has the bytes that the writer
// makes of it, also with its options; a line that begins with the bytes has the text
// or the error that the reader gives.
type vector struct {
	Text, Error, Hex       *string
	Arrays, Uint64, Base64 *string

	written bool
}

func vectors(t testing.TB) (all []vector) {
	file, err := os.Open("testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		v := vector{written: bytes.HasPrefix(lines.Bytes(), []byte(`{"text":`))}
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if err := lines.Err(); err != nil || len(all) != 1596 {
		t.Fatalf("%d vectors, %v", len(all), err)
	}
	return all
}

func unhex(t testing.TB, text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const ample = 1 << 20

// Append writes each text byte for byte as the .NET client does without options, and
// AppendText reads all forms of it.
func TestWriterVectors(t *testing.T) {
	for _, v := range vectors(t) {
		if !v.written {
			continue
		}
		out, err := Append([]byte("x"), []byte(*v.Text))
		if want := unhex(t, *v.Hex); err != nil || !bytes.Equal(out[1:], want) {
			t.Errorf("%.80s: wrote %X, %v, want %X", *v.Text, out, err, want)
		}
		for _, form := range []*string{v.Hex, v.Arrays, v.Uint64, v.Base64} {
			if form == nil {
				continue
			}
			text, rest, err := AppendText(nil, unhex(t, *form), ample)
			if err != nil || len(rest) > 0 || !sameJSON(text, []byte(*v.Text)) {
				t.Errorf("%s: read %s, %X, %v, want %s", *form, text, rest, err, *v.Text)
			}
		}
	}
}

// sameJSON reports whether two texts have equal values. Texts of numbers may differ,
// such as 1.0 and 1.
func sameJSON(a, b []byte) bool {
	v, err := value.Parse(a)
	w, err2 := value.Parse(b)
	return err == nil && err2 == nil && value.Equal(v, w)
}

// Known differences from the .NET client's reader, by the reason.
const (
	typed   = "typed values have their type in the text that is not JSON"
	unknown = "markers without a meaning have no text, which is not JSON"
	empty   = "arrays of numbers of unknown types are empty"
)

// AppendText gives the text of the .NET client's reader, or an error where it has one.
func TestReaderVectors(t *testing.T) {
	differ := map[string]int{}
	for _, v := range vectors(t) {
		if v.written {
			continue
		}
		b := unhex(t, *v.Hex)
		text, _, err := AppendText(nil, b, ample)
		var reason string
		switch marker := b[1]; {
		case v.Text != nil && *v.Text == "":
			reason = unknown
		case marker == float32Of || marker == float64Of || marker == guid || marker >= uint8Of && marker <= bytes4:
			reason = typed
		case marker == numbers1 || marker == numbers2:
			reason = empty
		}
		switch {
		case v.Error != nil && err != nil:
		case v.Error == nil && err == nil && strings.EqualFold(string(text), *v.Text) && sameJSON(text, []byte(*v.Text)):
		case reason == "":
			t.Errorf("%.80s: %s, %v, want %v, %v", *v.Hex, text, err, show(v.Text), show(v.Error))
		default:
			differ[reason]++
			if reason == typed && err != nil {
				t.Errorf("%.80s: %v", *v.Hex, err)
			}
			if reason != typed && err == nil {
				t.Errorf("%.80s: %s, want an error", *v.Hex, text)
			}
		}
	}
	for reason, known := range map[string]int{typed: 31, unknown: 96, empty: 6} {
		t.Logf("%d: %s", differ[reason], reason)
		if differ[reason] != known {
			t.Errorf("%d differences because %s; %d are known", differ[reason], reason, known)
		}
	}
}

// A body that the .NET client has sent, recorded on the wire.
func TestRecordedBody(t *testing.T) {
	b := unhex(t, "80EA6F2C82643182706B8170817389C39C6EC3AF636F64658166CC000000000000F83F83626967CB79DF0D8648700000836E6567C9FBFF8161E20501D2D081"+
		"78816FE9816B8176846775696475F0F8DAB59DBC64F91A560768778259E084646174657A1C13131CC2211EB1111BD1111111F1")
	const want = `{"id":"d1","pk":"p","s":"Ünïcode","f":1.5,"big":123456789012345,"neg":-5,"a":[1,true,null,"x"],"o":{"k":"v"},` +
		`"guid":"0f8fad5b-d9cb-469f-a165-70867728950e","date":"2020-01-01T00:00:00.0000000Z"}`
	if got, rest, err := AppendText(nil, b, ample); err != nil || len(rest) > 0 || string(got) != want {
		t.Errorf("%s, %X, %v", got, rest, err)
	}
	if got, err := Append(nil, []byte(want)); err != nil || !bytes.Equal(got, b) {
		t.Errorf("%X, %v, want %X", got, err, b)
	}
}

func show(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func TestRead(t *testing.T) {
	for _, test := range []struct{ hex, want string }{
		{"80730100FBEFBE", `"----"`},
		{"80710100FBEFBE", `"++++"`},
		{"807401000241", `"QQ=="`},
		{"8081FF", "\"\uFFFD\""},
		{"80E503020102D0", "[1,2,null]"}, // The number of items is not needed.
		{"80F0CD020000803F000000C0", "[1,-2]"},
		{"80CC000000000000F07F", `"Infinity"`},
		{"80CC010000000000F07F", `"NaN"`},
		{"80CC0000000000000080", "-0"},
		{"80CC0000A0DEC5ADC943", "3.700705163753816E+18"},
		{"80CCF168E388B5F8E43E", "1E-05"},
		{"80CC2D431CEBE2361A3F", "0.0001"},
		{"80E205C3058161D0", `["a","a",null]`}, // A reference forward.
		{"80EA0681610181610A", `{"a":1,"a":10}`},
		{"80CDCDCCCC3D", "0.1"},
		{"80DD0141", `"QQ=="`},
		{"80D341014202430344044101420243034404", `"02420141-0343-0444-4101-420243034404"`},
	} {
		text, rest, err := AppendText(nil, unhex(t, test.hex), ample)
		if err != nil || len(rest) > 0 || string(text) != test.want {
			t.Errorf("%s: %s, %X, %v, want %s", test.hex, text, rest, err, test.want)
		}
	}
	for _, bad := range []string{
		"", "00", "7B7D", "80", "80E5020301", "80F0CF02003C0040", "80F0DC0201000000FFFFFFFF",
		"80E2048161C302", // a reference to an array
		"80E203C3032C",   // a reference to a string of the table
		"80E203C303",     // a reference to itself
		"80780341F1",     // half a byte too many
		"80710003",       // more bytes missing than there are
		"80C2FFFFFFFF", "80E4FFFFFFFF", "80E7FFFFFFFF01000000", "80F2F1D70101", "80E90101",
	} {
		dst := []byte("before")
		text, _, err := AppendText(dst, unhex(t, bad), ample)
		if !errors.Is(err, ErrInvalid) || string(text) != "before" {
			t.Errorf("%s: %s, %v", bad, text, err)
		}
	}
}

// What follows a document is returned.
func TestRest(t *testing.T) {
	text, rest, err := AppendText(nil, []byte{first, 1, 2, 3}, 1)
	if string(text) != "1" || !bytes.Equal(rest, []byte{2, 3}) || err != nil {
		t.Errorf("%s, %v, %v", text, rest, err)
	}
}

// A few bytes can expand to a lot of text. Reading stops at the limit; the test tries
// both sides of it.
func TestLimit(t *testing.T) {
	long := bytes.Repeat([]byte("a"), 60_000)
	b := append([]byte{first, arrayL4, 0, 0, 0, 0, string2, 0x60, 0xEA}, long...)
	for range 30_000 {
		b = append(b, reference1, 6)
	}
	n := len(b) - 6
	copy(b[2:], []byte{byte(n), byte(n >> 8), byte(n >> 16), 0})
	allocated := testing.AllocsPerRun(1, func() {
		if _, _, err := AppendText(nil, b, 2<<20); !errors.Is(err, ErrTooLong) {
			t.Error(err)
		}
	})
	if allocated > 200 {
		t.Errorf("%v allocations", allocated)
	}
	for _, text := range []string{`"abc"`, `[1,2]`, `{"id":1}`, "255", `[1.5,2.5]`} {
		b, err := Append(nil, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := AppendText(nil, b, len(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if _, _, err := AppendText(nil, b, len(text)-1); !errors.Is(err, ErrTooLong) {
			t.Errorf("%s with a limit less by one: %v", text, err)
		}
	}
	// 65,535 rows of no numbers, and of 65,535 numbers that are not there.
	if _, _, err := AppendText(nil, []byte{first, matrix2, numbers2, uint8Of, 0, 0, 0xFF, 0xFF}, 1000); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if _, _, err := AppendText(nil, []byte{first, matrix2, numbers2, int64Of, 0xFF, 0xFF, 0xFF, 0xFF}, 1000); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestDepth(t *testing.T) {
	for _, test := range []struct {
		depth int
		want  error
	}{{depthMax, nil}, {depthMax + 1, ErrTooDeep}} {
		b := append([]byte{first}, bytes.Repeat([]byte{array1}, test.depth)...)
		if _, _, err := AppendText(nil, append(b, 1), ample); !errors.Is(err, test.want) {
			t.Errorf("reading %d: %v", test.depth, err)
		}
		text := strings.Repeat("[", test.depth) + strings.Repeat("]", test.depth)
		if _, err := Append(nil, []byte(text)); !errors.Is(err, test.want) {
			t.Errorf("writing %d: %v", test.depth, err)
		}
	}
	if depthMax != value.DepthMax {
		t.Error("the text form has another bound")
	}
}

func TestWrite(t *testing.T) {
	for _, test := range []struct{ text, hex string }{
		{" [ 1 , \"abc\" ,\"abc\",\n\"abc\" ] ", "80E2090183616263C304C304"},
		{`{"abc":"abc","ab":"ab","a":"a","b":"a"}`, "80EA1383616263C303826162C3098161816181628161"},
		{`{"k":[{"key":"v1","kez":"v1"},{"key":"v2","kez":"v2"}]}`, "80E9816BE21AEA0D836B6579827631836B657AC30CEA09C308827632C30FC319"},
		{`"\ud83d\ude00\/\u007f\b\f\n\r\t\"\\"`, "808DF09F98802F7F080C0A0D09225C"},
		{`"\ud800x\udc00"`, "8087EFBFBD78EFBFBD"},
		{`"\ud800\u0041"`, "8084EFBFBD41"},
		{"-0.0", "80CC0000000000000080"},
		{"-9223372036854775809", "80CC000000000000E0C3"},
		{"-9223372036854775808", "80CB0000000000000080"},
		{"1e2", "80CC0000000000005940"},
	} {
		b, err := Append(nil, []byte(test.text))
		if got := strings.ToUpper(hex.EncodeToString(b)); err != nil || got != test.hex {
			t.Errorf("%s: %s, %v, want %s", test.text, got, err, test.hex)
		}
	}
	for _, bad := range []string{
		"", " ", "x", "nul", "tru", "-", "01", "1.", "1e", "1e+", "+1", "[", "[1", "[1,", "[1,]", "[1 2]", "[,1]",
		"{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,}`, `{"a" 1}`, `{1:1}`, `{"a":1 "b":2}`,
		`"`, `"a`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"\n\"", "\"\\n\n\"", "\"\xff\"", "\"\\n\xff\"", "1 2", "[]]", "nulll",
	} {
		dst, err := Append([]byte("before"), []byte(bad))
		if !errors.Is(err, ErrText) || string(dst) != "before" {
			t.Errorf("%q: %q, %v", bad, dst, err)
		}
	}
}

// Random documents come back as they were, also after other bytes.
func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		text := randomJSON(random, 0)
		b, err := Append([]byte("before"), text)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		got, rest, err := AppendText(nil, slices.Clone(b[6:]), ample)
		if err != nil || len(rest) > 0 || !sameJSON(got, text) {
			t.Fatalf("seed %d: %s: read %s, %X, %v", seed, text, got, rest, err)
		}
	}
}

func randomJSON(random *rand.Rand, depth int) []byte {
	kinds := 8
	if depth > 5 {
		kinds = 6
	}
	switch random.IntN(kinds) {
	case 0:
		return fmt.Appendf(nil, "%v", random.Uint64()>>random.IntN(64))
	case 1:
		return fmt.Appendf(nil, "%v", -random.Int64N(1<<(1+random.IntN(62))))
	case 2:
		return fmt.Appendf(nil, "%v", random.NormFloat64())
	case 3:
		return []byte([]string{"null", "true", "false"}[random.IntN(3)])
	case 4, 5:
		return value.AppendQuoted(nil, randomString(random))
	case 6:
		text := []byte("[")
		for i := range random.IntN(1 << random.IntN(8)) {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(text, randomJSON(random, depth+2)...)
		}
		return append(text, ']')
	}
	text := []byte("{")
	for i := range random.IntN(8) {
		if i > 0 {
			text = append(text, ',')
		}
		text = value.AppendQuoted(text, fmt.Sprint("name", random.IntN(40), randomString(random)))
		text = append(text, ':')
		text = append(text, randomJSON(random, depth+1)...)
	}
	return append(text, '}')
}

func randomString(random *rand.Rand) string {
	alphabet := []string{lowerHexDigits, upperHexDigits, dateTimeDigits, "abcd", "aé\U0001F600", "!\"#$%&'()*+,-./0123456789:;<=>?@", "a", "\x00\x1f\\"}[random.IntN(8)]
	runes := []rune(alphabet)
	out := make([]rune, random.IntN(1<<random.IntN(9)))
	for i := range out {
		out[i] = runes[random.IntN(len(runes))]
	}
	return string(out)
}

// Whatever the bytes are, reading ends within the limit, and text that was read is
// written and read as the same value.
func FuzzRead(f *testing.F) {
	for i, v := range vectors(f) {
		if i%7 == 0 {
			f.Add(unhex(f, *v.Hex))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 14
		text, _, err := AppendText(nil, b, limit)
		if err != nil {
			return
		}
		if len(text) > limit {
			t.Fatalf("%d bytes of text", len(text))
		}
		want, err := value.Parse(text)
		if err != nil {
			t.Fatalf("%X gives %q: %v", b, text, err)
		}
		again, err := Append(nil, text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		back, rest, err := AppendText(nil, again, 2*limit)
		if got, err2 := value.Parse(back); err != nil || err2 != nil || len(rest) > 0 || !value.Equal(got, want) {
			t.Fatalf("%X: %s, then %X: %s, %v", b, text, again, back, err)
		}
	})
}

// Append takes what value.Parse takes, but for depth and duplicates, and writes what
// reads as the same value.
func FuzzWrite(f *testing.F) {
	for i, v := range vectors(f) {
		if i%7 == 0 && v.Text != nil {
			f.Add([]byte(*v.Text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, parseErr := value.Parse(text)
		b, err := Append(nil, text)
		if err != nil {
			if parseErr == nil {
				t.Fatalf("%q is JSON: %v", text, err)
			}
			return
		}
		if parseErr != nil {
			return
		}
		back, rest, err := AppendText(nil, b, 1<<24)
		if got, err2 := value.Parse(back); err != nil || err2 != nil || len(rest) > 0 || !value.Equal(got, want) {
			t.Fatalf("%q: %X: %s, %v", text, b, back, err)
		}
	})
}

// A document of 1 KB: reading and writing it, next to parsing its text.
// Documents of 1 KB: one with a long string, which is packed, and one with many
// short values. Reading is compared with parsing the text, and writing with parsing
// and writing the text, since both also check it.
func BenchmarkDocument(b *testing.B) {
	const head = `{"id":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","TenantId":"Contoso","UserId":"Alice","SessionId":"0001","at":"2026-11-23T10:00:00Z","n":12345,"price":12.5,"tags":["a","b","c"],`
	short := []byte(head)
	for i := range 24 {
		short = fmt.Appendf(short, `"property%d":"value %d","count%d":%d,`, i, 7*i, i, i*i*i)
	}
	for _, document := range []struct {
		name string
		text []byte
	}{
		{"long string", fmt.Appendf(nil, `%s"pad":%q}`, head, strings.Repeat("The quick brown fox. ", 40))},
		{"short values", append(short, `"end":null}`...)},
	} {
		text := document.text
		binary, err := Append(nil, text)
		if err != nil {
			b.Fatal(err)
		}
		buffer := make([]byte, 0, 4096)
		for _, step := range []struct {
			name string
			do   func() error
		}{
			{"read binary", func() error { _, _, err := AppendText(buffer, binary, ample); return err }},
			{"parse text", func() error { _, err := value.Parse(text); return err }},
			{"write binary", func() error { _, err := Append(buffer, text); return err }},
			{"write text", func() error {
				v, err := value.Parse(text)
				v.Append(buffer)
				return err
			}},
		} {
			b.Run(document.name+"/"+step.name, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if err := step.do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
