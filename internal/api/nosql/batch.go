package nosql

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/internal/api/nosql/hybridrow"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// batchDocuments executes a transactional batch, or a bulk request, which is a
// batch of independent operations. The body is JSON or HybridRow, whatever its
// content type says, and the answer has the same form.
func (h *handler) batchDocuments(r *request) (*response, error) {
	r.operation = opDocumentBatch
	if err := r.refuseTriggers(); err != nil {
		return nil, err
	}
	req, err := r.batch()
	if err != nil {
		return nil, err
	}
	body, err := r.readBody(h.limits.BodyBytes)
	if err != nil {
		return nil, err
	}
	write := jsonResults
	if hybridrow.Is(body) {
		write = rowResults
		req.Operations, err = r.rowOperations(body, h.limits.BodyBytes)
	} else if body, err = r.jsonText(body, h.limits.BodyBytes); err == nil {
		req.Operations, err = r.jsonOperations(body)
	}
	if err != nil {
		return nil, err
	}
	minimal := r.minimal()
	for i := range req.Operations {
		req.Operations[i].Silent = req.Operations[i].Silent || minimal
	}
	done, err := h.engine.Batch(r.ctx, r.caller, req)
	r.result = done.Result
	if err != nil {
		return nil, err
	}
	if r.direct.from != nil {
		for i := range done.Results {
			if e := done.Results[i].Err; e != nil {
				done.Results[i].Err = moved(e)
			}
		}
	}
	code := http.StatusOK
	if slices.ContainsFunc(done.Results, func(one engine.OperationResult) bool { return one.Err != nil }) {
		code = http.StatusMultiStatus
	}
	if req.Atomicity == engine.Atomic && slices.ContainsFunc(done.Results, notFound) {
		r.result.OwnerRID = "" // as in the 404 that clients make of it
	}
	r.out = write(r.out[:0], req.Operations, done.Results)
	answer := r.answer(code, r.out)
	answer.binary = hybridrow.Is(r.out)
	if minimal {
		answer.set(headerPreference, "return=minimal")
	}
	return answer, nil
}

// notFound reports whether the document of an operation does not exist.
func notFound(result engine.OperationResult) bool {
	return result.Err != nil && result.Err.Code == status.CodeNotFound
}

// batch reads the headers of a batch. A batch for one key is atomic unless its
// header says otherwise.
func (r *request) batch() (engine.BatchRequest, error) {
	req := engine.BatchRequest{Link: r.container(), Atomicity: engine.UpTo}
	var err error
	if req.Options, err = r.options(); err != nil {
		return req, err
	}
	if req.Key, err = r.partitionKey(); err != nil {
		return req, err
	}
	rid := ""
	if req.Key == nil {
		if req.Partition, rid, err = r.rangeID(); err != nil {
			return req, err
		}
	}
	if req.IntendedRID == "" {
		req.IntendedRID = rid
	}
	switch {
	case r.flag(headerBatchAtomic), r.header(headerBatchAtomic) == "" && req.Partition == nil:
		req.Atomicity = engine.Atomic
	case r.flag(headerBatchContinue):
		req.Atomicity = engine.Each
	}
	return req, nil
}

// batchActions maps the names of a batch's operations to their actions.
var batchActions = map[string]auth.Action{
	"create": auth.Create, "upsert": auth.Upsert, "read": auth.Read, "replace": auth.Replace, "delete": auth.Delete, "patch": auth.Patch,
}

