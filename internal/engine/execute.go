package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/script"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// ExecuteRequest is a request to run a stored procedure.
type ExecuteRequest struct {
	Link      Link              // of the container
	Procedure string            // its id, or the text of its RID
	Key       *partitionkey.Key // whole key of the documents that it works on; nil is refused
	Args      []value.Value
	Log       bool // return what it writes to console.log
	Options

	// Partition is a physical partition instead of Key, for which only
	// __.sys.commonBulkInsert runs.
	Partition *resource.PartitionID
}

// Executed is the answer to a run.
type Executed struct {
	Result
	Body []byte // JSON of the response; nil if the procedure set none
	Log  string
}

// runCharge is the charge of a run of a script, in request units, in addition
// to its operations.
const runCharge = 1.0

// runTime bounds a run with everything it waits for. It is longer than a script
// may take.
const runTime = 15 * time.Second

// Execute runs a stored procedure on the documents of one partition key, all or
// nothing: its writes are one effect. If it throws, nothing is written and the
// error is 400.
func (e *Engine) Execute(ctx context.Context, caller auth.Caller, req ExecuteRequest) (Executed, error) {
	if req.Key == nil && req.Partition != nil && req.Procedure == bulkInsert {
		out, err := e.insertBulk(ctx, caller, &req)
		return out, fail(err)
	}
	var out Executed
	meter := req.meter(false)
	err := e.execute(ctx, caller, &req, &meter, &out)
	out.Charge = meter.Charge()
	return out, fail(err)
}

