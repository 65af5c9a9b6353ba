package engine

import (
	"context"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
)

// CreateDatabase creates an empty database. If it has a throughput, containers
// without one of their own share it.
func (e *Engine) CreateDatabase(ctx context.Context, caller auth.Caller, req DatabaseRequest) (Resource, error) {
	return e.define(caller, auth.Create, Link{}, func(out *Resource) error {
		database, err := resource.ParseDatabase(req.Body)
		if err != nil {
			return err
		}
		change := catalog.CreateDatabase{Database: database}
		if req.Throughput != (ThroughputRequest{}) {
			t, err := e.newThroughput(req.Throughput)
			if err != nil {
				return err
			}
			change.Throughput = &t
		}
		if err := e.roomForOne(e.catalog.View()); err != nil {
			return err
		}
		view, err := e.catalog.Commit(ctx, change)
		if err != nil {
			return err
		}
		created, ok := view.Database(database.ID)
		if !ok {
			return status.NotFound() // unreachable: view is the one this commit made
		}
		out.database(created)
		return nil
	})
}

// roomForOne refuses a new database or container if the account has as many as
// it may, if that is bounded. Concurrent requests may exceed the bound by their
// number.
func (e *Engine) roomForOne(view *catalog.View) error {
	if e.limits.Databases == 0 {
		return nil
	}
	if n := len(view.Databases()) + view.ContainerCount(); n >= e.limits.Databases {
		return status.Forbidden(status.SubAccountLimit, "The account has %d databases and containers, which is the maximum. Delete one, or raise the limit.", n)
	}
	return nil
}

// ReadDatabase returns a database.
func (e *Engine) ReadDatabase(_ context.Context, caller auth.Caller, req DatabaseRequest) (Resource, error) {
	return e.define(caller, auth.Read, req.Link, func(out *Resource) error {
		d, ok := locateDatabase(e.catalog.View(), req.Link)
		if !ok {
			return status.NotFound()
		}
		out.database(d)
		if err := unmodified(req.IfNoneMatch, d.ETag); err != nil {
			out.Body = nil
			return err
		}
		return nil
	})
}

// DeleteDatabase removes a database and everything in it.
func (e *Engine) DeleteDatabase(ctx context.Context, caller auth.Caller, req DatabaseRequest) (Resource, error) {
	return e.define(caller, auth.Delete, req.Link, func(out *Resource) error {
		d, ok := locateDatabase(e.catalog.View(), req.Link)
		if !ok {
			return status.NotFound()
		}
		out.RID = d.RID
		if len(d.Keyspace) > 0 {
			return notByREST("keyspace", d.ID)
		}
		if _, err := e.catalog.Commit(ctx, catalog.DeleteDatabase{RID: d.RID, Expect: req.IfMatch}); err != nil {
			return err
		}
		e.node.DropDatabase(d.RID)
		e.logger.Info("database deleted", "database", d.RID)
		return nil
	})
}

// ListDatabases returns a page of the account's databases.
func (e *Engine) ListDatabases(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	req.Text, req.Params = listText, nil
	return e.QueryDatabases(ctx, caller, req)
}

// QueryDatabases runs a query over the account's databases.
func (e *Engine) QueryDatabases(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	return e.definitions(ctx, caller, req, func(view *catalog.View, _ *Feed) ([]definition, error) {
		var all []definition
		for _, d := range view.Databases() {
			all = append(all, definition{rid: d.RID, content: d.Value()})
		}
		return all, nil
	})
}

// database sets the fields of the answer from a database.
func (r *Resource) database(d resource.Database) {
	r.Body, r.RID, r.ETag = d.Value().Append(nil), d.RID, d.ETag
}

// define carries out an operation on one definition: it checks the permission,
// charges it, and turns every error into a status.
func (e *Engine) define(caller auth.Caller, action auth.Action, link Link, operation func(out *Resource) error) (Resource, error) {
	return e.defineAs(caller, action, kindOf(action, link), link, operation)
}

// defineAs is define for a kind of resource that the link does not determine.
func (e *Engine) defineAs(caller auth.Caller, action auth.Action, on auth.Resource, link Link, operation func(out *Resource) error) (Resource, error) {
	var meter throughput.Meter
	var out Resource
	err := e.allow(caller, auth.Access{Action: action, On: on}, link)
	if err == nil {
		err = e.control.metadataRequest(on, metadataCharge(action))
	}
	if err != nil {
		return out, fail(err)
	}
	err = operation(&out)
	meter.Add(metadataCharge(action))
	out.Charge = meter.Charge()
	return out, fail(err)
}

func metadataCharge(action auth.Action) float64 {
	if action == auth.Read {
		return throughput.MetadataRead
	}
	return throughput.MetadataWrite
}

// matches returns PreconditionFailed if the condition of a write on a
// definition does not hold.
func matches(ifMatch, have resource.ETag) error {
	if ifMatch != "" && ifMatch != "*" && ifMatch != have {
		return status.PreconditionFailed()
	}
	return nil
}

// unmodified returns status.CodeNotModified if the reader has the current
// version.
func unmodified(ifNoneMatch, have resource.ETag) error {
	if ifNoneMatch != "" && (ifNoneMatch == "*" || ifNoneMatch == have) {
		return status.New(status.CodeNotModified, 0, "The version asked about is the current one.")
	}
	return nil
}
