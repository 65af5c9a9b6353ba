package partition

import (
	"github.com/decandb/decan/internal/partition/layout"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// Summary describes a partition from its own store, without the catalog.
type Summary struct {
	Container resource.RID
	Key       partitionkey.Definition
	resource.Partition
	Policy resource.IndexingPolicy

	LSN       resource.LSN // of the last effect
	Latest    int64        // the latest _ts, in seconds since 1970
	Documents int64
	Bytes     int64 // of their JSON without system properties

	// Catalog is the version of the catalog at the last change of the partition, zero
	// if none was recorded.
	Catalog uint64

	// HasUniqueKeys says that the container has unique keys. Only the catalog has their
	// definition.
	HasUniqueKeys bool
}

// ReadSummary reads the description from a snapshot. The error says that it is not that
// of a partition, or is damaged.
func ReadSummary(snapshot *storage.Snapshot) (Summary, error) {
	d, s, x, err := layout.ReadMeta(snapshot)
	if err != nil {
		return Summary{}, err
	}
	summary := Summary{Container: d.Container, Key: d.Key, Partition: d.Partition, Policy: x.Policy, LSN: s.LSN, Latest: s.TS, Documents: s.Items, Bytes: s.Bytes}
	if summary.Catalog, err = layout.ReadCatalog(snapshot); err != nil {
		return Summary{}, err
	}
	low, high := storage.FamilyUnique.Bounds()
	rows := snapshot.Iter(low, high)
	summary.HasUniqueKeys = rows.First()
	return summary, rows.Close()
}

// putCatalog records the version of the catalog, if there is one, in the store of a new
// partition.
func (c *Config) putCatalog(batch *storage.Batch) error {
	version := c.catalogVersion()
	if version == 0 {
		return nil
	}
	return batch.Set(storage.MetaKey(nil, layout.MetaCatalog), layout.AppendCatalog(nil, version))
}

// catalogVersion returns the current version of the catalog, zero if it is unknown.
func (c *Config) catalogVersion() uint64 {
	if c.CatalogVersion == nil {
		return 0
	}
	return c.CatalogVersion()
}

// under adds the version of the catalog to a complete effect, if it is newer than the
// version that was recorded last.
func (b *builder) under(p *Partition) {
	version := p.config.catalogVersion()
	if version <= b.writer.catalog || b.err != nil {
		return
	}
	b.writer.key = storage.MetaKey(b.writer.key[:0], layout.MetaCatalog)
	b.writer.cell = layout.AppendCatalog(b.writer.cell[:0], version)
	b.check(b.batch.Set(b.writer.key, b.writer.cell))
	if b.err == nil {
		b.writer.catalog = version
	}
}
