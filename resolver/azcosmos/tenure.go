package azcosmos

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/decandb/decan/resolver"
)

// tenure is a Mover's hold of a move. Only its holder changes items for the move.
//
// The saved progress names the holder, who saves it again and again while it lives. A
// holder that could not save for a lease changes nothing more, and what it sent by then
// is over after the timeout of a request. So whoever saw the progress lie still for
// lease and timeout together may take over by saving it under its own name: what the
// one before left behind is at rest, even if it was only paused and comes back.
type tenure struct {
	store   resolver.Store
	name    string // of the progress
	owner   string
	lease   time.Duration
	timeout time.Duration
	pulse   time.Duration // from one beat to the next
	now     func() time.Time

	mu      sync.Mutex // one save at a time
	saved   Progress   // guarded by mu; its slices are not shared
	version string     // of saved in the store; guarded by mu
	at      time.Time  // when the last save that succeeded began; guarded by mu
}

// errMoved ends a step whose state was changed by somebody else, as Undo does.
var errMoved = errors.New("the state has changed during the step")

// newOwner names a Mover.
func newOwner() string { return rand.Text() }

// save keeps the progress under the holder's name. ErrChanged says that somebody else
// holds the move now.
func (t *tenure) save(ctx context.Context, progress *Progress) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	progress.Owner = t.owner
	progress.Revision = t.saved.Revision + 1
	return t.putLocked(ctx, *progress)
}

func (t *tenure) putLocked(ctx context.Context, progress Progress) error {
	document, err := json.Marshal(progress)
	if err != nil {
		return err
	}
	began := t.now()
	version, err := t.store.Save(ctx, t.name, document, t.version)
	if errors.Is(err, resolver.ErrChanged) && t.holdsLocked(ctx) {
		version, err = t.store.Save(ctx, t.name, document, t.version)
	}
	if err != nil {
		return fmt.Errorf("save the progress: %w", err)
	}
	progress.Scans, progress.Pairs = slices.Clone(progress.Scans), slices.Clone(progress.Pairs)
	t.saved, t.version, t.at = progress, version, began
	return nil
}

// holdsLocked reports whether it was the holder itself who changed the stored progress,
// by a save whose answer never came, and takes note of that version. The end of a step may
// cut a beat off, and a connection break.
func (t *tenure) holdsLocked(ctx context.Context) bool {
	document, version, err := t.store.Load(ctx, t.name)
	var stored Progress
	if err != nil || json.Unmarshal(document, &stored) != nil || stored.Owner != t.owner {
		return false
	}
	t.version = version
	return true
}

// adopt goes on from the progress that is stored under the holder's name.
func (t *tenure) adopt(progress Progress, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saved, t.version = progress, version
}

// beat saves what was saved last once more.
func (t *tenure) beat(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	progress := t.saved
	progress.Revision++
	return t.putLocked(ctx, progress)
}

// snapshot returns what was saved last. Its slices are the caller's.
func (t *tenure) snapshot() Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	progress := t.saved
	progress.Scans, progress.Pairs = slices.Clone(progress.Scans), slices.Clone(progress.Pairs)
	return progress
}

// lapsed reports whether the last save is too old to act by.
func (t *tenure) lapsed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return resolver.Elapsed(t.at, t.now()) >= t.lease
}

// permit allows one request that changes an item, and bounds it in time.
func (t *tenure) permit(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if t.lapsed() {
		if err := t.beat(ctx); err != nil {
			return nil, nil, err
		}
		if t.lapsed() {
			return nil, nil, fmt.Errorf("%w: saving the progress takes longer than the lease of %v", resolver.ErrStale, t.lease)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	return ctx, cancel, nil
}

// keep beats until stop is called, which waits for the last beat. The returned context
// ends, with the reason as its cause, when the move is lost or its state is no longer
// of the given version.
func (t *tenure) keep(ctx context.Context, state, version string) (kept context.Context, stop func()) {
	kept, cancel := context.WithCancelCause(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(t.pulse)
		defer ticker.Stop()
		for {
			select {
			case <-kept.Done():
				return
			case <-ticker.C:
			}
			// Other errors of the store count when permit runs out.
			err := t.beat(kept)
			if errors.Is(err, resolver.ErrChanged) {
				cancel(err)
			}
			if _, present, err := t.store.Load(kept, state); err == nil && present != version {
				cancel(errMoved)
			}
		}
	})
	return kept, func() {
		cancel(nil)
		done.Wait()
	}
}

// release lets somebody else take the move without waiting. If it fails, they wait.
func (t *tenure) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.timeout)
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	progress := t.saved
	progress.Owner = ""
	progress.Revision++
	_ = t.putLocked(ctx, progress)
}

// take makes the Mover the holder of the move.
func (m *Mover) take(ctx context.Context, move string) error {
	progress, version, err := m.loadProgress(ctx)
	if err != nil && !errors.Is(err, resolver.ErrNotFound) {
		return err
	}
	if m.tenure != nil && progress.Owner == m.tenure.owner {
		m.tenure.adopt(progress, version)
		return nil
	}
	if progress.Owner != "" && progress.Move == move {
		if progress, version, err = m.watch(ctx, progress, version); err != nil {
			return err
		}
	}
	lease := m.config.Client.config.View.Lease()
	if lease <= 0 {
		lease = resolver.LeaseDefault
	}
	if progress.Move != move {
		progress = Progress{Version: progressVersion, Revision: progress.Revision, Move: move}
	}
	t := &tenure{
		store: m.config.Store, name: m.config.Name + "-move", owner: newOwner(),
		lease: lease, timeout: m.config.Client.config.Timeout, now: m.config.Now,
		pulse: max(cmp.Or(m.pulse, lease/3), time.Millisecond),
		saved: progress, version: version,
	}
	m.tenure = t // also if the answer is lost, for Run to let go
	return t.save(ctx, &progress)
}

// watch returns the progress of another Mover once that has been still for Takeover, or
// has let go of the move. It fails with ErrChanged when the other one is at work.
func (m *Mover) watch(ctx context.Context, progress Progress, version string) (Progress, string, error) {
	pause := max(min(m.config.Client.config.View.Lease(), m.config.Takeover)/4, time.Millisecond)
	for waited := time.Duration(0); waited < m.config.Takeover; waited += pause {
		if err := m.config.Client.sleep(ctx, pause); err != nil {
			return progress, version, err
		}
		now, present, err := m.loadProgress(ctx)
		if err != nil {
			return now, present, err
		}
		if now.Owner == "" || now.Move != progress.Move {
			return now, present, nil
		}
		if present != version {
			return now, present, fmt.Errorf("%w: another Mover is at work on the move %s", resolver.ErrChanged, progress.Move)
		}
	}
	return progress, version, nil
}
