package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/index"
	"github.com/decandb/decan/internal/partition"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
	"github.com/decandb/decan/partitionkey"
)

// Query returns a page of a query's rows.
//
// A query on more than one physical partition needs req.Cross, unless the
// request has a key prefix. A query whose rows have to be merged (such as ORDER
// BY, TOP, OFFSET LIMIT), and that is not confined to one logical or physical
// partition, is 400/1004 with the plan, unless the engine or the request
// selects [Full].
func (e *Engine) Query(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	return e.answer(ctx, caller, auth.Query, &req)
}

// List returns a page of a container's documents. It ignores Text, Params,
// Cross and Full of the request.
func (e *Engine) List(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	req.Text, req.Params, req.Cross = listText, nil, true
	return e.answer(ctx, caller, auth.List, &req)
}

func (e *Engine) answer(ctx context.Context, caller auth.Caller, action auth.Action, req *QueryRequest) (Feed, error) {
	q := queryPage{engine: e, req: req, job: e.newJob()}
	defer q.job.close()
	q.job.again, q.job.caller, q.job.operation = true, caller.Kind(), runningQuery
	if action == auth.List {
		q.job.operation = runningList
	}
	err := q.run(ctx, caller, action)
	q.out.Session = q.seen.token(req.SessionList)
	q.out.Charge = throughput.AtLevel(q.meter.Charge(), q.how.level)
	slices.Sort(q.out.Partitions)
	e.metrics.queries.Inc()
	if len(q.out.Partitions) > 1 {
		e.metrics.fanned.Inc()
	}
	if err == nil {
		q.count()
		if action == auth.Query && req.Continuation == "" && !req.Explain && !q.further {
			e.recorder.asked(q.out.ParentRID, req)
		}
	}
	return q.out, fail(err)
}

// queryPage is the state of a running [Engine.Query] or [Engine.List].
type queryPage struct {
	engine *Engine
	req    *QueryRequest
	job    *job
	how    reading
	routed bool // this attempt has found the partitions to ask
	out    Feed

	// slow is true if a partition took longer than quickTime for its page.
	slow atomic.Bool

	// further is true if the request is recorded with another one, see [further].
	further bool

	// cold is true if a partition to ask is closed.
	cold bool

	mu    sync.Mutex // guards the fields below and out.Partitions, out.LSN: several partitions are asked at the same time
	meter throughput.Meter
	seen  seen
	calls int64 // of user-defined functions in partitions, whose meters include them
	last  int   // number, in range order, of the partition that out.LSN is of
	fresh int64 // partitions of out.Partitions that no previous page has asked

	// before is the highest number, in range order, of a partition that previous
	// pages have asked; negative if there is none.
	before int
}

// count adds an answered page and the partitions that it has asked to the
// metrics.
func (q *queryPage) count() {
	e := q.engine
	e.metrics.asked.Observe(float64(len(q.out.Partitions)))
	page := QueryVisits{Partitions: q.fresh}
	if q.req.Continuation == "" {
		page.Queries = 1
	}
	e.metrics.fanouts.add(e.catalog.View(), q.out.ParentRID, page)
}

func (q *queryPage) run(ctx context.Context, caller auth.Caller, action auth.Action) error {
	if err := q.engine.allowFeed(caller, action, q.req); err != nil {
		return err
	}
	var err error
	if q.how, err = q.engine.reading(q.req.Options); err != nil {
		return err
	}
	return q.engine.onContainer(ctx, q.req.Link, q.req.IntendedRID, &q.out.Result, func(c *catalog.Container) (more bool, err error) {
		q.out.ParentRID, q.job.container = c.RID, c.RID
		q.routed = false
		spent := q.meter
		err = q.attempt(ctx, c)
		for errors.Is(err, query.ErrAgain) {
			q.meter = spent // The attempt is not charged.
			q.job.asked.Store(0)
			q.job.read.Store(0)
			if err = q.job.wait(ctx); err == nil {
				err = q.attempt(ctx, c)
			}
		}
		// A partition that the request names and the view does not have no longer
		// exists: a newer view helps only if a partition moves after routing. Rows
		// of an incomplete page are dropped: the next attempt reads them again.
		return q.routed, err
	})
}

