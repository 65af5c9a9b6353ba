package catalog

import (
	"encoding/json"
	"fmt"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// format is the highest version of the rows in this file that this release reads;
// docs/formats/catalog-store.md describes them. A newer one is refused.
const format = 2

// The kinds of rows. Each is a row of the meta family whose name is the kind and
// the RID in hexadecimal; its value is JSON. The row named head has the format,
// version and counters of the others.
const (
	headName     = "catalog"
	databaseRow  = "database/"
	containerRow = "container/"
	offerRow     = "offer/"
)

// head is the row that every commit rewrites.
type head struct {
	Format  int      `json:"format"`
	Version uint64   `json:"version"`
	Next    counters `json:"next"`
}

// storedContainer is a container row.
type storedContainer struct {
	Container  resource.Container   `json:"container"`
	Version    uint64               `json:"version"` // of the ranges
	Next       resource.PartitionID `json:"next"`
	Partitions []resource.Partition `json:"partitions"`
	Splits     []SplitPlan          `json:"splits,omitempty"`
	Merges     []MergePlan          `json:"merges,omitempty"`

	Since map[resource.PartitionID]uint64 `json:"since,omitempty"`
	Gone  []GonePartition                 `json:"gone,omitempty"`
}

// row is one row to write; a nil value removes it.
type row struct {
	key   []byte
	value []byte
}

func rowKey(kind string, rid resource.RID) []byte {
	return storage.MetaKey(nil, fmt.Sprintf("%s%x", kind, string(rid)))
}

func (d *draft) put(kind string, rid resource.RID, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode %s%s: %w", kind, rid, err)
	}
	d.rows = append(d.rows, row{key: rowKey(kind, rid), value: text})
	return nil
}

func (d *draft) remove(kind string, rid resource.RID) {
	d.rows = append(d.rows, row{key: rowKey(kind, rid)})
}

// commit writes the rows and the new head in one synced batch.
func (d *draft) commit(store *storage.Store) error {
	text, err := json.Marshal(head{Format: d.view.format(), Version: d.view.version, Next: d.next})
	if err != nil {
		return err
	}
	batch := store.NewBatch()
	defer batch.Close()
	for _, r := range append(d.rows, row{key: storage.MetaKey(nil, headName), value: text}) {
		if r.value == nil {
			err = batch.Delete(r.key)
		} else {
			err = batch.Set(r.key, r.value)
		}
		if err != nil {
			return err
		}
	}
	return store.Apply(batch)
}

// Read returns the view of a store without committing to it.
func Read(snapshot *storage.Snapshot) (*View, error) {
	view, _, err := load(snapshot)
	if err != nil {
		return nil, fmt.Errorf("read catalog: %w", err)
	}
	return view, nil
}

// load reads a whole catalog. A store without a head is a new one.
func load(snapshot *storage.Snapshot) (*View, counters, error) {
	view := &View{
		databases:  map[string]*database{},
		byRID:      map[resource.RID]*database{},
		containers: map[resource.RID]*Container{},
		offers:     map[resource.RID]*Throughput{},
		access:     newAccess(),
	}
	next := counters{Database: 1, Container: 1, Offer: 1}
	text, found, err := snapshot.Get(nil, storage.MetaKey(nil, headName))
	if err != nil || !found {
		return view, next, err
	}
	var h head
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, next, fmt.Errorf("read the head row: %w", err)
	}
	if h.Format > format {
		return nil, next, fmt.Errorf("the catalog has format %d, this release reads formats up to %d: use the release that wrote it or a later one", h.Format, format)
	}
	view.version = h.Version
	// Owners first: databases, then containers, then their contents.
	err = scan(snapshot, databaseRow, func(r resource.Database) error {
		d := &database{Database: r, containers: map[string]*Container{}}
		view.databases[r.ID], view.byRID[r.RID] = d, d
		return nil
	})
	if err != nil {
		return nil, next, err
	}
	if err := scan(snapshot, containerRow, view.load); err != nil {
		return nil, next, err
	}
	for _, kind := range resource.ScriptKinds {
		if err := scan(snapshot, scriptRow(kind), view.loadScript); err != nil {
			return nil, next, err
		}
	}
	if err := view.loadPeople(snapshot); err != nil {
		return nil, next, err
	}
	if err := scan(snapshot, leftoverRow, view.loadLeftovers); err != nil {
		return nil, next, err
	}
	if err := scan(snapshot, lossRow, view.loadLoss); err != nil {
		return nil, next, err
	}
	h.Next.User = view.nextUser(h.Next.User)
	err = scan(snapshot, offerRow, func(t resource.Throughput) error {
		view.offers[t.Owner] = &t
		return nil
	})
	return view, h.Next, err
}

// StoredVersion reads the version of the catalog in a store; it is zero for a new
// store.
func StoredVersion(snapshot *storage.Snapshot) (uint64, error) {
	text, found, err := snapshot.Get(nil, storage.MetaKey(nil, headName))
	if err != nil || !found {
		return 0, err
	}
	var h head
	if err := json.Unmarshal(text, &h); err != nil {
		return 0, fmt.Errorf("read the head row: %w", err)
	}
	return h.Version, nil
}

// load adds a stored container to the view, with the checks for a new one.
func (v *View) load(stored storedContainer) error {
	rid := stored.Container.RID
	database, ok := v.byRID[rid.Database()]
	if !ok {
		return fmt.Errorf("container %s: its database is missing", rid)
	}
	c := &Container{
		Container:     stored.Container,
		Database:      database.Database,
		Version:       stored.Version,
		NextPartition: stored.Next,
		Splits:        stored.Splits,
		Merges:        stored.Merges,
		Since:         stored.Since,
		Gone:          stored.Gone,
	}
	if err := c.setPartitions(stored.Partitions); err != nil {
		return err
	}
	database.containers[c.ID] = c
	v.containers[rid] = c
	return nil
}

// scan decodes every row of a kind.
func scan[T any](snapshot *storage.Snapshot, kind string, take func(T) error) error {
	low := storage.MetaKey(nil, kind)
	high := append(storage.MetaKey(nil, kind), 0xff)
	rows := snapshot.Iter(low, high)
	defer rows.Close()
	for ok := rows.First(); ok; ok = rows.Next() {
		var content T
		if err := json.Unmarshal(rows.Value(), &content); err != nil {
			return fmt.Errorf("read row %q: %w", rows.Key(), err)
		}
		if err := take(content); err != nil {
			return err
		}
	}
	return rows.Err()
}
