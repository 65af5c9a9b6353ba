package engine

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

var feedTestRID = resource.ContainerRID(resource.DatabaseRID(1), 1)

// tiled is a container whose partitions end at the given bounds, in hexadecimal;
// the last one ends the key space.
func tiled(t testing.TB, bounds ...string) *catalog.Container {
	t.Helper()
	c := &catalog.Container{}
	c.RID = feedTestRID
	var entries []partitionkey.Entry[resource.Partition]
	low := partitionkey.MinEPK
	for i, text := range append(bounds, "FF") {
		high, err := partitionkey.ParseEPK(text)
		if err != nil {
			t.Fatal(err)
		}
		r := partitionkey.Range{Min: low, Max: high}
		entries = append(entries, partitionkey.Entry[resource.Partition]{Range: r, Value: resource.Partition{ID: resource.PartitionID(i), Range: r}})
		low = high
	}
	ranges, err := partitionkey.NewRangeMap(entries)
	if err != nil {
		t.Fatal(err)
	}
	c.Ranges = ranges
	return c
}

// show returns the pieces of a token as partition, range and LSN.
func show(list []piece, first int) string {
	var parts []string
	for i, p := range list {
		mark := ""
		if i == first {
			mark = "*"
		}
		parts = append(parts, fmt.Sprintf("%s%d%v@%d", mark, p.partition.ID, p.clip, p.lsn))
	}
	return strings.Join(parts, " ")
}

// S111: a position is valid whatever partitions the container has when it is used:
// that of a parent for its children, those of two partitions for the merged one.
func TestFeedTokenInEveryShape(t *testing.T) {
	t.Parallel()
	full := partitionkey.Full()
	read := func(etag resource.ETag, c *catalog.Container, scope partitionkey.Range) (string, feedToken) {
		t.Helper()
		token, err := parseFeedToken(etag, feedTestRID, scope)
		if err != nil {
			t.Fatal(err)
		}
		return show(token.pieces(c, scope)), token
	}
	two := tiled(t, "10")
	got, token := read(`"7"`, two, full)
	if want := "*0[,10)@7 1[10,FF)@7"; got != want {
		t.Errorf("a number in two partitions is %s, want %s", got, want)
	}
	list, _ := token.pieces(two, full)
	list[0].lsn, list[1].lsn = 50, 20
	etag := token.next(list, 1).etag()
	for _, shape := range []struct {
		name  string
		c     *catalog.Container
		scope partitionkey.Range
		want  string
	}{
		{"as it was", two, full, "0[,10)@50 *1[10,FF)@20"},
		{"both were split", tiled(t, "08", "10", "20"), full, "0[,08)@50 1[08,10)@50 *2[10,20)@20 3[20,FF)@20"},
		{"they were merged", tiled(t), full, "0[,10)@50 *0[10,FF)@20"},
		{"other bounds", tiled(t, "18"), full, "0[,10)@50 *0[10,18)@20 1[18,FF)@20"},
		{"a part", tiled(t, "18"), partitionkey.Range{Min: "\x08", Max: "\x11"}, "0[08,10)@50 *0[10,11)@20"},
		{"a part without the one whose turn it is", two, partitionkey.Range{Min: "\x08", Max: "\x09"}, "*0[08,09)@50"},
	} {
		if got, _ := read(etag, shape.c, shape.scope); got != shape.want {
			t.Errorf("%s: %s, want %s", shape.name, got, shape.want)
		}
	}
	// When both have the same LSN again, the token is a number.
	list[1].lsn = 50
	if etag := token.next(list, 1).etag(); etag != `"50"` {
		t.Errorf("the token is %s", etag)
	}
	// But not if nothing has been read since a time: the token then needs the
	// time.
	token.since, list[0].lsn, list[1].lsn = 99, 0, 0
	if again, err := parseFeedToken(token.next(list, 0).etag(), feedTestRID, full); err != nil || again.since != 99 {
		t.Errorf("%+v, %v", again, err)
	}
}

// A token survives parsing, and its pieces tile the scope for any partitions.
func TestFeedTokenRoundTrip(t *testing.T) {
	t.Parallel()
	const seed = 5
	random := rand.New(rand.NewPCG(seed, 0))
	bounds := func() (list []string) {
		for at := random.IntN(20); at < 0x3F; at += 1 + random.IntN(20) {
			list = append(list, fmt.Sprintf("%02X", max(at, 1))+strings.Repeat("00", random.IntN(3)))
		}
		return list
	}
	for range 2000 {
		scope := partitionkey.Full()
		if random.IntN(2) == 0 {
			scope = partitionkey.Range{Min: partitionkey.EPK([]byte{byte(random.IntN(30)), 7}), Max: partitionkey.EPK([]byte{byte(31 + random.IntN(40))})}
		}
		token := feedToken{container: feedTestRID, since: int64(random.IntN(2)), min: scope.Min, entries: []feedEntry{{max: scope.Max}}}
		for range 3 {
			c := tiled(t, dedupe(bounds())...)
			list, first := token.pieces(c, scope)
			low := scope.Min
			for i := range list {
				if list[i].clip.Min.Compare(low) != 0 || !list[i].partition.Range.Covers(list[i].clip) {
					t.Fatalf("seed %d: %s do not tile %v", seed, show(list, first), scope)
				}
				low = list[i].clip.Max
				list[i].lsn += resource.LSN(random.IntN(2))
			}
			if low.Compare(scope.Max) != 0 {
				t.Fatalf("seed %d: %s end before %v", seed, show(list, first), scope)
			}
			token = token.next(list, random.IntN(len(list)))
			again, err := parseFeedToken(token.etag(), feedTestRID, scope)
			if err != nil || again.etag() != token.etag() || show(again.pieces(c, scope)) == "" {
				t.Fatalf("seed %d: %s is read as %+v, %v", seed, token.etag(), again, err)
			}
		}
	}
}

