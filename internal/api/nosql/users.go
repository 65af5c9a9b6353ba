package nosql

import (
	"net/http"

	"github.com/decandb/decan/internal/engine"
)

// postUsers creates or upserts a user, or queries the users of a database.
func (h *handler) postUsers(r *request) (*response, error) {
	switch {
	case r.isQuery():
		return h.queryUsers(r)
	case r.flag(headerIsUpsert):
		return h.upsertUser(r)
	}
	return h.createUser(r)
}

func (h *handler) createUser(r *request) (*response, error) {
	req, err := h.userDefinition(r)
	if err != nil {
		return nil, err
	}
	res, err := h.engine.CreateUser(r.ctx, r.caller, req)
	return r.defined(http.StatusCreated, &res, err)
}

func (h *handler) upsertUser(r *request) (*response, error) {
	r.operation = opUserUpsert
	req, err := h.userDefinition(r)
	if err != nil {
		return nil, err
	}
	res, created, err := h.engine.UpsertUser(r.ctx, r.caller, req)
	return r.defined(upserted(created), &res, err)
}

func (h *handler) readUser(r *request) (*response, error) {
	res, err := h.engine.ReadUser(r.ctx, r.caller, r.user())
	return r.defined(http.StatusOK, &res, err)
}

func (h *handler) replaceUser(r *request) (*response, error) {
	req, err := h.userDefinition(r)
	if err != nil {
		return nil, err
	}
	res, err := h.engine.ReplaceUser(r.ctx, r.caller, req)
	return r.defined(http.StatusOK, &res, err)
}

func (h *handler) deleteUser(r *request) (*response, error) {
	res, err := h.engine.DeleteUser(r.ctx, r.caller, r.user())
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.answer(http.StatusNoContent, nil), nil
}

func (h *handler) listUsers(r *request) (*response, error) {
	req, err := r.page(r.user().Link)
	if err != nil {
		return nil, err
	}
	page, err := h.engine.ListUsers(r.ctx, r.caller, req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("Users", &page), nil
}

func (h *handler) queryUsers(r *request) (*response, error) {
	r.operation = opUserQuery
	req, err := h.definitionQuery(r, r.user().Link)
	if err != nil {
		return nil, err
	}
	page, err := h.engine.QueryUsers(r.ctx, r.caller, req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("Users", &page), nil
}

// user returns the request for the user in the path.
func (r *request) user() engine.UserRequest {
	return engine.UserRequest{
		Link:        engine.Link{Database: r.target.id(0)},
		User:        r.target.id(1),
		IfMatch:     r.ifMatch(),
		IfNoneMatch: r.ifNoneMatch(),
	}
}

// userDefinition returns the request to create, upsert or replace a user.
func (h *handler) userDefinition(r *request) (engine.UserRequest, error) {
	req := r.user()
	var err error
	req.Body, _, err = r.readObject(h.limits.BodyBytes)
	return req, err
}

// defined answers with a definition, or with the error of the engine.
func (r *request) defined(code int, res *engine.Resource, err error) (*response, error) {
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.resource(code, res), nil
}

// upserted returns the status of an upsert.
func upserted(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}
