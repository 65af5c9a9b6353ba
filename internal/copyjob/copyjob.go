// Package copyjob copies containers into other containers while both serve
// requests: into another database, under another partition key, from one path to
// a hierarchical key.
//
// The admin door uses it. Begin with [Jobs]: it stores the jobs of a server,
// starts them in order, and pauses, resumes, cancels or completes them. A job is
// a resource.CopyJob, which contains the request and the progress.
//
// # Invariants
//
// At most one goroutine works on a job, and only while the job runs. A change of
// a job stops that goroutine first, so only one goroutine at a time stores a
// job. A position advances only when every document before it is in the target,
// and is stored together with the counts. So after a crash a job continues at or
// before the position that it had reached, and copies what is between again,
// which changes nothing. The job reads and writes only through the engine:
// budgets apply to it as to any client, and it waits when they are used up.
//
// The package knows no partitions: it reads a range of keys wherever it is.
//
// Page: docs/copy.md
package copyjob

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// Config configures Jobs. Catalog and Engine are required.
type Config struct {
	Catalog *catalog.Catalog
	Engine  *engine.Engine
	Logger  *slog.Logger // nil discards the log

	// Parallel is the number of jobs that copy concurrently; the others wait in
	// the order of their creation. Zero means one, as in the service. A job that
	// only follows changes does not count.
	Parallel int

	// Checkpoint is the interval at which the progress of a running job is
	// stored. Zero means two seconds.
	Checkpoint time.Duration

	// Poll is how long a job that has caught up waits before it checks for
	// changes again. Zero means half a second.
	Poll time.Duration

	// PageItems is the number of documents that are read, and then written,
	// together. Zero means 200.
	PageItems int

	// step is called with the name of every step of a job. Tests simulate
	// crashes in it.
	step func(name string) error
}

// Jobs holds the copy jobs of a server. It is safe for concurrent use.
type Jobs struct {
	cfg Config
	now func() time.Time

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	jobs   map[string]*job
	last   uint64 // number of the newest job
	closed bool
}

// job is a copy job in memory.
type job struct {
	turn chan struct{} // holds a token while no change of the job is in progress

	// The rest is guarded by Jobs.mu.

	state resource.CopyJob
	held  bool // it is about to be changed and must not be started
	run   *run // nil while no goroutine works on it
	slot  bool // it counts as one of Config.Parallel
}

// run is the goroutine that works on a job.
type run struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when its result has been stored
}

// Open loads the stored jobs. None of them runs before [Jobs.Start].
func Open(cfg Config) (*Jobs, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 1
	}
	if cfg.Checkpoint <= 0 {
		cfg.Checkpoint = 2 * time.Second
	}
	if cfg.Poll <= 0 {
		cfg.Poll = 500 * time.Millisecond
	}
	if cfg.PageItems <= 0 {
		cfg.PageItems = 200
	}
	stored, err := cfg.Catalog.CopyJobs()
	if err != nil {
		return nil, err
	}
	j := &Jobs{cfg: cfg, now: time.Now, jobs: map[string]*job{}}
	j.ctx, j.stop = context.WithCancel(context.Background())
	for _, state := range stored {
		if state.Status == resource.CopyRunning {
			state.Status = resource.CopyPending
		}
		j.jobs[state.Name] = newJob(state)
		j.last = max(j.last, state.Number)
	}
	return j, nil
}

func newJob(state resource.CopyJob) *job {
	one := &job{state: state, turn: make(chan struct{}, 1)}
	one.turn <- struct{}{}
	return one
}

// Start continues the jobs that were running or waiting when the server stopped.
func (j *Jobs) Start() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.scheduleLocked()
}

// Close stops all jobs, stores their progress and waits for that. They continue
// after the next Open and Start.
func (j *Jobs) Close() {
	j.mu.Lock()
	j.closed = true
	j.stop()
	j.mu.Unlock()
	j.running.Wait()
}

