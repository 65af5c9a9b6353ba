package nosql

import (
	"net/http"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// postDatabases creates a database, or queries them.
func (h *handler) postDatabases(r *request) (*response, error) {
	if r.isQuery() {
		return h.queryDatabases(r)
	}
	return h.createDatabase(r)
}

func (h *handler) createDatabase(r *request) (*response, error) {
	req := r.databaseRequest()
	var err error
	req.Body, req.Throughput, err = r.definition(h.limits.BodyBytes)
	if err != nil {
		return nil, err
	}
	res, err := h.engine.CreateDatabase(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.resource(http.StatusCreated, &res), nil
}

func (h *handler) readDatabase(r *request) (*response, error) {
	res, err := h.engine.ReadDatabase(r.ctx, r.caller, r.databaseRequest())
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.resource(http.StatusOK, &res), nil
}

func (h *handler) deleteDatabase(r *request) (*response, error) {
	res, err := h.engine.DeleteDatabase(r.ctx, r.caller, r.databaseRequest())
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.answer(http.StatusNoContent, nil), nil
}

func (h *handler) listDatabases(r *request) (*response, error) {
	req, err := r.page(engine.Link{})
	if err != nil {
		return nil, err
	}
	page, err := h.engine.ListDatabases(r.ctx, r.caller, req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("Databases", &page), nil
}

func (h *handler) queryDatabases(r *request) (*response, error) {
	r.operation = opDatabaseQuery
	req, err := h.definitionQuery(r, engine.Link{})
	if err != nil {
		return nil, err
	}
	page, err := h.engine.QueryDatabases(r.ctx, r.caller, req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("Databases", &page), nil
}

// databaseRequest returns the request for the database in the path.
func (r *request) databaseRequest() engine.DatabaseRequest {
	return engine.DatabaseRequest{Link: r.link(), IfMatch: r.ifMatch(), IfNoneMatch: r.ifNoneMatch()}
}

// definition reads the body of a new or replaced database or container, and for a
// new one the throughput in the headers.
func (r *request) definition(limit int) (body value.Value, given engine.ThroughputRequest, err error) {
	if r.flag(headerIsUpsert) {
		return body, given, status.Unsupported("Upsert of a database or container")
	}
	if body, _, err = r.readObject(limit); err != nil {
		return body, given, err
	}
	given, err = r.throughput()
	return body, given, err
}