// attempt calls once with the main worker of the request. The error is [query.ErrAgain]
// if the request needs a turn first.
func (q *queryPage) attempt(ctx context.Context, c *catalog.Container) error {
	main := q.job.workMain(ctx)
	defer main.finish()
	err := q.once(main, c)
	if err == nil {
		return nil
	}
	q.job.dropMemory()
	if main.fault != nil {
		return main.fault
	}
	return err
}

// once makes the page with one version of the container. It drops the rows of a
// previous attempt, but keeps its charge and the partitions that it asked.
func (q *queryPage) once(ctx context.Context, c *catalog.Container) error {
	q.out.Rows, q.out.Continuation, q.out.Stats, q.last = nil, "", query.Stats{}, 0
	q.seen, q.calls = nil, 0
	plan, kept, err := q.engine.planOf(c, q.req.Text, q.req.Params)
	if err == nil {
		err = plan.Runnable()
	}
	if err != nil {
		return err
	}
	s, err := scopeOf(c, q.req, plan)
	if err != nil {
		return err
	}
	q.routed, q.out.Former = true, s.former
	q.further = q.engine.recorder.of(c.RID) != nil && further(c, q.req, plan)
	if err := q.permit(c, plan, s); err != nil {
		return err
	}
	at, err := q.resume(c, plan, s)
	if err != nil {
		return err
	}
	budget := q.budget()
	if plan.Buffered() {
		budget.MaxItems = max(budget.MaxItems, q.engine.limits.PageItems)
	}
	if r := q.req.Resume; r != nil {
		if budget.From, err = plan.Start(r, c.RID); err != nil {
			return err
		}
	}
	q.out.Combined = plan.Combines()
	q.before = q.askedBefore(plan, at)
	if h := plan.Hybrid(); h != nil {
		err = q.hybrid(ctx, c, plan, h, s, at)
	} else {
		streams := q.streams(c, plan, s, &at)
		err = q.engine.page(ctx, q.req, plan, budget, streams, at, q.fanOut(plan, kept), &q.out)
		if err == nil && kept != nil {
			kept.quick.Store(!q.slow.Load())
		}
	}
	if kept != nil {
		q.out.Stats.Compiled = 0
	}
	q.meter.Add(throughput.Calls(max(0, q.out.Stats.Calls-q.calls)))
	if err == nil && q.req.Indexes {
		q.out.Indexes = plan.Indexes()
	}
	if err == nil && q.req.Explain {
		err = q.explain(ctx, c, plan, s)
	}
	return err
}

// askedBefore returns the highest number, in range order, of a partition that the
// pages before a position have asked. Zero denotes the partition that has the
// position.
func (q *queryPage) askedBefore(plan *query.Plan, at continuation) int {
	switch {
	case q.req.Continuation == "":
		return -1
	case plan.Ordered() || plan.Hybrid() != nil:
		return math.MaxInt // Each page asks all of them.
	case at.Started:
		return 0
	}
	return -1
}

// permit decides whether the request may ask all partitions of its scope.
func (q *queryPage) permit(c *catalog.Container, plan *query.Plan, s scope) error {
	if s.pinned {
		return nil
	}
	full := q.req.Full || q.engine.cross == Full
	if !q.req.Cross && !q.req.Full && !s.prefix {
		// That the container has one partition now is no reason to answer: the
		// same program would fail after a split.
		return status.Because(status.CodeBadRequest, 0, status.QueryUnbound{})
	}
	if !plan.Needs().Any() || full || s.prefix && !several(c, s.ranges) {
		return nil
	}
	if err := plan.Describable(c.PartitionKey); err != nil {
		return err
	}
	q.engine.metrics.unserved.Inc()
	return status.CrossPartition(string(query.AppendPlan(nil, plan.Describe(c.PartitionKey))))
}

