package nosql

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// scriptFeeds are the names of lists of scripts in the protocol.
var scriptFeeds = map[resource.ScriptKind]string{
	resource.Function:  "UserDefinedFunctions",
	resource.Trigger:   "Triggers",
	resource.Procedure: "StoredProcedures",
}

// scriptKind is the kind of script in the path.
func (r *request) scriptKind() resource.ScriptKind {
	kind, _ := resource.ScriptKindOf(r.target.segments[4])
	return kind
}

// postScripts creates or upserts a script, or queries the definitions.
func (h *handler) postScripts(r *request) (*response, error) {
	if r.isQuery() {
		return h.queryScripts(r)
	}
	req, err := h.scriptDefinition(r)
	if err != nil {
		return nil, err
	}
	if r.flag(headerIsUpsert) {
		return h.upsertScript(r, req)
	}
	res, err := h.engine.CreateScript(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.describeScript(http.StatusCreated, &res), nil
}

// upsertScript creates or replaces a script, as the older .NET client asks.
func (h *handler) upsertScript(r *request, req engine.ScriptRequest) (*response, error) {
	r.operation = map[resource.ScriptKind]operation{
		resource.Function: opFunctionUpsert, resource.Trigger: opTriggerUpsert, resource.Procedure: opProcedureUpsert,
	}[r.scriptKind()]
	res, created, err := h.engine.UpsertScript(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.describeScript(upserted(created), &res), nil
}

func (h *handler) readScript(r *request) (*response, error) {
	res, err := h.engine.ReadScript(r.ctx, r.caller, r.script())
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.describeScript(http.StatusOK, &res), nil
}

func (h *handler) replaceScript(r *request) (*response, error) {
	req, err := h.scriptDefinition(r)
	if err != nil {
		return nil, err
	}
	res, err := h.engine.ReplaceScript(r.ctx, r.caller, req)
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.describeScript(http.StatusOK, &res), nil
}

func (h *handler) deleteScript(r *request) (*response, error) {
	res, err := h.engine.DeleteScript(r.ctx, r.caller, r.script())
	r.result = res.Result
	if err != nil {
		return nil, err
	}
	return r.answer(http.StatusNoContent, nil), nil
}

func (h *handler) listScripts(r *request) (*response, error) {
	req, err := r.page(r.container())
	if err != nil {
		return nil, err
	}
	page, err := h.engine.ListScripts(r.ctx, r.caller, r.scriptKind(), req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed(scriptFeeds[r.scriptKind()], &page), nil
}

func (h *handler) queryScripts(r *request) (*response, error) {
	r.operation = map[resource.ScriptKind]operation{
		resource.Function: opFunctionQuery, resource.Trigger: opTriggerQuery, resource.Procedure: opProcedureQuery,
	}[r.scriptKind()]
	req, err := h.definitionQuery(r, r.container())
	if err != nil {
		return nil, err
	}
	page, err := h.engine.QueryScripts(r.ctx, r.caller, r.scriptKind(), req)
	r.result = page.Result
	if err != nil {
		return nil, err
	}
	return r.feed(scriptFeeds[r.scriptKind()], &page), nil
}

// scriptQuotas are the names of the figures in quota and usage.
var scriptQuotas = map[resource.ScriptKind]string{
	resource.Function:  "functions=",
	resource.Trigger:   "triggers=",
	resource.Procedure: "storedProcedures=",
}

// describeScript answers with a script, the number of scripts of its kind, and how
// many there may be.
func (r *request) describeScript(status int, res *engine.Resource) *response {
	answer := r.resource(status, res)
	kind := r.scriptKind()
	answer.set(headerQuota, scriptQuotas[kind]+strconv.Itoa(kind.Max())+";")
	answer.set(headerUsage, scriptQuotas[kind]+strconv.Itoa(res.Scripts)+";")
	return answer
}

// script returns the request for the script in the path.
func (r *request) script() engine.ScriptRequest {
	return engine.ScriptRequest{
		Kind:        r.scriptKind(),
		Link:        r.container(),
		Script:      r.target.id(2),
		IfMatch:     r.ifMatch(),
		IfNoneMatch: r.ifNoneMatch(),
	}
}

// scriptDefinition returns the request to create or replace a script.
func (h *handler) scriptDefinition(r *request) (engine.ScriptRequest, error) {
	req := r.script()
	var err error
	req.Body, _, err = r.readObject(h.limits.BodyBytes)
	return req, err
}

// executeProcedure runs a stored procedure. The body is an array of its
// arguments; without a body there are none.
func (h *handler) executeProcedure(r *request) (*response, error) {
	req := engine.ExecuteRequest{Link: r.container(), Procedure: r.target.id(2), Log: r.flag(headerScriptLogging)}
	var err error
	if req.Options, err = r.options(); err != nil {
		return nil, err
	}
	if req.Key, err = r.partitionKey(); err != nil {
		return nil, err
	}
	if req.Key == nil {
		var rid string
		if req.Partition, rid, err = r.rangeID(); err != nil {
			return nil, err
		}
		if req.IntendedRID == "" {
			req.IntendedRID = rid
		}
	}
	if req.Args, err = h.arguments(r); err != nil {
		return nil, err
	}
	done, err := h.engine.Execute(r.ctx, r.caller, req)
	r.result = done.Result
	if err != nil {
		return nil, err
	}
	answer := r.answer(http.StatusOK, done.Body)
	answer.set(headerScriptLog, url.PathEscape(done.Log)) // The limit of a script's log counts the escaped form.
	return answer, nil
}

// arguments reads the arguments of a stored procedure.
func (h *handler) arguments(r *request) ([]value.Value, error) {
	body, err := r.readBody(h.limits.BodyBytes)
	if err != nil || len(body) == 0 {
		return nil, err
	}
	list, err := value.Parse(body)
	if err != nil {
		return nil, status.BadRequest("The body is not valid JSON: %s.", err)
	}
	if list.Kind() != value.KindArray {
		return nil, status.BadRequest("The body is a JSON %s where the array of the arguments is expected.", list.Kind())
	}
	return list.Items(), nil
}

// triggers reads which triggers run with a write.
func (h *handler) triggers(r *request, req *engine.DocumentRequest) (err error) {
	most := 1
	if h.switches.SeveralTriggers {
		most = triggersMax
	}
	if req.PreTriggers, err = scriptNames(r.header(headerPreTrigger), most); err == nil {
		req.PostTriggers, err = scriptNames(r.header(headerPostTrigger), most)
	}
	return err
}

// triggersMax is how many triggers of one type a write may name with
// [Switches.SeveralTriggers].
const triggersMax = 10

// scriptNames splits a list of up to most ids separated by commas. Clients escape
// characters that are not ASCII as in a URL.
func scriptNames(list string, most int) (names []string, err error) {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		if decoded, err := unescape(name); err == nil {
			name = decoded
		}
		if names = append(names, name); len(names) > most {
			if most == 1 {
				return nil, status.BadRequest("A request names at most one trigger of each type. A server started with --several-triggers runs up to %d.", triggersMax)
			}
			return nil, status.BadRequest("A request names at most %d triggers of one type.", most)
		}
	}
	return names, nil
}