// Create stores a job and starts it when its turn comes. The containers must
// exist, otherwise the error is 404/1003. If a job of that name exists, Create
// returns it if it was created with the same request, and otherwise status 409.
// A target that another job still fills, and a mirror into a container with
// documents, are status 409 too.
func (j *Jobs) Create(ctx context.Context, caller auth.Caller, asked resource.CopyJob) (resource.CopyJob, error) {
	if err := caller.Allow(auth.Administer, status.Path{}); err != nil {
		return resource.CopyJob{}, err
	}
	if err := asked.Validate(); err != nil {
		return resource.CopyJob{}, err
	}
	if known, found := j.find(asked.Name); found {
		return j.again(known, &asked)
	}
	if err := j.resolve(ctx, &asked); err != nil {
		return resource.CopyJob{}, err
	}
	one, known, err := j.insert(asked)
	if known != nil {
		return j.again(known, &asked)
	}
	if err != nil {
		return resource.CopyJob{}, err
	}
	defer func() { one.turn <- struct{}{} }()
	err = j.makeRoom()
	if err == nil {
		err = j.save(&one.state) // nothing else changes it while it is held
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		delete(j.jobs, asked.Name)
		return resource.CopyJob{}, err
	}
	j.cfg.Logger.Info("copy job created", "job", asked.Name, "mode", asked.Mode, "tasks", len(asked.Tasks))
	one.held = false
	j.scheduleLocked()
	return one.state.Clone(), nil
}

// again returns the result of creating a job that exists already.
func (j *Jobs) again(known *job, asked *resource.CopyJob) (resource.CopyJob, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if known.state.SameRequest(asked) {
		return known.state.Clone(), nil
	}
	return resource.CopyJob{}, status.New(status.CodeConflict, 0, "Another copy job has the name %q. Choose another name.", asked.Name)
}

// resolve finds the containers of a job.
func (j *Jobs) resolve(ctx context.Context, asked *resource.CopyJob) error {
	view := j.cfg.Catalog.View()
	for i := range asked.Tasks {
		t := &asked.Tasks[i]
		for _, end := range []*resource.CopyEnd{&t.Source, &t.Target} {
			c, found := view.Container(end.Database, end.Container)
			if !found {
				return status.New(status.CodeNotFound, status.SubOwnerNotFound, "Owner resource does not exist: the container %s does not exist. A copy job does not create containers.", end)
			}
			if c.IsTable() {
				return status.BadRequest("The container %s is a table of the Cassandra API. Copy jobs copy containers of documents.", end)
			}
			end.RID = c.RID
		}
		if !asked.Mirror {
			continue
		}
		stats, err := j.cfg.Engine.PartitionStats(ctx, auth.Owner(), link(t.Target))
		if err != nil {
			return err
		}
		for _, p := range stats {
			if p.Documents > 0 {
				return status.New(status.CodeConflict, 0, "The container %s is not empty. A mirror removes what its source does not have, so it begins with an empty container.", t.Target)
			}
		}
	}
	return nil
}

// insert adds a new job to the list, held and with its token taken; known is the
// job that already has its name.
func (j *Jobs) insert(asked resource.CopyJob) (one, known *job, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if known, found := j.jobs[asked.Name]; found {
		return nil, known, nil
	}
	if j.closed {
		return nil, nil, status.Unavailable(nil, "The server is closing.")
	}
	kept := 0
	for _, other := range j.jobs {
		if other.state.Status.Ended() {
			continue
		}
		kept++
		for _, t := range asked.Tasks {
			for _, o := range other.state.Tasks {
				if t.Target.RID == o.Target.RID {
					return nil, nil, status.New(status.CodeConflict, 0, "The copy job %q still fills the container %s. Cancel it or wait for its end.", other.state.Name, t.Target)
				}
			}
		}
	}
	if kept >= resource.CopyJobsMax {
		return nil, nil, status.Forbidden(0, "There are %d copy jobs that have not ended, which is the maximum. Cancel one first.", kept)
	}
	j.last++
	asked.Number, asked.Status = j.last, resource.CopyPending
	asked.Created = j.now().UTC()
	asked.Updated = asked.Created
	one = newJob(asked)
	<-one.turn
	one.held = true
	j.jobs[asked.Name] = one
	return one, nil, nil
}

// makeRoom removes the oldest jobs that have ended if there are too many.
func (j *Jobs) makeRoom() error {
	j.mu.Lock()
	var gone []string
	for _, one := range j.orderedLocked() {
		if len(j.jobs) > resource.CopyJobsMax && one.state.Status.Ended() && !one.held {
			gone = append(gone, one.state.Name)
			delete(j.jobs, one.state.Name)
		}
	}
	j.mu.Unlock()
	for _, name := range gone {
		if err := j.cfg.Catalog.DeleteCopyJob(name); err != nil {
			return err
		}
	}
	return nil
}

