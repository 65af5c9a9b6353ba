package script

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"modernc.org/quickjs"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// Request is the input of a stored procedure or a trigger.
type Request struct {
	Args      []value.Value     // of a procedure; undefined ones become null
	Operation string            // of a trigger: Create, Replace, Upsert or Delete
	Body      value.Value       // of the request; for a trigger, the document to write
	Response  value.Value       // for a post-trigger, the document as it was written
	Headers   map[string]string // what getValue of the request returns, by lower-case names
	Log       bool              // collect console.log
}

// Result is the output of a script.
type Result struct {
	Body     value.Value // of the response; undefined if the script set none
	Document value.Value // the body of the request, which a pre-trigger may have changed
	Log      string      // output of console.log; at most Limits.LogBytes when escaped with url.PathEscape
}

// Run runs a stored procedure or a trigger to its end: until no operation is
// waiting and no promise can continue. The caller must commit the transaction
// only if Run returns no error.
//
// If the script throws, the error is status 400 with the number of the exception
// as its sub-status. If its time is over, in the script or in the host, it is
// status 408. The error of ctx, and errors of the host that scripts cannot
// handle, are returned unchanged. There is no log with an error.
func (p *Program) Run(ctx context.Context, host Host, req Request) (Result, error) {
	if p.kind == Function {
		return Result{}, fmt.Errorf("script: a %s cannot be run", p.kind)
	}
	if err := p.runawayError(); err != nil {
		return Result{}, err
	}
	r := p.runner
	if err := r.enter(ctx, r.runs); err != nil {
		return Result{}, err
	}
	defer r.leave(r.runs)
	m, err := r.newMachine()
	if err != nil {
		return Result{}, err
	}
	run := &run{p: p, m: m, host: host}
	defer func() {
		if !run.lost {
			m.retire()
		}
	}()
	return run.all(ctx, req)
}

// run is one run of a script. It belongs to the goroutine of Run.
type run struct {
	p        *Program
	m        *machine
	host     Host
	deadline time.Time
	lost     bool // the machine was abandoned

	start, next, finish, keep, settle quickjs.Value // of api.js
}

// all executes the whole run: first the function, then one operation after
// another.
func (r *run) all(ctx context.Context, req Request) (Result, error) {
	if err := r.begin(ctx, req); err != nil {
		return Result{}, err
	}
	for {
		op, err := r.take(ctx)
		if err != nil {
			return Result{}, err
		}
		if op.name == "" {
			return r.end(ctx)
		}
		answer, err := r.perform(ctx, op)
		if err != nil {
			return Result{}, err
		}
		if err := r.hand(ctx, answer); err != nil {
			return Result{}, err
		}
	}
}

// do runs a piece of work on the engine in the remaining time, and reads its
// result: nothing, an exception, or a text.
func (r *run) do(ctx context.Context, work func() (any, error)) (string, error) {
	var answer any
	var fault error
	err := r.m.do(ctx, max(time.Until(r.deadline), time.Millisecond), func() { answer, fault = work() })
	if err != nil {
		r.lost = errors.Is(err, errRunaway)
		return "", r.p.stopped(err)
	}
	if fault != nil {
		return "", r.p.uncaught(fault)
	}
	text, _ := answer.(string)
	if strings.HasPrefix(text, "e") {
		err, _ := r.p.exception(text[1:])
		return "", err
	}
	return text, nil
}

// begin creates the realm and calls the function.
func (r *run) begin(ctx context.Context, req Request) error {
	r.deadline = time.Now().Add(r.p.runner.prepareTime())
	var make quickjs.Value
	_, err := r.do(ctx, func() (_ any, err error) {
		if err = r.m.boot(); err == nil {
			make, err = r.m.maker(r.p)
		}
		return nil, err
	})
	if err != nil {
		return err
	}
	r.deadline = time.Now().Add(r.p.runner.limits.Time)
	config := r.config(req)
	arguments := value.Array(defined(req.Args)).JSON()
	_, err = r.do(ctx, func() (any, error) {
		parts, err := r.m.parts(apiSource, 5, config, optional(req.Body), optional(req.Response))
		if err != nil {
			return nil, err
		}
		r.start, r.next, r.finish, r.keep, r.settle = parts[0], parts[1], parts[2], parts[3], parts[4]
		return r.start.Call(quickjs.UndefinedValue, make, arguments)
	})
	return err
}

