package storage

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestKeysRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		epk := make([]byte, []int{0, 8, 16, 32, 48}[r.IntN(5)])
		for i := range epk {
			epk[i] = byte(r.Uint32())
		}
		hash, number, lsn := r.Uint64(), r.Uint64(), r.Uint64()
		item := strings.Repeat("é\x00", r.IntN(5))
		key := DocumentKey([]byte("x"), epk, hash, item)[1:]
		gotEPK, gotHash, gotItem, err := DecodeDocumentKey(key, len(epk))
		if err != nil || !bytes.Equal(gotEPK, epk) || gotHash != hash || string(gotItem) != item {
			t.Fatalf("document key %x: %x %x %q %v", key, gotEPK, gotHash, gotItem, err)
		}
		suffix, err := DocumentSuffix(key)
		if err != nil || !bytes.Equal(DocumentKeyOf(nil, suffix), key) {
			t.Fatalf("document key %x has suffix %x, %v", key, suffix, err)
		}
		if got, err := DecodeRIDKey(RIDKey(nil, number)); err != nil || got != number {
			t.Fatalf("number %x: %x, %v", number, got, err)
		}
		ordinal, seq := r.Uint32()>>12, r.Uint32()
		if l, o, q, err := DecodeFeedKey(FeedKey(nil, lsn, ordinal, seq)); err != nil || l != lsn || o != ordinal || q != seq {
			t.Fatalf("feed key %d %d %d: %d %d %d %v", lsn, ordinal, seq, l, o, q, err)
		}
		if e, n, err := DecodeExpiryKey(ExpiryKey(nil, lsn, number)); err != nil || e != lsn || n != number {
			t.Fatalf("expiry key: %d %d %v", e, n, err)
		}
		path := binary.BigEndian.AppendUint64(nil, lsn)
		if p, n, err := DecodeVectorKey(VectorKey(nil, path, number)); err != nil || !bytes.Equal(p, path) || n != number {
			t.Fatalf("vector key: %x %d %v", p, n, err)
		}
		if e, h, err := DecodeLogicalKey(LogicalKey(nil, epk, hash)); err != nil || !bytes.Equal(e, epk) || h != hash {
			t.Fatalf("logical key: %x %x %v", e, h, err)
		}
		if e, h, k, v, err := DecodeUniqueKey(UniqueKey(nil, epk, hash, int(seq%256), append(path, path...))); err != nil || !bytes.Equal(e, epk) ||
			h != hash || k != int(seq%256) || !bytes.Equal(v, append(path, path...)) {
			t.Fatalf("unique key: %x %x %d %x %v", e, h, k, v, err)
		}
		if n, err := DecodeMetaKey(MetaKey(nil, item)); err != nil || string(n) != item {
			t.Fatalf("meta key: %q %v", n, err)
		}
		if len(epk) > 0 {
			if term, err := DecodeTermKey(TermKey(nil, epk)); err != nil || !bytes.Equal(term, epk) {
				t.Fatalf("term key: %x %v", term, err)
			}
			level := 1 + r.IntN(2)
			if l, e, err := DecodePrefixKey(PrefixKey(nil, level, epk)); err != nil || l != level || !bytes.Equal(e, epk) {
				t.Fatalf("prefix key: %d %x %v", l, e, err)
			}
			list, chunk, err := cutChunk(appendChunk(slices.Clone(epk), number>>16))
			if err != nil || !bytes.Equal(list, epk) || chunk != number>>16 {
				t.Fatalf("posting key: %x %x %v", list, chunk, err)
			}
		}
	}
}

