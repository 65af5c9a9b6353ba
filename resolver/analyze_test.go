package resolver_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/resolver"
)

// TestRingMovement compares the exact movement between two random rings with
// that of a sample, for every layout: the shares agree within statistical error,
// and the parts add up.
func TestRingMovement(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const keys = 20_000
	for _, like := range []resolver.RingConfig{
		{},
		resolver.LegacyMurmur(),
		resolver.LegacyDotNet(64),
		{Hash: resolver.MD5, Layout: resolver.LayoutPredecessor},
		{VirtualNodes: 1},
	} {
		for range 5 {
			build := func() *resolver.Ring {
				like.Targets = nil
				for _, i := range r.Perm(8)[:1+r.IntN(5)] {
					like.Targets = append(like.Targets, resolver.Target{Name: fmt.Sprint("dbs/d/colls/c", i), Weight: float64(1 + r.IntN(3))})
				}
				return must[*resolver.Ring](t)(resolver.NewRing(like))
			}
			before, after := build(), build()
			exact, ok := before.Movement(after)
			if !ok {
				t.Fatalf("%v: rings that hash alike cannot be compared", like)
			}
			sample := make([]string, keys)
			for i := range sample {
				sample[i] = fmt.Sprintf("key-%d-%d", r.Uint64(), i)
			}
			sampled := resolver.MovementOf[string](before, after, sample)
			share := float64(sampled.Moved) / keys
			if limit := 5*math.Sqrt(exact.Share*(1-exact.Share)/keys) + 1e-9; math.Abs(share-exact.Share) > limit {
				t.Errorf("layout %s: %.4f of the ring moves, %.4f of the keys", like.Layout, exact.Share, share)
			}
			segments, sum := 0, 0.0
			for _, pair := range exact.Pairs {
				segments += pair.Segments
				sum += pair.Share
				if pair.From == pair.To || pair.Segments == 0 {
					t.Errorf("layout %s: pair %+v", like.Layout, pair)
				}
			}
			if segments != exact.Moved || math.Abs(sum-exact.Share) > 1e-9 || exact.Moved > exact.Segments {
				t.Errorf("layout %s: the pairs have %d segments and %.6f of the ring, all of it %d of %d and %.6f", like.Layout, segments, sum, exact.Moved, exact.Segments, exact.Share)
			}
			checkShares(t, before, sample)
			if same, _ := before.Movement(before); same.Moved != 0 || same.Share != 0 {
				t.Errorf("layout %s: %+v moves to the same ring", like.Layout, same)
			}
		}
	}
	plain := must[*resolver.Ring](t)(resolver.NewRing(resolver.RingConfig{Targets: targets("a")}))
	legacy := must[*resolver.Ring](t)(resolver.NewRing(resolver.LegacyMurmur(target("a"))))
	if _, ok := plain.Movement(legacy); ok {
		t.Error("rings of different hashes are compared")
	}
	alone := must[*resolver.Ring](t)(resolver.NewRing(resolver.RingConfig{Targets: targets("a"), VirtualNodes: 1}))
	other := must[*resolver.Ring](t)(resolver.NewRing(resolver.RingConfig{Targets: targets("b"), VirtualNodes: 1}))
	if all, _ := alone.Movement(other); math.Abs(all.Share-1) > 1e-12 || all.Moved != all.Segments {
		t.Errorf("from one target to another: %+v, want all of it", all)
	}
	if none, _ := alone.Movement(alone); none.Segments != 1 || none.Moved != 0 {
		t.Errorf("a ring of one point: %+v", none)
	}
}

// checkShares compares the exact shares of a ring with those of a sample, and
// with the owners at many positions of the ring.
func checkShares(t *testing.T, ring *resolver.Ring, sample []string) {
	t.Helper()
	counts := resolver.SpreadOf[string](ring, sample).Counts
	const places = 1 << 14
	seen := map[string]int{}
	for i := range places {
		seen[ring.OwnerAt((float64(i)+0.5)/places).Name]++
	}
	sum := 0.0
	for i, share := range ring.Shares() {
		name := ring.Targets()[i].Name
		keys, drawn := float64(counts[name])/float64(len(sample)), float64(seen[name])/places
		limit := 5*math.Sqrt(share*(1-share)/float64(len(sample))) + 1e-9
		if math.Abs(keys-share) > limit || math.Abs(drawn-share) > 0.02 {
			t.Errorf("%s has %.4f of the ring, %.4f of the keys and %.4f of the drawing", name, share, keys, drawn)
		}
		sum += share
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("the shares add up to %v", sum)
	}
	for _, part := range []float64{-1, 1, 2, math.Inf(1), math.NaN()} {
		ring.OwnerAt(part)
	}
}

