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
// A query that looks beyond one physical partition needs req.Cross, unless a
// key prefix in the request says that it may. One whose rows a client has to
// merge (ORDER BY, TOP, OFFSET LIMIT) and that nothing fixes to one logical or
// physical partition is 400/1004 with the plan, unless the engine or the
// request asks for full execution.
func (e *Engine) Query(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	return e.answer(ctx, caller, auth.Query, &req)
}

// List returns a page of a container's documents. Text, Params, Cross and Full
// of the request do not count.
func (e *Engine) List(ctx context.Context, caller auth.Caller, req QueryRequest) (Feed, error) {
	req.Text, req.Params, req.Cross = listText, nil, true
	return e.answer(ctx, caller, auth.List, &req)
}

func (e *Engine) answer(ctx context.Context, caller auth.Caller, action auth.Action, req *QueryRequest) (Feed, error) {
	q := pageOf{engine: e, req: req, job: e.newJob()}
	defer q.job.close()
	q.job.again, q.job.caller, q.job.operation = true, caller.Kind(), runningQuery
	if action == auth.List {
		q.job.operation = runningList
	}
	err := q.run(ctx, caller, action)
	q.out.Session = q.seen.token()
	q.out.Charge = throughput.AtLevel(q.meter.Charge(), q.how.level)
	slices.Sort(q.out.Partitions)
	e.metrics.queries.Inc()
	if len(q.out.Partitions) > 1 {
		e.metrics.fanned.Inc()
	}
	if err == nil {
		q.count()
	}
	return q.out, fail(err)
}

// pageOf is a page of rows on its way.
type pageOf struct {
	engine *Engine
	req    *QueryRequest
	job    *job
	how    reading
	routed bool // this attempt knows which partitions to ask
	out    Feed

	// slow says that a partition took longer than quickTime for its page.
	slow atomic.Bool

	// cold says that a partition to ask is closed.
	cold bool

	mu    sync.Mutex // several partitions are asked at the same time; guards what follows and out's visits
	meter throughput.Meter
	seen  seen
	calls int64 // of user-defined functions that partitions made, which are charged with the rest of their work
	last  int   // the place in the order of partitions of the one that out's LSN is of
	fresh int64 // of out's partitions, those that no page before this one has asked

	// before is the last place in the order of partitions whose partitions pages
	// before this one have asked; below zero when there was none.
	before int
}

// count counts a page that was answered, and the partitions that it has asked.
func (q *pageOf) count() {
	e := q.engine
	e.metrics.asked.Observe(float64(len(q.out.Partitions)))
	page := QueryVisits{Partitions: q.fresh}
	if q.req.Continuation == "" {
		page.Queries = 1
	}
	e.metrics.fanouts.add(e.catalog.View(), q.out.ParentRID, page)
}

func (q *pageOf) run(ctx context.Context, caller auth.Caller, action auth.Action) error {
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
			q.meter = spent // What it did is nobody's.
			q.job.asked.Store(0)
			q.job.read.Store(0)
			if err = q.job.wait(ctx); err == nil {
				err = q.attempt(ctx, c)
			}
		}
		// A partition that the request names and the view does not have is gone: a
		// newer view helps only if a partition moves later. Rows of a half page are
		// dropped: the next attempt has them again.
		return q.routed, err
	})
}

// attempt is once, as the work of the request. The error is [query.ErrAgain] when a turn is
// needed first.
func (q *pageOf) attempt(ctx context.Context, c *catalog.Container) error {
	main := q.job.workMain(ctx)
	defer main.finish()
	err := q.once(main, c)
	if err != nil && main.fault != nil {
		return main.fault
	}
	return err
}