// config returns the configuration of api.js as JSON.
func (r *run) config(req Request) string {
	kind := map[Kind]string{Procedure: "procedure", PreTrigger: "pretrigger", PostTrigger: "posttrigger"}[r.p.kind]
	limits := r.p.runner.limits
	self, database, name := r.host.Container()
	usage, quota := r.host.Quota()
	var headers []value.Member
	for name, text := range req.Headers {
		headers = append(headers, value.Member{Name: name, Value: value.String(text)})
	}
	accept := r.deadline.Add(limits.AcceptTime - limits.Time)
	return value.Object([]value.Member{
		{Name: "kind", Value: value.String(kind)},
		{Name: "self", Value: value.String(self)},
		{Name: "alt", Value: value.String("dbs/" + database + "/colls/" + name)},
		{Name: "usage", Value: value.String(usage)},
		{Name: "quota", Value: value.String(quota)},
		{Name: "headers", Value: value.Object(headers)},
		{Name: "operation", Value: value.String(req.Operation)},
		{Name: "room", Value: value.Int(int64(r.host.Room()))},
		{Name: "acceptUntil", Value: value.Int(accept.UnixMilli())},
		{Name: "log", Value: value.Bool(req.Log)},
		{Name: "logMax", Value: value.Int(int64(limits.LogBytes))},
		{Name: "bodyMax", Value: value.Int(int64(limits.ResultBytes))},
	}).JSON()
}

// operation is an operation that the script requested.
type operation struct {
	name string
	head value.Value
	body string
}

// take lets promises continue and takes the next operation. Its name is empty if
// there is none.
func (r *run) take(ctx context.Context) (operation, error) {
	room := r.host.Room()
	text, err := r.do(ctx, func() (any, error) {
		if _, err := r.m.vm.ExecutePendingJobs(); err != nil {
			return nil, err
		}
		return r.next.Call(quickjs.UndefinedValue, room)
	})
	if err != nil || text == "" {
		return operation{}, err
	}
	name, rest, _ := strings.Cut(text[1:], "\n")
	head, body, _ := strings.Cut(rest, "\n")
	parsed, err := value.ParseString(head)
	if err != nil {
		return operation{}, status.BadRequest("The options of an operation cannot be read: %v", err)
	}
	return operation{name: name, head: parsed, body: body}, nil
}

// answer is what a callback receives.
type answer struct {
	failure, body, options string // JSON; failure is empty on success
}

func (r *run) hand(ctx context.Context, a answer) error {
	room := r.host.Room()
	_, err := r.do(ctx, func() (any, error) {
		return r.finish.Call(quickjs.UndefinedValue, room, a.failure, a.body, a.options)
	})
	return err
}

// end reads the output of the script.
func (r *run) end(ctx context.Context) (Result, error) {
	text, err := r.do(ctx, func() (any, error) { return r.settle.Call(quickjs.UndefinedValue) })
	if err != nil {
		return Result{}, err
	}
	parts, err := value.ParseString(text)
	if err != nil {
		return Result{}, status.BadRequest("The result of the script cannot be read: %v", err)
	}
	result := Result{Log: parts.Index(2).Text()}
	if most := r.p.runner.limits.LogBytes; len(url.PathEscape(result.Log)) > most {
		return Result{}, status.TooLarge("The log of the %s %s takes more than %d bytes of a header.", r.p.kind, r.p.name, most)
	}
	for i, body := range []*value.Value{&result.Document, &result.Body} {
		text := parts.Index(i).Text()
		if len(text) > r.p.runner.limits.ResultBytes {
			return Result{}, status.TooLarge("The body that the %s %s set is larger than %d bytes.", r.p.kind, r.p.name, r.p.runner.limits.ResultBytes)
		}
		if text == "" {
			continue
		}
		if *body, err = value.ParseString(text); err != nil {
			return Result{}, status.BadRequest("The body that the %s %s set cannot be read: %v", r.p.kind, r.p.name, err)
		}
	}
	return result, nil
}

// perform executes an operation; the host must end it when the time of the
// script is over. An error ends the run; an error that the script may handle is
// part of the answer.
func (r *run) perform(ctx context.Context, op operation) (answer, error) {
	if err := r.late(ctx); err != nil {
		return answer{}, err
	}
	within, cancel := context.WithDeadline(ctx, r.deadline)
	defer cancel()
	body, extra, err := r.dispatch(within, op)
	if late := r.late(ctx); late != nil {
		return answer{}, late
	}
	usage, quota := r.host.Quota()
	a := answer{body: body, options: value.Object(append(extra,
		value.Member{Name: "currentCollectionSizeInMB", Value: value.String(usage)},
		value.Member{Name: "maxCollectionSizeInMB", Value: value.String(quota)},
	)).JSON()}
	if err == nil {
		return a, nil
	}
	e := status.From(err)
	if e == nil || !known(e.Code) {
		return answer{}, err
	}
	a.failure = value.Object([]value.Member{
		{Name: "number", Value: value.Int(int64(e.Code))},
		{Name: "message", Value: value.String(e.Message)},
	}).JSON()
	return a, nil
}

