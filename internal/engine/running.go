package engine

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// The operations of a [RunningQuery].
const (
	runningQuery = "query"
	runningList  = "document list"
	runningFeed  = "change feed page"
)

// RunningQuery describes a request for a page of a query, a document list or the
// change feed that has been running for long. It does not contain the text, the
// parameters, a key or a document.
type RunningQuery struct {
	ID        string // of the request, valid for [Engine.CancelQuery] while it runs
	Database  string // "" if the container was deleted meanwhile
	Container string // likewise
	Operation string // query, document list or change feed page
	Caller    auth.Kind

	Waiting    bool          // it has not got its first turn
	Time       time.Duration // since the request began, including waiting
	Processor  time.Duration // approximate processor time so far, of all its goroutines
	Partitions int64         // physical partitions asked so far
	Documents  int64         // read so far, or returned for the change feed; up to 32 of each partition in progress are missing
	Charge     float64       // request units of the partitions that have answered
}

// running is the set of requests that have needed a turn and are still running. The
// zero value is empty.
type running struct {
	mu sync.Mutex

	last   uint64 // id assigned
	listed map[uint64]*job
}

// listing is the entry of a job in the list. A job gets one when it first needs
// a turn; most never do.
type listing struct {
	id        uint64
	container resource.RID
	cancelled atomic.Bool
	stop      chan struct{} // closed with cancelled
	charge    atomic.Uint64 // bits of a float64
}

// list adds a job to the list, unless it is in it or has no operation. It is called
// with turns.mu locked.
func (j *job) list() {
	if j.operation == "" || j.listing.Load() != nil {
		return
	}
	r := &j.engine.running
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	l := &listing{id: r.last, container: j.container, stop: make(chan struct{})}
	j.listing.Store(l)
	if r.listed == nil {
		r.listed = map[uint64]*job{}
	}
	r.listed[l.id] = j
}

// unlist removes a job from the list.
func (j *job) unlist() {
	l := j.listing.Load()
	if l == nil {
		return
	}
	r := &j.engine.running
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.listed, l.id)
}

// stopped returns a channel that is closed when the job is cancelled, or nil if
// the job is not listed.
func (j *job) stopped() <-chan struct{} {
	if l := j.listing.Load(); l != nil {
		return l.stop
	}
	return nil
}

// cancelled returns the error of a cancelled job, else nil.
func (j *job) cancelled() error {
	if l := j.listing.Load(); l != nil && l.cancelled.Load() {
		return l.err()
	}
	return nil
}

// err returns the error for the client of a cancelled request. It is not 408 or 503,
// because clients repeat a read that gets one.
func (l *listing) err() error {
	return status.BadRequest("The request was cancelled by an operator of the server, who saw it as query %d.", l.id)
}

// charged records the charge of the request so far, if the job is listed.
func (j *job) charged(charge func() float64) {
	if l := j.listing.Load(); l != nil {
		l.charge.Store(math.Float64bits(charge()))
	}
}

// long returns the jobs that have run for at least Limits.LongQuery, in the order in
// which they were listed.
func (e *Engine) long() []*job {
	now := e.turns.clock()
	r := &e.running
	r.mu.Lock()
	defer r.mu.Unlock()
	var long []*job
	for _, j := range r.listed {
		if now-j.begun >= e.limits.LongQuery {
			long = append(long, j)
		}
	}
	slices.SortFunc(long, func(a, b *job) int { return cmp.Compare(a.listing.Load().id, b.listing.Load().id) })
	return long
}

// RunningQueries lists the requests for a page of a query, a document list or the change
// feed that have run for at least Limits.LongQuery, in the order in which they first
// needed a turn. It leaves out queries of stored procedures. The caller must be an
// administrator.
func (e *Engine) RunningQueries(caller auth.Caller) ([]RunningQuery, error) {
	if err := caller.Allow(auth.Administer, status.Path{}); err != nil {
		return nil, fail(err)
	}
	view, now := e.catalog.View(), e.turns.clock()
	list := []RunningQuery{}
	for _, j := range e.long() {
		l := j.listing.Load()
		q := RunningQuery{
			ID:         strconv.FormatUint(l.id, 10),
			Operation:  j.operation,
			Caller:     j.caller,
			Waiting:    !j.admitted.Load(),
			Time:       now - j.begun,
			Processor:  time.Duration(j.spent.Load()),
			Partitions: j.asked.Load(),
			Documents:  j.read.Load(),
			Charge:     math.Float64frombits(l.charge.Load()),
		}
		if c, exists := view.ContainerByRID(l.container); exists {
			q.Database, q.Container = c.Database.ID, c.ID
		}
		list = append(list, q)
	}
	return list, nil
}

// CancelQuery ends a request that [Engine.RunningQueries] lists. The client of the
// request gets 400. CancelQuery returns at once; the request ends at its next check,
// after at most a few hundred microseconds of work. The error is 404 if no running
// request has the id. The caller must be an administrator.
func (e *Engine) CancelQuery(caller auth.Caller, id string) error {
	if err := caller.Allow(auth.Administer, status.Path{}); err != nil {
		return fail(err)
	}
	number, err := strconv.ParseUint(id, 10, 64)
	e.running.mu.Lock()
	defer e.running.mu.Unlock()
	j, runs := e.running.listed[number]
	if err != nil || !runs {
		return status.New(status.CodeNotFound, 0, "No query %.40q is running: it is done, or there was none.", id)
	}
	if l := j.listing.Load(); l.cancelled.CompareAndSwap(false, true) {
		close(l.stop)
		e.logger.Info("query cancelled", slog.String("query", id), slog.String("operation", j.operation))
	}
	return nil
}
