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

// Operations that a [RunningQuery] may be.
const (
	runningQuery = "query"
	runningList  = "document list"
	runningFeed  = "change feed page"
)

// RunningQuery is a request for a page of a query, a document list or the change feed
// that has run for long and is not done. It says nothing of what the request asks for.
type RunningQuery struct {
	ID        string // of the request, good for [Engine.CancelQuery] while it runs
	Database  string // "" when it was deleted meanwhile
	Container string // likewise
	Operation string // query, document list or change feed page
	Caller    auth.Kind

	Waiting    bool          // it has not had its first turn
	Time       time.Duration // since the request began, waiting included
	Processor  time.Duration // processor time so far, of all its goroutines, about
	Partitions int64         // physical partitions asked so far
	Documents  int64         // read so far, of the change feed returned; up to 32 of each partition under way are missing
	Charge     float64       // request units of the partitions that are done
}

// running is the requests that have needed a turn and are not done. The zero value has
// none.
type running struct {
	mu sync.Mutex

	last   uint64 // id given out
	listed map[uint64]*job
}

// listing is what a job has from the moment it needs a turn: most never do.
type listing struct {
	id        uint64
	container resource.RID
	cancelled atomic.Bool
	stop      chan struct{} // closed with cancelled
	charge    atomic.Uint64 // bits of a float64
}

// list lists a job unless it is, or may not be cancelled. It is called with turns.mu
// locked.
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

// unlist undoes list.
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

// stopped is closed when the job is cancelled; nil for one that cannot be.
func (j *job) stopped() <-chan struct{} {
	if l := j.listing.Load(); l != nil {
		return l.stop
	}
	return nil
}

// cancelled returns the error of a job that was cancelled, or nil.
func (j *job) cancelled() error {
	if l := j.listing.Load(); l != nil && l.cancelled.Load() {
		return l.err()
	}
	return nil
}

// err is what the client of a cancelled request is told. It is no 408 or 503, because
// clients send a read again that gets one.
func (l *listing) err() error {
	return status.BadRequest("The request was cancelled by an operator of the server, who saw it as query %d.", l.id)
}

// charged notes what the request has cost so far, if anybody may want to know.
func (j *job) charged(charge func() float64) {
	if l := j.listing.Load(); l != nil {
		l.charge.Store(math.Float64bits(charge()))
	}
}

// long returns the jobs that have run for longer than the limit, those that began first
// in front.
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
// feed that have run for longer than Limits.LongQuery, those first that needed a turn
// first. Queries of stored procedures are not among them.
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

// CancelQuery ends a request that [Engine.RunningQueries] lists: its client gets 400. It
// returns at once; the request ends when it looks next, within a few hundred
// microseconds of its work. An id that no request has, as of one that is done, is 404.
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