// jsonOperations reads a batch in JSON: an array of operations.
func (r *request) jsonOperations(body []byte) ([]engine.BatchOperation, error) {
	list, err := r.parse(body)
	if status.From(err) != nil {
		return nil, err
	}
	if err != nil {
		return nil, status.BadRequest("The body is not valid JSON: %s.", err)
	}
	if list.Kind() != value.KindArray {
		return nil, status.BadRequest("The body is a JSON %s where an array of operations is expected.", list.Kind())
	}
	if err := engine.BatchLength(list.Len()); err != nil {
		return nil, err
	}
	operations := make([]engine.BatchOperation, list.Len())
	for i, item := range list.Items() {
		action, known := batchActions[strings.ToLower(item.Get("operationType").Text())]
		if !known {
			return nil, status.BadRequest("The operationType %.64s of operation %d is none of Create, Upsert, Read, Replace, Delete and Patch.", item.Get("operationType"), i)
		}
		o := &operations[i]
		*o = engine.BatchOperation{
			Action:      action,
			ID:          item.Get("id").Text(),
			Body:        item.Get("resourceBody"),
			IfMatch:     resource.ETag(item.Get("ifMatch").Text()),
			IfNoneMatch: resource.ETag(item.Get("ifNoneMatch").Text()),
			Silent:      item.Get("minimalReturnPreference").IsTrue(),
		}
		key := item.Get("partitionKey")
		text := key.Text()
		if key.Kind() == value.KindArray {
			items := key.Items() // One level too many is as wrong as very many.
			text = value.Array(items[:min(len(items), partitionkey.LevelsMax+1)]).JSON()
		}
		o.Key, o.Wrong = operationKey(text)
		if o.Wrong == nil {
			o.Wrong = engine.CheckDirective(item.Get("indexingDirective").Text())
		}
		if ttl := item.Get("timeToLiveInSeconds"); o.Wrong == nil && ttl.IsDefined() {
			o.Wrong = expireIn(o, ttl)
		}
	}
	return operations, nil
}

// keyTextMax is the maximum length of an operation's key as JSON: the longest
// keys with every character escaped are shorter.
const keyTextMax = 512 << 10

// operationKey reads the key of an operation, nil for none.
func operationKey(text string) (*partitionkey.Key, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > keyTextMax {
		return nil, status.BadRequest("The partition key of an operation is %d bytes long as JSON. At most %d are allowed.", len(text), keyTextMax)
	}
	key, err := partitionkey.Parse(text)
	if err != nil {
		return nil, keyError(err)
	}
	return &key, nil
}

// expireIn sets the time to live of the operation in its document, in place of
// the document's own.
func expireIn(o *engine.BatchOperation, ttl value.Value) error {
	switch {
	case o.Action != auth.Create && o.Action != auth.Upsert && o.Action != auth.Replace:
		return status.BadRequest("The timeToLiveInSeconds of an operation is for Create, Upsert and Replace only.")
	case !resource.ValidTTL(ttl):
		return status.BadRequest("The timeToLiveInSeconds of the operation is not valid. It must be -1 or a positive integer of at most %d.", resource.TTLMax)
	case o.Body.Kind() == value.KindObject: // Other kinds are refused later.
		o.Body = o.Body.With("ttl", ttl)
	}
	return nil
}

// jsonResults appends the results of a batch as a JSON array.
func jsonResults(out []byte, operations []engine.BatchOperation, results []engine.OperationResult) []byte {
	out = append(out, '[')
	for i := range results {
		if i > 0 {
			out = append(out, ',')
		}
		result := &results[i]
		code, sub := resultStatus(&operations[i], result)
		out = append(out, `{"statusCode":`...)
		out = strconv.AppendInt(out, int64(code), 10)
		if sub != 0 {
			out = append(out, `,"subStatusCode":`...)
			out = strconv.AppendInt(out, int64(sub), 10)
		}
		out = append(out, `,"requestCharge":`...)
		out = append(out, formatCharge(result.Charge)...)
		if result.ETag != "" {
			out = append(out, `,"eTag":`...)
			out = value.AppendQuoted(out, string(result.ETag))
		}
		if result.Body != nil {
			out = append(out, `,"resourceBody":`...)
			out = append(out, result.Body...)
		}
		out = appendReason(out, result.Err)
		out = append(out, '}')
	}
	return append(out, ']')
}

// appendReason appends the time to wait and, as Decan's addition, the error.
func appendReason(out []byte, err *status.Error) []byte {
	if err == nil || err.Code == status.CodeNotModified {
		return out
	}
	if err.RetryAfter > 0 {
		out = append(out, `,"retryAfterMilliseconds":`...)
		out = strconv.AppendInt(out, millisOf(err.RetryAfter), 10)
	}
	if err.Code != status.CodeFailedDependency {
		out = append(out, `,"message":`...)
		out = value.AppendQuoted(out, wording(err))
	}
	return out
}

