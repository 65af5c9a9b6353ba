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

// Scripts are the scripts of one kind of a container. The zero value is none; it
// never changes.
type Scripts struct {
	// Version rises with every change, so that what was compiled with the scripts
	// of another one can be told apart.
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

// CreateScript makes a script: 404/1003 without its container, 409 when the id is
// taken by one of its kind, 403 when there are as many as a container may have.
type CreateScript struct {
	Container resource.RID
	Kind      resource.ScriptKind
	Script    resource.Script // RID, ETag and TS are filled in here
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
		return status.Forbidden(0, "The container has %d scripts of this kind (%s), which is the most. Delete one first.", n, c.Kind)
	}
	script := c.Script
	// Versions rise, so numbers do, and none is used twice.
	script.RID = resource.ScriptRID(c.Kind, c.Container, d.view.version)
	return d.putScript(old, c.Kind, script, "")
}

// ReplaceScript changes a script, or its id: 404 when it does not exist, 412 when
// Expect is given and not its etag, 409 when another of its kind has the new id.
type ReplaceScript struct {
	Script resource.Script // RID says which; ETag and TS are filled in here
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

// DeleteScript removes a script: 404 when it does not exist, 412 when Expect is
// given and not its etag.
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

// script finds a script that a change is about, with its container.
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

// putScript stores a script in place of the one with the id before.
func (d *draft) putScript(container *Container, kind resource.ScriptKind, script resource.Script, before string) error {
	script.ETag, script.TS = d.etag(), d.now
	d.changeScripts(container, kind, func(byID map[string]resource.Script) {
		delete(byID, before)
		byID[script.ID] = script
	})
	return d.put(scriptRow(kind), script.RID, script)
}

// changeScripts puts a container with other scripts into the view. The row of the
// container does not have them, and its etag is not theirs.
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

// loadScript takes a stored script into the view. One whose container is gone was
// left by a release that does not know its kind; no container gets its RID again.
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
