package catalog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// Change is one step from a version to the next: CreateDatabase, ReplaceDatabase, DeleteDatabase,
// CreateContainer, ReplaceContainer, DeleteContainer, PutThroughput, PlanSplit,
// FinishSplit, DropSplit, and the changes of merges, scripts, users, permissions,
// roles and account keys in the files of these names.
type Change interface {
	// apply makes the change in d, or returns why it does not fit.
	apply(d *draft) error
}

// CreateDatabase creates a database: 409/3206 if the name is taken.
type CreateDatabase struct {
	Database   resource.Database    // RID, ETag and TS are set by the commit
	Throughput *resource.Throughput // shared by its containers; nil: none
}

func (c CreateDatabase) apply(d *draft) error {
	if _, taken := d.view.databases[c.Database.ID]; taken {
		e := status.Conflict()
		e.Sub = status.SubDatabaseExists
		return e
	}
	database := c.Database
	database.RID = resource.DatabaseRID(d.next.Database)
	d.next.Database++
	database.ETag, database.TS = d.etag(), d.now
	if err := d.putDatabase(database, map[string]*Container{}); err != nil {
		return err
	}
	return d.putOffer(c.Throughput, database.RID)
}

// ReplaceDatabase stores a changed database: 404 if it does not exist, 412 if Expect is
// not its etag.
type ReplaceDatabase struct {
	Database resource.Database // ETag and TS are set by the commit
	Expect   resource.ETag     // of the version that the change was made from
}

func (c ReplaceDatabase) apply(d *draft) error {
	old, ok := d.view.byRID[c.Database.RID]
	if !ok {
		return status.NotFound()
	}
	if err := expect(c.Expect, old.ETag); err != nil {
		return err
	}
	changed := c.Database
	changed.ETag, changed.TS = d.etag(), d.now
	containers := make(map[string]*Container, len(old.containers))
	for id, container := range old.containers {
		moved := *container
		moved.Database = changed
		containers[id], d.view.containers[moved.RID] = &moved, &moved
	}
	return d.putDatabase(changed, containers)
}

// DeleteDatabase removes a database with its containers and offers: 404 if it
// does not exist, 412 if Expect is set and is not its etag. The directories of
// the containers become leftovers, see [View.Leftovers].
type DeleteDatabase struct {
	RID    resource.RID
	Expect resource.ETag
}

func (c DeleteDatabase) apply(d *draft) error {
	database, ok := d.view.byRID[c.RID]
	if !ok {
		return status.NotFound()
	}
	if err := expect(c.Expect, database.ETag); err != nil {
		return err
	}
	d.deleteUsers(c.RID) // Before the containers, which would search for permissions.
	for _, container := range database.containers {
		if err := d.deleteContainer(container); err != nil {
			return err
		}
	}
	d.deleteDatabase(database)
	return nil
}

// CreateContainer creates a container whose partitions already exist as
// directories: 404/1003 without its database, 409 if the name is taken. It
// removes the leftovers that PlanContainer recorded for them.
type CreateContainer struct {
	Container  resource.Container // RID from ReserveContainer; ETag and TS are set by the commit
	Partitions []resource.Partition
	Throughput *resource.Throughput // nil: it shares its database's
}

func (c CreateContainer) apply(d *draft) error {
	database, ok := d.view.byRID[c.Container.RID.Database()]
	if !ok {
		return status.OwnerNotFound()
	}
	if _, taken := database.containers[c.Container.ID]; taken {
		return status.Conflict()
	}
	if _, taken := d.view.containers[c.Container.RID]; taken {
		return fmt.Errorf("create container %s: its RID is in use", c.Container.RID)
	}
	container := &Container{Container: c.Container, Database: database.Database, Version: 1}
	container.ETag, container.TS = d.etag(), d.now
	if err := container.setPartitions(c.Partitions); err != nil {
		return err
	}
	if err := d.putContainer(container); err != nil {
		return err
	}
	for _, p := range c.Partitions {
		if err := d.claim(container.RID, p.ID); err != nil {
			return err
		}
	}
	if err := d.bindPermissions(container); err != nil {
		return err
	}
	return d.putOffer(c.Throughput, container.RID)
}