func dedupe(bounds []string) (list []string) {
	for _, b := range bounds {
		if n := len(list); n == 0 || strings.TrimRight(list[n-1], "0") < strings.TrimRight(b, "0") {
			list = append(list, b)
		}
	}
	return list
}

// A text that is not a position of this feed is 400, on both sides of every
// limit.
func TestFeedTokenRefused(t *testing.T) {
	t.Parallel()
	full := partitionkey.Full()
	token := feedToken{container: feedTestRID, min: "", entries: []feedEntry{{max: "\x10", lsn: 3}, {max: partitionkey.MaxEPK, lsn: 5}}}
	good := string(token.etag())
	other, narrow, backwards, empty, turn, far := token, token, token, token, token, token
	other.container = resource.ContainerRID(resource.DatabaseRID(1), 2)
	narrow.entries = token.entries[:1:1]
	narrow.since, narrow.entries[0].lsn = 9, 0
	backwards.entries = []feedEntry{{max: "\x20", lsn: 1}, {max: "\x10", lsn: 2}}
	empty.entries = nil
	turn.turn = 2
	far.entries = []feedEntry{{max: "\x10", lsn: 3}, {max: "\xff\x01", lsn: 5}}
	for name, etag := range map[string]string{
		"letters": `"abc"`, "nothing": `""`, "one quote": `"`, "half quoted": `"43`, "negative": `"-1"`, "too large": `"18446744073709551616"`,
		"weak": `W/"43"`, "a blank": `" 43"`, "another container": string(other.etag()), "another scope": string(narrow.etag()),
		"backwards": string(backwards.etag()), "no entries": unsimple(empty), "turn": string(turn.etag()), "beyond the key space": string(far.etag()),
		"cut": good[:len(good)-2] + `"`, "padded": good[:len(good)-1] + `="`, "long": `"` + strings.Repeat("A", feedTokenCharsMax+1) + `"`,
		"a query's": `"` + continuation{Range: full}.String() + `"`,
		"changed":   good[:12] + string(good[12]^1) + good[13:],
	} {
		if _, err := parseFeedToken(resource.ETag(etag), feedTestRID, full); status.CodeOf(err) != status.CodeBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, etag := range []string{good, strings.Trim(good, `"`), `"0"`, "43", `"18446744073709551615"`} {
		if _, err := parseFeedToken(resource.ETag(etag), feedTestRID, full); err != nil {
			t.Errorf("%s: %v", etag, err)
		}
	}
}

// unsimple returns the long form of t without entries, which etag never
// returns.
func unsimple(t feedToken) string {
	t.entries = []feedEntry{{max: "\x10", lsn: 3}, {max: partitionkey.MaxEPK, lsn: 5}}
	b, _ := base64.RawURLEncoding.DecodeString(strings.Trim(string(t.etag()), `"`))
	return `"` + base64.RawURLEncoding.EncodeToString(b[:feedTokenHead+3]) + `"`
}

func FuzzFeedToken(f *testing.F) {
	token := feedToken{container: feedTestRID, since: 1_700_000_000, turn: 1, min: "\x01", entries: []feedEntry{{max: "\x10", lsn: 3}, {max: partitionkey.MaxEPK, lsn: 5}}}
	f.Add(string(token.etag()))
	f.Add(`"43"`)
	f.Add(`""`)
	f.Add("*")
	c := tiled(f, "08", "10", "20")
	f.Fuzz(func(t *testing.T, text string) {
		scope := partitionkey.Range{Min: "\x02", Max: partitionkey.MaxEPK}
		token, err := parseFeedToken(resource.ETag(text), feedTestRID, scope)
		if err != nil {
			if status.CodeOf(err) != status.CodeBadRequest {
				t.Fatal(err)
			}
			return
		}
		list, first := token.pieces(c, scope)
		if first < 0 || first >= len(list) || list[0].clip.Min != scope.Min || list[len(list)-1].clip.Max != scope.Max {
			t.Fatalf("%q is %s", text, show(list, first))
		}
		next := token.next(list, first)
		if again, err := parseFeedToken(next.etag(), feedTestRID, scope); err != nil || again.etag() != next.etag() {
			t.Fatalf("%q continues at %q, which is %v", text, next.etag(), err)
		}
	})
}
