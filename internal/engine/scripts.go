package engine

import (
	"context"
	"strings"
	"sync"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
)

// ScriptRequest is a request for a script of a container: a user-defined
// function, a trigger or a stored procedure.
type ScriptRequest struct {
	Kind        resource.ScriptKind
	Link        Link          // of the container
	Script      string        // its id, or the text of its RID; empty for Create
	Body        value.Value   // Create, Upsert and Replace
	IfMatch     resource.ETag // Replace, Upsert and Delete
	IfNoneMatch resource.ETag // Read: answer status.CodeNotModified when it is current
}

// CreateScript creates a script. The error is 400 if its body is not JavaScript,
// 409 if the id is taken, and 403 if the container has as many of the kind as it
// may. A stored procedure is not refused for its body: as in the service, only a
// run of it fails.
func (e *Engine) CreateScript(ctx context.Context, caller auth.Caller, req ScriptRequest) (Resource, error) {
	return e.defineScript(caller, auth.Create, &req, func(c *catalog.Container, out *Resource) error {
		parsed, err := e.parseScript(ctx, req.Kind, req.Body)
		if err != nil {
			return err
		}
		return e.createScript(ctx, c, req.Kind, parsed, out)
	})
}

// UpsertScript creates a script, or replaces the one with its id. created reports
// which. The errors are those of CreateScript except 409.
func (e *Engine) UpsertScript(ctx context.Context, caller auth.Caller, req ScriptRequest) (res Resource, created bool, err error) {
	res, err = e.defineScript(caller, auth.Upsert, &req, func(c *catalog.Container, out *Resource) error {
		parsed, err := e.parseScript(ctx, req.Kind, req.Body)
		if err != nil {
			return err
		}
		created, err = upsert(
			func() (found resource.Script, exists bool) {
				if now, ok := e.catalog.View().ContainerByRID(c.RID); ok {
					found, exists = now.Scripts(req.Kind).Get(parsed.ID)
				}
				return found, exists
			},
			func() error { return e.createScript(ctx, c, req.Kind, parsed, out) },
			func(old resource.Script) error { return e.replaceScript(ctx, c, old, parsed, req, out) },
		)
		return err
	})
	return res, created, err
}

func (e *Engine) createScript(ctx context.Context, c *catalog.Container, kind resource.ScriptKind, parsed resource.Script, out *Resource) error {
	view, err := e.catalog.Commit(ctx, catalog.CreateScript{Container: c.RID, Kind: kind, Script: parsed})
	if err != nil {
		return err
	}
	return out.committed(view, c.RID, kind, parsed.ID)
}

func (e *Engine) replaceScript(ctx context.Context, c *catalog.Container, old, parsed resource.Script, req ScriptRequest, out *Resource) error {
	if err := matches(req.IfMatch, old.ETag); err != nil {
		return err
	}
	parsed.RID = old.RID
	view, err := e.catalog.Commit(ctx, catalog.ReplaceScript{Script: parsed, Expect: req.IfMatch})
	if err != nil {
		return err
	}
	return out.committed(view, c.RID, req.Kind, parsed.ID)
}

// ReadScript returns the definition of a script.
func (e *Engine) ReadScript(_ context.Context, caller auth.Caller, req ScriptRequest) (Resource, error) {
	return e.defineScript(caller, auth.Read, &req, func(c *catalog.Container, out *Resource) error {
		found, err := locateScript(c, req.Kind, req.Script)
		if err != nil {
			return err
		}
		out.script(c, found)
		if err := unmodified(req.IfNoneMatch, found.ETag); err != nil {
			out.Body = nil
			return err
		}
		return nil
	})
}

// ReplaceScript changes a script, or its id.
func (e *Engine) ReplaceScript(ctx context.Context, caller auth.Caller, req ScriptRequest) (Resource, error) {
	return e.defineScript(caller, auth.Replace, &req, func(c *catalog.Container, out *Resource) error {
		old, err := locateScript(c, req.Kind, req.Script)
		if err != nil {
			return err
		}
		parsed, err := e.parseScript(ctx, req.Kind, req.Body)
		if err != nil {
			return err
		}
		return e.replaceScript(ctx, c, old, parsed, req, out)
	})
}

// DeleteScript removes a script. A request that runs it finishes with it.
func (e *Engine) DeleteScript(ctx context.Context, caller auth.Caller, req ScriptRequest) (Resource, error) {
	return e.defineScript(caller, auth.Delete, &req, func(c *catalog.Container, out *Resource) error {
		found, err := locateScript(c, req.Kind, req.Script)
		if err != nil {
			return err
		}
		out.RID = found.RID
		view, err := e.catalog.Commit(ctx, catalog.DeleteScript{RID: found.RID, Expect: req.IfMatch})
		if c, ok := view.ContainerByRID(c.RID); err == nil && ok {
			out.Scripts = c.Scripts(req.Kind).Len()
		}
		return err
	})
}

// ListScripts returns a page of a container's scripts of a kind.
func (e *Engine) ListScripts(ctx context.Context, caller auth.Caller, kind resource.ScriptKind, req QueryRequest) (Feed, error) {
	req.Text, req.Params = listText, nil
	return e.QueryScripts(ctx, caller, kind, req)
}

// QueryScripts runs a query over the scripts of a kind of a container.
func (e *Engine) QueryScripts(ctx context.Context, caller auth.Caller, kind resource.ScriptKind, req QueryRequest) (Feed, error) {
	return e.definitions(ctx, caller, req, func(_ *catalog.View, out *Feed) ([]definition, error) {
		c, err := e.owner(req.Link, "", &out.Result)
		if err != nil {
			return nil, err
		}
		out.ParentRID = c.RID
		var all []definition
		for _, s := range c.Scripts(kind).All() {
			all = append(all, definition{rid: s.RID, content: s.Value()})
		}
		return all, nil
	})
}

