package nosql

import (
	"net/http"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// postDocuments determines the meaning of a POST to the documents of a container.
func (h *handler) postDocuments(r *request) (*response, error) {
	switch {
	case r.flag(headerIsBatch):
		return h.batchDocuments(r)
	case r.flag(headerIsQueryPlan):
		return h.planQuery(r)
	case r.isQuery() && r.header(headerIncremental) != "":
		return h.queryChangeFeed(r)
	case r.isQuery():
		return h.queryDocuments(r)
	case r.flag(headerIsUpsert):
		return h.upsertDocument(r)
	}
	return h.createDocument(r)
}

func (h *handler) createDocument(r *request) (*response, error) {
	req, err := h.documentWrite(r)
	if err != nil {
		return nil, err
	}
	doc, err := h.engine.Create(r.ctx, r.caller, req)
	r.result = doc.Result
	if err != nil {
		return nil, err
	}
	return r.written(&doc), nil
}

func (h *handler) upsertDocument(r *request) (*response, error) {
	r.operation = opDocumentUpsert
	req, err := h.documentWrite(r)
	if err != nil {
		return nil, err
	}
	doc, err := h.engine.Upsert(r.ctx, r.caller, req)
	r.result = doc.Result
	if err != nil {
		return nil, err
	}
	return r.written(&doc), nil
}

func (h *handler) replaceDocument(r *request) (*response, error) {
	req, err := h.documentWrite(r)
	if err != nil {
		return nil, err
	}
	doc, err := h.engine.Replace(r.ctx, r.caller, req)
	r.result = doc.Result
	if err != nil {
		return nil, err
	}
	return r.written(&doc), nil
}

// patchDocument changes parts of a document. The body is JSON whatever its
// content type says: clients send different ones.
func (h *handler) patchDocument(r *request) (*response, error) {
	if err := r.refuseTriggers(); err != nil {
		return nil, err
	}
	req, err := r.documentChange()
	if err != nil {
		return nil, err
	}
	if req.Document, req.Size, err = r.readJSON(h.limits.BodyBytes); err != nil {
		return nil, err
	}
	doc, err := h.engine.Patch(r.ctx, r.caller, req)
	r.result = doc.Result
	if err != nil {
		return nil, err
	}
	return r.written(&doc), nil
}

func (h *handler) readDocument(r *request) (*response, error) {
	req, err := r.document()
	if err != nil {
		return nil, err
	}
	doc, err := h.engine.Read(r.ctx, r.caller, req)
	r.result = doc.Result
	if err != nil {
		return nil, err
	}
	return r.answer(http.StatusOK, r.documentBody(doc.Body)), nil
}

func (h *handler) deleteDocument(r *request) (*response, error) {
	req, err := r.document()
	if err == nil {
		err = h.triggers(r, &req)
	}
	if err != nil {
		return nil, err
	}
	doc, err := h.engine.Delete(r.ctx, r.caller, req)
	r.result = doc.Result
	if err != nil {
		return nil, err
	}
	return r.answer(http.StatusNoContent, nil), nil
}

// deleteByKey deletes all documents of a partition key, or of a prefix of one.
func (h *handler) deleteByKey(r *request) (*response, error) {
	if err := r.refuseTriggers(); err != nil {
		return nil, err
	}
	req := engine.KeyRequest{Link: r.container()}
	var err error
	if req.Options, err = r.options(); err != nil {
		return nil, err
	}
	if req.Key, err = r.partitionKey(); err != nil {
		return nil, err
	}
	r.result, err = h.engine.DeleteByKey(r.ctx, r.caller, req)
	if err != nil {
		return nil, err
	}
	return r.answer(http.StatusOK, nil), nil
}

// listDocuments is the read feed: all documents of the scope, page by page. With
// A-IM it is the change feed.
func (h *handler) listDocuments(r *request) (*response, error) {
	if r.header(headerIncremental) != "" {
		return h.changeFeed(r, nil)
	}
	req, err := r.scope()
	if err != nil {
		return nil, err
	}
	// Read feeds have no header that allows several partitions: they may always
	// read all.
	req.Cross = true
	page, err := h.engine.List(r.ctx, r.caller, req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	for i, row := range page.Rows {
		page.Rows[i] = r.documentBody(row)
	}
	return r.feed("Documents", &page), nil
}

// document returns the request for the document in the path.
func (r *request) document() (engine.DocumentRequest, error) {
	req := engine.DocumentRequest{
		Link:        r.link(),
		IfMatch:     r.ifMatch(),
		IfNoneMatch: r.ifNoneMatch(),
	}
	var err error
	if req.Options, err = r.options(); err != nil {
		return req, err
	}
	req.Key, err = r.partitionKey()
	return req, err
}

// documentChange is document for requests that change the document.
func (r *request) documentChange() (engine.DocumentRequest, error) {
	req, err := r.document()
	if err == nil {
		err = engine.CheckDirective(r.header(headerIndexing))
	}
	return req, err
}

// documentWrite is documentChange for requests whose body is the document.
func (h *handler) documentWrite(r *request) (engine.DocumentRequest, error) {
	req, err := r.documentChange()
	if err != nil {
		return req, err
	}
	if err = h.triggers(r, &req); err != nil {
		return req, err
	}
	req.Document, req.Size, err = r.readObject(h.limits.BodyBytes)
	return req, err
}

// refuseTriggers refuses triggers on requests that run none, as the service does.
func (r *request) refuseTriggers() error {
	if r.header(headerPreTrigger) != "" || r.header(headerPostTrigger) != "" {
		return status.BadRequest("Triggers run with the create, the replacement, the upsert and the deletion of a single document only (x-ms-documentdb-pre-trigger-include, x-ms-documentdb-post-trigger-include).")
	}
	return nil
}

func (r *request) ifMatch() resource.ETag     { return resource.ETag(r.header(headerIfMatch)) }
func (r *request) ifNoneMatch() resource.ETag { return resource.ETag(r.header(headerIfNoneMatch)) }

// documentBody returns a document as the client wants it: with or without the
// properties that the server sets.
func (r *request) documentBody(body []byte) []byte {
	if len(body) == 0 || !r.flag(headerWithoutSystem) {
		return body
	}
	document, err := value.Parse(body)
	if err != nil {
		return body // A trigger has set it.
	}
	return document.Without("_rid", "_self", "_etag", "_attachments", "_ts").Append(nil)
}

// written answers a write, without the document if the client does not request
// it.
func (r *request) written(doc *engine.Document) *response {
	code := http.StatusOK
	if doc.Created {
		code = http.StatusCreated
	}
	if !r.minimal() {
		return r.answer(code, r.documentBody(doc.Body))
	}
	answer := r.answer(code, nil)
	answer.set(headerPreference, "return=minimal")
	return answer
}
