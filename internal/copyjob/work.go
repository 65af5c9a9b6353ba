package copyjob

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"golang.org/x/sync/errgroup"
)

// work runs a job until it has ended. It is the goroutine of the job, and the
// only one that stores its progress.
func (j *Jobs) work(ctx context.Context, one *job) error {
	w, err := j.newWorker(one)
	if err != nil {
		return err
	}
	if err := w.prepare(ctx); err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- w.copy(work) }()
	ticker := time.NewTicker(j.cfg.Checkpoint)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			w.gather()
			return err
		case <-ticker.C:
			if err := w.checkpoint(work); err != nil {
				stop()
				<-done
				return err
			}
		}
	}
}

// worker works on one job.
type worker struct {
	*Jobs
	job    *job
	tasks  []*task
	writes chan struct{} // bounds the number of concurrent writes

	// The parts of the job's state that do not change while it runs.

	workers      int
	skip, mirror bool
	online       bool // follow the changes until Complete

	counted time.Time // the job's time is counted up to here
}

// task is a pair of containers during a run.
type task struct {
	index          int
	source, target *catalog.Container // as they were when the run began; their keys and names never change
	copies, sweep  pass
	distinct       bool // different documents of the source are different in the target
}

// pass reads a container's feed once.
type pass struct {
	of      *catalog.Container
	process func(ctx context.Context, row []byte) (outcome, error) // processes one document

	parts []*resource.CopyRange // guarded by Jobs.mu; removed parts stay removed
}

// outcome is the result of processing a document.
type outcome struct {
	writeCharge, readCharge float64 // request units, in the target and, apart from the feed, in the source
	removed                 bool
	failure                 *resource.CopyFailure // it could not be copied, and is skipped
}

// newWorker finds the containers of a job that is about to run.
func (j *Jobs) newWorker(one *job) (*worker, error) {
	j.mu.Lock()
	state := one.state.Clone()
	j.mu.Unlock()
	w := &worker{
		Jobs: j, job: one,
		writes:  make(chan struct{}, state.Workers),
		workers: state.Workers, skip: state.Skip, mirror: state.Mirror,
		online:  state.Mode == resource.CopyOnline && !state.Completing,
		counted: j.now(),
	}
	view := j.cfg.Catalog.View()
	for i, stored := range state.Tasks {
		source, found := view.ContainerByRID(stored.Source.RID)
		if !found {
			return nil, gone(stored.Source)
		}
		target, found := view.ContainerByRID(stored.Target.RID)
		if !found {
			return nil, gone(stored.Target)
		}
		t := &task{index: i, source: source, target: target, distinct: distinct(source, target)}
		t.copies = pass{of: source, process: w.copier(t), parts: pointers(stored.Ranges)}
		t.sweep = pass{of: target, process: w.sweeper(t), parts: pointers(stored.Sweep)}
		w.tasks = append(w.tasks, t)
	}
	return w, nil
}

func gone(end resource.CopyEnd) error {
	return status.New(status.CodeNotFound, status.SubOwnerNotFound, "Owner resource does not exist: the container %s was deleted.", end)
}

func pointers(ranges []resource.CopyRange) []*resource.CopyRange {
	all := make([]*resource.CopyRange, len(ranges))
	for i := range ranges {
		all[i] = &ranges[i]
	}
	return all
}

// prepare determines the ranges of a job that begins, and their ends if they are
// known, and stores both before any document is copied.
func (w *worker) prepare(ctx context.Context) error {
	for _, t := range w.tasks {
		if err := w.layOut(ctx, &t.copies); err != nil {
			return err
		}
	}
	if err := w.step("laid out"); err != nil {
		return err
	}
	return w.checkpoint(ctx)
}

// layOut divides the container of a pass along its partitions if that has not
// been done. If the pass must end, it records where each part ends: at the
// current end of its feed. A range without documents ends immediately.
func (w *worker) layOut(ctx context.Context, p *pass) error {
	if len(p.parts) == 0 {
		w.update(func(*resource.CopyJob) {
			for _, one := range w.current(p.of).Partitions() {
				p.parts = append(p.parts, &resource.CopyRange{Range: one.Range})
			}
		})
	}
	if w.online {
		return nil
	}
	for i := 0; i < len(p.parts); i++ {
		part := p.parts[i]
		for tries := 0; part.Stop == 0 && !part.Done; tries++ {
			if tries > transientMax {
				return status.Unavailable(nil, "The partitions of %s/%s change too fast to tell where their feeds end.", p.of.Database.ID, p.of.ID)
			}
			w.divide(p, part)
			page, err := w.feed(ctx, p, part, "*")
			if status.CodeOf(err) != status.CodeNotModified && err != nil {
				return err
			}
			if end, whole := position(page.ETag); whole { // otherwise it has just been split
				w.update(func(*resource.CopyJob) { part.Stop, part.Done = max(end, 1), end == 0 })
			}
		}
	}
	return nil
}

// current returns the current version of a container, because its partitions
// change.
func (w *worker) current(c *catalog.Container) *catalog.Container {
	if now, found := w.cfg.Catalog.View().ContainerByRID(c.RID); found {
		return now
	}
	return c // requests to it will return that it does not exist
}