// defineScript carries out an operation on a script: it checks the permission,
// finds the container, charges the operation, and turns every error into a
// status.
func (e *Engine) defineScript(caller auth.Caller, action auth.Action, req *ScriptRequest, operation func(c *catalog.Container, out *Resource) error) (Resource, error) {
	var meter throughput.Meter
	var out Resource
	err := e.allow(caller, auth.Access{Action: action, On: auth.Script, Feed: req.Kind.Word(), ID: req.Script}, req.Link)
	if err == nil && action == auth.Replace {
		err = allowID(caller, req.Body)
	}
	if err == nil {
		var c *catalog.Container
		if c, err = e.owner(req.Link, "", &out.Result); err == nil {
			err = operation(c, &out)
		}
		meter.Add(metadataCharge(action))
	}
	out.Charge = meter.Charge()
	return out, fail(err)
}

// parseScript reads a definition, and checks that its body compiles, except that of
// a stored procedure.
func (e *Engine) parseScript(ctx context.Context, kind resource.ScriptKind, body value.Value) (resource.Script, error) {
	parsed, err := resource.ParseScript(kind, body)
	if err != nil {
		return parsed, err
	}
	if e.scripts == nil {
		return parsed, errNoScripts()
	}
	_, err = e.scripts.Compile(ctx, programKind(kind, parsed), parsed.ID, parsed.Body)
	if kind == resource.Procedure && status.SubOf(err) == status.SubScriptCompile {
		err = nil
	}
	return parsed, err
}

// programKind returns the kind of a script in package script.
func programKind(kind resource.ScriptKind, s resource.Script) script.Kind {
	switch {
	case kind == resource.Procedure:
		return script.Procedure
	case kind == resource.Trigger && strings.EqualFold(s.TriggerType, resource.PostTrigger):
		return script.PostTrigger
	case kind == resource.Trigger:
		return script.PreTrigger
	}
	return script.Function
}

func errNoScripts() error { return status.Unsupported("The running of scripts") }

// locateScript finds a script by id, or by the text of its RID.
func locateScript(c *catalog.Container, kind resource.ScriptKind, name string) (resource.Script, error) {
	scripts := c.Scripts(kind)
	if s, ok := scripts.Get(name); ok {
		return s, nil
	}
	if rid, err := resource.ParseRID(name); err == nil {
		if s, ok := scripts.ByRID(rid); ok {
			return s, nil
		}
	}
	return resource.Script{}, status.NotFound()
}

// committed sets the fields of the answer from a script of the view that a
// commit returned.
func (r *Resource) committed(view *catalog.View, container resource.RID, kind resource.ScriptKind, id string) error {
	c, ok := view.ContainerByRID(container)
	if !ok {
		return status.NotFound() // unreachable: view is the one this commit made
	}
	s, ok := c.Scripts(kind).Get(id)
	if !ok {
		return status.NotFound() // unreachable, as above
	}
	r.script(c, s)
	return nil
}

// script sets the fields of the answer from a script of a container.
func (r *Resource) script(c *catalog.Container, s resource.Script) {
	r.Body, r.RID, r.ETag = s.Value().Append(nil), s.RID, s.ETag
	kind, _ := s.RID.ScriptKind()
	r.Scripts = c.Scripts(kind).Len()
}

// functionsOf looks up the user-defined functions of a version of a container. A
// plan compiled with them belongs to that version, too; see planKey.
func (e *Engine) functionsOf(c *catalog.Container) func(name string) (query.Function, bool) {
	if e.scripts == nil {
		return nil
	}
	return func(name string) (query.Function, bool) {
		definition, found := c.Functions.Get(name)
		if !found {
			return nil, false
		}
		return func(ctx context.Context, args []value.Value) (value.Value, error) {
			program, err := e.programs.get(ctx, e.scripts, definition)
			if err != nil {
				return value.Value{}, err
			}
			return program.Call(ctx, args)
		}, true
	}
}

// programs caches the compiled scripts that were called.
type programs struct {
	mu    sync.Mutex
	byRID map[resource.RID]compiledScript
}

type compiledScript struct {
	etag    resource.ETag
	program *script.Program
}

// programsMax bounds the cache. A full cache is emptied.
const programsMax = 1024

// get returns a compiled script of a container.
func (p *programs) get(ctx context.Context, runner *script.Runner, f resource.Script) (*script.Program, error) {
	kind, _ := f.RID.ScriptKind()
	return p.compiled(ctx, runner, programKind(kind, f), f)
}

// compiled returns a script that is compiled as a kind. Procedures of the system
// have their name as RID. It compiles without the lock, so two requests may compile
// the same script; the later result stays.
func (p *programs) compiled(ctx context.Context, runner *script.Runner, kind script.Kind, f resource.Script) (*script.Program, error) {
	p.mu.Lock()
	kept, ok := p.byRID[f.RID]
	p.mu.Unlock()
	if ok && kept.etag == f.ETag {
		return kept.program, nil
	}
	program, err := runner.Compile(ctx, kind, f.ID, f.Body)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byRID == nil || len(p.byRID) >= programsMax {
		p.byRID = map[resource.RID]compiledScript{}
	}
	p.byRID[f.RID] = compiledScript{etag: f.ETag, program: program}
	return program, nil
}
