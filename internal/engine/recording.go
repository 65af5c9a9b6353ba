package engine

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/query"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// The bounds of recordings: together they keep less than 4 MB.
const (
	recordingsMax  = 8       // at the same time
	shapesMax      = 100     // of queries, in one recording
	shapeBytesMax  = 4 << 10 // of one of them
	recordingHours = 24      // older ones make room for new ones
)

// RecordedWorkload is what clients asked of a container during a recording.
type RecordedWorkload struct {
	Time    time.Duration
	Writes  int64 // documents written or deleted
	Reads   int64 // point reads
	Queries []RecordedQuery
	LeftOut int64 // queries beyond the bounds of a recording
}

// RecordedQuery is a query without the values that it was about.
type RecordedQuery struct {
	query.Shape
	Times int64 `json:"-"` // first pages
}

// recorder has the running recordings. The zero value has none.
type recorder struct {
	mu      sync.Mutex // guards changes of running
	running atomic.Pointer[map[resource.RID]*recording]
}

// recording counts the operations on one container.
type recording struct {
	begun         time.Time
	writes, reads atomic.Int64

	mu      sync.Mutex // guards the fields below
	shapes  map[string]*RecordedQuery
	leftOut int64
}

// of returns the recording of a container; nil if there is none.
func (r *recorder) of(rid resource.RID) *recording {
	if running := r.running.Load(); running != nil {
		return (*running)[rid]
	}
	return nil
}

// wrote counts writes.
func (r *recorder) wrote(rid resource.RID, n int64) {
	if one := r.of(rid); one != nil {
		one.writes.Add(n)
	}
}

// read counts point reads.
func (r *recorder) read(rid resource.RID, n int64) {
	if one := r.of(rid); one != nil {
		one.reads.Add(n)
	}
}

// asked counts the first page of a query.
func (r *recorder) asked(rid resource.RID, req *QueryRequest) {
	one := r.of(rid)
	if one == nil {
		return
	}
	shape, err := query.ShapeOf(req.Text, req.Params)
	if err != nil {
		return // It ran, so it has a shape.
	}
	name, err := json.Marshal(shape)
	one.mu.Lock()
	defer one.mu.Unlock()
	known := one.shapes[string(name)]
	switch {
	case known != nil:
		known.Times++
	case err != nil || len(name) > shapeBytesMax || len(one.shapes) == shapesMax:
		one.leftOut++
	default:
		one.shapes[string(name)] = &RecordedQuery{Shape: shape, Times: 1}
	}
}

// further reports whether a request is a client's further part of a query of all
// partitions: a client that merges itself asks each of them, and the first counts.
func further(c *catalog.Container, req *QueryRequest, plan *query.Plan) bool {
	if req.Partition == nil {
		return false
	}
	p, ok := c.Partition(*req.Partition)
	if !ok || p.Range.Min == partitionkey.Full().Min {
		return false
	}
	ranges := plan.Ranges(c.PartitionKey)
	return len(ranges) == 1 && ranges[0].Equal(partitionkey.Full())
}

// StartRecording begins to record the workload of a container: how often which queries
// are asked, without their values, and the numbers of writes and point reads. A recording
// costs some microseconds for each query. It is in the memory of this process alone. The
// error is Conflict if one is running. The caller must be an administrator.
func (e *Engine) StartRecording(caller auth.Caller, link Link) error {
	c, err := e.recorded(caller, link)
	if err != nil {
		return fail(err)
	}
	r, now := &e.recorder, e.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	running := map[resource.RID]*recording{}
	if old := r.running.Load(); old != nil {
		view := e.catalog.View()
		for rid, one := range *old {
			if _, exists := view.ContainerByRID(rid); exists && now.Sub(one.begun) < recordingHours*time.Hour {
				running[rid] = one
			}
		}
	}
	if running[c.RID] != nil {
		return fail(status.New(status.CodeConflict, 0, "The workload of the container %q is being recorded: end that recording first.", c.ID))
	}
	if len(running) == recordingsMax {
		return fail(status.New(status.CodeTooManyRequests, 0, "%d recordings are running, and there can be no more: end one of them.", recordingsMax))
	}
	running[c.RID] = &recording{begun: now, shapes: map[string]*RecordedQuery{}}
	r.running.Store(&running)
	return nil
}

// StopRecording ends a recording and returns what it has, the most frequent query first.
// The error is NotFound if none is running. The caller must be an administrator.
func (e *Engine) StopRecording(caller auth.Caller, link Link) (RecordedWorkload, error) {
	c, err := e.recorded(caller, link)
	if err != nil {
		return RecordedWorkload{}, fail(err)
	}
	r := &e.recorder
	r.mu.Lock()
	one := r.of(c.RID)
	if one != nil {
		running := maps.Clone(*r.running.Load())
		delete(running, c.RID)
		r.running.Store(&running)
	}
	r.mu.Unlock()
	if one == nil {
		return RecordedWorkload{}, fail(status.New(status.CodeNotFound, 0, "The workload of the container %q is not being recorded.", c.ID))
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	w := RecordedWorkload{Time: e.now().Sub(one.begun), Writes: one.writes.Load(), Reads: one.reads.Load(), LeftOut: one.leftOut}
	for _, q := range one.shapes {
		w.Queries = append(w.Queries, *q)
	}
	slices.SortFunc(w.Queries, func(a, b RecordedQuery) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Text, b.Text))
	})
	return w, nil
}

// recorded returns the container that a request about recordings names.
func (e *Engine) recorded(caller auth.Caller, link Link) (*catalog.Container, error) {
	if err := caller.Allow(auth.Administer, status.Path{}); err != nil {
		return nil, err
	}
	return e.owner(link, "", &Result{})
}