// setPartitions enforces I3, for new and for stored containers. It sets the
// fields that follow from the others.
func (c *Container) setPartitions(partitions []resource.Partition) error {
	entries := make([]partitionkey.Entry[resource.Partition], len(partitions))
	used := make(map[resource.PartitionID]bool, len(partitions))
	for i, p := range partitions {
		if used[p.ID] {
			return fmt.Errorf("container %s: partition %s twice", c.RID, p.ID)
		}
		used[p.ID] = true
		c.NextPartition = max(c.NextPartition, p.ID+1, resource.PartitionID(p.Ordinal)+1)
		entries[i] = partitionkey.Entry[resource.Partition]{Range: p.Range, Value: p}
	}
	ranges, err := partitionkey.NewRangeMap(entries)
	if err != nil {
		return fmt.Errorf("container %s: %w", c.RID, err)
	}
	c.Ranges = ranges
	return nil
}

// ReplaceContainer stores a changed container with its current partitions: 404 if
// it does not exist, 412 if Expect is not its etag.
type ReplaceContainer struct {
	Container resource.Container // ETag and TS are set by the commit
	Expect    resource.ETag      // of the version that the change was made from
}

func (c ReplaceContainer) apply(d *draft) error {
	old, ok := d.view.containers[c.Container.RID]
	if !ok {
		return status.NotFound()
	}
	if err := expect(c.Expect, old.ETag); err != nil {
		return err
	}
	changed := *old
	changed.Container = c.Container
	changed.Limits = old.Limits // Keeps a later change of the limits.
	changed.ETag, changed.TS = d.etag(), d.now
	return d.putContainer(&changed)
}

// DeleteContainer removes a container and its offer: 404 if it does not exist,
// 412 if Expect is set and is not its etag. Its directories become leftovers, see
// [View.Leftovers].
type DeleteContainer struct {
	RID    resource.RID
	Expect resource.ETag
}

func (c DeleteContainer) apply(d *draft) error {
	container, ok := d.view.containers[c.RID]
	if !ok {
		return status.NotFound()
	}
	if err := expect(c.Expect, container.ETag); err != nil {
		return err
	}
	return d.deleteContainer(container)
}

// TruncateContainer replaces a container by another one of the same name, whose
// partitions already exist as directories, and passes its offer on: 404 if it does not
// exist, 412 if Expect is not its etag. The directories of the old one become leftovers.
type TruncateContainer struct {
	RID        resource.RID       // of the container that is replaced
	Expect     resource.ETag      // its version
	Container  resource.Container // RID from ReserveContainer; ETag and TS are set by the commit
	Partitions []resource.Partition
}

func (c TruncateContainer) apply(d *draft) error {
	old, ok := d.view.containers[c.RID]
	if !ok {
		return status.NotFound()
	}
	if err := expect(c.Expect, old.ETag); err != nil {
		return err
	}
	offer, own := d.view.offers[c.RID]
	if err := d.deleteContainer(old); err != nil {
		return err
	}
	create := CreateContainer{Container: c.Container, Partitions: c.Partitions}
	if own {
		passed := *offer
		passed.RID, passed.Shares = "", nil
		create.Throughput = &passed
	}
	return create.apply(d)
}

// Together makes several changes in one commit: all of them, or none.
type Together []Change

func (t Together) apply(d *draft) error {
	for _, c := range t {
		if err := c.apply(d); err != nil {
			return err
		}
	}
	return nil
}

// PutThroughput changes the offer of a database or container: 404 if it has no
// offer, 412 if Expect is not the offer's etag.
type PutThroughput struct {
	Throughput resource.Throughput // Owner identifies the offer; RID, ETag and times are set by the commit
	Expect     resource.ETag       // of the version that the change was made from
}

func (c PutThroughput) apply(d *draft) error {
	old, ok := d.view.offers[c.Throughput.Owner]
	if !ok {
		return status.NotFound()
	}
	if err := expect(c.Expect, old.ETag); err != nil {
		return err
	}
	changed := c.Throughput
	changed.RID = old.RID
	return d.putOffer(&changed, old.Owner)
}

// expect compares an etag with the one that a change expects; an empty one
// matches everything, and so does * .
func expect(want, have resource.ETag) error {
	if want != "" && want != "*" && want != have {
		return status.PreconditionFailed()
	}
	return nil
}

// draft is the next version while a change is applied: a copy of the maps that
// change, sharing the rest, and the rows to store.
type draft struct {
	view *View
	next counters
	now  resource.Timestamp
	rows []row
}