// late ends a run whose time passed in the host.
func (r *run) late(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !time.Now().Before(r.deadline) {
		return r.p.timeoutError()
	}
	return nil
}

// known lists the codes that scripts can handle.
func known(code status.Code) bool {
	switch code {
	case status.CodeBadRequest, status.CodeForbidden, status.CodeNotFound, status.CodeConflict,
		status.CodePreconditionFailed, status.CodeTooLarge, status.CodeTooManyRequests, status.CodeRetryWith:
		return true
	}
	return false
}

func (r *run) dispatch(ctx context.Context, op operation) (body string, options []value.Member, err error) {
	switch op.name {
	case "create", "upsert", "replace":
		document, err := r.write(ctx, op)
		return document.JSON(), nil, err
	case "read":
		document, err := r.host.Read(ctx, target(op.head))
		if err == nil && !document.IsDefined() {
			options = append(options, value.Member{Name: "notModified", Value: value.Bool(true)})
		}
		return document.JSON(), options, err
	case "delete":
		return "", nil, r.host.Delete(ctx, target(op.head))
	}
	return r.query(ctx, op)
}

func target(head value.Value) Target {
	return Target{
		RID:         head.Get("rid").Text(),
		ID:          head.Get("id").Text(),
		ETag:        head.Get("etag").Text(),
		IfNoneMatch: head.Get("ifNoneMatch").Text(),
	}
}

func (r *run) write(ctx context.Context, op operation) (value.Value, error) {
	document, err := value.ParseString(op.body)
	if err != nil {
		return value.Value{}, status.BadRequest("The document cannot be read: %v", err)
	}
	if document.Kind() != value.KindObject {
		return value.Value{}, status.BadRequest("The document body must be an object.")
	}
	if id := document.Get("id"); op.head.Get("name").IsTrue() && (!id.IsDefined() || id.Kind() == value.KindNull || id.Kind() == value.KindString && id.Len() == 0) {
		document = document.With("id", value.String(newID()))
	}
	w := Write{Target: target(op.head), Document: document, IndexAction: op.head.Get("indexAction").Text()}
	switch op.name {
	case "create":
		return r.host.Create(ctx, w)
	case "upsert":
		return r.host.Upsert(ctx, w)
	}
	return r.host.Replace(ctx, w)
}

func (r *run) query(ctx context.Context, op operation) (body string, options []value.Member, err error) {
	size, _ := op.head.Get("pageSize").Int64()
	q := Query{
		Text:         op.head.Get("query").Text(),
		Parameters:   op.head.Get("parameters"),
		PageSize:     int(min(max(size, -1), 1<<31-1)),
		Continuation: op.head.Get("continuation").Text(),
	}
	var ended, stopped error
	if op.head.Get("filtered").IsTrue() {
		q.Keep = func(document value.Value) (bool, error) {
			kept, err := r.asked(ctx, document)
			if errors.Is(err, errFilter) {
				stopped = err
			} else if err != nil {
				ended = err
			}
			return kept, err
		}
	}
	page, err := r.host.Query(ctx, q)
	switch {
	case ended != nil:
		return "", nil, ended
	case stopped != nil: // the script knows what its filter threw
		return "[]", nil, nil
	case err != nil:
		return "", nil, err
	}
	if page.Continuation != "" {
		options = append(options, value.Member{Name: "continuation", Value: value.String(page.Continuation)})
	}
	return value.Array(page.Rows).JSON(), options, nil
}

// errFilter means that a filter of the script threw.
var errFilter = errors.New("script: a filter threw")

// asked calls the script's filter with a document. The host calls it on the
// goroutine of Run.
func (r *run) asked(ctx context.Context, document value.Value) (bool, error) {
	text := document.JSON()
	var kept bool
	told, err := r.do(ctx, func() (any, error) {
		answer, err := r.keep.Call(quickjs.UndefinedValue, text)
		kept, _ = answer.(bool)
		return answer, err
	})
	if err == nil && told == "stop" {
		err = errFilter
	}
	return kept, err
}

// newID returns a random UUID for a document without an id.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// defined replaces undefined arguments, which JSON would omit.
func defined(args []value.Value) []value.Value {
	given := make([]value.Value, len(args))
	for i, arg := range args {
		if given[i] = arg; !arg.IsDefined() {
			given[i] = value.Null()
		}
	}
	return given
}

// optional returns a value as JSON, or undefined.
func optional(v value.Value) any {
	if !v.IsDefined() {
		return quickjs.Undefined{}
	}
	return v.JSON()
}