// resume reads the continuation of a request. key is the hash of the whole key
// of the request, or empty. Without a continuation, the position is the
// beginning.
func (e *Engine) resume(req *QueryRequest, parent resource.RID, plan *query.Plan, key partitionkey.EPK) (continuation, error) {
	mark := withKey(fingerprint(parent, plan, req), key)
	if req.Continuation == "" {
		return continuation{Query: mark, Range: partitionkey.Full()}, nil
	}
	if len(req.Continuation) > e.limits.ContinuationBytes {
		return continuation{}, invalidContinuation()
	}
	return parseContinuation(req.Continuation, mark)
}

// resume is [Engine.resume] for the scope of a request. It also accepts the tokens of
// wider scopes, which a client has divided since, and those in a form of the service.
func (q *queryPage) resume(c *catalog.Container, plan *query.Plan, s scope) (continuation, error) {
	e, token := q.engine, q.req.Continuation
	if token == "" || len(token) > e.limits.ContinuationBytes || s.point == "" && !isServiceToken(token) {
		return e.resume(q.req, c.RID, plan, s.point)
	}
	wide := fingerprint(c.RID, plan, q.req)
	if isServiceToken(token) {
		return q.resumeService(c, plan, s, withKey(wide, s.point))
	}
	return resumeOwn(token, withKey(wide, s.point), wide)
}

// resumeOwn reads a token of a query: of the scope with the fingerprint mark, or of
// a wider one, whose position is also one in this scope.
func resumeOwn(token string, mark, wide uint64) (continuation, error) {
	at, err := parseContinuation(token, mark)
	if err == nil {
		return at, nil
	}
	at, err = parseContinuation(token, wide)
	at.Query = mark
	return at, err
}

// stream supplies a part of the rows in the order of the query; clip is the
// range of its documents.
type stream struct {
	run  query.Stream
	clip partitionkey.Range
}

// streams returns the streams of the partitions to ask, from the position on.
//
// Without ORDER BY, the first stream is the range with the position: one
// partition, or its children, in the order of document numbers. The ranges
// after it follow. With ORDER BY, the position is one in the order of all rows,
// and every partition is asked again. That applies to groups as first seen too, but
// their position is one in the order of partitions: the streams of its range are one
// place in that order.
func (q *queryPage) streams(c *catalog.Container, plan *query.Plan, s scope, at *continuation) []stream {
	if plan.FirstSeen() && q.req.Continuation != "" {
		return q.each(c, plan, divided(tasks(c, s.ranges), at.Range))
	}
	if plan.Ordered() || q.req.Continuation == "" {
		return q.each(c, plan, tasks(c, s.ranges))
	}
	var list []stream
	if here := tasks(c, within(s.ranges, at.Range)); len(here) > 0 {
		list = append(list, q.joined(c, plan, here))
	} else {
		// The client has divided its scope, and the position is in another part.
		at.Started, at.Position = false, query.Position{}
	}
	behind := partitionkey.Range{Min: at.Range.Max, Max: partitionkey.MaxEPK}
	return append(list, q.each(c, plan, tasks(c, within(s.ranges, behind)))...)
}

func (q *queryPage) each(c *catalog.Container, plan *query.Plan, list []task) []stream {
	streams := make([]stream, len(list))
	q.cold = len(list) > 1 && slices.ContainsFunc(list, func(t task) bool { return !q.engine.node.IsOpen(c, t.partition.ID) })
	visits := make([]visit, len(list))
	for i, t := range list {
		streams[i] = stream{run: q.ask(&visits[i], c, plan, t, i+1), clip: t.clip}
	}
	return streams
}

// joined returns one stream of the partitions that have replaced one.
func (q *queryPage) joined(c *catalog.Container, plan *query.Plan, list []task) stream {
	runs := make([]query.Stream, len(list))
	for i, t := range list {
		runs[i] = q.ask(new(visit), c, plan, t, 0)
	}
	clip := partitionkey.Range{Min: list[0].clip.Min, Max: list[len(list)-1].clip.Max}
	return stream{run: query.Together(runs...), clip: clip}
}

// visit is the state of the stream of one partition.
type visit struct {
	worker worker
	memory streamMemory
	asked  bool // the partition was asked before
}

