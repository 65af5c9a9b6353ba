package resolver_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/decandb/decan/resolver"
)

// vectorFile is the form of testdata/consistent-hash-ring.json: what the legacy
// SDKs computed and, for .NET, what was derived from its published behaviour.
type vectorFile struct {
	Murmur []struct {
		Type  string
		Input json.RawMessage
		Seed  uint32
		Hash  uint32
	} `json:"murmur3_32"`
	Rings        []ringVector
	Movement     []movementVector
	MD5          []ringVector `json:"md5Utf8Rings"`
	DotNet       []ringVector `json:"dotnetRings"`
	DotNetString []struct {
		Input string
		X64   int32 `json:"netfx-x64"`
		X86   int32 `json:"netfx-x86"`
	} `json:"dotnetStringHash"`
	Ranges []rangeVector
}

type ringVector struct {
	ID               string
	Links            []string
	VirtualNodes     int `json:"virtualNodesPerCollection"`
	Effective        int `json:"effectiveVirtualNodes"`
	RingLength       int
	StringHash       string
	NodeStringHashes []int32
	Ring             [][2]json.RawMessage
	RingHead         [][2]json.RawMessage
	RingTail         [][2]json.RawMessage
	RingSHA256       string `json:"ringSha256"`
	RingSHA256Input  string `json:"ringSha256Input"`
	Lookups          []struct {
		Key     string
		KeyHash json.RawMessage
		Create  *int
		Read    []int
		Node    *int
	}
}

type movementVector struct {
	ID            string
	Before, After []string
	VirtualNodes  int `json:"virtualNodesPerCollection"`
	KeyCount      int
	Moved         int
	Changed       int   `json:"movedInvolvingChangedCollection"`
	Unchanged     int   `json:"movedBetweenUnchangedCollections"`
	CountsBefore  []int `json:"countsBefore"`
	CountsAfter   []int `json:"countsAfter"`
}

type rangeVector struct {
	ID, Compare string
	Entries     []struct {
		Low, High json.RawMessage
		Link      string
	}
	Reads []struct {
		Query json.RawMessage
		Links []string
	}
	Creates []struct {
		Key         json.RawMessage
		Link, Error string
	}
}

