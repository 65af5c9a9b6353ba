package catalog

import (
	"cmp"
	"maps"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// scriptRow returns the kind of the rows of scripts.
func scriptRow(kind resource.ScriptKind) string {
	switch kind {
	case resource.Trigger:
		return "trigger/"
	case resource.Procedure:
		return "procedure/"
	}
	return "function/"
}

// Scripts are the scripts of one kind of a container. The zero value is empty.
// Scripts never change.
type Scripts struct {
	// Version rises with every change, so that results compiled from another
	// version can be recognized.
	Version uint64

	byID map[string]resource.Script
}

// Get returns a script by id. Ids are case-sensitive.
func (s Scripts) Get(id string) (resource.Script, bool) {
	found, ok := s.byID[id]
	return found, ok
}

// ByRID returns a script by RID.
func (s Scripts) ByRID(rid resource.RID) (resource.Script, bool) {
	for _, found := range s.byID {
		if found.RID == rid {
			return found, true
		}
	}
	return resource.Script{}, false
}

// Len returns the number of scripts.
func (s Scripts) Len() int { return len(s.byID) }

// All returns the scripts, oldest first.
func (s Scripts) All() []resource.Script {
	return slices.SortedFunc(maps.Values(s.byID), func(a, b resource.Script) int {
		return cmp.Compare(a.RID.Number(), b.RID.Number())
	})
}

// Scripts returns the container's scripts of a kind.
func (c *Container) Scripts(kind resource.ScriptKind) Scripts { return *c.scripts(kind) }

func (c *Container) scripts(kind resource.ScriptKind) *Scripts {
	switch kind {
	case resource.Trigger:
		return &c.Triggers
	case resource.Procedure:
		return &c.Procedures
	}
	return &c.Functions
}

// CreateScript creates a script: 404/1003 without its container, 409 if another
// script of its kind has the id, 403 if the container has as many as it may have.
type CreateScript struct {
	Container resource.RID
	Kind      resource.ScriptKind
	Script    resource.Script // RID, ETag and TS are set by the commit
}

func (c CreateScript) apply(d *draft) error {
	old, ok := d.view.containers[c.Container]
	if !ok {
		return status.OwnerNotFound()
	}
	scripts := old.scripts(c.Kind)
	if _, taken := scripts.Get(c.Script.ID); taken {
		return status.Conflict()
	}
	if n := len(scripts.byID); n >= c.Kind.Max() {
		return status.Forbidden(0, "The container has %d scripts of this kind (%s), the maximum. Delete one first.", n, c.Kind)
	}
	script := c.Script
	// Versions rise, so the numbers do too, and none is used twice.
	script.RID = resource.ScriptRID(c.Kind, c.Container, d.view.version)
	return d.putScript(old, c.Kind, script, "")
}

// ReplaceScript changes a script, or its id: 404 if it does not exist, 412 if
// Expect is set and is not its etag, 409 if another script of its kind has the
// new id.
type ReplaceScript struct {
	Script resource.Script // RID identifies it; ETag and TS are set by the commit
	Expect resource.ETag
}

func (c ReplaceScript) apply(d *draft) error {
	container, kind, old, err := d.script(c.Script.RID, c.Expect)
	if err != nil {
		return err
	}
	if _, taken := container.scripts(kind).Get(c.Script.ID); taken && c.Script.ID != old.ID {
		return status.Conflict()
	}
	return d.putScript(container, kind, c.Script, old.ID)
}

// DeleteScript removes a script: 404 if it does not exist, 412 if Expect is set
// and is not its etag.
type DeleteScript struct {
	RID    resource.RID
	Expect resource.ETag
}

func (c DeleteScript) apply(d *draft) error {
	container, kind, old, err := d.script(c.RID, c.Expect)
	if err != nil {
		return err
	}
	d.changeScripts(container, kind, func(byID map[string]resource.Script) { delete(byID, old.ID) })
	d.remove(scriptRow(kind), c.RID)
	return nil
}

// script returns the script with a RID, and its container.
func (d *draft) script(rid resource.RID, want resource.ETag) (*Container, resource.ScriptKind, resource.Script, error) {
	container, ok := d.view.containers[rid.Container()]
	if !ok {
		return nil, 0, resource.Script{}, status.OwnerNotFound()
	}
	kind, _ := rid.ScriptKind()
	old, ok := container.scripts(kind).ByRID(rid)
	if !ok {
		return nil, 0, old, status.NotFound()
	}
	return container, kind, old, expect(want, old.ETag)
}

// putScript replaces the script before, which may have another id.
func (d *draft) putScript(container *Container, kind resource.ScriptKind, script resource.Script, before string) error {
	script.ETag, script.TS = d.etag(), d.now
	d.changeScripts(container, kind, func(byID map[string]resource.Script) {
		delete(byID, before)
		byID[script.ID] = script
	})
	return d.put(scriptRow(kind), script.RID, script)
}

// changeScripts replaces the scripts of a container in the view. The row of the
// container does not contain them, and its etag does not depend on them.
func (d *draft) changeScripts(old *Container, kind resource.ScriptKind, change func(byID map[string]resource.Script)) {
	changed := *old
	scripts := changed.scripts(kind)
	byID := maps.Clone(scripts.byID)
	if byID == nil {
		byID = map[string]resource.Script{}
	}
	change(byID)
	*scripts = Scripts{Version: d.view.version, byID: byID}
	d.database(old.RID.Database()).containers[old.ID] = &changed
	d.view.containers[old.RID] = &changed
}

// deleteScripts removes the rows of a container's scripts.
func (d *draft) deleteScripts(c *Container) {
	for _, kind := range resource.ScriptKinds {
		for _, script := range c.scripts(kind).byID {
			d.remove(scriptRow(kind), script.RID)
		}
	}
}

// loadScript adds a stored script to the view. If its container does not exist, a
// release without this kind of script has deleted that; no container gets its RID
// again.
func (v *View) loadScript(script resource.Script) error {
	c, ok := v.containers[script.RID.Container()]
	if !ok {
		return nil
	}
	kind, _ := script.RID.ScriptKind()
	scripts := c.scripts(kind)
	if scripts.byID == nil {
		*scripts = Scripts{Version: v.version, byID: map[string]resource.Script{}}
	}
	scripts.byID[script.ID] = script
	return nil
}
