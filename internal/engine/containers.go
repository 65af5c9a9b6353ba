package engine

import (
	"context"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// partitionsMax bounds the explicit number of partitions of a new container. It
// is several times what the highest throughput needs.
const partitionsMax = 1000

// CreateContainer creates a container with its physical partitions:
// req.Partitions of them, or else as many as its throughput needs. A container
// without a throughput of its own shares that of its database. If the database
// has none, it gets the lowest throughput.
func (e *Engine) CreateContainer(ctx context.Context, caller auth.Caller, req ContainerRequest) (Resource, error) {
	return e.define(caller, auth.Create, req.Link, func(out *Resource) error {
		view := e.catalog.View()
		database, err := ownerDatabase(view, req.Link, out)
		if err != nil {
			return err
		}
		if len(database.Keyspace) > 0 {
			return notByREST("keyspace", database.ID)
		}
		container, err := computable(resource.ParseContainer(req.Body))
		if err != nil {
			return err
		}
		if _, taken := view.Container(database.ID, container.ID); taken {
			return status.Conflict()
		}
		if err := e.roomForOne(view); err != nil {
			return err
		}
		own, sizing, err := e.throughputFor(view, database, req.Throughput)
		if err != nil {
			return err
		}
		count := e.limits.PartitionsFor(sizing)
		if req.Partitions != 0 {
			count = req.Partitions
		}
		if count < 1 || count > partitionsMax {
			return status.BadRequest("A container can start with 1 to %d physical partitions, not %d.", partitionsMax, count)
		}
		container.RID = e.catalog.ReserveContainer(database.RID)
		return e.build(ctx, catalog.CreateContainer{
			Container:  container,
			Partitions: e.tile(container.PartitionKey, count),
			Throughput: own,
		}, out)
	})
}

// build creates the directories, then commits the container that names them.
func (e *Engine) build(ctx context.Context, change catalog.CreateContainer, out *Resource) error {
	if err := e.node.CreatePartitions(ctx, change.Container, change.Partitions); err != nil {
		return err
	}
	view, err := e.catalog.Commit(ctx, change)
	if status.CodeOf(err) == status.CodeUnavailable {
		// The commit may be durable: the catalog may name them when it is
		// opened again.
		return err
	}
	if err != nil {
		e.node.DiscardPartitions(change.Container.RID, change.Partitions)
		return err
	}
	c, ok := view.ContainerByRID(change.Container.RID)
	if !ok {
		return status.NotFound() // unreachable: view is the one this commit made
	}
	e.logger.Info("container created", "container", c.RID, "partitions", c.Ranges.Len())
	out.container(view, c)
	return nil
}

// tile returns the partitions of a new container.
func (e *Engine) tile(d partitionkey.Definition, count int) []resource.Partition {
	created := resource.Timestamp(e.guardedNow().Unix())
	partitions := make([]resource.Partition, 0, count)
	for i, r := range d.Divide(count) {
		partitions = append(partitions, resource.Partition{
			ID:         resource.PartitionID(i),
			Range:      r,
			Group:      1,
			Generation: 1,
			Ordinal:    uint32(i),
			CreatedAt:  created,
		})
	}
	return partitions
}

// guardedNow returns the time for what is stored: unlike the machine's clock, it does not
// follow a jump far ahead.
func (e *Engine) guardedNow() time.Time { return e.node.Clock().Now() }

// throughputFor returns the offer of a new container, nil if it shares that of
// its database or is serverless, and the throughput that decides on its number
// of partitions.
func (e *Engine) throughputFor(view *catalog.View, database resource.Database, asked ThroughputRequest) (own *resource.Throughput, sizing resource.Throughput, err error) {
	if shared, ok := view.Throughput(database.RID); ok && asked == (ThroughputRequest{}) {
		sharing := view.Provisioned(database.RID)
		if len(sharing) >= e.limits.SharedContainers {
			return nil, sizing, status.BadRequest("The throughput of database '%s' is shared by %d containers already, which is the maximum. Create the container with throughput of its own.", database.ID, len(sharing))
		}
		return nil, shared, nil
	}
	if e.serverless && asked == (ThroughputRequest{}) {
		return nil, sizing, nil
	}
	t, err := e.newThroughput(asked)
	return &t, t, err
}

// ReadContainer returns a container. Its usage is left out for a caller that may
// not read statistics.
func (e *Engine) ReadContainer(ctx context.Context, caller auth.Caller, req ContainerRequest) (Resource, error) {
	return e.define(caller, auth.Read, req.Link, func(out *Resource) error {
		view := e.catalog.View()
		c, err := readContainer(view, req.Link, out)
		if err != nil {
			return err
		}
		out.container(view, c)
		if err := unmodified(req.IfNoneMatch, c.ETag); err != nil {
			out.Body = nil
			return err
		}
		if req.Usage && e.allow(caller, auth.Access{Action: auth.Read, On: auth.Statistics}, req.Link) == nil {
			all, err := e.stats(ctx, c)
			if err != nil {
				return err
			}
			out.Usage = new(Usage)
			for _, s := range all {
				out.Usage.add(s)
			}
		}
		out.IndexProgress = e.node.IndexProgress(ctx, c)
		return nil
	})
}

// add adds the figures of a partition.
func (u *Usage) add(s PartitionStats) {
	u.Documents += s.Documents
	u.DocumentBytes += s.DocumentBytes
	u.IndexBytes += s.IndexBytes
}

// computable returns its arguments, with an error if a computed property of the
// definition does not compile.
func computable(c resource.Container, err error) (resource.Container, error) {
	if err == nil {
		_, err = query.CompileComputed(c.Indexing.Computed)
	}
	return c, err
}

// ReplaceContainer changes what may change of a container: its indexing policy,
// and settings that Decan stores without using them. Documents are indexed
// again in the background; Resource.IndexProgress of a read tells the progress.
func (e *Engine) ReplaceContainer(ctx context.Context, caller auth.Caller, req ContainerRequest) (Resource, error) {
	return e.define(caller, auth.Replace, req.Link, func(out *Resource) error {
		return onCommit(req.IfMatch != "", func() error {
			c, err := readContainer(e.catalog.View(), req.Link, out)
			if err != nil {
				return err
			}
			if c.IsTable() {
				return notByREST("table", c.ID)
			}
			if err := matches(req.IfMatch, c.ETag); err != nil {
				return err
			}
			changed, err := computable(c.Container.Replace(req.Body))
			if err != nil {
				return err
			}
			view, err := e.catalog.Commit(ctx, catalog.ReplaceContainer{Container: changed, Expect: c.ETag})
			if err != nil {
				return err
			}
			fresh, ok := view.ContainerByRID(c.RID)
			if !ok {
				return status.NotFound() // unreachable: view is the one this commit made
			}
			e.node.Reindex(fresh)
			out.container(view, fresh)
			out.IndexProgress = e.node.IndexProgress(ctx, fresh)
			return nil
		})
	})
}

// DeleteContainer removes a container with its documents and its offer.
func (e *Engine) DeleteContainer(ctx context.Context, caller auth.Caller, req ContainerRequest) (Resource, error) {
	return e.define(caller, auth.Delete, req.Link, func(out *Resource) error {
		c, err := readContainer(e.catalog.View(), req.Link, out)
		if err != nil {
			return err
		}
		out.RID = c.RID
		if c.IsTable() {
			return notByREST("table", c.ID)
		}
		if _, err := e.catalog.Commit(ctx, catalog.DeleteContainer{RID: c.RID, Expect: req.IfMatch}); err != nil {
			return err
		}
		e.node.DropContainer(c.RID)
		e.logger.Info("container deleted", "container", c.RID)
		return nil
	})
}

// ListContainers returns a page of a database's containers.
func (e *Engine) ListContainers(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	req.Text, req.Params = listText, nil
	return e.QueryContainers(ctx, caller, req)
}

// QueryContainers runs a query over a database's containers.
func (e *Engine) QueryContainers(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	return e.definitions(ctx, caller, req, func(view *catalog.View, out *Feed) ([]definition, error) {
		database, ok := locateDatabase(view, req.Link)
		if !ok {
			return nil, status.OwnerNotFound()
		}
		out.Owner, out.OwnerRID, out.ParentRID = Owner{Database: database.ID}, database.RID, database.RID
		var all []definition
		for _, c := range view.Containers(database.RID) {
			all = append(all, definition{rid: c.RID, content: c.Container.Value()})
		}
		return all, nil
	})
}

// notByREST is the error of a change of a table or keyspace, whose definition only CQL
// changes.
func notByREST(kind, name string) error {
	return status.BadRequest("'%s' is a %s of the Cassandra API. Only CQL statements change it.", name, kind)
}

// readContainer finds a container. The error is 404/1003 if its database does
// not exist, else 404.
func readContainer(view *catalog.View, link Link, out *Resource) (*catalog.Container, error) {
	if _, err := ownerDatabase(view, link, out); err != nil {
		return nil, err
	}
	c, ok := locateContainer(view, link)
	if !ok {
		return nil, status.NotFound()
	}
	return c, nil
}

// ownerDatabase finds the database of a container and sets it as the owner in
// out.
func ownerDatabase(view *catalog.View, link Link, out *Resource) (resource.Database, error) {
	d, ok := locateDatabase(view, link)
	if !ok {
		return d, status.OwnerNotFound()
	}
	out.Owner, out.OwnerRID = Owner{Database: d.ID}, d.RID
	return d, nil
}

// container sets the fields of the answer from a container.
func (r *Resource) container(view *catalog.View, c *catalog.Container) {
	r.Body, r.RID, r.ETag, r.IndexProgress = c.Container.Value().Append(nil), c.RID, c.ETag, 100
	_, own := view.Throughput(c.RID)
	_, shared := view.Throughput(c.Database.RID)
	r.Shared = shared && !own
}
