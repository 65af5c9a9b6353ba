package throughput

import (
	"math"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// Shares returns what each of a container's physical partitions is given of its
// throughput, in RU/s: the same for all, or as it was divided by hand. What was
// given to a partition that was split belongs to its children in equal parts,
// and one that came out of a merge has what its parents had. None is given more
// than most, which is why a throughput that the partitions cannot carry yet
// takes effect as far as they can.
func Shares(t resource.Throughput, partitions []resource.Partition, most int) []float64 {
	shares := make([]float64, len(partitions))
	if len(t.Shares) == 0 {
		for i := range shares {
			shares[i] = float64(t.Total()) / float64(len(partitions))
		}
	}
	for _, s := range t.Shares {
		var heirs []int
		for i, p := range partitions {
			if p.ID == s.ID || slices.Contains(p.Parents, s.ID) {
				heirs = append(heirs, i)
			}
		}
		for _, i := range heirs {
			shares[i] += float64(s.RUs) / float64(len(heirs))
		}
	}
	for i := range shares {
		shares[i] = min(shares[i], float64(most))
	}
	return shares
}

// Pending reports whether a throughput waits for partitions to be split: one of
// them would be given more than most.
func Pending(t resource.Throughput, partitions []resource.Partition, most int) bool {
	return slices.ContainsFunc(Shares(t, partitions, math.MaxInt), func(share float64) bool { return share > float64(most) })
}

// Redistribution asks for another division of a throughput over physical
// partitions. Those that it does not name keep what they have.
type Redistribution struct {
	Equal bool // every partition has the same; none is named

	// Targets are given their share. Sources have theirs afterwards as well; one
	// of zero RU/s gives up what the targets need, in equal parts with the others
	// of that kind.
	Targets, Sources []resource.Share
}

// Redistribute returns a throughput divided anew over all of a container's
// partitions. Its total becomes the sum of the shares. A partition may be given
// up to twice most: it gets most, until it is split. Errors are status 400, for a
// partition that does not exist or is named twice, a share that cannot be given,
// or a sum that is no valid throughput.
func Redistribute(t resource.Throughput, partitions []resource.Partition, r Redistribution, limits resource.Limits) (resource.Throughput, error) {
	if r.Equal {
		if len(r.Targets)+len(r.Sources) > 0 {
			return t, status.BadRequest("With the throughput policy equal no partition is named.")
		}
		t.Shares = nil
		return t, nil
	}
	if len(r.Targets)+len(r.Sources) == 0 {
		return t, status.BadRequest("Name the physical partitions whose throughput is to change.")
	}
	d := division{shares: undivided(t, partitions), most: limits.PartitionRUs}
	if err := d.grant(r); err != nil {
		return t, err
	}
	t.Shares = d.shares
	sum := 0
	for _, s := range d.shares {
		sum += s.RUs
	}
	if t.IsAutoscale() {
		t.Max = sum
	} else {
		t.Manual = sum
	}
	return t, limits.Valid(t)
}

// undivided returns the shares as they are in whole RU/s, uncut, with the
// throughput as their sum.
func undivided(t resource.Throughput, partitions []resource.Partition) []resource.Share {
	exact := Shares(t, partitions, t.Total())
	shares := make([]resource.Share, len(partitions))
	rest := t.Total()
	for i, p := range partitions {
		shares[i] = resource.Share{ID: p.ID, RUs: int(exact[i])}
		rest -= shares[i].RUs
	}
	for i := 0; rest > 0 && len(shares) > 0; i, rest = (i+1)%len(shares), rest-1 {
		shares[i].RUs++
	}
	slices.SortFunc(shares, func(a, b resource.Share) int { return int(a.ID) - int(b.ID) })
	return shares
}

// division is a throughput while it is divided anew.
type division struct {
	shares []resource.Share
	most   int
	named  map[resource.PartitionID]bool
}

// grant gives every named partition its share. Sources without a figure give up
// in equal parts what the others need.
func (d *division) grant(r Redistribution) error {
	d.named = map[resource.PartitionID]bool{}
	needed := 0
	for _, w := range r.Targets {
		if w.RUs == 0 {
			return status.BadRequest("The target partition %s has no throughput.", w.ID)
		}
		more, err := d.set(w)
		if err != nil {
			return err
		}
		needed += more
	}
	var givers []*resource.Share
	for _, w := range r.Sources {
		if w.RUs == 0 {
			s, err := d.find(w.ID)
			if err != nil {
				return err
			}
			givers = append(givers, s)
			continue
		}
		more, err := d.set(w)
		if err != nil {
			return err
		}
		needed += more
	}
	return d.collect(givers, max(0, needed))
}

// collect takes units away from partitions.
func (d *division) collect(givers []*resource.Share, needed int) error {
	for i, s := range givers {
		part := needed / (len(givers) - i)
		needed -= part
		if s.RUs -= part; s.RUs < resource.PartitionMin {
			return status.BadRequest("The source partition %s cannot give up %d RU/s: at least %d have to remain.", s.ID, part, resource.PartitionMin)
		}
	}
	return nil
}

// set gives a partition a share and returns how much more that is.
func (d *division) set(w resource.Share) (int, error) {
	s, err := d.find(w.ID)
	if err != nil {
		return 0, err
	}
	if w.RUs < resource.PartitionMin || w.RUs > 2*d.most {
		return 0, status.BadRequest("The throughput %d of partition %s is not valid. Use %d to %d RU/s; above %d the partition is split.", w.RUs, w.ID, resource.PartitionMin, 2*d.most, d.most)
	}
	more := w.RUs - s.RUs
	s.RUs = w.RUs
	return more, nil
}

// find returns the share of a partition that was not named before.
func (d *division) find(id resource.PartitionID) (*resource.Share, error) {
	at, found := slices.BinarySearchFunc(d.shares, id, func(s resource.Share, id resource.PartitionID) int { return int(s.ID) - int(id) })
	if !found {
		return nil, status.BadRequest("The container has no physical partition %s.", id)
	}
	if d.named[id] {
		return nil, status.BadRequest("The physical partition %s is named twice.", id)
	}
	d.named[id] = true
	return &d.shares[at], nil
}

// Caps returns the plan of a partition's budget with the throughput buckets of
// its container: a percentage of its share each.
func Caps(plan Plan, buckets []resource.Bucket) Plan {
	for _, b := range buckets {
		if b.Percent < 100 {
			plan.Caps[b.ID] = plan.Rate * float64(b.Percent) / 100
		}
		if b.Default {
			plan.Default = uint8(b.ID)
		}
	}
	return plan
}

// The throughput of containers that are not provisioned: so much for each, and
// more once there are many partitions.
const (
	serverlessRUs          = 5_000
	serverlessPartitionRUs = 1_000
)

// Serverless returns what each of a number of physical partitions of a container
// may spend in a serverless account.
func Serverless(partitions int) float64 {
	return max(serverlessRUs, serverlessPartitionRUs*float64(partitions)) / float64(partitions)
}