// once makes the page by one version of the container. What an attempt before it
// has left of a page is gone; what that did is charged, and its partitions were
// asked.
func (q *pageOf) once(ctx context.Context, c *catalog.Container) error {
	q.out.Rows, q.out.Continuation, q.out.Stats, q.last = nil, "", query.Stats{}, 0
	q.seen, q.calls = nil, 0
	plan, kept, err := q.engine.planOf(c, q.req.Text, q.req.Params)
	if err != nil {
		return err
	}
	s, err := scopeOf(c, q.req, plan)
	if err != nil {
		return err
	}
	q.routed = true
	if err := q.permit(c, plan, s); err != nil {
		return err
	}
	at, err := q.engine.resume(q.req, c.RID, plan, s.key())
	if err != nil {
		return err
	}
	q.before = q.askedBefore(plan, at)
	if h := plan.Hybrid(); h != nil {
		err = q.hybrid(ctx, c, plan, h, s, at)
	} else {
		streams := q.streams(c, plan, s, &at)
		err = q.engine.page(ctx, q.req, plan, q.budget(), streams, at, q.together(plan, kept), &q.out)
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

// askedBefore returns the last place in the order of partitions whose partitions the
// pages before the one at a position have asked: zero is that of the partition that
// the position stands in.
func (q *pageOf) askedBefore(plan *query.Plan, at continuation) int {
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

// permit decides whether the request may look as far as its scope is.
func (q *pageOf) permit(c *catalog.Container, plan *query.Plan, s scope) error {
	if s.pinned {
		return nil
	}
	full := q.req.Full || q.engine.cross == Full
	if !q.req.Cross && !q.req.Full && !s.prefix {
		// How many partitions the container has today is no reason to answer: the
		// same program would fail tomorrow.
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

// resume reads the continuation of a request, whose whole key hashes to key if
// it has one. Without a continuation it is the beginning.
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

// stream is a part of the rows in the order of the whole, and where its
// documents lie.
type stream struct {
	run  query.Stream
	clip partitionkey.Range
}

// streams returns the partitions to ask, from the position on.
//
// Without ORDER BY the first stream is the range that the position stands in:
// one partition, or those that came out of it since, in the order of numbers.
// What lies behind follows. With ORDER BY the position is one in the order of
// all, and every partition is asked again.
func (q *pageOf) streams(c *catalog.Container, plan *query.Plan, s scope, at *continuation) []stream {
	if plan.Ordered() || q.req.Continuation == "" {
		return q.each(c, plan, tasks(c, s.ranges))
	}
	var list []stream
	if here := tasks(c, within(s.ranges, at.Range)); len(here) > 0 {
		list = append(list, q.joined(c, plan, here))
	} else {
		// The rest of a scope that was cut into smaller ones, beside the position.
		at.Started, at.Position = false, query.Position{}
	}
	behind := partitionkey.Range{Min: at.Range.Max, Max: partitionkey.MaxEPK}
	return append(list, q.each(c, plan, tasks(c, within(s.ranges, behind)))...)
}

func (q *pageOf) each(c *catalog.Container, plan *query.Plan, list []task) []stream {
	streams := make([]stream, len(list))
	q.cold = len(list) > 1 && slices.ContainsFunc(list, func(t task) bool { return !q.engine.node.IsOpen(c, t.partition.ID) })
	visits := make([]visit, len(list))
	for i, t := range list {
		streams[i] = stream{run: q.ask(&visits[i], c, plan, t, i+1), clip: t.clip}
	}
	return streams
}

// joined returns the stream of several partitions that took the place of one.
func (q *pageOf) joined(c *catalog.Container, plan *query.Plan, list []task) stream {
	runs := make([]query.Stream, len(list))
	for i, t := range list {
		runs[i] = q.ask(new(visit), c, plan, t, 0)
	}
	clip := partitionkey.Range{Min: list[0].clip.Min, Max: list[len(list)-1].clip.Max}
	return stream{run: query.Together(runs...), clip: clip}
}

// visit is the stream of one partition at work.
type visit struct {
	worker worker
	memory streamMemory
	asked  bool // before
}

// ask returns the stream of one partition, the at-th of those to ask. What it
// has done is charged and told when its page becomes part of the answer: a
// partition that was asked ahead and not needed is no part of it.
func (q *pageOf) ask(v *visit, c *catalog.Container, plan *query.Plan, t task, at int) query.Stream {
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
			Session:    q.how.behind(t.partition),
			Meter:      &meter,
		}
		var lsn resource.LSN
		page, err := caughtUp(ctx, &q.how, ask.Session, func() (page query.Page, err error) {
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

// visited notes that a partition was asked, what it did and how far it has come.
func (q *pageOf) visited(id resource.PartitionID, at int, lsn resource.LSN, calls int64, did *throughput.Meter) {
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
		q.last, q.out.LSN = at, lsn
	}
}

// serve fills a page with the merged rows of streams, from a position on.
func (e *Engine) serve(ctx context.Context, req *QueryRequest, plan *query.Plan, streams []stream, at continuation, out *Feed) error {
	return e.page(ctx, req, plan, e.budget(req), streams, at, parallel, out)
}

// page is serve that asks several streams in a way of its own; see
// [query.Merge].
func (e *Engine) page(ctx context.Context, req *QueryRequest, plan *query.Plan, budget query.Budget, streams []stream, at continuation, together func(n int, do func(i int)), out *Feed) error {
	runs := make([]query.Stream, len(streams))
	for i, s := range streams {
		runs[i] = s.run
	}
	from := query.Progress{Position: at.Position, Started: at.Started, Skip: at.Skipped, Taken: at.Taken}
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
	}
	if !plan.Ordered() {
		next.Range = streams[reached.Stream].clip
	}
	out.Continuation = next.String()
	return nil
}

// together returns how partitions are asked that are asked together.
//
// A plan whose rows are merged asks all of them before it has a row, so it begins
// with all at once unless the same plan was quick the last time. Any other takes
// them in their order, and those ahead are only worth another goroutine when the
// first turn out to be slow: rows found by an index mostly are not.
//
// Partitions that have to be opened keep the disk busy and not the processors.
func (q *pageOf) together(plan *query.Plan, kept *keptPlan) func(n int, do func(i int)) {
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

// budget is [Engine.budget] as far as the work of the request may go.
func (q *pageOf) budget() query.Budget {
	b := q.engine.budget(q.req)
	q.job.main.bound(&b)
	return b
}

// budget is how large a page may get. The clock is that of the machine: it
// bounds work, and stamps nothing.
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

// compile makes a plan.
func (e *Engine) compile(text string, params []query.Param, ix *index.Index, computed []resource.ComputedProperty) (*query.Plan, error) {
	options := e.options()
	options.Computed = computed
	return query.Compile(text, params, ix, options)
}

// options are what all plans are compiled with.
func (e *Engine) options() query.Options {
	options := query.Options{Limits: e.limits}
	if e.otherClock {
		options.Now = e.now()
	}
	return options
}

// QueryPlan says how a client has to run a query: 400 when that needs a feature
// that is not among req.Features.
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
	plan, _, err := e.planOf(c, req.Text, req.Params)
	if err != nil {
		return err
	}
	if err := plan.Needs().Refuse(req.Features); err != nil {
		return err
	}
	if err := plan.Describable(c.PartitionKey); err != nil {
		return err
	}
	body := plan.Describe(c.PartitionKey)
	if req.Key != nil {
		_, base, err := named(c, &QueryRequest{Key: req.Key})
		if err != nil {
			return err
		}
		body = narrowed(body, base, c.PartitionKey)
	}
	out.Body = query.AppendPlan(nil, body)
	return nil
}
