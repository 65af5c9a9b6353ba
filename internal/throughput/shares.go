package throughput

import (
	"math"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// Shares returns what each of a container's physical partitions is given of its
// throughput, in RU/s: the same for all, or as it was divided by hand. None is given
// more than most, which is why a throughput that the partitions cannot carry yet takes
// effect as far as they can. One that has no part of a shared throughput that is
// divided by hand has 0.
func Shares(t resource.Throughput, container resource.RID, partitions []resource.Partition, most int) []float64 {
	shares := make([]float64, len(partitions))
	divided, own := Divided(t, container), container
	if !t.Owner.IsDatabase() {
		own = ""
	}
	for i, p := range partitions {
		share := float64(t.Total()) / float64(len(partitions))
		if divided {
			share = 0
			if at, given := slices.BinarySearchFunc(t.Shares, resource.Share{Container: own, ID: p.ID}, resource.CompareShares); given {
				share = float64(t.Shares[at].RUs)
			}
		}
		shares[i] = min(share, float64(most))
	}
	return shares
}

// Divided reports whether the partitions of a container have shares of its throughput
// that were given by hand. Of a shared one that is divided, those of a container that
// was made afterwards have none.
func Divided(t resource.Throughput, container resource.RID) bool {
	return slices.ContainsFunc(t.Shares, func(s resource.Share) bool { return ofContainer(t, s, container) })
}

func ofContainer(t resource.Throughput, s resource.Share, container resource.RID) bool {
	return !t.Owner.IsDatabase() || s.Container == container
}

// Pending reports whether a throughput waits for partitions to be split: one of
// them would be given more than most.
func Pending(t resource.Throughput, container resource.RID, partitions []resource.Partition, most int) bool {
	return slices.ContainsFunc(Shares(t, container, partitions, math.MaxInt), func(share float64) bool { return share > float64(most) })
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

// Paid is the partitions of a container that a throughput pays for.
type Paid struct {
	Container  resource.RID
	Partitions []resource.Partition
}

// Redistribute returns a throughput divided anew over all partitions that it pays for,
// of the one container or of those that share it. Its total becomes the sum of the
// shares. A partition may be given up to twice most: it gets most, until it is split.
// Errors are status 400, for a partition that does not exist or is named twice, a
// share that cannot be given, or a sum that is no valid throughput.
func Redistribute(t resource.Throughput, paid []Paid, r Redistribution, limits resource.Limits) (resource.Throughput, error) {
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
	d := division{shares: undivided(t, paid), most: limits.PartitionRUs}
	if err := d.grant(r); err != nil {
		return t, err
	}
	// What has nothing of a shared throughput keeps drawing on the whole.
	t.Shares = slices.DeleteFunc(d.shares, func(s resource.Share) bool { return s.RUs == 0 && s.Container != "" })
	sum := 0
	for _, s := range t.Shares {
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
// throughput as their sum: what is left over, as of containers that were dropped,
// goes to all that have something.
func undivided(t resource.Throughput, paid []Paid) []resource.Share {
	var shares []resource.Share
	var having []int
	rest := t.Total()
	for i, exact := range Distribution(t, paid) {
		exact.share.RUs = int(exact.RUs)
		rest -= exact.share.RUs
		if shares = append(shares, exact.share); exact.RUs > 0 {
			having = append(having, i)
		}
	}
	for n, i := range having {
		part := rest / (len(having) - n)
		if rest%(len(having)-n) > 0 {
			part++ // The first ones have one more.
		}
		shares[i].RUs += part
		rest -= part
	}
	slices.SortFunc(shares, resource.CompareShares)
	return shares
}

// Given is what one physical partition is given of a throughput.
type Given struct {
	Name string  // as clients name it, see [resource.Share.Name]
	RUs  float64 // RU/s, also above what one partition can be given

	share resource.Share
}

// Distribution returns how a throughput is divided, in the order of containers and
// ranges. One that containers share and nobody has divided is divided evenly here; a
// container that was made after a division has nothing of it.
func Distribution(t resource.Throughput, paid []Paid) []Given {
	shared, all := t.Owner.IsDatabase(), 0
	divided := false
	for _, p := range paid {
		all += len(p.Partitions)
		divided = divided || Divided(t, p.Container)
	}
	var given []Given
	for _, p := range paid {
		shares := Shares(t, p.Container, p.Partitions, math.MaxInt)
		for i, partition := range p.Partitions {
			g := Given{RUs: shares[i], share: resource.Share{ID: partition.ID}}
			if shared {
				g.share.Container = p.Container
				switch {
				case !divided:
					g.RUs = float64(t.Total()) / float64(all)
				case !Divided(t, p.Container):
					g.RUs = 0
				}
			}
			g.Name = g.share.Name()
			given = append(given, g)
		}
	}
	return given
}

// division is a throughput while it is divided anew.
type division struct {
	shares []resource.Share
	most   int
	named  map[string]bool
}

// grant gives every named partition its share. Sources without a figure give up
// in equal parts what the others need.
func (d *division) grant(r Redistribution) error {
	d.named = map[string]bool{}
	needed := 0
	for _, w := range r.Targets {
		if w.RUs == 0 {
			return status.BadRequest("The target partition %s has no throughput.", w.Name())
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
			s, err := d.find(w)
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
			return status.BadRequest("The source partition %s cannot give up %d RU/s: at least %d have to remain.", s.Name(), part, resource.PartitionMin)
		}
	}
	return nil
}

// set gives a partition a share and returns how much more that is.
func (d *division) set(w resource.Share) (int, error) {
	s, err := d.find(w)
	if err != nil {
		return 0, err
	}
	if w.RUs < resource.PartitionMin || w.RUs > 2*d.most {
		return 0, status.BadRequest("The throughput %d of partition %s is not valid. Use %d to %d RU/s; above %d the partition is split.", w.RUs, w.Name(), resource.PartitionMin, 2*d.most, d.most)
	}
	more := w.RUs - s.RUs
	s.RUs = w.RUs
	return more, nil
}

// find returns the share of a partition that was not named before.
func (d *division) find(w resource.Share) (*resource.Share, error) {
	at, found := slices.BinarySearchFunc(d.shares, w, resource.CompareShares)
	if !found {
		return nil, NoPartition(w.Name())
	}
	if d.named[w.Name()] {
		return nil, status.BadRequest("The physical partition %s is named twice.", w.Name())
	}
	d.named[w.Name()] = true
	return &d.shares[at], nil
}

// NoPartition is the refusal of a name that is of no partition that a throughput pays
// for.
func NoPartition(name string) error {
	return status.BadRequest("There is no physical partition %s that this throughput is for.", name)
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
