package catalog

import (
	"cmp"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/partitionkey"
)

// View is one version of everything that exists. Neither it nor the values that
// it returns may change.
type View struct {
	version    uint64
	databases  map[string]*database         // by name
	byRID      map[resource.RID]*database   // the same databases
	containers map[resource.RID]*Container  // of all databases
	offers     map[resource.RID]*Throughput // by owner
	users      users
	access     *access
	leftovers  map[resource.RID]leftovers // by container
	losses     []Loss                     // oldest first
}

// Throughput is a stored offer.
type Throughput = resource.Throughput

// database is a database with the containers in it.
type database struct {
	resource.Database
	containers map[string]*Container // by name
}

// Container is a container with its partitions.
type Container struct {
	resource.Container
	Database resource.Database
	Ranges   partitionkey.RangeMap[resource.Partition]

	// Version rises with every change of Ranges, and is the etag of the range list.
	Version uint64

	// Since holds the Version in which each partition was added; it omits those
	// of the first version. Clients ask for the changes since their list.
	Since map[resource.PartitionID]uint64

	// Gone are the partitions that others have replaced, the latest goneMax of them,
	// oldest first.
	Gone []GonePartition

	// NextPartition is the lowest partition id, and the lowest ordinal, that was
	// never used.
	NextPartition resource.PartitionID

	// Splits are the splits in progress, in the order in which they began.
	Splits []SplitPlan

	// Merges are the merges in progress, in the order in which they began.
	Merges []MergePlan

	// Its scripts: user-defined functions, triggers and stored procedures.
	Functions  Scripts
	Triggers   Scripts
	Procedures Scripts
}

// Partitions returns all partitions in the order of their ranges. The caller owns
// the slice.
func (c *Container) Partitions() []resource.Partition {
	all := make([]resource.Partition, c.Ranges.Len())
	for i := range all {
		all[i] = c.Ranges.At(i).Value
	}
	return all
}

// Partition returns a partition by id.
func (c *Container) Partition(id resource.PartitionID) (resource.Partition, bool) {
	for i := range c.Ranges.Len() {
		if p := c.Ranges.At(i).Value; p.ID == id {
			return p, true
		}
	}
	return resource.Partition{}, false
}

// GonePartition is a partition that others have replaced.
type GonePartition struct {
	ID    resource.PartitionID `json:"id"`
	Range partitionkey.Range   `json:"range"`
}

// goneMax bounds Container.Gone. It is as many partitions as a container has in one
// version, so that all of them may split while a client has their ids.
const goneMax = 1000

// OnceOwned returns the range of a partition that others have replaced. It returns
// false if the container never had the partition, still has it, or has replaced
// goneMax others since.
func (c *Container) OnceOwned(id resource.PartitionID) (partitionkey.Range, bool) {
	for _, p := range c.Gone {
		if p.ID == id {
			return p.Range, true
		}
	}
	return partitionkey.Range{}, false
}

// Version rises with every commit.
func (v *View) Version() uint64 { return v.version }

// System returns the database with the server's own tables. The methods that find
// databases, and containers by name, do not return it.
func (v *View) System() (resource.Database, bool) {
	if d, ok := v.databases[resource.SystemDatabase]; ok {
		return d.Database, true
	}
	return resource.Database{}, false
}

// Database returns a database by name. Names are case-sensitive.
func (v *View) Database(name string) (resource.Database, bool) {
	if d, ok := v.databases[name]; ok && !d.IsSystem() {
		return d.Database, true
	}
	return resource.Database{}, false
}

// DatabaseByRID returns a database by RID.
func (v *View) DatabaseByRID(rid resource.RID) (resource.Database, bool) {
	if d, ok := v.byRID[rid]; ok && !d.IsSystem() {
		return d.Database, true
	}
	return resource.Database{}, false
}

// Databases returns all databases, oldest first.
func (v *View) Databases() []resource.Database {
	all := make([]resource.Database, 0, len(v.databases))
	for _, d := range v.databases {
		if !d.IsSystem() {
			all = append(all, d.Database)
		}
	}
	slices.SortFunc(all, func(a, b resource.Database) int { return cmp.Compare(a.RID, b.RID) })
	return all
}

// Container returns a container by the names of its database and its own.
func (v *View) Container(databaseName, name string) (*Container, bool) {
	d, ok := v.databases[databaseName]
	if !ok || d.IsSystem() {
		return nil, false
	}
	c, ok := d.containers[name]
	return c, ok
}

// ContainerByRID returns a container by RID, also one of the server's own tables.
func (v *View) ContainerByRID(rid resource.RID) (*Container, bool) {
	c, ok := v.containers[rid]
	return c, ok
}

// Containers returns the containers of a database, oldest first; none if the
// database does not exist.
func (v *View) Containers(rid resource.RID) []*Container {
	d, ok := v.byRID[rid]
	if !ok {
		return nil
	}
	all := make([]*Container, 0, len(d.containers))
	for _, c := range d.containers {
		all = append(all, c)
	}
	sortContainers(all)
	return all
}

// AllContainers returns the containers of all databases, the server's own tables
// included, oldest first.
func (v *View) AllContainers() []*Container {
	all := make([]*Container, 0, len(v.containers))
	for _, c := range v.containers {
		all = append(all, c)
	}
	sortContainers(all)
	return all
}

// ContainerCount returns the number of containers in all databases. The server's own
// tables do not count.
func (v *View) ContainerCount() int {
	n := len(v.containers)
	if d, ok := v.databases[resource.SystemDatabase]; ok {
		n -= len(d.containers)
	}
	return n
}

func sortContainers(all []*Container) {
	slices.SortFunc(all, func(a, b *Container) int { return cmp.Compare(a.RID, b.RID) })
}

// Throughput returns the offer of a database or container, if it has one of its
// own.
func (v *View) Throughput(owner resource.RID) (resource.Throughput, bool) {
	if t, ok := v.offers[owner]; ok {
		return *t, true
	}
	return resource.Throughput{}, false
}

// ThroughputOf returns the throughput of a container: its own, or the one that it
// shares with others of its database; false if it has none.
func (v *View) ThroughputOf(c *Container) (resource.Throughput, bool) {
	if t, own := v.Throughput(c.RID); own {
		return t, true
	}
	return v.Throughput(c.Database.RID)
}

// Provisioned returns the containers that a database's or container's throughput
// applies to: those of the database that have none of their own, oldest first, or
// the one container.
func (v *View) Provisioned(owner resource.RID) []*Container {
	if c, ok := v.containers[owner]; ok {
		return []*Container{c}
	}
	sharing := v.Containers(owner)
	return slices.DeleteFunc(sharing, func(c *Container) bool {
		_, own := v.offers[c.RID]
		return own
	})
}

// Offer returns an offer by its own RID.
func (v *View) Offer(rid resource.RID) (resource.Throughput, bool) {
	for _, t := range v.offers {
		if t.RID == rid {
			return *t, true
		}
	}
	return resource.Throughput{}, false
}

// Offers returns all offers, oldest first.
func (v *View) Offers() []resource.Throughput {
	all := make([]resource.Throughput, 0, len(v.offers))
	for _, t := range v.offers {
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b resource.Throughput) int { return cmp.Compare(a.RID, b.RID) })
	return all
}