// ask returns the stream of one partition, number at in range order. Its charge
// and its id are part of the answer only if its page is: a partition that was
// asked ahead of need and is not needed does not count.
func (q *queryPage) ask(v *visit, c *catalog.Container, plan *query.Plan, t task, at int) query.Stream {
	v.memory.account = &q.job.memory
	return func(ctx context.Context, b query.Budget) (query.Page, error) {
		v.memory.renew()
		replica, release, err := q.engine.node.Replica(ctx, c, t.partition.ID)
		if err != nil {
			return query.Page{}, err
		}
		defer release()
		worker := &v.worker
		worker.begin(ctx, q.job, &v.memory)
		defer worker.end()
		worker.bound(&b)
		if !v.asked {
			v.asked = true
			q.job.asked.Add(1)
		}
		meter := q.req.meter(q.how.level.DoublesReads())
		ask := partition.Query{
			Plan:       plan,
			Generation: t.partition.Generation,
			Range:      t.asked,
			Budget:     b,
			Session:    q.how.requiredLSN(t.partition),
			Meter:      &meter,
		}
		var lsn resource.LSN
		page, err := retryBehind(ctx, &q.how, ask.Session, func() (page query.Page, err error) {
			page, lsn, err = replica.Query(worker, ask)
			return page, err
		})
		if err != nil && worker.fault != nil {
			err = worker.fault
		}
		worker.paged(page.Stats.Retrieved)
		q.engine.metrics.visits.Inc()
		if page.Stats.Took > quickTime {
			q.slow.Store(true)
		}
		page.Used = func() { q.visited(t.partition.ID, at, lsn, page.Stats.Calls, &meter) }
		if err != nil {
			page.Used()
		}
		return page, err
	}
}

// visited records a visit to a partition: its charge, its calls and the LSN
// reached.
func (q *queryPage) visited(id resource.PartitionID, at int, lsn resource.LSN, calls int64, did *throughput.Meter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.out.visited(id) && at > q.before {
		q.fresh++
	}
	q.meter.Merge(did)
	q.calls += calls
	q.seen.reached(id, lsn)
	q.job.charged(func() float64 { return throughput.AtLevel(q.meter.Charge(), q.how.level) })
	if at >= q.last {
		q.last, q.out.LSN = at, shownLSN(lsn)
	}
}

// serve sets the rows of a page by merging streams, from a position on.
func (e *Engine) serve(ctx context.Context, req *QueryRequest, plan *query.Plan, streams []stream, at continuation, out *Feed) error {
	return e.page(ctx, req, plan, e.budget(req), streams, at, parallel, out)
}

// page is serve with a budget, and with together as the function that asks
// several streams; see [query.Merge].
func (e *Engine) page(ctx context.Context, req *QueryRequest, plan *query.Plan, budget query.Budget, streams []stream, at continuation, together func(n int, do func(i int)), out *Feed) error {
	runs := make([]query.Stream, len(streams))
	for i, s := range streams {
		runs[i] = s.run
	}
	from := query.Progress{Position: at.Position, Started: at.Started, Skip: at.Skipped, Taken: at.Taken, Seen: at.Seen}
	if plan.FirstSeen() && at.Started {
		if at.Position.Key != nil {
			return invalidContinuation() // An earlier version returned groups in the order of keys.
		}
		from.Stream, from.Streams = whereabouts(streams, at.Range)
	}
	merge := plan.Merge(runs, from)
	merge.Parallel, merge.Trailing = together, e.trailing
	page, reached, err := merge.Page(ctx, budget)
	if err != nil {
		return err
	}
	out.Rows = make([][]byte, len(page.Rows))
	for i, row := range page.Rows {
		out.Rows[i] = row.JSON
	}
	out.Stats = page.Stats
	if reached.Done {
		return nil
	}
	next := continuation{
		Query:    at.Query,
		Range:    partitionkey.Full(),
		Started:  reached.Started,
		Position: reached.Position,
		Skipped:  reached.Skip,
		Taken:    reached.Taken,
		Seen:     reached.Seen,
	}
	switch {
	case plan.FirstSeen() && reached.Streams == 0:
		next.Range = at.Range
	case plan.FirstSeen():
		next.Range.Min = streams[reached.Stream].clip.Min
		next.Range.Max = streams[reached.Stream+reached.Streams-1].clip.Max
	case !plan.Ordered():
		next.Range = streams[reached.Stream].clip
	}
	out.Continuation = next.String()
	return nil
}

