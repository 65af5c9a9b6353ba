package nosql

import (
	"net/http"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
)

// postFunctions creates a user-defined function, or queries the definitions.
func (h *handler) postFunctions(r *request) (*response, error) {
	if r.isQuery() {
		return h.queryFunctions(r)
	}
	return h.createFunction(r)
}

func (h *handler) createFunction(r *request) (*response, error) {
	req, err := h.functionDefinition(r)
	if err != nil {
		return nil, err
	}
	res, err := h.engine.CreateFunction(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.resource(http.StatusCreated, &res), nil
}

func (h *handler) readFunction(r *request) (*response, error) {
	res, err := h.engine.ReadFunction(r.ctx, r.caller, r.function())
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.resource(http.StatusOK, &res), nil
}

func (h *handler) replaceFunction(r *request) (*response, error) {
	req, err := h.functionDefinition(r)
	if err != nil {
		return nil, err
	}
	res, err := h.engine.ReplaceFunction(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.resource(http.StatusOK, &res), nil
}

func (h *handler) deleteFunction(r *request) (*response, error) {
	res, err := h.engine.DeleteFunction(r.ctx, r.caller, r.function())
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.answer(http.StatusNoContent, nil), nil
}

func (h *handler) listFunctions(r *request) (*response, error) {
	req, err := r.page(r.container())
	if err != nil {
		return nil, err
	}
	page, err := h.engine.ListFunctions(r.ctx, r.caller, req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("UserDefinedFunctions", &page), nil
}

func (h *handler) queryFunctions(r *request) (*response, error) {
	r.operation = opFunctionQuery
	req, err := h.definitionQuery(r, r.container())
	if err != nil {
		return nil, err
	}
	page, err := h.engine.QueryFunctions(r.ctx, r.caller, req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("UserDefinedFunctions", &page), nil
}

// function is the request about the function that the path names.
func (r *request) function() engine.FunctionRequest {
	return engine.FunctionRequest{
		Link:        r.container(),
		Function:    r.target.id(2),
		IfMatch:     r.ifMatch(),
		IfNoneMatch: r.ifNoneMatch(),
	}
}

// functionDefinition is the request to create or replace a function.
func (h *handler) functionDefinition(r *request) (engine.FunctionRequest, error) {
	req := r.function()
	if r.flag(headerIsUpsert) {
		return req, status.Unsupported("Upsert of a user-defined function")
	}
	var err error
	req.Body, _, err = r.readObject(h.limits.BodyBytes)
	return req, err
}
