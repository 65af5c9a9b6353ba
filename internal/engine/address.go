package engine

import (
	"context"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/partitionkey"
)

// Address is a container as one version of the catalog has it, for doors whose clients
// address physical partitions. The zero value is of no container.
type Address struct {
	engine    *Engine
	container *catalog.Container
}

// Address finds the container that a link names. It returns false if there is none. It
// checks no permission: the caller must be authenticated.
func (e *Engine) Address(link Link) (Address, bool) {
	c, ok := locateContainer(e.catalog.View(), link)
	return Address{e, c}, ok
}

// AddressByRID finds a container by its RID.
func (e *Engine) AddressByRID(rid resource.RID) (Address, bool) {
	c, ok := e.catalog.View().ContainerByRID(rid)
	return Address{e, c}, ok
}

// RID returns that of the container.
func (a Address) RID() resource.RID { return a.container.RID }

// Owner returns the names of the container.
func (a Address) Owner() Owner {
	return Owner{Database: a.container.Database.ID, Container: a.container.ID}
}

// IsTable reports whether the container is a table of the Cassandra API.
func (a Address) IsTable() bool { return a.container.IsTable() }

// Has reports whether the container has the partition: not one that others have
// replaced.
func (a Address) Has(id resource.PartitionID) bool {
	_, ok := a.container.Partition(id)
	return ok
}

// Holds reports whether the partition has documents of a key, of a prefix of a key, or
// of no valid key, about which other errors say more.
func (a Address) Holds(id resource.PartitionID, key partitionkey.Key) bool {
	key = given(a.container.PartitionKey, key)
	at, err := a.container.PartitionKey.Prefix(key)
	if err != nil || a.container.PartitionKey.Check(key, false) != nil {
		return true
	}
	p, ok := a.container.Partition(id)
	return ok && p.Range.Overlaps(at)
}

// LSN returns the LSN that a partition has reached. With open it opens a partition that
// is closed; otherwise the LSN of such a one is the first.
func (a Address) LSN(ctx context.Context, id resource.PartitionID, open bool) (resource.LSN, error) {
	if lsn, ok := a.engine.node.LSN(a.container, id); ok {
		return shownLSN(lsn), nil
	}
	if !open {
		return shownLSN(0), nil
	}
	replica, release, err := a.engine.node.Replica(ctx, a.container, id)
	if err != nil {
		return shownLSN(0), fail(err)
	}
	defer release()
	return shownLSN(replica.Stats().LSN), nil
}

// DefinitionsLSN returns the LSN of the definitions: databases, containers, users and
// permissions. It rises with each change of the catalog.
func (e *Engine) DefinitionsLSN() resource.LSN {
	return shownLSN(resource.LSN(e.catalog.View().Version()))
}