// Get returns the current state of a job. An unknown job is status 404.
func (j *Jobs) Get(caller auth.Caller, name string) (resource.CopyJob, error) {
	if err := caller.Allow(auth.Administer, status.Path{}); err != nil {
		return resource.CopyJob{}, err
	}
	one, found := j.find(name)
	if !found {
		return resource.CopyJob{}, noJob(name)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return one.state.Clone(), nil
}

// List returns all jobs, oldest first.
func (j *Jobs) List(caller auth.Caller) ([]resource.CopyJob, error) {
	if err := caller.Allow(auth.Administer, status.Path{}); err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]resource.CopyJob, 0, len(j.jobs))
	for _, one := range j.orderedLocked() {
		all = append(all, one.state.Clone())
	}
	return all, nil
}

// Pause stops a job until Resume. It is status 409 if the job has ended or is
// faulted.
func (j *Jobs) Pause(ctx context.Context, caller auth.Caller, name string) (resource.CopyJob, error) {
	return j.change(ctx, caller, name, func(state *resource.CopyJob) (bool, error) {
		switch {
		case state.Status == resource.CopyPaused:
			return false, nil
		case !state.Status.Active():
			return false, notNow(state, "paused")
		}
		state.Status = resource.CopyPaused
		return true, nil
	})
}

// Resume continues a paused job, and retries a faulted one from where it
// stopped. It is status 409 if the job has ended.
func (j *Jobs) Resume(ctx context.Context, caller auth.Caller, name string) (resource.CopyJob, error) {
	return j.change(ctx, caller, name, func(state *resource.CopyJob) (bool, error) {
		switch {
		case state.Status.Active():
			return false, nil
		case state.Status.Ended():
			return false, notNow(state, "resumed")
		}
		state.Status, state.Error = resource.CopyPending, nil
		return true, nil
	})
}

// Cancel ends a job; what it has copied stays. It is status 409 if the job has
// completed.
func (j *Jobs) Cancel(ctx context.Context, caller auth.Caller, name string) (resource.CopyJob, error) {
	return j.change(ctx, caller, name, func(state *resource.CopyJob) (bool, error) {
		switch state.Status {
		case resource.CopyCancelled:
			return false, nil
		case resource.CopyCompleted:
			return false, notNow(state, "cancelled")
		}
		state.Status = resource.CopyCancelled
		return true, nil
	})
}

// Complete makes an online job copy all changes up to now, and end. It is status
// 409 unless the job is running or waiting, and status 400 for an offline job,
// which ends by itself.
func (j *Jobs) Complete(ctx context.Context, caller auth.Caller, name string) (resource.CopyJob, error) {
	return j.change(ctx, caller, name, func(state *resource.CopyJob) (bool, error) {
		switch {
		case state.Mode != resource.CopyOnline:
			return false, status.BadRequest("The copy job %q is offline: it completes by itself.", state.Name)
		case !state.Status.Active():
			return false, notNow(state, "completed")
		case state.Completing:
			return false, nil
		}
		state.Status, state.Completing = resource.CopyPending, true
		return true, nil
	})
}

func noJob(name string) error {
	return status.New(status.CodeNotFound, 0, "There is no copy job %.100q.", name)
}

func notNow(state *resource.CopyJob, what string) error {
	return status.New(status.CodeConflict, 0, "The copy job %q is %s and cannot be %s.", state.Name, state.Status, what)
}

// change stops a job, changes it, stores it, and starts it again if it should
// run. apply reports whether it has changed anything. It is called twice,
// because the job may have ended while it was being stopped.
func (j *Jobs) change(ctx context.Context, caller auth.Caller, name string, apply func(*resource.CopyJob) (bool, error)) (resource.CopyJob, error) {
	if err := caller.Allow(auth.Administer, status.Path{}); err != nil {
		return resource.CopyJob{}, err
	}
	one, found := j.find(name)
	if !found {
		return resource.CopyJob{}, noJob(name)
	}
	select {
	case <-one.turn:
		defer func() { one.turn <- struct{}{} }()
	case <-ctx.Done():
		return resource.CopyJob{}, status.New(status.CodeRequestTimeout, 0, "Another change of the copy job %q takes too long.", name)
	}
	j.mu.Lock()
	trial, current := one.state.Clone(), one.run
	if changed, err := apply(&trial); !changed || err != nil {
		j.mu.Unlock()
		return trial, err
	}
	one.held = true
	j.mu.Unlock()
	if current != nil {
		current.cancel()
		<-current.done
	}
	return j.changeStopped(one, apply)
}

