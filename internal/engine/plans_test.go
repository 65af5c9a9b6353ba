package engine

import (
	"container/list"
	"fmt"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/value"
)

// Different lists of parameters have different keys, also if a name contains the
// bytes at the end of another value, or a value is missing.
func TestPlanKeysDiffer(t *testing.T) {
	t.Parallel()
	name := "@" + strings.Repeat("n", 52)
	seen := map[string]int{}
	for i, params := range [][]query.Param{
		{{Name: "@a", Value: value.Int(1)}, {Name: name, Value: value.String(`aaaaaaaaaa"7`)}},
		{{Name: "@a", Value: value.Int(15)}, {Name: name[1:] + `"aaaaaaaaaa\`, Value: value.String("7")}},
		{{Name: "@a"}, {Name: "@b", Value: value.Int(1)}},
		{{Name: "@a", Value: value.Int(1)}, {Name: "@b"}},
		{{Name: "@a"}},
		{{Name: "@a", Value: value.String("")}},
		nil,
	} {
		key := string(planKey(nil, &catalog.Container{}, "SELECT 1", params))
		if before, twice := seen[key]; twice {
			t.Errorf("the lists %d and %d have one key: %q", before, i, key)
		}
		seen[key] = i
	}
}

// The cache of plans is bounded by number and by bytes, and does not keep very
// large plans. It evicts the least recently used ones first.
func TestPlansKept(t *testing.T) {
	t.Parallel()
	of := func(text string) *query.Plan {
		t.Helper()
		p, err := query.Compile(text, nil, nil, query.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	small := of("SELECT VALUE 1")
	constants := make([]string, 8) // of constants that take far more memory than their text
	for i := range constants {
		constants[i] = fmt.Sprintf("ARRAY_CONTAINS(StringSplit(REPLICATE('%d,', 2000), ','), c.a)", i)
	}
	large := of("SELECT VALUE 1 FROM c WHERE " + strings.Join(constants, " OR "))
	tooLarge := of("SELECT VALUE 1 FROM c WHERE RegexMatch(c.a, '" + strings.Repeat("a{1000}", 99) + "') OR " + strings.Join(constants, " OR "))
	if large.Size() > planMax || large.Size() < plansBytes/plansMax*10 || tooLarge.Size() < planMax {
		t.Fatalf("sizes of %d and %d are too close to show anything", large.Size(), tooLarge.Size())
	}
	for name, c := range map[string]struct {
		plan *query.Plan
		most int // of such plans that are kept
	}{
		"small":     {small, plansMax},
		"large":     {large, plansBytes / (planKeyTimes*8 + large.Size())},
		"too large": {tooLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := plans{byKey: map[string]*list.Element{}}
			key := func(i int) []byte { return fmt.Appendf(nil, "%08d", i) }
			for i := range plansMax + 10 {
				p.put(key(i), c.plan)
				p.put(key(i), c.plan) // a second put changes nothing
				if c.most > 1 {
					p.get(key(0)) // which keeps it
				}
			}
			kept := 0
			for i := range plansMax + 10 {
				_, ok := p.get(key(i))
				if want := c.most > 0 && (i == 0 || i >= plansMax+10-(c.most-1)); ok != want {
					t.Errorf("plan %d: kept %v, want %v", i, ok, want)
				}
				if ok {
					kept++
				}
			}
			if size := planKeyTimes*8 + c.plan.Size(); kept != c.most || p.order.Len() != kept || p.bytes != kept*size {
				t.Errorf("%d plans of %d are kept, %d in the list, with %d bytes; want %d", kept, size, p.order.Len(), p.bytes, c.most)
			}
		})
	}
}
