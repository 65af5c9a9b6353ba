package catalog

import (
	"cmp"
	"maps"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// functionRow is the kind of the rows of user-defined functions.
const functionRow = "function/"

// Functions are the user-defined functions of a container. The zero value is
// none; it never changes.
type Functions struct {
	// Version rises with every change, so that what was compiled with the
	// functions of another one can be told apart.
	Version uint64

	byID map[string]resource.Function
}

// Get returns a function by id. Ids are case-sensitive.
func (f Functions) Get(id string) (resource.Function, bool) {
	found, ok := f.byID[id]
	return found, ok
}

// ByRID returns a function by RID.
func (f Functions) ByRID(rid resource.RID) (resource.Function, bool) {
	for _, found := range f.byID {
		if found.RID == rid {
			return found, true
		}
	}
	return resource.Function{}, false
}

// All returns the functions, oldest first.
func (f Functions) All() []resource.Function {
	return slices.SortedFunc(maps.Values(f.byID), func(a, b resource.Function) int {
		return cmp.Compare(a.RID.Number(), b.RID.Number())
	})
}

// CreateFunction makes a user-defined function: 404/1003 without its container,
// 409 when the id is taken, 403 when there are as many as a container may have.
type CreateFunction struct {
	Container resource.RID
	Function  resource.Function // RID, ETag and TS are filled in here
}

func (c CreateFunction) apply(d *draft) error {
	old, ok := d.view.containers[c.Container]
	if !ok {
		return status.OwnerNotFound()
	}
	if _, taken := old.Functions.Get(c.Function.ID); taken {
		return status.Conflict()
	}
	if n := len(old.Functions.byID); n >= resource.FunctionsMax {
		return status.Forbidden(0, "The container has %d user-defined functions, which is the most. Delete one first.", n)
	}
	function := c.Function
	// Versions rise, so numbers do, and none is used twice.
	function.RID = resource.FunctionRID(c.Container, d.view.version)
	return d.putFunction(old, function, "")
}

// ReplaceFunction changes the body of a function, or its id: 404 when it does not
// exist, 412 when Expect is given and not its etag, 409 when another has the new
// id.
type ReplaceFunction struct {
	Function resource.Function // RID says which; ETag and TS are filled in here
	Expect   resource.ETag
}

func (c ReplaceFunction) apply(d *draft) error {
	container, old, err := d.function(c.Function.RID, c.Expect)
	if err != nil {
		return err
	}
	if _, taken := container.Functions.Get(c.Function.ID); taken && c.Function.ID != old.ID {
		return status.Conflict()
	}
	return d.putFunction(container, c.Function, old.ID)
}

// DeleteFunction removes a function: 404 when it does not exist, 412 when Expect
// is given and not its etag.
type DeleteFunction struct {
	RID    resource.RID
	Expect resource.ETag
}

func (c DeleteFunction) apply(d *draft) error {
	container, old, err := d.function(c.RID, c.Expect)
	if err != nil {
		return err
	}
	d.changeFunctions(container, func(byID map[string]resource.Function) { delete(byID, old.ID) })
	d.remove(functionRow, c.RID)
	return nil
}

// function finds a function that a change is about, with its container.
func (d *draft) function(rid resource.RID, want resource.ETag) (*Container, resource.Function, error) {
	container, ok := d.view.containers[rid.Container()]
	if !ok {
		return nil, resource.Function{}, status.OwnerNotFound()
	}
	old, ok := container.Functions.ByRID(rid)
	if !ok {
		return nil, old, status.NotFound()
	}
	return container, old, expect(want, old.ETag)
}

// putFunction stores a function in place of the one with the id before.
func (d *draft) putFunction(container *Container, function resource.Function, before string) error {
	function.ETag, function.TS = d.etag(), d.now
	d.changeFunctions(container, func(byID map[string]resource.Function) {
		delete(byID, before)
		byID[function.ID] = function
	})
	return d.put(functionRow, function.RID, function)
}

// changeFunctions puts a container with other functions into the view. The row
// of the container does not have them, and its etag is not theirs.
func (d *draft) changeFunctions(old *Container, change func(byID map[string]resource.Function)) {
	changed := *old
	byID := maps.Clone(old.Functions.byID)
	if byID == nil {
		byID = map[string]resource.Function{}
	}
	change(byID)
	changed.Functions = Functions{Version: d.view.version, byID: byID}
	d.database(old.RID.Database()).containers[old.ID] = &changed
	d.view.containers[old.RID] = &changed
}

// deleteFunctions removes the rows of a container's functions.
func (d *draft) deleteFunctions(c *Container) {
	for _, function := range c.Functions.byID {
		d.remove(functionRow, function.RID)
	}
}

// loadFunction takes a stored function into the view. One whose container is gone
// was left by a release that does not know functions; no container gets its RID
// again.
func (v *View) loadFunction(function resource.Function) error {
	c, ok := v.containers[function.RID.Container()]
	if !ok {
		return nil
	}
	if c.Functions.byID == nil {
		c.Functions = Functions{Version: v.version, byID: map[string]resource.Function{}}
	}
	c.Functions.byID[function.ID] = function
	return nil
}