func (e *Engine) execute(ctx context.Context, caller auth.Caller, req *ExecuteRequest, meter *throughput.Meter, out *Executed) error {
	wish := auth.Access{Action: auth.Execute, On: auth.Script, Feed: resource.Procedure.Word(), ID: req.Procedure}
	if err := e.allow(caller, wish, req.Link); err != nil {
		return err
	}
	how, err := e.reading(req.Options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	return e.onContainer(ctx, req.Link, req.IntendedRID, &out.Result, func(container *catalog.Container) (more bool, err error) {
		key, err := pointKey(container, req.Key)
		if err != nil {
			return false, err
		}
		if err := allowKey(caller, container, key); err != nil {
			return false, err
		}
		program, err := e.program(ctx, container, resource.Procedure, req.Procedure)
		if err != nil {
			return false, err
		}
		var result script.Result
		run := run{engine: e, container: container, key: key, meter: meter, out: &out.Result}
		committed, err := run.transact(ctx, how, func(host *host) (err error) {
			meter.Add(runCharge)
			result, err = program.Run(ctx, host, script.Request{Args: req.Args, Log: req.Log})
			return err
		})
		out.Log = string(committed.Settle([]byte(result.Log)))
		if err == nil && result.Body.IsDefined() {
			out.Body = committed.Settle(result.Body.Append(nil))
		}
		return true, err // A failed run has changed nothing, so it may run again.
	})
}

// program returns a compiled script of a container.
func (e *Engine) program(ctx context.Context, c *catalog.Container, kind resource.ScriptKind, name string) (*script.Program, error) {
	if e.scripts == nil {
		return nil, errNoScripts()
	}
	definition, err := locateScript(c, kind, name)
	if body, system := script.System(name); err != nil && system && kind == resource.Procedure {
		return e.programs.compiled(ctx, e.scripts, script.Procedure, resource.Script{ID: name, RID: resource.RID(name), Body: body})
	}
	if err != nil {
		return nil, err
	}
	return e.programs.get(ctx, e.scripts, definition)
}

// run executes scripts on the documents of one key.
type run struct {
	engine    *Engine
	container *catalog.Container
	key       partitionkey.Key
	meter     *throughput.Meter
	out       *Result
}

// transact locks the key in its partition, and commits the operations of work as one
// effect.
func (r *run) transact(ctx context.Context, how reading, work func(*host) error) (partition.Committed, error) {
	epk := r.container.PartitionKey.Hash(r.key)
	p := r.container.Ranges.Locate(epk).Value
	replica, release, err := r.engine.node.Replica(ctx, r.container, p.ID)
	if err != nil {
		return partition.Committed{}, err
	}
	defer release()
	r.engine.visit(r.out, p.ID)
	ask := partition.Transact{Generation: p.Generation, Key: r.key, EPK: epk, Session: how.requiredLSN(p), Meter: r.meter}
	inTransaction := func(h *partition.LockedTransaction) error {
		return work(&host{run: r, tx: h, epk: epk})
	}
	committed, err := retryBehind(ctx, &how, ask.Session, func() (partition.Committed, error) { return replica.Transact(ctx, ask, inTransaction) })
	r.out.reached(p.ID, committed.LSN)
	return committed, err
}

// triggered are the triggers of one write.
type triggered struct {
	pre, post []*script.Program
	operation string
}

// triggersOf finds the triggers that a write names, and refuses those of another
// type or operation.
func (e *Engine) triggersOf(ctx context.Context, c *catalog.Container, op partition.Op, req *DocumentRequest) (t triggered, err error) {
	t.operation = map[partition.Op]string{
		partition.Create: "Create", partition.Replace: "Replace", partition.Upsert: "Upsert", partition.Delete: "Delete",
	}[op]
	if t.operation == "" {
		return t, status.BadRequest("Triggers run with the create, the replacement, the upsert and the deletion of a document only.")
	}
	if t.pre, err = e.triggersNamed(ctx, c, t.operation, resource.PreTrigger, req.PreTriggers); err == nil {
		t.post, err = e.triggersNamed(ctx, c, t.operation, resource.PostTrigger, req.PostTriggers)
	}
	return t, err
}

func (e *Engine) triggersNamed(ctx context.Context, c *catalog.Container, operation, kind string, names []string) (all []*script.Program, err error) {
	if e.scripts == nil {
		return nil, errNoScripts()
	}
	for _, name := range names {
		definition, err := locateScript(c, resource.Trigger, name)
		if err != nil {
			return nil, status.BadRequest("The trigger '%s' does not exist.", name)
		}
		if !strings.EqualFold(definition.TriggerType, kind) {
			return nil, status.BadRequest("The trigger '%s' has the type %s, and the request names it as one of the type %s.", name, definition.TriggerType, kind)
		}
		if !definition.Fires(operation) {
			return nil, status.BadRequest("The trigger '%s' is for the operation %s and cannot be run for %s.", name, definition.TriggerOperation, operation)
		}
		program, err := e.programs.get(ctx, e.scripts, definition)
		if err != nil {
			return nil, err
		}
		all = append(all, program)
	}
	return all, nil
}

// writeTriggered carries out a write with its triggers, as one effect.
func (e *Engine) writeTriggered(ctx context.Context, caller auth.Caller, container *catalog.Container, w partition.Write, req *DocumentRequest, doc *Document) error {
	t, err := e.triggersOf(ctx, container, w.Op, req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	run := run{engine: e, container: container, key: w.Key, meter: w.Meter, out: &doc.Result}
	var written partition.Written
	var body []byte
	committed, err := run.transact(ctx, reading{}, func(host *host) (err error) {
		if w.Op == partition.Delete {
			// Triggers of a deletion get the document, as in the service.
			found, err := host.tx.Do(ctx, partition.Operation{Op: partition.Fetch, ID: w.ID})
			if err != nil {
				return err
			}
			if w.Document, err = value.Parse(found.Body); err != nil {
				return fmt.Errorf("read what is deleted: %w", err)
			}
		}
		if err := host.pre(ctx, t, &w); err != nil {
			return err
		}
		if w.Op == partition.Replace {
			if err := allowID(caller, w.Document); err != nil {
				return err
			}
		}
		written, err = host.tx.Do(ctx, partition.Operation{
			Op: w.Op, ID: w.ID, Document: w.Document, IfMatch: w.IfMatch, IfNoneMatch: w.IfNoneMatch,
		})
		if err == nil {
			body, err = host.post(ctx, t, &w, written.Body)
		}
		return err
	})
	if err != nil {
		return err
	}
	etag := committed.Settle([]byte(written.ETag))
	doc.Body, doc.Created, doc.ETag = committed.Settle(body), written.Created, resource.ETag(etag)
	doc.one(committed.LSN, committed.Totals)
	return nil
}

// pre runs the triggers before a write. Each may change the document that the next
// one sees, except its key.
func (h *host) pre(ctx context.Context, t triggered, w *partition.Write) error {
	for _, program := range t.pre {
		h.run.meter.Add(runCharge)
		result, err := program.Run(ctx, h, script.Request{Operation: t.operation, Body: w.Document})
		if err != nil {
			return err
		}
		if w.Op == partition.Delete {
			continue
		}
		id := w.Document.Get("id").Text()
		if w.Document = result.Document; w.Document.Kind() == value.KindString {
			if w.Document, err = value.ParseString(w.Document.Text()); err != nil {
				return status.BadRequest("The document that a trigger set is not valid JSON: %s.", err)
			}
		}
		if err := h.check(w.Document); err != nil {
			return err
		}
		if w.Op != partition.Replace && w.ID == id {
			w.ID = w.Document.Get("id").Text()
		}
	}
	return nil
}

// post runs the triggers after a write, and returns the body of the answer, which
// they may change.
func (h *host) post(ctx context.Context, t triggered, w *partition.Write, body []byte) ([]byte, error) {
	for _, program := range t.post {
		req := script.Request{Operation: t.operation, Body: w.Document}
		if body != nil {
			var err error
			if req.Response, err = value.Parse(body); err != nil {
				return nil, fmt.Errorf("read what was written: %w", err)
			}
		}
		h.run.meter.Add(runCharge)
		result, err := program.Run(ctx, h, req)
		if err != nil {
			return nil, err
		}
		if body != nil && result.Body.IsDefined() {
			body = result.Body.Append(nil)
		}
	}
	return body, nil
}

// host carries out the operations of scripts on the documents of a key.
type host struct {
	run *run
	tx  *partition.LockedTransaction
	epk partitionkey.EPK
}

var _ script.Host = (*host)(nil)

// Container returns the link of the container by RIDs, and its names.
func (h *host) Container() (self, database, name string) {
	c := h.run.container
	return strings.TrimSuffix(string(c.RID.AppendSelf(nil)), "/"), c.Database.ID, c.ID
}

// Quota returns the limit of a logical partition. The usage is empty: it is not
// counted for scripts.
func (h *host) Quota() (usage, quota string) {
	return "", fmt.Sprintf("documentSize=%d;", h.run.engine.limits.LogicalPartitionBytes>>10)
}

// Room returns how many more versions the transaction may write.
func (h *host) Room() int { return h.tx.Room() }

// Create creates a document.
func (h *host) Create(ctx context.Context, w script.Write) (value.Value, error) {
	return h.write(ctx, partition.Create, w)
}

// Upsert creates or replaces a document.
func (h *host) Upsert(ctx context.Context, w script.Write) (value.Value, error) {
	return h.write(ctx, partition.Upsert, w)
}

// Replace replaces a document.
func (h *host) Replace(ctx context.Context, w script.Write) (value.Value, error) {
	return h.write(ctx, partition.Replace, w)
}

func (h *host) write(ctx context.Context, op partition.Op, w script.Write) (value.Value, error) {
	if err := CheckDirective(w.IndexAction); err != nil {
		return value.Value{}, err
	}
	if err := h.check(w.Document); err != nil {
		return value.Value{}, err
	}
	ask := partition.Operation{Op: op, Document: w.Document, IfMatch: resource.ETag(w.Target.ETag)}
	if op == partition.Replace {
		var err error
		if ask.ID, err = h.id(w.Target); err != nil {
			return value.Value{}, err
		}
	}
	return h.do(ctx, ask)
}

// check refuses a document that does not have the key of the run.
func (h *host) check(document value.Value) error {
	_, err := h.run.engine.documentKey(h.run.container, document, 0, &h.run.key)
	if status.SubOf(err) == status.SubPartitionKeyMismatch {
		err = status.BadRequest("Requests originating from scripts cannot reference partition keys other than the one for which client request was submitted.")
	}
	return err
}

// id returns the id of the document that a script names.
func (h *host) id(t script.Target) (string, error) {
	if t.RID == "" {
		return t.ID, nil
	}
	rid, err := resource.ParseRID(t.RID)
	if err != nil || !rid.IsDocument() || rid.Container() != h.run.container.RID {
		return "", status.NotFound()
	}
	id, found, err := h.tx.ID(rid.Number())
	if err == nil && !found {
		err = status.NotFound()
	}
	return id, err
}

func (h *host) do(ctx context.Context, ask partition.Operation) (value.Value, error) {
	written, err := h.tx.Do(ctx, ask)
	if err != nil || written.Body == nil {
		return value.Value{}, err
	}
	return value.Parse(written.Body)
}

// Read returns a document, or undefined if t.IfNoneMatch names its version.
func (h *host) Read(ctx context.Context, t script.Target) (value.Value, error) {
	id, err := h.id(t)
	if err != nil {
		return value.Value{}, err
	}
	document, err := h.do(ctx, partition.Operation{Op: partition.Fetch, ID: id, IfMatch: resource.ETag(t.ETag), IfNoneMatch: resource.ETag(t.IfNoneMatch)})
	if status.CodeOf(err) == status.CodeNotModified {
		return value.Value{}, nil
	}
	return document, err
}

// Delete removes a document.
func (h *host) Delete(ctx context.Context, t script.Target) error {
	id, err := h.id(t)
	if err == nil {
		_, err = h.tx.Do(ctx, partition.Operation{Op: partition.Delete, ID: id, IfMatch: resource.ETag(t.ETag)})
	}
	return err
}

// scriptPage is the number of rows of a page if the script sets none.
const scriptPage = 1000

// Query returns a page of rows. Its continuation equals that of a client's
// query with the same text and key.
func (h *host) Query(ctx context.Context, q script.Query) (script.Page, error) {
	req := QueryRequest{Text: q.Text, Continuation: q.Continuation, MaxItems: q.PageSize}
	if req.Text == "" {
		req.Text = listText
	}
	if req.MaxItems <= 0 {
		req.MaxItems = scriptPage
	}
	for _, p := range q.Parameters.Items() {
		req.Params = append(req.Params, query.Param{Name: p.Get("name").Text(), Value: p.Get("value")})
	}
	e, c := h.run.engine, h.run.container
	plan, _, err := e.planOf(c, req.Text, req.Params)
	if err == nil {
		err = plan.Runnable()
	}
	if err != nil {
		return script.Page{}, err
	}
	at, err := e.resume(&req, c.RID, plan, h.epk)
	if err != nil {
		return script.Page{}, err
	}
	if q.Keep != nil {
		return h.filter(ctx, &req, plan, at, q.Keep)
	}
	return h.page(ctx, &req, plan, at)
}

// page reads the rows after a position.
func (h *host) page(ctx context.Context, req *QueryRequest, plan *query.Plan, at continuation) (script.Page, error) {
	if plan.Hybrid() != nil {
		return script.Page{}, status.Unsupported("ORDER BY RANK in a script")
	}
	e := h.run.engine
	job := e.newJob()
	defer job.close()
	job.free = true // Writes of the key wait for the script.
	worker := job.workMain(ctx)
	defer worker.finish()
	memory := streamMemory{account: &job.memory}
	rows := func(ctx context.Context, b query.Budget) (query.Page, error) {
		memory.renew()
		b.Late, b.Grow = worker, &memory
		page, err := h.tx.Query(ctx, plan, b)
		if err != nil && worker.fault != nil {
			err = worker.fault
		}
		return page, err
	}
	var out Feed
	if err := e.page(worker, req, plan, e.budget(req), []stream{{run: rows, clip: partitionkey.Full()}}, at, oneByOne, &out); err != nil {
		return script.Page{}, err
	}
	page := script.Page{Continuation: out.Continuation, Rows: make([]value.Value, len(out.Rows))}
	for i, row := range out.Rows {
		var err error
		if page.Rows[i], err = value.ParseDeep(string(row)); err != nil {
			return script.Page{}, fmt.Errorf("read a row of a query: %w", err)
		}
	}
	return page, nil
}

// filterRows is the number of rows that are read at a time for a filter of a
// script.
const filterRows = 200

// filter reads rows until the filter has kept as many as a page has. If that
// happens in the middle of the rows read, filter reads them again up to that row,
// for a continuation right after it: the snapshot is the same.
func (h *host) filter(ctx context.Context, req *QueryRequest, plan *query.Plan, at continuation, keep func(value.Value) (bool, error)) (script.Page, error) {
	wanted := req.MaxItems
	for kept := 0; ; {
		req.MaxItems = max(filterRows, wanted-kept)
		page, err := h.page(ctx, req, plan, at)
		if err != nil {
			return script.Page{}, err
		}
		for i, row := range page.Rows {
			ok, err := keep(row)
			if err != nil {
				return script.Page{}, err
			}
			if !ok {
				continue
			}
			if kept++; kept < wanted {
				continue
			}
			if i+1 < len(page.Rows) {
				req.MaxItems = i + 1
				page, err = h.page(ctx, req, plan, at)
			}
			return script.Page{Continuation: page.Continuation}, err
		}
		if page.Continuation == "" {
			return script.Page{}, nil
		}
		if at, err = parseContinuation(page.Continuation, at.Query); err != nil {
			return script.Page{}, err
		}
	}
}
