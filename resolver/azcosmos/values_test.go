package azcosmos_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/decantest"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/resolver/azcosmos"
)

// edges are values that are easily confused with each other.
var edges = []string{
	`null`, `false`, `true`, `-9223372036854775808`, `-9223372036854775809`, `-1.5`, `-0`, `0.0`, `0.5`, `1`, `1.0`, `1e0`, `9007199254740992`, `9007199254740993`, `9.007199254740992e15`, `9007199254740993.0`, `9007199254740993e0`,
	`9223372036854775807`, `9223372036854775808`, `1e19`, `1.7976931348623157e308`, `""`, `"a"`, `"é"`, `"\u00e9"`, `"a\u0000"`, `"\ud83d\ude00"`, `"\uffff"`,
	`[]`, `[9]`, `[10]`, `[9,0]`, `[[9]]`, `[9007199254740992]`, `[9007199254740993]`, `[null]`, `{}`, `{"a":1}`, `{"a":1,"b":2}`, `{"b":2,"a":1}`, `{ "b" : 2.0, "a" : 1 }`, `{"a":1,"c":0}`, `{"b":0}`, `{"a":[{}]}`,
}

// agree checks that two values have the same order as in the database, and that
// DISTINCT treats them as equal if and only if the database does.
func agree(t *testing.T, a, b string) {
	t.Helper()
	left, errLeft := value.ParseString(a)
	right, errRight := value.ParseString(b)
	if errLeft != nil || errRight != nil {
		return // not what a service sends
	}
	if got, want := azcosmos.CompareValues(a, b), value.CompareOrder(left, right); got != want {
		t.Errorf("%s and %s compare as %d, want %d", a, b, got, want)
	}
	if got, want := azcosmos.Canonical(a) == azcosmos.Canonical(b), value.Equal(left, right); got != want {
		t.Errorf("%s and %s are one value: %v, want %v", a, b, got, want)
	}
}

// TestOrderOfValues compares values as docs/query.md describes: all pairs of
// edges, and random values.
func TestOrderOfValues(t *testing.T) {
	t.Parallel()
	for _, a := range edges {
		for _, b := range edges {
			agree(t, a, b)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		agree(t, drawn(r, 3), drawn(r, 3))
	}
}

// drawn returns a random JSON value made of few different parts, so that two
// values often share them.
func drawn(r *rand.Rand, depth int) string {
	kind := r.IntN(8)
	if kind < 4 || depth == 0 {
		return edges[r.IntN(len(edges))]
	}
	parts := make([]string, r.IntN(4))
	for i := range parts {
		parts[i] = drawn(r, depth-1)
		if kind >= 6 {
			parts[i] = fmt.Sprintf(`"%c":%s`, 'a'+r.IntN(3), parts[i])
		}
	}
	if kind >= 6 {
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// FuzzOrderOfValues compares any two values and expects the order of the
// database.
func FuzzOrderOfValues(f *testing.F) {
	for i, a := range edges {
		f.Add(a, edges[(i+1)%len(edges)])
	}
	f.Fuzz(agree)
}

// TestExactValues checks that three containers return what one container returns
// when values differ beyond the precision of a double, and when rows are ordered
// by arrays and objects, in one run and with tokens.
func TestExactValues(t *testing.T) {
	t.Parallel()
	server := decantest.New(t)
	account := map[string]*sdk.Client{"": connect(t, server)}
	targets := targetsOn(t, server, 4, "/userId", 1)
	one, group := static(t, ringState("/userId", targets[3:]), account), static(t, ringState("/userId", targets[:3]), account)
	documents := []string{`"big":9007199254740993`, `"big":9007199254740992`, `"big":9007199254740993,"list":[10]`, `"big":-1,"list":[9]`, `"list":[9,0]`, `"list":[]`}
	for i := range 18 {
		documents = append(documents, fmt.Sprintf(`"list":[%d,%d]`, i%5*7, i), fmt.Sprintf(`"list":{"b":%d, "a":[%d]}`, i, i%4*6))
	}
	for i, members := range documents {
		for _, client := range []*azcosmos.Client{one, group} {
			if _, err := client.Create(t.Context(), fmt.Appendf(nil, `{"id":"u%d","userId":"J%d",%s}`, i, i, members), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, q := range []struct{ text, want string }{
		{"SELECT VALUE SUM(c.big) FROM c", `27021597764222977 `},
		{"SELECT VALUE MIN(c.big) FROM c WHERE c.big > 0", `9007199254740992 `},
		{"SELECT VALUE MAX(c.big) FROM c", `9007199254740993 `},
		{"SELECT VALUE AVG(c.big) FROM c WHERE c.big < 0", `-1 `},
		{"SELECT DISTINCT VALUE c.big FROM c WHERE c.big > 0 ORDER BY c.big", `9007199254740992 9007199254740993 `},
		{"SELECT VALUE c.big FROM c WHERE c.big > 0 ORDER BY c.big DESC", `9007199254740993 9007199254740993 9007199254740992 `},
		{"SELECT VALUE c.list FROM c WHERE ARRAY_LENGTH(c.list) < 2 ORDER BY c.list", `[] [9] [10] `},
		{"SELECT VALUE c.list FROM c WHERE IS_DEFINED(c.list) ORDER BY c.list", ""},
		{"SELECT VALUE c.list FROM c WHERE IS_DEFINED(c.list) ORDER BY c.list DESC", ""},
	} {
		alone := all(t, one, q.text, nil)
		if text := strings.Join(alone, " ") + " "; q.want != "" && text != q.want {
			t.Errorf("one container: %s gives %s, want %s", q.text, text, q.want)
		}
		if got := all(t, group, q.text, nil); !slices.Equal(got, alone) {
			t.Errorf("%s gives %s\nwant %s", q.text, got, alone)
		}
		if got := byPages(t, group, q.text, azcosmos.QueryOptions{PageSize: 2}); !slices.Equal(got, alone) {
			t.Errorf("%s by tokens gives %s\nwant %s", q.text, got, alone)
		}
	}
}
