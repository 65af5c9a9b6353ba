package placement

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/resource"
)

// documented are the limits of the service, in GB and RU/s.
var documented = Limits{Bytes: 50, Throughput: 10_000}

// TestDecisions runs the cases of testdata. Each line of the input is a
// partition in the order of ranges: its id, its size in GB, and optionally a
// share such as ru=15000 and the words whole and busy.
//
//	splits [throughput=]   one decision
//	merges [throughput=]   one decision
//	grow throughput=       splits until there is none, each child with half of the bytes
func TestDecisions(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			c := Container{Partitions: parse(t, d)}
			if d.HasArg("throughput") {
				d.ScanArgs(t, "throughput", &c.Throughput)
			}
			var b strings.Builder
			switch d.Cmd {
			case "splits":
				for _, s := range Splits(c, documented) {
					fmt.Fprintf(&b, "%s for %s\n", s.ID, s.Reason)
				}
			case "merges":
				for _, m := range Merges(c, documented) {
					fmt.Fprintf(&b, "%s with %s\n", m.Low, m.High)
				}
			case "grow":
				for round := 1; ; round++ {
					splits := Splits(c, documented)
					if len(splits) == 0 {
						break
					}
					c = divide(c, splits)
					fmt.Fprintf(&b, "round %d: %d split, %d partitions\n", round, len(splits), len(c.Partitions))
				}
			default:
				t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			}
			if b.Len() == 0 {
				return "nothing\n"
			}
			return b.String()
		})
	}
}

func parse(t *testing.T, d *datadriven.TestData) []Partition {
	t.Helper()
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		return n
	}
	var all []Partition
	for line := range strings.SplitSeq(strings.TrimSpace(d.Input), "\n") {
		words := strings.Fields(line)
		p := Partition{ID: resource.PartitionID(number(words[0])), Bytes: int64(number(words[1]))}
		for _, word := range words[2:] {
			if ru, ok := strings.CutPrefix(word, "ru="); ok {
				p.Throughput = number(ru)
				continue
			}
			switch word {
			case "whole":
				p.Whole = true
			case "busy":
				p.Busy = true
			case "indivisible":
				p.Whole, p.Indivisible = true, true
			default:
				t.Fatalf("%s: unknown word %s", d.Pos, word)
			}
		}
		all = append(all, p)
	}
	return all
}

// divide carries out splits.
func divide(c Container, splits []Split) Container {
	next := resource.PartitionID(0)
	for _, p := range c.Partitions {
		next = max(next, p.ID+1)
	}
	var after []Partition
	for _, p := range c.Partitions {
		if !slices.ContainsFunc(splits, func(s Split) bool { return s.ID == p.ID }) {
			after = append(after, p)
			continue
		}
		half := Partition{Bytes: p.Bytes / 2, Throughput: p.Throughput / 2}
		other := half
		if p.Whole {
			half.Bytes, half.Whole, other.Bytes = p.Bytes, true, 0
		}
		half.ID, other.ID = next, next+1
		next += 2
		after = append(after, half, other)
	}
	c.Partitions = after
	return c
}

// join carries out merges.
func join(c Container, merges []Merge) Container {
	var after []Partition
	for _, p := range c.Partitions {
		if i := slices.IndexFunc(merges, func(m Merge) bool { return m.High == p.ID }); i >= 0 {
			after[len(after)-1].Bytes += p.Bytes
			after[len(after)-1].Throughput += p.Throughput
			continue
		}
		after = append(after, p)
	}
	c.Partitions = after
	return c
}

// TestDecisionsComeToAnEnd generates containers and carries out decisions until
// there are none: then no limit is exceeded that a split could fix, and merging
// what was split leaves nothing to split again.
func TestDecisionsComeToAnEnd(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		c := draw(random)
		for round := 0; ; round++ {
			splits := Splits(c, documented)
			if len(splits) == 0 {
				break
			}
			if round == 32 {
				t.Fatalf("still splitting after %d rounds: %+v", round, splits)
			}
			named := map[resource.PartitionID]bool{}
			for _, s := range splits {
				if named[s.ID] {
					t.Fatalf("partition %s is named twice: %+v", s.ID, splits)
				}
				named[s.ID] = true
			}
			c = divide(c, splits)
		}
		divisible := 0
		for _, p := range c.Partitions {
			if p.Busy || p.Indivisible {
				continue
			}
			divisible++
			if p.Bytes > documented.Bytes && !p.Whole || p.Throughput > documented.Throughput {
				t.Fatalf("left above a limit: %+v", p)
			}
		}
		if divisible > 0 && len(c.Partitions)+busy(c) < Needed(c.Throughput, documented) {
			t.Fatalf("%d partitions for %d RU/s", len(c.Partitions), c.Throughput)
		}
		for merges := Merges(c, documented); len(merges) > 0; merges = Merges(c, documented) {
			c = join(c, merges)
			if splits := Splits(c, documented); len(splits) > 0 {
				t.Fatalf("merging %+v makes a split necessary: %+v", merges, splits)
			}
		}
		if at := emptyNeighbour(c); at >= 0 && len(c.Partitions) > Needed(c.Throughput, documented) {
			t.Fatalf("an empty one is left at %d of %+v", at, c)
		}
	}
}

// emptyNeighbour returns the index of an empty partition next to one that could
// take its range, or -1.
func emptyNeighbour(c Container) int {
	could := func(p Partition) bool { return !p.Busy && p.Throughput == 0 && p.Bytes <= documented.Bytes }
	for i, p := range c.Partitions {
		if p.Bytes > 0 || !could(p) {
			continue
		}
		if i > 0 && could(c.Partitions[i-1]) || i+1 < len(c.Partitions) && could(c.Partitions[i+1]) {
			return i
		}
	}
	return -1
}

func draw(random *rand.Rand) Container {
	c := Container{Throughput: random.IntN(200_000)}
	for i := range 1 + random.IntN(12) {
		p := Partition{ID: resource.PartitionID(i), Bytes: random.Int64N(200)}
		switch random.IntN(8) {
		case 3, 4:
			p.Bytes = 0
		case 0:
			p.Whole = true
		case 1:
			p.Busy = true
		case 2:
			p.Throughput = random.IntN(40_000)
		case 5:
			p.Whole, p.Indivisible = true, true
		}
		c.Partitions = append(c.Partitions, p)
	}
	return c
}
