package partition

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// TestDocumentBytes pins what is on disk: docs/formats/document.md.
func TestDocumentBytes(t *testing.T) {
	t.Parallel()
	doc, err := value.Parse([]byte(`{"id":"x","b":[1,"é"]}`))
	if err != nil {
		t.Fatal(err)
	}
	row := newDocumentRow(16, []byte("key"), doc)
	v := version{number: 0x0102030405060708, lsn: 0x1112131415161718, ordinal: 0xABCDE, seq: 0x123, ts: 0x65000000}
	stamp(row, v)
	want := "\x01\x00" +
		"\x01\x02\x03\x04\x05\x06\x07\x08" +
		"\x11\x12\x13\x14\x15\x16\x17\x18" +
		"\x0A\xBC\xDE" +
		"\x00\x00\x01\x23" +
		"\x00\x00\x00\x00\x65\x00\x00\x00" +
		"\x15\x16\x17\x18\x13\x14\x11\x12\xAB\xCD\xE1\x23\x65\x00\x00\x00" +
		"\x10\x00\x03key" + `{"id":"x","b":[1,"é"]}`
	if string(row) != want {
		t.Errorf("got  %q\nwant %q", row, want)
	}
	d, err := decodeDocument(row)
	if err != nil {
		t.Fatal(err)
	}
	if d.version != v || string(d.key) != "key" || d.epkSize != 16 || string(d.body) != `{"id":"x","b":[1,"é"]}` {
		t.Errorf("got %+v", d)
	}
	if got, want := etagOf(d.etag), resource.ETag(`"15161718-1314-1112-abcd-e12365000000"`); got != want || !d.matches(want) {
		t.Errorf("etag %s, want %s", got, want)
	}
	if got := (state{lsn: 1, counter: 2, items: 3, bytes: 4, ts: 5}).append(nil); !bytes.Equal(got, []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05")) {
		t.Errorf("state %x", got)
	}
	if got := appendFeedValue(nil, 7, "0123456789abcdefABCDEFGHIJKLMNOP", 32); string(got) != "\x00\x00\x00\x00\x00\x00\x00\x0701234567ABCD" {
		t.Errorf("feed row %q", got)
	}
}

// FuzzDecodeDocument reads any bytes as a document row: it never panics, and
// what it takes can be completed into the size that was promised.
func FuzzDecodeDocument(f *testing.F) {
	row := newDocumentRow(16, []byte("key"), value.Object([]value.Member{{Name: "id", Value: value.String("x")}}))
	f.Add(row)
	f.Add(row[:offKey])
	f.Add(append([]byte{2}, row[1:]...))
	f.Add([]byte{})
	render := newRenderer(resource.ContainerRID(resource.DatabaseRID(1), 1))
	f.Fuzz(func(t *testing.T, row []byte) {
		d, err := decodeDocument(row)
		if err != nil {
			return
		}
		if got, want := len(render.complete(&d)), render.size(len(d.body), d.ts); got != want {
			t.Errorf("%d bytes, want %d", got, want)
		}
	})
}

// FuzzDecodeMeta reads any bytes as each of the other rows.
func FuzzDecodeMeta(f *testing.F) {
	f.Add(state{lsn: 1}.append(nil))
	f.Add(state{lsn: 2, purged: 1}.append(nil))
	f.Add(purges{{extent: partitionkey.Full(), key: []byte{8, 'x', 0xFF}, lsn: 1}}.append(nil))
	f.Add(totals{bytes: 1, items: 1}.append(nil))
	f.Add([]byte(`{"version":1,"policy":{"mode":"consistent"},"phase":"build"}`))
	f.Add([]byte(`{"version":1,"container":"AAAAAYAAAAE=","partitionKey":{"paths":["/a"],"kind":"Hash","version":2},"range":{"min":"","max":"FF"}}`))
	f.Fuzz(func(t *testing.T, row []byte) {
		if s, err := decodeState(row); err == nil && !bytes.Equal(s.append(nil), row) {
			t.Errorf("state %+v", s)
		}
		if l, err := decodePurges(row); err == nil && !bytes.Equal(l.append(nil), row) {
			t.Errorf("purges %+v", l)
		}
		if s, err := decodeTotals(row); err == nil && !bytes.Equal(s.append(nil), row) {
			t.Errorf("totals %+v", s)
		}
		if x, err := decodeIndexRow(row); err == nil && (x.Phase == settled) != (x.Other == nil) {
			t.Errorf("index %+v", x)
		}
		if d, err := decodeDescriptor(row); err == nil && d.Range.Empty() {
			t.Errorf("descriptor %+v", d)
		}
	})
}

// drawTerms draws sorted terms of paths below the given one, often several of a
// path, and returns the ids of the paths as text.
func drawTerms(random *rand.Rand, paths int) (terms []index.Term, ids []string) {
	for path := range paths {
		if random.IntN(3) == 0 {
			continue
		}
		id := fmt.Sprintf("%08d", path)
		ids = append(ids, id)
		for n := range 1 + random.IntN(3) {
			terms = append(terms, index.Term(fmt.Sprint(id, "value", n)))
		}
	}
	return terms, ids
}