// divide divides a part along the current partitions, so that each piece has its
// own position, and returns the other pieces.
func (w *worker) divide(p *pass, part *resource.CopyRange) (rest []*resource.CopyRange) {
	entries := w.current(p.of).Ranges.Overlapping(part.Range)
	if len(entries) < 2 {
		return nil
	}
	w.update(func(*resource.CopyJob) {
		whole := *part
		for i, entry := range entries {
			piece := whole
			piece.Range, _ = entry.Range.Intersect(whole.Range)
			if i == 0 {
				*part = piece
				continue
			}
			rest = append(rest, &piece)
		}
		p.parts = append(p.parts, rest...)
	})
	return rest
}

// copy reads the sources in turn until they are copied, then completes a mirror.
func (w *worker) copy(ctx context.Context) error {
	for {
		for _, t := range w.tasks {
			if err := w.round(ctx, t, &t.copies); err != nil {
				return err
			}
		}
		if !w.online {
			break
		}
		if err := w.caughtUp(); err != nil {
			return err
		}
		if err := pacing.Sleep(ctx, w.cfg.Poll); err != nil {
			return err
		}
	}
	if w.mirror {
		for _, t := range w.tasks {
			if err := w.mirrorTask(ctx, t); err != nil {
				return err
			}
		}
	}
	w.update(func(state *resource.CopyJob) {
		for i := range state.Tasks {
			state.Tasks[i].Done = true
		}
	})
	return w.step("copied")
}

// mirrorTask removes documents from a target that its source no longer has.
func (w *worker) mirrorTask(ctx context.Context, t *task) error {
	if err := w.layOut(ctx, &t.sweep); err != nil {
		return err
	}
	return w.round(ctx, t, &t.sweep)
}

// caughtUp records that an online job has reached the end of the feed, and
// releases its slot for the next job.
func (w *worker) caughtUp() error {
	w.mu.Lock()
	if !w.job.state.CaughtUp {
		w.job.state.CaughtUp, w.job.slot = true, false
		w.scheduleLocked()
	}
	w.mu.Unlock()
	return w.step("caught up")
}

// round follows every part of a pass to the end of its feed, several
// concurrently.
func (w *worker) round(ctx context.Context, t *task, p *pass) error {
	w.mu.Lock()
	var open []*resource.CopyRange
	for _, part := range p.parts {
		if !part.Done {
			open = append(open, part)
		}
	}
	w.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(w.workers)
	for _, part := range open {
		group.Go(func() error { return w.follow(ctx, t, p, part) })
	}
	return group.Wait()
}

// follow processes the documents of a part until its feed has no more for now,
// or the part ends. If its partition is split, it continues with each piece.
func (w *worker) follow(ctx context.Context, t *task, p *pass, part *resource.CopyRange) error {
	open := []*resource.CopyRange{part}
	for len(open) > 0 {
		part = open[len(open)-1]
		open = append(open[:len(open)-1:len(open)-1], w.divide(p, part)...)
		more, err := w.page(ctx, t, p, part)
		if err != nil {
			return err
		}
		if more {
			open = append(open, part)
		}
	}
	return nil
}

// page reads a page of a part, processes each document, and only then advances
// the position of the part.
func (w *worker) page(ctx context.Context, t *task, p *pass, part *resource.CopyRange) (more bool, err error) {
	page, err := w.feed(ctx, p, part, part.After)
	ended := status.CodeOf(err) == status.CodeNotModified
	if err != nil && !ended {
		return false, err
	}
	if err := w.step("page read"); err != nil {
		return false, err
	}
	results, err := w.processAll(ctx, p, page.Rows)
	if err != nil {
		return false, err
	}
	if err := w.step("page written"); err != nil {
		return false, err
	}
	w.update(func(state *resource.CopyJob) {
		part.After = page.ETag
		reached, whole := position(page.ETag)
		part.Done = part.Stop > 0 && (ended || whole && reached >= part.Stop)
		more = !ended && !part.Done
		if p == &t.copies {
			state.Tasks[t.index].Processed += int64(len(page.Rows))
			state.Tasks[t.index].ReadCharge += page.Charge
		} else {
			state.Tasks[t.index].WriteCharge += page.Charge
		}
		count(state, t.index, results)
	})
	return more, w.step("moved")
}

// processAll processes the documents of a page concurrently. They are different
// documents, so their order does not matter.
func (w *worker) processAll(ctx context.Context, p *pass, rows [][]byte) ([]outcome, error) {
	results := make([]outcome, len(rows))
	group, ctx := errgroup.WithContext(ctx)
	for i, row := range rows {
		select {
		case w.writes <- struct{}{}:
		case <-ctx.Done(): // one of them has failed, or the job is stopped; either way the page is not complete
			return nil, errors.Join(group.Wait(), ctx.Err())
		}
		group.Go(func() (err error) {
			defer func() { <-w.writes }()
			results[i], err = p.process(ctx, row)
			return err
		})
	}
	return results, group.Wait()
}