// millisOf rounds a wait up to milliseconds.
func millisOf(wait time.Duration) int64 {
	return int64((wait + time.Millisecond - 1) / time.Millisecond)
}

// resultStatus is the status of one operation.
func resultStatus(o *engine.BatchOperation, result *engine.OperationResult) (code, sub int) {
	switch {
	case result.Err != nil:
		return int(result.Err.Code), int(result.Err.Sub)
	case o.Action == auth.Delete:
		return http.StatusNoContent, 0
	case result.Created:
		return http.StatusCreated, 0
	}
	return http.StatusOK, 0
}

// rowActions maps the numbers of a batch's operations to their actions.
var rowActions = map[int32]auth.Action{
	hybridrow.OpCreate: auth.Create, hybridrow.OpUpsert: auth.Upsert, hybridrow.OpRead: auth.Read,
	hybridrow.OpReplace: auth.Replace, hybridrow.OpDelete: auth.Delete, hybridrow.OpPatch: auth.Patch,
}

// rowOperations reads a batch in HybridRow, as the .NET client sends it.
func (r *request) rowOperations(body []byte, limit int) ([]engine.BatchOperation, error) {
	rows, err := hybridrow.ReadOperations(body, engine.BatchMax+1)
	if err == nil {
		err = engine.BatchLength(len(rows))
	}
	if err != nil {
		return nil, err
	}
	operations := make([]engine.BatchOperation, len(rows))
	for i := range rows {
		row, o := &rows[i], &operations[i]
		action, known := rowActions[row.Type]
		if !known || row.Resource != hybridrow.ResourceDocument {
			return nil, status.BadRequest("Operation %d has type %d on resources of type %d, which a batch cannot have.", i, row.Type, row.Resource)
		}
		*o = engine.BatchOperation{
			Action:      action,
			ID:          row.ID,
			IfMatch:     resource.ETag(row.IfMatch),
			IfNoneMatch: resource.ETag(row.IfNoneMatch),
			Silent:      row.Minimal,
		}
		o.Key, o.Wrong = operationKey(row.PartitionKey)
		if o.Wrong == nil {
			o.Wrong = engine.CheckDirective(row.IndexingDirective)
		}
		if o.Wrong == nil && len(row.Body) > 0 {
			o.Body, o.Size, o.Wrong = r.operationBody(row.Body, limit)
		}
		if o.Wrong == nil && row.TimeToLive != nil {
			o.Wrong = expireIn(o, value.Int(int64(*row.TimeToLive)))
		}
	}
	return operations, nil
}

// operationBody parses the document of an operation, which is JSON as text or
// binary, of at most limit bytes as text. size is its length as text.
func (r *request) operationBody(body []byte, limit int) (v value.Value, size int, wrong error) {
	text, err := r.jsonText(body, limit)
	if err != nil {
		return value.Value{}, len(body), err
	}
	if v, err = value.Parse(text); err != nil {
		return value.Value{}, len(text), status.BadRequest("The body of the operation is not valid JSON: %s.", err)
	}
	return v, len(text), nil
}

// rowResults appends the results of a batch in HybridRow.
func rowResults(out []byte, operations []engine.BatchOperation, results []engine.OperationResult) []byte {
	rows := make([]hybridrow.Result, len(results))
	for i := range results {
		result := &results[i]
		code, sub := resultStatus(&operations[i], result)
		rows[i] = hybridrow.Result{Status: int32(code), SubStatus: int32(sub), ETag: string(result.ETag), Body: result.Body, Charge: result.Charge}
		if result.Err != nil && result.Err.RetryAfter > 0 {
			rows[i].RetryAfterMillis = uint32(millisOf(result.Err.RetryAfter))
		}
	}
	return hybridrow.AppendResults(out, rows)
}
