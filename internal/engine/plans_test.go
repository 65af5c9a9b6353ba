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
			if size := planKeyTimes*8 + c.plan.Size(); kept != c.most || p.fresh.Len()+p.used.Len() != kept || p.bytes != kept*size {
				t.Errorf("%d plans of %d are kept, %d in the list, with %d bytes; want %d", kept, size, p.fresh.Len()+p.used.Len(), p.bytes, c.most)
			}
		})
	}
}

// Texts that come once do not evict the plans of texts that come again, however many
// they are, and the bytes of the plans for clients count.
func TestPlansOnce(t *testing.T) {
	t.Parallel()
	plan, err := query.Compile("SELECT VALUE 1", nil, nil, query.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := plans{byKey: map[string]*list.Element{}}
	key := func(kind string, i int) []byte { return fmt.Appendf(nil, "%s%08d", kind, i) }
	const again = 500
	for i := range again {
		p.put(key("again", i), plan)
		kept, _ := p.get(key("again", i))
		p.describe(kept, make([]byte, 16<<10))
		p.describe(kept, make([]byte, 16<<10)) // a second description changes nothing
	}
	for i := range 10 * plansMax {
		p.put(key("once", i), plan)
	}
	sum, usedSum, bodies := 0, 0, 0
	for i := range again {
		kept, ok := p.get(key("again", i))
		if !ok {
			t.Errorf("plan %d, which is used again, is gone", i)
		} else if kept.body.Load() != nil {
			bodies++
		}
	}
	for _, e := range p.byKey {
		kept := e.Value.(*keptPlan)
		if sum += kept.size; kept.used {
			usedSum += kept.size
		}
	}
	if sum != p.bytes || usedSum != p.usedBytes || sum > plansBytes || len(p.byKey) > plansMax || bodies != again {
		t.Errorf("%d plans of %d bytes, counted %d, of which %d in use, counted %d; %d bodies", len(p.byKey), sum, p.bytes, usedSum, p.usedBytes, bodies)
	}
	if p.describe(&keptPlan{key: "gone"}, []byte("{}")); sum != p.bytes {
		t.Error("the description of a plan that is gone counts")
	}
	// Plans that are all used again leave the place of the others.
	for i := range 2 * plansMax {
		p.put(key("more", i), plan)
		p.get(key("more", i))
	}
	if p.used.Len() > plansMax/5*usedFifths || p.usedBytes > plansBytes/5*usedFifths || len(p.byKey) > plansMax {
		t.Errorf("%d of %d plans are of those used again", p.used.Len(), len(p.byKey))
	}
}