// fanOut returns the function that asks several partitions for one page.
//
// A plan whose rows are merged needs all of them for its first row, so it asks
// them in parallel, unless the same plan was quick the last time. Any other plan
// asks them in range order, and in parallel only if the first ones turn out to be
// slow: rows found by an index mostly are not.
//
// Opening a partition uses the disk rather than the processors.
func (q *queryPage) fanOut(plan *query.Plan, kept *keptPlan) func(n int, do func(i int)) {
	if q.cold {
		return func(n int, do func(i int)) { workers(n, openersMax, do) }
	}
	if (plan.Ordered() || plan.Needs().Any()) && (kept == nil || !kept.quick.Load()) {
		return parallel
	}
	return func(n int, do func(i int)) {
		if q.slow.Load() {
			parallel(n, do)
			return
		}
		oneByOne(n, do)
	}
}

// budget is [Engine.budget] with the bounds of the main worker.
func (q *queryPage) budget() query.Budget {
	b := q.engine.budget(q.req)
	q.job.main.bound(&b)
	return b
}

// budget returns the bounds of a page. Its deadline is by the machine's clock,
// not Config.Now: it bounds work and sets no time of a document.
func (e *Engine) budget(req *QueryRequest) query.Budget {
	items := req.MaxItems
	if items <= 0 {
		items = e.limits.PageItems
	}
	return query.Budget{
		MaxItems: items,
		MaxBytes: e.limits.ResponseBytes,
		Memory:   e.limits.QueryMemoryBytes,
		Deadline: time.Now().Add(e.limits.PageTime),
	}
}

// compile compiles a query.
func (e *Engine) compile(text string, params []query.Param, ix *index.Index, computed []resource.ComputedProperty) (*query.Plan, error) {
	options := e.options()
	options.Computed = computed
	return query.Compile(text, params, ix, options)
}

// options returns the options common to all plans.
func (e *Engine) options() query.Options {
	options := query.Options{Limits: e.limits}
	if e.customClock {
		options.Now = e.now()
	}
	return options
}

// QueryPlan returns the plan by which a client runs a query. The error is 400
// if that needs a feature that is not in req.Features.
func (e *Engine) QueryPlan(_ context.Context, caller auth.Caller, req PlanRequest) (Plan, error) {
	var meter throughput.Meter
	var out Plan
	err := e.plan(caller, &req, &out)
	meter.Add(throughput.MetadataRead)
	out.Charge = meter.Charge()
	return out, fail(err)
}

func (e *Engine) plan(caller auth.Caller, req *PlanRequest, out *Plan) error {
	if err := e.allowDocuments(caller, auth.Query, req.Link, &req.Options); err != nil {
		return err
	}
	if err := e.confine(caller, &req.Key, true); err != nil {
		return err
	}
	if _, err := e.reading(req.Options); err != nil {
		return err
	}
	c, err := e.owner(req.Link, req.IntendedRID, &out.Result)
	if err != nil {
		return err
	}
	plan, kept, err := e.planOf(c, req.Text, req.Params)
	if err != nil {
		return err
	}
	if err := plan.Needs().Refuse(req.Features); err != nil {
		return err
	}
	if kept != nil && req.Key == nil {
		if body := kept.body.Load(); body != nil {
			out.Body = *body
			return nil
		}
	}
	if err := plan.Describable(c.PartitionKey); err != nil {
		return err
	}
	body := plan.Describe(c.PartitionKey)
	if req.Key != nil {
		if given(c.PartitionKey, *req.Key).Len() == c.PartitionKey.Levels() {
			body = plan.DescribeKey(c.PartitionKey)
		}
		_, base, err := named(c, &QueryRequest{Key: req.Key})
		if err != nil {
			return err
		}
		body = narrowed(body, base, c.PartitionKey)
	}
	out.Body = query.AppendPlan(nil, body)
	if kept != nil && req.Key == nil {
		e.plans.describe(kept, out.Body)
	}
	return nil
}