// newDraft copies the maps of from: commits are rare, and copying a thousand
// entries costs less than a sync.
func newDraft(from *View, next counters, now resource.Timestamp) *draft {
	return &draft{
		view: &View{
			version:    from.version + 1,
			databases:  maps.Clone(from.databases),
			byRID:      maps.Clone(from.byRID),
			containers: maps.Clone(from.containers),
			offers:     maps.Clone(from.offers),
			users:      from.users,
			access:     from.access,
			leftovers:  from.leftovers,
			losses:     from.losses,
		},
		next: next,
		now:  now,
	}
}

// etag is unique because versions are, and has the service's form.
func (d *draft) etag() resource.ETag {
	v := d.view.version
	return resource.ETag(fmt.Sprintf(`"%08x-%04x-0700-0000-%08x0000"`, uint32(v), uint16(v>>32), uint32(d.now)))
}

func (d *draft) putDatabase(r resource.Database, containers map[string]*Container) error {
	database := &database{Database: r, containers: containers}
	d.view.databases[r.ID] = database
	d.view.byRID[r.RID] = database
	return d.put(databaseRow, r.RID, r)
}

func (d *draft) deleteDatabase(database *database) {
	delete(d.view.databases, database.ID)
	delete(d.view.byRID, database.RID)
	d.remove(databaseRow, database.RID)
	d.deleteOffer(database.RID)
}

// putContainer replaces the container in its database, which is copied.
func (d *draft) putContainer(c *Container) error {
	d.database(c.RID.Database()).containers[c.ID] = c
	d.view.containers[c.RID] = c
	return d.put(containerRow, c.RID, storedContainer{
		Container: c.Container, Version: c.Version, Next: c.NextPartition, Partitions: c.Partitions(), Splits: c.Splits,
		Merges: c.Merges, Since: c.Since, Gone: c.Gone,
	})
}

// deleteContainer removes a container, and records its directories as leftovers.
func (d *draft) deleteContainer(c *Container) error {
	delete(d.database(c.RID.Database()).containers, c.ID)
	delete(d.view.containers, c.RID)
	d.remove(containerRow, c.RID)
	d.deleteScripts(c)
	d.deletePermissionsFor(c.RID)
	d.deleteOffer(c.RID)
	return d.leave(c.RID, c.Planned(), c.ids())
}

// ids returns the partitions, in the order of their ranges.
func (c *Container) ids() []resource.PartitionID {
	ids := make([]resource.PartitionID, c.Ranges.Len())
	for i := range ids {
		ids[i] = c.Ranges.At(i).Value.ID
	}
	return ids
}

// Planned returns the children of the splits and merges in progress.
func (c *Container) Planned() (ids []resource.PartitionID) {
	for _, plan := range c.Splits {
		ids = append(ids, plan.Children[0].ID, plan.Children[1].ID)
	}
	for _, plan := range c.Merges {
		ids = append(ids, plan.Child.ID)
	}
	return ids
}

// database returns a copy of a database, which the draft may change.
func (d *draft) database(rid resource.RID) *database {
	old := d.view.byRID[rid]
	fresh := &database{Database: old.Database, containers: maps.Clone(old.containers)}
	d.view.databases[old.ID] = fresh
	d.view.byRID[rid] = fresh
	return fresh
}

// putOffer stores t for owner; nil stores nothing.
func (d *draft) putOffer(t *resource.Throughput, owner resource.RID) error {
	if t == nil {
		return nil
	}
	offer := *t
	if offer.RID == "" {
		offer.RID = resource.OfferRID(d.next.Offer)
		d.next.Offer++
	}
	offer.Owner = owner
	offer.ETag, offer.TS = d.etag(), d.now
	if old := d.view.offers[owner]; old == nil {
		offer.Earlier, offer.Replaced = nil, d.now
	} else {
		offer.Earlier, offer.Replaced = old.Earlier, old.Replaced
		if old.Manual != offer.Manual || old.Max != offer.Max {
			offer.Earlier = slices.Concat(old.Earlier, []resource.EarlierThroughput{{Manual: old.Manual, Max: old.Max, TS: old.Replaced}})
			offer.Earlier = offer.Earlier[max(0, len(offer.Earlier)-resource.EarlierMax):]
			offer.Replaced = d.now
		}
	}
	d.view.offers[owner] = &offer
	return d.put(offerRow, offer.RID, offer)
}

func (d *draft) deleteOffer(owner resource.RID) {
	if offer, ok := d.view.offers[owner]; ok {
		delete(d.view.offers, owner)
		d.remove(offerRow, offer.RID)
	}
}