// changeStopped changes a job that no goroutine works on, and releases it.
func (j *Jobs) changeStopped(one *job, apply func(*resource.CopyJob) (bool, error)) (resource.CopyJob, error) {
	j.mu.Lock()
	next := one.state.Clone()
	j.mu.Unlock()
	before := next.Status
	changed, err := apply(&next)
	if changed && err == nil {
		next.Updated = j.now().UTC()
		err = j.save(&next)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		one.state = next
		j.cfg.Logger.Info("copy job changed", "job", next.Name, "from", before, "to", next.Status, "completing", next.Completing)
	} else if one.state.Status == resource.CopyRunning {
		one.state.Status = resource.CopyPending
	}
	one.held = false
	j.scheduleLocked()
	return one.state.Clone(), err
}

func (j *Jobs) find(name string) (*job, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	one, found := j.jobs[name]
	return one, found
}

// orderedLocked returns all jobs, oldest first.
func (j *Jobs) orderedLocked() []*job {
	all := make([]*job, 0, len(j.jobs))
	for _, one := range j.jobs {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *job) int { return cmp.Compare(a.state.Number, b.state.Number) })
	return all
}

// scheduleLocked starts the jobs whose turn it is.
func (j *Jobs) scheduleLocked() {
	if j.closed {
		return
	}
	all := j.orderedLocked()
	free := j.cfg.Parallel
	for _, one := range all {
		if one.slot {
			free--
		}
	}
	for _, one := range all {
		if one.state.Status != resource.CopyPending || one.held || one.run != nil {
			continue
		}
		if !one.state.CaughtUp {
			if free <= 0 {
				continue
			}
			free--
			one.slot = true
		}
		j.startLocked(one)
	}
}

func (j *Jobs) startLocked(one *job) {
	ctx, cancel := context.WithCancel(j.ctx)
	one.run = &run{cancel: cancel, done: make(chan struct{})}
	one.state.Status = resource.CopyRunning
	j.running.Go(func() {
		defer cancel()
		j.ended(ctx, one, j.work(ctx, one))
	})
}

// ended stores the result of a run, and starts the next waiting job.
func (j *Jobs) ended(ctx context.Context, one *job, err error) {
	j.mu.Lock()
	state := &one.state
	switch {
	case err == nil:
		state.Status = resource.CopyCompleted
		for i := range state.Tasks {
			state.Tasks[i].Total = state.Tasks[i].Processed
		}
	case ctx.Err() == nil:
		state.Status = resource.CopyFaulted
		state.Error = &resource.CopyError{Code: status.CodeOf(err).String(), Message: reason(err)}
	}
	state.Updated = j.now().UTC()
	done := state.Clone()
	j.mu.Unlock()

	switch done.Status {
	case resource.CopyCompleted:
		j.cfg.Logger.Info("copy job completed", "job", done.Name, "processed", done.Processed(), "took", done.Worked)
	case resource.CopyFaulted:
		j.logFault(done.Name, err)
	}
	if err := j.save(&done); err != nil {
		// The catalog accepts no more changes until the next start; the job then
		// continues from its last checkpoint.
		j.cfg.Logger.Error("copy job not stored", "job", done.Name, "err", err)
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	close(one.run.done)
	one.run, one.slot = nil, false
	j.scheduleLocked()
}

// logFault logs why a job is faulted. The error about a document names its id
// and key, which belong to the owner: the job contains them, but the log gets
// only the code.
func (j *Jobs) logFault(name string, err error) {
	if status.From(err) == nil {
		j.cfg.Logger.Error("copy job faulted", "job", name, "err", err)
		return
	}
	j.cfg.Logger.Warn("copy job faulted", "job", name, "code", status.CodeOf(err), "sub", status.SubOf(err))
}

// reason returns the text of an error for the owner of the job.
func reason(err error) string {
	if e := status.From(err); e != nil {
		return e.Message
	}
	return "An internal error occurred. The log of the server has the reason."
}

// save stores a job.
func (j *Jobs) save(state *resource.CopyJob) error {
	if err := j.step("save"); err != nil {
		return err
	}
	if err := j.cfg.Catalog.PutCopyJob(state); err != nil {
		return fmt.Errorf("store copy job %s: %w", state.Name, err)
	}
	return j.step("saved")
}

func (j *Jobs) step(name string) error {
	if j.cfg.step == nil {
		return nil
	}
	return j.cfg.step(name)
}

func link(end resource.CopyEnd) engine.Link {
	return engine.Link{Database: end.Database, Container: end.Container}
}
