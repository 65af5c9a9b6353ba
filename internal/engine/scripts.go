package engine

import (
	"context"
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

// FunctionRequest asks for a user-defined function of a container.
type FunctionRequest struct {
	Link        Link          // of the container
	Function    string        // its id, or the text of its RID; empty for Create
	Body        value.Value   // Create and Replace
	IfMatch     resource.ETag // Replace and Delete
	IfNoneMatch resource.ETag // Read: answer status.CodeNotModified when it is current
}

// link is the path of what is asked for.
func (r *FunctionRequest) link() string {
	if r.Function == "" {
		return r.Link.String() + "/udfs"
	}
	return r.Link.String() + "/udfs/" + r.Function
}

// CreateFunction defines a user-defined function: 400 when its body is no
// JavaScript, 409 when the id is taken, 403 when the container has as many as it
// may.
func (e *Engine) CreateFunction(ctx context.Context, caller auth.Caller, req FunctionRequest) (Resource, error) {
	return e.defineFunction(caller, auth.Create, &req, func(c *catalog.Container, out *Resource) error {
		function, err := e.parseFunction(ctx, req.Body)
		if err != nil {
			return err
		}
		view, err := e.catalog.Commit(ctx, catalog.CreateFunction{Container: c.RID, Function: function})
		if err != nil {
			return err
		}
		return out.committed(view, c.RID, function.ID)
	})
}

// ReadFunction returns the definition of a function.
func (e *Engine) ReadFunction(_ context.Context, caller auth.Caller, req FunctionRequest) (Resource, error) {
	return e.defineFunction(caller, auth.Read, &req, func(c *catalog.Container, out *Resource) error {
		function, err := locateFunction(c, req.Function)
		if err != nil {
			return err
		}
		out.function(function)
		if err := unmodified(req.IfNoneMatch, function.ETag); err != nil {
			out.Body = nil
			return err
		}
		return nil
	})
}

// ReplaceFunction changes the body of a function, or its id.
func (e *Engine) ReplaceFunction(ctx context.Context, caller auth.Caller, req FunctionRequest) (Resource, error) {
	return e.defineFunction(caller, auth.Replace, &req, func(c *catalog.Container, out *Resource) error {
		old, err := locateFunction(c, req.Function)
		if err != nil {
			return err
		}
		if err := matches(req.IfMatch, old.ETag); err != nil {
			return err
		}
		function, err := e.parseFunction(ctx, req.Body)
		if err != nil {
			return err
		}
		function.RID = old.RID
		view, err := e.catalog.Commit(ctx, catalog.ReplaceFunction{Function: function, Expect: req.IfMatch})
		if err != nil {
			return err
		}
		return out.committed(view, c.RID, function.ID)
	})
}

// DeleteFunction removes a function. Queries that run finish with it.
func (e *Engine) DeleteFunction(ctx context.Context, caller auth.Caller, req FunctionRequest) (Resource, error) {
	return e.defineFunction(caller, auth.Delete, &req, func(c *catalog.Container, out *Resource) error {
		function, err := locateFunction(c, req.Function)
		if err != nil {
			return err
		}
		out.RID = function.RID
		_, err = e.catalog.Commit(ctx, catalog.DeleteFunction{RID: function.RID, Expect: req.IfMatch})
		return err
	})
}

// ListFunctions returns a page of a container's functions.
func (e *Engine) ListFunctions(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	req.Text, req.Params = listText, nil
	return e.QueryFunctions(ctx, caller, req)
}

// QueryFunctions runs a query over the definitions of a container's functions.
func (e *Engine) QueryFunctions(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	return e.definitions(ctx, caller, req, func(_ *catalog.View, out *Feed) ([]definition, error) {
		c, err := e.owner(req.Link, "", &out.Result)
		if err != nil {
			return nil, err
		}
		out.ParentRID = c.RID
		var all []definition
		for _, f := range c.Functions.All() {
			all = append(all, definition{rid: f.RID, content: f.Value()})
		}
		return all, nil
	})
}

// defineFunction carries out an operation on a function: permission, charge, its
// container, and nothing but statuses on the way out.
func (e *Engine) defineFunction(caller auth.Caller, action auth.Action, req *FunctionRequest, operation func(c *catalog.Container, out *Resource) error) (Resource, error) {
	var meter throughput.Meter
	var out Resource
	err := e.allow(caller, auth.Wish{Action: action, On: auth.Script, Feed: "udfs", ID: req.Function}, req.Link)
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

// parseFunction reads a definition, and compiles its body to see whether it can
// be.
func (e *Engine) parseFunction(ctx context.Context, body value.Value) (resource.Function, error) {
	function, err := resource.ParseFunction(body)
	if err != nil {
		return function, err
	}
	if e.scripts == nil {
		return function, errNoScripts()
	}
	_, err = e.scripts.Compile(ctx, script.Function, function.ID, function.Body)
	return function, err
}

func errNoScripts() error { return status.Unsupported("The running of scripts") }

// locateFunction finds a function by id, or by the text of its RID.
func locateFunction(c *catalog.Container, name string) (resource.Function, error) {
	if f, ok := c.Functions.Get(name); ok {
		return f, nil
	}
	if rid, err := resource.ParseRID(name); err == nil {
		if f, ok := c.Functions.ByRID(rid); ok {
			return f, nil
		}
	}
	return resource.Function{}, status.NotFound()
}

// committed fills the answer in with a function as a commit has made it.
func (r *Resource) committed(view *catalog.View, container resource.RID, id string) error {
	c, ok := view.ContainerByRID(container)
	if !ok {
		return status.NotFound() // unreachable: view is the one this commit made
	}
	f, ok := c.Functions.Get(id)
	if !ok {
		return status.NotFound() // unreachable, as above
	}
	r.function(f)
	return nil
}

// function fills the answer in.
func (r *Resource) function(f resource.Function) {
	r.Body, r.RID, r.ETag = f.Value().Append(nil), f.RID, f.ETag
}

// functionsOf returns what queries over a container find behind udf: the
// functions of that version of it. A plan that was compiled with them belongs to
// that version as well; see planKey.
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

// programs keeps the compiled functions that were called.
type programs struct {
	mu    sync.Mutex
	byRID map[resource.RID]compiledFunction
}

type compiledFunction struct {
	etag    resource.ETag
	program *script.Program
}

// programsMax bounds the cache: past it all are forgotten and compiled again.
const programsMax = 1024

// get returns a function that can be called. It is compiled outside of the lock,
// so two may do it at once; the later one stays.
func (p *programs) get(ctx context.Context, runner *script.Runner, f resource.Function) (*script.Program, error) {
	p.mu.Lock()
	kept, ok := p.byRID[f.RID]
	p.mu.Unlock()
	if ok && kept.etag == f.ETag {
		return kept.program, nil
	}
	program, err := runner.Compile(ctx, script.Function, f.ID, f.Body)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byRID == nil || len(p.byRID) >= programsMax {
		p.byRID = map[resource.RID]compiledFunction{}
	}
	p.byRID[f.RID] = compiledFunction{etag: f.ETag, program: program}
	return program, nil
}