// Keys sort like the values that they encode, and within the bounds of their family.
func TestKeyOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		a, b := r.Uint64()>>r.IntN(64), r.Uint64()>>r.IntN(64)
		oa, ob := r.Uint32()>>12, r.Uint32()>>12
		for name, pair := range map[string][2][]byte{
			"r":      {RIDKey(nil, a), RIDKey(nil, b)},
			"f":      {FeedKey(nil, a, oa, 1), FeedKey(nil, b, ob, 1)},
			"x":      {ExpiryKey(nil, a, b), ExpiryKey(nil, b, a)},
			"n":      {VectorKey(nil, "the path", a), VectorKey(nil, "the path", b)},
			"chunks": {appendChunk([]byte("tl"), a>>16), appendChunk([]byte("tl"), b>>16)},
			"q":      {LogicalKey(nil, "same epk", a), LogicalKey(nil, "same epk", b)},
			"d":      {DocumentKey(nil, "same epk", a, "i"), DocumentKey(nil, "same epk", b, "i")},
		} {
			less := a < b
			if name == "chunks" {
				less = a>>16 < b>>16
			}
			if a != b && less != (bytes.Compare(pair[0], pair[1]) < 0) {
				t.Fatalf("%s: keys of %x and %x are in the wrong order", name, a, b)
			}
			family, ok := FamilyOf(pair[0])
			low, high := family.Bounds()
			if !ok || bytes.Compare(pair[0], low) < 0 || bytes.Compare(pair[0], high) >= 0 {
				t.Fatalf("%s: key %x is outside family %s", name, pair[0], family)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	in := func(key, low, high []byte) bool {
		return bytes.Compare(key, low) >= 0 && bytes.Compare(key, high) < 0
	}
	low, high := DocumentBounds("\x10", "\x20")
	for epk, want := range map[string]bool{"\x0f\xff": false, "\x10": true, "\x1f\xff": true, "\x20": false, "\x20\x01": false} {
		if got := in(DocumentKey(nil, epk, 0, "i"), low, high); got != want {
			t.Errorf("epk %x in [10,20) = %v, want %v", epk, got, want)
		}
	}
	low, high = VectorBounds("12345\xff\xff\xff")
	for path, want := range map[string]bool{"12345\xff\xff\xff": true, "123460\x00\x00": false, "12345\xff\xff\xfe": false} {
		if got := in(VectorKey(nil, path, 1<<64-1), low, high); got != want {
			t.Errorf("vectors of %x in the bounds of another = %v, want %v", path, got, want)
		}
	}
	low, high = LogicalBounds("", "\xff")
	if !in(LogicalKey(nil, "\xfe", 9), low, high) || in(DocumentKey(nil, "\xfe", 9, ""), low, high) {
		t.Error("the whole range of 'q' is not its family")
	}
	low, high = FeedBounds(5, 7)
	for lsn, want := range map[uint64]bool{4: false, 5: true, 7: true, 8: false} {
		if got := in(FeedKey(nil, lsn, 1<<20-1, 1<<32-1), low, high); got != want {
			t.Errorf("lsn %d in 5..7 = %v, want %v", lsn, got, want)
		}
	}
	low, high = FeedBounds(5, 1<<64-1)
	if !in(FeedKey(nil, 1<<64-1, 1<<20-1, 1<<32-1), low, high) || in(TermKey(nil, "x"), low, high) {
		t.Error("the end of the feed is not its end")
	}
}

func TestDamagedKeys(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, {}, {'z'}, {'d'}, {'r', 1}, {'f', 1, 2}, {'x'}, {'q', 1}, {'t'}, {'u', 1}, {'l', 1}, bytes.Repeat([]byte{'z'}, 30), bytes.Repeat([]byte{'r'}, 30)} {
		_, _, _, docErr := DecodeDocumentKey(key, 16)
		_, ridErr := DecodeRIDKey(key)
		_, _, _, feedErr := DecodeFeedKey(key)
		_, _, expiryErr := DecodeExpiryKey(key)
		_, _, _, _, uniqueErr := DecodeUniqueKey(key)
		_, _, logicalErr := DecodeLogicalKey(key)
		_, termErr := DecodeTermKey(key)
		_, _, prefixErr := DecodePrefixKey(key)
		_, _, vectorErr := DecodeVectorKey(key)
		_, metaErr := DecodeMetaKey(key)
		_, suffixErr := DocumentSuffix(key)
		for name, err := range map[string]error{
			"document": docErr, "rid": ridErr, "feed": feedErr, "expiry": expiryErr, "unique": uniqueErr,
			"logical": logicalErr, "vector": vectorErr, "term": termErr, "prefix": prefixErr, "meta": metaErr, "suffix": suffixErr,
		} {
			if err == nil {
				t.Errorf("%x is accepted as a %s key", key, name)
			}
		}
	}
	if _, ok := FamilyOf([]byte("zzz")); ok {
		t.Error("z was accepted as a family")
	}
	if _, _, err := cutChunk([]byte("123456")); err == nil {
		t.Error("a key of chunk alone is accepted")
	}
}
