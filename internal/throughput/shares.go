package throughput

import (
	"math"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// Shares returns the RU/s of each of a container's physical partitions: the same
// for all, or the manual shares. No partition gets more than most, so a
// throughput that the partitions cannot carry yet is applied as far as they can.
// A partition without a manual share of a shared throughput gets 0.
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

// Divided reports whether the partitions of a container have manual shares of
// its throughput. For a shared throughput it is false for containers that were
// created after the division.
func Divided(t resource.Throughput, container resource.RID) bool {
	return slices.ContainsFunc(t.Shares, func(s resource.Share) bool { return ofContainer(t, s, container) })
}

func ofContainer(t resource.Throughput, s resource.Share, container resource.RID) bool {
	return !t.Owner.IsDatabase() || s.Container == container
}

// Pending reports whether a throughput waits for partitions to be split: one of
// them would get more than most.
func Pending(t resource.Throughput, container resource.RID, partitions []resource.Partition, most int) bool {
	return slices.ContainsFunc(Shares(t, container, partitions, math.MaxInt), func(share float64) bool { return share > float64(most) })
}

// Redistribution is a request for another division of a throughput over physical
// partitions. Partitions that it does not name keep their share.
type Redistribution struct {
	Equal bool // every partition gets the same; none may be named

	// Targets get their share. Sources keep the share that is given for them;
	// those with zero RU/s give up what the targets need, in equal parts.
	Targets, Sources []resource.Share
}

// Paid lists the partitions of a container that a throughput pays for.
type Paid struct {
	Container  resource.RID
	Partitions []resource.Partition
}

// Redistribute returns a throughput divided again over all partitions that it
// pays for, of one container or of those that share it. Its total becomes the
// sum of the shares. A partition may be given up to twice most: it gets most
// until it is split. Errors are status 400: for a partition that does not exist
// or is named twice, an invalid share, or a sum that is not a valid throughput.
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
	// A partition without a share of a shared throughput continues to use the
	// whole.
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

// undivided returns the current shares in whole RU/s, without the limit of one
// partition, with the throughput as their sum: the remainder, for instance of
// dropped containers, goes to all partitions that have a share.
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
			part++ // the first ones get the remainder
		}
		shares[i].RUs += part
		rest -= part
	}
	slices.SortFunc(shares, resource.CompareShares)
	return shares
}

// Given is the share of one physical partition.
type Given struct {
	Name string  // as clients know it, see [resource.Share.Name]
	RUs  float64 // may exceed what one partition can serve

	share resource.Share
}

// Distribution returns how a throughput is divided, in the order of containers
// and ranges. A shared throughput without manual shares is divided evenly here;
// a container that was created after a division has no share.
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

// division is a throughput that is being divided again.
type division struct {
	shares []resource.Share
	most   int
	named  map[string]bool
}

// grant gives every named partition its share. Sources without a value give up
// what the others need, in equal parts.
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

// collect takes units from partitions.
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

// set gives a partition a share and returns the increase.
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

// NoPartition returns the error for a name that is not a partition for which a
// throughput pays.
func NoPartition(name string) error {
	return status.BadRequest("There is no physical partition %s that this throughput is for.", name)
}

// Caps returns the plan of a partition's budget with the throughput buckets of
// its container: each is a percentage of its share.
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

// The throughput of containers that are not provisioned: a constant for each
// partition, and more if there are many partitions.
const (
	serverlessRUs          = 5_000
	serverlessPartitionRUs = 1_000
)

// Serverless returns what each of a number of physical partitions of a container
// may spend in a serverless account.
func Serverless(partitions int) float64 {
	return max(serverlessRUs, serverlessPartitionRUs*float64(partitions)) / float64(partitions)
}