func (s pathSet) list() (ids []string) {
	for part := range slices.Chunk(s, 8) {
		ids = append(ids, string(part))
	}
	return ids
}

// TestPathSet compares sets of paths with lists of words.
func TestPathSet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		paths := 1 + random.IntN(40)
		terms, ids := drawTerms(random, paths)
		set := pathsOf(terms)
		if got := set.list(); !slices.Equal(got, ids) {
			t.Fatalf("seed %d: paths of %q: got %q, want %q", seed, terms, got, ids)
		}
		others, otherIDs := drawTerms(random, paths)
		want := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(otherIDs, id) })
		got := set.in(others)
		if !slices.Equal(got.list(), want) {
			t.Fatalf("seed %d: of %q in %q: got %q, want %q", seed, ids, otherIDs, got.list(), want)
		}
		if !slices.Equal(set.list(), ids) {
			t.Fatalf("seed %d: the set has changed to %q", seed, set.list())
		}
		for path := range paths + 1 {
			id := fmt.Sprintf("%08d", path)
			if got, want := got.has(index.Term(id+"x")), slices.Contains(want, id); got != want {
				t.Fatalf("seed %d: has %s: %t, want %t", seed, id, got, want)
			}
		}
		again, err := decodePaths(got.append(nil))
		if err != nil || !slices.Equal(again, got) {
			t.Fatalf("seed %d: %x decodes to %x, %v", seed, got.append(nil), again, err)
		}
		if same := set.in(terms); len(set) > 0 && &same[0] != &set[0] {
			t.Fatalf("seed %d: a document with all paths makes a new set", seed)
		}
	}
}

// TestPathSetLimit has as many paths as a set keeps, and one more.
func TestPathSetLimit(t *testing.T) {
	t.Parallel()
	for _, paths := range []int{pathsMax - 1, pathsMax, pathsMax + 1} {
		var terms []index.Term
		for n := range paths {
			terms = append(terms, index.Term(fmt.Sprintf("%08dx", n)))
		}
		set := pathsOf(terms)
		if got, want := len(set.list()), min(paths, pathsMax); got != want {
			t.Errorf("%d paths: %d are kept, want %d", paths, got, want)
		}
		if got, want := set.has(terms[paths-1]), paths <= pathsMax; got != want {
			t.Errorf("%d paths: the last is kept: %t, want %t", paths, got, want)
		}
	}
}

// TestPathSetDamage decodes rows that nobody writes.
func TestPathSetDamage(t *testing.T) {
	t.Parallel()
	for _, row := range []string{"", "\x02", "\x01short", "\x0100000002" + "00000001", "\x0100000001" + "00000001", "\x0100000001" + "0000000"} {
		if set, err := decodePaths([]byte(row)); err == nil {
			t.Errorf("%q is %q, want an error", row, set.list())
		}
	}
}

// A short EPK never leaves out a document of the range, and leaves out most of
// the others.
func TestShortRange(t *testing.T) {
	t.Parallel()
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	for _, levels := range []int{1, 2, 3} {
		definition := partitionkey.Definition{Kind: partitionkey.KindHash, Version: 2, Paths: []string{"/a", "/b", "/c"}[:levels]}
		if levels > 1 {
			definition.Kind = partitionkey.KindMultiHash
		}
		width, outside, passed := epkWidth(definition), 0, 0
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
			near := newShortRange(r, width)
			_, short, err := decodeFeedValue(appendFeedValue(nil, 1, string(e), width))
			if err != nil {
				t.Fatal(err)
			}
			holds := near.holds(short)
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
		// Bounds that differ in the first level say nothing about the others: only
		// documents that share the first level with a bound are in doubt.
		if passed*2 > outside {
			t.Errorf("%d levels: %d of %d documents outside are not told apart", levels, passed, outside)
		}
	}
}

// Neither row is read wrongly, whatever is in it.
func FuzzCompleteRows(f *testing.F) {
	f.Add((&revision{change: deleted, epkSize: 16, suffix: make([]byte, 30), previous: []byte("x")}).append(nil))
	f.Add(keptList{{max: "a", after: 3}, {max: "b", after: 1}}.append(nil))
	f.Fuzz(func(t *testing.T, row []byte) {
		if e, err := decodeRevision(row); err == nil && string(e.append(nil)) != string(row) {
			t.Errorf("%x is read as %+v", row, e)
		}
		if l, err := decodeKept(row); err == nil && string(l.append(nil)) != string(row) {
			t.Errorf("%x is read as %+v", row, l)
		}
	})
}

// TestTTLOf looks at both sides of what is a time to live.
func TestTTLOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int32{
		`{}`: 0, `{"ttl":1}`: 1, `{"ttl":-1}`: -1, `{"ttl":2147483647}`: resource.TTLMax, `{"ttl":5.0}`: 5,
	} {
		doc, err := value.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := ttlOf(doc); !ok || got != want {
			t.Errorf("%s: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{`0`, `-2`, `2147483648`, `1.5`, `"1"`, `null`, `[1]`, `{}`, `true`, `1e300`} {
		doc, err := value.Parse([]byte(`{"ttl":` + text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := ttlOf(doc); ok || got != 0 {
			t.Errorf("%s is taken for %d", text, got)
		}
	}
}