// count adds the results of the documents of a page.
func count(state *resource.CopyJob, index int, results []outcome) {
	t := &state.Tasks[index]
	for _, d := range results {
		t.ReadCharge += d.readCharge
		t.WriteCharge += d.writeCharge
		if d.removed {
			t.Removed++
		}
		if d.failure != nil {
			state.Skipped++
			if len(state.Failures) < resource.CopyFailuresMax {
				state.Failures = append(state.Failures, *d.failure)
			}
		}
	}
}

// feed reads a page of a part after a position. It waits while the budget of the
// partition is used up.
func (w *worker) feed(ctx context.Context, p *pass, part *resource.CopyRange, after resource.ETag) (page engine.Feed, err error) {
	err = w.retryTransient(ctx, func() error {
		clip := part.Range
		page, err = w.cfg.Engine.Feed(ctx, auth.Owner(), engine.FeedRequest{
			Link:     linkOf(p.of),
			Clip:     &clip,
			After:    after,
			MaxItems: w.cfg.PageItems,
			Options:  optionsOf(p.of),
		})
		return err
	})
	return page, err
}

func linkOf(c *catalog.Container) engine.Link {
	return engine.Link{Database: c.Database.ID, Container: c.ID}
}

// optionsOf makes the engine refuse another container with the same name.
func optionsOf(c *catalog.Container) engine.Options {
	return engine.Options{IntendedRID: c.RID.String()}
}

// position returns the LSN of a position if it is one for its whole scope.
func position(etag resource.ETag) (resource.LSN, bool) {
	lsn, err := strconv.ParseUint(strings.Trim(string(etag), `"`), 10, 64)
	return resource.LSN(lsn), err == nil
}

const (
	// transientMax is how many times a transient failure is retried, with delays
	// that double from pauseMin to pauseMax: half a minute in total.
	transientMax = 8
	pauseMin     = 100 * time.Millisecond
	pauseMax     = 10 * time.Second
)

// retryTransient calls do until it succeeds or fails permanently. It waits for a
// budget that is used up, and for room on the disk, as long as necessary.
func (w *worker) retryTransient(ctx context.Context, do func() error) error {
	pause := pauseMin
	for failed := 0; ; {
		err := do()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait := pause
		switch status.CodeOf(err) {
		case status.CodeTooManyRequests:
			if e := status.From(err); e.RetryAfter > 0 {
				wait = e.RetryAfter
			}
		case status.CodeInsufficientStorage: // The job continues once there is room.
			pause = min(2*pause, pauseMax)
		case status.CodeRequestTimeout, status.CodeGone, status.CodeRetryWith, status.CodeUnavailable:
			if failed++; failed > transientMax {
				return err
			}
			pause = min(2*pause, pauseMax)
		default:
			return err
		}
		if err := pacing.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// update changes the job's state, or that of a pass.
func (w *worker) update(change func(*resource.CopyJob)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.job.state)
}

// gather copies the positions of all parts to the job's state.
func (w *worker) gather() {
	w.update(func(state *resource.CopyJob) {
		for i, t := range w.tasks {
			state.Tasks[i].Ranges = values(t.copies.parts)
			state.Tasks[i].Sweep = values(t.sweep.parts)
		}
		now := w.now()
		state.Worked += now.Sub(w.counted)
		state.Updated, w.counted = now.UTC(), now
	})
}

func values(parts []*resource.CopyRange) []resource.CopyRange {
	all := make([]resource.CopyRange, len(parts))
	for i, part := range parts {
		all[i] = *part
	}
	slices.SortFunc(all, func(a, b resource.CopyRange) int { return a.Range.Min.Compare(b.Range.Min) })
	return all
}

// checkpoint stores the progress of the job.
func (w *worker) checkpoint(ctx context.Context) error {
	left, err := w.left(ctx)
	if err != nil {
		return err
	}
	w.gather()
	w.mu.Lock()
	for i := range w.tasks {
		w.job.state.Tasks[i].Total = w.job.state.Tasks[i].Processed + left[i]
	}
	state := w.job.state.Clone()
	w.mu.Unlock()
	return w.save(&state)
}

// left returns an upper bound of the documents that each task must still
// process: the feed of a partition has one row per document, and no more rows
// after a position than the LSN has increased since.
func (w *worker) left(ctx context.Context) ([]int64, error) {
	left := make([]int64, len(w.tasks))
	for i, t := range w.tasks {
		var stats []engine.PartitionStats
		err := w.retryTransient(ctx, func() (err error) {
			stats, err = w.cfg.Engine.PartitionStats(ctx, auth.Owner(), linkOf(t.source))
			return err
		})
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		for _, s := range stats {
			for _, part := range t.copies.parts {
				if part.Done || !part.Range.Overlaps(s.Partition.Range) {
					continue
				}
				end := s.LSN
				if part.Stop > 0 {
					end = min(end, part.Stop)
				}
				reached, _ := position(part.After)
				left[i] += min(s.Documents, int64(end-min(end, reached)))
			}
		}
		w.mu.Unlock()
	}
	return left, nil
}
