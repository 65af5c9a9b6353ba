package nosql

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// distributed reports whether the .NET SDK leaves a query over partitions to the server.
// Otherwise it plans each such query and asks one partition at a time, so a request that
// names neither a partition nor a key comes from a program that has set
// AZURE_COSMOS_DISTRIBUTED_QUERY_GATEWAY_ENABLED, and that cannot follow the plan in an
// error.
func (r *request) distributed() bool {
	return r.fromDotNet() && r.flag(headerCrossPartition) &&
		r.header(headerPartitionKey) == "" && r.header(headerGivenRangeID) == "" && r.header(headerStartEPK) == ""
}

// fromDotNet reports whether the request comes from version 3 of the .NET SDK.
func (r *request) fromDotNet() bool {
	return strings.HasPrefix(r.header(headerUserAgent), "cosmos-netstandard-sdk/")
}

func (h *handler) queryDocuments(r *request) (*response, error) {
	r.operation = opDocumentQuery
	req, err := r.scope()
	if err != nil {
		return nil, err
	}
	req.Cross, req.Former = r.flag(headerCrossPartition), r.fromJSOrPython()
	switch mode := r.header(headerDecanCross); {
	case mode == "" && r.distributed(), strings.EqualFold(mode, "full"):
		req.Cross, req.Full = true, true
	case mode != "" && !strings.EqualFold(mode, "service"):
		return nil, status.BadRequest("The mode %q in x-decan-cross-partition is neither full nor service.", mode)
	}
	if req.Explain, err = r.explain(); err != nil {
		return nil, err
	}
	if req.Explain {
		req.Cross, req.Full = true, true
	}
	v1, v2 := r.flag(headerPopulateIndexes), r.flag(headerPopulateIndexesV2)
	req.Indexes = v1 || v2
	asked, err := h.readQuery(r)
	if err != nil {
		return nil, err
	}
	req.Text, req.Params, req.Resume = asked.text, asked.params, asked.resume
	page, err := h.engine.Query(r.ctx, r.caller, req)
	r.result, r.former = page.Result, page.Former
	if err != nil {
		return nil, err
	}
	answer := r.feed("Documents", &page)
	if r.flag(headerOptimistic) {
		answer.set(headerDistribution, strconv.FormatBool(page.Combined))
	}
	if r.flag(headerPopulateMetrics) {
		answer.set(headerQueryMetrics, formatStats(&page.Stats))
	}
	switch {
	case v2:
		answer.set(headerIndexes, url.PathEscape(page.Indexes.Value().JSON()))
	case v1:
		answer.set(headerIndexes, base64.StdEncoding.EncodeToString([]byte(indexUseV1(page.Indexes).JSON())))
	}
	return answer, nil
}

// explain reports whether the client asks how its query runs.
func (r *request) explain() (bool, error) {
	switch text := r.header(headerDecanExplain); {
	case strings.EqualFold(text, "true"):
		return true, nil
	case text == "", strings.EqualFold(text, "false"):
		return false, nil
	default:
		return false, status.BadRequest("The value %q in x-decan-explain is neither true nor false.", text)
	}
}

// unexplained refuses to explain anything except a query over documents.
func (r *request) unexplained() error {
	asked, err := r.explain()
	if asked {
		return status.BadRequest("Only queries over documents are explained (x-decan-explain): neither their plans nor other feeds are.")
	}
	return err
}

// planQuery answers with the plan by which a client runs a query over several
// partitions.
func (h *handler) planQuery(r *request) (*response, error) {
	r.operation = opQueryPlan
	req := engine.PlanRequest{Link: r.container(), Features: r.header(headerQueryFeatures)}
	if r.fromDotNet() {
		// It merges MAKELIST and MAKESET, as it does with the service, and does not name
		// them among its features.
		req.Features += ", ListAndSetAggregate"
	}
	err := r.unexplained()
	if err != nil {
		return nil, err
	}
	if req.Options, err = r.options(); err != nil {
		return nil, err
	}
	if req.Key, err = r.partitionKey(); err != nil {
		return nil, err
	}
	asked, err := h.readQuery(r)
	if err != nil {
		return nil, err
	}
	req.Text, req.Params = asked.text, asked.params
	plan, err := h.engine.QueryPlan(r.ctx, r.caller, req)
	r.result = plan.Result
	if err != nil {
		return nil, err
	}
	return r.answer(http.StatusOK, plan.Body), nil
}

// definitionQuery returns the request of a query over databases, containers or
// offers.
func (h *handler) definitionQuery(r *request, link engine.Link) (engine.QueryRequest, error) {
	req, err := r.page(link)
	if err != nil {
		return req, err
	}
	if err := r.unexplained(); err != nil {
		return req, err
	}
	req.Cross = true // These feeds have only one partition.
	asked, err := h.readQuery(r)
	if err == nil && asked.resume != nil {
		err = status.BadRequest("Only a query over documents can be resumed by a resumeFilter.")
	}
	req.Text, req.Params = asked.text, asked.params
	return req, err
}

// queryBody is the body of a query.
type queryBody struct {
	text   string
	params []query.Param
	resume *query.Resume
}

// readQuery reads the body, which is a JSON object or, as application/sql, only the
// text.
func (h *handler) readQuery(r *request) (q queryBody, err error) {
	media, _, _ := strings.Cut(r.header(headerContentType), ";")
	if strings.EqualFold(strings.TrimSpace(media), typeSQL) {
		body, err := r.readBody(h.limits.BodyBytes)
		return queryBody{text: string(body)}, err
	}
	spec, _, err := r.readObject(h.limits.BodyBytes)
	if err != nil {
		return q, err
	}
	sql := spec.Get("query")
	if sql.Kind() != value.KindString {
		return q, status.BadRequest("The body has no member query with the text of a query.")
	}
	q.text = sql.Text()
	if q.resume, err = query.ParseResume(spec.Get("resumeFilter")); err != nil {
		return q, err
	}
	q.params, err = readParams(spec.Get("parameters"))
	return q, err
}

// readParams reads [{"name":"@x","value":1}, ...]; null or a missing list means
// none. A parameter without a value is undefined.
func readParams(list value.Value) ([]query.Param, error) {
	switch list.Kind() {
	case value.KindUndefined, value.KindNull:
		return nil, nil
	case value.KindArray:
	default:
		return nil, status.BadRequest("The member parameters is a JSON %s where an array is expected.", list.Kind())
	}
	params := make([]query.Param, list.Len())
	for i, item := range list.Items() {
		name := item.Get("name")
		if name.Kind() != value.KindString || name.Text() == "" {
			return nil, status.BadRequest("Parameter %d of the query has no name.", i+1)
		}
		params[i] = query.Param{Name: name.Text(), Value: item.Get("value")}
	}
	return params, nil
}
