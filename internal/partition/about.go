package partition

import (
	"encoding/binary"
	"fmt"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// About is what the store of a partition says of itself, whatever a catalog says.
type About struct {
	Container resource.RID
	Key       partitionkey.Definition
	resource.Partition
	Policy resource.IndexingPolicy

	LSN       resource.LSN // of the last effect that is there
	Latest    int64        // the latest _ts, in seconds since 1970
	Documents int64
	Bytes     int64 // of their JSON without system properties

	// Catalog is the version of the catalog that was current when the partition was
	// last changed. Zero is one that this release has not written to yet.
	Catalog uint64

	// HasUniqueKeys says that the container has unique keys, which only a catalog
	// defines.
	HasUniqueKeys bool
}

// ReadAbout reads it. The error is for a store that is no partition's, or is damaged.
func ReadAbout(snapshot *storage.Snapshot) (About, error) {
	d, s, x, err := readMeta(snapshot)
	if err != nil {
		return About{}, err
	}
	about := About{Container: d.Container, Key: d.Key, Partition: d.Partition, Policy: x.Policy, LSN: s.lsn, Latest: s.ts, Documents: s.items, Bytes: s.bytes}
	if about.Catalog, err = readCatalog(snapshot); err != nil {
		return About{}, err
	}
	low, high := storage.FamilyUnique.Bounds()
	rows := snapshot.Iter(low, high)
	about.HasUniqueKeys = rows.First()
	return about, rows.Close()
}

// catalogBytes is the width of the row metaCatalog: the version of the row and that
// of the catalog.
const catalogBytes = 1 + 8

func appendCatalog(dst []byte, version uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, metaVersion), version)
}

// putCatalog records the version of the catalog in a store that is being made, where
// there is one.
func (c *Config) putCatalog(batch *storage.Batch) error {
	version := c.catalogVersion()
	if version == 0 {
		return nil
	}
	return batch.Set(storage.MetaKey(nil, metaCatalog), appendCatalog(nil, version))
}

func decodeCatalog(row []byte) (version uint64, err error) {
	if len(row) != catalogBytes || row[0] != metaVersion {
		return 0, fmt.Errorf("catalog version %x: %w", row, errMeta)
	}
	return binary.BigEndian.Uint64(row[1:]), nil
}

// readCatalog reads the version of the catalog that a partition was last changed
// under; zero when it has none.
func readCatalog(r reader) (version uint64, err error) {
	row, found, err := r.Get(nil, storage.MetaKey(nil, metaCatalog))
	if err != nil || !found {
		return 0, err
	}
	return decodeCatalog(row)
}

// catalogVersion returns the version of the catalog now.
func (c *Config) catalogVersion() uint64 {
	if c.CatalogVersion == nil {
		return 0
	}
	return c.CatalogVersion()
}

// under adds to a complete effect the version of the catalog that it was made under,
// when it is newer than the one that the effects before it have recorded.
func (b *builder) under(p *Partition) {
	version := p.config.catalogVersion()
	if version <= b.writer.catalog || b.err != nil {
		return
	}
	b.writer.key = storage.MetaKey(b.writer.key[:0], metaCatalog)
	b.writer.cell = appendCatalog(b.writer.cell[:0], version)
	b.check(b.batch.Set(b.writer.key, b.writer.cell))
	if b.err == nil {
		b.writer.catalog = version
	}
}
