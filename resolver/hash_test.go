package resolver_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/decandb/decan/resolver"
)

// numbered returns targets c0 to c(n-1).
func numbered(n int) []resolver.Target {
	list := make([]resolver.Target, n)
	for i := range list {
		list[i].Name = fmt.Sprint("c", i)
	}
	return list
}

// seed returns a random source and logs its seed.
func seed(t testing.TB) *rand.Rand {
	t.Helper()
	n := rand.Uint64()
	t.Logf("seed %d", n)
	return rand.New(rand.NewPCG(n, n))
}

func randomKeys(r *rand.Rand, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%x-%d", r.Uint64(), i)
	}
	return keys
}

func mustRing(t testing.TB, c resolver.RingConfig) *resolver.Ring {
	t.Helper()
	r, err := resolver.NewRing(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hashed returns every hash resolver by name, all over the same targets.
func hashed(t testing.TB, list []resolver.Target) map[string]resolver.Resolver[string] {
	t.Helper()
	dotNet := resolver.LegacyDotNet(64, list...)
	rendezvous, err := resolver.NewRendezvous(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]resolver.Resolver[string]{
		"ring":         mustRing(t, resolver.RingConfig{Targets: list}),
		"ring-murmur3": mustRing(t, resolver.RingConfig{Targets: list, Hash: resolver.Murmur3}),
		"legacy":       mustRing(t, resolver.LegacyMurmur(list...)),
		"legacy-net":   mustRing(t, dotNet),
		"own-hash":     mustRing(t, resolver.RingConfig{Targets: list, Hash: fnvHash{}}),
		"rendezvous":   rendezvous,
	}
	if jump, err := resolver.NewJump(list, nil); err == nil {
		all["jump"] = jump
	}
	return all
}

// fnvHash is a hash supplied by a user (S168, S169).
type fnvHash struct{}

func (fnvHash) Name() string { return "fnv1a-128" }

func (fnvHash) Sum(text string) resolver.Digest {
	h := fnv.New128a()
	_, _ = h.Write([]byte(text))
	sum := h.Sum(nil)
	var d resolver.Digest
	for i := range 8 {
		d.High = d.High<<8 | uint64(sum[i])
		d.Low = d.Low<<8 | uint64(sum[i+8])
	}
	return d
}

// TestMovement adds and removes a target. Keys move only to the new target and
// only from the removed one. About 1/(n+1) of the keys move; hash modulo n would
// move nearly all (S166, S167).
func TestMovement(t *testing.T) {
	r := seed(t)
	keys := randomKeys(r, 20_000)
	for _, n := range []int{1, 2, 3, 8, 15} {
		before, after := hashed(t, numbered(n)), hashed(t, numbered(n+1))
		added := fmt.Sprint("c", n)
		for kind := range before {
			grown := resolver.MovementOf(before[kind], after[kind], keys)
			shrunk := resolver.MovementOf(after[kind], before[kind], keys)
			for pair := range grown.Pairs {
				if pair[1] != added {
					t.Errorf("%s: adding to %d moved keys from %s to %s", kind, n, pair[0], pair[1])
				}
			}
			for pair := range shrunk.Pairs {
				if pair[0] != added {
					t.Errorf("%s: removing from %d moved keys from %s to %s", kind, n+1, pair[0], pair[1])
				}
			}
			if grown.Moved != shrunk.Moved || grown.Unrouted != 0 {
				t.Errorf("%s: adding moved %d keys, removing %d; %d are unrouted", kind, grown.Moved, shrunk.Moved, grown.Unrouted)
			}
			share := float64(grown.Moved) * float64(n+1) / float64(len(keys))
			if share < 0.6 || share > 1.5 {
				t.Errorf("%s: adding to %d moved %.2f times 1/%d of the keys", kind, n, share, n+1)
			}
		}
		moved := 0
		for _, key := range keys {
			if sum := resolver.XXHash64.Sum(key).High; sum%uint64(n) != sum%uint64(n+1) {
				moved++
			}
		}
		if want := float64(n) / float64(n+1); float64(moved)/float64(len(keys)) < want-0.02 {
			t.Errorf("modulo moved %d of %d keys, want about %.2f of them", moved, len(keys), want)
		}
	}
}

// TestBalance checks the shares of 8 equal targets against the bounds in
// docs/resolver.md: over 100,000 keys, a ring with 128 virtual nodes is within
// 35 % of the mean, jump and rendezvous hashing are within 5 % (S164).
func TestBalance(t *testing.T) {
	keys := randomKeys(seed(t), 100_000)
	for kind, r := range hashed(t, numbered(8)) {
		limit := 1.35
		if kind == "jump" || kind == "rendezvous" {
			limit = 1.05
		}
		if s := resolver.SpreadOf(r, keys); s.MaxToMean > limit || s.MaxToMean < 1 {
			t.Errorf("%s: the fullest target has %.3f of the mean, want 1 to %v", kind, s.MaxToMean, limit)
		}
	}
	// Fewer virtual nodes are less even (S170): compare the mean unevenness of
	// 20 rings.
	mean := func(virtualNodes int) float64 {
		sum := 0.0
		for i := range 20 {
			var list []resolver.Target
			for n := range 8 {
				list = append(list, resolver.Target{Name: fmt.Sprintf("set%d-%d", i, n)})
			}
			sum += resolver.SpreadOf(mustRing(t, resolver.RingConfig{Targets: list, VirtualNodes: virtualNodes}), keys[:20_000]).MaxToMean
		}
		return sum / 20
	}
	if few, many := mean(16), mean(128); few < many+0.1 {
		t.Errorf("16 virtual nodes give %.2f of the mean, 128 give %.2f: want clearly less", few, many)
	}
}

// TestWeights checks that shares are proportional to the weights and that the
// lightest target has a point.
func TestWeights(t *testing.T) {
	keys := randomKeys(seed(t), 100_000)
	list := numbered(3)
	list[0].Weight, list[1].Weight, list[2].Weight = 1, 2, 4
	rendezvous, err := resolver.NewRendezvous(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	for kind, r := range map[string]resolver.Resolver[string]{
		"ring":       mustRing(t, resolver.RingConfig{Targets: list, VirtualNodes: 2048}),
		"rendezvous": rendezvous,
	} {
		counts := resolver.SpreadOf(r, keys).Counts
		for i, want := range []float64{1.0 / 7, 2.0 / 7, 4.0 / 7} {
			if got := float64(counts[list[i].Name]) / float64(len(keys)); got < want*0.9 || got > want*1.1 {
				t.Errorf("%s: %s has %.3f of the keys, want %.3f", kind, list[i].Name, got, want)
			}
		}
	}
	list[0].Weight = 1e-9
	if points := mustRing(t, resolver.RingConfig{Targets: list}).Points(); !slices.Equal(points, []int{1, 256, 512}) {
		t.Errorf("points = %v, want 1, 256, 512", points)
	}
	if _, err := resolver.NewJump(list, nil); err == nil {
		t.Error("jump hashing accepted weights")
	}
}

// TestOrderOfTargets checks that the order of the list does not matter to a ring
// and to rendezvous hashing.
func TestOrderOfTargets(t *testing.T) {
	r := seed(t)
	keys := randomKeys(r, 5_000)
	list := numbered(9)
	a := hashed(t, list)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	b := hashed(t, list)
	for kind := range a {
		if m := resolver.MovementOf(a[kind], b[kind], keys); kind != "jump" && m.Moved != 0 {
			t.Errorf("%s: another order moved %d keys", kind, m.Moved)
		}
	}
}

func TestJumpBucket(t *testing.T) {
	for _, c := range []struct {
		key     uint64
		buckets int
		want    int
	}{{1, 1, 0}, {42, 57, 43}, {0xDEAD10CC, 1, 0}, {0xDEAD10CC, 666, 361}, {256, 1024, 520}, {7, 0, 0}, {7, -3, 0}} {
		if got := resolver.JumpBucket(c.key, c.buckets); got != c.want {
			t.Errorf("JumpBucket(%d, %d) = %d, want %d", c.key, c.buckets, got, c.want)
		}
	}
}

// TestPlace checks that every target stays within its bound while groups arrive,
// and that a key whose owner has room goes to its owner.
func TestPlace(t *testing.T) {
	list := numbered(5)
	list[4].Weight = 2
	ring := mustRing(t, resolver.RingConfig{Targets: list})
	loads := map[string]float64{}
	load := func(t resolver.Target) float64 { return loads[t.Name] }
	for i, key := range randomKeys(seed(t), 3_000) {
		target, err := ring.Place(key, load, 1.1)
		if err != nil {
			t.Fatal(err)
		}
		loads[target.Name]++
		for _, candidate := range list {
			share := 1.0
			if candidate.Weight != 0 {
				share = candidate.Weight
			}
			if bound := 1.1*float64(i+1)*share/6 + 1; loads[candidate.Name] > bound {
				t.Fatalf("after %d groups %s holds %v, more than %v", i+1, candidate.Name, loads[candidate.Name], bound)
			}
		}
	}
	clear(loads)
	if target, err := ring.Place("x", load, 0); err != nil || target.Name != ring.Owner("x").Name {
		t.Errorf("Place on an empty ring = %s, %v, want the owner %s", target.Name, err, ring.Owner("x").Name)
	}
	if _, err := ring.Place("x", load, 0.5); err == nil {
		t.Error("a bound below 1 was accepted")
	}
}

// TestClosest checks that Closest lists different targets, the owner first.
func TestClosest(t *testing.T) {
	for _, config := range []resolver.RingConfig{{Targets: numbered(6)}, resolver.LegacyMurmur(numbered(6)...)} {
		ring := mustRing(t, config)
		for _, key := range randomKeys(seed(t), 100) {
			for _, n := range []int{0, 1, 3, 6, 9} {
				list := ring.Closest(key, n)
				seen := map[string]bool{}
				for _, target := range list {
					seen[target.Name] = true
				}
				if len(list) != min(n, 6) || len(seen) != len(list) || n > 0 && list[0].Name != ring.Owner(key).Name {
					t.Fatalf("Closest(%q, %d) = %v", key, n, list)
				}
			}
		}
		// The second becomes the owner when the first is removed.
		list := ring.Closest("k", 2)
		config.Targets = slices.DeleteFunc(numbered(6), func(t resolver.Target) bool { return t.Name == list[0].Name })
		if got := mustRing(t, config).Owner("k").Name; got != list[1].Name {
			t.Errorf("without %s the owner is %s, want %s", list[0].Name, got, list[1].Name)
		}
	}
}

// FuzzRing routes arbitrary keys over arbitrary names.
func FuzzRing(f *testing.F) {
	f.Add("k", "a", "b", 3)
	f.Add("", "dbs/db/colls/coll0", "\xff\x00", 1)
	f.Fuzz(func(t *testing.T, key, first, second string, virtualNodes int) {
		for _, config := range []resolver.RingConfig{
			{Targets: targets(first, second)},
			resolver.LegacyMurmur(targets(first, second)...),
			resolver.LegacyDotNet(64, targets(first, second)...), resolver.LegacyDotNet(32, targets(first, second)...),
		} {
			config.VirtualNodes = virtualNodes % 1000
			ring, err := resolver.NewRing(config)
			if (err == nil) != (first != "" && second != "" && first != second && config.VirtualNodes >= 0) {
				t.Fatalf("NewRing(%q, %q, %d): %v", first, second, config.VirtualNodes, err)
			}
			if err != nil {
				continue
			}
			if owner := ring.Owner(key).Name; owner != first && owner != second {
				t.Fatalf("owner %q", owner)
			}
		}
	})
}

func TestHashConfigErrors(t *testing.T) {
	for name, config := range map[string]resolver.RingConfig{
		"no targets":      {},
		"no name":         {Targets: targets("")},
		"one name twice":  {Targets: targets("a", "b", "a")},
		"negative weight": {Targets: []resolver.Target{{Name: "a", Weight: -1}}},
		"too many points": {Targets: []resolver.Target{{Name: "a", Weight: 1e12}}},
		"negative nodes":  {Targets: targets("a"), VirtualNodes: -1},
		"unknown layout":  {Targets: targets("a"), Layout: "other"},
		"chain of xxhash": {Targets: targets("a"), Layout: resolver.LayoutPredecessor},
	} {
		if _, err := resolver.NewRing(config); err == nil {
			t.Errorf("%s: NewRing succeeded", name)
		}
	}
}

func BenchmarkOwner(b *testing.B) {
	keys := randomKeys(seed(b), 1024)
	for kind, r := range hashed(b, numbered(16)) {
		owner, ok := r.(interface {
			Owner(key string) *resolver.Target
		})
		if !ok {
			b.Fatalf("%s has no Owner", kind)
		}
		b.Run(fmt.Sprintf("kind=%s/targets=16/nodes=128", kind), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				owner.Owner(keys[i%len(keys)])
			}
		})
	}
}

// TestOwnerAllocates checks that a look-up allocates nothing.
func TestOwnerAllocates(t *testing.T) {
	for kind, r := range hashed(t, numbered(16)) {
		if kind == "own-hash" {
			continue // its allocations are up to the user
		}
		owner := r.(interface {
			Owner(key string) *resolver.Target
		})
		if n := testing.AllocsPerRun(100, func() { owner.Owner("dbs/some/key/0123456789abcdef") }); n != 0 {
			t.Errorf("%s: a look-up allocates %v times", kind, n)
		}
	}
}
