package cluster_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage/storagetest"
)

// TestChildrenAreAdopted accepts the loss of a newer catalog, which moves the children
// of a split to the quarantine. A restore replaces their parent with them, with every
// document.
func TestChildrenAreAdopted(t *testing.T) {
	t.Parallel()
	w, disk, c := begun(t)
	if _, err := w.node.Split(t.Context(), c.RID, 1, "\x28"); err != nil {
		t.Fatal(err)
	}
	version := w.catalog.View().Version()
	rollBack(t, w, disk)
	refused(t, disk, "catalog is older")
	a := accept(t, disk)
	if len(a.Kept) != 2 || len(a.Lost) == 0 || len(a.Remaining) != 1 {
		t.Fatalf("accepted %+v", a)
	}
	refused(t, disk, "/1")
	if _, err := restore(t, disk, "", a.Kept[0]); err == nil || !strings.Contains(err.Error(), "range") {
		t.Errorf("one child alone: %v", err)
	}
	if _, err := restore(t, disk, "d/other", a.Kept...); err == nil {
		t.Error("restored under another name")
	}
	if got := quarantined(t, disk); !slices.Contains(got, a.Kept[0]) || !slices.Contains(got, a.Kept[1]) {
		t.Fatalf("after the refused restores the quarantine has %q", got)
	}
	if done, err := restore(t, disk, "", a.Kept...); err != nil {
		t.Fatalf("%q: %v", done, err)
	}
	w, err := open(disk, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.catalog.View().Version(); got <= version {
		t.Errorf("version %d is used twice: the catalog already had %d", got, version)
	}
	again, _ := w.catalog.View().ContainerByRID(c.RID)
	documents := int64(0)
	for _, p := range again.Partitions() {
		n, err := w.count(again, p.ID)
		if err != nil {
			t.Fatal(err)
		}
		documents += n
	}
	if documents != 2 || again.Ranges.Len() != 3 {
		t.Errorf("%d documents in %d partitions, want 2 in 3", documents, again.Ranges.Len())
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	checkClean(t, disk)
}

// TestWrittenParentIsNotReplaced refuses to replace a parent that was written to after its
// children were split off.
func TestWrittenParentIsNotReplaced(t *testing.T) {
	t.Parallel()
	w, disk, c := begun(t)
	copyTree(t, disk, fmt.Sprintf("data/p/%x/1", string(c.RID)), "parent")
	if _, err := w.node.Split(t.Context(), c.RID, 1, "\x28"); err != nil {
		t.Fatal(err)
	}
	rollBack(t, w, disk)
	copyTree(t, disk, "parent", fmt.Sprintf("data/p/%x/1", string(c.RID)))
	a := accept(t, disk)
	w, err := open(disk, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.write(c, 1, "new"); err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := restore(t, disk, "", a.Kept...); err == nil || !strings.Contains(err.Error(), "was written to") {
		t.Errorf("got %v, want it refused", err)
	}
	checkClean(t, disk)
}

// checkClean verifies that a check finds no problem, regardless of the quarantine.
func checkClean(t *testing.T, disk *storagetest.Disk) {
	t.Helper()
	if report := check(t, disk); !report.Clean() {
		t.Errorf("problems %q", report.Problems)
	}
}

// TestContainerIsAdopted restores a container that the catalog has lost, with a new name.
func TestContainerIsAdopted(t *testing.T) {
	t.Parallel()
	w, disk, _ := begun(t)
	lost, err := w.create("lost", 2)
	if err != nil {
		t.Fatal(err)
	}
	for id := range resource.PartitionID(2) {
		if err := w.write(lost, id, "x"); err != nil {
			t.Fatal(err)
		}
	}
	rollBack(t, w, disk)
	a := accept(t, disk)
	if len(a.Kept) != 2 || len(a.Remaining) != 0 {
		t.Fatalf("accepted %+v", a)
	}
	for as, names := range map[string][]string{"": a.Kept, "d/lost": a.Kept[:1], "d/c": a.Kept, "e/lost": a.Kept, "lost": a.Kept} {
		if done, err := restore(t, disk, as, names...); err == nil {
			t.Errorf("%q from %d partitions: %s", as, len(names), done)
		}
	}
	if _, err := restore(t, disk, "d/lost", a.Kept...); err != nil {
		t.Fatal(err)
	}
	if w, err = open(disk, 10); err != nil {
		t.Fatal(err)
	}
	again, found := w.catalog.View().Container("d", "lost")
	if !found || again.RID != lost.RID {
		t.Fatalf("found %v", found)
	}
	for id := range resource.PartitionID(2) {
		if err := errors.Join(w.read(again, id, "x"), w.write(again, id, "y")); err != nil {
			t.Error(err)
		}
	}
	// A new container does not get the number of a lost one.
	fresh, err := w.create("fresh", 1)
	if err != nil || fresh.RID == lost.RID {
		t.Errorf("a fresh container: %v", err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	checkClean(t, disk)
}

// TestQuarantineRestoresAndDeletes restores entries to where the newer catalog names them,
// and deletes entries, which needs their full name.
func TestQuarantineRestoresAndDeletes(t *testing.T) {
	t.Parallel()
	w, disk, c := begun(t)
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	dir := fmt.Sprintf("data/p/%x", string(c.RID))
	copyTree(t, disk, dir+"/1", dir+"/9")
	var err error
	if w, err = open(disk, 10); err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	names := quarantined(t, disk)
	if len(names) != 1 || !strings.HasSuffix(names[0], "-9") {
		t.Fatalf("quarantine %q", names)
	}
	if _, err := restore(t, disk, "", names...); err == nil || !strings.Contains(err.Error(), dir+"/1") {
		t.Errorf("over an existing partition: %v", err)
	}
	if err := disk.FS().RemoveAll(dir + "/1"); err != nil {
		t.Fatal(err)
	}
	refused(t, disk, dir+"/1")
	if _, err := restore(t, disk, "", names...); err != nil {
		t.Fatal(err)
	}
	if w, err = open(disk, 10); err != nil {
		t.Fatal(err)
	}
	if err := w.read(c, 1, "x"); err != nil {
		t.Error(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	clean(t, disk, 2)
	if err := disk.FS().MkdirAll(dir+"/x", 0o700); err != nil {
		t.Fatal(err)
	}
	if w, err = open(disk, 10); err != nil {
		t.Fatal(err)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	names = quarantined(t, disk)
	for _, wrong := range []string{"", ".", "..", names[0][:10], names[0] + "/content"} {
		if err := cluster.DeleteQuarantined(disk.FS(), "data", wrong); err == nil {
			t.Errorf("deleted %q", wrong)
		}
	}
	if _, err := restore(t, disk, "", names...); err == nil {
		t.Error("restored an entry without a partition")
	}
	if err := cluster.DeleteQuarantined(disk.FS(), "data", names[0]); err != nil {
		t.Fatal(err)
	}
	clean(t, disk, 2)
}
