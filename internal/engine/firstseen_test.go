package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// TestGroupsAsFirstSeen shows that groups and distinct rows come in the order in which
// the same query without GROUP BY and DISTINCT first has them (F29): in one partition
// and in several, from the index and from documents, with filters, in pages of any size.
func TestGroupsAsFirstSeen(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 29))
	e := build(t)
	fill(t, e, 0, 60)
	for _, n := range []int{1, 2, 5} {
		divide(t, e, partitionkey.Full(), n)
		fill(t, e, 60*n, 60*n+40) // with numbers of the new partitions
		for _, key := range []string{"c.n", "c.pk", "c.long", "c.n > 2", "c.none", "t"} {
			for _, filter := range []string{"", " WHERE c.n > 1", ` WHERE c.id >= "3"`, " WHERE c.pk IN (1, 2, 3, 5)", " WHERE IS_DEFINED(c.long)"} {
				from := " FROM c"
				if key == "t" {
					from += " JOIN t IN c.tags"
				}
				scan, _ := pages(t, e, QueryRequest{Text: "SELECT " + key + " AS k" + from + filter})
				want := firstOf(scan)
				for _, text := range []string{"SELECT DISTINCT " + key + " AS k" + from + filter, "SELECT " + key + " AS k" + from + filter + " GROUP BY " + key} {
					req := QueryRequest{Text: text, MaxItems: []int{0, 1, 3}[r.IntN(3)]}
					if got, _ := pages(t, e, req); !slices.Equal(got, want) {
						t.Errorf("F29, seed %d: %s over %d partitions in pages of %d:\ngot  %v\nwant %v", seed, text, n, req.MaxItems, got, want)
					}
				}
			}
		}
	}
}

// firstOf returns the rows without those that came before.
func firstOf(rows []string) (out []string) {
	for _, row := range rows {
		if !slices.Contains(out, row) {
			out = append(out, row)
		}
	}
	return out
}

// TestGroupsOverSplits shows that pages of groups continue over splits: no group is lost
// or repeated, whether the token names the groups returned before or not (F29).
func TestGroupsOverSplits(t *testing.T) {
	t.Parallel()
	e := build(t)
	fill(t, e, 0, 200)
	const text = "SELECT DISTINCT VALUE c.id FROM c"
	for n, size := range []int{7, 90} {
		divide(t, e, partitionkey.Full(), 2*n+1)
		want, list := pages(t, e, QueryRequest{Text: text, MaxItems: size})
		divide(t, e, partitionkey.Full(), 2*n+3)
		for _, at := range list {
			if token, ok := decodeContinuation(at.token); !ok || (len(token.Seen) == len(at.rows)) != (len(at.rows) <= 64) {
				t.Fatalf("the token after %d groups names %d", len(at.rows), len(token.Seen))
			}
			rest, _ := pages(t, e, QueryRequest{Text: text, MaxItems: 2 * size, Continuation: at.token})
			all := slices.Concat(at.rows, rest)
			if len(all) != 200 || len(firstOf(all)) != 200 {
				t.Errorf("F29: split after %d groups: %d groups, %d different", len(at.rows), len(all), len(firstOf(all)))
			}
			if !sameRows(all, want) {
				t.Errorf("F29: split after %d groups: %v", len(at.rows), all)
			}
		}
	}
}

// TestGroupTokens shows that a token that names groups stays below 1 KB, and that a token
// of a version that returned groups in the order of keys is refused (F29).
func TestGroupTokens(t *testing.T) {
	t.Parallel()
	e := build(t)
	fill(t, e, 0, 20)
	const text = "SELECT DISTINCT VALUE c.id FROM c"
	_, list := pages(t, e, QueryRequest{Text: text, MaxItems: 5})
	at, _ := decodeContinuation(list[0].token)
	for _, bound := range []int{16, 48, 250} {
		long := at
		long.Range = partitionkey.Range{Min: partitionkey.EPK(strings.Repeat("\x01", bound)), Max: partitionkey.EPK(strings.Repeat("\x02", bound))}
		long.Seen = slices.Repeat([]uint64{math.MaxUint64}, 64)
		token := long.String()
		got, ok := decodeContinuation(token)
		if named := bound < 250; !ok || len(token) >= 1024 || (len(got.Seen) == 64) != named {
			t.Errorf("bounds of %d bytes: a token of %d bytes names %d groups, %v", bound, len(token), len(got.Seen), ok)
		}
	}
	at.Position.Key, at.Seen = []byte{1}, nil
	req := QueryRequest{Link: Link{Database: "d", Container: "c"}, Text: text, Full: true, Cross: true, Continuation: at.String()}
	if _, err := e.Query(t.Context(), auth.Owner(), req); status.CodeOf(err) != status.CodeBadRequest {
		t.Errorf("a token with an order key: %v", err)
	}
}
