package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// functionWorld has a database d with the containers c and e.
func functionWorld(t *testing.T) (w *world, c, e resource.RID) {
	t.Helper()
	w = newWorld(t)
	w.must(t, catalog.CreateDatabase{Database: resource.Database{ID: "d"}})
	database, _ := w.View().Database("d")
	for i, rid := range []*resource.RID{&c, &e} {
		container := parseContainer(t, []string{"c", "e"}[i])
		container.RID = w.ReserveContainer(database.RID)
		*rid = container.RID
		w.must(t, catalog.CreateContainer{Container: container, Partitions: tile(container.PartitionKey, 1)})
	}
	return w, c, e
}

func (w *world) must(t *testing.T, change catalog.Change) {
	t.Helper()
	if _, err := w.Commit(context.Background(), change); err != nil {
		t.Fatal(err)
	}
}

func (w *world) fails(t *testing.T, code status.Code, change catalog.Change) {
	t.Helper()
	if _, err := w.Commit(context.Background(), change); status.CodeOf(err) != code {
		t.Errorf("%T: got %v, want %d", change, err, code)
	}
}

// functions returns the ids and bodies of a container's functions, oldest first.
func (w *world) functions(rid resource.RID) []string {
	c, _ := w.View().ContainerByRID(rid)
	var all []string
	for _, f := range c.Functions.All() {
		all = append(all, f.ID+"="+f.Body)
	}
	return all
}

// TestFunctions creates, replaces and deletes functions, and checks each step
// before and after the catalog is opened again.
func TestFunctions(t *testing.T) {
	t.Parallel()
	w, c, e := functionWorld(t)
	check := func(rid resource.RID, want ...string) {
		t.Helper()
		for _, when := range []string{"now", "reopened"} {
			if got := w.functions(rid); !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", when, got, want)
			}
			w.reopen(t)
		}
	}
	create := func(container resource.RID, id string) catalog.CreateScript {
		return catalog.CreateScript{Container: container, Kind: resource.Function, Script: resource.Script{ID: id, Body: "1"}}
	}
	w.must(t, create(c, "f"))
	w.must(t, create(c, "g"))
	w.must(t, create(e, "f"))
	w.fails(t, status.CodeConflict, create(c, "f"))
	w.fails(t, status.CodeNotFound, create(resource.ContainerRID(resource.DatabaseRID(9), 9), "f"))
	check(c, "f=1", "g=1")
	check(e, "f=1")

	container, _ := w.View().ContainerByRID(c)
	f, _ := container.Functions.Get("f")
	version := container.Functions.Version
	changed := f
	changed.Body = "2"
	w.fails(t, status.CodePreconditionFailed, catalog.ReplaceScript{Script: changed, Expect: "other"})
	w.must(t, catalog.ReplaceScript{Script: changed, Expect: f.ETag})
	w.fails(t, status.CodePreconditionFailed, catalog.ReplaceScript{Script: changed, Expect: f.ETag})
	check(c, "f=2", "g=1")
	after, _ := w.View().ContainerByRID(c)
	if after.Functions.Version <= version || after.ETag != container.ETag {
		t.Errorf("version %d after %d, etag %s after %s", after.Functions.Version, version, after.ETag, container.ETag)
	}

	changed.ID = "g"
	w.fails(t, status.CodeConflict, catalog.ReplaceScript{Script: changed})
	changed.ID = "h"
	w.must(t, catalog.ReplaceScript{Script: changed})
	check(c, "h=2", "g=1")

	w.fails(t, status.CodePreconditionFailed, catalog.DeleteScript{RID: f.RID, Expect: "other"})
	w.must(t, catalog.DeleteScript{RID: f.RID})
	w.fails(t, status.CodeNotFound, catalog.DeleteScript{RID: f.RID})
	w.fails(t, status.CodeNotFound, catalog.ReplaceScript{Script: changed})
	check(c, "g=1")

	// A changed container keeps its functions; a deleted one loses them.
	container, _ = w.View().ContainerByRID(c)
	w.must(t, catalog.ReplaceContainer{Container: container.Container, Expect: container.ETag})
	check(c, "g=1")
	w.must(t, catalog.DeleteContainer{RID: c})
	if got := w.functionRows(t); got != 1 {
		t.Errorf("%d rows of functions are stored, want 1", got)
	}
	w.reopen(t)
	if _, ok := w.View().ContainerByRID(c); ok {
		t.Error("the container is still there")
	}
	check(e, "f=1")
}

func (w *world) functionRows(t *testing.T) (n int) {
	t.Helper()
	snapshot := w.store.Snapshot()
	defer snapshot.Close()
	rows := snapshot.Iter(storage.MetaKey(nil, "function/"), storage.MetaKey(nil, "function0"))
	defer rows.Close()
	for ok := rows.First(); ok; ok = rows.Next() {
		n++
	}
	return n
}

// TestFunctionsMax creates as many functions as a container may have, and one
// more.
func TestFunctionsMax(t *testing.T) {
	t.Parallel()
	w, c, e := functionWorld(t)
	for i := range resource.Function.Max() {
		w.must(t, catalog.CreateScript{Container: c, Kind: resource.Function, Script: resource.Script{ID: fmt.Sprint(i)}})
	}
	w.fails(t, status.CodeForbidden, catalog.CreateScript{Container: c, Kind: resource.Function, Script: resource.Script{ID: "more"}})
	w.must(t, catalog.CreateScript{Container: e, Kind: resource.Function, Script: resource.Script{ID: "more"}})
	container, _ := w.View().ContainerByRID(c)
	rids := map[resource.RID]bool{}
	for _, f := range container.Functions.All() {
		rids[f.RID] = true
	}
	if len(rids) != resource.Function.Max() {
		t.Errorf("%d RIDs for %d functions", len(rids), resource.Function.Max())
	}
}

// TestScriptKinds has scripts of all kinds under one id; they are independent of
// each other, also after a restart.
func TestScriptKinds(t *testing.T) {
	t.Parallel()
	w, rid, _ := functionWorld(t)
	for _, kind := range resource.ScriptKinds {
		made := resource.Script{ID: "s", Body: kind.Word()}
		if kind == resource.Trigger {
			made.TriggerType, made.TriggerOperation = resource.PreTrigger, "All"
		}
		w.must(t, catalog.CreateScript{Container: rid, Kind: kind, Script: made})
		w.fails(t, status.CodeConflict, catalog.CreateScript{Container: rid, Kind: kind, Script: made})
	}
	w.reopen(t)
	for _, kind := range resource.ScriptKinds {
		c, _ := w.View().ContainerByRID(rid)
		found, ok := c.Scripts(kind).Get("s")
		if own, is := found.RID.ScriptKind(); !ok || !is || own != kind || found.Body != kind.Word() || (found.TriggerType != "") != (kind == resource.Trigger) {
			t.Errorf("%s: %+v", kind, found)
		}
		w.must(t, catalog.DeleteScript{RID: found.RID})
	}
	c, _ := w.View().ContainerByRID(rid)
	for _, kind := range resource.ScriptKinds {
		if n := len(c.Scripts(kind).All()); n != 0 {
			t.Errorf("%s: %d are left", kind, n)
		}
	}
}