// TestRingMovements compares the rings of two plans by name.
func TestRingMovements(t *testing.T) {
	before := regions(t)
	state := before.State
	state.Targets = append(slices.Clone(state.Targets), target("no3"))
	grown := must[resolver.Plan](t)(state.Current.WithTargets("scandinavia", "no1", "no2", "no3"))
	state.Current = grown
	after := must[*resolver.Routing](t)(before.With(state))
	movements := must[[]resolver.RingMovement](t)(resolver.RingMovements(before, after))
	if len(movements) != 1 || movements[0].Scheme != "scandinavia" || movements[0].Segments != 3*resolver.VirtualNodesDefault || movements[0].Moved != resolver.VirtualNodesDefault {
		t.Fatalf("movements %+v", movements)
	}
	for _, pair := range movements[0].Pairs {
		if pair.To != "no3" {
			t.Errorf("%+v: a new target moves keys to itself alone", pair)
		}
	}
	state.Current = resolver.Plan{Scheme: resolver.Scheme{Kind: resolver.KindSingle, Targets: []string{"no1"}}}
	single := must[*resolver.Routing](t)(before.With(state))
	if movements, err := resolver.RingMovements(before, single); err != nil || len(movements) != 0 {
		t.Errorf("a ring and none: %+v, %v", movements, err)
	}
	if ring, err := before.Ring("scandinavia"); err != nil || len(ring.Targets()) != 2 {
		t.Errorf("the ring of the state: %v", err)
	}
	for _, none := range []string{"", "elsewhere"} {
		if _, err := single.Ring(none); !errors.Is(err, resolver.ErrConfig) {
			t.Errorf("ring %q of a plan without one: %v, want ErrConfig", none, err)
		}
	}
	coded := resolver.NewRouting(nil, single.Current())
	if movements, err := resolver.RingMovements(coded, before); err != nil || len(movements) != 0 {
		t.Errorf("a routing built in code: %+v, %v", movements, err)
	}
}

// TestStatePlaces checks that the errors of a state say where the mistake is.
func TestStatePlaces(t *testing.T) {
	const good = `{"key":{"paths":["/u"]},"targets":[{"name":"a"},{"name":"b"}],"current":{"scheme":{"kind":"ring","targets":["a","b"]}}}`
	for _, c := range []struct{ old, new, place string }{
		{`"key":`, `"kye":`, `the state: there is no property "kye"`},
		{`"paths":["/u"]`, `"paths":["/u"],"Paths":["/v"]`, `key: there is no property "Paths"`},
		{`{"name":"b"}`, `{"name":"b","weight":1,"weight":2}`, `targets[1]: the property "weight" is given twice`},
		{`{"name":"b"}`, `{"name":"b","wait":1}`, `targets[1]: there is no property "wait"`},
		{`"kind":"ring"`, `"kind":"rung"`, `current.scheme.kind: there is no kind "rung"`},
		{`"kind":"ring"`, `"kind":"ring","level":8`, `current.scheme.level: 8, want 0 to 7`},
		{`"kind":"ring"`, `"kind":"ring","prefix":"x"`, `current.scheme: a scheme of kind ring has no prefix`},
		{`"targets":["a","b"]}`, `"targets":["a","b"]},"behind":{"x":{"kind":"ring","vnodes":3}}`, `current.behind.x: there is no property "vnodes"`},
		{`"targets":["a","b"]}`, `"targets":["a","b"]},"behind":{"x":{"kind":"single","hash":"md5"}}`, `current.behind.x: a scheme of kind single has no hash`},
		{`"targets":["a","b"]}`, `"targets":["a","b"]},"behind":{"a":{"kind":"single"}}`, `current.behind: the scheme "a" has no name or the name of a target`},
		{`"kind":"ring","targets":["a","b"]`, `"kind":"range","type":"number","ranges":[{"high":1,"target":"a"},{"low":"x","target":"b"}]`, `ranges[1].low: `},
		{`"kind":"ring","targets":["a","b"]`, `"kind":"range","type":"number","ranges":[{"high":"y","target":"a"}]`, `ranges[0].high: `},
		{`"kind":"ring","targets":["a","b"]`, `"kind":"lookup","table":[{"values":["x"],"target":"a"},{"values":["y","x"],"target":"b"}]`, `table[1]: ["x"] is in the table twice`},
		{`"targets":["a","b"]`, `"targets":"a"`, `current.scheme.targets: want a list, not a string`},
		{`"targets":["a","b"]`, `"targets":{}`, `current.scheme.targets: want a list, not an object`},
		{`"kind":"ring"`, `"kind":"ring","level":1`, `level 1 of a key whose last level is 0`},
		{`"current":`, `"current":7,"move":`, `current: want an object, not a number`},
		{`"current":`, "\n\n  \"current\" ", `line 3, column 13: `},
		{`"current":`, `"move":{"id":"m","phase":"hop","next":{"scheme":{"kind":"single","targets":["a"]}}},"current":`, `move.phase: there is no phase "hop"`},
		{`"current":`, `"move":{"id":"m","phase":"copy","next":{"scheme":{"kind":"x"}}},"current":`, `move.next.scheme.kind: there is no kind "x"`},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		state, err := resolver.ParseState([]byte(text))
		if err == nil {
			_, err = resolver.Open(state, resolver.Registry{})
		}
		if !errors.Is(err, resolver.ErrConfig) || !strings.Contains(fmt.Sprint(err), c.place) {
			t.Errorf("%s:\n%v\nwant an ErrConfig with %q", text, err, c.place)
		}
	}
}
