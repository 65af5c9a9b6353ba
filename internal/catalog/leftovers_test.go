package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
	"github.com/decandb/decan/partitionkey"
)

// leftoversText lists the directories that may be deleted.
func leftoversText(v *catalog.View) string {
	var b strings.Builder
	for _, l := range v.Leftovers() {
		what := "retired"
		if l.Planned {
			what = "planned"
		}
		fmt.Fprintf(&b, "%s of %s %s\n", l.Partition, l.Container, what)
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}

// recovery builds the changes of leftovers and of recovery. A partition to adopt
// is id:min-max.
func (w *world) recovery(t *testing.T, d *datadriven.TestData, names []string, container *catalog.Container) (catalog.Change, error) {
	switch d.Cmd {
	case "plan-container":
		database, found := w.View().Database(names[0])
		if !found {
			database.RID = resource.DatabaseRID(999)
		}
		c := parseContainer(t, names[1])
		w.planned[names[1]] = w.ReserveContainer(database.RID)
		return catalog.PlanContainer{RID: w.planned[names[1]], Partitions: tile(c.PartitionKey, 2)}, nil
	case "forget":
		used := usedOf(t, d)[0]
		return catalog.ForgetLeftovers{{Container: used.Container, Partition: used.Partition}}, nil
	case "overtake":
		var version uint64
		d.ScanArgs(t, "version", &version)
		return catalog.Overtake{Version: version, Partitions: usedOf(t, d)}, nil
	case "adopt":
		return catalog.AdoptPartitions{Container: container.RID, Partitions: adopted(t, d)}, nil
	case "adopt-container":
		var database, number uint32
		var of string
		d.ScanArgs(t, "of", &of)
		if _, err := fmt.Sscanf(of, "%d/%d", &database, &number); err != nil {
			t.Fatal(err)
		}
		c := parseContainer(t, names[1])
		c.RID = resource.ContainerRID(resource.DatabaseRID(database), number)
		return catalog.AdoptContainer{Database: names[0], Container: c, Partitions: adopted(t, d)}, nil
	}
	return nil, fmt.Errorf("unknown command %s", d.Cmd)
}

// usedOf reads partitions with the numbers of database and container, such as
// of=1/2/7.
func usedOf(t *testing.T, d *datadriven.TestData) (all []catalog.Used) {
	for _, arg := range d.CmdArgs {
		if arg.Key != "used" {
			continue
		}
		for _, val := range arg.Vals {
			var database, number, id uint32
			if _, err := fmt.Sscanf(val, "%d/%d/%d", &database, &number, &id); err != nil {
				t.Fatal(err)
			}
			all = append(all, catalog.Used{
				Container: resource.ContainerRID(resource.DatabaseRID(database), number), Partition: resource.PartitionID(id),
			})
		}
	}
	return all
}

// adopted reads the partitions of a command, such as 2:-2A.
func adopted(t *testing.T, d *datadriven.TestData) (all []resource.Partition) {
	for _, arg := range d.CmdArgs {
		if arg.Key != "p" {
			continue
		}
		for _, val := range arg.Vals {
			id, bounds, _ := strings.Cut(val, ":")
			low, high, _ := strings.Cut(bounds, "-")
			var n uint32
			if _, err := fmt.Sscan(id, &n); err != nil {
				t.Fatal(err)
			}
			p := resource.Partition{ID: resource.PartitionID(n), Group: 1, Generation: 2, Ordinal: n}
			for _, bound := range []struct {
				text string
				to   *partitionkey.EPK
			}{{low, &p.Range.Min}, {high, &p.Range.Max}} {
				epk, err := partitionkey.ParseEPK(bound.text)
				if err != nil {
					t.Fatal(err)
				}
				*bound.to = epk
			}
			all = append(all, p)
		}
	}
	return all
}

// Commits are marked with their version before they are visible, and refused ones
// are not.
func TestCommitsAreMarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var marked []uint64
	w.Mark(func(version uint64, at storage.Position) {
		if seen := w.View().Version(); seen != version-1 {
			t.Errorf("version %d is marked when %d is seen", version, seen)
		}
		if at == "" {
			t.Error("the store has nothing")
		}
		marked = append(marked, version)
	})
	for range 2 {
		_, _ = w.Commit(t.Context(), catalog.CreateDatabase{Database: resource.Database{ID: "d"}}) // the second one is refused
	}
	w.Mark(nil)
	if _, err := w.Commit(t.Context(), catalog.CreateDatabase{Database: resource.Database{ID: "e"}}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(marked) != "[1]" {
		t.Errorf("marked %v, want [1]", marked)
	}
	snapshot := w.store.Snapshot()
	defer snapshot.Close()
	if stored, err := catalog.StoredVersion(snapshot); err != nil || stored != 2 {
		t.Errorf("stored version %d, %v, want 2", stored, err)
	}
}