func vectors(t *testing.T) vectorFile {
	t.Helper()
	text, err := os.ReadFile("testdata/consistent-hash-ring.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectorFile
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func targets(names ...string) []resolver.Target {
	list := make([]resolver.Target, len(names))
	for i, name := range names {
		list[i].Name = name
	}
	return list
}

func TestMurmurVectors(t *testing.T) {
	for _, v := range vectors(t).Murmur {
		var input string
		switch v.Type {
		case "string":
			if err := json.Unmarshal(v.Input, &input); err != nil {
				t.Fatal(err)
			}
		case "uint32-le":
			n, err := strconv.ParseUint(string(v.Input), 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			input = string(binary.LittleEndian.AppendUint32(nil, uint32(n)))
		case "bytes":
			var list []int
			if err := json.Unmarshal(v.Input, &list); err != nil {
				t.Fatal(err)
			}
			for _, b := range list {
				input += string([]byte{byte(b)})
			}
		default:
			t.Fatalf("unknown input type %q", v.Type)
		}
		if got := resolver.MurmurSum(input, v.Seed); got != v.Hash {
			t.Errorf("murmur3-32(%q, seed %d) = %d, want %d", input, v.Seed, got, v.Hash)
		}
	}
}

// TestXXHash64 uses the published test values of xxHash64 with seed 0.
func TestXXHash64(t *testing.T) {
	for text, want := range map[string]uint64{
		"":    0xEF46DB3751D8E999,
		"a":   0xD24EC4F1A98C6E5B,
		"abc": 0x44BC2CF5AD770999,
		"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
	} {
		if got := resolver.XXSum(text); got != want {
			t.Errorf("xxhash64(%q) = %#x, want %#x", text, got, want)
		}
	}
}

// TestLegacyMurmurRings checks the rings of the Node, Java and Python SDKs,
// including ones with 16 and 128 virtual nodes (S160, S168, S170, S195).
func TestLegacyMurmurRings(t *testing.T) {
	for _, v := range vectors(t).Rings {
		t.Run(v.ID, func(t *testing.T) {
			config := resolver.LegacyMurmur(targets(v.Links...)...)
			config.VirtualNodes = v.VirtualNodes // 0, the default, is 128
			checkRing(t, v, config)
		})
	}
}

// TestLegacyMD5Rings checks rings of the Node SDK with MD5 as its hash (S169).
func TestLegacyMD5Rings(t *testing.T) {
	for _, v := range vectors(t).MD5 {
		t.Run(v.ID, func(t *testing.T) {
			checkRing(t, v, resolver.RingConfig{Targets: targets(v.Links...), VirtualNodes: v.VirtualNodes, Hash: resolver.MD5, Layout: resolver.LayoutPredecessor})
		})
	}
}

// TestDerivedDotNetRings checks rings that were derived from the published
// behaviour of the .NET SDK on the .NET Framework, not recorded from a run
// (S169).
func TestDerivedDotNetRings(t *testing.T) {
	for _, v := range vectors(t).DotNet {
		t.Run(v.ID, func(t *testing.T) {
			processBits := 64
			if v.StringHash == "netfx-x86" {
				processBits = 32
			}
			config := resolver.LegacyDotNet(processBits, targets(v.Links...)...)
			config.VirtualNodes = v.VirtualNodes
			checkRing(t, v, config)
		})
	}
	for _, v := range vectors(t).DotNetString {
		if got := resolver.FrameworkHash64(v.Input); got != v.X64 {
			t.Errorf("x64 string hash of %q = %d, want %d", v.Input, got, v.X64)
		}
		if got := resolver.FrameworkHash32(v.Input); got != v.X86 {
			t.Errorf("x86 string hash of %q = %d, want %d", v.Input, got, v.X86)
		}
	}
}

func checkRing(t *testing.T, v ringVector, config resolver.RingConfig) {
	t.Helper()
	ring, err := resolver.NewRing(config)
	if err != nil {
		t.Fatal(err)
	}
	digests, owners := ring.RingPoints()
	points := make([]string, len(digests))
	for i := range digests {
		points[i] = fmt.Sprintf("%s:%d", digestText(config.Hash, digests[i]), owners[i])
	}
	if v.RingLength != 0 && len(points) != v.RingLength {
		t.Errorf("the ring has %d points, want %d", len(points), v.RingLength)
	}
	checkPoints(t, "ring", points[:min(len(points), len(v.Ring))], v.Ring)
	checkPoints(t, "head", points[:min(len(points), len(v.RingHead))], v.RingHead)
	checkPoints(t, "tail", points[max(0, len(points)-len(v.RingTail)):], v.RingTail)
	if v.RingSHA256 != "" {
		checkRingSum(t, v, digests, owners)
	}
	if len(v.Lookups) == 0 {
		t.Error("the case has no look-ups")
	}
	for _, l := range v.Lookups {
		if got, want := digestText(config.Hash, config.Hash.Sum(l.Key)), strings.Trim(string(l.KeyHash), `"`); got != want {
			t.Errorf("hash of %q = %s, want %s", l.Key, got, want)
		}
		want := l.Node
		if want == nil {
			want = l.Create
		}
		if got := ring.Owner(l.Key).Name; got != v.Links[*want] {
			t.Errorf("owner of %q = %s, want %s", l.Key, got, v.Links[*want])
		}
		read, err := ring.ForRead(resolver.Keys(l.Key))
		if err != nil || len(read) != 1 || l.Read != nil && (len(l.Read) != 1 || read[0].Name != v.Links[l.Read[0]]) {
			t.Errorf("read of %q = %v, %v, want %v", l.Key, read, err, l.Read)
		}
	}
}

func checkPoints(t *testing.T, part string, got []string, want [][2]json.RawMessage) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d points, want %d", part, len(got), len(want))
		return
	}
	for i := range want {
		if text := strings.Trim(string(want[i][0]), `"`) + ":" + string(want[i][1]); got[i] != text {
			t.Errorf("%s: point %d is %s, want %s", part, i, got[i], text)
		}
	}
}

func digestText(hash resolver.Hash, d resolver.Digest) string {
	if hash == resolver.Murmur3 {
		return strconv.FormatUint(d.High, 10)
	}
	return fmt.Sprintf("%016x%016x", d.High, d.Low)
}

func checkRingSum(t *testing.T, v ringVector, digests []resolver.Digest, owners []int) {
	t.Helper()
	var lines []string
	for i, d := range digests {
		lines = append(lines, fmt.Sprintf("%d:%d", d.High, owners[i]))
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	if got := hex.EncodeToString(sum[:]); got != v.RingSHA256 {
		t.Errorf("ring sum = %s, want %s over %s", got, v.RingSHA256, v.RingSHA256Input)
	}
}

// TestLegacyMovement checks how many of 2,000 keys a change of collections moves
// (S167).
func TestLegacyMovement(t *testing.T) {
	for _, v := range vectors(t).Movement {
		t.Run(v.ID, func(t *testing.T) {
			var keys []string
			for i := range v.KeyCount {
				keys = append(keys, fmt.Sprint("J", i))
			}
			ring := func(links []string) *resolver.Ring {
				config := resolver.LegacyMurmur(targets(links...)...)
				config.VirtualNodes = v.VirtualNodes
				r, err := resolver.NewRing(config)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			before, after := ring(v.Before), ring(v.After)
			m := resolver.MovementOf(before, after, keys)
			changed := 0
			for pair, n := range m.Pairs {
				if !slices.Contains(v.Before, pair[1]) || !slices.Contains(v.After, pair[0]) {
					changed += n
				}
			}
			if m.Moved != v.Moved || changed != v.Changed || m.Moved-changed != v.Unchanged {
				t.Errorf("moved %d, %d of them from or to the changed one, want %d, %d", m.Moved, changed, v.Moved, v.Changed)
			}
			checkCounts(t, before, keys, v.Before, v.CountsBefore)
			checkCounts(t, after, keys, v.After, v.CountsAfter)
		})
	}
}

func checkCounts(t *testing.T, ring *resolver.Ring, keys, links []string, want []int) {
	t.Helper()
	counts := resolver.SpreadOf(ring, keys).Counts
	for i, link := range links {
		if counts[link] != want[i] {
			t.Errorf("%s has %d keys, want %d", link, counts[link], want[i])
		}
	}
}

// TestLegacyRanges checks the answers of the legacy Node SDK, repeated links
// included (S172, S174).
func TestLegacyRanges(t *testing.T) {
	for _, v := range vectors(t).Ranges {
		t.Run(v.ID, func(t *testing.T) {
			if v.Compare == "numeric" {
				checkRanges(t, v, func(raw json.RawMessage) float64 {
					f, err := strconv.ParseFloat(string(raw), 64)
					if err != nil {
						t.Fatal(err)
					}
					return f
				})
				return
			}
			// The SDK compared values as text if it had no compare function.
			checkRanges(t, v, func(raw json.RawMessage) string {
				var text string
				if json.Unmarshal(raw, &text) != nil {
					text = string(raw)
				}
				return text
			})
		})
	}
}

func checkRanges[T cmp.Ordered](t *testing.T, v rangeVector, value func(json.RawMessage) T) {
	t.Helper()
	interval := func(low, high json.RawMessage) resolver.Interval[T] {
		if high == nil {
			return resolver.Point(value(low))
		}
		return resolver.Closed(value(low), value(high))
	}
	var entries []resolver.RangeEntry[T]
	for _, e := range v.Entries {
		entries = append(entries, resolver.RangeEntry[T]{Interval: interval(e.Low, e.High), Target: resolver.Target{Name: e.Link}})
	}
	r, err := resolver.NewRange(entries, resolver.RangeOptions{FirstWins: true, Repeat: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Reads {
		found, err := r.ForRead(rangeQuery(t, c.Query, value, interval))
		got := []string{}
		for _, target := range found {
			got = append(got, target.Name)
		}
		if err != nil || !slices.Equal(got, c.Links) {
			t.Errorf("read %s = %q, %v, want %q", c.Query, got, err, c.Links)
		}
	}
	for _, c := range v.Creates {
		target, err := r.ForWrite(value(c.Key))
		if target.Name != c.Link || (err != nil) != (c.Error != "") {
			t.Errorf("create %s = %q, %v, want %q, %s", c.Key, target.Name, err, c.Link, c.Error)
		}
	}
}

// rangeQuery parses a query of the vectors: null, a value, a range, or a list of
// values and ranges.
func rangeQuery[T any](t *testing.T, raw json.RawMessage, value func(json.RawMessage) T, interval func(low, high json.RawMessage) resolver.Interval[T]) resolver.Selection[T] {
	t.Helper()
	if string(raw) == "null" {
		return resolver.All[T]()
	}
	list := []json.RawMessage{raw}
	if raw[0] == '[' {
		list = nil
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
	}
	var intervals []resolver.Interval[T]
	for _, element := range list {
		ends := struct{ Low, High json.RawMessage }{Low: element}
		if element[0] == '{' {
			ends.Low = nil
			if err := json.Unmarshal(element, &ends); err != nil {
				t.Fatal(err)
			}
		}
		intervals = append(intervals, interval(ends.Low, ends.High))
	}
	return resolver.Between(intervals...)
}
