package nosql

import (
	"net/http"
	"strconv"
	"time"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
)

// postPermissions creates or upserts a permission, or queries those of a user.
func (h *handler) postPermissions(r *request) (*response, error) {
	switch {
	case r.isQuery():
		return h.queryPermissions(r)
	case r.flag(headerIsUpsert):
		return h.upsertPermission(r)
	}
	return h.createPermission(r)
}

func (h *handler) createPermission(r *request) (*response, error) {
	req, err := h.permissionDefinition(r)
	if err != nil {
		return nil, err
	}
	res, err := h.engine.CreatePermission(r.ctx, r.caller, req)
	return r.defined(http.StatusCreated, &res, err)
}

func (h *handler) upsertPermission(r *request) (*response, error) {
	r.operation = opPermissionUpsert
	req, err := h.permissionDefinition(r)
	if err != nil {
		return nil, err
	}
	res, created, err := h.engine.UpsertPermission(r.ctx, r.caller, req)
	return r.defined(upserted(created), &res, err)
}

func (h *handler) readPermission(r *request) (*response, error) {
	req, err := r.permission()
	if err != nil {
		return nil, err
	}
	res, err := h.engine.ReadPermission(r.ctx, r.caller, req)
	return r.defined(http.StatusOK, &res, err)
}

func (h *handler) replacePermission(r *request) (*response, error) {
	req, err := h.permissionDefinition(r)
	if err != nil {
		return nil, err
	}
	res, err := h.engine.ReplacePermission(r.ctx, r.caller, req)
	return r.defined(http.StatusOK, &res, err)
}

func (h *handler) deletePermission(r *request) (*response, error) {
	req, err := r.permission()
	if err != nil {
		return nil, err
	}
	res, err := h.engine.DeletePermission(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.answer(http.StatusNoContent, nil), nil
}

func (h *handler) listPermissions(r *request) (*response, error) {
	req, err := r.permission()
	if err != nil {
		return nil, err
	}
	want, err := r.page(req.Link)
	if err != nil {
		return nil, err
	}
	page, err := h.engine.ListPermissions(r.ctx, r.caller, req, want)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("Permissions", &page), nil
}

func (h *handler) queryPermissions(r *request) (*response, error) {
	r.operation = opPermissionQuery
	req, err := r.permission()
	if err != nil {
		return nil, err
	}
	want, err := h.definitionQuery(r, req.Link)
	if err != nil {
		return nil, err
	}
	page, err := h.engine.QueryPermissions(r.ctx, r.caller, req, want)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed("Permissions", &page), nil
}

// permission returns the request for the permission in the path.
func (r *request) permission() (engine.PermissionRequest, error) {
	req := engine.PermissionRequest{
		Link:        engine.Link{Database: r.target.id(0)},
		User:        r.target.id(1),
		Permission:  r.target.id(2),
		IfMatch:     r.ifMatch(),
		IfNoneMatch: r.ifNoneMatch(),
	}
	text := r.header(headerTokenLifetime)
	if text == "" {
		return req, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 32)
	if err != nil || seconds <= 0 {
		return req, status.BadRequest("The lifetime %q in x-ms-documentdb-expiry-seconds is no number of seconds.", text) // words: the text is tested
	}
	req.Lifetime = time.Duration(seconds) * time.Second
	return req, nil
}

// permissionDefinition returns the request to create, upsert or replace a
// permission.
func (h *handler) permissionDefinition(r *request) (engine.PermissionRequest, error) {
	req, err := r.permission()
	if err != nil {
		return req, err
	}
	req.Body, _, err = r.readObject(h.limits.BodyBytes)
	return req, err
}
