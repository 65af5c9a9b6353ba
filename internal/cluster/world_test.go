package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/internal/storage/storagetest"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// world is a catalog and a node on a disk in memory.
type world struct {
	pool    *storage.Pool
	store   *storage.Store
	catalog *catalog.Catalog
	node    *cluster.Node

	offer *resource.Throughput // of the containers that createWith creates; nil for none
}

// open opens the data directory on a disk, or creates it.
func open(disk *storagetest.Disk, maxOpen int) (*world, error) { return openOn(disk.FS(), maxOpen) }

func openOn(files vfs.FS, maxOpen int) (*world, error) {
	pool, err := storage.NewPool(storage.Options{FS: files})
	if err != nil {
		return nil, err
	}
	w := &world{pool: pool}
	if _, err = files.Stat("data/catalog"); err == nil {
		var must storage.Opening
		if must, err = cluster.VerifyCatalog(files, "data"); err == nil {
			w.store, err = pool.OpenVerified("data/catalog", must)
		}
	} else {
		w.store, err = pool.Create("data/catalog")
	}
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	if w.catalog, err = catalog.Open(w.store, nil); err == nil {
		config := w.config()
		config.MaxOpen = maxOpen
		w.node, err = cluster.Start(config)
	}
	if err != nil {
		return nil, errors.Join(err, w.store.Close(), pool.Close())
	}
	return w, nil
}

// config returns the configuration that most tests use.
func (w *world) config() cluster.Config {
	return cluster.Config{Pool: w.pool, Dir: "data", Catalog: w.catalog, Limits: resource.DefaultLimits()}
}

// restart starts the node again with another configuration.
func (w *world) restart(t testing.TB, change func(*cluster.Config)) {
	t.Helper()
	if err := w.node.Close(); err != nil {
		t.Fatal(err)
	}
	config := w.config()
	change(&config)
	var err error
	if w.node, err = cluster.Start(config); err != nil {
		t.Fatal(err)
	}
}

func (w *world) close() error {
	return errors.Join(w.node.Close(), w.store.Close(), w.pool.Close())
}

func start(t testing.TB, maxOpen int) (*world, *storagetest.Disk) {
	t.Helper()
	disk := storagetest.NewCrashable()
	w, err := open(disk, maxOpen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return w, disk
}

func tile(d partitionkey.Definition, n int) []resource.Partition {
	var all []resource.Partition
	for i, r := range d.Divide(n) {
		all = append(all, resource.Partition{ID: resource.PartitionID(i), Range: r, Group: 1, Generation: 1, Ordinal: uint32(i)})
	}
	return all
}

// prepare reserves a container with key /pk in database d.
func (w *world) prepare(name string) (resource.Container, error) {
	ctx := context.Background()
	if _, ok := w.catalog.View().Database("d"); !ok {
		if _, err := w.catalog.Commit(ctx, catalog.CreateDatabase{Database: resource.Database{ID: "d"}}); err != nil {
			return resource.Container{}, err
		}
	}
	database, _ := w.catalog.View().Database("d")
	body, err := value.ParseString(fmt.Sprintf(`{"id":%q,"partitionKey":{"paths":["/pk"]}}`, name))
	if err != nil {
		return resource.Container{}, err
	}
	c, err := resource.ParseContainer(body)
	c.RID = w.catalog.ReserveContainer(database.RID)
	return c, err
}

// create creates a container of n partitions.
func (w *world) create(name string, n int) (*catalog.Container, error) {
	ctx := context.Background()
	c, err := w.prepare(name)
	if err != nil {
		return nil, err
	}
	partitions := tile(c.PartitionKey, n)
	if err := w.node.CreatePartitions(ctx, c, partitions); err != nil {
		return nil, err
	}
	view, err := w.catalog.Commit(ctx, catalog.CreateContainer{Container: c, Partitions: partitions})
	if err != nil {
		return nil, err
	}
	created, _ := view.Container("d", name)
	return created, nil
}

// write stores a document in partition p of c. It tries keys until one belongs there.
func (w *world) write(c *catalog.Container, p resource.PartitionID, id string) error {
	return w.writeText(c, p, id, "")
}

// writeText is write for a document with a text.
func (w *world) writeText(c *catalog.Container, p resource.PartitionID, id, text string) error {
	k, epk := keyIn(c, p)
	replica, release, err := w.node.Replica(context.Background(), c, p)
	if err != nil {
		return err
	}
	defer release()
	doc := value.Object([]value.Member{{Name: "id", Value: value.String(id)}, {Name: "pk", Value: value.String(k.At(0).Text())}, {Name: "text", Value: value.String(text)}})
	_, err = replica.Write(context.Background(), partition.Write{Op: partition.Upsert, Generation: generation(c, p), Key: k, EPK: epk, ID: id, Document: doc})
	return err
}

// read returns an error if the document that write stored is missing.
func (w *world) read(c *catalog.Container, p resource.PartitionID, id string) error {
	k, epk := keyIn(c, p)
	replica, release, err := w.node.Replica(context.Background(), c, p)
	if err != nil {
		return err
	}
	defer release()
	_, err = replica.Read(context.Background(), partition.Read{Generation: generation(c, p), Key: k, EPK: epk, ID: id})
	return err
}

// generation returns the generation of a partition, or 1 if the container does not have it.
func generation(c *catalog.Container, p resource.PartitionID) resource.Generation {
	named, _ := c.Partition(p)
	return max(named.Generation, 1)
}

// check verifies a disk that no node uses.
func check(t testing.TB, disk *storagetest.Disk) cluster.Report {
	t.Helper()
	pool, err := storage.NewPool(storage.Options{FS: disk.FS()})
	if err != nil {
		t.Fatal(err)
	}
	report, err := cluster.CheckStores(pool, "data")
	if err := errors.Join(err, pool.Close()); err != nil {
		t.Fatal(err)
	}
	return report
}

func keyIn(c *catalog.Container, p resource.PartitionID) (partitionkey.Key, partitionkey.EPK) {
	for i := 0; ; i++ {
		k := partitionkey.NewKey(partitionkey.String(fmt.Sprint(i)))
		if epk := c.PartitionKey.Hash(k); c.Ranges.Locate(epk).Value.ID == p {
			return k, epk
		}
	}
}

// count returns the number of documents in a partition.
func (w *world) count(c *catalog.Container, p resource.PartitionID) (int64, error) {
	replica, release, err := w.node.Replica(context.Background(), c, p)
	if err != nil {
		return 0, err
	}
	defer release()
	return replica.Stats().Documents, nil
}
